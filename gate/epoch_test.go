package gate_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// files are written below a new folder; names end in / for empty folders.
func files(t testing.TB, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		at := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	allowEcho = "package %s.one\n\n# METADATA\n# title: Echo\n# custom: {id: ONE}\nallow contains \"echo is fine\" if input.request.command.text == \"echo hi\"\n"
	denyRm    = "package %s.two\n\n# METADATA\n# title: No rm\n# custom: {id: TWO}\ndeny contains \"no rm\" if input.request.command.text == \"rm x\"\n"
)

func below(root, rule string) string { return strings.Replace(rule, "%s", root, 1) }

func command(text string) *approval.Request {
	return &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: text}}
}

func read(t testing.TB, o gate.Options) *gate.Setup {
	t.Helper()
	s, err := gate.Read(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t testing.TB, o gate.Options) *gate.Epoch {
	t.Helper()
	return compile(t, read(t, o))
}

// compile gives the rules the time that they may need on a busy machine.
func compile(t testing.TB, s *gate.Setup) *gate.Epoch {
	t.Helper()
	s.Source.Settings.Timeout = 10 * time.Second
	e, err := s.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSettingsOfDefaultsAreTheEnginesDefaults(t *testing.T) {
	want := rego.DefaultSettings()
	got := gate.Settings(config.Default(""))
	want.AllowBuiltins, want.AllowNet = []string{}, []string{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestEveryGranularSwitchReachesTheRules(t *testing.T) {
	fields := reflect.TypeFor[config.Granular]()
	for i := range fields.NumField() {
		key, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		t.Run(key, func(t *testing.T) {
			var g config.Granular
			reflect.ValueOf(&g).Elem().Field(i).SetBool(true)
			c := config.Default("")
			c.ApprovalPolicy = config.ApprovalPolicy{Granular: &g}
			s := gate.Settings(c)
			if s.ApprovalPolicy != "granular" || len(s.Granular) != fields.NumField() {
				t.Fatalf("policy %q with %d switches, want granular with %d", s.ApprovalPolicy, len(s.Granular), fields.NumField())
			}
			for name, on := range s.Granular {
				if on != (name == key) {
					t.Errorf("%s is %t", name, on)
				}
			}
		})
	}
}

func TestSettingsOf(t *testing.T) {
	const home = "version: 1\npermissions: {mode: manual, request_timeout_seconds: 300, trusted_mcp_servers: [docs]}\n"
	tests := []struct {
		name      string
		workspace string
		trusted   bool
		want      func(*rego.Settings)
		refused   []string
	}{
		{
			name:      "a workspace that writes nothing has the home's settings",
			workspace: "version: 1\n",
			trusted:   true,
			want:      func(*rego.Settings) {},
		},
		{
			name:      "a trusted workspace's written keys win over the home's",
			workspace: "version: 1\npermissions: {mode: auto_allow, read_only_commands: skip}\npolicy: {evaluation_timeout_ms: 200}\n",
			trusted:   true,
			want: func(s *rego.Settings) {
				s.Mode, s.ReadOnlyCommands, s.Timeout = "auto_allow", "skip", 200e6
			},
		},
		{
			name:      "a found workspace does not loosen",
			workspace: "version: 1\npermissions: {mode: auto_allow, read_only_commands: skip, trusted_mcp_servers: [docs, evil]}\n",
			want:      func(*rego.Settings) {},
			refused:   []string{"permissions.mode", "permissions.read_only_commands", "permissions.trusted_mcp_servers"},
		},
		{
			name:      "a found workspace tightens",
			workspace: "version: 1\npermissions: {trusted_mcp_servers: []}\napproval_policy: never\n",
			want: func(s *rego.Settings) {
				s.ApprovalPolicy, s.TrustedMCPServers = "never", []string{}
			},
		},
		{
			name:      "what is the home's to say has no effect in a trusted workspace",
			workspace: "version: 1\nserver: {http: \"127.0.0.1:1\"}\n",
			trusted:   true,
			want:      func(*rego.Settings) {},
			refused:   []string{"server"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := files(t, map[string]string{"home/config.yaml": home, "w/config.yaml": tt.workspace})
			s := read(t, gate.Options{Home: filepath.Join(root, "home"), Workspace: filepath.Join(root, "w"), Trusted: tt.trusted})
			want := gate.Settings(config.Default(""))
			want.Mode, want.RequestSeconds, want.TrustedMCPServers = "manual", 300, []string{"docs"}
			tt.want(&want)
			if diff := cmp.Diff(want, s.Source.Settings); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			var refused []string
			for _, l := range s.Refused {
				refused = append(refused, l.Path)
			}
			if diff := cmp.Diff(tt.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if s.Trusted != tt.trusted || s.Dir != filepath.Join(root, "w") {
				t.Errorf("dir %s, trusted %t", s.Dir, s.Trusted)
			}
		})
	}
}

func TestWithoutHomeAndWorkspaceThereAreTheDefaults(t *testing.T) {
	e := load(t, gate.Options{})
	if e.Dir != "" || e.Trusted || len(e.Warnings)+len(e.Refused) > 0 {
		t.Errorf("setup = %+v", e.Setup)
	}
	if got := e.Policy.Rule(t.Context(), command("rm x")); got.Route != approval.RouteAsk || got.Epoch != e.ID {
		t.Errorf("ruling = %+v, want ask by epoch %s", got, e.ID)
	}
}

func TestHomeNeedNoConfig(t *testing.T) {
	root := files(t, map[string]string{"home/policies/two.rego": below("home.rules", denyRm)})
	e := load(t, gate.Options{Home: filepath.Join(root, "home")})
	if got := e.Policy.Rule(t.Context(), command("rm x")); got.Route != approval.RouteDeny {
		t.Errorf("route = %s, want deny by the home's own rule", got.Route)
	}
	load(t, gate.Options{Home: filepath.Join(root, "nowhere")})
}

func TestAllowRulesCountByTrust(t *testing.T) {
	root := files(t, map[string]string{
		"w/config.yaml":        "version: 1\n",
		"w/policies/one.rego":  below("rules", allowEcho),
		"w/policies/two.rego":  below("rules", denyRm),
		"home/policies/x.json": "{}",
	})
	for _, tt := range []struct {
		name    string
		trusted bool
		text    string
		want    approval.Route
	}{
		{"a trusted workspace allows", true, "echo hi", approval.RouteAllow},
		{"a found workspace does not allow", false, "echo hi", approval.RouteAsk},
		{"a found workspace denies", false, "rm x", approval.RouteDeny},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := load(t, gate.Options{Home: filepath.Join(root, "home"), Workspace: filepath.Join(root, "w"), Trusted: tt.trusted})
			if got := e.Policy.Rule(t.Context(), command(tt.text)); got.Route != tt.want {
				t.Errorf("route = %s, want %s: %v", got.Route, tt.want, got.Reasons)
			}
		})
	}
}

func TestWorkspaceIsNamedByItselfOrItsProject(t *testing.T) {
	root := files(t, map[string]string{
		"project/.regent/config.yaml": "version: 1\n",
		"empty/":                      "",
	})
	want := filepath.Join(root, "project/.regent")
	for _, named := range []string{"project", "project/.regent", "project/.regent/"} {
		if s := read(t, gate.Options{Workspace: filepath.Join(root, named)}); s.Dir != want {
			t.Errorf("%s: dir = %s, want %s", named, s.Dir, want)
		}
	}
	for _, named := range []string{"empty", "nowhere"} {
		if _, err := gate.Read(gate.Options{Workspace: filepath.Join(root, named)}); !errors.Is(err, gate.ErrNoWorkspace) {
			t.Errorf("%s: error = %v, want ErrNoWorkspace", named, err)
		}
	}
}

func TestHomeNamedAsWorkspaceIsOneLayer(t *testing.T) {
	root := files(t, map[string]string{
		"home/config.yaml":       "version: 1\n",
		"home/policies/two.rego": below("home.rules", denyRm),
	})
	home := filepath.Join(root, "home")
	link := filepath.Join(root, "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	for _, workspace := range []string{home, link} {
		s := read(t, gate.Options{Home: home, Workspace: workspace, Trusted: true})
		if len(s.Source.Layers) != 1 || s.Source.Layers[0].Name != rego.Home || s.Dir != "" {
			t.Errorf("layers = %+v, dir %q, want the home alone", s.Source.Layers, s.Dir)
		}
	}
}

func TestOrganization(t *testing.T) {
	root := files(t, map[string]string{
		"home/config.yaml":  "version: 1\npolicy: {organization: {path: ../org}}\n",
		"org/two.rego":      below("org.rules", denyRm),
		"other/one.rego":    below("org.rules", allowEcho),
		"w/config.yaml":     "version: 1\npolicy: {organization: {path: ../other}}\n",
		"plain/config.yaml": "version: 1\n",
	})
	at := func(name string) string { return filepath.Join(root, name) }
	tests := []struct {
		name    string
		options gate.Options
		want    string
	}{
		{"the home's stands", gate.Options{Home: at("home")}, "org"},
		{"a named one takes its place", gate.Options{Home: at("home"), Organization: at("other")}, "other"},
		{"a trusted workspace does not replace the home's", gate.Options{Home: at("home"), Workspace: at("w"), Trusted: true}, "org"},
		{"a trusted workspace may name one where the home has none", gate.Options{Home: at("nowhere"), Workspace: at("w"), Trusted: true}, "other"},
		{"a found workspace names none", gate.Options{Home: at("nowhere"), Workspace: at("w")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := read(t, tt.options)
			first := s.Source.Layers[0]
			if tt.want == "" {
				if first.Name == rego.Organization {
					t.Errorf("layers = %+v, want no organization", s.Source.Layers)
				}
				return
			}
			if first.Name != rego.Organization || !slices.Equal(first.Paths, []string{at(tt.want)}) || first.Untrusted {
				t.Errorf("first layer = %+v, want the organization in %s", first, tt.want)
			}
		})
	}
	if _, err := gate.Load(t.Context(), gate.Options{Organization: at("nowhere")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing organization: error = %v, want that it does not exist", err)
	}
}

func TestProtectedFiles(t *testing.T) {
	root := files(t, map[string]string{
		"home/config.yaml": "version: 1\nnotifiers: {mail: {kind: command, command: [bin/mail]}}\n",
		"home/bin/mail":    "#!/bin/sh\n",
		"w/config.yaml": "version: 1\nplugins: {acme: {command: [bin/acme]}}\nreviewers: {acme/checks: {kind: command, command: [bin/checks]}}\n" +
			"request_permissions: {before: [{reviewer: acme/checks}, {command: [bin/screen]}], after: [{command: [bin/tell]}]}\n",
		"w/bin/screen": "#!/bin/sh\n",
		"w/bin/tell":   "#!/bin/sh\n",
		"w/bin/acme":   "#!/bin/sh\n",
		"w/bin/checks": "#!/bin/sh\n",
	})
	at := func(name string) string { return filepath.Join(root, name) }
	s := read(t, gate.Options{Home: at("home"), Workspace: at("w"), Trusted: true})
	for _, want := range []string{"home/config.yaml", "home/bin/mail", "home/runtime/runtime.db", "w/config.yaml", "w/bin/acme", "w/bin/checks", "w/bin/screen", "w/bin/tell"} {
		if !slices.Contains(s.Source.Protected, at(want)) {
			t.Errorf("%s is not protected; protected are %v", want, s.Source.Protected)
		}
	}
	e := compile(t, s)
	r := command("echo 'version: 1' > " + at("home/config.yaml"))
	r.Environment = &approval.Environment{Cwd: root}
	if got := e.Policy.Rule(t.Context(), r); got.Route != approval.RouteAsk || !strings.Contains(strings.Join(got.Reasons, "\n"), "config.yaml") {
		t.Errorf("a write to a config.yaml that is not there yet: %s %v, want ask because of it", got.Route, got.Reasons)
	}
}

func TestFaultsPointAtTheFile(t *testing.T) {
	root := files(t, map[string]string{
		"home/config.yaml":    "version: 2\n",
		"w/config.yaml":       "version: 1\nmode: manual\n",
		"bad/config.yaml":     "version: 1\n",
		"bad/policies/x.rego": "package rules.x\n\ndeny contains \"x\" if {\n\tnonsense\n}\n",
	})
	for _, tt := range []struct {
		name string
		o    gate.Options
	}{
		{"home", gate.Options{Home: filepath.Join(root, "home")}},
		{"workspace", gate.Options{Workspace: filepath.Join(root, "w"), Trusted: true}},
		{"found workspace", gate.Options{Workspace: filepath.Join(root, "w")}},
	} {
		_, err := gate.Load(t.Context(), tt.o)
		if fault, ok := errors.AsType[*config.Error](err); !ok || fault.Line == 0 {
			t.Errorf("%s: error = %v, want a *config.Error with a line", tt.name, err)
		}
	}
	_, err := gate.Load(t.Context(), gate.Options{Workspace: filepath.Join(root, "bad")})
	if load, ok := errors.AsType[*rego.LoadError](err); !ok || load.Problems[0].File != "policies/x.rego" || load.Problems[0].Line != 4 {
		t.Errorf("error = %v, want a *rego.LoadError at policies/x.rego:4", err)
	}
}

func TestEpochIsNamedByContent(t *testing.T) {
	content := map[string]string{"w/config.yaml": "version: 1\n", "w/policies/two.rego": below("rules", denyRm)}
	id := func(trusted bool) string {
		return load(t, gate.Options{Workspace: filepath.Join(files(t, content), "w"), Trusted: trusted}).ID
	}
	first := id(true)
	if len(first) != 64 || first != id(true) {
		t.Errorf("the same files in another place have another epoch than %s", first)
	}
	if first == id(false) {
		t.Error("trust does not change the epoch")
	}
	content["w/policies/two.rego"] += "# changed\n"
	if first == id(true) {
		t.Error("another rule does not change the epoch")
	}
}

func TestEpochIsNamedByHooks(t *testing.T) {
	const reviewer = "version: 1\nreviewers: {acme/checks: {kind: model, provider: openai, model: small-model}}\n"
	id := func(home, workspace string) string {
		root := files(t, map[string]string{
			"home/config.yaml": home, "home/bin/screen": "#!/bin/sh\n",
			"w/config.yaml": workspace, "w/bin/screen": "#!/bin/sh\n", "w/bin/tell": "#!/bin/sh\n",
		})
		at := filepath.Join(root, "w")
		if err := os.WriteFile(filepath.Join(at, "config.yaml"), []byte(strings.ReplaceAll(workspace, "DIR", at)), 0o644); err != nil {
			t.Fatal(err)
		}
		return load(t, gate.Options{Home: filepath.Join(root, "home"), Workspace: at, Trusted: true}).ID
	}
	hooks := func(text string) string { return reviewer + "request_permissions: " + text + "\n" }
	homes := func(text string) string {
		if text == "" {
			return reviewer
		}
		return text
	}
	const first = "{before: [{command: [bin/screen, -v]}], after: [{command: [bin/tell]}]}"
	for _, tt := range []struct {
		name           string
		before, after  string // the workspace's file
		home, thenHome string // that of the home, where it is not empty
		same           bool
	}{
		{name: "the same hooks in another place", before: hooks(first), after: hooks(first), same: true},
		{name: "the same hooks in other words", before: hooks(first), after: hooks("{enabled: true, before: [{command: [./bin/screen, -v], timeout_seconds: 10}], after: [{command: [bin/tell], env: []}]}"), same: true},
		{name: "the defaults written out", before: reviewer, after: hooks("{enabled: true, before: [], after: []}"), same: true},
		{name: "the tool is switched off", before: reviewer, after: hooks("{enabled: false}")},
		{name: "the first hook", before: "version: 1\n", after: "version: 1\nrequest_permissions: {before: [{command: [bin/screen]}]}\n"},
		{name: "another program", before: hooks("{before: [{command: [bin/screen]}]}"), after: hooks("{before: [{command: [bin/tell]}]}")},
		{name: "another argument", before: hooks(first), after: hooks("{before: [{command: [bin/screen]}], after: [{command: [bin/tell]}]}")},
		{name: "another time", before: hooks("{after: [{command: [bin/tell]}]}"), after: hooks("{after: [{command: [bin/tell], timeout_seconds: 11}]}")},
		{name: "another environment", before: hooks("{after: [{command: [bin/tell]}]}"), after: hooks("{after: [{command: [bin/tell], env: [A]}]}")},
		{name: "a reviewer in place of a program", before: hooks("{after: [{command: [bin/tell]}]}"), after: hooks("{after: [{reviewer: acme/checks}]}")},
		{name: "before instead of after", before: hooks("{after: [{command: [bin/tell]}]}"), after: hooks("{before: [{command: [bin/tell]}]}")},
		{name: "another order", before: hooks("{before: [{command: [bin/tell]}, {command: [bin/screen]}]}"), after: hooks("{before: [{command: [bin/screen]}, {command: [bin/tell]}]}")},
		{
			name: "the program of that name in another folder", before: reviewer, after: hooks("{before: [{command: [bin/screen]}]}"),
			home: hooks("{before: [{command: [bin/screen]}]}"), thenHome: reviewer,
		},
		{name: "an argument that looks like a path made relative", before: hooks("{before: [{command: [bin/screen, DIR/x]}]}"), after: hooks("{before: [{command: [bin/screen, x]}]}")},
		{name: "a folder within the path of another", before: hooks("{before: [{command: [bin/screen, /etcDIR/x]}]}"), after: hooks("{before: [{command: [bin/screen, /etcx]}]}")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one, other := id(homes(tt.home), tt.before), id(homes(tt.thenHome), tt.after)
			if (one == other) != tt.same {
				t.Errorf("epochs %s and %s: the same %t, want %t", one, other, one == other, tt.same)
			}
		})
	}
}

func TestFoundWorkspaceBringsNoHook(t *testing.T) {
	const hooks = "version: 1\nrequest_permissions: {enabled: %s, before: [{command: [bin/screen]}], after: [{command: [bin/tell]}]}\n"
	root := files(t, map[string]string{
		"home/config.yaml": strings.Replace(hooks, "%s", "true", 1), "home/bin/screen": "#!/bin/sh\n", "home/bin/tell": "#!/bin/sh\n",
		"w/config.yaml": strings.Replace(hooks, "%s", "false", 1), "w/bin/screen": "#!/bin/sh\n", "w/bin/tell": "#!/bin/sh\n",
	})
	at := func(name string) config.Hook {
		return config.Hook{Command: []string{filepath.Join(root, name)}, TimeoutSeconds: 10}
	}
	for _, tt := range []struct {
		name    string
		trusted bool
		want    config.RequestPermissions
		refused []string
	}{
		{"a trusted workspace adds its own", true, config.RequestPermissions{
			Before: []config.Hook{at("home/bin/screen"), at("w/bin/screen")},
			After:  []config.Hook{at("home/bin/tell"), at("w/bin/tell")},
		}, nil},
		{"a found workspace switches off and brings none", false, config.RequestPermissions{
			Before: []config.Hook{at("home/bin/screen")},
			After:  []config.Hook{at("home/bin/tell")},
		}, []string{"request_permissions.before[0]", "request_permissions.after[0]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := read(t, gate.Options{Home: filepath.Join(root, "home"), Workspace: filepath.Join(root, "w"), Trusted: tt.trusted})
			if diff := cmp.Diff(tt.want, s.Config.RequestPermissions); diff != "" {
				t.Errorf("request_permissions (-want +got):\n%s", diff)
			}
			var refused []string
			for _, l := range s.Refused {
				refused = append(refused, l.Path)
			}
			if diff := cmp.Diff(tt.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if slices.Contains(s.Source.Protected, filepath.Join(root, "w/bin/screen")) != tt.trusted {
				t.Errorf("protected are %v", s.Source.Protected)
			}
		})
	}
}

func TestFind(t *testing.T) {
	root := files(t, map[string]string{
		".regent/config.yaml":         "version: 1\n",
		"project/.regent/config.yaml": "version: 1\n",
		"project/src/":                "",
		"elsewhere/":                  "",
	})
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(root, name) }
	for _, tt := range []struct {
		name    string
		folders []string
		want    string
	}{
		{"the nearest above the call", []string{at("project/src"), at("elsewhere")}, at("project/.regent")},
		{"a call's folder that does not exist here", []string{"/no/such/folder", at("project/src")}, at("project/.regent")},
		{"a call without a folder", []string{"", at("project")}, at("project/.regent")},
		{"the home is no workspace", []string{at("elsewhere")}, ""},
		{"nowhere", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := gate.Find(at(".regent"), tt.folders...)
			if err != nil || got != tt.want || ok != (tt.want != "") {
				t.Errorf("Find = %q, %t, %v, want %q", got, ok, err, tt.want)
			}
		})
	}
}
