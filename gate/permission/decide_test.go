package permission_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

func TestPatterns(t *testing.T) {
	tests := map[string]struct {
		pattern       string
		denies, spare []string
	}{
		"two stars match no folder as well as many": {"/w/**/.env", []string{"/w/.env", "/w/a/.env", "/w/a/b/.env"}, []string{"/w/x.env", "/w", "/.env", "/w/.envrc"}},
		"what is in a matched folder is denied":     {"/w/**/.git", []string{"/w/.git/config", "/w/a/.git/hooks/x"}, []string{"/w/a"}},
		"one star stays in its folder":              {"/w/*.pem", []string{"/w/a.pem", "/w/.pem"}, []string{"/w/a/b.pem", "/w/a.pem2"}},
		"stars match names that begin with a dot":   {"/w/*", []string{"/w/.x"}, []string{"/w"}},
		"two stars at the end include the folder":   {"/w/x/**", []string{"/w/x", "/w/x/y"}, []string{"/w", "/w/xy"}},
		"a folder of any name and all in it":        {"/w/*/**", []string{"/w/a", "/w/a/b"}, []string{"/w"}},
		"two stars within a name are one":           {"/w/**.pem", []string{"/w/a.pem"}, []string{"/w/a/b.pem"}},
		"question marks are one character":          {"/w/?", []string{"/w/a", "/w/é"}, []string{"/w/ab"}},
		"classes":                                   {"/w/[a-c]x", []string{"/w/ax", "/w/cx"}, []string{"/w/dx"}},
		"classes that exclude":                      {"/w/[!a]", []string{"/w/b"}, []string{"/w/a"}},
		"alternatives":                              {"/w/{a,b/c}", []string{"/w/a", "/w/b/c"}, []string{"/w/b", "/w/c"}},
		"alternatives that end in two stars":        {"/w/{a,b/**}", []string{"/w/a/x", "/w/b", "/w/b/x"}, []string{"/w/c"}},
		"escapes":                                   {`/w/\*x*`, []string{"/w/*x", "/w/*xy"}, []string{"/w/ax"}},
		"everything":                                {"/**", []string{"/", "/a"}, nil},
		"everything but the root itself":            {"/*", []string{"/a", "/a/b"}, []string{"/"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
				permission.Literal("/", permission.Write), permission.DenyGlob(tt.pattern),
			}}}
			for outcome, paths := range map[permission.Outcome][]string{permission.Denied: tt.denies, permission.Allowed: tt.spare} {
				for _, path := range paths {
					if got := permission.Decide(p, permission.Read, path, permissiontest.Tree{}); got.Outcome != outcome {
						t.Errorf("%s: Decide(%s) = %q, want %q", tt.pattern, path, got.Outcome, outcome)
					}
				}
			}
		})
	}
}

func TestDenyUnderAnotherSpelling(t *testing.T) {
	tests := map[string]struct {
		profile, path string
		fold          bool
		want          permission.Outcome
	}{
		"a path":                                  {`{"file_system":{"read":["/"],"deny":["/h/.ssh"]}}`, "/h/.SSH/id", true, permission.Denied},
		"a folder above it":                       {`{"file_system":{"read":["/"],"deny":["/h/.ssh"]}}`, "/H/.ssh/id", true, permission.Denied},
		"not where case counts":                   {`{"file_system":{"read":["/"],"deny":["/h/.ssh"]}}`, "/h/.SSH/id", false, permission.Allowed},
		"not another name":                        {`{"file_system":{"read":["/"],"deny":["/h/.ssh"]}}`, "/h/.SSHX/id", true, permission.Allowed},
		"a pattern":                               {`{"file_system":{"read":["/"],"deny_glob":["/w/**/.env"]}}`, "/w/a/.Env", true, permission.Denied},
		"a pattern where case counts":             {`{"file_system":{"read":["/"],"deny_glob":["/w/**/.env"]}}`, "/w/a/.Env", false, permission.Allowed},
		"a pattern, for what is in its folder":    {`{"file_system":{"read":["/"],"deny_glob":["/w/**/.git"]}}`, "/w/a/.GIT/config", true, permission.Denied},
		"a class":                                 {`{"file_system":{"read":["/"],"deny_glob":["/w/[a-c]*.KEY"]}}`, "/w/Bx.key", true, permission.Denied},
		"a class, not outside":                    {`{"file_system":{"read":["/"],"deny_glob":["/w/[a-c]*.key"]}}`, "/w/Dx.key", true, permission.Allowed},
		"a class of digits, not letters":          {`{"file_system":{"read":["/"],"deny_glob":["/w/log[0-9]"]}}`, "/w/logs", true, permission.Allowed},
		"a class that excludes":                   {`{"file_system":{"read":["/"],"deny_glob":["/w/[!.]*.key"]}}`, "/w/A.KEY", true, permission.Denied},
		"a class that excludes, not inside":       {`{"file_system":{"read":["/"],"deny_glob":["/w/[!.]*.key"]}}`, "/w/.A.KEY", true, permission.Allowed},
		"a class before two stars":                {`{"file_system":{"read":["/"],"deny_glob":["/[w]/x/**"]}}`, "/W/X", true, permission.Denied},
		"alternatives with classes":               {`{"file_system":{"read":["/"],"deny_glob":["/w/{x,y[0-9]}"]}}`, "/w/Y7", true, permission.Denied},
		"a name composed otherwise, not the same": {`{"file_system":{"read":["/"],"deny":["/w/caf\u00e9"]}}`, "/w/cafe\u0301", true, permission.Allowed},
		"a pattern with letters beyond ASCII":     {`{"file_system":{"read":["/"],"deny_glob":["/w/*\u00e9"]}}`, "/w/cafe\u0301", true, permission.Denied},
		"a pattern with no letter to ask about":   {`{"file_system":{"read":["/"],"deny_glob":["/12*"]}}`, "/1\u200c2", false, permission.Denied},
		"a pattern and signs that show nothing":   {`{"file_system":{"read":["/"],"deny_glob":["/w/**/.env"]}}`, "/w/.e\u200cnv", true, permission.Denied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := permission.Decide(parse(t, tt.profile), permission.Read, tt.path, permissiontest.Tree{FoldCase: tt.fold})
			if got.Outcome != tt.want {
				t.Errorf("Decide(%s) = %q, want %q", tt.path, got.Outcome, tt.want)
			}
		})
	}
}

// asked is a volume that gives one answer to every question, and counts them.
type asked struct {
	permissiontest.Tree
	same  bool
	err   error
	count int
}

func (a *asked) SameName(_, _, _ string) (bool, error) {
	a.count++
	return a.same, a.err
}

func TestDecideAsksTheVolumeOnlyAboutSpelling(t *testing.T) {
	p := parse(t, `{"file_system":{"read":["/"],"deny":["/h/.ssh","/c/caf\u00e9"],"deny_glob":["/w/**/.env"]}}`)
	tests := map[string]struct {
		path  string
		asks  bool
		broke permission.Outcome
	}{
		"other names are none of its business":      {"/h/projects/a", false, permission.Allowed},
		"the denied path itself is denied anyway":   {"/h/.ssh/id", false, permission.Denied},
		"another letter case is asked about":        {"/h/.SSH/id", true, permission.Denied},
		"letters beyond ASCII are asked about":      {"/c/cafe\u0301", true, permission.Denied},
		"what a pattern could match is asked about": {"/w/.ENV", true, permission.Denied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			volume := &asked{err: errors.New("no answer")}
			got := permission.Decide(p, permission.Read, tt.path, volume)
			if got.Outcome != tt.broke {
				t.Errorf("without an answer, Decide = %q, want %q", got.Outcome, tt.broke)
			}
			if (volume.count > 0) != tt.asks {
				t.Errorf("the volume was asked %d times", volume.count)
			}
			if tt.asks {
				if got := permission.Decide(p, permission.Read, tt.path, &asked{}); got.Outcome != permission.Allowed {
					t.Errorf("on a volume where spelling counts, Decide = %q", got.Outcome)
				}
			}
		})
	}
}

func TestDecideIsCautious(t *testing.T) {
	all := `"write":["/"]`
	unknown := `{"path":{"type":"special","value":{"kind":"unknown","path":"p"}},"access":"deny"}`
	none := `{"path":{"type":"special","value":{"kind":"minimal"}},"access":"deny"}`
	odd := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
		permission.Literal("/", permission.Write), permission.Literal("/a", "none"),
	}}}
	tests := map[string]struct {
		p      permission.Profile
		access permission.Access
		path   string
		want   permission.Outcome
	}{
		"an empty profile covers nothing":         {permission.Profile{}, permission.Read, "/a", permission.NotCovered},
		"reading does not cover writing":          {parse(t, `{"file_system":{"read":["/"]}}`), permission.Write, "/a", permission.NotCovered},
		"writing covers reading":                  {parse(t, `{"file_system":{`+all+`}}`), permission.Read, "/a", permission.Allowed},
		"an access of its own is not covered":     {parse(t, `{"file_system":{`+all+`}}`), "execute", "/a", permission.NotCovered},
		"deny is no access":                       {parse(t, `{"file_system":{`+all+`}}`), permission.Deny, "/a", permission.NotCovered},
		"a relative path is not covered":          {parse(t, `{"file_system":{`+all+`}}`), permission.Read, "a", permission.NotCovered},
		"a path with dot-dot is not covered":      {parse(t, `{"file_system":{`+all+`}}`), permission.Read, "/a/../b", permission.NotCovered},
		"an empty path is not covered":            {parse(t, `{"file_system":{`+all+`}}`), permission.Read, "", permission.NotCovered},
		"minimal covers no path for certain":      {parse(t, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}]}}`), permission.Read, "/usr", permission.NotCovered},
		"an entry not normalised allows nothing":  {parse(t, `{"file_system":{"write":["a","/b/../c","~"]}}`), permission.Read, "/c", permission.NotCovered},
		"a deny not normalised denies everything": {parse(t, `{"file_system":{`+all+`,"deny":["b"]}}`), permission.Read, "/a", permission.Denied},
		"so does a pattern not normalised":        {parse(t, `{"file_system":{`+all+`,"deny_glob":["**/.env"]}}`), permission.Read, "/a", permission.Denied},
		"so does a deny of an unknown place":      {parse(t, `{"file_system":{`+all+`,"entries":[`+unknown+`]}}`), permission.Read, "/a", permission.Denied},
		"so does a deny of what is minimal":       {parse(t, `{"file_system":{`+all+`,"entries":[`+none+`]}}`), permission.Read, "/a", permission.Denied},
		"so does an access of its own":            {odd, permission.Read, "/b", permission.Denied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := permission.Decide(tt.p, tt.access, tt.path, permissiontest.Tree{})
			if got.Outcome != tt.want || (got.By == nil) != (tt.want == permission.NotCovered) {
				t.Errorf("Decide = %q by %v, want %q", got.Outcome, got.By, tt.want)
			}
		})
	}
}

func TestDecideTree(t *testing.T) {
	p := parse(t, `{"file_system":{"write":["/w"],"deny":["/w/a/secret"],"deny_glob":["/w/b/**/.env"]}}`)
	tests := map[string]struct {
		path string
		fold bool
		want permission.Outcome
	}{
		"a folder that holds a denied one":      {"/w", false, permission.Denied},
		"the denied one":                        {"/w/a/secret", false, permission.Denied},
		"what is in it":                         {"/w/a/secret/x", false, permission.Denied},
		"a folder beside it":                    {"/w/a/public", false, permission.Allowed},
		"a folder that may hold a match":        {"/w/b/c", false, permission.Denied},
		"a folder with no match":                {"/w/c", false, permission.Allowed},
		"a folder outside with a denied one":    {"/", false, permission.Denied},
		"a folder outside":                      {"/x", false, permission.NotCovered},
		"another spelling of a holding folder":  {"/w/A", true, permission.Denied},
		"another spelling where spelling count": {"/w/A", false, permission.Allowed},
		"no clean path":                         {"/w/..", false, permission.NotCovered},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := permission.DecideTree(p, permission.Write, tt.path, permissiontest.Tree{FoldCase: tt.fold})
			if got.Outcome != tt.want {
				t.Errorf("DecideTree(%s) = %q, want %q", tt.path, got.Outcome, tt.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tree := permissiontest.Tree{
		Links: map[string]string{
			"/w/out": "/etc", "/w/in": "/w/src", "/home/dev/keys": "/home/dev/.ssh",
			"/proc/self": "9", "/proc/self/cwd": "/w", "/w/moved": "/w/src/deep",
		},
		Errors: map[string]error{"/w/locked": fs.ErrPermission},
	}
	env := permission.Environment{Cwd: "/w", Home: "/home/dev"}
	p, _, err := permission.Normalise(parse(t, `{"file_system":{"write":["/w"],"deny":["~/.ssh","/w/locked/key"]}}`), permission.SideCeiling, env, tree)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		text string
		want permission.Outcome
		err  error
	}{
		"a relative path":                              {"src/a", permission.Allowed, nil},
		"a link that stays inside":                     {"in/a", permission.Allowed, nil},
		"a link that leads out":                        {"out/passwd", permission.NotCovered, nil},
		"a link to what is denied":                     {"~/keys/id", permission.Denied, nil},
		"dot-dot after a link that leads out":          {"out/../x", permission.NotCovered, nil},
		"dot-dot after a link that stays inside":       {"moved/../x", permission.Allowed, nil},
		"dot-dot to what is denied":                    {"../home/dev/.ssh/id", permission.Denied, nil},
		"a place of each process":                      {"/proc/self/cwd/a", permission.NotCovered, permission.ErrProcess},
		"what cannot be seen":                          {"locked/x", permission.NotCovered, permission.ErrUnresolved},
		"what cannot be seen but is denied as spelled": {"locked/key", permission.Denied, nil},
		"what is foreign":                              {`C:\x`, permission.NotCovered, permission.ErrForeign},
		"what is somebody else's":                      {"~root/x", permission.NotCovered, permission.ErrOtherHome},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := permission.Check(p, permission.Write, tt.text, env, tree)
			if got.Outcome != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("Check(%s) = %q, %v, want %q, %v", tt.text, got.Outcome, err, tt.want, tt.err)
			}
			if (got.By == nil) != (got.Outcome == permission.NotCovered) {
				t.Errorf("Check(%s) = %q by %v", tt.text, got.Outcome, got.By)
			}
		})
	}
}
