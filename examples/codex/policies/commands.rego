# METADATA
# title: Commands
# description: >-
#   Codex asks about a command when it is to leave the sandbox. Tests may; what
#   rewrites the history of others may not; the rest is for a person.
# schemas:
#   - input: schema.request
package rules.codex.commands

import data.regent.lib.command

# METADATA
# title: Tests may leave the sandbox
# custom:
#   id: CDX-001
#   severity: low
allow contains "tests may run outside the sandbox" if {
	input.request.kind == "command"
	command.covered(data.rules.codex.trusted)
}

# METADATA
# title: Nobody rewrites a protected branch
# custom:
#   id: CDX-002
#   severity: high
deny contains sprintf("a force push rewrites %s for everybody; push a branch and open a pull request", [branch]) if {
	some node in command.subcommand("git", ["push"])
	some flag in node.flags
	flag in {"--force", "-f", "--force-with-lease", "--mirror"}
	some branch in data.rules.codex.protected
	branch in node.operands
}

# METADATA
# title: Nothing that was fetched is run unread
# custom:
#   id: CDX-003
#   severity: high
deny contains "what curl or wget fetches is not piped into a shell; fetch it to a file and read it first" if {
	some fetch in {"curl", "wget"}
	command.runs(fetch)
	some shell in {"sh", "bash", "zsh"}
	command.runs(shell)
}
