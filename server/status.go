package server

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/server/api"
)

// description is the OpenAPI document of the routes. A test writes it from them
// and from the Go types.
//
//go:embed openapi.json
var description []byte

// status answers GET /v1/status.
func (s *Server) status(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	// Who that is matters here, on the socket too.
	p, err := s.principal(r, c.caller)
	if err != nil {
		return err
	}
	out := api.Status{
		Version: s.version, Started: s.started,
		Principal: api.Principal{ID: p.ID, Role: string(p.Role), Prover: prover(p)},
	}
	if overall(p) != nil {
		return s.send(w, http.StatusOK, out)
	}
	stats := s.gate.Stats()
	out.PID, out.Home = os.Getpid(), s.home
	out.Socket, out.Addresses = s.listening()
	out.Workspaces = s.standing()
	out.Waiting, out.Instances, out.Agents = stats.Waiting, stats.Instances, s.agents.Len()
	sessions := s.native.Stats()
	out.Sessions, out.Turns = sessions.Sessions, sessions.Turns
	out.Degraded, out.Warnings = s.epochs.Degraded(), s.warnings
	for _, n := range s.told() {
		out.Notifiers = append(out.Notifiers, api.Notifier{
			Name: n.Name, Kind: string(n.Kind), State: string(n.State), Sent: n.Sent, Failed: n.Failed, Dropped: n.Dropped,
			Queued: n.Queued, Fault: n.Fault, FaultAt: n.FaultAt,
		})
	}
	if s.plugins != nil {
		out.Plugins = s.plugins()
	}
	store := s.ledger.Stats()
	out.Ledger = &api.Ledger{
		Head: store.Head.Seq, Hash: store.Head.Hash, Bytes: store.FileBytes + store.LogBytes, Queued: store.Queued,
		Failing: stats.Failing, Fault: store.LastError, FaultAt: store.LastErrorAt,
	}
	return s.send(w, http.StatusOK, out)
}

// health answers GET /v1/health. Its words are the same for everybody, and name
// nothing of this home.
func (s *Server) health(w http.ResponseWriter, r *http.Request, _ *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	var h api.Health
	if s.stops() {
		h.Reasons = append(h.Reasons, "the daemon ends")
	}
	if s.gate.Stats().Failing {
		h.Reasons = append(h.Reasons, "the ledger cannot be kept")
	} else if _, err := s.ledger.Events(r.Context(), s.ledger.Stats().Head.Seq, 1); err != nil && r.Context().Err() == nil {
		h.Reasons = append(h.Reasons, "the ledger cannot be read")
	}
	if s.epochs.Home().Standing().Epoch == nil {
		h.Reasons = append(h.Reasons, "no rules could be loaded, so everything is asked")
	}
	if !s.reachable() {
		h.Reasons = append(h.Reasons, "the socket is gone or another one, so nobody new reaches the daemon")
	}
	h.OK = len(h.Reasons) == 0
	if !h.OK {
		return s.send(w, http.StatusServiceUnavailable, h)
	}
	return s.send(w, http.StatusOK, h)
}

// openAPI answers GET /v1/openapi.json.
func (s *Server) openAPI(w http.ResponseWriter, r *http.Request, _ *call) error {
	if _, err := query(r, nil); err != nil {
		return err
	}
	return s.write(w, http.StatusOK, "application/json", description)
}

// scrape answers GET /metrics.
func (s *Server) scrape(w http.ResponseWriter, r *http.Request, c *call) error {
	if c.principal.Role == gate.RoleMember {
		return overall(c.principal)
	}
	// What there is to tell is put together before the time to read it begins.
	page := &page{header: w.Header(), status: http.StatusOK}
	s.metrics.handler.ServeHTTP(page, r)
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.writeTime)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	w.WriteHeader(page.status)
	if _, err := w.Write(page.text.Bytes()); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// page is a response that is kept until it is whole.
type page struct {
	header http.Header
	status int
	text   bytes.Buffer
}

func (p *page) Header() http.Header                  { return p.header }
func (p *page) WriteHeader(status int)               { p.status = status }
func (p *page) Write(text []byte) (n int, err error) { return p.text.Write(text) }
