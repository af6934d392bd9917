package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wordUse says which expansions the shell makes in a word at its place.
type wordUse uint8

const (
	// argument: brace, tilde and every other expansion, splitting, globbing.
	argument wordUse = iota
	// target: the file of a redirection, which never becomes several words.
	target
	// value: the right side of an assignment; no braces, splitting or globs.
	value
)

// words appends what x becomes: usually one word, several where it holds a
// literal brace expansion.
func (r *reader) words(dst []Word, x *syntax.Word, use wordUse) []Word {
	if x == nil || len(x.Parts) == 0 {
		return dst
	}
	if len(x.Parts) == 1 {
		switch p := x.Parts[0].(type) {
		case *syntax.Lit:
			if plain(p.Value) {
				return append(dst, Word{Value: p.Value, Kind: Literal})
			}
		case *syntax.SglQuoted:
			if !p.Dollar {
				return append(dst, Word{Value: p.Value, Kind: Literal, Quoted: true})
			}
		}
	}
	if use == value || !mayBrace(x) {
		return append(dst, r.word(x.Parts, use))
	}
	variants, ok := r.braces(x)
	switch {
	case !ok, r.dialect == POSIX && variants != nil, use == target && len(variants) > 1:
		// The expansion is too large or differs between the shells that go by
		// the name sh; a redirection to several files is an error in bash.
		w := r.word(x.Parts, use)
		w.Kind = Dynamic
		return append(dst, w)
	case variants == nil:
		return append(dst, r.word(x.Parts, use))
	}
	for _, parts := range variants {
		w := r.word(parts, use)
		if w.Value == "" && !w.Quoted && w.Kind == Literal && r.dialect != Zsh {
			continue // bash drops an empty word that nothing quotes
		}
		dst = append(dst, w)
	}
	return dst
}

// plain reports whether an unquoted literal means itself everywhere.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == '/', c == ':', c == ',', c == '+', c == '@', c == '%':
		default:
			return false
		}
	}
	return s != ""
}

// wordBuilder gathers the value of one word and what is known about it.
type wordBuilder struct {
	r    *reader
	use  wordUse
	buf  []byte
	kind WordKind
	// quoted: any part was; split: an expansion stands outside quotes, or is
	// "$@", so that the word may become none or several.
	quoted, split bool
	// open: an unquoted [ waits for its ].
	open  bool
	glob  bool
	tilde bool
	// start: nothing has been added yet.
	start bool
	// assigns: an argument that looks like NAME=value, as to dd and make.
	assigns bool
	// tildeNext: an unquoted tilde at this place would be expanded.
	tildeNext bool
}

func (r *reader) word(parts []syntax.WordPart, use wordUse) Word {
	b := wordBuilder{r: r, use: use, buf: r.buf[:0], kind: Literal, start: true}
	for i, p := range parts {
		b.part(p, parts, i)
	}
	r.buf = b.buf
	w := Word{Value: string(b.buf), Kind: b.kind, Tilde: b.tilde, Quoted: b.quoted}
	if b.glob && use != value {
		switch w.Kind {
		case Literal:
			w.Kind = Glob
		case Parameter:
			w.Kind = Dynamic
		}
	}
	if w.Kind == Parameter {
		w.Quoted = !b.split
	}
	return w
}

func (b *wordBuilder) part(p syntax.WordPart, parts []syntax.WordPart, i int) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.lit(p.Value, i == len(parts)-1)
		if b.r.dialect == Zsh && zshDollar(p.Value, i == len(parts)-1) {
			b.kind = Dynamic
		}
		if b.r.dialect == POSIX && i+1 < len(parts) && strings.HasSuffix(p.Value, "$") {
			switch parts[i+1].(type) {
			case *syntax.SglQuoted, *syntax.DblQuoted:
				// $'..' and $".." are quotes in some shells that go by the name
				// sh, and a dollar before quotes in others.
				b.kind = Dynamic
			}
		}
	case *syntax.SglQuoted:
		b.quoted, b.tildeNext = true, false
		if !p.Dollar {
			b.buf = append(b.buf, p.Value...)
			break
		}
		s, ok := ansiC(p.Value)
		b.buf = append(b.buf, s...)
		if !ok {
			b.kind = Dynamic
		}
	case *syntax.DblQuoted:
		b.quoted, b.tildeNext = true, false
		if p.Dollar {
			// A translated string: a message catalogue may replace it.
			b.kind = Dynamic
		}
		for j, q := range p.Parts {
			if l, ok := q.(*syntax.Lit); ok {
				if b.r.dialect == Zsh && zshDollar(l.Value, j == len(p.Parts)-1) {
					b.kind = Dynamic
				}
				if strings.Contains(l.Value, "$[") || l.Value != "" && l.Value[0] == '[' && endsIn(b.buf, '$') {
					b.kind = Dynamic // $[1+2], which not every grammar knows
				}
				b.buf = unescapeQuoted(b.buf, l.Value, "$`\"\\")
				continue
			}
			b.expansion(q, true)
		}
	default:
		b.expansion(p, false)
	}
	b.start = false
}

// lit adds an unquoted literal.
func (b *wordBuilder) lit(s string, last bool) {
	if b.start {
		b.leadingTilde(s, last)
		if b.r.dialect == Zsh && len(s) > 1 && s[0] == '=' && b.use == argument {
			b.kind = Dynamic // =name is the path of a program
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch c {
		case '\\':
			if i++; i == len(s) {
				// The last byte of the text: kept by some shells.
				b.buf = append(b.buf, '\\')
				b.kind = Dynamic
				continue
			}
			if s[i] == '\n' {
				continue // a line that goes on
			}
			b.quoted, b.tildeNext = true, false
			b.buf = append(b.buf, s[i])
			continue
		case '*', '?':
			b.glob = true
		case '[':
			b.open = true
			if endsIn(b.buf, '$') {
				b.kind = Dynamic // $[1+2], which not every grammar knows
			}
		case ']':
			if b.open {
				b.glob = true
			}
		case '~':
			if b.tildeNext {
				b.kind = Dynamic // a home folder in the middle of a value
			}
		case '(', ')', '|', '<', '>':
			if b.r.dialect == Zsh {
				// A glob qualifier or an alternation; a qualifier may run code.
				b.glob, b.kind = true, Dynamic
			}
		case '^', '#':
			if b.r.dialect == Zsh {
				b.glob = true
			}
		}
		b.buf = append(b.buf, c)
		if c == '=' && b.use == argument && !b.assigns {
			b.assigns = syntax.ValidName(strings.TrimSuffix(string(b.buf[:len(b.buf)-1]), "+"))
			b.tildeNext = b.assigns
			continue
		}
		b.tildeNext = c == ':' && (b.use == value || b.assigns)
	}
}

// leadingTilde looks at a ~ at the start of a word.
func (b *wordBuilder) leadingTilde(s string, last bool) {
	if s == "" || s[0] != '~' {
		return
	}
	end := strings.IndexAny(s, "/:")
	if end < 0 || (s[end] == ':' && b.use != value) {
		if end = len(s); !last {
			// The name of the user goes on in the next part of the word: a
			// quoted one makes the tilde literal, any other cannot be told.
			b.kind = Dynamic
			return
		}
	}
	if end == 1 {
		b.tilde = true
		return
	}
	b.kind = Dynamic // another user's home, ~+ or ~-
}

// expansion adds anything that the shell replaces.
func (b *wordBuilder) expansion(p syntax.WordPart, quoted bool) {
	b.buf = append(b.buf, b.r.source(p)...)
	b.tildeNext = false
	if !quoted {
		b.split = true
	}
	pe, ok := p.(*syntax.ParamExp)
	if !ok || !plainParam(pe) {
		b.kind = Dynamic
		return
	}
	if pe.Param.Value == "@" {
		b.split = true
	}
	if b.kind == Literal {
		b.kind = Parameter
	}
}

// plainParam reports whether p is $name or ${name} and nothing more.
func plainParam(p *syntax.ParamExp) bool {
	return p.Param != nil && p.Param.Value != "" && p.Flags == nil &&
		!p.Excl && !p.Length && !p.Width && !p.IsSet &&
		p.Split == syntax.OptUnset && p.GlobSubst == syntax.OptUnset && p.RcExpand == syntax.OptUnset &&
		p.NestedParam == nil && p.Index == nil && len(p.Modifiers) == 0 &&
		p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// zshDollar reports whether s holds a dollar that zsh may take for the start of
// an expansion which the grammar does not know, such as $=name.
func zshDollar(s string, last bool) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '$':
			if i+1 == len(s) && !last || i+1 < len(s) && strings.IndexByte(" \t\n/|).,;", s[i+1]) < 0 {
				return true
			}
		}
	}
	return false
}

func endsIn(b []byte, c byte) bool { return len(b) > 0 && b[len(b)-1] == c }

// unescapeQuoted appends s with the backslash taken from before the bytes that
// it escapes; elsewhere it stays, as in double quotes and heredocs.
func unescapeQuoted(dst []byte, s, escapes string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(escapes, s[i+1]) >= 0 {
				i++
			}
		}
		dst = append(dst, s[i])
	}
	return dst
}

// source is the text of n as it is written.
func (r *reader) source(n syntax.Node) string {
	return r.slice(n.Pos(), n.End())
}

func (r *reader) slice(from, to syntax.Pos) string {
	if !from.IsValid() || !to.IsValid() {
		return ""
	}
	i, j := int(from.Offset()), min(int(to.Offset()), len(r.src))
	if i >= j {
		return ""
	}
	return r.src[i:j]
}
