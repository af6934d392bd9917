# METADATA
# title: Guards
# description: >-
#   What holds whatever the layers say: refusals that no rule can lift, and
#   questions that no allow and no mode can answer. Each rule begins with a test
#   that the index can look up, since most requests meet none of them.
# schemas:
#   - input: schema.request
package regent.guards

import data.regent.call

# METADATA
# description: why the request is denied
refusals contains "the host's own access list refuses this call" if input.request.host_allows == false

refusals contains "approval_policy is never: no further permissions are granted" if {
	input.request.kind == "permissions"
	data.regent.settings.approval_policy == "never"
}

refusals contains "approval_policy.granular.request_permissions is off: no further permissions are granted" if {
	input.request.kind == "permissions"
	data.regent.settings.approval_policy == "granular"
	not data.regent.settings.granular.request_permissions
}

refusals contains m.message if {
	input.facts.guard.barred == true
	some m in barred
}

# METADATA
# title: No agent decides for a person
# description: the call runs a command of Regent's own that answers a request or settles who may
# custom: {id: regent.guards.decides, severity: critical}
barred contains {"id": "regent.guards.decides", "message": message} if {
	input.facts.guard.barred == true
	some command in input.facts.guard.decides
	message := sprintf(
		"`%s` decides for a person, so no agent may run it; a person runs it in a terminal of their own",
		[command],
	)
}

# METADATA
# title: No agent reaches what decisions are given by
# description: the call would reach the daemon's socket or address, its ledger, or the files that say who may answer
# custom: {id: regent.guards.reaches, severity: critical}
barred contains {"id": "regent.guards.reaches", "message": message} if {
	input.facts.guard.barred == true
	some name in input.facts.guard.reaches
	message := sprintf(
		"%s is Regent's own, and no call may reach it; a person looks with `regent status` and `regent permission list`",
		[name],
	)
}

# METADATA
# description: why a person is asked
questions contains "only a person may answer this request" if input.request.human_only == true

# Regent guards itself: what an epoch was made from, and the files that make an
# agent ask at all, do not change without a person.
questions contains sprintf("this would write to %s, which Regent's own decisions depend on", [p]) if {
	input.facts.guard.touched == true
	some p in input.facts.guard.writes
}

questions contains sprintf("this may write to %s, which Regent's own decisions depend on", [m.path]) if {
	input.facts.guard.touched == true
	some m in input.facts.guard.mentions
	call.nodes[m.node].effects != ["read"]
}

# What may come to the same as what is barred, and cannot be told.
questions contains sprintf("this may run a command that decides for a person: %s", [what]) if {
	input.facts.guard.touched == true
	some what in input.facts.guard.may_decide
}

questions contains sprintf("this may reach what Regent's own decisions are given by: %s", [name]) if {
	input.facts.guard.touched == true
	some name in input.facts.guard.may_reach
}

questions contains sprintf("this hands on text that names `%s`, which no agent may run or reach", [name]) if {
	input.facts.guard.touched == true
	some name in input.facts.guard.named
	some effect in call.outcome.effects
	not effect in {"read", "write"}
}

# What is too long to be read as a whole may hide what a rule denies.
questions contains sprintf("the command was not read to its end: %s", [input.facts.guard.limit]) if {
	input.facts.guard.limit
}

# What the request would open cannot be told.
questions contains sprintf("the requested permissions cannot be understood: %s", [input.facts.permissions.problem]) if {
	input.facts.permissions.problem
}
