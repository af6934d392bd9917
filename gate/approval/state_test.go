package approval_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
)

var allow = approval.Decision{Option: json.RawMessage(`"accept"`), Outcome: approval.OutcomeAllow, Source: approval.SourceHuman, By: "user:sam"}

// shadow is what a reviewer in shadow said.
var shadow = approval.Verdict{Reviewer: "one/shadow", Outcome: approval.VerdictDeny, Rationale: "it sends password=hunter2", Shadow: true}

// TestTransitions is the whole table: from each state a record can be in, what
// each transition makes of it. What the table leaves out is a conflict, but for a
// second fence, which has an error of its own.
func TestTransitions(t *testing.T) {
	soon, late, gone := noon.Add(time.Second), noon.Add(10*time.Minute), noon.Add(time.Hour)
	must := func(r approval.Record, err error) approval.Record {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	waits := pending(t)
	decided := must(waits.Decide(waits.From(), allow, soon))
	writing := must(decided.BeginSend(decided.From(), soon))
	sent := must(writing.MarkSent(writing.From(), soon))
	fence := func(r approval.Record) (approval.Record, error) {
		return r.Fence(r.From(), r.Run, r.Digest, soon)
	}
	records := map[string]approval.Record{
		"pending": waits, "decided": decided, "writing": writing, "sent": sent,
		"fenced": must(fence(decided)), "fenced writing": must(fence(writing)), "fenced sent": must(fence(sent)),
		"resolved":  must(sent.Resolve(sent.From(), "", "done", soon)),
		"expired":   must(waits.Expire(waits.From(), late)),
		"cancelled": must(waits.Cancel(waits.From(), "", "over", soon)),
		"lost":      must(waits.Abandon(waits.From(), gone)),
		"unknown":   must(writing.Abandon(writing.From(), gone)),
	}
	steps := map[string]func(approval.Record) (approval.Record, error){
		"decide": func(r approval.Record) (approval.Record, error) { return r.Decide(r.From(), allow, soon) },
		"reroute": func(r approval.Record) (approval.Record, error) {
			return r.Reroute(r.From(), draft(t).Ruling, nil, soon)
		},
		"begin": func(r approval.Record) (approval.Record, error) { return r.BeginSend(r.From(), soon) },
		"sent":  func(r approval.Record) (approval.Record, error) { return r.MarkSent(r.From(), soon) },
		"resolve": func(r approval.Record) (approval.Record, error) {
			return r.Resolve(r.From(), "user:sam", "looked", soon)
		},
		"unknown": func(r approval.Record) (approval.Record, error) { return r.MarkUnknown(r.From(), "cut off", soon) },
		"cancel":  func(r approval.Record) (approval.Record, error) { return r.Cancel(r.From(), "user:sam", "over", soon) },
		"fence":   fence,
		"note":    func(r approval.Record) (approval.Record, error) { return r.Note([]approval.Verdict{shadow}, soon) },
		"expire":  func(r approval.Record) (approval.Record, error) { return r.Expire(r.From(), late) },
		"abandon": func(r approval.Record) (approval.Record, error) { return r.Abandon(r.From(), gone) },
	}
	table := map[string]map[string]approval.State{
		"pending": {
			"decide": approval.Decided, "reroute": approval.Pending, "cancel": approval.Cancelled,
			"expire": approval.Expired, "abandon": approval.Lost,
		},
		"decided":        {"begin": approval.Decided, "fence": approval.Decided, "cancel": approval.Cancelled, "abandon": approval.Lost},
		"writing":        {"sent": approval.Sent, "fence": approval.Decided, "unknown": approval.Unknown, "abandon": approval.Unknown},
		"sent":           {"fence": approval.Sent, "resolve": approval.Resolved, "abandon": approval.Resolved},
		"fenced":         {"begin": approval.Decided, "abandon": approval.Unknown},
		"fenced writing": {"sent": approval.Sent, "unknown": approval.Unknown, "abandon": approval.Unknown},
		"fenced sent":    {"resolve": approval.Resolved, "abandon": approval.Resolved},
		"unknown":        {"resolve": approval.Resolved},
		"resolved":       {},
		"expired":        {},
		"cancelled":      {},
		"lost":           {},
	}
	for name := range records {
		if name != "pending" { // a note is for whatever waits no more
			table[name]["note"] = records[name].State
		}
	}
	for name, r := range records {
		for step, move := range steps {
			t.Run(name+" "+step, func(t *testing.T) {
				before, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				got, err := move(r)
				after, marshalErr := json.Marshal(r)
				if marshalErr != nil {
					t.Fatal(marshalErr)
				}
				if diff := cmp.Diff(string(before), string(after)); diff != "" {
					t.Errorf("the record itself changed (-want +got):\n%s", diff)
				}
				want, ok := table[name][step]
				if step == "fence" && strings.HasPrefix(name, "fenced") {
					if !errors.Is(err, approval.ErrUsed) {
						t.Errorf("err = %v, want ErrUsed", err)
					}
					return
				}
				if !ok {
					conflict, is := errors.AsType[*approval.ConflictError](err)
					if !is || conflict.Current.ID != r.ID || conflict.Current.Revision != r.Revision {
						t.Errorf("err = %v, want a conflict with the record", err)
					}
					return
				}
				if err != nil || got.State != want || got.Revision != r.Revision+1 || got.ID != r.ID || !got.Deadline.Equal(r.Deadline) {
					t.Errorf("state %s at revision %d, %v; want %s at %d", got.State, got.Revision, err, want, r.Revision+1)
				}
				if used := step == "fence" || strings.HasPrefix(name, "fenced"); used != got.Fenced.Equal(soon) || used == got.Fenced.IsZero() {
					t.Errorf("fenced at %v", got.Fenced)
				}
				if over := !got.State.Live(); over != (got.Closing != nil) {
					t.Errorf("closing = %+v in state %s", got.Closing, got.State)
				}
			})
		}
	}
}

func TestTransitionsNameTheReason(t *testing.T) {
	r := pending(t)
	decide := func(from approval.From, d approval.Decision, at time.Time) error {
		_, err := r.Decide(from, d, at)
		return err
	}
	bad := allow
	bad.Option = json.RawMessage(`"perhaps"`)
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"in time", decide(r.From(), allow, noon.Add(10*time.Minute-time.Millisecond)), nil},
		{"at the deadline", decide(r.From(), allow, noon.Add(10*time.Minute)), approval.ErrExpired},
		{"after the lease", decide(r.From(), allow, noon.Add(time.Hour)), approval.ErrLost},
		{"a stale revision", decide(approval.From{ID: r.ID, Revision: 0, Instance: "i1"}, allow, noon), approval.ErrConflict},
		{"another instance", decide(approval.From{ID: r.ID, Revision: 1, Instance: "i2"}, allow, noon), approval.ErrInstance},
		{"no instance", decide(approval.From{ID: r.ID, Revision: 1}, allow, noon), approval.ErrInstance},
		{"another id", decide(approval.From{ID: "x", Revision: 1, Instance: "i1"}, allow, noon), approval.ErrNotFound},
		{"no option of this record", decide(r.From(), bad, noon), approval.ErrNotOffered},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !errors.Is(tt.err, tt.want) {
				t.Errorf("err = %v, want %v", tt.err, tt.want)
			}
		})
	}
	expired, err := r.Expire(r.From(), noon.Add(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := expired.Decide(r.From(), allow, noon); !errors.Is(err, approval.ErrExpired) || !errors.Is(err, approval.ErrConflict) || errors.Is(err, approval.ErrLost) {
		t.Errorf("a conflict with an expired record: %v", err)
	}
}

func TestFence(t *testing.T) {
	must := func(r approval.Record, err error) approval.Record {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	waits := pending(t)
	r := must(waits.Decide(waits.From(), allow, noon))
	no := allow
	no.Outcome, no.Option = approval.OutcomeDeny, json.RawMessage(`"decline"`)
	denied := must(waits.Decide(waits.From(), no, noon))
	cancelled := must(r.Cancel(r.From(), "", "over", noon))
	used := must(r.Fence(r.From(), "", r.Digest, noon))
	writing := must(used.BeginSend(used.From(), noon))
	sent := must(writing.MarkSent(writing.From(), noon))
	over := must(sent.Resolve(sent.From(), "", "done", noon))
	from := func(revision int64, instance string) approval.From {
		return approval.From{ID: r.ID, Revision: revision, Instance: instance}
	}
	tests := []struct {
		name        string
		r           approval.Record
		from        approval.From
		run, digest string
		at          time.Time
		want        error
	}{
		{"what was allowed", r, r.From(), "", r.Digest, noon, nil},
		{"past the deadline of the question", r, r.From(), "", r.Digest, noon.Add(11 * time.Minute), nil},
		{"another id", r, approval.From{ID: "x", Revision: 2, Instance: "i1"}, "", r.Digest, noon, approval.ErrNotFound},
		{"another run", r, r.From(), "r2", r.Digest, noon, approval.ErrInstance},
		{"another instance", r, from(2, "i2"), "", r.Digest, noon, approval.ErrInstance},
		{"no instance", r, from(2, ""), "", r.Digest, noon, approval.ErrInstance},
		{"another action", r, r.From(), "", "x", noon, approval.ErrDigest},
		{"no action", r, r.From(), "", "", noon, approval.ErrDigest},
		{"nothing decided", waits, waits.From(), "", r.Digest, noon, approval.ErrConflict},
		{"denied", denied, denied.From(), "", r.Digest, noon, approval.ErrNotAllowed},
		{"cancelled since", cancelled, cancelled.From(), "", r.Digest, noon, approval.ErrConflict},
		{"a lease that ran out", r, r.From(), "", r.Digest, noon.Add(time.Hour), approval.ErrLost},
		{"an older revision", r, from(1, "i1"), "", r.Digest, noon, approval.ErrConflict},
		{"a revision that is not there yet", r, from(3, "i1"), "", r.Digest, noon, approval.ErrConflict},
		{"used before", used, used.From(), "", r.Digest, noon, approval.ErrUsed},
		{"used since it was read", used, r.From(), "", r.Digest, noon, approval.ErrUsed},
		{"used before the answer was sent", sent, sent.From(), "", r.Digest, noon, approval.ErrUsed},
		{"used, by another instance", used, from(3, "i2"), "", r.Digest, noon, approval.ErrInstance},
		{"used, for another action", used, used.From(), "", "x", noon, approval.ErrDigest},
		{"used and over", over, over.From(), "", r.Digest, noon, approval.ErrConflict},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.r.Fence(tt.from, tt.run, tt.digest, tt.at)
			if !errors.Is(err, tt.want) || tt.want != nil && !got.Fenced.IsZero() {
				t.Errorf("fenced at %v, err = %v; want %v", got.Fenced, err, tt.want)
			}
			if tt.want == nil && !got.Fenced.Equal(tt.at) {
				t.Errorf("fenced at %v, want %v", got.Fenced, tt.at)
			}
		})
	}
}

func TestNoteAddsAndChangesNothingElse(t *testing.T) {
	r := pending(t)
	r, err := r.Decide(r.From(), allow, noon.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	want := r
	want.Revision, want.Updated = r.Revision+2, noon.Add(3*time.Second)
	masked := shadow
	masked.Rationale = "it sends password=[redacted]"
	second := approval.Verdict{Reviewer: "two/shadow", Outcome: approval.VerdictError, Shadow: true}
	want.Shadow = []approval.Verdict{masked, second}
	first, err := r.Note([]approval.Verdict{shadow}, noon.Add(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	got, err := first.Note([]approval.Verdict{second}, noon.Add(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("noted (-want +got):\n%s", diff)
	}
	for name, said := range map[string][]approval.Verdict{
		"no verdict":                     nil,
		"a verdict of nobody":            {{Outcome: approval.VerdictAllow, Shadow: true}},
		"a verdict that counted":         {{Reviewer: "one/judge", Outcome: approval.VerdictAllow}},
		"one that counted beside others": {shadow, {Reviewer: "one/judge", Outcome: approval.VerdictAllow}},
	} {
		if _, err := r.Note(said, noon); !errors.Is(err, approval.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
