package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

const (
	// pageOfEvents are read from the ledger at once.
	pageOfEvents = 256
	// pace is the time between two looks at the ledger at least: with many
	// decisions a second, readers would else take from the writer what they are
	// told of.
	pace = 20 * time.Millisecond
	// maxSeen bounds what a stream remembers of records that its reader may see.
	maxSeen = 4096
)

// stream is one reader of events.
type stream struct {
	s         *Server
	w         http.ResponseWriter
	rc        *http.ResponseController
	principal gate.Principal
	// after and noticed are the numbers of what was sent last.
	after, noticed int64
	// seen tells of records whether the reader may see them, which never changes.
	seen map[string]bool
	text bytes.Buffer
}

// events answers GET /v1/events. Each reader looks in the ledger for what comes
// after what it has; one that is slow finds more there, and holds back nobody.
func (s *Server) events(w http.ResponseWriter, r *http.Request, c *call) error {
	after, err := s.position(r)
	if err != nil {
		return err
	}
	if !s.readers.enter(1) {
		return &api.Error{Code: api.Overloaded, Message: "as many read the events as may at once", RetryAfter: 5}
	}
	defer s.readers.leave(1)
	e := &stream{s: s, w: w, rc: http.NewResponseController(w), principal: c.principal, after: after, seen: map[string]bool{}}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return nil
	}
	if err := e.begin(); err != nil {
		return err
	}
	beat := time.NewTicker(s.heartbeat)
	defer beat.Stop()
	for {
		changed := s.gate.Feed().Changed()
		more, err := e.advance(r.Context())
		if err == nil && !more {
			err = e.idle(r, c, changed, beat.C)
		}
		if err != nil {
			return e.finish(r, err)
		}
		if s.stops() {
			return nil
		}
	}
}

// idle waits until there may be more to send, and for as long as is fair to
// others.
func (e *stream) idle(r *http.Request, c *call, changed <-chan struct{}, beat <-chan time.Time) error {
	rest := time.NewTimer(pace)
	defer rest.Stop()
	for waiting := true; waiting; {
		select {
		case <-r.Context().Done():
			return errGone
		case <-e.s.stopping:
			return nil
		case <-changed:
			waiting = false
		case <-beat:
			// A token may be revoked and a process become an agent meanwhile.
			p, err := e.s.admit(r, c.caller, looking)
			if err != nil {
				return err
			}
			if p != e.principal {
				return &api.Error{Code: api.Forbidden, Message: "the caller is not who it was when the stream began"}
			}
			e.text.WriteString(":\n\n")
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	select {
	case <-r.Context().Done():
		return errGone
	case <-e.s.stopping:
	case <-rest.C:
	}
	return nil
}

// position is the number of the event that a stream begins after.
func (s *Server) position(r *http.Request) (int64, error) {
	values, err := query(r, []string{"after"})
	if err != nil {
		return 0, err
	}
	head := s.ledger.Stats().Head.Seq
	after, err := number(values, "after", head, math.MaxInt64)
	if err != nil {
		return 0, err
	}
	// A browser that connects again says where it was, at the same address.
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return 0, &api.Error{Code: api.BadRequest, Message: "Last-Event-ID is no number of an event"}
		}
	}
	if after > head {
		return 0, &api.Error{
			Code: api.Ahead, Message: fmt.Sprintf("the ledger has no event %d; it ends at %d", after, head),
			Hint: "it is another ledger than the one that was read before; list the approvals anew",
		}
	}
	return after, nil
}

// begin says where the stream begins, and what is wrong with the rules by now.
func (e *stream) begin() error {
	if err := e.event(api.EventOpen, e.after, api.Open{After: e.after}); err != nil {
		return err
	}
	if e.everything() {
		for _, n := range e.s.gate.Feed().Notices(0) {
			e.noticed = n.Seq
		}
		for _, w := range e.s.epochs.Status() {
			if w.State == "current" {
				continue
			}
			kind := gate.NoticeFault
			if w.State == "held" || w.State == "unconfirmed" {
				kind = gate.NoticeHeld
			}
			at := w.Since
			if at.IsZero() {
				at = time.Now()
			}
			notice := api.Notice{At: at.UTC(), Kind: string(kind), Workspace: w.Dir, Epoch: w.Epoch, Message: w.Why}
			if err := e.event(api.EventNotice, 0, notice); err != nil {
				return err
			}
		}
	}
	return e.flush()
}

// everything tells whether the reader may see every record, and hear of every
// workspace.
func (e *stream) everything() bool {
	return e.principal.Role == gate.RoleLocal || e.principal.Role == gate.RoleOwner || e.principal.Role == gate.RoleObserver
}

// advance sends what has come since, and tells whether there may be more.
func (e *stream) advance(ctx context.Context) (more bool, err error) {
	if e.everything() {
		for _, n := range e.s.gate.Feed().Notices(e.noticed) {
			e.noticed = n.Seq
			notice := api.Notice{Seq: n.Seq, At: n.At.UTC(), Kind: string(n.Kind), Workspace: n.Workspace, Epoch: n.Epoch, Message: n.Message}
			if err := e.event(api.EventNotice, 0, notice); err != nil {
				return false, err
			}
		}
	}
	page, err := e.s.ledger.Events(ctx, e.after, pageOfEvents)
	if err != nil {
		return false, err
	}
	for _, one := range page {
		e.after = one.Seq
		visible, err := e.visible(ctx, one.ID)
		if err != nil {
			return false, err
		}
		if !visible {
			continue
		}
		if err := e.event(api.EventApproval, one.Seq, one); err != nil {
			return false, err
		}
	}
	return len(page) == pageOfEvents, e.flush()
}

// visible tells whether the reader may know of a record.
func (e *stream) visible(ctx context.Context, id string) (bool, error) {
	if e.everything() {
		return true, nil
	}
	if visible, ok := e.seen[id]; ok {
		return visible, nil
	}
	_, err := e.s.gate.Read(ctx, e.principal, id)
	if err != nil && !errors.Is(err, approval.ErrNotFound) {
		return false, err
	}
	if len(e.seen) >= maxSeen {
		clear(e.seen)
	}
	e.seen[id] = err == nil
	return err == nil, nil
}

// event adds one to what is sent next.
func (e *stream) event(name string, id int64, data any) error {
	text, err := jsonv2.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if id > 0 || name == api.EventOpen {
		fmt.Fprintf(&e.text, "id: %d\n", id)
	}
	// JSON as it is written has no line breaks.
	fmt.Fprintf(&e.text, "event: %s\ndata: %s\n\n", name, text)
	return nil
}

// flush sends what was added. A reader that does not take it in time is gone.
func (e *stream) flush() error {
	if e.text.Len() == 0 {
		return nil
	}
	if err := e.rc.SetWriteDeadline(time.Now().Add(e.s.writeTime)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if _, err := e.w.Write(e.text.Bytes()); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	e.text.Reset()
	if err := e.rc.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// finish says why the stream ends, which is the last that the reader hears.
func (e *stream) finish(r *http.Request, err error) error {
	if errors.Is(err, errGone) || r.Context().Err() != nil {
		return errGone
	}
	if err := e.event(api.EventError, 0, api.Failure{Error: e.s.fault(r, err)}); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return e.flush()
}
