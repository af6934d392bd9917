//go:build linux || darwin

package reviewer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/reviewer"
)

// result is what Run comes to, for tests that end it while it runs.
type result struct {
	output []byte
	err    error
}

func start(ctx context.Context, p reviewer.Program, input []byte) <-chan result {
	c := make(chan result, 1)
	go func() {
		output, err := p.Run(ctx, input)
		c <- result{output, err}
	}()
	return c
}

func (r result) fails(t testing.TB, want error) {
	t.Helper()
	if !errors.Is(r.err, want) || r.output != nil {
		t.Errorf("Run = %d bytes, %v; want none and %v", len(r.output), r.err, want)
	}
}

func TestRunGivesInputAndTakesOutput(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcdef\x00\n\xff!"), 2000)
	got, err := reviewer.Program{Command: actor(t, "echo")}.Run(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, input) {
		t.Errorf("%d bytes came back of %d", len(got), len(input))
	}
}

func TestRunDoesNotNeedItsInputRead(t *testing.T) {
	got, err := reviewer.Program{Command: actor(t, "say", "done")}.Run(t.Context(), make([]byte, 1<<20))
	if err != nil || string(got) != "done" {
		t.Errorf("Run = %q, %v", got, err)
	}
}

func TestRunHasNoShell(t *testing.T) {
	words := []string{"$HOME", "; echo no", "`id`", "*", "", "a b\n"}
	out, err := reviewer.Program{Command: actor(t, "args", words...)}.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(words, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestRunBoundsTheOutput(t *testing.T) {
	for _, test := range []struct {
		name string
		n    int
		err  error
	}{
		{"the limit itself is fine", reviewer.MaxOutput, nil},
		{"one byte more is too much", reviewer.MaxOutput + 1, reviewer.ErrOutput},
		{"a lot is too much", 100 * reviewer.MaxOutput, reviewer.ErrOutput},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := reviewer.Program{Command: actor(t, "write", strconv.Itoa(test.n))}.Run(t.Context(), nil)
			if !errors.Is(err, test.err) || err == nil && len(out) != test.n || err != nil && out != nil {
				t.Errorf("Run = %d bytes, %v", len(out), err)
			}
		})
	}
}

func TestRunEndsWhoWritesTooMuchAndStays(t *testing.T) {
	s := newStage(t)
	r := <-start(t.Context(), reviewer.Program{Command: actor(t, "flood", s.path)}, nil)
	r.fails(t, reviewer.ErrOutput)
}

func TestRunReportsHowAProgramFailed(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat(strings.Repeat("Q", 64)+"\n", 70) + "-----END PRIVATE KEY-----\n"
	for _, test := range []struct {
		name string
		args []string
		want reviewer.ExitError
	}{
		{"with its status", []string{"3", "", ""}, reviewer.ExitError{Code: 3, Status: "exit status 3"}},
		{"and not with what it said before", []string{"1", `{"outcome":"allow"}`, ""}, reviewer.ExitError{Code: 1, Status: "exit status 1"}},
		{"with the end of standard error", []string{"1", "", strings.Repeat("x", 3000) + "\n" + strings.Repeat("y", reviewer.MaxStderr) + "\n"}, reviewer.ExitError{
			Code: 1, Status: "exit status 1", Stderr: "…" + strings.Repeat("y", reviewer.MaxStderr-len("…")),
		}},
		{"cut at a whole character", []string{"1", "", strings.Repeat("é", reviewer.MaxStderr)}, reviewer.ExitError{
			Code: 1, Status: "exit status 1", Stderr: "…" + strings.Repeat("é", reviewer.MaxStderr/2-2),
		}},
		{"with control characters in sight", []string{"1", "", "a\x1b[31m\r\nb\u202e\xff\u009bé"}, reviewer.ExitError{
			Code: 1, Status: "exit status 1", Stderr: `a\x1b[31m\r\nb\u202e\xff\u009bé`,
		}},
		{"with secrets masked", []string{"1", "", "401: Authorization: Bearer abcdefghijklmnop\napi_key=hunter2hunter2"}, reviewer.ExitError{
			Code: 1, Status: "exit status 1", Stderr: `401: Authorization: Bearer [redacted]\napi_key=[redacted]`,
		}},
		{"with a secret masked that starts before what is shown", []string{"1", "", key + "no luck"}, reviewer.ExitError{
			Code: 1, Status: "exit status 1", Stderr: `-----BEGIN PRIVATE KEY-----[redacted]\n-----END PRIVATE KEY-----\nno luck`,
		}},
		{"without the rest of a line whose start was not kept", []string{"1", "", "password=" + strings.Repeat("Q", 5*reviewer.MaxStderr) + "\nno luck"}, reviewer.ExitError{
			Code: 1, Status: "exit status 1", Stderr: "no luck",
		}},
		{"without anything of one long line", []string{"1", "", "password=" + strings.Repeat("Q", 5*reviewer.MaxStderr)}, reviewer.ExitError{
			Code: 1, Status: "exit status 1",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := <-start(t.Context(), reviewer.Program{Command: actor(t, "fail", test.args...)}, nil)
			got, ok := errors.AsType[*reviewer.ExitError](r.err)
			if !ok || r.output != nil {
				t.Fatalf("Run = %q, %v", r.output, r.err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunNamesTheSignalThatEndedAProgram(t *testing.T) {
	r := <-start(t.Context(), reviewer.Program{Command: actor(t, "die", newStage(t).path)}, nil)
	got, ok := errors.AsType[*reviewer.ExitError](r.err)
	if !ok {
		t.Fatalf("err = %v", r.err)
	}
	if diff := cmp.Diff(reviewer.ExitError{Code: -1, Status: "signal: killed"}, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	why := errors.New("the rules have changed")
	t.Run("cancelled, and the group is killed", func(t *testing.T) {
		s := newStage(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		running := start(ctx, reviewer.Program{Command: actor(t, "family", s.path)}, make([]byte, 1<<20))
		child, parent := s.sits(t), s.sits(t)
		cancel(why)
		r := <-running
		r.fails(t, why)
		ended(t, child)
		ended(t, parent)
	})
	t.Run("late", func(t *testing.T) {
		s := newStage(t)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, why)
		defer cancel()
		r := <-start(ctx, reviewer.Program{Command: actor(t, "sit", s.path)}, nil)
		r.fails(t, why)
	})
	t.Run("over before it starts, nothing runs", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ran")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		p := reviewer.Program{Command: actor(t, "create", file)}
		r := <-start(ctx, p, nil)
		r.fails(t, why)
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the program ran: %v", err)
		}
		// The converse: that it can be seen to run.
		if _, err := p.Run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(file); err != nil {
			t.Error(err)
		}
	})
}

// Programs of other users' cannot be killed, which is not to be arranged in a test.
func TestRunDoesNotWaitForAProgramThatCannotBeKilled(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	running := make(chan result, 1)
	p := reviewer.Program{Command: actor(t, "sit", s.path)}
	go func() {
		output, err := reviewer.RunWithout(ctx, p)
		running <- result{output, err}
	}()
	program := s.sits(t)
	why := errors.New("the rules have changed")
	cancel(why)
	r := <-running
	r.fails(t, why)
	if !strings.Contains(r.err.Error(), "could not be ended") {
		t.Errorf("err = %v; it does not say that the program still runs", r.err)
	}
	if err := program.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	ended(t, program)
}

func TestRunEndsWhatAProgramLeavesInItsGroup(t *testing.T) {
	s := newStage(t)
	running := start(t.Context(), reviewer.Program{Command: actor(t, "leave", s.path, "done")}, nil)
	child := s.sits(t)
	r := <-running
	if r.err != nil || string(r.output) != "done" {
		t.Errorf("Run = %q, %v", r.output, r.err)
	}
	ended(t, child)
}

func TestRunDoesNotWaitForWhatLeftTheGroup(t *testing.T) {
	s := newStage(t)
	running := start(t.Context(), reviewer.Program{Command: actor(t, "escape", s.path, "done")}, nil)
	child := s.sits(t)
	r := <-running
	r.fails(t, reviewer.ErrHeld)
	if err := child.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	ended(t, child)
}

func TestRunShowsAProgramLittleOfOurEnvironment(t *testing.T) {
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"} {
		t.Setenv(name, "our "+name)
	}
	t.Setenv("REGENT_TEST_SECRET", "hunter2")
	t.Setenv("REGENT_TEST_WANTED", "a=b c")
	environment := func(names ...string) []string {
		t.Helper()
		out, err := reviewer.Program{Command: actor(t, "env"), Env: names}.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		return got
	}
	want := []string{"HOME=our HOME", "LANG=our LANG", "LC_ALL=our LC_ALL", "PATH=our PATH", "TMPDIR=our TMPDIR", "TZ=our TZ"}
	if diff := cmp.Diff(want, environment("REGENT_TEST_MISSING")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = slices.Insert(want, 4, "REGENT_TEST_WANTED=a=b c")
	if diff := cmp.Diff(want, environment("REGENT_TEST_WANTED", "PATH")); diff != "" {
		t.Errorf("with a name (-want +got):\n%s", diff)
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"} {
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	if got := environment(); len(got) != 0 {
		t.Errorf("where there is nothing to show, it sees %q", got)
	}
}

func TestRunStartsInAFolderOfItsOwn(t *testing.T) {
	real := func(dir string) string {
		t.Helper()
		out, err := filepath.EvalSymlinks(dir)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	p := reviewer.Program{Command: actor(t, "dir")}
	for _, test := range []struct{ name, dir, want string }{
		{"that of the program", "", filepath.Dir(p.Command[0])},
		{"the one that is named", t.TempDir(), ""},
	} {
		p.Dir = test.dir
		got, err := p.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := real(test.want + test.dir); string(got) != want {
			t.Errorf("%s: it is in %s, want %s", test.name, got, want)
		}
	}
}

func TestRunRefusesWhatItCannotStart(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		p    reviewer.Program
		is   error
		want string
	}{
		{"no command", reviewer.Program{}, nil, "there is no command"},
		{"a name that would be looked up", reviewer.Program{Command: []string{"true"}}, nil, `run "true": not an absolute path`},
		{"a relative path", reviewer.Program{Command: []string{"./true"}}, nil, "not an absolute path"},
		{"a program that is not there", reviewer.Program{Command: []string{missing}, Dir: "/"}, fs.ErrNotExist, missing},
		{"a file that is no program", reviewer.Program{Command: []string{plain}}, fs.ErrPermission, plain},
		{"a folder that is not there", reviewer.Program{Command: actor(t, "echo"), Dir: missing}, fs.ErrNotExist, missing},
		{"a variable with its value", reviewer.Program{Command: actor(t, "echo"), Env: []string{"A=b"}}, nil, `"A=b" is not the name`},
		{"a variable without a name", reviewer.Program{Command: actor(t, "echo"), Env: []string{""}}, nil, `"" is not the name`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := test.p.Run(t.Context(), nil)
			if err == nil || out != nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("Run = %q, %v; want an error with %q", out, err, test.want)
			}
		})
	}
}

func TestRunIsSafeForConcurrentUse(t *testing.T) {
	p := reviewer.Program{Command: actor(t, "echo")}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := strings.Repeat(strconv.Itoa(i), 20000)
			got, err := p.Run(t.Context(), []byte(want))
			if err != nil || string(got) != want {
				t.Errorf("Run %d = %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
}
