package permission_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

// pathCase is one entry of testdata/path_intersection.yaml.
type pathCase struct {
	ID          string
	Title       string
	Environment struct {
		Cwd, Home, OS string
		Links         map[string]string
		Missing       []string
		FoldCase      bool `yaml:"fold_case"`
	}
	Requested, Granted, Policy any
	Scope                      permission.Scope
	NowCwd                     string `yaml:"now_cwd"`
	Access                     []struct {
		Read, Write string
		Want        permission.Outcome
	}
	Want struct {
		Effective any
		OverGrant bool `yaml:"over_grant"`
		Error     string
	}
}

func (c pathCase) env() permission.Environment {
	return permission.Environment{ID: "local", Cwd: c.Environment.Cwd, Home: c.Environment.Home, OS: c.Environment.OS}
}

func (c pathCase) tree() permissiontest.Tree {
	return permissiontest.Tree{
		Links: c.Environment.Links, Missing: c.Environment.Missing, FoldCase: c.Environment.FoldCase,
	}
}

// decodeYAML reads a profile that stands in a YAML document.
func decodeYAML(t testing.TB, v any) (permission.Profile, error) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var p permission.Profile
	err = json.Unmarshal(text, &p)
	return p, err
}

func TestPathIntersectionCases(t *testing.T) {
	data, err := os.ReadFile("testdata/path_intersection.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []pathCase
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	dec.KnownFields(true)
	if err := dec.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, c := range cases {
		seen[c.ID] = true
		t.Run(c.ID+" "+c.Title, func(t *testing.T) {
			if c.Policy != nil {
				checkPolicy(t, c)
				return
			}
			checkRequest(t, c)
		})
	}
	for n := 1; n <= 19; n++ {
		if id := fmt.Sprintf("PTH-%02d", n); !seen[id] {
			t.Errorf("case %s is missing", id)
		}
	}
}

func checkPolicy(t *testing.T, c pathCase) {
	written, err := decodeYAML(t, c.Policy)
	if err != nil {
		t.Fatal(err)
	}
	policy, dropped, err := permission.Normalise(written, permission.SideCeiling, c.env(), c.tree())
	if err != nil || len(dropped) > 0 {
		t.Fatalf("Normalise: dropped %v, error %v", dropped, err)
	}
	if len(c.Access) == 0 {
		t.Fatal("case tries no access")
	}
	checkAccess(t, c, policy)
}

func checkAccess(t *testing.T, c pathCase, p permission.Profile) {
	t.Helper()
	for _, try := range c.Access {
		access, path := permission.Read, try.Read
		if try.Write != "" {
			access, path = permission.Write, try.Write
		}
		got, err := permission.Check(p, access, path, c.env(), c.tree())
		if err != nil || got.Outcome != try.Want {
			t.Errorf("Check(%s %s) = %q, %v, want %q", access, path, got.Outcome, err, try.Want)
		}
	}
}

func checkRequest(t *testing.T, c pathCase) {
	asked, err := decodeYAML(t, c.Requested)
	var request permission.Request
	if err == nil {
		request, err = permission.NewRequest(asked, c.env(), c.tree())
	}
	if c.Want.Error != "" {
		if err == nil || !strings.Contains(err.Error(), c.Want.Error) {
			t.Fatalf("error = %v, want one that says %q", err, c.Want.Error)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	answer, err := decodeYAML(t, c.Granted)
	if err != nil {
		t.Fatal(err)
	}
	response := permission.Response{Permissions: answer, Scope: c.Scope}
	got, err := request.Settle(response, permission.Unlimited(), c.tree())
	if err != nil {
		t.Fatal(err)
	}
	if c.Want.Effective == nil {
		t.Fatal("case says nothing of what it wants")
	}
	want, err := decodeYAML(t, c.Want.Effective)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), got.Permissions.String()); diff != "" {
		t.Errorf("effective permissions (-want +got):\n%s", diff)
	}
	if got.OverGrant != c.Want.OverGrant {
		t.Errorf("OverGrant = %v, want %v (dropped: %+v)", got.OverGrant, c.Want.OverGrant, got.Dropped)
	}
	if c.NowCwd != "" {
		// The same answer, read where things have moved on to, is another one.
		elsewhere := request
		elsewhere.Environment.Cwd = c.NowCwd
		moved, err := elsewhere.Settle(response, permission.Unlimited(), c.tree())
		if err != nil || moved.Permissions.Equal(got.Permissions) {
			t.Errorf("Settle in %s = %v, %v, want something else than %v", c.NowCwd, moved.Permissions, err, got.Permissions)
		}
	}
	checkAccess(t, c, got.Permissions)
}
