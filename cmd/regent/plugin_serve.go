package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/evaluator"
	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
	"github.com/regent-policy/regent/server/peer"
)

// maxEpochs is how many workspaces stay compiled in a process that a host has
// loaded: each may take tens of megabytes.
const maxEpochs = 16

func newPluginServe(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Be a plugin: let a host of agents load the evaluator",
		Long: `Be a plugin: let a host of agents load the evaluator. A host starts this command by
HashiCorp's go-plugin and asks over gRPC what policy says of a call, has calls
decided, and answers; docs/plugin-host.md tells how. By hand it is of no use.

Rulings are made in this process. Decisions are the daemon's, if one of the home
runs; if none does, policy alone decides, whatever it leaves to a reviewer or a
person is denied, and nothing is recorded.

--workspace names the workspace of calls that name none. It is trusted for rulings
as by regent check; the daemon trusts it if its owner has said so (regent trust).`,
		Example: `  $ regent plugin serve || true
  $ regent plugin serve --workspace . || true`,
		Args: noArgs("a host asks over gRPC"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.pluginServe(cmd) }),
	}
	exitsAs(cmd, map[int]string{exitDone: "the host has no more use for it, or is gone", exitUsage: "no host has started it, or one that does not use mutual TLS"},
		exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) pluginServe(cmd *cobra.Command) error {
	if cmd.Flags().Changed("organization") {
		// The daemon would not hear of it, and decide by less than the host was told.
		return usagef("--organization has no meaning for %s; set policy.organization.path in the home's config.yaml", cmd.CommandPath())
	}
	// An interrupt is for the host, which ends this process when it is done.
	ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), syscall.SIGTERM)
	defer stop()
	a.stderr = &lockedWriter{w: a.stderr}
	e, err := a.newEvaluator(cmd.CommandPath())
	if err != nil {
		return err
	}
	err = evaluator.Serve(ctx, e)
	if errors.Is(err, evaluator.ErrNotLoaded) || errors.Is(err, evaluator.ErrInsecure) {
		return badInput(fmt.Errorf("%w; see docs/plugin-host.md", err))
	}
	return err
}

// localEvaluator rules in this process, and has the daemon of the home decide.
type localEvaluator struct {
	app     *app
	command string
	home    string
	// workspace is the folder of calls that name none, as it was named; "" finds it.
	workspace string
	// host is the process that asks through this one, 0 where it cannot be told.
	host  int
	trust *gate.Trust
	// slots bound how many evaluations run at once: their deadline is for work, and
	// not for waiting for a processor.
	slots chan struct{}

	mu    sync.Mutex
	made  map[epochKey]*madeEpoch
	used  uint64
	noted map[string]bool
}

// epochKey is what rules are compiled for.
type epochKey struct {
	dir     string
	trusted bool
}

// madeEpoch is the last epoch of a workspace, and what it was made from.
type madeEpoch struct {
	turn sync.Mutex
	// written are the configuration files before they were read, and from is
	// everything that was read.
	written, from config.Identity
	epoch         *gate.Epoch
	// used orders them by when they were asked for last.
	used uint64
}

var _ evaluator.Evaluator = (*localEvaluator)(nil)

func (a *app) newEvaluator(command string) (*localEvaluator, error) {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return nil, badInput(err)
	}
	if home, err = filepath.Abs(home); err != nil {
		return nil, badInput(err)
	}
	workspace, err := absolute(a.global.workspace)
	if err != nil {
		return nil, badInput(err)
	}
	// Where processes cannot be told the daemon takes every caller for an agent, and
	// naming one would be a mistake.
	host := os.Getppid()
	if _, err := peer.Lookup(host); errors.Is(err, peer.ErrUnsupported) {
		host = 0
	}
	return &localEvaluator{
		app: a, command: command, home: home, workspace: workspace, host: host, trust: gate.NewTrust(home),
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)), made: map[epochKey]*madeEpoch{}, noted: map[string]bool{},
	}, nil
}

// Describe implements evaluator.Evaluator.
func (e *localEvaluator) Describe(context.Context) (evaluator.Description, error) {
	d := evaluator.Description{Name: "regent", Version: readVersion().Version, Home: e.home, Workspace: e.workspace}
	if c, err := e.app.maybeDaemon(""); err == nil && c != nil {
		c.Close()
		d.Daemon = true
	}
	return d, nil
}

// Evaluate implements evaluator.Evaluator.
func (e *localEvaluator) Evaluate(ctx context.Context, q evaluator.Question) (approval.Ruling, error) {
	ruling, _, err := e.rule(ctx, q)
	return ruling, err
}

// Ask implements evaluator.Evaluator.
func (e *localEvaluator) Ask(ctx context.Context, q evaluator.Question) (api.Answer, error) {
	c, err := e.app.maybeDaemon("")
	if err != nil {
		return api.Answer{}, fmt.Errorf("reach the daemon: %w", err)
	}
	if c == nil {
		return e.decide(ctx, q)
	}
	defer c.Close()
	question, err := e.question(q)
	if err != nil {
		return api.Answer{}, err
	}
	answer, err := c.Ask(ctx, question)
	// It ran a moment ago: that it went away decides nothing.
	if errors.Is(err, client.ErrNoDaemon) {
		return api.Answer{}, &api.Error{Code: api.Stopping, Message: "the daemon ended before it heard the question", Hint: "nothing was recorded; ask again"}
	}
	return answer, err
}

// question is what the daemon is asked. The host is the agent, and not only this
// process: what the host starts must not answer either.
func (e *localEvaluator) question(q evaluator.Question) (api.Question, error) {
	folder, err := e.folder(q)
	if err != nil {
		return api.Question{}, err
	}
	question := api.Question{Request: q.Request, Workspace: q.Workspace, Folder: folder, AgentPID: e.host}
	if question.Workspace == "" {
		question.Workspace = e.workspace
	}
	return question, nil
}

func (e *localEvaluator) folder(q evaluator.Question) (string, error) {
	if q.Folder != "" {
		return q.Folder, nil
	}
	here, err := e.app.getwd()
	if err != nil {
		return "", fmt.Errorf("find the workspace: %w", err)
	}
	return here, nil
}

// Answer implements evaluator.Evaluator. Whether this process may answer is for the
// daemon to say.
func (e *localEvaluator) Answer(ctx context.Context, d evaluator.Decision) (approval.Record, error) {
	c, err := e.app.maybeDaemon("")
	if err != nil {
		return approval.Record{}, fmt.Errorf("reach the daemon: %w", err)
	}
	if c == nil {
		return approval.Record{}, evaluator.ErrNoDaemon
	}
	defer c.Close()
	record, err := c.Decide(ctx, d.ID, d.Revision, d.Decision)
	if errors.Is(err, client.ErrNoDaemon) {
		err = evaluator.ErrNoDaemon
	}
	return record, err
}

// alone is why a call is denied that a daemon would have somebody decide.
const alone = "no daemon of the home runs (regent serve), so nobody can be asked"

// decide answers by policy alone. Nobody is asked, and nothing is recorded.
func (e *localEvaluator) decide(ctx context.Context, q evaluator.Question) (api.Answer, error) {
	ruling, setup, err := e.rule(ctx, q)
	if err != nil {
		return api.Answer{}, err
	}
	options := q.Request.Options
	if len(options) == 0 {
		options = approval.NativeOptions
	}
	refusal := approval.Choice(options, approval.OutcomeDeny)
	if refusal < 0 {
		return api.Answer{}, &approval.RequestError{Pointer: "/options", Message: "none of the options is known to refuse, so no refusal could be told; add decline, deny or cancel"}
	}
	answer := api.Answer{Outcome: approval.OutcomeDeny, Option: options[refusal], Ruling: ruling}
	pass := approval.Choice(options, approval.OutcomeAllow)
	switch {
	case ruling.Route == approval.RouteDeny:
	case ruling.Route != approval.RouteSkip && ruling.Route != approval.RouteAllow:
		answer.Reason = alone
	case pass < 0:
		answer.Reason = alone + "; policy allows this once, which is none of the answers that the harness offers"
	case q.Request.Permissions != nil:
		answer.Reason = alone + "; what is granted would be nobody's to keep"
	case setup.Config.Policy.ConfirmLoosening:
		answer.Reason = alone + "; with policy.confirm_loosening only the daemon knows which rules are confirmed"
	default:
		answer.Outcome, answer.Option = approval.OutcomeAllow, options[pass]
	}
	return answer, nil
}

// rule rules on a call in this process, by the files as they are now. The setup is
// nil where the files have faults, and then the ruling says ask.
func (e *localEvaluator) rule(ctx context.Context, q evaluator.Question) (approval.Ruling, *gate.Setup, error) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return approval.Ruling{}, nil, context.Cause(ctx)
	}
	epoch, settings, err := e.epoch(ctx, q)
	if ctx.Err() != nil {
		return approval.Ruling{}, nil, context.Cause(ctx)
	}
	if err != nil {
		return rego.Unloaded(err, settings), nil, nil
	}
	ruling := epoch.Policy.Rule(ctx, q.Request)
	// One whose caller went away has not been ruled on.
	if ctx.Err() != nil {
		return approval.Ruling{}, nil, context.Cause(ctx)
	}
	return ruling, &epoch.Setup, nil
}

// options are those of the workspace that a call belongs to. The one that the command
// line names is trusted; any other if its owner has said so, whoever names it: a host
// is told folders by its agent.
func (e *localEvaluator) options(q evaluator.Question) (gate.Options, error) {
	o := gate.Options{Home: e.home, Workspace: q.Workspace}
	if o.Workspace == "" && e.workspace != "" {
		o.Workspace, o.Trusted = e.workspace, true
		return o, nil
	}
	if o.Workspace == "" {
		folder, err := e.folder(q)
		if err != nil {
			return o, err
		}
		cwd := cwdOf(q.Request)
		if !filepath.IsAbs(cwd) {
			cwd = ""
		}
		if o.Workspace, _, err = gate.Find(e.home, cwd, folder); err != nil || o.Workspace == "" {
			return o, err
		}
	}
	dir, err := gate.Canonical(o.Workspace)
	if err != nil {
		return o, err
	}
	o.Workspace = dir
	o.Trusted = e.trust.Has(dir)
	if e.workspace != "" && !o.Trusted {
		named, err := gate.Canonical(e.workspace)
		o.Trusted = err == nil && named == dir
	}
	return o, nil
}

// epoch returns the rules for a call, compiled from the files as they are now, or
// why there are none.
func (e *localEvaluator) epoch(ctx context.Context, q evaluator.Question) (*gate.Epoch, rego.Settings, error) {
	o, err := e.options(q)
	if err != nil {
		return nil, rego.DefaultSettings(), err
	}
	m := e.at(epochKey{o.Workspace, o.Trusted})
	m.turn.Lock()
	defer m.turn.Unlock()
	files := []string{filepath.Join(o.Home, config.FileName)}
	if o.Workspace != "" {
		files = append(files, filepath.Join(o.Workspace, config.FileName), filepath.Join(o.Workspace, config.WorkspaceDir, config.FileName))
	}
	// Taken before they are read, so that an edit in between shows the next time.
	written := config.Identify(files)
	setup, err := gate.Read(o)
	if err != nil {
		return nil, rego.DefaultSettings(), err
	}
	e.note(setup)
	from := config.Identify(sources(setup))
	if m.epoch != nil && m.written == written && m.from == from {
		return m.epoch, m.epoch.Source.Settings, nil
	}
	m.epoch = nil
	epoch, err := setup.Compile(ctx)
	if err != nil {
		return nil, setup.Source.Settings, err
	}
	m.epoch, m.written, m.from = epoch, written, from
	return epoch, epoch.Source.Settings, nil
}

// sources are the files and folders that a setup was read from and is compiled from.
func sources(s *gate.Setup) []string {
	paths := append([]string{}, s.Files...)
	for _, layer := range s.Source.Layers {
		paths = append(paths, layer.Paths...)
	}
	for _, p := range s.Config.Plugins {
		paths = append(paths, p.Command[:min(1, len(p.Command))]...)
	}
	for _, r := range s.Config.Reviewers {
		if r.GuidanceFile != "" {
			paths = append(paths, r.GuidanceFile)
		}
	}
	return paths
}

// at is what is kept of a workspace. The one that was not asked for the longest time
// makes room for another.
func (e *localEvaluator) at(key epochKey) *madeEpoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.made[key]
	if m == nil {
		if len(e.made) >= maxEpochs {
			oldest := key
			for k, other := range e.made {
				if oldest == key || other.used < e.made[oldest].used {
					oldest = k
				}
			}
			delete(e.made, oldest)
		}
		m = &madeEpoch{}
		e.made[key] = m
	}
	e.used++
	m.used = e.used
	return m
}

// note tells people on stderr what they should know about a setup, once.
func (e *localEvaluator) note(s *gate.Setup) {
	var lines []string
	if s.Dir != "" && !s.Trusted {
		lines = append(lines, fmt.Sprintf("note: the workspace %s is not trusted, so it can only tighten (regent trust %s)", s.Dir, approval.QuoteWord(s.Dir)))
	}
	for _, w := range s.Warnings {
		lines = append(lines, fmt.Sprintf("warning: %s", w))
	}
	for _, l := range s.Refused {
		lines = append(lines, fmt.Sprintf("note: without effect: %s", l))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, text := range lines {
		// What a host asks about is not to fill the memory.
		if !e.noted[text] && len(e.noted) < 1000 {
			e.noted[text] = true
			e.app.say(e.command, "%s", text)
		}
	}
}
