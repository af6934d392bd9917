package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

// Question is a request on its way to an answer.
type Question struct {
	// Request is not changed by anybody once it has been asked.
	Request *approval.Request
	// Workspace names the folder to rule by; the nearest one above the call is
	// found where it is empty.
	Workspace string
	// Folder is where the caller is, for a request that does not say where it
	// runs.
	Folder string
	// Turn is the turn of a session that asks; nil outside sessions.
	Turn Turn
	// Notes are what whoever looks at the question has to know beside the reasons
	// of the rules.
	Notes []string
	// Within is how long the caller waits for an answer, at most: the deadline of
	// what waits is no later, to the second. 0 is as long as it takes.
	Within time.Duration
}

// Answer is what became of a question. Only OutcomeAllow is permission.
type Answer struct {
	// Outcome is empty while nobody has answered.
	Outcome approval.Outcome `json:"outcome,omitempty"`
	// Option is what to send to the harness, verbatim as it offered it.
	Option json.RawMessage `json:"option,omitempty"`
	// Reason says in words why, where there is more to say than the ruling does.
	Reason string `json:"reason,omitempty"`
	// Settlement is what was granted, where permissions were asked for.
	Settlement *permission.Settlement `json:"settlement,omitempty"`
	Ruling     approval.Ruling        `json:"ruling"`
	// Record is what the ledger holds; nil where nobody had to be asked.
	Record *approval.Record `json:"record,omitempty"`

	// Acceptance is what a person has accepted for the session; nil where they
	// have not.
	Acceptance *Acceptance `json:"-"`

	// done says that nobody will come back to the record: the caller named no
	// instance to do it as.
	done bool
}

// wait is a request that is pending, or was a moment ago.
type wait struct {
	question  Question
	workspace *Workspace
	// until is when the deadline has passed by the time that goes by, however the
	// clock is set.
	until time.Time

	// routing lets one at a time put the request through new rules.
	routing sync.Mutex

	mu     sync.Mutex
	record approval.Record
	// standing is what the record was ruled by.
	standing *Standing
	// done is closed when the record is pending no more.
	done  chan struct{}
	ended bool
}

func newWait(q Question, w *Workspace, s *Standing, r approval.Record) *wait {
	return &wait{
		question: q, workspace: w, standing: s, record: r,
		until: time.Now().Add(time.Duration(r.Ruling.Deadlines.RequestSeconds) * time.Second),
		done:  make(chan struct{}),
	}
}

func (w *wait) now() approval.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record
}

// set takes a newer form of the record, and tells whether the wait is over by it.
func (w *wait) set(r approval.Record) (over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Revision <= w.record.Revision {
		return false
	}
	w.record = r
	if r.State == approval.Pending || w.ended {
		return false
	}
	w.ended = true
	close(w.done)
	return true
}

// inserted takes the record as the ledger has it, unless it has moved on by now.
func (w *wait) inserted(r approval.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.record.Revision == r.Revision {
		w.record = r
	}
}

// ruledBy is the standing that the record was ruled by; with one it is that from
// here on.
func (w *wait) ruledBy(next *Standing) *Standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next != nil {
		w.standing = next
	}
	return w.standing
}

// end lets go of those who wait, whatever the record says.
func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.done)
	}
}

func (g *Gate) waiting(id string) *wait {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits[id]
}

// Pending returns a request that waits at this moment, as it stands.
func (g *Gate) Pending(id string) (approval.Record, bool) {
	w := g.waiting(id)
	if w == nil {
		return approval.Record{}, false
	}
	r := w.now()
	return r, r.State == approval.Pending
}

// move takes a newer form of a record to whoever waits for it. What was asked is
// kept until the answer has been written: the ledger has a masked copy only.
func (g *Gate) move(w *wait, r approval.Record) {
	if w.set(r) {
		g.stats.waiting.Add(-1)
	}
	if r.State != approval.Pending && r.State != approval.Decided {
		g.mu.Lock()
		delete(g.waits, r.ID)
		g.mu.Unlock()
	}
}

// drop forgets a request that did not get into the ledger.
func (g *Gate) drop(w *wait) {
	g.mu.Lock()
	delete(g.waits, w.now().ID)
	g.mu.Unlock()
	w.end()
	g.stats.waiting.Add(-1)
}

// Check says what would become of a question now. Nothing is recorded and
// nobody is asked.
func (g *Gate) Check(ctx context.Context, q Question) approval.Ruling {
	g.stats.checked.Add(1)
	return g.rule(ctx, g.workspaces.Of(ctx, q).Standing(), q)
}

// Ask rules on a question, records it where it has to be, and waits until it is
// answered, expired or withdrawn. When ctx ends, the request is cancelled.
//
// An answer that was decided is marked as being written; once it has been, the
// caller says so with [Gate.Sent]. An error means that there is no answer, and
// that nothing may run: the ledger's errors are those of approval.Ledger.
func (g *Gate) Ask(ctx context.Context, q Question) (Answer, error) {
	w, answer, err := g.file(ctx, q, "")
	if err != nil || w == nil {
		return answer, err
	}
	instance := w.now().Instance
	defer g.leave(instance)
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		answer, err = g.collect(ctx, w)
		answer.done = named(q.Request) == ""
	}
	if ctx.Err() != nil && answer.Outcome == "" {
		return Answer{}, g.abandon(ctx, w)
	}
	return answer, err
}

// Veto says no where policy does, and nothing else: for one who can only stop an
// action that is asked about elsewhere, or not at all. A question that policy
// denies is answered and recorded as by [Gate.Ask], and so is one that policy could
// not rule on; with asks so is one about which somebody would be asked. For all
// others the answer has no outcome and no record.
func (g *Gate) Veto(ctx context.Context, q Question, asks bool) (Answer, error) {
	s, err := g.rate(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	switch {
	case s.ruling.Route == approval.RouteDeny:
	case s.ruling.Failure != nil:
		refuse(&s.ruling, "policy could not rule, and nobody is asked here: "+s.ruling.Failure.Message)
	case s.ruling.Route == approval.RouteSkip, s.ruling.Route == approval.RouteAllow:
		g.stats.checked.Add(1)
		return Answer{Ruling: s.ruling}, nil
	case asks:
		refuse(&s.ruling, "somebody would have to be asked, and nobody is asked here")
	default:
		g.stats.checked.Add(1)
		return Answer{Ruling: s.ruling}, nil
	}
	_, answer, err := g.record(ctx, s, "")
	return answer, err
}

// Post rules on a question like [Gate.Ask], and returns at once. What waits
// belongs to the instance that the answer's record names, which has to give a
// sign of life every 30 s ([Gate.Await] and [Gate.Renew] are such).
func (g *Gate) Post(ctx context.Context, q Question) (Answer, error) {
	w, answer, err := g.file(ctx, q, approval.NewID())
	if err != nil || w == nil {
		return answer, err
	}
	record := w.now()
	g.leave(record.Instance)
	return Answer{Ruling: record.Ruling, Record: &record}, nil
}

// Await waits until a question that was posted is answered, and returns it as
// Ask does. When ctx ends first the answer is one without an outcome. As long as
// it waits, the instance counts as alive.
func (g *Gate) Await(ctx context.Context, id, instance string) (Answer, error) {
	return g.await(ctx, id, instance, g.Stay)
}

// Watch is [Gate.Await] for one who waits in the host's place: it is no sign of
// life of the instance, and ends with it.
func (g *Gate) Watch(ctx context.Context, id, instance string) (Answer, error) {
	return g.await(ctx, id, instance, func(context.Context, string) (func(), error) { return func() {}, nil })
}

func (g *Gate) await(ctx context.Context, id, instance string, stay func(context.Context, string) (func(), error)) (Answer, error) {
	if err := g.named(instance); err != nil {
		return Answer{}, err
	}
	w := g.waiting(id)
	if w == nil {
		record, err := g.ledger.Read(ctx, id)
		switch {
		case err != nil:
			return Answer{}, err
		case record.Instance != instance:
			return Answer{}, approval.ErrInstance
		}
		// Nobody holds what was asked any more. Whatever was decided then has been
		// told, or never will be.
		return answered(record.Options, record), nil
	}
	if w.now().Instance != instance {
		return Answer{}, approval.ErrInstance
	}
	leave, err := stay(ctx, instance)
	if err != nil {
		return Answer{}, err
	}
	defer leave()
	select {
	case <-w.done:
		return g.collect(ctx, w)
	case <-ctx.Done():
		record := w.now()
		return Answer{Ruling: record.Ruling, Record: &record}, nil
	}
}

// Stay has an instance count as alive until leave is called: its host is there
// and waits. An approval.ErrLost says that it was over before.
func (g *Gate) Stay(ctx context.Context, instance string) (leave func(), err error) {
	if err := g.named(instance); err != nil {
		return nil, err
	}
	if err := g.enter(ctx, instance); err != nil {
		if errors.Is(err, approval.ErrLost) {
			g.tellGone(instance)
		}
		return nil, err
	}
	return func() { g.leave(instance) }, nil
}

// rated is a question with its ruling, not recorded yet.
type rated struct {
	question  Question
	workspace *Workspace
	standing  *Standing
	ruling    approval.Ruling
}

// rate rules on a question.
func (g *Gate) rate(ctx context.Context, q Question) (rated, error) {
	if err := q.Request.Validate(); err != nil {
		return rated{}, err
	}
	if approval.Choice(offers(q.Request), approval.OutcomeDeny) < 0 {
		return rated{}, &approval.RequestError{Pointer: "/options", Message: "none of the options is known to refuse, so no refusal could be told; add decline, deny or cancel"}
	}
	workspace := g.workspaces.Of(ctx, q)
	standing := workspace.Standing()
	ruling := g.rule(ctx, standing, q)
	if err := ctx.Err(); err != nil {
		return rated{}, context.Cause(ctx)
	}
	standing.offerSession(&q, &ruling)
	return rated{q, workspace, standing, ruling}, nil
}

// file rules on a question and records it. The wait is nil where there is
// nothing to wait for. whose is the instance of a question that names none.
func (g *Gate) file(ctx context.Context, q Question, whose string) (*wait, Answer, error) {
	s, err := g.rate(ctx, q)
	if err != nil {
		return nil, Answer{}, err
	}
	return g.record(ctx, s, whose)
}

// record records a question that was ruled on, as file does.
func (g *Gate) record(ctx context.Context, s rated, whose string) (*wait, Answer, error) {
	q, workspace, standing, ruling := s.question, s.workspace, s.standing, s.ruling
	options := offers(q.Request)
	pass := pick(options, approval.OutcomeAllow)
	if ruling.Route == approval.RouteSkip && pass == nil {
		ask(&ruling, onlyOnce)
	}
	g.stats.ruled(q.Request, &ruling)
	if ruling.Route == approval.RouteSkip {
		return nil, Answer{Outcome: approval.OutcomeAllow, Option: pass, Ruling: ruling}, nil
	}
	if !q.Request.Native() {
		ruling.Deadlines.RequestSeconds = min(ruling.Deadlines.RequestSeconds, config.HarnessRequestLimit)
	}
	if q.Within > 0 {
		ruling.Deadlines.RequestSeconds = min(ruling.Deadlines.RequestSeconds, max(1, int(q.Within/time.Second)))
	}
	decision := decide(q.Request, options, &ruling)

	// What is decided at once is nobody's to come back to, unless a name was given.
	instance := whose
	if decision != nil {
		instance = ""
	}
	if name := named(q.Request); name != "" {
		if err := g.named(name); err != nil {
			return nil, Answer{}, err
		}
		instance = name
	}
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		return nil, Answer{}, ErrStopped
	}
	if instance == "" {
		instance = g.self
	}
	g.mu.Unlock()
	draft := approval.Draft{
		Request: q.Request, Ruling: ruling, Instance: instance, Workspace: workspace.Dir, Reviewers: standing.reviewers(&ruling),
	}
	// What nobody can come back for, and what was denied, starts no action that
	// could be compared with what was asked about.
	if decision == nil || decision.Outcome == approval.OutcomeAllow && named(q.Request) != "" {
		draft.Operands = standing.operands(q.Request)
	}
	record, err := approval.New(draft, g.now())
	if err != nil {
		return nil, Answer{}, err
	}
	select {
	case g.taking <- struct{}{}:
		defer func() { <-g.taking }()
	case <-ctx.Done():
		return nil, Answer{}, context.Cause(ctx)
	}
	if err := g.enter(ctx, instance); err != nil {
		return nil, Answer{}, err
	}
	if decision != nil {
		defer g.leave(instance)
		decision.Option = record.Options[approval.Choice(options, decision.Outcome)]
		if record, err = g.ledger.InsertDecided(ctx, record, *decision, true); err != nil {
			return nil, Answer{}, g.trouble(err)
		}
		g.stats.decided(record.Decision)
		g.feed.wake()
		answer := answered(options, record)
		answer.done = named(q.Request) == ""
		return nil, answer, nil
	}
	// Whoever answers may be faster than the return from Insert.
	w := newWait(q, workspace, standing, record)
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		g.leave(instance)
		return nil, Answer{}, ErrStopped
	}
	g.waits[record.ID] = w
	workspace.waits.Add(1)
	g.stats.waiting.Add(1)
	g.mu.Unlock()
	if record, err = g.ledger.Insert(ctx, record); err != nil {
		g.drop(w)
		workspace.waits.Add(-1)
		g.leave(instance)
		return nil, Answer{}, g.trouble(err)
	}
	w.inserted(record)
	g.mu.Lock()
	if g.over { // Close has seen to it, or its sweep will
		workspace.waits.Add(-1)
	} else {
		g.running.Go(func() { g.mind(w) })
	}
	g.mu.Unlock()
	g.feed.wake()
	return w, Answer{}, nil
}

// trouble counts what the ledger could not do. Where that is for the store and
// not for the record, the gate is failing from here on, until a write succeeds.
func (g *Gate) trouble(err error) error {
	g.stats.refusedByLedger.Add(1)
	_, conflict := errors.AsType[*approval.ConflictError](err)
	switch {
	case conflict, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, approval.ErrLost), errors.Is(err, approval.ErrExpired), errors.Is(err, approval.ErrExists),
		errors.Is(err, approval.ErrInstance), errors.Is(err, approval.ErrNotFound), errors.Is(err, approval.ErrInvalid),
		errors.Is(err, approval.ErrClosed):
	default:
		g.stats.failing.Store(true)
		select {
		case g.troubled <- struct{}{}:
		default: // it is known
		}
	}
	return fmt.Errorf("record the request: %w", err)
}

// offers are the answers to choose from, as the harness gave them.
func offers(r *approval.Request) []json.RawMessage {
	if len(r.Options) == 0 {
		return approval.NativeOptions
	}
	return r.Options
}

// named is the instance that a request names, or "".
func named(r *approval.Request) string {
	if r.Run == nil {
		return ""
	}
	return r.Run.Instance
}

func pick(options []json.RawMessage, outcome approval.Outcome) json.RawMessage {
	if i := approval.Choice(options, outcome); i >= 0 {
		return options[i]
	}
	return nil
}

// onlyOnce is why a person is asked about what policy lets pass.
const onlyOnce = "policy allows this once, which is none of the answers that the harness offers"

// decide is the decision that a ruling has made, or nil where somebody is to be
// asked: also where the harness offers no way to say just that.
func decide(r *approval.Request, options []json.RawMessage, ruling *approval.Ruling) *approval.Decision {
	d := approval.Decision{Source: approval.SourceRule, By: "regent"}
	switch ruling.Route {
	case approval.RouteDeny:
		d.Outcome = approval.OutcomeDeny
	case approval.RouteAllow:
		d.Outcome = approval.OutcomeAllow
		switch {
		case ruling.Granted:
			d.Source, d.By = approval.SourceGrant, ""
		case !allowedByRule(*ruling):
			d.Source, d.By = approval.SourceAuto, ""
		}
	default:
		return nil
	}
	if len(ruling.Reasons) > 0 {
		d.Reason = ruling.Reasons[0]
	}
	for _, m := range ruling.Rules {
		if m.Decision == string(ruling.Route) {
			d.By, d.Reason = m.ID, m.Message
			break
		}
	}
	if d.Outcome == approval.OutcomeAllow {
		if approval.Choice(options, d.Outcome) < 0 {
			ask(ruling, onlyOnce)
			return nil
		}
		settlement, err := settle(r, ruling, nil)
		if err != nil {
			ask(ruling, "what was asked for cannot be granted as it is written: "+err.Error())
			return nil
		}
		d.Settlement = settlement
	}
	return &d
}

// ask turns a ruling into one that asks.
func ask(ruling *approval.Ruling, why string) { *ruling = asked(*ruling, why) }

// refuse turns a ruling into one that denies.
func refuse(ruling *approval.Ruling, why string) {
	ruling.Route, ruling.Granted = approval.RouteDeny, false
	ruling.Reasons = append([]string{why}, ruling.Reasons...)
}

// settle works out what an answer that allows grants: what was asked for,
// what was given and what policy lets anyone give, together. It is nil where no
// permissions were asked for. Without a grant all that was asked for is meant,
// for as long as such a request usually means.
func settle(r *approval.Request, ruling *approval.Ruling, grant *permission.Response) (*permission.Settlement, error) {
	if r.Permissions == nil {
		if grant != nil {
			return nil, fmt.Errorf("%w: no permissions were asked for, so none can be granted", approval.ErrInvalid)
		}
		return nil, nil
	}
	var environment permission.Environment
	if r.Environment != nil {
		environment = rego.Environment(*r.Environment)
	}
	request, err := permission.NewRequest(*r.Permissions, environment, nil)
	if err != nil {
		return nil, err
	}
	if grant == nil {
		grant = &permission.Response{Permissions: *r.Permissions, Scope: usualScope(r)}
	}
	ceiling := permission.Unlimited()
	if ruling.Ceiling != nil {
		ceiling = *ruling.Ceiling
	}
	settled, err := request.Settle(*grant, ceiling, nil)
	if err != nil {
		return nil, err
	}
	return &settled, nil
}

// usualScope is how long an answer that names no scope grants: to a request for
// permissions for the turn, and to a call that needs some for itself.
func usualScope(r *approval.Request) permission.Scope {
	if r.Kind == approval.KindPermissions {
		return permission.Turn
	}
	return permission.Once
}

// answered is the answer of a record that is over, in the words of the harness.
func answered(options []json.RawMessage, r approval.Record) Answer {
	a := Answer{Ruling: r.Ruling, Record: &r}
	if r.Decision != nil && (r.State == approval.Decided || r.State == approval.Sent) {
		a.Outcome, a.Reason, a.Settlement = r.Decision.Outcome, r.Decision.Reason, r.Decision.Settlement
		if i := r.OptionIndex(r.Decision.Option); i >= 0 && i < len(options) {
			a.Option = options[i]
		}
		return a
	}
	a.Outcome, a.Option = approval.OutcomeDeny, pick(options, approval.OutcomeDeny)
	if r.State == approval.Cancelled {
		a.Outcome = approval.OutcomeCancel
		if o := pick(options, approval.OutcomeCancel); o != nil {
			a.Option = o
		}
	}
	if r.Closing != nil {
		a.Reason = r.Closing.Reason
	}
	return a
}

// collect is the answer of a wait that is over. A decision is marked as being
// written before the caller has it.
func (g *Gate) collect(ctx context.Context, w *wait) (Answer, error) {
	r := w.now()
	switch {
	case r.State == approval.Pending: // let go by Close
		return Answer{}, ErrStopped
	case r.State == approval.Decided && r.Writing.IsZero():
		next, err := g.follow(r, func(r approval.Record) (approval.Record, error) {
			if !r.Writing.IsZero() {
				return r, nil
			}
			return g.ledger.BeginSend(ctx, r.From())
		})
		if err != nil {
			return Answer{}, g.trouble(err)
		}
		r = next
		g.moved(r)
	}
	answer := answered(offers(w.question.Request), r)
	answer.Acceptance = w.accepted(&r)
	return answer, nil
}

// abandon withdraws what a caller waited for who went away.
func (g *Gate) abandon(ctx context.Context, w *wait) error {
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	r := w.now()
	if r.State != approval.Pending && r.State != approval.Decided {
		return cause
	}
	if _, err := g.cancel(ctx, r, "", "the one who asked went away"); err != nil {
		g.log.Error("cancel a request whose caller went away", "id", r.ID, "error", err)
	}
	return cause
}

// cancel withdraws a record, in whichever revision it is by now.
func (g *Gate) cancel(ctx context.Context, r approval.Record, by, reason string) (approval.Record, error) {
	for {
		next, err := g.ledger.Cancel(ctx, r.From(), by, reason)
		if err == nil {
			g.stats.closed(&next)
			g.moved(next)
			return next, nil
		}
		current, ok := newer(err, r)
		if !ok {
			return r, err
		}
		r = current
		g.moved(r)
	}
}

// newer is the record that won where err says that r has moved on.
func newer(err error, r approval.Record) (current approval.Record, ok bool) {
	conflict, ok := errors.AsType[*approval.ConflictError](err)
	if !ok || conflict.Current.Revision <= r.Revision {
		return approval.Record{}, false
	}
	return conflict.Current, true
}

// moved takes a change that was made to those who wait and those who read.
func (g *Gate) moved(r approval.Record) {
	if w := g.waiting(r.ID); w != nil {
		g.move(w, r)
	}
	g.feed.wake()
}

// mind sees to a pending request until it is over: it routes it again when the
// rules change, and has it closed when its time is up.
func (g *Gate) mind(w *wait) {
	defer w.workspace.waits.Add(-1)
	timer := time.NewTimer(time.Until(w.until))
	defer timer.Stop()
	var again <-chan time.Time
	review := g.beginReview(w)
	defer func() { review.stop() }()
	stopShadow := g.beginShadow(w)
	for {
		select {
		case <-w.done:
			return
		case <-g.stopped:
			return
		case verdicts := <-review.verdicts():
			judged := review
			review = nil
			g.judge(w, judged, verdicts)
		case <-w.ruledBy(nil).Replaced():
			review.stop()
			review = nil
			if w.now().State == approval.Pending {
				stopShadow() // what has been decided goes on without it
			}
			if again != nil {
				select {
				case <-again:
				case <-w.done:
				case <-g.stopped:
				}
				again = nil
			}
			if err := g.reroute(w); err != nil {
				g.log.Error("route a waiting request again", "id", w.now().ID, "error", err)
				again = time.After(tickTime)
				continue
			}
			review, stopShadow = g.beginReview(w), g.beginShadow(w)
		case <-timer.C:
			if g.expire(w) {
				return
			}
			timer.Reset(tickTime)
		}
	}
}

// expire ends a request whose time is up. It is false when the ledger could not
// do it now.
func (g *Gate) expire(w *wait) bool {
	g.sweepSoon()
	r := w.now()
	if r.State != approval.Pending {
		return true
	}
	// By the ledger's clock there is time left, so that was set back. Nothing
	// moves the deadline, and that does not either.
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	_, err := g.cancel(ctx, r, "regent", "nobody answered in time (the clock was set back meanwhile)")
	if err != nil {
		g.log.Error("close a request whose time is up", "id", r.ID, "error", err)
	}
	return err == nil
}

// reroute puts a pending request through the rules in force, if those are not
// what it was ruled by. Where that fails it goes on waiting, and nobody can
// answer it before it has succeeded.
func (g *Gate) reroute(w *wait) error {
	w.routing.Lock()
	defer w.routing.Unlock()
	standing := w.workspace.Standing()
	if w.ruledBy(nil) == standing {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	ruling := g.rule(ctx, standing, w.question)
	if ruling.Route == approval.RouteSkip {
		// There is a record, so there is a decision.
		ruling.Route = approval.RouteAllow
	}
	decision := decide(w.question.Request, offers(w.question.Request), &ruling)
	for r := w.now(); r.State == approval.Pending; r = w.now() {
		next, err := g.ledger.Reroute(ctx, r.From(), ruling, standing.reviewers(&ruling))
		if err == nil && decision != nil {
			g.moved(next)
			decision.Option = next.Options[approval.Choice(offers(w.question.Request), decision.Outcome)]
			if next, err = g.ledger.Decide(ctx, next.From(), *decision); err == nil {
				g.stats.decided(next.Decision)
			}
		}
		if current, ok := newer(err, r); ok {
			g.moved(current)
			continue
		}
		if err != nil {
			return err
		}
		g.move(w, next)
		g.stats.rerouted.Add(1)
		g.feed.wake()
		break
	}
	w.ruledBy(standing)
	return nil
}
