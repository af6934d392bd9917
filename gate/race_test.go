//go:build race

package gate_test

// The race detector makes the pure-Go database some twenty times slower.
const manyWaits = 500
