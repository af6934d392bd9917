//go:build unix && !solaris && !aix

package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// isLink says whether opening failed because of O_NOFOLLOW: ELOOP, and EMLINK on
// FreeBSD.
func isLink(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK)
}

func checkOwner(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%w: its owner cannot be told", ErrUnsafe)
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: user %d owns it, this process runs as user %d", ErrUnsafe, stat.Uid, os.Geteuid())
	}
	return nil
}

func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("lock: %w", err)
		}
	}
}
