package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
)

// TestCheckDecidesEachRecordedQuestion runs every recording of Codex through
// check: one decision for each message that waits for an answer, none that
// nobody has to approve, and the rest counted.
func TestCheckDecidesEachRecordedQuestion(t *testing.T) {
	const frames = "../../harness/codex/testdata/frames"
	files, err := filepath.Glob(filepath.Join(frames, "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	kinds := map[approval.Kind]int{}
	for _, file := range files {
		name, err := filepath.Rel(frames, file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			for line := range bytes.Lines(data) {
				var c struct {
					Dir   string
					Frame struct {
						ID     json.RawMessage
						Method string
					}
				}
				if err := json.Unmarshal(line, &c); err != nil {
					t.Fatal(err)
				}
				if c.Dir == "s2c" && c.Frame.Method != "" && c.Frame.ID != nil {
					asked++
				}
			}
			code, stdout, stderr := regent(t, "", "check", "--output", "json", "--input", file)
			if code != exitDone {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
			if stdout == "" {
				lines = nil
			}
			if len(lines) != asked {
				t.Fatalf("%d decisions, want %d", len(lines), asked)
			}
			for _, line := range lines {
				var d decided
				if err := json.Unmarshal([]byte(line), &d); err != nil {
					t.Fatal(err)
				}
				kinds[d.Request.Kind]++
				if d.Request.ID == nil || d.Failure != nil {
					t.Errorf("line %d: id %s, failure %+v", d.Request.Line, d.Request.ID, d.Failure)
				}
				if d.Route != approval.RouteAsk && d.Route != approval.RouteReview {
					t.Errorf("line %d: route %s without any rule, want that somebody is asked", d.Request.Line, d.Route)
				}
			}
			if !strings.Contains(stderr, "passed over") && bytes.Count(data, []byte("\n")) > asked {
				t.Errorf("stderr %q does not count the other frames", stderr)
			}
		})
	}
	for _, kind := range approval.Kinds {
		if kinds[kind] == 0 {
			t.Errorf("no recording has a question of kind %s", kind)
		}
	}
}
