package native

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// Accepted is an action that a person accepted for the rest of a session.
type Accepted struct {
	ID            string    `json:"id"`
	Session       string    `json:"session_id"`
	Turn          string    `json:"turn_id"`
	Call          string    `json:"call_id"`
	EnvironmentID string    `json:"environment_id"`
	Record        string    `json:"record_id"`
	By            string    `json:"by"`
	At            time.Time `json:"at"`
	// Epoch is the set of rules under which it counts.
	Epoch string `json:"epoch"`
}

// accept remembers what a person accepted.
func (s *session) accept(a gate.Acceptance, c *call, answer *gate.Answer, at time.Time) {
	one := Accepted{
		ID: approval.NewID(), Session: s.spec.ID, Turn: c.turn.spec.ID, Call: c.spec.ID, Epoch: a.Epoch, At: at,
	}
	if r := answer.Record; r != nil {
		one.Record = r.ID
		if r.Decision != nil {
			one.By = r.Decision.By
		}
		if r.Request.Environment != nil {
			one.EnvironmentID = r.Request.Environment.ID
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.accepted) < maxAcceptances {
		s.accepted[a] = one
	}
}

// Held is all that sessions hold beyond their configuration.
type Held struct {
	Grants   []permission.Grant
	Accepted []Accepted
}

// Grants returns what the sessions that a principal may see hold; those of one
// session if it is named.
func (s *Sessions) Grants(by gate.Principal, id string) Held {
	var out Held
	for _, one := range s.all() {
		if id != "" && one.spec.ID != id || !one.seen(by) {
			continue
		}
		out.Grants = append(out.Grants, s.book.List(one.spec.ID)...)
		one.mu.Lock()
		for _, a := range one.accepted {
			out.Accepted = append(out.Accepted, a)
		}
		one.mu.Unlock()
	}
	slices.SortFunc(out.Grants, func(a, b permission.Grant) int { return a.At.Compare(b.At) })
	slices.SortFunc(out.Accepted, func(a, b Accepted) int { return a.At.Compare(b.At) })
	return out
}

// Revoke takes back a grant or an acceptance, for every call from here on. Who
// may answer the requests of its session may do that.
func (s *Sessions) Revoke(by gate.Principal, id string) error {
	for _, one := range s.all() {
		if !one.seen(by) {
			continue
		}
		holds := slices.ContainsFunc(s.book.List(one.spec.ID), func(g permission.Grant) bool { return g.ID == id })
		one.mu.Lock()
		var accepted *gate.Acceptance
		for key, a := range one.accepted {
			if a.ID == id {
				accepted = &key
			}
		}
		one.mu.Unlock()
		if !holds && accepted == nil {
			continue
		}
		if err := by.MayAnswer(one.record()); err != nil {
			return err
		}
		if holds {
			if _, ok := s.book.Revoke(id); !ok {
				break // somebody was faster
			}
		} else {
			one.mu.Lock()
			delete(one.accepted, *accepted)
			one.mu.Unlock()
		}
		s.log.Info("a grant was revoked", "id", id, "session", one.spec.ID, "by", by.ID)
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNoGrant, id)
}

// Response is a client's answer to a request for permissions, by its call.
type Response struct {
	Session, Call string
	// Revision is that of the approval that was read; 0 is whichever it has.
	Revision int64
	permission.Response
	Reason string
	By     gate.Principal
}

// Respond answers the request for permissions that a call waits for. A response
// without permissions refuses. One that belongs to nothing that waits is an
// [ErrUnmatched] and changes nothing; like one that lost or came too late it is
// made known to those who run the home.
func (s *Sessions) Respond(ctx context.Context, r Response) (approval.Record, error) {
	record, err := s.Asked(ctx, r)
	if err != nil {
		return approval.Record{}, err
	}
	outcome := approval.OutcomeAllow
	if r.Permissions.IsEmpty() {
		outcome = approval.OutcomeDeny
	}
	answered, err := s.gate.Answer(ctx, gate.Reply{
		ID: record.ID, Revision: record.Revision, Option: record.Options[approval.Choice(record.Options, outcome)],
		Reason: r.Reason, Grant: &r.Response, By: r.By,
	})
	if errors.Is(err, approval.ErrConflict) || errors.Is(err, approval.ErrExpired) || errors.Is(err, approval.ErrLost) {
		s.warn(r.Session, r.Call, err)
	}
	return answered, err
}

// Asked returns the approval that a response would answer, and does not answer
// it. Its errors are those of [Sessions.Respond] up to there.
func (s *Sessions) Asked(ctx context.Context, r Response) (approval.Record, error) {
	refused := func(err error) (approval.Record, error) {
		s.warn(r.Session, r.Call, err)
		return approval.Record{}, err
	}
	s.mu.Lock()
	one := s.sessions[r.Session]
	s.mu.Unlock()
	if one == nil || !one.seen(r.By) {
		return refused(fmt.Errorf("%w: %s", ErrNoSession, r.Session))
	}
	c, err := one.find(r.Call)
	if err != nil {
		return refused(fmt.Errorf("%w: call %s", ErrUnmatched, r.Call))
	}
	event, ok := c.event()
	if !ok {
		return refused(fmt.Errorf("%w: call %s", ErrUnmatched, r.Call))
	}
	record, err := s.gate.Read(ctx, r.By, event.Record)
	if err != nil {
		return approval.Record{}, err
	}
	if r.Revision != 0 && r.Revision != record.Revision {
		return refused(&approval.ConflictError{Current: record})
	}
	return record, nil
}

// Stats count what sessions have done.
type Stats struct {
	Sessions, Turns int
	// Refused counts the requests for permissions that approval_policy refused,
	// and Unmatched the answers that changed nothing.
	Refused, Unmatched, HookFailures int64
	// Faults counts the calls that ended with an error for the model.
	Faults map[Fault]int64
}

type stats struct {
	refused, unmatched, hookFailures atomic.Int64

	mu     sync.Mutex
	faults map[Fault]int64
}

func (s *stats) ended(f Final) {
	if f.Fault == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil {
		s.faults = map[Fault]int64{}
	}
	s.faults[f.Fault]++
}

// Stats returns the counts as they are now.
func (s *Sessions) Stats() Stats {
	out := Stats{
		Refused: s.stats.refused.Load(), Unmatched: s.stats.unmatched.Load(), HookFailures: s.stats.hookFailures.Load(),
		Faults: map[Fault]int64{},
	}
	s.stats.mu.Lock()
	for fault, n := range s.stats.faults {
		out.Faults[fault] = n
	}
	s.stats.mu.Unlock()
	all := s.all()
	out.Sessions = len(all)
	for _, one := range all {
		one.mu.Lock()
		for _, t := range one.order {
			if t.state == TurnOpen {
				out.Turns++
			}
		}
		one.mu.Unlock()
	}
	return out
}
