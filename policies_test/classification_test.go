package policies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// classification is one line of testdata/classification.yaml, which says what
// the fields mean.
type classification struct {
	ID         string            `yaml:"id"`
	Title      string            `yaml:"title"`
	Request    map[string]any    `yaml:"request"`
	Repository *repository       `yaml:"repository"`
	Effects    []approval.Effect `yaml:"effects"`
	Skip       bool              `yaml:"skip"`
	Contested  bool              `yaml:"contested"`
}

type repository struct {
	Config     map[string]string `yaml:"config"`
	Attributes string            `yaml:"attributes"`
}

func classifications(t *testing.T) []classification {
	t.Helper()
	text, err := os.ReadFile("testdata/classification.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var list []classification
	if err := d.Decode(&list); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range list {
		if c.ID == "" || seen[c.ID] || len(c.Effects) == 0 || c.Title == "" {
			t.Fatalf("%+v: no id of its own, no title or no effect", c)
		}
		seen[c.ID] = true
	}
	return list
}

// write makes dir a repository, file by file: nothing here starts git.
func (r *repository) write(t *testing.T, dir string) {
	t.Helper()
	var config strings.Builder
	config.WriteString("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")
	for key, value := range r.Config {
		// core.fsmonitor is section core, diff.doc.textconv is section diff "doc".
		parts := strings.Split(key, ".")
		section := parts[0]
		if len(parts) > 2 {
			section = fmt.Sprintf("%s %q", parts[0], strings.Join(parts[1:len(parts)-1], "."))
		}
		fmt.Fprintf(&config, "[%s]\n\t%s = %s\n", section, parts[len(parts)-1], value)
	}
	files := map[string]string{
		".git/HEAD":          "ref: refs/heads/main\n",
		".git/config":        config.String(),
		".git/objects/.keep": "",
		".git/refs/.keep":    "",
	}
	if r.Attributes != "" {
		files[".gitattributes"] = r.Attributes + "\n"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClassification demands both directions: a harmful call that counts as
// reading is a bug, and so is a harmless one that asks.
func TestClassification(t *testing.T) {
	t.Parallel()
	src := rego.Source{Settings: settings()}
	asking := load(t, src)
	src.Settings.ReadOnlyCommands = "skip"
	skipping := load(t, src)

	for _, c := range classifications(t) {
		t.Run(c.ID+" "+c.Title, func(t *testing.T) {
			dir := "/workspace/app"
			if c.Repository != nil {
				dir = t.TempDir()
				c.Repository.write(t, dir)
			}
			c.Request["environment"] = map[string]any{"cwd": dir, "home": "/home/dev"}
			raw, err := json.Marshal(c.Request)
			if err != nil {
				t.Fatal(err)
			}
			r := request(t, string(raw))

			found, err := asking.Classify(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(c.Effects, func(e approval.Effect) bool { return slices.Contains(found.Effects, e) }) {
				t.Errorf("effects %v, want one of %v among them; %q", found.Effects, c.Effects, found.Why)
			}
			ruling := rule(t, skipping, r)
			if !slices.Equal(ruling.Effects, found.Effects) || ruling.ReadOnly != found.ReadOnly || ruling.External != found.External {
				t.Errorf("a ruling says %v, external %v, read only %v; the classification %v, %v, %v",
					ruling.Effects, ruling.External, ruling.ReadOnly, found.Effects, found.External, found.ReadOnly)
			}
			if c.Contested {
				return
			}
			if found.ReadOnly != c.Skip {
				t.Errorf("read only %v, want %v; effects %v, %q", found.ReadOnly, c.Skip, found.Effects, found.Why)
			}
			if skipped := ruling.Route == approval.RouteSkip; skipped != c.Skip {
				t.Errorf("route %s where reading skips, want skip: %v; %q", ruling.Route, c.Skip, ruling.Reasons)
			}
			if got := rule(t, asking, r); got.Route != approval.RouteAsk {
				t.Errorf("route %s where read_only_commands is ask, want ask", got.Route)
			}
		})
	}
}

// A repository whose configuration starts nothing lets git read unasked; one key
// that may start something, and git in an unknown folder, do not.
func TestGitReadsOnlyWhereTheRepositoryIsInert(t *testing.T) {
	t.Parallel()
	s := settings()
	s.ReadOnlyCommands = "skip"
	p := load(t, rego.Source{Settings: s})
	for name, tt := range map[string]struct {
		config map[string]string
		text   string
		want   approval.Route
	}{
		"a plain repository":            {nil, "git status --short", approval.RouteSkip},
		"a log of it, cut short":        {nil, "git log --oneline -5 | head -3", approval.RouteSkip},
		"keys that start nothing":       {map[string]string{"user.name": "x", "remote.origin.url": "https://example.com/x"}, "git status", approval.RouteSkip},
		"a monitor":                     {map[string]string{"core.fsmonitor": "./hook"}, "git status", approval.RouteAsk},
		"a pager":                       {map[string]string{"core.pager": "./hook"}, "git log", approval.RouteAsk},
		"a filter":                      {map[string]string{"filter.x.clean": "./hook"}, "git status", approval.RouteAsk},
		"another file":                  {map[string]string{"include.path": "../other"}, "git status", approval.RouteAsk},
		"a key that nobody knows":       {map[string]string{"x.y": "z"}, "git status", approval.RouteAsk},
		"a command that writes":         {nil, "git add .", approval.RouteAsk},
		"a reader with an option":       {nil, "git diff --output=x", approval.RouteAsk},
		"a folder that cannot be told":  {nil, `cd "$DIR" && git status`, approval.RouteAsk},
		"a folder outside a repository": {nil, "git -C / status", approval.RouteAsk},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			(&repository{Config: tt.config}).write(t, dir)
			wantRoute(t, rule(t, p, bash(tt.text, dir)), tt.want)
		})
	}
}

// The limits of an analysis may not be a way past a rule.
func TestALongCommandDoesNotGetPastADeny(t *testing.T) {
	t.Parallel()
	p := load(t, workspace(t, `package rules.net

import data.regent.lib.command

# METADATA
# custom: {id: NET-001}
deny contains "no downloads with curl" if command.runs("curl")
`))
	for name, text := range map[string]string{
		"fifty commands":       strings.Repeat("true && ", 50) + "curl -s https://example.com/x",
		"three thousand":       strings.Repeat("true && ", 3000) + "curl -s https://example.com/x",
		"deep inside":          strings.Repeat("(", 20) + "curl -s https://example.com/x" + strings.Repeat(")", 20),
		"a pipe into a loop":   "cat list | while read u; do curl -s \"$u\"; done",
		"behind four wrappers": "sudo env A=1 timeout 5 nice curl -s https://example.com/x",
		"in a substitution":    `echo "$(echo "$(curl -s https://example.com/x)")"`,
		"before broken syntax": "curl -s https://example.com/x; if then",
	} {
		t.Run(name, func(t *testing.T) {
			wantRoute(t, rule(t, p, bash(text, "")), approval.RouteDeny, "NET-001")
		})
	}
}
