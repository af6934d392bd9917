package rego

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/regent-policy/regent/gate/approval"
)

// Verdict says what the verdicts of reviewers come to, by data.regent.verdict. They
// are about a request that ruling sent to review, in the order in which they were
// asked for, each with the authority that the ruling gives. It does not fail: where
// policy cannot judge, a person is asked, and Failure says what went wrong. A refusal
// of a reviewer that may refuse stands even then: rules that fail lift nothing.
//
// It proposes an allow on the strength of verdicts alone. Whether the request may be
// allowed that way is for the gate.
func (p *Policy) Verdict(ctx context.Context, r *approval.Request, ruling *approval.Ruling, verdicts []approval.Verdict) approval.VerdictRuling {
	output, err := p.evaluateQuery(ctx, p.judge, p.VerdictInput(r, ruling, verdicts))
	if err != nil {
		return p.unjudged(verdicts, err)
	}
	out, err := p.verdictRuling(output, verdicts)
	if err != nil {
		return p.unjudged(verdicts, err)
	}
	return out
}

// VerdictInput is what verdict rules would see of the request and the verdicts.
func (p *Policy) VerdictInput(r *approval.Request, ruling *approval.Ruling, verdicts []approval.Verdict) *Input {
	in := p.facts.input(r)
	in.review(ruling, verdicts)
	return in
}

// review adds what verdict rules see.
func (in *Input) review(ruling *approval.Ruling, verdicts []approval.Verdict) {
	in.Verdicts = append([]approval.Verdict{}, verdicts...)
	in.Ruling = &Reviewed{
		Route:     ruling.Route,
		Reviewers: append([]string{}, ruling.Reviewers...),
		Effects:   append([]approval.Effect{}, ruling.Effects...),
		External:  ruling.External,
		ReadOnly:  ruling.ReadOnly,
		Rules:     []string{},
	}
	for _, m := range ruling.Rules {
		if !slices.Contains(in.Ruling.Rules, m.ID) {
			in.Ruling.Rules = append(in.Ruling.Rules, m.ID)
		}
	}
}

// unjudged is what verdicts come to when policy could not judge them.
func (p *Policy) unjudged(verdicts []approval.Verdict, err error) approval.VerdictRuling {
	f := p.fault(err)
	out := approval.VerdictRuling{
		Decision: approval.VerdictsAsk, Rules: []approval.Match{}, Failure: f,
		Reasons: []string{"policy could not judge the verdicts, so a person is asked: " + f.Message},
	}
	if i := slices.IndexFunc(verdicts, approval.Verdict.Final); i >= 0 {
		out.Decision, out.By = approval.VerdictDecision(verdicts[i].Outcome), verdicts[i].Reviewer
		out.Reasons = []string{"policy could not judge the verdicts, and a reviewer denies this: " + f.Message}
	}
	return out
}

// verdictRuling reads what data.regent.verdict gives, and refuses what it cannot
// read in full or what the verdicts do not carry.
func (p *Policy) verdictRuling(output ast.Object, verdicts []approval.Verdict) (approval.VerdictRuling, error) {
	a := &answer{object: output}
	decision := a.part("decision")
	out := approval.VerdictRuling{
		Decision: approval.VerdictDecision(decision.text("decision")),
		Reasons:  decision.texts("reasons"),
		Rules:    []approval.Match{},
	}
	if decision.object.Get(ast.InternedTerm("by")) != nil {
		out.By = decision.text("by")
	}
	for _, m := range a.matches(p, "rules") {
		if m.Verdict == approval.VerdictsAllow && p.ignores(&m) {
			m.Message += " (an allow of a workspace that is not trusted counts for nothing)"
			out.Observed = append(out.Observed, m)
			continue
		}
		out.Rules = append(out.Rules, m)
	}
	out.Observed = append(out.Observed, a.matches(p, "observed")...)
	slices.SortStableFunc(out.Rules, byVerdict)
	if a.err != nil || decision.err != nil {
		return out, errors.Join(a.err, decision.err)
	}

	var said []string
	for _, m := range out.Rules {
		if m.Verdict == out.Decision {
			said = append(said, m.Message)
		}
	}
	switch out.Decision {
	case approval.VerdictsAllow:
		if err := carried(verdicts); err != nil {
			return out, err
		}
	case approval.VerdictsDeny, approval.VerdictsCancel, approval.VerdictsAsk:
		if out.By == "" && len(said) > 0 {
			i := slices.IndexFunc(out.Rules, func(m approval.Match) bool { return m.Verdict == out.Decision })
			out.Rule = out.Rules[i].ID
		}
	default:
		return out, &failure{kind: "output", message: fmt.Sprintf("%q is no decision on verdicts", out.Decision)}
	}
	if out.By != "" {
		out.Reasons = append(out.Reasons, said...)
	} else {
		out.Reasons = append(said, out.Reasons...)
	}
	return out, nil
}

// carried is an error unless the verdicts carry an allow: each that counts is one,
// and one of them is of a reviewer that may allow.
func carried(verdicts []approval.Verdict) error {
	allowed := false
	for _, v := range verdicts {
		switch {
		case v.Shadow:
		case v.Outcome != approval.VerdictAllow:
			return &failure{kind: "output", message: fmt.Sprintf("the decision is to allow, and the verdict of %s is %s", v.Reviewer, v.Outcome)}
		case v.Authority == "" || v.Authority == approval.AuthorityDecides:
			allowed = true
		}
	}
	if !allowed {
		return &failure{kind: "output", message: "the decision is to allow, and no reviewer that may has allowed it"}
	}
	return nil
}

// ignores reports whether a rule that fired may only tighten.
func (p *Policy) ignores(m *approval.Match) bool {
	return slices.ContainsFunc(p.rules, func(r *Rule) bool {
		return r.untrusted && r.File == m.File && r.Line == m.Line && string(r.Layer) == m.Layer
	})
}

// wishes are what verdict rules may want, the strictest first.
var wishes = []approval.VerdictDecision{approval.VerdictsDeny, approval.VerdictsAsk, approval.VerdictsAllow}

// byVerdict puts the strictest wish first, and the gravest rule of each.
func byVerdict(a, b approval.Match) int {
	rank := func(m approval.Match) int {
		return slices.Index(wishes, m.Verdict)*10 - slices.Index(severities, m.Severity)
	}
	return rank(a) - rank(b)
}

// wish is what the value of a verdict rule wants. One that does not say it in full
// wants a person to be asked, unless it denies.
func wish(value ast.Value) approval.VerdictDecision {
	object, ok := value.(ast.Object)
	if !ok {
		return approval.VerdictsAsk
	}
	decision, _ := stringOf(object, "decision")
	_, message := stringOf(object, "message")
	switch d := approval.VerdictDecision(decision); {
	case d == approval.VerdictsDeny:
		return d
	case d == approval.VerdictsAllow && message:
		return d
	default:
		return approval.VerdictsAsk
	}
}

func stringOf(object ast.Object, name string) (string, bool) {
	t := object.Get(ast.InternedTerm(name))
	if t == nil {
		return "", false
	}
	s, ok := t.Value.(ast.String)
	return string(s), ok
}

// powers reads what a review rule says of the authority of reviewers, and which
// are asked in shadow. A part that is malformed is an error, since passing over it
// would give a reviewer more than was meant.
func (r *Rule) powers(said ast.Object, m *approval.Match) error {
	if t := said.Get(ast.InternedTerm("authority")); t != nil {
		if err := ast.As(t.Value, &m.Authority); err != nil {
			return errors.New("authority is no object of reviewers and what they may do")
		}
		for name, a := range m.Authority {
			switch a {
			case approval.AuthorityDecides, approval.AuthorityDenyOnly, approval.AuthorityAdvises:
			default:
				return fmt.Errorf("authority of %s is %q; use decides, deny_only or advises", name, a)
			}
		}
	}
	if t := said.Get(ast.InternedTerm("shadow")); t != nil {
		if err := ast.As(t.Value, &m.Shadow); err != nil {
			return errors.New("shadow is no list of reviewers")
		}
	}
	return nil
}

// empower gives the ruling what the review rules say of the reviewers that they
// ask. Of several rules that ask one reviewer each can take away, and none give
// back: who may not allow by one may not, and who may deny by one may.
func (p *Policy) empower(out *approval.Ruling, reviews []approval.Match) {
	if out.Route != approval.RouteReview && out.Route != approval.RouteAsk {
		return
	}
	for _, name := range out.Reviewers {
		mayAllow, mayDeny, asked := true, false, false
		for i := range reviews {
			m := &reviews[i]
			a, said := m.Authority[name]
			if !said && !slices.Contains(m.Reviewers, name) {
				if len(m.Reviewers) > 0 || name != p.settings.Reviewer {
					continue
				}
			}
			asked = true
			mayAllow = mayAllow && (a == "" || a == approval.AuthorityDecides)
			// To take the power to refuse from a reviewer loosens.
			mayDeny = mayDeny || a != approval.AuthorityAdvises || p.ignores(m)
		}
		if !asked || mayAllow && mayDeny {
			continue
		}
		if out.Authority == nil {
			out.Authority = map[string]approval.Authority{}
		}
		out.Authority[name] = approval.AuthorityDenyOnly
		if !mayDeny {
			out.Authority[name] = approval.AuthorityAdvises
		}
	}
	for i := range reviews {
		for _, name := range reviews[i].Shadow {
			if !slices.Contains(out.Reviewers, name) && !slices.Contains(out.Shadow, name) {
				out.Shadow = append(out.Shadow, name)
			}
		}
	}
	slices.Sort(out.Shadow)
}
