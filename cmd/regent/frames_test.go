package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
)

// TestCheckDecidesEachRecordedQuestion runs the recordings of Codex through
// check: one decision for each message that waits for an answer, and the rest
// counted.
func TestCheckDecidesEachRecordedQuestion(t *testing.T) {
	const frames = "../../harness/codex/testdata/frames"
	versions, err := os.ReadDir(frames)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[approval.Kind]int{}
	for _, version := range versions {
		t.Run(version.Name(), func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(frames, version.Name(), "*.jsonl"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no recordings: %v", err)
			}
			var input strings.Builder
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				input.Write(data)
			}
			asked := map[int]bool{} // by line
			passed, number := 0, 0
			for line := range strings.Lines(input.String()) {
				number++
				var c struct {
					Dir   string
					Frame struct {
						ID     json.RawMessage
						Method string
					}
				}
				if err := json.Unmarshal([]byte(line), &c); err != nil {
					t.Fatal(err)
				}
				if c.Dir == "s2c" && c.Frame.Method != "" && c.Frame.ID != nil {
					asked[number] = true
				} else {
					passed++
				}
			}

			code, stdout, stderr := regent(t, input.String(), "check", "--output", "json")
			if code != exitDone || !strings.Contains(stderr, plural(passed, "frame")+" passed over") {
				t.Fatalf("exit code %d, stderr %q, want 0 and %d frames passed over", code, stderr, passed)
			}
			for line := range strings.Lines(stdout) {
				var d decided
				if err := json.Unmarshal([]byte(line), &d); err != nil {
					t.Fatal(err)
				}
				if !asked[d.Request.Line] {
					t.Errorf("a decision on line %d, which asks nothing or was decided already", d.Request.Line)
				}
				delete(asked, d.Request.Line)
				kinds[d.Request.Kind]++
				if d.Request.ID == nil || d.Failure != nil {
					t.Errorf("line %d: id %s, failure %+v", d.Request.Line, d.Request.ID, d.Failure)
				}
				if d.Route != approval.RouteAsk && d.Route != approval.RouteReview {
					t.Errorf("line %d: route %s without any rule, want that somebody is asked", d.Request.Line, d.Route)
				}
			}
			if len(asked) > 0 {
				t.Errorf("no decision on lines %v", asked)
			}
		})
	}
	for _, kind := range approval.Kinds {
		if kinds[kind] == 0 {
			t.Errorf("no recording has a question of kind %s", kind)
		}
	}
}
