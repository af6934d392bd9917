package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/rego"
)

// fault is what is wrong with a place of a case file.
type fault struct {
	line, column int
	message      string
	hint         string
}

func (f *fault) Error() string { return f.message }

func (f *fault) problem(file string) rego.Problem {
	return rego.Problem{File: file, Line: f.line, Column: f.column, Message: f.message, Hint: f.hint}
}

func faultf(n *yaml.Node, format string, args ...any) *fault {
	return &fault{line: n.Line, column: n.Column, message: fmt.Sprintf(format, args...)}
}

// fields walks over a mapping and gives each value to the function that its key
// names. A key that names none, and one that stands twice, is a fault.
func fields(n *yaml.Node, of string, read map[string]func(*yaml.Node) *fault) []*fault {
	if n.Kind != yaml.MappingNode {
		return []*fault{faultf(n, "%s must be a mapping", of)}
	}
	var faults []*fault
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, f := keyOf(key, seen)
		if f == nil {
			if set := read[name]; set != nil {
				f = set(value)
			} else {
				f = faultf(key, "%s has no key %s", of, name)
				f.hint = suggestion(name, read)
			}
		}
		if f != nil {
			faults = append(faults, f)
		}
	}
	return faults
}

func keyOf(key *yaml.Node, seen map[string]bool) (string, *fault) {
	if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
		f := faultf(key, "a key must be text")
		if key.ShortTag() == "!!merge" {
			f = faultf(key, "merge keys are not read")
			f.hint = "what all cases share goes into settings, data and environment at the top of the file"
		} else if key.Kind == yaml.ScalarNode {
			f.hint = fmt.Sprintf("quote it: %q", key.Value)
		}
		return "", f
	}
	if seen[key.Value] {
		return "", faultf(key, "the key %s stands here twice", key.Value)
	}
	seen[key.Value] = true
	return key.Value, nil
}

func suggestion(name string, read map[string]func(*yaml.Node) *fault) string {
	var names []string
	best := ""
	for known := range read {
		names = append(names, known)
		d := levenshtein.ComputeDistance(name, known)
		if d <= max(1, len(known)/3) && (best == "" || d < levenshtein.ComputeDistance(name, best) || d == levenshtein.ComputeDistance(name, best) && known < best) {
			best = known
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	slices.Sort(names)
	return "use one of " + strings.Join(names, ", ")
}

func text(n *yaml.Node, of string, into *string) *fault {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || n.Value == "" {
		return faultf(n, "%s must be text", of)
	}
	*into = n.Value
	return nil
}

func word(n *yaml.Node, of string, into *string, known ...string) *fault {
	if f := text(n, of, into); f != nil || slices.Contains(known, *into) {
		return f
	}
	f := faultf(n, "%s is %q", of, n.Value)
	f.hint = "use one of " + strings.Join(known, ", ")
	return f
}

func flag(n *yaml.Node, of string, into *bool) *fault {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		return faultf(n, "%s must be true or false", of)
	}
	if err := n.Decode(into); err != nil {
		return faultf(n, "%s must be true or false", of)
	}
	return nil
}

func positive(n *yaml.Node, of string, into *int) *fault {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(into) != nil || *into < 1 {
		return faultf(n, "%s must be a whole number above 0", of)
	}
	return nil
}

// texts reads a list of texts. The result is not nil, so that an empty list is
// told from none.
func texts(n *yaml.Node, of string, into *[]string) *fault {
	if n.Kind != yaml.SequenceNode {
		return faultf(n, "%s must be a list", of)
	}
	out := make([]string, len(n.Content))
	for i, item := range n.Content {
		if f := text(item, "each of "+of, &out[i]); f != nil {
			return f
		}
		if slices.Contains(out[:i], out[i]) {
			return faultf(item, "%s stands twice in %s", item.Value, of)
		}
	}
	*into = out
	return nil
}

// jsonOf is the JSON text that a YAML value stands for. at, when not nil, learns
// the place of each part by its JSON Pointer.
func jsonOf(n *yaml.Node, at map[string]*yaml.Node) ([]byte, *fault) {
	var b bytes.Buffer
	if f := writeJSON(&b, n, "", at); f != nil {
		return nil, f
	}
	return b.Bytes(), nil
}

func writeJSON(b *bytes.Buffer, n *yaml.Node, pointer string, at map[string]*yaml.Node) *fault {
	if at != nil {
		at[pointer] = n
	}
	switch n.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, f := keyOf(n.Content[i], seen)
			if f != nil {
				return f
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quoted(name))
			b.WriteByte(':')
			below := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			if f := writeJSON(b, n.Content[i+1], below, at); f != nil {
				return f
			}
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if f := writeJSON(b, item, pointer+"/"+strconv.Itoa(i), at); f != nil {
				return f
			}
		}
		b.WriteByte(']')
	case yaml.ScalarNode:
		return writeScalar(b, n)
	default:
		f := faultf(n, "an alias is not read")
		f.hint = "what all cases share goes into settings, data and environment at the top of the file"
		return f
	}
	return nil
}

func writeScalar(b *bytes.Buffer, n *yaml.Node) *fault {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		// A date is text here: JSON has none.
		b.Write(quoted(n.Value))
	case "!!null":
		b.WriteString("null")
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return faultf(n, "%v", err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return faultf(n, "%s has no JSON form", n.Value)
		}
		b.Write(raw)
	default:
		return faultf(n, "a value of type %s has no JSON form", n.ShortTag())
	}
	return nil
}

// quoted is a JSON string that keeps < > and & as they are.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// A string always has a JSON form.
	_ = e.Encode(s)
	return bytes.TrimRight(b.Bytes(), "\n")
}
