package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	// shakeTime is how long a handshake may take.
	shakeTime = 10 * time.Second
	// remotePath is where the Codex TUI looks for a server behind a unix socket.
	remotePath = "/rpc"
	// compression is how the TUI of 0.171.0 asks for a compression of its own, which
	// nobody here speaks.
	compression = "x-codex-app-server-compression"
	// aheadBytes and aheadMessages are how much is read that nobody has asked for yet.
	aheadBytes    = 256 << 10
	aheadMessages = 1024
)

// ErrAddress means that an address is none to connect to or to listen on.
var ErrAddress = errors.New("not an address")

// WebConn carries a message in each text frame of a WebSocket. It answers pings
// while it reads, which begins with the first Read.
type WebConn struct {
	ws     *websocket.Conn
	stream *stream
	client bool
	limits Limits
	begin  func()
	shut   func()
	closed chan struct{}

	// mu guards what has been read and not been returned.
	mu      sync.Mutex
	changed *sync.Cond
	ahead   batch
	err     error // what reading ended with

	taken    batch
	messages [][]byte

	writing sync.Mutex
}

// batch is some messages, one behind the other.
type batch struct {
	data []byte
	ends []int
}

func newWebConn(ws *websocket.Conn, s *stream, client bool) *WebConn {
	c := &WebConn{ws: ws, stream: s, client: client, closed: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)
	c.Limit(Limits{})
	s.ended.Store(false)
	var fetching sync.WaitGroup
	c.begin = sync.OnceFunc(func() { fetching.Go(c.fetch) })
	c.shut = sync.OnceFunc(func() {
		c.mu.Lock()
		close(c.closed)
		c.changed.Broadcast()
		c.mu.Unlock()
		c.hangUp(websocket.StatusNormalClosure)
		c.begin() // a Read that comes now must not
		fetching.Wait()
		_ = ws.CloseNow()
	})
	return c
}

// Limit sets what the connection puts up with. It comes before the first Read and
// Write.
func (c *WebConn) Limit(l Limits) {
	c.limits = l.orDefault()
	c.ws.SetReadLimit(int64(c.limits.Message))
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	c.stream.patience = c.limits.Write
}

// Read returns the messages that have come, at least one. They are valid until the
// next Read. It is for one goroutine.
func (c *WebConn) Read() ([][]byte, error) {
	c.begin()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.ahead.ends) == 0 && c.err == nil && !c.over() {
		c.changed.Wait()
	}
	switch {
	case c.over():
		return nil, io.EOF
	case len(c.ahead.ends) == 0:
		return nil, c.err
	}
	c.taken, c.ahead = c.ahead, c.taken
	if c.ahead.ends = c.ahead.ends[:0]; cap(c.ahead.data) > keepBuffer {
		c.ahead.data = nil
	}
	c.ahead.data = c.ahead.data[:0]
	c.changed.Broadcast()
	c.messages = c.messages[:0]
	from := 0
	for _, end := range c.taken.ends {
		c.messages = append(c.messages, c.taken.data[from:end:end])
		from = end
	}
	return c.messages, nil
}

func (c *WebConn) over() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// fetch reads ahead, so that messages which come faster than they are dealt with
// are dealt with together.
func (c *WebConn) fetch() {
	var message []byte
	for {
		var err error
		message, err = c.next(message[:0])
		c.mu.Lock()
		if err != nil {
			c.err = err
			c.changed.Broadcast()
			c.mu.Unlock()
			return
		}
		c.ahead.data = append(c.ahead.data, message...)
		c.ahead.ends = append(c.ahead.ends, len(c.ahead.data))
		c.changed.Broadcast()
		for (len(c.ahead.data) >= aheadBytes || len(c.ahead.ends) >= aheadMessages) && !c.over() {
			c.changed.Wait()
		}
		c.mu.Unlock()
		if cap(message) > keepBuffer {
			message = nil
		}
	}
}

// next reads a message to the end of into. When there is none, the connection is
// hung up.
func (c *WebConn) next(into []byte) ([]byte, error) {
	kind, r, err := c.ws.Reader(context.Background())
	if err != nil {
		c.hangUp(0) // the library has said why
		return nil, c.ending(err)
	}
	if kind != websocket.MessageText {
		c.hangUp(websocket.StatusUnsupportedData)
		return nil, errors.New("a message is not text")
	}
	for {
		if cap(into)-len(into) < 512 {
			grown := make([]byte, len(into), 2*cap(into)+4<<10)
			copy(grown, into)
			into = grown
		}
		n, err := r.Read(into[len(into):cap(into)])
		into = into[:len(into)+n]
		switch {
		case errors.Is(err, io.EOF) && !c.stream.ended.Load():
			return into, nil
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil:
			c.hangUp(0)
			return nil, c.ending(err)
		}
	}
}

// ending tells an orderly end from any other.
func (c *WebConn) ending(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		return io.EOF
	}
	switch {
	case errors.Is(err, io.EOF): // between two messages
		return io.EOF
	case errors.Is(err, websocket.ErrMessageTooBig):
		return fmt.Errorf("%w: more than %d bytes", ErrTooLong, c.limits.Message)
	}
	return err
}

// Write writes messages in order, in one go. It is safe for concurrent use. When
// it fails, some of it may have been written, so the connection is closed.
func (c *WebConn) Write(messages ...[]byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.over() {
		return io.ErrClosedPipe
	}
	c.stream.begin()
	var err error
	for _, m := range messages {
		if err = c.ws.Write(context.Background(), websocket.MessageText, m); err != nil {
			break
		}
	}
	// The library's words for what the stream says are not of use.
	if failed := c.stream.end(); failed != nil {
		err = failed
	}
	if err == nil {
		return nil
	}
	over := c.over()
	c.hangUp(0)
	switch {
	case over, errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return io.ErrClosedPipe
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w for %s", ErrSlow, c.limits.Write)
	}
	return err
}

// hangUp ends the connection below, after a word about it unless status is 0. It
// waits for nobody.
func (c *WebConn) hangUp(status websocket.StatusCode) {
	if status != 0 {
		// A frame of RFC 6455, masked with zeros by a client. The library's own Close
		// waits for the peer to answer.
		frame := []byte{0x88, 2, byte(status >> 8), byte(status)}
		if c.client {
			frame = []byte{0x88, 0x80 | 2, 0, 0, 0, 0, byte(status >> 8), byte(status)}
		}
		c.stream.bye(frame)
	}
	_ = c.stream.Close()
}

// Close hangs up, and lets go of a Read and a Write that are under way.
func (c *WebConn) Close() error {
	c.shut()
	return nil
}

// split tells the transport of an address.
func split(address string) (network, where, path string, err error) {
	if socket, ok := strings.CutPrefix(address, "unix://"); ok {
		if !filepath.IsAbs(socket) {
			return "", "", "", fmt.Errorf("%w: %q: the path of a socket is absolute, as in unix:///run/user/1000/codex.sock", ErrAddress, address)
		}
		return "unix", filepath.Clean(socket), remotePath, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ws" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", "", "", fmt.Errorf("%w: %q: write ws://127.0.0.1:PORT or unix:///PATH", ErrAddress, address)
	}
	if u.Port() == "" {
		return "", "", "", fmt.Errorf("%w: %q has no port; to listen on, 0 takes any", ErrAddress, address)
	}
	if !loopback(u.Hostname()) {
		return "", "", "", fmt.Errorf("%w: %q is not on loopback, so anybody on the way could read along; write ws://127.0.0.1:PORT", ErrAddress, address)
	}
	if path = u.EscapedPath(); path == "" {
		path = "/"
	}
	return "tcp", u.Host, path, nil
}

// Dial connects to ws://127.0.0.1:PORT, which a path may follow, or to
// unix:///PATH. header is sent along, such as an Authorization.
func Dial(ctx context.Context, address string, header http.Header) (*WebConn, error) {
	network, where, path, err := split(address)
	if err != nil {
		return nil, err
	}
	host := where
	if network == "unix" {
		host = "localhost"
	}
	header = header.Clone()
	header.Del(compression)
	var below *stream
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, where)
		if err != nil {
			return nil, err
		}
		if !ours(conn.RemoteAddr()) {
			return nil, errors.Join(fmt.Errorf("%w: %q leads to %s, which is not on loopback", ErrAddress, address, conn.RemoteAddr()), conn.Close())
		}
		below = newStream(conn, func() {})
		return below, nil
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, shakeTime, fmt.Errorf("no handshake in %s", shakeTime))
	defer cancel()
	ws, response, err := websocket.Dial(ctx, "ws://"+host+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
		return newWebConn(ws, below, true), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to %s: %w", address, context.Cause(ctx))
	case response != nil && response.StatusCode != http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("connect to %s: it answers %s", address, response.Status)
	}
	return nil, fmt.Errorf("connect to %s: %w", address, err)
}
