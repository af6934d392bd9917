package reviewer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
)

// prompt is what a model is asked, whoever provides it.
type prompt struct {
	model, instructions, evidence string
	schema                        schema
	maxTokens                     int
	stream                        bool
}

// reply is what a model answered. The text is the whole of its answer.
type reply struct {
	text, model string
	tokens      *tokens
}

type tokens struct{ input, output int64 }

var (
	errRefused = errors.New("the model refused to answer")
	errTool    = errors.New("the model wants to use a tool, and it has none")
	errEarly   = errors.New("the reply ends before it is complete")
	errSilent  = errors.New("the reply holds no answer")
	errSeveral = errors.New("the reply holds more than one answer")
	errLong    = fmt.Errorf("the answer is longer than %d bytes", MaxOutput)
)

// shortError says that a model was stopped before it was done.
func shortError(why string) error {
	return fmt.Errorf("the reply was cut off (%s); half an answer is none", shortWord(why))
}

// statusError says that a reply ended in a way that is none of those known.
func statusError(what, status string) error {
	return fmt.Errorf("the reply ends with %s %s", what, shortWord(status))
}

// shortWord is a word of the provider's, fit to be quoted.
func shortWord(s string) string {
	if s == "" {
		return "none"
	}
	return approval.FirstCharacters(approval.Printable(s), 60)
}

// dialect is one interface of a provider. The error of read and of collect is
// why a reply is no answer; what it took is told even so, where it is known.
type dialect struct {
	// path follows the address that is configured, and home is that address where
	// none is.
	path, home string
	// sign puts the key, which may be "", and what else is wanted into a header.
	sign func(h http.Header, key string)
	// body is the request, to be encoded as JSON.
	body func(prompt) any
	// read reads a reply that came as one JSON object.
	read func(data []byte) (reply, error)
	// collect makes a function that takes one event of a stream after the other,
	// and tells when the reply is complete. The last call has no data, and is for
	// a stream that has ended.
	collect func() func(data []byte) (r reply, done bool, err error)
}

// dialectOf is the interface that a reviewer is configured for.
func dialectOf(r config.Reviewer) (dialect, error) {
	switch r.Provider {
	case config.ProviderOpenAI:
		switch r.API {
		case "", config.APIResponses:
			return responses, nil
		case config.APIChatCompletions:
			return chatCompletions, nil
		}
		return dialect{}, fmt.Errorf("api %q is not known", r.API)
	case config.ProviderAnthropic:
		return messages, nil
	default:
		return dialect{}, fmt.Errorf("provider %q is not known", r.Provider)
	}
}

func bearer(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// decode reads what a provider says. Members that are not known are passed over:
// providers add some.
func decode(data []byte, v any) error {
	if err := jsonv2.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the reply is not of the form that the interface has: %s", excerpt(data))
	}
	return nil
}

// fault is what providers say of an error.
type fault struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (f *fault) err() error {
	said := strings.TrimSpace(f.Message)
	if said == "" {
		said = f.Type
	}
	return fmt.Errorf("the provider reports an error: %s", approval.FirstCharacters(approval.Printable(approval.RedactText(said)), maxFault))
}

// maxFault is how much of an error is repeated, in characters.
const maxFault = 300

// responses is POST /responses of OpenAI.
var responses = dialect{
	path: "/responses",
	home: "https://api.openai.com/v1",
	sign: bearer,
	body: func(p prompt) any {
		type format struct {
			Type   string `json:"type"`
			Name   string `json:"name"`
			Strict bool   `json:"strict"`
			Schema schema `json:"schema"`
		}
		return struct {
			Model        string `json:"model"`
			Instructions string `json:"instructions"`
			Input        string `json:"input"`
			Text         struct {
				Format format `json:"format"`
			} `json:"text"`
			MaxTokens int  `json:"max_output_tokens"`
			Stream    bool `json:"stream"`
			// What is reviewed is not for the provider to keep.
			Store bool `json:"store"`
		}{
			Model: p.model, Instructions: p.instructions, Input: p.evidence, MaxTokens: p.maxTokens, Stream: p.stream,
			Text: struct {
				Format format `json:"format"`
			}{format{"json_schema", schemaName, true, p.schema}},
		}
	},
	read: func(data []byte) (reply, error) {
		var r responsesReply
		if err := decode(data, &r); err != nil {
			return reply{}, err
		}
		return r.reply()
	},
	collect: func() func(data []byte) (reply, bool, error) {
		return func(data []byte) (reply, bool, error) {
			if data == nil {
				return reply{}, true, errEarly
			}
			var event struct {
				Type     string          `json:"type"`
				Message  string          `json:"message"`
				Response *responsesReply `json:"response"`
			}
			if err := decode(data, &event); err != nil {
				return reply{}, true, err
			}
			switch event.Type {
			case "response.completed", "response.incomplete", "response.failed":
				// The whole reply comes once more at its end.
				if event.Response == nil {
					return reply{}, true, errSilent
				}
				r, err := event.Response.reply()
				return r, true, err
			case "error":
				return reply{}, true, (&fault{Message: event.Message, Type: "error"}).err()
			default:
				return reply{}, false, nil
			}
		}
	},
}

type responsesReply struct {
	Model      string `json:"model"`
	Status     string `json:"status"`
	Error      *fault `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"output"`
	Usage *struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
}

func (r *responsesReply) reply() (reply, error) {
	out := reply{model: r.Model}
	if r.Usage != nil {
		out.tokens = &tokens{r.Usage.Input, r.Usage.Output}
	}
	if r.Error != nil {
		return out, r.Error.err()
	}
	switch r.Status {
	case "completed":
	case "incomplete":
		return out, shortError(r.Incomplete.Reason)
	default:
		return out, statusError("status", r.Status)
	}
	var answers []string
	for _, item := range r.Output {
		switch item.Type {
		case "reasoning":
		case "message":
			for _, part := range item.Content {
				switch part.Type {
				case "output_text":
					answers = append(answers, part.Text)
				case "refusal":
					return out, errRefused
				default:
					return out, statusError("content of type", part.Type)
				}
			}
		default:
			// Whatever else there is is a call of a tool.
			return out, errTool
		}
	}
	return out.only(answers)
}

// only is the reply whose one answer is in answers.
func (r reply) only(answers []string) (reply, error) {
	switch len(answers) {
	case 0:
		return r, errSilent
	case 1:
		if len(answers[0]) > MaxOutput {
			return r, errLong
		}
		r.text = answers[0]
		return r, nil
	default:
		return r, errSeveral
	}
}

// chatCompletions is POST /chat/completions of OpenAI and of those who do as it
// does.
var chatCompletions = dialect{
	path: "/chat/completions",
	home: "https://api.openai.com/v1",
	sign: bearer,
	body: func(p prompt) any {
		type message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		type named struct {
			Name   string `json:"name"`
			Strict bool   `json:"strict"`
			Schema schema `json:"schema"`
		}
		type format struct {
			Type   string `json:"type"`
			Schema named  `json:"json_schema"`
		}
		type streaming struct {
			Usage bool `json:"include_usage"`
		}
		var options *streaming
		if p.stream {
			options = &streaming{true}
		}
		return struct {
			Model     string     `json:"model"`
			Messages  []message  `json:"messages"`
			Format    format     `json:"response_format"`
			MaxTokens int        `json:"max_completion_tokens"`
			Stream    bool       `json:"stream"`
			Options   *streaming `json:"stream_options,omitempty"`
		}{
			p.model,
			[]message{{"system", p.instructions}, {"user", p.evidence}},
			format{"json_schema", named{schemaName, true, p.schema}},
			p.maxTokens, p.stream, options,
		}
	},
	read: func(data []byte) (reply, error) {
		var r chatReply
		if err := decode(data, &r); err != nil {
			return reply{}, err
		}
		for i := range r.Choices {
			r.Choices[i].Delta = r.Choices[i].Message
		}
		var c chatCollector
		if err := c.add(&r); err != nil {
			return c.reply, err
		}
		return c.end()
	},
	collect: func() func(data []byte) (reply, bool, error) {
		var c chatCollector
		return func(data []byte) (reply, bool, error) {
			if data == nil || string(data) == "[DONE]" {
				r, err := c.end()
				return r, true, err
			}
			var r chatReply
			if err := decode(data, &r); err != nil {
				return c.reply, true, err
			}
			err := c.add(&r)
			return c.reply, err != nil, err
		}
	},
}

type chatReply struct {
	Model   string `json:"model"`
	Error   *fault `json:"error"`
	Choices []struct {
		Index   int64       `json:"index"`
		Message chatMessage `json:"message"`
		Delta   chatMessage `json:"delta"`
		Finish  string      `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input  int64 `json:"prompt_tokens"`
		Output int64 `json:"completion_tokens"`
	} `json:"usage"`
}

type chatMessage struct {
	Content  *string `json:"content"`
	Refusal  string  `json:"refusal"`
	Tools    []tool  `json:"tool_calls"`
	Function *tool   `json:"function_call"`
}

// tool is a call that is not looked at any further.
type tool struct{}

// chatCollector puts the pieces of a reply together.
type chatCollector struct {
	reply
	answer  strings.Builder
	said    bool
	refused bool
	finish  string
}

func (c *chatCollector) add(r *chatReply) error {
	if r.Model != "" {
		c.model = r.Model
	}
	if r.Usage != nil {
		c.tokens = &tokens{r.Usage.Input, r.Usage.Output}
	}
	if r.Error != nil {
		return r.Error.err()
	}
	if len(r.Choices) > 1 {
		return errSeveral
	}
	for _, choice := range r.Choices {
		switch {
		case choice.Index != 0:
			return errSeveral
		case len(choice.Delta.Tools) > 0 || choice.Delta.Function != nil:
			return errTool
		case c.finish != "" && choice.Delta.Content != nil && *choice.Delta.Content != "":
			return errSeveral
		}
		c.refused = c.refused || choice.Delta.Refusal != ""
		if piece := choice.Delta.Content; piece != nil {
			c.said = true
			c.answer.WriteString(*piece)
		}
		if c.answer.Len() > MaxOutput {
			return errLong
		}
		if choice.Finish != "" {
			c.finish = choice.Finish
		}
	}
	return nil
}

func (c *chatCollector) end() (reply, error) {
	switch {
	case c.refused:
		return c.reply, errRefused
	case c.finish == "stop":
	case c.finish == "length" || c.finish == "content_filter":
		return c.reply, shortError(c.finish)
	case c.finish == "tool_calls" || c.finish == "function_call":
		return c.reply, errTool
	case c.finish == "":
		return c.reply, errEarly
	default:
		return c.reply, statusError("finish_reason", c.finish)
	}
	if !c.said {
		return c.reply, errSilent
	}
	c.text = c.answer.String()
	return c.reply, nil
}

// messages is POST /v1/messages of Anthropic, in the version that its header
// names.
var messages = dialect{
	path: "/v1/messages",
	home: "https://api.anthropic.com",
	sign: func(h http.Header, key string) {
		h.Set("Anthropic-Version", "2023-06-01")
		if key != "" {
			h.Set("X-Api-Key", key)
		}
	},
	body: func(p prompt) any {
		type message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		type format struct {
			Type   string `json:"type"`
			Schema schema `json:"schema"`
		}
		type output struct {
			Format format `json:"format"`
		}
		return struct {
			Model     string    `json:"model"`
			MaxTokens int       `json:"max_tokens"`
			System    string    `json:"system"`
			Messages  []message `json:"messages"`
			Output    output    `json:"output_config"`
			Stream    bool      `json:"stream"`
		}{p.model, p.maxTokens, p.instructions, []message{{"user", p.evidence}}, output{format{"json_schema", p.schema}}, p.stream}
	},
	read: func(data []byte) (reply, error) {
		var r struct {
			messagesReply
			Type  string `json:"type"`
			Error *fault `json:"error"`
		}
		if err := decode(data, &r); err != nil {
			return reply{}, err
		}
		if r.Error != nil {
			return reply{}, r.Error.err()
		}
		if r.Type != "message" {
			return reply{}, statusError("type", r.Type)
		}
		return r.reply()
	},
	collect: func() func(data []byte) (reply, bool, error) {
		var whole messagesReply
		return func(data []byte) (reply, bool, error) {
			if data == nil {
				r, _ := whole.reply()
				return r, true, errEarly
			}
			done, err := whole.add(data)
			if err != nil {
				r, _ := whole.reply()
				return r, true, err
			}
			if !done {
				return reply{}, false, nil
			}
			r, err := whole.reply()
			return r, true, err
		}
	},
}

type messagesReply struct {
	Model   string          `json:"model"`
	Stop    string          `json:"stop_reason"`
	Content []messagesBlock `json:"content"`
	Usage   *messagesUsage  `json:"usage"`
}

type messagesBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type messagesUsage struct {
	Input        int64 `json:"input_tokens"`
	CacheCreated int64 `json:"cache_creation_input_tokens"`
	CacheRead    int64 `json:"cache_read_input_tokens"`
	Output       int64 `json:"output_tokens"`
}

// add takes one event of a stream and tells whether it was the last.
func (r *messagesReply) add(data []byte) (done bool, err error) {
	var event struct {
		Type    string        `json:"type"`
		Message messagesReply `json:"message"`
		Index   int           `json:"index"`
		Block   messagesBlock `json:"content_block"`
		Delta   struct {
			Type string `json:"type"`
			Text string `json:"text"`
			Stop string `json:"stop_reason"`
		} `json:"delta"`
		Usage *messagesUsage `json:"usage"`
		Error *fault         `json:"error"`
	}
	if err := decode(data, &event); err != nil {
		return false, err
	}
	switch event.Type {
	case "message_start":
		*r = event.Message
	case "content_block_start":
		if event.Index != len(r.Content) {
			return false, statusError("a block out of order:", event.Block.Type)
		}
		r.Content = append(r.Content, event.Block)
	case "content_block_delta":
		if event.Index < 0 || event.Index >= len(r.Content) {
			return false, statusError("a piece of no block:", event.Delta.Type)
		}
		if event.Delta.Type == "text_delta" {
			block := &r.Content[event.Index]
			if block.Text += event.Delta.Text; len(block.Text) > MaxOutput {
				return false, errLong
			}
		}
	case "message_delta":
		r.Stop = event.Delta.Stop
		if event.Usage != nil {
			if r.Usage == nil {
				r.Usage = &messagesUsage{}
			}
			// The sum so far; what went in was told at the start.
			r.Usage.Output = event.Usage.Output
		}
	case "message_stop":
		return true, nil
	case "error":
		if event.Error == nil {
			event.Error = &fault{Type: "error"}
		}
		return false, event.Error.err()
	}
	return false, nil
}

func (r *messagesReply) reply() (reply, error) {
	out := reply{model: r.Model}
	if u := r.Usage; u != nil {
		out.tokens = &tokens{u.Input + u.CacheCreated + u.CacheRead, u.Output}
	}
	switch r.Stop {
	case "end_turn":
	case "refusal":
		return out, errRefused
	case "tool_use", "pause_turn":
		return out, errTool
	case "max_tokens", "stop_sequence", "model_context_window_exceeded":
		return out, shortError(r.Stop)
	default:
		return out, statusError("stop_reason", r.Stop)
	}
	var answers []string
	for _, block := range r.Content {
		switch block.Type {
		case "thinking", "redacted_thinking":
		case "text":
			answers = append(answers, block.Text)
		default:
			return out, errTool
		}
	}
	return out.only(answers)
}
