package codex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/codextest"
)

var local = gate.Principal{ID: "user:sam", Role: gate.RoleLocal}

// always is a place whose calls all belong to one workspace.
type always struct{ workspace *gate.Workspace }

func (a always) Of(context.Context, gate.Question) *gate.Workspace { return a.workspace }
func (a always) Home() *gate.Workspace                             { return a.workspace }

// How the home is configured.
const (
	manual    = "permissions: {mode: manual, harness_mode: manual}\n"
	automatic = "permissions: {mode: manual, harness_mode: auto_allow}\n"
)

// epoch compiles a home with settings and rules.
func epoch(tb testing.TB, settings, rules string) *gate.Epoch {
	tb.Helper()
	home := tb.TempDir()
	for name, text := range map[string]string{
		"config.yaml":       "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n" + settings,
		"policies/one.rego": "package home.rules.one\n\nimport rego.v1\n" + rules,
	} {
		at := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			tb.Fatal(err)
		}
	}
	e, err := gate.Load(tb.Context(), gate.Options{Home: home})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// bench is a connection to a server that the test plays, behind a proxy with a
// real gate and a real ledger.
type bench struct {
	testing.TB
	gate           *gate.Gate
	client, server harness.Conn
	queue          []string
	ended          chan error
}

func open(tb testing.TB, e *gate.Epoch) *bench {
	tb.Helper()
	db, err := ledger.Open(tb.Context(), filepath.Join(tb.TempDir(), "l.db"), ledger.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{TB: tb, ended: make(chan error, 1)}
	places := always{gate.NewWorkspace("/w", gate.Standing{Epoch: e})}
	if b.gate, _, err = gate.New(tb.Context(), gate.Parts{Ledger: db, Workspaces: places}); err != nil {
		tb.Fatal(err)
	}
	var client, server harness.Conn
	b.client, client = harness.Pipe()
	b.server, server = harness.Pipe()
	proxy := &codex.Proxy{Asker: b.gate, Options: codex.Options{Silent: true}}
	go func() { b.ended <- proxy.Connect(context.Background(), client, server) }()
	tb.Cleanup(func() {
		b.hangUp()
		report, err := db.Verify(context.Background())
		if err != nil || len(report.Faults) > 0 {
			tb.Errorf("verify: %+v, %v", report, err)
		}
		if err := errors.Join(b.gate.Close(), db.Close()); err != nil {
			tb.Error(err)
		}
	})
	return b
}

func (b *bench) hangUp() {
	_ = b.server.Close()
	if b.ended != nil {
		if err := <-b.ended; err != nil {
			b.Errorf("the connection: %v", err)
		}
		b.ended = nil
	}
}

// asks is the server that sends messages in one piece.
func (b *bench) asks(messages ...string) {
	b.Helper()
	var raw [][]byte
	for _, m := range messages {
		raw = append(raw, []byte(m))
	}
	if err := b.server.Write(raw...); err != nil {
		b.Fatal(err)
	}
}

// told is the next message to the server.
func (b *bench) told() string {
	b.Helper()
	for len(b.queue) == 0 {
		messages, err := b.server.Read()
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range messages {
			b.queue = append(b.queue, string(m))
		}
	}
	m := b.queue[0]
	b.queue = b.queue[1:]
	return m
}

func (b *bench) tells(want string) {
	b.Helper()
	if diff := cmp.Diff(want, b.told()); diff != "" {
		b.Errorf("the server is told (-want +got):\n%s", diff)
	}
}

// record waits for the newest record of a call that fits.
func (b *bench) record(call string, fits func(*approval.Record) bool) approval.Record {
	b.Helper()
	return recordOf(b, b.gate, call, func(r *approval.Record) bool {
		return r.Request.Session.CallID == call && fits(r)
	})
}

// recordOf waits for the newest record of a session that fits. what names it where
// it does not come.
func recordOf(tb testing.TB, g *gate.Gate, what string, fits func(*approval.Record) bool) approval.Record {
	tb.Helper()
	late := time.NewTimer(codextest.Patience)
	defer late.Stop()
	for {
		changed := g.Feed().Changed()
		page, err := g.List(tb.Context(), local, approval.Query{})
		if err != nil {
			tb.Fatal(err)
		}
		for i := range page.Records {
			if r := &page.Records[i]; r.Request.Session != nil && fits(r) {
				return *r
			}
		}
		select {
		case <-changed:
		case <-late.C:
			tb.Fatalf("no record of %s came in %s", what, codextest.Patience)
		case <-tb.Context().Done():
			tb.Fatalf("no record of %s: the test is over", what)
		}
	}
}

func pending(r *approval.Record) bool { return r.State == approval.Pending }

func (b *bench) answer(call, option string, grant *permission.Response) error {
	b.Helper()
	r := b.record(call, pending)
	_, err := b.gate.Answer(b.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: json.RawMessage(option), Grant: grant, By: local})
	return err
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// run is a question about a command; id is JSON.
func run(id, turn, call, available string) string {
	return fmt.Sprintf(`{"id":%s,"method":"item/commandExecution/requestApproval","params":{"kind":"command","threadId":"t","turnId":%q,"itemId":%q,"command":"/bin/bash -lc 'make x'","cwd":"/w","availableDecisions":%s}}`, id, turn, call, available)
}

const offered = `["accept","cancel"]`

// TestFailuresOfOthers has what went wrong in other systems on the wire of Codex.
// The names are those of the case corpus.
func TestFailuresOfOthers(t *testing.T) {
	people, nobody := epoch(t, manual, ""), epoch(t, automatic, "")
	for name, test := range map[string]struct {
		epoch *gate.Epoch
		run   func(*bench)
	}{
		"PRO-01 answer shape for a permissions request":       {people, answerShapes},
		"PRO-02 narrowed answer is thrown away":               {people, narrowedAnswer},
		"PRO-03 item id used instead of the request id":       {people, requestIDs},
		"PRO-04 request after the turn has ended":             {nobody, afterTheTurn},
		"PRO-05 card outlives the process that asked":         {people, cardOutlives},
		"PRO-06 decision that was not on offer":               {people, notOnOffer},
		"PRO-07 session scope together with strict review":    {people, strictSession},
		"PRO-08 unknown request from the server":              {nobody, unknownRequest},
		"PRO-09 session approval key collapses to a constant": {people, sessionKey},
	} {
		t.Run(name, func(t *testing.T) { test.run(open(t, test.epoch)) })
	}
}

// A request for permissions is answered with permissions, never with a word.
func answerShapes(b *bench) {
	ask := func(id, call string) string {
		return `{"id":` + id + `,"method":"item/permissions/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"` + call + `","cwd":"/w","permissions":{"network":{"enabled":true}}}}`
	}
	b.asks(ask("7", "c1"))
	b.must(b.answer("c1", `"allow"`, nil))
	b.tells(`{"id":7,"result":{"permissions":{"network":{"enabled":true}},"scope":"turn"}}`)
	b.asks(ask("8", "c2"))
	b.must(b.answer("c2", `"deny"`, nil))
	b.tells(`{"id":8,"result":{"permissions":{},"scope":"turn"}}`)
}

// What a person cut away stays away.
func narrowedAnswer(b *bench) {
	b.asks(`{"id":0,"method":"item/permissions/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"c1","cwd":"/w","permissions":{"network":{"enabled":true},"fileSystem":{"write":["/w/app"]}}}}`)
	var cut permission.Profile
	b.must(json.Unmarshal([]byte(`{"file_system":{"write":["/w/app"]}}`), &cut))
	b.must(b.answer("c1", `"allow"`, &permission.Response{Permissions: cut}))
	b.tells(`{"id":0,"result":{"permissions":{"fileSystem":{"entries":[{"path":{"type":"path","path":"/w/app"},"access":"write"}],"write":["/w/app"]}},"scope":"turn"}}`)
}

// Two requests about one item are two, and 12 is not "12".
func requestIDs(b *bench) {
	b.asks(run(`"srv-12"`, "u", "call_A", offered), run(`12`, "u", "call_A", offered), run(`"12"`, "u", "call_A", offered))
	b.record("call_A", func(*approval.Record) bool {
		page, err := b.gate.List(b.Context(), local, approval.Query{States: []approval.State{approval.Pending}})
		return err == nil && len(page.Records) == 3
	})
	b.asks(`{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":"srv-12"}}`, `{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":"12"}}`)
	b.record("call_A", func(*approval.Record) bool {
		page, err := b.gate.List(b.Context(), local, approval.Query{States: []approval.State{approval.Pending}})
		return err == nil && len(page.Records) == 1
	})
	b.must(b.answer("call_A", `"accept"`, nil))
	b.tells(`{"id":12,"result":{"decision":"accept"}}`)
}

// A request that comes in one piece with the end of its turn is never accepted.
func afterTheTurn(b *bench) {
	b.asks(run(`30`, "t1", "c30", offered), `{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"t1","status":"completed"}}}`, run(`31`, "t1", "c31", offered))
	for {
		answer := b.told()
		if strings.HasPrefix(answer, `{"id":31,`) {
			if answer != `{"id":31,"result":{"decision":"decline"}}` {
				b.Errorf("the server is told %s", answer)
			}
			break
		}
	}
	if r := b.record("c31", func(r *approval.Record) bool { return r.State != approval.Pending }); r.State != approval.Cancelled {
		b.Errorf("the record is %s", r.State)
	}
}

// When the connection is gone its card is closed with a reason, and a press on it
// does nothing.
func cardOutlives(b *bench) {
	b.asks(run(`9`, "u", "c9", offered))
	card := b.record("c9", pending)
	b.hangUp()
	now := b.record("c9", func(r *approval.Record) bool { return r.State != approval.Pending })
	if now.State != approval.Cancelled || now.Closing == nil || now.Closing.Reason == "" {
		b.Errorf("the card is %s, %+v", now.State, now.Closing)
	}
	_, err := b.gate.Answer(b.Context(), gate.Reply{ID: card.ID, Revision: card.Revision, Option: json.RawMessage(`"accept"`), By: local})
	if !errors.Is(err, approval.ErrConflict) {
		b.Errorf("a press on it: %v", err)
	}
}

// Only what was offered can be the answer.
func notOnOffer(b *bench) {
	b.asks(run(`4`, "u", "c4", `["accept","decline"]`))
	if err := b.answer("c4", `"acceptForSession"`, nil); !errors.Is(err, approval.ErrNotOffered) {
		b.Errorf("for the session: %v", err)
	}
	b.must(b.answer("c4", `"decline"`, nil))
	b.tells(`{"id":4,"result":{"decision":"decline"}}`)
}

// A contradiction grants nothing.
func strictSession(b *bench) {
	b.asks(`{"id":5,"method":"item/permissions/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"c5","cwd":"/w","permissions":{"network":{"enabled":true}}}}`)
	var all permission.Profile
	b.must(json.Unmarshal([]byte(`{"network":{"enabled":true}}`), &all))
	b.must(b.answer("c5", `"allow"`, &permission.Response{Permissions: all, Scope: permission.Session, StrictAutoReview: true}))
	b.tells(`{"id":5,"result":{"permissions":{},"scope":"turn"}}`)
}

// What is no approval goes to the client's own user, in every mode.
func unknownRequest(b *bench) {
	for _, m := range []string{
		`{"id":55,"method":"mcpServer/elicitation/request","params":{"message":"allow tool?"}}`,
		`{"id":56,"method":"item/ritual/requestApproval","params":{}}`,
	} {
		b.asks(m)
		got, err := b.client.Read()
		if err != nil || len(got) != 1 || string(got[0]) != m {
			b.Fatalf("the client gets %q, %v", got, err)
		}
	}
	// One of a kind that is known, in a way that is not, is for a person.
	b.asks(`{"id":57,"method":"item/commandExecution/requestApproval","params":{"kind":"ritual","threadId":"t","turnId":"u","itemId":"c57","command":"ls"}}`)
	r := b.record("c57", pending)
	if !r.Request.HumanOnly || len(r.Ruling.Reasons) == 0 || !strings.Contains(r.Ruling.Reasons[0], `kind "ritual" is not known`) {
		b.Errorf("the record is %+v, %q", r.Request, r.Ruling.Reasons)
	}
	b.must(b.answer("c57", `"deny"`, nil))
	b.tells(`{"id":57,"result":{"decision":"decline"}}`)
}

// To accept one patch for the session says nothing of another file: Codex
// remembers by the files that its own executor has parsed, and what it asks again
// is asked again.
func sessionKey(b *bench) {
	patch := func(id, path string) []string {
		return []string{
			`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange","id":"p` + id + `","changes":[{"path":"` + path + `","kind":{"type":"update","move_path":null},"diff":"@@ -1 +1 @@\n-x\n+y\n"}]}}}`,
			`{"id":` + id + `,"method":"item/fileChange/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"p` + id + `"}}`,
		}
	}
	b.asks(patch("1", "/w/a.txt")...)
	b.must(b.answer("p1", `"acceptForSession"`, nil))
	b.tells(`{"id":1,"result":{"decision":"acceptForSession"}}`)
	b.asks(patch("2", "/w/auth.go")...)
	if r := b.record("p2", pending); len(r.Request.Changes) != 1 || r.Request.Changes[0].Path != "/w/auth.go" {
		b.Errorf("asked with %+v", r.Request.Changes)
	}
}
