//go:build unix

package socket

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// restrict has a socket made for its owner only, so that nobody can connect
// before its mode is changed. Systems other than Linux take no mode here.
func restrict(raw syscall.RawConn) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	var failed error
	err := raw.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
	return errors.Join(err, failed)
}
