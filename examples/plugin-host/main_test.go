// These tests are inside package main because that is all a command has: they run it
// as a process of its own, which loads the real program, beside a real daemon.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/evaluator"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
	"github.com/regent-policy/regent/server/peer/peertest"
)

// hostVar makes the test binary the command itself.
const hostVar = "REGENT_TEST_PLUGIN_HOST"

// patience is for what only takes long if it fails.
const patience = time.Minute

// built is the folder of the program regent.
var built string

func TestMain(m *testing.M) {
	if os.Getenv(hostVar) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := 0
		if os.Getenv(hostVar) == "1" {
			code = Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
		} else if err := triesToAnswer(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		stop()
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 99
		}
		os.Exit(code)
	}
	peertest.Main(func() {
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			_ = os.RemoveAll(built)
			os.Exit(code)
		}))
	})
}

// program builds regent, once.
var program = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "regent-"); err != nil {
		return "", err
	}
	path := filepath.Join(built, "regent")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/regent").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// bench is a home, and the rules of the quickstart.
type bench struct {
	testing.TB
	ctx       context.Context
	root      string
	regent    string
	workspace string
}

func open(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := filepath.Abs("../quickstart")
	if err != nil {
		t.Fatal(err)
	}
	// A socket's path must be short.
	root, err := os.MkdirTemp("/tmp", "rg")
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("it never came"))
	t.Cleanup(func() {
		cancel()
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	b := &bench{TB: t, ctx: ctx, root: root, regent: path, workspace: workspace}
	// Rules have the time that they may need on a busy machine.
	b.write("home/config.yaml", patientHome)
	return b
}

const patientHome = "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n"

func (b *bench) path(name string) string { return filepath.Join(b.root, filepath.FromSlash(name)) }

func (b *bench) write(name, text string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// daemon is one that runs, and a person beside it.
type daemon struct {
	*bench
	cmd    *exec.Cmd
	person *client.Client
	events *client.Events
}

// serve runs a daemon, which ends with the test.
func (b *bench) serve() *daemon {
	b.Helper()
	d := &daemon{bench: b, cmd: exec.Command(b.regent, "--home", b.path("home"), "serve")}
	words, err := d.cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	said := bufio.NewReader(words)
	var log strings.Builder
	for !strings.Contains(log.String(), "regent serve: ready on ") {
		line, err := said.ReadString('\n')
		log.WriteString(line)
		if err != nil {
			b.Fatalf("the daemon did not start: %v\n%s", err, log.String())
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, said) // until the daemon ends
	}()
	b.Cleanup(func() {
		if d.events != nil {
			_ = d.events.Close()
		}
		if d.person != nil {
			d.person.Close()
		}
		_ = d.cmd.Process.Signal(os.Interrupt)
		<-drained
		_ = d.cmd.Wait() // the code of one that was killed is no matter
	})
	if d.person, err = client.Dial(b.path("home/runtime/regent.sock")); err != nil {
		b.Fatal(err)
	}
	if d.events, err = d.person.Events(b.ctx, 0); err != nil {
		b.Fatal(err)
	}
	if _, err := d.person.Trust(b.ctx, api.Trust{Dir: b.workspace}); err != nil {
		b.Fatal(err)
	}
	return d
}

// next waits for an event of the kind, and returns the record that it is about.
func (d *daemon) next(kinds ...approval.EventKind) approval.Record {
	d.Helper()
	for {
		event, err := d.events.Next()
		if err != nil {
			d.Fatalf("%v did not happen: %v", kinds, err)
		}
		for _, kind := range kinds {
			if e := event.Approval; e != nil && e.Kind == kind {
				record, err := d.person.Read(d.ctx, e.ID)
				if err != nil {
					d.Fatal(err)
				}
				return record
			}
		}
	}
}

// host is a run of the example.
type host struct {
	*bench
	cmd          *exec.Cmd
	said, errors strings.Builder
	lines        *bufio.Reader
	plugin       int
}

func (b *bench) host() *host {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	h := &host{bench: b, cmd: exec.CommandContext(b.ctx, self, "--regent", b.regent, "--home", b.path("home"), "--workspace", b.workspace)}
	h.cmd.Env = append(os.Environ(), hostVar+"=1", "GORACE=atexit_sleep_ms=0")
	h.cmd.Stderr = &h.errors
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	h.lines = bufio.NewReader(out)
	first := h.line()
	found := regexp.MustCompile(`\(pid (\d+)\)`).FindStringSubmatch(first)
	if found == nil {
		b.Fatalf("the host says %q\n%s", first, h.errors.String())
	}
	h.plugin, _ = strconv.Atoi(found[1]) // it is digits
	return h
}

// signal sends a signal to what the host has loaded.
func (h *host) signal(sig os.Signal) error {
	p, err := os.FindProcess(h.plugin)
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

func (h *host) line() string {
	h.Helper()
	line, err := h.lines.ReadString('\n')
	h.said.WriteString(line)
	if err != nil && line == "" {
		_ = h.cmd.Wait()
		h.Fatalf("the host ended: %v\n%s%s", err, h.said.String(), h.errors.String())
	}
	return line
}

// end waits for the end of the host, and returns what it said.
func (h *host) end(code int) string {
	h.Helper()
	if _, err := io.Copy(&h.said, h.lines); err != nil {
		h.Fatal(err)
	}
	_ = h.cmd.Wait()
	if got := h.cmd.ProcessState.ExitCode(); got != code {
		h.Fatalf("exit code %d, want %d\n%s%s", got, code, h.said.String(), h.errors.String())
	}
	text := strings.ReplaceAll(h.said.String(), h.root, "/demo")
	return regexp.MustCompile(`pid \d+`).ReplaceAllString(text, "pid 1")
}

const evaluated = `loaded regent (pid 1); the daemon of /demo/home %s
skip    ls -l
        permissions.read_only_commands is skip, and every command certainly only reads
deny    git push --force origin main
        this push rewrites or deletes the protected branch main
ask     npm publish
        npm publish publishes what cannot be taken back
asking  npm publish
`

func TestWithoutADaemonNobodyCanBeAsked(t *testing.T) {
	b := open(t)
	want := fmt.Sprintf(evaluated, "does not run") + `deny    npm publish
        no daemon of the home runs (regent serve), so nobody can be asked
`
	if diff := cmp.Diff(want, b.host().end(3)); diff != "" {
		t.Errorf("the host (-want +got):\n%s", diff)
	}
	if _, err := os.Lstat(b.path("home/runtime")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was recorded: %v", err)
	}
}

func TestAPersonAnswers(t *testing.T) {
	for _, tt := range []struct {
		option string
		code   int
		want   string
	}{
		{"allow", 0, "allow   npm publish\n        go on\n"},
		{"deny", 3, "deny    npm publish\n        go on\n"},
		{"cancel", 3, "cancel  npm publish\n        go on\n"},
	} {
		t.Run(tt.option, func(t *testing.T) {
			b := open(t)
			d := b.serve()
			h := b.host()
			r := d.next(approval.EventAsked)
			// An interrupt in a terminal reaches both. It is for the host.
			if err := h.signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if _, err := d.person.Decide(b.ctx, r.ID, r.Revision, api.Decision{Option: quoted(t, tt.option), Reason: "go on"}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fmt.Sprintf(evaluated, "runs")+tt.want, h.end(tt.code)); diff != "" {
				t.Errorf("the host (-want +got):\n%s", diff)
			}
		})
	}
}

func quoted(t *testing.T, text string) json.RawMessage {
	t.Helper()
	out, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestToStopWaitingIsToWithdraw(t *testing.T) {
	for name, tt := range map[string]struct {
		stop func(h *host) error
		says string
	}{
		"the host stops waiting":    {func(h *host) error { return h.cmd.Process.Signal(os.Interrupt) }, "the question was withdrawn"},
		"the plugin is killed":      {func(h *host) error { return h.signal(os.Kill) }, evaluator.ErrGone.Error()},
		"the plugin is told to end": {func(h *host) error { return h.signal(syscall.SIGTERM) }, evaluator.ErrGone.Error()},
		"the daemon is killed":      {nil, "an error is no permission"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			d := b.serve()
			h := b.host()
			r := d.next(approval.EventAsked)
			stop := tt.stop
			if stop == nil {
				stop = func(*host) error { return d.cmd.Process.Kill() }
			}
			if err := stop(h); err != nil {
				t.Fatal(err)
			}
			if got := h.end(1); !strings.HasSuffix(got, "asking  npm publish\n") {
				t.Errorf("the host goes on:\n%s", got)
			}
			if !strings.Contains(h.errors.String(), tt.says) {
				t.Errorf("the host says %q, want %q", h.errors.String(), tt.says)
			}
			if tt.stop == nil {
				return
			}
			if r = d.next(approval.EventCancelled, approval.EventLost); r.Decision != nil || r.State != approval.Cancelled {
				t.Errorf("the record is %s with %+v, want cancelled", r.State, r.Decision)
			}
		})
	}
}

// TestTheProgramEndsWithItsHost: one that was killed can end nothing itself.
func TestTheProgramEndsWithItsHost(t *testing.T) {
	b := open(t)
	d := b.serve()
	b.write("tmp/kept", "")
	t.Setenv("TMPDIR", b.path("tmp")) // where its socket is, as long as it lives
	h := b.host()
	r := d.next(approval.EventAsked)
	sockets := func() []string {
		found, err := filepath.Glob(b.path("tmp/plugin*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := sockets(); len(got) != 1 {
		t.Fatalf("sockets: %q", got)
	}
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait() // it was killed
	if got := d.next(approval.EventCancelled, approval.EventLost); got.ID != r.ID || got.State != approval.Cancelled {
		t.Errorf("the record is %s, want cancelled", got.State)
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for len(sockets()) > 0 {
		select {
		case <-again.C:
		case <-b.ctx.Done():
			t.Fatal("the program lives on")
		}
	}
}

// load loads the program into this process, as a host does.
func (b *bench) load(o evaluator.Options) *evaluator.Client {
	b.Helper()
	o.Program, o.Home = b.regent, b.path("home")
	c, err := evaluator.Start(b.ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func TestAConsoleThatAsksNothingAnswers(t *testing.T) {
	b := open(t)
	d := b.serve()
	first := b.host() // an agent's, somewhere else
	r := d.next(approval.EventAsked)
	c := b.load(evaluator.Options{Workspace: b.workspace})
	decision := func(revision int64, option string) evaluator.Decision {
		return evaluator.Decision{ID: r.ID, Revision: revision, Decision: api.Decision{Option: quoted(t, option), Reason: "by a console"}}
	}

	if _, err := c.Answer(b.ctx, decision(r.Revision, "accept")); !errors.Is(err, approval.ErrNotOffered) {
		t.Errorf("an option that is not offered is %v", err)
	}
	got, err := c.Answer(b.ctx, decision(r.Revision, "deny"))
	if err != nil || got.Decision == nil || got.Decision.Reason != "by a console" {
		t.Fatalf("the record is %+v, %v", got.Decision, err)
	}
	first.end(3)
	if _, err := c.Answer(b.ctx, decision(r.Revision, "allow")); !errors.Is(err, approval.ErrConflict) {
		t.Errorf("a second answer is %v, want a conflict", err)
	}
}

func TestWhoAskedDoesNotAnswer(t *testing.T) {
	b := open(t)
	d := b.serve()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(b.ctx, self, b.regent, b.path("home"))
	cmd.Env = append(os.Environ(), hostVar+"=tries to answer", "GORACE=atexit_sleep_ms=0")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	tell, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := d.next(approval.EventAsked)
	if _, err := fmt.Fprintln(tell, r.ID, r.Revision); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	const want = "by what asked: forbidden\nby another that it loads: forbidden\nwithdrawn: true\n"
	if diff := cmp.Diff(want, said.String()); diff != "" {
		t.Errorf("an answer (-want +got):\n%s", diff)
	}
	if r = d.next(approval.EventCancelled); r.Decision != nil {
		t.Errorf("somebody decided: %+v", r.Decision)
	}
}

// triesToAnswer is a host that answers what it asked, by the program that asked and
// by another. It is told the record's id and revision on standard input.
func triesToAnswer(program, home string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var loaded []*evaluator.Client
	for range 2 {
		c, err := evaluator.Start(ctx, evaluator.Options{Program: program, Home: home})
		if err != nil {
			return err
		}
		defer c.Close()
		loaded = append(loaded, c)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := loaded[0].Ask(ctx, question("npm publish"))
		asked <- err
	}()
	d := evaluator.Decision{Decision: api.Decision{Option: json.RawMessage(`"allow"`)}}
	if _, err := fmt.Fscan(os.Stdin, &d.ID, &d.Revision); err != nil {
		return err
	}
	for i, who := range []string{"what asked", "another that it loads"} {
		_, err := loaded[i].Answer(ctx, d)
		fault, ok := errors.AsType[*api.Error](err)
		if !ok {
			return fmt.Errorf("an answer by %s: %w", who, err)
		}
		fmt.Printf("by %s: %s\n", who, fault.Code)
	}
	cancel()
	fmt.Printf("withdrawn: %t\n", errors.Is(<-asked, context.Canceled))
	return nil
}

func TestAnswersNeedADaemon(t *testing.T) {
	b := open(t)
	_, err := b.load(evaluator.Options{}).Answer(b.ctx, evaluator.Decision{ID: "x", Revision: 1, Decision: api.Decision{Option: quoted(t, "allow")}})
	if !errors.Is(err, evaluator.ErrNoDaemon) {
		t.Errorf("an answer is %v, want ErrNoDaemon", err)
	}
}

func TestPolicyAloneDecidesWithoutADaemon(t *testing.T) {
	const rules = "package rules.x\n\nallow contains \"fine\" if input.request.command.text == \"npm publish\"\n"
	ask := func(t *testing.T, c *evaluator.Client, q evaluator.Question) api.Answer {
		t.Helper()
		answer, err := c.Ask(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	setup := func(t *testing.T) *bench {
		b := open(t)
		b.write("rules/config.yaml", "version: 1\npolicy: {paths: [policies]}\n")
		b.write("rules/policies/x.rego", rules)
		return b
	}
	t.Run("an allow of a workspace that the command line names", func(t *testing.T) {
		b := setup(t)
		answer := ask(t, b.load(evaluator.Options{Workspace: b.path("rules")}), question("npm publish"))
		if answer.Outcome != approval.OutcomeAllow || string(answer.Option) != `"allow"` || answer.ID != "" {
			t.Errorf("the answer is %+v", answer)
		}
	})
	t.Run("not of one that a question names", func(t *testing.T) {
		b := setup(t)
		q := question("npm publish")
		q.Workspace = b.path("rules")
		if answer := ask(t, b.load(evaluator.Options{}), q); answer.Outcome != approval.OutcomeDeny {
			t.Errorf("the answer is %+v", answer)
		}
	})
	t.Run("not of one where its owner confirms what loosens", func(t *testing.T) {
		b := setup(t)
		b.write("home/config.yaml", "version: 1\npolicy: {evaluation_timeout_ms: 10000, confirm_loosening: true}\n")
		answer := ask(t, b.load(evaluator.Options{Workspace: b.path("rules")}), question("npm publish"))
		if answer.Outcome != approval.OutcomeDeny || !strings.Contains(answer.Reason, "confirm_loosening") {
			t.Errorf("the answer is %+v", answer)
		}
	})
	t.Run("not to an answer that lasts", func(t *testing.T) {
		b := setup(t)
		q := question("npm publish")
		q.Request.Options = []json.RawMessage{quoted(t, "allow_for_session"), quoted(t, "decline")}
		answer := ask(t, b.load(evaluator.Options{Workspace: b.path("rules")}), q)
		if answer.Outcome != approval.OutcomeDeny || string(answer.Option) != `"decline"` {
			t.Errorf("the answer is %+v", answer)
		}
	})
	t.Run("an edit counts at the next call, and one with a fault allows nothing", func(t *testing.T) {
		b := setup(t)
		c := b.load(evaluator.Options{Workspace: b.path("rules")})
		var got []approval.Route
		for _, edit := range []struct{ name, text string }{
			{"rules/policies/x.rego", rules},
			{"rules/policies/x.rego", strings.Replace(rules, "allow", "deny", 1)},
			{"rules/policies/x.rego", "package rules.x\n\nallow contains"},
			{"rules/policies/x.rego", rules},
			{"rules/config.yaml", "version: 2\n"},
		} {
			b.write(edit.name, edit.text)
			ruling, err := c.Evaluate(b.ctx, question("npm publish"))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ruling.Route)
		}
		want := []approval.Route{approval.RouteAllow, approval.RouteDeny, approval.RouteAsk, approval.RouteAllow, approval.RouteAsk}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
		if answer := ask(t, c, question("npm publish")); answer.Outcome != approval.OutcomeDeny {
			t.Errorf("the answer is %+v", answer)
		}
	})
}
