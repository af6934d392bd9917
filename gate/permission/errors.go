package permission

import (
	"errors"
	"fmt"
)

// ErrInvalid means a profile, or a part of one, cannot be understood. It is the
// writer's mistake: show it to whoever wrote the profile, and grant nothing.
// Every more particular error of this package about input wraps it, except
// [ErrUnresolved], which is about the machine.
var ErrInvalid = errors.New("permission profile is not valid")

// The ways in which a profile can be wrong. Each wraps [ErrInvalid].
var (
	// ErrEmpty means a request asks for nothing. Denies alone ask for nothing.
	ErrEmpty = invalid("at least one permission is needed")
	// ErrPattern means a pattern was given read or write access. No sandbox can
	// hold such a grant, so it must not even be shown for approval.
	ErrPattern = invalid("pattern entries may only deny")
	// ErrBadPattern means a pattern cannot be read, or costs too much to match.
	ErrBadPattern = invalid("pattern is not valid")
	// ErrForeign means a path, or the folder it starts from, is spelled for
	// another kind of system: a Windows path, a URI.
	ErrForeign = invalid("path is not native to the selected environment")
	// ErrBadPath means a path is empty, too long, holds a NUL byte or is not
	// UTF-8 text.
	ErrBadPath = invalid("path is not valid")
	// ErrNoBase means a path starts from something that the environment does not
	// tell: its working folder for a relative path, its home for "~".
	ErrNoBase = invalid("environment does not say where the path starts")
	// ErrOtherHome means a path starts with ~name. Whose home that is cannot be
	// known here; write the folder out, or ./~name for a file of that name.
	ErrOtherHome = invalid("home folders of other users (~name) are not looked up")
	// ErrAmbiguous means ".." follows a symbolic link, so that the kernel and a
	// program that shortens the path as text would arrive at different places.
	ErrAmbiguous = invalid(`".." after a symbolic link leads to two different places`)
	// ErrProcess means a path leads through a link below /proc that points to a
	// different place for each process that follows it.
	ErrProcess = invalid("path means a different place for each process")
	// ErrHost means a network host is not a plain host name or IP address.
	ErrHost = invalid("host is not a plain name or address")
	// ErrScope means a scope is none of once, turn and session.
	ErrScope = invalid("scope is not once, turn or session")
)

// ErrUnresolved means that the file system could not say where a path leads:
// no permission to look, too many links, a failing disk. Nothing is wrong with
// the profile, and nothing may be granted either.
var ErrUnresolved = errors.New("path could not be resolved")

// DecodeError says where in a JSON document a profile is wrong. It wraps
// [ErrInvalid] and, where there is one, the particular error.
type DecodeError struct {
	// Path leads from the profile to the offending value, as in
	// file_system.entries[0].path.type. It is empty for the profile itself.
	Path string
	Err  error
}

func (e *DecodeError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("permissions: %v", e.Err)
	}
	return fmt.Sprintf("permissions: %s: %v", e.Path, e.Err)
}

// Unwrap gives ErrInvalid beside the particular error, so that a caller can
// tell bad input from everything else without knowing all kinds.
func (e *DecodeError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// PathError carries the path, pattern or host, as it was written, that could
// not be normalised.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return fmt.Sprintf("%q: %v", e.Path, e.Err) }

// Unwrap gives the particular error.
func (e *PathError) Unwrap() error { return e.Err }

// invalidError is a sentinel that wraps ErrInvalid without repeating its text.
type invalidError struct{ text string }

func invalid(text string) error { return &invalidError{text} }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return ErrInvalid }
