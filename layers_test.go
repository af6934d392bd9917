// Package regent_test holds what is true of the module as a whole.
package regent_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/regent-policy/regent/"

// layers are the rooms from the ground up: a package may import those of a
// lower layer, and rooms of its own. CONTRIBUTING.md shows the same picture.
var layers = [][]string{
	{"gate/permission", "config", "server/peer", "server/socket", "plugin/pluginpb", "harness/codex/scripted", "harness/hook/client"},
	{"harness/wire", "gate/approval", "gate/permission/permissiontest", "rego/shell", "rego/gitrepo", "rego/policy", "rego/schema", "server/credential", "server/peer/peertest"},
	{"rego/argv", "rego/catalog", "gate/ledger", "gate/ledger/ledgertest", "reviewer"},
	{"rego", "plugin"},
	{"rego/cases"},
	{"gate"},
	{"harness"},
	{"harness/codex/codextest"},
	{"harness/codex", "harness/codex/codextest/install", "harness/native", "server/api", "server/notify"},
	{"harness/hook", "harness/codex/setup"},
	{"server", "server/client", "plugin/evaluator"},
	{"cmd/regent", "cmd/regent-hook"},
}

// owners are the only rooms that may import a library which shapes whatever
// touches it.
var owners = map[string][]string{
	"github.com/open-policy-agent/opa": {"rego"},
	"mvdan.cc/sh/v3":                   {"rego/shell", "harness/codex"},
	"gopkg.in/yaml.v3":                 {"config", "rego", "policies_test", "cmd/regent"},
	"github.com/spf13/cobra":           {"cmd/regent"},
	"modernc.org/sqlite":               {"gate/ledger"},
	"database/sql":                     {"gate/ledger"},
	"github.com/fsnotify/fsnotify":     {"config"},
	"net/http":                         {"server", "reviewer", "harness/wire", "harness/codex/scripted"},
	"github.com/coder/websocket":       {"harness/wire"},
	"github.com/pelletier/go-toml/v2":  {"harness/codex/setup"},
	"github.com/prometheus":            {"server"},
	"github.com/hashicorp/go-plugin":   {"plugin"},
	"github.com/hashicorp/go-hclog":    {"plugin"},
	"google.golang.org/grpc":           {"plugin"},
	"google.golang.org/protobuf":       {"plugin"},
	"golang.org/x/crypto":              {"server/credential"},
	"golang.org/x/term":                {"cmd/regent"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < len(layers) {
		t.Fatalf("go list found %d packages only", len(packages))
	}
	return packages
}

func layerOf(room string) int {
	return slices.IndexFunc(layers, func(rooms []string) bool { return slices.Contains(rooms, room) })
}

func TestLayersPointDownward(t *testing.T) {
	for _, p := range listPackages(t) {
		room := strings.TrimPrefix(p.ImportPath, module)
		if len(p.Imports) == 0 || room == "policies_test" || strings.HasPrefix(room, "examples/") {
			continue
		}
		at := layerOf(room)
		if at < 0 {
			t.Errorf("%s has no place in the layers; give it one here and in CONTRIBUTING.md", room)
			continue
		}
		for _, i := range p.Imports {
			below, ours := strings.CutPrefix(i, module)
			if !ours {
				continue
			}
			if to := layerOf(below); to < 0 || to >= at {
				t.Errorf("%s (layer %d) imports %s (layer %d)", room, at, below, to)
			}
		}
	}
}

func TestLayersOwnTheirLibraries(t *testing.T) {
	for _, p := range listPackages(t) {
		room := strings.TrimPrefix(p.ImportPath, module)
		for _, i := range p.Imports {
			for library, rooms := range owners {
				if i != library && !strings.HasPrefix(i, library+"/") {
					continue
				}
				if !slices.ContainsFunc(rooms, func(r string) bool { return room == r || strings.HasPrefix(room, r+"/") }) {
					t.Errorf("%s imports %s, which only %s may", room, i, strings.Join(rooms, ", "))
				}
			}
		}
	}
}
