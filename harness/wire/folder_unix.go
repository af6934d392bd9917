//go:build unix

package wire

import (
	"fmt"
	"os"
	"syscall"
)

// private tells whether a folder is one where nobody else can put something in the
// place of a socket. Those who may is root. A sticky folder, such as that of
// temporary files, will not do: once this process has ended, others can listen
// there under the same name.
func private(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", ErrAddress, folder)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%w: other users can write to %s (mode %04o); choose a folder of your own, or chmod go-w", ErrAddress, folder, mode)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%w: it cannot be told who owns %s", ErrAddress, folder)
	}
	if owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s is another user's folder", ErrAddress, folder)
	}
	return nil
}
