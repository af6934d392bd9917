// Package peertest makes tests that speak to a daemon over its socket
// independent of how they were started.
package peertest

import (
	"os"
	"testing"

	"github.com/regent-policy/regent/server/peer"
)

// Main runs the tests of a package. Where it cannot be told where the process
// comes from, as when whoever started it has ended, the daemon would take it for
// an agent; it leads a session of its own then, as a person's shell does.
func Main(run func()) {
	if testing.Testing() {
		if self, err := peer.Lookup(os.Getpid()); err == nil {
			if _, err := new(peer.Set).Descends(self); err != nil {
				lead()
			}
		}
	}
	run()
}
