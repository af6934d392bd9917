package codex

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/harness"
)

// Client is a client of an app-server that does one thing after the other. It is for
// one goroutine.
type Client struct {
	// Heard takes what comes besides results, while a call waits for its own and in
	// [Client.Hear]. What it returns answers a request of the server; nil leaves that
	// open.
	Heard func(m Message) any

	conn  harness.Conn
	queue [][]byte
	asked int
}

// Message is a notification or a request of the server. A notification has no ID.
type Message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// Hello is what a server says of itself.
type Hello struct {
	// Version is that of Codex, empty where it does not tell. Home is its CODEX_HOME.
	Version, Home string
}

// HungUpError means that the server speaks no more. It wraps how the connection
// ended.
type HungUpError struct{ Err error }

func (e *HungUpError) Error() string { return fmt.Sprintf("codex app-server hung up: %v", e.Err) }
func (e *HungUpError) Unwrap() error { return e.Err }

// NewClient returns a client on a connection, which is the caller's to close.
func NewClient(conn harness.Conn) *Client { return &Client{conn: conn} }

// Hello introduces the client, which comes first.
func (c *Client) Hello(name, release string) (Hello, error) {
	var hello struct {
		UserAgent string `json:"userAgent"`
		CodexHome string `json:"codexHome"`
	}
	err := c.Call(initialize, map[string]any{
		"clientInfo":   map[string]any{"name": name, "title": "Regent", "version": release},
		"capabilities": map[string]any{"experimentalApi": true},
	}, &hello)
	if err == nil {
		err = c.write(map[string]any{"method": "initialized"})
	}
	out := Hello{Home: hello.CodexHome}
	if m := version.FindStringSubmatch(hello.UserAgent); m != nil {
		out.Version = m[1]
	}
	return out, err
}

// Call makes a request and reads its result into what is given, unless that is nil.
func (c *Client) Call(method string, params, into any) error {
	c.asked++
	if err := c.write(map[string]any{"id": c.asked, "method": method, "params": params}); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		f, err := c.next()
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if f.Method != "" || string(f.ID) != fmt.Sprint(c.asked) {
			if err := c.hear(f); err != nil {
				return fmt.Errorf("%s: %w", method, err)
			}
			continue
		}
		if !null(f.Error) {
			return fmt.Errorf("%s: codex app-server refused: %s", method, message(f.Error))
		}
		if into == nil {
			return nil
		}
		if err := jsonv2.Unmarshal(f.Result, into); err != nil {
			return fmt.Errorf("%w: the result of %s: %w", ErrFrame, method, err)
		}
		return nil
	}
}

// Hear waits for the next message and gives it to Heard.
func (c *Client) Hear() error {
	f, err := c.next()
	if err != nil {
		return err
	}
	return c.hear(f)
}

func (c *Client) hear(f frame) error {
	if c.Heard == nil {
		return nil
	}
	m := Message{ID: json.RawMessage(f.ID), Method: f.Method, Params: json.RawMessage(f.Params)}
	reply := c.Heard(m)
	if len(m.ID) == 0 || reply == nil {
		return nil
	}
	return c.write(map[string]any{"id": m.ID, "result": reply})
}

func (c *Client) write(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if err := c.conn.Write(text); err != nil {
		return &HungUpError{err}
	}
	return nil
}

// next is the next message.
func (c *Client) next() (frame, error) {
	for len(c.queue) == 0 {
		messages, err := c.conn.Read()
		if err != nil {
			return frame{}, &HungUpError{err}
		}
		for _, m := range messages {
			c.queue = append(c.queue, append([]byte(nil), m...))
		}
	}
	m := c.queue[0]
	c.queue = c.queue[1:]
	return decodeFrame(m)
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
