package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// waitingFor is a request that waits since some seconds after noon.
func waitingFor(id, command string, seconds int) approval.Record {
	at := noon.Add(time.Duration(seconds) * time.Second)
	return approval.Record{
		ID: id, Revision: 1, State: approval.Pending, Instance: "i1",
		Request: &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: command}},
		Ruling:  approval.Ruling{Route: approval.RouteAsk, Effects: []approval.Effect{approval.EffectProcess}, Epoch: strings.Repeat("e", 64)},
		Options: approval.NativeOptions, Created: at, Deadline: at.Add(10 * time.Minute),
	}
}

// view is a model with requests, an hour after they came up.
func view(t testing.TB, requests ...approval.Record) *watchModel {
	t.Helper()
	m := &watchModel{now: noon, columns: 80, rows: 24, who: "user:sam"}
	m.replace(requests)
	m.now = noon.Add(time.Minute)
	m.frame()
	return m
}

// press presses keys, draws after each, and returns the orders that came of it.
func press(t testing.TB, m *watchModel, keys ...any) []*answerOrder {
	t.Helper()
	var orders []*answerOrder
	for _, k := range keys {
		var pressed []key
		switch k := k.(type) {
		case key:
			pressed = []key{k}
		case keyName:
			pressed = []key{{name: k}}
		case string:
			for _, r := range k {
				pressed = append(pressed, key{char: r})
			}
		}
		for _, one := range pressed {
			order, quit := m.press(one)
			if quit {
				t.Fatalf("%v ended the view", one)
			}
			if order != nil {
				orders = append(orders, order)
			}
			m.frame()
		}
	}
	return orders
}

func text(m *watchModel) string {
	var b strings.Builder
	for _, r := range m.frame() {
		b.WriteString(r.text + "\n")
	}
	return b.String()
}

func TestAnAnswerTakesAnOptionAndAConfirmation(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys []any
		want []string
	}{
		{"an option and y", []any{"2y"}, []string{`r1@1 "deny" ""`}},
		{"an option that allows and y", []any{"1y"}, []string{`r1@1 "allow" ""`}},
		{"an option alone", []any{"1"}, nil},
		{"y alone", []any{"y"}, nil},
		{"another key in between", []any{"1", "n", "y"}, nil},
		{"enter does not confirm", []any{"1", keyEnter, "y"}, nil},
		{"the same option twice does not confirm", []any{"11"}, nil},
		{"a capital Y does not confirm", []any{"1Y"}, nil},
		{"an option that there is not", []any{"9y"}, nil},
		{"a reason goes with it", []any{"r", "my branch", keyEnter, "1y"}, []string{`r1@1 "allow" "my branch"`}},
		{"a reason that was given up does not", []any{"r", "my", keyEscape, "1y"}, []string{`r1@1 "allow" ""`}},
		{"letters in a reason answer nothing", []any{"r", "1y"}, nil},
		{"a reason is edited", []any{"r", "ab", keyBackspace, "ü", keyBackspace, "c", keyEnter, "2y"}, []string{`r1@1 "deny" "ac"`}},
		{"the one that is selected is answered", []any{keyDown, "2y"}, []string{`r2@1 "deny" ""`}},
		{"to select past the end stays there", []any{"jjjjkk", "2y"}, []string{`r1@1 "deny" ""`}},
		{"a reason is for one request", []any{"r", "x", keyEnter, keyDown, "2y"}, []string{`r2@1 "deny" ""`}},
		{"to select something else drops the choice", []any{"1", keyDown, "y"}, nil},
		{"what was pasted answers nothing", []any{key{char: '1', pasted: true}, key{char: 'y', pasted: true}}, nil},
		{"what was pasted confirms nothing", []any{"1", key{char: 'y', pasted: true}, keyEscape}, nil},
		{"one answer at a time", []any{"2y2y"}, []string{`r1@1 "deny" ""`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := view(t, waitingFor("r1", "make", 0), waitingFor("r2", "rm x", 1), waitingFor("r3", "ls", 2))
			var got []string
			for _, o := range press(t, m, tt.keys...) {
				got = append(got, fmt.Sprintf("%s@%d %s %q", o.id, o.revision, o.decision.Option, o.decision.Reason))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("orders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsAllowedUnseen(t *testing.T) {
	long := waitingFor("r1", "echo start\n"+strings.Repeat("echo more\n", 40)+"rm -rf /", 0)
	m := view(t, long)
	if strings.Contains(text(m), "rm -rf /") {
		t.Fatal("the end is on the screen already")
	}
	if press(t, m, "1"); !strings.Contains(m.said, "have not been on the screen") {
		t.Errorf("said %q, want that it has to be seen first", m.said)
	}
	if orders := press(t, m, "y"); len(orders) != 0 {
		t.Errorf("orders %v before it was seen", orders)
	}
	// The end alone is not all of it.
	press(t, m, keyEnd)
	if orders := press(t, m, "1y"); len(orders) != 0 {
		t.Errorf("orders %v after the end was seen, and not what is before it", orders)
	}
	press(t, m, keyHome, "      ")
	if !strings.Contains(text(m), "deadline") {
		t.Fatalf("space does not lead to the end:\n%s", text(m))
	}
	if orders := press(t, m, "1y"); len(orders) != 1 {
		t.Errorf("orders %v, said %q, want one once all was seen", orders, m.said)
	}

	// To refuse needs no reading, and another width is another text.
	m = view(t, long)
	if orders := press(t, m, "2y"); len(orders) != 1 {
		t.Errorf("orders %v, want a refusal", orders)
	}
	m = view(t, long)
	press(t, m, "      ")
	m.columns = 60
	m.frame()
	if orders := press(t, m, keyHome, "1y"); len(orders) != 0 {
		t.Errorf("orders %v after the lines changed, want none", orders)
	}
}

func TestARequestThatComesUpByItselfTakesNoKeyThatWasMeantForAnother(t *testing.T) {
	m := view(t, waitingFor("r1", "make", 0), waitingFor("r2", "rm x", 1))
	m.heard(&approval.Event{ID: "r1", State: approval.Decided, Outcome: approval.OutcomeAllow, By: "user:kim"})
	m.frame()
	if m.selected != "r2" || !strings.Contains(m.said, "allow by user:kim: command  make") {
		t.Fatalf("selected %s, said %q", m.selected, m.said)
	}
	if orders := press(t, m, "1y"); len(orders) != 0 {
		t.Errorf("orders %v at once, want none", orders)
	}
	m.now = m.now.Add(settleTime)
	if orders := press(t, m, "1y"); len(orders) != 1 || orders[0].id != "r2" {
		t.Errorf("orders %v a second later, want one for r2", orders)
	}

	// Who selects it has seen which it is.
	m = view(t, waitingFor("r1", "make", 0), waitingFor("r2", "rm x", 1))
	m.heard(&approval.Event{ID: "r1", State: approval.Cancelled})
	if orders := press(t, m, keyDown, "1y"); len(orders) != 1 {
		t.Errorf("orders %v after it was selected, want one", orders)
	}
}

func TestAChoiceEndsWhenItsRequestIsNotWhatWasRead(t *testing.T) {
	rerouted := waitingFor("r1", "make", 0)
	rerouted.Revision = 2
	for _, tt := range []struct {
		name   string
		change func(*watchModel)
	}{
		{"it was routed again", func(m *watchModel) { m.put(rerouted) }},
		{"it was routed again while the daemon was gone", func(m *watchModel) { m.replace([]approval.Record{rerouted, waitingFor("r2", "x", 1)}) }},
		{"it was answered", func(m *watchModel) { m.heard(&approval.Event{ID: "r1", State: approval.Decided}) }},
		{"it ended while the daemon was gone", func(m *watchModel) { m.replace([]approval.Record{waitingFor("r2", "x", 1)}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := view(t, waitingFor("r1", "make", 0), waitingFor("r2", "x", 1))
			press(t, m, "1")
			if m.mode != modeConfirm {
				t.Fatal("there is nothing to confirm")
			}
			tt.change(m)
			if orders := press(t, m, "y"); len(orders) != 0 || m.mode != modeBrowse {
				t.Errorf("orders %v, mode %v, want neither", orders, m.mode)
			}
		})
	}
	// An older form of it changes nothing.
	m := view(t, rerouted)
	press(t, m, "1")
	m.put(waitingFor("r1", "make", 0))
	if orders := press(t, m, "y"); len(orders) != 1 || orders[0].revision != 2 {
		t.Errorf("orders %v, want one at revision 2", orders)
	}
}

func TestNothingIsAnsweredByAnOldScreen(t *testing.T) {
	m := view(t, waitingFor("r1", "make", 0))
	m.trouble = "the daemon is gone; waiting for it"
	if press(t, m, "2"); !strings.Contains(m.said, "may be old") {
		t.Errorf("said %q", m.said)
	}
	if orders := press(t, m, "y"); len(orders) != 0 {
		t.Errorf("orders %v", orders)
	}
	if !strings.Contains(text(m), "the daemon is gone") {
		t.Error("the screen does not say that the daemon is gone")
	}
}

func TestAProofIsAskedForAndNotShown(t *testing.T) {
	m := view(t, waitingFor("r1", "make", 0))
	order := press(t, m, "1y")[0]
	m.done(order, nil, &api.Error{Code: api.StepUp, Message: "proof"}, "local")
	if !strings.Contains(text(m), "passphrase or code of local (not shown)") {
		t.Fatalf("nothing asks for the proof:\n%s", text(m))
	}
	press(t, m, "hunter2 q")
	if strings.Contains(text(m), "hunter2") {
		t.Error("the proof is on the screen")
	}
	orders := press(t, m, keyEnter)
	if len(orders) != 1 || orders[0].decision.Proof != "hunter2 q" || orders[0].id != "r1" || orders[0].revision != 1 {
		t.Fatalf("orders %+v, want the same with the proof", orders)
	}
	m.done(orders[0], nil, &api.Error{Code: api.WrongProof, Message: "the proof is wrong"}, "local")
	if !strings.Contains(m.said, "the proof is wrong") || m.mode != modeBrowse || m.order != nil {
		t.Errorf("said %q, mode %v, order %v", m.said, m.mode, m.order)
	}
	if orders[0].decision.Proof != "" {
		t.Error("the proof is kept")
	}

	order = press(t, m, "1y")[0]
	m.done(order, nil, &api.Error{Code: api.StepUp, Message: "proof"}, "local")
	if orders := press(t, m, "x", keyEscape, keyEnter); len(orders) != 0 {
		t.Errorf("orders %v after it was given up", orders)
	}
}

func TestWhatCameOfAnAnswer(t *testing.T) {
	m := view(t, waitingFor("r1", "make", 0), waitingFor("r2", "x", 1))
	order := press(t, m, "2y")[0]
	decided := waitingFor("r1", "make", 0)
	decided.State, decided.Revision = approval.Decided, 2
	decided.Decision = &approval.Decision{Outcome: approval.OutcomeDeny}
	m.done(order, &decided, nil, "")
	if m.said != "deny: command  make" || len(m.queue) != 1 || m.selected != "r2" || m.busy {
		t.Errorf("said %q, %d wait, selected %s", m.said, len(m.queue), m.selected)
	}

	m = view(t, waitingFor("r1", "make", 0))
	order = press(t, m, "2y")[0]
	m.done(order, nil, errors.New("the disk is full\x1b[2J"), "")
	if m.said != `not answered: the disk is full\x1b[2J` || len(m.queue) != 1 || m.busy {
		t.Errorf("said %q, %d wait", m.said, len(m.queue))
	}

	// Somebody else was first.
	order = press(t, m, "1y")[0]
	decided.Decision.Outcome = approval.OutcomeAllow
	m.done(order, nil, &api.Error{Code: api.Conflict, Message: "changed since it was read", Record: &decided}, "")
	if !strings.Contains(m.said, "changed since it was read") || len(m.queue) != 0 {
		t.Errorf("said %q, %d wait", m.said, len(m.queue))
	}
}

func TestTheScreenHasItsSize(t *testing.T) {
	hostile := waitingFor("r1", "ls\x1b[2J\u202e\r\n"+strings.Repeat("語", 300), 0)
	hostile.Request.Reason = "\x1b]0;title\x07"
	hostile.Options = append([]json.RawMessage{json.RawMessage(`{"acceptWithExecpolicyAmendment": {"x": "` + strings.Repeat("y", 200) + `"}}`)}, approval.NativeOptions...)
	many := []approval.Record{hostile}
	for i := range 50 {
		many = append(many, waitingFor(fmt.Sprintf("q%02d", i), "make", i))
	}
	for _, tt := range []struct {
		name     string
		requests []approval.Record
	}{{"no request", nil}, {"one", []approval.Record{hostile}}, {"many", many}} {
		for columns := 1; columns < 120; columns += 7 {
			for rows := 1; rows < 50; rows += 5 {
				m := &watchModel{now: noon, columns: columns, rows: rows}
				m.replace(tt.requests)
				for _, keys := range [][]any{nil, {keyEnter}, {"r", "why"}, {keyEscape, "2"}, {keyEscape, keyEnd}, {keyDown}} {
					press(t, m, keys...)
					frame := m.frame()
					if len(frame) != rows {
						t.Fatalf("%s, %dx%d: %d rows", tt.name, columns, rows, len(frame))
					}
					for _, r := range frame {
						if r.text != printable(r.text) {
							t.Errorf("%s, %dx%d: a row could drive the terminal: %q", tt.name, columns, rows, r.text)
						}
					}
				}
			}
		}
	}
}

func TestAScreenOf80x24(t *testing.T) {
	r := waitingFor("r2", "git push --force origin main", 1)
	r.Request.Reason = "publish the fix"
	r.Request.Subject = &approval.Subject{ID: "agent:codex", OnBehalfOf: "user:sam"}
	r.Ruling.Effects = []approval.Effect{approval.EffectProcess, approval.EffectNetwork}
	r.Ruling.External = true
	r.Ruling.Reasons = []string{"a push needs a person"}
	r.Ruling.Rules = []approval.Match{{ID: "GIT-1", Decision: "ask", Message: "a push needs a person", Mode: "enforce", Severity: "high", Layer: "workspace", File: "policies/git.rego", Line: 12}}
	m := view(t, waitingFor("r1", "make", 0), r, waitingFor("r3", "npm publish", 2))
	press(t, m, keyDown, "1")
	want := `regent  3 waiting  as user:sam
  9m0s     command  make
> 9m1s     command  git push --force origin main
  9m2s     command  npm publish
-- 2 of 3 ----------------------------------------------------------------------
PENDING  command  git push --force origin main
id          r2  revision 1
command     git push --force origin main
says        (the agent's own words) publish the fix
who         agent:codex for user:sam
effects     process, network (external)
route       ask
why         a push needs a person
rules       GIT-1 policies/git.rego:12: a push needs a person (ask, high, worksp
            ace)
epoch       eeeeeeeeeeee
asked       2026-03-01 12:00:01Z
options     1  "allow"  allows, once
            2  "deny"  denies
            3  "cancel"  denies, and ends the turn
deadline    2026-03-01 12:10:01Z  in 9m1s

answer "allow" (allows, once)? y answers, any other key does not
y answer  any other key: back
`
	if diff := cmp.Diff(want, text(m)); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
}

func TestKeysThatEndTheView(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys []key
		want bool
	}{
		{"q", []key{char('q')}, true},
		{"Ctrl-C, whatever is going on", []key{char('r'), char('x'), {name: keyInterrupt}}, true},
		{"q in a reason is a letter", []key{char('r'), char('q')}, false},
		{"q when asked to confirm only goes back", []key{char('2'), char('q')}, false},
		{"a pasted q", []key{{char: 'q', pasted: true}}, false},
	} {
		m := view(t, waitingFor("r1", "make", 0))
		ended := false
		for _, k := range tt.keys {
			_, quit := m.press(k)
			ended = ended || quit
			m.frame()
		}
		if ended != tt.want {
			t.Errorf("%s: ended %t, want %t", tt.name, ended, tt.want)
		}
	}
}
