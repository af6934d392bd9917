package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/catalog"
)

func load(t *testing.T, files map[string]string) (*catalog.Catalog, error) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return catalog.Load(fsys)
}

func TestLoadRefuses(t *testing.T) {
	// Each entry starts in line 3 of the file.
	tool := func(entry string) string { return "harness: lab\ntools:\n  a: {" + entry + "}\n" }
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"an unknown key of the table", "harness: lab\ntool: {}\ntools: {}\n", []string{
			`lab.yaml:2: unknown key "tool" in a table; use harness, mcp, tools`,
		}},
		{"a table without harness", "tools: {}\n", []string{`lab.yaml:1: harness is missing`}},
		{"a table without tools", "harness: lab\n", []string{`lab.yaml:1: tools is missing`}},
		{"a harness that is not the file's name", "harness: other\ntools: {}\n", []string{
			`lab.yaml:1: harness "other" does not fit the file name; name the file other.yaml`,
		}},
		{"an unknown key of a tool", tool("effects: [read], external: false, effect: read"), []string{
			`lab.yaml:3: unknown key "effect" in a tool; use aliases, arguments, effects, external, note, one_of, open, otherwise, select, variants, wraps`,
		}},
		{"an unknown effect", tool("effects: [reads], external: false"), []string{
			`lab.yaml:3: unknown effect "reads"; use read, write, process, network or unknown`,
		}},
		{"an effect given twice", tool("effects: [read, read], external: false"), []string{`lab.yaml:3: "read" is given twice in effects`}},
		{"no effects", tool("effects: [], external: false"), []string{`lab.yaml:3: effects must be a list that is not empty`}},
		{"missing effects and external", tool(""), []string{
			`lab.yaml:3: tool "a": effects is missing`, `lab.yaml:3: tool "a": external is missing`,
		}},
		{"an unknown external", tool("effects: [read], external: maybe"), []string{
			`lab.yaml:3: unknown external "maybe"; use true, false or possible`,
		}},
		{"a tool given twice", tool("effects: [read], external: false") + "  a: {effects: [write], external: false}\n", []string{
			`lab.yaml:4: "a" is given twice in a list of tools, first in line 3`,
		}},
		{"an alias that is a tool", tool("effects: [read], external: false") + "  b: {effects: [write], external: false, aliases: [a]}\n", []string{
			`lab.yaml:4: tool name "a" is taken, see line 3`,
		}},
		{"an alias given to two tools", tool("effects: [read], external: false, aliases: [c]") + "  b: {effects: [write], external: false, aliases: [c]}\n", []string{
			`lab.yaml:4: tool name "c" is taken, see line 3`,
		}},
		{"an alias with a star", tool(`effects: [read], external: false, aliases: ["c*"]`), []string{
			`lab.yaml:3: alias "c*": an alias is a whole name`,
		}},
		{"a star in the middle of a name", "harness: lab\ntools:\n  \"a*b\": {effects: [read], external: false}\n", []string{
			`lab.yaml:3: tool name "a*b": * may only stand at the end of a name`,
		}},
		{"a star alone", "harness: lab\ntools:\n  \"*\": {effects: [read], external: false}\n", []string{
			`lab.yaml:3: tool name "*": * may only stand at the end of a name`,
		}},
		{"a network tool that stays here", tool("effects: [network], external: false"), []string{
			`lab.yaml:3: tool "a": a tool that reaches the network is not external: false`,
		}},
		{"a command that stays here", tool("effects: [process], external: false, arguments: {c: {role: command, required: true}}"), []string{
			`lab.yaml:3: tool "a": argument c is always run, so external is possible or true`,
		}},
		{"a written path without the effect", tool("effects: [read], external: false, arguments: {p: {role: write, required: true}}"), []string{
			`lab.yaml:3: tool "a": argument p is always written, but effects lack write`,
		}},
		{"an address without the effect", tool("effects: [read], external: false, arguments: {u: {role: url, required: true}}"), []string{
			`lab.yaml:3: tool "a": argument u is always reached, but the tool is not network and external`,
		}},
		{"an unknown role", tool("effects: [read], external: false, arguments: {p: path}"), []string{`lab.yaml:3: unknown role "path"`}},
		{"an argument without role", tool("effects: [read], external: false, arguments: {p: {required: true}}"), []string{
			`lab.yaml:3: argument "p": role is missing`,
		}},
		{"a key that means nothing for the role", tool("effects: [read], external: false, arguments: {p: {role: read, shell: bash}}"), []string{
			`lab.yaml:3: argument "p": shell means nothing for role "read"`,
		}},
		{"an unknown shell", tool("effects: [process], external: possible, arguments: {p: {role: command, shell: fish}}"), []string{
			`lab.yaml:3: unknown shell "fish"; use one of bash, sh, zsh, powershell`,
		}},
		{"raise without effects", tool("effects: [read], external: false, arguments: {p: {role: raise, unless: [false]}}"), []string{
			`lab.yaml:3: argument "p": raise needs effects`,
		}},
		{"raise to the network that stays here", tool("effects: [read], external: false, arguments: {p: {role: raise, effects: [network]}}"), []string{
			`lab.yaml:3: argument "p": what reaches the network is external: true`,
		}},
		{"raise inside an object", tool("effects: [read], external: false, arguments: {p: {fields: {q: {role: raise, effects: [write]}}}}"), []string{
			`lab.yaml:3: argument "q": raise is for arguments of the tool itself`,
		}},
		{"a required argument with default", tool("effects: [read], external: false, arguments: {p: {role: read, required: true, default: .}}"), []string{
			`lab.yaml:3: argument "p": required or default, not both`,
		}},
		{"a base that is no folder", tool("effects: [read], external: false, arguments: {p: {role: read, base: q}, q: text}"), []string{
			`lab.yaml:3: tool "a": argument p: base "q" is not a read or cwd argument`,
		}},
		{"calls that do not say where the calls are", tool("effects: [unknown], external: possible, arguments: {p: calls}"), []string{
			`lab.yaml:3: argument "p": calls needs tool and tool_arguments`,
		}},
		{"a harmless value that is a number", tool("effects: [read], external: false, arguments: {p: {role: raise, unless: [1], effects: [write]}}"), []string{
			`lab.yaml:3: unless: use texts, true, false, [] or {}`,
		}},
		{"one_of with an unknown argument", tool("effects: [read], external: false, one_of: [[p, q]], arguments: {p: read}"), []string{
			`lab.yaml:3: tool "a": one_of: "q" is not an optional argument of the tool`,
		}},
		{"one_of with a group of one", tool("effects: [read], external: false, one_of: [[p]], arguments: {p: read}"), []string{
			`lab.yaml:3: tool "a": one_of: a group needs two arguments or more`,
		}},
		{"select without variants", tool("effects: [read], external: false, select: p"), []string{
			`lab.yaml:3: tool "a": select and variants belong together`,
		}},
		{"arguments beside variants", tool("effects: [read], external: false, select: p, arguments: {q: data}, variants: {x: {effects: [read], external: false}}"), []string{
			`lab.yaml:3: tool "a": a tool with variants has its arguments in them`,
		}},
		{"a variant that names the selecting argument", tool("effects: [read], external: false, select: p, variants: {x: {effects: [read], external: false, arguments: {p: data}}}"), []string{
			`lab.yaml:3: tool "a": variant x names the argument p, which selects it`,
		}},
		{"otherwise without its variant", tool("effects: [read], external: false, select: p, otherwise: y, variants: {x: {effects: [read], external: false}}"), []string{
			`lab.yaml:3: tool "a": otherwise: there is no variant "y"`,
		}},
		{"a variant with variants", tool("effects: [read], external: false, select: p, variants: {x: {effects: [read], external: false, select: q}}"), []string{
			`lab.yaml:3: unknown key "select" in a tool; use arguments, effects, external, note, one_of, open`,
		}},
		{"a wrap of an unknown argument", tool("effects: [unknown], external: possible, wraps: {name: n, arguments: m}, arguments: {n: text}"), []string{
			`lab.yaml:3: tool "a": wraps: "m" is not an argument of the tool`,
		}},
		{"an MCP form without tool", "harness: lab\nmcp: [\"mcp__{server}\"]\ntools: {}\n", []string{
			`lab.yaml:2: mcp: form "mcp__{server}" does not end in {tool}`,
		}},
		{"an MCP form that glues server and tool", "harness: lab\nmcp: [\"mcp__{server}{tool}\"]\ntools: {}\n", []string{
			`lab.yaml:2: mcp: form "mcp__{server}{tool}": nothing tells server and tool apart`,
		}},
		{"an anchor", "harness: lab\ntools:\n  a: &x {effects: [read], external: false}\n", []string{
			`lab.yaml:3: anchors and aliases are not allowed`,
		}},
		{"a tag", tool("effects: [!!str read], external: false"), []string{`lab.yaml:3: tags and merge keys are not allowed`}},
		{"a second document", tool("effects: [read], external: false") + "---\nharness: lab\n", []string{
			`lab.yaml:4: a second document; a file holds one table`,
		}},
		{"a tool that is no mapping", "harness: lab\ntools:\n  a: read\n", []string{`lab.yaml:3: a tool must be a mapping`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, map[string]string{"lab.yaml": tc.text})
			if !errors.Is(err, catalog.ErrTable) {
				t.Fatalf("Load: %v, want ErrTable", err)
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			var fault *catalog.TableError
			if !errors.As(err, &fault) || fault.File != "lab.yaml" || fault.Line == 0 {
				t.Errorf("the fault has no place: %+v", fault)
			}
		})
	}
}

func TestLoadRefusesBrokenYAML(t *testing.T) {
	for _, text := range []string{"", "harness: [", "\t"} {
		if _, err := load(t, map[string]string{"lab.yaml": text}); !errors.Is(err, catalog.ErrTable) {
			t.Errorf("Load(%q): %v, want ErrTable", text, err)
		}
	}
}

func TestLoadWithoutFilesIsAnError(t *testing.T) {
	if _, err := load(t, nil); !errors.Is(err, catalog.ErrTable) {
		t.Errorf("Load of nothing: %v, want ErrTable", err)
	}
}

func TestLoadNamesEveryFault(t *testing.T) {
	_, err := load(t, map[string]string{
		"a.yaml": "harness: a\ntools: {x: {effects: [read], external: no-way}}\n",
		"b.yaml": "harness: b\ntools: {x: {effects: [nothing], external: false}}\n",
	})
	want := []string{
		`a.yaml:2: unknown external "no-way"; use true, false or possible`,
		`b.yaml:2: unknown effect "nothing"; use read, write, process, network or unknown`,
	}
	if err == nil {
		t.Fatal("two broken tables were loaded")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestValueIsKeyedForLookup(t *testing.T) {
	c, err := load(t, map[string]string{"lab.yaml": `harness: lab
tools:
  run:
    effects: [process]
    external: possible
    aliases: [exec]
    arguments:
      cmd: {role: command, required: true}
      background: {role: raise, unless: [false], effects: [process, network], external: true}
  edit:
    effects: [write, read]
    external: false
    select: mode
    variants:
      view: {effects: [read], external: false, arguments: {path: read}}
`})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(external, command bool, why []any, effects ...any) map[string]any {
		return map[string]any{"effects": effects, "external": external, "command": command, "why": why}
	}
	want := map[string]any{"lab": map[string]any{
		"run": map[string]any{
			"effects": []any{"process"}, "external": "possible",
			"raises": map[string]any{"background": map[string]any{"effects": []any{"network", "process"}, "external": true}},
			"alone":  answer(true, false, []any{"run: process"}, "process"),
			"run":    answer(false, true, []any{}, []any{}...),
		},
		"edit": map[string]any{
			"effects": []any{"read", "write"}, "external": "false",
			"alone": answer(false, false, []any{"edit: read, write"}, "read", "write"),
			"variants": map[string]any{"view": map[string]any{
				"effects": []any{"read"}, "external": "false", "alone": answer(false, false, []any{}, "read"),
			}},
		},
	}}
	if diff := cmp.Diff(want, c.Value()); diff != "" {
		t.Errorf("Value (-want +got):\n%s", diff)
	}
}
