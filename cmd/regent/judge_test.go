package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/reviewer"
)

// judgeMain is a plugin that reviews. Where it is given a file, it is a harness as
// well: it asks whether it may run "make asked", and writes the answer there.
func judgeMain() {
	review := plugin.ReviewFunc(func(_ context.Context, q reviewer.Question) plugin.Verdict {
		switch text := q.Request.Command.Text; {
		case strings.Contains(text, "publish"):
			return plugin.Verdict{Outcome: plugin.OutcomeDeny, Rationale: "the judge says no"}
		case strings.Contains(text, "asked"):
			return plugin.Verdict{Outcome: plugin.OutcomeAllow, Risk: plugin.RiskLow, Rationale: "the judge says yes"}
		default:
			return plugin.Verdict{Outcome: plugin.OutcomeUnsure, Rationale: "the judge wonders"}
		}
	})
	roles := []plugin.Role{plugin.Reviewer(review)}
	if len(os.Args) > 1 {
		roles = append(roles, plugin.Harness(func(ctx context.Context, ask plugin.Ask) error {
			answer, err := ask(ctx, json.RawMessage(`{"kind":"command","command":{"text":"make asked"}}`))
			if err != nil {
				return err
			}
			told := fmt.Sprintf("%s: %s\n", answer.Outcome, answer.Reason)
			if err := os.WriteFile(os.Args[1]+".tmp", []byte(told), 0o600); err != nil {
				return err
			}
			if err := os.Rename(os.Args[1]+".tmp", os.Args[1]); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}))
	}
	plugin.Serve(plugin.Info{Name: "judge", Version: "1.0.0"}, roles...)
}
