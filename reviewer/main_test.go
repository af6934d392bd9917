//go:build linux || darwin

package reviewer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/reviewer"
)

// play, as the first argument, has the test binary be a program instead: the second
// is what it does. With playQuoted the others are Go strings in quotes, since a
// configuration takes no words with line breaks.
const (
	play       = "play"
	playQuoted = "play-quoted"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == play || os.Args[1] == playQuoted) {
		args := os.Args[3:]
		for i := range args {
			if os.Args[1] == playQuoted {
				args[i] = must(strconv.Unquote(args[i]))
			}
		}
		// os.Exit would wait for a second under the race detector.
		syscall.Exit(perform(os.Args[2], args))
	}
	goleak.VerifyTestMain(m)
}

// perform plays a role and returns the exit status.
func perform(role string, args []string) int {
	switch role {
	case "say": // TEXT
		fmt.Print(args[0])
	case "long": // BEFORE NUMBER AFTER
		fmt.Print(args[0], strings.Repeat("é", must(strconv.Atoi(args[1]))), args[2])
	case "crash": // TEXT
		fmt.Fprint(os.Stderr, strings.Repeat("trace\n", 1000), args[0])
		return 1
	case "echo":
		must(io.Copy(os.Stdout, os.Stdin))
	case "args":
		must(0, json.NewEncoder(os.Stdout).Encode(args))
	case "env":
		must(0, json.NewEncoder(os.Stdout).Encode(os.Environ()))
	case "dir":
		fmt.Print(must(os.Getwd()))
	case "write": // NUMBER
		must(os.Stdout.WriteString(strings.Repeat("x", must(strconv.Atoi(args[0])))))
	case "create": // FILE
		must(0, os.WriteFile(args[0], nil, 0o600))
	case "flood": // SOCKET: write more than is read, and stay
		signal.Ignore(syscall.SIGPIPE)
		_, _ = os.Stdout.WriteString(strings.Repeat("x", 2*reviewer.MaxOutput))
		sit(args[0])
	case "fail": // STATUS STDOUT STDERR
		fmt.Print(args[1])
		fmt.Fprint(os.Stderr, args[2])
		return must(strconv.Atoi(args[0]))
	case "die":
		must(0, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		sit(args[0])
	case "sit": // SOCKET
		sit(args[0])
	case "child": // SOCKET: the same, and its parent learns that it sits
		sit(args[0], os.NewFile(3, "sitting"))
	case "family": // SOCKET
		child(false, args[0])
		sit(args[0])
	case "leave", "escape": // SOCKET TEXT
		child(role == "escape", args[0])
		fmt.Print(args[1])
	case "keep": // FILE
		must(0, os.WriteFile(args[0], must(io.ReadAll(os.Stdin)), 0o600))
		fmt.Print(`{"outcome":"unsure"}`)
	case "inspect": // WORDS...: what of the question is where, as a rationale
		inspect(args)
	default:
		fmt.Fprintln(os.Stderr, "no such role:", role)
		return 2
	}
	return 0
}

// must ends the program, as one of the test's, on an error.
func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(99)
	}
	return v
}

// sit connects to the socket and stays until the other end is closed. Whoever
// listens learns when it starts to sit, and when it has ended. What else is given
// is closed as soon as it sits.
func sit(socket string, others ...io.Closer) {
	conn := must(net.Dial("unix", socket))
	must(conn.Write([]byte{'!'}))
	for _, other := range others {
		must(0, other.Close())
	}
	must(io.Copy(io.Discard, conn))
}

// child starts a process that sits, with our standard output, and waits until it
// does.
func child(escapes bool, socket string) {
	sitting, end, err := os.Pipe()
	must(0, err)
	cmd := exec.Command(os.Args[0], play, "child", socket)
	cmd.Stdout, cmd.ExtraFiles = os.Stdout, []*os.File{end}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: escapes}
	must(0, cmd.Start())
	must(0, end.Close())
	must(io.ReadAll(sitting))
}

// inspect answers with what a reviewer could mistake for its own instructions: how
// many objects it reads, the command in the request, and its arguments.
func inspect(args []string) {
	var question struct {
		Request struct{ Command struct{ Text string } }
	}
	decoder := json.NewDecoder(os.Stdin)
	must(0, decoder.Decode(&question))
	rest := must(io.ReadAll(io.MultiReader(decoder.Buffered(), os.Stdin)))
	rationale, err := json.Marshal(fmt.Sprintf("%q %q %q", question.Request.Command.Text, strings.TrimSpace(string(rest)), args))
	must(0, err)
	fmt.Printf(`{"outcome":"unsure","rationale":%s}`, rationale)
}

// actor is the command line of the test binary in a role.
func actor(t testing.TB, role string, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat([]string{self, play, role}, args)
}

// stage is a socket on which processes say that they sit.
type stage struct {
	path string
	l    *net.UnixListener
}

// patience bounds what a test waits for; past it the test has failed.
const patience = 30 * time.Second

func newStage(t testing.TB) *stage {
	t.Helper()
	// The names of sockets are short.
	dir, err := os.MkdirTemp("", "reviewer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &stage{path: filepath.Join(dir, "s")}
	if s.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.l.Close() })
	return s
}

// sits waits for the next process that sits. It ends with the test at the latest.
func (s *stage) sits(t testing.TB) *net.UnixConn {
	t.Helper()
	if err := s.l.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	conn, err := s.l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ended waits until a process that sat has ended.
func ended(t testing.TB, conn *net.UnixConn) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the process did not end: read %d bytes, %v", n, err)
	}
}
