package approval

import (
	"context"
	"time"
)

// Ledger is the durable record of approvals. Package ledgertest has the suite
// that each implementation has to pass.
//
// All methods are safe for concurrent use. Each reads the ledger's own clock, so
// that deadline and lease are judged where the change is made. A change is on
// disk before its method returns; who waits for the answer hears of it no
// sooner. When ctx ends before the change has begun, nothing happens and the
// error is that of ctx; a change that has begun is finished and its outcome
// returned.
//
// The transitions are those of the methods of [Record] of the same name, with
// their errors, and [ErrNotFound]. A change that is made of several of them is
// made as a whole or not at all, with a revision and an event for each. Of
// several callers that name the same
// revision one wins; each other gets a [ConflictError] with the record that
// won. [ErrFull], [ErrDamaged], [ErrClosed] and any error not named in this
// package mean that the change must not be counted on: the caller asks again
// or denies, and reads the record before it tries once more.
//
// Only the gate may write. Readers (list, export, the event stream) need no
// order between calls.
type Ledger interface {
	// Lease lets an instance ask, until ttl from now, and renews that. It fails
	// with [ErrLost] once a lease has run out or was released: what that
	// instance asked is being closed, and a new instance needs a new name.
	Lease(ctx context.Context, instance string, ttl time.Duration) (until time.Time, err error)
	// Release ends a lease now. An instance without one is no error.
	Release(ctx context.Context, instance string) error

	// Insert stores a record that [New] made. It needs a lease of the record's
	// instance ([ErrLost]); an id that is taken is [ErrExists], and what was there
	// stays.
	Insert(ctx context.Context, r Record) (Record, error)
	// InsertDecided is Insert and Decide as one change, for what policy decides. If
	// sending, the answer is written at once, and BeginSend is part of the change.
	InsertDecided(ctx context.Context, r Record, d Decision, sending bool) (Record, error)

	Reroute(ctx context.Context, from From, ruling Ruling, reviewers []ReviewerIdentity) (Record, error)
	// Decide also keeps an answer that came too late or lost, as an event.
	Decide(ctx context.Context, from From, d Decision) (Record, error)
	BeginSend(ctx context.Context, from From) (Record, error)
	// Fence lets one action start, before or after the answer is marked as sent. Of
	// several callers one wins, whichever revisions they name, in whichever process
	// and after whatever crash: the use is on disk before the action may start. Like
	// every mark it moves the record on, so a mark that is made from an older
	// revision is a [ConflictError] with the record to make it from.
	Fence(ctx context.Context, from From, run, digest string) (Record, error)
	MarkSent(ctx context.Context, from From) (Record, error)
	MarkUnknown(ctx context.Context, from From, reason string) (Record, error)
	// Finish is MarkSent and Resolve as one change, for an answer to a host that
	// keeps no record of what it was told.
	Finish(ctx context.Context, from From, by, reason string) (Record, error)
	Resolve(ctx context.Context, from From, by, reason string) (Record, error)
	Cancel(ctx context.Context, from From, by, reason string) (Record, error)
	// Note adds to whatever revision of the record there is. Like every mark it moves
	// the record on.
	Note(ctx context.Context, id string, verdicts []Verdict) (Record, error)

	// Sweep expires what is past its deadline and abandons what lost its
	// instance, and returns what it closed. Nothing depends on when it runs: a
	// decision that comes first is refused all the same.
	Sweep(ctx context.Context) ([]Record, error)
	// Recover ends every lease and sweeps. The one process that serves the
	// ledger calls it when it starts, before it takes a request: whatever is
	// found then waits on a connection that no longer exists.
	Recover(ctx context.Context) ([]Record, error)

	// Read returns a record as it stands, or [ErrNotFound].
	Read(ctx context.Context, id string) (Record, error)
	// List returns a page of records, the newest first.
	List(ctx context.Context, q Query) (Page, error)
	// Events returns up to limit events with a number above after, in order. A
	// limit outside 1 to [MaxEvents] means [MaxEvents].
	Events(ctx context.Context, after int64, limit int) ([]Event, error)

	// Close refuses new calls, lets the change that is being made finish, and
	// waits until nothing of the ledger runs any more.
	Close() error
}

// Bounds of one answer.
const (
	MaxPage   = 100
	MaxEvents = 1000
)

// Query says which records to list. The zero value asks for the newest.
type Query struct {
	// Before is the id of a record; those older than it are listed. An id that
	// does not exist is [ErrNotFound].
	Before string
	// Limit is the size of a page; outside 1 to [MaxPage] it is [MaxPage].
	Limit int
	// The others narrow the list to records that have this value.
	States    []State
	Workspace string
	Run       string
	Instance  string
	Session   string
}

// Page is a part of a list.
type Page struct {
	Records []Record `json:"records"`
	// Before asks for the next page; "" says that there is none. A page can end
	// early, to stay within what fits into memory.
	Before string `json:"before,omitempty"`
}

// EventKind is what happened.
type EventKind string

// The kinds of event: one for each transition, and one for an answer that was
// refused because it lost or came too late.
const (
	EventAsked     EventKind = "asked"
	EventRerouted  EventKind = "rerouted"
	EventDecided   EventKind = "decided"
	EventWriting   EventKind = "writing"
	EventFenced    EventKind = "fenced"
	EventSent      EventKind = "sent"
	EventResolved  EventKind = "resolved"
	EventExpired   EventKind = "expired"
	EventCancelled EventKind = "cancelled"
	EventLost      EventKind = "lost"
	EventUnknown   EventKind = "unknown"
	EventNoted     EventKind = "noted"
	EventRefused   EventKind = "refused"
)

// Event is one change of one record. It never holds what was requested, so it
// may be sent to whoever may know that a request exists.
type Event struct {
	// Seq numbers the events of a ledger from 1 without gaps.
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Kind      EventKind `json:"kind"`
	ID        string    `json:"id"`
	Revision  int64     `json:"revision"`
	State     State     `json:"state"`
	Workspace string    `json:"workspace,omitempty"`
	// Outcome, Source and By are those of a decision, made or refused.
	Outcome Outcome `json:"outcome,omitempty"`
	Source  Source  `json:"source,omitempty"`
	By      string  `json:"by,omitempty"`
	// Record is the SHA-256 of the record as it stands after the event.
	Record string `json:"record"`
	// Hash is the SHA-256 of the previous event's hash and of this event.
	Hash string `json:"hash"`
}
