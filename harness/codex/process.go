package codex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/wire"
)

// Program is the Codex that is started.
type Program struct {
	// Path is the program, "codex" where it is empty. Args follow "app-server".
	Path string
	Args []string
	// Dir is the folder that it starts in, and Env its environment; nil is that of
	// this process.
	Dir string
	Env []string
	// Stderr takes what it says to people; nil discards that.
	Stderr io.Writer
}

const (
	// leaveTime is how long the server may take to end once nobody speaks to it.
	leaveTime = 5 * time.Second
	// startTime is how long it may take until it listens.
	startTime = 60 * time.Second
	// startTick is how often that is looked at.
	startTick = 20 * time.Millisecond
)

// Process is a codex app-server that was started here.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	// conn is its standard input and output; nil where it listens.
	conn harness.Conn
	// address is where it listens, in folder, which is nobody else's.
	address, folder string
	close           func()
}

// ErrNoCodex means that Codex was not found or could not be started. Install
// it, or say where it is.
var ErrNoCodex = errors.New("codex cannot be started")

// native is the program behind the launcher that npm installs, which is a script
// for Node; any other program is itself. A launcher between would have to be told
// of every signal, and would leave its child behind when it is killed.
func native(path string) string {
	found, err := exec.LookPath(path)
	if err != nil {
		return path
	}
	script, err := filepath.EvalSymlinks(found)
	if err != nil || filepath.Base(script) != "codex.js" {
		return path
	}
	root := filepath.Dir(filepath.Dir(script))
	for _, at := range []string{
		filepath.Join(filepath.Dir(root), "codex-*", "vendor", "*", "bin", "codex"),
		filepath.Join(root, "node_modules", "@openai", "codex-*", "vendor", "*", "bin", "codex"),
		filepath.Join(root, "vendor", "*", "bin", "codex"),
	} {
		if programs, err := filepath.Glob(at); err == nil && len(programs) == 1 {
			return programs[0]
		}
	}
	return path
}

func (p Program) command(args ...string) *exec.Cmd {
	path := p.Path
	if path == "" {
		path = "codex"
	}
	cmd := exec.Command(native(path), slices.Concat([]string{"app-server"}, args, p.Args)...)
	cmd.Dir, cmd.Env, cmd.Stderr = p.Dir, p.Env, p.Stderr
	bind(cmd)
	return cmd
}

// Start starts a server for one connection, over its standard input and output.
// Close ends it.
func (p Program) Start() (*Process, error) {
	cmd := p.command()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// The pipe is read by nobody but the connection, so Wait must not close it.
	out, outEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = outEnd
	s, err := begin(cmd)
	_ = outEnd.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	s.conn = wire.Lines(out, in, func() error { return errors.Join(in.Close(), out.Close()) })
	return s, nil
}

// Listen starts a server for any number of connections, which [Process.Dial]
// opens. It listens in a folder that nobody else may enter. Close ends it.
func (p Program) Listen(ctx context.Context) (*Process, error) {
	folder, err := os.MkdirTemp("", "regent-codex-")
	if err != nil {
		return nil, err
	}
	address := "unix://" + filepath.Join(folder, "app.sock")
	s, err := begin(p.command("--listen", address))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	s.address, s.folder = address, folder
	if err := s.listening(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func begin(cmd *exec.Cmd) (*Process, error) {
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCodex, err)
	}
	s := &Process{cmd: cmd, done: make(chan struct{})}
	s.close = sync.OnceFunc(s.end)
	go func() {
		defer close(s.done)
		s.err = cmd.Wait()
	}()
	return s, nil
}

// listening waits until the server takes connections.
func (s *Process) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("codex app-server does not listen after %s", startTime))
	defer cancel()
	tick := time.NewTicker(startTick)
	defer tick.Stop()
	for {
		if _, err := os.Stat(strings.TrimPrefix(s.address, "unix://")); err == nil {
			conn, err := s.Dial(ctx)
			if err == nil {
				return conn.Close()
			}
		}
		select {
		case <-s.done:
			return fmt.Errorf("%w: codex app-server ended: %w", ErrNoCodex, s.Ended())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// PID is its process.
func (s *Process) PID() int { return s.cmd.Process.Pid }

// Conn is the connection of a server that was started for one.
func (s *Process) Conn() harness.Conn { return s.conn }

// Dial opens a connection to a server that listens.
func (s *Process) Dial(ctx context.Context) (harness.Conn, error) {
	return wire.Dial(ctx, s.address, nil)
}

// Done is closed when the process has ended, and Err says how.
func (s *Process) Done() <-chan struct{} { return s.done }

// Err says how the process ended: nil for in good order, or while it runs.
func (s *Process) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Ended waits for the end of a process that should not have ended, and says how it
// did.
func (s *Process) Ended() error {
	<-s.done
	if s.err == nil {
		return errors.New("exit status 0")
	}
	return s.err
}

// Close ends the process, and waits for that: first by hanging up, then by
// signals. What was asked of Regent and is not answered stays unanswered.
func (s *Process) Close() error {
	s.close()
	return nil
}

func (s *Process) end() {
	if s.conn != nil {
		_ = s.conn.Close()
	} else {
		terminate(s.cmd)
	}
	select {
	case <-s.done:
	case <-time.After(leaveTime):
		kill(s.cmd)
		<-s.done
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}
