//go:build linux || darwin

package plugin

import "syscall"

// killGroup ends the processes of the group that pid leads. It says nothing of
// those that it may not end, or that have ended already.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func terminate(pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) }
