// Package api is what Regent's daemon and its clients say to each other: the
// bodies of requests and answers over HTTP, and what an error looks like.
//
// All bodies are JSON in UTF-8. Bodies of requests are read strictly: a field
// that is not known, and one that is given twice, is an error. Bodies of answers
// gain fields in later versions, so readers pass over what they do not know.
package api

import (
	"encoding/json"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// HeaderPrincipal lets the local administrator speak as one of the principals
// of the home's configuration, with no more than that one's rights.
const HeaderPrincipal = "Regent-Principal"

// Bounds of one call.
const (
	// MaxEnvelopeBytes is what the body of a call may hold besides a request; see
	// approval.MaxRequestBytes for that.
	MaxEnvelopeBytes = 64 << 10
	// MaxWait is how long one poll waits for an answer at most, in seconds.
	MaxWait = 60
)

// Question is the body of POST /v1/requests and POST /v1/check.
type Question struct {
	Request *approval.Request `json:"request"`
	// Workspace is the folder to rule by, absolute. Where it is empty, the nearest
	// workspace above the call's cwd is found.
	Workspace string `json:"workspace,omitempty"`
	// Folder is where the caller is, absolute, for a request that does not say
	// where it runs.
	Folder string `json:"folder,omitempty"`
	// AgentPID is the process of the agent on whose behalf the caller asks: an
	// ancestor of a hook, or what a harness has started. It and whatever it starts
	// counts as an agent from then on, and the caller does not. Where it is 0 that
	// is the caller itself, unless it only checks.
	AgentPID int `json:"agent_pid,omitempty,omitzero"`
	// Notes are what whoever looks at the question has to know besides, such as
	// what of the harness's message was not understood: [MaxNotes] at most.
	Notes []string `json:"notes,omitempty"`
}

// Bounds of the notes of a question, in notes and in bytes of each.
const (
	MaxNotes     = 8
	MaxNoteBytes = 1 << 10
)

// Answer is what became of a question. Only the outcome allow is permission.
type Answer struct {
	// Outcome is empty while nobody has answered.
	Outcome approval.Outcome `json:"outcome,omitempty"`
	// Option is what to send to the harness, verbatim as it offered it.
	Option json.RawMessage `json:"option,omitempty"`
	// Reason says in words why, where there is more to say than the ruling does.
	Reason string `json:"reason,omitempty"`
	// Source and By say who has decided, where it was recorded: see
	// approval.Decision.
	Source approval.Source `json:"source,omitempty"`
	By     string          `json:"by,omitempty"`
	// Settlement is what was granted, where permissions were asked for.
	Settlement *permission.Settlement `json:"settlement,omitempty"`
	Ruling     approval.Ruling        `json:"ruling"`
	// ID names the record that the ledger holds. It and what follows are missing
	// where nobody had to be asked, because nothing was recorded then.
	ID       string         `json:"id,omitempty"`
	Revision int64          `json:"revision,omitempty,omitzero"`
	State    approval.State `json:"state,omitempty"`
	// Instance is whose record it is. A question that named no instance and was
	// not waited for has been given one.
	Instance string    `json:"instance,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Digest names the exact action, for the fence.
	Digest string `json:"digest,omitempty"`
}

// Decision is the body of POST /v1/approvals/{id}/decision.
type Decision struct {
	// Option is one of the record's options, verbatim.
	Option json.RawMessage `json:"option"`
	Reason string          `json:"reason,omitempty"`
	// Grant narrows what an answer that allows grants. Without it all that was
	// asked for is granted, for the turn.
	Grant *permission.Response `json:"grant,omitempty"`
	// Proof is the passphrase or the code of the one who answers, where an answer
	// needs it.
	Proof string `json:"proof,omitempty"`
}

// Reason is the body of POST /v1/approvals/{id}/cancel and /reconcile.
type Reason struct {
	Reason string `json:"reason,omitempty"`
}

// Withdrawal is the body of POST /v1/approvals/{id}/withdraw.
type Withdrawal struct {
	// Instance is the one that asked.
	Instance string `json:"instance"`
	Reason   string `json:"reason,omitempty"`
}

// Fence is the body of POST /v1/approvals/{id}/fence: the action that is about
// to start on the strength of a record. To be let start uses the record up.
type Fence struct {
	Run      string `json:"run,omitempty"`
	Instance string `json:"instance"`
	Digest   string `json:"digest"`
}

// Mark is the body of POST /v1/approvals/{id}/mark.
type Mark struct {
	Instance string `json:"instance"`
	// Mark is how far the answer has come on its way to the harness.
	Mark   string `json:"mark" jsonschema:"enum=sent,enum=resolved"`
	Reason string `json:"reason,omitempty"`
}

// The marks.
const (
	MarkSent     = "sent"
	MarkResolved = "resolved"
)

// Progress is a record as the host that asked it sees it.
type Progress struct {
	ID       string         `json:"id"`
	Revision int64          `json:"revision"`
	State    approval.State `json:"state"`
	// Outcome is that of the decision, where there is one.
	Outcome approval.Outcome `json:"outcome,omitempty"`
}

// Lease is the answer to PUT /v1/instances/{name}.
type Lease struct {
	// Until is when the instance counts as gone unless it is heard of again.
	Until time.Time `json:"until"`
}

// Notice is something that people who run a home should hear of. It holds
// nothing of any request.
type Notice struct {
	// Seq numbers the notices of one daemon from 1. It is 0 for one that says how a
	// workspace stood when the stream began.
	Seq int64     `json:"seq"`
	At  time.Time `json:"at"`
	// Kind is epoch, fault, held, loosened, ledger, watch or answer.
	Kind      string `json:"kind"`
	Workspace string `json:"workspace,omitempty"`
	Epoch     string `json:"epoch,omitempty"`
	Message   string `json:"message"`
}

// The names of the events on GET /v1/events.
const (
	// EventOpen is the first: its id is where the stream begins.
	EventOpen = "open"
	// EventApproval carries an approval.Event, with its number for an id.
	EventApproval = "approval"
	// EventNotice carries a Notice. It has no id, and is not sent again.
	EventNotice = "notice"
	// EventError carries a Failure, and is the last.
	EventError = "error"
)

// Open is the data of the first event of a stream.
type Open struct {
	// After is the number of the last event that the stream passes over.
	After int64 `json:"after"`
}

// Workspaces is the answer to GET /v1/workspaces.
type Workspaces struct {
	// Workspaces are those that are loaded, the home (dir "") first.
	Workspaces []Workspace `json:"workspaces"`
	// Trusted are those that may do more than tighten, loaded or not.
	Trusted []Trusted `json:"trusted"`
	// TrustFault says why none is trusted, where the list of them cannot be read.
	TrustFault string `json:"trust_fault,omitempty"`
}

// Workspace is how one workspace stands.
type Workspace struct {
	// Dir is "" for the home itself.
	Dir     string `json:"dir"`
	Trusted bool   `json:"trusted"`
	// State is current, stale (the last good rules are in force), held or
	// unconfirmed (a change that loosens waits), or asking (no rules at all).
	State string `json:"state"`
	// Why explains any other state than current.
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Epoch string    `json:"epoch"`
	// Held is the epoch that waits for confirmation.
	Held     string   `json:"held,omitempty"`
	Loosened []string `json:"loosened,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Refused is what an untrusted workspace asks for and does not get.
	Refused []string `json:"refused,omitempty"`
	Rules   int      `json:"rules"`
	Waiting int64    `json:"waiting"`
}

// Trusted is a workspace that may do more than tighten.
type Trusted struct {
	Dir string `json:"dir"`
	// By is the principal who said so, and At when.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// Trust is the body of POST /v1/workspaces/trust and /untrust.
type Trust struct {
	// Dir is the workspace, or the project that holds it; absolute.
	Dir string `json:"dir"`
	// Proof is as in Decision; to untrust needs none.
	Proof string `json:"proof,omitempty"`
}

// Confirmation is the body of POST /v1/workspaces/confirm.
type Confirmation struct {
	// Dir is the workspace, "" for the home.
	Dir string `json:"dir,omitempty"`
	// Epoch is the fingerprint of what was looked at.
	Epoch string `json:"epoch"`
	// Proof is as in Decision.
	Proof string `json:"proof,omitempty"`
}

// Epoch is the answer to GET /v1/epochs/{id}: a set of rules that is loaded.
type Epoch struct {
	ID string `json:"id"`
	// Workspace is the folder that it rules, "" for the home.
	Workspace string `json:"workspace"`
	Trusted   bool   `json:"trusted"`
	// Held means that it waits for confirmation and is not in force.
	Held bool `json:"held"`
	// Configuration are the files of configuration, and Files those of rules and
	// data.
	Configuration []string `json:"configuration"`
	Files         []File   `json:"files"`
	Rules         []Rule   `json:"rules"`
}

// File is a file that rules or data were read from.
type File struct {
	Name  string `json:"name"`
	Layer string `json:"layer"`
	// Kind is policy, test, data or ignored.
	Kind string `json:"kind"`
	// Reason says why an ignored file is ignored.
	Reason string `json:"reason,omitempty"`
}

// Rule is a rule of an epoch.
type Rule struct {
	ID string `json:"id"`
	// Decision is deny, ask, review, allow, ceiling or context.
	Decision string `json:"decision"`
	Title    string `json:"title,omitempty"`
	Severity string `json:"severity,omitempty"`
	// Mode is enforce, warn or shadow.
	Mode    string `json:"mode"`
	Layer   string `json:"layer"`
	Package string `json:"package"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	// Ignored says why the rule counts for nothing, when it does not.
	Ignored string `json:"ignored,omitempty"`
}

// Status is the answer to GET /v1/status. An agent sees only who it is taken
// for, and that the daemon is there.
type Status struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Principal is who the daemon takes the caller for.
	Principal Principal `json:"principal"`

	PID    int    `json:"pid,omitempty,omitzero"`
	Home   string `json:"home,omitempty"`
	Socket string `json:"socket,omitempty"`
	// Addresses are those that the daemon listens on besides the socket.
	Addresses  []string    `json:"addresses,omitempty"`
	Workspaces []Workspace `json:"workspaces,omitempty"`
	// Waiting is how many requests wait for an answer.
	Waiting int `json:"waiting"`
	// Instances is how many hosts have requests, and Agents how many processes
	// count as agents.
	Instances int `json:"instances"`
	Agents    int `json:"agents"`
	// Sessions and Turns are how many are open.
	Sessions int     `json:"sessions"`
	Turns    int     `json:"turns"`
	Ledger   *Ledger `json:"ledger,omitempty"`
	// Degraded says why changes of files may be seen late.
	Degraded string `json:"degraded,omitempty"`
	// Warnings are what somebody should look at.
	Warnings []string `json:"warnings,omitempty"`
	// Notifiers are those who are told of requests, in the order of their names.
	Notifiers []Notifier `json:"notifiers,omitempty"`
	// Plugins are those that run or should, in the order of their names.
	Plugins []Plugin `json:"plugins,omitempty"`
}

// Plugin is how the program of a plugin does.
type Plugin struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
	// SHA256 is the digest of the program, and Pinned whether the configuration
	// says it.
	SHA256 string `json:"sha256,omitempty"`
	Pinned bool   `json:"pinned"`
	// State is starting, running, waiting (for the next start after it broke),
	// disabled (it broke too often), draining (it answers what it was asked and
	// ends) or ended.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	PID   int       `json:"pid,omitempty,omitzero"`
	// Version is the plugin's own.
	Version string `json:"version,omitempty"`
	// Breaker is closed (it is asked), open (it is not) or half_open (one call
	// tries).
	Breaker  string `json:"breaker"`
	Calls    int    `json:"calls"`
	Restarts int    `json:"restarts"`
	// Fault is what last went wrong, and FaultAt when.
	Fault   string    `json:"fault,omitempty"`
	FaultAt time.Time `json:"fault_at,omitzero"`
}

// Notifier is how one who is told of requests stands. Its counts are since the
// daemon began.
type Notifier struct {
	Name string `json:"name"`
	// Kind is webhook, desktop, command or plugin.
	Kind string `json:"kind"`
	// State is idle (told nothing yet), ok, failing (the last was not heard), or
	// unavailable (there is nothing to tell it with).
	State string `json:"state"`
	// Sent is what was heard, Failed what was not, and Dropped what was not tried:
	// too much waited, or it was too late.
	Sent    int64 `json:"sent"`
	Failed  int64 `json:"failed"`
	Dropped int64 `json:"dropped"`
	// Queued is what waits to be told.
	Queued int `json:"queued"`
	// Fault is why something was last not heard, and FaultAt when.
	Fault   string    `json:"fault,omitempty"`
	FaultAt time.Time `json:"fault_at,omitzero"`
}

// Principal is who a caller is.
type Principal struct {
	ID string `json:"id"`
	// Role is local, owner, member, observer or agent.
	Role string `json:"role"`
	// Prover is the name by which a proof of this principal is enrolled; empty for
	// an agent, who can have none.
	Prover string `json:"prover,omitempty"`
}

// Ledger is how the store of approvals stands.
type Ledger struct {
	// Head is the number of the last event.
	Head int64 `json:"head"`
	// Hash is that of the last event. Kept elsewhere, it shows later whether what
	// came before was changed.
	Hash string `json:"hash,omitempty"`
	// Bytes is the size of its files, 0 where that is not known.
	Bytes int64 `json:"bytes,omitempty,omitzero"`
	// Queued is how many changes wait to be written.
	Queued int `json:"queued"`
	// Failing is true while it cannot be kept.
	Failing bool `json:"failing"`
	// Fault is why a change could last not be made, and FaultAt when.
	Fault   string    `json:"fault,omitempty"`
	FaultAt time.Time `json:"fault_at,omitzero"`
}

// Health is the answer to GET /v1/health.
type Health struct {
	OK bool `json:"ok"`
	// Reasons say in general words what is wrong.
	Reasons []string `json:"reasons,omitempty"`
}

// Failure is the body of every answer that is an error.
type Failure struct {
	Error *Error `json:"error"`
}
