package reviewer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regent-policy/regent/gate/approval"
)

// command is a program that reads one question and writes one answer.
type command struct {
	name    string
	program Program
	timeout time.Duration
}

var _ Reviewer = (*command)(nil)

// Review runs the program once. What the program reads and may write is told in
// encode and parse.
func (r *command) Review(ctx context.Context, q Question) approval.Verdict {
	return signed(r.review(ctx, q), r.name)
}

func (r *command) review(ctx context.Context, q Question) approval.Verdict {
	input, err := encode(q)
	if err != nil {
		return broken(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within %v", r.timeout))
	defer cancel()
	output, err := r.program.Run(ctx, input)
	if v, over := ended(ctx); over {
		return v
	}
	if err != nil {
		if exit, ok := errors.AsType[*ExitError](err); ok {
			// What a program says last is most often what it died of, and a
			// rationale is cut at its end.
			brief := *exit
			brief.Stderr = lastBytes(exit.Stderr, MaxRationale/2)
			err = fmt.Errorf("run %s: %w", approval.Printable(r.program.Command[0]), &brief)
		}
		return broken(err)
	}
	v, err := parse(output, q.Request.Kind)
	if err != nil {
		return broken(fmt.Errorf("illegal output: %w", err))
	}
	return v
}
