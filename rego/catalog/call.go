package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
)

// Call is what a request does as far as the tables tell: input.facts.tool.
// Paths, commands and addresses are as the agent wrote them. A call with
// Problems is not understood completely, and never certainly harmless; what
// was found in it still counts for rules that deny.
type Call struct {
	// Harness is the harness whose table was used.
	Harness string `json:"harness"`
	// Name is the tool as called, empty when the request names no tool.
	Name string `json:"name"`
	// Key is the entry of the table, empty when nothing was looked up or found.
	// A tool that passes a call on (such as tool_call) has the key of the tool
	// that it calls.
	Key string `json:"key"`
	// Variant is the part of the entry that an argument selected.
	Variant string `json:"variant"`
	// Server is the MCP server, empty for other tools and where the name does
	// not tell it for certain.
	Server string `json:"server"`
	// Tool is the name without what the harness puts before it.
	Tool string `json:"tool"`
	// Listed says that the table has the tool.
	Listed bool `json:"listed"`
	// MCP says that an MCP server offers the tool, or that its name, which is
	// not listed, has the form of such a tool.
	MCP bool `json:"mcp"`
	// Plain says that the entry's word is the whole truth: every argument was
	// understood, none raises anything, and no path or address goes beyond the
	// effects that the entry has.
	Plain bool `json:"plain"`
	// Annotations are the hints of the MCP server.
	Annotations *approval.Annotations `json:"annotations,omitempty"`
	// Commands are what a shell parser must judge next.
	Commands []Command `json:"commands"`
	// Reads and Writes are paths, URLs the addresses and Hosts the hosts in
	// them, in lower case.
	Reads  []string `json:"reads"`
	Writes []string `json:"writes"`
	URLs   []string `json:"urls"`
	Hosts  []string `json:"hosts"`
	// Raised names the arguments whose value adds the effects that the entry
	// has for them.
	Raised []string `json:"raised"`
	// Patched is what the patches among the arguments do, file by file. Rules have
	// the paths among Writes.
	Patched []PatchStep `json:"-"`
	// Escalated says that an argument asks to leave the sandbox.
	Escalated bool `json:"escalated"`
	// Problems say what was not understood.
	Problems []string `json:"problems"`
	// Inner are the calls that this one is made of, each a leaf. What they
	// touch stands in this call too.
	Inner []Call `json:"inner"`
}

// Command is one command that the call runs: Text by Shell, or Argv without a
// shell. Cwd is the folder that the call names for it, empty for the folder of
// the request's environment.
type Command struct {
	Shell string   `json:"shell,omitempty"`
	Text  string   `json:"text,omitempty"`
	Argv  []string `json:"argv,omitempty"`
	Cwd   string   `json:"cwd,omitempty"`
}

// What one call may hold. Past these the rest is not looked at, which is a
// problem of its own: nobody sends such a call in good faith.
const (
	maxInner    = 100
	maxDepth    = 3
	maxCommands = 1000
	maxPaths    = 4096
	maxURLs     = 1000
	maxProblems = 100
)

// Call tells what r does. Nothing in r is trusted to be well formed. Lists in
// the answer are never nil.
func (c *Catalog) Call(r *approval.Request) Call {
	from := origin{harness: Native}
	if r.Tool != nil {
		from.annotations = r.Tool.Annotations
	}
	if r.Harness != nil {
		from.harness = r.Harness.Name
	}
	if r.Environment != nil {
		from.environment = r.Environment.ID
	}
	call := Call{Harness: from.harness}
	if t := r.Tool; t != nil {
		mcp := t.Server != "" || r.Kind == approval.KindMCP
		call = c.tool(from, t.Name, t.Server, mcp, t.Arguments)
	}
	call.kind(r)
	if r.Kind == approval.KindTool || r.Kind == approval.KindCommand {
		call.Plain = c.plain(&call)
	}
	call.fill()
	return call
}

func (c *Catalog) plain(call *Call) bool {
	if !call.Listed || len(call.Problems) > 0 || len(call.Raised) > 0 || len(call.Inner) > 0 {
		return false
	}
	entry := c.tables[call.Harness].tools[call.Key]
	if call.Variant != "" {
		entry = entry.Variants[call.Variant]
	}
	beyond := func(touched int, e Effect) bool { return touched > 0 && !slices.Contains(entry.Effects, e) }
	return !beyond(len(call.Reads), Read) && !beyond(len(call.Writes), Write) && !beyond(len(call.URLs)+len(call.Hosts), Network)
}

// origin is where a call comes from; depth counts the calls around it.
type origin struct {
	harness     string
	environment string
	// annotations are about the tool that the request names, not about one that
	// its arguments name.
	annotations *approval.Annotations
	depth       int
}

func (o origin) inner() origin {
	o.depth++
	o.annotations = nil
	return o
}

// kind adds what the parts of the request outside the tool say.
func (call *Call) kind(r *approval.Request) {
	switch r.Kind {
	case approval.KindTool, approval.KindMCP:
		if r.Tool == nil {
			call.problem("no tool is named")
		}
	case approval.KindCommand:
		if r.Command == nil {
			call.problem("no command is given")
			return
		}
		// The same command often stands in the arguments too. Where it differs,
		// both are judged, since nothing tells which of them runs.
		command := Command{Shell: r.Command.Shell, Text: r.Command.Text, Argv: r.Command.Argv}
		if command.Shell == "" && len(command.Argv) == 0 {
			command.Shell = "bash"
		}
		for _, known := range call.Commands {
			known.Cwd = ""
			if known.Shell == command.Shell && known.Text == command.Text && slices.Equal(known.Argv, command.Argv) {
				return
			}
		}
		call.command("command", command)
	case approval.KindFileChange:
		if len(r.Changes) == 0 {
			call.problem("the content of the change is not known")
		}
		for i, change := range r.Changes {
			call.path(&call.Writes, fmt.Sprintf("changes/%d/path", i), change.Path)
			if change.MovePath != "" {
				call.path(&call.Writes, fmt.Sprintf("changes/%d/move_path", i), change.MovePath)
			}
		}
		if r.GrantRoot != "" {
			call.path(&call.Writes, "grant_root", r.GrantRoot)
		}
	case approval.KindNetwork:
		if r.Network == nil {
			call.problem("no host is named")
			return
		}
		if host, ok := cleanHost(r.Network.Host); ok {
			call.Hosts = append(call.Hosts, host)
		} else {
			call.Hosts = append(call.Hosts, r.Network.Host)
			call.problem("%q is not a host", r.Network.Host)
		}
	case approval.KindPermissions:
	default:
		call.problem("kind %q is not known", r.Kind)
	}
}

// tool looks the tool up and reads its arguments.
func (c *Catalog) tool(from origin, name, server string, mcp bool, arguments json.RawMessage) Call {
	call := Call{Harness: from.harness, Name: name, Tool: name, Server: server, MCP: mcp, Annotations: from.annotations}
	t := c.tables[from.harness]
	if mcp {
		// The harness's own tables say nothing about the tools of servers: a
		// server may well call a tool Read.
		call.mcp(t)
		return call
	}
	key, entry, ok := c.Lookup(from.harness, name)
	if !ok {
		if t != nil {
			if s, n, fits := t.mcpName(name); fits {
				call.MCP, call.Server = true, s
				if n != "" {
					call.Tool = n
				}
				return call
			}
		}
		call.problem("tool %q is not in the catalogue of %s", name, from.harness)
		return call
	}
	call.Key, call.Tool, call.Listed = key, key, true
	if strings.HasSuffix(key, "*") {
		call.Tool = name
	}
	args, err := object(arguments)
	if err != nil {
		call.problem("the arguments cannot be read: %v", err)
		return call
	}
	if selector := entry.Select; selector != "" {
		var selected bool
		if entry, selected = call.variant(entry, args); !selected {
			return call
		}
		delete(args, selector)
	}
	call.arguments(from, entry, args)
	if entry.Wraps != nil {
		return c.wrapped(from, call, *entry.Wraps, args)
	}
	for _, arg := range sortedKeys(entry.Arguments) {
		if a := entry.Arguments[arg]; a.Role == Calls && args[arg] != nil {
			c.calls(from, &call, arg, a, args[arg])
		}
	}
	return call
}

// mcp settles the names of a tool whose server is said to be known.
func (call *Call) mcp(t *table) {
	if call.Server == "" {
		call.problem("the MCP server is not named")
	}
	if t == nil {
		return
	}
	if tool, ok := t.of(call.Server, call.Name); ok && call.Server != "" {
		call.Tool = tool
		return
	}
	for _, f := range t.mcp {
		if f.prefix == "" {
			continue
		}
		if s, _, fits := f.split(call.Name); fits && s != call.Server {
			call.problem("tool %q does not belong to server %q", call.Name, call.Server)
		}
	}
}

// variant picks the part of an entry that an argument selects.
func (call *Call) variant(entry Tool, args map[string]json.RawMessage) (Tool, bool) {
	name := entry.Otherwise
	if raw := args[entry.Select]; raw != nil {
		if err := json.Unmarshal(raw, &name); err != nil {
			call.problem("argument %s is not a text", entry.Select)
			return Tool{}, false
		}
	}
	v, ok := entry.Variants[name]
	if !ok {
		call.problem("argument %s has no known value", entry.Select)
		return Tool{}, false
	}
	call.Variant = name
	return v, true
}

// wrapped reads the call that this one passes on, and becomes that call; the
// name stays the one that was called.
func (c *Catalog) wrapped(from origin, call Call, w Wrap, args map[string]json.RawMessage) Call {
	if from.depth >= maxDepth {
		call.problem("calls are wrapped too deep")
		return call
	}
	name, ok := text(args[w.Name])
	if !ok || name == "" {
		call.problem("argument %s does not name a tool", w.Name)
		return call
	}
	var server string
	if w.Server != "" {
		if server, ok = text(args[w.Server]); !ok || server == "" {
			call.problem("argument %s does not name a server", w.Server)
		}
	}
	inner := c.tool(from.inner(), name, server, w.Server != "", inline(args[w.Arguments]))
	inner.Name = call.Name
	outer := call
	outer.add(&inner)
	inner.Commands, inner.Reads, inner.Writes, inner.URLs, inner.Hosts = outer.Commands, outer.Reads, outer.Writes, outer.URLs, outer.Hosts
	inner.Escalated, inner.Problems = outer.Escalated, outer.Problems
	inner.Raised = append(call.Raised, inner.Raised...)
	return inner
}

// add adds what an inner call touches and asks for, and what was not understood
// of it. What it raises is a matter of its own entry.
func (call *Call) add(inner *Call) {
	for _, problem := range inner.Problems {
		call.problem("%s", problem)
	}
	call.Commands = merge(call, call.Commands, inner.Commands, maxCommands)
	call.Reads = merge(call, call.Reads, inner.Reads, maxPaths)
	call.Writes = merge(call, call.Writes, inner.Writes, maxPaths)
	call.URLs = merge(call, call.URLs, inner.URLs, maxURLs)
	call.Hosts = merge(call, call.Hosts, inner.Hosts, maxURLs)
	call.Escalated = call.Escalated || inner.Escalated
}

func merge[V any](call *Call, into, more []V, limit int) []V {
	if rest := limit - len(into); len(more) > rest {
		call.problem("the calls in this one are more than can be looked at")
		more = more[:rest]
	}
	return append(into, more...)
}

// calls reads a list of calls.
func (c *Catalog) calls(from origin, call *Call, arg string, a Argument, raw json.RawMessage) {
	var list []map[string]json.RawMessage
	if err := jsonv2.Unmarshal(inline(raw), &list); err != nil || len(list) == 0 {
		call.problem("argument %s is not a list of calls", arg)
		return
	}
	if from.depth >= maxDepth {
		call.problem("calls are wrapped too deep")
		return
	}
	if len(list) > maxInner {
		call.problem("argument %s has %d calls, the limit is %d", arg, len(list), maxInner)
		return
	}
	for i, element := range list {
		name, ok := text(element[a.Tool])
		if !ok || name == "" {
			call.problem("argument %s: call %d does not name a tool", arg, i)
			continue
		}
		for _, member := range sortedKeys(element) {
			if member != a.Tool && member != a.Arguments {
				call.problem("argument %s: call %d has the unknown member %q", arg, i, member)
			}
		}
		inner := c.tool(from.inner(), name, "", false, inline(element[a.Arguments]))
		leaves := inner.Inner
		if len(leaves) == 0 {
			leaves = []Call{inner}
		}
		if len(call.Inner)+len(leaves) > maxInner {
			call.problem("argument %s: more than %d calls in all", arg, maxInner)
			return
		}
		for i := range leaves {
			leaves[i].fill()
		}
		call.Inner = append(call.Inner, leaves...)
		call.add(&inner)
	}
}

// object reads the arguments. Nothing and null are no arguments; members that
// are null count as missing. A name that is given twice is an error, since two
// readers would see two calls.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return args, nil
	}
	// This looks all the way down: names given twice count at any depth.
	v := jsontext.Value(raw)
	if !v.IsValid() {
		return nil, errors.New("not valid JSON or a name is given twice")
	}
	switch v.Kind() {
	case 'n':
		return args, nil
	case '{':
	default:
		return nil, errors.New("not an object")
	}
	if err := jsonv2.Unmarshal(raw, &args); err != nil {
		return nil, errors.New("not an object")
	}
	for name, value := range args {
		if isNull(value) {
			delete(args, name)
		}
	}
	return args, nil
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// inline opens a JSON text that was put into a JSON string, as some harnesses
// do with the arguments of an inner call.
func inline(raw json.RawMessage) json.RawMessage {
	if s, ok := text(raw); ok && (strings.HasPrefix(strings.TrimSpace(s), "{") || strings.HasPrefix(strings.TrimSpace(s), "[")) {
		return json.RawMessage(s)
	}
	return raw
}

func text(raw json.RawMessage) (string, bool) {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || trimmed[0] != '"' {
		return "", false
	}
	var s string
	if err := jsonv2.Unmarshal(trimmed, &s); err != nil {
		return "", false
	}
	return s, true
}

// arguments reads the arguments of an entry.
func (call *Call) arguments(from origin, entry Tool, args map[string]json.RawMessage) {
	for _, group := range entry.OneOf {
		given := 0
		for _, name := range group {
			if args[name] != nil {
				given++
			}
		}
		if given != 1 {
			call.problem("exactly one of the arguments %s must be given", strings.Join(group, ", "))
		}
	}
	for _, name := range sortedKeys(args) {
		if _, ok := entry.Arguments[name]; !ok && (!entry.Open || promising(name)) {
			call.problem("argument %s is not in the catalogue", shorten(name))
		}
	}
	r := reader{call: call, environment: from.environment, entry: entry, args: args}
	r.surroundings()
	for _, name := range sortedKeys(entry.Arguments) {
		r.argument(name, entry.Arguments[name], args[name])
	}
}

// promises are words in the name of an argument after which a command, a path
// or an address may follow.
var promises = map[string]bool{
	"argv": true, "cmd": true, "code": true, "command": true, "commands": true, "exec": true, "script": true, "shell": true,
	"cwd": true, "dir": true, "directory": true, "file": true, "filename": true, "filepath": true, "files": true, "folder": true,
	"path": true, "paths": true, "root": true, "workdir": true, "diff": true, "patch": true,
	"endpoint": true, "host": true, "href": true, "uri": true, "uris": true, "url": true, "urls": true,
}

var wordInName = regexp.MustCompile(`[A-Z]*[a-z0-9]+|[A-Z]+`)

func promising(name string) bool {
	return slices.ContainsFunc(wordInName.FindAllString(name, -1), func(w string) bool { return promises[strings.ToLower(w)] })
}

// reader reads the arguments of one call.
type reader struct {
	call        *Call
	environment string
	entry       Tool
	args        map[string]json.RawMessage
	// shell and cwd hold for every command of the call.
	shell, cwd string
	// rest are the arguments that follow the command.
	rest    []string
	hasRest bool
}

// surroundings reads what the commands need before any of them is read.
func (r *reader) surroundings() {
	for _, name := range sortedKeys(r.entry.Arguments) {
		raw := r.args[name]
		if raw == nil {
			continue
		}
		switch r.entry.Arguments[name].Role {
		case Shell:
			s, ok := text(raw)
			if !ok {
				r.call.problem("argument %s is not a text", name)
				r.shell = "unknown"
				continue
			}
			if r.shell, ok = dialects[s]; !ok {
				r.call.problem("argument %s names a shell that is not known", name)
				r.shell = "unknown"
			}
		case Cwd:
			s, ok := text(raw)
			switch {
			case !ok || strings.ContainsRune(s, 0):
				r.call.problem("argument %s is not a path", name)
			case r.cwd != "" && s != "" && s != r.cwd:
				r.call.problem("argument %s names a second folder for the command", name)
			case s != "":
				r.cwd = s
			}
		case Args:
			if err := jsonv2.Unmarshal(raw, &r.rest); err != nil {
				r.call.problem("argument %s is not a list of texts", name)
				continue
			}
			r.hasRest = len(r.rest) > 0
		}
	}
}

// dialects are the shells by the name or the path that they certainly have.
// Any other path may be any program.
var dialects = map[string]string{
	"bash": "bash", "/bin/bash": "bash", "/usr/bin/bash": "bash",
	"sh": "sh", "/bin/sh": "sh", "/usr/bin/sh": "sh",
	"zsh": "zsh", "/bin/zsh": "zsh", "/usr/bin/zsh": "zsh",
}

func (r *reader) argument(name string, a Argument, raw json.RawMessage) {
	if raw == nil || isNull(raw) {
		switch {
		case a.Required:
			r.call.problem("argument %s is missing", name)
		case a.Default != "" && !r.otherPath(name):
			r.value(name, a, json.RawMessage(`"`+a.Default+`"`))
		}
		return
	}
	switch a.Role {
	case Text, Data, Shell, Cwd, Args, Calls:
		return
	case Environment:
		if id, ok := text(raw); !ok || id != "" && id != r.environment {
			r.call.problem("argument %s names another environment than the request", name)
		}
		return
	case Deny:
		r.call.problem("argument %s is not understood", name)
		return
	case Raise:
		r.raise(name, a, raw)
		return
	case Argv:
		argv, ok := texts(raw)
		if !ok || len(argv) == 0 {
			r.call.problem("argument %s is not a list of texts", name)
			return
		}
		r.call.command(name, Command{Argv: argv, Cwd: r.cwd})
		return
	case Commands:
		r.commands(name, a, raw)
		return
	}
	trimmed := bytes.TrimSpace(raw)
	switch {
	case trimmed[0] == '[' && a.Argv:
		argv, ok := texts(raw)
		if !ok || len(argv) == 0 {
			r.call.problem("argument %s is not a list of texts", name)
			return
		}
		r.call.command(name, Command{Argv: append(argv, r.rest...), Cwd: r.cwd})
	case trimmed[0] == '[' && a.Many:
		var list []json.RawMessage
		if err := jsonv2.Unmarshal(raw, &list); err != nil {
			r.call.problem("argument %s cannot be read", name)
			return
		}
		one := a
		one.Many, one.Required = false, true
		for i, element := range list {
			r.argument(fmt.Sprintf("%s/%d", name, i), one, element)
		}
	case trimmed[0] == '{' && a.Fields != nil:
		var members map[string]json.RawMessage
		if err := jsonv2.Unmarshal(raw, &members); err != nil {
			r.call.problem("argument %s cannot be read", name)
			return
		}
		for _, member := range sortedKeys(members) {
			if _, ok := a.Fields[member]; !ok && !a.Open {
				r.call.problem("argument %s/%s is not in the catalogue", name, shorten(member))
			}
		}
		for _, member := range sortedKeys(a.Fields) {
			r.argument(name+"/"+member, a.Fields[member], members[member])
		}
	case a.Role == "":
		r.call.problem("argument %s has the wrong type", name)
	default:
		r.value(name, a, raw)
	}
}

// value reads one plain value that has a meaning.
func (r *reader) value(name string, a Argument, raw json.RawMessage) {
	s, ok := text(raw)
	if !ok {
		r.call.problem("argument %s is not a text", name)
		return
	}
	switch a.Role {
	case CommandText:
		r.text(name, a, s)
	case ReadPath:
		r.call.path(&r.call.Reads, name, r.based(a, s))
	case WritePath:
		r.call.path(&r.call.Writes, name, r.based(a, s))
	case Filter:
		if !strings.HasPrefix(s, "!") {
			r.call.path(&r.call.Reads, name, r.based(a, s))
		}
	case Glob:
		if folder := globFolder(s); folder != "" {
			r.call.path(&r.call.Reads, name, r.based(a, folder))
		}
	case URL:
		r.call.url(name, s)
	case Addresses:
		r.call.addresses(name, s)
	case Patch:
		r.call.patch(name, s)
	default:
		r.call.problem("argument %s has a role that is not known", name)
	}
}

// otherPath says whether an argument other than name gives a path.
func (r *reader) otherPath(name string) bool {
	for other, a := range r.entry.Arguments {
		if other != name && a.Role == ReadPath && r.args[other] != nil {
			return true
		}
	}
	return false
}

// based puts the folder that another argument names before a relative path.
func (r *reader) based(a Argument, p string) string {
	if a.Base == "" || p == "" || path.IsAbs(p) || strings.HasPrefix(p, "~") {
		return p
	}
	base, ok := text(r.args[a.Base])
	if !ok || base == "" {
		base = r.entry.Arguments[a.Base].Default
	}
	if base == "" || base == "." {
		return p
	}
	return strings.TrimSuffix(base, "/") + "/" + p
}

// globFolder is the folder below which a pattern lists names: the components
// before the first one with a special character, empty for the starting folder.
func globFolder(pattern string) string {
	var folder []string
	for component := range strings.SplitSeq(pattern, "/") {
		if strings.ContainsAny(component, `*?[]{}()!+@|\`) {
			break
		}
		folder = append(folder, component)
	}
	if len(folder) == 1 && folder[0] == "" {
		return "/"
	}
	return strings.Join(folder, "/")
}

// commands reads one command or a list of them in any spelling.
func (r *reader) commands(name string, a Argument, raw json.RawMessage) {
	trimmed := bytes.TrimSpace(raw)
	switch trimmed[0] {
	case '"':
		s, ok := text(raw)
		if !ok {
			r.call.problem("argument %s is not a text", name)
			return
		}
		r.text(name, a, s)
		// Some callers turn every value into a text. Then the list in it is what
		// runs, and the rules must see its commands; the text itself is judged
		// too, since it may just as well be what runs.
		if strings.HasPrefix(strings.TrimSpace(s), "[") {
			if list, ok := texts(json.RawMessage(s)); ok {
				for i, s := range list {
					r.text(fmt.Sprintf("%s/%d", name, i), a, s)
				}
			}
		}
	case '[':
		var list []json.RawMessage
		if err := jsonv2.Unmarshal(raw, &list); err != nil || len(list) == 0 {
			r.call.problem("argument %s has no command", name)
			return
		}
		for i, element := range list {
			r.oneCommand(fmt.Sprintf("%s/%d", name, i), a, element)
		}
	case '{':
		r.oneCommand(name, a, raw)
	default:
		r.call.problem("argument %s is not a command", name)
	}
}

func (r *reader) oneCommand(name string, a Argument, raw json.RawMessage) {
	trimmed := bytes.TrimSpace(raw)
	switch trimmed[0] {
	case '"':
		if s, ok := text(raw); ok {
			r.text(name, a, s)
			return
		}
	case '[':
		if argv, ok := texts(raw); ok && len(argv) > 0 {
			r.call.command(name, Command{Argv: argv, Cwd: r.cwd})
			return
		}
	case '{':
		var c struct {
			Command string   `json:"command"`
			Cmd     string   `json:"cmd"`
			Args    []string `json:"args"`
		}
		err := jsonv2.Unmarshal(raw, &c, jsonv2.RejectUnknownMembers(true))
		if err == nil && (c.Command == "") != (c.Cmd == "") {
			inner := *r
			inner.rest, inner.hasRest = c.Args, len(c.Args) > 0
			inner.text(name, a, c.Command+c.Cmd)
			return
		}
	}
	r.call.problem("argument %s is not a command", name)
}

// plainWord has no character that any shell gives a meaning to.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// text adds command text, with the arguments that follow it. Whether those go
// through a shell is not known, so both readings are judged unless they are
// certainly the same.
func (r *reader) text(name string, a Argument, s string) {
	shell := r.shell
	if shell == "" {
		shell = a.Shell
	}
	if shell == "" {
		shell = "bash"
	}
	if !r.hasRest {
		r.call.command(name, Command{Shell: shell, Text: s, Cwd: r.cwd})
		return
	}
	argv := append([]string{s}, r.rest...)
	r.call.command(name, Command{Argv: argv, Cwd: r.cwd})
	if slices.ContainsFunc(argv, func(w string) bool { return !plainWord.MatchString(w) }) {
		r.call.command(name, Command{Shell: shell, Text: strings.Join(argv, " "), Cwd: r.cwd})
	}
}

func texts(raw json.RawMessage) ([]string, bool) {
	// A list of pointers tells null from a text that is empty.
	var list []*string
	if err := jsonv2.Unmarshal(raw, &list); err != nil || slices.Contains(list, nil) {
		return nil, false
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = *s
	}
	return out, true
}

func (r *reader) raise(name string, a Argument, raw json.RawMessage) {
	var v any
	if err := jsonv2.Unmarshal(raw, &v); err != nil {
		r.call.problem("argument %s cannot be read", name)
		return
	}
	if !oneOf(v, a.Unless) {
		r.call.Raised = append(r.call.Raised, name)
	}
	if a.Escalates && !oneOf(v, a.EscalatesUnless) {
		r.call.Escalated = true
	}
}

// oneOf compares JSON values of the kinds that a table may name.
func oneOf(v any, known []any) bool {
	return slices.ContainsFunc(known, func(k any) bool {
		switch k := k.(type) {
		case []any:
			list, ok := v.([]any)
			return ok && len(list) == 0
		case map[string]any:
			object, ok := v.(map[string]any)
			return ok && len(object) == 0
		default:
			switch v := v.(type) {
			case string, bool:
				return v == k
			}
			return false
		}
	})
}

func (call *Call) problem(format string, args ...any) {
	if len(call.Problems) >= maxProblems {
		return
	}
	call.Problems = append(call.Problems, fmt.Sprintf(format, args...))
}

func (call *Call) command(name string, c Command) {
	if len(call.Commands) >= maxCommands {
		call.problem("more than %d commands", maxCommands)
		return
	}
	if c.Text == "" && len(c.Argv) == 0 || len(c.Argv) > 0 && c.Argv[0] == "" {
		call.problem("argument %s is empty", name)
		return
	}
	if strings.ContainsRune(c.Text, 0) || slices.ContainsFunc(c.Argv, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		call.problem("argument %s holds a NUL byte", name)
	}
	call.Commands = append(call.Commands, c)
}

func (call *Call) path(to *[]string, name, p string) {
	switch {
	case len(*to) >= maxPaths:
		call.problem("more than %d paths", maxPaths)
		return
	case p == "":
		call.problem("argument %s is empty", name)
		return
	case strings.ContainsRune(p, 0):
		call.problem("argument %s holds a NUL byte", name)
		return
	}
	*to = append(*to, p)
}

// url adds an address. Only http, https and the two WebSocket schemes are
// understood: other schemes reach files, mail or programs.
func (call *Call) url(name, s string) {
	if len(call.URLs) >= maxURLs {
		call.problem("more than %d addresses", maxURLs)
		return
	}
	call.URLs = append(call.URLs, s)
	u, err := url.Parse(s)
	if err != nil || strings.ContainsAny(s, "\\ \t\r\n") {
		call.problem("argument %s is not an address that can be read", name)
		return
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss":
	default:
		call.problem("argument %s is an address with a scheme that is not known", name)
		return
	}
	host, ok := cleanHost(u.Hostname())
	if !ok {
		call.problem("argument %s is an address without a host that can be read", name)
		return
	}
	if u.User != nil {
		call.problem("argument %s is an address with a user in it", name)
	}
	if !slices.Contains(call.Hosts, host) {
		call.Hosts = append(call.Hosts, host)
	}
}

var inProse = regexp.MustCompile("(?i)\\b(?:https?|wss?)://[^\\s<>\"'`\\\\^{}|]+")

// addresses adds what looks like an address in prose. What the tool will find
// there is its own affair, so this is never complete.
func (call *Call) addresses(name, s string) {
	for _, found := range inProse.FindAllString(s, maxInner) {
		call.url(name, strings.TrimRight(found, ".,;:!?)]"))
	}
	call.problem("argument %s is prose, so the addresses in it are not certain", name)
}

var label = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)

// cleanHost gives a host in the one spelling in which rules compare it: lower
// case, no final dot, no brackets, addresses in canonical form.
func cleanHost(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	bare := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if addr, err := netip.ParseAddr(bare); err == nil {
		return addr.Unmap().WithZone("").String(), true
	}
	if s == "" || len(s) > 253 {
		return "", false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if len(l) > 63 || !label.MatchString(l) {
			return "", false
		}
	}
	// 0x7f.1 and 2130706433 are addresses to some programs, names to others.
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		return "", false
	}
	return s, true
}

func shorten(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}

// fill makes every list one that JSON shows as a list: a rule that iterates
// over something that is missing is silent.
func (call *Call) fill() {
	for _, list := range []*[]string{&call.Reads, &call.Writes, &call.URLs, &call.Hosts, &call.Raised, &call.Problems} {
		if *list == nil {
			*list = []string{}
		}
	}
	if call.Commands == nil {
		call.Commands = []Command{}
	}
	if call.Inner == nil {
		call.Inner = []Call{}
	}
}
