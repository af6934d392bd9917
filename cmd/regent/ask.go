package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// tellTime is how long an answer may take before a person is told that it is
// waited for.
const tellTime = 2 * time.Second

type askOptions struct {
	inputOptions
	noWait          bool
	await, instance string
}

func newAsk(a *app) *cobra.Command {
	o := &askOptions{}
	cmd := &cobra.Command{
		Use:   "ask [--input FILE] [--no-wait]",
		Short: "Put a request to the daemon and wait for the answer",
		Long: `Put a request to the daemon and wait for the answer, as a harness does: what policy
does not decide waits for a person (regent permission). The action may run only if
the exit code is 0. Whoever is asking counts as an agent and answers nothing; to
stop waiting is to withdraw the request.

With --no-wait the request's id is printed and the answer is asked for later with
--await. Whoever does that has to give a sign of life every 30 seconds, or the
request is lost.`,
		Example: `  $ echo '{"kind":"command","command":{"text":"git push -f origin main"}}' > push.json
  $ regent ask --input push.json
  DENY  command  git push -f origin main
    why         a force push rewrites what others have pushed; use --force-with-lease
  ...
  $ regent ask --no-wait --input reset.json
  ...`,
		Args: noArgs("name the file with --input"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.ask(cmd, o) }),
	}
	o.inputOptions.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.noWait, "no-wait", false, "print the id of what waits and do not wait for the answer")
	flags.StringVar(&o.await, "await", "", "wait for the answer to the request with this `ID`")
	flags.StringVar(&o.instance, "instance", "", "with --await: in whose `NAME` the request waits, as --no-wait told")
	cmd.MarkFlagsRequiredTogether("await", "instance")
	cmd.MarkFlagsMutuallyExclusive("await", "input")
	cmd.MarkFlagsMutuallyExclusive("await", "no-wait")
	for _, name := range []string{"await", "instance"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	needsDaemon(cmd)
	exitsAs(cmd, map[int]string{exitDone: "allowed", exitDenied: "denied or cancelled", exitApproval: "with --no-wait: somebody has to answer first"},
		exitDone, exitFailed, exitUsage, exitDenied, exitApproval)
	return cmd
}

func (a *app) ask(cmd *cobra.Command, o *askOptions) error {
	if err := withoutLayers(cmd, "the workspace above the call's cwd is found"); err != nil {
		return err
	}
	var q question
	var body api.Question
	if o.await == "" {
		found, err := a.questions(cmd.CommandPath(), &o.inputOptions)
		if err != nil {
			return err
		}
		if len(found.all) != 1 {
			return usagef("ask puts one request; the input holds %d", len(found.all))
		}
		if q = found.all[0]; q.err != nil {
			return badInput(q.err)
		}
		body.Request = q.request
		if body.Folder, err = a.getwd(); err != nil {
			return fmt.Errorf("find the workspace: %w", err)
		}
	}
	c, err := a.daemon(cmd.CommandPath())
	if err != nil {
		return err
	}
	defer c.Close()
	var answer api.Answer
	switch {
	case o.await != "":
		answer, err = await(cmd.Context(), c, o.await, o.instance)
	case o.noWait:
		answer, err = c.Post(cmd.Context(), body)
	default:
		answer, err = a.askAndTell(cmd, c, body)
	}
	if err != nil {
		return answered(err)
	}
	if err := a.printAnswer(q, &answer); err != nil {
		return err
	}
	switch answer.Outcome {
	case approval.OutcomeAllow:
		return nil
	case "":
		if !a.global.json() {
			a.say(cmd.CommandPath(), "regent ask --await %s --instance %s waits for the answer; without a sign of life the request is lost after 30 seconds", answer.ID, answer.Instance)
		}
		return exitCode(exitApproval)
	default:
		return exitCode(exitDenied)
	}
}

// askAndTell asks, and says so when somebody has to answer first.
func (a *app) askAndTell(cmd *cobra.Command, c *client.Client, q api.Question) (answer api.Answer, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer, err = c.Ask(cmd.Context(), q)
	}()
	waiting := time.NewTimer(tellTime)
	defer waiting.Stop()
	for {
		select {
		case <-done:
			return answer, err
		case <-waiting.C:
			a.say(cmd.CommandPath(), "waiting for somebody to answer; regent permission watch shows what waits")
		}
	}
}

// await asks for an answer until there is one.
func await(ctx context.Context, c *client.Client, id, instance string) (api.Answer, error) {
	for {
		answer, err := c.Await(ctx, id, instance, api.MaxWait*time.Second)
		if err != nil || answer.Outcome != "" {
			return answer, err
		}
		if ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
	}
}

func (a *app) printAnswer(q question, answer *api.Answer) error {
	if a.global.json() {
		return writeJSON(a.stdout, answer, true)
	}
	if answer.Outcome == "" {
		_, err := fmt.Fprintln(a.stdout, printable(answer.ID))
		return err
	}
	what := answer.ID
	if q.request != nil {
		what = describe(q.request)
	}
	b := &block{}
	b.b.WriteString(strings.ToUpper(string(answer.Outcome)) + "  " + printable(what) + "\n")
	switch {
	case answer.Reason != "":
		b.lines("why", []string{answer.Reason})
	case answer.Ruling.Route == approval.RouteAsk || answer.Ruling.Route == approval.RouteReview:
		b.lines("was asked", answer.Ruling.Reasons) // and is no reason for the answer
	default:
		b.lines("why", answer.Ruling.Reasons)
	}
	if len(answer.Option) > 0 {
		b.line("answer", shown(oneLine(answer.Option)))
	}
	if s := answer.Settlement; s != nil {
		b.lines("granted", grantedLines(answer.Outcome, s))
	}
	b.lines("rules", matchLines(answer.Ruling.Rules))
	if answer.ID != "" {
		b.line("record", printable(answer.ID))
	}
	_, err := fmt.Fprint(a.stdout, b.b.String())
	return err
}
