package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// list answers GET /v1/approvals.
func (s *Server) list(w http.ResponseWriter, r *http.Request, c *call) error {
	values, err := query(r, []string{"before", "limit", "workspace", "run", "session", "instance"}, "state")
	if err != nil {
		return err
	}
	limit, err := number(values, "limit", 0, approval.MaxPage)
	if err != nil {
		return err
	}
	q := approval.Query{
		Before: values.Get("before"), Limit: int(limit), Workspace: values.Get("workspace"),
		Run: values.Get("run"), Instance: values.Get("instance"), Session: values.Get("session"),
	}
	for _, text := range values["state"] {
		state := approval.State(text)
		if !slices.Contains(approval.States, state) {
			return &api.Error{Code: api.BadRequest, Message: "no such state", Hint: "the states are " + states()}
		}
		q.States = append(q.States, state)
	}
	page, err := s.gate.List(r.Context(), c.principal, q)
	if err != nil {
		return err
	}
	return s.send(w, http.StatusOK, page)
}

func states() string {
	names := make([]string, len(approval.States))
	for i, state := range approval.States {
		names[i] = string(state)
	}
	return strings.Join(names, ", ")
}

// read answers GET /v1/approvals/{id}.
func (s *Server) read(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	record, err := s.gate.Read(r.Context(), c.principal, r.PathValue("id"))
	if err != nil {
		return err
	}
	tag := etag(record.Revision)
	w.Header().Set("ETag", tag)
	for _, known := range strings.Split(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if strings.TrimPrefix(strings.TrimSpace(known), "W/") == tag {
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return s.send(w, http.StatusOK, record)
}

func (s *Server) sendRecord(w http.ResponseWriter, record approval.Record) error {
	w.Header().Set("ETag", etag(record.Revision))
	return s.send(w, http.StatusOK, record)
}

// change reads what each change of a record has: its revision and a body.
func (s *Server) change(w http.ResponseWriter, r *http.Request, most int64, body any) (int64, error) {
	if _, err := query(r, nil); err != nil {
		return 0, err
	}
	from, err := revision(r)
	if err != nil {
		return 0, err
	}
	return from, s.decode(w, r, most, body)
}

// decide answers POST /v1/approvals/{id}/decision.
func (s *Server) decide(w http.ResponseWriter, r *http.Request, c *call) error {
	var d api.Decision
	// An option may be as long as the request that offers it.
	from, err := s.change(w, r, approval.MaxRequestBytes+api.MaxEnvelopeBytes, &d)
	if err != nil {
		return err
	}
	if len(d.Option) == 0 {
		return &api.Error{Code: api.BadRequest, Message: "the option is missing", Pointer: "/option"}
	}
	by := c.principal
	if d.Proof != "" {
		// A code can be used once, so it is not used up on an answer that cannot count.
		record, err := s.gate.Read(r.Context(), by, r.PathValue("id"))
		if err != nil {
			return err
		}
		if record.Revision != from {
			return &approval.ConflictError{Current: record}
		}
	}
	if err := s.prove(&by, d.Proof); err != nil {
		return err
	}
	record, err := s.gate.Answer(r.Context(), gate.Reply{
		ID: r.PathValue("id"), Revision: from, Option: d.Option, Reason: d.Reason, Grant: d.Grant, By: by,
	})
	if err != nil {
		return err
	}
	return s.sendRecord(w, record)
}

// cancel answers POST /v1/approvals/{id}/cancel.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request, c *call) error {
	var body api.Reason
	from, err := s.change(w, r, api.MaxEnvelopeBytes, &body)
	if err != nil {
		return err
	}
	record, err := s.gate.Cancel(r.Context(), c.principal, r.PathValue("id"), from, body.Reason)
	if err != nil {
		return err
	}
	return s.sendRecord(w, record)
}

// reconcile answers POST /v1/approvals/{id}/reconcile.
func (s *Server) reconcile(w http.ResponseWriter, r *http.Request, c *call) error {
	var body api.Reason
	from, err := s.change(w, r, api.MaxEnvelopeBytes, &body)
	if err != nil {
		return err
	}
	record, err := s.gate.Reconcile(r.Context(), c.principal, r.PathValue("id"), from, body.Reason)
	if err != nil {
		return err
	}
	return s.sendRecord(w, record)
}

// small reads the body of a call that has neither parameters nor a revision.
func (s *Server) small(w http.ResponseWriter, r *http.Request, body any) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	return s.decode(w, r, api.MaxEnvelopeBytes, body)
}

func progressOf(r approval.Record) api.Progress {
	p := api.Progress{ID: r.ID, Revision: r.Revision, State: r.State}
	if r.Decision != nil {
		p.Outcome = r.Decision.Outcome
	}
	return p
}

// withdraw answers POST /v1/approvals/{id}/withdraw.
func (s *Server) withdraw(w http.ResponseWriter, r *http.Request, _ *call) error {
	var body api.Withdrawal
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	reason := body.Reason
	if reason == "" {
		reason = "the one who asked withdrew it"
	}
	record, err := s.gate.Withdraw(r.Context(), r.PathValue("id"), body.Instance, reason)
	if err != nil {
		return err
	}
	return s.send(w, http.StatusOK, progressOf(record))
}

// fence answers POST /v1/approvals/{id}/fence.
func (s *Server) fence(w http.ResponseWriter, r *http.Request, _ *call) error {
	var body api.Fence
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	record, err := s.native.Fence(r.Context(), r.PathValue("id"), body.Run, body.Instance, body.Digest)
	if err != nil {
		return err
	}
	return s.send(w, http.StatusOK, progressOf(record))
}

// mark answers POST /v1/approvals/{id}/mark.
func (s *Server) mark(w http.ResponseWriter, r *http.Request, _ *call) error {
	var body api.Mark
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	if body.Mark != api.MarkSent && body.Mark != api.MarkResolved {
		return &api.Error{Code: api.BadRequest, Message: "no such mark", Pointer: "/mark", Hint: "the marks are sent and resolved"}
	}
	record, err := s.gate.Mark(r.Context(), r.PathValue("id"), body.Instance, gate.Mark(body.Mark), body.Reason)
	if err != nil {
		return err
	}
	return s.send(w, http.StatusOK, progressOf(record))
}

// renew answers PUT /v1/instances/{name}.
func (s *Server) renew(w http.ResponseWriter, r *http.Request, _ *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	until, err := s.gate.Renew(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.send(w, http.StatusOK, api.Lease{Until: until})
}

// end answers DELETE /v1/instances/{name}.
func (s *Server) end(w http.ResponseWriter, r *http.Request, _ *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	if err := s.gate.End(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
