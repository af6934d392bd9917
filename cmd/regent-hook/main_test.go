// These tests are inside package main because that is all a command has.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/harness/hook/client"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
		os.Exit(code)
	}))
}

// built is the program as it is released.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// program builds the program once, and returns its path.
func program(tb testing.TB) string {
	tb.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "rgnt"); built.err != nil {
			return
		}
		built.err = build(filepath.Join(built.dir, "regent-hook"), ".")
	})
	if built.err != nil {
		tb.Fatal(built.err)
	}
	return filepath.Join(built.dir, "regent-hook")
}

// build builds a program as it is released.
func build(to, source string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return nil
}

// shortDir is a folder whose name leaves room for that of a socket.
func shortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "rgnt")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

const push = `{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Bash","tool_input":{"command":"git push -f"}}`

// TestImports holds what every call of an agent pays for: the standard library
// without the parts that start slowly.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for line := range strings.Lines(string(out)) {
		path, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		if standard != "true" {
			others = append(others, path)
		}
		for _, slow := range []string{"net/http", "crypto", "os/exec", "os/user", "text/template", "log/slog", "database/sql", "go/ast", "testing"} {
			if path == slow || strings.HasPrefix(path, slow+"/") && path != "crypto/internal/sysrand" {
				t.Errorf("it imports %s", path)
			}
		}
	}
	const module = "github.com/regent-policy/regent/"
	if diff := cmp.Diff([]string{module + "harness/hook/client", module + "cmd/regent-hook"}, others); diff != "" {
		t.Errorf("it imports beside the standard library (-want +got):\n%s", diff)
	}
}

func TestHomeIsThatOfTheOtherCommands(t *testing.T) {
	for _, test := range []struct{ flag, variable, user string }{
		{"", "", "/home/sam"},
		{"", "/srv/regent", "/home/sam"},
		{"/opt/regent", "/srv/regent", "/home/sam"},
		{"relative", "", "/home/sam"},
		{"", "relative/too", ""},
		{"", "", ""},
		{"", "", "sam"},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			t.Setenv(config.HomeVariable, test.variable)
			t.Setenv("HOME", test.user)
			want, wantErr := config.HomeDir(test.flag, os.Getenv)
			got, err := home(test.flag)
			if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("home = %s, %v; want %s, %v", got, err, want, wantErr)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	t.Setenv(config.HomeVariable, "/srv/regent")
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	standard := client.Hook{Dialect: client.Codex, OnAsk: client.Pass, Home: "/srv/regent", Timeout: 8 * time.Second, AgentPID: os.Getppid(), Cwd: cwd}
	other := standard
	other.OnAsk, other.Home, other.Timeout = client.Wait, "/h", 5*time.Minute
	for name, test := range map[string]struct {
		args string
		want *client.Hook
		err  string
	}{
		"nothing but the harness":  {"codex", &standard, ""},
		"all of them":              {"codex --home /h --on-ask wait --timeout 5m", &other, ""},
		"with equals signs":        {"codex -home=/h -on-ask=wait -timeout=5m", &other, ""},
		"no harness":               {"", nil, "name the harness"},
		"flags before the harness": {"--on-ask wait codex", nil, "no hooks of"},
		"another harness":          {"claude", nil, `no hooks of "claude" are known; use codex`},
		"another way":              {"codex --on-ask allow", nil, "use pass, wait or deny"},
		"a flag that is not known": {"codex --allow", nil, "not defined"},
		"too little time":          {"codex --timeout 10ms", nil, "less than a second"},
		"no time":                  {"codex --timeout soon", nil, "invalid"},
		"something besides":        {"codex wait", nil, `unexpected argument "wait"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(strings.Fields(test.args), io.Discard)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("the error is %v, want %q", err, test.err)
			}
			if test.want == nil {
				// Harnesses take this code with words for a refusal.
				var words bytes.Buffer
				if code := run(strings.Fields(test.args), strings.NewReader(push), io.Discard, &words); code != 2 || words.Len() == 0 {
					t.Errorf("it ends with %d and %q, want 2 with words", code, words.String())
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the hook is (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"--help", "-h", "help", "codex --help"} {
		var words bytes.Buffer
		if code := run(strings.Fields(args), nil, io.Discard, &words); code != 0 || !strings.Contains(words.String(), "-on-ask") {
			t.Errorf("%s ends with %d and %q, want the flags", args, code, words.String())
		}
	}
}

// hook runs the program, and returns what it says.
func hook(tb testing.TB, home string, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	tb.Helper()
	cmd := exec.Command(program(tb), append([]string{"codex"}, args...)...)
	cmd.Env = []string{"REGENT_HOME=" + home}
	var out, words bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &words
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			tb.Fatal(err)
		}
	}
	return out.String(), words.String(), cmd.ProcessState.ExitCode()
}

func TestProgramRefusesWithoutADaemon(t *testing.T) {
	home := shortDir(t)
	stdout, stderr, code := hook(t, home, strings.NewReader(push))
	if !strings.Contains(stdout, `"permissionDecision":"deny"`) || !strings.Contains(stdout, "no daemon listens on "+home) || stderr != "" || code != 0 {
		t.Errorf("it says %q and %q with %d, want a refusal", stdout, stderr, code)
	}
	if err := os.MkdirAll(filepath.Join(home, "runtime"), 0o700); err != nil {
		t.Fatal(err)
	}
	// A socket that was left behind, and one where nobody answers.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(home, "runtime", "hook.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, code = hook(t, home, strings.NewReader(push), "--timeout", "1s")
	if !strings.Contains(stdout, "the daemon did not answer in time") || code != 0 {
		t.Errorf("where nobody answers it says %q with %d, want a refusal", stdout, code)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stdout, _, code = hook(t, home, strings.NewReader(push))
	if !strings.Contains(stdout, "no daemon listens") || code != 0 {
		t.Errorf("where nobody listens any more it says %q with %d, want a refusal", stdout, code)
	}
	stdout, stderr, code = hook(t, home, io.MultiReader(strings.NewReader(push[:len(push)-1]+`,"x":"`), strings.NewReader(strings.Repeat("x", client.MaxPayload)), strings.NewReader(`"}`)))
	if stdout != "" || !strings.Contains(stderr, "more than") || code != 2 {
		t.Errorf("of too much it says %q and %q with %d, want a refusal", stdout, stderr, code)
	}
	stdout, stderr, code = hook(t, home, strings.NewReader(`{"hook_event_name":"Stop"}`))
	if stdout != "" || stderr == "" || code != 0 {
		t.Errorf("of another event it says %q and %q with %d, want a warning", stdout, stderr, code)
	}
}

const (
	maxSize   = 4_000_000
	maxMemory = 6_000 // KiB
)

// TestProgramIsSmall holds goal 4, as far as it is no matter of time.
func TestProgramIsSmall(t *testing.T) {
	size, memory := measure(t)
	if size >= maxSize {
		t.Errorf("it has %d bytes, want less than %d", size, maxSize)
	}
	if memory >= maxMemory {
		t.Errorf("it takes %d KiB of memory, want less than %d", memory, maxMemory)
	}
}

// measure tells the size of the program in bytes, and the most memory in KiB that
// it has taken when it waits for an answer; 0 where the system does not tell.
func measure(tb testing.TB) (size int64, memory int) {
	tb.Helper()
	info, err := os.Stat(program(tb))
	if err != nil {
		tb.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		return info.Size(), 0
	}
	home := shortDir(tb)
	if err := os.Mkdir(filepath.Join(home, "runtime"), 0o700); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(home, "runtime", "hook.sock"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cmd := exec.Command(program(tb), "codex", "--home", home)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader(push), &out
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := client.ReadMessage(conn, client.MaxCall, nil); err != nil {
		tb.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	if err := client.WriteMessage(conn, client.Answer{Version: client.Version}, client.MaxAnswer); err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.Len() > 0 {
		tb.Fatalf("it says %q, %v; want no objection", out.String(), err)
	}
	lines := slices.Collect(strings.Lines(string(status)))
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "VmHWM:") })
	if i < 0 {
		tb.Fatalf("the system does not tell the memory of a process:\n%s", status)
	}
	if _, err := fmt.Sscanf(lines[i], "VmHWM: %d kB", &memory); err != nil {
		tb.Fatal(err)
	}
	return info.Size(), memory
}
