//go:build !unix

package server

import (
	"errors"
	"fmt"
	"syscall"
)

func tryLock(path string) (unlock func(), err error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

func restrict(syscall.RawConn) error { return nil }
