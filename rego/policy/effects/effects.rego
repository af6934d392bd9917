# METADATA
# title: What a command does
# description: >-
#   The effects of each simple command of a shell text, and of the whole text:
#   their union. What is not certainly known is unknown, and only a text whose
#   every part is known to read and do nothing else is read-only. The facts come
#   from the grammars in data.regent.catalog.commands; what they amount to is
#   decided here.
package regent.effects

import data.regent.catalog.commands as table
import data.regent.world

# METADATA
# title: The whole text
# description: >-
#   effects (sorted), external (something leaves this machine), read_only (it reads
#   and does nothing else for certain), and why (what adds an effect beyond
#   reading). Without facts nothing is known.
default command := {
	"effects": ["unknown"],
	"external": false,
	"read_only": false,
	"why": ["there are no facts about the command"],
}

command := _answer(whole, input.facts.command.summary)

# METADATA
# title: The effects of the whole text
# description: >-
#   The set alone, for decisions that need no reasons. It passes by what a text
#   does not have. Reading is the least that anything does, an empty text too;
#   without facts nothing is known.
default whole := {"unknown"}

whole := _found if {
	_found != set()
} else := {"read"} if {
	# The nodes stay untouched: naming them here would turn all into values.
	is_object(input.facts.command.summary)
}

_found contains effect if {
	input.facts.command.summary.uses[0]
	some use in input.facts.command.summary.uses
	some effect in _listed(use)
}

_found contains "read" if input.facts.command.summary.reads == true

_found contains "unknown" if input.facts.command.problems[0]

_found contains "unknown" if input.facts.command.summary.problems[0]

_found contains "process" if input.facts.command.summary.standing != ""

_found contains "write" if input.facts.command.summary.writes[0]

_found contains "network" if input.facts.command.summary.sockets[0]

_found contains effect if {
	input.facts.command.summary.assigns[0]
	some assign in input.facts.command.summary.assigns
	some effect in _assigned(assign)
}

_found contains effect if {
	input.facts.command.summary.repositories[0]
	some repository in input.facts.command.summary.repositories
	some effect in _configured(repository)
}

# METADATA
# title: Node by node
# description: The effects of each simple command by itself, in the order of the text.
nodes := [
{
	"index": index,
	"program": object.get(facts, "program", object.get(facts, "name", "")),
	"line": object.get(facts, "line", 0),
	"effects": sort(_effects(facts)),
	"why": sort(_why(facts)),
} |
	some index, facts in input.facts.command.nodes
]

_answer(effects, _) := {"effects": ["read"], "external": false, "read_only": true, "why": []} if {
	effects == {"read"}
}

_answer(effects, facts) := {
	"effects": sort(effects),
	"external": "network" in effects,
	"read_only": false,
	"why": sort(_why(facts) | {problem.message | some problem in _problems}),
} if {
	effects != {"read"}
}

_problems := object.get(input.facts.command, "problems", [])

_effects(facts) := _or_read(union({
	{effect | some use in facts.uses; some effect in _listed(use)},
	{"write" | some path in facts.writes; not path.sink},
	{"network" | some redirect in facts.redirects; redirect.socket},
	{"process" | facts.standing != ""},
	{effect | some assign in facts.assigns; some effect in _assigned(assign)},
	{effect | some repository in facts.repositories; some effect in _configured(repository)},
	{"unknown" | some _ in facts.problems},
}))

_why(facts) := union({
	{sprintf("%s: %s", [use, concat(", ", effects)]) |
		some use in facts.uses
		effects := _listed(use)
		effects != ["read"]
	},
	{sprintf("writes %s", [path.word]) | some path in facts.writes; not path.sink},
	{sprintf("connects to %s", [redirect.target]) | some redirect in facts.redirects; redirect.socket},
	{sprintf("connects to %s", [socket]) | some socket in facts.sockets},
	{sprintf("sets the variable %s", [assign.name]) | some assign in facts.assigns; _assigned(assign) != set()},
	{reason | some repository in facts.repositories; some reason in _configuration(repository)},
	{problem | some problem in facts.problems},
})

_or_read(found) := {"read"} if found == set()

_or_read(found) := found if found != set()

# A key that the catalogue lacks means that facts and catalogue do not belong
# together.
_listed(use) := effects if {
	effects := table[use].effects
} else := ["unknown"]

# A variable steers the programs that see it. Only a few are known to change
# nothing but looks; a lasting assignment to a name of no meaning is data of the
# shell.
_assigned(assign) := set() if {
	_is_cosmetic(assign)
} else := {"process", "unknown"} if {
	_steers(assign.name)
} else := set() if {
	assign.bare
	object.get(assign, "kind", "literal") in {"literal", "parameter", "glob", "substitution"}
	not contains(assign.name, "[")
} else := {"unknown"}

_is_cosmetic(assign) if {
	_is_literal(assign)
	strings.any_prefix_match(assign.name, _cosmetic_prefixes)
	not contains(assign.value, "/")
}

_is_cosmetic(assign) if {
	_is_literal(assign)
	assign.name in _cosmetic_names
	not contains(assign.value, "/")
}

# A zone is a name such as Europe/Paris; a path or a colon would name a file.
_is_cosmetic(assign) if {
	_is_literal(assign)
	assign.name == "TZ"
	not strings.any_prefix_match(assign.value, ["/", ":", "."])
	not contains(assign.value, "..")
}

_is_cosmetic(assign) if {
	_is_literal(assign)
	assign.value in _cosmetic_values[assign.name]
}

_is_literal(assign) if {
	object.get(assign, "kind", "literal") == "literal"
	object.get(assign, "append", false) == false
}

_cosmetic_prefixes := ["LC_"]

_cosmetic_names := {
	"CLICOLOR",
	"CLICOLOR_FORCE",
	"COLUMNS",
	"FORCE_COLOR",
	"LANG",
	"LANGUAGE",
	"LINES",
	"NO_COLOR",
	"TERM",
}

# Settings that switch something off, by the values that do.
_cosmetic_values := {
	"GIT_OPTIONAL_LOCKS": {"0"},
	"GIT_PAGER": {"", "cat"},
	"GIT_TERMINAL_PROMPT": {"0"},
	"MANPAGER": {"", "cat"},
	"PAGER": {"", "cat"},
	"PYTHONDONTWRITEBYTECODE": {"1"},
}

_steers(name) if name in _steering_names

_steers(name) if strings.any_prefix_match(name, _steering_prefixes)

_steers(name) if strings.any_suffix_match(name, _steering_suffixes)

_steering_names := {
	"BROWSER",
	"EDITOR",
	"ENV",
	"HISTFILE",
	"HOME",
	"HOSTALIASES",
	"IFS",
	"KUBECONFIG",
	"NULLCMD",
	"OPTIND",
	"PAGER",
	"POSIXLY_CORRECT",
	"PROMPT",
	"PS0",
	"PS1",
	"PS2",
	"PS4",
	"PWD",
	"OLDPWD",
	"READNULLCMD",
	"SHELL",
	"SHELLOPTS",
	"TMPDIR",
	"TMPPREFIX",
	"VISUAL",
	"ZDOTDIR",
	"_",
	"aliases",
	"cdpath",
	"commands",
	"fpath",
	"functions",
	"histchars",
	"module_path",
	"path",
	"prompt",
}

_steering_prefixes := [
	"AWK",
	"BASH",
	"CARGO_",
	"CURL_",
	"DOCKER_",
	"DYLD_",
	"GCONV_",
	"GIT_",
	"GLIBC_",
	"GNUPG",
	"GREP_",
	"JAVA_",
	"JDK_",
	"LD_",
	"LESS",
	"MALLOC_",
	"NODE_",
	"NPM_",
	"PERL",
	"PROMPT_",
	"PYTHON",
	"RIPGREP_",
	"RUBY",
	"RUSTC",
	"SSH_",
	"TERMINFO",
	"XDG_",
	"_JAVA",
	"npm_",
]

_steering_suffixes := [
	"FLAGS",
	"OPTIONS",
	"OPTS",
	"PATH",
	"_COMMAND",
	"_CONFIG",
	"_CONFIG_FILE",
	"_EDITOR",
	"_OPT",
	"_PAGER",
	"_PRELOAD",
	"_PROXY",
	"_WRAPPER",
	"_proxy",
]

# Git starts programs that the configuration of a repository names, whatever the
# sub-command. A repository that cannot be looked at may name any.
_configured(repository) := set() if {
	_report(repository).inert == true
} else := {"process"} if {
	report := _report(repository)
	report.inert == false
	object.get(report, "unknown", false) == false
} else := {"process", "unknown"}

_configuration(repository) := set() if {
	_report(repository).inert == true
} else := {sprintf("the repository may start programs: %s", [reason]) |
	some reason in _report(repository).reasons
} if {
	count(_report(repository).reasons) > 0
} else := {"the configuration of the repository cannot be told"}

_report(repository) := world.git(repository.dir) if {
	object.get(repository, "unknown", false) == false
}
