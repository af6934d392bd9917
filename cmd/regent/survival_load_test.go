package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/client"
)

// dial is a connection on which a test can behave as no client does.
func (s *site) dial(send string) *net.UnixConn {
	s.t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.socket, Net: "unix"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() }) // a test may have
	if err := conn.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.ReplaceAll(send, "\n", "\r\n")); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// stalled is a connection on which the daemon waits for the rest of a body.
func (s *site) stalled() *bufio.Reader {
	s.t.Helper()
	in := bufio.NewReader(s.dial("POST /v1/check HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 100\nExpect: 100-continue\n\n{"))
	// That is said when somebody begins to read.
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
		if line, err := in.ReadString('\n'); line != want {
			s.t.Fatalf("%q, %v; want %q", line, err, want)
		}
	}
	return in
}

// hangsUp returns when the other end of a connection is closed, without reading
// what came before that.
func hangsUp(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	controlErr := raw.Control(func(fd uintptr) {
		for {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int((2 * patience).Milliseconds()))
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if err == nil && n == 0 {
		err = os.ErrDeadlineExceeded
	}
	return errors.Join(controlErr, err)
}

// Those who do not read, do not go on or do not end hold back nobody, and are cut
// off.
func TestSlowOnesHoldBackNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.serve()
	agent, person := s.agent(), s.person()
	stream := s.events(person, 0)
	reader := s.dial("GET /v1/events?after=0 HTTP/1.1\nHost: localhost\n\n")
	body := s.stalled()
	head := s.dial("GET /v1/heal")

	// More events than a connection holds that nobody reads.
	const count = 400
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range count / 4 {
				if a, err := agent.Ask(s.soon(), asks("make test")); err != nil || a.Outcome != approval.OutcomeAllow {
					t.Errorf("%q, %v", a.Outcome, err)
				}
			}
		})
	}
	over := 0
	for seq := int64(1); over < count; seq++ {
		e := s.until(stream, "all is heard of", func(e client.Event) bool { return e.Approval != nil })
		if e.Approval.Seq != seq {
			t.Fatalf("event %d is followed by %d", seq-1, e.Approval.Seq)
		}
		if e.Approval.State == approval.Resolved {
			over++
		}
	}
	wait.Wait()

	if line, err := body.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 408 ") {
		t.Errorf("a body that does not come is answered by %q, %v", line, err)
	}
	if text, err := io.ReadAll(head); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
		t.Errorf("a head that does not come is answered by %q, %v", text, err)
	}
	if err := hangsUp(reader); err != nil {
		t.Errorf("a reader that does not read: %v", err)
	}
	s.allowed(agent, 1)

	// The daemon waits for none of them at its end.
	s.dial("GET /v1/events?after=0 HTTP/1.1\nHost: localhost\n\n")
	s.stalled()
	s.dial("GET /v1/heal")
	s.dial("")
	d.stop()
	s.verifies()
}

// Everybody who waits hears how it ended, however many they are.
func TestManyWaitAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.serve()
	agent, person := s.agent(), s.person()
	stream := s.events(person, client.FromNow)
	told := make([]<-chan answer, manyAsks)
	for i := range told {
		told[i] = s.ask(agent, fmt.Sprintf("deploy %d", i))
	}
	ids := make([]string, manyAsks)
	for i := range ids {
		ids[i] = s.asked(stream)
	}
	if status, err := person.Status(s.soon()); err != nil || status.Waiting != manyAsks {
		t.Errorf("%d wait, %v; want %d", status.Waiting, err, manyAsks)
	}
	s.allowed(agent, 10)
	const decided = 20
	for i, id := range ids[:decided] {
		outcome := approval.OutcomeAllow
		if i%2 == 1 {
			outcome = approval.OutcomeDeny
		}
		if _, err := person.Decide(s.soon(), id, 1, decision(outcome, "")); err != nil {
			t.Error(err)
		}
	}
	d.signal(syscall.SIGTERM)
	outcomes := map[string]int{}
	for _, one := range told {
		a := <-one
		if a.err != nil {
			t.Errorf("one who waited: %v", a.err)
			continue
		}
		outcomes[fmt.Sprintf("%s %s", a.State, a.Outcome)]++
	}
	if code := d.exit(); code != exitDone {
		t.Errorf("exit code %d: %s", code, d.words())
	}
	if outcomes["decided allow"] != decided/2 || outcomes["decided deny"] != decided/2 || outcomes["lost deny"] != manyAsks-decided {
		t.Errorf("of %d requests, of which %d were decided, were told %v", manyAsks, decided, outcomes)
	}
	s.verifies()
	db := s.open(s.database())
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if left := s.live(db.List); len(left) > 0 {
		t.Errorf("%d records are live and nobody is there", len(left))
	}
}

func TestDaemonIsToldToEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var agent *client.Client
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := s.serve()
		if agent == nil {
			agent = s.agent()
		}
		person := s.person()
		stream := s.events(person, client.FromNow)
		waits := s.ask(agent, "deploy")
		s.asked(stream)
		posted, err := agent.Post(s.soon(), posts("release"))
		if err != nil {
			t.Fatal(err)
		}
		d.signal(signal)
		if a := <-waits; a.err != nil || a.State != approval.Lost || a.Outcome != approval.OutcomeDeny {
			t.Errorf("%s: one who waits is told %s, %s, %v", signal, a.State, a.Outcome, a.err)
		}
		for err == nil {
			_, err = stream.Next()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: the stream ends with %v", signal, err)
		}
		if code := d.exit(); code != exitDone || !strings.HasSuffix(d.words(), "regent serve: ended\n") {
			t.Errorf("%s: exit code %d: %s", signal, code, d.words())
		}
		if _, err := os.Lstat(s.socket); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the socket is still there: %v", signal, err)
		}
		db := s.open(s.database())
		if r, err := db.Read(s.soon(), posted.ID); err != nil || r.State != approval.Lost {
			t.Errorf("%s: what was posted is %s, %v", signal, r.State, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	s.verifies()
}

// Who says it twice does not want to wait.
func TestSecondSignalEndsTheDaemonAtOnce(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := newSite(t)
		d := s.serve()
		agent := s.agent()
		ids := s.allowed(agent, 3)
		stream := s.events(s.person(), client.FromNow)
		waits := s.ask(agent, "deploy")
		s.asked(stream)
		s.stalled() // which the daemon would wait for
		d.signal(signal)
		<-waits // so that it is at it
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for ended := false; !ended; {
			select {
			case <-d.ended:
				ended = true
			case <-again.C:
				_ = d.cmd.Process.Signal(signal) // it may be gone
			}
		}
		if code := d.exit(); code != exitFailed || strings.Contains(d.words(), "regent serve: ended") {
			t.Errorf("%s: exit code %d: %s", signal, code, d.words())
		}
		s.serve().stop()
		s.keeps(ids)
	}
}
