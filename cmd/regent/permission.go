package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// permissionOptions are the flags that all of `regent permission` takes, and
// `regent grants`.
type permissionOptions struct{ principal string }

func (o *permissionOptions) register(a *app, cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&o.principal, "principal", "", "act as this principal of config.yaml, as in `user:sam`")
	must(cmd.RegisterFlagCompletionFunc("principal", a.completePrincipals))
}

func newPermission(a *app) *cobra.Command {
	o := &permissionOptions{}
	cmd := &cobra.Command{
		Use:   "permission",
		Short: "See and answer what agents have asked",
		Long: `See and answer what agents have asked. The daemon holds the requests (regent
serve), and takes who calls for the local administrator unless the caller
descends from an agent, who may do none of this. --principal acts as one of the
principals of config.yaml, with no more than that one's rights.`,
		Example: `  $ regent permission list --state pending
  ID ... REVISION  STATE ... OUTCOME ... ASKED ... REQUEST
  ...
  $ regent permission info $ID
  ...
  $ regent permission decide $ID --expected-revision 1 --decision '"deny"' --reason 'not on a Friday'
  ...`,
	}
	group(a, cmd)
	o.register(a, cmd)
	cmd.AddCommand(newPermissionList(a, o), newPermissionInfo(a, o), newPermissionDecide(a, o), newPermissionCancel(a, o), newPermissionReconcile(a, o), newPermissionWatch(a, o))
	for _, sub := range append(cmd.Commands(), cmd) {
		needsDaemon(sub)
	}
	exits(cmd, exitDone, exitFailed, exitUsage, exitMoved)
	return cmd
}

// connect is a way to the daemon as the principal that was named.
func (o *permissionOptions) connect(a *app, cmd *cobra.Command) (*client.Client, error) {
	if err := withoutLayers(cmd, "the daemon knows the workspaces"); err != nil {
		return nil, err
	}
	c, err := a.daemon(cmd.CommandPath())
	if err != nil || o.principal == "" {
		return c, err
	}
	return c.As(o.principal), nil
}

// oneID takes the id of a record.
func oneID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("name one request by its id; regent permission list has them")
	}
	return nil
}

// completeIDs offers the ids of records in some states.
func (o *permissionOptions) completeIDs(a *app, states ...approval.State) cobra.CompletionFunc {
	return o.completeOne(a, func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.List(ctx, approval.Query{States: states})
		var ids []string
		for i := range page.Records {
			ids = append(ids, page.Records[i].ID+"\t"+cut(recordLine(&page.Records[i]), 60))
		}
		return ids, err
	})
}

// completeOne offers what the daemon has for the first word of a command, or for
// the value of a flag.
func (o *permissionOptions) completeOne(a *app, list func(context.Context, *client.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		c, err := o.connect(a, cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer c.Close()
		words, err := list(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completionTime is how long a shell waits for what can be completed.
const completionTime = 2 * time.Second

type listOptions struct {
	before, workspace, session, run string
	limit                           int
	states                          []string
}

func newPermissionList(a *app, p *permissionOptions) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "list [--state STATE]",
		Short: "List requests, the newest first",
		Long: `List requests, the newest first, a page at a time. Where there are more, the last
line on stderr has the flag that asks for them. Secrets are masked. The states are
` + joined(approval.States) + `.`,
		Example: `  $ regent permission list --state pending
  ID ... REVISION  STATE ... OUTCOME ... ASKED ... REQUEST
  ...
  $ regent permission list --limit 20 --session s1 --output json
  ...`,
		Args: noArgs("a request is shown by regent permission info"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.permissionList(cmd, p, o) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.before, "before", "", "only those that were asked before the request with this `ID`")
	flags.IntVar(&o.limit, "limit", approval.MaxPage, "how many at most, to 100")
	flags.StringArrayVar(&o.states, "state", nil, "only those in this `STATE`; may be repeated")
	flags.StringVar(&o.workspace, "workspace-dir", "", "only those of the workspace in `DIR`")
	flags.StringVar(&o.session, "session", "", "only those of the session with this `ID`")
	flags.StringVar(&o.run, "run", "", "only those of the run with this `ID`")
	words := make([]string, len(approval.States))
	for i, s := range approval.States {
		words[i] = string(s)
	}
	must(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.MarkFlagDirname("workspace-dir"))
	for _, name := range []string{"before", "session", "run", "limit"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func joined[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// query checks the flags.
func (o *listOptions) query() (approval.Query, error) {
	q := approval.Query{Before: o.before, Limit: o.limit, Session: o.session, Run: o.run}
	if o.limit < 1 || o.limit > approval.MaxPage {
		return q, usagef("--limit %d: a page has 1 to %d", o.limit, approval.MaxPage)
	}
	for _, word := range o.states {
		known := false
		var words []string
		for _, s := range approval.States {
			known = known || word == string(s)
			words = append(words, string(s))
		}
		if !known {
			return q, usagef("--state %q is none of %s%s", word, joined(approval.States), didYouMean(near(word, words, "")))
		}
		q.States = append(q.States, approval.State(word))
	}
	if o.workspace != "" {
		// Records name a workspace by the one name that all its names lead to. One
		// that is gone is asked for as it is written.
		dir, err := gate.Canonical(o.workspace)
		if err != nil {
			if dir, err = filepath.Abs(o.workspace); err != nil {
				return q, badInput(err)
			}
		}
		q.Workspace = dir
	}
	return q, nil
}

func (a *app) permissionList(cmd *cobra.Command, p *permissionOptions, o *listOptions) error {
	q, err := o.query()
	if err != nil {
		return err
	}
	c, err := p.connect(a, cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	page, err := c.List(cmd.Context(), q)
	if err != nil {
		return answered(err)
	}
	if a.global.json() {
		if page.Records == nil {
			page.Records = []approval.Record{}
		}
		return writeJSON(a.stdout, page, true)
	}
	if len(page.Records) == 0 {
		_, err = fmt.Fprintln(a.stdout, "no requests")
	} else {
		rows := [][]string{{"ID", "REVISION", "STATE", "OUTCOME", "ASKED", "REQUEST"}}
		for i := range page.Records {
			r := &page.Records[i]
			rows = append(rows, []string{
				printable(r.ID), fmt.Sprint(r.Revision), string(r.State), outcomeText(r), stamp(r.Created), cut(recordLine(r), 80),
			})
		}
		err = table(a.stdout, "", rows)
	}
	if err == nil && page.Before != "" {
		a.say(cmd.CommandPath(), "there may be more: --before %s", page.Before)
	}
	return err
}

// outcomeText is what was decided on a record, and by what kind of thing.
func outcomeText(r *approval.Record) string {
	if r.Decision == nil {
		return "-"
	}
	return string(r.Decision.Outcome) + " (" + string(r.Decision.Source) + ")"
}

func newPermissionInfo(a *app, p *permissionOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info ID",
		Short: "Show a request in full",
		Long: `Show a request in full: what would run, what that does, which rules fired and
where they stand, the answers to choose from and what came of it. Secrets are
masked; nothing else is left out.`,
		Example: `  $ regent permission info $ID
  PENDING  command  git reset main
  ...
  $ regent permission info $ID --output json
  ...`,
		Args:              oneID,
		ValidArgsFunction: p.completeIDs(a),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			c, err := p.connect(a, cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := c.Read(cmd.Context(), args[0])
			if err != nil {
				return answered(err)
			}
			return a.printRecord(&r)
		}),
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) printRecord(r *approval.Record) error {
	if a.global.json() {
		return writeJSON(a.stdout, r, true)
	}
	_, err := fmt.Fprintln(a.stdout, strings.Join(recordSheet(r, time.Now(), false), "\n"))
	return err
}

// moved prints the record as it is now where an answer came too late.
func (a *app) moved(err error) error {
	if refusal, ok := errors.AsType[*api.Error](err); ok && refusal.Record != nil {
		if printErr := a.printRecord(refusal.Record); printErr != nil {
			return printErr
		}
	}
	return answered(err)
}

// changeOptions are the flags of commands that change a record.
type changeOptions struct {
	revision int64
	reason   string
}

func (o *changeOptions) register(cmd *cobra.Command, reason string) {
	cmd.Flags().Int64Var(&o.revision, "expected-revision", 0, "the revision of the request that was read, as in `1`; another is refused")
	cmd.Flags().StringVar(&o.reason, "reason", "", reason)
	must(cmd.MarkFlagRequired("expected-revision"))
	for _, name := range []string{"expected-revision", "reason"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
}

type decideOptions struct {
	changeOptions
	proofOptions
	decision, grant string
}

func newPermissionDecide(a *app, p *permissionOptions) *cobra.Command {
	o := &decideOptions{}
	cmd := &cobra.Command{
		Use:   "decide ID --expected-revision N --decision JSON --reason TEXT",
		Short: "Answer a request",
		Long: `Answer a request with one of its options, verbatim: regent permission info shows
them. The revision is that of the request which was read; where the request has
changed since, nothing is decided and it is shown as it is now.

Where permissions are asked for, an answer that allows grants all of them for the
turn. --grant narrows that; what goes beyond what was asked is dropped.`,
		Example: `  $ regent permission decide $ID --expected-revision 1 --decision '"allow"' --reason 'the branch is mine'
  ...
  $ regent permission decide $ID --expected-revision 1 --decision '"deny"'
  ...`,
		Args:              oneID,
		ValidArgsFunction: p.completeIDs(a, approval.Pending),
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.permissionDecide(cmd, p, o, args[0]) }),
	}
	o.changeOptions.register(cmd, "why, for the record, as in `TEXT`")
	o.proofOptions.register(cmd)
	cmd.Flags().StringVar(&o.decision, "decision", "", "one of the options of the request, as `JSON`")
	cmd.Flags().StringVar(&o.grant, "grant", "", "the permissions to grant, from `FILE`: {\"permissions\": {...}, \"scope\": \"turn\"}")
	must(cmd.MarkFlagRequired("decision"))
	must(cmd.RegisterFlagCompletionFunc("decision", cobra.FixedCompletions([]string{`"allow"`, `"deny"`, `"cancel"`}, cobra.ShellCompDirectiveNoFileComp)))
	exitsAs(cmd, map[int]string{exitDone: "the answer is recorded", exitFailed: "this principal may not, the proof is wrong, or it could not be recorded"},
		exitDone, exitFailed, exitUsage, exitMoved)
	return cmd
}

// body is what is sent, without a proof.
func (o *decideOptions) body(a *app) (api.Decision, error) {
	d := api.Decision{Option: json.RawMessage(strings.TrimSpace(o.decision)), Reason: o.reason}
	if !wellFormed(d.Option) {
		quoted, err := json.Marshal(o.decision)
		if err != nil {
			return d, err
		}
		return d, usagef("--decision %s is not JSON; a word is written with its quotes, as in --decision '%s'", o.decision, quoted)
	}
	if o.grant == "" {
		return d, nil
	}
	name, data, err := a.readFile(o.grant)
	if err != nil {
		return d, err
	}
	d.Grant = &permission.Response{}
	if err := jsonv2.Unmarshal(bytes.TrimSpace(data), d.Grant, jsonv2.RejectUnknownMembers(true)); err != nil {
		return d, usagef("%s: %w", name, err)
	}
	return d, nil
}

func (a *app) permissionDecide(cmd *cobra.Command, p *permissionOptions, o *decideOptions, id string) error {
	if o.grant == "-" && o.file == "-" {
		return usagef("--grant and --proof-file cannot both be read from standard input")
	}
	d, err := o.body(a)
	if err != nil {
		return err
	}
	c, err := p.connect(a, cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	var r approval.Record
	err = a.proven(cmd.Context(), c, &o.proofOptions, func(proof string) (err error) {
		d.Proof = proof
		r, err = c.Decide(cmd.Context(), id, o.revision, d)
		return err
	})
	if err != nil {
		return a.moved(err)
	}
	return a.printChanged(&r)
}

// printChanged says in a line what a record is now.
func (a *app) printChanged(r *approval.Record) error {
	if a.global.json() {
		return writeJSON(a.stdout, r, true)
	}
	text := string(r.State)
	if r.Decision != nil && r.Closing == nil {
		text = fmt.Sprintf("%s: %s", r.State, r.Decision.Outcome)
	}
	if r.Decision != nil && r.Decision.Settlement != nil {
		for _, d := range r.Decision.Settlement.Dropped {
			text += "\n  dropped  " + printable(d.String())
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%s  revision %d  %s\n", printable(r.ID), r.Revision, text)
	return err
}

func newPermissionCancel(a *app, p *permissionOptions) *cobra.Command {
	o := &changeOptions{}
	cmd := &cobra.Command{
		Use:   "cancel ID --expected-revision N",
		Short: "Withdraw a request that nobody has to answer any more",
		Long: `Withdraw a request that nobody has to answer any more. The agent hears that it was
cancelled, which allows nothing and may end its turn.`,
		Example: `  $ regent permission cancel $ID --expected-revision 1 --reason 'the run was stopped'
  ...`,
		Args:              oneID,
		ValidArgsFunction: p.completeIDs(a, approval.Pending, approval.Decided),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return a.permissionChange(cmd, p, func(c *client.Client) (approval.Record, error) {
				return c.Cancel(cmd.Context(), args[0], o.revision, o.reason)
			})
		}),
	}
	o.register(cmd, "why, for the record, as in `TEXT`")
	exits(cmd, exitDone, exitFailed, exitUsage, exitMoved)
	return cmd
}

func newPermissionReconcile(a *app, p *permissionOptions) *cobra.Command {
	o := &changeOptions{}
	cmd := &cobra.Command{
		Use:   "reconcile ID --expected-revision N --reason TEXT",
		Short: "Close a request in state unknown, after having looked",
		Long: `Close a request in state unknown. The daemon ended while the answer to it was being
written, so the agent may or may not have heard it. Look whether the action ran,
put right what has to be, and say what was found: that is recorded.`,
		Example: `  $ regent permission list --state unknown
  no requests
  $ regent permission reconcile $ID --expected-revision 3 --reason 'it did not run'
  ...`,
		Args:              oneID,
		ValidArgsFunction: p.completeIDs(a, approval.Unknown),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(o.reason) == "" {
				return usagef("--reason has to say what was found")
			}
			return a.permissionChange(cmd, p, func(c *client.Client) (approval.Record, error) {
				return c.Reconcile(cmd.Context(), args[0], o.revision, o.reason)
			})
		}),
	}
	o.register(cmd, "what was found, as in `TEXT`")
	must(cmd.MarkFlagRequired("reason"))
	exits(cmd, exitDone, exitFailed, exitUsage, exitMoved)
	return cmd
}

func (a *app) permissionChange(cmd *cobra.Command, p *permissionOptions, change func(*client.Client) (approval.Record, error)) error {
	c, err := p.connect(a, cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := change(c)
	if err != nil {
		return a.moved(err)
	}
	return a.printChanged(&r)
}
