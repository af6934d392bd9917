// These tests are inside package main because that is all a command has: they
// run it as a process of its own, as a person does, beside a real daemon.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
	"github.com/regent-policy/regent/server/peer/peertest"
)

// hostVar makes the test binary the command itself.
const hostVar = "REGENT_TEST_NATIVE_HOST"

// patience is for what only takes long if it fails.
const patience = time.Minute

// built is the folder of the program regent.
var built string

func TestMain(m *testing.M) {
	if os.Getenv(hostVar) != "" {
		code := Main(os.Args[1:], os.Stdout, os.Stderr)
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

// bench is a home with a daemon, a folder for the agent, and a person.
type bench struct {
	testing.TB
	ctx       context.Context
	root      string
	workspace string
	daemon    *exec.Cmd
	person    *client.Client
	events    *client.Events
}

func open(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
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
	b := &bench{TB: t, ctx: ctx, root: root, workspace: filepath.Join(root, "rules")}
	t.Cleanup(func() {
		b.stop()
		cancel()
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	// Rules have the time that they may need on a busy machine.
	b.write("home/config.yaml", "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n")
	for _, name := range []string{"config.yaml", "policies/scratch.rego"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.write("rules/"+name, string(text))
	}
	b.start()
	if _, err := b.person.Trust(b.ctx, api.Trust{Dir: b.workspace}); err != nil {
		t.Fatal(err)
	}
	return b
}

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

// holds says what a file holds, and that there is none as "(none)".
func (b *bench) holds(name string) string {
	b.Helper()
	text, err := os.ReadFile(b.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// start runs a daemon, and returns when it answers.
func (b *bench) start() {
	b.Helper()
	path, err := program()
	if err != nil {
		b.Fatal(err)
	}
	b.daemon = exec.Command(path, "--home", b.path("home"), "serve")
	words, err := b.daemon.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := b.daemon.Start(); err != nil {
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
	go func() { _, _ = io.Copy(io.Discard, said) }() // until the daemon ends
	if b.person, err = client.Dial(b.path("home/runtime/regent.sock")); err != nil {
		b.Fatal(err)
	}
	if b.events, err = b.person.Events(b.ctx, 0); err != nil {
		b.Fatal(err)
	}
}

// stop ends the daemon, if one runs.
func (b *bench) stop() {
	b.Helper()
	if b.daemon == nil {
		return
	}
	if b.events != nil {
		_ = b.events.Close()
	}
	if b.person != nil {
		b.person.Close()
	}
	_ = b.daemon.Process.Signal(os.Interrupt)
	_ = b.daemon.Wait() // the code of one that was killed is no matter
	b.daemon, b.events, b.person = nil, nil, nil
}

// kill ends the daemon as a crash does.
func (b *bench) kill() {
	b.Helper()
	if err := b.daemon.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	b.stop()
}

// run is a run of the host.
type run struct {
	*bench
	cmd  *exec.Cmd
	said bytes.Buffer
}

// begin starts the host on a script; "" is that of the example.
func (b *bench) begin(script string, flags ...string) *run {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	args := append([]string{"--home", b.path("home"), "--workspace", b.workspace, "--scratch", b.path("agent/work")}, flags...)
	if script != "" {
		b.write("script.json", script)
		args = append(args, "--script", b.path("script.json"))
	}
	r := &run{bench: b, cmd: exec.CommandContext(b.ctx, self, args...)}
	r.cmd.Env = append(os.Environ(), hostVar+"=1", "GORACE=atexit_sleep_ms=0")
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	if err := r.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return r
}

// end waits for the end of the host, and returns what it said.
func (r *run) end(code int) string {
	r.Helper()
	_ = r.cmd.Wait()
	text := strings.ReplaceAll(r.said.String(), r.root, "/demo")
	text = regexp.MustCompile(`example-[a-z2-7]{8}`).ReplaceAllString(text, "example-1")
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.Fatalf("exit code %d, want %d\n%s", got, code, text)
	}
	return text
}

// asked waits for the next request that waits for a person.
func (b *bench) asked() approval.Record {
	b.Helper()
	for {
		event, err := b.events.Next()
		if err != nil {
			b.Fatalf("nobody is asked: %v", err)
		}
		if e := event.Approval; e != nil && e.Kind == approval.EventAsked {
			record, err := b.person.Read(b.ctx, e.ID)
			if err != nil {
				b.Fatal(err)
			}
			// What rules and grants answer is recorded too.
			if record.Ruling.Route == approval.RouteAsk {
				return record
			}
		}
	}
}

// answer gives one of Regent's own answers.
func (b *bench) answer(r approval.Record, option, reason string) {
	b.Helper()
	text, err := json.Marshal(option)
	if err == nil {
		_, err = b.person.Decide(b.ctx, r.ID, r.Revision, api.Decision{Option: text, Reason: reason})
	}
	if err != nil {
		b.Fatal(err)
	}
}

// records are all that the ledger has, the oldest first.
func (b *bench) records() []approval.Record {
	b.Helper()
	page, err := b.person.List(b.ctx, approval.Query{})
	if err != nil {
		b.Fatal(err)
	}
	var all []approval.Record
	for _, r := range page.Records {
		all = append([]approval.Record{r}, all...)
	}
	return all
}
