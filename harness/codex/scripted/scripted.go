// Package scripted is a model that says what a script has it say, behind the
// Responses API on a loopback port. It stands in for the model of a real Codex in
// tests, in demonstrations, and where regent doctor looks whether Codex asks.
//
// The events are those that codex 0.156.1 and 0.171.0 read: one stream for each
// POST /v1/responses. Anything else is not found.
package scripted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// Step is one response of the model.
type Step struct {
	// Items are what it says.
	Items []Item
	// Do says what follows the items, by what the model was told; nil adds nothing.
	// It runs on a goroutine of the server, where a test cannot be ended.
	Do func(*Request) []Item
	// Hold has the response wait until the channel is closed; nil does not wait. A
	// request that is given up meanwhile has used up its step.
	Hold <-chan struct{}
}

// Say is a step with items.
func Say(items ...Item) Step { return Step{Items: items} }

// Look is a step whose items depend on what the model was told.
func Look(do func(*Request) []Item) Step { return Step{Do: do} }

// After is the step, held until the channel is closed.
func (s Step) After(hold <-chan struct{}) Step {
	s.Hold = hold
	return s
}

// Server is the model. It is safe for concurrent use.
type Server struct {
	server  *http.Server
	address string
	serving sync.WaitGroup
	closing chan struct{}

	mu sync.Mutex
	// closed says that no request is answered any more; answering are those that are.
	closed    bool
	answering sync.WaitGroup
	scripts   map[string][]Step
	requests  []*Request
	changed   chan struct{}
	review    string
	ids       int
}

const (
	// maxBody bounds what is asked of the model. Codex sends the whole conversation
	// each time, some 45 kB before the first word of a user.
	maxBody    = 64 << 20
	headerTime = 10 * time.Second
)

// Listen starts a model on a free port of the loopback address. Close ends it.
func Listen() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a scripted model: %w", err)
	}
	s := &Server{
		address: "http://" + listener.Addr().String() + "/v1", scripts: map[string][]Step{},
		changed: make(chan struct{}), closing: make(chan struct{}),
		// Whoever scripts a call has not said that it is right.
		review: `{"outcome":"deny","rationale":"nobody has scripted a review"}`,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", s.serve)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, ErrorLog: log.New(io.Discard, "", 0)}
	s.serving.Go(func() { _ = s.server.Serve(listener) })
	return s, nil
}

// Close ends the model, and every response that is held. It is idempotent.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	_ = s.server.Close()
	s.serving.Wait()
	s.answering.Wait()
}

// enter counts a request that is answered, unless the model has ended.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.answering.Add(1)
	return true
}

// URL is the base_url of a model provider.
func (s *Server) URL() string { return s.address }

// Script is what the model says to a user who begins a turn with prompt, response
// by response; that of the prompt "" is for users who say what has no script. When
// a script has come to its end, or there is none, the model says "done".
func (s *Server) Script(prompt string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[prompt] = steps
}

// Review is what the model answers when Codex's guardian asks about a call: the
// JSON of its verdict. It denies until this is called.
func (s *Server) Review(verdict string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.review = verdict
}

// Requests are those of a script so far, without what was asked on the side.
func (s *Server) Requests(prompt string) []*Request {
	requests, _ := s.list(prompt)
	return requests
}

func (s *Server) list(prompt string) ([]*Request, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Request
	for _, r := range s.requests {
		if r.Prompt == prompt && !r.Side {
			out = append(out, r)
		}
	}
	return out, s.changed
}

// Asides are what was asked on the side so far.
func (s *Server) Asides() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Request
	for _, r := range s.requests {
		if r.Side {
			out = append(out, r)
		}
	}
	return out
}

// Wait waits for the n-th request of a script, counted from 1. It does not wait for
// the response. The error is the cause of the end of ctx.
func (s *Server) Wait(ctx context.Context, prompt string, n int) (*Request, error) {
	for {
		requests, changed := s.list(prompt)
		if len(requests) >= n {
			return requests[n-1], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for request %d of the script %q, of which %d came: %w", n, prompt, len(requests), context.Cause(ctx))
		}
	}
}

// Changed is closed when the model is asked the next time.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.answering.Done()
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		http.Error(w, "a scripted model reads no "+coding, http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	one, err := readRequest(r.Header, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	step := s.next(one)
	if step.Hold != nil {
		select {
		case <-step.Hold:
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
	items := slices.Clone(step.Items)
	if step.Do != nil {
		items = append(items, step.Do(one)...)
	}
	stream, err := s.stream(items)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(stream)))
	_, _ = w.Write(stream) // who has gone away misses nothing
}

// next records a request and is the response to it.
func (s *Server) next(one *Request) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Later turns of a thread come with the prompts of the earlier ones.
	for _, text := range slices.Backward(one.Said()) {
		if _, ok := s.scripts[text]; ok && text != "" {
			one.Prompt = text
			break
		}
	}
	step := Say(Message("done"))
	switch {
	case one.Subagent == guardian:
		step = Say(Message(s.review))
	case one.title:
		step = Say(Message(`{"title":"Scripted"}`))
	case one.Side:
	default:
		if steps := s.scripts[one.Prompt]; len(steps) > 0 {
			step, s.scripts[one.Prompt] = steps[0], steps[1:]
		}
	}
	s.requests = append(s.requests, one)
	close(s.changed)
	s.changed = make(chan struct{})
	return step
}

// stream is a response as events.
func (s *Server) stream(items []Item) ([]byte, error) {
	s.mu.Lock()
	s.ids++
	id := fmt.Sprintf("response-%d", s.ids)
	s.mu.Unlock()
	events := []map[string]any{{"type": "response.created", "response": map[string]any{"id": id}}}
	for i, item := range items {
		events = append(events, map[string]any{"type": "response.output_item.done", "item": item.named(fmt.Sprintf("%s-%d", id, i))})
	}
	usage := map[string]any{"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}
	events = append(events, map[string]any{"type": "response.completed", "response": map[string]any{"id": id, "usage": usage}})
	var out []byte
	for _, event := range events {
		text, err := jsonv2.Marshal(event, jsonv2.Deterministic(true))
		if err != nil {
			return nil, errors.Join(errors.New("say what no JSON can"), err)
		}
		out = fmt.Appendf(out, "event: %s\ndata: %s\n\n", event["type"], text)
	}
	return out, nil
}
