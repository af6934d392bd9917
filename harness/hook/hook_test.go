package hook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/hook"
	"github.com/regent-policy/regent/harness/hook/client"
	"github.com/regent-policy/regent/rego/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden requests anew")

// says is a gate that answers each question as its function does, and remembers
// what it was asked.
type says struct {
	answer func(r *approval.Request) (gate.Answer, error)

	asked, vetoed []*approval.Request
	questions     []gate.Question
	asks          []bool
	sent          []gate.Answer
	unsent        []error
}

func (g *says) Ask(_ context.Context, q gate.Question) (gate.Answer, error) {
	g.asked, g.questions = append(g.asked, q.Request), append(g.questions, q)
	return g.answer(q.Request)
}

func (g *says) Veto(_ context.Context, q gate.Question, asks bool) (gate.Answer, error) {
	g.vetoed, g.questions, g.asks = append(g.vetoed, q.Request), append(g.questions, q), append(g.asks, asks)
	return g.answer(q.Request)
}

func (g *says) Sent(a gate.Answer)                { g.sent = append(g.sent, a) }
func (g *says) Unsent(_ gate.Answer, cause error) { g.unsent = append(g.unsent, cause) }

func call(onAsk client.OnAsk, payload string) client.Call {
	return client.Call{Version: 1, Dialect: client.Codex, OnAsk: onAsk, Cwd: "/w", WaitMS: 7700, Payload: json.RawMessage(payload)}
}

func event(name, tool, input string) string {
	return fmt.Sprintf(`{"session_id":"s1","turn_id":"t1","tool_use_id":"c1","cwd":"/w","hook_event_name":%q,"tool_name":%q,"tool_input":%s}`, name, tool, input)
}

// read is what the gate is asked about a payload by one that says nothing.
func read(tb testing.TB, payload string) ([]*approval.Request, client.Answer) {
	tb.Helper()
	g := &says{answer: func(*approval.Request) (gate.Answer, error) { return gate.Answer{}, nil }}
	answer, told := hook.Rule(context.Background(), g, call(client.Pass, payload))
	told(nil)
	return g.vetoed, answer
}

// TestRecordedPayloads: what hook processes of Codex got on stdin becomes the
// requests beside it, which a person has read.
func TestRecordedPayloads(t *testing.T) {
	for _, version := range []string{"0.156.1", "0.171.0"} {
		t.Run(version, func(t *testing.T) {
			recorded, err := os.ReadFile(filepath.Join("testdata", version+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			e := json.NewEncoder(&out)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			for line := range strings.Lines(string(recorded)) {
				requests, answer := read(t, line)
				if len(requests) == 0 || answer != (client.Answer{Version: client.Version}) {
					t.Errorf("%s is answered %+v, want no objection", line, answer)
				}
				if err := e.Encode(requests); err != nil {
					t.Fatal(err)
				}
			}
			golden := filepath.Join("testdata", version+".requests.json")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("the requests are (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallsOfTools(t *testing.T) {
	tool := func(name, arguments string) *approval.Request {
		r := &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: name}}
		if arguments != "" {
			r.Tool.Arguments = json.RawMessage(arguments)
		}
		return r
	}
	mcp := func(server, name string) *approval.Request {
		return &approval.Request{Kind: approval.KindMCP, Tool: &approval.Tool{Server: server, Name: name, Arguments: json.RawMessage(`{}`)}}
	}
	human := func(r *approval.Request) *approval.Request {
		r.HumanOnly = true
		return r
	}
	var many []*approval.Request
	for i := range 16 {
		many = append(many, mcp(strings.Repeat("a__", i)+"a", strings.Repeat("a__", 19-i)+"a"))
	}
	for _, test := range []struct {
		name, tool, input string
		want              []*approval.Request
	}{
		{
			"a script", "Bash", `{"command":"ls | wc"}`,
			[]*approval.Request{{Kind: approval.KindCommand, Command: &approval.Command{Shell: "bash", Text: "ls | wc"}}},
		},
		{
			"the model's reason, and members of later releases", "Bash", `{"command":"ls","description":"look","later":1}`,
			[]*approval.Request{{Kind: approval.KindCommand, Command: &approval.Command{Shell: "bash", Text: "ls"}, Reason: "look"}},
		},
		{"a script that is none", "Bash", `{"command":["ls"]}`, []*approval.Request{tool("Bash", `{"command":["ls"]}`)}},
		{"no script", "Bash", `{}`, []*approval.Request{tool("Bash", `{}`)}},
		{"an empty script", "Bash", `{"command":""}`, []*approval.Request{tool("Bash", `{"command":""}`)}},
		{"a patch that is not understood changes nobody knows what", "apply_patch", `{"command":"rm"}`, []*approval.Request{{Kind: approval.KindFileChange}}},
		{"a patch that is no text", "apply_patch", `{"command":7}`, []*approval.Request{tool("apply_patch", `{"command":7}`)}},
		{"a tool of a server", "mcp__lab__delete_all", `{}`, []*approval.Request{mcp("lab", "delete_all")}},
		{
			"a name that can be split in two ways", "mcp__a__b__c", `{}`,
			[]*approval.Request{mcp("a", "b__c"), mcp("a__b", "c"), tool("mcp__a__b__c", `{}`)},
		},
		{
			"underscores side by side", "mcp__a___b", `{}`,
			[]*approval.Request{mcp("a", "_b"), mcp("a_", "b"), tool("mcp__a___b", `{}`)},
		},
		{"no server", "mcp__a", `{}`, []*approval.Request{tool("mcp__a", `{}`)}},
		{"an empty server", "mcp____a", `{}`, []*approval.Request{tool("mcp____a", `{}`)}},
		{"a name of too many ways", "mcp__" + strings.Repeat("a__", 20) + "a", `{}`, append(many, human(tool("mcp__"+strings.Repeat("a__", 20)+"a", `{}`)))},
		{"permissions that cannot be read", "request_permissions", `{"permissions":{"root":true}}`, []*approval.Request{tool("request_permissions", `{"permissions":{"root":true}}`)}},
		{"permissions that are missing", "request_permissions", `{}`, []*approval.Request{tool("request_permissions", `{}`)}},
		{"any other tool", "view_image", `{"path":"x.png"}`, []*approval.Request{tool("view_image", `{"path":"x.png"}`)}},
		{"a tool without arguments", "update_plan", `null`, []*approval.Request{tool("update_plan", `null`)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{client.PreToolUse, client.PermissionRequest} {
				got, answer := read(t, event(name, test.tool, test.input))
				for _, r := range test.want {
					r.Harness, r.Environment = &approval.Harness{Name: "codex"}, &approval.Environment{Cwd: "/w"}
					r.Session = &approval.Session{ID: "s1", TurnID: "t1", CallID: "c1"}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s is asked as (-want +got):\n%s", name, diff)
				}
				if answer != (client.Answer{Version: 1}) {
					t.Errorf("the answer is %+v, want no objection", answer)
				}
			}
		})
	}
}

func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		payload, event, why string
	}{
		"an event that is not known":          {event("BeforeTool", "Bash", `{"command":"ls"}`), "", "the event \"BeforeTool\" of Codex is not known"},
		"an event of the daemon's no concern": {event("Stop", "", `{}`), "", "not known"},
		"no tool":                             {event("PreToolUse", "", `{}`), "PreToolUse", "no tool is named"},
		"a tool that is no text":              {`{"hook_event_name":"PreToolUse","tool_name":7}`, "PreToolUse", "cannot be read"},
		"a name that is given twice":          {`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","command":"rm"}}`, "PreToolUse", "cannot be read"},
		"a tool that is given twice":          {`{"hook_event_name":"PermissionRequest","tool_name":"Bash","tool_name":"x"}`, "PermissionRequest", "cannot be read"},
		"text that is no UTF-8":               {"{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"\xff\"}}", "PreToolUse", "cannot be read"},
		"arguments that are no object":        {event("PreToolUse", "Bash", `["ls"]`), "PreToolUse", "cannot be judged"},
		"no JSON":                             {"x", "", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			requests, answer := read(t, test.payload)
			if len(requests) > 0 {
				t.Errorf("the gate is asked about %+v", requests)
			}
			if want := client.Codex.Deny(test.event, ""); answer.Exit != want.Exit || !strings.Contains(answer.Stdout+answer.Stderr, strings.ReplaceAll(test.why, `"`, quote(answer))) {
				t.Errorf("the answer is %+v, want a refusal: %s", answer, test.why)
			}
			if test.event != "" && !strings.Contains(answer.Stdout, `"hookEventName":"`+test.event+`"`) {
				t.Errorf("the answer is %s, want one to %s", answer.Stdout, test.event)
			}
		})
	}
}

// quote is how a quotation mark stands in an answer.
func quote(a client.Answer) string {
	if a.Stdout != "" {
		return `\"`
	}
	return `"`
}

func deniedBy(messages ...string) gate.Answer {
	a := gate.Answer{Outcome: approval.OutcomeDeny, Ruling: approval.Ruling{Route: approval.RouteDeny}, Record: &approval.Record{}}
	for _, m := range messages {
		a.Ruling.Rules = append(a.Ruling.Rules, approval.Match{Decision: "deny", Message: m}, approval.Match{Decision: "ask", Message: "not this"})
	}
	if len(messages) > 0 {
		a.Reason = messages[0]
	}
	return a
}

func ruled(route approval.Route) gate.Answer {
	return gate.Answer{Ruling: approval.Ruling{Route: route}}
}

func answered(outcome approval.Outcome, source approval.Source, reason string) gate.Answer {
	return gate.Answer{
		Outcome: outcome, Reason: reason, Ruling: approval.Ruling{Route: approval.RouteAsk, Rules: []approval.Match{{Decision: "deny", Message: "not this"}}},
		Record: &approval.Record{Decision: &approval.Decision{Source: source}},
	}
}

func TestAnswersInTheDialectOfCodex(t *testing.T) {
	for _, test := range []struct {
		name   string
		onAsk  client.OnAsk
		answer gate.Answer
		err    error
		asked  bool
		asks   bool
		// why is what the model is told; "" is no objection.
		why string
	}{
		{name: "policy denies", onAsk: client.Pass, answer: deniedBy("no rm"), why: "no rm"},
		{name: "several rules deny", onAsk: client.Pass, answer: deniedBy("no rm", "no rm", "not here"), why: "no rm; not here"},
		{name: "a denial without words", onAsk: client.Pass, answer: deniedBy(), why: "denied by policy"},
		{name: "skip", onAsk: client.Pass, answer: ruled(approval.RouteSkip)},
		{name: "allow", onAsk: client.Pass, answer: ruled(approval.RouteAllow)},
		{name: "ask passes", onAsk: client.Pass, answer: ruled(approval.RouteAsk)},
		{name: "review passes", onAsk: client.Pass, answer: ruled(approval.RouteReview)},
		{name: "deny refuses what is asked", onAsk: client.Deny, answer: deniedBy("somebody would have to be asked"), asks: true, why: "somebody would have to be asked"},
		{name: "deny lets pass what is allowed", onAsk: client.Deny, answer: ruled(approval.RouteAllow), asks: true},
		{name: "deny refuses what is left open", onAsk: client.Deny, answer: ruled(approval.RouteAsk), asks: true, why: "regent: nobody has decided this"},
		{name: "a person allows", onAsk: client.Wait, answer: answered(approval.OutcomeAllow, approval.SourceHuman, "fine"), asked: true},
		{name: "a person refuses with a reason", onAsk: client.Wait, answer: answered(approval.OutcomeDeny, approval.SourceHuman, "not today"), asked: true, why: "not today"},
		{name: "a person refuses without one", onAsk: client.Wait, answer: answered(approval.OutcomeDeny, approval.SourceHuman, ""), asked: true, why: "a person refused this"},
		{name: "a person cancels", onAsk: client.Wait, answer: answered(approval.OutcomeCancel, approval.SourceHuman, "stop"), asked: true, why: "stop"},
		{name: "what is skipped is not waited for", onAsk: client.Wait, answer: gate.Answer{Outcome: approval.OutcomeAllow, Ruling: approval.Ruling{Route: approval.RouteSkip}}, asked: true},
		{name: "an answer that is none", onAsk: client.Wait, answer: ruled(approval.RouteAsk), asked: true, why: "regent: nobody has decided this"},
		{name: "the ledger fails", onAsk: client.Pass, err: errors.New("disk full"), why: "regent: disk full"},
		{name: "the ledger fails while one waits", onAsk: client.Wait, err: errors.New("disk full"), asked: true, why: "regent: disk full"},
	} {
		for _, name := range []string{client.PreToolUse, client.PermissionRequest} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				g := &says{answer: func(*approval.Request) (gate.Answer, error) { return test.answer, test.err }}
				got, told := hook.Rule(t.Context(), g, call(test.onAsk, event(name, "Bash", `{"command":"rm x"}`)))
				want := client.Answer{Version: client.Version}
				if test.why != "" {
					want = client.Codex.Deny(name, test.why)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the answer is (-want +got):\n%s", diff)
				}
				if (len(g.asked) == 1) != test.asked || (len(g.vetoed) == 1) == test.asked || slices.Contains(g.asks, !test.asks) {
					t.Errorf("asked %d, vetoed %d with %v; want asked %t with %t", len(g.asked), len(g.vetoed), g.asks, test.asked, test.asks)
				}
				if q := g.questions[0]; q.Folder != "/w" || q.Within != 7700*time.Millisecond || q.Workspace != "" {
					t.Errorf("the question is %+v, want the folder and the time of the hook", q)
				}
				told(nil)
				if recorded := test.answer.Record != nil && test.err == nil; (len(g.sent) == 1) != recorded || len(g.unsent) != 0 {
					t.Errorf("%d were told as sent, want %t", len(g.sent), recorded)
				}
			})
		}
	}
}

func TestAnAnswerThatWasNotWrittenIsNotSent(t *testing.T) {
	g := &says{answer: func(*approval.Request) (gate.Answer, error) { return deniedBy("no"), nil }}
	_, told := hook.Rule(t.Context(), g, call(client.Pass, event("PreToolUse", "Bash", `{"command":"rm x"}`)))
	broken := errors.New("broken pipe")
	told(broken)
	if len(g.sent) != 0 || len(g.unsent) != 1 || !errors.Is(g.unsent[0], broken) {
		t.Errorf("sent %v, unsent %v; want the error", g.sent, g.unsent)
	}
}

func TestAnyMeaningOfANameCanBeRefused(t *testing.T) {
	for server, refused := range map[string]bool{"a": true, "a__b": true, "c": false} {
		for _, onAsk := range []client.OnAsk{client.Pass, client.Wait, client.Deny} {
			g := &says{answer: func(r *approval.Request) (gate.Answer, error) {
				if r.Tool.Server == server {
					return deniedBy("not this server"), nil
				}
				if onAsk == client.Wait && r.Kind == approval.KindTool {
					return gate.Answer{Outcome: approval.OutcomeAllow}, nil
				}
				return ruled(approval.RouteAllow), nil
			}}
			answer, _ := hook.Rule(t.Context(), g, call(onAsk, event("PreToolUse", "mcp__a__b__c", `{}`)))
			if got := answer.Stdout != ""; got != refused {
				t.Errorf("a rule against %s with %s: %+v, want refused %t", server, onAsk, answer, refused)
			}
		}
	}
}

// patient waits for as long as it may.
type patient struct{ says }

func (*patient) Ask(ctx context.Context, _ gate.Question) (gate.Answer, error) {
	<-ctx.Done()
	return gate.Answer{}, context.Cause(ctx)
}

func TestTheTimeOfTheHookIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		answer, _ := hook.Rule(t.Context(), &patient{}, call(client.Wait, event("PreToolUse", "Bash", `{"command":"rm x"}`)))
		if took := time.Since(began); took != 7700*time.Millisecond || !strings.Contains(answer.Stdout, "nobody answered before the hook had to") {
			t.Errorf("after %s the answer is %+v, want a refusal in time", took, answer)
		}
	})
}

func TestCallsAreDecodedStrictly(t *testing.T) {
	good := `{"version":1,"dialect":"codex","on_ask":"pass","agent_pid":7,"cwd":"/w","wait_ms":10,"payload":{"hook_event_name":"PreToolUse"}}`
	if _, err := hook.Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, next, why string }{
		"another version":        {`"version":1`, `"version":2`, "version 2"},
		"a later call":           {`"version":1`, `"version":2,"more":true`, "version 2"},
		"a member more":          {`"version":1`, `"version":1,"more":true`, "unknown"},
		"a member twice":         {`"version":1`, `"version":1,"version":1`, "duplicate"},
		"no version":             {`"version":1,`, ``, "version 0"},
		"another harness":        {`"codex"`, `"claude"`, "claude"},
		"another way":            {`"pass"`, `"allow"`, "allow"},
		"no way":                 {`"on_ask":"pass",`, ``, "on_ask"},
		"no time":                {`"wait_ms":10`, `"wait_ms":0`, "wait_ms 0"},
		"time without end":       {`"wait_ms":10`, `"wait_ms":9223372036854775807`, "wait_ms"},
		"a process that is none": {`7`, `-7`, "agent_pid -7"},
		"half of it":             {`}}`, ``, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := hook.Decode([]byte(strings.Replace(good, test.old, test.next, 1)))
			if !errors.Is(err, hook.ErrCall) || !strings.Contains(err.Error(), test.why) {
				t.Fatalf("the error is %v, want one with %q", err, test.why)
			}
			if a := hook.Refuse(c, err); a.Exit == 0 && a.Stdout == "" {
				t.Errorf("the answer is %+v, want a refusal", a)
			}
		})
	}
}

func patch(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func TestPatches(t *testing.T) {
	for _, test := range []struct {
		name, patch string
		want        []approval.Change
	}{
		{
			"each operation, with what stands below it",
			patch("*** Begin Patch", "*** Add File: a/new.txt", "+one", "+*** Delete File: no", "*** Update File: /o/b.txt", "*** Move to: ../c.txt", "@@ f", "-one", "+two", " three", "*** End of File", "*** Delete File: ~/d", "*** End Patch"),
			[]approval.Change{
				{Path: "/w/a/new.txt", Operation: "add", Diff: "+one\n+*** Delete File: no\n"},
				{Path: "/o/b.txt", Operation: "update", MovePath: "/w/../c.txt", Diff: "@@ f\n-one\n+two\n three\n*** End of File\n"},
				{Path: "/w/~/d", Operation: "delete"},
			},
		},
		{
			"a file twice is two changes",
			patch("*** Begin Patch", "*** Update File: a", "@@", "+x", "*** Update File: a", "*** Move to: b", "@@", "+y", "*** End Patch"),
			[]approval.Change{{Path: "/w/a", Operation: "update", Diff: "@@\n+x\n"}, {Path: "/w/a", Operation: "update", MovePath: "/w/b", Diff: "@@\n+y\n"}},
		},
		{"lines that end as on other systems", "*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n", []approval.Change{{Path: "/w/a", Operation: "add", Diff: "+x\n"}}},
		{"no end", patch("*** Begin Patch", "*** Add File: a", "+x"), nil},
		{"no file", patch("*** Begin Patch", "*** End Patch"), nil},
		{"text behind the end", patch("*** Begin Patch", "*** Add File: a", "+x", "*** End Patch", "*** Add File: b"), nil},
		{"a header that is indented", patch("*** Begin Patch", "*** Add File: a", "+x", "  *** Delete File: b", "*** End Patch"), nil},
		{"a header that is not known", patch("*** Begin Patch", "*** Copy File: a", "*** End Patch"), nil},
		{"a move of nothing", patch("*** Begin Patch", "*** Add File: a", "*** Move to: b", "*** End Patch"), nil},
		{"a file without a name", patch("*** Begin Patch", "*** Add File: ", "+x", "*** End Patch"), nil},
		{"a name with space around it", patch("*** Begin Patch", "*** Add File: a ", "+x", "*** End Patch"), nil},
		{"a unified diff", patch("--- a/x", "+++ b/x", "@@ -1 +1 @@", "-a", "+b"), nil},
		{"a heredoc", patch("apply_patch <<'EOF'", "*** Begin Patch", "*** Add File: a", "+x", "*** End Patch", "EOF"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			input, err := json.Marshal(map[string]string{"command": test.patch})
			if err != nil {
				t.Fatal(err)
			}
			requests, _ := read(t, event("PreToolUse", "apply_patch", string(input)))
			if len(requests) != 1 || requests[0].Kind != approval.KindFileChange {
				t.Fatalf("the gate is asked about %+v, want a change of files", requests)
			}
			if diff := cmp.Diff(test.want, requests[0].Changes); diff != "" {
				t.Errorf("the changes are (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatchesAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		patch string
		want  int
	}{
		"a long one has its paths": {patch("*** Begin Patch", "*** Add File: a", "+"+strings.Repeat("x", 1<<20), "*** End Patch"), 1},
		"one of very many changes": {"*** Begin Patch\n" + strings.Repeat("*** Delete File: a\n", 5000) + "*** End Patch\n", 0},
	} {
		input, err := json.Marshal(map[string]string{"command": test.patch})
		if err != nil {
			t.Fatal(err)
		}
		requests, _ := read(t, event("PreToolUse", "apply_patch", string(input)))
		if got := requests[0].Changes; len(got) != test.want || len(got) > 0 && got[0].Diff != "" {
			t.Errorf("%s has %d changes, want %d without text", name, len(got), test.want)
		}
	}
}

// FuzzPayload: with a gate that denies everything, no payload lets a call run.
func FuzzPayload(f *testing.F) {
	for _, version := range []string{"0.156.1", "0.171.0"} {
		recorded, err := os.ReadFile(filepath.Join("testdata", version+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(recorded)) {
			f.Add(line)
		}
	}
	f.Add(event("PreToolUse", "mcp__a__b__c", "{}"))
	f.Add(event("Stop", "", "null"))
	f.Fuzz(func(t *testing.T, payload string) {
		g := &says{answer: func(r *approval.Request) (gate.Answer, error) {
			if err := r.Validate(); err != nil {
				t.Fatalf("the gate is asked about what is no request: %v", err)
			}
			return deniedBy("no"), nil
		}}
		answer, told := hook.Rule(t.Context(), g, call(client.Pass, payload))
		told(nil)
		if answer.Exit == 0 && !strings.Contains(answer.Stdout, `"deny"`) || answer.Exit == 2 && answer.Stderr == "" {
			t.Fatalf("the answer is %+v", answer)
		}
		if answer.Exit != 0 && answer.Exit != 2 {
			t.Fatalf("code %d", answer.Exit)
		}
	})
}

// FuzzPatch: changes are told for all paths that a strict reader finds, or not at
// all.
func FuzzPatch(f *testing.F) {
	f.Add(patch("*** Begin Patch", "*** Add File: a", "+x", "*** Update File: b", "*** Move to: c", "@@", " y", "*** End Patch"))
	f.Add(patch("*** Begin Patch", "*** Delete File: a", "*** End Patch"))
	f.Add("*** Begin Patch\r\n*** Update File: b\r\n@@\r\n\r\n*** End of File\r\n*** End Patch")
	f.Fuzz(func(t *testing.T, text string) {
		input, err := json.Marshal(map[string]string{"command": text})
		if err != nil {
			t.Fatal(err)
		}
		requests, _ := read(t, event("PreToolUse", "apply_patch", string(input)))
		if len(requests) != 1 {
			t.Fatalf("the gate is asked about %d requests", len(requests))
		}
		// What JSON cannot say has been replaced by then.
		want, err := catalog.PatchPaths(strings.ToValidUTF8(text, "\uFFFD"))
		changes := requests[0].Changes
		if err != nil && changes != nil {
			t.Fatalf("changes %+v of a patch that is not understood: %v", changes, err)
		}
		if changes == nil {
			return
		}
		var got []string
		for _, c := range changes {
			for _, p := range []string{c.Path, c.MovePath} {
				if p = strings.TrimPrefix(p, "/w/"); p != "" && !slices.Contains(got, p) {
					got = append(got, p)
				}
			}
		}
		for i := range want {
			want[i] = strings.TrimPrefix(want[i], "/w/")
		}
		slices.Sort(want)
		want = slices.Compact(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the paths are (-want +got):\n%s", diff)
		}
	})
}
