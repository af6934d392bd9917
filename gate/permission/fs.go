package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// FS is what this package asks of a file system. Paths are absolute and clean,
// with / between components. Nothing is ever opened for reading or changed.
type FS interface {
	// Readlink returns the target of the symbolic link that stands at path, as it
	// is stored, and "" if something else stands there. An error that wraps
	// [fs.ErrNotExist] says that nothing does; any other that it cannot be told.
	// The folders above path are never links, because those were followed before.
	Readlink(path string) (target string, err error)

	// SameName tells whether one and other, which differ, would open one and the
	// same file in the folder dir. It is asked only about names that differ in
	// letter case or hold characters beyond ASCII. The files need not exist.
	// Where it cannot be told the answer is an error, which callers take for yes,
	// because a deny depends on it.
	SameName(dir, one, other string) (bool, error)
}

// OS is the file system of the machine this process runs on. It is what a nil FS
// stands for.
func OS() FS { return osFS{} }

// Unseen is a file system of which nothing is known, for an environment on
// another machine. Paths are taken as they are spelled, since no link can be
// followed; denies cover spellings that differ in letter case. What links on that
// machine make of a path is for that machine to prevent.
func Unseen() FS { return unseenFS{} }

type unseenFS struct{}

func (unseenFS) Readlink(string) (string, error) { return "", fs.ErrNotExist }

func (unseenFS) SameName(_, one, other string) (bool, error) {
	return foldKey(one) == foldKey(other), nil
}

type osFS struct{}

func (osFS) Readlink(name string) (string, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		// A file stands where the path has a folder, so nothing can be below.
		return "", fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink == 0:
		return "", nil
	}
	target, err := os.Readlink(name)
	if err == nil && target == "" {
		return "", errors.New("link without a target")
	}
	return target, err
}

// SameName compares device and inode where there are files to compare. Where
// there are none it looks how the folder treats the names it already has.
func (osFS) SameName(dir, one, other string) (bool, error) {
	same, err := sameFile(path.Join(dir, one), path.Join(dir, other))
	if !errors.Is(err, fs.ErrNotExist) {
		return same, err
	}
	if foldKey(one) != foldKey(other) {
		return false, nil
	}
	return foldsCase(dir)
}

// sameFile compares two spellings. Only one of them existing is a difference;
// none existing is fs.ErrNotExist.
func sameFile(one, other string) (bool, error) {
	first, err := lstat(one)
	if err != nil {
		return false, err
	}
	second, err := lstat(other)
	switch {
	case err != nil:
		return false, err
	case first == nil && second == nil:
		return false, fs.ErrNotExist
	case first == nil || second == nil:
		return false, nil
	}
	return os.SameFile(first, second), nil
}

// lstat returns nil without an error where nothing stands.
func lstat(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	return info, err
}

// probed is how many names of a folder are read to find one with a letter.
const probed = 64

var errCaseUnknown = errors.New("no name to tell whether letter case matters")

// foldsCase tells whether dir ignores letter case. It respells a name that dir
// holds; if there is none, the name of dir itself or of the nearest folder above
// that exists.
func foldsCase(dir string) (bool, error) {
	for {
		names, err := names(dir)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if flipped := flipCase(name); flipped != name {
				return sameFile(path.Join(dir, name), path.Join(dir, flipped))
			}
		}
		if dir == "/" {
			return false, errCaseUnknown
		}
		name := path.Base(dir)
		dir = path.Dir(dir)
		if flipped := flipCase(name); flipped != name {
			same, err := sameFile(path.Join(dir, name), path.Join(dir, flipped))
			if !errors.Is(err, fs.ErrNotExist) {
				return same, err
			}
		}
	}
}

// names lists some names in dir, none if there is no such folder.
func names(dir string) ([]string, error) {
	f, err := os.Open(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrPermission):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	// What could be read is enough, and an error here (a file, not a folder)
	// leaves the question to the folder above.
	list, _ := f.Readdirnames(probed)
	return list, nil
}

// flipCase turns over the case of every ASCII letter.
func flipCase(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return r
		}
	}, name)
}

var (
	_ FS = osFS{}
	_ FS = unseenFS{}
)
