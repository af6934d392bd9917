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
