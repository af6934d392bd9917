package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// What the client and the daemon say to each other is tested in package server.
// Here something else answers.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, handle http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var question = api.Question{Request: &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}}}

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"nothing":                    say(http.StatusOK, ""),
		"text":                       say(http.StatusOK, "allow"),
		"a page":                     say(http.StatusOK, "<html>"),
		"no outcome":                 say(http.StatusOK, `{}`),
		"an outcome of its own":      say(http.StatusOK, `{"outcome":"allowed"}`),
		"half an answer":             say(http.StatusOK, `{"outcome":"allow"`),
		"two answers":                say(http.StatusOK, `{"outcome":"allow"}{"outcome":"deny"}`),
		"one that is there twice":    say(http.StatusOK, `{"outcome":"deny","outcome":"allow"}`),
		"an error without words":     say(http.StatusBadGateway, "upstream"),
		"an error that says nothing": say(http.StatusForbidden, `{"error":{}}`),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if a, err := dial(t, handle).Ask(t.Context(), question); !errors.Is(err, client.ErrAnswer) || a.Outcome != "" {
				t.Errorf("the answer is %+v, %v; want none, and ErrAnswer", a, err)
			}
		})
	}
	t.Run("a connection that is cut off", func(t *testing.T) {
		c := dial(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if a, err := c.Ask(t.Context(), question); err == nil || errors.Is(err, client.ErrNoDaemon) || a.Outcome != "" {
			t.Errorf("the answer is %+v, %v; want none, and that somebody was there", a, err)
		}
	})
}

func TestOnlyAFenceThatAllowsIsOne(t *testing.T) {
	for _, body := range []string{`{}`, `{"id":"r1"}`, `{"id":"r2","outcome":"allow"}`, `{"id":"r1","outcome":"deny"}`} {
		if p, err := dial(t, say(http.StatusOK, body)).Fence(t.Context(), "r1", api.Fence{}); !errors.Is(err, client.ErrAnswer) {
			t.Errorf("the fence %s is %+v, %v; want ErrAnswer", body, p, err)
		}
	}
	if _, err := dial(t, say(http.StatusOK, `{"id":"r1","outcome":"allow"}`)).Fence(t.Context(), "r1", api.Fence{}); err != nil {
		t.Errorf("the fence is %v, want that it allows", err)
	}
}

func TestUnknownMembersArePassedOver(t *testing.T) {
	a, err := dial(t, say(http.StatusOK, `{"outcome":"deny","ruling":{"route":"deny","effects":["read"]},"weather":"fine"}`)).Ask(t.Context(), question)
	if err != nil || a.Outcome != approval.OutcomeDeny {
		t.Errorf("the answer is %+v, %v; want that of a later version", a, err)
	}
}

func TestHealthMustAgreeWithItsStatus(t *testing.T) {
	for body, status := range map[string]int{`{"ok":true}`: http.StatusServiceUnavailable, `{"ok":false}`: http.StatusOK, `{}`: http.StatusOK} {
		if h, err := dial(t, say(status, body)).Health(t.Context()); !errors.Is(err, client.ErrAnswer) {
			t.Errorf("%d with %s is %+v, %v; want ErrAnswer", status, body, h, err)
		}
	}
	if h, err := dial(t, say(http.StatusServiceUnavailable, `{"ok":false,"reasons":["x"]}`)).Health(t.Context()); err != nil || h.OK {
		t.Errorf("the health is %+v, %v; want that it is not well", h, err)
	}
}

func TestCallsSayWhatTheyAre(t *testing.T) {
	seen := make(chan *http.Request, 1)
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		_, _ = io.WriteString(w, `{}`)
	})
	if _, err := c.As("user:olga").Cancel(t.Context(), "a/b", 7, "x"); err != nil {
		t.Fatal(err)
	}
	r := <-seen
	got := map[string]string{"path": r.URL.EscapedPath()}
	for _, name := range []string{"Authorization", "If-Match", api.HeaderPrincipal, "Content-Type"} {
		got[name] = r.Header.Get(name)
	}
	want := map[string]string{
		"path": "/v1/approvals/a%2Fb/cancel", "Authorization": "Bearer secret", "If-Match": `"7"`,
		api.HeaderPrincipal: "user:olga", "Content-Type": "application/json",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the call (-want +got):\n%s", diff)
	}
	if _, err := c.Await(t.Context(), "r1", "i", 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if r := <-seen; r.URL.Query().Get("wait") != "2" || r.Header.Get(api.HeaderPrincipal) != "" {
		t.Errorf("the call is %s as %q, want to wait 2 seconds as nobody else", r.URL, r.Header.Get(api.HeaderPrincipal))
	}
	if _, err := c.Await(t.Context(), "r1", "i", time.Hour); err != nil {
		t.Fatal(err)
	}
	if r := <-seen; r.URL.Query().Get("wait") != "60" {
		t.Errorf("the call is %s, want to wait 60 seconds", r.URL)
	}
}

func TestAddresses(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:7340", "ftp://127.0.0.1", "http://", "http://127.0.0.1/?x=1", "unix:///run/x"} {
		if _, err := client.New(base, ""); err == nil {
			t.Errorf("%q is taken for an address", base)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	if _, err := client.Dial(filepath.Join(t.TempDir(), "s")); !errors.Is(err, client.ErrNoDaemon) {
		t.Errorf("to dial nothing is %v, want ErrNoDaemon", err)
	}
	s := httptest.NewServer(nil)
	s.Close()
	c, err := client.New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, client.ErrNoDaemon) {
		t.Errorf("to call nobody is %v, want ErrNoDaemon", err)
	}
}

func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

const opened = "id: 3\nevent: open\ndata: {\"after\":3}\n\n"

func TestEvents(t *testing.T) {
	c := dial(t, stream(":\n\n"+opened+":\n\n"+
		"event: weather\ndata: fine\n\n"+
		"id: 4\r\nevent: approval\r\ndata: {\"seq\":4,\r\ndata: \"id\":\"r1\",\"kind\":\"asked\"}\r\n\r\n"+
		"event:notice\ndata:{\"seq\":1,\"kind\":\"fault\",\"message\":\"x\"}\n\n"+
		"event: error\ndata: {\"error\":{\"code\":\"ledger_damaged\",\"message\":\"x\"}}\n\n"))
	e, err := c.Events(t.Context(), 3)
	if err != nil || e.After() != 3 {
		t.Fatalf("the stream begins after %d, %v; want 3", e.After(), err)
	}
	defer func() { _ = e.Close() }()
	if one, err := e.Next(); err != nil || one.Approval == nil || one.Approval.ID != "r1" || e.After() != 4 {
		t.Errorf("the first is %+v, %v; want that r1 was asked", one, err)
	}
	if one, err := e.Next(); err != nil || one.Notice == nil || one.Notice.Kind != "fault" || e.After() != 4 {
		t.Errorf("the second is %+v, %v; want a fault", one, err)
	}
	if one, err := e.Next(); !errors.Is(err, approval.ErrDamaged) {
		t.Errorf("the third is %+v, %v; want that the ledger is damaged", one, err)
	}
	if one, err := e.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("then there is %+v, %v; want the end", one, err)
	}
}

func TestWhatIsNoStreamIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                      "",
		"JSON":                         "{}",
		"one that begins elsewhere":    "event: approval\ndata: {\"seq\":4}\n\n",
		"one that begins with nothing": "event: open\ndata: x\n\n",
		"one that never ends a line":   strings.Repeat("x", 2<<20),
		"one that never ends an event": strings.Repeat("data: x\n", 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			if e, err := dial(t, stream(text)).Events(t.Context(), client.FromNow); !errors.Is(err, client.ErrAnswer) && !errors.Is(err, io.EOF) {
				t.Errorf("the stream is %v, %v; want none", e, err)
			}
		})
	}
	t.Run("an event that cannot be read", func(t *testing.T) {
		e, err := dial(t, stream(opened+"event: approval\ndata: {\"seq\":\"x\"}\n\n")).Events(t.Context(), client.FromNow)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		if one, err := e.Next(); !errors.Is(err, client.ErrAnswer) {
			t.Errorf("the event is %+v, %v; want ErrAnswer", one, err)
		}
	})
}

func TestContextEndsTheStream(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		stream(opened)(w, r)
		_ = http.NewResponseController(w).Flush()
		cancel(enough)
		<-r.Context().Done()
	})
	e, err := c.Events(ctx, client.FromNow)
	if err == nil {
		defer func() { _ = e.Close() }()
		_, err = e.Next()
	}
	if !errors.Is(err, enough) {
		t.Errorf("the stream ends with %v, want the cause of its end", err)
	}
}

const answered = `{"session_id":"s1","turn_id":"t1","call_id":"c1","outcome":"allow"}`

func TestWhatIsNoOutcomeIsNoCall(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":             `{}`,
		"no outcome":          strings.Replace(answered, `,"outcome":"allow"`, "", 1),
		"one of its own":      strings.Replace(answered, "allow", "allowed", 1),
		"of another call":     strings.Replace(answered, "c1", "c2", 1),
		"of another session":  strings.Replace(answered, "s1", "s2", 1),
		"half an answer":      answered[:len(answered)-1],
		"one that says twice": answered[:len(answered)-1] + `,"outcome":"deny"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if one, err := dial(t, say(http.StatusOK, body)).Call(t.Context(), "s1", "t1", "c1", api.CallSpec{}); !errors.Is(err, client.ErrAnswer) || one.Outcome != "" {
				t.Errorf("the call is %+v, %v; want none, and ErrAnswer", one, err)
			}
		})
	}
	for _, outcome := range []string{"allow", "deny", "cancel"} {
		body := strings.Replace(answered, "allow", outcome, 1)
		if one, err := dial(t, say(http.StatusOK, body)).Call(t.Context(), "s1", "t1", "c1", api.CallSpec{}); err != nil || string(one.Outcome) != outcome {
			t.Errorf("the call is %+v, %v; want %s", one, err, outcome)
		}
	}
	waits := dial(t, say(http.StatusAccepted, strings.Replace(answered, `"allow"`, `""`, 1)))
	if one, err := waits.PostCall(t.Context(), "s1", "t1", "c1", api.CallSpec{}); err != nil || one.Outcome != "" {
		t.Errorf("a call that waits is %+v, %v", one, err)
	}
	if one, err := waits.AwaitCall(t.Context(), "s1", "c1", "i", 0); err != nil || one.Outcome != "" {
		t.Errorf("a call that still waits is %+v, %v", one, err)
	}
}

func TestIDsOfSessionsAreEscaped(t *testing.T) {
	seen := make(chan *http.Request, 1)
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		_, _ = io.WriteString(w, `{}`)
	})
	for want, do := range map[string]func() error{
		"PUT /v1/sessions/a%2Fb": func() error {
			_, err := c.OpenSession(t.Context(), "a/b", api.SessionSpec{})
			return err
		},
		"PUT /v1/sessions/a%2Fb/turns/%3F": func() error {
			_, err := c.OpenTurn(t.Context(), "a/b", "?", api.TurnSpec{})
			return err
		},
		"DELETE /v1/sessions/a%2Fb?instance=i%26j": func() error { return c.EndSession(t.Context(), "a/b", "i&j") },
		"POST /v1/sessions/a%2Fb/calls/%23/response": func() error {
			_, err := c.Respond(t.Context(), "a/b", "#", 0, api.Response{})
			return err
		},
		"GET /v1/grants?session=a%2Fb": func() error {
			_, err := c.Grants(t.Context(), "a/b")
			return err
		},
		"DELETE /v1/grants/a%2Fb": func() error { return c.Revoke(t.Context(), "a/b") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		r := <-seen
		if got := r.Method + " " + r.URL.RequestURI(); got != want || r.Header.Get("If-Match") != "" {
			t.Errorf("the call is %s, want %s of no revision", got, want)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	t.Run("until the context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		left := 3
		c := dial(t, func(w http.ResponseWriter, r *http.Request) {
			if left--; left == 0 {
				cancel(enough)
			}
			say(http.StatusOK, `{"until":"2026-01-02T03:04:05Z"}`)(w, r)
		})
		if err := c.KeepAliveEvery(ctx, "i", time.Millisecond); !errors.Is(err, enough) || left != 0 {
			t.Errorf("it ends with %v, and %d signs of life were left; want the cause", err, left)
		}
	})
	t.Run("until the instance is lost", func(t *testing.T) {
		answers := []http.HandlerFunc{
			say(http.StatusServiceUnavailable, `{"error":{"code":"overloaded","message":"x"}}`), // is tried again
			say(http.StatusBadGateway, "upstream"),
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			say(http.StatusOK, `{"until":"2026-01-02T03:04:05Z"}`),
			say(http.StatusGone, `{"error":{"code":"lost","message":"x"}}`),
		}
		c := dial(t, func(w http.ResponseWriter, r *http.Request) {
			next := answers[0]
			answers = answers[1:]
			next(w, r)
		})
		if err := c.KeepAliveEvery(t.Context(), "i", 200*time.Millisecond); !errors.Is(err, approval.ErrLost) || len(answers) != 0 {
			t.Errorf("it ends with %v, and %d answers were left; want that it is lost", err, len(answers))
		}
	})
	t.Run("not where the daemon refuses", func(t *testing.T) {
		c := dial(t, say(http.StatusForbidden, `{"error":{"code":"forbidden","message":"x"}}`))
		refused, ok := errors.AsType[*api.Error](c.KeepAlive(t.Context(), "i"))
		if !ok || refused.Code != api.Forbidden {
			t.Errorf("it ends with %v, want what the daemon says", refused)
		}
	})
}
