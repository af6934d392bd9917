// Package catalog knows the tools that agents call: what each does, which of
// its arguments are commands, paths or addresses, and how each harness names
// the tools of MCP servers. The tables are data (YAML), one file a harness;
// this package reads them and turns a request into facts. It decides nothing.
package catalog

import (
	"slices"
	"strings"
)

// Effect is what a call does. A tool has a set of them.
type Effect string

// The effects.
const (
	Read    Effect = "read"
	Write   Effect = "write"
	Process Effect = "process"
	Network Effect = "network"
	Unknown Effect = "unknown"
)

// External says whether a call leaves this machine.
type External string

// The answers. Possible means that the command or address in the arguments
// decides; where there is none that is understood, it counts as Yes.
const (
	No       External = "false"
	Yes      External = "true"
	Possible External = "possible"
)

// Role is what an argument means.
type Role string

// The roles. Text and Data change nothing about what a call does.
const (
	// Text is prose for a person or a model.
	Text Role = "text"
	// Data is any value that does not change what the call touches.
	Data Role = "data"
	// CommandText is given to a shell.
	CommandText Role = "command"
	// Argv is an argument vector that runs without a shell.
	Argv Role = "argv"
	// Commands is one command or a list of them, in any of the spellings: text,
	// argument vector, {command, args}, {cmd}.
	Commands Role = "commands"
	// Args are the arguments of the program that the command argument names.
	Args Role = "args"
	// Shell names the shell that runs the command text.
	Shell Role = "shell"
	// Cwd is the folder where the command runs.
	Cwd Role = "cwd"
	// ReadPath and WritePath are files or folders.
	ReadPath  Role = "read"
	WritePath Role = "write"
	// Glob is a pattern whose matches are listed, not opened; Filter is one whose
	// matches are opened, unless it starts with ! and so takes files away.
	Glob   Role = "glob"
	Filter Role = "filter"
	// URL is an address that is reached.
	URL Role = "url"
	// Addresses is prose in which addresses stand that are reached.
	Addresses Role = "addresses"
	// Patch is patch text; the paths in it are written.
	Patch Role = "patch"
	// Raise changes what the call may do, unless it has one of the values that
	// the table calls harmless.
	Raise Role = "raise"
	// Environment names the place where the call runs. Another one than that of
	// the request makes the call unknown, since its paths mean something else.
	Environment Role = "environment"
	// Deny is never understood: a call that has it is unknown.
	Deny Role = "deny"
	// Calls is a list of calls of other tools.
	Calls Role = "calls"
)

// Argument is what the table says about one argument of a tool.
type Argument struct {
	Role Role
	// Shell is the dialect of a command.
	Shell string
	// Argv allows a list of texts in the place of command text: an argument
	// vector that runs without a shell.
	Argv bool
	// Required arguments that are missing make the call unknown.
	Required bool
	// Many allows a list in the place of one value.
	Many bool
	// Default is the path that counts when neither this argument nor another one
	// that is a path is given.
	Default string
	// Base names the argument that holds the folder which relative paths and
	// patterns start from.
	Base string
	// Fields are the members of an object in the place of a plain value.
	Fields map[string]Argument
	// Open allows members of such an object that Fields does not name.
	Open bool
	// Unless are the harmless values of a Raise argument, as JSON values.
	Unless []any
	// Effects and External are what a Raise argument adds.
	Effects  []Effect
	External External
	// Escalates is true for a Raise argument that can ask to leave the sandbox,
	// which it does with every value that is not in EscalatesUnless.
	Escalates       bool
	EscalatesUnless []any
	// Tool and Arguments name the members of an element of Calls.
	Tool, Arguments string
}

// Tool is one entry of a table.
type Tool struct {
	Effects   []Effect
	External  External
	Arguments map[string]Argument
	// Open allows arguments that the table does not name, unless their names
	// promise a command, a path or an address. Without it every such argument
	// makes the call unknown.
	Open bool
	// OneOf lists groups of arguments of which exactly one must be given.
	OneOf [][]string
	// Select names the argument whose value picks one of Variants, each a whole
	// entry; Otherwise is the variant for a call without that argument.
	Select    string
	Variants  map[string]Tool
	Otherwise string
	// Wraps is set for a tool whose arguments name another tool.
	Wraps *Wrap
}

// Wrap tells which arguments of a tool hold the call that it passes on.
type Wrap struct {
	// Server is empty where the inner tool belongs to the harness.
	Server, Name, Arguments string
}

// table is what one file holds.
type table struct {
	tools   map[string]Tool
	aliases map[string]string
	// prefixes are the names that end in *, without it, the longest first.
	prefixes []string
	mcp      []form
}

// Catalog is the set of tables. It does not change after Load, and it is safe
// for concurrent use.
type Catalog struct {
	tables map[string]*table
}

// Native is the harness of a host that speaks Regent's own API.
const Native = "native"

// Harnesses lists the harnesses that have a table, sorted.
func (c *Catalog) Harnesses() []string { return sortedKeys(c.tables) }

// Lookup finds the entry for a tool of a harness. Names match exactly, by
// alias, or by the longest listed prefix; key is the name of the entry.
func (c *Catalog) Lookup(harness, name string) (key string, tool Tool, ok bool) {
	t := c.tables[harness]
	if t == nil {
		return "", Tool{}, false
	}
	if tool, ok = t.tools[name]; ok && !strings.HasSuffix(name, "*") {
		return name, tool, true
	}
	if key, ok = t.aliases[name]; ok {
		return key, t.tools[key], true
	}
	for _, p := range t.prefixes {
		if len(name) > len(p) && strings.HasPrefix(name, p) {
			return p + "*", t.tools[p+"*"], true
		}
	}
	return "", Tool{}, false
}

// Value is the catalogue as plain JSON values, for data.regent.catalog.tools:
// an object harness -> tool name -> entry, keyed for direct look-up. The
// caller may keep it and must not change it.
func (c *Catalog) Value() map[string]any {
	out := make(map[string]any, len(c.tables))
	for harness, t := range c.tables {
		tools := make(map[string]any, len(t.tools))
		for name, tool := range t.tools {
			tools[name] = tool.value(name)
		}
		out[harness] = tools
	}
	return out
}

// value holds what rules need and no more: with many tools the store is large.
// The answers for a plain call (see Call.Plain) are made here, so that the most
// frequent decision is one look-up: alone for a call without commands, run for
// one whose commands speak for themselves.
func (t Tool) value(name string) map[string]any {
	out := map[string]any{
		"effects": effectList(t.Effects), "external": string(t.External),
		"alone": t.answer(name, t.Effects, t.External != No, false),
	}
	raises := map[string]any{}
	for arg, a := range t.Arguments {
		switch a.Role {
		case CommandText, Argv, Commands:
			own := slices.DeleteFunc(slices.Clone(t.Effects), func(e Effect) bool { return e == Process })
			out["run"] = t.answer(name, own, t.External == Yes, true)
		case Raise:
			raised := map[string]any{"effects": effectList(a.Effects)}
			if a.External == Yes {
				raised["external"] = true
			}
			raises[arg] = raised
		}
	}
	if len(raises) > 0 {
		out["raises"] = raises
	}
	if len(t.Variants) > 0 {
		variants := make(map[string]any, len(t.Variants))
		for v, part := range t.Variants {
			variants[v] = part.value(name)
		}
		out["variants"] = variants
	}
	return out
}

// answer has the shape of data.regent.tools.call.
func (t Tool) answer(name string, effects []Effect, external, command bool) map[string]any {
	why := []any{}
	if len(effects) > 1 || len(effects) == 1 && effects[0] != Read {
		words := make([]string, len(effects))
		for i, e := range effects {
			words[i] = string(e)
		}
		why = append(why, name+": "+strings.Join(words, ", "))
	}
	return map[string]any{"effects": effectList(effects), "external": external, "command": command, "why": why}
}

func effectList(effects []Effect) []any {
	out := make([]any, len(effects))
	for i, e := range effects {
		out[i] = string(e)
	}
	return out
}
