package native

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// Sandbox is how a call asks to run.
type Sandbox string

// The ways to run. What confines a call is the host's.
const (
	// SandboxDefault is what every call has. What turn and session were granted
	// comes on top by itself.
	SandboxDefault Sandbox = "use_default"
	// SandboxMore asks for permissions for this call.
	SandboxMore Sandbox = "with_additional_permissions"
	// SandboxEscalated asks to run outside the sandbox.
	SandboxEscalated Sandbox = "require_escalated"
)

// CallSpec is a call that an agent makes, as its host says it.
type CallSpec struct {
	// ID is the agent's own, and the only one in its session.
	ID string
	// The parts of the request: see approval.Request. Where Kind is empty it
	// follows from the part that is there.
	Kind      approval.Kind
	Tool      *approval.Tool
	Command   *approval.Command
	Changes   []approval.Change
	Network   *approval.Network
	Reason    string
	GrantRoot string
	// HostAllows is the host's own access list: false is final.
	HostAllows *bool
	HumanOnly  bool
	// Environment is the id of the environment to run in; nil for the primary one.
	Environment *string
	Sandbox     Sandbox
	// Additional are the permissions that SandboxMore asks for.
	Additional *permission.Profile
}

// Effective is what a call that is allowed may use.
type Effective struct {
	// Sandbox is with_additional_permissions where there are permissions, however
	// the call asked.
	Sandbox     Sandbox            `json:"sandbox_permissions" jsonschema:"enum=use_default,enum=with_additional_permissions,enum=require_escalated"`
	Permissions permission.Profile `json:"additional_permissions"`
	// Preapproved says that turn and session hold all of it, so that nobody had to
	// be asked for permissions.
	Preapproved bool `json:"permissions_preapproved"`
	// Grants are the ids of the grants that took part.
	Grants []string `json:"grants,omitempty"`
}

// Fault is the kind of an output that is an error for the model.
type Fault string

// The faults.
const (
	// FaultUnavailable is a call of a tool that is not offered.
	FaultUnavailable Fault = "unavailable"
	// FaultArguments are arguments that cannot be read: no JSON, an unknown field, a
	// wrong type.
	FaultArguments Fault = "arguments"
	// FaultNoEnvironment is a turn without the environment that a call needs.
	FaultNoEnvironment Fault = "no_environment"
	// FaultEnvironment is an environment that the turn does not have.
	FaultEnvironment Fault = "unknown_environment"
	// FaultForeign is a cwd that is not a path of this machine.
	FaultForeign Fault = "foreign_cwd"
	// FaultPath is a path that cannot be placed in the environment.
	FaultPath Fault = "path"
	// FaultEmpty is a request for nothing.
	FaultEmpty Fault = "empty"
	// FaultBlocked is a request that a hook stopped.
	FaultBlocked Fault = "blocked"
	// FaultWithheld is an answer that a hook keeps from the model.
	FaultWithheld Fault = "withheld"
	// FaultRefused is a call that may not run.
	FaultRefused Fault = "refused"
	// FaultCancelled is a call that was cancelled before it had an answer.
	FaultCancelled Fault = "cancelled"
)

// Final is the one answer to a call.
type Final struct {
	// Outcome allow says that a call may start now; for request_permissions it says
	// no more than that there is an answer. Cancel ends the run.
	Outcome approval.Outcome
	// Output is the result of the call for the model: of every call that may not
	// run, and of request_permissions. Fault says what kind of error it is; "" means
	// that it is none.
	Output string
	Fault  Fault
	// Message says in words why, for people.
	Message string
	// Response is what request_permissions was answered with.
	Response *permission.Response
	// Effective is what an ordinary call may use, if it may run.
	Effective *Effective
	// Answer is the gate's, if it was asked.
	Answer *gate.Answer
}

// call is a call that was made.
type call struct {
	turn    *turn
	spec    CallSpec
	started time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
	// put is closed when a request of the call begins to wait.
	put chan struct{}

	mu sync.Mutex
	// waits is the request of it that waits for an answer, "" for none.
	waits    string
	revision int64
	asked    *Event
	// settled says that what becomes of the call can be changed no more.
	settled   bool
	cancelled error
	final     Final
}

// Event is a request for permissions that waits, as a client shows it: what is
// asked for is normalised, in the environment that was chosen.
type Event struct {
	CallID        string             `json:"call_id"`
	TurnID        string             `json:"turn_id"`
	EnvironmentID string             `json:"environment_id"`
	StartedAtMS   int64              `json:"started_at_ms"`
	Reason        string             `json:"reason,omitempty"`
	Permissions   permission.Profile `json:"permissions"`
	Cwd           string             `json:"cwd"`
	// Record is the approval that waits, at Revision.
	Record   string `json:"record_id"`
	Revision int64  `json:"revision"`
}

// stop cancels a call that is not settled.
func (c *call) stop(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled || c.cancelled != nil {
		return ErrTold
	}
	c.cancelled = cause
	c.cancel(cause)
	return nil
}

// settle makes sure that a call which was not cancelled cannot be any more, and
// does what belongs to it before anybody can see that it is settled.
func (c *call) settle(do func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled != nil {
		return c.cancelled
	}
	c.settled = true
	if do != nil {
		do()
	}
	return nil
}

func (c *call) event() (Event, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == "" || c.asked == nil {
		return Event{}, false
	}
	e := *c.asked
	e.Record, e.Revision = c.waits, c.revision
	return e, true
}

// pending is the event of a call whose request waits at this moment, at the
// revision that it has now: new rules give it another.
func (c *call) pending(g *gate.Gate) (Event, bool) {
	e, ok := c.event()
	if !ok {
		return Event{}, false
	}
	record, ok := g.Pending(e.Record)
	e.Revision = record.Revision
	return e, ok
}

// waiting notes the record that the call waits for; nil where it does no more.
func (c *call) waiting(r *approval.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = ""
	if r != nil {
		c.waits, c.revision = r.ID, r.Revision
	}
}

// Call is a call as it is told.
type Call struct {
	Session, Turn, ID string
	Started           time.Time
	// Waiting is the id of the approval that waits, and Event what a client shows
	// of it, if it is a request for permissions.
	Waiting string
	Event   *Event
	// Final is nil as long as there is no answer.
	Final *Final
}

func (c *call) info(g *gate.Gate) Call {
	out := Call{Session: c.turn.session.spec.ID, Turn: c.turn.spec.ID, ID: c.spec.ID, Started: c.started}
	select {
	case <-c.done:
		final := c.final
		out.Final = &final
		return out
	default:
	}
	if e, ok := c.pending(g); ok {
		out.Event = &e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out.Waiting = c.waits
	return out
}

// Start takes in a call of a turn that is open. What becomes of it is told by
// [Sessions.Await].
func (s *Sessions) Start(ctx context.Context, id, instance, turn string, spec CallSpec) error {
	one, err := s.alive(ctx, id, instance)
	if err != nil {
		return err
	}
	t, err := one.turn(turn)
	if err != nil {
		return err
	}
	if err := spec.complete(); err != nil {
		return err
	}
	c := &call{turn: t, spec: spec, started: s.now(), done: make(chan struct{}), put: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	one.mu.Lock()
	switch {
	case t.state != TurnOpen:
		err = fmt.Errorf("turn %s: %w (%s)", turn, ErrOver, t.why)
	case one.calls[spec.ID] != nil:
		err = fmt.Errorf("call %s: %w", spec.ID, ErrExists)
	case len(one.calls)-len(one.finished) >= MaxCalls:
		err = fmt.Errorf("calls of the session: %w", ErrFull)
	}
	if err == nil {
		one.calls[spec.ID] = c
		t.calls = append(t.calls, c)
	}
	one.mu.Unlock()
	if err != nil {
		c.cancel(nil)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		c.finish(c.gone(ErrStopped))
		c.cancel(nil)
		return nil
	}
	s.running.Go(func() { s.run(c) })
	return nil
}

// complete says what is wrong with a call, and fills in its kind.
func (spec *CallSpec) complete() error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSpec}, args...)...)
	}
	if spec.ID == "" {
		return fault("the call has no id")
	}
	if spec.Kind == "" {
		switch {
		case spec.Tool != nil && spec.Tool.Server != "":
			spec.Kind = approval.KindMCP
		case spec.Tool != nil:
			spec.Kind = approval.KindTool
		case spec.Command != nil:
			spec.Kind = approval.KindCommand
		case spec.Changes != nil:
			spec.Kind = approval.KindFileChange
		case spec.Network != nil:
			spec.Kind = approval.KindNetwork
		}
	}
	if spec.Sandbox == "" {
		spec.Sandbox = SandboxDefault
	}
	switch {
	case spec.Kind == approval.KindPermissions:
		return fault("permissions are asked for by a call of the tool %s", ToolName)
	case spec.Sandbox != SandboxDefault && spec.Sandbox != SandboxMore && spec.Sandbox != SandboxEscalated:
		return fault("sandbox_permissions %q is none of use_default, with_additional_permissions and require_escalated", spec.Sandbox)
	case spec.Additional != nil && spec.Sandbox != SandboxMore:
		return fault("additional_permissions come with sandbox_permissions with_additional_permissions only")
	case spec.Additional == nil && spec.Sandbox == SandboxMore:
		return fault("with_additional_permissions needs additional_permissions")
	}
	if spec.isRequest() {
		if spec.Sandbox != SandboxDefault {
			return fault("%s runs nothing, so there is no sandbox to leave", ToolName)
		}
		return nil
	}
	return spec.request(&approval.Request{}).Validate()
}

// isRequest tells whether the call is one of request_permissions.
func (spec *CallSpec) isRequest() bool {
	return spec.Tool != nil && spec.Tool.Name == ToolName && spec.Tool.Server == ""
}

// request puts the call's own parts into a request.
func (spec *CallSpec) request(r *approval.Request) *approval.Request {
	r.Kind, r.Tool, r.Command, r.Changes, r.Network = spec.Kind, spec.Tool, spec.Command, spec.Changes, spec.Network
	r.GrantRoot, r.Reason, r.HumanOnly, r.HostAllows = spec.GrantRoot, spec.Reason, spec.HumanOnly, spec.HostAllows
	r.Escalated = spec.Sandbox == SandboxEscalated
	return r
}

// find returns a call of a session.
func (s *session) find(id string) (*call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[id]
	if c == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoCall, id)
	}
	return c, nil
}

// Await returns a call when it has its final answer, or as it is when ctx ends.
// It is a sign of life of the instance.
func (s *Sessions) Await(ctx context.Context, id, instance, callID string) (Call, error) {
	one, err := s.own(id, instance)
	if err != nil {
		return Call{}, err
	}
	c, err := one.find(callID)
	if err != nil {
		return Call{}, err
	}
	leave, err := s.gate.Stay(context.WithoutCancel(ctx), instance)
	if err != nil {
		return Call{}, err
	}
	defer leave()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	return c.info(s.gate), nil
}

// Reach returns a call once it has its final answer or a request of it waits for
// one, or as it is when ctx ends. It is a sign of life of the instance.
func (s *Sessions) Reach(ctx context.Context, id, instance, callID string) (Call, error) {
	one, err := s.alive(ctx, id, instance)
	if err != nil {
		return Call{}, err
	}
	c, err := one.find(callID)
	if err != nil {
		return Call{}, err
	}
	select {
	case <-c.put:
	case <-c.done:
	case <-ctx.Done():
	}
	return c.info(s.gate), nil
}

// Told says that the final answer of a call was written to its host; Untold that
// it could not be, or not in full.
func (s *Sessions) Told(one Call) {
	if one.Final != nil && one.Final.Answer != nil {
		s.gate.Sent(*one.Final.Answer)
	}
}

// Untold is the other end of [Sessions.Told].
func (s *Sessions) Untold(one Call, cause error) {
	if one.Final != nil && one.Final.Answer != nil {
		s.gate.Unsent(*one.Final.Answer, cause)
	}
}

// Cancel cancels a call for its host, and returns it with its final answer. One
// that is settled is an [ErrTold], and is returned all the same.
func (s *Sessions) Cancel(ctx context.Context, id, instance, callID, reason string) (Call, error) {
	one, err := s.alive(ctx, id, instance)
	if err != nil {
		return Call{}, err
	}
	c, err := one.find(callID)
	if err != nil {
		return Call{}, err
	}
	if reason == "" {
		reason = "the host cancelled the call"
	}
	told := c.stop(errors.New(reason))
	select {
	case <-c.done:
		return c.info(s.gate), told
	case <-ctx.Done():
		return Call{}, context.Cause(ctx)
	}
}

// Fence is gate.Fence, which asks whether an action may start now, for records of
// sessions too: nothing starts in a turn that is over, however it was answered
// before. That is an [ErrOver].
func (s *Sessions) Fence(ctx context.Context, id, run, instance, digest string) (approval.Record, error) {
	record, err := s.gate.Own(ctx, id, instance)
	if err != nil {
		return approval.Record{}, err
	}
	if asked := record.Request.Session; asked != nil {
		if one, err := s.own(asked.ID, instance); err == nil {
			one.mu.Lock()
			t := one.turns[asked.TurnID]
			over := t == nil || t.state != TurnOpen
			one.mu.Unlock()
			if over {
				return record, fmt.Errorf("turn %s: %w", asked.TurnID, ErrOver)
			}
		}
	}
	return s.gate.Fence(ctx, id, run, instance, digest)
}

// run is the life of a call. It ends in exactly one final answer.
func (s *Sessions) run(c *call) {
	defer c.cancel(nil)
	var final Final
	if c.spec.isRequest() {
		final = s.requestPermissions(c)
	} else {
		final = s.decide(c)
	}
	if cause := c.settle(nil); cause != nil && final.Fault != FaultCancelled {
		final = c.gone(cause)
	}
	if final.Outcome == approval.OutcomeCancel && final.Fault != FaultCancelled {
		// Before anybody hears of it: no further call may slip in.
		s.endTurn(c.turn, TurnInterrupted, errors.New(interrupted(final)))
	}
	s.stats.ended(final)
	c.finish(final)
}

// finish tells what became of a call. What it was about is held no longer than
// that: a session can have many calls, and arguments can be long.
func (c *call) finish(final Final) {
	if a := final.Answer; a != nil && a.Record != nil {
		told, record := *a, *a.Record
		record.Request = nil
		told.Record = &record
		final.Answer = &told
	}
	c.mu.Lock()
	c.waits, c.asked = "", nil
	c.spec.Tool, c.spec.Command, c.spec.Changes, c.spec.Additional = nil, nil, nil, nil
	c.final = final
	c.mu.Unlock()
	c.turn.session.finish(c)
	close(c.done)
}

func interrupted(f Final) string {
	if f.Message != "" {
		return f.Message
	}
	return "a call was answered with cancel"
}

// wrong is the final answer of a call that went wrong before anybody was asked.
func wrong(fault Fault, format string, args ...any) Final {
	text := fmt.Sprintf(format, args...)
	return Final{Outcome: approval.OutcomeDeny, Output: text, Fault: fault, Message: text}
}

// gone is the final answer of a call that was cancelled.
func (c *call) gone(cause error) Final {
	what := "the call"
	if c.spec.isRequest() {
		what = ToolName
	}
	return Final{
		Outcome: approval.OutcomeCancel, Fault: FaultCancelled, Message: cause.Error(),
		Output: what + " was cancelled before receiving a response",
	}
}

// view is what a call's turn adds to its ruling.
type view struct {
	sessions    *Sessions
	turn        *turn
	environment string
	// sticky says that what was granted counts by itself.
	sticky bool

	mu   sync.Mutex
	held permission.Profile
}

// Held implements gate.Turn.
func (v *view) Held() permission.Profile {
	if !v.sticky {
		return permission.Profile{}
	}
	held := v.sessions.book.Held(v.turn.owner(), v.environment)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = held
	return held
}

// Strict implements gate.Turn.
func (v *view) Strict() bool { return v.sessions.book.Strict(v.turn.owner()) }

// Accepts implements gate.Turn.
func (v *view) Accepts(a gate.Acceptance) bool {
	one := v.turn.session
	one.mu.Lock()
	defer one.mu.Unlock()
	_, ok := one.accepted[a]
	return ok
}

var _ gate.Turn = (*view)(nil)

// ask puts a request to the gate and waits. A call that is cancelled meanwhile
// withdraws it. The answer is nil where there is none, for the reason returned.
func (s *Sessions) ask(c *call, q gate.Question, event *Event) (*gate.Answer, error) {
	answer, err := s.gate.Post(c.ctx, q)
	if err != nil {
		return nil, err
	}
	if answer.Outcome != "" {
		return &answer, nil
	}
	id, instance := answer.Record.ID, answer.Record.Instance
	c.mu.Lock()
	c.waits, c.revision, c.asked = id, answer.Record.Revision, event
	c.mu.Unlock()
	close(c.put)
	defer c.waiting(nil)
	answer, err = s.gate.Watch(c.ctx, id, instance)
	if err == nil && answer.Outcome != "" {
		return &answer, nil
	}
	cause := err
	if c.ctx.Err() != nil {
		cause = context.Cause(c.ctx)
	}
	// Nobody may be left waiting for an answer that nobody hears. If it was given a
	// moment before, it is there to be had.
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if _, err := s.gate.Withdraw(ctx, id, instance, cause.Error()); err == nil {
		return nil, cause
	}
	if answer, err = s.gate.Watch(ctx, id, instance); err != nil || answer.Outcome == "" {
		return nil, cause
	}
	return &answer, nil
}

// void has the ledger say that an answer never counted: the call was cancelled
// when it was on its way.
func (s *Sessions) void(answer *gate.Answer, cause error) {
	if answer == nil || answer.Record == nil || answer.Record.State != approval.Decided {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	reason := fmt.Sprintf("%v before the answer arrived; nothing was granted and nothing runs on it", cause)
	if _, err := s.gate.Mark(ctx, answer.Record.ID, answer.Record.Instance, gate.MarkResolved, reason); err != nil {
		s.log.Error("close the record of a call that was cancelled", "id", answer.Record.ID, "error", err)
	}
}

// question is a request as the gate is asked about it.
func (c *call) question(r *approval.Request, turn gate.Turn) gate.Question {
	spec := c.turn.session.spec
	return gate.Question{Request: r, Workspace: spec.Workspace, Folder: spec.Folder, Turn: turn}
}

// decide is the life of every call but one of request_permissions.
func (s *Sessions) decide(c *call) Final {
	t, spec := c.turn, c.spec
	r := spec.request(t.session.request(t.spec.ID, spec.ID))
	environment := t.environment(spec.Environment)
	if environment == nil && spec.Environment != nil {
		return t.unknown("the call", *spec.Environment)
	}
	id, here := "", true
	if environment != nil {
		place := environment.Environment
		r.Environment, id = &place, place.ID
		// What was granted under the same name is of this machine.
		here = environment.elsewhere("the call") == nil
	}
	v := &view{sessions: s, turn: t, environment: id, sticky: here && spec.Sandbox == SandboxDefault}
	preapproved := false
	if spec.Additional != nil {
		if environment == nil {
			return wrong(FaultNoEnvironment, "additional permissions need an environment")
		}
		if final := environment.elsewhere("additional permissions:"); final != nil {
			return *final
		}
		request, final := place("additional permissions", *spec.Additional, environment)
		if final != nil {
			return *final
		}
		// What turn and session hold is not asked for again. Nothing else of theirs
		// counts for a call that asks for more.
		if held := s.book.Held(t.owner(), id); permission.Covers(held, request.Permissions) {
			preapproved = true
		} else {
			r.Permissions = &request.Permissions
		}
		spec.Additional = &request.Permissions
	}
	answer, err := s.ask(c, c.question(r, v), nil)
	if err != nil {
		_ = c.settle(nil)
		return c.broken(err)
	}
	t.session.ruled(answer.Ruling.Epoch)
	final := Final{Outcome: answer.Outcome, Answer: answer, Message: said(answer)}
	var spent bool
	cancelled := c.settle(func() {
		if final.Outcome != approval.OutcomeAllow {
			return
		}
		if final.Effective = (&Effective{Sandbox: spec.Sandbox}); here {
			final.Effective, spent = s.effective(c, v, answer, preapproved, spec)
		}
		if answer.Acceptance != nil && !spent {
			t.session.accept(*answer.Acceptance, c, answer, s.now())
		}
	})
	switch {
	case cancelled != nil:
		s.void(answer, cancelled)
		return c.gone(cancelled)
	case spent:
		s.void(answer, errors.New("what the call would run on was used up or revoked"))
		return wrong(FaultRefused, "the call may not run: what was granted was used by another call or revoked; ask again")
	case final.Outcome == approval.OutcomeAllow:
		return final
	}
	final.Fault, final.Output = FaultRefused, "the call may not run"
	if final.Message != "" {
		final.Output += ": " + final.Message
	}
	return final
}

// broken is the final answer of a call that the gate could not be asked about.
func (c *call) broken(err error) Final {
	if c.ctx.Err() != nil {
		return c.gone(context.Cause(c.ctx))
	}
	if errors.Is(err, approval.ErrRequest) {
		return wrong(FaultArguments, "the call cannot be read: %v", err)
	}
	return wrong(FaultRefused, "the call may not run: nobody could be asked (%v)", err)
}

// effective is what a call that is allowed may use, and what that uses up. It is
// spent if the call was allowed for a grant that is no longer there.
func (s *Sessions) effective(c *call, v *view, answer *gate.Answer, preapproved bool, spec CallSpec) (e *Effective, spent bool) {
	e = &Effective{Sandbox: spec.Sandbox, Preapproved: preapproved}
	if spec.Sandbox == SandboxEscalated {
		return e, false
	}
	owner := c.turn.owner()
	held, ids := s.book.Take(owner, v.environment)
	v.mu.Lock()
	ruledBy := v.held
	v.mu.Unlock()
	if answer.Ruling.Granted && answer.Acceptance == nil && !permission.Covers(held, ruledBy) {
		return nil, true
	}
	if preapproved && !permission.Covers(held, *spec.Additional) {
		return nil, true // nobody was asked for it, since it was held then
	}
	own := permission.Profile{}
	if answer.Settlement != nil {
		own = answer.Settlement.Permissions
		_ = s.record(c, v.environment, answer) // it is logged; the call has it all the same
	}
	e.Permissions = permission.Merge(own, held)
	if ceiling := answer.Ruling.Ceiling; ceiling != nil {
		e.Permissions = permission.Intersect(e.Permissions, ceiling.Permissions)
	}
	if !e.Permissions.Grants() {
		e.Permissions = permission.Profile{}
		e.Sandbox = SandboxDefault
		return e, false
	}
	e.Sandbox, e.Grants = SandboxMore, ids
	e.Preapproved = permission.Covers(held, e.Permissions)
	return e, false
}

// said is why an answer is what it is, in a sentence.
func said(a *gate.Answer) string {
	if a.Reason != "" {
		return a.Reason
	}
	// Why somebody had to be asked is not why they answered as they did.
	decided := a.Record != nil && a.Record.Decision != nil && a.Record.Decision.Source == approval.SourceHuman
	if len(a.Ruling.Reasons) > 0 && !decided {
		return a.Ruling.Reasons[0]
	}
	return ""
}
