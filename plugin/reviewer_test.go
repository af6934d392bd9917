package plugin_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/reviewer"
)

func TestReviewerAsksThePlugin(t *testing.T) {
	h := host(t, plugin.Options{})
	c := configuration(pinned(t, "echo"), map[string]string{"threshold": "5"})
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	want := approval.Verdict{
		Reviewer: "test/reviewer", Outcome: approval.VerdictDeny,
		Rationale: `{"args":{"threshold":"5"},"id":"a1","request":{"kind":"command","command":{"text":"git push"}},"route":"review","workspace":"/work/app/.regent"}`,
		Usage:     &approval.Usage{Model: "m", InputTokens: 3, OutputTokens: 4, CostUSD: 0.5},
	}
	if diff := cmp.Diff(want, review(t, s, c, question("a1"))); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// TestVerdictsThatCountForNothing: none of these may come out as an answer.
func TestVerdictsThatCountForNothing(t *testing.T) {
	write := func(path string) *permission.Profile {
		return &permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(path, permission.Write)}}}
	}
	permissions := question("a1")
	permissions.Request = &approval.Request{Kind: approval.KindPermissions, Permissions: write("/work/app/out")}
	profile := func(path string) string {
		return `{"file_system":{"entries":[{"path":{"type":"path","path":"` + path + `"},"access":"write"}]}}`
	}
	const failed, open = approval.VerdictError, approval.VerdictUnsure
	for _, test := range []struct {
		name  string
		mode  []string
		ask   reviewer.Question
		want  approval.VerdictOutcome
		words string
	}{
		{"a verdict for another request", []string{"other-id"}, question("a1"), failed, `it is for request "another", and "a1" was asked`},
		{"a scope beyond the ceiling", []string{"session"}, question("a1"), failed, "it allows for the scope session, and turn is the most"},
		{"a grant that is wider than what was asked for", []string{"grant", profile("/work/app")}, permissions, failed, "it grants more than is asked for"},
		{"a grant where none was asked for", []string{"grant", profile("/work/app/out")}, question("a1"), failed, "it grants more than is asked for"},
		{"a grant that is no profile", []string{"grant", `{"root":true}`}, permissions, failed, "permissions are no profile"},
		{"a part of what was asked for", []string{"grant", profile("/work/app/out/log")}, permissions, open, "would allow a part of what is asked for"},
		{"a huge reply", []string{"huge"}, question("a1"), failed, "a reply may have 65536 bytes at most"},
		{"an outcome that is not known", []string{"novel"}, question("a1"), failed, "outcome 77 is not known"},
		{"an outcome that is not said", []string{"empty"}, question("a1"), open, ""},
		{"an allow at a critical risk", []string{"critical"}, question("a1"), open, "would allow this at risk_level critical"},
		{"an error", []string{"fails"}, question("a1"), failed, `out of \u001b[31mink`},
		{"a panic", []string{"panics"}, question("a1"), failed, "the plugin panicked: lost my head"},
		{"death in the middle of a call", []string{"dies"}, question("a1"), failed, "plugin acme: it broke off"},
		{"a plugin of another kind", []string{"notifier"}, question("a1"), failed, "plugin acme: plugin is of another kind: it is no reviewer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := host(t, plugin.Options{})
			c := configuration(pinned(t, test.mode...), nil)
			s := h.Open(t.Context(), c.Plugins)
			defer s.Close()
			got := review(t, s, c, test.ask)
			if got.Outcome != test.want || !strings.Contains(got.Rationale, test.words) || got.Scope != "" {
				t.Errorf("verdict = %+v, want %s because %q", got, test.want, test.words)
			}
		})
	}
}

// TestVerdictsThatCount is the converse: near misses that are answers.
func TestVerdictsThatCount(t *testing.T) {
	permissions := question("a1")
	permissions.Request = &approval.Request{Kind: approval.KindPermissions, Permissions: &permission.Profile{
		FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("/work/app/out", permission.Write)}},
	}}
	session := question("a1")
	session.Ruling.Ceiling = nil
	for _, test := range []struct {
		name string
		mode []string
		ask  reviewer.Question
		want approval.Verdict
	}{
		{"the scope where policy knows no limit", []string{"session"}, session, approval.Verdict{Outcome: approval.VerdictAllow, Scope: permission.Session}},
		{
			"all that was asked for",
			[]string{"grant", `{"file_system":{"entries":[{"path":{"type":"path","path":"/work/app/out"},"access":"write"}]}}`},
			permissions,
			approval.Verdict{Outcome: approval.VerdictAllow},
		},
		{"numbers that cannot be are left out", []string{"usage"}, question("a1"), approval.Verdict{Outcome: approval.VerdictAllow}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := host(t, plugin.Options{})
			c := configuration(pinned(t, test.mode...), nil)
			s := h.Open(t.Context(), c.Plugins)
			defer s.Close()
			test.want.Reviewer = "test/reviewer"
			if diff := cmp.Diff(test.want, review(t, s, c, test.ask)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReviewerThatIsNotThere(t *testing.T) {
	h := host(t, plugin.Options{})
	c := configuration(config.Plugin{}, nil)
	s := h.Open(t.Context(), nil)
	defer s.Close()
	if _, err := s.Reviewer(c, "other"); err == nil || !strings.Contains(err.Error(), `no reviewer of kind plugin is named "other"`) {
		t.Errorf("a reviewer that is not configured: %v", err)
	}
	want := `reviewers.test/reviewer.plugin: unknown plugin: "acme"; no plugin is configured`
	if _, err := s.Reviewer(c, "test/reviewer"); err == nil || err.Error() != want {
		t.Errorf("a plugin that is not in the set: %v, want %s", err, want)
	}
}

// TestPluginSeesNoOtherVariables: secrets of ours are in our environment.
func TestPluginSeesNoOtherVariables(t *testing.T) {
	t.Setenv("PASSED", "on")
	t.Setenv("SECRET_TOKEN", "hunter2")
	h := host(t, plugin.Options{})
	p := pinned(t, "env")
	p.Env = []string{"PASSED", "ABSENT"}
	c := configuration(p, nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	got := strings.Fields(review(t, s, c, question("a1")).Rationale)
	want := []string{
		"REGENT_PLUGIN_STDIN", "PASSED=on", "REGENT_PLUGIN", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT",
		"PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_CLIENT_CERT", "PLUGIN_UNIX_SOCKET_DIR",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if os.Getenv("SECRET_TOKEN") == "" {
		t.Error("the test has no secret to keep")
	}
}
