package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxBraceWords is how many words one brace expansion may become before it is
// given up as unknown.
const maxBraceWords = 256

// maxBraceGroups is how many pairs of braces a word may hold before that.
const maxBraceGroups = 32

func mayBrace(x *syntax.Word) bool {
	for _, p := range x.Parts {
		if l, ok := p.(*syntax.Lit); ok && strings.IndexByte(l.Value, '{') >= 0 {
			return true
		}
	}
	return false
}

// braces expands the brace expressions of x. It returns nil when there are
// none, and false when the outcome is too large or cannot be told.
func (r *reader) braces(x *syntax.Word) ([][]syntax.WordPart, bool) {
	simple, lists := simpleBraces(x.Parts)
	if !simple || !lists {
		return nil, !lists
	}
	// SplitBraces rewrites the word it is given, whose source is still needed.
	split := &syntax.Word{Parts: append([]syntax.WordPart(nil), x.Parts...)}
	if !syntax.SplitBraces(split) || !hasBraces(split.Parts) {
		return nil, true
	}
	e := braceExpander{zsh: r.dialect == Zsh}
	out := e.expand(split.Parts)
	return out, !e.failed
}

// simpleBraces reports whether the shells agree on what the braces in parts
// mean: they are few and balanced, a sequence holds no braces of its own, and
// nothing in them can grow together with its neighbours to an expansion. It
// also reports whether there is a comma or a .. to expand at all.
func simpleBraces(parts []syntax.WordPart) (simple, lists bool) {
	simple = true
	depth, groups, comma, dots, mixed, nested := 0, 0, false, false, false, false
	outside := false // a comma or .. that is in braces if those are read otherwise
	for _, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			mixed = mixed || depth > 0
			continue
		}
		for i := 0; i < len(l.Value); i++ {
			switch l.Value[i] {
			case '\\':
				i++
			case '{':
				depth++
				groups++
				nested = nested || depth > 1
				if dots || groups > maxBraceGroups {
					simple = false
				}
			case '}':
				if depth--; depth < 0 {
					simple, depth = false, 0
				}
				if depth == 0 {
					if dots && (mixed || nested || !comma && !sequenceIn(l.Value[:i])) {
						simple = false
					}
					comma, dots, mixed, nested = false, false, false, false
				}
			case ',':
				comma = comma || depth > 0
				lists, outside = lists || depth > 0, true
			case '.':
				if strings.HasPrefix(l.Value[i:], "..") {
					dots, lists, outside = dots || depth > 0, lists || depth > 0, true
				}
			case '$', '`', '~':
				simple = false
			}
		}
	}
	simple = simple && depth == 0
	return simple, lists || !simple && outside
}

// sequenceIn reports whether s ends in the inside of {x..y} or {x..y..step}.
func sequenceIn(s string) bool {
	s = s[strings.LastIndexByte(s, '{')+1:]
	for n := range strings.SplitSeq(s, "..") {
		if _, err := strconv.Atoi(n); err != nil && !(len(n) == 1 && letter(n[0])) {
			return false
		}
	}
	return true
}

func hasBraces(parts []syntax.WordPart) bool {
	for _, p := range parts {
		if _, ok := p.(*syntax.BraceExp); ok {
			return true
		}
	}
	return false
}

type braceExpander struct {
	zsh    bool
	failed bool
}

// expand returns every variant of parts, in the order of the shell.
func (e *braceExpander) expand(parts []syntax.WordPart) [][]syntax.WordPart {
	variants := [][]syntax.WordPart{nil}
	for _, p := range parts {
		be, ok := p.(*syntax.BraceExp)
		if !ok {
			for i := range variants {
				variants[i] = append(variants[i], p)
			}
			continue
		}
		var choices [][]syntax.WordPart
		if be.Sequence {
			choices = e.sequence(be)
		} else {
			for _, w := range be.Elems {
				choices = append(choices, e.expand(w.Parts)...)
				if len(choices) > maxBraceWords {
					e.failed = true
				}
				if e.failed {
					return nil
				}
			}
		}
		if e.failed || len(variants)*len(choices) > maxBraceWords {
			e.failed = true
			return nil
		}
		next := make([][]syntax.WordPart, 0, len(variants)*len(choices))
		for _, v := range variants {
			for _, c := range choices {
				next = append(next, append(v[:len(v):len(v)], c...))
			}
		}
		variants = next
	}
	return variants
}

// sequence expands {x..y} and {x..y..step}.
func (e *braceExpander) sequence(be *syntax.BraceExp) [][]syntax.WordPart {
	fail := func() [][]syntax.WordPart { e.failed = true; return nil }
	if len(be.Elems) < 2 {
		return fail()
	}
	from, to := be.Elems[0].Lit(), be.Elems[1].Lit()
	step := 1
	if len(be.Elems) > 2 {
		// Shells differ in what a step of the wrong sign or a step between
		// letters does.
		n, err := strconv.Atoi(be.Elems[2].Lit())
		if err != nil || n <= 0 || e.zsh {
			return fail()
		}
		step = n
	}
	if len(from) == 1 && len(to) == 1 && letter(from[0]) && letter(to[0]) {
		if (from[0] >= 'a') != (to[0] >= 'a') || step != 1 {
			return fail() // runs over punctuation
		}
		return e.count(int(from[0]), int(to[0]), step, func(n int) string { return string(rune(n)) })
	}
	a, err := strconv.Atoi(from)
	if err != nil || a > 1<<30 || a < -1<<30 {
		return fail()
	}
	b, err := strconv.Atoi(to)
	if err != nil || b > 1<<30 || b < -1<<30 {
		return fail()
	}
	if padded(from) || padded(to) || from[0] == '+' || to[0] == '+' {
		if a < 0 || b < 0 || e.zsh || from[0] == '+' || to[0] == '+' {
			return fail()
		}
		width := max(len(from), len(to))
		return e.count(a, b, step, func(n int) string {
			s := strconv.Itoa(n)
			return strings.Repeat("0", max(0, width-len(s))) + s
		})
	}
	return e.count(a, b, step, strconv.Itoa)
}

func (e *braceExpander) count(from, to, step int, spell func(int) string) [][]syntax.WordPart {
	n := (to - from) / step
	if n < 0 {
		n, step = -n, -step
	}
	if n >= maxBraceWords {
		e.failed = true
		return nil
	}
	out := make([][]syntax.WordPart, 0, n+1)
	for i := range n + 1 {
		out = append(out, []syntax.WordPart{&syntax.Lit{Value: spell(from + i*step)}})
	}
	return out
}

func padded(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return len(s) > 1 && s[0] == '0'
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
