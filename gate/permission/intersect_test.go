package permission_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/permission"
)

// told is what is told of each dropped part.
func told(dropped []permission.Dropped) []string {
	var lines []string
	for _, d := range dropped {
		lines = append(lines, d.String())
	}
	return lines
}

func TestIntersectAll(t *testing.T) {
	const (
		minimalRead = `{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}`
		unknownDeny = `{"path":{"type":"special","value":{"kind":"unknown","path":"p"}},"access":"deny"}`
	)
	all := permission.Everything().String()
	tests := map[string]struct {
		requested, granted, ceiling, want string
		dropped                           []string
	}{
		"what all sides have stays, and nothing is told": {
			`{"file_system":{"write":["/w"]},"network":{"hosts":["a.example"]}}`,
			`{"file_system":{"write":["/w"]},"network":{"hosts":["a.example"]}}`, all,
			`{"file_system":{"write":["/w"]},"network":{"hosts":["a.example"]}}`, nil,
		},
		"a write grant covers a read request as reading": {
			`{"file_system":{"read":["/w"]}}`, `{"file_system":{"write":["/w"]}}`, all,
			`{"file_system":{"read":["/w"]}}`,
			[]string{"granted write /w: more access than the request has there"},
		},
		"a read grant is what is left of a write request": {
			`{"file_system":{"write":["/w"]}}`, `{"file_system":{"read":["/w/a"]}}`, all,
			`{"file_system":{"read":["/w/a"]}}`,
			[]string{"requested write /w: wider than the grant"},
		},
		"access is judged place by place": {
			`{"file_system":{"read":["/w"],"write":["/w/out"]}}`, `{"file_system":{"write":["/w"]}}`, all,
			`{"file_system":{"read":["/w"],"write":["/w/out"]}}`,
			[]string{"granted write /w: more access than the request has there"},
		},
		"what was not asked is dropped, what was not granted too": {
			`{"file_system":{"read":["/a","/b"]},"network":{"enabled":true}}`, `{"file_system":{"read":["/a","/c"]}}`, all,
			`{"file_system":{"read":["/a"]}}`,
			[]string{"requested network: not in the grant", "requested read /b: not in the grant", "granted read /c: not in the request"},
		},
		"the root is wider than any part of it": {
			`{"file_system":{"write":["/"]}}`, `{"file_system":{"write":["/w"]}}`, all,
			`{"file_system":{"write":["/w"]}}`,
			[]string{"requested write /: wider than the grant"},
		},
		"a wider grant is clipped to the request": {
			`{"file_system":{"write":["/w/out","/w/tmp"]}}`, `{"file_system":{"write":["/w"]}}`, all,
			`{"file_system":{"write":["/w/out","/w/tmp"]}}`,
			[]string{"granted write /w: wider than the request"},
		},
		"every host is clipped to the hosts that were asked": {
			`{"network":{"hosts":["a.example"]}}`, `{"network":{"enabled":true}}`, all,
			`{"network":{"hosts":["a.example"]}}`,
			[]string{"granted network: wider than the request"},
		},
		"one host of all survives": {
			`{"network":{"enabled":true}}`, `{"network":{"hosts":["a.example"]}}`, all,
			`{"network":{"hosts":["a.example"]}}`,
			[]string{"requested network: wider than the grant"},
		},
		"a host does not cover those below it": {
			`{"network":{"hosts":["example.com"]}}`, `{"network":{"hosts":["docs.example.com"]}}`, all, `{}`,
			[]string{"requested network example.com: not in the grant", "granted network docs.example.com: not in the request"},
		},
		"the ceiling clips what both sides agree on": {
			`{"file_system":{"write":["/w"]},"network":{"enabled":true}}`,
			`{"file_system":{"write":["/w"]},"network":{"enabled":true}}`,
			`{"file_system":{"write":["/w/out"],"read":["/"]}}`,
			`{"file_system":{"write":["/w/out"],"read":["/w"]}}`,
			[]string{"granted network: not in the ceiling", "granted write /w: more access than the ceiling has there"},
		},
		"the denies of the ceiling cut": {
			`{"file_system":{"write":["/w"]}}`, `{"file_system":{"write":["/w"]}}`,
			`{"file_system":{"write":["/"],"deny":["/etc","/w/secret"],"deny_glob":["/w/**/.env","/x/*"]}}`,
			`{"file_system":{"write":["/w"],"deny":["/w/secret"],"deny_glob":["/w/**/.env"]}}`,
			[]string{"granted write /w: the ceiling denies a part of it"},
		},
		"what the ceiling denies is gone": {
			`{"file_system":{"write":["/w/secret/x"]}}`, `{"file_system":{"write":["/w/secret/x"]}}`,
			`{"file_system":{"write":["/"],"deny":["/w/secret"]}}`, `{}`,
			[]string{"granted write /w/secret/x: denied by the ceiling"},
		},
		"an empty ceiling lets nothing through": {
			`{"file_system":{"write":["/w"]}}`, `{"file_system":{"write":["/w"]}}`, `{}`, `{}`,
			[]string{"granted write /w: not in the ceiling"},
		},
		"denies of both sides are kept where they cut": {
			`{"file_system":{"write":["/w"],"deny":["/w/a","/x"],"deny_glob":["/w/**/*.pem","/y/*"]}}`,
			`{"file_system":{"write":["/w"],"deny":["/w/b"]}}`, all,
			`{"file_system":{"write":["/w"],"deny":["/w/a","/w/b"],"deny_glob":["/w/**/*.pem"]}}`,
			[]string{
				"requested write /w: the grant denies a part of it",
				"requested deny /x: a deny that cuts nothing that is left",
				`requested deny "/y/*": a deny that cuts nothing that is left`,
				"granted write /w: the request denies a part of it",
			},
		},
		"a deny above what is left takes it away": {
			`{"file_system":{"write":["/w/a/b"]}}`, `{"file_system":{"write":["/w"],"deny":["/w/a"]}}`, all, `{}`,
			[]string{
				"requested write /w/a/b: denied by the grant",
				"granted write /w: wider than the request",
				"granted deny /w/a: a deny that cuts nothing that is left",
			},
		},
		"a pattern is kept if it may match, also above": {
			`{"file_system":{"write":["/w/src/app"]}}`,
			`{"file_system":{"write":["/w/src/app"],"deny_glob":["/w/*/*/key","/w/*.pem","/**/x","/w/s*"]}}`, all, `{}`,
			[]string{
				"requested write /w/src/app: denied by the grant",
				"granted write /w/src/app: allowed and denied by the same profile",
				`granted deny "/**/x": a deny that cuts nothing that is left`,
				`granted deny "/w/*.pem": a deny that cuts nothing that is left`,
				`granted deny "/w/*/*/key": a deny that cuts nothing that is left`,
				`granted deny "/w/s*": a deny that cuts nothing that is left`,
			},
		},
		"a pattern that cannot match goes": {
			`{"file_system":{"write":["/w/src/app"]}}`,
			`{"file_system":{"write":["/w/src/app"],"deny_glob":["/w/*/*/key","/w/*.pem","/**/x","/w/?"]}}`, all,
			`{"file_system":{"write":["/w/src/app"],"deny_glob":["/w/*/*/key","/**/x"]}}`,
			[]string{
				"requested write /w/src/app: the grant denies a part of it",
				`granted deny "/w/*.pem": a deny that cuts nothing that is left`,
				`granted deny "/w/?": a deny that cuts nothing that is left`,
			},
		},
		"alternatives that span folders are kept": {
			`{"file_system":{"write":["/w/src/app"]}}`,
			`{"file_system":{"write":["/w/src/app"],"deny_glob":["/w/{a,src/app/x}"]}}`, all,
			`{"file_system":{"write":["/w/src/app"],"deny_glob":["/w/{a,src/app/x}"]}}`,
			[]string{"requested write /w/src/app: the grant denies a part of it"},
		},
		"a deny spelled in another letter case stays, for some volume folds it": {
			`{"file_system":{"write":["/w"]}}`, `{"file_system":{"write":["/w"],"deny":["/W/secret"]}}`, all,
			`{"file_system":{"write":["/w"],"deny":["/W/secret"]}}`,
			[]string{"requested write /w: the grant denies a part of it"},
		},
		"minimal is covered by itself": {
			`{"file_system":{"entries":[` + minimalRead + `]}}`, `{"file_system":{"entries":[` + minimalRead + `]}}`, all,
			`{"file_system":{"entries":[` + minimalRead + `]}}`, nil,
		},
		"and by the root": {
			`{"file_system":{"entries":[` + minimalRead + `]}}`, `{"file_system":{"read":["/"]}}`, all,
			`{"file_system":{"entries":[` + minimalRead + `]}}`,
			[]string{"granted read /: wider than the request"},
		},
		"but by no other path, and covers none": {
			`{"file_system":{"entries":[` + minimalRead + `]}}`, `{"file_system":{"write":["/usr"]}}`, all, `{}`,
			[]string{"requested read <minimal>: not in the grant", "granted write /usr: not in the request"},
		},
		"every deny may cut minimal": {
			`{"file_system":{"entries":[` + minimalRead + `]}}`,
			`{"file_system":{"deny":["/opt"],"deny_glob":["/**/x"],"entries":[` + minimalRead + `]}}`, all,
			`{"file_system":{"deny":["/opt"],"deny_glob":["/**/x"],"entries":[` + minimalRead + `]}}`,
			[]string{"requested read <minimal>: the grant denies a part of it"},
		},
		"a deny of unknown extent takes every path": {
			`{"file_system":{"write":["/w"]},"network":{"enabled":true}}`,
			`{"file_system":{"write":["/w"],"entries":[` + unknownDeny + `]},"network":{"enabled":true}}`, all,
			`{"network":{"enabled":true}}`,
			[]string{
				"requested write /w: the grant has a deny of unknown extent, which denies every path",
				"granted write /w: allowed and denied by the same profile",
				"granted deny <unknown/p>: a deny that cuts nothing that is left",
			},
		},
		"what is not normalised grants nothing": {
			`{"file_system":{"write":["/w"]},"network":{"hosts":["a.example"]}}`,
			`{"file_system":{"write":["/w/../w"]},"network":{"hosts":["A.example"]}}`, all, `{}`,
			[]string{
				"requested network a.example: not in the grant",
				"requested write /w: not in the grant",
				"granted network A.example: not in normalised form",
				"granted write /w/../w: not in normalised form",
			},
		},
		"an allow that its own side denies is told": {
			`{"file_system":{"write":["/w/a","/x"],"deny":["/w"]}}`, `{"file_system":{"write":["/x"]}}`, all,
			`{"file_system":{"write":["/x"]}}`,
			[]string{
				"requested deny /w: a deny that cuts nothing that is left",
				"requested write /w/a: allowed and denied by the same profile",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := permission.IntersectAll(parse(t, tt.requested), parse(t, tt.granted), parse(t, tt.ceiling))
			if diff := cmp.Diff(parse(t, tt.want).String(), got.Permissions.String()); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.dropped, told(got.Dropped)); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDroppedAsJSON(t *testing.T) {
	got := permission.IntersectAll(
		parse(t, `{"file_system":{"write":["/w/out"]}}`), parse(t, `{"file_system":{"write":["/w"]}}`), permission.Everything())
	text, err := json.Marshal(got.Dropped)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"side":"granted","entry":{"path":{"type":"path","path":"/w"},"access":"write"},` +
		`"by":"requested","reason":"wider","message":"wider than the request"}]`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDepthLooksAsDeepAsEitherSide(t *testing.T) {
	with := func(glob string, depth int) permission.Profile {
		p := parse(t, `{"file_system":{"write":["/w"]}}`)
		if glob != "" {
			p.FileSystem.Entries = append(p.FileSystem.Entries, permission.DenyGlob(glob))
		}
		p.FileSystem.GlobScanMaxDepth = depth
		return p
	}
	tests := map[string]struct {
		one, other permission.Profile
		want       int
	}{
		"the deeper of two":                       {with("/w/**/a", 2), with("/w/**/b", 5), 5},
		"without limit if either is":              {with("/w/**/a", 2), with("/w/**/b", 0), 0},
		"a side without patterns has no say":      {with("/w/**/a", 2), with("", 0), 2},
		"nor has it with a depth":                 {with("/w/**/a", 2), with("", 7), 2},
		"no depth without patterns":               {with("", 3), with("", 3), 0},
		"no depth if every pattern went (or was)": {with("/x/*", 3), with("", 3), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := permission.Intersect(tt.one, tt.other).FileSystem.GlobScanMaxDepth; got != tt.want {
				t.Errorf("depth = %d, want %d", got, tt.want)
			}
			if got := permission.Intersect(tt.other, tt.one).FileSystem.GlobScanMaxDepth; got != tt.want {
				t.Errorf("the other way round, depth = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	tests := map[string]struct{ held, added, want string }{
		"grants add up":                   {`{"file_system":{"read":["/a"]}}`, `{"network":{"enabled":true},"file_system":{"write":["/b"]}}`, `{"network":{"enabled":true},"file_system":{"read":["/a"],"write":["/b"]}}`},
		"hosts add up":                    {`{"network":{"hosts":["a.example"]}}`, `{"network":{"hosts":["b.example"]}}`, `{"network":{"hosts":["a.example","b.example"]}}`},
		"every host takes in the rest":    {`{"network":{"hosts":["a.example"]}}`, `{"network":{"enabled":true}}`, `{"network":{"enabled":true}}`},
		"the greater access wins":         {`{"file_system":{"read":["/a"]}}`, `{"file_system":{"write":["/a"]}}`, `{"file_system":{"write":["/a"]}}`},
		"a wider grant takes in the rest": {`{"file_system":{"read":["/a/b"]}}`, `{"file_system":{"write":["/a"]}}`, `{"file_system":{"write":["/a"]}}`},
		"a deny is not lifted by a grant of the whole": {
			`{"file_system":{"write":["/a"],"deny":["/a/secret"]}}`, `{"file_system":{"write":["/a"]}}`,
			`{"file_system":{"write":["/a"],"deny":["/a/secret"]}}`,
		},
		"nor by a grant of just what it denies": {
			`{"file_system":{"write":["/a"],"deny":["/a/secret"]}}`, `{"file_system":{"write":["/a/secret/x"]}}`,
			`{"file_system":{"write":["/a"],"deny":["/a/secret"]}}`,
		},
		"a deny that cuts nothing yet is kept for what is added later": {
			`{"file_system":{"deny":["/b/secret"]}}`, `{"file_system":{"write":["/b"]}}`,
			`{"file_system":{"write":["/b"],"deny":["/b/secret"]}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := permission.Merge(parse(t, tt.held), parse(t, tt.added))
			if diff := cmp.Diff(parse(t, tt.want).String(), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoversIsCautiousWithPatterns(t *testing.T) {
	tests := map[string]struct {
		limit, p string
		want     bool
	}{
		"the same pattern is understood":               {`{"file_system":{"write":["/w"],"deny_glob":["/w/**/.env"]}}`, `{"file_system":{"write":["/w"],"deny_glob":["/w/**/.env"]}}`, true},
		"a pattern that cannot match there is no bar":  {`{"file_system":{"write":["/w"],"deny_glob":["/w/*.pem"]}}`, `{"file_system":{"write":["/w/src"]}}`, true},
		"one that may match is":                        {`{"file_system":{"write":["/w"],"deny_glob":["/w/**/.env"]}}`, `{"file_system":{"write":["/w/src"]}}`, false},
		"unless the folder it looks in is denied":      {`{"file_system":{"write":["/w"],"deny_glob":["/w/a/**/.env"]}}`, `{"file_system":{"write":["/w"],"deny":["/w/a"]}}`, true},
		"a deny that is matched by a pattern is there": {`{"file_system":{"write":["/w"],"deny":["/w/.env"]}}`, `{"file_system":{"write":["/w"],"deny_glob":["/w/**/.env"]}}`, true},
		"a deny under another spelling is none":        {`{"file_system":{"write":["/w"],"deny":["/w/.env"]}}`, `{"file_system":{"write":["/w"],"deny":["/w/.ENV"]}}`, false},
		"nor is one that would be hit by a fold":       {`{"file_system":{"write":["/w"],"deny":["/w/.env"]}}`, `{"file_system":{"write":["/w/.ENV"]}}`, false},
		"more denies are less":                         {`{"file_system":{"write":["/w"]}}`, `{"file_system":{"write":["/w"],"deny":["/w/a"],"deny_glob":["/w/*"]}}`, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := permission.Covers(parse(t, tt.limit), parse(t, tt.p)); got != tt.want {
				t.Errorf("Covers = %v, want %v", got, tt.want)
			}
		})
	}
}
