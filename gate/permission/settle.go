package permission

import "fmt"

// Scope is how long a grant lives.
type Scope string

// The scopes, from short to long.
const (
	Once    Scope = "once"
	Turn    Scope = "turn"
	Session Scope = "session"
)

// ParseScope reads a scope. Anything but the three is [ErrScope], also the empty
// text.
func ParseScope(text string) (Scope, error) {
	s := Scope(text)
	if s.rank() == 0 {
		return "", fmt.Errorf("%q: %w", text, ErrScope)
	}
	return s, nil
}

// Within tells whether s is no longer than limit. It is false if either is not a
// scope.
func (s Scope) Within(limit Scope) bool {
	return s.rank() > 0 && s.rank() <= limit.rank()
}

// rank orders scopes; 0 is none.
func (s Scope) rank() int {
	switch s {
	case Once:
		return 1
	case Turn:
		return 2
	case Session:
		return 3
	default:
		return 0
	}
}

// Ceiling is the most that policy lets anyone grant. The zero value lets nobody
// grant anything; see [Unlimited].
type Ceiling struct {
	Permissions Profile `json:"permissions"`
	// Scope is the longest scope; "" is Once.
	Scope Scope `json:"scope,omitempty"`
}

// Unlimited is the ceiling that limits nothing.
func Unlimited() Ceiling { return Ceiling{Everything(), Session} }

// Response is an answer to a request for permissions, whoever gave it.
type Response struct {
	Permissions Profile `json:"permissions"`
	// Scope is Turn if it is empty.
	Scope Scope `json:"scope,omitempty"`
	// StrictAutoReview asks for a review of every later call of the turn.
	StrictAutoReview bool `json:"strict_auto_review,omitempty,omitzero"`
}

// Settlement is what an answer amounts to. This, and not the answer, is what may
// be recorded and told.
type Settlement struct {
	Permissions      Profile `json:"permissions"`
	Scope            Scope   `json:"scope"`
	StrictAutoReview bool    `json:"strict_auto_review,omitempty,omitzero"`
	// OverGrant is true if the answer allows what was not requested, whether or
	// not the ceiling would have stopped it too.
	OverGrant bool      `json:"over_grant,omitempty,omitzero"`
	Dropped   []Dropped `json:"dropped,omitempty"`
}

// Settle works out what response grants: requested ∩ response ∩ ceiling, for no
// longer than the ceiling lasts. All three profiles must be normalised in the
// environment of the request; [Request.Settle] sees to that.
//
// An empty response is a denial and stays as it is. Strict review together with
// session scope contradict each other and grant nothing, for a turn, without
// strict review. With an error, nothing is granted, for a turn.
func Settle(requested Profile, response Response, ceiling Ceiling) (Settlement, error) {
	nothing := Settlement{Scope: Turn}
	scope := response.Scope
	if scope == "" {
		scope = Turn
	}
	longest := ceiling.Scope
	if longest == "" {
		longest = Once
	}
	for _, s := range []Scope{scope, longest} {
		if _, err := ParseScope(string(s)); err != nil {
			return nothing, err
		}
	}
	over := !Covers(requested, response.Permissions)
	if response.StrictAutoReview && scope == Session {
		nothing.OverGrant = over
		nothing.Dropped = []Dropped{Dropped{Side: SideGranted, Scope: scope, Reason: StrictSession}.said()}
		return nothing, nil
	}
	if response.Permissions.IsEmpty() {
		return Settlement{Scope: scope, StrictAutoReview: response.StrictAutoReview}, nil
	}
	effective := IntersectAll(requested, response.Permissions, ceiling.Permissions)
	settled := Settlement{
		Permissions:      effective.Permissions,
		Scope:            scope,
		StrictAutoReview: response.StrictAutoReview,
		OverGrant:        over,
		Dropped:          effective.Dropped,
	}
	if !scope.Within(longest) {
		settled.Scope = longest
		settled.Dropped = append(settled.Dropped,
			Dropped{Side: SideGranted, Scope: scope, By: SideCeiling, Reason: Wider}.said())
	}
	return settled, nil
}

// Request is what was asked, together with the environment in which it is to be
// read. Both stay as they were when it was asked, whatever has become current by
// the time of the answer.
type Request struct {
	Environment Environment `json:"environment"`
	// Permissions are normalised, and grant something.
	Permissions Profile `json:"permissions"`
	// Dropped is what normalising left out.
	Dropped []Dropped `json:"dropped,omitempty"`
}

// NewRequest normalises asked in env, and refuses it with [ErrEmpty] if nothing
// is left to grant.
func NewRequest(asked Profile, env Environment, fsys FS) (Request, error) {
	env.ProjectRoots = append([]string(nil), env.ProjectRoots...)
	p, dropped, err := Normalise(asked, SideRequested, env, fsys)
	if err != nil {
		return Request{}, fmt.Errorf("requested permissions: %w", err)
	}
	if err := RequireNonEmpty(p); err != nil {
		return Request{}, err
	}
	return Request{env, p, dropped}, nil
}

// Settle normalises response and ceiling in the environment of the request, and
// settles as [Settle] does. If the ceiling cannot be normalised nothing is
// granted, since nobody knows what it would have held back.
func (r Request) Settle(response Response, ceiling Ceiling, fsys FS) (Settlement, error) {
	granted, fell, err := Normalise(response.Permissions, SideGranted, r.Environment, fsys)
	if err != nil {
		return Settlement{Scope: Turn}, fmt.Errorf("granted permissions: %w", err)
	}
	limit, missing, err := Normalise(ceiling.Permissions, SideCeiling, r.Environment, fsys)
	if err != nil {
		return Settlement{Scope: Turn}, fmt.Errorf("ceiling: %w", err)
	}
	response.Permissions, ceiling.Permissions = granted, limit
	settled, err := Settle(r.Permissions, response, ceiling)
	if err != nil {
		return settled, err
	}
	// What was not even readable was not asked for either.
	settled.OverGrant = settled.OverGrant || len(fell) > 0
	settled.Dropped = append(append(fell, missing...), settled.Dropped...)
	return settled, nil
}
