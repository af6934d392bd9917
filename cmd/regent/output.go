package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/regent-policy/regent/gate/approval"
)

// writeJSON prints one value: on one line, or indented for people who read it
// too. HTML escapes would only make commands hard to read.
func writeJSON(w io.Writer, v any, indented bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if indented {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// printable makes text from an agent fit for a terminal.
func printable(s string) string { return approval.Printable(s) }

// maxShown is how many characters of one text a block for people shows.
const maxShown = 300

// shown is printable text of bounded length.
func shown(s string) string { return cut(printable(s), maxShown) }

// cut shortens text to a number of characters.
func cut(s string, length int) string {
	if utf8.RuneCountInString(s) <= length {
		return s
	}
	return string([]rune(s)[:length]) + "…"
}

// list joins words, with a word for none.
func list[T ~string](words []T) string {
	if len(words) == 0 {
		return "none"
	}
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = shown(string(w))
	}
	return strings.Join(out, ", ")
}

// block is a heading with named lines below it, for people.
type block struct{ b strings.Builder }

const blockLabels = 11

// line adds a named line.
func (b *block) line(name, text string) {
	fmt.Fprintf(&b.b, "  %-*s %s\n", blockLabels, name, text)
}

// lines adds texts below one name. A text of several lines goes on further in,
// where none of its lines can be taken for a named one.
func (b *block) lines(name string, texts []string) {
	for _, text := range texts {
		for i, part := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			if i > 0 {
				part = "  " + part
			}
			b.line(name, shown(part))
			name = ""
		}
	}
}

// table prints rows in columns, two spaces apart, without spaces at the end of
// lines.
func table(w io.Writer, indent string, rows [][]string) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, indent+strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// yesNo is a word for a flag.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
