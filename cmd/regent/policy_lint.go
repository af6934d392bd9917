package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/rego"
)

type lintOptions struct{ strict bool }

// linted is what `regent policy lint` prints.
type linted struct {
	Findings []rego.Finding `json:"findings"`
}

func newPolicyLint(a *app) *cobra.Command {
	o := &lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Find what would fail, surprise or be slow in the rules",
		Long: `Find what would fail, surprise or be slow in the rules: errors that keep them
from loading; and warnings about rules without id or title, rules that look at
every request, negations that fall silent, allow rules that let the rest of a
command line through, and files that are not loaded or not formatted.`,
		Example: `  $ regent policy lint
  nothing found
  $ regent policy lint --strict --output json`,
		Args: noArgs("name the workspace with --workspace"),
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			return a.policyLint(cmd.Context(), cmd.CommandPath(), o)
		}),
	}
	cmd.Flags().BoolVar(&o.strict, "strict", false, "let warnings fail too")
	exitsAs(cmd, map[int]string{
		exitDone:   "no errors (with --strict: no warnings either)",
		exitFailed: "something was found",
		exitUsage:  "bad usage, or the configuration does not load",
	}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) policyLint(ctx context.Context, command string, o *lintOptions) error {
	engines, err := a.engines(command)
	if err != nil {
		return err
	}
	setup, err := engines.read("")
	if err != nil {
		return err
	}
	findings, err := rego.Lint(ctx, setup.Source)
	if err != nil {
		return err
	}
	failed := false
	for _, f := range findings {
		failed = failed || f.Level == "error" || o.strict
	}
	if a.global.json() {
		if findings == nil {
			findings = []rego.Finding{}
		}
		err = writeJSON(a.stdout, linted{findings}, true)
	} else {
		err = findingsText(a, findings)
	}
	if err != nil {
		return err
	}
	if failed {
		return exitCode(exitFailed)
	}
	return nil
}

func findingsText(a *app, findings []rego.Finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(a.stdout, "%s [%s, %s]\n", printable(f.Problem.String()), f.Level, f.Check); err != nil {
			return err
		}
	}
	if len(findings) == 0 {
		_, err := fmt.Fprintln(a.stdout, "nothing found")
		return err
	}
	return nil
}
