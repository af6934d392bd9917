package peer_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/regent-policy/regent/server/peer"
)

func TestOfOnAnOlderKernel(t *testing.T) {
	f, conn := caller(t)
	want, err := peer.Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	got, err := peer.OfWithout(conn, unix.ENOPROTOOPT)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, answer := range []unix.Errno{unix.ESRCH, unix.EINVAL, unix.EMFILE} {
		if p, err := peer.OfWithout(conn, answer); !errors.Is(err, peer.ErrUnknown) {
			t.Errorf("Of = %v, %v; the kernel has the option and says %v", p, err, answer)
		}
	}
	f.end(t)
	if p, err := peer.OfWithout(conn, unix.ENOPROTOOPT); !errors.Is(err, peer.ErrUnknown) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Of = %v, %v; want %v, for it has ended", p, err, peer.ErrUnknown)
	}
}

// The kernel keeps a process that ended until its parent has heard of it, with
// its pid and all that /proc tells of it.
func TestOfAPeerThatNobodyWaitedFor(t *testing.T) {
	f, conn := caller(t)
	if err := f.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	err := unix.Waitid(unix.P_PID, f.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Lookup(f.cmd.Process.Pid); err != nil {
		t.Fatalf("Lookup = %v; the pid is its own still", err)
	}
	if p, err := peer.Of(conn); !errors.Is(err, peer.ErrUnknown) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Of = %v, %v; want %v, for it has ended", p, err, peer.ErrUnknown)
	}
}

// A parent that ends is there until it is waited for, but nobody's parent any
// more.
func TestAncestorsWhileTheParentEnds(t *testing.T) {
	f := start(t, command([]string{wait, sit}))
	p := lookup(t, f.sits(t))
	err := peer.AncestorsWhile(p, func() {
		if err := f.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Waitid(unix.P_PID, f.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
	})
	if !errors.Is(err, peer.ErrUnknown) {
		t.Errorf("Ancestors = %v, want %v", err, peer.ErrUnknown)
	}
	_ = f.stdin.Close()
	_ = f.cmd.Wait()
	f.cmd = nil
}

func TestParseStat(t *testing.T) {
	const rest = ") S 12 34 56 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654321 1 1 18446744073709551615 1"
	want := peer.Process{PID: 77, Start: 987654321}
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"a plain name", "77 (bash" + rest, true},
		{"no name", "77 (" + rest, true},
		{"a name that looks like the end of one", "77 (x) R 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1" + rest, true},
		{"a name with a line break", "77 (x)\n78 (y" + rest, true},
		{"only parentheses", "77 ())))((" + rest, true},
		{"empty", "", false},
		{"no parenthesis", "77 bash S 12 34", false},
		{"cut off before the start", "77 (bash) S 12 34 56 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0", false},
		{"no pid", "(bash" + rest, false},
		{"a pid that is no number", "x (bash" + rest, false},
		{"parentheses the wrong way round", "77 )bash( S 12", false},
		{"a session that the kernel has let go of", "77 (bash" + strings.Replace(rest, " 56 ", " -1 ", 1), false},
		{"a parent below zero", "77 (bash" + strings.Replace(rest, " 12 ", " -12 ", 1), false},
		{"a start that no number holds", "77 (bash" + strings.Replace(rest, "987654321", "99999999999999999999", 1), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, parent, session, err := peer.ParseStat([]byte(tt.text))
			if !tt.ok {
				if err == nil {
					t.Errorf("ParseStat = %v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || parent != 12 || session != 56 {
				t.Errorf("parent %d, session %d, want 12 and 56 (-want +got)\n%s", parent, session, diff)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("bash", 12)
	f.Add("x) R 1 1 1", 1)
	f.Add("\n(", 0)
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(own), 7)
	f.Fuzz(func(t *testing.T, name string, tail int) {
		// Whatever the name is, what stands behind it is found.
		text := "77 (" + name + ") S 12 34 56 0 -1 1 1 0 0 0 0 0 0 0 20 0 1 0 99 1"
		got, parent, session, err := peer.ParseStat([]byte(text))
		if want := (peer.Process{PID: 77, Start: 99}); err != nil || got != want || parent != 12 || session != 56 {
			t.Errorf("ParseStat(%q) = %v, %d, %d, %v", text, got, parent, session, err)
		}
		// And whatever is cut off, nothing is made up.
		if tail >= 0 && tail < len(text) {
			if got, _, _, err := peer.ParseStat([]byte(text[:tail])); err == nil && got.PID != 77 {
				t.Errorf("ParseStat(%q) = %v", text[:tail], got)
			}
		}
	})
}

func TestParseStatus(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		uid, gid   int
		ok         bool
	}{
		{"effective, not real", "Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t2000\t2001\t2002\t2003\n", 1001, 2001, true},
		{"a name that looks like a line", "Name:\tx\\nUid:\t0\t0\nUid:\t5\t6\nGid:\t7\t8\n", 6, 8, true},
		{"given twice", "Uid:\t1\t1\nUid:\t2\t2\nGid:\t1\t1\n", 0, 0, false},
		{"no group", "Uid:\t1\t1\n", 0, 0, false},
		{"no effective user", "Uid:\t1\nGid:\t1\t1\n", 0, 0, false},
		{"no number", "Uid:\t1\t-1\nGid:\t1\t1\n", 0, 0, false},
		{"empty", "", 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			uid, gid, err := peer.ParseStatus([]byte(tt.text))
			if (err == nil) != tt.ok || uid != tt.uid || gid != tt.gid {
				t.Errorf("ParseStatus = %d, %d, %v; want %d, %d", uid, gid, err, tt.uid, tt.gid)
			}
		})
	}
}
