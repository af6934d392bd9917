//go:build !unix

package wire

import (
	"errors"
	"fmt"
)

func private(folder string) error {
	return fmt.Errorf("it cannot be told who can write to %s: %w", folder, errors.ErrUnsupported)
}
