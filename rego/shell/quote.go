package shell

import (
	"strings"
	"unicode/utf8"
)

// ansiC decodes the inside of $'..' as bash does. It reports false where
// shells differ or where the result is no text: the value is then a best guess.
func ansiC(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	var b strings.Builder
	b.Grow(len(s))
	sure := true
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'e', 'E':
			b.WriteByte(0x1b)
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, w := number(s[i:], 3, 8)
			i += w - 1
			b.WriteByte(byte(n))
			sure = sure && byte(n) != 0
		case 'x':
			n, w := number(s[i+1:], 2, 16)
			i += w
			b.WriteByte(byte(n))
			sure = sure && w > 0 && n != 0
		case 'u', 'U':
			digits := 4
			if c == 'U' {
				digits = 8
			}
			n, w := number(s[i+1:], digits, 16)
			i += w
			b.WriteRune(rune(n))
			sure = sure && w == digits && n != 0 && n <= utf8.MaxRune
		default:
			// \cx, \C-x, \M-x and what is no escape at all.
			b.WriteByte('\\')
			b.WriteByte(c)
			sure = false
		}
	}
	out := b.String()
	if !utf8.ValidString(out) {
		return strings.ToValidUTF8(out, "\uFFFD"), false
	}
	return out, sure
}

// number reads up to digits digits of the base and tells how many there were.
func number(s string, digits int, base uint32) (n uint32, width int) {
	for width < digits && width < len(s) {
		var d uint32
		switch c := s[width]; {
		case '0' <= c && c <= '9':
			d = uint32(c - '0')
		case 'a' <= c && c <= 'f':
			d = uint32(c-'a') + 10
		case 'A' <= c && c <= 'F':
			d = uint32(c-'A') + 10
		default:
			return n, width
		}
		if d >= base {
			return n, width
		}
		n = n*base + d
		width++
	}
	return n, width
}
