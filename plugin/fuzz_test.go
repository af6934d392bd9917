package plugin_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/plugin/pluginpb"
)

// FuzzRead: whatever a plugin sends, only an allow for this very request allows, and
// for no longer than the ceiling.
func FuzzRead(f *testing.F) {
	for _, v := range []*pluginpb.Verdict{
		{Id: "a1", Outcome: pluginpb.Outcome_OUTCOME_ALLOW, Scope: pluginpb.Scope_SCOPE_TURN},
		{Id: "a1", Outcome: pluginpb.Outcome_OUTCOME_ALLOW, Scope: pluginpb.Scope_SCOPE_SESSION},
		{Id: "a2", Outcome: pluginpb.Outcome_OUTCOME_ALLOW},
		{Id: "a1", Outcome: 9, Risk: 9, Authorization: 9},
		{Id: "a1", Outcome: pluginpb.Outcome_OUTCOME_ALLOW, Permissions: []byte(`{"network":{"enabled":true}}`)},
	} {
		text, err := proto.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var reply pluginpb.Verdict
		if proto.Unmarshal(text, &reply) != nil {
			return
		}
		v, err := plugin.Read(&reply, question("a1"))
		if err != nil {
			if v.Outcome != "" || v.Scope != "" {
				t.Errorf("an error comes with %+v", v)
			}
			return
		}
		if v.Outcome != approval.VerdictAllow {
			if v.Scope != "" {
				t.Errorf("%s has a scope: %+v", v.Outcome, v)
			}
			return
		}
		if reply.GetId() != "a1" || reply.GetOutcome() != pluginpb.Outcome_OUTCOME_ALLOW || v.Scope == permission.Session || v.Risk == approval.RiskCritical {
			t.Errorf("%v became %+v", &reply, v)
		}
	})
}
