package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate/approval"
)

type checkOptions struct {
	inputOptions
	fail, local bool
}

// decided is one line of `regent check --output json` on several requests.
type decided struct {
	Request questionRef `json:"request"`
	approval.Ruling
}

// questionRef tells which request a line of output is about.
type questionRef struct {
	// Line is where the request starts in the input.
	Line    int               `json:"line"`
	Kind    approval.Kind     `json:"kind"`
	Session *approval.Session `json:"session,omitempty"`
	// ID is that of the harness's message, to answer it by.
	ID json.RawMessage `json:"id,omitempty"`
}

func newCheck(a *app) *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check [--input FILE]",
		Short: "Rule on a request: who must answer this call, and why",
		Long: `Rule on a request: who must answer this call, and why. The input is one request
as JSON, several as JSON lines, or messages of codex app-server as they were
captured, of which those are decided that ask for approval.

The route is skip (nobody needs to be asked), allow or deny (policy has
answered), review (a reviewer is asked) or ask (a person is asked). Where
policies do not load, or fail on a request, a person is asked.

A daemon of the home that runs is asked, unless --local, --workspace or
--organization is given; the ruling is the same. Nothing is recorded.`,
		Example: `  $ echo '{"kind":"command","command":{"text":"git push -f origin main"}}' > push.json
  $ regent check --input push.json
  DENY  command  git push -f origin main
    why         a force push rewrites what others have pushed; use --force-with-lease
    effects     network, process (external)
    rules       STARTER-001 policies/starter.rego:16: a force push rewrites what others have pushed; use --force-with-lease (deny, high, workspace)
    epoch       c73f5090894a
  $ regent check --fail --output json < calls.jsonl`,
		Args: noArgs("name the file with --input"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context(), cmd.CommandPath(), o) }),
	}
	o.inputOptions.register(cmd)
	cmd.Flags().BoolVar(&o.fail, "fail", false, "exit 3 when any request is denied, else 4 when any needs approval")
	cmd.Flags().BoolVar(&o.local, "local", false, "rule in this process, whether or not a daemon runs")
	exitsAs(cmd, map[int]string{
		exitDone:     "decided, whatever the decision",
		exitUsage:    "a request is malformed, or the configuration or the policies do not load",
		exitDenied:   "with --fail: a request was denied",
		exitApproval: "with --fail: none was denied, but one needs approval (ask or review)",
	}, exitDone, exitFailed, exitUsage, exitDenied, exitApproval)
	return cmd
}

func (a *app) check(ctx context.Context, command string, o *checkOptions) error {
	found, err := a.questions(command, &o.inputOptions)
	if err != nil {
		return err
	}
	engines, err := a.engines(command)
	if err != nil {
		return err
	}
	if !o.local && a.global.workspace == "" && a.global.organization == "" {
		if engines.daemon, err = a.maybeDaemon(""); err != nil {
			return err
		}
	}
	bad, denied, open := false, false, false
	first := true
	for _, q := range found.all {
		if q.err != nil {
			a.say(command, "%s", q.err)
			bad = true
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ruling, faulty, err := engines.rule(ctx, q.request)
		if err != nil {
			return err
		}
		bad = bad || faulty
		denied = denied || ruling.Route == approval.RouteDeny
		open = open || ruling.Route == approval.RouteAsk || ruling.Route == approval.RouteReview
		switch {
		case a.global.json() && found.several:
			err = writeJSON(a.stdout, decided{refOf(q), ruling}, false)
		case a.global.json():
			err = writeJSON(a.stdout, ruling, true)
		default:
			if !first {
				fmt.Fprintln(a.stdout)
			}
			first = false
			_, err = fmt.Fprint(a.stdout, rulingText(q, found.several, &ruling))
		}
		if err != nil {
			return err
		}
	}
	switch {
	case bad:
		return exitCode(exitUsage)
	case o.fail && denied:
		return exitCode(exitDenied)
	case o.fail && open:
		return exitCode(exitApproval)
	}
	return nil
}

// questions reads the input of a command and tells how many frames were passed
// over.
func (a *app) questions(command string, o *inputOptions) (questions, error) {
	if o.input == "-" && isTerminal(a.stdin) {
		a.say(command, "reading requests from the terminal; end with Ctrl-D")
	}
	name, data, err := o.read(a)
	if err != nil {
		return questions{}, err
	}
	found, err := parseQuestions(name, data)
	if err != nil {
		return found, err
	}
	for _, q := range found.all {
		if q.problem != "" {
			a.say(command, "note: %s:%d: not understood, so only a person may answer: %s", name, q.line, q.problem)
		}
	}
	if found.passed > 0 {
		a.say(command, "%s passed over: no request for approval", plural(found.passed, "frame"))
	}
	return found, nil
}

func cwdOf(r *approval.Request) string {
	if r.Environment == nil {
		return ""
	}
	return r.Environment.Cwd
}

func refOf(q question) questionRef {
	return questionRef{Line: q.line, Kind: q.request.Kind, Session: q.request.Session, ID: q.id}
}

// rulingText is a decision as a block for people.
func rulingText(q question, several bool, r *approval.Ruling) string {
	head := strings.ToUpper(string(r.Route)) + "  " + describe(q.request)
	if several {
		head = fmt.Sprintf("%s  (line %d)", head, q.line)
	}
	b := &block{}
	b.b.WriteString(head + "\n")
	b.lines("why", r.Reasons)
	effects := list(r.Effects)
	if r.External {
		effects += " (external)"
	}
	if r.ReadOnly {
		effects += " (read-only)"
	}
	b.line("effects", effects)
	b.lines("rules", matchLines(r.Rules))
	b.lines("observed", matchLines(r.Observed))
	b.lines("reviewers", r.Reviewers)
	if c := r.Ceiling; c != nil {
		most := c.Permissions.String()
		if c.Permissions.IsEmpty() {
			most = "nothing"
		}
		b.line("ceiling", shown(most))
		b.line("", "scope "+shown(string(c.Scope)))
	}
	b.lines("context", r.Context)
	if f := r.Failure; f != nil {
		b.lines("failure", []string{failureText(f)})
	}
	b.line("epoch", short(r.Epoch))
	return b.b.String()
}

// matchLines are rules as lines: id, place, message and standing.
func matchLines(matches []approval.Match) []string {
	out := make([]string, len(matches))
	for i, m := range matches {
		standing := []string{m.Decision}
		if m.Mode != "enforce" {
			standing = append(standing, m.Mode)
		}
		if m.Severity != "" {
			standing = append(standing, m.Severity)
		}
		standing = append(standing, m.Layer)
		out[i] = fmt.Sprintf("%s %s:%d: %s (%s)", m.ID, m.File, m.Line, m.Message, strings.Join(standing, ", "))
	}
	return out
}

func failureText(f *approval.Failure) string {
	text := f.Kind + ": "
	if f.Rule != "" {
		text += f.Rule + ": "
	}
	// The problems of a load name their places themselves.
	if f.File != "" && !strings.HasPrefix(f.Message, f.File) {
		text += f.File
		if f.Line > 0 {
			text += fmt.Sprintf(":%d", f.Line)
		}
		text += ": "
	}
	return text + f.Message
}

// short is the beginning of a fingerprint, enough to tell two apart.
func short(epoch string) string {
	if epoch == "" {
		return "none"
	}
	return epoch[:min(len(epoch), 12)]
}

// describe says in one line what a request asks.
func describe(r *approval.Request) string {
	var what string
	switch r.Kind {
	case approval.KindCommand:
		what = r.Command.Line()
	case approval.KindTool:
		what = r.Tool.Name
		if c := toolCommand(r); c != "" {
			what += "  " + c
		}
	case approval.KindMCP:
		what = r.Tool.Server + " " + r.Tool.Name
	case approval.KindFileChange:
		what = changesText(r.Changes)
	case approval.KindPermissions:
		what = r.Permissions.String()
	case approval.KindNetwork:
		what = networkText(r.Network)
	}
	return string(r.Kind) + "  " + shown(what)
}

func toolCommand(r *approval.Request) string {
	if r.Command != nil {
		return r.Command.Line()
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, r.Tool.Arguments); err != nil {
		return string(r.Tool.Arguments) // as it came; it is only shown
	}
	return compact.String()
}

func changesText(changes []approval.Change) string {
	if len(changes) == 0 {
		return "of unknown content"
	}
	text := changes[0].Operation + " " + changes[0].Path
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func networkText(n *approval.Network) string {
	text := n.Host
	if n.Port != 0 {
		text += fmt.Sprintf(":%d", n.Port)
	}
	if n.Protocol != "" {
		text = n.Protocol + " " + text
	}
	return text
}
