package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		columns    int
		want       string
	}{
		{"what fits stays", "abc", 3, "abc"},
		{"what does not is cut, and that shows", "abcd", 3, "ab…"},
		{"wide characters take two columns", "語語", 4, "語語"},
		{"a wide character is not cut in half", "語語", 3, "語…"},
		{"combining marks take none", "e\u0301x", 2, "e\u0301x"},
		{"no room", "abc", 0, ""},
	} {
		if got := fit(tt.text, tt.columns); got != tt.want {
			t.Errorf("%s: fit = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		name, text      string
		columns, indent int
		want            []string
	}{
		{"one line", "abc", 3, 1, []string{"abc"}},
		{"the rest is further in", "abcdef", 4, 2, []string{"abcd", "  ef"}},
		{"spaces are kept", "ab  cd", 4, 1, []string{"ab  ", " cd"}},
		{"wide characters", "語語語", 4, 0, []string{"語語", "語"}},
		{"an indent that leaves no room is left out", "abcdef", 2, 5, []string{"ab", "cd", "ef"}},
		{"nothing", "", 4, 2, []string{""}},
	} {
		if diff := cmp.Diff(tt.want, wrap(tt.text, tt.columns, tt.indent)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestDrawWritesWhatChanged(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	draw := func(rows ...row) string {
		t.Helper()
		out.Reset()
		if err := s.draw(rows, 10); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got, want := draw(row{text: "one"}, row{text: "two", style: styleAlert}), "\x1b[1;1H\x1b[2Kone\x1b[2;1H\x1b[2Ktwo"; got != want {
		t.Errorf("first = %q, want %q", got, want)
	}
	if got, want := draw(row{text: "one"}, row{text: "new"}), "\x1b[2;1H\x1b[2Knew"; got != want {
		t.Errorf("second = %q, want %q", got, want)
	}
	s.colour = true
	if got, want := draw(row{text: "one"}, row{text: "red", style: styleAlert}), "\x1b[2;1H\x1b[2K\x1b[1;31mred\x1b[0m"; got != want {
		t.Errorf("with colour = %q, want %q", got, want)
	}
	if got := draw(row{text: "one"}); !strings.Contains(got, "one") {
		t.Errorf("another size drew %q, want all of it", got)
	}
	dumb := &screen{out: &out, dumb: true}
	out.Reset()
	if err := dumb.draw([]row{{text: "one"}, {}, {text: "two", style: styleAlert}}, 10); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "one\r\ntwo\r\n\r\n"; got != want {
		t.Errorf("a dumb terminal got %q, want %q", got, want)
	}
}
