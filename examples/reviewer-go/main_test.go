package main_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/reviewer"
)

// TestReviewer builds the example, runs it through the contract, and asks it what a
// host would.
func TestReviewer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "reviewer-go")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := config.Plugin{Command: []string{program}}
	if r := plugin.Conform(t.Context(), p, plugin.ConformOptions{Timeout: 20 * time.Second}); !r.OK() {
		t.Errorf("report = %+v", r)
	}
	h := plugin.NewHost(plugin.Options{})
	defer h.Close()
	c := config.Default("")
	c.Plugins = map[string]config.Plugin{"acme": p}
	c.Reviewers = map[string]config.Reviewer{"acme/risk": {Kind: config.ReviewerPlugin, Plugin: "acme"}}
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	r, err := s.Reviewer(c, "acme/risk")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text     string
		readOnly bool
		want     approval.VerdictOutcome
	}{
		{"ls -l", true, approval.VerdictAllow},
		{"git push --force origin main", false, approval.VerdictDeny},
		{"git push origin main", false, approval.VerdictUnsure},
	} {
		v := r.Review(t.Context(), reviewer.Question{
			ID:      "a1",
			Request: &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: test.text}},
			Ruling:  approval.Ruling{ReadOnly: test.readOnly},
		})
		if diff := cmp.Diff(test.want, v.Outcome); diff != "" {
			t.Errorf("%s: %s\n%s", test.text, v.Rationale, diff)
		}
	}
}
