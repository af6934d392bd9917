package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// said are the lines of a sheet below some name, without it.
func said(sheet []string, name string) []string {
	var lines []string
	open := false
	for _, line := range sheet {
		if label := strings.TrimRight(line[:min(sheetLabels, len(line))], " "); label != "" {
			open = label == name
		}
		if open {
			lines = append(lines, strings.TrimSpace(line[sheetLabels:]))
		}
	}
	return lines
}

func TestRecordSheet(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	out := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{{Path: permission.Path{Type: permission.TypePath, Path: "/w/out"}, Access: permission.Write}}}}
	settled := func(outcome approval.Outcome, s permission.Settlement) *approval.Decision {
		return &approval.Decision{Option: json.RawMessage(`"x"`), Outcome: outcome, Source: approval.SourceHuman, By: "user:sam", At: at, Settlement: &s}
	}
	tests := []struct {
		name   string
		record approval.Record
		label  string
		want   []string
	}{
		{
			"a file that runs is named with what it held",
			approval.Record{Operands: []approval.Operand{{Path: "/w/build.sh", SHA256: "ab12"}}},
			"runs",
			[]string{"/w/build.sh  sha256 ab12"},
		},
		{
			"a file that could not be read says why",
			approval.Record{Operands: []approval.Operand{{Path: "/w/a"}, {Path: "/w/b", Problem: "missing"}}},
			"runs",
			[]string{"/w/a  of unknown content", "/w/b  missing"},
		},
		{"no file runs", approval.Record{}, "runs", nil},
		{"an action was let start", approval.Record{Fenced: at}, "used", []string{"at 2026-11-30 12:00:00Z"}},
		{"no action was let start", approval.Record{}, "used", nil},
		{
			"what an answer grants",
			approval.Record{Decision: settled(approval.OutcomeAllow, permission.Settlement{Permissions: out, Scope: permission.Turn, StrictAutoReview: true})},
			"granted",
			[]string{"for the turn", "write /w/out", "and every later call of the turn is reviewed"},
		},
		{
			"a grant for one call",
			approval.Record{Decision: settled(approval.OutcomeAllow, permission.Settlement{Permissions: out, Scope: permission.Once})},
			"granted",
			[]string{"once", "write /w/out"},
		},
		{
			"an answer that denies grants nothing",
			approval.Record{Decision: settled(approval.OutcomeDeny, permission.Settlement{Permissions: out, Scope: permission.Turn})},
			"granted", nil,
		},
		{
			"what a reviewer said without settling it",
			approval.Record{Ruling: approval.Ruling{Verdicts: []approval.Verdict{
				{Reviewer: "a", Outcome: approval.VerdictAllow, Scope: permission.Session, Risk: approval.RiskLow, Authorization: approval.AuthorizationHigh},
				{Reviewer: "b", Outcome: approval.VerdictError, Rationale: "no model"},
			}}},
			"verdict",
			[]string{"a: allow for the session, risk low, authorization high", "b: error", "no model"},
		},
		{
			"a decision rests on what reviewers said",
			approval.Record{Decision: &approval.Decision{Option: json.RawMessage(`"deny"`), Outcome: approval.OutcomeDeny, Source: approval.SourceReviewer, By: "a", At: at, Verdicts: []approval.Verdict{
				{Reviewer: "a", Outcome: approval.VerdictDeny},
			}}},
			"verdict",
			[]string{"a: deny"},
		},
		{
			"a reviewer that talks on and on is cut",
			approval.Record{Ruling: approval.Ruling{Verdicts: []approval.Verdict{{Reviewer: "a", Outcome: approval.VerdictUnsure, Rationale: strings.Repeat("x", maxShown+1)}}}},
			"verdict",
			[]string{"a: unsure", strings.Repeat("x", maxShown) + "…"},
		},
		{
			"a reviewer cannot drive a terminal, nor forge a line",
			approval.Record{Ruling: approval.Ruling{Verdicts: []approval.Verdict{{Reviewer: "a", Outcome: approval.VerdictUnsure, Rationale: "\x1b[2J\ndecision    allow by human"}}}},
			"verdict",
			[]string{"a: unsure", `\x1b[2J`, "decision    allow by human"},
		},
		{
			"a grant decided",
			approval.Record{Decision: &approval.Decision{Option: json.RawMessage(`"allow"`), Outcome: approval.OutcomeAllow, Source: approval.SourceGrant, At: at}},
			"decision",
			[]string{`allow by grant at 2026-11-30 12:00:00Z: "allow"`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.record
			r.Request = &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "make"}}
			sheet := recordSheet(&r, at, false)
			if diff := cmp.Diff(tt.want, said(sheet, tt.label)); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%s", tt.label, diff, strings.Join(sheet, "\n"))
			}
			if i := slices.IndexFunc(sheet, func(line string) bool { return strings.ContainsAny(line, "\x1b\n") }); i >= 0 {
				t.Errorf("line %q", sheet[i])
			}
		})
	}
}

func TestGrantRowIsFitForATerminal(t *testing.T) {
	got := grantRow("id", "s\t1\x1b[2J", "", strings.Repeat("x", maxWhat+1))
	if diff := cmp.Diff([]string{"id", `s\t1\x1b[2J`, "-", strings.Repeat("x", maxWhat) + "…"}, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestPermissionsText(t *testing.T) {
	for _, tt := range []struct {
		name, profile, want string
	}{
		{"nothing", `{}`, "nothing"},
		{"all of the network", `{"network":{"enabled":true}}`, "network all of it"},
		{
			"hosts and folders", `{"network":{"hosts":["a.example","b.example"]},"file_system":{"read":["/w/in"],"write":["/w/out"]}}`,
			"network a.example, b.example, read /w/in, write /w/out",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p permission.Profile
			if err := json.Unmarshal([]byte(tt.profile), &p); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, permissionsText(p)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}
