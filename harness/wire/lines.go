// Package wire carries whole messages of JSON: a line each on a stream, or a text
// frame each on a WebSocket over a loopback port or a unix socket. These are the
// transports of codex app-server (0.156.1 and 0.171.0).
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxMessage is the largest message in bytes that is carried. The server knows no
// bound; an image in a message is some megabytes.
const MaxMessage = 256 << 20

const (
	// startBuffer is how much is read at once at first.
	startBuffer = 64 << 10
	// keepBuffer is how large a buffer may be that is kept for the next message.
	keepBuffer = 4 << 20
)

// ErrTooLong means that a message is larger than [MaxMessage]. The connection is
// of no use any more.
var ErrTooLong = errors.New("the message is too long")

// LineConn carries a message on each line of a stream.
type LineConn struct {
	reader io.Reader
	close  func() error
	max    int

	// buffer[from:to] has been read and not been returned.
	buffer   []byte
	from, to int
	lines    [][]byte
	err      error // what the reader ended with

	mu     sync.Mutex
	writer io.Writer
	out    []byte
}

// Lines carries messages on the lines of r and w. Close calls shut once, which has
// to let go of a read and a write that are under way.
func Lines(r io.Reader, w io.Writer, shut func() error) *LineConn {
	return &LineConn{reader: r, writer: w, close: sync.OnceValue(shut), max: MaxMessage}
}

// Read returns the messages that have come, at least one. They are valid until the
// next Read. Blank lines are passed over, and the last line needs no end. It is
// for one goroutine.
func (c *LineConn) Read() ([][]byte, error) {
	c.lines = c.lines[:0]
	for searched := c.from; ; {
		for {
			i := bytes.IndexByte(c.buffer[searched:c.to], '\n')
			if i < 0 {
				break
			}
			c.take(c.buffer[c.from : searched+i])
			searched += i + 1
			c.from = searched
		}
		if len(c.lines) > 0 {
			return c.lines, nil
		}
		if c.err != nil {
			rest := c.buffer[c.from:c.to]
			c.from, c.to = 0, 0
			if c.take(rest); len(c.lines) > 0 && errors.Is(c.err, io.EOF) {
				return c.lines, nil
			}
			return nil, c.err
		}
		c.room()
		searched = c.to // c.from may have moved to the start, and c.to with it
		n, err := c.reader.Read(c.buffer[c.to:])
		c.to += n
		c.err = err
		if c.to-c.from > c.max {
			c.err = fmt.Errorf("%w: more than %d bytes", ErrTooLong, c.max)
			c.from, c.to = 0, 0
			return nil, c.err
		}
	}
}

// take keeps a line that is not blank.
func (c *LineConn) take(line []byte) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(bytes.TrimSpace(line)) > 0 {
		c.lines = append(c.lines, line[:len(line):len(line)])
	}
}

// room makes room to read into, behind what has been read of a line.
func (c *LineConn) room() {
	rest := c.buffer[c.from:c.to]
	switch {
	case c.buffer == nil || len(rest) == 0 && len(c.buffer) > keepBuffer:
		c.buffer = make([]byte, startBuffer)
	case len(rest) > len(c.buffer)/2:
		grown := make([]byte, 2*len(c.buffer))
		copy(grown, rest)
		c.buffer = grown
	default:
		copy(c.buffer, rest)
	}
	c.from, c.to = 0, len(rest)
}

// Write writes messages in order, in one go. It is safe for concurrent use.
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
	_, err := c.writer.Write(c.out)
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	return err
}

// Close lets go of the stream.
func (c *LineConn) Close() error { return c.close() }
