package notify_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/notify"
)

// secret is long enough to sign by.
const secret = "a secret of many bytes"

// received is what came in at a receiver.
type received struct {
	header http.Header
	body   []byte
}

// receiver is a real server for webhooks. Each call is answered by the function of
// its number, the last one for all after it.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	all []received
}

func receive(t testing.TB, start func(*httptest.Server), answers ...http.HandlerFunc) *receiver {
	t.Helper()
	s := &receiver{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.all = append(s.all, received{r.Header, body})
		answer := answers[min(len(s.all), len(answers))-1]
		s.mu.Unlock()
		answer(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func (s *receiver) calls() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.all...)
}

// status answers with a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func webhook(url string, more func(*config.Notifier)) map[string]config.Notifier {
	n := config.Notifier{
		Kind: config.NotifierWebhook, URL: url + "/path/that-is-a-secret", SecretEnv: "REGENT_TEST_WEBHOOK_SECRET",
		Events: everything, Details: config.DetailsSummary,
	}
	if more != nil {
		more(&n)
	}
	return map[string]config.Notifier{"ops": n}
}

// told tells one pending request, and returns how the notifier stands then.
func told(t *testing.T, named map[string]config.Notifier) (*world, notify.Stats) {
	t.Helper()
	w := newWorld(t)
	h := w.open(named, nil)
	w.ask(approval.RouteAsk, "make x")
	h.Close()
	return w, stat(t, h, "ops")
}

func TestWebhookIsSigned(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	for _, tt := range []struct{ name, value string }{
		{"by a text", secret + "\n"},
		{"by what is encoded", "whsec_" + encoded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("REGENT_TEST_WEBHOOK_SECRET", tt.value)
			s := receive(t, (*httptest.Server).Start, status(204))
			w, stats := told(t, webhook(s.URL, nil))
			calls := s.calls()
			if len(calls) != 1 || stats.Sent != 1 || stats.State != notify.OK {
				t.Fatalf("%d calls came in, and it stands as %+v", len(calls), stats)
			}
			h, body := calls[0].header, calls[0].body
			var n notify.Notification
			if err := json.Unmarshal(body, &n); err != nil {
				t.Fatal(err)
			}
			if n.Summary != "command: make x" || n.ID != h.Get(notify.HeaderID) || h.Get("Content-Type") != "application/json" {
				t.Errorf("the call is %+v with %s", h, body)
			}
			if want := notify.Sign([]byte(secret), n.ID, h.Get(notify.HeaderTimestamp), body); h.Get(notify.HeaderSignature) != want {
				t.Errorf("the signature is %s, want %s", h.Get(notify.HeaderSignature), want)
			}
			at, err := strconv.ParseInt(h.Get(notify.HeaderTimestamp), 10, 64)
			if err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
				t.Errorf("the time is %s", h.Get(notify.HeaderTimestamp))
			}
			if strings.Contains(string(body)+w.logged(), secret) || strings.Contains(string(body)+w.logged(), encoded) {
				t.Error("the secret is told")
			}
		})
	}
}

// The example of Standard Webhooks 1.0.0.
func TestSignIsThatOfStandardWebhooks(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := notify.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if diff := cmp.Diff("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got); diff != "" {
		t.Errorf("signature (-want +got):\n%s", diff)
	}
}

func TestWebhookWithoutItsSecretIsNotSent(t *testing.T) {
	file := func(text string) func(*config.Notifier) {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(n *config.Notifier) { n.SecretEnv, n.SecretFile = "", path }
	}
	for _, tt := range []struct {
		name, env string
		more      func(*config.Notifier)
		want      string
	}{
		{"the variable is not set", "", nil, "secret_env REGENT_TEST_WEBHOOK_SECRET has no secret to sign by"},
		{"the secret is short", "fifteen bytes!!", nil, "the secret of secret_env REGENT_TEST_WEBHOOK_SECRET has fewer than 16 bytes"},
		{"the secret is no base64", "whsec_hunter2!", nil, "the secret of secret_env REGENT_TEST_WEBHOOK_SECRET begins with whsec_ and is no base64 after that"},
		{"the file is empty", secret, file(" \n"), "secret_file has no secret to sign by"},
		{"the file is large", secret, file(strings.Repeat("x", 4097)), "is larger than 4096 bytes"},
		{"the file is gone", secret, func(n *config.Notifier) { n.SecretEnv, n.SecretFile = "", filepath.Join(t.TempDir(), "secret") }, "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("REGENT_TEST_WEBHOOK_SECRET", tt.env)
			s := receive(t, (*httptest.Server).Start, status(204))
			_, stats := told(t, webhook(s.URL, tt.more))
			if len(s.calls()) != 0 || stats.Failed != 1 || !strings.Contains(stats.Fault, tt.want) {
				t.Errorf("%d calls came in, and it stands as %+v", len(s.calls()), stats)
			}
			if tt.env != "" && strings.Contains(stats.Fault, tt.env) {
				t.Errorf("the fault has the secret: %s", stats.Fault)
			}
		})
	}
}

func TestWebhookWithASecretFileThatIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	s := receive(t, (*httptest.Server).Start, status(200))
	w := newWorld(t)
	h := w.open(webhook(s.URL, func(n *config.Notifier) { n.SecretEnv, n.SecretFile = "", path }), nil)
	for i, key := range []string{secret, secret + " more"} {
		if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		w.ask(approval.RouteAsk, "make x")
		w.until(func() bool { return stat(t, h, "ops").Sent == int64(i+1) })
		c := s.calls()[i]
		if want := notify.Sign([]byte(key), c.header.Get(notify.HeaderID), c.header.Get(notify.HeaderTimestamp), c.body); c.header.Get(notify.HeaderSignature) != want {
			t.Errorf("call %d is not signed by the secret of its time", i)
		}
	}
}

func TestUnsignedWebhook(t *testing.T) {
	s := receive(t, (*httptest.Server).Start, status(200))
	_, stats := told(t, webhook(s.URL, func(n *config.Notifier) { n.SecretEnv = "" }))
	if calls := s.calls(); len(calls) != 1 || calls[0].header.Get(notify.HeaderSignature) != "" || stats.Sent != 1 {
		t.Errorf("the calls are %+v", calls)
	}
}

func TestWebhookAnswers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []int
		calls   int
		fault   string
	}{
		{"any success is one", []int{202}, 1, ""},
		{"a server that fails is tried again", []int{500, 503, 200}, 3, ""},
		{"one that is busy too", []int{429, 408, 425, 200}, 4, ""},
		{"but not for ever", []int{500}, 4, "it answers 500: not heard for now"},
		{"a refusal is final", []int{400}, 1, "it answers 400"},
		{"one that is gone is", []int{410}, 1, "it answers 410"},
		{"a redirect is not followed", []int{307}, 1, "it answers with a redirect (307), and those are not followed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
			other := receive(t, (*httptest.Server).Start, status(200))
			var answers []http.HandlerFunc
			done := make(chan struct{})
			for i, code := range tt.answers {
				answers = append(answers, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", other.URL)
					w.WriteHeader(code)
					if i == len(tt.answers)-1 && tt.fault == "" {
						close(done)
					}
				})
			}
			s := receive(t, (*httptest.Server).Start, answers...)
			w := newWorld(t)
			h := w.open(webhook(s.URL, nil), nil)
			w.ask(approval.RouteAsk, "make x")
			w.until(func() bool { st := stat(t, h, "ops"); return st.Sent+st.Failed == 1 })
			h.Close()
			calls, stats := s.calls(), stat(t, h, "ops")
			if len(calls) != tt.calls || len(other.calls()) != 0 {
				t.Fatalf("%d calls came in and %d elsewhere, want %d", len(calls), len(other.calls()), tt.calls)
			}
			want := ""
			if tt.fault != "" {
				want = "tell " + strings.TrimPrefix(s.URL, "http://") + ": " + tt.fault
			}
			if stats.Fault != want || (stats.Sent == 1) != (tt.fault == "") {
				t.Errorf("it stands as %+v, want the fault %q", stats, want)
			}
			for _, c := range calls {
				if c.header.Get(notify.HeaderID) != calls[0].header.Get(notify.HeaderID) || string(c.body) != string(calls[0].body) {
					t.Errorf("another try is another notification: %+v", c.header)
				}
			}
			if strings.Contains(stats.Fault+w.logged(), "that-is-a-secret") {
				t.Errorf("the address is told: %s\n%s", stats.Fault, w.logged())
			}
		})
	}
}

func TestWebhookOrder(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	var answers []http.HandlerFunc
	for range 5 {
		answers = append(answers, status(500), status(500), status(200))
	}
	s := receive(t, (*httptest.Server).Start, append(answers, status(200))...)
	w := newWorld(t)
	h := w.open(webhook(s.URL, nil), nil)
	var want []string
	for range 20 {
		want = append(want, w.ask(approval.RouteAsk, "make x").ID+".1.pending")
	}
	w.until(func() bool { return stat(t, h, "ops").Sent == 20 })
	var got []string
	for _, c := range s.calls() {
		if id := c.header.Get(notify.HeaderID); len(got) == 0 || got[len(got)-1] != id {
			got = append(got, id)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestWebhookThatClosesItsConnections(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	s := receive(t, (*httptest.Server).Start, cut, cut, status(200))
	w := newWorld(t)
	h := w.open(webhook(s.URL, nil), nil)
	w.ask(approval.RouteAsk, "make x")
	w.until(func() bool { return len(s.calls()) == 3 })
	h.Close()
	if stats := stat(t, h, "ops"); stats.Sent != 1 || stats.Failed != 0 {
		t.Errorf("it stands as %+v, want that the third try was heard", stats)
	}
}

func TestSlowWebhook(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	left := make(chan struct{})
	s := receive(t, (*httptest.Server).Start, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(left)
	})
	w := newWorld(t)
	w.named = webhook(s.URL, nil)
	h := notify.OpenWithin(notify.Options{Ledger: w, Feed: w, Configured: w.configured}, 200*time.Millisecond, time.Minute)
	w.ask(approval.RouteAsk, "make x")
	<-left
	h.Close()
	if st := stat(t, h, "ops"); st.Failed != 1 || !strings.HasSuffix(st.Fault, "no answer within 200ms: not heard for now") {
		t.Errorf("it stands as %+v", st)
	}
}

func TestWebhookThatAnswersWithoutEnd(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	s := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	if _, stats := told(t, webhook(s.URL, nil)); stats.Sent != 1 {
		t.Errorf("it stands as %+v, want that it was heard", stats)
	}
}

func TestWebhookNobodyListensAt(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	s := httptest.NewServer(status(200))
	s.Close()
	w := newWorld(t)
	h := w.open(webhook(s.URL, nil), nil)
	w.ask(approval.RouteAsk, "make x")
	w.until(func() bool { return stat(t, h, "ops").Failed == 1 })
	if st := stat(t, h, "ops"); !strings.Contains(st.Fault, "refused") || strings.Contains(st.Fault, "that-is-a-secret") {
		t.Errorf("it stands as %+v", st)
	}
}

func TestWebhookCertificates(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	s := receive(t, (*httptest.Server).StartTLS, status(200))
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := file("own.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	for _, tt := range []struct {
		name, ca, fault string
		calls           int
	}{
		{"a private one is trusted by its file", own, "", 1},
		{"one that nobody trusts is sent nothing", "", "certificate", 0},
		{"a file without certificates trusts none", file("none.pem", []byte("nothing")), "ca_file holds no certificate in PEM", 0},
		{"nor does one that is gone", filepath.Join(dir, "gone.pem"), "no such file", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(s.calls())
			_, stats := told(t, webhook(s.URL, func(n *config.Notifier) { n.CAFile = tt.ca }))
			if got := len(s.calls()) - before; got != tt.calls || !strings.Contains(stats.Fault, tt.fault) || (stats.Sent == 1) != (tt.fault == "") {
				t.Errorf("%d calls came in, and it stands as %+v", got, stats)
			}
		})
	}
}

func TestWebhookWantsNewTLS(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	s := receive(t, func(s *httptest.Server) {
		s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10} //nolint:gosec // what is refused
		s.StartTLS()
	}, status(200))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stats := told(t, webhook(s.URL, func(n *config.Notifier) { n.CAFile = ca }))
	if len(s.calls()) != 0 || stats.Failed != 1 {
		t.Errorf("it stands as %+v, want that TLS 1.1 is refused", stats)
	}
}

func TestSlowWebhookEndsWithTheHub(t *testing.T) {
	t.Setenv("REGENT_TEST_WEBHOOK_SECRET", secret)
	busy := make(chan struct{})
	s := receive(t, (*httptest.Server).Start, func(_ http.ResponseWriter, r *http.Request) {
		close(busy)
		<-r.Context().Done()
	})
	w := newWorld(t)
	w.named = webhook(s.URL, nil)
	h := notify.OpenWithin(notify.Options{Ledger: w, Feed: w, Configured: w.configured}, time.Hour, time.Millisecond)
	w.ask(approval.RouteAsk, "make x")
	<-busy
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	closed := make(chan struct{})
	go func() { h.Close(); close(closed) }()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Fatal("the hub does not end")
	}
}
