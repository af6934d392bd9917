//go:build unix

package gate

import (
	"fmt"
	"os"
	"syscall"
)

// fitToTrust refuses what another user can change: their rules would be taken
// for the owner's.
func fitToTrust(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%w: nobody can tell who owns %s", ErrUnfit, path)
	}
	if uid := int(status.Uid); uid != os.Geteuid() && uid != 0 {
		return fmt.Errorf("%w: %s belongs to user %d", ErrUnfit, path, uid)
	}
	mode := info.Mode().Perm()
	if mode&0o002 != 0 {
		return fmt.Errorf("%w: everybody may write to %s; chmod o-w makes that right", ErrUnfit, path)
	}
	if mode&0o020 != 0 && int(status.Gid) != os.Getegid() {
		return fmt.Errorf("%w: group %d may write to %s; chmod g-w makes that right", ErrUnfit, status.Gid, path)
	}
	return nil
}
