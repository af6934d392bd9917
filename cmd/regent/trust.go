package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/credential"
)

type trustOptions struct {
	proofOptions
	list bool
}

func newTrust(a *app) *cobra.Command {
	o := &trustOptions{}
	cmd := &cobra.Command{
		Use:   "trust DIR | --list",
		Short: "Let a workspace loosen what your home says",
		Long: `Let a workspace loosen what your home says. Until then one that is found above a
call can only tighten: its allow rules and looser settings count for nothing. DIR
is the workspace or the project that holds it; look at what is in it first,
because whoever can write there decides from then on.

A daemon that runs is told and goes by it at once.`,
		Example: `  $ regent trust .
  trusted /home/sam/app/.regent
  $ regent trust --list
  DIR ... BY ... AT
  /home/sam/app/.regent ... local  ...`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && !o.list, len(args) == 0 && o.list:
				return nil
			case len(args) > 0 && o.list:
				return usagef("--list takes no folder")
			default:
				return usagef("name one folder, or --list")
			}
		},
		ValidArgsFunction: completeDir,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			if err := withoutLayers(cmd, "name the folder after it"); err != nil {
				return err
			}
			if o.list {
				return a.trustList()
			}
			return a.trust(cmd, o, args[0])
		}),
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.list, "list", false, "list the workspaces that are trusted")
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func completeDir(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func (a *app) trust(cmd *cobra.Command, o *trustOptions, folder string) error {
	// A mistake is told here, by the name that the user gave.
	dir, err := gate.Canonical(folder)
	if err != nil {
		return badInput(err)
	}
	c, err := a.maybeDaemon(cmd.CommandPath())
	if err != nil {
		return err
	}
	var one gate.Trusted
	if c != nil {
		defer c.Close()
		err = a.proven(cmd.Context(), c, &o.proofOptions, func(proof string) error {
			t, err := c.Trust(cmd.Context(), api.Trust{Dir: dir, Proof: proof})
			one = gate.Trusted(t)
			return err
		})
		err = answered(err)
	} else {
		one, err = a.trustHere(cmd, o, dir)
	}
	if err != nil {
		return err
	}
	if a.global.json() {
		return writeJSON(a.stdout, one, true)
	}
	_, err = fmt.Fprintf(a.stdout, "trusted %s\n", printable(one.Dir))
	return err
}

// trustHere writes the trust of the home while no daemon runs. It asks for the
// proof that the daemon would ask for.
func (a *app) trustHere(cmd *cobra.Command, o *trustOptions, dir string) (gate.Trusted, error) {
	home, err := a.madeHome()
	if err != nil {
		return gate.Trusted{}, err
	}
	c, _, err := config.LoadHome(home)
	if err != nil {
		return gate.Trusted{}, badInput(fmt.Errorf("whether this needs a proof cannot be told: %w", err))
	}
	if c.Principals.StepUp {
		proofs := credential.NewStepUp(home, nil)
		kind, err := proofs.Enrolled(credential.Local)
		if errors.Is(err, credential.ErrNotEnrolled) {
			return gate.Trusted{}, fmt.Errorf("principals.step_up wants a proof, and none is set; regent step-up set does that")
		} else if err != nil {
			return gate.Trusted{}, err
		}
		proof, err := a.secret(cmd.Context(), o.file, proofPrompt(kind, credential.Local), "--proof-file")
		if err != nil {
			return gate.Trusted{}, err
		}
		if err := proofs.Verify(credential.Local, proof); err != nil {
			return gate.Trusted{}, err
		}
	}
	one, err := gate.NewTrust(home).Add(dir, credential.Local, time.Now())
	if err == nil {
		a.say(cmd.CommandPath(), "no daemon runs; written to %s, which the next one reads", filepath.Join(home, gate.TrustFile))
	}
	return one, err
}

// trustList reads the file: it is what a daemon goes by, too.
func (a *app) trustList() error {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return badInput(err)
	}
	all, err := gate.NewTrust(home).List()
	if err != nil {
		return badInput(err)
	}
	if a.global.json() {
		if all == nil {
			all = []gate.Trusted{}
		}
		return writeJSON(a.stdout, map[string]any{"trusted": all}, true)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no workspace is trusted")
		return err
	}
	rows := [][]string{{"DIR", "BY", "AT"}}
	for _, one := range all {
		rows = append(rows, []string{printable(one.Dir), shown(one.By), stamp(one.At)})
	}
	return table(a.stdout, "", rows)
}

func newUntrust(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "untrust DIR",
		Short: "Have a workspace only tighten again",
		Long: `Have a workspace only tighten again. DIR is the workspace, the project that holds
it, or a folder that is gone, as regent trust --list has it. Requests that wait
are ruled on anew; what was decided stays decided.`,
		Example: `  $ regent trust . > trusted.txt
  $ regent untrust .
  no longer trusted /home/sam/app/.regent`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one folder; regent trust --list has them")
			}
			return nil
		},
		ValidArgsFunction: completeDir,
		RunE:              action(a.untrust),
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) untrust(cmd *cobra.Command, args []string) error {
	if err := withoutLayers(cmd, "name the folder after it"); err != nil {
		return err
	}
	c, err := a.maybeDaemon(cmd.CommandPath())
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(args[0])
	if err != nil {
		return badInput(err)
	}
	var dir string
	if c != nil {
		defer c.Close()
		dir, err = c.Untrust(cmd.Context(), folder)
		err = answered(err)
	} else {
		home, homeErr := config.HomeDir(a.global.home, a.getenv)
		if homeErr != nil {
			return badInput(homeErr)
		}
		if _, err = gate.NewTrust(home).List(); err == nil {
			dir, err = gate.NewTrust(home).Remove(folder)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = usagef("%s is not trusted; regent trust --list has those that are", args[0])
		}
	}
	if err != nil {
		return err
	}
	if a.global.json() {
		return writeJSON(a.stdout, map[string]string{"untrusted": dir}, true)
	}
	_, err = fmt.Fprintf(a.stdout, "no longer trusted %s\n", printable(dir))
	return err
}
