# METADATA
# title: Files
# description: An agent writes in its workspace and in folders for scratch files.
# schemas:
#   - input: schema.request
package rules.files

import data.regent.lib.command
import data.regent.lib.paths

# METADATA
# title: Writes outside the workspace need a person
# custom:
#   id: FS-001
#   severity: medium
ask contains sprintf("%s is outside the workspace", [target]) if {
	some target in paths.write_targets(input.request)
	not paths.below_any(target, _workspace)
	not paths.below_any(target, _scratch)
	not target in _sinks
}

# METADATA
# title: Writes to a place that cannot be told need a person
# custom:
#   id: FS-001
#   severity: medium
ask contains sprintf("%s may be outside the workspace: the command does not tell where", [w.word]) if {
	some node in command.all
	some w in node.writes
	_somewhere(node, w)
}

_somewhere(_, w) if w.kind in {"unknown", "input"}

_somewhere(node, w) if {
	node.dir_unknown
	not startswith(w.word, "/")
}

# The project roots, or the working folder where there are none. A call that names
# neither has no workspace, and everything is outside.
_workspace contains dir if some dir in input.environment.project_roots

_workspace contains input.environment.cwd if not input.environment.project_roots

_scratch contains dir if some dir in data.rules.files.scratch

_scratch contains input.environment.tmp_dir

# Names that keep nothing of what is written to them.
_sinks := {"/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"}
