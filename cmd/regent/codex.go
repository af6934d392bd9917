package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/wire"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// codexOptions are the flags of both ways to run Codex.
type codexOptions struct {
	program string
	silent  bool
}

func (o *codexOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.program, "codex", "codex", "the Codex to start, a `PROGRAM` or its path")
	flags.BoolVar(&o.silent, "silent", false, "do not tell the agent why something was denied")
	must(cmd.MarkFlagFilename("codex"))
}

type proxyOptions struct {
	codexOptions
	listen, tokenFile string
	strict, show      bool
}

func newCodex(a *app) *cobra.Command {
	o := &proxyOptions{}
	cmd := &cobra.Command{
		Use:   "codex [--listen ADDRESS] [-- ARGS...]",
		Short: "Run Codex's app-server, with its approvals decided by Regent",
		Long: `Run Codex's app-server and serve its clients in front of it: what the agent has to
be allowed is decided by policy, a reviewer or a person, and everything else passes
through as it is. A client is the Codex TUI (codex --remote ADDRESS), an editor
extension or a script.

Without --listen there is one client, on stdin and stdout, as codex app-server has.
ws://127.0.0.1:0 serves any number of clients on a port that is printed, and
unix:///path/to/socket on a socket; both speak WebSocket, as Codex does.

What waits for a person is answered with regent permission, or with --show in the
client as well. The daemon of the home is asked; where none runs, this command is
the daemon for as long as it lasts. ARGS go to codex app-server.

The client can ask Codex for a session in which nothing is asked: there is a warning
then, and with --strict a refusal. regent install codex sets Codex up to ask.`,
		Example: `  $ regent codex --listen unix://$PWD/codex.sock & codex --remote unix://$PWD/codex.sock; kill $!
  $ regent codex exec 'fix the failing test'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return usagef("unexpected argument %q%s; what is meant for Codex comes after --", args[0], didYouMean(cmd.SuggestionsFor(args[0])))
			}
			return nil
		},
		RunE: action(func(cmd *cobra.Command, args []string) error { return a.codex(cmd, o, args) }),
	}
	cmd.SuggestionsMinimumDistance = 2
	o.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "stdio://", "where clients come from: stdio://, ws://127.0.0.1:PORT or unix://`PATH`")
	flags.StringVar(&o.tokenFile, "token-file", "", "clients have to present the token in `FILE` (Authorization: Bearer)")
	flags.BoolVar(&o.strict, "strict", false, "refuse what the client asks for where Regent would not be asked about it")
	flags.BoolVar(&o.show, "show", false, "show what waits for a person in the client as well, whose user may answer")
	must(cmd.RegisterFlagCompletionFunc("listen", cobra.FixedCompletions([]string{"stdio://", "ws://127.0.0.1:0"}, cobra.ShellCompDirectiveNoFileComp)))
	cmd.Annotations = map[string]string{usageKey: "true"}
	exitsAs(cmd, map[int]string{exitDone: "the client has hung up, or it was told to end", exitFailed: "Codex could not be started, or ended by itself"},
		exitDone, exitFailed, exitUsage)
	cmd.AddCommand(newCodexExec(a))
	return cmd
}

func (a *app) codex(cmd *cobra.Command, o *proxyOptions, args []string) (err error) {
	ctx := cmd.Context()
	if err := withoutLayers(cmd, "the workspace above the call's cwd is found"); err != nil {
		return err
	}
	for _, arg := range args {
		if arg == "--listen" || strings.HasPrefix(arg, "--listen=") {
			return usagef("--listen is a flag of %s: write it before --", cmd.CommandPath())
		}
	}
	a.stderr = &lockedWriter{w: a.stderr}
	var clients *wire.Listener
	if o.listen != "stdio://" {
		var options wire.ListenOptions
		if o.tokenFile != "" {
			token, err := a.readSecret(o.tokenFile)
			if err != nil {
				return err
			}
			options.Token = token
		}
		if clients, err = wire.Listen(o.listen, options); err != nil {
			return badInput(err)
		}
		defer func() { _ = clients.Close() }()
	} else if o.tokenFile != "" {
		return usagef("--token-file has no meaning on stdio: whoever started this is the client")
	}
	c, stop, err := a.ownDaemon(ctx, cmd.CommandPath())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	program := codex.Program{Path: o.program, Args: args, Stderr: a.stderr}
	var server *codex.Process
	if clients == nil {
		server, err = program.Start()
	} else {
		server, err = program.Listen(ctx)
	}
	if err != nil {
		return a.noCodex(err)
	}
	defer func() { _ = server.Close() }()
	proxy, err := a.proxy(ctx, cmd.CommandPath(), &o.codexOptions, c, server)
	if err != nil {
		return err
	}
	proxy.Options.Strict, proxy.Show = o.strict, o.show
	if clients != nil {
		a.say(cmd.CommandPath(), "listening on: %s", clients.Address())
		return proxy.Serve(ctx, clients, server)
	}
	in := endless(a.stdin)
	defer func() { _ = in.Close() }()
	if err := proxy.Connect(ctx, wire.Lines(in, a.terminal, in.Close), server.Conn()); err != nil {
		return err
	}
	_ = server.Close()
	if err := server.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("codex app-server ended: %w", err)
	}
	return nil
}

// noCodex says what to do where Codex cannot be started.
func (a *app) noCodex(err error) error {
	if errors.Is(err, codex.ErrNoCodex) {
		return fmt.Errorf("%w\ninstall it (npm install -g @openai/codex), or name it with --codex", err)
	}
	return err
}

// proxy stands before a server, whose process counts as an agent from here on.
func (a *app) proxy(ctx context.Context, command string, o *codexOptions, c *client.Client, server *codex.Process) (*codex.Proxy, error) {
	folder, err := a.getwd()
	if err != nil {
		return nil, fmt.Errorf("find the workspace: %w", err)
	}
	asker := &daemonAsker{client: c, agent: server.PID()}
	hello := api.Question{Request: &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "codex"}}, Folder: folder, AgentPID: asker.agent}
	if _, err := c.Check(ctx, hello); err != nil {
		refusal, ok := errors.AsType[*api.Error](err)
		if !ok || refusal.Code != api.AgentPID {
			return nil, err
		}
		select {
		case <-server.Done():
			return nil, fmt.Errorf("codex app-server ended before it was asked anything: %w; is %s a Codex?", server.Ended(), o.program)
		default:
		}
		// Where processes cannot be told apart, whoever asks is an agent.
		asker.agent = 0
		a.say(command, "note: the daemon cannot tell the agent from this command (%s), so answers in the client do not count", refusal.Message)
	}
	return &codex.Proxy{
		Asker: asker, Folder: folder, Options: codex.Options{Silent: o.silent},
		Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}, nil
}

type execOptions struct {
	codexOptions
	model, sandbox string
}

func newCodexExec(a *app) *cobra.Command {
	o := &execOptions{}
	cmd := &cobra.Command{
		Use:   "exec PROMPT [-- ARGS...]",
		Short: "Have Codex do one thing, and report what was asked and decided",
		Long: `Have Codex do one thing in this folder, and report what was asked for meanwhile and
who decided. What waits for a person is answered with regent permission, from another
terminal. What only a user of Codex could answer, such as a form, is declined.

What the agent says is on stdout, the decisions are on stderr as they come. With
--output json there is one object in the end. The prompt - is read from stdin. ARGS go
to codex app-server.`,
		Example: `  $ regent codex exec 'fix the failing test'
  $ regent codex exec --sandbox read-only --output json 'what does this do?'`,
		Args: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 {
				dash = len(args)
			}
			if dash != 1 {
				return usagef("give one prompt, in quotes; what is meant for Codex comes after --")
			}
			return nil
		},
		RunE: action(func(cmd *cobra.Command, args []string) error { return a.codexExec(cmd, o, args[0], args[1:]) }),
	}
	o.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.model, "model", "", "the `MODEL`; without it the one that Codex is configured for")
	choiceVar(cmd, flags, &o.sandbox, "sandbox", "workspace-write", []string{"read-only", "workspace-write"}, "what commands may do without being asked about")
	must(cmd.RegisterFlagCompletionFunc("model", cobra.NoFileCompletions))
	exitsAs(cmd, map[int]string{exitDone: "the turn was completed, whatever was denied in it", exitFailed: "it was interrupted or failed"},
		exitDone, exitFailed, exitUsage)
	return cmd
}

// codexReport is the JSON form of what exec did.
type codexReport struct {
	codex.Outcome
	Requests []codexRequest `json:"requests"`
}

// codexRequest is one question of the agent.
type codexRequest struct {
	Kind approval.Kind `json:"kind"`
	// What is the request in a line; the record has it whole.
	What    string           `json:"what"`
	Outcome approval.Outcome `json:"outcome"`
	Source  approval.Source  `json:"source,omitempty"`
	By      string           `json:"by,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Record  string           `json:"record,omitempty"`
}

func (a *app) codexExec(cmd *cobra.Command, o *execOptions, prompt string, args []string) (err error) {
	ctx, command := cmd.Context(), cmd.CommandPath()
	if err := withoutLayers(cmd, "the workspace above the call's cwd is found"); err != nil {
		return err
	}
	if prompt == "-" {
		if prompt, err = a.readPrompt(); err != nil {
			return err
		}
	}
	a.stderr = &lockedWriter{w: a.stderr}
	c, stop, err := a.ownDaemon(ctx, command)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	server, err := codex.Program{Path: o.program, Args: args, Stderr: a.stderr}.Start()
	if err != nil {
		return a.noCodex(err)
	}
	defer func() { _ = server.Close() }()
	proxy, err := a.proxy(ctx, command, &o.codexOptions, c, server)
	if err != nil {
		return err
	}
	proxy.Options.Alone, proxy.Options.Strict = true, true
	var asked asked
	proxy.Observe = func(e harness.Event) { asked.add(a, command, e) }
	ours, theirs := harness.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- proxy.Connect(ctx, theirs, server.Conn()) }()
	turn := codex.Turn{
		Prompt: prompt, Cwd: proxy.Folder, Model: o.model, Sandbox: o.sandbox, Client: "regent", Version: readVersion().Version,
		Said: func(text string) {
			if !a.global.json() {
				fmt.Fprintln(a.stdout, printableLines(text))
				_ = a.flush() // a fault is told in the end
			}
		},
	}
	outcome, err := turn.Run(ctx, ours)
	if failed := <-ended; err == nil {
		err = failed
	}
	if err != nil {
		_ = server.Close()
		if ended := server.Err(); ended != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w (codex app-server: %w)", err, ended)
		}
		return err
	}
	if a.global.json() {
		if err := writeJSON(a.stdout, codexReport{outcome, asked.all()}, true); err != nil {
			return err
		}
	} else {
		a.say(command, "%s: %s", outcome.Status, asked.summary())
	}
	if outcome.Status != "completed" {
		if outcome.Error != "" {
			return fmt.Errorf("%w: %s", codex.ErrTurn, outcome.Error)
		}
		return fmt.Errorf("%w: it is %s", codex.ErrTurn, outcome.Status)
	}
	return nil
}

// printableLines is text of the agent for a terminal, line by line.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}

// asked are the questions of a turn, in the order in which they were answered.
type asked struct {
	mu       sync.Mutex
	requests []codexRequest
}

// add takes what became of a question, and tells people.
func (q *asked) add(a *app, command string, e harness.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	what := describe(e.Question.Request)
	if e.Answer.Outcome == "" {
		a.say(command, "%s waits for somebody to answer: %s", e.Answer.Record.ID, what)
		a.say(command, "  regent permission info %s shows it, regent permission decide %s answers", e.Answer.Record.ID, e.Answer.Record.ID)
		return
	}
	one := codexRequest{Kind: e.Question.Request.Kind, What: what, Outcome: e.Answer.Outcome, Reason: e.Answer.Reason}
	if r := e.Answer.Record; r != nil {
		one.Record = r.ID
		if d := r.Decision; d != nil {
			one.Source, one.By, one.Reason = d.Source, d.By, d.Reason
		}
	}
	if one.Reason == "" && len(e.Answer.Ruling.Reasons) > 0 {
		one.Reason = e.Answer.Ruling.Reasons[0]
	}
	q.requests = append(q.requests, one)
	line := fmt.Sprintf("%s  %s", strings.ToUpper(string(one.Outcome)), what)
	if one.Source != "" {
		line += "  (" + string(one.Source)
		if one.By != "" {
			line += " " + one.By
		}
		line += ")"
	}
	if one.Reason != "" {
		line += ": " + one.Reason
	}
	a.say(command, "%s", line)
}

func (q *asked) all() []codexRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]codexRequest{}, q.requests...)
}

func (q *asked) summary() string {
	counts := map[approval.Outcome]int{}
	for _, r := range q.all() {
		counts[r.Outcome]++
	}
	text := plural(len(q.all()), "request")
	for _, o := range []approval.Outcome{approval.OutcomeAllow, approval.OutcomeDeny, approval.OutcomeCancel} {
		if counts[o] > 0 {
			text += fmt.Sprintf(", %d %s", counts[o], map[approval.Outcome]string{
				approval.OutcomeAllow: "allowed", approval.OutcomeDeny: "denied", approval.OutcomeCancel: "cancelled",
			}[o])
		}
	}
	return text
}

// maxPrompt bounds a prompt from stdin.
const maxPrompt = 1 << 20

// readPrompt reads the prompt from stdin.
func (a *app) readPrompt() (string, error) {
	text, err := io.ReadAll(io.LimitReader(a.stdin, maxPrompt+1))
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	if len(text) > maxPrompt {
		return "", usagef("the prompt on stdin is longer than %d bytes", maxPrompt)
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return "", usagef("the prompt on stdin is empty")
	}
	return string(text), nil
}
