//go:build unix

package codex

import (
	"os/exec"
	"syscall"
)

// terminate asks the process to end, and kill does not ask. The launcher that npm
// installs has a child, so both are for the group.
func terminate(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
