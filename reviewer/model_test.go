//go:build linux || darwin

package reviewer_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/reviewer"
)

// each runs a test for each interface.
func each(t *testing.T, test func(t *testing.T, d dialect)) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

func told(tokens bool) *approval.Usage {
	if !tokens {
		return nil
	}
	return &approval.Usage{Model: "small-model-2026-01-01", InputTokens: 1000, OutputTokens: 200}
}

// verdictSchema is what a model has to keep to.
const verdictSchema = `{"type":"object","properties":{
	"risk_level":{"type":"string","description":"The harm if it goes wrong.","enum":["low","medium","high","critical"]},
	"user_authorization":{"type":"string","description":"How well it is known that the user wants this.","enum":["unknown","low","medium","high"]},
	"rationale":{"type":"string","description":"Why, in one to three sentences for a person."},
	"outcome":{"type":"string","description":"Whether it may go ahead.","enum":["allow","deny","unsure"]}SCOPE},
	"required":["risk_level","user_authorization","rationale","outcome"MORE],"additionalProperties":false}`

func TestModelAsksOnceInTheWayOfItsProvider(t *testing.T) {
	t.Setenv("REGENT_TEST_KEY", "sk-hunter2hunter2")
	bodies := map[string]string{
		"responses": `{"model":"small-model","instructions":INSTRUCTIONS,"input":EVIDENCE,"max_output_tokens":4096,"stream":false,"store":false,
			"text":{"format":{"type":"json_schema","name":"verdict","strict":true,"schema":SCHEMA}}}`,
		"chat completions": `{"model":"small-model","messages":[{"role":"system","content":INSTRUCTIONS},{"role":"user","content":EVIDENCE}],
			"max_completion_tokens":4096,"stream":false,"response_format":{"type":"json_schema","json_schema":{"name":"verdict","strict":true,"schema":SCHEMA}}}`,
		"messages": `{"model":"small-model","max_tokens":4096,"system":INSTRUCTIONS,"messages":[{"role":"user","content":EVIDENCE}],"stream":false,
			"output_config":{"format":{"type":"json_schema","schema":SCHEMA}}}`,
	}
	each(t, func(t *testing.T, d dialect) {
		p := provide(t, say("application/json; charset=utf-8", d.reply(whole)))
		got := openModel(t, d, p.URL, ", api_key_env: REGENT_TEST_KEY, price: {input_per_million_usd: 0.25, output_per_million_usd: 2.5}").
			Review(t.Context(), question(t, aCommand))
		usage := told(true)
		usage.CostUSD = 0.00075
		want := approval.Verdict{
			Reviewer: "acme/model", Outcome: approval.VerdictAllow, Risk: "low", Authorization: "low", Rationale: "a <push>", Usage: usage,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("verdict (-want +got):\n%s", diff)
		}
		h := p.only(t)
		if h.method != http.MethodPost || h.path != d.path {
			t.Errorf("it asked by %s %s, want POST %s", h.method, h.path, d.path)
		}
		header := map[string]string{"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "regent"}
		if d.name == "messages" {
			header["X-Api-Key"], header["Anthropic-Version"] = "sk-hunter2hunter2", "2023-06-01"
		} else {
			header["Authorization"] = "Bearer sk-hunter2hunter2"
		}
		sent := map[string]string{}
		for name := range h.header {
			if name != "Content-Length" && name != "Connection" {
				sent[name] = h.header.Get(name)
			}
		}
		if diff := cmp.Diff(header, sent); diff != "" {
			t.Errorf("header (-want +got):\n%s", diff)
		}
		instructions, evidence := h.prompts(t)
		wanted := strings.NewReplacer(
			"INSTRUCTIONS", quote(instructions), "EVIDENCE", quote(evidence), "SCHEMA", strings.NewReplacer("SCOPE", "", "MORE", "").Replace(verdictSchema),
		).Replace(bodies[d.name])
		if diff := cmp.Diff(decoded(t, wanted), decoded(t, string(h.body))); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
	})
}

func decoded(t testing.TB, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestModelIsAskedForAScopeWhereThereIsOne(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := provide(t, say("application/json", d.reply(strings.TrimSuffix(whole, "}")+`,"scope":"session"}`)))
		got := openModel(t, d, p.URL, "").Review(t.Context(), question(t, aPermissions))
		if got.Outcome != approval.VerdictAllow || got.Scope != permission.Session {
			t.Errorf("verdict = %+v", got)
		}
		schema := strings.NewReplacer(
			"SCOPE", `,"scope":{"type":"string","description":"How long the permissions last if allowed.","enum":["turn","session"]}`, "MORE", `,"scope"`,
		).Replace(verdictSchema)
		var compact strings.Builder
		for _, row := range strings.Split(schema, "\n") {
			compact.WriteString(strings.TrimSpace(row))
		}
		h := p.only(t)
		if !strings.Contains(string(h.body), compact.String()) {
			t.Errorf("body = %s; want the schema %s in it", h.body, compact.String())
		}
		if instructions, _ := h.prompts(t); !strings.Contains(instructions, "\nscope: ") {
			t.Error("the instructions do not speak of a scope")
		}
	})
}

func TestModelReadsStreams(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := provide(t, stream(d.events(whole[:20], whole[20:40], whole[40:])))
		got := openModel(t, d, p.URL, ", stream: true").Review(t.Context(), question(t, aCommand))
		want := approval.Verdict{
			Reviewer: "acme/model", Outcome: approval.VerdictAllow, Risk: "low", Authorization: "low", Rationale: "a <push>", Usage: told(true),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("verdict (-want +got):\n%s", diff)
		}
		h := p.only(t)
		if h.header.Get("Accept") != "text/event-stream" || !strings.Contains(string(h.body), `"stream":true`) {
			t.Errorf("it asked for %s by %s", h.header.Get("Accept"), h.body)
		}
	})
}

// odd says what each of the replies that are no answers is.
var odd = map[string]string{
	"refusal":   "the model refused to answer",
	"tool":      "the model wants to use a tool, and it has none",
	"tool too":  "the model wants to use a tool, and it has none",
	"truncated": "half an answer is none",
	"filtered":  "half an answer is none",
	"failed":    "the provider reports an error: The model is overloaded",
	"unknown":   "the reply ends with",
	"silent":    "the reply holds no answer",
	"several":   "the reply holds more than one answer",
	"early":     "the reply ends before it is complete",
	"astray":    "a piece of no block",
	"disorder":  "a block out of order",
	"long":      "the answer is longer than 65536 bytes",
}

// A model that refuses, is cut off or reaches for a tool has not denied, and what it
// said besides counts for nothing.
func TestModelTakesNothingFromAReplyThatIsNoAnswer(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		check := func(t *testing.T, name string, got approval.Verdict) {
			t.Helper()
			if !strings.HasPrefix(got.Rationale, "ask 127.0.0.1:") || !strings.Contains(got.Rationale, odd[name]) {
				t.Errorf("rationale = %s; want %s", got.Rationale, odd[name])
			}
			got.Rationale, got.Usage = "", nil
			if diff := cmp.Diff(approval.Verdict{Reviewer: "acme/model", Outcome: approval.VerdictError}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		for name, body := range d.odd {
			t.Run(name, func(t *testing.T) {
				p := provide(t, say("application/json", body))
				got := openModel(t, d, p.URL, "").Review(t.Context(), question(t, aCommand))
				if diff := cmp.Diff(told(strings.Contains(body, "usage")), got.Usage); diff != "" {
					t.Errorf("what it took is told all the same (-want +got):\n%s", diff)
				}
				check(t, name, got)
				p.only(t)
			})
		}
		for name, events := range d.oddEvents {
			t.Run(name+" in a stream", func(t *testing.T) {
				p := provide(t, stream(events))
				check(t, name, openModel(t, d, p.URL, ", stream: true").Review(t.Context(), question(t, aCommand)))
				p.only(t)
			})
		}
	})
}

func TestModelTakesNothingFromAnIllegalAnswer(t *testing.T) {
	for _, test := range []struct{ name, answer, want string }{
		{"nothing", "", "there is none"},
		{"text", "I would allow this", `not one JSON object: "I would allow this"`},
		{"text before the object", "Sure! " + whole, "not one JSON object"},
		{"a fence around the object", "```json\n" + whole + "\n```", "not one JSON object"},
		{"two objects", whole + whole, "not one JSON object"},
		{"half an object", whole[:len(whole)-1], "not one JSON object"},
		{"a name given twice", `{"outcome":"deny",` + whole[1:], "not one JSON object"},
		{"the words of another protocol", `{"decision":"approved","rationale":"fine"}`, `unknown member "decision"`},
		{"a member that nobody asked for", `{"confidence":1,` + whole[1:], `unknown member "confidence"`},
		{"no outcome", `{"risk_level":"low","user_authorization":"high","rationale":"ok"}`, "outcome is missing"},
		{"no risk", `{"outcome":"allow","user_authorization":"high","rationale":"ok"}`, "risk_level is missing"},
		{"no authorization", `{"outcome":"allow","risk_level":"low","rationale":"ok"}`, "user_authorization is missing"},
		{"no rationale", `{"outcome":"allow","risk_level":"low","user_authorization":"high"}`, "rationale is missing"},
		{"a word that is none", strings.Replace(whole, "allow", "approve", 1), `outcome is "approve"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			each(t, func(t *testing.T, d dialect) {
				p := provide(t, say("application/json", d.reply(test.answer)))
				got := openModel(t, d, p.URL, "").Review(t.Context(), question(t, aCommand))
				if !strings.HasPrefix(got.Rationale, "illegal output: ") || !strings.Contains(got.Rationale, test.want) {
					t.Errorf("rationale = %s; want %s", got.Rationale, test.want)
				}
				got.Rationale = ""
				if diff := cmp.Diff(approval.Verdict{Reviewer: "acme/model", Outcome: approval.VerdictError, Usage: told(true)}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestModelThatContradictsItselfIsUnsure(t *testing.T) {
	p := provide(t, say("application/json", dialects[0].reply(`{"risk_level":"critical","user_authorization":"unknown","outcome":"allow","rationale":"ok"}`)))
	got := openModel(t, dialects[0], p.URL, "").Review(t.Context(), question(t, aCommand))
	if got.Outcome != approval.VerdictUnsure || !strings.Contains(got.Rationale, "where a person has to decide; it says: ok") {
		t.Errorf("verdict = %+v", got)
	}
}

func TestModelTakesNothingFromAResponseThatFails(t *testing.T) {
	t.Setenv("REGENT_TEST_KEY", "sk-hunter2hunter2")
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		say("application/json", dialects[0].reply(whole))(w, r)
	}))
	t.Cleanup(other.Close)
	status := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Location", other.URL)
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	good := dialects[0].reply(whole)
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{
			"too many requests", status(429, "application/json", `{"error":{"message":"Rate limit reached for small-model","type":"requests","code":"rate_limit_exceeded"}}`),
			"status 429 Too Many Requests: the provider reports an error: Rate limit reached for small-model",
		},
		{
			"a key that is not taken, and is repeated", status(401, "application/json", `{"error":{"message":"Incorrect API key provided: sk-hunter2hunter2."}}`),
			"status 401 Unauthorized: the provider reports an error: Incorrect API key provided: [redacted].",
		},
		{"a key that is repeated in text", status(403, "text/plain", "who is sk-hunter2hunter2?"), `status 403 Forbidden: "who is [redacted]?"`},
		{"an answer with another status", status(500, "application/json", good), `status 500 Internal Server Error: "{\"id\"`},
		{"a page", status(502, "text/html", "<html>\x1b[2J Bad Gateway"), `status 502 Bad Gateway: "<html>\x1b[2J Bad Gateway"`},
		{"nothing", status(503, "", ""), "status 503 Service Unavailable"},
		{"a status that nobody knows", status(299, "application/json", good), "status 299: "},
		{"no content", status(204, "application/json", ""), "status 204 No Content"},
		{"a redirect", status(307, "application/json", good), "status 307 Temporary Redirect: redirects are not followed"},
		{"a redirect for good", status(308, "application/json", good), "redirects are not followed"},
		{"text", say("text/plain", good), "the reply is of type text/plain, not application/json"},
		{"no type", say("", good), "the reply is of type none, not application/json"},
		{"a stream that was not asked for", stream(dialects[0].events(whole)), "the reply is of type text/event-stream, not application/json"},
		{"malformed JSON", say("application/json", good[:len(good)-1]), "not of the form that the interface has"},
		{"two replies", say("application/json", good+good), "not of the form that the interface has"},
		{"a member given twice", say("application/json", `{"status":"failed",`+good[1:]), "not of the form that the interface has"},
		{"a member of another type", say("application/json", `{"status":7}`), "not of the form that the interface has"},
		{"nothing at all", say("application/json", ""), "not of the form that the interface has"},
		{"null", say("application/json", "null"), "the reply ends with status none"},
		{"more than is read", say("application/json", strings.Repeat(" ", reviewer.MaxReply)+good), "read the reply: it is longer than 1048576 bytes"},
		{"an encoding that was not asked for", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			say("application/json", good)(w, r)
		}, "encoded as gzip"},
		{"half of what was announced", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100000")
			say("application/json", good)(w, r)
		}, "read the reply: unexpected EOF"},
		{"an end of the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := provide(t, test.answer)
			got := openModel(t, dialects[0], p.URL, ", api_key_env: REGENT_TEST_KEY").Review(t.Context(), question(t, aCommand))
			if !strings.HasPrefix(got.Rationale, "ask "+strings.TrimPrefix(p.URL, "http://")+": ") || !strings.Contains(got.Rationale, test.want) {
				t.Errorf("rationale = %s; want %s", got.Rationale, test.want)
			}
			if strings.Contains(got.Rationale, "hunter2") {
				t.Errorf("the key is in %s", got.Rationale)
			}
			got.Rationale = ""
			if diff := cmp.Diff(approval.Verdict{Reviewer: "acme/model", Outcome: approval.VerdictError}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			p.only(t)
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went where a redirect pointed", n)
	}
}

func TestModelTakesNothingFromAStreamThatFails(t *testing.T) {
	good := dialects[0].events(whole)
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"one object that is no stream", say("application/json", dialects[0].reply(whole)), "the reply is of type application/json, not text/event-stream"},
		{"no event", say("text/event-stream", ": nothing\n\n"), "the reply ends before it is complete"},
		{"an event without an end", say("text/event-stream", "data: "+good[len(good)-1]), "the reply ends before it is complete"},
		{"an event that is no JSON", stream([]string{"{"}), "not of the form that the interface has"},
		{"more than is read", say("text/event-stream", strings.Repeat(": wait\n", reviewer.MaxReply/7)+"\ndata: "+good[len(good)-1]+"\n\n"), "it is longer than 1048576 bytes"},
		{"one line without an end", say("text/event-stream", "data: "+strings.Repeat("x", 2*reviewer.MaxReply)), "it is longer than 1048576 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := provide(t, test.answer)
			got := openModel(t, dialects[0], p.URL, ", stream: true").Review(t.Context(), question(t, aCommand))
			if got.Outcome != approval.VerdictError || !strings.Contains(got.Rationale, test.want) {
				t.Errorf("verdict = %+v; want an error with %s", got, test.want)
			}
		})
	}
}

func TestModelEndsInTime(t *testing.T) {
	held := func(t *testing.T) (*provider, <-chan struct{}) {
		arrived := make(chan struct{}, 1)
		return provide(t, func(w http.ResponseWriter, r *http.Request) {
			// The reply has begun, and never ends.
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"status":`)
			_ = http.NewResponseController(w).Flush()
			arrived <- struct{}{}
			<-r.Context().Done()
		}), arrived
	}
	check := func(t *testing.T, outcome approval.VerdictOutcome, rationale string, got approval.Verdict) {
		t.Helper()
		if diff := cmp.Diff(approval.Verdict{Reviewer: "acme/model", Outcome: outcome, Rationale: rationale}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	t.Run("its own", func(t *testing.T) {
		t.Parallel()
		p, _ := held(t)
		r, err := reviewer.Open(load(t, fmt.Sprintf("reviewers: {acme/model: {kind: model, provider: openai, model: m, base_url: %q, timeout_seconds: 1}}\n", p.URL)), "acme/model")
		if err != nil {
			t.Fatal(err)
		}
		check(t, approval.VerdictTimeout, "the review took too long: no answer within 1s", r.Review(t.Context(), question(t, aCommand)))
	})
	t.Run("a deadline of the caller's, in a stream too", func(t *testing.T) {
		t.Parallel()
		p := provide(t, func(w http.ResponseWriter, r *http.Request) {
			stream(dialects[2].events(whole)[:4])(w, r)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("the time for reviews is over"))
		defer cancel()
		check(t, approval.VerdictTimeout, "the review took too long: the time for reviews is over",
			openModel(t, dialects[2], p.URL, ", stream: true").Review(ctx, question(t, aCommand)))
	})
	t.Run("cancelled while it waits", func(t *testing.T) {
		t.Parallel()
		p, arrived := held(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan approval.Verdict, 1)
		q := question(t, aCommand)
		go func() { done <- openModel(t, dialects[1], p.URL, "").Review(ctx, q) }()
		<-arrived
		cancel(errors.New("a person was faster"))
		check(t, approval.VerdictError, "the review was cancelled: a person was faster", <-done)
	})
	t.Run("over before it starts, nothing is sent", func(t *testing.T) {
		t.Parallel()
		p := provide(t, say("application/json", dialects[0].reply(whole)))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("a person was faster"))
		check(t, approval.VerdictError, "the review was cancelled: a person was faster", openModel(t, dialects[0], p.URL, "").Review(ctx, question(t, aCommand)))
		if len(p.heard) != 0 {
			t.Errorf("the provider heard %d requests", len(p.heard))
		}
	})
}

func TestModelTrustsWhatItsFileOfCertificatesSays(t *testing.T) {
	p := &provider{}
	p.Server = httptest.NewUnstartedServer(p.keep(t, say("application/json", dialects[0].reply(whole))))
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // it says who does not trust it
	p.StartTLS()
	t.Cleanup(p.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})))
	review := func(more string) approval.Verdict {
		return openModel(t, dialects[0], p.URL, more).Review(t.Context(), question(t, aCommand))
	}
	if got := review(fmt.Sprintf(", ca_file: %q", ca)); got.Outcome != approval.VerdictAllow {
		t.Errorf("with the right one: %+v", got)
	}
	p.only(t)
	for _, test := range []struct{ name, more, want string }{
		{"without one", "", "certificate"},
		{"with a file of something else", fmt.Sprintf(", ca_file: %q", write("words", "hello")), "holds no certificate in PEM"},
		{"with one that is too long", fmt.Sprintf(", ca_file: %q", write("long", strings.Repeat("x", 2<<20))), "is longer than"},
	} {
		got := review(test.more)
		if got.Outcome != approval.VerdictError || !strings.Contains(got.Rationale, test.want) {
			t.Errorf("%s: %+v; want an error with %s", test.name, got, test.want)
		}
	}
	p.only(t)
}

func TestModelReadsItsKeyForEachReview(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	keep := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep("first-secret\n")
	p := provide(t, say("application/json", dialects[0].reply(whole)))
	from := openModel(t, dialects[0], p.URL, fmt.Sprintf(", api_key_file: %q", file))
	t.Setenv("REGENT_TEST_KEY", " third-secret ")
	environment := openModel(t, dialects[0], p.URL, ", api_key_env: REGENT_TEST_KEY")
	reviews := []func(){
		func() {},
		func() { keep("second-secret") },
		func() { from = environment },
		func() { t.Setenv("REGENT_TEST_KEY", "fourth-secret") },
		func() { from = openModel(t, dialects[0], p.URL, "") },
	}
	var got []string
	for i, change := range reviews {
		change()
		if v := from.Review(t.Context(), question(t, aCommand)); v.Outcome != approval.VerdictAllow {
			t.Fatalf("review %d: %+v", i, v)
		}
		got = append(got, p.heard[i].header.Get("Authorization"))
	}
	want := []string{"Bearer first-secret", "Bearer second-secret", "Bearer third-secret", "Bearer fourth-secret", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestModelWithoutItsKeyAsksNobody(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REGENT_TEST_EMPTY", "")
	t.Setenv("REGENT_TEST_TWO", "hunter2\nX-Injected: 1")
	p := provide(t, say("application/json", dialects[0].reply(whole)))
	check := func(name string, r reviewer.Reviewer, want string) {
		t.Helper()
		got := r.Review(t.Context(), question(t, aCommand))
		if got.Outcome != approval.VerdictError || !strings.Contains(got.Rationale, want) || strings.Contains(got.Rationale, "hunter2") {
			t.Errorf("%s: verdict = %+v; want an error with %s", name, got, want)
		}
	}
	check("a variable that is not set", openModel(t, dialects[0], p.URL, ", api_key_env: REGENT_TEST_MISSING"), "there is no key: the variable REGENT_TEST_MISSING of api_key_env is empty or not set")
	check("one that is empty", openModel(t, dialects[0], p.URL, ", api_key_env: REGENT_TEST_EMPTY"), "is empty or not set")
	check("one of two lines", openModel(t, dialects[0], p.URL, ", api_key_env: REGENT_TEST_TWO"), "holds a character that no key has")
	from := openModel(t, dialects[0], p.URL, fmt.Sprintf(", api_key_file: %q", file))
	check("a file that is empty", from, "there is no key: api_key_file is empty")
	if err := os.WriteFile(file, []byte(strings.Repeat("x", 10000)), 0o600); err != nil {
		t.Fatal(err)
	}
	check("a file that is no key", from, "is longer than 8192 bytes")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("a file that is gone", from, "no such file")
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	check("a folder in its place", from, "is not a file")
	if len(p.heard) != 0 {
		t.Errorf("the provider heard %d requests", len(p.heard))
	}
}

func TestModelNeverTellsItsKey(t *testing.T) {
	const key = "hunter2/hunter2"
	t.Setenv("REGENT_TEST_KEY", key)
	for _, spelt := range []string{key, strings.ReplaceAll(key, "/", `\/`)} {
		each(t, func(t *testing.T, d dialect) {
			answer := strings.Replace(whole, "a <push>", "the key is "+key, 1)
			body := strings.ReplaceAll(strings.Replace(d.reply(answer), "small-model-2026", key, 1), key, spelt)
			p := provide(t, say("application/json", body))
			got := openModel(t, d, p.URL, ", api_key_env: REGENT_TEST_KEY").Review(t.Context(), question(t, aCommand))
			want := approval.Verdict{
				Reviewer: "acme/model", Outcome: approval.VerdictAllow, Risk: "low", Authorization: "low", Rationale: "the key is [redacted]",
				Usage: &approval.Usage{Model: "[redacted]-01-01", InputTokens: 1000, OutputTokens: 200},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestModelTellsNoUsageThatCannotBe(t *testing.T) {
	for _, tokens := range []string{"-1", "9000000000000000000"} {
		p := provide(t, say("application/json", strings.Replace(dialects[0].reply(whole), `"input_tokens":1000`, `"input_tokens":`+tokens, 1)))
		if got := openModel(t, dialects[0], p.URL, "").Review(t.Context(), question(t, aCommand)); got.Usage != nil || got.Outcome != approval.VerdictAllow {
			t.Errorf("%s tokens: %+v", tokens, got)
		}
	}
}

func TestModelIsReachedWhereItsProvidersLibrariesWould(t *testing.T) {
	for _, test := range []struct {
		d          dialect
		base, path string
	}{
		{dialects[0], "/v1/", "/v1/responses"},
		{dialects[0], "/gateway", "/gateway/responses"},
		{dialects[1], "/openai/v1", "/openai/v1/chat/completions"},
		{dialects[2], "", "/v1/messages"},
		{dialects[2], "/", "/v1/messages"},
		{dialects[2], "/v1", "/v1/messages"},
		{dialects[2], "/anthropic/v1/", "/anthropic/v1/messages"},
	} {
		p := provide(t, say("application/json", test.d.reply(whole)))
		test.d.base = test.base
		openModel(t, test.d, p.URL, "").Review(t.Context(), question(t, aCommand))
		if h := p.only(t); h.path != test.path {
			t.Errorf("base_url ending in %q: it asked %s, want %s", test.base, h.path, test.path)
		}
	}
}

func TestOpenRefusesAModelThatCouldSendToTheWrongPlace(t *testing.T) {
	for _, test := range []struct {
		name string
		r    config.Reviewer
		want string
	}{
		{"in the clear", config.Reviewer{Provider: "openai", BaseURL: "http://models.example.com"}, "base_url is not https, and not http to this machine"},
		{"by another scheme", config.Reviewer{Provider: "openai", BaseURL: "ftp://127.0.0.1"}, "base_url is not https"},
		{"with a password", config.Reviewer{Provider: "openai", BaseURL: "https://sam:hunter2@x.example.com"}, "base_url is no web address alone"},
		{"to nowhere", config.Reviewer{Provider: "openai", BaseURL: "https:///v1"}, "base_url is no web address alone"},
		{"to a provider that is not known", config.Reviewer{Provider: "acme"}, `provider "acme" is not known`},
		{"by an interface that is not known", config.Reviewer{Provider: "openai", API: "legacy"}, `api "legacy" is not known`},
	} {
		c := config.Default("")
		test.r.Kind, test.r.Model = config.ReviewerModel, "m"
		c.Reviewers = map[string]config.Reviewer{"acme/model": test.r}
		r, err := reviewer.Open(c, "acme/model")
		if err == nil || r != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Open = %v, %v; want an error with %s", test.name, r, err, test.want)
		}
	}
}

func TestModelReadsGuidanceAsInstructions(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := provide(t, say("application/json", d.reply(whole)))
		openModel(t, d, p.URL, `, guidance: "Nothing is published on a Friday."`).Review(t.Context(), question(t, aCommand))
		instructions, evidence := p.only(t).prompts(t)
		if !strings.Contains(instructions, "# Guidance of the owner of the workspace\n") || !strings.Contains(instructions, "\n\nNothing is published on a Friday.\n") {
			t.Errorf("instructions = %s", instructions)
		}
		if strings.Contains(evidence, "Friday") {
			t.Errorf("evidence = %s", evidence)
		}
	})
}

func TestModelsDoNotWaitForEachOther(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	slow := provide(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		say("application/json", dialects[0].reply(whole))(w, r)
	})
	fast := provide(t, say("application/json", dialects[0].reply(whole)))
	one := openModel(t, dialects[0], slow.URL, "")
	q := question(t, aCommand)
	done := make(chan approval.Verdict, 1)
	go func() { done <- one.Review(context.Background(), q) }()
	<-arrived
	if got := openModel(t, dialects[0], fast.URL, "").Review(t.Context(), q); got.Outcome != approval.VerdictAllow {
		t.Errorf("the other: %+v", got)
	}
	close(release)
	if got := <-done; got.Outcome != approval.VerdictAllow {
		t.Errorf("the first: %+v", got)
	}
}
