package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// WorkspaceDir is the name of the folder that Find looks for.
const WorkspaceDir = ".regent"

// HomeVariable is the environment variable that names the home.
const HomeVariable = "REGENT_HOME"

// HomeDir returns the folder of the home, absolute: flag if it is not empty,
// else $REGENT_HOME, else .regent in the user's home directory as $HOME names
// it. Variables are read with getenv. The folder need not exist.
func HomeDir(flag string, getenv func(string) string) (string, error) {
	dir := flag
	if dir == "" {
		dir = getenv(HomeVariable)
	}
	if dir == "" {
		user := getenv("HOME")
		if !filepath.IsAbs(user) {
			return "", fmt.Errorf("find the home: $HOME is no absolute path; give --home or set $%s", HomeVariable)
		}
		dir = filepath.Join(user, WorkspaceDir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the home: %w", err)
	}
	return abs, nil
}

// Find returns the workspace for calls that run in the folder from: the
// nearest folder called .regent that holds a config.yaml, in from or in a
// folder above it. It is false where there is none.
//
// Symbolic links in from are resolved first, so that no call escapes its
// workspace by a link that leads into it. Part of from need not exist. The
// folders in homes are passed over: a home is usually called .regent too, and
// is no workspace.
//
// A config.yaml that is there but cannot be used counts as found, for Load to
// complain about. An error means that it cannot be told whether there is one;
// then nothing may be decided as if there were none.
func Find(from string, homes ...string) (dir string, ok bool, err error) {
	return FindKnown(from, func(string) bool { return false }, homes...)
}

// FindKnown is Find where folders that known is true of are workspaces though
// their config.yaml is missing. It is for those who have seen it: that somebody
// removed it must not put calls under the rules of the folder above.
func FindKnown(from string, known func(dir string) bool, homes ...string) (dir string, ok bool, err error) {
	at, err := resolved(from)
	if err != nil {
		return "", false, fmt.Errorf("find the workspace of %s: %w", from, err)
	}
	for {
		dir := filepath.Join(at, WorkspaceDir)
		_, err := os.Lstat(filepath.Join(dir, FileName))
		switch {
		case err == nil:
			if !isOneOf(dir, homes) {
				return dir, true, nil
			}
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			if known(dir) {
				return dir, true, nil
			}
		default:
			return "", false, fmt.Errorf("find the workspace of %s: %w", from, err)
		}
		above := filepath.Dir(at)
		if above == at {
			return "", false, nil
		}
		at = above
	}
}

// resolved returns path, absolute, with the symbolic links of its longest
// existing part followed. It refuses a ".." behind something that does not
// exist, since nobody can say where that leads.
func resolved(path string) (string, error) {
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = wd + string(filepath.Separator) + path // not joined: that would drop "link/.."
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if slices.Contains(strings.Split(path, string(filepath.Separator)), "..") {
		return "", err
	}
	rest := ""
	for at := filepath.Clean(path); ; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, err := os.Lstat(at); err == nil {
			return "", fmt.Errorf("%s is a symbolic link to nowhere: %w", at, fs.ErrNotExist)
		}
		above := filepath.Dir(at)
		if above == at {
			return "", err
		}
		at, rest = above, filepath.Join(filepath.Base(at), rest)
	}
}

func isOneOf(dir string, others []string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for _, other := range others {
		if otherInfo, err := os.Stat(other); err == nil && os.SameFile(info, otherInfo) {
			return true
		}
	}
	return false
}
