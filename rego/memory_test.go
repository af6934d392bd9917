package rego

// Internal for the same reason as bench_test.go.

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
)

// maxPolicyBytes bounds what one more policy with a small file of rules keeps
// alive in a process that has some already.
const maxPolicyBytes = 2 << 20

func smallPolicy(tb testing.TB) *Policy {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "git.rego"), []byte(forcePushForBench), 0o644); err != nil {
		tb.Fatal(err)
	}
	s := DefaultSettings()
	s.Timeout = explainTimeout
	p, err := Load(tb.Context(), Source{Settings: s, Layers: []Layer{{Name: Workspace, Dir: dir, Paths: []string{dir}}}})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// policyBytes is what each of n policies keeps alive.
func policyBytes(tb testing.TB, n int) float64 {
	tb.Helper()
	live := func() float64 {
		var m runtime.MemStats
		// Twice, since the first collection only moves what pools hold aside.
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	request := referenceRequest(tb)
	smallPolicy(tb).Rule(tb.Context(), request) // what all share is there from now on
	before := live()
	held := make([]*Policy, n)
	for i := range held {
		held[i] = smallPolicy(tb)
		held[i].Rule(tb.Context(), request)
	}
	after := live()
	runtime.KeepAlive(held)
	return (after - before) / float64(n)
}

func BenchmarkMemoryOfPolicies(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(policyBytes(b, 20)/(1<<20), "MiB/policy")
	}
}

// TestPoliciesShareTheTables rules and explains with several policies at once,
// which have the tables in common.
func TestPoliciesShareTheTables(t *testing.T) {
	request := referenceRequest(t)
	request.Command.Text = "git push --force origin main && rm -rf build"
	var done sync.WaitGroup
	for range 4 {
		p := smallPolicy(t)
		done.Go(func() {
			if got := p.Rule(t.Context(), request); got.Route != approval.RouteDeny {
				t.Errorf("route %s, want deny; %+v", got.Route, got.Failure)
			}
			if _, err := p.Explain(t.Context(), request); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}
