package shell

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// statements parses r.src. What cannot be parsed is a problem, and its text is
// returned with the offset where it starts, for a coarser look.
func (r *reader) statements(sc scope) (stmts []*syntax.Stmt, rest string, offset int) {
	if strings.Contains(r.src, "\\\n") {
		if joinsOperators(r.src) {
			line, col := r.lineCol(syntax.Pos{}, sc)
			r.problem("construct", line, col, "a line that ends in the middle of an operator")
		}
	}
	r.comments(sc)
	stmts, err := r.parse(r.dialect)
	if err == nil {
		return stmts, "", 0
	}
	if r.dialect == POSIX && !errors.Is(err, errDeep) {
		// The program called sh is bash on some machines.
		if more, err2 := r.parse(Bash); err2 == nil {
			var lang syntax.LangError
			if errors.As(err, &lang) {
				line, col := r.lineCol(lang.Pos, sc)
				r.problem("construct", line, col, clip(lang.Feature)+" are not known to every sh")
			} else {
				line, col := r.lineCol(syntax.Pos{}, sc)
				r.problem("construct", line, col, "a form that not every sh knows")
			}
			return more, "", 0
		}
	}
	r.syntaxProblem(err, sc)
	if more, ok := r.endHeredocs(err); ok {
		return more, "", 0
	}
	if n := len(stmts); n > 0 {
		if end := stmts[n-1].End(); end.IsValid() {
			offset = min(int(end.Offset()), len(r.src))
		}
	}
	return stmts, r.src[offset:], offset
}

// maxRepairs is how often a text is read again because of what its comments hid.
const maxRepairs = 8

// comments repairs two things that the grammar gets wrong, each of which would
// hide a command. To a shell a comment ends with its line even behind a
// backslash; the grammar would go on with the next line. And a # that touches
// the quote or expansion before it is no comment; in a substitution the grammar
// takes it for one.
func (r *reader) comments(sc scope) {
	goesOn := strings.Contains(r.src, "\\\n") && commentsGoOn(r.src)
	if !goesOn && !touches(r.src) {
		return
	}
	p := syntax.NewParser(syntax.Variant(variants[r.dialect]), syntax.KeepComments(true))
	src := r.src
	for range maxRepairs {
		file, _ := p.Parse(&feed{text: src}, "")
		if file == nil {
			break
		}
		fixed := []byte(src)
		var escape []int
		syntax.Walk(file, func(n syntax.Node) bool {
			c, ok := n.(*syntax.Comment)
			if !ok {
				return true
			}
			from := int(c.Hash.Offset())
			if from < len(src) && src[from] == '#' && !starts(before(src, from)) {
				r.problemAt("construct", c, sc, "a # that touches the word before it")
				escape = append(escape, from)
				return true
			}
			if end := from + len(c.Text) - 1; strings.HasSuffix(c.Text, "\\\n") && strings.HasPrefix(src[min(end, len(src)):], "\\\n") {
				fixed[end] = ' '
			}
			return true
		})
		slices.Sort(escape)
		for _, at := range slices.Backward(escape) {
			fixed = slices.Insert(fixed, at, '\\')
		}
		if string(fixed) == src {
			break
		}
		src = string(fixed)
	}
	r.src = src
	if goesOn && commentsGoOn(r.src) {
		line, col := r.lineCol(syntax.Pos{}, sc)
		r.problem("construct", line, col, "a line with a # ends in a backslash")
	}
}

// starts reports whether a # behind c certainly begins a comment. Behind ) and a
// backquote it does so only if those are no part of a word.
func starts(c byte) bool { return strings.IndexByte(" \t\r\n;&|(<>", c) >= 0 }

// before is the byte in front of src[i] once lines that go on are joined.
func before(src string, i int) byte {
	for strings.HasSuffix(src[:i], "\\\n") {
		i -= 2
	}
	if i == 0 {
		return '\n'
	}
	return src[i-1]
}

// touches reports whether src holds a # that is not at the start of a word, nor
// in $# and ${#name}.
func touches(src string) bool {
	for i := range len(src) {
		if src[i] != '#' {
			continue
		}
		if c := before(src, i); !starts(c) && c != '$' && c != '{' {
			return true
		}
	}
	return false
}

// joinsOperators reports whether a line that goes on is cut inside an operator.
// The shell joins the two halves; the grammar takes them for two tokens.
func joinsOperators(src string) bool {
	for i := 1; ; {
		n := strings.Index(src[i:], "\\\n")
		if n < 0 {
			return false
		}
		i += n
		before, after := src[i-1], byte(0)
		if i+2 < len(src) {
			after = src[i+2]
		}
		switch {
		case before == '$',
			strings.IndexByte("<>&|;=@!?*+(", before) >= 0 && strings.IndexByte("(&|<>;!-\\", after) >= 0,
			'0' <= before && before <= '9' && (after == '<' || after == '>'):
			return true
		}
		if i += 2; i >= len(src) {
			return false
		}
	}
}

// commentsGoOn reports whether a line may hold a comment and ends in a backslash.
func commentsGoOn(src string) bool {
	for {
		end := strings.Index(src, "\\\n")
		if end < 0 {
			return false
		}
		line := src[strings.LastIndexByte(src[:end], '\n')+1 : end]
		for i := range len(line) {
			if line[i] == '#' && (i == 0 || starts(line[i-1]) || line[i-1] == ')' || line[i-1] == '`') {
				return true
			}
		}
		src = src[end+2:]
	}
}

// endHeredocs closes heredocs that the end of the text closes: shells warn
// about those, and run the commands.
func (r *reader) endHeredocs(err error) ([]*syntax.Stmt, bool) {
	for range 4 {
		var parse syntax.ParseError
		if !errors.As(err, &parse) || !strings.Contains(parse.Text, "here-document") {
			return nil, false
		}
		from := int(parse.Pos.Offset())
		if from >= len(r.src) {
			return nil, false
		}
		_, word, ok := strings.Cut(r.src[from:], "<<")
		if !ok {
			return nil, false
		}
		word = strings.TrimLeft(strings.TrimPrefix(word, "-"), " \t")
		if i := strings.IndexAny(word, " \t\n;&|<>()"); i >= 0 {
			word = word[:i]
		}
		word = strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(word)
		if word == "" || len(r.src) > 2*MaxText {
			return nil, false
		}
		r.src += "\n" + word + "\n"
		var stmts []*syntax.Stmt
		if stmts, err = r.parse(r.dialect); err == nil {
			return stmts, true
		}
	}
	return nil, false
}

// reserved are words that stand before a command without being part of it.
var reserved = []string{
	"!", "{", "}", "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "for", "case", "esac", "time", "function", "repeat", "foreach", "end",
}

const maxPieces = MaxCommands

// salvage lists what may be commands in a text that does not parse, so that a
// rule that denies one of them still finds it. It errs on the side of too many.
func (r *reader) salvage(rest string, offset int, sc scope) {
	sc = sc.in("unparsed")
	if r.tooDeep(sc) {
		return
	}
	src, lost := r.src, place{unknown: true, beforeUnknown: true, moved: true}
	for n := 0; rest != "" && !r.full; n++ {
		if n == maxPieces {
			r.problem("limit", max(sc.at.line, 1), max(sc.at.col, 1), "too much text that does not parse")
			return
		}
		piece := rest
		end := strings.IndexAny(rest, ";&|\n(){}`")
		if end >= 0 {
			piece, rest = rest[:end], rest[end+1:]
		} else {
			rest = ""
		}
		start := offset
		offset += len(piece) + 1
		if end >= 0 && rest != "" {
			// The first half of $(, ${, <( and >(.
			piece = strings.TrimRight(piece, "$<>")
		}
		words := strings.Fields(piece)
		for len(words) > 0 && (slices.Contains(reserved, words[0]) || strings.Trim(words[0], `'"`) == "") {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		in := sc
		if in.at.line == 0 {
			start += strings.Index(piece, words[0])
			in.at.line, in.at.col = r.offsetPlace(start, sc)
		}
		r.src = strings.Join(words, " ")
		if stmts, err := r.parse(r.dialect); err == nil {
			r.stmts(stmts, in, &lost)
		} else {
			r.start(guessed(words), nil, in, &lost)
		}
		r.src = src
	}
}

// guessed are words of which only the plain ones are certain.
func guessed(fields []string) []Word {
	words := make([]Word, 0, len(fields))
	for _, f := range fields {
		w := Word{Value: f, Kind: Dynamic}
		if plain(f) {
			w.Kind = Literal
		}
		words = append(words, w)
	}
	return words
}
