package policies_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

// failing is a file of rules whose ceiling nobody gets to know, since a rule beside
// it fails.
const failing = `package rules.failing

deny contains "x" if to_number(input.request.reason) == 1

ceiling := {"network": {"hosts": ["registry.example.com"]}, "scope": "once"} if input.request
`

// What a person may grant is never more because the rules failed, and never for
// longer than the turn.
func TestAFailureIsNoWiderCeiling(t *testing.T) {
	t.Parallel()
	p, env := sealedHome(t, failing)
	for name, tt := range map[string]struct {
		request string
		want    *permission.Ceiling
	}{
		"a command": {
			`"kind": "command", "command": {"text": "ls"}`,
			&permission.Ceiling{Permissions: permission.Everything(), Scope: permission.Turn},
		},
		"permissions on a folder": {
			`"kind": "permissions", "permissions": {"file_system": {"write": ["{H}/app"]}}`,
			&permission.Ceiling{Permissions: permission.Everything(), Scope: permission.Turn},
		},
		"permissions that hold what is sealed": {
			`"kind": "permissions", "permissions": {"file_system": {"read": ["{H}"]}}`,
			&permission.Ceiling{Permissions: without(env, "runtime", "runtime/regent.sock", "runtime/runtime.db", "step_up.json", "tokens.json", "trust.json"), Scope: permission.Turn},
		},
	} {
		r := request(t, expand(`{`+tt.request+`, "reason": "no number", "environment": {"cwd": "{H}/app", "home": "{H}"}}`, env))
		got := p.Rule(t.Context(), r)
		if got.Route != approval.RouteAsk || got.Failure == nil {
			t.Fatalf("%s: route %s, failure %v, want ask with a failure", name, got.Route, got.Failure)
		}
		if diff := cmp.Diff(tt.want, got.Ceiling); diff != "" {
			t.Errorf("%s: ceiling (-want +got):\n%s", name, diff)
		}
	}
}

// without is everything but the given files of the home.
func without(env approval.Environment, names ...string) permission.Profile {
	p := permission.Everything()
	for _, name := range names {
		p.FileSystem.Entries = append(p.FileSystem.Entries, permission.Literal(filepath.Join(env.Home, ".regent", name), permission.Deny))
	}
	return p
}

// Without rules nothing says what may be granted, so nothing is.
func TestWithoutRulesNothingCanBeGranted(t *testing.T) {
	t.Parallel()
	got := rego.Unloaded(errors.New("config.yaml is a folder"), settings())
	if diff := cmp.Diff(&permission.Ceiling{Scope: permission.Turn}, got.Ceiling); diff != "" {
		t.Errorf("ceiling (-want +got):\n%s", diff)
	}
	if got.Ceiling.Permissions.Grants() || got.Route != approval.RouteAsk {
		t.Errorf("route %s, ceiling %+v, want ask and nothing", got.Route, got.Ceiling)
	}
}
