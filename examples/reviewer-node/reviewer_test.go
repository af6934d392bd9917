package reviewer_test

import (
	"os"
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

// TestReviewer runs the example through the contract, and asks it what a host would.
func TestReviewer(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Skip("its packages are not installed; run npm ci in examples/reviewer-node")
	}
	// The script is what is pinned, so it is started by its first line.
	program, err := filepath.Abs("reviewer.js")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	digest, err := plugin.Sum(program)
	if err != nil {
		t.Fatal(err)
	}
	p := config.Plugin{Command: []string{program}, SHA256: digest, Env: []string{"PATH"}}
	if r := plugin.Conform(t.Context(), p, plugin.ConformOptions{Timeout: 30 * time.Second}); !r.OK() {
		t.Errorf("report = %+v", r)
	}
	h := plugin.NewHost(plugin.Options{StartTimeout: 30 * time.Second})
	defer h.Close()
	c := config.Default("")
	c.Plugins = map[string]config.Plugin{"acme": p}
	c.Reviewers = map[string]config.Reviewer{"acme/risk": {Kind: config.ReviewerPlugin, Plugin: "acme"}}
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
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
