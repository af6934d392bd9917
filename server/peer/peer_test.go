//go:build linux || darwin

package peer_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/server/peer"
)

func TestOfTellsTheProcessThatConnected(t *testing.T) {
	f, conn := caller(t)
	got, err := peer.Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	want := peer.Process{PID: f.cmd.Process.Pid, UID: os.Geteuid(), GID: os.Getegid(), Start: lookup(t, f.cmd.Process.Pid).Start}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Start < lookup(t, os.Getpid()).Start {
		t.Errorf("it started at %d, before the test did", got.Start)
	}
}

func TestOfAPeerThatEndedCannotBeTold(t *testing.T) {
	f, conn := caller(t)
	f.end(t)
	if p, err := peer.Of(conn); !errors.Is(err, peer.ErrUnknown) {
		t.Errorf("Of = %v, %v; want %v", p, err, peer.ErrUnknown)
	}
}

func TestOfAClosedConnectionCannotBeTold(t *testing.T) {
	_, conn := caller(t)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*net.UnixConn{"closed": conn, "nil": nil} {
		if p, err := peer.Of(c); !errors.Is(err, peer.ErrUnknown) {
			t.Errorf("%s: Of = %v, %v; want %v", name, p, err, peer.ErrUnknown)
		}
	}
}

func TestLookupOfWhatIsNoProcess(t *testing.T) {
	f := start(t, command([]string{sit}))
	ended := f.sits(t)
	f.end(t)
	for name, pid := range map[string]int{"ended": ended, "zero": 0, "negative": -1} {
		p, err := peer.Lookup(pid)
		if !errors.Is(err, peer.ErrUnknown) {
			t.Errorf("%s: Lookup = %v, %v; want %v", name, p, err, peer.ErrUnknown)
		}
		if got, want := errors.Is(err, fs.ErrNotExist), pid > 0; got != want {
			t.Errorf("%s: %v; that it has ended is told: %v, want %v", name, err, got, want)
		}
	}
}

func TestAncestorsEachIsTheChildOfTheNext(t *testing.T) {
	f := start(t, command([]string{wait, wait, sit}))
	grandchild := lookup(t, f.sits(t))
	got, err := peer.Ancestors(grandchild)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 4 {
		t.Fatalf("%d processes, want the grandchild, its parent, the child, the test", len(got))
	}
	want := []peer.Process{grandchild, got[1], lookup(t, f.cmd.Process.Pid), lookup(t, os.Getpid())}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got[1].Is(got[0]) || got[1].Is(got[2]) {
		t.Errorf("the parent is another process than its child and its parent: %v", got[:3])
	}
	own, err := peer.Ancestors(lookup(t, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(own, got[3:]); diff != "" {
		t.Errorf("from the test on they are the test's (-want +got)\n%s", diff)
	}
}

func TestAncestorsOfAnotherProcessWithThePid(t *testing.T) {
	f := start(t, command([]string{sit}))
	p := lookup(t, f.sits(t))
	for name, stale := range map[string]peer.Process{
		"started earlier":         {PID: p.PID, Start: p.Start - 1},
		"started later":           {PID: p.PID, Start: p.Start + 1},
		"start was not looked up": {PID: p.PID},
	} {
		if got, err := peer.Ancestors(stale); !errors.Is(err, peer.ErrUnknown) || !errors.Is(err, fs.ErrNotExist) || got != nil {
			t.Errorf("%s: Ancestors = %v, %v; want %v", name, got, err, peer.ErrUnknown)
		}
		var s peer.Set
		s.Plant(stale)
		if got, err := s.Descends(stale); got || !errors.Is(err, peer.ErrUnknown) {
			t.Errorf("%s: Descends = %v, %v; want %v", name, got, err, peer.ErrUnknown)
		}
	}
}

// The name of a process is the agent's to choose. This one reads, to whoever
// takes the first parenthesis, as a process whose parent is init.
func TestAncestorsWhateverTheNameIs(t *testing.T) {
	for _, name := range []string{"x) (y", "x) R 1 1 1 1", ") (", "a b", "x\n) S 1 1"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.Symlink(os.Args[0], path); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(path)
			cmd.Env = append(os.Environ(), rolesVar+"="+sit, "GORACE=atexit_sleep_ms=0")
			f := start(t, cmd)
			p := lookup(t, f.sits(t))
			got, err := peer.Ancestors(p)
			if err != nil {
				t.Fatal(err)
			}
			if want := lookup(t, os.Getpid()); len(got) < 2 || !got[1].Is(want) {
				t.Errorf("Ancestors = %v, want %v to be the parent", got, want)
			}
		})
	}
}

func TestDescends(t *testing.T) {
	f := start(t, command([]string{wait, sit}))
	grandchild, child := lookup(t, f.sits(t)), lookup(t, f.cmd.Process.Pid)
	g := start(t, command([]string{sit}))
	sibling := lookup(t, g.sits(t))
	self := lookup(t, os.Getpid())
	for _, tt := range []struct {
		name     string
		governed []peer.Process
		p        peer.Process
		want     bool
	}{
		{"of an empty set nothing descends", nil, grandchild, false},
		{"a governed process is governed", []peer.Process{child}, child, true},
		{"a child is", []peer.Process{child}, grandchild, true},
		{"a grandchild is", []peer.Process{self}, grandchild, true},
		{"a sibling is not", []peer.Process{child}, sibling, false},
		{"the parent is not", []peer.Process{child}, self, false},
		{"of several any will do", []peer.Process{sibling, child}, grandchild, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s peer.Set
			for _, p := range tt.governed {
				if err := s.Add(p); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := s.Descends(tt.p); got != tt.want || err != nil {
				t.Errorf("Descends = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestDescendsFromTheProcessNotFromItsPid(t *testing.T) {
	f := start(t, command([]string{wait, sit}))
	grandchild, child := lookup(t, f.sits(t)), lookup(t, f.cmd.Process.Pid)
	before := child
	before.Start--
	var s peer.Set
	s.Plant(before)
	if got, err := s.Descends(grandchild); got || err != nil {
		t.Errorf("Descends = %v, %v; its parent only has the pid of one that was governed", got, err)
	}
	if err := s.Add(child); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Descends(grandchild); !got || err != nil {
		t.Errorf("Descends = %v, %v; want true now that its parent is governed", got, err)
	}
}

func TestDescendsWhenTheParentHasEnded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		roles []string
		// free is that the leader of the session is no agent.
		free bool
		want bool
		err  error
	}{
		{"by the leader of its session", []string{setsid + wait, leave, sit}, false, true, nil},
		{"cannot be told when that has ended too", []string{wait, setsid + leave, sit}, false, false, peer.ErrUnknown},
		// As in a terminal, whose session is that of the person and of the agent.
		{"cannot be told when that is no agent", []string{setsid + wait, leave, sit}, true, false, peer.ErrUnknown},
		// The limit that the package states.
		{"not when it began a session of its own", []string{wait, leave, setsid + sit}, false, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, command(tt.roles))
			// Either may be first.
			pids := map[string]int{}
			for range 2 {
				word, pid := f.hears(t)
				pids[word] = pid
			}
			var s peer.Set
			if !tt.free {
				if err := s.Add(lookup(t, f.cmd.Process.Pid)); err != nil {
					t.Fatal(err)
				}
			}
			orphan := lookup(t, pids[sit])
			got, err := s.Descends(orphan)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("Descends = %v, %v; want %v, %v", got, err, tt.want, tt.err)
			}
			ancestors, err := peer.Ancestors(orphan)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(ancestors, func(p peer.Process) bool { return p.PID == f.cmd.Process.Pid || p.PID == pids[wait] }) {
				t.Errorf("Ancestors = %v: it was adopted and has left its family", ancestors)
			}
		})
	}
}

func TestAddOfAProcessThatEnded(t *testing.T) {
	f := start(t, command([]string{sit}))
	p := lookup(t, f.sits(t))
	f.end(t)
	var s peer.Set
	for name, p := range map[string]peer.Process{"ended": p, "another has the pid": {PID: os.Getpid(), Start: 1}} {
		if err := s.Add(p); !errors.Is(err, peer.ErrUnknown) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Add = %v, want %v", name, err, peer.ErrUnknown)
		}
	}
	if s.Len() != 0 {
		t.Errorf("the set holds %d, want none", s.Len())
	}
}

// Larger than any pid that a system gives.
const noPID = 1 << 24

func TestSetDropsTheDeadAndKeepsTheLiving(t *testing.T) {
	f := start(t, command([]string{sit}))
	child, self := lookup(t, f.sits(t)), lookup(t, os.Getpid())
	for _, tt := range []struct {
		name string
		set  *peer.Set
		dead int
	}{
		{"small", new(peer.Set), 64},
		{"at the limit", new(peer.Set), peer.MaxProcesses},
		{"of another size", peer.NewSmallSet(2), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.set.Add(self); err != nil {
				t.Fatal(err)
			}
			for i := range tt.dead - 1 {
				tt.set.Plant(peer.Process{PID: noPID + i, Start: 1})
			}
			reused, err := peer.Lookup(os.Getppid())
			if err != nil {
				t.Fatal(err)
			}
			reused.Start--
			tt.set.Plant(reused)
			if err := tt.set.Add(child); err != nil {
				t.Fatal(err)
			}
			if got := tt.set.Len(); got != 2 {
				t.Errorf("the set holds %d, want the two that live", got)
			}
			if got, err := tt.set.Descends(self); !got || err != nil {
				t.Errorf("Descends = %v, %v; what lives is still governed", got, err)
			}
		})
	}
}

func TestSetRefusesOneMoreThanItHolds(t *testing.T) {
	f := start(t, command([]string{wait, sit}))
	grandchild, child := lookup(t, f.sits(t)), lookup(t, f.cmd.Process.Pid)
	s := peer.NewSmallSet(2)
	for _, p := range []peer.Process{grandchild, child} {
		if err := s.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(lookup(t, os.Getpid())); !errors.Is(err, peer.ErrFull) {
		t.Errorf("Add = %v, want %v", err, peer.ErrFull)
	}
	if err := s.Add(child); err != nil {
		t.Errorf("Add of one that it holds = %v", err)
	}
	f.end(t)
	if err := s.Add(lookup(t, os.Getpid())); err != nil {
		t.Errorf("Add = %v; there is room again", err)
	}
}

func TestSetWhileProcessesComeAndGo(t *testing.T) {
	var s peer.Set
	if err := s.Add(lookup(t, os.Getpid())); err != nil {
		t.Fatal(err)
	}
	var families []*family
	var processes []peer.Process
	for range 12 {
		f := start(t, command([]string{wait, sit}))
		families = append(families, f)
		processes = append(processes, lookup(t, f.sits(t)))
	}
	var group sync.WaitGroup
	for i, f := range families {
		group.Go(func() { _ = f.stdin.Close() })
		group.Go(func() {
			// One that ends meanwhile cannot be told. It never comes from elsewhere.
			if got, err := s.Descends(processes[i]); !got && !errors.Is(err, peer.ErrUnknown) {
				t.Errorf("Descends = %v, %v", got, err)
			}
		})
		group.Go(func() {
			if err := s.Add(processes[i]); err != nil && !errors.Is(err, peer.ErrUnknown) {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func BenchmarkDescends(b *testing.B) {
	p := lookup(b, os.Getpid())
	var s peer.Set
	for b.Loop() {
		if _, err := s.Descends(p); err != nil {
			b.Fatal(err)
		}
	}
}
