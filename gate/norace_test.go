//go:build !race

package gate_test

const (
	manyWaits      = 10_000
	manyWorkspaces = 200
)
