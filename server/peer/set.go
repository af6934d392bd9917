package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// MaxProcesses is how many living processes a [Set] holds.
const MaxProcesses = 4096

// ErrFull means that a [Set] holds [MaxProcesses] living processes already and
// did not take another. What the process does then must be taken for an agent's
// by other means, or not be let happen.
var ErrFull = errors.New("too many governed processes")

// minSweep is the size below which the dead are not looked for.
const minSweep = 64

// Set holds governed processes: agents, and the programs that run them. The
// zero value is empty and ready. A Set is safe for concurrent use.
type Set struct {
	mu        sync.Mutex
	processes map[int]Process
	// sweepAt is the size at which the dead are looked for, so that a set whose
	// processes come and go costs little and stays small.
	sweepAt int
	// most is MaxProcesses if it is 0.
	most int
}

func (s *Set) limit() int {
	if s.most > 0 {
		return s.most
	}
	return MaxProcesses
}

// Add makes p governed, and with it all that descend from it, until it ends. A
// process that has ended, or whose pid is another's, is an [ErrUnknown] and is
// not added; a set that is full is an [ErrFull]. Adding one twice is adding it
// once.
func (s *Set) Add(p Process) error {
	now, err := Lookup(p.PID)
	if err != nil {
		return err
	}
	if !now.Is(p) {
		return gone(p.PID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.processes[p.PID]; !ok {
		if len(s.processes) >= min(max(s.sweepAt, minSweep), s.limit()) {
			s.sweep()
		}
		if len(s.processes) >= s.limit() {
			return fmt.Errorf("process %d: %w: %d are governed", p.PID, ErrFull, len(s.processes))
		}
	}
	if s.processes == nil {
		s.processes = make(map[int]Process)
	}
	// Whoever had the pid before has ended.
	s.processes[p.PID] = p
	return nil
}

// sweep drops those that have ended. One of which that cannot be told stays.
func (s *Set) sweep() {
	for pid, p := range s.processes {
		now, err := Lookup(pid)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && !now.Is(p)) {
			delete(s.processes, pid)
		}
	}
	s.sweepAt = 2 * len(s.processes)
}

// Len is how many processes are held. Some may have ended since they were last
// looked at.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.processes)
}

// Descends says whether p is governed: whether it, an ancestor, or the leader of
// a session of theirs is in the set or descends from one that is. False means
// that nothing leads there, which is less than that it comes from elsewhere, see
// the package. An error means that it cannot be told: take p for governed.
func (s *Set) Descends(p Process) (bool, error) {
	found := false
	err := walk(p, true, func(n Process) bool {
		s.mu.Lock()
		governed, ok := s.processes[n.PID]
		s.mu.Unlock()
		found = ok && governed.Is(n)
		return !found
	})
	if found {
		return true, nil
	}
	return false, err
}
