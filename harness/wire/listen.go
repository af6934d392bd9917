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
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/coder/websocket"

	sockets "github.com/regent-policy/regent/server/socket"
)

const (
	// MaxClients is how many connections a listener has at a time.
	MaxClients = 64
	// maxVisits is how many connections there may be with those that are no WebSocket
	// yet.
	maxVisits = 2 * MaxClients
	// unfragmented is what codex app-server says on a unix socket of how large a
	// message may be in one piece.
	unfragmented    = "x-codex-websocket-max-unfragmented-message-bytes"
	maxUnfragmented = 16 << 20
)

// ErrInUse means that somebody listens at an address already.
var ErrInUse = errors.New("somebody listens there already")

// ListenOptions are what a listener asks of its clients.
type ListenOptions struct {
	// Token is what clients have to present as Authorization: Bearer; none if empty.
	Token string
}

// Listener takes clients on a loopback port or a unix socket.
type Listener struct {
	address string
	token   string
	tcp     bool
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
// unix:///PATH, which nobody but this user can use: the folder must be one that no
// other user can write to. A socket that nobody listens on is replaced, and anything
// else at the path is left alone.
//
// A client may name any path. As with codex app-server, one that sends an Origin is
// refused, and GET /readyz and /healthz are answered without a token.
func Listen(address string, o ListenOptions) (*Listener, error) {
	network, where, _, err := split(address)
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	if network == "unix" {
		listener, err = listenUnix(where)
		address = "unix://" + where
	} else if listener, err = net.Listen("tcp", where); err == nil {
		address = "ws://" + listener.Addr().String()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	// The name may mean anything: what counts is where it led.
	if !ours(listener.Addr()) {
		return nil, errors.Join(fmt.Errorf("%w: %s is not on loopback", ErrAddress, address), listener.Close())
	}
	l := &Listener{
		address: address, token: o.Token, tcp: network == "tcp",
		clients: make(chan *WebConn), closed: make(chan struct{}), places: make(chan struct{}, MaxClients),
	}
	l.server = &http.Server{
		Handler: http.HandlerFunc(l.handle), ReadHeaderTimeout: shakeTime, ReadTimeout: shakeTime, WriteTimeout: shakeTime,
		MaxHeaderBytes: 16 << 10, ConnContext: withStream, ErrorLog: log.New(io.Discard, "", 0),
	}
	l.server.SetKeepAlivesEnabled(false)
	l.close = sync.OnceFunc(func() {
		l.mu.Lock()
		l.over = true
		l.mu.Unlock()
		close(l.closed)
		_ = l.server.Close()
		l.serving.Wait()
	})
	l.serving.Go(func() { _ = l.server.Serve(&door{Listener: listener, places: make(chan struct{}, maxVisits)}) })
	return l, nil
}

// door lets in only so many connections at a time.
type door struct {
	net.Listener
	places chan struct{}
}

func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case d.places <- struct{}{}:
			return newStream(c, func() { <-d.places }), nil
		default:
			_ = c.Close()
		}
	}
}

// streamKey is where the context of a request has the connection below it.
type streamKey struct{}

func withStream(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, streamKey{}, c)
}

// loopback tells whether a host is this machine and no other.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// ours tells whether an address is on this machine.
func ours(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok && a.Network() == "unix" || ok && tcp.IP.IsLoopback()
}

// socket removes its path only while it is its own.
type socket struct {
	net.Listener
	path string
	made fs.FileInfo
}

func (s *socket) Close() error {
	if at, err := os.Lstat(s.path); err == nil && os.SameFile(at, s.made) {
		_ = os.Remove(s.path)
	}
	return s.Listener.Close()
}

func listenUnix(path string) (net.Listener, error) {
	if err := private(filepath.Dir(path)); err != nil {
		return nil, err
	}
	l, err := sockets.Listen(path)
	if _, unsure := errors.AsType[*sockets.UnsureError](err); unsure {
		return nil, fmt.Errorf("%w, it seems: %w", ErrInUse, err)
	}
	switch {
	case errors.Is(err, sockets.ErrTaken):
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	case errors.Is(err, sockets.ErrInUse):
		return nil, ErrInUse
	case err != nil:
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{Listener: l, path: path, made: made}, nil
}

// Address is where clients connect to, with the port that was taken.
func (l *Listener) Address() string { return l.address }

// Accept waits for the next client. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (*WebConn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case c := <-l.clients:
		return c, nil
	}
}

// Close takes no more clients, and hangs up on those that nobody has accepted.
// Those that were accepted are closed by who has them.
func (l *Listener) Close() error {
	l.close()
	return nil
}

func (l *Listener) handle(w http.ResponseWriter, r *http.Request) {
	if !l.enter() {
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	}
	defer l.serving.Done()
	// A page in a browser must not reach this, by its own origin or by a name that
	// leads here.
	if len(r.Header.Values("Origin")) > 0 {
		http.Error(w, "requests with an Origin are refused", http.StatusForbidden)
		return
	}
	if l.tcp && !local(r.Host) {
		http.Error(w, "the host is not a loopback address", http.StatusForbidden)
		return
	}
	if r.URL.Path == "/readyz" || r.URL.Path == "/healthz" {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is known", http.StatusMethodNotAllowed)
		}
		return
	}
	if !l.known(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token is needed", http.StatusUnauthorized)
		return
	}
	below, ok := r.Context().Value(streamKey{}).(*stream)
	if !ok {
		http.Error(w, "no connection", http.StatusInternalServerError)
		return
	}
	select {
	case l.places <- struct{}{}:
	default:
		http.Error(w, "too many clients", http.StatusServiceUnavailable)
		return
	}
	if !l.tcp {
		w.Header().Set(unfragmented, strconv.Itoa(maxUnfragmented))
	}
	// Compression is negotiated with nobody, by this or by Codex's own header.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		<-l.places
		return // the client has been told
	}
	below.also(func() { <-l.places })
	c := newWebConn(ws, below, false)
	select {
	case l.clients <- c:
	case <-l.closed:
		_ = c.Close()
	}
}

// local tells whether the Host of a request is on loopback.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return loopback(name)
}

// enter counts a request that Close has to wait for.
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
