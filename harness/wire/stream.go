package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readSize is how much is read at once below a WebSocket.
	readSize = 32 << 10
	// gatherSize is how much is gathered before it is written.
	gatherSize = 64 << 10
	// byeTime is how long a peer may take to take in that the connection ends.
	byeTime = 100 * time.Millisecond
)

// stream is the connection below a WebSocket. It writes the frames of several
// messages in one go, bounds how long a write may take, and knows whether what it
// has read was all.
type stream struct {
	net.Conn
	in *bufio.Reader
	// ended says that the last of what came has been read. The library takes the end
	// of a connection within a message for the end of the message.
	ended   atomic.Bool
	release func() // gives the place of the connection back
	left    sync.Once

	mu       sync.Mutex
	patience time.Duration
	gather   bool
	out      []byte
	err      error // why nothing is written any more
}

func newStream(c net.Conn, release func()) *stream {
	return &stream{Conn: c, in: bufio.NewReaderSize(c, readSize), release: release, patience: shakeTime}
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	// A handshake ends its reading by a deadline.
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.ended.Store(true)
	}
	return n, err
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.gather && len(s.out)+len(p) > gatherSize {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	if !s.gather || len(p) > gatherSize {
		if err := s.write(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	s.out = append(s.out, p...)
	return len(p), nil
}

// begin gathers what is written until end.
func (s *stream) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gather = true
}

// end writes what was gathered.
func (s *stream) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gather = false
	return s.flush()
}

func (s *stream) flush() error {
	if s.err != nil || len(s.out) == 0 {
		return s.err
	}
	err := s.write(s.out)
	s.out = s.out[:0]
	return err
}

// write writes to the connection. The mutex is held.
func (s *stream) write(p []byte) error {
	_ = s.SetWriteDeadline(time.Now().Add(s.patience))
	_, s.err = s.Conn.Write(p)
	return s.err
}

// bye writes the last frame, unless something is being written.
func (s *stream) bye(frame []byte) {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.gather || s.err != nil {
		return
	}
	_ = s.SetWriteDeadline(time.Now().Add(byeTime))
	_, _ = s.Conn.Write(frame)
	s.err = io.ErrClosedPipe
}

// also has another place given back. It comes before whoever may close the stream.
func (s *stream) also(release func()) {
	before := s.release
	s.release = func() {
		before()
		release()
	}
}

func (s *stream) Close() error {
	err := s.Conn.Close()
	s.left.Do(s.release)
	return err
}
