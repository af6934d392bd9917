package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/reviewer"
)

func TestMain(m *testing.M) {
	if hook := os.Getenv(hookSwitch); hook != "" {
		playHook(hook)
		return
	}
	goleak.VerifyTestMain(m)
}

var local = gate.Principal{ID: "user:sam", Role: gate.RoleLocal}

// always is a place whose calls all belong to one workspace.
type always struct{ workspace *gate.Workspace }

func (a always) Of(context.Context, gate.Question) *gate.Workspace { return a.workspace }
func (a always) Home() *gate.Workspace                             { return a.workspace }

// bench is the sessions of native hosts on a real gate and a real ledger.
type bench struct {
	testing.TB
	*native.Sessions
	gate      *gate.Gate
	db        *ledger.DB
	path      string
	workspace *gate.Workspace
	panel     panel
	// dir is the folder that calls run in.
	dir string
}

// panel is the reviewers of a test, by name.
type panel map[string]reviewer.Reviewer

func (p panel) open(_ *gate.Epoch, name string) (reviewer.Reviewer, error) {
	if one, ok := p[name]; ok {
		return one, nil
	}
	return nil, errors.New("nobody is called " + name)
}

// judge is a reviewer that answers with what it is made of.
type judge func(q reviewer.Question) approval.Verdict

func (j judge) Review(_ context.Context, q reviewer.Question) approval.Verdict { return j(q) }

// epoch compiles rules for a home.
func epoch(t testing.TB, settings, rules string) *gate.Epoch {
	t.Helper()
	home := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml":       "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n" + settings,
		"policies/one.rego": "package home.rules.one\n\nimport rego.v1\n" + rules,
	} {
		at := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := gate.Load(t.Context(), gate.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const (
	manual   = "permissions: {mode: manual}\n"
	reviewed = "permissions: {mode: model_review, reviewer_model: one/judge}\n" +
		"reviewers:\n  one/judge: {kind: model, provider: openai, model: small-model}\n"
)

func open(t testing.TB, e *gate.Epoch, p panel) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		TB: t, path: filepath.Join(t.TempDir(), "l.db"), dir: dir, panel: p,
		workspace: gate.NewWorkspace("/w", gate.Standing{Epoch: e}),
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *bench) start() {
	b.Helper()
	var err error
	if b.db, err = ledger.Open(b.Context(), b.path, ledger.Options{}); err != nil {
		b.Fatal(err)
	}
	places := always{b.workspace}
	if b.gate, _, err = gate.New(b.Context(), gate.Parts{Ledger: b.db, Workspaces: places, Reviewers: b.panel.open}); err != nil {
		b.Fatal(err)
	}
	b.Sessions = native.New(native.Parts{Gate: b.gate, Workspaces: places})
}

func (b *bench) stop() {
	b.Sessions.Close()
	if err := errors.Join(b.gate.Close(), b.db.Close()); err != nil {
		b.Error(err)
	}
}

const host = "host-1"

// session opens a session with one turn, which has one environment.
func (b *bench) session() {
	b.Helper()
	if _, err := b.Open(b.Context(), native.SessionSpec{ID: "s1", Instance: host, Members: []string{"user:sam"}}); err != nil {
		b.Fatal(err)
	}
	b.turn("t1", b.environment("local"))
}

func (b *bench) environment(id string) native.Environment {
	return native.Environment{Environment: approval.Environment{ID: id, Cwd: b.dir}}
}

func (b *bench) turn(id string, environments ...native.Environment) {
	b.Helper()
	if _, err := b.OpenTurn(b.Context(), "s1", host, native.TurnSpec{ID: id, Environments: environments}); err != nil {
		b.Fatal(err)
	}
}

// request is a call of request_permissions with arguments.
func request(id, arguments string) native.CallSpec {
	return native.CallSpec{ID: id, Tool: &approval.Tool{Name: native.ToolName, Arguments: json.RawMessage(arguments)}}
}

// command is a call that runs shell text.
func command(id, text string) native.CallSpec {
	return native.CallSpec{ID: id, Command: &approval.Command{Text: text}}
}

func (b *bench) begin(turn string, spec native.CallSpec) {
	b.Helper()
	if err := b.Start(b.Context(), "s1", host, turn, spec); err != nil {
		b.Fatal(err)
	}
}

// final is the final answer of a call.
func (b *bench) final(id string) native.Final {
	b.Helper()
	one, err := b.Await(b.Context(), "s1", host, id)
	if err != nil {
		b.Fatal(err)
	}
	if one.Final == nil {
		b.Fatalf("call %s has no final answer", id)
	}
	b.Told(one)
	return *one.Final
}

func (b *bench) call(turn string, spec native.CallSpec) native.Final {
	b.Helper()
	b.begin(turn, spec)
	return b.final(spec.ID)
}

// waits is the record that a call waits for.
func (b *bench) waits(id string) approval.Record {
	b.Helper()
	for {
		changed := b.gate.Feed().Changed()
		page, err := b.gate.List(b.Context(), local, approval.Query{States: []approval.State{approval.Pending}})
		if err != nil {
			b.Fatal(err)
		}
		for i := range page.Records {
			r := &page.Records[i]
			if s := r.Request.Session; s != nil && s.CallID == id && r.Ruling.Route == approval.RouteAsk {
				return *r
			}
		}
		select {
		case <-changed:
		case <-b.Context().Done():
			b.Fatalf("call %s never waited", id)
		}
	}
}

// event is what a client sees of a request that waits.
func (b *bench) event(id string) native.Event {
	b.Helper()
	b.waits(id)
	one, err := b.Reach(b.Context(), "s1", host, id)
	if err != nil || one.Event == nil {
		b.Fatalf("call %s has no event: %+v, %v", id, one, err)
	}
	return *one.Event
}

func (b *bench) answer(id, option string) {
	b.Helper()
	r := b.waits(id)
	reply := gate.Reply{ID: r.ID, Revision: r.Revision, Option: json.RawMessage(option), By: local}
	if _, err := b.gate.Answer(b.Context(), reply); err != nil {
		b.Fatal(err)
	}
}

// respond answers a request for permissions by its call.
func (b *bench) respond(id string, response permission.Response) error {
	b.Helper()
	_, err := b.Respond(b.Context(), native.Response{Session: "s1", Call: id, Response: response, By: local})
	return err
}

func (b *bench) grant(id string, response permission.Response) {
	b.Helper()
	b.event(id)
	if err := b.respond(id, response); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) records() []approval.Record {
	b.Helper()
	page, err := b.gate.List(b.Context(), local, approval.Query{})
	if err != nil {
		b.Fatal(err)
	}
	return page.Records
}

func (b *bench) held() []permission.Grant {
	return b.Grants(local, "s1").Grants
}

// profile reads a profile.
func profile(t testing.TB, text string) permission.Profile {
	t.Helper()
	var p permission.Profile
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
