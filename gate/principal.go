package gate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
)

// Role is what a principal is to a home.
type Role string

// The roles.
const (
	// RoleLocal is the administrator at this machine: whoever reaches the
	// daemon's socket as the user it runs as, and is no agent. The command line
	// without --principal is that.
	RoleLocal Role = "local"
	// RoleOwner answers the requests of the sessions that they are a member of.
	RoleOwner Role = "owner"
	// RoleMember sees the requests of their sessions and answers none.
	RoleMember Role = "member"
	// RoleObserver sees every request and answers none.
	RoleObserver Role = "observer"
	// RoleAgent asks. It sees what it asked, and answers nothing.
	RoleAgent Role = "agent"
)

// Principal is who speaks. It is found out at the edge, and the gate goes by it.
type Principal struct {
	// ID is as in principals of config.yaml, such as user:sam.
	ID   string `json:"id"`
	Role Role   `json:"role"`
	// Proven says that fresh proof of who speaks came along: see
	// principals.step_up.
	Proven bool `json:"proven,omitempty,omitzero"`
	// Enrolled says that there is something to prove it by.
	Enrolled bool `json:"enrolled,omitempty,omitzero"`
}

// ErrForbidden means that this principal may not do this. Somebody else may.
var ErrForbidden = errors.New("not allowed for this principal")

// ErrStepUp means that an answer which allows needs fresh proof of who gives
// it. Nothing was decided; give it again with the proof.
var ErrStepUp = errors.New("this answer needs fresh proof of who gives it")

// Named returns the principal with an id, as a configuration has it; false where
// it names nobody. Names that begin with agent: are agents, whatever the
// configuration says.
func Named(c *config.Config, id string) (Principal, bool) {
	if IsAgent(id) {
		return Principal{ID: id, Role: RoleAgent}, true
	}
	if slices.Contains(c.Principals.Owner, id) {
		return Principal{ID: id, Role: RoleOwner}, true
	}
	switch role, ok := c.Principals.Members[id]; {
	case !ok:
		return Principal{}, false
	case role == config.RoleMember:
		return Principal{ID: id, Role: RoleMember}, true
	default: // to look is the least that a name can stand for
		return Principal{ID: id, Role: RoleObserver}, true
	}
}

// IsAgent tells whether an id is that of an agent.
func IsAgent(id string) bool {
	const prefix = "agent:"
	return len(id) >= len(prefix) && id[:len(prefix)] == prefix
}

// MayAdminister says whether p may change what calls are ruled by: trust a
// workspace, confirm what loosens. It is nil or an [ErrForbidden].
func (p Principal) MayAdminister() error {
	switch p.Role {
	case RoleLocal, RoleOwner:
		return nil
	default:
		return fmt.Errorf("%w: %s is %s; only an owner or the local administrator may", ErrForbidden, p.name(), p.role())
	}
}

// MaySee says whether p may read r.
func (p Principal) MaySee(r *approval.Record) bool {
	switch p.Role {
	case RoleLocal, RoleOwner, RoleObserver:
		return true
	case RoleMember:
		return memberOf(p.ID, r.Request)
	case RoleAgent:
		return p.ID != "" && r.Request.Subject != nil && r.Request.Subject.ID == p.ID
	default:
		return false
	}
}

// MayAnswer says whether p may decide r. It is nil or an [ErrForbidden].
func (p Principal) MayAnswer(r *approval.Record) error {
	if s := r.Request.Subject; s != nil && s.ID != "" && s.ID == p.ID {
		return fmt.Errorf("%w: %s asked this, and nobody answers their own request", ErrForbidden, p.name())
	}
	switch p.Role {
	case RoleLocal:
		return nil
	case RoleOwner:
		if r.Request.Session == nil || r.Request.Session.ID == "" {
			return fmt.Errorf("%w: the request belongs to no session, so only the local administrator answers it", ErrForbidden)
		}
		if !memberOf(p.ID, r.Request) {
			return fmt.Errorf("%w: %s is no member of session %s", ErrForbidden, p.name(), r.Request.Session.ID)
		}
		return nil
	default:
		return fmt.Errorf("%w: %s is %s and answers nothing", ErrForbidden, p.name(), p.role())
	}
}

// memberOf tells whether a principal belongs to the session of a request: the
// session acts on their behalf, or its host lists them.
func memberOf(id string, r *approval.Request) bool {
	if id == "" {
		return false
	}
	if r.Subject != nil && r.Subject.OnBehalfOf == id {
		return true
	}
	return r.Session != nil && slices.Contains(r.Session.Members, id)
}

func (p Principal) name() string {
	if p.ID == "" {
		return "the caller"
	}
	return p.ID
}

func (p Principal) role() string {
	switch p.Role {
	case "":
		return "nobody here"
	case RoleMember:
		return "a member"
	case RoleLocal:
		return "the local administrator"
	default:
		return "an " + string(p.Role)
	}
}
