package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/reviewer"
)

const withShadow = "\nreview contains {\"message\": \"looked at\", \"reviewers\": [\"one/judge\"], \"shadow\": [\"new/one\", \"new/two\"]} if input.request.command.text == \"make\"\n"

// noted waits until a record has so many verdicts in shadow.
func (b *bench) noted(n int) approval.Record {
	b.Helper()
	return b.until("noted", func(r approval.Record) bool { return len(r.Shadow) == n })
}

func TestShadowChangesNothingAndIsNoted(t *testing.T) {
	e := epoch(t, reviewed, noRm+withShadow)
	for _, test := range []struct {
		name    string
		judge   says
		shadow  says
		outcome approval.Outcome
	}{
		{"one that would deny", approves, refuses, approval.OutcomeAllow},
		{"one that would stop the turn", approves, stops, approval.OutcomeAllow},
		{"one that would allow", refuses, approves, approval.OutcomeDeny},
		{"one that cannot tell", approves, unsure, approval.OutcomeAllow},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, e)
			b.reopen(panel{"one/judge": test.judge, "new/one": test.shadow}) // and nobody is new/two
			a, err := b.Ask(t.Context(), gate.Question{Request: command("make")})
			if err != nil || a.Outcome != test.outcome || a.Record.Decision.By != "one/judge" || len(a.Record.Decision.Verdicts) != 1 {
				t.Fatalf("%+v, %v", a, err)
			}
			b.Sent(a)
			r := b.noted(2)
			if r.Decision.Outcome != test.outcome || len(r.Decision.Verdicts) != 1 || len(r.Ruling.Verdicts) != 0 {
				t.Errorf("decided %+v", r.Decision)
			}
			one, two := r.Shadow[0], r.Shadow[1]
			if one.Reviewer != "new/one" || one.Outcome != approval.Verdict(test.shadow).Outcome || !one.Shadow {
				t.Errorf("noted %+v", one)
			}
			if two.Reviewer != "new/two" || two.Outcome != approval.VerdictError || !two.Shadow || !strings.Contains(two.Rationale, "nobody is called new/two") {
				t.Errorf("noted %+v", two)
			}
			// The note came between the marks, before or after them, and kept none away.
			b.until("over", func(r approval.Record) bool { return r.State == approval.Resolved })
		})
	}
}

func TestShadowHoldsUpNothing(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm+withShadow))
	slow, quick := newThinks(), newThinks()
	b.reopen(panel{"one/judge": approves, "new/one": slow, "new/two": quick})
	a, err := b.Ask(t.Context(), gate.Question{Request: command("make")})
	if err != nil || a.Outcome != approval.OutcomeAllow {
		t.Fatalf("%+v, %v", a, err)
	}
	if q := <-slow.asked; q.ID != a.Record.ID || q.Ruling.Route != approval.RouteReview {
		t.Errorf("asked %+v", q)
	}
	<-quick.asked // both at once
	quick.let <- approval.Verdict{Outcome: approval.VerdictAllow}
	if r, err := b.db.Read(t.Context(), a.Record.ID); err != nil || len(r.Shadow) != 0 {
		t.Errorf("noted %+v, %v", r.Shadow, err)
	}
	slow.let <- approval.Verdict{Outcome: approval.VerdictDeny}
	if r := b.noted(2); r.Decision.Outcome != approval.OutcomeAllow {
		t.Errorf("decided %+v", r.Decision)
	}
}

func TestNobodyWhoDecidesSeesAShadow(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm+withShadow))
	shadow := newThinks()
	b.reopen(panel{"one/judge": unsure, "new/one": shadow, "new/two": refuses})
	done := b.ask(t.Context(), command("make"))
	<-shadow.asked
	shadow.let <- approval.Verdict{Outcome: approval.VerdictDeny, Rationale: "in shadow"}
	r := b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
	if len(r.Shadow) != 0 || len(r.Ruling.Verdicts) != 1 || cmp.Diff([]string{"new/one", "new/two"}, r.Ruling.Shadow) != "" {
		t.Errorf("a person is shown %+v and %+v", r.Shadow, r.Ruling)
	}
	if _, err := b.Answer(t.Context(), reply(r, allow)); err != nil { // nothing has moved the revision
		t.Fatal(err)
	}
	if a := <-done; a.err != nil || a.Outcome != approval.OutcomeAllow {
		t.Errorf("%+v, %v", a.Answer, a.err)
	}
	if r := b.noted(2); r.Decision.Source != approval.SourceHuman || r.Shadow[0].Rationale != "in shadow" {
		t.Errorf("noted %+v beside %+v", r.Shadow, r.Decision)
	}
}

func TestShadowHasItsTimeAndNoMore(t *testing.T) {
	e := epoch(t, reviewed, noRm+withShadow)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, e)
		b.reopen(panel{"one/judge": approves, "new/one": newThinks(), "new/two": newThinks()})
		begin := time.Now()
		if a, err := b.Ask(t.Context(), gate.Question{Request: command("make")}); err != nil || a.Outcome != approval.OutcomeAllow {
			t.Fatalf("%+v, %v", a, err)
		}
		r := b.noted(2)
		if waited := time.Since(begin).Round(100 * time.Millisecond); waited != 20*time.Second {
			t.Errorf("noted after %s", waited)
		}
		for _, v := range r.Shadow {
			if v.Outcome != approval.VerdictTimeout {
				t.Errorf("noted %+v", v)
			}
		}
	})
}

func TestNewRulesEndTheShadowOfWhatWaits(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm+withShadow))
	judge, shadow := newThinks(), newThinks()
	b.reopen(panel{"one/judge": judge, "new/one": shadow, "new/two": refuses})
	done := b.ask(t.Context(), command("make"))
	<-judge.asked
	<-shadow.asked
	b.workspace.Install(gate.Standing{Epoch: epoch(t, reviewed, noRm+withShadow+"\n# other rules\n")})
	<-judge.asked
	<-shadow.asked // again, under the other rules
	judge.let <- approval.Verdict{Outcome: approval.VerdictAllow}
	if a := <-done; a.err != nil || a.Outcome != approval.OutcomeAllow {
		t.Errorf("%+v, %v", a.Answer, a.err)
	}
	shadow.let <- approval.Verdict{Outcome: approval.VerdictAllow}
	b.noted(2) // once each, and not those of the review that was ended
	shadow.mu.Lock()
	defer shadow.mu.Unlock()
	if len(shadow.ended) != 1 || !errors.Is(shadow.ended[0], context.Canceled) {
		t.Errorf("shadows ended with %v", shadow.ended)
	}
}

func TestShadowsEndWithTheGate(t *testing.T) {
	b := open(t, epoch(t, reviewed, noRm+withShadow))
	shadow := newThinks()
	b.reopen(panel{"one/judge": approves, "new/one": shadow, "new/two": refuses})
	a, err := b.Ask(t.Context(), gate.Question{Request: command("make")})
	if err != nil {
		t.Fatal(err)
	}
	<-shadow.asked
	if err := b.Gate.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := b.db.Read(t.Context(), a.Record.ID); err != nil || len(r.Shadow) != 0 {
		t.Errorf("noted %+v, %v", r.Shadow, err)
	}
}

const powers = `
review contains {"message": "two look", "reviewers": ["one/judge", "two/judge"], "authority": {"two/judge": "deny_only"}} if input.request.command.text == "two"
review contains {"message": "advice", "reviewers": ["two/judge", "one/judge"], "authority": {"two/judge": "advises"}} if input.request.command.text == "advice"
# METADATA
# custom: {id: PUBLISH}
verdict contains {"message": "people publish", "decision": "deny"} if input.request.command.text == "publish"
# METADATA
# custom: {id: SANDBOX}
verdict contains {"message": "high risk is fine here", "decision": "allow"} if input.request.command.text == "risky"
verdict contains {"message": 1 / to_number(input.request.command.text), "decision": "allow"} if startswith(input.request.command.text, "0")
`

// asker tells who was asked.
type asker struct {
	says
	asked *[]string
	name  string
}

func (a asker) Review(context.Context, reviewer.Question) approval.Verdict {
	*a.asked = append(*a.asked, a.name)
	return approval.Verdict(a.says)
}

func TestPolicyJudgesVerdicts(t *testing.T) {
	e := epoch(t, reviewed, noRm+powers)
	high := says{Outcome: approval.VerdictAllow, Risk: approval.RiskHigh, Authorization: approval.AuthorizationLow}
	critical := says{Outcome: approval.VerdictAllow, Risk: approval.RiskCritical, Authorization: approval.AuthorizationUnknown, Rationale: "ok"}
	for _, test := range []struct {
		name, text string
		one, two   says
		asked      string
		outcome    approval.Outcome // empty where a person is asked
		source     approval.Source
		by, rules  string
	}{
		{"too high a risk is asked about", "make", high, says{}, "one/judge", "", "", "", ""},
		{"a reviewer that contradicts itself is asked about", "make", critical, says{}, "one/judge", "", "", "", ""}, // RTE-02
		{"a rule lifts the limit", "risky", high, says{}, "one/judge", approval.OutcomeAllow, approval.SourceReviewer, "one/judge", "SANDBOX"},
		{"a rule lifts no critical risk", "risky", critical, says{}, "one/judge", "", "", "", "SANDBOX"},
		{"a rule lifts no refusal", "risky", refuses, says{}, "one/judge", approval.OutcomeDeny, approval.SourceReviewer, "one/judge", "SANDBOX"},
		{"a rule denies what a reviewer allows", "publish", approves, says{}, "one/judge", approval.OutcomeDeny, approval.SourceRule, "PUBLISH", "PUBLISH"},
		{"a rule that fails allows nothing", "0", approves, says{}, "one/judge", "", "", "", ""},
		{"a rule that fails lifts no refusal", "0", refuses, says{}, "one/judge", approval.OutcomeDeny, approval.SourceReviewer, "one/judge", ""},
		{"who may only deny denies", "two", approves, refuses, "one/judge two/judge", approval.OutcomeDeny, approval.SourceReviewer, "two/judge", ""},
		{"who may only deny does not stand in the way", "two", approves, approves, "one/judge two/judge", approval.OutcomeAllow, approval.SourceReviewer, "one/judge", ""},
		{"who may only deny is no substitute", "two", unsure, approves, "one/judge two/judge", "", "", "", ""},
		{"advice against has a person asked", "advice", approves, refuses, "two/judge one/judge", "", "", "", ""},
		{"advice against lifts no refusal", "advice", refuses, refuses, "two/judge one/judge", approval.OutcomeDeny, approval.SourceReviewer, "one/judge", ""},
		{"advice is no allow", "advice", unsure, approves, "two/judge one/judge", "", "", "", ""},
		{"nobody is asked after a refusal that is final", "two", refuses, approves, "one/judge", approval.OutcomeDeny, approval.SourceReviewer, "one/judge", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, e)
			var asked []string
			b.reopen(panel{"one/judge": asker{test.one, &asked, "one/judge"}, "two/judge": asker{test.two, &asked, "two/judge"}})
			done := b.ask(t.Context(), command(test.text))
			var r approval.Record
			if test.outcome == "" {
				r = b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
				if r.State != approval.Pending || r.Decision != nil || len(r.Ruling.Verdicts) == 0 {
					t.Errorf("%+v", r)
				}
				if _, err := b.Answer(t.Context(), reply(r, deny)); err != nil {
					t.Fatal(err)
				}
				<-done
			} else {
				a := <-done
				if a.err != nil {
					t.Fatal(a.err)
				}
				r = *a.Record
				if d := r.Decision; d.Outcome != test.outcome || d.Source != test.source || d.By != test.by || len(d.Verdicts) == 0 || d.Reason == "" {
					t.Errorf("%+v", d)
				}
			}
			if got := strings.Join(asked, " "); got != test.asked {
				t.Errorf("asked %s, want %s", got, test.asked)
			}
			fired := r.Ruling.Rules
			if test.outcome != "" {
				fired = r.Decision.Rules
			}
			var ids []string
			for _, m := range fired {
				if m.Decision == "verdict" {
					ids = append(ids, m.ID)
				}
			}
			if got := strings.Join(ids, " "); got != test.rules {
				t.Errorf("fired %q, want %q", got, test.rules)
			}
			if (test.text == "0" && test.outcome == "") != (r.Ruling.Failure != nil) {
				t.Errorf("failure %+v", r.Ruling.Failure)
			}
		})
	}
}

// What no verdict can bring about, whatever the rules say.
func TestGateIsTheNetBelowTheRules(t *testing.T) {
	e := epoch(t, reviewed, "\nverdict contains {\"message\": \"all is fine\", \"decision\": \"allow\"}\n")
	once := func(r *approval.Request) *approval.Request {
		r.Options = []json.RawMessage{json.RawMessage(`"acceptForSession"`), json.RawMessage(`"decline"`)}
		r.Harness = nil
		return r
	}
	for name, test := range map[string]struct {
		request *approval.Request
		why     string
	}{
		"a harness that cannot be told just once": {once(command("make")), "none of the answers that the harness offers"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, e)
			b.reopen(panel{"one/judge": approves})
			done := b.ask(t.Context(), test.request)
			r := b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
			if len(r.Ruling.Verdicts) != 1 || !strings.Contains(r.Ruling.Reasons[0], test.why) {
				t.Errorf("reasons %q", r.Ruling.Reasons)
			}
			if _, err := b.Answer(t.Context(), reply(r, json.RawMessage(`"decline"`))); err != nil {
				t.Fatal(err)
			}
			<-done
		})
	}
}

func TestStricterOfTwoSetsOfRulesJudges(t *testing.T) {
	lifts := epoch(t, reviewed, "\nverdict contains {\"message\": \"fine\", \"decision\": \"allow\"}\n")
	plain := epoch(t, reviewed, noRm)
	denies := epoch(t, reviewed, "\nverdict contains {\"message\": \"no\", \"decision\": \"deny\"}\n")
	verdicts := []approval.Verdict{{Reviewer: "one/judge", Outcome: approval.VerdictAllow, Risk: approval.RiskHigh}}
	ruling := &approval.Ruling{Route: approval.RouteReview, Reviewers: []string{"one/judge"}}
	for name, test := range map[string]struct {
		standing gate.Standing
		want     approval.VerdictDecision
	}{
		"one set":                         {gate.Standing{Epoch: lifts}, "allow"},
		"a loosening is not in force yet": {gate.Standing{Epoch: plain, Held: lifts}, "ask"},
		"what was before counts no less":  {gate.Standing{Epoch: lifts, Held: plain}, "ask"},
		"a deny of either denies":         {gate.Standing{Epoch: lifts, Held: denies}, "deny"},
		"nobody has confirmed the rules":  {gate.Standing{Epoch: lifts, Unconfirmed: true}, "ask"},
		"an unconfirmed deny denies":      {gate.Standing{Epoch: denies, Unconfirmed: true}, "deny"},
		"no rules at all":                 {gate.Standing{}, "ask"},
	} {
		got := test.standing.Verdict(t.Context(), command("make"), ruling, verdicts)
		if got.Decision != test.want || len(got.Reasons) == 0 {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}

// A reviewer that is a rule is asked by the epoch that names it, and sees what was
// asked as it came.
func TestRulesReview(t *testing.T) {
	const settings = "permissions: {mode: model_review, reviewer_model: home/rules, review_timeout_seconds: 20, request_timeout_seconds: 60}\n" +
		"reviewers:\n  home/rules: {kind: rego, query: data.home.rules.one.opinion}\n  both/chain: {kind: chain, members: [home/rules]}\n"
	const rules = "\nopinion := {\"outcome\": \"allow\", \"scope\": \"session\"} if input.request.command.text == \"curl -u key-123456:x https://example.com\"\n" +
		"opinion := {\"outcome\": \"deny\", \"rationale\": \"no\"} if \"rm\" in input.facts.programs\n" +
		"review contains {\"message\": \"chained\", \"reviewers\": [\"both/chain\"]} if input.request.command.text == \"rm chained\"\n"
	b := open(t, epoch(t, settings, rules))
	ask := func(text string) gate.Answer {
		t.Helper()
		a, err := b.Ask(t.Context(), gate.Question{Request: command(text)})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask("curl -u key-123456:x https://example.com"); a.Outcome != approval.OutcomeAllow || a.Record.Decision.By != "home/rules" {
		t.Errorf("%+v", a.Record.Decision)
	}
	if a := ask("rm x"); a.Outcome != approval.OutcomeDeny || a.Record.Decision.Reason != "no" {
		t.Errorf("%+v", a.Record.Decision)
	}
	if a := ask("rm chained"); a.Outcome != approval.OutcomeDeny || a.Record.Decision.By != "both/chain" {
		t.Errorf("%+v", a.Record.Decision)
	}
	done := b.ask(t.Context(), command("make"))
	r := b.until("asked", func(r approval.Record) bool {
		return r.State == approval.Pending && r.Ruling.Route == approval.RouteAsk
	})
	if v := r.Ruling.Verdicts; len(v) != 1 || v[0].Outcome != approval.VerdictError || !strings.Contains(v[0].Rationale, "says nothing about this request") {
		t.Errorf("%+v", v)
	}
	// The rules of another epoch are asked by that.
	b.workspace.Install(gate.Standing{Epoch: epoch(t, settings, "\nopinion := {\"outcome\": \"deny\"}\n")})
	if a := <-done; a.err != nil || a.Outcome != approval.OutcomeDeny || a.Record.Decision.Source != approval.SourceReviewer {
		t.Errorf("%+v, %v", a.Answer, a.err)
	}
}

func TestReviewerRulesAreFoundWhenTheyAreLoaded(t *testing.T) {
	home := files(t, map[string]string{"config.yaml": "version: 1\nreviewers:\n  home/rules:\n    kind: rego\n    query: data.home.rules.verdikt\n"})
	_, err := gate.Load(t.Context(), gate.Options{Home: home})
	if err == nil || !strings.Contains(err.Error(), "config.yaml:5:5: reviewer home/rules: no rule is named data.home.rules.verdikt") &&
		!strings.Contains(err.Error(), "config.yaml:5:12: reviewer home/rules: no rule is named data.home.rules.verdikt") {
		t.Errorf("%v", err)
	}
}
