# METADATA
# title: What a tool does
# description: >-
#   The effects of a call by the tables of tools alone. Commands in the arguments
#   are judged elsewhere: call.command says that their effects must be united
#   with these. A name that no table has, and a call that was not understood
#   completely, is unknown.
# schemas:
#   - input: schema.request
package regent.tools

import data.regent.catalog.tools as table

# METADATA
# title: The call
# description: >-
#   effects (sorted; empty for a call that does nothing but run the commands in
#   it, or that only asks for permissions), external (it leaves this machine or an MCP
#   server answers it), command (unite with the effects of the commands), and
#   why (what adds an effect beyond reading).
default call := {
	"effects": ["unknown"],
	"external": true,
	"command": false,
	"why": ["there are no facts about the tool"],
}

# The first three are what most calls need, and no more than a look-up.
call := {"effects": [], "external": false, "command": true, "why": []} if {
	input.facts.tool.name == ""
	input.request.kind == "command"
	input.facts.tool.problems == []
	input.facts.tool.commands[0]
} else := _entry(input.facts.tool).run if {
	input.facts.tool.plain
	input.facts.tool.commands[0]
} else := _entry(input.facts.tool).alone if {
	input.facts.tool.plain
} else := {
	"effects": sort(union({part.effects | some part in parts}) | _around),
	"external": _leaves(parts),
	"command": count(input.facts.tool.commands) > 0,
	"why": sort(union({part.why | some part in parts}) | _faults),
} if {
	parts := [_part(one) | some one in _calls]
}

# A call that is made of others is judged by them.
_calls := input.facts.tool.inner if {
	count(input.facts.tool.inner) > 0
} else := [input.facts.tool]

default _leaves(_) := false

_leaves(parts) if {
	some part in parts
	part.external
}

_leaves(_) if "network" in _around

# What the call touches by its arguments and by the rest of the request, whatever
# its tool is.
_around contains "read" if count(input.facts.tool.reads) > 0

_around contains "write" if count(input.facts.tool.writes) > 0

_around contains "write" if input.request.kind == "file_change"

_around contains "network" if count(input.facts.tool.hosts) > 0

_around contains "network" if count(input.facts.tool.urls) > 0

_around contains "network" if input.request.kind == "network"

_around contains "unknown" if count(_faults) > 0

_faults := {problem | some problem in input.facts.tool.problems}

# One call of one tool. The last branch is for what no other one knows.
_part(one) := {"effects": set(), "external": false, "why": set()} if {
	one.name == ""
	not input.request.tool
} else := part if {
	one.mcp
	part := _served(one)
} else := part if {
	one.listed
	part := _listed(one, _entry(one))
} else := {
	"effects": {"unknown"},
	"external": true,
	"why": {reason |
		# The problems of the facts say so already.
		count(object.get(one, "problems", [])) == 0
		reason := sprintf("tool %q is not in the catalogue", [object.get(one, "name", "")])
	},
}

_entry(one) := table[one.harness][one.key] if {
	one.variant == ""
} else := table[one.harness][one.key].variants[one.variant]

_listed(one, entry) := {
	"effects": (effects | {e | some name in one.raised; some e in _raise(entry, name).effects}),
	"external": _outside(one, entry),
	"why": (_because(one, effects) | {_raised_why(one, entry, name) | some name in one.raised}),
} if {
	effects := _own(one, entry)
}

# A command that was understood speaks for itself: that a process runs it adds
# nothing. Where any argument was not understood, the table's word stands.
_own(one, entry) := {e | some e in entry.effects; e != "process"} if {
	_understood(one)
} else := {e | some e in entry.effects}

_understood(one) if {
	count(one.commands) > 0
	count(one.problems) == 0
}

_because(one, effects) := {sprintf("%s: %s", [one.key, concat(", ", sort(effects))])} if {
	effects - {"read"} != set()
} else := set()

_raised_why(one, entry, name) := sprintf("argument %s of %s: %s", [name, one.key, concat(", ", effects)]) if {
	effects := _raise(entry, name).effects
}

default _outside(_, _) := true

_outside(one, entry) := false if {
	_inside(one, entry)
	not _raised_outside(one, entry)
}

_inside(_, entry) if entry.external == "false"

# The command decides, and its own facts say how.
_inside(one, entry) if {
	entry.external == "possible"
	_understood(one)
}

_raised_outside(one, entry) if {
	some name in one.raised
	_raise(entry, name).external
}

_raise(entry, name) := object.get(entry, ["raises", name], {"effects": ["unknown"], "external": true})

# The tools of MCP servers. What the server says of them may raise a class. It
# lowers it only when the server is trusted by name, and the call stays external
# even then.
_served(one) := {
	"effects": (_claimed(one) | _hinted(one)),
	"external": true,
	"why": {_served_by(one)},
}

_claimed(one) := {"read"} if {
	_trusted(one)
	_reads(one)
} else := {"unknown"}

_trusted(one) if {
	one.server != ""
	one.server in data.regent.settings.trusted_mcp_servers
	count(one.problems) == 0
}

_reads(one) if {
	one.annotations.readOnlyHint == true
	object.get(one.annotations, "destructiveHint", false) == false
}

# A hint that is missing counts as the worse answer.
_hinted(one) := union({
	{"write" | not _reads(one)},
	{"network" | one.annotations.openWorldHint == true},
})

_served_by(one) := sprintf("the MCP server %s answers %s", [one.server, one.tool]) if {
	one.server != ""
} else := sprintf("an MCP server that is not known answers %s", [one.tool])
