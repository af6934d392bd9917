package argv

import "strings"

// readSed reads a sed script and reports each command by its letter, the flags of
// s that do more as "s///e", and the files of r, R, w, W and s///w. Where
// implementations differ, more is taken as commands rather than less.
func readSed(text string) finding {
	p := sedParser{text: text}
	for p.problem == "" && p.command() {
	}
	return p.finding
}

type sedParser struct {
	finding
	text string
	at   int
}

func (p *sedParser) fail(problem string) bool {
	p.problem = problem
	p.at = len(p.text)
	return false
}

// peek returns the next byte, or 0 at the end.
func (p *sedParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *sedParser) skip(set string) {
	for p.at < len(p.text) && strings.IndexByte(set, p.text[p.at]) >= 0 {
		p.at++
	}
}

// line returns the rest of the line and goes behind it.
func (p *sedParser) line() string {
	rest := p.text[p.at:]
	end := strings.IndexByte(rest, '\n')
	if end < 0 {
		p.at = len(p.text)
		return rest
	}
	p.at += end + 1
	return rest[:end]
}

// command reads one command with its addresses. It is false at the end of the
// script.
func (p *sedParser) command() bool {
	p.skip(" \t\n;")
	if p.at >= len(p.text) {
		return false
	}
	if p.address() {
		p.skip(" \t")
		if p.peek() == ',' {
			p.at++
			p.skip(" \t")
			if !p.address() {
				return p.fail("address is not understood")
			}
		}
	}
	if p.problem != "" {
		return false
	}
	p.skip(" \t!")
	c := p.peek()
	if c == 0 {
		return p.fail("command is missing")
	}
	p.at++
	switch c {
	case '{':
		return true
	case '}':
		return p.end()
	case '#':
		p.line()
		return true
	case '=', 'd', 'D', 'F', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z':
		p.word(string(c))
		return p.end()
	case 'l', 'L', 'q', 'Q':
		p.word(string(c))
		p.skip(" \t")
		p.skip("0123456789")
		return p.end()
	case 'a', 'i', 'c':
		p.word(string(c))
		return p.inserted()
	case ':', 'b', 't', 'T':
		p.word(string(c))
		p.skip(" \t")
		for p.at < len(p.text) && !strings.ContainsRune(" \t\n;}", rune(p.text[p.at])) {
			p.at++
		}
		return p.end()
	case 'e':
		p.word("e")
		p.line()
		return true
	case 'r', 'R':
		p.word(string(c))
		return p.file(&p.reads)
	case 'w', 'W':
		p.word(string(c))
		return p.file(&p.writes)
	case 's':
		return p.substitute()
	case 'y':
		p.word("y")
		return p.pair(false) && p.end()
	default:
		return p.fail("command " + string(rune(c)) + " is not understood")
	}
}

// address reads one address if there is one.
func (p *sedParser) address() bool {
	switch c := p.peek(); {
	case '0' <= c && c <= '9':
		p.skip("0123456789")
		if p.peek() == '~' {
			p.at++
			p.skip("0123456789")
		}
		return true
	case c == '+' || c == '~':
		p.at++
		if n := p.peek(); n < '0' || n > '9' {
			return p.fail("address is not understood")
		}
		p.skip("0123456789")
		return true
	case c == '$':
		p.at++
		return true
	case c == '/':
		p.at++
		if !p.delimited('/') {
			return false
		}
		p.skip("IM")
		return true
	case c == '\\':
		p.at++
		d := p.peek()
		if d == 0 || d == '\n' || d == '\\' {
			return p.fail("address is not understood")
		}
		p.at++
		if !p.delimited(d) {
			return false
		}
		p.skip("IM")
		return true
	default:
		return false
	}
}

// delimited goes behind the next d that is not escaped. A d inside brackets ends
// the text for some implementations and not for others.
func (p *sedParser) delimited(d byte) bool {
	bracket := false
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '\\' && p.at+1 < len(p.text):
			// Inside brackets a backslash is itself for some.
			if bracket && (p.text[p.at+1] == ']' || p.text[p.at+1] == d) {
				return p.fail("brackets are read in more than one way")
			}
			p.at++
		case c == d && bracket:
			return p.fail("brackets are read in more than one way")
		case c == d:
			p.at++
			return true
		case c == '\n':
			return p.fail("line ends inside an expression")
		case c == '[' && !bracket:
			bracket = true
			if strings.HasPrefix(p.text[p.at+1:], "^]") {
				p.at += 2
			} else if strings.HasPrefix(p.text[p.at+1:], "]") {
				p.at++
			}
		case c == '[' && bracket && p.at+1 < len(p.text) && strings.IndexByte(":.=", p.text[p.at+1]) >= 0:
			// A class such as [:alpha:] has a bracket of its own.
			end := strings.Index(p.text[p.at+2:], string(p.text[p.at+1])+"]")
			if end < 0 || strings.IndexByte(p.text[p.at+2:p.at+2+end], d) >= 0 {
				return p.fail("brackets are read in more than one way")
			}
			p.at += 2 + end + 1
		case c == ']':
			bracket = false
		}
	}
	return p.fail("expression does not end")
}

// replacement goes behind the next d that is not escaped, brackets being text.
func (p *sedParser) replacement(d byte) bool {
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case d:
			p.at++
			return true
		case '\n':
			return p.fail("line ends inside an expression")
		}
	}
	return p.fail("expression does not end")
}

// pair reads the two parts of s and y.
func (p *sedParser) pair(expression bool) bool {
	d := p.peek()
	if d == 0 || d == '\n' || d == '\\' || d >= 0x80 {
		return p.fail("expression is not understood")
	}
	p.at++
	if expression {
		return p.delimited(d) && p.replacement(d)
	}
	first := p.replacement(d)
	return first && p.replacement(d)
}

func (p *sedParser) substitute() bool {
	p.word("s")
	if !p.pair(true) {
		return false
	}
	for {
		switch c := p.peek(); {
		case c == 'e':
			p.word("s///e")
		case c == 'w':
			p.at++
			p.word("s///w")
			return p.file(&p.writes)
		case '0' <= c && c <= '9', c == 'g', c == 'p', c == 'i', c == 'I', c == 'm', c == 'M':
		default:
			return p.end()
		}
		p.at++
	}
}

// end wants nothing more of a command on its line.
func (p *sedParser) end() bool {
	p.skip(" \t")
	switch p.peek() {
	case 0, '\n', ';', '}', '#':
		return true
	default:
		return p.fail("command goes on in an unknown way")
	}
}

// inserted passes over the text of a, i and c: to the end of the line, and on
// where the line ends in a backslash.
func (p *sedParser) inserted() bool {
	for {
		line := p.line()
		if strings.HasSuffix(line, `\\`) {
			return p.fail("the end of inserted text is read in more than one way")
		}
		if !strings.HasSuffix(line, `\`) || p.at >= len(p.text) {
			return true
		}
	}
}

// file reads a file name, which takes the whole line.
func (p *sedParser) file(list *[]Path) bool {
	p.skip(" \t")
	name := p.line()
	if name == "" {
		return p.fail("file is missing")
	}
	*list = append(*list, Path{Word: name})
	return true
}
