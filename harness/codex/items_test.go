package codex

// This test is internal: what is remembered of items shows only in what is made of
// later requests, and it has to be the same whichever way an item was read.

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	patchStarts = `{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange","id":"i","changes":[{"path":"/w/a","kind":{"type":"add"},"diff":"x\n"}]}}}`
	itemStarts  = `{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"plan","id":"i"}}}`
	itemEnds    = `{"method":"item/completed","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange","id":"i"}}}`
)

// closely tells what is remembered of a message after a patch, with the message read
// closely.
func closely(t *testing.T, message []byte) (left []itemKey, err error) {
	t.Helper()
	in := afterPatch(t)
	f, err := decodeFrame(message)
	if err == nil {
		in.notification(f)
	}
	return items(in), err
}

func afterPatch(t *testing.T) *Intake {
	t.Helper()
	in := new(Intake)
	if _, err := in.Message([]byte(patchStarts)); err != nil || len(items(in)) != 1 {
		t.Fatalf("%v is remembered, %v", items(in), err)
	}
	return in
}

func items(in *Intake) []itemKey { return slices.Collect(maps.Keys(in.items.values)) }

// readsAlike fails where a message that is taken in passing would be taken otherwise
// if it were read closely.
func readsAlike(t *testing.T, message []byte) (passes bool) {
	t.Helper()
	method, id, ok := scan(message)
	if !ok || id != nil {
		return false
	}
	in := afterPatch(t)
	if !in.passing(message, string(method)) {
		return false
	}
	want, err := closely(t, message)
	if err != nil {
		t.Errorf("%s passes, and is malformed: %v", message, err)
	}
	if diff := cmp.Diff(want, items(in), cmp.AllowUnexported(itemKey{})); diff != "" {
		t.Errorf("after %s is remembered (-want +got):\n%s", message, diff)
	}
	return true
}

func TestItemsInPassing(t *testing.T) {
	for _, test := range []struct {
		name, message string
		passes        bool
	}{
		{"another item of the same id", itemStarts, true},
		{"an item of another id", strings.Replace(itemStarts, `"i"`, `"j"`, 1), true},
		{"an item of another thread", strings.Replace(itemStarts, `"t"`, `"s"`, 1), true},
		{"the end of an item", itemEnds, true},
		{"an item without an id", strings.Replace(itemStarts, `"i"`, `""`, 1), true},
		{"no parameters", `{"method":"item/started","params":null}`, true},

		{"a patch", patchStarts, false},
		{"a call of a tool", strings.Replace(itemStarts, "plan", "mcpToolCall", 1), false},
		{"an item that is no object", `{"method":"item/started","params":{"threadId":"t","turnId":"u","item":[]}}`, false},
		{"an id that is no text", strings.Replace(itemStarts, `"i"`, `7`, 1), false},
		{"a turn that is no text", strings.Replace(itemStarts, `"u"`, `7`, 1), false},
		{"a name given twice", strings.Replace(itemStarts, `"id":"i"`, `"id":"j","id":"i"`, 1), false},
		{"a name given twice in what is of no interest", strings.Replace(itemStarts, `"id":"i"`, `"id":"i","x":{"y":1,"y":2}`, 1), false},
		{"text that is no UTF-8", strings.Replace(itemStarts, "plan", "plan\xff", 1), false},
		{"another message", strings.Replace(itemEnds, "item", "turn", 1), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if passes := readsAlike(t, []byte(test.message)); passes != test.passes {
				t.Errorf("it passes: %v", passes)
			}
		})
	}
	// What is malformed ends the connection, as it does where it is read closely.
	for _, part := range []string{`"id":"j","id":"i"`, "\"id\":\"\xff\""} {
		if _, err := NewCodec(Options{}).FromServer([]byte(strings.Replace(itemStarts, `"id":"i"`, part, 1))); err == nil {
			t.Errorf("an item with %q is taken", part)
		}
	}
}

func FuzzItems(f *testing.F) {
	for _, frame := range recordedFrames(f) {
		f.Add(frame)
	}
	f.Add([]byte(itemStarts))
	f.Add([]byte(itemEnds))
	f.Fuzz(func(t *testing.T, message []byte) { readsAlike(t, message) })
}
