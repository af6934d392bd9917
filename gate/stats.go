package gate

import (
	"maps"
	"strings"
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
	// Verdicts counts what reviewers said, by reviewer and outcome.
	Verdicts map[VerdictKind]int64
	// Skips counts the questions that nobody had to answer, by what the call does
	// and which tool it is of.
	Skips map[SkipKind]int64
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

// VerdictKind is what a reviewer said.
type VerdictKind struct {
	Reviewer string
	Outcome  approval.VerdictOutcome
}

// SkipKind is a kind of call that was skipped.
type SkipKind struct {
	// Effects are those of the call, sorted and joined by commas.
	Effects string
	// Tool is the tool's name, or the kind of a request that is of no tool. Past
	// so many of them it is "other".
	Tool string
}

// maxSkipKinds bounds what is counted apart.
const maxSkipKinds = 512

// maxSkipTool is the longest name of a tool that is counted apart, in bytes.
const maxSkipTool = 64

type stats struct {
	checked, rerouted, fenced, refusedByLedger, waiting atomic.Int64
	failing                                             atomic.Bool

	mu        sync.Mutex
	routes    map[approval.Route]int64
	failures  map[string]int64
	decisions map[DecisionKind]int64
	verdicts  map[VerdictKind]int64
	skips     map[SkipKind]int64
	ended     map[approval.State]int64
}

func (s *stats) ruled(q *approval.Request, r *approval.Ruling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.routes, r.Route)
	if r.Route == approval.RouteSkip {
		kind := SkipKind{Effects: joined(r.Effects), Tool: string(q.Kind)}
		if q.Tool != nil {
			kind.Tool = q.Tool.Name
		}
		if len(kind.Tool) > maxSkipTool {
			kind.Tool = "other" // an agent makes up its names
		}
		if _, known := s.skips[kind]; !known && len(s.skips) >= maxSkipKinds {
			kind.Tool = "other"
		}
		count(&s.skips, kind)
	}
	if r.Failure != nil {
		count(&s.failures, r.Failure.Kind)
	}
}

func (s *stats) decided(d *approval.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.decisions, DecisionKind{d.Source, d.Outcome})
}

// joined is a set of effects as one text. Most are of one effect.
func joined(effects []approval.Effect) string {
	if len(effects) == 1 {
		return string(effects[0])
	}
	words := make([]string, len(effects))
	for i, e := range effects {
		words[i] = string(e)
	}
	return strings.Join(words, ",")
}

func (s *stats) reviewed(v approval.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count(&s.verdicts, VerdictKind{v.Reviewer, v.Outcome})
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
		Decisions: maps.Clone(s.decisions), Verdicts: maps.Clone(s.verdicts), Skips: maps.Clone(s.skips), Closed: maps.Clone(s.ended),
		Checked: s.checked.Load(), Rerouted: s.rerouted.Load(), Fenced: s.fenced.Load(),
		Unrecorded: s.refusedByLedger.Load(), Waiting: int(s.waiting.Load()), Instances: instances,
		Failing: s.failing.Load(),
	}
}
