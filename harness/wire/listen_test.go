package wire_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/wire"
)

func TestWhoMayConnect(t *testing.T) {
	const token = "Authorization: Bearer s3cret"
	open, guarded := wire.ListenOptions{}, wire.ListenOptions{Token: "s3cret"}
	for _, tc := range []struct {
		name    string
		options wire.ListenOptions
		headers []string
		tcp     int
		unix    int
	}{
		{"anybody on this machine", open, nil, 101, 101},
		{"no page of a browser", open, []string{"Origin: http://127.0.0.1"}, 403, 403},
		{"not even of no origin", open, []string{"Origin: null"}, 403, 403},
		{"not with an empty one either", open, []string{"Origin:"}, 403, 403},
		{"no name that leads here", open, []string{"Host: evil.example:80"}, 403, 101},
		{"no name that looks like it", open, []string{"Host: 127.0.0.1.evil.example"}, 403, 101},
		{"loopback under its names", open, []string{"Host: localhost:4500"}, 101, 101},
		{"loopback of IPv6", open, []string{"Host: [::1]:4500"}, 101, 101},
		{"a token that nobody asked for is ignored", open, []string{token}, 101, 101},
		{"a token is needed", guarded, nil, 401, 401},
		{"the token lets in", guarded, []string{token}, 101, 101},
		{"the scheme is in any case", guarded, []string{"authorization: bearer s3cret"}, 101, 101},
		{"another token does not", guarded, []string{"Authorization: Bearer s3crets"}, 401, 401},
		{"a part of it does not", guarded, []string{"Authorization: Bearer s3cre"}, 401, 401},
		{"no token does not", guarded, []string{"Authorization: Bearer "}, 401, 401},
		{"another scheme does not", guarded, []string{"Authorization: Basic s3cret"}, 401, 401},
		{"the token does not help a page", guarded, []string{token, "Origin: http://127.0.0.1"}, 403, 403},
		{"the token does not help a name", guarded, []string{token, "Host: evil.example"}, 403, 101},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for address, want := range map[string]int{"ws://127.0.0.1:0": tc.tcp, "unix://" + socketPath(t): tc.unix} {
				l := listen(t, address, tc.options)
				p := knock(t, l.Address(), "/any/path", tc.headers...)
				if p.reply.StatusCode != want {
					t.Errorf("%s: %s, want %d", address, p.reply.Status, want)
				}
				if want == 101 {
					_ = accept(t, l).Close()
				}
				size := p.reply.Header.Get("x-codex-websocket-max-unfragmented-message-bytes")
				if unix := strings.HasPrefix(address, "unix:"); want == 101 && (size == "16777216") != unix {
					t.Errorf("%s: messages in one piece have up to %q bytes", address, size)
				}
			}
		})
	}
}

// codex app-server answers these like this, with a token and without.
func TestHealth(t *testing.T) {
	for _, tc := range []struct {
		method, path, origin string
		want                 int
	}{
		{"GET", "/readyz", "", 200},
		{"GET", "/healthz", "", 200},
		{"HEAD", "/readyz", "", 200},
		{"POST", "/readyz", "", 405},
		{"GET", "/readyz", "http://127.0.0.1", 403},
		{"GET", "/other", "", 401},
	} {
		l := listen(t, "ws://127.0.0.1:0", wire.ListenOptions{Token: "s3cret"})
		r, err := http.NewRequestWithContext(t.Context(), tc.method, strings.Replace(l.Address(), "ws:", "http:", 1)+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if reply.StatusCode != tc.want {
			t.Errorf("%s %s with the origin %q: %s, want %d", tc.method, tc.path, tc.origin, reply.Status, tc.want)
		}
	}
}

func TestWhatIsNoWebSocketIsToldSo(t *testing.T) {
	l := listen(t, "ws://127.0.0.1:0", wire.ListenOptions{})
	reply, err := http.Get(strings.Replace(l.Address(), "ws:", "http:", 1))
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	if reply.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("%s, want 426", reply.Status)
	}
}

func TestSoManyClientsAndNoMore(t *testing.T) {
	l := listen(t, "unix://"+socketPath(t), wire.ListenOptions{})
	clients := make([]*peer, wire.MaxClients)
	conns := make([]*wire.WebConn, wire.MaxClients)
	for i := range clients {
		clients[i] = knock(t, l.Address(), "/")
		conns[i] = accept(t, l)
	}
	if p := knock(t, l.Address(), "/"); p.reply.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s, want 503", p.reply.Status)
	}
	// A client that has failed to become one keeps no place.
	_ = conns[0].Close()
	for range 3 {
		if p := knock(t, l.Address(), "/", "Sec-WebSocket-Version: 12"); p.reply.StatusCode != http.StatusBadRequest {
			t.Errorf("%s, want 400", p.reply.Status)
		}
	}
	if p := knock(t, l.Address(), "/"); p.reply.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("%s, want 101", p.reply.Status)
	}
	_ = accept(t, l)
	// Neither does one that has hung up.
	_ = clients[1].Close()
	if _, err := conns[1].Read(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if p := knock(t, l.Address(), "/"); p.reply.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("%s, want 101", p.reply.Status)
	}
}

func TestSoManyVisitorsAndNoMore(t *testing.T) {
	l := listen(t, "unix://"+socketPath(t), wire.ListenOptions{})
	var silent []net.Conn
	defer func() {
		for _, c := range silent {
			_ = c.Close()
		}
	}()
	// Those who say nothing are bounded as well: one of them is hung up on.
	for range 2*wire.MaxClients + 1 {
		c, err := net.Dial("unix", strings.TrimPrefix(l.Address(), "unix://"))
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	if _, err := silent[len(silent)-1].Read(make([]byte, 1)); err == nil {
		t.Error("nothing was said, and something is answered")
	}
}

func TestCloseOfAListener(t *testing.T) {
	l := listen(t, "unix://"+socketPath(t), wire.ListenOptions{})
	dialed := dial(t, l.Address(), nil)
	accepted := accept(t, l)
	waits := knock(t, l.Address(), "/") // nobody accepts it
	began := make(chan struct{})
	unblocked := make(chan error, 1)
	other := listen(t, "ws://127.0.0.1:0", wire.ListenOptions{})
	go func() {
		close(began)
		_, err := other.Accept()
		unblocked <- err
	}()
	<-began
	for _, l := range []*wire.Listener{l, other, l} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept has %v, want ErrClosed", err)
		}
	}
	if err := <-unblocked; !errors.Is(err, net.ErrClosed) {
		t.Errorf("an Accept that waited has %v, want ErrClosed", err)
	}
	// It is told, unless it was in the middle of its handshake.
	if rest, err := io.ReadAll(waits.in); err != nil || len(rest) > 0 && string(rest) != "\x88\x02\x03\xe8" {
		t.Errorf("who was not accepted reads %x, %v; want the end", rest, err)
	}
	if _, err := wire.Dial(t.Context(), l.Address(), nil); err == nil {
		t.Error("there is still somebody")
	}
	// Who was accepted stays.
	if err := dialed.Write([]byte("{}")); err != nil {
		t.Error(err)
	}
	got, err := accepted.Read()
	if diff := cmp.Diff([]string{"{}"}, texts(got)); diff != "" || err != nil {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
}

func TestASocketIsItsOwnersAlone(t *testing.T) {
	path := socketPath(t)
	l := listen(t, "unix://"+path, wire.ListenOptions{})
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v; want srw-------", info.Mode(), err)
	}
	if l.Address() != "unix://"+path {
		t.Errorf("it is at %s", l.Address())
	}
	_ = l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestFoldersOfOthers(t *testing.T) {
	for _, mode := range []fs.FileMode{0o777, 0o775, 0o702, fs.ModeSticky | 0o777} {
		path := socketPath(t)
		if err := os.Chmod(filepath.Dir(path), mode); err != nil {
			t.Fatal(err)
		}
		if l, err := wire.Listen("unix://"+path, wire.ListenOptions{}); !errors.Is(err, wire.ErrAddress) {
			t.Errorf("mode %v: %v, %v; want ErrAddress", mode, l, err)
		}
	}
	t.Run("owned by another user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give a folder away")
		}
		path := socketPath(t)
		if err := os.Chown(filepath.Dir(path), 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if l, err := wire.Listen("unix://"+path, wire.ListenOptions{}); !errors.Is(err, wire.ErrAddress) {
			t.Errorf("%v, %v; want ErrAddress", l, err)
		}
	})
	t.Run("a folder that is not there", func(t *testing.T) {
		if l, err := wire.Listen("unix://"+filepath.Join(t.TempDir(), "no", "s"), wire.ListenOptions{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, %v; want ErrNotExist", l, err)
		}
	})
}

func TestWhatIsAtThePathOfASocket(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(path string) error
		want error // nil where it is replaced
	}{
		{"a socket that nobody listens on is replaced", func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false) // as a crash leaves it
			return l.Close()
		}, nil},
		{"a file is kept", func(path string) error { return os.WriteFile(path, []byte("precious"), 0o600) }, wire.ErrAddress},
		{"an empty file is kept", func(path string) error { return os.WriteFile(path, nil, 0o600) }, wire.ErrAddress},
		{"a folder is kept", func(path string) error { return os.Mkdir(path, 0o700) }, wire.ErrAddress},
		{"a link to nothing is kept", func(path string) error { return os.Symlink(path+"-nothing", path) }, wire.ErrAddress},
		{"a link to a socket is kept", func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + "-other", Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return errors.Join(l.Close(), os.Symlink(path+"-other", path))
		}, wire.ErrAddress},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := socketPath(t)
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			l, err := wire.Listen("unix://"+path, wire.ListenOptions{})
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			if err == nil {
				_ = dial(t, l.Address(), nil).Close()
				_ = l.Close()
				return
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || before.Size() != after.Size() {
				t.Errorf("it was %v and is %v, %v", before, after, err)
			}
		})
	}
}

func TestASocketThatSomebodyListensOnIsKept(t *testing.T) {
	first := listen(t, "unix://"+socketPath(t), wire.ListenOptions{})
	if l, err := wire.Listen(first.Address(), wire.ListenOptions{}); !errors.Is(err, wire.ErrInUse) {
		t.Errorf("%v, %v; want ErrInUse", l, err)
	}
	_ = dial(t, first.Address(), nil).Close()
	port := listen(t, "ws://127.0.0.1:0", wire.ListenOptions{})
	if l, err := wire.Listen(port.Address(), wire.ListenOptions{}); !errors.Is(err, wire.ErrInUse) {
		t.Errorf("%v, %v; want ErrInUse", l, err)
	}
}

// Whoever took the path over in the meantime keeps it.
func TestCloseRemovesItsOwnSocketOnly(t *testing.T) {
	path := socketPath(t)
	first := listen(t, "unix://"+path, wire.ListenOptions{})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := listen(t, "unix://"+path, wire.ListenOptions{})
	_ = first.Close()
	_ = dial(t, second.Address(), nil).Close()
}
