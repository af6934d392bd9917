// Package policies_test decides whole requests with the engine as it ships: the
// built-in policies, the tables, and the rules of examples.
package policies_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

var update = flag.Bool("update", false, "write what the tests would compare with")

// generous bounds one evaluation.
const generous = 10 * time.Second

// folder writes files below a new folder.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// workspace is a source whose workspace layer holds one file of rules.
func workspace(t testing.TB, rules string) rego.Source {
	t.Helper()
	dir := folder(t, map[string]string{"policies/rules.rego": rules})
	return rego.Source{
		Settings: settings(),
		Layers:   []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}}},
	}
}

// settings are the defaults, with mode manual and time enough for a machine that
// is busy with other tests.
func settings() rego.Settings {
	s := rego.DefaultSettings()
	s.Mode = "manual"
	s.Timeout = generous
	return s
}

func load(t testing.TB, src rego.Source) *rego.Policy {
	t.Helper()
	p, err := rego.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request decodes a request.
func request(t testing.TB, text string) *approval.Request {
	t.Helper()
	r, err := approval.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

// bash is a command in a folder.
func bash(text, cwd string) *approval.Request {
	return &approval.Request{
		Kind:        approval.KindCommand,
		Command:     &approval.Command{Shell: "bash", Text: text},
		Environment: &approval.Environment{Cwd: cmp.Or(cwd, "/workspace/app"), Home: "/home/dev"},
	}
}

// rule decides and refuses a failure that the test does not expect: it asks, as
// many a rule does.
func rule(t testing.TB, p *rego.Policy, r *approval.Request) approval.Ruling {
	t.Helper()
	out := p.Rule(t.Context(), r)
	if out.Failure != nil {
		t.Fatalf("policy could not rule: %+v", *out.Failure)
	}
	return out
}

// wantRoute checks a route and, in order, the ids of the rules.
func wantRoute(t testing.TB, got approval.Ruling, route approval.Route, ids ...string) {
	t.Helper()
	fired := []string{}
	for _, m := range got.Rules {
		fired = append(fired, m.ID)
	}
	if got.Route != route || fmt.Sprint(fired) != fmt.Sprint(ids) {
		t.Errorf("route %s by %v, want %s by %v; reasons %q", got.Route, fired, route, ids, got.Reasons)
	}
}
