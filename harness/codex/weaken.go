package codex

import (
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
	readOnly := text(p.Sandbox) == "read-only" || text(p.Permissions) == ":read-only"
	if policy := text(p.ApprovalPolicy); policy == "never" && !readOnly {
		return `approvalPolicy "never" asks nobody`
	}
	for name := range p.Config {
		switch head, _, _ := strings.Cut(name, "."); head {
		case "approval_policy", "approvals_reviewer", "sandbox_mode", "sandbox_workspace_write", "permissions", "profile", "bypass_hook_trust", "hooks", "mcp_servers", "features":
			return "config." + name + " changes what is asked about"
		}
	}
	return ""
}
