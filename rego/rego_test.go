package rego_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

func TestMain(m *testing.M) {
	if turns := os.Getenv(turnsVar); turns != "" {
		if err := takeTurns(turns); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// write makes a folder of files and returns it.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// workspace is a source whose workspace layer holds the given files.
func workspace(t testing.TB, files map[string]string) rego.Source {
	t.Helper()
	dir := write(t, files)
	s := rego.DefaultSettings()
	// Tests share the machine: what they check is never how long it took.
	s.Timeout = time.Minute
	return rego.Source{Settings: s, Layers: []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{dir}}}}
}

func load(t testing.TB, src rego.Source) *rego.Policy {
	t.Helper()
	p, err := rego.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func command(text string) *approval.Request {
	return &approval.Request{
		Kind:        approval.KindCommand,
		Command:     &approval.Command{Text: text},
		Environment: &approval.Environment{Cwd: "/workspace/app", Home: "/home/dev"},
	}
}

const forcePush = `# METADATA
# title: No force push
# custom: {id: GIT-001, severity: high}
package rules.git

import data.regent.lib.command

deny contains "force push" if {
	some c in command.invocations("git")
	"push" in c.args
	some flag in c.flags
	flag in {"--force", "-f"}
}
`

func TestRuleNamesTheRuleThatFired(t *testing.T) {
	p := load(t, workspace(t, map[string]string{"policies/git.rego": forcePush}))
	got := p.Rule(t.Context(), command("cd x && sudo git push -uf origin main"))
	want := []approval.Match{{
		ID: "GIT-001", Decision: "deny", Message: "force push", Title: "No force push", Severity: "high",
		Mode: "enforce", Layer: "workspace", Package: "rules.git", File: "policies/git.rego", Line: 8,
	}}
	if got.Route != approval.RouteDeny {
		t.Errorf("route = %s (%v), want deny", got.Route, got.Reasons)
	}
	if diff := cmp.Diff(want, got.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if near := p.Rule(t.Context(), command("git push origin main")); near.Route != approval.RouteAsk || len(near.Rules) != 0 {
		t.Errorf("near miss: route %s, rules %v", near.Route, near.Rules)
	}
}

func TestLoadErrorsNameThePlaceAndTheMend(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // a part of the one problem
	}{
		{"syntax", "package rules.x\n\ndeny contains \"a\" if {\n", "policies/x.rego:"},
		{"Rego v0", "package rules.x\n\ndeny[msg] { msg := \"a\" }\n", "policies are Rego v1"},
		{"another layer's package", "package regent.call\n\neffects := [\"read\"]\n", "package regent.call is outside rules, where alone the workspace layer may write (write package rules.call)"},
		{"an empty file", "# nothing\n", "policies/x.rego: no package (a policy starts with one"},
		{"a boolean deny", "package rules.x\n\ndeny if input.request.kind == \"tool\"\n", `policies/x.rego:3:1: deny must be a set of messages (write deny contains "why" if { ... })`},
		{"a complete allow", "package rules.x\n\nallow := {\"a\"}\n", "allow must be a set of messages"},
		{"a function named ask", "package rules.x\n\nask(x) := x\n", "ask is a function here"},
		{"a ceiling as a set", "package rules.x\n\nceiling contains {}\n", "ceiling must be one profile"},
		{"a mode that does not exist", "# METADATA\n# custom: {mode: log}\npackage rules.x\n\ndeny contains \"a\"\n", `custom.mode is "log" in the metadata; use enforce, warn or shadow`},
		{"a severity that does not exist", "# METADATA\n# custom: {severity: urgent}\npackage rules.x\n\ndeny contains \"a\"\n", `custom.severity is "urgent"`},
		{"a field that the input does not have", "package rules.x\n\ndeny contains \"a\" if input.request.meta.owner == \"x\"\n", "`regent policy schema request` prints those that it has"},
		{"the network", "package rules.x\n\ndeny contains \"a\" if http.send({\"method\": \"get\", \"url\": \"http://example.com\"}).status_code == 200\n", "the built-in http.send is not available to policies (it reaches outside the decision; policy.capabilities.allow_builtins in config.yaml opens it on purpose)"},
		{"the clock", "package rules.x\n\ndeny contains \"a\" if time.now_ns() > 0\n", "the built-in time.now_ns is not available"},
		{"the environment", "package rules.x\n\ndeny contains \"a\" if opa.runtime().env.USER == \"x\"\n", "the built-in opa.runtime is not available"},
		{"a name that nothing defines", "package rules.x\n\nimport data.regent.lib.command\n\ndeny contains \"a\" if command.invokes(\"git\")\n", "see the helper library"},
		{"an unsafe variable", "package rules.x\n\ndeny contains msg if input.request.kind == \"tool\"\n", "give the variable a value first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rego.Load(t.Context(), workspace(t, map[string]string{"policies/x.rego": tt.text}))
			if !errors.Is(err, rego.ErrLoad) {
				t.Fatalf("err = %v, want one that wraps ErrLoad", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v\nwant a part: %s", err, tt.want)
			}
			if !strings.Contains(err.Error(), "policies/x.rego") {
				t.Errorf("err = %v does not name the file", err)
			}
		})
	}
}

func TestLoadReportsEveryFaultyFile(t *testing.T) {
	_, err := rego.Load(t.Context(), workspace(t, map[string]string{
		"a.rego": "package rules.a\n\ndeny if true\n",
		"b.rego": "package other\n",
	}))
	load, ok := errors.AsType[*rego.LoadError](err)
	if !ok || len(load.Problems) != 2 {
		t.Fatalf("err = %v, want two problems", err)
	}
}

func TestDataFilesStayBelowTheLayersRoot(t *testing.T) {
	p := load(t, workspace(t, map[string]string{
		"limits/data.yaml": "hosts: [evil.test]\n",
		"data.json":        `{"rules": {"limits": {"ports": [22]}}}`,
		"x.rego":           "package rules.x\n\nimport data.rules.limits\n\ndeny contains \"host\" if {\n\tsome h in input.facts.hosts\n\th in limits.hosts\n\t22 in limits.ports\n}\n",
	}))
	if got := p.Rule(t.Context(), command("curl https://evil.test/x")); got.Route != approval.RouteDeny {
		t.Errorf("route = %s, want deny", got.Route)
	}
}

func TestDataFilesMayNotDisagree(t *testing.T) {
	_, err := rego.Load(t.Context(), workspace(t, map[string]string{
		"a/data.yaml": "x: 1\n",
		"data.yaml":   "a: {x: 2}\n",
	}))
	if !errors.Is(err, rego.ErrLoad) || !strings.Contains(err.Error(), "given by two files") {
		t.Errorf("err = %v", err)
	}
}

func TestFilesSaysWhatIsNotLoaded(t *testing.T) {
	p := load(t, workspace(t, map[string]string{
		"git.rego": forcePush, "git_test.rego": "package rules.git_test\n", "notes.txt": "x", "values.yaml": "a: 1\n",
	}))
	got := map[string]string{}
	for _, f := range p.Files() {
		got[f.Name] = f.Kind
	}
	want := map[string]string{"git.rego": "policy", "git_test.rego": "test", "notes.txt": "ignored", "values.yaml": "ignored"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeEvaluatedIsAsked(t *testing.T) {
	tests := []struct {
		name, text, kind, rule string
	}{
		{
			"a built-in that fails",
			"package rules.x\n\ndeny contains \"a\" if to_number(input.request.command.text) > 3\n",
			"evaluation", "rules.x.deny",
		},
		{
			"two values for one ceiling",
			"package rules.x\n\nceiling := {\"network\": {\"enabled\": false}}\n\nceiling := {\"network\": {\"enabled\": true}}\n",
			"conflict", "rules.x.ceiling",
		},
		{
			"a ceiling that is no profile",
			"package rules.x\n\nceiling := {\"netwrok\": {\"enabled\": false}}\n",
			"output", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := workspace(t, map[string]string{"x.rego": tt.text})
			src.Settings.Mode = "auto_allow"
			got := load(t, src).Rule(t.Context(), command("ls"))
			if got.Route != approval.RouteAsk || got.Failure == nil {
				t.Fatalf("route = %s, failure = %v, want ask with a failure", got.Route, got.Failure)
			}
			if got.Failure.Kind != tt.kind || got.Failure.Rule != tt.rule {
				t.Errorf("failure = %+v, want kind %s of rule %q", got.Failure, tt.kind, tt.rule)
			}
		})
	}
}

func TestAnEvaluationThatRunsTooLongIsAsked(t *testing.T) {
	src := workspace(t, map[string]string{"x.rego": `package rules.x

deny contains "a" if {
	some i in numbers.range(1, 3000)
	some j in numbers.range(1, 3000)
	i * j == 0
}
`})
	src.Settings.Timeout = time.Millisecond
	src.Settings.Mode = "auto_allow"
	got := load(t, src).Rule(t.Context(), command("ls"))
	if got.Route != approval.RouteAsk || got.Failure == nil || got.Failure.Kind != "deadline" {
		t.Errorf("route %s, failure %+v; want ask for a deadline", got.Route, got.Failure)
	}
}

func TestACancelledRequestIsAsked(t *testing.T) {
	p := load(t, workspace(t, nil))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the agent went away"))
	got := p.Rule(ctx, command("ls"))
	// The cancel flag may lose the race against so small an evaluation.
	if got.Failure != nil && !strings.Contains(got.Failure.Message, "the agent went away") {
		t.Errorf("failure = %+v, want the cause", got.Failure)
	}
	if got.Route != approval.RouteAsk {
		t.Errorf("route = %s, want ask", got.Route)
	}
}

func TestARestrictionWithAnOddValueStillRestricts(t *testing.T) {
	p := load(t, workspace(t, map[string]string{"x.rego": "package rules.x\n\ndeny contains {\"why\": 7}\n"}))
	got := p.Rule(t.Context(), command("ls"))
	if got.Route != approval.RouteDeny || len(got.Rules) != 1 || got.Rules[0].Message != `{"why": 7}` {
		t.Errorf("route %s, rules %+v", got.Route, got.Rules)
	}
}

func TestAnAllowWithAnOddValueIsAsked(t *testing.T) {
	p := load(t, workspace(t, map[string]string{"x.rego": "package rules.x\n\nallow contains 7\n"}))
	if got := p.Rule(t.Context(), command("rm x")); got.Route != approval.RouteAsk {
		t.Errorf("route = %s (%v), want ask", got.Route, got.Reasons)
	}
}

func TestEpochNamesTheSet(t *testing.T) {
	files := map[string]string{"git.rego": forcePush}
	one, two := load(t, workspace(t, files)), load(t, workspace(t, files))
	if one.Epoch() != two.Epoch() {
		t.Error("the same files in another folder make another epoch")
	}
	src := workspace(t, files)
	src.Settings.ReadOnlyCommands = "skip"
	if load(t, src).Epoch() == one.Epoch() {
		t.Error("another setting makes the same epoch")
	}
	if load(t, workspace(t, map[string]string{"git.rego": forcePush + "\n"})).Epoch() == one.Epoch() {
		t.Error("another text makes the same epoch")
	}
	src = workspace(t, files)
	src.Layers[0].Untrusted = true
	if load(t, src).Epoch() == one.Epoch() {
		t.Error("losing trust makes the same epoch")
	}
}

func TestCeilingsIntersect(t *testing.T) {
	p := load(t, workspace(t, map[string]string{
		"a.rego": `package rules.a

ceiling := {"scope": "session", "file_system": {"entries": [{"path": {"type": "path", "path": "/workspace"}, "access": "write"}]}}
`,
		"b.rego": `package rules.b

ceiling := {"scope": "turn", "file_system": {"entries": [{"path": {"type": "path", "path": "/workspace/app"}, "access": "read"}]}, "network": {"enabled": true}}
`,
	}))
	got := p.Rule(t.Context(), command("ls")).Ceiling
	if got == nil || got.Scope != "turn" || got.Permissions.Network.All {
		t.Fatalf("ceiling = %+v", got)
	}
	entries := got.Permissions.FileSystem.Entries
	if len(entries) != 1 || entries[0].Path.Path != "/workspace/app" || entries[0].Access != "read" {
		t.Errorf("entries = %+v", entries)
	}
}

func TestExplainNamesTheConditionThatDidNotHold(t *testing.T) {
	p := load(t, workspace(t, map[string]string{"policies/git.rego": forcePush}))
	got, err := p.Explain(t.Context(), command("git push --tags origin main"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Nearly) != 1 {
		t.Fatalf("nearly = %+v, want one rule", got.Nearly)
	}
	n := got.Nearly[0]
	if n.ID != "GIT-001" || n.StoppedLine != 12 || !strings.Contains(n.Stopped, `flag in {"--force", "-f"}`) || n.Held != 2 {
		t.Errorf("nearly = %+v", n)
	}
	if n.Values["flag"] != `"--tags"` {
		t.Errorf("values = %v, want flag = --tags", n.Values)
	}
	if far, err := p.Explain(t.Context(), command("ls")); err != nil || len(far.Nearly) != 0 {
		t.Errorf("a call that has nothing to do with git nearly fired %v (%v)", far.Nearly, err)
	}
}

func TestLint(t *testing.T) {
	src := workspace(t, map[string]string{
		"policies/x.rego": `package rules.x

import data.regent.lib.command
import data.regent.lib.paths

allow contains "git is fine" if {
	some c in command.invocations("git")
	c.program == "git"
}

ask contains "no reason" if not _given(input.request.reason)

_given(r) if r != ""

deny   contains "long" if count(input.facts.command.nodes) > 100
`,
		"policies/notes.md": "x",
	})
	findings, err := rego.Lint(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range findings {
		got[f.Check]++
	}
	want := map[string]int{
		rego.CheckAllow: 1, rego.CheckAbsence: 1, rego.CheckFormat: 1, rego.CheckStrict: 1,
		rego.CheckIgnored: 1, rego.CheckMetadata: 6,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, findings)
	}
}

func TestLintSpeaksOfRulesThatDecideNothing(t *testing.T) {
	home := func(pkg string) rego.Source {
		src := workspace(t, map[string]string{"one.rego": "# METADATA\n# title: One\n# custom: {id: ONE}\npackage " + pkg +
			"\n\ndeny contains \"no\" if input.request.kind == \"command\"\n\nallow(x) if x == 1\n\nhelper contains 1\n"})
		src.Layers[0].Name = rego.Home
		return src
	}
	for pkg, want := range map[string]int{"home.guards": 1, "home.rules.guards": 0} {
		findings, err := rego.Lint(t.Context(), home(pkg))
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, f := range findings {
			if f.Check == rego.CheckIgnored {
				got++
				if f.Line != 6 || !strings.Contains(f.Message, "deny decides nothing in package home.guards") {
					t.Errorf("%s: %+v", pkg, f)
				}
			}
		}
		if got != want {
			t.Errorf("%s: %d findings, want %d: %v", pkg, got, want, findings)
		}
	}
}

func TestLintSpeaksOfTheIndexWhenManyRulesMissIt(t *testing.T) {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(forcePush, "\n"))
	for i := range 30 {
		fmt.Fprintf(&b, "\n\nask contains \"many %d\" if count(input.facts.command.nodes) > %d", i, i)
	}
	b.WriteString("\n")
	findings, err := rego.Lint(t.Context(), workspace(t, map[string]string{"git.rego": b.String()}))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range findings {
		if f.Check == rego.CheckIndex {
			n++
		}
	}
	if n != 30 {
		t.Errorf("%d findings about the index, want one for each of the 30 rules and none for the one with a program", n)
	}
}

func TestLintOfCleanRulesIsSilent(t *testing.T) {
	findings, err := rego.Lint(t.Context(), workspace(t, map[string]string{"git.rego": forcePush}))
	if err != nil || len(findings) != 0 {
		t.Errorf("findings = %v, %v", findings, err)
	}
}

func TestPermissionsThatAmountToNothingAreAskedAbout(t *testing.T) {
	p := load(t, workspace(t, nil))
	for _, text := range []string{
		`{"kind":"permissions","permissions":{"network":{"enabled":false}}}`,
		`{"kind":"permissions","permissions":{"file_system":{"deny":["/a"]}}}`,
	} {
		r, err := approval.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := p.Rule(t.Context(), r)
		if got.Route != approval.RouteAsk || got.Failure != nil || !cmp.Equal(got.Effects, []approval.Effect{"unknown"}) {
			t.Errorf("%s: route %s, effects %v, failure %+v", text, got.Route, got.Effects, got.Failure)
		}
	}
}

func TestOnePolicyRulesForManyAtOnce(t *testing.T) {
	p := load(t, workspace(t, map[string]string{"policies/git.rego": forcePush}))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 20 {
				text, want := "git push --force", approval.RouteDeny
				if i%2 == 0 {
					text, want = "git push", approval.RouteAsk
				}
				if got := p.Rule(t.Context(), command(text)); got.Route != want || got.Failure != nil {
					t.Errorf("%s: route %s, failure %v", text, got.Route, got.Failure)
				}
			}
		})
	}
	wg.Wait()
}

// TestRulesMeanTheSameWhereverTheyAreEvaluated holds the ways in which a rule can
// depend on the package it stands in.
func TestRulesMeanTheSameWhereverTheyAreEvaluated(t *testing.T) {
	p := load(t, workspace(t, map[string]string{
		"a.rego": `package rules.a

import data.rules.b as other

limit := 2

_long(nodes) if count(nodes) > limit

deny contains "a helper of the package" if _long(input.facts.command.nodes)

deny contains msg if {
	some msg in other.ask
	msg.id == "rules.b.ask"
}

allow contains "nothing denied here" if count(deny) == 0

context contains "said to the agent"
`,
		"a_more.rego": `package rules.a

deny contains "from another file of the package" if input.request.reason == "more"
`,
		"b.rego": `package rules.b

ask contains "asked by b" if input.request.reason == "b"
`,
		"meta.rego": `# METADATA
# title: Rules that read their own metadata
# custom: {id: META-1}
package rules.meta

ask contains rego.metadata.chain()[count(rego.metadata.chain()) - 1].annotations.title if input.request.reason == "meta"
`,
		"shadow.rego": `package rules.quiet

# METADATA
# custom: {id: QUIET-1, mode: shadow}
deny contains "only watched"

# METADATA
# custom: {id: QUIET-2, mode: warn}
ask contains "only warned"

deny contains "in force" if input.request.reason == "quiet"
`,
	}))
	ask := func(text, reason string) approval.Ruling {
		t.Helper()
		r := command(text)
		r.Reason = reason
		got := p.Rule(t.Context(), r)
		if got.Failure != nil {
			t.Fatalf("%q: %+v", reason, got.Failure)
		}
		if len(got.Context) != 1 || got.Context[0] != "said to the agent" {
			t.Errorf("%q: context %q", reason, got.Context)
		}
		watched := []string{}
		for _, m := range got.Observed {
			watched = append(watched, m.ID+" "+m.Mode)
		}
		slices.Sort(watched)
		if diff := cmp.Diff([]string{"QUIET-1 shadow", "QUIET-2 warn"}, watched); diff != "" {
			t.Errorf("%q: observed (-want +got):\n%s", reason, diff)
		}
		return got
	}
	tests := []struct {
		text, reason string
		route        approval.Route
		messages     []string
	}{
		{"ls", "", approval.RouteAllow, []string{"nothing denied here"}},
		{"ls; ls; ls", "", approval.RouteDeny, []string{"a helper of the package"}},
		{"ls", "more", approval.RouteDeny, []string{"from another file of the package"}},
		{"ls", "meta", approval.RouteAsk, []string{"Rules that read their own metadata", "nothing denied here"}},
		{"ls", "quiet", approval.RouteDeny, []string{"in force", "nothing denied here"}},
	}
	for _, tt := range tests {
		got := ask(tt.text, tt.reason)
		var messages []string
		for _, m := range got.Rules {
			messages = append(messages, m.Message)
		}
		if got.Route != tt.route || !cmp.Equal(messages, tt.messages) {
			t.Errorf("%s (%s): route %s, %q; want %s, %q", tt.text, tt.reason, got.Route, messages, tt.route, tt.messages)
		}
	}
	if got := ask("ls", "b"); got.Route != approval.RouteDeny || len(got.Rules) != 2 {
		t.Errorf("a rule on another package's rules: route %s, %+v", got.Route, got.Rules)
	}
}
