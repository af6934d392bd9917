package setup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/harness/codex/setup"
)

const command = "exec /opt/regent/regent-hook codex"

var settings = setup.Want{}

func plan(t testing.TB, text string, record setup.Record, want setup.Want) *setup.Plan {
	t.Helper()
	p, err := setup.MakePlan("config.toml", []byte(text), record, want)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

func TestSettings(t *testing.T) {
	const all = "approval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\napprovals_reviewer = \"user\"\n"
	const feature = "[features]\nwrite_stdin_approval = true\n"
	tests := []struct {
		name string
		text string
		want string
	}{
		{"an empty file gets all", "", all + "\n" + feature},
		{"a file of comments keeps them below", "# mine\n", all + "\n# mine\n\n" + feature},
		{
			"keys go below those at the top, and comments stay", "model = \"x\" # why\n\n# trees\n[tui]\na = 1\n",
			"model = \"x\" # why\n" + all + "\n# trees\n[tui]\na = 1\n\n" + feature,
		},
		{
			"never is replaced in its place", "approval_policy = 'never' # hm\nmodel = \"x\"\n",
			"approval_policy = \"on-request\" # hm\nmodel = \"x\"\nsandbox_mode = \"workspace-write\"\napprovals_reviewer = \"user\"\n\n" + feature,
		},
		{
			"granular stays", "approval_policy = { granular = { rules = true, sandbox_approval = true, mcp_elicitations = true } }\n",
			"approval_policy = { granular = { rules = true, sandbox_approval = true, mcp_elicitations = true } }\nsandbox_mode = \"workspace-write\"\napprovals_reviewer = \"user\"\n\n" + feature,
		},
		{
			"granular as a table stays", "[approval_policy.granular]\nrules = true\n",
			"sandbox_mode = \"workspace-write\"\napprovals_reviewer = \"user\"\n\n[approval_policy.granular]\nrules = true\n\n" + feature,
		},
		{"read-only stays", "sandbox_mode = \"read-only\"\n", "sandbox_mode = \"read-only\"\napproval_policy = \"on-request\"\napprovals_reviewer = \"user\"\n\n" + feature},
		{
			"no sandbox becomes one", "sandbox_mode = \"danger-full-access\"\n",
			"sandbox_mode = \"workspace-write\"\napproval_policy = \"on-request\"\napprovals_reviewer = \"user\"\n\n" + feature,
		},
		{
			"a permission profile takes the place of the mode", "default_permissions = \":workspace\"\n",
			"default_permissions = \":workspace\"\napproval_policy = \"on-request\"\napprovals_reviewer = \"user\"\n\n" + feature,
		},
		{
			"a permission profile without a sandbox becomes one with it", "default_permissions = \":danger-full-access\"\n",
			"default_permissions = \":workspace\"\napproval_policy = \"on-request\"\napprovals_reviewer = \"user\"\n\n" + feature,
		},
		{
			"a model that reviews becomes the user", "approvals_reviewer = \"auto_review\"\n",
			"approvals_reviewer = \"user\"\napproval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\n\n" + feature,
		},
		{
			"features that are there get one more", all + "[features]\napps = false\n\n[tui]\n",
			all + "[features]\napps = false\nwrite_stdin_approval = true\n\n[tui]\n",
		},
		{"an empty table of features", all + "[features] # none\n[tui]\n", all + "[features] # none\nwrite_stdin_approval = true\n[tui]\n"},
		{"features at the end without a newline", all + "[features]", all + "[features]\nwrite_stdin_approval = true"},
		{"features in one line", all + "features = { apps = false }\n", all + "features = { apps = false, write_stdin_approval = true }\n"},
		{"no features in one line", all + "features = {}\n", all + "features = { write_stdin_approval = true }\n"},
		{"features with dots", all + "features.apps = false\n", all + "features.apps = false\nfeatures.write_stdin_approval = true\n"},
		{"a feature that is off becomes one that is on", all + "features.write_stdin_approval = false\n", all + "features.write_stdin_approval = true\n"},
		{"a table below features", all + "[features.network_proxy]\nenabled = true\n", all + "[features.network_proxy]\nenabled = true\n\n" + feature},
		{
			"the same name in a profile is something else", all + "[profiles.x]\napproval_policy = \"never\"\n",
			all + "[profiles.x]\napproval_policy = \"never\"\n\n" + feature,
		},
		{
			"lines end as they did", "model = \"x\"\r\n[tui]\r\n",
			"model = \"x\"\r\n" + strings.ReplaceAll(all, "\n", "\r\n") + "[tui]\r\n\r\n" + strings.ReplaceAll(feature, "\n", "\r\n"),
		},
		{"a byte order mark stays in front", "\ufeffmodel = \"x\"", "\ufeffmodel = \"x\"\napproval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\napprovals_reviewer = \"user\"\n\n" + feature},
		{
			"a key in quotes is the same key", "\"approval_policy\" = \"never\"\nsandbox_mode = \"read-only\"\napprovals_reviewer = \"user\"\n" + feature,
			"\"approval_policy\" = \"on-request\"\nsandbox_mode = \"read-only\"\napprovals_reviewer = \"user\"\n" + feature,
		},
		{
			"a text of several lines is no key", "note = \"\"\"\napproval_policy = \"never\"\n\"\"\"\n" + all + feature,
			"note = \"\"\"\napproval_policy = \"never\"\n\"\"\"\n" + all + feature,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan(t, tt.text, setup.Record{}, settings)
			if diff := cmp.Diff(tt.want, string(p.After)); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}

const hookBlocks = `[[hooks.PreToolUse]]
matcher = ""
[[hooks.PreToolUse.hooks]]
type = "command"
command = "exec /opt/regent/regent-hook codex"
timeout = 10

[[hooks.PermissionRequest]]
matcher = ""
[[hooks.PermissionRequest.hooks]]
type = "command"
command = "exec /opt/regent/regent-hook codex"
timeout = 10
`

// done is a configuration in which only hooks are missing.
const done = `approval_policy = "on-request"
sandbox_mode = "read-only"
approvals_reviewer = "user"
features = { write_stdin_approval = true }
`

func TestHooks(t *testing.T) {
	const element = `{ matcher = "", hooks = [ { type = "command", command = "exec /opt/regent/regent-hook codex", timeout = 10 } ] }`
	permission := hookBlocks[strings.Index(hookBlocks, "[[hooks.PermissionRequest]]"):]
	tests := []struct {
		name string
		text string
		want string
	}{
		{"none", "", "\n" + hookBlocks},
		{
			"others come first", "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"x\"\n",
			"[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"x\"\n\n" + hookBlocks,
		},
		{
			"a list in one line", "[hooks]\nPreToolUse = [ { hooks = [ { type = \"command\", command = \"x\" } ] } ] # mine\n",
			"[hooks]\nPreToolUse = [ { hooks = [ { type = \"command\", command = \"x\" } ] }, " + element + " ] # mine\n\n" + permission,
		},
		{"a list with a comma and a comment", "[hooks]\nPreToolUse = [\n  { hooks = [] }, # a\n]\n", "[hooks]\nPreToolUse = [\n  { hooks = [] }, " + element + ", # a\n]\n\n" + permission},
		{"an empty list", "[hooks]\nPreToolUse = []\n", "[hooks]\nPreToolUse = [" + element + "]\n\n" + permission},
		{
			"all hooks in one line", "hooks = { state = {} }\n",
			"hooks = { state = {}, PreToolUse = [ " + element + " ], PermissionRequest = [ " + element + " ] }\n",
		},
		{"ours at another place gets the right command", strings.ReplaceAll(hookBlocks, "/opt/regent", "/old"), hookBlocks},
		{"ours that is cut off too early gets time", strings.ReplaceAll(hookBlocks, "10", "3"), hookBlocks},
		{"ours with more time keeps it", strings.ReplaceAll(hookBlocks, "10", "310"), strings.ReplaceAll(hookBlocks, "10", "310")},
		{"ours is there", hookBlocks, hookBlocks},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan(t, done+tt.text, setup.Record{}, setup.Want{Hook: command})
			if diff := cmp.Diff(done+tt.want, string(p.After)); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHooksThatAreSwitchedOffAreSwitchedOn(t *testing.T) {
	p := plan(t, "[features]\nhooks = false\n", setup.Record{}, setup.Want{Hook: command})
	if !strings.Contains(string(p.After), "[features]\nhooks = true\n") {
		t.Errorf("after: %s", p.After)
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string
	}{
		{"nothing to warn of", "[profiles.x]\nmodel = \"y\"\n", nil},
		{"a profile that loosens", "[profiles.x]\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n", []string{
			`profile x has approval_policy = "never"; it counts where an older Codex is started with it`,
			`profile x has sandbox_mode = "danger-full-access"; it counts where an older Codex is started with it`,
		}},
		{"a hook that does not see everything", strings.Replace(hookBlocks, `""`, `"^Bash$"`, 1), []string{
			`the hook of PreToolUse is for tools that match "^Bash$" only`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan(t, tt.text, setup.Record{}, setup.Want{Hook: command})
			if diff := cmp.Diff(tt.want, p.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExperimentalFeaturesAreAskedFor(t *testing.T) {
	p := plan(t, done, setup.Record{}, setup.Want{Experimental: true})
	if want := "features = { write_stdin_approval = true, request_permissions_tool = true, exec_permission_approvals = true }\n"; !strings.HasSuffix(string(p.After), want) {
		t.Errorf("after: %s", p.After)
	}
}

func TestSyntaxErrorsHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nb = \n":             "config.toml:2:5: ",
		"a = 1\na = 2\n":            "config.toml:2:1: ",
		"[a]\n[a]\n":                "config.toml:2:2: ",
		"x = 1\n[[x]]\n":            "config.toml:2:3: ",
		"a = \"\xff\"\n":            "config.toml:1:",
		"[hooks]\nPreToolUse = {\n": "config.toml:",
	} {
		_, err := setup.MakePlan("config.toml", []byte(text), setup.Record{}, settings)
		syntax, ok := errors.AsType[*setup.SyntaxError](err)
		if !ok || !strings.HasPrefix(syntax.Error(), want) {
			t.Errorf("%q: %v, want a SyntaxError at %s", text, err, want)
		}
	}
}

func TestFormsThatCannotBeEditedAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"features is no table":       "features = 1\n",
		"hooks is no table":          "hooks = true\n",
		"hooks of an event are text": "[hooks]\nPreToolUse = \"x\"\n",
		"a table of that name":       "[approvals_reviewer.x]\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := setup.MakePlan("config.toml", []byte(text), setup.Record{}, setup.Want{Hook: command}); !errors.Is(err, setup.ErrForm) {
				t.Errorf("error %v, want ErrForm", err)
			}
		})
	}
}

func TestHookCommand(t *testing.T) {
	tests := []struct{ name, program, home, want string }{
		{"a plain path", "/opt/regent-hook", "", "exec /opt/regent-hook codex"},
		{"a home", "/opt/regent-hook", "/home/x", "exec /opt/regent-hook codex --home /home/x"},
		{"spaces and quotes", "/opt/it's here/regent-hook", "", `exec '/opt/it'\''s here/regent-hook' codex`},
		{"what a shell would read", "/opt/$(x)/regent-hook", "", `exec '/opt/$(x)/regent-hook' codex`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := setup.HookCommand(tt.program, tt.home)
			if err != nil || got != tt.want {
				t.Errorf("HookCommand = %q, %v, want %q", got, err, tt.want)
			}
			if !setup.IsHook(got) {
				t.Errorf("%q is not known again", got)
			}
		})
	}
	for _, program := range []string{"regent-hook", "/opt/a\nb/regent-hook", "/opt/\xff/regent-hook"} {
		if got, err := setup.HookCommand(program, ""); err == nil {
			t.Errorf("HookCommand(%q) = %q, want an error", program, got)
		}
	}
}

func TestIsHookKnowsOurs(t *testing.T) {
	for text, want := range map[string]bool{
		"regent-hook codex": true, "/x/regent-hook codex --on-ask deny": true, "/x/regent hook codex": true,
		"regent codex": false, "my-regent-hooks codex": false, "/x/regent-hook": false, "echo": false,
	} {
		if got := setup.IsHook(text); got != want {
			t.Errorf("IsHook(%q) = %t, want %t", text, got, want)
		}
	}
}

// configs draws configurations in many forms, all of them correct.
func configs() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		newline := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "newline")
		pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		lines := []string{
			pick("top comment", "", "# mine", "# approval_policy = \"never\""),
			pick("model", "", `model = "gpt" # it`, "note = \"\"\"\n[features]\n\"\"\""),
			pick("approval", "", `approval_policy = "never"`, `approval_policy = "on-request"`, `approval_policy = { granular = { rules = true } }`),
			pick("sandbox", "", `sandbox_mode = "danger-full-access" # !`, `sandbox_mode='read-only'`, `default_permissions = ":workspace"`),
			pick("reviewer", "", `approvals_reviewer = "auto_review"`),
			pick("features", "", "features.apps = true", "features = {}", "features = { apps = true , write_stdin_approval = false}"),
			pick("hooks", "", "hooks = {}", "hooks = { PreToolUse = [] }", "hooks.PreToolUse = [{hooks=[]},]", "hooks.state = {}"),
		}
		root := strings.Join(lines, "\n")
		if !strings.Contains(root, "\nfeatures") {
			lines = append(lines, pick("feature table", "", "[features]", "[features] # x\napps = true", "[features.y]\nz = 1"))
		}
		if !strings.Contains(root, "\nhooks") {
			lines = append(lines, pick("hook tables", "", "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"x\"",
				"[hooks]\nPreToolUse = [\n { hooks = [] } # c\n]", "[hooks.state.\"a:b\"]\ntrusted_hash = \"h\"", "[[hooks.Stop]]"))
		}
		lines = append(lines, pick("rest", "", "[tui]\nx = 1 # end", "[profiles.x]\napproval_policy = \"on-request\""))
		text := strings.Join(lines, "\n")
		text = strings.ReplaceAll(text, "\n", newline)
		return pick("mark", "", "\ufeff") + text + pick("end", "", newline, newline+newline, newline+"# the end")
	})
}

func trusted(n int) []setup.Trusted {
	return []setup.Trusted{
		{Key: fmt.Sprintf("/h/config.toml:pre_tool_use:%d:0", n), Hash: "sha256:1"},
		{Key: fmt.Sprintf("/h/config.toml:permission_request:%d:0", n), Hash: "sha256:2"},
	}
}

// TestUndoBringsBackEveryByte holds the law of an installation: it is correct
// TOML, doing it again changes nothing, and taking it back leaves what was there.
func TestUndoBringsBackEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := configs().Draw(t, "text")
		want := setup.Want{Experimental: rapid.Bool().Draw(t, "experimental")}
		if rapid.Bool().Draw(t, "hooks") {
			want.Hook = command
		}
		p, err := setup.MakePlan("config.toml", []byte(text), setup.Record{}, want)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if want.Hook != "" {
			if p, err = p.Trust(trusted(0)); err != nil {
				t.Fatal(err)
			}
		}
		record := p.Record()
		again, err := setup.MakePlan("config.toml", p.After, record, want)
		if err != nil {
			t.Fatal(err)
		}
		if again.Changed() || len(again.Changes) > 0 {
			t.Fatalf("again: %s", again.Diff())
		}
		back, err := setup.Undo("config.toml", p.After, record)
		if err != nil {
			t.Fatalf("%v\n%s", err, p.After)
		}
		if diff := cmp.Diff(text, string(back.After)); diff != "" {
			t.Fatalf("undone (-want +got):\n%s", diff)
		}
	})
}

// TestUndoKeepsEditsMadeSince edits what was installed, and wants the edit to be
// all that remains.
func TestUndoKeepsEditsMadeSince(t *testing.T) {
	const text = "model = \"a\"\napproval_policy = \"never\"\n"
	p := plan(t, text, setup.Record{}, setup.Want{Hook: command})
	p, err := p.Trust(trusted(0))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(string) string
		want string
	}{
		{"nothing", func(s string) string { return s }, text},
		{"a key at the top", func(s string) string { return "x = 1\n" + s }, "x = 1\n" + text},
		{
			"a project at the end", func(s string) string { return s + "\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n" },
			text + "\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n",
		},
		{
			"another value of a key that was replaced", func(s string) string { return strings.Replace(s, `"on-request"`, `"never" # again`, 1) },
			"model = \"a\"\napproval_policy = \"never\" # again\n",
		},
		{
			"another value of a key that was added", func(s string) string { return strings.Replace(s, `"workspace-write"`, `"read-only"`, 1) },
			text + "sandbox_mode = \"read-only\"\n",
		},
		{"a key that was added is gone", func(s string) string { return strings.Replace(s, "sandbox_mode = \"workspace-write\"\n", "", 1) }, text},
		{"a feature below the one that was added", func(s string) string {
			return strings.Replace(s, "write_stdin_approval = true\n", "write_stdin_approval = true\napps = true\n", 1)
		}, text + "\n[features]\napps = true\n"},
		{"trust in what Codex has hashed anew", func(s string) string { return strings.Replace(s, "sha256:1", "sha256:9", 1) }, text},
		{"a hook of somebody else at the end", func(s string) string {
			return s + "\n[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"x\"\n"
		}, text + "\n[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"x\"\n"},
		{"all hooks are gone", func(s string) string { return s[:strings.Index(s, "\n[[hooks.PreToolUse]]")] }, text},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			edited := tt.edit(string(p.After))
			if tt.name != "nothing" && edited == string(p.After) {
				t.Fatal("nothing was edited")
			}
			back, err := setup.Undo("config.toml", []byte(edited), p.Record())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(back.After)); diff != "" {
				t.Errorf("undone (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUndoRefusesWhatWasEditedInParts(t *testing.T) {
	p := plan(t, "", setup.Record{}, setup.Want{Hook: command})
	for name, edit := range map[string]func(string) string{
		"the time of the hook": func(s string) string { return strings.Replace(s, "timeout = 10", "timeout = 100", 1) },
		"a second hook in our group": func(s string) string {
			return strings.Replace(s, "timeout = 10\n", "timeout = 10\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"x\"\n", 1)
		},
		"a condition of the group": func(s string) string { return strings.Replace(s, `matcher = ""`, `matcher = "Bash"`, 1) },
		"a comment within":         func(s string) string { return strings.Replace(s, "timeout = 10", "# slow\ntimeout = 10", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := setup.Undo("config.toml", []byte(edit(string(p.After))), p.Record())
			if !errors.Is(err, setup.ErrUndo) {
				t.Errorf("error %v, want ErrUndo", err)
			}
		})
	}
}

func TestUndoOfTwoInstallations(t *testing.T) {
	const text = "# mine\n[features]\napps = false\n"
	first := plan(t, text, setup.Record{}, setup.Want{Hook: "exec /old/regent-hook codex"})
	first, err := first.Trust(trusted(0))
	if err != nil {
		t.Fatal(err)
	}
	second := plan(t, string(first.After), first.Record(), setup.Want{Hook: command, Experimental: true})
	renewed := trusted(0)
	renewed[0].Hash = "sha256:9"
	if second, err = second.Trust(renewed); err != nil {
		t.Fatal(err)
	}
	if got := string(second.After); strings.Contains(got, "/old") || !strings.Contains(got, "sha256:9") || !strings.Contains(got, "request_permissions_tool") {
		t.Errorf("after: %s", got)
	}
	back, err := setup.Undo("config.toml", second.After, second.Record())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, string(back.After)); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
}

func FuzzPlan(f *testing.F) {
	for _, text := range []string{"", done, hookBlocks, "[features]\r\n", "hooks={PreToolUse=[{},],}", "\ufeff# x", "a.b.c=1\n[[x.y]]\n[x.y.z]\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := setup.MakePlan("config.toml", []byte(text), setup.Record{}, setup.Want{Hook: command, Experimental: true})
		if err != nil {
			return
		}
		var values map[string]any
		if err := toml.Unmarshal([]byte(strings.TrimPrefix(string(p.After), "\ufeff")), &values); err != nil {
			t.Fatalf("no TOML: %v\n%s", err, p.After)
		}
		again, err := setup.MakePlan("config.toml", p.After, p.Record(), setup.Want{Hook: command, Experimental: true})
		if err != nil || again.Changed() {
			t.Fatalf("again: %v, %v", err, again)
		}
		back, err := setup.Undo("config.toml", p.After, p.Record())
		if err != nil {
			if !errors.Is(err, setup.ErrUndo) {
				t.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(text, string(back.After)); diff != "" {
			t.Fatalf("undone (-want +got):\n%s", diff)
		}
	})
}
