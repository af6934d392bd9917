package rego

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/schema"
)

// Finding is what lint has to say about one place.
type Finding struct {
	Problem
	// Check names the check that found it.
	Check string `json:"check"`
	// Level is error for what keeps the policies from loading, warning for the
	// rest.
	Level string `json:"level"`
}

// The checks of Lint.
const (
	CheckLoad     = "load"
	CheckStrict   = "strict"
	CheckFormat   = "format"
	CheckMetadata = "metadata"
	CheckIndex    = "index"
	CheckPatterns = "patterns"
	CheckAbsence  = "absence"
	CheckAllow    = "allow"
	CheckIgnored  = "ignored"
	CheckVerdict  = "verdict"
)

// maxPatterns is how many compiled patterns of a kind OPA keeps; past it each
// evaluation compiles them again.
const maxPatterns = 100

// Lint looks at the rules of src with the loader that a decision uses, and
// reports what would fail, surprise or be slow. The error is for what is not
// the policies' fault.
func Lint(ctx context.Context, src Source) ([]Finding, error) {
	layers, err := readLayers(src.Layers)
	if load, ok := errors.AsType[*LoadError](err); ok {
		return loadFindings(load), nil
	} else if err != nil {
		return nil, err
	}
	if _, err := Load(ctx, src); err != nil {
		load, ok := errors.AsType[*LoadError](err)
		if !ok {
			return nil, err
		}
		return loadFindings(load), nil
	}

	var findings []Finding
	for _, c := range layers {
		for _, f := range c.ignored {
			findings = append(findings, Finding{Problem{File: f.name, Message: "not loaded: " + f.reason}, CheckIgnored, "warning"})
		}
		var list []*ast.Module
		var parsed []*module
		for _, f := range slices.Concat(c.rego, c.tests) {
			findings = append(findings, formatted(f)...)
		}
		for _, f := range c.rego {
			m, problems := parse(c.layer.Name, f)
			if len(problems) > 0 {
				continue // Load has reported it
			}
			list = append(list, m.parsed)
			parsed = append(parsed, m)
		}
		annotations, _ := ast.BuildAnnotationSet(list)
		for _, m := range parsed {
			findings = append(findings, m.lint(annotations)...)
		}
	}
	findings = withoutFew(findings)
	strict, err := lintStrict(src, layers)
	if err != nil {
		return nil, err
	}
	findings = append(findings, strict...)
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return findings, nil
}

// maxUnindexed is how many rules may be evaluated for every request before lint
// speaks of it: each costs about a microsecond, so that a few do not matter.
const maxUnindexed = 20

// withoutFew drops the findings about the index while there are few of them.
func withoutFew(findings []Finding) []Finding {
	unindexed := func(f Finding) bool { return f.Check == CheckIndex }
	n := 0
	for _, f := range findings {
		if unindexed(f) {
			n++
		}
	}
	if n > maxUnindexed {
		return findings
	}
	return slices.DeleteFunc(findings, unindexed)
}

func loadFindings(e *LoadError) []Finding {
	findings := make([]Finding, len(e.Problems))
	for i, p := range e.Problems {
		findings[i] = Finding{p, CheckLoad, "error"}
	}
	return findings
}

// formatted compares a file with what `opa fmt` makes of it.
func formatted(f file) []Finding {
	out, err := format.SourceWithOpts(f.name, f.data, format.Opts{RegoVersion: ast.RegoV1})
	if err != nil || bytes.Equal(out, f.data) {
		return nil // what does not parse is reported by the load
	}
	was, is := bytes.Split(f.data, []byte("\n")), bytes.Split(out, []byte("\n"))
	line := 0
	for line < len(was) && line < len(is) && bytes.Equal(was[line], is[line]) {
		line++
	}
	return []Finding{{Problem{File: f.name, Line: line + 1, Message: "not in the standard format", Hint: "`opa fmt` writes it"}, CheckFormat, "warning"}}
}

// lintStrict compiles once more in OPA's strict mode, which finds imports and
// variables that nothing uses.
func lintStrict(src Source, layers []*contents) ([]Finding, error) {
	bed, err := newTestBed(src, layers)
	if err != nil {
		return nil, err
	}
	schemas, err := schema.Set()
	if err != nil {
		return nil, err
	}
	compiler := newCompiler(src.Settings, schemas).WithStrict(true)
	compiler.Compile(bed.Modules)
	if !compiler.Failed() {
		return nil, nil
	}
	problems, _ := fromOPA(compiler.Errors)
	var findings []Finding
	for _, p := range problems {
		findings = append(findings, Finding{p, CheckStrict, "warning"})
	}
	return findings, nil
}

// lint looks at the counted rules of one file.
func (m *module) lint(annotations *ast.AnnotationSet) []Finding {
	var findings []Finding
	warn := func(check string, at *ast.Location, message, hint string) {
		findings = append(findings, Finding{Problem{m.name, at.Row, at.Col, message, hint}, check, "warning"})
	}
	if root := m.layer.RulesRoot(); !m.parsed.Package.Path.HasPrefix(root) {
		for _, r := range m.parsed.Rules {
			if name := r.Head.Ref()[0].String(); counted[name] && len(r.Head.Args) == 0 && len(r.Head.Ref()) == 1 {
				warn(CheckIgnored, r.Location, fmt.Sprintf("%s decides nothing in package %s", name, packageName(m.parsed.Package.Path)),
					fmt.Sprintf("rules count below %s; name it otherwise if it is a helper", packageName(root)))
			}
		}
	}
	rules, nodes, _ := m.identify(annotations)
	for i, r := range nodes {
		rule := rules[i]
		if rule.Title == "" {
			warn(CheckMetadata, r.Location, fmt.Sprintf("%s has no title", rule.ID), "put a METADATA block with a title before the package or the rule")
		}
		if rule.ID == rule.Package+"."+rule.Decision {
			warn(CheckMetadata, r.Location, fmt.Sprintf("%s in %s has no id of its own", rule.Decision, rule.Package), "give it custom: {id: ...}, so that decisions can name it")
		}
		if rule.Decision == "allow" && m.calls(r, "invocations", "runs", "subcommand") && !m.calls(r, "covered") {
			warn(CheckAllow, r.Location, "an allow that looks at one command lets the rest of the line through", "test command.covered([[...]]) instead, which every command of the call must pass")
		}
		if rule.Decision == "verdict" {
			if what := wordless(r.Head.Key); what != "" {
				warn(CheckVerdict, r.Location, fmt.Sprintf("%s %s, so it asks", rule.ID, what), `write {"message": "why", "decision": "deny"}, or "ask", or "allow"`)
			}
		} else if ref := m.verdictRef(r); ref != nil {
			warn(CheckVerdict, ref.Location, fmt.Sprintf("%s is there for verdict rules only", ref), "name the rule verdict, and what is to happen in its decision")
		}
		if r.Head.Key != nil && rule.Decision != "verdict" && !m.indexable(r) {
			warn(CheckIndex, r.Location, fmt.Sprintf("%s is evaluated for every request", rule.ID), "begin it with a test on one input field (==, in, startswith) or with command.invocations(\"program\")")
		}
		ast.WalkExprs(r, func(e *ast.Expr) bool {
			if e.Negated && e.IsCall() && !isBuiltinCall(e) && readsInput(e) {
				warn(CheckAbsence, e.Location, "silent where the input has no such field", "the argument is looked up outside the negation; take the input inside a helper rule and negate that")
			}
			return false
		})
	}
	findings = append(findings, m.patterns()...)
	return findings
}

// wordless says what is missing from the value of a verdict rule, as far as it is
// written out.
func wordless(value *ast.Term) string {
	object, ok := value.Value.(ast.Object)
	if !ok {
		if value.IsGround() {
			return "is no object"
		}
		return ""
	}
	for _, name := range []string{"decision", "message"} {
		if object.Get(ast.StringTerm(name)) == nil {
			return "has no " + name
		}
	}
	if d, ok := object.Get(ast.StringTerm("decision")).Value.(ast.String); ok && !slices.Contains(wishes, approval.VerdictDecision(d)) {
		return fmt.Sprintf("has the decision %q, which is none", string(d))
	}
	return ""
}

// verdictRef is the first reference of a rule to what verdict rules alone see.
func (m *module) verdictRef(r *ast.Rule) *ast.Term {
	var found *ast.Term
	ast.WalkTerms(r, func(t *ast.Term) bool {
		if ref, ok := t.Value.(ast.Ref); ok && found == nil {
			if ref = m.resolve(ref); ref.HasPrefix(ast.MustParseRef("input.verdicts")) || ref.HasPrefix(ast.MustParseRef("input.ruling")) {
				found = t
			}
		}
		return found != nil
	})
	return found
}

// calls reports whether the rule calls one of the functions of lib.command.
func (m *module) calls(r *ast.Rule, names ...string) bool {
	found := false
	check := func(operator *ast.Term) {
		found = found || slices.Contains(names, m.libraryCall(libCommand, operator))
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if operator := x.OperatorTerm(); operator != nil {
				check(operator)
			}
		case ast.Call:
			check(x[0])
		}
		return false
	}).Walk(r.Body)
	return found
}

// indexable reports whether OPA's rule index, or the guard that loading adds,
// can pass the rule by.
func (m *module) indexable(r *ast.Rule) bool {
	if m.calls(r, "invocations", "runs", "subcommand") {
		return true
	}
	for _, e := range r.Body {
		if e.Negated || len(e.With) > 0 {
			continue
		}
		operands := e.Operands()
		switch op := e.Operator().String(); op {
		case "eq", "equal", "assign", "internal.member_2", "startswith", "endswith", "glob.match":
			if slices.ContainsFunc(operands, m.inputField) && slices.ContainsFunc(operands, (*ast.Term).IsGround) {
				return true
			}
		}
	}
	return false
}

// inputField reports whether t is a reference to one field of the input.
func (m *module) inputField(t *ast.Term) bool {
	ref, ok := t.Value.(ast.Ref)
	if !ok {
		return false
	}
	ref = m.resolve(ref)
	return ref.HasPrefix(ast.InputRootRef) && ref.IsGround() && len(ref) > 1
}

func isBuiltinCall(e *ast.Expr) bool {
	_, ok := ast.BuiltinMap[e.Operator().String()]
	return ok
}

func readsInput(e *ast.Expr) bool {
	for _, t := range e.Operands() {
		if ref, ok := t.Value.(ast.Ref); ok && ref.HasPrefix(ast.InputRootRef) && len(ref) > 1 {
			return true
		}
	}
	return false
}

// patterns counts the constant regular expressions and globs of a file.
func (m *module) patterns() []Finding {
	seen := map[string]map[string]bool{"regex": {}, "glob": {}}
	ast.NewGenericVisitor(func(x any) bool {
		var operator *ast.Term
		var args []*ast.Term
		switch x := x.(type) {
		case *ast.Expr:
			operator, args = x.OperatorTerm(), x.Operands()
		case ast.Call:
			operator, args = x[0], x[1:]
		}
		if operator == nil || len(args) == 0 {
			return false
		}
		kind, _, ok := strings.Cut(operator.String(), ".")
		pattern, constant := args[0].Value.(ast.String)
		if ok && constant && seen[kind] != nil {
			seen[kind][string(pattern)] = true
		}
		return false
	}).Walk(m.parsed)
	var findings []Finding
	for _, kind := range []string{"glob", "regex"} {
		if n := len(seen[kind]); n > maxPatterns {
			findings = append(findings, Finding{Problem{
				File:    m.name,
				Message: fmt.Sprintf("%d %s patterns; past %d each decision compiles them again", n, kind, maxPatterns),
				Hint:    "fold them into one pattern, or look a value up in an object",
			}, CheckPatterns, "warning"})
		}
	}
	return findings
}
