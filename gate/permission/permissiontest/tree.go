// Package permissiontest has a file system for tests that exists only in memory.
package permissiontest

import (
	"io/fs"
	"path"
	"strings"

	"github.com/regent-policy/regent/gate/permission"
)

// Tree is a file system in which every path exists unless it is said otherwise.
// The zero value has no links and tells letter case apart. It must not change
// while it is in use.
type Tree struct {
	// Links maps the absolute path of each symbolic link to its target.
	Links map[string]string
	// Missing lists paths at and below which nothing exists.
	Missing []string
	// Errors maps paths to what looking at them, or at anything below, fails with.
	Errors map[string]error
	// FoldCase is a volume that takes names which differ in letter case for one.
	FoldCase bool
}

// Readlink implements [permission.FS].
func (t Tree) Readlink(name string) (string, error) {
	for at, err := range t.Errors {
		if t.below(at, name) {
			return "", err
		}
	}
	for _, at := range t.Missing {
		if t.below(at, name) {
			return "", fs.ErrNotExist
		}
	}
	for at, target := range t.Links {
		if t.same(at, name) {
			return target, nil
		}
	}
	return "", nil
}

// SameName implements [permission.FS].
func (t Tree) SameName(dir, one, other string) (bool, error) {
	for at, err := range t.Errors {
		if t.below(at, path.Join(dir, one)) {
			return false, err
		}
	}
	return t.same(one, other), nil
}

func (t Tree) same(one, other string) bool {
	return one == other || t.FoldCase && strings.EqualFold(one, other)
}

func (t Tree) below(dir, name string) bool {
	return len(name) >= len(dir) && t.same(dir, name[:len(dir)]) && (len(name) == len(dir) || name[len(dir)] == '/')
}

var _ permission.FS = Tree{}
