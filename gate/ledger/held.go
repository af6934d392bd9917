package ledger

import (
	"sync"
	"time"

	"github.com/regent-policy/regent/gate/approval"
)

// What is held in memory is bounded: records in number and in bytes of body, and
// leases in number.
const (
	heldRecords = 16384
	heldBytes   = 32 << 20
	heldLeases  = 1024
)

// held is what the writer knows of the tables without reading them: the end of
// the chain, records that are not over yet, and leases. It is right as long as
// no other connection has written; the writer compares SQLite's data version in
// each transaction, and drops everything when it has changed or a transaction
// failed. No update relies on it: each compares with the table itself.
//
// Only the writer changes it, and reads it without the lock; callers prepare
// their work from it.
type held struct {
	version int64
	head    Head

	mu      sync.RWMutex
	records map[string]*entry
	bytes   int
	leases  map[string]time.Time
}

// entry is a record as the table has it. An entry is never changed: another
// pointer is another revision.
type entry struct {
	n    int64
	r    approval.Record
	hash string // of its row
	size int    // of its body
}

// find returns a record and the lease of its instance, or nil.
func (h *held) find(id string) (*entry, time.Time) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	e, ok := h.records[id]
	if !ok {
		return nil, time.Time{}
	}
	until, ok := h.leases[e.r.Instance]
	if !ok {
		return nil, time.Time{}
	}
	return e, until
}

func (h *held) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version, h.head = 0, Head{}
	h.records, h.leases, h.bytes = nil, nil, 0
}

// keep takes over what a committed transaction has made.
func (h *held) keep(t *tx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head = t.head
	for id, e := range t.made {
		h.remove(id)
		if !e.r.State.Live() || e.size > heldBytes/32 {
			continue
		}
		// Any of them may go: what is not held is read.
		for other := range h.records {
			if len(h.records) < heldRecords && h.bytes+e.size <= heldBytes {
				break
			}
			h.remove(other)
		}
		if h.records == nil {
			h.records = map[string]*entry{}
		}
		h.records[id] = e
		h.bytes += e.size
	}
}

func (h *held) remove(id string) {
	if e, ok := h.records[id]; ok {
		h.bytes -= e.size
		delete(h.records, id)
	}
}

// lease keeps a lease that was read.
func (h *held) lease(instance string, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases == nil || len(h.leases) >= heldLeases {
		h.leases = map[string]time.Time{}
	}
	h.leases[instance] = until
}

// forgetLeases comes before a change of a lease, whether or not it is committed.
func (h *held) forgetLeases() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases = nil
}
