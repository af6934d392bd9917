# METADATA
# title: Call
# description: >-
#   What a call does: the effects of the tool itself, united with those of every
#   command that it carries and of the permissions that it asks for.
# schemas:
#   - input: schema.request
package regent.call

import data.regent.effects as commands
import data.regent.tools

# METADATA
# description: |
#   effects (a set, never empty), external (the call leaves this machine or comes
#   from an MCP server) and read_only (it certainly only reads, on this machine)
outcome := {
	"effects": commands.whole,
	"external": "network" in commands.whole,
	"read_only": commands.whole == {"read"},
} if {
	# A bare command is what most calls are; the general case unites three sets.
	input.request.kind == "command"
	input.facts.tool.name == ""
	input.facts.tool.problems == []
	input.facts.more == false
} else := {
	"effects": _effects,
	"external": _external,
	"read_only": _read_only,
}

_carries_command if tools.call.command == true

# Permissions that amount to nothing leave no effect at all, and what a request is
# for then cannot be told.
_effects := found if {
	found := ({e | some e in tools.call.effects} | _command) | _permissions
	found != set()
} else := {"unknown"}

default _command := set()

_command := commands.whole if _carries_command

default _permissions := set()

_permissions := _asked if input.request.permissions

_asked contains "network" if input.facts.permissions.network

_asked contains "write" if input.facts.permissions.write

_asked contains "read" if input.facts.permissions.read

_asked contains "unknown" if input.facts.permissions.problem

default _external := false

_external if tools.call.external == true

_external if "network" in _command

_external if input.facts.permissions.network

default _read_only := false

_read_only if {
	_effects == {"read"}
	not _external
	input.facts.more == false
}

# METADATA
# description: why, node by node
why := array.concat(tools.call.why, _command_why)

default _command_why := []

_command_why := commands.command.why if _carries_command

# METADATA
# description: the commands that the call carries, each with its effects
default nodes := []

nodes := commands.nodes if _carries_command

# METADATA
# description: why nobody needs to answer; undefined when somebody does
skip := "a tool of the harness that only reads on this machine" if {
	input.request.kind == "tool"
	outcome.read_only
	not _carries_command
	input.facts.tool.listed
}

skip := "permissions.read_only_commands is skip, and every command certainly only reads" if {
	data.regent.settings.read_only_commands == "skip"
	outcome.read_only
	_carries_command
}
