package peer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// peerOf tells the peer of a socket, see unix(4). There are no pidfds here.
func peerOf(fd int, _ func(int) (int, error)) (Process, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Process{}, fmt.Errorf("%w: LOCAL_PEERCRED: %w", ErrUnknown, err)
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return Process{}, fmt.Errorf("%w: LOCAL_PEERPID: %w", ErrUnknown, err)
	}
	h, n, err := open(pid)
	if err != nil {
		return Process{}, err
	}
	h.close()
	again, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil || again != pid {
		return Process{}, errors.Join(fmt.Errorf("process %d: %w: another process has taken over the connection", pid, ErrUnknown), err)
	}
	if n.UID != int(cred.Uid) {
		return Process{}, fmt.Errorf("process %d: %w: it has another user than the peer had", pid, ErrUnknown)
	}
	if cred.Ngroups > 0 {
		n.GID = int(cred.Groups[0])
	}
	return n.Process, nil
}

func peerPidfd(int) (int, error) { return 0, ErrUnsupported }

// handle is a pid and when its process started, by which another that has got
// the pid is found out.
type handle struct {
	pid   int
	start uint64
}

func open(pid int) (handle, node, error) {
	if pid <= 0 {
		return handle{}, node{}, fmt.Errorf("process %d: %w", pid, ErrUnknown)
	}
	n, err := lookup(pid)
	return handle{pid, n.Start}, n, err
}

func (h handle) close() {}

func (h handle) read() (node, error) {
	n, err := lookup(h.pid)
	if err == nil && n.Start != h.start {
		return node{}, gone(h.pid)
	}
	return n, err
}

// lookup asks the kernel for one process. For a pid that is nobody's it gives
// nothing at all, which x/sys tells as EIO.
func lookup(pid int) (node, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) {
		return node{}, gone(pid)
	}
	if err != nil {
		return node{}, fmt.Errorf("process %d: %w: kern.proc.pid: %w", pid, ErrUnknown, err)
	}
	if int(k.Proc.P_pid) != pid {
		return node{}, gone(pid)
	}
	session, err := unix.Getsid(pid)
	if errors.Is(err, unix.ESRCH) {
		return node{}, gone(pid)
	}
	if err != nil {
		return node{}, fmt.Errorf("process %d: %w: getsid: %w", pid, ErrUnknown, err)
	}
	start := k.Proc.P_starttime
	n := node{
		Process: Process{
			PID:   pid,
			UID:   int(k.Eproc.Ucred.Uid),
			Start: uint64(start.Sec)*1e6 + uint64(start.Usec),
		},
		parent:  int(k.Eproc.Ppid),
		session: session,
	}
	if k.Eproc.Ucred.Ngroups > 0 {
		n.GID = int(k.Eproc.Ucred.Groups[0])
	}
	return n, nil
}
