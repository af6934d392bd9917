package rego

// Internal: what is compared here is the hand-made input, which only the
// evaluation sees.

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// TestInputIsTheJSONForm holds the values that are built for OPA to the JSON
// form of the Go types, which the schemas describe.
func TestInputIsTheJSONForm(t *testing.T) {
	p, err := Load(t.Context(), Source{Settings: DefaultSettings()})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"kind":"command","command":{"shell":"bash","text":"FOO=1 env A=b sort -o out.txt < in.txt; cd sub && git push --force $x 2>/dev/null; cat \"$(id)\" | xargs rm; curl -s https://Example.com/x"},
		  "environment":{"id":"local","cwd":"/workspace/app","home":"/home/dev","tmp_dir":"/tmp","project_roots":["/workspace/app"]},
		  "permissions":{"network":{"enabled":true},"file_system":{"write":["/w"]}},"escalated":true,"human_only":true,"host_allows":false,
		  "reason":"because","options":["accept",{"x":{"y":[1,2.5,null,true]}}],"run":{"id":"r","instance":"i"},
		  "session":{"id":"s","turn_id":"t","call_id":"c"},"harness":{"name":"codex","version":"0.171.0"},"subject":{"id":"a","on_behalf_of":"b"}}`,
		`{"kind":"command","command":{"text":"echo 'unclosed"}}`,
		`{"kind":"mcp","tool":{"name":"purge","server":"notes","arguments":{"a":{"b":["c"]}},"description":"d","annotations":{"title":"T","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}}`,
		`{"kind":"file_change","changes":[{"path":"a","operation":"update","move_path":"b","diff":"@@"},{"path":".regent/config.yaml","operation":"delete"}],"grant_root":"/w","environment":{"cwd":"/workspace"}}`,
		`{"kind":"network","network":{"host":"EXAMPLE.com.","port":443,"protocol":"https"}}`,
		`{"kind":"tool","tool":{"name":"run_command","arguments":{"command":"sed -i s/a/b/ /workspace/.regent/config.yaml"}}}`,
	} {
		r, err := approval.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		in := p.facts.input(r)
		in.hold(permission.Profile{Network: permission.Network{All: true}})
		built, err := in.value(map[string]bool{"sort": true, "git": true})
		if err != nil {
			t.Fatal(err)
		}
		seen := plainJSONOf(t, built).(map[string]any)
		facts := seen["facts"].(map[string]any)["command"].(map[string]any)
		if n := countNodes(facts["by_program"].(map[string]any)); n != len(in.Facts.Command.Nodes) {
			t.Errorf("%s\nby_program has %d of %d commands", text, n, len(in.Facts.Command.Nodes))
		}
		for _, nodes := range facts["by_program"].(map[string]any) {
			for _, node := range nodes.(map[string]any) {
				if !slices.ContainsFunc(facts["nodes"].([]any), func(n any) bool { return cmp.Equal(n, node) }) {
					t.Errorf("%s\n%v is no command of the call", text, node)
				}
			}
		}
		delete(facts, "by_program")
		if diff := cmp.Diff(withoutEmpty(plainJSONOf(t, in)), withoutEmpty(seen)); diff != "" {
			t.Errorf("%s\n(-JSON +built):\n%s", text, diff)
		}
	}
}

func countNodes(byProgram map[string]any) int {
	n := 0
	for _, nodes := range byProgram {
		n += len(nodes.(map[string]any))
	}
	return n
}

// plainJSONOf is what v's JSON form decodes to.
func plainJSONOf(t *testing.T, v any) any {
	t.Helper()
	if object, ok := v.(ast.Object); ok {
		native, err := inputJSON(object)
		if err != nil {
			t.Fatal(err)
		}
		v = native
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// withoutEmpty drops what is empty: the built form keeps some empty lists that
// the JSON form leaves out.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			switch e := withoutEmpty(e).(type) {
			case nil:
			case string:
				if e != "" {
					out[k] = e
				}
			case []any:
				if len(e) > 0 {
					out[k] = e
				}
			case map[string]any:
				if len(e) > 0 {
					out[k] = e
				}
			case bool:
				if e {
					out[k] = e
				}
			default:
				out[k] = e
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutEmpty(v[i])
		}
		return out
	default:
		return v
	}
}
