package argv

import (
	"path"
	"strings"

	"github.com/regent-policy/regent/rego/shell"
)

// match gives each operand its entry in pattern: entries that want one take it
// first, optional ones from the left, and the repeated one what is left.
func (s *scanner) match(pattern []operand) {
	need := 0
	for i := range pattern {
		if pattern[i].count == exactlyOne || pattern[i].count == any1 {
			need++
		}
	}
	extra := max(len(s.operands)-need, 0)
	at := 0
	for i := range pattern {
		o := &pattern[i]
		n := 0
		switch o.count {
		case exactlyOne:
			n = 1
		case oneOrNone:
			if extra > 0 {
				n, extra = 1, extra-1
			}
		case any0:
			n, extra = extra, 0
		case any1:
			n, extra = 1+extra, 0
		}
		for ; n > 0 && at < len(s.operands); n-- {
			w := s.operands[at]
			s.judge(o, pattern, w, s.ended >= 0 && at >= s.ended)
			at++
		}
	}
	if at < len(s.operands) {
		s.problem("more operands than " + s.spec.name + " is known to take: " + s.operands[at].Value)
		for ; at < len(s.operands); at++ {
			if s.operands[at].Kind == shell.Dynamic {
				s.problem("word cannot be told: " + s.operands[at].Value)
			}
		}
	}
}

// judge adds the facts of operand w, which is o of pattern. ended is true where it
// cannot turn into an option any more.
func (s *scanner) judge(o *operand, pattern []operand, w shell.Word, ended bool) {
	if s.marks&lists == 0 {
		s.use(o.use)
	}
	if o.kind == kindCommand || o.kind == kindAssign {
		s.command(o.kind, w)
		return
	}
	spec := s.spec
	if spec.responses && w.Value != "" && strings.IndexByte("@*?[", w.Value[0]) >= 0 {
		s.problem("operand of " + spec.name + " may hold more options: " + w.Value)
	}
	switch w.Kind {
	case shell.Literal:
	case shell.Glob:
		if !ended && !s.globKeeps(w.Value) {
			s.problem("pattern may match a file named like an option of " + spec.name + ": " + w.Value)
		}
		if !mayRepeat(pattern) {
			s.problem("pattern may be several operands of " + spec.name + ": " + w.Value)
		}
	case shell.Parameter:
		if s.fromInput(w) {
			s.placed(o.kind, w)
			return
		}
		isText := o.kind == kindText || o.kind == kindNumber || o.kind == kindReader && spec.openScript
		// The value may start with a dash, or be several words.
		if o.kind.isPath() && isKnownFolder(w) {
			break
		}
		becomes := !ended && spec.style != styleWords && (!w.Quoted || w.Value == "" || w.Value[0] == '$' || w.Value[0] == '-')
		switch {
		case !isText,
			becomes && !(spec.harmless && spec.pathless),
			!w.Quoted && !allText(pattern):
			s.problem("operand of " + spec.name + " cannot be told: " + w.Value)
		}
	default:
		if (o.kind == kindIn || o.kind == kindTree) && isSubstituted(w) {
			return
		}
		s.problem("word cannot be told: " + w.Value)
	}
	s.value(o.param, w)
}

// isSubstituted is true for a word that is a process substitution and nothing
// else: a pipe whose commands the facts list by themselves. Text with characters
// that could begin or end something else is not looked into.
func isSubstituted(w shell.Word) bool { return isSubstitution(w.Value, "<(") }

func isSubstitution(value, start string) bool {
	text, ok := strings.CutPrefix(value, start)
	if !ok {
		return false
	}
	text, ok = strings.CutSuffix(text, ")")
	return ok && !strings.ContainsAny(text, "()$`\\{}")
}

// placed judges an operand that comes from the input of the starter; whether such
// words may be options is for fed to say.
func (s *scanner) placed(k kind, w shell.Word) {
	s.filled = true
	switch {
	case k == kindReader || k == kindCommand || k == kindAssign:
		s.problem("operand of " + s.spec.name + " comes from input")
	case k.isPath():
		s.paths = append(s.paths, pathUse{k, Path{Word: w.Value, Kind: PathInput}})
	}
}

// mayRepeat is true where it does not matter how many operands there are.
func mayRepeat(pattern []operand) bool {
	repeated := false
	for i := range pattern {
		o := &pattern[i]
		if o.kind.writes() || o.effects != 0 {
			return false
		}
		repeated = repeated || o.count == any0 || o.count == any1
	}
	return repeated
}

// wordsDoNoHarm is true where more words than one, of any form, add nothing.
func (s *scanner) wordsDoNoHarm(pattern []operand) bool {
	return s.spec.harmless && s.spec.pathless && allText(pattern)
}

func allText(pattern []operand) bool {
	for i := range pattern {
		if k := pattern[i].kind; k != kindText && k != kindNumber && k != kindReader {
			return false
		}
	}
	return true
}

// command takes w as part of a command that the facts list by itself, or as an
// assignment before it.
func (s *scanner) command(k kind, w shell.Word) {
	switch {
	case s.marks&closes != 0:
		if w.Kind != shell.Literal {
			s.problem("operand of " + s.spec.name + " cannot be told: " + w.Value)
		}
	case k == kindAssign && !s.runs && strings.Contains(w.Value, "="):
		if w.Kind == shell.Dynamic {
			s.problem("word cannot be told: " + w.Value)
		}
	default:
		s.runs = s.runs || s.spec.opens
	}
}

// globKeeps is true where no file name that pattern matches can do harm as an
// option of the program.
func (s *scanner) globKeeps(pattern string) bool {
	if s.spec.harmless || pattern == "" {
		return true
	}
	switch pattern[0] {
	case '-':
		return false
	case '*', '?', '[':
	default:
		return true
	}
	if s.spec.style != styleExact || s.spec.loose {
		return s.spec.style == styleWords
	}
	// Options are whole words here, so those that the pattern matches are known.
	for name, o := range s.spec.options {
		if o.effects == 0 && o.marks&opens == 0 {
			continue
		}
		if ok, err := path.Match(pattern, name); ok || err != nil {
			return false
		}
	}
	return true
}

// openEnd adds the operands that the starter of the command takes from its input
// or puts in place of {}.
func (s *scanner) openEnd(pattern []operand) {
	if len(pattern) == 0 {
		s.problem("operands of " + s.spec.name + " come from input")
		return
	}
	switch last := &pattern[len(pattern)-1]; {
	case last.count == exactlyOne || last.count == oneOrNone,
		last.kind == kindReader, last.kind == kindCommand, last.kind == kindAssign:
		s.problem("operands of " + s.spec.name + " come from input")
	case last.kind.isPath():
		s.paths = append(s.paths, pathUse{last.kind, Path{Word: "{}", Kind: PathInput}})
	}
}
