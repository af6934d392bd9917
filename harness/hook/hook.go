// Package hook answers the hooks of harnesses for the daemon: what a harness tells
// its hook becomes a request, and a ruling becomes what the harness understands.
//
// A hook only ever refuses. A harness does not tell its hooks all that it asks
// about elsewhere (Codex leaves out whether a command is to leave the sandbox), so
// that to grant there would be to grant what nobody has seen.
//
// Its package client is the other end: the process that the harness starts.
package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/hook/client"
)

// Gate is what decides: see [gate.Gate].
type Gate interface {
	Ask(ctx context.Context, q gate.Question) (gate.Answer, error)
	Veto(ctx context.Context, q gate.Question, asks bool) (gate.Answer, error)
	Sent(a gate.Answer)
	Unsent(a gate.Answer, cause error)
}

// ErrCall means that a message is no call of a hook that is understood. Whoever
// sent it is told so and refuses.
var ErrCall = errors.New("malformed call of a hook")

// maxWait is the longest that a hook waits: no harness does so longer.
const maxWait = 24 * time.Hour

// Decode reads a call strictly. On error it returns what could be read, for the
// refusal.
func Decode(text []byte) (client.Call, error) {
	var c client.Call
	if err := jsonv2.Unmarshal(text, &c, jsonv2.RejectUnknownMembers(true)); err != nil {
		var head struct {
			Version int            `json:"version"`
			Dialect client.Dialect `json:"dialect"`
		}
		if jsonv2.Unmarshal(text, &head) == nil && head.Version != client.Version {
			return client.Call{Version: head.Version, Dialect: head.Dialect}, mismatched(head.Version)
		}
		return client.Call{}, fmt.Errorf("%w: %w", ErrCall, err)
	}
	switch {
	case c.Version != client.Version:
		return c, mismatched(c.Version)
	case !slices.Contains(client.Dialects, c.Dialect):
		return c, fmt.Errorf("%w: no harness %.64q is known", ErrCall, string(c.Dialect))
	case !slices.Contains(client.OnAsks, string(c.OnAsk)):
		return c, fmt.Errorf("%w: on_ask %.64q", ErrCall, string(c.OnAsk))
	case c.AgentPID < 0 || c.WaitMS <= 0 || c.WaitMS > maxWait.Milliseconds():
		return c, fmt.Errorf("%w: agent_pid %d, wait_ms %d", ErrCall, c.AgentPID, c.WaitMS)
	}
	return c, nil
}

func mismatched(version int) error {
	return fmt.Errorf("%w: the hook speaks version %d and the daemon %d: both have to be of one release of Regent", ErrCall, version, client.Version)
}

// Refuse is the answer to a call for want of one, and says why.
func Refuse(c client.Call, why error) client.Answer {
	event, err := c.Dialect.Event(c.Payload)
	if err != nil {
		event = ""
	}
	return c.Dialect.Refuse(event, why.Error())
}

// Rule answers a call, within the time that it gives. Once the answer has been
// written, or could not be, told is called with the error of that. It never fails:
// what is not understood and what could not be decided is refused.
func Rule(ctx context.Context, g Gate, c client.Call) (answer client.Answer, told func(error)) {
	told = func(error) {}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(c.WaitMS)*time.Millisecond, errors.New("nobody answered before the hook had to"))
	defer cancel()
	n, err := read(c)
	if err != nil {
		return Refuse(c, err), told
	}
	ruled, err := n.rule(ctx, g, c)
	switch {
	case err != nil:
		return c.Dialect.Refuse(n.event, err.Error()), told
	case ruled.Record != nil:
		told = func(err error) {
			if err != nil {
				g.Unsent(ruled, err)
				return
			}
			g.Sent(ruled)
		}
	}
	switch ruled.Outcome {
	case approval.OutcomeAllow:
		return c.Dialect.Silent(), told
	case "":
		// Only a veto has none, and then nobody objects.
		if c.OnAsk == client.Pass || ruled.Ruling.Route == approval.RouteSkip || ruled.Ruling.Route == approval.RouteAllow {
			return c.Dialect.Silent(), told
		}
		return c.Dialect.Refuse(n.event, "nobody has decided this"), told
	default:
		return c.Dialect.Deny(n.event, reason(&ruled)), told
	}
}

// notice is what a harness says about one call of its agent.
type notice struct {
	event string
	// request is the call.
	request *approval.Request
	// others are what it could be besides. Whatever refuses one of them refuses the
	// call.
	others []*approval.Request
}

func read(c client.Call) (notice, error) {
	switch c.Dialect {
	case client.Codex:
		return codexNotice(c.Payload)
	default:
		return notice{}, fmt.Errorf("%w: no harness %.64q is known", ErrCall, string(c.Dialect))
	}
}

// rule has a call ruled on, and each that it could be.
func (n *notice) rule(ctx context.Context, g Gate, c client.Call) (gate.Answer, error) {
	question := func(r *approval.Request) gate.Question {
		return gate.Question{Request: r, Folder: c.Cwd, Within: time.Duration(c.WaitMS) * time.Millisecond}
	}
	for _, other := range n.others {
		answer, err := g.Veto(ctx, question(other), c.OnAsk != client.Pass && c.OnAsk != client.Wait)
		if err != nil || answer.Outcome != "" {
			return answer, err
		}
	}
	if c.OnAsk == client.Wait {
		return g.Ask(ctx, question(n.request))
	}
	return g.Veto(ctx, question(n.request), c.OnAsk != client.Pass)
}

// reason is why a call is refused, for the model: the words of every rule that
// refuses, or of whoever did.
func reason(a *gate.Answer) string {
	var words []string
	add := func(text string) {
		if text != "" && !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	// Where rules have decided, the first of them is the answer's reason.
	add(a.Reason)
	if a.Ruling.Route == approval.RouteDeny {
		for _, m := range a.Ruling.Rules {
			if m.Decision == string(approval.RouteDeny) {
				add(m.Message)
			}
		}
	}
	if len(words) == 0 && a.Record != nil && a.Record.Decision != nil && a.Record.Decision.Source == approval.SourceHuman {
		add("a person refused this")
	}
	return strings.Join(words, "; ")
}

var _ Gate = (*gate.Gate)(nil)
