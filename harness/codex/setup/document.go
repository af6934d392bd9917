package setup

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// path is where something is in a document: names of tables and keys, and
// "#0", "#1" for the elements of arrays.
type path []string

func at(i int) string { return "#" + strconv.Itoa(i) }

func (p path) key() string { return strings.Join(p, "\x00") }

// String is how the path is written in TOML, without the numbers of elements.
func (p path) String() string {
	var parts []string
	for _, name := range p {
		if !strings.HasPrefix(name, "#") {
			parts = append(parts, quoteKey(name))
		}
	}
	return strings.Join(parts, ".")
}

func (p path) with(names ...string) path { return slices.Concat(p, names) }

func (p path) below(other path) bool {
	return len(p) >= len(other) && slices.Equal(p[:len(other)], other)
}

// span is from one byte of the text up to another.
type span struct{ from, to int }

// entry is a key with its value, or an element of an array that is a table.
type entry struct {
	path  path
	whole span // from the key to the end of the value
	value span
	kind  unstable.Kind
	// children are the keys of an inline table, or the elements of an array.
	children []entry
	// inline is set for what is within another value, and dotted for a key of
	// several names.
	inline, dotted bool
	// header is the number of the header above it, -1 for none.
	header int
}

// header is a line with the name of a table.
type header struct {
	path  path
	array bool
	line  int // where the line starts
	// body is where the line below it starts.
	body int
}

// document is the text of a configuration with the places of what is in it.
type document struct {
	text    []byte
	start   int // behind a byte order mark
	newline string
	values  map[string]any
	entries []entry
	headers []header
}

// SyntaxError says where a file is no TOML.
type SyntaxError struct {
	// File is the file, Line and Column are counted from 1.
	File         string
	Line, Column int
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

var bom = []byte("\xef\xbb\xbf")

// parse reads a text. The file is for errors.
func parse(file string, text []byte) (*document, error) {
	d := &document{text: text, newline: "\n", values: map[string]any{}}
	if bytes.HasPrefix(text, bom) {
		d.start = len(bom)
	}
	if bytes.Contains(text, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	body := text[d.start:]
	if err := toml.Unmarshal(body, &d.values); err != nil {
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := wrong.Position()
			return nil, &SyntaxError{File: file, Line: line, Column: column, Message: strings.TrimPrefix(wrong.Error(), "toml: ")}
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var p unstable.Parser
	p.Reset(body)
	arrays := map[string]int{}
	var table path
	for p.NextExpression() {
		n := p.Expression()
		switch n.Kind {
		case unstable.Table, unstable.ArrayTable:
			it := n.Key()
			table = nil
			first, last := -1, 0
			for it.Next() {
				k := it.Node()
				if first < 0 {
					first = int(k.Raw.Offset) + d.start
				}
				last = int(k.Raw.Offset+k.Raw.Length) + d.start
				table = table.with(string(k.Data))
				count := arrays[table.key()]
				switch {
				case it.IsLast() && n.Kind == unstable.ArrayTable:
					arrays[table.key()]++
					table = table.with(at(count))
				case count > 0:
					table = table.with(at(count - 1))
				}
			}
			d.headers = append(d.headers, header{path: table, array: n.Kind == unstable.ArrayTable, line: d.lineStart(first), body: d.lineEnd(last)})
		case unstable.KeyValue:
			d.entries = append(d.entries, d.entry(n, table, false))
		default: // a comment
		}
	}
	if err := p.Error(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// entry reads a key and its value, with what is in it.
func (d *document) entry(n *unstable.Node, table path, inline bool) entry {
	e := entry{path: slices.Clone(table), inline: inline, header: len(d.headers) - 1, kind: n.Value().Kind}
	e.whole = span{int(n.Raw.Offset) + d.start, int(n.Raw.Offset+n.Raw.Length) + d.start}
	names, end := 0, 0
	for it := n.Key(); it.Next(); names++ {
		k := it.Node()
		e.path = append(e.path, string(k.Data))
		end = int(k.Raw.Offset+k.Raw.Length) + d.start
	}
	e.dotted = names > 1
	e.value = span{d.skip(end, " \t=\r\n"), e.whole.to}
	e.children = d.children(n.Value(), e.path)
	return e
}

func (d *document) children(value *unstable.Node, p path) []entry {
	var out []entry
	switch value.Kind {
	case unstable.InlineTable:
		for it := value.Children(); it.Next(); {
			if n := it.Node(); n.Kind == unstable.KeyValue {
				out = append(out, d.entry(n, p, true))
			}
		}
	case unstable.Array:
		for it := value.Children(); it.Next(); {
			n := it.Node()
			if n.Kind == unstable.Comment {
				continue
			}
			e := entry{path: p.with(at(len(out))), inline: true, header: len(d.headers) - 1, kind: n.Kind}
			e.value.from = int(n.Raw.Offset) + d.start
			e.value.to = e.value.from + int(n.Raw.Length)
			e.children = d.children(n, e.path)
			if n.Kind == unstable.InlineTable { // its range is that of the brace
				if len(e.children) > 0 {
					e.value.to = e.children[len(e.children)-1].whole.to
				}
				e.value.to = d.skipComments(e.value.to, " \t\r\n,") + 1
			}
			e.whole = e.value
			out = append(out, e)
		}
	default: // a value without parts
	}
	return out
}

// skip is where the first byte is that is none of those.
func (d *document) skip(from int, set string) int {
	for from < len(d.text) && strings.IndexByte(set, d.text[from]) >= 0 {
		from++
	}
	return from
}

// skipComments skips comments, too.
func (d *document) skipComments(from int, set string) int {
	for {
		from = d.skip(from, set)
		if from >= len(d.text) || d.text[from] != '#' {
			return from
		}
		from = d.lineEnd(from)
	}
}

func (d *document) lineStart(at int) int { return bytes.LastIndexByte(d.text[:at], '\n') + 1 }

// lineEnd is where the next line starts.
func (d *document) lineEnd(at int) int {
	if i := bytes.IndexByte(d.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(d.text)
}

// line is the number of the line, from 1.
func (d *document) line(at int) int { return bytes.Count(d.text[:at], []byte{'\n'}) + 1 }

// find returns the entry of a path, or nil.
func (d *document) find(p path) *entry { return findIn(d.entries, p) }

func findIn(all []entry, p path) *entry {
	for i := range all {
		e := &all[i]
		if slices.Equal(e.path, p) {
			return e
		}
		if p.below(e.path) {
			if found := findIn(e.children, p); found != nil {
				return found
			}
		}
	}
	return nil
}

// get is the decoded value of a path; nil where there is none.
func (d *document) get(p ...string) any { return lookup(d.values, p) }

func lookup(v any, p path) any {
	for _, name := range p {
		switch one := v.(type) {
		case map[string]any:
			v = one[name]
		case []any:
			i, err := strconv.Atoi(strings.TrimPrefix(name, "#"))
			if err != nil || i < 0 || i >= len(one) {
				return nil
			}
			v = one[i]
		default:
			return nil
		}
	}
	return v
}

// replaced is the document with other text in a place.
func (d *document) replaced(file string, s span, with string) (*document, error) {
	return parse(file, slices.Concat(d.text[:s.from], []byte(with), d.text[s.to:]))
}

// insertion is where text goes, and the text.
type insertion struct {
	at   int
	text string
}

// placeOf says where a key of a table goes, and in which form. The table is a path
// of names without arrays; empty for the top of the document.
func (d *document) placeOf(table path, key, value string) (insertion, error) {
	line := quoteKey(key) + " = " + value
	if len(table) > 0 {
		for i := len(table); i > 0; i-- {
			e := d.find(table[:i])
			switch {
			case e == nil:
			case e.kind != unstable.InlineTable:
				return insertion{}, fmt.Errorf("%w: %s is no table", ErrForm, table[:i])
			case i < len(table):
				return d.inInline(e, table[i:].String()+"."+line), nil
			default:
				return d.inInline(e, line), nil
			}
		}
		if i := slices.IndexFunc(d.headers, func(h header) bool { return !h.array && slices.Equal(h.path, table) }); i >= 0 {
			return d.afterLast(i, d.headers[i].body, line), nil
		}
		// Keys such as features.x at the top make the table, which may have no header
		// then.
		for i := len(d.entries) - 1; i >= 0; i-- {
			if e := d.entries[i]; e.dotted && e.header < 0 && e.path.below(table) {
				return d.below(e, table.String()+"."+line), nil
			}
		}
		return d.atEnd("[" + table.String() + "]" + d.newline + line), nil
	}
	last := d.afterLast(-1, -1, line)
	if last.at >= 0 {
		return last, nil
	}
	text := line + d.newline
	if len(bytes.TrimSpace(d.text[d.start:])) > 0 {
		text += d.newline
	}
	return insertion{d.start, text}, nil
}

// afterLast goes below the last key that the header has itself, or else to a place.
func (d *document) afterLast(header, otherwise int, line string) insertion {
	for i := len(d.entries) - 1; i >= 0; i-- {
		if d.entries[i].header == header {
			return d.below(d.entries[i], line)
		}
	}
	if otherwise == len(d.text) && otherwise > 0 && d.text[otherwise-1] != '\n' {
		return insertion{otherwise, d.newline + line}
	}
	return insertion{otherwise, line + d.newline}
}

// below goes to the line below an entry.
func (d *document) below(e entry, line string) insertion {
	end := d.lineEnd(e.whole.to)
	if end == len(d.text) && d.text[end-1] != '\n' {
		return insertion{end, d.newline + line}
	}
	return insertion{end, line + d.newline}
}

// atEnd is a block at the end, with a blank line above it.
func (d *document) atEnd(block string) insertion {
	text := block + d.newline
	switch body := d.text[d.start:]; {
	case len(body) == 0:
	case body[len(body)-1] != '\n':
		text = d.newline + d.newline + text
	case len(body) > 1 && (bytes.HasSuffix(body, []byte("\n\n")) || bytes.HasSuffix(body, []byte("\n\r\n"))):
	default:
		text = d.newline + text
	}
	return insertion{len(d.text), text}
}

// inInline goes behind the last key of an inline table.
func (d *document) inInline(e *entry, pair string) insertion {
	if len(e.children) == 0 {
		return insertion{e.value.from + 1, " " + pair + " "}
	}
	return d.behind(e.children[len(e.children)-1].whole.to, pair)
}

// behind goes behind the last part of a list, which may have a comma.
func (d *document) behind(end int, part string) insertion {
	if comma := d.skipComments(end, " \t\r\n"); comma < len(d.text) && d.text[comma] == ',' {
		return insertion{comma + 1, " " + part + ","}
	}
	return insertion{end, ", " + part}
}

// inArray goes behind the last element of an array.
func (d *document) inArray(e *entry, element string) insertion {
	if len(e.children) == 0 {
		return insertion{e.value.from + 1, element}
	}
	return d.behind(e.children[len(e.children)-1].whole.to, element)
}

// differences are the paths whose values differ between two documents.
func differences(before, after map[string]any) []path {
	var out []path
	var walk func(p path, a, b any)
	walk = func(p path, a, b any) {
		one, okOne := a.(map[string]any)
		other, okOther := b.(map[string]any)
		if a == nil && okOther {
			one, okOne = nil, true
		}
		if b == nil && okOne {
			other, okOther = nil, true
		}
		if okOne && okOther {
			names := map[string]bool{}
			for k := range one {
				names[k] = true
			}
			for k := range other {
				names[k] = true
			}
			for k := range names {
				walk(p.with(k), one[k], other[k])
			}
			return
		}
		list, okList := a.([]any)
		second, okSecond := b.([]any)
		if a == nil && okSecond {
			list, okList = nil, true
		}
		if b == nil && okList {
			second, okSecond = nil, true
		}
		if okList && okSecond {
			for i := range max(len(list), len(second)) {
				var x, y any
				if i < len(list) {
					x = list[i]
				}
				if i < len(second) {
					y = second[i]
				}
				walk(p.with(at(i)), x, y)
			}
			return
		}
		if !reflect.DeepEqual(a, b) {
			out = append(out, p)
		}
	}
	walk(nil, before, after)
	return out
}

// quoteKey writes a name as a key.
func quoteKey(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return quote(name)
	}
	return name
}

// quote writes a text as a string of TOML.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
