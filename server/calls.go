package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/server/api"
)

// postTime is how long a call that is posted may take until it waits, before its
// host is told without more: hooks come first, and take the time they take.
const postTime = time.Second

// startCall answers PUT /v1/sessions/{session}/turns/{turn}/calls/{call}.
func (s *Server) startCall(w http.ResponseWriter, r *http.Request, c *call) error {
	session, turn, err := idsOf(r, "session", "turn")
	if err != nil {
		return err
	}
	id, err := idOf(r, "call")
	if err != nil {
		return err
	}
	values, err := query(r, []string{"wait"})
	if err != nil {
		return err
	}
	wait, err := whether(values, "wait", true)
	if err != nil {
		return err
	}
	if err := c.mayHost(); err != nil {
		return err
	}
	leave, err := s.takeIn(r)
	if err != nil {
		return err
	}
	defer leave()
	began := time.Now()
	var body api.CallSpec
	if err := s.decode(w, r, approval.MaxRequestBytes, &body); err != nil {
		return err
	}
	if err := given(body.Instance); err != nil {
		return err
	}
	if err := s.govern(c.caller, 0); err != nil {
		return err
	}
	if !wait && !s.posted.enter(s.asks.most, func() int { return s.gate.Stats().Waiting }) {
		return full()
	}
	if err := s.native.Start(r.Context(), session, body.Instance, turn, specOf(id, body)); err != nil {
		if malformed, ok := errors.AsType[*approval.RequestError](err); ok {
			return &api.Error{Code: api.MalformedRequest, Message: malformed.Error(), Pointer: malformed.Pointer}
		}
		return err
	}
	if !wait {
		ctx, cancel := context.WithTimeout(r.Context(), postTime)
		defer cancel()
		one, err := s.native.Reach(ctx, session, body.Instance, id)
		if err != nil {
			return err
		}
		return s.tellCall(r.Context(), w, one, body.Instance)
	}
	one, err := s.native.Await(r.Context(), session, body.Instance, id)
	if err == nil && one.Final != nil {
		if a := one.Final.Answer; a != nil && atOnce(*a) {
			s.metrics.ruled("calls", time.Since(began))
		}
		return s.tellCall(r.Context(), w, one, body.Instance)
	}
	s.abandon(r.Context(), session, body.Instance, id)
	if r.Context().Err() != nil {
		return errGone
	}
	return err
}

// abandon cancels a call whose host went away. If it was settled a moment before,
// its answer is one that nobody has heard.
func (s *Server) abandon(ctx context.Context, session, instance, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), collectTime)
	defer cancel()
	one, err := s.native.Cancel(ctx, session, instance, id, "the host closed the connection")
	if errors.Is(err, native.ErrTold) {
		s.native.Untold(one, errGone)
	}
}

// tellCall writes a call, and notes whether its final answer was written.
func (s *Server) tellCall(ctx context.Context, w http.ResponseWriter, one native.Call, instance string) error {
	out := s.callOf(ctx, one)
	if one.Final == nil {
		w.Header().Set("Location", "/v1/sessions/"+url.PathEscape(one.Session)+"/calls/"+url.PathEscape(one.ID)+
			"?"+url.Values{"instance": {instance}}.Encode())
		return s.send(w, http.StatusAccepted, out)
	}
	if err := s.send(w, http.StatusOK, out); err != nil {
		s.native.Untold(one, err)
		return err
	}
	s.native.Told(one)
	return nil
}

// whether reads a parameter that is true or false.
func whether(values url.Values, name string, otherwise bool) (bool, error) {
	switch text := values.Get(name); {
	case !values.Has(name):
		return otherwise, nil
	case text == "true":
		return true, nil
	case text == "false":
		return false, nil
	default:
		return false, &api.Error{Code: api.BadRequest, Message: "the parameter " + name + " is true or false"}
	}
}

func specOf(id string, body api.CallSpec) native.CallSpec {
	return native.CallSpec{
		ID: id, Kind: body.Kind, Tool: body.Tool, Command: body.Command, Changes: body.Changes, Network: body.Network,
		Reason: body.Reason, GrantRoot: body.GrantRoot, HostAllows: body.HostAllows, HumanOnly: body.HumanOnly,
		Environment: body.EnvironmentID, Sandbox: native.Sandbox(body.Sandbox), Additional: body.Additional,
	}
}

// callOf is a call on the wire.
func (s *Server) callOf(ctx context.Context, one native.Call) api.Call {
	out := api.Call{Session: one.Session, Turn: one.Turn, ID: one.ID}
	final := one.Final
	if final == nil {
		if one.Waiting == "" {
			return out
		}
		if record, ok := s.pending(ctx, one.Waiting); ok {
			out.Ruling = &record.Ruling
			recorded(&out, &record)
			if one.Event != nil {
				event := eventOf(*one.Event, record)
				out.Event = &event
			}
		}
		return out
	}
	out.Outcome, out.Output, out.Fault, out.Message = final.Outcome, final.Output, string(final.Fault), final.Message
	out.Response = final.Response
	if e := final.Effective; e != nil {
		out.Effective = &api.Effective{
			Sandbox: string(e.Sandbox), Permissions: e.Permissions, Preapproved: e.Preapproved, Grants: e.Grants,
		}
	}
	if a := final.Answer; a != nil {
		out.Ruling = &a.Ruling
		recorded(&out, a.Record)
		if final.Fault != native.FaultWithheld {
			out.Option, out.Settlement = a.Option, a.Settlement
		}
	}
	return out
}

// recorded says of a call which record it has, if any.
func recorded(out *api.Call, r *approval.Record) {
	if r != nil {
		out.Record, out.Revision, out.State, out.Deadline, out.Digest = r.ID, r.Revision, r.State, r.Deadline, r.Digest
	}
}

// awaitCall answers GET /v1/sessions/{session}/calls/{call}.
func (s *Server) awaitCall(w http.ResponseWriter, r *http.Request, _ *call) error {
	session, id, err := idsOf(r, "session", "call")
	if err != nil {
		return err
	}
	values, err := query(r, []string{"instance", "wait"})
	if err != nil {
		return err
	}
	wait, err := number(values, "wait", 0, api.MaxWait)
	if err != nil {
		return err
	}
	instance, err := instanceOf(values)
	if err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), max(time.Duration(wait)*time.Second, shortWait))
	defer cancel()
	one, err := s.native.Await(ctx, session, instance, id)
	if err != nil {
		return err
	}
	return s.tellCall(r.Context(), w, one, instance)
}

// cancelCall answers POST /v1/sessions/{session}/calls/{call}/cancel.
func (s *Server) cancelCall(w http.ResponseWriter, r *http.Request, _ *call) error {
	session, id, err := idsOf(r, "session", "call")
	if err != nil {
		return err
	}
	var body api.Withdrawal
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	if err := given(body.Instance); err != nil {
		return err
	}
	one, err := s.native.Cancel(r.Context(), session, body.Instance, id, body.Reason)
	if err != nil {
		return err
	}
	return s.tellCall(r.Context(), w, one, body.Instance)
}

// respond answers POST /v1/sessions/{session}/calls/{call}/response.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, c *call) error {
	session, id, err := idsOf(r, "session", "call")
	if err != nil {
		return err
	}
	if _, err := query(r, nil); err != nil {
		return err
	}
	var from int64
	if len(r.Header.Values("If-Match")) > 0 {
		if from, err = revision(r); err != nil {
			return err
		}
	}
	var body api.Response
	// What is granted may be as long as the request that asks for it.
	if err := s.decode(w, r, approval.MaxRequestBytes+api.MaxEnvelopeBytes, &body); err != nil {
		return err
	}
	response := native.Response{
		Session: session, Call: id, Revision: from, Reason: body.Reason, By: c.principal,
		Response: permission.Response{Permissions: body.Permissions, Scope: body.Scope, StrictAutoReview: body.StrictAutoReview},
	}
	if body.Proof != "" {
		// A code can be used once, so it is not used up on an answer that cannot count.
		record, err := s.native.Asked(r.Context(), response)
		if err != nil {
			return err
		}
		if err := response.By.MayAnswer(&record); err != nil {
			return err
		}
	}
	if err := s.prove(&response.By, body.Proof); err != nil {
		return err
	}
	record, err := s.native.Respond(r.Context(), response)
	if err != nil {
		return err
	}
	return s.sendRecord(w, record)
}

// grants answers GET /v1/grants.
func (s *Server) grants(w http.ResponseWriter, r *http.Request, c *call) error {
	values, err := query(r, []string{"session"})
	if err != nil {
		return err
	}
	held := s.native.Grants(c.principal, values.Get("session"))
	out := api.Grants{Grants: append([]permission.Grant{}, held.Grants...), Accepted: []api.Accepted{}}
	for _, one := range held.Accepted {
		out.Accepted = append(out.Accepted, api.Accepted{
			ID: one.ID, Session: one.Session, Turn: one.Turn, Call: one.Call, EnvironmentID: one.EnvironmentID,
			Record: one.Record, By: one.By, At: one.At.UTC(), Epoch: one.Epoch,
		})
	}
	return s.send(w, http.StatusOK, out)
}

// revoke answers DELETE /v1/grants/{id}.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	if err := s.native.Revoke(c.principal, r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
