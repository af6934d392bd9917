package rego

// Internal: the comparison hands the very modules of an engine to a stock OPA
// server, which needs a look inside.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"github.com/regent-policy/regent/gate/approval"
)

// referenceCommand is the call of the reference decision: 617 bytes of shell, ten
// commands, as agents write them at the end of a piece of work.
const referenceCommand = `cd /workspace/app/services/api && git status --short && git diff --stat HEAD~1 -- internal/server internal/store
grep -rn --include='*.go' 'context.Background()' internal cmd/api | grep -v _test.go | sed -n '1,40p'
go test ./internal/server/... ./internal/store/... -run 'TestServer|TestStore' -count=1 2>&1 | tee /tmp/api-test.log | tail -40
git commit -m "server: hand the context of a request down to the store

A request that its client has given up went on reading rows until the last one.
The store now stops with the request, and says so in the log once, with the name of t." -- internal/server internal/store
`

// referencePolicies makes ten files of rules of the kind that workspaces have,
// one of which looks like n more by tool name.
func referencePolicies(n int) map[string]string {
	files := map[string]string{
		"git.rego": forcePushForBench,
		"secrets.rego": `package rules.secrets

import data.regent.lib.paths

deny contains sprintf("%s holds secrets", [p]) if {
	some p in paths.targets(input.request)
	strings.any_suffix_match(p, ["/.env", ".pem", "/id_rsa", "/.aws/credentials", "/.netrc"])
}
`,
		"outside.rego": `package rules.outside

import data.regent.lib.paths

ask contains sprintf("%s is outside the workspace", [p]) if {
	some p in paths.write_targets(input.request)
	not paths.below(p, input.environment.cwd)
}
`,
		"hosts.rego": `package rules.hosts

import data.regent.lib.tools

review contains sprintf("reaches %s", [h]) if {
	some h in tools.hosts
	not tools.host_below(h, "example.com")
}
`,
	}
	for i, program := range []string{"npm", "cargo", "docker", "kubectl", "terraform"} {
		files[program+".rego"] = fmt.Sprintf(`package rules.%[1]s

import data.regent.lib.command

ask contains "%[1]s publishes" if {
	some c in command.invocations("%[1]s")
	some word in c.args
	word in {"publish", "push", "apply", "delete", "p%[2]d"}
}
`, program, i)
	}
	var b strings.Builder
	b.WriteString("package rules.tools\n")
	for i := range n {
		fmt.Fprintf(&b, "\nask contains \"tool %d asks\" if input.request.tool.name == \"tool_%d\"\n", i, i)
	}
	files["tools.rego"] = b.String()
	return files
}

const forcePushForBench = `package rules.git

import data.regent.lib.command

deny contains "force push" if {
	some c in command.invocations("git")
	"push" in c.args
	some flag in c.flags
	flag in {"--force", "-f"}
}
`

// referenceTools is a catalogue of n tools.
func referenceTools(n int) fstest.MapFS {
	var b strings.Builder
	b.WriteString("harness: native\ntools:\n")
	for i := range n {
		fmt.Fprintf(&b, "  tool_%d: {effects: [read], external: false, open: true}\n", i)
	}
	return fstest.MapFS{"native.yaml": &fstest.MapFile{Data: []byte(b.String())}}
}

func referenceSource(tb testing.TB, rules, tools int) Source {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range referencePolicies(rules) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	s := DefaultSettings()
	s.Timeout = time.Minute
	src := Source{
		Settings: s, Layers: []Layer{{Name: Workspace, Dir: dir, Paths: []string{dir}}},
		SealedHosts: []string{"127.0.0.1:7340"},
	}
	// As a daemon has them.
	for _, name := range []string{"runtime", "runtime/regent.sock", "runtime/runtime.db", "trust.json", "tokens.json", "step_up.json"} {
		src.Sealed = append(src.Sealed, "/home/dev/.regent/"+name)
	}
	if tools > 0 {
		src.Tools = referenceTools(tools)
	}
	return src
}

func referencePolicy(tb testing.TB, rules, tools int) *Policy {
	tb.Helper()
	p, err := Load(tb.Context(), referenceSource(tb, rules, tools))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func referenceRequest(tb testing.TB) *approval.Request {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{
		"kind":        "command",
		"command":     map[string]any{"shell": "bash", "text": referenceCommand},
		"environment": map[string]any{"id": "local", "cwd": "/workspace/app", "home": "/home/dev"},
		"reason":      "check the build", "options": []string{"accept", "decline"},
		"session": map[string]any{"id": "s1", "turn_id": "t1", "call_id": "c1"},
		"harness": map[string]any{"name": "codex", "version": "0.171.0"},
		"subject": map[string]any{"id": "agent:codex"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	r, err := approval.Decode(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// maxAllocations bounds a reference decision, from the request to the ruling.
const maxAllocations = 1200

func BenchmarkReferenceDecision(b *testing.B) {
	p, r := referencePolicy(b, 100, 0), referenceRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		p.Rule(b.Context(), r)
	}
}

func BenchmarkReferenceFacts(b *testing.B) {
	p, r := referencePolicy(b, 100, 0), referenceRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		p.facts.input(r)
	}
}

func BenchmarkReferenceInput(b *testing.B) {
	p, r := referencePolicy(b, 100, 0), referenceRequest(b)
	in := p.facts.input(r)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := in.value(p.asked); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGoals measures the stated goals, each as a ratio of medians from
// interleaved rounds in one run, and prints them as a table.
func BenchmarkGoals(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	// As cmd/regent does, unless the user says otherwise.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	var rows []goal
	rows = append(rows, goalServer(b)...)
	rows = append(rows, goalScale(b)...)
	rows = append(rows, goalAllocations(b))
	fmt.Printf("\n%-4s %-66s %10s %10s  %s\n", "goal", "what", "measured", "wanted", "met")
	for _, g := range rows {
		met := "yes"
		if !g.met {
			met = "NO"
		}
		fmt.Printf("%-4s %-66s %10s %10s  %s\n", g.number, g.what, g.measured, g.wanted, met)
	}
	fmt.Println()
}

type goal struct {
	number, what, measured, wanted string
	met                            bool
}

// interleave runs the contenders in turn and gives the median time of each.
func interleave(rounds int, contenders ...func()) []time.Duration {
	times := make([][]time.Duration, len(contenders))
	for range rounds {
		for i, run := range contenders {
			start := time.Now()
			run()
			times[i] = append(times[i], time.Since(start))
		}
	}
	medians := make([]time.Duration, len(contenders))
	for i, t := range times {
		slices.Sort(t)
		medians[i] = t[len(t)/2]
	}
	return medians
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// goalServer is goal 1: the embedded decision, from the request to the ruling,
// beside the same policies and the finished input on a stock OPA server.
func goalServer(b *testing.B) []goal {
	opa := os.Getenv("REGENT_BENCH_OPA")
	if opa == "" {
		b.Log("goal 1 is not measured: REGENT_BENCH_OPA names no opa binary; `make bench` builds one")
		return nil
	}
	p, r := referencePolicy(b, 100, 0), referenceRequest(b)
	set, err := assemble(referenceSource(b, 100, 0))
	if err != nil {
		b.Fatal(err)
	}
	address := startServer(b, opa, set)
	value, err := p.facts.input(r).value(p.asked)
	if err != nil {
		b.Fatal(err)
	}
	input, err := inputJSON(value)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{}
	ask := func() {
		response, err := client.Post("http://"+address+"/v1/data/regent/route", "application/json", bytes.NewReader(raw))
		if err != nil {
			b.Fatal(err)
		}
		defer response.Body.Close()
		var answer struct {
			Result struct {
				Decision struct {
					Route string `json:"route"`
				} `json:"decision"`
			} `json:"result"`
		}
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			b.Fatal(err)
		}
		if want := p.Rule(b.Context(), r).Route; answer.Result.Decision.Route != string(want) {
			b.Fatalf("the server says %q, the engine %q", answer.Result.Decision.Route, want)
		}
	}
	ask()
	quick := func() {
		response, err := client.Post("http://"+address+"/v1/data/regent/route", "application/json", bytes.NewReader(raw))
		if err != nil {
			b.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(new(any)); err != nil {
			b.Fatal(err)
		}
	}
	medians := interleave(500, func() { p.Rule(b.Context(), r) }, quick)
	times := ratio(medians[1], medians[0])
	return []goal{{"1", "opa run --server over TCP / embedded reference decision, p50", fmt.Sprintf("%.2fx", times), ">= 2.5x", times >= 2.5}}
}

// inputJSON is an input as JSON values, every part of it.
func inputJSON(v ast.Value) (any, error) {
	// Map makes an ordinary object of one whose parts are made on demand.
	object, err := v.(ast.Object).Map(func(k, v *ast.Term) (*ast.Term, *ast.Term, error) { return k, v, nil })
	if err != nil {
		return nil, err
	}
	return ast.JSON(object)
}

// stockFiles writes the engine's own modules and data for a stock OPA, and returns
// the folder. The one file that calls Regent's built-ins is replaced by one that
// says what they say here.
func stockFiles(b *testing.B, set *assembled) string {
	b.Helper()
	dir := b.TempDir()
	// Moving the rules of the layers is the engine's own doing; the server finds
	// them in their packages.
	for _, r := range set.rules {
		r.byReference = true
	}
	plain, err := unite(set.rules)
	if err != nil {
		b.Fatal(err)
	}
	if set.modules[layersModule], err = plain.write(); err != nil {
		b.Fatal(err)
	}
	for name, m := range set.modules {
		text, err := format.Ast(m)
		if err != nil {
			b.Fatal(err)
		}
		if name == "regent/world/world.rego" {
			text = []byte("package regent.world\n\ngit(_) := {\"inert\": false, \"reasons\": [\"no repository\"]}\n\nfacts(_, _) := {}\n")
		}
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	data, err := json.Marshal(set.data)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data.json"), data, 0o644); err != nil {
		b.Fatal(err)
	}
	return dir
}

// startServer runs a stock OPA on loopback with the engine's own modules and
// data.
func startServer(b *testing.B, opa string, set *assembled) string {
	b.Helper()
	dir := stockFiles(b, set)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	ctx, cancel := context.WithCancel(b.Context())
	server := exec.CommandContext(ctx, opa, "run", "--server", "--addr", address, "--log-level", "error", "--disable-telemetry", dir)
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		_ = server.Wait() // it was just killed
	})
	deadline := time.Now().Add(30 * time.Second)
	for range time.Tick(50 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/health")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return address
			}
		}
		if time.Now().After(deadline) {
			b.Fatalf("the OPA server does not answer: %v\n%s", err, log.String())
		}
	}
	return "" // a ticker does not end
}

// goalScale is goal 5: what more rules and more tools cost.
func goalScale(b *testing.B) []goal {
	r := referenceRequest(b)
	few, many := referencePolicy(b, 10, 0), referencePolicy(b, 10_000, 0)
	rules := interleave(300, func() { few.Rule(b.Context(), r) }, func() { many.Rule(b.Context(), r) })
	call := &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "tool_7"}}
	small, large := referencePolicy(b, 10, 100), referencePolicy(b, 10, 100_000)
	tools := interleave(2000, func() { small.Rule(b.Context(), call) }, func() { large.Rule(b.Context(), call) })
	byRules, byTools := ratio(rules[1], rules[0]), ratio(tools[1], tools[0])
	return []goal{
		{"5", "decision with 10,000 indexable workspace rules / with 10", fmt.Sprintf("%.2fx", byRules), "<= 1.5x", byRules <= 1.5},
		{"5", "decision with a catalogue of 100,000 tools / of 100", fmt.Sprintf("%.2fx", byTools), "<= 1.3x", byTools <= 1.3},
	}
}

// goalAllocations is goal 6, for the table; a test holds it.
func goalAllocations(b *testing.B) goal {
	p, r := referencePolicy(b, 100, 0), referenceRequest(b)
	got := testing.AllocsPerRun(50, func() { p.Rule(b.Context(), r) })
	return goal{"6", "allocations of a reference decision, request to ruling", fmt.Sprintf("%.0f", got), "<= 1200", got <= maxAllocations}
}
