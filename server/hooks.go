package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/regent-policy/regent/harness/hook"
	"github.com/regent-policy/regent/harness/hook/client"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/peer"
)

const (
	// hookTime bounds how long a hook may take to say what it is about, and to read
	// the answer.
	hookTime = 5 * time.Second
	// maxHooks bounds the hooks that are served at once. One more is hung up on, and
	// refuses.
	maxHooks = 1024
)

// hookListener is where hooks connect.
type hookListener struct{ *net.UnixListener }

// ListenHooks listens for hooks in the runtime folder of the home, under the same
// conditions as [Server.ListenUnix], which comes first: it takes the lock of the
// home. Hooks look nowhere else, so that a home whose name is too long for a
// socket has none: a [client.ErrPath].
func (s *Server) ListenHooks() (net.Listener, error) {
	path, err := client.Socket(s.home)
	if err != nil {
		return nil, err
	}
	l, err := listenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("listen for hooks on %s: %w", path, err)
	}
	return &hookListener{l}, nil
}

// serveHooks answers hooks until the listener is closed, and returns when nobody
// is answered any more.
func (s *Server) serveHooks(l *hookListener) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if passing, ok := errors.AsType[net.Error](err); ok && passing.Timeout() {
				continue
			}
			if s.stops() {
				return nil
			}
			s.log.Warn("a hook could not be accepted", "error", err)
			select {
			case <-time.After(acceptTime):
			case <-s.stopping:
				return nil
			}
			continue
		}
		// Who is at the other end can be told best right after the connection was made.
		c := &caller{local: true}
		c.process, c.err = peer.Of(conn)
		if !s.hooks.enter(1) {
			_ = conn.Close()
			continue
		}
		serving.Go(func() {
			defer s.hooks.leave(1)
			s.serveHook(conn, c)
		})
	}
}

// acceptTime is how long the daemon rests when it cannot accept, as where it has
// no file descriptors left.
const acceptTime = 50 * time.Millisecond

// serveHook answers one hook: one message comes in, and one goes out. A hook that
// is told nothing refuses.
func (s *Server) serveHook(conn *net.UnixConn, c *caller) {
	defer func() { _ = conn.Close() }()
	began := time.Now()
	// Whether an agent has started it is found out while the hook hears what it is
	// about.
	governed := false
	if c.err == nil {
		known, err := s.agents.Descends(c.process)
		governed = known && err == nil
	}
	text, release, err := s.readHook(conn)
	defer release()
	if err != nil {
		s.log.Debug("a hook said nothing that can be read", "error", err)
		return
	}
	call, answer, told := s.ruleHook(conn, c, governed, text)
	err = s.answerHook(conn, answer)
	told(err)
	if err == nil && call.OnAsk != client.Wait {
		s.metrics.ruled("hook", time.Since(began))
	}
}

// ruleHook finds the answer. told is to hear whether it was written.
func (s *Server) ruleHook(conn *net.UnixConn, c *caller, governed bool, text []byte) (call client.Call, answer client.Answer, told func(error)) {
	told = func(error) {}
	defer func() {
		if caught := recover(); caught != nil {
			s.log.Error("a hook could not be answered", "panic", caught, "stack", string(debug.Stack()))
			answer, told = hook.Refuse(call, errors.New("the daemon broke down over this; its log says why")), func(error) {}
		}
	}()
	call, err := hook.Decode(text)
	if err == nil {
		err = s.admitHook(c, governed, call.AgentPID)
	}
	if err != nil {
		return call, hook.Refuse(call, err), told
	}
	ctx, hungUp := context.WithCancelCause(context.Background())
	defer hungUp(nil)
	if call.OnAsk == client.Wait {
		// Nothing more comes in, so that a read ends when the hook is gone: then nobody
		// waits for the answer.
		var watching sync.WaitGroup
		watching.Go(func() {
			var more [1]byte
			_, err := conn.Read(more[:])
			hungUp(fmt.Errorf("the hook is gone: %w", orExtra(err)))
		})
		defer watching.Wait()
		defer func() { _ = conn.SetReadDeadline(time.Now()) }()
	}
	answer, told = hook.Rule(ctx, s.gate, call)
	return call, answer, told
}

// orExtra is the error of one who says more than there is to say.
func orExtra(err error) error {
	if err == nil {
		return errors.New("it said more than there is to say")
	}
	return err
}

// reading are the hooks that have yet to say what they are about.
type reading struct {
	mu    sync.Mutex
	conns map[*net.UnixConn]bool
	over  bool
}

// add is false once nobody is listened to any more.
func (r *reading) add(conn *net.UnixConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	if r.conns == nil {
		r.conns = map[*net.UnixConn]bool{}
	}
	r.conns[conn] = true
	return true
}

func (r *reading) drop(conn *net.UnixConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

// end has none of them listened to any more.
func (r *reading) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for conn := range r.conns {
		_ = conn.SetReadDeadline(time.Now())
	}
}

// readHook reads what a hook says. release lets go of the room that it takes.
func (s *Server) readHook(conn *net.UnixConn) (text []byte, release func(), err error) {
	release = func() {}
	if err := conn.SetReadDeadline(time.Now().Add(hookTime)); err != nil {
		return nil, release, err
	}
	// The end of the daemon does not wait for one who says nothing.
	if !s.reading.add(conn) {
		return nil, release, errors.New("the daemon ends")
	}
	defer s.reading.drop(conn)
	text, err = client.ReadMessage(conn, client.MaxCall, func(bytes int) error {
		if !s.held.enter(int64(bytes)) {
			return errors.New("the requests that wait take up all the room there is for them")
		}
		release = func() { s.held.leave(int64(bytes)) }
		return nil
	})
	if err != nil {
		return nil, release, err
	}
	return text, release, conn.SetReadDeadline(time.Time{})
}

func (s *Server) answerHook(conn *net.UnixConn, answer client.Answer) error {
	if err := conn.SetWriteDeadline(time.Now().Add(hookTime)); err != nil {
		return err
	}
	return client.WriteMessage(conn, answer, client.MaxAnswer)
}

// admitHook lets the user's own hooks ask, and makes the process that started one
// an agent. That is a guess of the hook's, which nobody has to have named: where it
// is one that the daemon itself comes from, a person's shell, only the hook is.
//
// From the second call on the hook is governed, and that is all: it names the
// process that started it, so that an agent above it is that one, or one above both.
func (s *Server) admitHook(c *caller, governed bool, agent int) error {
	err := s.ours(c)
	if err == nil && c.err == nil && !governed { // one who cannot be told is an agent as it is
		for _, p := range s.family {
			if p.PID == agent {
				agent = 0
			}
		}
		err = s.govern(c, agent)
	}
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return errors.New(refused.Message)
	}
	return err
}
