package plugin

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// own makes the process lead a session of its own, without a terminal that it could
// ask at. That we have ended it learns from its standard input.
func own(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

// awaitEnd returns when our child pid has ended, and leaves it to be waited for.
// Where the system cannot tell it returns at once. It does not use waitid, which
// returns for a process that was merely stopped.
func awaitEnd(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(queue) }()
	unix.CloseOnExec(queue)
	watch := []unix.Kevent_t{{Fflags: unix.NOTE_EXIT}}
	unix.SetKevent(&watch[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	seen := make([]unix.Kevent_t, 1)
	for {
		// A child that has ended before is an error here, or an event.
		if _, err := unix.Kevent(queue, watch, seen, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
