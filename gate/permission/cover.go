package permission

import (
	"cmp"
	"maps"
	"slices"
)

// Covers tells whether everything that other allows, limit allows too, on every
// volume. Denies in other count for what they cut. Where two patterns would have
// to be compared it only knows equal ones to be alike and answers no otherwise.
func Covers(limit, other Profile) bool {
	return len(beyond(compile(limit), compile(other), "")) == 0
}

// beyond prunes r and finds what it allows beyond limit; by names the limit in the
// findings.
func beyond(limit, r *rules, by Side) []Dropped {
	r.prune()
	var found []Dropped
	network := func(n Network, reason Reason) {
		found = append(found, Dropped{Network: &n, By: by, Reason: reason})
	}
	switch {
	case limit.anyHost:
	case r.anyHost && len(limit.hosts) > 0:
		network(Network{All: true}, Wider)
	case r.anyHost:
		network(Network{All: true}, Outside)
	default:
		for _, host := range slices.Sorted(maps.Keys(r.hosts)) {
			if !limit.hosts[host] {
				network(Network{Hosts: []string{host}}, Outside)
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(r.allows)) {
		if reason, ok := limit.holds(r, p, r.allows[p]); !ok {
			e := Literal(p, r.allows[p])
			found = append(found, Dropped{Entry: &e, By: by, Reason: reason})
		}
	}
	if level(r.minimal) > 0 {
		if reason, ok := limit.holdsMinimal(r); !ok {
			e := Entry{Path{Type: TypeSpecial, Special: Special{Kind: KindMinimal}}, r.minimal}
			found = append(found, Dropped{Entry: &e, By: by, Reason: reason})
		}
	}
	return found
}

// holds tells whether limit allows all that r allows at p and below.
func (limit *rules) holds(r *rules, p string, access Access) (Reason, bool) {
	if len(limit.opaque) > 0 {
		return UnknownDeny, false
	}
	if limit.deniesAll(p) {
		return DeniedThere, false
	}
	switch has := limit.allowed(p); {
	case level(has) >= level(access):
	case level(has) > 0:
		return MoreAccess, false
	case limit.touched(func(allow string) bool { return under(p, allow) }), p == "/" && level(limit.minimal) > 0:
		return Wider, false
	default:
		return Outside, false
	}
	for d := range limit.denies {
		if touches(d, p) && !r.deniesAll(d) {
			return PartlyDenied, false
		}
	}
	for pattern := range limit.globs {
		if globTouches(pattern, p) && !r.deniesGlob(pattern) {
			return PartlyDenied, false
		}
	}
	return "", true
}

func (limit *rules) holdsMinimal(r *rules) (Reason, bool) {
	switch has := limit.allowedMinimal(); {
	case len(limit.opaque) > 0:
		return UnknownDeny, false
	case limit.deniesAll("/"):
		return DeniedThere, false
	case level(has) == 0:
		return Outside, false
	case level(has) < level(r.minimal):
		return MoreAccess, false
	}
	// Any place may be part of what is minimal.
	for d := range limit.denies {
		if !r.deniesAll(d) {
			return PartlyDenied, false
		}
	}
	for pattern := range limit.globs {
		if !r.deniesGlob(pattern) {
			return PartlyDenied, false
		}
	}
	return "", true
}

// deniesGlob tells whether r denies whatever pattern matches, as far as it can be
// told without comparing two patterns.
func (r *rules) deniesGlob(pattern string) bool {
	return r.globs[pattern] || r.deniesAll(literalPrefix(pattern))
}

// selfDenied finds allows of r that its own denies take away whole.
func (r *rules) selfDenied() []Dropped {
	var found []Dropped
	for _, p := range slices.Sorted(maps.Keys(r.allows)) {
		if len(r.opaque) > 0 || r.deniesAll(p) {
			e := Literal(p, r.allows[p])
			found = append(found, Dropped{Entry: &e, Reason: SelfDenied})
		}
	}
	if level(r.minimal) > 0 && (len(r.opaque) > 0 || r.deniesAll("/")) {
		e := Entry{Path{Type: TypeSpecial, Special: Special{Kind: KindMinimal}}, r.minimal}
		found = append(found, Dropped{Entry: &e, Reason: SelfDenied})
	}
	return found
}

// cutNothing finds the denies of r that left has no more, and no wider ones for.
func cutNothing(r, left *rules) []Dropped {
	var found []Dropped
	lost := func(e Entry) { found = append(found, Dropped{Entry: &e, Reason: CutsNothing}) }
	for _, p := range slices.Sorted(maps.Keys(r.denies)) {
		if !deniedBy(left.denies, p) {
			lost(Literal(p, Deny))
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(r.globs)) {
		if !left.globs[pattern] {
			lost(DenyGlob(pattern))
		}
	}
	for _, p := range r.opaquePlaces() {
		if !left.opaque[p] {
			lost(Entry{p, Deny})
		}
	}
	return found
}

// compareDropped sorts for reading: side, network first, then place.
func compareDropped(one, two Dropped) int {
	order := map[Side]int{SideRequested: 0, SideGranted: 1, SideCeiling: 2}
	host := func(d Dropped) string {
		if d.Network == nil || len(d.Network.Hosts) == 0 {
			return ""
		}
		return d.Network.Hosts[0]
	}
	entry := func(d Dropped) Entry {
		if d.Entry == nil {
			return Entry{}
		}
		return *d.Entry
	}
	kind := func(d Dropped) int {
		switch {
		case d.Network != nil:
			return 0
		case d.Entry != nil:
			return 1
		default:
			return 2
		}
	}
	return cmp.Or(
		cmp.Compare(order[one.Side], order[two.Side]),
		cmp.Compare(kind(one), kind(two)),
		cmp.Compare(host(one), host(two)),
		compareEntries(entry(one), entry(two)),
		cmp.Compare(one.Scope, two.Scope),
		cmp.Compare(one.By, two.By),
		cmp.Compare(one.Reason, two.Reason),
	)
}
