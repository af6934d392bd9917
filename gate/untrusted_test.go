package gate_test

import (
	"path/filepath"
	"testing"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// TestFoundWorkspaceOnlyTightens goes through the names that count in rules: each
// takes effect in a workspace that is trusted, and only those that tighten in one
// that was found. config has the same table for settings.
func TestFoundWorkspaceOnlyTightens(t *testing.T) {
	const when = " if input.request.command.text == \"make\"\n"
	asked := profile(permission.Literal("/w/a", permission.Write))
	ceilinged := func(r approval.Ruling) bool {
		return r.Ceiling != nil && !permission.Covers(r.Ceiling.Permissions, asked)
	}
	is := func(route approval.Route) func(approval.Ruling) bool {
		return func(r approval.Ruling) bool { return r.Route == route }
	}
	tests := []struct {
		name, home, rule string
		// takes is what a ruling shows in which the rule has taken effect.
		takes func(approval.Ruling) bool
		// found is whether it does where the workspace was found.
		found bool
	}{
		{"deny denies", "manual", "deny contains \"no\"" + when, is(approval.RouteDeny), true},
		{"ask asks", "auto_allow", "ask contains \"look\"" + when, is(approval.RouteAsk), true},
		{"review has a reviewer or a person look", "auto_allow", "review contains \"look\"" + when, is(approval.RouteAsk), true},
		{"a ceiling holds down", "manual", "ceiling := {\"file_system\": {\"entries\": []}}" + when, ceilinged, true},
		{"context is told", "manual", "context contains \"note\"" + when, func(r approval.Ruling) bool { return len(r.Context) == 1 }, true},
		{"allow allows nothing", "manual", "allow contains \"yes\"" + when, is(approval.RouteAllow), false},
		{
			"allow does not lift a ceiling", "manual", "allow contains \"yes\"" + when + "\nceiling := {\"file_system\": {\"entries\": [{\"path\": {\"type\": \"path\", \"path\": \"/\"}, \"access\": \"write\"}]}}\n",
			is(approval.RouteAllow), false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			home := files(t, map[string]string{"config.yaml": mode(test.home)})
			workspace := files(t, map[string]string{
				"config.yaml":       "version: 1\n",
				"policies/one.rego": "package rules.one\n\n" + test.rule,
			})
			for _, trusted := range []bool{true, false} {
				e, err := gate.Load(t.Context(), gate.Options{Home: home, Workspace: workspace, Trusted: trusted})
				if err != nil {
					t.Fatal(err)
				}
				r := command("make")
				r.Permissions = &asked
				r.Environment = &approval.Environment{Cwd: "/w"}
				ruling := e.Policy.Rule(t.Context(), r)
				want := trusted || test.found
				if got := test.takes(ruling); got != want {
					t.Errorf("trusted %t: took effect: %t, want %t: %+v", trusted, got, want, ruling)
				}
			}
		})
	}
}

// TestRulesMayNotReachOutOfAFoundWorkspace: other files of the machine are not
// for its rules to read.
func TestRulesMayNotReachOutOfAFoundWorkspace(t *testing.T) {
	elsewhere := files(t, map[string]string{"allow.rego": "package rules.elsewhere\n\ndeny contains \"no\" if input.request.command.text == \"make\"\n"})
	home := files(t, map[string]string{"config.yaml": mode("manual")})
	workspace := files(t, map[string]string{"config.yaml": "version: 1\npolicy: {paths: [\"" + filepath.Join(elsewhere, "allow.rego") + "\"]}\n"})
	for trusted, want := range map[bool]approval.Route{true: approval.RouteDeny, false: approval.RouteAsk} {
		e, err := gate.Load(t.Context(), gate.Options{Home: home, Workspace: workspace, Trusted: trusted})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Policy.Rule(t.Context(), command("make")).Route; got != want {
			t.Errorf("trusted %t: %s, want %s", trusted, got, want)
		}
	}
}
