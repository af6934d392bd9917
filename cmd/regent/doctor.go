package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/harness/codex/setup"
)

func newDoctor(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether a harness asks",
		Long: `Look whether a harness asks, and whether its requests would reach Regent: each
subcommand is a harness. Nothing is changed.`,
		Example: `  $ regent doctor codex --help`,
	}
	exits(cmd, exitDone, exitUsage)
	group(a, cmd)
	cmd.AddCommand(newDoctorCodex(a))
	return cmd
}

func newDoctorCodex(a *app) *cobra.Command {
	program := "codex"
	cmd := &cobra.Command{
		Use:   "codex",
		Short: "Look whether Codex asks",
		Long: `Look whether Codex asks: what it has read of its configuration, for this folder too,
with profiles, rules, tools that are approved for good, trusted folders and what
administrators require; whether it runs Regent's hooks; and whether a daemon runs.

In the end it is tried: Codex is started in a copy of its home, with a model on this
machine that wants a harmless command to leave the sandbox. The request has to
arrive, and the command must not run once it is refused. Nothing leaves this machine,
and the configuration is not changed.`,
		Example: `  $ regent install codex --yes
  ...
  $ regent doctor codex
  ok    codex         Codex 0.171.0
  ...
  ok    trial         Codex asked before it left the sandbox, and took no for an answer
  ...`,
		Args: noArgs("doctor codex takes none"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.doctorCodex(cmd, program) }),
	}
	cmd.Flags().StringVar(&program, "codex", program, "the Codex to look at, a `PROGRAM` or its path")
	must(cmd.MarkFlagFilename("codex"))
	exitsAs(cmd, map[int]string{exitDone: "all is well, or there are warnings only", exitFailed: "something fails: Codex does not ask, or it cannot be told"},
		exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) doctorCodex(cmd *cobra.Command, program string) error {
	if err := withoutLayers(cmd, "it looks at the configuration of Codex"); err != nil {
		return err
	}
	home, err := setup.CodexHome(a.getenv)
	if err != nil {
		return badInput(err)
	}
	cwd, err := a.getwd()
	if err != nil {
		return fmt.Errorf("find the folder: %w", err)
	}
	r := setup.Examine(cmd.Context(), *a.realCodex(program), home, cwd)
	r.Add(a.daemonCheck(cmd.CommandPath(), r.HooksRun))
	if a.global.json() {
		if err := writeJSON(a.stdout, r, true); err != nil {
			return err
		}
	} else if err := a.printChecks(cmd.CommandPath(), r); err != nil {
		return err
	}
	if r.Failed() {
		return exitCode(exitFailed)
	}
	return nil
}

// daemonCheck looks whether somebody answers.
func (a *app) daemonCheck(command string, hooks bool) setup.Check {
	c, err := a.maybeDaemon(command)
	switch {
	case err != nil:
		return setup.Check{Name: "daemon", Status: setup.Warn, Text: err.Error()}
	case c != nil:
		c.Close()
		return setup.Check{Name: "daemon", Status: setup.OK, Text: "it runs"}
	case hooks:
		return setup.Check{Name: "daemon", Status: setup.Warn, Text: "none runs: Regent's hooks refuse every call of Codex", Advice: "run regent serve"}
	default:
		return setup.Check{Name: "daemon", Status: setup.Warn, Text: "none runs; regent codex is one for as long as it lasts", Advice: "run regent serve"}
	}
}

func (a *app) printChecks(command string, r *setup.Report) error {
	counts := map[setup.Status]int{}
	for _, c := range r.Checks {
		counts[c.Status]++
		for i, line := range strings.Split(c.Text, "\n") {
			status, name := string(c.Status), c.Name
			if i > 0 {
				status, name = "", ""
			}
			if _, err := fmt.Fprintf(a.stdout, "%-5s %-13s %s\n", status, name, printable(line)); err != nil {
				return err
			}
		}
		if c.Advice != "" {
			if _, err := fmt.Fprintf(a.stdout, "%-19s - %s\n", "", printable(c.Advice)); err != nil {
				return err
			}
		}
	}
	text := plural(len(r.Checks), "check")
	if n := counts[setup.Fail]; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	if n := counts[setup.Warn]; n > 0 {
		text += ", " + plural(n, "warning")
	}
	a.say(command, "%s", text)
	return nil
}
