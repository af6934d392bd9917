package approval

import (
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/permission"
)

// VerdictOutcome is what a reviewer comes to. Only allow and deny are answers;
// each of the others has a person asked.
type VerdictOutcome string

// The outcomes of a verdict.
const (
	VerdictAllow VerdictOutcome = "allow"
	VerdictDeny  VerdictOutcome = "deny"
	// VerdictCancel denies and ends the turn.
	VerdictCancel VerdictOutcome = "cancel"
	// VerdictUnsure is of a reviewer that cannot tell.
	VerdictUnsure VerdictOutcome = "unsure"
	// VerdictTimeout is of one that was not done in time.
	VerdictTimeout VerdictOutcome = "timeout"
	// VerdictError is of one that is missing, broke, or gave no usable answer.
	VerdictError VerdictOutcome = "error"
)

// Risk is how much harm a reviewer sees in an action.
type Risk string

// The risks.
const (
	RiskLow      Risk = "low"
	RiskMedium   Risk = "medium"
	RiskHigh     Risk = "high"
	RiskCritical Risk = "critical"
)

// Authorization is how far a reviewer finds that the user wanted the action.
type Authorization string

// The authorizations.
const (
	AuthorizationUnknown Authorization = "unknown"
	AuthorizationLow     Authorization = "low"
	AuthorizationMedium  Authorization = "medium"
	AuthorizationHigh    Authorization = "high"
)

// Authority is what the word of a reviewer can bring about. Whatever it is, a
// verdict that is not allow keeps the others from allowing.
type Authority string

// The authorities.
const (
	// AuthorityDecides is that of a reviewer that may allow and deny; "" is the
	// same.
	AuthorityDecides Authority = "decides"
	// AuthorityDenyOnly is that of one that may deny, and whose allow is none by
	// itself.
	AuthorityDenyOnly Authority = "deny_only"
	// AuthorityAdvises is that of one that neither allows nor denies: what it says
	// is shown to the person who does.
	AuthorityAdvises Authority = "advises"
)

// Verdict is what one reviewer said of a request. It proposes; what becomes of
// it is decided by the gate.
type Verdict struct {
	// Reviewer is the name of the reviewer in the configuration.
	Reviewer string         `json:"reviewer"`
	Outcome  VerdictOutcome `json:"outcome" jsonschema:"enum=allow,enum=deny,enum=cancel,enum=unsure,enum=timeout,enum=error"`
	// Scope is how long an outcome that allows is meant to last; "" is the
	// shortest that the request knows.
	Scope         permission.Scope `json:"scope,omitempty"`
	Risk          Risk             `json:"risk_level,omitempty"`
	Authorization Authorization    `json:"user_authorization,omitempty"`
	// Rationale says why, in the words of the reviewer or, for a timeout and an
	// error, of Regent. It is not trusted.
	Rationale string `json:"rationale,omitempty"`
	// Usage is what the verdict took, where the reviewer tells.
	Usage *Usage `json:"usage,omitempty"`
	// DurationMS is how long the reviewer took, in milliseconds.
	DurationMS int64 `json:"duration_ms,omitempty,omitzero"`
	// Members are the verdicts of the members of a chain that were asked, in the
	// order of asking, where the verdict is that of a chain. Its usage is the sum
	// of theirs.
	Members []Verdict `json:"members,omitempty"`
	// Authority is the one that the rules gave the reviewer; "" is decides.
	Authority Authority `json:"authority,omitempty" jsonschema:"enum=decides,enum=deny_only,enum=advises"`
	// Shadow is true for a reviewer that was asked beside the others, and whose
	// verdict changed nothing.
	Shadow bool `json:"shadow,omitempty,omitzero"`
}

// Refuses says whether the verdict is a refusal.
func (v Verdict) Refuses() bool { return v.Outcome == VerdictDeny || v.Outcome == VerdictCancel }

// Final says whether the verdict is a refusal that nothing lifts: one of a
// reviewer that may deny. An authority that is not known may.
func (v Verdict) Final() bool {
	return v.Refuses() && !v.Shadow && v.Authority != AuthorityAdvises
}

// VerdictDecision is what verdicts come to. Only allow is permission.
type VerdictDecision string

// The decisions.
const (
	VerdictsAllow  VerdictDecision = "allow"
	VerdictsDeny   VerdictDecision = "deny"
	VerdictsCancel VerdictDecision = "cancel"
	// VerdictsAsk leaves the decision to a person.
	VerdictsAsk VerdictDecision = "ask"
)

// VerdictRuling is what policy makes of the verdicts on one request.
type VerdictRuling struct {
	Decision VerdictDecision `json:"decision" jsonschema:"enum=allow,enum=deny,enum=cancel,enum=ask"`
	// By is the reviewer whose verdict settled it; "" where a rule did, or nothing.
	By string `json:"by,omitempty"`
	// Rule is the id of the rule that settled it; "" where a reviewer did, or
	// nothing.
	Rule string `json:"rule,omitempty"`
	// Reasons say in plain words why, most decisive first.
	Reasons []string `json:"reasons"`
	// Rules are the verdict rules that fired and are enforced, the strictest first.
	Rules []Match `json:"rules"`
	// Observed are the verdict rules in mode warn or shadow that fired.
	Observed []Match `json:"observed,omitempty"`
	// Failure is set when policy could not judge the verdicts.
	Failure *Failure `json:"failure,omitempty"`
}

// Usage is what a model took for a verdict.
type Usage struct {
	// Model is the model that answered, as its provider names it.
	Model        string `json:"model,omitempty"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	// CostUSD is an estimate by the prices of the configuration, in US dollars; 0
	// where it names none.
	CostUSD float64 `json:"cost_usd,omitempty,omitzero"`
}

// ParseReviewDecision reads a review decision of the Codex protocol (0.156.1 to
// 0.171.0) for a request of some kind: approved, approved_for_session, denied,
// abort, timed_out as words, approved_execpolicy_amendment,
// network_policy_amendment and approved_mcp_amendment as objects with the one
// member of that name. An amendment is never carried out: what is approved along
// with one is approved as if it were not there.
//
// What a request for permissions is told by timed_out, abort and an amendment
// about MCP tools is a refusal, which is final; for any other kind a reviewer
// that timed out leaves the question open. Anything else is an [ErrInvalid].
func ParseReviewDecision(text json.RawMessage, kind Kind) (Verdict, error) {
	var word string
	var object map[string]jsontext.Value
	if jsonv2.Unmarshal(text, &word) != nil {
		if err := jsonv2.Unmarshal(text, &object); err != nil || len(object) != 1 {
			return Verdict{}, fmt.Errorf("%w: no review decision: %.100s", ErrInvalid, RedactText(string(text)))
		}
		for word = range object {
		}
	}
	permissions := kind == KindPermissions
	brief := permission.Once
	if permissions {
		brief = permission.Turn
	}
	amendment := object[word]
	if object != nil && amendment.Kind() != '{' {
		return Verdict{}, fmt.Errorf("%w: no review decision: %.100s", ErrInvalid, RedactText(string(text)))
	}
	switch {
	case word == "approved" && object == nil:
		return Verdict{Outcome: VerdictAllow, Scope: brief}, nil
	case word == "approved_for_session" && object == nil:
		return Verdict{Outcome: VerdictAllow, Scope: permission.Session}, nil
	case word == "denied" && object == nil:
		return Verdict{Outcome: VerdictDeny}, nil
	case word == "abort" && object == nil:
		if permissions {
			return Verdict{Outcome: VerdictDeny}, nil
		}
		return Verdict{Outcome: VerdictCancel}, nil
	case word == "timed_out" && object == nil:
		if permissions {
			return Verdict{Outcome: VerdictDeny, Rationale: "the reviewer's own review timed out"}, nil
		}
		return Verdict{Outcome: VerdictTimeout, Rationale: "the reviewer's own review timed out"}, nil
	case word == "approved_execpolicy_amendment" && object != nil:
		return Verdict{Outcome: VerdictAllow, Scope: brief}, nil
	case word == "approved_mcp_amendment" && object != nil:
		if permissions {
			return Verdict{Outcome: VerdictDeny}, nil
		}
		return Verdict{Outcome: VerdictAllow, Scope: brief}, nil
	case word == "network_policy_amendment" && object != nil:
		var body struct {
			Amendment struct {
				Action string `json:"action"`
			} `json:"network_policy_amendment"`
		}
		if err := jsonv2.Unmarshal(amendment, &body); err == nil {
			switch body.Amendment.Action {
			case "allow":
				return Verdict{Outcome: VerdictAllow, Scope: brief}, nil
			case "deny":
				return Verdict{Outcome: VerdictDeny}, nil
			}
		}
	}
	return Verdict{}, fmt.Errorf("%w: no review decision: %.100s", ErrInvalid, RedactText(string(text)))
}
