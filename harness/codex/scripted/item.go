package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Item is one thing that the model says: a call of a tool, or a message. It is an
// output item of the Responses API; the functions make those that Codex acts on. A
// call without an id gets one when it is said.
type Item map[string]any

// named is the item with an id.
func (i Item) named(id string) Item {
	var member string
	switch i["type"] {
	case "message":
		member = "id"
	case "function_call", "custom_tool_call":
		member = "call_id"
	default:
		return i
	}
	if given := i[member]; given != nil && given != "" {
		return i
	}
	named := maps.Clone(i)
	named[member] = id
	return named
}

// justification is the reason that the model gives for what it asks about.
const justification = "the task needs it"

// Exec calls the shell tool.
func Exec(call, command string) Item {
	return Call(call, "exec_command", map[string]any{"cmd": command})
}

// Escalated calls the shell tool outside the sandbox, which Codex asks about.
func Escalated(call, command string) Item {
	return Call(call, "exec_command", map[string]any{
		"cmd": command, "sandbox_permissions": "require_escalated", "justification": justification,
	})
}

// Terminal calls the shell tool outside the sandbox with a terminal, which Codex
// asks about. The command goes on when the model has waited for its output for
// some milliseconds; [Session] finds it again.
func Terminal(call, command string, millis int) Item {
	return Call(call, "exec_command", map[string]any{
		"cmd": command, "sandbox_permissions": "require_escalated", "justification": justification,
		"tty": true, "yield_time_ms": millis,
	})
}

// WriteStdin types into a command that goes on, by the number that Codex gave it.
func WriteStdin(call string, session int, text string) Item {
	return Call(call, "write_stdin", map[string]any{"session_id": session, "chars": text})
}

// WithPermissions calls the shell tool with permissions on top of the sandbox, as
// Codex writes them (file_system, network).
func WithPermissions(call, command string, permissions map[string]any) Item {
	return Call(call, "exec_command", map[string]any{
		"cmd": command, "sandbox_permissions": "with_additional_permissions", "justification": justification,
		"additional_permissions": permissions,
	})
}

// Permissions calls request_permissions. Codex has that tool with its feature
// request_permissions_tool.
func Permissions(call string, permissions map[string]any) Item {
	return Call(call, "request_permissions", map[string]any{
		"reason": justification, "environment_id": "local", "permissions": permissions,
	})
}

// Patch calls apply_patch with the text of a patch, from "*** Begin Patch" to
// "*** End Patch". Codex has that tool with the models of its catalogue, such as
// gpt-5.5.
func Patch(call, patch string) Item { return Custom(call, "apply_patch", patch) }

// MCP calls a tool of an MCP server.
func MCP(call, server, tool string, arguments map[string]any) Item {
	item := Call(call, tool, arguments)
	item["namespace"] = "mcp__" + server
	return item
}

// Call calls any other tool.
func Call(call, name string, arguments map[string]any) Item {
	if arguments == nil {
		arguments = map[string]any{}
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("scripted: the arguments of %s: %v", name, err)) // a mistake in the script
	}
	return Item{"type": "function_call", "call_id": call, "name": name, "arguments": string(text)}
}

// Custom calls a tool that takes text.
func Custom(call, name, input string) Item {
	return Item{"type": "custom_tool_call", "call_id": call, "name": name, "input": input}
}

// Message is what the model says to the user. A response that has nothing else
// ends the turn.
func Message(text string) Item {
	return Item{"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": text}}}
}
