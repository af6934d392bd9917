package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/regent-policy/regent/server/socket"
)

var (
	// ErrRunning means that a daemon of this home runs already, or that somebody
	// answers on the socket. Use that one, or stop it first.
	ErrRunning = errors.New("a daemon is running already")
	// ErrNotLoopback means that an address can be reached from other machines,
	// where a token would travel in the clear.
	ErrNotLoopback = errors.New("not an address of loopback")
	// ErrPath means that there cannot be a socket at a path.
	ErrPath = errors.New("no socket can be here")
)

// lockName is the file in the home's runtime folder that the one daemon of the
// home holds.
const lockName = "daemon.lock"

// ListenUnix listens on a socket that only the daemon's user can reach, in a
// folder that must exist. A socket that is left over from a crash is replaced;
// anything else at the path is left alone and an [ErrPath]. One daemon serves a
// home: a second one gets [ErrRunning] until the listener of the first is closed.
func (s *Server) ListenUnix(path string) (net.Listener, error) {
	if most := maxSocketPath(); len(path) > most {
		return nil, fmt.Errorf("listen on %s: %w: the path has %d bytes, and the system takes %d; set server.socket to a shorter one", path, ErrPath, len(path), most)
	}
	lock := path + ".lock"
	if s.home != "" {
		runtime := filepath.Join(s.home, "runtime")
		if err := os.MkdirAll(runtime, 0o700); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
		lock = filepath.Join(runtime, lockName)
	}
	unlock, err := tryLock(lock)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := listenUnix(path)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &lockedSocket{UnixListener: l, unlock: unlock}, nil
}

// maxSocketPath is the size of sun_path without the zero at its end.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// lockedSocket is a listener that holds the lock of its home.
type lockedSocket struct {
	*net.UnixListener
	once   sync.Once
	unlock func()
	err    error
}

// Close removes the socket and lets the next daemon begin.
func (l *lockedSocket) Close() error {
	l.once.Do(func() {
		l.err = l.UnixListener.Close()
		l.unlock()
	})
	return l.err
}

func listenUnix(path string) (*net.UnixListener, error) {
	l, err := socket.Listen(path)
	switch {
	case errors.Is(err, socket.ErrTaken):
		return nil, fmt.Errorf("%w: %w", ErrPath, err)
	case errors.Is(err, socket.ErrInUse):
		return nil, fmt.Errorf("%w: %w", ErrRunning, err)
	}
	return l, err
}

// ListenTCP listens on an address of loopback, such as 127.0.0.1:7340. Callers
// need a token there.
func (s *Server) ListenTCP(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if !loopback(host) {
		return nil, fmt.Errorf("listen on %s: %w; to be reached from elsewhere, put a proxy with TLS before it", address, ErrNotLoopback)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	// The name may mean anything: what counts is where it led.
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w: it is %s", address, ErrNotLoopback, l.Addr()), l.Close())
	}
	return l, nil
}

// loopback tells whether a host, without a port, is a name of this machine that
// no name server has a say in.
func loopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() && a.Zone() == ""
}
