package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/server/credential"
)

// madeHome is the folder of the home, which is made for its owner alone if it is
// not there.
func (a *app) madeHome() (string, error) {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return "", badInput(err)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("make the home: %w", err)
	}
	return home, nil
}

func newToken(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Issue and revoke the tokens by which the HTTP interface knows people",
		Long: `Issue and revoke the tokens by which the HTTP interface knows people. Whoever
bears a token speaks as its principal. The socket needs none: it tells who is at
the other end. A daemon sees changes with the next request.`,
		Example: `  $ regent token create --principal user:sam --expires 720h > sam.token
  $ regent token list
  ID ... PRINCIPAL ... NAME ... CREATED ... EXPIRES
  ...
  $ regent token revoke "$TOKEN_ID"
  revoked ...`,
	}
	group(a, cmd)
	cmd.AddCommand(newTokenCreate(a), newTokenList(a), newTokenRevoke(a))
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// issued is what `regent token create --output json` prints.
type issued struct {
	Text string `json:"token"`
	credential.Token
}

type tokenOptions struct{ principal, name, expires string }

func newTokenCreate(a *app) *cobra.Command {
	o := &tokenOptions{}
	cmd := &cobra.Command{
		Use:   "create --principal NAME [--name NAME] [--expires WHEN]",
		Short: "Issue a token to a principal",
		Long: `Issue a token to a principal and print it, this once: the home keeps its digest
only. The principal is an owner or a member as principals in config.yaml has it,
or an agent.`,
		Example: `  $ regent token create --principal user:sam --name laptop --expires 720h
  regent_...
  $ regent token create --principal user:sam --expires 2099-01-31 --output json
  ...`,
		Args: noArgs("name the principal with --principal"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.tokenCreate(cmd.CommandPath(), o) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.principal, "principal", "", "who bears it, as in `user:sam`")
	flags.StringVar(&o.name, "name", "", "what to call it, as in `laptop`")
	flags.StringVar(&o.expires, "expires", "", "until when it counts: a time from now, as in 720h, or a `DATE` (UTC); never ends if not given")
	must(cmd.MarkFlagRequired("principal"))
	must(cmd.RegisterFlagCompletionFunc("principal", a.completePrincipals))
	for _, name := range []string{"name", "expires"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// expiry reads a time from now, a date or an instant.
func expiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.ParseInLocation(form, text, time.UTC); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("--expires %q is neither a time from now, as in 720h, nor a date, as in 2030-01-31", text)
}

func (a *app) tokenCreate(command string, o *tokenOptions) error {
	expires, err := expiry(o.expires, time.Now())
	if err != nil {
		return err
	}
	home, err := a.madeHome()
	if err != nil {
		return err
	}
	text, token, err := credential.NewTokens(home, nil).Create(o.principal, o.name, expires)
	if errors.Is(err, credential.ErrPrincipal) {
		return badInput(err)
	}
	if err != nil {
		return err
	}
	if c, _, err := config.LoadHome(home); err != nil {
		a.say(command, "note: who %s is cannot be told before this is mended: %s", o.principal, err)
	} else if _, ok := gate.Named(c, o.principal); !ok {
		a.say(command, "note: %s is nobody yet: list it below principals in %s, or the token opens nothing", o.principal, c.Path)
	}
	if a.global.json() {
		return writeJSON(a.stdout, issued{text, token}, true)
	}
	a.say(command, "token %s for %s, %s; it is shown this once", token.ID, token.Principal, until(token.Expires))
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

func until(expires time.Time) string {
	if expires.IsZero() {
		return "which never ends"
	}
	return "until " + stamp(expires)
}

// stamp is an instant for people, in UTC as everything that is recorded.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func newTokenList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens that were issued",
		Long: `List the tokens that were issued and not revoked, in the order of issuing, those
that have expired included. The tokens themselves are not kept.`,
		Example: `  $ regent token create --principal user:sam > sam.token
  $ regent token list
  ID ... PRINCIPAL ... NAME ... CREATED ... EXPIRES
  ... user:sam ...`,
		Args: noArgs("list takes none"),
		RunE: action(func(*cobra.Command, []string) error {
			tokens, err := a.tokens()
			if err != nil {
				return err
			}
			if a.global.json() {
				if tokens == nil {
					tokens = []credential.Token{}
				}
				return writeJSON(a.stdout, map[string]any{"tokens": tokens}, true)
			}
			if len(tokens) == 0 {
				_, err := fmt.Fprintln(a.stdout, "no tokens")
				return err
			}
			rows := [][]string{{"ID", "PRINCIPAL", "NAME", "CREATED", "EXPIRES"}}
			now := time.Now()
			for _, t := range tokens {
				name, ends := t.Name, stamp(t.Expires)
				if name == "" {
					name = "-"
				}
				if !t.Expires.IsZero() && !t.Expires.After(now) {
					ends += " (expired)"
				}
				rows = append(rows, []string{t.ID, shown(t.Principal), shown(name), stamp(t.Created), ends})
			}
			return table(a.stdout, "", rows)
		}),
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) tokens() ([]credential.Token, error) {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return nil, badInput(err)
	}
	if _, err := os.Stat(home); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return credential.NewTokens(home, nil).List()
}

func newTokenRevoke(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Refuse a token from now on",
		Long:  "Refuse a token from now on. ID is that of the list, not the token.",
		Example: `  $ regent token revoke "$TOKEN_ID"
  revoked ...`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one token by its id; regent token list has them")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			tokens, err := a.tokens()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			var ids []string
			for _, t := range tokens {
				ids = append(ids, t.ID+"\t"+t.Principal+" "+t.Name)
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: action(func(_ *cobra.Command, args []string) error {
			home, err := config.HomeDir(a.global.home, a.getenv)
			if err != nil {
				return badInput(err)
			}
			if err := credential.NewTokens(home, nil).Revoke(args[0]); err != nil {
				return err
			}
			if a.global.json() {
				return writeJSON(a.stdout, map[string]string{"revoked": args[0]}, true)
			}
			_, err = fmt.Fprintf(a.stdout, "revoked %s\n", printable(args[0]))
			return err
		}),
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}
