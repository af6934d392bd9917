package server

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/server/api"
)

// Internal: the daemon decodes questions into a type of its own, which must not
// fall behind the one that it tells others of.
func TestQuestionsHaveOneForm(t *testing.T) {
	names := func(of reflect.Type) (all []string) {
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(all, f.Name+" "+name)
		}
		return all
	}
	if diff := cmp.Diff(names(reflect.TypeFor[api.Question]()), names(reflect.TypeFor[question]())); diff != "" {
		t.Errorf("members (-told +read):\n%s", diff)
	}
}
