package native_test

import (
	"fmt"
	"sync"
	"testing"
)

// Orders of events which once went wrong, or could.

// A call that is settled takes the lock of its session; whoever describes the
// session must not hold that while it asks the calls.
func TestSessionIsDescribedWhileCallsAreSettled(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			if _, err := b.Describe(t.Context(), "s1", host); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var calls sync.WaitGroup
	for i := range 30 {
		calls.Go(func() {
			id := fmt.Sprintf("c%d", i)
			if err := b.Start(t.Context(), "s1", host, "t1", command(id, "npm run job"+id)); err != nil {
				t.Error(err)
				return
			}
			b.answer(id, `"allow_for_session"`)
			b.final(id)
		})
	}
	calls.Wait()
	close(done)
	looking.Wait()
	if held := b.Grants(local, "s1").Accepted; len(held) != 30 {
		t.Errorf("%d of 30 are accepted", len(held))
	}
}
