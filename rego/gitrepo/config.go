package gitrepo

import (
	"errors"
	"fmt"
	"strings"
)

// entry is one variable of a configuration file.
type entry struct {
	// section and name are in lower case, as git compares them; subsection keeps
	// its case.
	section, subsection, name string
	// value is empty, and bare true, for a variable without "=".
	value string
	bare  bool
	line  int
}

func (e entry) key() string {
	if e.subsection == "" {
		return e.section + "." + e.name
	}
	return e.section + "." + e.subsection + "." + e.name
}

// parseConfig reads git's configuration syntax (git help config, "Syntax"). Where
// git would refuse the text, so does this, and it also refuses forms that nobody
// writes. What came before an error is returned with it.
func parseConfig(text []byte) ([]entry, error) {
	p := configParser{text: strings.TrimPrefix(string(text), "\ufeff"), line: 1}
	if err := p.parse(); err != nil {
		return p.entries, fmt.Errorf("%d: %w", p.line, err)
	}
	return p.entries, nil
}

type configParser struct {
	text                string
	at, line            int
	section, subsection string
	entries             []entry
}

var (
	errHeader = errors.New("section header is not understood")
	errName   = errors.New("variable name is not understood")
	errValue  = errors.New("value is not understood")
)

// next returns the next byte, with \r\n as \n, or 0 at the end.
func (p *configParser) next() byte {
	if p.at >= len(p.text) {
		return 0
	}
	c := p.text[p.at]
	p.at++
	if c == '\r' && p.at < len(p.text) && p.text[p.at] == '\n' {
		c = '\n'
		p.at++
	}
	return c
}

func (p *configParser) parse() error {
	if strings.IndexByte(p.text, 0) >= 0 {
		return errors.New("NUL byte")
	}
	for {
		c := p.next()
		switch {
		case c == 0:
			return nil
		case c == '\n':
			p.line++
		case isSpace(c):
		case c == '#' || c == ';':
			p.comment()
		case c == '[':
			if err := p.header(); err != nil {
				return err
			}
		case isLetter(c):
			if p.section == "" {
				return errName
			}
			if err := p.variable(c); err != nil {
				return err
			}
		default:
			return errName
		}
	}
}

func (p *configParser) comment() {
	if end := strings.IndexByte(p.text[p.at:], '\n'); end >= 0 {
		p.at += end
		return
	}
	p.at = len(p.text)
}

// header reads a section header after its bracket: [name], [name "sub"], or the
// old [name.sub].
func (p *configParser) header() error {
	var name strings.Builder
	for {
		c := p.next()
		switch {
		case c == ']':
			section, sub, _ := strings.Cut(name.String(), ".")
			if section == "" {
				return errHeader
			}
			p.section, p.subsection = section, sub
			return nil
		case isLetter(c) || isDigit(c) || c == '-' || c == '.':
			name.WriteByte(lower(c))
		case c == ' ' || c == '\t':
			if name.Len() == 0 || strings.Contains(name.String(), ".") {
				return errHeader
			}
			p.section = name.String()
			return p.quotedSubsection()
		default:
			return errHeader
		}
	}
}

func (p *configParser) quotedSubsection() error {
	c := p.next()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if c != '"' {
		return errHeader
	}
	var sub strings.Builder
	for {
		switch c = p.next(); c {
		case 0, '\n':
			return errHeader
		case '"':
			if p.next() != ']' {
				return errHeader
			}
			p.subsection = sub.String()
			return nil
		case '\\':
			if c = p.next(); c == 0 || c == '\n' {
				return errHeader
			}
			fallthrough
		default:
			sub.WriteByte(c)
		}
	}
}

// variable reads a variable whose first letter is c.
func (p *configParser) variable(c byte) error {
	e := entry{section: p.section, subsection: p.subsection, line: p.line}
	var name strings.Builder
	for isLetter(c) || isDigit(c) || c == '-' {
		name.WriteByte(lower(c))
		c = p.next()
	}
	e.name = name.String()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	var err error
	switch c {
	case 0:
		e.bare = true
	case '\n':
		e.bare = true
		p.line++
	case '=':
		e.value, err = p.value()
	default:
		// Git refuses a comment after a name without a value too.
		return errName
	}
	if err != nil {
		return err
	}
	p.entries = append(p.entries, e)
	return nil
}

// value reads a value up to the end of its last line.
func (p *configParser) value() (string, error) {
	var value strings.Builder
	quoted := false
	spaces := 0
	for {
		c := p.next()
		switch {
		case c == 0 || c == '\n':
			if quoted {
				return "", errValue
			}
			if c == '\n' {
				p.line++
			}
			return value.String(), nil
		case !quoted && isSpace(c):
			if value.Len() > 0 {
				spaces++
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			p.comment()
			continue
		}
		for ; spaces > 0; spaces-- {
			value.WriteByte(' ')
		}
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			switch c = p.next(); c {
			case '\n':
				p.line++
			case 't':
				value.WriteByte('\t')
			case 'b':
				value.WriteByte('\b')
			case 'n':
				value.WriteByte('\n')
			case '\\', '"':
				value.WriteByte(c)
			default:
				return "", errValue
			}
		default:
			value.WriteByte(c)
		}
	}
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
