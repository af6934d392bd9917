package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
)

// sends makes a call on the socket as it is written here.
func (d *daemon) sends(method, path, body string, header ...string) (*http.Response, []byte) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = append(r.Header[header[i]], header[i+1])
		if header[i+1] == "" {
			delete(r.Header, header[i])
		}
	}
	return d.raw("unix", d.socket, r)
}

// failed holds an answer to what every error is.
func failed(t *testing.T, response *http.Response, text []byte) *api.Error {
	t.Helper()
	var f api.Failure
	if err := jsonv2.Unmarshal(text, &f, jsonv2.RejectUnknownMembers(true)); err != nil || f.Error == nil || f.Error.Message == "" {
		t.Fatalf("the answer is %s %q, want an error: %v", response.Status, text, err)
	}
	if media := response.Header.Get("Content-Type"); media != "application/json" {
		t.Errorf("the error is %s, want JSON", media)
	}
	if want := f.Error.Code.Status(); response.StatusCode != want {
		t.Errorf("%s has the status %d, want %d", f.Error.Code, response.StatusCode, want)
	}
	return f.Error
}

const (
	small = `{"request":{"kind":"command","command":{"text":"ls"},"environment":{"cwd":"/w"}}}`
	id    = "0123456789"
)

func TestErrors(t *testing.T) {
	d := start(t, setup{})
	etag := []string{"If-Match", `"1"`}
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		want                     api.Code
		pointer                  string
	}{
		{"a path that is not there", "GET", "/v1/nothing", "", nil, api.NoRoute, ""},
		{"the root", "GET", "/", "", nil, api.NoRoute, ""},
		{"a method that the path has not", "DELETE", "/v1/approvals/x", "", nil, api.MethodNotAllowed, ""},
		{"a method for a body", "GET", "/v1/check", "", nil, api.MethodNotAllowed, ""},

		{"no body", "POST", "/v1/check", "", []string{"Content-Type", "application/json"}, api.BadRequest, ""},
		{"a body that is no JSON", "POST", "/v1/check", "ls", nil, api.BadRequest, ""},
		{"two values", "POST", "/v1/check", small + small, nil, api.BadRequest, ""},
		{"a member twice", "POST", "/v1/check", `{"folder":"/a","folder":"/b"}`, nil, api.BadRequest, "/folder"},
		{"a member that is not known", "POST", "/v1/check", `{"permit":true}`, nil, api.BadRequest, "/permit"},
		{"a value of the wrong type", "POST", "/v1/check", `{"folder":1}`, nil, api.BadRequest, "/folder"},
		{"no request", "POST", "/v1/check", `{}`, nil, api.BadRequest, "/request"},
		{"a request that is null", "POST", "/v1/check", `{"request":null}`, nil, api.MalformedRequest, "/request/kind"},
		{"a request of no kind", "POST", "/v1/requests", `{"request":{}}`, nil, api.MalformedRequest, "/request/kind"},
		{"a request with a member twice deep inside", "POST", "/v1/requests", `{"request":{"kind":"tool","tool":{"name":"x","arguments":{"a":1,"a":2}}}}`, nil, api.BadRequest, "/request/tool/arguments/a"},
		{"a request with an unknown member", "POST", "/v1/requests", `{"request":{"kind":"tool","tool":{"name":"x"},"trusted":true}}`, nil, api.MalformedRequest, "/request/trusted"},
		{"options without a refusal", "POST", "/v1/requests", `{"request":{"kind":"tool","tool":{"name":"x"},"options":["accept"]}}`, nil, api.MalformedRequest, "/request/options"},
		{"a relative workspace", "POST", "/v1/check", `{"workspace":"w","request":{}}`, nil, api.BadRequest, "/workspace"},
		{"a relative folder", "POST", "/v1/check", `{"folder":"w","request":{}}`, nil, api.BadRequest, "/folder"},
		{"a negative process", "POST", "/v1/check", `{"agent_pid":-1,"request":{}}`, nil, api.BadRequest, "/agent_pid"},
		{"a process that is no ancestor", "POST", "/v1/requests", `{"agent_pid":4194304,` + small[1:], nil, api.AgentPID, "/agent_pid"},
		{"a body that is a form", "POST", "/v1/check", small, []string{"Content-Type", "", "Content-Type", "application/x-www-form-urlencoded"}, api.UnsupportedMedia, ""},
		{"a body of another charset", "POST", "/v1/check", small, []string{"Content-Type", "", "Content-Type", "application/json; charset=utf-16"}, api.UnsupportedMedia, ""},
		{"a body of no type", "POST", "/v1/check", small, []string{"Content-Type", ""}, api.UnsupportedMedia, ""},
		{"a body beyond the bound", "POST", "/v1/check", strings.Repeat(" ", approval.MaxRequestBytes+api.MaxEnvelopeBytes+1), nil, api.TooLarge, ""},
		{"a small body beyond its bound", "POST", "/v1/workspaces/trust", strings.Repeat(" ", api.MaxEnvelopeBytes+1), nil, api.TooLarge, ""},

		{"a parameter that is not known", "POST", "/v1/check?dry=true", small, nil, api.BadRequest, ""},
		{"a parameter twice", "POST", "/v1/requests?wait=true&wait=false", small, nil, api.BadRequest, ""},
		{"a query that is malformed", "GET", "/v1/approvals?limit=1;2", "", nil, api.BadRequest, ""},
		{"to wait or not", "POST", "/v1/requests?wait=maybe", small, nil, api.BadRequest, ""},
		{"no such state", "GET", "/v1/approvals?state=pending&state=allowed", "", nil, api.BadRequest, ""},
		{"a page that is too long", "GET", "/v1/approvals?limit=101", "", nil, api.BadRequest, ""},
		{"a negative page", "GET", "/v1/approvals?limit=-1", "", nil, api.BadRequest, ""},
		{"a page before nothing", "GET", "/v1/approvals?before=" + id, "", nil, api.NotFound, ""},
		{"a poll without an instance", "GET", "/v1/requests/" + id + "/answer", "", nil, api.BadRequest, ""},
		{"a poll that waits too long", "GET", "/v1/requests/" + id + "/answer?instance=i&wait=61", "", nil, api.BadRequest, ""},
		{"a poll for nothing", "GET", "/v1/requests/" + id + "/answer?instance=i", "", nil, api.NotFound, ""},
		{"a record that is not there", "GET", "/v1/approvals/" + id, "", nil, api.NotFound, ""},

		{"a decision without a revision", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow"}`, nil, api.RevisionRequired, ""},
		{"a decision on any revision", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow"}`, []string{"If-Match", "*"}, api.BadRequest, ""},
		{"a decision on a bare revision", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow"}`, []string{"If-Match", "1"}, api.BadRequest, ""},
		{"a decision on a weak revision", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow"}`, []string{"If-Match", `W/"1"`}, api.BadRequest, ""},
		{"a decision on two revisions", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow"}`, []string{"If-Match", `"1"`, "If-Match", `"2"`}, api.BadRequest, ""},
		{"a decision without an option", "POST", "/v1/approvals/" + id + "/decision", `{"reason":"x"}`, etag, api.BadRequest, "/option"},
		{"a decision with a grant of nonsense", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow","grant":{"permissions":{"x":1}}}`, etag, api.BadRequest, "/grant/permissions"},
		{"a decision on nothing", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow"}`, etag, api.NotFound, ""},
		{"a decision with a proof that nobody keeps", "POST", "/v1/approvals/" + id + "/decision", `{"option":"allow","proof":"x"}`, etag, api.NotFound, ""},
		{"to cancel without a revision", "POST", "/v1/approvals/" + id + "/cancel", `{}`, nil, api.RevisionRequired, ""},
		{"to cancel nothing", "POST", "/v1/approvals/" + id + "/cancel", `{}`, etag, api.NotFound, ""},
		{"to reconcile without a revision", "POST", "/v1/approvals/" + id + "/reconcile", `{}`, nil, api.RevisionRequired, ""},
		{"to reconcile nothing", "POST", "/v1/approvals/" + id + "/reconcile", `{"reason":"x"}`, etag, api.NotFound, ""},
		{"to withdraw for nobody", "POST", "/v1/approvals/" + id + "/withdraw", `{}`, nil, api.Instance, ""},
		{"to withdraw nothing", "POST", "/v1/approvals/" + id + "/withdraw", `{"instance":"i"}`, nil, api.NotFound, ""},
		{"a fence of nothing", "POST", "/v1/approvals/" + id + "/fence", `{"instance":"i","digest":"x"}`, nil, api.NotFound, ""},
		{"to mark nothing", "POST", "/v1/approvals/" + id + "/mark", `{"instance":"i","mark":"sent"}`, nil, api.NotFound, ""},
		{"to mark as something else", "POST", "/v1/approvals/" + id + "/mark", `{"instance":"i","mark":"done"}`, nil, api.BadRequest, "/mark"},
		{"to renew with a parameter", "PUT", "/v1/instances/i?ttl=1", "", nil, api.BadRequest, ""},
		{"to end with a parameter", "DELETE", "/v1/instances/i?now=1", "", nil, api.BadRequest, ""},

		{"events after something else", "GET", "/v1/events?after=x", "", nil, api.BadRequest, ""},
		{"events that go on after something else", "GET", "/v1/events", "", []string{"Last-Event-Id", "x"}, api.BadRequest, ""},
		{"events ahead of the ledger", "GET", "/v1/events?after=99", "", nil, api.Ahead, ""},
		{"to trust a relative folder", "POST", "/v1/workspaces/trust", `{"dir":"w"}`, nil, api.BadRequest, "/dir"},
		{"to trust what is no workspace", "POST", "/v1/workspaces/trust", `{"dir":"/"}`, nil, api.NoWorkspace, ""},
		{"to trust what is not there", "POST", "/v1/workspaces/trust", `{"dir":"/no/such"}`, nil, api.NoWorkspace, ""},
		{"to untrust a relative folder", "POST", "/v1/workspaces/untrust", `{"dir":"w"}`, nil, api.BadRequest, "/dir"},
		{"to untrust what is not trusted", "POST", "/v1/workspaces/untrust", `{"dir":"/"}`, nil, api.NoWorkspace, ""},
		{"to confirm in a relative folder", "POST", "/v1/workspaces/confirm", `{"dir":"w","epoch":"e"}`, nil, api.BadRequest, "/dir"},
		{"to confirm what does not wait", "POST", "/v1/workspaces/confirm", `{"epoch":"e"}`, nil, api.MovedOn, ""},
		{"rules that are not loaded", "GET", "/v1/epochs/e", "", nil, api.NoEpoch, ""},
		{"workspaces with a parameter", "GET", "/v1/workspaces?all=1", "", nil, api.BadRequest, ""},
		{"an epoch with a parameter", "GET", "/v1/epochs/e?all=1", "", nil, api.BadRequest, ""},
		{"status with a parameter", "GET", "/v1/status?all=1", "", nil, api.BadRequest, ""},
		{"health with a parameter", "GET", "/v1/health?all=1", "", nil, api.BadRequest, ""},
		{"a description with a parameter", "GET", "/v1/openapi.json?all=1", "", nil, api.BadRequest, ""},
		{"to speak as nobody", "GET", "/v1/status", "", []string{api.HeaderPrincipal, "user:nina"}, api.UnknownPrincipal, ""},
		{"to speak as two", "GET", "/v1/status", "", []string{api.HeaderPrincipal, "user:mia", api.HeaderPrincipal, "user:otto"}, api.BadRequest, ""},
		{"a member who looks at workspaces", "GET", "/v1/workspaces", "", []string{api.HeaderPrincipal, "user:mia"}, api.Forbidden, ""},
		{"a member who looks at rules", "GET", "/v1/epochs/e", "", []string{api.HeaderPrincipal, "user:mia"}, api.Forbidden, ""},
		{"a member who looks at numbers", "GET", "/metrics", "", []string{api.HeaderPrincipal, "user:mia"}, api.Forbidden, ""},
		{"an observer who trusts", "POST", "/v1/workspaces/trust", `{"dir":"/"}`, []string{api.HeaderPrincipal, "user:otto"}, api.Forbidden, ""},
		{"an observer who untrusts", "POST", "/v1/workspaces/untrust", `{"dir":"/"}`, []string{api.HeaderPrincipal, "user:otto"}, api.Forbidden, ""},
		{"an observer who confirms", "POST", "/v1/workspaces/confirm", `{"epoch":"e"}`, []string{api.HeaderPrincipal, "user:otto"}, api.Forbidden, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, text := d.sends(test.method, test.path, test.body, test.header...)
			if e := failed(t, response, text); e.Code != test.want || e.Pointer != test.pointer {
				t.Errorf("the error is %s at %q (%s), want %s at %q", e.Code, e.Pointer, e.Message, test.want, test.pointer)
			}
		})
	}
	page, err := d.List(t.Context(), approval.Query{})
	if err != nil || len(page.Records) != 0 {
		t.Errorf("there are %d records, %v; want none", len(page.Records), err)
	}
}

func TestMethodsAreListed(t *testing.T) {
	d := start(t, setup{})
	response, _ := d.sends("PATCH", "/v1/approvals/x", "")
	if got := response.Header.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow is %q, want GET, HEAD", got)
	}
}

func TestRevisionsAreTags(t *testing.T) {
	d := start(t, setup{})
	record, answer := d.pending(question("make x"))
	path := "/v1/approvals/" + record.ID
	for name, test := range map[string]struct {
		header []string
		status int
	}{
		"nothing known":    {nil, http.StatusOK},
		"this revision":    {[]string{"If-None-Match", `"1"`}, http.StatusNotModified},
		"among others":     {[]string{"If-None-Match", `"7", W/"1"`}, http.StatusNotModified},
		"another revision": {[]string{"If-None-Match", `"2"`}, http.StatusOK},
		"no tag of ours":   {[]string{"If-None-Match", `1`}, http.StatusOK},
	} {
		response, text := d.sends("GET", path, "", test.header...)
		if response.StatusCode != test.status || response.Header.Get("ETag") != `"1"` || (len(text) == 0) != (test.status == http.StatusNotModified) {
			t.Errorf("%s: the answer is %s with the tag %s and %d bytes, want %d", name, response.Status, response.Header.Get("ETag"), len(text), test.status)
		}
	}
	response, text := d.sends("POST", path+"/decision", `{"option":"deny"}`, "If-Match", `"1"`)
	if response.StatusCode != http.StatusOK || response.Header.Get("ETag") != `"2"` {
		t.Errorf("the decision is answered by %s with the tag %s: %s", response.Status, response.Header.Get("ETag"), text)
	}
	<-answer
	response, text = d.sends("POST", path+"/cancel", `{}`, "If-Match", `"1"`)
	if e := failed(t, response, text); e.Code != api.Conflict || e.Record == nil || e.Record.Decision == nil {
		t.Errorf("a stale change is %+v, want a conflict with the record", e)
	}
}

func TestWaitIsFalse(t *testing.T) {
	d := start(t, setup{})
	ask := strings.Replace(small, `"ls"`, `"make x"`, 1)
	response, text := d.sends("POST", "/v1/requests?wait=false", ask)
	var a api.Answer
	if err := jsonv2.Unmarshal(text, &a); err != nil || response.StatusCode != http.StatusAccepted {
		t.Fatalf("the answer is %s %s, want 202", response.Status, text)
	}
	poll := response.Header.Get("Location")
	if want := "/v1/requests/" + a.ID + "/answer?instance=" + a.Instance; poll != want {
		t.Fatalf("it is to be polled at %s, want %s", poll, want)
	}
	if response, text := d.sends("GET", poll, ""); response.StatusCode != http.StatusAccepted {
		t.Errorf("a poll has %s %s, want 202", response.Status, text)
	}
	if _, err := d.Decide(t.Context(), a.ID, 1, api.Decision{Option: deny}); err != nil {
		t.Fatal(err)
	}
	if response, text := d.sends("GET", poll, ""); response.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"outcome":"deny"`)) {
		t.Errorf("a poll has %s %s, want 200 and deny", response.Status, text)
	}
}

func TestSlowBodyIsNotWaitedFor(t *testing.T) {
	d := start(t, setup{before: func(s *server.Server) { s.Patience(30*time.Millisecond, 10*time.Second, 15*time.Second) }})
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn) // until the daemon closes it
	if err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.1 408 ")) || !bytes.Contains(text, []byte(`"timeout"`)) {
		t.Errorf("the answer is %s, %v; want 408", text, err)
	}
}

func TestBodyThatBreaksOffAsksNothing(t *testing.T) {
	d := start(t, setup{})
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: d.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := strings.Replace(small, `"ls"`, `"rm x"`, 1)
	if _, err := fmt.Fprintf(conn, "POST /v1/requests HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || len(text) > 0 && !bytes.HasPrefix(text, []byte("HTTP/1.1 400 ")) {
		t.Errorf("the answer is %s, %v; want none or 400", text, err)
	}
	page, err := d.List(t.Context(), approval.Query{})
	if err != nil || len(page.Records) != 0 {
		t.Errorf("there are %d records, %v; want none", len(page.Records), err)
	}
}

func TestWaitingRequestsAreBounded(t *testing.T) {
	d := start(t, setup{options: server.Options{MaxAsks: 2}})
	first, answer := d.pending(question("make x"))
	_, second := d.pending(question("make y"))
	for name, ask := range map[string]func(context.Context, api.Question) (api.Answer, error){"to ask": d.Ask, "to post": d.Post} {
		_, err := ask(t.Context(), question("ls"))
		if e := err.(*api.Error); e.Code != api.Overloaded || e.RetryAfter < 1 {
			t.Errorf("%s one more is %v, want %s and when to try again", name, err, api.Overloaded)
		}
	}
	if _, err := d.Decide(t.Context(), first.ID, 1, api.Decision{Option: deny}); err != nil {
		t.Fatal(err)
	}
	<-answer
	for {
		// The handler may still be on its way out when the answer is there.
		_, err := d.Ask(t.Context(), question("ls"))
		if err == nil {
			break
		}
		if code(t, err) != api.Overloaded {
			t.Fatal(err)
		}
	}
	page, err := d.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("%d wait, %v; want 1", len(page.Records), err)
	}
	if _, err := d.Decide(t.Context(), page.Records[0].ID, 1, api.Decision{Option: deny}); err != nil {
		t.Fatal(err)
	}
	<-second
}

func TestPostedRequestsAreBounded(t *testing.T) {
	d := start(t, setup{options: server.Options{MaxAsks: 2}})
	var last api.Answer
	for range 2 {
		var err error
		if last, err = d.Post(t.Context(), hosted("make x", "r1", "host-1")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Post(t.Context(), hosted("make x", "r1", "host-1")); code(t, err) != api.Overloaded {
		t.Errorf("one more is %v, want %s", err, api.Overloaded)
	}
	if _, err := d.Withdraw(t.Context(), last.ID, api.Withdrawal{Instance: "host-1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Post(t.Context(), hosted("make x", "r1", "host-1")); err != nil {
		t.Errorf("when there is room again there is %v", err)
	}
}

func TestBodiesThatWaitAreBounded(t *testing.T) {
	d := start(t, setup{before: func(s *server.Server) { s.Room(1 << 10) }})
	q := question("make " + strings.Repeat("x", 1<<10))
	for name, ask := range map[string]func(context.Context, api.Question) (api.Answer, error){"to ask": d.Ask, "to post": d.Post} {
		if _, err := ask(t.Context(), q); code(t, err) != api.Overloaded {
			t.Errorf("%s what there is no room for is %v, want %s", name, err, api.Overloaded)
		}
	}
	if _, err := d.Check(t.Context(), q); code(t, err) != api.Overloaded {
		t.Errorf("to check what there is no room for is %v, want %s", err, api.Overloaded)
	}
	for range 20 { // room is given back
		if _, err := d.Check(t.Context(), question("ls")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhoeverIsGoneIsNotAnswered(t *testing.T) {
	d := start(t, setup{})
	token, _, err := d.tokens.Create("user:olga", "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/v1/check", "/v1/requests"} {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(strings.Replace(small, `"ls"`, `"make x"`, 1)))
		r.Host = d.tcp
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		func() {
			defer func() {
				// To return would be a 200 without a word.
				if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
					t.Errorf("%s ends with %v and %d, want that the connection is cut off", path, v, w.Code)
				}
			}()
			d.server.Handler().ServeHTTP(w, r)
		}()
	}
}

// panics is a ledger that fails as none should.
type panics struct{ *ledger.DB }

func (panics) Stats() ledger.Stats { panic("out of order") }

func TestPanicAnswersNothing(t *testing.T) {
	d := start(t, setup{})
	s := server.New(server.Options{Gate: d.gate, Epochs: d.epochs, Ledger: panics{d.db}, Home: shortDir(t), Log: nil})
	path := filepath.Join(shortDir(t), "s")
	l, err := s.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, text := d.raw("unix", path, r)
	if e := failed(t, response, text); e.Code != api.Internal || strings.Contains(string(text), "out of order") {
		t.Errorf("the answer is %s, want %s and no more", text, api.Internal)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRequestsAreNotLogged(t *testing.T) {
	d := start(t, setup{})
	const secret = "make do-not-log-this"
	_, answer := d.pending(question(secret))
	d.sends("POST", "/v1/check", `{"request":{"kind":"command","command":{"text":"`+secret+`"},"x":1}}`)
	d.sends("POST", "/v1/requests", `{"request":{"kind":"command","command":{"text":"`+secret+`"},"options":["x"]}}`)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	<-answer
	if strings.Contains(d.log.String(), secret) {
		t.Errorf("the log tells what was requested:\n%s", d.log)
	}
}

func TestLengthsAreTold(t *testing.T) {
	d := start(t, setup{})
	response, text := d.sends("POST", "/v1/check", small)
	if got := response.Header.Get("Content-Length"); got != strconv.Itoa(len(text)) {
		t.Errorf("Content-Length is %q, want %d", got, len(text))
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "application/json"} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
