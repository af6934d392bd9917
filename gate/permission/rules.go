package permission

import (
	"maps"
	"slices"
)

// rules is a profile in the form in which it is compared.
type rules struct {
	anyHost bool
	hosts   map[string]bool
	// allows holds literal paths with read or write.
	allows map[string]Access
	// minimal is the access to KindMinimal, or "".
	minimal Access
	denies  map[string]bool
	globs   map[string]bool
	// opaque holds denies of unknown extent, which deny every path.
	opaque map[Path]bool
	depth  int
	// ignored holds what grants nothing because it was not normalised.
	ignored []Dropped
}

// level orders what an allow gives; "" is nothing.
func level(a Access) int {
	switch a {
	case Read:
		return 1
	case Write:
		return 2
	default:
		return 0
	}
}

func weaker(one, other Access) Access {
	if level(one) < level(other) {
		return one
	}
	return other
}

func stronger(one, other Access) Access {
	if level(one) > level(other) {
		return one
	}
	return other
}

// compile reads p as written, and takes the cautious meaning of whatever was not
// normalised.
func compile(p Profile) *rules {
	r := &rules{
		anyHost: p.Network.All,
		hosts:   make(map[string]bool),
		allows:  make(map[string]Access),
		denies:  make(map[string]bool),
		globs:   make(map[string]bool),
		opaque:  make(map[Path]bool),
		depth:   p.FileSystem.GlobScanMaxDepth,
	}
	if !p.Network.All {
		for _, host := range p.Network.Hosts {
			if parsed, err := ParseHost(host); err != nil || parsed != host {
				r.ignored = append(r.ignored, Dropped{
					Network: &Network{Hosts: []string{host}}, Reason: NotNormalised,
				})
				continue
			}
			r.hosts[host] = true
		}
	}
	for _, e := range p.FileSystem.Entries {
		r.add(Entry{e.Path.only(), e.Access})
	}
	return r
}

func (r *rules) add(e Entry) {
	place := e.Path
	if place.Type == TypeSpecial && place.Special == (Special{Kind: KindRoot}) {
		place = Path{Type: TypePath, Path: "/"}
	}
	switch e.Access {
	case Read, Write:
		switch {
		case place.Type == TypePath && isClean(place.Path):
			r.allows[place.Path] = stronger(r.allows[place.Path], e.Access)
		case place.Type == TypeSpecial && place.Special == (Special{Kind: KindMinimal}):
			r.minimal = stronger(r.minimal, e.Access)
		default:
			r.ignored = append(r.ignored, Dropped{Entry: &e, Reason: NotNormalised})
		}
	default:
		switch {
		case e.Access != Deny:
			r.opaque[place] = true
		case place.Type == TypePath && isClean(place.Path):
			r.denies[place.Path] = true
		case place.Type == TypeGlob && cleanGlob(place.Pattern):
			r.globs[place.Pattern] = true
		default:
			r.opaque[place] = true
		}
	}
}

// grants tells whether anything is allowed, once r is pruned.
func (r *rules) grants() bool {
	return r.anyHost || len(r.hosts) > 0 || r.grantsFiles()
}

func (r *rules) grantsFiles() bool { return len(r.allows) > 0 || level(r.minimal) > 0 }

// allowed is what the allows give at the clean path p, whatever the denies say.
func (r *rules) allowed(p string) Access {
	var most Access
	for dir := range ancestors(p) {
		most = stronger(most, r.allows[dir])
	}
	return most
}

// allowedMinimal is the same for KindMinimal, which is somewhere below /.
func (r *rules) allowedMinimal() Access { return stronger(r.minimal, r.allows["/"]) }

// denied returns the entry by which deniesAll is true: the nearest path, or the
// first pattern.
func (r *rules) denied(p string) (Entry, bool) {
	for dir := range ancestors(p) {
		if r.denies[dir] {
			return Literal(dir, Deny), true
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(r.globs)) {
		if matchGlob(pattern, p) {
			return DenyGlob(pattern), true
		}
	}
	return Entry{}, false
}

// deniesAll tells whether r denies the clean path p and so everything below, by
// its exact spelling.
func (r *rules) deniesAll(p string) bool {
	if deniedBy(r.denies, p) {
		return true
	}
	for pattern := range r.globs {
		if matchGlob(pattern, p) {
			return true
		}
	}
	return false
}

// opaquePlaces are the places of denies of unknown extent, in order.
func (r *rules) opaquePlaces() []Path {
	return slices.SortedFunc(maps.Keys(r.opaque), func(one, two Path) int {
		return compareEntries(Entry{Path: one}, Entry{Path: two})
	})
}

// collapse leaves out what other entries of the same kind say already.
func (r *rules) collapse() *rules {
	allows := make(map[string]Access)
	for p, access := range r.allows {
		if p == "/" || level(r.allowed(parent(p))) < level(access) {
			allows[p] = access
		}
	}
	if level(allows["/"]) >= level(r.minimal) {
		r.minimal = ""
	}
	denies := make(map[string]bool)
	for p := range r.denies {
		if p == "/" || !deniedBy(r.denies, parent(p)) {
			denies[p] = true
		}
	}
	r.allows, r.denies = allows, denies
	if len(r.globs) == 0 {
		r.depth = 0
	}
	return r
}

func deniedBy(denies map[string]bool, p string) bool {
	for dir := range ancestors(p) {
		if denies[dir] {
			return true
		}
	}
	return false
}

// prune leaves out allows that are wholly denied as well. Denies stay.
func (r *rules) prune() *rules {
	r.collapse()
	if len(r.opaque) > 0 || r.deniesAll("/") {
		clear(r.allows)
		r.minimal = ""
		return r
	}
	for p := range r.allows {
		if r.deniesAll(p) {
			delete(r.allows, p)
		}
	}
	return r
}

// carve leaves out the denies that cut none of the allows. r must be pruned.
func (r *rules) carve() *rules {
	if !r.grantsFiles() {
		clear(r.denies)
		clear(r.globs)
		clear(r.opaque)
		r.depth = 0
		return r
	}
	if level(r.minimal) > 0 {
		// Any place may be part of it.
		return r
	}
	for p := range r.denies {
		if !r.touched(func(allow string) bool { return touches(p, allow) }) {
			delete(r.denies, p)
		}
	}
	for pattern := range r.globs {
		if !r.touched(func(allow string) bool { return globTouches(pattern, allow) }) {
			delete(r.globs, pattern)
		}
	}
	if len(r.globs) == 0 {
		r.depth = 0
	}
	return r
}

func (r *rules) touched(by func(allow string) bool) bool {
	for allow := range r.allows {
		if by(allow) {
			return true
		}
	}
	return false
}

// profile writes r back.
func (r *rules) profile() Profile {
	var p Profile
	p.Network.All = r.anyHost
	if !r.anyHost {
		p.Network.Hosts = slices.Sorted(maps.Keys(r.hosts))
	}
	entries := make([]Entry, 0, len(r.allows)+len(r.denies)+len(r.globs)+len(r.opaque)+1)
	for path, access := range r.allows {
		entries = append(entries, Literal(path, access))
	}
	if level(r.minimal) > 0 {
		entries = append(entries, Entry{Path{Type: TypeSpecial, Special: Special{Kind: KindMinimal}}, r.minimal})
	}
	for path := range r.denies {
		entries = append(entries, Literal(path, Deny))
	}
	for pattern := range r.globs {
		entries = append(entries, DenyGlob(pattern))
	}
	for path := range r.opaque {
		entries = append(entries, Entry{path, Deny})
	}
	p.FileSystem = FileSystem{Entries: entries, GlobScanMaxDepth: r.depth}
	return p.sorted()
}

// unite gives denies of both sides and the depth that looks as deep as either.
func unite(one, other *rules) *rules {
	r := compile(Profile{})
	for _, side := range []*rules{one, other} {
		maps.Copy(r.denies, side.denies)
		maps.Copy(r.globs, side.globs)
		maps.Copy(r.opaque, side.opaque)
	}
	switch {
	case len(one.globs) == 0:
		r.depth = other.depth
	case len(other.globs) == 0:
		r.depth = one.depth
	case one.depth > 0 && other.depth > 0:
		r.depth = max(one.depth, other.depth)
	}
	return r
}
