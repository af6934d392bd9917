// Package approval is a question and its life: the request an agent's harness
// makes, the ruling that says who answers it, and the words both use.
package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/permission"
)

// Kind is what a request asks for.
type Kind string

// The kinds of request. A kind that is not listed is refused by Decode, so that
// nothing further down has to guess.
const (
	// KindTool is a call of a named tool with arguments.
	KindTool Kind = "tool"
	// KindCommand is a command to run, as shell text or as an argument vector.
	KindCommand Kind = "command"
	// KindFileChange is a set of changes to files.
	KindFileChange Kind = "file_change"
	// KindPermissions asks for more permissions and runs nothing.
	KindPermissions Kind = "permissions"
	// KindNetwork asks to reach one host.
	KindNetwork Kind = "network"
	// KindMCP is a call of a tool that an MCP server offers.
	KindMCP Kind = "mcp"
)

// Kinds lists every kind, in the order in which documents name them.
var Kinds = []Kind{KindTool, KindCommand, KindFileChange, KindPermissions, KindNetwork, KindMCP}

// Request is one question: may this call run, may these permissions be had.
// Its JSON form is the one that the command line, the API and Rego
// (input.request) share; absent parts are left out.
type Request struct {
	// Kind says which of the parts below carry the question.
	Kind Kind `json:"kind" jsonschema:"enum=tool,enum=command,enum=file_change,enum=permissions,enum=network,enum=mcp"`
	// Tool is the tool that the agent called, with its arguments as they came.
	Tool *Tool `json:"tool,omitempty"`
	// Command is the command, for kind command.
	Command *Command `json:"command,omitempty"`
	// Changes are the files that change, for kind file_change. An empty list
	// means that the content is not known, which a human must be told.
	Changes []Change `json:"changes,omitempty"`
	// GrantRoot is a folder that the answer would open for all later writes.
	GrantRoot string `json:"grant_root,omitempty"`
	// Network is the host to reach, for kind network.
	Network *Network `json:"network,omitempty"`
	// Environment is where the call runs. Without it, paths stay unresolved.
	Environment *Environment `json:"environment,omitempty"`
	// Permissions is the profile that is asked for, alone (kind permissions) or
	// on top of a command.
	Permissions *permission.Profile `json:"permissions,omitempty"`
	// Escalated is true when the command asks to run outside the sandbox.
	Escalated bool `json:"escalated,omitempty,omitzero"`
	// HumanOnly is true when only a person may answer, whatever policy says.
	HumanOnly bool `json:"human_only,omitempty,omitzero"`
	// HostAllows is the host's own access list: false is final.
	HostAllows *bool `json:"host_allows,omitempty"`
	// Reason is what the agent says it needs this for. It is never trusted.
	Reason string `json:"reason,omitempty"`
	// Options are the answers that the harness offers, each verbatim JSON.
	Options []json.RawMessage `json:"options,omitempty"`
	// Run, Session, Harness and Subject tell who asks, and within what.
	Run     *Run     `json:"run,omitempty"`
	Session *Session `json:"session,omitempty"`
	Harness *Harness `json:"harness,omitempty"`
	Subject *Subject `json:"subject,omitempty"`
}

// Tool is a tool call. Server is the MCP server that offers the tool, empty for
// the harness's own tools.
type Tool struct {
	Name      string          `json:"name"`
	Server    string          `json:"server,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Annotations are the hints of an MCP server about its own tool. They may
	// raise a class and never lower it, unless policy trusts the server.
	Annotations *Annotations `json:"annotations,omitempty"`
	// Description is the tool's text as its server gives it. It is not trusted.
	Description string `json:"description,omitempty"`
}

// Annotations are MCP tool annotations (Model Context Protocol 2025-06-18,
// ToolAnnotations). A nil hint was not given.
type Annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
}

// Command is a command as shell text or as an argument vector; not both.
type Command struct {
	// Shell is the dialect of Text: bash, sh or zsh. Empty means bash.
	Shell string `json:"shell,omitempty"`
	// Text is given to the shell with -c.
	Text string `json:"text,omitempty"`
	// Argv runs without a shell.
	Argv []string `json:"argv,omitempty"`
}

// Line is the command as one would type it: the text, or the words of the vector
// with quotes where an argument would not end else.
func (c *Command) Line() string {
	if len(c.Argv) == 0 {
		return c.Text
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		words[i] = QuoteWord(w)
	}
	return strings.Join(words, " ")
}

// QuoteWord shows where an argument ends.
func QuoteWord(w string) string {
	if w != "" && !strings.ContainsAny(w, " \t\n\"'\\$`&|;<>()*?[]{}~#!") {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// Change is one file that a patch touches.
type Change struct {
	Path string `json:"path"`
	// Operation is what happens to Path.
	Operation string `json:"operation" jsonschema:"enum=add,enum=update,enum=delete"`
	// MovePath is the new name, when an update renames the file.
	MovePath string `json:"move_path,omitempty"`
	// Diff is the change in the harness's own form, for people to read.
	Diff string `json:"diff,omitempty"`
}

// Network is one destination. Protocol is http, https, socks5_tcp or socks5_udp.
type Network struct {
	Host     string `json:"host"`
	Port     int    `json:"port,omitempty,omitzero"`
	Protocol string `json:"protocol,omitempty"`
}

// Environment is a place where commands run.
type Environment struct {
	ID  string `json:"id,omitempty"`
	Cwd string `json:"cwd,omitempty"`
	// Home is the home folder of the user who runs the command there; ~ means
	// this folder and nothing else.
	Home string `json:"home,omitempty"`
	// TmpDir is the folder for temporary files there.
	TmpDir string `json:"tmp_dir,omitempty"`
	// ProjectRoots are the folders that the agent works on; Cwd when empty.
	ProjectRoots []string `json:"project_roots,omitempty"`
}

// Run is one execution of a native host; Instance is one process of it.
type Run struct {
	ID       string `json:"id"`
	Instance string `json:"instance,omitempty"`
}

// Session carries the agent's own ids.
type Session struct {
	ID     string `json:"id,omitempty"`
	TurnID string `json:"turn_id,omitempty"`
	CallID string `json:"call_id,omitempty"`
	// Members are the people who take part in the session, as principals such as
	// user:sam. The one it acts on behalf of is a member without being listed.
	Members []string `json:"members,omitempty"`
}

// Harness is the program that runs the agent. Name "native" is a host that
// speaks Regent's own API, and so is a request without a harness.
type Harness struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// Subject is who acts, and for whom.
type Subject struct {
	ID         string `json:"id"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
}

// ErrRequest means that a request is malformed. The error that wraps it says
// what is wrong and where; the sender must mend the request, since no answer
// to it would mean anything.
var ErrRequest = errors.New("malformed request")

// RequestError is one fault of a request. It wraps ErrRequest.
type RequestError struct {
	// Pointer is the JSON Pointer (RFC 6901) of the faulty part, "" for the whole.
	Pointer string
	Message string
}

func (e *RequestError) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("%v: %s", ErrRequest, e.Message)
	}
	return fmt.Sprintf("%v: %s: %s", ErrRequest, e.Pointer, e.Message)
}

func (e *RequestError) Unwrap() error { return ErrRequest }

// MaxRequestBytes is the largest request that Decode accepts.
const MaxRequestBytes = 4 << 20

// Decode reads exactly one request. Unknown fields, duplicate names at any
// depth (tool arguments included: two readers must not see two calls), invalid
// UTF-8 and trailing text are errors, as is a request that Validate refuses.
func Decode(data []byte) (*Request, error) {
	if len(data) > MaxRequestBytes {
		return nil, &RequestError{Message: fmt.Sprintf("%d bytes, the limit is %d", len(data), MaxRequestBytes)}
	}
	var r Request
	if err := jsonv2.Unmarshal(data, &r, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, decodeError(err)
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return &r, nil
}

// decodeError turns what the JSON library says into one RequestError.
func decodeError(err error) error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		message := "not valid JSON: " + plain(syntactic.Err)
		if errors.Is(syntactic.Err, jsontext.ErrDuplicateName) {
			message = "the name is given twice"
		}
		if errors.Is(syntactic.Err, io.ErrUnexpectedEOF) || errors.Is(syntactic.Err, io.EOF) {
			message = "not valid JSON: the text ends too early"
		}
		return &RequestError{Pointer: string(syntactic.JSONPointer), Message: fmt.Sprintf("%s (byte %d)", message, syntactic.ByteOffset)}
	}
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		pointer := string(semantic.JSONPointer)
		switch {
		case errors.Is(semantic.Err, jsonv2.ErrUnknownName):
			return &RequestError{Pointer: pointer, Message: "unknown field; see the request schema (regent policy schema request)"}
		case semantic.Err != nil:
			return &RequestError{Pointer: pointer, Message: plain(semantic.Err)}
		default:
			return &RequestError{Pointer: pointer, Message: fmt.Sprintf("a JSON %s does not fit here", semantic.JSONKind)}
		}
	}
	return &RequestError{Message: plain(err)}
}

// plain drops the library's prefixes from a message that people read.
func plain(err error) string {
	if err == nil {
		return "unknown fault"
	}
	s := err.Error()
	for _, prefix := range []string{"jsontext: ", "json: "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}

// Validate says whether the parts fit the kind. It checks shape, not wisdom:
// a request that policy must refuse is still a valid request.
func (r *Request) Validate() error {
	fault := func(pointer, format string, args ...any) error {
		return &RequestError{Pointer: pointer, Message: fmt.Sprintf(format, args...)}
	}
	if r.Kind == "" {
		return fault("/kind", "is missing; use one of %s", kindList())
	}
	if !slices.Contains(Kinds, r.Kind) {
		return fault("/kind", "unknown kind %q; use one of %s", r.Kind, kindList())
	}
	if r.Tool != nil {
		if r.Tool.Name == "" {
			return fault("/tool/name", "is missing")
		}
		if a := bytes.TrimSpace(r.Tool.Arguments); len(a) > 0 && a[0] != '{' && !bytes.Equal(a, []byte("null")) {
			return fault("/tool/arguments", "must be an object")
		}
	}
	if c := r.Command; c != nil {
		switch {
		case c.Text != "" && len(c.Argv) > 0:
			return fault("/command", "has both text and argv; give one")
		case c.Text == "" && len(c.Argv) == 0:
			return fault("/command", "has neither text nor argv")
		case c.Shell != "" && len(c.Argv) > 0:
			return fault("/command/shell", "argv runs without a shell; leave it out")
		}
	}
	for i, c := range r.Changes {
		if c.Path == "" {
			return fault(fmt.Sprintf("/changes/%d/path", i), "is missing")
		}
		switch c.Operation {
		case "add", "update", "delete":
		default:
			return fault(fmt.Sprintf("/changes/%d/operation", i), "unknown operation %q; use add, update or delete", c.Operation)
		}
	}
	if h := r.Harness; h != nil && h.Name == "" {
		return fault("/harness/name", "is missing")
	}
	switch r.Kind {
	case KindTool:
		if r.Tool == nil {
			return fault("/tool", "is missing for kind tool")
		}
	case KindMCP:
		if r.Tool == nil {
			return fault("/tool", "is missing for kind mcp")
		}
		if r.Tool.Server == "" {
			return fault("/tool/server", "is missing for kind mcp")
		}
	case KindCommand:
		if r.Command == nil {
			return fault("/command", "is missing for kind command")
		}
	case KindPermissions:
		if r.Permissions == nil {
			return fault("/permissions", "is missing for kind permissions")
		}
	case KindNetwork:
		if r.Network == nil || r.Network.Host == "" {
			return fault("/network/host", "is missing for kind network")
		}
	case KindFileChange:
		// An unknown content is a fact about the request, not a fault of it.
	}
	return nil
}

func kindList() string {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Native says whether the request comes from a host that speaks Regent's own
// API rather than from another harness's approval protocol.
func (r *Request) Native() bool {
	return r.Harness == nil || r.Harness.Name == "native"
}
