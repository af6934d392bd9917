package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/reviewer"
)

// The events that hooks are told of.
const (
	HookBefore = "before_request_permissions"
	HookAfter  = "after_request_permissions"
)

// HookInput is what a hook gets on its standard input, as JSON.
type HookInput struct {
	Version   int    `json:"version"`
	Event     string `json:"event"`
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id"`
	CallID    string `json:"call_id"`
	Workspace string `json:"workspace,omitempty"`
	// Arguments are those of the call, as the hooks before this one left them.
	Arguments json.RawMessage `json:"arguments"`
	// Response is what was granted; only after.
	Response *permission.Response `json:"response,omitempty"`
}

// HookOutput is what a hook writes to its standard output, as JSON. One that
// writes nothing has no objection.
type HookOutput struct {
	// Decision is "" or block, which stops the request before and withholds the
	// answer after.
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	// Arguments take the place of those of the call, and can only ask for less;
	// only before.
	Arguments json.RawMessage `json:"arguments"`
}

// passage is what the hooks before a request came to.
type passage struct {
	arguments json.RawMessage
	narrowed  bool
	// blocked says why the request is stopped.
	blocked string
	// unsure says which hooks could not tell: a person is asked.
	unsure    []string
	cancelled error
}

// before runs the hooks that see a request before its environment is looked up.
// One that fails neither stops the request nor lets it pass: a person is asked.
func (s *Sessions) before(c *call, standing *gate.Standing, hooks []config.Hook, text json.RawMessage) passage {
	if len(bytes.TrimSpace(text)) == 0 {
		text = json.RawMessage("{}")
	}
	p := passage{arguments: text}
	for _, h := range hooks {
		in := c.hookInput(HookBefore, standing, p.arguments)
		out, err := s.runHook(c, standing, h, in)
		if c.ctx.Err() != nil {
			p.cancelled = context.Cause(c.ctx)
			return p
		}
		switch {
		case err != nil:
			s.stats.hookFailures.Add(1)
			s.log.Warn("a hook failed, so a person is asked", "hook", nameOf(h), "error", err)
			p.unsure = append(p.unsure, "the hook "+nameOf(h)+" failed")
		case out.Decision == "block":
			p.blocked = reasonOf(h, out.Reason)
			return p
		case len(out.Arguments) > 0:
			p.arguments, p.narrowed = out.Arguments, true
		}
	}
	return p
}

// after runs the hooks that see an answer when the grant is recorded. Whatever
// they say, the grant stays; one that fails withholds the answer.
func (s *Sessions) after(c *call, standing *gate.Standing, hooks []config.Hook, text json.RawMessage, final Final) Final {
	for _, h := range hooks {
		in := c.hookInput(HookAfter, standing, text)
		in.Response = final.Response
		// The call is settled, so nothing cancels it any more.
		out, err := s.runHook(c, standing, h, in)
		why := ""
		switch {
		case err != nil:
			s.stats.hookFailures.Add(1)
			s.log.Warn("a hook failed, so the answer is withheld", "hook", nameOf(h), "error", err)
			why = reasonOf(h, "the hook failed")
		case out.Decision == "block":
			why = reasonOf(h, out.Reason)
		case len(out.Arguments) > 0:
			why = reasonOf(h, "the hook gave arguments, which it cannot")
		default:
			continue
		}
		withheld := wrong(FaultWithheld, "the answer to %s was withheld: %s", ToolName, why)
		withheld.Outcome, withheld.Answer = final.Outcome, final.Answer
		return withheld
	}
	return final
}

func (c *call) hookInput(event string, standing *gate.Standing, text json.RawMessage) HookInput {
	in := HookInput{
		Version: 1, Event: event, SessionID: c.turn.session.spec.ID, TurnID: c.turn.spec.ID, CallID: c.spec.ID, Arguments: text,
	}
	if standing.Epoch != nil {
		in.Workspace = standing.Epoch.Dir
	}
	return in
}

func nameOf(h config.Hook) string {
	if h.Reviewer != "" {
		return h.Reviewer
	}
	return filepath.Base(h.Command[0])
}

func reasonOf(h config.Hook, why string) string {
	if why == "" {
		why = "no reason was given"
	}
	return fmt.Sprintf("%s (%s)", approval.RedactText(why), nameOf(h))
}

// runHook runs one hook.
func (s *Sessions) runHook(c *call, standing *gate.Standing, h config.Hook, in HookInput) (HookOutput, error) {
	ctx := c.ctx
	if h.TimeoutSeconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(h.TimeoutSeconds)*time.Second,
			fmt.Errorf("it took longer than %d s", h.TimeoutSeconds))
		defer cancel()
	}
	select {
	case s.hooking <- struct{}{}:
		defer func() { <-s.hooking }()
	case <-ctx.Done():
		return HookOutput{}, context.Cause(ctx)
	}
	if h.Reviewer != "" {
		return s.reviewHook(ctx, c, standing, h, in)
	}
	text, err := json.Marshal(in)
	if err != nil {
		return HookOutput{}, err
	}
	program := reviewer.Program{Command: h.Command, Env: h.Env, Dir: in.Workspace}
	text, err = program.Run(ctx, text)
	if err != nil {
		return HookOutput{}, err
	}
	var out HookOutput
	if len(bytes.TrimSpace(text)) == 0 {
		return out, nil
	}
	if err := jsonv2.Unmarshal(text, &out, jsonv2.RejectUnknownMembers(true)); err != nil {
		return HookOutput{}, fmt.Errorf("illegal output: %w", err)
	}
	if out.Decision != "" && out.Decision != "block" || out.Decision == "block" && len(out.Arguments) > 0 {
		return HookOutput{}, fmt.Errorf("illegal output: decision %.40q; there is block, without arguments", out.Decision)
	}
	return out, nil
}

// reviewHook has a reviewer take the place of a program: its denial blocks, and
// what is neither denial nor approval is a failure.
func (s *Sessions) reviewHook(ctx context.Context, c *call, standing *gate.Standing, h config.Hook, in HookInput) (HookOutput, error) {
	if standing.Epoch == nil {
		return HookOutput{}, errors.New("no configuration is loaded")
	}
	one, err := s.reviewers(standing.Epoch, h.Reviewer)
	if err != nil {
		return HookOutput{}, err
	}
	r := c.turn.session.request(c.turn.spec.ID, c.spec.ID)
	r.Kind, r.Tool = approval.KindTool, &approval.Tool{Name: ToolName, Arguments: in.Arguments}
	if e := c.turn.environment(nil); e != nil {
		place := e.Environment
		r.Environment = &place
	}
	if in.Response != nil {
		granted := in.Response.Permissions
		r.Permissions = &granted
	}
	masked, _, err := approval.Redact(r)
	if err != nil {
		return HookOutput{}, err
	}
	v := gate.Consult(ctx, one, reviewer.Question{ID: c.spec.ID, Request: masked, Workspace: in.Workspace, Ruling: approval.Ruling{
		Route: approval.RouteReview, Effects: []approval.Effect{approval.EffectUnknown}, Epoch: standing.ID(),
	}})
	switch v.Outcome {
	case approval.VerdictAllow:
		// No verdict rules are asked here, so their default is kept to.
		if v.Risk == approval.RiskHigh && v.Authorization != approval.AuthorizationHigh || v.Risk == approval.RiskCritical {
			return HookOutput{}, fmt.Errorf("reviewer %s: it would allow this at risk %s", h.Reviewer, v.Risk)
		}
		return HookOutput{}, nil
	case approval.VerdictDeny, approval.VerdictCancel:
		return HookOutput{Decision: "block", Reason: v.Rationale}, nil
	default:
		return HookOutput{}, fmt.Errorf("reviewer %s: %s: %s", h.Reviewer, v.Outcome, v.Rationale)
	}
}
