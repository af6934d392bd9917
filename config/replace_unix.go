//go:build unix

package config

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile waits for its turn. The lock ends with unlock or with the process.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // closing it gives the lock up, and cannot fail in a way that keeps it
}
