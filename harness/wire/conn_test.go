package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/wire"
)

var (
	_ harness.Conn = (*wire.LineConn)(nil)
	_ harness.Conn = (*wire.WebConn)(nil)
)

// pairs are the two ends of connections of every kind.
func pairs(t testing.TB) map[string]func(testing.TB) (a, b harness.Conn) {
	t.Helper()
	return map[string]func(testing.TB) (a, b harness.Conn){
		"lines": func(t testing.TB) (a, b harness.Conn) {
			x, y := unixPair(t)
			a, b = wire.Lines(x, x, x.Close), wire.Lines(y, y, y.Close)
			t.Cleanup(func() { _, _ = a.Close(), b.Close() })
			return a, b
		},
		"lines of pipes": func(t testing.TB) (a, b harness.Conn) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			a, b = wire.Lines(strings.NewReader(""), w, w.Close), wire.Lines(r, io.Discard, r.Close)
			t.Cleanup(func() { _, _ = a.Close(), b.Close() })
			return a, b
		},
		"from client to server on a unix socket": func(t testing.TB) (a, b harness.Conn) {
			client, server := webPair(t, "unix://"+socketPath(t))
			return client, server
		},
		"from server to client on a unix socket": func(t testing.TB) (a, b harness.Conn) {
			client, server := webPair(t, "unix://"+socketPath(t))
			return server, client
		},
		"from client to server on a port": func(t testing.TB) (a, b harness.Conn) {
			client, server := webPair(t, "ws://127.0.0.1:0")
			return client, server
		},
		"from server to client on a port": func(t testing.TB) (a, b harness.Conn) {
			client, server := webPair(t, "ws://127.0.0.1:0")
			return server, client
		},
	}
}

// unixPair is a connection of sockets, which have room for little.
func unixPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", socketPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

// socketPath is a path that is short enough for a socket, in a folder of its own.
func socketPath(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return filepath.Join(folder, "s")
}

func TestConcurrentWritersDoNotInterleave(t *testing.T) {
	for name, pair := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			testWriters(t, a, b)
		})
	}
}

func testWriters(t *testing.T, a, b harness.Conn) {
	t.Helper()
	const writers, each = 8, 60
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				// Sizes on both sides of every buffer.
				fill := strings.Repeat(string(rune('a'+w)), 1+i*i*10)
				if err := a.Write(fmt.Appendf(nil, "%d %d %s", w, i, fill), fmt.Appendf(nil, "%d %d", w, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	next := make([]int, writers)
	second := map[int]bool{}
	last := -1
	for n := 0; n < 2*writers*each; {
		messages, err := b.Read()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			var w, i int
			if _, err := fmt.Sscanf(string(m), "%d %d", &w, &i); err != nil {
				t.Fatalf("%v: %.40q", err, m)
			}
			want := fmt.Sprintf("%d %d", w, i)
			if !second[w] {
				want += " " + strings.Repeat(string(rune('a'+w)), 1+i*i*10)
			}
			if i != next[w] || string(m) != want || second[w] && last != w {
				t.Fatalf("%.40q (%d bytes) came where message %d of writer %d was due", m, len(m), next[w], w)
			}
			if second[w] {
				next[w]++
			}
			second[w] = !second[w]
			last = w
			n++
		}
	}
	wg.Wait()
}

func TestHugeMessagesAndWhatFollowsThem(t *testing.T) {
	huge := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	for name, pair := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			go func() {
				if err := a.Write([]byte("a"), huge, []byte("b")); err != nil {
					t.Error(err)
				}
				for range 3 {
					if err := a.Write([]byte("c")); err != nil {
						t.Error(err)
					}
				}
			}()
			want := []string{"a", string(huge), "b", "c", "c", "c"}
			for len(want) > 0 {
				got, err := b.Read()
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range got {
					if string(m) != want[0] {
						t.Fatalf("%.20q (%d bytes), want %.20q", m, len(m), want[0])
					}
					want = want[1:]
				}
			}
		})
	}
}

func TestCloseLetsGo(t *testing.T) {
	for name, pair := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			failed := fill(a)
			read := make(chan error, 1)
			if name != "lines of pipes" { // which lead one way
				go func() {
					_, err := a.Read()
					read <- err
				}()
			} else {
				read <- io.EOF
			}
			if _, err := b.Read(); err != nil { // the writer has begun
				t.Fatal(err)
			}
			for range 2 {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := <-failed; !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("Write has %v, want ErrClosedPipe", err)
			}
			if err := <-read; !errors.Is(err, io.EOF) {
				t.Errorf("Read has %v, want EOF", err)
			}
			if err := a.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("a late Write has %v, want ErrClosedPipe", err)
			}
		})
	}
}

// Frames that codex app-server 0.156.1 and 0.171.0 have sent and been sent.
func TestRecordedFrames(t *testing.T) {
	frames, err := os.ReadFile(filepath.Join("testdata", "frames.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for s := bufio.NewScanner(bytes.NewReader(frames)); s.Scan(); {
		want = append(want, s.Text())
	}
	if len(want) < 10 {
		t.Fatalf("%d frames only", len(want))
	}
	for name, pair := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			go func() {
				for _, m := range want {
					if err := a.Write([]byte(m)); err != nil {
						t.Error(err)
					}
				}
				_ = a.Close()
			}()
			got, err := readAll(b)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("then %v; (-want +got):\n%s", err, diff)
			}
		})
	}
}
