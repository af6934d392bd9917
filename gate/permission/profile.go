package permission

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxEntries is how many file system entries, and how many hosts, one decoded
// profile may hold. It bounds the work that a hostile profile can cause.
const MaxEntries = 1024

// Profile is a set of permissions, and of denies that cut them. The zero value
// grants nothing.
type Profile struct {
	Network    Network
	FileSystem FileSystem
}

// Network is access to the network. The zero value is none.
//
// In JSON, {"enabled": true} is every host, {"hosts": [...]} is those hosts with
// or without "enabled": true, and {"enabled": false} is none, whatever the
// hosts. A list that is present limits, even when it is empty. Profiles are
// written without "enabled" when they are limited to hosts, so that a reader
// that knows nothing of hosts sees no network rather than all of it.
type Network struct {
	// All is access to every host; Hosts adds nothing then.
	All bool
	// Hosts are host names or IP addresses. Once normalised they are as
	// [ParseHost] returns them.
	Hosts []string
}

// FileSystem is access to the file system. The zero value is none.
type FileSystem struct {
	// Entries in any order. Their order means nothing.
	Entries []Entry
	// GlobScanMaxDepth tells a sandbox that expands deny patterns beforehand how
	// many folders deep to look; 0 is without limit. It never limits what a
	// pattern denies here.
	GlobScanMaxDepth int
}

// Entry gives or denies access to one place.
type Entry struct {
	Path   Path   `json:"path"`
	Access Access `json:"access"`
}

// Access is what an entry says about its place.
type Access string

// The kinds of access. Write includes read. Any other value grants nothing and
// counts as a deny whose extent is unknown.
const (
	Read  Access = "read"
	Write Access = "write"
	Deny  Access = "deny"
)

// PathType tells which field of a [Path] speaks.
type PathType string

// The types of path.
const (
	// TypePath is a literal path and everything below it.
	TypePath PathType = "path"
	// TypeGlob is a pattern as github.com/bmatcuk/doublestar reads it: * and ?
	// stay within a component, **/ is any number of folders and also none.
	TypeGlob PathType = "glob_pattern"
	// TypeSpecial is a place known by name that each environment has elsewhere.
	TypeSpecial PathType = "special"
)

// Path names a place. Only the field that belongs to Type is looked at.
type Path struct {
	Type    PathType
	Path    string
	Pattern string
	Special Special
}

// Special is a place that is known by name.
type Special struct {
	Kind Kind
	// Path is the name that another program gave to a place of KindUnknown.
	Path string
	// Subpath is a relative path below a project root, or below an unknown
	// place.
	Subpath string
}

// Kind is the name of a special place.
type Kind string

// The special places.
const (
	// KindRoot is /.
	KindRoot Kind = "root"
	// KindMinimal is what programs need in order to run at all. Each sandbox
	// decides what that is, so it stays a name here: it is covered by itself and
	// by /, and no path is known to be in it.
	KindMinimal Kind = "minimal"
	// KindProjectRoots is every project root of the environment, or Subpath
	// below each.
	KindProjectRoots Kind = "project_roots"
	// KindTmpdir is the environment's folder for temporary files.
	KindTmpdir Kind = "tmpdir"
	// KindSlashTmp is /tmp.
	KindSlashTmp Kind = "slash_tmp"
	// KindUnknown is a special place of another program that is not known here.
	KindUnknown Kind = "unknown"
)

// Everything grants all there is: every host and write access to every path. It
// is the ceiling that limits nothing.
func Everything() Profile {
	return Profile{
		Network:    Network{All: true},
		FileSystem: FileSystem{Entries: []Entry{Literal("/", Write)}},
	}
}

// Literal is an entry for path, which is not a pattern, and all below it.
func Literal(path string, access Access) Entry {
	return Entry{Path: Path{Type: TypePath, Path: path}, Access: access}
}

// DenyGlob is an entry that denies whatever matches pattern.
func DenyGlob(pattern string) Entry {
	return Entry{Path: Path{Type: TypeGlob, Pattern: pattern}, Access: Deny}
}

// String is e for people: the access and the place as it is written, a pattern in
// quotes, a special place by its name.
func (e Entry) String() string {
	switch e.Path.Type {
	case TypePath:
		return fmt.Sprintf("%s %s", e.Access, e.Path.Path)
	case TypeGlob:
		return fmt.Sprintf("%s %q", e.Access, e.Path.Pattern)
	default:
		name := string(e.Path.Special.Kind)
		for _, more := range []string{e.Path.Special.Path, e.Path.Special.Subpath} {
			if more != "" {
				name += "/" + more
			}
		}
		return fmt.Sprintf("%s <%s>", e.Access, name)
	}
}

// IsEmpty tells whether p says nothing at all. Parts that are present but empty
// say nothing, and neither does a network that is not enabled.
func (p Profile) IsEmpty() bool {
	return !p.Network.All && len(p.Network.Hosts) == 0 && len(p.FileSystem.Entries) == 0
}

// Grants tells whether p, once normalised, allows anything at all: a profile
// that only denies, or denies everything it allows, grants nothing.
func (p Profile) Grants() bool { return compile(p).prune().grants() }

// RequireNonEmpty returns [ErrEmpty] unless p, once normalised, asks for at
// least one permission.
func RequireNonEmpty(p Profile) error {
	if !p.Grants() {
		return ErrEmpty
	}
	return nil
}

// Equal tells whether p and other hold the same entries, whatever their order
// and however often. It compares what is written; profiles that mean the same
// cover each other, see [Covers].
func (p Profile) Equal(other Profile) bool {
	one, two := p.sorted(), other.sorted()
	return one.Network.All == two.Network.All &&
		slices.Equal(one.Network.Hosts, two.Network.Hosts) &&
		slices.Equal(one.FileSystem.Entries, two.FileSystem.Entries) &&
		one.FileSystem.GlobScanMaxDepth == two.FileSystem.GlobScanMaxDepth
}

// String is p as JSON.
func (p Profile) String() string {
	text, err := p.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("permission.Profile(%v)", err)
	}
	return string(text)
}

// sorted is a copy of p with a fixed order and no repetitions. Parts that say
// nothing beside others are left out.
func (p Profile) sorted() Profile {
	out := Profile{Network: Network{All: p.Network.All}}
	if !p.Network.All && len(p.Network.Hosts) > 0 {
		out.Network.Hosts = slices.Clone(p.Network.Hosts)
		slices.Sort(out.Network.Hosts)
		out.Network.Hosts = slices.Compact(out.Network.Hosts)
	}
	if len(p.FileSystem.Entries) > 0 {
		out.FileSystem.Entries = slices.Clone(p.FileSystem.Entries)
		for i, e := range out.FileSystem.Entries {
			out.FileSystem.Entries[i].Path = e.Path.only()
		}
		slices.SortFunc(out.FileSystem.Entries, compareEntries)
		out.FileSystem.Entries = slices.Compact(out.FileSystem.Entries)
		out.FileSystem.GlobScanMaxDepth = p.FileSystem.GlobScanMaxDepth
	}
	return out
}

// only clears the fields of p that its type does not use, so that two paths
// that say the same are equal.
func (p Path) only() Path {
	switch p.Type {
	case TypePath:
		return Path{Type: TypePath, Path: p.Path}
	case TypeGlob:
		return Path{Type: TypeGlob, Pattern: p.Pattern}
	case TypeSpecial:
		return Path{Type: TypeSpecial, Special: p.Special}
	default:
		return p
	}
}

func compareEntries(one, two Entry) int {
	return cmp.Or(
		cmp.Compare(one.Path.rank(), two.Path.rank()),
		cmp.Compare(one.Path.Path, two.Path.Path),
		cmp.Compare(one.Path.Pattern, two.Path.Pattern),
		cmp.Compare(one.Path.Special.Kind, two.Path.Special.Kind),
		cmp.Compare(one.Path.Special.Path, two.Path.Special.Path),
		cmp.Compare(one.Path.Special.Subpath, two.Path.Special.Subpath),
		cmp.Compare(one.Path.Type, two.Path.Type),
		cmp.Compare(one.Access, two.Access),
	)
}

// rank puts paths before special places before patterns.
func (p Path) rank() int {
	switch p.Type {
	case TypePath:
		return 0
	case TypeSpecial:
		return 1
	case TypeGlob:
		return 2
	default:
		return 3
	}
}
