package gate

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// Turn is what the turn of a session adds to the ruling on its questions. The
// gate asks it each time that it rules, so that what was revoked or ended
// meanwhile counts for nothing.
type Turn interface {
	// Held is what turn and session were granted where the question runs. It is
	// nothing for a call that asks for more than it has.
	Held() permission.Profile
	// Strict says that every call of the turn is reviewed, also one that nobody
	// would have to answer.
	Strict() bool
	// Accepts tells whether a person has accepted for the session what an
	// acceptance names.
	Accepts(a Acceptance) bool
}

// Acceptance is an action that a person accepted for the rest of a session, or
// could. It names no other action, and counts under no other rules.
type Acceptance struct {
	// Key names the action: see rego.Policy.SessionKey.
	Key string
	// Epoch is the fingerprint of the rules that it was accepted under, and Held
	// that of the rules which waited for a confirmation beside them.
	Epoch, Held string
}

// sessionOptions are offered by a call whose acceptance can be used again.
var sessionOptions = []json.RawMessage{
	json.RawMessage(`"allow"`), json.RawMessage(`"allow_for_session"`), json.RawMessage(`"deny"`), json.RawMessage(`"cancel"`),
}

// rule rules on a question when there is room to. The time until then does not
// count as that of the rules.
func (g *Gate) rule(ctx context.Context, s *Standing, q Question) approval.Ruling {
	ruling := g.ruled(ctx, s, q)
	if len(q.Notes) > 0 {
		ruling.Reasons = append(slices.Clone(q.Notes), ruling.Reasons...)
	}
	return ruling
}

func (g *Gate) ruled(ctx context.Context, s *Standing, q Question) approval.Ruling {
	select {
	case g.ruling <- struct{}{}:
		defer func() { <-g.ruling }()
	case <-ctx.Done(): // the ruling says so
	}
	if q.Turn == nil {
		return s.Rule(ctx, q.Request)
	}
	held := q.Turn.Held()
	ruling := s.RuleHeld(ctx, q.Request, held)
	if ruling.Granted && ruling.Ceiling != nil {
		// What was granted under other rules counts as far as these would grant it.
		ruling = s.RuleHeld(ctx, q.Request, permission.Intersect(held, ruling.Ceiling.Permissions))
	}
	if q.Turn.Strict() {
		return s.strictly(ruling)
	}
	if a, ok := s.acceptance(q.Request, &ruling); ok && q.Turn.Accepts(a) {
		ruling.Route, ruling.Granted = approval.RouteAllow, true
		ruling.Reasons = append([]string{"accepted for the session before"}, ruling.Reasons...)
	}
	return ruling
}

// strictly sends to review what nobody would look at otherwise.
func (s *Standing) strictly(r approval.Ruling) approval.Ruling {
	if r.Route != approval.RouteSkip && r.Route != approval.RouteAllow {
		return r
	}
	const why = "the turn is under strict review"
	r.Granted = false
	if s.Epoch != nil {
		name := s.Epoch.Config.Permissions.ReviewerModel
		if _, ok := s.Epoch.Config.Reviewers[name]; ok {
			r.Route, r.Reviewers = approval.RouteReview, []string{name}
			r.Reasons = append([]string{why}, r.Reasons...)
			return r
		}
	}
	return asked(r, why+", and no reviewer is configured, so a person is asked")
}

// acceptance is what accepting a request for the session would come to. It is
// false where that cannot be: the action has no single reading, nobody is asked
// about it, or a rule wants to be asked each time.
func (s *Standing) acceptance(r *approval.Request, ruling *approval.Ruling) (Acceptance, bool) {
	if s.Epoch == nil || ruling.Route != approval.RouteAsk && ruling.Route != approval.RouteReview || ruling.Failure != nil {
		return Acceptance{}, false
	}
	if c := ruling.Ceiling; c != nil && !permission.Session.Within(c.Scope) {
		return Acceptance{}, false
	}
	brief := func(m approval.Match) bool { return m.Scope != "" && m.Scope != permission.Session }
	if slices.ContainsFunc(ruling.Rules, brief) {
		return Acceptance{}, false
	}
	key, ok := s.Epoch.Policy.SessionKey(r)
	a := Acceptance{Key: key, Epoch: s.ID()}
	if s.Held != nil {
		a.Held = s.Held.ID
	}
	return a, ok
}

// offerSession adds the answer for the session to a question whose asker has a
// session to remember it, and offered nothing of its own.
func (s *Standing) offerSession(q *Question, ruling *approval.Ruling) {
	if q.Turn == nil || len(q.Request.Options) > 0 {
		return
	}
	if _, ok := s.acceptance(q.Request, ruling); ok {
		request := *q.Request
		request.Options = sessionOptions
		q.Request = &request
	}
}

// accepted is what the answer of a record accepts for the session, if it does.
// Rules that have changed since it was asked take the acceptance with them.
func (w *wait) accepted(r *approval.Record) *Acceptance {
	if w.question.Turn == nil || r.Decision == nil || r.Decision.Source != approval.SourceHuman {
		return nil
	}
	m, known := approval.OptionMeaning(r.Decision.Option)
	if !known || m.Outcome != approval.OutcomeAllow || m.Scope != permission.Session || m.Lasting {
		return nil
	}
	standing := w.ruledBy(nil)
	if standing.ID() != r.Ruling.Epoch {
		return nil
	}
	if a, ok := standing.acceptance(w.question.Request, &r.Ruling); ok {
		return &a
	}
	return nil
}
