package main

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// keyName is a key that is no character.
type keyName string

const (
	keyRune      keyName = "" // a character
	keyUp        keyName = "up"
	keyDown      keyName = "down"
	keyPageUp    keyName = "page up"
	keyPageDown  keyName = "page down"
	keyHome      keyName = "home"
	keyEnd       keyName = "end"
	keyEnter     keyName = "enter"
	keyEscape    keyName = "escape"
	keyBackspace keyName = "backspace"
	keyInterrupt keyName = "interrupt"
	keyRedraw    keyName = "redraw"
	keyOther     keyName = "other"
)

// key is one key that was pressed.
type key struct {
	name keyName
	char rune
	// pasted characters were not typed.
	pasted bool
}

// keyReader makes keys of what a terminal in raw mode sends. A sequence can come
// in several pieces.
type keyReader struct {
	rest    []byte
	pasting bool
}

const (
	escape     = 0x1b
	pasteStart = "200~"
	pasteEnd   = "201~"
	// maxSequence bounds a sequence without an end.
	maxSequence = 64
)

var sequences = map[string]keyName{
	"A": keyUp, "B": keyDown, "H": keyHome, "F": keyEnd,
	"1~": keyHome, "7~": keyHome, "4~": keyEnd, "8~": keyEnd, "5~": keyPageUp, "6~": keyPageDown,
}

var controls = map[byte]keyName{
	0x03: keyInterrupt, '\r': keyEnter, '\n': keyEnter, 0x7f: keyBackspace, 0x08: keyBackspace, 0x0c: keyRedraw,
	0x10: keyUp, 0x0e: keyDown,
}

// read takes what came and returns the keys that are complete.
func (k *keyReader) read(data []byte) []key {
	k.rest = append(k.rest, data...)
	var keys []key
	for len(k.rest) > 0 {
		n := k.next(&keys)
		if n == 0 {
			break
		}
		k.rest = k.rest[n:]
	}
	return keys
}

// next adds the first key of the rest and returns its length, 0 if it is not
// complete.
func (k *keyReader) next(keys *[]key) int {
	b := k.rest[0]
	switch {
	case b == escape:
		return k.sequence(keys)
	case b < 0x20 || b == 0x7f:
		name, ok := controls[b]
		switch {
		case k.pasting && name == keyEnter, k.pasting && b == '\t':
			*keys = append(*keys, key{char: ' ', pasted: true})
		case k.pasting:
		case ok:
			*keys = append(*keys, key{name: name})
		default:
			*keys = append(*keys, key{name: keyOther})
		}
		return 1
	case !utf8.FullRune(k.rest):
		return 0
	}
	r, n := utf8.DecodeRune(k.rest)
	*keys = append(*keys, key{char: r, pasted: k.pasting})
	return n
}

// sequence reads what begins with an escape.
func (k *keyReader) sequence(keys *[]key) int {
	if len(k.rest) == 1 {
		return 0
	}
	if kind := k.rest[1]; kind != '[' && kind != 'O' {
		if kind == escape {
			*keys = append(*keys, key{name: keyEscape})
			return 1
		}
		*keys = append(*keys, key{name: keyOther}) // a key with Alt
		return 2
	}
	end := bytes.IndexFunc(k.rest[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
	if end < 0 {
		if len(k.rest) > maxSequence {
			return len(k.rest)
		}
		return 0
	}
	text := string(k.rest[2 : 2+end+1])
	switch text {
	case pasteStart:
		k.pasting = true
	case pasteEnd:
		k.pasting = false
	default:
		// Shift, Alt and Ctrl add parameters; the key is the same.
		if i := strings.IndexByte(text, ';'); i >= 0 {
			text = strings.TrimPrefix(text[:i], "1") + text[len(text)-1:]
		}
		name, ok := sequences[text]
		if !ok {
			name = keyOther
		}
		if !k.pasting {
			*keys = append(*keys, key{name: name})
		}
	}
	return 2 + end + 1
}

// waits says whether something has come that may be part of a sequence.
func (k *keyReader) waits() bool { return len(k.rest) > 0 }

// flush is for when nothing has followed for a while: an escape by itself is the
// key of that name.
func (k *keyReader) flush() []key {
	alone := len(k.rest) == 1 && k.rest[0] == escape
	k.rest = nil
	if alone {
		return []key{{name: keyEscape}}
	}
	return nil
}
