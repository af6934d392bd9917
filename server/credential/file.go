package credential

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/config"
)

const (
	// version is that of the files.
	version = 1
	// maxBytes bounds a file: some thousands of tokens.
	maxBytes = 1 << 20
	// lockWait is how long a lock is waited for. Whoever holds one writes a small
	// file twice at most and derives one key.
	lockWait = 10 * time.Second
)

// file is one file of credentials in a folder.
type file struct {
	dir, name string
	// wait is lockWait, except in tests.
	wait time.Duration
}

func newFile(dir, name string) file { return file{dir, name, lockWait} }

func (f file) path() string { return filepath.Join(f.dir, f.name) }

func (f file) fault(err error) error {
	// What the file system says names the file already.
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", path.Op, path.Err)
	}
	return &FileError{f.path(), err}
}

// read decodes the file into v and tells which file that was. One that is not
// there is an [fs.ErrNotExist], and v is as it was.
func (f file) read(v any) (fs.FileInfo, error) {
	if err := f.checkFolder(); err != nil {
		return nil, err
	}
	// Neither a link nor a pipe that nobody writes to is followed or waited for.
	opened, err := os.OpenFile(f.path(), os.O_RDONLY|openFlags, 0)
	if err != nil {
		if isLink(err) {
			err = fmt.Errorf("%w: it is a symbolic link", ErrUnsafe)
		}
		return nil, f.fault(err)
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	if err != nil {
		return nil, f.fault(err)
	}
	if err := checkFile(info); err != nil {
		return nil, f.fault(err)
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxBytes+1))
	if err != nil {
		return nil, f.fault(err)
	}
	if len(text) > maxBytes {
		return nil, f.fault(fmt.Errorf("%w: larger than %d bytes", ErrMalformed, maxBytes))
	}
	if err := jsonv2.Unmarshal(text, v, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, f.fault(decodeError(err))
	}
	return info, nil
}

// checkFile says whether only the user that this process runs as can have
// written the file, and nobody else read it.
func checkFile(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is no regular file", ErrUnsafe)
	}
	if err := checkOwner(info); err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%w: others have access (mode %04o, it must be 0600)", ErrUnsafe, perm)
	}
	return nil
}

// checkFolder says whether others could put a file of theirs into the folder.
func (f file) checkFolder() error {
	info, err := os.Stat(f.dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%w: it is no folder", ErrUnsafe)
	}
	if err == nil {
		err = checkOwner(info)
	}
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		err = fmt.Errorf("%w: others can write to it (mode %04o; chmod go-w)", ErrUnsafe, info.Mode().Perm())
	}
	if err == nil {
		return nil
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", path.Op, path.Err)
	}
	// That the folder is not there says nothing about a file in it.
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: it is not there", ErrUnsafe)
	}
	return &FileError{f.dir, err}
}

// decodeError says where the text is wrong and keeps to itself what is there.
func decodeError(err error) error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(syntactic.Err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("%w: %s is given twice", ErrMalformed, syntactic.JSONPointer)
		}
		return fmt.Errorf("%w: not valid JSON at byte %d", ErrMalformed, syntactic.ByteOffset)
	}
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		if errors.Is(semantic.Err, jsonv2.ErrUnknownName) {
			return fmt.Errorf("%w: %s is not known here", ErrMalformed, semantic.JSONPointer)
		}
		return fmt.Errorf("%w: what is at %q does not fit", ErrMalformed, semantic.JSONPointer)
	}
	return fmt.Errorf("%w: not valid JSON", ErrMalformed)
}

// checkVersion tells a file of a later version from one that is broken.
func checkVersion(v int) error {
	switch {
	case v == version:
		return nil
	case v > version:
		return fmt.Errorf("%w: version %d is that of a newer Regent", ErrMalformed, v)
	default:
		return fmt.Errorf("%w: version must be %d", ErrMalformed, version)
	}
}

// write puts v in the place of the file. The caller holds the lock. When it
// returns nil the file is on disk; when it does not, either file may be there.
func (f file) write(v any) error {
	if err := f.checkFolder(); err != nil {
		return err
	}
	text, err := jsonv2.Marshal(v, jsonv2.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return f.fault(err)
	}
	if len(text) > maxBytes {
		return f.fault(fmt.Errorf("it would be larger than %d bytes; remove what is not needed", maxBytes))
	}
	if err := config.WriteFile(f.path(), append(text, '\n')); err != nil {
		return f.fault(err)
	}
	return nil
}

// locked calls change while no other process, and no other call of this one,
// changes the file. The lock ends with the process that holds it.
func (f file) locked(change func() error) error {
	if err := f.checkFolder(); err != nil {
		return err
	}
	l := file{dir: f.dir, name: f.name + ".lock"}
	unlock, err := config.LockFile(l.path(), f.wait)
	switch {
	case errors.Is(err, config.ErrLocked):
		return l.fault(ErrBusy)
	case err != nil:
		return l.fault(err)
	}
	defer unlock()
	return change()
}
