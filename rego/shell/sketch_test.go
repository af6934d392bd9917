package shell_test

import (
	"strconv"
	"strings"

	"github.com/regent-policy/regent/rego/shell"
)

// sketch renders a command for tables: words first, then > redirections, then
// what else there is in brackets. A word that is not plain is quoted, and one
// that is not literal has its kind before it: g: glob, p: parameter (P: when it
// is certainly one word), d: dynamic; ~: stands for a tilde that is expanded.
func sketch(c shell.Command) string {
	var b strings.Builder
	add := func(s string) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s)
	}
	for _, a := range c.Assigns {
		op := ":="
		if a.Append {
			op = "+:="
		}
		add(a.Name + op + sketchWord(a.Value))
	}
	for _, w := range c.Words {
		add(sketchWord(w))
	}
	for _, r := range c.Redirects {
		add(r.FD + r.Op + r.Mode + ":" + sketchWord(r.Target))
	}
	var more []string
	if len(c.Via) > 0 {
		more = append(more, strings.Join(c.Via, ","))
	}
	if c.OpenEnded {
		more = append(more, "open")
	}
	if c.Stdin != "" {
		more = append(more, "stdin="+c.Stdin)
	}
	if c.Dir != "" {
		more = append(more, "dir="+c.Dir)
	}
	if c.DirUnknown {
		more = append(more, "dir?")
	}
	if len(more) > 0 {
		add("[" + strings.Join(more, "; ") + "]")
	}
	return b.String()
}

func sketchWord(w shell.Word) string {
	s := w.Value
	if s == "" || strings.ContainsAny(s, " \t\n\"'\\[]:") || strconv.Quote(s) != `"`+s+`"` {
		s = strconv.Quote(s)
	}
	if w.Tilde {
		s = "~:" + s
	}
	switch w.Kind {
	case shell.Literal:
		return s
	case shell.Glob:
		return "g:" + s
	case shell.Parameter:
		if w.Quoted {
			return "P:" + s
		}
		return "p:" + s
	case shell.Dynamic:
		return "d:" + s
	}
	return "no kind:" + s
}

func sketches(f shell.Facts) []string {
	var out []string
	for _, c := range f.Commands {
		out = append(out, sketch(c))
	}
	return out
}

// kinds are the kinds of the problems, each once.
func kinds(f shell.Facts) string {
	var out []string
	for _, p := range f.Problems {
		if len(out) == 0 || out[len(out)-1] != p.Kind {
			out = append(out, p.Kind)
		}
	}
	return strings.Join(out, " ")
}
