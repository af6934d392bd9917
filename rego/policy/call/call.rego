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
# description: the set of effects, sorted; never empty
effects := sort(_all)

# A bare command is what most calls are; the general case unites three sets.
_all := commands.whole if {
	_only_command
} else := ({e | some e in tools.call.effects} | _command) | _permissions

_only_command if {
	_carries_command
	tools.call.effects == []
	not input.request.permissions
}

_carries_command if tools.call.command == true

default _command := set()

_command := commands.whole if _carries_command

default _permissions := set()

_permissions := _asked if input.request.permissions

_asked contains "network" if input.facts.permissions.network

_asked contains "write" if input.facts.permissions.write

_asked contains "read" if input.facts.permissions.read

_asked contains "unknown" if input.facts.permissions.problem

# METADATA
# description: true when the call leaves this machine or comes from an MCP server
default external := false

external if tools.call.external == true

external if {
	_carries_command
	"network" in commands.whole
}

external if input.facts.permissions.network

# METADATA
# description: true when the call certainly only reads, on this machine
default read_only := false

read_only if {
	_all == {"read"}
	not external
	not input.request.permissions
	not _escalated
}

# Absence is false: the reference stays inside the helper that is negated.
_escalated if input.request.escalated

_escalated if input.facts.tool.escalated

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
	read_only
	not _carries_command
	input.request.kind == "tool"
	input.facts.tool.listed
}

skip := "permissions.read_only_commands is skip, and every command certainly only reads" if {
	read_only
	_carries_command
	data.regent.settings.read_only_commands == "skip"
}
