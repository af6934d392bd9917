package codex_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/codextest"
	"github.com/regent-policy/regent/harness/codex/scripted"
	"github.com/regent-policy/regent/harness/wire"
	"github.com/regent-policy/regent/reviewer"
)

// real is a real Codex with a scripted model, behind a proxy with a real gate and
// a real ledger.
type real struct {
	*testing.T
	model     *scripted.Server
	gate      *gate.Gate
	workspace *gate.Workspace
	client    *codextest.Client
	cwd       string
	process   *codex.Process
	panel     map[string]reviewer.Reviewer
}

// setting is what a test needs that is not the usual.
type setting struct {
	options codex.Options
	epoch   *gate.Epoch
	config  codextest.Config
	answer  func(codextest.Frame) any
	// capabilities are what the client promises.
	capabilities []string
}

// versions runs a test on every version of Codex.
func versions(t *testing.T, test func(t *testing.T, binary string)) {
	for _, version := range codextest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, codextest.Binary(t, version))
		})
	}
}

func startReal(t *testing.T, binary string, s setting) *real {
	t.Helper()
	r := &real{T: t, panel: map[string]reviewer.Reviewer{}}
	var err error
	if r.model, err = scripted.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.model.Close)
	s.config.URL = r.model.URL()
	home, cwd := codextest.Home(t, s.config)
	r.cwd = cwd
	db, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.workspace = gate.NewWorkspace("/w", gate.Standing{Epoch: s.epoch})
	open := func(_ *gate.Epoch, name string) (reviewer.Reviewer, error) {
		if one, ok := r.panel[name]; ok {
			return one, nil
		}
		return nil, errors.New("nobody is called " + name)
	}
	if r.gate, _, err = gate.New(t.Context(), gate.Parts{Ledger: db, Workspaces: always{r.workspace}, Reviewers: open}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.gate.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	program := codex.Program{Path: binary, Dir: cwd, Env: codextest.Env(home)}
	if r.process, err = program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.process.Close() })
	proxy := &codex.Proxy{Asker: r.gate, Options: s.options}
	ours, theirs := harness.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- proxy.Connect(context.Background(), theirs, r.process.Conn()) }()
	t.Cleanup(func() {
		_ = ours.Close()
		if err := <-ended; err != nil {
			t.Errorf("the connection: %v", err)
		}
	})
	r.client = codextest.NewClient(t, ours, s.answer, s.capabilities...)
	return r
}

// turn begins a turn in a thread of its own.
func (r *real) turn(prompt string, steps ...scripted.Step) (thread, turn string) {
	r.Helper()
	r.model.Script(prompt, steps...)
	thread = r.client.Thread(r.cwd, nil)
	return thread, r.client.Turn(thread, prompt)
}

// waits is the record that a call waits for.
func (r *real) waits(thread, call string) approval.Record { return r.record(thread, call, pending) }

func (r *real) record(thread, call string, fits func(*approval.Record) bool) approval.Record {
	r.Helper()
	return recordOf(r, r.gate, call, func(one *approval.Record) bool {
		return one.Request.Session.ID == thread && strings.Contains(one.Request.Session.CallID, call) && fits(one)
	})
}

func (r *real) decide(record approval.Record, option, reason string, grant *permission.Response) {
	r.Helper()
	_, err := r.gate.Answer(r.Context(), gate.Reply{
		ID: record.ID, Revision: record.Revision, Option: json.RawMessage(option), Reason: reason, Grant: grant, By: local,
	})
	if err != nil {
		r.Fatal(err)
	}
}

// out is a path outside the folder that Codex works in.
func (r *real) out(name string) string { return filepath.Join(codextest.Outside(r.cwd), name) }

// ran tells whether a command that makes a file has run.
func (r *real) ran(name string) bool {
	_, err := os.Stat(r.out(name))
	return err == nil
}

func (r *real) ends(thread, turn, want string) {
	r.Helper()
	if status := r.client.Ends(thread, turn); status != want {
		r.Errorf("the turn is %s, want %s", status, want)
	}
}

// told is what the model was told of a call in the end.
func (r *real) told(prompt, call string) string {
	requests := r.model.Requests(prompt)
	if len(requests) == 0 {
		return ""
	}
	return requests[len(requests)-1].Output(call)
}

// said tells whether a text was said to the model as the user's.
func (r *real) said(prompt, text string) bool {
	for _, request := range r.model.Requests(prompt) {
		for _, s := range request.Said() {
			if strings.Contains(s, text) {
				return true
			}
		}
	}
	return false
}

// nothingAsked fails where the client was asked what is Regent's to answer.
func (r *real) nothingAsked() {
	r.Helper()
	for _, method := range []string{"item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/permissions/requestApproval"} {
		if f := r.client.Frames(method); len(f) > 0 {
			r.Errorf("the client was asked: %s", f[0].Params)
		}
	}
}

const denials = `
import data.regent.lib.command

deny contains "touch nothing that is precious" if {
	some c in command.invocations("touch")
	some a in c.args
	contains(a, "precious")
}

deny contains "the vault is not for agents" if {
	some c in input.request.changes
	contains(c.path, "vault")
}

allow contains "made by rule" if {
	some c in command.invocations("touch")
	some a in c.args
	endswith(a, "ruled")
}
`

func TestRealCommand(t *testing.T) {
	e := epoch(t, manual, denials)
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{epoch: e})
		for _, tc := range []struct {
			name, option, status string
			runs                 bool
			told                 string
		}{
			{"accept", `"accept"`, "completed", true, "exited with code 0"},
			{"decline", `"decline"`, "completed", false, "rejected by user"},
			{"cancel", `"cancel"`, "interrupted", false, ""},
		} {
			t.Run(tc.name, func(t *testing.T) {
				prompt := "command " + tc.name
				thread, turn := r.turn(prompt, scripted.Say(scripted.Escalated("c-"+tc.name, "touch "+r.out(tc.name))))
				record := r.waits(thread, "c-"+tc.name)
				if !record.Request.Escalated || record.Request.Command.Text != "touch "+r.out(tc.name) || record.Request.Harness.Version == "" {
					t.Errorf("the request is %+v", record.Request)
				}
				if r.ran(tc.name) {
					t.Fatal("it has run before anybody answered")
				}
				r.decide(record, tc.option, "as the test says", nil)
				r.ends(thread, turn, tc.status)
				if r.ran(tc.name) != tc.runs {
					t.Errorf("it has run: %v", r.ran(tc.name))
				}
				if told := r.told(prompt, "c-"+tc.name); !strings.Contains(told, tc.told) {
					t.Errorf("the model is told %q, want %q", told, tc.told)
				}
				if r.said(prompt, "as the test says") != (tc.name == "decline") {
					t.Errorf("the model knows why: %v", r.said(prompt, "as the test says"))
				}
				done := r.record(thread, "c-"+tc.name, func(a *approval.Record) bool { return a.State == approval.Resolved })
				if done.Decision.Source != approval.SourceHuman {
					t.Errorf("decided by %+v", done.Decision)
				}
			})
		}
		t.Run("for the session", func(t *testing.T) {
			call := func(id string) scripted.Step { return scripted.Say(scripted.Escalated(id, "touch "+r.out("session"))) }
			thread, turn := r.turn("session", call("s1"), call("s2"))
			record := r.waits(thread, "s1")
			// Ordinary commands do not have it on offer, so nobody can choose it.
			_, err := r.gate.Answer(t.Context(), gate.Reply{ID: record.ID, Revision: record.Revision, Option: json.RawMessage(`"acceptForSession"`), By: local})
			if !errors.Is(err, approval.ErrNotOffered) {
				t.Errorf("what is not on offer: %v", err)
			}
			r.decide(record, `"accept"`, "", nil)
			r.decide(r.waits(thread, "s2"), `"decline"`, "", nil)
			r.ends(thread, turn, "completed")
		})
		t.Run("a rule of Codex's own that a person accepts", func(t *testing.T) {
			path := r.out("amended")
			thread, turn := r.turn("amend", scripted.Say(scripted.Escalated("a1", "touch "+path)), scripted.Say(scripted.Escalated("a2", "touch "+path)))
			record := r.waits(thread, "a1")
			var amendment string
			for _, o := range record.Options {
				if strings.Contains(string(o), "acceptWithExecpolicyAmendment") {
					amendment = string(o)
				}
			}
			r.decide(record, amendment, "", nil)
			r.ends(thread, turn, "completed") // the second is not asked about
			if !r.ran("amended") {
				t.Error("it has not run")
			}
		})
		t.Run("decided by rule", func(t *testing.T) {
			thread, turn := r.turn("rules", scripted.Say(scripted.Escalated("r1", "touch "+r.out("precious"))), scripted.Say(scripted.Escalated("r2", "touch "+r.out("ruled"))))
			r.ends(thread, turn, "completed")
			if r.ran("precious") || !r.ran("ruled") {
				t.Errorf("precious %v, ruled %v", r.ran("precious"), r.ran("ruled"))
			}
			if !r.said("rules", "touch nothing that is precious") {
				t.Error("the model does not know why")
			}
		})
		t.Run("two at once, answered in reverse", func(t *testing.T) {
			thread, turn := r.turn("two", scripted.Say(scripted.Escalated("t1", "touch "+r.out("first")), scripted.Escalated("t2", "touch "+r.out("second"))))
			first, second := r.waits(thread, "t1"), r.waits(thread, "t2")
			r.decide(second, `"accept"`, "", nil)
			r.decide(first, `"decline"`, "", nil)
			r.ends(thread, turn, "completed")
			if r.ran("first") || !r.ran("second") {
				t.Errorf("first %v, second %v", r.ran("first"), r.ran("second"))
			}
		})
		t.Run("with permissions on top of the sandbox", func(t *testing.T) {
			thread, turn := r.turn("more", scripted.Say(scripted.WithPermissions("m1", "touch "+r.out("more"), map[string]any{
				"file_system": map[string]any{"read": []any{}, "write": []any{codextest.Outside(r.cwd)}},
			})))
			record := r.waits(thread, "m1")
			if record.Request.Escalated || record.Request.Permissions == nil {
				t.Errorf("the request is %+v", record.Request)
			}
			r.decide(record, `"accept"`, "", nil)
			r.ends(thread, turn, "completed")
			if !r.ran("more") {
				t.Errorf("it has not run: %s", r.told("more", "m1"))
			}
		})
		t.Run("interrupted while it waits", func(t *testing.T) {
			thread, turn := r.turn("interrupt", scripted.Say(scripted.Escalated("i1", "touch "+r.out("interrupted"))))
			record := r.waits(thread, "i1")
			r.client.Interrupt(thread, turn)
			r.ends(thread, turn, "interrupted")
			over := r.record(thread, "i1", func(a *approval.Record) bool { return a.State != approval.Pending })
			if over.State != approval.Cancelled {
				t.Errorf("the record is %s", over.State)
			}
			_, err := r.gate.Answer(t.Context(), gate.Reply{ID: record.ID, Revision: record.Revision, Option: json.RawMessage(`"accept"`), By: local})
			if !errors.Is(err, approval.ErrConflict) {
				t.Errorf("a late answer: %v", err)
			}
			if r.ran("interrupted") {
				t.Error("it has run")
			}
		})
		t.Run("input of a terminal", func(t *testing.T) {
			types := func(from, call, text string) scripted.Step {
				return scripted.Look(func(q *scripted.Request) []scripted.Item {
					session, ok := q.Session(from)
					if !ok {
						return []scripted.Item{scripted.Message("there is no terminal: " + q.Output(from))}
					}
					return []scripted.Item{scripted.WriteStdin(call, session, text)}
				})
			}
			thread, turn := r.turn("terminal",
				scripted.Say(scripted.Terminal("w1", "while read line; do echo $line >> "+r.out("typed")+"; done", 250)),
				types("w1", "w2", "refused\n"), types("w1", "w3", "wanted\n"), types("w1", "w4", "\x04"),
			)
			r.decide(r.waits(thread, "w1"), `"accept"`, "", nil)
			record := r.waits(thread, "w2")
			if tool := record.Request.Tool; tool == nil || !strings.Contains(string(tool.Arguments), "refused") {
				t.Errorf("the request is %+v", record.Request)
			}
			r.decide(record, `"decline"`, "", nil)
			r.decide(r.waits(thread, "w3"), `"accept"`, "", nil)
			r.decide(r.waits(thread, "w4"), `"accept"`, "", nil)
			r.ends(thread, turn, "completed")
			if text, err := os.ReadFile(r.out("typed")); err != nil || string(text) != "wanted\n" {
				t.Errorf("what was typed is %q, %v", text, err)
			}
		})
		r.nothingAsked()
	})
}

func TestRealFileChange(t *testing.T) {
	e := epoch(t, manual, denials)
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{epoch: e})
		patch := func(id, name string) scripted.Step {
			return scripted.Say(scripted.Patch(id, "*** Begin Patch\n*** Add File: "+r.out(name)+"\n+hello\n*** End Patch\n"))
		}
		for _, tc := range []struct {
			name, option, status string
			runs                 bool
		}{
			{"accept", `"accept"`, "completed", true},
			{"decline", `"decline"`, "completed", false},
			{"cancel", `"cancel"`, "interrupted", false},
		} {
			t.Run(tc.name, func(t *testing.T) {
				thread, turn := r.turn("patch "+tc.name, patch("p-"+tc.name, tc.name+".txt"))
				record := r.waits(thread, "p-"+tc.name)
				if c := record.Request.Changes; len(c) != 1 || c[0].Path != r.out(tc.name+".txt") || c[0].Operation != "add" || c[0].Diff != "hello\n" {
					t.Errorf("the changes are %+v", c)
				}
				r.decide(record, tc.option, "", nil)
				r.ends(thread, turn, tc.status)
				if r.ran(tc.name+".txt") != tc.runs {
					t.Errorf("it is there: %v", r.ran(tc.name+".txt"))
				}
			})
		}
		t.Run("for the session", func(t *testing.T) {
			update := func(id string, from, to string) scripted.Step {
				return scripted.Say(scripted.Patch(id, "*** Begin Patch\n*** Update File: "+r.out("again.txt")+"\n@@\n-"+from+"\n+"+to+"\n*** End Patch\n"))
			}
			if err := os.WriteFile(r.out("again.txt"), []byte("one\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			thread, turn := r.turn("patch session", update("q1", "one", "two"), update("q2", "two", "three"), patch("q3", "other.txt"))
			r.decide(r.waits(thread, "q1"), `"acceptForSession"`, "", nil)
			r.decide(r.waits(thread, "q3"), `"decline"`, "", nil) // the same file is not asked about, another is
			r.ends(thread, turn, "completed")
			if text, err := os.ReadFile(r.out("again.txt")); err != nil || string(text) != "three\n" {
				t.Errorf("the file is %q, %v", text, err)
			}
		})
		t.Run("denied by rule", func(t *testing.T) {
			thread, turn := r.turn("vault", patch("v1", "vault.txt"))
			r.ends(thread, turn, "completed")
			if r.ran("vault.txt") || !r.said("vault", "the vault is not for agents") {
				t.Errorf("it is there: %v", r.ran("vault.txt"))
			}
		})
		r.nothingAsked()
	})
}

func TestRealPermissions(t *testing.T) {
	e := epoch(t, manual, "")
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{epoch: e})
		asked := map[string]any{"network": map[string]any{"enabled": true}, "file_system": map[string]any{"write": []any{codextest.Outside(r.cwd)}}}
		profile := func(text string) *permission.Response {
			var p permission.Profile
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatal(err)
			}
			return &permission.Response{Permissions: p}
		}
		writes := `{"file_system":{"write":["` + codextest.Outside(r.cwd) + `"]}}`
		strict := profile(`{"network":{"enabled":true}}`)
		strict.StrictAutoReview = true
		session := profile(writes)
		session.Scope = permission.Session
		for _, tc := range []struct {
			name, option string
			grant        *permission.Response
			told, not    string
		}{
			{"all of it", `"allow"`, nil, `"enabled":true`, "nothing"},
			{"a part of it", `"allow"`, profile(writes), codextest.Outside(r.cwd), `"enabled":true`},
			{"more than was asked for", `"allow"`, profile(`{"network":{"enabled":true},"file_system":{"write":["/"]}}`), `"enabled":true`, `"write":["/"]`},
			{"for the session", `"allow"`, session, `"scope":"session"`, `"enabled":true`},
			{"under strict review", `"allow"`, strict, `"strict_auto_review":true`, codextest.Outside(r.cwd)},
			{"none", `"deny"`, nil, `"network":null`, codextest.Outside(r.cwd)},
		} {
			t.Run(tc.name, func(t *testing.T) {
				prompt := "permissions " + tc.name
				thread, turn := r.turn(prompt, scripted.Say(scripted.Permissions("p1", asked)))
				r.decide(r.waits(thread, "p1"), tc.option, "", tc.grant)
				r.ends(thread, turn, "completed")
				told := r.told(prompt, "p1")
				if !strings.Contains(told, tc.told) || strings.Contains(told, tc.not) {
					t.Errorf("the model is told %s, want %s and not %s", told, tc.told, tc.not)
				}
			})
		}
		t.Run("the grant counts for the turn", func(t *testing.T) {
			thread, turn := r.turn("use", scripted.Say(scripted.Permissions("p1", asked)), scripted.Say(scripted.Exec("p2", "touch "+r.out("granted"))))
			r.decide(r.waits(thread, "p1"), `"allow"`, "", profile(writes))
			r.ends(thread, turn, "completed")
			if !r.ran("granted") {
				t.Errorf("it could not: %s", r.told("use", "p2"))
			}
		})
		t.Run("cancelled", func(t *testing.T) {
			thread, turn := r.turn("permissions cancel", scripted.Say(scripted.Permissions("p1", asked)))
			r.decide(r.waits(thread, "p1"), `"cancel"`, "", nil)
			r.ends(thread, turn, "interrupted")
		})
		r.nothingAsked()
	})
}

// Each later command of a strict turn goes to Codex's own guardian first.
func TestRealStrictReview(t *testing.T) {
	e := epoch(t, manual, "")
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{epoch: e})
		r.model.Review(`{"outcome":"deny","risk_level":"high","rationale":"not so"}`)
		thread, turn := r.turn("strict", scripted.Say(scripted.Permissions("p1", map[string]any{"network": map[string]any{"enabled": true}})), scripted.Say(scripted.Exec("p2", "touch reviewed")))
		var all permission.Profile
		if err := json.Unmarshal([]byte(`{"network":{"enabled":true}}`), &all); err != nil {
			t.Fatal(err)
		}
		r.decide(r.waits(thread, "p1"), `"allow"`, "", &permission.Response{Permissions: all, StrictAutoReview: true})
		r.ends(thread, turn, "completed")
		if _, err := os.Stat(filepath.Join(r.cwd, "reviewed")); err == nil {
			t.Error("it has run although the guardian denied it")
		}
	})
}

func TestRealAutomatic(t *testing.T) {
	e := epoch(t, automatic, denials)
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{epoch: e})
		thread, turn := r.turn("auto",
			scripted.Say(scripted.Escalated("a1", "touch "+r.out("auto"))),
			scripted.Say(scripted.Escalated("a2", "touch "+r.out("precious"))),
			scripted.Say(scripted.Patch("a3", "*** Begin Patch\n*** Add File: "+r.out("auto.txt")+"\n+x\n*** End Patch\n")),
			scripted.Say(scripted.Permissions("a4", map[string]any{"network": map[string]any{"enabled": true}})),
		)
		r.ends(thread, turn, "completed")
		if !r.ran("auto") || r.ran("precious") || !r.ran("auto.txt") {
			t.Errorf("auto %v, precious %v, patch %v", r.ran("auto"), r.ran("precious"), r.ran("auto.txt"))
		}
		if told := r.told("auto", "a4"); !strings.Contains(told, `"scope":"turn"`) || !strings.Contains(told, `"enabled":true`) {
			t.Errorf("the model is told %s", told)
		}
		for _, call := range []string{"a1", "a3"} {
			record := r.record(thread, call, func(a *approval.Record) bool { return a.Decision != nil })
			if string(record.Decision.Option) != `"accept"` || record.Decision.Source != approval.SourceAuto {
				t.Errorf("%s was answered with %s by %s", call, record.Decision.Option, record.Decision.Source)
			}
		}
		r.nothingAsked()
	})
}

func TestRealPolicyIsEditedWhileItWaits(t *testing.T) {
	before, after := epoch(t, manual, ""), epoch(t, manual, denials)
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{epoch: before})
		thread, turn := r.turn("edit", scripted.Say(scripted.Escalated("e1", "touch "+r.out("precious"))))
		r.waits(thread, "e1")
		r.workspace.Install(gate.Standing{Epoch: after})
		r.ends(thread, turn, "completed")
		if r.ran("precious") || !r.said("edit", "touch nothing that is precious") {
			t.Error("the new rule does not count")
		}
	})
}

// held is a reviewer that answers when it is let go.
type held struct {
	began chan struct{}
	letGo chan approval.Verdict
}

func (h *held) Review(ctx context.Context, _ reviewer.Question) approval.Verdict {
	close(h.began)
	select {
	case v := <-h.letGo:
		return v
	case <-ctx.Done():
		return approval.Verdict{Outcome: approval.VerdictTimeout}
	}
}

func TestRealReviewer(t *testing.T) {
	e := epoch(t, manual+"reviewers: {one/judge: {kind: model, provider: openai, model: small-model}}\n", `
review contains {"message": "a look at it", "reviewers": ["one/judge"]} if input.request.kind == "command"
`)
	versions(t, func(t *testing.T, binary string) {
		t.Run("denies", func(t *testing.T) {
			r := startReal(t, binary, setting{epoch: e})
			h := &held{make(chan struct{}), make(chan approval.Verdict, 1)}
			r.panel["one/judge"] = h
			thread, turn := r.turn("review", scripted.Say(scripted.Escalated("v1", "touch "+r.out("reviewed"))))
			<-h.began
			h.letGo <- approval.Verdict{Outcome: approval.VerdictDeny, Rationale: "do as I say"}
			r.ends(thread, turn, "completed")
			if r.ran("reviewed") {
				t.Error("it has run")
			}
			if r.said("review", "do as I say") || !r.said("review", "A reviewer denied this") {
				t.Error("the model is told what the reviewer wrote, or nothing")
			}
		})
		t.Run("is overtaken by a person", func(t *testing.T) {
			r := startReal(t, binary, setting{epoch: e})
			h := &held{make(chan struct{}), make(chan approval.Verdict, 1)}
			r.panel["one/judge"] = h
			thread, turn := r.turn("overtake", scripted.Say(scripted.Escalated("v2", "touch "+r.out("overtaken"))))
			<-h.began
			r.decide(r.waits(thread, "v2"), `"accept"`, "", nil)
			r.ends(thread, turn, "completed")
			if !r.ran("overtaken") {
				t.Error("it has not run")
			}
		})
	})
}

// When whoever decides is gone, nothing runs that waits.
func TestRealEndOfTheProxy(t *testing.T) {
	e := epoch(t, manual, "")
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{epoch: e})
		thread, _ := r.turn("end", scripted.Say(scripted.Escalated("x1", "touch "+r.out("gone"))))
		r.waits(thread, "x1")
		r.client.Close()
		over := r.record(thread, "x1", func(a *approval.Record) bool { return a.State != approval.Pending })
		if over.State != approval.Cancelled {
			t.Errorf("the record is %s", over.State)
		}
		_ = r.process.Close()
		if r.ran("gone") {
			t.Error("it has run")
		}
	})
}

// A client that goes leaves its question to whoever resumes the thread.
func TestRealResume(t *testing.T) {
	e := epoch(t, manual, "")
	versions(t, func(t *testing.T, binary string) {
		model, err := scripted.Listen()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(model.Close)
		home, cwd := codextest.Home(t, codextest.Config{URL: model.URL()})
		b := open(t, e)
		program := codex.Program{Path: binary, Dir: cwd, Env: codextest.Env(home)}
		server, err := program.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		clients, err := wire.Listen("ws://127.0.0.1:0", wire.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		proxy := &codex.Proxy{Asker: b.gate, Options: codex.Options{Silent: true}}
		ctx, end := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- proxy.Serve(ctx, clients, server) }()
		t.Cleanup(func() {
			end()
			if err := <-served; err != nil {
				t.Errorf("the proxy: %v", err)
			}
		})
		connect := func() *codextest.Client {
			t.Helper()
			conn, err := wire.Dial(t.Context(), clients.Address(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return codextest.NewClient(t, conn, nil)
		}
		path := filepath.Join(codextest.Outside(cwd), "resumed")
		model.Script("begin", scripted.Say(scripted.Message("begun")))
		model.Script("go on", scripted.Say(scripted.Escalated("n1", "touch "+path)))
		first := connect()
		thread := first.Thread(cwd, nil)
		first.Ends(thread, first.Turn(thread, "begin")) // 0.156.1 resumes no thread in its first turn
		turn := first.Turn(thread, "go on")
		card := b.record("n1", pending)

		// A second client of the thread is no second question.
		second := connect()
		second.Call("thread/resume", map[string]any{"threadId": thread}, nil)
		first.Close()
		again := b.record("n1", func(r *approval.Record) bool { return pending(r) && r.ID != card.ID })
		if over := b.record("n1", func(r *approval.Record) bool { return r.ID == card.ID }); over.State != approval.Cancelled {
			t.Errorf("the first record is %s", over.State)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("it has run before anybody answered")
		}
		if _, err := b.gate.Answer(t.Context(), gate.Reply{ID: again.ID, Revision: again.Revision, Option: json.RawMessage(`"accept"`), By: local}); err != nil {
			t.Fatal(err)
		}
		if status := second.Ends(thread, turn); status != "completed" {
			t.Errorf("the turn is %s", status)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("it has not run: %v", err)
		}
	})
}
