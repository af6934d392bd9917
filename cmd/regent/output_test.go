package main

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain text stays", "git push – größer 日本", "git push – größer 日本"},
		{"a newline shows", "a\nb", `a\nb`},
		{"terminal escapes show", "\x1b[2Jok", `\x1b[2Jok`},
		{"the eight-bit form shows too", "\u009b2J", `\u009b2J`},
		{"text is not reversed", "a\u202eb\u2066c", `a\u202eb\u2066c`},
		{"what cannot be seen shows", "a\u200bb\u00a0c", `a\u200bb\u00a0c`},
		{"a carriage return does not overwrite", "evil\rgood", `evil\rgood`},
		{"bytes that are no text show", "a\xffb", `a\xffb`},
		{"a replacement character stays", "a\ufffdb\n", "a\ufffdb\\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := printable(tt.text); got != tt.want {
				t.Errorf("printable(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[0m\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := printable(text)
		if strings.ContainsFunc(got, func(r rune) bool {
			return r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e)
		}) {
			t.Errorf("printable(%q) = %q holds a control character", text, got)
		}
		if again := printable(got); again != got {
			t.Errorf("printable(%q) = %q, then %q", text, got, again)
		}
	})
}

func TestLinesOfABlockCannotFakeOthers(t *testing.T) {
	b := &block{}
	b.lines("why", []string{"one\n  effects     none", "two"})
	want := "  why         one\n                  effects     none\n              two\n"
	if got := b.b.String(); got != want {
		t.Errorf("block = %q, want %q", got, want)
	}
}

func TestRanges(t *testing.T) {
	for want, lines := range map[string][]int{
		"":               nil,
		"7":              {7},
		"1-3, 5, 8-9":    {1, 2, 3, 5, 8, 9},
		"10, 12, 14, 16": {10, 12, 14, 16},
	} {
		if got := ranges(lines); got != want {
			t.Errorf("ranges(%v) = %q, want %q", lines, got, want)
		}
	}
}
