package rego

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// counted are the names of rules that Regent reads, by what their values are.
var counted = map[string]bool{"deny": true, "ask": true, "review": true, "allow": true, "ceiling": true, "context": true, "verdict": true}

// The closed sets of a rule's metadata.
var (
	modes      = []string{"enforce", "warn", "shadow"}
	severities = []string{"info", "low", "medium", "high", "critical"}
)

// Rule is a rule whose name counts, with its identity.
type Rule struct {
	// ID is custom.id of the nearest metadata, or package and name.
	ID string `json:"id"`
	// Decision is deny, ask, review, allow, ceiling, context or verdict.
	Decision string `json:"decision"`
	Title    string `json:"title,omitempty"`
	Severity string `json:"severity,omitempty"`
	// Mode is enforce, warn or shadow.
	Mode    string    `json:"mode"`
	Layer   LayerName `json:"layer"`
	Package string    `json:"package"`
	File    string    `json:"file"`
	Line    int       `json:"line"`
	// Ignored says why the rule counts for nothing, when it does not.
	Ignored string `json:"ignored,omitempty"`

	// module and place are where the parsed rule stands; see union.
	module string
	place  int
	// byReference is true for a rule that must stay in its package.
	byReference bool
	// untrusted is true for a rule that can only tighten.
	untrusted bool
}

// module is one parsed Rego file of a layer.
type module struct {
	layer  LayerName
	name   string
	parsed *ast.Module
}

// key names the module to the compiler; two layers may show the same name.
func (m *module) key() string { return string(m.layer) + "/" + m.name }

func parserOptions() ast.ParserOptions {
	return ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1}
}

// parse reads a file and checks that it keeps to its layer's root.
func parse(layer LayerName, f file) (*module, []Problem) {
	m, err := ast.ParseModuleWithOpts(f.name, string(f.data), parserOptions())
	if err != nil {
		if m == nil && !bytes.Contains(f.data, []byte("package")) {
			return nil, []Problem{{File: f.name, Message: "no package", Hint: "a policy starts with one, such as package " + packageName(layer.RulesRoot()) + ".git"}}
		}
		if problems, ok := fromOPA(err); ok {
			return nil, problems
		}
		return nil, []Problem{{File: f.name, Message: err.Error()}}
	}
	if root := layer.Root(); !m.Package.Path.HasPrefix(root) {
		return nil, []Problem{{
			File: f.name, Line: m.Package.Location.Row, Column: m.Package.Location.Col,
			Message: fmt.Sprintf("package %s is outside %s, where alone the %s layer may write", packageName(m.Package.Path), packageName(root), layer),
			Hint:    fmt.Sprintf("write package %s.%s", packageName(layer.RulesRoot()), lastName(m.Package.Path)),
		}}
	}
	return &module{layer: layer, name: f.name, parsed: m}, nil
}

// packageName is a package's path as its file writes it.
func packageName(path ast.Ref) string {
	return strings.TrimPrefix(path.String(), "data.")
}

func lastName(path ast.Ref) string {
	if s, ok := path[len(path)-1].Value.(ast.String); ok {
		return string(s)
	}
	return "policy"
}

// identify lists the counted rules of a module and checks their shape.
func (m *module) identify(annotations *ast.AnnotationSet) ([]*Rule, []*ast.Rule, []Problem) {
	if !m.parsed.Package.Path.HasPrefix(m.layer.RulesRoot()) {
		return nil, nil, nil
	}
	var (
		rules    []*Rule
		nodes    []*ast.Rule
		problems []Problem
	)
	byReference := m.asksForMetadata()
	for place, r := range m.parsed.Rules {
		name := string(r.Head.Name)
		if ref := r.Head.Ref(); len(ref) > 0 {
			if v, ok := ref[0].Value.(ast.Var); ok {
				name = string(v)
			}
		}
		if !counted[name] {
			continue
		}
		at := func(message, hint string) {
			problems = append(problems, Problem{File: m.name, Line: r.Location.Row, Column: r.Location.Col, Message: message, Hint: hint})
		}
		switch {
		case len(r.Head.Args) > 0:
			at(fmt.Sprintf("%s is a function here, and Regent reads it as a rule", name), "give the function another name")
			continue
		case name == "ceiling":
			if len(r.Head.Ref()) != 1 || r.Head.Key != nil {
				at("ceiling must be one profile", `write ceiling := {"network": {"enabled": false}}`)
				continue
			}
			if r.Default {
				at("ceiling may not have a default", "leave it undefined where nothing is limited")
				continue
			}
		case r.Default || len(r.Head.Ref()) != 1 || r.Head.Key == nil || r.Head.RuleKind() != ast.MultiValue:
			value := `"why"`
			if name == "verdict" {
				value = `{"message": "why", "decision": "ask"}`
			}
			at(fmt.Sprintf("%s must be a set of messages", name), fmt.Sprintf(`write %s contains %s if { ... }`, name, value))
			continue
		}
		rule := &Rule{
			Decision: name,
			Mode:     "enforce",
			Layer:    m.layer,
			Package:  packageName(m.parsed.Package.Path),
			File:     m.name,
			Line:     r.Location.Row,

			module: m.key(), place: place, byReference: byReference,
		}
		rule.ID = rule.Package + "." + name
		if err := rule.describe(annotations.Chain(r)); err != nil {
			at(err.Error(), "")
			continue
		}
		rules = append(rules, rule)
		nodes = append(nodes, r)
	}
	return rules, nodes, problems
}

// describe fills in the metadata; the nearest block wins, key by key.
func (r *Rule) describe(chain ast.AnnotationsRefSet) error {
	// Chain runs from the rule outwards, so the far ones are read first.
	for _, ref := range slices.Backward(chain) {
		a := ref.Annotations
		if a == nil {
			continue
		}
		if a.Title != "" {
			r.Title = a.Title
		}
		for key, into := range map[string]*string{"id": &r.ID, "severity": &r.Severity, "mode": &r.Mode} {
			v, ok := a.Custom[key]
			if !ok {
				continue
			}
			s, ok := v.(string)
			if !ok || s == "" {
				return fmt.Errorf("custom.%s in the metadata must be text", key)
			}
			*into = s
		}
	}
	if !slices.Contains(modes, r.Mode) {
		return fmt.Errorf("custom.mode is %q in the metadata; use enforce, warn or shadow", r.Mode)
	}
	if r.Severity != "" && !slices.Contains(severities, r.Severity) {
		return fmt.Errorf("custom.severity is %q in the metadata; use info, low, medium, high or critical", r.Severity)
	}
	return nil
}

// tag rewrites the heads of counted rules so that each value carries the number
// of the rule that gave it, from first on. What the bodies mean stays the same.
//
// It returns the programs that the bodies ask for by name.
func (m *module) tag(nodes []*ast.Rule, rules []*Rule, first int) []string {
	var asked []string
	for i, r := range nodes {
		if r.Head.Key == nil {
			continue // a ceiling: one value for each package, told apart by it
		}
		tags := [][2]*ast.Term{
			ast.Item(ast.InternedTerm("rule"), ast.InternedTerm(first+i)),
			ast.Item(ast.InternedTerm("id"), ast.StringTerm(rules[i].ID)),
			ast.Item(ast.InternedTerm("mode"), ast.StringTerm(rules[i].Mode)),
			ast.Item(ast.InternedTerm("value"), r.Head.Key),
		}
		if rules[i].Decision == "verdict" || rules[i].Decision == "review" {
			// What it decides is known when it fires, and so is whether it may: a review
			// is stricter than some answers and looser than others.
			tags = append(tags, ast.Item(ast.InternedTerm("trusted"), ast.InternedTerm(!rules[i].untrusted)))
		}
		r.Head.Key = ast.ObjectTerm(tags...).SetLocation(r.Head.Location)
		asked = append(asked, m.guard(r)...)
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if operator := x.OperatorTerm(); operator != nil {
				m.lighten(operator, x.Operands())
			}
		case ast.Call:
			m.lighten(x[0], x[1:])
		}
		return false
	}).Walk(m.parsed)
	return asked
}

var (
	programsRef = ast.MustParseTerm("input.facts.programs")
	libCommand  = ast.MustParseRef("data.regent.lib.command")
	libPaths    = ast.MustParseRef("data.regent.lib.paths")
)

// guard puts `"git" in input.facts.programs` before a body that can only hold
// where git is used: OPA's rule index cannot look into a function, but it can
// exclude a rule by this test without evaluating it. A body that counts the uses,
// compares them or hands them on may hold where there are none, and stays as it is.
func (m *module) guard(r *ast.Rule) []string {
	var programs []string
	for _, e := range r.Body {
		if e.Negated || len(e.With) > 0 {
			continue
		}
		if program := m.needs(e); program != "" && !slices.Contains(programs, program) {
			programs = append(programs, program)
		}
	}
	for _, p := range programs {
		// A copy, because the operator's term is one for the whole process.
		e := ast.Member.Expr(ast.StringTerm(p), programsRef).Copy()
		e.Location = r.Body[0].Location
		ast.WalkTerms(e, func(t *ast.Term) bool {
			t.Location = r.Body[0].Location
			return false
		})
		r.Body = append(ast.NewBody(e), r.Body...)
	}
	for i, e := range r.Body {
		e.Index = i
	}
	return programs
}

// needs is the program without whose use the condition cannot hold, in one of
// these forms; empty for any other condition:
//
//	some use in command.invocations("git")
//	use := command.invocations("git")[_]
//	command.runs("git")
func (m *module) needs(e *ast.Expr) string {
	if decl, ok := e.Terms.(*ast.SomeDecl); ok {
		for _, symbol := range decl.Symbols {
			if member, ok := symbol.Value.(ast.Call); ok {
				return m.uses(member[len(member)-1])
			}
		}
		return ""
	}
	operator := e.OperatorTerm()
	if operator == nil {
		return ""
	}
	operands := e.Operands()
	if m.libraryCall(libCommand, operator) == "runs" {
		return constant(operands)
	}
	if name := e.Operator().String(); name != ast.Assign.Name && name != ast.Equality.Name && name != ast.Equal.Name {
		return ""
	}
	for _, t := range operands {
		if ref, ok := t.Value.(ast.Ref); ok && len(ref) > 1 {
			if program := m.uses(ref[0]); program != "" {
				return program
			}
		}
	}
	return ""
}

// uses is the program whose uses the term lists.
func (m *module) uses(t *ast.Term) string {
	call, ok := t.Value.(ast.Call)
	if !ok {
		return ""
	}
	switch m.libraryCall(libCommand, call[0]) {
	case "invocations", "subcommand":
		return constant(call[1:])
	default:
		return ""
	}
}

// constant is the first argument, where it is text.
func constant(args []*ast.Term) string {
	if len(args) == 0 {
		return ""
	}
	s, _ := args[0].Value.(ast.String)
	return string(s)
}

// lighten takes the request out of a call such as paths.write_targets(input.request).
// The function is given it so that a rule reads well, and does not look at it;
// OPA would turn the whole request into values to remember the answer by.
func (m *module) lighten(operator *ast.Term, args []*ast.Term) {
	switch m.libraryCall(libPaths, operator) {
	case "write_targets", "read_targets", "targets", "unclear":
		if len(args) > 0 && args[0].IsGround() {
			args[0] = ast.NullTerm().SetLocation(args[0].Location)
		}
	}
}

// libraryCall is the name of the function of a library package that operator
// calls, however the file imports it; empty for any other.
func (m *module) libraryCall(library ast.Ref, operator *ast.Term) string {
	ref, ok := operator.Value.(ast.Ref)
	if !ok {
		return ""
	}
	ref = m.resolve(ref)
	if !ref.HasPrefix(library) || len(ref) != len(library)+1 {
		return ""
	}
	name, _ := ref[len(ref)-1].Value.(ast.String)
	return string(name)
}

// resolve replaces the first part of a reference by what the file imports under
// that name.
func (m *module) resolve(ref ast.Ref) ast.Ref {
	name, ok := ref[0].Value.(ast.Var)
	if !ok {
		return ref
	}
	for _, i := range m.parsed.Imports {
		path, ok := i.Path.Value.(ast.Ref)
		if ok && i.Name() == name {
			return path.Concat(ref[1:])
		}
	}
	return ref
}

// layersModule is the key of the module that unites the layers.
const layersModule = "regent/layers.rego"

// union is how the counted rules of the layers come together in one package,
// regent.layers.
//
// Most rules are moved there: once the compiler has resolved what a rule refers
// to, it means the same in another package, and one index over all of them is
// asked once instead of each package's own. Rules of a package that asks for its
// own metadata are referred to instead, since where they stand matters to them.
type union struct {
	moved []move
	// lists are the elements of data.regent.layers.rules by name: sets of tagged
	// values, or of ceilings.
	lists map[string][]string
}

// move takes a rule of a module, by its place there, into a set.
type move struct {
	module string
	place  int
	into   string
}

// movedInto is the set of the layers' module that moved rules of a list fill.
func movedInto(list string) string { return "moved_" + list }

// list is the list of the layers that the rule's values are in.
func (r *Rule) list() string {
	if r.Mode != "enforce" {
		return observedBeside(r.Decision)
	}
	return r.Decision
}

// observedBeside is the list that takes what rules of a name say in mode warn and
// shadow. Verdict rules are not evaluated with the others, hence not listed with
// them.
func observedBeside(name string) string {
	if name == "verdict" {
		return "observed_verdict"
	}
	return "observed"
}

// unite decides for each rule how it is reached. Only rules in mode enforce are
// reached by their own name; the others are observed.
func unite(rules []*Rule) (*union, error) {
	u := &union{lists: map[string][]string{}}
	seen := map[string]*Rule{}
	for _, r := range rules {
		if r.Ignored != "" {
			continue
		}
		list := r.list()
		path := "data." + r.Package + "." + r.Decision
		first := seen[path]
		switch {
		case r.Decision == "ceiling" && first != nil && first.Mode != r.Mode:
			return nil, &LoadError{Problems: []Problem{{File: r.File, Line: r.Line, Message: "the ceilings of one package have different modes", Hint: "put them in packages of their own"}}}
		case r.Decision == "ceiling":
			if first == nil && list == "ceiling" {
				u.lists[list] = append(u.lists[list], fmt.Sprintf(`[{"package": %q, "value": c} | c := %s]`, r.Package, path))
			}
		case r.byReference:
			for list, mode := range map[string]string{r.Decision: "==", observedBeside(r.Decision): "!="} {
				if first == nil {
					u.lists[list] = append(u.lists[list], fmt.Sprintf(`{m | some m in %s; m.mode %s "enforce"}`, path, mode))
				}
			}
		default:
			u.moved = append(u.moved, move{r.module, r.place, movedInto(list)})
			// By its whole path, for the rules come after names are resolved.
			if set := "data.regent.layers." + movedInto(list); !slices.Contains(u.lists[list], set) {
				u.lists[list] = append(u.lists[list], set)
			}
		}
		if first == nil {
			seen[path] = r
		}
	}
	return u, nil
}

// write is the module that holds the lists. data.regent.layers.silence is what
// the lists of decisions are when no rule fires, so that one comparison tells.
func (u *union) write() (*ast.Module, error) {
	var b strings.Builder
	b.WriteString("package regent.layers\n\nrules := {\n")
	for _, name := range []string{"deny", "ask", "review", "allow", "ceiling", "context", "observed"} {
		fmt.Fprintf(&b, "\t%q: [%s],\n", name, strings.Join(u.lists[name], ", "))
	}
	b.WriteString("}\n\nsilence := {\n")
	for _, name := range decisions {
		fmt.Fprintf(&b, "\t%q: [%s],\n", name, strings.Join(slices.Repeat([]string{"set()"}, len(u.lists[name])), ", "))
	}
	b.WriteString("}\n")
	for _, name := range []string{"verdict", "observed_verdict"} {
		fmt.Fprintf(&b, "\n%ss := [%s]\n", name, strings.Join(u.lists[name], ", "))
	}
	m, err := ast.ParseModuleWithOpts(layersModule, b.String(), parserOptions())
	if err != nil {
		return nil, errors.Join(errors.New("unite the layers"), err)
	}
	return m, nil
}

// stage moves the rules, as a stage of the compiler that follows the one which
// resolves references. A rule that some other rule may refer to is copied.
func (u *union) stage(c *ast.Compiler) *ast.Error {
	layers := c.Modules[layersModule]
	referred := references(c)
	gone := map[*ast.Rule]bool{}
	for _, m := range u.moved {
		r := c.Modules[m.module].Rules[m.place]
		if path := r.Module.Package.Path.Append(ast.StringTerm(string(r.Head.Name))); referred(path) {
			r = r.Copy()
		} else {
			gone[r] = true
		}
		name := ast.VarTerm(m.into).SetLocation(r.Head.Location)
		r.Head.Name, r.Head.Reference = ast.Var(m.into), ast.Ref{name}
		r.Module = layers
		layers.Rules = append(layers.Rules, r)
	}
	for name, module := range c.Modules {
		if name != layersModule {
			module.Rules = slices.DeleteFunc(module.Rules, func(r *ast.Rule) bool { return gone[r] })
		}
	}
	return nil
}

// references tells which rules the modules refer to. The answer is yes too often
// where a reference has a variable in it.
func references(c *ast.Compiler) func(path ast.Ref) bool {
	// seen holds the paths that are referred to, and all paths above them.
	seen, whole := map[string]bool{}, map[string]bool{}
	for _, m := range c.Modules {
		for _, rule := range m.Rules {
			ast.WalkRefs(rule, func(r ast.Ref) bool {
				if r.HasPrefix(ast.DefaultRootRef) {
					ground := r.GroundPrefix()
					whole[ground.String()] = true
					for n := range ground {
						seen[ground[:n+1].String()] = true
					}
				}
				return false
			})
		}
	}
	return func(path ast.Ref) bool {
		// Something in the value of the rule, or the rule.
		if seen[path.String()] {
			return true
		}
		// A document that the rule is in.
		for n := range path {
			if whole[path[:n+1].String()] {
				return true
			}
		}
		return false
	}
}

// asksForMetadata reports whether the module looks at its own annotations.
func (m *module) asksForMetadata() bool {
	found := false
	ast.WalkRefs(m.parsed, func(r ast.Ref) bool {
		found = found || len(r) > 2 && r[0].Equal(ast.VarTerm("rego")) && r[1].Equal(ast.StringTerm("metadata"))
		return found
	})
	return found
}
