//go:build linux || darwin

package reviewer_test

import (
	"context"
	"fmt"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/reviewer"
)

// A reviewer can be any program. This one denies what it has read.
func ExampleOpen() {
	c, _, err := config.Parse("/home/sam/.regent/config.yaml", []byte(`
version: 1
reviewers:
  acme/checks:
    kind: command
    command: [/bin/sh, -c, 'cat >&2; echo "{\"outcome\": \"deny\", \"risk_level\": \"high\", \"rationale\": \"not on a Friday\"}"']
    timeout_seconds: 60
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := reviewer.Open(c, "acme/checks")
	if err != nil {
		fmt.Println(err)
		return
	}
	v := r.Review(context.Background(), reviewer.Question{
		ID:      "apr_1",
		Request: &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "git push"}},
		Ruling:  approval.Ruling{Route: approval.RouteReview, Effects: []approval.Effect{approval.EffectUnknown}},
	})
	fmt.Println(v.Reviewer, v.Outcome, v.Risk, v.Rationale)
	// Output: acme/checks deny high not on a Friday
}

// always is a reviewer that somebody else provides.
type always approval.VerdictOutcome

func (a always) Review(context.Context, reviewer.Question) approval.Verdict {
	return approval.Verdict{Outcome: approval.VerdictOutcome(a), Rationale: "as always"}
}

// A chain asks reviewers of every kind. Those that are rules or plugins are opened by
// whoever has them.
func ExampleOpenWith() {
	c, _, err := config.Parse("/home/sam/.regent/config.yaml", []byte(`
version: 1
reviewers:
  acme/both: {kind: chain, members: [acme/checks, home/rules]}
  acme/checks: {kind: command, command: [/bin/sh, -c, 'echo "{\"outcome\": \"allow\", \"risk_level\": \"low\"}"'], timeout_seconds: 60}
  home/rules: {kind: rego, query: data.home.review.verdict}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := reviewer.OpenWith(c, "acme/both", func(string) (reviewer.Reviewer, error) {
		return always(approval.VerdictUnsure), nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	v := r.Review(context.Background(), reviewer.Question{
		Request: &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "git push"}},
	})
	fmt.Println(v.Outcome, v.Rationale)
	// Output: unsure 1 of 2 members allow, where 2 must; acme/checks: allow; home/rules: unsure, as always
}
