package policies_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// guarded is an engine that would allow everything, in a project with a policy
// folder, and what it must not let pass without a person.
func guarded(t *testing.T, rules string) (p *rego.Policy, dir string) {
	t.Helper()
	dir = folder(t, map[string]string{
		".regent/config.yaml":         "version: 1\n",
		".regent/policies/rules.rego": rules,
		".regent/policies/data.yaml":  "a: 1\n",
		"src/main.go":                 "package main\n",
		".claude/settings.json":       "{}\n",
	})
	if err := os.Symlink(filepath.Join(dir, ".regent"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := settings()
	s.Mode, s.HarnessMode, s.ReadOnlyCommands = "auto_allow", "auto_allow", "skip"
	return load(t, rego.Source{
		Settings:  s,
		Layers:    []rego.Layer{{Name: rego.Workspace, Dir: filepath.Join(dir, ".regent"), Paths: []string{filepath.Join(dir, ".regent", "policies")}}},
		Protected: []string{filepath.Join(dir, ".regent", "config.yaml")},
	}), dir
}

const allowAll = "package rules.all\n\nallow contains \"everything\" if input.request\n"

func TestRegentGuardsItself(t *testing.T) {
	t.Parallel()
	p, dir := guarded(t, allowAll)
	change := func(path string) string {
		return `{"kind": "file_change", "changes": [{"path": "` + path + `", "operation": "update"}], "harness": {"name": "codex"}}`
	}
	command := func(text string) string {
		raw, err := json.Marshal(map[string]any{"kind": "command", "command": map[string]any{"text": text}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, tt := range map[string]struct {
		request string
		want    approval.Route
	}{
		"a redirection into the configuration": {command("echo 'version: 1' > .regent/config.yaml"), approval.RouteAsk},
		"a rule by its whole name":             {command("rm " + dir + "/.regent/policies/rules.rego"), approval.RouteAsk},
		"data of the rules":                    {command("sed -i s/1/2/ .regent/policies/data.yaml"), approval.RouteAsk},
		"a new file among the rules":           {command("touch .regent/policies/new.rego"), approval.RouteAsk},
		"the folder from inside":               {command("cd .regent/policies && rm rules.rego"), approval.RouteAsk},
		"by way of a link":                     {command("cp x link/policies/rules.rego"), approval.RouteAsk},
		"by way of dots":                       {command("tee src/../.regent/config.yaml"), approval.RouteAsk},
		"the folder above":                     {command("rm -rf ."), approval.RouteAsk},
		"the folder above, moved":              {command("mv .regent old"), approval.RouteAsk},
		"a program that nobody knows":          {command("frobnicate .regent/policies/rules.rego"), approval.RouteAsk},
		"an interpreter":                       {command("python3 fix.py .regent/config.yaml"), approval.RouteAsk},
		"behind a wrapper":                     {command("sudo bash -c 'echo x >> .regent/config.yaml'"), approval.RouteAsk},
		"the settings of an agent":             {command("echo '{}' > .claude/settings.json"), approval.RouteAsk},
		"a patch of a rule":                    {change(".regent/policies/rules.rego"), approval.RouteAsk},
		"a patch by way of a link":             {change("link/config.yaml"), approval.RouteAsk},
		"a tool that writes": {
			`{"kind": "tool", "tool": {"name": "write_file", "arguments": {"path": ".regent/config.yaml", "content": ""}}}`, approval.RouteAsk,
		},

		"a reader of a rule":    {command("cat .regent/policies/rules.rego"), approval.RouteAllow},
		"a search in all files": {command("grep -rn allow .regent"), approval.RouteAllow},
		"another file":          {command("rm src/main.go"), approval.RouteAllow},
		"a patch elsewhere":     {change("src/main.go"), approval.RouteAllow},
		"a similar name":        {command("touch .regent.md regent/config.yaml"), approval.RouteAllow},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, tt.request)
			r.Environment = &approval.Environment{Cwd: dir, Home: "/home/dev"}
			got := rule(t, p, r)
			if got.Route != tt.want {
				t.Errorf("route %s, want %s; %q", got.Route, tt.want, got.Reasons)
			}
			if told := strings.Contains(strings.Join(got.Reasons, "\n"), "Regent's own decisions depend on"); told != (tt.want == approval.RouteAsk) {
				t.Errorf("reasons %q", got.Reasons)
			}
		})
	}
}

func TestADenyOutranksTheGuard(t *testing.T) {
	t.Parallel()
	p, dir := guarded(t, allowAll+"\ndeny contains \"no\" if \"rm\" in input.facts.programs\n")
	got := rule(t, p, bash("rm .regent/policies/rules.rego", dir))
	if got.Route != approval.RouteDeny {
		t.Errorf("route %s, want deny", got.Route)
	}
}

func TestTheGuardHoldsInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"manual", "auto_allow", "model_review"} {
		for _, untrusted := range []bool{false, true} {
			dir := folder(t, map[string]string{"policies/a.rego": allowAll})
			s := settings()
			s.Mode = mode
			s.Reviewers = map[string]bool{s.Reviewer: true}
			p := load(t, rego.Source{Settings: s, Layers: []rego.Layer{{
				Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}, Untrusted: untrusted,
			}}})
			if got := rule(t, p, bash("echo x >> policies/a.rego", dir)); got.Route != approval.RouteAsk {
				t.Errorf("mode %s, untrusted %v: route %s, want ask", mode, untrusted, got.Route)
			}
		}
	}
}
