// Package config reads config.yaml, the one file in which a home or a
// workspace says who answers, where the rules are and what else takes part.
//
// A file is decoded strictly: an unknown key, a key written twice, a wrong
// type, a value out of range and a missing file are errors that name the line
// and column. Nothing is guessed and no part of a bad file is used.
//
// The doc comments of the fields below are the reference: docs/config.md is
// made from them.
package config

import (
	"encoding/json"
	"path/filepath"
	"slices"
)

// FileName is the name of the configuration file in a home or a workspace.
const FileName = "config.yaml"

// HarnessRequestLimit is the longest time in seconds for which a harness
// request can wait, whatever request_timeout_seconds says.
const HarnessRequestLimit = 600

// Config is one reading of a config.yaml, with the defaults filled in. The
// paths in it are absolute. It is not changed once it has been returned, so it
// may be shared between goroutines; callers must not change it either.
//
// It marshals to JSON with the keys of the file.
type Config struct {
	// Version is the version of the format of this file. It has to be written,
	// and it is 1.
	//
	//	version: 1
	Version int `json:"version" required:"true" range:"1..1"`

	// Permissions says who answers the calls that no rule decides.
	Permissions Permissions `json:"permissions"`

	// ApprovalPolicy says what becomes of an agent's own requests for more than
	// it has. A request that this setting refuses gets an empty grant, which is
	// not an error, and nobody is asked. It is one of three words, or a mapping
	// with the single key granular.
	//
	//	approval_policy: unless_trusted
	ApprovalPolicy ApprovalPolicy `json:"approval_policy"`

	// Policy says where the rules are and what they may do.
	Policy Policy `json:"policy"`

	// Reviewers are what can give a verdict on a call, by name. A name has two
	// parts, as in acme/risk, made of letters, digits, hyphens and underscores.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, api_key_env: OPENAI_API_KEY}
	//	  acme/checks: {kind: command, command: [bin/checks, --strict]}
	Reviewers map[string]Reviewer `json:"reviewers" name:"namespace/name"`

	// Plugins are the programs that take part over the plugin protocol, by name.
	// A name is made of letters, digits, hyphens and underscores.
	//
	//	plugins:
	//	  acme: {command: [bin/acme-reviewer]}
	Plugins map[string]Plugin `json:"plugins" name:"name"`

	// RequestPermissions is about the tool of that name, by which an agent asks
	// for more than it has: whether agents are offered it, and which hooks have a
	// say in what comes of it.
	RequestPermissions RequestPermissions `json:"request_permissions"`

	// Server says where the daemon of this home listens.
	Server Server `json:"server" home:"true"`

	// Principals says who may answer, and who may only look.
	Principals Principals `json:"principals" home:"true"`

	// Notifiers are told of requests that wait for a person, and of what becomes of
	// requests. They answer nothing and hold up nothing. A name is made of letters,
	// digits, hyphens and underscores.
	//
	//	notifiers:
	//	  desk: {kind: desktop}
	//	  ops: {kind: webhook, url: "https://hooks.example.com/regent", secret_env: REGENT_WEBHOOK_SECRET}
	Notifiers map[string]Notifier `json:"notifiers" name:"name" home:"true"`

	// Ledger says where approvals are recorded.
	Ledger Ledger `json:"ledger" home:"true"`

	// Path is the file that was read, absolute; for defaults the file that was
	// looked for, and empty where there is none.
	Path string `json:"-"`
	// Dir is the folder that relative paths in the file start at: the folder
	// that holds it.
	Dir string `json:"-"`
	// SHA256 is the digest of the bytes that were read, in hexadecimal. It is
	// empty when nothing was read.
	SHA256 string `json:"-"`

	file string
	keys map[string]KeyPos
}

// Permissions is the permissions section.
type Permissions struct {
	// Mode is who answers a call that needs an answer and that no rule decides.
	//
	//	permissions: {mode: manual}
	Mode Mode `json:"mode"`

	// HarnessMode is who answers what a harness such as Codex asks on its own
	// account.
	//
	//	permissions: {harness_mode: auto_allow}
	HarnessMode HarnessMode `json:"harness_mode"`

	// ReviewerModel is the name, below reviewers, of the reviewer that
	// model_review asks. While no reviewer has that name, people are asked.
	//
	//	permissions: {reviewer_model: acme/risk}
	ReviewerModel string `json:"reviewer_model"`

	// ReviewTimeoutSeconds is how long a reviewer may take. Past it a person is
	// asked.
	//
	//	permissions: {review_timeout_seconds: 20}
	ReviewTimeoutSeconds int `json:"review_timeout_seconds" range:"1..600"`

	// RequestTimeoutSeconds is how long a request waits for its answer. Past it
	// the request expires, which is not permission. What a harness asks waits at
	// most 600 seconds, even where this is longer.
	//
	//	permissions: {request_timeout_seconds: 300}
	RequestTimeoutSeconds int `json:"request_timeout_seconds" range:"1..86400"`

	// ReadOnlyCommands is what becomes of a local command that certainly does
	// nothing but read.
	//
	//	permissions: {read_only_commands: skip}
	ReadOnlyCommands ReadOnlyCommands `json:"read_only_commands"`

	// TrustedMCPServers are the MCP servers whose hints about their own tools
	// are believed. A hint of any other server may make a tool count as more
	// dangerous, never as less. Each server is named in full.
	//
	//	permissions: {trusted_mcp_servers: [docs, tickets]}
	TrustedMCPServers []string `json:"trusted_mcp_servers" unique:"true"`
}

// Mode is who answers a call that no rule decides.
type Mode string

// The modes.
const (
	// ModeManual asks a person.
	ModeManual Mode = "manual"
	// ModeAutoAllow allows the call. It never takes effect unless it is written
	// out, and it is for native hosts only: a harness goes by harness_mode.
	ModeAutoAllow Mode = "auto_allow"
	// ModeModelReview asks the reviewer named by reviewer_model, and a person
	// where the reviewer is unsure, late, broken or not configured.
	ModeModelReview Mode = "model_review"
)

func (Mode) values() []string {
	return []string{string(ModeManual), string(ModeAutoAllow), string(ModeModelReview)}
}

// HarnessMode is who answers what a harness asks on its own account.
type HarnessMode string

// The harness modes.
const (
	// HarnessManual asks a person.
	HarnessManual HarnessMode = "manual"
	// HarnessAutoAllow accepts, or grants the permissions that were requested for
	// the turn: never for the session, never as a lasting rule, and never a
	// request that is not understood.
	HarnessAutoAllow HarnessMode = "auto_allow"
)

func (HarnessMode) values() []string {
	return []string{string(HarnessManual), string(HarnessAutoAllow)}
}

// ReadOnlyCommands is what becomes of a command that certainly only reads.
type ReadOnlyCommands string

// The answers for read-only commands.
const (
	// ReadOnlyAsk treats it like any other command.
	ReadOnlyAsk ReadOnlyCommands = "ask"
	// ReadOnlySkip lets it run without an answer and without a record, unless a
	// rule says otherwise.
	ReadOnlySkip ReadOnlyCommands = "skip"
)

func (ReadOnlyCommands) values() []string {
	return []string{string(ReadOnlyAsk), string(ReadOnlySkip)}
}

// ApprovalPolicy is either one of the names or granular. Exactly one of its
// two fields is set.
type ApprovalPolicy struct {
	// Name is the policy that was named, and empty where Granular is set.
	Name ApprovalName `json:"-" text:"true"`

	// Granular answers each kind of request by itself. A kind that is not
	// written is false: it is refused and nobody is asked. At least one kind has
	// to be written.
	//
	//	approval_policy:
	//	  granular: {request_permissions: true, mcp_elicitations: true}
	Granular *Granular `json:"granular" required:"true"`
}

// MarshalJSON writes the policy as it stands in a config.yaml: a word, or an
// object with the key granular.
func (p ApprovalPolicy) MarshalJSON() ([]byte, error) {
	if p.Granular == nil {
		return json.Marshal(p.Name)
	}
	return json.Marshal(map[string]*Granular{"granular": p.Granular})
}

// ApprovalName is an approval policy that a single word names.
type ApprovalName string

// The named approval policies.
const (
	// ApprovalNever refuses every request.
	ApprovalNever ApprovalName = "never"
	// ApprovalOnRequest sends each request to whoever answers.
	ApprovalOnRequest ApprovalName = "on_request"
	// ApprovalUnlessTrusted does the same, and has the harness ask about every
	// command that it does not know to be safe.
	ApprovalUnlessTrusted ApprovalName = "unless_trusted"
)

func (ApprovalName) values() []string {
	return []string{string(ApprovalNever), string(ApprovalOnRequest), string(ApprovalUnlessTrusted)}
}

// Granular says kind by kind whether a request may be asked at all.
type Granular struct {
	// SandboxApproval lets a command ask to run outside its sandbox.
	//
	//	approval_policy: {granular: {sandbox_approval: true}}
	SandboxApproval bool `json:"sandbox_approval"`
	// Rules lets a request be asked that a rule of the harness calls for.
	//
	//	approval_policy: {granular: {rules: true}}
	Rules bool `json:"rules"`
	// MCPElicitations lets an MCP server ask for input or for approval.
	//
	//	approval_policy: {granular: {mcp_elicitations: true}}
	MCPElicitations bool `json:"mcp_elicitations"`
	// RequestPermissions lets an agent ask for more permissions with
	// request_permissions.
	//
	//	approval_policy: {granular: {request_permissions: true}}
	RequestPermissions bool `json:"request_permissions"`
	// SkillApproval lets a skill ask before it runs what it brings along.
	//
	//	approval_policy: {granular: {skill_approval: true}}
	SkillApproval bool `json:"skill_approval"`
}

// Policy is the policy section.
type Policy struct {
	// Paths are this file's own rules and data: folders, Rego files, JSON and
	// YAML data files, and bundles that end in .tar.gz. Each of them has to
	// exist. An empty list means that there are none.
	//
	//	policy: {paths: [policies, shared/rules.tar.gz]}
	Paths []string `json:"paths" default:"[policies], if there is such a folder" unique:"true"`

	// Organization is the layer of rules above all others.
	Organization Organization `json:"organization"`

	// EvaluationTimeoutMS is how long the rules may take over one call, in
	// milliseconds. Past it a person is asked.
	//
	//	policy: {evaluation_timeout_ms: 250}
	EvaluationTimeoutMS int `json:"evaluation_timeout_ms" range:"1..10000"`

	// TestBeforeLoad makes changed rules take effect only when the tests beside
	// them pass.
	//
	//	policy: {test_before_load: true}
	TestBeforeLoad bool `json:"test_before_load"`

	// ConfirmLoosening makes a change that loosens anything wait until the owner
	// has confirmed it. What tightens takes effect at once.
	//
	//	policy: {confirm_loosening: true}
	ConfirmLoosening bool `json:"confirm_loosening"`

	// Capabilities opens, on purpose, what rules cannot do otherwise.
	Capabilities Capabilities `json:"capabilities"`
}

// Organization is the policy.organization section.
type Organization struct {
	// Path is the folder or the bundle (.tar.gz) that holds the organization's
	// rules. It has to exist: a missing organization is never taken for one
	// without rules.
	//
	//	policy: {organization: {path: /etc/regent/policy}}
	Path string `json:"path" required:"true"`
}

// Capabilities is the policy.capabilities section.
type Capabilities struct {
	// AllowBuiltins are built-in functions of Rego that are closed unless they
	// are named here, such as http.send and opa.runtime.
	//
	//	policy: {capabilities: {allow_builtins: [http.send], allow_net: [policy.example.com]}}
	AllowBuiltins []string `json:"allow_builtins" unique:"true"`

	// AllowNet are the hosts that an opened function may reach, by name or by
	// address, without scheme and port. No other host is reached: an empty list
	// means none.
	//
	//	policy: {capabilities: {allow_builtins: [http.send], allow_net: [10.0.0.7]}}
	AllowNet []string `json:"allow_net" unique:"true"`
}

// Reviewer is one entry of the reviewers section. Which keys it takes depends
// on its kind; any other key is an error.
type Reviewer struct {
	// Kind is what gives the verdict.
	//
	//	reviewers:
	//	  home/rules: {kind: rego, query: data.home.review.verdict}
	Kind ReviewerKind `json:"kind" required:"true"`

	// Provider is whose interface the model is reached by. Kind model needs it.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: anthropic, model: small-model}
	Provider Provider `json:"provider,omitempty"`

	// API is the interface of provider openai. Kind model may have it.
	//
	//	reviewers:
	//	  local/model: {kind: model, provider: openai, api: chat_completions, model: small-model}
	API ModelAPI `json:"api,omitempty" default:"responses"`

	// Model is the provider's name of the model. Kind model needs it.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model}
	Model string `json:"model,omitempty"`

	// BaseURL is where the provider's interface is reached when it is not at its
	// usual place, as the provider's own libraries take it: with /v1 at its end
	// for openai, without for anthropic. Kind model may have it. It is https, or
	// http to this machine by its address or as localhost, and carries no user
	// name and no password.
	//
	//	reviewers:
	//	  local/model: {kind: model, provider: openai, model: small-model, base_url: "http://127.0.0.1:8080/v1"}
	BaseURL string `json:"base_url,omitempty" secret:"true"`

	// APIKeyEnv is the name of the environment variable that holds the key. Kind
	// model may have it. The key itself never stands in this file. It is looked up
	// for each verdict.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, api_key_env: OPENAI_API_KEY}
	APIKeyEnv string `json:"api_key_env,omitempty" secret:"true"`

	// APIKeyFile is the file that holds the key, in place of api_key_env. It has
	// to exist and should be readable by its owner alone. It is read for each
	// verdict, so that a key can be replaced at any time.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, api_key_file: secrets/key}
	APIKeyFile string `json:"api_key_file,omitempty" secret:"true"`

	// CAFile is a file of certificates in PEM that are trusted to sign the one of
	// base_url, in place of those of the system. Kind model may have it.
	//
	//	reviewers:
	//	  acme/model: {kind: model, provider: openai, model: small-model, base_url: "https://models.example.com/v1", ca_file: ca.pem}
	CAFile string `json:"ca_file,omitempty"`

	// Stream has the reply come in pieces, for servers that give no other. It is
	// judged as a whole all the same. Kind model may have it.
	//
	//	reviewers:
	//	  local/model: {kind: model, provider: openai, model: small-model, stream: true}
	Stream bool `json:"stream,omitempty"`

	// Guidance is what the model is told besides the fixed instructions: what is
	// usual here and what is not. It has at most 16384 bytes. Kind model may have
	// it. A reviewer with a guidance_file has the text of the file here once the
	// files of the configuration have been read.
	//
	//	reviewers:
	//	  default/reviewer:
	//	    kind: model
	//	    provider: openai
	//	    model: small-model
	//	    guidance: |
	//	      The hosts below staging.example.com are for trying things out.
	//	      Nothing is published on a Friday.
	Guidance string `json:"guidance,omitempty" lines:"true"`

	// GuidanceFile is the file that holds the guidance, in its place.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, guidance_file: guidance.md}
	GuidanceFile string `json:"guidance_file,omitempty"`

	// MaxEvidenceBytes is how much the model is shown of a request and of what
	// rules say about it. Of more than that parts are left out, and then it
	// cannot allow. Kind model may have it.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, max_evidence_bytes: 65536}
	MaxEvidenceBytes int `json:"max_evidence_bytes,omitempty" range:"1024..1048576" default:"32768"`

	// MaxOutputTokens is how much the model may say, what it thinks to itself
	// included. A reply that is cut off is no verdict. Kind model may have it.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, max_output_tokens: 8192}
	MaxOutputTokens int `json:"max_output_tokens,omitempty" range:"256..65536" default:"4096"`

	// Price is what the provider takes, for an estimate of what each verdict cost.
	// Kind model may have it.
	Price Price `json:"price,omitzero"`

	// Plugin is the plugin, by its name below plugins, that gives the verdict.
	// Kind plugin needs it.
	//
	//	plugins: {acme: {command: [bin/acme-reviewer]}}
	//	reviewers: {acme/risk: {kind: plugin, plugin: acme}}
	Plugin string `json:"plugin,omitempty"`

	// Args are handed to the plugin as they are. Kind plugin may have them.
	// Names and values are text; values such as 5 and true go in quotes.
	//
	//	plugins: {acme: {command: [bin/acme-reviewer]}}
	//	reviewers: {acme/risk: {kind: plugin, plugin: acme, args: {threshold: "5"}}}
	Args map[string]string `json:"args,omitempty" name:"name"`

	// Command is the program that gives the verdict, and its arguments. Kind
	// command needs it. The program is a path and has to be executable; it is not
	// looked up in PATH, and no shell takes part.
	//
	//	reviewers:
	//	  acme/checks: {kind: command, command: [bin/checks, --strict]}
	Command []string `json:"command,omitempty"`

	// Query is the rule that gives the verdict, as a path that starts with data.
	// Kind rego needs it.
	//
	//	reviewers:
	//	  home/rules: {kind: rego, query: data.home.review.verdict}
	Query string `json:"query,omitempty"`

	// Members are the reviewers of this file that are asked one after the other,
	// at most 16. Kind chain needs them. A chain may name another chain, but not
	// itself.
	//
	//	reviewers:
	//	  home/rules: {kind: rego, query: data.home.review.verdict}
	//	  acme/checks: {kind: command, command: [bin/checks]}
	//	  acme/both: {kind: chain, members: [home/rules, acme/checks]}
	Members []string `json:"members,omitempty" unique:"true"`

	// Decide is what the verdicts of the members come to. Kind chain may have it.
	// A member that is unsure, late or broken has never allowed.
	//
	//	reviewers:
	//	  home/rules: {kind: rego, query: data.home.review.verdict}
	//	  acme/checks: {kind: command, command: [bin/checks]}
	//	  acme/either: {kind: chain, members: [home/rules, acme/checks], decide: first}
	Decide ChainRule `json:"decide,omitempty" default:"all"`

	// Quorum is how many members have to allow where decide is quorum.
	//
	//	reviewers:
	//	  home/rules: {kind: rego, query: data.home.review.verdict}
	//	  acme/checks: {kind: command, command: [bin/checks]}
	//	  acme/more: {kind: command, command: [bin/more]}
	//	  acme/most: {kind: chain, members: [home/rules, acme/checks, acme/more], decide: quorum, quorum: 2}
	Quorum int `json:"quorum,omitempty" range:"1..16"`

	// TimeoutSeconds is how long this reviewer may take. Any kind may have it. It
	// is 0 where it is not written.
	//
	//	reviewers:
	//	  acme/checks: {kind: command, command: [bin/checks], timeout_seconds: 5}
	TimeoutSeconds int `json:"timeout_seconds,omitempty" range:"1..600" default:"permissions.review_timeout_seconds"`
}

// ReviewerKind is what gives a reviewer's verdict.
type ReviewerKind string

// The kinds of reviewer.
const (
	// ReviewerModel is a language model that is asked once, without tools.
	ReviewerModel ReviewerKind = "model"
	// ReviewerPlugin is one of the plugins.
	ReviewerPlugin ReviewerKind = "plugin"
	// ReviewerCommand is a program that is started for each verdict.
	ReviewerCommand ReviewerKind = "command"
	// ReviewerRego is a rule.
	ReviewerRego ReviewerKind = "rego"
	// ReviewerChain is several reviewers, asked one after the other.
	ReviewerChain ReviewerKind = "chain"
)

func (ReviewerKind) values() []string {
	return []string{
		string(ReviewerModel), string(ReviewerPlugin), string(ReviewerCommand),
		string(ReviewerRego), string(ReviewerChain),
	}
}

// Provider is whose interface a model is reached by.
type Provider string

// The providers.
const (
	// ProviderOpenAI is OpenAI, and whoever offers the same interface.
	ProviderOpenAI Provider = "openai"
	// ProviderAnthropic is Anthropic, and whoever offers the same interface.
	ProviderAnthropic Provider = "anthropic"
)

func (Provider) values() []string {
	return []string{string(ProviderOpenAI), string(ProviderAnthropic)}
}

// ModelAPI is one of the interfaces that a provider offers.
type ModelAPI string

// The interfaces of provider openai.
const (
	// APIResponses is POST /responses.
	APIResponses ModelAPI = "responses"
	// APIChatCompletions is POST /chat/completions, which more servers offer.
	APIChatCompletions ModelAPI = "chat_completions"
)

func (ModelAPI) values() []string {
	return []string{string(APIResponses), string(APIChatCompletions)}
}

// ChainRule is what the verdicts of the members of a chain come to. A member that
// denies ends the chain, and the chain denies.
type ChainRule string

// The rules of chains.
const (
	// ChainAll allows where every member does.
	ChainAll ChainRule = "all"
	// ChainAny allows where one member does and none denies, for which all are asked.
	ChainAny ChainRule = "any"
	// ChainFirst goes by the first member that allows or denies. Those after it are not asked.
	ChainFirst ChainRule = "first"
	// ChainQuorum allows where as many members do as quorum says and none denies, for which all are asked.
	ChainQuorum ChainRule = "quorum"
)

func (ChainRule) values() []string {
	return []string{string(ChainAll), string(ChainAny), string(ChainFirst), string(ChainQuorum)}
}

// Price is the price section of a reviewer of kind model.
type Price struct {
	// InputPerMillionUSD is what a million tokens of input cost, in US dollars.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, price: {input_per_million_usd: 0.25, output_per_million_usd: 2}}
	InputPerMillionUSD float64 `json:"input_per_million_usd" range:"0..100000" required:"true"`

	// OutputPerMillionUSD is what a million tokens of output cost, in US dollars.
	//
	//	reviewers:
	//	  default/reviewer: {kind: model, provider: openai, model: small-model, price: {input_per_million_usd: 0.25, output_per_million_usd: 2}}
	OutputPerMillionUSD float64 `json:"output_per_million_usd" range:"0..100000" required:"true"`
}

// Plugin is one entry of the plugins section.
type Plugin struct {
	// Command is the plugin's program and its arguments. The program is a path
	// and has to be executable; it is not looked up in PATH.
	//
	//	plugins: {acme: {command: [bin/acme-reviewer, --verbose]}}
	Command []string `json:"command" required:"true"`

	// SHA256 pins the program: 64 hexadecimal digits, the digest of the file. A
	// program that has another digest is not started. Digits alone need quotes.
	//
	//	plugins:
	//	  acme:
	//	    command: [bin/acme-reviewer]
	//	    sha256: "6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"
	SHA256 string `json:"sha256,omitempty"`

	// Env are the environment variables, by name, that the plugin sees. It sees
	// no others.
	//
	//	plugins: {acme: {command: [bin/acme-reviewer], env: [HTTPS_PROXY]}}
	Env []string `json:"env,omitempty" unique:"true"`
}

// RequestPermissions is the request_permissions section.
type RequestPermissions struct {
	// Enabled says whether agents of native hosts are offered the tool
	// request_permissions. Where it is false they are not, and cannot ask for more
	// than they have by it.
	//
	//	request_permissions: {enabled: false}
	Enabled bool `json:"enabled"`

	// Before are the hooks that see a request before anything else is made of
	// it, also before its environment is looked up, one after the other. Each may
	// block the request or narrow it, and none can widen it. Where one is late or
	// broken, a person has to answer the request. Hooks of a workspace come after
	// those of the home.
	//
	//	request_permissions:
	//	  before:
	//	    - {command: [bin/screen, --strict], timeout_seconds: 5, env: [ACME_TOKEN_FILE]}
	Before []Hook `json:"before,omitempty"`

	// After are the hooks that see the answer to a request once its grant is
	// recorded, one after the other. Each may withhold the answer from the agent,
	// and none can undo the grant: what is to prevent one belongs into before. One
	// that is late or broken withholds the answer. Hooks of a workspace come after
	// those of the home.
	//
	//	request_permissions:
	//	  after:
	//	    - {command: [bin/tell]}
	After []Hook `json:"after,omitempty"`
}

// Hook is one item of request_permissions.before and request_permissions.after.
// Exactly one of Command and Reviewer is set.
type Hook struct {
	// Command is the program that is the hook, and its arguments. It is started
	// for each request. The program is a path and has to be executable; it is not
	// looked up in PATH, and no shell takes part.
	//
	//	request_permissions:
	//	  before: [{command: [bin/screen, --strict]}]
	//	  after: [{command: [bin/tell]}]
	Command []string `json:"command,omitempty"`

	// Reviewer is the reviewer of this file, by its name below reviewers, that is
	// the hook, in place of command.
	//
	//	reviewers: {acme/risk: {kind: rego, query: data.home.review.verdict}}
	//	request_permissions:
	//	  before: [{reviewer: acme/risk}]
	//	  after: [{reviewer: acme/risk}]
	Reviewer string `json:"reviewer,omitempty"`

	// TimeoutSeconds is how long the hook may take. It is 0 where it is not
	// written and the hook is a reviewer.
	//
	//	request_permissions:
	//	  before: [{command: [bin/screen], timeout_seconds: 5}]
	//	  after: [{command: [bin/tell], timeout_seconds: 5}]
	TimeoutSeconds int `json:"timeout_seconds,omitempty" range:"1..60" default:"10, for a reviewer its own"`

	// Env are the environment variables, by name, that the program sees. It sees
	// no others. Only a command may have them.
	//
	//	request_permissions:
	//	  before: [{command: [bin/screen], env: [ACME_TOKEN_FILE]}]
	//	  after: [{command: [bin/tell], env: [ACME_TOKEN_FILE]}]
	Env []string `json:"env,omitempty" unique:"true"`
}

// hookSeconds is how long the command of a hook may take where the file does
// not say.
const hookSeconds = 10

// same reports whether two hooks do the same.
func (h Hook) same(other Hook) bool {
	return slices.Equal(h.Command, other.Command) && h.Reviewer == other.Reviewer &&
		h.TimeoutSeconds == other.TimeoutSeconds && slices.Equal(h.Env, other.Env)
}

// name is what a hook is in a word: its program or its reviewer.
func (h Hook) name() string {
	if len(h.Command) > 0 {
		return h.Command[0]
	}
	return h.Reviewer
}

// Server is the server section.
type Server struct {
	// Socket is the Unix socket that the daemon listens on.
	//
	//	server: {socket: runtime/regent.sock}
	Socket string `json:"socket"`

	// HTTP is the address and port that the daemon listens on for the console
	// and the HTTP interface. Where it is not written the daemon listens on the
	// socket alone. It is one of loopback: no other machine reaches the daemon.
	//
	//	server: {http: "127.0.0.1:7340"}
	HTTP string `json:"http,omitempty"`
}

// Principals is the principals section.
type Principals struct {
	// Owner are the principals that this home belongs to. An owner answers the
	// requests of the sessions that they are a member of, confirms what loosens
	// and trusts workspaces. Nobody else does. An agent cannot be one.
	//
	//	principals: {owner: ["user:sam"]}
	Owner []string `json:"owner" unique:"true"`

	// Members are the other principals, each with a role. No role lets them
	// answer a request: only owners do.
	//
	//	principals: {members: {"user:kim": member, "user:lee": observer}}
	Members map[string]Role `json:"members" name:"principal"`

	// StepUp makes an answer that allows something count only with fresh proof
	// of who gave it.
	//
	//	principals: {owner: ["user:sam"], step_up: true}
	StepUp bool `json:"step_up"`
}

// Role is what a member may do.
type Role string

// The roles.
const (
	// RoleMember sees the requests of its own sessions and answers none.
	RoleMember Role = "member"
	// RoleObserver sees the requests of all sessions and answers none.
	RoleObserver Role = "observer"
)

func (Role) values() []string { return []string{string(RoleMember), string(RoleObserver)} }

// Notifier is one entry of the notifiers section. Which keys it takes depends on
// its kind; any other key is an error.
type Notifier struct {
	// Kind is the way in which it is told.
	//
	//	notifiers: {desk: {kind: desktop}}
	Kind NotifierKind `json:"kind" required:"true"`

	// URL is where kind webhook, which needs it, sends each notification. It is
	// https, or http to this machine by its address or as localhost, and carries no
	// user name, no password and no query. Redirects are not followed.
	//
	//	notifiers:
	//	  ops: {kind: webhook, url: "https://hooks.example.com/regent", secret_env: REGENT_WEBHOOK_SECRET}
	URL string `json:"url,omitempty" secret:"true"`

	// SecretEnv is the name of the environment variable that holds the secret by
	// which a webhook is signed. Kind webhook may have it. The secret itself never
	// stands in this file. It has 16 bytes at least, and is looked up each time.
	//
	//	notifiers:
	//	  ops: {kind: webhook, url: "https://hooks.example.com/regent", secret_env: REGENT_WEBHOOK_SECRET}
	SecretEnv string `json:"secret_env,omitempty" secret:"true"`

	// SecretFile is the file that holds the secret, in place of secret_env. It has
	// to exist and should be readable by its owner alone. It is read each time, so
	// that a secret can be replaced whenever you like.
	//
	//	notifiers:
	//	  ops: {kind: webhook, url: "https://hooks.example.com/regent", secret_file: secrets/webhook}
	SecretFile string `json:"secret_file,omitempty" secret:"true"`

	// CAFile is a file of certificates in PEM that are trusted to sign the one of
	// url, in place of those of the system. Kind webhook may have it.
	//
	//	notifiers:
	//	  ops: {kind: webhook, url: "https://hooks.internal.example.com", secret_file: secrets/webhook, ca_file: ca.pem}
	CAFile string `json:"ca_file,omitempty"`

	// Command is the program that is told, and its arguments. Kind command needs
	// it. It is started for each notification, which is its standard input. The
	// program is a path and has to be executable; it is not looked up in PATH, and
	// no shell takes part.
	//
	//	notifiers: {mail: {kind: command, command: [bin/notify]}}
	Command []string `json:"command,omitempty"`

	// Env are the environment variables, by name, that the program sees besides
	// PATH, HOME, LANG, LC_ALL, TMPDIR and TZ. Kind command may have them.
	//
	//	notifiers: {mail: {kind: command, command: [bin/notify], env: [SMTP_HOST]}}
	Env []string `json:"env,omitempty" unique:"true"`

	// Plugin is the plugin, by its name below plugins, that is told. Kind plugin
	// needs it.
	//
	//	plugins: {acme: {command: [bin/acme-notifier]}}
	//	notifiers: {acme: {kind: plugin, plugin: acme}}
	Plugin string `json:"plugin,omitempty"`

	// Events are what it is told of.
	//
	//	notifiers:
	//	  desk: {kind: desktop, events: [pending, notice]}
	Events []NotifierEvent `json:"events,omitempty" default:"[pending]" unique:"true"`

	// Details are how much it is told. Whatever they are, it is told who asks and
	// in which workspace, what kind of thing is asked, and what became of it. What
	// Regent knows to be a secret is masked in all that is told.
	//
	//	notifiers:
	//	  desk: {kind: desktop, details: none}
	Details NotifierDetails `json:"details,omitempty" default:"summary"`
}

// NotifierKind is the way in which a notifier is told.
type NotifierKind string

// The kinds of notifier.
const (
	// NotifierWebhook is an address that notifications are sent to.
	NotifierWebhook NotifierKind = "webhook"
	// NotifierDesktop is the desktop of the user that the daemon runs as.
	NotifierDesktop NotifierKind = "desktop"
	// NotifierCommand is a program that is started for each notification.
	NotifierCommand NotifierKind = "command"
	// NotifierPlugin is one of the plugins.
	NotifierPlugin NotifierKind = "plugin"
)

func (NotifierKind) values() []string {
	return []string{string(NotifierWebhook), string(NotifierDesktop), string(NotifierCommand), string(NotifierPlugin)}
}

// NotifierEvent is something that a notifier can be told of.
type NotifierEvent string

// The events.
const (
	// NotifyPending is a request that waits for a person, from the start or because reviewers have not settled it.
	NotifyPending NotifierEvent = "pending"
	// NotifyDecided is a decision, whoever gave it.
	NotifyDecided NotifierEvent = "decided"
	// NotifyClosed is the end of a request whose answer was not heard: it expired, was cancelled or lost, or nobody knows.
	NotifyClosed NotifierEvent = "closed"
	// NotifyNotice is something about rules, ledger or files that whoever runs the home should know.
	NotifyNotice NotifierEvent = "notice"
)

func (NotifierEvent) values() []string {
	return []string{string(NotifyPending), string(NotifyDecided), string(NotifyClosed), string(NotifyNotice)}
}

// NotifierDetails are how much a notifier is told.
type NotifierDetails string

// The details.
const (
	// DetailsNone leaves out all words about the request.
	DetailsNone NotifierDetails = "none"
	// DetailsSummary has a line about it: the start of the command, the name of the tool.
	DetailsSummary NotifierDetails = "summary"
	// DetailsRequest has the whole request, as it is recorded.
	DetailsRequest NotifierDetails = "request"
)

func (NotifierDetails) values() []string {
	return []string{string(DetailsNone), string(DetailsSummary), string(DetailsRequest)}
}

// Ledger is the ledger section.
type Ledger struct {
	// Driver is the kind of store.
	//
	//	ledger: {driver: sqlite}
	Driver LedgerDriver `json:"driver"`

	// Path is the database file. It is created when it is first needed.
	//
	//	ledger: {path: runtime/runtime.db}
	Path string `json:"path"`
}

// LedgerDriver is a kind of ledger store.
type LedgerDriver string

// LedgerSQLite keeps the ledger in one file on this machine.
const LedgerSQLite LedgerDriver = "sqlite"

func (LedgerDriver) values() []string { return []string{string(LedgerSQLite)} }

// Default returns the configuration of a home or a workspace whose file says
// nothing, with paths below dir. An empty dir leaves the paths relative. It
// looks at no file, so its Policy.Paths is empty; LoadHome and Load fill that
// in where there is a folder of policies.
func Default(dir string) *Config {
	return &Config{
		Version: 1,
		Permissions: Permissions{
			Mode:                  ModeModelReview,
			HarnessMode:           HarnessManual,
			ReviewerModel:         "default/reviewer",
			ReviewTimeoutSeconds:  30,
			RequestTimeoutSeconds: 600,
			ReadOnlyCommands:      ReadOnlyAsk,
		},
		ApprovalPolicy:     ApprovalPolicy{Name: ApprovalOnRequest},
		Policy:             Policy{EvaluationTimeoutMS: 100},
		RequestPermissions: RequestPermissions{Enabled: true},
		Server:             Server{Socket: filepath.Join(dir, "runtime", "regent.sock")},
		Ledger:             Ledger{Driver: LedgerSQLite, Path: filepath.Join(dir, "runtime", "runtime.db")},
		Dir:                dir,
	}
}

// KeyPos is where a key stands in the file. Line and Column count from 1, in
// characters.
type KeyPos struct {
	// Path is the key with those it stands below, as in permissions.mode,
	// reviewers.acme/risk.kind, policy.paths[0] and
	// request_permissions.before[0].command.
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// Pos returns where the key at path is written, and false where it is not and
// its value is the default. Keys inherited from another file are not written.
func (c *Config) Pos(path string) (KeyPos, bool) {
	pos, ok := c.keys[path]
	return pos, ok
}

// homeSections are the sections that only the file of a home may hold. A test
// keeps them equal to the fields that say so.
var homeSections = []string{"server", "principals", "notifiers", "ledger"}

// HomeOnly returns the keys of this file that only the file of a home may
// hold, in the order of the file. A workspace's file with any of them has
// claimed what is not its to say.
func (c *Config) HomeOnly() []KeyPos {
	var found []KeyPos
	for _, key := range homeSections {
		if pos, ok := c.keys[key]; ok {
			found = append(found, pos)
		}
	}
	slices.SortFunc(found, byPosition)
	return found
}
