package native_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/reviewer"
)

const network = `{"permissions":{"network":{"enabled":true}},"reason":"fetch the modules"}`

func TestToolIsOfferedWhereItCanBeUsed(t *testing.T) {
	tests := []struct {
		name, settings string
		environments   []native.Environment
		want           bool
	}{
		{"on, with an environment", manual, []native.Environment{{Environment: approval.Environment{ID: "local", Cwd: "/w"}}}, true},
		{"on, without an environment", manual, nil, false},
		{"off, with an environment", manual + "request_permissions: {enabled: false}\n", []native.Environment{{Environment: approval.Environment{ID: "local", Cwd: "/w"}}}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, epoch(t, test.settings, ""), nil)
			b.session()
			b.turn("t2", test.environments...)
			tools, err := b.Tools(t.Context(), "s1", host, "t2")
			if err != nil {
				t.Fatal(err)
			}
			if offered := len(tools) == 1 && tools[0].Name == "request_permissions"; offered != test.want {
				t.Errorf("tools %+v", tools)
			}
			if !test.want {
				final := b.call("t2", request("c1", network))
				if final.Fault == "" || final.Output == "" || len(b.records()) > 0 {
					t.Errorf("a call of it: %+v", final)
				}
			}
		})
	}
}

func TestToolSchema(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	tools, err := b.Tools(t.Context(), "s1", host, "t1")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Type string   `json:"type"`
			Enum []string `json:"enum"`
		} `json:"properties"`
		Required   []string `json:"required"`
		Additional *bool    `json:"additionalProperties"`
	}
	if err := json.Unmarshal(tools[0].Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"permissions"}, schema.Required); diff != "" {
		t.Error(diff)
	}
	if schema.Additional == nil || *schema.Additional {
		t.Error("other fields are let through")
	}
	for _, name := range []string{"reason", "environment_id", "permissions"} {
		if schema.Properties[name].Type == "" {
			t.Errorf("no %s in %s", name, tools[0].Parameters)
		}
	}
	if diff := cmp.Diff([]string{"local"}, schema.Properties["environment_id"].Enum); diff != "" {
		t.Error(diff)
	}
}

func TestFaultsTellTheModelWhatIsWrong(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	b.turn("bare")
	b.turn("far",
		native.Environment{Environment: approval.Environment{ID: "windows", Cwd: `C:\work`}},
		native.Environment{Environment: approval.Environment{ID: "uri", Cwd: "vscode-remote://box/work"}},
		native.Environment{Environment: approval.Environment{ID: "remote", Cwd: "/work"}, Foreign: true})
	tests := []struct {
		name, turn, arguments string
		fault                 native.Fault
		output                string
	}{
		{"no environment", "bare", network, native.FaultNoEnvironment, "request_permissions requires a primary environment"},
		{"an unknown environment", "t1", `{"environment_id":"remote","permissions":{"network":{"enabled":true}}}`, native.FaultEnvironment, `request_permissions names the environment "remote", which the turn does not have; it has local`},
		{"the environment comes before the paths", "t1", `{"environment_id":"remote","permissions":{"file_system":{"read":["~nobody/x"]}},"odd":1}`, native.FaultEnvironment, `request_permissions names the environment "remote", which the turn does not have; it has local`},
		{"a cwd of Windows", "far", network, native.FaultForeign, "request_permissions cwd `C:\\work` is not native to the host"},
		{"a cwd that is an address", "far", `{"environment_id":"uri","permissions":{"network":{"enabled":true}}}`, native.FaultForeign, "request_permissions cwd `vscode-remote://box/work` is not native to the host"},
		{"a cwd of another machine", "far", `{"environmentId":"remote","permissions":{"network":{"enabled":true}}}`, native.FaultForeign, "request_permissions cwd `/work` is not native to the host"},
		{"a path of Windows", "t1", `{"permissions":{"file_system":{"write":["D:\\data"]}}}`, native.FaultPath, `request_permissions: requested permissions: "D:\\data": path is not native to the selected environment`},
		{"a home of somebody else", "t1", `{"permissions":{"file_system":{"read":["~kim/x"]}}}`, native.FaultPath, `request_permissions: requested permissions: "~kim/x": home folders of other users (~name) are not looked up`},
		{"a pattern that allows", "t1", `{"permissions":{"file_system":{"entries":[{"path":{"type":"glob_pattern","pattern":"**/*.go"},"access":"write"}]}}}`, native.FaultArguments, "request_permissions arguments: permissions: file_system.entries[0]: pattern entries may only deny"},
		{"nothing", "t1", `{"permissions":{}}`, native.FaultEmpty, "request_permissions requires at least one permission"},
		{"a network that is off", "t1", `{"permissions":{"network":{"enabled":false}}}`, native.FaultEmpty, "request_permissions requires at least one permission"},
		{"denies alone", "t1", `{"permissions":{"file_system":{"entries":[{"path":{"type":"path","path":"/x"},"access":"deny"}]}}}`, native.FaultEmpty, "request_permissions requires at least one permission"},
		{"an unknown field", "t1", `{"permissions":{"network":{"enabled":true}},"scope":"session"}`, native.FaultArguments, "request_permissions arguments: scope: unknown field; there are reason, environment_id and permissions"},
		{"an unknown field in the profile", "t1", `{"permissions":{"network":{"enabled":true},"macos":{}}}`, native.FaultArguments, "request_permissions arguments: permissions: macos: unknown field"},
		{"no permissions", "t1", `{"reason":"because"}`, native.FaultArguments, "request_permissions arguments: permissions are missing"},
		{"no arguments at all", "t1", ``, native.FaultArguments, "request_permissions arguments: permissions are missing"},
		{"no object", "t1", `["network"]`, native.FaultArguments, "request_permissions arguments: a value of this type does not fit here"},
		{"no JSON", "t1", `{"permissions":`, native.FaultArguments, "request_permissions arguments: permissions: they are not valid JSON"},
		{"a field twice", "t1", `{"permissions":{"network":{"enabled":true}},"reason":"a","reason":"b"}`, native.FaultArguments, "request_permissions arguments: reason: the field is given twice"},
		{"the environment twice", "t1", `{"permissions":{"network":{"enabled":true}},"environment_id":"local","environmentId":"local"}`, native.FaultArguments, "request_permissions arguments: environment_id and environmentId are one field; give it once"},
		{"an environment that is a number", "t1", `{"permissions":{"network":{"enabled":true}},"environment_id":7}`, native.FaultArguments, "request_permissions arguments: environment_id: a value of this type does not fit here"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			final := b.call(test.turn, request(fmt.Sprintf("c%d", i), test.arguments))
			if final.Fault != test.fault || final.Outcome != approval.OutcomeDeny {
				t.Errorf("fault %s, outcome %s", final.Fault, final.Outcome)
			}
			if final.Output != test.output {
				t.Errorf("output\n %s, want\n %s", final.Output, test.output)
			}
		})
	}
	if r := b.records(); len(r) > 0 || len(b.held()) > 0 {
		t.Errorf("faults left %d records and %d grants", len(r), len(b.held()))
	}
}

func TestPolicyThatNeverAsksGrantsNothing(t *testing.T) {
	for _, policy := range []string{"never", "{granular: {request_permissions: false, rules: true}}", "{granular: {sandbox_approval: true}}"} {
		t.Run(policy, func(t *testing.T) {
			b := open(t, epoch(t, "approval_policy: "+policy+"\n", ""), nil)
			b.session()
			final := b.call("t1", request("c1", network))
			if final.Fault != "" || final.Outcome != approval.OutcomeAllow || final.Output != `{"permissions":{},"scope":"turn"}` {
				t.Errorf("%+v", final)
			}
			if r := b.records(); len(r) > 0 || len(b.held()) > 0 {
				t.Errorf("%d records, %d grants", len(r), len(b.held()))
			}
			// What is wrong with a request is said all the same.
			if final := b.call("t1", request("c2", `{"permissions":{}}`)); final.Fault != native.FaultEmpty {
				t.Errorf("%+v", final)
			}
		})
	}
}

// The request is shown with what the environment makes of it, and the response
// finds it by its call.
func TestRequestIsShownAndAnswered(t *testing.T) {
	for _, policy := range []string{"on_request", "unless_trusted", "{granular: {request_permissions: true}}"} {
		t.Run(policy, func(t *testing.T) {
			b := open(t, epoch(t, manual+"approval_policy: "+policy+"\n", ""), nil)
			b.session()
			b.begin("t1", request("c1", `{"permissions":{"network":{"enabled":true},"file_system":{"write":["out"],"read":["/usr/share"]}},"environmentId":"local","reason":"build"}`))
			e := b.event("c1")
			want := native.Event{
				CallID: "c1", TurnID: "t1", EnvironmentID: "local", StartedAtMS: e.StartedAtMS, Reason: "build", Cwd: b.dir,
				Permissions: permission.Profile{Network: permission.Network{All: true}, FileSystem: permission.FileSystem{Entries: []permission.Entry{
					permission.Literal(filepath.Join(b.dir, "out"), permission.Write), permission.Literal("/usr/share", permission.Read),
				}}},
				Record: b.waits("c1").ID, Revision: 1,
			}
			if diff := cmp.Diff(want, e); diff != "" || e.StartedAtMS == 0 {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			asked := e.Permissions
			if err := b.respond("c1", permission.Response{Permissions: asked, Scope: permission.Turn}); err != nil {
				t.Fatal(err)
			}
			final := b.final("c1")
			if final.Fault != "" || final.Response == nil || !permission.Covers(final.Response.Permissions, asked) || !permission.Covers(asked, final.Response.Permissions) {
				t.Fatalf("%+v", final)
			}
			var told permission.Response
			if err := json.Unmarshal([]byte(final.Output), &told); err != nil || !told.Permissions.Equal(final.Response.Permissions) || told.Scope != permission.Turn {
				t.Errorf("the model is told %s, %v", final.Output, err)
			}
			if g := b.held(); len(g) != 1 || g[0].Call != "c1" || g[0].Turn != "t1" || g[0].Environment != "local" || g[0].By != "user:sam" {
				t.Errorf("grants %+v", g)
			}
		})
	}
}

func TestWhatAResponseGrants(t *testing.T) {
	const asked = `{"permissions":{"network":{"enabled":true},"file_system":{"read":["/usr/share"],"write":["/srv/out"]}}}`
	tests := []struct {
		name, response string
		want           string
		over           bool
	}{
		{"all", `{"permissions":{"network":{"enabled":true},"file_system":{"read":["/usr/share"],"write":["/srv/out"]}}}`, `{"permissions":{"network":{"enabled":true},"file_system":{"read":["/usr/share"],"write":["/srv/out"]}},"scope":"turn"}`, false},
		{"a part", `{"permissions":{"file_system":{"write":["/srv/out/a"]}},"scope":"turn"}`, `{"permissions":{"file_system":{"write":["/srv/out/a"]}},"scope":"turn"}`, false},
		{"for the session", `{"permissions":{"network":{"enabled":true}},"scope":"session"}`, `{"permissions":{"network":{"enabled":true}},"scope":"session"}`, false},
		{"what was not asked for is ignored", `{"permissions":{"network":{"enabled":true},"file_system":{"write":["/etc"]}}}`, `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`, true},
		{"reading does not become writing", `{"permissions":{"file_system":{"write":["/usr/share"]}}}`, `{"permissions":{"file_system":{"read":["/usr/share"]}},"scope":"turn"}`, true},
		{"a wider folder is clipped", `{"permissions":{"file_system":{"write":["/srv"]}}}`, `{"permissions":{"file_system":{"write":["/srv/out"]}},"scope":"turn"}`, true},
		{"nothing stays nothing", `{"permissions":{}}`, `{"permissions":{},"scope":"turn"}`, false},
		{"nothing for the session stays that", `{"permissions":{},"scope":"session"}`, `{"permissions":{},"scope":"session"}`, false},
		{"strict for the turn", `{"permissions":{"network":{"enabled":true}},"scope":"turn","strict_auto_review":true}`, `{"permissions":{"network":{"enabled":true}},"scope":"turn","strict_auto_review":true}`, false},
		{"strict for the session contradicts itself", `{"permissions":{"network":{"enabled":true}},"scope":"session","strict_auto_review":true}`, `{"permissions":{},"scope":"turn"}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, epoch(t, manual, ""), nil)
			b.session()
			b.begin("t1", request("c1", asked))
			var response, want permission.Response
			if err := errors.Join(json.Unmarshal([]byte(test.response), &response), json.Unmarshal([]byte(test.want), &want)); err != nil {
				t.Fatal(err)
			}
			b.grant("c1", response)
			final := b.final("c1")
			if final.Fault != "" || final.Response == nil {
				t.Fatalf("%+v", final)
			}
			if got := jsonOf(t, final.Response); got != jsonOf(t, want) {
				t.Errorf("told %s, want %s", got, jsonOf(t, want))
			}
			r := b.records()[0]
			if s := r.Decision.Settlement; s == nil || s.OverGrant != test.over {
				t.Errorf("settlement %+v", s)
			}
			held := permission.Profile{}
			for _, g := range b.held() {
				held = permission.Merge(held, g.Permissions)
			}
			if !held.Equal(want.Permissions) {
				t.Errorf("held %s, want %s", held, want.Permissions)
			}
		})
	}
}

func TestCeilingHoldsForWhoeverGrants(t *testing.T) {
	e := epoch(t, manual, "\nceiling := {\"network\": {\"enabled\": true}, \"scope\": \"turn\"}\n")
	b := open(t, e, nil)
	b.session()
	b.begin("t1", request("c1", `{"permissions":{"network":{"enabled":true},"file_system":{"write":["out"]}}}`))
	b.grant("c1", permission.Response{Permissions: permission.Everything(), Scope: permission.Session})
	final := b.final("c1")
	if got := final.Response; got.Scope != permission.Turn || !got.Permissions.Equal(profile(t, `{"network":{"enabled":true}}`)) {
		t.Errorf("granted %s", jsonOf(t, got))
	}
}

// An answer that names a place of another machine was not meant for this one.
func TestPathThatCannotBePlacedInterruptsTheTurn(t *testing.T) {
	for _, bad := range []string{`C:\work`, "file:///w/out", "~kim/out"} {
		t.Run(bad, func(t *testing.T) {
			b := open(t, epoch(t, manual, ""), nil)
			b.session()
			b.begin("t1", request("c1", `{"permissions":{"file_system":{"write":["out"]}}}`))
			b.begin("t1", command("c2", "make"))
			b.waits("c2")
			b.event("c1")
			response := permission.Response{Permissions: permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(bad, permission.Write)}}}}
			if err := b.respond("c1", response); !errors.Is(err, gate.ErrUnplaced) {
				t.Errorf("the one who answered is told %v", err)
			}
			for _, id := range []string{"c1", "c2"} {
				if final := b.final(id); final.Outcome != approval.OutcomeCancel {
					t.Errorf("%s: %+v", id, final)
				}
			}
			s, err := b.Describe(t.Context(), "s1", host)
			if err != nil || s.Turns[0].State != native.TurnInterrupted || len(s.Pending) > 0 || len(b.held()) > 0 {
				t.Errorf("%+v, %v; grants %+v", s, err, b.held())
			}
			if err := b.Start(t.Context(), "s1", host, "t1", command("c3", "ls")); !errors.Is(err, native.ErrOver) {
				t.Errorf("a call of an interrupted turn: %v", err)
			}
		})
	}
}

func TestAnswersThatMatchNothingChangeNothing(t *testing.T) {
	b := open(t, epoch(t, manual, ""), nil)
	b.session()
	everything := permission.Response{Permissions: permission.Everything(), Scope: permission.Session}
	notices := func() int {
		n := 0
		for _, notice := range b.gate.Feed().Notices(0) {
			if notice.Kind == gate.NoticeAnswer {
				n++
			}
		}
		return n
	}
	tests := []struct {
		name string
		do   func() error
	}{
		{"a call that does not exist", func() error { return b.respond("c9", everything) }},
		{"a call that runs a command", func() error {
			b.begin("t1", command("c2", "make"))
			b.waits("c2")
			return b.respond("c2", everything)
		}},
		{"a call that was answered", func() error {
			b.begin("t1", request("c3", network))
			b.grant("c3", permission.Response{})
			b.final("c3")
			return b.respond("c3", everything)
		}},
		{"a call that was cancelled", func() error {
			b.begin("t1", request("c4", network))
			b.event("c4")
			if _, err := b.Cancel(t.Context(), "s1", host, "c4", ""); err != nil {
				t.Fatal(err)
			}
			return b.respond("c4", everything)
		}},
		{"a turn that has ended", func() error {
			b.turn("t2", b.environment("local"))
			b.begin("t2", request("c5", network))
			b.event("c5")
			if _, err := b.EndTurn(t.Context(), "s1", host, "t2"); err != nil {
				t.Fatal(err)
			}
			b.final("c5")
			return b.respond("c5", everything)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := notices()
			if err := test.do(); !errors.Is(err, native.ErrUnmatched) {
				t.Errorf("the answer: %v", err)
			}
			if got := notices() - before; got != 1 {
				t.Errorf("%d warnings", got)
			}
			if len(b.held()) > 0 {
				t.Errorf("grants %+v", b.held())
			}
		})
	}
	if _, err := b.Respond(t.Context(), native.Response{Session: "s9", Call: "c1", Response: everything, By: local}); !errors.Is(err, native.ErrNoSession) {
		t.Errorf("a session that does not exist: %v", err)
	}
}

// What a reviewer says of a request for permissions, in the words of Codex.
func TestReviewDecisionsGrant(t *testing.T) {
	tests := []struct {
		decision string
		grants   bool
		scope    permission.Scope
	}{
		{`"approved"`, true, permission.Turn},
		{`{"approved_execpolicy_amendment":{"proposed_execpolicy_amendment":["npm"]}}`, true, permission.Turn},
		{`"approved_for_session"`, true, permission.Session},
		{`"denied"`, false, permission.Turn},
		{`"abort"`, false, permission.Turn},
		{`"timed_out"`, false, permission.Turn},
		{`{"network_policy_amendment":{"network_policy_amendment":{"host":"example.com","action":"allow"}}}`, true, permission.Turn},
		{`{"network_policy_amendment":{"network_policy_amendment":{"host":"example.com","action":"deny"}}}`, false, permission.Turn},
		{`{"approved_mcp_amendment":{"server":"docs"}}`, false, permission.Turn},
	}
	e := epoch(t, reviewed, "")
	for _, test := range tests {
		t.Run(test.decision, func(t *testing.T) {
			b := open(t, e, panel{"one/judge": judge(func(q reviewer.Question) approval.Verdict {
				v, err := approval.ParseReviewDecision(json.RawMessage(test.decision), q.Request.Kind)
				if err != nil {
					t.Error(err)
				}
				return v
			})})
			b.session()
			final := b.call("t1", request("c1", network))
			if final.Fault != "" || final.Outcome != approval.OutcomeAllow || final.Response.Scope != test.scope {
				t.Fatalf("%+v", final)
			}
			if got := final.Response.Permissions.Network.All; got != test.grants {
				t.Errorf("granted %s", jsonOf(t, final.Response))
			}
			if got := len(b.held()) == 1; got != test.grants {
				t.Errorf("grants %+v", b.held())
			}
			if s, _ := b.Describe(t.Context(), "s1", host); s.Turns[0].State != native.TurnOpen {
				t.Error("the turn is over")
			}
		})
	}
}

func TestDenyingRuleGrantsNothing(t *testing.T) {
	b := open(t, epoch(t, manual, "\ndeny contains \"no network here\" if input.request.permissions.network\n"), nil)
	b.session()
	final := b.call("t1", request("c1", network))
	if final.Output != `{"permissions":{},"scope":"turn"}` || final.Fault != "" || !strings.Contains(final.Message, "no network here") {
		t.Errorf("%+v", final)
	}
	if r := b.records(); len(r) != 1 || r[0].Decision.Outcome != approval.OutcomeDeny {
		t.Errorf("%+v", r)
	}
}
