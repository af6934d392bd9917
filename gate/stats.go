package gate

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/regent-policy/regent/gate/approval"
)

// Stats count what a gate has done since it was opened.
type Stats struct {
	// Routes counts the questions by route, those that were skipped included.
	Routes map[approval.Route]int64
	// Failures counts the questions that policy could not rule on, by kind.
	Failures map[string]int64
	// Decisions counts what was decided.
	Decisions map[DecisionKind]int64
	// Closed counts the records that ended, by state.
	Closed map[approval.State]int64
	// Checked counts the questions that were only ruled on.
	Checked int64
	// Rerouted counts the waiting requests that were routed again.
	Rerouted int64
	// Fenced counts the actions that the fence refused.
	Fenced int64
	// Unrecorded counts the questions that were refused because the ledger could
	// not take them.
	Unrecorded int64
	// Waiting is how many requests wait now, and Instances how many hosts.
	Waiting, Instances int
	// Failing is true while the ledger cannot be kept.
	Failing bool
}

// DecisionKind is what a decision said, and what kind of thing said it.
type DecisionKind struct {
	Source  approval.Source
	Outcome approval.Outcome
}

type stats struct {
	checked, rerouted, fenced, refusedByLedger, waiting atomic.Int64
	failing                                             atomic.Bool

	mu        sync.Mutex
	routes    map[approval.Route]int64
	failures  map[string]int64
	decisions map[DecisionKind]int64
	ended     map[approval.State]int64
}

func (s *stats) ruled(r *approval.Ruling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.routes, r.Route)
	if r.Failure != nil {
		count(&s.failures, r.Failure.Kind)
	}
}

func (s *stats) decided(d *approval.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.decisions, DecisionKind{d.Source, d.Outcome})
}

func (s *stats) closed(r *approval.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.ended, r.State)
}

func count[K comparable](m *map[K]int64, key K) {
	if *m == nil {
		*m = map[K]int64{}
	}
	(*m)[key]++
}

// Stats returns the counts as they are now.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	instances := len(g.hosts)
	g.mu.Unlock()
	s := &g.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Routes: maps.Clone(s.routes), Failures: maps.Clone(s.failures),
		Decisions: maps.Clone(s.decisions), Closed: maps.Clone(s.ended),
		Checked: s.checked.Load(), Rerouted: s.rerouted.Load(), Fenced: s.fenced.Load(),
		Unrecorded: s.refusedByLedger.Load(), Waiting: int(s.waiting.Load()), Instances: instances,
		Failing: s.failing.Load(),
	}
}
