package policies_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"github.com/regent-policy/regent/rego"
)

// root is the folder of the module.
const root = ".."

// regoFiles are all Rego files that ship, by their names from the root.
func regoFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(p) != ".rego" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, p)
		files[relative] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rego/policy/route.rego", "rego/policy/lib/command/command.rego", "examples/quickstart/policies/git.rego", "config/template/policies/starter.rego"} {
		if files[name] == nil {
			t.Fatalf("%s is not among the %d files found", name, len(files))
		}
	}
	return files
}

func parse(t *testing.T, name string, text []byte) *ast.Module {
	t.Helper()
	m, err := ast.ParseModuleWithOpts(name, string(text), ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The form is the one of opa fmt. With -update it is written.
func TestShippedPoliciesAreFormatted(t *testing.T) {
	for name, text := range regoFiles(t) {
		out, err := format.SourceWithOpts(name, text, format.Opts{RegoVersion: ast.RegoV1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if bytes.Equal(out, text) {
			continue
		}
		if !*update {
			t.Errorf("%s is not in the form of opa fmt; run make fmt", name)
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestShippedPoliciesHaveShortLines(t *testing.T) {
	for name, text := range regoFiles(t) {
		for i, line := range bytes.Split(text, []byte("\n")) {
			if n := utf8.RuneCount(line); n > 120 {
				t.Errorf("%s:%d has %d characters, at most 120 are read well", name, i+1, n)
			}
		}
	}
}

// Every package and every rule that others can use says what it is for.
func TestShippedPoliciesAreAnnotated(t *testing.T) {
	for name, text := range regoFiles(t) {
		if strings.HasSuffix(name, "_test.rego") {
			continue
		}
		m := parse(t, name, text)
		set, errs := ast.BuildAnnotationSet([]*ast.Module{m})
		if len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		if a := set.GetPackageScope(m.Package); a == nil || a.Title == "" && a.Description == "" {
			t.Errorf("%s: package %s has neither title nor description", name, m.Package.Path)
		}
		said := map[string]bool{}
		for _, r := range m.Rules {
			rule := r.Head.Ref().GroundPrefix().String()
			for _, ref := range set.Chain(r) {
				if a := ref.Annotations; a != nil && (a.Scope == "rule" || a.Scope == "document") {
					said[rule] = said[rule] || a.Title != "" || a.Description != ""
				}
			}
		}
		for _, r := range m.Rules {
			rule := r.Head.Ref().GroundPrefix().String()
			if !strings.HasPrefix(rule, "_") && !said[rule] {
				t.Errorf("%s:%d: rule %s has neither title nor description", name, r.Location.Row, rule)
				said[rule] = true
			}
		}
	}
}

// The built-in packages are where their folders say, one to a folder.
func TestShippedPoliciesStandInTheFolderOfTheirPackage(t *testing.T) {
	for name, text := range regoFiles(t) {
		below, ok := strings.CutPrefix(name, "rego/policy/")
		if !ok {
			continue
		}
		m := parse(t, name, text)
		want := "data.regent"
		if dir := filepath.Dir(below); dir != "." {
			want += "." + strings.ReplaceAll(dir, "/", ".")
		}
		got := strings.TrimSuffix(m.Package.Path.String(), "_test")
		if got != want {
			t.Errorf("%s is package %s, want %s", name, got, want)
		}
	}
}

// Strict mode finds imports and variables that nothing uses. Each workspace is
// compiled by itself, with the engine's own schemas and capabilities.
func TestShippedPoliciesCompileStrictly(t *testing.T) {
	for name, dir := range shippedWorkspaces(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := rego.Source{Settings: settings(), Layers: []rego.Layer{{
				Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")},
			}}}
			bed, err := src.TestBed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for key := range bed.Files {
				// Duplicate names of tests are the runner's to tell apart.
				if strings.HasSuffix(key, "_test.rego") {
					delete(bed.Modules, key)
				}
			}
			bed.Compiler.WithStrict(true).Compile(bed.Modules)
			if bed.Compiler.Failed() {
				t.Error(bed.Compiler.Errors)
			}
			findings, err := rego.Lint(t.Context(), src)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				// Which rules the index can pass by is a matter of speed, and some
				// rules are about every call.
				if f.Check != rego.CheckIndex && f.Check != rego.CheckIgnored {
					t.Errorf("%s: %s", f.Check, f.Problem)
				}
			}
		})
	}
}
