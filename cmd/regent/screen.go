package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// style is how a row is shown where there are colours. The words have to do
// without.
type style string

const (
	stylePlain    style = ""
	styleTitle    style = "\x1b[1m"
	styleSelected style = "\x1b[7m"
	styleAlert    style = "\x1b[1;31m"
	styleQuiet    style = "\x1b[2m"
)

// row is one line of a screen. Its text holds nothing that drives a terminal.
type row struct {
	text  string
	style style
}

// screen is a terminal that belongs to a full-screen view until close.
type screen struct {
	in     *os.File
	out    io.Writer
	size   func() (width, height int)
	colour bool
	// dumb terminals cannot move the cursor; what changes is printed anew.
	dumb   bool
	before *term.State
	shown  []row
}

// openScreen takes over the terminal of in and out.
func openScreen(in, out *os.File, getenv func(string) string) (*screen, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("take over the terminal: %w", err)
	}
	kind := getenv("TERM")
	s := &screen{
		in: in, out: out, before: before,
		dumb: kind == "dumb" || kind == "",
		size: func() (int, int) {
			w, h, err := term.GetSize(int(out.Fd()))
			if err != nil || w <= 0 || h <= 0 {
				return 80, 24
			}
			return w, h
		},
	}
	s.colour = getenv("NO_COLOR") == "" && !s.dumb
	if !s.dumb {
		// The other screen, no cursor, no wrapping, and pasted text marked as such.
		_, err = io.WriteString(out, "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[2J")
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// again takes the terminal over once more, after the process was stopped.
func (s *screen) again() error {
	_, err := term.MakeRaw(int(s.in.Fd()))
	if err == nil && !s.dumb {
		_, err = io.WriteString(s.out, "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[2J")
	}
	s.shown = nil
	return err
}

// close gives the terminal back as it was.
func (s *screen) close() error {
	var err error
	if !s.dumb {
		_, err = io.WriteString(s.out, "\x1b[0m\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
	return errors.Join(err, term.Restore(int(s.in.Fd()), s.before))
}

// draw shows rows, which are as many as the terminal has.
func (s *screen) draw(rows []row, columns int) error {
	var b strings.Builder
	switch {
	case s.dumb:
		for _, r := range rows {
			if r.text != "" {
				b.WriteString(fit(r.text, columns-1) + "\r\n")
			}
		}
		b.WriteString("\r\n")
	default:
		for i, r := range rows {
			if len(s.shown) == len(rows) && s.shown[i] == r {
				continue
			}
			// Erasing comes first: after a full row it would take the last cell.
			fmt.Fprintf(&b, "\x1b[%d;1H\x1b[2K", i+1)
			if s.colour && r.style != stylePlain {
				b.WriteString(string(r.style) + fit(r.text, columns) + "\x1b[0m")
			} else {
				b.WriteString(fit(r.text, columns))
			}
		}
	}
	s.shown = append(s.shown[:0:0], rows...)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// forget has everything drawn anew.
func (s *screen) forget() error {
	s.shown = nil
	if s.dumb {
		return nil
	}
	_, err := io.WriteString(s.out, "\x1b[2J")
	return err
}

// cells is how many columns of a terminal a character takes.
func cells(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// fit cuts text to a number of columns, and shows that it did.
func fit(text string, columns int) string {
	total := 0
	for _, r := range text {
		total += cells(r)
	}
	if total <= columns {
		return text
	}
	var b strings.Builder
	used := 0
	for _, r := range text {
		if used+cells(r) > columns-1 {
			break
		}
		used += cells(r)
		b.WriteRune(r)
	}
	if columns > 0 {
		b.WriteRune('…')
	}
	return b.String()
}

// wrap breaks text into lines of a number of columns. Those after the first
// begin with indent spaces. Nothing is left out.
func wrap(text string, columns, indent int) []string {
	if indent > columns/2 {
		indent = 0
	}
	var lines []string
	var b strings.Builder
	used := 0
	for _, r := range text {
		n := cells(r)
		if used+n > columns && used > 0 {
			lines = append(lines, b.String())
			b.Reset()
			b.WriteString(strings.Repeat(" ", indent))
			used = indent
		}
		b.WriteRune(r)
		used += n
	}
	return append(lines, b.String())
}
