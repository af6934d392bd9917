package server_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// another is a second server of the same home, on the same gate.
func (d *daemon) another() *server.Server {
	return server.New(server.Options{Gate: d.gate, Epochs: d.epochs, Ledger: d.db, Home: d.home})
}

func TestSocketIsItsOwnersAlone(t *testing.T) {
	d := start(t, setup{})
	info, err := os.Stat(d.socket)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %s, %v; want srw-------", info.Mode(), err)
	}
}

func TestOneDaemonServesAHome(t *testing.T) {
	d := start(t, setup{})
	other := filepath.Join(d.home, "runtime", "other.sock")
	for _, path := range []string{d.socket, other} {
		if l, err := d.another().ListenUnix(path); !errors.Is(err, server.ErrRunning) {
			t.Errorf("a second daemon on %s gets %v %v, want ErrRunning", path, l, err)
		}
	}
	if _, err := d.Status(t.Context()); err != nil {
		t.Errorf("the first one is disturbed: %v", err)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(d.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	l, err := d.another().ListenUnix(d.socket)
	if err != nil {
		t.Fatalf("when the first has ended the next gets %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// leave makes a socket that nobody listens on, as a crash does.
func leave(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsAtThePathOfTheSocket(t *testing.T) {
	d := start(t, setup{})
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		put  func(t *testing.T, path string)
		want error
	}{
		"nothing":                    {func(*testing.T, string) {}, nil},
		"a socket that a crash left": {leave, nil},
		"a file is left alone":       {func(t *testing.T, path string) { write(t, path, "precious") }, server.ErrPath},
		"a folder is left alone":     {func(t *testing.T, path string) { write(t, path+"/x", "precious") }, server.ErrPath},
		"a link to a socket is no socket": {func(t *testing.T, path string) {
			leave(t, path+"2")
			if err := os.Symlink(path+"2", path); err != nil {
				t.Fatal(err)
			}
		}, server.ErrPath},
		"a socket of which it cannot be told whether somebody is there": {func(t *testing.T, path string) {
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}, server.ErrRunning},
		"somebody else listens": {func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}, server.ErrRunning},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "s")
			test.put(t, path)
			before, _ := os.Lstat(path)
			l, err := d.another().ListenUnix(path)
			if test.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, test.want) {
				t.Fatalf("to listen there is %v %v, want %v", l, err, test.want)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("what was there is gone: %v", err)
			}
		})
	}
	t.Run("a path that is too long", func(t *testing.T) {
		_, err := d.another().ListenUnix("/" + strings.Repeat("x", 120))
		if !errors.Is(err, server.ErrPath) || !strings.Contains(err.Error(), "server.socket") {
			t.Errorf("to listen there is %v, want ErrPath and what to do", err)
		}
	})
}

func TestLoopbackOnly(t *testing.T) {
	d := start(t, setup{})
	for address, want := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "0.0.0.0:0": false, ":0": false, "[::]:0": false,
		"192.0.2.1:0": false, "example.com:80": false, "127.0.0.1": false,
	} {
		l, err := d.server.ListenTCP(t.Context(), address)
		if err == nil {
			_ = l.Close()
		}
		// A machine without IPv6 cannot listen there.
		if (err == nil) != want && !(address == "[::1]:0" && !errors.Is(err, server.ErrNotLoopback)) {
			t.Errorf("to listen on %s is %v, want ok: %t", address, err, want)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	dir := shortDir(t)
	leave(t, filepath.Join(dir, "stale"))
	for _, name := range []string{"none", "stale"} {
		if c, err := client.Dial(filepath.Join(dir, name)); !errors.Is(err, client.ErrNoDaemon) {
			t.Errorf("to dial %s gives %v %v, want ErrNoDaemon", name, c, err)
		}
	}
	d := start(t, setup{})
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Status(t.Context()); !errors.Is(err, client.ErrNoDaemon) {
		t.Errorf("a daemon that has ended says %v, want ErrNoDaemon", err)
	}
}

func TestEndTellsThoseWhoWait(t *testing.T) {
	d := start(t, setup{})
	record, answer := d.pending(question("make x"))
	posted, err := d.Post(t.Context(), hosted("make y", "r1", "host-1"))
	if err != nil {
		t.Fatal(err)
	}
	events := d.follow(d.Client, client.FromNow)
	polled := make(chan result, 1)
	go func() {
		a, err := d.Await(context.WithoutCancel(t.Context()), posted.ID, "host-1", api.MaxWait*1e9)
		polled <- result{a, err}
	}()
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	for name, done := range map[string]<-chan result{"who asked": answer, "who polls": polled} {
		// One who came too late is told that the daemon stops.
		got := <-done
		if got.err != nil && code(t, got.err) != api.Stopping && !errors.Is(got.err, client.ErrNoDaemon) ||
			got.err == nil && (got.Outcome != approval.OutcomeDeny || got.State != approval.Lost) {
			t.Errorf("%s hears %+v, want that the request is lost", name, got)
		}
	}
	for {
		one, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the stream ends with %v, want its end", err)
		}
		_ = one
	}
	if r, err := d.db.Read(t.Context(), record.ID); err != nil || r.State != approval.Lost {
		t.Errorf("the record is %s, %v; want lost", r.State, err)
	}
}

func TestOneThatOnlyListensNeedsNoGate(t *testing.T) {
	home := shortDir(t)
	s := server.New(server.Options{Home: home})
	l, err := s.ListenUnix(filepath.Join(home, "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
