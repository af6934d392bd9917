package peer

// Plant puts processes into the set that need not exist: a governed process
// whose pid has gone to another cannot be had otherwise.
func (s *Set) Plant(processes ...Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes == nil {
		s.processes = make(map[int]Process)
	}
	for _, p := range processes {
		s.processes[p.PID] = p
	}
}

// NewSmallSet is a set that is full with fewer than [MaxProcesses].
func NewSmallSet(most int) *Set { return &Set{most: most} }

// AncestorsWhile is [Ancestors] with something that happens as soon as p itself
// has been looked at.
func AncestorsWhile(p Process, happens func()) error {
	first := true
	return walk(p, false, func(Process) bool {
		if first {
			happens()
		}
		first = false
		return true
	})
}
