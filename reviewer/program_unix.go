//go:build linux || darwin

package reviewer

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command lead a process group. It is a session too: a program
// that could reach our terminal could ask there, or type.
func ownGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

// killGroup ends the processes of the group that pid leads. It says nothing of
// those that it may not end, or that have ended already.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
