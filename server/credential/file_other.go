//go:build !unix || solaris || aix

package credential

import (
	"errors"
	"fmt"
	"io/fs"
)

const openFlags = 0

func isLink(error) bool { return false }

// Who may read a file is not told by its mode here.
func checkOwner(fs.FileInfo) error {
	return fmt.Errorf("%w: this system does not tell who can read it: %w", ErrUnsafe, errors.ErrUnsupported)
}
