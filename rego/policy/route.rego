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
import data.regent.grants
import data.regent.guards
import data.regent.layers
import data.regent.verdicts

# METADATA
# description: |
#   the whole answer as one object, so that one query settles a request. Rules are
#   given as the layers have them, each value with the number of its rule; their
#   messages are added to the reasons by the engine, which knows the rules.
# entrypoint: true
route := {"decision": _decision, "call": call.outcome, "rules": layers.rules}

# METADATA
# description: what the verdicts of reviewers come to, in input.verdicts
# entrypoint: true
verdict := verdicts.outcome

# The order is the law: a deny outranks an ask, which outranks a review, which
# outranks an allow, whichever layers they come from, and a default is for what
# nobody speaks about. The guards stand first among the denies and the asks, and
# are looked at only when something that the index can look up calls for them.
_decision := {
	"route": "deny",
	"reasons": [r | some r in guards.refusals],
	"guards": [m | some m in guards.barred],
} if {
	input.facts.guard.barred == true
} else := {"route": "deny", "reasons": [r | some r in guards.refusals]} if {
	input.request.host_allows == false
} else := {"route": "deny", "reasons": [r | some r in guards.refusals]} if {
	input.request.kind == "permissions"
	some _ in guards.refusals
} else := {"route": "deny", "reasons": []} if {
	layers.rules.deny != layers.silence.deny
} else := {"route": "ask", "reasons": [r | some r in guards.questions]} if {
	input.request.human_only == true
} else := {"route": "ask", "reasons": [r | some r in guards.questions]} if {
	input.facts.guard.touched == true
	some _ in guards.questions
} else := {"route": "ask", "reasons": [r | some r in guards.questions]} if {
	input.facts.permissions.problem
} else := {"route": "ask", "reasons": []} if {
	layers.rules.ask != layers.silence.ask
} else := _review(_named_reviewers, []) if {
	layers.rules.review != layers.silence.review
	some m in layers.rules.review[_]
	m.trusted
} else := _tightened if {
	layers.rules.review != layers.silence.review
} else := {"route": "allow", "reasons": []} if {
	layers.rules.allow != layers.silence.allow
	every set in layers.rules.allow {
		every m in set {
			_message(m.value)
		}
	}
} else := {"route": "ask", "reasons": ["a rule allows with a value that is no message and has none"]} if {
	# An allow that does not say what it allows is not an explicit allow.
	layers.rules.allow != layers.silence.allow
} else := {"route": "skip", "reasons": [call.skip]} if {
	call.skip
} else := {
	"route": "allow",
	"reasons": ["what it does is within the permissions that were granted"],
	"granted": true,
} if {
	# Whoever granted them has answered, as long as no rule asks again.
	grants.cover
} else := _default

_message(value) if is_string(value)

_message(value) if is_string(value.message)

# A review that names no reviewer goes to the configured one.
_named_reviewers := named if {
	named := [r | some m in layers.rules.review[_]; m.trusted; some r in _reviewers_of(m.value)]
	count(named) > 0
} else := [data.regent.settings.reviewer]

_reviewers_of(value) := value.reviewers if is_object(value)

# A workspace that nobody trusts can send to review what would be let pass. It can
# neither take a question from a person nor choose who reviews.
_tightened := {"route": "ask", "reasons": _default.reasons} if {
	layers.rules.allow == layers.silence.allow
	not call.skip
	_default.route == "ask"
} else := _review([data.regent.settings.reviewer], [])

# One missing reviewer is enough to ask: which opinion would have counted is not
# for Regent to guess.
_review(reviewers, reasons) := {"route": "review", "reasons": reasons, "reviewers": reviewers} if {
	every r in reviewers {
		data.regent.settings.reviewers[r]
	}
} else := {"route": "ask", "reasons": array.concat(reasons, missing)} if {
	missing := [sprintf("reviewer %v is not configured, so a person is asked", [r]) |
		some r in reviewers
		not data.regent.settings.reviewers[r]
	]
}

# The default by mode: permissions.mode speaks for native hosts,
# permissions.harness_mode for the approvals of other harnesses. A request without
# a harness is native.
_default := {"route": "ask", "reasons": ["permissions.mode is manual"]} if {
	input.facts.tool.harness == "native"
	data.regent.settings.mode == "manual"
} else := _review([data.regent.settings.reviewer], ["permissions.mode is model_review"]) if {
	input.facts.tool.harness == "native"
	data.regent.settings.mode == "model_review"
} else := {"route": "allow", "reasons": ["permissions.mode is auto_allow"]} if {
	input.facts.tool.harness == "native"
	data.regent.settings.mode == "auto_allow"
} else := {"route": "ask", "reasons": ["permissions.harness_mode is manual"]} if {
	input.request.harness.name
	data.regent.settings.harness_mode == "manual"
} else := {"route": "allow", "reasons": ["permissions.harness_mode is auto_allow"]} if {
	input.request.harness.name
	data.regent.settings.harness_mode == "auto_allow"
	_known
} else := {"route": "ask", "reasons": ["permissions.harness_mode is auto_allow, but does not cover this"]} if {
	input.request.harness.name
	data.regent.settings.harness_mode == "auto_allow"
} else := {"route": "ask", "reasons": ["no mode settles this request"]}

# What automatic acceptance covers on a harness: a question whose content is
# there and of a kind that is understood. Elicitations and forms are not.
_known if input.request.kind in {"command", "permissions", "network"}

_known if {
	input.request.kind == "file_change"
	count(input.request.changes) > 0
	not input.request.grant_root
}

_known if {
	input.request.kind == "tool"
	input.facts.tool.listed
}
