package codex

import (
	"os/exec"
	"syscall"
)

// bind has the process end with this one, however that ends: what waits for an
// answer of Regent must not find somebody else to give it. It gets a group of its
// own, so that a signal for the client does not take it along.
func bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
