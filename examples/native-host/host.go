package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// errCancelled means that somebody answered a call with cancel: they want the
// agent to stop, not to try something else.
var errCancelled = errors.New("the run was cancelled")

// closing is how long the end of a run may take.
const closing = 5 * time.Second

// environment is the id of the one place where this agent runs things. Grants
// hold in the environment that they were asked for, and in no other.
const environment = "scratch"

// toolCall is a call as the model makes it.
type toolCall struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// host is one run of an agent.
type host struct {
	daemon *client.Client
	// instance names this process to the daemon. It is new for each start and known
	// to nobody else: whoever knows it may act as this host.
	instance string
	session  string
	// workspace is the folder of the rules, "" to have the daemon find it.
	workspace string
	readOnly  bool
	tools     toolbox
	out       io.Writer
}

// run opens a session, plays all turns of the model, and closes what it opened,
// however it ends.
func (h *host) run(ctx context.Context, model script) (err error) {
	_, err = h.daemon.OpenSession(ctx, h.session, api.SessionSpec{
		Instance: h.instance, Run: h.session, Workspace: h.workspace, Folder: h.tools.scratch, Version: "1",
		Subject: &approval.Subject{ID: "agent:native-host"},
	})
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	h.say("session %s works in %s", h.session, h.tools.scratch)

	// The daemon forgets a host of which it hears nothing for 30 s. Should it have
	// forgotten this one, then whatever is on its way must end.
	ctx, lose := context.WithCancelCause(ctx)
	beaten := make(chan struct{})
	go func() {
		defer close(beaten)
		lose(h.daemon.KeepAlive(ctx, h.instance))
	}()
	defer func() {
		lose(nil)
		<-beaten
		// Also after Ctrl-C: the end cancels what waits, and takes back all grants.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		if e := h.daemon.EndSession(ending, h.session, h.instance); e != nil {
			err = errors.Join(err, fmt.Errorf("end the session: %w", e))
		}
		if e := h.daemon.End(ending, h.instance); e != nil {
			err = errors.Join(err, fmt.Errorf("end the instance: %w", e))
		}
	}()

	for i, turn := range model.Turns {
		id := fmt.Sprintf("turn-%d", i+1)
		h.say("\n%s: %s", id, cut(turn.Says, 500))
		if err := h.turn(ctx, id, turn.Calls); err != nil {
			return err
		}
	}
	return nil
}

// turn opens a turn, makes its calls, and ends it. What was granted for the turn
// is gone then.
func (h *host) turn(ctx context.Context, id string, calls []toolCall) error {
	_, err := h.daemon.OpenTurn(ctx, h.session, id, api.TurnSpec{
		Instance: h.instance, Environments: []api.Environment{{ID: environment, Cwd: h.tools.scratch, Home: h.tools.scratch}},
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", id, err)
	}
	// A real host gives these to the model, beside the tools of its own.
	offered, err := h.daemon.Tools(ctx, h.session, id, h.instance)
	if err != nil {
		return fmt.Errorf("tools of %s: %w", id, err)
	}
	for i, c := range calls {
		h.say("  %s %s", cut(c.Tool, 80), cut(string(c.Arguments), 120))
		callID := fmt.Sprintf("%s-call-%d", id, i+1)
		result, err := h.call(ctx, id, callID, offered, c)
		if err != nil {
			return fmt.Errorf("%s: %w", callID, err)
		}
		// A real host gives this to the model, as the result of that very call.
		h.say("    %s", strings.ReplaceAll(cut(strings.TrimRight(result, "\n"), 2000), "\n", "\n    "))
	}
	_, err = h.daemon.EndTurn(ctx, h.session, id, h.instance)
	return err
}

// call puts one call to the daemon, obeys the answer, and returns the result for
// the model. An error ends the run, and means that the call did not run.
func (h *host) call(ctx context.Context, turn, id string, offered []api.Tool, c toolCall) (string, error) {
	a := action{spec: api.CallSpec{Kind: approval.KindTool, Tool: &approval.Tool{Name: c.Tool, Arguments: c.Arguments}}}
	asks := c.Tool == api.ToolName && slices.ContainsFunc(offered, func(t api.Tool) bool { return t.Name == c.Tool })
	switch {
	case asks && len(c.Arguments) > 0 && !jsontext.Value(c.Arguments).IsValid():
		return "the arguments are no JSON, or have a field twice", nil
	case !asks:
		var err error
		if a, err = h.tools.prepare(c); err != nil {
			return err.Error(), nil // the model's mistake, and nobody has to be asked about it
		}
	}
	a.spec.Instance = h.instance
	if h.readOnly && a.changes {
		refused := false
		a.spec.HostAllows = &refused // told rather than hidden, so that it is on record
	}

	// This waits as long as it takes. If ctx ends, the connection closes, and the
	// daemon takes that for what it is: the call is cancelled.
	answer, err := h.daemon.Call(ctx, h.session, turn, id, a.spec)
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.Code.Status() == api.MalformedRequest.Status() {
		return "the call cannot be made like this: " + refused.Message, nil
	}
	if err != nil {
		return "", err // no answer is not permission
	}
	h.say("    %s", told(answer))
	switch {
	case answer.Outcome == approval.OutcomeCancel:
		h.over(ctx, answer, "the run ends")
		return "", fmt.Errorf("%w: %s", errCancelled, answer.Message)
	case answer.Outcome != approval.OutcomeAllow || asks:
		// A refusal is a result like any other: the model may try something else. What
		// request_permissions comes to is for the model too; nothing runs on it.
		h.over(ctx, answer, "the model was told")
		return answer.Output, nil
	}
	if answer.Record != "" {
		if err := h.fence(ctx, answer, &a); err != nil {
			refused, ok := errors.AsType[*api.Error](err)
			if !ok {
				return "", err
			}
			return "it was not started: " + refused.Message, nil
		}
	}
	may := permission.Profile{}
	if answer.Effective != nil {
		may = answer.Effective.Permissions // what turn and session were granted, and this call
	}
	if answer.Record != "" {
		// This very action was allowed, so it may go where it says it goes. A skip has no
		// record: it says that nobody needs to be asked, not that this host shows the
		// model every file of the disk.
		may = permission.Merge(may, a.names)
	}
	result, err := a.run(ctx, may)
	if err != nil {
		result = strings.TrimLeft(strings.TrimRight(result, "\n")+"\n"+err.Error(), "\n")
	}
	h.over(ctx, answer, "it was run")
	return result, nil
}

// fence uses up the approval, right before its action starts. The digest is that
// of the action in the host's hands, not the one that came with the answer: so a
// host that has mixed up two calls finds out here.
func (h *host) fence(ctx context.Context, answer api.Call, a *action) error {
	digest, err := approval.Digest(&approval.Request{
		Kind: a.spec.Kind, Tool: a.spec.Tool, Command: a.spec.Command,
		Environment: &approval.Environment{ID: environment, Cwd: h.tools.scratch},
	})
	if err != nil {
		return err
	}
	_, err = h.daemon.Fence(ctx, answer.Record, api.Fence{Run: h.session, Instance: h.instance, Digest: digest})
	return err
}

// over says that the matter of a record is closed. It changes nothing about what
// was run, so that a failure is told and no more.
func (h *host) over(ctx context.Context, answer api.Call, why string) {
	if answer.Record == "" {
		return // nobody had to be asked, so that there is no record
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing) // it was run, also if Ctrl-C came meanwhile
	defer cancel()
	if _, err := h.daemon.Mark(ctx, answer.Record, api.Mark{Instance: h.instance, Mark: api.MarkResolved, Reason: why}); err != nil {
		h.say("    the record %s stays open: %v", answer.Record, err)
	}
}

// told is an answer for people: the route that the call took, what became of it,
// and why.
func told(answer api.Call) string {
	route := approval.Route("no route")
	if answer.Ruling != nil {
		route = answer.Ruling.Route
	}
	return fmt.Sprintf("[%s: %s] %s", route, answer.Outcome, cut(answer.Message, 500))
}

func (h *host) say(format string, args ...any) { fmt.Fprintf(h.out, format+"\n", args...) }

// cut keeps text short, and a terminal safe from what is in it.
func cut(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
