// Package codex speaks the protocol of codex app-server, as seen with versions
// 0.156.1 and 0.171.0. An [Intake] turns what the server asks into requests, a
// [Codec] carries a whole connection, and a [Proxy] serves clients in front of a
// server that was started for them.
package codex

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// Name is the harness name in requests.
const Name = "codex"

// The requests of the server that ask for an approval.
const (
	commandApproval     = "item/commandExecution/requestApproval"
	fileApproval        = "item/fileChange/requestApproval"
	permissionsApproval = "item/permissions/requestApproval"
	elicitation         = "mcpServer/elicitation/request"
	userInput           = "item/tool/requestUserInput"
	// The two of the protocol before threads; still in the schema.
	legacyPatch   = "applyPatchApproval"
	legacyCommand = "execCommandApproval"
	// toolCallRequest is a call of a tool that the client itself offers.
	toolCallRequest = "item/tool/call"
)

// UnknownTool stands in the place of the name of an MCP tool that the server
// did not tell. No MCP tool can have a space in its name.
const UnknownTool = "unknown tool"

// Question is a request of the server that waits for an answer under ID.
type Question struct {
	ID     ID
	Method string
	// Request is always valid. Where the parameters were not understood, it is a
	// call of a tool with the method's name, for a human only.
	Request *approval.Request
	// Problem says what was not understood, for people; empty where all was.
	Problem string
}

// Intake turns the messages of one connection into questions. It joins what the
// protocol keeps apart: an approval of a file change names an item, and the
// files stand in the message that started the item. The zero value is ready.
// An Intake is for one goroutine.
type Intake struct {
	version string
	items   bounded[itemKey, item]
	threads bounded[string, string] // thread -> the folder that it works in
}

// Message takes one message as it came from the server, or a line of a
// recording ({"dir": "s2c" or "c2s", "frame": ...}). It returns a question for
// every request of the server, nil for all else, and an error that wraps
// ErrFrame for what is no message. Unknown members and notifications are
// passed over: the protocol grows with every release.
func (in *Intake) Message(raw []byte) (*Question, error) {
	f, client, err := readFrame(raw)
	if err != nil {
		return nil, err
	}
	if client {
		in.client(f)
		return nil, nil
	}
	return in.fromServer(f)
}

// fromServer takes a frame that came from the server.
func (in *Intake) fromServer(f frame) (*Question, error) {
	in.items.limit, in.threads.limit = maxItems, maxThreads
	switch {
	case f.Method == "" && null(f.ID):
		return nil, fmt.Errorf("%w: neither method nor id", ErrFrame)
	case f.Method == "":
		in.result(f.Result)
		return nil, nil
	case len(f.ID) == 0:
		in.notification(f)
		return nil, nil
	}
	id, err := parseID(f.ID)
	if err != nil {
		return nil, err
	}
	return in.question(id, f), nil
}

// client takes what the client sends, for the folder that a turn works in.
func (in *Intake) client(f frame) {
	in.threads.limit = maxThreads
	if f.Method != turnStart {
		return
	}
	var p struct {
		ThreadID string `json:"threadId"`
		Cwd      string `json:"cwd"`
	}
	if jsonv2.Unmarshal(f.Params, &p) == nil && p.Cwd != "" {
		in.thread(p.ThreadID, p.Cwd)
	}
}

var version = regexp.MustCompile(`^[^/\s]+/([0-9][0-9A-Za-z.+-]*)`)

// result takes answers of the server. Their ids are the client's affair: what
// matters here is told by shape.
func (in *Intake) result(result jsontext.Value) {
	var r struct {
		UserAgent string `json:"userAgent"`
		Thread    struct {
			ID  string `json:"id"`
			Cwd string `json:"cwd"`
		} `json:"thread"`
		Cwd string `json:"cwd"`
	}
	if result.Kind() != '{' || jsonv2.Unmarshal(result, &r) != nil {
		return
	}
	if m := version.FindStringSubmatch(r.UserAgent); m != nil {
		in.version = m[1]
	}
	in.thread(r.Thread.ID, r.Thread.Cwd)
}

func (in *Intake) thread(id, cwd string) {
	if id != "" && cwd != "" {
		in.threads.put(id, cwd)
	}
}

func (in *Intake) notification(f frame) {
	switch f.Method {
	case itemStarted:
		in.started(f.Params)
	case itemCompleted:
		in.completed(f.Params)
	case threadStarted:
		in.result(f.Params)
	}
}

// question never fails: what is not understood becomes a question for a human.
func (in *Intake) question(id ID, f frame) *Question {
	q := &Question{ID: id, Method: f.Method}
	request, err := in.request(f)
	if err == nil {
		err = request.Validate()
	}
	if err != nil {
		q.Problem = err.Error()
		request = &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: f.Method}, HumanOnly: true}
		if f.Params.Kind() == '{' && len(f.Params) <= approval.MaxRequestBytes {
			request.Tool.Arguments = json.RawMessage(f.Params)
		}
	}
	request.Harness = &approval.Harness{Name: Name, Version: in.version}
	if request.Session == nil {
		request.Session = sessionOf(f.Params)
	}
	q.Request = request
	return q
}

func (in *Intake) request(f frame) (*approval.Request, error) {
	switch f.Method {
	case commandApproval:
		return commandRequest(f.Params)
	case fileApproval:
		return in.fileRequest(f.Params)
	case permissionsApproval:
		return permissionsRequest(f.Params)
	case elicitation:
		return in.elicitation(f.Params)
	case userInput:
		return userInputRequest(f.Params)
	case legacyPatch:
		return legacyPatchRequest(f.Params)
	case legacyCommand:
		return legacyCommandRequest(f.Params)
	default:
		return nil, fmt.Errorf("request %q is not an approval that is known", f.Method)
	}
}

// ids are what every request of a thread has; those of older releases are named
// otherwise.
type ids struct {
	ThreadID       jsontext.Value `json:"threadId"`
	ConversationID jsontext.Value `json:"conversationId"`
	TurnID         jsontext.Value `json:"turnId"`
	ItemID         jsontext.Value `json:"itemId"`
	CallID         jsontext.Value `json:"callId"`
}

func sessionOf(params jsontext.Value) *approval.Session {
	var w ids
	if params.Kind() != '{' || jsonv2.Unmarshal(params, &w) != nil {
		return nil
	}
	s := approval.Session{ID: text(w.ThreadID), TurnID: text(w.TurnID), CallID: text(w.ItemID)}
	if s.ID == "" {
		s.ID = text(w.ConversationID)
	}
	if s.CallID == "" {
		s.CallID = text(w.CallID)
	}
	if s.ID == "" && s.TurnID == "" && s.CallID == "" {
		return nil
	}
	return &s
}

func read(params jsontext.Value, into any) error {
	if err := jsonv2.Unmarshal(params, into); err != nil {
		return fmt.Errorf("read the parameters: %w", err)
	}
	return nil
}

func commandRequest(params jsontext.Value) (*approval.Request, error) {
	var p struct {
		Kind                  *string        `json:"kind"`
		ApprovalID            string         `json:"approvalId"`
		EnvironmentID         string         `json:"environmentId"`
		Reason                string         `json:"reason"`
		Command               string         `json:"command"`
		Cwd                   string         `json:"cwd"`
		AdditionalPermissions jsontext.Value `json:"additionalPermissions"`
		Network               *struct {
			Host     string `json:"host"`
			Protocol string `json:"protocol"`
		} `json:"networkApprovalContext"`
		AvailableDecisions []jsontext.Value `json:"availableDecisions"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	r := &approval.Request{Environment: environment(p.EnvironmentID, p.Cwd), Reason: p.Reason, Session: sessionOf(params)}
	r.Options = commandOptions(p.AvailableDecisions, p.Kind)
	extra, err := profile(p.AdditionalPermissions)
	if err != nil {
		return nil, err
	}
	if extra != nil && !extra.IsEmpty() {
		r.Permissions = extra
	}
	kind := "command" // of servers before the field
	if p.Kind != nil {
		kind = *p.Kind
	}
	switch {
	case p.Network != nil && (p.Command != "" || kind != "command"):
		return nil, fmt.Errorf("a host and a %s are asked for at once", kind)
	case p.Network != nil:
		r.Kind = approval.KindNetwork
		r.Network = &approval.Network{Host: p.Network.Host, Protocol: protocol(p.Network.Protocol)}
		if r.Session != nil {
			r.Network.Port = port(r.Session.CallID, p.Network.Host)
		}
		return r, nil
	case p.Command == "":
		return nil, fmt.Errorf("the command is missing")
	}
	switch kind {
	case "command":
		r.Kind, r.Command = approval.KindCommand, commandOf(p.Command)
		// A command that asks for no permissions on top of the sandbox can be one that
		// runs outside of it: the protocol does not tell which.
		r.Escalated = r.Permissions == nil
	case "humanCommand":
		r.Kind, r.Command, r.HumanOnly = approval.KindCommand, commandOf(p.Command), true
		r.Escalated = r.Permissions == nil
	case "writeStdin":
		r.Kind, r.Tool = approval.KindTool, stdinTool(p.Command)
		if p.ApprovalID != "" && r.Session != nil {
			// The item is the terminal, the approval id the call that types into it.
			r.Session.CallID = p.ApprovalID
		}
	default:
		return nil, fmt.Errorf("kind %q is not known", kind)
	}
	return r, nil
}

// stdinTool is the call of write_stdin, with the line as it stands where it is
// not the one that is known.
func stdinTool(line string) *approval.Tool {
	arguments := map[string]any{"command": line}
	if session, chars, ok := stdin(line); ok {
		arguments = map[string]any{"session_id": session, "chars": chars}
		if n, err := strconv.ParseInt(session, 10, 64); err == nil {
			arguments["session_id"] = n
		}
	}
	return &approval.Tool{Name: "write_stdin", Arguments: object(arguments)}
}

// object is JSON text with its members in order.
func object(members map[string]any) json.RawMessage {
	raw, err := jsonv2.Marshal(members, jsonv2.Deterministic(true))
	if err != nil {
		// Only text that is no UTF-8 can do this, and such text came as JSON.
		return json.RawMessage(`{"unreadable":true}`)
	}
	return raw
}

// protocol is the protocol in the words of a request.
func protocol(wire string) string {
	switch wire {
	case "socks5Tcp":
		return "socks5_tcp"
	case "socks5Udp":
		return "socks5_udp"
	default:
		return wire
	}
}

// port reads the port out of an item id of the form
// network#ENVIRONMENT#PROTOCOL#HOST#PORT#UUID, 0 for any other id. The
// protocol has no field for it.
func port(id, host string) int {
	parts := strings.Split(id, "#")
	if len(parts) != 6 || parts[0] != "network" || parts[3] != host {
		return 0
	}
	n, err := strconv.ParseUint(parts[4], 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

func environment(id, cwd string) *approval.Environment {
	if id == "" && cwd == "" {
		return nil
	}
	return &approval.Environment{ID: id, Cwd: cwd}
}

// profile reads a profile; nil for none.
func profile(raw jsontext.Value) (*permission.Profile, error) {
	if null(raw) {
		return nil, nil
	}
	var p permission.Profile
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("read the permissions: %w", err)
	}
	return &p, nil
}

func (in *Intake) fileRequest(params jsontext.Value) (*approval.Request, error) {
	var p struct {
		ThreadID  string `json:"threadId"`
		ItemID    string `json:"itemId"`
		Reason    string `json:"reason"`
		GrantRoot string `json:"grantRoot"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	r := &approval.Request{
		Kind: approval.KindFileChange, GrantRoot: p.GrantRoot, Reason: p.Reason, Options: slices.Clone(fileOptions),
		Environment: environment("", in.threads.values[p.ThreadID]), Session: sessionOf(params),
	}
	// Without the item nobody knows what changes, and the request says so by
	// having no changes.
	if one, ok := in.items.values[itemKey{p.ThreadID, p.ItemID}]; ok {
		r.Changes = slices.Clone(one.changes)
	}
	return r, nil
}

func permissionsRequest(params jsontext.Value) (*approval.Request, error) {
	var p struct {
		EnvironmentID string         `json:"environmentId"`
		Cwd           string         `json:"cwd"`
		Reason        string         `json:"reason"`
		Permissions   jsontext.Value `json:"permissions"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	asked, err := profile(p.Permissions)
	if err != nil {
		return nil, err
	}
	if asked == nil {
		return nil, fmt.Errorf("the permissions are missing")
	}
	return &approval.Request{
		Kind: approval.KindPermissions, Permissions: asked, Reason: p.Reason,
		Environment: environment(p.EnvironmentID, p.Cwd), Session: sessionOf(params),
	}, nil
}

// toolCall is the _meta by which the server marks its own question about a call
// of an MCP tool.
type toolCall struct {
	Kind        string         `json:"codex_approval_kind"`
	Tool        string         `json:"tool_name"`
	Description string         `json:"tool_description"`
	Annotations jsontext.Value `json:"tool_annotations"`
	Params      jsontext.Value `json:"tool_params"`
	// Persist is how long the server would remember an answer that allows.
	Persist jsontext.Value `json:"persist"`
}

// elicitation tells the approval of a call of an MCP tool from a form that an
// MCP server wants filled in. They share a method; only the first is ours to
// answer, so what is not certainly one is the other.
func (in *Intake) elicitation(params jsontext.Value) (*approval.Request, error) {
	var p struct {
		ThreadID      string         `json:"threadId"`
		TurnID        string         `json:"turnId"`
		ServerName    string         `json:"serverName"`
		EnvironmentID string         `json:"environmentId"`
		Mode          string         `json:"mode"`
		Message       string         `json:"message"`
		Meta          jsontext.Value `json:"_meta"`
		Schema        jsontext.Value `json:"requestedSchema"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	var meta toolCall
	if p.Meta.Kind() != '{' || p.Mode != "form" || p.ServerName == "" || !emptyForm(p.Schema) ||
		jsonv2.Unmarshal(p.Meta, &meta) != nil || meta.Kind != "mcp_tool_call" {
		return &approval.Request{
			Kind: approval.KindTool, HumanOnly: true, Reason: p.Message,
			Tool: &approval.Tool{Name: "elicitation", Arguments: json.RawMessage(params)},
		}, nil
	}
	if k := meta.Params.Kind(); !null(meta.Params) && k != '{' {
		return nil, fmt.Errorf("the arguments of the tool are not an object")
	}
	r := &approval.Request{
		Kind: approval.KindMCP, Reason: p.Message, Session: sessionOf(params),
		Environment: environment(p.EnvironmentID, in.threads.values[p.ThreadID]),
		Tool: &approval.Tool{
			Name: meta.Tool, Server: p.ServerName, Description: meta.Description, Annotations: annotations(meta.Annotations),
		},
		Options: mcpOptions(meta.Persist),
	}
	if !null(meta.Params) {
		r.Tool.Arguments = json.RawMessage(meta.Params)
	}
	in.join(r, p.ThreadID, p.TurnID, canonical(meta.Params))
	if r.Tool.Name == "" {
		// The message has a name in it, but it is prose.
		r.Tool.Name, r.HumanOnly = UnknownTool, true
	}
	return r, nil
}

// join adds what the item of the call tells: the name of the tool, which older
// servers leave out, and the id of the call. Of several calls that fit, only
// what they agree on is taken.
func (in *Intake) join(r *approval.Request, thread, turn, arguments string) {
	calls, found := in.calls(thread, turn, r.Tool.Server, arguments)
	var names, fitting []string
	var readOnly []*bool
	for i, c := range found {
		if r.Tool.Name != "" && c.tool != r.Tool.Name {
			continue
		}
		fitting = append(fitting, calls[i])
		readOnly = append(readOnly, c.readOnly)
		if !slices.Contains(names, c.tool) {
			names = append(names, c.tool)
		}
	}
	if len(names) != 1 {
		return
	}
	r.Tool.Name = names[0]
	if len(fitting) != 1 {
		return
	}
	if r.Session != nil && r.Session.CallID == "" {
		r.Session.CallID = fitting[0]
	}
	if r.Tool.Annotations == nil && readOnly[0] != nil {
		r.Tool.Annotations = &approval.Annotations{ReadOnlyHint: readOnly[0]}
	}
}

// emptyForm says whether a form asks for nothing, so that accepting it tells a
// server nothing.
func emptyForm(schema jsontext.Value) bool {
	var s struct {
		Type       string                    `json:"type"`
		Properties map[string]jsontext.Value `json:"properties"`
		Required   []string                  `json:"required"`
	}
	return schema.Kind() == '{' && jsonv2.Unmarshal(schema, &s) == nil &&
		s.Type == "object" && len(s.Properties) == 0 && len(s.Required) == 0
}

// annotations reads the hints of an MCP server. One hint of the wrong type
// spoils all of them: a hint that is there and not understood might have been
// the one that warns.
func annotations(raw jsontext.Value) *approval.Annotations {
	if null(raw) {
		return nil
	}
	var a struct {
		Title           *string `json:"title"`
		ReadOnlyHint    *bool   `json:"readOnlyHint"`
		DestructiveHint *bool   `json:"destructiveHint"`
		IdempotentHint  *bool   `json:"idempotentHint"`
		OpenWorldHint   *bool   `json:"openWorldHint"`
	}
	if raw.Kind() != '{' || jsonv2.Unmarshal(raw, &a) != nil {
		return &approval.Annotations{}
	}
	out := &approval.Annotations{
		ReadOnlyHint: a.ReadOnlyHint, DestructiveHint: a.DestructiveHint,
		IdempotentHint: a.IdempotentHint, OpenWorldHint: a.OpenWorldHint,
	}
	if a.Title != nil {
		out.Title = *a.Title
	}
	return out
}

func userInputRequest(params jsontext.Value) (*approval.Request, error) {
	var p struct {
		Questions jsontext.Value `json:"questions"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	if p.Questions.Kind() != '[' {
		return nil, fmt.Errorf("the questions are missing")
	}
	return &approval.Request{
		Kind: approval.KindTool, HumanOnly: true,
		Tool: &approval.Tool{Name: "request_user_input", Arguments: object(map[string]any{"questions": p.Questions})},
	}, nil
}

func legacyPatchRequest(params jsontext.Value) (*approval.Request, error) {
	var p struct {
		FileChanges map[string]struct {
			Type     string `json:"type"`
			Content  string `json:"content"`
			Diff     string `json:"unified_diff"`
			MovePath string `json:"move_path"`
		} `json:"fileChanges"`
		Reason    string `json:"reason"`
		GrantRoot string `json:"grantRoot"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	var wire []wireChange
	for _, name := range slices.Sorted(maps.Keys(p.FileChanges)) {
		c := p.FileChanges[name]
		w := wireChange{Path: name, Diff: c.Diff + c.Content}
		w.Kind.Type, w.Kind.MovePath = c.Type, c.MovePath
		wire = append(wire, w)
	}
	return &approval.Request{
		Kind: approval.KindFileChange, Changes: changesOf(wire), GrantRoot: p.GrantRoot, Reason: p.Reason, Session: sessionOf(params),
		Options: slices.Clone(legacyOptions),
	}, nil
}

func legacyCommandRequest(params jsontext.Value) (*approval.Request, error) {
	var p struct {
		Command []string `json:"command"`
		Cwd     string   `json:"cwd"`
		Reason  string   `json:"reason"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	command := script(p.Command)
	if command == nil {
		command = &approval.Command{Argv: p.Command}
	}
	return &approval.Request{
		Kind: approval.KindCommand, Command: command, Reason: p.Reason, Environment: environment("", p.Cwd), Session: sessionOf(params),
		Options: slices.Clone(legacyOptions), Escalated: true,
	}, nil
}
