package tools_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/catalog"
	"github.com/regent-policy/regent/rego/schema"
)

const module = "tools.rego"

func shipped(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, err := catalog.Load(os.DirFS("../catalog/tools"))
	if err != nil {
		tb.Fatalf("load the tables:\n%v", err)
	}
	return c
}

// policy is the module over the shipped tables.
type policy struct {
	catalog *catalog.Catalog
	query   oparego.PreparedEvalQuery
}

func prepare(tb testing.TB, c *catalog.Catalog, tools map[string]any, settings map[string]any) policy {
	tb.Helper()
	text, err := os.ReadFile(module)
	if err != nil {
		tb.Fatal(err)
	}
	regent := map[string]any{"catalog": map[string]any{"tools": tools}}
	if settings != nil {
		regent["settings"] = settings
	}
	var store storage.Store = inmem.NewFromObjectWithOpts(map[string]any{"regent": regent}, inmem.OptReturnASTValuesOnRead(true))
	query, err := oparego.New(
		oparego.Query("data.regent.tools.call"),
		oparego.Module(module, string(text)),
		oparego.Store(store),
		oparego.Strict(true),
	).PrepareForEval(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return policy{c, query}
}

// answer is data.regent.tools.call.
type answer struct {
	Effects  []string `json:"effects"`
	External bool     `json:"external"`
	Command  bool     `json:"command"`
	Why      []string `json:"why"`
}

func (p policy) call(tb testing.TB, r *approval.Request) answer {
	tb.Helper()
	return p.eval(tb, map[string]any{"request": plain(tb, r), "facts": map[string]any{"tool": plain(tb, p.catalog.Call(r))}})
}

func (p policy) eval(tb testing.TB, input any) answer {
	tb.Helper()
	results, err := p.query.Eval(tb.Context(), oparego.EvalInput(input))
	if err != nil {
		tb.Fatal(err)
	}
	if len(results) != 1 || len(results[0].Expressions) != 1 {
		tb.Fatalf("%d results, want 1", len(results))
	}
	var a answer
	again(tb, results[0].Expressions[0].Value, &a)
	return a
}

func plain(tb testing.TB, v any) any {
	tb.Helper()
	var out any
	again(tb, v, &out)
	return out
}

func again(tb testing.TB, from, to any) {
	tb.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		tb.Fatal(err)
	}
}

func tool(harness, name, arguments string) *approval.Request {
	r := &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: name}}
	if arguments != "" {
		r.Tool.Arguments = json.RawMessage(arguments)
	}
	if harness != "" {
		r.Harness = &approval.Harness{Name: harness}
	}
	return r
}

func TestCall(t *testing.T) {
	p := prepare(t, shipped(t), shipped(t).Value(), nil)
	for _, tc := range []struct {
		name, harness, tool, arguments string
		effects                        string
		external, command              bool
	}{
		{"a reader reads", "claude-code", "Read", `{"file_path":"/w/a"}`, "read", false, false},
		{"a writer writes", "claude-code", "Write", `{"file_path":"/w/a","content":""}`, "write", false, false},
		{"a fetch leaves", "claude-code", "WebFetch", `{"url":"https://a.example","prompt":""}`, "network", true, false},
		{"a command speaks for itself", "claude-code", "Bash", `{"command":"ls"}`, "", false, true},
		{"a command in the background is a process", "claude-code", "Bash", `{"command":"ls","run_in_background":true}`, "process", false, true},
		{"a command out of the sandbox is a process", "claude-code", "Bash", `{"command":"ls","dangerouslyDisableSandbox":true}`, "process", false, true},
		{"a command with an argument that nobody knows", "claude-code", "Bash", `{"command":"ls","x":1}`, "process unknown", true, true},
		{"a command that is missing", "claude-code", "Bash", `{}`, "process unknown", true, false},
		{"a socket in the place of a command", "claude-code", "Monitor", `{"ws":{"url":"wss://a.example"}}`, "network process", true, false},
		{"any program", "claude-code", "REPL", `{"code":"1"}`, "process unknown", true, false},
		{"a reader with an argument that nobody knows", "claude-code", "Read", `{"file_path":"/w/a","x":1}`, "read unknown", false, false},
		{"another agent", "claude-code", "Agent", `{"prompt":"x"}`, "process unknown", false, false},
		{"another agent by its older name", "claude-code", "Task", `{"prompt":"x"}`, "process unknown", false, false},
		{"another agent in its own worktree", "claude-code", "Agent", `{"prompt":"x","isolation":"worktree"}`, "process unknown", false, false},
		{"another agent elsewhere", "claude-code", "Agent", `{"prompt":"x","isolation":"remote"}`, "network process unknown", true, false},
		{"the end of the plan is a change of mode", "claude-code", "ExitPlanMode", `{"plan":"x"}`, "unknown", false, false},
		{"foreign instructions", "claude-code", "Skill", `{"skill":"x"}`, "unknown", false, false},
		{"the list of tasks", "claude-code", "TodoWrite", `{"todos":[]}`, "read", false, false},
		{"a question to the user", "claude-code", "AskUserQuestion", `{"questions":[]}`, "read", false, false},
		{"a prompt that runs later", "claude-code", "CronCreate", `{"cron":"* * * * *","prompt":"x"}`, "process unknown write", false, false},
		{"what an MCP server offers to read leaves", "claude-code", "ReadMcpResourceTool", `{"server":"lab","uri":"x"}`, "read", true, false},
		{"a codex command", "codex", "exec_command", `{"cmd":"ls","workdir":"/w","yield_time_ms":1,"max_output_tokens":9,"justification":"x","login":false}`, "", false, true},
		{"a codex command with more permissions", "codex", "exec_command", `{"cmd":"ls","sandbox_permissions":"require_escalated","justification":"x"}`, "process", false, true},
		{"a codex command in a terminal", "codex", "exec_command", `{"cmd":"ls","tty":true}`, "process", false, true},
		{"codex types", "codex", "write_stdin", `{"session_id":1,"chars":"x"}`, "process read unknown", true, false},
		{"codex waits", "codex", "write_stdin", `{"session_id":1,"chars":""}`, "read", false, false},
		{"a codex program of tools", "codex", "exec", `{"input":"await tools.exec_command({})"}`, "process unknown", true, false},
		{"codex patches", "codex", "apply_patch", `{"input":"*** Begin Patch\n*** Delete File: a\n*** End Patch"}`, "write", false, false},
		{"codex patches what nobody can read", "codex", "apply_patch", `{"input":"hello"}`, "unknown write", false, false},
		{"codex asks for permissions", "codex", "request_permissions", `{"reason":"x","permissions":{}}`, "unknown", false, false},
		{"codex plans", "codex", "update_plan", `{"plan":[]}`, "read", false, false},
		{"gemini fetches what prose says", "gemini-cli", "web_fetch", `{"prompt":"read https://a.example"}`, "network unknown", true, false},
		{"a listed prefix", "gemini-cli", "tracker_create_task", `{"title":"x"}`, "read", false, false},
		{"a tool of the project", "gemini-cli", "discovered_tool_x", ``, "process unknown", true, false},
		{"a passed-on reader", "qwen-code", "tool_call", `{"name":"list_directory","arguments":{"path":"."}}`, "read", false, false},
		{"a passed-on command", "qwen-code", "tool_call", `{"name":"run_shell_command","arguments":{"command":"ls"}}`, "", false, true},
		{"a passed-on call of nothing", "qwen-code", "tool_call", `{}`, "unknown", true, false},
		{"a passed-on call of an unknown tool", "qwen-code", "tool_call", `{"name":"nuke","arguments":{}}`, "unknown", true, false},
		{"readers in a batch", "opencode", "batch", `{"tool_calls":[{"tool":"read","parameters":{"filePath":"a"}},{"tool":"list","parameters":{}}]}`, "read", false, false},
		{"a writer in a batch", "opencode", "batch", `{"tool_calls":[{"tool":"read","parameters":{"filePath":"a"}},{"tool":"write","parameters":{"filePath":"b","content":""}}]}`, "read write", false, false},
		{"a command in a batch", "opencode", "batch", `{"tool_calls":[{"tool":"bash","parameters":{"command":"ls"}}]}`, "", false, true},
		{"an unknown tool in a batch", "opencode", "batch", `{"tool_calls":[{"tool":"read","parameters":{"filePath":"a"}},{"tool":"nuke","parameters":{}}]}`, "read unknown", true, false},
		{"an MCP tool in a batch", "opencode", "batch", `{"tool_calls":[{"tool":"lab_wipe","parameters":{}}]}`, "unknown write", true, false},
		{"an empty batch", "opencode", "batch", `{"tool_calls":[]}`, "unknown", true, false},
		{"a view of a file", "goose", "text_editor", `{"command":"view","path":"a"}`, "read", false, false},
		{"an edit of a file", "goose", "text_editor", `{"command":"insert","path":"a","insert_line":1,"new_str":"x"}`, "write", false, false},
		{"what an editor does not know", "goose", "text_editor", `{"command":"burn","path":"a"}`, "unknown write", false, false},
		{"a fetch", "goose", "web_fetch", `{"url":"https://a.example"}`, "network", true, false},
		{"a fetch into a file", "goose", "web_fetch", `{"url":"https://a.example","save_as":"a"}`, "network write", true, false},
		{"the end of a task", "cline", "attempt_completion", `{"result":"x"}`, "read", false, false},
		{"the end of a task with a command", "cline", "attempt_completion", `{"result":"x","command":"open ."}`, "read", false, true},
		{"several commands", "cline", "run_commands", `{"commands":["ls","pwd"]}`, "", false, true},
		{"an MCP tool in the arguments", "cline", "use_mcp_tool", `{"server_name":"lab","tool_name":"x","arguments":{}}`, "unknown write", true, false},
		{"a kind that the agent chose", "acp", "kind:read", `{"locations":[{"path":"a"}]}`, "read unknown", false, false},
		{"native thoughts", "", "think", `{"thought":"x"}`, "read", false, false},
		{"a native download", "", "http_request", `{"url":"https://a.example","output_path":"a"}`, "network write", true, false},
		{"a native copy", "", "copy_file", `{"source":"a","destination":"b"}`, "read write", false, false},
		{"a native command with input", "", "run_command", `{"command":"cat","stdin":"x"}`, "process unknown", false, true},
		{"a name that nobody listed", "claude-code", "Nuke", `{}`, "unknown", true, false},
		{"a name in other letters", "claude-code", "read", `{"file_path":"a"}`, "unknown", true, false},
		{"a name of another harness", "codex", "Read", `{"file_path":"a"}`, "unknown", true, false},
		{"a harness that nobody listed", "acme", "read_file", `{"path":"a"}`, "unknown", true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := p.call(t, tool(tc.harness, tc.tool, tc.arguments))
			if e := strings.Join(got.Effects, " "); e != tc.effects || got.External != tc.external || got.Command != tc.command {
				t.Errorf("effects %q external %v command %v, want %q %v %v (why %q)",
					e, got.External, got.Command, tc.effects, tc.external, tc.command, got.Why)
			}
			if tc.effects != "" && tc.effects != "read" && len(got.Why) == 0 {
				t.Error("nothing says why")
			}
			if tc.effects == "read" && !tc.external && len(got.Why) > 0 {
				t.Errorf("reading needs no reason: %q", got.Why)
			}
		})
	}
}

func TestCallByKind(t *testing.T) {
	p := prepare(t, shipped(t), shipped(t).Value(), nil)
	for _, tc := range []struct {
		name              string
		request           approval.Request
		effects           string
		external, command bool
	}{
		{"a command", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}}, "", false, true},
		{"no command", approval.Request{Kind: approval.KindCommand}, "unknown", false, false},
		{"a command by a tool that nobody knows", approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}, Tool: &approval.Tool{Name: "x"},
		}, "unknown", true, true},
		{"a command with a NUL byte", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "ls\x00"}}, "unknown", false, true},
		{"a command and its tool", approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}, Harness: &approval.Harness{Name: "codex"},
			Tool: &approval.Tool{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"ls"}`)},
		}, "", false, true},
		{"a command and its tool with a risky argument", approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}, Harness: &approval.Harness{Name: "codex"},
			Tool: &approval.Tool{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"ls","tty":true}`)},
		}, "process", false, true},
		{"a command and the tool of a server", approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}, Tool: &approval.Tool{Name: "run", Server: "lab"},
		}, "unknown write", true, true},
		{"a change", approval.Request{Kind: approval.KindFileChange, Changes: []approval.Change{{Path: "a", Operation: "add"}}}, "write", false, false},
		{"a change that nobody showed", approval.Request{Kind: approval.KindFileChange}, "unknown write", false, false},
		{"a host", approval.Request{Kind: approval.KindNetwork, Network: &approval.Network{Host: "a.example"}}, "network", true, false},
		{"no host", approval.Request{Kind: approval.KindNetwork}, "network unknown", true, false},
		{"permissions", approval.Request{Kind: approval.KindPermissions}, "", false, false},
		{"no tool", approval.Request{Kind: approval.KindTool}, "unknown", false, false},
		{"a tool without a name", approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{}}, "unknown", true, false},
		{"a kind of tomorrow", approval.Request{Kind: "x"}, "unknown", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := p.call(t, &tc.request)
			if e := strings.Join(got.Effects, " "); e != tc.effects || got.External != tc.external || got.Command != tc.command {
				t.Errorf("effects %q external %v command %v, want %q %v %v", e, got.External, got.Command, tc.effects, tc.external, tc.command)
			}
		})
	}
}

// A tool that runs its commands on another machine is external, whatever they are.
func TestCommandsElsewhere(t *testing.T) {
	c, err := catalog.Load(fstest.MapFS{"native.yaml": {Data: []byte(`harness: native
tools:
  remote:
    effects: [process]
    external: true
    arguments: {command: {role: command, required: true}, sudo: {role: raise, unless: [false], effects: [unknown]}}
`)}})
	if err != nil {
		t.Fatal(err)
	}
	p := prepare(t, c, c.Value(), nil)
	for _, arguments := range []string{`{"command":"ls"}`, `{"command":"ls","sudo":true}`} {
		if got := p.call(t, tool("", "remote", arguments)); !got.External || !got.Command {
			t.Errorf("%s: external %v, command %v", arguments, got.External, got.Command)
		}
	}
}

// Every entry of every table, called with just what it must have, does what the
// table says and no less.
func TestEveryEntry(t *testing.T) {
	c := shipped(t)
	p := prepare(t, c, c.Value(), nil)
	for harness, tools := range c.Value() {
		for name := range tools.(map[string]any) {
			probe := strings.Replace(name, "*", "x", 1)
			_, entry, ok := c.Lookup(harness, probe)
			if !ok {
				t.Fatalf("%s %s is not there", harness, name)
			}
			if entry.Wraps != nil || passesOn(entry) {
				continue // it does what the tools do that it passes calls on to
			}
			variants := map[string]catalog.Tool{"": entry}
			if entry.Select != "" {
				variants = entry.Variants
			}
			for variant, part := range variants {
				t.Run(strings.TrimSpace(harness+" "+name+" "+variant), func(t *testing.T) {
					args := minimal(part)
					if variant != "" {
						args[entry.Select] = variant
					}
					text, err := json.Marshal(args)
					if err != nil {
						t.Fatal(err)
					}
					request := tool(harness, probe, string(text))
					call := c.Call(request)
					if !call.Listed || call.Key != name {
						t.Fatalf("listed %v, key %q", call.Listed, call.Key)
					}
					prose := slices.ContainsFunc(call.Problems, func(s string) bool { return strings.Contains(s, "is prose") })
					if len(call.Problems) > 0 && !prose {
						t.Fatalf("problems %q with %s", call.Problems, text)
					}
					got := p.call(t, request)
					runs := len(call.Commands) > 0
					if got.Command != runs {
						t.Errorf("command %v, want %v", got.Command, runs)
					}
					for _, e := range part.Effects {
						if runs && e == catalog.Process {
							continue
						}
						if !slices.Contains(got.Effects, string(e)) {
							t.Errorf("effects %q lack %s", got.Effects, e)
						}
					}
					outside := part.External == catalog.Yes || part.External == catalog.Possible && !runs
					if got.External != outside {
						t.Errorf("external %v, want %v", got.External, outside)
					}
					// The short way and the long way agree.
					if !call.Plain && !prose {
						t.Error("the call is not plain")
					}
					call.Plain = false
					long := p.eval(t, map[string]any{"request": plain(t, request), "facts": map[string]any{"tool": plain(t, call)}})
					if diff := cmp.Diff(long, got); diff != "" {
						t.Errorf("the answer of a plain call (-long +short):\n%s", diff)
					}
					// The same call with one thing more that nobody knows.
					if part.Open {
						args["script_path"] = "x"
					} else {
						args["unheard_of"] = "x"
					}
					if text, err = json.Marshal(args); err != nil {
						t.Fatal(err)
					}
					if got := p.call(t, tool(harness, probe, string(text))); !slices.Contains(got.Effects, "unknown") {
						t.Errorf("effects %q with an unknown argument", got.Effects)
					}
				})
			}
		}
	}
}

// minimal are the arguments that a tool must have.
func minimal(entry catalog.Tool) map[string]any {
	args := map[string]any{}
	add := func(name string) { args[name] = value(entry.Arguments[name]) }
	for name, a := range entry.Arguments {
		if a.Required {
			add(name)
		}
	}
	for _, group := range entry.OneOf {
		add(group[0])
	}
	return args
}

func passesOn(entry catalog.Tool) bool {
	for _, a := range entry.Arguments {
		if a.Role == catalog.Calls {
			return true
		}
	}
	return false
}

func value(a catalog.Argument) any {
	switch a.Role {
	case catalog.Argv:
		return []string{"ls"}
	case catalog.URL:
		return "https://a.example"
	case catalog.Patch:
		return "*** Begin Patch\n*** Delete File: a\n*** End Patch"
	case "":
		members := map[string]any{}
		for name, member := range a.Fields {
			if member.Required {
				members[name] = value(member)
			}
		}
		return members
	default:
		return "x"
	}
}

func TestMCPTools(t *testing.T) {
	yes, no := true, false
	trusted := map[string]any{"trusted_mcp_servers": []any{"good", "b"}}
	for _, tc := range []struct {
		name        string
		settings    map[string]any
		server      string
		annotations *approval.Annotations
		effects     string
	}{
		{"an untrusted server's word does not lower", nil, "notes", &approval.Annotations{ReadOnlyHint: &yes}, "unknown"},
		{"nor when others are trusted", trusted, "notes", &approval.Annotations{ReadOnlyHint: &yes}, "unknown"},
		{"nor when the trusted name is only longer", trusted, "goo", &approval.Annotations{ReadOnlyHint: &yes}, "unknown"},
		{"nor in other letters", trusted, "Good", &approval.Annotations{ReadOnlyHint: &yes}, "unknown"},
		{"a text is no list of servers", map[string]any{"trusted_mcp_servers": "good"}, "good", &approval.Annotations{ReadOnlyHint: &yes}, "unknown"},
		{"no hint counts as write", nil, "notes", nil, "unknown write"},
		{"hints raise", nil, "notes", &approval.Annotations{ReadOnlyHint: &yes, DestructiveHint: &yes, OpenWorldHint: &yes}, "network unknown write"},
		{"a trusted server that only reads", trusted, "good", &approval.Annotations{ReadOnlyHint: &yes}, "read"},
		{"a trusted server that only reads and says so twice", trusted, "good", &approval.Annotations{ReadOnlyHint: &yes, DestructiveHint: &no, OpenWorldHint: &no}, "read"},
		{"a trusted server that reads the world", trusted, "good", &approval.Annotations{ReadOnlyHint: &yes, OpenWorldHint: &yes}, "network read"},
		{"a trusted server that contradicts itself", trusted, "good", &approval.Annotations{ReadOnlyHint: &yes, DestructiveHint: &yes}, "unknown write"},
		{"a trusted server that writes", trusted, "good", &approval.Annotations{ReadOnlyHint: &no}, "unknown write"},
		{"a trusted server without a hint", trusted, "good", nil, "unknown write"},
		{"a trusted server with another hint", trusted, "good", &approval.Annotations{IdempotentHint: &yes}, "unknown write"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := shipped(t)
			p := prepare(t, c, c.Value(), tc.settings)
			r := &approval.Request{Kind: approval.KindMCP, Tool: &approval.Tool{Name: "purge_all", Server: tc.server, Annotations: tc.annotations}}
			got := p.call(t, r)
			if e := strings.Join(got.Effects, " "); e != tc.effects {
				t.Errorf("effects %q, want %q", e, tc.effects)
			}
			if !got.External || got.Command || len(got.Why) == 0 {
				t.Errorf("external %v, command %v, why %q", got.External, got.Command, got.Why)
			}
		})
	}
}

func TestMCPTrustNeedsTheServerItself(t *testing.T) {
	yes := true
	c := shipped(t)
	p := prepare(t, c, c.Value(), map[string]any{"trusted_mcp_servers": []any{"a", "a__b", ""}})
	for _, tc := range []struct{ name, harness, tool, server, effects string }{
		{"the name says the server", "claude-code", "mcp__a__x", "", "read"},
		{"the name says one of two servers", "claude-code", "mcp__a__b__x", "", "unknown"},
		{"the request settles it", "claude-code", "mcp__a__b__x", "a__b", "read"},
		{"the request says another server than the name", "claude-code", "mcp__evil__x", "a", "unknown"},
		{"the name says no server", "cursor", "MCP:x", "", "unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tool(tc.harness, tc.tool, `{}`)
			r.Tool.Server, r.Tool.Annotations = tc.server, &approval.Annotations{ReadOnlyHint: &yes}
			got := p.call(t, r)
			if e := strings.Join(got.Effects, " "); e != tc.effects || !got.External {
				t.Errorf("effects %q external %v, want %q", e, got.External, tc.effects)
			}
		})
	}
}

func TestFactsThatAreBroken(t *testing.T) {
	c := shipped(t)
	p := prepare(t, c, c.Value(), nil)
	request := plain(t, tool("claude-code", "Read", `{"file_path":"a"}`))
	fact := func(change map[string]any) any {
		entry := plain(t, c.Call(tool("claude-code", "Read", `{"file_path":"a"}`))).(map[string]any)
		entry["plain"] = false
		for name, v := range change {
			if v == nil {
				delete(entry, name)
			} else {
				entry[name] = v
			}
		}
		return map[string]any{"request": request, "facts": map[string]any{"tool": entry}}
	}
	for _, tc := range []struct {
		name  string
		input any
	}{
		{"no input at all", map[string]any{}},
		{"no facts", map[string]any{"request": request}},
		{"no facts about the tool", map[string]any{"request": request, "facts": map[string]any{}}},
		{"no commands", fact(map[string]any{"commands": nil})},
		{"no key", fact(map[string]any{"key": nil})},
		{"a key that the table does not have", fact(map[string]any{"key": "Gone"})},
		{"a variant that the table does not have", fact(map[string]any{"variant": "x"})},
		{"a harness that has no table", fact(map[string]any{"harness": "gone"})},
		{"a plain call that the table does not have", fact(map[string]any{"plain": true, "key": "Gone"})},
		{"a plain call of a harness that has no table", fact(map[string]any{"plain": true, "harness": "gone"})},
		{"a plain call of a variant that the table does not have", fact(map[string]any{"plain": true, "variant": "x"})},
		{"no name", fact(map[string]any{"name": nil, "listed": nil})},
		{"not listed", fact(map[string]any{"listed": false})},
		{"an argument that the table does not raise", fact(map[string]any{"raised": []any{"x"}})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := p.eval(t, tc.input)
			if !slices.Contains(got.Effects, "unknown") || !got.External {
				t.Errorf("effects %q external %v", got.Effects, got.External)
			}
		})
	}
}

func TestModuleIsTidy(t *testing.T) {
	text, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	formatted, err := format.SourceWithOpts(module, text, format.Opts{RegoVersion: ast.RegoV1})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(formatted, text) {
		t.Errorf("not formatted (-want +got):\n%s", cmp.Diff(string(formatted), string(text)))
	}
	parsed, err := ast.ParseModuleWithOpts(module, string(text), ast.ParserOptions{RegoVersion: ast.RegoV1, ProcessAnnotation: true})
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, a := range parsed.Annotations {
		if a.Title == "" || a.Description == "" {
			t.Errorf("line %d: an annotation without title or description", a.Location.Row)
		}
		described[a.GetTargetPath().String()] = true
	}
	for _, rule := range parsed.Rules {
		if ref := rule.Ref().GroundPrefix().String(); !strings.HasPrefix(ref, "data.regent.tools._") && !described[ref] {
			t.Errorf("line %d: %s has no description", rule.Location.Row, ref)
		}
	}
	schemas, err := schema.Set()
	if err != nil {
		t.Fatal(err)
	}
	compiler := ast.NewCompiler().WithStrict(true).WithSchemas(schemas).WithUseTypeCheckAnnotations(true)
	if compiler.Compile(map[string]*ast.Module{module: parsed}); compiler.Failed() {
		t.Error(compiler.Errors)
	}
}

func BenchmarkCall(b *testing.B) {
	c := shipped(b)
	for _, n := range []int{0, 100_000} {
		tools := c.Value()
		if n > 0 {
			many := map[string]any{}
			for name, entry := range tools["claude-code"].(map[string]any) {
				many[name] = entry
			}
			for i := range n {
				many[fmt.Sprintf("entry%d", i)] = many["Read"]
			}
			tools["claude-code"] = many
		}
		p := prepare(b, c, tools, nil)
		for _, r := range []*approval.Request{
			tool("claude-code", "Read", `{"file_path":"/w/a"}`),
			tool("claude-code", "Bash", `{"command":"ls -la","description":"list"}`),
		} {
			b.Run(fmt.Sprintf("%s/tools=%d", r.Tool.Name, len(tools["claude-code"].(map[string]any))), func(b *testing.B) {
				input := ast.MustInterfaceToValue(map[string]any{"request": plain(b, r), "facts": map[string]any{"tool": plain(b, c.Call(r))}})
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.query.Eval(b.Context(), oparego.EvalParsedInput(input)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("facts/tools=%d", len(tools["claude-code"].(map[string]any))), func(b *testing.B) {
			r := tool("claude-code", "Bash", `{"command":"ls -la","description":"list"}`)
			b.ReportAllocs()
			for b.Loop() {
				c.Call(r)
			}
		})
	}
}
