# METADATA
# title: Facts
# description: >-
#   What Regent worked out about a request before the rules ran. A decision
#   carries the facts in its input; a unit test, whose input is written by hand,
#   gets them worked out from input.request.
package regent.lib.facts

_facts := input.facts if {
	input.facts
} else := data.regent.world.facts(input.request, object.get(input, "environment", {}))

# METADATA
# description: the commands and what could not be read of them
default command := {"nodes": [], "by_program": {}, "problems": []}

command := _facts.command

# METADATA
# description: the plain names of all programs
default programs := []

programs := _facts.programs

# METADATA
# description: the paths read, written and not resolved
default paths := {"read": [], "write": [], "unresolved": []}

paths := _facts.paths

# METADATA
# description: the hosts named
default hosts := []

hosts := _facts.hosts

# METADATA
# description: the tool, by name, server and catalogue entry
default tool := {"listed": false, "mcp": false, "key": "", "server": "", "tool": ""}

tool := _facts.tool
