package harness

import (
	"io"
	"sync"
)

// Pipe returns the two ends of a connection within the process. What one end
// writes, the other reads; a write waits for nobody until a thousand messages are
// on their way.
func Pipe() (Conn, Conn) {
	there, back := newQueue(), newQueue()
	return &pipeEnd{in: there, out: back}, &pipeEnd{in: back, out: there}
}

// maxQueued is how many messages may be on their way in one direction.
const maxQueued = 1000

type queue struct {
	mu       sync.Mutex
	changed  *sync.Cond
	messages [][]byte
	closed   bool
}

func newQueue() *queue {
	q := &queue{}
	q.changed = sync.NewCond(&q.mu)
	return q
}

func (q *queue) put(messages [][]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.messages) >= maxQueued && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return io.ErrClosedPipe
	}
	for _, m := range messages {
		q.messages = append(q.messages, append([]byte(nil), m...))
	}
	q.changed.Broadcast()
	return nil
}

func (q *queue) take() ([][]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.messages) == 0 && !q.closed {
		q.changed.Wait()
	}
	if len(q.messages) == 0 {
		return nil, io.EOF
	}
	taken := q.messages
	q.messages = nil
	q.changed.Broadcast()
	return taken, nil
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

type pipeEnd struct{ in, out *queue }

func (p *pipeEnd) Read() ([][]byte, error) { return p.in.take() }

func (p *pipeEnd) Write(messages ...[]byte) error { return p.out.put(messages) }

func (p *pipeEnd) Close() error {
	p.in.close()
	p.out.close()
	return nil
}
