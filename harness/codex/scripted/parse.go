package scripted

import (
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
)

// ErrScript means that a text has no scripts. It says what is wrong, and where:
// steps and items are counted from 1.
var ErrScript = errors.New("not a script")

// written is an item as a file has it: one of its members but the id.
type written struct {
	Call      string          `json:"call"`
	Exec      *string         `json:"exec"`
	Escalated *string         `json:"escalated"`
	Patch     *string         `json:"patch"`
	Grants    *map[string]any `json:"permissions"`
	MCP       *struct {
		Server    string         `json:"server"`
		Tool      string         `json:"tool"`
		Arguments map[string]any `json:"arguments"`
	} `json:"mcp"`
	Tool *struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"tool"`
	Message *string `json:"message"`
	Raw     *Item   `json:"raw"`
}

// Parse takes scripts from JSON: an object with the script of each prompt. A script
// is a list of responses, each a list of items. An item has one of
//
//	{"exec": "ls"}
//	{"escalated": "touch /outside"}
//	{"patch": "*** Begin Patch\n..."}
//	{"permissions": {"network": {"enabled": true}}}
//	{"mcp": {"server": "lab", "tool": "look", "arguments": {}}}
//	{"tool": {"name": "exec_command", "arguments": {"cmd": "ls"}}}
//	{"message": "that was it"}
//	{"raw": {"type": "reasoning", "summary": []}}
//
// and may name its call with "call" beside it. Anything else is an [ErrScript], and
// no script is taken.
func (s *Server) Parse(text []byte) error {
	var file map[string][][]written
	if err := jsonv2.Unmarshal(text, &file, jsonv2.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %w", ErrScript, err)
	}
	scripts := make(map[string][]Step, len(file))
	for prompt, responses := range file {
		for n, items := range responses {
			step := Step{Items: make([]Item, 0, len(items))}
			for i, w := range items {
				said := w.items()
				if len(said) != 1 {
					return fmt.Errorf("%w: prompt %q, response %d, item %d says %d things, not one", ErrScript, prompt, n+1, i+1, len(said))
				}
				step.Items = append(step.Items, said...)
			}
			scripts[prompt] = append(scripts[prompt], step)
		}
	}
	for prompt, steps := range scripts {
		s.Script(prompt, steps...)
	}
	return nil
}

func (w written) items() []Item {
	var out []Item
	if w.Exec != nil {
		out = append(out, Exec(w.Call, *w.Exec))
	}
	if w.Escalated != nil {
		out = append(out, Escalated(w.Call, *w.Escalated))
	}
	if w.Patch != nil {
		out = append(out, Patch(w.Call, *w.Patch))
	}
	if w.Grants != nil {
		out = append(out, Permissions(w.Call, *w.Grants))
	}
	if w.MCP != nil {
		out = append(out, MCP(w.Call, w.MCP.Server, w.MCP.Tool, w.MCP.Arguments))
	}
	if w.Tool != nil {
		out = append(out, Call(w.Call, w.Tool.Name, w.Tool.Arguments))
	}
	if w.Message != nil {
		out = append(out, Message(*w.Message))
	}
	if w.Raw != nil {
		out = append(out, *w.Raw)
	}
	return out
}
