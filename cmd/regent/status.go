package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/server/api"
)

func newStatus(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell how the daemon and its workspaces stand",
		Long: `Tell how the daemon and its workspaces stand: which rules are in force, what keeps
newer ones from it, how many requests wait, and whether the ledger can be written.
Where no daemon runs the exit code is 1 and there is no answer.

A workspace is current, or stale (the last good rules are in force), held or
unconfirmed (an edit that loosens waits for regent policy confirm), or asking (no
rules could be loaded, so everything is asked).`,
		Example: `  $ regent status
  regent (devel)  pid ...
  ...
  $ regent status --output json
  ...`,
		Args: noArgs("status takes none"),
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if err := withoutLayers(cmd, "the daemon knows the workspaces"); err != nil {
				return err
			}
			c, err := a.daemon(cmd.CommandPath())
			if err != nil {
				return err
			}
			defer c.Close()
			s, err := c.Status(cmd.Context())
			if err != nil {
				return answered(err)
			}
			if a.global.json() {
				return writeJSON(a.stdout, s, true)
			}
			return a.printStatus(&s, time.Now())
		}),
	}
	needsDaemon(cmd)
	exitsAs(cmd, map[int]string{exitDone: "the daemon answered, whatever it says", exitFailed: "no daemon runs, or it could not answer"},
		exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) printStatus(s *api.Status, now time.Time) error {
	head := "regent " + s.Version
	if s.PID != 0 {
		head += fmt.Sprintf("  pid %d", s.PID)
	}
	b := &block{}
	b.b.WriteString(printable(head) + "\n")
	b.line("up", now.Sub(s.Started).Round(time.Second).String())
	b.line("you are", shown(s.Principal.ID)+" ("+shown(s.Principal.Role)+")")
	if s.Home == "" { // an agent sees no more
		_, err := fmt.Fprint(a.stdout, b.b.String())
		return err
	}
	b.line("home", printable(s.Home))
	b.line("listens on", printable(strings.Join(append([]string{s.Socket}, s.Addresses...), ", ")))
	b.line("waiting", plural(s.Waiting, "request"))
	b.line("known", plural(s.Instances, "host")+", "+plural(s.Agents, "agent"))
	if s.Sessions > 0 {
		b.line("sessions", fmt.Sprintf("%d open, with %s", s.Sessions, plural(s.Turns, "turn")))
	}
	if l := s.Ledger; l != nil {
		text := plural(int(l.Head), "event")
		if l.Bytes > 0 {
			text += fmt.Sprintf(", %d kB", (l.Bytes+1023)/1024)
		}
		b.line("ledger", text)
		if l.Failing {
			b.line("", "it cannot be written: requests are refused until it can")
		}
		if l.Fault != "" {
			b.lines("", []string{l.Fault})
		}
	}
	if s.Degraded != "" {
		b.lines("watching", []string{s.Degraded})
	}
	b.lines("warnings", s.Warnings)
	b.lines("notifiers", notifierLines(s.Notifiers))
	b.lines("plugins", pluginLines(s.Plugins))
	if _, err := fmt.Fprint(a.stdout, b.b.String()); err != nil {
		return err
	}
	rows := [][]string{{"WORKSPACE", "STATE", "TRUSTED", "RULES", "WAITING", "EPOCH"}}
	for _, w := range s.Workspaces {
		trusted := yesNo(w.Trusted)
		if w.Dir == "" {
			trusted = "-"
		}
		rows = append(rows, []string{dirName(w.Dir), w.State, trusted, fmt.Sprint(w.Rules), fmt.Sprint(w.Waiting), short(w.Epoch)})
	}
	fmt.Fprintln(a.stdout)
	if err := table(a.stdout, "", rows); err != nil {
		return err
	}
	for _, w := range s.Workspaces {
		if err := a.printWorkspace(&w); err != nil {
			return err
		}
	}
	return nil
}

// notifierLines say how those stand who are told of requests.
func notifierLines(all []api.Notifier) []string {
	lines := make([]string, len(all))
	for i, n := range all {
		lines[i] = fmt.Sprintf("%s (%s) %s: %d sent", n.Name, n.Kind, n.State, n.Sent)
		for _, more := range []struct {
			count int64
			what  string
		}{{n.Failed, "failed"}, {n.Dropped, "dropped"}, {int64(n.Queued), "waiting"}} {
			if more.count > 0 {
				lines[i] += fmt.Sprintf(", %d %s", more.count, more.what)
			}
		}
		if n.Fault != "" && n.State != "ok" {
			lines[i] += "; " + n.Fault
		}
	}
	return lines
}

// pluginLines say how the programs of plugins do.
func pluginLines(all []api.Plugin) []string {
	lines := make([]string, len(all))
	for i, p := range all {
		lines[i] = p.Name + " " + p.State
		if p.Version != "" {
			lines[i] += ", version " + p.Version
		}
		if p.Breaker != string(plugin.BreakerClosed) {
			lines[i] += ", breaker " + strings.ReplaceAll(p.Breaker, "_", "-")
		}
		if p.Restarts > 0 {
			lines[i] += ", started again " + times(p.Restarts)
		}
		if !p.Pinned {
			lines[i] += ", not pinned (regent plugin add pins it)"
		}
		if p.Fault != "" && p.State != string(plugin.StateRunning) {
			lines[i] += "; " + p.Fault
		}
	}
	return lines
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// printWorkspace tells what a workspace is not as it should be in.
func (a *app) printWorkspace(w *api.Workspace) error {
	b := &block{}
	b.lines("why", []string{w.Why}[:min(1, len(w.Why))])
	if !w.Since.IsZero() {
		b.line("since", stamp(w.Since))
	}
	if w.Held != "" {
		b.line("held", w.Held)
	}
	b.lines("loosens", w.Loosened)
	b.lines("warnings", w.Warnings)
	b.lines("no effect", w.Refused)
	if b.b.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s\n%s", dirName(w.Dir), b.b.String())
	return err
}
