# METADATA
# title: Force pushes
# description: >-
#   History that other people build on is neither rewritten nor deleted by an
#   agent. Which branches are protected is in data.yaml.
package rules.git

import data.regent.lib.command

# METADATA
# title: No force push to a protected branch
# custom:
#   id: GIT-001
#   severity: high
deny contains sprintf("this push rewrites or deletes the protected branch %s", [branch]) if {
	some push in command.subcommand("git", ["push"])
	some branch in _rewritten(push)
	_protected(branch)
}

# METADATA
# title: No force push of all branches at once
# custom:
#   id: GIT-001
#   severity: high
deny contains "this push rewrites every branch, the protected ones too" if {
	some push in command.subcommand("git", ["push"])
	_of_everything(push)
}

# METADATA
# title: A force push that does not name its branch needs a person
# custom:
#   id: GIT-002
#   severity: medium
ask contains "this push may rewrite a protected branch: the command does not tell which branch it is" if {
	some push in command.subcommand("git", ["push"])
	_unclear(push)
}

# Each of these lets a push replace or remove what is on the other side.
_forcing := {"--force", "-f", "--force-with-lease", "--mirror", "--delete", "-d", "--prune"}

_forced(push) if {
	some flag in push.flags
	flag in _forcing
}

_of_everything(push) if "--mirror" in push.flags

_of_everything(push) if {
	_forced(push)
	some flag in push.flags
	flag in {"--all", "--branches"}
}

_of_everything(push) if {
	some branch in _rewritten(push)
	branch in {"", "*"}
}

# The first operand is the remote, the others are refspecs.
_refspecs(push) := array.slice(push.operands, 1, count(push.operands))

# A refspec with a plus is forced by itself, one that starts with a colon deletes.
# A colon alone pushes what both sides have, and forces nothing.
_rewritten(push) := {_target(spec) | some spec in _refspecs(push)} if {
	_forced(push)
} else := {_target(spec) |
	some spec in _refspecs(push)
	strings.any_prefix_match(spec, ["+", ":"])
	spec != ":"
}

_target(spec) := trim_prefix(regex.replace(spec, `^.*:|^\+`, ""), "refs/heads/")

# Without a list every branch counts as protected.
_protected(_) if not data.rules.git.protected

_protected(branch) if {
	some pattern in data.rules.git.protected
	glob.match(pattern, null, branch)
}

# A pattern of the push stands for each branch that it matches.
_protected(branch) if {
	contains(branch, "*")
	some pattern in data.rules.git.protected
	glob.match(branch, null, pattern)
}

_unclear(push) if {
	_forced(push)
	not _of_everything(push)
	count(_refspecs(push)) == 0
}

_unclear(push) if {
	some branch in _rewritten(push)
	branch in {"HEAD", "@"}
}

# What the shell fills in may be a branch, or an option such as --force.
_unclear(push) if {
	some arg in push.args
	regex.match(`[$\x60]`, arg)
}

_unclear(push) if push.open_ended

# Settings can name what is pushed, plus sign and all.
_unclear(push) if {
	some flag in push.flags
	flag in {"-c", "--config-env"}
}
