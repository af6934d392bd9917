package api

import (
	"encoding/json"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// MaxIDBytes is how long the id of a session, a turn or a call may be. It is
// printable text.
const MaxIDBytes = 256

// SessionSpec is the body of PUT /v1/sessions/{session}: what a host says of a
// session.
type SessionSpec struct {
	// Instance is the process of the host. The session lives no longer than its
	// lease, and belongs to whoever knows its name.
	Instance string `json:"instance"`
	// Run is the host's name for the execution that the session belongs to; the
	// session's id if empty.
	Run string `json:"run,omitempty"`
	// Workspace and Folder are as in Question.
	Workspace string `json:"workspace,omitempty"`
	Folder    string `json:"folder,omitempty"`
	// Version is that of the host.
	Version string `json:"version,omitempty"`
	// Members are the people who take part in the session, as principals, and
	// Subject who acts in it and for whom.
	Members []string          `json:"members,omitempty"`
	Subject *approval.Subject `json:"subject,omitempty"`
	// AgentPID is as in Question.
	AgentPID int `json:"agent_pid,omitempty,omitzero"`
}

// Session is a session that is open.
type Session struct {
	ID        string            `json:"session_id"`
	Instance  string            `json:"instance"`
	Run       string            `json:"run"`
	Workspace string            `json:"workspace,omitempty"`
	Folder    string            `json:"folder,omitempty"`
	Version   string            `json:"version,omitempty"`
	Members   []string          `json:"members,omitempty"`
	Subject   *approval.Subject `json:"subject,omitempty"`
	Started   time.Time         `json:"started"`
	// Turns are those that are open and the last that were, as they were opened.
	Turns []Turn `json:"turns"`
	// Epoch is the fingerprint of the rules that the last call was ruled by; it is
	// missing before the first. Changes is how often it was another one than for
	// the call before.
	Epoch   string `json:"epoch,omitempty"`
	Changes int    `json:"changes"`
	// Pending are the requests for permissions that wait for a response.
	Pending []PermissionsEvent `json:"pending"`
}

// Sessions is the answer to GET /v1/sessions, by their ids.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

// Environment is a place where the calls of a turn run.
type Environment struct {
	ID  string `json:"id"`
	Cwd string `json:"cwd"`
	// Native says that Cwd is a path of this machine; true where it is missing.
	Native *bool `json:"native,omitempty" jsonschema:"default=true"`
	// Home is the home folder there: ~ means it and nothing else.
	Home   string `json:"home,omitempty"`
	TmpDir string `json:"tmp_dir,omitempty"`
	// ProjectRoots are the folders that the agent works on; Cwd when empty.
	ProjectRoots []string `json:"project_roots,omitempty"`
}

// TurnSpec is the body of PUT /v1/sessions/{session}/turns/{turn}.
type TurnSpec struct {
	Instance     string        `json:"instance"`
	Environments []Environment `json:"environments,omitempty"`
	// Primary is the id of the environment of calls that name none; the first if
	// empty.
	Primary string `json:"primary,omitempty"`
}

// Turn is a turn of a session.
type Turn struct {
	ID string `json:"turn_id"`
	// State is open, or says how the turn was ended: by its host, or because
	// somebody stopped it.
	State string `json:"state" jsonschema:"enum=open,enum=ended,enum=interrupted"`
	// Why is why it is over.
	Why string `json:"why,omitempty"`
	// Strict has every call of the turn reviewed.
	Strict       bool          `json:"strict_auto_review"`
	Environments []Environment `json:"environments"`
	Primary      string        `json:"primary,omitempty"`
	Started      time.Time     `json:"started"`
}

// The states of a turn.
const (
	TurnOpen        = "open"
	TurnEnded       = "ended"
	TurnInterrupted = "interrupted"
)

// Tools is the answer to GET /v1/sessions/{session}/turns/{turn}/tools.
type Tools struct {
	// Tools are what to offer to the model besides the host's own; there are none
	// where agents may not ask for permissions, or the turn has no environment.
	Tools []Tool `json:"tools"`
}

// Tool is a tool as hosts hand it to a model.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON Schema.
	Parameters json.RawMessage `json:"parameters"`
}

// ToolName is the tool by which an agent asks for permissions.
const ToolName = "request_permissions"

// The ways to run, of CallSpec and Effective.
const (
	SandboxDefault   = "use_default"
	SandboxMore      = "with_additional_permissions"
	SandboxEscalated = "require_escalated"
)

// CallSpec is the body of PUT /v1/sessions/{session}/turns/{turn}/calls/{call}:
// a call that an agent makes. What it consists of is as in a request.
type CallSpec struct {
	Instance string `json:"instance"`
	// Kind follows from the part that is there if it is empty. It is never
	// permissions: those are asked for by a call of the tool request_permissions.
	Kind      approval.Kind     `json:"kind,omitempty" jsonschema:"enum=tool,enum=command,enum=file_change,enum=network,enum=mcp"`
	Tool      *approval.Tool    `json:"tool,omitempty"`
	Command   *approval.Command `json:"command,omitempty"`
	Changes   []approval.Change `json:"changes,omitempty"`
	Network   *approval.Network `json:"network,omitempty"`
	GrantRoot string            `json:"grant_root,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	// HostAllows is the host's own access list: false is final.
	HostAllows *bool `json:"host_allows,omitempty"`
	// HumanOnly says that only a person may answer.
	HumanOnly bool `json:"human_only,omitempty,omitzero"`
	// EnvironmentID is the environment to run in, the primary one if it is missing.
	EnvironmentID *string `json:"environment_id,omitempty"`
	// Sandbox is how the call asks to run; use_default if it is empty.
	Sandbox string `json:"sandbox_permissions,omitempty" jsonschema:"enum=use_default,enum=with_additional_permissions,enum=require_escalated"`
	// Additional are the permissions that with_additional_permissions asks for.
	Additional *permission.Profile `json:"additional_permissions,omitempty"`
}

// Call is what became of a call. Only the outcome allow lets it start; of
// request_permissions it says no more than that there is an answer.
type Call struct {
	Session string `json:"session_id"`
	Turn    string `json:"turn_id"`
	ID      string `json:"call_id"`
	// Outcome is empty while there is no answer. After cancel the turn is over.
	Outcome approval.Outcome `json:"outcome,omitempty"`
	// Output is the result for the model, of every call that may not run and of
	// request_permissions. Fault says what kind of error it is, where it is one.
	Output string `json:"output,omitempty"`
	Fault  string `json:"fault,omitempty" jsonschema:"enum=unavailable,enum=arguments,enum=no_environment,enum=unknown_environment,enum=foreign_cwd,enum=path,enum=empty,enum=blocked,enum=withheld,enum=refused,enum=cancelled"`
	// Message says why, for people.
	Message string `json:"message,omitempty"`
	// Response is what request_permissions was answered with.
	Response *permission.Response `json:"response,omitempty"`
	// Effective is what a call that may run may use.
	Effective *Effective `json:"effective,omitempty"`
	// Option, Settlement and what follows up to Digest are as in Answer. They are
	// missing where nobody was asked.
	Option     json.RawMessage        `json:"option,omitempty"`
	Settlement *permission.Settlement `json:"settlement,omitempty"`
	Ruling     *approval.Ruling       `json:"ruling,omitempty"`
	Record     string                 `json:"id,omitempty"`
	Revision   int64                  `json:"revision,omitempty,omitzero"`
	State      approval.State         `json:"state,omitempty"`
	Deadline   time.Time              `json:"deadline,omitzero"`
	Digest     string                 `json:"digest,omitempty"`
	// Event is there while a request for permissions waits for a response.
	Event *PermissionsEvent `json:"event,omitempty"`
}

// The faults of a call, by what the model did or met with.
const (
	FaultUnavailable   = "unavailable"
	FaultArguments     = "arguments"
	FaultNoEnvironment = "no_environment"
	FaultEnvironment   = "unknown_environment"
	FaultForeign       = "foreign_cwd"
	FaultPath          = "path"
	FaultEmpty         = "empty"
	FaultBlocked       = "blocked"
	FaultWithheld      = "withheld"
	FaultRefused       = "refused"
	FaultCancelled     = "cancelled"
)

// Effective is what a call that may run may use.
type Effective struct {
	// Sandbox is with_additional_permissions where there are permissions, however
	// the call asked.
	Sandbox     string             `json:"sandbox_permissions" jsonschema:"enum=use_default,enum=with_additional_permissions,enum=require_escalated"`
	Permissions permission.Profile `json:"additional_permissions"`
	// Preapproved says that turn and session hold all of it.
	Preapproved bool `json:"permissions_preapproved"`
	// Grants are the ids of the grants that took part.
	Grants []string `json:"grants,omitempty"`
}

// PermissionsEvent is a request for permissions that waits for a response, as a
// client shows it. Secrets in it are masked.
type PermissionsEvent struct {
	CallID        string `json:"call_id"`
	TurnID        string `json:"turn_id"`
	EnvironmentID string `json:"environment_id"`
	StartedAtMS   int64  `json:"started_at_ms"`
	// Reason is what the agent says it needs this for. It is never trusted.
	Reason string `json:"reason,omitempty"`
	// Permissions are normalised, and Cwd is the folder of the environment.
	Permissions permission.Profile `json:"permissions"`
	Cwd         string             `json:"cwd"`
	// Record is the approval that waits, at Revision.
	Record   string `json:"record_id"`
	Revision int64  `json:"revision"`
}

// Response is the body of POST /v1/sessions/{session}/calls/{call}/response.
type Response struct {
	// Permissions are what is granted. Without any the request is refused. What
	// goes beyond the request or the ceiling is dropped.
	Permissions permission.Profile `json:"permissions,omitzero"`
	// Scope is turn if it is empty.
	Scope permission.Scope `json:"scope,omitempty"`
	// StrictAutoReview has every later call of the turn reviewed. It goes with the
	// scope turn only.
	StrictAutoReview bool   `json:"strict_auto_review,omitempty,omitzero"`
	Reason           string `json:"reason,omitempty"`
	// Proof is as in Decision. To refuse needs none.
	Proof string `json:"proof,omitempty"`
}

// Grants is the answer to GET /v1/grants: what sessions hold beyond their
// configuration.
type Grants struct {
	// Grants are permissions, the oldest first, and Accepted actions that need no
	// further answer.
	Grants   []permission.Grant `json:"grants"`
	Accepted []Accepted         `json:"accepted"`
}

// Accepted is an action that a person accepted for the rest of a session.
type Accepted struct {
	ID            string `json:"id"`
	Session       string `json:"session_id"`
	Turn          string `json:"turn_id"`
	Call          string `json:"call_id"`
	EnvironmentID string `json:"environment_id"`
	// Record is the approval in which that stands, and By who gave it.
	Record string    `json:"record_id"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Epoch is the set of rules under which it counts.
	Epoch string `json:"epoch"`
}
