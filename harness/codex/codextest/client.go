package codextest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regent-policy/regent/harness"
)

// Frame is a message of the app-server.
type Frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Client plays the user of an app-server. Its methods fail the test where the
// server does not do its part; they are for several goroutines.
type Client struct {
	testing.TB
	conn harness.Conn
	// answer answers what the server asks; what it returns nil for is left open, as
	// is everything where it is nil.
	answer func(f Frame) any

	reading sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{}
	ids     int
	frames  []Frame
	results map[string]Frame
	ended   error
}

// NewClient introduces itself on a connection. answer answers what the server
// asks of the client, with a result; nil leaves it open. Capabilities are what the
// client promises besides experimentalApi, such as requiredHumanApproval.
func NewClient(tb testing.TB, conn harness.Conn, answer func(f Frame) any, capabilities ...string) *Client {
	tb.Helper()
	c := &Client{TB: tb, conn: conn, answer: answer, changed: make(chan struct{}), results: map[string]Frame{}}
	c.reading.Go(c.read)
	tb.Cleanup(c.Close)
	promised := map[string]any{"experimentalApi": true}
	for _, name := range capabilities {
		promised[name] = true
	}
	c.Call("initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "codextest", "title": "test", "version": "0"},
		"capabilities": promised,
	}, nil)
	c.write(map[string]any{"method": "initialized"})
	return c
}

// Close hangs up.
func (c *Client) Close() {
	_ = c.conn.Close()
	c.reading.Wait()
}

func (c *Client) write(message any) {
	c.Helper()
	text, err := json.Marshal(message)
	if err != nil {
		c.Fatal(err)
	}
	if err := c.conn.Write(text); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.Errorf("write to the app-server: %v", err)
	}
}

func (c *Client) read() {
	for {
		messages, err := c.conn.Read()
		if err != nil {
			c.mu.Lock()
			c.ended = fmt.Errorf("the app-server hung up: %w", err)
			c.tell()
			c.mu.Unlock()
			return
		}
		for _, m := range messages {
			var f Frame
			if err := json.Unmarshal(append([]byte(nil), m...), &f); err != nil {
				c.Errorf("the app-server says %s: %v", m, err)
				continue
			}
			if f.Method != "" && len(f.ID) > 0 && c.answer != nil {
				if result := c.answer(f); result != nil {
					c.write(map[string]any{"id": f.ID, "result": result})
				}
			}
			c.mu.Lock()
			if f.Method == "" {
				c.results[string(f.ID)] = f
			} else {
				c.frames = append(c.frames, f)
			}
			c.tell()
			c.mu.Unlock()
		}
	}
}

// tell wakes whoever waits. The mutex is held.
func (c *Client) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Patience is how long the server may be silent about what is waited for. It is far
// more than it takes on a busy machine, so that only a fault comes to an end by it.
const Patience = time.Minute

// until waits until done says so, which is asked with the mutex held.
func (c *Client) until(what string, done func() bool) {
	c.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	for {
		c.mu.Lock()
		ok, ended, changed := done(), c.ended, c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		if ended != nil {
			c.Fatalf("%s: %v", what, ended)
		}
		select {
		case <-changed:
		case <-late.C:
			c.Fatalf("%s: it has not come in %s; what came:\n%s", what, Patience, c.transcript())
		case <-c.Context().Done():
			c.Fatalf("%s: the test is over", what)
		}
	}
}

// transcript is what the server said of its own accord.
func (c *Client) transcript() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	for _, f := range c.frames {
		fmt.Fprintf(&out, "%s %s %.400s\n", f.ID, f.Method, f.Params)
	}
	return out.String()
}

// Try makes a request and returns what the server says.
func (c *Client) Try(method string, params any) Frame {
	c.Helper()
	c.mu.Lock()
	c.ids++
	id := fmt.Sprint(c.ids)
	c.mu.Unlock()
	c.write(map[string]any{"id": json.RawMessage(id), "method": method, "params": params})
	var f Frame
	c.until(method, func() bool {
		var ok bool
		f, ok = c.results[id]
		return ok
	})
	return f
}

// Call makes a request that has to succeed, and reads its result into what is
// given, unless that is nil.
func (c *Client) Call(method string, params, into any) {
	c.Helper()
	f := c.Try(method, params)
	if len(f.Error) > 0 {
		c.Fatalf("%s: %s", method, f.Error)
	}
	if into != nil {
		if err := json.Unmarshal(f.Result, into); err != nil {
			c.Fatalf("the result of %s: %v", method, err)
		}
	}
}

// Thread starts a thread in a folder, with more parameters of thread/start.
func (c *Client) Thread(cwd string, more map[string]any) string {
	c.Helper()
	params := map[string]any{"cwd": cwd}
	for k, v := range more {
		params[k] = v
	}
	var out struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	c.Call("thread/start", params, &out)
	return out.Thread.ID
}

// Turn starts a turn and returns its id.
func (c *Client) Turn(thread, prompt string) string {
	c.Helper()
	var out struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	c.Call("turn/start", map[string]any{"threadId": thread, "input": []any{map[string]any{"type": "text", "text": prompt}}}, &out)
	return out.Turn.ID
}

// Interrupt interrupts a turn.
func (c *Client) Interrupt(thread, turn string) {
	c.Helper()
	c.Call("turn/interrupt", map[string]any{"threadId": thread, "turnId": turn}, nil)
}

// Await waits for a notification or request of the server whose parameters hold
// every one of the texts.
func (c *Client) Await(method string, texts ...string) Frame {
	c.Helper()
	var found Frame
	c.until(method, func() bool {
		for _, f := range c.frames {
			if f.Method == method && holds(f.Params, texts) {
				found = f
				return true
			}
		}
		return false
	})
	return found
}

func holds(params json.RawMessage, texts []string) bool {
	for _, t := range texts {
		if !strings.Contains(string(params), t) {
			return false
		}
	}
	return true
}

// Ends waits for the end of a turn and returns its status.
func (c *Client) Ends(thread, turn string) string {
	c.Helper()
	f := c.Await("turn/completed", thread, turn)
	var p struct {
		Turn struct {
			Status string `json:"status"`
		} `json:"turn"`
	}
	if err := json.Unmarshal(f.Params, &p); err != nil {
		c.Fatal(err)
	}
	return p.Turn.Status
}

// Frames are the notifications and requests of a method so far.
func (c *Client) Frames(method string) []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Frame
	for _, f := range c.frames {
		if f.Method == method {
			out = append(out, f)
		}
	}
	return out
}
