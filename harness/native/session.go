package native

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// SessionSpec is what a host says of a session when it opens it.
type SessionSpec struct {
	// ID is the host's own. Among the sessions that are open it is the only one.
	ID string
	// Instance is the process of the host, as in approval.Run. The session lives
	// no longer than its lease.
	Instance string
	// Run is the host's name for the execution that the session belongs to; the
	// session's id if empty.
	Run string
	// Workspace and Folder are as in gate.Question.
	Workspace, Folder string
	// Version is that of the host.
	Version string
	// Members and Subject are as in approval.Request.
	Members []string
	Subject *approval.Subject
}

// Environment is a place where commands of a turn run.
type Environment struct {
	approval.Environment
	// Foreign says that its cwd is not a path of this machine.
	Foreign bool
}

// TurnSpec is what a host says of a turn when it opens it.
type TurnSpec struct {
	ID           string
	Environments []Environment
	// Primary is the id of the environment that calls run in which name none; the
	// first if empty.
	Primary string
}

// TurnState is how a turn stands.
type TurnState string

// The states of a turn.
const (
	TurnOpen TurnState = "open"
	// TurnEnded is over because the host said so.
	TurnEnded TurnState = "ended"
	// TurnInterrupted is over because somebody stopped it.
	TurnInterrupted TurnState = "interrupted"
)

// session is an open session.
type session struct {
	spec    SessionSpec
	started time.Time

	mu    sync.Mutex
	over  bool
	turns map[string]*turn
	order []*turn // as they were opened
	// calls are those that are remembered, of all turns, and finished those of them
	// that are over, the oldest first.
	calls    map[string]*call
	finished []*call
	// accepted are the actions that need no further answer.
	accepted map[gate.Acceptance]Accepted
	// epoch is what the last call was ruled by, and changes how often that was
	// another one than before.
	epoch   string
	changes int
}

// turn is a turn of a session.
type turn struct {
	session *session
	spec    TurnSpec
	started time.Time

	// The session's lock guards these.
	state TurnState
	why   string
	calls []*call
}

func (t *turn) owner() permission.Owner {
	return permission.Owner{Session: t.session.spec.ID, Turn: t.spec.ID}
}

// environment returns the environment with an id, or the primary one; nil where
// there is none.
func (t *turn) environment(id *string) *Environment {
	wanted := t.spec.Primary
	if id != nil {
		wanted = *id
	}
	for i := range t.spec.Environments {
		if t.spec.Environments[i].ID == wanted {
			return &t.spec.Environments[i]
		}
	}
	return nil
}

// Open opens a session for an instance, which gives a sign of life by it. A
// session that the instance has open already is an [ErrExists], and so is one of
// another instance that lives.
func (s *Sessions) Open(ctx context.Context, spec SessionSpec) (Session, error) {
	if spec.ID == "" {
		return Session{}, fmt.Errorf("%w: the session has no id", ErrSpec)
	}
	if _, err := s.gate.Renew(ctx, spec.Instance); err != nil {
		return Session{}, err
	}
	if spec.Run == "" {
		spec.Run = spec.ID
	}
	one := &session{
		spec: spec, started: s.now(),
		turns: map[string]*turn{}, calls: map[string]*call{}, accepted: map[gate.Acceptance]Accepted{},
	}
	if err := s.add(one); err != nil {
		return Session{}, err
	}
	// The instance may have ended in between, when there was no session of it to
	// end yet.
	if err := s.gate.Alive(ctx, spec.Instance); err != nil {
		s.end(one, err)
		return Session{}, err
	}
	return s.describe(one), nil
}

func (s *Sessions) add(one *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := one.spec.ID
	switch {
	case s.over:
		return ErrStopped
	case s.sessions[id] != nil:
		return fmt.Errorf("session %s: %w", id, ErrExists)
	case len(s.sessions) >= MaxSessions:
		return fmt.Errorf("sessions: %w", ErrFull)
	}
	s.sessions[id] = one
	s.book.OpenSession(id)
	return nil
}

// End ends a session: its turns end, what waits is cancelled, and what was
// granted is gone.
func (s *Sessions) End(id, instance string) error {
	one, err := s.own(id, instance)
	if err != nil {
		return err
	}
	s.end(one, errors.New("the session ended"))
	return nil
}

func (s *Sessions) end(one *session, cause error) {
	one.mu.Lock()
	one.over = true
	open := slices.Clone(one.order)
	one.mu.Unlock()
	for _, t := range open {
		s.endTurn(t, TurnEnded, cause)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[one.spec.ID] == one {
		delete(s.sessions, one.spec.ID)
		s.book.EndSession(one.spec.ID)
	}
}

// OpenTurn opens a turn. Others may be open beside it.
func (s *Sessions) OpenTurn(ctx context.Context, id, instance string, spec TurnSpec) (TurnInfo, error) {
	one, err := s.alive(ctx, id, instance)
	if err != nil {
		return TurnInfo{}, err
	}
	if err := spec.check(); err != nil {
		return TurnInfo{}, err
	}
	if spec.Primary == "" && len(spec.Environments) > 0 {
		spec.Primary = spec.Environments[0].ID
	}
	t := &turn{session: one, spec: spec, started: s.now(), state: TurnOpen}
	one.mu.Lock()
	defer one.mu.Unlock()
	open := 0
	for _, other := range one.order {
		if other.state == TurnOpen {
			open++
		}
	}
	switch {
	case one.over:
		return TurnInfo{}, fmt.Errorf("%w: %s", ErrNoSession, id)
	case one.turns[spec.ID] != nil:
		return TurnInfo{}, fmt.Errorf("turn %s: %w", spec.ID, ErrExists)
	case open >= MaxTurns:
		return TurnInfo{}, fmt.Errorf("open turns: %w", ErrFull)
	}
	one.turns[spec.ID] = t
	one.order = append(one.order, t)
	s.book.OpenTurn(t.owner())
	return t.info(&s.book), nil
}

// check says what is wrong with a turn.
func (spec TurnSpec) check() error {
	switch {
	case spec.ID == "":
		return fmt.Errorf("%w: the turn has no id", ErrSpec)
	case len(spec.Environments) > MaxEnvironments:
		return fmt.Errorf("%w: %d environments, at most %d", ErrSpec, len(spec.Environments), MaxEnvironments)
	}
	seen := map[string]bool{}
	for i, e := range spec.Environments {
		switch {
		case e.ID == "":
			return fmt.Errorf("%w: environment %d has no id", ErrSpec, i+1)
		case e.Cwd == "":
			return fmt.Errorf("%w: environment %s has no cwd", ErrSpec, e.ID)
		case seen[e.ID]:
			return fmt.Errorf("%w: environment %s is given twice", ErrSpec, e.ID)
		}
		seen[e.ID] = true
	}
	if spec.Primary != "" && !seen[spec.Primary] {
		return fmt.Errorf("%w: the primary environment %s is not among the environments", ErrSpec, spec.Primary)
	}
	return nil
}

// EndTurn ends a turn: what waits is cancelled, and what it was granted is gone.
// That it is over already is no error.
func (s *Sessions) EndTurn(ctx context.Context, id, instance, turn string) (TurnInfo, error) {
	one, err := s.alive(ctx, id, instance)
	if err != nil {
		return TurnInfo{}, err
	}
	t, err := one.turn(turn)
	if err != nil {
		return TurnInfo{}, err
	}
	s.endTurn(t, TurnEnded, errors.New("the turn ended"))
	one.mu.Lock()
	defer one.mu.Unlock()
	return t.info(&s.book), nil
}

func (s *session) turn(id string) (*turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turns[id]
	if t == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoTurn, id)
	}
	return t, nil
}

// endTurn has a turn take no more calls, and cancels those that are on their
// way. It does not wait for them.
func (s *Sessions) endTurn(t *turn, state TurnState, cause error) {
	one := t.session
	one.mu.Lock()
	known := one.turns[t.spec.ID] == t // and no later turn of that id
	if t.state == TurnOpen {
		t.state, t.why = state, cause.Error()
		one.forget()
	}
	calls := slices.Clone(t.calls)
	one.mu.Unlock()
	// Also where the turn is over already: whoever ended it may not be done, and
	// what comes after this relies on it. A call that is being settled at this
	// moment records its grant before or finds itself cancelled; either way nothing
	// of it outlives the turn.
	for _, c := range calls {
		_ = c.stop(cause) // one that is settled stays so
	}
	if known {
		s.book.EndTurn(t.owner())
	}
}

// forget drops the turns that are over for longest. The lock is held.
func (s *session) forget() {
	var over []*turn
	for _, t := range s.order {
		if t.state != TurnOpen {
			over = append(over, t)
		}
	}
	for _, t := range over[:max(len(over)-keptTurns, 0)] {
		delete(s.turns, t.spec.ID)
		for _, c := range t.calls {
			delete(s.calls, c.spec.ID)
		}
		s.order = slices.DeleteFunc(s.order, func(o *turn) bool { return o == t })
		s.finished = slices.DeleteFunc(s.finished, func(c *call) bool { return c.turn == t })
	}
}

// finish remembers a call that is over, in place of the oldest such if there are
// too many.
func (s *session) finish(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.spec.ID] != c {
		return // its turn is forgotten
	}
	s.finished = append(s.finished, c)
	if len(s.finished) <= keptCalls {
		return
	}
	old := s.finished[0]
	s.finished = slices.Delete(s.finished, 0, 1)
	delete(s.calls, old.spec.ID)
	old.turn.calls = slices.DeleteFunc(old.turn.calls, func(o *call) bool { return o == old })
}

// ruled notes what a call was ruled by.
func (s *session) ruled(epoch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != "" && s.epoch != epoch {
		s.changes++
	}
	s.epoch = epoch
}

// request is what all requests of the session have in common.
func (s *session) request(turn, call string) *approval.Request {
	return &approval.Request{
		Run:     &approval.Run{ID: s.spec.Run, Instance: s.spec.Instance},
		Session: &approval.Session{ID: s.spec.ID, TurnID: turn, CallID: call, Members: s.spec.Members},
		Harness: &approval.Harness{Name: "native", Version: s.spec.Version},
		Subject: s.spec.Subject,
	}
}

// Session is an open session as it is told.
type Session struct {
	SessionSpec
	Started time.Time
	Turns   []TurnInfo
	// Epoch is the fingerprint of the rules that the last call was ruled by, ""
	// before the first, and Changes how often it was another one than for the call
	// before.
	Epoch   string
	Changes int
	// Pending are the requests for permissions that wait for an answer.
	Pending []Event
}

// TurnInfo is a turn as it is told.
type TurnInfo struct {
	ID           string
	State        TurnState
	Why          string
	Strict       bool
	Environments []Environment
	Primary      string
	Started      time.Time
}

// info describes a turn. The session's lock is held.
func (t *turn) info(book *permission.Book) TurnInfo {
	return TurnInfo{
		ID: t.spec.ID, State: t.state, Why: t.why, Strict: book.Strict(t.owner()),
		Environments: t.spec.Environments, Primary: t.spec.Primary, Started: t.started,
	}
}

func (s *Sessions) describe(one *session) Session {
	one.mu.Lock()
	out := Session{SessionSpec: one.spec, Started: one.started, Epoch: one.epoch, Changes: one.changes}
	var calls []*call
	for _, t := range one.order {
		out.Turns = append(out.Turns, t.info(&s.book))
		calls = append(calls, t.calls...)
	}
	one.mu.Unlock()
	// The lock of a call comes before that of its session: a call that is settled
	// takes both.
	for _, c := range calls {
		if e, ok := c.pending(s.gate); ok {
			out.Pending = append(out.Pending, e)
		}
	}
	return out
}

// Describe returns a session of the instance that opened it, which gives a sign
// of life by it.
func (s *Sessions) Describe(ctx context.Context, id, instance string) (Session, error) {
	one, err := s.alive(ctx, id, instance)
	if err != nil {
		return Session{}, err
	}
	return s.describe(one), nil
}

// seen tells whether a principal may know of a session.
func (s *session) seen(by gate.Principal) bool {
	return by.MaySee(s.record())
}

// record stands for a session where the gate goes by a record.
func (s *session) record() *approval.Record {
	return &approval.Record{Request: s.request("", "")}
}

// List returns the sessions that a principal may see, by their ids.
func (s *Sessions) List(by gate.Principal) []Session {
	out := []Session{}
	for _, one := range s.all() {
		if one.seen(by) {
			out = append(out, s.describe(one))
		}
	}
	slices.SortFunc(out, func(a, b Session) int { return strings.Compare(a.ID, b.ID) })
	return out
}
