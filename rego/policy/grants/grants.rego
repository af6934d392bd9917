# METADATA
# title: Grants
# description: >-
#   Whether a call of a native host stays within the permissions that a person or a
#   reviewer granted its turn or session before. Commands never do: what a program
#   goes on to reach cannot be told from its words. Neither does anything that is
#   not understood completely.
# schemas:
#   - input: schema.request
package regent.grants

import data.regent.tools

# METADATA
# description: |
#   true when everything that the call does is within what is held; undefined
#   otherwise, and always where nothing is held
cover if {
	input.facts.granted.permissions == true
	input.facts.tool.harness == "native"
	_nameable
	_understood
	not _escalated
	count(tools.call.effects) > 0
	every effect in tools.call.effects {
		_within(effect)
	}
	not _elsewhere
}

# A call of a tool that does nothing but what its entry says, or a change of files
# that are all named.
_nameable if {
	input.request.kind == "tool"
	input.facts.tool.listed == true
	not _carries_more
}

_nameable if {
	input.request.kind == "file_change"
	input.request.changes[0]
	not _opens_folder
	_known_tool
}

_carries_more if input.request.command

_carries_more if input.request.changes

_carries_more if input.request.network

_carries_more if _opens_folder

_opens_folder if input.request.grant_root

_known_tool if input.facts.tool.name == ""

_known_tool if input.facts.tool.listed == true

_understood if {
	input.facts.tool.mcp == false
	input.facts.tool.problems == []
	input.facts.tool.raised == []
	input.facts.tool.inner == []
	input.facts.tool.commands == []
}

_escalated if input.request.escalated == true

_escalated if input.facts.tool.escalated == true

_within("read") if input.facts.granted.read == true

# To read with a tool of the host needs nobody's answer, as long as nothing more is
# asked for than is held.
_within("read") if {
	input.request.kind == "tool"
	every effect in tools.call.effects {
		effect == "read"
	}
	tools.call.external == false
}

_within("write") if input.facts.granted.write == true

_within("network") if input.facts.granted.network == true

# It leaves this machine in another way than by a connection to a host.
_elsewhere if {
	tools.call.external == true
	not "network" in tools.call.effects
}
