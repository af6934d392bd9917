package rego

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/catalog"
	"github.com/regent-policy/regent/rego/shell"
)

// The input is built as OPA's own values, field by field: going through JSON
// text and back would cost more than the rules do. A test compares what is
// built here with the JSON form of the same Go values.

// members collects the members of an object.
type members [][2]*ast.Term

func (m *members) add(key string, v *ast.Term) {
	*m = append(*m, [2]*ast.Term{ast.InternedTerm(key), v})
}

// text adds a string that is left out when empty.
func (m *members) text(key, v string) {
	if v != "" {
		m.add(key, ast.InternedTerm(v))
	}
}

// flag adds a boolean that is left out when false.
func (m *members) flag(key string, v bool) {
	if v {
		m.add(key, ast.InternedTerm(true))
	}
}

// list adds an array that is left out when empty.
func (m *members) list(key string, v []string) {
	if len(v) > 0 {
		m.add(key, texts(v))
	}
}

func (m members) term() *ast.Term { return ast.ObjectTerm(m...) }

func texts(v []string) *ast.Term {
	terms := make([]*ast.Term, len(v))
	for i, s := range v {
		terms[i] = ast.InternedTerm(s)
	}
	return ast.ArrayTerm(terms...)
}

func arrayOf[T any](v []T, term func(*T) *ast.Term) *ast.Term {
	terms := make([]*ast.Term, len(v))
	for i := range v {
		terms[i] = term(&v[i])
	}
	return ast.ArrayTerm(terms...)
}

// requestTerm is the JSON form of a request.
func requestTerm(r *approval.Request) (*ast.Term, error) {
	m := make(members, 0, 12)
	m.text("kind", string(r.Kind))
	if t := r.Tool; t != nil {
		var f members
		f.text("name", t.Name)
		f.text("server", t.Server)
		if len(t.Arguments) > 0 {
			arguments, err := jsonTerm(t.Arguments)
			if err != nil {
				return nil, fmt.Errorf("read the tool's arguments: %w", err)
			}
			f.add("arguments", arguments)
		}
		if t.Annotations != nil {
			f.add("annotations", annotationsTerm(t.Annotations))
		}
		f.text("description", t.Description)
		m.add("tool", f.term())
	}
	if c := r.Command; c != nil {
		var f members
		f.text("shell", c.Shell)
		f.text("text", c.Text)
		f.list("argv", c.Argv)
		m.add("command", f.term())
	}
	if len(r.Changes) > 0 {
		m.add("changes", arrayOf(r.Changes, func(c *approval.Change) *ast.Term {
			var f members
			f.add("path", ast.StringTerm(c.Path))
			f.add("operation", ast.InternedTerm(c.Operation))
			f.text("move_path", c.MovePath)
			f.text("diff", c.Diff)
			return f.term()
		}))
	}
	m.text("grant_root", r.GrantRoot)
	if n := r.Network; n != nil {
		var f members
		f.add("host", ast.StringTerm(n.Host))
		if n.Port != 0 {
			f.add("port", ast.InternedTerm(n.Port))
		}
		f.text("protocol", n.Protocol)
		m.add("network", f.term())
	}
	if e := r.Environment; e != nil {
		m.add("environment", environmentTerm(e))
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
		m.add("permissions", permissions)
	}
	m.flag("escalated", r.Escalated)
	m.flag("human_only", r.HumanOnly)
	if r.HostAllows != nil {
		m.add("host_allows", ast.InternedTerm(*r.HostAllows))
	}
	m.text("reason", r.Reason)
	if len(r.Options) > 0 {
		options := make([]*ast.Term, len(r.Options))
		for i, raw := range r.Options {
			option, err := jsonTerm(raw)
			if err != nil {
				return nil, fmt.Errorf("read option %d: %w", i, err)
			}
			options[i] = option
		}
		m.add("options", ast.ArrayTerm(options...))
	}
	if v := r.Run; v != nil {
		var f members
		f.add("id", ast.StringTerm(v.ID))
		f.text("instance", v.Instance)
		m.add("run", f.term())
	}
	if v := r.Session; v != nil {
		var f members
		f.text("id", v.ID)
		f.text("turn_id", v.TurnID)
		f.text("call_id", v.CallID)
		m.add("session", f.term())
	}
	if v := r.Harness; v != nil {
		var f members
		f.add("name", ast.InternedTerm(v.Name))
		f.text("version", v.Version)
		m.add("harness", f.term())
	}
	if v := r.Subject; v != nil {
		var f members
		f.add("id", ast.StringTerm(v.ID))
		f.text("on_behalf_of", v.OnBehalfOf)
		m.add("subject", f.term())
	}
	return m.term(), nil
}

func annotationsTerm(a *approval.Annotations) *ast.Term {
	var f members
	f.text("title", a.Title)
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
			f.add(hint.name, ast.InternedTerm(*hint.value))
		}
	}
	return f.term()
}

func environmentTerm(e *approval.Environment) *ast.Term {
	var f members
	f.text("id", e.ID)
	f.text("cwd", e.Cwd)
	f.text("home", e.Home)
	f.text("tmp_dir", e.TmpDir)
	f.list("project_roots", e.ProjectRoots)
	return f.term()
}

// term is the value of input.facts.
func (f *Facts) term() *ast.Term {
	var command, paths, permissions, guard, m members
	command.add("nodes", arrayOf(f.Command.Nodes, nodeTerm))
	command.add("summary", summaryTerm(&f.Command.Summary))
	command.add("problems", arrayOf(f.Command.Problems, func(p *shell.Problem) *ast.Term {
		var m members
		m.add("kind", ast.InternedTerm(p.Kind))
		m.add("message", ast.InternedTerm(p.Message))
		if p.Line > 0 {
			m.add("line", ast.InternedTerm(p.Line))
			m.add("column", ast.InternedTerm(p.Column))
		}
		return m.term()
	}))
	paths.add("read", texts(f.Paths.Read))
	paths.add("write", texts(f.Paths.Write))
	paths.add("unresolved", texts(f.Paths.Unresolved))
	permissions.flag("network", f.Permissions.Network)
	permissions.flag("read", f.Permissions.Read)
	permissions.flag("write", f.Permissions.Write)
	permissions.text("problem", f.Permissions.Problem)
	guard.add("writes", texts(f.Guard.Writes))
	guard.add("mentions", arrayOf(f.Guard.Mentions, func(p *Mention) *ast.Term {
		return ast.ObjectTerm(
			ast.Item(ast.InternedTerm("node"), ast.InternedTerm(p.Node)),
			ast.Item(ast.InternedTerm("path"), ast.StringTerm(p.Path)),
		)
	}))
	m.add("tool", callTerm(&f.Tool))
	m.add("command", command.term())
	m.add("programs", texts(f.Programs))
	m.add("paths", paths.term())
	m.add("hosts", texts(f.Hosts))
	m.add("urls", texts(f.URLs))
	m.add("permissions", permissions.term())
	m.add("guard", guard.term())
	return m.term()
}

// nodeTerm is a command as rules see it. The parts that rules look at most are
// there even when they are empty, so that a rule about them does not fall
// silent.
func nodeTerm(n *argv.Node) *ast.Term {
	m := make(members, 0, 16)
	m.add("program", ast.InternedTerm(n.Program))
	m.add("name", ast.InternedTerm(n.Name))
	m.add("args", texts(n.Args))
	m.add("flags", texts(n.Flags))
	m.add("subcommand", texts(n.Subcommand))
	m.add("operands", texts(n.Operands))
	m.list("uses", n.Uses)
	m.text("standing", n.Standing)
	if len(n.Reads) > 0 {
		m.add("reads", arrayOf(n.Reads, pathTerm))
	}
	if len(n.Writes) > 0 {
		m.add("writes", arrayOf(n.Writes, pathTerm))
	}
	m.list("hosts", n.Hosts)
	m.list("urls", n.URLs)
	m.list("starts", n.Starts)
	if len(n.Assigns) > 0 {
		m.add("assigns", arrayOf(n.Assigns, assignTerm))
	}
	if len(n.Redirects) > 0 {
		m.add("redirects", arrayOf(n.Redirects, redirectTerm))
	}
	if len(n.Repositories) > 0 {
		m.add("repositories", arrayOf(n.Repositories, repositoryTerm))
	}
	m.list("via", n.Via)
	m.text("stdin", n.Stdin)
	m.flag("open_ended", n.OpenEnded)
	m.text("dir", n.Dir)
	m.flag("dir_unknown", n.DirUnknown)
	m.list("problems", n.Problems)
	m.add("line", ast.InternedTerm(n.Line))
	m.add("column", ast.InternedTerm(n.Column))
	m.add("text", ast.InternedTerm(n.Text))
	return m.term()
}

func summaryTerm(s *argv.Summary) *ast.Term {
	m := make(members, 0, 7)
	m.add("uses", texts(s.Uses))
	m.add("standing", ast.InternedTerm(s.Standing))
	m.add("writes", arrayOf(s.Writes, pathTerm))
	m.add("assigns", arrayOf(s.Assigns, assignTerm))
	m.add("redirects", arrayOf(s.Redirects, redirectTerm))
	m.add("repositories", arrayOf(s.Repositories, repositoryTerm))
	m.add("problems", texts(s.Problems))
	return m.term()
}

func assignTerm(a *argv.Assign) *ast.Term {
	var f members
	f.add("name", ast.InternedTerm(a.Name))
	f.add("value", ast.InternedTerm(a.Value))
	f.text("kind", a.Kind)
	f.flag("append", a.Append)
	f.flag("bare", a.Bare)
	return f.term()
}

func redirectTerm(r *argv.Redirect) *ast.Term {
	var f members
	f.add("op", ast.InternedTerm(r.Op))
	f.text("fd", r.FD)
	f.add("mode", ast.InternedTerm(r.Mode))
	f.text("target", r.Target)
	f.text("kind", r.Kind)
	return f.term()
}

func repositoryTerm(r *argv.Repository) *ast.Term {
	var f members
	f.text("dir", r.Dir)
	f.flag("unknown", r.Unknown)
	return f.term()
}

func pathTerm(p *argv.Path) *ast.Term {
	var f members
	f.add("word", ast.InternedTerm(p.Word))
	f.text("kind", p.Kind)
	f.flag("tree", p.Tree)
	return f.term()
}

func callTerm(c *catalog.Call) *ast.Term {
	raw, err := json.Marshal(c)
	if err == nil {
		var t *ast.Term
		if t, err = jsonTerm(raw); err == nil {
			return t
		}
	}
	// A call holds nothing that JSON cannot say. Were it otherwise, the tool
	// would be one that nobody listed.
	return ast.ObjectTerm(ast.Item(ast.InternedTerm("problems"), texts([]string{err.Error()})))
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
