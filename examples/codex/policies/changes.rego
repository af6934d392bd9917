# METADATA
# title: Changes of files
# description: >-
#   Codex asks about a patch that leaves its folder, or that changes .git or .codex
#   in it. The paths and the diff are those of the item that the patch began with.
# schemas:
#   - input: schema.request
package rules.codex.changes

import data.regent.lib.paths

# METADATA
# title: No patch touches keys and the like
# custom:
#   id: CDX-010
#   severity: high
deny contains sprintf("%s holds secrets, and is changed by people only", [name]) if {
	some change in input.request.changes
	some path in _ends(change)
	name := paths.name(path)
	paths.matches(path, data.rules.codex.sealed)
}

# METADATA
# title: What runs by itself needs a person
# custom:
#   id: CDX-011
#   severity: high
ask contains sprintf("%s runs by itself later on", [path]) if {
	some change in input.request.changes
	some path in _ends(change)
	_runs(path)
}

# A patch can move a file to another name.
_ends(change) := {change.path} | {to | to := change.move_path}

_runs(path) if contains(path, "/.git/hooks/")

_runs(path) if contains(path, "/.github/workflows/")
