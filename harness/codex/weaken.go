package codex

import (
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// weakening says in what way a request of the client would have something run that
// nobody asks Regent about; "" where it would not. It knows 0.156.1 and 0.171.0.
func weakening(method string, params jsontext.Value) string {
	switch method {
	case threadStart, threadResume, threadFork, turnStart:
		return weakerTurn(params)
	case "command/exec", "process/spawn", "thread/shellCommand":
		return method + " runs a command of the client's own, outside the approvals of the agent"
	case "config/value/write", "config/batchWrite":
		return method + " edits Codex's configuration"
	case "fs/writeFile", "fs/remove", "fs/copy", "fs/createDirectory":
		return method + " changes files for the client itself"
	}
	return ""
}

func weakerTurn(params jsontext.Value) string {
	var p struct {
		ApprovalPolicy    jsontext.Value            `json:"approvalPolicy"`
		ApprovalsReviewer jsontext.Value            `json:"approvalsReviewer"`
		Sandbox           jsontext.Value            `json:"sandbox"`
		SandboxPolicy     jsontext.Value            `json:"sandboxPolicy"`
		Permissions       jsontext.Value            `json:"permissions"`
		Config            map[string]jsontext.Value `json:"config"`
	}
	if null(params) {
		return ""
	}
	if jsonv2.Unmarshal(params, &p) != nil {
		return "its parameters are not understood"
	}
	if reviewer := p.ApprovalsReviewer; !null(reviewer) && text(reviewer) != "user" {
		return "approvalsReviewer " + string(reviewer) + " has Codex's own reviewer answer"
	}
	if text(p.Sandbox) == "danger-full-access" || strings.Contains(strings.ToLower(string(p.SandboxPolicy)), "dangerfullaccess") ||
		strings.Contains(text(p.Permissions), "danger") {
		return "without a sandbox nothing is asked for"
	}
	const reads = ":read-only" // a profile that Codex has built in
	readOnly := text(p.Sandbox) == "read-only" || text(p.Permissions) == reads || text(p.Config["default_permissions"]) == reads
	if policy := text(p.ApprovalPolicy); policy == "never" && !readOnly {
		return `approvalPolicy "never" asks nobody`
	}
	for _, name := range slices.Sorted(maps.Keys(p.Config)) {
		if weakens(name, p.Config[name]) {
			return "config." + name + " changes what is asked about"
		}
	}
	return ""
}

// asking are the features of Codex that have it ask.
var asking = []string{"request_permissions_tool", "exec_permission_approvals", "write_stdin_approval", "network_proxy", "hooks"}

// weakens tells whether a setting says what is asked about. A setting is written
// with dots, or as an object of an object.
func weakens(name string, value jsontext.Value) bool {
	head, rest, _ := strings.Cut(name, ".")
	switch head {
	case "default_permissions":
		return text(value) != ":read-only"
	case "approval_policy", "approvals_reviewer", "sandbox_mode", "sandbox_workspace_write", "permissions",
		"profile", "profiles", "projects", "bypass_hook_trust", "hooks", "mcp_servers":
		return true
	case "features":
		if rest != "" {
			return slices.Contains(asking, rest)
		}
		var features map[string]jsontext.Value
		if jsonv2.Unmarshal(value, &features) != nil {
			return true
		}
		return slices.ContainsFunc(asking, func(f string) bool { _, ok := features[f]; return ok })
	default:
		return false
	}
}
