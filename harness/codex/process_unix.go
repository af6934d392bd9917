//go:build unix && !linux

package codex

import (
	"os/exec"
	"syscall"
)

// bind gives the process a group of its own, so that a signal for the client does
// not take it along.
func bind(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
