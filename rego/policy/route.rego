# METADATA
# title: Route
# description: >-
#   Who answers a request. The rules of every layer are combined here, deny first,
#   and the default route by mode and effect applies where no rule speaks. Nothing
#   above this file can make an undefined answer mean permission: what is not
#   settled below is asked.
# schemas:
#   - input: schema.request
package regent

import data.regent.call
import data.regent.guards
import data.regent.layers

# METADATA
# description: |
#   the whole answer as one object, so that one query settles a request. Rules are
#   given as the layers have them, each value with the number of its rule.
# entrypoint: true
route := {
	"route": _decision.route,
	"reasons": _decision.reasons,
	"reviewers": _decision.reviewers,
	"effects": call.effects,
	"external": call.external,
	"read_only": call.read_only,
	"deny": layers.deny,
	"ask": layers.ask,
	"review": layers.review,
	"allow": layers.allow,
	"observed": layers.observed,
	"ceiling": layers.ceiling,
	"context": layers.context,
}

# The order is the law: a deny outranks an ask, which outranks a review, which
# outranks an allow, whichever layers they come from, and a default is for what
# nobody speaks about. The reasons of rules are added by the engine, which knows
# the rules.
_decision := {"route": "deny", "reasons": _sorted(guards.refusals), "reviewers": []} if {
	_denied
} else := {"route": "ask", "reasons": _sorted(guards.questions), "reviewers": []} if {
	_asked
} else := _review(_named_reviewers, []) if {
	_fired(layers.review)
} else := {"route": "allow", "reasons": [], "reviewers": []} if {
	_fired(layers.allow)
} else := _default

_sorted(reasons) := [r | some r in reasons]

_denied if _fired(layers.deny)

_denied if some _ in guards.refusals

_asked if _fired(layers.ask)

_asked if some _ in guards.questions

_fired(sets) if some _ in sets[_]

# A review that names no reviewer goes to the configured one.
_named_reviewers := named if {
	named := [r | some m in layers.review[_]; some r in _reviewers_of(m.value)]
	count(named) > 0
} else := [data.regent.settings.reviewer]

_reviewers_of(value) := value.reviewers if is_object(value)

# One missing reviewer is enough to ask: which opinion would have counted is not
# for Regent to guess.
_review(reviewers, reasons) := {"route": "review", "reasons": reasons, "reviewers": reviewers} if {
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
} else := answer if {
	_native
	answer := _native_default[data.regent.settings.mode]
} else := _review([data.regent.settings.reviewer], ["permissions.mode is model_review"]) if {
	_native
	data.regent.settings.mode == "model_review"
} else := {"route": "allow", "reasons": ["permissions.harness_mode is auto_allow"], "reviewers": []} if {
	not _native
	data.regent.settings.harness_mode == "auto_allow"
	_known
} else := {"route": "ask", "reasons": [_harness_reason], "reviewers": []} if {
	not _native
} else := {"route": "ask", "reasons": ["no mode settles this request"], "reviewers": []}

_native_default := {
	"auto_allow": {"route": "allow", "reasons": ["permissions.mode is auto_allow"], "reviewers": []},
	"manual": {"route": "ask", "reasons": ["permissions.mode is manual"], "reviewers": []},
}

_harness_reason := "permissions.harness_mode is auto_allow, but this request is of no kind that it covers" if {
	data.regent.settings.harness_mode == "auto_allow"
} else := "permissions.harness_mode is manual"

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
