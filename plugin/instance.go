package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// restartAfter is how long a plugin that fails to start is left alone the first
	// time; it doubles up to restartAfterMost. One that broke after it had run is
	// started again at once, and only then waits.
	restartAfter     = 250 * time.Millisecond
	restartAfterMost = 30 * time.Second
	// giveUpAfter is how many failures in a row disable a plugin.
	giveUpAfter = 10
	// patience is how long a call has to last at least before it says something about
	// the plugin that it had no answer: others may have used up its time.
	patience = 500 * time.Millisecond
	// stableAfter is how long a plugin has to run for its failures to be forgotten.
	stableAfter = 30 * time.Second
)

// instance is a plugin that is kept running: one process after the other.
type instance struct {
	host    *Host
	id      string
	program program
	name    string
	// sets counts the sets that have it. The host's mutex guards it.
	sets int

	// ctx ends when nobody has a use for it, or the host ends.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// drained is closed when it is retired and the last call has ended.
	drained chan struct{}
	// suspect is sent to when a call had no answer, wake to end a disabled state.
	suspect, wake chan struct{}

	mu      sync.Mutex
	state   State
	since   time.Time
	retry   time.Time
	process *process
	// changed is closed and replaced with every change of state.
	changed  chan struct{}
	breaker  breaker
	calls    int
	starts   int
	failures int
	retired  bool
	err      error
	errAt    time.Time
}

func newInstance(h *Host, id string, p program) *instance {
	i := &instance{
		host: h, id: id, program: p, name: p.name,
		drained: make(chan struct{}), suspect: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		changed: make(chan struct{}), state: StateStarting, since: h.options.clock.Now(),
	}
	i.ctx, i.cancel = context.WithCancelCause(h.ctx)
	return i
}

// supervise starts the process, again and again where it must, until the instance
// is retired and nothing is asked of it any more.
func (i *instance) supervise() {
	defer i.end(ErrRetired)
	for i.ctx.Err() == nil {
		i.turn(StateStarting, nil)
		p, err := i.launch()
		if err == nil {
			i.turn(StateRunning, p)
			began := i.now()
			if err = i.watch(p); err == nil {
				i.turn(StateEnded, nil)
				p.stop()
				return
			}
			i.turn(i.next(), nil)
			p.kill()
			p.clear()
			if i.now().Sub(began) >= stableAfter {
				i.mu.Lock()
				i.failures = 0
				i.mu.Unlock()
			}
		}
		if i.ctx.Err() != nil {
			return
		}
		if !i.rest(err, p != nil) {
			return
		}
	}
}

// launch starts the process once.
func (i *instance) launch() (*process, error) {
	i.mu.Lock()
	i.starts++
	i.mu.Unlock()
	o := i.host.options
	p, err := launch(i.ctx, i.program, launchOptions{log: o.Log, clock: o.clock, tempDir: o.TempDir, timeout: o.StartTimeout})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	o.Log.Info("plugin started", "plugin", i.name, "pid", p.cmd.Process.Pid, "version", clean(p.description.GetVersion(), maxName))
	return p, nil
}

// watch returns why the process cannot be used any longer, and nil when it is not
// needed any longer.
func (i *instance) watch(p *process) error {
	for {
		check, stop := i.host.options.clock.After(i.host.options.HealthEvery)
		select {
		case <-i.drained:
			stop()
			return nil
		case <-i.host.ctx.Done():
			stop()
			return nil
		case <-p.ended:
			stop()
			return fmt.Errorf("it ended: %s", p.state())
		case <-i.suspect:
			stop()
		case <-check:
		}
		ctx, cancel := context.WithTimeoutCause(i.host.ctx, i.host.options.HealthTimeout,
			fmt.Errorf("it did not answer within %v", i.host.options.HealthTimeout))
		err := p.healthy(ctx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("check its health: %w", context.Cause(ctx))
		}
		cancel()
		if err != nil && i.host.ctx.Err() == nil {
			select {
			case <-p.ended:
				return fmt.Errorf("it ended: %s", p.state())
			default:
				return err
			}
		}
	}
}

// next is the state of a process that broke: the first time it is started again at
// once, which is worth waiting for.
func (i *instance) next() State {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failures == 0 {
		return StateStarting
	}
	return StateWaiting
}

// rest waits until the plugin is to be started again, and tells whether it is.
func (i *instance) rest(err error, ran bool) bool {
	i.mu.Lock()
	i.failures++
	failures := i.failures
	i.mu.Unlock()
	log := i.host.options.Log
	if failures >= giveUpAfter {
		i.note(StateDisabled, err, time.Time{})
		log.Error("plugin broke too often and is not started any more", "plugin", i.name, "failures", failures, "error", err)
		select {
		case <-i.wake:
			return true
		case <-i.ctx.Done():
			return false
		}
	}
	var wait time.Duration
	if !ran || failures > 1 {
		wait = backoff(restartAfter, restartAfterMost, failures)
	}
	log.Warn("plugin broke and is started again", "plugin", i.name, "in", wait, "error", err)
	if wait == 0 {
		i.note(StateStarting, err, time.Time{})
		return true
	}
	i.note(StateWaiting, err, i.now().Add(wait))
	passed, stop := i.host.options.clock.After(wait)
	defer stop()
	select {
	case <-passed:
		return true
	case <-i.ctx.Done():
		return false
	}
}

func (i *instance) now() time.Time { return i.host.options.clock.Now() }

// turn changes the state. p is the process that can be asked in it.
func (i *instance) turn(to State, p *process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set(to)
	i.process, i.retry = p, time.Time{}
}

func (i *instance) note(to State, err error, retry time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set(to)
	i.process, i.retry = nil, retry
	i.err, i.errAt = err, i.now()
}

func (i *instance) set(to State) {
	i.state, i.since = to, i.now()
	close(i.changed)
	i.changed = make(chan struct{})
}

// end is the last that happens to an instance.
func (i *instance) end(why error) {
	i.cancel(why)
	i.host.mu.Lock()
	delete(i.host.leaving, i)
	if i.host.instances[i.id] == i {
		delete(i.host.instances, i.id)
	}
	i.host.mu.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set(StateEnded)
	i.process = nil
}

// retire lets no further call through. The host's mutex is held.
func (i *instance) retire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.retired = true
	if i.calls == 0 {
		close(i.drained)
	}
	i.cancel(ErrRetired)
}

// revive starts a disabled plugin again.
func (i *instance) revive() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state == StateDisabled {
		i.set(StateStarting)
		i.failures = 0
		i.wake <- struct{}{} // nobody else has left one there
	}
}

// settle waits for a start that is under way.
func (i *instance) settle(ctx context.Context) {
	for {
		i.mu.Lock()
		state, changed := i.state, i.changed
		i.mu.Unlock()
		if state != StateStarting {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// fault is why the plugin cannot be asked; nil where it can.
func (i *instance) fault() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process != nil {
		return nil
	}
	return i.unavailable()
}

// unavailable says that, and why. i.mu is held.
func (i *instance) unavailable() error {
	err := fmt.Errorf("plugin %s: %w: it is %s", i.name, ErrUnavailable, i.state)
	if i.err != nil {
		err = fmt.Errorf("%w: %w", err, i.err)
	}
	return err
}

// begin returns the process for one call, which end follows. It waits for a first
// start and for the one after a first failure, and for no others: while a plugin
// breaks again and again people are asked at once.
func (i *instance) begin(ctx context.Context, as Kind) (p *process, trial bool, err error) {
	for {
		i.mu.Lock()
		switch {
		case i.host.ctx.Err() != nil:
			i.mu.Unlock()
			return nil, false, fmt.Errorf("plugin %s: %w: %w", i.name, ErrUnavailable, errClosed)
		case i.retired:
			i.mu.Unlock()
			return nil, false, fmt.Errorf("plugin %s: %w", i.name, ErrRetired)
		case i.process != nil:
			defer i.mu.Unlock()
			if !slices.Contains(i.process.kinds(), as) {
				return nil, false, fmt.Errorf("plugin %s: %w: it is no %s", i.name, ErrKind, as)
			}
			ok, trial := i.breaker.begin(i.now())
			if !ok {
				return nil, false, fmt.Errorf("plugin %s: %w: %d calls in a row failed, the last with: %w", i.name, ErrUnavailable, i.breaker.failed, i.err)
			}
			i.calls++
			return i.process, trial, nil
		case i.state != StateStarting || i.failures > 1:
			defer i.mu.Unlock()
			return nil, false, i.unavailable()
		}
		changed := i.changed
		i.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

func (i *instance) finish(trial bool, how outcome, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.breaker.end(i.now(), trial, how)
	if how == failed {
		i.err, i.errAt = err, i.now()
	}
	i.calls--
	if i.retired && i.calls == 0 {
		close(i.drained)
	}
}

// call asks the plugin once. An error of do is one of gRPC, or wraps [ErrReply].
func (i *instance) call(ctx context.Context, as Kind, do func(ctx context.Context, conn *grpc.ClientConn) error) error {
	p, trial, err := i.begin(ctx, as)
	if err != nil {
		return err
	}
	how := failed
	defer func() { i.finish(trial, how, err) }()
	began := time.Now()
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(i.host.ctx, func() { cancel(errClosed) })()
	err = do(asking, p.conn)
	switch {
	case err == nil:
		how = succeeded
		return nil
	case i.host.ctx.Err() != nil:
		how = untold
		return fmt.Errorf("plugin %s: %w", i.name, errClosed)
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		how = untold
		return context.Cause(ctx)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
		if time.Since(began) < patience {
			how = untold
			break
		}
		select {
		case i.suspect <- struct{}{}: // it may hang
		default:
		}
	default:
		err = brief(err)
	}
	return fmt.Errorf("plugin %s: %w", i.name, err)
}

// stream is call for what lasts as long as the plugin is in use.
func (i *instance) stream(ctx context.Context, as Kind, do func(ctx context.Context, conn *grpc.ClientConn) error) error {
	p, trial, err := i.begin(ctx, as)
	if err != nil {
		return err
	}
	defer i.finish(trial, untold, nil)
	streaming, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(i.ctx, func() { cancel(context.Cause(i.ctx)) })()
	if err = do(streaming, p.conn); err == nil {
		return nil
	}
	if i.ctx.Err() != nil {
		err = context.Cause(i.ctx)
	} else {
		err = brief(err)
	}
	return fmt.Errorf("plugin %s: %w", i.name, err)
}

// brief is an error of gRPC in the words that matter, bounded: a plugin chooses
// most of them. Any other error stays as it is.
func brief(err error) error {
	if errors.Is(err, ErrReply) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	message := clean(s.Message(), 300)
	switch s.Code() {
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %s; a reply may have %d bytes at most", ErrReply, message, MaxReply)
	case codes.Unavailable:
		return fmt.Errorf("it broke off: %s", message)
	case codes.Internal:
		return fmt.Errorf("%w: %s", ErrReply, message)
	default:
		return fmt.Errorf("it failed: %s: %s", s.Code(), message)
	}
}

// maxName is how much of a plugin's name and version is shown, in characters.
const maxName = 80

// kinds are those that the process says it is of, and that are known.
func (p *process) kinds() []Kind {
	var list []Kind
	for _, number := range p.description.GetKinds() {
		if kind, ok := kinds[number]; ok && !slices.Contains(list, kind) {
			list = append(list, kind)
		}
	}
	return list
}

func (i *instance) status() Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	s := Status{
		Name: i.name, Command: slices.Clone(i.program.command), SHA256: i.program.digest, Pinned: i.program.pinned,
		State: i.state, Since: i.since, Breaker: i.breaker.state(now), Calls: i.calls, Restarts: max(0, i.starts-1),
	}
	if i.retired && i.state == StateRunning {
		s.State = StateDraining
	}
	if p := i.process; p != nil {
		s.PID = p.cmd.Process.Pid
		s.Plugin, s.Version = clean(p.description.GetName(), maxName), clean(p.description.GetVersion(), maxName)
		s.Kinds = p.kinds()
	}
	switch {
	case i.state == StateWaiting && !i.retry.IsZero():
		s.Retry = new(i.retry)
	case s.Breaker == BreakerOpen:
		s.Retry = new(i.breaker.until)
	}
	if i.err != nil {
		s.Error, s.ErrorAt = clean(i.err.Error(), 600), new(i.errAt)
	}
	return s
}
