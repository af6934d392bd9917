package config_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regent-policy/regent/config"
)

// settings leaves out what says where a configuration comes from.
var settings = cmp.Options{
	cmpopts.IgnoreUnexported(config.Config{}),
	cmpopts.IgnoreFields(config.Config{}, "SHA256"),
	cmpopts.EquateEmpty(),
}

// parse reads text as /home/sam/.regent/config.yaml.
func parse(t testing.TB, text string) (*config.Config, []config.Warning) {
	t.Helper()
	c, warnings, err := config.Parse("/home/sam/.regent/config.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return c, warnings
}

func TestParseFillsInDefaults(t *testing.T) {
	got, warnings := parse(t, "version: 1\n")
	want := &config.Config{
		Version: 1,
		Permissions: config.Permissions{
			Mode: "model_review", HarnessMode: "manual", ReviewerModel: "default/reviewer",
			ReviewTimeoutSeconds: 30, RequestTimeoutSeconds: 600, ReadOnlyCommands: "ask",
		},
		ApprovalPolicy: config.ApprovalPolicy{Name: "on_request"},
		Policy:         config.Policy{EvaluationTimeoutMS: 100},

		RequestPermissions: config.RequestPermissions{Enabled: true},

		Server: config.Server{Socket: "/home/sam/.regent/runtime/regent.sock"},
		Ledger: config.Ledger{Driver: "sqlite", Path: "/home/sam/.regent/runtime/runtime.db"},
		Path:   "/home/sam/.regent/config.yaml",
		Dir:    "/home/sam/.regent",
	}
	if diff := cmp.Diff(want, got, settings); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Errorf("a file without settings warns: %v", warnings)
	}
	sum := sha256.Sum256([]byte("version: 1\n"))
	if want := hex.EncodeToString(sum[:]); got.SHA256 != want {
		t.Errorf("SHA256 = %q, want %q", got.SHA256, want)
	}
}

func TestParseReadsEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, warnings := parse(t, string(data))
	want := &config.Config{
		Version: 1,
		Permissions: config.Permissions{
			Mode: config.ModeModelReview, HarnessMode: config.HarnessManual, ReviewerModel: "default/reviewer",
			ReviewTimeoutSeconds: 30, RequestTimeoutSeconds: 600, ReadOnlyCommands: config.ReadOnlyAsk,
			TrustedMCPServers: []string{"docs", "tickets"},
		},
		ApprovalPolicy: config.ApprovalPolicy{Granular: &config.Granular{
			SandboxApproval: true, Rules: true, MCPElicitations: true, RequestPermissions: true,
		}},
		Policy: config.Policy{
			Paths:               []string{"/home/sam/.regent/policies", "/home/sam/.regent/shared/rules.tar.gz"},
			Organization:        config.Organization{Path: "/etc/regent/policy"},
			EvaluationTimeoutMS: 100,
			TestBeforeLoad:      true,
			ConfirmLoosening:    true,
			Capabilities: config.Capabilities{
				AllowBuiltins: []string{"http.send"}, AllowNet: []string{"policy.example.com"},
			},
		},
		Reviewers: map[string]config.Reviewer{
			"default/reviewer": {
				Kind: "model", Provider: "openai", Model: "small-model", BaseURL: "https://models.example.com/v1",
				APIKeyEnv: "OPENAI_API_KEY", CAFile: "/home/sam/.regent/secrets/ca.pem", TimeoutSeconds: 20,
				Guidance:         "The hosts below staging.example.com are for trying things out.\nNothing is published on a Friday.\n",
				MaxEvidenceBytes: 65536, MaxOutputTokens: 8192,
				Price: config.Price{InputPerMillionUSD: 0.25, OutputPerMillionUSD: 2},
			},
			"local/model": {
				Kind: "model", Provider: "openai", Model: "small-model", BaseURL: "http://127.0.0.1:8080/v1",
				APIKeyFile: "/home/sam/.regent/secrets/model-key", API: "chat_completions", Stream: true,
				GuidanceFile: "/home/sam/.regent/guidance.md",
			},
			"acme/risk":   {Kind: "plugin", Plugin: "acme", Args: map[string]string{"threshold": "5"}},
			"acme/checks": {Kind: "command", Command: []string{"/home/sam/.regent/bin/checks", "--strict"}},
			"home/rules":  {Kind: "rego", Query: "data.home.review.verdict"},
			"acme/most":   {Kind: "chain", Members: []string{"home/rules", "acme/checks", "acme/risk"}, Decide: "quorum", Quorum: 2},
		},
		Plugins: map[string]config.Plugin{"acme": {
			Command: []string{"/home/sam/.regent/bin/acme-reviewer", "--verbose"},
			SHA256:  "6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918",
			Env:     []string{"HTTPS_PROXY"},
		}},
		RequestPermissions: config.RequestPermissions{
			Enabled: true,
			Before: []config.Hook{
				{Command: []string{"/home/sam/.regent/bin/screen", "--strict"}, TimeoutSeconds: 5, Env: []string{"ACME_TOKEN_FILE"}},
				{Reviewer: "acme/risk"},
			},
			After: []config.Hook{
				{Command: []string{"/home/sam/.regent/bin/tell"}, TimeoutSeconds: 10, Env: []string{"ACME_TOKEN_FILE"}},
				{Reviewer: "home/rules", TimeoutSeconds: 2},
			},
		},
		Server: config.Server{Socket: "/home/sam/.regent/runtime/regent.sock", HTTP: "127.0.0.1:7340"},
		Principals: config.Principals{
			Owner:   []string{"user:sam"},
			Members: map[string]config.Role{"user:kim": "member", "user:lee": "observer"},
			StepUp:  true,
		},
		Notifiers: map[string]config.Notifier{
			"ops": {
				Kind: "webhook", URL: "https://hooks.example.com/regent", SecretEnv: "REGENT_WEBHOOK_SECRET", CAFile: "/home/sam/.regent/secrets/ca.pem",
				Events: []config.NotifierEvent{"pending", "decided", "closed", "notice"}, Details: "none",
			},
			"team": {
				Kind: "webhook", URL: "http://127.0.0.1:8080/hook", SecretFile: "/home/sam/.regent/secrets/webhook",
				Events: []config.NotifierEvent{"pending"}, Details: "summary",
			},
			"desk": {Kind: "desktop", Events: []config.NotifierEvent{"pending"}, Details: "summary"},
			"mail": {
				Kind: "command", Command: []string{"/home/sam/.regent/bin/notify", "--to", "ops@example.com"}, Env: []string{"SMTP_HOST"},
				Events: []config.NotifierEvent{"pending", "closed"}, Details: "summary",
			},
			"acme": {Kind: "plugin", Plugin: "acme", Events: []config.NotifierEvent{"pending"}, Details: "summary"},
		},
		Ledger: config.Ledger{Driver: config.LedgerSQLite, Path: "/home/sam/.regent/runtime/runtime.db"},
		Path:   "/home/sam/.regent/config.yaml",
		Dir:    "/home/sam/.regent",
	}
	if diff := cmp.Diff(want, got, settings); diff != "" {
		t.Errorf("full.yaml (-want +got):\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Errorf("full.yaml warns: %v", warnings)
	}
	for _, key := range config.Keys() {
		if !slices.ContainsFunc(concrete(key.Path, got), func(path string) bool { _, ok := got.Pos(path); return ok }) {
			t.Errorf("full.yaml does not show %s", key.Path)
		}
	}
}

// concrete puts the names that c uses in place of the one in angle brackets, and
// the first items of a list in place of all.
func concrete(path string, c *config.Config) []string {
	if before, after, ok := strings.Cut(path, "[]"); ok {
		return []string{before + "[0]" + after, before + "[1]" + after}
	}
	before, rest, ok := strings.Cut(path, "<")
	if !ok {
		return []string{path}
	}
	_, after, _ := strings.Cut(rest, ">")
	var paths []string
	for name := range c.Reviewers {
		paths = append(paths, before+name+after)
	}
	for name := range c.Plugins {
		paths = append(paths, before+name+after)
	}
	for name := range c.Notifiers {
		paths = append(paths, before+name+after)
	}
	return paths
}

func TestParseKeepsPositions(t *testing.T) {
	c, _ := parse(t, "version: 1\npermissions: {mode: manual,\n  trusted_mcp_servers: [é, docs]}\n")
	for path, want := range map[string]config.KeyPos{
		"permissions":                        {Path: "permissions", Line: 2, Column: 1},
		"permissions.mode":                   {Path: "permissions.mode", Line: 2, Column: 15},
		"permissions.trusted_mcp_servers[1]": {Path: "permissions.trusted_mcp_servers[1]", Line: 3, Column: 28},
	} {
		got, ok := c.Pos(path)
		if !ok {
			t.Errorf("no position for %s", path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("position (-want +got):\n%s", diff)
		}
	}
	if pos, ok := c.Pos("permissions.harness_mode"); ok {
		t.Errorf("a key that is not written has the position %v", pos)
	}
}

func TestConfigMarshalsWithTheKeysOfTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1\napproval_policy: never\n":                              `"never"`,
		"version: 1\napproval_policy: {granular: {skill_approval: true}}\n": `{"granular":{"sandbox_approval":false,"rules":false,"mcp_elicitations":false,"request_permissions":false,"skill_approval":true}}`,
	} {
		c, _ := parse(t, text)
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got["approval_policy"])); diff != "" {
			t.Errorf("approval_policy (-want +got):\n%s", diff)
		}
		if _, ok := got["permissions"]; !ok {
			t.Errorf("no permissions in %s", data)
		}
	}
}

func TestConfigMarshalsToWhatItCanBeReadFrom(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := parse(t, string(data))
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := parse(t, string(text)) // JSON is YAML
	if diff := cmp.Diff(want, got, settings); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

// parseErrors are files with one fault each. The name of a case is the rule
// that the file breaks.
var parseErrors = []struct{ name, text, want string }{
	// The shape of the file.
	{"an empty file is no configuration", "", `config.yaml:1:1: is empty; write at least "version: 1"`},
	{"comments alone are an empty file", "# nothing\n\n", `config.yaml:1:1: is empty; write at least "version: 1"`},
	{"a marker alone is an empty file", "---\n", `config.yaml:1:1: is empty; write at least "version: 1"`},
	{"the root is a mapping", "- version: 1\n", `config.yaml:1:1: wants a mapping of keys to values, not a list; start with "version: 1"`},
	{"the root is no text", "\n version\n", `config.yaml:2:2: wants a mapping of keys to values, not the text "version"; start with "version: 1"`},
	{"there is one document", "version: 1\n---\nversion: 1\n", `config.yaml:2:1: holds a second document; keep one document and remove the --- above the other`},
	{"an empty document is a document", "version: 1\n---\n", `config.yaml:2:1: holds a second document; keep one document and remove the --- above the other`},
	{"the text is UTF-8", "version: 1\n# é\xff\n", `config.yaml:2:4: is not UTF-8 text; save the file as UTF-8`},
	{"the text is not UTF-16", "\xff\xfev\x00", `config.yaml:1:1: is not UTF-8 text; save the file as UTF-8`},
	{"version is required", "permissions: {mode: manual}\n", `config.yaml:1:1: version: is missing; every config.yaml needs it`},
	{"version is required even of an empty mapping", "{}\n", `config.yaml:1:1: version: is missing; every config.yaml needs it`},
	{"a later version is not read", "version: 2\n", `config.yaml:1:1: version: version "2" is not known; this program reads version 1`},

	// Syntax.
	{"tabs do not indent", "version: 1\npermissions:\n\tmode: manual\n", `config.yaml:3:1: a tab cannot indent a line; use spaces`},
	{"tabs do not indent after spaces", "version: 1\npermissions:\n  mode: manual\n \tharness_mode: manual\n", `config.yaml:4:2: a tab cannot indent a line; use spaces`},
	{"siblings have one indentation", "version: 1\npermissions:\n  mode: manual\n   harness_mode: manual\n", `config.yaml:4:4: is not YAML: mapping values are not allowed in this context; check the indentation, and put a value that holds a colon and a space in quotes`},
	{"siblings are not less indented", "version: 1\npermissions:\n   mode: manual\n  harness_mode: manual\n", `config.yaml:4:3: is not YAML: did not find expected key; check the indentation`},
	{"quotes are closed", "version: 1\npermissions:\n  mode: \"manual\n  harness_mode: manual\n", `config.yaml:3:3: is not YAML: found unexpected end of stream; close the quotes`},
	{"lists are closed", "version: 1\npolicy:\n  paths: [policies\n  test_before_load: true\n", `config.yaml:3:3: is not YAML: did not find expected ',' or ']'; close the list with ]`},
	{"some characters start no value", "version: 1\npolicy: @here\n", `config.yaml:2:1: is not YAML: found character that cannot start any token; put the value in quotes`},
	{"control characters are not text", "version: 1\npolicy: {paths: [a\x01]}\n", `config.yaml:2:1: is not YAML: control characters are not allowed; remove the control character`},
	{"an unknown alias is refused", "version: 1\npermissions: *other\n", `config.yaml:2:1: is not YAML: unknown anchor 'other' referenced; aliases are not allowed: write the value out, or put it in quotes`},

	// Parts of YAML that hide what a file says.
	{"anchors are refused", "version: 1\npermissions: &p {mode: manual}\n", `config.yaml:2:1: permissions: anchors are not allowed; remove &p`},
	{"anchors on keys are refused", "version: 1\n&p permissions: {mode: manual}\n", `config.yaml:2:1: permissions: anchors are not allowed; remove &p`},
	{"anchors on the root are refused", "&all\nversion: 1\n", `config.yaml:1:1: anchors are not allowed; remove &all`},
	{"merge keys are refused", "version: 1\npermissions:\n  <<: {mode: auto_allow}\n", `config.yaml:3:3: permissions.<<: merge keys (<<) are not allowed; write the keys out`},
	{"tags are refused", "version: 1\npermissions: {mode: !!str manual}\n", `config.yaml:2:15: permissions.mode: tags such as !!str are not allowed; write the value alone, in quotes where it is text`},
	{"keys are text", "version: 1\n? [a]\n: b\n", `config.yaml:2:3: a key has to be text, not a list`},
	{"keys are no numbers", "version: 1\nplugins: {7: {command: [x]}}\n", `config.yaml:2:11: plugins.7: a key has to be text, not the number 7; put it in quotes`},

	// Keys.
	{"an unknown key is refused", "version: 1\nextra: 1\n", `config.yaml:2:1: extra: unknown key; the keys here are version, permissions, approval_policy, policy, reviewers, plugins, request_permissions, server, principals, notifiers, ledger`},
	{"a misspelt key is guessed", "version: 1\npermisions: {mode: manual}\n", `config.yaml:2:1: permisions: unknown key; did you mean permissions?`},
	{"swapped letters are guessed", "version: 1\npermissions:\n  mdoe: manual\n", `config.yaml:3:3: permissions.mdoe: unknown key; did you mean mode?`},
	{"a key in another spelling is guessed", "version: 1\npermissions:\n  harnessMode: manual\n", `config.yaml:3:3: permissions.harnessMode: unknown key; did you mean harness_mode?`},
	{"a key in the wrong place is sent to the right one", "version: 1\nread_only_commands: ask\n", `config.yaml:2:1: read_only_commands: unknown key; read_only_commands belongs below permissions`},
	{"a key below the wrong section is sent to the top", "version: 1\npermissions:\n  approval_policy: never\n", `config.yaml:3:3: permissions.approval_policy: unknown key; approval_policy belongs at the top of the file`},
	{"a key is written once", "version: 1\npermissions:\n  mode: manual\n  harness_mode: manual\n  mode: auto_allow\n", `config.yaml:5:3: permissions.mode: is written twice; the first is at line 3`},
	{"a quoted key is the same key", "version: 1\n\"version\": 1\n", `config.yaml:2:1: version: is written twice; the first is at line 1`},
	{"a name is written once", "version: 1\nplugins:\n  a: {command: [x]}\n  a: {command: [y]}\n", `config.yaml:4:3: plugins.a: is written twice; the first is at line 3`},
	{"a key has a value", "version: 1\npermissions:\n", `config.yaml:2:1: permissions: has no value; give it one or remove the key`},
	{"null is no value", "version: 1\npolicy: {paths: ~}\n", `config.yaml:2:10: policy.paths: has no value; give it one or remove the key`},
	{"a key that would break the message is quoted", "version: 1\n\"a\\nb\": 1\n", `config.yaml:2:1: "a\nb": unknown key; the keys here are version, permissions, approval_policy, policy, reviewers, plugins, request_permissions, server, principals, notifiers, ledger`},

	{"part of a key is enough to guess it", "version: 1\npermissions: {harness: manual}\n", `config.yaml:2:15: permissions.harness: unknown key; did you mean harness_mode?`},
	{"a long key is cut short", "version: 1\n" + strings.Repeat("k", 80) + ": 1\n", `config.yaml:2:1: "` + strings.Repeat("k", 60) + `…": unknown key; the keys here are version, permissions, approval_policy, policy, reviewers, plugins, request_permissions, server, principals, notifiers, ledger`},
	{"a name is not endless", "version: 1\nplugins: {" + strings.Repeat("k", 129) + ": {command: [x]}}\n", `config.yaml:2:11: plugins."` + strings.Repeat("k", 60) + `…": is no name to use here; use at most 128 characters`},
	{"a principal's name has no spaces", "version: 1\nprincipals: {members: {user sam: observer}}\n", `config.yaml:2:24: principals.members."user sam": is no name to use here; a principal's name holds no spaces, as in user:sam`},
	{"an alias is no key", "version: 1\nplugins: {a: &x {command: [y]}, *x : z}\n", `config.yaml:2:11: plugins.a: anchors are not allowed; remove &x`},

	// Types.
	{"a section is a mapping", "version: 1\npermissions: manual\n", `config.yaml:2:1: permissions: wants a mapping of keys to values, not the text "manual"`},
	{"a section is no list", "version: 1\npermissions:\n  - mode: manual\n", `config.yaml:2:1: permissions: wants a mapping of keys to values, not a list`},
	{"a list is no text", "version: 1\npolicy: {paths: policies}\n", `config.yaml:2:10: policy.paths: wants a list of text, not the text "policies"; write [policies]`},
	{"an item is text", "version: 1\npolicy:\n  paths:\n    - policies\n    - 7\n", `config.yaml:5:7: policy.paths[1]: wants text, not the number 7; put it in quotes`},
	{"text is no date", "version: 1\nledger: {path: 2026-01-31}\n", `config.yaml:2:10: ledger.path: wants text, not the date 2026-01-31; put it in quotes`},
	{"a word is no list", "version: 1\npermissions: {mode: [manual]}\n", `config.yaml:2:15: permissions.mode: wants a word, not a list; use one of manual, auto_allow, model_review`},
	{"a number is no list", "version: [1]\n", `config.yaml:1:1: version: wants a whole number, not a list; write 1`},
	{"a truth value is no mapping", "version: 1\npolicy: {test_before_load: {}}\n", `config.yaml:2:10: policy.test_before_load: wants true or false, not a mapping`},
	{"text is not endless", "version: 1\nledger: {path: " + strings.Repeat("x", 4097) + "}\n", `config.yaml:2:10: ledger.path: is longer than 4096 bytes`},
	{"text is no list", "version: 1\nledger: {path: [x]}\n", `config.yaml:2:10: ledger.path: wants text, not a list`},
	{"text is not empty", "version: 1\npolicy: {organization: {path: ' '}}\n", `config.yaml:2:25: policy.organization.path: is empty; give it a value or remove it`},
	{"text shows what it holds", "version: 1\nledger: {path: \"a\\0b\"}\n", `config.yaml:2:10: ledger.path: holds the character U+0000; leave out what cannot be seen`},
	{"text does not change direction", "version: 1\nledger: {path: \"a\\u202eb\"}\n", `config.yaml:2:10: ledger.path: holds the character U+202E; leave out what cannot be seen`},
	{"a digest of digits is text", "version: 1\nplugins:\n  a:\n    command: [x]\n    sha256: 1234567890123456789012345678901234567890123456789012345678901234\n", `config.yaml:5:5: plugins.a.sha256: wants text, not the number "123456789012345678901234567890123456789012345678901234567890…"; put it in quotes`},
	{"a number is no text", "version: \"1\"\n", `config.yaml:1:1: version: wants a whole number, not the text "1"; remove the quotes`},
	{"a number is whole", "version: 1.0\n", `config.yaml:1:1: version: wants a whole number, not the number 1.0; write 1`},
	{"a number has no unit", "version: 1\npermissions: {review_timeout_seconds: 30s}\n", `config.yaml:2:15: permissions.review_timeout_seconds: wants a whole number, not the text "30s"; write the number alone: the key names the unit`},
	{"a leading zero is not octal", "version: 1\npermissions: {review_timeout_seconds: 010}\n", `config.yaml:2:15: permissions.review_timeout_seconds: "010" is not written as a plain decimal number; use the digits 0 to 9 alone, without leading zeros`},
	{"numbers are decimal", "version: 1\npermissions: {review_timeout_seconds: 0x10}\n", `config.yaml:2:15: permissions.review_timeout_seconds: "0x10" is not written as a plain decimal number; use the digits 0 to 9 alone, without leading zeros`},
	{"yes is no truth value", "version: 1\npolicy: {test_before_load: yes}\n", `config.yaml:2:10: policy.test_before_load: wants true or false, not the text "yes"; write true`},
	{"Off is no truth value", "version: 1\npolicy: {confirm_loosening: Off}\n", `config.yaml:2:10: policy.confirm_loosening: wants true or false, not the text "Off"; write false`},
	{"a quoted truth value is text", "version: 1\npolicy: {confirm_loosening: 'true'}\n", `config.yaml:2:10: policy.confirm_loosening: wants true or false, not the text "true"; remove the quotes`},

	// Words.
	{"a mode is one of three", "version: 1\n\n\n\n\npermissions:\n  mode: modelreview\n", `config.yaml:7:3: permissions.mode: unknown value "modelreview"; use one of manual, auto_allow, model_review (did you mean model_review?)`},
	{"a mode is no switch", "version: 1\npermissions: {mode: on}\n", `config.yaml:2:15: permissions.mode: unknown value "on"; use one of manual, auto_allow, model_review (this is not a switch)`},
	{"a mode is no truth value", "version: 1\npermissions: {mode: true}\n", `config.yaml:2:15: permissions.mode: wants a word, not the truth value true; use one of manual, auto_allow, model_review`},
	{"a mode far from any is not guessed", "version: 1\npermissions: {mode: yolo}\n", `config.yaml:2:15: permissions.mode: unknown value "yolo"; use one of manual, auto_allow, model_review`},
	{"a harness mode is one of two", "version: 1\npermissions: {harness_mode: model_review}\n", `config.yaml:2:15: permissions.harness_mode: unknown value "model_review"; use one of manual, auto_allow`},
	{"read-only commands ask or skip", "version: 1\npermissions: {read_only_commands: allow}\n", `config.yaml:2:15: permissions.read_only_commands: unknown value "allow"; use one of ask, skip`},
	{"an approval policy is one of three", "version: 1\napproval_policy: on-request\n", `config.yaml:2:1: approval_policy: unknown value "on-request"; use one of never, on_request, unless_trusted (did you mean on_request?)`},
	{"an approval policy has a new name", "version: 1\napproval_policy: untrusted\n", `config.yaml:2:1: approval_policy: unknown value "untrusted"; use one of never, on_request, unless_trusted (did you mean unless_trusted?)`},
	{"granular is a mapping", "version: 1\napproval_policy: granular\n", `config.yaml:2:1: approval_policy: unknown value "granular"; write it as a mapping: {granular: {request_permissions: true}}`},
	{"granular has its own keys", "version: 1\napproval_policy: {granular: {rule: true}}\n", `config.yaml:2:30: approval_policy.granular.rule: unknown key; did you mean rules?`},
	{"granular is not empty", "version: 1\napproval_policy: {granular: {}}\n", `config.yaml:2:19: approval_policy.granular: is empty; write at least one of sandbox_approval, rules, mcp_elicitations, request_permissions, skill_approval, or never in its place`},
	{"a mapping of approvals names granular", "version: 1\napproval_policy: {}\n", `config.yaml:2:1: approval_policy.granular: is missing; every approval_policy needs it`},
	{"a role is one of two", "version: 1\nprincipals: {members: {\"user:kim\": admin}}\n", `config.yaml:2:24: principals.members.user:kim: unknown value "admin"; use one of member, observer`},
	{"a driver is known", "version: 1\nledger: {driver: postgres}\n", `config.yaml:2:10: ledger.driver: unknown value "postgres"; use sqlite`},

	// Ranges.
	{"a review takes some time", "version: 1\npermissions: {review_timeout_seconds: 0}\n", `config.yaml:2:15: permissions.review_timeout_seconds: 0 is out of range; use 1 to 600`},
	{"a review ends", "version: 1\npermissions: {review_timeout_seconds: 601}\n", `config.yaml:2:15: permissions.review_timeout_seconds: 601 is out of range; use 1 to 600`},
	{"a request waits for a day at most", "version: 1\npermissions: {request_timeout_seconds: 86401}\n", `config.yaml:2:15: permissions.request_timeout_seconds: 86401 is out of range; use 1 to 86400`},
	{"time does not run backwards", "version: 1\npermissions: {request_timeout_seconds: -1}\n", `config.yaml:2:15: permissions.request_timeout_seconds: -1 is out of range; use 1 to 86400`},
	{"rules take ten seconds at most", "version: 1\npolicy: {evaluation_timeout_ms: 10001}\n", `config.yaml:2:10: policy.evaluation_timeout_ms: 10001 is out of range; use 1 to 10000`},
	{"a number beyond all ranges is one", "version: 1\npolicy: {evaluation_timeout_ms: 9223372036854775807}\n", `config.yaml:2:10: policy.evaluation_timeout_ms: 9223372036854775807 is out of range; use 1 to 10000`},

	// Permissions and policy.
	{"a reviewer's name has two parts", "version: 1\npermissions: {reviewer_model: reviewer}\n", `config.yaml:2:15: permissions.reviewer_model: is no name of a reviewer; write two parts, as in default/reviewer`},
	{"servers are trusted one by one", "version: 1\npermissions: {trusted_mcp_servers: [docs, \"*\"]}\n", `config.yaml:2:43: permissions.trusted_mcp_servers[1]: "*" is no name of a server; name each server in full`},
	{"a server is listed once", "version: 1\npermissions: {trusted_mcp_servers: [docs, docs]}\n", `config.yaml:2:43: permissions.trusted_mcp_servers[1]: "docs" is listed twice; the first is at line 2`},
	{"a tilde is not expanded", "version: 1\npolicy: {paths: [~/policies]}\n", `config.yaml:2:18: policy.paths[0]: ~ is not expanded; write the whole path`},
	{"variables are not expanded", "version: 1\npolicy: {organization: {path: $ORG/policy}}\n", `config.yaml:2:25: policy.organization.path: variables are not expanded; write the whole path`},
	{"an organization has a path", "version: 1\npolicy: {organization: {}}\n", `config.yaml:2:10: policy.organization.path: is missing; every policy.organization needs it`},
	{"built-ins go by name", "version: 1\npolicy: {capabilities: {allow_builtins: [http.*]}}\n", `config.yaml:2:42: policy.capabilities.allow_builtins[0]: "http.*" is no name of a built-in function; write it as Rego does, as in http.send`},
	{"hosts go without a scheme", "version: 1\npolicy: {capabilities: {allow_builtins: [http.send], allow_net: [\"https://x.example.com\"]}}\n", `config.yaml:2:66: policy.capabilities.allow_net[0]: "https://x.example.com" is no name of a host; write it in full and in lower case, without scheme, port and wildcards`},
	{"hosts go without wildcards", "version: 1\npolicy: {capabilities: {allow_net: [\"*.example.com\"]}}\n", `config.yaml:2:37: policy.capabilities.allow_net[0]: "*.example.com" is no name of a host; write it in full and in lower case, without scheme, port and wildcards`},

	// Reviewers.
	{"a reviewer has a kind", "version: 1\nreviewers:\n  a/b: {model: m}\n", `config.yaml:3:3: reviewers.a/b.kind: is missing; every reviewer needs it`},
	{"a reviewer has a known kind", "version: 1\nreviewers:\n  a/b: {kind: llm}\n", `config.yaml:3:9: reviewers.a/b.kind: unknown value "llm"; use one of model, plugin, command, rego, chain`},
	{"a reviewer's entry has two parts", "version: 1\nreviewers:\n  risk: {kind: model}\n", `config.yaml:3:3: reviewers.risk: is no name to use here; use two parts of letters, digits, hyphens and underscores, as in acme/risk`},
	{"a model has a provider", "version: 1\nreviewers:\n  a/b: {kind: model, model: m}\n", `config.yaml:3:3: reviewers.a/b.provider: is missing; a reviewer of kind model needs it`},
	{"a model has a name", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai}\n", `config.yaml:3:3: reviewers.a/b.model: is missing; a reviewer of kind model needs it`},
	{"a model runs no command", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, command: [x]}\n", `config.yaml:3:50: reviewers.a/b.command: means nothing to a reviewer of kind model; such a reviewer takes provider, model, api, base_url, api_key_env, api_key_file, ca_file, stream, guidance, guidance_file, max_evidence_bytes, max_output_tokens, price, timeout_seconds`},
	{"a plugin reviewer names a plugin", "version: 1\nreviewers:\n  a/b: {kind: plugin}\n", `config.yaml:3:3: reviewers.a/b.plugin: is missing; a reviewer of kind plugin needs it`},
	{"a plugin reviewer names a declared plugin", "version: 1\nreviewers:\n  a/b: {kind: plugin, plugin: acme}\n", `config.yaml:3:23: reviewers.a/b.plugin: no plugin is named acme; declare it below plugins`},
	{"a misspelt plugin is guessed", "version: 1\nreviewers:\n  a/b: {kind: plugin, plugin: acmee}\nplugins: {acme: {command: [x]}}\n", `config.yaml:3:23: reviewers.a/b.plugin: no plugin is named acmee; did you mean acme?`},
	{"a command reviewer has a command", "version: 1\nreviewers:\n  a/b: {kind: command}\n", `config.yaml:3:3: reviewers.a/b.command: is missing; a reviewer of kind command needs it`},
	{"a command has a program", "version: 1\nreviewers:\n  a/b: {kind: command, command: []}\n", `config.yaml:3:24: reviewers.a/b.command: is empty; write the program and its arguments`},
	{"a rego reviewer has a query", "version: 1\nreviewers:\n  a/b: {kind: rego}\n", `config.yaml:3:3: reviewers.a/b.query: is missing; a reviewer of kind rego needs it`},
	{"a query is the path of a rule", "version: 1\nreviewers:\n  a/b: {kind: rego, query: \"allow { true }\"}\n", `config.yaml:3:21: reviewers.a/b.query: "allow { true }" is no path of a rule; write it as in data.home.review.verdict`},
	{"a chain has members", "version: 1\nreviewers:\n  a/b: {kind: chain, members: []}\n", `config.yaml:3:22: reviewers.a/b.members: is empty; name at least one reviewer`},
	{"a member is declared", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [a/c]}\n  a/d: {kind: rego, query: data.x}\n", `config.yaml:3:32: reviewers.a/b.members[0]: no reviewer is named a/c; did you mean a/b?`},
	{"a chain does not ask itself", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [a/b]}\n", `config.yaml:3:32: reviewers.a/b.members[0]: makes a/b ask itself; remove it from the chain`},
	{"a chain does not come back", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [a/c]}\n  a/c: {kind: chain, members: [a/d, a/b]}\n  a/d: {kind: rego, query: data.x}\n", `config.yaml:4:37: reviewers.a/c.members[1]: makes a/b ask itself; remove it from the chain`},
	{"a provider goes by name", "version: 1\nreviewers:\n  a/b: {kind: model, provider: Open AI, model: m}\n", `config.yaml:3:22: reviewers.a/b.provider: unknown value "Open AI"; use one of openai, anthropic (did you mean openai?)`},
	{"an address has a scheme", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, base_url: api.example.com}\n", `config.yaml:3:50: reviewers.a/b.base_url: is no web address; write it as in https://api.example.com/v1`},
	{"an address carries no password, and it is not repeated", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, base_url: \"https://sam:hunter2@x.example.com\"}\n", `config.yaml:3:50: reviewers.a/b.base_url: carries a user, a query or a fragment; write the address alone; use api_key_env or api_key_file for the key`},
	{"an address carries no key, and it is not repeated", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, base_url: \"https://x.example.com?key=hunter2\"}\n", `config.yaml:3:50: reviewers.a/b.base_url: carries a user, a query or a fragment; write the address alone; use api_key_env or api_key_file for the key`},
	{"a key is named, and not repeated", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, api_key_env: sk-hunter2}\n", `config.yaml:3:50: reviewers.a/b.api_key_env: is no name of an environment variable; name the variable that holds the key, not the key`},
	{"a key of digits is not repeated either", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, api_key_env: 123456}\n", `config.yaml:3:50: reviewers.a/b.api_key_env: wants text, not a value of another type; put it in quotes`},
	{"no key stands in the file", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, api_key: sk-hunter2}\n", `config.yaml:3:50: reviewers.a/b.api_key: unknown key; no secret stands in this file: use api_key_env or api_key_file`},
	{"a key has one place", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, api_key_env: K, api_key_file: k}\n", `config.yaml:3:66: reviewers.a/b.api_key_file: stands beside api_key_env; keep one of the two`},
	{"requests do not cross the network unencrypted", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, base_url: \"http://models.example.com\"}\n", `config.yaml:3:50: reviewers.a/b.base_url: would send the key and the requests over the network unencrypted; use https`},
	{"a provider has its own interfaces", "version: 1\nreviewers:\n  a/b: {kind: model, provider: anthropic, model: m, api: responses}\n", `config.yaml:3:53: reviewers.a/b.api: means nothing to provider anthropic; it is for provider openai`},
	{"an interface has a known name", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, api: chat}\n", `config.yaml:3:50: reviewers.a/b.api: unknown value "chat"; use one of responses, chat_completions (did you mean chat_completions?)`},
	{"guidance has one place", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, guidance: be strict, guidance_file: g.md}\n", `config.yaml:3:71: reviewers.a/b.guidance_file: stands beside guidance; keep one of the two`},
	{"guidance has no hidden characters", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, guidance: \"be \\e[1m strict\"}\n", `config.yaml:3:50: reviewers.a/b.guidance: holds the character U+001B; leave out what cannot be seen`},
	{"evidence is bounded", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, max_evidence_bytes: 100}\n", `config.yaml:3:50: reviewers.a/b.max_evidence_bytes: 100 is out of range; use 1024 to 1048576`},
	{"output is bounded", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, max_output_tokens: 1}\n", `config.yaml:3:50: reviewers.a/b.max_output_tokens: 1 is out of range; use 256 to 65536`},
	{"a price has two parts", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, price: {input_per_million_usd: 1}}\n", `config.yaml:3:50: reviewers.a/b.price.output_per_million_usd: is missing; every price needs it`},
	{"a price is a number", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, price: {input_per_million_usd: cheap, output_per_million_usd: 1}}\n", `config.yaml:3:58: reviewers.a/b.price.input_per_million_usd: wants a number, not the text "cheap"; write a number from 0 to 100000`},
	{"a price goes without quotes", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, price: {input_per_million_usd: \"1.5\", output_per_million_usd: 1}}\n", `config.yaml:3:58: reviewers.a/b.price.input_per_million_usd: wants a number, not the text "1.5"; remove the quotes`},
	{"a price is written in digits", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, price: {input_per_million_usd: 1e3, output_per_million_usd: 1}}\n", `config.yaml:3:58: reviewers.a/b.price.input_per_million_usd: "1e3" is not written as a plain decimal number; use digits and at most one point, as in 0.25`},
	{"a price is finite", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, price: {input_per_million_usd: .inf, output_per_million_usd: 1}}\n", `config.yaml:3:58: reviewers.a/b.price.input_per_million_usd: ".inf" is not written as a plain decimal number; use digits and at most one point, as in 0.25`},
	{"a price is not less than nothing", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, price: {input_per_million_usd: -1, output_per_million_usd: 1}}\n", `config.yaml:3:58: reviewers.a/b.price.input_per_million_usd: "-1" is not written as a plain decimal number; use digits and at most one point, as in 0.25`},
	{"a price is bounded", "version: 1\nreviewers:\n  a/b: {kind: model, provider: openai, model: m, price: {input_per_million_usd: 100001, output_per_million_usd: 1}}\n", `config.yaml:3:58: reviewers.a/b.price.input_per_million_usd: 100001 is out of range; use 0 to 100000`},
	{"a chain decides by a known rule", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [c/d], decide: most}\n  c/d: {kind: rego, query: data.x}\n", `config.yaml:3:38: reviewers.a/b.decide: unknown value "most"; use one of all, any, first, quorum`},
	{"a quorum is a number of members", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [c/d], decide: quorum}\n  c/d: {kind: rego, query: data.x}\n", `config.yaml:3:3: reviewers.a/b.quorum: is missing; decide: quorum needs it`},
	{"a quorum is for the rule of that name", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [c/d], decide: any, quorum: 1}\n  c/d: {kind: rego, query: data.x}\n", `config.yaml:3:51: reviewers.a/b.quorum: means nothing without decide: quorum; write that, or remove this`},
	{"a quorum can be reached", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [c/d], decide: quorum, quorum: 2}\n  c/d: {kind: rego, query: data.x}\n", `config.yaml:3:54: reviewers.a/b.quorum: is more than there are members; so many can never allow`},
	{"a chain is short", "version: 1\nreviewers:\n  a/b: {kind: chain, members: [c/m0, c/m1, c/m2, c/m3, c/m4, c/m5, c/m6, c/m7, c/m8, c/m9, c/m10, c/m11, c/m12, c/m13, c/m14, c/m15, c/m16]}\n", `config.yaml:3:22: reviewers.a/b.members: are more than 16; make a chain of some of them`},
	{"a reviewer's time is bounded", "version: 1\nreviewers:\n  a/b: {kind: rego, query: data.x, timeout_seconds: 1000}\n", `config.yaml:3:36: reviewers.a/b.timeout_seconds: 1000 is out of range; use 1 to 600`},

	// Plugins.
	{"a plugin has a command", "version: 1\nplugins:\n  acme: {env: [A]}\n", `config.yaml:3:3: plugins.acme.command: is missing; every plugin needs it`},
	{"a plugin's command has a program", "version: 1\nplugins:\n  acme: {command: []}\n", `config.yaml:3:10: plugins.acme.command: is empty; write the program and its arguments`},
	{"a plugin's name is plain", "version: 1\nplugins:\n  acme.one: {command: [x]}\n", `config.yaml:3:3: plugins.acme.one: is no name to use here; use letters, digits, hyphens and underscores`},
	{"a digest has 64 digits", "version: 1\nplugins:\n  acme: {command: [x], sha256: abc}\n", `config.yaml:3:24: plugins.acme.sha256: is no SHA-256 digest; write 64 hexadecimal digits; these are 3 characters`},
	{"a plugin's environment variable has no value here", "version: 1\nplugins:\n  acme: {command: [x], env: [A=b]}\n", `config.yaml:3:30: plugins.acme.env[0]: is no name of an environment variable; name the variable alone; its value comes from the environment`},

	// Hooks.
	{"the section is a mapping", "version: 1\nrequest_permissions: false\n", `config.yaml:2:1: request_permissions: wants a mapping of keys to values, not the truth value false`},
	{"enabled is true or false", "version: 1\nrequest_permissions: {enabled: off}\n", `config.yaml:2:23: request_permissions.enabled: wants true or false, not the text "off"; write false`},
	{"hooks stand below before or after", "version: 1\nrequest_permissions:\n  hooks: []\n", `config.yaml:3:3: request_permissions.hooks: unknown key; the keys here are enabled, before, after`},
	{"hooks are a list", "version: 1\nrequest_permissions:\n  before:\n    command: [bin/screen]\n", `config.yaml:3:3: request_permissions.before: wants a list of mappings, not a mapping; start each mapping with a hyphen`},
	{"a list of hooks is no text", "version: 1\nrequest_permissions:\n  after: bin/tell\n", `config.yaml:3:3: request_permissions.after: wants a list of mappings, not the text "bin/tell"; start each mapping with a hyphen, as in - {key: value}`},
	{"a hook is a mapping", "version: 1\nrequest_permissions:\n  before:\n    - bin/screen\n", `config.yaml:4:7: request_permissions.before[0]: wants a mapping of keys to values, not the text "bin/screen"`},
	{"a hook has a value", "version: 1\nrequest_permissions:\n  before:\n    - {command: [x]}\n    -\n", `config.yaml:5:6: request_permissions.before[1]: has no value; give it one or remove the key`},
	{"a hook has its own keys", "version: 1\nrequest_permissions:\n  before:\n    - {command: [x], timeout: 5}\n", `config.yaml:4:22: request_permissions.before[0].timeout: unknown key; did you mean timeout_seconds?`},
	{"a key of hooks is not sent to one of them", "version: 1\nreviewer: acme/risk\n", `config.yaml:2:1: reviewer: unknown key; did you mean reviewers?`},
	{"a hook is something", "version: 1\nrequest_permissions:\n  before: [{command: [x]}, {}]\n", `config.yaml:3:28: request_permissions.before[1]: has neither command nor reviewer; write one of the two`},
	{"time alone is no hook", "version: 1\nrequest_permissions:\n  after:\n    - timeout_seconds: 5\n", `config.yaml:4:7: request_permissions.after[0]: has neither command nor reviewer; write one of the two`},
	{"a hook is one thing", "version: 1\nreviewers: {a/b: {kind: rego, query: data.x}}\nrequest_permissions:\n  before:\n    - command: [x]\n      reviewer: a/b\n", `config.yaml:6:7: request_permissions.before[0].reviewer: stands beside command; keep one of the two`},
	{"a hook's command is a list", "version: 1\nrequest_permissions:\n  before: [{command: screen}]\n", `config.yaml:3:13: request_permissions.before[0].command: wants a list of text, not the text "screen"; write [screen]`},
	{"a hook's command has a program", "version: 1\nrequest_permissions:\n  before: [{command: []}]\n", `config.yaml:3:13: request_permissions.before[0].command: is empty; write the program and its arguments`},
	{"a hook's program is not expanded", "version: 1\nrequest_permissions:\n  after: [{command: [~/tell]}]\n", `config.yaml:3:22: request_permissions.after[0].command[0]: ~ is not expanded; write the whole path`},
	{"a hook's reviewer is declared", "version: 1\nrequest_permissions:\n  after: [{reviewer: acme/risk}]\n", `config.yaml:3:12: request_permissions.after[0].reviewer: no reviewer is named acme/risk; declare it below reviewers`},
	{"a misspelt reviewer of a hook is guessed", "version: 1\nreviewers: {acme/risk: {kind: rego, query: data.x}}\nrequest_permissions:\n  before: [{reviewer: acme/rsik}]\n", `config.yaml:4:13: request_permissions.before[0].reviewer: no reviewer is named acme/rsik; did you mean acme/risk?`},
	{"a hook's reviewer is named", "version: 1\nrequest_permissions:\n  before: [{reviewer: ''}]\n", `config.yaml:3:13: request_permissions.before[0].reviewer: is empty; give it a value or remove it`},
	{"a reviewer has no environment here", "version: 1\nreviewers: {a/b: {kind: rego, query: data.x}}\nrequest_permissions:\n  before: [{reviewer: a/b, env: [A]}]\n", `config.yaml:4:28: request_permissions.before[0].env: means nothing to a hook that is a reviewer; such a hook takes reviewer, timeout_seconds`},
	{"a hook takes some time", "version: 1\nrequest_permissions:\n  before: [{command: [x], timeout_seconds: 0}]\n", `config.yaml:3:27: request_permissions.before[0].timeout_seconds: 0 is out of range; use 1 to 60`},
	{"a hook takes a minute at most", "version: 1\nrequest_permissions:\n  before: [{command: [x], timeout_seconds: 61}]\n", `config.yaml:3:27: request_permissions.before[0].timeout_seconds: 61 is out of range; use 1 to 60`},
	{"a hook's environment variable has no value here", "version: 1\nrequest_permissions:\n  before: [{command: [x], env: [A, B=hunter2]}]\n", `config.yaml:3:36: request_permissions.before[0].env[1]: is no name of an environment variable; name the variable alone; its value comes from the environment`},
	{"a notifier has a kind", "version: 1\nnotifiers:\n  ops: {url: x}\n", `config.yaml:3:3: notifiers.ops.kind: is missing; every notifier needs it`},
	{"a notifier has a known kind", "version: 1\nnotifiers:\n  ops: {kind: hook}\n", `config.yaml:3:9: notifiers.ops.kind: unknown value "hook"; use one of webhook, desktop, command, plugin (did you mean webhook?)`},
	{"a notifier's name is plain", "version: 1\nnotifiers:\n  a/b: {kind: desktop}\n", `config.yaml:3:3: notifiers.a/b: is no name to use here; use letters, digits, hyphens and underscores`},
	{"a webhook has an address", "version: 1\nnotifiers:\n  ops: {kind: webhook}\n", `config.yaml:3:3: notifiers.ops.url: is missing; a notifier of kind webhook needs it`},
	{"a webhook's address is one", "version: 1\nnotifiers:\n  ops: {kind: webhook, url: hooks.example.com}\n", `config.yaml:3:24: notifiers.ops.url: is no web address; write it as in https://hooks.example.com/regent`},
	{"a webhook is encrypted", "version: 1\nnotifiers:\n  ops: {kind: webhook, url: \"http://hooks.example.com\"}\n", `config.yaml:3:24: notifiers.ops.url: would tell of requests over the network unencrypted; use https`},
	{"a webhook's address carries no secret, and it is not repeated", "version: 1\nnotifiers:\n  ops: {kind: webhook, url: \"https://hooks.example.com/?sig=hunter2\"}\n", `config.yaml:3:24: notifiers.ops.url: carries a user, a query or a fragment; write the address alone; secret_env or secret_file is what the receiver knows us by`},
	{"a webhook's secret is named, and not repeated", "version: 1\nnotifiers:\n  ops: {kind: webhook, url: \"https://x.example\", secret_env: hunter-2}\n", `config.yaml:3:50: notifiers.ops.secret_env: is no name of an environment variable; name the variable that holds the secret, not the secret`},
	{"a webhook's secret does not stand here", "version: 1\nnotifiers:\n  ops: {kind: webhook, secret: hunter2}\n", `config.yaml:3:24: notifiers.ops.secret: unknown key; no secret stands in this file: use secret_env or secret_file`},
	{"a webhook has one secret", "version: 1\nnotifiers:\n  ops: {kind: webhook, url: \"https://x.example\", secret_env: A, secret_file: b}\n", `config.yaml:3:65: notifiers.ops.secret_file: stands beside secret_env; keep one of the two`},
	{"a desktop has no address", "version: 1\nnotifiers:\n  desk: {kind: desktop, url: \"https://x.example\"}\n", `config.yaml:3:25: notifiers.desk.url: means nothing to a notifier of kind desktop; such a notifier takes events, details`},
	{"a notifier's command has a program", "version: 1\nnotifiers:\n  mail: {kind: command, command: []}\n", `config.yaml:3:25: notifiers.mail.command: is empty; write the program and its arguments`},
	{"a notifier's environment variable has no value here", "version: 1\nnotifiers:\n  mail: {kind: command, command: [x], env: [A=b]}\n", `config.yaml:3:45: notifiers.mail.env[0]: is no name of an environment variable; name the variable alone; its value comes from the environment`},
	{"a notifier's plugin is declared", "version: 1\nnotifiers:\n  acme: {kind: plugin, plugin: acme}\n", `config.yaml:3:24: notifiers.acme.plugin: no plugin is named acme; declare it below plugins`},
	{"a notifier is told of something", "version: 1\nnotifiers:\n  desk: {kind: desktop, events: []}\n", `config.yaml:3:25: notifiers.desk.events: is empty; name what it is told of, or remove the notifier`},
	{"events go by name", "version: 1\nnotifiers:\n  desk: {kind: desktop, events: [asked]}\n", `config.yaml:3:34: notifiers.desk.events[0]: unknown value "asked"; use one of pending, decided, closed, notice`},
	{"an event is listed once", "version: 1\nnotifiers:\n  desk: {kind: desktop, events: [pending, pending]}\n", `config.yaml:3:43: notifiers.desk.events[1]: "pending" is listed twice; the first is at line 3`},
	{"details go by name", "version: 1\nnotifiers:\n  desk: {kind: desktop, details: full}\n", `config.yaml:3:25: notifiers.desk.details: unknown value "full"; use one of none, summary, request`},
	{"a hook's environment variable is listed once", "version: 1\nrequest_permissions:\n  before: [{command: [x], env: [A, A]}]\n", `config.yaml:3:36: request_permissions.before[0].env[1]: "A" is listed twice; the first is at line 3`},

	// Home.
	{"an address has a port", "version: 1\nserver: {http: 127.0.0.1}\n", `config.yaml:2:10: server.http: "127.0.0.1" is no address and port; write it as in 127.0.0.1:7340`},
	{"an address is written out", "version: 1\nserver: {http: \":7340\"}\n", `config.yaml:2:10: server.http: ":7340" is no address and port; write it as in 127.0.0.1:7340`},
	{"an address is of this machine alone", "version: 1\nserver: {http: \"0.0.0.0:7340\"}\n", `config.yaml:2:10: server.http: other machines can reach "0.0.0.0:7340", and the daemon listens for this machine alone; write it as in 127.0.0.1:7340`},
	{"a port is not zero", "version: 1\nserver: {http: \"127.0.0.1:0\"}\n", `config.yaml:2:10: server.http: "127.0.0.1:0" is no address and port; write it as in 127.0.0.1:7340`},
	{"an agent owns nothing", "version: 1\nprincipals: {owner: [\"agent:codex\"]}\n", `config.yaml:2:22: principals.owner[0]: an agent cannot be an owner; name a person`},
	{"an owner is no member", "version: 1\nprincipals: {owner: [a], members: {a: observer}}\n", `config.yaml:2:36: principals.members.a: is an owner too; list each principal once`},
	{"not everybody is an owner", "version: 1\nprincipals: {owner: [\"*\"]}\n", `config.yaml:2:22: principals.owner[0]: "*" is no name of a principal; name each principal in full`},

	{"the first of several faults is reported", "version: 1\nplugins: {a: {command: [x], sha256: q}}\nreviewers: {a/b: {kind: chain, members: [c/d]}}\npermissions: {reviewer_model: x}\n", `config.yaml:2:29: plugins.a.sha256: is no SHA-256 digest; write 64 hexadecimal digits; these are 1 characters`},
}

func TestParseErrors(t *testing.T) {
	for _, tc := range parseErrors {
		t.Run(tc.name, func(t *testing.T) {
			c, warnings, err := config.Parse("config.yaml", []byte(tc.text))
			if err == nil {
				t.Fatalf("no error for:\n%s", tc.text)
			}
			if c != nil || warnings != nil {
				t.Errorf("an error came with a configuration or warnings: %v, %v", c, warnings)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the message repeats a secret: %v", err)
			}
			if _, ok := errors.AsType[*config.Error](err); !ok {
				t.Errorf("the error is a %T, want a *config.Error", err)
			}
		})
	}
}

func TestParseRefusesWhatIsTooLarge(t *testing.T) {
	text := "version: 1\n#" + strings.Repeat("x", config.MaxSize-11)
	_, _, err := config.Parse("config.yaml", []byte(text))
	if want := "config.yaml:1:1: is larger than 1048576 bytes; rules and data belong in files below policy.paths"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	if _, _, err := config.Parse("config.yaml", []byte(text[:config.MaxSize])); err != nil {
		t.Errorf("a file of exactly the limit: %v", err)
	}
}

// Hostile files must not take long, nor use much memory, before they are
// refused.
func TestParseIsBounded(t *testing.T) {
	bomb := "version: 1\na0: &a0 [x, x]\n"
	for i := 1; i < 64; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	for name, text := range map[string]string{
		"an alias bomb":        bomb,
		"many open lists":      strings.Repeat("[", config.MaxSize),
		"many open mappings":   strings.Repeat("{a: ", config.MaxSize/4),
		"deep indentation":     strings.Repeat("- ", config.MaxSize/2),
		"a long line":          "version: 1\nextra: " + strings.Repeat("x", config.MaxSize/2),
		"a long key":           strings.Repeat("x", config.MaxSize/2) + ": 1",
		"many unknown names":   "version: 1\nplugins:\n" + strings.Repeat("  \"*\": {}\n", config.MaxSize/16),
		"a fault at the end":   strings.Repeat("# x\n", config.MaxSize/8) + "a: b: c",
		"a fault after a list": "version: 1\npolicy: {paths: [" + strings.Repeat("a, ", config.MaxSize/32) + "]}}",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := config.Parse("config.yaml", []byte(text))
			if err == nil {
				t.Fatal("no error")
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the message is %d bytes long: %.200s…", len(err.Error()), err)
			}
		})
	}
}

func TestParseWarns(t *testing.T) {
	plugin := "plugins: {acme: {command: [x], sha256: 6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918}}\n"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"auto_allow is fine when it is written", "permissions: {mode: auto_allow, harness_mode: auto_allow}\n", nil},
		{"model_review without a reviewer falls to people", "permissions: {mode: model_review}\n", []string{
			"config.yaml:2:15: permissions.mode: no reviewer here is named default/reviewer; while there is none, people are asked as with mode manual",
		}},
		{"a reviewer that is not there falls to people", "permissions: {mode: model_review, reviewer_model: acme/risk}\n", []string{
			"config.yaml:2:35: permissions.reviewer_model: no reviewer here is named acme/risk; while there is none, people are asked as with mode manual",
		}},
		{"a reviewer that is there does not warn", "permissions: {reviewer_model: acme/risk}\nreviewers: {acme/risk: {kind: rego, query: data.x}}\n", nil},
		{"manual needs no reviewer", "permissions: {mode: manual, reviewer_model: acme/risk}\n", nil},
		{"a review longer than its request", "permissions: {mode: manual, review_timeout_seconds: 60, request_timeout_seconds: 30}\n", []string{
			"config.yaml:2:29: permissions.review_timeout_seconds: a review may take 60 seconds, but a request waits for 30; let the request wait for longer than the review",
		}},
		{"a request shorter than the usual review", "permissions: {request_timeout_seconds: 29}\n", []string{
			"config.yaml:2:15: permissions.request_timeout_seconds: a review may take 30 seconds, but a request waits for 29; let the request wait for longer than the review",
		}},
		{"the network without hosts", "policy: {capabilities: {allow_builtins: [http.send]}}\n", []string{
			"config.yaml:2:25: policy.capabilities.allow_builtins: opens the network, but no host may be reached; name the hosts in allow_net",
		}},
		{"hosts without the network", "policy: {capabilities: {allow_net: [x.example.com]}}\n", []string{
			"config.yaml:2:25: policy.capabilities.allow_net: names hosts, but no function that reaches them is opened; name http.send in allow_builtins",
		}},
		{"a clock needs no hosts", "policy: {capabilities: {allow_builtins: [time.now_ns]}}\n", nil},
		{"a plugin that is not pinned", "plugins: {acme: {command: [x]}}\n", []string{
			"config.yaml:2:11: plugins.acme: is not pinned; write the digest of its program as sha256",
		}},
		{"a plugin that is pinned", plugin, nil},
		{"plain HTTP on this machine", "reviewers: {a/b: {kind: model, provider: openai, model: m, base_url: \"http://[::1]:80/\"}}\n", nil},
		{"an address of this machine", "server: {http: \"localhost:7340\"}\n", nil},
		{"warnings come in the order of the file", "plugins: {acme: {command: [x]}}\npermissions: {mode: model_review}\n", []string{
			"config.yaml:2:11: plugins.acme: is not pinned; write the digest of its program as sha256",
			"config.yaml:3:15: permissions.mode: no reviewer here is named default/reviewer; while there is none, people are asked as with mode manual",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, warnings, err := config.Parse("config.yaml", []byte("version: 1\n"+tc.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				got = append(got, w.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseAcceptsHarmlessVariety(t *testing.T) {
	for name, text := range map[string]string{
		"a byte order mark":         "\ufeffversion: 1\npermissions: {mode: manual}\n",
		"Windows line endings":      "version: 1\r\npermissions:\r\n  mode: manual\r\n",
		"a start and an end marker": "---\nversion: 1\npermissions: {mode: manual}\n...\n",
		"JSON":                      `{"version": 1, "permissions": {"mode": "manual"}}`,
		"no final line ending":      "version: 1\npermissions: {mode: 'manual'}",
		"text in several lines":     "version: 1\npermissions:\n  mode:\n    manual\n",
	} {
		t.Run(name, func(t *testing.T) {
			if c, _ := parse(t, text); c.Permissions.Mode != config.ModeManual {
				t.Errorf("mode = %s, want manual", c.Permissions.Mode)
			}
		})
	}
}

func TestParseBringsDigestsIntoOneForm(t *testing.T) {
	digest := "6B51D431DF5D7F141CBECECCF79EDF3DD861C3B4069F0B11661A3EEFACBBA918"
	c, _ := parse(t, "version: 1\nplugins: {p: {command: [/bin/../p], sha256: "+digest+"}}\n")
	want := map[string]config.Plugin{"p": {Command: []string{"/p"}, SHA256: strings.ToLower(digest)}}
	if diff := cmp.Diff(want, c.Plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestParseFillsInTheTimeOfHooks(t *testing.T) {
	c, _ := parse(t, "version: 1\nreviewers: {a/b: {kind: rego, query: data.x}}\n"+
		"request_permissions: {before: [{command: [x]}, {command: [/y/../z], timeout_seconds: 60}, {reviewer: a/b}, {reviewer: a/b, timeout_seconds: 60}]}\n")
	want := config.RequestPermissions{Enabled: true, Before: []config.Hook{
		{Command: []string{"/home/sam/.regent/x"}, TimeoutSeconds: 10},
		{Command: []string{"/z"}, TimeoutSeconds: 60},
		{Reviewer: "a/b"},
		{Reviewer: "a/b", TimeoutSeconds: 60},
	}}
	if diff := cmp.Diff(want, c.RequestPermissions); diff != "" {
		t.Errorf("request_permissions (-want +got):\n%s", diff)
	}
}

func TestHomeOnly(t *testing.T) {
	c, _ := parse(t, "version: 1\nledger: {driver: sqlite}\npermissions: {mode: manual}\nserver: {socket: s}\n")
	want := []config.KeyPos{{Path: "ledger", Line: 2, Column: 1}, {Path: "server", Line: 4, Column: 1}}
	if diff := cmp.Diff(want, c.HomeOnly()); diff != "" {
		t.Errorf("HomeOnly (-want +got):\n%s", diff)
	}
	if c, _ := parse(t, "version: 1\n"); len(c.HomeOnly()) != 0 {
		t.Errorf("HomeOnly of a file without such keys = %v", c.HomeOnly())
	}
	var sections []string
	for _, key := range config.Keys() {
		if key.HomeOnly && !strings.Contains(key.Path, ".") {
			sections = append(sections, key.Path)
		}
	}
	if diff := cmp.Diff([]string{"server", "principals", "notifiers", "ledger"}, sections); diff != "" {
		t.Errorf("sections that say so (-want +got):\n%s", diff)
	}
}

// lineBreak is what YAML takes for the end of a line.
var lineBreak = regexp.MustCompile("[\n\r\u0085\u2028\u2029]")

func FuzzParse(f *testing.F) {
	full, err := os.ReadFile(filepath.Join("testdata", "full.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, tc := range parseErrors {
		f.Add([]byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := config.Parse("config.yaml", data)
		if err != nil {
			fault, ok := errors.AsType[*config.Error](err)
			if !ok || c != nil {
				t.Fatalf("Parse = %v, %T", c, err)
			}
			lines := 1 + len(lineBreak.FindAllIndex(data, -1))
			if fault.Line < 1 || fault.Line > lines+1 || fault.Column < 1 {
				t.Errorf("%v is outside the file of %d lines", fault, lines)
			}
			if text := fault.Error(); len(text) > 2000 || strings.Contains(text, "\n") || !utf8.ValidString(text) {
				t.Errorf("message is unfit to print: %q", text)
			}
			return
		}
		p := c.Permissions
		if c.Version != 1 || p.ReviewTimeoutSeconds < 1 || p.RequestTimeoutSeconds < 1 || c.Policy.EvaluationTimeoutMS < 1 {
			t.Errorf("a value is out of range in %+v", c)
		}
		if !slices.Contains([]config.Mode{config.ModeManual, config.ModeAutoAllow, config.ModeModelReview}, p.Mode) {
			t.Errorf("mode = %q", p.Mode)
		}
		for _, path := range c.Policy.Paths {
			if !filepath.IsAbs(path) {
				t.Errorf("policy path %q is relative", path)
			}
		}
	})
}
