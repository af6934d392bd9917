// Package cases runs what stands beside policies to prove them: unit tests in
// Rego, and decision cases in YAML that are put through the whole engine.
package cases

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/regent-policy/regent/rego"
)

// caseTimeout bounds one evaluation of a case that does not set its own limit: a
// busy machine must not turn a right policy into a failing case.
const caseTimeout = 10 * time.Second

// Options say what is run.
type Options struct {
	// Paths are the files and folders to run; empty means all of the layers. A
	// case file need not belong to a layer; a Rego test has to, since the engine
	// would not load what it tests.
	Paths []string
	// Run, when not nil, is matched against the full name of each test and case,
	// file included; only those that match are run.
	Run *regexp.Regexp
	// Coverage measures which lines of the policies were evaluated.
	Coverage bool
}

// Kind is the sort of a result.
type Kind string

// The kinds: a unit test written in Rego, a decision case written in YAML.
const (
	Unit     Kind = "unit"
	Decision Kind = "case"
)

// Status is how a test or case ended.
type Status string

// The states. An error is a test that gave no answer, or a case that could not
// be read; a skipped one is named todo_test_.
const (
	Pass  Status = "pass"
	Fail  Status = "fail"
	Error Status = "error"
	Skip  Status = "skip"
)

// Result is the outcome of one test or case.
type Result struct {
	Kind Kind `json:"kind"`
	// Name is the package and rule of a unit test, the note of a case.
	Name string `json:"name"`
	// File, as shown to people, and Line say where it is written.
	File   string         `json:"file"`
	Line   int            `json:"line"`
	Layer  rego.LayerName `json:"layer,omitempty"`
	Status Status         `json:"status"`
	// Message says what went wrong, a line for each difference.
	Message string `json:"message,omitempty"`
	// Output is what the test printed.
	Output   string        `json:"output,omitempty"`
	Duration time.Duration `json:"duration_ns"`
}

// Report is the outcome of a run.
type Report struct {
	// Results in the order of their places.
	Results []Result `json:"results"`
	// Unfired are the rules that no passing case names in its want while they
	// fire in it. It is nil when only a part was run, and holds neither ceilings
	// nor context, which a ruling does not tell apart.
	Unfired []rego.Rule `json:"unfired,omitempty"`
	// Coverage is nil unless it was asked for.
	Coverage *Coverage `json:"coverage,omitempty"`
}

// Count is how many results have the status.
func (r Report) Count(s Status) int {
	n := 0
	for _, v := range r.Results {
		if v.Status == s {
			n++
		}
	}
	return n
}

// OK reports whether nothing failed. A run of nothing is OK.
func (r Report) OK() bool { return r.Count(Fail) == 0 && r.Count(Error) == 0 }

// Run loads src and runs its tests and cases. Policies that do not load are an
// error that wraps rego.ErrLoad; a case file that cannot be read is a result.
func Run(ctx context.Context, src rego.Source, o Options) (Report, error) {
	p, err := rego.Load(ctx, src)
	if err != nil {
		return Report{}, err
	}
	paths, err := absolutePaths(o.Paths)
	if err != nil {
		return Report{}, err
	}
	r := &run{src: src, policy: p, only: paths, filter: o.Run, seen: map[place]bool{}, tables: map[place]bool{}}
	defer r.close()
	if o.Coverage {
		r.cover = newCoverage()
	}
	if err := r.units(ctx); err != nil {
		return Report{}, err
	}
	if err := r.decisions(ctx); err != nil {
		return Report{}, err
	}
	if err := r.missed(); err != nil {
		return Report{}, err
	}
	slices.SortStableFunc(r.report.Results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Name, b.Name))
	})
	if len(o.Paths) == 0 && o.Run == nil {
		r.report.Unfired = r.unfired()
	}
	if r.cover != nil {
		r.report.Coverage = r.cover.report()
	}
	return r.report, nil
}

// run is the state of one Run.
type run struct {
	src    rego.Source
	policy *rego.Policy
	only   []string
	found  []string
	filter *regexp.Regexp
	cover  *coverage
	// bed holds the data of the policies as they are.
	bed *rego.TestBed
	// seen are the rules that cases have proven, tables the tests with parts.
	seen, tables map[place]bool
	// temporary are folders to remove at the end.
	temporary []string
	report    Report
}

func (r *run) close() {
	for _, dir := range r.temporary {
		// What cannot be removed is left to the system, which cleans its folder.
		_ = os.RemoveAll(dir)
	}
}

// place is where a rule stands: rules may share an id.
type place struct {
	file string
	line int
}

func absolutePaths(paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, p := range paths {
		absolute, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", p, err)
		}
		out[i] = absolute
	}
	return out, nil
}

// wanted reports whether the options take in a file, and remembers which of the
// paths it answers.
func (r *run) wanted(path string) bool {
	if len(r.only) == 0 {
		return true
	}
	in := false
	for _, p := range r.only {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			r.found = append(r.found, p)
			in = true
		}
	}
	return in
}

// missed tells of paths that hold nothing that was run. To pass over them would
// look like success.
func (r *run) missed() error {
	for _, p := range r.only {
		if !slices.Contains(r.found, p) {
			return fmt.Errorf("%s holds no test of the loaded policies and no case file", p)
		}
	}
	return nil
}

func (r *run) matches(file, name string) bool {
	return r.filter == nil || r.filter.MatchString(file+": "+name)
}

func (r *run) add(v Result) { r.report.Results = append(r.report.Results, v) }

func (r *run) unfired() []rego.Rule {
	out := []rego.Rule{}
	for _, rule := range r.policy.Rules() {
		if rule.Decision == "ceiling" || rule.Decision == "context" || rule.Ignored != "" {
			continue
		}
		if !r.seen[place{rule.File, rule.Line}] {
			out = append(out, rule)
		}
	}
	return out
}
