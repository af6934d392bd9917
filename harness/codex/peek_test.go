package codex

// This test is internal: whatever the scanner is sure of has to be what the decoder
// says, and nobody outside sees which of them has read a message.

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// agrees fails where the scanner is sure of what the decoder does not say.
func agrees(t *testing.T, message []byte) (sure bool) {
	t.Helper()
	method, id, sure := scan(message)
	if !sure {
		return false
	}
	wantMethod, wantID, err := new(peeker).decode(message)
	if err != nil || string(method) != wantMethod || !bytes.Equal(id, wantID) || (id == nil) != (wantID == nil) {
		t.Errorf("%q: the scanner reads %q and %q, the decoder %q and %q, %v", message, method, id, wantMethod, wantID, err)
	}
	return true
}

func recordedFrames(tb testing.TB) (frames [][]byte) {
	tb.Helper()
	names, err := filepath.Glob("testdata/frames/*/*.jsonl")
	if err != nil || len(names) == 0 {
		tb.Fatalf("%d recordings, %v", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			// The frame of a recording is its last member.
			_, frame, ok := bytes.Cut(bytes.TrimSpace(line), []byte(`"frame":`))
			if !ok {
				tb.Fatalf("%s: %s", name, line)
			}
			frames = append(frames, bytes.TrimSpace(frame[:len(frame)-1]))
		}
	}
	return frames
}

func TestScannerIsSureOfRecordedFrames(t *testing.T) {
	for _, frame := range recordedFrames(t) {
		if !agrees(t, frame) {
			t.Errorf("it is not sure of %s", frame)
		}
	}
}

func TestWhatTheScannerIsSureOf(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, test := range []struct {
		name, message string
		sure          bool
	}{
		{"nothing in it", `{}`, true},
		{"space wherever there may be some", " {\t\"id\" : 1 ,\r\n\"method\" : \"a\" , \"b\" : [ ] , \"c\" : { } }\n", true},
		{"every kind of value", `{"a":[1,-0.5e+7,0,"x",true,false,null,{"b":{}},[[]]],"method":"m"}`, true},
		{"escapes in a value", `{"a":"\"\\\/\b\f\n\r\t\u00e9","method":"m"}`, true},
		{"a name of a value within twice", `{"a":{"method":1,"method":2},"method":"m"}`, true},
		{"text that is no UTF-8", "{\"a\":\"\xff\xfe\",\"method\":\"m\"}", true},
		{"a text id", `{"id":"7","method":"m"}`, true},
		{"as deep as it looks", `{"a":` + deep(64) + `}`, true},

		{"deeper", `{"a":` + deep(65) + `}`, false},
		{"half a character", `{"a":"\ud83d"}`, false},
		{"the method in another spelling", `{"\u006dethod":"m"}`, false},
		{"a method in another spelling", `{"method":"\u006d"}`, false},
		{"a method beyond ASCII", `{"method":"é"}`, false},
		{"no method to speak of", `{"method":""}`, false},
		{"a method that is none", `{"method":7}`, false},
		{"the method twice", `{"method":"a","method":"b"}`, false},
		{"the id twice", `{"id":1,"id":2}`, false},
		{"an id in another spelling", `{"id":"\u0037"}`, false},
		{"something behind", `{"method":"a"} {}`, false},
		{"nothing", ``, false},
		{"no object", `[]`, false},
		{"half an object", `{"a":1`, false},
		{"a comma too many", `{"a":1,}`, false},
		{"a comma too many in an array", `{"a":[1,]}`, false},
		{"a comma too many within", `{"a":{"b":1,}}`, false},
		{"the wrong bracket", `{"a":[1}]`, false},
		{"no colon", `{"a" 1}`, false},
		{"no name", `{1:1}`, false},
		{"no name within", `{"a":{1:1}}`, false},
		{"a control character in a text", "{\"a\":\"some text \x01 and more\"}", false},
		{"a text that does not end", `{"a":"and more of it`, false},
		{"an unknown escape", `{"a":"\x"}`, false},
		{"half an escape", `{"a":"\u12`, false},
		{"a number that begins with zero", `{"a":01}`, false},
		{"a number that ends with a point", `{"a":1.}`, false},
		{"a number without an exponent", `{"a":1e}`, false},
		{"a sign alone", `{"a":-}`, false},
		{"a word that is cut short", `{"a":tru}`, false},
		{"a word with more to it", `{"a":nulls}`, false},
		{"a byte order mark", "\ufeff{}", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if sure := agrees(t, []byte(test.message)); sure != test.sure {
				t.Errorf("it is sure of %s: %v", test.message, sure)
			}
		})
	}
}

// A byte anywhere in a text is read as the decoder reads it, wherever the eight
// bytes begin that are looked at together.
func TestScannerAgreesOnEveryByteOfAText(t *testing.T) {
	for b := range 256 {
		for shift := range 9 {
			for length := range 18 {
				fill := strings.Repeat("x", shift) + string([]byte{byte(b)}) + strings.Repeat("!", length)
				agrees(t, []byte(`{"p":"`+fill+`","id":1}`))
				agrees(t, []byte(`{"p":"`+fill+`"}`))
			}
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, frame := range recordedFrames(f) {
		f.Add(frame)
	}
	f.Add([]byte(`{"a":[1,-0.5e+7,0,"x",true,false,null,{"b":{}},[[]]],"method":"m"}`))
	f.Fuzz(func(t *testing.T, message []byte) { agrees(t, message) })
}
