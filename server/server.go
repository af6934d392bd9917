// Package server is Regent's daemon: the gate behind HTTP, on a Unix socket and,
// where somebody wants it, on loopback.
//
// It finds out who calls, and decides nothing: see package gate for that. Who
// calls over the socket is told by the process at its other end, and is an agent
// where that process is one, descends from one, or cannot be told. Over TCP a
// token tells.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/credential"
	"github.com/regent-policy/regent/server/notify"
	"github.com/regent-policy/regent/server/peer"
)

const (
	// headerTime bounds how long the head of a request may take to arrive, bodyTime
	// its body, and writeTime how long a reader may take to read a piece of an
	// answer. How long an answer may take to come to be is the gate's to say.
	headerTime = 5 * time.Second
	bodyTime   = 10 * time.Second
	writeTime  = 10 * time.Second
	idleTime   = 2 * time.Minute
	// stopTime is how long handlers may go on after the gate has been closed.
	stopTime = 5 * time.Second

	maxHeader = 32 << 10
	// maxHeld bounds the bodies that are in memory at once, in bytes.
	maxHeld = 256 << 20

	defaultMaxAsks    = 16384
	defaultMaxReaders = 64
	heartbeat         = 15 * time.Second
)

// Ledger is what the server reads of the store of approvals. Nothing but the gate
// writes there.
type Ledger interface {
	// Events are those of approval.Ledger.
	Events(ctx context.Context, after int64, limit int) ([]approval.Event, error)
	// Stats answer at once, whatever goes on.
	Stats() ledger.Stats
}

// Options are what a server is made of. Gate, Epochs and Ledger are needed to
// serve, and not to listen.
type Options struct {
	Gate   *gate.Gate
	Epochs *gate.Epochs
	Ledger Ledger
	// Tokens tell who calls over TCP; nil lets nobody in there.
	Tokens *credential.Tokens
	// StepUp holds the proofs of those who answer; nil is that nobody has one.
	StepUp *credential.StepUp
	// Home is the folder that one daemon serves at a time.
	Home    string
	Version string
	// Warnings are shown in the status.
	Warnings []string
	// Notifiers tell how those stand who are told of requests; nil where nobody is.
	Notifiers func() []notify.Stats
	// Plugins tell how the programs of plugins do; nil where none run.
	Plugins func() []api.Plugin
	Log     *slog.Logger
	// MaxAsks bounds the questions that wait at once, 16384 where it is 0, and
	// MaxReaders the readers of events, 64 where it is 0.
	MaxAsks, MaxReaders int
}

// Server is the daemon. It is safe for concurrent use.
type Server struct {
	gate     *gate.Gate
	epochs   *gate.Epochs
	native   *native.Sessions
	ledger   Ledger
	tokens   *credential.Tokens
	stepUp   *credential.StepUp
	home     string
	version  string
	warnings []string
	told     func() []notify.Stats
	plugins  func() []api.Plugin
	log      *slog.Logger

	mux, paths *http.ServeMux
	metrics    *metrics
	started    time.Time
	// uid is the user that the daemon runs as, and login the name of it.
	uid   int
	login string
	// agents are the processes that have asked, or that somebody asked for.
	agents peer.Set
	// family are the processes that the daemon descends from.
	family []peer.Process

	// bodyTime, writeTime and heartbeat are the constants, except in tests.
	bodyTime, writeTime, heartbeat time.Duration

	asks    limit
	hooks   limit
	reading reading
	held    limit
	readers limit
	posted  posted

	// stopping is closed when the server ends.
	stopping chan struct{}
	stop     sync.Once
	// active is held for reading by each handler.
	active sync.RWMutex

	// reach is the socket as it was made.
	reach atomic.Pointer[os.FileInfo]

	mu        sync.Mutex
	socket    string
	addresses []string
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	s := &Server{
		gate: o.Gate, epochs: o.Epochs, ledger: o.Ledger, tokens: o.Tokens, stepUp: o.StepUp,
		home: o.Home, version: o.Version, warnings: o.Warnings, told: o.Notifiers, plugins: o.Plugins, log: o.Log,
		started:  time.Now().UTC().Truncate(time.Second),
		uid:      os.Getuid(),
		bodyTime: bodyTime, writeTime: writeTime, heartbeat: heartbeat,
		stopping: make(chan struct{}),
	}
	if s.told == nil {
		s.told = func() []notify.Stats { return nil }
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Gate != nil { // one without a gate listens and does no more
		s.native = native.New(native.Parts{Gate: o.Gate, Workspaces: o.Epochs, Log: s.log})
	}
	s.asks.most = int64(o.MaxAsks)
	if o.MaxAsks == 0 {
		s.asks.most = defaultMaxAsks
	}
	s.readers.most = int64(o.MaxReaders)
	if o.MaxReaders == 0 {
		s.readers.most = defaultMaxReaders
	}
	s.held.most, s.hooks.most = maxHeld, maxHooks
	s.login = strconv.Itoa(s.uid)
	if u, err := user.LookupId(s.login); err == nil {
		s.login = u.Username
	}
	if self, err := peer.Lookup(os.Getpid()); err == nil {
		// Where it cannot be told, no process may be named as an agent: see govern.
		s.family, _ = peer.Ancestors(self)
	}
	s.metrics = newMetrics(s)
	s.mux, s.paths = http.NewServeMux(), http.NewServeMux()
	known := map[string]bool{}
	for _, route := range routes {
		s.mux.HandleFunc(route.method+" "+route.path, s.serve(route))
		if !known[route.path] {
			known[route.path] = true
			s.paths.HandleFunc(route.path, func(http.ResponseWriter, *http.Request) {})
		}
	}
	s.mux.HandleFunc("/", s.noRoute)
	return s
}

// Handler is the API. Requests that did not come in over [Server.Serve] are
// taken for ones over TCP.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.entrance) }

// Serve answers on the listeners until ctx ends, and closes them; one of
// [Server.ListenHooks] is for hooks. Before it
// returns it ends all sessions and closes the gate, because what waits there
// waits on connections: those who wait are told what became of their requests,
// streams of events end, and no handler runs any more.
//
// The error is that of a listener which failed, or of the gate's Close; the end
// of ctx is none.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	s.mu.Lock()
	for _, l := range listeners {
		switch _, hooks := l.(*hookListener); {
		case hooks:
		case l.Addr().Network() == "unix":
			s.socket = l.Addr().String()
		default:
			s.addresses = append(s.addresses, l.Addr().String())
		}
	}
	s.mu.Unlock()
	h := &http.Server{
		Handler:                      s.Handler(),
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext:                  s.accept,
	}
	reach, err := os.Lstat(s.socket)
	if err == nil {
		s.reach.Store(&reach)
	}
	failed := make(chan error, len(listeners))
	var serving sync.WaitGroup
	serving.Go(s.lookout)
	var hooks []*hookListener
	for _, l := range listeners {
		if one, ok := l.(*hookListener); ok {
			hooks = append(hooks, one)
			serving.Go(func() { failed <- s.serveHooks(one) })
			continue
		}
		serving.Go(func() { failed <- h.Serve(l) })
	}
	var errs []error
	select {
	case <-ctx.Done():
	case err := <-failed:
		errs = append(errs, fmt.Errorf("serve: %w", err))
	}
	s.stop.Do(func() { close(s.stopping) })
	s.reading.end()
	for _, l := range hooks {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close listeners: %w", err))
		}
	}
	s.native.Close()
	errs = append(errs, s.gate.Close())
	limited, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stopTime, errors.New("the daemon ends"))
	defer cancel()
	if err := h.Shutdown(limited); err != nil {
		s.log.Warn("connections were cut off at the end", "error", err)
		if err := h.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close listeners: %w", err))
		}
	}
	serving.Wait()
	s.idle()
	return errors.Join(errs...)
}

// lookTime is how often the daemon looks whether it can still be reached.
const lookTime = 10 * time.Second

// lookout says once that the socket has gone from its place.
func (s *Server) lookout() {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for told := false; ; {
		select {
		case <-s.stopping:
			return
		case <-tick.C:
		}
		if gone := !s.reachable(); gone != told {
			told = gone
			if gone {
				s.log.Error("the socket is gone or another one, so nobody new reaches this daemon; start it again", "socket", (*s.reach.Load()).Name())
			}
		}
	}
}

// reachable tells whether the socket that was made is still where callers look.
func (s *Server) reachable() bool {
	made := s.reach.Load()
	if made == nil {
		return true // there is none
	}
	socket, _ := s.listening()
	now, err := os.Lstat(socket)
	return err == nil && os.SameFile(*made, now)
}

// idle waits for the last handler.
func (s *Server) idle() {
	s.active.Lock()
	defer s.active.Unlock()
}

// stops tells whether the server ends.
func (s *Server) stops() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// limit counts what there may be only so much of.
type limit struct {
	most int64
	now  atomic.Int64
}

func (l *limit) enter(n int64) bool {
	if l.now.Add(n) > l.most {
		l.now.Add(-n)
		return false
	}
	return true
}

func (l *limit) leave(n int64) { l.now.Add(-n) }

// posted bounds the questions that wait without a connection. To count them
// takes the gate some time, so they are counted only when there could be too
// many.
type posted struct {
	mu sync.Mutex
	// atMost is how many wait, or more.
	atMost int64
}

func (p *posted) enter(most int64, waiting func() int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.atMost >= most {
		p.atMost = int64(waiting())
	}
	if p.atMost >= most {
		return false
	}
	p.atMost++
	return true
}

func (s *Server) listening() (socket string, addresses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.socket, slices.Clone(s.addresses)
}

var _ Ledger = (*ledger.DB)(nil)
