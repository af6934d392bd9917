package approval_test

import (
	"encoding/json"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
)

func raw(texts ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, t := range texts {
		out = append(out, json.RawMessage(t))
	}
	return out
}

func TestChoiceTakesTheLeastThatSaysIt(t *testing.T) {
	tests := []struct {
		name    string
		options []json.RawMessage
		outcome approval.Outcome
		want    int
	}{
		{"native allow", approval.NativeOptions, approval.OutcomeAllow, 0},
		{"native deny", approval.NativeOptions, approval.OutcomeDeny, 1},
		{"native cancel", approval.NativeOptions, approval.OutcomeCancel, 2},
		{"once before session, whatever the order", raw(`"acceptForSession"`, `"accept"`, `"cancel"`), approval.OutcomeAllow, 1},
		{"a session is never chosen for once", raw(`"acceptForSession"`, `"decline"`), approval.OutcomeAllow, -1},
		{"a rule is never chosen", raw(`{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["ls"]}}`, `"decline"`), approval.OutcomeAllow, -1},
		{"a known word with more to it is not chosen", raw(`{"accept":{"forever":true}}`, `"decline"`), approval.OutcomeAllow, -1},
		{"an unknown word is not chosen", raw(`"sure"`, `"decline"`), approval.OutcomeAllow, -1},
		{"deny falls back on cancel", raw(`"accept"`, `"cancel"`), approval.OutcomeDeny, 1},
		{"deny before cancel", raw(`"cancel"`, `"decline"`), approval.OutcomeDeny, 1},
		{"cancel does not fall back on deny", raw(`"accept"`, `"decline"`), approval.OutcomeCancel, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := approval.Choice(test.options, test.outcome); got != test.want {
				t.Errorf("Choice = %d, want %d", got, test.want)
			}
		})
	}
}

func TestUnknownOptionsCountAsTheMost(t *testing.T) {
	for _, option := range raw(`"sure"`, `7`, `null`, `{}`, `{"accept":1,"decline":2}`, `["accept"]`, `{"zap":{}}`) {
		m, known := approval.OptionMeaning(option)
		if known || m.Outcome != approval.OutcomeAllow || !m.Lasting {
			t.Errorf("OptionMeaning(%s) = %+v, %v", option, m, known)
		}
	}
}
