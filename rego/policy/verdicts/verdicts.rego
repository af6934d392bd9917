# METADATA
# title: Verdicts
# description: >-
#   What the verdicts of reviewers come to. Verdict rules of every layer are combined
#   here with the limits that hold where no rule speaks. Nothing allows but an allow
#   of a reviewer that may, which no other reviewer is against.
# schemas:
#   - input: schema.request
package regent.verdicts

import data.regent.layers

# METADATA
# description: |
#   the whole answer as one object. Rules are given as the layers have them; their
#   messages are added to the reasons by the engine, which knows the rules.
outcome := {"decision": _outcome, "rules": layers.verdicts, "observed": layers.observed_verdicts}

# The order is the law: a refusal of a reviewer that may refuse, a rule that denies, a
# rule that asks, whatever keeps the verdicts from allowing, and then only an allow.
_outcome := {"decision": _word(refusal), "by": _name(refusal), "reasons": [_said(refusal)]} if {
	refusal := _refusals[0]
} else := {"decision": "deny", "reasons": []} if {
	_wanted.deny
} else := {"decision": "ask", "reasons": array.concat(_open, _above)} if {
	_wanted.ask
} else := {"decision": "ask", "reasons": array.concat(_open, _above)} if {
	count(_open) > 0
} else := {"decision": "ask", "reasons": _above} if {
	count(_above) > 0
	not _wanted.allow
} else := {"decision": "allow", "by": _name(last), "reasons": [_said(last)]} if {
	last := _allowing[count(_allowing) - 1]
}

# What a reviewer in shadow says is for nobody who decides.
_heard := [v | some v in input.verdicts; object.get(v, "shadow", false) == false]

_refusals := [v | some v in _heard; _word(v) in {"deny", "cancel"}; _authority(v) != "advises"]

_allowing := [v | some v in _heard; _word(v) == "allow"; _authority(v) == "decides"]

# A verdict that lacks something must not fall out of a list, so each part has a
# value.
_word(v) := object.get(v, "outcome", "")

_name(v) := object.get(v, "reviewer", "")

_authority(v) := object.get(v, "authority", "decides")

_rationale(v) := trim_space(object.get(v, "rationale", ""))

_said(v) := _rationale(v) if {
	_rationale(v) != ""
} else := sprintf("reviewer %s says %s", [_name(v), _word(v)])

# What no rule can turn into an allow.
_open := array.concat([_because(why, v) | some v in _heard; why := _doubt(v)], [why | some why in _missing])

_because(why, v) := sprintf("reviewer %s %s, so a person is asked%s", [_name(v), why, _colon(_rationale(v))])

_colon("") := ""

_colon(text) := concat("", [": ", text]) if text != ""

_doubt(v) := _doubts[_word(v)] if {
	_doubts[_word(v)]
} else := "only advises, and would not allow this" if {
	_word(v) in {"deny", "cancel"}
} else := "gave a verdict that is not known" if {
	_word(v) != "allow"
} else := "would allow this at a critical risk" if {
	v.risk_level == "critical"
} else := "would allow this at a risk that is not known" if {
	not object.get(v, "risk_level", "low") in {"low", "medium", "high"}
}

_doubts := {
	"unsure": "is unsure",
	"timeout": "was not done in time",
	"error": "could not review it",
}

_missing contains "no reviewer is named, so a person is asked" if count(_heard) == 0

_missing contains "not every reviewer was asked, so a person is" if {
	some reviewer in input.ruling.reviewers
	not reviewer in {_name(v) | some v in _heard}
}

_missing contains "no reviewer that may allow was asked, so a person is" if {
	count(_heard) > 0
	every v in _heard {
		_authority(v) != "decides"
	}
}

# What a verdict rule may allow all the same.
_above := [_because(sprintf("would allow this at a high risk, with authorization %s", [authorization]), v) |
	some v in _heard
	_word(v) == "allow"
	v.risk_level == "high"
	authorization := object.get(v, "user_authorization", "unknown")
	authorization != "high"
]

# A rule with an odd value is one that asks, unless it denies.
_wanted["deny"] if {
	some rules in layers.verdicts
	some rule in rules
	rule.value.decision == "deny"
}

_wanted["ask"] if {
	some rules in layers.verdicts
	some rule in rules
	not _denies(rule.value)
	not _allows(rule.value)
}

# A workspace that is not trusted can only tighten.
_wanted["allow"] if {
	some rules in layers.verdicts
	some rule in rules
	_allows(rule.value)
	rule.trusted
}

_denies(value) if value.decision == "deny"

_allows(value) if {
	value.decision == "allow"
	is_string(value.message)
}
