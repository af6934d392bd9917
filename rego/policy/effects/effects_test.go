package effects_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/policy/catalog/commands"
	"github.com/regent-policy/regent/rego/shell"
)

// world stands for the package that looks at the machine: folders below /inert
// hold repositories that start nothing, /hostile ones that do, and nothing is
// known of all others.
const world = `package regent.world

git(dir) := {"inert": true} if startswith(dir, "/inert")

git(dir) := {"inert": false, "reasons": ["core.fsmonitor at .git/config:4"]} if startswith(dir, "/hostile")

git(dir) := {"inert": false, "unknown": true, "reasons": ["no repository found"]} if startswith(dir, "/nowhere")
`

// answer is data.regent.effects.command.
type answer struct {
	Effects  []string `json:"effects"`
	External bool     `json:"external"`
	ReadOnly bool     `json:"read_only"`
	Why      []string `json:"why"`
}

// nodeAnswer is one of data.regent.effects.nodes.
type nodeAnswer struct {
	Index   int      `json:"index"`
	Program string   `json:"program"`
	Line    int      `json:"line"`
	Effects []string `json:"effects"`
	Why     []string `json:"why"`
}

// policy evaluates the package on the tables that are shipped.
type policy struct {
	table *argv.Table
	query oparego.PreparedEvalQuery
}

func load(t testing.TB) *policy {
	t.Helper()
	table, err := argv.Load(commands.FS)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("effects.rego")
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]any{"regent": map[string]any{"catalog": map[string]any{"commands": table.Data()}}}
	query, err := oparego.New(
		oparego.Query("x = data.regent.effects"),
		oparego.Module("effects.rego", string(text)),
		oparego.Module("world.rego", world),
		oparego.Store(inmem.NewFromObjectWithOpts(data, inmem.OptReturnASTValuesOnRead(true))),
		oparego.Strict(true),
		oparego.StrictBuiltinErrors(true),
	).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &policy{table, query}
}

// command is what the policy is given of a text.
type command struct {
	Nodes    []argv.Node     `json:"nodes"`
	Summary  argv.Summary    `json:"summary"`
	Problems []shell.Problem `json:"problems"`
}

func (p *policy) facts(parsed shell.Facts, cwd string) command {
	nodes := p.table.ReadAll(&parsed)
	argv.Join(nodes, cwd, "/home/dev")
	summary := argv.Summarize(nodes)
	p.table.Shorten(&summary)
	return command{nodes, summary, parsed.Problems}
}

func (p *policy) input(t testing.TB, c command) ast.Value {
	t.Helper()
	text, err := json.Marshal(map[string]any{"facts": map[string]any{"command": c}})
	if err != nil {
		t.Fatal(err)
	}
	value, err := ast.ValueFromReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// eval returns what the policy says of c, and checks that the whole, which is taken
// from the summary, is the union of what the nodes have.
func (p *policy) eval(t testing.TB, c command) (answer, []nodeAnswer) {
	t.Helper()
	whole, nodes := p.evalOnce(t, c)
	union := map[string]bool{}
	for _, n := range nodes {
		for _, e := range n.Effects {
			union[e] = true
		}
	}
	if len(c.Problems) > 0 {
		union["unknown"] = true
	}
	for _, e := range whole.Effects {
		// Reading stands in where there is nothing else.
		if !union[e] && e != "read" {
			t.Errorf("the whole has %q, no node has: %+v", e, nodes)
		}
		delete(union, e)
	}
	delete(union, "read")
	if len(union) > 0 {
		t.Errorf("nodes have %v, the whole has not: %+v", union, whole)
	}
	return whole, nodes
}

func (p *policy) evalOnce(t testing.TB, c command) (answer, []nodeAnswer) {
	t.Helper()
	results, err := p.query.Eval(t.Context(), oparego.EvalParsedInput(p.input(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 {
		t.Fatalf("got %d results", len(results))
	}
	text, err := json.Marshal(results[0].Bindings["x"])
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Command answer       `json:"command"`
		Nodes   []nodeAnswer `json:"nodes"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	return got.Command, got.Nodes
}

func (p *policy) classify(t testing.TB, dialect shell.Dialect, text, cwd string) (answer, []nodeAnswer) {
	t.Helper()
	return p.eval(t, p.facts(shell.Parse(dialect, text), cwd))
}

func decode(t testing.TB, name string, into any) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

var readOnly = answer{Effects: []string{"read"}, ReadOnly: true, Why: []string{}}

func TestEverydayCommands(t *testing.T) {
	p := load(t)
	for _, c := range everyday(t) {
		t.Run(c.effect+"/"+c.text, func(t *testing.T) {
			got, nodes := p.classify(t, shell.Bash, c.text, "/inert/app")
			if c.effect == "read" {
				if diff := cmp.Diff(readOnly, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s\n%+v", c.text, diff, nodes)
				}
				return
			}
			if got.ReadOnly || !slices.Contains(got.Effects, c.effect) {
				t.Errorf("%s: got %v, want %s among them; nodes %+v", c.text, got.Effects, c.effect, nodes)
			}
			if want := slices.Contains(got.Effects, "network"); got.External != want {
				t.Errorf("%s: external is %v beside %v", c.text, got.External, got.Effects)
			}
			if len(got.Why) == 0 {
				t.Errorf("%s: %v without a reason", c.text, got.Effects)
			}
		})
	}
}

// everydayCase is a command and the effect it must have, "read" for nothing else.
type everydayCase struct{ effect, text string }

func everyday(t testing.TB) []everydayCase {
	t.Helper()
	text, err := os.ReadFile("testdata/everyday.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases []everydayCase
	effect := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "== "):
			effect = strings.TrimPrefix(strings.TrimPrefix(line, "== "), "has ")
		default:
			cases = append(cases, everydayCase{effect, strings.ReplaceAll(line, "↵", "\n")})
		}
	}
	if len(cases) < 500 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

func TestCorpus(t *testing.T) {
	p := load(t)
	var cases []struct {
		ID      string    `yaml:"id"`
		Shell   string    `yaml:"shell"`
		Cwd     string    `yaml:"cwd"`
		Command yaml.Node `yaml:"command"`
		AnyOf   []string  `yaml:"any_of"`
		Skip    bool      `yaml:"skip"`
	}
	decode(t, "testdata/corpus.yaml", &cases)
	for _, tt := range cases {
		t.Run(tt.ID, func(t *testing.T) {
			var parsed shell.Facts
			if tt.Command.Kind == yaml.SequenceNode {
				var words []string
				if err := tt.Command.Decode(&words); err != nil {
					t.Fatal(err)
				}
				parsed = shell.ParseArgv(words)
			} else {
				parsed = shell.Parse(shell.Dialect(tt.Shell), tt.Command.Value)
			}
			got, nodes := p.eval(t, p.facts(parsed, tt.Cwd))
			found := false
			for _, e := range tt.AnyOf {
				found = found || slices.Contains(got.Effects, e)
			}
			if !found || got.ReadOnly != tt.Skip {
				t.Errorf("got %+v, want one of %v, read-only %v; nodes %+v", got, tt.AnyOf, tt.Skip, nodes)
			}
		})
	}
}

func TestPolicyIsFormattedAndAnnotated(t *testing.T) {
	text, err := os.ReadFile("effects.rego")
	if err != nil {
		t.Fatal(err)
	}
	formatted, err := format.Source("effects.rego", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(formatted), string(text)); diff != "" {
		t.Errorf("run opa fmt (-want +got):\n%s", diff)
	}
	module, err := ast.ParseModuleWithOpts("effects.rego", string(text), ast.ParserOptions{ProcessAnnotation: true})
	if err != nil {
		t.Fatal(err)
	}
	annotated := map[string]bool{}
	for _, a := range module.Annotations {
		annotated[a.Scope] = true
		if a.Title == "" || a.Description == "" {
			t.Errorf("annotation at %v lacks title or description", a.Location)
		}
	}
	for _, scope := range []string{"package", "rule"} {
		if !annotated[scope] {
			t.Errorf("no annotation of scope %s", scope)
		}
	}
}
