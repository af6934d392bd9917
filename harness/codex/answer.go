package codex

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// Answer puts an answer in the words of the protocol: see [harness.Codec].
func (c *Codec) Answer(key string, a gate.Answer) [][]byte {
	q := c.open[key]
	if q == nil {
		return nil
	}
	c.close(key)
	c.answered.put(key, struct{}{})
	var out [][]byte
	if a.Outcome == approval.OutcomeCancel && q.Method == permissionsApproval && q.turn.turn != "" {
		// A question for permissions has no answer that cancels. The interrupt comes
		// first: the empty grant behind it does no more than let go of the question,
		// should the turn be past interrupting.
		if m, err := call(c.ownID(), turnInterrupt, turnParams(q.turn)); err == nil {
			out = append(out, m)
		}
	}
	out = append(out, response(q.ID, result(q.Question, a)))
	if why := c.why(q, a); why != "" {
		if m, err := call(c.ownID(), turnSteer, steer(q.turn, why)); err == nil {
			out = append(out, m)
		}
	}
	return out
}

func response(id ID, result jsontext.Value) []byte {
	return slices.Concat([]byte(`{"id":`), []byte(id), []byte(`,"result":`), result, []byte(`}`))
}

// result is the answer to a question; three shapes for five methods.
func result(q *Question, a gate.Answer) jsontext.Value {
	switch q.Method {
	case permissionsApproval:
		return grant(a)
	case elicitation:
		return action(q.Request, a)
	default:
		return decision(q, a)
	}
}

// decision answers a command or a file change.
func decision(q *Question, a gate.Answer) jsontext.Value {
	option := a.Option
	if !fits(q.Request.Options, option, a.Outcome) {
		outcome := a.Outcome
		if outcome != approval.OutcomeAllow && outcome != approval.OutcomeCancel {
			outcome = approval.OutcomeDeny
		}
		words := q.Request.Options
		if len(words) == 0 { // the request was not understood
			words = fileOptions
			if !strings.HasPrefix(q.Method, "item/") {
				words = legacyOptions
			}
		}
		option = decline
		if i := approval.Choice(words, outcome); i >= 0 {
			option = words[i]
		}
	}
	return jsontext.Value(`{"decision":` + string(option) + `}`)
}

// fits tells whether an option is one that was offered and says what the outcome
// does.
func fits(offered []json.RawMessage, option json.RawMessage, outcome approval.Outcome) bool {
	if len(option) == 0 || !slices.ContainsFunc(offered, func(o json.RawMessage) bool { return string(o) == string(option) }) {
		return false
	}
	m, _ := approval.OptionMeaning(option)
	// To cancel is the refusal of a question that offers no other.
	return m.Outcome == outcome || m.Outcome != approval.OutcomeAllow && outcome != approval.OutcomeAllow
}

// grant answers a question for permissions: with what was settled, or nothing.
func grant(a gate.Answer) jsontext.Value {
	nothing := jsontext.Value(`{"permissions":{},"scope":"turn"}`)
	s := a.Settlement
	if a.Outcome != approval.OutcomeAllow || s == nil {
		if s != nil && s.StrictAutoReview {
			return jsontext.Value(`{"permissions":{},"scope":"turn","strictAutoReview":true}`)
		}
		return nothing
	}
	wire, err := wireProfile(s.Permissions)
	if err != nil {
		return nothing
	}
	out := struct {
		Permissions jsontext.Value   `json:"permissions"`
		Scope       permission.Scope `json:"scope"`
		Strict      bool             `json:"strictAutoReview,omitzero"`
	}{wire, permission.Turn, s.StrictAutoReview}
	if s.Scope == permission.Session && !s.StrictAutoReview {
		out.Scope = permission.Session
	}
	text, err := jsonv2.Marshal(out)
	if err != nil {
		return nothing
	}
	return text
}

// wireProfile is a profile in the protocol's spelling. The protocol has no hosts:
// a network that is limited to some is none there.
func wireProfile(p permission.Profile) (jsontext.Value, error) {
	own, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var members struct {
		FileSystem jsontext.Value `json:"file_system"`
	}
	if err := jsonv2.Unmarshal(own, &members); err != nil {
		return nil, err
	}
	out := struct {
		Network    jsontext.Value `json:"network,omitzero"`
		FileSystem jsontext.Value `json:"fileSystem,omitzero"`
	}{FileSystem: members.FileSystem}
	if p.Network.All {
		out.Network = jsontext.Value(`{"enabled":true}`)
	}
	return jsonv2.Marshal(out)
}

// action answers a question about a call of an MCP tool.
func action(r *approval.Request, a gate.Answer) jsontext.Value {
	switch a.Outcome {
	case approval.OutcomeAllow:
		m, known := approval.OptionMeaning(a.Option)
		if known && m.Scope == permission.Session && !m.Lasting && fits(r.Options, a.Option, a.Outcome) {
			return jsontext.Value(`{"action":"accept","content":{},"_meta":{"persist":"session"}}`)
		}
		return jsontext.Value(`{"action":"accept","content":{}}`)
	case approval.OutcomeCancel:
		return jsontext.Value(`{"action":"cancel"}`)
	default:
		return jsontext.Value(`{"action":"decline"}`)
	}
}

// declined is the answer to what only a user could have answered.
func declined(q *Question) []byte {
	switch q.Method {
	case elicitation:
		return response(q.ID, jsontext.Value(`{"action":"decline"}`))
	case userInput:
		return response(q.ID, jsontext.Value(`{"answers":{}}`))
	case toolCallRequest:
		return response(q.ID, jsontext.Value(`{"success":false,"contentItems":[{"type":"inputText","text":"no client offers this tool"}]}`))
	default:
		return refusal([]byte(q.ID), "no user is here who could answer "+q.Method)
	}
}

// maxWhy is how much of a reason the agent is told, in characters.
const maxWhy = 500

// why is what the agent is told about a refusal after which its turn goes on;
// empty for nothing. What a reviewer wrote is not passed on: it is made of what
// the agent said itself, and would come back with the weight of a user's words.
func (c *Codec) why(q *question, a gate.Answer) string {
	if c.options.Silent || a.Outcome != approval.OutcomeDeny || q.turn.turn == "" || !strings.HasPrefix(q.Method, "item/") && q.Method != elicitation {
		return ""
	}
	if m, known := approval.OptionMeaning(a.Option); known && m.Outcome == approval.OutcomeCancel && q.Method != elicitation {
		return "" // the turn does not go on
	}
	text := "Regent denied this"
	reason := ""
	switch d := recorded(a); {
	case d == nil:
		reason = a.Reason
		if reason == "" && len(a.Ruling.Reasons) > 0 {
			reason = a.Ruling.Reasons[0]
		}
	case d.Source == approval.SourceReviewer:
		text = "A reviewer denied this"
	case d.Source == approval.SourceHuman:
		text, reason = "A person denied this", d.Reason
	default:
		text, reason = "Policy denied this", d.Reason
		if d.By != "" && d.By != "regent" {
			text += " (" + d.By + ")"
		}
	}
	text = "[regent] " + text + ": " + what(q.Request)
	if reason = approval.FirstCharacters(approval.Printable(reason), maxWhy); reason != "" {
		text += ". " + strings.TrimRight(reason, ".")
	}
	return text + ". Choose another way, or say what you need."
}

// recorded is the decision behind an answer; nil where there is none.
func recorded(a gate.Answer) *approval.Decision {
	if a.Record == nil {
		return nil
	}
	return a.Record.Decision
}

// what names a request in a few words.
func what(r *approval.Request) string {
	const most = 120
	text := string(r.Kind)
	switch {
	case r.Command != nil:
		text = r.Command.Line()
	case r.Network != nil:
		text = "the network access to " + r.Network.Host
	case r.Tool != nil && r.Tool.Server != "":
		text = "the tool " + r.Tool.Name + " of " + r.Tool.Server
	case r.Tool != nil:
		text = "the tool " + r.Tool.Name
	case r.Kind == approval.KindFileChange && len(r.Changes) > 0:
		text = "the change of " + r.Changes[0].Path
		if n := len(r.Changes) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
	case r.Kind == approval.KindPermissions:
		text = "more permissions"
	}
	return approval.FirstCharacters(approval.Printable(text), most)
}

func steer(turn turnKey, text string) jsontext.Value {
	raw, err := jsonv2.Marshal(struct {
		ThreadID string `json:"threadId"`
		Turn     string `json:"expectedTurnId"`
		Input    []any  `json:"input"`
	}{turn.thread, turn.turn, []any{map[string]string{"type": "text", "text": text}}}, jsonv2.Deterministic(true))
	if err != nil {
		return jsontext.Value(`{}`)
	}
	return raw
}

// turnParams name a turn.
func turnParams(turn turnKey) jsontext.Value {
	return jsontext.Value(object(map[string]any{"threadId": turn.thread, "turnId": turn.turn}))
}

// chosen reads the answer of the client's own user to a question.
func chosen(q *Question, f frame) (gate.Reply, error) {
	if !null(f.Error) {
		return gate.Reply{}, errors.New("it is an error")
	}
	const byUser = "answered in the Codex client"
	switch q.Method {
	case permissionsApproval:
		var r struct {
			Permissions jsontext.Value   `json:"permissions"`
			Scope       permission.Scope `json:"scope"`
			Strict      bool             `json:"strictAutoReview"`
		}
		if err := jsonv2.Unmarshal(f.Result, &r); err != nil {
			return gate.Reply{}, err
		}
		granted, err := profile(r.Permissions)
		if err != nil {
			return gate.Reply{}, err
		}
		if granted == nil || granted.IsEmpty() {
			return gate.Reply{Option: json.RawMessage(`"deny"`), Reason: byUser}, nil
		}
		return gate.Reply{
			Option: json.RawMessage(`"allow"`), Reason: byUser,
			Grant: &permission.Response{Permissions: *granted, Scope: r.Scope, StrictAutoReview: r.Strict},
		}, nil
	case elicitation:
		var r struct {
			Action string `json:"action"`
			Meta   struct {
				Persist string `json:"persist"`
			} `json:"_meta"`
		}
		if err := jsonv2.Unmarshal(f.Result, &r); err != nil {
			return gate.Reply{}, err
		}
		option := json.RawMessage(nil)
		switch r.Action {
		case "accept":
			option = accept
			if r.Meta.Persist == "session" {
				option = acceptForSession
			} else if r.Meta.Persist != "" {
				return gate.Reply{}, fmt.Errorf("to persist %q is not on offer", r.Meta.Persist)
			}
		case "decline":
			option = decline
		case "cancel":
			option = cancel
		default:
			return gate.Reply{}, fmt.Errorf("no action %q", r.Action)
		}
		return gate.Reply{Option: option, Reason: byUser}, nil
	default:
		var r struct {
			Decision jsontext.Value `json:"decision"`
		}
		if err := jsonv2.Unmarshal(f.Result, &r); err != nil {
			return gate.Reply{}, err
		}
		if null(r.Decision) {
			return gate.Reply{}, errors.New("it has no decision")
		}
		return gate.Reply{Option: json.RawMessage(r.Decision), Reason: byUser}, nil
	}
}
