package rego_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// TestRegentGuardsItself asks with everything allowed: only the guard stands
// between the call and the file.
func TestRegentGuardsItself(t *testing.T) {
	dir := write(t, map[string]string{
		"config.yaml":        "version: 1\n",
		"policies/all.rego":  "package rules.all\n\nallow contains \"everything\"\n",
		"src/main.go":        "package main\n",
		"policies/data.yaml": "a: 1\n",
	})
	s := rego.DefaultSettings()
	s.Mode, s.HarnessMode, s.ReadOnlyCommands = "auto_allow", "auto_allow", "skip"
	p := load(t, rego.Source{
		Settings:  s,
		Layers:    []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}}},
		Protected: []string{filepath.Join(dir, "config.yaml")},
	})
	tests := []struct {
		name, command string
		asked         bool
	}{
		{"writing a policy", "echo x > policies/all.rego", true},
		{"writing a new policy", "echo x > policies/new.rego", true},
		{"writing the configuration", "sed -i s/manual/auto_allow/ config.yaml", true},
		{"by its whole path", "tee " + dir + "/config.yaml < src/main.go", true},
		{"after changing folder", "cd policies && rm all.rego", true},
		{"removing the folder", "rm -rf policies", true},
		{"moving the folder above away", "mv " + dir + " /tmp/elsewhere", true},
		{"with a program that is not known", "frobnicate policies/all.rego", true},
		{"through an interpreter that names it", "python3 fix.py config.yaml", true},
		{"in a folder that cannot be told", "cd $X && echo x >> .regent/config.yaml", true},
		{"below a folder that cannot be told", "echo x >> $D/.regent/config.yaml", true},
		{"by a pattern", "rm polic*/all.rego", true},
		{"the hooks of an agent", "echo '{}' > .claude/settings.json", true},
		{"the configuration of Codex at home", "cp x ~/.codex/config.toml", true},
		{"reading a policy", "cat policies/all.rego", false},
		{"searching all of it", "grep -rn allow .", false},
		{"writing something else", "echo x > src/main.go", false},
		{"a file with a name like it", "echo x > src/config.yaml.bak", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := command(tt.command)
			r.Environment.Cwd = dir
			got := p.Rule(t.Context(), r)
			if asked := got.Route == approval.RouteAsk; asked != tt.asked {
				t.Errorf("%s: route %s (%v)", tt.command, got.Route, got.Reasons)
			}
			if tt.asked && !strings.Contains(strings.Join(got.Reasons, "\n"), "Regent's own decisions") {
				t.Errorf("%s: reasons %v do not tell why", tt.command, got.Reasons)
			}
		})
	}
	t.Run("without a folder", func(t *testing.T) {
		r := command("echo x >> .regent/config.yaml")
		r.Environment = nil
		if got := p.Rule(t.Context(), r); got.Route != approval.RouteAsk {
			t.Errorf("route %s (%v)", got.Route, got.Reasons)
		}
	})
	t.Run("a patch", func(t *testing.T) {
		got := p.Rule(t.Context(), &approval.Request{
			Kind:        approval.KindFileChange,
			Changes:     []approval.Change{{Path: "src/main.go", Operation: "update", MovePath: "policies/x.rego"}},
			Environment: &approval.Environment{Cwd: dir},
			Harness:     &approval.Harness{Name: "codex"},
		})
		if got.Route != approval.RouteAsk {
			t.Errorf("route %s (%v)", got.Route, got.Reasons)
		}
	})
}

// TestWhatIsSealedIsPartOfTheEpoch: two homes with the same files have one epoch,
// and what is sealed in them counts.
func TestWhatIsSealedIsPartOfTheEpoch(t *testing.T) {
	source := func(names ...string) rego.Source {
		dir := write(t, map[string]string{"policies/all.rego": "package home.rules.all\n\nallow contains \"everything\"\n"})
		src := rego.Source{
			Settings: rego.DefaultSettings(),
			Layers:   []rego.Layer{{Name: rego.Home, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}}},
		}
		for _, name := range names {
			src.Sealed = append(src.Sealed, filepath.Join(dir, name))
		}
		return src
	}
	one := load(t, source("runtime")).Epoch()
	if other := load(t, source("runtime")).Epoch(); other != one {
		t.Error("the same home in another folder has another epoch")
	}
	if other := load(t, source("runtime", "tokens.json")).Epoch(); other == one {
		t.Error("one more sealed file has the same epoch")
	}
	listening := source("runtime")
	listening.SealedHosts = []string{"127.0.0.1:7340"}
	if load(t, listening).Epoch() == one {
		t.Error("a sealed address has the same epoch")
	}
}

// TestPastTheLimitsOfTheGuardAPersonIsAsked holds the limits on what the guard looks up:
// a request that would take long is not worth it, and is never allowed.
func TestPastTheLimitsOfTheGuardAPersonIsAsked(t *testing.T) {
	src := workspace(t, map[string]string{"all.rego": "package rules.all\n\nallow contains \"everything\"\n"})
	src.Sealed = []string{"/home/dev/.regent/runtime"}
	src.SealedHosts = []string{"127.0.0.1:7340"}
	p := load(t, src)
	for _, part := range []string{"runtime ", "regent ", "x/runtime,", "7340 localhost "} {
		text := strings.Repeat(part, 1<<18/len(part))
		raw, err := json.Marshal(map[string]any{"text": text, "list": strings.Fields(text)})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Rule(t.Context(), &approval.Request{
			Kind:        approval.KindMCP,
			Tool:        &approval.Tool{Server: "files", Name: "do", Arguments: raw},
			Environment: &approval.Environment{Cwd: "/workspace/app", Home: "/home/dev"},
		})
		if got.Route != approval.RouteAsk && got.Route != approval.RouteDeny {
			t.Errorf("%q again and again: route %s (%v)", part, got.Route, got.Reasons)
		}
	}
}
