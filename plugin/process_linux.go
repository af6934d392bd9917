package plugin

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// own makes the process lead a session of its own, without a terminal that it could
// ask at, and end when we do.
func own(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return nil
}

// awaitEnd returns when our child pid has ended, and leaves it to be waited for.
// Where the system cannot tell it returns at once.
func awaitEnd(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
