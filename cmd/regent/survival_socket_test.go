package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/client"
)

func TestOneDaemonServesAHome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.serve()
	agent, person := s.agent(), s.person()
	s.allowed(agent, 1)
	refused := func() {
		t.Helper()
		if said := s.refuses(exitFailed); !strings.Contains(said, "a daemon is running already") || !strings.Contains(said, "regent status tells about it") {
			t.Errorf("the second daemon says %s", said)
		}
	}
	refused()
	s.allowed(agent, 1)

	// Without its socket nobody new finds the daemon, but it is there.
	stream := s.events(person, client.FromNow)
	waits := s.ask(agent, "deploy")
	s.asked(stream)
	healthy := func() {
		t.Helper()
		if health, err := person.Health(s.soon()); err != nil || !health.OK {
			t.Errorf("health: %+v, %v", health, err)
		}
	}
	healthy() // on a connection that is kept
	if err := os.Remove(s.socket); err != nil {
		t.Fatal(err)
	}
	if c, err := client.Dial(s.socket); !errors.Is(err, client.ErrNoDaemon) {
		t.Errorf("%v, %v; want ErrNoDaemon", c, err)
	}
	if out, code := s.run("status"); code != exitFailed || !strings.Contains(out, "no daemon listens on") {
		t.Errorf("regent status: exit code %d: %s", code, out)
	}
	refused()
	// Whom it knows it serves on, and it says that nobody else reaches it.
	if health, err := person.Health(s.soon()); err != nil || health.OK || len(health.Reasons) != 1 || !strings.Contains(health.Reasons[0], "socket") {
		t.Errorf("health: %+v, %v", health, err)
	}
	d.stop()
	if a := <-waits; a.err != nil || a.State != approval.Lost {
		t.Errorf("what waited is %s, %v; want lost", a.State, a.err)
	}

	// A crash leaves its socket behind.
	d = s.serve()
	s.allowed(agent, 1)
	d.kill()
	if info, err := os.Lstat(s.socket); err != nil || info.Mode().Type() != fs.ModeSocket {
		t.Fatalf("the crash left no socket: %v", err)
	}
	if c, err := client.Dial(s.socket); !errors.Is(err, client.ErrNoDaemon) {
		t.Errorf("%v, %v; want ErrNoDaemon", c, err)
	}
	d = s.serve()
	s.allowed(agent, 1)
	info, err := os.Lstat(s.socket)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	d.stop()
	if _, err := os.Lstat(s.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket outlives its daemon: %v", err)
	}
	s.verifies()
}

// What is no socket is somebody's, and is left alone.
func TestSomethingElseWhereTheSocketShouldBe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if err := os.Mkdir(filepath.Dir(s.socket), 0o700); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(s.root, "precious")
	for _, c := range []struct {
		name string
		make func() error
	}{
		{"a file", func() error { return os.WriteFile(s.socket, []byte("precious"), 0o600) }},
		{"an empty file", func() error { return os.WriteFile(s.socket, nil, 0o600) }},
		{"a folder", func() error { return os.Mkdir(s.socket, 0o700) }},
		{"a link to a file", func() error {
			return errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.Symlink(precious, s.socket))
		}},
		{"a link to nothing", func() error { return os.Symlink(filepath.Join(s.root, "nothing"), s.socket) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.make(); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(s.socket)
			if err != nil {
				t.Fatal(err)
			}
			if said := s.refuses(exitUsage); !strings.Contains(said, s.socket) || !strings.Contains(said, "there is something else already") {
				t.Errorf("the daemon says %s", said)
			}
			after, err := os.Lstat(s.socket)
			if err != nil || !os.SameFile(before, after) || before.Size() != after.Size() || before.Mode() != after.Mode() {
				t.Errorf("it was %v and is %v, %v", before, after, err)
			}
			if err := os.Remove(s.socket); err != nil {
				t.Fatal(err)
			}
		})
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
		t.Errorf("the file behind the link has %q, %v", text, err)
	}
	s.serve().stop()
}
