//go:build linux || darwin

package reviewer_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/reviewer"
)

// FuzzParse holds answers against a reading by another JSON library: whatever that
// one finds, only one object whose own words allow is an allow.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"outcome":"allow","risk_level":"high","user_authorization":"high","rationale":"ok","scope":"session"}`,
		`{"outcome":"allow","risk_level":"critical"}`,
		`{"outcome":"deny"} {"outcome":"allow"}`,
		`{"outcome":"deny","outcome":"allow"}`,
		`{"decision":"approved","rationale":"ok"}`,
		`{"decision":{"network_policy_amendment":{"network_policy_amendment":{"action":"allow"}}}}`,
		`{"decision":"abort","outcome":"allow"}`,
		`DISAPPROVE`, `null`, ``, "{\"outcome\":\"allow\"}\x00",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, output []byte, permissions bool) {
		kind := approval.KindCommand
		if permissions {
			kind = approval.KindPermissions
		}
		v, err := reviewer.Parse(output, kind)
		if err != nil {
			if !cmp.Equal(approval.Verdict{}, v) {
				t.Errorf("%+v with error %v", v, err)
			}
			return
		}
		switch v.Outcome {
		case approval.VerdictAllow:
		case approval.VerdictDeny, approval.VerdictCancel, approval.VerdictUnsure, approval.VerdictTimeout:
			if v.Scope != "" {
				t.Errorf("%+v has a scope", v)
			}
			return
		default:
			t.Fatalf("outcome %q", v.Outcome)
		}
		var members map[string]json.RawMessage
		decoder := json.NewDecoder(bytes.NewReader(output))
		if err := decoder.Decode(&members); err != nil || decoder.More() {
			t.Fatalf("%q allows and is not one object: %v", output, err)
		}
		if decision, ok := members["decision"]; ok {
			if denied, err := approval.ParseReviewDecision(decision, kind); err != nil || denied.Outcome != approval.VerdictAllow {
				t.Errorf("%q allows by decision %s", output, decision)
			}
			return
		}
		text := func(name string) (s string) {
			if value, ok := members[name]; ok && json.Unmarshal(value, &s) != nil {
				t.Errorf("%q allows with %s %s", output, name, value)
			}
			return s
		}
		risk, authorization := text("risk_level"), text("user_authorization")
		if text("outcome") != "allow" || risk == "critical" || risk == "high" && authorization != "high" {
			t.Errorf("%q allows", output)
		}
	})
}

// FuzzReply reads replies of providers: whatever they hold, an answer comes without
// an error or not at all, and all of it is in the reply.
func FuzzReply(f *testing.F) {
	for _, d := range dialects {
		f.Add(d.name, false, []byte(d.reply(whole)))
		for _, body := range d.odd {
			f.Add(d.name, false, []byte(body))
		}
		for _, events := range append(slices.Collect(maps.Values(d.oddEvents)), d.events(whole[:9], whole[9:])) {
			f.Add(d.name, true, []byte("data: "+strings.Join(events, "\n\ndata: ")+"\n\n"))
		}
	}
	f.Fuzz(func(t *testing.T, name string, streams bool, data []byte) {
		if !slices.ContainsFunc(dialects, func(d dialect) bool { return d.name == name }) {
			return
		}
		text, err := reviewer.Reply(name, streams, data)
		if err != nil && text != "" {
			t.Errorf("%q with error %v", text, err)
		}
		if len(text) > len(data) {
			t.Errorf("%d bytes of text from %d", len(text), len(data))
		}
	})
}
