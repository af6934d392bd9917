package argv

import "strings"

// readAwk looks for what an awk program could do beside computing: "system" calls,
// "|" pipes, ">" redirected output. It is a scanner, no parser: where a slash or a
// word could be read in two ways, the program is not understood.
func readAwk(text string) finding {
	s := awkScanner{text: text}
	for s.problem == "" && s.at < len(s.text) {
		s.token()
	}
	return s.finding
}

type awkScanner struct {
	finding
	text string
	at   int
	// last is the kind of the token before.
	last awkToken
	// printing is true from print or printf to the end of the statement.
	printing bool
	// getting is true from getline on, where < reads a file.
	getting bool
	// parens tells for each open parenthesis whether it belongs to a keyword, so
	// that a statement follows it.
	parens []bool
}

// awkToken is what decides whether a slash divides or starts an expression.
type awkToken uint8

const (
	awkStart   awkToken = iota // an expression may start here
	awkOperand                 // an operand has ended here
	awkControl                 // if, while, for, switch: a parenthesis follows
	awkUnsure                  // both are possible
)

var awkControlWords = map[string]bool{"if": true, "while": true, "for": true, "switch": true}

var awkStartWords = map[string]bool{
	"print": true, "printf": true, "return": true, "in": true, "else": true, "do": true, "delete": true,
	"exit": true, "case": true, "BEGIN": true, "END": true,
}

func (s *awkScanner) fail(problem string) { s.problem = problem }

func (s *awkScanner) statement() {
	s.printing, s.getting, s.last = false, false, awkStart
}

func (s *awkScanner) token() {
	c := s.text[s.at]
	s.at++
	switch {
	case c == ' ' || c == '\t':
	case c == '\n':
		// A line that ends in an operator goes on.
		if s.last != awkStart && len(s.parens) == 0 {
			s.statement()
		}
	case c == ';' || c == '{' || c == '}':
		s.statement()
	case c == '\\':
		if rest := s.text[s.at:]; strings.HasPrefix(rest, "\n") {
			s.at++
		} else {
			s.fail("a backslash outside of text")
		}
	case c == '#':
		if end := strings.IndexByte(s.text[s.at:], '\n'); end >= 0 {
			s.at += end
		} else {
			s.at = len(s.text)
		}
	case c == '"':
		s.string()
	case c == '/':
		s.slash()
	case isAwkLetter(c):
		s.identifier()
	case isDigit(c) || c == '.':
		// A letter starts a name of its own, as in 1system("x").
		for s.at < len(s.text) && (isDigit(s.text[s.at]) || s.text[s.at] == '.') {
			s.at++
		}
		s.last = awkOperand
	default:
		s.operator(c)
	}
}

func isAwkLetter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// string goes behind the closing quote and returns the text in between.
func (s *awkScanner) string() string {
	start := s.at
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '\n':
			s.fail("line ends inside text")
			return ""
		case '"':
			text := s.text[start:s.at]
			s.at++
			s.last = awkOperand
			return text
		}
	}
	s.fail("text does not end")
	return ""
}

func (s *awkScanner) slash() {
	switch s.last {
	case awkOperand:
		if strings.HasPrefix(s.text[s.at:], "=") {
			s.at++
		}
		s.last = awkStart
	case awkStart:
		s.expression()
	case awkControl, awkUnsure:
		s.fail("a slash is read in more than one way")
	}
}

// expression goes behind a regular expression. Some implementations end it at a
// slash inside brackets.
func (s *awkScanner) expression() {
	bracket := false
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '\\':
			s.at++
		case c == '\n':
			s.fail("line ends inside an expression")
			return
		case c == '/' && bracket:
			s.fail("brackets are read in more than one way")
			return
		case c == '/':
			s.at++
			s.last = awkOperand
			return
		case c == '[' && !bracket:
			bracket = true
			if strings.HasPrefix(s.text[s.at+1:], "^]") {
				s.at += 2
			} else if strings.HasPrefix(s.text[s.at+1:], "]") {
				s.at++
			}
		case c == '[' && strings.HasPrefix(s.text[s.at+1:], ":"):
			end := strings.Index(s.text[s.at+2:], ":]")
			if end < 0 || strings.ContainsAny(s.text[s.at+2:s.at+2+end], "/\n") {
				s.fail("brackets are read in more than one way")
				return
			}
			s.at += 2 + end + 1
		case c == ']':
			bracket = false
		}
	}
	s.fail("expression does not end")
}

func (s *awkScanner) identifier() {
	start := s.at - 1
	for s.at < len(s.text) && (isAwkLetter(s.text[s.at]) || isDigit(s.text[s.at])) {
		s.at++
	}
	switch word := s.text[start:s.at]; {
	case word == "system":
		s.word("system")
		s.last = awkOperand
	case word == "getline":
		s.getting, s.last = true, awkUnsure
	case word == "ARGV" || word == "ARGC":
		// Changing these makes awk read other files.
		s.fail(word + " names files")
	case word == "function" || word == "func":
		s.last = awkStart
	case word == "print" || word == "printf":
		s.printing, s.last = true, awkStart
	case awkControlWords[word]:
		s.last = awkControl
	case awkStartWords[word]:
		s.last = awkStart
	default:
		s.last = awkOperand
	}
}

func (s *awkScanner) operator(c byte) {
	rest := s.text[s.at:]
	switch c {
	case '(':
		s.parens = append(s.parens, s.last == awkControl)
		s.last = awkStart
	case ')':
		s.last = awkOperand
		if n := len(s.parens); n > 0 {
			if s.parens[n-1] {
				s.last = awkUnsure
				s.printing, s.getting = false, false
			}
			s.parens = s.parens[:n-1]
		} else {
			s.last = awkUnsure
		}
	case ']':
		s.last = awkOperand
	case '|':
		if strings.HasPrefix(rest, "|") {
			s.at++
		} else {
			s.word("|")
		}
		s.last = awkStart
	case '>':
		if s.printing {
			s.redirect()
			return
		}
		s.last = awkStart
	case '<':
		if s.getting {
			s.input()
			return
		}
		s.last = awkStart
	case '+', '-':
		if len(rest) > 0 && rest[0] == c {
			s.at++
			s.last = awkUnsure
			return
		}
		s.last = awkStart
	case '=', '!', '~', '&', '*', '%', '^', '?', ':', ',', '$', '[':
		s.last = awkStart
	default:
		s.fail("character " + string(rune(c)) + " is not understood")
	}
}

// redirect reads what follows the > of a print statement.
func (s *awkScanner) redirect() {
	s.word(">")
	if strings.HasPrefix(s.text[s.at:], ">") {
		s.at++
	}
	s.last = awkStart
	if name, ok := s.literal(); ok {
		s.writes = append(s.writes, Path{Word: name})
		return
	}
	s.writes = append(s.writes, Path{Word: "?", Kind: PathUnknown})
}

// input reads what follows getline <.
func (s *awkScanner) input() {
	s.last = awkStart
	if name, ok := s.literal(); ok {
		s.reads = append(s.reads, Path{Word: name})
		return
	}
	s.fail("getline reads a file that cannot be told")
}

// literal reads a string that makes up a whole file name.
func (s *awkScanner) literal() (string, bool) {
	rest := strings.TrimLeft(s.text[s.at:], " \t")
	if !strings.HasPrefix(rest, `"`) {
		return "", false
	}
	s.at = len(s.text) - len(rest) + 1
	name := s.string()
	next := strings.TrimLeft(s.text[s.at:], " \t")
	ends := next == "" || strings.IndexByte(";}\n#)", next[0]) >= 0
	return name, s.problem == "" && ends && !strings.Contains(name, "\\")
}
