package approval

import (
	"fmt"
	"slices"
	"time"
)

// State is where a record stands.
//
//	pending → decided → sent → resolved
//
//	pending            → expired    the deadline passed
//	pending, decided   → cancelled  the run or a person withdrew the request
//	pending, decided   → lost       the lease of the instance ran out
//	decided, writing   → unknown    the same while the answer was being written, or
//	                                writing it failed
//	decided, fenced    → unknown    the same after an action was let start
//	unknown            → resolved   a person looked
//
// A pending record is also rerouted when policy changes, a decided one is marked
// when its answer is about to be written, and a decided or sent one when an action
// is let start on it. What reviewers in shadow said is noted on one that is pending
// no more. They stay in their state.
type State string

// The states. Sent means that the answer was written to the harness, resolved
// that the approval is over. Neither means that the tool ran or succeeded.
const (
	Pending   State = "pending"
	Decided   State = "decided"
	Sent      State = "sent"
	Resolved  State = "resolved"
	Expired   State = "expired"
	Cancelled State = "cancelled"
	Lost      State = "lost"
	// Unknown needs a person: the harness may or may not have heard the answer.
	Unknown State = "unknown"
)

// States lists every state.
var States = []State{Pending, Decided, Sent, Resolved, Expired, Cancelled, Lost, Unknown}

// Live says whether an instance still has to act on a record in this state.
func (s State) Live() bool { return s == Pending || s == Decided || s == Sent }

// From names a record as its caller read it. Transitions refuse any other.
type From struct {
	ID       string
	Revision int64
	// Instance is the process that the caller acts for. "" matches no record.
	Instance string
}

// From returns what names this very revision of the record.
func (r Record) From() From { return From{r.ID, r.Revision, r.Instance} }

// check says whether r is what the caller read and is in one of states.
func (r Record) check(from From, states ...State) error {
	switch {
	case from.ID != r.ID:
		return ErrNotFound
	case from.Instance == "" || from.Instance != r.Instance:
		return ErrInstance
	case from.Revision != r.Revision || !slices.Contains(states, r.State):
		return &ConflictError{Current: r}
	}
	return nil
}

// alive says whether the instance is there to act on the record.
func (r Record) alive(at time.Time) error {
	if !at.Before(r.Lease) {
		return ErrLost
	}
	return nil
}

// next is the record one revision on.
func (r Record) next(s State, at time.Time) Record {
	r.Revision++
	r.State = s
	r.Updated = at
	return r
}

func (r Record) closed(s State, reason, by string, at time.Time) Record {
	n := r.next(s, at)
	n.Closing = &Closing{Reason: RedactText(reason), By: by, At: at}
	return n
}

// open checks that the record still waits for its decision: it is pending, its
// instance lives, and its deadline has not passed.
func (r Record) open(from From, at time.Time) error {
	if err := r.check(from, Pending); err != nil {
		return err
	}
	if err := r.alive(at); err != nil {
		return err
	}
	if !at.Before(r.Deadline) {
		return ErrExpired
	}
	return nil
}

// Reroute gives a pending record to a new ruling. The deadline stays as it is.
func (r Record) Reroute(from From, ruling Ruling, reviewers []ReviewerIdentity, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.open(from, at); err != nil {
		return Record{}, err
	}
	if ruling.Epoch == "" {
		return Record{}, fmt.Errorf("%w: no epoch", ErrInvalid)
	}
	n := r.next(Pending, at)
	n.Ruling = redactRuling(ruling)
	n.Reviewers = slices.Clone(reviewers)
	n.ReviewDeadline = n.reviewUntil(ruling, at)
	return n, nil
}

// Decide records the decision on a pending record that has not expired and whose
// instance lives.
func (r Record) Decide(from From, d Decision, at time.Time) (Record, error) {
	at = Instant(at)
	if err := d.validate(); err != nil {
		return Record{}, err
	}
	if err := r.open(from, at); err != nil {
		return Record{}, err
	}
	i := r.OptionIndex(d.Option)
	if i < 0 {
		return Record{}, fmt.Errorf("%w: %.200s", ErrNotOffered, RedactText(string(d.Option)))
	}
	n := r.next(Decided, at)
	d.Option = r.Options[i]
	d.Reason = RedactText(d.Reason)
	d.Verdicts = redactVerdicts(d.Verdicts)
	d.Rules, d.Observed = redactMatches(d.Rules), redactMatches(d.Observed)
	d.At = at
	n.Decision = &d
	return n, nil
}

func (d Decision) validate() error {
	switch d.Outcome {
	case OutcomeAllow, OutcomeDeny, OutcomeCancel:
	default:
		return fmt.Errorf("%w: unknown outcome %q", ErrInvalid, d.Outcome)
	}
	switch d.Source {
	case SourceRule, SourceReviewer, SourceHuman:
		if d.By == "" {
			return fmt.Errorf("%w: a decision by nobody", ErrInvalid)
		}
	case SourceAuto, SourceGrant, SourceTimeout:
	default:
		return fmt.Errorf("%w: unknown source %q", ErrInvalid, d.Source)
	}
	if d.Source == SourceTimeout && d.Outcome == OutcomeAllow {
		return fmt.Errorf("%w: a timeout never allows", ErrInvalid)
	}
	return nil
}

// BeginSend marks a decided record before its answer is written, so that a crash
// in between is seen afterwards. An answer is begun once only.
func (r Record) BeginSend(from From, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.check(from, Decided); err != nil {
		return Record{}, err
	}
	if !r.Writing.IsZero() {
		return Record{}, &ConflictError{Current: r}
	}
	if err := r.alive(at); err != nil {
		return Record{}, err
	}
	n := r.next(Decided, at)
	n.Writing = at
	return n, nil
}

// MarkSent records that the answer was written to the harness.
func (r Record) MarkSent(from From, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.check(from, Decided); err != nil {
		return Record{}, err
	}
	if r.Writing.IsZero() {
		return Record{}, &ConflictError{Current: r}
	}
	return r.next(Sent, at), nil
}

// MarkUnknown ends a record whose answer could not be written in full: the
// harness may have heard it or not, and a person has to find out.
func (r Record) MarkUnknown(from From, reason string, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.check(from, Decided); err != nil {
		return Record{}, err
	}
	if r.Writing.IsZero() {
		return Record{}, &ConflictError{Current: r}
	}
	return r.closed(Unknown, reason, "", at), nil
}

// Resolve ends a sent record, or an unknown one that a person has looked at; then
// by and reason must say who, and what was found.
func (r Record) Resolve(from From, by, reason string, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.check(from, Sent, Unknown); err != nil {
		return Record{}, err
	}
	if r.State == Unknown && (by == "" || reason == "") {
		return Record{}, fmt.Errorf("%w: an unknown outcome is resolved by someone, for a reason", ErrInvalid)
	}
	return r.closed(Resolved, reason, by, at), nil
}

// Cancel withdraws a record whose answer has not begun to be written, and on which
// no action was let start.
func (r Record) Cancel(from From, by, reason string, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.check(from, Pending, Decided); err != nil {
		return Record{}, err
	}
	if r.mayBeHeard() {
		return Record{}, &ConflictError{Current: r}
	}
	return r.closed(Cancelled, reason, by, at), nil
}

// Expire ends a pending record whose deadline has passed. Before that it is an
// [ErrConflict].
func (r Record) Expire(from From, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.check(from, Pending); err != nil {
		return Record{}, err
	}
	if at.Before(r.Deadline) {
		return Record{}, &ConflictError{Current: r}
	}
	return r.closed(Expired, "nobody answered in time", "", at), nil
}

// Note adds what reviewers in shadow said of a request that waits no more; before
// that it is an [ErrConflict], for nobody who decides may see it. It needs no
// revision and no instance: it says nothing about the answer, and stands beside
// whatever became of the request.
func (r Record) Note(verdicts []Verdict, at time.Time) (Record, error) {
	if r.State == Pending {
		return Record{}, &ConflictError{Current: r}
	}
	if len(verdicts) == 0 {
		return Record{}, fmt.Errorf("%w: no verdict", ErrInvalid)
	}
	for _, v := range verdicts {
		if v.Reviewer == "" || !v.Shadow {
			return Record{}, fmt.Errorf("%w: a verdict of nobody, or of no reviewer in shadow", ErrInvalid)
		}
	}
	n := r.next(r.State, Instant(at))
	n.Shadow = slices.Concat(r.Shadow, redactVerdicts(verdicts))
	return n, nil
}

// mayBeHeard says whether the answer of a decided record may have left: as itself,
// or by way of the fence.
func (r Record) mayBeHeard() bool { return !r.Writing.IsZero() || !r.Fenced.IsZero() }

// Abandon ends a record whose lease has run out: as lost if no answer left, as
// unknown if one may have, and as resolved if it was sent. While the lease
// lasts it is an [ErrConflict].
func (r Record) Abandon(from From, at time.Time) (Record, error) {
	at = Instant(at)
	if err := r.check(from, Pending, Decided, Sent); err != nil {
		return Record{}, err
	}
	if at.Before(r.Lease) {
		return Record{}, &ConflictError{Current: r}
	}
	switch {
	case r.State == Sent:
		return r.closed(Resolved, "the host ended after the answer was sent", "", at), nil
	case !r.Fenced.IsZero():
		return r.closed(Unknown, "the host ended after the action was let start", "", at), nil
	case !r.Writing.IsZero():
		return r.closed(Unknown, "the host ended while the answer was being written", "", at), nil
	default:
		return r.closed(Lost, "the host ended before it had an answer", "", at), nil
	}
}

// Fence lets an action start on the strength of a record, and takes note that it
// did: an approval is good for one start. It has to come right before the start.
// The run and instance must be those that asked ([ErrInstance]) and live
// ([ErrLost]), the digest that of the action that is about to start ([ErrDigest]),
// and the decision must stand ([ErrConflict]), allow ([ErrNotAllowed]), and not
// have been used ([ErrUsed]).
//
// A record that was used says so to whoever has an older revision, too. One that
// has merely moved on is an [ErrConflict], and may be fenced as it is now.
func (r Record) Fence(from From, run, digest string, at time.Time) (Record, error) {
	at = Instant(at)
	switch {
	case from.ID != r.ID:
		return Record{}, ErrNotFound
	case from.Instance == "" || from.Instance != r.Instance || run != r.Run:
		return Record{}, ErrInstance
	case digest == "" || digest != r.Digest:
		return Record{}, ErrDigest
	case r.State != Decided && r.State != Sent:
		return Record{}, &ConflictError{Current: r}
	case r.Decision == nil || r.Decision.Outcome != OutcomeAllow:
		return Record{}, ErrNotAllowed
	case !r.Fenced.IsZero():
		return Record{}, ErrUsed
	}
	if err := r.alive(at); err != nil {
		return Record{}, err
	}
	if err := r.check(from, r.State); err != nil {
		return Record{}, err
	}
	n := r.next(r.State, at)
	n.Fenced = at
	return n, nil
}
