//go:build !unix

package config

import "os"

// lockFile cannot keep other processes out here; a file that is replaced at the
// same moment by two of them is that of one, and whole.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
