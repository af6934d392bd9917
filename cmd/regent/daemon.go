package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// socketPath is where the daemon of the home listens. A config.yaml with a fault
// says nothing about that, and a daemon that read it before the fault goes on:
// it is looked for where it listens unless it is told otherwise, which command
// says; "" says nothing.
func (a *app) socketPath(command string) (string, error) {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return "", badInput(err)
	}
	c, _, err := config.LoadHome(home)
	if err != nil {
		c = config.Default(home)
		if command != "" {
			a.say(command, "note: %s; looking for the daemon at %s", err, c.Server.Socket)
		}
	}
	return c.Server.Socket, nil
}

// daemon is a way to the daemon of the home, which has to run.
func (a *app) daemon(command string) (*client.Client, error) {
	socket, err := a.socketPath(command)
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(socket)
	return c, noDaemon(err, socket)
}

// maybeDaemon is a way to the daemon of the home, and nil where none runs.
func (a *app) maybeDaemon(command string) (*client.Client, error) {
	socket, err := a.socketPath(command)
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(socket)
	if errors.Is(err, client.ErrNoDaemon) {
		return nil, nil
	}
	return c, err
}

// noDaemon says what to do where nobody listens.
func noDaemon(err error, socket string) error {
	if errors.Is(err, client.ErrNoDaemon) {
		return fmt.Errorf("no daemon listens on %s; start one with regent serve", socket)
	}
	return err
}

// withoutLayers refuses the global flags that say what calls are ruled by, for
// commands to which that is nothing or which leave it to the daemon.
func withoutLayers(cmd *cobra.Command, instead string) error {
	for _, name := range []string{"workspace", "organization"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s has no meaning for %s; %s", name, cmd.CommandPath(), instead)
		}
	}
	return nil
}

// answered is a refusal of the daemon as an error with its exit code. What the
// caller has to mend is bad input; a record that is another by now has moved on.
func answered(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, approval.ErrConflict) || errors.Is(err, approval.ErrExpired) || errors.Is(err, approval.ErrLost) {
		return &exitError{code: exitMoved, err: err}
	}
	refusal, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	switch refusal.Code {
	case api.MovedOn:
		return &exitError{code: exitMoved, err: err}
	case api.BadRequest, api.MalformedRequest, api.Invalid, api.NotOffered, api.NotFound, api.NoGrant, api.NoWorkspace, api.UnknownPrincipal, api.TooLarge:
		return badInput(err)
	default:
		return err
	}
}

// completePrincipals offers the principals of the home's config.yaml.
func (a *app) completePrincipals(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	c, _, err := config.LoadHome(home)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := append(slices.Clone(c.Principals.Owner), slices.Sorted(maps.Keys(c.Principals.Members))...)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// proofOptions are the flags of commands that the daemon may want a proof for.
type proofOptions struct{ file string }

func (o *proofOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "proof-file", "", "read the passphrase or code that a step-up needs from `FILE`, - for standard input; else it is asked for")
}

// proven makes a call that may need a proof of who makes it. Unless a file has
// the proof, it is asked for once the daemon says that it needs one.
func (a *app) proven(ctx context.Context, c *client.Client, o *proofOptions, call func(proof string) error) error {
	proof := ""
	if o.file != "" {
		var err error
		if proof, err = a.readSecret(o.file); err != nil {
			return err
		}
	}
	err := call(proof)
	if refusal, ok := errors.AsType[*api.Error](err); !ok || refusal.Code != api.StepUp || proof != "" {
		return err
	}
	// Whose proof it is, the daemon knows.
	prompt := "Passphrase or code"
	if s, err := c.Status(ctx); err == nil && s.Principal.Prover != "" {
		prompt += " of " + s.Principal.Prover
	}
	proof, askErr := a.secret(ctx, "", prompt, "--proof-file")
	if askErr != nil {
		return askErr
	}
	return call(proof)
}

// daemonKey is the annotation of commands that are of no use without a daemon.
const daemonKey = "needs_daemon"

// needsDaemon notes that cmd is of no use without a daemon.
func needsDaemon(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[daemonKey] = "true"
}
