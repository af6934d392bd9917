package permission_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

// FuzzNormalise reads any bytes as a profile and takes it through everything. What
// is accepted must have one spelling, one normal form, and never gain by any step.
func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"network":{"enabled":true,"hosts":["A.example.","[::1]","1.2.3.4"]}}`,
		`{"file_system":{"read":["a/../b","~/x","//"],"write":["/l/../x","/l/y"],"deny":["l","~/.ssh","/p/../q"],"deny_glob":["**/.env","/l/{a,b/**}/[!x-z]*","~/\\[x\\]*"],"glob_scan_max_depth":3}}`,
		`{"fileSystem":{"entries":[{"path":"/w","access":"read"},{"glob":"*","access":"deny"},{"path":{"type":"special","value":{"kind":"project_roots","subpath":"a"}},"access":"write"},{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},{"path":{"type":"special","value":{"kind":"unknown","path":"x"}},"access":"deny"}]}}`,
		`{"file_system":{"entries":[{"glob":"*","access":"write"}]}}`, `{"file_system":{"read":["C:\\x"]}}`, `{"network":{"enabled":true,"enabled":false}}`,
	} {
		f.Add([]byte(seed))
	}
	env := permission.Environment{Cwd: "/w/[c]", Home: "/home/dev", ProjectRoots: []string{"/w", "/l"}}
	tree := permissiontest.Tree{Links: map[string]string{"/l": "/w/real", "/w/[c]/l": "../../etc", "/loop": "loop", "/a": "b"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p permission.Profile
		if err := json.Unmarshal(data, &p); err != nil {
			return
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%s was read but cannot be written: %v", data, err)
		}
		var back permission.Profile
		if err := json.Unmarshal(text, &back); err != nil || !back.Equal(p) {
			t.Fatalf("%s came back as %v, %v", text, back, err)
		}
		n, _, err := permission.Normalise(p, permission.SideRequested, env, tree)
		if err != nil {
			if !errors.Is(err, permission.ErrInvalid) && !errors.Is(err, permission.ErrUnresolved) {
				t.Fatalf("error %v is nobody's", err)
			}
			return
		}
		again, dropped, err := permission.Normalise(n, permission.SideRequested, env, tree)
		if err != nil || len(dropped) > 0 || !again.Equal(n) {
			t.Fatalf("%v normalised again is %v, dropped %v, error %v", n, again, dropped, err)
		}
		same := permission.IntersectAll(n, n, permission.Everything())
		if !permission.Covers(n, same.Permissions) || !permission.Covers(same.Permissions, n) {
			t.Fatalf("%v with itself is %v", n, same.Permissions)
		}
		for _, d := range same.Dropped {
			if d.Reason != permission.SelfDenied && d.Reason != permission.CutsNothing {
				t.Fatalf("%v with itself loses %+v", n, d)
			}
		}
		for _, e := range n.FileSystem.Entries {
			if e.Path.Type != permission.TypePath {
				continue
			}
			alone := permission.Decide(n, permission.Read, e.Path.Path, permissiontest.Tree{})
			folded := permission.Decide(n, permission.Read, e.Path.Path, permissiontest.Tree{FoldCase: true})
			if alone.Outcome != permission.Allowed && folded.Outcome == permission.Allowed ||
				alone.Outcome == permission.Denied && folded.Outcome != permission.Denied ||
				e.Access == permission.Deny && alone.Outcome != permission.Denied {
				t.Fatalf("%v: %s is %s, and %s where case is ignored", n, e.Path.Path, alone.Outcome, folded.Outcome)
			}
		}
	})
}

// FuzzPattern normalises any text as a deny pattern and matches it against any
// path, which must end, and soon.
func FuzzPattern(f *testing.F) {
	f.Add("**/.env", "/w/.ENV")
	f.Add("/{a,b/**}/[!x-z]*", "/b/c/d")
	f.Add(`\[id\]/**/*{,.bak}`, "/w/[id]/x.bak")
	f.Add("/**/a/**/a/**/*a*a*a*b", "/a/a/a/a/a/a/aaaaaaaaaaaaaaaaaaaaaaaaaa")
	env := permission.Environment{Cwd: "/w", Home: "/home/dev"}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		written := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
			permission.DenyGlob(pattern), permission.Literal("/", permission.Write),
		}}}
		p, _, err := permission.Normalise(written, permission.SideCeiling, env, permissiontest.Tree{})
		if err != nil {
			return
		}
		place, err := env.Resolve(text, permissiontest.Tree{})
		if err != nil {
			return
		}
		alone := permission.Decide(p, permission.Read, place, permissiontest.Tree{})
		folded := permission.Decide(p, permission.Read, place, permissiontest.Tree{FoldCase: true})
		if alone.Outcome == permission.NotCovered || alone.Outcome == permission.Denied && folded.Outcome != permission.Denied {
			t.Fatalf("%q on %q: %s, and %s where case is ignored", pattern, place, alone.Outcome, folded.Outcome)
		}
		// A grant of just that place must keep a pattern that denies it.
		narrow := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(place, permission.Read)}}}
		for _, volume := range []permissiontest.Tree{{}, {FoldCase: true}} {
			before := permission.Decide(p, permission.Read, place, volume).Outcome
			after := permission.Decide(permission.Intersect(p, narrow), permission.Read, place, volume).Outcome
			if before == permission.Denied && after == permission.Allowed {
				t.Fatalf("%q lost %q on the way to %q", narrow, pattern, place)
			}
		}
	})
}
