package wire

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
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
	// writeTime is how long a peer may take to take in a message.
	writeTime = 60 * time.Second
	// shakeTime is how long a handshake may take.
	shakeTime = 10 * time.Second
	// maxClients is how many connections a listener has at a time.
	maxClients = 64
	// remotePath is where the Codex TUI looks for a server behind a unix socket.
	remotePath = "/rpc"
	// unfragmented is what codex app-server says on a unix socket of how large a
	// message may be in one piece.
	unfragmented = "x-codex-websocket-max-unfragmented-message-bytes"
)

// ErrAddress means that an address is none to connect to or to listen on.
var ErrAddress = errors.New("not an address")

// WebConn carries a message in each text frame of a WebSocket.
type WebConn struct {
	ws     *websocket.Conn
	ctx    context.Context
	cancel context.CancelFunc
	shut   func() error
	gone   chan struct{}

	mu  sync.Mutex
	one [1][]byte
}

func newWebConn(ws *websocket.Conn, shut func()) *WebConn {
	ws.SetReadLimit(MaxMessage)
	c := &WebConn{ws: ws, gone: make(chan struct{})}
	// The life of the connection, which ends with Close.
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.shut = sync.OnceValue(func() error {
		c.cancel()
		err := ws.CloseNow()
		if shut != nil {
			shut()
		}
		close(c.gone)
		return err
	})
	return c
}

// Read returns the next message.
func (c *WebConn) Read() ([][]byte, error) {
	kind, text, err := c.ws.Read(c.ctx)
	switch {
	case err == nil && kind == websocket.MessageText:
		c.one[0] = text
		return c.one[:], nil
	case err == nil:
		_ = c.ws.Close(websocket.StatusUnsupportedData, "messages are text")
		return nil, errors.New("a message is not text")
	case c.ctx.Err() != nil, errors.Is(err, io.EOF):
		return nil, io.EOF
	case websocket.CloseStatus(err) == websocket.StatusNormalClosure, websocket.CloseStatus(err) == websocket.StatusGoingAway, websocket.CloseStatus(err) == websocket.StatusNoStatusRcvd:
		return nil, io.EOF
	case errors.Is(err, websocket.ErrMessageTooBig):
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLong, MaxMessage)
	default:
		return nil, err
	}
}

// Write writes messages in order. A peer that does not take them in time is hung
// up on.
func (c *WebConn) Write(messages ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		ctx, cancel := context.WithTimeoutCause(c.ctx, writeTime, errors.New("the peer takes in nothing"))
		err := c.ws.Write(ctx, websocket.MessageText, m)
		cancel()
		if err != nil {
			if c.ctx.Err() != nil {
				return io.ErrClosedPipe
			}
			return err
		}
	}
	return nil
}

// Close hangs up.
func (c *WebConn) Close() error {
	_ = c.shut()
	return nil
}

// split tells the transport of an address.
func split(address string) (network, where, path string, err error) {
	if socket, ok := strings.CutPrefix(address, "unix://"); ok {
		if !filepath.IsAbs(socket) {
			return "", "", "", fmt.Errorf("%w: %q: the path of a socket is absolute, as in unix:///run/user/1000/codex.sock", ErrAddress, address)
		}
		return "unix", socket, remotePath, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ws" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return "", "", "", fmt.Errorf("%w: %q: write ws://127.0.0.1:PORT or unix:///PATH", ErrAddress, address)
	}
	if u.Port() == "" {
		return "", "", "", fmt.Errorf("%w: %q has no port; 0 takes any", ErrAddress, address)
	}
	if path = u.Path; path == "" {
		path = "/"
	}
	return "tcp", u.Host, path, nil
}

// Dial connects to ws://HOST:PORT or unix://PATH. header is sent along, such as an
// Authorization.
func Dial(ctx context.Context, address string, header http.Header) (*WebConn, error) {
	network, where, path, err := split(address)
	if err != nil {
		return nil, err
	}
	host := where
	if network == "unix" {
		host = "localhost"
	}
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, where)
	}}
	ctx, cancel := context.WithTimeoutCause(ctx, shakeTime, errors.New("the handshake takes too long"))
	defer cancel()
	ws, response, err := websocket.Dial(ctx, "ws://"+host+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		transport.CloseIdleConnections()
		if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("connect to %s: it answers %s", address, response.Status)
		}
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return newWebConn(ws, transport.CloseIdleConnections), nil
}

// ListenOptions are what a listener asks of its clients.
type ListenOptions struct {
	// Token is what clients have to present as Authorization: Bearer; none if empty.
	Token string
}

// Listener takes clients on a loopback port or a unix socket.
type Listener struct {
	address string
	token   string
	unix    string // the path of the socket
	server  *http.Server
	clients chan *WebConn
	closed  chan struct{}
	close   func()
	places  chan struct{}
	serving sync.WaitGroup

	mu   sync.Mutex
	over bool
}

// Listen takes clients at ws://127.0.0.1:PORT, where 0 is any port, or at
// unix://PATH, which nobody but this user can use. A socket that nobody listens on
// is replaced, and anything else at the path is left alone.
func Listen(address string, o ListenOptions) (*Listener, error) {
	network, where, _, err := split(address)
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	l := &Listener{
		address: address, token: o.Token, clients: make(chan *WebConn), closed: make(chan struct{}), places: make(chan struct{}, maxClients),
	}
	if network == "unix" {
		if listener, err = listenUnix(where); err != nil {
			return nil, err
		}
		l.unix = where
	} else {
		host, _, err := net.SplitHostPort(where)
		if err != nil || !loopback(host) {
			return nil, fmt.Errorf("%w: %q is not a loopback address; write ws://127.0.0.1:PORT", ErrAddress, address)
		}
		if listener, err = net.Listen("tcp", where); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		l.address = "ws://" + listener.Addr().String()
	}
	l.server = &http.Server{
		Handler: http.HandlerFunc(l.handle), ReadHeaderTimeout: shakeTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	l.close = sync.OnceFunc(func() {
		l.mu.Lock()
		l.over = true
		l.mu.Unlock()
		close(l.closed)
		_ = l.server.Close()
		l.serving.Wait()
	})
	l.serving.Go(func() { _ = l.server.Serve(listener) })
	return l, nil
}

// loopback tells whether a host is this machine and no other.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func listenUnix(path string) (net.Listener, error) {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		return nil, fmt.Errorf("%w: other users can write to %s (mode %04o): chmod go-w", ErrAddress, folder, info.Mode().Perm())
	}
	if at, err := os.Lstat(path); err == nil {
		if at.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("%w: %s exists and is not a socket", ErrAddress, path)
		}
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("listen on %s: somebody listens there already", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// Nobody can connect before Serve accepts, and who did meanwhile is let in by
	// the mode that the folder has.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Address is where clients connect to, with the port that was taken.
func (l *Listener) Address() string { return l.address }

// Accept waits for the next client. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (*WebConn, error) {
	select {
	case c := <-l.clients:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close takes no more clients, hangs up on those that nobody has accepted, and
// waits until every connection is closed: see [WebConn.Close].
func (l *Listener) Close() error {
	l.close()
	return nil
}

func (l *Listener) handle(w http.ResponseWriter, r *http.Request) {
	// A page in a browser must not reach this, by its own origin or by a name that
	// leads here.
	if len(r.Header.Values("Origin")) > 0 {
		http.Error(w, "requests with an Origin are refused", http.StatusForbidden)
		return
	}
	if l.unix == "" {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !loopback(strings.Trim(host, "[]")) {
			http.Error(w, "the host is not a loopback address", http.StatusForbidden)
			return
		}
	}
	if !l.known(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token is needed", http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet && (r.URL.Path == "/readyz" || r.URL.Path == "/healthz") && r.Header.Get("Upgrade") == "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	select {
	case l.places <- struct{}{}:
		defer func() { <-l.places }()
	default:
		http.Error(w, "too many clients", http.StatusServiceUnavailable)
		return
	}
	if l.unix != "" {
		w.Header().Set(unfragmented, fmt.Sprint(16<<20))
	}
	if !l.enter() {
		return
	}
	defer l.serving.Done()
	// Compression is negotiated with nobody, by this or by Codex's own header.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // the client has been told
	}
	c := newWebConn(ws, nil)
	select {
	case l.clients <- c:
		<-c.gone
	case <-l.closed:
		_ = c.Close()
	}
}

// enter counts a client that Close has to wait for.
func (l *Listener) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.serving.Add(1)
	}
	return !l.over
}

// known tells whether a client has presented the token.
func (l *Listener) known(r *http.Request) bool {
	if l.token == "" {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(l.token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
