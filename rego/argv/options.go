package argv

import (
	"strings"

	"github.com/regent-policy/regent/rego/shell"
)

// given notes that option o is used, without its value.
func (s *scanner) given(o *option) {
	s.flag(o.name)
	s.use(o.use)
	if o.marks&supplants != 0 && len(s.operands) > 0 && len(s.spec.operands) > 0 && s.spec.operands[0].kind == kindReader {
		// Where options end at the first operand, that one is the script.
		s.problem("script of " + s.spec.name + " after an operand")
	}
	s.marks |= o.marks
	s.runs = s.runs || o.marks&opens != 0
}

// option reads w if it is an option, with its value. It is false for operands.
func (s *scanner) option(w shell.Word) bool {
	text := w.Value
	spec := s.spec
	switch spec.style {
	case styleExact:
		return s.exact(text)
	case styleGo:
		return s.goFlag(text)
	case styleKeys:
		return s.keyword(w)
	case styleBundle:
		if len(s.operands) == 0 && s.bundleFirst() && text != "" && text[0] != '-' {
			s.cluster("-"+text, true)
			return true
		}
	default:
	}
	if len(text) < 2 || text[0] != '-' {
		return false
	}
	if o := spec.options[text]; o != nil {
		s.given(o)
		if o.value == valueRequired {
			s.nextValue(o)
		}
		return true
	}
	if text[1] == '-' {
		s.long(text)
		return true
	}
	s.cluster(text, false)
	return true
}

// bundleFirst is true while the word at hand is the first of the command.
func (s *scanner) bundleFirst() bool {
	return len(s.words) == len(s.cmd.Words)-2
}

// nextValue takes the next word, or words, as the value of o.
func (s *scanner) nextValue(o *option) {
	for _, v := range o.values {
		if v.kind == kindCommand {
			s.inner()
			return
		}
		if len(s.words) == 0 {
			s.problem("option " + o.name + " of " + s.spec.name + " lacks its value")
			return
		}
		w := s.words[0]
		s.words = s.words[1:]
		if w.Kind == shell.Literal && !s.inertAnyway(w.Value) {
			s.problem("value of " + o.name + " looks like an option: " + w.Value)
		}
		s.optionValue(o, v, w)
	}
}

// inertAnyway is true for a value that would do no harm as an option. Programs of
// one name differ in what takes a value: -l of sed takes one in some systems, and
// elsewhere the next word is read for itself.
func (s *scanner) inertAnyway(text string) bool {
	if len(text) < 2 || text[0] != '-' || isDigit(text[1]) || s.spec.harmless || s.spec.loose {
		return true
	}
	switch s.spec.style {
	case styleExact, styleWords, styleKeys:
		return true
	default:
	}
	name, _, _ := strings.Cut(text, "=")
	if o := s.spec.options[name]; o != nil {
		return o.inert()
	}
	if text[1] == '-' {
		return false
	}
	for i := 1; i < len(text); i++ {
		o := s.spec.options[shortName(text[i])]
		if o == nil || !o.inert() {
			return false
		}
		if o.value != valueNone {
			return true
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// inert is true for an option that adds nothing whatever its value is.
func (o *option) inert() bool {
	if o.effects != 0 || o.marks&(rewrites|opens) != 0 {
		return false
	}
	for _, v := range o.values {
		if v.kind.writes() || v.kind == kindProgram || v.kind == kindReader {
			return false
		}
	}
	return true
}

// inner skips the words of a command inside an expression, up to ; or {} +. Without
// an expression they may also end with the words themselves (fd -x).
func (s *scanner) inner() {
	for i, w := range s.words {
		if w.Kind != shell.Literal {
			continue
		}
		if w.Value == ";" || w.Value == "+" && i > 0 && s.words[i-1].Value == "{}" {
			s.words = s.words[i+1:]
			return
		}
	}
	if s.spec.style == styleExact {
		s.problem("command without its end")
	}
	s.words = nil
}

// optionValue judges w as a value of o.
func (s *scanner) optionValue(o *option, v param, w shell.Word) {
	switch w.Kind {
	case shell.Literal:
	case shell.Glob:
		// Several matches turn all but the first into operands or options.
		if !s.globKeeps(w.Value) {
			s.problem("pattern may match a file named like an option of " + s.spec.name + ": " + w.Value)
		}
	case shell.Parameter:
		isText := v.kind == kindText || v.kind == kindNumber
		if !isText && !(v.kind.isPath() && isKnownFolder(w)) || isText && !w.Quoted && !s.wordsDoNoHarm(s.spec.operands) {
			s.problem("value of " + o.name + " cannot be told: " + w.Value)
		}
	default:
		s.problem("word cannot be told: " + w.Value)
	}
	s.value(v, w)
}

// glued judges the part of a literal word that is the value of o.
func (s *scanner) glued(o *option, value string) {
	if len(o.values) != 1 {
		s.problem("option " + o.name + " of " + s.spec.name + " takes two words")
		return
	}
	s.value(o.values[0], shell.Word{Value: value, Kind: shell.Literal})
}

// optionWithOpenValue reads a word that starts with the literal spelling of a
// listed option and a value that is not literal, such as --include=*.go.
func (s *scanner) optionWithOpenValue(w shell.Word) bool {
	name, value, ok := strings.Cut(w.Value, "=")
	if !ok || !strings.HasPrefix(name, "--") || strings.ContainsAny(name, "*?[$`") || value == "" {
		return false
	}
	o := s.spec.options[name]
	if o == nil || len(o.values) != 1 {
		return false
	}
	v := o.values[0]
	s.given(o)
	part := shell.Word{Value: value, Kind: w.Kind, Quoted: w.Quoted}
	if w.Kind == shell.Glob {
		// Every match starts with the option itself.
		if v.kind.isPath() || v.kind == kindReader {
			s.problem("value of " + name + " cannot be told: " + value)
		}
		s.value(v, part)
		return true
	}
	s.optionValue(o, v, part)
	return true
}

// long reads --name or --name=value that is not listed as it stands.
func (s *scanner) long(text string) {
	name, value, hasValue := strings.Cut(text, "=")
	if o := s.spec.options[name]; o != nil && hasValue {
		s.given(o)
		if o.value == valueNone {
			s.problem("option " + name + " of " + s.spec.name + " takes no value")
			return
		}
		s.glued(o, value)
		return
	}
	s.flag(name)
	abbreviated := false
	for full, o := range s.spec.options {
		if strings.HasPrefix(full, name) {
			abbreviated = true
			s.given(o)
			if hasValue && o.value != valueNone {
				s.glued(o, value)
			}
		}
	}
	switch {
	case abbreviated:
		s.problem("abbreviated option " + name + " of " + s.spec.name)
	default:
		s.notListed(name)
	}
}

// notListed notes an option that the table does not have.
func (s *scanner) notListed(name string) {
	if s.spec.loose {
		s.unlisted = name
		return
	}
	s.problem("unlisted option " + name + " of " + s.spec.name)
}

// cluster reads one or more letters after a dash.
func (s *scanner) cluster(text string, bundle bool) {
	spec := s.spec
	for i := 1; i < len(text); i++ {
		c := text[i]
		if spec.numeric && isDigit(c) {
			continue
		}
		o := spec.options[shortName(c)]
		if o == nil || c >= 128 {
			if i == 1 || !spec.loose {
				s.genericFlag(text)
			} else {
				s.flag(shortName(c))
			}
			s.notListed(shortName(c))
			return
		}
		s.given(o)
		rest := text[i+1:]
		switch o.value {
		case valueNone:
		case valueOptional:
			if rest != "" {
				s.glued(o, rest)
			}
			return
		case valueRequired:
			if rest != "" && !bundle {
				s.glued(o, rest)
				return
			}
			s.nextValue(o)
			if !bundle {
				return
			}
		}
	}
}

// exact reads w where options are whole words.
func (s *scanner) exact(text string) bool {
	if o := s.spec.options[text]; o != nil {
		s.given(o)
		if o.value == valueRequired {
			s.nextValue(o)
		}
		return true
	}
	if len(text) < 2 || text[0] != '-' {
		return false
	}
	if name, value, ok := strings.Cut(text, "="); ok {
		if o := s.spec.options[name]; o != nil && o.value != valueNone {
			s.given(o)
			s.glued(o, value)
			return true
		}
	}
	s.genericFlag(text)
	s.notListed(text)
	return true
}

// goFlag reads a flag of Go's flag package. The table lists it with one dash.
func (s *scanner) goFlag(text string) bool {
	if len(text) < 2 || text[0] != '-' {
		return false
	}
	name, value, hasValue := strings.Cut(text, "=")
	if strings.HasPrefix(name, "--") {
		name = name[1:]
	}
	o := s.spec.options[name]
	if o == nil {
		s.flag(name)
		s.notListed(name)
		return true
	}
	s.given(o)
	switch {
	case hasValue && o.value != valueNone:
		s.glued(o, value)
	case hasValue:
		// A boolean flag: -x=false switches it off, which adds nothing.
	case o.value == valueRequired:
		s.nextValue(o)
	}
	return true
}

// keyword reads key=value.
func (s *scanner) keyword(w shell.Word) bool {
	name, value, ok := strings.Cut(w.Value, "=")
	if !ok {
		return false
	}
	o := s.spec.options[name]
	if o == nil {
		s.flag(name)
		s.notListed(name)
		return true
	}
	s.given(o)
	s.glued(o, value)
	return true
}
