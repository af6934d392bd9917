package native_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
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
	const settings = manual + "reviewers:\n  one/judge: {kind: model, provider: openai, model: small-model}\nrequest_permissions: {after: [{reviewer: one/judge}]}\n"
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

// between is a ledger that does something between the moment when an answer is
// on disk and that when anybody knows of it.
type between struct {
	*ledger.DB
	do func()
}

func (l *between) InsertDecided(ctx context.Context, r approval.Record, d approval.Decision, writing bool) (approval.Record, error) {
	defer l.do()
	return l.DB.InsertDecided(ctx, r, d, writing)
}

func (l *between) BeginSend(ctx context.Context, from approval.From) (approval.Record, error) {
	defer l.do()
	return l.DB.BeginSend(ctx, from)
}

// An answer that is on its way when the turn ends grants nothing and lets nothing
// run, and its record says so.
func TestTurnThatEndsBeforeItsAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		settings string
		spec     native.CallSpec
		human    bool
	}{
		"a request that policy grants":   {"permissions: {mode: auto_allow}\n", request("c1", network), false},
		"a call that policy allows":      {"permissions: {mode: auto_allow}\n", command("c1", "make"), false},
		"a request that a person grants": {manual, request("c1", network), true},
		"a call that a person allows":    {manual, command("c1", "npm test"), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, epoch(t, test.settings, ""), nil)
			b.stop()
			var err error
			if b.db, err = ledger.Open(t.Context(), b.path, ledger.Options{}); err != nil {
				t.Fatal(err)
			}
			places, store := always{b.workspace}, &between{DB: b.db}
			if b.gate, _, err = gate.New(t.Context(), gate.Parts{Ledger: store, Workspaces: places, Reviewers: b.panel.open}); err != nil {
				t.Fatal(err)
			}
			b.Sessions = native.New(native.Parts{Gate: b.gate, Workspaces: places})
			b.session()
			store.do = func() {
				if _, err := b.EndTurn(t.Context(), "s1", host, "t1"); err != nil {
					t.Error(err)
				}
			}
			b.begin("t1", test.spec)
			switch {
			case test.human && test.spec.Command != nil:
				b.answer("c1", `"allow_for_session"`)
			case test.human:
				b.grant("c1", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
			}
			if final := b.final("c1"); final.Fault != native.FaultCancelled || final.Response != nil || final.Effective != nil {
				t.Errorf("%+v", final)
			}
			if held := b.Grants(local, "s1"); len(held.Grants)+len(held.Accepted) > 0 {
				t.Errorf("held %+v", held)
			}
			r := b.records()[0]
			if r.State != approval.Resolved || !strings.Contains(r.Closing.Reason, "nothing was granted") {
				t.Errorf("%s: %+v", r.State, r.Closing)
			}
			if _, err := b.gate.Fence(t.Context(), r.ID, "s1", host, r.Digest); err == nil {
				t.Error("it may start")
			}
		})
	}
}

// byCwd is workspaces that are found by the folder of a call.
type byCwd map[string]*gate.Workspace

func (w byCwd) Of(_ context.Context, q gate.Question) *gate.Workspace {
	return w[q.Request.Environment.Cwd]
}
func (w byCwd) Home() *gate.Workspace { return w["/one"] }

const blocking = manual + "reviewers:\n  one/judge: {kind: model, provider: openai, model: small-model}\nrequest_permissions: {before: [{reviewer: one/judge}]}\n"

// What is asked for in a folder is asked under the rules and hooks of that folder,
// wherever else the turn runs.
func TestRequestGoesByTheRulesOfItsEnvironment(t *testing.T) {
	one := gate.NewWorkspace("/one", gate.Standing{Epoch: epoch(t, manual, "")})
	two := gate.NewWorkspace("/two", gate.Standing{})
	b := open(t, one.Standing().Epoch, nil)
	b.stop()
	b.dir = "/one"
	var err error
	if b.db, err = ledger.Open(t.Context(), b.path, ledger.Options{}); err != nil {
		t.Fatal(err)
	}
	places := byCwd{"/one": one, "/two": two}
	reviewers := panel{"one/judge": judge(func(reviewer.Question) approval.Verdict {
		return approval.Verdict{Outcome: approval.VerdictDeny, Rationale: "not in here"}
	})}
	if b.gate, _, err = gate.New(t.Context(), gate.Parts{Ledger: b.db, Workspaces: places, Reviewers: reviewers.open}); err != nil {
		t.Fatal(err)
	}
	b.Sessions = native.New(native.Parts{Gate: b.gate, Workspaces: places})
	b.session()
	b.turn("both",
		native.Environment{Environment: approval.Environment{ID: "one", Cwd: "/one"}},
		native.Environment{Environment: approval.Environment{ID: "two", Cwd: "/two"}})
	for i, test := range []struct {
		name, settings string
		fault          native.Fault
	}{
		{"a hook blocks", blocking, native.FaultBlocked},
		{"the tool is off", manual + "request_permissions: {enabled: false}\n", native.FaultUnavailable},
		{"nobody is ever asked", manual + "approval_policy: never\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			two.Install(gate.Standing{Epoch: epoch(t, test.settings, "")})
			for _, name := range []string{"environment_id", "environmentId"} {
				final := b.call("both", request(fmt.Sprintf("c%d%s", i, name), `{"`+name+`":"two","permissions":{"network":{"enabled":true}}}`))
				if final.Fault != test.fault || final.Response != nil && !final.Response.Permissions.IsEmpty() {
					t.Errorf("%+v", final)
				}
			}
			if !b.waitsFor("both", request(fmt.Sprintf("d%d", i), network)) {
				t.Error("the other folder goes by them too")
			}
		})
	}
}

// What an edit adds that waits for its confirmation is heard already.
func TestHooksOfAnEditThatWaits(t *testing.T) {
	first := epoch(t, manual, "")
	b := open(t, first, nil)
	b.session()
	b.workspace.Install(gate.Standing{Epoch: first, Held: epoch(t, blocking, "")})
	b.begin("t1", request("c1", network))
	if r := b.waits("c1"); !r.Request.HumanOnly {
		t.Error("a hook that cannot be asked yet is passed by")
	}
	b.workspace.Install(gate.Standing{Epoch: first, Held: epoch(t, manual+"request_permissions: {enabled: false}\n", "")})
	if final := b.call("t1", request("c2", network)); final.Fault != native.FaultUnavailable {
		t.Errorf("%+v", final)
	}
}

// A turn that cannot be put under review as a person wants does not go on without.
func TestTurnThatCannotBeStrictIsInterrupted(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	var hosts []string
	for i := range permission.MaxEntries {
		hosts = append(hosts, fmt.Sprintf("h%d.example.com", i))
	}
	full := permission.Response{Permissions: permission.Profile{Network: permission.Network{Hosts: hosts}}, Scope: permission.Session}
	b.give("t1", "g1", "local", full)
	b.give("t1", "g2", "local", full)
	b.begin("t1", request("c1", `{"permissions":{"file_system":{"write":["out"]}}}`))
	r := b.waits("c1")
	b.grant("c1", permission.Response{Permissions: b.may(permission.Write, b.out()), StrictAutoReview: true})
	if final := b.final("c1"); final.Outcome != approval.OutcomeCancel || !strings.Contains(final.Message, "strict review") {
		t.Errorf("%+v", final)
	}
	if err := b.Start(t.Context(), "s1", host, "t1", reads("c2", "x")); !errors.Is(err, native.ErrOver) {
		t.Errorf("the turn goes on: %v", err)
	}
	if now, _ := b.db.Read(t.Context(), r.ID); now.State != approval.Resolved || len(b.held()) != 2 {
		t.Errorf("%s; %d grants", now.State, len(b.held()))
	}
}

// The whole, against a model.

// power is what a profile of the model gives: the network, and 0 for nothing, 1
// for reading and 2 for writing of each of two folders.
type power struct {
	net   bool
	paths [2]int
}

var everything = power{true, [2]int{2, 2}}

func (p power) within(other power) power {
	for i := range p.paths {
		p.paths[i] = min(p.paths[i], other.paths[i])
	}
	p.net = p.net && other.net
	return p
}

func (p power) and(other power) power {
	for i := range p.paths {
		p.paths[i] = max(p.paths[i], other.paths[i])
	}
	p.net = p.net || other.net
	return p
}

func folder(i int) string { return fmt.Sprintf("/srv/regent-%d", i) }

func (p power) profile() permission.Profile {
	var out permission.Profile
	out.Network.All = p.net
	for i, access := range p.paths {
		if access > 0 {
			out.FileSystem.Entries = append(out.FileSystem.Entries, permission.Literal(folder(i), []permission.Access{permission.Read, permission.Write}[access-1]))
		}
	}
	return out
}

func (p power) is(profile permission.Profile) bool {
	return permission.Covers(p.profile(), profile) && permission.Covers(profile, p.profile())
}

var powers = rapid.SampledFrom([]power{
	everything, everything, everything, {true, [2]int{}}, {false, [2]int{2, 2}}, {false, [2]int{2, 0}}, {true, [2]int{1, 2}}, {false, [2]int{0, 1}}, {},
})

// The rules that the model knows.
const (
	asking = iota
	never
	denying
	allowing
	low
)

// lowest is the ceiling of the rules that are low.
var lowest = power{false, [2]int{1, 2}}

func rulebook(t *testing.T) []*gate.Epoch {
	return []*gate.Epoch{
		asking:   epoch(t, manual, ""),
		never:    epoch(t, manual+"approval_policy: never\n", ""),
		denying:  epoch(t, manual, "\ndeny contains \"frozen\"\n"),
		allowing: epoch(t, "permissions: {mode: auto_allow}\n", ""),
		low:      epoch(t, manual, "\nceiling := {\"file_system\": {\"read\": [\""+folder(0)+"\"], \"write\": [\""+folder(1)+"\"]}, \"scope\": \"turn\"}\n"),
	}
}

type callKind int

const (
	asks callKind = iota
	runs
	writesInto
)

// want is a call as the model has it.
type want struct {
	id          string
	kind        callKind
	turn        *wantTurn
	environment string
	asked       power
	folder      int
	waits       bool

	// The answer, when there is one.
	outcome   approval.Outcome
	fault     native.Fault
	granted   *power
	scope     permission.Scope
	strict    bool
	effective *power
	told      string // the answer as it was first seen
}

type wantTurn struct {
	session, id  string
	open, strict bool
	calls        []*want
}

type wantGrant struct {
	turn        *wantTurn
	environment string
	scope       permission.Scope
	power       power
	call        string
}

// world is sessions on a gate, and the model of them.
type world struct {
	*rapid.T
	outer *testing.T
	b     *bench
	rules []*gate.Epoch
	now   int
	host  string
	// next numbers hosts, turns and calls.
	next     int
	sessions map[string][]*wantTurn
	grants   []wantGrant
	// calls are those of sessions that are open, and cancelled the ids of all that
	// never may have been granted anything.
	calls     []*want
	cancelled map[string]bool
	// silent are the ids of calls that nobody is asked about and nothing is noted of.
	silent map[string]bool
}

var environments = []string{"local", "other"}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) name(prefix string) string {
	w.next++
	return fmt.Sprintf("%s%d", prefix, w.next)
}

func pick[T any](w *world, what string, from []T) T {
	if len(from) == 0 {
		w.Skip("no " + what)
	}
	return rapid.SampledFrom(from).Draw(w.T, what)
}

// rarely skips most of the actions that leave little behind.
func (w *world) rarely() {
	if rapid.IntRange(0, 2).Draw(w.T, "rarely") > 0 {
		w.Skip()
	}
}

func (w *world) session() string {
	return pick(w, "session", slices.Sorted(maps.Keys(w.sessions)))
}

func (w *world) openTurns() (open []*wantTurn) {
	for _, id := range slices.Sorted(maps.Keys(w.sessions)) {
		for _, t := range w.sessions[id] {
			if t.open {
				open = append(open, t)
			}
		}
	}
	return open
}

func (w *world) waiting(kind func(*want) bool) (waiting []*want) {
	for _, c := range w.calls {
		if c.waits && kind(c) {
			waiting = append(waiting, c)
		}
	}
	return waiting
}

func anyCall(*want) bool { return true }

func requests(c *want) bool { return c.kind == asks }

// held is what a turn holds in an environment.
func (w *world) held(t *wantTurn, environment string) (p power) {
	for _, g := range w.grants {
		if g.environment == environment && g.turn.session == t.session && (g.scope == permission.Session || g.turn == t) {
			p = p.and(g.power)
		}
	}
	return p
}

func (w *world) ceiling() power {
	if w.now == low {
		return lowest
	}
	return everything
}

// The model of a ruling: what becomes of a call that is put through the rules of
// now.

func (w *world) rule(c *want) {
	held := w.held(c.turn, c.environment).within(w.ceiling())
	switch {
	case c.kind == asks && w.now == never, w.now == denying:
		w.refuse(c)
	case c.turn.strict:
		c.waits = true
	case w.now == allowing:
		w.allow(c, c.asked, permission.Turn, false)
	case c.kind == writesInto && held.paths[c.folder] == 2:
		w.allow(c, power{}, permission.Turn, false)
	default:
		c.waits = true
	}
}

func (w *world) refuse(c *want) {
	c.waits = false
	if c.kind == asks {
		c.outcome, c.granted, c.scope = approval.OutcomeAllow, &power{}, permission.Turn
		return
	}
	c.outcome, c.fault = approval.OutcomeDeny, native.FaultRefused
}

func (w *world) allow(c *want, p power, scope permission.Scope, strict bool) {
	c.waits = false
	c.outcome = approval.OutcomeAllow
	if c.kind != asks {
		e := w.held(c.turn, c.environment).within(w.ceiling())
		c.effective = &e
		return
	}
	c.granted, c.scope, c.strict = &p, scope, strict
	c.turn.strict = c.turn.strict || strict
	if p != (power{}) {
		w.grants = append(w.grants, wantGrant{c.turn, c.environment, scope, p, c.id})
	}
}

func (w *world) cancel(c *want, fault native.Fault) {
	c.waits = false
	c.outcome, c.fault = approval.OutcomeCancel, fault
	w.cancelled[c.id] = true
}

func (w *world) over(t *wantTurn) {
	t.open = false
	for _, c := range t.calls {
		if c.waits {
			w.cancel(c, native.FaultCancelled)
		}
	}
	w.grants = slices.DeleteFunc(w.grants, func(g wantGrant) bool { return g.turn == t && g.scope != permission.Session })
}

func (w *world) gone(session string) {
	for _, t := range w.sessions[session] {
		w.over(t)
	}
	delete(w.sessions, session)
	w.grants = slices.DeleteFunc(w.grants, func(g wantGrant) bool { return g.turn.session == session })
	w.calls = slices.DeleteFunc(w.calls, func(c *want) bool { return c.turn.session == session })
}

// The actions.

func (w *world) OpenSession(t *rapid.T) {
	w.T = t
	id := rapid.SampledFrom([]string{"A", "B"}).Draw(t, "session")
	_, err := w.b.Open(w.outer.Context(), native.SessionSpec{ID: id, Instance: w.host})
	if _, there := w.sessions[id]; there {
		if !errors.Is(err, native.ErrExists) {
			t.Fatalf("opened twice: %v", err)
		}
		return
	}
	w.must(err)
	w.sessions[id] = nil
}

func (w *world) EndSession(t *rapid.T) {
	w.T = t
	w.rarely()
	id := w.session()
	w.must(w.b.End(id, w.host))
	w.gone(id)
	w.again(id)
}

// again opens a session of an earlier one's name, with a turn.
func (w *world) again(id string) {
	_, err := w.b.Open(w.outer.Context(), native.SessionSpec{ID: id, Instance: w.host})
	w.must(err)
	w.sessions[id] = nil
	w.openTurn(id)
}

func (w *world) openTurn(session string) {
	one := &wantTurn{session: session, id: w.name("t"), open: true}
	_, err := w.b.OpenTurn(w.outer.Context(), session, w.host, native.TurnSpec{
		ID: one.id, Environments: []native.Environment{w.b.environment("local"), w.b.environment("other")},
	})
	w.must(err)
	w.sessions[session] = append(w.sessions[session], one)
}

func (w *world) OpenTurn(t *rapid.T) {
	w.T = t
	w.openTurn(w.session())
}

func (w *world) EndTurn(t *rapid.T) {
	w.T = t
	one := pick(w, "turn", w.openTurns())
	_, err := w.b.EndTurn(w.outer.Context(), one.session, w.host, one.id)
	w.must(err)
	w.over(one)
}

func (w *world) begin(kind callKind) *want {
	c := &want{kind: kind, turn: pick(w, "turn", w.openTurns()), environment: rapid.SampledFrom(environments).Draw(w.T, "environment")}
	c.id = w.name("c")
	c.turn.calls = append(c.turn.calls, c)
	w.calls = append(w.calls, c)
	return c
}

func (w *world) start(c *want, spec native.CallSpec) {
	spec.ID, spec.Environment = c.id, &c.environment
	w.silent[c.id] = c.kind == asks && w.now == never
	if c.kind == asks {
		spec.Environment = nil
	}
	w.must(w.b.Start(w.outer.Context(), c.turn.session, w.host, c.turn.id, spec))
	w.rule(c)
}

func (w *world) Request(t *rapid.T) {
	w.T = t
	w.request(powers.Draw(t, "asked"))
}

func (w *world) request(p power) *want {
	c := w.begin(asks)
	c.asked = p
	spec := request(c.id, jsonOf(w.outer, map[string]any{"environment_id": c.environment, "permissions": p.profile()}))
	if p == (power{}) {
		c.outcome, c.fault = approval.OutcomeDeny, native.FaultEmpty
		w.silent[c.id] = true
		w.must(w.b.Start(w.outer.Context(), c.turn.session, w.host, c.turn.id, spec))
		return c
	}
	w.start(c, spec)
	return c
}

func (w *world) Command(t *rapid.T) {
	w.T = t
	w.start(w.begin(runs), command("", "make"))
}

func (w *world) Write(t *rapid.T) {
	w.T = t
	c := w.begin(writesInto)
	c.folder = rapid.IntRange(0, 1).Draw(t, "folder")
	w.start(c, writes("", folder(c.folder)+"/file"))
}

func (w *world) Answer(t *rapid.T) {
	w.T = t
	w.answer(pick(w, "call", w.waiting(anyCall)), rapid.SampledFrom([]string{"allow", "allow", "deny", "cancel"}).Draw(t, "option"))
}

// Use has a call allowed, so that it uses what is held.
func (w *world) Use(t *rapid.T) {
	w.T = t
	c := w.begin(rapid.SampledFrom([]callKind{runs, writesInto}).Draw(t, "kind"))
	spec := command("", "make")
	if c.kind == writesInto {
		c.folder = rapid.IntRange(0, 1).Draw(t, "folder")
		spec = writes("", folder(c.folder)+"/file")
	}
	if w.start(c, spec); c.waits {
		synctest.Wait()
		w.answer(c, "allow")
	}
}

func (w *world) answer(c *want, option string) {
	r := w.b.waits(c.id)
	_, err := w.b.gate.Answer(w.outer.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: []byte(`"` + option + `"`), By: local})
	w.must(err)
	switch option {
	case "allow":
		w.allow(c, c.asked.within(w.ceiling()), permission.Turn, false)
	case "deny":
		w.refuse(c)
	case "cancel":
		w.cancel(c, native.FaultRefused)
		w.over(c.turn)
	}
}

func (w *world) Respond(t *rapid.T) {
	w.T = t
	w.respond(pick(w, "request", w.waiting(requests)))
}

// Grant asks and responds, so that turns and sessions hold something.
func (w *world) Grant(t *rapid.T) {
	w.T = t
	if c := w.request(powers.Draw(t, "asked")); c.waits {
		synctest.Wait()
		w.respond(c)
	}
}

func (w *world) respond(c *want) {
	given := powers.Draw(w.T, "given")
	response := permission.Response{
		Permissions: given.profile(), StrictAutoReview: rapid.IntRange(0, 3).Draw(w.T, "strict") == 3,
		Scope: rapid.SampledFrom([]permission.Scope{"", permission.Turn, permission.Session}).Draw(w.T, "scope"),
	}
	_, err := w.b.Respond(w.outer.Context(), native.Response{Session: c.turn.session, Call: c.id, Response: response, By: local})
	w.must(err)
	scope, p := response.Scope, c.asked.within(given).within(w.ceiling())
	if scope == "" {
		scope = permission.Turn
	}
	switch {
	case response.StrictAutoReview && scope == permission.Session:
		w.allow(c, power{}, permission.Turn, false)
	case given == power{}:
		w.allow(c, power{}, scope, response.StrictAutoReview)
	default:
		if w.now == low {
			scope = permission.Turn
		}
		w.allow(c, p, scope, response.StrictAutoReview)
	}
}

func (w *world) RespondElsewhere(t *rapid.T) {
	w.T = t
	c := pick(w, "request", w.waiting(requests))
	response := permission.Response{Permissions: permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(`C:\work`, permission.Read)}}}}
	_, err := w.b.Respond(w.outer.Context(), native.Response{Session: c.turn.session, Call: c.id, Response: response, By: local})
	if !errors.Is(err, gate.ErrUnplaced) {
		t.Fatal(err)
	}
	w.cancel(c, native.FaultRefused)
	w.over(c.turn)
}

// RespondLate answers what waits no more.
func (w *world) RespondLate(t *rapid.T) {
	w.T = t
	var over []*want
	for _, c := range w.calls {
		if !c.waits || c.kind != asks {
			over = append(over, c)
		}
	}
	c := pick(w, "call", over)
	_, err := w.b.Respond(w.outer.Context(), native.Response{
		Session: c.turn.session, Call: c.id, Response: permission.Response{Permissions: permission.Everything(), Scope: permission.Session}, By: local,
	})
	if !errors.Is(err, native.ErrUnmatched) {
		t.Fatalf("an answer to nothing: %v", err)
	}
}

func (w *world) Cancel(t *rapid.T) {
	w.T = t
	c := pick(w, "call", w.calls)
	_, err := w.b.Sessions.Cancel(w.outer.Context(), c.turn.session, w.host, c.id, "")
	if !c.waits {
		if !errors.Is(err, native.ErrTold) {
			t.Fatalf("a call that is over was cancelled: %v", err)
		}
		return
	}
	w.must(err)
	w.cancel(c, native.FaultCancelled)
}

func (w *world) Install(t *rapid.T) {
	w.T = t
	w.now = rapid.SampledFrom([]int{asking, asking, low, low, allowing, allowing, never, denying}).Draw(t, "rules")
	w.b.workspace.Install(gate.Standing{Epoch: w.rules[w.now]})
	for _, c := range w.waiting(anyCall) {
		w.rule(c)
		c.effective = nil // what is granted at this very moment may be in it or not
	}
}

func (w *world) Revoke(t *rapid.T) {
	w.T = t
	held := w.b.Grants(local, "").Grants
	g := pick(w, "grant", held)
	w.must(w.b.Sessions.Revoke(local, g.ID))
	w.grants = slices.DeleteFunc(w.grants, func(one wantGrant) bool { return one.call == g.Call })
}

// HostGone has the host say nothing until its lease is over.
func (w *world) HostGone(t *rapid.T) {
	w.T = t
	w.rarely()
	time.Sleep(45 * time.Second)
	for id := range w.sessions {
		w.gone(id)
	}
	w.host = w.name("host")
	w.again("A")
}

// Crash goes on with the files as they are at this moment, as after a loss of
// power, and nothing else.
func (w *world) Crash(t *rapid.T) {
	w.T = t
	w.rarely()
	path := filepath.Join(w.outer.TempDir(), "l.db")
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(w.b.path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			w.must(os.WriteFile(path+suffix, text, 0o600))
		}
	}
	w.b.stop()
	w.b.path = path
	w.b.start()
	for _, c := range w.waiting(anyCall) {
		w.cancelled[c.id] = true
	}
	w.sessions, w.calls, w.grants = map[string][]*wantTurn{}, nil, nil
	w.host = w.name("host")
	w.again("A")
}

// Check is what holds at any time.
func (w *world) Check(t *rapid.T) {
	w.T = t
	synctest.Wait()
	w.checkCalls()
	w.checkSessions()
	w.checkGrants()
	w.checkRecords()
}

func (w *world) checkCalls() {
	for _, c := range w.calls {
		ctx, stop := context.WithCancel(w.outer.Context())
		stop()
		one, err := w.b.Await(ctx, c.turn.session, w.host, c.id)
		w.must(err)
		if c.waits {
			if one.Final != nil || one.Waiting == "" || (one.Event != nil) != (c.kind == asks) {
				w.Fatalf("call %s waits, and is %+v", c.id, one)
			}
			continue
		}
		if one.Final == nil {
			w.Fatalf("call %s has no answer", c.id)
		}
		f := one.Final
		if f.Outcome != c.outcome || f.Fault != c.fault || (f.Response != nil) != (c.granted != nil) {
			w.Fatalf("call %s: outcome %s, fault %q, want %s, %q: %+v", c.id, f.Outcome, f.Fault, c.outcome, c.fault, f)
		}
		if r := f.Response; r != nil && (!c.granted.is(r.Permissions) || r.Scope != c.scope || r.StrictAutoReview != c.strict) {
			w.Fatalf("call %s is told %s, want %s for the %s", c.id, f.Output, c.granted.profile(), c.scope)
		}
		if (f.Effective != nil) != (c.kind != asks && c.outcome == approval.OutcomeAllow) {
			w.Fatalf("call %s may use %+v", c.id, f.Effective)
		}
		if c.effective != nil && !c.effective.is(f.Effective.Permissions) {
			w.Fatalf("call %s may use %s, want %s", c.id, f.Effective.Permissions, c.effective.profile())
		}
		seen := fmt.Sprintf("%s %s %s %+v %+v", f.Outcome, f.Fault, f.Output, f.Response, f.Effective)
		if c.told == "" {
			c.told = seen
			w.b.Told(one)
		} else if c.told != seen {
			w.Fatalf("call %s had the answer %s and has %s", c.id, c.told, seen)
		}
	}
}

func (w *world) checkSessions() {
	listed := w.b.List(local)
	if len(listed) != len(w.sessions) {
		w.Fatalf("%d sessions are open, want %d", len(listed), len(w.sessions))
	}
	for _, s := range listed {
		var pending, want []string
		for _, e := range s.Pending {
			pending = append(pending, e.CallID)
		}
		turns := map[string]*wantTurn{}
		for _, t := range w.sessions[s.ID] {
			turns[t.id] = t
			for _, c := range t.calls {
				if c.waits && c.kind == asks {
					want = append(want, c.id)
				}
			}
		}
		slices.Sort(pending)
		slices.Sort(want)
		if !slices.Equal(pending, want) {
			w.Fatalf("session %s shows the requests %v, want %v", s.ID, pending, want)
		}
		for _, t := range s.Turns {
			if m := turns[t.ID]; (t.State == native.TurnOpen) != m.open || t.Strict != m.strict {
				w.Fatalf("turn %s is %s, strict %v; want open %v, strict %v", t.ID, t.State, t.Strict, m.open, m.strict)
			}
		}
	}
}

func (w *world) checkGrants() {
	held := w.b.Grants(local, "").Grants
	if len(held) != len(w.grants) {
		w.Fatalf("%d grants are held, want %d: %+v", len(held), len(w.grants), held)
	}
	for _, g := range held {
		i := slices.IndexFunc(w.grants, func(m wantGrant) bool { return m.call == g.Call })
		if i < 0 {
			w.Fatalf("nobody granted %+v", g)
		}
		m := w.grants[i]
		if g.Session != m.turn.session || g.Turn != m.turn.id || g.Environment != m.environment || g.Scope != m.scope || !m.power.is(g.Permissions) {
			w.Fatalf("granted %+v, want %+v", g, m)
		}
		r, err := w.b.db.Read(w.outer.Context(), g.Record)
		w.must(err)
		if r.Decision == nil || r.Decision.Outcome != approval.OutcomeAllow || r.Decision.Settlement == nil || !permission.Covers(r.Decision.Settlement.Permissions, g.Permissions) || r.Request.Session.CallID != g.Call {
			w.Fatalf("%+v was granted on %+v", g, r.Decision)
		}
	}
}

func (w *world) checkRecords() {
	waiting := map[string]bool{}
	for _, c := range w.waiting(anyCall) {
		waiting[c.id] = true
	}
	page, err := w.b.gate.List(w.outer.Context(), local, approval.Query{})
	w.must(err)
	if page.Before != "" {
		w.Fatal("more records than a page holds")
	}
	pending := 0
	for i := range page.Records {
		r := &page.Records[i]
		id := r.Request.Session.CallID
		switch {
		case w.silent[id]:
			w.Fatalf("call %s is refused by policy, and has a record: %+v", id, r)
		case r.State == approval.Pending && !waiting[id]:
			w.Fatalf("the record of call %s is pending, and the call does not wait", id)
		case r.State == approval.Pending:
			pending++
		case waiting[id]:
			w.Fatalf("call %s waits, and its record is %s", id, r.State)
		case w.cancelled[id] && r.Decision != nil && r.Decision.Outcome == approval.OutcomeAllow && (r.Closing == nil || !strings.Contains(r.Closing.Reason, "nothing was granted")):
			w.Fatalf("call %s was cancelled, and its record is %s: %+v", id, r.State, r.Decision)
		}
	}
	if pending != len(waiting) {
		w.Fatalf("%d records are pending, and %d calls wait", pending, len(waiting))
	}
}

// TestLifecycle compares random lives of sessions with the model. It runs a few
// that are short; -rapid.checks and -rapid.steps make more of them.
func TestLifecycle(t *testing.T) {
	rules := rulebook(t)
	few(t, "rapid.checks", "15")
	few(t, "rapid.steps", "30")
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(timeless{t}, func(r *rapid.T) {
			w := &world{
				T: r, outer: t, rules: rules, host: "host", sessions: map[string][]*wantTurn{}, cancelled: map[string]bool{}, silent: map[string]bool{},
				b: &bench{TB: t, dir: "/srv/app", path: filepath.Join(t.TempDir(), "l.db"), workspace: gate.NewWorkspace("/w", gate.Standing{Epoch: rules[asking]})},
			}
			w.b.start()
			defer w.b.stop()
			w.OpenSession(r)
			w.OpenTurn(r)
			w.OpenTurn(r)
			actions := rapid.StateMachineActions(w)
			// What is held, and what comes of it, is what matters most.
			for _, more := range []string{"2", "3"} {
				actions["Grant"+more], actions["Use"+more], actions["Install"+more] = w.Grant, w.Use, w.Install
			}
			r.Repeat(actions)
			w.T = r
			report, err := w.b.db.Verify(t.Context())
			if err != nil || len(report.Faults) > 0 {
				r.Fatalf("verify: %+v, %v", report, err)
			}
		})
	})
}

// timeless is a test without a deadline, which a bubble does not tell.
type timeless struct{ rapid.TB }

// few sets a flag of rapid that nobody has given.
func few(t *testing.T, name, value string) {
	f := flag.Lookup(name)
	if f.Value.String() != f.DefValue {
		return
	}
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, f.DefValue) })
}

// TestManyThingsAtOnce has answers, cancels, ends of turns and new rules meet at
// any moment. Whoever wins, each call has one answer, and what is held is what
// answers say that were told.
func TestManyThingsAtOnce(t *testing.T) {
	rules := rulebook(t)
	b := open(t, rules[asking], nil)
	b.session()
	turns := []string{"t1", "t2", "t3", "t4"}
	for _, id := range turns[1:] {
		b.turn(id, b.environment("local"), b.environment("other"))
	}
	ctx, done := context.WithCancel(t.Context())
	var busy, calls sync.WaitGroup
	// Two people answer whatever waits, each in another way every time.
	for person := range 2 {
		busy.Go(func() {
			for i := person; ctx.Err() == nil; i++ {
				changed := b.gate.Feed().Changed()
				page, err := b.gate.List(t.Context(), local, approval.Query{States: []approval.State{approval.Pending}})
				if err != nil {
					t.Error(err)
					return
				}
				for j, r := range page.Records {
					switch option := []string{"allow", "allow", "deny", "respond", "allow", "respond", "allow_for_session"}[(i+j)%7]; option {
					case "respond":
						_, _ = b.Respond(t.Context(), native.Response{Session: "s1", Call: r.Request.Session.CallID, By: local, Response: permission.Response{
							Permissions: permission.Everything(), Scope: []permission.Scope{permission.Turn, permission.Session}[i%2],
						}})
					default:
						_, _ = b.gate.Answer(t.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: []byte(`"` + option + `"`), By: local})
					}
				}
				select {
				case <-changed:
				case <-ctx.Done():
				}
			}
		})
	}
	busy.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			b.workspace.Install(gate.Standing{Epoch: rules[[]int{asking, low, asking, allowing, asking, never, asking, denying}[i%8]]})
			if _, err := b.Describe(t.Context(), "s1", host); err != nil {
				t.Error(err)
			}
			select {
			case <-b.gate.Feed().Changed():
			case <-ctx.Done():
			}
		}
	})
	var mu sync.Mutex
	finals := map[string]native.Final{}
	const each = 15
	for _, turn := range turns {
		calls.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%s-%d", turn, i)
				spec := []native.CallSpec{request(id, network), command(id, "npm test"), writes(id, "out/a"), reads(id, "x")}[i%4]
				if err := b.Start(t.Context(), "s1", host, turn, spec); errors.Is(err, native.ErrOver) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
				switch {
				case i%5 == 4:
					_, _ = b.Cancel(t.Context(), "s1", host, id, "")
				case i == each-2 && turn != "t1":
					_, _ = b.EndTurn(t.Context(), "s1", host, turn)
				}
				final := b.final(id)
				mu.Lock()
				finals[id] = final
				mu.Unlock()
			}
		})
	}
	calls.Wait()
	done()
	busy.Wait()
	granted := map[string]permission.Grant{}
	for _, g := range b.held() {
		if g.Scope != permission.Session && g.Turn != "t1" {
			t.Errorf("a turn that is over holds %+v", g)
		}
		granted[g.Call] = g
	}
	for id, final := range finals {
		if again := b.final(id); again.Outcome != final.Outcome || again.Fault != final.Fault || again.Output != final.Output {
			t.Errorf("%s was %+v and is %+v", id, final, again)
		}
		g, ok := granted[id]
		delete(granted, id)
		if ok && (final.Response == nil || !final.Response.Permissions.Equal(g.Permissions) || final.Response.Scope != g.Scope) {
			t.Errorf("%s holds %+v and was told %+v", id, g, final)
		}
		if r := final.Response; r != nil && r.Permissions.Grants() && (r.Scope == permission.Session || strings.HasPrefix(id, "t1-")) && !ok {
			t.Errorf("%s was told %s and holds nothing", id, final.Output)
		}
	}
	if len(granted) > 0 {
		t.Errorf("nobody was told of %+v", granted)
	}
	for _, r := range b.records() {
		final := finals[r.Request.Session.CallID]
		if r.State == approval.Pending {
			t.Errorf("%s still waits", r.Request.Session.CallID)
		}
		if final.Fault == native.FaultCancelled && r.Decision != nil && r.Decision.Outcome == approval.OutcomeAllow && (r.Closing == nil || !strings.Contains(r.Closing.Reason, "nothing was granted")) {
			t.Errorf("%s was cancelled, and its record is %s: %+v", r.Request.Session.CallID, r.State, r.Closing)
		}
	}
	report, err := b.db.Verify(t.Context())
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}
