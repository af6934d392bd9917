package approval

import (
	"errors"
	"fmt"
)

// What a ledger and the transitions answer when they do not do what was asked.
// Nothing was changed then, but for the evidence of a late answer.
var (
	// ErrConflict means that the record moved on after the caller read it. Read
	// it again; do not retry the same decision blindly.
	ErrConflict = errors.New("approval changed since it was read")
	// ErrExpired means that the deadline has passed, whether or not anybody has
	// noticed yet. The answer does not count; the agent has to ask anew.
	ErrExpired = errors.New("approval expired; ask anew")
	// ErrLost means that the lease of the waiting instance ran out. Nobody is
	// there to act on an answer; a new instance has to ask anew.
	ErrLost = errors.New("the host that asked is gone; ask anew")
	// ErrNotOffered means that a decision is none of the record's options. Take
	// one of them, verbatim.
	ErrNotOffered = errors.New("the decision is not among the options")
	// ErrNotFound means that there is no such record.
	ErrNotFound = errors.New("no such approval")
	// ErrExists means that a record of this id is there already. It was not
	// replaced.
	ErrExists = errors.New("an approval of this id exists")
	// ErrInstance means that the record belongs to another run or instance.
	ErrInstance = errors.New("the approval belongs to another instance")
	// ErrDigest means that the action is not the one that was decided.
	ErrDigest = errors.New("the action is not the one that was approved")
	// ErrNotAllowed means that the decision is not one to run the action.
	ErrNotAllowed = errors.New("the approval does not allow the action")
	// ErrUsed means that an action was let start on the approval before. It is not
	// known whether it ran. A new action needs a new approval.
	ErrUsed = errors.New("the approval was used already; ask anew")
	// ErrInvalid means that a record or decision is malformed, a fault of the
	// calling program.
	ErrInvalid = errors.New("malformed approval")
	// ErrFull means that the store has no room left. Nothing was recorded, so
	// nothing may run on it: ask again later or deny.
	ErrFull = errors.New("the ledger has no room left")
	// ErrDamaged means that the store is not what was written to it, or no longer
	// where it was. Nothing in it may be acted on before a person has looked.
	ErrDamaged = errors.New("the ledger is damaged")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("the ledger is closed")
)

// ConflictError carries the record that won. It wraps [ErrConflict], and matches
// [ErrExpired] or [ErrLost] too if that is how the record ended.
type ConflictError struct{ Current Record }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%v: now %s at revision %d", ErrConflict, e.Current.State, e.Current.Revision)
}

// Unwrap returns [ErrConflict].
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Is lets callers ask what has to be told to the agent.
func (e *ConflictError) Is(target error) bool {
	return target == ErrExpired && e.Current.State == Expired || target == ErrLost && e.Current.State == Lost
}
