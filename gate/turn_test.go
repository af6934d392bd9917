package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/reviewer"
)

// turn is a turn of a session as a test wants it.
type turn struct {
	mu       sync.Mutex
	held     permission.Profile
	strict   bool
	accepted map[gate.Acceptance]bool
}

func (t *turn) Held() permission.Profile {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

func (t *turn) Strict() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.strict
}

func (t *turn) Accepts(a gate.Acceptance) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.accepted[a]
}

// in asks for a turn behind the test's back.
func (b *bench) in(t gate.Turn, r *approval.Request) <-chan result {
	done := make(chan result, 1)
	r.Harness = &approval.Harness{Name: "native"}
	r.Environment = &approval.Environment{ID: "local", Cwd: "/w"}
	go func() {
		a, err := b.Ask(b.Context(), gate.Question{Request: r, Turn: t})
		done <- result{a, err}
	}()
	return done
}

var forSession = json.RawMessage(`"allow_for_session"`)

// While an edit waits for its confirmation, what it adds counts already. So what
// was accepted before it is asked about again.
func TestAcceptanceDoesNotOutrankAnEditThatWaits(t *testing.T) {
	e := epoch(t, manual, noRm)
	b := open(t, e)
	session := &turn{accepted: map[gate.Acceptance]bool{}}
	asked := func() approval.Record {
		t.Helper()
		done := b.in(session, command("npm test"))
		r := b.pending()
		if _, err := b.Answer(t.Context(), reply(r, forSession)); err != nil {
			t.Fatal(err)
		}
		a := <-done
		if a.err != nil || a.Acceptance == nil {
			t.Fatalf("%+v, %v", a.Answer, a.err)
		}
		session.mu.Lock()
		defer session.mu.Unlock()
		session.accepted[*a.Acceptance] = true
		return *a.Record
	}
	again := func() {
		t.Helper()
		if a := <-b.in(session, command("npm test")); a.err != nil || a.Record.Decision.Source != approval.SourceGrant {
			t.Errorf("what was accepted is asked again: %+v, %v", a.Answer, a.err)
		}
	}
	asked()
	again()
	held := epoch(t, manual, noRm+"\nask contains \"tests cost money now\" if input.request.command.text == \"npm test\"\n")
	b.workspace.Install(gate.Standing{Epoch: e, Held: held})
	asked()
	again()
	b.workspace.Install(gate.Standing{Epoch: e})
	again()
}

func TestTurnThatBecomesStrictIsStrictForWhatIsRoutedAgain(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	session := &turn{}
	done := b.in(session, command("echo hi"))
	b.pending()
	session.mu.Lock()
	session.strict = true
	session.mu.Unlock()
	next := epoch(t, manual, noRm+echo)
	b.workspace.Install(gate.Standing{Epoch: next})
	r := b.until("routed again", func(r approval.Record) bool { return r.Ruling.Epoch == next.ID })
	if r.State != approval.Pending || r.Ruling.Route != approval.RouteAsk {
		t.Errorf("%s by %+v", r.State, r.Ruling)
	}
	if _, err := b.Answer(t.Context(), reply(r, deny)); err != nil {
		t.Fatal(err)
	}
	<-done
}

// A path that cannot be placed interrupts the turn for the one who answers first,
// and for nobody who comes later.
func TestPathThatCannotBePlacedCountsForTheRevisionThatWasRead(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	asked := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("/w/out", permission.Write)}}}
	elsewhere := &permission.Response{Permissions: permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(`C:\out`, permission.Write)}}}}
	request := &approval.Request{Kind: approval.KindPermissions, Permissions: &asked, Run: &approval.Run{ID: "r", Instance: "host"}, Harness: &approval.Harness{Name: "native"}, Environment: &approval.Environment{ID: "local", Cwd: "/w"}}
	posted, err := b.Post(t.Context(), gate.Question{Request: request, Turn: &turn{}})
	if err != nil {
		t.Fatal(err)
	}
	r := *posted.Record
	bad := reply(r, allow)
	bad.Grant = elsewhere
	stale := bad
	stale.Revision--
	if _, err := b.Answer(t.Context(), stale); err == nil || b.state(r.ID) != approval.Pending {
		t.Errorf("a revision that is over: %v, and the request is %s", err, b.state(r.ID))
	}
	decided, err := b.Answer(t.Context(), reply(r, allow))
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []int64{r.Revision, decided.Revision} {
		bad.Revision = revision
		if _, err := b.Answer(t.Context(), bad); !errors.Is(err, approval.ErrConflict) {
			t.Errorf("revision %d of a request that is decided: %v", revision, err)
		}
	}
	if got := b.state(r.ID); got != approval.Decided {
		t.Errorf("the decision is %s", got)
	}
	if _, err := b.Withdraw(t.Context(), r.ID, "host", "enough"); err != nil {
		t.Fatal(err)
	}
}

// A reviewer that does not hear when its time is over keeps nobody: a person is
// asked in time, what it says later counts for nothing, and the gate closes.
func TestReviewerThatNeverStopsHoldsUpNobody(t *testing.T) {
	e := epoch(t, reviewed, noRm)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e)
		one := &stubborn{asked: make(chan struct{}, 8), let: make(chan approval.Verdict)}
		b.reopen(panel{"one/judge": one})
		begin := time.Now()
		done := b.ask(t.Context(), command("make"))
		r := b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
		if waited := time.Since(begin); waited > 23*time.Second || r.Ruling.Verdicts[0].Outcome != approval.VerdictTimeout {
			t.Errorf("after %s: %+v", waited, r.Ruling.Verdicts)
		}
		one.let <- approval.Verdict{Outcome: approval.VerdictAllow}
		synctest.Wait()
		if got := b.state(r.ID); got != approval.Pending {
			t.Errorf("a late verdict has made it %s", got)
		}
		if _, err := b.Answer(t.Context(), reply(r, deny)); err != nil {
			t.Fatal(err)
		}
		<-done
		again := b.ask(t.Context(), command("make"))
		<-one.asked
		<-one.asked
		begin = time.Now()
		if err := b.Gate.Close(); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begin); waited > 5*time.Second {
			t.Errorf("to close took %s", waited)
		}
		<-again
		one.let <- approval.Verdict{Outcome: approval.VerdictAllow}
	})
}

func TestVerdictAfterItsTime(t *testing.T) {
	for said, want := range map[approval.VerdictOutcome]approval.VerdictOutcome{
		approval.VerdictAllow:  approval.VerdictTimeout,
		approval.VerdictUnsure: approval.VerdictTimeout,
		"":                     approval.VerdictTimeout,
		approval.VerdictError:  approval.VerdictError,
		approval.VerdictDeny:   approval.VerdictDeny,
		approval.VerdictCancel: approval.VerdictCancel,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := gate.Consult(ctx, says{Outcome: said}, reviewer.Question{}); got.Outcome != want {
			t.Errorf("%q that comes too late is %q, want %q", said, got.Outcome, want)
		}
	}
}
