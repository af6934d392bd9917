// Package native is the life around a request of a host that speaks Regent's own
// API: its sessions, their turns and environments, the calls of a turn, the tool
// request_permissions, and what turns and sessions were granted.
//
// Everything here is in memory and gone with the process. What is decided, and
// that it was, is the gate's and in the ledger.
package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/permission"
)

// Bounds of what is kept.
const (
	MaxSessions     = 1024
	MaxTurns        = 64   // of a session, at a time
	MaxEnvironments = 64   // of a turn
	MaxCalls        = 4096 // of a session that have no final answer yet
	// keptCalls is how many calls of a session are remembered when they are over.
	// What became of an older one cannot be read any more, and its id can be used
	// again.
	keptCalls = 1024
	// keptTurns is how many turns of a session are remembered when they are over,
	// so that what became of their calls can still be read.
	keptTurns = 16
	// maxAcceptances bounds what a session accepts beforehand. Past it, a person is
	// asked each time.
	maxAcceptances = 1024
	// hooksAtOnce bounds the hooks that run at one time: an agent can make many
	// calls. Waiting for a place counts as time of the hook.
	hooksAtOnce = 16
	// closing is how long what has to be told to the gate may take when nobody
	// waits any more.
	closing = 5 * time.Second
)

// Why nothing was done.
var (
	// ErrNoSession means that no session of that id is open for this caller: it
	// ended, or the daemon was started anew. Open it again.
	ErrNoSession = errors.New("no such session is open")
	// ErrNoTurn means that the session has no turn of that id.
	ErrNoTurn = errors.New("the session has no such turn")
	// ErrNoCall means that the turn has no call of that id.
	ErrNoCall = errors.New("the session has no such call")
	// ErrNoGrant means that no grant of that id is held.
	ErrNoGrant = errors.New("no such grant is held")
	// ErrOver means that a turn takes no more calls: it has ended or was
	// interrupted.
	ErrOver = errors.New("the turn is over")
	// ErrExists means that a session, turn or call of that id is there already.
	ErrExists = errors.New("the id is taken")
	// ErrTold means that a call cannot be cancelled: what became of it is settled.
	ErrTold = errors.New("the call is settled")
	// ErrUnmatched means that an answer belongs to no request that waits. It
	// changed nothing.
	ErrUnmatched = errors.New("no request of that call waits for an answer")
	// ErrFull means that there are as many as there may be. End some first.
	ErrFull = errors.New("too many at a time")
	// ErrSpec means that what a host says of a session, turn or call makes no
	// sense.
	ErrSpec = errors.New("not a session, turn or call as it has to be")
	// ErrStopped means that nothing is taken in any more.
	ErrStopped = errors.New("the daemon is stopping")
)

// Parts are what sessions are made of. All but Log and Now are needed.
type Parts struct {
	Gate       *gate.Gate
	Workspaces gate.Workspaces
	// Reviewers opens those that hooks name; that of the gate if nil.
	Reviewers gate.Reviewers
	Log       *slog.Logger
	Now       func() time.Time
}

// Sessions are the sessions of all native hosts. It is safe for concurrent use.
type Sessions struct {
	gate       *gate.Gate
	workspaces gate.Workspaces
	reviewers  gate.Reviewers
	log        *slog.Logger
	now        func() time.Time
	book       permission.Book
	stats      stats

	running sync.WaitGroup
	// hooking has a place for each hook that runs.
	hooking chan struct{}

	mu       sync.Mutex
	sessions map[string]*session
	over     bool
}

// New returns sessions that ask p.Gate.
func New(p Parts) *Sessions {
	s := &Sessions{
		gate: p.Gate, workspaces: p.Workspaces, reviewers: p.Reviewers, log: p.Log, now: p.Now,
		sessions: map[string]*session{}, hooking: make(chan struct{}, hooksAtOnce),
	}
	if s.reviewers == nil {
		s.reviewers = p.Gate.Reviewers()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.gate.WhenGone(s.gone)
	return s
}

// Close ends every session, and returns when no call of them runs.
func (s *Sessions) Close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, one := range s.all() {
		one.mu.Lock()
		calls := slices.Collect(maps.Values(one.calls))
		one.mu.Unlock()
		s.end(one, ErrStopped)
		for _, c := range calls {
			c.cancel(ErrStopped) // hooks that look at an answer hold up nobody
		}
	}
	s.running.Wait()
}

// gone ends the sessions of an instance that is over.
func (s *Sessions) gone(instance string) {
	for _, one := range s.all() {
		if one.spec.Instance == instance {
			s.end(one, errors.New("the host is gone"))
		}
	}
}

// all are the sessions that are open at this moment.
func (s *Sessions) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sessions))
}

// own is an open session of the instance that opened it.
func (s *Sessions) own(id, instance string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.sessions[id]
	// Whoever does not know the instance learns nothing of its sessions.
	if one == nil || instance == "" || one.spec.Instance != instance {
		return nil, fmt.Errorf("%w: %s", ErrNoSession, id)
	}
	return one, nil
}

// alive is own with a sign of life of the instance.
func (s *Sessions) alive(ctx context.Context, id, instance string) (*session, error) {
	one, err := s.own(id, instance)
	if err != nil {
		return nil, err
	}
	if err := s.gate.Alive(ctx, instance); err != nil {
		return nil, err
	}
	return one, nil
}

// warn tells those who run the home of an answer that changed nothing.
func (s *Sessions) warn(session, call string, cause error) {
	s.stats.unmatched.Add(1)
	s.log.Warn("an answer changed nothing", "session", session, "call", call, "error", cause)
	s.gate.Feed().Post(gate.Notice{
		At: s.now(), Kind: gate.NoticeAnswer,
		Message: fmt.Sprintf("an answer to call %.80q of session %.80q changed nothing: %v", call, session, cause),
	})
}
