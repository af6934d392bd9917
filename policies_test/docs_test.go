package policies_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/cases"
)

const policyPage = "../docs/policy.md"

// The rules, tests and cases of the page make one workspace, and pass in it.
func TestPolicyPageRuns(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, b := range blocks(t, policyPage) {
		switch b.language {
		case "rego":
			m := parse(t, fmt.Sprintf("policy.md:%d", b.line), []byte(b.text))
			name := strings.TrimPrefix(m.Package.Path.String(), "data.rules.")
			if files["policies/"+name+".rego"] != "" {
				t.Errorf("policy.md:%d: package %s stands there twice", b.line, name)
			}
			files["policies/"+name+".rego"] = b.text
			out, err := format.SourceWithOpts(name, []byte(b.text), format.Opts{RegoVersion: ast.RegoV1})
			if err != nil || string(out) != b.text {
				t.Errorf("policy.md:%d: not in the form of opa fmt: %v", b.line, err)
			}
		case "yaml":
			files[fmt.Sprintf("cases/line%d.yaml", b.line)] = b.text
		default:
			t.Errorf("policy.md:%d: a block of %q, which nothing runs", b.line, b.language)
		}
	}
	dir := folder(t, files)
	src := rego.Source{Settings: settings(), Layers: []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}}}}
	report, err := cases.Run(t.Context(), src, cases.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[cases.Kind]int{}
	for _, r := range report.Results {
		kinds[r.Kind]++
		if r.Status != cases.Pass {
			t.Errorf("%s:%d: %s: %s: %s", r.File, r.Line, r.Name, r.Status, r.Message)
		}
	}
	if kinds[cases.Unit] < 3 || kinds[cases.Decision] < 8 {
		t.Errorf("ran %v, want all tests and cases of the page", kinds)
	}
	for _, r := range report.Unfired {
		t.Errorf("no case of the page names %s while it fires", r.Describe())
	}
	findings, err := rego.Lint(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Check != rego.CheckIndex && f.Check != rego.CheckIgnored && f.Check != rego.CheckMetadata {
			t.Errorf("%s: %s", f.Check, f.Problem)
		}
	}
}

// The reference has every function of the library and no other.
func TestPolicyPageHasTheLibrary(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(policyPage)
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	err = filepath.WalkDir("../rego/policy/lib", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(p, "_test.rego") {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		m := parse(t, p, text)
		library := strings.TrimPrefix(m.Package.Path.String(), "data.regent.lib.")
		for _, r := range m.Rules {
			if name := r.Head.Ref().GroundPrefix().String(); !strings.HasPrefix(name, "_") {
				exported[library+"."+name] = true
			}
		}
		return nil
	})
	if err != nil || len(exported) < 10 {
		t.Fatalf("exported = %v, %v", exported, err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The helper library\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range exported {
		if !strings.Contains(section, "| `"+name+"(") && !strings.Contains(section, "| `"+name+"`") && !strings.Contains(section, "has `"+name+"`") {
			t.Errorf("policy.md does not have %s", name)
		}
	}
	for line := range strings.Lines(section) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(cell, "`")
		name, _, _ = strings.Cut(name, "(")
		if !exported[name] {
			t.Errorf("policy.md has %s, which the library does not", name)
		}
	}
}

// What the reference says of its example is so.
func TestPolicyPageTellsTheExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(policyPage)
	if err != nil {
		t.Fatal(err)
	}
	const example = "cd sub && sudo git push -uf origin main > log.txt"
	if !strings.Contains(string(page), example) {
		t.Fatal("the example is another one")
	}
	p := load(t, workspace(t, `package rules.example

import data.regent.lib.command
import data.regent.lib.paths
import data.regent.lib.tools

deny contains "invocations" if {
	some call in command.invocations("git")
	call.flags == ["-u", "-f"]
}

deny contains "subcommand" if count(command.subcommand("git", ["push"])) == 1

deny contains "runs" if command.runs("sudo")

deny contains "all" if [n.program | some n in command.all] == ["cd", "sudo", "git"]

deny contains "covered" if not command.covered([["git", "status"]])

deny contains "unclear" if not command.unclear

deny contains "write_targets" if paths.write_targets(input.request) == ["/w/sub/log.txt"]

deny contains "targets" if "/w/sub/log.txt" in paths.targets(input.request)

deny contains "paths unclear" if not _unclear

_unclear if paths.unclear(input.request)

deny contains "below" if paths.below("/w/sub", "/w")

deny contains "below_any" if paths.below_any("/w/sub", ["/tmp", "/w"])

deny contains "name" if paths.name("/w/sub/log.txt") == "log.txt"

deny contains "matches" if paths.matches("/w/.env", [".env", "**/secrets/**"])

deny contains "arguments" if tools.arguments(input.request) == {}

deny contains "host_below" if tools.host_below("api.example.com", "example.com")

deny contains "tools" if {
	not tools.called("Write")
	not tools.called_on("github", "delete_repo")
	not tools.on_server("github")
}
`))
	got := rule(t, p, bash(example, "/w"))
	said := map[string]bool{}
	for _, m := range got.Rules {
		said[m.Message] = true
	}
	for _, want := range []string{
		"invocations", "subcommand", "runs", "all", "covered", "unclear", "write_targets", "targets", "paths unclear",
		"below", "below_any", "name", "matches", "arguments", "host_below", "tools",
	} {
		if !said[want] {
			t.Errorf("%s is not what the page says", want)
		}
	}
}

// Each error of the table is what Regent says.
func TestPolicyPageHasTheErrors(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(policyPage)
	if err != nil {
		t.Fatal(err)
	}
	for message, rules := range map[string]string{
		"package x is outside rules, where alone the workspace layer may write": "package x\n",
		"deny must be a set of messages":                                        "package rules.x\n\ndeny if true\n",
		"deny is a function here, and Regent reads it as a rule":                "package rules.x\n\ndeny(x) if x\n",
		"ceiling must be one profile":                                           "package rules.x\n\nceiling contains 1 if true\n",
		`custom.mode is "watch" in the metadata`:                                "package rules.x\n\n# METADATA\n# custom: {mode: watch}\ndeny contains \"x\" if true\n",
		"undefined ref: input.request.comand":                                   "package rules.x\n\ndeny contains \"x\" if input.request.comand.text == \"x\"\n",
		"undefined function data.regent.lib.command.run":                        "package rules.x\n\nimport data.regent.lib.command\n\ndeny contains \"x\" if command.run(\"x\")\n",
		"the built-in http.send is not available to policies":                   "package rules.x\n\ndeny contains \"x\" if http.send({})\n",
		"var hosts is unsafe":                                                   "package rules.x\n\ndeny contains \"x\" if hosts == 1\n",
		"rule data.rules.x._a is recursive":                                     "package rules.x\n\ndeny contains \"x\" if _a\n\n_a if _b\n\n_b if _a\n",
	} {
		_, err := rego.Load(t.Context(), workspace(t, rules))
		if !errors.Is(err, rego.ErrLoad) || !strings.Contains(err.Error(), message) {
			t.Errorf("error = %v, want %q", err, message)
		}
		if !strings.Contains(string(page), "| `"+message+"` |") {
			t.Errorf("policy.md does not have %q", message)
		}
	}
}
