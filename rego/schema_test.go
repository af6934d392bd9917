package rego_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/catalog"
)

var update = flag.Bool("update", false, "write what the tests compare with")

// reflector draws schemas without references, since OPA's type checker reads
// each schema alone, and with the comments of the Go fields as descriptions.
func reflector(t *testing.T) *jsonschema.Reflector {
	t.Helper()
	var r *jsonschema.Reflector
	member := false
	r = &jsonschema.Reflector{
		Anonymous:      true,
		DoNotReference: true,
		Mapper: func(typ reflect.Type) *jsonschema.Schema {
			switch typ {
			case reflect.TypeFor[[]approval.Verdict]():
				// Verdicts inside a verdict are named, and not described again.
				if member {
					return &jsonschema.Schema{Type: "array"}
				}
				member = true
				defer func() { member = false }()
				s := r.ReflectFromType(reflect.TypeFor[approval.Verdict]())
				s.Version, s.ID = "", ""
				return &jsonschema.Schema{Type: "array", Items: s}
			case reflect.TypeFor[json.RawMessage]():
				return &jsonschema.Schema{} // any value
			case reflect.TypeFor[[]catalog.Call]():
				return &jsonschema.Schema{Type: "array"} // calls inside a call; a schema without references cannot recur
			case reflect.TypeFor[permission.Profile]():
				raw := permission.Schema()
				s := &jsonschema.Schema{}
				if err := json.Unmarshal(raw, s); err != nil {
					t.Fatal(err)
				}
				s.Version, s.ID = "", ""
				return s
			default:
				return nil
			}
		},
	}
	for _, dir := range []string{"gate/approval", "rego", "rego/argv", "rego/catalog", "rego/shell"} {
		if err := r.AddGoComments("github.com/regent-policy/regent", filepath.Join("..", dir)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestSchemas(t *testing.T) {
	for name, of := range map[string]any{"request": rego.Input{}, "ruling": approval.Ruling{}, "verdict": approval.VerdictRuling{}} {
		s := reflector(t).Reflect(of)
		s.Title = name
		got, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		file := filepath.Join("schema", name+".json")
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s is not what the Go types say; `make generate` writes it\n%s", file, cmp.Diff(string(want), string(got)))
		}
	}
}
