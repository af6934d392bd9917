// Package client speaks to Regent's daemon.
//
// Whatever is not an answer is an error, and an error is never permission: a
// host that gets one asks again or does not run the action.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// ErrNoDaemon means that nobody listens: no daemon runs, or the socket is one
// that a crash has left behind. Start the daemon with regent serve.
var ErrNoDaemon = errors.New("no daemon is running")

// ErrAnswer means that what answered does not speak this API, or broke off.
var ErrAnswer = errors.New("not an answer of Regent's daemon")

const (
	dialTime = 5 * time.Second
	// maxAnswer bounds an answer: a page of records is the largest.
	maxAnswer = 64 << 20
	// idleConnections are kept for callers that ask at the same time.
	idleConnections = 64
)

// Client is a way to one daemon. It is safe for concurrent use.
type Client struct {
	base      string
	token     string
	principal string
	http      *http.Client
}

// Dial returns a client of the daemon behind a Unix socket. It is an
// [ErrNoDaemon] if nobody answers there.
func Dial(socket string) (*Client, error) {
	dialer := &net.Dialer{Timeout: dialTime}
	conn, err := dialer.Dial("unix", socket)
	if err != nil {
		return nil, unreachable(socket, err)
	}
	_ = conn.Close() // it was only to see whether somebody is there
	t := transport()
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, unreachable(socket, err)
		}
		return conn, nil
	}
	return &Client{base: "http://localhost", http: newHTTP(t)}, nil
}

// New returns a client of the daemon at an address such as
// http://127.0.0.1:7340, with the token of a principal.
func New(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is no address of a daemon; one looks like http://127.0.0.1:7340", base)
	}
	t := transport()
	dialer := &net.Dialer{Timeout: dialTime}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, unreachable(address, err)
		}
		return conn, nil
	}
	return &Client{base: strings.TrimSuffix(base, "/"), token: token, http: newHTTP(t)}, nil
}

func transport() *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
		ForceAttemptHTTP2:   false,
	}
}

func newHTTP(t *http.Transport) *http.Client {
	return &http.Client{
		Transport: t,
		// The API has no redirects. A token must not follow one elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unreachable tells a daemon that is not there from other trouble.
func unreachable(where string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w (%s): %w", ErrNoDaemon, where, err)
	}
	return err
}

// As returns a client that speaks as another principal, with that one's rights.
// Only the local administrator may.
func (c *Client) As(principal string) *Client {
	other := *c
	other.principal = principal
	return &other
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request to the daemon.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any
}

func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.body != nil {
		text, err := jsonv2.Marshal(k.body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", k.method, k.path, err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, err
	}
	for name, values := range k.header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.principal != "" {
		r.Header.Set(api.HeaderPrincipal, c.principal)
	}
	response, err := c.http.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("%s %s: %w", k.method, k.path, err)
	}
	return response, nil
}

// text makes a call, and returns the body of an answer that is none of an error.
func (c *Client) text(ctx context.Context, k call) ([]byte, error) {
	response, err := c.send(ctx, k)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w: %w", k.method, k.path, ErrAnswer, err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("%s %s: %w: more than %d bytes", k.method, k.path, ErrAnswer, maxAnswer)
	case response.StatusCode < 200 || response.StatusCode >= 300:
		return nil, failure(response, text)
	}
	return text, nil
}

// fetch makes a call and decodes the answer. With an error there is none, not
// even half of one.
func fetch[T any](ctx context.Context, c *Client, k call) (T, error) {
	var answer, none T
	text, err := c.text(ctx, k)
	if err != nil {
		return none, err
	}
	if err := jsonv2.Unmarshal(text, &answer); err != nil {
		return none, fmt.Errorf("%s %s: %w: %w", k.method, k.path, ErrAnswer, err)
	}
	return answer, nil
}

// failure is the error that an answer holds.
func failure(response *http.Response, text []byte) error {
	var f api.Failure
	if err := jsonv2.Unmarshal(text, &f); err != nil || f.Error == nil || f.Error.Code == "" {
		return fmt.Errorf("%w: %s", ErrAnswer, response.Status)
	}
	return f.Error
}

// segment is a part of a path, whatever is in it.
func segment(text string) string { return url.PathEscape(text) }

func ifMatch(revision int64) http.Header {
	return http.Header{"If-Match": {`"` + strconv.FormatInt(revision, 10) + `"`}}
}

// Ask asks and waits for the answer. When ctx ends, the request is withdrawn.
func (c *Client) Ask(ctx context.Context, q api.Question) (api.Answer, error) {
	a, err := fetch[api.Answer](ctx, c, call{method: http.MethodPost, path: "/v1/requests", body: q})
	if err != nil {
		return api.Answer{}, err
	}
	switch a.Outcome {
	case approval.OutcomeAllow, approval.OutcomeDeny, approval.OutcomeCancel:
		return a, nil
	default:
		return api.Answer{}, fmt.Errorf("POST /v1/requests: %w: it has the outcome %.40q", ErrAnswer, a.Outcome)
	}
}

// Post asks and does not wait. Where somebody has to answer first, the answer
// has no outcome, and names what [Client.Await] needs.
func (c *Client) Post(ctx context.Context, q api.Question) (api.Answer, error) {
	return fetch[api.Answer](ctx, c, call{method: http.MethodPost, path: "/v1/requests", query: url.Values{"wait": {"false"}}, body: q})
}

// Await waits for the answer to a question that was posted, for whole seconds and
// [api.MaxWait] of them at most. An answer without an outcome means that there is
// none yet.
func (c *Client) Await(ctx context.Context, id, instance string, wait time.Duration) (api.Answer, error) {
	query := url.Values{"instance": {instance}, "wait": {strconv.FormatInt(waitSeconds(wait), 10)}}
	return fetch[api.Answer](ctx, c, call{method: http.MethodGet, path: "/v1/requests/" + segment(id) + "/answer", query: query})
}

// waitSeconds is how long one poll waits.
func waitSeconds(wait time.Duration) int64 {
	seconds := min(int64((wait+time.Second-1)/time.Second), api.MaxWait)
	return max(seconds, 0)
}

// Check says what would become of a question. Nothing is recorded.
func (c *Client) Check(ctx context.Context, q api.Question) (approval.Ruling, error) {
	return fetch[approval.Ruling](ctx, c, call{method: http.MethodPost, path: "/v1/check", body: q})
}

// List returns a page of records, the newest first.
func (c *Client) List(ctx context.Context, q approval.Query) (approval.Page, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"before": q.Before, "workspace": q.Workspace, "run": q.Run, "session": q.Session, "instance": q.Instance,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	for _, s := range q.States {
		query.Add("state", string(s))
	}
	return fetch[approval.Page](ctx, c, call{method: http.MethodGet, path: "/v1/approvals", query: query})
}

// Read returns a record.
func (c *Client) Read(ctx context.Context, id string) (approval.Record, error) {
	return fetch[approval.Record](ctx, c, call{method: http.MethodGet, path: "/v1/approvals/" + segment(id)})
}

// change is a call that changes a record which was read at a revision.
func (c *Client) change(ctx context.Context, id, what string, revision int64, body any) (approval.Record, error) {
	return fetch[approval.Record](ctx, c, call{
		method: http.MethodPost, path: "/v1/approvals/" + segment(id) + "/" + what, header: ifMatch(revision), body: body,
	})
}

// Decide answers a request that was read at a revision, and returns the record
// as it is then. An *approval.ConflictError holds the record that won.
func (c *Client) Decide(ctx context.Context, id string, revision int64, d api.Decision) (approval.Record, error) {
	return c.change(ctx, id, "decision", revision, d)
}

// Cancel withdraws a request that was read at a revision.
func (c *Client) Cancel(ctx context.Context, id string, revision int64, reason string) (approval.Record, error) {
	return c.change(ctx, id, "cancel", revision, api.Reason{Reason: reason})
}

// Reconcile ends a record whose answer may or may not have been heard, after a
// person has looked.
func (c *Client) Reconcile(ctx context.Context, id string, revision int64, reason string) (approval.Record, error) {
	return c.change(ctx, id, "reconcile", revision, api.Reason{Reason: reason})
}

// Withdraw cancels a request for the instance that asked it.
func (c *Client) Withdraw(ctx context.Context, id string, w api.Withdrawal) (api.Progress, error) {
	return c.progress(ctx, id, "withdraw", w)
}

// Fence says whether an action may start now on the strength of a record: only
// if the error is nil, and once. The second time is an approval.ErrUsed.
func (c *Client) Fence(ctx context.Context, id string, f api.Fence) (api.Progress, error) {
	p, err := c.progress(ctx, id, "fence", f)
	if err == nil && (p.ID != id || p.Outcome != approval.OutcomeAllow) {
		return api.Progress{}, fmt.Errorf("fence of %s: %w: it is about %q and says %q", id, ErrAnswer, p.ID, p.Outcome)
	}
	return p, err
}

// Mark notes how far an answer has come.
func (c *Client) Mark(ctx context.Context, id string, m api.Mark) (api.Progress, error) {
	return c.progress(ctx, id, "mark", m)
}

func (c *Client) progress(ctx context.Context, id, what string, body any) (api.Progress, error) {
	return fetch[api.Progress](ctx, c, call{method: http.MethodPost, path: "/v1/approvals/" + segment(id) + "/" + what, body: body})
}

// Renew is a sign of life of an instance, and returns until when that counts.
func (c *Client) Renew(ctx context.Context, instance string) (time.Time, error) {
	l, err := fetch[api.Lease](ctx, c, call{method: http.MethodPut, path: "/v1/instances/" + segment(instance)})
	return l.Until, err
}

// End says that an instance is over.
func (c *Client) End(ctx context.Context, instance string) error {
	_, err := c.text(ctx, call{method: http.MethodDelete, path: "/v1/instances/" + segment(instance)})
	return err
}

// Workspaces tells how the loaded workspaces stand, and which are trusted.
func (c *Client) Workspaces(ctx context.Context) (api.Workspaces, error) {
	return fetch[api.Workspaces](ctx, c, call{method: http.MethodGet, path: "/v1/workspaces"})
}

// Trust lets a workspace do more than tighten.
func (c *Client) Trust(ctx context.Context, t api.Trust) (api.Trusted, error) {
	return fetch[api.Trusted](ctx, c, call{method: http.MethodPost, path: "/v1/workspaces/trust", body: t})
}

// Untrust takes that back, and returns the workspace that was meant.
func (c *Client) Untrust(ctx context.Context, dir string) (string, error) {
	one, err := fetch[api.Trusted](ctx, c, call{method: http.MethodPost, path: "/v1/workspaces/untrust", body: api.Trust{Dir: dir}})
	return one.Dir, err
}

// Confirm puts in force what waits in a workspace.
func (c *Client) Confirm(ctx context.Context, confirmation api.Confirmation) error {
	_, err := c.text(ctx, call{method: http.MethodPost, path: "/v1/workspaces/confirm", body: confirmation})
	return err
}

// Epoch describes a set of rules that is loaded.
func (c *Client) Epoch(ctx context.Context, id string) (api.Epoch, error) {
	return fetch[api.Epoch](ctx, c, call{method: http.MethodGet, path: "/v1/epochs/" + segment(id)})
}

// Status tells how the daemon is.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return fetch[api.Status](ctx, c, call{method: http.MethodGet, path: "/v1/status"})
}

// Health tells whether the daemon can do its work. That it cannot is an answer.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	response, err := c.send(ctx, call{method: http.MethodGet, path: "/v1/health"})
	if err != nil {
		return api.Health{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return api.Health{}, fmt.Errorf("health: %w: %w", ErrAnswer, err)
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusServiceUnavailable {
		return api.Health{}, failure(response, text)
	}
	var h api.Health
	if err := jsonv2.Unmarshal(text, &h); err != nil || h.OK != (response.StatusCode == http.StatusOK) {
		return api.Health{}, fmt.Errorf("health: %w: %s", ErrAnswer, response.Status)
	}
	return h, nil
}

// Metrics returns what is counted, in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	return c.text(ctx, call{method: http.MethodGet, path: "/metrics"})
}

// OpenAPI returns the description of the API.
func (c *Client) OpenAPI(ctx context.Context) ([]byte, error) {
	return c.text(ctx, call{method: http.MethodGet, path: "/v1/openapi.json"})
}
