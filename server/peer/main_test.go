//go:build linux || darwin

package peer_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/server/peer"
	"github.com/regent-policy/regent/server/peer/peertest"
)

// rolesVar tells the test binary which processes to be: the first role is its
// own, the others are those of its child.
const rolesVar = "REGENT_TEST_PEER_ROLES"

const (
	// sit says its pid and stays until standard input ends.
	sit = "sit"
	// call connects to the socket in socketVar, and sits.
	call = "call"
	// wait starts a child and waits until it has ended; then it says so.
	wait = "wait"
	// leave starts a child and ends at once.
	leave = "leave"
	// setsid, before another role, begins a session for it.
	setsid = "setsid+"
)

const socketVar = "REGENT_TEST_PEER_SOCKET"

func TestMain(m *testing.M) {
	if roles := os.Getenv(rolesVar); roles != "" {
		if err := play(strings.Fields(roles)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	peertest.Main(func() { goleak.VerifyTestMain(m) })
}

func play(roles []string) error {
	switch strings.TrimPrefix(roles[0], setsid) {
	case call:
		conn, err := net.Dial("unix", os.Getenv(socketVar))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		fallthrough
	case sit:
		fmt.Println(sit, os.Getpid())
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case wait, leave:
		child := command(roles[1:])
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		if strings.HasSuffix(roles[0], leave) {
			return nil
		}
		if err := child.Wait(); err != nil {
			return err
		}
		fmt.Println(wait, child.Process.Pid)
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	default:
		return fmt.Errorf("no such role: %q", roles)
	}
}

func command(roles []string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	// The race detector makes a process that ends wait for a second.
	cmd.Env = append(os.Environ(), rolesVar+"="+strings.Join(roles, " "), "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: strings.HasPrefix(roles[0], setsid)}
	return cmd
}

// family is a process that a test has started, with those that it started. It
// ends with the test or when end is called.
type family struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
}

func start(t testing.TB, cmd *exec.Cmd) *family {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	cmd.Stdin = in
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	f := &family{cmd, out, bufio.NewScanner(stdout)}
	t.Cleanup(func() { f.end(t) })
	return f
}

// end lets the family end, and waits for the process that the test started.
func (f *family) end(t testing.TB) {
	t.Helper()
	if f.cmd == nil {
		return
	}
	_ = f.stdin.Close()
	for f.out.Scan() {
	}
	if err := f.cmd.Wait(); err != nil {
		t.Error(err)
	}
	f.cmd = nil
}

// hears waits for what a member of the family says next: a word, and the pid of
// which it is said.
func (f *family) hears(t testing.TB) (word string, pid int) {
	t.Helper()
	if !f.out.Scan() {
		t.Fatalf("the processes ended before they said anything: %v", f.out.Err())
	}
	word, digits, _ := strings.Cut(f.out.Text(), " ")
	pid, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("a process says %q, want a word and a pid", f.out.Text())
	}
	return word, pid
}

// sits waits for the one that sits, and tells its pid.
func (f *family) sits(t testing.TB) int {
	t.Helper()
	word, pid := f.hears(t)
	if word != sit {
		t.Fatalf("a process says %q, want %q", word, sit)
	}
	return pid
}

func lookup(t testing.TB, pid int) peer.Process {
	t.Helper()
	p, err := peer.Lookup(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// listen is a socket in a folder whose name is short enough for one.
func listen(t testing.TB) (*net.UnixListener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, path
}

// caller is a process that has connected to the test.
func caller(t testing.TB) (*family, *net.UnixConn) {
	t.Helper()
	l, path := listen(t)
	cmd := command([]string{call})
	cmd.Env = append(cmd.Env, socketVar+"="+path)
	f := start(t, cmd)
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f.sits(t)
	return f, conn
}
