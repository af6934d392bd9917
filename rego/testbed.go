package rego

import (
	"context"
	"maps"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/regent-policy/regent/rego/schema"
)

// TestBed is what unit tests of rules run in: the rules as their authors wrote
// them, without tags, with the built-in library and the same limits as a
// decision.
type TestBed struct {
	// Modules are the rules, their tests and the built-in policies.
	Modules  map[string]*ast.Module
	Compiler *ast.Compiler
	Store    storage.Store
	Builtins []*tester.Builtin
	// Files are the rules' and tests' file names, as shown, by module key.
	Files map[string]File
}

// TestBed prepares unit tests for the layers of the source. Errors are those of
// Load.
func (src Source) TestBed(ctx context.Context) (*TestBed, error) {
	layers, err := readLayers(src.Layers)
	if err != nil {
		return nil, err
	}
	bed, err := newTestBed(src, layers)
	if err != nil {
		return nil, err
	}
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	schemas, err := schema.Set()
	if err != nil {
		return nil, err
	}
	bed.Compiler = newCompiler(src.Settings, schemas).WithEnablePrintStatements(true)
	return bed, nil
}

func newTestBed(src Source, layers []*contents) (*TestBed, error) {
	b, err := loadBuiltin()
	if err != nil {
		return nil, err
	}
	bed := &TestBed{Modules: maps.Clone(b.modules), Files: map[string]File{}}
	data, problems, err := b.dataFor(src.Settings, layers, b.tools)
	if err != nil {
		return nil, err
	}
	for _, c := range layers {
		for kind, files := range map[string][]file{"policy": c.rego, "test": c.tests} {
			for _, f := range files {
				m, faults := parse(c.layer.Name, f)
				problems = append(problems, faults...)
				if m == nil {
					continue
				}
				bed.Modules[m.key()] = m.parsed
				bed.Files[m.key()] = File{Name: f.name, Layer: c.layer.Name, Kind: kind}
			}
		}
	}
	if len(problems) > 0 {
		return nil, &LoadError{Problems: problems}
	}
	bed.Store = newStore(data)
	for _, f := range builtins {
		bed.Builtins = append(bed.Builtins, &tester.Builtin{
			Decl: &ast.Builtin{Name: f.decl.Name, Decl: f.decl.Decl, Nondeterministic: f.decl.Nondeterministic},
			Func: f.option(),
		})
	}
	return bed, nil
}
