//go:build race

package gate_test

// The race detector makes the pure-Go database some twenty times slower, and
// everything larger. make test runs the whole numbers without it.
const (
	manyWaits      = 500
	manyWorkspaces = 20
)
