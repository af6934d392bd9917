# METADATA
# title: Rules to start from
# description: |
#   A call that a deny rule matches does not happen. One that an ask rule matches
#   is put to a person. Each message is shown to whoever has to understand why.
package rules.starter

import data.regent.lib.command

# METADATA
# title: No force push
# description: Rewriting a shared branch loses what others have pushed.
# custom:
#   id: STARTER-001
#   severity: high
deny contains "a force push rewrites what others have pushed; use --force-with-lease" if {
	some call in command.invocations("git")
	"push" in call.args
	_forces(call)
}

# METADATA
# title: Publishing a package needs a person
# description: A published version can hardly be taken back.
# custom:
#   id: STARTER-002
#   severity: high
ask contains sprintf("%s %s publishes a package", [program, verb]) if {
	some program, verbs in _publishing
	some call in command.invocations(program)
	some verb in verbs
	verb in call.args
}

# METADATA
# title: Throwing away work needs a person
# description: Changes that were never committed cannot be brought back.
# custom:
#   id: STARTER-003
#   severity: medium
ask contains "this throws away changes that were not committed" if {
	some call in command.invocations("git")
	_discards(call)
}

_publishing := {
	"cargo": {"publish"},
	"gem": {"push"},
	"npm": {"publish"},
	"pnpm": {"publish"},
	"twine": {"upload"},
	"yarn": {"publish"},
}

_forces(call) if {
	some flag in {"--force", "-f", "--mirror"}
	flag in call.flags
}

# A leading plus sign forces that one branch.
_forces(call) if {
	some arg in call.args
	startswith(arg, "+")
}

_discards(call) if {
	"reset" in call.args
	"--hard" in call.flags
}

_discards(call) if {
	"clean" in call.args
	some flag in {"-f", "--force"}
	flag in call.flags
}
