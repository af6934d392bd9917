package approval_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
)

const full = `{"kind": "command",
 "tool": {"name": "exec_command", "server": "", "arguments": {"cmd": "git push --force origin main"}},
 "command": {"shell": "bash", "text": "git push --force origin main"},
 "environment": {"id": "local", "cwd": "/workspace/app"},
 "permissions": {"network": {"enabled": true}},
 "reason": "publish the fix", "options": ["accept", "decline", "cancel"],
 "session": {"id": "s1", "turn_id": "t1", "call_id": "c1"}, "harness": {"name": "codex", "version": "0.171.0"},
 "subject": {"id": "agent:codex", "on_behalf_of": "user:sam"}}`

func TestDecodeReadsEveryPart(t *testing.T) {
	r, err := approval.Decode([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != approval.KindCommand || r.Command.Text != "git push --force origin main" || r.Session.CallID != "c1" ||
		r.Harness.Version != "0.171.0" || r.Subject.OnBehalfOf != "user:sam" || len(r.Options) != 3 || !r.Permissions.Network.All {
		t.Errorf("request = %+v", r)
	}
	if r.Native() {
		t.Error("a Codex request counts as native")
	}
}

func TestDecodeIsTheInverseOfEncoding(t *testing.T) {
	r, err := approval.Decode([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := approval.Decode(out)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(r)
	got, _ := json.Marshal(again)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeErrorsNameThePlace(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", ``, "ends too early"},
		{"half a request", `{"kind": "tool"`, "ends too early"},
		{"not JSON", `{"kind": tool}`, "not valid JSON"},
		{"text after the request", `{"kind":"tool","tool":{"name":"x"}} {}`, "not valid JSON"},
		{"an unknown field", `{"kind":"tool","tool":{"name":"x"},"urgent":true}`, "/urgent: unknown field"},
		{"an unknown field further down", `{"kind":"tool","tool":{"name":"x","nmae":"y"}}`, "/tool/nmae: unknown field"},
		{"a field in another case", `{"Kind":"tool","tool":{"name":"x"}}`, "/Kind: unknown field"},
		{"a name given twice", `{"kind":"tool","kind":"mcp","tool":{"name":"x"}}`, "/kind: the name is given twice"},
		{"an argument given twice", `{"kind":"tool","tool":{"name":"x","arguments":{"path":"a","path":"b"}}}`, "the name is given twice"},
		{"a wrong type", `{"kind":"tool","tool":"x"}`, "/tool: a JSON string does not fit here"},
		{"invalid UTF-8", "{\"kind\":\"tool\",\"tool\":{\"name\":\"\xff\"}}", "invalid UTF-8"},
		{"no kind", `{"tool":{"name":"x"}}`, "/kind: is missing"},
		{"an unknown kind", `{"kind":"wish"}`, `/kind: unknown kind "wish"; use one of tool, command`},
		{"a tool without a name", `{"kind":"tool","tool":{}}`, "/tool/name: is missing"},
		{"arguments that are no object", `{"kind":"tool","tool":{"name":"x","arguments":[1]}}`, "/tool/arguments: must be an object"},
		{"kind tool without a tool", `{"kind":"tool"}`, "/tool: is missing for kind tool"},
		{"kind mcp without a server", `{"kind":"mcp","tool":{"name":"x"}}`, "/tool/server: is missing for kind mcp"},
		{"kind command without a command", `{"kind":"command"}`, "/command: is missing"},
		{"an empty command", `{"kind":"command","command":{}}`, "/command: has neither text nor argv"},
		{"a command in two forms", `{"kind":"command","command":{"text":"a","argv":["a"]}}`, "/command: has both text and argv"},
		{"a shell for an argument vector", `{"kind":"command","command":{"shell":"bash","argv":["a"]}}`, "/command/shell"},
		{"kind permissions without a profile", `{"kind":"permissions"}`, "/permissions: is missing"},
		{"an unknown permission", `{"kind":"permissions","permissions":{"camera":true}}`, "camera"},
		{"kind network without a host", `{"kind":"network","network":{"host":""}}`, "/network/host: is missing"},
		{"a change without a path", `{"kind":"file_change","changes":[{"path":"","operation":"add"}]}`, "/changes/0/path: is missing"},
		{"an unknown operation", `{"kind":"file_change","changes":[{"path":"a","operation":"chmod"}]}`, `/changes/0/operation: unknown operation "chmod"`},
		{"a harness without a name", `{"kind":"tool","tool":{"name":"x"},"harness":{"name":""}}`, "/harness/name: is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := approval.Decode([]byte(tt.text))
			if !errors.Is(err, approval.ErrRequest) {
				t.Fatalf("err = %v, want one that wraps ErrRequest", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v\nwant a part: %s", err, tt.want)
			}
		})
	}
}

func TestDecodeRefusesWhatIsTooLarge(t *testing.T) {
	text := `{"kind":"tool","tool":{"name":"` + strings.Repeat("x", approval.MaxRequestBytes) + `"}}`
	if _, err := approval.Decode([]byte(text)); !errors.Is(err, approval.ErrRequest) {
		t.Errorf("err = %v", err)
	}
}

func TestUnknownContentOfAFileChangeIsAFactNotAFault(t *testing.T) {
	if _, err := approval.Decode([]byte(`{"kind":"file_change"}`)); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"kind":"file_change","changes":[{"path":"a","operation":"add"}]}`))
	f.Add([]byte(`{"kind":"mcp","tool":{"name":"x","server":"y","arguments":{"a":[{}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := approval.Decode(data)
		if err != nil {
			if !errors.Is(err, approval.ErrRequest) {
				t.Fatalf("%v does not wrap ErrRequest", err)
			}
			return
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := approval.Decode(out); err != nil {
			t.Fatalf("%s decodes, but what it encodes to does not: %v\n%s", data, err, out)
		}
	})
}
