package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	hookclient "github.com/regent-policy/regent/harness/hook/client"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
	"github.com/regent-policy/regent/server/credential"
	"github.com/regent-policy/regent/server/peer/peertest"
)

// stepsVar makes the test binary another process that calls the daemon at
// socketVar: each word is a call, of which it says what came of it.
const (
	stepsVar  = "REGENT_TEST_SERVER_STEPS"
	socketVar = "REGENT_TEST_SERVER_SOCKET"
)

func TestMain(m *testing.M) {
	if steps := os.Getenv(stepsVar); steps == inherit {
		if err := listAsHeir(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	} else if steps != "" {
		if err := play(strings.Fields(steps), os.Getenv(socketVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	peertest.Main(func() { goleak.VerifyTestMain(m) })
}

// play makes calls, one after the other. "child" leaves those that follow to a
// process of its own.
func play(steps []string, socket string) error {
	c, err := client.Dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := context.Background()
	for i, step := range steps {
		name, argument, _ := strings.Cut(step, "=")
		var err error
		switch name {
		case "child":
			cmd := process(socket, steps[i+1:]...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			return cmd.Run()
		case "leave":
			return handOver(socket)
		case "ask":
			_, err = c.Ask(ctx, question("ls"))
		case "follow-and-ask":
			var e *client.Events
			if e, err = c.Events(ctx, client.FromNow); err != nil {
				break
			}
			if _, err = c.Ask(ctx, question("ls")); err == nil {
				_, err = e.Next()
			}
		case "ask-for-parent":
			q := question("ls")
			q.AgentPID = os.Getppid()
			_, err = c.Ask(ctx, q)
		case "pause": // until whoever started this says so
			_, err = io.Copy(io.Discard, os.Stdin)
		case "check-for-child":
			return checkForChild(ctx, c, process(socket, steps[i+1:]...))
		case "ask-for-init":
			q := question("ls")
			q.AgentPID = 1
			_, err = c.Ask(ctx, q)
		case "hook":
			said, code := hooked(filepath.Dir(filepath.Dir(socket)), hookclient.Pass, "rm x", nil)
			fmt.Println(step, code, strings.Contains(said, "no rm"))
			continue
		case "check":
			_, err = c.Check(ctx, question("ls"))
		case "list":
			_, err = c.List(ctx, approval.Query{})
		case "read":
			_, err = c.Read(ctx, argument)
		case "decide":
			_, err = c.Decide(ctx, argument, 1, api.Decision{Option: allow})
		case "decide-as":
			_, err = c.As("user:olga").Decide(ctx, argument, 1, api.Decision{Option: allow})
		case "cancel":
			_, err = c.Cancel(ctx, argument, 1, "no")
		case "reconcile":
			_, err = c.Reconcile(ctx, argument, 1, "no")
		case "open-session":
			_, err = c.OpenSession(ctx, argument, api.SessionSpec{Instance: argument})
		case "open-turn":
			_, err = c.OpenTurn(ctx, argument, approval.NewID(), api.TurnSpec{Instance: argument})
		case "call":
			_, err = c.Call(ctx, argument, "t1", approval.NewID(), api.CallSpec{Instance: argument, Command: &approval.Command{Text: "ls"}})
		case "session":
			_, err = c.Session(ctx, argument, argument)
		case "sessions":
			_, err = c.Sessions(ctx)
		case "respond":
			_, err = c.Respond(ctx, argument, "c1", 0, api.Response{})
		case "grants":
			_, err = c.Grants(ctx, "")
		case "revoke":
			err = c.Revoke(ctx, argument)
		case "trust":
			_, err = c.Trust(ctx, api.Trust{Dir: argument})
		case "untrust":
			_, err = c.Untrust(ctx, argument)
		case "confirm":
			err = c.Confirm(ctx, api.Confirmation{Epoch: argument})
		case "events":
			_, err = c.Events(ctx, 0)
		case "workspaces":
			_, err = c.Workspaces(ctx)
		case "epoch":
			_, err = c.Epoch(ctx, argument)
		case "metrics":
			_, err = c.Metrics(ctx)
		case "health":
			_, err = c.Health(ctx)
		case "openapi":
			_, err = c.OpenAPI(ctx)
		case "status-as":
			_, err = c.As("user:olga").Status(ctx)
		case "status":
			var s api.Status
			if s, err = c.Status(ctx); err == nil {
				fmt.Println(step, s.Principal.Role, len(s.Workspaces))
				continue
			}
		default:
			return fmt.Errorf("no such step: %s", step)
		}
		if e, ok := errors.AsType[*api.Error](err); ok {
			fmt.Println(name, e.Code)
		} else if err != nil {
			return err
		} else {
			fmt.Println(name, "ok")
		}
	}
	return nil
}

// checkForChild says that a process which it starts is an agent, and looks whether
// it is one itself by that.
func checkForChild(ctx context.Context, c *client.Client, child *exec.Cmd) error {
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	q := question("ls")
	q.AgentPID = child.Process.Pid
	_, checked := c.Check(ctx, q)
	_, listed := c.List(ctx, approval.Query{})
	if err := errors.Join(checked, listed, stdin.Close(), child.Wait()); err != nil {
		return err
	}
	fmt.Println("its parent's list ok")
	return nil
}

// inherit is what a process does to which another one has left its connection.
const inherit = "inherit"

// handOver leaves a connection to another process, and ends.
func handOver(socket string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	// That the daemon has accepted it is known when it has answered.
	if _, err := io.WriteString(conn, "GET /v1/approvals HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	fmt.Println("list", response.StatusCode)
	left, err := conn.File()
	if err != nil {
		return err
	}
	ended, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	heir := process(socket, inherit)
	heir.Stdout, heir.Stderr, heir.ExtraFiles = os.Stdout, os.Stderr, []*os.File{left, ended}
	if err := heir.Start(); err != nil {
		return err
	}
	runtime.KeepAlive(alive) // closed by the end of this process
	return nil
}

// listAsHeir uses the connection of a process that has ended.
func listAsHeir() error {
	conn, ended := os.NewFile(3, "connection"), os.NewFile(4, "pipe")
	if _, err := io.Copy(io.Discard, ended); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET /v1/approvals HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	fmt.Println("list", response.StatusCode)
	return nil
}

func process(socket string, steps ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	// The race detector makes a process that ends wait for a second.
	cmd.Env = append(os.Environ(), stepsVar+"="+strings.Join(steps, " "), socketVar+"="+socket, "GORACE=atexit_sleep_ms=0")
	return cmd
}

var (
	allow = json.RawMessage(`"allow"`)
	deny  = json.RawMessage(`"deny"`)
)

const (
	settings = "version: 1\npolicy: {evaluation_timeout_ms: 10000}\npermissions: {mode: manual, read_only_commands: skip}\n"
	people   = "principals: {owner: [\"user:olga\"], members: {\"user:mia\": member, \"user:otto\": observer}"
	rules    = `package home.rules.one

# METADATA
# custom: {id: RM}
deny contains "no rm" if input.request.command.text == "rm x"

# METADATA
# custom: {id: ECHO}
allow contains "echo is fine" if input.request.command.text == "echo hi"
`
)

// question is a command of Olga's session s1, of which Mia is a member.
func question(text string) api.Question {
	return api.Question{Request: &approval.Request{
		Kind: approval.KindCommand, Command: &approval.Command{Text: text}, Environment: &approval.Environment{Cwd: "/w"},
		Session: &approval.Session{ID: "s1", Members: []string{"user:mia"}},
		Subject: &approval.Subject{ID: "agent:a", OnBehalfOf: "user:olga"},
	}}
}

// loner is a command of no session.
func loner(text string) api.Question {
	q := question(text)
	q.Request.Session, q.Request.Subject = nil, nil
	return q
}

// hosted is a command that an instance of a run asks for.
func hosted(text, run, instance string) api.Question {
	q := question(text)
	q.Request.Run = &approval.Run{ID: run, Instance: instance}
	return q
}

// daemon is a whole daemon, on a real ledger and with real rules.
type daemon struct {
	testing.TB
	*client.Client
	home, socket, tcp string
	db                *ledger.DB
	gate              *gate.Gate
	epochs            *gate.Epochs
	tokens            *credential.Tokens
	stepUp            *credential.StepUp
	server            *server.Server
	log               *logged
	// stop ends what listens, and quit everything.
	stop func() error
	quit func()
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *logged) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(text)
}

func (r *logged) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

type setup struct {
	principals string
	// more is further configuration.
	more string
	// again is a daemon that has ended, whose home this one goes on with.
	again   *daemon
	options server.Options
	before  func(*server.Server)
	// proofs keeps proofs of who answers.
	proofs bool
	now    func() time.Time
}

// shortDir is a folder whose name leaves room for that of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rgnt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB, o setup) *daemon {
	t.Helper()
	d := &daemon{TB: t, log: &logged{}}
	if o.again != nil {
		d.home = o.again.home
	} else {
		d.home = shortDir(t)
	}
	principals := o.principals
	if principals == "" {
		principals = people + "}\n"
	}
	write(t, filepath.Join(d.home, "config.yaml"), settings+principals+o.more)
	write(t, filepath.Join(d.home, "policies", "one.rego"), rules)
	if err := os.MkdirAll(filepath.Join(d.home, "runtime"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.socket = filepath.Join(d.home, "runtime", "regent.sock")
	var err error
	if d.db, err = ledger.Open(t.Context(), filepath.Join(d.home, "runtime", "runtime.db"), ledger.Options{}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	feed := &gate.Feed{}
	d.epochs = gate.OpenEpochs(t.Context(), gate.EpochsOptions{Home: d.home, Feed: feed})
	if d.gate, _, err = gate.New(t.Context(), gate.Parts{Ledger: d.db, Workspaces: d.epochs, Feed: feed}); err != nil {
		t.Fatal(err)
	}
	d.tokens = credential.NewTokens(d.home, nil)
	options := o.options
	options.Gate, options.Epochs, options.Ledger, options.Tokens = d.gate, d.epochs, d.db, d.tokens
	options.Home, options.Version, options.Log = d.home, "v1.2.3", log
	if o.proofs {
		d.stepUp = credential.NewStepUp(d.home, o.now)
		options.StepUp = d.stepUp
	}
	d.server = server.New(options)
	if o.before != nil {
		o.before(d.server)
	}
	unix, err := d.server.ListenUnix(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := d.server.ListenTCP(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.tcp = tcp.Addr().String()
	hooks, err := d.server.ListenHooks()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.server.Serve(ctx, unix, tcp, hooks) }()
	d.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	if d.Client, err = client.Dial(d.socket); err != nil {
		t.Fatal(err)
	}
	d.quit = sync.OnceFunc(func() {
		d.Client.Close()
		documented(t, d.server)
		if err := d.stop(); err != nil && !errors.Is(err, approval.ErrDamaged) {
			t.Errorf("the daemon ends with %v\n%s", err, d.log)
		}
		d.epochs.Close()
		// A test may have taken the file away.
		if err := d.db.Close(); err != nil && !errors.Is(err, approval.ErrDamaged) {
			t.Error(err)
		}
		if text := d.log.String(); strings.Contains(text, "panic while answering") && !strings.Contains(t.Name(), "Panic") {
			t.Errorf("the daemon panicked\n%s", text)
		}
	})
	t.Cleanup(d.quit)
	return d
}

// bearer is a client over TCP that has a token of a principal.
func (d *daemon) bearer(principal string) *client.Client {
	d.Helper()
	token, _, err := d.tokens.Create(principal, "", time.Time{})
	if err != nil {
		d.Fatal(err)
	}
	c, err := client.New("http://"+d.tcp, token)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(c.Close)
	return c
}

type result struct {
	api.Answer
	err error
}

// asks asks behind the test's back.
func (d *daemon) asks(ctx context.Context, c *client.Client, q api.Question) <-chan result {
	done := make(chan result, 1)
	go func() {
		a, err := c.Ask(ctx, q)
		done <- result{a, err}
	}()
	return done
}

// until waits until the newest record is in a state, and returns it.
func (d *daemon) until(state approval.State) approval.Record {
	d.Helper()
	return d.newest(func(r *approval.Record) bool { return r.State == state })
}

// newest waits until the newest record, empty where there is none, is as wanted.
func (d *daemon) newest(is func(r *approval.Record) bool) approval.Record {
	d.Helper()
	for {
		changed := d.gate.Feed().Changed()
		page, err := d.List(d.Context(), approval.Query{Limit: 1})
		if err != nil {
			d.Fatal(err)
		}
		newest := &approval.Record{}
		if len(page.Records) > 0 {
			newest = &page.Records[0]
		}
		if is(newest) {
			return *newest
		}
		select {
		case <-changed:
		case <-d.Context().Done():
			d.Fatalf("the newest record never is as wanted: %+v", newest)
		}
	}
}

// pending asks a question that a person has to answer, and returns its record
// when the gate waits.
func (d *daemon) pending(q api.Question) (approval.Record, <-chan result) {
	d.Helper()
	before := d.newest(func(*approval.Record) bool { return true })
	waiting := d.gate.Stats().Waiting
	answer := d.asks(d.Context(), d.Client, q)
	return d.newest(func(r *approval.Record) bool {
		return r.ID != before.ID && r.State == approval.Pending && d.gate.Stats().Waiting > waiting
	}), answer
}

// code is the code of an error of the API.
func code(t testing.TB, err error) api.Code {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		t.Fatalf("the error is %v, want one of the API", err)
	}
	return e.Code
}

// raw sends a request as it is, on a connection of its own, and returns the
// status and the body.
func (d *daemon) raw(network, address string, r *http.Request) (*http.Response, []byte) {
	d.Helper()
	var text bytes.Buffer
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	response, err := t.RoundTrip(r)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := text.ReadFrom(response.Body); err != nil {
		d.Fatal(err)
	}
	return response, text.Bytes()
}
