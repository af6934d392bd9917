package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// FromNow asks for the events from here on.
const FromNow = -1

// maxEvent bounds one event of a stream.
const maxEvent = 1 << 20

// Event is one thing that happened; exactly one of the two is set.
type Event struct {
	Approval *approval.Event
	Notice   *api.Notice
}

// Events is a stream of what happens. It is for one goroutine at a time.
type Events struct {
	body  io.ReadCloser
	lines *bufio.Reader
	ctx   context.Context // of the call that opened the stream, which it ends with
	after int64
	size  int
}

// Events opens the stream of events after a number, or [FromNow]. What happens
// after this has returned is not missed. It ends with ctx or with Close.
//
// A stream breaks off when the daemon ends or the reader is too slow; then open
// another after [Events.After].
func (c *Client) Events(ctx context.Context, after int64) (*Events, error) {
	query := url.Values{}
	if after >= 0 {
		query.Set("after", strconv.FormatInt(after, 10))
	}
	response, err := c.send(ctx, call{
		method: http.MethodGet, path: "/v1/events", query: query, header: http.Header{"Accept": {"text/event-stream"}},
	})
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(io.LimitReader(response.Body, maxEvent))
		if err != nil {
			return nil, fmt.Errorf("events: %w: %w", ErrAnswer, err)
		}
		return nil, failure(response, text)
	}
	e := &Events{body: response.Body, lines: bufio.NewReader(response.Body), ctx: ctx}
	name, data, err := e.read()
	if err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	var open api.Open
	if err := jsonv2.Unmarshal(data, &open); err != nil || name != api.EventOpen {
		_ = response.Body.Close()
		return nil, fmt.Errorf("events: %w: it begins with %q", ErrAnswer, name)
	}
	e.after = open.After
	return e, nil
}

// After is the number of the last event that was read, or that the stream began
// after.
func (e *Events) After() int64 { return e.after }

// Close ends the stream.
func (e *Events) Close() error { return e.body.Close() }

// Next waits for the next event. An error is the end of the stream: that of the
// context, io.EOF where the daemon has ended it, or what the daemon says is wrong.
func (e *Events) Next() (Event, error) {
	for {
		name, data, err := e.read()
		if err != nil {
			return Event{}, err
		}
		switch name {
		case api.EventApproval:
			var one approval.Event
			if err := jsonv2.Unmarshal(data, &one); err != nil {
				return Event{}, fmt.Errorf("events: %w: %w", ErrAnswer, err)
			}
			e.after = one.Seq
			return Event{Approval: &one}, nil
		case api.EventNotice:
			var one api.Notice
			if err := jsonv2.Unmarshal(data, &one); err != nil {
				return Event{}, fmt.Errorf("events: %w: %w", ErrAnswer, err)
			}
			return Event{Notice: &one}, nil
		case api.EventError:
			var f api.Failure
			if err := jsonv2.Unmarshal(data, &f); err != nil || f.Error == nil {
				return Event{}, fmt.Errorf("events: %w: an error that says nothing", ErrAnswer)
			}
			return Event{}, f.Error
		default: // of a later version
		}
	}
}

// read returns the next event as it is on the wire: see the section "Server-sent
// events" of the HTML standard. Ids need no look, since the data has them.
func (e *Events) read() (name string, data []byte, err error) {
	e.size = 0
	for {
		line, err := e.line()
		if err != nil {
			return "", nil, err
		}
		if len(line) == 0 {
			if data != nil {
				return name, data, nil
			}
			name, e.size = "", 0
			continue
		}
		field, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		default: // a comment keeps the connection open
		}
	}
}

func (e *Events) line() ([]byte, error) {
	var whole []byte
	for {
		part, err := e.lines.ReadSlice('\n')
		if e.size += len(part); e.size > maxEvent {
			return nil, fmt.Errorf("events: %w: one of more than %d bytes", ErrAnswer, maxEvent)
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(whole, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case context.Cause(e.ctx) != nil:
			return nil, context.Cause(e.ctx)
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("events: %w", err)
		}
	}
}
