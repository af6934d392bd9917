package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/server/api"
)

// workspaces answers GET /v1/workspaces.
func (s *Server) workspaces(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	if err := overall(c.principal); err != nil {
		return err
	}
	out := api.Workspaces{Workspaces: s.standing(), Trusted: []api.Trusted{}}
	trusted, err := s.epochs.Trust().List()
	if err != nil {
		out.TrustFault = err.Error()
	}
	for _, one := range trusted {
		out.Trusted = append(out.Trusted, api.Trusted(one))
	}
	return s.send(w, http.StatusOK, out)
}

// overall admits those who may see what is not about one request.
func overall(p gate.Principal) error {
	switch p.Role {
	case gate.RoleLocal, gate.RoleOwner, gate.RoleObserver:
		return nil
	default:
		return &api.Error{Code: api.Forbidden, Message: "a member sees the requests of their sessions, and nothing else"}
	}
}

func (s *Server) standing() []api.Workspace {
	status := s.epochs.Status()
	out := make([]api.Workspace, len(status))
	for i, one := range status {
		out[i] = api.Workspace(one)
	}
	return out
}

// folder holds the folders of calls to absolute paths.
func folder(dir string) error {
	if !filepath.IsAbs(dir) {
		return &api.Error{Code: api.BadRequest, Message: "the folder has to be an absolute path: the daemon is somewhere else than the caller", Pointer: "/dir"}
	}
	return nil
}

// trust answers POST /v1/workspaces/trust.
func (s *Server) trust(w http.ResponseWriter, r *http.Request, c *call) error {
	var body api.Trust
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	if err := folder(body.Dir); err != nil {
		return err
	}
	if err := s.administer(c.principal, body.Proof, true); err != nil {
		return err
	}
	one, err := s.epochs.Trust().Add(body.Dir, c.principal.ID, time.Now())
	if err != nil {
		return foldered(err, api.NoWorkspace)
	}
	s.log.Info("workspace trusted", "workspace", one.Dir, "by", c.principal.ID)
	s.refresh(r.Context(), one.Dir)
	return s.send(w, http.StatusOK, api.Trusted(one))
}

// untrust answers POST /v1/workspaces/untrust.
func (s *Server) untrust(w http.ResponseWriter, r *http.Request, c *call) error {
	var body api.Trust
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	if err := folder(body.Dir); err != nil {
		return err
	}
	if err := s.administer(c.principal, "", false); err != nil {
		return err
	}
	dir, err := s.epochs.Trust().Remove(body.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return foldered(err, api.NoWorkspace)
	}
	if err != nil {
		return err
	}
	s.log.Info("workspace no longer trusted", "workspace", dir, "by", c.principal.ID)
	s.refresh(r.Context(), dir)
	return s.send(w, http.StatusOK, api.Trusted{Dir: dir, By: c.principal.ID, At: time.Now().UTC().Truncate(time.Second)})
}

// refresh has a loaded workspace look at once at what was said about it, for the
// sake of requests that wait in it.
func (s *Server) refresh(ctx context.Context, dir string) {
	for _, one := range s.epochs.Status() {
		if one.Dir == dir {
			s.epochs.Of(ctx, gate.Question{Workspace: dir})
			return
		}
	}
}

// confirm answers POST /v1/workspaces/confirm.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request, c *call) error {
	var body api.Confirmation
	if err := s.small(w, r, &body); err != nil {
		return err
	}
	dir := body.Dir
	if dir != "" {
		if err := folder(dir); err != nil {
			return err
		}
		// One that has lost its configuration is known by the name that it had.
		if real, err := gate.Canonical(dir); err == nil {
			dir = real
		}
	}
	if err := s.administer(c.principal, body.Proof, true); err != nil {
		return err
	}
	if err := s.epochs.Confirm(r.Context(), dir, body.Epoch, c.principal); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// epoch answers GET /v1/epochs/{id}.
func (s *Server) epoch(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	if err := overall(c.principal); err != nil {
		return err
	}
	id := r.PathValue("id")
	for _, one := range s.epochs.Status() {
		if one.Epoch != id && one.Held != id {
			continue
		}
		workspace := s.epochs.Home()
		if one.Dir != "" {
			workspace = s.epochs.Of(r.Context(), gate.Question{Workspace: one.Dir})
		}
		// It may have been replaced in between.
		standing := workspace.Standing()
		if e := standing.Epoch; e != nil && e.ID == id {
			return s.send(w, http.StatusOK, epochOf(one.Dir, e, standing.Unconfirmed))
		}
		if e := standing.Held; e != nil && e.ID == id {
			return s.send(w, http.StatusOK, epochOf(one.Dir, e, true))
		}
	}
	return &api.Error{Code: api.NoEpoch, Message: "these rules are not loaded", Hint: "GET /v1/workspaces lists those that are"}
}

func epochOf(dir string, e *gate.Epoch, held bool) api.Epoch {
	out := api.Epoch{
		ID: e.ID, Workspace: dir, Trusted: e.Trusted, Held: held,
		Configuration: append([]string{}, e.Setup.Files...), Files: []api.File{}, Rules: []api.Rule{},
	}
	for _, f := range e.Policy.Files() {
		out.Files = append(out.Files, api.File{Name: f.Name, Layer: string(f.Layer), Kind: f.Kind, Reason: f.Reason})
	}
	for _, one := range e.Policy.Rules() {
		out.Rules = append(out.Rules, api.Rule{
			ID: one.ID, Decision: one.Decision, Title: one.Title, Severity: one.Severity, Mode: one.Mode,
			Layer: string(one.Layer), Package: one.Package, File: one.File, Line: one.Line, Ignored: one.Ignored,
		})
	}
	return out
}
