package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// peerOf tells the peer of a socket. The pidfd function is [peerPidfd]; tests
// put in its place what an older kernel does.
func peerOf(fd int, pidfd func(int) (int, error)) (Process, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Process{}, fmt.Errorf("%w: SO_PEERCRED: %w", ErrUnknown, err)
	}
	if cred.Pid <= 0 {
		return Process{}, fmt.Errorf("%w: the peer is outside of this PID namespace", ErrUnknown)
	}
	peer, err := pidfd(fd)
	known := err == nil
	switch {
	case known:
		defer func() { _ = unix.Close(peer) }()
	case errors.Is(err, unix.ENOPROTOOPT):
	default:
		// The kernel has the option and cannot give a pidfd: the peer has ended.
		return Process{}, fmt.Errorf("process %d: %w: SO_PEERPIDFD: %w", cred.Pid, ErrUnknown, err)
	}
	h, n, err := open(int(cred.Pid))
	if err != nil {
		return Process{}, err
	}
	h.close()
	if known {
		// The peer lives, so its pid was its own when it was looked up.
		if ended, err := hasEnded(peer); err != nil || ended {
			return Process{}, errors.Join(gone(int(cred.Pid)), err)
		}
	} else if n.UID != int(cred.Uid) {
		return Process{}, fmt.Errorf("process %d: %w: it has another user than the peer had", n.PID, ErrUnknown)
	}
	n.UID, n.GID = int(cred.Uid), int(cred.Gid)
	return n.Process, nil
}

func peerPidfd(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
}

// hasEnded says whether no thread of the process is left.
func hasEnded(pidfd int) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return n > 0, err
	}
}

// procIsOurs says whether /proc shows the PID namespace that this process is
// in. With that of another the same numbers are other processes.
var procIsOurs = sync.OnceValue(func() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("%w: /proc is that of another PID namespace", ErrUnknown)
	}
	return nil
})

// handle is an open folder below /proc. It stays that of its process: when the
// pid goes to another, reading through it fails.
type handle struct {
	pid int
	fd  int
}

func open(pid int) (handle, node, error) {
	if pid <= 0 {
		return handle{}, node{}, fmt.Errorf("process %d: %w", pid, ErrUnknown)
	}
	if err := procIsOurs(); err != nil {
		return handle{}, node{}, err
	}
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return handle{}, node{}, fault(pid, err)
	}
	h := handle{pid, fd}
	n, err := h.read()
	if err != nil {
		h.close()
		return handle{}, node{}, err
	}
	return h, n, nil
}

func (h handle) close() { _ = unix.Close(h.fd) }

func (h handle) read() (node, error) {
	stat, err := h.file("stat")
	if err != nil {
		return node{}, err
	}
	status, err := h.file("status")
	if err != nil {
		return node{}, err
	}
	n, err := parseStat(stat)
	if err != nil {
		return node{}, fmt.Errorf("process %d: %w: %w", h.pid, ErrUnknown, err)
	}
	if n.UID, n.GID, err = parseStatus(status); err != nil {
		return node{}, fmt.Errorf("process %d: %w: %w", h.pid, ErrUnknown, err)
	}
	if n.PID != h.pid {
		return node{}, fmt.Errorf("process %d: %w: stat is that of %d", h.pid, ErrUnknown, n.PID)
	}
	return n, nil
}

// file reads one of the small files of a process: status, the largest, has two
// kilobytes or so, and more only with very many groups.
func (h handle) file(name string) ([]byte, error) {
	fd, err := unix.Openat(h.fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault(h.pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	text := make([]byte, 0, 4096)
	for {
		if len(text) == cap(text) {
			text = append(text, make([]byte, 4096)...)[:len(text)]
		}
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, fault(h.pid, err)
		case n == 0:
			return text, nil
		default:
			text = text[:len(text)+n]
		}
	}
}

// fault tells a process that has ended from one that cannot be seen.
func fault(pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return gone(pid)
	}
	return fmt.Errorf("process %d: %w: %w", pid, ErrUnknown, err)
}

// parseStat reads /proc/PID/stat, see proc_pid_stat(5). The second field is the
// name, which the process chooses and which may hold spaces, parentheses and
// line breaks; no field after it can hold a parenthesis.
func parseStat(text []byte) (node, error) {
	errShape := errors.New("stat has another form than it should")
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return node{}, errShape
	}
	pid, err := number[int](bytes.TrimSpace(text[:open]))
	if err != nil {
		return node{}, errShape
	}
	// From the third on: state, parent, group, session, and the twenty-second is
	// the start.
	const parent, session, start = 4 - 3, 6 - 3, 22 - 3
	fields := bytes.Fields(text[shut+1:])
	if len(fields) <= start {
		return node{}, errShape
	}
	n := node{Process: Process{PID: pid}}
	if n.parent, err = number[int](fields[parent]); err != nil {
		return node{}, errShape
	}
	if n.session, err = number[int](fields[session]); err != nil {
		return node{}, errShape
	}
	if n.Start, err = number[uint64](fields[start]); err != nil {
		return node{}, errShape
	}
	return n, nil
}

// parseStatus finds the effective user and group in /proc/PID/status, where
// line breaks in the name are escaped.
func parseStatus(text []byte) (uid, gid int, err error) {
	uid, gid = -1, -1
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		var into *int
		switch string(key) {
		case "Uid":
			into = &uid
		case "Gid":
			into = &gid
		default:
			continue
		}
		// Real, effective, saved, file system.
		fields := bytes.Fields(value)
		if len(fields) < 2 || *into >= 0 {
			return 0, 0, errors.New("status has another form than it should")
		}
		if *into, err = number[int](fields[1]); err != nil {
			return 0, 0, err
		}
	}
	if uid < 0 || gid < 0 {
		return 0, 0, errors.New("status names no user and group")
	}
	return uid, gid, nil
}

// number reads digits; -1, which the kernel writes for what there is not, and
// every sign are errors.
func number[T int | uint64](digits []byte) (T, error) {
	v, err := strconv.ParseUint(string(digits), 10, 63)
	return T(v), err
}
