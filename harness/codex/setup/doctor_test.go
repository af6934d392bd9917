package setup_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/codex/setup"
)

// statuses are the checks that are not ok, as "status name", once each.
func statuses(r *setup.Report) []string {
	var out []string
	for _, c := range r.Checks {
		if line := string(c.Status) + " " + c.Name; c.Status != setup.OK && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

func TestExamine(t *testing.T) {
	const good = "approval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\napprovals_reviewer = \"user\"\n"
	tests := []struct {
		name  string
		text  string
		files map[string]string
		want  []string
	}{
		{"a good home without hooks", good, nil, []string{"warn hooks"}},
		{"the sandbox reads only", strings.Replace(good, "workspace-write", "read-only", 1), nil, []string{"warn hooks"}},
		{"a permission profile", "approval_policy = \"on-request\"\ndefault_permissions = \":workspace\"\n", nil, []string{"warn hooks"}},
		{"nothing is asked", strings.Replace(good, "on-request", "never", 1), nil, []string{"fail approvals", "warn hooks", "fail trial"}},
		{"there is no sandbox", strings.Replace(good, "workspace-write", "danger-full-access", 1), nil, []string{"fail sandbox", "warn hooks", "fail trial"}},
		{"a model answers", strings.Replace(good, "\"user\"", "\"auto_review\"", 1), nil, []string{"fail reviewer", "warn hooks", "fail trial"}},
		{
			"granular, and escalations are off", "approval_policy = { granular = { sandbox_approval = false, rules = true, mcp_elicitations = true } }\nsandbox_mode = \"read-only\"\n", nil,
			[]string{"warn approvals", "warn hooks", "fail trial"},
		},
		{"an error of syntax", "approval_policy = \n", nil, []string{"fail config"}},
		{"a value that Codex does not know", good + "[features]\nhooks = 3\n", nil, []string{"fail config"}},
		{"a rule that allows, and one that allows everything", good, map[string]string{
			"rules/a.rules": "prefix_rule(pattern=[\"git\", [\"push\", \"fetch\"]], decision=\"allow\")\nprefix_rule(pattern=[\"rm\"], decision=\"forbidden\")\n",
			"rules/b.rules": "# prefix_rule(pattern=[\"x\"])\nprefix_rule(\n  pattern = [\"bash\", \"-lc\"],\n)\n",
		}, []string{"warn hooks", "warn rules", "fail rules"}},
		{"a rule that a stricter one overrides", good, map[string]string{
			"rules/a.rules": "prefix_rule(pattern=[\"git\", \"push\"], decision=\"allow\")\nprefix_rule(pattern=[\"git\"], decision=\"prompt\")\n",
		}, []string{"warn hooks"}},
		{"rules that cannot be read", good, map[string]string{"rules/a.rules": "prefix_rule(\n"}, []string{"warn config", "warn hooks", "warn rules"}},
		{"rules from a loop", good, map[string]string{"rules/a.rules": "[prefix_rule(pattern=[p], decision=\"allow\") for p in [\"a\", \"b\"]]\n"}, []string{"warn hooks", "warn rules"}},
		{"a tool that is approved for good", good + "[mcp_servers.lab]\ncommand = \"touch\"\nargs = [\"started\"]\n[mcp_servers.lab.tools.x]\napproval_mode = \"approve\"\n", nil, []string{"warn mcp", "warn hooks"}},
		{"a profile that loosens", good, map[string]string{"fast.config.toml": "approval_policy = \"never\"\n"}, []string{"warn profiles", "warn hooks"}},
		{"the network and more to write", good + "[sandbox_workspace_write]\nnetwork_access = true\nwritable_roots = [\"/srv\"]\n", nil, []string{"warn sandbox", "warn hooks"}},
		{"hooks are off", good + "[features]\nhooks = false\n", nil, []string{"warn hooks"}},
		{"a hook that nobody trusts", good + hookBlocks, nil, []string{"warn hooks"}},
		{"programs of the user are not started", good + "notify = [\"touch\", \"/nowhere/notified\"]\n", nil, []string{"warn hooks"}},
	}
	eachCodex(t, func(t *testing.T, c *setup.Codex) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				dir, cwd := home(t, tt.text)
				for name, text := range tt.files {
					write(t, filepath.Join(dir, name), text)
				}
				r := setup.Examine(t.Context(), *c, dir, cwd)
				if diff := cmp.Diff(tt.want, statuses(r)); diff != "" {
					text, _ := json.MarshalIndent(r, "", "  ")
					t.Errorf("checks (-want +got):\n%s\n%s", diff, text)
				}
				if got := read(t, filepath.Join(dir, "config.toml")); got != tt.text {
					t.Errorf("the configuration was changed: %s", got)
				}
			})
		}
		t.Run("what is installed is well", func(t *testing.T) {
			dir, cwd := home(t, "")
			i := installer(dir, c)
			p, err := i.Plan(t.Context(), hookWant(t))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := i.Write(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			r := setup.Examine(t.Context(), *c, dir, cwd)
			if diff := cmp.Diff([]string(nil), statuses(r)); diff != "" || !r.HooksRun {
				text, _ := json.MarshalIndent(r, "", "  ")
				t.Errorf("checks (-want +got):\n%s\n%s", diff, text)
			}
		})
	})
}
