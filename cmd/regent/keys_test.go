package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func char(r rune) key { return key{char: r} }

func TestKeysOfATerminal(t *testing.T) {
	for _, tt := range []struct {
		name, sent string
		want       []key
	}{
		{"a letter", "j", []key{char('j')}},
		{"letters at once", "1y", []key{char('1'), char('y')}},
		{"a letter of several bytes", "ü語", []key{char('ü'), char('語')}},
		{"arrows", "\x1b[A\x1b[B", []key{{name: keyUp}, {name: keyDown}}},
		{"arrows in application mode", "\x1bOA\x1bOB", []key{{name: keyUp}, {name: keyDown}}},
		{"an arrow with Ctrl", "\x1b[1;5A", []key{{name: keyUp}}},
		{"pages", "\x1b[5~\x1b[6~", []key{{name: keyPageUp}, {name: keyPageDown}}},
		{"home and end of several terminals", "\x1b[H\x1b[1~\x1b[7~\x1b[F\x1b[4~", []key{{name: keyHome}, {name: keyHome}, {name: keyHome}, {name: keyEnd}, {name: keyEnd}}},
		{"enter and backspace", "\r\n\x7f\x08", []key{{name: keyEnter}, {name: keyEnter}, {name: keyBackspace}, {name: keyBackspace}}},
		{"Ctrl-C", "\x03", []key{{name: keyInterrupt}}},
		{"a key that is not known", "\x1b[15~\x01", []key{{name: keyOther}, {name: keyOther}}},
		{"Alt with a letter is not the letter", "\x1by", []key{{name: keyOther}}},
		{"escape twice", "\x1b\x1b[A", []key{{name: keyEscape}, {name: keyUp}}},
		{"what was pasted is marked", "\x1b[200~1y\n\x1b[201~q", []key{{char: '1', pasted: true}, {char: 'y', pasted: true}, {char: ' ', pasted: true}, char('q')}},
		{"keys in what was pasted are none", "\x1b[200~\x1b[A\x03\x1b[201~", nil},
		{"a sequence that is not complete", "\x1b[1", nil},
		{"a letter that is not complete", "\xe8\xaa", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var k keyReader
			if diff := cmp.Diff(tt.want, k.read([]byte(tt.sent)), cmp.AllowUnexported(key{})); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEscapeByItselfIsAKeyOnceNothingFollows(t *testing.T) {
	var k keyReader
	if keys := k.read([]byte("\x1b")); len(keys) != 0 || !k.waits() {
		t.Fatalf("keys %v, waits %t, want to wait for more", keys, k.waits())
	}
	if diff := cmp.Diff([]key{{name: keyEscape}}, k.flush(), cmp.AllowUnexported(key{})); diff != "" || k.waits() {
		t.Errorf("flush (-want +got):\n%s", diff)
	}
	k.read([]byte("\x1b[1"))
	if keys := k.flush(); len(keys) != 0 {
		t.Errorf("half a sequence is the keys %v, want none", keys)
	}
}

func TestASequenceWithoutEndIsDropped(t *testing.T) {
	var k keyReader
	k.read([]byte("\x1b["))
	for range 2 * maxSequence {
		k.read([]byte("1"))
	}
	if keys := k.read([]byte("q")); len(k.rest) > maxSequence || len(keys) == 0 {
		t.Errorf("%d bytes are kept, keys %v", len(k.rest), keys)
	}
}

// FuzzKeys holds that it does not matter in which pieces keys arrive.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"1y", "\x1b[A", "\x1b[200~a\x1b[201~b", "ü\x1b\x1b[", "\xff\x1bO"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		if len(sent) > maxSequence {
			return // the bound on a sequence goes by what has come so far
		}
		var whole, pieces keyReader
		want := whole.read([]byte(sent))
		var got []key
		for i := range len(sent) {
			got = append(got, pieces.read([]byte{sent[i]})...)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(key{})); diff != "" {
			t.Errorf("keys of %q at once and byte by byte (-want +got):\n%s", sent, diff)
		}
		if diff := cmp.Diff(whole.rest, pieces.rest); diff != "" && len(whole.rest)+len(pieces.rest) > 0 {
			t.Errorf("what is left (-want +got):\n%s", diff)
		}
	})
}
