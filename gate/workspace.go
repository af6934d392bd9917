package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

// NoEpoch stands in rulings and records where no rules could be loaded at all.
const NoEpoch = "none"

// Workspace is a folder whose calls are ruled by one set of rules at a time. It
// is safe for concurrent use.
type Workspace struct {
	// Dir is the folder that holds the config.yaml, symbolic links resolved; ""
	// is for calls outside any workspace, which the home alone speaks for.
	Dir string

	standing atomic.Pointer[Standing]
	mu       sync.Mutex // orders installs
	// waits counts the requests that wait in it.
	waits atomic.Int64
}

// NewWorkspace returns a workspace that stands as s says.
func NewWorkspace(dir string, s Standing) *Workspace {
	w := &Workspace{Dir: dir}
	w.Install(s)
	return w
}

// Standing returns what calls are ruled by now. A caller takes it once for one
// decision.
func (w *Workspace) Standing() *Standing { return w.standing.Load() }

// Install makes s what calls are ruled by from here on. Requests that wait are
// routed again by it; what was decided stays decided.
func (w *Workspace) Install(s Standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.replaced = make(chan struct{})
	if before := w.standing.Swap(&s); before != nil {
		close(before.replaced)
	}
}

// Standing is what the calls of a workspace are ruled by at one moment. It does
// not change; another one takes its place.
type Standing struct {
	// Epoch holds the rules in force; nil where none could ever be loaded, and
	// then everything is asked.
	Epoch *Epoch
	// Settings are for the time without an epoch.
	Settings rego.Settings
	// Fault says why what the files say now is not in force, and Since when that
	// was first seen. It is nil where they are.
	Fault error
	Since time.Time
	// Gone means that a config.yaml was removed. The last good rules stay, but for
	// the modes that allow by themselves: a missing file does not say auto_allow.
	Gone bool
	// Held is what an edit made that loosens and that nobody has confirmed. While
	// it waits, calls are ruled by both, and the stricter ruling counts.
	Held *Epoch
	// Unconfirmed means that Epoch itself waits for a confirmation: it was changed
	// while nothing of it was in force. What it would let pass is asked.
	Unconfirmed bool
	// Loosened says in words what waits.
	Loosened []string

	replaced chan struct{}
}

// Replaced is closed when another standing has taken the place of this one.
func (s *Standing) Replaced() <-chan struct{} { return s.replaced }

// ID is the fingerprint of the rules in force, or [NoEpoch].
func (s *Standing) ID() string {
	if s.Epoch == nil {
		return NoEpoch
	}
	return s.Epoch.ID
}

// Rule says who answers a request, and why. Like rego.Policy.Rule it does not
// fail.
func (s *Standing) Rule(ctx context.Context, r *approval.Request) approval.Ruling {
	return s.RuleHeld(ctx, r, permission.Profile{})
}

// RuleHeld is Rule for one who holds permissions already: see
// rego.Policy.RuleHeld.
func (s *Standing) RuleHeld(ctx context.Context, r *approval.Request, held permission.Profile) approval.Ruling {
	if s.Epoch == nil {
		ruling := rego.Unloaded(s.Fault, s.Settings)
		ruling.Epoch = NoEpoch
		return ruling
	}
	ruling := s.Epoch.Policy.RuleHeld(ctx, r, held)
	if s.Held != nil {
		ruling = stricter(ruling, s.Held.Policy.RuleHeld(ctx, r, held))
	}
	switch {
	case s.Unconfirmed && (ruling.Route == approval.RouteAllow || ruling.Route == approval.RouteSkip):
		ruling = asked(ruling, unconfirmed)
	case s.Gone && ruling.Route == approval.RouteAllow && !ruling.Granted && !allowedByRule(ruling):
		ruling = asked(ruling, "config.yaml is gone, and with it the mode that would allow this")
	}
	return ruling
}

// Verdict says what the verdicts on a request come to. Like rego.Policy.Verdict it
// does not fail. Where two sets of rules wait for a confirmation it is what the
// stricter of them says.
func (s *Standing) Verdict(ctx context.Context, r *approval.Request, ruling *approval.Ruling, verdicts []approval.Verdict) approval.VerdictRuling {
	if s.Epoch == nil {
		return approval.VerdictRuling{
			Decision: approval.VerdictsAsk, Reasons: []string{"no rules are loaded, so a person is asked"}, Rules: []approval.Match{},
		}
	}
	said := s.Epoch.Policy.Verdict(ctx, r, ruling, verdicts)
	if s.Held != nil {
		if other := s.Held.Policy.Verdict(ctx, r, ruling, verdicts); severity(other.Decision) > severity(said.Decision) {
			said = other
		}
	}
	if s.Unconfirmed && said.Decision == approval.VerdictsAllow {
		said.Decision, said.By = approval.VerdictsAsk, ""
		said.Reasons = append([]string{unconfirmed}, said.Reasons...)
	}
	return said
}

// severity orders decisions on verdicts by how much they hold back.
func severity(d approval.VerdictDecision) int {
	switch d {
	case approval.VerdictsAllow:
		return 0
	case approval.VerdictsDeny:
		return 2
	case approval.VerdictsCancel:
		return 3
	default:
		return 1
	}
}

// unconfirmed is why a person is asked about what rules would let pass.
const unconfirmed = "the rules changed while they were not in force, and nobody has confirmed them (regent policy confirm)"

// asked is a ruling with a person in place of what it would let pass.
func asked(r approval.Ruling, why string) approval.Ruling {
	r.Route, r.Granted = approval.RouteAsk, false
	r.Reasons = append([]string{why}, r.Reasons...)
	return r
}

func allowedByRule(r approval.Ruling) bool {
	return slices.ContainsFunc(r.Rules, func(m approval.Match) bool { return m.Decision == string(approval.RouteAllow) })
}

// strictness orders routes by how much they hold back. A route that is not
// known holds back everything.
func strictness(r approval.Route) int {
	order := []approval.Route{approval.RouteSkip, approval.RouteAllow, approval.RouteReview, approval.RouteAsk, approval.RouteDeny}
	if i := slices.Index(order, r); i >= 0 {
		return i
	}
	return len(order)
}

// stricter is the ruling of two that holds back more, and the first where they
// hold back the same. No more may be granted than both let anyone grant.
func stricter(first, second approval.Ruling) approval.Ruling {
	out, other := first, second
	if strictness(second.Route) > strictness(first.Route) {
		out, other = second, first
	}
	switch {
	case other.Ceiling == nil:
	case out.Ceiling == nil:
		out.Ceiling = other.Ceiling
	default:
		met := permission.Ceiling{
			Permissions: permission.Intersect(out.Ceiling.Permissions, other.Ceiling.Permissions),
			Scope:       out.Ceiling.Scope,
		}
		if other.Ceiling.Scope.Within(met.Scope) || other.Ceiling.Scope == "" {
			met.Scope = other.Ceiling.Scope
		}
		out.Ceiling = &met
	}
	return out
}

// Describe says in a word how a workspace stands, and in a sentence why.
func (s *Standing) Describe() (word, why string) {
	switch {
	case s.Epoch == nil:
		return "asking", fmt.Sprintf("no rules are loaded, so everything is asked: %v", s.Fault)
	case s.Gone:
		return "stale", fmt.Sprintf("the last good rules are in force, without the modes that allow by themselves: %v", s.Fault)
	case s.Fault != nil:
		return "stale", fmt.Sprintf("the last good rules are in force: %v", s.Fault)
	case s.Unconfirmed:
		return "unconfirmed", "what the rules would let pass is asked until they are confirmed"
	case s.Held != nil:
		return "held", "an edit loosens; until it is confirmed the stricter of before and after counts"
	default:
		return "current", ""
	}
}
