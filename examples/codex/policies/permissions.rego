# METADATA
# title: Permissions
# description: >-
#   The most that anybody may grant an agent of Codex, for a call or for the rest of
#   its turn.
# schemas:
#   - input: schema.request
package rules.codex.permissions

# METADATA
# title: No more than the folders beside the project, for the turn
# custom:
#   id: CDX-020
#   severity: medium
ceiling := {
	"network": {"enabled": false},
	"file_system": {"entries": [{"path": {"type": "path", "path": dir}, "access": "write"} | some dir in _beside]},
	"scope": "turn",
} if {
	input.request.kind == "permissions"
}

# The folder that holds the project: none where it is not known, or is near the root.
_beside contains dir if {
	parts := split(input.environment.cwd, "/")
	count(parts) > 3
	dir := concat("/", array.slice(parts, 0, count(parts) - 1))
}
