package codex

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// peeker reads the method and the id of a message, and looks at nothing else
// more closely than it has to: most messages only pass through.
type peeker struct {
	reader  bytes.Reader
	decoder *jsontext.Decoder
	// last is the method of the message before, which the next one mostly shares.
	last string
}

// look returns the method, "" for none, and the id as it stands, nil for none. The
// id is valid as long as the message.
func (p *peeker) look(message []byte) (method string, id []byte, err error) {
	name, id, ok := scan(message)
	if !ok {
		return p.decode(message)
	}
	if string(name) != p.last {
		p.last = string(name)
	}
	return p.last, id, nil
}

// decode is look for every message there is, and has the last word on those that
// scan is not sure of.
func (p *peeker) decode(message []byte) (method string, id []byte, err error) {
	if p.decoder == nil {
		p.decoder = jsontext.NewDecoder(&p.reader, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	}
	p.reader.Reset(message)
	d := p.decoder
	d.Reset(&p.reader, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	malformed := func(err error) (string, []byte, error) { return "", nil, fmt.Errorf("%w: %w", ErrFrame, err) }
	if k := d.PeekKind(); k != '{' {
		return "", nil, fmt.Errorf("%w: not an object", ErrFrame)
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed(err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return malformed(err)
		}
		switch string(name) {
		case `"method"`:
			value, err := d.ReadToken()
			if err != nil {
				return malformed(err)
			}
			if value.Kind() != '"' || method != "" {
				return "", nil, fmt.Errorf("%w: the method is no text, or given twice", ErrFrame)
			}
			method = value.String()
		case `"id"`:
			value, err := d.ReadValue()
			if err != nil {
				return malformed(err)
			}
			if id != nil {
				return "", nil, fmt.Errorf("%w: the id is given twice", ErrFrame)
			}
			id = bytes.Clone(value)
		default:
			if bytes.IndexByte(name, '\\') >= 0 {
				return "", nil, fmt.Errorf("%w: a name in another spelling", ErrFrame)
			}
			if err := d.SkipValue(); err != nil {
				return malformed(err)
			}
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed(err)
	}
	if rest := message[d.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return "", nil, fmt.Errorf("%w: something follows the object", ErrFrame)
	}
	return method, id, nil
}

// scan is look for a message as servers write them. It is not ok where that would
// take a closer look, such as at a name given twice or an escape in one, and for all
// that is no JSON: it may be wrong to be unsure, and never to be sure.
func scan(m []byte) (method, id []byte, ok bool) {
	i := space(m, 0)
	if at(m, i) != '{' {
		return nil, nil, false
	}
	if i = space(m, i+1); at(m, i) == '}' {
		return nil, nil, space(m, i+1) == len(m)
	}
	for {
		begin := i
		if i = endOfText(m, i); i < 0 {
			return nil, nil, false
		}
		name := m[begin+1 : i-1]
		if i = colon(m, i); i < 0 {
			return nil, nil, false
		}
		i = space(m, i)
		begin = i
		if i = endOfValue(m, i); i < 0 {
			return nil, nil, false
		}
		value := m[begin:i]
		switch string(name) {
		case "method":
			if len(method) > 0 || value[0] != '"' || len(value) < 3 || !plainText(value) {
				return nil, nil, false
			}
			method = value[1 : len(value)-1]
		case "id":
			if id != nil || !plainText(value) {
				return nil, nil, false
			}
			id = value[:len(value):len(value)]
		default:
			if bytes.IndexByte(name, '\\') >= 0 {
				return nil, nil, false
			}
		}
		i = space(m, i)
		switch at(m, i) {
		case ',':
			i = space(m, i+1)
		case '}':
			return method, id, space(m, i+1) == len(m)
		default:
			return nil, nil, false
		}
	}
}

// plainText says that a value is nothing but ASCII without escapes, so that it
// stands for itself.
func plainText(value []byte) bool {
	for _, c := range value {
		if c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

// at is the byte at i, or 0, which no message has outside of its texts.
func at(m []byte, i int) byte {
	if i < len(m) {
		return m[i]
	}
	return 0
}

func space(m []byte, i int) int {
	for i < len(m) && (m[i] == ' ' || m[i] == '\n' || m[i] == '\r' || m[i] == '\t') {
		i++
	}
	return i
}

// colon returns where the value of the name that ends at i may begin, or -1.
func colon(m []byte, i int) int {
	if i = space(m, i); at(m, i) != ':' {
		return -1
	}
	return i + 1
}

// endOfValue returns where the value at i ends, or -1 where none is there, or one that is
// nested deeper than 64 times.
func endOfValue(m []byte, i int) int {
	var objects uint64 // a bit for each value around, the innermost last
	depth := 0
	for {
		i = space(m, i)
		switch c := at(m, i); c {
		case '"':
			i = endOfText(m, i)
		case '{', '[':
			if depth == 64 {
				return -1
			}
			depth++
			objects <<= 1
			i = space(m, i+1)
			// An empty one is closed below, as others are.
			switch {
			case c == '[' && at(m, i) != ']':
				continue
			case c == '{':
				objects |= 1
				if at(m, i) == '}' {
					break
				}
				if i = member(m, i); i < 0 {
					return -1
				}
				continue
			}
		case 't':
			i = endOfWord(m, i, "true")
		case 'f':
			i = endOfWord(m, i, "false")
		case 'n':
			i = endOfWord(m, i, "null")
		default:
			i = endOfNumber(m, i)
		}
		if i < 0 {
			return -1
		}
		for {
			if depth == 0 {
				return i
			}
			i = space(m, i)
			c, object := at(m, i), objects&1 == 1
			if object && c == '}' || !object && c == ']' {
				depth--
				objects >>= 1
				i++
				continue
			}
			break
		}
		if at(m, i) != ',' {
			return -1
		}
		i++
		if objects&1 == 1 {
			if i = member(m, space(m, i)); i < 0 {
				return -1
			}
		}
	}
}

// member returns where the value of the name at i may begin, or -1.
func member(m []byte, i int) int {
	if i = endOfText(m, i); i < 0 {
		return -1
	}
	return colon(m, i)
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// endOfText returns where the text at i ends, or -1 where none is there, or one with
// an escape for half a character.
func endOfText(m []byte, i int) int {
	if at(m, i) != '"' {
		return -1
	}
	for i++; ; {
		// Eight bytes at a time, as long as none of them ends the text, begins an escape
		// or is a control character. A byte above 0x7f is none of these. What is found
		// first is there; only what follows it may not be.
		for len(m)-i >= 8 {
			x := binary.LittleEndian.Uint64(m[i:])
			quote, escape := x^'"'*ones, x^'\\'*ones
			found := ((x-' '*ones)&^x | (quote-ones)&^quote | (escape-ones)&^escape) & highs
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		switch c := at(m, i); {
		case c == '"':
			return i + 1
		case c == '\\':
			switch at(m, i+1) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if !escaped(m, i+2) {
					return -1
				}
				i += 6
			default:
				return -1
			}
		case c < ' ':
			return -1
		default:
			i++
		}
	}
}

// escaped says that the four digits at i stand for a character by themselves.
func escaped(m []byte, i int) bool {
	if len(m)-i < 4 {
		return false
	}
	var r rune
	for _, c := range m[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return false
		}
		r = r<<4 | rune(c)
	}
	return !utf16.IsSurrogate(r)
}

// endOfNumber returns where the number at i ends, or -1 where none is there.
func endOfNumber(m []byte, i int) int {
	digits := func() bool {
		begin := i
		for c := at(m, i); c >= '0' && c <= '9'; c = at(m, i) {
			i++
		}
		return i > begin
	}
	if at(m, i) == '-' {
		i++
	}
	if at(m, i) == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if at(m, i) == '.' {
		i++
		if !digits() {
			return -1
		}
	}
	if c := at(m, i); c == 'e' || c == 'E' {
		i++
		if c := at(m, i); c == '+' || c == '-' {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}

func endOfWord(m []byte, i int, word string) int {
	if len(m)-i < len(word) || string(m[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}
