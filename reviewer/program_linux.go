package reviewer

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitEnd returns when our child pid has ended, and leaves it to be waited for.
// Where the system cannot tell it returns at once.
func awaitEnd(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
