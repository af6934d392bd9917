// Package schema holds the JSON Schemas (draft 2020-12) of what goes into a
// decision and what comes out of it. They are generated from the Go types and
// used to check policies when they are loaded.
package schema

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

//go:embed *.json
var files embed.FS

// Names lists the schemas: request is the input of data.regent.route and
// data.regent.verdict, ruling the outcome of the one and verdict that of the other.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // an embedded folder can always be read
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	slices.Sort(names)
	return names
}

// Text is the JSON text of one schema.
func Text(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no schema %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return data, nil
}

// Set is the schemas for OPA's type checker: schema.request and so on, and the
// request schema for every module that names none.
var Set = sync.OnceValues(func() (*ast.SchemaSet, error) {
	set := ast.NewSchemaSet()
	for _, name := range Names() {
		data, err := Text(name)
		if err != nil {
			return nil, err
		}
		var raw any
		if err := json.Unmarshal(data, &raw); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		set.Put(ast.MustParseRef("schema."+name), raw)
		if name == "request" {
			set.Put(ast.SchemaRootRef, raw)
		}
	}
	return set, nil
})
