package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// Reply is a person's answer to a request.
type Reply struct {
	ID string
	// Revision is that of the record that the person has read.
	Revision int64
	// Option is one of the record's options, verbatim.
	Option json.RawMessage
	Reason string
	// Grant narrows what an answer that allows grants; nil grants what was asked
	// for, for the turn. What goes beyond the request or the ceiling is dropped,
	// and recorded as dropped.
	Grant *permission.Response
	// By is who answers.
	By Principal
}

// ErrDenied means that policy denies the request by now, so that nobody may
// allow it.
var ErrDenied = errors.New("policy denies this request")

// Answer records a person's decision on a pending request, and wakes whoever
// waits for it. Besides the errors of approval.Ledger there are [ErrForbidden],
// [ErrStepUp] and [ErrDenied]. A principal who may not see the request is told
// that there is none.
func (g *Gate) Answer(ctx context.Context, reply Reply) (approval.Record, error) {
	record, err := g.Read(ctx, reply.By, reply.ID)
	if err != nil {
		return approval.Record{}, err
	}
	if err := reply.By.MayAnswer(&record); err != nil {
		return approval.Record{}, err
	}
	if record.OptionIndex(reply.Option) < 0 {
		return approval.Record{}, fmt.Errorf("%w: %.200s; the options are %s", approval.ErrNotOffered, approval.RedactText(string(reply.Option)), listed(record.Options))
	}
	meaning, _ := approval.OptionMeaning(reply.Option)
	allows := meaning.Outcome == approval.OutcomeAllow
	if allows && !reply.By.Proven && g.proofNeeded(reply.By) {
		return approval.Record{}, ErrStepUp
	}
	request := record.Request
	if w := g.waiting(reply.ID); w != nil {
		// Rules that came into force while the request waited are heard first. If
		// they say something else, the revision is no longer the one that was read.
		g.workspaces.Of(ctx, w.question)
		if err := g.reroute(w); err != nil {
			return approval.Record{}, fmt.Errorf("rule on the request by the rules in force: %w", err)
		}
		record, request = w.now(), w.question.Request
	}
	decision := approval.Decision{
		Option: reply.Option, Outcome: meaning.Outcome, Source: approval.SourceHuman,
		By: reply.By.ID, Reason: reply.Reason,
	}
	if allows {
		if record.State == approval.Pending && record.Ruling.Route == approval.RouteDeny {
			return approval.Record{}, ErrDenied
		}
		if decision.Settlement, err = settle(request, &record.Ruling, reply.Grant); err != nil {
			return approval.Record{}, g.unsettled(ctx, &reply, &record, err)
		}
	} else if reply.Grant != nil {
		if decision.Settlement, err = refusal(request, reply.Grant); err != nil {
			return approval.Record{}, err
		}
	}
	from := approval.From{ID: reply.ID, Revision: reply.Revision, Instance: record.Instance}
	record, err = g.ledger.Decide(ctx, from, decision)
	if err != nil {
		g.feed.wake() // a refused answer is an event too
		return approval.Record{}, err
	}
	g.stats.decided(record.Decision)
	g.moved(record)
	return record, nil
}

// refusal is what an answer that refuses comes to when it says how: nothing is
// granted, and a turn can be put under strict review all the same.
func refusal(r *approval.Request, grant *permission.Response) (*permission.Settlement, error) {
	if !grant.Permissions.IsEmpty() || r.Permissions == nil {
		return nil, fmt.Errorf("%w: an answer that refuses grants nothing", approval.ErrInvalid)
	}
	settled, err := permission.Settle(*r.Permissions, *grant, permission.Unlimited())
	if err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	return &settled, nil
}

// ErrUnplaced means that an answer grants a path which cannot be placed where
// the request runs. Nothing was granted, and the turn that asked is interrupted:
// whoever answered meant a place that its agent does not have.
var ErrUnplaced = errors.New("a granted path cannot be placed in the environment of the request, so the turn was interrupted")

// unsettled is the error of an answer whose grant could not be worked out. In a
// session, one that names a path of somewhere else ends the turn.
func (g *Gate) unsettled(ctx context.Context, reply *Reply, record *approval.Record, err error) error {
	w := g.waiting(reply.ID)
	bad, path := errors.AsType[*permission.PathError](err)
	if !path || reply.Grant == nil || w == nil || w.question.Turn == nil {
		return fmt.Errorf("grant: %w", err)
	}
	// Like any other answer it counts for the revision that was read, and not where
	// somebody else has answered.
	from := approval.From{ID: reply.ID, Revision: reply.Revision, Instance: record.Instance}
	if record.State != approval.Pending {
		return &approval.ConflictError{Current: *record}
	}
	cancelled, failed := g.ledger.Cancel(ctx, from, reply.By.ID, "the answer grants a path that cannot be placed here: "+bad.Error())
	if failed != nil {
		g.feed.wake()
		return fmt.Errorf("interrupt the turn: %w", failed)
	}
	g.stats.closed(&cancelled)
	g.moved(cancelled)
	return fmt.Errorf("%w: %w", ErrUnplaced, err)
}

// proofNeeded tells whether an answer that allows has to come with proof of who
// gives it. While nothing of the configuration could be read, whoever has
// arranged for a proof gives it.
func (g *Gate) proofNeeded(by Principal) bool {
	home := g.workspaces.Home().Standing()
	if home.Epoch == nil {
		return by.Enrolled
	}
	return home.Epoch.Config.Principals.StepUp
}

func listed(options []json.RawMessage) string {
	text := ""
	for i, o := range options {
		if i > 0 {
			text += ", "
		}
		text += string(o)
	}
	return text
}

// Read returns a record that a principal may see. One that they may not see does
// not exist for them.
func (g *Gate) Read(ctx context.Context, by Principal, id string) (approval.Record, error) {
	record, err := g.ledger.Read(ctx, id)
	if err == nil && !by.MaySee(&record) {
		return approval.Record{}, fmt.Errorf("%w: %s", approval.ErrNotFound, id)
	}
	return record, err
}

// List returns a page of the records that a principal may see, the newest first.
// A page can hold fewer than there are, down to none, and go on all the same.
func (g *Gate) List(ctx context.Context, by Principal, q approval.Query) (approval.Page, error) {
	page, err := g.ledger.List(ctx, q)
	if err != nil {
		return page, err
	}
	seen := page.Records[:0]
	for i := range page.Records {
		if by.MaySee(&page.Records[i]) {
			seen = append(seen, page.Records[i])
		}
	}
	page.Records = seen
	return page, nil
}

// Cancel withdraws a request for a person. Who may answer it may do that, and so
// may whoever asked.
func (g *Gate) Cancel(ctx context.Context, by Principal, id string, revision int64, reason string) (approval.Record, error) {
	record, err := g.Read(ctx, by, id)
	if err != nil {
		return approval.Record{}, err
	}
	asked := by.ID != "" && record.Request.Subject != nil && record.Request.Subject.ID == by.ID
	if err := by.MayAnswer(&record); err != nil && !asked {
		return approval.Record{}, err
	}
	record, err = g.ledger.Cancel(ctx, approval.From{ID: id, Revision: revision, Instance: record.Instance}, by.ID, reason)
	if err != nil {
		return approval.Record{}, err
	}
	g.stats.closed(&record)
	g.moved(record)
	return record, nil
}

// Withdraw cancels a request for the instance that asked it, in whichever
// revision it is.
func (g *Gate) Withdraw(ctx context.Context, id, instance, reason string) (approval.Record, error) {
	record, err := g.Own(ctx, id, instance)
	if err != nil {
		return approval.Record{}, err
	}
	return g.cancel(ctx, record, "", reason)
}

// Own reads a record for the instance that it belongs to; for any other it is an
// approval.ErrInstance.
func (g *Gate) Own(ctx context.Context, id, instance string) (approval.Record, error) {
	if err := g.named(instance); err != nil {
		return approval.Record{}, err
	}
	record, err := g.ledger.Read(ctx, id)
	if err == nil && record.Instance != instance {
		return approval.Record{}, approval.ErrInstance
	}
	return record, err
}

// Fence lets an action start now on the strength of a record, once. It is asked
// right before, by the instance that asked the question: see approval.Record.Fence
// for its errors.
func (g *Gate) Fence(ctx context.Context, id, run, instance, digest string) (approval.Record, error) {
	record, err := g.ledger.Read(ctx, id)
	if err != nil {
		return approval.Record{}, err
	}
	if record.Instance == instance { // nobody else learns of the files
		if err := unchanged(record.Operands); err != nil {
			g.stats.fenced.Add(1)
			return record, err
		}
	}
	for {
		next, err := g.ledger.Fence(ctx, approval.From{ID: id, Revision: record.Revision, Instance: instance}, run, digest)
		if err == nil {
			g.moved(next)
			return next, nil
		}
		current, ok := newer(err, record)
		if !ok || current.State != approval.Decided && current.State != approval.Sent {
			g.stats.fenced.Add(1)
			return record, err
		}
		record = current // a mark came in between
	}
}

// Mark is how far an answer has come on its way to the harness.
type Mark string

// The marks, in their order. An answer that Ask or Await returned is marked as
// being written already.
const (
	MarkSent     Mark = "sent"
	MarkResolved Mark = "resolved"
)

// Mark notes for the instance that asked that its answer was written, or that
// the matter is over. A mark that is there already is left as it is.
func (g *Gate) Mark(ctx context.Context, id, instance string, mark Mark, reason string) (approval.Record, error) {
	record, err := g.Own(ctx, id, instance)
	if err != nil {
		return approval.Record{}, err
	}
	if record.State == approval.Decided && (mark == MarkSent || mark == MarkResolved) {
		if record, err = g.sent(ctx, record); err != nil {
			return approval.Record{}, err
		}
	}
	switch {
	case mark == MarkSent && (record.State == approval.Sent || record.State == approval.Resolved):
	case mark == MarkResolved && record.State == approval.Resolved:
	case mark == MarkResolved && record.State == approval.Sent:
		record, err = g.follow(record, func(r approval.Record) (approval.Record, error) {
			return g.ledger.Resolve(ctx, r.From(), "", reason)
		})
		if err != nil {
			return approval.Record{}, err
		}
		g.stats.closed(&record)
		g.moved(record)
	case mark != MarkSent && mark != MarkResolved:
		return approval.Record{}, fmt.Errorf("%w: no mark %q", approval.ErrInvalid, mark)
	default:
		return record, &approval.ConflictError{Current: record}
	}
	return record, nil
}

// sent marks a record as sent, unless it is already.
func (g *Gate) sent(ctx context.Context, r approval.Record) (approval.Record, error) {
	next, err := g.follow(r, func(r approval.Record) (approval.Record, error) {
		if r.State != approval.Decided {
			return r, nil
		}
		return g.ledger.MarkSent(ctx, r.From())
	})
	if err == nil {
		g.moved(next)
	}
	return next, err
}

// follow makes a step of a record that may have moved on without leaving its
// state: an action can start on an answer before anybody has noted that the
// answer was sent. It tries on the record that won, and gives up where that is
// in another state.
func (g *Gate) follow(r approval.Record, step func(approval.Record) (approval.Record, error)) (approval.Record, error) {
	for {
		next, err := step(r)
		current, ok := newer(err, r)
		if !ok {
			return next, err
		}
		if current.State != r.State {
			g.moved(current)
			return current, nil
		}
		r = current
	}
}

// Sent says that an answer of Ask, Post or Await has been written to whoever
// asked. It does not wait for that to be recorded. An answer without a decision
// needs no such word, and may have it.
func (g *Gate) Sent(a Answer) {
	if a.Record == nil || a.Record.State != approval.Decided || a.Record.Writing.IsZero() {
		return
	}
	g.async("record that an answer was written", func(ctx context.Context) error {
		if !a.done {
			_, err := g.sent(ctx, *a.Record)
			return err
		}
		record, err := g.follow(*a.Record, func(r approval.Record) (approval.Record, error) {
			return g.ledger.Finish(ctx, r.From(), "", "the answer was written to a host that keeps no record of it")
		})
		if err == nil {
			g.stats.closed(&record)
			g.moved(record)
		}
		return err
	})
}

// Unsent says that an answer of Ask, Post or Await could not be written, or not
// in full: nobody knows whether whoever asked has heard it. An instance that can
// come back for the answer is left to do so.
func (g *Gate) Unsent(a Answer, cause error) {
	if !a.done || a.Record == nil || a.Record.State != approval.Decided || a.Record.Writing.IsZero() {
		return
	}
	g.async("record that an answer was not written", func(ctx context.Context) error {
		record, err := g.follow(*a.Record, func(r approval.Record) (approval.Record, error) {
			return g.ledger.MarkUnknown(ctx, r.From(), fmt.Sprintf("the answer could not be written: %v", cause))
		})
		if err == nil {
			g.stats.closed(&record)
			g.moved(record)
		}
		return err
	})
}

// Reconcile ends a record of which nobody knows whether its answer was heard,
// after a person has looked.
func (g *Gate) Reconcile(ctx context.Context, by Principal, id string, revision int64, reason string) (approval.Record, error) {
	record, err := g.Read(ctx, by, id)
	if err != nil {
		return approval.Record{}, err
	}
	if err := by.MayAnswer(&record); err != nil {
		return approval.Record{}, err
	}
	if record.State != approval.Unknown {
		return approval.Record{}, &approval.ConflictError{Current: record}
	}
	record, err = g.ledger.Resolve(ctx, approval.From{ID: id, Revision: revision, Instance: record.Instance}, by.ID, reason)
	if err != nil {
		return approval.Record{}, err
	}
	g.feed.wake()
	return record, nil
}
