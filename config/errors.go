package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error is what is wrong with a configuration file. Every error that Load and
// Parse return is one, so that callers can point at the place; correct the file
// and read it again.
type Error struct {
	// File is the name that the file was read by.
	File string `json:"file"`
	// Line and Column say where, from 1 and in characters: at the key whose
	// value is wrong, at the item in a list, or at the text that is not YAML.
	// Both are 0 where the file could not be read.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the key with those it stands below, as in permissions.mode. It is
	// empty where the error is about the file.
	Path string `json:"path,omitempty"`
	// Message says what is wrong and Hint what to write instead. The hint may be
	// empty. Neither repeats what could be a secret.
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Err is the cause, such as fs.ErrNotExist, where there is one.
	Err error `json:"-"`
}

func (e *Error) Error() string { return place(e.File, e.Line, e.Column, e.Path, e.Message, e.Hint) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Warning is something that is allowed, and probably not meant. Its fields are
// those of Error.
type Warning struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (w Warning) String() string {
	return place(w.File, w.Line, w.Column, w.Path, w.Message, w.Hint)
}

func place(file string, line, column int, path, message, hint string) string {
	var b strings.Builder
	b.WriteString(file)
	if line > 0 {
		fmt.Fprintf(&b, ":%d:%d", line, column)
	}
	b.WriteString(": ")
	if path != "" {
		b.WriteString(path + ": ")
	}
	b.WriteString(message)
	if hint != "" {
		b.WriteString("; " + hint)
	}
	return b.String()
}

func byPosition(a, b KeyPos) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
}

// quoted returns text for a message: quoted, on one line and short.
func quoted(text string) string {
	const limit = 60
	if utf8.RuneCountInString(text) > limit {
		text = string([]rune(text)[:limit]) + "…"
	}
	return strconv.Quote(text)
}

// readable makes a key fit for a message: a key of plain letters stays as it
// is, anything that could break the line is quoted.
func readable(key string) string {
	plain := len(key) > 0 && utf8.RuneCountInString(key) <= 60
	for _, r := range key {
		plain = plain && unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != '"'
	}
	if plain {
		return key
	}
	return quoted(key)
}

// nearest returns the candidate that written was most likely meant to be, and
// false where none is close.
func nearest(written string, candidates []string) (string, bool) {
	short := reduce(written)
	if short == "" || len(short) > 64 {
		return "", false
	}
	if short == "untrusted" && slices.Contains(candidates, string(ApprovalUnlessTrusted)) {
		return string(ApprovalUnlessTrusted), true // the older name of the same thing
	}
	if holding := slices.DeleteFunc(slices.Clone(candidates), func(candidate string) bool {
		return !strings.Contains(reduce(candidate), short)
	}); len(short) >= 4 && len(holding) == 1 {
		return holding[0], true
	}
	best, least := "", max(1, len(short)/3)+1
	for _, candidate := range candidates {
		if d := distance(short, reduce(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best, best != ""
}

// reduce drops what differs between spellings of one word: case, and the
// characters between its parts.
func reduce(word string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, word)
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours between two words.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}

func list(words []string) string { return strings.Join(words, ", ") }
