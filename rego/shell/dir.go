package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// place is the folder that the commands so far lead to.
type place struct {
	dir     string
	unknown bool
	// before is the folder that cd - goes back to, when moved.
	before        string
	beforeUnknown bool
	moved         bool
}

// lose makes the folder unknown.
func (p *place) lose() { *p = place{unknown: true, beforeUnknown: true, moved: true} }

// meet is what is known where several ways come together.
func meet(ends []place) place {
	p := ends[0]
	for _, q := range ends[1:] {
		if q != p {
			p.lose()
		}
	}
	return p
}

// maxDir is how long a folder may grow before it counts as unknown: every
// command behind a cd carries it.
const maxDir = 1024

func (p *place) move(dir string) {
	if len(dir) > maxDir {
		p.lose()
		return
	}
	*p = place{dir: dir, before: p.dir, beforeUnknown: p.unknown, moved: true}
}

// cd follows the words of a cd command.
func (r *reader) cd(words []Word, at *place) {
	args, physical := words[1:], false
	for len(args) > 0 && args[0].Kind == Literal {
		switch args[0].Value {
		case "-L":
		case "-P":
			physical = true
		case "--":
			args = args[1:]
			goto operand
		default:
			goto operand
		}
		args = args[1:]
	}
operand:
	switch {
	case len(args) == 0:
		args = []Word{{Value: "~", Kind: Literal, Tilde: true}}
	case len(args) > 1 || args[0].Kind != Literal || args[0].Value == "":
		at.lose()
		return
	case args[0].Value == "-":
		if !at.moved || at.beforeUnknown {
			at.lose()
			return
		}
		at.move(at.before)
		return
	case strings.HasPrefix(args[0].Value, "-") || strings.HasPrefix(args[0].Value, "+"):
		at.lose()
		return
	}
	r.enter(args[0], physical, at)
}

// enter moves to the folder that w names.
func (r *reader) enter(w Word, physical bool, at *place) {
	dir := w.Value
	switch {
	case w.Kind != Literal, dir == "":
		at.lose()
	case physical && strings.Contains(dir, ".."):
		at.lose() // depends on links
	case w.Tilde:
		next, ok := below("~", strings.TrimPrefix(dir[1:], "/"))
		if !ok || r.setsHOME {
			at.lose()
			return
		}
		at.move(next)
	case path.IsAbs(dir):
		at.move(path.Clean(dir))
	default:
		dotted := dir == "." || dir == ".." || strings.HasPrefix(dir, "./") || strings.HasPrefix(dir, "../")
		if at.unknown || !dotted && r.setsCDPATH {
			at.lose()
			return
		}
		next, ok := below(at.dir, dir)
		if !ok {
			at.lose()
			return
		}
		at.move(next)
	}
}

// below joins a relative folder to the one before. It reports false above the
// home folder, whose place nobody knows.
func below(dir, rel string) (string, bool) {
	if dir == "~" || strings.HasPrefix(dir, "~/") {
		rest := path.Join("."+dir[1:], rel)
		if rest == ".." || strings.HasPrefix(rest, "../") {
			return "", false
		}
		return path.Join("~", rest), true
	}
	joined := path.Join(dir, rel)
	switch {
	case joined == ".":
		return "", true
	case strings.HasPrefix(joined, "~"):
		return "./" + joined, true // a folder that is called ~
	}
	return joined, true
}

// noteVariables remembers whether text may set the variables that cd reads.
func (r *reader) noteVariables(text string) {
	r.setsCDPATH = r.setsCDPATH || strings.Contains(text, "CDPATH")
	for !r.setsHOME {
		i := strings.Index(text, "HOME")
		if i < 0 {
			return
		}
		read := i > 0 && text[i-1] == '$' || i > 1 && text[i-2:i] == "${"
		r.setsHOME = !read
		text = text[i+len("HOME"):]
	}
}

// end is a place where a list may leave the shell, or none.
type end struct {
	place
	ok bool
}

// outcome is where an element of a list may leave the shell.
type outcome struct {
	// yes: it succeeded; no: it failed. usual is like no, as if a cd to a
	// literal folder always succeeded: the commands on the next line are read
	// that way.
	yes, no, usual end
}

// list follows the commands of a && b || c.
func (r *reader) list(parts []*syntax.Stmt, ops []syntax.BinCmdOperator, sc scope, at *place) {
	o := r.element(parts[0], sc, *at)
	for i, p := range parts[1:] {
		if r.full {
			return
		}
		if ops[i] == syntax.AndStmt {
			next := r.element(p, sc, o.yes.from())
			o = outcome{next.yes, either(o.no, next.no), either(o.usual, next.usual)}
			continue
		}
		next := r.element(p, sc, o.no.from())
		o = outcome{either(o.yes, next.yes), next.no, next.usual}
	}
	*at = either(o.yes, o.usual).from()
}

// from is the place to go on from, unknown where nothing goes on.
func (e end) from() place {
	if !e.ok {
		e.lose()
	}
	return e.place
}

func either(a, b end) end {
	switch {
	case !a.ok:
		return b
	case b.ok && a.place != b.place:
		a.lose()
	}
	return a
}

// element lists one part of a list that starts at p.
func (r *reader) element(s *syntax.Stmt, sc scope, p place) outcome {
	start := p
	r.deeper(s, sc, &p)
	switch {
	case leaves(s):
		return outcome{}
	case p != start && s.Negated:
		p.lose()
	case p != start && isCd(s) && !p.unknown:
		return outcome{yes: end{p, true}, no: end{start, true}}
	}
	e := end{p, true}
	return outcome{e, e, e}
}

// leaves reports whether the shell ends with s.
func leaves(s *syntax.Stmt) bool {
	for s != nil && !s.Background && !s.Coprocess && !s.Disown {
		switch c := s.Cmd.(type) {
		case *syntax.CallExpr:
			return len(c.Args) > 0 && c.Args[0].Lit() == "exit"
		case *syntax.Block:
			if len(c.Stmts) == 0 {
				return false
			}
			s = c.Stmts[len(c.Stmts)-1]
		default:
			return false
		}
	}
	return false
}

// isCd reports whether s is a cd and nothing else.
func isCd(s *syntax.Stmt) bool {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return false
	}
	for _, a := range c.Args {
		switch a.Lit() {
		case "command", "builtin":
		case "cd":
			return true
		default:
			return false
		}
	}
	return false
}
