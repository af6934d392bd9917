package rego

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/regent-policy/regent/gate/approval"
)

// Classification is what a call does, before any rule speaks.
type Classification struct {
	Effects  []approval.Effect `json:"effects"`
	External bool              `json:"external"`
	ReadOnly bool              `json:"read_only"`
	// Why says in plain words where each effect comes from.
	Why []string `json:"why"`
	// Nodes are the commands of the call, in order.
	Nodes []NodeEffects `json:"nodes"`
}

// NodeEffects is what one command does.
type NodeEffects struct {
	Program string            `json:"program"`
	Line    int               `json:"line"`
	Text    string            `json:"text"`
	Effects []approval.Effect `json:"effects"`
	Why     []string          `json:"why"`
}

const classifyQuery = `x = {
	"effects": sort(data.regent.call.outcome.effects),
	"external": data.regent.call.outcome.external,
	"read_only": data.regent.call.outcome.read_only,
	"why": data.regent.call.why,
	"nodes": data.regent.call.nodes,
}`

// Classify says what a call does, command by command. It takes longer than a
// ruling, which needs no reasons, and is given the time that an explanation is. An
// error means that it could not tell even so: the effects are then unknown.
func (p *Policy) Classify(ctx context.Context, r *approval.Request) (Classification, error) {
	return p.patient().classify(ctx, p.facts.input(r))
}

// patient is the same policy with the time that explanations are given.
func (p *Policy) patient() *Policy {
	slow := *p
	slow.settings.Timeout = max(slow.settings.Timeout, explainTimeout)
	return &slow
}

func (p *Policy) classify(ctx context.Context, in *Input) (Classification, error) {
	unknown := Classification{Effects: []approval.Effect{approval.EffectUnknown}, External: true, Why: []string{}, Nodes: []NodeEffects{}}
	q, err := p.prepare(ctx, classifyQuery)
	if err != nil {
		return unknown, err
	}
	value, err := in.value(p.asked)
	if err != nil {
		return unknown, err
	}
	object, err := p.query1(ctx, q, value)
	if err != nil {
		return unknown, err
	}
	var c Classification
	if err := ast.As(object, &c); err != nil || len(c.Effects) == 0 {
		return unknown, fmt.Errorf("read the classification: %w", cmp.Or(err, errNoEffects))
	}
	for i := range c.Nodes {
		if i < len(in.Facts.Command.Nodes) {
			n := in.Facts.Command.Nodes[i]
			c.Nodes[i].Program, c.Nodes[i].Line, c.Nodes[i].Text = cmp.Or(n.Name, n.Program), n.Line, n.Text
		}
	}
	return c, nil
}

var errNoEffects = fmt.Errorf("it names no effects")

// Explanation is a ruling with all that led to it.
type Explanation struct {
	Ruling         approval.Ruling `json:"ruling"`
	Classification Classification  `json:"classification"`
	// Nearly are rules of which a part held and a part did not.
	Nearly []NearMiss `json:"nearly"`
	// Facts are what the rules looked at.
	Facts Facts `json:"facts"`
}

// NearMiss is a rule that stopped part of the way.
type NearMiss struct {
	Rule
	// Held is how many of the rule's conditions held before the one that did
	// not.
	Held int `json:"held"`
	// Stopped is the condition that did not hold, as its file writes it, and
	// StoppedLine where it stands.
	Stopped     string `json:"stopped"`
	StoppedLine int    `json:"stopped_line"`
	// Values are the variables of the rule at that moment.
	Values map[string]string `json:"values,omitempty"`
}

// Explain rules on a request like Rule and tells why, rule by rule. It runs
// with tracing and without the rule index, so it is many times slower and is
// given the time for it.
func (p *Policy) Explain(ctx context.Context, r *approval.Request) (Explanation, error) {
	in := p.facts.input(r)
	slow := p.patient()
	out := Explanation{Ruling: p.Rule(ctx, r), Nearly: []NearMiss{}, Facts: in.Facts}
	var err error
	if out.Classification, err = slow.classify(ctx, in); err != nil {
		return out, err
	}
	tracer := &missTracer{policy: p, queries: map[uint64]*attempt{}}
	if _, err := slow.evaluate(ctx, in, oparego.EvalQueryTracer(tracer), oparego.EvalRuleIndexing(false)); err != nil {
		return out, err
	}
	out.Nearly = tracer.misses()
	return out, nil
}

// attempt is one evaluation of one body of a counted rule.
type attempt struct {
	rule   *Rule
	node   *ast.Rule
	fired  bool
	held   int
	failed *ast.Expr
	values map[string]string
}

// missTracer follows the bodies of counted rules and remembers how far each got.
type missTracer struct {
	policy   *Policy
	queries  map[uint64]*attempt
	attempts []*attempt
}

var _ topdown.QueryTracer = (*missTracer)(nil)

// Enabled makes OPA send events.
func (*missTracer) Enabled() bool { return true }

// Config asks for the values of variables.
func (*missTracer) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

// TraceEvent notes where a body of a counted rule stands.
func (t *missTracer) TraceEvent(e topdown.Event) {
	switch e.Op {
	case topdown.EnterOp:
		node, ok := e.Node.(*ast.Rule)
		if !ok || node.Location == nil {
			return
		}
		if r := t.policy.ruleAt(node.Location.File, node.Location.Row); r != nil && r.Line == node.Location.Row && r.Ignored == "" {
			a := &attempt{rule: r, node: node}
			t.queries[e.QueryID] = a
			t.attempts = append(t.attempts, a)
		}
	case topdown.ExitOp:
		if a := t.queries[e.QueryID]; a != nil {
			a.fired = true
		}
	case topdown.FailOp:
		a := t.queries[e.QueryID]
		expr, ok := e.Node.(*ast.Expr)
		if a == nil || !ok || a.fired {
			return
		}
		if held := conditionsBefore(a.node.Body, expr); a.failed == nil || held > a.held {
			a.held, a.failed, a.values = held, expr, valuesOf(e)
		}
	}
}

// conditionsBefore counts the conditions that the file writes before expr: the
// compiler splits one into several, which share its place.
func conditionsBefore(body ast.Body, expr *ast.Expr) int {
	seen := map[int]bool{}
	for _, e := range body {
		if e.Index >= expr.Index {
			break
		}
		if e.Location != nil && tells(string(e.Location.Text)) {
			seen[e.Location.Row] = true
		}
	}
	if expr.Location != nil {
		delete(seen, expr.Location.Row)
	}
	return len(seen)
}

// tells reports whether a condition that held says anything about the request:
// picking a member of a constant always holds.
func tells(condition string) bool {
	picks := strings.HasPrefix(condition, "some ")
	return !picks || strings.Contains(condition, "(") || strings.Contains(condition, "input.")
}

func valuesOf(e topdown.Event) map[string]string {
	values := map[string]string{}
	if e.Locals == nil {
		return values
	}
	e.Locals.Iter(func(k, v ast.Value) bool {
		name, ok := k.(ast.Var)
		if !ok {
			return false
		}
		if meta, ok := e.LocalMetadata[name]; ok {
			name = meta.Name
		}
		if s := string(name); !strings.HasPrefix(s, "__") && !strings.HasPrefix(s, "$") {
			text := v.String()
			if len(text) > 200 {
				text = text[:200] + "..."
			}
			values[s] = text
		}
		return false
	})
	return values
}

// misses are the attempts that got past their first condition, one for each
// rule, those that came furthest first.
func (t *missTracer) misses() []NearMiss {
	fired := map[*Rule]bool{}
	best := map[*Rule]*attempt{}
	for _, a := range t.attempts {
		if a.fired {
			fired[a.rule] = true
		}
		if a.failed == nil || a.held == 0 {
			continue
		}
		if b := best[a.rule]; b == nil || a.held > b.held {
			best[a.rule] = a
		}
	}
	out := []NearMiss{}
	for r, a := range best {
		if fired[r] {
			continue
		}
		miss := NearMiss{Rule: *r, Held: a.held, Values: a.values}
		if l := a.failed.Location; l != nil {
			miss.Stopped, miss.StoppedLine = strings.TrimSpace(string(l.Text)), l.Row
		}
		out = append(out, miss)
	}
	slices.SortFunc(out, func(a, b NearMiss) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return out
}
