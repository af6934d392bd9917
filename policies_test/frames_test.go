package policies_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/rego"
)

// questions are what the recordings of Codex ask, by recording.
func questions(t *testing.T) map[string][]*codex.Question {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "harness", "codex", "testdata", "frames", "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	asked := map[string][]*codex.Question{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)
		var in codex.Intake
		for line := range bytes.Lines(text) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			q, err := in.Message(line)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if q != nil {
				asked[name] = append(asked[name], q)
			}
		}
	}
	return asked
}

// What Codex really asked is decided: by default nothing runs unasked, and what
// harness_mode auto_allow accepts is of a kind that it covers.
func TestRecordingsOfCodexAreDecided(t *testing.T) {
	t.Parallel()
	manual := load(t, rego.Source{Settings: settings()})
	s := settings()
	s.HarnessMode = "auto_allow"
	auto := load(t, rego.Source{Settings: s})

	kinds := map[approval.Kind]int{}
	for name, list := range questions(t) {
		for _, q := range list {
			kinds[q.Request.Kind]++
			if p := q.Request.Permissions; p != nil && p.IsEmpty() {
				// Codex asks for nothing where it did not find the environment.
				if got := rule(t, manual, q.Request); got.Route != approval.RouteAsk || !slices.Contains(got.Effects, approval.EffectUnknown) {
					t.Errorf("%s: route %s, effects %v for no permissions at all, want ask and unknown", name, got.Route, got.Effects)
				}
				continue
			}
			got := rule(t, manual, q.Request)
			if got.Route != approval.RouteAsk {
				t.Errorf("%s: route %s for %s, want ask by default; %q", name, got.Route, q.Method, got.Reasons)
			}
			if got.ReadOnly && got.External {
				t.Errorf("%s: both read only and external", name)
			}
			switch q.Request.Kind {
			case approval.KindNetwork:
				if !slices.Equal(got.Effects, []approval.Effect{approval.EffectNetwork}) || !got.External {
					t.Errorf("%s: effects %v, external %v of a host, want network", name, got.Effects, got.External)
				}
			case approval.KindMCP:
				if !slices.Contains(got.Effects, approval.EffectUnknown) || !got.External {
					t.Errorf("%s: effects %v, external %v of a server's tool, want unknown", name, got.Effects, got.External)
				}
			case approval.KindPermissions:
				network := !q.Request.Permissions.IsEmpty() && q.Request.Permissions.Network.All
				if network != slices.Contains(got.Effects, approval.EffectNetwork) || network != got.External {
					t.Errorf("%s: effects %v, external %v of permissions, network: %v", name, got.Effects, got.External, network)
				}
			case approval.KindFileChange:
				if !slices.Contains(got.Effects, approval.EffectWrite) && !slices.Contains(got.Effects, approval.EffectUnknown) {
					t.Errorf("%s: effects %v of a file change", name, got.Effects)
				}
			}
			accepted := rule(t, auto, q.Request).Route == approval.RouteAllow
			if q.Request.HumanOnly && accepted {
				t.Errorf("%s: %s is for a person and was accepted", name, q.Method)
			}
			if q.Request.Kind == approval.KindFileChange && len(q.Request.Changes) == 0 && accepted {
				t.Errorf("%s: a file change without its content was accepted", name)
			}
			if q.Request.Kind == approval.KindMCP && accepted {
				t.Errorf("%s: a server's tool was accepted", name)
			}
		}
	}
	for _, kind := range []approval.Kind{approval.KindCommand, approval.KindFileChange, approval.KindPermissions, approval.KindMCP, approval.KindNetwork, approval.KindTool} {
		if kinds[kind] == 0 {
			t.Errorf("no recording asks about a %s", kind)
		}
	}
}

// Commands that Codex asked about and that only read may skip; those that do not
// may not. The wrapper that Codex puts around each is seen through.
func TestRecordedCommandsAreSeenThroughTheirWrapper(t *testing.T) {
	t.Parallel()
	s := settings()
	s.ReadOnlyCommands = "skip"
	p := load(t, rego.Source{Settings: s})
	for name, list := range questions(t) {
		for _, q := range list {
			if q.Request.Kind != approval.KindCommand {
				continue
			}
			c, err := p.Classify(t.Context(), q.Request)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Nodes) == 0 {
				t.Errorf("%s: no command found in %+v", name, *q.Request.Command)
			}
			skipped := rule(t, p, q.Request).Route == approval.RouteSkip
			if skipped != (c.ReadOnly && !q.Request.HumanOnly) {
				t.Errorf("%s: skipped %v, read only %v: %q", name, skipped, c.ReadOnly, q.Request.Command.Text)
			}
			if q.Request.Permissions != nil && skipped {
				t.Errorf("%s: skipped although it asks for more permissions", name)
			}
		}
	}
}
