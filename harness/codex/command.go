package codex

import (
	"strings"

	"github.com/regent-policy/regent/gate/approval"
)

// shells are the programs that run a script, by the name or the path that they
// certainly have; any other path may be any program.
var shells = map[string]string{
	"bash": "bash", "/bin/bash": "bash", "/usr/bin/bash": "bash",
	"sh": "sh", "/bin/sh": "sh", "/usr/bin/sh": "sh",
	"zsh": "zsh", "/bin/zsh": "zsh", "/usr/bin/zsh": "zsh",
}

// commandOf reads the command of an approval request, which is an argument
// vector joined to one line with shell quotes. Where that is a shell and its
// script, the script is the command; else the line is, as it stands.
func commandOf(line string) *approval.Command {
	if argv, ok := split(line); ok {
		if c := script(argv); c != nil {
			return c
		}
	}
	return &approval.Command{Shell: "bash", Text: line}
}

// script is the script of exactly [shell, -lc|-c, script], or nil.
func script(argv []string) *approval.Command {
	if len(argv) != 3 || argv[1] != "-lc" && argv[1] != "-c" || argv[2] == "" {
		return nil
	}
	shell, ok := shells[argv[0]]
	if !ok {
		return nil
	}
	return &approval.Command{Shell: shell, Text: argv[2]}
}

// split undoes shell quoting. It understands what a program that quotes an
// argument vector writes: plain words, '...', "..." and \x. Anything that a
// shell would act on (an open $, a pipe, a pattern, ...) makes it refuse: then
// the line is no quoted argument vector.
func split(line string) ([]string, bool) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
			continue
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, false
			}
			word.WriteString(line[i+1 : i+1+end])
			i += end + 1
		case c == '"':
			n, ok := quoted(line[i+1:], &word)
			if !ok {
				return nil, false
			}
			i += n
		case c == '\\':
			// A backslash before a line break takes both away in a shell and not in
			// every reader.
			if i+1 == len(line) || line[i+1] == '\n' {
				return nil, false
			}
			i++
			word.WriteByte(line[i])
		case plain(c):
			word.WriteByte(c)
		default:
			return nil, false
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, len(words) > 0
}

// quoted reads up to the closing quote of "..." and says how far that is.
func quoted(s string, word *strings.Builder) (int, bool) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return i + 1, true
		case '$', '`':
			return 0, false
		case '\\':
			if i+1 == len(s) || s[i+1] == '\n' {
				return 0, false
			}
			switch s[i+1] {
			case '$', '`', '"', '\\':
				i++
				word.WriteByte(s[i])
			default:
				word.WriteByte(c)
			}
		default:
			word.WriteByte(c)
		}
	}
	return 0, false
}

// plain says whether c means itself to a shell wherever it stands.
func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c >= 0x80:
		return true
	default:
		return strings.IndexByte("+-./:@_,%^=]", c) >= 0
	}
}

// stdin is the call of write_stdin that the line of a request for terminal
// input describes: write_stdin --session-id N 'characters'.
func stdin(line string) (session, chars string, ok bool) {
	words, ok := split(line)
	if !ok || len(words) != 4 || words[0] != "write_stdin" || words[1] != "--session-id" {
		return "", "", false
	}
	return words[2], words[3], true
}
