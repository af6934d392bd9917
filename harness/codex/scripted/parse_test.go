package scripted_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/codex/scripted"
)

func TestAFileSaysWhatTheFunctionsSay(t *testing.T) {
	file, functions := listen(t), listen(t)
	err := file.model.Parse([]byte(`{"one": [
		[{"call": "a", "exec": "ls"}, {"message": "and"}],
		[{"call": "b", "escalated": "touch x"}, {"call": "c", "patch": "*** Begin Patch\n"}],
		[{"permissions": {"network": {"enabled": true}}}],
		[{"mcp": {"server": "lab", "tool": "look", "arguments": {"a": "b"}}}, {"tool": {"name": "plan"}}],
		[{"raw": {"type": "reasoning"}}],
		[]
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	functions.model.Script("one",
		scripted.Say(scripted.Exec("a", "ls"), scripted.Message("and")),
		scripted.Say(scripted.Escalated("b", "touch x"), scripted.Patch("c", "*** Begin Patch\n")),
		scripted.Say(scripted.Permissions("", map[string]any{"network": map[string]any{"enabled": true}})),
		scripted.Say(scripted.MCP("", "lab", "look", map[string]any{"a": "b"}), scripted.Call("", "plan", nil)),
		scripted.Say(scripted.Item{"type": "reasoning"}),
		scripted.Say(),
	)
	for n := range 7 {
		_, want, err := functions.post(t.Context(), conversation("one"), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := file.post(t.Context(), conversation("one"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("response %d (-functions +file):\n%s", n+1, diff)
		}
	}
}

func TestAFileThatIsNoScriptSaysWhere(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"not JSON":           {`{`, "EOF"},
		"a list":             {`[]`, "array"},
		"a misspelt item":    {`{"one":[[{"exce":"ls"}]]}`, "exce"},
		"a misspelt member":  {`{"one":[[{"mcp":{"name":"look"}}]]}`, "name"},
		"an empty item":      {`{"one":[[{"message":"a"}],[{"message":"b"},{"call":"c"}]]}`, `prompt "one", response 2, item 2 says 0 things`},
		"two things at once": {`{"one":[[{"message":"a","patch":"b"}]]}`, `response 1, item 1 says 2 things`},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t)
			p.model.Script("one", say("1.1"))
			err := p.model.Parse([]byte(test.text))
			if !errors.Is(err, scripted.ErrScript) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want one that says %q", err, test.want)
			}
			if got := p.ask(conversation("one"), nil); got != "1.1" {
				t.Errorf("a script was taken: %q", got)
			}
		})
	}
}
