// Package peer tells which process is at the other end of a Unix socket, and
// whether it descends from one that is governed.
//
// An agent and the person it works for share one user, so the user of a caller
// proves nothing. What sets them apart is where the calling process comes
// from. Whatever cannot be told is an error, never the answer no: take such a
// caller for an agent.
//
// The limit of this is a process that leaves its family. One whose parent has
// ended is adopted by init (or by a subreaper) and has that one for its parent
// from then on. That shows as long as it stays in its session, and then it cannot
// be told; if it has begun a session of its own, nothing is left that leads back
// to where it came from. Nor does a process that others start on an
// agent's behalf (a service manager, cron, a container runtime, a terminal that
// the agent types into) descend from it. That a process does not descend
// from a governed one is a reason to go on asking for proof, not a proof.
// A system that hides the processes of other users (hidepid) hides ancestors
// too, so that nobody can be told there.
package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
)

var (
	// ErrUnknown means that it cannot be told which process is meant or where it
	// comes from: it has ended, its pid is another's by now, its parent changed
	// while it was looked at, or the system does not show it. It also is an
	// [fs.ErrNotExist] where the process is known to have ended. Treat the caller
	// as an agent; asking again seldom helps.
	ErrUnknown = errors.New("the process cannot be told")
	// ErrUnsupported means that this system has no way to tell. It is an
	// [errors.ErrUnsupported]. Treat every caller as an agent.
	ErrUnsupported = fmt.Errorf("processes cannot be told on this system: %w", errors.ErrUnsupported)
)

// Process is one process. Two of them are the same process if PID and Start
// are, see [Process.Is].
type Process struct {
	PID int
	// UID and GID are the effective user and group: of a peer as they were when
	// it connected, otherwise as they are.
	UID, GID int
	// Start is when the process started, in units of the system: clock ticks
	// since boot on Linux, microseconds since 1970 on macOS. It tells a process
	// from an earlier one that had its pid, and is good until the next boot.
	Start uint64
}

// Is says whether both are the same process, whatever user it runs as by now.
func (p Process) Is(other Process) bool {
	return p.PID == other.PID && p.Start == other.Start
}

// Of tells the process at the other end of conn. On Linux that is the one that
// called connect (SO_PEERCRED), on macOS the one that last used the other end
// (LOCAL_PEERPID). Others may hold the same end, by inheritance or because it
// was handed to them.
//
// From Linux 6.5 on (SO_PEERPIDFD) a peer that has ended is an [ErrUnknown],
// whoever has its pid by now. Earlier kernels and macOS know the pid only, so
// that a process of the same user which got it between connect and this call is
// taken for the peer: call Of as soon as conn is accepted, and keep the answer.
func Of(conn *net.UnixConn) (Process, error) {
	if conn == nil {
		return Process{}, fmt.Errorf("peer of the connection: %w: there is none", ErrUnknown)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return Process{}, fmt.Errorf("peer of the connection: %w: %w", ErrUnknown, err)
	}
	var p Process
	var failed error
	if err := raw.Control(func(fd uintptr) { p, failed = peerOf(int(fd), peerPidfd) }); err != nil {
		return Process{}, fmt.Errorf("peer of the connection: %w: %w", ErrUnknown, err)
	}
	if failed != nil {
		return Process{}, fmt.Errorf("peer of the connection: %w", failed)
	}
	return p, nil
}

// Lookup tells the process that has this pid now. It is the caller's to know
// that the pid is not another's already: that of a parent or of a child that
// was not waited for is certain.
func Lookup(pid int) (Process, error) {
	h, n, err := open(pid)
	if err != nil {
		return Process{}, err
	}
	h.close()
	return n.Process, nil
}

// Ancestors tells p and those it descends from, each the child of the next. The
// last has no parent that can be seen: it is init, or the first process of a
// PID namespace, or one that was put into it from outside. If one of them ends
// or changes its parent while they are looked at, that is an [ErrUnknown].
func Ancestors(p Process) ([]Process, error) {
	var found []Process
	err := walk(p, false, func(n Process) bool {
		found = append(found, n)
		return true
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// maxWalk bounds how many processes are looked at for one answer. People's
// processes are a dozen deep.
const maxWalk = 1024

// node is a process and where it leads. Parent is 0 where there is none that
// can be seen, session is 0 where the leader is outside of the PID namespace.
type node struct {
	Process
	parent, session int
}

// seen is a process that a walk has come to.
type seen struct {
	handle handle
	node   node
}

// walk shows visit p, its ancestors, and with sessions also the leaders of
// their sessions and the ancestors of these, until visit returns false.
//
// The leader of a session outlives many a parent in it: a shell that put a
// command into the background through a subshell is no ancestor of it any more,
// but leads its session still. If the leader of p's own session has ended, p
// has lost its terminal or never had one, and where it comes from cannot be
// told; nor can it if its parents do not lead to that leader. The leaders of its
// ancestors are different: that of a daemon that
// forked twice has always ended.
func walk(p Process, sessions bool, visit func(Process) bool) error {
	h, n, err := open(p.PID)
	if err != nil {
		return err
	}
	queue := []seen{{h, n}}
	defer func() {
		for _, s := range queue {
			s.handle.close()
		}
	}()
	if !n.Is(p) {
		return gone(p.PID)
	}
	known := map[int]bool{p.PID: true}
	come := func(pid int) error {
		if pid <= 0 || known[pid] {
			return nil
		}
		if len(queue) == maxWalk {
			return fmt.Errorf("process %d: %w: more than %d processes lead to it", p.PID, ErrUnknown, maxWalk)
		}
		h, n, err := open(pid)
		if err != nil {
			return err
		}
		queue = append(queue, seen{h, n})
		known[pid] = true
		return nil
	}
	for i := 0; i < len(queue); i++ {
		n := queue[i].node
		if !visit(n.Process) {
			return nil
		}
		if err := come(n.parent); err != nil {
			return fmt.Errorf("an ancestor of process %d: %w", p.PID, err)
		}
		if !sessions {
			continue
		}
		if err := come(n.session); err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("the session of process %d: %w", n.PID, err)
		}
	}
	// A pid names one process at a time. All that are still what they were have
	// been there together when the last was opened, so each parent is the process
	// that was looked at, and none that got its pid in between.
	for _, s := range queue {
		again, err := s.handle.read()
		if err != nil {
			return err
		}
		if again != s.node {
			return fmt.Errorf("process %d: %w: it changed while it was looked at", s.node.PID, ErrUnknown)
		}
	}
	if sessions && orphaned(queue) {
		return fmt.Errorf("process %d: %w: the leader of its session is none of its ancestors, so who started it has ended", p.PID, ErrUnknown)
	}
	return nil
}

// orphaned tells whether the first of queue has lost the process that started it:
// otherwise the way from it to the leader of its session goes from parent to
// parent. Where an orphan comes from, its session alone does not tell: an agent
// and the person share the session of a terminal.
func orphaned(queue []seen) bool {
	nodes := make(map[int]node, len(queue))
	for _, s := range queue {
		nodes[s.node.PID] = s.node
	}
	first := queue[0].node
	for n, ok := first, true; ok; n, ok = nodes[n.parent] {
		if n.PID == first.session {
			return false
		}
		delete(nodes, n.PID) // no way round in a circle
	}
	return true
}

// gone is the error for a process that has ended.
func gone(pid int) error {
	return fmt.Errorf("process %d: %w: %w", pid, ErrUnknown, fs.ErrNotExist)
}
