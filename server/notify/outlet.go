package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regent-policy/regent/config"
)

// MaxQueue is how many notifications wait for one notifier. Past it the oldest is
// dropped.
const MaxQueue = 256

// State is how a notifier stands.
type State string

// The states.
const (
	// Idle is one that has not been told anything yet.
	Idle State = "idle"
	// OK is one that has heard the last that it was told.
	OK State = "ok"
	// Failing is one that has not.
	Failing State = "failing"
	// Unavailable is one that nothing can be told here.
	Unavailable State = "unavailable"
)

// Stats are how a notifier stands, and what came of what it was told since the
// daemon began.
type Stats struct {
	Name  string
	Kind  config.NotifierKind
	State State
	// Sent is what was heard, Failed what was not, and Dropped what was never tried:
	// too much waited, or the request did not wait any more.
	Sent, Failed, Dropped int64
	// Queued is what waits.
	Queued int
	// Fault is why something was last not heard, and FaultAt when. It names no
	// address further than its host, and no secret.
	Fault   string
	FaultAt time.Time
}

// target is who is told. It does not change; another one takes its place.
type target struct {
	config   config.Notifier
	notifier Notifier
	// problem is why there is no notifier.
	problem error
}

// outlet tells one notifier what is put into its queue, one after the other.
type outlet struct {
	name     string
	queue    *queue
	target   atomic.Pointer[target]
	stopping <-chan struct{}
	log      *slog.Logger
	limits   limits
	ctx      context.Context
	cancel   context.CancelFunc

	mu           sync.Mutex
	sent, failed int64
	state        State
	fault        string
	faultAt      time.Time
}

func newOutlet(h *Hub, name string, t *target) *outlet {
	o := &outlet{name: name, queue: newQueue(), stopping: h.stopping, log: h.log, limits: h.limits, state: Idle}
	o.ctx, o.cancel = context.WithCancel(h.ctx)
	o.target.Store(t)
	return o
}

// abandon ends the outlet at once; what it has is not told.
func (o *outlet) abandon() {
	o.cancel()
	o.queue.close()
}

func (o *outlet) run() {
	defer o.cancel()
	for {
		n, ok := o.queue.next(o.ctx)
		if !ok {
			return
		}
		if n.Event == config.NotifyPending && !n.Deadline.IsZero() && !time.Now().Before(n.Deadline) {
			o.queue.drop() // nobody can answer it any more
			continue
		}
		o.tell(n)
	}
}

// tell tries until n is heard, there is no hope, or it takes too long.
func (o *outlet) tell(n Notification) {
	until := time.Now().Add(o.limits.patience)
	if n.Event == config.NotifyPending && !n.Deadline.IsZero() && n.Deadline.Before(until) {
		until = n.Deadline
	}
	ctx, cancel := context.WithDeadlineCause(o.ctx, until, errors.New("it took too long to be heard"))
	defer cancel()
	for try := 0; ; try++ {
		err := o.once(ctx, n)
		if err == nil || !errors.Is(err, ErrTransient) || try == len(o.limits.delays) || !o.wait(ctx, o.limits.delays[try]) {
			o.note(err)
			return
		}
	}
}

// once tries once. The target is looked up each time, so that a configuration that
// was mended counts at once.
func (o *outlet) once(ctx context.Context, n Notification) error {
	t := o.target.Load()
	if t.problem != nil {
		return t.problem
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limits.attempt, fmt.Errorf("no answer within %s", o.limits.attempt))
	defer cancel()
	return t.notifier.Notify(ctx, n.within(t.config.Details))
}

// wait waits, and reports whether to go on.
func (o *outlet) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-o.stopping:
	}
	return false
}

// note keeps what came of a notification. The log has when telling begins to fail
// and when it works again, and not each failure.
func (o *outlet) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.state
	if err == nil {
		o.sent++
		o.state = OK
		if before == Failing || before == Unavailable {
			o.log.Info("a notifier is told again", "notifier", o.name)
		}
		return
	}
	o.failed++
	o.state, o.fault, o.faultAt = Failing, err.Error(), time.Now().UTC()
	if errors.Is(err, ErrUnavailable) {
		o.state = Unavailable // which was said when that was found
	} else if before != Failing {
		o.log.Warn("a notifier was not told", "notifier", o.name, "error", err)
	}
}

func (o *outlet) stats() Stats {
	queued, dropped := o.queue.counts()
	t := o.target.Load()
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Stats{
		Name: o.name, Kind: t.config.Kind, State: o.state, Sent: o.sent, Failed: o.failed, Dropped: dropped,
		Queued: queued, Fault: o.fault, FaultAt: o.faultAt,
	}
	if t.problem != nil {
		s.State, s.Fault = Unavailable, t.problem.Error()
	}
	return s
}

// queue holds what an outlet is yet to tell.
type queue struct {
	mu      sync.Mutex
	waiting []Notification
	dropped int64
	closed  bool
	// more has a token when there may be something to take.
	more chan struct{}
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1)} }

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// push adds n, in place of the oldest where there is no room. It does not wait.
func (q *queue) push(n Notification) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.dropped++
		return
	}
	if len(q.waiting) == MaxQueue {
		q.waiting[0] = Notification{} // lets go of what it holds
		q.waiting = q.waiting[1:]
		q.dropped++
	}
	q.waiting = append(q.waiting, n)
	q.wake()
}

// next waits for the next one. It is false when the queue is closed and empty, or
// ctx has ended.
func (q *queue) next(ctx context.Context) (Notification, bool) {
	for {
		q.mu.Lock()
		if ctx.Err() != nil {
			q.dropped += int64(len(q.waiting))
			q.waiting = nil
		}
		if len(q.waiting) > 0 {
			n := q.waiting[0]
			q.waiting[0] = Notification{}
			q.waiting = q.waiting[1:]
			q.mu.Unlock()
			return n, true
		}
		over := q.closed || ctx.Err() != nil
		q.mu.Unlock()
		if over {
			return Notification{}, false
		}
		select {
		case <-q.more:
		case <-ctx.Done():
		}
	}
}

// close lets nothing more in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

// drop counts one that was taken and is not told.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped++
}

func (q *queue) counts() (queued int, dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.dropped
}
