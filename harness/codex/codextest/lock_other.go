//go:build !unix

package codextest

import (
	"context"
	"fmt"
)

// lock has no way to keep two processes apart here, so that nothing is installed.
func lock(context.Context, string) (unlock func(), err error) {
	return nil, fmt.Errorf("%w: there are no file locks on this system", ErrNoNPM)
}
