package evaluator_test

import (
	"context"
	"fmt"
	"log"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/evaluator"
)

// A host loads regent once, and has each call decided before it runs it.
func Example() {
	ctx := context.Background()
	regent, err := evaluator.Start(ctx, evaluator.Options{Workspace: "/srv/agent/rules"})
	if err != nil {
		log.Fatal(err)
	}
	defer regent.Close()

	answer, err := regent.Ask(ctx, evaluator.Question{Request: &approval.Request{
		Kind:        approval.KindCommand,
		Command:     &approval.Command{Text: "npm publish"},
		Environment: &approval.Environment{Cwd: "/srv/agent/work"},
	}})
	if err != nil || answer.Outcome != approval.OutcomeAllow {
		fmt.Println("not run:", answer.Reason, err)
		return
	}
	fmt.Println("run it")
}
