package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/gate/permission"
)

// TestProfileIntersectOfPathCases puts the cases that package permission is
// tested by through the command line, as far as they need no file system of
// their own.
func TestProfileIntersectOfPathCases(t *testing.T) {
	text, err := os.ReadFile("../../gate/permission/testdata/path_intersection.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID, Title   string
		Environment struct {
			Cwd, Home string
			Links     map[string]string
			Missing   []string
		}
		Requested, Granted, Policy any
		Scope                      string
		Want                       struct {
			Effective any
			OverGrant bool `yaml:"over_grant"`
			Error     string
		}
	}
	if err := yaml.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	asText := func(v any) string {
		if v == nil {
			v = map[string]any{}
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ran := 0
	for _, c := range cases {
		if c.Policy != nil || len(c.Environment.Links) > 0 || len(c.Environment.Missing) > 0 {
			continue
		}
		if c.Environment.Home == "" && strings.Contains(asText(c.Requested), "~") {
			continue // the command line always has a home
		}
		ran++
		t.Run(c.ID+" "+c.Title, func(t *testing.T) {
			args := []string{"profile", "intersect", "--requested", asText(c.Requested), "--granted", asText(c.Granted)}
			cwd := c.Environment.Cwd
			if cwd == "" {
				cwd = "/workspace/app"
			}
			args = append(args, "--cwd", cwd)
			if c.Environment.Home != "" {
				args = append(args, "--home-dir", c.Environment.Home)
			}
			code, stdout, stderr := regent(t, "", args...)
			if c.Want.Error != "" {
				if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.Want.Error) {
					t.Errorf("exit code %d, stdout %q, stderr %q, want code 2 and %q", code, stdout, stderr, c.Want.Error)
				}
				return
			}
			if code != exitDone || stderr != "" {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			var got combined
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatal(err)
			}
			var want permission.Profile
			if err := json.Unmarshal([]byte(asText(c.Want.Effective)), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.Permissions.String()); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
			if got.OverGrant != c.Want.OverGrant {
				t.Errorf("over_grant = %t, want %t", got.OverGrant, c.Want.OverGrant)
			}
		})
	}
	if ran < 14 {
		t.Errorf("%d cases were run, want at least 14", ran)
	}
}
