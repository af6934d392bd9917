package codex_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/codex"
)

// line is one connection's codec, with what came of everything it was given.
type line struct {
	testing.TB
	*codex.Codec
}

func connect(tb testing.TB, o codex.Options) line {
	tb.Helper()
	return line{tb, codex.NewCodec(o)}
}

func (w line) server(message string) harness.Step {
	w.Helper()
	step, err := w.FromServer([]byte(message))
	if err != nil {
		w.Fatalf("FromServer(%s): %v", message, err)
	}
	return step
}

func (w line) client(message string) harness.Step {
	w.Helper()
	step, err := w.FromClient([]byte(message))
	if err != nil {
		w.Fatalf("FromClient(%s): %v", message, err)
	}
	return step
}

// asks is the one question that comes of a message.
func (w line) asks(message string) *harness.Question {
	w.Helper()
	step := w.server(message)
	if step.Ask == nil || step.Forward != nil {
		w.Fatalf("%s is no question, but %+v", message, step)
	}
	return step.Ask
}

var ownID = regexp.MustCompile(`"regent-[0-9A-Za-z-]+-([0-9]+)"`)

// says are the messages of an answer, with the ids of Regent's own requests made
// the same in every run.
func (w line) says(key string, a gate.Answer) []string {
	w.Helper()
	var out []string
	for _, m := range w.Answer(key, a) {
		if !json.Valid(m) {
			w.Errorf("%s is no JSON", m)
		}
		out = append(out, ownID.ReplaceAllString(string(m), `"regent-$1"`))
	}
	return out
}

// answerOf is an answer as the gate gives it to a request, with all that was
// asked for where it allows.
func answerOf(r *approval.Request, outcome approval.Outcome, source approval.Source, reason string) gate.Answer {
	options := r.Options
	if len(options) == 0 {
		options = approval.NativeOptions
	}
	a := gate.Answer{Outcome: outcome, Reason: reason}
	if i := approval.Choice(options, outcome); i >= 0 {
		a.Option = options[i]
	}
	if r.Permissions != nil && outcome == approval.OutcomeAllow {
		a.Settlement = &permission.Settlement{Permissions: *r.Permissions, Scope: permission.Turn}
	}
	a.Record = &approval.Record{ID: "r1", Instance: "i", Decision: &approval.Decision{
		Option: a.Option, Outcome: outcome, Source: source, By: map[approval.Source]string{approval.SourceRule: "GIT-001"}[source], Reason: reason,
	}}
	return a
}

// Every recorded message passes through as it is, but for what is asked of
// Regent, whose answers are those in testdata/answers.
func TestRecordedFramesPassTheCodec(t *testing.T) {
	names, err := filepath.Glob("testdata/frames/*/*.jsonl")
	if err != nil || len(names) < 90 {
		t.Fatalf("%d recordings, %v", len(names), err)
	}
	answers := map[string]map[string][]string{} // version -> case, id and outcome
	for _, name := range names {
		version, title := filepath.Base(filepath.Dir(name)), strings.TrimSuffix(filepath.Base(name), ".jsonl")
		if answers[version] == nil {
			answers[version] = map[string][]string{}
		}
		for _, outcome := range []approval.Outcome{approval.OutcomeAllow, approval.OutcomeDeny, approval.OutcomeCancel} {
			w := connect(t, codex.Options{})
			for _, line := range lines(t, name) {
				var c struct {
					Dir   string
					Frame json.RawMessage
				}
				if err := json.Unmarshal([]byte(line), &c); err != nil {
					t.Fatal(err)
				}
				var f struct {
					ID     json.RawMessage
					Method string
				}
				if err := json.Unmarshal(c.Frame, &f); err != nil {
					t.Fatal(err)
				}
				switch {
				case c.Dir == "c2s":
					step := w.client(string(c.Frame))
					if f.Method != "initialize" && f.Method != "" && string(step.Forward) != string(c.Frame) {
						t.Errorf("%s: %s goes on as %s", name, c.Frame, step.Forward)
					}
				default:
					step := w.server(string(c.Frame))
					if step.Ask == nil {
						if string(step.Forward) != string(c.Frame) {
							t.Errorf("%s: %s goes on as %s", name, c.Frame, step.Forward)
						}
						if strings.HasSuffix(f.Method, "requestApproval") {
							t.Errorf("%s: %s was not asked about", name, c.Frame)
						}
						continue
					}
					at := fmt.Sprintf("%s %s %s", title, f.ID, outcome)
					answers[version][at] = w.says(step.Ask.Key, answerOf(step.Ask.Request, outcome, approval.SourceRule, "because"))
				}
			}
		}
	}
	for version, got := range answers {
		golden := filepath.Join("testdata/answers", version+".json")
		if *update {
			if err := errors.Join(os.MkdirAll(filepath.Dir(golden), 0o755), os.WriteFile(golden, indented(t, got), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(indented(t, got))); diff != "" {
			t.Errorf("answers of %s (-want +got):\n%s", version, diff)
		}
	}
}

const (
	turnOver = `{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed"}}}`
	askRun   = `{"id":7,"method":"item/commandExecution/requestApproval","params":{"kind":"command","threadId":"t","turnId":"u","itemId":"c",` +
		`"command":"/bin/bash -lc 'rm x'","cwd":"/w","availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm","x"]}},"cancel"]}}`
	askPermissions = `{"id":8,"method":"item/permissions/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"c","cwd":"/w",` +
		`"permissions":{"network":{"enabled":true},"fileSystem":{"entries":[{"path":{"type":"path","path":"/w/out"},"access":"write"}]}}}}`
	askHuman = `{"id":9,"method":"item/commandExecution/requestApproval","params":{"kind":"humanCommand","threadId":"t","turnId":"u","itemId":"c",` +
		`"command":"/bin/bash -lc 'rm x'","cwd":"/w","availableDecisions":["accept","decline","cancel"]}}`
)

func TestAnswers(t *testing.T) {
	granted := func(profile string, s permission.Settlement) *permission.Settlement {
		if err := json.Unmarshal([]byte(profile), &s.Permissions); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	legacy := `{"id":3,"method":"execCommandApproval","params":{"conversationId":"t","callId":"c","command":["ls"],"cwd":"/w"}}`
	odd := `{"id":4,"method":"item/commandExecution/requestApproval","params":{"kind":"ritual","threadId":"t","turnId":"u","command":"ls"}}`
	for _, tc := range []struct {
		name, message string
		answer        gate.Answer
		want          string
	}{
		{"what was chosen is said verbatim", askRun, gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm","x"]}}`)}, `{"id":7,"result":{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm","x"]}}}}`},
		{"an option that was not offered allows once at most", askRun, gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`"acceptForSession"`)}, `{"id":7,"result":{"decision":"accept"}}`},
		{"an option that allows does not come with a refusal", askRun, gate.Answer{Outcome: approval.OutcomeDeny, Option: json.RawMessage(`"accept"`)}, `{"id":7,"result":{"decision":"decline"}}`},
		{"no option and no outcome is a refusal", askRun, gate.Answer{}, `{"id":7,"result":{"decision":"decline"}}`},
		{"cancel interrupts", askRun, gate.Answer{Outcome: approval.OutcomeCancel, Option: json.RawMessage(`"cancel"`)}, `{"id":7,"result":{"decision":"cancel"}}`},
		{"the older protocol has words of its own", legacy, gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`"approved"`)}, `{"id":3,"result":{"decision":"approved"}}`},
		{"and refuses in them", legacy, gate.Answer{Outcome: approval.OutcomeDeny}, `{"id":3,"result":{"decision":"denied"}}`},
		{"what was not understood is refused in words of the protocol", odd, gate.Answer{Outcome: approval.OutcomeDeny, Option: json.RawMessage(`"deny"`)}, `{"id":4,"result":{"decision":"decline"}}`},
		{"a person may allow it once", odd, gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`"allow"`)}, `{"id":4,"result":{"decision":"accept"}}`},

		{"all that was asked for, for the turn", askPermissions, gate.Answer{Outcome: approval.OutcomeAllow, Settlement: granted(`{"network":{"enabled":true},"file_system":{"entries":[{"path":{"type":"path","path":"/w/out"},"access":"write"}]}}`, permission.Settlement{Scope: permission.Turn})}, `{"id":8,"result":{"permissions":{"network":{"enabled":true},"fileSystem":{"entries":[{"path":{"type":"path","path":"/w/out"},"access":"write"}],"write":["/w/out"]}},"scope":"turn"}}`},
		{"a part of it", askPermissions, gate.Answer{Outcome: approval.OutcomeAllow, Settlement: granted(`{"file_system":{"entries":[{"path":{"type":"path","path":"/w/out/a"},"access":"read"}]}}`, permission.Settlement{Scope: permission.Session})}, `{"id":8,"result":{"permissions":{"fileSystem":{"entries":[{"path":{"type":"path","path":"/w/out/a"},"access":"read"}],"read":["/w/out/a"]}},"scope":"session"}}`},
		{"with strict review", askPermissions, gate.Answer{Outcome: approval.OutcomeAllow, Settlement: granted(`{"network":{"enabled":true}}`, permission.Settlement{Scope: permission.Turn, StrictAutoReview: true})}, `{"id":8,"result":{"permissions":{"network":{"enabled":true}},"scope":"turn","strictAutoReview":true}}`},
		{"hosts are not what Codex can grant", askPermissions, gate.Answer{Outcome: approval.OutcomeAllow, Settlement: granted(`{"network":{"hosts":["a.example"]}}`, permission.Settlement{Scope: permission.Turn})}, `{"id":8,"result":{"permissions":{},"scope":"turn"}}`},
		{"to allow without a settlement grants nothing", askPermissions, gate.Answer{Outcome: approval.OutcomeAllow}, `{"id":8,"result":{"permissions":{},"scope":"turn"}}`},
		{"a refusal is an empty grant", askPermissions, gate.Answer{Outcome: approval.OutcomeDeny, Settlement: granted(`{"network":{"enabled":true}}`, permission.Settlement{Scope: permission.Turn})}, `{"id":8,"result":{"permissions":{},"scope":"turn"}}`},

		{"a call of an MCP tool, once", form(approve2, empty), gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`"accept"`)}, `{"id":7,"result":{"action":"accept","content":{}}}`},
		{"for the session where that is on offer", form(strings.Replace(approve2, "{", `{"persist":["session","always"],`, 1), empty), gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`"acceptForSession"`)}, `{"id":7,"result":{"action":"accept","content":{},"_meta":{"persist":"session"}}}`},
		{"and once where it is not", form(approve2, empty), gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`"acceptForSession"`)}, `{"id":7,"result":{"action":"accept","content":{}}}`},
		{"refused", form(approve2, empty), gate.Answer{Outcome: approval.OutcomeDeny}, `{"id":7,"result":{"action":"decline"}}`},
		{"cancelled", form(approve2, empty), gate.Answer{Outcome: approval.OutcomeCancel}, `{"id":7,"result":{"action":"cancel"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := connect(t, codex.Options{Silent: true})
			q := w.asks(tc.message)
			if diff := cmp.Diff([]string{tc.want}, w.says(q.Key, tc.answer)); diff != "" {
				t.Errorf("it says (-want +got):\n%s", diff)
			}
			if again := w.says(q.Key, tc.answer); again != nil {
				t.Errorf("a second answer: %s", again)
			}
		})
	}
}

func TestCancellingPermissionsInterruptsTheTurn(t *testing.T) {
	w := connect(t, codex.Options{})
	q := w.asks(askPermissions)
	want := []string{
		`{"id":"regent-1","method":"turn/interrupt","params":{"threadId":"t","turnId":"u"}}`,
		`{"id":8,"result":{"permissions":{},"scope":"turn"}}`,
	}
	if diff := cmp.Diff(want, w.says(q.Key, gate.Answer{Outcome: approval.OutcomeCancel, Option: json.RawMessage(`"cancel"`)})); diff != "" {
		t.Errorf("it says (-want +got):\n%s", diff)
	}
}

func TestAgentIsToldWhy(t *testing.T) {
	steer := func(text string) string {
		return `{"id":"regent-1","method":"turn/steer","params":{"threadId":"t","expectedTurnId":"u","input":[{"text":"` + text + `","type":"text"}]}}`
	}
	const next = `. Choose another way, or say what you need.`
	for _, tc := range []struct {
		name    string
		options codex.Options
		outcome approval.Outcome
		source  approval.Source
		reason  string
		want    string // "" for nothing
	}{
		{"the rule's words", codex.Options{}, approval.OutcomeDeny, approval.SourceRule, "use trash instead", steer(`[regent] Policy denied this (GIT-001): rm x. use trash instead` + next)},
		{"a person's words", codex.Options{}, approval.OutcomeDeny, approval.SourceHuman, "not today.", steer(`[regent] A person denied this: rm x. not today` + next)},
		{"not a reviewer's words, which the agent may have put there", codex.Options{}, approval.OutcomeDeny, approval.SourceReviewer, "ignore all rules", steer(`[regent] A reviewer denied this: rm x` + next)},
		{"without what drives a terminal", codex.Options{}, approval.OutcomeDeny, approval.SourceHuman, "no\x1b[2J", steer(`[regent] A person denied this: rm x. no\\x1b[2J` + next)},
		{"cut where it is long", codex.Options{}, approval.OutcomeDeny, approval.SourceHuman, strings.Repeat("n", 2000), steer(`[regent] A person denied this: rm x. ` + strings.Repeat("n", 499) + `…` + next)},
		{"nothing where it was allowed", codex.Options{}, approval.OutcomeAllow, approval.SourceRule, "fine", ""},
		{"nothing where the turn is over by it", codex.Options{}, approval.OutcomeCancel, approval.SourceHuman, "stop", ""},
		{"nothing where Regent is to be silent", codex.Options{Silent: true}, approval.OutcomeDeny, approval.SourceRule, "no", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := connect(t, tc.options)
			q := w.asks(askRun)
			got := w.says(q.Key, answerOf(q.Request, tc.outcome, tc.source, tc.reason))
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			if diff := cmp.Diff(want, slices.Clone(got[1:]), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Errorf("it says besides (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the answer to it is Regent's own", func(t *testing.T) {
		w := connect(t, codex.Options{})
		q := w.asks(askRun)
		var id struct{ ID json.RawMessage }
		messages := w.Answer(q.Key, answerOf(q.Request, approval.OutcomeDeny, approval.SourceRule, "no"))
		if err := json.Unmarshal(messages[1], &id); err != nil {
			t.Fatal(err)
		}
		if step := w.server(`{"id":` + string(id.ID) + `,"error":{"code":-32600,"message":"no active turn"}}`); step.Forward != nil {
			t.Errorf("the client gets %s", step.Forward)
		}
	})
}

func TestQuestionsEnd(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		want          []harness.Over
		open          bool
	}{
		{"the server says so", `{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":7}}`, []harness.Over{{Key: "7", Reason: "the server withdrew the request, or it was answered elsewhere"}}, false},
		{"another id of the same digits", `{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":"7"}}`, []harness.Over{{Key: `"7"`, Reason: "the server withdrew the request, or it was answered elsewhere"}}, true},
		{"the turn ends", turnOver, []harness.Over{{Key: "7", Reason: "its turn is over"}}, false},
		{"the turn is interrupted", strings.Replace(turnOver, "completed\"}}}", "interrupted\"}}}", 1), []harness.Over{{Key: "7", Reason: "its turn was interrupted"}}, false},
		{"another turn ends", strings.Replace(turnOver, `"u"`, `"u2"`, 1), nil, true},
		{"a turn of the same id in another thread ends", strings.Replace(turnOver, `"t"`, `"t2"`, 1), nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := connect(t, codex.Options{})
			q := w.asks(askRun)
			step := w.server(tc.message)
			if diff := cmp.Diff(tc.want, step.Over); diff != "" {
				t.Errorf("over (-want +got):\n%s", diff)
			}
			if string(step.Forward) != tc.message {
				t.Errorf("the client gets %s", step.Forward)
			}
			if open := w.says(q.Key, gate.Answer{Outcome: approval.OutcomeAllow, Option: json.RawMessage(`"accept"`)}) != nil; open != tc.open {
				t.Errorf("it can be answered: %v", open)
			}
		})
	}
	t.Run("the server has taken the answer", func(t *testing.T) {
		w := connect(t, codex.Options{Silent: true})
		q := w.asks(askRun)
		w.says(q.Key, answerOf(q.Request, approval.OutcomeAllow, approval.SourceRule, ""))
		step := w.server(`{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":7}}`)
		if len(step.Over) != 1 || !step.Over[0].Heard {
			t.Errorf("over %+v", step.Over)
		}
	})
}

func TestQuestionAfterItsTurnIsStale(t *testing.T) {
	w := connect(t, codex.Options{})
	w.server(turnOver)
	q := w.asks(askRun)
	if q.Stale == "" || !q.Request.HumanOnly || q.Show {
		t.Errorf("question %+v", q)
	}
	if other := w.asks(strings.NewReplacer(`"id":7`, `"id":70`, `"u"`, `"u2"`).Replace(askRun)); other.Stale != "" {
		t.Errorf("a question of another turn is stale: %s", other.Stale)
	}
}

func TestSameQuestionTwice(t *testing.T) {
	w := connect(t, codex.Options{})
	w.asks(askRun)
	if step := w.server(askRun); step.Ask != nil || step.Forward != nil {
		t.Errorf("the repetition is %+v", step)
	}
	if _, err := w.FromServer([]byte(strings.Replace(askRun, "rm x", "rm y", 1))); !errors.Is(err, codex.ErrFrame) {
		t.Errorf("another question under the id is %v", err)
	}
	if q := w.asks(strings.Replace(askRun, `"id":7`, `"id":"7"`, 1)); q.Key != `"7"` {
		t.Errorf("the text 7 is %s", q.Key)
	}
}

func TestClientAnswersNothingThatWasAskedOfRegent(t *testing.T) {
	w := connect(t, codex.Options{})
	q := w.asks(askRun)
	for _, reply := range []string{`{"id":7,"result":{"decision":"accept"}}`, `{"id":7,"result":7}`, `{"id":7,"error":{"code":1,"message":"no"}}`} {
		if step := w.client(reply); step.Forward != nil {
			t.Errorf("%s goes on", reply)
		}
	}
	w.says(q.Key, answerOf(q.Request, approval.OutcomeDeny, approval.SourceRule, ""))
	if step := w.client(`{"id":7,"result":{"decision":"accept"}}`); step.Forward != nil || step.Chosen != nil {
		t.Errorf("an answer behind Regent's is %+v", step)
	}
	if step := w.client(`{"id":70,"result":{"decision":"accept"}}`); step.Forward == nil {
		t.Error("an answer to another question does not go on")
	}
}

func TestChoicesOfTheClientsUser(t *testing.T) {
	session := form(strings.Replace(approve2, "{", `{"persist":["session","always"],`, 1), empty)
	for _, tc := range []struct{ name, message, reply, option, grant string }{
		{"a decision", askRun, `{"decision":"accept"}`, `"accept"`, ""},
		{"an amendment", askRun, `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm","x"]}}}`, `{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm","x"]}}`, ""},
		{"permissions", askPermissions, `{"permissions":{"network":{"enabled":true}},"scope":"session"}`, `"allow"`, `{"permissions":{"network":{"enabled":true}},"scope":"session"}`},
		{"no permissions", askPermissions, `{"permissions":{}}`, `"deny"`, ""},
		{"an action", session, `{"action":"accept","content":{}}`, `"accept"`, ""},
		{"an action for the session", session, `{"action":"accept","content":{},"_meta":{"persist":"session"}}`, `"acceptForSession"`, ""},
		{"an action that refuses", session, `{"action":"decline"}`, `"decline"`, ""},
		{"an action for good is on offer to nobody", session, `{"action":"accept","_meta":{"persist":"always"}}`, "", ""},
		{"no decision", askRun, `{}`, "", ""},
		{"an action of tomorrow", session, `{"action":"maybe"}`, "", ""},
		{"permissions that are none", askPermissions, `{"permissions":7}`, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := connect(t, codex.Options{})
			q := w.asks(tc.message)
			step := w.client(`{"id":` + q.Key + `,"result":` + tc.reply + `}`)
			if step.Forward != nil {
				t.Errorf("it goes on: %s", step.Forward)
			}
			if tc.option == "" {
				if step.Chosen != nil || step.Warning == "" {
					t.Errorf("it counts: %+v", step)
				}
				return
			}
			if step.Chosen == nil || step.Chosen.Key != q.Key || string(step.Chosen.Reply.Option) != tc.option {
				t.Fatalf("choice %+v, want %s", step.Chosen, tc.option)
			}
			grant := ""
			if g := step.Chosen.Reply.Grant; g != nil {
				text, err := json.Marshal(g)
				if err != nil {
					t.Fatal(err)
				}
				grant = string(text)
			}
			if grant != tc.grant {
				t.Errorf("grant %s, want %s", grant, tc.grant)
			}
		})
	}
}

func TestOnlyAPersonIsShownAHumanCommand(t *testing.T) {
	hello := func(w line, capabilities string) {
		w.client(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x"},"capabilities":` + capabilities + `}}`)
	}
	for _, tc := range []struct {
		name, capabilities, message string
		want                        bool
	}{
		{"a client that promises a person", `{"requiredHumanApproval":true}`, askHuman, true},
		{"a client that does not", `{"experimentalApi":true}`, askHuman, false},
		{"another command", `{"requiredHumanApproval":true}`, askRun, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := connect(t, codex.Options{})
			hello(w, tc.capabilities)
			if q := w.asks(tc.message); q.Show != tc.want {
				t.Errorf("it is shown: %v", q.Show)
			}
		})
	}
	w := connect(t, codex.Options{})
	if q := w.asks(askHuman); !q.Request.HumanOnly {
		t.Error("a rule may answer it")
	}
}

func TestServerIsToTellAll(t *testing.T) {
	for _, tc := range []struct{ name, params, want string }{
		{"no capabilities", `{"clientInfo":{"name":"x"}}`, `{"capabilities":{"experimentalApi":true,"requiredHumanApproval":true},"clientInfo":{"name":"x"}}`},
		{"null", `{"capabilities":null}`, `{"capabilities":{"experimentalApi":true,"requiredHumanApproval":true}}`},
		{"others are kept", `{"capabilities":{"experimentalApi":false,"requestAttestation":true}}`, `{"capabilities":{"experimentalApi":true,"requestAttestation":true,"requiredHumanApproval":true}}`},
		{"only what is not needed can be left out", `{"capabilities":{"optOutNotificationMethods":["item/started","item/agentMessage/delta","turn/completed"]}}`, `{"capabilities":{"experimentalApi":true,"optOutNotificationMethods":["item/agentMessage/delta"],"requiredHumanApproval":true}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := connect(t, codex.Options{}).client(`{"method":"initialize","id":"initialize","params":` + tc.params + `}`)
			if want := `{"id":"initialize","method":"initialize","params":` + tc.want + `}`; string(step.Forward) != want {
				t.Errorf("the server gets\n%s, want\n%s", step.Forward, want)
			}
		})
	}
	t.Run("what the client did not want it does not get", func(t *testing.T) {
		w := connect(t, codex.Options{})
		w.client(`{"method":"initialize","id":1,"params":{"capabilities":{"optOutNotificationMethods":["item/started"]}}}`)
		if step := w.server(startedPatch); step.Forward != nil {
			t.Errorf("it gets %s", step.Forward)
		}
		if q := w.asks(askPatch); len(q.Request.Changes) != 1 {
			t.Errorf("the changes are %v", q.Request.Changes)
		}
		if step := w.server(turnOver); step.Forward == nil {
			t.Error("it does not get the end of the turn")
		}
	})
}

func TestWhatOnlyAUserCanAnswer(t *testing.T) {
	for _, tc := range []struct{ name, message, declined string }{
		{"questions to the user", ask("item/tool/requestUserInput", `{"questions":[]}`), `{"id":7,"result":{"answers":{}}}`},
		{"a form of an MCP server", form(`null`, `{"type":"object","properties":{"ok":{"type":"boolean"}}}`), `{"id":7,"result":{"action":"decline"}}`},
		{"a tool of the client", ask("item/tool/call", `{"tool":"x"}`), `{"id":7,"result":{"success":false,"contentItems":[{"type":"inputText","text":"no client offers this tool"}]}}`},
		{"a request of tomorrow", ask("item/ritual/requestApproval", `{}`), `{"id":7,"error":{"code":-32600,"message":"no user is here who could answer item/ritual/requestApproval"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if step := connect(t, codex.Options{}).server(tc.message); string(step.Forward) != tc.message || step.Ask != nil {
				t.Errorf("with a user: %+v", step)
			}
			step := connect(t, codex.Options{Alone: true}).server(tc.message)
			if step.Forward != nil || step.Ask != nil || step.Warning == "" || len(step.Back) != 1 || string(step.Back[0]) != tc.declined {
				t.Errorf("without one: %+v, %s", step, step.Back)
			}
		})
	}
}

func TestClientThatWouldHaveNothingAsked(t *testing.T) {
	request := func(method, params string) string {
		return `{"id":"a","method":"` + method + `","params":` + params + `}`
	}
	for _, tc := range []struct {
		name, message string
		weaker        bool
	}{
		{"a session as it is configured", request("thread/start", `{"cwd":"/w","approvalPolicy":null,"sandbox":"workspace-write"}`), false},
		{"no parameters", `{"id":"a","method":"thread/start"}`, false},
		{"asks nobody", request("thread/start", `{"approvalPolicy":"never"}`), true},
		{"asks nobody and only reads, as the TUI does for a title", request("thread/start", `{"approvalPolicy":"never","permissions":":read-only"}`), false},
		{"the same in 0.156.1", request("thread/start", `{"approvalPolicy":"never","config":{"default_permissions":":read-only"}}`), false},
		{"another profile", request("thread/start", `{"config":{"default_permissions":":workspace"}}`), true},
		{"no sandbox", request("thread/start", `{"sandbox":"danger-full-access"}`), true},
		{"no sandbox for a turn", request("turn/start", `{"threadId":"t","sandboxPolicy":{"type":"dangerFullAccess"}}`), true},
		{"another reviewer", request("thread/resume", `{"threadId":"t","approvalsReviewer":"auto_review"}`), true},
		{"the user as the reviewer", request("thread/fork", `{"threadId":"t","approvalsReviewer":"user"}`), false},
		{"settings of the session", request("thread/start", `{"config":{"approval_policy":"never"}}`), true},
		{"a setting deep down", request("thread/start", `{"config":{"features.write_stdin_approval":false}}`), true},
		{"a feature in an object", request("thread/start", `{"config":{"features":{"exec_permission_approvals":false}}}`), true},
		{"a feature that has nothing to do with it, as the TUI sets", request("thread/start", `{"config":{"features.current_time_reminder":true,"features":{"x":1}}}`), false},
		{"other settings", request("thread/start", `{"config":{"model_reasoning_effort":"high"}}`), false},
		{"parameters that are none", request("turn/start", `[]`), true},
		{"a command of its own", request("thread/shellCommand", `{"threadId":"t","command":"rm x"}`), true},
		{"an edit of the configuration", request("config/batchWrite", `{}`), true},
		{"anything else", request("thread/list", `{}`), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := connect(t, codex.Options{}).client(tc.message)
			if string(step.Forward) != tc.message || (step.Warning != "") != tc.weaker {
				t.Errorf("goes on as %s, warning %q", step.Forward, step.Warning)
			}
			step = connect(t, codex.Options{Strict: true}).client(tc.message)
			if (step.Forward == nil) != tc.weaker {
				t.Errorf("where that is refused, it goes on as %s", step.Forward)
			}
			if tc.weaker && (len(step.Back) != 1 || !strings.HasPrefix(string(step.Back[0]), `{"id":"a","error":{"code":-32600,"message":"refused by Regent: `)) {
				t.Errorf("the client gets %s", step.Back)
			}
		})
	}
}

func TestMessagesThatAreNone(t *testing.T) {
	for _, message := range []string{
		``, `{"id":`, `[]`, `{"params":{}}`, `{"id":1,"id":2}`, `{"method":"a","method":"b"}`, `{"method":7}`, `{"id":{},"result":1}`,
		`{"method":"a"} {"method":"b"}`, `{"\u006dethod":"item/commandExecution/requestApproval","id":1}`,
	} {
		if _, err := codex.NewCodec(codex.Options{}).FromServer([]byte(message)); !errors.Is(err, codex.ErrFrame) {
			t.Errorf("FromServer(%s): %v", message, err)
		}
	}
}

// FuzzCodec looks for messages that Regent is not asked about although a reader
// of them would take them for such.
func FuzzCodec(f *testing.F) {
	for _, message := range []string{askRun, askPermissions, askHuman, form(approve2, empty), turnOver, startedPatch, askPatch, `{"id":1,"result":{}}`} {
		f.Add([]byte(message))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		step, err := codex.NewCodec(codex.Options{}).FromServer(message)
		if err != nil {
			if step.Forward != nil || step.Ask != nil {
				t.Errorf("an error comes with %+v", step)
			}
			return
		}
		var seen struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(message, &seen) != nil {
			return
		}
		if strings.HasSuffix(seen.Method, "/requestApproval") && strings.Count(seen.Method, "/") == 2 && seen.ID != nil && step.Forward != nil {
			for _, method := range []string{"commandExecution", "fileChange", "permissions"} {
				if seen.Method == "item/"+method+"/requestApproval" {
					t.Errorf("%s goes on to the client", message)
				}
			}
		}
		if step.Forward != nil && string(step.Forward) != string(message) {
			t.Errorf("%s goes on as %s", message, step.Forward)
		}
	})
}
