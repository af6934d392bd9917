package rego

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// ErrLoad means that a set of policies does not make an engine. The error that
// wraps it, a *LoadError, names each place; the caller keeps the last good
// engine, or sends everything to a human when there is none.
var ErrLoad = errors.New("policies do not load")

// Problem is one fault of a policy or data file.
type Problem struct {
	File string `json:"file"`
	// Line and Column are 1-based; 0 when the fault is the whole file's.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	// Hint says what to do about it.
	Hint string `json:"hint,omitempty"`
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	b.WriteString(": " + p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// LoadError carries every fault found in one attempt. It wraps ErrLoad.
type LoadError struct{ Problems []Problem }

func (e *LoadError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (e *LoadError) Unwrap() error { return ErrLoad }

// fromOPA turns OPA's parse and compile errors into problems. It reports false
// when err is not of that kind.
func fromOPA(err error) ([]Problem, bool) {
	var list ast.Errors
	if !errors.As(err, &list) {
		one, ok := errors.AsType[*ast.Error](err)
		if !ok {
			return nil, false
		}
		list = ast.Errors{one}
	}
	problems := make([]Problem, 0, len(list))
	for _, e := range list {
		p := Problem{Message: e.Message, Hint: hint(e)}
		if e.Location != nil {
			p.File, p.Line, p.Column = e.Location.File, e.Location.Row, e.Location.Col
		}
		if name, ok := strings.CutPrefix(e.Message, "undefined function "); ok && withheld(name) {
			p.Message = fmt.Sprintf("the built-in %s is not available to policies", name)
		}
		// A rule that the compiler sees twice, in its package and among the united
		// layers, has its fault once.
		if !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	return problems, true
}

// hint says what usually mends an error of OPA's.
func hint(e *ast.Error) string {
	switch {
	case strings.HasPrefix(e.Message, "undefined function "):
		name := strings.TrimPrefix(e.Message, "undefined function ")
		if withheld(name) {
			return "it reaches outside the decision; policy.capabilities.allow_builtins in config.yaml opens it on purpose"
		}
		if strings.HasPrefix(name, "data.regent.lib.") {
			return "see the helper library in docs/policy.md"
		}
		return "check the spelling, and that its package is imported"
	case strings.Contains(e.Message, "`if` keyword is required"), strings.Contains(e.Message, "`contains` keyword is required"):
		return "policies are Rego v1: deny contains \"message\" if { ... }"
	case e.Code == ast.UnsafeVarErr:
		return "give the variable a value first: declare it with some, or check its spelling"
	case strings.HasPrefix(e.Message, "undefined ref: input"):
		return "the input has no such field; `regent policy schema request` prints those that it has"
	case e.Code == ast.RecursionErr:
		return "a rule may not depend on itself"
	default:
		return ""
	}
}

// failure is an evaluation that gave no answer, in the words of approval.Failure.
type failure struct {
	kind, message, file string
	line                int
}

func (f *failure) Error() string { return f.message }

// evaluationFailure says why an evaluation ended in err, where the caller's
// context did not end it: OPA reports its own cancellation, whatever stopped it.
func evaluationFailure(err error) *failure {
	if topdown.IsCancel(err) {
		return &failure{kind: "deadline", message: "the rules took longer than policy.evaluation_timeout_ms allows"}
	}
	e, ok := errors.AsType[*topdown.Error](err)
	if !ok {
		return &failure{kind: "evaluation", message: err.Error()}
	}
	f := &failure{kind: "evaluation", message: e.Message}
	if e.Code == topdown.ConflictErr {
		f.kind = "conflict"
	}
	if e.Location != nil {
		f.file, f.line = e.Location.File, e.Location.Row
	}
	return f
}
