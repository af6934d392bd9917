package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	allow  = json.RawMessage(`"allow"`)
	deny   = json.RawMessage(`"deny"`)
	cancel = json.RawMessage(`"cancel"`)

	local = gate.Principal{ID: "user:sam", Role: gate.RoleLocal}
)

// always is a place whose calls all belong to one workspace.
type always struct{ workspace, home *gate.Workspace }

func (a always) Of(context.Context, gate.Question) *gate.Workspace { return a.workspace }
func (a always) Home() *gate.Workspace                             { return a.home }

// bench is a gate on a real ledger, with rules that the test sets.
type bench struct {
	*testing.T
	*gate.Gate
	db        *ledger.DB
	path      string
	workspace *gate.Workspace
}

// epoch compiles rules for a home. The settings are manual with an evaluation
// deadline that a busy machine keeps.
func epoch(t testing.TB, settings, rules string) *gate.Epoch {
	t.Helper()
	home := files(t, map[string]string{
		"config.yaml":       "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n" + settings,
		"policies/one.rego": "package home.rules.one\n\nimport rego.v1\n" + rules,
	})
	e, err := gate.Load(t.Context(), gate.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const (
	manual = "permissions: {mode: manual}\n"
	noRm   = "\n# METADATA\n# custom: {id: RM}\ndeny contains \"no rm\" if input.request.command.text == \"rm x\"\n"
	echo   = "\n# METADATA\n# custom: {id: ECHO}\nallow contains \"echo is fine\" if input.request.command.text == \"echo hi\"\n"
)

func open(t *testing.T, e *gate.Epoch) *bench {
	t.Helper()
	b := &bench{T: t, path: filepath.Join(t.TempDir(), "l.db"), workspace: gate.NewWorkspace("/w", gate.Standing{Epoch: e})}
	b.start(ledger.Options{})
	t.Cleanup(func() {
		if err := b.Gate.Close(); err != nil {
			t.Error(err)
		}
		if err := b.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// openWithClock is open with a clock that can be set: by so much it is ahead.
func openWithClock(t *testing.T, e *gate.Epoch) (b *bench, set func(ahead time.Duration)) {
	t.Helper()
	b = open(t, e)
	if err := errors.Join(b.Gate.Close(), b.db.Close()); err != nil {
		t.Fatal(err)
	}
	var offset atomic.Int64
	b.start(ledger.Options{Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
	return b, func(ahead time.Duration) { offset.Store(int64(ahead)) }
}

// start opens ledger and gate, and returns what was found.
func (b *bench) start(o ledger.Options) []approval.Record {
	b.Helper()
	var err error
	if b.db, err = ledger.Open(b.Context(), b.path, o); err != nil {
		b.Fatal(err)
	}
	g, found, err := gate.New(b.Context(), gate.Parts{Ledger: b.db, Workspaces: always{b.workspace, b.workspace}, Now: o.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Gate = g
	return found
}

type result struct {
	gate.Answer
	err error
}

// ask asks behind the test's back.
func (b *bench) ask(ctx context.Context, r *approval.Request) <-chan result {
	done := make(chan result, 1)
	go func() {
		a, err := b.Ask(ctx, gate.Question{Request: r})
		done <- result{a, err}
	}()
	return done
}

// until waits until the newest record is as told, and returns it.
func (b *bench) until(what string, is func(r approval.Record) bool) approval.Record {
	b.Helper()
	for {
		changed := b.Feed().Changed()
		page, err := b.List(b.Context(), local, approval.Query{Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		if len(page.Records) > 0 && is(page.Records[0]) {
			return page.Records[0]
		}
		select {
		case <-changed:
		case <-b.Context().Done():
			b.Fatalf("never saw a record that is %s: %+v", what, page.Records)
		}
	}
}

func (b *bench) pending() approval.Record {
	b.Helper()
	return b.until("pending", func(r approval.Record) bool { return r.State == approval.Pending })
}

func (b *bench) state(id string) approval.State {
	b.Helper()
	r, err := b.Read(b.Context(), local, id)
	if err != nil {
		b.Fatal(err)
	}
	return r.State
}

func (b *bench) records() []approval.Record {
	b.Helper()
	page, err := b.List(b.Context(), local, approval.Query{})
	if err != nil {
		b.Fatal(err)
	}
	return page.Records
}

func reply(r approval.Record, option json.RawMessage) gate.Reply {
	return gate.Reply{ID: r.ID, Revision: r.Revision, Option: option, Reason: "looked at it", By: local}
}

func TestPolicyAnswersAtOnce(t *testing.T) {
	b := open(t, epoch(t, "permissions: {mode: manual, read_only_commands: skip}\n", noRm+echo))
	tests := []struct {
		name, text string
		outcome    approval.Outcome
		option     string
		by         string
		recorded   bool
	}{
		{"skip leaves no record", "ls -l", approval.OutcomeAllow, `"allow"`, "", false},
		{"a rule allows", "echo hi", approval.OutcomeAllow, `"allow"`, "ECHO", true},
		{"a rule denies", "rm x", approval.OutcomeDeny, `"deny"`, "RM", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := len(b.records())
			a, err := b.Ask(t.Context(), gate.Question{Request: command(test.text)})
			if err != nil {
				t.Fatal(err)
			}
			if a.Outcome != test.outcome || string(a.Option) != test.option {
				t.Errorf("answer %s %s, want %s %s", a.Outcome, a.Option, test.outcome, test.option)
			}
			if added := len(b.records()) - before; (added == 1) != test.recorded {
				t.Errorf("%d records added", added)
			}
			if !test.recorded {
				return
			}
			d := a.Record.Decision
			if d.By != test.by || d.Source != approval.SourceRule || a.Record.Writing.IsZero() {
				t.Errorf("decision %+v of %+v", d, a.Record)
			}
			b.Sent(a)
			b.until("resolved", func(r approval.Record) bool { return r.State == approval.Resolved })
		})
	}
	stats := b.Stats()
	if stats.Routes[approval.RouteSkip] != 1 || stats.Decisions[gate.DecisionKind{Source: approval.SourceRule, Outcome: approval.OutcomeDeny}] != 1 {
		t.Errorf("stats %+v", stats)
	}
}

func TestPersonAnswers(t *testing.T) {
	for _, test := range []struct {
		option  json.RawMessage
		outcome approval.Outcome
	}{{allow, approval.OutcomeAllow}, {deny, approval.OutcomeDeny}, {cancel, approval.OutcomeCancel}} {
		t.Run(string(test.outcome), func(t *testing.T) {
			b := open(t, epoch(t, manual, noRm))
			done := b.ask(t.Context(), command("make"))
			r := b.pending()
			won, err := b.Answer(t.Context(), reply(r, test.option))
			if err != nil {
				t.Fatal(err)
			}
			a := <-done
			if a.err != nil || a.Outcome != test.outcome || string(a.Option) != string(test.option) {
				t.Fatalf("answer %s %s, %v", a.Outcome, a.Option, a.err)
			}
			if won.Decision.By != "user:sam" || won.Decision.Source != approval.SourceHuman || won.Workspace != "/w" {
				t.Errorf("record %+v", won)
			}
			if a.Record.Writing.IsZero() {
				t.Error("the answer was told before it was marked as being written")
			}
			b.Sent(a.Answer)
			b.until("resolved", func(r approval.Record) bool { return r.State == approval.Resolved })
		})
	}
}

func TestAnswerThatIsNotWrittenIsUnknown(t *testing.T) {
	b := open(t, epoch(t, manual, echo))
	a, err := b.Ask(t.Context(), gate.Question{Request: command("echo hi")})
	if err != nil {
		t.Fatal(err)
	}
	b.Unsent(a, errors.New("broken pipe"))
	r := b.until("unknown", func(r approval.Record) bool { return r.State == approval.Unknown })
	if !strings.Contains(r.Closing.Reason, "broken pipe") {
		t.Errorf("closing %+v", r.Closing)
	}
	b.Sent(a) // too late: it stays unknown
	if got := b.state(r.ID); got != approval.Unknown {
		t.Errorf("state %s", got)
	}
}

func TestOneAnswerWins(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	done := b.ask(t.Context(), command("make"))
	r := b.pending()
	const racers = 32
	errs := make([]error, racers)
	var wait sync.WaitGroup
	for i := range racers {
		wait.Go(func() {
			option := allow
			if i%2 == 1 {
				option = deny
			}
			answer := reply(r, option)
			answer.By.ID = fmt.Sprintf("user:%d", i)
			_, errs[i] = b.Answer(t.Context(), answer)
		})
	}
	wait.Wait()
	a := <-done
	if a.err != nil {
		t.Fatal(a.err)
	}
	winners := 0
	for i, err := range errs {
		if err == nil {
			winners++
			if a.Record.Decision.By != fmt.Sprintf("user:%d", i) {
				t.Errorf("racer %d was told it won, and %s did", i, a.Record.Decision.By)
			}
			continue
		}
		conflict, ok := errors.AsType[*approval.ConflictError](err)
		if !ok || !errors.Is(err, approval.ErrConflict) || conflict.Current.Decision == nil || conflict.Current.Decision.By != a.Record.Decision.By {
			t.Errorf("racer %d: %v", i, err)
		}
	}
	if winners != 1 {
		t.Errorf("%d winners", winners)
	}
}

func TestNewEpochRoutesAgainWhatWaits(t *testing.T) {
	first := epoch(t, manual, noRm)
	tests := []struct {
		name    string
		next    *gate.Epoch
		outcome approval.Outcome
		source  approval.Source
	}{
		{"a rule denies now", epoch(t, manual, strings.Replace(noRm, "rm x", "make", 1)), approval.OutcomeDeny, approval.SourceRule},
		{"a rule allows now", epoch(t, manual, strings.Replace(echo, "echo hi", "make", 1)), approval.OutcomeAllow, approval.SourceRule},
		{"the mode allows now", epoch(t, "permissions: {mode: auto_allow}\n", noRm), approval.OutcomeAllow, approval.SourceAuto},
		{"still asked", epoch(t, manual, echo), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, first)
			done := b.ask(t.Context(), command("make"))
			before := b.pending()
			b.workspace.Install(gate.Standing{Epoch: test.next})
			after := b.until("rerouted", func(r approval.Record) bool {
				return r.Ruling.Epoch == test.next.ID && (test.outcome == "" || r.Decision != nil)
			})
			if !after.Deadline.Equal(before.Deadline) {
				t.Errorf("the deadline moved from %s to %s", before.Deadline, after.Deadline)
			}
			if test.outcome == "" {
				if _, err := b.Answer(t.Context(), reply(before, allow)); !errors.Is(err, approval.ErrConflict) {
					t.Errorf("an answer to the old ruling: %v", err)
				}
				if _, err := b.Answer(t.Context(), reply(after, deny)); err != nil {
					t.Error(err)
				}
				<-done
				return
			}
			a := <-done
			if a.err != nil || a.Outcome != test.outcome || a.Record.Decision.Source != test.source {
				t.Errorf("answer %+v, %v", a.Answer, a.err)
			}
		})
	}
}

func TestNewEpochReopensNothing(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	done := b.ask(t.Context(), command("make"))
	if _, err := b.Answer(t.Context(), reply(b.pending(), deny)); err != nil {
		t.Fatal(err)
	}
	b.workspace.Install(gate.Standing{Epoch: epoch(t, "permissions: {mode: auto_allow}\n", noRm)})
	if a := <-done; a.err != nil || a.Outcome != approval.OutcomeDeny {
		t.Errorf("answer %+v, %v", a.Answer, a.err)
	}
}

func TestAnswerHearsTheNewRulesFirst(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	done := b.ask(t.Context(), command("make"))
	r := b.pending()
	b.workspace.Install(gate.Standing{Epoch: epoch(t, manual, strings.Replace(noRm, "rm x", "make", 1))})
	// Whether or not the waiting request has noticed by now, the old reading does
	// not allow what the rules deny.
	if _, err := b.Answer(t.Context(), reply(r, allow)); !errors.Is(err, approval.ErrConflict) && !errors.Is(err, gate.ErrDenied) {
		t.Errorf("Answer: %v", err)
	}
	if a := <-done; a.err != nil || a.Outcome != approval.OutcomeDeny {
		t.Errorf("answer %+v, %v", a.Answer, a.err)
	}
}

func TestCallerGoesAway(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	gone := errors.New("gone")
	ctx, stop := context.WithCancelCause(t.Context())
	done := b.ask(ctx, command("make"))
	r := b.pending()
	stop(gone)
	if a := <-done; !errors.Is(a.err, gone) || a.Outcome != "" {
		t.Errorf("answer %+v, %v", a.Answer, a.err)
	}
	if got := b.state(r.ID); got != approval.Cancelled {
		t.Errorf("state %s", got)
	}
	if _, err := b.Answer(t.Context(), reply(r, allow)); !errors.Is(err, approval.ErrConflict) {
		t.Errorf("a late answer: %v", err)
	}
}

func TestFence(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	request := command("make")
	request.Run = &approval.Run{ID: "run", Instance: "host-1"}
	digest, err := approval.Digest(request)
	if err != nil {
		t.Fatal(err)
	}
	done := b.ask(t.Context(), request)
	r := b.pending()
	fence := func(run, instance, digest string) error {
		_, err := b.Fence(t.Context(), r.ID, run, instance, digest)
		return err
	}
	if err := fence("run", "host-1", digest); !errors.Is(err, approval.ErrConflict) {
		t.Errorf("before the decision: %v", err)
	}
	if _, err := b.Answer(t.Context(), reply(r, allow)); err != nil {
		t.Fatal(err)
	}
	b.Sent((<-done).Answer)
	for _, test := range []struct {
		name                  string
		run, instance, digest string
		want                  error
	}{
		{"the same run, instance and action", "run", "host-1", digest, nil},
		{"another run", "other", "host-1", digest, approval.ErrInstance},
		{"another instance", "run", "host-2", digest, approval.ErrInstance},
		{"another action", "run", "host-1", strings.Repeat("0", 64), approval.ErrDigest},
	} {
		if err := fence(test.run, test.instance, test.digest); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if _, err := b.Mark(t.Context(), r.ID, "host-2", gate.MarkResolved, ""); !errors.Is(err, approval.ErrInstance) {
		t.Errorf("a mark by another instance: %v", err)
	}
	if _, err := b.Mark(t.Context(), r.ID, "host-1", gate.MarkResolved, "done"); err != nil {
		t.Error(err)
	}
	if err := fence("run", "host-1", digest); !errors.Is(err, approval.ErrConflict) {
		t.Errorf("after the end: %v", err)
	}
}

func TestPostAndAwait(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	request := command("make --token=ghp_0123456789012345678901234567890123456")
	a, err := b.Post(t.Context(), gate.Question{Request: request})
	if err != nil || a.Outcome != "" || a.Record == nil {
		t.Fatalf("%+v, %v", a, err)
	}
	id, instance := a.Record.ID, a.Record.Instance
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if a, err := b.Await(ctx, id, instance); err != nil || a.Outcome != "" {
		t.Errorf("before the answer: %+v, %v", a, err)
	}
	if _, err := b.Await(t.Context(), id, "other"); !errors.Is(err, approval.ErrInstance) {
		t.Errorf("another instance: %v", err)
	}
	if _, err := b.Answer(t.Context(), reply(*a.Record, allow)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first may not have arrived
		if a, err = b.Await(t.Context(), id, instance); err != nil || a.Outcome != approval.OutcomeAllow {
			t.Errorf("%+v, %v", a, err)
		}
	}
	b.Sent(a)
	b.until("sent", func(r approval.Record) bool { return r.State == approval.Sent })
	if err := b.End(t.Context(), instance); err != nil {
		t.Error(err)
	}
	if got := b.state(id); got != approval.Resolved {
		t.Errorf("state %s", got)
	}
}

func TestHarnessOptionsAreToldVerbatim(t *testing.T) {
	b := open(t, epoch(t, "permissions: {mode: manual, read_only_commands: skip}\n", noRm+echo))
	options := []json.RawMessage{json.RawMessage(`"acceptForSession"`), json.RawMessage(`"accept"`), json.RawMessage(`"decline"`), json.RawMessage(`"cancel"`)}
	harness := func(text string, options ...json.RawMessage) *approval.Request {
		r := command(text)
		r.Harness, r.Options = &approval.Harness{Name: "codex"}, options
		return r
	}
	for text, want := range map[string]string{"echo hi": `"accept"`, "rm x": `"decline"`} {
		a, err := b.Ask(t.Context(), gate.Question{Request: harness(text, options...)})
		if err != nil || string(a.Option) != want {
			t.Errorf("%s: %s, %v; want %s", text, a.Option, err, want)
		}
	}
	// Policy allows once, or would not even ask; that cannot be said here, so a
	// person decides.
	skipped := b.ask(t.Context(), harness("ls", options[0], options[3]))
	if _, err := b.Answer(t.Context(), reply(b.pending(), options[3])); err != nil {
		t.Fatal(err)
	}
	if a := <-skipped; a.err != nil || a.Outcome != approval.OutcomeCancel {
		t.Errorf("%s, %v", a.Outcome, a.err)
	}
	done := b.ask(t.Context(), harness("echo hi", options[0], options[3]))
	r := b.pending()
	if _, err := b.Answer(t.Context(), reply(r, json.RawMessage(`"accept"`))); !errors.Is(err, approval.ErrNotOffered) {
		t.Errorf("an answer that was not offered: %v", err)
	}
	if _, err := b.Answer(t.Context(), reply(r, options[0])); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.err != nil || string(a.Option) != `"acceptForSession"` {
		t.Errorf("%s, %v", a.Option, a.err)
	}
	if _, err := b.Ask(t.Context(), gate.Question{Request: harness("echo hi", options[1])}); !errors.Is(err, approval.ErrRequest) {
		t.Errorf("a request that cannot be refused: %v", err)
	}
}

func TestNothingWiderIsGranted(t *testing.T) {
	e := epoch(t, manual, "\nceiling := {\"file_system\": {\"entries\": [{\"path\": {\"type\": \"path\", \"path\": \"/w/src\"}, \"access\": \"read\"}]}, \"scope\": \"turn\"}\n")
	b := open(t, e)
	asked := profile(permission.Literal("/w/src/a", permission.Write))
	request := &approval.Request{Kind: approval.KindPermissions, Permissions: &asked, Environment: &approval.Environment{Cwd: "/w"}}
	done := b.ask(t.Context(), request)
	answer := reply(b.pending(), allow)
	answer.Grant = &permission.Response{Permissions: profile(permission.Literal("/w", permission.Write)), Scope: permission.Session}
	if _, err := b.Answer(t.Context(), answer); err != nil {
		t.Fatal(err)
	}
	a := <-done
	if a.err != nil {
		t.Fatal(a.err)
	}
	want := profile(permission.Literal("/w/src/a", permission.Read))
	if diff := cmp.Diff(want, a.Settlement.Permissions); diff != "" || a.Settlement.Scope != permission.Turn || !a.Settlement.OverGrant {
		t.Errorf("settlement %+v (-want +got):\n%s", a.Settlement, diff)
	}
	if diff := cmp.Diff(a.Settlement, a.Record.Decision.Settlement); diff != "" {
		t.Errorf("what was told is not what was recorded:\n%s", diff)
	}
}

func profile(entries ...permission.Entry) permission.Profile {
	return permission.Profile{FileSystem: permission.FileSystem{Entries: entries}}
}

func TestReviewersAreNamedAsTheyAreConfigured(t *testing.T) {
	settings := func(model, key string) string {
		return "permissions: {mode: model_review}\nreviewers:\n" +
			"  default/reviewer: {kind: chain, members: [one/model]}\n" +
			"  one/model: {kind: model, provider: openai, model: " + model + ", api_key_env: " + key + "}\n"
	}
	b := open(t, epoch(t, settings("small", "KEY"), noRm))
	done := b.ask(t.Context(), command("make"))
	first := b.pending()
	if len(first.Reviewers) != 1 || first.Reviewers[0].Name != "default/reviewer" || len(first.Reviewers[0].Fingerprint) != 64 {
		t.Fatalf("reviewers %+v", first.Reviewers)
	}
	again := func(settings string) string {
		next := epoch(t, settings, noRm+"\n# another epoch\n")
		b.workspace.Install(gate.Standing{Epoch: next})
		r := b.until("rerouted", func(r approval.Record) bool { return r.Ruling.Epoch == next.ID })
		return r.Reviewers[0].Fingerprint
	}
	if got := again(settings("small", "OTHER_KEY")); got != first.Reviewers[0].Fingerprint {
		t.Error("where the key is kept is part of the fingerprint")
	}
	if got := again(settings("large", "KEY")); got == first.Reviewers[0].Fingerprint {
		t.Error("another model of a member has the same fingerprint")
	}
	// No reviewer of this kind runs, so a person is asked.
	last := b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
	if v := last.Ruling.Verdicts; len(v) != 1 || v[0].Outcome != approval.VerdictError || v[0].Reviewer != "default/reviewer" {
		t.Errorf("verdicts %+v", v)
	}
	if _, err := b.Answer(t.Context(), reply(last, deny)); err != nil {
		t.Fatal(err)
	}
	<-done
}

func TestWhoMayAnswer(t *testing.T) {
	b := open(t, epoch(t, manual+"principals: {owner: [\"user:sam\", \"user:eve\"], members: {\"user:kim\": member, \"user:lee\": observer}}\n", noRm))
	config := b.workspace.Standing().Epoch.Config
	named := func(id string) gate.Principal {
		p, ok := gate.Named(config, id)
		if !ok {
			t.Fatalf("nobody is called %s", id)
		}
		return p
	}
	if _, ok := gate.Named(config, "user:nobody"); ok {
		t.Error("user:nobody is somebody")
	}
	session := func(behalf string, members ...string) *approval.Request {
		r := command("make")
		r.Session = &approval.Session{ID: "s1", Members: members}
		r.Subject = &approval.Subject{ID: "agent:codex", OnBehalfOf: behalf}
		return r
	}
	self := session("user:sam")
	self.Subject.ID = "user:sam"
	tests := []struct {
		name    string
		request *approval.Request
		by      gate.Principal
		want    error
	}{
		{"an owner for whom the session acts", session("user:sam"), named("user:sam"), nil},
		{"an owner who is a member of the session", session("user:sam", "user:eve"), named("user:eve"), nil},
		{"an owner who is none", session("user:sam"), named("user:eve"), gate.ErrForbidden},
		{"an owner without a session", command("make"), named("user:sam"), gate.ErrForbidden},
		{"a member of the session who owns nothing", session("user:sam", "user:kim"), named("user:kim"), gate.ErrForbidden},
		{"a member of another session sees nothing", session("user:sam"), named("user:kim"), approval.ErrNotFound},
		{"an observer", session("user:sam", "user:lee"), named("user:lee"), gate.ErrForbidden},
		{"an agent", session("user:sam", "agent:x"), gate.Principal{ID: "agent:x", Role: gate.RoleAgent}, approval.ErrNotFound},
		{"the agent that asked", session("user:sam"), named("agent:codex"), gate.ErrForbidden},
		{"the subject, whoever it is", self, named("user:sam"), gate.ErrForbidden},
		{"the subject as the local administrator", self, local, gate.ErrForbidden},
		{"the local administrator", session("user:eve"), gate.Principal{ID: "user:root", Role: gate.RoleLocal}, nil},
		{"the local administrator without a session", command("make"), local, nil},
		{"nobody", session("user:sam"), gate.Principal{ID: "user:sam"}, approval.ErrNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			done := b.ask(t.Context(), test.request)
			r := b.pending()
			answer := reply(r, deny)
			answer.By = test.by
			_, err := b.Answer(t.Context(), answer)
			if !errors.Is(err, test.want) {
				t.Errorf("Answer: %v, want %v", err, test.want)
			}
			if err != nil {
				if _, err := b.Cancel(t.Context(), gate.Principal{ID: "user:root", Role: gate.RoleLocal}, r.ID, r.Revision, "the test is over"); err != nil {
					t.Error(err)
				}
			}
			<-done
		})
	}
}

func TestAllowingNeedsProof(t *testing.T) {
	b := open(t, epoch(t, manual+"principals: {step_up: true}\n", noRm))
	done := b.ask(t.Context(), command("make"))
	r := b.pending()
	if _, err := b.Answer(t.Context(), reply(r, allow)); !errors.Is(err, gate.ErrStepUp) {
		t.Errorf("without proof: %v", err)
	}
	answer := reply(r, allow)
	answer.By.Proven = true
	if _, err := b.Answer(t.Context(), answer); err != nil {
		t.Error(err)
	}
	<-done
	done = b.ask(t.Context(), command("make"))
	if _, err := b.Answer(t.Context(), reply(b.pending(), deny)); err != nil {
		t.Errorf("to refuse needs no proof: %v", err)
	}
	<-done
}

// broken is a ledger whose disk is full.
type broken struct{ approval.Ledger }

func (broken) Insert(context.Context, approval.Record) (approval.Record, error) {
	return approval.Record{}, approval.ErrFull
}

func (broken) InsertDecided(context.Context, approval.Record, approval.Decision, bool) (approval.Record, error) {
	return approval.Record{}, approval.ErrFull
}

func TestWhatCannotBeRecordedDoesNotRun(t *testing.T) {
	b := open(t, epoch(t, manual, noRm+echo))
	g, _, err := gate.New(t.Context(), gate.Parts{Ledger: broken{b.db}, Workspaces: always{b.workspace, b.workspace}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, text := range []string{"echo hi", "rm x", "make"} {
		a, err := g.Ask(t.Context(), gate.Question{Request: command(text)})
		if !errors.Is(err, approval.ErrFull) || a.Outcome != "" || a.Option != nil {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
	if n := g.Stats().Unrecorded; n != 3 {
		t.Errorf("%d unrecorded", n)
	}
}

func TestNoRulesMeansAsk(t *testing.T) {
	b := open(t, nil)
	b.workspace.Install(gate.Standing{Fault: &rego.LoadError{Problems: []rego.Problem{{File: "a.rego", Line: 3, Message: "unexpected token"}}}, Settings: rego.DefaultSettings()})
	done := b.ask(t.Context(), command("ls"))
	r := b.pending()
	if r.Ruling.Epoch != gate.NoEpoch || r.Ruling.Failure == nil || r.Ruling.Failure.Line != 3 {
		t.Errorf("ruling %+v", r.Ruling)
	}
	if _, err := b.Answer(t.Context(), reply(r, allow)); err != nil {
		t.Errorf("nobody can answer without rules: %v", err)
	}
	<-done
}

func TestRestartClosesWhatItFinds(t *testing.T) {
	b := open(t, epoch(t, manual, noRm+echo))
	var found []approval.Record
	pendingDone := b.ask(t.Context(), command("make"))
	pending := b.pending()
	writing, err := b.Ask(t.Context(), gate.Question{Request: command("echo hi")})
	if err != nil {
		t.Fatal(err)
	}
	// The process dies here: another one opens the same file.
	old, oldDB := b.Gate, b.db
	found = b.start(ledger.Options{})
	states := map[string]approval.State{}
	for _, r := range found {
		states[r.ID] = r.State
	}
	want := map[string]approval.State{pending.ID: approval.Lost, writing.Record.ID: approval.Unknown}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if _, err := b.Answer(t.Context(), reply(pending, allow)); !errors.Is(err, approval.ErrConflict) || !errors.Is(err, approval.ErrLost) {
		t.Errorf("an answer to what is lost: %v", err)
	}
	unknown, err := b.Read(t.Context(), local, writing.Record.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reconcile(t.Context(), local, unknown.ID, unknown.Revision, ""); !errors.Is(err, approval.ErrInvalid) {
		t.Errorf("reconciled without a reason: %v", err)
	}
	if _, err := b.Reconcile(t.Context(), local, unknown.ID, unknown.Revision, "the command did not run"); err != nil {
		t.Error(err)
	}
	// The old process notices that it is over as soon as it looks.
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	if a := <-pendingDone; a.err == nil && a.Outcome == approval.OutcomeAllow {
		t.Errorf("%+v", a)
	}
	if err := oldDB.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	done := b.ask(t.Context(), command("make"))
	r := b.pending()
	if err := b.Gate.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.err != nil || a.Outcome != approval.OutcomeDeny {
		t.Errorf("%+v, %v", a.Answer, a.err)
	}
	if got := b.state(r.ID); got != approval.Lost {
		t.Errorf("state %s", got)
	}
	if _, err := b.Ask(t.Context(), gate.Question{Request: command("make")}); !errors.Is(err, gate.ErrStopped) {
		t.Errorf("after Close: %v", err)
	}
}

// hasty is a ledger whose readers answer as soon as there is something to see.
type hasty struct {
	*ledger.DB
	answer func(approval.Record)
}

func (h hasty) Insert(ctx context.Context, r approval.Record) (approval.Record, error) {
	r, err := h.DB.Insert(ctx, r)
	if err == nil {
		h.answer(r)
	}
	return r, err
}

func TestAnswerThatComesBeforeTheWait(t *testing.T) {
	db, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	w := gate.NewWorkspace("/w", gate.Standing{Epoch: epoch(t, manual, noRm)})
	var g *gate.Gate
	h := hasty{db, func(r approval.Record) {
		if _, err := g.Answer(t.Context(), reply(r, allow)); err != nil {
			t.Error(err)
		}
	}}
	if g, _, err = gate.New(t.Context(), gate.Parts{Ledger: h, Workspaces: always{w, w}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if a, err := g.Ask(ctx, gate.Question{Request: command("make")}); err != nil || a.Outcome != approval.OutcomeAllow {
		t.Errorf("the answer is %+v, %v; want that it is allowed", a.Outcome, err)
	}
}

// What follows goes by time that passes, so it runs where time passes at once.

func TestNobodyAnswersInTime(t *testing.T) {
	e := epoch(t, "permissions: {mode: manual, request_timeout_seconds: 60}\n", noRm)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e)
		begin := time.Now()
		a, err := b.Ask(t.Context(), gate.Question{Request: command("make")})
		if err != nil || a.Outcome != approval.OutcomeDeny || a.Record.State != approval.Expired {
			t.Errorf("%+v, %v", a, err)
		}
		if waited := time.Since(begin).Round(100 * time.Millisecond); waited != 60*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestHarnessRequestsWaitTenMinutesAtMost(t *testing.T) {
	e := epoch(t, "permissions: {harness_mode: manual, request_timeout_seconds: 86400}\n", noRm)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e)
		request := command("make")
		request.Harness = &approval.Harness{Name: "codex"}
		begin := time.Now()
		if a, err := b.Ask(t.Context(), gate.Question{Request: request}); err != nil || a.Record.State != approval.Expired {
			t.Errorf("%+v, %v", a, err)
		}
		if waited := time.Since(begin).Round(time.Second); waited != 600*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestClockSetBackExtendsNothing(t *testing.T) {
	e := epoch(t, "permissions: {mode: manual, request_timeout_seconds: 60}\n", noRm)
	synctest.Test(t, func(t *testing.T) {
		b, set := openWithClock(t, e)
		begin := time.Now()
		done := b.ask(t.Context(), command("make"))
		r := b.pending()
		set(-time.Hour)
		a := <-done
		if a.err != nil || a.Outcome == approval.OutcomeAllow || a.Outcome == "" {
			t.Errorf("%+v, %v", a.Answer, a.err)
		}
		if waited := time.Since(begin).Round(time.Second); waited != 60*time.Second {
			t.Errorf("waited %s", waited)
		}
		if got := b.state(r.ID); got != approval.Cancelled {
			t.Errorf("state %s", got)
		}
	})
}

func TestClockSetForwardLosesWhatWaits(t *testing.T) {
	e := epoch(t, manual, noRm+echo)
	synctest.Test(t, func(t *testing.T) {
		b, set := openWithClock(t, e)
		done := b.ask(t.Context(), command("make"))
		b.pending()
		set(time.Hour)
		if a := <-done; a.err != nil || a.Outcome != approval.OutcomeDeny || a.Record.State != approval.Expired && a.Record.State != approval.Lost {
			t.Errorf("%+v, %v", a.Answer, a.err)
		}
		time.Sleep(15 * time.Second)
		if a, err := b.Ask(t.Context(), gate.Question{Request: command("echo hi")}); err != nil || a.Outcome != approval.OutcomeAllow {
			t.Errorf("afterwards: %+v, %v", a, err)
		}
	})
}

func TestHostThatDiesLosesWhatItAsked(t *testing.T) {
	e := epoch(t, manual, noRm)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e)
		request := command("make")
		request.Run = &approval.Run{ID: "run", Instance: "host-1"}
		a, err := b.Post(t.Context(), gate.Question{Request: request})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(25 * time.Second)
			if _, err := b.Renew(t.Context(), "host-1"); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.state(a.Record.ID); got != approval.Pending {
			t.Errorf("state %s while the host gives signs of life", got)
		}
		time.Sleep(32 * time.Second)
		if got := b.state(a.Record.ID); got != approval.Lost {
			t.Errorf("state %s", got)
		}
		if _, err := b.Renew(t.Context(), "host-1"); !errors.Is(err, approval.ErrLost) {
			t.Errorf("a sign of life that came too late: %v", err)
		}
		if _, err := b.Ask(t.Context(), gate.Question{Request: request}); !errors.Is(err, approval.ErrLost) {
			t.Errorf("a question in the old name: %v", err)
		}
	})
}

func TestHostThatWaitsIsAlive(t *testing.T) {
	e := epoch(t, manual, noRm)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e)
		request := command("make")
		request.Run = &approval.Run{ID: "run", Instance: "host-1"}
		done := b.ask(t.Context(), request)
		r := b.pending()
		time.Sleep(5 * time.Minute)
		if _, err := b.Answer(t.Context(), reply(r, allow)); err != nil {
			t.Fatal(err)
		}
		if a := <-done; a.err != nil || a.Outcome != approval.OutcomeAllow {
			t.Errorf("%+v, %v", a.Answer, a.err)
		}
	})
}

// A host that has its answer and leaves has left nothing open.
func TestHostThatLeavesWithItsAnswer(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	request := command("rm x")
	request.Run = &approval.Run{ID: "run", Instance: "host-1"}
	a, err := b.Ask(t.Context(), gate.Question{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	b.Sent(a)
	if err := b.End(t.Context(), "host-1"); err != nil {
		t.Fatal(err)
	}
	if got := b.state(a.Record.ID); got != approval.Resolved {
		t.Errorf("state %s", got)
	}
}
