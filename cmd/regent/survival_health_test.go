package main

import (
	"math"
	"testing"
)

// From the first request that the ledger could not take, health says so; it does
// not wait for the next renewal of a lease, which may be 10 s away.
func TestHealthKnowsOfAFullDiskAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.serve()
	agent, person := s.agent(), s.person()
	s.allowed(agent, 1)
	d.room(s.logSize())
	if a, err := agent.Ask(s.soon(), asks("make test")); err == nil {
		t.Errorf("%q and no error", a.Outcome)
	}
	if h, err := person.Health(s.soon()); err != nil || h.OK {
		t.Errorf("health: %+v, %v", h, err)
	}
	d.room(math.MaxUint64)
}
