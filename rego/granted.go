package rego

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// GrantFacts says what of a call is within the permissions that its turn or
// session holds: for each kind of access, whether all that the call is known to do
// of it is. Where it names nothing, only permissions for everything hold it.
type GrantFacts struct {
	Read    bool `json:"read"`
	Write   bool `json:"write"`
	Network bool `json:"network"`
	// Permissions is true when the request asks for no permissions but such as are
	// held already.
	Permissions bool `json:"permissions"`
}

// RuleHeld is [Policy.Rule] for a request whose turn or session holds permissions:
// a call that stays within them is allowed where no rule says otherwise, and the
// ruling says so by Granted. held is what is held in the request's environment,
// normalised there; the zero profile is none.
func (p *Policy) RuleHeld(ctx context.Context, r *approval.Request, held permission.Profile) approval.Ruling {
	in := p.facts.input(r)
	in.hold(held)
	return p.rule(ctx, in)
}

// hold adds what is held to the facts.
func (in *Input) hold(held permission.Profile) {
	if held.IsEmpty() || !held.Grants() {
		return
	}
	at := newPlace(in.Environment)
	in.Facts.Granted = &GrantFacts{
		Read:        in.Facts.within(held, permission.Read, in.Facts.Paths.Read, at),
		Write:       in.Facts.within(held, permission.Write, in.Facts.Paths.Write, at),
		Network:     reachable(held.Network, in.Facts.Hosts),
		Permissions: in.Request.Permissions == nil || had(held, *in.Request.Permissions, at),
	}
}

// within reports whether held gives access to all of names, and to whatever the
// call may reach below them.
func (f *Facts) within(held permission.Profile, access permission.Access, names []string, at *place) bool {
	if len(f.Paths.Unresolved) > 0 {
		return false
	}
	decide := permission.DecideTree
	switch {
	case len(names) == 0:
		names = []string{"/"} // it may be anywhere
	case f.single():
		decide = permission.Decide
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		// A name with a pattern in it may mean other files, behind links too.
		return strings.ContainsAny(name, "*?[{") || decide(held, access, name, at.fsys).Outcome != permission.Allowed
	})
}

// single reports whether every path of the call is that of one file, so that
// nothing below it is meant: it is one, or nothing is there that could be more. What
// comes from the network may be a whole folder.
func (f *Facts) single() bool {
	if len(f.Hosts)+len(f.URLs) > 0 {
		return false
	}
	for _, names := range [][]string{f.Paths.Read, f.Paths.Write} {
		for _, name := range names {
			if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() || err != nil && !os.IsNotExist(err) {
				return false
			}
		}
	}
	return true
}

// reachable reports whether the network that is held has all of hosts. A call that
// names none may reach any.
func reachable(held permission.Network, hosts []string) bool {
	if held.All {
		return true
	}
	return len(hosts) > 0 && !slices.ContainsFunc(hosts, func(name string) bool {
		host, err := permission.ParseHost(name)
		return err != nil || !slices.Contains(held.Hosts, host)
	})
}

// had reports whether a profile that is asked for is held already, all of it.
func had(held, asked permission.Profile, at *place) bool {
	profile, dropped, err := permission.Normalise(asked, permission.SideRequested, at.env, at.fsys)
	return err == nil && len(dropped) == 0 && permission.Covers(held, profile)
}
