package client_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/harness/hook/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const timeout = 8 * time.Second

func event(name string) string {
	return fmt.Sprintf(`{"session_id":"s1","cwd":"/w","hook_event_name":%q,"tool_name":"Bash","tool_input":{"command":"ls"}}`, name)
}

// run runs a hook whose daemon does what daemon says.
func run(h *client.Hook, stdin io.Reader, daemon func(net.Conn)) (code int, stdout, stderr string) {
	var out, words bytes.Buffer
	h.Stdin, h.Stdout, h.Stderr = stdin, &out, &words
	if h.Dialect == "" {
		h.Dialect = client.Codex
	}
	if h.Timeout == 0 {
		h.Timeout = timeout
	}
	if h.Home == "" {
		h.Home = "/h"
	}
	here, there := net.Pipe()
	dialed, ended := make(chan struct{}), make(chan struct{})
	if h.Dial == nil {
		h.Dial = func(string) (client.Conn, error) {
			close(dialed)
			return here, nil
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		defer func() { _ = there.Close() }()
		select {
		case <-dialed:
			daemon(there)
		case <-ended:
		}
	})
	code = h.Run()
	close(ended)
	serving.Wait()
	return code, out.String(), words.String()
}

// hear reads the call and returns it.
func hear(conn net.Conn) client.Call {
	var c client.Call
	text, err := client.ReadMessage(conn, client.MaxCall, nil)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return client.Call{Cwd: err.Error()}
	}
	return c
}

// says is a daemon that hears the call and says something.
func says(text string) func(net.Conn) {
	return func(conn net.Conn) {
		hear(conn)
		head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		_, _ = conn.Write(append(head, text...))
	}
}

// refused tells whether a hook refuses in the words that Codex understands, and
// why.
func refused(t *testing.T, name string, code int, stdout, stderr string) (why string) {
	t.Helper()
	var said struct {
		Output struct {
			HookEventName            string
			PermissionDecision       string
			PermissionDecisionReason string
			Decision                 struct{ Behavior, Message string }
		} `json:"hookSpecificOutput"`
	}
	switch name {
	case client.PreToolUse, client.PermissionRequest:
		decoder := json.NewDecoder(strings.NewReader(stdout))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&said); err != nil || code != 0 || stderr != "" {
			t.Fatalf("code %d, %q, %q, %v; want a denial on stdout", code, stdout, stderr, err)
		}
		o := said.Output
		if o.HookEventName != name || o.PermissionDecision+o.Decision.Behavior != "deny" {
			t.Errorf("the answer is %s, want a denial of %s", stdout, name)
		}
		return o.PermissionDecisionReason + o.Decision.Message
	default:
		if code != 2 || stdout != "" || stderr == "" {
			t.Fatalf("code %d, %q, %q; want code 2 and words on stderr", code, stdout, stderr)
		}
		return stderr
	}
}

func TestWithoutAnAnswerTheCallIsRefused(t *testing.T) {
	long := "/" + strings.Repeat("x", 120)
	for _, test := range []struct {
		name   string
		home   string
		dial   func(string) (client.Conn, error)
		daemon func(net.Conn)
		why    string
		took   time.Duration
	}{
		{name: "there is no socket", dial: func(string) (client.Conn, error) { return nil, fs.ErrNotExist }, why: "no daemon listens on /h/runtime/hook.sock; start one with regent serve"},
		{name: "nobody listens", dial: func(string) (client.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}, why: "no daemon listens"},
		{name: "the socket may not be reached", dial: func(string) (client.Conn, error) { return nil, fs.ErrPermission }, why: "reach the daemon: permission denied"},
		{name: "the home is too long", home: long, why: "use a shorter --home"},
		{name: "dialling panics", dial: func(string) (client.Conn, error) { panic("boom") }, why: "the hook broke down: boom"},
		{name: "the daemon does not read", daemon: func(conn net.Conn) { _, _ = conn.Write([]byte("x")) }, why: "in time", took: timeout},
		{name: "the daemon does not answer", daemon: func(conn net.Conn) { hear(conn); waitClosed(conn) }, why: "in time", took: timeout},
		{name: "the daemon stops in the middle", daemon: func(conn net.Conn) {
			hear(conn)
			_, _ = conn.Write([]byte{0, 0, 0, 9, '{'})
			waitClosed(conn)
		}, why: "in time", took: timeout},
		{name: "the daemon hangs up", daemon: func(conn net.Conn) { hear(conn) }, why: "hung up"},
		{name: "the daemon hangs up at once", daemon: func(net.Conn) {}, why: "hung up"},
		{name: "half an answer", daemon: func(conn net.Conn) { hear(conn); _, _ = conn.Write([]byte{0, 0, 0, 9, '{'}) }, why: "ends too early"},
		{name: "an answer that is too long", daemon: func(conn net.Conn) { hear(conn); _, _ = conn.Write([]byte{255, 0, 0, 0}) }, why: "limit"},
		{name: "an answer of no length", daemon: says(""), why: "limit"},
		{name: "an answer that is no JSON", daemon: says("HTTP/1.1 200 OK"), why: "cannot be read"},
		{name: "an empty answer", daemon: says("{}"), why: "not complete"},
		{name: "an answer without a code", daemon: says(`{"version":1,"stdout":"","stderr":""}`), why: "not complete"},
		{name: "an answer without stdout", daemon: says(`{"version":1,"stderr":"","exit":0}`), why: "not complete"},
		{name: "an answer of another version", daemon: says(`{"version":2,"stdout":"","stderr":"","exit":0}`), why: "version 2"},
		{name: "a code that lets the call run", daemon: says(`{"version":1,"stdout":"","stderr":"x","exit":1}`), why: "code 1"},
		{name: "a refusal without a word", daemon: says(`{"version":1,"stdout":"","stderr":"","exit":2}`), why: "without a word"},
	} {
		for _, name := range []string{client.PreToolUse, client.PermissionRequest, "BeforeTool"} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					code, stdout, stderr := run(&client.Hook{Home: test.home, Dial: test.dial}, strings.NewReader(event(name)), test.daemon)
					if why := refused(t, name, code, stdout, stderr); !strings.Contains(why, test.why) || !strings.HasPrefix(why, "regent: ") {
						t.Errorf("it says %q, want %q", why, test.why)
					}
					if took := time.Since(began); took != test.took {
						t.Errorf("it took %s, want %s", took, test.took)
					}
				})
			})
		}
	}
}

// waitClosed returns when the hook has hung up.
func waitClosed(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// unasked is a daemon that is not to be asked.
func unasked(t *testing.T) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := client.ReadMessage(conn, client.MaxCall, nil); err == nil {
			t.Error("the daemon was asked")
		}
	}
}

// failing is a reader that fails.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken pipe") }

// panicking is a reader that panics.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("boom") }

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		stdin func() io.Reader
		why   string
	}{
		"nothing":             {func() io.Reader { return strings.NewReader("") }, "not a JSON object"},
		"no JSON":             {func() io.Reader { return strings.NewReader("{") }, "not a JSON object"},
		"no object":           {func() io.Reader { return strings.NewReader(`["PreToolUse"]`) }, "not a JSON object"},
		"two objects":         {func() io.Reader { return strings.NewReader(event("PreToolUse") + "{}") }, "not a JSON object"},
		"no event":            {func() io.Reader { return strings.NewReader(`{"HOOK_EVENT_NAME":"Stop"}`) }, "which event"},
		"an event of no text": {func() io.Reader { return strings.NewReader(`{"hook_event_name":7}`) }, "which event"},
		"too much": {func() io.Reader {
			return strings.NewReader(`{"hook_event_name":"PreToolUse","x":"` + strings.Repeat("x", client.MaxPayload) + `"}`)
		}, "more than 4194304 bytes"},
		"a broken pipe": {func() io.Reader { return failing{} }, "broken pipe"},
		"a panic":       {func() io.Reader { return panicking{} }, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(&client.Hook{}, test.stdin(), unasked(t))
			if why := refused(t, "", code, stdout, stderr); !strings.Contains(why, test.why) {
				t.Errorf("it says %q, want %q", why, test.why)
			}
		})
	}
}

func TestAHarnessThatSaysNothingIsRefusedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer func() { _ = w.Close() }()
		began := time.Now()
		code, stdout, stderr := run(&client.Hook{}, r, unasked(t))
		refused(t, "", code, stdout, stderr)
		if took := time.Since(began); took != timeout {
			t.Errorf("it took %s, want %s", took, timeout)
		}
	})
}

func TestTheAnswerIsDone(t *testing.T) {
	for name, want := range map[string]client.Answer{
		"no objection": {Version: 1},
		"a denial":     {Version: 1, Stdout: "{\"a\":\"<ü>\"}\n"},
		"words":        {Version: 1, Stderr: "no", Exit: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var got client.Call
			code, stdout, stderr := run(&client.Hook{OnAsk: client.Wait, AgentPID: 7, Cwd: "/w"}, strings.NewReader(event("PreToolUse")), func(conn net.Conn) {
				got = hear(conn)
				if err := client.WriteMessage(conn, want, client.MaxAnswer); err != nil {
					t.Error(err)
				}
			})
			if code != want.Exit || stdout != want.Stdout || strings.TrimSuffix(stderr, "\n") != want.Stderr {
				t.Errorf("code %d, %q, %q; want %+v", code, stdout, stderr, want)
			}
			if got.WaitMS <= 0 || got.WaitMS >= timeout.Milliseconds() {
				t.Errorf("the daemon has %d ms, want less than %s", got.WaitMS, timeout)
			}
			got.WaitMS = 0
			told := client.Call{Version: 1, Dialect: client.Codex, OnAsk: client.Wait, AgentPID: 7, Cwd: "/w", Payload: json.RawMessage(event("PreToolUse"))}
			if diff := cmp.Diff(told, got); diff != "" {
				t.Errorf("the daemon was told (-want +got):\n%s", diff)
			}
		})
	}
}

// closed is a writer that nobody reads.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestAnAnswerThatCannotBeWrittenRefuses(t *testing.T) {
	var words bytes.Buffer
	h := &client.Hook{
		Dialect: client.Codex, Home: "/h", Timeout: timeout, Stdin: strings.NewReader(event("PreToolUse")), Stdout: closed{}, Stderr: &words,
		Dial: func(string) (client.Conn, error) { return nil, fs.ErrNotExist },
	}
	if code := h.Run(); code != 2 || !strings.Contains(words.String(), "cannot be written") {
		t.Errorf("code %d, %q; want code 2", code, words.String())
	}
}

func TestOtherEventsAskNobody(t *testing.T) {
	for _, name := range []string{
		"PostToolUse", "PreCompact", "PostCompact", "SessionStart", "SessionEnd", "UserPromptSubmit", "SubagentStart", "SubagentStop",
		"Stop", "Interrupt", "PreModelRequest", "PostModelRequest",
	} {
		code, stdout, stderr := run(&client.Hook{}, strings.NewReader(event(name)), unasked(t))
		if code != 0 || stdout != "" || !strings.Contains(stderr, "nothing is decided at "+name) {
			t.Errorf("%s: code %d, %q, %q; want a warning only", name, code, stdout, stderr)
		}
	}
}

func TestTextsAreBoundedAndValid(t *testing.T) {
	for name, text := range map[string]string{
		"long":          strings.Repeat("ü", 20000),
		"no UTF-8":      "a\xffb",
		"nothing":       " \n",
		"quotes and so": "\"</script>\u2028",
	} {
		a := client.Codex.Deny(client.PreToolUse, text)
		var out struct {
			Output struct {
				Reason string `json:"permissionDecisionReason"`
			} `json:"hookSpecificOutput"`
		}
		if err := json.Unmarshal([]byte(a.Stdout), &out); err != nil {
			t.Fatal(err)
		}
		if r := out.Output.Reason; r == "" || len(r) > 9000 || strings.TrimSpace(r) == "" {
			t.Errorf("%s becomes %d bytes", name, len(r))
		}
		if !strings.HasPrefix(a.Stdout, "{") || strings.Count(a.Stdout, "\n") != 1 {
			t.Errorf("%s becomes %q, want one line of JSON", name, a.Stdout)
		}
	}
	// A harness that is not known is told by the code that most understand.
	if a := client.Dialect("nobody").Deny(client.PreToolUse, "no"); a.Exit != 2 || a.Stdout != "" || a.Stderr != "no" {
		t.Errorf("the answer is %+v, want code 2 with words", a)
	}
}

func TestSocketHasItsPlaceInTheHome(t *testing.T) {
	got, err := client.Socket("/home/sam/.regent")
	if want := filepath.FromSlash("/home/sam/.regent/runtime/hook.sock"); err != nil || got != want {
		t.Errorf("the socket is %s, %v; want %s", got, err, want)
	}
	if _, err := client.Socket("/" + strings.Repeat("x", 120)); !errors.Is(err, client.ErrPath) {
		t.Errorf("the error is %v, want %v", err, client.ErrPath)
	}
}

func TestMessagesHaveNoRoom(t *testing.T) {
	none := errors.New("no room")
	var b bytes.Buffer
	if err := client.WriteMessage(&b, "hello", 100); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReadMessage(&b, 100, func(n int) error {
		if n != len(`"hello"`) {
			t.Errorf("room is asked for %d bytes", n)
		}
		return none
	}); !errors.Is(err, none) {
		t.Errorf("the error is %v, want %v", err, none)
	}
	if err := client.WriteMessage(&b, strings.Repeat("x", 100), 100); !errors.Is(err, client.ErrMessage) {
		t.Errorf("a message that is too long: %v", err)
	}
}

// FuzzAnswer: whatever a daemon says, the hook ends in a way that harnesses know,
// and says nothing only where it was told to in full.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{"", "{}", `{"version":1,"stdout":"","stderr":"","exit":0}`, `{"version":1,"stdout":"x","stderr":"","exit":2}`, "[", `{"exit":0}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > client.MaxAnswer {
			return
		}
		code, stdout, stderr := run(&client.Hook{}, strings.NewReader(event("PreToolUse")), says(text))
		if code != 0 && code != 2 || code == 2 && stderr == "" {
			t.Fatalf("code %d, %q, %q", code, stdout, stderr)
		}
		if code == 0 && stdout == "" {
			var a client.Answer
			if json.Unmarshal([]byte(text), &a) != nil || a.Version != client.Version || !strings.Contains(strings.ToLower(text), "exit") {
				t.Fatalf("%q lets the call run", text)
			}
		}
	})
}
