package permission_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

func TestSettle(t *testing.T) {
	requested := `{"network":{"enabled":true},"file_system":{"write":["/w"]}}`
	everything := permission.Unlimited()
	none := permission.Profile{}
	tests := map[string]struct {
		response permission.Response
		ceiling  permission.Ceiling
		want     permission.Settlement
	}{
		"a part of the request for a turn": {
			permission.Response{Permissions: parse(t, `{"file_system":{"write":["/w/out"]}}`), Scope: permission.Turn},
			everything,
			permission.Settlement{Permissions: parse(t, `{"file_system":{"write":["/w/out"]}}`), Scope: permission.Turn},
		},
		"a turn is what is meant without a scope": {
			permission.Response{Permissions: parse(t, requested)},
			everything,
			permission.Settlement{Permissions: parse(t, requested), Scope: permission.Turn},
		},
		"a session if it is said": {
			permission.Response{Permissions: parse(t, requested), Scope: permission.Session},
			everything,
			permission.Settlement{Permissions: parse(t, requested), Scope: permission.Session},
		},
		"strict review for a turn": {
			permission.Response{Permissions: parse(t, requested), Scope: permission.Turn, StrictAutoReview: true},
			everything,
			permission.Settlement{Permissions: parse(t, requested), Scope: permission.Turn, StrictAutoReview: true},
		},
		"strict review for a session grants nothing, for a turn, and is not strict": {
			permission.Response{Permissions: parse(t, requested), Scope: permission.Session, StrictAutoReview: true},
			everything,
			permission.Settlement{Permissions: none, Scope: permission.Turn},
		},
		"not even where the ceiling would have made it a turn": {
			permission.Response{Permissions: parse(t, requested), Scope: permission.Session, StrictAutoReview: true},
			permission.Ceiling{Permissions: permission.Everything(), Scope: permission.Turn},
			permission.Settlement{Permissions: none, Scope: permission.Turn},
		},
		"an empty answer stays as it is": {
			permission.Response{Scope: permission.Session},
			permission.Ceiling{},
			permission.Settlement{Permissions: none, Scope: permission.Session},
		},
		"also a strict one": {
			permission.Response{StrictAutoReview: true},
			permission.Ceiling{},
			permission.Settlement{Permissions: none, Scope: permission.Turn, StrictAutoReview: true},
		},
		"more than was asked is clipped, and told": {
			permission.Response{Permissions: parse(t, `{"file_system":{"write":["/"]}}`)},
			everything,
			permission.Settlement{Permissions: parse(t, `{"file_system":{"write":["/w"]}}`), Scope: permission.Turn, OverGrant: true},
		},
		"something else than was asked grants nothing, for as long as was said": {
			permission.Response{Permissions: parse(t, `{"file_system":{"write":["/x"]}}`), Scope: permission.Session},
			everything,
			permission.Settlement{Permissions: none, Scope: permission.Session, OverGrant: true},
		},
		"the ceiling limits permissions and scope": {
			permission.Response{Permissions: parse(t, requested), Scope: permission.Session},
			permission.Ceiling{Permissions: parse(t, `{"file_system":{"read":["/"]}}`), Scope: permission.Turn},
			permission.Settlement{Permissions: parse(t, `{"file_system":{"read":["/w"]}}`), Scope: permission.Turn},
		},
		"a ceiling does not lengthen": {
			permission.Response{Permissions: parse(t, requested), Scope: permission.Once},
			everything,
			permission.Settlement{Permissions: parse(t, requested), Scope: permission.Once},
		},
		"a ceiling that says no scope allows one use": {
			permission.Response{Permissions: parse(t, requested)},
			permission.Ceiling{Permissions: permission.Everything()},
			permission.Settlement{Permissions: parse(t, requested), Scope: permission.Once},
		},
		"a ceiling that says nothing allows nothing": {
			permission.Response{Permissions: parse(t, requested)},
			permission.Ceiling{},
			permission.Settlement{Permissions: none, Scope: permission.Once},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := permission.Settle(parse(t, requested), tt.response, tt.ceiling)
			if err != nil {
				t.Fatal(err)
			}
			if cut := tt.want.OverGrant || got.Scope != tt.response.Scope && tt.response.Scope != ""; cut && len(got.Dropped) == 0 {
				t.Error("nothing is told of what was dropped")
			}
			got.Dropped = nil
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(tt.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownScopesSettleToNothing(t *testing.T) {
	asked := parse(t, `{"network":{"enabled":true}}`)
	for name, tt := range map[string]struct {
		response permission.Response
		ceiling  permission.Ceiling
	}{
		"in the answer":      {permission.Response{Permissions: asked, Scope: "forever"}, permission.Unlimited()},
		"in an empty answer": {permission.Response{Scope: "forever"}, permission.Unlimited()},
		"in the ceiling":     {permission.Response{Permissions: asked}, permission.Ceiling{Permissions: asked, Scope: "TURN"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := permission.Settle(asked, tt.response, tt.ceiling)
			if !errors.Is(err, permission.ErrScope) || !got.Permissions.IsEmpty() || got.Scope != permission.Turn {
				t.Errorf("Settle = %+v, %v, want nothing for a turn and ErrScope", got, err)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	order := []permission.Scope{permission.Once, permission.Turn, permission.Session}
	for i, s := range order {
		if got, err := permission.ParseScope(string(s)); got != s || err != nil {
			t.Errorf("ParseScope(%q) = %q, %v", s, got, err)
		}
		for j, limit := range order {
			if got := s.Within(limit); got != (i <= j) {
				t.Errorf("%s within %s = %v", s, limit, got)
			}
		}
	}
	for _, text := range []string{"", "Turn", "forever"} {
		if got, err := permission.ParseScope(text); got != "" || !errors.Is(err, permission.ErrScope) {
			t.Errorf("ParseScope(%q) = %q, %v", text, got, err)
		}
		if permission.Scope(text).Within(permission.Session) || permission.Once.Within(permission.Scope(text)) {
			t.Errorf("%q is taken for a scope", text)
		}
	}
}

func TestRequestIsReadInItsOwnEnvironment(t *testing.T) {
	tree := permissiontest.Tree{}
	roots := []string{"/workspace/app"}
	env := permission.Environment{ID: "local", Cwd: "/workspace/app", Home: "/home/dev", ProjectRoots: roots}
	request, err := permission.NewRequest(parse(t, `{"file_system":{"write":["build","~/.cache"]}}`), env, tree)
	if err != nil {
		t.Fatal(err)
	}
	roots[0] = "/etc"
	if request.Environment.ProjectRoots[0] != "/workspace/app" {
		t.Error("the environment of the request changed after it was asked")
	}
	project := parse(t, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]}}`)
	got, err := request.Settle(permission.Response{Permissions: parse(t, `{"file_system":{"write":["build/x","~/.cache"]}}`)},
		permission.Ceiling{Permissions: project, Scope: permission.Session}, tree)
	if err != nil {
		t.Fatal(err)
	}
	if want := parse(t, `{"file_system":{"write":["/workspace/app/build/x"]}}`); !got.Permissions.Equal(want) {
		t.Errorf("settled to %v, want %v", got.Permissions, want)
	}
}

func TestRequestIsRefusedOrSettledToNothing(t *testing.T) {
	tree := permissiontest.Tree{}
	env := permission.Environment{Cwd: "/w"}
	unknown := `{"path":{"type":"special","value":{"kind":"unknown","path":"p"}},"access":"write"}`
	if _, err := permission.NewRequest(parse(t, `{"file_system":{"entries":[`+unknown+`]}}`), env, tree); !errors.Is(err, permission.ErrEmpty) {
		t.Errorf("a request for a place that nobody knows: %v, want ErrEmpty", err)
	}
	if _, err := permission.NewRequest(parse(t, `{"file_system":{"write":["~"]}}`), env, tree); !errors.Is(err, permission.ErrNoBase) {
		t.Errorf("a request for a home that nobody knows: %v, want ErrNoBase", err)
	}
	request, err := permission.NewRequest(parse(t, `{"file_system":{"write":["."]}}`), env, tree)
	if err != nil {
		t.Fatal(err)
	}
	good := permission.Response{Permissions: parse(t, `{"file_system":{"write":["."]}}`)}
	bad := permission.Response{Permissions: parse(t, `{"file_system":{"write":[".","C:\\"]}}`)}
	foreign := permission.Ceiling{Permissions: bad.Permissions, Scope: permission.Session}
	for name, settle := range map[string]func() (permission.Settlement, error){
		"an answer that cannot be read": func() (permission.Settlement, error) { return request.Settle(bad, permission.Unlimited(), tree) },
		"a ceiling that cannot be read": func() (permission.Settlement, error) { return request.Settle(good, foreign, tree) },
		"a scope that cannot be read": func() (permission.Settlement, error) {
			b := good
			b.Scope = "x"
			return request.Settle(b, permission.Unlimited(), tree)
		},
	} {
		if got, err := settle(); !errors.Is(err, permission.ErrInvalid) || !got.Permissions.IsEmpty() {
			t.Errorf("%s settles to %+v, %v", name, got, err)
		}
	}
	if got, err := request.Settle(good, permission.Unlimited(), tree); err != nil || got.OverGrant || !got.Permissions.Equal(request.Permissions) {
		t.Errorf("the same answer, readable, settles to %+v, %v", got, err)
	}
}
