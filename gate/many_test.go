package gate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
)

func TestManyWait(t *testing.T) {
	if testing.Short() {
		t.Skip("asks many questions")
	}
	const n = manyWaits
	b := open(t, epoch(t, manual, noRm))
	outcomes := make([]approval.Outcome, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			a, err := b.Ask(t.Context(), gate.Question{Request: command(fmt.Sprintf("make %d", i%2))})
			if err != nil {
				t.Error(err)
			}
			outcomes[i] = a.Outcome
			b.Sent(a)
		})
	}
	b.settle("all wait", func(s gate.Stats) bool { return s.Waiting == n })
	// One among them is answered as if it were alone.
	one := b.records()[0]
	if _, err := b.Answer(t.Context(), reply(one, allow)); err != nil {
		t.Error(err)
	}
	// New rules settle half of them; the others wait under the new epoch.
	next := epoch(t, manual, strings.Replace(noRm, "rm x", "make 1", 1))
	b.workspace.Install(gate.Standing{Epoch: next})
	b.settle("all are routed again", func(s gate.Stats) bool { return s.Rerouted >= n-1 })
	s := b.Stats()
	denied := s.Decisions[gate.DecisionKind{Source: approval.SourceRule, Outcome: approval.OutcomeDeny}]
	if denied < n/2-1 || denied > n/2 || int64(s.Waiting) != n-1-denied {
		t.Errorf("%d denied, %d wait", denied, s.Waiting)
	}
	if err := b.Gate.Close(); err != nil {
		t.Fatal(err)
	}
	wait.Wait()
	allowed := 0
	for _, o := range outcomes {
		if o == approval.OutcomeAllow {
			allowed++
		}
	}
	if got := b.Stats(); allowed != 1 || got.Waiting != 0 || got.Closed[approval.Lost] != n-1-denied {
		t.Errorf("%d allowed, and at the end %+v", allowed, got)
	}
	report, err := b.db.Verify(t.Context())
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// settle waits until the counts are as told.
func (b *bench) settle(what string, is func(gate.Stats) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 4*time.Minute)
	defer cancel()
	for {
		changed := b.Feed().Changed()
		if is(b.Stats()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			b.Fatalf("never: %s; %+v", what, b.Stats())
		}
	}
}
