// Package scripted is a model that says what a script has it say, behind the
// Responses API on a loopback port. It stands in for the model of a real Codex in
// tests, in demonstrations, and where regent doctor looks whether Codex asks.
//
// The events are those that codex 0.156.1 and 0.171.0 read.
package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Item is one thing that the model says: a call of a tool, or a message.
type Item map[string]any

// Exec calls the shell tool.
func Exec(call, command string) Item {
	return Call(call, "exec_command", map[string]any{"cmd": command})
}

// Escalated calls the shell tool outside the sandbox, which Codex asks about.
func Escalated(call, command string) Item {
	return Call(call, "exec_command", map[string]any{
		"cmd": command, "sandbox_permissions": "require_escalated", "justification": "the task needs it",
	})
}

// WithPermissions calls the shell tool with permissions on top of the sandbox, as
// Codex writes them (file_system, network).
func WithPermissions(call, command string, permissions map[string]any) Item {
	return Call(call, "exec_command", map[string]any{
		"cmd": command, "sandbox_permissions": "with_additional_permissions", "justification": "the task needs it",
		"additional_permissions": permissions,
	})
}

// Permissions calls request_permissions.
func Permissions(call string, permissions map[string]any) Item {
	return Call(call, "request_permissions", map[string]any{
		"reason": "the task needs it", "environment_id": "local", "permissions": permissions,
	})
}

// Patch calls apply_patch with the text of a patch.
func Patch(call, patch string) Item {
	return Item{"type": "custom_tool_call", "call_id": call, "name": "apply_patch", "input": patch}
}

// MCP calls a tool of an MCP server.
func MCP(call, server, tool string, arguments map[string]any) Item {
	item := Call(call, tool, arguments)
	item["namespace"] = "mcp__" + server
	return item
}

// Call calls any other tool.
func Call(call, name string, arguments map[string]any) Item {
	text, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("scripted: the arguments of %s: %v", name, err)) // a mistake in the script
	}
	return Item{"type": "function_call", "call_id": call, "name": name, "arguments": string(text)}
}

// Message is what the model says to the user. A response that has nothing else
// ends the turn.
func Message(text string) Item {
	return Item{"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": text}}}
}

// Step is one response of the model.
type Step struct {
	Items []Item `json:"items"`
	// Hold has the response wait until the channel is closed; nil does not wait.
	Hold <-chan struct{} `json:"-"`
}

// Say is a step with items.
func Say(items ...Item) Step { return Step{Items: items} }

// Request is what the model was asked.
type Request struct {
	// Prompt is the script that it belongs to; "" for none.
	Prompt string
	// Side is true for what Codex asks beside the turn: a title, or a review of its
	// own guardian.
	Side bool
	// Body is the whole.
	Body json.RawMessage

	input []turnItem
}

// turnItem is a part of what the model is told.
type turnItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	CallID  string          `json:"call_id"`
	Output  json.RawMessage `json:"output"`
	Content json.RawMessage `json:"content"`
}

// Output is what the model was told of a call; "" where it was told nothing.
func (r *Request) Output(call string) string {
	for _, i := range r.input {
		if i.CallID == call && len(i.Output) > 0 {
			return texts(i.Output)
		}
	}
	return ""
}

// Said are the texts of the user, the first one first.
func (r *Request) Said() []string {
	var out []string
	for _, i := range r.input {
		if i.Type == "message" && i.Role == "user" {
			out = append(out, texts(i.Content))
		}
	}
	return out
}

// texts is the text of a content, which is a text itself or has parts.
func texts(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// Server is the model. It is safe for concurrent use.
type Server struct {
	server  *http.Server
	address string
	serving sync.WaitGroup
	closed  chan struct{}

	mu       sync.Mutex
	scripts  map[string][]Step
	requests []*Request
	changed  chan struct{}
	review   string
	ids      int
}

// maxBody bounds what is asked of the model: some ten times a usual request.
const maxBody = 8 << 20

// Listen starts a model on a free port of the loopback address. Close ends it.
func Listen() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a scripted model: %w", err)
	}
	s := &Server{
		address: "http://" + listener.Addr().String() + "/v1", scripts: map[string][]Step{},
		changed: make(chan struct{}), closed: make(chan struct{}), review: `{"outcome":"deny","rationale":"nobody has scripted a review"}`,
	}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	s.serving.Go(func() { _ = s.server.Serve(listener) })
	return s, nil
}

// Close ends the model, and every response that is held.
func (s *Server) Close() {
	close(s.closed)
	_ = s.server.Close()
	s.serving.Wait()
}

// URL is the base_url of a model provider.
func (s *Server) URL() string { return s.address }

// Script is what the model says to a user who begins a turn with prompt, response
// by response. When it has come to its end, or to a prompt that has none, the model
// says "done".
func (s *Server) Script(prompt string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[prompt] = steps
}

// Parse takes scripts from JSON: an object with the responses for each prompt, of
// which each is an object with items.
func (s *Server) Parse(text []byte) error {
	var scripts map[string][]Step
	if err := json.Unmarshal(text, &scripts); err != nil {
		return fmt.Errorf("read a script: %w", err)
	}
	for prompt, steps := range scripts {
		s.Script(prompt, steps...)
	}
	return nil
}

// Review is what the model answers when Codex's guardian asks about a call: the
// JSON of its verdict.
func (s *Server) Review(verdict string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.review = verdict
}

// Requests are those of a script so far, without what was asked on the side.
func (s *Server) Requests(prompt string) []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Request
	for _, r := range s.requests {
		if r.Prompt == prompt && !r.Side {
			out = append(out, r)
		}
	}
	return out
}

// Changed is closed when the model is asked the next time.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	step, err := s.next(body, r.Header.Get("X-Openai-Subagent") != "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if step.Hold != nil {
		select {
		case <-step.Hold:
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range s.events(step.Items) {
		text, err := json.Marshal(event)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], text); err != nil {
			return
		}
	}
}

// title is how the TUI begins what it asks for a title with.
const title = "Generate a concise, single-line task title"

// next is the response to a request.
func (s *Server) next(body []byte, guardian bool) (Step, error) {
	one := &Request{Body: body}
	var parts struct {
		Input *[]turnItem `json:"input"`
	}
	if err := json.Unmarshal(body, &parts); err != nil {
		return Step{}, err
	}
	if parts.Input == nil {
		return Step{}, errors.New("there is no input")
	}
	one.input = *parts.Input
	said := one.Said()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Later turns of a thread come with the prompts of the earlier ones.
	for _, text := range slices.Backward(said) {
		if _, ok := s.scripts[text]; ok {
			one.Prompt = text
			break
		}
	}
	step := Say(Message("done"))
	switch {
	case guardian:
		one.Side, step = true, Say(Message(s.review))
	case slices.ContainsFunc(said, func(t string) bool { return strings.HasPrefix(t, title) }):
		one.Side, step = true, Say(Message("A title"))
	default:
		if steps := s.scripts[one.Prompt]; len(steps) > 0 {
			step, s.scripts[one.Prompt] = steps[0], steps[1:]
		}
	}
	s.requests = append(s.requests, one)
	close(s.changed)
	s.changed = make(chan struct{})
	return step, nil
}

// events are a response.
func (s *Server) events(items []Item) []map[string]any {
	s.mu.Lock()
	s.ids++
	id := fmt.Sprintf("response-%d", s.ids)
	s.mu.Unlock()
	out := []map[string]any{{"type": "response.created", "response": map[string]any{"id": id}}}
	for i, item := range items {
		if item["type"] == "message" && item["id"] == nil {
			named := Item{"id": fmt.Sprintf("%s-%d", id, i)}
			for k, v := range item {
				named[k] = v
			}
			item = named
		}
		out = append(out, map[string]any{"type": "response.output_item.done", "item": item})
	}
	usage := map[string]any{"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}
	return append(out, map[string]any{"type": "response.completed", "response": map[string]any{"id": id, "usage": usage}})
}
