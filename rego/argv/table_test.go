package argv_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/policy"
)

func load(t testing.TB) *argv.Table {
	t.Helper()
	table, err := argv.Load(policy.Commands())
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// small loads one file as a table of its own.
func small(t testing.TB, text string) *argv.Table {
	t.Helper()
	table, err := argv.Load(fstest.MapFS{"t.yaml": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestLoadShippedTables(t *testing.T) {
	table := load(t)
	if n := table.Programs(); n < 1500 {
		t.Errorf("%d programs are listed, want some 1500 at least", n)
	}
	for key, entry := range table.Data() {
		effects, ok := entry.(map[string]any)["effects"].([]any)
		if !ok || len(effects) == 0 {
			t.Errorf("%q has no effects: %v", key, entry)
		}
	}
}

func TestDataHoldsWhatIsNotInert(t *testing.T) {
	table := small(t, `
commands:
  tool, other:
    effects: read
    options:
      inert: -a --all -n/--lines=num
      write network: -u/--upload
      files: -o=out
    operands: in* text?=process
    probes: ["--version"]
    commands:
      sub:
        effects: write
simple:
  process network: runner
probes:
  "-v": tool fresh
`)
	read := map[string]any{"effects": []any{"read"}}
	upload := map[string]any{"effects": []any{"network", "write"}}
	want := map[string]any{
		"PROBE": read, "tool": read, "other": read, "tool -u": upload, "tool --upload": upload,
		"tool OPERAND 2": map[string]any{"effects": []any{"process"}},
		"tool sub":       map[string]any{"effects": []any{"write"}},
		"runner":         map[string]any{"effects": []any{"network", "process"}},
		"fresh":          map[string]any{"effects": []any{"process"}},
	}
	if diff := cmp.Diff(want, table.Data()); diff != "" {
		t.Errorf("Data (-want +got):\n%s", diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"an unknown top key", "comands: {}", `t.yaml:1: unknown key "comands"`},
		{"an unknown key of an entry", "commands:\n  a:\n    effects: read\n    option: {}", `t.yaml:4: unknown key "option"`},
		{"a duplicate key", "commands:\n  a:\n    effects: read\n    effects: write", `t.yaml:4: duplicate key "effects"`},
		{"a program listed twice", "commands:\n  a: {effects: read}\nsimple:\n  write: a", `t.yaml:4: "a" is listed already`},
		{"an option listed twice", "commands:\n  a:\n    effects: read\n    options:\n      inert: -x\n      write: -y -x", `t.yaml:6: a: option -x is listed twice`},
		{"an unknown effect", "commands:\n  a: {effects: raed}", `t.yaml:2: unknown effect "raed"`},
		{"an effect named twice", "commands:\n  a: {effects: read read}", `t.yaml:2: effect "read" named twice`},
		{"an entry without effects", "commands:\n  a: {harmless: true}", `t.yaml:2: a: no effects`},
		{"an unknown kind", "commands:\n  a: {effects: read, operands: fiel*}", `t.yaml:2: a: operand fiel*: unknown kind "fiel"`},
		{"an unknown kind of value", "commands:\n  a:\n    effects: read\n    options: {inert: -x=fiel}", `t.yaml:4: a: option -x=fiel: unknown kind "fiel"`},
		{"two operands that repeat", "commands:\n  a: {effects: read, operands: in* text*}", `t.yaml:2: a: only one operand may repeat`},
		{"an unknown style", "commands:\n  a: {effects: read, style: dos}", `t.yaml:2: unknown style "dos"`},
		{"a mark on an option that is not there", "commands:\n  a: {effects: read, recursive: -r}", `t.yaml:2: a: option -r is not listed`},
		{"a harmless program that writes", "commands:\n  a:\n    effects: read\n    harmless: true\n    options: {files: -o=out}", `t.yaml:2: a is called harmless but -o is not`},
		{"a harmless program with an option that does more", "commands:\n  a:\n    effects: read\n    harmless: true\n    options: {process: -x}", `t.yaml:2: a is called harmless but -x is process`},
		{"a reader that is loose about options", "commands:\n  a: {effects: read, loose: true}", `t.yaml:2: a: loose is for programs that do more than read`},
		{"an unknown gate", "commands:\n  a: {effects: read, gate: hg}", `t.yaml:2: unknown gate "hg"`},
		{"a boolean that is none", "commands:\n  a: {effects: read, numeric: perhaps}", `t.yaml:2: want true or false`},
		{"a probe listed twice", "commands:\n  a: {effects: read, probes: [\"-v\", \"-v\"]}", `t.yaml:2: a: probe "-v" is listed twice`},
		{"an inert program", "simple:\n  inert: a", `t.yaml:2: a program cannot be inert`},
		{"an empty file", "", `t.yaml: empty`},
		{"broken YAML", "commands: [", `t.yaml: yaml: `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := argv.Load(fstest.MapFS{"t.yaml": {Data: []byte(tt.text)}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLoadReportsAllErrors(t *testing.T) {
	_, err := argv.Load(fstest.MapFS{
		"a.yaml": {Data: []byte("commands:\n  a: {effects: x}\n  b: {effects: y}")},
		"b.yaml": {Data: []byte("commands:\n  c: {effects: z}")},
	})
	for _, want := range []string{`a.yaml:2: unknown effect "x"`, `a.yaml:3: unknown effect "y"`, `b.yaml:2: unknown effect "z"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want %q in it", err, want)
		}
	}
}

func TestLoadWantsFiles(t *testing.T) {
	if _, err := argv.Load(fstest.MapFS{}); err == nil {
		t.Error("Load of no files succeeds")
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := argv.Load(policy.Commands()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestProgramsThatRunWhatTheirWordsSay(t *testing.T) {
	table := load(t)
	for _, program := range strings.Fields("sh bash zsh dash fish pwsh python python3 python3.12 pypy3 ipython node deno bun tsx perl ruby php lua java Rscript awkward " +
		"env sudo doas su timeout nice nohup xargs watch time command builtin eval exec source . trap alias npx uvx busybox script tmux flock parallel") {
		if !table.Runs(program) {
			t.Errorf("%s is said to run nothing of its words", program)
		}
	}
	for _, program := range strings.Fields("ls cat touch rm git go npm make cargo curl tar sed awk jq docker cd echo") {
		if table.Runs(program) {
			t.Errorf("%s is said to run its words", program)
		}
	}
}

func TestHasTellsTheEffectsOfAUse(t *testing.T) {
	table := load(t)
	for _, tt := range []struct {
		use    string
		effect argv.Effects
		want   bool
	}{
		{"ls", argv.Read, true},
		{"ls", argv.Write | argv.Unknown, false},
		{"sudo", argv.Unknown, true},
		{"git push", argv.Network, true},
		{"a use that no table has", argv.Unknown, true},
		{"ls", 0, false},
	} {
		if got := table.Has(tt.use, tt.effect); got != tt.want {
			t.Errorf("Has(%q, %v) = %t, want %t", tt.use, tt.effect, got, tt.want)
		}
	}
}
