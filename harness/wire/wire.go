// Package wire carries whole messages of JSON: a line each on a stream, or a text
// frame each on a WebSocket over a loopback port or a unix socket. These are the
// transports of codex app-server (0.156.1 and 0.171.0).
//
// A connection whose message was cut short, was too long or could not be written
// as a whole is closed: what follows on it would be read wrongly.
package wire

import (
	"errors"
	"time"
)

// MaxMessage is the largest message in bytes that is taken in, unless
// [Limits] say otherwise. The server knows no bound; an image in a message is some
// megabytes.
const MaxMessage = 256 << 20

// MaxWrite is how long a peer may take to take in what was written to it in one
// go, unless [Limits] say otherwise.
const MaxWrite = 60 * time.Second

var (
	// ErrTooLong means that a message was larger than its bound. The connection is
	// closed.
	ErrTooLong = errors.New("the message is too long")
	// ErrSlow means that a peer did not take in what was written to it in time. The
	// connection is closed.
	ErrSlow = errors.New("the peer takes in nothing")
)

// Limits are what a connection puts up with.
type Limits struct {
	// Message is the largest message in bytes that is taken in; [MaxMessage] if zero.
	Message int
	// Write is how long a write may wait for the peer; [MaxWrite] if zero.
	Write time.Duration
}

func (l Limits) orDefault() Limits {
	if l.Message <= 0 {
		l.Message = MaxMessage
	}
	if l.Write <= 0 {
		l.Write = MaxWrite
	}
	return l
}
