package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/server/api"
)

// minEpoch is how much of a fingerprint names it: what people are shown.
const minEpoch = 12

type confirmOptions struct {
	proofOptions
	epoch string
}

// pending is a change of rules that waits to be confirmed.
type pending struct {
	// Dir is the workspace, "" for the home.
	Dir string `json:"dir"`
	// Epoch is what would come into force.
	Epoch string `json:"epoch"`
	// Loosened says in words what it loosens.
	Loosened []string `json:"loosened"`
}

func newPolicyConfirm(a *app) *cobra.Command {
	o := &confirmOptions{}
	cmd := &cobra.Command{
		Use:   "confirm [DIR] [--epoch ID]",
		Short: "Put in force an edit that loosens",
		Long: `Put in force an edit that loosens. With policy.confirm_loosening such an edit waits,
and calls are ruled by the stricter of before and after. Without --epoch the
command lists what waits, in all workspaces that are loaded or in DIR; with it that
very set of rules is confirmed. Where the files have changed again since they were
listed, nothing is.`,
		Example: `  $ regent policy confirm
  nothing waits`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q; one workspace is confirmed at a time", args[1])
			}
			return nil
		},
		ValidArgsFunction: completeDir,
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.policyConfirm(cmd, o, args) }),
	}
	o.register(cmd)
	cmd.Flags().StringVar(&o.epoch, "epoch", "", "the fingerprint of what was looked at, as the list has it, or its first 12 `DIGITS`")
	must(cmd.RegisterFlagCompletionFunc("epoch", cobra.NoFileCompletions))
	needsDaemon(cmd)
	exitsAs(cmd, map[int]string{exitApproval: "without --epoch: something waits", exitMoved: "these rules are not what waits"},
		exitDone, exitFailed, exitUsage, exitApproval, exitMoved)
	return cmd
}

func (a *app) policyConfirm(cmd *cobra.Command, o *confirmOptions, args []string) error {
	if err := withoutLayers(cmd, "name the folder after it"); err != nil {
		return err
	}
	c, err := a.daemon(cmd.CommandPath())
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.Workspaces(cmd.Context())
	if err != nil {
		return answered(err)
	}
	waiting := waitingRules(all.Workspaces)
	if len(args) == 1 {
		dir, err := gate.Canonical(args[0])
		if err != nil {
			return badInput(err)
		}
		home, err := a.homeOf(dir)
		if err != nil {
			return err
		}
		if home {
			dir = ""
		}
		waiting = only(waiting, func(p pending) bool { return p.Dir == dir })
	}
	if o.epoch == "" {
		return a.printPending(waiting)
	}
	if len(o.epoch) < minEpoch {
		return usagef("--epoch %q is too short to name one; give %d digits or more", o.epoch, minEpoch)
	}
	waiting = only(waiting, func(p pending) bool { return strings.HasPrefix(p.Epoch, o.epoch) })
	switch len(waiting) {
	case 0:
		return &exitError{code: exitMoved, err: fmt.Errorf("%w; regent policy confirm lists what waits", gate.ErrMovedOn)}
	case 1:
	default:
		return usagef("these rules wait in several workspaces; name one: %s", strings.Join(dirsOf(waiting), ", "))
	}
	one := waiting[0]
	err = a.proven(cmd.Context(), c, &o.proofOptions, func(proof string) error {
		return c.Confirm(cmd.Context(), api.Confirmation{Dir: one.Dir, Epoch: one.Epoch, Proof: proof})
	})
	if err != nil {
		return answered(err)
	}
	if a.global.json() {
		return writeJSON(a.stdout, one, true)
	}
	_, err = fmt.Fprintf(a.stdout, "confirmed %s for %s\n", short(one.Epoch), dirName(one.Dir))
	return err
}

// homeOf tells whether a folder is the home.
func (a *app) homeOf(dir string) (bool, error) {
	engines, err := a.engines("")
	if err != nil {
		return false, err
	}
	home, err := filepath.EvalSymlinks(engines.home)
	return err == nil && home == dir, nil
}

func waitingRules(all []api.Workspace) []pending {
	waiting := []pending{}
	for _, w := range all {
		p := pending{Dir: w.Dir, Epoch: w.Held, Loosened: w.Loosened}
		if p.Epoch == "" && w.State == "unconfirmed" {
			p.Epoch = w.Epoch
		}
		if p.Epoch != "" {
			waiting = append(waiting, p)
		}
	}
	return waiting
}

func only(all []pending, keep func(pending) bool) []pending {
	kept := []pending{}
	for _, p := range all {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

func dirsOf(all []pending) []string {
	dirs := make([]string, len(all))
	for i, p := range all {
		dirs[i] = dirName(p.Dir)
	}
	return dirs
}

// dirName is a workspace for people.
func dirName(dir string) string {
	if dir == "" {
		return "the home"
	}
	return printable(dir)
}

func (a *app) printPending(waiting []pending) error {
	if a.global.json() {
		if err := writeJSON(a.stdout, map[string]any{"waiting": waiting}, true); err != nil {
			return err
		}
	} else if len(waiting) == 0 {
		_, err := fmt.Fprintln(a.stdout, "nothing waits")
		return err
	} else {
		for _, p := range waiting {
			b := &block{}
			b.b.WriteString(dirName(p.Dir) + "\n")
			b.line("epoch", p.Epoch)
			b.lines("loosens", p.Loosened)
			if _, err := fmt.Fprint(a.stdout, b.b.String()); err != nil {
				return err
			}
		}
	}
	if len(waiting) > 0 {
		return exitCode(exitApproval)
	}
	return nil
}
