package approval_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

func TestParseReviewDecisionByKind(t *testing.T) {
	const (
		allow = approval.VerdictAllow
		late  = "the reviewer's own review timed out"
	)
	once, turn := approval.Verdict{Outcome: allow, Scope: permission.Once}, approval.Verdict{Outcome: allow, Scope: permission.Turn}
	session, deny := approval.Verdict{Outcome: allow, Scope: permission.Session}, approval.Verdict{Outcome: approval.VerdictDeny}
	for _, test := range []struct {
		name, text string
		// permissions is what a request for permissions is told, other what every
		// other kind is.
		permissions, other approval.Verdict
	}{
		{"approved lasts as briefly as can be", `"approved"`, turn, once},
		{"approved for the session", `"approved_for_session"`, session, session},
		{"denied", `"denied"`, deny, deny},
		{"abort ends a turn, unless permissions were asked for", `"abort"`, deny, approval.Verdict{Outcome: approval.VerdictCancel}},
		{
			"timed out refuses permissions and leaves other questions open", `"timed_out"`,
			approval.Verdict{Outcome: approval.VerdictDeny, Rationale: late},
			approval.Verdict{Outcome: approval.VerdictTimeout, Rationale: late},
		},
		{
			"an amendment of the rules is left out", `{"approved_execpolicy_amendment":{"proposed_execpolicy_amendment":["git","push"]}}`,
			turn, once,
		},
		{
			"an amendment about MCP tools grants no permissions", `{"approved_mcp_amendment":{"server":"docs"}}`,
			deny, once,
		},
		{
			"a network amendment that allows", `{"network_policy_amendment":{"network_policy_amendment":{"host":"example.com","action":"allow"}}}`,
			turn, once,
		},
		{
			"a network amendment that denies", `{"network_policy_amendment":{"network_policy_amendment":{"host":"example.com","action":"deny"}}}`,
			deny, deny,
		},
		{"space around it and escapes in it", " \"approv\\u0065d\"\n", turn, once},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, kind := range approval.Kinds {
				want := test.other
				if kind == approval.KindPermissions {
					want = test.permissions
				}
				got, err := approval.ParseReviewDecision(json.RawMessage(test.text), kind)
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

func TestParseReviewDecisionRefusesWhatIsNone(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"nothing", ``},
		{"null", `null`},
		{"no JSON", `approved`},
		{"an empty word", `""`},
		{"an empty object", `{}`},
		{"a list", `["approved"]`},
		{"a number", `1`},
		{"another case", `"Approved"`},
		{"camel case", `"approvedForSession"`},
		{"space in the word", `"approved "`},
		{"a word that holds another", `"disapproved"`},
		{"a word of another protocol", `"accept"`},
		{"a word as an object", `{"approved":{}}`},
		{"an amendment as a word", `"approved_execpolicy_amendment"`},
		{"a network amendment as a word", `"network_policy_amendment"`},
		{"two decisions", `{"approved_execpolicy_amendment":{},"approved_mcp_amendment":{}}`},
		{"a name given twice", `{"approved_mcp_amendment":{},"approved_mcp_amendment":{}}`},
		{"an unknown amendment", `{"approved_root_amendment":{}}`},
		{"a network amendment without an action", `{"network_policy_amendment":{"network_policy_amendment":{"host":"example.com"}}}`},
		{"a network amendment with an unknown action", `{"network_policy_amendment":{"network_policy_amendment":{"action":"ask"}}}`},
		{"a network amendment with two actions", `{"network_policy_amendment":{"network_policy_amendment":{"action":"deny","action":"allow"}}}`},
		{"a network amendment with the action at another place", `{"network_policy_amendment":{"action":"allow"}}`},
		{"a network amendment that is null", `{"network_policy_amendment":null}`},
		{"trailing text", `"approved" "denied"`},
		{"invalid UTF-8", "\"approved\xff\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, kind := range approval.Kinds {
				got, err := approval.ParseReviewDecision(json.RawMessage(test.text), kind)
				if !errors.Is(err, approval.ErrInvalid) || !reflect.DeepEqual(got, approval.Verdict{}) {
					t.Errorf("%s: %+v, %v", kind, got, err)
				}
			}
		})
	}
}

func TestParseReviewDecisionShowsNoSecrets(t *testing.T) {
	_, err := approval.ParseReviewDecision(json.RawMessage(`{"token":"hunter2hunter2"}`), approval.KindCommand)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "token") {
		t.Errorf("err = %v", err)
	}
}

func TestFinalIsARefusalOfOneWhoMayRefuse(t *testing.T) {
	for _, outcome := range []approval.VerdictOutcome{
		approval.VerdictAllow, approval.VerdictDeny, approval.VerdictCancel, approval.VerdictUnsure, approval.VerdictTimeout,
		approval.VerdictError, "", "approve",
	} {
		refuses := outcome == approval.VerdictDeny || outcome == approval.VerdictCancel
		for authority, may := range map[approval.Authority]bool{
			"": true, approval.AuthorityDecides: true, approval.AuthorityDenyOnly: true, approval.AuthorityAdvises: false, "odd": true,
		} {
			v := approval.Verdict{Outcome: outcome, Authority: authority}
			if got := v.Final(); got != (refuses && may) || v.Refuses() != refuses {
				t.Errorf("%q by one who %q: final %t, refuses %t", outcome, authority, got, v.Refuses())
			}
			v.Shadow = true
			if v.Final() {
				t.Errorf("%q in shadow is final", outcome)
			}
		}
	}
}
