package config_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/config"
)

// home and found are two files: what is decided by the one is tightened or
// loosened by the other.
func home(t testing.TB, text string) *config.Config {
	t.Helper()
	return parseAs(t, "/home/sam/.regent/config.yaml", text)
}

func workspace(t testing.TB, text string) *config.Config {
	t.Helper()
	return parseAs(t, "/work/app/.regent/config.yaml", text)
}

func parseAs(t testing.TB, name, text string) *config.Config {
	t.Helper()
	c, _, err := config.Parse(name, []byte("version: 1\n"+text))
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return c
}

func said(loosenings []config.Loosening) []string {
	var texts []string
	for _, l := range loosenings {
		texts = append(texts, fmt.Sprintf("%s: %q to %q", l.Path, l.From, l.To))
	}
	return texts
}

// steps are edits of one file, and what each loosens. The edit in the other
// direction is listed by itself where it loosens too.
var steps = []struct {
	name, before, after string
	want                []string
}{
	{"nothing changed", "permissions: {mode: auto_allow}", "permissions: {mode: auto_allow}", nil},

	{"manual to review", "permissions: {mode: manual}", "permissions: {mode: model_review}", []string{`permissions.mode: "manual" to "model_review"`}},
	{"manual to auto", "permissions: {mode: manual}", "permissions: {mode: auto_allow}", []string{`permissions.mode: "manual" to "auto_allow"`}},
	{"review to auto", "permissions: {mode: model_review}", "permissions: {mode: auto_allow}", []string{`permissions.mode: "model_review" to "auto_allow"`}},
	{"auto to review", "permissions: {mode: auto_allow}", "permissions: {mode: model_review}", nil},
	{"auto to manual", "permissions: {mode: auto_allow}", "permissions: {mode: manual}", nil},
	{"a removed line goes back to the default", "permissions: {mode: manual}", "", []string{`permissions.mode: "manual" to "model_review"`}},

	{"a harness goes unasked", "", "permissions: {harness_mode: auto_allow}", []string{`permissions.harness_mode: "manual" to "auto_allow"`}},
	{"a harness is asked for again", "permissions: {harness_mode: auto_allow}", "", nil},
	{"reading goes unasked", "", "permissions: {read_only_commands: skip}", []string{`permissions.read_only_commands: "ask" to "skip"`}},
	{"reading is asked for again", "permissions: {read_only_commands: skip}", "permissions: {read_only_commands: ask}", nil},

	{"another reviewer", "permissions: {reviewer_model: a/a}\nreviewers: {a/a: {kind: rego, query: data.a}, a/b: {kind: rego, query: data.b}}", "permissions: {reviewer_model: a/b}\nreviewers: {a/a: {kind: rego, query: data.a}, a/b: {kind: rego, query: data.b}}", []string{`permissions.reviewer_model: "a/a" to "a/b"`}},
	{"a reviewer that is not there", "permissions: {reviewer_model: a/a}\nreviewers: {a/a: {kind: rego, query: data.a}}", "permissions: {reviewer_model: a/b}\nreviewers: {a/a: {kind: rego, query: data.a}}", nil},
	{"a longer review", "", "permissions: {review_timeout_seconds: 600}", nil},
	{"a shorter review", "", "permissions: {review_timeout_seconds: 1}", nil},
	{"a longer request", "", "permissions: {request_timeout_seconds: 86400}", nil},
	{"a shorter request", "", "permissions: {request_timeout_seconds: 30}", nil},

	{"a server is trusted", "permissions: {trusted_mcp_servers: [a]}", "permissions: {trusted_mcp_servers: [b, a, c]}", []string{`permissions.trusted_mcp_servers: "" to "b"`, `permissions.trusted_mcp_servers: "" to "c"`}},
	{"a server is no longer trusted", "permissions: {trusted_mcp_servers: [a, b]}", "permissions: {trusted_mcp_servers: [b]}", nil},

	{"never to on_request", "approval_policy: never", "approval_policy: on_request", []string{`approval_policy: "never" to "on_request"`}},
	{"never to unless_trusted", "approval_policy: never", "approval_policy: unless_trusted", []string{`approval_policy: "never" to "unless_trusted"`}},
	{"never to one kind", "approval_policy: never", "approval_policy: {granular: {rules: true}}", []string{`approval_policy: "never" to "granular{rules}"`}},
	{"never to no kind", "approval_policy: never", "approval_policy: {granular: {rules: false}}", nil},
	{"unless_trusted to on_request", "approval_policy: unless_trusted", "approval_policy: on_request", []string{`approval_policy: "unless_trusted" to "on_request"`}},
	{"unless_trusted to one kind", "approval_policy: unless_trusted", "approval_policy: {granular: {rules: true}}", []string{`approval_policy: "unless_trusted" to "granular{rules}"`}},
	{"unless_trusted to never", "approval_policy: unless_trusted", "approval_policy: never", nil},
	{"on_request to unless_trusted", "approval_policy: on_request", "approval_policy: unless_trusted", nil},
	{"on_request to every kind", "approval_policy: on_request", "approval_policy: {granular: {sandbox_approval: true, rules: true, mcp_elicitations: true, request_permissions: true, skill_approval: true}}", nil},
	{"every kind but one to on_request", "approval_policy: {granular: {sandbox_approval: true, rules: true, mcp_elicitations: true, request_permissions: true}}", "approval_policy: on_request", []string{`approval_policy: "granular{sandbox_approval, rules, mcp_elicitations, request_permissions}" to "on_request"`}},
	{"one kind to another", "approval_policy: {granular: {rules: true}}", "approval_policy: {granular: {skill_approval: true}}", []string{`approval_policy: "granular{rules}" to "granular{skill_approval}"`}},
	{"a kind less", "approval_policy: {granular: {rules: true, skill_approval: true}}", "approval_policy: {granular: {rules: true}}", nil},

	{"rules are removed", "policy: {paths: [/r/a, /r/b]}", "policy: {paths: [/r/b]}", []string{`policy.paths: "/r/a" to ""`}},
	{"rules are added", "policy: {paths: [/r/a]}", "policy: {paths: [/r/a, /r/b]}", nil},
	{"an organization is removed", "policy: {organization: {path: /org}}", "", []string{`policy.organization.path: "/org" to ""`}},
	{"an organization is added", "", "policy: {organization: {path: /org}}", []string{`policy.organization.path: "" to "/org"`}},
	{"an organization is replaced", "policy: {organization: {path: /org}}", "policy: {organization: {path: /org2}}", []string{`policy.organization.path: "/org" to "/org2"`}},
	{"rules may take longer", "", "policy: {evaluation_timeout_ms: 101}", []string{`policy.evaluation_timeout_ms: "100" to "101"`}},
	{"rules may take less", "", "policy: {evaluation_timeout_ms: 99}", nil},
	{"tests are left out", "policy: {test_before_load: true}", "policy: {test_before_load: false}", []string{`policy.test_before_load: "true" to "false"`}},
	{"tests are put in", "", "policy: {test_before_load: true}", nil},
	{"loosening goes unconfirmed", "policy: {confirm_loosening: true}", "", []string{`policy.confirm_loosening: "true" to "false"`}},
	{"loosening is confirmed", "", "policy: {confirm_loosening: true}", nil},
	{"a built-in is opened", "", "policy: {capabilities: {allow_builtins: [opa.runtime]}}", []string{`policy.capabilities.allow_builtins: "" to "opa.runtime"`}},
	{"a built-in is closed", "policy: {capabilities: {allow_builtins: [opa.runtime]}}", "", nil},
	{"a host is opened", "", "policy: {capabilities: {allow_net: [a.example]}}", []string{`policy.capabilities.allow_net: "" to "a.example"`}},
	{"a host is closed", "policy: {capabilities: {allow_net: [a.example]}}", "policy: {capabilities: {allow_net: []}}", nil},

	{"a reviewer is added", "", "reviewers: {a/b: {kind: rego, query: data.x}}", []string{`reviewers.a/b: "" to ""`}},
	{"a reviewer is changed", "reviewers: {a/b: {kind: rego, query: data.x}}", "reviewers: {a/b: {kind: rego, query: data.y}}", []string{`reviewers.a/b: "" to ""`}},
	{"a reviewer is removed", "reviewers: {a/b: {kind: rego, query: data.x}}", "", nil},
	{"a plugin is added", "", "plugins: {a: {command: [/x]}}", []string{`plugins.a: "" to ""`}},
	{"a plugin's pin is removed", "plugins: {a: {command: [/x], sha256: 6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918}}", "plugins: {a: {command: [/x]}}", []string{`plugins.a: "" to ""`}},
	{"a notifier is added", "", "notifiers: {a: {kind: desktop}}", []string{`notifiers.a: "" to ""`}},
	{"a notifier is told more", "notifiers: {a: {kind: desktop}}", "notifiers: {a: {kind: desktop, details: request}}", []string{`notifiers.a: "" to ""`}},
	{"a notifier is removed", "notifiers: {a: {kind: desktop}}", "", []string{`notifiers.a: "" to ""`}},
	{"a notifier stays", "notifiers: {a: {kind: desktop}}", "notifiers: {a: {kind: desktop, events: [pending]}}", nil},
	{"a plugin is removed", "plugins: {a: {command: [/x]}}", "", nil},

	{"agents may ask again", "request_permissions: {enabled: false}", "request_permissions: {enabled: true}", []string{`request_permissions.enabled: "false" to "true"`}},
	{"agents may ask again by default", "request_permissions: {enabled: false}", "", []string{`request_permissions.enabled: "false" to "true"`}},
	{"agents no longer ask", "", "request_permissions: {enabled: false}", nil},
	{"a hook is added", "request_permissions: {before: [{command: [/a]}, {command: [/c]}]}", "request_permissions: {before: [{command: [/a]}, {command: [/b]}, {command: [/c]}], after: [{command: [/d]}]}", nil},
	{"a hook is removed", "request_permissions: {before: [{command: [/a]}, {command: [/b]}]}", "request_permissions: {before: [{command: [/b]}]}", []string{`request_permissions.before: "/a" to ""`}},
	{"a hook is removed with its section", "reviewers: {a/b: {kind: rego, query: data.x}}\nrequest_permissions: {after: [{reviewer: a/b}]}", "reviewers: {a/b: {kind: rego, query: data.x}}", []string{`request_permissions.after: "a/b" to ""`}},
	{"a hook is removed once of twice", "request_permissions: {before: [{command: [/a]}, {command: [/a]}]}", "request_permissions: {before: [{command: [/a]}]}", []string{`request_permissions.before[0]: "" to ""`}},
	{"a hook is replaced", "request_permissions: {before: [{command: [/a]}]}", "request_permissions: {before: [{command: [/b]}]}", []string{`request_permissions.before: "/a" to ""`}},
	{"a hook comes later", "request_permissions: {before: [{command: [/a]}]}", "request_permissions: {after: [{command: [/a]}]}", []string{`request_permissions.before: "/a" to ""`}},
	{"a hook moves", "request_permissions: {before: [{command: [/a]}, {command: [/b]}]}", "request_permissions: {before: [{command: [/b]}, {command: [/a]}]}", []string{`request_permissions.before[0]: "" to ""`}},
	{"a hook's arguments change", "request_permissions: {before: [{command: [/a, --strict]}]}", "request_permissions: {before: [{command: [/b]}, {command: [/a]}]}", []string{`request_permissions.before[1]: "" to ""`}},
	{"a hook's time changes", "request_permissions: {before: [{command: [/a]}]}", "request_permissions: {before: [{command: [/a], timeout_seconds: 9}]}", []string{`request_permissions.before[0]: "" to ""`}},
	{"a hook's time is written out", "request_permissions: {before: [{command: [/a]}]}", "request_permissions: {before: [{command: [/a], timeout_seconds: 10, env: []}]}", nil},
	{"a hook's environment changes", "request_permissions: {after: [{command: [/a]}]}", "request_permissions: {after: [{command: [/a], env: [A]}]}", []string{`request_permissions.after[0]: "" to ""`}},

	{"the daemon listens to more", "", "server: {http: 127.0.0.1:7340}", []string{`server.http: "" to "127.0.0.1:7340"`}},
	{"the daemon listens to less", "server: {http: 127.0.0.1:7340}", "server: {socket: other}", nil},
	{"an owner is added", "principals: {owner: [a]}", "principals: {owner: [a, b]}", []string{`principals.owner: "" to "b"`}},
	{"an owner is removed", "principals: {owner: [a, b]}", "principals: {owner: [a]}", nil},
	{"a member is added", "", "principals: {members: {a: observer}}", []string{`principals.members.a: "" to "observer"`}},
	{"a member sees all sessions", "principals: {members: {a: member}}", "principals: {members: {a: observer}}", []string{`principals.members.a: "member" to "observer"`}},
	{"an observer sees its own sessions alone", "principals: {members: {a: observer}}", "principals: {members: {a: member}}", nil},
	{"an owner becomes a member", "principals: {owner: [a, b]}", "principals: {owner: [b], members: {a: member}}", nil},
	{"proof is no longer needed", "principals: {step_up: true}", "", []string{`principals.step_up: "true" to "false"`}},
	{"the ledger moves", "", "ledger: {path: other.db}", nil},
}

func TestLooser(t *testing.T) {
	for _, tc := range steps {
		t.Run(tc.name, func(t *testing.T) {
			before, after := home(t, tc.before), home(t, tc.after)
			if diff := cmp.Diff(tc.want, said(config.Looser(before, after))); diff != "" {
				t.Errorf("Looser (-want +got):\n%s", diff)
			}
			if got := config.Looser(after, after); len(got) != 0 {
				t.Errorf("a configuration is looser than itself: %v", got)
			}
		})
	}
}

func TestLooserLeavesTheRulesOfAnotherFileAlone(t *testing.T) {
	if got := config.Looser(home(t, "policy: {paths: [/r/a]}"), workspace(t, "policy: {paths: [/r/b]}")); len(got) != 0 {
		t.Errorf("Looser = %v, want nothing: rules of two files stand beside each other", got)
	}
}

func TestLooserSaysWhere(t *testing.T) {
	before := home(t, "")
	after := home(t, "permissions:\n  mode: auto_allow\n")
	got := config.Looser(before, after)
	want := "/home/sam/.regent/config.yaml:3:3: permissions.mode: fewer calls are put to a person (from model_review to auto_allow)"
	if len(got) != 1 || got[0].String() != want {
		t.Errorf("Looser = %v, want %s", got, want)
	}
	removed := config.Looser(home(t, "policy: {confirm_loosening: true}"), home(t, ""))
	want = "/home/sam/.regent/config.yaml: policy.confirm_loosening: what loosens takes effect unconfirmed (from true to false)"
	if len(removed) != 1 || removed[0].String() != want {
		t.Errorf("Looser = %v, want %s", removed, want)
	}
}

func TestLooserHasARuleForEveryKeyThatLoosens(t *testing.T) {
	// Keys that take no part are listed by name, so that a new key is not
	// forgotten.
	none := []string{
		"version", "permissions.review_timeout_seconds", "permissions.request_timeout_seconds",
		"server.socket", "ledger.driver", "ledger.path",
	}
	with := map[string]bool{}
	for _, key := range config.Keys() {
		with[key.Path] = key.Looser != ""
	}
	for _, key := range config.Keys() {
		if key.Type == "mapping" && !with[key.Path] || slices.Contains(none, key.Path) {
			if key.Looser != "" {
				t.Errorf("%s has the rule %q, but is listed as having none", key.Path, key.Looser)
			}
			continue
		}
		judged := false
		for path := range with {
			judged = judged || with[path] && (path == key.Path || strings.HasPrefix(key.Path, path+".") || strings.HasPrefix(key.Path, path+"[]."))
		}
		if !judged {
			t.Errorf("%s: nothing says what is looser", key.Path)
		}
	}
}

// Each step that loosens is refused when a workspace that nobody trusts takes
// it, and each that does not is taken.
func TestTightenOnlyStepByStep(t *testing.T) {
	for _, tc := range steps {
		if tc.after == "" || strings.Contains(tc.name, "rules are") {
			continue // a key that is not written says nothing
		}
		if strings.HasPrefix(tc.name, "a hook") {
			continue // no hook is taken, whatever it does: see below
		}
		t.Run(tc.name, func(t *testing.T) {
			base, found := home(t, tc.before), workspace(t, tc.after)
			result, refused := config.TightenOnly(base, found)
			if loosened := config.Looser(base, result); len(loosened) != 0 {
				t.Errorf("the result is looser: %v", loosened)
			}
			if pos := found.HomeOnly(); len(pos) > 0 {
				if !slices.ContainsFunc(refused, func(l config.Loosening) bool { return l.Path == pos[0].Path }) {
					t.Errorf("%s is not refused: %v", pos[0].Path, refused)
				}
				return
			}
			if diff := cmp.Diff(tc.want, said(refused)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			want := base
			if tc.want == nil {
				want, _ = config.Overlay(base, found)
			} else if strings.HasPrefix(tc.name, "a server is trusted") {
				want = home(t, "permissions: {trusted_mcp_servers: [a]}") // what both say
			}
			if diff := cmp.Diff(want, result, settings, sameFile); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// sameFile leaves out what differs between a base and its result by design.
var sameFile = cmp.FilterPath(func(p cmp.Path) bool {
	return slices.Contains([]string{"Path", "Dir", "Policy.Paths"}, p.String())
}, cmp.Ignore())

func TestTightenOnlyTakesWhatTightens(t *testing.T) {
	base := home(t, "permissions: {mode: auto_allow, harness_mode: auto_allow, read_only_commands: skip, trusted_mcp_servers: [a, b]}\npolicy: {capabilities: {allow_builtins: [http.send], allow_net: [x.example]}}")
	found := workspace(t, "permissions: {mode: manual, harness_mode: manual, read_only_commands: ask, trusted_mcp_servers: [b, c]}\n"+
		"approval_policy: never\n"+
		"policy: {evaluation_timeout_ms: 50, test_before_load: true, confirm_loosening: true, capabilities: {allow_builtins: [], allow_net: [y.example]}}")
	got, refused := config.TightenOnly(base, found)
	if diff := cmp.Diff([]string{
		`permissions.trusted_mcp_servers: "" to "c"`,
		`policy.capabilities.allow_net: "" to "y.example"`,
	}, said(refused)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	want := config.Default("/home/sam/.regent")
	want.Permissions.Mode = config.ModeManual
	want.Permissions.TrustedMCPServers = []string{"b"}
	want.ApprovalPolicy.Name = config.ApprovalNever
	want.Policy.EvaluationTimeoutMS = 50
	want.Policy.TestBeforeLoad, want.Policy.ConfirmLoosening = true, true
	if diff := cmp.Diff(want, got, settings, sameFile); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got.Path != found.Path || got.Dir != found.Dir {
		t.Errorf("the result is that of %s in %s, want those of the workspace", got.Path, got.Dir)
	}
	if mode := base.Permissions.Mode; mode != config.ModeAutoAllow || len(base.Permissions.TrustedMCPServers) != 2 {
		t.Errorf("the base was changed: %+v", base.Permissions)
	}
}

func TestTightenOnlyLeavesUnwrittenKeysAlone(t *testing.T) {
	// The defaults of a file that says nothing are looser than this base.
	base := home(t, "permissions: {mode: manual, review_timeout_seconds: 5}\napproval_policy: never\npolicy: {test_before_load: true}")
	got, refused := config.TightenOnly(base, workspace(t, ""))
	if len(refused) != 0 {
		t.Errorf("refused = %v", refused)
	}
	if diff := cmp.Diff(base, got, settings, sameFile); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestTightenOnlyTakesNoReviewerPluginOrOrganization(t *testing.T) {
	base := home(t, "policy: {organization: {path: /org}}\nreviewers: {default/reviewer: {kind: rego, query: data.home.strict}}")
	found := workspace(t, "policy: {organization: {path: /work/app/.regent/org}}\n"+
		"reviewers:\n  default/reviewer: {kind: command, command: [yes]}\n"+
		"plugins: {p: {command: [evil]}}\n"+
		"server: {http: 127.0.0.1:80}\nprincipals: {owner: [mallory]}\nledger: {path: /dev/null}\n")
	got, refused := config.TightenOnly(base, found)
	if diff := cmp.Diff(base, got, settings, sameFile); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	want := []string{
		"/work/app/.regent/config.yaml:2:25: policy.organization.path: other rules stand above all others (from /org to /work/app/.regent/org)",
		"/work/app/.regent/config.yaml:4:3: reviewers.default/reviewer: this reviewer gives verdicts in another way",
		"/work/app/.regent/config.yaml:5:11: plugins.p: this program takes part",
		"/work/app/.regent/config.yaml:6:1: server: only the file of a home may hold this key",
		"/work/app/.regent/config.yaml:7:1: principals: only the file of a home may hold this key",
		"/work/app/.regent/config.yaml:8:1: ledger: only the file of a home may hold this key",
	}
	var lines []string
	for _, l := range refused {
		lines = append(lines, l.String())
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestTightenOnlyTakesNoHook(t *testing.T) {
	const reviewer = "reviewers: {a/b: {kind: rego, query: data.x}}\n"
	base := home(t, reviewer+"request_permissions: {before: [{command: [/screen]}, {reviewer: a/b}]}")
	found := workspace(t, reviewer+"request_permissions:\n"+
		"  enabled: false\n"+
		"  before:\n"+
		"    - {command: [bin/mine]}\n"+
		"    - {command: [/screen]}\n"+
		"  after: [{reviewer: a/b}]\n")
	got, refused := config.TightenOnly(base, found)
	want := home(t, reviewer+"request_permissions: {enabled: false, before: [{command: [/screen]}, {reviewer: a/b}]}")
	if diff := cmp.Diff(want, got, settings, sameFile); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	var lines []string
	for _, l := range refused {
		lines = append(lines, l.String())
	}
	if diff := cmp.Diff([]string{
		"/work/app/.regent/config.yaml:6:7: request_permissions.before[0]: this hook takes part in requests (from nothing to /work/app/.regent/bin/mine)",
		"/work/app/.regent/config.yaml:7:7: request_permissions.before[1]: this hook takes part in requests (from nothing to /screen)",
		"/work/app/.regent/config.yaml:8:11: request_permissions.after[0]: this hook takes part in requests (from nothing to a/b)",
	}, lines); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestTightenOnlyKeepsRulesInTheWorkspace(t *testing.T) {
	dir := tree(t, map[string]string{
		"app/.regent/config.yaml": "version: 1\npolicy: {paths: [policies, ../shared, ../../outside, inside, leaves]}\n",
		"app/.regent/policies/":   "",
		"app/shared/":             "",
		"outside/":                "",
		"app/.regent/inside":      "-> ../shared",
		"app/.regent/leaves":      "-> ../../outside",
	})
	found, _, err := config.Load(filepath.Join(dir, "app", ".regent", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, refused := config.TightenOnly(config.Default(""), found)
	app := filepath.Join(dir, "app")
	want := []string{filepath.Join(app, ".regent", "policies"), filepath.Join(app, "shared"), filepath.Join(app, ".regent", "inside")}
	if diff := cmp.Diff(want, got.Policy.Paths); diff != "" {
		t.Errorf("policy paths (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		fmt.Sprintf("policy.paths[2]: %q to %q", "", filepath.Join(dir, "outside")),
		fmt.Sprintf("policy.paths[4]: %q to %q", "", filepath.Join(app, ".regent", "leaves")),
	}, said(refused)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestOverlay(t *testing.T) {
	base := home(t, "permissions: {mode: manual, review_timeout_seconds: 5, trusted_mcp_servers: [a]}\n"+
		"reviewers: {a/a: {kind: rego, query: data.a}, a/b: {kind: rego, query: data.b}}\nserver: {http: 127.0.0.1:7340}\nprincipals: {owner: [sam]}")
	over := workspace(t, "permissions: {mode: auto_allow, trusted_mcp_servers: [b]}\n"+
		"approval_policy: {granular: {rules: true}}\n"+
		"reviewers: {a/b: {kind: rego, query: data.c}}\nplugins: {p: {command: [bin/p]}}\n"+
		"policy: {organization: {path: org}, paths: [rules]}\nledger: {path: x}")
	got, refused := config.Overlay(base, over)
	want := home(t, "permissions: {mode: auto_allow, review_timeout_seconds: 5, trusted_mcp_servers: [b]}\n"+
		"approval_policy: {granular: {rules: true}}\n"+
		"reviewers: {a/a: {kind: rego, query: data.a}, a/b: {kind: rego, query: data.c}}\n"+
		"plugins: {p: {command: [/work/app/.regent/bin/p]}}\n"+
		"policy: {organization: {path: /work/app/.regent/org}, paths: [/work/app/.regent/rules]}\n"+
		"server: {http: 127.0.0.1:7340}\nprincipals: {owner: [sam]}")
	want.Path, want.Dir = over.Path, over.Dir
	if diff := cmp.Diff(want, got, settings); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`ledger: "" to ""`}, said(refused)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if len(base.Reviewers) != 2 || base.Reviewers["a/b"].Query != "data.b" {
		t.Errorf("the base was changed: %v", base.Reviewers)
	}
}

func TestOverlayAddsHooks(t *testing.T) {
	base := home(t, "request_permissions: {enabled: false, before: [{command: [/a]}, {command: [/b]}]}")
	for _, tc := range []struct {
		name, over, want string
	}{
		{"after those of the home", "{before: [{command: [/c]}], after: [{command: [bin/d]}]}", "{enabled: false, before: [{command: [/a]}, {command: [/b]}, {command: [/c]}], after: [{command: [/work/app/.regent/bin/d]}]}"},
		{"also the same once more", "{before: [{command: [/a]}]}", "{enabled: false, before: [{command: [/a]}, {command: [/b]}, {command: [/a]}]}"},
		{"an empty list removes none", "{enabled: true, before: []}", "{enabled: true, before: [{command: [/a]}, {command: [/b]}]}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, refused := config.Overlay(base, workspace(t, "request_permissions: "+tc.over))
			want := home(t, "request_permissions: "+tc.want)
			if diff := cmp.Diff(want.RequestPermissions, got.RequestPermissions, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if len(refused) != 0 {
				t.Errorf("refused = %v", refused)
			}
			if len(base.RequestPermissions.Before) != 2 || len(base.RequestPermissions.After) != 0 {
				t.Errorf("the base was changed: %v", base.RequestPermissions)
			}
		})
	}
}

func TestOverlayKeepsTheOrganizationOfTheHome(t *testing.T) {
	base, over := home(t, "policy: {organization: {path: /org}}"), workspace(t, "policy: {organization: {path: /lax}}")
	got, refused := config.Overlay(base, over)
	if got.Policy.Organization.Path != "/org" {
		t.Errorf("organization = %s, want /org", got.Policy.Organization.Path)
	}
	if diff := cmp.Diff([]string{`policy.organization.path: "/org" to "/lax"`}, said(refused)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// file draws the text of a file. Keys are left out at random.
var file = rapid.Custom(func(t *rapid.T) string {
	var b strings.Builder
	section := func(name string, keys map[string][]string) {
		var lines []string
		for key, values := range keys {
			lines = append(lines, key+"\x00"+strings.Join(values, "\x00"))
		}
		slices.Sort(lines)
		opened := false
		for _, line := range lines {
			parts := strings.Split(line, "\x00")
			value := rapid.SampledFrom(append([]string{""}, parts[1:]...)).Draw(t, parts[0])
			if value == "" {
				continue
			}
			if !opened && name != "" {
				fmt.Fprintf(&b, "%s:\n", name)
				opened = true
			}
			indent := ""
			if name != "" {
				indent = "  "
			}
			fmt.Fprintf(&b, "%s%s: %s\n", indent, parts[0], value)
		}
	}
	section("", map[string][]string{
		"approval_policy": {
			"never", "on_request", "unless_trusted", "{granular: {rules: true}}",
			"{granular: {rules: true, skill_approval: true}}", "{granular: {rules: false}}",
		},
		"reviewers": {"{a/a: {kind: rego, query: data.a}}", "{a/a: {kind: rego, query: data.b}, a/b: {kind: rego, query: data.a}}"},
		"plugins":   {"{p: {command: [/p]}}", "{p: {command: [/p, -v]}, q: {command: [/q]}}"},
		"ledger":    {"{path: x}"},
		"notifiers": {"{a: {kind: desktop}}", "{a: {kind: desktop, details: none}, b: {kind: command, command: [/b]}}"},
	})
	section("permissions", map[string][]string{
		"mode": {"manual", "auto_allow", "model_review"}, "harness_mode": {"manual", "auto_allow"},
		"read_only_commands": {"ask", "skip"}, "trusted_mcp_servers": {"[]", "[a]", "[b]", "[a, b]"},
		"reviewer_model": {"a/a", "a/b", "a/c"}, "review_timeout_seconds": {"1", "600"}, "request_timeout_seconds": {"1", "86400"},
	})
	section("policy", map[string][]string{
		"evaluation_timeout_ms": {"1", "100", "10000"}, "test_before_load": {"true", "false"}, "confirm_loosening": {"true", "false"},
		"organization": {"{path: /a}", "{path: /b}"},
		"capabilities": {"{allow_builtins: [http.send]}", "{allow_builtins: [opa.runtime], allow_net: [a]}", "{allow_net: [a, b]}"},
	})
	section("request_permissions", map[string][]string{
		"enabled": {"true", "false"},
		"before":  {"[]", "[{command: [/a]}]", "[{command: [/b]}]", "[{command: [/a]}, {command: [/b]}]", "[{command: [/b]}, {command: [/a]}, {command: [/a, -v]}]"},
		"after":   {"[{command: [/a]}]", "[{command: [/a], timeout_seconds: 1}]"},
	})
	section("server", map[string][]string{"http": {"127.0.0.1:1", "127.0.0.1:2"}})
	section("principals", map[string][]string{"owner": {"[a]", "[a, b]"}, "members": {"{c: observer}", "{c: member}"}, "step_up": {"true", "false"}})
	return b.String()
})

func TestTightenOnlyNeverLoosens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		base, found := home(t, file.Draw(r, "base")), workspace(t, file.Draw(r, "found"))
		result, _ := config.TightenOnly(base, found)
		if loosened := config.Looser(base, result); len(loosened) != 0 {
			r.Fatalf("the result is looser: %v", loosened)
		}
		again, _ := config.TightenOnly(result, found)
		if diff := cmp.Diff(result, again, settings, sameFile); diff != "" {
			r.Fatalf("a second time (-once +twice):\n%s", diff)
		}
	})
}

func TestTightenOnlyTakesAllWhereNothingIsRefused(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		base, found := home(t, file.Draw(r, "base")), workspace(t, file.Draw(r, "found"))
		tightened, refused := config.TightenOnly(base, found)
		laid, notLaid := config.Overlay(base, found)
		if len(refused) > 0 {
			return
		}
		if len(notLaid) > 0 {
			r.Fatalf("Overlay refuses %v, TightenOnly nothing", notLaid)
		}
		if diff := cmp.Diff(laid, tightened, settings, sameFile); diff != "" {
			r.Fatalf("result (-Overlay +TightenOnly):\n%s", diff)
		}
	})
}

func TestLooserIsTransitive(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b, c := home(t, file.Draw(r, "a")), home(t, file.Draw(r, "b")), home(t, file.Draw(r, "c"))
		if len(config.Looser(a, b)) > 0 || len(config.Looser(b, c)) > 0 {
			// Make the chain, rather than wait for one to be drawn.
			b, _ = config.TightenOnly(a, b)
			c, _ = config.TightenOnly(b, c)
		}
		if got := config.Looser(a, c); len(got) > 0 {
			r.Fatalf("two steps that do not loosen loosen together: %v", got)
		}
	})
}
