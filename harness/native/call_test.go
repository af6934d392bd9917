package native_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/reviewer"
)

// writes is a call that writes a file.
func writes(id, path string) native.CallSpec {
	arguments, _ := json.Marshal(map[string]string{"path": path, "content": "x"})
	return native.CallSpec{ID: id, Tool: &approval.Tool{Name: "write_file", Arguments: arguments}}
}

// reads is a call that reads a file.
func reads(id, path string) native.CallSpec {
	arguments, _ := json.Marshal(map[string]string{"path": path})
	return native.CallSpec{ID: id, Tool: &approval.Tool{Name: "read_file", Arguments: arguments}}
}

// give has a call granted permissions in the turn.
func (b *bench) give(turn, id, environment string, response permission.Response) {
	b.Helper()
	text, err := json.Marshal(map[string]any{"environment_id": environment, "permissions": response.Permissions})
	if err != nil {
		b.Fatal(err)
	}
	b.begin(turn, request(id, string(text)))
	b.grant(id, response)
	if final := b.final(id); final.Fault != "" {
		b.Fatalf("%+v", final)
	}
}

// waitsFor tells whether a call waits for a person rather than being answered,
// and cancels it.
func (b *bench) waitsFor(turn string, spec native.CallSpec) bool {
	b.Helper()
	b.begin(turn, spec)
	one, err := b.Reach(b.Context(), "s1", host, spec.ID)
	if err != nil {
		b.Fatal(err)
	}
	if one.Final != nil {
		return false
	}
	if _, err := b.Cancel(b.Context(), "s1", host, spec.ID, ""); err != nil {
		b.Fatal(err)
	}
	return true
}

func (b *bench) out() string { return filepath.Join(b.dir, "out") }

func (b *bench) may(access permission.Access, path string) permission.Profile {
	return permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(path, access)}}}
}

func TestFrameworkToolsThatOnlyReadNeedNobody(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	final := b.call("t1", reads("c1", "main.go"))
	if final.Outcome != approval.OutcomeAllow || final.Answer.Record != nil {
		t.Errorf("%+v", final)
	}
	if len(b.records()) > 0 {
		t.Error("reading left a record")
	}
	if skips := b.gate.Stats().Skips; skips[gate.SkipKind{Effects: "read", Tool: "read_file"}] != 1 {
		t.Errorf("skips %v", skips)
	}
	// What the host itself forbids stays forbidden.
	no := false
	forbidden := reads("c2", "main.go")
	forbidden.HostAllows = &no
	if final := b.call("t1", forbidden); final.Outcome != approval.OutcomeDeny || final.Fault != native.FaultRefused {
		t.Errorf("%+v", final)
	}
	for i, spec := range []native.CallSpec{
		writes("c3", "main.go"), command("c4", "ls"),
		{ID: "c5", Tool: &approval.Tool{Name: "web_fetch", Arguments: json.RawMessage(`{"url":"https://example.com"}`)}},
		{ID: "c6", Tool: &approval.Tool{Name: "search", Server: "docs", Arguments: json.RawMessage(`{}`)}},
	} {
		if !b.waitsFor("t1", spec) {
			t.Errorf("call %d needs nobody", i)
		}
	}
}

func TestHostListIsFinal(t *testing.T) {
	no := false
	b := open(t, epoch(t, "permissions: {mode: auto_allow, read_only_commands: skip}\n", "\nallow contains \"all of it\"\n"), nil)
	b.session()
	b.give2("c0", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
	for _, spec := range []native.CallSpec{reads("c1", "x"), writes("c2", "x"), command("c3", "ls"), command("c4", "make"), request("c5", network)} {
		spec.HostAllows = &no
		final := b.call("t1", spec)
		if spec.ID == "c5" {
			if final.Response == nil || !final.Response.Permissions.IsEmpty() {
				t.Errorf("%s: %+v", spec.ID, final)
			}
			continue
		}
		if final.Outcome != approval.OutcomeDeny {
			t.Errorf("%s: %+v", spec.ID, final)
		}
	}
}

// give2 has a call granted by a mode that grants by itself.
func (b *bench) give2(id string, response permission.Response) {
	b.Helper()
	text, err := json.Marshal(map[string]any{"permissions": response.Permissions})
	if err != nil {
		b.Fatal(err)
	}
	if final := b.call("t1", request(id, string(text))); final.Fault != "" || final.Response.Permissions.IsEmpty() {
		b.Fatalf("%+v", final)
	}
}

func TestRefusalIsAToolResultAndTheRunGoesOn(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.begin("t1", command("c1", "make"))
	r := b.waits("c1")
	if _, err := b.gate.Answer(t.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: json.RawMessage(`"deny"`), Reason: "not on a Friday", By: local}); err != nil {
		t.Fatal(err)
	}
	final := b.final("c1")
	if final.Outcome != approval.OutcomeDeny || final.Fault != native.FaultRefused || final.Output != "the call may not run: not on a Friday" {
		t.Errorf("%+v", final)
	}
	if final := b.call("t1", reads("c2", "x")); final.Outcome != approval.OutcomeAllow {
		t.Errorf("the turn is over: %+v", final)
	}
}

func TestCancelEndsTheRun(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.begin("t1", command("c1", "make"))
	b.begin("t1", command("c2", "make test"))
	b.waits("c2")
	b.answer("c1", `"cancel"`)
	for _, id := range []string{"c1", "c2"} {
		if final := b.final(id); final.Outcome != approval.OutcomeCancel || final.Fault == "" {
			t.Errorf("%s: %+v", id, final)
		}
	}
	if err := b.Start(t.Context(), "s1", host, "t1", reads("c3", "x")); !errors.Is(err, native.ErrOver) {
		t.Errorf("the turn goes on: %v", err)
	}
}

func TestGrantsAreWhereAndForAsLongAsTheyWereGiven(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.turn("t2", b.environment("local"), b.environment("other"))
	turn := permission.Response{Permissions: b.may(permission.Write, b.out()), Scope: permission.Turn}
	if !b.waitsFor("t1", writes("c1", "out/a")) {
		t.Fatal("writing needs nobody")
	}
	// t2 is the newer turn; the grant is t1's all the same.
	b.give("t1", "g1", "local", turn)
	final := b.call("t1", writes("c2", "out/a"))
	if final.Outcome != approval.OutcomeAllow || final.Answer.Record.Decision.Source != approval.SourceGrant {
		t.Errorf("%+v", final)
	}
	if e := final.Effective; e.Sandbox != native.SandboxMore || !e.Preapproved || !e.Permissions.Equal(turn.Permissions) || len(e.Grants) != 1 {
		t.Errorf("effective %+v", e)
	}
	if !b.waitsFor("t1", writes("c3", "else/a")) {
		t.Error("a grant reaches another folder")
	}
	if !b.waitsFor("t2", writes("c4", "out/a")) {
		t.Error("a grant of a turn reaches another turn")
	}
	session := permission.Response{Permissions: b.may(permission.Write, filepath.Join(b.dir, "all")), Scope: permission.Session}
	b.give("t1", "g2", "local", session)
	if final := b.call("t2", writes("c5", "all/a")); final.Outcome != approval.OutcomeAllow || final.Effective.Permissions.Equal(turn.Permissions) {
		t.Errorf("a grant of the session does not reach its turns: %+v", final)
	}
	other := "other"
	elsewhere := writes("c6", "all/a")
	elsewhere.Environment = &other
	if !b.waitsFor("t2", elsewhere) {
		t.Error("a grant reaches another environment")
	}
	// Both together, where both are held.
	final = b.call("t1", command2("c7"))
	if want := permission.Merge(turn.Permissions, session.Permissions); !final.Effective.Permissions.Equal(want) {
		t.Errorf("effective %+v, want %s", final.Effective, want)
	}
	if _, err := b.EndTurn(t.Context(), "s1", host, "t1"); err != nil {
		t.Fatal(err)
	}
	if g := b.held(); len(g) != 1 || g[0].Scope != permission.Session {
		t.Errorf("after the turn: %+v", g)
	}
	if err := b.End("s1", host); err != nil {
		t.Fatal(err)
	}
	if g := b.Grants(local, "").Grants; len(g) > 0 {
		t.Errorf("after the session: %+v", g)
	}
}

// command2 is a call that reads, so that nobody is asked.
func command2(id string) native.CallSpec { return reads(id, "main.go") }

func TestRevokedGrantCountsNoMore(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.give("t1", "g1", "local", permission.Response{Permissions: b.may(permission.Write, b.out()), Scope: permission.Session})
	if final := b.call("t1", writes("c1", "out/a")); final.Outcome != approval.OutcomeAllow {
		t.Fatalf("%+v", final)
	}
	id := b.held()[0].ID
	for _, by := range []gate.Principal{{ID: "user:lee", Role: gate.RoleObserver}, {ID: "agent:x", Role: gate.RoleAgent}, {ID: "user:kim", Role: gate.RoleOwner}} {
		if err := b.Revoke(by, id); err == nil {
			t.Errorf("%s revoked it", by.ID)
		}
	}
	if err := b.Revoke(local, id); err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(local, id); !errors.Is(err, native.ErrNoGrant) {
		t.Errorf("revoked twice: %v", err)
	}
	if !b.waitsFor("t1", writes("c2", "out/a")) {
		t.Error("a revoked grant counts")
	}
}

func TestGrantsComeByThemselvesOrNotAtAll(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	granted := b.may(permission.Write, b.out())
	b.give("t1", "g1", "local", permission.Response{Permissions: granted, Scope: permission.Turn})
	inside := b.may(permission.Write, filepath.Join(b.out(), "sub"))
	outside := b.may(permission.Write, filepath.Join(b.dir, "else"))

	escalated := writes("c1", "out/a")
	escalated.Sandbox = native.SandboxEscalated
	if !b.waitsFor("t1", escalated) {
		t.Error("an escalation runs on a grant")
	}
	more := writes("c2", "out/a")
	more.Sandbox, more.Additional = native.SandboxMore, &outside
	if !b.waitsFor("t1", more) {
		t.Error("a call that asks for more runs on a grant")
	}
	// What is asked for is held: it is not asked for again, and nothing else of the
	// grant counts for a call that asks.
	had := writes("c3", "out/a")
	had.Sandbox, had.Additional = native.SandboxMore, &inside
	b.begin("t1", had)
	if r := b.waits("c3"); r.Request.Permissions != nil {
		t.Errorf("asked again for %s", r.Request.Permissions)
	}
	b.answer("c3", `"allow"`)
	if e := b.final("c3").Effective; !e.Preapproved || !e.Permissions.Equal(granted) {
		t.Errorf("effective %+v", e)
	}
	// What is not held is asked for, and is for this call alone.
	own := writes("c4", "else/a")
	own.Sandbox, own.Additional = native.SandboxMore, &outside
	b.begin("t1", own)
	if r := b.waits("c4"); r.Request.Permissions == nil || !r.Request.Permissions.Equal(outside) {
		t.Errorf("asked for %s", r.Request.Permissions)
	}
	b.answer("c4", `"allow"`)
	e := b.final("c4").Effective
	if want := permission.Merge(granted, outside); e.Preapproved || e.Sandbox != native.SandboxMore || !e.Permissions.Equal(want) {
		t.Errorf("effective %+v, want %s", e, want)
	}
	if !b.waitsFor("t1", writes("c5", "else/a")) || len(b.held()) != 1 {
		t.Error("what was for one call is held")
	}
}

func TestStrictTurnReviewsEvenWhatWouldSkip(t *testing.T) {
	asked := 0
	b := open(t, epoch(t, reviewed+"", ""), panel{"one/judge": judge(func(q reviewer.Question) approval.Verdict {
		asked++
		if q.Request.Kind == approval.KindPermissions {
			return approval.Verdict{Outcome: approval.VerdictUnsure}
		}
		return approval.Verdict{Outcome: approval.VerdictDeny, Rationale: "not in a strict turn"}
	})})
	b.session()
	b.turn("t2", b.environment("local"))
	b.give("t1", "g1", "local", permission.Response{Permissions: b.may(permission.Write, b.out()), StrictAutoReview: true})
	s, err := b.Describe(t.Context(), "s1", host)
	if err != nil || !s.Turns[0].Strict || s.Turns[1].Strict {
		t.Fatalf("%+v, %v", s.Turns, err)
	}
	asked = 0
	for _, spec := range []native.CallSpec{reads("c1", "main.go"), writes("c2", "out/a")} {
		if final := b.call("t1", spec); final.Outcome != approval.OutcomeDeny || !strings.Contains(final.Output, "not in a strict turn") {
			t.Errorf("%s: %+v", spec.ID, final)
		}
	}
	if asked != 2 {
		t.Errorf("the reviewer was asked %d times", asked)
	}
	if final := b.call("t2", reads("c3", "main.go")); final.Outcome != approval.OutcomeAllow || asked != 2 {
		t.Errorf("another turn is strict: %+v", final)
	}
}

func TestStrictTurnWithoutAReviewerAsksAPerson(t *testing.T) {
	b := open(t, epoch(t, manual, "\nallow contains \"make is fine\" if input.request.command.text == \"make\"\n"), nil)
	b.session()
	b.give("t1", "g1", "local", permission.Response{Permissions: b.may(permission.Write, b.out()), StrictAutoReview: true})
	for _, spec := range []native.CallSpec{reads("c1", "main.go"), writes("c2", "out/a"), command("c3", "make")} {
		if !b.waitsFor("t1", spec) {
			t.Errorf("%s needs nobody", spec.ID)
		}
	}
}

// A refusal can put the turn under review too.
func TestRefusalCanBeStrict(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.give3("g1", permission.Response{StrictAutoReview: true, Scope: permission.Turn})
	if !b.waitsFor("t1", reads("c1", "main.go")) {
		t.Error("the turn is not strict")
	}
	if len(b.held()) > 0 {
		t.Errorf("%+v", b.held())
	}
}

func (b *bench) give3(id string, response permission.Response) {
	b.Helper()
	b.begin("t1", request(id, network))
	b.grant(id, response)
	b.final(id)
}

func TestOnceIsUsedOnce(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.give("t1", "g1", "local", permission.Response{Permissions: b.may(permission.Write, b.out()), Scope: permission.Once})
	if final := b.call("t1", writes("c1", "out/a")); final.Outcome != approval.OutcomeAllow {
		t.Errorf("%+v", final)
	}
	if !b.waitsFor("t1", writes("c2", "out/a")) {
		t.Error("what was granted once is used twice")
	}
}

func TestCeilingOfNowLimitsWhatWasGrantedBefore(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.give("t1", "g1", "local", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
	b.workspace.Install(gate.Standing{Epoch: epoch(t, manual, "\nceiling := {\"file_system\": {\"write\": [\""+b.out()+"\"]}}\n")})
	final := b.call("t1", writes("c1", "out/a"))
	if final.Outcome != approval.OutcomeAllow || !final.Effective.Permissions.Equal(b.may(permission.Write, b.out())) {
		t.Errorf("%+v", final)
	}
	if !b.waitsFor("t1", writes("c2", "else/a")) {
		t.Error("a grant outlives the ceiling")
	}
}

func TestDeniesOutrankGrants(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.give("t1", "g1", "local", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
	b.workspace.Install(gate.Standing{Epoch: epoch(t, manual, "\ndeny contains \"frozen\" if some p in input.facts.paths.write\n")})
	if final := b.call("t1", writes("c1", "out/a")); final.Outcome != approval.OutcomeDeny || !strings.Contains(final.Output, "frozen") {
		t.Errorf("%+v", final)
	}
}

// Acceptances for the session.

func TestAcceptedForTheSession(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.turn("t2", b.environment("local"), b.environment("other"))
	b.begin("t1", command("c1", "npm test"))
	if r := b.waits("c1"); !slices.ContainsFunc(r.Options, func(o json.RawMessage) bool { return string(o) == `"allow_for_session"` }) {
		t.Fatalf("options %s", r.Options)
	}
	b.answer("c1", `"allow_for_session"`)
	if final := b.final("c1"); final.Outcome != approval.OutcomeAllow {
		t.Fatalf("%+v", final)
	}
	final := b.call("t2", command("c2", `npm  'test'`))
	if final.Outcome != approval.OutcomeAllow || final.Answer.Record.Decision.Source != approval.SourceGrant {
		t.Errorf("another spelling of it: %+v", final)
	}
	other := "other"
	elsewhere := command("c3", "npm test")
	elsewhere.Environment = &other
	for _, spec := range []native.CallSpec{command("c4", "npm test x"), command("c5", "npm publish"), command("c6", "npm test > out"), elsewhere} {
		if !b.waitsFor("t2", spec) {
			t.Errorf("%s is accepted too", spec.ID)
		}
	}
	held := b.Grants(local, "").Accepted
	if len(held) != 1 || held[0].By != "user:sam" || held[0].Call != "c1" {
		t.Fatalf("%+v", held)
	}
	if err := b.Revoke(local, held[0].ID); err != nil {
		t.Fatal(err)
	}
	if !b.waitsFor("t2", command("c7", "npm test")) {
		t.Error("a revoked acceptance counts")
	}
}

func TestAcceptanceEndsWithTheRulesAndTheSession(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.begin("t1", command("c1", "npm test"))
	b.answer("c1", `"allow_for_session"`)
	b.final("c1")
	b.workspace.Install(gate.Standing{Epoch: epoch(t, manual, "\n# other rules\n")})
	if !b.waitsFor("t1", command("c2", "npm test")) {
		t.Error("an acceptance outlives its rules")
	}
}

func TestWhatCannotBeReadIsNotOfferedForTheSession(t *testing.T) {
	b := open(t, epoch(t, manual, "\nask contains {\"message\": \"each time\", \"scope\": \"once\"} if input.request.command.text == \"npm test\"\n"), nil)
	b.session()
	escalated := command("e", "npm install")
	escalated.Sandbox = native.SandboxEscalated
	specs := []native.CallSpec{
		command("a", "npm test"), command("b", "eval \"$X\""), command("c", "sh build.sh"), command("d", "python3 -c 'print(1)'"), escalated,
		command("f", "env git status"),
		{ID: "g", Tool: &approval.Tool{Name: "apply_patch", Arguments: json.RawMessage(`{"patch":"no patch at all"}`)}},
		{ID: "h", Tool: &approval.Tool{Name: "unheard_of", Arguments: json.RawMessage(`{"a":1}`)}},
		request("i", network),
	}
	for _, spec := range specs {
		b.begin("t1", spec)
		for _, o := range b.waits(spec.ID).Options {
			if m, _ := approval.OptionMeaning(o); m.Outcome == approval.OutcomeAllow && m.Scope != permission.Once {
				t.Errorf("%s offers %s", spec.ID, o)
			}
		}
	}
}

// Exact actions.

func TestApprovalIsUsedOnceAndForTheSameAction(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.begin("t1", command("c1", "npm test"))
	b.answer("c1", `"allow"`)
	final := b.final("c1")
	r := final.Answer.Record
	ctx := t.Context()
	if _, err := b.gate.Fence(ctx, r.ID, "s1", host, strings.Repeat("0", 64)); !errors.Is(err, approval.ErrDigest) {
		t.Errorf("another action: %v", err)
	}
	if _, err := b.gate.Fence(ctx, r.ID, "s1", "host-2", r.Digest); !errors.Is(err, approval.ErrInstance) {
		t.Errorf("another host: %v", err)
	}
	if _, err := b.gate.Fence(ctx, r.ID, "s1", host, r.Digest); err != nil {
		t.Errorf("the action itself: %v", err)
	}
	if _, err := b.gate.Fence(ctx, r.ID, "s1", host, r.Digest); !errors.Is(err, approval.ErrUsed) {
		t.Errorf("once more: %v", err)
	}
}

// Whoever ended the turn wanted nothing more of it to start.
func TestNothingStartsInATurnThatIsOver(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.begin("t1", command("c1", "npm test"))
	b.answer("c1", `"allow"`)
	r := b.final("c1").Answer.Record
	if _, err := b.EndTurn(t.Context(), "s1", host, "t1"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Fence(t.Context(), r.ID, "s1", host, r.Digest); !errors.Is(err, native.ErrOver) {
		t.Errorf("the fence: %v", err)
	}
	b.turn("t2", b.environment("local"))
	b.begin("t2", command("c2", "npm test"))
	b.answer("c2", `"allow"`)
	r = b.final("c2").Answer.Record
	if _, err := b.Fence(t.Context(), r.ID, "s1", "host-2", r.Digest); !errors.Is(err, approval.ErrInstance) {
		t.Errorf("another host: %v", err)
	}
	if _, err := b.Fence(t.Context(), r.ID, "s1", host, r.Digest); err != nil {
		t.Errorf("a turn that is open: %v", err)
	}
}

// A script that is changed while its approval waits is not what was approved.
func TestScriptThatChangedDoesNotRun(t *testing.T) {
	for _, text := range []string{"sh build.sh", "./build.sh fast", "cd . && bash -x build.sh"} {
		t.Run(text, func(t *testing.T) {
			b := open(t, epoch(t, manual, ""), nil)
			b.session()
			script := filepath.Join(b.dir, "build.sh")
			put := func(text string) {
				if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			put("echo build")
			b.begin("t1", command("c1", text))
			r := b.waits("c1")
			if len(r.Operands) != 1 || r.Operands[0].Path != script || len(r.Operands[0].SHA256) != 64 {
				t.Fatalf("operands %+v", r.Operands)
			}
			put("rm -rf /")
			b.answer("c1", `"allow"`)
			b.final("c1")
			if _, err := b.gate.Fence(t.Context(), r.ID, "s1", host, r.Digest); !errors.Is(err, gate.ErrOperand) || !strings.Contains(err.Error(), script) {
				t.Errorf("the changed script: %v", err)
			}
			put("echo build")
			if _, err := b.gate.Fence(t.Context(), r.ID, "s1", host, r.Digest); err != nil {
				t.Errorf("the script that was shown: %v", err)
			}
		})
	}
}

// The rules of a run.

func TestCallsRunUnderTheRulesOfNow(t *testing.T) {
	first := epoch(t, manual, "")
	b := open(t, first, nil)
	b.session()
	b.call("t1", reads("c1", "x"))
	b.call("t1", reads("c2", "x"))
	s, _ := b.Describe(t.Context(), "s1", host)
	if s.Epoch != first.ID || s.Changes != 0 {
		t.Errorf("%s after %d changes", s.Epoch, s.Changes)
	}
	second := epoch(t, manual, "\n# other rules\n")
	b.workspace.Install(gate.Standing{Epoch: second})
	b.call("t1", reads("c3", "x"))
	if s, _ = b.Describe(t.Context(), "s1", host); s.Epoch != second.ID || s.Changes != 1 {
		t.Errorf("%s after %d changes", s.Epoch, s.Changes)
	}
}

// The lives of sessions.

func TestSessionsBelongToTheirHost(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	ctx := t.Context()
	_, err := b.Describe(ctx, "s1", "host-2")
	errs := []error{err, b.End("s1", "host-2"), b.Start(ctx, "s1", "host-2", "t1", reads("c1", "x"))}
	_, err = b.OpenTurn(ctx, "s1", "host-2", native.TurnSpec{ID: "t2"})
	errs = append(errs, err)
	for i, err := range errs {
		if !errors.Is(err, native.ErrNoSession) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := b.Open(ctx, native.SessionSpec{ID: "s1", Instance: "host-2"}); !errors.Is(err, native.ErrExists) {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := b.OpenTurn(ctx, "s1", host, native.TurnSpec{ID: "t1"}); !errors.Is(err, native.ErrExists) {
		t.Errorf("a turn opened twice: %v", err)
	}
	b.call("t1", reads("c1", "x"))
	if err := b.Start(ctx, "s1", host, "t1", reads("c1", "y")); !errors.Is(err, native.ErrExists) {
		t.Errorf("a call made twice: %v", err)
	}
	for _, by := range []gate.Principal{{ID: "user:sam", Role: gate.RoleMember}, {ID: "user:lee", Role: gate.RoleObserver}, local} {
		if got := b.List(by); len(got) != 1 {
			t.Errorf("%s sees %d sessions", by.ID, len(got))
		}
	}
	if got := b.List(gate.Principal{ID: "user:kim", Role: gate.RoleMember}); len(got) != 0 {
		t.Errorf("a stranger sees %+v", got)
	}
}

func TestHostThatIsGoneTakesItsSessionsAlong(t *testing.T) {
	e := epoch(t, manual, "")
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e, nil)
		b.session()
		b.give("t1", "g1", "local", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
		time.Sleep(25 * time.Second)
		if _, err := b.Describe(t.Context(), "s1", host); err != nil {
			t.Fatalf("after 25 s: %v", err)
		}
		time.Sleep(45 * time.Second)
		if _, err := b.Describe(t.Context(), "s1", host); err == nil {
			t.Error("a dead host has a session")
		}
		if held := b.Grants(local, ""); len(held.Grants) > 0 {
			t.Errorf("%+v", held)
		}
	})
}

func TestCallThatWaitsExpires(t *testing.T) {
	e := epoch(t, "permissions: {mode: manual, request_timeout_seconds: 60}\n", "")
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e, nil)
		b.session()
		begin := time.Now()
		b.begin("t1", request("c1", network))
		final := b.call("t1", command("c2", "make"))
		if waited := time.Since(begin).Round(100 * time.Millisecond); waited != 60*time.Second || final.Outcome != approval.OutcomeDeny {
			t.Errorf("after %s: %+v", waited, final)
		}
		if final := b.final("c1"); final.Output != `{"permissions":{},"scope":"turn"}` {
			t.Errorf("%+v", final)
		}
	})
}

func TestCancelAtEveryStage(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	ctx := t.Context()
	// Before anybody was asked, or just then.
	b.begin("t1", request("c1", network))
	if one, err := b.Cancel(ctx, "s1", host, "c1", ""); err != nil || one.Final.Fault != native.FaultCancelled {
		t.Errorf("%+v, %v", one, err)
	}
	// While it waits.
	b.begin("t1", request("c2", network))
	e := b.event("c2")
	one, err := b.Cancel(ctx, "s1", host, "c2", "changed my mind")
	if err != nil || one.Final.Output != "request_permissions was cancelled before receiving a response" {
		t.Errorf("%+v, %v", one, err)
	}
	if r, _ := b.db.Read(ctx, e.Record); r.State != approval.Cancelled {
		t.Errorf("state %s", r.State)
	}
	// When it is over.
	b.begin("t1", request("c3", network))
	b.grant("c3", permission.Response{Permissions: permission.Everything()})
	b.final("c3")
	if one, err := b.Cancel(ctx, "s1", host, "c3", ""); !errors.Is(err, native.ErrTold) || one.Final.Response == nil {
		t.Errorf("%+v, %v", one, err)
	}
	if g := b.held(); len(g) != 1 || g[0].Call != "c3" {
		t.Errorf("grants %+v", g)
	}
	if s, _ := b.Describe(ctx, "s1", host); len(s.Pending) > 0 {
		t.Errorf("pending %+v", s.Pending)
	}
}

// What became of a call can be read for as long as it is remembered.
func TestSessionRemembersSoManyCalls(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	const remembered = 1024
	for i := range remembered + 2 {
		b.call("t1", reads(fmt.Sprintf("c%d", i), "main.go"))
	}
	if _, err := b.Await(t.Context(), "s1", host, "c1"); !errors.Is(err, native.ErrNoCall) {
		t.Errorf("an old call: %v", err)
	}
	if final := b.final("c2"); final.Outcome != approval.OutcomeAllow {
		t.Errorf("%+v", final)
	}
	if err := b.Start(t.Context(), "s1", host, "t1", reads("c2", "main.go")); !errors.Is(err, native.ErrExists) {
		t.Errorf("an id that is remembered: %v", err)
	}
}

func TestAnswerAndCancelAtOnce(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	for i := range 40 {
		id := "c" + string(rune('A'+i))
		b.begin("t1", request(id, network))
		b.event(id)
		done := make(chan error, 1)
		go func() { done <- b.respond(id, permission.Response{Permissions: permission.Everything()}) }()
		one, err := b.Cancel(t.Context(), "s1", host, id, "")
		<-done
		granted := slices.ContainsFunc(b.held(), func(g permission.Grant) bool { return g.Call == id })
		switch {
		case err == nil && (one.Final.Fault != native.FaultCancelled || granted):
			t.Errorf("cancelled, and %+v", one.Final)
		case errors.Is(err, native.ErrTold) && (one.Final.Response == nil || !granted):
			t.Errorf("too late to cancel, and %+v", one.Final)
		case err != nil && !errors.Is(err, native.ErrTold):
			t.Error(err)
		}
	}
}
