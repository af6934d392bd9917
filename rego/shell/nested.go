package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// nested lists the commands that stand inside a word.
func (r *reader) nested(x *syntax.Word, sc scope, at *place) {
	if x == nil {
		return
	}
	if r.dialect == Zsh && !balanced(x.Parts) {
		r.problemAt("construct", x, sc, "a brace that may end a block")
	}
	r.nestedParts(x.Parts, false, sc, at)
}

// balanced reports whether no unquoted } in parts is without its {.
func balanced(parts []syntax.WordPart) bool {
	depth := 0
	for _, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			continue
		}
		for i := 0; i < len(l.Value); i++ {
			switch l.Value[i] {
			case '\\':
				i++
			case '{':
				depth++
			case '}':
				if depth--; depth < 0 {
					return false
				}
			}
		}
	}
	return true
}

func (r *reader) nestedParts(parts []syntax.WordPart, quoted bool, sc scope, at *place) {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if r.dialect != Bash {
				r.dollar(p, parts[i+1:], quoted, sc)
			}
			if r.dialect == Zsh && !quoted && holds(p.Value, '(') {
				r.problemAt("construct", p, sc, "a zsh glob with parentheses, whose qualifiers may run code")
			}
		case *syntax.SglQuoted:
		case *syntax.DblQuoted:
			r.nestedParts(p.Parts, true, sc, at)
		case *syntax.CmdSubst:
			if p.TempFile || p.ReplyVar {
				r.inside(p.Stmts, sc.in("substitution"), at)
				continue
			}
			if p.Backquotes && quoted && r.dialect == POSIX && strings.Contains(r.source(p), `\"`) {
				r.problemAt("construct", p, sc, "quotes in backquotes that not every sh reads the same way")
			}
			heredocs, semicolons := r.heredocs, r.semicolons
			r.apart(p.Stmts, sc.in("substitution"), *at)
			if !p.Backquotes && r.heredocs > heredocs && r.semicolons > semicolons {
				// bash 5.2 loses the semicolons, and with them where one
				// command ends and the next begins.
				r.problemAt("construct", p, sc, "a heredoc and a semicolon in one substitution")
			}
		case *syntax.ProcSubst:
			in := sc.in("process_substitution")
			if p.Op == syntax.CmdOut {
				in.stdin, in.input = "pipe", Word{}
			}
			r.apart(p.Stmts, in, *at)
		case *syntax.ParamExp:
			r.param(p, quoted, sc, at)
		case *syntax.ArithmExp:
			r.arithmetic(p.X, sc, at)
		case *syntax.ExtGlob:
			if strings.ContainsAny(p.Pattern.Value, "$`'\"\\<>;&\n") {
				r.problemAt("construct", p, sc, "an extended glob with more than a pattern in it")
			}
		default:
			r.problemAt("construct", p, sc, "a form that is not known")
		}
	}
}

// dollar looks at a dollar that is plain text in the grammar of sh and zsh, but
// starts arithmetic or quotes in some shell of that name.
func (r *reader) dollar(l *syntax.Lit, next []syntax.WordPart, quoted bool, sc scope) {
	bracket, quote := strings.Contains(l.Value, "$["), false
	if strings.HasSuffix(l.Value, "$") && len(next) > 0 {
		switch n := next[0].(type) {
		case *syntax.Lit:
			bracket = bracket || strings.HasPrefix(n.Value, "[")
		case *syntax.SglQuoted:
			quote = r.dialect == POSIX && !quoted
		}
	}
	if bracket || quote {
		r.problemAt("construct", l, sc, "a dollar that means different things to different shells")
	}
}

// heredoc lists the commands in the body of a heredoc, which is read as if it
// stood in double quotes.
func (r *reader) heredoc(x *syntax.Redirect, sc scope, at *place) {
	if x.Hdoc == nil {
		return
	}
	if quotedDelimiter(x.Word) {
		if end := r.word(x.Word.Parts, value).Value; !plain(end) {
			// bash 5.2 loses the quotes of some in a substitution.
			r.problemAt("construct", x, sc, "a heredoc with an odd delimiter")
		}
	} else {
		// The shell joins lines before it looks for the end, and in quotes too.
		if src := r.source(x.Hdoc); strings.Contains(src, "\\\n") {
			end := strings.ReplaceAll(r.source(x.Word), "\\\n", "")
			lines := strings.Split(strings.ReplaceAll(src, "\\\n", ""), "\n")
			// The source ends with the line that ends the body.
			lines = lines[:len(lines)-1]
			if strings.ContainsAny(src, "$`") || slices.ContainsFunc(lines, func(l string) bool { return strings.TrimLeft(l, "\t") == end }) {
				r.problemAt("construct", x, sc, "a heredoc with lines that go on")
			}
		}
	}
	r.nestedParts(x.Hdoc.Parts, true, sc.in("heredoc"), at)
}

// quotedDelimiter reports whether the word behind << keeps the body as it is.
func quotedDelimiter(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); !ok || strings.IndexByte(l.Value, '\\') >= 0 {
			return true
		}
	}
	return false
}

// holds reports whether s has the byte without a backslash before it.
func holds(s string, c byte) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case c:
			return true
		}
	}
	return false
}

func (r *reader) param(p *syntax.ParamExp, quoted bool, sc scope, at *place) {
	if plainParam(p) {
		return
	}
	sc = sc.in("")
	if r.tooDeep(sc) {
		return
	}
	if p.Flags != nil || p.NestedParam != nil {
		r.problemAt("construct", p, sc, "an expansion with zsh flags")
	}
	if p.NestedParam != nil {
		r.nestedParts([]syntax.WordPart{p.NestedParam}, quoted, sc, at)
	}
	for _, m := range p.Modifiers {
		if strings.ContainsAny(m.Value, "$`") {
			r.problemAt("construct", p, sc, "an expansion with zsh modifiers")
		}
	}
	if p.Index != nil {
		r.arithmetic(p.Index, sc, at)
	}
	if p.Slice != nil {
		r.arithmetic(p.Slice.Offset, sc, at)
		r.arithmetic(p.Slice.Length, sc, at)
	}
	var inner []*syntax.Word
	if p.Repl != nil {
		inner = append(inner, p.Repl.Orig, p.Repl.With)
	}
	if p.Exp != nil {
		inner = append(inner, p.Exp.Word)
	}
	for _, w := range inner {
		if w == nil {
			continue
		}
		if quoted && hasSingleQuotes(w.Parts) {
			// Inside double quotes shells disagree with the grammar on whether
			// single quotes quote.
			r.problemAt("construct", p, sc, "single quotes in an expansion in double quotes")
		}
		r.nestedParts(w.Parts, quoted, sc, at)
	}
}

func hasSingleQuotes(parts []syntax.WordPart) bool {
	for _, p := range parts {
		if _, ok := p.(*syntax.SglQuoted); ok {
			return true
		}
	}
	return false
}

func (r *reader) nestedAssign(a *syntax.Assign, sc scope, at *place) {
	if a.Index != nil {
		r.arithmetic(a.Index, sc, at)
	}
	r.nested(a.Value, sc, at)
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				r.arithmetic(e.Index, sc, at)
			}
			r.nested(e.Value, sc, at)
		}
	}
}

// arithmetic lists the commands inside an arithmetic expression.
func (r *reader) arithmetic(x syntax.ArithmExpr, sc scope, at *place) {
	for x != nil {
		sc = sc.in("")
		if r.tooDeep(sc) {
			return
		}
		switch e := x.(type) {
		case *syntax.Word:
			if hasSingleQuotes(e.Parts) && !r.letting {
				// They are no quotes here, to most shells.
				r.problemAt("construct", e, sc, "single quotes in arithmetic")
			}
			r.nested(e, sc, at)
			return
		case *syntax.BinaryArithm:
			r.arithmetic(e.X, sc, at)
			x = e.Y
		case *syntax.UnaryArithm:
			x = e.X
		case *syntax.ParenArithm:
			x = e.X
		case *syntax.FlagsArithm:
			r.problemAt("construct", e, sc, "a subscript with zsh flags")
			x = e.X
		default:
			r.problemAt("construct", x, sc, "a form that is not known")
			return
		}
	}
}

// arithmWord is an expression as one word: Literal when it is numbers and
// operators, Parameter when it also names variables, else Dynamic.
func (r *reader) arithmWord(x syntax.ArithmExpr) Word {
	if x == nil {
		return Word{Kind: Literal}
	}
	return Word{Value: r.source(x), Kind: arithmKind(x, 0), Quoted: true}
}

func arithmKind(x syntax.ArithmExpr, depth int) WordKind {
	if depth > MaxDepth {
		return Dynamic
	}
	switch e := x.(type) {
	case *syntax.Word:
		kind := Literal
		for _, p := range e.Parts {
			switch p := p.(type) {
			case *syntax.Lit:
				if strings.Trim(p.Value, "0123456789") == "" {
					continue
				}
				if !syntax.ValidName(p.Value) {
					return Dynamic
				}
				kind = Parameter
			case *syntax.ParamExp:
				if !plainParam(p) {
					return Dynamic
				}
				kind = Parameter
			default:
				return Dynamic
			}
		}
		return kind
	case *syntax.BinaryArithm:
		return worse(arithmKind(e.X, depth+1), arithmKind(e.Y, depth+1))
	case *syntax.UnaryArithm:
		return arithmKind(e.X, depth+1)
	case *syntax.ParenArithm:
		return arithmKind(e.X, depth+1)
	case nil:
		return Literal
	}
	return Dynamic
}

// worse is the kind that tells less.
func worse(a, b WordKind) WordKind {
	for _, k := range []WordKind{Dynamic, Parameter, Glob} {
		if a == k || b == k {
			return k
		}
	}
	return Literal
}

// test lists the commands inside a [[ ]] expression.
func (r *reader) test(x syntax.TestExpr, sc scope, at *place) {
	for x != nil {
		sc = sc.in("")
		if r.tooDeep(sc) {
			return
		}
		switch e := x.(type) {
		case *syntax.Word:
			r.nested(e, sc, at)
			return
		case *syntax.BinaryTest:
			r.test(e.X, sc, at)
			x = e.Y
		case *syntax.UnaryTest:
			x = e.X
		case *syntax.ParenTest:
			x = e.X
		default:
			r.problemAt("construct", x, sc, "a form that is not known")
			return
		}
	}
}

// testWords is a [[ ]] expression as words, in the order of the source.
func (r *reader) testWords(dst []Word, x syntax.TestExpr, depth int) []Word {
	op := func(s string) { dst = append(dst, Word{Value: s, Kind: Literal}) }
	if depth > MaxDepth || len(dst) > MaxWords {
		return append(dst, Word{Kind: Dynamic})
	}
	switch e := x.(type) {
	case *syntax.Word:
		dst = append(dst, r.word(e.Parts, value))
	case *syntax.BinaryTest:
		dst = r.testWords(dst, e.X, depth+1)
		op(e.Op.String())
		at := len(dst)
		dst = r.testWords(dst, e.Y, depth+1)
		switch e.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			evaluated(dst[at-2 : at-1])
			evaluated(dst[at:])
		}
	case *syntax.UnaryTest:
		op(e.Op.String())
		at := len(dst)
		dst = r.testWords(dst, e.X, depth+1)
		if e.Op == syntax.TsVarSet || e.Op == syntax.TsRefVar {
			evaluated(dst[at:])
		}
	case *syntax.ParenTest:
		op("(")
		dst = r.testWords(dst, e.X, depth+1)
		op(")")
	}
	return dst
}

// evaluated marks operands that the shell reads as an expression, whose
// subscripts may hold commands: only numbers and names are certain.
func evaluated(words []Word) {
	for i := range words {
		w := &words[i]
		switch {
		case w.Kind == Literal && (strings.Trim(w.Value, "-0123456789") == "" || syntax.ValidName(w.Value)):
		case w.Kind == Parameter && (w.Value == "$#" || w.Value == "$?" || w.Value == "$$" || w.Value == "$!"):
		default:
			w.Kind = Dynamic
		}
	}
}
