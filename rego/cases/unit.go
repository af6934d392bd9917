package cases

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/regent-policy/regent/rego"
)

// unitTimeout bounds one unit test.
const unitTimeout = 10 * time.Second

// units runs the Rego tests of the layers. Rules are untagged there: a test sees
// the plain messages.
func (r *run) units(ctx context.Context) error {
	bed, err := r.src.TestBed(ctx)
	if err != nil {
		return err
	}
	r.bed = bed
	if !r.keep(bed) && r.cover == nil {
		return nil
	}
	runner := tester.NewRunner().
		SetCompiler(bed.Compiler).
		SetStore(bed.Store).
		SetModules(bed.Modules).
		AddCustomBuiltins(bed.Builtins).
		// As in a decision: a built-in that fails is not a rule that is silent.
		RaiseBuiltinErrors(true).
		SetTimeout(unitTimeout)
	if r.cover != nil {
		runner.SetCoverageQueryTracer(r.cover.tracer).SetCoverageRuns(nil)
	}
	results, err := runTests(ctx, runner, bed)
	if err != nil {
		return err
	}
	for _, v := range results {
		r.add(r.unit(ctx, bed, v))
	}
	if r.cover != nil {
		r.cover.bed(bed)
	}
	return nil
}

func runTests(ctx context.Context, runner *tester.Runner, bed *rego.TestBed) ([]*tester.Result, error) {
	txn, err := bed.Store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the data: %w", err)
	}
	defer bed.Store.Abort(ctx, txn)
	stream, err := runner.RunTests(ctx, txn)
	if err != nil {
		if problems := compileProblems(err); problems != nil {
			return nil, &rego.LoadError{Problems: problems}
		}
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	var results []*tester.Result
	for v := range stream {
		results = append(results, v)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}

// compileProblems are the faults of test files: the policies themselves have
// been compiled before.
func compileProblems(err error) []rego.Problem {
	list, ok := errors.AsType[ast.Errors](err)
	if !ok {
		return nil
	}
	problems := make([]rego.Problem, len(list))
	for i, e := range list {
		problems[i].Message = e.Message
		if e.Location != nil {
			problems[i].File, problems[i].Line, problems[i].Column = e.Location.File, e.Location.Row, e.Location.Col
		}
	}
	return problems
}

// keep takes the tests that are not wanted out of the bed, and reports whether
// any is left.
func (r *run) keep(bed *rego.TestBed) bool {
	left := false
	for key, f := range bed.Files {
		m := bed.Modules[key]
		wanted := f.Kind == "test" && r.wanted(r.absolute(f))
		rules := slices.DeleteFunc(slices.Clone(m.Rules), func(rule *ast.Rule) bool {
			name := testName(rule)
			if name == "" {
				return false
			}
			keep := wanted && r.matches(f.Name, packageName(m)+"."+name)
			left = left || keep
			if rule.Head.DocKind() == ast.PartialObjectDoc {
				r.tables[place{f.Name, rule.Location.Row}] = true
			}
			return !keep
		})
		if len(rules) < len(m.Rules) {
			copied := *m
			copied.Rules = rules
			bed.Modules[key] = &copied
		}
	}
	return left
}

// absolute is where a file of a layer is.
func (r *run) absolute(f rego.File) string {
	if filepath.IsAbs(f.Name) {
		return f.Name
	}
	for _, l := range r.src.Layers {
		if l.Name != f.Layer {
			continue
		}
		if p, err := filepath.Abs(filepath.Join(l.Dir, f.Name)); err == nil {
			return p
		}
	}
	return f.Name
}

// testName is the name of a test rule, "" for other rules.
func testName(rule *ast.Rule) string {
	for _, t := range rule.Head.Ref().GroundPrefix() {
		var name string
		switch v := t.Value.(type) {
		case ast.Var:
			name = string(v)
		case ast.String:
			name = string(v)
		}
		if strings.HasPrefix(name, tester.TestPrefix) || strings.HasPrefix(name, tester.SkipTestPrefix) {
			return name
		}
	}
	return ""
}

func packageName(m *ast.Module) string {
	return strings.TrimPrefix(m.Package.Path.String(), "data.")
}

// unit turns OPA's result into one of ours.
func (r *run) unit(ctx context.Context, bed *rego.TestBed, v *tester.Result) Result {
	out := Result{
		Kind:     Unit,
		Name:     strings.TrimPrefix(v.Package, "data.") + "." + v.Name,
		Output:   string(v.Output),
		Duration: v.Duration,
		Status:   Pass,
	}
	if v.Location != nil {
		out.File, out.Line = v.Location.File, v.Location.Row
	}
	for _, l := range r.src.Layers {
		if root := l.Name.Root().String(); v.Package == root || strings.HasPrefix(v.Package, root+".") {
			out.Layer = l.Name
		}
	}
	failed := subFailures(v.SubResults)
	switch {
	case v.Skip:
		out.Status, out.Message = Skip, "named todo_test_"
	case v.Error != nil:
		out.Status, out.Message = Error, v.Error.Error()
	case v.Fail && len(failed) > 0:
		out.Status, out.Message = Fail, "these parts do not hold: "+strings.Join(failed, ", ")
	case v.Fail:
		out.Status, out.Message = Fail, r.failedAt(ctx, bed, v)
	case len(v.SubResults) == 0 && r.tables[place{out.File, out.Line}]:
		out.Status, out.Message = Fail, "the table of the test is empty, so it tests nothing"
	}
	return out
}

func subFailures(results tester.SubResultMap) []string {
	var names []string
	for name, v := range results.Iter {
		if v.Fail && len(v.SubResults) == 0 {
			names = append(names, quotedText(strings.Join(name, " / ")))
		}
	}
	return names
}

// failedAt runs a failed test again and names the condition that did not hold.
func (r *run) failedAt(ctx context.Context, bed *rego.TestBed, v *tester.Result) string {
	const plain = "the test is false or undefined"
	ctx, stop := context.WithTimeout(ctx, unitTimeout)
	defer stop()
	tracer := topdown.NewBufferTracer()
	options := []func(*oparego.Rego){
		oparego.Query(v.Package + "." + v.Name),
		oparego.Compiler(bed.Compiler),
		oparego.Store(bed.Store),
		oparego.QueryTracer(tracer),
	}
	for _, b := range bed.Builtins {
		options = append(options, b.Func)
	}
	if _, err := oparego.New(options...).Eval(ctx); err != nil {
		return plain
	}
	var last *ast.Location
	for _, e := range *tracer {
		// The last failure in the test itself: before it others were tried.
		if e.Op == topdown.FailOp && e.Location != nil && v.Location != nil && e.Location.File == v.Location.File && e.Location.Row > v.Location.Row {
			last = e.Location
		}
	}
	if last == nil {
		return plain
	}
	return fmt.Sprintf("line %d does not hold: %s", last.Row, firstLine(string(last.Text)))
}

func firstLine(s string) string {
	line, rest, cut := strings.Cut(strings.TrimSpace(s), "\n")
	if cut && rest != "" {
		line += " ..."
	}
	return line
}
