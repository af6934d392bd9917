package reviewer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/regent-policy/regent/gate/approval"
)

const (
	// MaxOutput is the most that a program may write to its standard output, in
	// bytes.
	MaxOutput = 64 << 10
	// MaxStderr is how much of the end of a program's standard error is kept, in
	// bytes.
	MaxStderr = 4 << 10
)

// ErrOutput means that a program wrote more than [MaxOutput]. Nothing of it was
// used; the program has to say less.
var ErrOutput = errors.New("it wrote more than " + strconv.Itoa(MaxOutput) + " bytes")

// ErrHeld means that a process which left the program's group held its output open
// after the program had ended, so that nobody can tell whether the output is whole.
// Nothing of it was used; a program has to wait for what it starts.
var ErrHeld = errors.New("a process that it left behind holds its output open")

// ExitError means that a program did not end with exit status 0. Whatever it
// wrote to its standard output was not used.
type ExitError struct {
	// Code is the exit status, and -1 where a signal ended the program.
	Code int
	// Status says it in words: "exit status 3", "signal: killed".
	Status string
	// Stderr is the end of what it wrote to standard error, at most [MaxStderr]
	// bytes, for people: secrets are masked as far as they are known, and
	// whatever does not print, line breaks included, is shown by its code.
	Stderr string
}

func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return e.Status
	}
	return e.Status + ": " + e.Stderr
}

// Program is a program that is started anew for each question. No shell takes
// part. It is not changed by running it, so that several goroutines may run one
// Program at once.
type Program struct {
	// Command is the program and its arguments. The program is an absolute path.
	Command []string
	// Dir is the folder that it starts in; empty means the folder of the program.
	Dir string
	// Env are the names of environment variables of ours that it sees, besides
	// PATH, HOME, LANG, LC_ALL, TMPDIR and TZ. It sees no others.
	Env []string
}

// environment is what every program sees of ours: where things are, and how to
// write for people. None of it is a secret.
var environment = []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"}

// grace is how long the system may take to end a program that was killed, and
// pipes to be closed that outlive one.
const grace = time.Second

// Run starts the program with input as its whole standard input and returns what
// it writes to standard output. A program need not read its input. Run returns
// when the program has ended, and ctx ends it early: the error wraps
// context.Cause(ctx) then, also if an answer came in at the last moment. Other
// errors wrap an [ExitError], [ErrOutput], [ErrHeld], or what the system said when
// the program could not be started, errors.ErrUnsupported among it. With an error
// there is no output.
//
// The program leads a session and a process group of its own, without a terminal.
// The group is killed when ctx ends, when the output is too long, and when the
// program has ended, so that what it started ends with it. A process that leaves
// the group is out of reach.
func (p Program) Run(ctx context.Context, input []byte) (output []byte, err error) {
	cmd, err := p.command()
	if err != nil {
		return nil, err
	}
	if output, err = run(ctx, cmd, input, killGroup); err != nil {
		return nil, fmt.Errorf("run %s: %w", approval.Printable(cmd.Path), err)
	}
	return output, nil
}

// command checks p. The environment that it sets is never nil, which would stand
// for all of ours.
func (p Program) command() (*exec.Cmd, error) {
	if len(p.Command) == 0 {
		return nil, errors.New("run a program: there is no command")
	}
	path := p.Command[0]
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("run %q: not an absolute path; programs are not looked up", path)
	}
	env := make([]string, 0, len(environment)+len(p.Env))
	for _, names := range [][]string{environment, p.Env} {
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				return nil, fmt.Errorf("run %s: %q is not the name of an environment variable", approval.Printable(path), name)
			}
			if value, ok := os.LookupEnv(name); ok {
				env = append(env, name+"="+value)
			}
		}
	}
	dir := p.Dir
	if dir == "" {
		dir = filepath.Dir(path)
	}
	return &exec.Cmd{Path: path, Args: p.Command, Dir: dir, Env: env}, nil
}

// run is Run with the means to kill the group that a process leads.
func run(ctx context.Context, cmd *exec.Cmd, input []byte, kill func(pid int)) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := ownGroup(cmd); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stdout, stderr := &head{over: func() { end(ErrOutput) }}, &tail{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), stdout, stderr
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return nil, startError(cmd, err)
	}

	// Until cmd.Wait the process is there, if only as a zombie, and so its id
	// cannot have become that of a stranger's group when the group is killed.
	pid := cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitEnd(pid)
	}()
	select {
	case <-ended:
		kill(pid)
	case <-ctx.Done():
		kill(pid)
		deadline := time.NewTimer(grace)
		defer deadline.Stop()
		select {
		case <-ended:
		case <-deadline.C:
			// We may not kill it, as with a program of another user's, or the
			// system cannot. Whoever asked must not wait for that.
			go func() {
				<-ended
				_ = cmd.Wait()
			}()
			return nil, fmt.Errorf("%w; process %d could not be ended", context.Cause(ctx), pid)
		}
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil, ErrHeld
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, &ExitError{Code: exit.ExitCode(), Status: exit.ProcessState.String(), Stderr: stderr.shown()}
	}
	if err != nil {
		return nil, err
	}
	return stdout.buf.Bytes(), nil
}

// startError is why a program did not start. The system says the same of a folder
// that is not there and of a program, and each error names the program again.
func startError(cmd *exec.Cmd, err error) error {
	if _, in := os.Stat(cmd.Dir); in != nil {
		return in
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// head keeps what is written to it up to MaxOutput, and says once there is more.
type head struct {
	buf  bytes.Buffer
	over func()
}

func (h *head) Write(p []byte) (int, error) {
	if h.buf.Len()+len(p) > MaxOutput {
		h.over()
		return 0, ErrOutput
	}
	return h.buf.Write(p)
}

// tail keeps the end of what is written to it. It is more than is shown: masks
// need to see what stands before a secret.
type tail struct {
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	const limit = 4 * MaxStderr
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut = true
	}
	return len(p), nil
}

func (t *tail) shown() string {
	text := string(t.kept)
	if t.cut {
		// The rest of a line may be the rest of a secret.
		_, text, _ = strings.Cut(text, "\n")
	}
	return lastBytes(approval.Printable(strings.TrimSpace(approval.RedactText(text))), MaxStderr)
}

const ellipsis = "…"

// lastBytes is the end of s, of limit bytes at most.
func lastBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = s[len(s)-limit+len(ellipsis):]
	for s != "" && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return ellipsis + s
}
