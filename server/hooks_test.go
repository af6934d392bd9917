package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	hookclient "github.com/regent-policy/regent/harness/hook/client"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
)

// hooked runs a hook of Codex about a script, and returns what it says and its
// code. Dial takes the place of the system's.
func hooked(home string, onAsk hookclient.OnAsk, script string, dial func(string) (hookclient.Conn, error)) (said string, code int) {
	var out, words bytes.Buffer
	h := &hookclient.Hook{
		Dialect: hookclient.Codex, OnAsk: onAsk, Home: home, Timeout: time.Minute, AgentPID: os.Getppid(), Cwd: "/",
		Stdin:  strings.NewReader(fmt.Sprintf(`{"session_id":"s1","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":%q}}`, script)),
		Stdout: &out, Stderr: &words, Dial: dial,
	}
	code = h.Run()
	return out.String() + words.String(), code
}

func TestHooksAreAnswered(t *testing.T) {
	d := start(t, setup{})
	for name, test := range map[string]struct {
		onAsk    hookclient.OnAsk
		script   string
		said     string
		recorded bool
	}{
		"what a rule denies is refused in its words":    {hookclient.Pass, "rm x", "no rm", true},
		"what is skipped is let go":                     {hookclient.Pass, "ls", "", false},
		"what a rule allows is let go":                  {hookclient.Pass, "echo hi", "", false},
		"what a person would be asked is let go":        {hookclient.Pass, "make x", "", false},
		"or refused":                                    {hookclient.Deny, "make x", "nobody is asked here", true},
		"what a rule allows is let go without a person": {hookclient.Deny, "echo hi", "", false},
		"what is skipped is not waited for":             {hookclient.Wait, "ls", "", false},
		"nor is what a rule denies":                     {hookclient.Wait, "rm x", "no rm", true},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.newest(func(*approval.Record) bool { return true })
			said, code := hooked(d.home, test.onAsk, test.script, nil)
			if code != 0 || !strings.Contains(said, test.said) || (said == "") != (test.said == "") {
				t.Fatalf("code %d, %q; want %q", code, said, test.said)
			}
			if !test.recorded {
				if r := d.newest(func(*approval.Record) bool { return true }); r.ID != before.ID {
					t.Errorf("it is recorded as %+v, want no record", r)
				}
				return
			}
			// The hook was told, and that is the end of the record.
			r := d.newest(func(r *approval.Record) bool { return r.ID != before.ID && r.State == approval.Resolved })
			if r.Decision.Outcome != approval.OutcomeDeny || r.Request.Harness.Name != "codex" || r.Request.Session.ID != "s1" {
				t.Errorf("the record is %+v, want a denial of Codex", r)
			}
		})
	}
	text, err := d.Metrics(t.Context())
	if err != nil || !strings.Contains(string(text), `regent_ruling_seconds_count{call="hook"} 6`) {
		t.Errorf("metrics do not count 6 hooks, %v", err)
	}
}

func TestHookWaitsForAPerson(t *testing.T) {
	for option, refused := range map[string]bool{string(allow): false, string(deny): true} {
		t.Run(option, func(t *testing.T) {
			d := start(t, setup{})
			type result struct {
				said string
				code int
			}
			done := make(chan result, 1)
			go func() {
				said, code := hooked(d.home, hookclient.Wait, "make x", nil)
				done <- result{said, code}
			}()
			r := d.until(approval.Pending)
			if left := r.Deadline.Sub(r.Created); left >= time.Minute || left < 50*time.Second {
				t.Errorf("people are told that it waits for %s, want a little less than the hook does", left)
			}
			if _, err := d.Decide(t.Context(), r.ID, r.Revision, api.Decision{Option: []byte(option), Reason: "looked at it"}); err != nil {
				t.Fatal(err)
			}
			if got := <-done; got.code != 0 || strings.Contains(got.said, "looked at it") != refused || (got.said != "") != refused {
				t.Errorf("the hook says %+v, want refused %t", got, refused)
			}
			d.until(approval.Resolved)
		})
	}
}

func TestHookThatGoesAwayWithdraws(t *testing.T) {
	d := start(t, setup{})
	conn := make(chan net.Conn, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		hooked(d.home, hookclient.Wait, "make x", func(path string) (hookclient.Conn, error) {
			c, err := net.Dial("unix", path)
			conn <- c
			return c, err
		})
	}()
	d.until(approval.Pending)
	if err := (<-conn).Close(); err != nil {
		t.Fatal(err)
	}
	d.until(approval.Cancelled)
	<-done
}

func TestHookThatWaitsIsRefusedWhenTheDaemonEnds(t *testing.T) {
	d := start(t, setup{})
	done := make(chan string, 1)
	go func() {
		said, _ := hooked(d.home, hookclient.Wait, "make x", nil)
		done <- said
	}()
	d.until(approval.Pending)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if said := <-done; !strings.Contains(said, `"permissionDecision":"deny"`) {
		t.Errorf("the hook says %q, want a refusal", said)
	}
	if _, err := os.Lstat(filepath.Join(d.home, "runtime", "hook.sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if said, code := hooked(d.home, hookclient.Pass, "ls", nil); code != 0 || !strings.Contains(said, "no daemon listens") {
		t.Errorf("a later hook says %q with %d, want a refusal", said, code)
	}
}

func TestWhoStartsAHookIsAnAgent(t *testing.T) {
	d := start(t, setup{})
	for name, test := range map[string]struct{ steps, want []string }{
		"whatever else it starts only asks":     {[]string{"child", "hook", "child", "list"}, []string{"hook 0 true", "list forbidden"}},
		"and so does the hook":                  {[]string{"child", "hook", "list", "ask"}, []string{"hook 0 true", "list forbidden", "ask ok"}},
		"but not what the daemon descends from": {[]string{"hook", "list"}, []string{"hook 0 true", "list forbidden"}},
		"nor another that the same has started": {[]string{"list"}, []string{"list ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, d.plays(test.steps...)); diff != "" {
				t.Errorf("it may (-want +got):\n%s", diff)
			}
		})
	}
}

// speak sends bytes to the hook socket and returns all that comes back.
func (d *daemon) speak(message []byte) []byte {
	d.Helper()
	conn, err := net.Dial("unix", filepath.Join(d.home, "runtime", "hook.sock"))
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(message); err != nil {
		d.Fatal(err)
	}
	if half, ok := conn.(*net.UnixConn); ok {
		if err := half.CloseWrite(); err != nil {
			d.Fatal(err)
		}
	}
	// One that is hung up on with something left to read hears of that.
	back, _ := io.ReadAll(conn)
	return back
}

func TestHookSocketTakesOneMessage(t *testing.T) {
	d := start(t, setup{})
	framed := func(text string) []byte {
		return append([]byte{0, 0, byte(len(text) >> 8), byte(len(text))}, text...)
	}
	good := `{"version":1,"dialect":"codex","on_ask":"pass","agent_pid":%d,"cwd":"/","wait_ms":10000,"payload":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}}`
	for name, test := range map[string]struct {
		message []byte
		// said is in the answer; "" is none at all.
		said string
	}{
		"nothing":                 {nil, ""},
		"a call of the API":       {[]byte("GET /v1/status HTTP/1.1\r\n\r\n"), ""},
		"half a message":          {framed("{}")[:5], ""},
		"a message of no length":  {framed(""), ""},
		"no call":                 {framed("[]"), `"exit":2`},
		"another version":         {framed(`{"version":7,"dialect":"codex"}`), "version 7"},
		"a process of no concern": {framed(fmt.Sprintf(good, 1<<22)), "no ancestor of the caller"},
		"one who does not wait":   {framed(fmt.Sprintf(good, 0)), `"version":1`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(d.speak(test.message)); !strings.Contains(got, test.said) || (got == "") != (test.said == "") {
				t.Errorf("it is answered %q, want %q", got, test.said)
			}
		})
	}
	if said, code := hooked(d.home, hookclient.Pass, "rm x", nil); code != 0 || !strings.Contains(said, "no rm") {
		t.Errorf("a hook that comes later says %q with %d, want that it is served", said, code)
	}
}

func TestHooksAreBounded(t *testing.T) {
	for name, bound := range map[string]func(*server.Server){
		"in number": func(s *server.Server) { s.Hooks(0) },
		"in room":   func(s *server.Server) { s.Room(10) },
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, setup{before: bound})
			said, code := hooked(d.home, hookclient.Pass, "ls", nil)
			if code != 0 || !strings.Contains(said, `"permissionDecision":"deny"`) {
				t.Errorf("one too many says %q with %d, want a refusal", said, code)
			}
		})
	}
}

func TestHookThatSaysNothingHoldsUpNobody(t *testing.T) {
	d := start(t, setup{})
	conn, err := net.Dial("unix", filepath.Join(d.home, "runtime", "hook.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if said, code := hooked(d.home, hookclient.Pass, "ls", nil); said != "" || code != 0 {
		t.Errorf("another hook says %q with %d, want no objection", said, code)
	}
	began := time.Now()
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the daemon ends after %s, want that it does not wait for the hook", took)
	}
}

func TestHookSocketIsThatOfTheUser(t *testing.T) {
	d := start(t, setup{})
	path := filepath.Join(d.home, "runtime", "hook.sock")
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("the socket is %v, %v; want one for its user only", info, err)
	}
	if _, err := d.server.ListenHooks(); !errors.Is(err, server.ErrRunning) {
		t.Errorf("to listen twice is %v, want %v", err, server.ErrRunning)
	}
	if _, err := server.New(server.Options{Home: "/" + strings.Repeat("x", 120)}).ListenHooks(); !errors.Is(err, hookclient.ErrPath) {
		t.Errorf("a home with a long name has %v, want %v", err, hookclient.ErrPath)
	}
	if _, err := server.New(server.Options{Home: shortDir(t)}).ListenHooks(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a home without a runtime folder has %v, want %v", err, fs.ErrNotExist)
	}
}
