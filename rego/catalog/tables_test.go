package catalog_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/catalog"
)

const tables = "../policy/catalog/tools"

func shipped(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, err := catalog.Load(os.DirFS(tables))
	if err != nil {
		tb.Fatalf("load the tables:\n%v", err)
	}
	return c
}

// privileged are the tools without an effect of their own that still change
// what may happen next: modes, foreign instructions, prompts that run later.
var privileged = map[string]bool{
	"acp kind:switch_mode":        true,
	"claude-code CronCreate":      true,
	"claude-code CronDelete":      true,
	"claude-code EndConversation": true,
	"claude-code EnterPlanMode":   true,
	"claude-code ExitPlanMode":    true,
	"claude-code ScheduleWakeup":  true,
	"claude-code Skill":           true,
	"cline skills":                true,
	"gemini-cli activate_skill":   true,
	"gemini-cli enter_plan_mode":  true,
	"gemini-cli exit_plan_mode":   true,
	"opencode skill":              true,
	"qwen-code exit_plan_mode":    true,
	"qwen-code skill":             true,
}

// hints are kinds that the agent chose by itself, so that they cannot vouch for
// a call.
func hints(harness string) bool { return harness == "acp" }

func TestTablesSayWhatIsKnown(t *testing.T) {
	c := shipped(t)
	text, err := os.ReadFile("testdata/facts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		harness, name, class, external, mutates, args := f[0], f[1], f[2], f[3], f[4], f[5]
		t.Run(harness+" "+name, func(t *testing.T) {
			if strings.Contains(name, "<") {
				servedByMCP(t, c, harness, name)
				return
			}
			probe := strings.Replace(name, "*", "x", 1)
			key, tool, ok := c.Lookup(harness, probe)
			if !ok || key != name {
				t.Fatalf("Lookup(%q) = %q, %v", probe, key, ok)
			}
			classified(t, harness+" "+name, class, tool)
			if string(tool.External) != external {
				t.Errorf("external %s, want %s", tool.External, external)
			}
			for field := range strings.SplitSeq(mutates, ",") {
				if field != "" && !writes(tool, field) {
					t.Errorf("argument %s is not written", field)
				}
			}
			for arg := range strings.SplitSeq(args, ",") {
				if arg != "" && !accepts(tool, arg) {
					t.Errorf("argument %s is not known", arg)
				}
			}
		})
	}
	if rows != 181 {
		t.Errorf("%d facts, want 181", rows)
	}
}

func classified(t *testing.T, name, class string, tool catalog.Tool) {
	t.Helper()
	harness, _, _ := strings.Cut(name, " ")
	has := func(e catalog.Effect) bool { return slices.Contains(tool.Effects, e) }
	switch class {
	case "read", "write", "process", "network", "unknown":
		if !has(catalog.Effect(class)) {
			t.Errorf("effects %v lack %s", tool.Effects, class)
		}
	case "agent":
		if !has(catalog.Process) || !has(catalog.Unknown) {
			t.Errorf("effects %v: another agent is process and unknown", tool.Effects)
		}
	case "control":
		harmless := slices.Equal(tool.Effects, []catalog.Effect{catalog.Read})
		if harmless == (privileged[name] || hints(harness)) {
			t.Errorf("effects %v: privileged is %v", tool.Effects, privileged[name])
		}
	default:
		t.Errorf("class %q is not known", class)
	}
	if hints(harness) && !has(catalog.Unknown) {
		t.Errorf("effects %v: a kind that the agent chose is not the whole truth", tool.Effects)
	}
}

// servedByMCP calls a tool in the harness's form for MCP tools.
func servedByMCP(t *testing.T, c *catalog.Catalog, harness, form string) {
	t.Helper()
	name := strings.NewReplacer("<server>", "lab", "<extension>", "lab", "<tool>", "wipe").Replace(form)
	call := c.Call(&approval.Request{
		Kind: approval.KindTool, Tool: &approval.Tool{Name: name}, Harness: &approval.Harness{Name: harness},
	})
	if !call.MCP || call.Listed || call.Tool != "wipe" {
		t.Errorf("%s is not taken for an MCP tool: %+v", name, call)
	}
	if strings.Contains(form, "<server>") && call.Server != "lab" || strings.Contains(form, "<extension>") && call.Server != "lab" {
		t.Errorf("server %q, want lab", call.Server)
	}
}

func writes(tool catalog.Tool, field string) bool {
	if strings.HasPrefix(field, "(") {
		for _, a := range tool.Arguments {
			if a.Role == catalog.Patch {
				return true
			}
		}
		// A file whose place is not an argument.
		return len(tool.Arguments) > 0 && slices.Contains(tool.Effects, catalog.Write) && field == "(memory file)"
	}
	for _, v := range tool.Variants {
		if slices.Contains(v.Effects, catalog.Write) && v.Arguments[field].Role != catalog.WritePath {
			return false
		}
	}
	return tool.Variants != nil || tool.Arguments[field].Role == catalog.WritePath
}

// accepts says whether an argument, "ws.url" and "requests[].url" too, is known.
func accepts(tool catalog.Tool, arg string) bool {
	if arg == tool.Select && arg != "" {
		return true
	}
	for _, v := range tool.Variants {
		if _, ok := v.Arguments[arg]; ok {
			return true
		}
	}
	parts := strings.Split(strings.ReplaceAll(arg, "[]", ""), ".")
	arguments := tool.Arguments
	for i, p := range parts {
		a, ok := arguments[p]
		if !ok {
			return tool.Open && i == 0
		}
		arguments = a.Fields
	}
	return true
}

func TestEveryHarnessHasATable(t *testing.T) {
	want := []string{
		"acp", "claude-code", "cline", "codex", "copilot-cli", "cursor", "gemini-cli", "goose", "native", "opencode", "qwen-code",
	}
	if got := shipped(t).Harnesses(); !slices.Equal(want, got) {
		t.Errorf("harnesses %v, want %v", got, want)
	}
}

// A tool that only reads must not have an argument that makes it write, run or
// reach anything without saying so by a role.
func TestReadersHaveNoOtherRoles(t *testing.T) {
	c := shipped(t)
	for harness, tools := range c.Value() {
		for name := range tools.(map[string]any) {
			if strings.HasSuffix(name, "*") {
				continue
			}
			_, tool, _ := c.Lookup(harness, name)
			if !slices.Equal(tool.Effects, []catalog.Effect{catalog.Read}) {
				continue
			}
			for arg, a := range tool.Arguments {
				switch a.Role {
				case catalog.WritePath, catalog.Patch, catalog.URL, catalog.Addresses, catalog.Calls:
					t.Errorf("%s %s: argument %s is a %s", harness, name, arg, a.Role)
				}
			}
		}
	}
}
