package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// startBuffer is how much is read at once at first.
	startBuffer = 64 << 10
	// keepBuffer is how large a buffer may be that is kept for the next message.
	keepBuffer = 4 << 20
	// emptyReads is how often in a row a reader may return neither bytes nor an error.
	emptyReads = 100
)

// LineConn carries a message on each line of a stream.
type LineConn struct {
	limits Limits
	closed chan struct{}
	close  func() error

	reader io.Reader
	// buffer[from:to] has been read and not been returned.
	buffer   []byte
	from, to int
	lines    [][]byte
	err      error // what the reader ended with

	// mu guards what writes.
	mu     sync.Mutex
	writer io.Writer
	out    []byte
	// deadline bounds a write; nil where the writer knows no deadlines. Then it is
	// called in a goroutine of its own, which takes jobs and says what became of them.
	deadline func(time.Time) error
	jobs     chan []byte
	wrote    chan error
}

// Lines carries messages on the lines of r and w. Close calls shut once, which has
// to let go of a read that is under way. A write that is under way is let go of in
// any case; if neither shut nor a deadline ends it in w, a goroutine waits for it
// until w is closed.
func Lines(r io.Reader, w io.Writer, shut func() error) *LineConn {
	c := &LineConn{limits: Limits{}.orDefault(), reader: r, writer: w, closed: make(chan struct{})}
	if d, ok := w.(interface{ SetWriteDeadline(t time.Time) error }); ok && d.SetWriteDeadline(time.Time{}) == nil {
		c.deadline = d.SetWriteDeadline
	}
	c.close = sync.OnceValue(func() error {
		close(c.closed)
		if c.deadline != nil {
			_ = c.deadline(time.Unix(1, 0)) // shut may not know the writer
		}
		return shut()
	})
	return c
}

// Limit sets what the connection puts up with. It comes before the first Read and
// Write.
func (c *LineConn) Limit(l Limits) { c.limits = l.orDefault() }

// Read returns the messages that have come, at least one. They are valid until the
// next Read. A line ends with LF or CRLF; blank ones are passed over, and the last
// line needs no end. It is for one goroutine.
func (c *LineConn) Read() ([][]byte, error) {
	c.lines = c.lines[:0]
	empty := 0
	for searched := c.from; ; {
		for c.err == nil || c.from < c.to {
			i := bytes.IndexByte(c.buffer[searched:c.to], '\n')
			if i < 0 {
				break
			}
			line := c.buffer[c.from : searched+i]
			searched += i + 1
			c.from = searched
			c.take(line)
		}
		if len(c.lines) > 0 {
			return c.lines, nil
		}
		if c.err != nil {
			return c.last()
		}
		// One more may be the CR of its end.
		if c.to-c.from > c.limits.Message+1 {
			c.tooLong()
			continue
		}
		c.room()
		searched = c.to // what is kept has moved to the start
		n, err := c.reader.Read(c.buffer[c.to:])
		c.to += n
		if n > 0 {
			empty = 0
		} else if empty++; err == nil && empty == emptyReads {
			err = io.ErrNoProgress
		}
		c.err = err
	}
}

// last returns the line that has no end, and then what the reader ended with. A
// line before an error or a Close may be half of one, and is none.
func (c *LineConn) last() ([][]byte, error) {
	rest := c.buffer[c.from:c.to]
	c.from, c.to = 0, 0
	if errors.Is(c.err, ErrTooLong) {
		return nil, c.err
	}
	select {
	case <-c.closed:
		c.err = io.EOF
		return nil, c.err
	default:
	}
	if errors.Is(c.err, io.EOF) {
		if c.take(rest); len(c.lines) > 0 {
			return c.lines, nil
		}
	}
	return nil, c.err
}

// take keeps a line that is not blank.
func (c *LineConn) take(line []byte) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) > c.limits.Message {
		c.tooLong()
		return
	}
	if len(bytes.TrimLeft(line, " \t\r")) > 0 {
		c.lines = append(c.lines, line[:len(line):len(line)])
	}
}

// tooLong ends the connection. What came before stays valid.
func (c *LineConn) tooLong() {
	c.from, c.to, c.buffer = 0, 0, nil
	c.err = fmt.Errorf("%w: more than %d bytes", ErrTooLong, c.limits.Message)
	_ = c.Close()
}

// room makes room to read into, behind what has been read of a line.
func (c *LineConn) room() {
	rest := c.buffer[c.from:c.to]
	into := c.buffer
	switch {
	case c.buffer == nil || len(c.buffer) > keepBuffer && len(rest) <= startBuffer/2:
		into = make([]byte, startBuffer)
	case len(rest) > len(c.buffer)/2:
		into = make([]byte, 2*len(c.buffer))
	case c.from == 0:
		return // to move a long line onto itself for each bit of it takes long
	}
	copy(into, rest)
	c.buffer = into
	c.from, c.to = 0, len(rest)
}

// Write writes messages in order, in one go. It is safe for concurrent use. When
// it fails, some of it may have been written, so the connection is closed.
func (c *LineConn) Write(messages ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	for _, m := range messages {
		if bytes.IndexByte(m, '\n') >= 0 {
			m = bytes.ReplaceAll(m, []byte{'\n'}, []byte{' '}) // JSON has no line breaks within texts
		}
		c.out = append(append(c.out, m...), '\n')
	}
	err := c.flush()
	if err != nil {
		c.out = nil // its goroutine may be reading it
		select {
		case <-c.closed:
			return io.ErrClosedPipe
		default:
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("%w for %s", ErrSlow, c.limits.Write)
		}
		_ = c.Close()
	}
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	return err
}

func (c *LineConn) flush() error {
	if c.deadline != nil {
		_ = c.deadline(time.Now().Add(c.limits.Write))
	}
	// Close comes before this or finds the deadline set, and ends it.
	select {
	case <-c.closed:
		return io.ErrClosedPipe
	default:
	}
	if c.deadline != nil {
		return writeAll(c.writer, c.out)
	}
	if c.jobs == nil {
		c.jobs, c.wrote = make(chan []byte), make(chan error, 1)
		go c.serve()
	}
	late := time.NewTimer(c.limits.Write)
	defer late.Stop()
	select {
	case c.jobs <- c.out: // it is idle, or the last write had failed
	case <-c.closed:
		return io.ErrClosedPipe
	}
	select {
	case err := <-c.wrote:
		return err
	case <-late.C:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return io.ErrClosedPipe
	}
}

// serve writes what it is given, until the connection is closed.
func (c *LineConn) serve() {
	for {
		select {
		case out := <-c.jobs:
			c.wrote <- writeAll(c.writer, out)
		case <-c.closed:
			return
		}
	}
}

func writeAll(w io.Writer, p []byte) error {
	n, err := w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// Close lets go of the stream, and of a Read and a Write that are under way.
func (c *LineConn) Close() error { return c.close() }
