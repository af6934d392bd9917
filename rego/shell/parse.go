package shell

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of what is looked at. Past any of them the facts hold a Problem of
// kind "limit" together with everything that was found up to there.
const (
	// MaxText is the length in bytes of a text, or of all words of an argv.
	MaxText = 64 << 10
	// MaxDepth is how deep commands may stand inside one another: compound
	// commands, substitutions and opened wrappers each count one.
	MaxDepth = 64
	// MaxCommands is the number of commands.
	MaxCommands = 4096
	// MaxWords is the number of words of all commands together.
	MaxWords = 16384

	// maxInner is how many bytes of scripts in wrappers are read, all of them
	// together: a script may hold scripts that hold most of it once more.
	maxInner = 4 * MaxText
	// maxFrames is how many call frames the parser may use. One level of
	// nesting costs it about ten.
	maxFrames = 4096
	// maxSource is the length of Command.Text.
	maxSource = 200
)

// Parse reads text as a script of the dialect. It never fails: what cannot be
// read is a Problem of the facts. It is safe for concurrent use.
func Parse(dialect Dialect, text string) Facts {
	r := reader{dialect: dialect, src: text, inner: maxInner}
	if _, ok := variants[dialect]; !ok {
		r.problem("dialect", 1, 1, fmt.Sprintf("no grammar for the shell %q", clip(strings.ToValidUTF8(string(dialect), "\uFFFD"))))
		return r.facts()
	}
	if len(text) > MaxText {
		r.problem("limit", 1, 1, fmt.Sprintf("the text is longer than %d bytes", MaxText))
		r.src = text[:MaxText]
	}
	r.guard(func() {
		r.script(scope{}, &place{})
		r.functionsUsed()
	})
	return r.facts()
}

// ParseArgv reads the words of a program that is started without a shell. All
// words are literal; a shell with a script, or another wrapper, is opened up.
func ParseArgv(argv []string) Facts {
	r := reader{dialect: POSIX, inner: maxInner}
	if len(argv) == 0 {
		r.problem("syntax", 1, 1, "there is no program")
		return r.facts()
	}
	words := make([]Word, 0, min(len(argv), MaxWords))
	size := 0
	for _, a := range argv {
		if size += len(a); size > MaxText || len(words) == MaxWords {
			r.problem("limit", 1, 1, "there are too many words")
			break
		}
		w := Word{Value: a, Kind: Literal}
		if !utf8.ValidString(a) {
			r.problem("syntax", 1, 1, "a word is not valid UTF-8")
			w = Word{Value: strings.ToValidUTF8(a, "\uFFFD"), Kind: Dynamic}
		}
		if strings.IndexByte(a, 0) >= 0 {
			r.problem("syntax", 1, 1, "a word holds a NUL byte")
		}
		r.noteVariables(a)
		words = append(words, w)
	}
	r.guard(func() {
		cmd := Command{Words: words, Line: 1, Column: 1, Text: clip(joined(words))}
		r.add(cmd)
		r.open(cmd.Words, cmd.Assigns, scope{at: position{1, 1}, argv: true}, &place{})
		r.functionsUsed()
	})
	f := r.facts()
	f.Dialect = ""
	return f
}

// variants are the grammars of the dialects.
var variants = map[Dialect]syntax.LangVariant{
	Bash:  syntax.LangBash,
	POSIX: syntax.LangPOSIX,
	Zsh:   syntax.LangZsh,
}

var parsers = map[Dialect]*sync.Pool{
	Bash:  {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }},
	POSIX: {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangPOSIX)) }},
	Zsh:   {New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangZsh)) }},
}

// guard turns a panic into a problem. What was found before it stays.
func (r *reader) guard(f func()) {
	defer func() {
		if e := recover(); e != nil {
			r.problem("syntax", 1, 1, messagePanic)
		}
	}()
	f()
}

const messagePanic = "the grammar gave up on this text"

var errDeep = errors.New("nested too deep")

// feed hands the text to the parser a piece at a time and looks how deep the
// parser has gone whenever it asks for more: it recurses, and a stack that
// overflows ends the process.
type feed struct {
	text string
	pcs  []uintptr
}

func (f *feed) Read(p []byte) (int, error) {
	if f.text == "" {
		return 0, io.EOF
	}
	if f.pcs == nil {
		f.pcs = make([]uintptr, 0, 1)
	} else if f.deep() {
		return 0, errDeep
	}
	n := copy(p, f.text)
	f.text = f.text[n:]
	return n, nil
}

func (f *feed) deep() bool {
	if cap(f.pcs) < maxFrames {
		f.pcs = make([]uintptr, maxFrames)
	}
	return runtime.Callers(0, f.pcs[:maxFrames]) == maxFrames
}

// parse returns the statements up to the first error.
func (r *reader) parse(d Dialect) (stmts []*syntax.Stmt, err error) {
	pool := parsers[d]
	p := pool.Get().(*syntax.Parser)
	defer func() {
		// A parser that panicked is not used again.
		if e := recover(); e != nil {
			err = errors.New(messagePanic)
			return
		}
		pool.Put(p)
	}()
	file, err := p.Parse(&feed{text: r.src}, "")
	if file != nil {
		stmts = file.Stmts
	}
	return stmts, err
}

// syntaxProblem states a parse error.
func (r *reader) syntaxProblem(err error, sc scope) {
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.Is(err, errDeep):
		line, col := r.lineCol(syntax.Pos{}, sc)
		r.problem("limit", line, col, err.Error())
	case errors.As(err, &parse):
		line, col := r.lineCol(parse.Pos, sc)
		r.problem("syntax", line, col, clip(parse.Text))
	case errors.As(err, &lang):
		line, col := r.lineCol(lang.Pos, sc)
		r.problem("syntax", line, col, clip(lang.Feature)+" are no part of "+string(r.dialect))
	default:
		line, col := r.lineCol(syntax.Pos{}, sc)
		r.problem("syntax", line, col, clip(err.Error()))
	}
}

// clip cuts s at maxSource bytes, between two runes.
func clip(s string) string {
	if len(s) <= maxSource {
		return s
	}
	n := maxSource
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func joined(words []Word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.WriteString(w.Value); b.Len() > maxSource {
			break
		}
	}
	return b.String()
}
