package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
	"github.com/regent-policy/regent/server/credential"
)

// instance is that of the host in these tests, and of its session s1.
const instance = "host-1"

// hosts opens the session s1 of Olga's, and in it the turn t1 with an environment.
func (d *daemon) hosts() (cwd string) {
	d.Helper()
	cwd = shortDir(d)
	if _, err := d.OpenSession(d.Context(), "s1", api.SessionSpec{
		Instance: instance, Folder: cwd, Version: "v7", Members: []string{"user:mia"},
		Subject: &approval.Subject{ID: "agent:a", OnBehalfOf: "user:olga"},
	}); err != nil {
		d.Fatal(err)
	}
	d.turn("t1", cwd)
	return cwd
}

func (d *daemon) turn(id, cwd string) {
	d.Helper()
	if _, err := d.OpenTurn(d.Context(), "s1", id, api.TurnSpec{Instance: instance, Environments: []api.Environment{{ID: "local", Cwd: cwd}}}); err != nil {
		d.Fatal(err)
	}
}

// requests is a call of request_permissions.
func requests(arguments string) api.CallSpec {
	return api.CallSpec{Instance: instance, Tool: &approval.Tool{Name: api.ToolName, Arguments: json.RawMessage(arguments)}}
}

// wants asks to write in a folder.
func wants(folder string) api.CallSpec {
	return requests(`{"reason":"to build","permissions":{"file_system":{"write":["` + folder + `"]}}}`)
}

func runs(text string) api.CallSpec {
	return api.CallSpec{Instance: instance, Command: &approval.Command{Text: text}}
}

// adds is a call that writes a file. Commands are not allowed by what is granted:
// nobody knows what a program does.
func adds(path string) api.CallSpec {
	return api.CallSpec{Instance: instance, Changes: []approval.Change{{Path: path, Operation: "add"}}}
}

// profile reads a profile.
func profile(t testing.TB, text string) permission.Profile {
	t.Helper()
	var p permission.Profile
	if err := p.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

// posts makes a call that has to wait.
func (d *daemon) posts(turn, id string, spec api.CallSpec) api.Call {
	d.Helper()
	one, err := d.PostCall(d.Context(), "s1", turn, id, spec)
	if err != nil || one.Outcome != "" || one.Record == "" || one.State != approval.Pending {
		d.Fatalf("call %s is %+v, %v; want it to wait", id, one, err)
	}
	return one
}

// settled waits for what becomes of a call.
func (d *daemon) settled(id string) api.Call {
	d.Helper()
	one, err := d.AwaitCall(d.Context(), "s1", id, instance, time.Minute)
	if err != nil || one.Outcome == "" {
		d.Fatalf("call %s is %+v, %v; want its outcome", id, one, err)
	}
	return one
}

type called struct {
	api.Call
	err error
}

// calls makes a call behind the test's back.
func (d *daemon) calls(ctx context.Context, c *client.Client, turn, id string, spec api.CallSpec) <-chan called {
	done := make(chan called, 1)
	go func() {
		one, err := c.Call(ctx, "s1", turn, id, spec)
		done <- called{one, err}
	}()
	return done
}

func TestPermissionsAreAskedGrantedUsedAndRevoked(t *testing.T) {
	d := start(t, setup{})
	cwd := d.hosts()
	tools, err := d.Tools(t.Context(), "s1", "t1", instance)
	if err != nil || len(tools) != 1 || tools[0].Name != api.ToolName || tools[0].Description == "" || !strings.Contains(string(tools[0].Parameters), `"local"`) {
		t.Fatalf("the tools are %+v, %v; want %s in local", tools, err, api.ToolName)
	}
	asked := d.posts("t1", "c1", wants("out"))
	event := asked.Event
	if event == nil || event.StartedAtMS == 0 {
		t.Fatalf("the call is %+v, want an event", asked)
	}
	out := filepath.Join(cwd, "out")
	want := &api.PermissionsEvent{
		CallID: "c1", TurnID: "t1", EnvironmentID: "local", StartedAtMS: event.StartedAtMS, Reason: "to build",
		Permissions: profile(t, `{"file_system":{"write":["`+out+`"]}}`), Cwd: cwd, Record: asked.Record, Revision: 1,
	}
	if diff := cmp.Diff(want, event); diff != "" {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
	if asked.Session != "s1" || asked.Turn != "t1" || asked.Digest == "" || asked.Deadline.IsZero() || asked.Ruling == nil || asked.Ruling.Route != approval.RouteAsk {
		t.Errorf("the call is %+v, want what waits", asked)
	}
	// More is granted than was asked for.
	record, err := d.Respond(t.Context(), "s1", "c1", event.Revision, api.Response{
		Permissions: profile(t, `{"file_system":{"write":["`+cwd+`"]}}`), Scope: permission.Turn, Reason: "go on",
	})
	if err != nil || record.State != approval.Decided || record.Decision == nil || !record.Decision.Settlement.OverGrant {
		t.Fatalf("the response is %+v, %v; want what it comes to", record, err)
	}
	answered := d.settled("c1")
	if answered.Outcome != approval.OutcomeAllow || answered.Fault != "" || answered.Response == nil || answered.Event != nil || answered.Record != record.ID {
		t.Fatalf("the call is %+v, want the response", answered)
	}
	if diff := cmp.Diff(want.Permissions, answered.Response.Permissions); diff != "" {
		t.Errorf("it was granted (-want +got):\n%s", diff)
	}
	var told permission.Response
	if err := json.Unmarshal([]byte(answered.Output), &told); err != nil || !cmp.Equal(told, *answered.Response) {
		t.Errorf("the model is told %s, %v; want the response", answered.Output, err)
	}

	held, err := d.Grants(t.Context(), "s1")
	if err != nil || len(held.Grants) != 1 || len(held.Accepted) != 0 {
		t.Fatalf("there are %+v, %v; want one grant", held, err)
	}
	grant := held.Grants[0]
	if grant.Session != "s1" || grant.Turn != "t1" || grant.Call != "c1" || grant.Environment != "local" || grant.Scope != permission.Turn ||
		grant.Record != record.ID || !strings.HasPrefix(grant.By, "user:") {
		t.Errorf("the grant is %+v", grant)
	}
	used, err := d.Call(t.Context(), "s1", "t1", "c2", adds("out/x"))
	if err != nil || used.Outcome != approval.OutcomeAllow || used.Effective == nil {
		t.Fatalf("a call within the grant is %+v, %v; want it allowed", used, err)
	}
	effective := &api.Effective{
		Sandbox: api.SandboxMore, Permissions: want.Permissions, Preapproved: true, Grants: []string{grant.ID},
	}
	if diff := cmp.Diff(effective, used.Effective); diff != "" {
		t.Errorf("it may use (-want +got):\n%s", diff)
	}
	if r, err := d.Read(t.Context(), used.Record); err != nil || r.Decision == nil || r.Decision.Source != approval.SourceGrant {
		t.Errorf("its record is %+v, %v; want that the grant decided", r, err)
	}
	// The fence belongs to the session's run.
	fence := api.Fence{Run: "s1", Instance: instance, Digest: used.Digest}
	if p, err := d.Fence(t.Context(), used.Record, fence); err != nil || p.Outcome != approval.OutcomeAllow {
		t.Errorf("the fence says %+v, %v; want that it may start", p, err)
	}
	if _, err := d.Fence(t.Context(), used.Record, fence); code(t, err) != api.Used || !errors.Is(err, approval.ErrUsed) {
		t.Errorf("the fence says %v once more, want %s", err, api.Used)
	}

	if err := d.Revoke(t.Context(), grant.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Revoke(t.Context(), grant.ID); code(t, err) != api.NoGrant {
		t.Errorf("to revoke it again is %v, want %s", err, api.NoGrant)
	}
	if held, err := d.Grants(t.Context(), ""); err != nil || held.Grants == nil || len(held.Grants) != 0 {
		t.Errorf("there are %+v, %v; want an empty list of grants", held, err)
	}
	d.posts("t1", "c3", adds("out/x")) // and is asked about again
	cancelled, err := d.CancelCall(t.Context(), "s1", "c3", api.Withdrawal{Instance: instance, Reason: "enough"})
	if err != nil || cancelled.Outcome != approval.OutcomeCancel || cancelled.Fault != api.FaultCancelled || cancelled.Message != "enough" {
		t.Errorf("the call is %+v, %v; want it cancelled", cancelled, err)
	}
	if _, err := d.CancelCall(t.Context(), "s1", "c3", api.Withdrawal{Instance: instance}); code(t, err) != api.Settled {
		t.Errorf("to cancel it again is %v, want %s", err, api.Settled)
	}
}

func TestActionsAreAcceptedForTheSession(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	asked := d.posts("t1", "c1", runs("mkdir out"))
	if _, err := d.Decide(t.Context(), asked.Record, asked.Revision, api.Decision{Option: json.RawMessage(`"allow_for_session"`)}); err != nil {
		t.Fatal(err)
	}
	if one := d.settled("c1"); one.Outcome != approval.OutcomeAllow || one.Effective == nil || one.Effective.Sandbox != api.SandboxDefault {
		t.Fatalf("the call is %+v, want it allowed", one)
	}
	held, err := d.Grants(t.Context(), "s1")
	if err != nil || len(held.Grants) != 0 || len(held.Accepted) != 1 {
		t.Fatalf("there are %+v, %v; want one acceptance", held, err)
	}
	accepted := held.Accepted[0]
	if accepted.Session != "s1" || accepted.Turn != "t1" || accepted.Call != "c1" || accepted.EnvironmentID != "local" || accepted.Record != asked.Record ||
		!strings.HasPrefix(accepted.By, "user:") || accepted.At.IsZero() || accepted.Epoch != asked.Ruling.Epoch {
		t.Errorf("the acceptance is %+v", accepted)
	}
	if one, err := d.Call(t.Context(), "s1", "t1", "c2", runs("mkdir out")); err != nil || one.Outcome != approval.OutcomeAllow {
		t.Errorf("the same again is %+v, %v; want it allowed", one, err)
	}
	d.posts("t1", "c3", runs("mkdir dist")) // another one is asked about
	if err := d.Revoke(t.Context(), accepted.ID); err != nil {
		t.Fatal(err)
	}
	d.posts("t1", "c4", runs("mkdir out"))
}

func TestFenceLooksAtTheFilesOfAnAction(t *testing.T) {
	d := start(t, setup{})
	cwd := d.hosts()
	script := filepath.Join(cwd, "build.sh")
	write(t, script, "true\n")
	asked := d.posts("t1", "c1", runs("sh build.sh"))
	if _, err := d.Decide(t.Context(), asked.Record, asked.Revision, api.Decision{Option: allow}); err != nil {
		t.Fatal(err)
	}
	d.settled("c1")
	write(t, script, "false\n")
	fence := api.Fence{Run: "s1", Instance: instance, Digest: asked.Digest}
	if _, err := d.Fence(t.Context(), asked.Record, fence); code(t, err) != api.Operand {
		t.Errorf("the fence says %v, want %s", err, api.Operand)
	}
	write(t, script, "true\n")
	if _, err := d.Fence(t.Context(), asked.Record, fence); err != nil {
		t.Errorf("the fence says %v of the file as it was", err)
	}
}

func TestSessionsTellHowTheyStand(t *testing.T) {
	d := start(t, setup{})
	cwd := d.hosts()
	foreign := false
	two, err := d.OpenTurn(t.Context(), "s1", "t2", api.TurnSpec{
		Instance: instance, Primary: "away",
		Environments: []api.Environment{
			{ID: "local", Cwd: cwd, Home: "/home/sam", TmpDir: "/tmp", ProjectRoots: []string{cwd}},
			{ID: "away", Cwd: `C:\work`, Native: &foreign},
		},
	})
	if err != nil || two.State != api.TurnOpen || two.Primary != "away" || two.Started.IsZero() {
		t.Fatalf("the turn is %+v, %v", two, err)
	}
	ours := true
	want := []api.Environment{
		{ID: "local", Cwd: cwd, Native: &ours, Home: "/home/sam", TmpDir: "/tmp", ProjectRoots: []string{cwd}},
		{ID: "away", Cwd: `C:\work`, Native: &foreign},
	}
	if diff := cmp.Diff(want, two.Environments); diff != "" {
		t.Errorf("its environments (-want +got):\n%s", diff)
	}
	d.posts("t1", "c1", wants("out"))
	one, err := d.Session(t.Context(), "s1", instance)
	if err != nil {
		t.Fatal(err)
	}
	if one.ID != "s1" || one.Run != "s1" || one.Instance != instance || one.Version != "v7" || one.Folder != cwd || len(one.Members) != 1 ||
		one.Subject.ID != "agent:a" || len(one.Turns) != 2 || one.Turns[0].ID != "t1" || len(one.Pending) != 1 || one.Pending[0].CallID != "c1" {
		t.Errorf("the session is %+v", one)
	}
	all, err := d.Sessions(t.Context())
	if diff := cmp.Diff([]api.Session{one}, all); err != nil || diff != "" {
		t.Errorf("%v; listed (-want +got):\n%s", err, diff)
	}
	if s, err := d.Status(t.Context()); err != nil || s.Sessions != 1 || s.Turns != 2 {
		t.Errorf("the status has %d sessions and %d turns, %v; want 1 and 2", s.Sessions, s.Turns, err)
	}
	ended, err := d.EndTurn(t.Context(), "s1", "t1", instance)
	if err != nil || ended.State != api.TurnEnded || ended.Why == "" {
		t.Errorf("the turn is %+v, %v; want it ended", ended, err)
	}
	if gone := d.settled("c1"); gone.Outcome != approval.OutcomeCancel || gone.Fault != api.FaultCancelled {
		t.Errorf("what waited in it is %+v, want it cancelled", gone)
	}
	if _, err := d.EndTurn(t.Context(), "s1", "t1", instance); err != nil {
		t.Errorf("to end it again is %v", err)
	}
	if err := d.EndSession(t.Context(), "s1", instance); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Session(t.Context(), "s1", instance); code(t, err) != api.NoSession {
		t.Errorf("a session that ended is %v, want %s", err, api.NoSession)
	}
	if all, err := d.Sessions(t.Context()); err != nil || all == nil || len(all) != 0 {
		t.Errorf("listed are %+v, %v; want an empty list", all, err)
	}
}

func TestClosingTheConnectionCancelsTheCall(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := d.calls(ctx, d.Client, "t1", "c1", wants("out"))
	record := d.until(approval.Pending)
	enough := errors.New("enough")
	cancel(enough)
	if got := <-done; !errors.Is(got.err, enough) || got.Outcome != "" {
		t.Fatalf("the one who went away has %+v, want no answer", got)
	}
	if end := d.until(approval.Cancelled); end.ID != record.ID {
		t.Errorf("record %s was cancelled, want %s", end.ID, record.ID)
	}
	if one := d.settled("c1"); one.Outcome != approval.OutcomeCancel || one.Fault != api.FaultCancelled {
		t.Errorf("the call is %+v, want it cancelled", one)
	}
	if _, err := d.Respond(t.Context(), "s1", "c1", 0, api.Response{}); code(t, err) != api.Unmatched {
		t.Errorf("a response to it is %v, want %s", err, api.Unmatched)
	}
	// The turn goes on.
	if one, err := d.Call(t.Context(), "s1", "t1", "c2", runs("ls")); err != nil || one.Outcome != approval.OutcomeAllow {
		t.Errorf("the next call is %+v, %v; want it allowed", one, err)
	}
}

func TestCallsAreWaitedFor(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	done := d.calls(t.Context(), d.Client, "t1", "c1", runs("make x"))
	record := d.until(approval.Pending)
	if _, err := d.Decide(t.Context(), record.ID, 1, api.Decision{Option: deny, Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil || got.Outcome != approval.OutcomeDeny || got.Fault != api.FaultRefused || got.Effective != nil || got.Message != "not now" ||
		!strings.Contains(got.Output, "may not run") || string(got.Option) != string(deny) {
		t.Errorf("the call is %+v, want it refused", got)
	}
	d.until(approval.Sent) // what was written is told to be
	for text, want := range map[string]struct {
		outcome  approval.Outcome
		recorded bool
	}{
		"ls": {approval.OutcomeAllow, false}, "echo hi": {approval.OutcomeAllow, true}, "rm x": {approval.OutcomeDeny, true},
	} {
		one, err := d.Call(t.Context(), "s1", "t1", text, runs(text))
		if err != nil || one.Outcome != want.outcome || (one.Record != "") != want.recorded || (one.Effective != nil) != (want.outcome == approval.OutcomeAllow) {
			t.Errorf("%s is %+v, %v; want %s", text, one, err, want.outcome)
		}
		posted, err := d.PostCall(t.Context(), "s1", "t1", text+" posted", runs(text))
		if err != nil || posted.Outcome != want.outcome {
			t.Errorf("%s, posted, is %+v, %v; want %s at once", text, posted, err, want.outcome)
		}
	}
}

// What is wrong with the arguments of request_permissions is for the model to
// mend, and what is wrong with the body for the host.
func TestFaultsOfArgumentsAreForTheModel(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	for name, test := range map[string]struct{ arguments, fault string }{
		"an unknown field":         {`{"permissions":{"network":{"enabled":true}},"urgent":true}`, api.FaultArguments},
		"an unknown environment":   {`{"environment_id":"moon","permissions":{"network":{"enabled":true}}}`, api.FaultEnvironment},
		"nothing":                  {`{"permissions":{}}`, api.FaultEmpty},
		"no object":                {`"all"`, api.FaultArguments},
		"a path of somewhere else": {`{"permissions":{"file_system":{"write":["C:\\x"]}}}`, api.FaultPath},
	} {
		t.Run(name, func(t *testing.T) {
			one, err := d.Call(t.Context(), "s1", "t1", name, requests(test.arguments))
			if err != nil || one.Outcome != approval.OutcomeDeny || one.Fault != test.fault || one.Output == "" || one.Record != "" {
				t.Errorf("the call is %+v, %v; want the fault %s", one, err, test.fault)
			}
		})
	}
	if want := `regent_call_faults_total{fault="arguments"} 2`; !strings.Contains(d.metricsOf(), want+"\n") {
		t.Errorf("the metrics lack %s", want)
	}
	response, text := d.sends("PUT", "/v1/sessions/s1/turns/t1/calls/c9", `{"instance":"host-1","tool":{"name":"request_permissions","arguments":{"permissions":{},"permissions":{}}}}`)
	if e := failed(t, response, text); e.Code != api.BadRequest || e.Pointer != "/tool/arguments/permissions" {
		t.Errorf("a body that names a member twice is %s at %s, want %s there", e.Code, e.Pointer, api.BadRequest)
	}
}

func TestAgentsDoNotRespond(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	d.posts("t1", "c1", wants("out"))
	forbidden := []string{"sessions", "respond=s1", "grants", "revoke=g1", "list"}
	var refused []string
	for _, step := range forbidden {
		name, _, _ := strings.Cut(step, "=")
		refused = append(refused, name+" forbidden")
	}
	for name, before := range map[string][]string{
		"one that opened a session": {"open-session=s2"},
		"one that an agent started": {"ask", "child"},
	} {
		t.Run(name, func(t *testing.T) {
			got := d.plays(append(before, forbidden...)...)
			if diff := cmp.Diff(refused, got[len(got)-len(refused):]); diff != "" {
				t.Errorf("it may (-want +got):\n%s", diff)
			}
		})
	}
	// The name of an instance is what a session goes by. Here it is that of the
	// session, which another process opened.
	if got := d.plays("sessions", "open-session=s3", "sessions"); !cmp.Equal(got, []string{"sessions ok", "open-session ok", "sessions forbidden"}) {
		t.Errorf("to open a session makes an agent: %v", got)
	}
	for _, step := range []string{"open-turn=s3", "call=s3"} {
		if step == "call=s3" {
			if _, err := d.OpenTurn(t.Context(), "s3", "t1", api.TurnSpec{Instance: "s3"}); err != nil {
				t.Fatal(err)
			}
		}
		name, _, _ := strings.Cut(step, "=")
		if got := d.plays("sessions", step, "sessions"); !cmp.Equal(got, []string{"sessions ok", name + " ok", "sessions forbidden"}) {
			t.Errorf("%s makes an agent: %v", name, got)
		}
	}
	if one, err := d.AwaitCall(t.Context(), "s1", "c1", instance, 0); err != nil || one.Outcome != "" {
		t.Errorf("the call is %+v, %v; want that no agent has answered it", one, err)
	}
}

func TestAnotherInstanceSeesNothing(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	d.posts("t1", "c1", wants("out"))
	ctx, other := t.Context(), "host-2"
	if _, err := d.Renew(ctx, other); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"to read":   second(d.Session(ctx, "s1", other)),
		"to end":    d.EndSession(ctx, "s1", other),
		"a turn":    second(d.OpenTurn(ctx, "s1", "t9", api.TurnSpec{Instance: other})),
		"its end":   second(d.EndTurn(ctx, "s1", "t1", other)),
		"its tools": second(d.Tools(ctx, "s1", "t1", other)),
		"a call":    second(d.Call(ctx, "s1", "t1", "c9", api.CallSpec{Instance: other, Command: &approval.Command{Text: "ls"}})),
		"to poll":   second(d.AwaitCall(ctx, "s1", "c1", other, 0)),
		"to cancel": second(d.CancelCall(ctx, "s1", "c1", api.Withdrawal{Instance: other})),
		"nothing":   second(d.Session(ctx, "nothing", instance)),
	} {
		if code(t, err) != api.NoSession {
			t.Errorf("%s is %v, want %s", name, err, api.NoSession)
		}
	}
	// That the id is taken is all that one learns.
	if _, err := d.OpenSession(ctx, "s1", api.SessionSpec{Instance: other}); code(t, err) != api.Exists {
		t.Errorf("to open it is %v, want %s", err, api.Exists)
	}
	if one, err := d.AwaitCall(ctx, "s1", "c1", instance, 0); err != nil || one.State != approval.Pending {
		t.Errorf("the call is %+v, %v; want that it waits", one, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestResponsesThatChangeNothingAreMadeKnown(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	events := d.follow(d.Client, client.FromNow)
	observer := d.follow(d.As("user:otto"), client.FromNow)
	notice := func(of *client.Events) api.Notice {
		t.Helper()
		for {
			one, err := of.Next()
			if err != nil {
				t.Fatal(err)
			}
			if one.Notice != nil {
				return *one.Notice
			}
		}
	}
	d.posts("t1", "c1", wants("out"))
	grant := api.Response{Permissions: profile(t, `{"network":{"enabled":true}}`)}
	if _, err := d.Respond(t.Context(), "s1", "c1", 7, grant); code(t, err) != api.Conflict {
		t.Errorf("a response to another revision is %v, want %s", err, api.Conflict)
	}
	if _, err := d.Respond(t.Context(), "s1", "c1", 1, api.Response{Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	if one := d.settled("c1"); one.Outcome != approval.OutcomeAllow || one.Fault != "" || one.Response == nil || one.Response.Permissions.Grants() {
		t.Errorf("the call is %+v, want an empty response", one)
	}
	for name, call := range map[string]string{"a second response": "c1", "one to nothing": "c7"} {
		if _, err := d.Respond(t.Context(), "s1", call, 0, grant); code(t, err) != api.Unmatched {
			t.Errorf("%s is %v, want %s", name, err, api.Unmatched)
		}
	}
	if _, err := d.Respond(t.Context(), "s7", "c1", 0, grant); code(t, err) != api.NoSession {
		t.Errorf("a response to no session is %v, want %s", err, api.NoSession)
	}
	for range 4 {
		if n := notice(events); n.Kind != "answer" || !strings.Contains(n.Message, "changed nothing") {
			t.Errorf("the notice is %+v, want one of an answer", n)
		}
		if n := notice(observer); n.Kind != "answer" {
			t.Errorf("an observer hears %+v, want the same", n)
		}
	}
	if want := "regent_answers_unmatched_total 4"; !strings.Contains(d.metricsOf(), want+"\n") {
		t.Errorf("the metrics lack %s", want)
	}
	if held, err := d.Grants(t.Context(), ""); err != nil || len(held.Grants) != 0 {
		t.Errorf("there are %+v, %v; want that nothing was granted", held, err)
	}
}

func TestPathsOfSomewhereElseInterruptTheTurn(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	d.posts("t1", "c1", wants("out"))
	_, err := d.Respond(t.Context(), "s1", "c1", 0, api.Response{Permissions: profile(t, `{"file_system":{"write":["C:\\x"]}}`)})
	if code(t, err) != api.Unplaced {
		t.Errorf("the response is %v, want %s", err, api.Unplaced)
	}
	if one := d.settled("c1"); one.Outcome != approval.OutcomeCancel {
		t.Errorf("the call is %+v, want it cancelled", one)
	}
	if _, err := d.Call(t.Context(), "s1", "t1", "c2", runs("ls")); code(t, err) != api.TurnOver {
		t.Errorf("the next call is %v, want %s", err, api.TurnOver)
	}
}

func TestWhoMayRespond(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	d.posts("t1", "c1", wants("out"))
	if _, err := d.OpenSession(t.Context(), "s2", api.SessionSpec{Instance: instance}); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string][]string{"user:olga": {"s1", "s2"}, "user:mia": {"s1"}, "user:otto": {"s1", "s2"}} {
		all, err := d.As(who).Sessions(t.Context())
		var ids []string
		for _, one := range all {
			ids = append(ids, one.ID)
		}
		if diff := cmp.Diff(want, ids); err != nil || diff != "" {
			t.Errorf("%s sees (-want +got), %v:\n%s", who, err, diff)
		}
	}
	for _, who := range []string{"user:mia", "user:otto"} {
		if _, err := d.As(who).Respond(t.Context(), "s1", "c1", 0, api.Response{}); code(t, err) != api.Forbidden {
			t.Errorf("a response by %s is %v, want %s", who, err, api.Forbidden)
		}
	}
	if _, err := d.As("user:mia").Respond(t.Context(), "s2", "c1", 0, api.Response{}); code(t, err) != api.NoSession {
		t.Errorf("a response in a session of others is %v, want %s", err, api.NoSession)
	}
	if _, err := d.As("user:olga").Respond(t.Context(), "s1", "c1", 0, api.Response{
		Permissions: profile(t, `{"file_system":{"write":["out"]}}`), Scope: permission.Session,
	}); err != nil {
		t.Fatal(err)
	}
	d.settled("c1")
	held, err := d.As("user:mia").Grants(t.Context(), "")
	if err != nil || len(held.Grants) != 1 || held.Grants[0].By != "user:olga" || held.Grants[0].Scope != permission.Session {
		t.Fatalf("a member sees %+v, %v; want the grant of the session", held, err)
	}
	for _, who := range []string{"user:mia", "user:otto"} {
		if err := d.As(who).Revoke(t.Context(), held.Grants[0].ID); code(t, err) != api.Forbidden {
			t.Errorf("to revoke is %v for %s, want %s", err, who, api.Forbidden)
		}
	}
	if err := d.As("user:olga").Revoke(t.Context(), held.Grants[0].ID); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"a session": second(d.bearer("user:otto").OpenSession(t.Context(), "s3", api.SessionSpec{Instance: "otto"})),
		"a turn":    second(d.bearer("user:otto").OpenTurn(t.Context(), "s1", "t3", api.TurnSpec{Instance: instance})),
		"a call":    second(d.bearer("user:otto").Call(t.Context(), "s1", "t1", "c3", runs("ls"))),
	} {
		if code(t, err) != api.Forbidden {
			t.Errorf("%s of an observer is %v, want %s", name, err, api.Forbidden)
		}
	}
}

func TestResponsesThatGrantNeedProof(t *testing.T) {
	d := start(t, setup{proofs: true, principals: people + ", step_up: true}\n"})
	const passphrase = "correct horse battery staple"
	if err := d.stepUp.EnrollPassphrase(credential.Local, passphrase); err != nil {
		t.Fatal(err)
	}
	d.hosts()
	d.posts("t1", "c1", wants("out"))
	grant := api.Response{Permissions: profile(t, `{"file_system":{"write":["out"]}}`)}
	if _, err := d.Respond(t.Context(), "s1", "c1", 0, grant); code(t, err) != api.StepUp {
		t.Errorf("without proof there is %v, want %s", err, api.StepUp)
	}
	// A proof is not looked at for an answer that cannot count.
	grant.Proof = "wrong"
	for range 10 {
		if _, err := d.Respond(t.Context(), "s1", "c1", 9, grant); code(t, err) != api.Conflict {
			t.Fatalf("a stale response is %v, want %s", err, api.Conflict)
		}
		if _, err := d.Respond(t.Context(), "s1", "c2", 0, grant); code(t, err) != api.Unmatched {
			t.Fatalf("a response to nothing is %v, want %s", err, api.Unmatched)
		}
		if _, err := d.As("user:otto").Respond(t.Context(), "s1", "c1", 0, grant); code(t, err) != api.Forbidden {
			t.Fatalf("a response by an observer is %v, want %s", err, api.Forbidden)
		}
	}
	if _, err := d.Respond(t.Context(), "s1", "c1", 0, grant); code(t, err) != api.WrongProof {
		t.Errorf("a wrong proof is %v, want %s", err, api.WrongProof)
	}
	grant.Proof = passphrase
	if _, err := d.Respond(t.Context(), "s1", "c1", 0, grant); err != nil {
		t.Errorf("with proof there is %v", err)
	}
	if one := d.settled("c1"); one.Response == nil || !one.Response.Permissions.Grants() {
		t.Errorf("the call is %+v, want the grant", one)
	}
	d.posts("t1", "c2", wants("dist"))
	if _, err := d.Respond(t.Context(), "s1", "c2", 0, api.Response{}); err != nil {
		t.Errorf("to refuse is refused: %v", err)
	}
}

func TestSecretsOfAReasonAreMasked(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	asked := d.posts("t1", "c1", requests(`{"reason":"push with `+secret+`","permissions":{"network":{"enabled":true}}}`))
	all, err := d.Sessions(t.Context())
	if err != nil || len(all) != 1 || len(all[0].Pending) != 1 {
		t.Fatalf("listed are %+v, %v; want what waits", all, err)
	}
	for who, event := range map[string]api.PermissionsEvent{"the host": *asked.Event, "a client": all[0].Pending[0]} {
		if !strings.HasPrefix(event.Reason, "push with ") || strings.Contains(event.Reason, secret) {
			t.Errorf("%s is told %q, want the secret masked", who, event.Reason)
		}
	}
}

func TestWithheldAnswersAreNotTold(t *testing.T) {
	d := start(t, setup{more: `request_permissions: {after: [{command: [/bin/sh, -c, 'cat >/dev/null; echo "{\"decision\":\"block\",\"reason\":\"ask in the evening\"}"']}]}` + "\n"})
	d.hosts()
	d.posts("t1", "c1", wants("out"))
	if _, err := d.Respond(t.Context(), "s1", "c1", 0, api.Response{Permissions: profile(t, `{"file_system":{"write":["out"]}}`)}); err != nil {
		t.Fatal(err)
	}
	one := d.settled("c1")
	if one.Fault != api.FaultWithheld || one.Response != nil || one.Settlement != nil || one.Option != nil || !strings.Contains(one.Output, "ask in the evening") {
		t.Errorf("the call is %+v, want that its answer is withheld", one)
	}
	if held, err := d.Grants(t.Context(), ""); err != nil || len(held.Grants) != 1 {
		t.Errorf("there are %+v, %v; want that the grant stays", held, err)
	}
}

func TestSessionsEndWithTheDaemon(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	done := d.calls(t.Context(), d.Client, "t1", "c1", wants("out"))
	record := d.until(approval.Pending)
	d.quit()
	if got := <-done; got.err != nil || got.Outcome != approval.OutcomeCancel || got.Fault != api.FaultCancelled {
		t.Errorf("the one who waited hears %+v, want that it was cancelled", got)
	}
	again := start(t, setup{again: d})
	if _, err := again.Session(t.Context(), "s1", instance); code(t, err) != api.NoSession {
		t.Errorf("the session is %v, want %s", err, api.NoSession)
	}
	if _, err := again.Call(t.Context(), "s1", "t1", "c2", runs("ls")); code(t, err) != api.NoSession {
		t.Errorf("a call in it is %v, want %s", err, api.NoSession)
	}
	if r, err := again.Read(t.Context(), record.ID); err != nil || r.State != approval.Cancelled {
		t.Errorf("the record is %s, %v; want cancelled", r.State, err)
	}
	if _, err := again.OpenSession(t.Context(), "s1", api.SessionSpec{Instance: "host-2"}); err != nil {
		t.Errorf("to open it anew is %v", err)
	}
}

func TestInstanceTakesItsSessionsAlong(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	asked := d.posts("t1", "c1", wants("out"))
	if err := d.End(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	if _, err := d.AwaitCall(t.Context(), "s1", "c1", instance, 0); code(t, err) != api.NoSession {
		t.Errorf("the call is %v, want %s", err, api.NoSession)
	}
	d.newest(func(r *approval.Record) bool { return r.ID == asked.Record && r.State != approval.Pending })
	if _, err := d.OpenSession(t.Context(), "s1", api.SessionSpec{Instance: instance}); code(t, err) != api.Lost {
		t.Errorf("to open it again is %v, want %s", err, api.Lost)
	}
}

func TestCallsThatWaitAreBounded(t *testing.T) {
	d := start(t, setup{options: server.Options{MaxAsks: 2}})
	d.hosts()
	d.posts("t1", "c1", runs("make x"))
	d.posts("t1", "c2", runs("make y"))
	if _, err := d.PostCall(t.Context(), "s1", "t1", "c3", runs("make z")); code(t, err) != api.Overloaded {
		t.Errorf("one more is %v, want %s", err, api.Overloaded)
	}
	if _, err := d.CancelCall(t.Context(), "s1", "c1", api.Withdrawal{Instance: instance}); err != nil {
		t.Fatal(err)
	}
	d.posts("t1", "c3", runs("make z"))
}

func TestBodiesOfCallsAreBounded(t *testing.T) {
	d := start(t, setup{before: func(s *server.Server) { s.Room(1 << 10) }})
	d.hosts()
	long := runs("make " + strings.Repeat("x", 1<<10))
	if _, err := d.Call(t.Context(), "s1", "t1", "c1", long); code(t, err) != api.Overloaded {
		t.Errorf("what there is no room for is %v, want %s", err, api.Overloaded)
	}
	if _, err := d.Call(t.Context(), "s1", "t1", "c1", runs("ls")); err != nil {
		t.Errorf("what there is room for is %v", err)
	}
}

func TestSessionErrors(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	d.posts("t1", "c1", wants("out"))
	d.turn("over", "/")
	if _, err := d.EndTurn(t.Context(), "s1", "over", instance); err != nil {
		t.Fatal(err)
	}
	const (
		s    = "/v1/sessions/s1"
		call = s + "/turns/t1/calls/"
		ls   = `{"instance":"host-1","command":{"text":"ls"}}`
	)
	with := func(member string) string { return `{"instance":"host-1",` + member + `}` }
	long := strings.Repeat("x", api.MaxIDBytes+1)
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		want                     api.Code
		pointer                  string
	}{
		{"an id that is too long", "PUT", "/v1/sessions/" + long, `{"instance":"i"}`, nil, api.BadRequest, ""},
		{"an id with a line break", "PUT", "/v1/sessions/a%0Ab", `{"instance":"i"}`, nil, api.BadRequest, ""},
		{"an id that is no UTF-8", "PUT", "/v1/sessions/a%FF", `{"instance":"i"}`, nil, api.BadRequest, ""},
		{"an id that is a way up", "PUT", "/v1/sessions/%2e%2e", `{"instance":"i"}`, nil, api.BadRequest, ""},
		{"an id that hides its direction", "GET", "/v1/sessions/a%E2%80%AEb?instance=i", "", nil, api.BadRequest, ""},
		{"a turn that is no id", "PUT", s + "/turns/" + long, with(`"primary":""`), nil, api.BadRequest, ""},
		{"a call that is no id", "PUT", call + "a%00", ls, nil, api.BadRequest, ""},
		{"to end what is no id", "DELETE", "/v1/sessions/" + long + "?instance=i", "", nil, api.BadRequest, ""},
		{"to end a turn that is no id", "DELETE", s + "/turns/" + long + "?instance=i", "", nil, api.BadRequest, ""},
		{"tools of what is no id", "GET", s + "/turns/" + long + "/tools?instance=i", "", nil, api.BadRequest, ""},
		{"a poll for what is no id", "GET", s + "/calls/" + long + "?instance=i", "", nil, api.BadRequest, ""},
		{"to cancel what is no id", "POST", s + "/calls/" + long + "/cancel", `{}`, nil, api.BadRequest, ""},
		{"to respond to what is no id", "POST", s + "/calls/" + long + "/response", `{}`, nil, api.BadRequest, ""},

		{"a session of no instance", "PUT", "/v1/sessions/s2", `{}`, nil, api.BadRequest, "/instance"},
		{"a session with a relative workspace", "PUT", "/v1/sessions/s2", with(`"workspace":"w"`), nil, api.BadRequest, "/workspace"},
		{"a session with a relative folder", "PUT", "/v1/sessions/s2", with(`"folder":"w"`), nil, api.BadRequest, "/folder"},
		{"a session of a negative process", "PUT", "/v1/sessions/s2", with(`"agent_pid":-1`), nil, api.BadRequest, "/agent_pid"},
		{"a session of a process that is no ancestor", "PUT", "/v1/sessions/s2", with(`"agent_pid":4194304`), nil, api.AgentPID, "/agent_pid"},
		{"a session with an unknown member", "PUT", "/v1/sessions/s2", with(`"trusted":true`), nil, api.BadRequest, "/trusted"},
		{"a session with a member twice", "PUT", "/v1/sessions/s2", with(`"run":"a","run":"b"`), nil, api.BadRequest, "/run"},
		{"a session that is a form", "PUT", "/v1/sessions/s2", `{"instance":"i"}`, []string{"Content-Type", "", "Content-Type", "text/plain"}, api.UnsupportedMedia, ""},
		{"a session that is too large", "PUT", "/v1/sessions/s2", strings.Repeat(" ", api.MaxEnvelopeBytes+1), nil, api.TooLarge, ""},
		{"a session with a parameter", "PUT", "/v1/sessions/s2?force=1", `{"instance":"i"}`, nil, api.BadRequest, ""},
		{"a session that is open", "PUT", s, `{"instance":"host-1"}`, nil, api.Exists, ""},
		{"a session without its instance", "GET", s, "", nil, api.BadRequest, ""},
		{"a session that is not there", "GET", "/v1/sessions/s2?instance=host-1", "", nil, api.NoSession, ""},
		{"to end one that is not there", "DELETE", "/v1/sessions/s2?instance=host-1", "", nil, api.NoSession, ""},
		{"to end one without its instance", "DELETE", s, "", nil, api.BadRequest, ""},
		{"sessions with a parameter", "GET", "/v1/sessions?all=1", "", nil, api.BadRequest, ""},
		{"to post to the sessions", "POST", "/v1/sessions", `{}`, nil, api.MethodNotAllowed, ""},

		{"a turn of no instance", "PUT", s + "/turns/t2", `{}`, nil, api.BadRequest, "/instance"},
		{"a turn of no session", "PUT", "/v1/sessions/s2/turns/t2", `{"instance":"host-1"}`, nil, api.NoSession, ""},
		{"a turn that is open", "PUT", s + "/turns/t1", `{"instance":"host-1"}`, nil, api.Exists, ""},
		{"an environment without a cwd", "PUT", s + "/turns/t2", with(`"environments":[{"id":"e"}]`), nil, api.BadRequest, ""},
		{"an environment twice", "PUT", s + "/turns/t2", with(`"environments":[{"id":"e","cwd":"/"},{"id":"e","cwd":"/"}]`), nil, api.BadRequest, ""},
		{"a primary environment that is not there", "PUT", s + "/turns/t2", with(`"primary":"e"`), nil, api.BadRequest, ""},
		{"an environment with an unknown member", "PUT", s + "/turns/t2", with(`"environments":[{"id":"e","cwd":"/","root":true}]`), nil, api.BadRequest, "/environments/0/root"},
		{"to end a turn that is not there", "DELETE", s + "/turns/t2?instance=host-1", "", nil, api.NoTurn, ""},
		{"to end a turn without an instance", "DELETE", s + "/turns/t1", "", nil, api.BadRequest, ""},
		{"tools of a turn that is not there", "GET", s + "/turns/t2/tools?instance=host-1", "", nil, api.NoTurn, ""},
		{"tools without an instance", "GET", s + "/turns/t1/tools", "", nil, api.BadRequest, ""},

		{"a call of no instance", "PUT", call + "c2", `{"command":{"text":"ls"}}`, nil, api.BadRequest, "/instance"},
		{"a call of no turn", "PUT", s + "/turns/t2/calls/c2", ls, nil, api.NoTurn, ""},
		{"a call of a turn that is over", "PUT", s + "/turns/over/calls/c2", ls, nil, api.TurnOver, ""},
		{"a call that was made", "PUT", call + "c1", ls, nil, api.Exists, ""},
		{"a call of nothing", "PUT", call + "c2", `{"instance":"host-1"}`, nil, api.MalformedRequest, "/kind"},
		{"a call of a kind that it is not", "PUT", call + "c2", with(`"kind":"mcp","tool":{"name":"x"}`), nil, api.MalformedRequest, "/tool/server"},
		{"a call for permissions", "PUT", call + "c2", with(`"kind":"permissions"`), nil, api.BadRequest, ""},
		{"a call in no sandbox", "PUT", call + "c2", with(`"command":{"text":"ls"},"sandbox_permissions":"none"`), nil, api.BadRequest, ""},
		{"a call with more and without asking for it", "PUT", call + "c2", with(`"command":{"text":"ls"},"additional_permissions":{"network":{"enabled":true}}`), nil, api.BadRequest, ""},
		{"a call with more of nothing", "PUT", call + "c2", with(`"command":{"text":"ls"},"sandbox_permissions":"with_additional_permissions"`), nil, api.BadRequest, ""},
		{"a call with an unknown member", "PUT", call + "c2", with(`"command":{"text":"ls","as":"root"}`), nil, api.BadRequest, "/command/as"},
		{"a call with a member twice deep inside", "PUT", call + "c2", with(`"tool":{"name":"x","arguments":{"a":[{"b":1,"b":2}]}}`), nil, api.BadRequest, "/tool/arguments/a/0/b"},
		{"a call that ends too early", "PUT", call + "c2", `{"instance":"host-1"`, nil, api.BadRequest, ""},
		{"a call that is too large", "PUT", call + "c2", strings.Repeat(" ", approval.MaxRequestBytes+1), nil, api.TooLarge, ""},
		{"a call to wait for or not", "PUT", call + "c2?wait=1", ls, nil, api.BadRequest, ""},
		{"a call with a parameter", "PUT", call + "c2?force=1", ls, nil, api.BadRequest, ""},
		{"a poll for nothing", "GET", s + "/calls/c2?instance=host-1", "", nil, api.NoCall, ""},
		{"a poll of nobody", "GET", s + "/calls/c1", "", nil, api.BadRequest, ""},
		{"a poll that waits too long", "GET", s + "/calls/c1?instance=host-1&wait=61", "", nil, api.BadRequest, ""},
		{"to cancel nothing", "POST", s + "/calls/c2/cancel", `{"instance":"host-1"}`, nil, api.NoCall, ""},
		{"to cancel for nobody", "POST", s + "/calls/c1/cancel", `{}`, nil, api.BadRequest, "/instance"},

		{"a response to nothing", "POST", s + "/calls/c2/response", `{}`, nil, api.Unmatched, ""},
		{"a response in no session", "POST", "/v1/sessions/s2/calls/c1/response", `{}`, nil, api.NoSession, ""},
		{"a response of nonsense", "POST", s + "/calls/c1/response", `{"permissions":{"x":1}}`, nil, api.BadRequest, "/permissions"},
		{"a response with an unknown member", "POST", s + "/calls/c1/response", `{"force":true}`, nil, api.BadRequest, "/force"},
		{"a response for ever", "POST", s + "/calls/c1/response", `{"permissions":{"network":{"enabled":true}},"scope":"always"}`, nil, api.Invalid, ""},
		{"a response to any revision", "POST", s + "/calls/c1/response", `{}`, []string{"If-Match", "*"}, api.BadRequest, ""},
		{"a response to another revision", "POST", s + "/calls/c1/response", `{}`, []string{"If-Match", `"4"`}, api.Conflict, ""},
		{"a response with a parameter", "POST", s + "/calls/c1/response?force=1", `{}`, nil, api.BadRequest, ""},
		{"a response with a proof that nobody keeps", "POST", s + "/calls/c1/response", `{"proof":"x"}`, nil, api.NotEnrolled, ""},
		{"grants with a parameter", "GET", "/v1/grants?turn=t1", "", nil, api.BadRequest, ""},
		{"to revoke nothing", "DELETE", "/v1/grants/g1", "", nil, api.NoGrant, ""},
		{"to revoke with a parameter", "DELETE", "/v1/grants/g1?force=1", "", nil, api.BadRequest, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, text := d.sends(test.method, test.path, test.body, test.header...)
			if e := failed(t, response, text); e.Code != test.want || e.Pointer != test.pointer {
				t.Errorf("the error is %s at %q (%s), want %s at %q", e.Code, e.Pointer, e.Message, test.want, test.pointer)
			}
		})
	}
	if one, err := d.AwaitCall(t.Context(), "s1", "c1", instance, 0); err != nil || one.State != approval.Pending || one.Revision != 1 {
		t.Errorf("the call is %+v, %v; want that it waits as before", one, err)
	}
	page, err := d.List(t.Context(), approval.Query{})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("there are %d records, %v; want that of the call that waits", len(page.Records), err)
	}
}

func TestCallsSayWhereToPoll(t *testing.T) {
	d := start(t, setup{})
	d.hosts()
	body := `{"instance":"host-1","tool":{"name":"request_permissions","arguments":{"permissions":{"network":{"enabled":true}}}}}`
	response, text := d.sends("PUT", "/v1/sessions/s1/turns/t1/calls/a%2Fb%20c?wait=false", body)
	var one api.Call
	if err := jsonv2.Unmarshal(text, &one); err != nil || response.StatusCode != http.StatusAccepted || one.ID != "a/b c" || one.Outcome != "" {
		t.Fatalf("the answer is %s %s, want 202", response.Status, text)
	}
	poll := response.Header.Get("Location")
	if want := "/v1/sessions/s1/calls/a%2Fb%20c?instance=host-1"; poll != want {
		t.Fatalf("it is to be polled at %s, want %s", poll, want)
	}
	response, text = d.sends("GET", poll, "")
	if response.StatusCode != http.StatusAccepted || response.Header.Get("Location") != poll {
		t.Errorf("a poll has %s %s, want 202", response.Status, text)
	}
	var polled api.Call
	if err := jsonv2.Unmarshal(text, &polled); err != nil || !cmp.Equal(one, polled) {
		t.Errorf("a poll has (-want +got), %v:\n%s", err, cmp.Diff(one, polled))
	}
	response, text = d.sends("POST", "/v1/sessions/s1/calls/a%2Fb%20c/response", `{"permissions":{"network":{"enabled":true}}}`, "If-Match", fmt.Sprintf("%q", fmt.Sprint(one.Revision)))
	if response.StatusCode != http.StatusOK || response.Header.Get("ETag") != `"2"` {
		t.Errorf("the response is answered by %s with the tag %s: %s", response.Status, response.Header.Get("ETag"), text)
	}
	if got := d.settled("a/b c"); got.Response == nil || !got.Response.Permissions.Network.All {
		t.Errorf("the call is %+v, want the grant", got)
	}
}

func TestMetricsOfSessions(t *testing.T) {
	d := start(t, setup{more: "approval_policy: never\n"})
	cwd := d.hosts()
	if one, err := d.Call(t.Context(), "s1", "t1", "c1", wants("out")); err != nil || one.Outcome != approval.OutcomeAllow || one.Response == nil || one.Response.Permissions.Grants() || one.Record != "" {
		t.Errorf("the call is %+v, %v; want an empty response and no record", one, err)
	}
	for i, text := range []string{"ls", "ls", "cat x"} {
		if one, err := d.Call(t.Context(), "s1", "t1", fmt.Sprint(i), runs(text)); err != nil || one.Outcome != approval.OutcomeAllow || one.Record != "" {
			t.Fatalf("%s is %+v, %v; want it skipped", text, one, err)
		}
	}
	text := d.metricsOf()
	for _, want := range []string{
		`regent_sessions 1`,
		`regent_turns 1`,
		`regent_permission_requests_refused_total 1`,
		`regent_answers_unmatched_total 0`,
		`regent_hook_failures_total 0`,
		`regent_skips_total{effects="read",tool="command"} 3`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for _, secret := range []string{"s1", "t1", instance, cwd} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics tell %q", secret)
		}
	}
}
