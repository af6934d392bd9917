package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/server/api"
)

// Internal: what the API tells of sessions has types of its own, so that a client
// needs nothing of the gate. They must not fall behind those that they stand for.
func TestSessionsHaveOneForm(t *testing.T) {
	members := func(of reflect.Type) (all []string) {
		for i := range of.NumField() {
			all = append(all, of.Field(i).Tag.Get("json"))
		}
		return all
	}
	for name, of := range map[string][2]reflect.Type{
		"effective": {reflect.TypeFor[native.Effective](), reflect.TypeFor[api.Effective]()},
		"event":     {reflect.TypeFor[native.Event](), reflect.TypeFor[api.PermissionsEvent]()},
		"accepted":  {reflect.TypeFor[native.Accepted](), reflect.TypeFor[api.Accepted]()},
		"tool":      {reflect.TypeFor[native.Tool](), reflect.TypeFor[api.Tool]()},
	} {
		have, told := map[string]bool{}, map[string]bool{}
		for _, m := range members(of[0]) {
			have[m] = true
		}
		for _, m := range members(of[1]) {
			told[m] = true
		}
		if diff := cmp.Diff(have, told); diff != "" {
			t.Errorf("members of %s (-there +told):\n%s", name, diff)
		}
	}
	for there, told := range map[string]string{
		native.ToolName:                api.ToolName,
		string(native.TurnOpen):        api.TurnOpen,
		string(native.TurnEnded):       api.TurnEnded,
		string(native.TurnInterrupted): api.TurnInterrupted,

		string(native.SandboxDefault):   api.SandboxDefault,
		string(native.SandboxMore):      api.SandboxMore,
		string(native.SandboxEscalated): api.SandboxEscalated,

		string(native.FaultUnavailable):   api.FaultUnavailable,
		string(native.FaultArguments):     api.FaultArguments,
		string(native.FaultNoEnvironment): api.FaultNoEnvironment,
		string(native.FaultEnvironment):   api.FaultEnvironment,
		string(native.FaultForeign):       api.FaultForeign,
		string(native.FaultPath):          api.FaultPath,
		string(native.FaultEmpty):         api.FaultEmpty,
		string(native.FaultBlocked):       api.FaultBlocked,
		string(native.FaultWithheld):      api.FaultWithheld,
		string(native.FaultRefused):       api.FaultRefused,
		string(native.FaultCancelled):     api.FaultCancelled,
	} {
		if there != told {
			t.Errorf("%q is told as %q", there, told)
		}
	}
}

// Internal: not every fault can be brought about from outside.
func TestFaultsHaveCodes(t *testing.T) {
	s := &Server{log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/", nil)
	for _, test := range []struct {
		err   error
		want  api.Code
		again bool
	}{
		{native.ErrNoSession, api.NoSession, false},
		{native.ErrNoTurn, api.NoTurn, false},
		{native.ErrNoCall, api.NoCall, false},
		{native.ErrNoGrant, api.NoGrant, false},
		{native.ErrOver, api.TurnOver, false},
		{native.ErrExists, api.Exists, false},
		{native.ErrTold, api.Settled, false},
		{native.ErrUnmatched, api.Unmatched, false},
		{native.ErrFull, api.Overloaded, true},
		{native.ErrSpec, api.BadRequest, false},
		{native.ErrStopped, api.Stopping, false},
		{gate.ErrOperand, api.Operand, false},
		{fmt.Errorf("%w: %w", gate.ErrUnplaced, permission.ErrUnresolved), api.Unplaced, false},
		{approval.ErrUsed, api.Used, false},
		{errors.New("of a later version"), api.Internal, false},
	} {
		e := s.fault(r, fmt.Errorf("call c1: %w", test.err))
		if e.Code != test.want || (e.RetryAfter > 0) != test.again || !strings.Contains(e.Message, "call c1") && test.want != api.Internal {
			t.Errorf("%v is %+v, want %s", test.err, e, test.want)
		}
	}
}

// Internal: a name that is too long for a label takes a client of megabytes.
func TestLongNamesOfToolsAreCountedTogether(t *testing.T) {
	long := strings.Repeat("x", maxToolLabel)
	got := shortSkips(map[gate.SkipKind]int64{
		{Effects: "read", Tool: long}: 1, {Effects: "read", Tool: long + "a"}: 2, {Effects: "read", Tool: long + "b"}: 3,
		{Effects: "write", Tool: long + "a"}: 4, {Effects: "read", Tool: "other"}: 5, {Effects: "read", Tool: "\xff"}: 6,
	})
	want := map[gate.SkipKind]int64{
		{Effects: "read", Tool: long}: 1, {Effects: "read", Tool: "other"}: 16, {Effects: "write", Tool: "other"}: 4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("skips (-want +got):\n%s", diff)
	}
}
