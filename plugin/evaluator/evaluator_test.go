package evaluator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/plugin/evaluator"
	"github.com/regent-policy/regent/server/api"
)

// TestMain makes the test binary the program where it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "evaluator" {
		program(os.Args[2])
		return
	}
	// The race detector would have each process linger for a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func program(mode string) {
	switch mode {
	case "silent": // says nothing, and stays
		select {}
	case "ends":
		return
	case "insecure":
		_ = os.Unsetenv("PLUGIN_CLIENT_CERT") // it is set, so it can be
	}
	if err := evaluator.Serve(context.Background(), fake{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// fake does what the text of a command says. What it was asked is in its answers.
type fake struct{}

func (fake) Describe(context.Context) (evaluator.Description, error) {
	var names []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return evaluator.Description{Name: "fake", Version: "1.2.3", Home: strings.Join(names, " "), Workspace: "/w", Daemon: true}, nil
}

func (fake) Evaluate(ctx context.Context, q evaluator.Question) (approval.Ruling, error) {
	text := q.Request.Command.Text
	return approval.Ruling{Route: approval.Route(text), Reasons: []string{q.Workspace, q.Folder}, Epoch: "e"}, nil
}

func (fake) Ask(ctx context.Context, q evaluator.Question) (api.Answer, error) {
	switch text := q.Request.Command.Text; text {
	case "wait":
		fmt.Fprintln(os.Stderr, "asked")
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "withdrawn")
		return api.Answer{Outcome: approval.OutcomeAllow}, nil
	case "die":
		os.Exit(3)
	case "panic":
		panic("lost my head")
	case "no daemon":
		return api.Answer{}, fmt.Errorf("ask: %w", evaluator.ErrNoDaemon)
	case "fail":
		return api.Answer{Outcome: approval.OutcomeAllow}, errors.New(strings.Repeat("out of ink ", 1000))
	case "stopping":
		return api.Answer{Outcome: approval.OutcomeAllow}, &api.Error{Code: api.Stopping, Message: "going", Hint: "later"}
	case "option":
		return api.Answer{}, &approval.RequestError{Pointer: "/options", Message: "none"}
	default:
		return api.Answer{Outcome: approval.Outcome(text), Option: json.RawMessage(`{"x":1}`), Reason: "because"}, nil
	}
	return api.Answer{}, nil
}

func (fake) Answer(_ context.Context, d evaluator.Decision) (approval.Record, error) {
	switch d.Reason {
	case "conflict":
		return approval.Record{}, &api.Error{Code: api.Conflict, Message: "moved on", Record: &approval.Record{ID: d.ID, Revision: 7}}
	case "large conflict":
		masked := []string{strings.Repeat("x", 10_000)}
		return approval.Record{}, &api.Error{Code: api.Conflict, Message: strings.Repeat("é", 10_000), Record: &approval.Record{ID: d.ID, Masked: masked}}
	case "other":
		return approval.Record{ID: "another"}, nil
	}
	grant, err := json.Marshal(d.Grant)
	if err != nil {
		return approval.Record{}, err
	}
	return approval.Record{ID: d.ID, Revision: d.Revision + 1, Options: []json.RawMessage{d.Option, grant}, Masked: []string{d.Reason, d.Proof}}, nil
}

func start(t *testing.T, mode string, o evaluator.Options) (*evaluator.Client, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Command = []string{self, "evaluator", mode}
	o.Env = append(o.Env, "GORACE")
	c, err := evaluator.Start(t.Context(), o)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func load(t *testing.T, o evaluator.Options) *evaluator.Client {
	t.Helper()
	c, err := start(t, "good", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func question(text string) evaluator.Question {
	return evaluator.Question{
		Request:   &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: text}},
		Workspace: "/work", Folder: "/folder",
	}
}

func TestOnlyWhatIsNamedIsSeenOfTheEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "secret")
	t.Setenv("NAMED", "x")
	d, err := load(t, evaluator.Options{Env: []string{"NAMED"}}).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := strings.Fields(d.Home)
	if slices.Contains(seen, "ANTHROPIC_API_KEY") || !slices.Contains(seen, "NAMED") || !slices.Contains(seen, "PATH") {
		t.Errorf("it sees %q", seen)
	}
	d.Home = ""
	if diff := cmp.Diff(evaluator.Description{Name: "fake", Version: "1.2.3", Workspace: "/w", Daemon: true}, d); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
}

func TestRulings(t *testing.T) {
	c := load(t, evaluator.Options{})
	for _, route := range []approval.Route{"skip", "allow", "deny", "review", "ask"} {
		got, err := c.Evaluate(t.Context(), question(string(route)))
		if err != nil || got.Route != route || !slices.Equal(got.Reasons, []string{"/work", "/folder"}) {
			t.Errorf("%s: the ruling is %+v, %v", route, got, err)
		}
	}
	if got, err := c.Evaluate(t.Context(), question("permit")); !errors.Is(err, evaluator.ErrReply) || got.Route != "" {
		t.Errorf("a route that is not known is %+v, %v; want ErrReply", got, err)
	}
}

func TestAnswers(t *testing.T) {
	c := load(t, evaluator.Options{})
	for _, outcome := range []approval.Outcome{"allow", "deny", "cancel"} {
		want := api.Answer{Outcome: outcome, Option: json.RawMessage(`{"x":1}`), Reason: "because"}
		got, err := c.Ask(t.Context(), question(string(outcome)))
		if err != nil {
			t.Fatal(err)
		}
		got.Ruling = approval.Ruling{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", outcome, diff)
		}
	}
}

func TestWhatIsNoAnswerIsNoPermission(t *testing.T) {
	c := load(t, evaluator.Options{})
	relative := question("allow")
	relative.Workspace = "work"
	malformed := question("allow")
	malformed.Request.Kind = "wish"
	for name, tt := range map[string]struct {
		q    evaluator.Question
		is   error
		code api.Code
	}{
		"an outcome of its own":       {question("allowed"), evaluator.ErrReply, ""},
		"none":                        {question(""), approval.ErrRequest, api.MalformedRequest},
		"no request":                  {evaluator.Question{}, nil, ""},
		"a request that is malformed": {malformed, approval.ErrRequest, api.MalformedRequest},
		"a folder that is relative":   {relative, nil, api.BadRequest},
		"no daemon":                   {question("no daemon"), evaluator.ErrNoDaemon, ""},
		"a daemon that ends":          {question("stopping"), approval.ErrClosed, api.Stopping},
		"options without a refusal":   {question("option"), approval.ErrRequest, api.MalformedRequest},
		"a fault":                     {question("fail"), nil, ""},
		"a panic":                     {question("panic"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.Ask(t.Context(), tt.q)
			if err == nil || got.Outcome != "" || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("the answer is %+v, %v; want none, and %v", got, err, tt.is)
			}
			if fault, ok := errors.AsType[*api.Error](err); ok != (tt.code != "") || ok && fault.Code != tt.code {
				t.Errorf("the error is %#v, want the code %q", err, tt.code)
			}
		})
	}
	if _, err := c.Ask(t.Context(), question("allow")); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestDecisions(t *testing.T) {
	c := load(t, evaluator.Options{})
	d := evaluator.Decision{ID: "r1", Revision: 3, Decision: api.Decision{
		Option: json.RawMessage(`{"accept":[1]}`), Reason: "fine", Proof: "123456",
		Grant: &permission.Response{Scope: permission.Turn, StrictAutoReview: true},
	}}
	grant, err := json.Marshal(d.Grant)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Answer(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	type record struct {
		ID       string
		Revision int64
		Option   string
		Grant    string
		Rest     []string
	}
	want := record{"r1", 4, `{"accept":[1]}`, string(grant), []string{"fine", "123456"}}
	if diff := cmp.Diff(want, record{got.ID, got.Revision, string(got.Options[0]), string(got.Options[1]), got.Masked}); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}

	for name, tt := range map[string]struct {
		change func(d *evaluator.Decision)
		is     error
		code   api.Code
	}{
		"without an id":       {func(d *evaluator.Decision) { d.ID = "" }, nil, api.BadRequest},
		"without a revision":  {func(d *evaluator.Decision) { d.Revision = 0 }, nil, api.RevisionRequired},
		"without an option":   {func(d *evaluator.Decision) { d.Option = nil }, nil, api.BadRequest},
		"of what is no JSON":  {func(d *evaluator.Decision) { d.Option = json.RawMessage("allow") }, nil, api.BadRequest},
		"for another record":  {func(d *evaluator.Decision) { d.Reason = "other" }, evaluator.ErrReply, ""},
		"that comes too late": {func(d *evaluator.Decision) { d.Reason = "conflict" }, approval.ErrConflict, api.Conflict},
		"too late, at length": {func(d *evaluator.Decision) { d.Reason = "large conflict" }, approval.ErrConflict, api.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			d := d
			tt.change(&d)
			got, err := c.Answer(t.Context(), d)
			if err == nil || got.ID != "" || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("the record is %+v, %v; want none, and %v", got, err, tt.is)
			}
			if fault, ok := errors.AsType[*api.Error](err); ok != (tt.code != "") || ok && fault.Code != tt.code {
				t.Errorf("the error is %#v, want the code %q", err, tt.code)
			}
			if d.Reason == "conflict" {
				if won, ok := errors.AsType[*approval.ConflictError](err); !ok || won.Current.Revision != 7 {
					t.Errorf("the record that won is missing: %v", err)
				}
			}
		})
	}
}

// pipe is a writer whose lines can be waited for.
type pipe struct{ lines chan string }

func (p pipe) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		select {
		case p.lines <- strings.TrimSpace(string(line)):
		default: // nobody waits for so many
		}
	}
	return len(text), nil
}

func (p pipe) await(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case line := <-p.lines:
			if line == want {
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("it never said %q", want)
		}
	}
}

func TestToCancelReachesTheProgram(t *testing.T) {
	said := pipe{make(chan string, 100)}
	c := load(t, evaluator.Options{Stderr: said})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	done := make(chan error, 1)
	go func() {
		answer, err := c.Ask(ctx, question("wait"))
		if answer.Outcome != "" {
			err = fmt.Errorf("the answer is %s", answer.Outcome)
		}
		done <- err
	}()
	said.await(t, "asked")
	cancel(enough)
	if err := <-done; !errors.Is(err, enough) {
		t.Errorf("the question ends with %v, want its cause", err)
	}
	said.await(t, "withdrawn")
}

func TestOneThatDiesIsGone(t *testing.T) {
	c := load(t, evaluator.Options{})
	for _, text := range []string{"die", "allow"} {
		if answer, err := c.Ask(t.Context(), question(text)); !errors.Is(err, evaluator.ErrGone) || answer.Outcome != "" {
			t.Errorf("%s: the answer is %+v, %v; want ErrGone", text, answer, err)
		}
	}
}

func TestToCloseEndsWhatIsAsked(t *testing.T) {
	said := pipe{make(chan string, 100)}
	c := load(t, evaluator.Options{Stderr: said})
	done := make(chan error, 1)
	go func() {
		_, err := c.Ask(t.Context(), question("wait"))
		done <- err
	}()
	said.await(t, "asked")
	c.Close()
	if err := <-done; !errors.Is(err, evaluator.ErrGone) {
		t.Errorf("the question ends with %v, want ErrGone", err)
	}
	c.Close() // again is nothing
}

func TestStarts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := plugin.Sum(self)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, "good", evaluator.Options{SHA256: strings.ToUpper(sum)}); err != nil {
		t.Errorf("the program that is pinned: %v", err)
	}
	for name, tt := range map[string]struct {
		mode string
		o    evaluator.Options
	}{
		"another than is pinned":      {"good", evaluator.Options{SHA256: strings.Repeat("0", 64)}},
		"a pin that is no digest":     {"good", evaluator.Options{SHA256: "00"}},
		"one that ends":               {"ends", evaluator.Options{}},
		"one that says nothing":       {"silent", evaluator.Options{StartTimeout: 300 * time.Millisecond}},
		"one that takes anyone's TLS": {"insecure", evaluator.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := start(t, tt.mode, tt.o); err == nil {
				t.Errorf("it was loaded: process %d", c.PID())
			}
		})
	}
	t.Run("one that the host does not wait for", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if _, err := evaluator.Start(ctx, evaluator.Options{Command: []string{self, "evaluator", "silent"}}); !errors.Is(err, enough) {
			t.Errorf("it ends with %v, want its cause", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		if _, err := evaluator.Start(t.Context(), evaluator.Options{Program: self + "-missing"}); err == nil {
			t.Error("it was loaded")
		}
	})
}

func TestNoHostIsServedByHand(t *testing.T) {
	if err := evaluator.Serve(t.Context(), fake{}); !errors.Is(err, evaluator.ErrNotLoaded) {
		t.Errorf("it is %v, want ErrNotLoaded", err)
	}
}
