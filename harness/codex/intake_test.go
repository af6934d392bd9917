package codex_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/codex"
)

var update = flag.Bool("update", false, "write the golden requests anew")

// asked is a question in the golden files.
type asked struct {
	ID      json.RawMessage   `json:"id"`
	Method  string            `json:"method"`
	Request *approval.Request `json:"request"`
	Problem string            `json:"problem,omitempty"`
}

func questions(tb testing.TB, in *codex.Intake, messages ...string) []asked {
	tb.Helper()
	out := []asked{}
	for _, m := range messages {
		q, err := in.Message([]byte(m))
		if err != nil {
			tb.Fatalf("Message(%s): %v", m, err)
		}
		if q != nil {
			out = append(out, asked{json.RawMessage(q.ID), q.Method, q.Request, q.Problem})
		}
	}
	return out
}

func lines(tb testing.TB, name string) []string {
	tb.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		out = append(out, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}

func indented(tb testing.TB, v any) []byte {
	tb.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// Every recorded approval becomes the request in testdata/requests, which a
// person has read.
func TestRecordedFrames(t *testing.T) {
	names, err := filepath.Glob("testdata/frames/*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 90 {
		t.Fatalf("%d recordings, want 90 or more", len(names))
	}
	for _, name := range names {
		version := filepath.Base(filepath.Dir(name))
		golden := strings.Replace(strings.TrimSuffix(name, "l"), "/frames/", "/requests/", 1)
		t.Run(version+" "+strings.TrimSuffix(filepath.Base(name), ".jsonl"), func(t *testing.T) {
			frames := lines(t, name)
			got := questions(t, new(codex.Intake), frames...)
			for _, q := range got {
				if err := q.Request.Validate(); err != nil {
					t.Errorf("request %s: %v", q.ID, err)
				}
				if q.Request.Harness.Name != "codex" {
					t.Errorf("harness %q", q.Request.Harness.Name)
				}
			}
			text := indented(t, got)
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}

			// A live connection has no wrapper, and says the same.
			var bare []string
			for _, line := range frames {
				var c struct {
					Dir   string          `json:"dir"`
					Frame json.RawMessage `json:"frame"`
				}
				if err := json.Unmarshal([]byte(line), &c); err != nil {
					t.Fatal(err)
				}
				if c.Dir == "s2c" {
					bare = append(bare, string(c.Frame))
				}
			}
			live := indented(t, questions(t, new(codex.Intake), bare...))
			if diff := cmp.Diff(string(text), string(live)); diff != "" {
				t.Errorf("requests without the wrapper (-wrapped +bare):\n%s", diff)
			}
		})
	}
}

// The recordings hold every kind of question that was ever seen.
func TestRecordingsCoverTheProtocol(t *testing.T) {
	names, err := filepath.Glob("testdata/frames/*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, name := range names {
		for _, q := range questions(t, new(codex.Intake), lines(t, name)...) {
			seen[fmt.Sprintf("%s %s human=%v", q.Method, q.Request.Kind, q.Request.HumanOnly)]++
		}
	}
	for _, want := range []string{
		"item/commandExecution/requestApproval command human=false",
		"item/commandExecution/requestApproval command human=true",
		"item/commandExecution/requestApproval network human=false",
		"item/commandExecution/requestApproval tool human=false",
		"item/fileChange/requestApproval file_change human=false",
		"item/permissions/requestApproval permissions human=false",
		"item/tool/call tool human=true",
		"item/tool/requestUserInput tool human=true",
		"mcpServer/elicitation/request mcp human=false",
		"mcpServer/elicitation/request tool human=true",
	} {
		if seen[want] == 0 {
			t.Errorf("no recording of %s", want)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("recordings of something else: %v", seen)
	}
}

// ask wraps parameters into a request of the server.
func ask(method, params string) string {
	return `{"id":7,"method":"` + method + `","params":` + params + `}`
}

const (
	command     = "item/commandExecution/requestApproval"
	file        = "item/fileChange/requestApproval"
	permissions = "item/permissions/requestApproval"
	elicitation = "mcpServer/elicitation/request"
)

func one(t *testing.T, messages ...string) asked {
	t.Helper()
	got := questions(t, new(codex.Intake), messages...)
	if len(got) != 1 {
		t.Fatalf("%d questions, want 1", len(got))
	}
	return got[0]
}

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		name, line  string
		shell, text string
	}{
		{"a login shell and its script", `/bin/bash -lc 'ls | wc -l'`, "bash", "ls | wc -l"},
		{"a shell and its script", `/bin/bash -c ls`, "bash", "ls"},
		{"zsh", `/bin/zsh -lc 'print x'`, "zsh", "print x"},
		{"sh by name", `sh -c 'ls'`, "sh", "ls"},
		{"double quotes", `/bin/bash -lc "it's \"a\" \$x \\ \d"`, "bash", `it's "a" $x \ \d`},
		{"quotes side by side", `/bin/bash -lc 'it'"'"'s'`, "bash", "it's"},
		{"backslashes", `/bin/bash -lc a\ b\'c`, "bash", "a b'c"},
		{"a script of several lines", "/bin/bash -lc 'a\nb'", "bash", "a\nb"},
		{"an option more", `/bin/bash -l -c ls`, "bash", `/bin/bash -l -c ls`},
		{"another option", `/bin/bash -ic ls`, "bash", `/bin/bash -ic ls`},
		{"a word more, which would be $0", `/bin/bash -lc ls x`, "bash", `/bin/bash -lc ls x`},
		{"no script", `/bin/bash -lc`, "bash", `/bin/bash -lc`},
		{"an empty script", `/bin/bash -lc ''`, "bash", `/bin/bash -lc ''`},
		{"a shell of somebody's own", `/tmp/bash -lc ls`, "bash", `/tmp/bash -lc ls`},
		{"a shell in the working folder", `./bash -lc ls`, "bash", `./bash -lc ls`},
		{"a shell that is not known", `/usr/bin/fish -c ls`, "bash", `/usr/bin/fish -c ls`},
		{"no shell", `rm -rf x`, "bash", `rm -rf x`},
		{"a line that is not quoted whole", `/bin/bash -lc ls; rm x`, "bash", `/bin/bash -lc ls; rm x`},
		{"a line with something to expand", `/bin/bash -lc "$X"`, "bash", `/bin/bash -lc "$X"`},
		{"a line with a pattern", `/bin/bash -lc *`, "bash", `/bin/bash -lc *`},
		{"a line with a comment", `/bin/bash -lc ls #`, "bash", `/bin/bash -lc ls #`},
		{"a line with a redirection", `/bin/bash -lc ls >x`, "bash", `/bin/bash -lc ls >x`},
		{"a line that is not closed", `/bin/bash -lc 'ls`, "bash", `/bin/bash -lc 'ls`},
		{"ANSI quotes", `/bin/bash -lc $'ls'`, "bash", `/bin/bash -lc $'ls'`},
		{"a line of two lines", "/bin/bash -lc ls\nrm x", "bash", "/bin/bash -lc ls\nrm x"},
		{"a variable before the shell", `X=1 /bin/bash -lc ls`, "bash", `X=1 /bin/bash -lc ls`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			line, err := json.Marshal(tc.line)
			if err != nil {
				t.Fatal(err)
			}
			q := one(t, ask(command, `{"threadId":"t","turnId":"u","itemId":"i","command":`+string(line)+`,"cwd":"/w",
				"commandActions":[{"type":"read","command":"cat a","name":"a","path":"/w/a"}]}`))
			want := &approval.Command{Shell: tc.shell, Text: tc.text}
			if diff := cmp.Diff(want, q.Request.Command); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
			if q.Request.Kind != approval.KindCommand || q.Request.Tool != nil || q.Problem != "" {
				t.Errorf("kind %s, tool %v, problem %q", q.Request.Kind, q.Request.Tool, q.Problem)
			}
		})
	}
}

// Whatever script is wrapped with the quotes of a shell comes out as it went in.
func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{"ls", "it's", `a"b`, "$x `y` \\", "a\nb", "ä #{}*?~!", "", "-lc", "\x00", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		quoted, err := syntax.Quote(script, syntax.LangPOSIX)
		if err != nil || script == "" || strings.ContainsRune(script, '\uFFFD') {
			return
		}
		line, err := json.Marshal("/bin/bash -lc " + quoted)
		if err != nil {
			t.Fatal(err)
		}
		q, err := new(codex.Intake).Message([]byte(ask(command, `{"command":`+string(line)+`}`)))
		if err != nil {
			t.Fatal(err)
		}
		got := q.Request.Command.Text
		// A script that needs no quotes may still hold a character that has a
		// meaning in other places (a!b); then the line stays as it is.
		if got != script && (quoted != script || got != "/bin/bash -lc "+quoted) {
			t.Errorf("script %q came out as %q", script, got)
		}
	})
}

func TestQuestionsThatAreNotUnderstoodGoToAHuman(t *testing.T) {
	for _, tc := range []struct{ name, method, params, problem string }{
		{"a method of tomorrow", "item/future/request", `{"threadId":"t","x":1}`, `request "item/future/request" is not an approval that is known`},
		{"a call of a client's tool", "item/tool/call", `{"threadId":"t","tool":"x","arguments":{}}`, `request "item/tool/call" is not an approval that is known`},
		{"no parameters", command, `null`, "the command is missing"},
		{"parameters that are a list", command, `[]`, "read the parameters"},
		{"no command", command, `{"threadId":"t"}`, "the command is missing"},
		{"a command that is a list", command, `{"command":["ls"]}`, "read the parameters"},
		{"a kind of tomorrow", command, `{"kind":"robotCommand","command":"ls"}`, `kind "robotCommand" is not known`},
		{"a host and a command at once", command, `{"command":"ls","networkApprovalContext":{"host":"a","protocol":"http"}}`, "at once"},
		{"a host for a human command", command, `{"kind":"humanCommand","networkApprovalContext":{"host":"a","protocol":"http"}}`, "at once"},
		{"a network without a host", command, `{"networkApprovalContext":{"protocol":"http"}}`, "/network/host: is missing"},
		{"permissions of tomorrow", command, `{"command":"ls","additionalPermissions":{"camera":true}}`, "read the permissions"},
		{"no permissions", permissions, `{"cwd":"/w"}`, "the permissions are missing"},
		{"permissions that are a list", permissions, `{"permissions":[]}`, "read the permissions"},
		{"file changes without parameters", file, `7`, "read the parameters"},
		{"questions that are a text", "item/tool/requestUserInput", `{"questions":"?"}`, "the questions are missing"},
		{"tool arguments that are a list", elicitation, `{"serverName":"lab","mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}},"_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"x","tool_params":[1]}}`, "not an object"},
		{"a legacy command without words", "execCommandApproval", `{"command":[],"cwd":"/w"}`, "has neither text nor argv"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := one(t, ask(tc.method, tc.params))
			r := q.Request
			if !r.HumanOnly || r.Kind != approval.KindTool || r.Tool.Name != tc.method {
				t.Errorf("request %+v", r)
			}
			if !strings.Contains(q.Problem, tc.problem) {
				t.Errorf("problem %q, want one with %q", q.Problem, tc.problem)
			}
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
			if strings.HasPrefix(tc.params, "{") && string(r.Tool.Arguments) != tc.params {
				t.Errorf("arguments %s, want the parameters", r.Tool.Arguments)
			}
		})
	}
}

const (
	startedPatch = `{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange","id":"i","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"x\n"}]}}}`
	askPatch     = `{"id":1,"method":"item/fileChange/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"i","reason":null,"grantRoot":null}}`
)

func TestFileChangeIsJoinedByThreadAndItem(t *testing.T) {
	known := []approval.Change{{Path: "/w/a", Operation: "add", Diff: "x\n"}}
	for _, tc := range []struct {
		name     string
		messages []string
		want     []approval.Change
	}{
		{"the item that was started", []string{startedPatch, askPatch}, known},
		{"no item", []string{askPatch}, nil},
		{"the item of another thread", []string{strings.Replace(startedPatch, `"t"`, `"t2"`, 1), askPatch}, nil},
		{"another item", []string{strings.Replace(startedPatch, `"i"`, `"i2"`, 1), askPatch}, nil},
		{"an item that is over", []string{startedPatch, strings.Replace(startedPatch, "started", "completed", 1), askPatch}, nil},
		{"an item of another type", []string{strings.Replace(startedPatch, "fileChange", "plan", 1), askPatch}, nil},
		{"an item without changes", []string{`{"method":"item/started","params":{"threadId":"t","item":{"type":"fileChange","id":"i","changes":[]}}}`, askPatch}, nil},
		{"a change without a path", []string{strings.Replace(startedPatch, "/w/a", "", 1), askPatch}, nil},
		{"an operation of tomorrow among known ones", []string{
			strings.Replace(startedPatch, `[{`, `[{"path":"/w/b","kind":{"type":"link"},"diff":""},{`, 1), askPatch,
		}, nil},
		{"a second start that cannot be read leaves nothing of the first", []string{
			startedPatch, strings.Replace(startedPatch, `"add"`, `"link"`, 1), askPatch,
		}, nil},
		{"a second start counts", []string{startedPatch, strings.Replace(startedPatch, "/w/a", "/w/b", 1), askPatch}, []approval.Change{
			{Path: "/w/b", Operation: "add", Diff: "x\n"},
		}},
		{"asking twice", []string{startedPatch, askPatch, strings.Replace(askPatch, `"id":1`, `"id":2`, 1)}, known},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := questions(t, new(codex.Intake), tc.messages...)
			for _, q := range got {
				if diff := cmp.Diff(tc.want, q.Request.Changes); diff != "" {
					t.Errorf("changes (-want +got):\n%s", diff)
				}
				if q.Request.Kind != approval.KindFileChange || q.Problem != "" {
					t.Errorf("kind %s, problem %q", q.Request.Kind, q.Problem)
				}
			}
		})
	}
}

func TestFileChangeKeepsMovesAndRoots(t *testing.T) {
	q := one(t,
		`{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange","id":"i","changes":[{"path":"/w/a","kind":{"type":"update","move_path":"/w/b"},"diff":"@@"},{"path":"/w/c","kind":{"type":"update","move_path":null},"diff":""}]}}}`,
		`{"id":1,"method":"item/fileChange/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"i","reason":"more","grantRoot":"/w"}}`)
	want := []approval.Change{{Path: "/w/a", Operation: "update", MovePath: "/w/b", Diff: "@@"}, {Path: "/w/c", Operation: "update"}}
	if diff := cmp.Diff(want, q.Request.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if q.Request.GrantRoot != "/w" || q.Request.Reason != "more" {
		t.Errorf("root %q, reason %q", q.Request.GrantRoot, q.Request.Reason)
	}
}

func TestOldItemsAreForgotten(t *testing.T) {
	in := new(codex.Intake)
	started := func(i int) string {
		return strings.Replace(startedPatch, `"id":"i"`, fmt.Sprintf(`"id":"i%d"`, i), 1)
	}
	const n = 600
	for i := range n {
		questions(t, in, started(i))
	}
	known := 0
	for i := range n {
		got := questions(t, in, strings.Replace(askPatch, `"itemId":"i"`, fmt.Sprintf(`"itemId":"i%d"`, i), 1))
		if len(got[0].Request.Changes) > 0 {
			known++
			if i < n-512 {
				t.Errorf("item %d is still there", i)
			}
		}
	}
	if known != 512 {
		t.Errorf("%d items are known, want 512", known)
	}
}

func TestLargeDiffsAreDroppedAndPathsKept(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	q := one(t, strings.Replace(startedPatch, `x\n`, large+"x", 1), askPatch)
	if diff := cmp.Diff([]approval.Change{{Path: "/w/a", Operation: "add"}}, q.Request.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestFolderOfTheThread(t *testing.T) {
	thread := `{"id":2,"result":{"thread":{"id":"t","cwd":"/w"}}}`
	for _, tc := range []struct {
		name     string
		messages []string
		want     *approval.Environment
	}{
		{"a thread that was started", []string{thread, startedPatch, askPatch}, &approval.Environment{Cwd: "/w"}},
		{"a thread that was announced", []string{`{"method":"thread/started","params":{"thread":{"id":"t","cwd":"/v"}}}`, startedPatch, askPatch}, &approval.Environment{Cwd: "/v"}},
		{"a turn in another folder", []string{
			thread, `{"dir":"c2s","frame":{"id":3,"method":"turn/start","params":{"threadId":"t","cwd":"/x"}}}`, startedPatch, askPatch,
		}, &approval.Environment{Cwd: "/x"}},
		{"another thread", []string{strings.Replace(thread, `"t"`, `"t2"`, 1), startedPatch, askPatch}, nil},
		{"a client's message without the wrapper is the server's", []string{
			thread, `{"method":"turn/start","params":{"threadId":"t","cwd":"/x"}}`, startedPatch, askPatch,
		}, &approval.Environment{Cwd: "/w"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, one(t, tc.messages...).Request.Environment); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersionOfTheServer(t *testing.T) {
	for _, tc := range []struct{ name, agent, want string }{
		{"a client's name before it", "lab_client/0.171.0 (linux) term (lab_client; 0.0.1)", "0.171.0"},
		{"a preview", "codex_cli_rs/0.200.0-alpha.3 (x)", "0.200.0-alpha.3"},
		{"no version", "codex", ""},
		{"words", "codex/next", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := one(t, `{"id":1,"result":{"userAgent":"`+tc.agent+`"}}`, ask(command, `{"command":"ls"}`))
			if diff := cmp.Diff(&approval.Harness{Name: "codex", Version: tc.want}, q.Request.Harness); diff != "" {
				t.Errorf("harness (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIDsKeepTheirType(t *testing.T) {
	for _, tc := range []struct{ name, id, want string }{
		{"a number", `12`, `12`},
		{"a text", `"12"`, `"12"`},
		{"a text in another spelling", `"\u0031\u0032"`, `"12"`},
		{"zero", `0`, `0`},
		{"a number below zero", `-1`, `-1`},
		{"an empty text", `""`, `""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, err := new(codex.Intake).Message([]byte(`{"id":` + tc.id + `,"method":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			if string(q.ID) != tc.want {
				t.Errorf("id %s, want %s", q.ID, tc.want)
			}
		})
	}
}

func TestFramesThatAreNone(t *testing.T) {
	for _, tc := range []struct{ name, frame string }{
		{"nothing", ``},
		{"no JSON", `{"id":`},
		{"a list", `[]`},
		{"two objects", `{"method":"x"} {"method":"y"}`},
		{"neither method nor id", `{"params":{}}`},
		{"a name given twice", `{"id":1,"id":2,"method":"x"}`},
		{"a name given twice, deep down", `{"id":1,"method":"x","params":{"a":1,"a":2}}`},
		{"an id that is a fraction", `{"id":1.5,"method":"x"}`},
		{"an id that is too large", `{"id":99999999999999999999,"method":"x"}`},
		{"an id that is a list", `{"id":[1],"method":"x"}`},
		{"an id that is null", `{"id":null,"method":"x"}`},
		{"a method that is a number", `{"id":1,"method":7}`},
		{"a recording of another direction", `{"dir":"up","frame":{"method":"x"}}`},
		{"a recording of no frame", `{"dir":"s2c","frame":[]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q, err := new(codex.Intake).Message([]byte(tc.frame))
			if !errors.Is(err, codex.ErrFrame) || q != nil {
				t.Errorf("Message = %v, %v; want ErrFrame", q, err)
			}
		})
	}
}

func TestOtherMessagesAreNoQuestions(t *testing.T) {
	for _, m := range []string{
		`{"method":"turn/completed","params":{"threadId":"t"},"emittedAtMs":1}`,
		`{"method":"item/started","params":{"item":7}}`,
		`{"method":"item/completed"}`,
		`{"method":"item/started","params":[]}`,
		`{"id":1,"result":{}}`,
		`{"id":1,"result":7}`,
		`{"id":"x","error":{"code":-32600,"message":"no"}}`,
		`{"method":"from/tomorrow","params":{"a":{"b":[1,2]}},"extra":true}`,
		`{"dir":"c2s","frame":{"id":0,"result":{"decision":"accept"}}}`,
		`{"dir":"c2s","frame":{"id":1,"method":"item/commandExecution/requestApproval","params":{"command":"ls"}}}`,
	} {
		if q, err := new(codex.Intake).Message([]byte(m)); q != nil || err != nil {
			t.Errorf("Message(%s) = %v, %v", m, q, err)
		}
	}
}

// form is an elicitation with the given _meta and schema.
func form(meta, schema string) string {
	return ask(elicitation, `{"threadId":"t","turnId":"u","serverName":"lab","mode":"form","_meta":`+meta+`,"message":"Allow?","requestedSchema":`+schema+`}`)
}

const (
	empty    = `{"type":"object","properties":{}}`
	approve  = `{"codex_approval_kind":"mcp_tool_call","tool_params":{"a":1,"b":[2]}}`
	approve2 = `{"codex_approval_kind":"mcp_tool_call","tool_name":"wipe","tool_params":{"a":1,"b":[2]}}`
)

func TestOnlyTheServersOwnQuestionIsAnApproval(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		want          approval.Kind
	}{
		{"the server's own question", form(approve2, empty), approval.KindMCP},
		{"a form of an MCP server", form(`null`, `{"type":"object","properties":{"ok":{"type":"boolean"}}}`), approval.KindTool},
		{"an empty form of an MCP server", form(`null`, empty), approval.KindTool},
		{"a form that passes itself off as the server's question", form(approve2, `{"type":"object","properties":{"key":{"type":"string"}}}`), approval.KindTool},
		{"a form that requires what it does not name", form(approve2, `{"type":"object","properties":{},"required":["key"]}`), approval.KindTool},
		{"no schema", form(approve2, `null`), approval.KindTool},
		{"another kind of question", form(`{"codex_approval_kind":"other","tool_name":"wipe"}`, empty), approval.KindTool},
		{"a kind of another type", form(`{"codex_approval_kind":1}`, empty), approval.KindTool},
		{"an address", ask(elicitation, `{"serverName":"lab","mode":"url","_meta":`+approve2+`,"url":"https://a.example","elicitationId":"e","message":"?"}`), approval.KindTool},
		{"a form of another dialect", strings.Replace(form(approve2, empty), `"mode":"form"`, `"mode":"openai/form"`, 1), approval.KindTool},
		{"no mode", strings.Replace(form(approve2, empty), `"mode":"form",`, ``, 1), approval.KindTool},
		{"no server", ask(elicitation, `{"mode":"form","_meta":`+approve2+`,"message":"allow tool?","requestedSchema":`+empty+`}`), approval.KindTool},
		{"nothing but a message", ask(elicitation, `{"message":"allow tool?"}`), approval.KindTool},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := one(t, tc.message)
			if q.Request.Kind != tc.want || q.Request.HumanOnly != (tc.want == approval.KindTool) || q.Problem != "" {
				t.Errorf("kind %s, human only %v, problem %q", q.Request.Kind, q.Request.HumanOnly, q.Problem)
			}
			if tc.want == approval.KindTool && q.Request.Tool.Name != "elicitation" {
				t.Errorf("tool %q", q.Request.Tool.Name)
			}
		})
	}
}

// call starts a call of an MCP tool.
func call(id, server, tool, arguments string) string {
	return `{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"mcpToolCall","id":"` + id +
		`","server":"` + server + `","tool":"` + tool + `","arguments":` + arguments + `,"readOnlyHint":true}}}`
}

func TestMCPToolIsJoinedWithItsItem(t *testing.T) {
	yes, no := true, false
	hint := &approval.Annotations{ReadOnlyHint: &yes}
	for _, tc := range []struct {
		name        string
		messages    []string
		tool, call  string
		annotations *approval.Annotations
	}{
		{"the call that is under way", []string{call("c1", "lab", "wipe", `{"b":[2],"a":1}`), form(approve, empty)}, "wipe", "c1", hint},
		{"no call", []string{form(approve, empty)}, "", "", nil},
		{"a call of another server", []string{call("c1", "web", "wipe", `{"a":1,"b":[2]}`), form(approve, empty)}, "", "", nil},
		{"a call with other arguments", []string{call("c1", "lab", "wipe", `{"a":2,"b":[2]}`), form(approve, empty)}, "", "", nil},
		{"a call of another thread", []string{strings.Replace(call("c1", "lab", "wipe", `{"a":1,"b":[2]}`), `"t"`, `"t2"`, 1), form(approve, empty)}, "", "", nil},
		{"a call of another turn", []string{strings.Replace(call("c1", "lab", "wipe", `{"a":1,"b":[2]}`), `"u"`, `"u2"`, 1), form(approve, empty)}, "", "", nil},
		{"a call that is over", []string{
			call("c1", "lab", "wipe", `{"a":1,"b":[2]}`), strings.Replace(call("c1", "lab", "wipe", `{}`), "started", "completed", 1), form(approve, empty),
		}, "", "", nil},
		{"two calls that fit and differ", []string{
			call("c1", "lab", "wipe", `{"a":1,"b":[2]}`), call("c2", "lab", "read", `{"a":1,"b":[2]}`), form(approve, empty),
		}, "", "", nil},
		{"two calls that fit and agree", []string{
			call("c1", "lab", "wipe", `{"a":1,"b":[2]}`), call("c2", "lab", "wipe", `{"a":1,"b":[2]}`), form(approve, empty),
		}, "wipe", "", nil},
		{"the name from the server", []string{form(approve2, empty)}, "wipe", "", nil},
		{"the name from the server and its call among others", []string{
			call("c1", "lab", "read", `{"a":1,"b":[2]}`), call("c2", "lab", "wipe", `{"a":1,"b":[2]}`), form(approve2, empty),
		}, "wipe", "c2", hint},
		{"the server's hints are better than the item's", []string{
			call("c1", "lab", "wipe", `{"a":1,"b":[2]}`),
			form(strings.Replace(approve2, `{`, `{"tool_annotations":{"readOnlyHint":false,"title":"Wipe"},`, 1), empty),
		}, "wipe", "c1", &approval.Annotations{ReadOnlyHint: &no, Title: "Wipe"}},
		{"a hint of the wrong type spoils all", []string{
			call("c1", "lab", "wipe", `{"a":1,"b":[2]}`),
			form(strings.Replace(approve2, `{`, `{"tool_annotations":{"readOnlyHint":true,"destructiveHint":"yes"},`, 1), empty),
		}, "wipe", "c1", &approval.Annotations{}},
		{"hints in another spelling are none", []string{
			form(strings.Replace(approve2, `{`, `{"tool_annotations":{"readonlyhint":true,"read_only_hint":true},`, 1), empty),
		}, "wipe", "", &approval.Annotations{}},
		{"numbers that are only nearly equal are not", []string{
			call("c1", "lab", "wipe", `{"a":9007199254740993}`),
			form(`{"codex_approval_kind":"mcp_tool_call","tool_params":{"a":9007199254740992}}`, empty),
		}, "", "", nil},
		{"no arguments on either side", []string{call("c1", "lab", "wipe", `null`), form(`{"codex_approval_kind":"mcp_tool_call"}`, empty)}, "wipe", "c1", hint},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := one(t, tc.messages...).Request
			name := tc.tool
			if name == "" {
				name = codex.UnknownTool
			}
			if r.Kind != approval.KindMCP || r.Tool.Server != "lab" || r.Tool.Name != name {
				t.Errorf("kind %s, server %q, tool %q, want %q", r.Kind, r.Tool.Server, r.Tool.Name, name)
			}
			if r.HumanOnly != (tc.tool == "") {
				t.Errorf("human only %v", r.HumanOnly)
			}
			if r.Session.CallID != tc.call {
				t.Errorf("call %q, want %q", r.Session.CallID, tc.call)
			}
			if diff := cmp.Diff(tc.annotations, r.Tool.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTerminalInput(t *testing.T) {
	for _, tc := range []struct{ name, line, want string }{
		{"characters", `write_stdin --session-id 7241 'echo x\n'`, `{"chars":"echo x\n","session_id":7241}`},
		{"a session that is no number", `write_stdin --session-id a1 x`, `{"chars":"x","session_id":"a1"}`},
		{"another option", `write_stdin --session 1 x`, `{"command":"write_stdin --session 1 x"}`},
		{"a word more", `write_stdin --session-id 1 x y`, `{"command":"write_stdin --session-id 1 x y"}`},
		{"another program", `type_stdin --session-id 1 x`, `{"command":"type_stdin --session-id 1 x"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := one(t, ask(command, `{"kind":"writeStdin","threadId":"t","itemId":"c1","approvalId":"c2","command":"`+tc.line+`"}`)).Request
			if r.Kind != approval.KindTool || r.Tool.Name != "write_stdin" || string(r.Tool.Arguments) != tc.want {
				t.Errorf("tool %s %s, want %s", r.Tool.Name, r.Tool.Arguments, tc.want)
			}
			if r.Session.CallID != "c2" {
				t.Errorf("call %q, want the one that types", r.Session.CallID)
			}
		})
	}
}

func TestNetwork(t *testing.T) {
	for _, tc := range []struct {
		name, item, context string
		want                approval.Network
	}{
		{"the port stands in the item", "network#local#http#1.1.1.1#9#u", `{"host":"1.1.1.1","protocol":"http"}`, approval.Network{Host: "1.1.1.1", Port: 9, Protocol: "http"}},
		{"the port of another host is none", "network#local#http#2.2.2.2#9#u", `{"host":"1.1.1.1","protocol":"http"}`, approval.Network{Host: "1.1.1.1", Protocol: "http"}},
		{"an item of another form", "call-1", `{"host":"a.example","protocol":"socks5Tcp"}`, approval.Network{Host: "a.example", Protocol: "socks5_tcp"}},
		{"a port that is none", "network#local#http#a#99999#u", `{"host":"a","protocol":"socks5Udp"}`, approval.Network{Host: "a", Protocol: "socks5_udp"}},
		{"a protocol of tomorrow", "x", `{"host":"a","protocol":"quic"}`, approval.Network{Host: "a", Protocol: "quic"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := one(t, ask(command, `{"threadId":"t","itemId":"`+tc.item+`","networkApprovalContext":`+tc.context+`}`)).Request
			if diff := cmp.Diff(&tc.want, r.Network); diff != "" || r.Kind != approval.KindNetwork {
				t.Errorf("kind %s, network (-want +got):\n%s", r.Kind, diff)
			}
		})
	}
}

func TestEmptyExtraPermissionsAreNone(t *testing.T) {
	for _, p := range []string{`null`, `{}`, `{"network":null,"fileSystem":null}`} {
		if r := one(t, ask(command, `{"command":"ls","additionalPermissions":`+p+`}`)).Request; r.Permissions != nil {
			t.Errorf("additionalPermissions %s: %+v", p, r.Permissions)
		}
	}
	if r := one(t, ask(permissions, `{"cwd":"/w","permissions":{}}`)).Request; r.Kind != approval.KindPermissions || r.Permissions == nil {
		t.Errorf("an empty request for permissions: %+v", r)
	}
}

func TestLegacyRequests(t *testing.T) {
	for _, tc := range []struct {
		name, method, params string
		want                 approval.Request
	}{
		{"a patch", "applyPatchApproval", `{"conversationId":"t","callId":"c","fileChanges":{
			"/w/b":{"type":"update","unified_diff":"@@","move_path":"/w/c"},"/w/a":{"type":"add","content":"x"},"/w/d":{"type":"delete","content":"y"}},"reason":"r","grantRoot":"/w"}`, approval.Request{
			Kind: approval.KindFileChange, GrantRoot: "/w", Reason: "r", Session: &approval.Session{ID: "t", CallID: "c"},
			Changes: []approval.Change{
				{Path: "/w/a", Operation: "add", Diff: "x"},
				{Path: "/w/b", Operation: "update", MovePath: "/w/c", Diff: "@@"},
				{Path: "/w/d", Operation: "delete", Diff: "y"},
			},
		}},
		{"a patch with an operation of tomorrow", "applyPatchApproval", `{"fileChanges":{"/w/b":{"type":"link"},"/w/a":{"type":"add"}}}`, approval.Request{
			Kind: approval.KindFileChange,
		}},
		{"a script", "execCommandApproval", `{"conversationId":"t","callId":"c","command":["bash","-lc","ls"],"cwd":"/w","parsedCmd":[{"type":"read","cmd":"cat a","name":"a","path":"a"}]}`, approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Shell: "bash", Text: "ls"},
			Environment: &approval.Environment{Cwd: "/w"}, Session: &approval.Session{ID: "t", CallID: "c"},
		}},
		{"an argument vector", "execCommandApproval", `{"command":["bash","-c","ls","x"],"cwd":"/w"}`, approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Argv: []string{"bash", "-c", "ls", "x"}},
			Environment: &approval.Environment{Cwd: "/w"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Harness = &approval.Harness{Name: "codex"}
			tc.want.Escalated = tc.want.Kind == approval.KindCommand
			for _, word := range []string{"approved", "approved_for_session", "denied", "abort"} {
				tc.want.Options = append(tc.want.Options, json.RawMessage(`"`+word+`"`))
			}
			if diff := cmp.Diff(&tc.want, one(t, ask(tc.method, tc.params)).Request); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsDoNotShareMemory(t *testing.T) {
	in := new(codex.Intake)
	first := questions(t, in, startedPatch, askPatch)[0].Request
	first.Changes[0].Path = "/changed"
	if got := questions(t, in, askPatch)[0].Request.Changes[0].Path; got != "/w/a" {
		t.Errorf("path %q", got)
	}
	message := []byte(ask(command, `{"command":"ls","availableDecisions":["accept"]}`))
	q, err := in.Message(message)
	if err != nil {
		t.Fatal(err)
	}
	for i := range message {
		message[i] = 'x'
	}
	if got := string(q.Request.Options[0]); got != `"accept"` {
		t.Errorf("option %s after the buffer was used again", got)
	}
}

func FuzzIntake(f *testing.F) {
	names, err := filepath.Glob("testdata/frames/*/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		in := new(codex.Intake)
		for line := range bytes.Lines(text) {
			q, err := in.Message(line)
			if err != nil {
				if !errors.Is(err, codex.ErrFrame) || q != nil {
					t.Fatalf("Message(%q) = %v, %v", line, q, err)
				}
				continue
			}
			if q == nil {
				continue
			}
			if err := q.Request.Validate(); err != nil {
				t.Fatalf("Message(%q): %v", line, err)
			}
			if q.Problem != "" && !q.Request.HumanOnly {
				t.Fatalf("Message(%q) is not understood and not for a human: %s", line, q.Problem)
			}
			if !json.Valid([]byte(q.ID)) || slices.Contains([]string{"", "null"}, string(q.ID)) {
				t.Fatalf("Message(%q): id %q", line, q.ID)
			}
			// What is shown, stored and judged later is read again as it was written.
			raw, err := json.Marshal(q.Request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := approval.Decode(raw); err != nil && len(raw) <= approval.MaxRequestBytes {
				t.Fatalf("Message(%q): the request cannot be read back: %v\n%s", line, err, raw)
			}
		}
	})
}
