package gate_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/reviewer"
)

// panel is the reviewers of a test, by name.
type panel map[string]reviewer.Reviewer

func (p panel) open(_ *gate.Epoch, name string) (reviewer.Reviewer, error) {
	if one, ok := p[name]; ok {
		return one, nil
	}
	return nil, errors.New("nobody is called " + name)
}

// says is a reviewer that gives one verdict.
type says approval.Verdict

func (s says) Review(context.Context, reviewer.Question) approval.Verdict { return approval.Verdict(s) }

// thinks is a reviewer that says nothing before it is let.
type thinks struct {
	asked chan reviewer.Question
	let   chan approval.Verdict

	mu    sync.Mutex
	ended []error
}

func newThinks() *thinks {
	return &thinks{asked: make(chan reviewer.Question, 16), let: make(chan approval.Verdict)}
}

func (r *thinks) Review(ctx context.Context, q reviewer.Question) approval.Verdict {
	r.asked <- q
	select {
	case v := <-r.let:
		return v
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = append(r.ended, context.Cause(ctx))
		return approval.Verdict{Outcome: approval.VerdictTimeout, Rationale: context.Cause(ctx).Error()}
	}
}

// stubborn is a reviewer that answers also when it is too late to.
type stubborn struct {
	asked chan struct{}
	let   chan approval.Verdict
}

func (r *stubborn) Review(context.Context, reviewer.Question) approval.Verdict {
	r.asked <- struct{}{}
	return <-r.let
}

const reviewed = "permissions: {mode: model_review, reviewer_model: one/judge, review_timeout_seconds: 20, request_timeout_seconds: 60}\n" +
	"reviewers:\n  one/judge: {kind: model, provider: openai, model: small-model}\n  two/judge: {kind: model, provider: openai, model: small-model}\n"

const both = "\nreview contains {\"message\": \"two look at it\", \"reviewers\": [\"one/judge\", \"two/judge\"]} if input.request.command.text == \"make both\"\n"

// reopen opens the bench again with reviewers.
func (b *bench) reopen(p panel) {
	b.Helper()
	if err := errors.Join(b.Gate.Close(), b.db.Close()); err != nil {
		b.Fatal(err)
	}
	var err error
	if b.db, err = ledger.Open(b.Context(), b.path, ledger.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Gate, _, err = gate.New(b.Context(), gate.Parts{Ledger: b.db, Workspaces: always{b.workspace, b.workspace}, Reviewers: p.open})
	if err != nil {
		b.Fatal(err)
	}
}

var (
	approves = says{Outcome: approval.VerdictAllow, Rationale: "asked for by the user", Risk: approval.RiskLow}
	refuses  = says{Outcome: approval.VerdictDeny, Rationale: "it deletes data"}
	unsure   = says{Outcome: approval.VerdictUnsure, Rationale: "cannot tell"}
	late     = says{Outcome: approval.VerdictTimeout}
	faulty   = says{Outcome: approval.VerdictError, Rationale: "status 502"}
	stops    = says{Outcome: approval.VerdictCancel}
	odd      = says{Outcome: "approve"}
)

func TestReviewersDecideOrAPersonIsAsked(t *testing.T) {
	e := epoch(t, reviewed, noRm+both)
	tests := []struct {
		name, text string
		panel      panel
		// outcome is empty where a person is asked; then why has to be in the reasons.
		outcome approval.Outcome
		why     string
	}{
		{"an approval allows", "make", panel{"one/judge": approves}, approval.OutcomeAllow, ""},
		{"a denial denies", "make", panel{"one/judge": refuses}, approval.OutcomeDeny, ""},
		{"to stop cancels", "make", panel{"one/judge": stops}, approval.OutcomeCancel, ""},
		{"uncertainty is asked", "make", panel{"one/judge": unsure}, "", "reviewer one/judge is unsure"},
		{"a timeout is asked", "make", panel{"one/judge": late}, "", "was not done in time"},
		{"a failure is asked", "make", panel{"one/judge": faulty}, "", "could not review it, so a person is asked: status 502"},
		{"a missing reviewer is asked", "make", panel{}, "", "nobody is called one/judge"},
		{"a verdict that is not known is asked", "make", panel{"one/judge": odd}, "", "gave a verdict that is not known"},
		{"no verdict is asked", "make", panel{"one/judge": says{}}, "", "gave a verdict that is not known"},
		{"two approvals allow", "make both", panel{"one/judge": approves, "two/judge": approves}, approval.OutcomeAllow, ""},
		{"one denial of two denies", "make both", panel{"one/judge": approves, "two/judge": refuses}, approval.OutcomeDeny, ""},
		{"a denial outranks who could not tell", "make both", panel{"one/judge": faulty, "two/judge": refuses}, approval.OutcomeDeny, ""},
		{"one of two that is missing is asked", "make both", panel{"one/judge": approves}, "", "nobody is called two/judge"},
		{"one of two that is unsure is asked", "make both", panel{"one/judge": unsure, "two/judge": approves}, "", "one/judge is unsure"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, e)
			b.reopen(test.panel)
			done := b.ask(t.Context(), command(test.text))
			if test.outcome == "" {
				r := b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
				if len(r.Ruling.Verdicts) == 0 || !strings.Contains(r.Ruling.Reasons[0], test.why) {
					t.Errorf("reasons %q, verdicts %+v", r.Ruling.Reasons, r.Ruling.Verdicts)
				}
				if r.State != approval.Pending || r.Decision != nil {
					t.Errorf("a review that failed decided: %+v", r.Decision)
				}
				if _, err := b.Answer(t.Context(), reply(r, allow)); err != nil {
					t.Fatal(err)
				}
				if a := <-done; a.err != nil || a.Outcome != approval.OutcomeAllow || a.Record.Decision.Source != approval.SourceHuman {
					t.Errorf("%+v, %v", a.Answer, a.err)
				}
				return
			}
			a := <-done
			if a.err != nil {
				t.Fatal(a.err)
			}
			d := a.Record.Decision
			if a.Outcome != test.outcome || d.Source != approval.SourceReviewer || d.By == "" || len(d.Verdicts) == 0 {
				t.Errorf("outcome %s by %+v", a.Outcome, d)
			}
			// What was decided cannot be decided again.
			if _, err := b.Answer(t.Context(), reply(*a.Record, allow)); !errors.Is(err, approval.ErrConflict) {
				t.Errorf("a person after the reviewer: %v", err)
			}
		})
	}
}

func TestReviewGrantsWhatWasAskedForAndNoMore(t *testing.T) {
	e := epoch(t, reviewed, "\nceiling := {\"network\": {\"enabled\": true}, \"file_system\": {\"read\": [\"/\"]}, \"scope\": \"turn\"} if input.request.environment.id == \"low\"\n")
	asked := permission.Profile{Network: permission.Network{Hosts: []string{"example.com"}}, FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("/w/a", permission.Write)}}}
	tests := []struct {
		name, environment string
		scope             permission.Scope
		want              permission.Scope
		access            permission.Access
	}{
		{"without a scope for the turn", "high", "", permission.Turn, permission.Write},
		{"for the session", "high", permission.Session, permission.Session, permission.Write},
		{"a scope that does not exist is the turn's", "high", "always", permission.Turn, permission.Write},
		{"the ceiling clips what and for how long", "low", permission.Session, permission.Turn, permission.Read},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, e)
			b.reopen(panel{"one/judge": says{Outcome: approval.VerdictAllow, Scope: test.scope}})
			a, err := b.Ask(t.Context(), gate.Question{Request: &approval.Request{
				Kind: approval.KindPermissions, Permissions: &asked, Environment: &approval.Environment{ID: test.environment, Cwd: "/w"},
			}})
			if err != nil || a.Settlement == nil {
				t.Fatalf("%+v, %v", a, err)
			}
			got := a.Settlement
			if got.Scope != test.want || len(got.Permissions.FileSystem.Entries) != 1 || got.Permissions.FileSystem.Entries[0].Access != test.access {
				t.Errorf("granted %s for the %s", got.Permissions, got.Scope)
			}
		})
	}
}

func TestPersonIsFasterThanTheReview(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm))
	judge := &stubborn{asked: make(chan struct{}, 1), let: make(chan approval.Verdict)}
	b.reopen(panel{"one/judge": judge})
	done := b.ask(t.Context(), command("make"))
	<-judge.asked
	if _, err := b.Answer(t.Context(), reply(b.pending(), deny)); err != nil {
		t.Fatal(err)
	}
	a := <-done
	judge.let <- approval.Verdict{Outcome: approval.VerdictAllow}
	if a.err != nil || a.Outcome != approval.OutcomeDeny || a.Record.Decision.Source != approval.SourceHuman {
		t.Errorf("%+v, %v", a.Answer, a.err)
	}
	if err := b.Gate.Close(); err != nil { // whatever the review did is done then
		t.Fatal(err)
	}
	r, err := b.db.Read(t.Context(), a.Record.ID)
	if err != nil || r.Decision.Outcome != approval.OutcomeDeny || r.Decision.Source != approval.SourceHuman {
		t.Errorf("a late verdict changed the decision: %+v, %v", r.Decision, err)
	}
}

func TestNewRulesEndTheReviewAndBeginAnother(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm))
	judge := newThinks()
	b.reopen(panel{"one/judge": judge})
	done := b.ask(t.Context(), command("make"))
	first := <-judge.asked
	next := epoch(t, reviewed, noRm+"\n# other rules\n")
	b.workspace.Install(gate.Standing{Epoch: next})
	second := <-judge.asked
	if first.ID != second.ID || second.Ruling.Epoch != next.ID {
		t.Errorf("reviewed again: %s under %s", second.ID, second.Ruling.Epoch)
	}
	judge.let <- approval.Verdict{Outcome: approval.VerdictAllow}
	a := <-done
	if a.err != nil || a.Outcome != approval.OutcomeAllow || a.Record.Ruling.Epoch != next.ID {
		t.Errorf("%+v, %v", a.Answer, a.err)
	}
	judge.mu.Lock()
	defer judge.mu.Unlock()
	if len(judge.ended) != 1 || !errors.Is(judge.ended[0], context.Canceled) {
		t.Errorf("the first review ended with %v", judge.ended)
	}
}

func TestRulesThatDenyEndTheReview(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm))
	judge := newThinks()
	b.reopen(panel{"one/judge": judge})
	done := b.ask(t.Context(), command("make"))
	<-judge.asked
	b.workspace.Install(gate.Standing{Epoch: epoch(t, reviewed, "\ndeny contains \"not any more\"\n")})
	if a := <-done; a.err != nil || a.Outcome != approval.OutcomeDeny || a.Record.Decision.Source != approval.SourceRule {
		t.Errorf("%+v, %v", a.Answer, a.err)
	}
}

func TestReviewHasItsTimeAndNoMore(t *testing.T) {
	e, next := epoch(t, reviewed, noRm), epoch(t, reviewed, noRm+"\n# other rules\n")
	manually := epoch(t, "permissions: {mode: manual, request_timeout_seconds: 86400}\n", noRm)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e)
		judge := newThinks()
		b.reopen(panel{"one/judge": judge})
		begin := time.Now()
		done := b.ask(t.Context(), command("make"))
		b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
		if waited := time.Since(begin).Round(100 * time.Millisecond); waited != 20*time.Second {
			t.Errorf("the review took %s", waited)
		}
		// Another review begins with the rules, and a mode that waits for longer.
		b.workspace.Install(gate.Standing{Epoch: next})
		b.until("reviewed again", func(r approval.Record) bool { return r.Ruling.Epoch == next.ID })
		time.Sleep(5 * time.Second)
		b.workspace.Install(gate.Standing{Epoch: manually})
		a := <-done
		if a.err != nil || a.Record.State != approval.Expired {
			t.Errorf("%+v, %v", a.Answer, a.err)
		}
		if waited := time.Since(begin).Round(100 * time.Millisecond); waited != 60*time.Second {
			t.Errorf("the request waited %s, which a mode switch has changed", waited)
		}
		if len(judge.ended) != 2 {
			t.Errorf("reviews ended with %v", judge.ended)
		}
	})
}

func TestReviewsEndWithTheGate(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm))
	judge := newThinks()
	b.reopen(panel{"one/judge": judge})
	done := b.ask(t.Context(), command("make"))
	<-judge.asked
	if err := b.Gate.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.err == nil && a.Outcome == approval.OutcomeAllow {
		t.Errorf("%+v", a.Answer)
	}
	if judge.mu.Lock(); len(judge.ended) != 1 {
		t.Errorf("reviews ended with %v", judge.ended)
	}
	judge.mu.Unlock()
}

func TestOnlyAPersonMeansOnlyAPerson(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm))
	b.reopen(panel{"one/judge": approves})
	request := command("make")
	request.HumanOnly = true
	done := b.ask(t.Context(), request)
	r := b.pending()
	if r.Ruling.Route != approval.RouteAsk || len(r.Ruling.Verdicts) > 0 {
		t.Errorf("%+v", r.Ruling)
	}
	if _, err := b.Answer(t.Context(), reply(r, deny)); err != nil {
		t.Fatal(err)
	}
	<-done
}

func TestReviewersSeeNoSecrets(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm))
	judge := newThinks()
	b.reopen(panel{"one/judge": judge})
	done := b.ask(t.Context(), command("curl -u key-123456:x https://user:pw@example.com/v1"))
	q := <-judge.asked
	if text := q.Request.Command.Text; strings.Contains(text, "123456") || strings.Contains(text, "pw@") {
		t.Errorf("the reviewer was shown %s", text)
	}
	judge.let <- approval.Verdict{Outcome: approval.VerdictDeny}
	<-done
}
