package rego

import "time"

// Settings are what config.yaml says to the rules: data.regent.settings.
type Settings struct {
	// Mode is manual, auto_allow or model_review, for native hosts.
	Mode string `json:"mode"`
	// HarnessMode is manual or auto_allow, for other harnesses' own approvals.
	HarnessMode string `json:"harness_mode"`
	// ReadOnlyCommands is ask or skip.
	ReadOnlyCommands string `json:"read_only_commands"`
	// ApprovalPolicy is never, on_request, unless_trusted or granular.
	ApprovalPolicy string `json:"approval_policy"`
	// Granular holds the switches of approval_policy granular, by their names.
	Granular map[string]bool `json:"granular,omitempty"`
	// Reviewer answers when a rule sends a request to review without a name.
	Reviewer string `json:"reviewer"`
	// Reviewers are the names that config.yaml declares.
	Reviewers map[string]bool `json:"reviewers"`
	// TrustedMCPServers are the servers whose hints count.
	TrustedMCPServers []string `json:"trusted_mcp_servers"`
	// ReviewSeconds and RequestSeconds bound the waiting.
	ReviewSeconds  int `json:"review_seconds"`
	RequestSeconds int `json:"request_seconds"`
	// Timeout bounds one evaluation; zero means DefaultTimeout.
	Timeout time.Duration `json:"-"`
	// AllowBuiltins and AllowNet open what is otherwise withheld.
	AllowBuiltins []string `json:"-"`
	AllowNet      []string `json:"-"`
}

// DefaultTimeout bounds an evaluation when Settings does not.
const DefaultTimeout = 100 * time.Millisecond

// DefaultSettings are the settings of a Regent without a config.yaml.
func DefaultSettings() Settings {
	return Settings{
		Mode:              "model_review",
		HarnessMode:       "manual",
		ReadOnlyCommands:  "ask",
		ApprovalPolicy:    "on_request",
		Reviewer:          "default/reviewer",
		Reviewers:         map[string]bool{},
		TrustedMCPServers: []string{},
		ReviewSeconds:     30,
		RequestSeconds:    600,
		Timeout:           DefaultTimeout,
	}
}
