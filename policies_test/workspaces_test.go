package policies_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/cases"
)

// shippedWorkspaces are the folders of every example, and what `regent init`
// writes.
func shippedWorkspaces(t *testing.T) map[string]string {
	t.Helper()
	starter := filepath.Join(t.TempDir(), "starter")
	if _, err := config.Init(starter); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{"starter": starter}
	configs, err := filepath.Glob(filepath.Join(root, "examples", "*", config.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs {
		dir := filepath.Dir(c)
		found[filepath.Base(dir)] = dir
	}
	if found["quickstart"] == "" {
		t.Fatal("examples/quickstart is not there")
	}
	return found
}

// setup reads a workspace as the command line does.
func setup(t *testing.T, dir string) *gate.Setup {
	t.Helper()
	s, err := gate.Read(gate.Options{Workspace: dir, Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("warnings: %v", s.Warnings)
	}
	s.Source.Settings.Timeout = generous
	return s
}

func TestShippedWorkspacesPassTheirTests(t *testing.T) {
	t.Parallel()
	for name, dir := range shippedWorkspaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := cases.Run(t.Context(), setup(t, dir).Source, cases.Options{Coverage: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Results {
				if r.Status != cases.Pass {
					t.Errorf("%s:%d: %s: %s: %s", r.File, r.Line, r.Name, r.Status, r.Message)
				}
			}
			if len(report.Results) == 0 {
				t.Error("no tests")
			}
			for _, f := range report.Coverage.Files {
				if len(f.Uncovered) > 0 {
					t.Errorf("%s: nothing evaluates lines %v", f.File, f.Uncovered)
				}
			}
		})
	}
}

// A rule that no case names could be taken out and nobody would see it.
func TestEveryRuleOfTheExamplesAppearsInACase(t *testing.T) {
	t.Parallel()
	for name, dir := range shippedWorkspaces(t) {
		if name == "starter" {
			continue // it has unit tests alone, so that a newcomer starts with one kind
		}
		report, err := cases.Run(t.Context(), setup(t, dir).Source, cases.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Unfired {
			t.Errorf("%s: no case names %s while it fires", name, r.Describe())
		}
	}
}

// The calls of the tour have the answers that its page promises.
func TestQuickstartRequests(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "examples", "quickstart")
	p := load(t, setup(t, dir).Source)
	want := map[string]string{
		"force-push.json": "deny GIT-001",
		"read-only.json":  "skip",
		"secret.json":     "deny SEC-001",
		"session.jsonl": `skip
skip
ask
ask
deny SEC-001
ask PUB-001
ask K8S-001
ask FS-001
deny GIT-001
ask
ask`,
	}
	files, err := filepath.Glob(filepath.Join(dir, "requests", "*"))
	if err != nil || len(files) != len(want) {
		t.Fatalf("files = %v, %v, want %d", files, err, len(want))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		requests := [][]byte{text}
		if strings.HasSuffix(file, ".jsonl") {
			requests = nil
			for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
				requests = append(requests, bytes.Clone(s.Bytes()))
			}
		}
		var got []string
		for _, raw := range requests {
			r, err := approval.Decode(raw)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			ruling := rule(t, p, r)
			line := string(ruling.Route)
			for _, m := range ruling.Rules {
				line += " " + m.ID
			}
			got = append(got, line)
		}
		if g := strings.Join(got, "\n"); g != want[filepath.Base(file)] {
			t.Errorf("%s: got\n%s\nwant\n%s", file, g, want[filepath.Base(file)])
		}
	}
}
