package approval

import "github.com/regent-policy/regent/gate/permission"

// Effect is one thing that a call does.
type Effect string

// The effects. A call has a set of them.
const (
	EffectRead    Effect = "read"
	EffectWrite   Effect = "write"
	EffectProcess Effect = "process"
	EffectNetwork Effect = "network"
	// EffectUnknown means that something about the call cannot be told. It is
	// never less than any other effect.
	EffectUnknown Effect = "unknown"
)

// Route says who answers a request.
type Route string

// The routes.
const (
	RouteSkip   Route = "skip"
	RouteAllow  Route = "allow"
	RouteDeny   Route = "deny"
	RouteReview Route = "review"
	RouteAsk    Route = "ask"
)

// Ruling is what policy says about a request: who answers, and why.
type Ruling struct {
	Route Route `json:"route" jsonschema:"enum=skip,enum=allow,enum=deny,enum=review,enum=ask"`
	// Effects are sorted; an empty set does not occur.
	Effects []Effect `json:"effects" jsonschema:"enum=read,enum=write,enum=process,enum=network,enum=unknown"`
	// External is true when the call leaves this machine or comes from an MCP
	// server.
	External bool `json:"external"`
	// ReadOnly is true when the call certainly only reads on this machine.
	ReadOnly bool `json:"read_only"`
	// Rules are the rules that fired and are enforced, those that settled the
	// route first. Guards of Regent's own are in the layer builtin.
	Rules []Match `json:"rules"`
	// Observed are the rules in mode warn or shadow that fired.
	Observed []Match `json:"observed,omitempty"`
	// Reasons say in plain words why this route was taken, most decisive first.
	Reasons []string `json:"reasons"`
	// Reviewers are asked, in this order, when the route is review.
	Reviewers []string `json:"reviewers,omitempty"`
	// Authority is that of each reviewer whose word does not decide by itself.
	Authority map[string]Authority `json:"authority,omitempty"`
	// Shadow are reviewers that are asked too, and whose verdicts change nothing:
	// when the route is review, or a review that rules want has become a question
	// to a person.
	Shadow []string `json:"shadow,omitempty"`
	// Ceiling is the most that anyone may grant; nil means no limit by policy.
	Ceiling *permission.Ceiling `json:"ceiling,omitempty"`
	// Context is text for the agent.
	Context []string `json:"context,omitempty"`
	// Deadlines bound the waiting.
	Deadlines Deadlines `json:"deadlines"`
	// Epoch is the fingerprint of the policy that ruled.
	Epoch string `json:"epoch"`
	// Failure is set when policy could not be evaluated and the request was
	// therefore sent to a human.
	Failure *Failure `json:"failure,omitempty"`
	// Granted is true when the route is allow because of what a person or a
	// reviewer granted the turn or the session before.
	Granted bool `json:"granted,omitempty,omitzero"`
	// Verdicts are what reviewers said under this ruling without settling it, in
	// the order in which they were asked. A person is asked then.
	Verdicts []Verdict `json:"verdicts,omitempty"`
}

// Match is a rule that fired.
type Match struct {
	// ID is the rule's own id from its metadata, or package and name.
	ID string `json:"id"`
	// Decision is the rule's name: deny, ask, review, allow or verdict.
	Decision string `json:"decision"`
	Message  string `json:"message"`
	Title    string `json:"title,omitempty"`
	Severity string `json:"severity,omitempty"`
	// Mode is enforce, warn or shadow.
	Mode string `json:"mode"`
	// Layer is builtin, organization, home or workspace.
	Layer   string `json:"layer"`
	Package string `json:"package"`
	// File and Line are where the rule stands.
	File string `json:"file"`
	Line int    `json:"line"`
	// Reviewers, Authority, Shadow and Scope come from rules that name them in an
	// object.
	Reviewers []string             `json:"reviewers,omitempty"`
	Authority map[string]Authority `json:"authority,omitempty"`
	Shadow    []string             `json:"shadow,omitempty"`
	Scope     permission.Scope     `json:"scope,omitempty"`
	// Verdict is what a verdict rule wants: deny, ask or allow.
	Verdict VerdictDecision `json:"verdict,omitempty" jsonschema:"enum=deny,enum=ask,enum=allow"`
}

// Deadlines are in whole seconds from the moment a request is taken in.
type Deadlines struct {
	ReviewSeconds  int `json:"review_seconds"`
	RequestSeconds int `json:"request_seconds"`
}

// Failure says why policy could not rule.
type Failure struct {
	// Kind is load, deadline, evaluation, conflict, undefined or output.
	Kind    string `json:"kind"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty,omitzero"`
	// Rule is the rule that failed, when it is known.
	Rule string `json:"rule,omitempty"`
}
