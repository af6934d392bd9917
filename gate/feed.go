package gate

import (
	"sync"
	"time"
)

// NoticeKind is what a notice is about.
type NoticeKind string

// The kinds of notice.
const (
	// NoticeEpoch is a new set of rules in force.
	NoticeEpoch NoticeKind = "epoch"
	// NoticeFault is a change that could not be put in force.
	NoticeFault NoticeKind = "fault"
	// NoticeHeld is a change that loosens and waits for a confirmation.
	NoticeHeld NoticeKind = "held"
	// NoticeLoosened is a change that loosens and is in force.
	NoticeLoosened NoticeKind = "loosened"
	// NoticeLedger is trouble with the store of approvals, or its end.
	NoticeLedger NoticeKind = "ledger"
	// NoticeWatch is trouble with seeing changes of files.
	NoticeWatch NoticeKind = "watch"
	// NoticeAnswer is an answer that changed nothing: it came too late, twice, or
	// for nothing that waits.
	NoticeAnswer NoticeKind = "answer"
)

// Notice is something that people who run a home should hear of. It holds
// nothing of any request.
type Notice struct {
	// Seq numbers the notices of one process from 1.
	Seq       int64      `json:"seq"`
	At        time.Time  `json:"at"`
	Kind      NoticeKind `json:"kind"`
	Workspace string     `json:"workspace,omitempty"`
	Epoch     string     `json:"epoch,omitempty"`
	Message   string     `json:"message"`
}

// maxNotices are kept for readers that come late.
const maxNotices = 256

// Feed tells readers that something has happened. It holds back nobody: a slow
// reader finds the events in the ledger when it gets to them. The zero value is
// ready.
type Feed struct {
	mu      sync.Mutex
	changed chan struct{}
	notices []Notice
	seq     int64
}

// Changed returns a channel that is closed when there is something new. A reader
// takes it before it looks.
func (f *Feed) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

func (f *Feed) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wakeLocked()
}

func (f *Feed) wakeLocked() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// Post adds a notice. Seq is given by the feed.
func (f *Feed) Post(n Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	n.Seq = f.seq
	f.notices = append(f.notices, n)
	if len(f.notices) > maxNotices {
		f.notices = append([]Notice(nil), f.notices[len(f.notices)-maxNotices:]...)
	}
	f.wakeLocked()
}

// Notices returns those after a number that are still kept, in order.
func (f *Feed) Notices(after int64) []Notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, n := range f.notices {
		if n.Seq > after {
			return append([]Notice(nil), f.notices[i:]...)
		}
	}
	return nil
}
