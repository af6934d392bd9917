package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrLocked means that another process held a lock for longer than it was waited
// for. Try again; whoever holds one gives it up when it ends, too.
var ErrLocked = errors.New("another process holds the lock")

const (
	// replaceWait is how long ReplaceFile waits for its turn, and lockPoll how often
	// a lock is tried. Whoever holds one writes a small file.
	replaceWait = 10 * time.Second
	lockPoll    = 5 * time.Millisecond
)

// ReplaceFile replaces a file of a home with what edit makes of it, as WriteFile
// does. before is nil where there is no file yet; its folder is made.
//
// Processes that use this function take turns. An error of edit leaves the file
// alone and is returned as it is.
func ReplaceFile(path string, edit func(before []byte) (after []byte, err error)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	unlock, err := LockFile(path+".lock", replaceWait)
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	defer unlock()
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	after, err := edit(before)
	if err != nil {
		return err
	}
	if err := WriteFile(path, after); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// LockFile takes the lock that a file stands for, which is made where it is
// missing, and waits for it as long as that. Past it the error is [ErrLocked]; on a
// system without such locks it is an errors.ErrUnsupported. The lock ends with
// unlock, or with the process.
func LockFile(path string, wait time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(wait); ; time.Sleep(lockPoll) {
		taken, err := tryLock(f)
		switch {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		case taken:
			return func() { _ = f.Close() }, nil // closing gives the lock up, and cannot fail in a way that keeps it
		case !time.Now().Before(until):
			return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrLocked), f.Close())
		}
	}
}

// WriteFile puts a file in the place of another, or of none, readable by its
// owner alone. Others see the file as it was or as it is, never a part. When it
// returns nil the file is on disk; when it does not, either may be there. Callers
// keep each other out, see [LockFile].
func WriteFile(path string, data []byte) error {
	temp := path + ".tmp"
	// One that is there is what a process left behind that was killed.
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := writeNew(temp, data)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncFolder(filepath.Dir(path))
}

func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncFolder makes a rename durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
