package permission_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/permission"
)

// parse reads a profile that the test knows to be right.
func parse(t testing.TB, text string) permission.Profile {
	t.Helper()
	var p permission.Profile
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func entry(path permission.Path, access permission.Access) permission.Entry {
	return permission.Entry{Path: path, Access: access}
}

func TestEverySpellingIsRead(t *testing.T) {
	roots := permission.Path{
		Type:    permission.TypeSpecial,
		Special: permission.Special{Kind: permission.KindProjectRoots, Subpath: "src"},
	}
	tests := map[string]struct {
		text string
		want permission.Profile
	}{
		"null is empty":                      {`null`, permission.Profile{}},
		"parts may be null":                  {`{"network":null,"file_system":null}`, permission.Profile{}},
		"enabled is every host":              {`{"network":{"enabled":true}}`, permission.Profile{Network: permission.Network{All: true}}},
		"enabled with null hosts is too":     {`{"network":{"enabled":true,"hosts":null}}`, permission.Profile{Network: permission.Network{All: true}}},
		"hosts limit":                        {`{"network":{"enabled":true,"hosts":["a.example"]}}`, permission.Profile{Network: permission.Network{Hosts: []string{"a.example"}}}},
		"hosts enable":                       {`{"network":{"hosts":["a.example"]}}`, permission.Profile{Network: permission.Network{Hosts: []string{"a.example"}}}},
		"no hosts are not every host":        {`{"network":{"enabled":true,"hosts":[]}}`, permission.Profile{}},
		"not enabled beats hosts":            {`{"network":{"enabled":false,"hosts":["a.example"]}}`, permission.Profile{}},
		"a network that says nothing is off": {`{"network":{}}`, permission.Profile{}},
		"entries of every type": {
			`{"file_system":{"entries":[
				{"path":{"type":"path","path":"/w/src"},"access":"write"},
				{"path":{"type":"glob_pattern","pattern":"**/.env"},"access":"deny"},
				{"path":{"type":"special","value":{"kind":"project_roots","subpath":"src"}},"access":"read"}],
				"glob_scan_max_depth":3}}`,
			permission.Profile{FileSystem: permission.FileSystem{
				Entries: []permission.Entry{
					permission.Literal("/w/src", permission.Write),
					permission.DenyGlob("**/.env"),
					entry(roots, permission.Read),
				},
				GlobScanMaxDepth: 3,
			}},
		},
		"lists": {
			`{"file_system":{"read":["/a"],"write":["/b"],"deny":["/b/secret"],"deny_glob":["**/*.pem"]}}`,
			permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
				permission.Literal("/a", permission.Read),
				permission.Literal("/b", permission.Write),
				permission.Literal("/b/secret", permission.Deny),
				permission.DenyGlob("**/*.pem"),
			}}},
		},
		"lists that say what entries say add nothing": {
			`{"fileSystem":{"entries":[{"path":{"type":"path","path":"/a"},"access":"read"}],"read":["/a"]}}`,
			permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("/a", permission.Read)}}},
		},
		"lists add what entries do not say": {
			`{"fileSystem":{"entries":[{"path":{"type":"path","path":"/a"},"access":"read"}],"write":["/a","/b"]}}`,
			permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
				permission.Literal("/a", permission.Read), permission.Literal("/a", permission.Write), permission.Literal("/b", permission.Write),
			}}},
		},
		"a bare path is literal": {
			`{"file_system":{"entries":[{"path":"/w/[id]","access":"read"}]}}`,
			permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("/w/[id]", permission.Read)}}},
		},
		"a short pattern": {
			`{"file_system":{"entries":[{"glob":"**/.env","access":"deny"}]}}`,
			permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.DenyGlob("**/.env")}}},
		},
		"other cases of letters in names": {
			`{"fileSystem":{"globScanMaxDepth":2,"denyGlob":["*.key"]}}`,
			permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.DenyGlob("*.key")}, GlobScanMaxDepth: 2}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := parse(t, tt.text); !got.Equal(tt.want) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tt.want, got))
			}
		})
	}
}

func TestWhatIsNotUnderstoodIsRefusedByName(t *testing.T) {
	many := `"` + strings.Repeat(`/a","`, permission.MaxEntries) + `/a"`
	tests := map[string]struct{ text, want string }{
		"a field at the top":               {`{"filesystem":{}}`, `filesystem: unknown field`},
		"another letter case":              {`{"Network":{}}`, `Network: unknown field`},
		"a field of the network":           {`{"network":{"ports":[443]}}`, `network.ports: unknown field`},
		"a field of the file system":       {`{"file_system":{"execute":["/a"]}}`, `file_system.execute: unknown field`},
		"a field of an entry":              {`{"file_system":{"entries":[{"path":"/a","access":"read","recursive":true}]}}`, `file_system.entries[0].recursive: unknown field`},
		"a field of a path":                {`{"file_system":{"entries":[{"path":{"type":"path","path":"/a","base":"/"},"access":"read"}]}}`, `file_system.entries[0].path.base: unknown field`},
		"a field of a special place":       {`{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"root","x":1}},"access":"read"}]}}`, `file_system.entries[0].path.value.x: unknown field`},
		"a name that needs quotes":         {`{"net work":{}}`, `["net work"]: unknown field`},
		"a field twice":                    {`{"network":{"enabled":false,"enabled":true}}`, `network.enabled: field is given twice`},
		"a field under both its names":     {`{"file_system":{},"fileSystem":{}}`, `fileSystem: field is given twice`},
		"a profile that is a list":         {`[]`, `want an object, not an array`},
		"a network that is a word":         {`{"network":"on"}`, `network: want an object, not a string`},
		"a flag that is a word":            {`{"network":{"enabled":"true"}}`, `network.enabled: want true or false, not a string`},
		"a list that is a word":            {`{"file_system":{"read":"/a"}}`, `file_system.read: want an array, not a string`},
		"a hole in a list":                 {`{"file_system":{"read":["/a",null]}}`, `file_system.read[1]: want a string, not null`},
		"a number in a list":               {`{"file_system":{"read":[1]}}`, `file_system.read[0]: want a string, not a number`},
		"an entry that is null":            {`{"file_system":{"entries":[null]}}`, `file_system.entries[0]: want an object, not null`},
		"an entry without access":          {`{"file_system":{"entries":[{"path":"/a"}]}}`, `file_system.entries[0]: "access" is missing`},
		"an entry with null access":        {`{"file_system":{"entries":[{"path":"/a","access":null}]}}`, `file_system.entries[0]: "access" is missing`},
		"an entry without path":            {`{"file_system":{"entries":[{"access":"read"}]}}`, `file_system.entries[0]: "path" is missing`},
		"an access nobody knows":           {`{"file_system":{"entries":[{"path":"/a","access":"execute"}]}}`, `file_system.entries[0].access: "execute" is not`},
		"a type nobody knows":              {`{"file_system":{"entries":[{"path":{"type":"regex","pattern":"a"},"access":"deny"}]}}`, `file_system.entries[0].path.type: "regex" is not`},
		"a path without type":              {`{"file_system":{"entries":[{"path":{"path":"/a"},"access":"read"}]}}`, `file_system.entries[0].path: "type" is missing`},
		"a path with the field of another": {`{"file_system":{"entries":[{"path":{"type":"path","pattern":"/a"},"access":"deny"}]}}`, `file_system.entries[0].path: a path of type path takes "path" and nothing else`},
		"a path with two fields":           {`{"file_system":{"entries":[{"path":{"type":"path","path":"/a","pattern":"/b"},"access":"deny"}]}}`, `file_system.entries[0].path: a path of type path takes "path" and nothing else`},
		"a path and a short pattern":       {`{"file_system":{"entries":[{"path":"/a","glob":"b","access":"deny"}]}}`, `file_system.entries[0]: "path" and "glob" exclude each other`},
		"a kind nobody knows":              {`{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"home"}},"access":"read"}]}}`, `file_system.entries[0].path.value: `},
		"a subpath where none belongs":     {`{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"tmpdir","subpath":"a"}},"access":"read"}]}}`, `file_system.entries[0].path.value: `},
		"an unknown place without a path":  {`{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"unknown"}},"access":"read"}]}}`, `file_system.entries[0].path.value: `},
		"a pattern that allows":            {`{"file_system":{"entries":[{"path":{"type":"glob_pattern","pattern":"**"},"access":"write"}]}}`, `file_system.entries[0]: pattern entries may only deny`},
		"a depth of nothing":               {`{"file_system":{"glob_scan_max_depth":0}}`, `file_system.glob_scan_max_depth: 0 is not`},
		"a depth that is no whole number":  {`{"file_system":{"glob_scan_max_depth":1.5}}`, `file_system.glob_scan_max_depth: 1.5 is not`},
		"a depth beyond all bounds":        {`{"file_system":{"glob_scan_max_depth":99999999999}}`, `file_system.glob_scan_max_depth: 99999999999 is not`},
		"too much in one list":             {`{"file_system":{"read":[` + many + `]}}`, `file_system.read: more than 1024 elements`},
		"too much in all lists together":   {`{"file_system":{"read":[` + many[:len(many)-5] + `],"write":["/b"]}}`, `file_system: 1025 entries are more than 1024`},
		"text that is not UTF-8":           {"{\"file_system\":{\"read\":[\"/\xff\"]}}", `not UTF-8`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := permission.Everything()
			err := json.Unmarshal([]byte(tt.text), &p)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error = %v, want one that says %q", err, tt.want)
			}
			var decodeError *permission.DecodeError
			if !errors.As(err, &decodeError) || !errors.Is(err, permission.ErrInvalid) {
				t.Errorf("error is a %T, want a DecodeError that is ErrInvalid", err)
			}
			if !p.Equal(permission.Everything()) {
				t.Errorf("profile became %v although it could not be read", p)
			}
		})
	}
}

func TestPatternThatAllowsIsItsOwnError(t *testing.T) {
	var p permission.Profile
	err := json.Unmarshal([]byte(`{"file_system":{"entries":[{"glob":"*","access":"read"}]}}`), &p)
	if !errors.Is(err, permission.ErrPattern) {
		t.Errorf("error = %v, want ErrPattern", err)
	}
}

func TestPartsAreReadLikeTheWhole(t *testing.T) {
	var (
		network permission.Network
		files   permission.FileSystem
		one     permission.Entry
	)
	if err := json.Unmarshal([]byte(`{"hosts":["a.example"]}`), &network); err != nil || len(network.Hosts) != 1 || network.All {
		t.Errorf("network = %+v, %v", network, err)
	}
	if err := json.Unmarshal([]byte(`{"deny":["/a"]}`), &files); err != nil || len(files.Entries) != 1 {
		t.Errorf("file system = %+v, %v", files, err)
	}
	if err := json.Unmarshal([]byte(`{"path":"/a","access":"deny"}`), &one); err != nil || one != permission.Literal("/a", permission.Deny) {
		t.Errorf("entry = %+v, %v", one, err)
	}
	for _, part := range []any{&network, &files, &one} {
		if err := json.Unmarshal([]byte(`{"x":1}`), part); !errors.Is(err, permission.ErrInvalid) {
			t.Errorf("%T takes an unknown field: %v", part, err)
		}
	}
}

func TestProfilesOfCodexAreRead(t *testing.T) {
	data, err := os.ReadFile("testdata/codex_profiles.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name           string
		Profile, Means permission.Profile
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if diff := cmp.Diff(c.Means.String(), c.Profile.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneProfileHasOneSpelling(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"empty is an empty object": {`{"network":{"enabled":false},"file_system":{"read":[],"glob_scan_max_depth":2}}`, `{}`},
		"every host":               {`{"network":{"enabled":true}}`, `{"network":{"enabled":true}}`},
		"a reader that knows no hosts sees no network": {
			`{"network":{"enabled":true,"hosts":["b.example","a.example","b.example"]}}`,
			`{"network":{"hosts":["a.example","b.example"]}}`,
		},
		"literal paths are mirrored in lists, sorted": {
			`{"file_system":{"write":["/b","/a"],"deny":["/a/x"],"read":["/c"],"deny_glob":["/**/.env"],"glob_scan_max_depth":4}}`,
			`{"file_system":{"entries":[` +
				`{"path":{"type":"path","path":"/a"},"access":"write"},` +
				`{"path":{"type":"path","path":"/a/x"},"access":"deny"},` +
				`{"path":{"type":"path","path":"/b"},"access":"write"},` +
				`{"path":{"type":"path","path":"/c"},"access":"read"},` +
				`{"path":{"type":"glob_pattern","pattern":"/**/.env"},"access":"deny"}],` +
				`"read":["/c"],"write":["/a","/b"],"deny":["/a/x"],"glob_scan_max_depth":4}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(parse(t, tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCouldNotBeReadBackIsNotWritten(t *testing.T) {
	with := func(e permission.Entry) permission.Profile {
		return permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{e}}}
	}
	glob := permission.DenyGlob("/**").Path
	tests := map[string]permission.Profile{
		"a pattern that allows":  with(entry(glob, permission.Read)),
		"an access of its own":   with(permission.Literal("/a", "execute")),
		"a path without type":    with(entry(permission.Path{Path: "/a"}, permission.Read)),
		"bytes that are no text": with(permission.Literal("/\xff", permission.Read)),
		"a host of such bytes":   {Network: permission.Network{Hosts: []string{"\xff"}}},
		"a kind of its own":      with(special(permission.Special{Kind: "home"}, permission.Read)),
		"a negative depth":       {FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.DenyGlob("/*")}, GlobScanMaxDepth: -1}},
	}
	for name, p := range tests {
		t.Run(name, func(t *testing.T) {
			if text, err := json.Marshal(p); err == nil {
				t.Errorf("written as %s", text)
			}
		})
	}
}

func TestEmptyAndGranting(t *testing.T) {
	tests := map[string]struct {
		text          string
		empty, grants bool
	}{
		"nothing":                      {`{}`, true, false},
		"empty parts":                  {`{"network":{},"file_system":{"entries":[]}}`, true, false},
		"a network that is off":        {`{"network":{"enabled":false}}`, true, false},
		"a depth alone":                {`{"file_system":{"glob_scan_max_depth":3}}`, true, false},
		"a network":                    {`{"network":{"enabled":true}}`, false, true},
		"a path":                       {`{"file_system":{"read":["/a"]}}`, false, true},
		"a deny alone asks nothing":    {`{"file_system":{"deny":["/a"]}}`, false, false},
		"what is denied again":         {`{"file_system":{"write":["/a/b"],"deny":["/a"]}}`, false, false},
		"a pattern that denies it all": {`{"file_system":{"write":["/a/b"],"deny_glob":["/*"]}}`, false, false},
		"a deny inside leaves the rest": {
			`{"file_system":{"write":["/a"],"deny":["/a/b"]}}`, false, true,
		},
		"a deny of unknown extent leaves none": {
			`{"file_system":{"write":["/a"],"entries":[{"path":{"type":"special","value":{"kind":"unknown","path":"x"}},"access":"deny"}]}}`, false, false,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := parse(t, tt.text)
			if p.IsEmpty() != tt.empty || p.Grants() != tt.grants {
				t.Errorf("IsEmpty = %v, Grants = %v, want %v, %v", p.IsEmpty(), p.Grants(), tt.empty, tt.grants)
			}
			if err := permission.RequireNonEmpty(p); errors.Is(err, permission.ErrEmpty) == tt.grants {
				t.Errorf("RequireNonEmpty = %v", err)
			}
		})
	}
}

// TestSchemaKnowsWhatIsWritten walks a profile that has every part through the
// schema, and the schema through the decoder.
func TestSchemaKnowsWhatIsWritten(t *testing.T) {
	var schema, whole any
	if err := json.Unmarshal(permission.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	p := parse(t, `{"network":{"hosts":["a.example"]},"file_system":{
		"read":["/r"],"write":["/w"],"deny":["/d"],"deny_glob":["/**/x"],"glob_scan_max_depth":1,
		"entries":[{"path":{"type":"special","value":{"kind":"unknown","path":"p","subpath":"s"}},"access":"deny"}]}}`)
	if err := json.Unmarshal([]byte(p.String()), &whole); err != nil {
		t.Fatal(err)
	}
	for _, fault := range misfits(schema.(map[string]any), whole, "") {
		t.Error(fault)
	}
	var refused permission.Profile
	if err := json.Unmarshal([]byte(`{"file_system":{"deny_globs":[]}}`), &refused); err == nil {
		t.Error("the decoder takes a field that the schema does not have")
	}
	if faults := misfits(schema.(map[string]any), map[string]any{"file_system": map[string]any{"deny_globs": []any{}}}, ""); len(faults) != 1 {
		t.Errorf("the schema takes a field that the decoder does not: %v", faults)
	}
}

// misfits checks v against the small part of JSON Schema that is used.
func misfits(schema map[string]any, v any, at string) []string {
	var faults []string
	switch v := v.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, value := range v {
			below, ok := properties[name].(map[string]any)
			if !ok {
				faults = append(faults, fmt.Sprintf("%s.%s is not in the schema", at, name))
				continue
			}
			faults = append(faults, misfits(below, value, at+"."+name)...)
		}
	case []any:
		items, ok := schema["items"].(map[string]any)
		if !ok {
			return append(faults, at+" is no list in the schema")
		}
		for _, value := range v {
			faults = append(faults, misfits(items, value, at+"[]")...)
		}
	case string:
		if schema["type"] != "string" {
			faults = append(faults, at+" is no text in the schema")
		}
		if enum, ok := schema["enum"].([]any); ok && !contains(enum, v) {
			faults = append(faults, fmt.Sprintf("%s is %q, which is not in the schema", at, v))
		}
	case float64:
		if schema["type"] != "integer" {
			faults = append(faults, at+" is no number in the schema")
		}
	}
	return faults
}

func contains(enum []any, text string) bool {
	for _, v := range enum {
		if v == text {
			return true
		}
	}
	return false
}

func TestWhatIsWrittenIsReadOnce(t *testing.T) {
	p := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
		permission.Literal("/w/a", permission.Write), permission.Literal("/w/b", permission.Read), permission.DenyGlob("**/*.pem"),
	}}}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back permission.Profile
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.FileSystem.Entries, back.FileSystem.Entries); diff != "" {
		t.Errorf("%s reads as (-want +got):\n%s", text, diff)
	}
}
