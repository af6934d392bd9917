// Command reviewer-go is a reviewer in Go: it lets commands pass that certainly only
// read, refuses to publish by force, and leaves everything else to a person.
package main

import (
	"context"
	"regexp"

	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/reviewer"
)

func main() {
	plugin.Serve(plugin.Info{Name: "reviewer-go", Version: "1.0.0"}, plugin.Reviewer(plugin.ReviewFunc(review)))
}

var force = regexp.MustCompile(`\bgit\b.*\bpush\b.*(\s-f\b|--force\b)`)

func review(_ context.Context, q reviewer.Question) plugin.Verdict {
	switch {
	case q.Request.Command != nil && force.MatchString(q.Request.Command.Text):
		return plugin.Verdict{Outcome: plugin.OutcomeDeny, Risk: plugin.RiskHigh, Rationale: "it publishes by force"}
	case q.Ruling.ReadOnly:
		return plugin.Verdict{Outcome: plugin.OutcomeAllow, Risk: plugin.RiskLow, Rationale: "it only reads"}
	default:
		return plugin.Verdict{Outcome: plugin.OutcomeUnsure, Rationale: "a person has to look at this"}
	}
}
