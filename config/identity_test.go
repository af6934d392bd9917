package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regent-policy/regent/config"
)

// folder does things to files below a folder and fails the test where it cannot.
type folder struct {
	tb  testing.TB
	dir string
}

func newFolder(tb testing.TB) folder {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return folder{tb, dir}
}

func (f folder) must(err error) {
	f.tb.Helper()
	if err != nil {
		f.tb.Fatal(err)
	}
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// put writes a file in place and makes the folders that it needs.
func (f folder) put(name, text string) {
	f.tb.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o700))
	f.must(os.WriteFile(f.path(name), []byte(text), 0o600))
}

// replace writes another file and renames it over name.
func (f folder) replace(name, text string) {
	f.tb.Helper()
	f.put(name+".new~", text)
	f.rename(name+".new~", name)
}

func (f folder) mkdir(name string) { f.tb.Helper(); f.must(os.MkdirAll(f.path(name), 0o700)) }
func (f folder) remove(name string) {
	f.tb.Helper()
	f.must(os.RemoveAll(f.path(name)))
}

func (f folder) rename(name, to string) {
	f.tb.Helper()
	f.must(os.Rename(f.path(name), f.path(to)))
}

func (f folder) link(name, target string) {
	f.tb.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o700))
	f.must(os.Symlink(target, f.path(name)))
}

// relink puts a link with another target in a link's place, in one step.
func (f folder) relink(name, target string) {
	f.tb.Helper()
	f.link(name+"_tmp", target)
	f.rename(name+"_tmp", name)
}

func (f folder) times(name string, at time.Time) {
	f.tb.Helper()
	f.must(os.Chtimes(f.path(name), at, at))
}

// mount makes what a mounted ConfigMap looks like: config.yaml leads through
// ..data to a folder of its version.
func (f folder) mount() {
	f.put("..v1/config.yaml", "mode: manual")
	f.link("..data", "..v1")
	f.link("config.yaml", "..data/config.yaml")
}

// when is a time that any file system can hold.
var when = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var identities = []struct {
	rule   string
	paths  string // separated by spaces
	before func(folder)
	change func(folder)
	same   bool
}{
	{
		"nothing happens", "config.yaml policies",
		func(f folder) { f.put("config.yaml", "a"); f.put("policies/a.rego", "b") },
		func(folder) {},
		true,
	},
	{
		"a file is replaced by another with the same text", "config.yaml",
		func(f folder) { f.put("config.yaml", "mode: manual") },
		func(f folder) { f.replace("config.yaml", "mode: manual") },
		false,
	},
	{
		"an edit in place of the same length puts the time back", "config.yaml",
		func(f folder) { f.put("config.yaml", "mode: manual"); f.times("config.yaml", when) },
		func(f folder) { f.put("config.yaml", "mode: review"); f.times("config.yaml", when) },
		false,
	},
	{
		"an edit of the same length comes at once", "config.yaml",
		func(f folder) { f.put("config.yaml", "mode: manual") },
		func(f folder) { f.put("config.yaml", "mode: review") },
		false,
	},
	{
		"an older file takes the place", "config.yaml",
		func(f folder) {
			f.put("config.yaml", "mode: manual")
			f.put("older", "mode: review")
			f.times("older", when.Add(-time.Minute))
		},
		func(f folder) { f.rename("older", "config.yaml") },
		false,
	},
	{
		"the time alone goes back", "config.yaml",
		func(f folder) { f.put("config.yaml", "a") },
		func(f folder) { f.times("config.yaml", when) },
		false,
	},
	{
		"the mode changes", "config.yaml",
		func(f folder) { f.put("config.yaml", "a") },
		func(f folder) { f.must(os.Chmod(f.path("config.yaml"), 0o640)) },
		false,
	},
	{
		"a file is emptied", "config.yaml",
		func(f folder) { f.put("config.yaml", "a") },
		func(f folder) { f.must(os.Truncate(f.path("config.yaml"), 0)) },
		false,
	},
	{
		"a file goes", "config.yaml",
		func(f folder) { f.put("config.yaml", "a") },
		func(f folder) { f.remove("config.yaml") },
		false,
	},
	{
		"a missing file comes", "sub/config.yaml",
		func(f folder) { f.mkdir("sub") },
		func(f folder) { f.put("sub/config.yaml", "") },
		false,
	},
	{
		"a file below a missing folder stays away", "sub/config.yaml",
		func(folder) {},
		func(f folder) { f.put("other", "") },
		true,
	},
	{
		"a missing folder becomes a file", "sub/config.yaml",
		func(folder) {},
		func(f folder) { f.put("sub", "") },
		false,
	},
	{
		"a pipe takes a file's place and nobody waits for it", "config.yaml",
		func(f folder) { f.put("config.yaml", "") },
		func(f folder) { f.remove("config.yaml"); f.must(syscall.Mkfifo(f.path("config.yaml"), 0o600)) },
		false,
	},
	{
		"a link in a circle is broken up", "config.yaml",
		func(f folder) { f.link("config.yaml", "other"); f.link("other", "config.yaml") },
		func(f folder) { f.remove("other"); f.put("other", "") },
		false,
	},
	{
		"the version behind two links is swapped", "config.yaml",
		func(f folder) { f.mount(); f.put("..v2/config.yaml", "mode: review") },
		func(f folder) { f.relink("..data", "..v2") },
		false,
	},
	{
		"a link in the middle leads to the same file another way", "config.yaml",
		func(f folder) { f.mount(); f.link("..v2", "..v1") },
		func(f folder) { f.relink("..data", "..v2") },
		false,
	},
	{
		"a new version that no link leads to does not count", "config.yaml",
		func(f folder) { f.mount() },
		func(f folder) { f.put("..v2/config.yaml", "mode: review") },
		true,
	},
	{
		"the target of a link is edited", "config.yaml",
		func(f folder) { f.put("real/config.yaml", "a"); f.link("config.yaml", f.path("real/config.yaml")) },
		func(f folder) { f.put("real/config.yaml", "b") },
		false,
	},
	{
		"a link leads nowhere until its target comes", "config.yaml",
		func(f folder) { f.link("config.yaml", "real/../target") },
		func(f folder) { f.mkdir("real"); f.put("target", "") },
		false,
	},
	{
		"a file in a subfolder is edited", "policies",
		func(f folder) { f.put("policies/git/a.rego", "a") },
		func(f folder) { f.put("policies/git/a.rego", "b") },
		false,
	},
	{
		"a file is moved to another folder", "policies",
		func(f folder) { f.put("policies/git/a.rego", "a"); f.mkdir("policies/files") },
		func(f folder) { f.rename("policies/git/a.rego", "policies/files/a.rego") },
		false,
	},
	{
		"an empty folder comes", "policies",
		func(f folder) { f.mkdir("policies") },
		func(f folder) { f.mkdir("policies/git") },
		false,
	},
	{
		"hidden files and folders are passed over", "policies",
		func(f folder) { f.put("policies/a.rego", "a") },
		func(f folder) {
			f.put("policies/.a.rego.swp", "b")
			f.put("policies/.git/config", "b")
			f.remove("policies/.a.rego.swp")
		},
		true,
	},
	{
		"a folder that is named counts though it is hidden", ".regent",
		func(f folder) { f.put(".regent/a.rego", "a") },
		func(f folder) { f.put(".regent/a.rego", "b") },
		false,
	},
	{
		"a named folder may be a link", "policies",
		func(f folder) { f.put("real/a.rego", "a"); f.link("policies", "real") },
		func(f folder) { f.put("real/a.rego", "b") },
		false,
	},
	{
		"a link to a folder below a folder is not followed", "policies",
		func(f folder) { f.put("real/a.rego", "a"); f.link("policies/more", "../real") },
		func(f folder) { f.put("real/a.rego", "b") },
		true,
	},
	{
		"a link to a file below a folder is followed through hidden names", "policies",
		func(f folder) {
			f.put("policies/..v1/a.rego", "a")
			f.put("policies/..v2/a.rego", "a")
			f.link("policies/..data", "..v1")
			f.link("policies/a.rego", "..data/a.rego")
		},
		func(f folder) { f.relink("policies/..data", "..v2") },
		false,
	},
	{
		"a file beside does not count", "config.yaml",
		func(f folder) { f.put("config.yaml", "a") },
		func(f folder) { f.put("other.yaml", "a") },
		true,
	},
}

func TestIdentify(t *testing.T) {
	for _, tt := range identities {
		t.Run(tt.rule, func(t *testing.T) {
			f := newFolder(t)
			tt.before(f)
			paths := f.paths(tt.paths)
			before := config.Identify(paths)
			tt.change(f)
			after := config.Identify(paths)
			if before.IsZero() || after.IsZero() {
				t.Error("an identity is zero")
			}
			if (before == after) != tt.same {
				t.Errorf("identities are the same: want %v, got %v", tt.same, before == after)
			}
		})
	}
}

func (f folder) paths(names string) []string {
	var paths []string
	for name := range strings.FieldsSeq(names) {
		paths = append(paths, f.path(name))
	}
	return paths
}

func TestIdentifyTakesASet(t *testing.T) {
	f := newFolder(t)
	f.put("a", "a")
	f.put("b", "b")
	t.Chdir(f.dir)
	want := config.Identify(f.paths("a b"))
	for _, paths := range [][]string{f.paths("b a"), f.paths("a b a"), {"a", "./b"}, {f.path("x/../a"), f.path("b/")}} {
		if config.Identify(paths) != want {
			t.Errorf("Identify(%q) differs from that of a and b", paths)
		}
	}
	if config.Identify(f.paths("a")) == want {
		t.Error("a alone is the same as a and b")
	}
}

func TestIdentifyOfNothingIsNotZero(t *testing.T) {
	if config.Identify(nil).IsZero() {
		t.Error("the identity of no paths is zero")
	}
	if !(config.Identity{}).IsZero() {
		t.Error("the zero identity is not zero")
	}
}

func TestStampOf(t *testing.T) {
	for _, tt := range identities {
		if tt.paths != "config.yaml" || tt.same || tt.rule == "a link in the middle leads to the same file another way" ||
			tt.rule == "an edit of the same length comes at once" {
			continue
		}
		t.Run(tt.rule, func(t *testing.T) {
			f := newFolder(t)
			tt.before(f)
			before, again := config.StampOf(f.path("config.yaml")), config.StampOf(f.path("config.yaml"))
			if before != again {
				t.Error("two stamps of one state differ")
			}
			tt.change(f)
			if config.StampOf(f.path("config.yaml")) == before {
				t.Error("the stamp has not changed")
			}
		})
	}
}

func TestStampSettles(t *testing.T) {
	f := newFolder(t)
	f.put("config.yaml", "a")
	f.link("link", "config.yaml")
	now := time.Now()
	for name, stamp := range map[string]config.Stamp{
		"a file": config.StampOf(f.path("config.yaml")),
		"a link": config.StampOf(f.path("link")),
	} {
		if stamp.Settled(now) {
			t.Errorf("%s that was just written has settled", name)
		}
		if !stamp.Settled(now.Add(5 * time.Second)) {
			t.Errorf("%s has not settled after five seconds", name)
		}
	}
	f.times("config.yaml", now.Add(time.Hour))
	if config.StampOf(f.path("config.yaml")).Settled(now.Add(5 * time.Second)) {
		t.Error("a file from the future has settled")
	}
	if !config.StampOf(f.path("missing")).Settled(now) {
		t.Error("a missing file has not settled: it cannot come without another stamp")
	}
}

func BenchmarkStampOf(b *testing.B) {
	f := newFolder(b)
	f.put("config.yaml", "version: 1\n")
	f.link("link", "config.yaml")
	for _, name := range []string{"config.yaml", "link", "missing"} {
		b.Run(name, func(b *testing.B) {
			path := f.path(name)
			b.ReportAllocs()
			for b.Loop() {
				config.StampOf(path)
			}
		})
	}
}

func BenchmarkIdentify(b *testing.B) {
	f := newFolder(b)
	paths := f.tenFiles("w")
	b.ReportAllocs()
	for b.Loop() {
		config.Identify(paths)
	}
}

// tenFiles makes a workspace with a config.yaml and nine files of rules.
func (f folder) tenFiles(name string) []string {
	f.tb.Helper()
	f.put(name+"/config.yaml", "version: 1\n")
	for _, file := range strings.Fields("a b c git/a git/b git/c files/a files/b files/c") {
		f.put(name+"/policies/"+file+".rego", strings.Repeat("# a line of a rule\n", 200))
	}
	return f.paths(name + "/config.yaml " + name + "/policies")
}
