// These tests are inside package main because that is all a command has: they
// run the whole command line, the scripts by its real Main.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
	"github.com/regent-policy/regent/server/peer/peertest"
)

var update = flag.Bool("update", false, "write golden output anew")

func TestMain(m *testing.M) {
	if !strings.HasSuffix(os.Args[0], ".test") { // a command of a script
		scripts(m)
		return
	}
	peertest.Main(func() { scripts(m) })
}

func scripts(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"regent":     main,
		"mask":       maskMain,
		"exits":      exitsMain,
		"request":    requestMain,
		"pick":       pickMain,
		"eventually": eventuallyMain,
		"unheard":    unheardMain,
		"agent":      agentMain,
		"edit":       editMain,
		"deaf":       deafMain,
		"host":       hostMain,
		"judge":      judgeMain,
		"codex":      codexMain,
		// It has to be there to be installed, and nothing starts it.
		"regent-hook": func() { os.Exit(2) },
	})
}

// TestScripts runs testdata/script. Besides regent there are: mask, which
// writes its input with whatever differs from run to run replaced; exits N
// COMMAND, which fails unless the command ends with code N; request, which
// writes a request for each pair of a command and its folder; pick, which writes
// the named members of a JSON object; and eventually PATTERN COMMAND, which runs
// the command until its stdout matches, and writes that; and unheard FILE, which
// makes a ledger like that of a daemon which ended while it wrote an answer, and
// writes the id; agent, which asks the daemon something and then runs a command;
// edit FILE TEXT OTHER, which changes bytes of a file; deaf SOCKET, which listens
// and says what no daemon would; host, which plays a native host; judge, which is
// a plugin; codex, which plays Codex; and regent-hook, which is only there. The
// command capture NAME PATTERN sets a variable to the first group of what matches
// in the last stdout.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		WorkdirRoot:         shortDir(t),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"capture": capture},
		Setup: func(env *testscript.Env) error {
			// The project is not in the home, whose .regent is something else.
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("REGENT_HOME", "")
			env.Setenv(raceOptions())
			port, err := freePort()
			if err != nil {
				return err
			}
			env.Setenv("FREE_PORT", port)
			return patientHome(filepath.Join(home, ".regent"))
		},
	})
}

// raceOptions is a variable for processes of a test. With the race detector each
// would wait for a second before it ends, in case a race is still to be seen.
func raceOptions() (name, value string) { return "GORACE", "atexit_sleep_ms=0" }

// freePort is a port of loopback on which nobody listens.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// shortDir is a folder below which a socket has room for its name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	// The name of the folder is shown by some commands.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// patientHome makes a home that gives rules the time that they may need on a busy
// machine.
func patientHome(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("version: 1\npolicy: {evaluation_timeout_ms: 10000}\n"), 0o644)
}

var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "EPOCH"},
	{regexp.MustCompile(`(?m)^( *epoch +)[0-9a-f]{12}$`), "${1}EPOCH"},
	{regexp.MustCompile(`\((\d+m)?[0-9.]+(µs|ms|s)\)`), "(TIME)"},
	{regexp.MustCompile(`"duration_ns": ?\d+`), `"duration_ns": 0`},
	{regexp.MustCompile(`\b[a-z2-7]{26}\b`), "RECORD"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
}

// mask replaces what differs from run to run.
func mask(text, work string) string {
	if work != "" {
		text = strings.ReplaceAll(text, work, "$WORK")
	}
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	return text
}

func maskMain() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		_, err = io.WriteString(os.Stdout, mask(string(text), os.Getenv("WORK")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func exitsMain() {
	want, err := strconv.Atoi(os.Args[1])
	if err != nil || len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: exits CODE COMMAND...")
		os.Exit(1)
	}
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	got := 0
	if err := cmd.Run(); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		got = failed.ExitCode()
	}
	if got != want {
		fmt.Fprintf(os.Stderr, "exit code %d, want %d\n", got, want)
		os.Exit(1)
	}
}

func unheardMain() {
	if err := unheard(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func unheard(file string) (err error) {
	ctx := context.Background()
	db, err := ledger.Open(ctx, file, ledger.Options{})
	if err != nil {
		return err
	}
	defer closing(db, &err)
	if _, err := db.Lease(ctx, "i1", time.Minute); err != nil {
		return err
	}
	r, err := approval.New(approval.Draft{
		Request:  &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "npm publish"}},
		Ruling:   approval.Ruling{Route: approval.RouteAsk, Epoch: "e", Deadlines: approval.Deadlines{RequestSeconds: 600}},
		Instance: "i1",
	}, time.Now())
	if err != nil {
		return err
	}
	if r, err = db.Insert(ctx, r); err != nil {
		return err
	}
	r, err = db.Decide(ctx, r.From(), approval.Decision{Option: r.Options[0], Outcome: approval.OutcomeAllow, Source: approval.SourceHuman, By: "user:sam"})
	if err != nil {
		return err
	}
	if r, err = db.BeginSend(ctx, r.From()); err != nil {
		return err
	}
	_, err = fmt.Println(r.ID)
	return err
}

func agentMain() {
	home, err := config.HomeDir("", os.Getenv)
	if err == nil {
		err = askedOnce(filepath.Join(home, "runtime", "regent.sock"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(max(cmd.ProcessState.ExitCode(), 1))
	}
}

func editMain() {
	data, err := os.ReadFile(os.Args[1])
	if err == nil && (!bytes.Contains(data, []byte(os.Args[2])) || len(os.Args[2]) != len(os.Args[3])) {
		err = errors.New("nothing to edit")
	}
	if err == nil {
		err = os.WriteFile(os.Args[1], bytes.ReplaceAll(data, []byte(os.Args[2]), []byte(os.Args[3])), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func deafMain() {
	l, err := net.Listen("unix", os.Args[1])
	if err == nil {
		err = http.Serve(l, http.NotFoundHandler())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func askedOnce(socket string) error {
	c, err := client.Dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Post(context.Background(), api.Question{Request: &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "x"}}})
	return err
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME PATTERN")
	}
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("no match for %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// patience bounds what a test waits for. It is long, and only a failure takes it.
const patience = 30 * time.Second

func eventuallyMain() {
	pattern, err := regexp.Compile("(?m)" + os.Args[1])
	if err != nil || len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: eventually PATTERN COMMAND...")
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		cmd := exec.CommandContext(ctx, os.Args[2], os.Args[3:]...)
		var out, words bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &words
		err := cmd.Run()
		if pattern.Match(out.Bytes()) {
			os.Stdout.Write(out.Bytes())
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			fmt.Fprintf(os.Stderr, "%v: stdout %q, stderr %q\n", err, out.String(), words.String())
			os.Exit(1)
		}
	}
}

func requestMain() {
	for pair := range slices.Chunk(os.Args[1:], 2) {
		r := approval.Request{
			Kind:        approval.KindCommand,
			Command:     &approval.Command{Text: pair[0]},
			Environment: &approval.Environment{Cwd: pair[1]},
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func pickMain() {
	var all map[string]json.RawMessage
	err := json.NewDecoder(os.Stdin).Decode(&all)
	for name := range all {
		if !slices.Contains(os.Args[1:], name) {
			delete(all, name)
		}
	}
	if err == nil {
		err = writeJSON(os.Stdout, all, true)
	}
	if err != nil || len(all) != len(os.Args)-1 {
		fmt.Fprintln(os.Stderr, "members are missing", err)
		os.Exit(1)
	}
}

// regent runs a command line in this process, in a home of its own.
func regent(t testing.TB, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	home := t.TempDir()
	if err := patientHome(filepath.Join(home, ".regent")); err != nil {
		t.Fatal(err)
	}
	var out, words bytes.Buffer
	a := &app{
		stdin: strings.NewReader(stdin), stdout: &out, stderr: &words,
		getenv: func(name string) string { return map[string]string{"HOME": home}[name] },
		getwd:  func() (string, error) { return home, nil },
	}
	code = run(t.Context(), a, args)
	return code, out.String(), words.String()
}

// commands are all commands that a user can give, the root among them.
func commands(t testing.TB) []*cobra.Command {
	t.Helper()
	root := newRoot(&app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, getenv: os.Getenv, getwd: os.Getwd})
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return all
}

// ours tells whether the text of a command is not cobra's.
func ours(c *cobra.Command) bool { return !strings.HasPrefix(c.CommandPath(), "regent completion") }

func TestHelpOfEveryCommand(t *testing.T) {
	for _, c := range commands(t) {
		if !ours(c) {
			continue
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			args := append(strings.Fields(c.CommandPath())[1:], "--help")
			code, stdout, stderr := regent(t, "", args...)
			if code != exitDone || stderr != "" {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			golden := filepath.Join("testdata/help", strings.ReplaceAll(c.CommandPath(), " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(stdout), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), stdout); diff != "" {
				t.Errorf("help (-want +got); -update writes it:\n%s", diff)
			}
		})
	}
}

func TestHelpTeaches(t *testing.T) {
	for _, c := range commands(t) {
		if !ours(c) {
			continue
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			_, help, _ := regent(t, "", append(strings.Fields(c.CommandPath())[1:], "--help")...)
			for _, part := range []string{c.Long, "\nExamples:\n  $ ", "\nExit codes:\n  0  "} {
				if part == "" || !strings.Contains(help, part) {
					t.Errorf("help lacks %q", part)
				}
			}
			for i, line := range strings.Split(help, "\n") {
				if len(line) > 150 {
					t.Errorf("line %d is %d characters long", i+1, len(line))
				}
			}
		})
	}
}

func TestFlagErrors(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"an unknown command", []string{"chek"}, `regent: unknown command "chek" (did you mean check?); regent --help lists the commands`},
		{"an unknown subcommand", []string{"policy", "lst"}, `regent policy: unknown command "lst" (did you mean list or lint?); regent policy --help lists the commands`},
		{"nothing like any command", []string{"frobnicate"}, `regent: unknown command "frobnicate"; regent --help lists the commands`},
		{"an unknown flag", []string{"check", "--outptu", "json"}, "regent check: unknown flag --outptu (did you mean --output?); regent check --help lists the flags"},
		{"the beginning of a flag", []string{"check", "--work", "x"}, "regent check: unknown flag --work (did you mean --workspace?); regent check --help lists the flags"},
		{"a word that the flag does not take", []string{"check", "--output", "jsn"}, `invalid argument "jsn" for "--output" flag: use text or json (did you mean json?)`},
		{"an operand instead of --input", []string{"check", "request.json"}, `unexpected argument "request.json"; name the file with --input`},
		{"a command that was not quoted", []string{"classify", "rm", "-rf", "x"}, "put the command after --, in quotes"},
		{"a flag without its value", []string{"check", "--input"}, "flag needs an argument: --input"},
		{"a required flag", []string{"profile", "covers", "--granted", "{}"}, `required flag(s) "requested" not set`},
		{"a wrong help topic", []string{"help", "chek"}, `unknown command "chek" (did you mean check?)`},
		{"a flag that goes with another", []string{"ask", "--await", "x"}, "[await instance]"},
		{"a proof as an argument", []string{"step-up", "set", "secret"}, "never an argument"},
		{"a shell without completion", []string{"completion", "tcsh"}, `unknown command "tcsh"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := regent(t, "", tt.args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want code 2 and %q", code, stdout, stderr, tt.want)
			}
		})
	}
}

func TestGroupWithoutCommandIsNoSuccess(t *testing.T) {
	for _, args := range [][]string{{}, {"policy"}, {"profile"}, {"permission"}, {"ledger"}, {"grants"}, {"token"}, {"step-up"}, {"install"}, {"doctor"}, {"completion"}} {
		code, stdout, stderr := regent(t, "", args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "Commands:") {
			t.Errorf("regent %v: exit code %d, stdout %q, want 2 and help on stderr", args, code, stdout)
		}
	}
}

func TestEveryFlagHasUsage(t *testing.T) {
	for _, c := range commands(t) {
		if !ours(c) {
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no usage", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"commands", []string{""}, []string{
			"ask", "check", "classify", "explain", "grants", "init", "ledger", "permission", "policy", "profile", "serve", "status", "step-up", "test", "token", "trust", "untrust", "version",
		}},
		{"subcommands", []string{"policy", ""}, []string{"confirm", "lint", "list", "schema"}},
		{"what is done with requests", []string{"permission", ""}, []string{"cancel", "decide", "info", "list", "reconcile", "watch"}},
		{"what is done with grants", []string{"grants", ""}, []string{"list", "revoke"}},
		{"states", []string{"permission", "list", "--state", ""}, []string{"pending", "unknown"}},
		{"the usual answers", []string{"permission", "decide", "x", "--decision", ""}, []string{`"allow"`, `"deny"`}},
		{"forms of the log", []string{"serve", "--log-format", ""}, []string{"json", "text"}},
		{"help topics", []string{"help", "profile", ""}, []string{"covers", "intersect", "merge"}},
		{"words of a flag", []string{"check", "--output", ""}, []string{"json", "text"}},
		{"shells", []string{"classify", "--shell", ""}, []string{"bash", "sh", "zsh"}},
		{"schemas", []string{"policy", "schema", ""}, []string{"request", "ruling", "verdict"}},
		{"what can be set up", []string{"install", ""}, []string{"codex"}},
		{"harnesses", []string{"classify", "--harness", ""}, []string{"claude-code", "codex", "gemini-cli", "native", "opencode"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, _ := regent(t, "", append([]string{"__complete"}, tt.args...)...)
			var got []string
			for line := range strings.Lines(stdout) {
				if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
					got = append(got, word)
				}
			}
			for _, want := range tt.want {
				if code != exitDone || !slices.Contains(got, want) {
					t.Errorf("completions %v lack %s", got, want)
				}
			}
		})
	}
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAnswerThatDoesNotArriveIsAFailure(t *testing.T) {
	var words bytes.Buffer
	a := &app{
		stdin: strings.NewReader(""), stdout: failingWriter{}, stderr: &words,
		getenv: func(string) string { return "" }, getwd: func() (string, error) { return t.TempDir(), nil },
	}
	if code := run(t.Context(), a, []string{"version"}); code != exitFailed || !strings.Contains(words.String(), "no space left") {
		t.Errorf("exit code %d, stderr %q, want 1 and the reason", code, words.String())
	}
}
