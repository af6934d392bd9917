package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/harness"
)

// Turn is one turn of an agent that runs without a user.
type Turn struct {
	// Prompt is what the agent is told to do.
	Prompt string
	// Cwd is the folder it works in, absolute. Model is the model; the one that
	// Codex is configured for if empty.
	Cwd, Model string
	// Sandbox is "read-only" or "workspace-write", which it is if empty.
	Sandbox string
	// Client names who starts the turn, with a version.
	Client, Version string
	// Said hears of each message of the agent as it is finished; nil for nobody.
	Said func(text string)
}

// Outcome is what became of a turn.
type Outcome struct {
	Thread string `json:"thread"`
	Turn   string `json:"turn"`
	// Status is completed, interrupted or failed.
	Status string `json:"status"`
	// Message is the last message of the agent.
	Message string `json:"message"`
	// Error says why a turn failed.
	Error string `json:"error,omitempty"`
	// Codex is the version of the server.
	Codex string `json:"codex,omitempty"`
}

// Run has a turn run by a server behind conn, which is closed. What is asked
// meanwhile is answered by whoever stands between: with ctx, the turn ends.
//
// It asks for the approval policy on-request, for itself as the reviewer, and for
// a sandbox, whatever Codex is configured for: without them nothing is asked.
func (t Turn) Run(ctx context.Context, conn harness.Conn) (Outcome, error) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	c := &turnClient{conn: conn}
	out, err := t.run(c)
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, err
}

func (t Turn) run(c *turnClient) (out Outcome, err error) {
	var hello struct {
		UserAgent string `json:"userAgent"`
	}
	if err := c.call(initialize, map[string]any{
		"clientInfo":   map[string]any{"name": t.Client, "title": "Regent", "version": t.Version},
		"capabilities": map[string]any{"experimentalApi": true},
	}, &hello); err != nil {
		return out, err
	}
	if m := version.FindStringSubmatch(hello.UserAgent); m != nil {
		out.Codex = m[1]
	}
	if err := c.write(map[string]any{"method": "initialized"}); err != nil {
		return out, err
	}
	start := map[string]any{"cwd": t.Cwd, "approvalPolicy": "on-request", "approvalsReviewer": "user", "sandbox": "workspace-write"}
	if t.Sandbox != "" {
		start["sandbox"] = t.Sandbox
	}
	if t.Model != "" {
		start["model"] = t.Model
	}
	var thread struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	if err := c.call(threadStart, start, &thread); err != nil {
		return out, err
	}
	out.Thread = thread.Thread.ID
	var turn struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	if err := c.call(turnStart, map[string]any{
		"threadId": out.Thread, "input": []any{map[string]any{"type": "text", "text": t.Prompt}},
	}, &turn); err != nil {
		return out, err
	}
	out.Turn = turn.Turn.ID
	for {
		f, err := c.next()
		if err != nil {
			return out, err
		}
		if over, err := t.heard(f, &out); over || err != nil {
			return out, err
		}
	}
}

// heard takes a notification, and tells whether the turn is over by it.
func (t Turn) heard(f frame, out *Outcome) (over bool, err error) {
	var p struct {
		ThreadID string `json:"threadId"`
		Item     struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"item"`
		Turn struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"turn"`
	}
	if f.Method != itemCompleted && f.Method != turnCompleted {
		return false, nil
	}
	if err := jsonv2.Unmarshal(f.Params, &p); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrFrame, f.Method, err)
	}
	switch {
	case p.ThreadID != out.Thread:
	case f.Method == itemCompleted && p.Item.Type == "agentMessage":
		out.Message = p.Item.Text
		if t.Said != nil {
			t.Said(p.Item.Text)
		}
	case f.Method == turnCompleted && p.Turn.ID == out.Turn:
		out.Status = p.Turn.Status
		if p.Turn.Error != nil {
			out.Error = p.Turn.Error.Message
		}
		return true, nil
	}
	return false, nil
}

// turnClient is a client for one goroutine.
type turnClient struct {
	conn   harness.Conn
	queue  [][]byte
	asked  int
	passed []frame
}

func (c *turnClient) write(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return c.conn.Write(text)
}

// read is the next message.
func (c *turnClient) read() (frame, error) {
	for len(c.queue) == 0 {
		messages, err := c.conn.Read()
		if err != nil {
			return frame{}, fmt.Errorf("codex app-server hung up: %w", err)
		}
		for _, m := range messages {
			c.queue = append(c.queue, append([]byte(nil), m...))
		}
	}
	m := c.queue[0]
	c.queue = c.queue[1:]
	return decodeFrame(m)
}

// next is the next notification.
func (c *turnClient) next() (frame, error) {
	if len(c.passed) > 0 {
		f := c.passed[0]
		c.passed = c.passed[1:]
		return f, nil
	}
	return c.read()
}

// call makes a request and reads its result into what is given. Notifications
// that come before are kept for next.
func (c *turnClient) call(method string, params, into any) error {
	c.asked++
	if err := c.write(map[string]any{"id": c.asked, "method": method, "params": params}); err != nil {
		return err
	}
	for {
		f, err := c.read()
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if f.Method != "" || string(f.ID) != fmt.Sprint(c.asked) {
			c.passed = append(c.passed, f)
			continue
		}
		if !null(f.Error) {
			return fmt.Errorf("%s: codex app-server refused: %s", method, message(f.Error))
		}
		if err := jsonv2.Unmarshal(f.Result, into); err != nil {
			return fmt.Errorf("%w: the result of %s: %w", ErrFrame, method, err)
		}
		return nil
	}
}

// message is the text of an error.
func message(raw jsontext.Value) string {
	var e struct {
		Message string `json:"message"`
	}
	if jsonv2.Unmarshal(raw, &e) == nil && e.Message != "" {
		return strings.TrimSpace(e.Message)
	}
	return string(raw)
}

// ErrTurn means that a turn was not completed: it failed, or was interrupted.
var ErrTurn = errors.New("the turn was not completed")
