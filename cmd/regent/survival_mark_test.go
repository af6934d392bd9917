package main

import (
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// The daemon notes by itself that an answer was written, and a host that marks it
// too must not lose against that: "a mark that is there already is left as it is".
func TestMarksAreNoConflict(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.serve()
	agent := s.agent()
	for range 200 {
		a, err := agent.Post(s.soon(), posts("make test"))
		if err != nil || a.Outcome != approval.OutcomeAllow {
			t.Fatalf("%q, %v", a.Outcome, err)
		}
		for _, mark := range []string{api.MarkSent, api.MarkResolved} {
			if p, err := agent.Mark(s.soon(), a.ID, api.Mark{Instance: a.Instance, Mark: mark}); err != nil {
				t.Fatalf("mark %s: %s, %v", mark, p.State, err)
			}
		}
	}
}
