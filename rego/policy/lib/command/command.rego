# METADATA
# title: Commands
# description: >-
#   The simple commands of a call, wherever they stand in its text: lists, pipes,
#   loops, substitutions, and behind wrappers such as env, sudo, xargs or bash -c.
package regent.lib.command

import data.regent.lib.facts

# METADATA
# description: |
#   every use of a program, by its plain name, as an object of commands: {"program",
#   "args", "flags", "operands", "subcommand", "line", ...}; empty where there is none
invocations(program) := object.get(facts.all.command.by_program, program, {})

# METADATA
# description: true when the call runs the program at least once
runs(program) if program in facts.all.programs

# METADATA
# description: every command of the call, in order
all := facts.all.command.nodes

# METADATA
# description: the use of a program where its subcommand begins with these words, such as ["push"] or ["remote", "add"]
subcommand(program, words) := {node |
	some node in invocations(program)
	array.slice(node.subcommand, 0, count(words)) == words
}

# METADATA
# description: |
#   true when every command of the call begins with one of the given word lists
#   or certainly only reads, and none writes a file by redirection. The test that
#   an allow rule should make: a rule that looks at one command of a list must not
#   let the others through.
covered(prefixes) if {
	count(facts.all.command.nodes) > 0
	count(facts.all.command.problems) == 0
	every i, node in facts.all.command.nodes {
		_covered(i, node, prefixes)
	}
}

_covered(i, _, _) if data.regent.effects.nodes[i].effects == ["read"]

_covered(_, node, prefixes) if {
	some prefix in prefixes
	array.slice(_words(node), 0, count(prefix)) == prefix
	_plain(node)
}

# The name as written, so that ./npm is not npm.
_words(node) := array.concat([node.name], node.args) if {
	node.name != ""
} else := array.concat([node.program], node.args)

# Nothing around the command changes what it means, adds to it, or sends its
# output to a file.
_plain(node) if {
	count(object.get(node, "assigns", [])) == 0
	object.get(node, "open_ended", false) == false
	every r in object.get(node, "redirects", []) {
		_quiet(r)
	}
}

_quiet(redirect) if redirect.mode in {"none", "read"}

_quiet(redirect) if redirect.target == "/dev/null"

# METADATA
# description: true when some part of the call's text cannot be told, so that a rule about programs may miss one
unclear if count(facts.all.command.problems) > 0

unclear if {
	some node in facts.all.command.nodes
	node.program == ""
}
