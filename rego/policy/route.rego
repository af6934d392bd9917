# METADATA
# title: Route
# description: >-
#   Who answers a request. Every layer's rules are combined here, deny first, and
#   the default route by mode and effect applies where no rule speaks. Nothing
#   above this file can make an undefined answer mean permission: what is not
#   settled below is asked.
# schemas:
#   - input: schema.request
package regent

import data.regent.call
import data.regent.layers

# METADATA
# description: the whole answer as one object, so that one query settles a request
# entrypoint: true
route := {
	"route": _decision.route,
	"reasons": _decision.reasons,
	"reviewers": _decision.reviewers,
	"effects": call.effects,
	"external": call.external,
	"read_only": call.read_only,
	"matches": _enforced,
	"observed": _observed,
	"builtin": _builtin,
	"ceilings": [c | some c in layers.ceiling],
	"context": [m | some m in layers.context; m.mode == "enforce"],
}

_enforced := {name: found |
	some name in ["deny", "ask", "review", "allow"]
	found := [m | some m in layers[name]; m.mode == "enforce"]
	count(found) > 0
}

_observed := [m |
	some name in ["deny", "ask", "review", "allow", "context"]
	some m in layers[name]
	m.mode != "enforce"
]

# Built-in reasons, by what they lead to. They stand beside the rules of the
# layers and no rule can lift them.
_builtin := {"deny": _refusals, "ask": _guards}

default _refusals := []

_refusals := [reason | some reason in _refusal] if _may_refuse

# Most requests carry none of the three fields that a refusal needs.
_may_refuse if input.request.host_allows == false

_may_refuse if input.request.kind == "permissions"

_refusal contains "the host's own access list refuses this call" if input.request.host_allows == false

_refusal contains "approval_policy is never: no further permissions are granted" if {
	input.request.kind == "permissions"
	data.regent.settings.approval_policy == "never"
}

_refusal contains "approval_policy.granular.request_permissions is off: no further permissions are granted" if {
	input.request.kind == "permissions"
	data.regent.settings.approval_policy == "granular"
	not data.regent.settings.granular.request_permissions
}

_guards := array.concat(_human, array.concat(_self, _malformed))

default _human := []

_human := ["only a person may answer this request"] if input.request.human_only

# Regent guards itself: what an epoch was made from, and the files that make an
# agent ask at all, do not change without a person.
_self := array.concat(
	[sprintf("this would write to %s, which Regent's own decisions depend on", [p]) |
		some p in input.facts.guard.writes
	],
	[sprintf("this may write to %s, which Regent's own decisions depend on", [m.path]) |
		some m in input.facts.guard.mentions
		call.nodes[m.node].effects != ["read"]
	],
)

# An allow that does not say what it allows is not an explicit allow.
_malformed := [sprintf("rule %s allows with a value that is neither a message nor an object with one", [m.id]) |
	some m in _enforced.allow
	not _message(m.value)
]

_message(value) if is_string(value)

_message(value) if is_string(value.message)

_decision := {"route": "deny", "reasons": _reasons("deny"), "reviewers": []} if {
	_says("deny")
} else := {"route": "ask", "reasons": _reasons("ask"), "reviewers": []} if {
	_says("ask")
} else := _review(_named_reviewers, _reasons("review")) if {
	_says("review")
} else := {"route": "allow", "reasons": _reasons("allow"), "reviewers": []} if {
	_says("allow")
} else := _default

_says(name) if count(_enforced[name]) > 0

_says(name) if count(_builtin[name]) > 0

_reasons(name) := array.concat(
	[r | some r in _builtin[name]],
	[_text(m.value) | some m in _enforced[name]],
)

_text(value) := value if is_string(value)

_text(value) := value.message if is_string(value.message)

_text(value) := json.marshal(value) if {
	not is_string(value)
	not _message(value)
}

# A review that names no reviewer goes to the configured one.
_named_reviewers := named if {
	named := [r | some m in _enforced.review; some r in m.value.reviewers]
	count(named) > 0
} else := [data.regent.settings.reviewer]

# One missing reviewer is enough to ask: which opinion would have counted is not
# for Regent to guess.
_review(reviewers, reasons) := {"route": "review", "reasons": reasons, "reviewers": reviewers} if {
	count(reviewers) > 0
	every r in reviewers {
		data.regent.settings.reviewers[r]
	}
} else := {"route": "ask", "reasons": array.concat(reasons, missing), "reviewers": []} if {
	missing := [sprintf("reviewer %v is not configured, so a person is asked", [r]) |
		some r in reviewers
		not data.regent.settings.reviewers[r]
	]
}

# The default route, by mode and effect.
_default := {"route": "skip", "reasons": [call.skip], "reviewers": []} if {
	call.skip
} else := {"route": "allow", "reasons": ["permissions.mode is auto_allow"], "reviewers": []} if {
	_native
	data.regent.settings.mode == "auto_allow"
} else := _review([data.regent.settings.reviewer], ["permissions.mode is model_review"]) if {
	_native
	data.regent.settings.mode == "model_review"
} else := {"route": "ask", "reasons": ["permissions.mode is manual"], "reviewers": []} if {
	_native
	data.regent.settings.mode == "manual"
} else := {"route": "allow", "reasons": ["permissions.harness_mode is auto_allow"], "reviewers": []} if {
	not _native
	data.regent.settings.harness_mode == "auto_allow"
	_known
} else := {"route": "ask", "reasons": ["permissions.harness_mode is auto_allow, but this request is of no kind that it covers"], "reviewers": []} if {
	not _native
	data.regent.settings.harness_mode == "auto_allow"
} else := {"route": "ask", "reasons": ["permissions.harness_mode is manual"], "reviewers": []} if {
	not _native
	data.regent.settings.harness_mode == "manual"
} else := {"route": "ask", "reasons": ["no mode settles this request"], "reviewers": []}

_native if not input.request.harness

_native if input.request.harness.name == "native"

# What automatic acceptance covers on a harness: a question whose content is
# there and of a kind that is understood. Elicitations and forms are not.
_known if {
	input.request.kind == "command"
	input.request.command
}

_known if {
	input.request.kind == "file_change"
	count(input.request.changes) > 0
	not input.request.grant_root
}

_known if input.request.kind == "permissions"

_known if input.request.kind == "network"

_known if {
	input.request.kind == "tool"
	input.facts.tool.listed
}
