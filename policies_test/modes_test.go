package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

const environment = `"environment": {"cwd": "/workspace/app", "home": "/home/dev"}`

// calls are one of each sort, with what becomes of them where no rule speaks: by
// permissions.harness_mode auto_allow, and with read_only_commands skip.
var calls = map[string]struct {
	request string
	// harness is the answer of harness_mode auto_allow.
	harness approval.Route
	// skips is when nobody is asked: "always", "commands" where commands that
	// read skip, or "" for never.
	skips string
}{
	"a command that reads": {
		`"kind": "command", "command": {"text": "ls src"}`, approval.RouteAllow, "commands",
	},
	"a command that writes": {
		`"kind": "command", "command": {"text": "touch x"}`, approval.RouteAllow, "",
	},
	"a command of an unknown program": {
		`"kind": "command", "command": {"text": "frobnicate x"}`, approval.RouteAllow, "",
	},
	"a command that does not parse": {
		`"kind": "command", "command": {"text": "ls 'src"}`, approval.RouteAllow, "",
	},
	"a command that reads outside the sandbox": {
		`"kind": "command", "command": {"text": "ls src"}, "escalated": true`, approval.RouteAllow, "",
	},
	"a command that reads, with more permissions": {
		`"kind": "command", "command": {"text": "ls src"}, "permissions": {"network": {"enabled": true}}`, approval.RouteAllow, "",
	},
	"a file change": {
		`"kind": "file_change", "changes": [{"path": "a", "operation": "update"}]`, approval.RouteAllow, "",
	},
	"a file change without its content": {
		`"kind": "file_change"`, approval.RouteAsk, "",
	},
	"a file change that opens a folder": {
		`"kind": "file_change", "changes": [{"path": "a", "operation": "update"}], "grant_root": "/workspace"`, approval.RouteAsk, "",
	},
	"permissions": {
		`"kind": "permissions", "permissions": {"network": {"enabled": true}}`, approval.RouteAllow, "",
	},
	"permissions that nobody understands": {
		`"kind": "permissions", "permissions": {"file_system": {"write": ["C:\\x"]}}`, approval.RouteAsk, "",
	},
	"a host": {
		`"kind": "network", "network": {"host": "example.com"}`, approval.RouteAllow, "",
	},
	"a tool of an MCP server": {
		`"kind": "mcp", "tool": {"name": "list", "server": "notes", "annotations": {"readOnlyHint": true}}`, approval.RouteAsk, "",
	},
	"a tool that nobody listed": {
		`"kind": "tool", "tool": {"name": "frobnicate"}`, approval.RouteAsk, "",
	},
	"a question for a person": {
		`"kind": "command", "command": {"text": "ls src"}, "human_only": true`, approval.RouteAsk, "",
	},
}

// tools that only read, by the harness that has them.
var readers = map[string]string{
	"native":      `"kind": "tool", "tool": {"name": "read_file", "arguments": {"path": "x"}}`,
	"claude-code": `"kind": "tool", "tool": {"name": "Read", "arguments": {"file_path": "/workspace/app/x"}}`,
	"gemini-cli":  `"kind": "tool", "tool": {"name": "read_file", "arguments": {"file_path": "/workspace/app/x"}}`,
	"opencode":    `"kind": "tool", "tool": {"name": "read", "arguments": {"filePath": "/workspace/app/x"}}`,
	"codex":       `"kind": "tool", "tool": {"name": "view_image", "arguments": {"path": "/workspace/app/x.png"}}`,
}

func TestRoutesOfModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"manual", "auto_allow", "model_review", "model_review without a reviewer"} {
		for _, harnessMode := range []string{"manual", "auto_allow"} {
			for _, reading := range []string{"ask", "skip"} {
				t.Run(mode+", harness "+harnessMode+", reading "+reading, func(t *testing.T) {
					t.Parallel()
					s := settings()
					s.Mode, _, _ = strings.Cut(mode, " ")
					s.HarnessMode, s.ReadOnlyCommands = harnessMode, reading
					if mode == "model_review" {
						s.Reviewers = map[string]bool{s.Reviewer: true}
					}
					testModes(t, s, load(t, rego.Source{Settings: s}))
				})
			}
		}
	}
}

func testModes(t *testing.T, s rego.Settings, p *rego.Policy) {
	t.Helper()
	native := map[string]approval.Route{"manual": approval.RouteAsk, "auto_allow": approval.RouteAllow, "model_review": approval.RouteAsk}[s.Mode]
	if len(s.Reviewers) > 0 {
		native = approval.RouteReview
	}
	decide := func(name, text, harness string, want approval.Route) {
		if harness != "" {
			text += fmt.Sprintf(`, "harness": {"name": %q}`, harness)
		}
		got := rule(t, p, request(t, "{"+text+", "+environment+"}"))
		if got.Route != want {
			t.Errorf("%s from %q: route %s, want %s; %q", name, harness, got.Route, want, got.Reasons)
		}
		if len(got.Reasons) == 0 {
			t.Errorf("%s from %q: no reason", name, harness)
		}
	}
	for name, c := range calls {
		asked := strings.Contains(c.request, "human_only") || strings.Contains(name, "nobody understands")
		for _, harness := range []string{"", "native", "codex", "claude-code", "a harness that nobody knows"} {
			want := native
			if harness != "" && harness != "native" {
				want = approval.RouteAsk
				if s.HarnessMode == "auto_allow" {
					want = c.harness
				}
			}
			if c.skips == "commands" && s.ReadOnlyCommands == "skip" {
				want = approval.RouteSkip
			}
			if asked {
				want = approval.RouteAsk
			}
			decide(name, c.request, harness, want)
		}
	}
	for harness, text := range readers {
		decide("a tool that reads", text, harness, approval.RouteSkip)
	}
}

// A refusal of the host, or of the setting for permissions, is final.
func TestRefusalsAreFinal(t *testing.T) {
	t.Parallel()
	src := workspace(t, "package rules.all\n\nallow contains \"everything\" if input.request\n")
	src.Settings.Mode, src.Settings.HarnessMode, src.Settings.ReadOnlyCommands = "auto_allow", "auto_allow", "skip"
	p := load(t, src)
	for name, c := range calls {
		if strings.Contains(c.request, "human_only") {
			continue
		}
		got := rule(t, p, request(t, "{"+c.request+`, "host_allows": false, `+environment+"}"))
		if got.Route != approval.RouteDeny {
			t.Errorf("%s that the host refuses: route %s, want deny", name, got.Route)
		}
	}
	for harness, text := range readers {
		got := rule(t, p, request(t, "{"+text+`, "host_allows": false, "harness": {"name": "`+harness+`"}, `+environment+"}"))
		if got.Route != approval.RouteDeny {
			t.Errorf("a tool of %s that reads and the host refuses: route %s, want deny", harness, got.Route)
		}
	}
	got := rule(t, p, request(t, `{"kind": "command", "command": {"text": "ls"}, "host_allows": true, `+environment+"}"))
	if got.Route != approval.RouteAllow {
		t.Errorf("route %s, want allow by the rule: that the host allows adds nothing and takes nothing away", got.Route)
	}
	// Who alone may answer cannot be changed by what the answer would be.
	got = rule(t, p, request(t, `{"kind": "command", "command": {"text": "ls"}, "host_allows": false, "human_only": true, `+environment+"}"))
	if got.Route != approval.RouteDeny {
		t.Errorf("route %s, want deny", got.Route)
	}
}

func TestApprovalPolicyOfPermissions(t *testing.T) {
	t.Parallel()
	const asked = `{"kind": "permissions", "permissions": {"network": {"enabled": true}}, ` + environment
	for name, tt := range map[string]struct {
		set  func(*rego.Settings)
		want approval.Route
	}{
		"never":                    {func(s *rego.Settings) { s.ApprovalPolicy = "never" }, approval.RouteDeny},
		"on request":               {func(s *rego.Settings) { s.ApprovalPolicy = "on_request" }, approval.RouteAllow},
		"granular with the switch": {func(s *rego.Settings) { granular(s, map[string]bool{"request_permissions": true}) }, approval.RouteAllow},
		"granular against it":      {func(s *rego.Settings) { granular(s, map[string]bool{"request_permissions": false}) }, approval.RouteDeny},
		"granular without a word":  {func(s *rego.Settings) { granular(s, nil) }, approval.RouteDeny},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := workspace(t, "package rules.all\n\nallow contains \"everything\" if input.request\n")
			tt.set(&src.Settings)
			p := load(t, src)
			for _, harness := range []string{"native", "codex"} {
				got := rule(t, p, request(t, asked+`, "harness": {"name": "`+harness+`"}}`))
				if got.Route != tt.want {
					t.Errorf("route %s from %s, want %s", got.Route, harness, tt.want)
				}
			}
			// The setting is about permissions, not about calls.
			if got := rule(t, p, bash("touch x", "")); got.Route != approval.RouteAllow {
				t.Errorf("route %s of a command, want allow by the rule", got.Route)
			}
		})
	}
}

func granular(s *rego.Settings, switches map[string]bool) {
	s.ApprovalPolicy, s.Granular = "granular", switches
}

// Hints of a server about its own tools count for nothing until the settings
// name the server, and even then not where they contradict each other.
func TestHintsOfServers(t *testing.T) {
	t.Parallel()
	s := settings()
	s.TrustedMCPServers = []string{"notes"}
	p := load(t, rego.Source{Settings: s})
	for name, tt := range map[string]struct {
		server, annotations string
		believed            bool
	}{
		"of a stranger":               {"other", `{"readOnlyHint": true}`, false},
		"of a trusted server":         {"notes", `{"readOnlyHint": true}`, true},
		"none":                        {"notes", `{}`, false},
		"that contradict each other":  {"notes", `{"readOnlyHint": true, "destructiveHint": true}`, false},
		"of a name in another case":   {"Notes", `{"readOnlyHint": true}`, false},
		"of a name with more letters": {"notes-x", `{"readOnlyHint": true}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, fmt.Sprintf(`{"kind": "mcp", "tool": {"name": "list", "server": %q, "annotations": %s}, %s}`, tt.server, tt.annotations, environment))
			c, err := p.Classify(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !c.External || c.ReadOnly {
				t.Errorf("external %v, read only %v, want external: it leaves to a server", c.External, c.ReadOnly)
			}
			reads := slices.Equal(c.Effects, []approval.Effect{approval.EffectRead})
			if reads != tt.believed {
				t.Errorf("effects %v, want them to be the hint: %v", c.Effects, tt.believed)
			}
			if got := rule(t, p, r); got.Route != approval.RouteAsk {
				t.Errorf("route %s, want ask", got.Route)
			}
		})
	}
}
