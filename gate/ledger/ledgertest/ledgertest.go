// Package ledgertest is what every [approval.Ledger] has to pass.
package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regent-policy/regent/gate/approval"
)

// Open opens the ledger that is kept in dir, or makes it, with a clock. A second
// call with the same dir, after the first ledger was closed, opens it again.
type Open func(t testing.TB, dir string, now func() time.Time) approval.Ledger

// Clock is a clock that moves when it is told to. It starts at a whole second.
type Clock struct{ ms atomic.Int64 }

// NewClock returns a clock.
func NewClock() *Clock {
	c := &Clock{}
	c.ms.Store(time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC).UnixMilli())
	return c
}

// Now is what the clock shows.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// Draft is a command that waits ten minutes for instance "i1".
func Draft() approval.Draft {
	return approval.Draft{
		Request: &approval.Request{
			Kind:        approval.KindCommand,
			Command:     &approval.Command{Text: "git push --force origin main"},
			Environment: &approval.Environment{ID: "local", Cwd: "/workspace/app"},
			Run:         &approval.Run{ID: "r1", Instance: "i1"},
			Session:     &approval.Session{ID: "s1"},
			Subject:     &approval.Subject{ID: "agent:codex", OnBehalfOf: "user:sam"},
			Options:     []json.RawMessage{json.RawMessage(`"accept"`), json.RawMessage(`{"grant": {"note":"a<b", "n":9007199254740993}}`), json.RawMessage(`"decline"`)},
		},
		Ruling: approval.Ruling{
			Route: approval.RouteAsk, Effects: []approval.Effect{approval.EffectNetwork, approval.EffectProcess}, External: true,
			Rules: []approval.Match{{
				ID: "GIT-001", Decision: "ask", Message: "force push", Mode: "enforce", Layer: "home", Package: "home.rules.git", File: "git.rego", Line: 7,
			}},
			Reasons:   []string{"GIT-001: force push"},
			Deadlines: approval.Deadlines{ReviewSeconds: 30, RequestSeconds: 600},
			Epoch:     "epoch-1",
		},
		Instance:  "i1",
		Workspace: "/workspace/app",
		Reviewers: []approval.ReviewerIdentity{{Name: "default/reviewer", Fingerprint: "f1"}},
		Operands: []approval.Operand{
			{Path: "/workspace/app/hooks/pre-push", SHA256: strings.Repeat("0f", 32)}, {Path: "/workspace/app/gone.sh", Problem: "missing"},
		},
	}
}

// Record is a new record of Draft.
func Record(t testing.TB, now func() time.Time) approval.Record {
	t.Helper()
	return record(t, Draft(), now)
}

func record(t testing.TB, d approval.Draft, now func() time.Time) approval.Record {
	t.Helper()
	r, err := approval.New(d, now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Allow is a person's yes.
func Allow() approval.Decision {
	return approval.Decision{Option: json.RawMessage(`"accept"`), Outcome: approval.OutcomeAllow, Source: approval.SourceHuman, By: "user:sam", Reason: "looked at it"}
}

// Deny is a person's no.
func Deny() approval.Decision {
	return approval.Decision{Option: json.RawMessage(`"decline"`), Outcome: approval.OutcomeDeny, Source: approval.SourceHuman, By: "user:kim"}
}

// Equal compares records; an absent list is an empty list.
var Equal = cmpopts.EquateEmpty()

type suite struct {
	*testing.T
	clock *Clock
	dir   string
	open  Open
	approval.Ledger
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"a record is read as it was stored", (*suite).roundTrip},
		{"a record goes from pending to resolved", (*suite).life},
		{"an id that is taken is refused and replaces nothing", (*suite).ids},
		{"1000 parallel requests have 1000 records", (*suite).manyInserts},
		{"of 32 answers one wins and 31 hear who won", (*suite).race},
		{"50 parallel decisions have 50 outcomes", (*suite).parallel},
		{"an action is let start once, and only that very action", (*suite).fence},
		{"of 32 fences one wins and 31 hear that it was used", (*suite).fenceRace},
		{"an approval stays used when the ledger is opened again", (*suite).fenceReopen},
		{"an action may start before and after its answer is marked as sent", (*suite).fenceAndSent},
		{"what was used is closed as what may have been heard", (*suite).fenceLeft},
		{"after recovery no action may start", (*suite).fenceRecover},
		{"the deadline holds without a sweep", (*suite).expiry},
		{"a lease that ran out holds without a sweep", (*suite).leases},
		{"a sweep closes what its host left", (*suite).sweep},
		{"recovery closes everything and spares the finished", (*suite).recover},
		{"a clock that is set back changes no order", (*suite).clockSetBack},
		{"more records than one sweep takes are all closed", (*suite).largeSweep},
		{"a decision is one of the options", (*suite).options},
		{"what policy decides is one change", (*suite).insertDecided},
		{"an answer that is written at once takes two changes", (*suite).atOnce},
		{"a new epoch keeps the deadline", (*suite).reroute},
		{"what reviewers in shadow said is noted beside what was decided", (*suite).notes},
		{"a note is refused while somebody may still decide", (*suite).notePending},
		{"a note does not keep an action from starting, nor a mark from being made", (*suite).noteBetween},
		{"lists go page by page and can be narrowed", (*suite).lists},
		{"events are numbered without gaps and hold no request", (*suite).events},
		{"secrets are not stored", (*suite).secrets},
		{"a context that has ended changes nothing", (*suite).contexts},
		{"a closed ledger refuses, and keeps what it has", (*suite).reopen},
		{"closing waits for the changes that were begun", (*suite).closing},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, clock: NewClock(), dir: t.TempDir(), open: open}
			s.Ledger = open(t, s.dir, s.clock.Now)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			s.lease("i1")
			c.test(s)
		})
	}
	t.Run("it does what the model does", func(t *testing.T) { machine(t, open) })
}

func (s *suite) lease(instance string) {
	s.Helper()
	if _, err := s.Lease(s.Context(), instance, 30*time.Minute); err != nil {
		s.Fatal(err)
	}
}

// must returns a function that fails the test on an error.
func (s *suite) must(r approval.Record, err error) approval.Record {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *suite) insert() approval.Record {
	s.Helper()
	return s.must(s.Insert(s.Context(), Record(s, s.clock.Now)))
}

// isStored fails unless the ledger holds want.
func (s *suite) isStored(want approval.Record) {
	s.Helper()
	got, err := s.Read(s.Context(), want.ID)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(want, got, Equal); diff != "" {
		s.Errorf("stored record (-want +got):\n%s", diff)
	}
}

// refused fails unless err is one of sentinel.
func (s *suite) refused(what string, err, sentinel error) {
	s.Helper()
	if !errors.Is(err, sentinel) {
		s.Errorf("%s: err = %v, want one that wraps %v", what, err, sentinel)
	}
}

func (s *suite) roundTrip() {
	want := Record(s, s.clock.Now)
	got := s.must(s.Insert(s.Context(), want))
	if got.Lease.IsZero() {
		s.Error("the stored record has no lease")
	}
	want.Lease = got.Lease
	if diff := cmp.Diff(want, got, Equal); diff != "" {
		s.Errorf("Insert (-want +got):\n%s", diff)
	}
	s.isStored(want)
	if _, err := s.Read(s.Context(), "nothing"); !errors.Is(err, approval.ErrNotFound) {
		s.Errorf("Read of an unknown id: %v", err)
	}
}

func (s *suite) life() {
	ctx := s.Context()
	r := s.insert()
	var states []string
	steps := []func(approval.Record) (approval.Record, error){
		func(r approval.Record) (approval.Record, error) { return s.Decide(ctx, r.From(), Allow()) },
		func(r approval.Record) (approval.Record, error) { return s.BeginSend(ctx, r.From()) },
		func(r approval.Record) (approval.Record, error) { return s.MarkSent(ctx, r.From()) },
		func(r approval.Record) (approval.Record, error) {
			return s.Resolve(ctx, r.From(), "", "the call ended")
		},
	}
	for i, step := range steps {
		s.clock.Advance(time.Second)
		before := r
		r = s.must(step(r))
		states = append(states, string(r.State))
		if r.Revision != int64(i)+2 || !r.Updated.Equal(s.clock.Now()) {
			s.Errorf("after step %d: revision %d, updated %v", i+1, r.Revision, r.Updated)
		}
		s.isStored(r)
		_, err := step(before)
		s.refused("the same step again", err, approval.ErrConflict)
	}
	if diff := cmp.Diff([]string{"decided", "decided", "sent", "resolved"}, states); diff != "" {
		s.Errorf("states (-want +got):\n%s", diff)
	}
	_, err := s.Fence(ctx, r.From(), "r1", r.Digest)
	s.refused("an action on what is over", err, approval.ErrConflict)
	s.isStored(r)
}

func (s *suite) ids() {
	r := s.insert()
	other := r
	other.Workspace, other.Digest = "/elsewhere", "another action"
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			_, err := s.Insert(s.Context(), other)
			s.refused("a second insert", err, approval.ErrExists)
		})
	}
	wait.Wait()
	s.isStored(r)
}

func (s *suite) manyInserts() {
	const count = 1000
	records := make([]approval.Record, count)
	for i := range records {
		records[i] = Record(s, s.clock.Now)
	}
	var wait sync.WaitGroup
	for i := range records {
		wait.Go(func() {
			if _, err := s.Insert(s.Context(), records[i]); err != nil {
				s.Error(err)
			}
		})
	}
	wait.Wait()
	stored := map[string]bool{}
	for q := (approval.Query{}); ; {
		page, err := s.List(s.Context(), q)
		if err != nil {
			s.Fatal(err)
		}
		for _, r := range page.Records {
			stored[r.ID] = true
		}
		if q.Before = page.Before; q.Before == "" {
			break
		}
	}
	if len(stored) != count {
		s.Errorf("%d records of %d requests", len(stored), count)
	}
}

func (s *suite) race() {
	const callers = 32
	r := s.insert()
	var wins atomic.Int64
	var won approval.Record
	errs := make([]error, callers)
	start := make(chan struct{})
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			d := Allow()
			if i%2 == 1 {
				d = Deny()
			}
			d.By = fmt.Sprintf("user:%d", i)
			<-start
			got, err := s.Decide(s.Context(), r.From(), d)
			if errs[i] = err; err == nil {
				wins.Add(1)
				won = got
			}
		})
	}
	close(start)
	wait.Wait()
	if wins.Load() != 1 {
		s.Fatalf("%d winners, want 1", wins.Load())
	}
	for i, err := range errs {
		if err == nil {
			continue
		}
		conflict, ok := errors.AsType[*approval.ConflictError](err)
		if !ok {
			s.Errorf("caller %d: %v is no conflict", i, err)
		} else if diff := cmp.Diff(won, conflict.Current, Equal); diff != "" {
			s.Errorf("caller %d heard of another winner (-want +got):\n%s", i, diff)
		}
	}
	s.isStored(won)
	late := 0
	for _, e := range s.allEvents() {
		if e.Kind == approval.EventRefused {
			late++
		}
	}
	if late != callers-1 {
		s.Errorf("%d late answers kept, want %d", late, callers-1)
	}
}

func (s *suite) allEvents() []approval.Event {
	s.Helper()
	var all []approval.Event
	for {
		after := int64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		some, err := s.Events(s.Context(), after, 7)
		if err != nil {
			s.Fatal(err)
		}
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
	}
}

func (s *suite) parallel() {
	const count = 50
	records := make([]approval.Record, count)
	for i := range records {
		records[i] = s.insert()
	}
	var wait sync.WaitGroup
	start := make(chan struct{})
	for i, r := range records {
		wait.Go(func() {
			<-start
			d := Allow()
			if i%2 == 1 {
				d = Deny()
			}
			got, err := s.Decide(s.Context(), r.From(), d)
			if err != nil || got.State != approval.Decided || got.Decision.Outcome != d.Outcome {
				s.Errorf("decision %d: %v, %v", i, got.State, err)
			}
		})
	}
	close(start)
	wait.Wait()
	for i, r := range records {
		got, err := s.Read(s.Context(), r.ID)
		if want := []approval.Outcome{approval.OutcomeAllow, approval.OutcomeDeny}[i%2]; err != nil || got.Decision == nil || got.Decision.Outcome != want {
			s.Errorf("record %d has no outcome %s: %+v, %v", i, want, got.Decision, err)
		}
	}
}

func (s *suite) fence() {
	ctx := s.Context()
	waits := s.insert()
	_, err := s.Fence(ctx, waits.From(), "r1", waits.Digest)
	s.refused("an action on what nobody has decided", err, approval.ErrConflict)
	r := s.must(s.Decide(ctx, waits.From(), Allow()))
	for _, c := range []struct {
		what        string
		from        approval.From
		run, digest string
		want        error
	}{
		{"another id", approval.From{ID: "nothing", Revision: 2, Instance: "i1"}, "r1", r.Digest, approval.ErrNotFound},
		{"another instance", approval.From{ID: r.ID, Revision: 2, Instance: "i2"}, "r1", r.Digest, approval.ErrInstance},
		{"no instance", approval.From{ID: r.ID, Revision: 2}, "r1", r.Digest, approval.ErrInstance},
		{"another run", r.From(), "r2", r.Digest, approval.ErrInstance},
		{"another action", r.From(), "r1", strings.Repeat("0", 64), approval.ErrDigest},
		{"no action", r.From(), "r1", "", approval.ErrDigest},
		{"an older revision", waits.From(), "r1", r.Digest, approval.ErrConflict},
	} {
		_, err := s.Fence(ctx, c.from, c.run, c.digest)
		s.refused(c.what, err, c.want)
		s.isStored(r)
	}
	s.clock.Advance(11 * time.Minute) // past the deadline, which was for the decision
	used := s.must(s.Fence(ctx, r.From(), "r1", r.Digest))
	if used.State != approval.Decided || used.Revision != 3 || !used.Fenced.Equal(s.clock.Now()) || !used.Updated.Equal(s.clock.Now()) {
		s.Errorf("record = %+v", used)
	}
	s.isStored(used)
	s.clock.Advance(time.Second)
	for what, from := range map[string]approval.From{"the same again": r.From(), "again, from what it is now": used.From()} {
		_, err := s.Fence(ctx, from, "r1", r.Digest)
		s.refused(what, err, approval.ErrUsed)
	}
	_, err = s.Cancel(ctx, used.From(), "user:sam", "too late")
	s.refused("to withdraw what was used", err, approval.ErrConflict)
	s.isStored(used)
	var kinds []string
	for _, e := range s.allEvents() {
		kinds = append(kinds, fmt.Sprintf("%s %d %s", e.Kind, e.Revision, e.State))
	}
	if diff := cmp.Diff([]string{"asked 1 pending", "decided 2 decided", "fenced 3 decided"}, kinds); diff != "" {
		s.Errorf("events (-want +got):\n%s", diff)
	}
	gone := s.must(s.Decide(ctx, s.insert().From(), Allow()))
	gone = s.must(s.Cancel(ctx, gone.From(), "user:sam", "on second thought"))
	_, err = s.Fence(ctx, gone.From(), "r1", gone.Digest)
	s.refused("an action on what was withdrawn", err, approval.ErrConflict)
	s.isStored(gone)
}

func (s *suite) fenceRace() {
	const callers = 32
	r := s.must(s.Decide(s.Context(), s.insert().From(), Allow()))
	var wins atomic.Int64
	start := make(chan struct{})
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			<-start
			if _, err := s.Fence(s.Context(), r.From(), "r1", r.Digest); err == nil {
				wins.Add(1)
			} else {
				s.refused("a second start", err, approval.ErrUsed)
			}
		})
	}
	close(start)
	wait.Wait()
	if wins.Load() != 1 {
		s.Errorf("%d actions may start, want 1", wins.Load())
	}
	fenced := 0
	for _, e := range s.allEvents() {
		if e.Kind == approval.EventFenced {
			fenced++
		}
	}
	if got, err := s.Read(s.Context(), r.ID); err != nil || got.Revision != 3 || fenced != 1 {
		s.Errorf("revision %d with %d uses, %v; want 3 with 1", got.Revision, fenced, err)
	}
}

func (s *suite) fenceReopen() {
	ctx := s.Context()
	r := s.must(s.Decide(ctx, s.insert().From(), Allow()))
	used := s.must(s.Fence(ctx, r.From(), "r1", r.Digest))
	if err := s.Close(); err != nil {
		s.Fatal(err)
	}
	_, err := s.Fence(ctx, used.From(), "r1", r.Digest)
	s.refused("a closed ledger", err, approval.ErrClosed)
	s.Ledger = s.open(s, s.dir, s.clock.Now)
	s.isStored(used)
	for _, from := range []approval.From{r.From(), used.From()} {
		_, err := s.Fence(ctx, from, "r1", r.Digest)
		s.refused("a use of before", err, approval.ErrUsed)
	}
}

func (s *suite) fenceAndSent() {
	ctx := s.Context()
	writing := func() approval.Record {
		r := s.must(s.Decide(ctx, s.insert().From(), Allow()))
		return s.must(s.BeginSend(ctx, r.From()))
	}
	// The host is quicker than the mark that it was told.
	r := writing()
	used := s.must(s.Fence(ctx, r.From(), "r1", r.Digest))
	_, err := s.MarkSent(ctx, r.From())
	conflict, ok := errors.AsType[*approval.ConflictError](err)
	if !ok {
		s.Fatalf("a mark from before the use: %v, want a conflict", err)
	}
	if diff := cmp.Diff(used, conflict.Current, Equal); diff != "" {
		s.Errorf("what to mark instead (-want +got):\n%s", diff)
	}
	sent := s.must(s.MarkSent(ctx, conflict.Current.From()))
	if sent.State != approval.Sent || !sent.Fenced.Equal(used.Fenced) {
		s.Errorf("record = %+v", sent)
	}
	_, err = s.Fence(ctx, sent.From(), "r1", r.Digest)
	s.refused("a second start, now that it is sent", err, approval.ErrUsed)
	s.isStored(s.must(s.Resolve(ctx, sent.From(), "", "the call ended")))

	// The mark is quicker than the host.
	r = writing()
	sent = s.must(s.MarkSent(ctx, r.From()))
	_, err = s.Fence(ctx, r.From(), "r1", r.Digest)
	s.refused("a use from before the mark", err, approval.ErrConflict)
	used = s.must(s.Fence(ctx, sent.From(), "r1", r.Digest))
	if used.State != approval.Sent || used.Fenced.IsZero() || used.Revision != sent.Revision+1 {
		s.Errorf("record = %+v", used)
	}
	s.isStored(used)
	_, err = s.Fence(ctx, used.From(), "r1", r.Digest)
	s.refused("a second start", err, approval.ErrUsed)

	// Both from one revision at once: either order is right, and none is lost.
	for range 8 {
		r := writing()
		var fenceErr, sentErr error
		var wait sync.WaitGroup
		wait.Go(func() { _, fenceErr = s.Fence(ctx, r.From(), "r1", r.Digest) })
		wait.Go(func() { _, sentErr = s.MarkSent(ctx, r.From()) })
		wait.Wait()
		if (fenceErr == nil) == (sentErr == nil) || !errors.Is(errors.Join(fenceErr, sentErr), approval.ErrConflict) {
			s.Errorf("fence: %v, mark: %v; want one conflict", fenceErr, sentErr)
		}
	}
}

func (s *suite) fenceLeft() {
	ctx := s.Context()
	fence := func(r approval.Record) approval.Record { return s.must(s.Fence(ctx, r.From(), "r1", r.Digest)) }
	_, decided, writing, sent, _ := s.mixture()
	want := map[string]approval.State{
		fence(decided).ID: approval.Unknown, fence(writing).ID: approval.Unknown, fence(sent).ID: approval.Resolved,
	}
	if err := s.Release(ctx, "i1"); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Sweep(ctx); err != nil {
		s.Fatal(err)
	}
	for id, state := range want {
		r, err := s.Read(ctx, id)
		if err != nil || r.State != state || r.Fenced.IsZero() {
			s.Errorf("%s, fenced at %v, %v; want %s", r.State, r.Fenced, err, state)
		}
	}
}

func (s *suite) fenceRecover() {
	ctx := s.Context()
	_, decided, writing, sent, _ := s.mixture()
	if _, err := s.Recover(ctx); err != nil {
		s.Fatal(err)
	}
	for _, before := range []approval.Record{decided, writing, sent} {
		after, err := s.Read(ctx, before.ID)
		if err != nil {
			s.Fatal(err)
		}
		for _, from := range []approval.From{before.From(), after.From()} {
			_, err := s.Fence(ctx, from, "r1", before.Digest)
			s.refused("an action on a "+string(before.State)+" approval of before", err, approval.ErrConflict)
		}
		s.isStored(after)
	}
}

func (s *suite) expiry() {
	r, inTime := s.insert(), s.insert()
	s.clock.Advance(10*time.Minute - time.Millisecond)
	s.must(s.Decide(s.Context(), inTime.From(), Allow()))
	s.clock.Advance(time.Millisecond)
	_, err := s.Decide(s.Context(), r.From(), Allow())
	s.refused("a decision at the deadline", err, approval.ErrExpired)
	if err != nil && !strings.Contains(err.Error(), "expired; ask anew") {
		s.Errorf("err = %q does not say what to do", err)
	}
	_, err = s.Reroute(s.Context(), r.From(), Draft().Ruling, nil)
	s.refused("a new route at the deadline", err, approval.ErrExpired)
	s.isStored(r)
	closed, err := s.Sweep(s.Context())
	if err != nil || len(closed) != 1 || closed[0].ID != r.ID || closed[0].State != approval.Expired {
		s.Fatalf("Sweep = %+v, %v", closed, err)
	}
	s.isStored(closed[0])
	_, err = s.Decide(s.Context(), r.From(), Allow())
	s.refused("a decision after the sweep", err, approval.ErrExpired)
	s.refused("a decision after the sweep", err, approval.ErrConflict)
	late := Record(s, s.clock.Now)
	s.clock.Advance(11 * time.Minute)
	_, err = s.Insert(s.Context(), late)
	s.refused("a request past its deadline", err, approval.ErrExpired)
}

func (s *suite) leases() {
	ctx := s.Context()
	short := Draft()
	short.Instance = "short"
	_, err := s.Insert(ctx, record(s, short, s.clock.Now))
	s.refused("a request without a lease", err, approval.ErrLost)
	until, err := s.Lease(ctx, "short", 30*time.Second)
	if err != nil || !until.Equal(s.clock.Now().Add(30*time.Second)) {
		s.Fatalf("Lease = %v, %v", until, err)
	}
	r := s.must(s.Insert(ctx, record(s, short, s.clock.Now)))
	s.clock.Advance(20 * time.Second)
	if until, err = s.Lease(ctx, "short", 30*time.Second); err != nil {
		s.Fatal(err)
	}
	r.Lease = until
	s.isStored(r)
	decided := s.must(s.Insert(ctx, record(s, short, s.clock.Now)))
	decided = s.must(s.Decide(ctx, decided.From(), Allow()))
	s.clock.Advance(30 * time.Second)
	_, err = s.Decide(ctx, r.From(), Allow())
	s.refused("a decision for a host that is gone", err, approval.ErrLost)
	_, err = s.BeginSend(ctx, decided.From())
	s.refused("an answer to a host that is gone", err, approval.ErrLost)
	_, err = s.Fence(ctx, decided.From(), "r1", decided.Digest)
	s.refused("an action of a host that is gone", err, approval.ErrLost)
	_, err = s.Lease(ctx, "short", time.Hour)
	s.refused("a lease that is over", err, approval.ErrLost)
	for _, from := range []approval.From{{ID: r.ID, Revision: 1, Instance: "i1"}, {ID: r.ID, Revision: 1}} {
		_, err = s.Decide(ctx, from, Allow())
		s.refused("another instance", err, approval.ErrInstance)
	}
	if err := errors.Join(s.Release(ctx, "i1"), s.Release(ctx, "nobody")); err != nil {
		s.Fatal(err)
	}
	_, err = s.Insert(ctx, Record(s, s.clock.Now))
	s.refused("a request after the release", err, approval.ErrLost)
	_, err = s.Lease(ctx, "", time.Hour)
	s.refused("a lease for nobody", err, approval.ErrInvalid)
}

// mixture inserts one record of each kind that a host can leave behind.
func (s *suite) mixture() (pending, decided, writing, sent, resolved approval.Record) {
	ctx := s.Context()
	pending = s.insert()
	decided = s.must(s.Decide(ctx, s.insert().From(), Allow()))
	writing = s.must(s.Decide(ctx, s.insert().From(), Allow()))
	writing = s.must(s.BeginSend(ctx, writing.From()))
	send := func() approval.Record {
		r := s.must(s.Decide(ctx, s.insert().From(), Allow()))
		r = s.must(s.BeginSend(ctx, r.From()))
		return s.must(s.MarkSent(ctx, r.From()))
	}
	sent = send()
	resolved = s.must(s.Resolve(ctx, send().From(), "", "the call ended"))
	return pending, decided, writing, sent, resolved
}

func (s *suite) left(closed []approval.Record, err error, records ...approval.Record) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	got := map[string]approval.State{}
	for _, r := range closed {
		got[r.ID] = r.State
		s.isStored(r)
	}
	want := map[string]approval.State{}
	for i, state := range []approval.State{approval.Lost, approval.Lost, approval.Unknown, approval.Resolved} {
		want[records[i].ID] = state
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("closed (-want +got):\n%s", diff)
	}
}

func (s *suite) sweep() {
	pending, decided, writing, sent, resolved := s.mixture()
	s.lease("i2")
	other := Draft()
	other.Instance = "i2"
	alive := s.must(s.Insert(s.Context(), record(s, other, s.clock.Now)))
	if closed, err := s.Sweep(s.Context()); err != nil || len(closed) != 0 {
		s.Fatalf("a sweep with nothing to do closed %v, %v", closed, err)
	}
	if err := s.Release(s.Context(), "i1"); err != nil {
		s.Fatal(err)
	}
	closed, err := s.Sweep(s.Context())
	s.left(closed, err, pending, decided, writing, sent)
	s.isStored(alive)
	resolved.Lease = time.Time{}
	s.isStored(resolved)
	unknown, err := s.Read(s.Context(), writing.ID)
	if err != nil {
		s.Fatal(err)
	}
	_, err = s.Resolve(s.Context(), unknown.From(), "", "")
	s.refused("an unknown outcome resolved by nobody", err, approval.ErrInvalid)
	s.isStored(s.must(s.Resolve(s.Context(), unknown.From(), "user:sam", "the push went out")))
}

func (s *suite) recover() {
	pending, decided, writing, sent, _ := s.mixture()
	closed, err := s.Recover(s.Context())
	s.left(closed, err, pending, decided, writing, sent)
	_, err = s.Lease(s.Context(), "i1", time.Minute)
	s.refused("a lease of before the recovery", err, approval.ErrLost)
	s.clock.Advance(-20 * time.Minute)
	_, err = s.Lease(s.Context(), "i1", time.Minute)
	s.refused("the same when the clock was set back", err, approval.ErrLost)
	if closed, err := s.Recover(s.Context()); err != nil || len(closed) != 0 {
		s.Errorf("a second recovery closed %v, %v", closed, err)
	}
}

// clockSetBack: instants may go back, what they are compared with is what the
// clock shows, and what is over stays over.
func (s *suite) clockSetBack() {
	ctx := s.Context()
	first, later := s.insert(), s.insert()
	s.clock.Advance(10 * time.Minute)
	closed, err := s.Sweep(ctx)
	if err != nil || len(closed) != 2 {
		s.Fatalf("Sweep = %v, %v", closed, err)
	}
	fresh := s.insert()
	s.clock.Advance(-time.Hour)
	for _, r := range []approval.Record{first, later} {
		_, err := s.Decide(ctx, r.From(), Allow())
		s.refused("what had expired before the clock was set back", err, approval.ErrExpired)
	}
	// By the clock as it is, these have longer to wait, and no less.
	decided := s.must(s.Decide(ctx, fresh.From(), Allow()))
	if !decided.Updated.Equal(s.clock.Now()) || !decided.Deadline.Equal(fresh.Deadline) {
		s.Errorf("decided at %v until %v", decided.Updated, decided.Deadline)
	}
	s.isStored(s.must(s.BeginSend(ctx, decided.From())))
	early := s.insert()
	if closed, err := s.Sweep(ctx); err != nil || len(closed) != 0 {
		s.Errorf("a sweep closed %v, %v", closed, err)
	}
	page, err := s.List(ctx, approval.Query{})
	if err != nil {
		s.Fatal(err)
	}
	var ids []string
	for _, r := range page.Records {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{early.ID, fresh.ID, later.ID, first.ID}, ids); diff != "" {
		s.Errorf("the order of asking (-want +got):\n%s", diff)
	}
	var at []time.Time
	for i, e := range s.allEvents() {
		if e.Seq != int64(i)+1 {
			s.Errorf("event %d has number %d", i+1, e.Seq)
		}
		at = append(at, e.At)
	}
	if slices.IsSortedFunc(at, time.Time.Compare) {
		s.Error("no event is from after the clock was set back")
	}
	s.clock.Advance(10 * time.Minute)
	_, err = s.Decide(ctx, early.From(), Allow())
	s.refused("the deadline by the clock that was set back", err, approval.ErrExpired)
}

func (s *suite) largeSweep() {
	const count = 600
	var wait sync.WaitGroup
	for range count {
		wait.Go(func() {
			if _, err := s.Insert(s.Context(), Record(s, s.clock.Now)); err != nil {
				s.Error(err)
			}
		})
	}
	wait.Wait()
	s.clock.Advance(10 * time.Minute)
	closed, err := s.Sweep(s.Context())
	if err != nil || len(closed) != count {
		s.Errorf("%d of %d closed, %v", len(closed), count, err)
	}
}

func (s *suite) options() {
	r := s.insert()
	for _, option := range []string{`"allow"`, `"Accept"`, `{"grant":{"n":9007199254740992,"note":"a<b"}}`, `"accept`, ``, `null`} {
		d := Allow()
		d.Option = json.RawMessage(option)
		_, err := s.Decide(s.Context(), r.From(), d)
		s.refused(option, err, approval.ErrNotOffered)
	}
	for _, d := range []approval.Decision{
		{Option: json.RawMessage(`"accept"`), Outcome: "yes", Source: approval.SourceHuman, By: "x"},
		{Option: json.RawMessage(`"accept"`), Outcome: approval.OutcomeAllow, Source: approval.SourceHuman},
		{Option: json.RawMessage(`"accept"`), Outcome: approval.OutcomeAllow, Source: "me", By: "x"},
		{Option: json.RawMessage(`"accept"`), Outcome: approval.OutcomeAllow, Source: approval.SourceTimeout},
	} {
		_, err := s.Decide(s.Context(), r.From(), d)
		s.refused(fmt.Sprintf("%+v", d), err, approval.ErrInvalid)
	}
	s.isStored(r)
	d := Allow()
	d.Option = json.RawMessage(`{"grant":{"n":9007199254740993,"note":"a<b"}}`)
	got := s.must(s.Decide(s.Context(), r.From(), d))
	if string(got.Decision.Option) != string(r.Options[1]) {
		s.Errorf("option = %s, want the offered %s", got.Decision.Option, r.Options[1])
	}
	s.isStored(got)
}

func (s *suite) insertDecided() {
	d := approval.Decision{Option: json.RawMessage(`"decline"`), Outcome: approval.OutcomeDeny, Source: approval.SourceRule, By: "GIT-001"}
	r := Record(s, s.clock.Now)
	bad := d
	bad.Option = json.RawMessage(`"never"`)
	_, err := s.InsertDecided(s.Context(), r, bad, true)
	s.refused("a decision that is not offered", err, approval.ErrNotOffered)
	if _, err := s.Read(s.Context(), r.ID); !errors.Is(err, approval.ErrNotFound) {
		s.Errorf("half of a refused change stayed: %v", err)
	}
	got := s.must(s.InsertDecided(s.Context(), r, d, false))
	if got.State != approval.Decided || got.Revision != 2 || got.Decision.By != "GIT-001" {
		s.Errorf("record = %+v", got)
	}
	s.isStored(got)
	_, err = s.Fence(s.Context(), got.From(), "r1", got.Digest)
	s.refused("a denied action", err, approval.ErrNotAllowed)
	s.isStored(got)
	_, err = s.InsertDecided(s.Context(), r, d, false)
	s.refused("the same again", err, approval.ErrExists)
	second := r
	second.Revision = 2
	_, err = s.Insert(s.Context(), second)
	s.refused("a record that is not new", err, approval.ErrInvalid)
}

func (s *suite) atOnce() {
	ctx := s.Context()
	d := Allow()
	d.Source, d.By = approval.SourceRule, "GIT-001"
	writing := s.must(s.InsertDecided(ctx, Record(s, s.clock.Now), d, true))
	if writing.State != approval.Decided || writing.Revision != 3 || !writing.Writing.Equal(s.clock.Now()) || writing.Decision.By != "GIT-001" {
		s.Errorf("record = %+v", writing)
	}
	s.isStored(writing)
	_, err := s.Cancel(ctx, writing.From(), "user:sam", "too late")
	s.refused("to cancel what is being written", err, approval.ErrConflict)
	s.clock.Advance(time.Second)
	for _, from := range []approval.From{
		{ID: writing.ID, Revision: 2, Instance: "i1"}, {ID: writing.ID, Revision: 4, Instance: "i1"},
	} {
		_, err = s.Finish(ctx, from, "", "answered")
		s.refused("another revision", err, approval.ErrConflict)
	}
	_, err = s.Finish(ctx, approval.From{ID: writing.ID, Revision: 3, Instance: "i2"}, "", "answered")
	s.refused("another instance", err, approval.ErrInstance)
	_, err = s.Finish(ctx, approval.From{ID: "nothing", Revision: 3, Instance: "i1"}, "", "answered")
	s.refused("another id", err, approval.ErrNotFound)
	s.isStored(writing)
	over := s.must(s.Finish(ctx, writing.From(), "user:sam", "answered"))
	if over.State != approval.Resolved || over.Revision != 5 || over.Closing == nil || over.Closing.By != "user:sam" || over.Closing.Reason != "answered" {
		s.Errorf("record = %+v", over)
	}
	s.isStored(over)
	_, err = s.Finish(ctx, writing.From(), "user:sam", "answered")
	s.refused("the same again", err, approval.ErrConflict)

	decided := s.must(s.InsertDecided(ctx, Record(s, s.clock.Now), d, false))
	_, err = s.Finish(ctx, decided.From(), "", "answered")
	s.refused("an answer that was not begun", err, approval.ErrConflict)
	s.isStored(decided)

	// A host that is gone in between leaves an answer of which nobody knows.
	left := s.must(s.InsertDecided(ctx, Record(s, s.clock.Now), d, true))
	var kinds []string
	for _, e := range s.allEvents() {
		if e.ID != decided.ID {
			kinds = append(kinds, fmt.Sprintf("%s %d %s", e.Kind, e.Revision, e.State))
		}
	}
	begun := []string{"asked 1 pending", "decided 2 decided", "writing 3 decided"}
	want := slices.Concat(begun, []string{"sent 4 sent", "resolved 5 resolved"}, begun)
	if diff := cmp.Diff(want, kinds); diff != "" {
		s.Errorf("events (-want +got):\n%s", diff)
	}
	if _, err := s.Recover(ctx); err != nil {
		s.Fatal(err)
	}
	if r, err := s.Read(ctx, left.ID); err != nil || r.State != approval.Unknown {
		s.Errorf("after the host ended: %s, %v; want unknown", r.State, err)
	}
	_, err = s.InsertDecided(ctx, Record(s, s.clock.Now), d, true)
	s.refused("a request of a host that is gone", err, approval.ErrLost)
}

func (s *suite) reroute() {
	r := s.insert()
	s.clock.Advance(time.Minute)
	ruling := Draft().Ruling
	ruling.Epoch, ruling.Route, ruling.Deadlines.RequestSeconds = "epoch-2", approval.RouteReview, 6000
	got := s.must(s.Reroute(s.Context(), r.From(), ruling, []approval.ReviewerIdentity{{Name: "second", Fingerprint: "f2"}}))
	if !got.Deadline.Equal(r.Deadline) || got.Ruling.Epoch != "epoch-2" || got.State != approval.Pending || got.Revision != 2 {
		s.Errorf("record = %+v", got)
	}
	if want := s.clock.Now().Add(30 * time.Second); !got.ReviewDeadline.Equal(want) {
		s.Errorf("review deadline = %v, want %v", got.ReviewDeadline, want)
	}
	s.isStored(got)
	_, err := s.Decide(s.Context(), r.From(), Allow())
	s.refused("an answer to what the old policy asked", err, approval.ErrConflict)
	decided := s.must(s.Decide(s.Context(), got.From(), Allow()))
	_, err = s.Reroute(s.Context(), decided.From(), ruling, nil)
	s.refused("a new route for what is decided", err, approval.ErrConflict)
	cancelled := s.must(s.Cancel(s.Context(), decided.From(), "user:sam", "the run ended"))
	s.isStored(cancelled)
	_, err = s.BeginSend(s.Context(), cancelled.From())
	s.refused("an answer to what was cancelled", err, approval.ErrConflict)
}

// Noted is what a reviewer in shadow says of a request.
func Noted() approval.Verdict {
	return approval.Verdict{
		Reviewer: "one/shadow", Outcome: approval.VerdictDeny, Risk: approval.RiskHigh, Rationale: "it publishes", Shadow: true, DurationMS: 12,
	}
}

func (s *suite) notes() {
	ctx := s.Context()
	for _, end := range []func(approval.Record) approval.Record{
		func(r approval.Record) approval.Record { return s.must(s.Decide(ctx, r.From(), Allow())) },
		func(r approval.Record) approval.Record {
			return s.must(s.Cancel(ctx, r.From(), "user:sam", "no longer"))
		},
	} {
		r := end(s.insert())
		s.clock.Advance(time.Second)
		noted := s.must(s.Note(ctx, r.ID, []approval.Verdict{Noted()}))
		want := r
		want.Revision++
		want.Updated, want.Shadow = s.clock.Now(), []approval.Verdict{Noted()}
		if diff := cmp.Diff(want, noted, Equal); diff != "" {
			s.Errorf("noted (-want +got):\n%s", diff)
		}
		s.isStored(noted)
		// Another one comes beside it.
		other := Noted()
		other.Reviewer, other.Outcome = "two/shadow", approval.VerdictError
		noted = s.must(s.Note(ctx, r.ID, []approval.Verdict{other}))
		if len(noted.Shadow) != 2 || noted.Decision != nil && noted.Decision.Outcome != approval.OutcomeAllow {
			s.Errorf("noted %+v, decided %+v", noted.Shadow, noted.Decision)
		}
		s.isStored(noted)
		events := s.allEvents()
		for _, e := range events[len(events)-2:] {
			if e.Kind != approval.EventNoted || e.ID != r.ID || e.State != r.State || e.Outcome != "" || e.By != "" {
				s.Errorf("event %+v", e)
			}
		}
	}
	_, err := s.Note(ctx, "nothing", []approval.Verdict{Noted()})
	s.refused("a note on what does not exist", err, approval.ErrNotFound)
}

func (s *suite) notePending() {
	r := s.insert()
	_, err := s.Note(s.Context(), r.ID, []approval.Verdict{Noted()})
	s.refused("a note on what waits", err, approval.ErrConflict)
	s.isStored(r)
	r = s.must(s.Decide(s.Context(), r.From(), Allow()))
	for _, said := range [][]approval.Verdict{nil, {{Reviewer: "one/judge", Outcome: approval.VerdictAllow}}, {{Shadow: true}}} {
		_, err := s.Note(s.Context(), r.ID, said)
		s.refused("a note of no reviewer in shadow", err, approval.ErrInvalid)
	}
	s.isStored(r)
}

func (s *suite) noteBetween() {
	ctx := s.Context()
	note := func(r approval.Record) approval.Record {
		s.Helper()
		return s.must(s.Note(ctx, r.ID, []approval.Verdict{Noted()}))
	}
	decided := s.must(s.Decide(ctx, s.insert().From(), Allow()))
	noted := note(decided)
	// Whoever has an older revision is told of the newer, as after every mark.
	_, err := s.BeginSend(ctx, decided.From())
	conflict, ok := errors.AsType[*approval.ConflictError](err)
	if !ok || conflict.Current.Revision != noted.Revision {
		s.Fatalf("err = %v, want one with revision %d", err, noted.Revision)
	}
	writing := note(s.must(s.BeginSend(ctx, noted.From())))
	fenced := note(s.must(s.Fence(ctx, writing.From(), writing.Run, writing.Digest)))
	sent := note(s.must(s.MarkSent(ctx, fenced.From())))
	over := note(s.must(s.Resolve(ctx, sent.From(), "", "done")))
	if over.State != approval.Resolved || len(over.Shadow) != 5 || over.Fenced.IsZero() {
		s.Errorf("ended as %+v", over)
	}
	s.isStored(over)
}

func (s *suite) lists() {
	ctx := s.Context()
	var ids []string
	for i := range 7 {
		d := Draft()
		d.Workspace = []string{"/w/a", "/w/b"}[i%2]
		d.Request.Session = &approval.Session{ID: fmt.Sprintf("s%d", i%3)}
		ids = append(ids, s.must(s.Insert(ctx, record(s, d, s.clock.Now))).ID)
	}
	first, err := s.Read(ctx, ids[0])
	if err != nil {
		s.Fatal(err)
	}
	s.must(s.Decide(ctx, first.From(), Allow()))
	pick := func(n ...int) (out []string) {
		for _, i := range n {
			out = append(out, ids[i])
		}
		return out
	}
	for _, c := range []struct {
		name string
		q    approval.Query
		want []string
		more bool
	}{
		{"the newest first", approval.Query{}, pick(6, 5, 4, 3, 2, 1, 0), false},
		{"a page", approval.Query{Limit: 3}, pick(6, 5, 4), true},
		{"the next page", approval.Query{Limit: 3, Before: ids[4]}, pick(3, 2, 1), true},
		{"the last page, full", approval.Query{Limit: 3, Before: ids[3]}, pick(2, 1, 0), false},
		{"a limit beyond the largest", approval.Query{Limit: 5000}, pick(6, 5, 4, 3, 2, 1, 0), false},
		{"nothing older", approval.Query{Before: ids[0]}, nil, false},
		{"by state", approval.Query{States: []approval.State{approval.Decided}}, pick(0), false},
		{"by several states", approval.Query{States: []approval.State{approval.Decided, approval.Pending}, Limit: 1}, pick(6), true},
		{"by workspace", approval.Query{Workspace: "/w/b"}, pick(5, 3, 1), false},
		{"by session and workspace", approval.Query{Session: "s0", Workspace: "/w/a"}, pick(6, 0), false},
		{"by run", approval.Query{Run: "r2"}, nil, false},
		{"by instance", approval.Query{Instance: "i1", Limit: 1, Before: ids[1]}, pick(0), false},
	} {
		page, err := s.List(ctx, c.q)
		if err != nil {
			s.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, r := range page.Records {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			s.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if want := ""; c.more {
			if want = c.want[len(c.want)-1]; page.Before != want {
				s.Errorf("%s: before = %q, want %q", c.name, page.Before, want)
			}
		} else if page.Before != "" {
			s.Errorf("%s: there is no next page before %q", c.name, page.Before)
		}
	}
	_, err = s.List(ctx, approval.Query{Before: "nothing"})
	s.refused("a page before nothing", err, approval.ErrNotFound)
}

func (s *suite) events() {
	s.mixture()
	if _, err := s.Recover(s.Context()); err != nil {
		s.Fatal(err)
	}
	var kinds []string
	seen := map[string]bool{}
	for i, e := range s.allEvents() {
		if e.Seq != int64(i)+1 {
			s.Fatalf("event %d has number %d", i, e.Seq)
		}
		if seen[e.Hash] {
			s.Errorf("event %d repeats a hash", e.Seq)
		}
		seen[e.Hash] = true
		text, err := json.Marshal(e)
		if err != nil {
			s.Fatal(err)
		}
		if strings.Contains(string(text), "push") || strings.Contains(string(text), "looked at it") {
			s.Errorf("event %s tells what was asked", text)
		}
		if e.Kind == approval.EventDecided && (e.Outcome != approval.OutcomeAllow || e.Source != approval.SourceHuman || e.By != "user:sam") {
			s.Errorf("event %s does not say who decided", text)
		}
		kinds = append(kinds, string(e.Kind))
	}
	want := strings.Fields(`asked asked decided asked decided writing asked decided writing sent asked decided writing sent resolved`)
	slices.Sort(kinds[len(want):])
	want = append(want, "lost", "lost", "resolved", "unknown")
	if diff := cmp.Diff(want, kinds); diff != "" {
		s.Errorf("events (-want +got):\n%s", diff)
	}
}

func (s *suite) secrets() {
	d := Draft()
	d.Request.Command.Text = "curl -u key-123456:x https://user:pw@example.com/v1"
	d.Request.Options = append(d.Request.Options, json.RawMessage(`{"always":["curl","-u","key-123456:x"]}`))
	d.Ruling.Reasons = []string{"it runs curl -u key-123456:x"}
	digest, err := approval.Digest(d.Request)
	if err != nil {
		s.Fatal(err)
	}
	r := s.must(s.Insert(s.Context(), record(s, d, s.clock.Now)))
	decision := Allow()
	decision.Option = r.Options[3]
	decision.Reason = "token=key-123456:x is a test"
	r = s.must(s.Decide(s.Context(), r.From(), decision))
	got, err := s.Read(s.Context(), r.ID)
	if err != nil {
		s.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		s.Fatal(err)
	}
	for _, secret := range []string{"key-123456", "user:pw"} {
		if strings.Contains(string(text), secret) {
			s.Errorf("%q is stored: %s", secret, text)
		}
	}
	if got.Digest != digest || got.OptionIndex(decision.Option) != 3 {
		s.Errorf("digest %s, want %s; option at %d", got.Digest, digest, got.OptionIndex(decision.Option))
	}
}

func (s *suite) contexts() {
	r := s.insert()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	calls := map[string]func() error{
		"Insert": func() error { _, err := s.Insert(ctx, Record(s, s.clock.Now)); return err },
		"Decide": func() error { _, err := s.Decide(ctx, r.From(), Allow()); return err },
		"Fence":  func() error { _, err := s.Fence(ctx, r.From(), "r1", r.Digest); return err },
		"Sweep":  func() error { _, err := s.Sweep(ctx); return err },
		"Lease":  func() error { _, err := s.Lease(ctx, "i9", time.Minute); return err },
		"Read":   func() error { _, err := s.Read(ctx, r.ID); return err },
		"List":   func() error { _, err := s.List(ctx, approval.Query{}); return err },
		"Events": func() error { _, err := s.Events(ctx, 0, 0); return err },
	}
	for name, call := range calls {
		s.refused(name, call(), ctx.Err())
	}
	s.isStored(r)
	if events := s.allEvents(); len(events) != 1 {
		s.Errorf("%d events, want 1", len(events))
	}
}

func (s *suite) reopen() {
	r := s.must(s.Decide(s.Context(), s.insert().From(), Allow()))
	events := s.allEvents()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		s.Fatal(err)
	}
	_, err := s.Read(s.Context(), r.ID)
	s.refused("Read", err, approval.ErrClosed)
	_, err = s.BeginSend(s.Context(), r.From())
	s.refused("BeginSend", err, approval.ErrClosed)
	s.Ledger = s.open(s, s.dir, s.clock.Now)
	s.isStored(r)
	if diff := cmp.Diff(events, s.allEvents()); diff != "" {
		s.Errorf("events (-want +got):\n%s", diff)
	}
	s.isStored(s.must(s.BeginSend(s.Context(), r.From())))
}

func (s *suite) closing() {
	const callers = 16
	acknowledged := make([]string, callers)
	var wait sync.WaitGroup
	stored := make(chan struct{}, callers)
	for i := range callers {
		wait.Go(func() {
			for {
				r, err := s.Insert(s.Context(), Record(s, s.clock.Now))
				if err != nil {
					s.refused("Insert while closing", err, approval.ErrClosed)
					return
				}
				acknowledged[i] = r.ID
				select {
				case stored <- struct{}{}:
				default:
				}
			}
		})
	}
	for range callers {
		<-stored
	}
	if err := s.Close(); err != nil {
		s.Fatal(err)
	}
	wait.Wait()
	s.Ledger = s.open(s, s.dir, s.clock.Now)
	for _, id := range acknowledged {
		if id == "" {
			continue
		}
		if _, err := s.Read(s.Context(), id); err != nil {
			s.Errorf("an acknowledged record is gone: %v", err)
		}
	}
}
