package codex

import (
	"encoding/json"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
)

// The decisions of protocol v2, as a request offers them.
var (
	accept           = json.RawMessage(`"accept"`)
	acceptForSession = json.RawMessage(`"acceptForSession"`)
	decline          = json.RawMessage(`"decline"`)
	cancel           = json.RawMessage(`"cancel"`)

	fileOptions = []json.RawMessage{accept, acceptForSession, decline, cancel}
	// legacyOptions are the review decisions of the protocol before threads.
	legacyOptions = []json.RawMessage{
		json.RawMessage(`"approved"`), json.RawMessage(`"approved_for_session"`), json.RawMessage(`"denied"`), json.RawMessage(`"abort"`),
	}
)

// commandOptions are the decisions on offer for a command. The server's list
// leaves out decline, which it honours for everything but a humanCommand (0.156.1
// and 0.171.0): without it, to refuse a command would be to interrupt the turn.
// Nothing that allows is ever added.
func commandOptions(available []jsontext.Value, kind *string) []json.RawMessage {
	var out []json.RawMessage
	refuses := kind != nil && *kind == "humanCommand"
	for _, d := range available {
		out = append(out, json.RawMessage(d))
		m, known := approval.OptionMeaning(json.RawMessage(d))
		refuses = refuses || known && m.Outcome == approval.OutcomeDeny
	}
	switch {
	case len(out) == 0 && kind != nil && *kind == "humanCommand":
		return []json.RawMessage{accept, decline, cancel}
	case len(out) == 0: // of servers before the list
		return slices.Clone(fileOptions)
	case !refuses:
		out = append(out, decline)
	}
	return out
}

// mcpOptions are the answers to the question about a call of an MCP tool. The
// session is on offer where the server says that it can remember one; for good is
// an edit of Codex's configuration and is not.
func mcpOptions(persist jsontext.Value) []json.RawMessage {
	var one string
	var many []string
	switch persist.Kind() {
	case '"':
		if jsonv2.Unmarshal(persist, &one) == nil {
			many = []string{one}
		}
	case '[':
		if jsonv2.Unmarshal(persist, &many) != nil {
			many = nil
		}
	}
	if slices.Contains(many, "session") {
		return slices.Clone(fileOptions)
	}
	return []json.RawMessage{accept, decline, cancel}
}
