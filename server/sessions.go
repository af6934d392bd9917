package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"unicode"
	"unicode/utf8"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/server/api"
)

// idOf reads an id from the path of a call.
func idOf(r *http.Request, name string) (string, error) {
	id := r.PathValue(name)
	fault := &api.Error{
		Code: api.BadRequest, Message: fmt.Sprintf("the id of the %s is not one", name),
		Hint: fmt.Sprintf("it is printable text of 1 to %d bytes, percent-encoded, and neither . nor ..", api.MaxIDBytes),
	}
	if id == "" || id == "." || id == ".." || len(id) > api.MaxIDBytes || !utf8.ValidString(id) {
		return "", fault
	}
	for _, c := range id {
		if !unicode.IsPrint(c) {
			return "", fault
		}
	}
	return id, nil
}

// idsOf reads ids from the path of a call.
func idsOf(r *http.Request, first, second string) (string, string, error) {
	one, err := idOf(r, first)
	if err != nil {
		return "", "", err
	}
	two, err := idOf(r, second)
	return one, two, err
}

// instanceOf reads the parameter by which a host says who it is.
func instanceOf(values url.Values) (string, error) {
	if instance := values.Get("instance"); instance != "" {
		return instance, nil
	}
	return "", &api.Error{Code: api.BadRequest, Message: "the parameter instance is missing"}
}

// mine reads the instance of a call that has no other parameter.
func mine(r *http.Request) (string, error) {
	values, err := query(r, []string{"instance"})
	if err != nil {
		return "", err
	}
	return instanceOf(values)
}

// turnOfHost reads which turn a call is about, and the instance that makes it.
func turnOfHost(r *http.Request) (session, turn, instance string, err error) {
	if session, turn, err = idsOf(r, "session", "turn"); err == nil {
		instance, err = mine(r)
	}
	return session, turn, instance, err
}

// given refuses a body without an instance.
func given(instance string) error {
	if instance == "" {
		return &api.Error{Code: api.BadRequest, Message: "the instance is missing", Pointer: "/instance"}
	}
	return nil
}

// mayHost refuses those who only look.
func (c *call) mayHost() error {
	if c.principal.Role == gate.RoleObserver {
		return fmt.Errorf("%w: an observer asks nothing", gate.ErrForbidden)
	}
	return nil
}

// openSession answers PUT /v1/sessions/{session}.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := idOf(r, "session")
	if err != nil {
		return err
	}
	if err := c.mayHost(); err != nil {
		return err
	}
	var body api.SessionSpec
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	if err := given(body.Instance); err != nil {
		return err
	}
	if err := placed(body.Workspace, body.Folder, body.AgentPID); err != nil {
		return err
	}
	if err := s.govern(c.caller, body.AgentPID); err != nil {
		return err
	}
	one, err := s.native.Open(r.Context(), native.SessionSpec{
		ID: id, Instance: body.Instance, Run: body.Run, Workspace: body.Workspace, Folder: body.Folder,
		Version: body.Version, Members: body.Members, Subject: body.Subject,
	})
	if err != nil {
		return err
	}
	return s.send(w, http.StatusCreated, s.sessionOf(r.Context(), one))
}

// placed holds what a caller says of where it is to what can be followed from
// here.
func placed(workspace, folder string, agent int) error {
	fault := func(pointer, message string) error {
		return &api.Error{Code: api.BadRequest, Message: message, Pointer: pointer}
	}
	switch {
	case workspace != "" && !filepath.IsAbs(workspace):
		return fault("/workspace", "the workspace has to be an absolute path: the daemon is somewhere else than the caller")
	case folder != "" && !filepath.IsAbs(folder):
		return fault("/folder", "the folder has to be an absolute path: the daemon is somewhere else than the caller")
	case agent < 0:
		return fault("/agent_pid", "a process has a number above 0")
	}
	return nil
}

// session answers GET /v1/sessions/{session}.
func (s *Server) session(w http.ResponseWriter, r *http.Request, _ *call) error {
	id, err := idOf(r, "session")
	if err != nil {
		return err
	}
	instance, err := mine(r)
	if err != nil {
		return err
	}
	one, err := s.native.Describe(r.Context(), id, instance)
	if err != nil {
		return err
	}
	return s.send(w, http.StatusOK, s.sessionOf(r.Context(), one))
}

// endSession answers DELETE /v1/sessions/{session}.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request, _ *call) error {
	id, err := idOf(r, "session")
	if err != nil {
		return err
	}
	instance, err := mine(r)
	if err != nil {
		return err
	}
	if err := s.native.End(id, instance); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// sessions answers GET /v1/sessions.
func (s *Server) sessions(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	out := api.Sessions{Sessions: []api.Session{}}
	for _, one := range s.native.List(c.principal) {
		out.Sessions = append(out.Sessions, s.sessionOf(r.Context(), one))
	}
	return s.send(w, http.StatusOK, out)
}

// openTurn answers PUT /v1/sessions/{session}/turns/{turn}.
func (s *Server) openTurn(w http.ResponseWriter, r *http.Request, c *call) error {
	session, turn, err := idsOf(r, "session", "turn")
	if err != nil {
		return err
	}
	if err := c.mayHost(); err != nil {
		return err
	}
	var body api.TurnSpec
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	if err := given(body.Instance); err != nil {
		return err
	}
	if err := s.govern(c.caller, 0); err != nil {
		return err
	}
	spec := native.TurnSpec{ID: turn, Primary: body.Primary}
	for _, e := range body.Environments {
		spec.Environments = append(spec.Environments, native.Environment{
			Environment: approval.Environment{ID: e.ID, Cwd: e.Cwd, Home: e.Home, TmpDir: e.TmpDir, ProjectRoots: e.ProjectRoots},
			Foreign:     e.Native != nil && !*e.Native,
		})
	}
	one, err := s.native.OpenTurn(r.Context(), session, body.Instance, spec)
	if err != nil {
		return err
	}
	return s.send(w, http.StatusCreated, turnOf(one))
}

// endTurn answers DELETE /v1/sessions/{session}/turns/{turn}.
func (s *Server) endTurn(w http.ResponseWriter, r *http.Request, _ *call) error {
	session, turn, instance, err := turnOfHost(r)
	if err != nil {
		return err
	}
	one, err := s.native.EndTurn(r.Context(), session, instance, turn)
	if err != nil {
		return err
	}
	return s.send(w, http.StatusOK, turnOf(one))
}

// tools answers GET /v1/sessions/{session}/turns/{turn}/tools.
func (s *Server) tools(w http.ResponseWriter, r *http.Request, _ *call) error {
	session, turn, instance, err := turnOfHost(r)
	if err != nil {
		return err
	}
	tools, err := s.native.Tools(r.Context(), session, instance, turn)
	if err != nil {
		return err
	}
	out := api.Tools{Tools: []api.Tool{}}
	for _, one := range tools {
		out.Tools = append(out.Tools, api.Tool(one))
	}
	return s.send(w, http.StatusOK, out)
}

func turnOf(t native.TurnInfo) api.Turn {
	out := api.Turn{
		ID: t.ID, State: string(t.State), Why: t.Why, Strict: t.Strict,
		Environments: []api.Environment{}, Primary: t.Primary, Started: t.Started.UTC(),
	}
	for _, e := range t.Environments {
		ours := !e.Foreign
		out.Environments = append(out.Environments, api.Environment{
			ID: e.ID, Cwd: e.Cwd, Native: &ours, Home: e.Home, TmpDir: e.TmpDir, ProjectRoots: e.ProjectRoots,
		})
	}
	return out
}

func (s *Server) sessionOf(ctx context.Context, one native.Session) api.Session {
	out := api.Session{
		ID: one.ID, Instance: one.Instance, Run: one.Run, Workspace: one.Workspace, Folder: one.Folder, Version: one.Version,
		Members: one.Members, Subject: one.Subject, Started: one.Started.UTC(), Turns: []api.Turn{},
		Epoch: one.Epoch, Changes: one.Changes, Pending: []api.PermissionsEvent{},
	}
	for _, t := range one.Turns {
		out.Turns = append(out.Turns, turnOf(t))
	}
	for _, e := range one.Pending {
		if record, ok := s.pending(ctx, e.Record); ok {
			out.Pending = append(out.Pending, eventOf(e, record))
		}
	}
	return out
}

// pending is a record that waits, as it is now; false where it waits no more, or
// nobody can tell.
func (s *Server) pending(ctx context.Context, id string) (approval.Record, bool) {
	// Who may know of it has been looked at with the session that it is of.
	record, err := s.gate.Read(ctx, gate.Principal{Role: gate.RoleLocal}, id)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, approval.ErrNotFound) {
			s.log.Error("a request that waits could not be read", "id", id, "error", err)
		}
		return approval.Record{}, false
	}
	return record, record.State == approval.Pending
}

// eventOf is an event with what the ledger has of it: that is masked, and as it
// is now.
func eventOf(e native.Event, record approval.Record) api.PermissionsEvent {
	out := api.PermissionsEvent{
		CallID: e.CallID, TurnID: e.TurnID, EnvironmentID: e.EnvironmentID, StartedAtMS: e.StartedAtMS,
		Cwd: e.Cwd, Record: record.ID, Revision: record.Revision,
	}
	if asked := record.Request; asked != nil {
		out.Reason = asked.Reason
		if asked.Permissions != nil {
			out.Permissions = *asked.Permissions
		}
	}
	return out
}
