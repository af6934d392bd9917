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
effects := sort(_effects)

_effects := (_tool | _command) | _permissions

_tool := {e | some e in tools.call.effects}

default _command := set()

_command := {e | some e in commands.command.effects} if tools.call.command

default _permissions := set()

_permissions := {e | some e in _asked} if input.request.permissions

_asked contains "network" if input.facts.permissions.network

_asked contains "write" if input.facts.permissions.write

_asked contains "read" if input.facts.permissions.read

_asked contains "unknown" if input.facts.permissions.problem

# METADATA
# description: true when the call leaves this machine or comes from an MCP server
default external := false

external if tools.call.external

external if {
	tools.call.command
	commands.command.external
}

external if input.facts.permissions.network

# METADATA
# description: true when the call certainly only reads, on this machine
default read_only := false

read_only if {
	_effects == {"read"}
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

_command_why := commands.command.why if tools.call.command

# METADATA
# description: the commands that the call carries, each with its effects
default nodes := []

nodes := commands.nodes if tools.call.command

# METADATA
# description: why nobody needs to answer; undefined when somebody does
skip := "a tool of the harness that only reads on this machine" if {
	read_only
	not tools.call.command
	input.request.kind == "tool"
	input.facts.tool.listed
}

skip := "permissions.read_only_commands is skip, and every command certainly only reads" if {
	read_only
	tools.call.command
	data.regent.settings.read_only_commands == "skip"
}
