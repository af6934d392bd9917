package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/credential"
	"github.com/regent-policy/regent/server/peer"
)

// caller is the other end of one connection.
type caller struct {
	// local is true on the Unix socket.
	local bool
	// process is at the other end of the socket. err says why it cannot be told;
	// such a caller is an agent.
	process peer.Process
	err     error
	// governed says that the process has been made an agent on this connection.
	governed atomic.Bool
}

type callerKey struct{}

// accept notes who is at the other end while that can be told best: right after
// the connection was made.
func (s *Server) accept(ctx context.Context, conn net.Conn) context.Context {
	c := &caller{}
	if unix, ok := conn.(*net.UnixConn); ok {
		c.local = true
		c.process, c.err = peer.Of(unix)
	}
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(r *http.Request) *caller {
	if c, ok := r.Context().Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{}
}

// access says who may make a call.
type access int

const (
	// anyone on the socket, whoever that is; a principal over TCP.
	anyone access = iota
	// asking is what hosts and agents do, and everybody else may.
	asking
	// looking is for those who are no agent.
	looking
)

// admit returns who makes a call, or says why that one may not. On the socket,
// calls that agents may make are not worth finding out who makes them; their
// principal is that of an agent.
func (s *Server) admit(r *http.Request, c *caller, a access) (gate.Principal, error) {
	if c.local && a != looking && r.Header.Get(api.HeaderPrincipal) == "" {
		if a == asking {
			if err := s.ours(c); err != nil {
				return gate.Principal{}, err
			}
		}
		return gate.Principal{Role: gate.RoleAgent}, nil
	}
	p, err := s.principal(r, c)
	if err != nil {
		return gate.Principal{}, err
	}
	if a == looking && (p.Role == gate.RoleAgent || p.Role == "") {
		return gate.Principal{}, &api.Error{
			Code: api.Forbidden, Message: "agents may ask, and do not look at or answer what others asked",
			Hint: "a person has to do this, from a terminal that no agent has started",
		}
	}
	return p, nil
}

// ours refuses processes of other users. The mode of the socket does so too.
func (s *Server) ours(c *caller) error {
	if c.err == nil && c.process.UID != s.uid && c.process.UID != 0 {
		return &api.Error{Code: api.Forbidden, Message: "the daemon belongs to another user", Hint: "run one of your own with regent serve"}
	}
	return nil
}

// principal finds out who makes a call.
func (s *Server) principal(r *http.Request, c *caller) (gate.Principal, error) {
	if !c.local {
		return s.bearer(r)
	}
	if err := s.ours(c); err != nil {
		return gate.Principal{}, err
	}
	as := r.Header.Values(api.HeaderPrincipal)
	if governed, err := s.descends(c); governed || err != nil {
		if len(as) > 0 {
			return gate.Principal{}, &api.Error{Code: api.Forbidden, Message: "an agent speaks for itself only"}
		}
		return gate.Principal{ID: fmt.Sprintf("agent:pid-%d", c.process.PID), Role: gate.RoleAgent}, nil
	}
	switch len(as) {
	case 0:
		return gate.Principal{ID: "user:" + s.login, Role: gate.RoleLocal}, nil
	case 1:
		return s.named(as[0])
	default:
		return gate.Principal{}, &api.Error{Code: api.BadRequest, Message: api.HeaderPrincipal + " is given twice"}
	}
}

// descends tells whether the caller is an agent. An error means that it cannot
// be told.
func (s *Server) descends(c *caller) (bool, error) {
	if c.err != nil {
		return false, c.err
	}
	if c.governed.Load() {
		return true, nil
	}
	return s.agents.Descends(c.process)
}

// configuration is what the home says of principals; nil where it cannot be read.
func (s *Server) configuration() *config.Config {
	if epoch := s.epochs.Home().Standing().Epoch; epoch != nil {
		return epoch.Config
	}
	return nil
}

func (s *Server) named(id string) (gate.Principal, error) {
	c := s.configuration()
	if c == nil {
		return gate.Principal{}, &api.Error{
			Code: api.UnknownPrincipal, Message: "the home's configuration cannot be read, so nobody is known by name",
			Hint: "regent status says what is wrong with it",
		}
	}
	if p, ok := gate.Named(c, id); ok {
		return p, nil
	}
	return gate.Principal{}, &api.Error{
		Code: api.UnknownPrincipal, Message: fmt.Sprintf("the home's configuration has no principal %.100q", id),
		Hint: "principals in its config.yaml lists them",
	}
}

// bearer tells who calls by their token. There is no local administrator among
// them.
func (s *Server) bearer(r *http.Request) (gate.Principal, error) {
	unauthorized := &api.Error{Code: api.Unauthorized, Message: "no valid token", Hint: "regent token create makes one; send it as Authorization: Bearer TOKEN"}
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 || s.tokens == nil {
		return gate.Principal{}, unauthorized
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return gate.Principal{}, unauthorized
	}
	token, ok, err := s.tokens.Authenticate(strings.TrimSpace(text))
	if err != nil {
		s.log.Error("tokens cannot be checked", "error", err)
		return gate.Principal{}, &api.Error{Code: api.Internal, Message: "tokens cannot be checked; the daemon's log says why"}
	}
	if !ok {
		return gate.Principal{}, unauthorized
	}
	if len(r.Header.Values(api.HeaderPrincipal)) > 0 {
		return gate.Principal{}, &api.Error{Code: api.Forbidden, Message: "a token speaks for its own principal only"}
	}
	return s.named(token.Principal)
}

// govern makes the one who asks an agent from here on, or the process that they
// ask for.
func (s *Server) govern(c *caller, agent int) error {
	if agent == 0 {
		if !c.local || c.err != nil || c.governed.Load() {
			return nil // one who cannot be told is an agent as it is
		}
		if len(s.family) > 0 && s.family[0].Is(c.process) {
			return nil // the daemon's own process: what it starts is no agent
		}
		if err := s.add(c.process); err != nil {
			return err
		}
		c.governed.Store(true)
		return nil
	}
	fault := func(format string, args ...any) error {
		return &api.Error{Code: api.AgentPID, Pointer: "/agent_pid", Message: fmt.Sprintf(format, args...), Hint: "name the process of the agent that started the caller or that it has started, or leave it out"}
	}
	if !c.local {
		return fault("processes are known on the socket only")
	}
	if c.err != nil {
		return fault("the calling process cannot be told: %v", c.err)
	}
	ancestors, err := peer.Ancestors(c.process)
	if err != nil {
		return fault("what the calling process descends from cannot be told: %v", err)
	}
	// A harness asks for the agent that it has started itself.
	if child, err := peer.Lookup(agent); err == nil && agent != c.process.PID {
		above, err := peer.Ancestors(child)
		if err != nil {
			return fault("what process %d descends from cannot be told: %v", agent, err)
		}
		if slices.ContainsFunc(above, func(p peer.Process) bool { return p.Is(c.process) }) {
			return s.add(child)
		}
	}
	for _, p := range ancestors {
		if p.PID != agent {
			continue
		}
		// Who started the daemon is no agent of it. Were init one, or the terminal
		// that both come from, no person could answer any more.
		if s.family == nil {
			return fault("the daemon cannot tell what it descends from itself")
		}
		for _, ours := range s.family {
			if ours.Is(p) {
				return fault("the daemon descends from process %d", agent)
			}
		}
		return s.add(p)
	}
	return fault("process %d is no ancestor of the caller, and was not started by it", agent)
}

func (s *Server) add(p peer.Process) error {
	err := s.agents.Add(p)
	switch {
	case err == nil || errors.Is(err, peer.ErrUnknown) || errors.Is(err, peer.ErrUnsupported):
		// One who has ended does nothing any more, and whoever it leaves behind
		// cannot be told.
		return nil
	case errors.Is(err, peer.ErrFull):
		return &api.Error{Code: api.Overloaded, Message: "too many processes are agents", RetryAfter: 5}
	default:
		return err
	}
}

// prover is the name by which a principal's proof is enrolled.
func prover(p gate.Principal) string {
	switch p.Role {
	case gate.RoleLocal:
		return credential.Local
	case gate.RoleAgent:
		return ""
	default:
		return p.ID
	}
}

// prove looks at a proof that came along with a call.
func (s *Server) prove(p *gate.Principal, proof string) error {
	if proof == "" {
		p.Enrolled = s.enrolled(*p)
		return nil
	}
	if s.stepUp == nil {
		return &api.Error{Code: api.NotEnrolled, Message: "no proofs are kept here"}
	}
	err := s.stepUp.Verify(prover(*p), proof)
	switch {
	case err == nil:
		p.Proven, p.Enrolled = true, true
		return nil
	case errors.Is(err, credential.ErrNotEnrolled):
		return &api.Error{Code: api.NotEnrolled, Message: err.Error(), Hint: "regent step-up set enrolls one"}
	case errors.Is(err, credential.ErrWrong), errors.Is(err, credential.ErrReplayed):
		return &api.Error{Code: api.WrongProof, Message: err.Error()}
	}
	if many, ok := errors.AsType[*credential.TooManyError](err); ok {
		return &api.Error{Code: api.TooManyProofs, Message: err.Error(), RetryAfter: seconds(many.Wait)}
	}
	s.log.Error("a proof cannot be checked", "principal", p.ID, "error", err)
	return &api.Error{Code: api.Internal, Message: "the proof cannot be checked; the daemon's log says why"}
}

// enrolled tells whether a principal has a proof; also where that cannot be told.
func (s *Server) enrolled(p gate.Principal) bool {
	if s.stepUp == nil {
		return false
	}
	_, err := s.stepUp.Enrolled(prover(p))
	return !errors.Is(err, credential.ErrNotEnrolled)
}

// administer admits those who may change what calls are ruled by. Where an answer
// that allows needs proof, so does that: it would allow as much, and more.
func (s *Server) administer(p gate.Principal, proof string, loosens bool) error {
	if err := p.MayAdminister(); err != nil {
		return err
	}
	if !loosens {
		return nil
	}
	if err := s.prove(&p, proof); err != nil {
		return err
	}
	needed := p.Enrolled
	if c := s.configuration(); c != nil {
		needed = c.Principals.StepUp
	}
	if needed && !p.Proven {
		return gate.ErrStepUp
	}
	return nil
}
