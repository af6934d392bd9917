package codex

import (
	"context"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

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
	out, err := t.run(NewClient(conn))
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, err
}

func (t Turn) run(c *Client) (out Outcome, err error) {
	// Whose a notification is, is known when the turn has begun.
	var heard []Message
	c.Heard = func(m Message) any {
		heard = append(heard, m)
		return nil
	}
	hello, err := c.Hello(t.Client, t.Version)
	if err != nil {
		return out, err
	}
	out.Codex = hello.Version
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
	if err := c.Call(threadStart, start, &thread); err != nil {
		return out, err
	}
	out.Thread = thread.Thread.ID
	var turn struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	if err := c.Call(turnStart, map[string]any{
		"threadId": out.Thread, "input": []any{map[string]any{"type": "text", "text": t.Prompt}},
	}, &turn); err != nil {
		return out, err
	}
	out.Turn = turn.Turn.ID
	for {
		for _, m := range heard {
			if over, err := t.heard(m, &out); over || err != nil {
				return out, err
			}
		}
		heard = heard[:0]
		if err := c.Hear(); err != nil {
			return out, err
		}
	}
}

// heard takes a notification, and tells whether the turn is over by it.
func (t Turn) heard(m Message, out *Outcome) (over bool, err error) {
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
	if m.Method != itemCompleted && m.Method != turnCompleted {
		return false, nil
	}
	if err := jsonv2.Unmarshal(m.Params, &p); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrFrame, m.Method, err)
	}
	switch {
	case p.ThreadID != out.Thread:
	case m.Method == itemCompleted && p.Item.Type == "agentMessage":
		out.Message = p.Item.Text
		if t.Said != nil {
			t.Said(p.Item.Text)
		}
	case m.Method == turnCompleted && p.Turn.ID == out.Turn:
		out.Status = p.Turn.Status
		if p.Turn.Error != nil {
			out.Error = p.Turn.Error.Message
		}
		return true, nil
	}
	return false, nil
}

// ErrTurn means that a turn was not completed: it failed, or was interrupted.
var ErrTurn = errors.New("the turn was not completed")
