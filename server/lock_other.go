//go:build !unix

package server

import (
	"errors"
	"fmt"
)

func tryLock(path string) (unlock func(), err error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}
