//go:build linux || darwin

package reviewer_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/reviewer"
)

func TestOpenSaysWhyThereIsNoReviewer(t *testing.T) {
	c := load(t, `reviewers:
  default/reviewer: {kind: model, provider: openai, model: small-model}
  home/rules:
    kind: rego
    query: data.home.review.verdict
  acme/both: {kind: chain, members: [home/rules]}
  acme/risk: {kind: plugin, plugin: acme}
plugins: {acme: {command: [`+actor(t, "")[0]+`]}}
`)
	bare := config.Default("")
	bare.Reviewers = map[string]config.Reviewer{
		"acme/checks": {Kind: config.ReviewerCommand, Command: []string{"checks"}}, "acme/odd": {Kind: "oracle"},
	}
	for _, test := range []struct {
		name     string
		c        *config.Config
		reviewer string
		is       error
		want     []string
	}{
		{"one that is not configured", c, "acme/gone", reviewer.ErrUnknown, []string{
			filepath.Join(c.Dir, "config.yaml") + ":2:1: ", `"acme/gone" is not configured; there are acme/both, acme/risk, default/reviewer, home/rules`,
		}},
		{"none is configured", config.Default("/home/x"), "default/reviewer", reviewer.ErrUnknown, []string{
			"config.yaml: ", `"default/reviewer" is not configured; no reviewer is`,
		}},
		{"a rule", c, "home/rules", reviewer.ErrKind, []string{"config.yaml:5:5: reviewers.home/rules.kind: ", `"rego"`}},
		{"a plugin", c, "acme/risk", reviewer.ErrKind, []string{`"plugin"`}},
		{"a kind that is not known", bare, "acme/odd", reviewer.ErrKind, []string{"reviewers.acme/odd.kind: ", `a reviewer of kind "oracle" is not asked, people are`}},
		{"a program that would be looked up", bare, "acme/checks", nil, []string{"reviewers.acme/checks.command: does not start with the absolute path"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := reviewer.Open(test.c, test.reviewer)
			if err == nil || r != nil {
				t.Fatalf("Open = %v, %v", r, err)
			}
			for _, sentinel := range []error{reviewer.ErrUnknown, reviewer.ErrKind} {
				if errors.Is(err, sentinel) != (sentinel == test.is) {
					t.Errorf("errors.Is(%v, %v) = %t", err, sentinel, !errors.Is(test.is, sentinel))
				}
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("err = %v; want %s in it", err, want)
				}
			}
		})
	}
}
