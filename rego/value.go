package rego

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/argv"
)

// The input is an object whose parts turn into OPA's values when a rule asks for
// them: most decisions look at a few of the facts, and turning all of them into
// values would cost more than the rules do. A test compares what rules see with
// the JSON form of the same Go values.

// native collects the members of such an object.
type native map[string]any

// text adds a string that is left out when empty.
func (n native) text(key, v string) {
	if v != "" {
		n[key] = v
	}
}

// flag adds a boolean that is left out when false.
func (n native) flag(key string, v bool) {
	if v {
		n[key] = true
	}
}

// list adds an array that is there even when it is empty, so that a rule which
// walks over it or counts it does not fall silent.
func (n native) list(key string, v []string) {
	if len(v) == 0 {
		n[key] = ast.InternedEmptyArrayValue
		return
	}
	n[key] = v
}

// value is what rules see as input. The commands of the named programs are
// values at once, since rules are known to ask for them.
func (in *Input) value(asked map[string]bool) (ast.Value, error) {
	request, err := requestNative(&in.Request)
	if err != nil {
		return nil, err
	}
	n := native{
		"request":     map[string]any(request),
		"environment": map[string]any(environmentNative(&in.Environment)),
		"facts":       map[string]any(in.Facts.native(asked)),
	}
	if in.Ruling != nil {
		for key, v := range map[string]any{"verdicts": in.Verdicts, "ruling": in.Ruling} {
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("encode the %s: %w", key, err)
			}
			term, err := jsonTerm(raw)
			if err != nil {
				return nil, fmt.Errorf("encode the %s: %w", key, err)
			}
			n[key] = term.Value
		}
	}
	return ast.LazyObject(n), nil
}

// requestNative is the JSON form of a request.
func requestNative(r *approval.Request) (native, error) {
	n := make(native, 12)
	n.text("kind", string(r.Kind))
	if t := r.Tool; t != nil {
		tool := native{"name": t.Name}
		tool.text("server", t.Server)
		tool.text("description", t.Description)
		if len(t.Arguments) > 0 {
			arguments, err := jsonTerm(t.Arguments)
			if err != nil {
				return nil, fmt.Errorf("read the tool's arguments: %w", err)
			}
			tool["arguments"] = arguments.Value
		}
		if t.Annotations != nil {
			tool["annotations"] = map[string]any(annotationsNative(t.Annotations))
		}
		n["tool"] = map[string]any(tool)
	}
	if c := r.Command; c != nil {
		command := native{}
		command.text("shell", c.Shell)
		command.text("text", c.Text)
		if len(c.Argv) > 0 {
			command["argv"] = c.Argv
		}
		n["command"] = map[string]any(command)
	}
	if len(r.Changes) > 0 {
		n["changes"] = r.Changes
	}
	n.text("grant_root", r.GrantRoot)
	if w := r.Network; w != nil {
		network := native{"host": w.Host}
		network.text("protocol", w.Protocol)
		if w.Port != 0 {
			network["port"] = w.Port
		}
		n["network"] = map[string]any(network)
	}
	if r.Environment != nil {
		n["environment"] = map[string]any(environmentNative(r.Environment))
	}
	if r.Permissions != nil {
		raw, err := json.Marshal(r.Permissions)
		if err != nil {
			return nil, fmt.Errorf("encode the permissions: %w", err)
		}
		permissions, err := jsonTerm(raw)
		if err != nil {
			return nil, fmt.Errorf("encode the permissions: %w", err)
		}
		n["permissions"] = permissions.Value
	}
	n.flag("escalated", r.Escalated)
	n.flag("human_only", r.HumanOnly)
	if r.HostAllows != nil {
		n["host_allows"] = *r.HostAllows
	}
	n.text("reason", r.Reason)
	if len(r.Options) > 0 {
		for i, raw := range r.Options {
			// What is turned into values on demand must be valid beforehand.
			if !json.Valid(raw) {
				return nil, fmt.Errorf("option %d is not valid JSON", i)
			}
		}
		n["options"] = r.Options
	}
	if r.Run != nil {
		n["run"] = r.Run
	}
	if r.Session != nil {
		n["session"] = r.Session
	}
	if v := r.Harness; v != nil {
		harness := native{"name": v.Name}
		harness.text("version", v.Version)
		n["harness"] = map[string]any(harness)
	}
	if r.Subject != nil {
		n["subject"] = r.Subject
	}
	return n, nil
}

func annotationsNative(a *approval.Annotations) native {
	n := native{}
	n.text("title", a.Title)
	for _, hint := range []struct {
		name  string
		value *bool
	}{
		{"readOnlyHint", a.ReadOnlyHint},
		{"destructiveHint", a.DestructiveHint},
		{"idempotentHint", a.IdempotentHint},
		{"openWorldHint", a.OpenWorldHint},
	} {
		if hint.value != nil {
			n[hint.name] = *hint.value
		}
	}
	return n
}

func environmentNative(e *approval.Environment) native {
	n := make(native, 5)
	n.text("id", e.ID)
	n.text("cwd", e.Cwd)
	n.text("home", e.Home)
	n.text("tmp_dir", e.TmpDir)
	if len(e.ProjectRoots) > 0 {
		n["project_roots"] = e.ProjectRoots
	}
	return n
}

// native is input.facts.
func (f *Facts) native(asked map[string]bool) native {
	tool := native{
		"harness": f.Tool.Harness, "name": f.Tool.Name, "key": f.Tool.Key, "variant": f.Tool.Variant,
		"server": f.Tool.Server, "tool": f.Tool.Tool, "listed": f.Tool.Listed, "mcp": f.Tool.MCP,
		"escalated": f.Tool.Escalated, "plain": f.Tool.Plain,
	}
	tool.list("reads", f.Tool.Reads)
	tool.list("writes", f.Tool.Writes)
	tool.list("urls", f.Tool.URLs)
	tool.list("hosts", f.Tool.Hosts)
	tool.list("raised", f.Tool.Raised)
	tool.list("problems", f.Tool.Problems)
	if f.Tool.Annotations != nil {
		tool["annotations"] = map[string]any(annotationsNative(f.Tool.Annotations))
	}
	tool["commands"] = orEmpty(f.Tool.Commands)
	tool["inner"] = orEmpty(f.Tool.Inner)

	paths := make(native, 3)
	paths.list("read", f.Paths.Read)
	paths.list("write", f.Paths.Write)
	paths.list("unresolved", f.Paths.Unresolved)

	permissions := native{}
	permissions.flag("network", f.Permissions.Network)
	permissions.flag("read", f.Permissions.Read)
	permissions.flag("write", f.Permissions.Write)
	permissions.text("problem", f.Permissions.Problem)

	guard := make(native, 11)
	guard["touched"] = f.Guard.Touched
	guard.text("limit", f.Guard.Limit)
	guard.list("writes", f.Guard.Writes)
	guard["mentions"] = orEmpty(f.Guard.Mentions)
	guard["barred"] = f.Guard.Barred
	guard.list("decides", f.Guard.Decides)
	guard.list("reaches", f.Guard.Reaches)
	guard.list("may_decide", f.Guard.MayDecide)
	guard.list("may_reach", f.Guard.MayReach)
	guard.list("named", f.Guard.Named)
	guard.list("opens", f.Guard.Opens)

	n := native{
		"tool":        map[string]any(tool),
		"command":     map[string]any(f.Command.native(asked)),
		"paths":       map[string]any(paths),
		"permissions": map[string]any(permissions),
		"guard":       map[string]any(guard),
		"more":        f.More,
	}
	if g := f.Granted; g != nil {
		n["granted"] = map[string]any{"read": g.Read, "write": g.Write, "network": g.Network, "permissions": g.Permissions}
	}
	n.list("programs", f.Programs)
	n.list("hosts", f.Hosts)
	n.list("urls", f.URLs)
	return n
}

// orEmpty keeps a list as it is; it becomes values through its JSON form, when a
// rule asks.
func orEmpty[T any](v []T) any {
	if len(v) == 0 {
		return ast.InternedEmptyArrayValue
	}
	return v
}

func (f *CommandFacts) native(asked map[string]bool) native {
	byProgram := make(map[string]any, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Program == "" {
			continue
		}
		number := strconv.Itoa(i)
		if asked[n.Program] {
			nodes, ok := byProgram[n.Program].(map[string]any)
			if !ok {
				nodes = map[string]any{}
				byProgram[n.Program] = nodes
			}
			nodes[number] = map[string]any(nodeNative(n))
			continue
		}
		nodes, ok := byProgram[n.Program].(map[string]*argv.Node)
		if !ok {
			nodes = map[string]*argv.Node{}
			byProgram[n.Program] = nodes
		}
		nodes[number] = n
	}
	for name, nodes := range byProgram {
		if nodes, ok := nodes.(map[string]*argv.Node); ok {
			byProgram[name] = lazyByNumber(nodes)
		}
	}
	return native{
		"nodes":      lazyNodes(f.Nodes),
		"by_program": byProgram,
		"summary":    map[string]any(summaryNative(&f.Summary)),
		"problems":   orEmpty(f.Problems),
	}
}

func summaryNative(s *argv.Summary) native {
	n := make(native, 7)
	n.list("uses", s.Uses)
	n.flag("reads", s.Reads)
	n["standing"] = s.Standing
	n["writes"] = orEmpty(s.Writes)
	n["assigns"] = arrayOf(s.Assigns, assignTerm)
	n["repositories"] = arrayOf(s.Repositories, repositoryTerm)
	n.list("sockets", s.Sockets)
	n.list("problems", s.Problems)
	return n
}

// ruleNode is a command as rules see it: the parts that rules look at most are
// there even when they are empty.
type ruleNode struct {
	*argv.Node
	Program    string   `json:"program"`
	Name       string   `json:"name"`
	Args       []string `json:"args"`
	Flags      []string `json:"flags"`
	Subcommand []string `json:"subcommand"`
	Operands   []string `json:"operands"`
}

func newRuleNode(n *argv.Node) ruleNode {
	whole := func(v []string) []string {
		if v == nil {
			return []string{}
		}
		return v
	}
	return ruleNode{n, n.Program, n.Name, whole(n.Args), whole(n.Flags), whole(n.Subcommand), whole(n.Operands)}
}

// lazyNodes are all commands, turned into values when a rule asks for all.
type lazyNodes []argv.Node

// MarshalJSON is what OPA calls when it turns the nodes into values.
func (l lazyNodes) MarshalJSON() ([]byte, error) {
	nodes := make([]ruleNode, len(l))
	for i := range l {
		nodes[i] = newRuleNode(&l[i])
	}
	return json.Marshal(nodes)
}

// lazyByNumber are the commands of one program, turned into values when a rule
// asks for them.
type lazyByNumber map[string]*argv.Node

// MarshalJSON is what OPA calls when it turns the nodes into values.
func (l lazyByNumber) MarshalJSON() ([]byte, error) {
	nodes := make(map[string]ruleNode, len(l))
	for number, n := range l {
		nodes[number] = newRuleNode(n)
	}
	return json.Marshal(nodes)
}

// nodeNative is ruleNode part by part.
func nodeNative(node *argv.Node) native {
	n := make(native, 16)
	n["program"] = node.Program
	n["name"] = node.Name
	n.list("args", node.Args)
	n.list("flags", node.Flags)
	n.list("subcommand", node.Subcommand)
	n.list("operands", node.Operands)
	addList(n, "uses", node.Uses)
	addList(n, "hosts", node.Hosts)
	addList(n, "urls", node.URLs)
	addList(n, "starts", node.Starts)
	addList(n, "via", node.Via)
	addList(n, "problems", node.Problems)
	addList(n, "reads", node.Reads)
	addList(n, "writes", node.Writes)
	addList(n, "assigns", node.Assigns)
	addList(n, "redirects", node.Redirects)
	addList(n, "repositories", node.Repositories)
	n.text("standing", node.Standing)
	n.text("stdin", node.Stdin)
	n.flag("open_ended", node.OpenEnded)
	n.text("dir", node.Dir)
	n.flag("dir_unknown", node.DirUnknown)
	n["line"] = node.Line
	n["column"] = node.Column
	n["text"] = node.Text
	return n
}

// addList adds a list that is left out when empty.
func addList[T any](n native, key string, v []T) {
	if len(v) > 0 {
		n[key] = v
	}
}

// members collects the members of a value made directly.
type members [][2]*ast.Term

func (m *members) add(key string, v *ast.Term) {
	*m = append(*m, [2]*ast.Term{ast.InternedTerm(key), v})
}

func (m *members) text(key, v string) {
	if v != "" {
		m.add(key, ast.InternedTerm(v))
	}
}

func (m *members) flag(key string, v bool) {
	if v {
		m.add(key, ast.InternedTerm(true))
	}
}

func (m members) term() *ast.Term { return ast.ObjectTerm(m...) }

func arrayOf[T any](v []T, term func(*T) *ast.Term) ast.Value {
	if len(v) == 0 {
		return ast.InternedEmptyArrayValue
	}
	terms := make([]*ast.Term, len(v))
	for i := range v {
		terms[i] = term(&v[i])
	}
	return ast.NewArray(terms...)
}

func assignTerm(a *argv.Assign) *ast.Term {
	var m members
	m.add("name", ast.InternedTerm(a.Name))
	m.add("value", ast.InternedTerm(a.Value))
	m.text("kind", a.Kind)
	m.flag("append", a.Append)
	m.flag("bare", a.Bare)
	return m.term()
}

func repositoryTerm(r *argv.Repository) *ast.Term {
	var m members
	m.text("dir", r.Dir)
	m.flag("unknown", r.Unknown)
	return m.term()
}

// jsonTerm reads JSON text into OPA's values without a detour through maps.
func jsonTerm(raw []byte) (*ast.Term, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	t, err := nextTerm(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the value")
	}
	return t, nil
}

func nextTerm(d *jsontext.Decoder) (*ast.Term, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return ast.InternedNullTerm, nil
	case 't', 'f':
		return ast.InternedTerm(token.Bool()), nil
	case '"':
		return ast.InternedTerm(token.String()), nil
	case '0':
		return ast.NumberTerm(json.Number(token.String())), nil
	case '[':
		var terms []*ast.Term
		for d.PeekKind() != ']' {
			t, err := nextTerm(d)
			if err != nil {
				return nil, err
			}
			terms = append(terms, t)
		}
		_, err := d.ReadToken()
		return ast.ArrayTerm(terms...), err
	case '{':
		var m members
		for d.PeekKind() != '}' {
			key, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name := key.String()
			v, err := nextTerm(d)
			if err != nil {
				return nil, err
			}
			m.add(name, v)
		}
		_, err := d.ReadToken()
		return m.term(), err
	default:
		return nil, fmt.Errorf("unexpected %v", token)
	}
}
