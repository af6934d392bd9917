// Package socket makes unix sockets that nobody but their user can reach.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

var (
	// ErrTaken means that something else than a socket is at the path. It is left
	// alone.
	ErrTaken = errors.New("there is something else already")
	// ErrInUse means that somebody listens at the path. An [UnsureError] wraps it
	// where that cannot be ruled out.
	ErrInUse = errors.New("somebody answers on the socket")
)

// UnsureError is why it cannot be told that nobody listens. It wraps [ErrInUse].
type UnsureError struct{ Err error }

func (e *UnsureError) Error() string   { return e.Err.Error() }
func (e *UnsureError) Unwrap() []error { return []error{ErrInUse, e.Err} }

// probeTime bounds how long one who listens may take to be seen.
const probeTime = 2 * time.Second

// Listen listens on a socket of mode 0600. One that is left over from a crash is
// replaced. The folder is the caller's to choose: whoever can write to it can put
// something else there later on. Two who replace one leftover at the same time have
// to be kept apart by the caller.
func Listen(path string) (*net.UnixListener, error) {
	switch at, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case at.Mode().Type() != fs.ModeSocket:
		return nil, ErrTaken
	default:
		conn, err := net.DialTimeout("unix", path, probeTime)
		switch {
		case err == nil:
			return nil, errors.Join(ErrInUse, conn.Close())
		case !errors.Is(err, syscall.ECONNREFUSED):
			return nil, &UnsureError{err}
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return restrict(raw) }}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	unix, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T is no socket", l), l.Close())
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return unix, nil
}
