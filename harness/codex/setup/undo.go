package setup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Record is what an installation has done to a configuration, as it is kept
// beside that.
type Record struct {
	Version int `json:"version"`
	// At is when it was last changed, in UTC, by a Regent of that version.
	At     time.Time `json:"at"`
	Regent string    `json:"regent"`
	// Edits are in the order in which they were made.
	Edits []Edit `json:"edits"`
	// Created says that there was no config.toml.
	Created bool `json:"created,omitempty"`
}

// Edit is one edit of a configuration.
type Edit struct {
	// Path is where it was made.
	Path []string `json:"path"`
	// Before and After are values in TOML. Without Before, something was inserted:
	// Text.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Text   string `json:"text,omitempty"`
}

// ErrUndo means that an installation cannot be taken back, since what it wrote was
// edited. Nothing is changed then; the error says where. Edit the file by hand, or
// put the backup in its place.
var ErrUndo = errors.New("the installation cannot be taken back")

// Undo says how to take back what the record has. Edits that were made since are
// kept: what was set to another value meanwhile stays.
func Undo(file string, text []byte, record Record) (*Plan, error) {
	d, err := newDraft(file, text, Record{})
	if err != nil {
		return nil, err
	}
	d.plan.undo = true
	expected := d.doc.values
	for _, e := range slices.Backward(record.Edits) {
		place := path(e.Path)
		switch {
		case e.Before != "":
			err = d.restore(e)
		case len(place) == 3 && place[0] == "hooks" && strings.HasPrefix(place[2], "#"):
			expected, err = d.removeHook(e, expected)
		default:
			err = d.remove(e)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := d.only(expected); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndo, err)
	}
	d.plan.After = d.doc.text
	return d.plan, nil
}

func (d *draft) undone(format string, e Edit, why string) {
	d.plan.Changes = append(d.plan.Changes, Change{Key: fmt.Sprintf(format, path(e.Path)), Before: e.After, After: e.Before, Why: why})
}

func (d *draft) restore(e Edit) error {
	now := d.doc.find(e.Path)
	if now == nil {
		return nil
	}
	if d.doc.raw(now.value) != e.After {
		d.note("%s is %s by now and stays", path(e.Path), d.doc.raw(now.value))
		return nil
	}
	d.allowed = append(d.allowed, e.Path)
	d.undone("%s", e, "as it was before")
	return d.become(d.doc.replaced(d.plan.File, now.value, e.Before))
}

// remove takes away a key that was inserted, and the table that was inserted for
// it where nothing else is in that.
func (d *draft) remove(e Edit) error {
	now := d.doc.find(e.Path)
	if now == nil {
		return nil
	}
	text, value := e.Text, d.doc.raw(now.value)
	if value != e.After {
		// Whatever is trusted now is a hook that is taken away.
		if !path(e.Path).below(path{"hooks", "state"}) {
			d.note("%s is %s by now and stays", path(e.Path), value)
			return nil
		}
		text = strings.Replace(text, e.After, value, 1)
	}
	d.allowed = append(d.allowed, e.Path)
	place, ok := d.inserted(now, text)
	if !ok {
		return fmt.Errorf("%w: %s:%d: %s was moved into something else", ErrUndo, d.plan.File, d.doc.line(now.whole.from), path(e.Path))
	}
	d.undone("%s", e, "was not there before")
	return d.become(d.doc.replaced(d.plan.File, place, ""))
}

// inserted is the place of what was inserted for a key: the text as it was, or the
// line of the key alone.
func (d *draft) inserted(now *entry, text string) (span, bool) {
	doc := d.doc
	alone := true
	if strings.HasPrefix(strings.TrimSpace(text), "[") { // with the header of its table
		others := 0
		for _, e := range doc.entries {
			if e.header == now.header {
				others++
			}
		}
		alone = others == 1
	}
	written := doc.raw(now.whole)
	if i := strings.Index(text, written); i >= 0 && alone {
		s := span{now.whole.from - i, now.whole.from - i + len(text)}
		if s.from >= doc.start && s.to <= len(doc.text) && doc.raw(s) == text {
			return s, true
		}
	}
	if now.inline {
		return span{}, false
	}
	line := span{doc.lineStart(now.whole.from), doc.lineEnd(now.whole.to)}
	if alone && now.header >= 0 && strings.HasPrefix(strings.TrimSpace(text), "[") {
		line.from = doc.headers[now.header].line
	}
	return line, true
}

// removeHook takes away a hook that was inserted.
func (d *draft) removeHook(e Edit, expected map[string]any) (map[string]any, error) {
	event := e.Path[1]
	all := d.doc.handlers(event)
	i := slices.IndexFunc(all, func(h handler) bool { return IsHook(h.command) && strings.Contains(e.Text, quote(h.command)) })
	if i < 0 {
		if i = slices.IndexFunc(all, func(h handler) bool { return IsHook(h.command) }); i < 0 {
			return expected, nil
		}
		return nil, d.edited(all[i])
	}
	h := all[i]
	start, ok := d.doc.once(e.Text)
	place := span{start, start + len(e.Text)}
	command := d.doc.find(h.path.with("command"))
	if !ok || command == nil || command.whole.from < place.from || command.whole.to > place.to {
		return nil, d.edited(h)
	}
	groups := d.groups(event)
	expected = without(expected, path{"hooks", event, at(h.group)})
	if err := d.become(d.doc.replaced(d.plan.File, place, "")); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndo, err)
	}
	if d.groups(event) != groups-1 {
		return nil, d.edited(h)
	}
	if h.group < groups-1 {
		d.warn("hooks of %s that come after Regent's have other numbers now, so Codex wants them to be trusted anew", event)
	}
	d.plan.Changes = append(d.plan.Changes, Change{Key: "hooks." + event, Before: quote(h.command), Why: "was not there before"})
	return expected, nil
}

func (d *draft) edited(h handler) error {
	line := ""
	if e := d.doc.find(h.path.with("command")); e != nil {
		line = fmt.Sprintf(":%d", d.doc.line(e.whole.from))
	}
	return fmt.Errorf("%w: %s%s: the hook of %s was edited", ErrUndo, d.plan.File, line, h.event)
}

// without is a copy of values in which an element of a list is missing.
func without(values map[string]any, p path) map[string]any {
	var copyOf func(v any, p path) any
	copyOf = func(v any, p path) any {
		switch one := v.(type) {
		case map[string]any:
			if len(p) == 0 {
				return one
			}
			out := map[string]any{}
			for k, v := range one {
				if k == p[0] {
					v = copyOf(v, p[1:])
				}
				out[k] = v
			}
			return out
		case []any:
			out := []any{}
			for i, v := range one {
				if len(p) == 0 || at(i) != p[0] {
					out = append(out, v)
				}
			}
			return out
		}
		return v
	}
	out, _ := copyOf(values, p).(map[string]any)
	return out
}
