package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/regent-policy/regent/gate/approval"
)

const (
	// leaseTime is how long an instance counts as alive without a sign of life,
	// and renewTime how often the gate gives that sign for those it serves.
	leaseTime = 30 * time.Second
	renewTime = leaseTime / 3
	// tickTime is how often the gate looks for what nothing woke it for.
	tickTime = time.Second
	// closing is how long what has to be written still may take when the one who
	// asked is gone.
	closing = 5 * time.Second
	// inFlight bounds what is written at once behind the backs of callers, and
	// settleTime is how long that waits for company: nobody waits for it, and each
	// commit holds up those whom somebody does wait for.
	inFlight   = 64
	settleTime = 10 * time.Millisecond
)

// Workspaces finds what a question is ruled by.
type Workspaces interface {
	// Of returns the workspace that a question belongs to, as its files are at
	// this moment. It does not fail: a workspace that cannot be found out or
	// loaded is one whose standing asks everything.
	Of(ctx context.Context, q Question) *Workspace
	// Home returns what calls outside any workspace are ruled by, and who the
	// principals are.
	Home() *Workspace
}

// Parts are what a gate is made of. All but Log and Now are needed.
type Parts struct {
	Ledger     approval.Ledger
	Workspaces Workspaces
	// Feed hears of every change that the gate makes to the ledger.
	Feed *Feed
	Log  *slog.Logger
	// Now is the clock that requests are taken in by; time.Now if nil. The ledger
	// judges by its own.
	Now func() time.Time
	// Reviewers opens those who review; [OpenReviewer] does if nil.
	Reviewers Reviewers
}

// Gate asks, answers and records. Every decision comes to be here. It is safe
// for concurrent use.
type Gate struct {
	ledger     approval.Ledger
	workspaces Workspaces
	feed       *Feed
	log        *slog.Logger
	now        func() time.Time
	reviewers  Reviewers
	stats      stats

	// sweeps asks for a look at what has run out; each gets an answer.
	sweeps chan chan struct{}
	// troubled says that the ledger did not take something.
	troubled chan struct{}
	// behind is what is to be written behind callers' backs, and settled asks for
	// all of it to be written now.
	behind  chan errand
	settled chan chan struct{}
	// ruling has a place for each request that rules are evaluated for. More at
	// once would only keep each other from being done before their deadline.
	ruling chan struct{}
	// taking has a place for each new record on its way into the ledger, so that
	// what keeps the others alive never stands at the end of a long line.
	taking chan struct{}
	// reviewing has a place for each review that runs, and shadowing one for each
	// reviewer in shadow.
	reviewing, shadowing chan struct{}
	// reviews is the context of all of them, which ends when the gate does.
	reviews     context.Context
	stopReviews context.CancelFunc

	// stopped is closed when nothing of the gate is to go on.
	stopped chan struct{}
	running sync.WaitGroup

	mu sync.Mutex
	// self is the instance of those who named none.
	self  string
	waits map[string]*wait
	hosts map[string]*host
	// gone hears of each instance that is over.
	gone []func(instance string)
	// over says that no more is taken in.
	over bool
}

// ErrStopped means that the gate takes in nothing more. Nothing was recorded.
var ErrStopped = errors.New("the gate is stopped")

// New opens the gate on a ledger. What it finds there waits for nobody any more
// and is closed first; how is in the states of the records it returns. Nothing
// else may use the ledger to write until Close.
func New(ctx context.Context, p Parts) (g *Gate, found []approval.Record, err error) {
	g = &Gate{
		ledger: p.Ledger, workspaces: p.Workspaces, feed: p.Feed, log: p.Log, now: p.Now,
		sweeps:    make(chan chan struct{}),
		troubled:  make(chan struct{}, 1),
		behind:    make(chan errand, 16*inFlight),
		settled:   make(chan chan struct{}),
		ruling:    make(chan struct{}, 4*runtime.GOMAXPROCS(0)),
		taking:    make(chan struct{}, 4*inFlight),
		reviewing: make(chan struct{}, reviewsAtOnce),
		shadowing: make(chan struct{}, reviewsAtOnce),
		reviewers: p.Reviewers,
		waits:     map[string]*wait{},
		hosts:     map[string]*host{},
		stopped:   make(chan struct{}),
		self:      approval.NewID(),
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.feed == nil {
		g.feed = &Feed{}
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.reviewers == nil {
		g.reviewers = OpenReviewer
	}
	g.reviews, g.stopReviews = context.WithCancel(context.Background())
	if found, err = g.ledger.Recover(ctx); err != nil {
		g.stopReviews()
		return nil, nil, fmt.Errorf("close what an earlier process left: %w", err)
	}
	if _, err = g.ledger.Lease(ctx, g.self, leaseTime); err != nil {
		g.stopReviews()
		return nil, nil, fmt.Errorf("lease: %w", err)
	}
	g.running.Go(g.keep)
	g.running.Go(g.settle)
	return g, found, nil
}

// Close lets nobody ask any more, ends what waits as lost, and returns when
// nothing of the gate runs. The ledger stays open.
func (g *Gate) Close() error {
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		return nil
	}
	g.over = true
	instances := []string{g.self}
	for name := range g.hosts {
		instances = append(instances, name)
	}
	g.mu.Unlock()

	// What is being written behind a caller's back gets done first: with its
	// lease gone it would end as unknown, and someone would have to look at it.
	g.flush()
	ctx, cancel := context.WithTimeoutCause(context.Background(), closing, errors.New("the gate closes"))
	defer cancel()
	var errs []error
	for _, name := range instances {
		errs = append(errs, g.ledger.Release(ctx, name))
	}
	errs = append(errs, g.sweep(ctx))
	close(g.stopped)
	g.stopReviews()
	g.running.Wait()
	// What the sweep could not close is let go all the same.
	g.mu.Lock()
	for _, w := range g.waits {
		w.end()
	}
	g.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the gate: %w", err)
	}
	return nil
}

// Reviewers opens those who review.
func (g *Gate) Reviewers() Reviewers { return g.reviewers }

// Feed tells of what the gate does.
func (g *Gate) Feed() *Feed { return g.feed }

// keep renews leases and looks, each second and whenever it is asked to, for
// what has run out.
func (g *Gate) keep() {
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	renewed := time.Now()
	var failing bool
	for {
		var waiting []chan struct{}
		doubt := failing
		select {
		case <-g.stopped:
			return
		case <-tick.C:
		case <-g.troubled:
			doubt = true
		case one := <-g.sweeps:
			waiting = append(waiting, one)
		}
		for more := true; more; {
			select {
			case one := <-g.sweeps:
				waiting = append(waiting, one)
			default:
				more = false
			}
		}
		// As long as the lease lasts it is worth waiting to renew it.
		ctx, cancel := context.WithTimeoutCause(context.Background(), leaseTime, errors.New("the ledger takes too long"))
		var err error
		// A sweep that finds nothing writes nothing, so it does not tell.
		if doubt || time.Since(renewed) >= renewTime {
			if err = g.renew(ctx); err == nil {
				renewed = time.Now()
			}
		}
		if len(waiting) > 0 || g.busy() {
			err = errors.Join(err, g.sweep(ctx))
		}
		cancel()
		switch {
		case err != nil && !failing:
			g.log.Error("the ledger cannot be kept", "error", err)
			g.feed.Post(Notice{At: g.now(), Kind: NoticeLedger, Message: err.Error()})
		case err == nil && failing:
			g.log.Info("the ledger can be kept again")
			g.feed.Post(Notice{At: g.now(), Kind: NoticeLedger, Message: "the ledger can be written again"})
		}
		failing = err != nil
		g.stats.failing.Store(failing)
		for _, one := range waiting {
			close(one)
		}
	}
}

// busy tells whether there is anything that could run out.
func (g *Gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waits) > 0 || len(g.hosts) > 0
}

// sweep closes what has run out, and tells those who wait for it.
func (g *Gate) sweep(ctx context.Context) error {
	closed, err := g.ledger.Sweep(ctx)
	for i := range closed {
		g.stats.closed(&closed[i])
		if w := g.waiting(closed[i].ID); w != nil {
			g.move(w, closed[i])
		}
	}
	if len(closed) > 0 {
		g.feed.wake()
	}
	return err
}

// sweepSoon asks for a sweep and returns after it.
func (g *Gate) sweepSoon() {
	done := make(chan struct{})
	select {
	case g.sweeps <- done:
	case <-g.stopped:
		return
	}
	select {
	case <-done:
	case <-g.stopped:
	}
}

// host is an instance that a question named, or that was made up for one.
type host struct {
	// open counts the connections on which somebody waits in its name.
	open int
	// renewed is when the ledger last heard of it.
	renewed time.Time
}

// renew gives a sign of life for those who are there. It goes by time that
// passes and not by the clock, so that one which is set cannot keep a dead host
// alive.
func (g *Gate) renew(ctx context.Context) error {
	g.mu.Lock()
	self := g.self
	var alive, dead []string
	for name, h := range g.hosts {
		switch {
		case h.open > 0:
			alive = append(alive, name)
		case time.Since(h.renewed) >= leaseTime:
			dead = append(dead, name)
			delete(g.hosts, name)
		}
	}
	g.mu.Unlock()

	defer g.tellGone(dead...)
	var errs []error
	if _, err := g.ledger.Lease(ctx, self, leaseTime); errors.Is(err, approval.ErrLost) {
		// The clock was set forward, or the machine slept. Whoever waits under the
		// old name is told; those who come from here on wait under a new one.
		next := approval.NewID()
		if _, err := g.ledger.Lease(ctx, next, leaseTime); err != nil {
			return err
		}
		g.mu.Lock()
		g.self = next
		g.mu.Unlock()
		g.log.Warn("the lease of this process ran out, as when the clock is set or the machine sleeps; what waited is lost and has to be asked anew")
	} else if err != nil {
		errs = append(errs, err)
	}
	for _, name := range alive {
		if _, err := g.ledger.Lease(ctx, name, leaseTime); err == nil {
			g.touched(name)
		} else if !errors.Is(err, approval.ErrLost) {
			errs = append(errs, err)
		} else {
			g.tellGone(name)
		}
	}
	for _, name := range dead {
		errs = append(errs, g.ledger.Release(ctx, name))
	}
	return errors.Join(errs...)
}

func (g *Gate) touched(instance string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.hosts[instance]; h != nil {
		h.renewed = time.Now()
	}
}

// Renew is a sign of life of an instance. It returns until when that counts,
// and an approval.ErrLost once it came too late: the instance needs a new name.
func (g *Gate) Renew(ctx context.Context, instance string) (time.Time, error) {
	if err := g.named(instance); err != nil {
		return time.Time{}, err
	}
	until, err := g.ledger.Lease(ctx, instance, leaseTime)
	if errors.Is(err, approval.ErrLost) {
		g.tellGone(instance)
	}
	if err != nil {
		return time.Time{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hosts[instance]
	if h == nil {
		h = &host{}
		g.hosts[instance] = h
	}
	h.renewed = time.Now()
	return until, nil
}

// Alive is a sign of life of an instance that has one each time it does
// something: the ledger hears of it only when it is time to.
func (g *Gate) Alive(ctx context.Context, instance string) error {
	leave, err := g.Stay(ctx, instance)
	if err == nil {
		leave()
	}
	return err
}

// End says that an instance is over: what it asked is closed now.
func (g *Gate) End(ctx context.Context, instance string) error {
	if err := g.named(instance); err != nil {
		return err
	}
	// That its last answer was sent may not be written yet. Without its lease the
	// record would end as unknown, and someone would have to look at it.
	g.flush()
	if err := g.ledger.Release(ctx, instance); err != nil {
		return err
	}
	g.mu.Lock()
	delete(g.hosts, instance)
	g.mu.Unlock()
	g.tellGone(instance)
	return g.sweep(ctx)
}

// WhenGone has f called with the name of each instance that is over from here
// on: because its host said so, or gave no sign of life. f returns soon.
func (g *Gate) WhenGone(f func(instance string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = append(g.gone, f)
}

func (g *Gate) tellGone(instances ...string) {
	g.mu.Lock()
	told := g.gone
	g.mu.Unlock()
	for _, f := range told {
		for _, name := range instances {
			f(name)
		}
	}
}

// named refuses what no host may call itself.
func (g *Gate) named(instance string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if instance == "" || instance == g.self {
		return fmt.Errorf("%w: name the instance of the host", approval.ErrInstance)
	}
	return nil
}

// enter notes that somebody waits in the name of an instance.
func (g *Gate) enter(ctx context.Context, instance string) error {
	g.mu.Lock()
	if instance == g.self {
		g.mu.Unlock()
		return nil
	}
	h := g.hosts[instance]
	if h == nil {
		h = &host{}
		g.hosts[instance] = h
	}
	h.open++
	fresh := time.Since(h.renewed) < renewTime
	g.mu.Unlock()
	if fresh {
		return nil
	}
	if _, err := g.ledger.Lease(ctx, instance, leaseTime); err != nil {
		g.leave(instance)
		g.mu.Lock()
		if h := g.hosts[instance]; h != nil && h.open == 0 && h.renewed.IsZero() {
			delete(g.hosts, instance)
		}
		g.mu.Unlock()
		return err
	}
	g.touched(instance)
	return nil
}

// leave is the end of what enter began.
func (g *Gate) leave(instance string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.hosts[instance]; h != nil {
		h.open--
	}
}

// errand is something to be written that nobody waits for.
type errand struct {
	what  string
	write func(ctx context.Context) error
}

// async has something written behind a caller's back; the caller waits only when
// there is too much of that.
func (g *Gate) async(what string, write func(ctx context.Context) error) {
	select {
	case g.behind <- errand{what, write}:
	case <-g.stopped:
		g.log.Error(what, "error", ErrStopped)
	}
}

// flush returns when all that was to be written behind callers' backs is written,
// or nothing is any more.
func (g *Gate) flush() {
	done := make(chan struct{})
	select {
	case g.settled <- done:
		<-done
	case <-g.stopped:
	}
}

// settle writes what is to be written behind callers' backs, some at a time.
func (g *Gate) settle() {
	for {
		var batch []errand
		var asked chan struct{}
		select {
		case e := <-g.behind:
			batch = append(batch, e)
		case asked = <-g.settled:
		case <-g.stopped:
			return
		}
		due := time.NewTimer(settleTime)
		for more := true; more && len(batch) < inFlight; {
			if asked != nil { // take what is there
				select {
				case e := <-g.behind:
					batch = append(batch, e)
				default:
					more = false
				}
				continue
			}
			select {
			case e := <-g.behind:
				batch = append(batch, e)
			case asked = <-g.settled:
			case <-due.C:
				more = false
			}
		}
		due.Stop()
		g.write(batch)
		if asked != nil {
			for len(g.behind) > 0 {
				batch = batch[:0]
				for len(g.behind) > 0 && len(batch) < inFlight {
					batch = append(batch, <-g.behind)
				}
				g.write(batch)
			}
			close(asked)
		}
	}
}

// write does errands side by side, so that the ledger takes them together.
func (g *Gate) write(batch []errand) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closing, errors.New("the ledger takes too long"))
	defer cancel()
	var all sync.WaitGroup
	for _, e := range batch {
		all.Go(func() {
			if err := e.write(ctx); err != nil {
				g.log.Error(e.what, "error", err)
			}
		})
	}
	all.Wait()
}
