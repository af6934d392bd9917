package rego

import (
	"encoding/json"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/gitrepo"
)

// function is a built-in that Regent adds to OPA's. Only package regent.world
// of the built-in policies calls them by name.
type function struct {
	decl *oparego.Function
	call func(oparego.BuiltinContext, []*ast.Term) (*ast.Term, error)
}

func (f function) option() func(*oparego.Rego) {
	return oparego.FunctionDyn(f.decl, f.call)
}

var builtins = []function{
	{
		decl: &oparego.Function{
			Name:             "regent.git_config",
			Description:      "whether reading with git below a folder can start a program that the repository names",
			Decl:             types.NewFunction(types.Args(types.S), types.A),
			Memoize:          true,
			Nondeterministic: true,
		},
		call: func(_ oparego.BuiltinContext, args []*ast.Term) (*ast.Term, error) {
			dir, ok := args[0].Value.(ast.String)
			if !ok {
				return nil, nil
			}
			report, err := gitrepo.Inspect(string(dir))
			if err != nil {
				report = gitrepo.Report{Unknown: true, Reasons: []string{err.Error()}}
			}
			n := native{"inert": report.Inert, "unknown": report.Unknown}
			n.list("reasons", report.Reasons)
			value, err := ast.InterfaceToValue(map[string]any(n))
			return ast.NewTerm(value), err
		},
	},
	{
		decl: &oparego.Function{
			Name:             "regent.facts",
			Description:      "the facts of a request, for unit tests whose input has none",
			Decl:             types.NewFunction(types.Args(types.A, types.A), types.A),
			Memoize:          true,
			Nondeterministic: true,
		},
		call: func(_ oparego.BuiltinContext, args []*ast.Term) (*ast.Term, error) {
			return handwrittenFacts(args[0], args[1])
		},
	},
}

var factsForTests = sync.OnceValues(func() (*facts, error) {
	b, err := loadBuiltin()
	if err != nil {
		return nil, err
	}
	return &facts{commands: b.commands, tools: b.tools}, nil
})

// handwrittenFacts works out the facts of a request that a test wrote by hand,
// and is as strict about it as about a real one.
func handwrittenFacts(request, environment *ast.Term) (*ast.Term, error) {
	f, err := factsForTests()
	if err != nil {
		return nil, err
	}
	raw, err := ast.JSON(request.Value)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	r, err := approval.Decode(data)
	if err != nil {
		return nil, err
	}
	env := approval.Environment{}
	if r.Environment != nil {
		env = *r.Environment
	}
	if err := ast.As(environment.Value, &env); err != nil {
		return nil, err
	}
	out := f.of(r, env)
	return ast.NewTerm(ast.LazyObject(out.native(nil))), nil
}
