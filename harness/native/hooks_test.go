package native_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
	"github.com/regent-policy/regent/reviewer"
)

// hookSwitch has the test's own program play a hook. What it plays is the text of
// its first argument.
const hookSwitch = "REGENT_TEST_HOOK"

// playHook is a hook: it writes what it was given into the file named by the
// switch, and does what its argument says.
func playHook(file string) {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		os.Exit(9)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(9)
	}
	fmt.Fprintln(f, string(in))
	_ = f.Close()
	switch what := os.Args[1]; what {
	case "fail":
		os.Exit(3)
	case "hang":
		select {}
	case "silence":
	default:
		fmt.Print(what)
	}
	os.Exit(0)
}

// hooks is a section of the configuration with one hook that says something.
func hooks(t *testing.T, when, what string) (settings, seen string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seen = filepath.Join(t.TempDir(), "seen")
	t.Setenv(hookSwitch, seen)
	command := jsonOf(t, []string{program, what})
	return fmt.Sprintf("request_permissions: {%s: [{command: %s, env: [%s], timeout_seconds: 10}]}\n", when, command, hookSwitch), seen
}

// inputs are what a hook was given, call by call.
func inputs(t *testing.T, seen string) []native.HookInput {
	t.Helper()
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	var all []native.HookInput
	for line := range strings.Lines(string(text)) {
		var in native.HookInput
		if err := json.Unmarshal([]byte(line), &in); err != nil {
			t.Fatal(err)
		}
		all = append(all, in)
	}
	return all
}

func TestHooksBeforeARequest(t *testing.T) {
	const asked = `{"permissions":{"network":{"enabled":true},"file_system":{"write":["/srv/out"]}},"reason":"build"}`
	tests := []struct {
		name, says string
		arguments  string
		fault      native.Fault
		output     string
		// requested is what a person is asked for, where one is.
		requested string
		human     bool
	}{
		{"says nothing", "silence", asked, "", "", `{"network":{"enabled":true},"file_system":{"write":["/srv/out"]}}`, false},
		{"has no objection", "{}", asked, "", "", `{"network":{"enabled":true},"file_system":{"write":["/srv/out"]}}`, false},
		{"blocks", `{"decision":"block","reason":"not here"}`, asked, native.FaultBlocked, "request_permissions was blocked: not here (", "", false},
		{"blocks what could not be read anyway", `{"decision":"block","reason":"not here"}`, `{"environment_id":"nowhere"}`, native.FaultBlocked, "request_permissions was blocked: not here (", "", false},
		{"narrows", `{"arguments":{"permissions":{"file_system":{"write":["/srv/out/a"]}}}}`, asked, "", "", `{"file_system":{"write":["/srv/out/a"]}}`, false},
		{"widens, which does not count", `{"arguments":{"permissions":{"file_system":{"write":["/srv","/etc"]}}}}`, asked, "", "", `{"file_system":{"write":["/srv/out"]}}`, false},
		{"leaves nothing", `{"arguments":{"permissions":{"file_system":{"write":["/etc"]}}}}`, asked, native.FaultBlocked, "request_permissions was blocked: a hook left nothing of what was asked for", "", false},
		{"makes it unreadable", `{"arguments":{"permissions":{"odd":1}}}`, asked, native.FaultArguments, "request_permissions arguments: permissions: odd: unknown field", "", false},
		{"fails", "fail", asked, "", "", `{"network":{"enabled":true},"file_system":{"write":["/srv/out"]}}`, true},
		{"says something else", "certainly!", asked, "", "", `{"network":{"enabled":true},"file_system":{"write":["/srv/out"]}}`, true},
		{"says what it cannot", `{"decision":"allow"}`, asked, "", "", `{"network":{"enabled":true},"file_system":{"write":["/srv/out"]}}`, true},
		{"says too much", `{"decision":"","scope":"session"}`, asked, "", "", `{"network":{"enabled":true},"file_system":{"write":["/srv/out"]}}`, true},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			settings, seen := hooks(t, "before", test.says)
			// Only a person may answer what a hook could not tell, whatever the mode.
			b := open(t, epoch(t, "permissions: {mode: auto_allow}\n"+settings, ""), nil)
			b.session()
			id := fmt.Sprintf("c%d", i)
			b.begin("t1", request(id, test.arguments))
			if test.human {
				r := b.waits(id)
				if !r.Request.HumanOnly || !strings.HasPrefix(r.Ruling.Reasons[0], "only a person may answer: the hook ") {
					t.Errorf("others than a person may answer, or nobody is told why: %q", r.Ruling.Reasons)
				}
				b.grant(id, permission.Response{Permissions: permission.Everything()})
			}
			final := b.final(id)
			if final.Fault != test.fault || test.output != "" && !strings.HasPrefix(final.Output, test.output) {
				t.Fatalf("%+v", final)
			}
			if test.requested != "" {
				want := profile(t, test.requested)
				if got := *b.records()[0].Request.Permissions; !got.Equal(want) {
					t.Errorf("asked for %s, want %s", got, want)
				}
				if !final.Response.Permissions.Equal(want) {
					t.Errorf("granted %s", final.Response.Permissions)
				}
			} else if len(b.records()) > 0 {
				t.Errorf("records %+v", b.records())
			}
			in := inputs(t, seen)
			if len(in) != 1 || in[0].Event != native.HookBefore || in[0].CallID != id || string(in[0].Arguments) != test.arguments {
				t.Errorf("the hook was given %+v", in)
			}
		})
	}
}

func TestHookCannotMoveARequestElsewhere(t *testing.T) {
	settings, _ := hooks(t, "before", `{"arguments":{"environment_id":"other","permissions":{"network":{"enabled":true}}}}`)
	b := open(t, epoch(t, "permissions: {mode: auto_allow}\n"+settings, ""), nil)
	b.session()
	b.turn("t2", b.environment("local"), b.environment("other"))
	b.begin("t2", request("c1", network))
	if r := b.waits("c1"); !r.Request.HumanOnly || r.Request.Environment.ID != "local" {
		t.Errorf("%+v", r.Request)
	}
	b.grant("c1", permission.Response{})
	b.final("c1")
}

func TestHooksAfterAnAnswer(t *testing.T) {
	tests := []struct {
		name, says string
		fault      native.Fault
		output     string
	}{
		{"has no objection", "{}", "", `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`},
		{"withholds", `{"decision":"block","reason":"tell nobody"}`, native.FaultWithheld, "the answer to request_permissions was withheld: tell nobody ("},
		{"fails", "fail", native.FaultWithheld, "the answer to request_permissions was withheld: the hook failed ("},
		{"says something else", "fine", native.FaultWithheld, "the answer to request_permissions was withheld: the hook failed ("},
		{"wants to change what was asked", `{"arguments":{"permissions":{}}}`, native.FaultWithheld, "the answer to request_permissions was withheld: the hook gave arguments, which it cannot ("},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			settings, seen := hooks(t, "after", test.says)
			b := open(t, epoch(t, manual+settings, ""), nil)
			b.session()
			id := fmt.Sprintf("c%d", i)
			b.begin("t1", request(id, network))
			b.grant(id, permission.Response{Permissions: permission.Everything()})
			final := b.final(id)
			if final.Fault != test.fault || !strings.HasPrefix(final.Output, test.output) {
				t.Errorf("%+v", final)
			}
			if test.fault != "" && final.Response != nil {
				t.Error("what was withheld is told all the same")
			}
			if g := b.held(); len(g) != 1 || !g[0].Permissions.Network.All {
				t.Errorf("the grant is not what was recorded: %+v", g)
			}
			in := inputs(t, seen)
			if len(in) != 1 || in[0].Event != native.HookAfter || in[0].Response == nil || !in[0].Response.Permissions.Network.All {
				t.Errorf("the hook was given %+v", in)
			}
		})
	}
}

func TestReviewersAreHooksToo(t *testing.T) {
	const settings = manual + "reviewers:\n  one/judge: {kind: model, provider: openai, model: small-model}\nrequest_permissions: {before: [{reviewer: one/judge}]}\n"
	tests := []struct {
		name    string
		verdict approval.VerdictOutcome
		fault   native.Fault
		human   bool
	}{
		{"an approval lets it pass", approval.VerdictAllow, "", false},
		{"a denial blocks", approval.VerdictDeny, native.FaultBlocked, false},
		{"uncertainty has a person asked", approval.VerdictUnsure, "", true},
		{"a failure has a person asked", approval.VerdictError, "", true},
		{"a timeout has a person asked", approval.VerdictTimeout, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, epoch(t, settings, ""), panel{"one/judge": judge(func(q reviewer.Question) approval.Verdict {
				if q.Request.Tool.Name != native.ToolName {
					t.Errorf("reviewed %+v", q.Request)
				}
				return approval.Verdict{Outcome: test.verdict, Rationale: "so it is"}
			})})
			b.session()
			b.begin("t1", request("c1", network))
			if test.fault == "" {
				if got := b.waits("c1").Request.HumanOnly; got != test.human {
					t.Errorf("human only: %v", got)
				}
				b.grant("c1", permission.Response{})
			}
			if final := b.final("c1"); final.Fault != test.fault {
				t.Errorf("%+v", final)
			}
		})
	}
}

func TestCancelWhileAHookRuns(t *testing.T) {
	settings, seen := hooks(t, "before", "hang")
	b := open(t, epoch(t, manual+settings, ""), nil)
	b.session()
	b.begin("t1", request("c1", network))
	for {
		if _, err := os.Stat(seen); err == nil {
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the hook never ran")
		}
	}
	one, err := b.Cancel(t.Context(), "s1", host, "c1", "changed my mind")
	if err != nil || one.Final == nil || one.Final.Fault != native.FaultCancelled {
		t.Fatalf("%+v, %v", one, err)
	}
	if len(b.records()) > 0 || len(b.held()) > 0 {
		t.Errorf("%d records, %d grants", len(b.records()), len(b.held()))
	}
}
