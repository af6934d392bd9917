package scripted

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is what the model was asked: everything that it is told.
type Request struct {
	// Prompt is the script that it belongs to; "" for none.
	Prompt string
	// Side is true for what Codex asks beside the turn: a title, a summary, or a
	// review of its own guardian. It takes no step of a script.
	Side bool
	// Subagent is what asks on the side, such as "guardian"; "" for the agent.
	Subagent string
	// Thread and Turn are whose it is, as Codex says in its headers.
	Thread, Turn string
	// Body is the whole.
	Body jsontext.Value

	input []turnItem
	title bool
}

// guardian is the subagent that reviews calls.
const guardian = "guardian"

// turnItem is a part of what the model is told.
type turnItem struct {
	Type    string         `json:"type"`
	Role    string         `json:"role"`
	CallID  string         `json:"call_id"`
	Output  jsontext.Value `json:"output"`
	Content jsontext.Value `json:"content"`
}

func readRequest(header http.Header, body []byte) (*Request, error) {
	var parts struct {
		Input *[]turnItem `json:"input"`
	}
	if err := jsonv2.Unmarshal(body, &parts); err != nil {
		return nil, fmt.Errorf("read what a model is asked: %w", err)
	}
	if parts.Input == nil {
		return nil, errors.New("read what a model is asked: there is no input")
	}
	// What a client of app-server sets is not all there, so every part may be missing.
	var turn struct {
		Thread string `json:"thread_id"`
		Turn   string `json:"turn_id"`
		Source string `json:"thread_source"`
		Kind   string `json:"request_kind"`
	}
	if text := header.Get("X-Codex-Turn-Metadata"); text != "" {
		if err := jsonv2.Unmarshal([]byte(text), &turn); err != nil {
			return nil, fmt.Errorf("read x-codex-turn-metadata: %w", err)
		}
	}
	one := &Request{
		Body: body, Thread: turn.Thread, Turn: turn.Turn, Subagent: header.Get("X-Openai-Subagent"),
		title: turn.Source == "thread_title", input: *parts.Input,
	}
	one.Side = one.Subagent != "" || one.title || turn.Kind != "" && turn.Kind != "turn"
	return one, nil
}

// Output is what the model was told of a call; "" where it was told nothing.
func (r *Request) Output(call string) string {
	for _, i := range slices.Backward(r.input) {
		if i.CallID == call && len(i.Output) > 0 {
			return texts(i.Output)
		}
	}
	return ""
}

// running is how Codex says that a command goes on.
var running = regexp.MustCompile(`session ID (\d+)`)

// Session is the number of the command that a call started and that goes on; ok is
// false where none does.
func (r *Request) Session(call string) (session int, ok bool) {
	found := running.FindStringSubmatch(r.Output(call))
	if found == nil {
		return 0, false
	}
	session, err := strconv.Atoi(found[1])
	return session, err == nil
}

// Said are the texts of the user, the first one first: what the user wrote, what
// was steered in, and what Codex adds in the user's name.
func (r *Request) Said() []string {
	var out []string
	for _, i := range r.input {
		if i.Type == "message" && i.Role == "user" {
			out = append(out, texts(i.Content))
		}
	}
	return out
}

// texts is the text of a content, which is a text itself or has parts. What is
// neither is given as it is.
func texts(raw jsontext.Value) string {
	var text string
	if jsonv2.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if jsonv2.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
	}
	return all.String()
}
