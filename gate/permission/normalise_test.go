package permission_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

var workspace = permission.Environment{
	ID: "local", Cwd: "/workspace/app", Home: "/home/dev", TmpDir: "/var/tmp/dev",
	ProjectRoots: []string{"/workspace/app", "/workspace/lib"}, OS: "linux",
}

func TestNormalise(t *testing.T) {
	links := permissiontest.Tree{Links: map[string]string{
		"/workspace/app/out":  "../build",
		"/workspace/app/etc":  "/etc",
		"/workspace/app/gone": "/nowhere/yet",
		"/workspace/app/[id]": "/real",
		"/home/dev/app":       "/workspace/app",
		"/tmp":                "private/tmp",
		"/proc/self":          "77",
		"/proc/mounts":        "self/mounts",
		"/proc/self/cwd":      "/home/dev/.ssh",
	}, Missing: []string{"/nowhere", "/workspace/app/new"}}
	cwd := workspace
	brackets := workspace
	brackets.Cwd = "/workspace/[v1]"
	bare := permission.Environment{}
	tests := map[string]struct {
		env        permission.Environment
		text, want string
	}{
		"relative paths start in the working folder":  {cwd, `{"file_system":{"write":["src",".","./a"]}}`, `{"file_system":{"write":["/workspace/app"]}}`},
		"relative paths may lead out of it":           {cwd, `{"file_system":{"write":["../lib"]}}`, `{"file_system":{"write":["/workspace/lib"]}}`},
		"dot-dot stops at the root":                   {cwd, `{"file_system":{"read":["/../../x"]}}`, `{"file_system":{"read":["/x"]}}`},
		"slashes and dots are shortened":              {cwd, `{"file_system":{"read":["//a//b/./c/"]}}`, `{"file_system":{"read":["/a/b/c"]}}`},
		"the home is the environment's":               {cwd, `{"file_system":{"read":["~/x"],"write":["~"]}}`, `{"file_system":{"write":["/home/dev"]}}`},
		"a tilde elsewhere is a letter":               {cwd, `{"file_system":{"read":["./~","a/~b"]}}`, `{"file_system":{"read":["/workspace/app/~","/workspace/app/a/~b"]}}`},
		"a drive can be written as a file":            {cwd, `{"file_system":{"read":["./c:x"]}}`, `{"file_system":{"read":["/workspace/app/c:x"]}}`},
		"a backslash in a path with slashes is one":   {cwd, `{"file_system":{"read":["/a\\b"]}}`, `{"file_system":{"read":["/a\\b"]}}`},
		"links are followed":                          {cwd, `{"file_system":{"write":["out/x"]}}`, `{"file_system":{"write":["/workspace/build/x"]}}`},
		"links to links are followed":                 {cwd, `{"file_system":{"write":["~/app/etc/x"]}}`, `{"file_system":{"write":["/etc/x"]}}`},
		"links to nowhere are followed":               {cwd, `{"file_system":{"write":["gone/x"]}}`, `{"file_system":{"write":["/nowhere/yet/x"]}}`},
		"dot-dot leads back from what does not exist": {cwd, `{"file_system":{"write":["new/../etc/x"]}}`, `{"file_system":{"write":["/etc/x"]}}`},
		"absolute paths need no environment":          {bare, `{"file_system":{"write":["/a"]}}`, `{"file_system":{"write":["/a"]}}`},

		"a deny holds at both ends of a link":           {cwd, `{"file_system":{"deny":["etc"]}}`, `{"file_system":{"deny":["/etc","/workspace/app/etc"]}}`},
		"a deny holds wherever dot-dot may lead":        {cwd, `{"file_system":{"deny":["etc/../x"]}}`, `{"file_system":{"deny":["/workspace/app/x","/x"]}}`},
		"a deny through a process holds as it is":       {cwd, `{"file_system":{"deny":["/proc/self/cwd/x"]}}`, `{"file_system":{"deny":["/proc/self/cwd/x"]}}`},
		"entries within others are left out":            {cwd, `{"file_system":{"read":["/a","/a/b"],"write":["/a/c"],"deny":["/d","/d/e"]}}`, `{"file_system":{"read":["/a"],"write":["/a/c"],"deny":["/d"]}}`},
		"a depth without patterns is left out":          {cwd, `{"file_system":{"read":["/a"],"glob_scan_max_depth":3}}`, `{"file_system":{"read":["/a"]}}`},
		"patterns start in the working folder":          {cwd, `{"file_system":{"deny_glob":["**/.env","*.key"]}}`, `{"file_system":{"deny_glob":["/workspace/app/**/.env","/workspace/app/*.key"]}}`},
		"characters of the working folder are no meta":  {brackets, `{"file_system":{"deny_glob":["*.key"]}}`, `{"file_system":{"deny_glob":["/workspace/\\[v1\\]/*.key"]}}`},
		"patterns know the home":                        {cwd, `{"file_system":{"deny_glob":["~/**/*.pem"]}}`, `{"file_system":{"deny_glob":["/home/dev/**/*.pem"]}}`},
		"patterns lead out before the first wildcard":   {cwd, `{"file_system":{"deny_glob":["../**/*.pem"]}}`, `{"file_system":{"deny_glob":["/workspace/**/*.pem"]}}`},
		"slashes and dots in patterns are shortened":    {cwd, `{"file_system":{"deny_glob":[".//a/./**//x/"]}}`, `{"file_system":{"deny_glob":["/workspace/app/a/**/x"]}}`},
		"links before the first wildcard are followed":  {cwd, `{"file_system":{"deny_glob":["etc/*.key"]}}`, `{"file_system":{"deny_glob":["/etc/*.key","/workspace/app/etc/*.key"]}}`},
		"escaped characters are literal":                {cwd, `{"file_system":{"deny_glob":["\\[id\\]/*"]}}`, `{"file_system":{"deny_glob":["/real/*","/workspace/app/\\[id\\]/*"]}}`},
		"a pattern without wildcards is a path":         {cwd, `{"file_system":{"deny_glob":["/a/\\*.txt"]}}`, `{"file_system":{"deny":["/a/*.txt"]}}`},
		"a pattern at the root":                         {cwd, `{"file_system":{"deny_glob":["/**/.env"]}}`, `{"file_system":{"deny_glob":["/**/.env"]}}`},
		"the root is a path":                            {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]}}`, `{"file_system":{"read":["/"]}}`},
		"project roots are paths":                       {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]}}`, `{"file_system":{"write":["/workspace/app","/workspace/lib"]}}`},
		"so are folders below each":                     {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"project_roots","subpath":"src"}},"access":"write"}]}}`, `{"file_system":{"write":["/workspace/app/src","/workspace/lib/src"]}}`},
		"the folder for temporary files is a path":      {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}]}}`, `{"file_system":{"write":["/var/tmp/dev"]}}`},
		"so is /tmp, with its links followed":           {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"}]}}`, `{"file_system":{"write":["/private/tmp"]}}`},
		"minimal stays a name":                          {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}]}}`, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}]}}`},
		"minimal is within the root":                    {cwd, `{"file_system":{"read":["/"],"entries":[{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}]}}`, `{"file_system":{"read":["/"]}}`},
		"a deny of an unknown place stays":              {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"unknown","path":"p"}},"access":"deny"}]}}`, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"unknown","path":"p"}},"access":"deny"}]}}`},
		"a deny of a place that is not told stays":      {bare, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"deny"}]}}`, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"deny"}]}}`},
		"a deny of a place that is told becomes a path": {cwd, `{"file_system":{"entries":[{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"deny"}]}}`, `{"file_system":{"deny":["/var/tmp/dev"]}}`},
		"hosts get their one spelling":                  {bare, `{"network":{"hosts":["A.example.","a.EXAMPLE"]}}`, `{"network":{"hosts":["a.example"]}}`},
		"a network without limits stays without":        {bare, `{"network":{"enabled":true}}`, `{"network":{"enabled":true}}`},
		"a process asks for itself, not for this one":   {cwd, `{"file_system":{"read":["/proc/self/status","/proc/mounts"]}}`, `{"file_system":{"read":["/proc/self/status","/proc/self/mounts"]}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, dropped, err := permission.Normalise(parse(t, tt.text), permission.SideRequested, tt.env, links)
			if err != nil || len(dropped) > 0 {
				t.Fatalf("dropped %v, error %v", dropped, err)
			}
			if diff := cmp.Diff(parse(t, tt.want).String(), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, _, err := permission.Normalise(got, permission.SideRequested, tt.env, links)
			if err != nil || !again.Equal(got) {
				t.Errorf("normalised twice: %v, %v, want %v", again, err, got)
			}
		})
	}
}

func TestNormaliseRefuses(t *testing.T) {
	broken := errors.New("disk on fire")
	tree := permissiontest.Tree{
		Links: map[string]string{
			"/loop/a": "b", "/loop/b": "a", "/loop/self": "self",
			"/w/link": "/etc", "/w/nul": "/a\x00b", "/proc/77/cwd": "/home", "/proc/self": "78",
			"/proc/self/root": "/", "/dev/fd": "/proc/self/fd", "/proc/self/fd/0": "pipe:[1]",
		},
		Errors: map[string]error{"/locked": fs.ErrPermission, "/broken": broken},
	}
	windows := workspace
	windows.OS = "windows"
	drive := permission.Environment{Cwd: `C:\work`, Home: `C:\Users\dev`}
	bare := permission.Environment{}
	read := func(p string) permission.Profile {
		return permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(p, permission.Read)}}}
	}
	deny := func(p string) permission.Profile {
		return permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal(p, permission.Deny)}}}
	}
	glob := func(p string) permission.Profile {
		return permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.DenyGlob(p)}}}
	}
	place := func(s permission.Special) permission.Profile {
		return permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{special(s, permission.Read)}}}
	}
	relativeRoots := permission.Environment{ProjectRoots: []string{"app"}, TmpDir: "tmp"}
	roots := permission.KindProjectRoots
	tests := map[string]struct {
		p    permission.Profile
		env  permission.Environment
		want error
	}{
		"an empty path":                        {read(""), workspace, permission.ErrBadPath},
		"an empty deny":                        {deny(""), workspace, permission.ErrBadPath},
		"a NUL byte":                           {read("/a\x00b"), workspace, permission.ErrBadPath},
		"bytes that are no text":               {read("/a\xff"), workspace, permission.ErrBadPath},
		"a replacement character":              {deny("/a\ufffd"), workspace, permission.ErrBadPath},
		"a path without end":                   {read("/" + strings.Repeat("a/", 4096)), workspace, permission.ErrBadPath},
		"a drive":                              {read(`C:\Users`), workspace, permission.ErrForeign},
		"a drive with slashes":                 {read(`c:/Users`), workspace, permission.ErrForeign},
		"a drive alone":                        {read(`C:`), workspace, permission.ErrForeign},
		"a path on a drive's own folder":       {read(`C:x`), workspace, permission.ErrForeign},
		"a network share":                      {read(`\\server\share`), workspace, permission.ErrForeign},
		"a path from the drive's root":         {read(`\temp`), workspace, permission.ErrForeign},
		"a relative Windows path":              {read(`src\main`), workspace, permission.ErrForeign},
		"a denied Windows path":                {deny(`src\main`), workspace, permission.ErrForeign},
		"a file URI":                           {read("file:///etc"), workspace, permission.ErrForeign},
		"a file URI without slashes":           {read("FILE:/etc"), workspace, permission.ErrForeign},
		"a URI of the web":                     {read("https://a.example/x"), workspace, permission.ErrForeign},
		"a URI of an editor":                   {read("vscode-remote://ssh/x"), workspace, permission.ErrForeign},
		"anything on Windows":                  {read("/a"), windows, permission.ErrForeign},
		"any pattern on Windows":               {glob("/*"), windows, permission.ErrForeign},
		"a relative path on a drive":           {read("a"), drive, permission.ErrForeign},
		"a home on a drive":                    {read("~"), drive, permission.ErrForeign},
		"a relative path from nowhere":         {read("a"), bare, permission.ErrNoBase},
		"a home that is not told":              {read("~/a"), bare, permission.ErrNoBase},
		"a relative working folder":            {read("a"), permission.Environment{Cwd: "work"}, permission.ErrNoBase},
		"a relative pattern from nowhere":      {glob("*"), bare, permission.ErrNoBase},
		"somebody else's home":                 {read("~root"), workspace, permission.ErrOtherHome},
		"somebody else's denied home":          {deny("~root/.ssh"), workspace, permission.ErrOtherHome},
		"patterns in somebody else's home":     {glob("~root/*"), workspace, permission.ErrOtherHome},
		"links in a circle":                    {read("/loop/a/x"), workspace, permission.ErrUnresolved},
		"a link to itself":                     {read("/loop/self"), workspace, permission.ErrUnresolved},
		"a link with a NUL byte":               {read("/w/nul"), workspace, permission.ErrBadPath},
		"what may not be looked at":            {read("/locked/x"), workspace, permission.ErrUnresolved},
		"what cannot be looked at":             {read("/broken/x"), workspace, broken},
		"two places for one path":              {read("/w/link/../x"), workspace, permission.ErrAmbiguous},
		"a place of one process":               {read("/proc/77/cwd/x"), workspace, permission.ErrProcess},
		"a place of each process":              {read("/proc/self/root/x"), workspace, permission.ErrProcess},
		"a descriptor of each process":         {read("/dev/fd/0"), workspace, permission.ErrProcess},
		"an access of its own":                 {permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("/a", "all")}}}, workspace, permission.ErrInvalid},
		"a path type of its own":               {permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{entry(permission.Path{Type: "x"}, permission.Read)}}}, workspace, permission.ErrInvalid},
		"a pattern that allows":                {permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{entry(permission.DenyGlob("/*").Path, permission.Write)}}}, workspace, permission.ErrPattern},
		"a negative depth":                     {permission.Profile{FileSystem: permission.FileSystem{GlobScanMaxDepth: -1}}, workspace, permission.ErrInvalid},
		"a host with a port":                   {permission.Profile{Network: permission.Network{Hosts: []string{"a.example:1"}}}, workspace, permission.ErrHost},
		"a subpath that leads out":             {place(permission.Special{Kind: roots, Subpath: "a/../../b"}), workspace, permission.ErrBadPath},
		"an absolute subpath":                  {place(permission.Special{Kind: roots, Subpath: "/etc"}), workspace, permission.ErrBadPath},
		"a Windows subpath":                    {place(permission.Special{Kind: roots, Subpath: `a\b`}), workspace, permission.ErrForeign},
		"a relative project root":              {place(permission.Special{Kind: roots}), relativeRoots, permission.ErrNoBase},
		"a relative folder of temporary files": {place(permission.Special{Kind: permission.KindTmpdir}), relativeRoots, permission.ErrNoBase},
		"a kind of its own":                    {place(permission.Special{Kind: "home"}), workspace, permission.ErrInvalid},

		"an empty pattern":                    {glob(""), workspace, permission.ErrBadPattern},
		"a pattern with a NUL byte":           {glob("/\x00*"), workspace, permission.ErrBadPattern},
		"a class without end":                 {glob("/[a"), workspace, permission.ErrBadPattern},
		"an empty class":                      {glob("/[]"), workspace, permission.ErrBadPattern},
		"a class that runs backwards":         {glob("/[z-a]"), workspace, permission.ErrBadPattern},
		"a slash in a class":                  {glob("/[a/]"), workspace, permission.ErrBadPattern},
		"an escaped slash":                    {glob(`/*\/b`), workspace, permission.ErrBadPattern},
		"braces without end":                  {glob("/{a,b"), workspace, permission.ErrBadPattern},
		"an escape at the end":                {glob(`/*\`), workspace, permission.ErrBadPattern},
		"dot-dot after a wildcard":            {glob("/*/../a"), workspace, permission.ErrBadPattern},
		"dot-dot among alternatives":          {glob("/{a,..}/b"), workspace, permission.ErrBadPattern},
		"an alternative that is no name":      {glob("/a/{,b}/c"), workspace, permission.ErrBadPattern},
		"an alternative that goes nowhere":    {glob("/a/{b,.}"), workspace, permission.ErrBadPattern},
		"too many alternatives":               {glob("/" + strings.Repeat("{a,b}", 7)), workspace, permission.ErrBadPattern},
		"alternatives within alternatives":    {glob("/" + strings.Repeat("{a,{b,c}}", 5)), workspace, permission.ErrBadPattern},
		"a pattern without end":               {glob("/*" + strings.Repeat("a", 1024)), workspace, permission.ErrBadPattern},
		"a Windows pattern":                   {glob(`C:\Users\*`), workspace, permission.ErrForeign},
		"a relative Windows pattern":          {glob(`src\main\*.go`), workspace, permission.ErrForeign},
		"a pattern on a share":                {glob(`\\server\*`), workspace, permission.ErrForeign},
		"a pattern that is a URI":             {glob("file:///*"), workspace, permission.ErrForeign},
		"a Windows pattern with a bad ending": {glob(`C:\Users\`), workspace, permission.ErrForeign},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := permission.Normalise(tt.p, permission.SideRequested, tt.env, tree)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Normalise(%+v) = %v, %v, want %v", tt.p, got, err, tt.want)
			}
			if !got.IsEmpty() {
				t.Errorf("the refused profile grants %v", got)
			}
			mine := errors.Is(err, permission.ErrInvalid)
			machine := errors.Is(err, permission.ErrUnresolved)
			if mine == machine {
				t.Errorf("%v: the writer's mistake %v, the machine's %v", err, mine, machine)
			}
		})
	}
}

func TestPatternsMayNotCostTooMuchTogether(t *testing.T) {
	var p permission.Profile
	for i := range 400 {
		p.FileSystem.Entries = append(p.FileSystem.Entries, permission.DenyGlob(fmt.Sprintf("**/secret%d/*.key", i)))
	}
	if _, _, err := permission.Normalise(p, permission.SideCeiling, workspace, permissiontest.Tree{}); err != nil {
		t.Errorf("400 ordinary patterns: %v", err)
	}
	for i := range 40 {
		p.FileSystem.Entries = append(p.FileSystem.Entries, permission.DenyGlob(fmt.Sprintf("**/%d/%s", i, strings.Repeat("{a,b}", 6))))
	}
	if _, _, err := permission.Normalise(p, permission.SideCeiling, workspace, permissiontest.Tree{}); !errors.Is(err, permission.ErrBadPattern) {
		t.Errorf("40 patterns of 64 alternatives more: %v, want ErrBadPattern", err)
	}
}

func TestDenyHoldsAsFarAsItCanBeSeen(t *testing.T) {
	tree := permissiontest.Tree{
		Links:  map[string]string{"/w/keys": "/vault", "/loop": "loop"},
		Errors: map[string]error{"/vault/inner": fs.ErrPermission},
	}
	written := parse(t, `{"file_system":{"deny":["/w/keys/inner/x","/loop/y"]}}`)
	got, _, err := permission.Normalise(written, permission.SideCeiling, workspace, tree)
	if err != nil {
		t.Fatal(err)
	}
	want := parse(t, `{"file_system":{"deny":["/w/keys/inner/x","/vault/inner/x","/loop/y"]}}`)
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNormaliseTellsWhatItDrops(t *testing.T) {
	unknown := `{"path":{"type":"special","value":{"kind":"unknown","path":"p"}},"access":"write"}`
	tmpdir := `{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}`
	p := parse(t, `{"network":{"hosts":["a.example","b.example:1","user@c.example"]},
		"file_system":{"read":["/a"],"entries":[`+unknown+`,`+tmpdir+`]}}`)
	got, dropped, err := permission.Normalise(p, permission.SideGranted, permission.Environment{}, permissiontest.Tree{})
	if err != nil {
		t.Fatal(err)
	}
	if want := parse(t, `{"network":{"hosts":["a.example"]},"file_system":{"read":["/a"]}}`); !got.Equal(want) {
		t.Errorf("normalised to %v, want %v", got, want)
	}
	reasons := make([]string, len(dropped))
	for i, d := range dropped {
		reasons[i] = string(d.Side) + " " + string(d.Reason)
		if (d.Network == nil) == (d.Entry == nil) {
			t.Errorf("dropped %+v, which is not one thing", d)
		}
	}
	want := []string{"granted bad_host", "granted bad_host", "granted unresolved", "granted unresolved"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// A grant whose hosts are all unreadable must not turn into one without a limit.
func TestGrantThatLosesEveryHostGrantsNone(t *testing.T) {
	p := parse(t, `{"network":{"enabled":true,"hosts":["a.example:1"]}}`)
	got, dropped, err := permission.Normalise(p, permission.SideGranted, workspace, permissiontest.Tree{})
	if err != nil || len(dropped) != 1 || !got.IsEmpty() {
		t.Errorf("normalised to %v, dropped %v, error %v", got, dropped, err)
	}
}

func TestLinksAreFollowedAsFarAsTheKernelDoes(t *testing.T) {
	tree := permissiontest.Tree{Links: make(map[string]string)}
	for i := range 41 {
		tree.Links[fmt.Sprintf("/l%d", i)] = fmt.Sprintf("l%d", i+1)
	}
	env := permission.Environment{}
	if got, err := env.Resolve("/l1", tree); got != "/l41" || err != nil {
		t.Errorf("40 links lead to %q, %v", got, err)
	}
	if got, err := env.Resolve("/l0", tree); !errors.Is(err, permission.ErrUnresolved) {
		t.Errorf("41 links lead to %q, %v, want ErrUnresolved", got, err)
	}
}

// drawLinks makes a tree with up to five links among the paths of the universe.
func drawLinks(t *rapid.T) map[string]string {
	targets := rapid.SampledFrom([]string{"/a", "/b", "/a/b", "/", "..", "../b", "a", ".", "b/../..", "/ab/gone"})
	return rapid.MapOfN(rapid.SampledFrom(plain[1:]), targets, 0, 5).Draw(t, "links")
}

func drawSpelling(t *rapid.T, label string) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "ab", "b", "..", ".", ""}), 1, 5).Draw(t, label)
	text := strings.Join(parts, "/")
	if rapid.Bool().Draw(t, "absolute") {
		text = "/" + text
	}
	return text
}

// What is resolved has no link left in it, whatever way led there.
func TestResolvedPathsHaveNoLinks(t *testing.T) {
	var resolved int
	rapid.Check(t, func(t *rapid.T) {
		tree := permissiontest.Tree{Links: drawLinks(t)}
		text := drawSpelling(t, "path")
		if text == "" {
			return
		}
		env := permission.Environment{Cwd: rapid.SampledFrom(plain).Draw(t, "cwd")}
		got, err := env.Resolve(text, tree)
		if err != nil {
			return
		}
		resolved++
		if path.Clean(got) != got || !path.IsAbs(got) {
			t.Fatalf("Resolve(%q) = %q, which is not clean", text, got)
		}
		for dir := got; dir != "/"; dir = path.Dir(dir) {
			if target, ok := tree.Links[dir]; ok {
				t.Fatalf("Resolve(%q) = %q, where %s is a link to %s", text, got, dir, target)
			}
		}
		if again, err := env.Resolve(got, tree); err != nil || again != got {
			t.Fatalf("Resolve(%q) = %q, %v", got, again, err)
		}
	})
	if resolved == 0 {
		t.Error("no path was ever resolved")
	}
}

func TestNormaliseIsIdempotent(t *testing.T) {
	var normalised int
	rapid.Check(t, func(t *rapid.T) {
		tree := permissiontest.Tree{Links: drawLinks(t)}
		env := permission.Environment{Cwd: rapid.SampledFrom(plain).Draw(t, "cwd")}
		p := everyShape.draw(t, "p")
		for i, e := range p.FileSystem.Entries {
			if text := drawSpelling(t, "spelled"); e.Path.Type == permission.TypePath && text != "" {
				p.FileSystem.Entries[i].Path.Path = text
			} else if e.Path.Type == permission.TypeGlob && rapid.Bool().Draw(t, "relative") {
				p.FileSystem.Entries[i].Path.Pattern = strings.Join(append(rapid.SliceOfN(
					rapid.SampledFrom([]string{"..", "a", "b"}), 0, 2).Draw(t, "from"), e.Path.Pattern[1:]), "/")
			}
		}
		once, _, err := permission.Normalise(p, permission.SideRequested, env, tree)
		if err != nil {
			return
		}
		normalised++
		twice, dropped, err := permission.Normalise(once, permission.SideRequested, env, tree)
		if err != nil || len(dropped) > 0 || !twice.Equal(once) {
			t.Fatalf("%v\nnormalised once:  %v\nnormalised twice: %v, dropped %v, error %v", p, once, twice, dropped, err)
		}
		for _, d := range permission.IntersectAll(once, once, permission.Everything()).Dropped {
			if d.Reason == permission.NotNormalised {
				t.Fatalf("%v is normalised, and yet %+v", once, d)
			}
		}
	})
	if normalised == 0 {
		t.Error("no profile was ever normalised")
	}
}

// realTree lays the links out below root, with every other path of the universe as
// a folder.
func realTree(t testing.TB, root string, links map[string]string) {
	t.Helper()
	for _, at := range plain {
		// A link may stand for a folder above.
		covered := func(link string) bool { return at == link || strings.HasPrefix(at, link+"/") }
		if slices.ContainsFunc(slices.Collect(maps.Keys(links)), covered) {
			continue
		}
		if err := os.MkdirAll(filepath.Join(root, at), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at, target := range links {
		if path.IsAbs(target) {
			target = filepath.Join(root, target)
		}
		// It may be below another link, and then there is no such place.
		_ = os.Symlink(target, filepath.Join(root, at))
	}
}

// On the disk, paths lead where the standard library says that they lead.
func TestResolveAgreesWithTheOperatingSystem(t *testing.T) {
	scratch, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(scratch, "root")
	var agreed int
	rapid.Check(t, func(rt *rapid.T) {
		if err := os.RemoveAll(root); err != nil {
			rt.Fatal(err)
		}
		realTree(t, root, drawLinks(rt))
		text := drawSpelling(rt, "path")
		want, wantErr := filepath.EvalSymlinks(root + "/" + text)
		got, err := permission.Environment{Cwd: root}.Resolve(root+"/"+text, nil)
		switch {
		case errors.Is(err, permission.ErrAmbiguous):
			if !strings.Contains("/"+text+"/", "/../") {
				rt.Fatalf("Resolve(%q): %v", text, err)
			}
		case wantErr == nil && (err != nil || got != want):
			rt.Fatalf("Resolve(%q) = %q, %v, want %q", text, got, err, want)
		case wantErr == nil:
			agreed++
		}
	})
	if agreed == 0 {
		t.Error("no path was ever compared")
	}
}
