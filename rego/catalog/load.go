package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// ErrTable means that a table of the catalogue is malformed. The whole load is
// refused; mend the file at the line that the error names.
var ErrTable = errors.New("malformed tool table")

// TableError is one fault of a table. It wraps ErrTable.
type TableError struct {
	File    string
	Line    int
	Message string
}

func (e *TableError) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

func (e *TableError) Unwrap() error { return ErrTable }

// Load reads every .yaml file in the root of files, one harness each, and
// checks them. The error joins all faults, each a TableError.
func Load(files fs.FS) (*Catalog, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list tool tables: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no .yaml file found", ErrTable)
	}
	c := &Catalog{tables: map[string]*table{}}
	var faults []error
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			faults = append(faults, fmt.Errorf("read tool table: %w", err))
			continue
		}
		d := &decoder{file: name}
		t := d.table(text)
		if len(d.faults) > 0 {
			faults = append(faults, d.faults...)
			continue
		}
		c.tables[strings.TrimSuffix(path.Base(name), ".yaml")] = t
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return c, nil
}

// decoder reads one file by hand, so that each fault has its line and nothing
// that is not understood gets through.
type decoder struct {
	file   string
	faults []error
}

func (d *decoder) fault(n *yaml.Node, format string, args ...any) {
	d.faults = append(d.faults, &TableError{File: d.file, Line: n.Line, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) table(text []byte) *table {
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := dec.Decode(&doc); err != nil {
		d.fault(&yaml.Node{Line: yamlLine(err)}, "not valid YAML: %v", err)
		return nil
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		d.fault(&second, "a second document; a file holds one table")
		return nil
	}
	if !d.plain(&doc) {
		return nil
	}
	root := doc.Content[0]
	t := &table{tools: map[string]Tool{}, aliases: map[string]string{}}
	want := strings.TrimSuffix(path.Base(d.file), ".yaml")
	seen := d.mapping(root, "table", map[string]func(*yaml.Node){
		"harness": func(n *yaml.Node) {
			if s := d.text(n, "harness"); s != "" && s != want {
				d.fault(n, "harness %q does not fit the file name; name the file %s.yaml", s, s)
			}
		},
		"mcp":   func(n *yaml.Node) { t.mcp = d.forms(n) },
		"tools": func(n *yaml.Node) { d.tools(n, t) },
	})
	for _, name := range []string{"harness", "tools"} {
		if !seen[name] {
			d.fault(root, "%s is missing", name)
		}
	}
	for name := range t.tools {
		if p, ok := strings.CutSuffix(name, "*"); ok {
			t.prefixes = append(t.prefixes, p)
		}
	}
	slices.SortFunc(t.prefixes, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return t
}

// yamlLine digs the line out of a syntax error, whose type is not exported.
func yamlLine(err error) int {
	var line int
	if _, scanErr := fmt.Sscanf(err.Error(), "yaml: line %d:", &line); scanErr != nil {
		return 1
	}
	return line
}

// plain refuses what a table does not need and a reader may overlook: anchors,
// aliases, merge keys and tags.
func (d *decoder) plain(n *yaml.Node) bool {
	ok := true
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.fault(n, "anchors and aliases are not allowed")
		return false
	}
	if n.Style&yaml.TaggedStyle != 0 || n.Tag == "!!merge" {
		d.fault(n, "tags and merge keys are not allowed")
		ok = false
	}
	for _, c := range n.Content {
		ok = d.plain(c) && ok
	}
	return ok
}

// mapping calls known[name] for each member, refuses others and duplicates,
// and returns the names that were there.
func (d *decoder) mapping(n *yaml.Node, what string, known map[string]func(*yaml.Node)) map[string]bool {
	seen := map[string]bool{}
	d.members(n, what, func(key, value *yaml.Node) {
		seen[key.Value] = true
		if f := known[key.Value]; f != nil {
			f(value)
			return
		}
		d.fault(key, "unknown key %q in a %s; use %s", key.Value, what, strings.Join(sortedKeys(known), ", "))
	})
	return seen
}

func (d *decoder) members(n *yaml.Node, what string, f func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, "a %s must be a mapping", what)
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			d.fault(key, "a name in a %s must be a text that is not empty", what)
			continue
		}
		if first, twice := lines[key.Value]; twice {
			d.fault(key, "%q is given twice in a %s, first in line %d", key.Value, what, first)
			continue
		}
		lines[key.Value] = key.Line
		f(key, value)
	}
}

func (d *decoder) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
		d.fault(n, "%s must be a text that is not empty", what)
		return ""
	}
	return n.Value
}

func (d *decoder) texts(n *yaml.Node, what string) []string {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.fault(n, "%s must be a list that is not empty", what)
		return nil
	}
	var out []string
	for _, item := range n.Content {
		s := d.text(item, "an element of "+what)
		if s == "" {
			continue
		}
		if slices.Contains(out, s) {
			d.fault(item, "%q is given twice in %s", s, what)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (d *decoder) groups(n *yaml.Node) [][]string {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.fault(n, "one_of must be a list of lists")
		return nil
	}
	var out [][]string
	for _, group := range n.Content {
		out = append(out, d.texts(group, "a group of one_of"))
	}
	return out
}

func (d *decoder) flag(n *yaml.Node, what string) bool {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		return n.Value == "true"
	}
	d.fault(n, "%s must be true or false", what)
	return false
}

func (d *decoder) effects(n *yaml.Node) []Effect {
	var out []Effect
	for _, s := range d.texts(n, "effects") {
		e := Effect(s)
		switch e {
		case Read, Write, Process, Network, Unknown:
			out = append(out, e)
		default:
			d.fault(n, "unknown effect %q; use read, write, process, network or unknown", s)
		}
	}
	slices.Sort(out)
	return out
}

func (d *decoder) external(n *yaml.Node) External {
	e := External(d.text(n, "external"))
	switch e {
	case No, Yes, Possible:
		return e
	default:
		d.fault(n, "unknown external %q; use true, false or possible", n.Value)
		return Yes
	}
}

func (d *decoder) tools(n *yaml.Node, t *table) {
	lines := map[string]int{}
	claim := func(at *yaml.Node, name string) bool {
		if first, taken := lines[name]; taken {
			d.fault(at, "tool name %q is taken, see line %d", name, first)
			return false
		}
		lines[name] = at.Line
		return true
	}
	type alias struct {
		at   *yaml.Node
		name string
		of   string
	}
	var aliases []alias
	d.members(n, "list of tools", func(key, value *yaml.Node) {
		if i := strings.IndexByte(key.Value, '*'); i >= 0 && (i != len(key.Value)-1 || i == 0) {
			d.fault(key, "tool name %q: * may only stand at the end of a name", key.Value)
		}
		claim(key, key.Value)
		t.tools[key.Value] = d.tool(value, key.Value, func(n *yaml.Node) {
			d.texts(n, "aliases")
			for _, item := range n.Content {
				aliases = append(aliases, alias{item, item.Value, key.Value})
			}
		})
	})
	for _, a := range aliases {
		if strings.ContainsRune(a.name, '*') {
			d.fault(a.at, "alias %q: an alias is a whole name", a.name)
			continue
		}
		if claim(a.at, a.name) {
			t.aliases[a.name] = a.of
		}
	}
}

// tool reads one entry; aliases is nil for a variant, which has none.
func (d *decoder) tool(n *yaml.Node, name string, aliases func(*yaml.Node)) Tool {
	var t Tool
	known := map[string]func(*yaml.Node){
		"effects":   func(n *yaml.Node) { t.effectsFrom(d, n) },
		"external":  func(n *yaml.Node) { t.External = d.external(n) },
		"arguments": func(n *yaml.Node) { t.Arguments = d.arguments(n, true) },
		"open":      func(n *yaml.Node) { t.Open = d.flag(n, "open") },
		"one_of":    func(n *yaml.Node) { t.OneOf = d.groups(n) },
		"note":      func(n *yaml.Node) { d.text(n, "note") },
	}
	if aliases != nil {
		known["aliases"] = aliases
		known["select"] = func(n *yaml.Node) { t.Select = d.text(n, "select") }
		known["otherwise"] = func(n *yaml.Node) { t.Otherwise = d.text(n, "otherwise") }
		known["wraps"] = func(n *yaml.Node) { t.Wraps = d.wraps(n) }
		known["variants"] = func(n *yaml.Node) {
			t.Variants = map[string]Tool{}
			d.members(n, "list of variants", func(key, value *yaml.Node) {
				t.Variants[key.Value] = d.tool(value, name+" "+key.Value, nil)
			})
		}
	}
	seen := d.mapping(n, "tool", known)
	if n.Kind != yaml.MappingNode {
		return t
	}
	for _, key := range []string{"effects", "external"} {
		if !seen[key] {
			d.fault(n, "tool %q: %s is missing", name, key)
		}
	}
	d.check(n, name, t)
	return t
}

func (t *Tool) effectsFrom(d *decoder, n *yaml.Node) { t.Effects = d.effects(n) }

// check refuses entries that contradict themselves, since such an entry is a
// slip of the pen and the wrong half of it might be the one that counts.
func (d *decoder) check(n *yaml.Node, name string, t Tool) {
	say := func(format string, args ...any) {
		d.fault(n, "tool %q: "+format, append([]any{name}, args...)...)
	}
	if slices.Contains(t.Effects, Network) && t.External == No {
		say("a tool that reaches the network is not external: false")
	}
	for _, arg := range sortedKeys(t.Arguments) {
		a := t.Arguments[arg]
		switch a.Role {
		case WritePath, Patch:
			if a.Required && !slices.Contains(t.Effects, Write) {
				say("argument %s is always written, but effects lack write", arg)
			}
		case URL, Addresses:
			if a.Required && (!slices.Contains(t.Effects, Network) || t.External == No) {
				say("argument %s is always reached, but the tool is not network and external", arg)
			}
		case CommandText, Argv, Commands:
			// Without the command such a tool may well stay here; with it, the facts
			// of the command are united with the tool's.
			if a.Required && t.External == No {
				say("argument %s is always run, so external is possible or true", arg)
			}
		}
		if a.Base != "" && t.Arguments[a.Base].Role != ReadPath && t.Arguments[a.Base].Role != Cwd {
			say("argument %s: base %q is not a read or cwd argument", arg, a.Base)
		}
	}
	for _, group := range t.OneOf {
		if len(group) < 2 {
			say("one_of: a group needs two arguments or more")
		}
		for _, arg := range group {
			if a, ok := t.Arguments[arg]; !ok || a.Required || a.Default != "" {
				say("one_of: %q is not an optional argument of the tool", arg)
			}
		}
	}
	switch {
	case (t.Select == "") != (len(t.Variants) == 0):
		say("select and variants belong together")
	case t.Select != "" && len(t.Arguments) > 0:
		say("a tool with variants has its arguments in them")
	case t.Otherwise != "" && t.Variants[t.Otherwise].Effects == nil:
		say("otherwise: there is no variant %q", t.Otherwise)
	}
	for _, v := range sortedKeys(t.Variants) {
		if _, ok := t.Variants[v].Arguments[t.Select]; ok {
			say("variant %s names the argument %s, which selects it", v, t.Select)
		}
	}
	if w := t.Wraps; w != nil {
		for _, arg := range []string{w.Server, w.Name, w.Arguments} {
			if _, ok := t.Arguments[arg]; arg != "" && !ok {
				say("wraps: %q is not an argument of the tool", arg)
			}
		}
	}
}

func (d *decoder) wraps(n *yaml.Node) *Wrap {
	var w Wrap
	seen := d.mapping(n, "wraps", map[string]func(*yaml.Node){
		"server":    func(n *yaml.Node) { w.Server = d.text(n, "server") },
		"name":      func(n *yaml.Node) { w.Name = d.text(n, "name") },
		"arguments": func(n *yaml.Node) { w.Arguments = d.text(n, "arguments") },
	})
	if n.Kind == yaml.MappingNode && (!seen["name"] || !seen["arguments"]) {
		d.fault(n, "wraps needs name and arguments")
	}
	return &w
}

func (d *decoder) arguments(n *yaml.Node, top bool) map[string]Argument {
	out := map[string]Argument{}
	d.members(n, "list of arguments", func(key, value *yaml.Node) {
		out[key.Value] = d.argument(value, key.Value, top)
	})
	return out
}

// argument reads a role alone (path: read) or a mapping.
func (d *decoder) argument(n *yaml.Node, name string, top bool) Argument {
	var a Argument
	if n.Kind == yaml.ScalarNode {
		a.Role = d.role(n)
		d.checkArgument(n, name, a, map[string]bool{"role": true}, top)
		return a
	}
	seen := d.mapping(n, "argument", map[string]func(*yaml.Node){
		"role":             func(n *yaml.Node) { a.Role = d.role(n) },
		"shell":            func(n *yaml.Node) { a.Shell = d.shell(n) },
		"argv":             func(n *yaml.Node) { a.Argv = d.flag(n, "argv") },
		"required":         func(n *yaml.Node) { a.Required = d.flag(n, "required") },
		"many":             func(n *yaml.Node) { a.Many = d.flag(n, "many") },
		"default":          func(n *yaml.Node) { a.Default = d.text(n, "default") },
		"base":             func(n *yaml.Node) { a.Base = d.text(n, "base") },
		"fields":           func(n *yaml.Node) { a.Fields = d.arguments(n, false) },
		"open":             func(n *yaml.Node) { a.Open = d.flag(n, "open") },
		"unless":           func(n *yaml.Node) { a.Unless = d.values(n, "unless") },
		"effects":          func(n *yaml.Node) { a.Effects = d.effects(n) },
		"external":         func(n *yaml.Node) { a.External = d.external(n) },
		"escalates_unless": func(n *yaml.Node) { a.Escalates, a.EscalatesUnless = true, d.values(n, "escalates_unless") },
		"tool":             func(n *yaml.Node) { a.Tool = d.text(n, "tool") },
		"tool_arguments":   func(n *yaml.Node) { a.Arguments = d.text(n, "tool_arguments") },
		"note":             func(n *yaml.Node) { d.text(n, "note") },
	})
	if n.Kind == yaml.MappingNode {
		d.checkArgument(n, name, a, seen, top)
	}
	return a
}

// checkArgument refuses keys that mean nothing for the role.
func (d *decoder) checkArgument(n *yaml.Node, name string, a Argument, seen map[string]bool, top bool) {
	if !seen["role"] && a.Fields == nil {
		d.fault(n, "argument %q: role is missing", name)
		return
	}
	allowed := []string{"role", "required", "note"}
	switch a.Role {
	case "":
		allowed = append(allowed, "many", "fields", "open")
	case ReadPath, WritePath, Glob, Filter:
		allowed = append(allowed, "many", "fields", "open", "default", "base")
	case URL:
		allowed = append(allowed, "many", "fields", "open")
	case CommandText:
		allowed = append(allowed, "shell", "argv")
	case Commands:
		allowed = append(allowed, "shell")
	case Raise:
		allowed = []string{"role", "note", "unless", "effects", "external", "escalates_unless"}
		if !top {
			d.fault(n, "argument %q: raise is for arguments of the tool itself", name)
		}
		if !seen["effects"] {
			d.fault(n, "argument %q: raise needs effects", name)
		}
		if slices.Contains(a.Effects, Network) && a.External != Yes {
			d.fault(n, "argument %q: what reaches the network is external: true", name)
		}
	case Calls:
		allowed = append(allowed, "tool", "tool_arguments")
		if a.Tool == "" || a.Arguments == "" {
			d.fault(n, "argument %q: calls needs tool and tool_arguments", name)
		}
	}
	for _, key := range sortedKeys(seen) {
		if !slices.Contains(allowed, key) && slices.Contains(argumentKeys, key) {
			d.fault(n, "argument %q: %s means nothing for role %q", name, key, a.Role)
		}
	}
	if a.Required && a.Default != "" {
		d.fault(n, "argument %q: required or default, not both", name)
	}
	if a.Open && a.Fields == nil {
		d.fault(n, "argument %q: open needs fields", name)
	}
}

var argumentKeys = []string{
	"shell", "argv", "required", "many", "default", "base", "fields", "open", "unless", "effects", "external",
	"escalates_unless", "tool", "tool_arguments",
}

func (d *decoder) role(n *yaml.Node) Role {
	r := Role(d.text(n, "role"))
	switch r {
	case Text, Data, CommandText, Argv, Commands, Args, Shell, Cwd, ReadPath, WritePath, Glob, Filter, URL, Addresses,
		Patch, Raise, Environment, Deny, Calls:
		return r
	default:
		d.fault(n, "unknown role %q", n.Value)
		return Deny
	}
}

// shells are the dialects that a table may name. Only some of them are
// understood further down; the others make a command unknown there.
var shells = []string{"bash", "sh", "zsh", "powershell"}

func (d *decoder) shell(n *yaml.Node) string {
	s := d.text(n, "shell")
	if s != "" && !slices.Contains(shells, s) {
		d.fault(n, "unknown shell %q; use one of %s", s, strings.Join(shells, ", "))
	}
	return s
}

// values reads JSON scalars and empty lists or objects.
func (d *decoder) values(n *yaml.Node, what string) []any {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.fault(n, "%s must be a list that is not empty", what)
		return nil
	}
	var out []any
	for _, item := range n.Content {
		var v any
		if err := item.Decode(&v); err != nil {
			d.fault(item, "%s: %v", what, err)
			continue
		}
		switch v := v.(type) {
		case string, bool:
			out = append(out, v)
		case []any:
			if len(v) > 0 {
				d.fault(item, "%s: a list must be empty", what)
			}
			out = append(out, []any{})
		case map[string]any:
			if len(v) > 0 {
				d.fault(item, "%s: an object must be empty", what)
			}
			out = append(out, map[string]any{})
		default:
			d.fault(item, "%s: use texts, true, false, [] or {}", what)
		}
	}
	return out
}

func (d *decoder) forms(n *yaml.Node) []form {
	var out []form
	for _, s := range d.texts(n, "mcp") {
		f, err := parseForm(s)
		if err != nil {
			d.fault(n, "mcp: %v", err)
			continue
		}
		out = append(out, f)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
