package setup

import (
	"path/filepath"
	"strings"
)

// Requirements is a requirements.toml for the administrators of a system, which
// is /etc/codex/requirements.toml on Linux and macOS. It holds whatever Codex is
// started with, and its hooks are trusted as they are. Without a command there are
// no hooks in it.
func Requirements(program, command string) string {
	var b strings.Builder
	b.WriteString(`# What Codex may be started with. It has to ask, and to ask its client.
allowed_approval_policies = ["on-request"]
allowed_approvals_reviewers = ["user"]
allowed_sandbox_modes = ["read-only", "workspace-write"]
`)
	if command == "" {
		return b.String()
	}
	b.WriteString(`
# Hooks of users and projects are not run besides these.
allow_managed_hooks_only = true

[hooks]
managed_dir = ` + quote(filepath.Dir(program)) + "\n")
	for _, event := range Events {
		b.WriteString("\n[[hooks." + event + "]]\nmatcher = \"\"\n[[hooks." + event + ".hooks]]\ntype = \"command\"\ncommand = " + quote(command) + "\ntimeout = 10\n")
	}
	return b.String()
}
