package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/shell"
)

// explained is one line of `regent explain --output json` on several requests.
type explained struct {
	Request questionRef `json:"request"`
	rego.Explanation
}

func newExplain(a *app) *cobra.Command {
	o := &inputOptions{}
	cmd := &cobra.Command{
		Use:   "explain [--input FILE]",
		Short: "Explain a ruling: the rules that fired, those that nearly did, and the facts",
		Long: `Explain a ruling: what the call does, command by command; the rules that fired;
the rules of which a part held, with the condition that stopped them; and the
facts that rules look at. The input is that of check.`,
		Example: `  $ regent explain --input reset.json
  ASK  command  git reset main
    why         permissions.mode is model_review
                reviewer default/reviewer is not configured, so a person is asked
    effects     process, write
    epoch       c73f5090894a
  ...
  rules that nearly fired
  ...
    STARTER-003 policies/starter.rego:41: Throwing away work needs a person (ask, workspace)
      1 condition held; line 43 did not: _discards(call)
  ...
  $ regent explain --input reset.json --output json`,
		Args: noArgs("name the file with --input"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.explain(cmd.Context(), cmd.CommandPath(), o) }),
	}
	o.register(cmd)
	exitsAs(cmd, map[int]string{
		exitDone:   "explained, whatever the decision",
		exitFailed: "a request could not be explained in time",
		exitUsage:  "a request is malformed, or the configuration or the policies do not load",
	}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) explain(ctx context.Context, command string, o *inputOptions) error {
	found, err := a.questions(command, o)
	if err != nil {
		return err
	}
	engines, err := a.engines(command)
	if err != nil {
		return err
	}
	bad, failed, first := false, false, true
	for _, q := range found.all {
		if q.err != nil {
			a.say(command, "%s", q.err)
			bad = true
			continue
		}
		engine := engines.at(ctx, cwdOf(q.request))
		if engine.err != nil {
			bad = true
			continue
		}
		e, explainErr := engine.epoch.Policy.Explain(ctx, q.request)
		switch {
		case a.global.json() && found.several:
			err = writeJSON(a.stdout, explained{refOf(q), e}, false)
		case a.global.json():
			err = writeJSON(a.stdout, e, true)
		default:
			if !first {
				fmt.Fprintln(a.stdout)
			}
			first = false
			err = explanationText(a, q, found.several, &e)
		}
		if err != nil {
			return err
		}
		if explainErr != nil {
			a.say(command, "not all could be explained: %s", explainErr)
			failed = true
		}
	}
	switch {
	case bad:
		return exitCode(exitUsage)
	case failed:
		return exitCode(exitFailed)
	}
	return nil
}

func explanationText(a *app, q question, several bool, e *rego.Explanation) error {
	if _, err := fmt.Fprint(a.stdout, rulingText(q, several, &e.Ruling)); err != nil {
		return err
	}
	if c := e.Classification; len(c.Nodes) > 0 {
		fmt.Fprintf(a.stdout, "\ncommands\n")
		if err := nodesTable(a, c.Nodes); err != nil {
			return err
		}
	} else if len(c.Why) > 0 {
		b := &block{}
		b.lines("effects", c.Why)
		fmt.Fprintf(a.stdout, "\ncall\n%s", b.b.String())
	}

	fmt.Fprintf(a.stdout, "\nrules that nearly fired\n")
	if len(e.Nearly) == 0 {
		fmt.Fprintln(a.stdout, "  none")
	}
	for _, m := range e.Nearly {
		fmt.Fprint(a.stdout, nearlyText(m))
	}

	fmt.Fprintf(a.stdout, "\nfacts\n%s", factsText(&e.Facts))
	return nil
}

func nearlyText(m rego.NearMiss) string {
	var b strings.Builder
	title := m.Title
	if title == "" {
		title = m.Package
	}
	fmt.Fprintf(&b, "  %s %s:%d: %s (%s, %s)\n", shown(m.ID), shown(m.File), m.Line, shown(title), m.Decision, m.Layer)
	fmt.Fprintf(&b, "    %s held; line %d did not: %s\n", plural(m.Held, "condition"), m.StoppedLine, shown(m.Stopped))
	for _, name := range slices.Sorted(maps.Keys(m.Values)) {
		fmt.Fprintf(&b, "    %s = %s\n", shown(name), cut(printable(m.Values[name]), 100))
	}
	return b.String()
}

// factsText lists the facts that there are.
func factsText(f *rego.Facts) string {
	b := &block{}
	if f.Tool.Name != "" {
		b.line("tool", shown(f.Tool.Name))
	}
	b.lines("programs", f.Programs)
	b.lines("reads", f.Paths.Read)
	b.lines("writes", f.Paths.Write)
	b.lines("unresolved", f.Paths.Unresolved)
	b.lines("hosts", f.Hosts)
	b.lines("urls", f.URLs)
	for i, p := range f.Command.Problems {
		name := ""
		if i == 0 {
			name = "problems"
		}
		b.line(name, shown(problemText(p)))
	}
	var asked []string
	for name, is := range map[string]bool{"network": f.Permissions.Network, "read": f.Permissions.Read, "write": f.Permissions.Write} {
		if is {
			asked = append(asked, name)
		}
	}
	if len(asked) > 0 {
		slices.Sort(asked)
		b.line("asks for", list(asked))
	}
	if p := f.Permissions.Problem; p != "" {
		b.line("asks for", shown(p))
	}
	b.lines("guarded", f.Guard.Writes)
	if b.b.Len() == 0 {
		return "  none\n"
	}
	return b.b.String()
}

func problemText(p shell.Problem) string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Message)
}
