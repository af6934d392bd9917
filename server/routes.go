package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/server/api"
)

// route is one call of the API.
type route struct {
	method, path string
	access       access
	// handle answers, or returns why it does not. It has not written anything then.
	handle func(s *Server, w http.ResponseWriter, r *http.Request, c *call) error
}

// call is who makes a call.
type call struct {
	*caller
	principal gate.Principal
}

// routes are all calls. openapi.json is written from them.
var routes = []route{
	{"POST", "/v1/requests", asking, (*Server).ask},
	{"POST", "/v1/check", asking, (*Server).check},
	{"GET", "/v1/requests/{id}/answer", asking, (*Server).answer},
	{"GET", "/v1/approvals", looking, (*Server).list},
	{"GET", "/v1/approvals/{id}", looking, (*Server).read},
	{"POST", "/v1/approvals/{id}/decision", looking, (*Server).decide},
	{"POST", "/v1/approvals/{id}/cancel", looking, (*Server).cancel},
	{"POST", "/v1/approvals/{id}/reconcile", looking, (*Server).reconcile},
	{"POST", "/v1/approvals/{id}/withdraw", asking, (*Server).withdraw},
	{"POST", "/v1/approvals/{id}/fence", asking, (*Server).fence},
	{"POST", "/v1/approvals/{id}/mark", asking, (*Server).mark},
	{"PUT", "/v1/instances/{name}", asking, (*Server).renew},
	{"DELETE", "/v1/instances/{name}", asking, (*Server).end},
	{"PUT", "/v1/sessions/{session}", asking, (*Server).openSession},
	{"GET", "/v1/sessions/{session}", asking, (*Server).session},
	{"DELETE", "/v1/sessions/{session}", asking, (*Server).endSession},
	{"GET", "/v1/sessions", looking, (*Server).sessions},
	{"PUT", "/v1/sessions/{session}/turns/{turn}", asking, (*Server).openTurn},
	{"DELETE", "/v1/sessions/{session}/turns/{turn}", asking, (*Server).endTurn},
	{"GET", "/v1/sessions/{session}/turns/{turn}/tools", asking, (*Server).tools},
	{"PUT", "/v1/sessions/{session}/turns/{turn}/calls/{call}", asking, (*Server).startCall},
	{"GET", "/v1/sessions/{session}/calls/{call}", asking, (*Server).awaitCall},
	{"POST", "/v1/sessions/{session}/calls/{call}/cancel", asking, (*Server).cancelCall},
	{"POST", "/v1/sessions/{session}/calls/{call}/response", looking, (*Server).respond},
	{"GET", "/v1/grants", looking, (*Server).grants},
	{"DELETE", "/v1/grants/{id}", looking, (*Server).revoke},
	{"GET", "/v1/events", looking, (*Server).events},
	{"GET", "/v1/workspaces", looking, (*Server).workspaces},
	{"POST", "/v1/workspaces/trust", looking, (*Server).trust},
	{"POST", "/v1/workspaces/untrust", looking, (*Server).untrust},
	{"POST", "/v1/workspaces/confirm", looking, (*Server).confirm},
	{"GET", "/v1/epochs/{id}", looking, (*Server).epoch},
	{"GET", "/v1/status", asking, (*Server).status},
	{"GET", "/v1/health", anyone, (*Server).health},
	{"GET", "/v1/openapi.json", anyone, (*Server).openAPI},
	{"GET", "/metrics", looking, (*Server).scrape},
}

// errGone means that the caller went away, or does not read. There is nobody to
// answer, and the connection is cut off.
var errGone = errors.New("the caller went away")

// response notes what has been written.
type response struct {
	http.ResponseWriter
	status int
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(text []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(text)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// entrance is what every request passes.
func (s *Server) entrance(plain http.ResponseWriter, r *http.Request) {
	s.active.RLock()
	defer s.active.RUnlock()
	w := &response{ResponseWriter: plain}
	defer func() {
		v := recover()
		if v == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			s.metrics.responded(r.Pattern, w.status)
			panic(v)
		}
		if v != nil {
			// Nothing that the caller sent is in a stack as it is printed.
			s.log.Error("panic while answering", "method", r.Method, "route", r.Pattern, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if w.status != 0 {
				// Half of an answer must not pass for a whole one.
				s.metrics.responded(r.Pattern, http.StatusInternalServerError)
				panic(http.ErrAbortHandler)
			}
			s.fail(w, r, &api.Error{Code: api.Internal, Message: "the daemon failed; its log says more"})
		}
		s.metrics.responded(r.Pattern, w.status)
	}()
	if err := s.sameOrigin(r); err != nil {
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// sameOrigin refuses what a web page of another origin may have sent, by its own
// name or by one that a name server has for this machine.
func (s *Server) sameOrigin(r *http.Request) error {
	if !callerOf(r).local {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !loopback(strings.Trim(host, "[]")) {
			return &api.Error{Code: api.CrossOrigin, Message: "the Host header is no name of loopback", Hint: "use localhost or 127.0.0.1"}
		}
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		if len(origins) > 1 || origins[0] != "http://"+r.Host {
			return &api.Error{Code: api.CrossOrigin, Message: "pages of other origins may not call"}
		}
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return nil
	default:
		return &api.Error{Code: api.CrossOrigin, Message: "pages of other origins may not call"}
	}
}

// serve makes the handler of a route.
func (s *Server) serve(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{caller: callerOf(r)}
		var err error
		if c.principal, err = s.admit(r, c.caller, route.access); err == nil {
			err = route.handle(s, w, r, c)
		}
		_, told := errors.AsType[*api.Error](err)
		switch {
		case err == nil:
		case errors.Is(err, errGone), !told && r.Context().Err() != nil:
			// A handler that returns without a word says 200 to net/http.
			panic(http.ErrAbortHandler)
		default:
			s.fail(w, r, err)
		}
	}
}

// noRoute answers what no route matches.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.paths.Handler(r)
	var allow []string
	for _, route := range routes {
		if route.path == pattern {
			allow = append(allow, route.method)
		}
	}
	if len(allow) == 0 {
		s.fail(w, r, &api.Error{Code: api.NoRoute, Message: "the API has no such path", Hint: "GET /v1/openapi.json lists all of them"})
		return
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	s.fail(w, r, &api.Error{Code: api.MethodNotAllowed, Message: "the path has the methods " + strings.Join(allow, ", ")})
}

// send writes an answer, and returns errGone if nobody takes it.
func (s *Server) send(w http.ResponseWriter, status int, answer any) error {
	text, err := jsonv2.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return s.write(w, status, "application/json", text)
}

func (s *Server) write(w http.ResponseWriter, status int, media string, text []byte) error {
	h := w.Header()
	h["Content-Type"] = []string{media}
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(s.writeTime)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	// What was told only counts as told once it has left.
	if err := c.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

// fail writes an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.fault(r, err)
	switch e.Code {
	case api.Unauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="regent"`)
	case api.StepUp, api.WrongProof, api.NotEnrolled:
		w.Header().Set("WWW-Authenticate", `Regent-Step-Up realm="regent"`)
	case api.Timeout, api.TooLarge:
		// The rest of the body may still come.
		w.Header().Set("Connection", "close")
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	// One who does not read an error has nothing to be told.
	_ = s.send(w, e.Code.Status(), api.Failure{Error: e})
}

// seconds is d in whole seconds, at least one.
func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// maxDrain is how much of a body that is too large is passed over.
const maxDrain = 16 << 20

// body reads the body of a request whole.
func (s *Server) body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, &api.Error{Code: api.UnsupportedMedia, Message: "the body has to be JSON in UTF-8", Hint: "send Content-Type: application/json"}
	}
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Now().Add(s.bodyTime)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	var text bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= most {
		text.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if r.ContentLength <= most {
		_, err = text.ReadFrom(io.LimitReader(r.Body, most+1))
	}
	if r.ContentLength > most || int64(text.Len()) > most {
		// Whoever still writes does not read why nobody listens.
		_, _ = io.CopyN(io.Discard, r.Body, maxDrain)
		return nil, &api.Error{Code: api.TooLarge, Message: fmt.Sprintf("the body may have %d bytes", most)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &api.Error{Code: api.Timeout, Message: "the body took too long to arrive"}
	}
	if err != nil {
		return nil, &api.Error{Code: api.BadRequest, Message: "the body broke off"}
	}
	// Whoever waits for an answer sends nothing for as long as it takes.
	if err := c.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	return text.Bytes(), nil
}

// decode reads a small body into v.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, most int64, v any) error {
	text, err := s.body(w, r, most)
	if err != nil {
		return err
	}
	return unmarshal(text, v)
}

func unmarshal(text []byte, v any) error {
	err := jsonv2.Unmarshal(text, v, jsonv2.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	e := &api.Error{Code: api.BadRequest, Message: "the body is not what the call takes"}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		e.Message, e.Pointer = "the body is not valid JSON", string(syntactic.JSONPointer)
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			e.Message = "the body names a member twice"
		case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
			e.Message = "the body ends too early"
		}
	} else if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		e.Pointer = string(semantic.JSONPointer)
		switch {
		case errors.Is(err, jsonv2.ErrUnknownName):
			e.Message = "the body has a member that the call does not know"
		case semantic.GoType != nil && semantic.JSONKind != 0:
			e.Message = "the body has a value of the wrong type"
		}
	}
	return e
}

// query reads the parameters of a call, each of which may be given once unless
// it is in many.
func query(r *http.Request, names []string, many ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &api.Error{Code: api.BadRequest, Message: "the query of the address is malformed"}
	}
	for name, given := range values {
		switch {
		case slices.Contains(many, name):
		case !slices.Contains(names, name):
			return nil, &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the call has no parameter %.60q", name)}
		case len(given) > 1:
			return nil, &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the parameter %s is given twice", name)}
		}
	}
	return values, nil
}

// number reads a whole number of 0 or more.
func number(values url.Values, name string, otherwise, most int64) (int64, error) {
	text := values.Get(name)
	if !values.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the parameter %s is a number from 0 to %d", name, most)}
	}
	return n, nil
}

// revision reads the If-Match header, which says what the caller has read.
func revision(r *http.Request) (int64, error) {
	tags := r.Header.Values("If-Match")
	if len(tags) == 0 {
		return 0, &api.Error{
			Code: api.RevisionRequired, Message: "a change needs the revision that was read", Hint: `send it as If-Match: "REVISION", as the ETag of the record says`,
		}
	}
	digits, ok := strings.CutPrefix(tags[0], `"`)
	if ok {
		digits, ok = strings.CutSuffix(digits, `"`)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 1 || len(tags) > 1 {
		return 0, &api.Error{Code: api.BadRequest, Message: "If-Match is not one revision", Hint: `it looks like If-Match: "3"`}
	}
	return n, nil
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }
