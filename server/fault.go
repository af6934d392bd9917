package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/server/api"
)

// faults are the errors of the gate and the ledger, with what they are called on
// the wire. The first that matches counts.
var faults = []struct {
	err  error
	code api.Code
	hint string
}{
	{native.ErrNoSession, api.NoSession, "open it again if it is yours"},
	{native.ErrNoTurn, api.NoTurn, ""},
	{native.ErrNoCall, api.NoCall, ""},
	{native.ErrNoGrant, api.NoGrant, ""},
	{native.ErrOver, api.TurnOver, ""},
	{native.ErrExists, api.Exists, ""},
	{native.ErrTold, api.Settled, ""},
	{native.ErrUnmatched, api.Unmatched, ""},
	{native.ErrFull, api.Overloaded, "end some first"},
	{native.ErrSpec, api.BadRequest, ""},
	{native.ErrStopped, api.Stopping, ""},
	{gate.ErrUnplaced, api.Unplaced, ""},
	{gate.ErrOperand, api.Operand, ""},
	{gate.ErrForbidden, api.Forbidden, ""},
	{gate.ErrStepUp, api.StepUp, "send it again with a proof"},
	{gate.ErrDenied, api.Denied, ""},
	{gate.ErrStopped, api.Stopping, "nothing was recorded; ask again once a daemon runs"},
	{gate.ErrNoWorkspace, api.NoWorkspace, ""},
	{gate.ErrUnfit, api.Unfit, ""},
	{gate.ErrMovedOn, api.MovedOn, "look again at what waits"},
	{approval.ErrExpired, api.Expired, ""},
	{approval.ErrLost, api.Lost, ""},
	{approval.ErrNotOffered, api.NotOffered, ""},
	{approval.ErrNotFound, api.NotFound, ""},
	{approval.ErrExists, api.Exists, ""},
	{approval.ErrInstance, api.Instance, ""},
	{approval.ErrDigest, api.Digest, ""},
	{approval.ErrNotAllowed, api.NotAllowed, ""},
	{approval.ErrUsed, api.Used, ""},
	{approval.ErrInvalid, api.Invalid, ""},
	{permission.ErrInvalid, api.Invalid, ""},
	{permission.ErrUnresolved, api.Invalid, ""},
	{approval.ErrFull, api.LedgerFull, "make room; until then nothing is recorded and nothing may run"},
	{approval.ErrDamaged, api.LedgerDamaged, "regent ledger verify says what is wrong"},
	{approval.ErrClosed, api.Stopping, ""},
}

// fault is what an error looks like on the wire. What is not foreseen is logged,
// and the caller learns that something went wrong and no more.
func (s *Server) fault(r *http.Request, err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	if conflict, ok := errors.AsType[*approval.ConflictError](err); ok {
		return &api.Error{Code: api.Conflict, Message: conflict.Error(), Hint: "read it again", Record: &conflict.Current}
	}
	if malformed, ok := errors.AsType[*approval.RequestError](err); ok {
		return &api.Error{Code: api.MalformedRequest, Message: malformed.Error(), Pointer: "/request" + malformed.Pointer}
	}
	for _, f := range faults {
		if !errors.Is(err, f.err) {
			continue
		}
		e := &api.Error{Code: f.code, Message: err.Error(), Hint: f.hint}
		switch {
		case f.code == api.Overloaded:
			e.RetryAfter = 1 // what the caller has too many of is no fault of the daemon
		case f.code.Status() >= http.StatusInternalServerError:
			s.log.Error("a call could not be answered", "route", r.Pattern, "error", err)
		}
		return e
	}
	s.log.Error("a call could not be answered", "route", r.Pattern, "error", err)
	if errors.Is(err, context.DeadlineExceeded) {
		return &api.Error{Code: api.Overloaded, Message: "it took too long", RetryAfter: 1}
	}
	return &api.Error{Code: api.Internal, Message: "the daemon could not do this; its log says why"}
}

// foldered says which folder an error of the file system is about: such errors
// are about what the caller named.
func foldered(err error, code api.Code) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok || errors.Is(err, fs.ErrNotExist) {
		return &api.Error{Code: code, Message: err.Error()}
	}
	return err
}
