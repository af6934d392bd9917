package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// OfOldKernel is [Of] on a kernel that has no SO_PEERPIDFD.
func OfOldKernel(conn *net.UnixConn) (Process, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Process{}, err
	}
	var p Process
	var failed error
	err = raw.Control(func(fd uintptr) {
		p, failed = peerOf(int(fd), func(int) (int, error) { return 0, unix.ENOPROTOOPT })
	})
	if err != nil {
		return Process{}, err
	}
	return p, failed
}

// ParseStat is what [Lookup] makes of /proc/PID/stat.
func ParseStat(text []byte) (p Process, parent, session int, err error) {
	n, err := parseStat(text)
	return n.Process, n.parent, n.session, err
}

// ParseStatus is what [Lookup] makes of /proc/PID/status.
func ParseStatus(text []byte) (uid, gid int, err error) { return parseStatus(text) }
