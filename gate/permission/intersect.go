package permission

import (
	"fmt"
	"slices"
	"strings"
)

// Intersect returns what both profiles allow and neither denies. The order of
// the two does not matter.
//
// Of two places one of which holds the other, the inner one is left, with the
// weaker access: a narrower grant survives, a wider one is clipped, and a grant
// to write something that was asked for reading is a grant to read it. Denies of
// both sides are kept as far as they may cut what is left, and never alone. If a
// deny of unknown extent is among them, no path is left.
func Intersect(requested, granted Profile) Profile {
	return meet(compile(requested), compile(granted)).profile()
}

func meet(one, other *rules) *rules {
	r := unite(one, other)
	r.anyHost = one.anyHost && other.anyHost
	for _, sides := range [][2]*rules{{one, other}, {other, one}} {
		mine, theirs := sides[0], sides[1]
		for host := range mine.hosts {
			if theirs.anyHost || theirs.hosts[host] {
				r.hosts[host] = true
			}
		}
		for p, access := range mine.allows {
			if access = weaker(access, theirs.allowed(p)); level(access) > 0 {
				r.allows[p] = stronger(r.allows[p], access)
			}
		}
	}
	r.minimal = weaker(one.allowedMinimal(), other.allowedMinimal())
	return r.prune().carve()
}

// Side tells whose entry something is about.
type Side string

// The sides of an intersection.
const (
	SideRequested Side = "requested"
	SideGranted   Side = "granted"
	SideCeiling   Side = "ceiling"
)

// Reason tells why something was dropped. The values are stable.
type Reason string

// The reasons. Those from Outside to UnknownDeny name the side that limits.
const (
	// Outside means the limiting side has nothing there.
	Outside Reason = "outside"
	// Wider means the limiting side has only a part of it.
	Wider Reason = "wider"
	// MoreAccess means the limiting side only reads there.
	MoreAccess Reason = "more_access"
	// DeniedThere means the limiting side denies all of it.
	DeniedThere Reason = "denied"
	// PartlyDenied means the limiting side denies something in it.
	PartlyDenied Reason = "partly_denied"
	// UnknownDeny means the limiting side has a deny whose extent is unknown, so
	// that it denies every path.
	UnknownDeny Reason = "unknown_deny"

	// CutsNothing means a deny went because no allow was left for it to cut.
	CutsNothing Reason = "cuts_nothing"
	// SelfDenied means the side that allows it also denies it.
	SelfDenied Reason = "self_denied"
	// BadHost means a granted host is not a plain name or address.
	BadHost Reason = "bad_host"
	// NowhereHere means a special place is not known in the environment.
	NowhereHere Reason = "unresolved"
	// NotNormalised means an entry does not have the form that Normalise gives.
	NotNormalised Reason = "not_normalised"
	// StrictSession means strict review was asked for a whole session, which
	// empties a grant.
	StrictSession Reason = "strict_session"
)

// Dropped is a part of a profile, or a scope, that did not become effective as
// it was written. Exactly one of Entry, Network and Scope is set, except for
// StrictSession.
type Dropped struct {
	// Side is whose part it was.
	Side    Side     `json:"side"`
	Entry   *Entry   `json:"entry,omitempty"`
	Network *Network `json:"network,omitempty"`
	Scope   Scope    `json:"scope,omitempty"`
	// By is the side that limited it, where there is one.
	By     Side   `json:"by,omitempty"`
	Reason Reason `json:"reason"`
	// Message says the same in words.
	Message string `json:"message"`
}

// said fills in the words.
func (d Dropped) said() Dropped {
	by := map[Side]string{SideRequested: "the request", SideGranted: "the grant", SideCeiling: "the ceiling"}[d.By]
	switch d.Reason {
	case Outside:
		d.Message = "not in " + by
	case Wider:
		d.Message = "wider than " + by
	case MoreAccess:
		d.Message = "more access than " + by + " has there"
	case DeniedThere:
		d.Message = "denied by " + by
	case PartlyDenied:
		d.Message = by + " denies a part of it"
	case UnknownDeny:
		d.Message = by + " has a deny of unknown extent, which denies every path"
	case CutsNothing:
		d.Message = "a deny that cuts nothing that is left"
	case SelfDenied:
		d.Message = "allowed and denied by the same profile"
	case BadHost:
		d.Message = ErrHost.Error()
	case NowhereHere:
		d.Message = "special place is not known in this environment"
	case NotNormalised:
		d.Message = "not in normalised form"
	case StrictSession:
		d.Message = "strict review does not go with session scope, so nothing is granted"
	default:
		d.Message = string(d.Reason)
	}
	return d
}

// String is d for people, as in "granted write /w: wider than the request".
func (d Dropped) String() string {
	what := "network"
	switch {
	case d.Entry != nil:
		what = d.Entry.String()
	case d.Network != nil && !d.Network.All:
		what += " " + strings.Join(d.Network.Hosts, " ")
	case d.Scope != "":
		what = "scope " + string(d.Scope)
	}
	return fmt.Sprintf("%s %s: %s", d.Side, what, d.Message)
}

// Intersection is an effective profile and what it took to get there.
type Intersection struct {
	Permissions Profile `json:"permissions"`
	// Dropped is sorted by side, then place.
	Dropped []Dropped `json:"dropped,omitempty"`
}

// IntersectAll returns requested ∩ granted ∩ ceiling, and what was dropped from
// the request and from the grant. Pass [Everything] where no ceiling is set; the
// zero Profile as ceiling allows nothing.
func IntersectAll(requested, granted, ceiling Profile) Intersection {
	asked, offered, limit := compile(requested), compile(granted), compile(ceiling)
	var dropped []Dropped
	note := func(side Side, found ...Dropped) {
		for _, d := range found {
			d.Side = side
			dropped = append(dropped, d.said())
		}
	}
	note(SideRequested, asked.ignored...)
	note(SideGranted, offered.ignored...)
	note(SideCeiling, limit.ignored...)
	note(SideRequested, asked.selfDenied()...)
	note(SideGranted, offered.selfDenied()...)
	both := meet(asked, offered)
	note(SideGranted, beyond(asked, offered, SideRequested)...)
	note(SideRequested, beyond(offered, asked, SideGranted)...)
	note(SideGranted, beyond(limit, both, SideCeiling)...)
	all := meet(both, limit)
	note(SideRequested, cutNothing(compile(requested), all)...)
	note(SideGranted, cutNothing(compile(granted), all)...)
	slices.SortStableFunc(dropped, compareDropped)
	return Intersection{all.profile(), slices.CompactFunc(dropped, func(one, two Dropped) bool {
		return compareDropped(one, two) == 0 && one.Reason == two.Reason && one.By == two.By
	})}
}
