//go:build linux || darwin || freebsd

package config

import (
	"io/fs"
	"syscall"
)

// exactAttributes is whether no edit leaves an entry's attributes as they were,
// once its file system's clock has ticked.
const exactAttributes = true

// The system is asked directly, since os.Lstat allocates some 300 bytes a time,
// and not by way of a function value, which would put st on the heap.

func lstat(path string) attributes {
	var st syscall.Stat_t
	err := syscall.Lstat(path, &st)
	for err == syscall.EINTR {
		err = syscall.Lstat(path, &st)
	}
	return attributesOf(&st, err)
}

func stat(path string) attributes {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	for err == syscall.EINTR {
		err = syscall.Stat(path, &st)
	}
	return attributesOf(&st, err)
}

func attributesOf(st *syscall.Stat_t, err error) attributes {
	if err != nil {
		return attributes{fault: faultOf(err)}
	}
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular
	}
	a := attributes{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mode: mode}
	a.mtime, a.ctime = times(st)
	return a
}
