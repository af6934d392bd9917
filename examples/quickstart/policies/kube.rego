# METADATA
# title: Kubernetes
# description: >-
#   Commands for a production cluster wait for a person. Which contexts are
#   production is in data.yaml.
package rules.kube

import data.regent.lib.command

# METADATA
# title: Production clusters need a person
# custom:
#   id: K8S-001
#   severity: critical
ask contains sprintf("%s is for %s, a production context", [node.program, context]) if {
	some program in _clients
	some node in command.invocations(program)
	some context in _contexts(node)
	_production(context)
}

# METADATA
# title: Clusters that the command does not name need a person
# custom:
#   id: K8S-002
#   severity: medium
ask contains sprintf("%s works on whatever cluster is current, which may be production", [node.program]) if {
	some program in _clients
	some node in command.invocations(program)
	_unclear(node)
	not _local(node)
}

_clients := {"flux", "helm", "istioctl", "k9s", "kubectl", "kubectx", "oc", "stern", "velero"}

# The options that choose a cluster.
_choosing := {"--cluster", "--context", "--kube-context"}

# Every context that the command names.
_contexts(node) := union({_given(node), _glued(node), _made_current(node)})

# --context x
_given(node) := {node.args[i + 1] | some i, arg in node.args; arg in _choosing}

# --context=x
_glued(node) := {substring(arg, count(option) + 1, -1) |
	some arg in node.args
	some option in _choosing
	startswith(arg, concat("", [option, "="]))
}

_made_current(node) := {words[2]} if {
	words := _words(node)
	array.slice(words, 0, 2) == ["config", "use-context"]
} else := {context | some context in node.operands} if {
	node.program == "kubectx"
} else := set()

# Without a list every context counts as production.
_production(_) if not data.rules.kube.production

_production(context) if {
	some pattern in data.rules.kube.production
	glob.match(pattern, null, lower(context))
}

_unclear(node) if count(_contexts(node)) == 0

# Another configuration may call any cluster by any name.
_unclear(node) if {
	some flag in node.flags
	flag in {"--kubeconfig", "--server", "-s"}
}

_unclear(node) if {
	some assign in node.assigns
	assign.name == "KUBECONFIG"
}

_unclear(node) if {
	some context in _contexts(node)
	regex.match(`[$\x60]`, context)
}

# What talks to no cluster.
_local(node) if {
	some words in data.rules.kube.local[node.program]
	array.slice(_words(node), 0, count(words)) == words
}

# Help.
_local(node) if {
	some flag in node.flags
	flag in {"--help", "-h"}
}

# What follows the program, options left out.
_words(node) := array.concat(node.subcommand, node.operands)
