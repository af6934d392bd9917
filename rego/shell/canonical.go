package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Canonical is a text in a form that two texts share only where a shell runs the
// same commands for both: with the same words, in the same order, under the same
// conditions and with the same redirections. White space, comments, line ends and
// ways to quote make no difference. It is for comparison, and no shell text.
//
// It reports false for a text that is not known to its end before a shell runs it,
// one with an expansion, a pattern, a heredoc, a loop, a condition or a function in
// it, and for one that [Parse] has problems with.
func Canonical(dialect Dialect, text string) (form string, ok bool) {
	if !utf8.ValidString(text) || len(Parse(dialect, text).Problems) > 0 {
		return "", false
	}
	r := reader{dialect: dialect, src: text, inner: maxInner}
	w := canonicalWriter{r: &r}
	r.guard(func() {
		stmts, err := r.parse(dialect)
		ok = err == nil && len(stmts) > 0 && w.stmts(stmts)
	})
	if !ok || len(r.problems) > 0 {
		return "", false
	}
	return string(dialect) + " " + w.b.String(), true
}

// CanonicalArgv is [Canonical] for the words of a program that is started without a
// shell.
func CanonicalArgv(argv []string) (form string, ok bool) {
	if len(argv) == 0 || len(ParseArgv(argv).Problems) > 0 {
		return "", false
	}
	var w canonicalWriter
	for _, a := range argv {
		w.text(a)
	}
	return "argv " + w.b.String(), true
}

// canonicalWriter writes the form: what is quoted in it is text, and all else is
// structure. Each method reports false for what has no form.
type canonicalWriter struct {
	r *reader
	b strings.Builder
}

func (w *canonicalWriter) text(s string) {
	w.b.WriteString(strconv.Quote(s))
	w.b.WriteByte(' ')
}

func (w *canonicalWriter) stmts(list []*syntax.Stmt) bool {
	for _, s := range list {
		if !w.stmt(s) {
			return false
		}
		w.b.WriteByte(';')
	}
	return true
}

func (w *canonicalWriter) stmt(s *syntax.Stmt) bool {
	if s.Coprocess || s.Disown {
		return false
	}
	if s.Negated {
		w.b.WriteByte('!')
	}
	w.b.WriteByte('{')
	ok := w.command(s.Cmd) && w.redirects(s.Redirs)
	w.b.WriteByte('}')
	if s.Background {
		w.b.WriteByte('&')
	}
	return ok
}

func (w *canonicalWriter) command(c syntax.Command) bool {
	switch c := c.(type) {
	case nil:
		return true
	case *syntax.CallExpr:
		for _, a := range c.Assigns {
			x := w.r.assign(a)
			if x.Name == "" || a.Index != nil || a.Array != nil {
				return false
			}
			w.b.WriteString(x.Name)
			if x.Append {
				w.b.WriteByte('+')
			}
			w.b.WriteByte('=')
			if !w.word(x.Value) {
				return false
			}
		}
		for _, a := range c.Args {
			for _, x := range w.r.words(nil, a, argument) {
				if !w.word(x) {
					return false
				}
			}
		}
		return true
	case *syntax.BinaryCmd:
		w.b.WriteString(c.Op.String())
		return w.stmt(c.X) && w.stmt(c.Y)
	case *syntax.Subshell:
		w.b.WriteByte('(')
		ok := w.stmts(c.Stmts)
		w.b.WriteByte(')')
		return ok
	case *syntax.Block:
		w.b.WriteByte('[')
		ok := w.stmts(c.Stmts)
		w.b.WriteByte(']')
		return ok
	default:
		return false
	}
}

// word writes a word that is known. A tilde that the shell replaces is told from
// one that is quoted.
func (w *canonicalWriter) word(x Word) bool {
	if x.Kind != Literal {
		return false
	}
	if x.Tilde {
		w.b.WriteByte('~')
	}
	w.text(x.Value)
	return true
}

func (w *canonicalWriter) redirects(list []*syntax.Redirect) bool {
	for _, x := range list {
		if x.Hdoc != nil || x.Op == syntax.Hdoc || x.Op == syntax.DashHdoc {
			return false
		}
		d, _ := w.r.redirect(x, scope{})
		w.b.WriteString(d.FD + d.Op)
		if !w.word(d.Target) {
			return false
		}
	}
	return true
}
