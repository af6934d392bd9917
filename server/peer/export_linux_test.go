package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// OfWithout is [Of] on a kernel that answers SO_PEERPIDFD with an error:
// ENOPROTOOPT is what one says that does not have it.
func OfWithout(conn *net.UnixConn, answer unix.Errno) (Process, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Process{}, err
	}
	var p Process
	var failed error
	err = raw.Control(func(fd uintptr) {
		p, failed = peerOf(int(fd), func(int) (int, error) { return 0, answer })
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
