package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Dialect is how a harness speaks with its hooks.
type Dialect string

// Codex is the dialect of Codex, as seen with 0.156.1 and 0.171.0.
const Codex Dialect = "codex"

// Dialects are all of them.
var Dialects = []Dialect{Codex}

// The events of Codex in which a hook has a say about a call.
const (
	PreToolUse        = "PreToolUse"
	PermissionRequest = "PermissionRequest"
)

// codexOthers are the events of Codex that are about no call which has yet to run:
// 0.156.1, and the last two since 0.171.0.
var codexOthers = []string{
	"PostToolUse", "PreCompact", "PostCompact", "SessionStart", "SessionEnd", "UserPromptSubmit", "SubagentStart", "SubagentStop",
	"Stop", "Interrupt", "PreModelRequest", "PostModelRequest",
}

// maxText is how much of a text a harness is told, in bytes.
const maxText = 8 << 10

// Event is the name of the event that a harness tells a hook of.
func (d Dialect) Event(payload []byte) (string, error) {
	// By a map, since a field would take its name in other letters too.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return "", fmt.Errorf("what the harness says is not a JSON object: %w", err)
	}
	var event string
	if err := json.Unmarshal(members["hook_event_name"], &event); err != nil || event == "" {
		return "", errors.New("the harness does not say which event it is about")
	}
	return event, nil
}

// gates tells whether an event lets a hook stop something. One that is not known
// may.
func (d Dialect) gates(event string) bool {
	switch d {
	case Codex:
		return !slices.Contains(codexOthers, event)
	default:
		return true
	}
}

// pass says nothing about an event that gates nothing.
func (d Dialect) pass(event string) Answer {
	return Answer{Version: Version, Stderr: fmt.Sprintf("regent: nothing is decided at %.64s; the hook belongs to PreToolUse and PermissionRequest", event)}
}

// Silent is the answer that has no opinion: the harness goes on as it would
// without the hook.
func (d Dialect) Silent() Answer { return Answer{Version: Version} }

// Refuse is the answer for want of one: it says why, and that Regent said it. An
// event that is not known, such as "", is refused by the code that most harnesses
// understand.
func (d Dialect) Refuse(event, why string) Answer {
	return d.Deny(event, "regent: "+why)
}

// Deny is the answer that has the call not run, with a reason for the model.
func (d Dialect) Deny(event, reason string) Answer {
	reason = shown(reason)
	var said any
	switch {
	case d == Codex && event == PreToolUse:
		said = codexPreToolUse{HookEventName: event, PermissionDecision: "deny", PermissionDecisionReason: reason}
	case d == Codex && event == PermissionRequest:
		said = codexPermissionRequest{HookEventName: event, Decision: codexDecision{Behavior: "deny", Message: reason}}
	default:
		return Answer{Version: Version, Stderr: reason, Exit: exitRefused}
	}
	text, err := json.Marshal(map[string]any{"hookSpecificOutput": said})
	if err != nil { // there is nothing in it that JSON cannot say
		return Answer{Version: Version, Stderr: reason, Exit: exitRefused}
	}
	return Answer{Version: Version, Stdout: string(text) + "\n"}
}

// codexPreToolUse is the output of a PreToolUse hook. Codex knows no allow and no
// ask there: it takes them for a fault of the hook, and runs the call.
type codexPreToolUse struct {
	HookEventName            string `json:"hookEventName"`
	PermissionDecision       string `json:"permissionDecision"`
	PermissionDecisionReason string `json:"permissionDecisionReason"`
}

// codexPermissionRequest is the output of a PermissionRequest hook. The model is
// told the message as it is.
type codexPermissionRequest struct {
	HookEventName string        `json:"hookEventName"`
	Decision      codexDecision `json:"decision"`
}

type codexDecision struct {
	Behavior string `json:"behavior"`
	Message  string `json:"message"`
}

// shown is a text as a harness can take it: not empty, valid UTF-8, and not too
// long.
func shown(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.TrimSpace(text) == "" {
		return "denied by policy"
	}
	if len(text) <= maxText {
		return text
	}
	cut := maxText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
