//go:build !unix

package gate

import "fmt"

// fitToTrust cannot tell here who else can change a file.
func fitToTrust(path string) error {
	return fmt.Errorf("%w: on this system nobody can tell who may write to %s", ErrUnfit, path)
}
