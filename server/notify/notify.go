// Package notify tells people and programs of requests that wait, of decisions,
// and of what those who run a home should know: by a webhook, on the desktop, by a
// program, or by a plugin.
//
// It only reads. It follows the ledger as every reader of the events does, so no
// decision waits for it, and a notifier that is slow or broken holds back neither
// the gate nor any other notifier. What it cannot tell in time is dropped and
// counted: the ledger has it all the same.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
)

const (
	// page of events are read from the ledger at once.
	page = 256
	// pace is the time between two looks at the ledger at least, so that many
	// decisions a second are not slowed down by those who read of them.
	pace = 20 * time.Millisecond
	// maxTold bounds what is remembered of requests that wait. Past it somebody may
	// be told of one twice.
	maxTold = 1 << 15
)

// Notifier is told, and says whether it was heard. It is an extension point: a
// plugin is one.
type Notifier interface {
	// Notify tells n. It returns when n was heard, or was not, and soon after ctx
	// ends; the caller gives it ten seconds. One notification is told at a time, in
	// order, and may be told again with the same ID after an error that wraps
	// [ErrTransient]. Any other error is final for n, and not for those after it.
	Notify(ctx context.Context, n Notification) error
}

// ErrTransient means that telling the same again may work: try later.
var ErrTransient = errors.New("not heard for now")

// ErrUnavailable means that there is no way to tell here: a desktop without a
// program for it, a plugin that is not there.
var ErrUnavailable = errors.New("nothing to tell with")

// Ledger is what is read of the store of approvals.
type Ledger interface {
	// Read and Events are those of approval.Ledger.
	Read(ctx context.Context, id string) (approval.Record, error)
	Events(ctx context.Context, after int64, limit int) ([]approval.Event, error)
	// Stats answer at once.
	Stats() ledger.Stats
}

// Feed is that of a gate.
type Feed interface {
	Changed() <-chan struct{}
	Notices(after int64) []gate.Notice
}

// Options are what a hub is made of. Plugin and Log may be nil.
type Options struct {
	Ledger Ledger
	Feed   Feed
	// After is the number of the last event that nobody is told of. What happens
	// after it is told once, or not at all: nothing is kept of what has been told, so
	// what an earlier process left untold is never told.
	After int64
	// Configured returns the notifiers in force by their names. It is called
	// whenever something has changed, and what it returns is not changed by anybody.
	Configured func() map[string]config.Notifier
	// Plugin returns what tells a plugin, by its name in the configuration.
	Plugin func(plugin string) (Notifier, error)
	Log    *slog.Logger
}

// Hub tells every notifier what it is to be told of. It is safe for concurrent
// use.
type Hub struct {
	options Options
	log     *slog.Logger
	limits  limits

	// ctx is that of everything that tells, and ends with the grace.
	ctx      context.Context
	cancel   context.CancelFunc
	stopping chan struct{}
	stop     sync.Once
	running  sync.WaitGroup

	// What follows belongs to the one goroutine that follows the ledger.
	after, noticed int64
	// told has the requests that wait and were told of.
	told map[string]bool
	// unread says that the ledger could last not be read.
	unread bool
	// last is what was configured last, once adjusted is true.
	last     map[string]config.Notifier
	adjusted bool

	mu      sync.Mutex
	outlets map[string]*outlet
}

// limits bound the time that telling takes.
type limits struct {
	// attempt is how long one try may take, delays are the times between two tries of
	// one notification, and patience is how long it is tried in all.
	attempt, patience time.Duration
	delays            []time.Duration
	// grace is how long what is left may take to be told at the end.
	grace time.Duration
	// rest is the time between two looks at a ledger that cannot be read.
	rest time.Duration
}

var usual = limits{
	attempt: 10 * time.Second, patience: time.Minute, grace: 3 * time.Second,
	delays: []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}, rest: time.Second,
}

// Open begins to follow. The hub has to be closed.
func Open(o Options) *Hub { return open(o, usual) }

func open(o Options, l limits) *Hub {
	h := &Hub{
		options: o, log: o.Log, limits: l, after: o.After,
		stopping: make(chan struct{}), told: map[string]bool{}, outlets: map[string]*outlet{},
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.adjust()
	h.running.Go(h.follow)
	return h
}

// Close tells what happened up to now, for three seconds at most, and returns when
// nothing of the hub runs any more. The ledger must not be closed before.
func (h *Hub) Close() {
	h.stop.Do(func() { close(h.stopping) })
	end := time.AfterFunc(h.limits.grace, h.cancel)
	h.running.Wait()
	end.Stop()
	h.cancel()
}

// Stats tell how each notifier stands, in the order of their names. They answer at
// once.
func (h *Hub) Stats() []Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Stats, 0, len(h.outlets))
	for _, name := range slices.Sorted(maps.Keys(h.outlets)) {
		all = append(all, h.outlets[name].stats())
	}
	return all
}

// follow reads what happens until the hub is closed, and then what has happened.
func (h *Hub) follow() {
	defer h.finish()
	for {
		ending := h.stops()
		changed := h.options.Feed.Changed()
		if !ending {
			h.adjust()
		}
		more, err := h.advance()
		if err != nil && !h.unread && h.ctx.Err() == nil {
			h.log.Warn("notifiers are told nothing, since the ledger cannot be read", "error", err)
		}
		h.unread = err != nil
		switch {
		case ending && (err != nil || !more):
			return
		case err != nil:
			h.pause(nil, h.limits.rest)
		case !more:
			h.pause(changed, pace)
		}
	}
}

// pause waits until something has changed, and for a time. The end of the hub ends
// it early.
func (h *Hub) pause(changed <-chan struct{}, more time.Duration) {
	if changed != nil {
		select {
		case <-changed:
		case <-h.stopping:
			return
		}
	}
	t := time.NewTimer(more)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.stopping:
	}
}

func (h *Hub) stops() bool {
	select {
	case <-h.stopping:
		return true
	default:
		return false
	}
}

// finish lets every outlet tell what it has, and end.
func (h *Hub) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.outlets {
		o.queue.close()
	}
}

// adjust makes the outlets those that are configured now. One that has changed goes
// on with what it has to tell.
func (h *Hub) adjust() {
	configured := h.options.Configured()
	if h.adjusted && reflect.DeepEqual(h.last, configured) {
		return
	}
	h.last, h.adjusted = configured, true
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, o := range h.outlets {
		if _, ok := configured[name]; !ok {
			o.abandon()
			delete(h.outlets, name)
		}
	}
	for name, c := range configured {
		o := h.outlets[name]
		if o != nil && reflect.DeepEqual(o.target.Load().config, c) {
			continue
		}
		t := &target{config: c}
		if t.notifier, t.problem = h.notifier(c); t.problem != nil {
			h.log.Warn("a notifier cannot be told", "notifier", name, "error", t.problem)
		}
		if o == nil {
			o = newOutlet(h, name, t)
			h.outlets[name] = o
			h.running.Go(o.run)
			continue
		}
		o.target.Store(t)
	}
}

// wanted returns the outlets that are to be told of an event, and whether any of
// them is told the request.
func (h *Hub) wanted(event config.NotifierEvent) (outlets []*outlet, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.outlets {
		c := &o.target.Load().config
		if slices.Contains(c.Events, event) {
			outlets = append(outlets, o)
			whole = whole || c.Details == config.DetailsRequest
		}
	}
	return outlets, whole
}

// advance hands on what has come since, and tells whether there may be more.
func (h *Hub) advance() (more bool, err error) {
	for _, n := range h.options.Feed.Notices(h.noticed) {
		h.noticed = n.Seq
		outlets, _ := h.wanted(config.NotifyNotice)
		hand(outlets, ofNotice(&n))
	}
	h.mu.Lock()
	none := len(h.outlets) == 0
	h.mu.Unlock()
	if none {
		h.after = h.options.Ledger.Stats().Head.Seq
		return false, nil
	}
	events, err := h.options.Ledger.Events(h.ctx, h.after, page)
	if err != nil {
		return false, err
	}
	// Most requests are asked and decided in one change: nobody waits for them, and
	// to see that here saves reading them.
	ended := make(map[string]int64, len(events))
	for i := range events {
		if eventOf(events[i].Kind) == config.NotifyDecided || eventOf(events[i].Kind) == config.NotifyClosed {
			ended[events[i].ID] = events[i].Seq
		}
	}
	for i := range events {
		e := &events[i]
		h.tell(e, ended[e.ID] > e.Seq)
		h.after = e.Seq
	}
	return len(events) == page, nil
}

// eventOf is what an event of the ledger is to those who are told, "" for one that
// they are not told of.
func eventOf(kind approval.EventKind) config.NotifierEvent {
	switch kind {
	case approval.EventAsked, approval.EventRerouted:
		return config.NotifyPending
	case approval.EventDecided:
		return config.NotifyDecided
	case approval.EventExpired, approval.EventCancelled, approval.EventLost, approval.EventUnknown:
		return config.NotifyClosed
	default:
		return ""
	}
}

// tell hands one event to those who want it. over says that the request it is about
// waits no more.
func (h *Hub) tell(e *approval.Event, over bool) {
	event := eventOf(e.Kind)
	if event == "" {
		return
	}
	pending := event == config.NotifyPending
	if pending && (over || h.told[e.ID]) {
		return
	}
	if !pending {
		delete(h.told, e.ID)
	}
	outlets, whole := h.wanted(event)
	if len(outlets) == 0 {
		return
	}
	n := ofEvent(e, event)
	r, err := h.options.Ledger.Read(h.ctx, e.ID)
	switch {
	case err != nil:
		// What waits is told of all the same: too much is better than nothing here.
		h.log.Warn("notifiers are told less, since a record cannot be read", "id", e.ID, "error", err)
	case pending && (r.State != approval.Pending || r.Ruling.Route == approval.RouteReview):
		return // answered by now, or for reviewers to answer
	default:
		n.about(&r, whole)
	}
	switch event {
	case config.NotifyPending:
		if len(h.told) >= maxTold {
			clear(h.told)
		}
		h.told[e.ID] = true
		n.Answer = "regent permission info " + e.ID
		if err == nil {
			n.Deadline = r.Deadline
			// One that was routed again meanwhile is told as it stands now.
			n.ID, n.Revision = idOf(r.ID, r.Revision, event), r.Revision
		}
	case config.NotifyDecided:
		if r.Decision != nil {
			n.Reason = line(r.Decision.Reason)
		}
	case config.NotifyClosed:
		if r.Closing != nil {
			n.Reason, n.By = line(r.Closing.Reason), r.Closing.By
		}
	}
	hand(outlets, n)
}

func hand(outlets []*outlet, n Notification) {
	for _, o := range outlets {
		o.queue.push(n.within(o.target.Load().config.Details))
	}
}
