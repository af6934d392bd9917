package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// agentVar makes the test binary an agent between two sockets: see forward.
// roomVar bounds the size of each file that the process writes, in bytes.
const (
	agentVar = "REGENT_TEST_AGENT"
	roomVar  = "REGENT_TEST_ROOM"
)

func init() {
	if room := os.Getenv(roomVar); room != "" {
		if err := bounded(room); err != nil {
			panic(err)
		}
	}
	if sockets := os.Getenv(agentVar); sockets != "" {
		if err := forward(sockets); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitFailed)
		}
		os.Exit(exitDone)
	}
}

// bounded is a disk with so much room.
func bounded(room string) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var err error
	if limit.Cur, err = strconv.ParseUint(room, 10, 63); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

// forward connects whoever comes to the first socket with the second, until its
// standard input ends. For the daemon all of them are this process: whoever asks
// is an agent and answers nothing, so that the test itself must not ask.
func forward(sockets string) error {
	from, to, _ := strings.Cut(sockets, string(os.PathListSeparator))
	l, err := net.Listen("unix", from)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	fmt.Println("ready")
	for {
		near, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer near.Close()
			far, err := net.Dial("unix", to)
			if err != nil {
				return // the caller sees that nobody is there
			}
			defer far.Close()
			ended := make(chan struct{}, 2)
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					ended <- struct{}{}
				}()
			}
			<-ended // no HTTP client closes one half only
		}()
	}
}

// site is a home whose daemon may come to any harm.
type site struct {
	t                  testing.TB
	root, home, socket string
}

// rules allow one command and deny one; a person is asked about all others.
const rules = `package home.rules.survival

allow contains "tests may run" if input.request.command.text == "make test"

deny contains "nothing is removed" if input.request.command.text == "make clean"
`

func newSite(t testing.TB) *site {
	t.Helper()
	root := shortDir(t)
	s := &site{t: t, root: root, home: filepath.Join(root, "home")}
	s.socket = filepath.Join(s.home, "runtime", "regent.sock")
	if err := patientHome(s.home); err != nil {
		t.Fatal(err)
	}
	s.write("policies/survival.rego", rules)
	return s
}

// write replaces a file of the home as a whole, as editors do.
func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	next := filepath.Join(s.root, "next")
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		s.t.Fatal(err)
	}
}

// database is the file of the ledger.
func (s *site) database() string { return filepath.Join(s.home, "runtime", "runtime.db") }

func (s *site) env(more ...string) []string {
	// The race detector would else wait a second at the end of each process.
	return append(append(os.Environ(), "HOME="+s.root, "GORACE=atexit_sleep_ms=0"), more...)
}

// run runs a command on the home to its end.
func (s *site) run(args ...string) (output string, code int) {
	s.t.Helper()
	cmd := exec.CommandContext(s.soon(), "regent", append([]string{"--home", s.home}, args...)...)
	cmd.Env = s.env()
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		s.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// soon is a context for what only takes long if it fails.
func (s *site) soon() context.Context {
	ctx, cancel := context.WithTimeoutCause(s.t.Context(), 2*patience, errors.New("it never came"))
	s.t.Cleanup(cancel)
	return ctx
}

// process is a daemon of its own process.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	ready chan struct{}
	// ended is closed when the process is gone and all that it said is in said.
	ended chan struct{}

	mu   sync.Mutex
	said strings.Builder
}

// start starts a daemon, and does not wait for it.
func (s *site) start(env ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: exec.Command("regent", "--home", s.home, "serve"), ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = s.env(env...)
	words, err := p.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		in := bufio.NewReader(words)
		for {
			line, err := in.ReadString('\n')
			p.mu.Lock()
			p.said.WriteString(line)
			p.mu.Unlock()
			if strings.HasPrefix(line, "regent serve: ready") {
				close(p.ready)
			}
			if err != nil {
				break
			}
		}
		_ = p.cmd.Wait() // how it ended is in its state
	}()
	s.t.Cleanup(func() {
		p.kill()
		for _, bad := range []string{"DATA RACE", "panic", "goroutine "} {
			if strings.Contains(p.words(), bad) {
				s.t.Errorf("a daemon said:\n%s", p.words())
			}
		}
	})
	return p
}

// serve starts a daemon and returns when it is ready.
func (s *site) serve(env ...string) *process {
	s.t.Helper()
	p := s.start(env...)
	select {
	case <-p.ready:
	case <-p.ended:
		s.t.Fatalf("the daemon ended with code %d: %s", p.cmd.ProcessState.ExitCode(), p.words())
	case <-s.soon().Done():
		s.t.Fatalf("the daemon is not ready: %s", p.words())
	}
	return p
}

// refuses starts a daemon that has to end by itself, and returns what it said.
func (s *site) refuses(code int, env ...string) string {
	s.t.Helper()
	p := s.start(env...)
	if got := p.exit(); got != code {
		s.t.Errorf("exit code %d, want %d", got, code)
	}
	select {
	case <-p.ready:
		s.t.Error("the daemon was ready")
	default:
	}
	return p.words()
}

func (p *process) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// kill ends the process as no process can help.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	<-p.ended
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end of the process, and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	late := time.NewTimer(2 * patience)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		p.t.Fatalf("the daemon does not end: %s", p.words())
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the daemon as its owner would.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitDone {
		p.t.Errorf("exit code %d: %s", code, p.words())
	}
}

// person is a client of whoever may answer: the daemon takes the test for one.
func (s *site) person() *client.Client {
	s.t.Helper()
	c, err := client.Dial(s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// agent is a client of whoever asks. It outlives the daemons of the site.
func (s *site) agent() *client.Client {
	s.t.Helper()
	socket := filepath.Join(s.root, "agent.sock")
	cmd := exec.Command("regent")
	cmd.Env = s.env(agentVar + "=" + socket + string(os.PathListSeparator) + s.socket)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			s.t.Errorf("the agent: %v", err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.t.Fatalf("the agent said %q: %v", line, err)
	}
	c, err := client.Dial(socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func asks(text string) api.Question {
	return api.Question{Request: &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: text}}}
}

// posts is a question in the name of a host that keeps what it is told.
func posts(text string) api.Question {
	q := asks(text)
	q.Request.Run = &approval.Run{ID: "run", Instance: approval.NewID()}
	return q
}

func decision(o approval.Outcome, reason string) api.Decision {
	return api.Decision{Option: json.RawMessage(strconv.Quote(string(o))), Reason: reason}
}

// events opens the stream of events from here on.
func (s *site) events(c *client.Client, after int64) *client.Events {
	s.t.Helper()
	stream, err := c.Events(s.soon(), after)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = stream.Close() }) // the daemon may have
	return stream
}

// until reads events up to one that is as told.
func (s *site) until(stream *client.Events, what string, is func(client.Event) bool) client.Event {
	s.t.Helper()
	for {
		e, err := stream.Next()
		if err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		if is(e) {
			return e
		}
	}
}

// asked is the next request of which the stream says that it waits.
func (s *site) asked(stream *client.Events) (id string) {
	s.t.Helper()
	return s.until(stream, "a request waits", func(e client.Event) bool {
		return e.Approval != nil && e.Approval.Kind == approval.EventAsked
	}).Approval.ID
}

// answer is what became of a question that was put in the background.
type answer struct {
	api.Answer
	err error
}

func (s *site) ask(c *client.Client, text string) <-chan answer {
	told := make(chan answer, 1)
	ctx := s.soon()
	go func() {
		a, err := c.Ask(ctx, asks(text))
		told <- answer{a, err}
	}()
	return told
}

// verifies holds that the ledger is as it was written, with the command of its
// owner.
func (s *site) verifies() {
	s.t.Helper()
	if out, code := s.run("ledger", "verify"); code != exitDone {
		s.t.Errorf("ledger verify: exit code %d: %s", code, out)
	}
}

// open opens the ledger at a path and verifies it.
func (s *site) open(path string, known ...ledger.Head) *ledger.DB {
	s.t.Helper()
	db, err := ledger.Open(s.soon(), path, ledger.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	report, err := db.Verify(s.soon(), known...)
	if err != nil || len(report.Faults) > 0 {
		s.t.Errorf("verify: %v, %v", report.Faults, err)
	}
	return db
}

// live are the records that somebody has yet to act on.
func (s *site) live(list func(context.Context, approval.Query) (approval.Page, error)) map[string]approval.Record {
	s.t.Helper()
	all := map[string]approval.Record{}
	q := approval.Query{States: []approval.State{approval.Pending, approval.Decided, approval.Sent}}
	for {
		page, err := list(s.soon(), q)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range page.Records {
			all[r.ID] = r
		}
		if q.Before = page.Before; q.Before == "" {
			return all
		}
	}
}
