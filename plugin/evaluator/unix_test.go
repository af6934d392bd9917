//go:build unix

package evaluator_test

import (
	"syscall"
	"testing"

	"github.com/regent-policy/regent/plugin/evaluator"
)

// TestOneThatIsStoppedIsEnded: it answers nobody, and must not hold up its host.
func TestOneThatIsStoppedIsEnded(t *testing.T) {
	c := load(t, evaluator.Options{})
	if err := syscall.Kill(c.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := syscall.Kill(c.PID(), 0); err == nil {
		t.Errorf("process %d is still there", c.PID())
	}
}
