package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// renewTime is the time between two signs of life. Three of them may get lost
// before an instance does.
const renewTime = 10 * time.Second

func sessionPath(session string) string { return "/v1/sessions/" + segment(session) }

func turnPath(session, turn string) string { return sessionPath(session) + "/turns/" + segment(turn) }

func callPath(session, id string) string { return sessionPath(session) + "/calls/" + segment(id) }

func of(instance string) url.Values { return url.Values{"instance": {instance}} }

// OpenSession opens a session. It lives no longer than its instance, which needs
// a sign of life every 30 s: see [Client.KeepAlive].
func (c *Client) OpenSession(ctx context.Context, session string, spec api.SessionSpec) (api.Session, error) {
	return fetch[api.Session](ctx, c, call{method: http.MethodPut, path: sessionPath(session), body: spec})
}

// Session describes a session to the instance that opened it.
func (c *Client) Session(ctx context.Context, session, instance string) (api.Session, error) {
	return fetch[api.Session](ctx, c, call{method: http.MethodGet, path: sessionPath(session), query: of(instance)})
}

// EndSession ends a session: what waits in it is cancelled, and what it was
// granted is gone.
func (c *Client) EndSession(ctx context.Context, session, instance string) error {
	_, err := c.text(ctx, call{method: http.MethodDelete, path: sessionPath(session), query: of(instance)})
	return err
}

// Sessions returns those that the caller may see, by their ids.
func (c *Client) Sessions(ctx context.Context) ([]api.Session, error) {
	all, err := fetch[api.Sessions](ctx, c, call{method: http.MethodGet, path: "/v1/sessions"})
	return all.Sessions, err
}

// OpenTurn opens a turn of a session.
func (c *Client) OpenTurn(ctx context.Context, session, turn string, spec api.TurnSpec) (api.Turn, error) {
	return fetch[api.Turn](ctx, c, call{method: http.MethodPut, path: turnPath(session, turn), body: spec})
}

// EndTurn ends a turn, and returns it. That it is over already is no error.
func (c *Client) EndTurn(ctx context.Context, session, turn, instance string) (api.Turn, error) {
	return fetch[api.Turn](ctx, c, call{method: http.MethodDelete, path: turnPath(session, turn), query: of(instance)})
}

// Tools returns what to offer to the model of a turn besides the host's own
// tools.
func (c *Client) Tools(ctx context.Context, session, turn, instance string) ([]api.Tool, error) {
	all, err := fetch[api.Tools](ctx, c, call{method: http.MethodGet, path: turnPath(session, turn) + "/tools", query: of(instance)})
	return all.Tools, err
}

// Call makes a call and waits for what becomes of it. When ctx ends, the call is
// cancelled. Only the outcome allow lets it start.
func (c *Client) Call(ctx context.Context, session, turn, id string, spec api.CallSpec) (api.Call, error) {
	one, err := c.called(ctx, session, id, call{method: http.MethodPut, path: turnPath(session, turn) + "/calls/" + segment(id), body: spec})
	if err == nil && one.Outcome == "" {
		return api.Call{}, fmt.Errorf("call %s: %w: it has no outcome", id, ErrAnswer)
	}
	return one, err
}

// PostCall makes a call and does not wait. Where somebody has to answer first it
// has no outcome: see [Client.AwaitCall].
func (c *Client) PostCall(ctx context.Context, session, turn, id string, spec api.CallSpec) (api.Call, error) {
	return c.called(ctx, session, id, call{
		method: http.MethodPut, path: turnPath(session, turn) + "/calls/" + segment(id), query: url.Values{"wait": {"false"}}, body: spec,
	})
}

// AwaitCall waits for what becomes of a call, for whole seconds and
// [api.MaxWait] of them at most. A call without an outcome means that there is no
// answer yet.
func (c *Client) AwaitCall(ctx context.Context, session, id, instance string, wait time.Duration) (api.Call, error) {
	query := of(instance)
	query.Set("wait", strconv.FormatInt(waitSeconds(wait), 10))
	return c.called(ctx, session, id, call{method: http.MethodGet, path: callPath(session, id), query: query})
}

// CancelCall cancels a call for the instance that made it.
func (c *Client) CancelCall(ctx context.Context, session, id string, w api.Withdrawal) (api.Call, error) {
	return c.called(ctx, session, id, call{method: http.MethodPost, path: callPath(session, id) + "/cancel", body: w})
}

// called holds what came of a call to that very call, and its outcome to those
// that there are.
func (c *Client) called(ctx context.Context, session, id string, k call) (api.Call, error) {
	one, err := fetch[api.Call](ctx, c, k)
	if err != nil {
		return api.Call{}, err
	}
	if one.Session != session || one.ID != id {
		return api.Call{}, fmt.Errorf("call %s: %w: it is about %.80q", id, ErrAnswer, one.ID)
	}
	switch one.Outcome {
	case "", approval.OutcomeAllow, approval.OutcomeDeny, approval.OutcomeCancel:
		return one, nil
	default:
		return api.Call{}, fmt.Errorf("call %s: %w: it has the outcome %.40q", id, ErrAnswer, one.Outcome)
	}
}

// Respond answers the request for permissions that a call waits for, and returns
// its record as it is then. revision is that of the record that was read, or 0
// for whichever it has.
func (c *Client) Respond(ctx context.Context, session, id string, revision int64, response api.Response) (approval.Record, error) {
	k := call{method: http.MethodPost, path: callPath(session, id) + "/response", body: response}
	if revision != 0 {
		k.header = ifMatch(revision)
	}
	return fetch[approval.Record](ctx, c, k)
}

// Grants returns what the sessions that the caller may see hold beyond their
// configuration; those of one session if it is named.
func (c *Client) Grants(ctx context.Context, session string) (api.Grants, error) {
	k := call{method: http.MethodGet, path: "/v1/grants"}
	if session != "" {
		k.query = url.Values{"session": {session}}
	}
	return fetch[api.Grants](ctx, c, k)
}

// Revoke takes back a grant or an acceptance, for every call from then on.
func (c *Client) Revoke(ctx context.Context, id string) error {
	_, err := c.text(ctx, call{method: http.MethodDelete, path: "/v1/grants/" + segment(id)})
	return err
}

// KeepAlive gives signs of life for an instance until ctx ends or the instance is
// lost, and returns why: the cause of ctx, an approval.ErrLost, or what else the
// daemon refuses. A daemon that cannot be reached for a while is tried again.
// It starts no goroutine.
func (c *Client) KeepAlive(ctx context.Context, instance string) error {
	return c.keepAlive(ctx, instance, renewTime)
}

func (c *Client) keepAlive(ctx context.Context, instance string, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, every)
		_, err := c.Renew(limited, instance)
		cancel()
		refused, told := errors.AsType[*api.Error](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case told && refused.Code.Status() < http.StatusInternalServerError:
			return fmt.Errorf("instance %.80q: %w", instance, refused)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
