//go:build unix && !solaris && !aix

package config

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noFollow keeps a lock from being taken on what a link leads to.
const noFollow = unix.O_NOFOLLOW

func tryLock(f *os.File) (taken bool, err error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}
