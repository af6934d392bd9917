package rego

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// ReviewerRule is a reviewer that is a rule.
type ReviewerRule struct {
	// Name is the reviewer's in the configuration.
	Name string
	// Query is the path of the rule, such as data.home.review.verdict.
	Query string
	// File, Line and Column are where the query is written.
	File         string
	Line, Column int
}

// opinion is a rule that gives verdicts, prepared.
type opinion struct {
	query oparego.PreparedEvalQuery
	// untrusted is true for a rule of a layer that can only tighten.
	untrusted bool
}

// prepareOpinions prepares the reviewers that are rules. One whose rule is not there
// is a fault of the configuration.
func (p *Policy) prepareOpinions(ctx context.Context, src Source) error {
	var problems []Problem
	for _, r := range src.Reviewers {
		fault := func(message, hint string) {
			problems = append(problems, Problem{File: r.File, Line: r.Line, Column: r.Column, Message: "reviewer " + r.Name + ": " + message, Hint: hint})
		}
		ref, err := ast.ParseRef(r.Query)
		if err != nil || !ref.HasPrefix(ast.DefaultRootRef) || !ref.IsGround() {
			fault(fmt.Sprintf("%q is no path of a rule", r.Query), "write it as in data.home.review.verdict")
			continue
		}
		rules := p.compiler.GetRulesExact(ref)
		switch {
		case len(rules) == 0:
			fault("no rule is named "+r.Query, "the rules of the home stand below data.home, those of a workspace below data.rules")
			continue
		case len(rules[0].Head.Args) > 0:
			fault(r.Query+" is a function", "a reviewer is a rule with one value")
			continue
		case rules[0].Head.RuleKind() == ast.MultiValue:
			fault(r.Query+" is a set", `a reviewer is a rule with one value: verdict := {"outcome": "allow"} if { ... }`)
			continue
		}
		if _, ok := p.opinions[r.Query]; ok {
			continue
		}
		q, err := p.prepare(ctx, "x = "+ref.String())
		if err != nil {
			return err
		}
		if p.opinions == nil {
			p.opinions = map[string]opinion{}
		}
		p.opinions[r.Query] = opinion{q, slices.ContainsFunc(src.Layers, func(l Layer) bool { return l.Untrusted && ref.HasPrefix(l.Name.Root()) })}
	}
	if len(problems) > 0 {
		return &LoadError{Problems: problems}
	}
	return nil
}

// maxRationale is how much of a rationale is kept, in characters.
const maxRationale = 2000

// Opinion is the verdict of the rule that query names, one of the reviewers that the
// policy was loaded with, on a request that ruling sent to review. The rule sees
// what the rules for the route do, and the ruling. It gives an object with outcome
// (allow, deny or unsure) and perhaps risk_level, user_authorization, rationale and
// scope. A rule that gives none or anything else, or fails, is an error; one that
// takes longer than the rules may is a timeout.
//
// An allow of a workspace that can only tighten is unsure.
func (p *Policy) Opinion(ctx context.Context, query string, r *approval.Request, ruling *approval.Ruling) approval.Verdict {
	o, ok := p.opinions[query]
	if !ok {
		return approval.Verdict{Outcome: approval.VerdictError, Rationale: "no reviewer is the rule " + query}
	}
	in := p.facts.input(r)
	in.review(ruling, nil)
	output, err := p.evaluateQuery(ctx, o.query, in)
	if err != nil {
		f := p.fault(err)
		v := approval.Verdict{Outcome: approval.VerdictError, Rationale: f.Message}
		switch f.Kind {
		case "undefined":
			v.Rationale = query + " says nothing about this request"
		case "output":
			v.Rationale = query + " is no object"
		case "deadline":
			v.Outcome = approval.VerdictTimeout
		}
		if f.File != "" {
			v.Rationale = fmt.Sprintf("%s:%d: %s", f.File, f.Line, v.Rationale)
		}
		return v
	}
	v, err := verdictOf(output)
	if err != nil {
		return approval.Verdict{Outcome: approval.VerdictError, Rationale: fmt.Sprintf("%s gives no verdict: %v", query, err)}
	}
	if o.untrusted && v.Outcome == approval.VerdictAllow {
		return approval.Verdict{
			Outcome: approval.VerdictUnsure, Risk: v.Risk, Authorization: v.Authorization,
			Rationale: "an allow of a workspace that is not trusted counts for nothing",
		}
	}
	return v
}

// verdictOf reads what a rule gives.
func verdictOf(output ast.Object) (approval.Verdict, error) {
	plain, err := ast.JSON(output)
	if err != nil {
		return approval.Verdict{}, err
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return approval.Verdict{}, err
	}
	var said struct {
		Outcome       *string `json:"outcome"`
		Risk          *string `json:"risk_level"`
		Authorization *string `json:"user_authorization"`
		Rationale     string  `json:"rationale"`
		Scope         *string `json:"scope"`
	}
	if err := jsonv2.Unmarshal(raw, &said, jsonv2.RejectUnknownMembers(true)); err != nil {
		return approval.Verdict{}, fmt.Errorf("it holds something else than outcome, risk_level, user_authorization, rationale and scope: %.200s", raw)
	}
	if said.Outcome == nil {
		return approval.Verdict{}, errors.New("it has no outcome")
	}
	v := approval.Verdict{Rationale: said.Rationale}
	if text := []rune(v.Rationale); len(text) > maxRationale {
		v.Rationale = string(text[:maxRationale-1]) + "…"
	}
	for _, part := range []struct {
		name  string
		said  *string
		words []string
		keep  func(string)
	}{
		{"outcome", said.Outcome, []string{"allow", "deny", "unsure"}, func(s string) { v.Outcome = approval.VerdictOutcome(s) }},
		{"risk_level", said.Risk, []string{"low", "medium", "high", "critical"}, func(s string) { v.Risk = approval.Risk(s) }},
		{"user_authorization", said.Authorization, []string{"unknown", "low", "medium", "high"}, func(s string) { v.Authorization = approval.Authorization(s) }},
		{"scope", said.Scope, []string{"once", "turn", "session"}, func(s string) { v.Scope = permission.Scope(s) }},
	} {
		if part.said == nil {
			continue
		}
		if !slices.Contains(part.words, *part.said) {
			return approval.Verdict{}, fmt.Errorf("%s is %.100q, which is none of %s", part.name, *part.said, strings.Join(part.words, ", "))
		}
		part.keep(*part.said)
	}
	if v.Outcome != approval.VerdictAllow {
		v.Scope = ""
	}
	return v, nil
}
