// Package gitrepo tells whether the configuration of a git repository can make
// git start a program when it is only asked to read. It reads files and never
// runs git.
//
// Git obeys three configurations. Those of the system and of the user are theirs
// and not judged here. The third lies inside the repository, which may have come
// out of an archive or been written by an agent in an earlier step: that one has
// to be inert. Attributes (.gitattributes, info/attributes) only choose among
// drivers and filters that a configuration defines, and .gitmodules is only read
// by commands that change something, so the configuration is all there is to
// check, beside the one hook that readers run and the repositories of submodules,
// which git status enters.
//
// What is found holds for the moment. Variables such as GIT_DIR, which make git
// look elsewhere, are for the caller to rule out.
package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The limits past which a repository is not judged. Files of real repositories
// are far below them.
const (
	maxConfigSize  = 256 << 10
	maxPointerSize = 4 << 10
	maxIndexSize   = 64 << 20
	maxSubmodules  = 64
	maxDepth       = 4
)

// Report is what is known of the repository that git would use.
type Report struct {
	// Inert is true where nothing in the repository can start a program when git
	// reads.
	Inert bool `json:"inert"`
	// Unknown is true where that cannot be told: there is no repository, a file
	// cannot be read, is too large, or is not what git itself would accept.
	Unknown bool `json:"unknown,omitempty"`
	// Reasons name what is not inert, with file and line. They are empty when Inert.
	Reasons []string `json:"reasons,omitempty"`
	// GitDir is the absolute path of the repository, empty where none was found.
	GitDir string `json:"git_dir,omitempty"`
}

// errNotAbsolute means that Inspect was asked about a relative folder.
var errNotAbsolute = errors.New("folder is not absolute")

// Inspect looks at the repository that git finds from dir: in dir or the nearest
// folder above it. A repository that is not inert, or that cannot be told, is a
// Report; the error is for a dir that is not absolute.
func Inspect(dir string) (Report, error) {
	if !filepath.IsAbs(dir) {
		return Report{}, fmt.Errorf("inspect %q: %w", dir, errNotAbsolute)
	}
	// Git asks the system where it is, so links in dir are behind it already.
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Report{Unknown: true, Reasons: []string{"folder cannot be read: " + reason(err)}}, nil
	}
	var in inspector
	gitDir, workTree, err := find(real)
	if err != nil {
		in.unknown("%s", err.Error())
	} else {
		in.repository(gitDir, workTree, 0)
	}
	return Report{
		Inert:   len(in.reasons) == 0,
		Unknown: in.cannotTell,
		Reasons: in.reasons,
		GitDir:  gitDir,
	}, nil
}

// reason is the message of err without the operation, which means nothing to the
// reader of a report.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Path + ": " + pathErr.Err.Error()
	}
	return err.Error()
}

// find returns the git folder and the working tree, empty for a bare repository,
// the way git does: at each level .git comes first, then the folder itself.
func find(dir string) (gitDir, workTree string, err error) {
	for {
		gitDir, err := dotGit(dir)
		if err != nil || gitDir != "" {
			return gitDir, dir, err
		}
		bare, err := isGitDir(dir)
		if err != nil {
			return "", "", err
		}
		if bare {
			return dir, "", nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", "", errors.New("no repository found")
		}
		dir = parent
	}
}

// dotGit returns the repository that .git in dir is or names, empty where there is
// no .git.
func dotGit(dir string) (string, error) {
	name := filepath.Join(dir, ".git")
	target := name
	switch info, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
		// A dangling link is neither here nor there.
		if _, err := os.Lstat(name); err == nil {
			return "", fmt.Errorf("%s leads nowhere", name)
		}
		return "", nil
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, errors.Unwrap(err))
	case !info.IsDir():
		if target, err = pointer(name, "gitdir: "); err != nil {
			return "", err
		}
	}
	ok, err := isGitDir(target)
	if err != nil {
		return "", err
	}
	if !ok {
		// Git walks on where .git is such a folder. That is odd enough to stop.
		return "", fmt.Errorf("%s is not a repository", name)
	}
	return target, nil
}

// isGitDir is git's own test for a repository. Where git's answer might differ it
// is an error: a folder that only looks like one would hide the repository above
// it that git goes on to.
func isGitDir(dir string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, errors.New(reason(err))
	}
	common, err := commonDir(dir)
	if err != nil {
		return false, err
	}
	for _, part := range []string{"objects", "refs"} {
		name := filepath.Join(common, part)
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil:
			return false, errors.New(reason(err))
		case !info.IsDir():
			return false, fmt.Errorf("%s is not a folder", name)
		}
	}
	return true, head(filepath.Join(dir, "HEAD"))
}

// head is an error unless the file is what HEAD has to be.
func head(name string) error {
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	text, err := readFile(name, maxPointerSize)
	if err != nil {
		return err
	}
	line := strings.TrimRight(string(text), "\r\n")
	if strings.HasPrefix(line, "ref: refs/") || isObjectName(line) {
		return nil
	}
	return fmt.Errorf("%s is not understood", name)
}

func isObjectName(text string) bool {
	if len(text) != 40 && len(text) != 64 {
		return false
	}
	return strings.Trim(text, "0123456789abcdef") == ""
}

// commonDir is the folder that the worktrees of a repository share.
func commonDir(gitDir string) (string, error) {
	name := filepath.Join(gitDir, "commondir")
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return gitDir, nil
	}
	return pointer(name, "")
}

// pointer reads a file that holds the path of a folder after prefix. Relative
// paths start at the folder of the file.
func pointer(name, prefix string) (string, error) {
	text, err := readFile(name, maxPointerSize)
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(string(text), prefix)
	if !ok {
		return "", fmt.Errorf("%s does not start with %q", name, prefix)
	}
	target = strings.TrimRight(target, "\r\n")
	if target == "" || strings.ContainsAny(target, "\x00\n") {
		return "", fmt.Errorf("%s names no folder", name)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(name), target)
	}
	return filepath.Clean(target), nil
}

// readFile reads a regular file of at most limit bytes. Errors are made for the
// report.
func readFile(name string, limit int64) ([]byte, error) {
	// Opening a pipe would wait for its writer.
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Unwrap(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Unwrap(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return text, nil
}

// inspector gathers why a repository is not inert.
type inspector struct {
	reasons    []string
	cannotTell bool
	submodules int
}

func (in *inspector) found(format string, args ...any) {
	in.reasons = append(in.reasons, fmt.Sprintf(format, args...))
}

func (in *inspector) unknown(format string, args ...any) {
	in.cannotTell = true
	in.found(format, args...)
}

// repository judges the repository at gitDir with its submodules below workTree.
func (in *inspector) repository(gitDir, workTree string, depth int) {
	common, err := commonDir(gitDir)
	if err != nil {
		in.unknown("%s", err.Error())
		return
	}
	hash := hashSize(in.config(filepath.Join(common, "config"), true))
	// Read whether or not extensions.worktreeConfig asks for it.
	_ = in.config(filepath.Join(gitDir, "config.worktree"), false)
	in.hooks(filepath.Join(common, "hooks"))
	if workTree != "" {
		in.links(gitDir, workTree, hash, depth)
	}
}

// hashSize is how many bytes the names of objects have.
func hashSize(entries []entry) int {
	size := 20
	for _, e := range entries {
		if e.key() == "extensions.objectformat" && e.value == "sha256" {
			size = 32
		}
	}
	return size
}

// config judges a configuration file and returns what it says.
func (in *inspector) config(name string, required bool) []entry {
	text, err := readFile(name, maxConfigSize)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		in.unknown("%s", err.Error())
		return nil
	}
	entries, err := parseConfig(text)
	if err != nil {
		in.unknown("%s:%s", name, err.Error())
	}
	for _, e := range entries {
		if !isInert(e) {
			in.found("%s at %s:%d", e.key(), name, e.line)
		}
	}
	return entries
}

// readerHooks are the hooks that commands run which only read: git status writes
// what it learned about files back to the index.
var readerHooks = []string{"post-index-change"}

func (in *inspector) hooks(dir string) {
	for _, hook := range readerHooks {
		name := filepath.Join(dir, hook)
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			in.unknown("%s", reason(err))
		case info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0:
			// Git passes over hooks that are not executable.
		default:
			in.found("hook %s", name)
		}
	}
}

// links judges the repositories that the index names as submodules. Those which
// are not checked out have nothing to run.
func (in *inspector) links(gitDir, workTree string, hash, depth int) {
	name := filepath.Join(gitDir, "index")
	text, err := readFile(name, maxIndexSize)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		in.unknown("%s", err.Error())
		return
	}
	paths, err := gitlinks(text, hash)
	if err != nil {
		in.unknown("%s: %s", name, err.Error())
		return
	}
	for _, p := range paths {
		if in.submodules++; in.submodules > maxSubmodules {
			in.unknown("more than %d submodules", maxSubmodules)
			return
		}
		if depth >= maxDepth {
			in.unknown("submodules are nested deeper than %d", maxDepth)
			return
		}
		if !filepath.IsLocal(p) {
			in.unknown("%s: submodule %q lies outside", name, p)
			continue
		}
		in.submodule(filepath.Join(workTree, p), depth)
	}
}

// submodule judges the repository checked out at dir, if there is one.
func (in *inspector) submodule(dir string, depth int) {
	gitDir, err := dotGit(dir)
	switch {
	case errors.Is(err, syscall.ENOTDIR) || err == nil && gitDir == "":
	case err != nil:
		in.unknown("submodule: %s", err.Error())
	default:
		in.repository(gitDir, dir, depth+1)
	}
}
