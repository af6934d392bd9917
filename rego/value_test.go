package rego

// Internal: what is compared here is the hand-made input, which only the
// evaluation sees.

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/regent-policy/regent/gate/approval"
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
		built, err := in.value()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ast.JSON(built)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(withoutEmpty(want), withoutEmpty(got)); diff != "" {
			t.Errorf("%s\n(-JSON +built):\n%s", text, diff)
		}
	}
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
