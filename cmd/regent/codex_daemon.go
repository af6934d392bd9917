package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// daemonAsker has the daemon answer for an agent that was started here.
type daemonAsker struct {
	client *client.Client
	agent  int // its process
}

var _ harness.Asker = (*daemonAsker)(nil)

func (d *daemonAsker) Post(ctx context.Context, q gate.Question) (gate.Answer, error) {
	answer, err := d.client.Post(ctx, api.Question{Request: q.Request, Workspace: q.Workspace, Folder: q.Folder, AgentPID: d.agent, Notes: q.Notes})
	return gateAnswer(answer), err
}

func (d *daemonAsker) Await(ctx context.Context, id, instance string) (gate.Answer, error) {
	answer, err := d.client.Await(ctx, id, instance, api.MaxWait*time.Second)
	return gateAnswer(answer), err
}

func (d *daemonAsker) Answer(ctx context.Context, r gate.Reply) (approval.Record, error) {
	return d.client.Decide(ctx, r.ID, r.Revision, api.Decision{Option: r.Option, Reason: r.Reason, Grant: r.Grant})
}

func (d *daemonAsker) Withdraw(ctx context.Context, id, instance, reason string) (approval.Record, error) {
	_, err := d.client.Withdraw(ctx, id, api.Withdrawal{Instance: instance, Reason: reason})
	return approval.Record{}, err
}

// Sent and Unsent are the daemon's affair: it knows whether it has told.
func (d *daemonAsker) Sent(gate.Answer)          {}
func (d *daemonAsker) Unsent(gate.Answer, error) {}

func (d *daemonAsker) Mark(ctx context.Context, id, instance string, mark gate.Mark, reason string) (approval.Record, error) {
	_, err := d.client.Mark(ctx, id, api.Mark{Instance: instance, Mark: string(mark), Reason: reason})
	return approval.Record{}, err
}

// gateAnswer is an answer of the daemon as the gate gives it.
func gateAnswer(a api.Answer) gate.Answer {
	out := gate.Answer{Outcome: a.Outcome, Option: a.Option, Reason: a.Reason, Settlement: a.Settlement, Ruling: a.Ruling}
	if a.ID != "" {
		out.Record = &approval.Record{ID: a.ID, Revision: a.Revision, State: a.State, Instance: a.Instance, Deadline: a.Deadline, Digest: a.Digest}
		if a.Source != "" { // else it waits, or nobody decided: it expired, or was closed
			out.Record.Decision = &approval.Decision{
				Option: a.Option, Outcome: a.Outcome, Source: a.Source, By: a.By, Reason: a.Reason, Settlement: a.Settlement,
			}
		}
	}
	return out
}

// ownDaemon is the daemon of the home: one that runs, or else one within this
// process, which stop ends.
func (a *app) ownDaemon(ctx context.Context, command string) (c *client.Client, stop func() error, err error) {
	if c, err = a.maybeDaemon(command); err != nil || c != nil {
		return c, func() error { c.Close(); return nil }, err
	}
	d := &daemon{app: a, command: command, log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := d.open(ctx, &serveOptions{idle: standardIdle}); err != nil {
		return nil, nil, errors.Join(err, d.close())
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- d.run(serving) }()
	stop = func() error {
		if c != nil {
			c.Close()
		}
		end()
		return errors.Join(<-served, d.close())
	}
	socket, err := a.socketPath("")
	if err == nil {
		c, err = client.Dial(socket)
	}
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return c, stop, nil
}

// endless is standard input that can be let go of: a read of the real one waits
// for as long as whoever writes does not.
func endless(r io.Reader) *io.PipeReader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	return out
}
