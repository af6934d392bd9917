package api

import (
	"net/http"

	"github.com/regent-policy/regent/gate/approval"
)

// Code says what kind of error it is. Programs go by it; the message is for
// people.
type Code string

// The codes. What the ones that name a state of a record ask for is at the
// errors of package approval.
const (
	// BadRequest is a body, a parameter or a header that is not as it has to be.
	BadRequest Code = "bad_request"
	// MalformedRequest is a fault of the request that was asked about, at Pointer.
	MalformedRequest Code = "malformed_request"
	// Invalid is a decision or a grant that makes no sense for the record.
	Invalid Code = "invalid"
	// NotOffered is a decision that is none of the record's options.
	NotOffered Code = "not_offered"
	// Unplaced is a grant of a path that the environment of the request does not
	// have. Nothing was granted, and the turn was interrupted.
	Unplaced Code = "unplaced"
	// AgentPID is a process that neither started the caller nor was started by it.
	AgentPID Code = "agent_pid"

	// Unauthorized is a token that is missing, unknown, expired or revoked.
	Unauthorized Code = "unauthorized"
	// StepUp asks for the call to be made again with a proof of who makes it.
	StepUp Code = "step_up"
	// WrongProof is a proof that is not the one which was enrolled, or was used
	// already. Nothing was decided.
	WrongProof Code = "wrong_proof"
	// NotEnrolled is a proof of somebody who has enrolled none.
	NotEnrolled Code = "not_enrolled"

	// Forbidden is what this principal may not do. Somebody else may.
	Forbidden Code = "forbidden"
	// UnknownPrincipal is a name that the home's configuration does not know.
	UnknownPrincipal Code = "unknown_principal"
	// CrossOrigin is a call that a web page of another origin made.
	CrossOrigin Code = "cross_origin"
	// Denied is an answer that allows what policy denies by now.
	Denied Code = "denied"

	// NotFound is a record that is not there, or that the caller may not see.
	NotFound Code = "not_found"
	// NoRoute is a path that the API does not have.
	NoRoute Code = "no_route"
	// NoEpoch is a set of rules that is not loaded, or is no more.
	NoEpoch Code = "no_epoch"
	// NoWorkspace is a folder that is no workspace.
	NoWorkspace Code = "no_workspace"
	// NoSession is a session that is not open, or not the caller's: it ended, or the
	// daemon was started anew. Open it again.
	NoSession Code = "no_session"
	// NoTurn is a turn that the session does not have.
	NoTurn Code = "no_turn"
	// NoCall is a call that the session does not have.
	NoCall Code = "no_call"
	// NoGrant is a grant that is not held, or is no more.
	NoGrant Code = "no_grant"
	// MethodNotAllowed is a path that has other methods; Allow lists them.
	MethodNotAllowed Code = "method_not_allowed"
	// Timeout is a body that took too long to arrive.
	Timeout Code = "timeout"

	// Instance is a record that belongs to another run or instance.
	Instance Code = "instance"
	// Digest is an action that is not the one which was decided.
	Digest Code = "digest"
	// NotAllowed is a record that does not allow the action.
	NotAllowed Code = "not_allowed"
	// Used is an approval that an action was let start on before. A new action needs
	// a new one.
	Used Code = "used"
	// Operand is a file that the action runs and that has changed since it was asked
	// about. Ask anew.
	Operand Code = "operand"
	// Exists is an id that is taken: of a record, a session, a turn or a call.
	Exists Code = "exists"
	// TurnOver is a turn that takes no more calls.
	TurnOver Code = "turn_over"
	// Settled is a call that cannot be cancelled: what becomes of it is settled.
	Settled Code = "settled"
	// Unmatched is a response to a call that waits for none. It changed nothing.
	Unmatched Code = "unmatched"
	// Unfit is a folder that cannot be trusted as it is.
	Unfit Code = "unfit"
	// MovedOn are rules that are no longer those that were looked at.
	MovedOn Code = "moved_on"
	// Ahead is a place in the stream of events that the ledger has not reached: it
	// is another ledger. Start anew.
	Ahead Code = "ahead"

	// Expired and Lost are records that nobody can answer any more.
	Expired Code = "expired"
	Lost    Code = "lost"
	// Conflict is a record that moved on after the caller read it. The error has
	// the record as it is now, where the caller may see it.
	Conflict Code = "conflict"
	// TooLarge is a body beyond what is taken.
	TooLarge Code = "too_large"
	// UnsupportedMedia is a body that does not say that it is JSON.
	UnsupportedMedia Code = "unsupported_media"
	// RevisionRequired is a change without an If-Match header.
	RevisionRequired Code = "revision_required"
	// TooManyProofs are wrong proofs, after which the next has to wait.
	TooManyProofs Code = "too_many_proofs"

	// Internal is a fault of the daemon, which its log tells more of. Nothing may
	// run on the strength of it.
	Internal Code = "internal"
	// Overloaded is more than the daemon takes at once. Try again after a moment.
	Overloaded Code = "overloaded"
	// Stopping is a daemon that ends.
	Stopping Code = "stopping"
	// LedgerFull is a store without room. Nothing was recorded.
	LedgerFull Code = "ledger_full"
	// LedgerDamaged is a store that is not what was written to it.
	LedgerDamaged Code = "ledger_damaged"
)

// kinds are the codes with the one status of each, and with the error of the
// domain that a client has in its place.
var kinds = map[Code]struct {
	status int
	err    error
}{
	BadRequest:       {http.StatusBadRequest, nil},
	MalformedRequest: {http.StatusBadRequest, approval.ErrRequest},
	Invalid:          {http.StatusUnprocessableEntity, approval.ErrInvalid},
	NotOffered:       {http.StatusUnprocessableEntity, approval.ErrNotOffered},
	Unplaced:         {http.StatusUnprocessableEntity, nil},
	AgentPID:         {http.StatusBadRequest, nil},
	Unauthorized:     {http.StatusUnauthorized, nil},
	StepUp:           {http.StatusUnauthorized, nil},
	WrongProof:       {http.StatusUnauthorized, nil},
	NotEnrolled:      {http.StatusUnauthorized, nil},
	Forbidden:        {http.StatusForbidden, nil},
	UnknownPrincipal: {http.StatusForbidden, nil},
	CrossOrigin:      {http.StatusForbidden, nil},
	Denied:           {http.StatusForbidden, nil},
	NotFound:         {http.StatusNotFound, approval.ErrNotFound},
	NoRoute:          {http.StatusNotFound, nil},
	NoEpoch:          {http.StatusNotFound, nil},
	NoWorkspace:      {http.StatusNotFound, nil},
	NoSession:        {http.StatusNotFound, nil},
	NoTurn:           {http.StatusNotFound, nil},
	NoCall:           {http.StatusNotFound, nil},
	NoGrant:          {http.StatusNotFound, nil},
	MethodNotAllowed: {http.StatusMethodNotAllowed, nil},
	Timeout:          {http.StatusRequestTimeout, nil},
	Instance:         {http.StatusConflict, approval.ErrInstance},
	Digest:           {http.StatusConflict, approval.ErrDigest},
	NotAllowed:       {http.StatusConflict, approval.ErrNotAllowed},
	Used:             {http.StatusConflict, approval.ErrUsed},
	Operand:          {http.StatusConflict, nil},
	Exists:           {http.StatusConflict, approval.ErrExists},
	TurnOver:         {http.StatusConflict, nil},
	Settled:          {http.StatusConflict, nil},
	Unmatched:        {http.StatusConflict, nil},
	Unfit:            {http.StatusConflict, nil},
	MovedOn:          {http.StatusConflict, nil},
	Ahead:            {http.StatusConflict, nil},
	Expired:          {http.StatusGone, approval.ErrExpired},
	Lost:             {http.StatusGone, approval.ErrLost},
	Conflict:         {http.StatusPreconditionFailed, approval.ErrConflict},
	TooLarge:         {http.StatusRequestEntityTooLarge, nil},
	UnsupportedMedia: {http.StatusUnsupportedMediaType, nil},
	RevisionRequired: {http.StatusPreconditionRequired, nil},
	TooManyProofs:    {http.StatusTooManyRequests, nil},
	Internal:         {http.StatusInternalServerError, nil},
	Overloaded:       {http.StatusServiceUnavailable, nil},
	Stopping:         {http.StatusServiceUnavailable, approval.ErrClosed},
	LedgerFull:       {http.StatusInsufficientStorage, approval.ErrFull},
	LedgerDamaged:    {http.StatusServiceUnavailable, approval.ErrDamaged},
}

// Codes lists every code.
func Codes() []Code {
	all := make([]Code, 0, len(kinds))
	for c := range kinds {
		all = append(all, c)
	}
	return all
}

// Status is the HTTP status of a code; 500 for one that is not known.
func (c Code) Status() int {
	if k, ok := kinds[c]; ok {
		return k.status
	}
	return http.StatusInternalServerError
}

// Error is what the daemon answers when it does not do what was asked. Where
// package approval has an error for it, it wraps that one: a conflict with the
// record that won is an *approval.ConflictError.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Hint says what to do about it.
	Hint string `json:"hint,omitempty"`
	// Pointer is the faulty part of the body, as a JSON Pointer (RFC 6901).
	Pointer string `json:"pointer,omitempty"`
	// RetryAfter is how many seconds to wait before the next try; 0 where that is
	// not known to help.
	RetryAfter int `json:"retry_after,omitempty,omitzero"`
	// Record is the record as it is now.
	Record *approval.Record `json:"record,omitempty"`
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Message + "; " + e.Hint
	}
	return e.Message
}

// Unwrap returns the error of package approval that this one stands for, or nil.
func (e *Error) Unwrap() error {
	if e.Code == Conflict && e.Record != nil {
		return &approval.ConflictError{Current: *e.Record}
	}
	return kinds[e.Code].err
}
