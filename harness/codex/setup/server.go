package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regent-policy/regent/harness/codex"
)

// Codex is the Codex that is asked what it makes of a configuration.
type Codex struct {
	// Program is its path, or a name that is found in the PATH.
	Program string
	// Env is the environment that it is started with, without its home.
	Env []string
	// Version is the Regent that asks.
	Version string
}

// answerTime bounds one answer of Codex. It answers within seconds on a machine
// that has much to do.
const answerTime = time.Minute

// quiet are settings with which Codex does not talk to servers of its own.
var quiet = []string{
	"-c", "features.plugins=false", "-c", "features.remote_plugin=false", "-c", "features.apps=false",
	"-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false",
}

// env is the environment for a home. A trial has no credentials and no other
// settings of the user's.
func (c Codex) env(home string, trial bool) []string {
	env := slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "CODEX_HOME" || trial && (strings.HasPrefix(name, "CODEX_") || strings.HasPrefix(name, "OPENAI_"))
	})
	return append(env, "CODEX_HOME="+home)
}

// Warning is what Codex says of a configuration when it starts.
type Warning struct {
	Summary string `json:"summary"`
	Details string `json:"details"`
	Path    string `json:"path"`
}

func (w Warning) String() string {
	if w.Details == "" {
		return w.Summary
	}
	return w.Summary + " " + w.Details
}

// invalid tells whether Codex goes on as if there were no configuration.
func (w Warning) invalid() bool { return strings.HasPrefix(w.Summary, "Invalid configuration") }

// server is a codex app-server, for one goroutine.
type server struct {
	process  *codex.Process
	client   *codex.Client
	stderr   *tail
	stop     func() bool
	cause    func() error // why it was told to end; nil while it was not
	version  string
	home     string
	warnings []Warning
	// heard takes what comes besides answers; nil drops it. Requests of the server
	// are answered with what it returns.
	heard func(m codex.Message) any
}

// open starts an app-server and introduces itself. It ends with ctx or close.
func (c Codex) open(ctx context.Context, home, dir string, trial bool, args ...string) (*server, error) {
	s := &server{stderr: &tail{}, cause: func() error { return context.Cause(ctx) }}
	p, err := codex.Program{
		Path: c.Program, Dir: dir, Env: c.env(home, trial), Stderr: s.stderr, Args: slices.Concat(quiet, args),
	}.Start()
	if err != nil {
		return nil, err
	}
	s.process, s.client = p, codex.NewClient(p.Conn())
	s.client.Heard = s.hear
	s.stop = context.AfterFunc(ctx, func() { _ = p.Conn().Close() })
	var hello codex.Hello
	err = s.bounded("initialize", func() (err error) {
		hello, err = s.client.Hello("regent", c.Version)
		return err
	})
	if err != nil {
		s.close()
		return nil, err
	}
	s.version, s.home = hello.Version, hello.Home
	return s, nil
}

func (s *server) close() {
	s.stop()
	_ = s.process.Close()
}

// ended says why the connection is over.
func (s *server) ended(err error) error {
	if cause := s.cause(); cause != nil {
		return cause
	}
	_ = s.process.Close() // what it has said is there when it has ended
	if said := s.stderr.fault(); said != "" {
		return fmt.Errorf("codex app-server ended: %s", said)
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("codex app-server: %w", err)
	}
	return errors.New("codex app-server ended without a word")
}

// hear takes a message that is no answer.
func (s *server) hear(m codex.Message) any {
	if m.Method == "configWarning" {
		var w Warning
		if json.Unmarshal(m.Params, &w) == nil {
			s.warnings = append(s.warnings, w)
		}
	}
	if s.heard == nil {
		return nil
	}
	return s.heard(m)
}

// call makes a request and reads its result.
func (s *server) call(method string, params, into any) error {
	return s.bounded(method, func() error { return s.client.Call(method, params, into) })
}

// bounded gives a call the time that one answer may take.
func (s *server) bounded(method string, call func() error) error {
	timer := time.AfterFunc(answerTime, func() { _ = s.process.Conn().Close() })
	defer timer.Stop()
	err := call()
	if hungUp, ok := errors.AsType[*codex.HungUpError](err); ok {
		return fmt.Errorf("%s: %w", method, s.ended(hungUp.Err))
	}
	return err
}

// listen waits for the next message that is no answer, and hears it.
func (s *server) listen() error {
	err := s.client.Hear()
	if hungUp, ok := errors.AsType[*codex.HungUpError](err); ok {
		return s.ended(hungUp.Err)
	}
	return err
}

// Hook is a hook as Codex lists it.
type Hook struct {
	Key        string `json:"key"`
	Event      string `json:"eventName"`
	Command    string `json:"command"`
	Matcher    string `json:"matcher"`
	SourcePath string `json:"sourcePath"`
	Enabled    bool   `json:"enabled"`
	Managed    bool   `json:"isManaged"`
	Hash       string `json:"currentHash"`
	// Trust is managed, trusted, untrusted or modified. The last two are not run.
	Trust string `json:"trustStatus"`
}

// runs tells whether Codex starts it.
func (h Hook) runs() bool { return h.Enabled && (h.Trust == "trusted" || h.Trust == "managed") }

// hooks lists the hooks for a folder.
func (s *server) hooks(cwd string) ([]Hook, error) {
	var out struct {
		Data []struct {
			Hooks  []Hook `json:"hooks"`
			Errors []struct {
				Message string `json:"message"`
			} `json:"errors"`
		} `json:"data"`
	}
	if err := s.call("hooks/list", map[string]any{"cwds": []string{cwd}}, &out); err != nil {
		return nil, err
	}
	var all []Hook
	for _, one := range out.Data {
		for _, e := range one.Errors {
			return nil, fmt.Errorf("%w: %s", ErrRefused, e.Message)
		}
		all = append(all, one.Hooks...)
	}
	return all, nil
}

// ErrRefused means that Codex does not take a configuration.
var ErrRefused = errors.New("codex does not take the configuration")

// refused is an error where Codex goes on as if there were no configuration.
func (s *server) refused() error {
	for _, w := range s.warnings {
		if w.invalid() {
			return fmt.Errorf("%w: %s", ErrRefused, w)
		}
	}
	return nil
}

// try has Codex read a configuration in a home of its own, and returns Regent's
// hooks in it with the names that they would have in the user's home.
func (c Codex) try(ctx context.Context, text []byte, home string) (hooks []Hook, version string, err error) {
	dir, err := os.MkdirTemp("", "regent-setup-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(filepath.Join(dir, ConfigName), text, 0o600); err != nil {
		return nil, "", err
	}
	s, err := c.open(ctx, dir, dir, true)
	if err != nil {
		return nil, "", err
	}
	defer s.close()
	all, err := s.hooks(dir)
	if err != nil {
		return nil, "", hidden(err, dir, home)
	}
	if err := s.refused(); err != nil {
		return nil, "", hidden(err, dir, home)
	}
	for _, h := range all {
		rest, ours := strings.CutPrefix(h.Key, filepath.Join(dir, ConfigName))
		if !ours || !IsHook(h.Command) {
			continue
		}
		h.Key = filepath.Join(home, ConfigName) + rest
		hooks = append(hooks, h)
	}
	return hooks, s.version, nil
}

// hidden is an error with the user's home in the place of a trial's.
func hidden(err error, dir, home string) error {
	return &trialError{err, strings.ReplaceAll(err.Error(), dir, home)}
}

type trialError struct {
	err  error
	text string
}

func (e *trialError) Error() string { return e.text }
func (e *trialError) Unwrap() error { return e.err }

// tail keeps the end of what a program says to people.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = slices.Clone(t.text[over:])
	}
	return len(p), nil
}

// fault is the line that says why a program has ended, or else the last one.
func (t *tail) fault() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return faultOf(string(t.text))
}

func faultOf(said string) string {
	last := ""
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "Error: "); ok {
			return text
		}
		if line != "" {
			last = line
		}
	}
	return last
}
