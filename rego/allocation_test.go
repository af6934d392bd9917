//go:build !race

package rego

// Internal for the same reason as bench_test.go. The race detector allocates on
// its own account and empties pools at random, so this runs without it.

import "testing"

// TestReferenceDecisionAllocations holds the one cost that does not depend on
// the machine.
func TestReferenceDecisionAllocations(t *testing.T) {
	p, r := referencePolicy(t, 100, 0), referenceRequest(t)
	ruling := p.Rule(t.Context(), r)
	if ruling.Failure != nil {
		t.Fatalf("the reference decision fails: %+v", ruling.Failure)
	}
	got := testing.AllocsPerRun(50, func() { p.Rule(t.Context(), r) })
	t.Logf("%.0f allocations", got)
	if got > maxAllocations {
		t.Errorf("%.0f allocations, want at most %d", got, maxAllocations)
	}
}

// TestPolicyAllocations holds what lets one daemon serve many workspaces.
func TestPolicyAllocations(t *testing.T) {
	got := policyBytes(t, 5)
	t.Logf("%.2f MiB", got/(1<<20))
	if got > maxPolicyBytes {
		t.Errorf("%.0f bytes a policy, want at most %d", got, maxPolicyBytes)
	}
}
