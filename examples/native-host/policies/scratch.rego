# METADATA
# title: The folder of an agent
# description: >-
#   An agent has a folder of its own. What lies beside it can be granted to it;
#   the rest of the disk and the network cannot.
# schemas:
#   - input: schema.request
package rules.scratch

import data.regent.lib.paths
import data.regent.lib.tools

# METADATA
# title: Files in the agent's own folder need no answer
# custom:
#   id: SCRATCH-001
#   severity: low
allow contains "it writes in the agent's own folder" if {
	tools.called("write_file")
	not _unclear
	targets := paths.write_targets(input.request)
	count(targets) > 0
	every target in targets {
		paths.below(target, input.environment.cwd)
	}
}

_unclear if paths.unclear(input.request)

# METADATA
# title: Nothing is fetched and nothing is sent
# custom:
#   id: SCRATCH-002
#   severity: high
deny contains sprintf("this agent has no business with %s", [host]) if some host in tools.hosts

# METADATA
# title: At most the folders beside the agent's own
# custom:
#   id: SCRATCH-003
#   severity: medium
ceiling := {
	"network": {"enabled": false},
	"file_system": {"entries": [{"path": {"type": "path", "path": dir}, "access": "write"} | some dir in _beside]},
	"scope": "session",
}

# The folder that holds the agent's own: none where it is not known, or is the root.
_beside contains dir if {
	parts := split(input.environment.cwd, "/")
	count(parts) > 2
	dir := concat("/", array.slice(parts, 0, count(parts) - 1))
}
