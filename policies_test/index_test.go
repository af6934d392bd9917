package policies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
)

// Passing rules by without evaluating them is a matter of speed alone: a rule
// that holds where a program is not used must still be heard.
func TestTheIndexSilencesNoRule(t *testing.T) {
	t.Parallel()
	p := load(t, workspace(t, `package rules.absent

import data.regent.lib.command
import data.regent.lib.command as c

deny contains "counted" if count(command.invocations("git")) == 0

deny contains "compared" if command.subcommand("git", ["push"]) == set()

deny contains "kept" if {
	uses := command.invocations("git")
	count(uses) == 0
}

deny contains "handed on" if none(command.invocations("git"))

deny contains "every" if {
	every use in command.invocations("git") {
		use.flags == ["--quiet"]
	}
}

deny contains "not run" if not command.runs("git")

deny contains "in a comprehension" if count([u | some u in command.invocations("git")]) == 0

deny contains "by another name" if count(c.invocations("git")) == 0

deny contains "either" if {
	some program in ["git", "ls"]
	command.runs(program)
}

none(uses) if count(uses) == 0
`))
	want := []string{"by another name", "compared", "counted", "either", "every", "handed on", "in a comprehension", "kept", "not run"}
	var got []string
	for _, m := range rule(t, p, bash("ls", "")).Rules {
		got = append(got, m.Message)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules that hold where git is not run (-want +got):\n%s", diff)
	}
	got = nil
	for _, m := range rule(t, p, bash("git push --quiet origin main", "")).Rules {
		got = append(got, m.Message)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"either", "every"}, got); diff != "" {
		t.Errorf("rules that hold where it is (-want +got):\n%s", diff)
	}
}

// What is too long to be read as a whole may hide what a rule denies, so no mode
// and no allow answers for it.
func TestACommandPastTheLimitsIsNeverAllowed(t *testing.T) {
	t.Parallel()
	src := workspace(t, `package rules.net

import data.regent.lib.command

allow contains "everything" if input.request.reason == "allow"

deny contains "no downloads with curl" if command.runs("curl")
`)
	src.Settings.Mode, src.Settings.HarnessMode, src.Settings.ReadOnlyCommands = "auto_allow", "auto_allow", "skip"
	p := load(t, src)
	for name, text := range map[string]string{
		"too many commands": strings.Repeat("true && ", 6000) + "curl x",
		"too many words":    "echo" + strings.Repeat(" a", 20000) + "; curl x",
		"too much text":     "echo " + strings.Repeat("aaaaaaaaaa", 7000) + "; curl x",
		"too deep":          strings.Repeat("(", 2000) + "curl x" + strings.Repeat(")", 2000),
	} {
		for _, harness := range []string{"native", "codex"} {
			for _, reason := range []string{"", "allow"} {
				r := bash(text, "")
				r.Reason, r.Harness = reason, &approval.Harness{Name: harness}
				if got := rule(t, p, r); got.Route != approval.RouteAsk && got.Route != approval.RouteDeny {
					t.Errorf("%s from %s, reason %q: route %s, want ask or deny; %q", name, harness, reason, got.Route, got.Reasons)
				}
			}
		}
	}
}
