// Package harness is the loop between an agent's server and the client in front
// of it: messages pass through, and what the server asks for an approval is put
// to the gate instead.
//
// The loop knows no protocol. A [Codec] reads the messages of one connection, a
// [Conn] carries them, and an [Asker] has the answers.
package harness

import (
	"context"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
)

// Conn is one end of a connection that carries whole messages.
type Conn interface {
	// Read returns the messages that have come, at least one; they are valid until
	// the next Read. An io.EOF is an orderly end. It is for one goroutine.
	Read() ([][]byte, error)
	// Write sends messages in order, each as a whole. It is safe for concurrent use.
	Write(messages ...[]byte) error
	// Close lets go of both at once. It may be called twice.
	Close() error
}

// Codec reads the messages of one connection, and remembers what is open on it.
// The loop calls it from several goroutines, one at a time.
type Codec interface {
	// FromServer takes a message of the server. An error means that the connection
	// is out of step and has to end.
	FromServer(message []byte) (Step, error)
	// FromClient takes a message of the client.
	FromClient(message []byte) (Step, error)
	// Answer puts an answer to an open question in the words of the protocol, and
	// closes the question. It returns nothing for a question that is open no more:
	// every question has one answer, and none once it is over.
	Answer(key string, a gate.Answer) [][]byte
}

// Step is what comes of a message.
type Step struct {
	// Forward is what goes on to the other side; nil is nothing.
	Forward []byte
	// Back is what goes to the side that the message came from.
	Back [][]byte
	// Ask is a question of the server. It goes to the gate and not to the client.
	Ask *Question
	// Over are questions that nobody waits for any more.
	Over []Over
	// Chosen is what the client's own user has answered to a question that was
	// shown to them.
	Chosen *Choice
	// Warning is what whoever runs this should know.
	Warning string
}

// Question is a request of the server that waits for an answer.
type Question struct {
	// Key names it on its connection, and, where Shared is set, on every connection
	// to the same server: then it is the same question.
	Key    string
	Shared bool
	// Request is what is asked.
	Request *approval.Request
	// Problem says what of the message was not understood; empty where all was.
	Problem string
	// Message is the question as it came.
	Message []byte
	// Show has it shown to the client's own user as well, who may answer first.
	Show bool
	// Stale says why nobody waits for it although it has just come, such as that its
	// turn is over. It is recorded, and refused whatever policy says.
	Stale string
}

// Over is a question that is open no more. Heard says that the server has taken
// the answer to it; else Reason says why it needs none.
type Over struct {
	Key    string
	Heard  bool
	Reason string
}

// Choice is what the client's user chose: see gate.Reply.
type Choice struct {
	Key   string
	Reply gate.Reply
}

// Asker has the answers. A [gate.Gate] is one, and so is the client of a daemon.
type Asker interface {
	// Post asks, and returns at once: without an outcome where somebody has to
	// answer first.
	Post(ctx context.Context, q gate.Question) (gate.Answer, error)
	// Await waits for the answer to what was posted, and counts as a sign of life of
	// the instance meanwhile. It may return early, without an outcome.
	Await(ctx context.Context, id, instance string) (gate.Answer, error)
	// Answer records what a person chose.
	Answer(ctx context.Context, reply gate.Reply) (approval.Record, error)
	// Withdraw says that nobody waits any more.
	Withdraw(ctx context.Context, id, instance, reason string) (approval.Record, error)
	// Sent and Unsent say whether an answer was written to the server.
	Sent(a gate.Answer)
	Unsent(a gate.Answer, cause error)
	// Mark notes that the server has taken an answer.
	Mark(ctx context.Context, id, instance string, mark gate.Mark, reason string) (approval.Record, error)
}

var _ Asker = (*gate.Gate)(nil)
