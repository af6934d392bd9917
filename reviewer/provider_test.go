//go:build linux || darwin

package reviewer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/regent-policy/regent/reviewer"
)

// heard is one request that a provider got.
type heard struct {
	method, path string
	header       http.Header
	body         []byte
}

// provider is a server on loopback that speaks like those of models.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	heard []heard
}

// provide starts a server that keeps what it hears and answers by a handler.
func provide(t testing.TB, answer http.HandlerFunc) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(p.keep(t, answer))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) keep(t testing.TB, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read a request: %v", err)
		}
		p.mu.Lock()
		p.heard = append(p.heard, heard{r.Method, r.URL.Path, r.Header.Clone(), body})
		p.mu.Unlock()
		answer(w, r)
	}
}

// only is the one request that there was.
func (p *provider) only(t testing.TB) heard {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.heard) != 1 {
		t.Fatalf("the provider heard %d requests, want 1", len(p.heard))
	}
	return p.heard[0]
}

// prompts are the two parts of what a model is asked, whichever the interface.
func (h heard) prompts(t testing.TB) (instructions, evidence string) {
	t.Helper()
	var body struct {
		Instructions, Input, System string
		Messages                    []struct{ Role, Content string }
	}
	if err := json.Unmarshal(h.body, &body); err != nil {
		t.Fatal(err)
	}
	switch {
	case body.Instructions != "":
		return body.Instructions, body.Input
	case body.System != "" && len(body.Messages) == 1:
		return body.System, body.Messages[0].Content
	case len(body.Messages) == 2:
		return body.Messages[0].Content, body.Messages[1].Content
	}
	t.Fatalf("no prompt in %s", h.body)
	return "", ""
}

// dialect is one of the interfaces, and how its provider words what it may come to.
type dialect struct {
	name, config, base, path string
	// reply is the body for an answer, and events the data of a stream for it.
	reply  func(text string) string
	events func(pieces ...string) []string
	// odd are replies that are no answers, by what they are.
	odd map[string]string
	// oddEvents are streams that are no answers.
	oddEvents map[string][]string
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func responsesReply(status, more, output string) string {
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1,"status":%q,"error":null,"incomplete_details":null,%s`+
		`"model":"small-model-2026-01-01","output":[{"type":"reasoning","id":"rs_1","summary":[]}%s],"parallel_tool_calls":true,`+
		`"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":0},"output_tokens":200,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":1200}}`,
		status, more, output)
}

func responsesMessage(content string) string {
	return `,{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[` + content + `]}`
}

func responsesText(text string) string {
	return `{"type":"output_text","text":` + quote(text) + `,"annotations":[],"logprobs":[]}`
}

func chatReply(finish, message string) string {
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"small-model-2026-01-01","choices":[{"index":0,"message":%s,`+
		`"logprobs":null,"finish_reason":%q}],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200},"service_tier":"default"}`, message, finish)
}

func chatEvents(finish string, deltas ...string) []string {
	out := []string{`{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"small-model-2026-01-01","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}`}
	for _, delta := range deltas {
		out = append(out, `{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"small-model-2026-01-01","choices":[{"index":0,"delta":`+delta+`,"finish_reason":null}],"usage":null}`)
	}
	return append(
		out,
		fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"small-model-2026-01-01","choices":[{"index":0,"delta":{},"finish_reason":%q}],"usage":null}`, finish),
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"small-model-2026-01-01","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200}}`,
		`[DONE]`,
	)
}

func messagesReply(stop, content string) string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"small-model-2026-01-01","content":[%s],"stop_reason":%q,"stop_sequence":null,`+
		`"usage":{"input_tokens":600,"cache_creation_input_tokens":100,"cache_read_input_tokens":300,"output_tokens":200}}`, content, stop)
}

func messagesText(text string) string { return `{"type":"text","text":` + quote(text) + `}` }

func messagesEvents(stop string, pieces ...string) []string {
	out := []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"small-model-2026-01-01","content":[],"stop_reason":null,"stop_sequence":null,` +
			`"usage":{"input_tokens":600,"cache_creation_input_tokens":100,"cache_read_input_tokens":300,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"ping"}`,
	}
	for _, piece := range pieces {
		out = append(out, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quote(piece)+`}}`)
	}
	return append(
		out,
		`{"type":"content_block_stop","index":0}`,
		fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":200}}`, stop),
		`{"type":"message_stop"}`,
	)
}

const whole = `{"risk_level":"low","user_authorization":"low","rationale":"a <push>","outcome":"allow"}`

// What the keys of the odd replies mean is in TestModelTakesNothingFromAReplyThatIsNoAnswer.
var dialects = []dialect{
	{
		name: "responses", config: "provider: openai", base: "/v1", path: "/v1/responses",
		reply: func(text string) string {
			return responsesReply("completed", "", responsesMessage(responsesText(text)))
		},
		events: func(pieces ...string) []string {
			out := []string{
				`{"type":"response.created","sequence_number":0,"response":` + responsesReply("in_progress", "", "") + `}`,
				`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"msg_1","content":[]}}`,
			}
			for i, piece := range pieces {
				out = append(out, fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","delta":%s}`, 2+i, quote(piece)))
			}
			return append(out, `{"type":"response.completed","sequence_number":9,"response":`+
				responsesReply("completed", "", responsesMessage(responsesText(strings.Join(pieces, ""))))+`}`)
		},
		odd: map[string]string{
			"refusal":   responsesReply("completed", "", responsesMessage(`{"type":"refusal","refusal":"I cannot help with that"}`)),
			"tool":      responsesReply("completed", "", `,{"type":"function_call","id":"fc_1","call_id":"call_1","name":"shell","arguments":"{}"}`),
			"tool too":  responsesReply("completed", "", responsesMessage(responsesText(whole))+`,{"type":"web_search_call","id":"ws_1","status":"completed"}`),
			"truncated": strings.Replace(responsesReply("incomplete", "", responsesMessage(responsesText(whole))), `"incomplete_details":null`, `"incomplete_details":{"reason":"max_output_tokens"}`, 1),
			"filtered":  strings.Replace(responsesReply("incomplete", "", ""), `"incomplete_details":null`, `"incomplete_details":{"reason":"content_filter"}`, 1),
			"failed":    strings.Replace(responsesReply("failed", "", ""), `"error":null`, `"error":{"code":"server_error","message":"The model is overloaded"}`, 1),
			"unknown":   responsesReply("queued", "", responsesMessage(responsesText(whole))),
			"silent":    responsesReply("completed", "", ""),
			"several":   responsesReply("completed", "", responsesMessage(responsesText(whole)+","+responsesText(whole))),
		},
		oddEvents: map[string][]string{
			"truncated": {`{"type":"response.incomplete","response":` + strings.Replace(responsesReply("incomplete", "", ""), `"incomplete_details":null`, `"incomplete_details":{"reason":"max_output_tokens"}`, 1) + `}`},
			"refusal":   {`{"type":"response.completed","response":` + responsesReply("completed", "", responsesMessage(`{"type":"refusal","refusal":"no"}`)) + `}`},
			"tool":      {`{"type":"response.completed","response":` + responsesReply("completed", "", `,{"type":"function_call","name":"shell","arguments":"{}"}`) + `}`},
			"failed":    {`{"type":"error","code":"server_error","message":"The model is overloaded"}`},
			"early":     {`{"type":"response.created","response":` + responsesReply("in_progress", "", "") + `}`, `{"type":"response.output_text.delta","delta":` + quote(whole) + `}`},
		},
	},
	{
		name: "chat completions", config: "provider: openai, api: chat_completions", base: "/v1", path: "/v1/chat/completions",
		reply: func(text string) string {
			return chatReply("stop", `{"role":"assistant","content":`+quote(text)+`,"refusal":null,"annotations":[]}`)
		},
		events: func(pieces ...string) []string {
			var deltas []string
			for _, piece := range pieces {
				deltas = append(deltas, `{"content":`+quote(piece)+`}`)
			}
			return chatEvents("stop", deltas...)
		},
		odd: map[string]string{
			"refusal":   chatReply("stop", `{"role":"assistant","content":null,"refusal":"I cannot help with that"}`),
			"tool":      chatReply("tool_calls", `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"shell","arguments":"{}"}}]}`),
			"tool too":  chatReply("stop", `{"role":"assistant","content":`+quote(whole)+`,"function_call":{"name":"shell","arguments":"{}"}}`),
			"truncated": chatReply("length", `{"role":"assistant","content":`+quote(whole)+`}`),
			"filtered":  chatReply("content_filter", `{"role":"assistant","content":`+quote(whole)+`}`),
			"failed":    `{"error":{"message":"The model is overloaded","type":"server_error","code":null}}`,
			"unknown":   chatReply("pause", `{"role":"assistant","content":`+quote(whole)+`}`),
			"silent":    chatReply("stop", `{"role":"assistant","content":null}`),
			"several":   strings.Replace(chatReply("stop", `{"role":"assistant","content":`+quote(whole)+`}`), `"choices":[`, `"choices":[{"index":1,"message":{"content":`+quote(whole)+`},"finish_reason":"stop"},`, 1),
		},
		oddEvents: map[string][]string{
			"truncated": chatEvents("length", `{"content":`+quote(whole)+`}`),
			"refusal":   chatEvents("stop", `{"refusal":"no"}`, `{"content":`+quote(whole)+`}`),
			"tool":      chatEvents("stop", `{"content":`+quote(whole)+`}`, `{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"shell","arguments":""}}]}`),
			"failed":    {`{"error":{"message":"The model is overloaded","type":"server_error"}}`},
			"early":     chatEvents("stop", `{"content":`+quote(whole)+`}`)[:2],
			"several":   {`{"choices":[{"index":0,"delta":{"content":` + quote(whole) + `},"finish_reason":"stop"}]}`, `{"choices":[{"index":0,"delta":{"content":"more"}}]}`},
			"long":      chatEvents("stop", `{"content":`+quote(strings.Repeat(" ", reviewer.MaxOutput))+`}`, `{"content":`+quote(whole)+`}`),
		},
	},
	{
		name: "messages", config: "provider: anthropic", base: "", path: "/v1/messages",
		reply: func(text string) string {
			return messagesReply("end_turn", `{"type":"thinking","thinking":"hm","signature":"x"},`+messagesText(text))
		},
		events: func(pieces ...string) []string { return messagesEvents("end_turn", pieces...) },
		odd: map[string]string{
			"refusal":   messagesReply("refusal", messagesText("I cannot help with that")),
			"tool":      messagesReply("tool_use", `{"type":"tool_use","id":"toolu_1","name":"shell","input":{}}`),
			"tool too":  messagesReply("end_turn", messagesText(whole)+`,{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`),
			"truncated": messagesReply("max_tokens", messagesText(whole)),
			"filtered":  messagesReply("stop_sequence", messagesText(whole)),
			"failed":    `{"type":"error","error":{"type":"overloaded_error","message":"The model is overloaded"},"request_id":"req_1"}`,
			"unknown":   messagesReply("compaction", messagesText(whole)),
			"silent":    messagesReply("end_turn", ""),
			"several":   messagesReply("end_turn", messagesText(whole)+","+messagesText(whole)),
		},
		oddEvents: map[string][]string{
			"truncated": messagesEvents("max_tokens", whole),
			"refusal":   messagesEvents("refusal", whole),
			"tool":      {messagesEvents("end_turn")[0], `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"shell","input":{}}}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`},
			"failed":    {`{"type":"error","error":{"type":"overloaded_error","message":"The model is overloaded"}}`},
			"early":     messagesEvents("end_turn", whole)[:5],
			"astray":    {`{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":` + quote(whole) + `}}`},
			"disorder":  {`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`},
			"long":      messagesEvents("end_turn", strings.Repeat(" ", reviewer.MaxOutput), whole),
		},
	},
}

// say answers with a body of some type.
func say(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

// stream answers with events, in the way of the interface whose first event has a
// type or none.
func stream(events []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, data := range events {
			var event struct{ Type string }
			if json.Unmarshal([]byte(data), &event) == nil && event.Type != "" {
				_, _ = fmt.Fprintf(w, "event: %s\n", event.Type)
			}
			_, _ = fmt.Fprintf(w, ": a comment\ndata: %s\r\n\r\n", data)
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}
	}
}

// openModel is a reviewer that asks the provider at base; more are other keys of its
// configuration, each after a comma.
func openModel(t testing.TB, d dialect, base, more string) reviewer.Reviewer {
	t.Helper()
	r, err := reviewer.Open(load(t, fmt.Sprintf(
		"reviewers: {acme/model: {kind: model, %s, model: small-model, base_url: %q, timeout_seconds: 60%s}}\n", d.config, base+d.base, more)), "acme/model")
	if err != nil {
		t.Fatal(err)
	}
	return r
}
