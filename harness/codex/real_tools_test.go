package codex_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/codextest"
	"github.com/regent-policy/regent/harness/codex/scripted"
)

const toolRules = `
deny contains "production is not for agents" if {
	input.request.tool.name == "destroy"
	contains(input.request.tool.arguments.path, "production")
}
`

// atClient is a client whose user has an answer to a method, and counts how often
// it was asked.
func atClient(asked *atomic.Int32, method string, result any) func(codextest.Frame) any {
	return func(f codextest.Frame) any {
		if f.Method != method {
			return nil
		}
		asked.Add(1)
		return result
	}
}

func TestRealMCP(t *testing.T) {
	e := epoch(t, manual, toolRules)
	versions(t, func(t *testing.T, binary string) {
		var forms atomic.Int32
		r := startReal(t, binary, setting{
			epoch: e, config: codextest.Config{More: codextest.MCPServer(t, "lab")},
			answer: atClient(&forms, "mcpServer/elicitation/request", map[string]any{"action": "accept", "content": map[string]any{"confirmed": true}}),
		})
		call := func(id, tool, name string) scripted.Step {
			return scripted.Say(scripted.MCP(id, "lab", tool, map[string]any{"path": r.out(name)}))
		}
		for _, tc := range []struct {
			name, option string
			runs         bool
			told         string
		}{
			{"accept", `"accept"`, true, "destroy is done"},
			{"decline", `"decline"`, false, "user rejected MCP tool call"},
			{"cancel", `"cancel"`, false, "user cancelled MCP tool call"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				prompt := "mcp " + tc.name
				thread, turn := r.turn(prompt, call("m-"+tc.name, "destroy", "mcp-"+tc.name))
				record := r.waits(thread, "m-"+tc.name)
				q := record.Request
				if q.Kind != approval.KindMCP || q.Tool == nil || q.Tool.Name != "destroy" || !strings.Contains(string(q.Tool.Arguments), "mcp-"+tc.name) {
					t.Errorf("the request is %+v of %+v", q, q.Tool)
				}
				if r.ran("mcp-" + tc.name) {
					t.Fatal("it has run before anybody answered")
				}
				r.decide(record, tc.option, "", nil)
				r.ends(thread, turn, "completed")
				if r.ran("mcp-"+tc.name) != tc.runs {
					t.Errorf("it has run: %v", r.ran("mcp-"+tc.name))
				}
				if told := r.told(prompt, "m-"+tc.name); !strings.Contains(told, tc.told) {
					t.Errorf("the model is told %q, want %q", told, tc.told)
				}
			})
		}
		t.Run("denied by rule", func(t *testing.T) {
			thread, turn := r.turn("mcp rule", call("mr", "destroy", "production"))
			r.ends(thread, turn, "completed")
			if r.ran("production") || !r.said("mcp rule", "production is not for agents") {
				t.Errorf("it has run: %v", r.ran("production"))
			}
		})
		t.Run("for the session", func(t *testing.T) {
			thread, turn := r.turn("mcp session", call("ms1", "destroy", "mcp-first"), call("ms2", "destroy", "mcp-second"))
			r.decide(r.waits(thread, "ms1"), `"acceptForSession"`, "", nil)
			r.ends(thread, turn, "completed") // Codex does not ask about the second
			if !r.ran("mcp-first") || !r.ran("mcp-second") {
				t.Errorf("first %v, second %v", r.ran("mcp-first"), r.ran("mcp-second"))
			}
		})
		t.Run("interrupted while it waits", func(t *testing.T) {
			thread, turn := r.turn("mcp interrupt", call("mi", "destroy", "mcp-interrupted"))
			r.waits(thread, "mi")
			r.client.Interrupt(thread, turn)
			r.ends(thread, turn, "interrupted")
			over := r.record(thread, "mi", func(a *approval.Record) bool { return a.State != approval.Pending })
			if over.State != approval.Cancelled || r.ran("mcp-interrupted") {
				t.Errorf("the record is %s; it has run: %v", over.State, r.ran("mcp-interrupted"))
			}
		})
		if n := forms.Load(); n != 0 {
			t.Errorf("the client was asked %d times what is Regent's to answer", n)
		}
		t.Run("the server's own question goes to the user", func(t *testing.T) {
			thread, turn := r.turn("mcp ask", scripted.Say(scripted.MCP("ma", "lab", "ask", nil)))
			r.ends(thread, turn, "completed")
			if told := r.told("mcp ask", "ma"); forms.Load() != 1 || !strings.Contains(told, `"confirmed":true`) {
				t.Errorf("the client was asked %d times, the model is told %q", forms.Load(), told)
			}
		})
	})
}

// A form of an MCP server that nobody is there to fill in is declined.
func TestRealQuestionsThatNobodyCanAnswer(t *testing.T) {
	e := epoch(t, automatic, "")
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, binary, setting{
			epoch: e, config: codextest.Config{More: "default_mode_request_user_input = true\n" + codextest.MCPServer(t, "lab")},
			options: codex.Options{Alone: true},
		})
		thread, turn := r.turn("alone", scripted.Say(scripted.MCP("a1", "lab", "ask", nil)), scripted.Say(question("a2")))
		r.ends(thread, turn, "completed")
		if told := r.told("alone", "a1"); !strings.Contains(told, `"action":"decline"`) {
			t.Errorf("the model is told %q", told)
		}
		if told := r.told("alone", "a2"); told == "" || strings.Contains(told, "Yes") {
			t.Errorf("the model is told %q", told)
		}
		for _, method := range []string{"mcpServer/elicitation/request", "item/tool/requestUserInput"} {
			if f := r.client.Frames(method); len(f) > 0 {
				t.Errorf("the client was asked: %s", f[0].Params)
			}
		}
	})
}

// question is what the model asks the user.
func question(call string) scripted.Item {
	return scripted.Call(call, "request_user_input", map[string]any{"questions": []any{map[string]any{
		"id": "confirm", "header": "Confirm", "question": "Proceed?",
		"options": []any{
			map[string]any{"label": "Yes", "description": "go on"},
			map[string]any{"label": "No", "description": "stop"},
		},
	}}})
}

func TestRealUserInputIsTheUsers(t *testing.T) {
	e := epoch(t, automatic, "")
	versions(t, func(t *testing.T, binary string) {
		var asked atomic.Int32
		r := startReal(t, binary, setting{
			epoch: e, config: codextest.Config{More: "default_mode_request_user_input = true\n"},
			answer: atClient(&asked, "item/tool/requestUserInput", map[string]any{"answers": map[string]any{"confirm": map[string]any{"answers": []any{"No"}}}}),
		})
		thread, turn := r.turn("input", scripted.Say(question("u1")))
		r.ends(thread, turn, "completed")
		if told := r.told("input", "u1"); asked.Load() != 1 || !strings.Contains(told, `"No"`) {
			t.Errorf("the client was asked %d times, the model is told %q", asked.Load(), told)
		}
	})
}

// A tool that the client brings is the client's to run.
func TestRealToolsOfTheClient(t *testing.T) {
	e := epoch(t, automatic, "")
	versions(t, func(t *testing.T, binary string) {
		var asked atomic.Int32
		r := startReal(t, binary, setting{epoch: e, answer: atClient(&asked, "item/tool/call", map[string]any{
			"success": true, "contentItems": []any{map[string]any{"type": "inputText", "text": "the client's word"}},
		})})
		r.model.Script("dynamic", scripted.Say(scripted.Call("d1", "errand", map[string]any{"a": 1})))
		thread := r.client.Thread(r.cwd, map[string]any{"dynamicTools": []any{map[string]any{
			"name": "errand", "description": "runs an errand", "inputSchema": map[string]any{"type": "object"},
		}}})
		r.ends(thread, r.client.Turn(thread, "dynamic"), "completed")
		if told := r.told("dynamic", "d1"); asked.Load() != 1 || !strings.Contains(told, "the client's word") {
			t.Errorf("the client was asked %d times, the model is told %q", asked.Load(), told)
		}
	})
}

const humanRules = `allowed_approval_policies = ["on-request"]
[rules]
prefix_rules = [ {pattern=[{token="touch"}], decision="prompt-user", justification="a person has to look"} ]
`

// What only a person may answer is not allowed by anything else, whatever the
// rules and the mode say. Codex has this since 0.171.0.
func TestRealHumanCommand(t *testing.T) {
	e := epoch(t, automatic, denials)
	t.Parallel()
	binary := codextest.Managed(t, codextest.Binary(t, codextest.Newest), humanRules)
	for _, tc := range []struct {
		name, option string
		runs         bool
	}{
		{"accept", `"accept"`, true},
		{"decline", `"decline"`, false},
	} {
		t.Run(tc.name+" by a person at Regent", func(t *testing.T) {
			r := startReal(t, binary, setting{epoch: e, capabilities: []string{"requiredHumanApproval"}})
			name := tc.name + "-ruled" // a rule allows these
			thread, turn := r.turn("human", scripted.Say(scripted.Escalated("h1", "touch "+r.out(name))))
			record := r.waits(thread, "h1")
			if !record.Request.HumanOnly || r.ran(name) {
				t.Errorf("the request is %+v; it has run: %v", record.Request, r.ran(name))
			}
			r.decide(record, tc.option, "", nil)
			r.ends(thread, turn, "completed")
			if r.ran(name) != tc.runs {
				t.Errorf("it has run: %v; the model is told %q", r.ran(name), r.told("human", "h1"))
			}
		})
	}
	t.Run("the client promised nobody", func(t *testing.T) {
		// Regent's people are somebody.
		r := startReal(t, binary, setting{epoch: e, options: codex.Options{Alone: true}})
		thread, turn := r.turn("nobody", scripted.Say(scripted.Escalated("h2", "touch "+r.out("nobody-ruled"))))
		r.decide(r.waits(thread, "h2"), `"decline"`, "", nil)
		r.ends(thread, turn, "completed")
		if r.ran("nobody-ruled") || !strings.Contains(r.told("nobody", "h2"), "rejected by user") {
			t.Errorf("it has run: %v; the model is told %q", r.ran("nobody-ruled"), r.told("nobody", "h2"))
		}
	})
}

const networkRules = `allowed_approval_policies = ["on-request"]
[experimental_network]
enabled = true
`

func TestRealManagedNetwork(t *testing.T) {
	e := epoch(t, manual, `
deny contains "that host is not for agents" if input.request.network.host == "192.88.99.8"
`)
	versions(t, func(t *testing.T, binary string) {
		r := startReal(t, codextest.Managed(t, binary, networkRules), setting{epoch: e})
		// Codex asks about public addresses alone. These are of the relays that RFC 7526
		// has put out of use, and nothing is connected to: every case is refused.
		fetch := func(id, host string) scripted.Step {
			return scripted.Say(scripted.Exec(id, "curl -sS -m 5 http://"+host+":9/"))
		}
		t.Run("decline", func(t *testing.T) {
			thread, turn := r.turn("net decline", fetch("n1", "192.88.99.7"))
			record := r.waits(thread, "")
			if n := record.Request.Network; n == nil || n.Host != "192.88.99.7" {
				t.Errorf("the request is %+v", record.Request)
			}
			r.decide(record, `"decline"`, "", nil)
			r.ends(thread, turn, "completed")
			if told := r.told("net decline", "n1"); !strings.Contains(told, "rejected by user") {
				t.Errorf("the model is told %q", told)
			}
		})
		t.Run("denied by rule", func(t *testing.T) {
			thread, turn := r.turn("net rule", fetch("n2", "192.88.99.8"))
			r.ends(thread, turn, "completed")
			if told := r.told("net rule", "n2"); !strings.Contains(told, "rejected by user") || !r.said("net rule", "that host is not for agents") {
				t.Errorf("the model is told %q", told)
			}
		})
		r.nothingAsked()
	})
}
