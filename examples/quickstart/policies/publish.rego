# METADATA
# title: Publishing
# description: >-
#   What is published cannot be taken back. The commands that publish packages,
#   images and releases are in data.yaml.
package rules.publish

import data.regent.lib.command

# METADATA
# title: Publishing needs a person
# custom:
#   id: PUB-001
#   severity: high
ask contains sprintf("%s publishes what cannot be taken back", [concat(" ", array.concat([program], words))]) if {
	some node in command.all
	not _rehearsed(node)
	some [program, said] in _calls(node)
	some words in data.rules.publish.commands[program]
	array.slice(said, 0, count(words)) == words
}

# METADATA
# title: A build that pushes its image needs a person
# custom:
#   id: PUB-001
#   severity: high
ask contains sprintf("%s builds an image and publishes it", [node.program]) if {
	some node in command.all
	node.program in {"buildah", "docker", "nerdctl", "podman"}
	"--push" in node.flags
}

# Each program that a command starts, with the words that it is given: options
# are left out.
_calls(node) := union({{[node.program, _words(node)]}, _by_runner(node), _by_module(node)})

_words(node) := array.concat(node.subcommand, node.operands)

# npx semantic-release, poetry run twine upload: the words name a program.
_by_runner(node) := {[said[n], array.slice(said, n + 1, count(said))] |
	some runner in data.rules.publish.runners
	runner[0] == node.program
	said := array.concat([node.program], _words(node))
	n := count(runner)
	n < count(said)
	array.slice(said, 0, n) == runner
}

# python -m twine upload
_by_module(node) := {[node.args[i + 1], words] |
	startswith(node.program, "python")
	some i, "-m" in node.args
	words := [w | some j, w in node.args; j > i + 1; not startswith(w, "-")]
}

_rehearsed(node) if "--dry-run" in node.args
