package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate/approval"
)

// reviewerReport is what `regent reviewer report` prints.
type reviewerReport struct {
	// Since is when the first of the requests was taken in that are looked at; nil
	// for all.
	Since *time.Time `json:"since,omitempty"`
	// Approvals is how many of them a reviewer gave a verdict on.
	Approvals int           `json:"approvals"`
	Reviewers []reviewerRow `json:"reviewers"`
}

// reviewerRow is what one reviewer said, in shadow or not.
type reviewerRow struct {
	Reviewer string `json:"reviewer"`
	Shadow   bool   `json:"shadow"`
	// Asked is how many verdicts there are. Each is one of the others; to end the
	// turn counts as to deny.
	Asked   int `json:"asked"`
	Allow   int `json:"allow"`
	Deny    int `json:"deny"`
	Unsure  int `json:"unsure"`
	Timeout int `json:"timeout"`
	Error   int `json:"error"`
	// Compared counts the verdicts to allow or deny on what somebody else decided,
	// and Agreed those of them that the decision bore out.
	Compared int `json:"compared"`
	Agreed   int `json:"agreed"`
	// FalseAllows are verdicts to allow what a person or a rule denied, FalseDenies
	// verdicts to deny what a person or a rule allowed.
	FalseAllows int `json:"false_allows"`
	FalseDenies int `json:"false_denies"`
	// P50MS and P95MS are how long it took, in milliseconds.
	P50MS int64 `json:"p50_ms"`
	P95MS int64 `json:"p95_ms"`
	// Tokens and cost are what the reviewer tells, the cost in US dollars.
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`

	took []int64
}

func newReviewerReport(a *app) *cobra.Command {
	since := ""
	cmd := &cobra.Command{
		Use:   "report [FILE]",
		Short: "Compare what reviewers said with what was decided",
		Long: `Compare what each reviewer said with what was decided in the end, by the home's
ledger or by FILE. Reviewers in shadow are told apart: they were asked beside the
others, and changed nothing.

AGREED counts the verdicts to allow or deny that were borne out, of those on what
somebody else decided. FALSE ALLOWS would have let pass what a person or a rule
denied, FALSE DENIES would have denied what one of them allowed. P50 and P95 are how
long a verdict took: half, and 95 of 100, took no longer.`,
		Example: `  $ regent reviewer report --since 7d --output json
  {
    "since": "...",
    "approvals": 0,
    "reviewers": []
  }
  $ regent reviewer report > report.txt`,
		Args:              oneFile,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			var from time.Time
			if cmd.Flags().Changed("since") {
				var err error
				if from, err = parseSince(since, time.Now()); err != nil {
					return usagef("--since: %w", err)
				}
			}
			return a.reviewerReport(cmd, args, from)
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "only requests of the last `TIME`, as in 12h or 7d, or since a date")
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// parseSince reads how far back to look: a time such as 90m, 12h or 7d before now, a
// date, which begins at midnight here, or an instant of RFC 3339.
func parseSince(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a time, as in 12h or 7d, nor a date, as in 2026-01-31", text)
}

func (a *app) reviewerReport(cmd *cobra.Command, args []string, from time.Time) (err error) {
	db, _, err := a.openLedger(cmd.Context(), args)
	if err != nil {
		return err
	}
	defer closing(db, &err)
	report, err := reportReviewers(cmd.Context(), db, from)
	if err != nil {
		return damaged(err)
	}
	switch {
	case a.global.json():
		return writeJSON(a.stdout, report, true)
	case len(report.Reviewers) == 0:
		a.say(cmd.CommandPath(), "no reviewer has given a verdict")
		return nil
	}
	rows := [][]string{{
		"REVIEWER", "SHADOW", "ASKED", "ALLOW", "DENY", "UNSURE", "TIMEOUT", "ERROR",
		"AGREED", "FALSE ALLOWS", "FALSE DENIES", "P50", "P95", "TOKENS", "COST",
	}}
	for i := range report.Reviewers {
		r := &report.Reviewers[i]
		agreed, tokens, cost := "-", "-", "-"
		if r.Compared > 0 {
			agreed = fmt.Sprintf("%d of %d", r.Agreed, r.Compared)
		}
		if n := r.InputTokens + r.OutputTokens; n > 0 {
			tokens = strconv.FormatInt(n, 10)
		}
		if r.CostUSD > 0 {
			cost = fmt.Sprintf("$%.4f", r.CostUSD)
		}
		row := []string{shown(r.Reviewer), yesNo(r.Shadow)}
		for _, n := range []int{r.Asked, r.Allow, r.Deny, r.Unsure, r.Timeout, r.Error} {
			row = append(row, strconv.Itoa(n))
		}
		rows = append(rows, append(row, agreed, strconv.Itoa(r.FalseAllows), strconv.Itoa(r.FalseDenies),
			milliseconds(r.P50MS), milliseconds(r.P95MS), tokens, cost))
	}
	return table(a.stdout, "", rows)
}

func milliseconds(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// lister is a ledger as the report reads it.
type lister interface {
	List(ctx context.Context, q approval.Query) (approval.Page, error)
}

// reportReviewers reads the records from the newest to those taken in at from.
func reportReviewers(ctx context.Context, l lister, from time.Time) (reviewerReport, error) {
	type key struct {
		name   string
		shadow bool
	}
	rows := map[key]*reviewerRow{}
	out := reviewerReport{Reviewers: []reviewerRow{}}
	if !from.IsZero() {
		at := approval.Instant(from)
		out.Since = &at
	}
	for q := (approval.Query{}); ; {
		page, err := l.List(ctx, q)
		if err != nil {
			return out, err
		}
		older := true
		for i := range page.Records {
			r := &page.Records[i]
			if r.Created.Before(from) {
				continue // a clock that was set back has others behind it
			}
			older = false
			verdicts := slices.Concat(r.Ruling.Verdicts, r.Shadow)
			if r.Decision != nil {
				verdicts = append(verdicts, r.Decision.Verdicts...)
			}
			if len(verdicts) > 0 {
				out.Approvals++
			}
			for _, v := range verdicts {
				k := key{v.Reviewer, v.Shadow}
				if rows[k] == nil {
					rows[k] = &reviewerRow{Reviewer: v.Reviewer, Shadow: v.Shadow}
				}
				rows[k].add(&v, r.Decision)
			}
		}
		if older || page.Before == "" {
			break
		}
		q.Before = page.Before
	}
	for _, row := range rows {
		slices.Sort(row.took)
		row.P50MS, row.P95MS = percentile(row.took, 50), percentile(row.took, 95)
		out.Reviewers = append(out.Reviewers, *row)
	}
	slices.SortFunc(out.Reviewers, func(a, b reviewerRow) int {
		if a.Shadow != b.Shadow {
			if b.Shadow {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Reviewer, b.Reviewer)
	})
	return out, nil
}

// add counts a verdict, beside what was decided if anything was.
func (r *reviewerRow) add(v *approval.Verdict, d *approval.Decision) {
	r.Asked++
	r.took = append(r.took, v.DurationMS)
	if v.Usage != nil {
		r.InputTokens += v.Usage.InputTokens
		r.OutputTokens += v.Usage.OutputTokens
		r.CostUSD += v.Usage.CostUSD
	}
	switch v.Outcome {
	case approval.VerdictAllow:
		r.Allow++
	case approval.VerdictDeny, approval.VerdictCancel:
		r.Deny++
	case approval.VerdictUnsure:
		r.Unsure++
		return
	case approval.VerdictTimeout:
		r.Timeout++
		return
	default:
		r.Error++
		return
	}
	if d == nil || d.Source == approval.SourceReviewer && d.By == v.Reviewer && !v.Shadow {
		return // nobody else has decided
	}
	allowed, would := d.Outcome == approval.OutcomeAllow, v.Outcome == approval.VerdictAllow
	judged := d.Source == approval.SourceHuman || d.Source == approval.SourceRule
	r.Compared++
	switch {
	case allowed == would:
		r.Agreed++
	case would && judged:
		r.FalseAllows++
	case judged:
		r.FalseDenies++
	}
}

// percentile is the smallest of sorted values that so many of 100 do not exceed.
func percentile(sorted []int64, of int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*of+99)/100-1]
}
