package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/plugin"
)

// TestNotifier builds the example, runs it through the contract, and tells it
// something.
func TestNotifier(t *testing.T) {
	program := filepath.Join(t.TempDir(), "notifier-go")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "notices.jsonl")
	tested := config.Plugin{Command: []string{program, os.DevNull}}
	if r := plugin.Conform(t.Context(), tested, plugin.ConformOptions{Timeout: 20 * time.Second}); !r.OK() {
		t.Errorf("report = %+v", r)
	}
	h := plugin.NewHost(plugin.Options{})
	defer h.Close()
	s := h.Open(t.Context(), map[string]config.Plugin{"log": {Command: []string{program, file}}})
	defer s.Close()
	err := s.Notify(t.Context(), "log", plugin.Notice{ID: "n1", Event: "pending", Notification: json.RawMessage(`{"version":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event":"pending","id":"n1","notification":{"version":1}}` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}
