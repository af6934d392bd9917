package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/hook/client"
	"github.com/regent-policy/regent/rego/catalog"
)

// codexInput is what Codex (0.156.1 and 0.171.0) writes to its hooks, as far as it
// is of use here. Other members come and go with its releases.
type codexInput struct {
	SessionID jsontext.Value `json:"session_id"`
	TurnID    jsontext.Value `json:"turn_id"`
	ToolUseID jsontext.Value `json:"tool_use_id"`
	Cwd       string         `json:"cwd"`
	Event     string         `json:"hook_event_name"`
	ToolName  string         `json:"tool_name"`
	ToolInput jsontext.Value `json:"tool_input"`
}

// codexNotice reads the input of a hook of Codex.
func codexNotice(payload json.RawMessage) (notice, error) {
	var in codexInput
	// A name that is given twice is an error: two readers must not see two calls.
	if err := jsonv2.Unmarshal(payload, &in); err != nil {
		return notice{}, fmt.Errorf("what Codex says cannot be read: %w", err)
	}
	n := notice{event: in.Event}
	switch {
	case in.Event != client.PreToolUse && in.Event != client.PermissionRequest:
		return notice{}, fmt.Errorf("the event %.64q of Codex is not known", in.Event)
	case in.ToolName == "":
		return notice{}, errors.New("no tool is named")
	}
	n.request, n.others = in.requests()
	for _, r := range append(n.others, n.request) {
		r.Harness = &approval.Harness{Name: codex.Name}
		if r.Environment == nil && in.Cwd != "" {
			r.Environment = &approval.Environment{Cwd: in.Cwd}
		}
		s := approval.Session{ID: text(in.SessionID), TurnID: text(in.TurnID), CallID: text(in.ToolUseID)}
		if s.ID != "" || s.TurnID != "" || s.CallID != "" {
			r.Session = &s
		}
		if err := r.Validate(); err != nil {
			return notice{}, fmt.Errorf("the call of %.100q cannot be judged: %w", in.ToolName, err)
		}
	}
	return n, nil
}

// requests are what a call is, and what else it could be. One whose arguments are
// not understood is the call of a tool, which no rule about commands or files
// speaks for, and the catalogue says what is wrong with it.
func (in *codexInput) requests() (request *approval.Request, others []*approval.Request) {
	tool := &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: in.ToolName, Arguments: json.RawMessage(in.ToolInput)}}
	switch {
	case in.ToolName == "Bash":
		if r := in.command(); r != nil {
			return r, nil
		}
	case in.ToolName == "apply_patch":
		if r := in.patch(); r != nil {
			return r, nil
		}
	case in.ToolName == "request_permissions":
		if r := in.permissions(); r != nil {
			return r, nil
		}
	case strings.HasPrefix(in.ToolName, mcpPrefix):
		found, complete := mcpTools(in.ToolName)
		if !complete {
			tool.HumanOnly = true
		}
		for _, t := range found {
			t.Arguments = json.RawMessage(in.ToolInput)
			others = append(others, &approval.Request{Kind: approval.KindMCP, Tool: t})
		}
		if len(others) == 1 && complete {
			return others[0], nil
		}
	}
	return tool, others
}

// command is a script for the shell. Codex tells hooks neither whether it is to
// leave the sandbox nor which folder the call names to run in.
func (in *codexInput) command() *approval.Request {
	var p struct {
		Command     string         `json:"command"`
		Description jsontext.Value `json:"description"`
	}
	if jsonv2.Unmarshal(in.ToolInput, &p) != nil || p.Command == "" {
		return nil
	}
	return &approval.Request{
		Kind: approval.KindCommand, Command: &approval.Command{Shell: "bash", Text: p.Command}, Reason: text(p.Description),
	}
}

// patch is a change of files. One that is not understood completely has no
// changes, which is to say that nobody knows what changes.
func (in *codexInput) patch() *approval.Request {
	var p struct {
		Command     string         `json:"command"`
		Description jsontext.Value `json:"description"`
	}
	if jsonv2.Unmarshal(in.ToolInput, &p) != nil || p.Command == "" {
		return nil
	}
	return &approval.Request{Kind: approval.KindFileChange, Changes: changes(p.Command, in.Cwd), Reason: text(p.Description)}
}

// permissions is a call of the tool request_permissions, with the arguments that
// the model gave it.
func (in *codexInput) permissions() *approval.Request {
	var p struct {
		Reason        jsontext.Value `json:"reason"`
		EnvironmentID jsontext.Value `json:"environment_id"`
		Permissions   jsontext.Value `json:"permissions"`
	}
	var asked permission.Profile
	if jsonv2.Unmarshal(in.ToolInput, &p) != nil || p.Permissions.Kind() != '{' || json.Unmarshal(p.Permissions, &asked) != nil {
		return nil
	}
	r := &approval.Request{Kind: approval.KindPermissions, Permissions: &asked, Reason: text(p.Reason)}
	if id := text(p.EnvironmentID); id != "" || in.Cwd != "" {
		r.Environment = &approval.Environment{ID: id, Cwd: in.Cwd}
	}
	return r
}

// text is the string in raw, or "" for anything else.
func text(raw jsontext.Value) string {
	var s string
	if raw.Kind() != '"' || jsonv2.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

const (
	mcpPrefix, mcpSeparator = "mcp__", "__"
	// maxSplits is in how many ways the name of a tool is taken apart.
	maxSplits = 16
)

// mcpTools are the tools that the name mcp__SERVER__TOOL can mean. With
// mcp__a__b__c nobody knows whether the server is a or a__b. It is not complete
// where there are more than are told.
func mcpTools(name string) (tools []*approval.Tool, complete bool) {
	rest := strings.TrimPrefix(name, mcpPrefix)
	for i := 1; i+len(mcpSeparator) < len(rest); i++ {
		if !strings.HasPrefix(rest[i:], mcpSeparator) {
			continue
		}
		if len(tools) == maxSplits {
			return tools, false
		}
		tools = append(tools, &approval.Tool{Server: rest[:i], Name: rest[i+len(mcpSeparator):]})
	}
	return tools, true
}

const (
	// maxDiff is how many bytes of a patch are kept for people to read. The paths
	// always are.
	maxDiff = 1 << 20
	// maxChanges is how many changes are told. Of more nobody could say what they
	// are.
	maxChanges = 4096
)

// The lines of a patch that name a file.
const (
	addFile, deleteFile, updateFile = "*** Add File: ", "*** Delete File: ", "*** Update File: "
	moveTo                          = "*** Move to: "
)

// changes are those of a patch in the form of apply_patch, with paths from the
// root where cwd is from there. It is nil unless all of it is understood: half a
// patch would pass for the whole.
func changes(patch, cwd string) []approval.Change {
	patch = strings.ReplaceAll(patch, "\r\n", "\n")
	// The other forms that are read there are none that Codex applies.
	if !strings.HasPrefix(strings.TrimLeft(patch, "\n"), "*** Begin Patch") {
		return nil
	}
	if _, err := catalog.PatchSteps(patch); err != nil {
		return nil
	}
	var found []approval.Change
	var diff strings.Builder
	done := func() {
		if len(found) > 0 && len(patch) <= maxDiff {
			found[len(found)-1].Diff = diff.String()
		}
		diff.Reset()
	}
	header := false
	for line := range strings.SplitSeq(strings.TrimRight(patch, "\n"), "\n") {
		operation, path := "", ""
		for prefix, o := range map[string]string{addFile: "add", deleteFile: "delete", updateFile: "update"} {
			if name, ok := strings.CutPrefix(line, prefix); ok {
				operation, path = o, name
			}
		}
		switch {
		case operation != "":
			done()
			found = append(found, approval.Change{Operation: operation, Path: absolute(path, cwd)})
		case header && strings.HasPrefix(line, moveTo):
			found[len(found)-1].MovePath = absolute(strings.TrimPrefix(line, moveTo), cwd)
		case strings.HasPrefix(line, "*** ") && strings.TrimSpace(line) != "*** End of File":
			// Where the patch begins and ends.
		default:
			diff.WriteString(line + "\n")
		}
		header = operation == "update"
	}
	done()
	if len(found) > maxChanges {
		return nil
	}
	return found
}

// absolute joins a path to the folder that it is meant in, as it is: what ".."
// means behind a link is not for text to say.
func absolute(path, cwd string) string {
	if filepath.IsAbs(path) || !filepath.IsAbs(cwd) {
		return path
	}
	return strings.TrimSuffix(cwd, "/") + "/" + path
}
