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
	"github.com/regent-policy/regent/rego/policy"
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

// engine evaluates the package on the tables that are shipped.
type engine struct {
	table *argv.Table
	// query asks for everything, command for what a decision needs.
	query, command oparego.PreparedEvalQuery
}

func load(t testing.TB) *engine {
	t.Helper()
	table, err := argv.Load(policy.Commands())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("effects.rego")
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]any{"regent": map[string]any{"catalog": map[string]any{"commands": table.Data()}}}
	store := inmem.NewFromObjectWithOpts(data, inmem.OptReturnASTValuesOnRead(true))
	prepare := func(query string) oparego.PreparedEvalQuery {
		prepared, err := oparego.New(
			oparego.Query(query),
			oparego.Module("effects.rego", string(text)),
			oparego.Module("world.rego", world),
			oparego.Store(store),
			oparego.Strict(true),
			oparego.StrictBuiltinErrors(true),
		).PrepareForEval(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return prepared
	}
	return &engine{table, prepare("x = data.regent.effects"), prepare("x = data.regent.effects.command")}
}

// command is what the policy is given of a text.
type command struct {
	Nodes    []argv.Node     `json:"nodes"`
	Summary  argv.Summary    `json:"summary"`
	Problems []shell.Problem `json:"problems"`
}

func (p *engine) facts(parsed shell.Facts, cwd string) command {
	nodes := p.table.ReadAll(&parsed)
	argv.Join(nodes, cwd, "/home/dev")
	summary := argv.Summarize(nodes)
	p.table.Shorten(&summary)
	return command{nodes, summary, parsed.Problems}
}

func (p *engine) input(t testing.TB, c command) ast.Value {
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
func (p *engine) eval(t testing.TB, c command) (answer, []nodeAnswer) {
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

func (p *engine) evalOnce(t testing.TB, c command) (answer, []nodeAnswer) {
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

func (p *engine) classify(t testing.TB, dialect shell.Dialect, text, cwd string) (answer, []nodeAnswer) {
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

func TestNodesTellTheirPart(t *testing.T) {
	p := load(t)
	_, got := p.classify(t, shell.Bash, "ls -l\nrm -r x; ./run | sort -Z", "/inert/app")
	want := []nodeAnswer{
		{0, "ls", 1, []string{"read"}, []string{}},
		{1, "rm", 2, []string{"write"}, []string{"rm: write", "writes x"}},
		{
			2, "run", 2,
			[]string{"process", "unknown"},
			[]string{"program named by a path outside the system folders: ./run"},
		},
		{3, "sort", 2, []string{"read", "unknown"}, []string{"unlisted option -Z of sort"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestReasonsOfTheWhole(t *testing.T) {
	p := load(t)
	got, _ := p.classify(t, shell.Bash, "FOO=1 ls >out 3</dev/tcp/h/1; git status", "/hostile/app")
	want := answer{
		Effects:  []string{"network", "process", "read", "unknown", "write"},
		External: true,
		Why: []string{
			"connects to /dev/tcp/h/1", "sets the variable FOO",
			"the repository may start programs: core.fsmonitor at .git/config:4", "writes out",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// TestGit states when git is a reader: only where the repository is known to start
// nothing, wherever the command moved to before.
func TestGit(t *testing.T) {
	p := load(t)
	tests := []struct {
		name, text, cwd string
		want            []string
	}{
		{"inert", "git status", "/inert/app", []string{"read"}},
		{"hostile", "git status", "/hostile/app", []string{"process", "read"}},
		{"no repository", "git status", "/nowhere/app", []string{"process", "read", "unknown"}},
		{"nothing is known", "git status", "/else/app", []string{"process", "read", "unknown"}},
		{"no folder is known", "git status", "", []string{"process", "read", "unknown"}},
		{"cd into a hostile one", "cd /hostile/x && git log", "/inert/app", []string{"process", "read"}},
		{"cd out of it again", "(cd /hostile/x && ls); git log", "/inert/app", []string{"read"}},
		{"cd somewhere", `cd "$x" && git log`, "/inert/app", []string{"process", "read", "unknown"}},
		{"-C into a hostile one", "git -C /hostile/x log", "/inert/app", []string{"process", "read"}},
		{"-C out of a hostile one", "git -C /inert/x log", "/hostile/app", []string{"read"}},
		{"-C somewhere", `git -C "$x" log`, "/inert/app", []string{"process", "read", "unknown"}},
		{"one of two", "git log; git -C /hostile/x log", "/inert/app", []string{"process", "read"}},
		{"a writer does not ask", "git push", "/inert/app", []string{"network", "process"}},
		{"its version needs no repository", "git --version", "/hostile/app", []string{"read"}},
		{"configuration is read under the gate too", "git config --list", "/hostile/app", []string{"process", "read"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, nodes := p.classify(t, shell.Bash, tt.text, tt.cwd)
			if diff := cmp.Diff(tt.want, got.Effects); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s\n%+v", tt.text, tt.cwd, diff, nodes)
			}
			if got.ReadOnly != cmp.Equal(tt.want, []string{"read"}) {
				t.Errorf("%s in %s: read-only is %v beside %v", tt.text, tt.cwd, got.ReadOnly, got.Effects)
			}
		})
	}
}

func TestAssignments(t *testing.T) {
	p := load(t)
	tests := []struct {
		text string
		want []string
	}{
		{"LC_ALL=C ls", []string{"read"}},
		{"LC_ALL=../x ls", []string{"read", "unknown"}},
		{"LC_ALL=$x ls", []string{"read", "unknown"}},
		{"LC_ALL+=x ls", []string{"read", "unknown"}},
		{"TZ=Asia/Tokyo date", []string{"read"}},
		{"TZ=/etc/x date", []string{"read", "unknown"}},
		{"TZ=:x date", []string{"read", "unknown"}},
		{"NO_COLOR=1 ls", []string{"read"}},
		{"PAGER=cat git log", []string{"read"}},
		{"PAGER=./x git log", []string{"process", "read", "unknown"}},
		{"GIT_OPTIONAL_LOCKS=0 git status", []string{"read"}},
		{"GIT_OPTIONAL_LOCKS=1 git status", []string{"process", "read", "unknown"}},
		{"FOO=1 ls", []string{"read", "unknown"}},
		{"LD_PRELOAD=x ls", []string{"process", "read", "unknown"}},
		{"X_CONFIG_PATH=x ls", []string{"process", "read", "unknown"}},
		{"env LC_ALL=C ls", []string{"read"}},
		{"env FOO=1 ls", []string{"read", "unknown"}},
		{"x=1", []string{"read"}},
		{"FOO=1; ls", []string{"read"}},
		{`x="$y"`, []string{"read"}},
		{"x=$(pwd)", []string{"read"}},
		{"x=${y@P}", []string{"unknown"}},
		{"PATH=x; ls", []string{"process", "read", "unknown"}},
		{"IFS=x", []string{"process", "unknown"}},
		{"path=x", []string{"process", "unknown"}},
		{"BASH_ENV=x", []string{"process", "unknown"}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, nodes := p.classify(t, shell.Bash, tt.text, "/inert/app")
			if diff := cmp.Diff(tt.want, got.Effects); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%+v", tt.text, diff, nodes)
			}
		})
	}
}

func TestSinksAreAnExactList(t *testing.T) {
	p := load(t)
	for target, want := range map[string]bool{
		"/dev/null": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/tty": true, "/dev/fd/2": true,
		"/dev/shm/x": false, "/dev/sda": false, "/dev/fd/../x": false, "/dev/fd/22": false, "/dev/null/x": false,
		"./dev/null": false, "dev/null": false, "/dev/nul": false, "/dev": false,
	} {
		got, _ := p.classify(t, shell.Bash, "echo x > "+target, "/inert/app")
		if got.ReadOnly != want {
			t.Errorf("echo x > %s: read-only is %v", target, got.ReadOnly)
		}
		// Options and operands that name files are judged by the same list.
		got, _ = p.classify(t, shell.Bash, "sort -o "+target+" x | tee "+target, "/inert/app")
		if got.ReadOnly != want {
			t.Errorf("sort -o %s: read-only is %v", target, got.ReadOnly)
		}
	}
}

// TestMissingFacts holds that what is not said is never taken for harmless.
func TestMissingFacts(t *testing.T) {
	p := load(t)
	inputs := map[string]string{
		"no input":               `{}`,
		"no facts":               `{"facts": {}}`,
		"no nodes and summary":   `{"facts": {"command": {}}}`,
		"no summary":             `{"facts": {"command": {"nodes": [{"program": "rm", "uses": ["rm"]}], "problems": []}}}`,
		"null":                   `{"facts": {"command": {"nodes": null, "summary": null, "problems": null}}}`,
		"a key that is not ours": `{"facts": {"command": {"nodes": [], "summary": {"uses": ["ls --frob"]}, "problems": []}}}`,
		"a problem of the text":  `{"facts": {"command": {"nodes": [], "summary": {"uses": ["ls"]}, "problems": [{"kind": "syntax", "message": "broken"}]}}}`,
	}
	for name, text := range inputs {
		t.Run(name, func(t *testing.T) {
			value, err := ast.ValueFromReader(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			results, err := p.query.Eval(t.Context(), oparego.EvalParsedInput(value))
			if err != nil {
				t.Fatal(err)
			}
			got := results[0].Bindings["x"].(map[string]any)
			command := got["command"].(map[string]any)
			if command["read_only"] != false {
				t.Errorf("command = %v", command)
			}
			whole := got["whole"].([]any)
			if !slices.Contains(whole, any("unknown")) {
				t.Errorf("whole = %v, want unknown in it", whole)
			}
		})
	}
}

func TestEmptyTextReads(t *testing.T) {
	p := load(t)
	for _, text := range []string{"", "# nothing", "\n\n"} {
		got, _ := p.classify(t, shell.Bash, text, "/inert/app")
		if diff := cmp.Diff(readOnly, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestDialects holds that what does harm in bash is not read-only in another shell,
// known or not.
func TestDialects(t *testing.T) {
	p := load(t)
	for _, c := range everyday(t) {
		if c.effect == "read" {
			continue
		}
		for _, dialect := range []shell.Dialect{shell.POSIX, shell.Zsh, "fish", "powershell"} {
			got, nodes := p.classify(t, dialect, c.text, "/inert/app")
			if got.ReadOnly {
				t.Errorf("%s: %s is read-only: %+v", dialect, c.text, nodes)
			}
		}
	}
}

// TestEvaluationAllocates holds the cost of judging an ordinary call.
func TestEvaluationAllocates(t *testing.T) {
	p := load(t)
	query, value := p.ordinary(t)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := query.Eval(t.Context(), oparego.EvalParsedInput(value)); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 300 {
		t.Errorf("%v allocations for 15 commands, want at most 300", allocs)
	}
}

// ordinary prepares the query that a decision makes and an ordinary call for it.
func (p *engine) ordinary(t testing.TB) (oparego.PreparedEvalQuery, ast.Value) {
	t.Helper()
	const text = `cd src && git status --short && git log --oneline -5 | head -3; ls -la docs; cat go.mod | grep -v x |
sort -u | head -20; find . -name '*.go' -not -path './vendor/*' -print | wc -l; rg -n 'TODO|FIXME' . | cut -d: -f1 | uniq -c;
sed -n '1,80p' main.go 2>/dev/null`
	c := p.facts(shell.Parse(shell.Bash, text), "/inert/app")
	if n := len(c.Nodes); n != 15 {
		t.Fatalf("the call has %d commands", n)
	}
	return p.command, p.input(t, c)
}

func BenchmarkEffects(b *testing.B) {
	p := load(b)
	query, value := p.ordinary(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := query.Eval(b.Context(), oparego.EvalParsedInput(value)); err != nil {
			b.Fatal(err)
		}
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
