package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/server/credential"
)

// enrolled is what the step-up commands print about a principal.
type enrolled struct {
	Principal string `json:"principal"`
	// Kind is passphrase or totp, and empty where there is no proof.
	Kind credential.Kind `json:"kind,omitempty"`
	// Required is true where config.yaml has answers that allow need a proof.
	Required bool `json:"required"`
}

func newStepUp(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step-up",
		Short: "Have answers that allow need a passphrase or a code",
		Long: `Have answers that allow need a passphrase or a code. An agent runs as the same
user as the person it works for, so whoever can run commands as that user could
answer. With principals.step_up in config.yaml an answer that allows counts only
with the proof that is set here. To refuse needs none.`,
		Example: `  $ echo 'correct horse battery' | regent step-up set --from-file -
  ...
  $ regent step-up status
  ...`,
	}
	group(a, cmd)
	cmd.AddCommand(newStepUpSet(a), newStepUpRemove(a), newStepUpStatus(a))
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

type stepUpOptions struct {
	principal, fromFile string
	totp                bool
}

func (o *stepUpOptions) register(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.principal, "principal", credential.Local, "whose proof, as in `user:sam`; local is who uses the command line without --principal")
	must(cmd.RegisterFlagCompletionFunc("principal", a.completePrincipals))
}

func newStepUpSet(a *app) *cobra.Command {
	o := &stepUpOptions{}
	cmd := &cobra.Command{
		Use:   "set [--totp] [--from-file FILE]",
		Short: "Set the passphrase or authenticator of a principal",
		Long: `Set the passphrase or authenticator of a principal that has none yet. A
passphrase has 12 characters or more; it is asked for twice and not shown, or read
from a file. With --totp an authenticator is set up: its secret is shown once, and
a code that it shows confirms that it works.`,
		Example: `  $ echo 'correct horse battery' | regent step-up set --from-file -
  local proves itself with a passphrase`,
		Args: noArgs("a passphrase is typed or read from a file, never an argument"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.stepUpSet(cmd.Context(), cmd.CommandPath(), o) }),
	}
	o.register(a, cmd)
	cmd.Flags().BoolVar(&o.totp, "totp", false, "an authenticator (RFC 6238) in place of a passphrase")
	cmd.Flags().StringVar(&o.fromFile, "from-file", "", "read the passphrase, or the code that confirms, from `FILE`, - for standard input")
	exitsAs(cmd, map[int]string{exitFailed: "there is a proof already, or the code does not confirm"}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) stepUpSet(ctx context.Context, command string, o *stepUpOptions) error {
	home, err := a.madeHome()
	if err != nil {
		return err
	}
	proofs := credential.NewStepUp(home, nil)
	// Nobody should think of a passphrase for nothing.
	if kind, err := proofs.Enrolled(o.principal); err == nil {
		return fmt.Errorf("%s proves itself with a %s already; regent step-up remove takes it away", o.principal, kind)
	} else if !errors.Is(err, credential.ErrNotEnrolled) {
		return err
	}
	kind := credential.Passphrase
	if o.totp {
		kind = credential.TOTP
		err = a.enrollTOTP(ctx, command, proofs, o)
	} else {
		err = a.enrollPassphrase(ctx, proofs, o)
	}
	switch {
	case errors.Is(err, credential.ErrPassphrase), errors.Is(err, credential.ErrPrincipal):
		return badInput(err)
	case err != nil:
		return err
	}
	status := a.stepUpOf(home, o.principal, kind)
	if !status.Required {
		a.say(command, "note: no answer needs it before config.yaml of the home says principals: {step_up: true}")
	}
	return a.printEnrolled(status)
}

func (a *app) enrollPassphrase(ctx context.Context, proofs *credential.StepUp, o *stepUpOptions) error {
	text, err := a.secret(ctx, o.fromFile, "New passphrase for "+o.principal, "--from-file")
	if err != nil {
		return err
	}
	if o.fromFile == "" {
		again, err := a.secret(ctx, "", "The same once more", "--from-file")
		if err != nil {
			return err
		}
		if again != text {
			return usagef("the two are not the same; nothing was set")
		}
	}
	return proofs.EnrollPassphrase(o.principal, text)
}

func (a *app) enrollTOTP(ctx context.Context, command string, proofs *credential.StepUp, o *stepUpOptions) error {
	secret := credential.NewSecret()
	to := a.stdout
	if a.global.json() {
		to = a.stderr // one value is the answer
	}
	if _, err := fmt.Fprintf(to, "%s\n", secret.URI(o.principal)); err != nil {
		return err
	}
	a.say(command, "enter this in an authenticator, as it is or as the secret %s; it is not shown again", secret.Base32())
	code, err := a.secret(ctx, o.fromFile, "Code that the authenticator shows", "--from-file")
	if err != nil {
		return err
	}
	err = proofs.EnrollTOTP(o.principal, secret, strings.TrimSpace(code))
	if errors.Is(err, credential.ErrWrong) {
		return fmt.Errorf("%w: see that the clocks of this machine and of the authenticator are right, and set it up anew; nothing was set", err)
	}
	return err
}

func (a *app) stepUpOf(home, principal string, kind credential.Kind) enrolled {
	e := enrolled{Principal: principal, Kind: kind}
	if c, _, err := config.LoadHome(home); err == nil {
		e.Required = c.Principals.StepUp
	}
	return e
}

func (a *app) printEnrolled(e enrolled) error {
	if a.global.json() {
		return writeJSON(a.stdout, e, true)
	}
	text := map[credential.Kind]string{
		"": "has no proof", credential.Passphrase: "proves itself with a passphrase", credential.TOTP: "proves itself with an authenticator",
	}[e.Kind]
	_, err := fmt.Fprintf(a.stdout, "%s %s\n", printable(e.Principal), text)
	return err
}

func newStepUpRemove(a *app) *cobra.Command {
	o := &stepUpOptions{}
	cmd := &cobra.Command{
		Use:   "remove [--proof-file FILE]",
		Short: "Take the proof of a principal away",
		Long: `Take the proof of a principal away, after it has been given once more. Where it
is lost, remove step_up.json from the home by hand: that takes away all of them.`,
		Example: `  $ echo 'correct horse battery' | regent step-up set --from-file - > set.txt
  $ echo 'correct horse battery' | regent step-up remove --proof-file -
  local has no proof`,
		Args: noArgs("a proof is typed or read from a file, never an argument"),
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			home, err := a.madeHome()
			if err != nil {
				return err
			}
			proofs := credential.NewStepUp(home, nil)
			kind, err := proofs.Enrolled(o.principal)
			if err != nil {
				return err
			}
			proof, err := a.secret(cmd.Context(), o.fromFile, proofPrompt(kind, o.principal), "--proof-file")
			if err != nil {
				return err
			}
			if err := proofs.Verify(o.principal, proof); err != nil {
				return err
			}
			if err := proofs.Remove(o.principal); err != nil {
				return err
			}
			return a.printEnrolled(a.stepUpOf(home, o.principal, ""))
		}),
	}
	o.register(a, cmd)
	cmd.Flags().StringVar(&o.fromFile, "proof-file", "", "read the passphrase or code from `FILE`, - for standard input")
	exitsAs(cmd, map[int]string{exitFailed: "there is none, or what was given is not it"}, exitDone, exitFailed, exitUsage)
	return cmd
}

// proofPrompt says what to type.
func proofPrompt(kind credential.Kind, principal string) string {
	if kind == credential.TOTP {
		return "Code of the authenticator of " + principal
	}
	return "Passphrase of " + principal
}

func newStepUpStatus(a *app) *cobra.Command {
	o := &stepUpOptions{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell what a principal proves itself with",
		Long:  "Tell what a principal proves itself with, and whether answers need it.",
		Example: `  $ regent step-up status
  local has no proof
  $ regent step-up status --principal user:sam --output json
  {
    "principal": "user:sam",
    "required": false
  }`,
		Args: noArgs("name the principal with --principal"),
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			home, err := config.HomeDir(a.global.home, a.getenv)
			if err != nil {
				return badInput(err)
			}
			var kind credential.Kind
			if _, err := os.Stat(home); err == nil {
				kind, err = credential.NewStepUp(home, nil).Enrolled(o.principal)
				if err != nil && !errors.Is(err, credential.ErrNotEnrolled) {
					return err
				}
			}
			status := a.stepUpOf(home, o.principal, kind)
			if status.Required && kind == "" {
				a.say(cmd.CommandPath(), "note: config.yaml wants a proof of answers that allow, so %s can give none before regent step-up set", o.principal)
			}
			return a.printEnrolled(status)
		}),
	}
	o.register(a, cmd)
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}
