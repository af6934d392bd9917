//go:build !linux && !darwin

package plugin

import (
	"errors"
	"os/exec"
)

// own refuses: a program that cannot be ended with all that it started is not
// started.
func own(*exec.Cmd) error { return errors.ErrUnsupported }

func awaitEnd(int) {}

func killGroup(int) {}

func terminate(int) {}
