package ledger

import (
	"os"
	"sync/atomic"
	"time"
)

// Stats are what a running ledger tells of itself. The counts begin when it is
// opened.
type Stats struct {
	// Head is the end of the chain after the last commit.
	Head Head `json:"head"`
	// FileBytes and LogBytes are the sizes of the database and of its write-ahead
	// log; 0 if they cannot be told.
	FileBytes int64 `json:"file_bytes"`
	LogBytes  int64 `json:"log_bytes"`
	// Queued is how many changes wait for the writer.
	Queued int `json:"queued"`
	// Commits are transactions, Changes what was made in them, and Refused what
	// was asked for and answered with a refusal, such as a conflict.
	Commits int64 `json:"commits"`
	Changes int64 `json:"changes"`
	Refused int64 `json:"refused"`
	// Failed are changes that could not be made because of the store, and
	// LastError is why the last of them was not.
	Failed      int64     `json:"failed"`
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
}

// counters are written by the writer and read by anybody.
type counters struct {
	head                              atomic.Pointer[Head]
	commits, changes, refused, failed atomic.Int64
	last                              atomic.Pointer[failure]
}

type failure struct {
	err error
	at  time.Time
}

// Stats asks the writer nothing, so it answers at once, whatever goes on. It may
// be called after Close.
func (db *DB) Stats() Stats {
	s := Stats{
		Head: *db.count.head.Load(), FileBytes: bytesOf(db.path), LogBytes: bytesOf(db.path + "-wal"), Queued: len(db.ops),
		Commits: db.count.commits.Load(), Changes: db.count.changes.Load(), Refused: db.count.refused.Load(), Failed: db.count.failed.Load(),
	}
	if f := db.count.last.Load(); f != nil {
		s.LastError, s.LastErrorAt = f.err.Error(), f.at
	}
	return s
}

func bytesOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// fail counts a change that the store did not take.
func (c *counters) fail(err error, at time.Time) {
	c.failed.Add(1)
	c.last.Store(&failure{err, at})
}

// committed counts a transaction.
func (c *counters) committed(head Head, refusals []error) {
	c.head.Store(&head)
	c.commits.Add(1)
	for _, refusal := range refusals {
		if refusal != nil {
			c.refused.Add(1)
		} else {
			c.changes.Add(1)
		}
	}
}
