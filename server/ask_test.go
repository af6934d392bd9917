package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

func TestAskIsAnsweredByAnother(t *testing.T) {
	d := start(t, setup{})
	record, answer := d.pending(question("make x"))
	decided, err := d.Decide(t.Context(), record.ID, record.Revision, api.Decision{Option: allow, Reason: "looked at it"})
	if err != nil {
		t.Fatal(err)
	}
	if decided.State != approval.Decided || decided.Decision.By[:5] != "user:" {
		t.Errorf("the one who answers sees %s by %s, want decided by a user", decided.State, decided.Decision.By)
	}
	got := <-answer
	if got.err != nil || got.Outcome != approval.OutcomeAllow || string(got.Option) != string(allow) || got.Reason != "looked at it" {
		t.Fatalf("the one who asked hears %+v, want that it is allowed", got)
	}
	if got.ID != record.ID || got.Digest != record.Digest || got.Instance == "" || !got.Deadline.Equal(record.Deadline) {
		t.Errorf("the answer names %s %s, want %s %s", got.ID, got.Digest, record.ID, record.Digest)
	}
	// The caller named no instance, so that it was told is the end.
	if end := d.until(approval.Resolved); end.ID != record.ID {
		t.Errorf("record %s is over, want %s", end.ID, record.ID)
	}
}

func TestPolicyAnswersAtOnce(t *testing.T) {
	d := start(t, setup{})
	for name, test := range map[string]struct {
		text     string
		outcome  approval.Outcome
		recorded bool
	}{
		"what is skipped is allowed and not recorded": {"ls", approval.OutcomeAllow, false},
		"a rule denies": {"rm x", approval.OutcomeDeny, true},
		"a rule allows": {"echo hi", approval.OutcomeAllow, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ask := range []func(context.Context, api.Question) (api.Answer, error){d.Ask, d.Post} {
				got, err := ask(t.Context(), question(test.text))
				if err != nil || got.Outcome != test.outcome || (got.ID != "") != test.recorded {
					t.Fatalf("the answer is %+v, %v; want %s", got, err, test.outcome)
				}
			}
		})
	}
}

func TestCheckRecordsNothing(t *testing.T) {
	d := start(t, setup{})
	for text, want := range map[string]approval.Route{"ls": approval.RouteSkip, "rm x": approval.RouteDeny, "echo hi": approval.RouteAllow, "make x": approval.RouteAsk} {
		got, err := d.Check(t.Context(), question(text))
		if err != nil || got.Route != want {
			t.Errorf("%s is ruled %s, %v; want %s", text, got.Route, err, want)
		}
	}
	page, err := d.List(t.Context(), approval.Query{})
	if err != nil || len(page.Records) != 0 {
		t.Errorf("there are %d records, %v; want none", len(page.Records), err)
	}
}

func TestClosingTheRequestCancels(t *testing.T) {
	d := start(t, setup{})
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := d.asks(ctx, d.Client, question("make x"))
	record := d.until(approval.Pending)
	enough := errors.New("enough")
	cancel(enough)
	if got := <-answer; !errors.Is(got.err, enough) || got.Outcome != "" {
		t.Fatalf("the one who went away has %+v, want no answer", got)
	}
	if end := d.until(approval.Cancelled); end.ID != record.ID {
		t.Errorf("record %s was cancelled, want %s", end.ID, record.ID)
	}
}

func TestOneOfManyAnswersWins(t *testing.T) {
	const callers = 32
	d := start(t, setup{})
	record, answer := d.pending(question("make x"))
	errs := make([]error, callers)
	var group sync.WaitGroup
	for i := range callers {
		option := allow
		if i%2 == 1 {
			option = deny
		}
		group.Go(func() {
			_, errs[i] = d.Decide(t.Context(), record.ID, record.Revision, api.Decision{Option: option})
		})
	}
	group.Wait()
	got := <-answer
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			if want := []approval.Outcome{approval.OutcomeAllow, approval.OutcomeDeny}[i%2]; got.Outcome != want {
				t.Errorf("the answer that won is %s, the one who asked hears %s", want, got.Outcome)
			}
			continue
		}
		conflict, ok := errors.AsType[*approval.ConflictError](err)
		if !ok || !errors.Is(err, approval.ErrConflict) || code(t, err) != api.Conflict {
			t.Fatalf("a loser gets %v, want a conflict", err)
		}
		if d := conflict.Current.Decision; d == nil || d.Outcome != got.Outcome {
			t.Errorf("a loser is told of %+v, want the decision that won", d)
		}
	}
	if won != 1 {
		t.Errorf("%d answers won, want 1", won)
	}
}

func TestPostAndPoll(t *testing.T) {
	d := start(t, setup{})
	posted, err := d.Post(t.Context(), hosted("make x", "r1", "host-1"))
	if err != nil || posted.Outcome != "" || posted.State != approval.Pending || posted.Instance != "host-1" {
		t.Fatalf("what was posted is %+v, %v; want it pending for its instance", posted, err)
	}
	if got, err := d.Await(t.Context(), posted.ID, "host-1", 0); err != nil || got.Outcome != "" || got.State != approval.Pending {
		t.Fatalf("a first poll has %+v, %v; want that it is pending", got, err)
	}
	until, err := d.Renew(t.Context(), "host-1")
	if err != nil || until.Before(time.Now()) {
		t.Fatalf("the lease lasts until %s, %v; want later", until, err)
	}
	if _, err := d.Await(t.Context(), posted.ID, "host-2", 0); code(t, err) != api.Instance || !errors.Is(err, approval.ErrInstance) {
		t.Errorf("another instance gets %v, want %s", err, api.Instance)
	}
	if _, err := d.Await(t.Context(), "nothing", "host-1", 0); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("a poll for nothing gets %v, want that there is none", err)
	}
	polled := make(chan result, 1)
	go func() {
		a, err := d.Await(t.Context(), posted.ID, "host-1", time.Minute)
		polled <- result{a, err}
	}()
	if _, err := d.Decide(t.Context(), posted.ID, posted.Revision, api.Decision{Option: allow}); err != nil {
		t.Fatal(err)
	}
	got := <-polled
	if got.err != nil || got.Outcome != approval.OutcomeAllow {
		t.Fatalf("the poll has %+v, want that it is allowed", got)
	}
	// The instance comes back to its record, so it is not over yet.
	d.until(approval.Sent)
	if again, err := d.Await(t.Context(), posted.ID, "host-1", 0); err != nil || again.Outcome != approval.OutcomeAllow {
		t.Errorf("a later poll has %+v, %v; want the same", again, err)
	}
	fence := api.Fence{Run: "r1", Instance: "host-1", Digest: posted.Digest}
	if p, err := d.Fence(t.Context(), posted.ID, fence); err != nil || p.Outcome != approval.OutcomeAllow {
		t.Errorf("the fence says %+v, %v; want that it may run", p, err)
	}
	for name, test := range map[string]struct {
		fence api.Fence
		code  api.Code
		err   error
	}{
		"the same again":   {fence, api.Used, approval.ErrUsed},
		"another action":   {api.Fence{Run: "r1", Instance: "host-1", Digest: "x"}, api.Digest, approval.ErrDigest},
		"another run":      {api.Fence{Run: "r2", Instance: "host-1", Digest: posted.Digest}, api.Instance, approval.ErrInstance},
		"another instance": {api.Fence{Run: "r1", Instance: "host-2", Digest: posted.Digest}, api.Instance, approval.ErrInstance},
	} {
		if _, err := d.Fence(t.Context(), posted.ID, test.fence); code(t, err) != test.code || !errors.Is(err, test.err) {
			t.Errorf("%s gets %v, want %s", name, err, test.code)
		}
	}
	for _, mark := range []string{api.MarkSent, api.MarkSent, api.MarkResolved, api.MarkResolved} {
		if _, err := d.Mark(t.Context(), posted.ID, api.Mark{Instance: "host-1", Mark: mark}); err != nil {
			t.Errorf("mark %s: %v", mark, err)
		}
	}
	if _, err := d.Fence(t.Context(), posted.ID, fence); code(t, err) != api.Conflict {
		t.Errorf("the fence of what is over says %v, want %s", err, api.Conflict)
	}
}

func TestWithdrawAndEnd(t *testing.T) {
	d := start(t, setup{})
	first, err := d.Post(t.Context(), hosted("make x", "r1", "host-1"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Withdraw(t.Context(), first.ID, api.Withdrawal{Instance: "host-1"})
	if err != nil || got.State != approval.Cancelled {
		t.Errorf("what was withdrawn is %s, %v; want cancelled", got.State, err)
	}
	if _, err := d.Withdraw(t.Context(), first.ID, api.Withdrawal{Instance: "host-1"}); code(t, err) != api.Conflict {
		t.Errorf("to withdraw it again is %v, want %s", err, api.Conflict)
	}
	second, err := d.Post(t.Context(), hosted("make y", "r1", "host-1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.End(t.Context(), "host-1"); err != nil {
		t.Fatal(err)
	}
	record, err := d.Read(t.Context(), second.ID)
	if err != nil || record.State != approval.Lost {
		t.Errorf("what the instance asked is %s, %v; want lost", record.State, err)
	}
	if _, err := d.Renew(t.Context(), "host-1"); code(t, err) != api.Lost || !errors.Is(err, approval.ErrLost) {
		t.Errorf("a sign of life after the end is %v, want %s", err, api.Lost)
	}
}

func TestAnswersAreChecked(t *testing.T) {
	d := start(t, setup{})
	record, answer := d.pending(question("make x"))
	for name, test := range map[string]struct {
		id       string
		revision int64
		decision api.Decision
		want     api.Code
	}{
		"an option that was not offered": {record.ID, 1, api.Decision{Option: []byte(`"maybe"`)}, api.NotOffered},
		"no option":                      {record.ID, 1, api.Decision{Option: nil}, api.NotOffered},
		"a record that is not there":     {"nothing", 1, api.Decision{Option: allow}, api.NotFound},
		"a revision that is to come":     {record.ID, 2, api.Decision{Option: allow}, api.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := d.Decide(t.Context(), test.id, test.revision, test.decision); code(t, err) != test.want {
				t.Errorf("the answer is %v, want %s", err, test.want)
			}
		})
	}
	cancelled, err := d.Cancel(t.Context(), record.ID, record.Revision, "not now")
	if err != nil || cancelled.State != approval.Cancelled || cancelled.Closing.Reason != "not now" {
		t.Fatalf("the record is %+v, %v; want cancelled", cancelled, err)
	}
	if got := <-answer; got.err != nil || got.Outcome != approval.OutcomeCancel {
		t.Errorf("the one who asked hears %+v, want that it was cancelled", got)
	}
	if _, err := d.Reconcile(t.Context(), record.ID, cancelled.Revision, "looked"); code(t, err) != api.Conflict {
		t.Errorf("to reconcile what is known is %v, want %s", err, api.Conflict)
	}
}

func TestRecordsAreListed(t *testing.T) {
	d := start(t, setup{})
	var ids []string
	for range 3 {
		a, err := d.Post(t.Context(), hosted("make x", "r1", "host-1"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append([]string{a.ID}, ids...)
	}
	if _, err := d.Ask(t.Context(), question("rm x")); err != nil {
		t.Fatal(err)
	}
	listed := func(q approval.Query) (got []string, before string) {
		page, err := d.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			got = append(got, r.ID)
		}
		return got, page.Before
	}
	first, before := listed(approval.Query{Limit: 2, States: []approval.State{approval.Pending, approval.Expired}, Run: "r1", Instance: "host-1", Session: "s1"})
	if diff := cmp.Diff(ids[:2], first); diff != "" || before == "" {
		t.Errorf("the first page (-want +got), which goes on at %q:\n%s", before, diff)
	}
	second, before := listed(approval.Query{Before: before, States: []approval.State{approval.Pending}})
	if diff := cmp.Diff(ids[2:], second); diff != "" || before != "" {
		t.Errorf("the second page (-want +got), which goes on at %q:\n%s", before, diff)
	}
	if all, _ := listed(approval.Query{}); len(all) != 4 {
		t.Errorf("%d records are listed, want 4", len(all))
	}
	for name, q := range map[string]approval.Query{
		"workspace": {Workspace: "/elsewhere"}, "session": {Session: "s2"}, "run": {Run: "r2"}, "instance": {Instance: "host-2"},
	} {
		if got, _ := listed(q); got != nil {
			t.Errorf("of another %s there are %v, want none", name, got)
		}
	}
}

func TestNotesAndDecisionAreTold(t *testing.T) {
	d := start(t, setup{})
	q := question("make x")
	q.Notes = []string{"the diff was too large to be sent along"}
	r, answer := d.pending(q)
	if len(r.Ruling.Reasons) == 0 || r.Ruling.Reasons[0] != q.Notes[0] {
		t.Errorf("the reasons are %q", r.Ruling.Reasons)
	}
	if _, err := d.Decide(t.Context(), r.ID, r.Revision, api.Decision{Option: allow}); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.err != nil || a.Source != approval.SourceHuman || a.By == "" {
		t.Errorf("the answer is by %q, a %q", a.By, a.Source)
	}
	for name, notes := range map[string][]string{
		"too many": slices.Repeat([]string{"n"}, api.MaxNotes+1),
		"too long": {strings.Repeat("n", api.MaxNoteBytes+1)},
	} {
		q.Notes = notes
		if _, err := d.Ask(t.Context(), q); code(t, err) != api.BadRequest {
			t.Errorf("%s: %v, want %s", name, err, api.BadRequest)
		}
	}
}
