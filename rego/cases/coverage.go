package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/regent-policy/regent/rego"
)

// Coverage tells which lines of the policies the tests and cases evaluated.
type Coverage struct {
	Files []FileCoverage `json:"files"`
	// Percent is over all files, 0 to 100.
	Percent float64 `json:"percent"`
}

// FileCoverage is the coverage of one policy file.
type FileCoverage struct {
	File    string  `json:"file"`
	Percent float64 `json:"percent"`
	// Covered and Uncovered are lines that hold something to evaluate.
	Covered   []int `json:"covered"`
	Uncovered []int `json:"uncovered"`
}

// coverage gathers what was evaluated.
type coverage struct {
	tracer *cover.Cover
	// modules are the policies by the names that their places carry.
	modules map[string]*ast.Module
	beds    map[string]*rego.TestBed
}

func newCoverage() *coverage {
	return &coverage{tracer: cover.New(), modules: map[string]*ast.Module{}, beds: map[string]*rego.TestBed{}}
}

// bed takes note of the compiled policies.
func (c *coverage) bed(bed *rego.TestBed) {
	c.beds[""] = bed
	for key, f := range bed.Files {
		if m := bed.Compiler.Modules[key]; m != nil && f.Kind == "policy" {
			c.modules[f.Name] = m
		}
	}
}

// decide evaluates the counted rules once more for the input of a case, on the
// rules as their authors wrote them.
func (c *coverage) decide(ctx context.Context, v *variant, in *rego.Input) error {
	bed, err := c.bedOf(ctx, v)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("measure coverage: %w", err)
	}
	input, err := ast.ValueFromReader(strings.NewReader(string(raw)))
	if err != nil {
		return fmt.Errorf("measure coverage: %w", err)
	}
	asked := map[string]bool{}
	for _, rule := range v.policy.Rules() {
		query := "data." + rule.Package + "." + rule.Decision
		if asked[query] || rule.Ignored != "" {
			continue
		}
		asked[query] = true
		options := []func(*oparego.Rego){
			oparego.Query(query),
			oparego.Compiler(bed.Compiler),
			oparego.Store(bed.Store),
			oparego.ParsedInput(input),
			oparego.QueryTracer(c.tracer),
		}
		for _, b := range bed.Builtins {
			options = append(options, b.Func)
		}
		if _, err := oparego.New(options...).Eval(ctx); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A rule that fails was evaluated up to there; the case itself reports it.
	}
	return nil
}

// bedOf is the compiled bed for the settings and data of a variant.
func (c *coverage) bedOf(ctx context.Context, v *variant) (*rego.TestBed, error) {
	if bed := c.beds[v.key]; bed != nil {
		return bed, nil
	}
	bed, err := v.src.TestBed(ctx)
	if err != nil {
		return nil, err
	}
	if bed.Compiler.Compile(bed.Modules); bed.Compiler.Failed() {
		return nil, fmt.Errorf("measure coverage: %w", bed.Compiler.Errors)
	}
	c.beds[v.key] = bed
	return bed, nil
}

func (c *coverage) report() *Coverage {
	out := &Coverage{Files: []FileCoverage{}}
	covered, all := 0, 0
	report := c.tracer.Report(c.modules)
	for name := range c.modules {
		f := FileCoverage{File: name, Covered: []int{}, Uncovered: []int{}}
		if r := report.Files[name]; r != nil {
			// A line that holds one thing that was evaluated and one that was not
			// counts as not covered: half a rule is not tested.
			f.Uncovered = lines(r.NotCovered, nil)
			f.Covered = lines(r.Covered, f.Uncovered)
		}
		n := len(f.Covered) + len(f.Uncovered)
		f.Percent = percent(len(f.Covered), n)
		covered += len(f.Covered)
		all += n
		out.Files = append(out.Files, f)
	}
	slices.SortFunc(out.Files, func(a, b FileCoverage) int { return strings.Compare(a.File, b.File) })
	out.Percent = percent(covered, all)
	return out
}

// lines are the lines on which ranges start, without those in but: what spans
// lines holds other expressions, each with a range of its own.
func lines(ranges []cover.Range, but []int) []int {
	out := []int{}
	for _, r := range ranges {
		if !slices.Contains(but, r.Start.Row) {
			out = append(out, r.Start.Row)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func percent(part, all int) float64 {
	if all == 0 {
		return 100
	}
	return 100 * float64(part) / float64(all)
}
