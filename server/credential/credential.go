// Package credential keeps what callers prove themselves with: the tokens by
// which the HTTP API knows a principal, and the passphrase or authenticator by
// which a person proves, once more, to be the one who answers.
//
// Both live in files of the home folder which only its owner can read. A file
// that others can read or write, that another user owns, or that says anything
// this package would not write proves nobody: it is an error that names the file,
// never an answer. The files are safe from other users, not from programs of the
// same user: who can write them can let anybody in.
//
// Processes may share the files. Changes hold a lock beside the file, and are
// either wholly there or not at all, whenever a process or the machine stops.
package credential

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrUnsafe means that a file or its folder could have been read or written by
	// others, or is something else than a file or a folder. Look into who could,
	// put the permissions right, and issue what the file holds anew.
	ErrUnsafe = errors.New("not safe to use")
	// ErrMalformed means that a file is not one that this version writes. It is
	// left as it is, and nobody is let in by it, until a person has mended or
	// removed it.
	ErrMalformed = errors.New("malformed")
	// ErrBusy means that another process has kept a file locked for longer than
	// any change takes.
	ErrBusy = errors.New("in use by another process")
	// ErrPrincipal means that the name is none of a principal, or of one that
	// cannot have such a credential.
	ErrPrincipal = errors.New("not a principal for this")
)

// FileError is what is wrong with a file. It wraps one of the errors of this
// package or of the file system. No value in the file is told.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// Local is the principal of the local administrator, whom the socket tells and
// no token.
const Local = "local"

// maxPrincipal bounds the names of principals, in bytes.
const maxPrincipal = 256

// checkPrincipal holds names to the form that the configuration has for them.
func checkPrincipal(name string) error {
	fault := ""
	switch {
	case name == "":
		fault = "it is empty"
	case len(name) > maxPrincipal:
		fault = "it is too long"
	case !utf8.ValidString(name):
		fault = "it is not UTF-8"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '*' }):
		fault = "it holds spaces or other characters that names have not"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrPrincipal, fault)
}

func isAgent(principal string) bool { return strings.HasPrefix(strings.ToLower(principal), "agent:") }
