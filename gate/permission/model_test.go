package permission_test

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/regent-policy/regent/gate/permission"
)

// The model says by brute force what a profile means. It shares no code with the
// package: every point of a small universe is asked about every entry, with paths
// cut into names and patterns matched name by name.

// answer is what a profile says about one point, in the order in which Merge
// takes the greater.
type answer int

const (
	nothing answer = iota
	read
	write
	denied
)

// permits is the same answer to somebody who only wants to know what is allowed.
func (a answer) permits() answer {
	if a == denied {
		return nothing
	}
	return a
}

// A point is a path, a host as "host:NAME", or minimal.
const minimal = "minimal"

var hosts = []string{"one.example", "two.example", "one.example.org"}

// universe has every path of up to three of the names, and points for the rest.
func universe(names ...string) []string {
	points := []string{"/"}
	for layer, depth := []string{""}, 0; depth < 3; depth++ {
		var next []string
		for _, dir := range layer {
			for _, name := range names {
				next = append(next, dir+"/"+name)
			}
		}
		points = append(points, next...)
		layer = next
	}
	return points
}

// plain has a name that begins like another; alike has names that differ only in
// letter case.
var (
	plain = universe("a", "ab", "b")
	alike = universe("a", "A", "b")
)

func otherPoints() []string {
	points := []string{minimal, "host:elsewhere.example"}
	for _, host := range hosts {
		points = append(points, "host:"+host)
	}
	return points
}

// meaning is what p says about point. same tells whether two names in a folder are
// one for a deny.
func meaning(p permission.Profile, point string, same func(dir, one, other string) bool) answer {
	if host, ok := strings.CutPrefix(point, "host:"); ok {
		if p.Network.All || slices.Contains(p.Network.Hosts, host) {
			return write
		}
		return nothing
	}
	most := nothing
	for _, e := range p.FileSystem.Entries {
		says := map[permission.Access]answer{permission.Read: read, permission.Write: write, permission.Deny: denied}[e.Access]
		if says > most && speaksOf(e, point, same) {
			most = says
		}
	}
	return most
}

func exactly(_, one, other string) bool { return one == other }

func speaksOf(e permission.Entry, point string, same func(dir, one, other string) bool) bool {
	if e.Access != permission.Deny {
		same = exactly
	}
	switch e.Path.Type {
	case permission.TypePath:
		if point == minimal {
			return e.Path.Path == "/"
		}
		return holds(names(e.Path.Path), names(point), same)
	case permission.TypeGlob:
		if point == minimal {
			return globHolds(names(e.Path.Pattern), nil)
		}
		return globHolds(names(e.Path.Pattern), names(point))
	case permission.TypeSpecial:
		switch {
		case e.Path.Special.Kind == permission.KindRoot:
			return true
		case e.Access == permission.Deny:
			return true // nobody knows where it is, so it may be anywhere
		default:
			return e.Path.Special.Kind == permission.KindMinimal && point == minimal
		}
	}
	panic("unknown path type")
}

func names(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

func holds(dir, p []string, same func(dir, one, other string) bool) bool {
	if len(dir) > len(p) {
		return false
	}
	for i := range dir {
		if !same("/"+strings.Join(p[:i], "/"), dir[i], p[i]) {
			return false
		}
	}
	return true
}

// globHolds tells whether the pattern matches the path or a folder above it.
func globHolds(pattern, p []string) bool {
	if len(pattern) == 0 {
		return true
	}
	if pattern[0] == "**" {
		return globHolds(pattern[1:], p) || len(p) > 0 && globHolds(pattern, p[1:])
	}
	if len(p) == 0 {
		return false
	}
	for _, one := range braces(pattern[0]) {
		if ok, err := path.Match(one, p[0]); err != nil {
			panic(err)
		} else if ok && globHolds(pattern[1:], p[1:]) {
			return true
		}
	}
	return false
}

// braces spells out a name of the form {x,y}.
func braces(name string) []string {
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		return strings.Split(strings.TrimSuffix(inner, "}"), ",")
	}
	return []string{name}
}

// shape says what a drawn profile may hold.
type shape struct {
	points []string
	globs  bool
	// places are special ones: minimal, and denies of unknown extent.
	places bool
}

var everyShape = shape{plain, true, true}

func (s shape) draw(t *rapid.T, label string) permission.Profile {
	return rapid.Custom(func(t *rapid.T) permission.Profile {
		var p permission.Profile
		switch rapid.IntRange(0, 3).Draw(t, "network") {
		case 0:
			p.Network.All = true
		case 1, 2:
			p.Network.Hosts = rapid.SliceOfNDistinct(rapid.SampledFrom(hosts), 0, 3, rapid.ID).Draw(t, "hosts")
		}
		p.FileSystem.Entries = rapid.SliceOfN(rapid.Custom(s.entry), 0, 7).Draw(t, "entries")
		p.FileSystem.GlobScanMaxDepth = rapid.IntRange(0, 3).Draw(t, "depth")
		return p
	}).Draw(t, label)
}

func (s shape) entry(t *rapid.T) permission.Entry {
	kind := rapid.IntRange(0, 19).Draw(t, "kind")
	switch {
	case s.globs && kind < 4:
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"**", "*", "?", "a", "b", "a*", "?b", "[ab]", "[^a]", "{a,b}",
		}), 1, 3).Draw(t, "pattern")
		pattern := "/" + strings.Join(parts, "/")
		if !strings.ContainsAny(pattern, "*?[{") {
			pattern += "/*"
		}
		return permission.DenyGlob(pattern)
	case s.places && kind == 4:
		return special(permission.Special{Kind: permission.KindMinimal},
			rapid.SampledFrom([]permission.Access{permission.Read, permission.Write, permission.Read, permission.Deny}).Draw(t, "access"))
	case s.places && kind == 5 && rapid.IntRange(0, 3).Draw(t, "rare") == 0:
		return special(permission.Special{Kind: permission.KindUnknown, Path: ":x"}, permission.Deny)
	}
	return permission.Literal(
		rapid.SampledFrom(s.points).Draw(t, "path"),
		rapid.SampledFrom([]permission.Access{
			permission.Read, permission.Read, permission.Write, permission.Write, permission.Deny,
		}).Draw(t, "access"),
	)
}

func special(s permission.Special, access permission.Access) permission.Entry {
	return permission.Entry{Path: permission.Path{Type: permission.TypeSpecial, Special: s}, Access: access}
}

// failed reports a law that does not hold at a point.
func failed(t *rapid.T, law, point string, got, want answer, profiles ...permission.Profile) {
	t.Helper()
	var b strings.Builder
	for _, p := range profiles {
		fmt.Fprintf(&b, "\n  %v", p)
	}
	t.Fatalf("%s: %s is %d, want %d, with%s", law, point, got, want, b.String())
}
