package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/server/api"
)

const (
	// commandTime is how long one command may run.
	commandTime = time.Minute
	// maxOutput is how much of a file or of what a command prints the model gets.
	maxOutput = 64 << 10
)

// toolbox is the tools of the agent. They work on one folder, and elsewhere as far
// as a call may.
type toolbox struct{ scratch string }

// action is a call that the host has understood: what it tells the daemon, and
// what it does if it may.
type action struct {
	spec api.CallSpec
	// changes says that it writes or starts a program.
	changes bool
	// names is the place that it says it goes to.
	names permission.Profile
	// run does it, with permissions beyond those on the scratch folder.
	run func(ctx context.Context, may permission.Profile) (string, error)
}

// prepare reads a call. The daemon is told what was understood and not what the
// model typed: so nobody can read another call out of it, and whoever is asked
// sees where a path leads.
func (b toolbox) prepare(c toolCall) (action, error) {
	switch c.Tool {
	case "read_file", "list_dir":
		var a struct {
			Path string `json:"path"`
		}
		if err := errors.Join(decode(c, &a), b.resolve(&a.Path)); err != nil {
			return action{}, err
		}
		do := read
		if c.Tool == "list_dir" {
			do = list
		}
		return b.file(c.Tool, a, a.Path, permission.Read, do)
	case "write_file":
		var a struct {
			Path    string `json:"path"`
			Content string `json:"content"`
		}
		if err := errors.Join(decode(c, &a), b.resolve(&a.Path)); err != nil {
			return action{}, err
		}
		return b.file(c.Tool, a, a.Path, permission.Write, func(root *os.Root, name string) (string, error) {
			return write(root, name, a.Content)
		})
	case "exec_command":
		var a struct {
			Text string `json:"cmd"`
		}
		if err := decode(c, &a); err != nil {
			return action{}, err
		}
		// Said as a command, with the shell that is going to read it.
		spec := api.CallSpec{Kind: approval.KindCommand, Command: &approval.Command{Shell: "sh", Text: a.Text}}
		return action{spec: spec, changes: true, run: func(ctx context.Context, may permission.Profile) (string, error) {
			return b.exec(ctx, a.Text, may)
		}}, nil
	default:
		return action{}, fmt.Errorf("there is no tool %.80q here", c.Tool)
	}
}

func decode(c toolCall, into any) error {
	if err := jsonv2.Unmarshal(c.Arguments, into, jsonv2.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("the arguments of %s cannot be read: %w", c.Tool, err)
	}
	return nil
}

func (b toolbox) environment() permission.Environment {
	return permission.Environment{ID: environment, Cwd: b.scratch, Home: b.scratch}
}

// resolve puts the place that a path leads to into its place.
func (b toolbox) resolve(path *string) (err error) {
	*path, err = b.environment().Resolve(*path, nil)
	return err
}

// only is access to one place.
func only(at string, access permission.Access) permission.Profile {
	return permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(at, access)}}}
}

// file is the action of a tool that does something with one file or folder.
func (b toolbox) file(tool string, arguments any, at string, access permission.Access, do func(root *os.Root, name string) (string, error)) (action, error) {
	text, err := json.Marshal(arguments)
	if err != nil {
		return action{}, err
	}
	return action{
		spec:    api.CallSpec{Kind: approval.KindTool, Tool: &approval.Tool{Name: tool, Arguments: text}},
		changes: access == permission.Write,
		names:   only(at, access),
		run: func(_ context.Context, may permission.Profile) (string, error) {
			root, name, err := b.open(at, access, may)
			if err != nil {
				return "", err
			}
			defer func() { _ = root.Close() }() // a handle, nothing is written by it
			return do(root, name)
		},
	}, nil
}

// open returns a place that a call may go to, below a root out of which no link
// leads. Regent decides what may be done, and never sees it done: to hold a tool
// to that is for the host.
func (b toolbox) open(at string, access permission.Access, may permission.Profile) (*os.Root, string, error) {
	env := b.environment()
	if now, err := env.Resolve(at, nil); err != nil || now != at {
		return nil, "", errors.Join(err, fmt.Errorf("%s leads to another place by now", at))
	}
	ruling := permission.Decide(permission.Merge(only(b.scratch, permission.Write), may), access, at, nil)
	if ruling.Outcome != permission.Allowed || ruling.By == nil || ruling.By.Path.Type != permission.TypePath {
		return nil, "", fmt.Errorf("the call has no permission to %s %s", access, at)
	}
	top := ruling.By.Path.Path
	for info, err := os.Stat(top); err != nil || !info.IsDir(); info, err = os.Stat(top) {
		top = filepath.Dir(top) // a single file, or a folder that is yet to be made
	}
	name, err := filepath.Rel(top, at)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(top)
	return root, name, err
}

func read(root *os.Root, name string) (string, error) {
	// To open a pipe would be to wait for whoever writes into it.
	if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, fmt.Errorf("%s is no file that can be read", name))
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxOutput))
	return string(text), err
}

func list(root *os.Root, name string) (string, error) {
	if info, err := root.Stat(name); err != nil || !info.IsDir() {
		return "", errors.Join(err, fmt.Errorf("%s is no folder", name))
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(name))
	var out strings.Builder
	for _, e := range entries[:min(len(entries), 1000)] {
		fmt.Fprintln(&out, e)
	}
	return out.String(), err
}

func write(root *os.Root, name, content string) (string, error) {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	if err := root.WriteFile(name, []byte(content), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote %d bytes", len(content)), nil
}

func (b toolbox) exec(ctx context.Context, text string, may permission.Profile) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("it ran for longer than %s", commandTime))
	defer cancel()
	cmd := b.confined(ctx, text, may)
	var out head
	cmd.Stdout, cmd.Stderr = &out, &out
	over := grouped(cmd)
	err := cmd.Run()
	over()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = errors.New("what it had left running was ended")
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == nil && len(out.kept) == 0 {
		return "it printed nothing", nil
	}
	return string(out.kept), err
}

// confined is a command that can do no more than it may.
//
// This is the place for a sandbox of the operating system, and here is none: the
// command can do whatever the user can who runs this host. A sandbox would open
// the scratch folder for writing, and what the profile grants; the rest of the
// disk for reading as far as the host likes, without the home of Regent; and the
// network to the hosts of the profile.
func (b toolbox) confined(ctx context.Context, text string, _ permission.Profile) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text)
	cmd.Dir = b.scratch
	// Nothing of the host's own environment: that is where secrets are.
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + b.scratch}
	cmd.WaitDelay = time.Second // what it has started may hold the output open
	return cmd
}

// head keeps the beginning of what is written to it.
type head struct{ kept []byte }

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), maxOutput-len(h.kept))]...)
	return len(p), nil
}
