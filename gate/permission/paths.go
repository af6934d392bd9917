package permission

import (
	"iter"
	"path"
	"strings"
	"unicode/utf8"
)

// isClean tells whether p has the form that normalising gives a path.
func isClean(p string) bool {
	return strings.HasPrefix(p, "/") && path.Clean(p) == p && isText(p)
}

// isText refuses NUL, which ends a path early for the kernel, and whatever JSON
// cannot carry unchanged. U+FFFD is what decoders put in place of such bytes, so
// a name that holds it is not the name that was meant.
func isText(p string) bool {
	return utf8.ValidString(p) && !strings.ContainsRune(p, 0) && !strings.ContainsRune(p, utf8.RuneError)
}

// under tells whether the clean path p is dir or below it.
func under(dir, p string) bool {
	if dir == "/" || p == dir {
		return true
	}
	return len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// ancestors yields the clean path p, then each folder above it, up to /.
func ancestors(p string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			if !yield(p) || p == "/" {
				return
			}
			p = parent(p)
		}
	}
}

// parent is the folder above the clean path p; / is above itself.
func parent(p string) string { return p[:max(1, strings.LastIndexByte(p, '/'))] }

// components splits a clean path; / has none.
func components(p string) []string {
	if p == "/" {
		return nil
	}
	return strings.Split(p[1:], "/")
}

// touches tells whether one of two clean paths could be the other or above it on
// some volume.
func touches(one, other string) bool {
	if under(one, other) || under(other, one) {
		return true
	}
	for one, other = one[1:], other[1:]; one != "" && other != ""; {
		var name, alike string
		name, one, _ = strings.Cut(one, "/")
		alike, other, _ = strings.Cut(other, "/")
		if !maybeSame(name, alike) {
			return false
		}
	}
	return true
}
