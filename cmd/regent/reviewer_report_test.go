package main

// Internal, as a command has nothing that could be imported.

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regent-policy/regent/gate/approval"
)

// onePage is a ledger with pages of one record, the newest first.
type onePage []approval.Record

func (p onePage) List(_ context.Context, q approval.Query) (approval.Page, error) {
	at := 0
	if q.Before != "" {
		at, _ = strconv.Atoi(q.Before)
		at++
	}
	page := approval.Page{Records: []approval.Record{p[at]}}
	if at+1 < len(p) {
		page.Before = strconv.Itoa(at)
	}
	return page, nil
}

func TestReviewerReport(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	n := 0
	said := func(name string, outcome approval.VerdictOutcome) approval.Verdict {
		n++
		return approval.Verdict{Reviewer: name, Outcome: outcome, DurationMS: int64(n)}
	}
	shadow := func(outcome approval.VerdictOutcome) []approval.Verdict {
		v := said("b", outcome)
		v.Shadow = true
		return []approval.Verdict{v}
	}
	decided := func(source approval.Source, by string, outcome approval.Outcome, verdicts ...approval.Verdict) *approval.Decision {
		return &approval.Decision{Source: source, By: by, Outcome: outcome, Verdicts: verdicts}
	}
	asked := func(verdicts ...approval.Verdict) approval.Ruling { return approval.Ruling{Verdicts: verdicts} }
	paid := said("a", approval.VerdictAllow)
	paid.Usage = &approval.Usage{InputTokens: 100, OutputTokens: 20, CostUSD: 0.5}
	records := onePage{
		// It decided itself, and one in shadow would not have: no proof that either is wrong.
		{Created: noon, Decision: decided("reviewer", "a", "allow", paid), Shadow: shadow("deny")},
		// A person decided, who was asked because one could not tell.
		{Created: noon, Ruling: asked(said("a", "allow"), said("c", "unsure")), Decision: decided("human", "sam", "deny"), Shadow: shadow("allow")},
		{Created: noon, Ruling: asked(said("a", "deny"), said("c", "timeout")), Decision: decided("human", "sam", "allow"), Shadow: shadow("allow")},
		// A rule denied what it allowed, and another reviewer did.
		{Created: noon, Decision: decided("rule", "R", "deny", said("a", "allow")), Shadow: shadow("cancel")},
		{Created: noon, Decision: decided("reviewer", "c", "cancel", said("a", "allow"), said("c", "cancel"))},
		// Nobody did.
		{Created: noon, Ruling: asked(said("a", "allow")), Shadow: shadow("error")},
		{Created: noon.Add(-time.Second), Decision: decided("rule", "R", "deny")},
		{Created: noon.Add(-time.Hour), Decision: decided("human", "sam", "allow", said("old", "allow"))},
	}
	got, err := reportReviewers(t.Context(), records, noon.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	since := noon.Add(-time.Minute)
	want := reviewerReport{Since: &since, Approvals: 6, Reviewers: []reviewerRow{
		{Reviewer: "a", Asked: 6, Allow: 5, Deny: 1, Compared: 4, FalseAllows: 2, FalseDenies: 1, InputTokens: 100, OutputTokens: 20, CostUSD: 0.5},
		{Reviewer: "c", Asked: 3, Deny: 1, Unsure: 1, Timeout: 1},
		{Reviewer: "b", Shadow: true, Asked: 5, Allow: 2, Deny: 2, Error: 1, Compared: 4, Agreed: 2, FalseAllows: 1},
	}}
	ignored := cmpopts.IgnoreFields(reviewerRow{}, "P50MS", "P95MS")
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(reviewerRow{}), ignored); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all, err := reportReviewers(t.Context(), records, time.Time{})
	if err != nil || len(all.Reviewers) != 4 || all.Since != nil {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	for _, test := range []struct {
		of       []int64
		p50, p95 int64
	}{
		{nil, 0, 0},
		{[]int64{7}, 7, 7},
		{[]int64{1, 2}, 1, 2},
		{[]int64{1, 2, 3}, 2, 3},
		{hundred, 50, 95},
	} {
		if p50, p95 := percentile(test.of, 50), percentile(test.of, 95); p50 != test.p50 || p95 != test.p95 {
			t.Errorf("%v: %d and %d, want %d and %d", test.of, p50, p95, test.p50, test.p95)
		}
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 5, 8, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "12h": now.Add(-12 * time.Hour), "7d": now.AddDate(0, 0, -7),
		"2026-05-01":           time.Date(2026, 5, 1, 0, 0, 0, 0, time.Local),
		"2026-05-01T10:00:00Z": time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0h", "-1h", "d", "-7d", "0d", "7", "yesterday", "2026-13-01"} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
