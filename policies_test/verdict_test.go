package policies_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// said is a verdict in short: reviewer, outcome, and perhaps risk, authorization and
// authority by their names.
func said(text string) approval.Verdict {
	words := strings.Fields(text)
	v := approval.Verdict{Reviewer: words[0], Outcome: approval.VerdictOutcome(words[1]), Rationale: "because"}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "risk":
			v.Risk = approval.Risk(value)
		case "wanted":
			v.Authorization = approval.Authorization(value)
		case "may":
			v.Authority = approval.Authority(value)
		case "shadow":
			v.Shadow = true
		default:
			panic("what is " + word)
		}
	}
	return v
}

// reviewedBy is a ruling that has asked those who spoke, and the others.
func reviewedBy(verdicts []approval.Verdict, others ...string) *approval.Ruling {
	r := &approval.Ruling{Route: approval.RouteReview, Effects: []approval.Effect{approval.EffectProcess}}
	for _, v := range verdicts {
		if !v.Shadow {
			r.Reviewers = append(r.Reviewers, v.Reviewer)
		}
	}
	r.Reviewers = append(r.Reviewers, others...)
	return r
}

func judge(t testing.TB, p *rego.Policy, verdicts ...string) approval.VerdictRuling {
	t.Helper()
	var all []approval.Verdict
	for _, v := range verdicts {
		all = append(all, said(v))
	}
	return p.Verdict(t.Context(), bash("make", ""), reviewedBy(all), all)
}

// Each line is one limit of those that hold where no rule speaks.
func TestDefaultLimitsOfVerdicts(t *testing.T) {
	t.Parallel()
	p := load(t, workspace(t, "package rules.none\n"))
	tests := []struct {
		name     string
		verdicts []string
		want     approval.VerdictDecision
		by       string
		reason   string
	}{
		{"no verdict is asked", nil, "ask", "", "no reviewer is named"},
		{"low risk is allowed", []string{"a allow risk=low"}, "allow", "a", "because"},
		{"medium risk is allowed", []string{"a allow risk=medium wanted=unknown"}, "allow", "a", "because"},
		{"a reviewer that states no risk is taken at its word", []string{"a allow"}, "allow", "a", "because"},
		{"high risk is asked", []string{"a allow risk=high"}, "ask", "", "reviewer a would allow this at a high risk, with authorization unknown"},
		{"high risk with authorization unknown is asked", []string{"a allow risk=high wanted=unknown"}, "ask", "", "authorization unknown"},
		{"high risk with authorization low is asked", []string{"a allow risk=high wanted=low"}, "ask", "", "authorization low"},
		{"high risk with authorization medium is asked", []string{"a allow risk=high wanted=medium"}, "ask", "", "authorization medium"},
		{"high risk with authorization high is allowed", []string{"a allow risk=high wanted=high"}, "allow", "a", "because"},
		{"high risk with an authorization that is not known is asked", []string{"a allow risk=high wanted=HIGH"}, "ask", "", "authorization HIGH"},
		{"critical risk is asked", []string{"a allow risk=critical wanted=unknown"}, "ask", "", "critical risk"},
		{"critical risk is asked whatever the authorization", []string{"a allow risk=critical wanted=high"}, "ask", "", "critical risk"},
		{"a risk that is not known is asked", []string{"a allow risk=none wanted=high"}, "ask", "", "a risk that is not known"},
		{"a deny denies", []string{"a deny"}, "deny", "a", "because"},
		{"a deny at no risk denies", []string{"a deny risk=low wanted=high"}, "deny", "a", "because"},
		{"a cancel cancels", []string{"a cancel"}, "cancel", "a", "because"},
		{"unsure is asked", []string{"a unsure risk=low wanted=high"}, "ask", "", "reviewer a is unsure, so a person is asked: because"},
		{"a timeout is asked", []string{"a timeout"}, "ask", "", "was not done in time"},
		{"an error is asked", []string{"a error"}, "ask", "", "could not review it"},
		{"a word that is none is asked", []string{"a approve"}, "ask", "", "gave a verdict that is not known"},
		{"another case is another word", []string{"a Allow"}, "ask", "", "gave a verdict that is not known"},

		{"two allows allow", []string{"a allow risk=low", "b allow risk=medium"}, "allow", "b", "because"},
		{"one deny of two denies", []string{"a allow", "b deny"}, "deny", "b", "because"},
		{"a deny outranks who could not tell", []string{"a error", "b deny"}, "deny", "b", "because"},
		{"a deny outranks too high a risk", []string{"a allow risk=critical", "b deny"}, "deny", "b", "because"},
		{"one unsure of two is asked", []string{"a unsure", "b allow"}, "ask", "", "reviewer a is unsure"},
		{"one high risk of two is asked", []string{"a allow risk=low", "b allow risk=high"}, "ask", "", "reviewer b would allow this at a high risk"},
		{"authorization is that of the same reviewer", []string{"a allow wanted=high", "b allow risk=high"}, "ask", "", "reviewer b"},

		{"who may only deny denies", []string{"a deny may=deny_only"}, "deny", "a", "because"},
		{"who may only deny does not allow", []string{"a allow may=deny_only"}, "ask", "", "no reviewer that may allow was asked"},
		{"who may only deny does not keep another from allowing", []string{"a allow", "b allow may=deny_only"}, "allow", "a", "because"},
		{"who may only deny and cannot tell is asked", []string{"a allow", "b error may=deny_only"}, "ask", "", "reviewer b could not review it"},
		{"who may only deny sees too high a risk", []string{"a allow", "b allow risk=high may=deny_only"}, "ask", "", "reviewer b"},
		{"who advises does not deny", []string{"a allow", "b deny may=advises"}, "ask", "", "reviewer b only advises, and would not allow this, so a person is asked: because"},
		{"who advises does not cancel", []string{"b cancel may=advises"}, "ask", "", "reviewer b only advises"},
		{"who advises does not allow", []string{"b allow may=advises"}, "ask", "", "no reviewer that may allow was asked"},
		{"who advises to allow keeps nobody from it", []string{"b allow may=advises", "a allow"}, "allow", "a", "because"},
		{"a deny beside advice denies", []string{"b allow may=advises", "a deny"}, "deny", "a", "because"},
		{"an authority that is not known allows nothing", []string{"a allow may=all"}, "ask", "", "no reviewer that may allow was asked"},
		{"an authority that is not known may deny", []string{"a deny may=all"}, "deny", "a", "because"},

		{"what is said in shadow denies nothing", []string{"a allow", "s deny shadow"}, "allow", "a", "because"},
		{"what is said in shadow allows nothing", []string{"s allow shadow"}, "ask", "", "no reviewer is named"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := judge(t, p, test.verdicts...)
			if got.Failure != nil {
				t.Fatalf("policy could not judge: %+v", *got.Failure)
			}
			if got.Decision != test.want || got.By != test.by || got.Rule != "" || len(got.Reasons) == 0 || !strings.Contains(got.Reasons[0], test.reason) {
				t.Errorf("%s by %q %q for %q, want %s by %q for %q", got.Decision, got.By, got.Rule, got.Reasons, test.want, test.by, test.reason)
			}
		})
	}
	t.Run("a reviewer that was named and did not speak is asked", func(t *testing.T) {
		verdicts := []approval.Verdict{said("a allow")}
		got := p.Verdict(t.Context(), bash("make", ""), reviewedBy(verdicts, "b"), verdicts)
		if got.Decision != "ask" || got.Failure != nil || got.Reasons[0] != "not every reviewer was asked, so a person is" {
			t.Errorf("%+v", got)
		}
	})
}

const verdictRules = `# METADATA
# title: Verdicts of this workspace
package rules.verdicts

# METADATA
# title: Nothing is published at any risk
# custom: {id: V-DENY, severity: high}
verdict contains {"message": "publishing is for people", "decision": "deny"} if {
	input.request.command.text == "npm publish"
	some v in input.verdicts
	v.risk_level != "low"
}

# METADATA
# title: Migrations
# custom: {id: V-ASK}
verdict contains {"message": "a person looks at migrations", "decision": "ask"} if {
	input.request.command.text == "make migrate"
}

# METADATA
# title: The sandbox
# custom: {id: V-ALLOW}
verdict contains {"message": "high risk is fine in the sandbox", "decision": "allow"} if {
	input.environment.cwd == "/sandbox"
}

# METADATA
# title: Tried out
# custom: {id: V-SHADOW, mode: shadow}
verdict contains {"message": "would be denied", "decision": "deny"} if input.environment.cwd == "/shadow"

# METADATA
# title: Warned of
# custom: {id: V-WARN, mode: warn}
verdict contains {"message": "is warned of", "decision": "ask"} if input.environment.cwd == "/shadow"

# METADATA
# title: What the ruling was
# custom: {id: V-RULING}
verdict contains {"message": "of this kind people decide", "decision": "ask", "id": "V-OWN"} if {
	input.ruling.route == "review"
	"network" in input.ruling.effects
	"rego/risk" in input.ruling.reviewers
}

# METADATA
# title: Values that say nothing
# custom: {id: V-ODD}
verdict contains value if {
	some text, value in {
		"odd text": "deny",
		"odd word": {"message": "m", "decision": "maybe"},
		"odd allow": {"decision": "allow"},
		"odd deny": {"decision": "deny"},
		"odd type": {"message": 1, "decision": "allow"},
	}
	input.request.command.text == text
}
`

func TestVerdictRulesCombine(t *testing.T) {
	t.Parallel()
	src := workspace(t, verdictRules)
	trusted := load(t, src)
	src.Layers[0].Untrusted = true
	untrusted := load(t, src)
	tests := []struct {
		name, text, cwd string
		verdicts        []string
		want            approval.VerdictDecision
		by, rule        string
		rules, observed []string
		untrusted       bool
	}{
		{"a rule denies what reviewers allow", "npm publish", "", []string{"a allow risk=medium"}, "deny", "", "V-DENY", []string{"V-DENY"}, nil, false},
		{"a near miss leaves it to the reviewers", "npm publish", "", []string{"a allow risk=low"}, "allow", "a", "", nil, nil, false},
		{"a missing risk leaves the rule silent", "npm publish", "", []string{"a allow"}, "allow", "a", "", nil, nil, false},
		{"a reviewer's deny comes before a rule's", "npm publish", "", []string{"a deny risk=high"}, "deny", "a", "", []string{"V-DENY"}, nil, false},
		{"a rule asks about what reviewers allow", "make migrate", "", []string{"a allow"}, "ask", "", "V-ASK", []string{"V-ASK"}, nil, false},
		{"a rule that asks does not lift a deny", "make migrate", "", []string{"a deny"}, "deny", "a", "", []string{"V-ASK"}, nil, false},
		{"a rule lifts the limit of high risk", "make", "/sandbox", []string{"a allow risk=high"}, "allow", "a", "", []string{"V-ALLOW"}, nil, false},
		{"it lifts no critical risk", "make", "/sandbox", []string{"a allow risk=critical wanted=high"}, "ask", "", "", []string{"V-ALLOW"}, nil, false},
		{"it lifts no uncertainty", "make", "/sandbox", []string{"a unsure risk=low"}, "ask", "", "", []string{"V-ALLOW"}, nil, false},
		{"it lifts no timeout", "make", "/sandbox", []string{"a timeout"}, "ask", "", "", []string{"V-ALLOW"}, nil, false},
		{"it lifts no deny", "make", "/sandbox", []string{"a deny risk=low"}, "deny", "a", "", []string{"V-ALLOW"}, nil, false},
		{"it lifts no advice against", "make", "/sandbox", []string{"a allow", "b deny may=advises"}, "ask", "", "", []string{"V-ALLOW"}, nil, false},
		{"it gives nobody the authority to allow", "make", "/sandbox", []string{"a allow risk=high may=deny_only"}, "ask", "", "", []string{"V-ALLOW"}, nil, false},
		{"a deny outranks an allow", "npm publish", "/sandbox", []string{"a allow risk=high"}, "deny", "", "V-DENY", []string{"V-DENY", "V-ALLOW"}, nil, false},
		{"an ask outranks an allow", "make migrate", "/sandbox", []string{"a allow risk=high"}, "ask", "", "V-ASK", []string{"V-ASK", "V-ALLOW"}, nil, false},
		{"shadow and warn change nothing", "make", "/shadow", []string{"a allow"}, "allow", "a", "", nil, []string{"V-SHADOW", "V-WARN"}, false},
		{"text is a rule that asks", "odd text", "", []string{"a allow"}, "ask", "", "V-ODD", []string{"V-ODD"}, nil, false},
		{"a decision that is none asks", "odd word", "", []string{"a allow"}, "ask", "", "V-ODD", []string{"V-ODD"}, nil, false},
		{"an allow without a message asks", "odd allow", "", []string{"a allow"}, "ask", "", "V-ODD", []string{"V-ODD"}, nil, false},
		{"an allow whose message is none asks", "odd type", "", []string{"a allow"}, "ask", "", "V-ODD", []string{"V-ODD"}, nil, false},
		{"a deny without a message denies", "odd deny", "", []string{"a allow"}, "deny", "", "V-ODD", []string{"V-ODD"}, nil, false},
		{"an untrusted allow lifts nothing", "make", "/sandbox", []string{"a allow risk=high"}, "ask", "", "", nil, []string{"V-ALLOW"}, true},
		{"an untrusted deny denies", "npm publish", "/sandbox", []string{"a allow risk=high"}, "deny", "", "V-DENY", []string{"V-DENY"}, []string{"V-ALLOW"}, true},
		{"an untrusted ask asks", "make migrate", "", []string{"a allow"}, "ask", "", "V-ASK", []string{"V-ASK"}, nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := trusted
			if test.untrusted {
				p = untrusted
			}
			var verdicts []approval.Verdict
			for _, v := range test.verdicts {
				verdicts = append(verdicts, said(v))
			}
			got := p.Verdict(t.Context(), bash(test.text, test.cwd), reviewedBy(verdicts), verdicts)
			if got.Failure != nil {
				t.Fatalf("policy could not judge: %+v", *got.Failure)
			}
			ids := func(matches []approval.Match) (out []string) {
				for _, m := range matches {
					if m.Decision != "verdict" || m.Layer != "workspace" || m.Line == 0 || m.Message == "" {
						t.Errorf("a rule without its identity: %+v", m)
					}
					out = append(out, m.ID)
				}
				return out
			}
			type outcome struct {
				Decision        approval.VerdictDecision
				By, Rule        string
				Rules, Observed []string
			}
			want := outcome{test.want, test.by, test.rule, test.rules, test.observed}
			if diff := cmp.Diff(want, outcome{got.Decision, got.By, got.Rule, ids(got.Rules), ids(got.Observed)}); diff != "" {
				t.Errorf("(-want +got):\n%s\nreasons %q", diff, got.Reasons)
			}
		})
	}
	t.Run("rules see the ruling, and may name themselves", func(t *testing.T) {
		verdicts := []approval.Verdict{said("rego/risk allow")}
		ruling := reviewedBy(verdicts)
		if got := trusted.Verdict(t.Context(), bash("make", ""), ruling, verdicts); got.Decision != "allow" {
			t.Errorf("without the effect: %+v", got)
		}
		ruling.Effects = append(ruling.Effects, approval.EffectNetwork)
		if got := trusted.Verdict(t.Context(), bash("make", ""), ruling, verdicts); got.Decision != "ask" || got.Rule != "V-OWN" {
			t.Errorf("%+v", got)
		}
	})
}

// A rule that fails lifts nothing and allows nothing.
func TestVerdictRulesThatFail(t *testing.T) {
	t.Parallel()
	const conflict = `package rules.x

verdict contains {"message": _of(input.request.command.text), "decision": "allow"} if input.verdicts

_of(x) := 1 if startswith(x, "m")

_of(x) := 2 if endswith(x, "e")
`
	const fails = `package rules.x

verdict contains {"message": "m", "decision": "allow"} if to_number(input.request.command.text) > 1
`
	const slow = `package rules.x

verdict contains {"message": "m", "decision": "deny"} if {
	some a in numbers.range(1, 20000)
	some b in numbers.range(1, 20000)
	a * b < 0
}
`
	for name, test := range map[string]struct {
		rules, kind string
		timeout     time.Duration
	}{
		"two values at once":     {conflict, "conflict", generous},
		"a built-in that fails":  {fails, "evaluation", generous},
		"longer than rules have": {slow, "deadline", 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			src := workspace(t, test.rules)
			src.Settings.Timeout = test.timeout
			p := load(t, src)
			for verdict, want := range map[string]approval.VerdictDecision{
				"a allow risk=low": "ask", "a unsure": "ask", "a deny may=advises": "ask",
				// What is final is not turned into a question by a rule that fails.
				"a deny": "deny", "a cancel": "cancel", "a deny may=deny_only": "deny",
			} {
				got := judge(t, p, verdict)
				if got.Decision != want || got.Failure == nil || got.Failure.Kind != test.kind || len(got.Reasons) != 1 {
					t.Errorf("%s: %+v, failure %+v; want %s for %s", verdict, got, got.Failure, want, test.kind)
				}
			}
		})
	}
	t.Run("a context that ends", func(t *testing.T) {
		verdicts := []approval.Verdict{said("a allow")}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got := load(t, workspace(t, verdictRules)).Verdict(ctx, bash("make", ""), reviewedBy(verdicts), verdicts)
		if got.Decision != "ask" || got.Failure == nil {
			t.Errorf("%+v", got)
		}
	})
}

const authorities = `package home.rules.who

review contains {"message": "risk may only deny", "reviewers": ["a/risk", "a/judge"], "authority": {"a/risk": "deny_only"}} if {
	input.request.command.text == "one"
}

review contains {"message": "risk advises", "reviewers": ["a/risk"], "authority": {"a/risk": "advises"}, "shadow": ["a/new", "a/judge"]} if {
	input.request.command.text in {"one", "two"}
}

review contains {"message": "the usual one, in shadow of whom", "shadow": ["a/new"]} if input.request.command.text == "shadow"

review contains {"message": "m", "authority": {"a/risk": "denyonly"}} if input.request.command.text == "odd word"

review contains {"message": "m", "authority": "advises"} if input.request.command.text == "odd authority"

review contains {"message": "m", "shadow": "a/new"} if input.request.command.text == "odd shadow"

review contains {"message": "m", "reviewers": ["a/none"], "shadow": ["a/new"]} if input.request.command.text == "missing"

review contains {"message": "m", "shadow": ["a/new"]} if input.request.command.text == "denied"

deny contains "no" if input.request.command.text == "denied"
`

func TestReviewRulesSayWhoMayAndWhoIsInShadow(t *testing.T) {
	t.Parallel()
	home := folder(t, map[string]string{"rules.rego": authorities})
	below := folder(t, map[string]string{"rules.rego": `package rules.weaker

review contains {"message": "m", "reviewers": ["a/risk", "a/usual"], "authority": {"a/risk": "advises", "a/usual": "advises"}} if {
	input.request.command.text in {"two", "three"}
}
`})
	src := rego.Source{Settings: settings(), Layers: []rego.Layer{
		{Name: rego.Home, Dir: home, Paths: []string{home}},
		{Name: rego.Workspace, Dir: below, Paths: []string{below}},
	}}
	src.Settings.Reviewer = "a/usual"
	src.Settings.Reviewers = map[string]bool{"a/risk": true, "a/judge": true, "a/new": true, "a/usual": true}
	trusted := load(t, src)
	src.Layers[1].Untrusted = true
	untrusted := load(t, src)
	src.Settings.Mode = "auto_allow"
	passing := load(t, src)
	type who struct {
		Route     approval.Route
		Reviewers []string
		Authority map[string]approval.Authority
		Shadow    []string
		Failure   string
	}
	type may = map[string]approval.Authority
	for _, test := range []struct {
		name, text string
		p          *rego.Policy
		want       who
	}{
		{"of two rules each takes away and none gives back", "one", trusted, who{"review", []string{"a/risk", "a/judge"}, may{"a/risk": "deny_only"}, []string{"a/new"}, ""}},
		{"all rules agree that one advises", "two", trusted, who{"review", []string{"a/risk", "a/usual"}, may{"a/risk": "advises", "a/usual": "advises"}, []string{"a/judge", "a/new"}, ""}},
		{"who is not trusted takes no question from a person", "three", untrusted, who{"ask", nil, nil, nil, ""}},
		{"who is not trusted chooses no reviewer, and takes no power to deny", "three", passing, who{"review", []string{"a/usual"}, may{"a/usual": "deny_only"}, nil, ""}},
		{"the usual reviewer decides, with one in shadow", "shadow", trusted, who{"review", []string{"a/usual"}, nil, []string{"a/new"}, ""}},
		{"a word that is none is a failure", "odd word", trusted, who{"ask", nil, nil, nil, "output"}},
		{"an authority of nobody is a failure", "odd authority", trusted, who{"ask", nil, nil, nil, "output"}},
		{"a shadow that is no list is a failure", "odd shadow", trusted, who{"ask", nil, nil, nil, "output"}},
		{"who is in shadow is asked where a person is, for want of a reviewer", "missing", trusted, who{"ask", nil, nil, []string{"a/new"}, ""}},
		{"nobody is asked about what is denied", "denied", trusted, who{"deny", nil, nil, nil, ""}},
		{"nobody is in shadow of a call that no rule sends to review", "ls", trusted, who{"ask", nil, nil, nil, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.p.Rule(t.Context(), bash(test.text, ""))
			got := who{r.Route, r.Reviewers, r.Authority, r.Shadow, ""}
			if r.Failure != nil {
				got.Failure = r.Failure.Kind
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, r.Failure)
			}
		})
	}
}

// Rules for the route do not see verdicts, and verdict rules decide no route.
func TestVerdictRulesAreApart(t *testing.T) {
	t.Parallel()
	p := load(t, workspace(t, `package rules.x

verdict contains {"message": "m", "decision": "deny"}

deny contains "there are verdicts" if input.verdicts
`))
	wantRoute(t, rule(t, p, bash("make", "")), approval.RouteAsk)
	if got := judge(t, p, "a allow"); got.Decision != "deny" || got.Failure != nil {
		t.Errorf("%+v", got)
	}
}

const opinions = `package home.opinions

verdict := {"outcome": "deny", "risk_level": "critical", "rationale": "it deletes"} if {
	"rm" in input.facts.programs
} else := {"outcome": "allow", "risk_level": "low", "user_authorization": "high", "scope": "turn"} if {
	input.request.command.text == "make"
	input.ruling.route == "review"
	count(input.verdicts) == 0
} else := value if {
	some text, value in {
		"odd outcome": {"outcome": "approve"},
		"cancel": {"outcome": "cancel"},
		"none": {"risk_level": "low"},
		"more": {"outcome": "allow", "reason": "x"},
		"odd risk": {"outcome": "allow", "risk_level": "none"},
		"odd authorization": {"outcome": "allow", "user_authorization": true},
		"odd scope": {"outcome": "allow", "scope": "always"},
		"text": "allow",
		"unsure": {"outcome": "unsure", "scope": "turn"},
		"long": {"outcome": "deny", "rationale": concat("", [x | some _ in numbers.range(1, 3000); x := "é"])},
		"null": null,
	}
	input.request.command.text == text
}

fails := {"outcome": "allow"} if to_number(input.request.command.text) > 0

two := {"outcome": "allow"} if input.request

two := {"outcome": "deny"} if input.request

f(x) := x

set contains "x"
`

func opinionSource(t testing.TB, untrusted bool, queries ...string) rego.Source {
	t.Helper()
	home := folder(t, map[string]string{"opinions.rego": opinions})
	below := folder(t, map[string]string{"opinions.rego": "package rules.opinions\n\nmine := {\"outcome\": input.request.command.text}\n"})
	src := rego.Source{Settings: settings(), Layers: []rego.Layer{
		{Name: rego.Home, Dir: home, Paths: []string{home}},
		{Name: rego.Workspace, Dir: below, Paths: []string{below}, Untrusted: untrusted},
	}}
	for i, q := range queries {
		src.Reviewers = append(src.Reviewers, rego.ReviewerRule{Name: fmt.Sprintf("r/%d", i), Query: q, File: "config.yaml", Line: 3 + i, Column: 7})
	}
	return src
}

func TestRulesGiveVerdicts(t *testing.T) {
	t.Parallel()
	const verdict, fails, two, mine = "data.home.opinions.verdict", "data.home.opinions.fails", "data.home.opinions.two", "data.rules.opinions.mine"
	trusted := load(t, opinionSource(t, false, verdict, fails, two, mine))
	untrusted := load(t, opinionSource(t, true, verdict, mine))
	for _, test := range []struct {
		name, query, text string
		p                 *rego.Policy
		want              approval.Verdict
	}{
		{"a rule allows", verdict, "make", trusted, approval.Verdict{Outcome: "allow", Risk: "low", Authorization: "high", Scope: "turn"}},
		{"a rule denies by the facts", verdict, "cd x && sudo rm -r y", trusted, approval.Verdict{Outcome: "deny", Risk: "critical", Rationale: "it deletes"}},
		{"a scope is that of an allow", verdict, "unsure", trusted, approval.Verdict{Outcome: "unsure"}},
		{"a rule that is silent gives none", verdict, "ls", trusted, approval.Verdict{Outcome: "error", Rationale: "says nothing about this request"}},
		{"another word is none", verdict, "odd outcome", trusted, approval.Verdict{Outcome: "error", Rationale: "none of allow, deny, unsure"}},
		{"a rule ends no turn", verdict, "cancel", trusted, approval.Verdict{Outcome: "error", Rationale: "none of allow, deny, unsure"}},
		{"without an outcome there is none", verdict, "none", trusted, approval.Verdict{Outcome: "error", Rationale: "it has no outcome"}},
		{"another member spoils it", verdict, "more", trusted, approval.Verdict{Outcome: "error", Rationale: "something else than outcome"}},
		{"another risk spoils it", verdict, "odd risk", trusted, approval.Verdict{Outcome: "error", Rationale: "risk_level"}},
		{"another type spoils it", verdict, "odd authorization", trusted, approval.Verdict{Outcome: "error", Rationale: "something else"}},
		{"another scope spoils it", verdict, "odd scope", trusted, approval.Verdict{Outcome: "error", Rationale: "scope"}},
		{"text is none", verdict, "text", trusted, approval.Verdict{Outcome: "error", Rationale: "is no object"}},
		{"null is none", verdict, "null", trusted, approval.Verdict{Outcome: "error", Rationale: "is no object"}},
		{"a rationale has an end", verdict, "long", trusted, approval.Verdict{Outcome: "deny", Rationale: strings.Repeat("é", 1999) + "…"}},
		{"a rule that fails gives none", fails, "x", trusted, approval.Verdict{Outcome: "error", Rationale: "opinions.rego:"}},
		{"two values are none", two, "x", trusted, approval.Verdict{Outcome: "error", Rationale: "produced conflicting values"}},
		{"a workspace that is trusted allows", mine, "allow", trusted, approval.Verdict{Outcome: "allow"}},
		{"one that is not does not", mine, "allow", untrusted, approval.Verdict{Outcome: "unsure", Rationale: "an allow of a workspace that is not trusted counts for nothing"}},
		{"and may deny", mine, "deny", untrusted, approval.Verdict{Outcome: "deny"}},
		{"the home is always heard", verdict, "make", untrusted, approval.Verdict{Outcome: "allow", Risk: "low", Authorization: "high", Scope: "turn"}},
		{"a rule that nobody named gives none", "data.home.opinions.other", "make", trusted, approval.Verdict{Outcome: "error", Rationale: "no reviewer is the rule"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.p.Opinion(t.Context(), test.query, bash(test.text, ""), &approval.Ruling{Route: approval.RouteReview})
			if got.Outcome == approval.VerdictError && strings.Contains(got.Rationale, test.want.Rationale) {
				got.Rationale = test.want.Rationale
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("one that takes too long is a timeout", func(t *testing.T) {
		dir := folder(t, map[string]string{"slow.rego": `package home.slow

verdict := {"outcome": "allow"} if {
	some a in numbers.range(1, 20000)
	some b in numbers.range(1, 20000)
	a * b < 0
}
`})
		src := rego.Source{Settings: settings(), Layers: []rego.Layer{{Name: rego.Home, Dir: dir, Paths: []string{dir}}}}
		src.Settings.Timeout = 50 * time.Millisecond
		src.Reviewers = []rego.ReviewerRule{{Name: "r/slow", Query: "data.home.slow.verdict"}}
		if got := load(t, src).Opinion(t.Context(), "data.home.slow.verdict", bash("make", ""), &approval.Ruling{}); got.Outcome != "timeout" {
			t.Errorf("%+v", got)
		}
	})
}

func TestReviewerRulesHaveToBeThere(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"data.home.opinions.verdikt": "config.yaml:3:7: reviewer r/0: no rule is named data.home.opinions.verdikt",
		"data.home.opinions":         "config.yaml:3:7: reviewer r/0: no rule is named data.home.opinions",
		"data.home.opinions.f":       "config.yaml:3:7: reviewer r/0: data.home.opinions.f is a function",
		"data.home.opinions.set":     "config.yaml:3:7: reviewer r/0: data.home.opinions.set is a set",
		"input.request":              `config.yaml:3:7: reviewer r/0: "input.request" is no path of a rule`,
		"data.home.opinions[x]":      `config.yaml:3:7: reviewer r/0: "data.home.opinions[x]" is no path of a rule`,
		"not a path":                 `config.yaml:3:7: reviewer r/0: "not a path" is no path of a rule`,
	} {
		_, err := rego.Load(t.Context(), opinionSource(t, false, query))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
	if _, err := rego.Load(t.Context(), opinionSource(t, true, "data.home.opinions.verdict", "data.rules.opinions.mine", "data.home.opinions.verdict")); err != nil {
		t.Error(err)
	}
}

func TestVerdictRulesHaveAShape(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ rules, want string }{
		{"verdict := {\"decision\": \"allow\"}", "verdict must be a set of messages (write verdict contains {\"message\": \"why\", \"decision\": \"ask\"} if { ... })"},
		{"verdict(x) := x", "verdict is a function here"},
		{"verdict contains {\"message\": input.verdicts[0].outcom, \"decision\": \"ask\"}", "outcom"},
		{"verdict contains {\"message\": input.ruling.routes, \"decision\": \"ask\"}", "routes"},
	} {
		dir := folder(t, map[string]string{"x.rego": "package rules.x\n\n" + test.rules + "\n"})
		_, err := rego.Load(t.Context(), rego.Source{Settings: settings(), Layers: []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "x.rego")}}}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.rules, err, test.want)
		}
	}
}

func TestLintOfVerdictRules(t *testing.T) {
	t.Parallel()
	findings, err := rego.Lint(t.Context(), workspace(t, `# METADATA
# title: Verdicts
package rules.x

# METADATA
# title: Fine
# custom: {id: A}
verdict contains {"message": "m", "decision": "ask"} if input.verdicts[_].risk_level == "high"

# METADATA
# title: No decision
# custom: {id: B}
verdict contains {"message": "m"}

# METADATA
# title: Text
# custom: {id: C}
verdict contains "deny"

# METADATA
# title: Another word
# custom: {id: D}
verdict contains {"message": "m", "decision": "review"}

# METADATA
# title: At the wrong time
# custom: {id: E}
deny contains "m" if {
	input.request.kind == "command"
	some v in input.verdicts
	v.risk_level == "high"
}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%s:%d %s", f.Check, f.Line, f.Message))
	}
	want := []string{
		"verdict:13 B has no decision, so it asks",
		"verdict:18 C is no object, so it asks",
		`verdict:23 D has the decision "review", which is none, so it asks`,
		"verdict:30 input.verdicts is there for verdict rules only",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
