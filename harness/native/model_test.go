package native_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/reviewer"
)

// Orders of events which once went wrong, or could.

// A call that is settled takes the lock of its session; whoever describes the
// session must not hold that while it asks the calls.
func TestSessionIsDescribedWhileCallsAreSettled(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			if _, err := b.Describe(t.Context(), "s1", host); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var calls sync.WaitGroup
	for i := range 30 {
		calls.Go(func() {
			id := fmt.Sprintf("c%d", i)
			if err := b.Start(t.Context(), "s1", host, "t1", command(id, "npm run job"+id)); err != nil {
				t.Error(err)
				return
			}
			b.answer(id, `"allow_for_session"`)
			b.final(id)
		})
	}
	calls.Wait()
	close(done)
	looking.Wait()
	if held := b.Grants(local, "s1").Accepted; len(held) != 30 {
		t.Errorf("%d of 30 are accepted", len(held))
	}
}

// A call that waits is no sign of life of its host: nobody may be asked for long
// on behalf of one that is gone, and the next one gets the session.
func TestHostThatIsGoneKeepsNothingWaiting(t *testing.T) {
	e := epoch(t, manual, "")
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e, nil)
		b.session()
		b.begin("t1", request("c1", network))
		b.begin("t1", command("c2", "make"))
		asked := []approval.Record{b.waits("c1"), b.waits("c2")}
		time.Sleep(45 * time.Second)
		for _, r := range asked {
			reply := gate.Reply{ID: r.ID, Revision: r.Revision, Option: []byte(`"allow"`), By: local}
			if _, err := b.gate.Answer(t.Context(), reply); !errors.Is(err, approval.ErrConflict) && !errors.Is(err, approval.ErrLost) {
				t.Errorf("an answer to a host that is gone: %v", err)
			}
			if now, _ := b.db.Read(t.Context(), r.ID); now.State != approval.Lost && now.State != approval.Cancelled {
				t.Errorf("it is %s", now.State)
			}
		}
		if _, err := b.Open(t.Context(), native.SessionSpec{ID: "s1", Instance: "host-2"}); err != nil {
			t.Errorf("the next instance: %v", err)
		}
	})
}

// A host that waits for the answer of a call is there, however long it takes.
func TestHostThatWaitsIsThere(t *testing.T) {
	e := epoch(t, manual, "")
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e, nil)
		b.session()
		b.begin("t1", command("c1", "make"))
		b.waits("c1")
		done := make(chan native.Final)
		go func() { done <- b.final("c1") }()
		time.Sleep(5 * time.Minute)
		b.answer("c1", `"allow"`)
		if final := <-done; final.Outcome != approval.OutcomeAllow {
			t.Errorf("%+v", final)
		}
	})
}

// What a call asks for is not asked of anybody where it is held; so it must be
// held still when the call is let go.
func TestHeldPermissionsAreLookedAtAgain(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	out := b.may(permission.Write, b.out())
	more := func(id string) native.CallSpec {
		spec := writes(id, "out/a")
		spec.Sandbox, spec.Additional = native.SandboxMore, &out
		return spec
	}
	tests := []struct {
		name  string
		scope permission.Scope
		then  func(id string)
	}{
		{"revoked meanwhile", permission.Turn, func(string) {
			if err := b.Revoke(local, b.held()[0].ID); err != nil {
				t.Fatal(err)
			}
		}},
		{"used up meanwhile", permission.Once, func(id string) {
			if final := b.call("t1", writes(id, "out/b")); final.Outcome != approval.OutcomeAllow {
				t.Fatalf("%+v", final)
			}
		}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			id := func(name string) string { return fmt.Sprintf("%s%d", name, i) }
			b.give("t1", id("g"), "local", permission.Response{Permissions: out, Scope: test.scope})
			b.begin("t1", more(id("c")))
			r := b.waits(id("c"))
			if r.Request.Permissions != nil {
				t.Fatalf("asked for %s", r.Request.Permissions)
			}
			test.then(id("d"))
			b.answer(id("c"), `"allow_for_session"`)
			if final := b.final(id("c")); final.Outcome != approval.OutcomeDeny || final.Effective != nil {
				t.Errorf("%+v", final)
			}
			if now, _ := b.db.Read(t.Context(), r.ID); now.State != approval.Resolved || !strings.Contains(now.Closing.Reason, "nothing was granted") {
				t.Errorf("%s: %+v", now.State, now.Closing)
			}
			if held := b.Grants(local, "s1"); len(held.Grants)+len(held.Accepted) > 0 {
				t.Errorf("held %+v", held)
			}
		})
	}
}

// A client answers the revision that it was shown, so it is shown the one that
// counts: rules that came into force while the request waits have made another.
func TestEventIsThatOfNow(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.begin("t1", request("c1", network))
	first := b.event("c1")
	b.workspace.Install(gate.Standing{Epoch: epoch(t, manual, "\n# other rules\n")})
	second := first
	for second.Revision == first.Revision {
		changed := b.gate.Feed().Changed()
		if second = b.event("c1"); second.Revision == first.Revision {
			<-changed
		}
	}
	response := native.Response{Session: "s1", Call: "c1", Revision: second.Revision, By: local, Response: permission.Response{Permissions: permission.Everything()}}
	if _, err := b.Respond(t.Context(), response); err != nil {
		t.Error(err)
	}
	if final := b.final("c1"); !final.Response.Permissions.Network.All {
		t.Errorf("%+v", final)
	}
}

// What was answered waits no more, also while a hook looks at the answer.
func TestAnsweredRequestIsShownNoMore(t *testing.T) {
	const settings = manual + "reviewers:\n  one/judge: {kind: rego, query: data.one.x}\nrequest_permissions: {after: [{reviewer: one/judge}]}\n"
	var b *bench
	var pending []native.Event
	b = open(t, epoch(t, settings, ""), panel{"one/judge": judge(func(reviewer.Question) approval.Verdict {
		s, err := b.Describe(t.Context(), "s1", host)
		if err != nil {
			t.Error(err)
		}
		pending = s.Pending
		err = b.respond("c1", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
		if !errors.Is(err, native.ErrUnmatched) {
			t.Errorf("a second answer: %v", err)
		}
		return approval.Verdict{Outcome: approval.VerdictAllow}
	})})
	b.session()
	b.begin("t1", request("c1", network))
	b.grant("c1", permission.Response{Permissions: permission.Everything()})
	if final := b.final("c1"); final.Fault != "" || len(pending) > 0 {
		t.Errorf("%+v; pending %+v", final, pending)
	}
}

// A grant is of paths of this machine. Another machine that goes by the same name
// in a later turn holds nothing of it.
func TestGrantStaysOnThisMachine(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.give("t1", "g1", "local", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
	remote := b.environment("local")
	remote.Foreign = true
	windows := b.environment("local")
	windows.Cwd = `C:\work`
	for i, e := range []native.Environment{remote, windows} {
		turn := fmt.Sprintf("far%d", i)
		b.turn(turn, e)
		if !b.waitsFor(turn, writes("a"+turn, filepath.Join(b.dir, "out/a"))) {
			t.Errorf("%s: a grant reaches another machine", e.Cwd)
		}
		if final := b.call(turn, reads("b"+turn, filepath.Join(b.dir, "x"))); final.Outcome == approval.OutcomeAllow && (final.Effective.Sandbox != native.SandboxDefault || final.Effective.Permissions.Grants()) {
			t.Errorf("%s: effective %+v", e.Cwd, final.Effective)
		}
		more := writes("c"+turn, "out/a")
		out := b.may(permission.Write, b.out())
		more.Sandbox, more.Additional = native.SandboxMore, &out
		if final := b.call(turn, more); final.Fault != native.FaultForeign {
			t.Errorf("%s: %+v", e.Cwd, final)
		}
	}
}

// A session that is opened after an earlier one of its name holds nothing of it,
// whatever was on its way.
func TestSessionsOfOneNameHaveNothingInCommon(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	for i := range 30 {
		b.session()
		b.begin("t1", request("c1", network))
		b.event("c1")
		var all sync.WaitGroup
		all.Go(func() {
			_ = b.respond("c1", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
		})
		all.Go(func() { _, _ = b.EndTurn(t.Context(), "s1", host, "t1") })
		all.Go(func() { _ = b.End("s1", host) })
		all.Go(func() {
			for {
				_, err := b.Open(t.Context(), native.SessionSpec{ID: "s1", Instance: host})
				if err == nil {
					return
				}
				if !errors.Is(err, native.ErrExists) {
					t.Error(err)
					return
				}
			}
		})
		all.Wait()
		if held := b.held(); len(held) > 0 {
			t.Fatalf("round %d: %+v", i, held)
		}
		if err := b.End("s1", host); err != nil {
			t.Fatal(err)
		}
	}
}
