package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// daemonKillsVar asks for more kills than a usual run has.
const daemonKillsVar = "REGENT_TEST_DAEMON_KILLS"

// A daemon that is killed, at whichever instant, loses nothing that anybody has
// heard of, leaves nothing that waits for somebody who is gone, and answers
// nothing twice.
func TestKilledDaemonsLoseNothing(t *testing.T) {
	t.Parallel()
	kills := 5
	if v := os.Getenv(daemonKillsVar); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	// All of a ledger is verified after each kill, so it must not grow for ever.
	for begin := 0; begin < kills; begin += 20 {
		t.Run(fmt.Sprintf("from kill %d", begin), func(t *testing.T) {
			killed(t, random, min(20, kills-begin))
		})
	}
}

// What waits for a daemon that was killed is closed by the next one, each as what
// it was, and none of it lets anything run any more.
func TestWhatAKilledDaemonLeaves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.serve()
	agent, person := s.agent(), s.person()
	post := func() api.Answer {
		t.Helper()
		a, err := agent.Post(s.soon(), posts("deploy"))
		if err != nil || a.Outcome != "" {
			t.Fatalf("%q, %v", a.Outcome, err)
		}
		return a
	}
	allow := func(a api.Answer) {
		t.Helper()
		if _, err := person.Decide(s.soon(), a.ID, a.Revision, decision(approval.OutcomeAllow, "")); err != nil {
			t.Fatal(err)
		}
	}
	pending, decided, sent, withdrawn := post(), post(), post(), post()
	allow(decided)
	allow(sent)
	if a, err := agent.Await(s.soon(), sent.ID, sent.Instance, time.Minute); err != nil || a.Outcome != approval.OutcomeAllow {
		t.Fatalf("%q, %v; want allow", a.Outcome, err)
	}
	// The daemon notes that too, and may be first; a mark that is there is left.
	if _, err := agent.Mark(s.soon(), sent.ID, api.Mark{Instance: sent.Instance, Mark: api.MarkSent}); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Withdraw(s.soon(), withdrawn.ID, api.Withdrawal{Instance: withdrawn.Instance}); err != nil {
		t.Fatal(err)
	}
	s.write("config.yaml", "version: 1\npermissions: {request_timeout_seconds: 2}\npolicy: {evaluation_timeout_ms: 10000}\n")
	late := post()
	d.kill()
	past, cancel := context.WithDeadline(t.Context(), late.Deadline)
	defer cancel()
	<-past.Done()

	d = s.serve()
	if want := "found 4 requests of an earlier daemon and closed them: 1 resolved, 1 expired, 2 lost"; !strings.Contains(d.words(), want) {
		t.Errorf("the daemon says %s, want %s", d.words(), want)
	}
	for _, c := range []struct {
		name  string
		asked api.Answer
		want  approval.State
	}{
		{"pending", pending, approval.Lost},
		{"pending past its deadline", late, approval.Expired},
		{"decided and not told", decided, approval.Lost},
		{"told", sent, approval.Resolved},
		{"withdrawn", withdrawn, approval.Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := person.Read(s.soon(), c.asked.ID)
			if err != nil || r.State != c.want {
				t.Fatalf("it is %s, %v; want %s", r.State, err, c.want)
			}
			if a, err := agent.Await(s.soon(), r.ID, r.Instance, 0); err != nil || a.Outcome == approval.OutcomeAllow || a.Outcome == "" {
				t.Errorf("the host is told %q, %v", a.Outcome, err)
			}
			if p, err := agent.Fence(s.soon(), r.ID, api.Fence{Run: r.Run, Instance: r.Instance, Digest: r.Digest}); !errors.Is(err, approval.ErrConflict) {
				t.Errorf("fence: %s, %v; want ErrConflict", p.State, err)
			}
			if _, err := person.Decide(s.soon(), r.ID, r.Revision, decision(approval.OutcomeAllow, "")); !errors.Is(err, approval.ErrConflict) {
				t.Errorf("decide: %v, want ErrConflict", err)
			}
			if after, err := person.Read(s.soon(), r.ID); err != nil || after.State != c.want {
				t.Errorf("it is %s now, %v", after.State, err)
			}
		})
	}
	d.stop()
	s.verifies()
}

// hearsay is the most that anybody has heard of a record.
type hearsay struct {
	revision int64
	state    approval.State
	// outcome and by are those of a decision, "" where none was heard of.
	outcome approval.Outcome
	by      string
	// told says that the one who asked had the answer.
	told bool
	// instance is that of a host which keeps what it is told.
	instance string
}

// witness remembers what it hears of a daemon, and kills it when it has heard
// enough.
type witness struct {
	t testing.TB

	mu      sync.Mutex
	records map[string]hearsay
	events  []approval.Event
	left    int
	kill    func()
}

func (w *witness) count() {
	if w.left--; w.left == 0 {
		w.kill()
	}
}

// hear takes what was told of a record.
func (w *witness) hear(id string, h hearsay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.count()
	before := w.records[id]
	if before.outcome != "" && h.outcome != "" && before.outcome != h.outcome {
		w.t.Errorf("%s: %s was heard of, and then %s", id, before.outcome, h.outcome)
	}
	if h.revision < before.revision {
		before, h = h, before
	}
	if h.outcome == "" {
		h.outcome = before.outcome
	}
	if h.by == "" {
		h.by = before.by
	}
	if h.instance == "" {
		h.instance = before.instance
	}
	h.told = h.told || before.told
	w.records[id] = h
}

func (w *witness) answer(a api.Answer) {
	h := hearsay{revision: a.Revision, state: a.State, outcome: a.Outcome, instance: a.Instance}
	if a.State != approval.Decided && a.State != approval.Sent {
		h.outcome = ""
	}
	h.told = h.outcome != ""
	w.hear(a.ID, h)
}

func (w *witness) record(r approval.Record) {
	h := hearsay{revision: r.Revision, state: r.State}
	if r.Decision != nil {
		h.outcome, h.by = r.Decision.Outcome, r.Decision.By
	}
	w.hear(r.ID, h)
}

func (w *witness) event(e approval.Event) {
	h := hearsay{revision: e.Revision, state: e.State}
	if e.Kind == approval.EventDecided {
		h.outcome, h.by = e.Outcome, e.By
	}
	w.hear(e.ID, h)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// load has agents ask and people answer until the daemon is gone.
func (w *witness) load(s *site, agent *client.Client, stream *client.Events) {
	ctx := s.soon()
	person := s.person()
	var wait sync.WaitGroup
	defer wait.Wait()
	// Whatever is no answer of the daemon is its end; an answer that refuses is a
	// fault, unless it is one that losers get.
	goOn := func(what string, err error, losing ...error) bool {
		if err == nil {
			return true
		}
		if _, ok := errors.AsType[*api.Error](err); !ok {
			return false
		}
		for _, one := range losing {
			if errors.Is(err, one) {
				if c, ok := errors.AsType[*approval.ConflictError](err); ok {
					w.record(c.Current) // the one that won
				}
				return true
			}
		}
		w.t.Errorf("%s: %v", what, err)
		return true
	}
	policy := func(text string, want approval.Outcome) func() bool {
		return func() bool {
			a, err := agent.Ask(ctx, asks(text))
			if err != nil {
				return goOn(text, err)
			}
			if a.Outcome != want || a.ID == "" {
				w.t.Errorf("%s: %s, want %s", text, a.Outcome, want)
			}
			w.answer(a)
			return true
		}
	}
	human := func() bool {
		a, err := agent.Ask(ctx, asks("deploy"))
		if err != nil {
			return goOn("ask", err)
		}
		w.answer(a)
		return true
	}
	host := func() bool {
		a, err := agent.Post(ctx, posts("release"))
		if err != nil {
			return goOn("post", err)
		}
		w.answer(a)
		digest := a.Digest
		for a.Outcome == "" {
			if a, err = agent.Await(ctx, a.ID, a.Instance, 10*time.Second); err != nil {
				return goOn("await", err)
			}
		}
		w.answer(a)
		if a.Outcome == approval.OutcomeAllow {
			p, err := agent.Fence(ctx, a.ID, api.Fence{Run: "run", Instance: a.Instance, Digest: digest})
			if err != nil {
				return goOn("fence", err)
			}
			w.hear(p.ID, hearsay{revision: p.Revision, state: p.State, outcome: p.Outcome})
		}
		for _, mark := range []string{api.MarkSent, api.MarkResolved} {
			p, err := agent.Mark(ctx, a.ID, api.Mark{Instance: a.Instance, Mark: mark})
			if err != nil {
				if goOn(mark, err) {
					continue
				}
				return false
			}
			w.hear(p.ID, hearsay{revision: p.Revision, state: p.State, outcome: p.Outcome})
		}
		return true
	}
	withdrawn := func() bool {
		a, err := agent.Post(ctx, posts("publish"))
		if err != nil {
			return goOn("post", err)
		}
		w.answer(a)
		p, err := agent.Withdraw(ctx, a.ID, api.Withdrawal{Instance: a.Instance})
		if err != nil {
			return goOn("withdraw", err)
		}
		w.hear(p.ID, hearsay{revision: p.Revision, state: p.State, outcome: p.Outcome})
		return true
	}
	for _, work := range []func() bool{
		policy("make test", approval.OutcomeAllow), policy("make clean", approval.OutcomeDeny),
		human, human, human, host, host, withdrawn,
	} {
		wait.Go(func() {
			for more := true; more; {
				more = work()
			}
		})
	}

	// Two people hear of each request, and do not agree.
	answers := func(ids <-chan string, o approval.Outcome) {
		for id := range ids {
			r, err := person.Read(ctx, id)
			if err != nil {
				if !goOn("read", err) {
					return
				}
				continue
			}
			w.record(r)
			if r.State != approval.Pending {
				continue
			}
			r, err = person.Decide(ctx, id, r.Revision, decision(o, "so I say"))
			if err == nil {
				w.record(r)
			} else if !goOn("decide", err, approval.ErrConflict) {
				return
			}
		}
	}
	yes, no := make(chan string, 1<<16), make(chan string, 1<<16)
	wait.Go(func() { answers(yes, approval.OutcomeAllow) })
	wait.Go(func() { answers(no, approval.OutcomeDeny) })
	wait.Go(func() {
		defer close(yes)
		defer close(no)
		for {
			e, err := stream.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && ctx.Err() != nil {
					w.t.Errorf("events: %v", err)
				}
				return
			}
			if e.Approval == nil {
				continue
			}
			w.event(*e.Approval)
			if e.Approval.Kind == approval.EventAsked {
				yes <- e.Approval.ID
				no <- e.Approval.ID
			}
		}
	})
}

func killed(t *testing.T, random *rand.Rand, kills int) {
	s := newSite(t)
	agent := s.agent()
	over := map[string]approval.Record{}
	var seq int64
	asked := 0
	for range kills {
		if random.IntN(3) == 0 {
			s.killedEarly(random)
		}
		d := s.serve()
		w := &witness{t: t, records: map[string]hearsay{}, left: 1 + random.IntN(600), kill: func() { _ = d.cmd.Process.Kill() }}
		// One event that was there before is heard of again.
		w.load(s, agent, s.events(s.person(), seq))
		<-d.ended
		asked += len(w.records)
		left := s.leftBehind(w)

		if random.IntN(3) == 0 {
			s.killedEarly(random)
		}
		again := s.serve()
		s.recovered(w, agent, left, over)
		if n := len(w.events); n > 0 {
			seq = w.events[n-1].Seq
		}
		if random.IntN(2) == 0 {
			again.stop()
		} else {
			again.kill()
		}
	}
	if asked < kills {
		t.Errorf("%d records in %d runs prove nothing", asked, kills)
	}
	states := map[approval.State]int{}
	for _, r := range over {
		states[r.State]++
	}
	t.Logf("%d kills, %d records heard of, which ended %v", kills, asked, states)
	s.serve().stop()
	s.verifies()
	db := s.open(s.database())
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n := len(s.live(db.List)); n > 0 {
		t.Errorf("%d records are live and nobody is there", n)
	}
	for id, want := range over {
		got, err := db.Read(t.Context(), id)
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s was over and changed (-want +got):\n%s", id, diff)
		}
	}
}

// killedEarly kills a daemon at some instant between its start and its first
// question.
func (s *site) killedEarly(random *rand.Rand) {
	s.t.Helper()
	p := s.start()
	instant := time.NewTimer(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
	defer instant.Stop()
	select {
	case <-instant.C:
	case <-p.ready:
	}
	p.kill()
}

// leftBehind looks at a copy of what a killed daemon has left, so that the next
// one finds it as it was. It returns what was under way.
func (s *site) leftBehind(w *witness) map[string]approval.Record {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "runtime.db")
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(s.database() + suffix)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path+suffix, text, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	var known []ledger.Head
	for _, e := range w.events {
		known = append(known, ledger.Head{Seq: e.Seq, Hash: e.Hash})
	}
	db := s.open(path, known...)
	defer func() {
		if err := db.Close(); err != nil {
			s.t.Error(err)
		}
	}()
	w.holds(db.Read)
	return s.live(db.List)
}

// holds fails unless the ledger has what was heard of it.
func (w *witness) holds(read func(context.Context, string) (approval.Record, error)) map[string]approval.Record {
	w.t.Helper()
	found := map[string]approval.Record{}
	for id, h := range w.records {
		r, err := read(w.t.Context(), id)
		if err != nil {
			w.t.Errorf("%+v was heard of %s: %v", h, id, err)
			continue
		}
		found[id] = r
		var outcome approval.Outcome
		var by string
		if r.Decision != nil {
			outcome, by = r.Decision.Outcome, r.Decision.By
		}
		if r.Revision < h.revision || r.Revision == h.revision && r.State != h.state ||
			h.outcome != "" && h.outcome != outcome || h.by != "" && h.by != by {
			w.t.Errorf("%+v was heard of %s; stored is revision %d, %s, %s by %q", h, id, r.Revision, r.State, outcome, by)
		}
	}
	return found
}

// recovered holds what the next daemon has to make of what the killed one left.
// over gets the records that must never change again.
func (s *site) recovered(w *witness, agent *client.Client, left, over map[string]approval.Record) {
	s.t.Helper()
	person := s.person()
	if n := len(s.live(person.List)); n > 0 {
		s.t.Errorf("%d records are live after the start, and nobody is there", n)
	}
	for id, r := range w.holds(person.Read) {
		over[id] = r
		if w.records[id].told && r.State != approval.Resolved && r.State != approval.Unknown {
			s.t.Errorf("%s ended as %s, and the one who asked had the answer", id, r.State)
		}
	}
	for id, before := range left {
		after, err := person.Read(s.soon(), id)
		if err != nil {
			s.t.Fatal(err)
		}
		want := approval.Lost
		switch {
		case before.State == approval.Sent:
			want = approval.Resolved
		case !before.Writing.IsZero():
			want = approval.Unknown
		}
		if after.State != want || after.Revision != before.Revision+1 {
			s.t.Errorf("a %s record at revision %d is %s at %d, want %s at the next", before.State, before.Revision, after.State, after.Revision, want)
		}
		if diff := cmp.Diff(before.Decision, after.Decision); diff != "" {
			s.t.Errorf("the decision changed (-want +got):\n%s", diff)
		}
		over[id] = after
	}
	// A host that survived is never told again what an earlier daemon had decided.
	for id, h := range w.records {
		if h.instance == "" {
			continue
		}
		a, err := agent.Await(s.soon(), id, h.instance, 0)
		if err == nil && a.Outcome == approval.OutcomeAllow {
			s.t.Errorf("%s (%s) is allowed after the end of the daemon that it was asked of", id, a.State)
		}
		if err != nil && !errors.Is(err, approval.ErrInstance) && !errors.Is(err, approval.ErrLost) {
			s.t.Errorf("await %s: %v", id, err)
		}
	}
	// The events that were heard are still those.
	if len(w.events) == 0 {
		return
	}
	stream := s.events(person, w.events[0].Seq-1)
	defer stream.Close()
	for _, want := range w.events {
		got := s.until(stream, "an event that was heard", func(e client.Event) bool { return e.Approval != nil })
		if diff := cmp.Diff(want, *got.Approval); diff != "" {
			s.t.Fatalf("an event is another by now (-want +got):\n%s", diff)
		}
	}
}
