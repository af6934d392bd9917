package codex

import (
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
)

// What an Intake remembers is bounded. An item that fell out of it is missing
// to the request that refers to it, which a human is told.
const (
	maxItems   = 512
	maxThreads = 512
	maxChanges = 4096
	// maxDiff is how many bytes of diffs one item may keep. Diffs are for people
	// to read; the paths are always kept.
	maxDiff = 1 << 20
)

// The types of items that requests refer to.
const (
	fileItem = "fileChange"
	mcpItem  = "mcpToolCall"
)

// itemKey names an item. Item ids repeat between threads: they are the model's
// call ids, such as call-1.
type itemKey struct{ thread, id string }

// item is what a request may refer to: the changes of a patch or a call of an
// MCP tool.
type item struct {
	turn    string
	changes []approval.Change
	call    *mcpCall
}

type mcpCall struct {
	server, tool string
	arguments    string // canonical, "" for none
	readOnly     *bool
}

// bounded is a map that forgets its oldest keys.
type bounded[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K
}

func (b *bounded[K, V]) put(key K, v V) {
	b.drop(key)
	if b.values == nil {
		b.values = map[K]V{}
	}
	if len(b.order) >= b.limit {
		b.drop(b.order[0])
	}
	b.values[key] = v
	b.order = append(b.order, key)
}

func (b *bounded[K, V]) drop(key K) {
	if _, ok := b.values[key]; !ok {
		return
	}
	delete(b.values, key)
	i := slices.Index(b.order, key)
	b.order = slices.Delete(b.order, i, i+1)
}

// wireItem is the part of an item/started that requests refer to.
type wireItem struct {
	Type         string         `json:"type"`
	ID           string         `json:"id"`
	Changes      []wireChange   `json:"changes"`
	Server       string         `json:"server"`
	Tool         string         `json:"tool"`
	Arguments    jsontext.Value `json:"arguments"`
	ReadOnlyHint *bool          `json:"readOnlyHint"`
}

type wireChange struct {
	Path string `json:"path"`
	Kind struct {
		Type     string `json:"type"`
		MovePath string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

// passing takes the start or the end of an item of which nothing is remembered, in
// one go: most are such. It is false for all others and for what is not as it should
// be, which has to be read closely.
func (in *Intake) passing(message []byte, method string) bool {
	if method != itemStarted && method != itemCompleted {
		return false
	}
	var f struct {
		Params struct {
			ThreadID string `json:"threadId"`
			TurnID   string `json:"turnId"`
			Item     struct {
				Type string `json:"type"`
				ID   string `json:"id"`
			} `json:"item"`
		} `json:"params"`
	}
	if jsonv2.Unmarshal(message, &f) != nil {
		return false
	}
	item := f.Params.Item
	if method == itemStarted && (item.Type == fileItem || item.Type == mcpItem) {
		return false
	}
	in.items.drop(itemKey{f.Params.ThreadID, item.ID})
	return true
}

// started remembers an item. One that cannot be read is not remembered.
func (in *Intake) started(params jsontext.Value) {
	var p struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Item     struct {
			Type string `json:"type"`
			ID   string `json:"id"`
		} `json:"item"`
	}
	if jsonv2.Unmarshal(params, &p) != nil || p.Item.ID == "" || p.ThreadID == "" {
		return
	}
	key := itemKey{p.ThreadID, p.Item.ID}
	// A second start under the same id must not leave the first one's content.
	in.items.drop(key)
	switch p.Item.Type {
	case fileItem, mcpItem:
	default:
		return // most items are messages and commands, which no request refers to
	}
	var whole struct {
		Item wireItem `json:"item"`
	}
	if jsonv2.Unmarshal(params, &whole) != nil {
		return
	}
	w := whole.Item
	switch w.Type {
	case fileItem:
		if changes := changesOf(w.Changes); changes != nil {
			in.items.put(key, item{turn: p.TurnID, changes: changes})
		}
	case mcpItem:
		if w.Server != "" && w.Tool != "" {
			in.items.put(key, item{turn: p.TurnID, call: &mcpCall{
				server: w.Server, tool: w.Tool, arguments: canonical(w.Arguments), readOnly: w.ReadOnlyHint,
			}})
		}
	}
}

func (in *Intake) completed(params jsontext.Value) {
	var p struct {
		ThreadID string `json:"threadId"`
		Item     struct {
			ID string `json:"id"`
		} `json:"item"`
	}
	if jsonv2.Unmarshal(params, &p) == nil {
		in.items.drop(itemKey{p.ThreadID, p.Item.ID})
	}
}

// changesOf is nil unless every change is understood: half a patch would pass
// for the whole.
func changesOf(wire []wireChange) []approval.Change {
	if len(wire) == 0 || len(wire) > maxChanges {
		return nil
	}
	diffs := 0
	for _, w := range wire {
		diffs += len(w.Diff)
	}
	out := make([]approval.Change, 0, len(wire))
	for _, w := range wire {
		c := approval.Change{Path: w.Path, Operation: w.Kind.Type, MovePath: w.Kind.MovePath}
		if diffs <= maxDiff {
			c.Diff = w.Diff
		}
		switch c.Operation {
		case "add", "update", "delete":
		default:
			return nil
		}
		if c.Path == "" {
			return nil
		}
		out = append(out, c)
	}
	return out
}

// canonical is JSON text in the one form in which equal values are equal texts;
// null, {} and nothing are all no arguments.
func canonical(raw jsontext.Value) string {
	if null(raw) {
		return ""
	}
	v := raw.Clone()
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return string(raw)
	}
	if string(v) == "{}" {
		return ""
	}
	return string(v)
}

// calls lists the MCP calls that are under way in a turn with that server and
// those arguments. The turn of a request may be missing.
func (in *Intake) calls(thread, turn, server, arguments string) (ids []string, found []*mcpCall) {
	for key, one := range in.items.values {
		c := one.call
		if c == nil || key.thread != thread || c.server != server || c.arguments != arguments || turn != "" && one.turn != turn {
			continue
		}
		ids, found = append(ids, key.id), append(found, c)
	}
	return ids, found
}
