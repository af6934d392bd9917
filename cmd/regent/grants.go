package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

func newGrants(a *app) *cobra.Command {
	o := &permissionOptions{}
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "See and take back what sessions were granted",
		Long: `See and take back what sessions were granted beyond their configuration: permissions
that somebody gave a turn or a session when an agent asked for them, and actions
that were accepted for the rest of a session. The daemon holds them in memory
(regent serve): they end with the turn, the session or the daemon, and no file has
them.

Agents may do none of this. --principal acts as one of the principals of
config.yaml, with no more than that one's rights.`,
		Example: `  $ regent grants list
  ID ... SESSION ... TURN ... ENVIRONMENT ... SCOPE ... STRICT ... WHAT ... BY ... SINCE
  ...
  $ regent grants revoke "$GRANT_ID"
  revoked ...`,
	}
	group(a, cmd)
	o.register(a, cmd)
	cmd.AddCommand(newGrantsList(a, o), newGrantsRevoke(a, o))
	for _, sub := range append(cmd.Commands(), cmd) {
		needsDaemon(sub)
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func newGrantsList(a *app, p *permissionOptions) *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use:   "list [--session ID]",
		Short: "List what sessions hold, the oldest first",
		Long: `List what sessions hold beyond their configuration, the oldest first: grants, and
after them actions that were accepted for the rest of a session, with the request
in which that stands. It shows the sessions that the principal may see. STRICT says
that every later call of the turn is reviewed.

Where nothing is held that is said on stderr, and the exit code is 0. With --output
json nothing is shortened.`,
		Example: `  $ regent grants list
  ID ... SESSION ... TURN ... ENVIRONMENT ... SCOPE ... STRICT ... WHAT ... BY ... SINCE
  ... write ...
  $ regent grants list --session nightly --output json
  {
    "grants": [],
    "accepted": []
  }`,
		Args: noArgs("the session is named with --session"),
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if session == "" && cmd.Flags().Changed("session") {
				return usagef("--session has to name a session; without it all are listed")
			}
			c, err := p.connect(a, cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			held, err := c.Grants(cmd.Context(), session)
			if err != nil {
				return answered(err)
			}
			return a.printGrants(cmd, &held)
		}),
	}
	cmd.Flags().StringVar(&session, "session", "", "only what the session with this `ID` holds")
	must(cmd.RegisterFlagCompletionFunc("session", p.completeSessions(a)))
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// maxWhat is how much of what is held a row of a table shows.
const maxWhat = 60

func (a *app) printGrants(cmd *cobra.Command, held *api.Grants) error {
	if a.global.json() {
		if held.Grants == nil {
			held.Grants = []permission.Grant{}
		}
		if held.Accepted == nil {
			held.Accepted = []api.Accepted{}
		}
		return writeJSON(a.stdout, held, true)
	}
	if len(held.Grants)+len(held.Accepted) == 0 {
		a.say(cmd.CommandPath(), "nothing is held beyond what the configuration gives")
		return nil
	}
	rows := [][]string{{"ID", "SESSION", "TURN", "ENVIRONMENT", "SCOPE", "STRICT", "WHAT", "BY", "SINCE"}}
	for i := range held.Grants {
		g := &held.Grants[i]
		rows = append(rows, grantRow(g.ID, g.Session, g.Turn, g.Environment, string(g.Scope), yesNo(g.Strict), permissionsText(g.Permissions), g.By, stamp(g.At)))
	}
	for i := range held.Accepted {
		one := &held.Accepted[i]
		rows = append(rows, grantRow(one.ID, one.Session, one.Turn, one.EnvironmentID, string(permission.Session), "-", "accepted: "+one.Record, one.By, stamp(one.At)))
	}
	return table(a.stdout, "", rows)
}

// grantRow is a row in which every cell is there. The id is whole, to be copied.
func grantRow(id string, cells ...string) []string {
	row := []string{printable(id)}
	for _, text := range cells {
		row = append(row, cut(printable(cmp.Or(text, "-")), maxWhat))
	}
	return row
}

// permissionsText is permissions in one line of words.
func permissionsText(p permission.Profile) string {
	lines := profileLines(p)
	for i, line := range lines {
		lines[i] = strings.Replace(line, "network  ", "network ", 1)
	}
	return strings.Join(lines, ", ")
}

// completeSessions offers the sessions that are open.
func (o *permissionOptions) completeSessions(a *app) cobra.CompletionFunc {
	return o.completeOne(a, func(ctx context.Context, c *client.Client) ([]string, error) {
		sessions, err := c.Sessions(ctx)
		var ids []string
		for i := range sessions {
			ids = append(ids, printable(sessions[i].ID))
		}
		return ids, err
	})
}

func newGrantsRevoke(a *app, p *permissionOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Take back a grant or an acceptance",
		Long: `Take back a grant, or an acceptance for the rest of a session, for every call from
now on. Who may answer the requests of its session may do that. What was let start
before goes on: a host hears of it with its next call. ID is that of the list.`,
		Example: `  $ regent grants revoke "$GRANT_ID"
  revoked ...`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name one grant by its id; regent grants list has them")
			}
			return nil
		},
		ValidArgsFunction: p.completeGrants(a),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			c, err := p.connect(a, cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Revoke(cmd.Context(), args[0]); err != nil {
				return answered(err)
			}
			if a.global.json() {
				return writeJSON(a.stdout, map[string]string{"revoked": args[0]}, true)
			}
			_, err = fmt.Fprintf(a.stdout, "revoked %s\n", printable(args[0]))
			return err
		}),
	}
	exitsAs(cmd, map[int]string{exitDone: "no later call uses it", exitFailed: "this principal may not, or no daemon runs", exitUsage: "bad usage, or nothing is held by that id"},
		exitDone, exitFailed, exitUsage)
	return cmd
}

// completeGrants offers the ids of what is held.
func (o *permissionOptions) completeGrants(a *app) cobra.CompletionFunc {
	return o.completeOne(a, func(ctx context.Context, c *client.Client) ([]string, error) {
		held, err := c.Grants(ctx, "")
		var ids []string
		for i := range held.Grants {
			g := &held.Grants[i]
			ids = append(ids, g.ID+"\t"+cut(printable(g.Session+": "+permissionsText(g.Permissions)), maxWhat))
		}
		for i := range held.Accepted {
			one := &held.Accepted[i]
			ids = append(ids, one.ID+"\t"+cut(printable(one.Session+": accepted: "+one.Record), maxWhat))
		}
		return ids, err
	})
}
