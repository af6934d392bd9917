package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// question is an api.Question whose request has yet to be decoded, which package
// approval does strictly.
type question struct {
	Request   json.RawMessage `json:"request"`
	Workspace string          `json:"workspace"`
	Folder    string          `json:"folder"`
	AgentPID  int             `json:"agent_pid"`
	Notes     []string        `json:"notes"`
}

// hold counts the bytes of bodies that are in memory; what it returns lets go.
func (s *Server) hold(r *http.Request) (release func(), err error) {
	n := r.ContentLength
	if n < 0 || n > approval.MaxRequestBytes+api.MaxEnvelopeBytes {
		n = approval.MaxRequestBytes + api.MaxEnvelopeBytes
	}
	if !s.held.enter(n) {
		return nil, &api.Error{Code: api.Overloaded, Message: "the requests that wait take up all the room there is for them", RetryAfter: 1}
	}
	return func() { s.held.leave(n) }, nil
}

func (s *Server) question(w http.ResponseWriter, r *http.Request) (q gate.Question, agent int, err error) {
	text, err := s.body(w, r, approval.MaxRequestBytes+api.MaxEnvelopeBytes)
	if err != nil {
		return q, 0, err
	}
	var body question
	if err := unmarshal(text, &body); err != nil {
		return q, 0, err
	}
	if len(body.Request) == 0 {
		return q, 0, &api.Error{Code: api.BadRequest, Message: "the request is missing", Pointer: "/request"}
	}
	if err := placed(body.Workspace, body.Folder, body.AgentPID); err != nil {
		return q, 0, err
	}
	if len(body.Notes) > api.MaxNotes || slices.ContainsFunc(body.Notes, func(n string) bool { return len(n) > api.MaxNoteBytes }) {
		return q, 0, &api.Error{
			Code: api.BadRequest, Pointer: "/notes",
			Message: fmt.Sprintf("there can be %d notes of %d bytes each", api.MaxNotes, api.MaxNoteBytes),
		}
	}
	request, err := approval.Decode(body.Request)
	if err != nil {
		return q, 0, err
	}
	return gate.Question{Request: request, Workspace: body.Workspace, Folder: body.Folder, Notes: body.Notes}, body.AgentPID, nil
}

// check answers POST /v1/check.
func (s *Server) check(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	release, err := s.hold(r)
	if err != nil {
		return err
	}
	defer release()
	began := time.Now()
	q, agent, err := s.question(w, r)
	if err != nil {
		return err
	}
	// To check makes nobody an agent who does not say that there is one.
	if agent != 0 {
		if err := s.govern(c.caller, agent); err != nil {
			return err
		}
	}
	ruling := s.gate.Check(r.Context(), q)
	// One whose caller went away has not ruled on anything.
	if r.Context().Err() != nil {
		return errGone
	}
	s.metrics.ruled("check", time.Since(began))
	return s.send(w, http.StatusOK, ruling)
}

// ask answers POST /v1/requests.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, c *call) error {
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
	q, agent, err := s.question(w, r)
	if err != nil {
		return err
	}
	if err := s.govern(c.caller, agent); err != nil {
		return err
	}
	if wait {
		answer, err := s.gate.Ask(r.Context(), q)
		if err != nil {
			return err
		}
		if atOnce(answer) {
			s.metrics.ruled("requests", time.Since(began))
		}
		return s.tell(w, http.StatusOK, answer)
	}
	if !s.posted.enter(s.asks.most, func() int { return s.gate.Stats().Waiting }) {
		return full()
	}
	answer, err := s.gate.Post(r.Context(), q)
	if err != nil {
		return err
	}
	if answer.Outcome != "" {
		return s.tell(w, http.StatusOK, answer)
	}
	address := url.URL{
		Path:     "/v1/requests/" + answer.Record.ID + "/answer",
		RawQuery: url.Values{"instance": {answer.Record.Instance}}.Encode(),
	}
	w.Header().Set("Location", address.String())
	return s.tell(w, http.StatusAccepted, answer)
}

// atOnce tells whether nobody was waited for.
func atOnce(a gate.Answer) bool {
	// Asked, decided and being written is what such a record has been through.
	const immediate = 3
	r := a.Record
	return r == nil || r.Decision != nil && len(r.Decision.Verdicts) == 0 && r.Revision <= immediate &&
		(r.Decision.Source == approval.SourceRule || r.Decision.Source == approval.SourceAuto)
}

func full() error {
	return &api.Error{Code: api.Overloaded, Message: "as many requests wait as may wait at once", RetryAfter: 1}
}

// enter admits one more who waits.
func (s *Server) enter() (leave func(), err error) {
	if !s.asks.enter(1) {
		return nil, full()
	}
	return func() { s.asks.leave(1) }, nil
}

// takeIn admits one more who waits, together with the body that they send.
func (s *Server) takeIn(r *http.Request) (done func(), err error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	release, err := s.hold(r)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { release(); leave() }, nil
}

// tell writes an answer, and notes whether it was written.
func (s *Server) tell(w http.ResponseWriter, status int, answer gate.Answer) error {
	if err := s.send(w, status, answerOf(answer)); err != nil {
		s.gate.Unsent(answer, err)
		return err
	}
	s.gate.Sent(answer)
	return nil
}

func answerOf(a gate.Answer) api.Answer {
	out := api.Answer{Outcome: a.Outcome, Option: a.Option, Reason: a.Reason, Settlement: a.Settlement, Ruling: a.Ruling}
	if r := a.Record; r != nil {
		out.ID, out.Revision, out.State, out.Instance = r.ID, r.Revision, r.State, r.Instance
		out.Deadline, out.Digest = r.Deadline, r.Digest
		if d := r.Decision; d != nil && a.Outcome != "" {
			out.Source, out.By = d.Source, d.By
		}
	}
	return out
}

const (
	// shortWait is the shortest time that a poll looks for an answer in.
	shortWait = 50 * time.Millisecond
	// collectTime is how long an answer that is there may take to be told of.
	collectTime = 5 * time.Second
)

// answer answers GET /v1/requests/{id}/answer.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, _ *call) error {
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
	ended := errors.New("the poll is over")
	ctx, cancel := context.WithTimeoutCause(r.Context(), max(time.Duration(wait)*time.Second, shortWait), ended)
	defer cancel()
	answer, err := s.gate.Await(ctx, r.PathValue("id"), instance)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		// The answer came just when the time was up, and could not be told in what
		// was left of it.
		again, stop := context.WithTimeout(r.Context(), collectTime)
		defer stop()
		answer, err = s.gate.Await(again, r.PathValue("id"), instance)
	}
	if err != nil {
		return err
	}
	if answer.Outcome == "" {
		return s.send(w, http.StatusAccepted, answerOf(answer))
	}
	return s.tell(w, http.StatusOK, answer)
}
