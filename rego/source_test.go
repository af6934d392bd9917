package rego_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// bundle packs files as `opa build` does.
func bundle(t *testing.T, files map[string]string) string {
	t.Helper()
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	packed := tar.NewWriter(zipped)
	for name, text := range files {
		if err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := packed.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(packed.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(t.TempDir(), "rules.tar.gz")
	if err := os.WriteFile(p, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func layer(t *testing.T, l rego.Layer) (*rego.Policy, error) {
	t.Helper()
	src := workspace(t, nil)
	src.Layers = []rego.Layer{l}
	return rego.Load(t.Context(), src)
}

func TestABundleIsALayer(t *testing.T) {
	p := bundle(t, map[string]string{
		"/.manifest":             `{"revision": "7", "roots": ["rules"]}`,
		"/rules/git.rego":        forcePush,
		"/rules/hosts/data.json": `{"list": ["evil.test"]}`,
		"/rules/hosts.rego":      "package rules.hosts\n\ndeny contains h if {\n\tsome h in input.facts.hosts\n\th in data.rules.hosts.list\n}\n",
	})
	policy, err := layer(t, rego.Layer{Name: rego.Workspace, Dir: filepath.Dir(p), Paths: []string{p}})
	if err != nil {
		t.Fatal(err)
	}
	got := policy.Rule(t.Context(), command("git push --force"))
	if got.Route != approval.RouteDeny || got.Rules[0].File != "rules.tar.gz/rules/git.rego" {
		t.Errorf("route %s, rules %+v", got.Route, got.Rules)
	}
	if got := policy.Rule(t.Context(), command("curl https://evil.test")); got.Route != approval.RouteDeny {
		t.Errorf("route %s by the bundle's data, want deny", got.Route)
	}
}

func TestABundleKeepsToItsLayer(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"policy": {"/x.rego": "package org.rules.x\n\nallow contains \"all\"\n"},
		"syntax": {"/x.rego": "package rules.x\n\ndeny contains\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := bundle(t, files)
			_, err := layer(t, rego.Layer{Name: rego.Workspace, Dir: filepath.Dir(p), Paths: []string{p}})
			if !errors.Is(err, rego.ErrLoad) || !strings.Contains(err.Error(), "rules.tar.gz") || !strings.Contains(err.Error(), "x.rego") {
				t.Errorf("err = %v, want one that names the file in the bundle", err)
			}
		})
	}
	t.Run("data", func(t *testing.T) {
		p := bundle(t, map[string]string{"/regent/settings/data.json": `{"mode": "auto_allow"}`})
		policy, err := layer(t, rego.Layer{Name: rego.Workspace, Dir: filepath.Dir(p), Paths: []string{p}})
		if err != nil {
			t.Fatal(err)
		}
		if got := policy.Rule(t.Context(), command("rm x")); got.Route != approval.RouteAsk {
			t.Errorf("route = %s: a bundle's data reached the settings", got.Route)
		}
	})
}

func TestNoArchiveIsOneClearError(t *testing.T) {
	p := filepath.Join(t.TempDir(), "rules.tar.gz")
	if err := os.WriteFile(p, []byte("not an archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := layer(t, rego.Layer{Name: rego.Workspace, Dir: filepath.Dir(p), Paths: []string{p}})
	if !errors.Is(err, rego.ErrLoad) || !strings.Contains(err.Error(), "not a policy bundle") {
		t.Errorf("err = %v", err)
	}
}

func TestPathsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	_, err := layer(t, rego.Layer{Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}})
	if !errors.Is(err, rego.ErrLoad) || err.Error() != "policies: no such file or folder (policy.paths names it; create it or take it out)" {
		t.Errorf("err = %v", err)
	}
}

func TestAnUntrustedLayerHoldsItsOwnFilesOnly(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token.json")
	if err := os.WriteFile(secret, []byte(`{"token": "s"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"policies/git.rego": forcePush})
	if err := os.Symlink(secret, filepath.Join(dir, "policies", "data.json")); err != nil {
		t.Fatal(err)
	}
	l := rego.Layer{Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}}
	if _, err := layer(t, l); err != nil {
		t.Errorf("a trusted workspace may link to a file: %v", err)
	}
	l.Untrusted = true
	if _, err := layer(t, l); !errors.Is(err, rego.ErrLoad) || !strings.Contains(err.Error(), "policies/data.json: it is a link to") {
		t.Errorf("err = %v, want one about the link", err)
	}
}

func TestAMountedConfigMapIsRead(t *testing.T) {
	dir := write(t, map[string]string{"..2026/git.rego": forcePush})
	for link, target := range map[string]string{"..data": "..2026", "git.rego": "..data/git.rego"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := layer(t, rego.Layer{Name: rego.Workspace, Dir: dir, Paths: []string{dir}, Untrusted: true})
	if err != nil {
		t.Fatal(err)
	}
	if rules := policy.Rules(); len(rules) != 1 || rules[0].File != "git.rego" {
		t.Errorf("rules = %+v, want the one rule once", rules)
	}
}

func TestTheLayersHaveTheirRoots(t *testing.T) {
	text := "package %s.x\n\nask contains \"asked\" if input.request.kind == \"command\"\n"
	src := workspace(t, nil)
	src.Layers = nil
	for name, pkg := range map[rego.LayerName]string{rego.Organization: "org.rules", rego.Home: "home.rules", rego.Workspace: "rules"} {
		dir := write(t, map[string]string{"x.rego": strings.Replace(text, "%s", pkg, 1)})
		src.Layers = append(src.Layers, rego.Layer{Name: name, Dir: dir, Paths: []string{dir}})
	}
	got := load(t, src).Rule(t.Context(), command("ls"))
	if len(got.Rules) != 3 {
		t.Errorf("rules = %+v, want one from each layer", got.Rules)
	}
	src.Layers[0].Name = rego.Builtin
	if _, err := rego.Load(t.Context(), src); err == nil {
		t.Error("the built-in layer was given from outside")
	}
}
