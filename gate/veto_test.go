package gate_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

func TestVetoOnlyEverRefuses(t *testing.T) {
	rules := noRm + echo + `
review contains "look at it" if input.request.command.text == "make y"
`
	broken := errors.New("config.yaml: cannot be read")
	for _, test := range []struct {
		name, text string
		asks       bool
		fault      bool
		refused    bool
		by, reason string
	}{
		{name: "what is skipped is no answer", text: "ls"},
		{name: "what a rule allows is no answer", text: "echo hi"},
		{name: "what a person would be asked is no answer", text: "make x"},
		{name: "what would be reviewed is no answer", text: "make y"},
		{name: "a rule denies", text: "rm x", refused: true, by: "RM", reason: "no rm"},
		{name: "with asks a rule denies in its own words", text: "rm x", asks: true, refused: true, by: "RM", reason: "no rm"},
		{name: "with asks what a person would be asked is refused", text: "make x", asks: true, refused: true, by: "regent", reason: "nobody is asked here"},
		{name: "with asks what would be reviewed is refused", text: "make y", asks: true, refused: true, by: "regent", reason: "nobody is asked here"},
		{name: "with asks what a rule allows is no answer", text: "echo hi", asks: true},
		{name: "with asks what is skipped is no answer", text: "ls", asks: true},
		{name: "where no rules are loaded it is refused", text: "ls", fault: true, refused: true, by: "regent", reason: "policy could not rule, and nobody is asked here: config.yaml: cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, epoch(t, "permissions: {mode: manual, read_only_commands: skip}\n", rules))
			if test.fault {
				b.workspace.Install(gate.Standing{Settings: rego.DefaultSettings(), Fault: broken})
			}
			a, err := b.Veto(t.Context(), gate.Question{Request: command(test.text)}, test.asks)
			if err != nil {
				t.Fatal(err)
			}
			if !test.refused {
				if a.Outcome != "" || a.Record != nil || len(b.records()) != 0 {
					t.Errorf("the answer is %+v, want none and no record", a)
				}
				if a.Ruling.Route == "" || b.Stats().Checked != 1 {
					t.Errorf("the ruling is %+v, counted %d times as looked at; want one", a.Ruling, b.Stats().Checked)
				}
				return
			}
			if a.Outcome != approval.OutcomeDeny || string(a.Option) != `"deny"` || !strings.Contains(a.Reason, test.reason) {
				t.Errorf("the answer is %s %s %q, want a denial: %s", a.Outcome, a.Option, a.Reason, test.reason)
			}
			records := b.records()
			if len(records) != 1 || records[0].Decision == nil || records[0].Decision.By != test.by || records[0].Ruling.Route != approval.RouteDeny {
				t.Fatalf("the ledger holds %+v, want a denial by %s", records, test.by)
			}
			b.Sent(a)
			b.until("resolved", func(r approval.Record) bool { return r.State == approval.Resolved })
		})
	}
}

func TestVetoRefusesWhatFailsToRule(t *testing.T) {
	b := open(t, epoch(t, manual, `
deny contains sprintf("%v", [x]) if {
	some word in [1, 2]
	x := one(word)
}
one(word) := word if input.request.command.text == "make x"
one(word) := word + 1 if input.request.command.text == "make x"
`))
	a, err := b.Veto(t.Context(), gate.Question{Request: command("make x")}, false)
	if err != nil || a.Outcome != approval.OutcomeDeny || a.Ruling.Failure == nil {
		t.Fatalf("the answer is %+v, %v; want a denial for want of a ruling", a, err)
	}
	if a, err := b.Veto(t.Context(), gate.Question{Request: command("make y")}, false); err != nil || a.Outcome != "" {
		t.Errorf("a call that does not meet the rule has %+v, %v; want no answer", a, err)
	}
}

func TestVetoTakesNoRequestThatIsNone(t *testing.T) {
	b := open(t, epoch(t, manual, noRm))
	if _, err := b.Veto(t.Context(), gate.Question{Request: &approval.Request{}}, false); !errors.Is(err, approval.ErrRequest) {
		t.Errorf("the error is %v, want %v", err, approval.ErrRequest)
	}
}

func TestDeadlineIsNoLaterThanTheCallerWaits(t *testing.T) {
	e := epoch(t, manual, noRm)
	for _, test := range []struct {
		name         string
		within, want time.Duration
	}{
		{"a caller with less time", 7500 * time.Millisecond, 7 * time.Second},
		{"a caller with next to no time", time.Millisecond, time.Second},
		{"a caller with more time than the configuration gives", 24 * time.Hour, 600 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := open(t, e)
				a, err := b.Ask(t.Context(), gate.Question{Request: command("make"), Within: test.within})
				if err != nil || a.Outcome != approval.OutcomeDeny || a.Record.State != approval.Expired {
					t.Fatalf("the answer is %+v, %v; want that nobody answered", a, err)
				}
				if got := a.Record.Deadline.Sub(a.Record.Created); got != test.want {
					t.Errorf("the deadline is after %s, want %s", got, test.want)
				}
			})
		})
	}
}
