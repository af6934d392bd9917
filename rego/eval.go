package rego

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// explainTimeout bounds an explanation, which runs with tracing.
const explainTimeout = 10 * time.Second

// Rule says who answers the request, and why. It does not fail: a policy that
// cannot rule sends the request to a human, and Failure says what went wrong.
// It is done by the evaluation deadline of the settings, or when ctx ends.
func (p *Policy) Rule(ctx context.Context, r *approval.Request) approval.Ruling {
	return p.rule(ctx, p.facts.input(r))
}

func (p *Policy) rule(ctx context.Context, in *Input) approval.Ruling {
	output, err := p.evaluate(ctx, in)
	if err != nil {
		return p.failed(in, err)
	}
	ruling, err := p.ruling(output, in)
	if err != nil {
		return p.failed(in, err)
	}
	return ruling
}

// Input is what the rules would see of the request.
func (p *Policy) Input(r *approval.Request) *Input { return p.facts.input(r) }

// evaluate runs the one query of a decision and returns the object it gives.
func (p *Policy) evaluate(ctx context.Context, in *Input, options ...oparego.EvalOption) (ast.Object, error) {
	return p.evaluateQuery(ctx, p.query, in, options...)
}

func (p *Policy) evaluateQuery(ctx context.Context, q oparego.PreparedEvalQuery, in *Input, options ...oparego.EvalOption) (ast.Object, error) {
	value, err := in.value(p.asked)
	if err != nil {
		return nil, &failure{kind: "evaluation", message: err.Error()}
	}
	return p.query1(ctx, q, value, options...)
}

// query1 runs a query that binds x to one object. The deadline is OPA's own
// cancel flag set by a timer, so that no goroutine is started for it.
func (p *Policy) query1(ctx context.Context, q oparego.PreparedEvalQuery, input ast.Value, options ...oparego.EvalOption) (ast.Object, error) {
	if ctx.Err() != nil {
		return nil, stopped(ctx)
	}
	cancel := topdown.NewCancel()
	timer := time.AfterFunc(p.settings.Timeout, cancel.Cancel)
	defer timer.Stop()
	stop := context.AfterFunc(ctx, cancel.Cancel)
	defer stop()

	cache := newVirtualCache()
	defer cache.release()
	options = append([]oparego.EvalOption{
		oparego.EvalParsedInput(input),
		oparego.EvalVirtualCache(cache),
		oparego.EvalTransaction(p.txn),
		oparego.EvalExternalCancel(cancel),
		oparego.EvalMetrics(metrics.NoOp()),
	}, options...)
	// The context stays behind: OPA would start a goroutine to watch it.
	results, err := q.Eval(context.WithoutCancel(ctx), options...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, stopped(ctx)
		}
		return nil, evaluationFailure(err)
	}
	if len(results) != 1 {
		return nil, &failure{kind: "undefined", message: "the policies gave no decision"}
	}
	term, ok := results[0].Bindings["x"].(*ast.Term)
	if !ok {
		return nil, &failure{kind: "undefined", message: "the policies gave no decision"}
	}
	object, ok := term.Value.(ast.Object)
	if !ok {
		return nil, &failure{kind: "output", message: "the decision is not an object"}
	}
	return object, nil
}

// stopped is why an evaluation gave no answer whose caller went away.
func stopped(ctx context.Context) *failure {
	return &failure{kind: "deadline", message: fmt.Sprintf("the evaluation was stopped: %v", context.Cause(ctx))}
}

// failed is the ruling when policy could not rule. A rule that fails must not turn
// into a question what no rule can allow, nor lift the limit of what a person may
// grant: what the ceilings of the rules are is not known then, so that a grant
// ends with the turn.
func (p *Policy) failed(in *Input, err error) approval.Ruling {
	out := p.failure(err)
	ceiling := openedCeiling(in)
	ceiling.Scope = permission.Turn
	out.Ceiling = &ceiling
	if in.Facts.Guard.Barred {
		out.Route = approval.RouteDeny
		out.Reasons = []string{"policy could not rule, and Regent's own guard denies this: " + out.Failure.Message}
	}
	return out
}

// failure is the ruling that asks because policy could not rule.
func (p *Policy) failure(err error) approval.Ruling {
	f := p.fault(err)
	out := approval.Ruling{
		Route:     approval.RouteAsk,
		Effects:   []approval.Effect{approval.EffectUnknown},
		External:  true,
		Rules:     []approval.Match{},
		Reasons:   []string{"policy could not rule, so a person is asked: " + f.Message},
		Deadlines: p.deadlines(),
		Epoch:     p.epoch,
		Failure:   f,
	}
	return out
}

// fault says why an evaluation gave no answer, and which rule is to blame.
func (p *Policy) fault(err error) *approval.Failure {
	f := &failure{kind: "evaluation", message: err.Error()}
	errors.As(err, &f)
	out := &approval.Failure{Kind: f.kind, Message: f.message, File: f.file, Line: f.line}
	if r := p.ruleAt(f.file, f.line); r != nil {
		out.Rule = r.ID
	}
	return out
}

// Unloaded is the ruling where no policy could be loaded at all: everything is
// asked, and no permissions can be granted, since nothing says which.
func Unloaded(err error, s Settings) approval.Ruling {
	p := &Policy{settings: s}
	out := p.failure(&failure{kind: "load", message: err.Error()})
	out.Ceiling = &permission.Ceiling{Scope: permission.Turn}
	if load, ok := errors.AsType[*LoadError](err); ok && len(load.Problems) > 0 {
		first := load.Problems[0]
		out.Failure.File, out.Failure.Line = first.File, first.Line
	}
	return out
}

// ruleAt is the counted rule that a place in a file belongs to.
func (p *Policy) ruleAt(file string, line int) *Rule {
	var found *Rule
	for _, r := range p.rules {
		if r.File == file && r.Line <= line && (found == nil || r.Line > found.Line) {
			found = r
		}
	}
	return found
}

func (p *Policy) deadlines() approval.Deadlines {
	return approval.Deadlines{ReviewSeconds: p.settings.ReviewSeconds, RequestSeconds: p.settings.RequestSeconds}
}

// answer reads the object that data.regent.route gives. The first member that
// is missing or of the wrong type spoils the whole: half an answer is none.
type answer struct {
	object ast.Object
	err    error
}

// part is an object inside the answer.
func (a *answer) part(name string) *answer {
	object, ok := a.get(name).(ast.Object)
	if !ok {
		a.fail(name)
		object = ast.NewObject()
	}
	return &answer{object: object}
}

func (a *answer) get(name string) ast.Value {
	t := a.object.Get(ast.InternedTerm(name))
	if t == nil {
		a.fail(name)
		return ast.Null{}
	}
	return t.Value
}

func (a *answer) fail(name string) {
	if a.err == nil {
		a.err = &failure{kind: "output", message: fmt.Sprintf("the decision has no usable %s", name)}
	}
}

func (a *answer) text(name string) string {
	s, ok := a.get(name).(ast.String)
	if !ok {
		a.fail(name)
	}
	return string(s)
}

func (a *answer) flag(name string) bool {
	b, ok := a.get(name).(ast.Boolean)
	if !ok {
		a.fail(name)
	}
	return bool(b)
}

func (a *answer) texts(name string) []string {
	array, ok := a.get(name).(*ast.Array)
	if !ok {
		a.fail(name)
		return nil
	}
	var out []string
	array.Foreach(func(t *ast.Term) {
		s, ok := t.Value.(ast.String)
		if !ok {
			a.fail(name)
		}
		out = append(out, string(s))
	})
	return out
}

// matches reads a list of sets of tagged values.
func (a *answer) matches(p *Policy, name string) []approval.Match {
	sets, ok := a.get(name).(*ast.Array)
	if !ok {
		a.fail(name)
		return nil
	}
	var out []approval.Match
	for i := range sets.Len() {
		set, ok := sets.Elem(i).Value.(ast.Set)
		if !ok {
			a.fail(name)
			return nil
		}
		if set.Len() == 0 {
			continue
		}
		for _, t := range set.Slice() {
			m, err := p.match(t.Value)
			if err != nil {
				a.fail(name + ": " + err.Error())
				return nil
			}
			out = append(out, m)
		}
	}
	return out
}

func messages(matches []approval.Match) []string {
	var out []string
	for _, m := range matches {
		out = append(out, m.Message)
	}
	return out
}

// ruling turns the answer into a Ruling, and refuses one that it cannot read in
// full.
func (p *Policy) ruling(output ast.Object, in *Input) (approval.Ruling, error) {
	a := &answer{object: output}
	decision, call, rules := a.part("decision"), a.part("call"), a.part("rules")
	out := approval.Ruling{
		Route:     approval.Route(decision.text("route")),
		External:  call.flag("external"),
		ReadOnly:  call.flag("read_only"),
		Rules:     []approval.Match{},
		Reasons:   decision.texts("reasons"),
		Deadlines: p.deadlines(),
		Epoch:     p.epoch,
	}
	if out.Route == approval.RouteReview {
		// Who is named by several rules is asked once.
		for _, name := range decision.texts("reviewers") {
			if !slices.Contains(out.Reviewers, name) {
				out.Reviewers = append(out.Reviewers, name)
			}
		}
	}
	var reviews []approval.Match
	effects, ok := call.get("effects").(ast.Set)
	if !ok || effects.Len() == 0 {
		call.fail("effects")
	} else {
		out.Effects = make([]approval.Effect, 0, effects.Len())
		for _, t := range effects.Slice() { // in order
			e, _ := t.Value.(ast.String)
			out.Effects = append(out.Effects, approval.Effect(e))
		}
	}
	switch out.Route {
	case approval.RouteSkip, approval.RouteAllow, approval.RouteDeny, approval.RouteReview, approval.RouteAsk:
	default:
		decision.fail("route")
	}
	if decision.object.Get(ast.InternedTerm("granted")) != nil {
		out.Granted = decision.flag("granted")
	}
	if guards := decision.object.Get(ast.InternedTerm("guards")); guards != nil {
		var err error
		if out.Rules, err = p.guarded(guards.Value); err != nil {
			decision.fail("guards")
		}
	}
	// The rules that settled the route come first: a deny outranks an ask.
	for _, name := range decisions {
		found := rules.matches(p, name)
		if name == "review" {
			reviews = found
		}
		out.Rules = append(out.Rules, found...)
		if name == string(out.Route) || name == "review" && out.Route == approval.RouteAsk && len(out.Rules) == len(found) {
			out.Reasons = append(out.Reasons, messages(found)...)
		}
	}
	out.Observed = rules.matches(p, "observed")
	out.Context = messages(rules.matches(p, "context"))
	if len(out.Rules) > 1 {
		slices.SortStableFunc(out.Rules, bySeverity)
	}
	p.empower(&out, reviews)
	var err error
	if out.Ceiling, err = p.ceiling(rules.get("ceiling"), in); err != nil {
		err = &failure{kind: "output", message: err.Error()}
	}
	return out, cmp.Or(a.err, decision.err, call.err, rules.err, err)
}

// guarded are the guards that deny a call, as rules that fired.
func (p *Policy) guarded(v ast.Value) ([]approval.Match, error) {
	var said []struct{ ID, Message string }
	if err := ast.As(v, &said); err != nil {
		return nil, err
	}
	matches := make([]approval.Match, 0, len(said))
	for _, s := range said {
		r := p.guards[s.ID]
		if r == nil {
			return nil, fmt.Errorf("guard %q does not exist", s.ID)
		}
		matches = append(matches, r.match(s.Message))
	}
	return matches, nil
}

// match is what a ruling says of the rule when it fired.
func (r *Rule) match(message string) approval.Match {
	return approval.Match{
		ID: r.ID, Decision: r.Decision, Message: message, Title: r.Title, Severity: r.Severity, Mode: r.Mode,
		Layer: string(r.Layer), Package: r.Package, File: r.File, Line: r.Line,
	}
}

// decisions are the names of rules that settle a route, the strictest first.
var decisions = []string{"deny", "ask", "review", "allow"}

// bySeverity keeps the order of decisions and puts the gravest rule of each first.
func bySeverity(a, b approval.Match) int {
	rank := func(m approval.Match) int {
		return slices.Index(decisions, m.Decision)*10 - slices.Index(severities, m.Severity)
	}
	return rank(a) - rank(b)
}

// match gives a tagged value the identity of its rule.
func (p *Policy) match(v ast.Value) (approval.Match, error) {
	object, ok := v.(ast.Object)
	if !ok {
		return approval.Match{}, errors.New("a value without a rule")
	}
	number, value := object.Get(ast.InternedTerm("rule")), object.Get(ast.InternedTerm("value"))
	if number == nil || value == nil {
		return approval.Match{}, errors.New("a value without a rule")
	}
	n, ok := number.Value.(ast.Number)
	i, exact := n.Int()
	if !ok || !exact || i < 0 || i >= len(p.rules) {
		return approval.Match{}, fmt.Errorf("a value of rule number %v, which does not exist", number)
	}
	r := p.rules[i]
	m := r.match("")
	if r.Decision == "verdict" {
		m.Verdict = wish(value.Value)
	}
	if s, ok := value.Value.(ast.String); ok {
		m.Message = string(s)
		return m, nil
	}
	var said struct {
		Message   string           `json:"message"`
		ID        string           `json:"id"`
		Reviewers []string         `json:"reviewers"`
		Scope     permission.Scope `json:"scope"`
	}
	if err := ast.As(value.Value, &said); err != nil || said.Message == "" {
		// A restriction with an odd value is still a restriction.
		m.Message = value.String()
	} else {
		m.Message, m.Reviewers, m.Scope = said.Message, said.Reviewers, said.Scope
		if said.ID != "" {
			m.ID = said.ID
		}
	}
	if said, ok := value.Value.(ast.Object); ok && r.Decision == "review" {
		if err := r.powers(said, &m); err != nil {
			return approval.Match{}, fmt.Errorf("rule %s: %w", r.ID, err)
		}
	}
	return m, nil
}

// ceiling intersects what the packages that set one allow.
func (p *Policy) ceiling(v ast.Value, in *Input) (*permission.Ceiling, error) {
	array, ok := v.(*ast.Array)
	if !ok {
		return nil, errors.New("the decision has no usable ceilings")
	}
	limited := len(in.Facts.Guard.Opens) > 0
	if array.Len() == 0 && !limited {
		return nil, nil
	}
	env := Environment(in.Environment)
	out := openedCeiling(in)
	for i := range array.Len() {
		var ceilings []struct {
			Package string                     `json:"package"`
			Value   map[string]json.RawMessage `json:"value"`
		}
		if err := ast.As(array.Elem(i).Value, &ceilings); err != nil {
			return nil, fmt.Errorf("a ceiling is not a profile: %w", err)
		}
		for _, c := range ceilings {
			limited = true
			if err := lower(&out, c.Value, env); err != nil {
				return nil, fmt.Errorf("ceiling of %s: %w", c.Package, err)
			}
		}
	}
	if !limited {
		return nil, nil
	}
	return &out, nil
}

// openedCeiling limits nothing but the sealed files that the request would open.
func openedCeiling(in *Input) permission.Ceiling {
	out := permission.Unlimited()
	for _, name := range in.Facts.Guard.Opens {
		out.Permissions.FileSystem.Entries = append(out.Permissions.FileSystem.Entries, permission.Literal(name, permission.Deny))
	}
	return out
}

// lower brings a ceiling down to what the fields of another one allow: a
// profile, and beside it the longest scope.
func lower(c *permission.Ceiling, fields map[string]json.RawMessage, env permission.Environment) error {
	if raw, ok := fields["scope"]; ok {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("scope: %w", err)
		}
		scope, err := permission.ParseScope(text)
		if err != nil {
			return fmt.Errorf("scope: %w", err)
		}
		delete(fields, "scope")
		if scope.Within(c.Scope) {
			c.Scope = scope
		}
	}
	if len(fields) == 0 {
		return nil
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	var profile permission.Profile
	if err := json.Unmarshal(raw, &profile); err != nil {
		return err
	}
	if profile, _, err = permission.Normalise(profile, permission.SideCeiling, env, nil); err != nil {
		return err
	}
	c.Permissions = permission.Intersect(c.Permissions, profile)
	return nil
}

// Describe is a rule in one line: file, line, id and title.
func (r Rule) Describe() string {
	parts := []string{fmt.Sprintf("%s:%d", r.File, r.Line), r.ID}
	if r.Title != "" {
		parts = append(parts, r.Title)
	}
	return strings.Join(parts, " ")
}
