package api_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

func TestEveryCodeHasAStatusOfAnError(t *testing.T) {
	if len(api.Codes()) == 0 {
		t.Fatal("there are no codes")
	}
	for _, c := range api.Codes() {
		if s := c.Status(); s < 400 || http.StatusText(s) == "" {
			t.Errorf("%s has the status %d, want one of an error", c, s)
		}
	}
	if s := api.Code("of_a_later_version").Status(); s != http.StatusInternalServerError {
		t.Errorf("a code that is not known has the status %d, want 500", s)
	}
}

// overTheWire is an error as a client has it.
func overTheWire(t *testing.T, e *api.Error) error {
	t.Helper()
	text, err := jsonv2.Marshal(api.Failure{Error: e})
	if err != nil {
		t.Fatal(err)
	}
	var f api.Failure
	if err := jsonv2.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f.Error
}

func TestErrorsOfApprovalsSurviveTheWay(t *testing.T) {
	for code, want := range map[api.Code]error{
		api.MalformedRequest: approval.ErrRequest, api.Invalid: approval.ErrInvalid, api.NotOffered: approval.ErrNotOffered,
		api.NotFound: approval.ErrNotFound, api.Instance: approval.ErrInstance, api.Digest: approval.ErrDigest,
		api.NotAllowed: approval.ErrNotAllowed, api.Used: approval.ErrUsed, api.Exists: approval.ErrExists, api.Expired: approval.ErrExpired,
		api.Lost: approval.ErrLost, api.Conflict: approval.ErrConflict, api.Stopping: approval.ErrClosed,
		api.LedgerFull: approval.ErrFull, api.LedgerDamaged: approval.ErrDamaged,
	} {
		if err := overTheWire(t, &api.Error{Code: code, Message: "x"}); !errors.Is(err, want) {
			t.Errorf("%s is no %q", code, want)
		}
	}
	for _, code := range []api.Code{api.Forbidden, api.StepUp, api.Internal, "of_a_later_version"} {
		if err := errors.Unwrap(overTheWire(t, &api.Error{Code: code, Message: "x"})); err != nil {
			t.Errorf("%s is %v, want an error of its own", code, err)
		}
	}
}

func TestConflictCarriesTheRecordThatWon(t *testing.T) {
	won := approval.Record{
		ID: "r1", Revision: 4, State: approval.Expired, Instance: "i", Digest: "d",
		Request: &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}}, Options: approval.NativeOptions,
		Created: time.Unix(1, 0).UTC(), Updated: time.Unix(2, 0).UTC(), Deadline: time.Unix(3, 0).UTC(),
	}
	err := overTheWire(t, &api.Error{Code: api.Conflict, Message: "x", Record: &won})
	conflict, ok := errors.AsType[*approval.ConflictError](err)
	if !ok || !errors.Is(err, approval.ErrConflict) || !errors.Is(err, approval.ErrExpired) || errors.Is(err, approval.ErrLost) {
		t.Fatalf("the error is %v, want a conflict with an expired record", err)
	}
	// Lists that are absent and lists that are empty are one on the wire.
	conflict.Current.Ruling = approval.Ruling{}
	if diff := cmp.Diff(won, conflict.Current); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for want, e := range map[string]*api.Error{
		"no such token":               {Code: api.Unauthorized, Message: "no such token"},
		"no such token; make another": {Code: api.Unauthorized, Message: "no such token", Hint: "make another"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("the error reads %q, want %q", got, want)
		}
	}
}
