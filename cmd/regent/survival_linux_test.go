package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/client"
)

// room sets how large the files of a process may get. The signal that comes with
// a write beyond that means nothing to a Go program.
func (p *process) room(bytes uint64) {
	p.t.Helper()
	limit := unix.Rlimit{Cur: bytes, Max: math.MaxUint64}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		p.t.Fatal(err)
	}
}

// logSize is how long the log of the ledger is by now.
func (s *site) logSize() uint64 {
	s.t.Helper()
	info, err := os.Stat(s.database() + "-wal")
	if err != nil {
		s.t.Fatal(err)
	}
	return uint64(info.Size())
}

// A disk without room lets nothing pass, spoils nothing, and is no longer a
// matter once it has room again.
func TestDiskWithoutRoom(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.serve()
	agent, person := s.agent(), s.person()
	ids := s.allowed(agent, 5)
	stream := s.events(person, client.FromNow)
	waits := s.ask(agent, "deploy")
	id := s.asked(stream)

	// A part of a page still fits.
	d.room(s.logSize() + 2000)
	refused := func() {
		t.Helper()
		for _, text := range []string{"make test", "make clean", "deploy"} {
			if a, err := agent.Ask(s.soon(), asks(text)); err == nil {
				t.Errorf("%s: %q and no error", text, a.Outcome)
			}
		}
		if r, err := person.Decide(s.soon(), id, 1, decision(approval.OutcomeAllow, "")); err == nil {
			t.Errorf("a decision is %s and no error", r.State)
		}
		if r, err := person.Read(s.soon(), id); err != nil || r.State != approval.Pending || r.Revision != 1 {
			t.Errorf("the request that waits is %s at revision %d, %v", r.State, r.Revision, err)
		}
	}
	refused()
	trouble := func(e client.Event) bool { return e.Notice != nil && e.Notice.Kind == string(gate.NoticeLedger) }
	s.until(stream, "people hear of it", trouble)
	if h, err := person.Health(s.soon()); err != nil || h.OK || len(h.Reasons) == 0 {
		t.Errorf("health: %+v, %v", h, err)
	}
	if st, err := person.Status(s.soon()); err != nil || st.Ledger == nil || !st.Ledger.Failing || st.Ledger.Fault == "" {
		t.Errorf("status: %+v, %v", st.Ledger, err)
	}
	refused()
	s.verifies()

	d.room(math.MaxUint64)
	s.until(stream, "people hear that it is over", trouble)
	if h, err := person.Health(s.soon()); err != nil || !h.OK {
		t.Errorf("health: %+v, %v", h, err)
	}
	ids = append(ids, s.allowed(agent, 5)...)
	if _, err := person.Decide(s.soon(), id, 1, decision(approval.OutcomeAllow, "there is room")); err != nil {
		t.Error(err)
	}
	if a := <-waits; a.err != nil || a.Outcome != approval.OutcomeAllow {
		t.Errorf("what waited all the time: %q, %v", a.Outcome, a.err)
	}

	// A crash in the middle of it.
	d.room(s.logSize() + 2000)
	if a, err := agent.Ask(s.soon(), asks("make test")); err == nil {
		t.Errorf("%q and no error", a.Outcome)
	}
	d.kill()
	d = s.serve()
	ids = append(ids, s.allowed(agent, 1)...)
	d.stop()
	s.keeps(append(ids, id))

	// Without room there is no log to write to.
	if said := s.refuses(exitFailed, roomVar+"=4096"); !strings.Contains(said, "open ledger "+s.database()) {
		t.Errorf("a daemon without room says %s", said)
	}
	s.serve().stop()
	s.keeps(append(ids, id))
}
