package cases_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/cases"
)

func ExampleRun() {
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"hosts.rego": `package rules.hosts

# METADATA
# custom: {id: NET-001}
deny contains "not this host" if "bad.example.com" in input.facts.hosts
`,
		"hosts_cases.yaml": `- note: a banned host is denied
  request: {kind: network, network: {host: bad.example.com}}
  want: {route: deny, rules: [NET-001]}
- note: a case that is wrong
  request: {kind: network, network: {host: good.example.com}}
  want: {route: deny}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	report, err := cases.Run(context.Background(), rego.Source{
		Settings: rego.DefaultSettings(),
		Layers:   []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{dir}}},
	}, cases.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range report.Results {
		fmt.Println(r.Status, r.Name)
	}
	fmt.Println("all well:", report.OK())
	// Output:
	// pass a banned host is denied
	// fail a case that is wrong
	// all well: false
}
