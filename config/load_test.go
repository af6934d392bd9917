package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
)

// tree writes files below a new folder and returns it. A name that ends in a
// slash is an empty folder; a text of the form "-> x" makes a symbolic link to
// x; files in a folder called bin are executable, and secrets are for their
// owner alone.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		switch filepath.Base(filepath.Dir(path)) {
		case "bin":
			mode = 0o755
		case "secrets":
			mode = 0o600
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, path)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadChecksTheFilesReferredTo(t *testing.T) {
	for _, tc := range []struct {
		name  string
		text  string
		files map[string]string
		want  string // the error after "DIR/config.yaml:", with DIR for the folder
	}{
		{"a policy path exists", "policy: {paths: [policies, rules]}\n", map[string]string{"policies/": ""}, "2:28: policy.paths[1]: DIR/rules does not exist; create it or remove it here"},
		{"a link to nowhere does not exist", "policy: {paths: [rules]}\n", map[string]string{"rules": "-> gone"}, "2:18: policy.paths[0]: DIR/rules does not exist; create it or remove it here"},
		{"a policy file has a known ending", "policy: {paths: [rules.txt]}\n", map[string]string{"rules.txt": ""}, "2:18: policy.paths[0]: DIR/rules.txt is not a folder and not a file that ends in .rego, .json, .yaml, .yml, .tar.gz"},
		{"an organization exists", "policy: {organization: {path: org}}\n", nil, "2:25: policy.organization.path: DIR/org does not exist; create it or remove it here"},
		{"an organization is no single rule", "policy: {organization: {path: org.rego}}\n", map[string]string{"org.rego": ""}, "2:25: policy.organization.path: DIR/org.rego is not a folder and not a file that ends in .tar.gz"},
		{"a plugin's program exists", "plugins: {acme: {command: [bin/acme]}}\n", nil, "2:28: plugins.acme.command[0]: DIR/bin/acme does not exist; programs are not looked up in PATH: write the path of this one"},
		{"a program is not looked up", "reviewers: {a/b: {kind: command, command: [sh, -c, exit]}}\n", nil, "2:44: reviewers.a/b.command[0]: DIR/sh does not exist; programs are not looked up in PATH: write the path of this one"},
		{"a program is a file", "reviewers: {a/b: {kind: command, command: [bin]}}\n", map[string]string{"bin/x": ""}, "2:44: reviewers.a/b.command[0]: DIR/bin is not a program"},
		{"a program is executable", "plugins: {acme: {command: [acme]}}\n", map[string]string{"acme": ""}, "2:28: plugins.acme.command[0]: DIR/acme is not executable; run chmod +x on it"},
		{"a hook's program exists", "request_permissions:\n  before: [{command: [bin/screen]}]\n", nil, "3:23: request_permissions.before[0].command[0]: DIR/bin/screen does not exist; programs are not looked up in PATH: write the path of this one"},
		{"a hook's program is not looked up", "request_permissions:\n  after: [{command: [sh]}]\n", nil, "3:22: request_permissions.after[0].command[0]: DIR/sh does not exist; programs are not looked up in PATH: write the path of this one"},
		{"a hook's program is a file", "request_permissions:\n  before: [{command: [bin]}]\n", map[string]string{"bin/x": ""}, "3:23: request_permissions.before[0].command[0]: DIR/bin is not a program"},
		{"a hook's program is executable", "request_permissions:\n  before: [{command: [bin/x]}]\n  after: [{command: [tell]}]\n", map[string]string{"bin/x": "", "tell": ""}, "4:22: request_permissions.after[0].command[0]: DIR/tell is not executable; run chmod +x on it"},
		{"a key file exists", "reviewers: {a/b: {kind: model, provider: openai, model: m, api_key_file: key}}\n", nil, "2:60: reviewers.a/b.api_key_file: DIR/key does not exist"},
		{"a key file is a file", "reviewers: {a/b: {kind: model, provider: openai, model: m, api_key_file: secrets}}\n", map[string]string{"secrets/x": ""}, "2:60: reviewers.a/b.api_key_file: DIR/secrets is not a file"},
		{"certificates exist", "reviewers: {a/b: {kind: model, provider: openai, model: m, ca_file: g}}\n", nil, "2:60: reviewers.a/b.ca_file: DIR/g does not exist"},
		{"certificates are a file", "reviewers: {a/b: {kind: model, provider: openai, model: m, ca_file: g}}\n", map[string]string{"g/x": ""}, "2:60: reviewers.a/b.ca_file: DIR/g is not a file"},
		{"a notifier's program exists", "notifiers: {a: {kind: command, command: [bin/a]}}\n", nil, "2:42: notifiers.a.command[0]: DIR/bin/a does not exist; programs are not looked up in PATH: write the path of this one"},
		{"a secret of a webhook exists", "notifiers: {a: {kind: webhook, url: \"https://x.example\", secret_file: s}}\n", nil, "2:58: notifiers.a.secret_file: DIR/s does not exist"},
		{"certificates of a webhook exist", "notifiers: {a: {kind: webhook, url: \"https://x.example\", secret_env: S, ca_file: c}}\n", nil, "2:73: notifiers.a.ca_file: DIR/c does not exist"},
		{"guidance exists", "reviewers: {a/b: {kind: model, provider: openai, model: m, guidance_file: g}}\n", nil, "2:60: reviewers.a/b.guidance_file: DIR/g does not exist"},
		{"guidance is a file", "reviewers: {a/b: {kind: model, provider: openai, model: m, guidance_file: g}}\n", map[string]string{"g/x": ""}, "2:60: reviewers.a/b.guidance_file: DIR/g is not a file"},
		{"guidance says something", "reviewers: {a/b: {kind: model, provider: openai, model: m, guidance_file: g}}\n", map[string]string{"g": " \n"}, "2:60: reviewers.a/b.guidance_file: DIR/g is empty"},
		{"guidance is text", "reviewers: {a/b: {kind: model, provider: openai, model: m, guidance_file: g}}\n", map[string]string{"g": "\xff"}, "2:60: reviewers.a/b.guidance_file: DIR/g is not UTF-8"},
		{"guidance hides nothing", "reviewers: {a/b: {kind: model, provider: openai, model: m, guidance_file: g}}\n", map[string]string{"g": "be \u202estrict"}, "2:60: reviewers.a/b.guidance_file: DIR/g holds the character U+202E; leave out what cannot be seen"},
		{"guidance is bounded", "reviewers: {a/b: {kind: model, provider: openai, model: m, guidance_file: g}}\n", map[string]string{"g": strings.Repeat("x", config.MaxGuidance+1)}, "2:60: reviewers.a/b.guidance_file: DIR/g is longer than 16384 bytes"},
		{"the usual folder of policies is a folder", "", map[string]string{"policies": ""}, "1:1: policy.paths: DIR/policies is not a folder; rename it, or write policy.paths"},
		{"the usual folder of policies is there, if linked to", "policy: {test_before_load: true}\n", map[string]string{"policies": "-> gone"}, "2:1: policy.paths: DIR/policies does not exist; repair it, or write policy.paths"},
		{"the first of two missing files is reported", "plugins: {acme: {command: [bin/acme]}}\npolicy: {paths: [rules]}\n", nil, "2:28: plugins.acme.command[0]: DIR/bin/acme does not exist; programs are not looked up in PATH: write the path of this one"},
		{"a fault of the text comes first", "policy: {paths: [rules], evaluation_timeout_ms: 0}\n", nil, "2:26: policy.evaluation_timeout_ms: 0 is out of range; use 1 to 10000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{"config.yaml": "version: 1\n" + tc.text}
			for name, text := range tc.files {
				files[name] = text
			}
			dir := tree(t, files)
			c, _, err := config.Load(filepath.Join(dir, "config.yaml"))
			if err == nil {
				t.Fatalf("no error, but %+v", c)
			}
			got := strings.ReplaceAll(err.Error(), dir, "DIR")
			if diff := cmp.Diff("DIR/config.yaml:"+tc.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadAcceptsTheFilesReferredTo(t *testing.T) {
	dir := tree(t, map[string]string{
		"config.yaml": "version: 1\n" +
			"policy: {paths: [policies, one.rego, data.json, more.yml, linked], organization: {path: org.tar.gz}}\n" +
			"plugins: {acme: {command: [bin/acme]}}\n" +
			"reviewers:\n" +
			"  a/m: {kind: model, provider: openai, model: m, api_key_file: secrets/key}\n" +
			"  a/c: {kind: command, command: [bin/check]}\n" +
			"request_permissions: {before: [{command: [bin/screen]}], after: [{command: [bin/tell]}, {reviewer: a/c}]}\n",
		"bin/screen": "", "bin/tell": "",
		"policies/": "", "one.rego": "", "data.json": "", "more.yml": "", "linked": "-> policies", "org.tar.gz": "",
		"bin/acme": "", "bin/check": "", "secrets/key": "",
	})
	c, warnings, err := config.Load(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		filepath.Join(dir, "policies"), filepath.Join(dir, "one.rego"), filepath.Join(dir, "data.json"),
		filepath.Join(dir, "more.yml"), filepath.Join(dir, "linked"),
	}
	if diff := cmp.Diff(want, c.Policy.Paths); diff != "" {
		t.Errorf("policy paths (-want +got):\n%s", diff)
	}
	if len(warnings) != 1 || warnings[0].Path != "plugins.acme" {
		t.Errorf("warnings = %v, want one about the plugin that is not pinned", warnings)
	}
}

func TestLoadReadsGuidance(t *testing.T) {
	const text = "Nothing is\tpublished on a Friday.\n\nAsk.\n"
	dir := tree(t, map[string]string{
		"config.yaml": "version: 1\nreviewers: {a/b: {kind: model, provider: openai, model: m, guidance_file: g.md}}\n",
		"g.md":        strings.ReplaceAll(text, "\n", "\r\n"),
	})
	c, _, err := config.Load(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Reviewer{
		Kind: "model", Provider: "openai", Model: "m", Guidance: text, GuidanceFile: filepath.Join(dir, "g.md"),
	}
	if diff := cmp.Diff(want, c.Reviewers["a/b"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadWarnsOfFilesOthersReach(t *testing.T) {
	dir := tree(t, map[string]string{
		"config.yaml": "version: 1\nreviewers:\n" +
			"  a/m: {kind: model, provider: openai, model: m, api_key_file: key}\n" +
			"  a/c: {kind: command, command: [bin/check]}\n" +
			"request_permissions: {after: [{command: [bin/tell]}]}\n" +
			"notifiers: {ops: {kind: webhook, url: \"https://x.example\", secret_file: key}, raw: {kind: webhook, url: \"https://x.example\"}}\n",
		"key": "", "bin/check": "", "bin/tell": "",
	})
	for _, program := range []string{"bin/check", "bin/tell"} {
		if err := os.Chmod(filepath.Join(dir, program), 0o777); err != nil { //nolint:gosec // the mode is what is tested
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "key"), 0o640); err != nil {
		t.Fatal(err)
	}
	_, warnings, err := config.Load(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.Path+": "+strings.ReplaceAll(w.Message, dir, "DIR"))
	}
	want := []string{
		"reviewers.a/m.api_key_file: others can read DIR/key",
		"reviewers.a/c.command[0]: anyone can change DIR/bin/check",
		"request_permissions.after[0].command[0]: anyone can change DIR/bin/tell",
		"notifiers.ops.secret_file: others can read DIR/key",
		"notifiers.raw: is not signed, so that its receiver cannot tell who sends",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestLoadTakesPoliciesOnlyWhereThereAreSome(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		files      map[string]string
		want       []string
	}{
		{"the folder counts without being named", "version: 1\n", map[string]string{"policies/a.rego": ""}, []string{"policies"}},
		{"without the folder there are none", "version: 1\n", nil, nil},
		{"an empty list means none", "version: 1\npolicy: {paths: []}\n", map[string]string{"policies/a.rego": ""}, nil},
		{"a list that is written replaces the folder", "version: 1\npolicy: {paths: [rules]}\n", map[string]string{"policies/a.rego": "", "rules/b.rego": ""}, []string{"rules"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{"config.yaml": tc.text}
			for name, text := range tc.files {
				files[name] = text
			}
			dir := tree(t, files)
			c, _, err := config.Load(filepath.Join(dir, "config.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, path := range c.Policy.Paths {
				rel, err := filepath.Rel(dir, path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rel)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("policy paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadStartsPathsAtTheFolderOfTheLink(t *testing.T) {
	dir := tree(t, map[string]string{
		"ws/config.yaml": "-> ../real/config.yaml", "real/config.yaml": "version: 1\npolicy: {paths: [policies]}\n",
		"ws/policies/a.rego": "",
	})
	c, _, err := config.Load(filepath.Join(dir, "ws", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "ws", "policies")}, c.Policy.Paths); diff != "" {
		t.Errorf("policy paths (-want +got):\n%s", diff)
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	dir := tree(t, map[string]string{"folder/": "", "loop": "-> loop", "gone": "-> nowhere"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"missing": "does not exist",
		"gone":    "does not exist",
		"folder":  "is not a file; name the config.yaml itself",
		"pipe":    "is not a file; name the config.yaml itself",
		"loop":    "cannot be read: too many levels of symbolic links",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			_, _, err := config.Load(path)
			fault, ok := errors.AsType[*config.Error](err)
			if !ok {
				t.Fatalf("error = %v, want a *config.Error", err)
			}
			if diff := cmp.Diff(path+": "+want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if fault.Line != 0 {
				t.Errorf("line = %d, want 0 where nothing was read", fault.Line)
			}
			if missing := want == "does not exist"; errors.Is(err, fs.ErrNotExist) != missing {
				t.Errorf("errors.Is(err, fs.ErrNotExist) = %t, want %t", !missing, missing)
			}
		})
	}
}

func TestLoadHome(t *testing.T) {
	t.Run("a home without a file has the defaults", func(t *testing.T) {
		dir := tree(t, map[string]string{"policies/a.rego": ""})
		got, warnings, err := config.LoadHome(dir)
		if err != nil || len(warnings) != 0 {
			t.Fatalf("LoadHome = %v, %v", warnings, err)
		}
		want := config.Default(dir)
		want.Path = filepath.Join(dir, "config.yaml")
		want.Policy.Paths = []string{filepath.Join(dir, "policies")}
		if diff := cmp.Diff(want, got, settings); diff != "" {
			t.Errorf("LoadHome (-want +got):\n%s", diff)
		}
	})
	t.Run("a home that does not exist has the defaults", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "none")
		got, _, err := config.LoadHome(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got.Permissions.Mode != config.ModeModelReview || got.Dir != dir {
			t.Errorf("LoadHome = %+v", got)
		}
	})
	t.Run("a file that is there is read", func(t *testing.T) {
		dir := tree(t, map[string]string{"config.yaml": "version: 1\npermissions: {mode: manual}\n"})
		got, _, err := config.LoadHome(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got.Permissions.Mode != config.ModeManual {
			t.Errorf("mode = %s, want manual", got.Permissions.Mode)
		}
	})
	t.Run("a link to nowhere is no missing file", func(t *testing.T) {
		dir := tree(t, map[string]string{"config.yaml": "-> gone"})
		if c, _, err := config.LoadHome(dir); err == nil {
			t.Errorf("LoadHome = %+v, want an error", c)
		}
	})
	t.Run("an emptied file is no missing file", func(t *testing.T) {
		dir := tree(t, map[string]string{"config.yaml": ""})
		if c, _, err := config.LoadHome(dir); err == nil {
			t.Errorf("LoadHome = %+v, want an error", c)
		}
	})
	t.Run("policies that are no folder are a fault", func(t *testing.T) {
		dir := tree(t, map[string]string{"policies": ""})
		_, _, err := config.LoadHome(dir)
		want := filepath.Join(dir, "config.yaml") + ": policy.paths: " + filepath.Join(dir, "policies") + " is not a folder; rename it, or write policy.paths"
		if err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	})
}
