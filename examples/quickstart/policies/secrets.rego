# METADATA
# title: Secret files
# description: >-
#   Files that hold keys and passwords are not read by an agent, whichever program
#   or tool would read them. What counts as such a file is in data.yaml.
# schemas:
#   - input: schema.request
package rules.secrets

import data.regent.lib.command
import data.regent.lib.facts
import data.regent.lib.paths

# METADATA
# title: No secret files are read
# custom:
#   id: SEC-001
#   severity: critical
deny contains sprintf("this reads %s, which holds keys or passwords", [what]) if {
	some path in _read
	what := _secret(lower(path))
}

# What commands and tools read, as it is written, and where that leads to.
_read contains r.word if {
	some node in command.all
	not node.program in _lookers
	some r in node.reads
}

_read contains path if some path in facts.all.tool.reads

_read contains path if {
	some path in paths.read_targets(input.request)
	not paths.name(path) in _looked_at
}

# Whatever a program is given it may read: .env, --env-file=.env, @.env, HEAD:.env.
_read contains word if {
	some node in command.all
	not _names_only(node)
	some arg in node.args
	not contains(arg, "://")
	some word in regex.split("[=@:]", arg)
}

# What names files without looking into them.
_names_only(node) if node.program in _lookers

# What these start is a command of its own.
_names_only(node) if {
	node.program in {
		"bash", "command", "dash", "doas", "env", "eval", "exec", "ionice", "ksh", "nice",
		"nohup", "setsid", "sh", "stdbuf", "sudo", "time", "timeout", "watch", "xargs", "zsh",
	}
}

# Words that may be patterns; which of them are files is known.
_names_only(node) if node.program in {"awk", "egrep", "fgrep", "gawk", "grep", "jq", "rg", "sed", "yq"}

_names_only(node) if node.program in {"chmod", "chown", "echo", "mkdir", "mv", "printf", "rm", "touch", "trash"}

_names_only(node) if {
	node.program == "git"
	not _shows(node)
}

_shows(node) if {
	some word in node.subcommand
	word in {"blame", "cat-file", "diff", "show"}
}

# Programs that look at names, sizes and dates but into no file.
_lookers := {
	"[", "[[", "basename", "cd", "dirname", "du", "find",
	"ls", "readlink", "realpath", "stat", "test", "tree",
}

_looked_at contains paths.name(r.word) if {
	some node in command.all
	node.program in _lookers
	some r in node.reads
}

# What a path is called in the message; undefined for files that hold no secret.
_secret(path) := name if {
	name := paths.name(path)
	paths.matches(path, data.rules.secrets.files)
	not _harmless(path)
} else := sprintf("a file in %s", [folder]) if {
	folder := [f |
		some f in data.rules.secrets.folders
		contains(concat("", ["/", path, "/"]), concat("", ["/", f, "/"]))
	][0]
	not _harmless(path)
} else := sprintf("what %s matches", [name]) if {
	# A pattern of the shell, such as .e*, stands for each file that it matches.
	# One that is all wildcards names nothing in particular.
	name := paths.name(path)
	regex.match(`[*?\[]`, name)
	trim(name, "*?") != ""
	some file in data.rules.secrets.files
	not contains(file, "*")
	glob.match(name, null, file)
}

# Absence is inside: without a list nothing is harmless.
_harmless(path) if paths.matches(path, data.rules.secrets.harmless)
