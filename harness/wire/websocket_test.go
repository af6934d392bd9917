package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/wire"
)

// listen takes clients until the test ends.
func listen(t testing.TB, address string, o wire.ListenOptions) *wire.Listener {
	t.Helper()
	l, err := wire.Listen(address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func accept(t testing.TB, l *wire.Listener) *wire.WebConn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func dial(t testing.TB, address string, header http.Header) *wire.WebConn {
	t.Helper()
	c, err := wire.Dial(t.Context(), address, header)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func webPair(t testing.TB, address string) (client, server *wire.WebConn) {
	t.Helper()
	l := listen(t, address, wire.ListenOptions{})
	client = dial(t, l.Address(), nil)
	return client, accept(t, l)
}

// peer speaks frames of RFC 6455, well or badly.
type peer struct {
	net.Conn
	in     *bufio.Reader
	masked bool
	reply  *http.Response
}

const (
	opMore   = 0
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
	last     = 0x80
)

// knock asks for a WebSocket with a request of its own.
func knock(t testing.TB, address, path string, headers ...string) *peer {
	t.Helper()
	network, where := "tcp", strings.TrimPrefix(address, "ws://")
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, where = "unix", path
	}
	conn, err := net.Dial(network, where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &peer{Conn: conn, in: bufio.NewReader(conn), masked: true}
	host := "Host: 127.0.0.1"
	for _, h := range headers {
		if strings.HasPrefix(h, "Host:") {
			host = ""
		}
	}
	headers = append(headers, host, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==")
	request := "GET " + path + " HTTP/1.1\r\n"
	for _, h := range headers {
		if h != "" {
			request += h + "\r\n"
		}
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	if p.reply, err = http.ReadResponse(p.in, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// client is a peer whose frames a listener reads.
func client(t testing.TB, address string) (*peer, *wire.WebConn) {
	t.Helper()
	l := listen(t, address, wire.ListenOptions{})
	p := knock(t, l.Address(), "/")
	if p.reply.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(p.reply.Status)
	}
	return p, accept(t, l)
}

// frame is the bytes of a frame that says to be as long as size.
func (p *peer) frame(first byte, size int, payload string) []byte {
	var mask byte
	if p.masked {
		mask = 0x80
	}
	f := []byte{first}
	switch {
	case size < 126:
		f = append(f, mask|byte(size))
	case size < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, mask|126), uint16(size))
	default:
		f = binary.BigEndian.AppendUint64(append(f, mask|127), uint64(size))
	}
	if p.masked {
		f = append(f, 0, 0, 0, 0)
	}
	return append(f, payload...)
}

// next reads a frame of less than 126 bytes.
func (p *peer) next(t testing.TB) (first byte, payload string) {
	t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		t.Fatal(err)
	}
	if head[1] > 125 {
		t.Fatalf("a frame that begins with %x", head)
	}
	body := make([]byte, head[1])
	if _, err := io.ReadFull(p.in, body); err != nil {
		t.Fatal(err)
	}
	return head[0], string(body)
}

func TestFramesAreMessages(t *testing.T) {
	p, c := client(t, "ws://127.0.0.1:0")
	long := strings.Repeat("x", 100<<10)
	var all []byte
	for _, f := range []struct {
		first   byte
		payload string
	}{
		{last | opText, `{"id":1}`},
		{opText, `{"id"`},
		{opMore, ``},
		{last | opPing, "within a message"},
		{opMore, `:`},
		{last, `2}`},
		{last | opText, ``},
		{last | opText, long},
		{last | opPong, "unasked"},
		{last | opText, "{\n}"},
		{last | opClose, "\x03\xe8"},
	} {
		all = append(all, p.frame(f.first, len(f.payload), f.payload)...)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := p.Write(all)
		sent <- err
	}()
	got, err := readAll(c)
	if diff := cmp.Diff([]string{`{"id":1}`, `{"id":2}`, ``, long, "{\n}"}, got); diff != "" || !errors.Is(err, io.EOF) {
		t.Errorf("then %v; (-want +got):\n%s", err, diff)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if first, payload := p.next(t); first != last|opPong || payload != "within a message" {
		t.Errorf("the ping is answered by %x %q", first, payload)
	}
	if first, payload := p.next(t); first != last|opClose || payload != "\x03\xe8" {
		t.Errorf("the end is answered by %x %q", first, payload)
	}
}

// What is cut short is no message, wherever it was cut.
func TestHalfAMessageIsNone(t *testing.T) {
	const whole = `{"id":0,"result":{"decision":"accept"}}`
	p := &peer{masked: true}
	tail := p.frame(last, 0, "")
	for _, tc := range []struct {
		name string
		sent []byte
		err  error
	}{
		{"an end between messages is in order", nil, io.EOF},
		{"an end before the payload", p.frame(last|opText, len(whole), ""), io.ErrUnexpectedEOF},
		{"an end within the payload", p.frame(last|opText, len(whole)+1, whole), io.ErrUnexpectedEOF},
		{"an end before a frame that was to follow", p.frame(opText, len(whole), whole), io.ErrUnexpectedEOF},
		{"an end within the head of that frame", append(p.frame(opText, len(whole), whole), tail[:1]...), io.ErrUnexpectedEOF},
		{"an end where a buffer of the reader was full", p.frame(last|opText, 9<<20, strings.Repeat("x", 4<<10)), io.ErrUnexpectedEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, c := client(t, "unix://"+socketPath(t))
			if _, err := p.Write(append(p.frame(last|opText, 2, "{}"), tc.sent...)); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := readAll(c)
			if diff := cmp.Diff([]string{"{}"}, got); diff != "" || !errors.Is(err, tc.err) {
				t.Errorf("then %v, want %v; (-want +got):\n%s", err, tc.err, diff)
			}
		})
	}
}

func TestFramesThatEndTheConnection(t *testing.T) {
	p := &peer{masked: true}
	bare := &peer{}
	for _, tc := range []struct {
		name string
		sent []byte
		want string // the status that the peer is told; "" for none
		err  error  // where it is one of ours
	}{
		{"bytes are no message", p.frame(last|opBinary, 2, "{}"), "\x03\xeb", nil},
		{"a message that is too long", p.frame(last|opText, 101, strings.Repeat("x", 101)), "\x03\xf1", wire.ErrTooLong},
		{"pieces that are too long together", append(p.frame(opText, 60, strings.Repeat("x", 60)), p.frame(last, 60, strings.Repeat("x", 60))...), "\x03\xf1", wire.ErrTooLong},
		{"a client that does not mask", bare.frame(last|opText, 2, "{}"), "", nil},
		{"a compressed message", p.frame(last|0x40|opText, 2, "{}"), "\x03\xea", nil},
		{"a rest without a beginning", p.frame(last, 2, "{}"), "\x03\xea", nil},
		{"a beginning before the rest", append(p.frame(opText, 1, "{"), p.frame(last|opText, 2, "{}")...), "\x03\xea", nil},
		{"an unknown frame", p.frame(last|3, 2, "{}"), "\x03\xea", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, c := client(t, "unix://"+socketPath(t))
			c.Limit(wire.Limits{Message: 100})
			whole := strings.Repeat("y", 100)
			if _, err := p.Write(append(p.frame(last|opText, 100, whole), tc.sent...)); err != nil {
				t.Fatal(err)
			}
			got, err := readAll(c)
			if diff := cmp.Diff([]string{whole}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err == nil || errors.Is(err, io.EOF) || tc.err != nil && !errors.Is(err, tc.err) {
				t.Errorf("then %v, want %v", err, tc.err)
			}
			if _, again := c.Read(); again == nil || again.Error() != err.Error() {
				t.Errorf("the next Read has %v, want %v", again, err)
			}
			if tc.want != "" {
				if first, payload := p.next(t); first != last|opClose || !strings.HasPrefix(payload, tc.want) {
					t.Errorf("the peer is told %x %q", first, payload)
				}
			}
			if rest, err := io.ReadAll(p.in); len(rest) > 0 || err != nil {
				t.Errorf("then the peer reads %x, %v; want the end", rest, err)
			}
			if err := c.Write([]byte("{}")); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("a Write has %v, want ErrClosedPipe", err)
			}
		})
	}
}

func TestThePeerIsToldOfAnEnd(t *testing.T) {
	t.Run("of a server", func(t *testing.T) {
		p, c := client(t, "ws://127.0.0.1:0")
		if err := c.Write([]byte("{}")); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if first, payload := p.next(t); first != last|opText || payload != "{}" {
			t.Errorf("%x %q", first, payload)
		}
		if first, payload := p.next(t); first != last|opClose || payload != "\x03\xe8" {
			t.Errorf("%x %q", first, payload)
		}
		if rest, err := io.ReadAll(p.in); len(rest) > 0 || err != nil {
			t.Errorf("%x, %v", rest, err)
		}
	})
	t.Run("of a client", func(t *testing.T) {
		client, server := webPair(t, "ws://127.0.0.1:0")
		if err := client.Write([]byte("{}")); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		got, err := readAll(server)
		if diff := cmp.Diff([]string{"{}"}, got); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("then %v; (-want +got):\n%s", err, diff)
		}
	})
}

func TestSeveralMessagesAreFramesOfTheirOwn(t *testing.T) {
	p, c := client(t, "unix://"+socketPath(t))
	if err := c.Write([]byte("a"), nil, []byte("{\n}")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a", "", "{\n}"} {
		if first, payload := p.next(t); first != last|opText || payload != want {
			t.Errorf("%x %q, want the text %q", first, payload, want)
		}
	}
}

func TestASlowClientIsGivenUp(t *testing.T) {
	for _, size := range []int{1, 30 << 10, 1 << 20} {
		_, c := client(t, "unix://"+socketPath(t))
		c.Limit(wire.Limits{Write: 20 * time.Millisecond})
		m := bytes.Repeat([]byte("x"), size)
		var err error
		for err == nil {
			err = c.Write(m, m)
		}
		if !errors.Is(err, wire.ErrSlow) {
			t.Errorf("messages of %d bytes: %v, want ErrSlow", size, err)
		}
		if _, err := c.Read(); err == nil {
			t.Errorf("messages of %d bytes: the connection is still there", size)
		}
	}
}

// A client that does not read, and asks for answers all the time.
func TestCloseWaitsForNobody(t *testing.T) {
	p, c := client(t, "unix://"+socketPath(t))
	read := make(chan error, 1)
	go func() {
		_, err := c.Read()
		read <- err
	}()
	failed := fill(c)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for { // until nothing is read any more
			if _, err := p.Write(p.frame(last|opPing, 125, strings.Repeat("x", 125))); err != nil {
				return
			}
		}
	}()
	if _, err := p.in.Peek(1); err != nil { // the writer has begun
		t.Fatal(err)
	}
	begun := time.Now()
	_ = c.Close()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("Close took %s", took)
	}
	<-failed
	<-read
	<-stop
}

// What nobody deals with is not read without an end.
func TestNotMuchIsReadAhead(t *testing.T) {
	for _, tc := range []struct{ size, messages int }{{64 << 10, 512}, {0, 200_000}} {
		client, server := webPair(t, "unix://"+socketPath(t))
		client.Limit(wire.Limits{Write: 200 * time.Millisecond})
		if err := client.Write([]byte("first")); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(); err != nil { // now it reads ahead
			t.Fatal(err)
		}
		m := make([]byte, tc.size)
		sent := 0
		var err error
		for ; err == nil && sent < tc.messages; sent++ {
			err = client.Write(m)
		}
		if !errors.Is(err, wire.ErrSlow) {
			t.Errorf("%v after %d messages of %d bytes, want ErrSlow", err, sent, tc.size)
		}
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	status := func(code int) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
			w.WriteHeader(code)
		}))
		t.Cleanup(s.Close)
		return s
	}
	for _, code := range []int{http.StatusOK, http.StatusFound, http.StatusTemporaryRedirect, http.StatusUnauthorized} {
		_, err := wire.Dial(t.Context(), strings.Replace(status(code).URL, "http:", "ws:", 1), nil)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%v, want it to tell of %d", err, code)
		}
	}
	if _, err := wire.Dial(t.Context(), "unix://"+socketPath(t), nil); err == nil {
		t.Error("a connection to nowhere")
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("unix", socketPath(t)) // nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = bufio.NewReader(c).ReadString('\n') // it has asked
			defer func() { _ = c.Close() }()
		}
		cancel(errors.New("no longer of interest"))
	}()
	if _, err := wire.Dial(ctx, "unix://"+l.Addr().String(), nil); err == nil || !strings.Contains(err.Error(), "no longer of interest") {
		t.Errorf("%v, want the cause", err)
	}
}

// The TUI of 0.171.0 asks for a compression of Codex's own.
func TestNobodyCompresses(t *testing.T) {
	const codex = "X-Codex-App-Server-Compression"
	p := knock(t, listen(t, "ws://127.0.0.1:0", wire.ListenOptions{}).Address(), "/rpc",
		codex+": zstd-stream-v1", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits", "Sec-WebSocket-Protocol: chat")
	if p.reply.StatusCode != http.StatusSwitchingProtocols {
		t.Error(p.reply.Status)
	}
	for _, h := range []string{codex, "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"} {
		if v, ok := p.reply.Header[http.CanonicalHeaderKey(h)]; ok {
			t.Errorf("%s is answered: %q", h, v)
		}
	}

	asked := make(chan http.Header, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header }))
	defer s.Close()
	header := http.Header{codex: {"zstd-stream-v1"}, "Authorization": {"Bearer t"}}
	_, err := wire.Dial(t.Context(), strings.Replace(s.URL, "http:", "ws:", 1), header)
	if err == nil {
		t.Error("a connection without a handshake")
	}
	got := <-asked
	for _, h := range []string{codex, "Sec-WebSocket-Extensions", "Accept-Encoding"} {
		if v, ok := got[http.CanonicalHeaderKey(h)]; ok {
			t.Errorf("%s is sent: %q", h, v)
		}
	}
	if got.Get("Authorization") != "Bearer t" || header.Get(codex) == "" {
		t.Errorf("sent %v, and the caller's header is %v", got, header)
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{
		"", "stdio://", "127.0.0.1:1", "ws://", "ws://127.0.0.1", "ws://0.0.0.0:0", "ws://[::]:0", "ws://:0", "ws://192.0.2.1:0", "ws://example.com:0",
		"ws://127.0.0.1.example.com:0", "ws://localhost.:0", "ws://user@127.0.0.1:0", "ws://127.0.0.1:0/?token=x", "ws://127.0.0.1:0#x", "ws://127.0.0.1:x",
		"wss://127.0.0.1:0", "http://127.0.0.1:0", "unix://", "unix://s", "unix://./s", "unix:s",
	} {
		if l, err := wire.Listen(address, wire.ListenOptions{}); !errors.Is(err, wire.ErrAddress) {
			t.Errorf("Listen(%q) has %v, %v; want ErrAddress", address, l, err)
		}
		if c, err := wire.Dial(t.Context(), address, nil); !errors.Is(err, wire.ErrAddress) {
			t.Errorf("Dial(%q) has %v, %v; want ErrAddress", address, c, err)
		}
	}
	for _, address := range []string{"ws://127.0.0.1:0", "ws://localhost:0", "ws://LOCALHOST:0", "ws://127.0.0.1:0/any/path"} {
		l := listen(t, address, wire.ListenOptions{})
		if at := l.Address(); !strings.HasPrefix(at, "ws://127.0.0.1:") && !strings.HasPrefix(at, "ws://[::1]:") || strings.HasSuffix(at, ":0") {
			t.Errorf("Listen(%q) is at %s", address, at)
		}
		_ = dial(t, l.Address()+"/any/path", nil).Close()
	}
}
