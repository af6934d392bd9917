package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/cases"
)

type testOptions struct {
	coverage bool
	verbose  bool
	run      string
}

func newTest(a *app) *cobra.Command {
	o := &testOptions{}
	cmd := &cobra.Command{
		Use:   "test [PATH...]",
		Short: "Run the tests of the rules: Rego tests and YAML decision cases",
		Long: `Run the tests of the rules: unit tests in Rego (*_test.rego) beside the policies,
and decision cases in YAML (*_cases.yaml, or in a folder named cases), which are
put through the whole engine. With PATH only what is in those files and folders
is run. A run of nothing fails.`,
		Example: `  $ regent test --coverage
  coverage 100.0%
    100.0%  policies/starter.rego

  7 passed, 0 failed (62ms)
  $ regent test --verbose --run force_push .regent/policies
  PASS  policies/starter_test.rego:7: rules.starter_test.test_force_push_denied

  1 passed, 0 failed (9ms)`,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return a.test(cmd.Context(), cmd.CommandPath(), o, args)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.coverage, "coverage", false, "tell which lines of the policies the tests evaluate")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "tell of tests that pass, too, and what they print")
	flags.StringVar(&o.run, "run", "", "run only what `REGEX` matches in \"FILE: NAME\"")
	must(cmd.RegisterFlagCompletionFunc("run", cobra.NoFileCompletions))
	exitsAs(cmd, map[int]string{
		exitDone:   "all passed",
		exitFailed: "a test failed, or there was none to run",
		exitUsage:  "bad usage, or the configuration or the policies do not load",
	}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) test(ctx context.Context, command string, o *testOptions, paths []string) error {
	options := cases.Options{Paths: paths, Coverage: o.coverage}
	if o.run != "" {
		var err error
		if options.Run, err = regexp.Compile(o.run); err != nil {
			return usagef("--run: %w", err)
		}
	}
	engines, err := a.engines(command)
	if err != nil {
		return err
	}
	setup, err := engines.read("")
	if err != nil {
		return err
	}
	report, err := cases.Run(ctx, setup.Source, options)
	if err != nil {
		if errors.Is(err, rego.ErrLoad) {
			engines.report(err)
			return exitCode(exitUsage)
		}
		return err
	}
	if a.global.json() {
		err = writeJSON(a.stdout, report, true)
	} else {
		_, err = fmt.Fprint(a.stdout, reportText(&report, o.verbose))
	}
	switch {
	case err != nil:
		return err
	case len(report.Results) == 0:
		return errors.New("there is no test to run")
	case !report.OK():
		return exitCode(exitFailed)
	}
	return nil
}

// reportText is the outcome of a run for people.
func reportText(r *cases.Report, verbose bool) string {
	var b strings.Builder
	var took time.Duration
	for _, v := range r.Results {
		took += v.Duration
		if v.Status == cases.Pass && !verbose {
			continue
		}
		fmt.Fprintf(&b, "%-5s %s:%d: %s\n", strings.ToUpper(string(v.Status)), shown(v.File), v.Line, shown(v.Name))
		indent(&b, v.Message)
		if verbose || v.Status != cases.Pass {
			indent(&b, v.Output)
		}
	}
	section := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, format, args...)
	}
	if c := r.Coverage; c != nil {
		section("coverage %.1f%%\n", c.Percent)
		for _, f := range c.Files {
			fmt.Fprintf(&b, "  %5.1f%%  %s", f.Percent, shown(f.File))
			if len(f.Uncovered) > 0 {
				fmt.Fprintf(&b, "  not evaluated: %s", ranges(f.Uncovered))
			}
			b.WriteString("\n")
		}
	}
	// A workspace that has no cases need not be told which it lacks.
	cased := slices.ContainsFunc(r.Results, func(v cases.Result) bool { return v.Kind == cases.Decision })
	if cased && len(r.Unfired) > 0 {
		section("rules that no case names:\n")
		for _, rule := range r.Unfired {
			fmt.Fprintf(&b, "  %s\n", shown(rule.Describe()))
		}
	}
	section("%d passed, %d failed", r.Count(cases.Pass), r.Count(cases.Fail))
	if n := r.Count(cases.Error); n > 0 {
		fmt.Fprintf(&b, ", %s", plural(n, "error"))
	}
	if n := r.Count(cases.Skip); n > 0 {
		fmt.Fprintf(&b, ", %d skipped", n)
	}
	fmt.Fprintf(&b, " (%s)\n", took.Round(time.Millisecond))
	return b.String()
}

// indent adds each line of text below a result.
func indent(b *strings.Builder, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(b, "      %s\n", printable(strings.ReplaceAll(line, "\t", "  ")))
	}
}

// ranges writes sorted numbers as 3-5, 9.
func ranges(lines []int) string {
	var parts []string
	for i := 0; i < len(lines); {
		j := i
		for j+1 < len(lines) && lines[j+1] == lines[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(lines[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", lines[i], lines[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
