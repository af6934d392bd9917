package evaluator

import (
	"context"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/pluginpb"
	"github.com/regent-policy/regent/server/api"
)

const (
	// maxMessage is the longest text of an error. It goes into a header, and so does
	// a fault.
	maxMessage = 1 << 10
	// maxFault is the largest fault: many implementations of gRPC take 8 KiB of
	// headers.
	maxFault = 4 << 10
)

// told is an error as the host is told of it.
func told(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if errors.Is(err, ErrNoDaemon) {
		return status.Error(codes.FailedPrecondition, short(err.Error()))
	}
	fault, ok := errors.AsType[*api.Error](err)
	if !ok {
		malformed, ok := errors.AsType[*approval.RequestError](err)
		if !ok {
			return status.Error(codes.Internal, short(err.Error()))
		}
		fault = &api.Error{Code: api.MalformedRequest, Message: malformed.Error(), Pointer: "/request" + malformed.Pointer}
	}
	s := status.New(codeOf(fault.Code), short(fault.Error()))
	if detailed, err := s.WithDetails(&pluginpb.Fault{Error: faultText(*fault)}); err == nil {
		s = detailed
	}
	return s.Err()
}

// faultText is a fault as JSON that is not too long for a header. The record that
// won may be; it can be read.
func faultText(fault api.Error) []byte {
	for _, leave := range []func(){
		func() {},
		func() { fault.Record = nil },
		func() { fault.Message, fault.Hint, fault.Pointer = short(fault.Message), short(fault.Hint), "" },
	} {
		leave()
		if text, err := jsonv2.Marshal(fault); err == nil && len(text) <= maxFault {
			return text
		}
	}
	return nil
}

// codeOf is the gRPC code for a code of the API, by its HTTP status.
func codeOf(code api.Code) codes.Code {
	switch s := code.Status(); {
	case s == 401 || s == 403:
		return codes.PermissionDenied
	case s == 404:
		return codes.NotFound
	case s == 409 || s == 410 || s == 412:
		return codes.Aborted
	case s == 429 || s == 503 || s == 507:
		return codes.Unavailable
	case s >= 400 && s < 500:
		return codes.InvalidArgument
	default:
		return codes.Internal
	}
}

// heard is what the program said went wrong, as an error of this side.
func heard(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	for _, detail := range s.Details() {
		fault, ok := detail.(*pluginpb.Fault)
		if !ok {
			continue
		}
		var e api.Error
		if err := jsonv2.Unmarshal(fault.GetError(), &e); err == nil && e.Code != "" {
			return &e
		}
	}
	switch s.Code() {
	case codes.FailedPrecondition:
		return fmt.Errorf("%w: %s", ErrNoDaemon, short(s.Message()))
	case codes.Unavailable, codes.Canceled:
		return fmt.Errorf("%w: %s", ErrGone, short(s.Message()))
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %s", ErrReply, short(s.Message()))
	default:
		return fmt.Errorf("regent: %s", short(s.Message()))
	}
}

// short is the start of a text.
func short(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return fmt.Sprintf("%.*s…", maxMessage/4, text)
}
