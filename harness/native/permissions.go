package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

// ToolName is the tool by which an agent asks for more permissions.
const ToolName = "request_permissions"

// Tool is a tool that Regent offers to the agent of a turn, as hosts hand it to
// the model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

const description = `Ask for more permissions than commands have here: access to files and folders, or to the network. ` +
	`Ask for the least that the task needs, and say why. The result tells what was granted, which may be less than what was asked for or nothing; ` +
	`it holds for later calls in the same environment.`

// Tools are the tools that Regent offers to the agent of a turn: none, or
// request_permissions. It is offered where the configuration has it switched on
// and the turn has an environment.
func (s *Sessions) Tools(ctx context.Context, id, instance, turn string) ([]Tool, error) {
	one, err := s.alive(ctx, id, instance)
	if err != nil {
		return nil, err
	}
	t, err := one.turn(turn)
	if err != nil {
		return nil, err
	}
	return s.tools(ctx, t), nil
}

func (s *Sessions) tools(ctx context.Context, t *turn) []Tool {
	if len(t.spec.Environments) == 0 || !settingsOf(s.standing(ctx, t, t.environment(nil))).Enabled {
		return nil
	}
	parameters, err := json.Marshal(map[string]any{
		"type": "object",
		"properties": map[string]any{
			"reason": map[string]string{
				"type": "string", "description": "Why the permissions are needed, in a short sentence.",
			},
			"environment_id": map[string]any{
				"type": "string", "enum": t.environments(),
				"description": "The environment that they are needed in. Leave it out for the primary one, " + t.spec.Primary + ".",
			},
			"permissions": profileSchema(),
		},
		"required":             []string{"permissions"},
		"additionalProperties": false,
	})
	if err != nil {
		s.log.Error("describe "+ToolName, "error", err)
		return nil
	}
	return []Tool{{Name: ToolName, Description: description, Parameters: parameters}}
}

// profileSchema is the schema of a profile without what only a document of its
// own has.
func profileSchema() map[string]any {
	var schema map[string]any
	if err := json.Unmarshal(permission.Schema(), &schema); err != nil {
		return map[string]any{"type": "object"}
	}
	delete(schema, "$schema")
	delete(schema, "title")
	return schema
}

func (t *turn) environments() []string {
	ids := make([]string, len(t.spec.Environments))
	for i := range t.spec.Environments {
		ids[i] = t.spec.Environments[i].ID
	}
	return ids
}

// standing is what calls of a turn are ruled by now in an environment; nil is
// none.
func (s *Sessions) standing(ctx context.Context, t *turn, e *Environment) *gate.Standing {
	r := t.session.request(t.spec.ID, "")
	if e != nil {
		place := e.Environment
		r.Environment = &place
	}
	spec := t.session.spec
	return s.workspaces.Of(ctx, gate.Question{Request: r, Workspace: spec.Workspace, Folder: spec.Folder}).Standing()
}

// settingsOf are what a standing says of request_permissions. What rules say that
// wait for a confirmation counts as far as it is stricter than those in force.
func settingsOf(standing *gate.Standing) config.RequestPermissions {
	if standing.Epoch == nil {
		return config.Default("").RequestPermissions
	}
	out := standing.Epoch.Config.RequestPermissions
	if standing.Held != nil {
		held := standing.Held.Config.RequestPermissions
		out.Enabled = out.Enabled && held.Enabled
		out.Before, out.After = all(out.Before, held.Before), all(out.After, held.After)
	}
	return out
}

// all are the hooks of both lists, each once.
func all(hooks, more []config.Hook) []config.Hook {
	hooks = slices.Clone(hooks)
	for _, h := range more {
		if !slices.ContainsFunc(hooks, func(o config.Hook) bool { return reflect.DeepEqual(o, h) }) {
			hooks = append(hooks, h)
		}
	}
	return hooks
}

// refusedByPolicy tells whether requests for permissions are refused without
// asking anybody. Of rules that wait for a confirmation and those in force the
// stricter count.
func refusedByPolicy(standing *gate.Standing) bool {
	for _, epoch := range []*gate.Epoch{standing.Epoch, standing.Held} {
		if epoch == nil {
			continue
		}
		p := epoch.Config.ApprovalPolicy
		if p.Name == config.ApprovalNever || p.Granular != nil && !p.Granular.RequestPermissions {
			return true
		}
	}
	return false
}

// arguments are those of request_permissions.
type arguments struct {
	Reason      string             `json:"reason"`
	Permissions permission.Profile `json:"permissions"`
}

// environmentOf reads which environment a call names, and nothing else: paths
// can be read only once it is known.
func environmentOf(text json.RawMessage) (*string, *Final) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = json.RawMessage("{}")
	}
	var named struct {
		ID    *string `json:"environment_id"`
		Alias *string `json:"environmentId"`
	}
	if err := jsonv2.Unmarshal(text, &named); err != nil {
		return nil, argumentFault(err)
	}
	if named.ID != nil && named.Alias != nil {
		final := wrong(FaultArguments, "%s arguments: environment_id and environmentId are one field; give it once", ToolName)
		return nil, &final
	}
	if named.ID == nil {
		return named.Alias, nil
	}
	return named.ID, nil
}

// read reads all arguments.
func read(text json.RawMessage) (arguments, *Final) {
	var a struct {
		ID    *string `json:"environment_id"`
		Alias *string `json:"environmentId"`

		Reason      string          `json:"reason"`
		Permissions json.RawMessage `json:"permissions"`
	}
	if err := jsonv2.Unmarshal(text, &a, jsonv2.RejectUnknownMembers(true)); err != nil {
		return arguments{}, argumentFault(err)
	}
	out := arguments{Reason: a.Reason}
	if len(a.Permissions) == 0 {
		final := wrong(FaultArguments, "%s arguments: permissions are missing", ToolName)
		return arguments{}, &final
	}
	if err := out.Permissions.UnmarshalJSON(a.Permissions); err != nil {
		final := wrong(FaultArguments, "%s arguments: %v", ToolName, err)
		return arguments{}, &final
	}
	return out, nil
}

// argumentFault tells the model what is wrong with its arguments, and where.
func argumentFault(err error) *Final {
	what, where := err.Error(), ""
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		what, where = "they are not valid JSON", string(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			what = "the field is given twice"
		}
	} else if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		where = string(semantic.JSONPointer)
		what = "a value of this type does not fit here"
		if errors.Is(err, jsonv2.ErrUnknownName) {
			what = "unknown field; there are reason, environment_id and permissions"
		}
	}
	if where != "" {
		what = strings.TrimPrefix(where, "/") + ": " + what
	}
	final := wrong(FaultArguments, "%s arguments: %s", ToolName, what)
	return &final
}

// unknown is the answer to a call that names an environment which the turn does
// not have.
func (t *turn) unknown(what, id string) Final {
	has := "it has none"
	if ids := t.environments(); len(ids) > 0 {
		has = "it has " + strings.Join(ids, ", ")
	}
	return wrong(FaultEnvironment, "%s names the environment %q, which the turn does not have; %s", what, id, has)
}

// place reads a profile in an environment.
func place(what string, asked permission.Profile, e *Environment) (permission.Request, *Final) {
	request, err := permission.NewRequest(asked, rego.Environment(e.Environment), nil)
	var final Final
	switch {
	case err == nil:
		return request, nil
	case errors.Is(err, permission.ErrEmpty):
		final = wrong(FaultEmpty, "%s requires at least one permission", what)
	default:
		final = wrong(FaultPath, "%s: %v", what, err)
	}
	return permission.Request{}, &final
}

// choose finds the environment of a request, and refuses one whose folder is not
// of this machine.
func (t *turn) choose(text json.RawMessage) (*Environment, *Final) {
	id, final := environmentOf(text)
	if final != nil {
		return nil, final
	}
	e := t.environment(id)
	switch {
	case e == nil && id != nil:
		f := t.unknown(ToolName, *id)
		return nil, &f
	case e == nil:
		f := wrong(FaultNoEnvironment, "%s requires a primary environment", ToolName)
		return nil, &f
	}
	if f := e.elsewhere(ToolName); f != nil {
		return nil, f
	}
	return e, nil
}

// elsewhere refuses an environment whose folder is not of this machine: no path
// of it can be placed here.
func (e *Environment) elsewhere(what string) *Final {
	_, err := rego.Environment(e.Environment).Resolve(".", nil)
	if err == nil && !e.Foreign {
		return nil
	}
	f := wrong(FaultForeign, "%s cwd `%s` is not native to the host", what, e.Cwd)
	if !e.Foreign && !errors.Is(err, permission.ErrForeign) {
		f = wrong(FaultForeign, "%s cwd `%s` is not native to the host: %v", what, e.Cwd, err)
	}
	return &f
}

// requested is what a call of request_permissions asks for, once it is clear
// where.
type requested struct {
	environment *Environment
	request     permission.Request
	reason      string
}

// asks reads the arguments of a call: environment first, then its folder, then
// the paths, then whether anything is asked for at all.
func (t *turn) asks(text json.RawMessage) (requested, *Final) {
	e, final := t.choose(text)
	if final != nil {
		return requested{}, final
	}
	a, final := read(text)
	if final != nil {
		return requested{}, final
	}
	request, final := place(ToolName, a.Permissions, e)
	if final != nil {
		return requested{}, final
	}
	return requested{environment: e, request: request, reason: a.Reason}, nil
}

// requestPermissions is the life of a call of request_permissions.
func (s *Sessions) requestPermissions(c *call) Final {
	t := c.turn
	text := c.spec.Tool.Arguments
	// The rules and hooks are those of the folder that is asked about, which can be
	// of another workspace than the primary one. What is wrong with the arguments is
	// said later.
	e := t.environment(nil)
	if id, _ := environmentOf(text); id != nil {
		if named := t.environment(id); named != nil {
			e = named
		}
	}
	standing := s.standing(c.ctx, t, e)
	settings := settingsOf(standing)
	if !settings.Enabled {
		return wrong(FaultUnavailable, "there is no tool %s here", ToolName)
	}
	passed := s.before(c, standing, settings.Before, text)
	switch {
	case passed.cancelled != nil:
		return c.gone(passed.cancelled)
	case passed.blocked != "":
		return wrong(FaultBlocked, "%s was blocked: %s", ToolName, passed.blocked)
	}
	asked, fault := t.asks(passed.arguments)
	if fault == nil && passed.narrowed {
		asked, fault = t.narrow(&passed, asked, text)
	}
	if fault != nil {
		return *fault
	}
	if refusedByPolicy(standing) {
		// Nobody is asked and nothing is recorded: that is what the setting says.
		s.stats.refused.Add(1)
		t.session.ruled(standing.ID())
		return answered(permission.Response{Scope: permission.Turn}, nil)
	}
	r := t.session.request(t.spec.ID, c.spec.ID)
	environment := asked.environment.Environment
	r.Kind, r.Environment, r.Reason = approval.KindPermissions, &environment, asked.reason
	r.Permissions, r.HostAllows = &asked.request.Permissions, c.spec.HostAllows
	r.HumanOnly = c.spec.HumanOnly || len(passed.unsure) > 0
	event := &Event{
		CallID: c.spec.ID, TurnID: t.spec.ID, EnvironmentID: environment.ID, StartedAtMS: c.started.UnixMilli(),
		Reason: asked.reason, Permissions: asked.request.Permissions, Cwd: environment.Cwd,
	}
	q := c.question(r, &view{sessions: s, turn: t, environment: environment.ID})
	if len(passed.unsure) > 0 {
		q.Notes = []string{"only a person may answer: " + strings.Join(passed.unsure, ", ")}
	}
	answer, err := s.ask(c, q, event)
	if err != nil {
		return c.broken(err)
	}
	t.session.ruled(answer.Ruling.Epoch)
	if answer.Outcome == approval.OutcomeCancel {
		if cause := c.settle(nil); cause != nil {
			s.void(answer, cause)
			return c.gone(cause)
		}
		f := c.gone(errors.New(said(answer)))
		f.Fault, f.Answer = FaultRefused, answer // the turn is interrupted by it
		return f
	}
	var unrecorded error
	if cause := c.settle(func() { unrecorded = s.record(c, environment.ID, answer) }); cause != nil {
		s.void(answer, cause)
		return c.gone(cause)
	}
	if g := answer.Settlement; unrecorded != nil && g != nil && g.StrictAutoReview {
		// Whoever wanted every call reviewed must not have them run as before.
		s.void(answer, unrecorded)
		f := c.gone(fmt.Errorf("the turn cannot be put under strict review: %w", unrecorded))
		f.Fault = FaultRefused
		return f
	}
	final := answered(responseOf(answer), answer)
	if unrecorded != nil {
		final = answered(permission.Response{Scope: permission.Turn}, answer)
		final.Message = "nothing was granted: " + unrecorded.Error()
	}
	return s.after(c, standing, settings.After, passed.arguments, final)
}

// responseOf is what an answer grants. A refusal grants nothing.
func responseOf(a *gate.Answer) permission.Response {
	if a.Settlement == nil {
		return permission.Response{Scope: permission.Turn}
	}
	return permission.Response{
		Permissions: a.Settlement.Permissions, Scope: a.Settlement.Scope, StrictAutoReview: a.Settlement.StrictAutoReview,
	}
}

// answered is the final answer that hands a response to the model. One that
// grants nothing is no error.
func answered(response permission.Response, answer *gate.Answer) Final {
	text, err := json.Marshal(response)
	if err != nil {
		return wrong(FaultRefused, "the response has no JSON form: %v", err)
	}
	final := Final{Outcome: approval.OutcomeAllow, Output: string(text), Response: &response, Answer: answer}
	if answer != nil {
		final.Message = said(answer)
	}
	return final
}

// record puts what an answer grants into the book. An error means that nothing
// was granted.
func (s *Sessions) record(c *call, environment string, a *gate.Answer) error {
	g := a.Settlement
	if g == nil || g.Scope == permission.Once && !c.spec.isRequest() {
		return nil // it is for this very call
	}
	grant := permission.Grant{
		Session: c.turn.session.spec.ID, Turn: c.turn.spec.ID, Call: c.spec.ID, Environment: environment,
		Scope: g.Scope, Permissions: g.Permissions, Strict: g.StrictAutoReview, At: s.now(),
	}
	if a.Record != nil {
		grant.Record = a.Record.ID
		if d := a.Record.Decision; d != nil {
			grant.By = d.By
		}
	}
	_, err := s.book.Record(grant)
	if err != nil {
		s.log.Warn("a grant was not recorded", "session", grant.Session, "call", grant.Call, "error", err)
	}
	return err
}

// narrow makes what a hook left of the arguments no more than what the agent
// asked for. A hook that names another environment is not understood.
func (t *turn) narrow(passed *passage, left requested, original json.RawMessage) (requested, *Final) {
	whole, final := t.asks(original)
	if final != nil {
		return requested{}, final
	}
	if whole.environment != left.environment {
		passed.unsure = append(passed.unsure, "a hook named another environment")
		passed.arguments = original
		return whole, nil
	}
	left.request.Permissions = permission.Intersect(whole.request.Permissions, left.request.Permissions)
	left.reason = whole.reason
	if !left.request.Permissions.Grants() {
		f := wrong(FaultBlocked, "%s was blocked: a hook left nothing of what was asked for", ToolName)
		return requested{}, &f
	}
	return left, nil
}
