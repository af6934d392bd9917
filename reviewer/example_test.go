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
