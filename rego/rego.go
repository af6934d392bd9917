// Package rego is the policy engine: it loads the built-in policies and those of
// the layers above a workspace, compiles them with OPA, and rules on requests.
// It proposes; what becomes of a ruling is decided elsewhere.
package rego

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/catalog"
	"github.com/regent-policy/regent/rego/policy"
	"github.com/regent-policy/regent/rego/schema"
)

// Source is everything an engine is made from.
type Source struct {
	Settings Settings
	// Layers hold the rules of the organisation, the home and the workspace;
	// absent ones are left out.
	Layers []Layer
	// Protected are files and folders, besides the layers' own, that a call may
	// not change without a person: config.yaml, plugins, the ledger.
	Protected []string
	// Sealed are files and folders that no call may reach at all, not even to read
	// them: the daemon's socket, the ledger, tokens. They need not exist.
	Sealed []string
	// SealedHosts are the addresses, host:port, that no call may reach: those that
	// the daemon listens on.
	SealedHosts []string
	// Others is what else decisions depend on that are made on these rules, as
	// text: reviewers and plugins. It is part of the fingerprint, and of no rule.
	Others string
	// Reviewers are the reviewers that are rules. That they are configured is part of
	// Others.
	Reviewers []ReviewerRule
	// Tools, when not nil, stands in for the built-in tool tables. It exists for
	// benchmarks of large catalogues.
	Tools fs.FS
}

// Policy is one immutable, compiled set of policies. It is safe for concurrent
// use; a reload makes a new one.
type Policy struct {
	settings Settings
	epoch    string
	rules    []*Rule
	files    []File
	facts    *facts
	guards   map[string]*Rule
	asked    map[string]bool
	compiler *ast.Compiler
	store    storage.Store
	// txn is the one read transaction of a store that never changes.
	txn storage.Transaction
	// query is data.regent.route, and judge data.regent.verdict.
	query, judge oparego.PreparedEvalQuery
	// opinions are the queries of reviewers that are rules.
	opinions map[string]opinion
}

// File is one file that a layer holds, as the loader saw it.
type File struct {
	Name  string    `json:"name"`
	Layer LayerName `json:"layer"`
	// Kind is policy, test, data or ignored.
	Kind string `json:"kind"`
	// Reason says why an ignored file is ignored.
	Reason string `json:"reason,omitempty"`
}

// builtin is what every engine shares: parsed once for each process.
type builtinSet struct {
	modules  map[string]*ast.Module
	guards   map[string]*Rule
	commands *argv.Table
	tools    *catalog.Catalog
	sum      string
	// commandsData and toolsData are the tables as OPA's values, by far the largest
	// part of the data. Values are never changed, so all engines have the same.
	commandsData, toolsData ast.Value
}

var loadBuiltin = sync.OnceValues(func() (*builtinSet, error) {
	b := &builtinSet{modules: map[string]*ast.Module{}}
	sum := sha256.New()
	err := fs.WalkDir(policy.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(policy.FS, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", p, len(data))
		sum.Write(data)
		if !strings.HasSuffix(p, ".rego") || strings.HasSuffix(p, "_test.rego") {
			return nil
		}
		m, err := ast.ParseModuleWithOpts("regent/"+p, string(data), parserOptions())
		if err != nil {
			return err
		}
		b.modules["regent/"+p] = m
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the built-in policies: %w", err)
	}
	if b.commands, err = argv.Load(policy.Commands()); err != nil {
		return nil, fmt.Errorf("read the command tables: %w", err)
	}
	if b.tools, err = catalog.Load(policy.Tools()); err != nil {
		return nil, fmt.Errorf("read the tool catalogue: %w", err)
	}
	if b.commandsData, err = ast.InterfaceToValue(b.commands.Data()); err != nil {
		return nil, fmt.Errorf("read the command tables: %w", err)
	}
	if b.toolsData, err = ast.InterfaceToValue(b.tools.Value()); err != nil {
		return nil, fmt.Errorf("read the tool catalogue: %w", err)
	}
	if b.guards, err = guardRules(b.modules[guardsModule]); err != nil {
		return nil, err
	}
	b.sum = hex.EncodeToString(sum.Sum(nil))
	return b, nil
})

// guardsModule is the key of the module with the guards.
const guardsModule = "regent/guards/guards.rego"

// guardRules are the guards that rulings name among the rules that fired, by id.
func guardRules(m *ast.Module) (map[string]*Rule, error) {
	annotations, errs := ast.BuildAnnotationSet([]*ast.Module{m})
	if len(errs) > 0 {
		return nil, fmt.Errorf("read the guards: %w", errs)
	}
	rules := map[string]*Rule{}
	for _, r := range m.Rules {
		if r.Head.Name != "barred" {
			continue
		}
		rule := &Rule{
			Decision: "deny", Mode: "enforce", Layer: Builtin, Package: packageName(m.Package.Path),
			File: guardsModule, Line: r.Location.Row,
		}
		if err := rule.describe(annotations.Chain(r)); err != nil {
			return nil, fmt.Errorf("read the guards: %w", err)
		}
		rules[rule.ID] = rule
	}
	return rules, nil
}

// assembled is a source read, parsed and checked, before it is compiled.
type assembled struct {
	builtin *builtinSet
	tools   *catalog.Catalog
	layers  []*contents
	rules   []*Rule
	files   []File
	modules map[string]*ast.Module
	data    map[string]any
	// asked are the programs that rules name.
	asked map[string]bool
	union *union
}

// Load reads, checks and compiles everything that src names. An error that
// wraps ErrLoad lists what a user must mend; nothing of a faulty set is used.
func Load(ctx context.Context, src Source) (*Policy, error) {
	if src.Settings.Timeout <= 0 {
		src.Settings.Timeout = DefaultTimeout
	}
	a, err := assemble(src)
	if err != nil {
		return nil, err
	}
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	protected := slices.Concat(src.Protected, src.Sealed)
	for _, c := range a.layers {
		protected = append(protected, c.paths...)
	}
	p := &Policy{
		settings: src.Settings,
		epoch:    fingerprint(a.builtin, src, a.layers),
		rules:    a.rules,
		files:    a.files,
		facts:    &facts{commands: a.builtin.commands, tools: a.tools, protected: newProtected(protected), sealed: newSealed(src.Sealed, src.SealedHosts)},
		guards:   a.builtin.guards,
		asked:    a.asked,
	}
	schemas, err := schema.Set()
	if err != nil {
		return nil, err
	}
	p.compiler = newCompiler(src.Settings, schemas).WithStageAfterID(ast.StageResolveRefs, ast.CompilerStageDefinition{
		Name: "UniteLayers", MetricName: "regent_unite_layers", Stage: a.union.stage,
	})
	p.compiler.Compile(a.modules)
	if p.compiler.Failed() {
		problems, _ := fromOPA(p.compiler.Errors)
		return nil, &LoadError{Problems: problems}
	}
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	p.store = newStore(a.data)
	if p.txn, err = p.store.NewTransaction(ctx); err != nil {
		return nil, fmt.Errorf("open the data: %w", err)
	}
	if p.query, err = p.prepare(ctx, "x = data.regent.route"); err != nil {
		return nil, err
	}
	if p.judge, err = p.prepare(ctx, "x = data.regent.verdict"); err != nil {
		return nil, err
	}
	if err := p.prepareOpinions(ctx, src); err != nil {
		return nil, err
	}
	return p, nil
}

// newStore keeps data as OPA's own values, so that a look-up converts nothing.
func newStore(data map[string]any) storage.Store {
	return inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
}

func assemble(src Source) (*assembled, error) {
	b, err := loadBuiltin()
	if err != nil {
		return nil, err
	}
	a := &assembled{builtin: b, tools: b.tools, modules: maps.Clone(b.modules), asked: map[string]bool{}}
	if src.Tools != nil {
		if a.tools, err = catalog.Load(src.Tools); err != nil {
			return nil, fmt.Errorf("read the tool catalogue: %w", err)
		}
	}
	if a.layers, err = readLayers(src.Layers); err != nil {
		return nil, err
	}
	var problems []Problem
	for _, c := range a.layers {
		problems = append(problems, a.addLayer(c)...)
	}
	data, faults, err := b.dataFor(src.Settings, a.layers, a.tools)
	if err != nil {
		return nil, err
	}
	if problems = append(problems, faults...); len(problems) > 0 {
		return nil, &LoadError{Problems: problems}
	}
	a.data = data
	if a.union, err = unite(a.rules); err != nil {
		return nil, err
	}
	if a.modules[layersModule], err = a.union.write(); err != nil {
		return nil, err
	}
	return a, nil
}

// dataFor is the whole data document: the layers' data, the settings and the
// tables.
func (b *builtinSet) dataFor(s Settings, layers []*contents, tools *catalog.Catalog) (map[string]any, []Problem, error) {
	data := map[string]any{}
	var problems []Problem
	for _, c := range layers {
		problems = append(problems, addData(data, c)...)
	}
	settings, err := settingsValue(s)
	if err != nil {
		return nil, nil, err
	}
	// The store keeps what is a value already as it is.
	table := map[string]any{"commands": b.commandsData, "tools": b.toolsData}
	if tools != b.tools {
		table["tools"] = tools.Value()
	}
	data["regent"] = map[string]any{"settings": settings, "catalog": table}
	return data, problems, nil
}

func readLayers(layers []Layer) ([]*contents, error) {
	seen := map[LayerName]bool{}
	var read []*contents
	for _, l := range layers {
		if seen[l.Name] || l.Name == Builtin {
			return nil, fmt.Errorf("layer %s is given twice or may not be given", l.Name)
		}
		seen[l.Name] = true
		c, err := l.read()
		if err != nil {
			return nil, err
		}
		read = append(read, c)
	}
	return read, nil
}

// addLayer parses the rules of a layer, gives them their identity and tags them.
func (a *assembled) addLayer(c *contents) []Problem {
	for kind, files := range map[string][]file{"policy": c.rego, "test": c.tests, "data": c.data} {
		for _, f := range files {
			a.files = append(a.files, File{Name: f.name, Layer: c.layer.Name, Kind: kind})
		}
	}
	for _, f := range c.ignored {
		a.files = append(a.files, File{Name: f.name, Layer: c.layer.Name, Kind: "ignored", Reason: f.reason})
	}
	slices.SortStableFunc(a.files, func(x, y File) int { return strings.Compare(x.Name, y.Name) })

	var problems []Problem
	var list []*ast.Module
	var parsed []*module
	for _, f := range c.rego {
		m, faults := parse(c.layer.Name, f)
		problems = append(problems, faults...)
		if m != nil {
			list = append(list, m.parsed)
			parsed = append(parsed, m)
		}
	}
	annotations, errs := ast.BuildAnnotationSet(list)
	if len(errs) > 0 {
		faults, _ := fromOPA(errs)
		return append(problems, faults...)
	}
	for _, m := range parsed {
		rules, nodes, faults := m.identify(annotations)
		problems = append(problems, faults...)
		if c.layer.Untrusted {
			for _, r := range rules {
				r.untrusted = true
				if r.Decision == "allow" {
					r.Ignored = "the workspace is not trusted, so it can only tighten"
				}
			}
		}
		for _, program := range m.tag(nodes, rules, len(a.rules)) {
			a.asked[program] = true
		}
		a.rules = append(a.rules, rules...)
		a.modules[m.key()] = m.parsed
	}
	return problems
}

// addData merges a layer's data files below its root.
func addData(data map[string]any, c *contents) []Problem {
	var problems []Problem
	root := refStrings(c.layer.Name.Root())
	for _, f := range c.data {
		v, err := f.value(root)
		if err == nil {
			err = mergeData(data, v, "")
		}
		if err != nil {
			problems = append(problems, Problem{File: f.name, Message: err.Error()})
		}
	}
	return problems
}

func newCompiler(s Settings, schemas *ast.SchemaSet) *ast.Compiler {
	return ast.NewCompiler().
		WithCapabilities(capabilities(s)).
		WithSchemas(schemas).
		WithUseTypeCheckAnnotations(true).
		WithDefaultRegoVersion(ast.RegoV1)
}

func (p *Policy) prepare(ctx context.Context, query string) (oparego.PreparedEvalQuery, error) {
	options := []func(*oparego.Rego){
		oparego.Query(query),
		oparego.Compiler(p.compiler),
		oparego.Store(p.store),
		// A built-in that fails would otherwise make its rule silent: a deny that
		// cannot be evaluated must not turn into permission.
		oparego.StrictBuiltinErrors(true),
		// Results stay OPA's values: see query1.
		oparego.GenerateJSON(func(t *ast.Term, _ *oparego.EvalContext) (any, error) { return t, nil }),
	}
	for _, f := range builtins {
		options = append(options, f.option())
	}
	q, err := oparego.New(options...).PrepareForEval(ctx)
	if err != nil {
		return q, fmt.Errorf("prepare %s: %w", query, err)
	}
	return q, nil
}

func settingsValue(s Settings) (map[string]any, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return v, nil
}

// fingerprint names an epoch: the same files and settings have the same name on
// every machine. That is why sealed paths are in it as they are shown, relative to
// the folder of their layer.
func fingerprint(b *builtinSet, src Source, layers []*contents) string {
	s, h := src.Settings, sha256.New()
	fmt.Fprintf(h, "regent policy 1\n%s\n", b.sum)
	settings, err := json.Marshal(struct {
		Settings
		Timeout  int64
		Builtins []string
		Net      []string
	}{s, s.Timeout.Milliseconds(), s.AllowBuiltins, s.AllowNet})
	if err != nil {
		// A struct of strings, numbers and booleans always has a JSON form.
		panic(errors.Join(errors.New("encode settings"), err))
	}
	h.Write(settings)
	for _, c := range layers {
		fmt.Fprintf(h, "\nlayer %s untrusted %t\n", c.layer.Name, c.layer.Untrusted)
		for _, f := range slices.Concat(c.rego, c.data) {
			fmt.Fprintf(h, "%s %s %d\n", f.name, strings.Join(f.mount, "/"), len(f.data))
			h.Write(f.data)
		}
	}
	if src.Others != "" {
		fmt.Fprintf(h, "\nothers %d\n%s", len(src.Others), src.Others)
	}
	for _, name := range src.Sealed {
		fmt.Fprintf(h, "\nsealed %q", shownIn(src.Layers, name))
	}
	for _, address := range src.SealedHosts {
		fmt.Fprintf(h, "\nsealed host %q", address)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// shownIn is name as the layer shows it in whose folder it is.
func shownIn(layers []Layer, name string) string {
	for _, l := range layers {
		if shown := l.Shown(name); shown != name {
			return string(l.Name) + " " + shown
		}
	}
	return name
}

// Epoch is the fingerprint of the set that the engine was made from, 64
// hexadecimal digits.
func (p *Policy) Epoch() string { return p.epoch }

// Rules lists the rules whose names count, in the order of their files.
func (p *Policy) Rules() []Rule {
	rules := make([]Rule, len(p.rules))
	for i, r := range p.rules {
		rules[i] = *r
	}
	return rules
}

// Files lists what the loader found, active or ignored.
func (p *Policy) Files() []File { return slices.Clone(p.files) }

// Settings are those that the engine was made with.
func (p *Policy) Settings() Settings { return p.settings }
