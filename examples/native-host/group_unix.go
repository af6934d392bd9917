//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// grouped has a command end with all that it has started, and returns what is
// to be done when it is over: nothing of a call goes on after the call. A process
// that leaves its group gets away; a sandbox would hold it.
func grouped(cmd *exec.Cmd) (over func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	return func() {
		if cmd.Process != nil {
			_ = end() // mostly there is nobody left
		}
	}
}
