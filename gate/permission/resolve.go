package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Environment is where paths start: one place in which commands run. Everything
// in it must be frozen with the request it belongs to, so that an answer that
// comes late is read as it was meant.
type Environment struct {
	ID string `json:"id,omitempty"`
	// Cwd is the working folder, absolute. Relative paths and patterns start
	// here.
	Cwd string `json:"cwd,omitempty"`
	// Home is the home folder of the account that runs the commands, absolute;
	// not that of the account that runs this program.
	Home string `json:"home,omitempty"`
	// TmpDir is where the environment keeps temporary files, absolute.
	TmpDir string `json:"tmpdir,omitempty"`
	// ProjectRoots are absolute. The working folder is not one of them unless it
	// is listed.
	ProjectRoots []string `json:"project_roots,omitempty"`
	// OS is the kind of system, as in runtime.GOOS; "" is any Unix. Paths of
	// "windows" are not understood: everything in such an environment is
	// [ErrForeign].
	OS string `json:"os,omitempty"`
}

const (
	maxPath  = 4096 // bytes, PATH_MAX on Linux
	maxLinks = 40   // what the Linux kernel follows
)

// errLoop is for a path that the kernel will not follow to its end either.
var errLoop = fmt.Errorf("%w: more than %d links", ErrUnresolved, maxLinks)

var (
	// A drive letter, with or without a slash after it. A file of such a name can
	// be written as ./c:name.
	drive = regexp.MustCompile(`^[A-Za-z]:`)
	uri   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://|^[Ff][Ii][Ll][Ee]:`)
)

// foreignPath tells whether text is a Windows path or a URI. Backslashes are
// ordinary characters on Unix, but a path that has them and no slash was hardly
// meant so.
func foreignPath(text string) bool {
	if !strings.ContainsAny(text, `:\`) {
		return false // what all of them have
	}
	return drive.MatchString(text) || uri.MatchString(text) || strings.HasPrefix(text, `\`) ||
		strings.Contains(text, `\`) && !strings.Contains(text, "/")
}

// absolute makes text absolute without shortening it: "..", which must be
// resolved together with links, is still in the result.
func (env Environment) absolute(text string) (string, error) {
	if text == "" || len(text) > maxPath || !isText(text) {
		return "", ErrBadPath
	}
	if env.OS == "windows" || foreignPath(text) {
		return "", ErrForeign
	}
	switch {
	case strings.HasPrefix(text, "/"):
		return text, nil
	case text == "~" || strings.HasPrefix(text, "~/"):
		home, err := base(env.Home, "home")
		return home + text[1:], err
	case strings.HasPrefix(text, "~"):
		return "", ErrOtherHome
	default:
		cwd, err := base(env.Cwd, "cwd")
		return cwd + "/" + text, err
	}
}

// base checks a folder that the environment tells.
func base(dir, name string) (string, error) {
	switch {
	case dir == "":
		return "", fmt.Errorf("%w: no %s", ErrNoBase, name)
	case foreignPath(dir):
		return "", fmt.Errorf("%s %q: %w", name, dir, ErrForeign)
	case !strings.HasPrefix(dir, "/"), len(dir) > maxPath, !isText(dir):
		return "", fmt.Errorf("%w: %s %q is not an absolute path", ErrNoBase, name, dir)
	default:
		return dir, nil
	}
}

// Resolve says which place text, an absolute, relative or ~ path, names in env:
// the nearest part that exists has its links followed as the kernel follows them,
// and the rest is attached. It fails with an error that wraps [ErrInvalid] or
// [ErrUnresolved].
func (env Environment) Resolve(text string, fsys FS) (string, error) {
	raw, err := env.absolute(text)
	if err != nil {
		return "", &PathError{text, err}
	}
	real, err := resolve(raw, orOS(fsys))
	if err != nil {
		return "", &PathError{text, err}
	}
	return real, nil
}

func orOS(fsys FS) FS {
	if fsys == nil {
		return OS()
	}
	return fsys
}

// resolve follows raw both ways in which a program might: as it stands, and
// shortened as text first. They differ only where ".." follows a link.
func resolve(raw string, fsys FS) (string, error) {
	real, err := walk(raw, fsys)
	if err != nil {
		return "", err
	}
	if !hasDotDot(raw) {
		return real, nil
	}
	shortened, err := walk(path.Clean(raw), fsys)
	if err != nil {
		return "", err
	}
	if shortened != real {
		return "", fmt.Errorf("%w: %s and %s", ErrAmbiguous, real, shortened)
	}
	return real, nil
}

func hasDotDot(raw string) bool {
	return strings.Contains(raw+"/", "/../")
}

// walk follows the absolute path raw component by component. When it fails it
// also returns how far it came, with the rest attached as text.
func walk(raw string, fsys FS) (string, error) {
	done, rest, links := "/", raw, 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := done + "/" + name
		if done == "/" {
			next = done + name
		}
		if len(next) > maxPath || len(rest) > 2*maxPath {
			return path.Join(next, rest), ErrBadPath
		}
		target, err := fsys.Readlink(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// Nothing there yet. What follows may lead back up to what exists, so
			// the walk goes on.
		case err != nil:
			return path.Join(next, rest), fmt.Errorf("%w: %w", ErrUnresolved, err)
		case target != "" && (next == "/proc/self" || next == "/proc/thread-self"):
			// Followed, it would name this process and not the one that asks.
		case target != "":
			if perProcess(next) {
				return path.Join(next, rest), ErrProcess
			}
			if links++; links > maxLinks {
				return path.Join(next, rest), errLoop
			}
			if !isText(target) || len(target) > maxPath {
				return path.Join(next, rest), fmt.Errorf("link %s: %w", next, ErrBadPath)
			}
			if strings.HasPrefix(target, "/") {
				done = "/"
			}
			rest = target + "/" + rest
			continue
		}
		done = next
	}
	return done, nil
}

// perProcess tells whether link is one like /proc/1/cwd. The links right in /proc
// lead to places in /proc.
func perProcess(link string) bool {
	return strings.HasPrefix(link, "/proc/") && path.Dir(link) != "/proc"
}
