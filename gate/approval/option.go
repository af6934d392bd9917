package approval

import (
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/permission"
)

// Meaning is what choosing an option comes to.
type Meaning struct {
	Outcome Outcome
	// Scope is how long an option that allows does so.
	Scope permission.Scope
	// Lasting options change what is allowed beyond the session: a rule is
	// written. Nothing but a person ever chooses one.
	Lasting bool
}

// meanings are the words of Regent's own API and of codex app-server: the
// decisions of protocol v2 (0.156.1 to 0.171.0) and, with underscores, the
// review decisions of its older protocol.
var meanings = map[string]Meaning{
	"allow":                           {OutcomeAllow, permission.Once, false},
	"accept":                          {OutcomeAllow, permission.Once, false},
	"approved":                        {OutcomeAllow, permission.Once, false},
	"allow_for_session":               {OutcomeAllow, permission.Session, false},
	"acceptForSession":                {OutcomeAllow, permission.Session, false},
	"approved_for_session":            {OutcomeAllow, permission.Session, false},
	"acceptWithExecpolicyAmendment":   {OutcomeAllow, permission.Session, true},
	"approved_execpolicy_amendment":   {OutcomeAllow, permission.Session, true},
	"applyNetworkPolicyAmendment":     {OutcomeAllow, permission.Session, true},
	"network_policy_amendment":        {OutcomeAllow, permission.Session, true},
	"approved_mcp_amendment":          {OutcomeAllow, permission.Session, true},
	"approved_with_network_amendment": {OutcomeAllow, permission.Session, true},
	"deny":                            {OutcomeDeny, "", false},
	"decline":                         {OutcomeDeny, "", false},
	"denied":                          {OutcomeDeny, "", false},
	"cancel":                          {OutcomeCancel, "", false},
	"abort":                           {OutcomeCancel, "", false},
}

// OptionMeaning tells what an option comes to. One that is not known, a longer
// form of a known word included, is taken for the most that it could be: it
// allows, for good. Such an option is for a person to choose and nobody else.
func OptionMeaning(option json.RawMessage) (m Meaning, known bool) {
	var word string
	if jsonv2.Unmarshal(option, &word) != nil {
		var object map[string]json.RawMessage
		if jsonv2.Unmarshal(option, &object) == nil && len(object) == 1 {
			for word = range object {
				if m, known = meanings[word]; known {
					// What such an object carries was not read, so it counts as lasting.
					m.Lasting = m.Outcome == OutcomeAllow
					return m, true
				}
			}
		}
		return Meaning{OutcomeAllow, permission.Session, true}, false
	}
	if m, known = meanings[word]; known {
		return m, true
	}
	return Meaning{OutcomeAllow, permission.Session, true}, false
}

// Choice returns the place among options of the one that says no more than
// outcome: to allow, the one that does so once; to deny, the one that lets the
// agent go on, else the one that cancels. It is -1 where none does.
func Choice(options []json.RawMessage, outcome Outcome) int {
	best := -1
	for i, o := range options {
		m, known := OptionMeaning(o)
		if !known {
			continue
		}
		switch {
		case m.Outcome == outcome && m.Outcome != OutcomeAllow:
			return i
		case m.Outcome == outcome && m.Scope == permission.Once && !m.Lasting:
			return i
		case outcome == OutcomeDeny && m.Outcome == OutcomeCancel && best < 0:
			best = i
		}
	}
	return best
}
