package permission_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

func touch(t testing.TB, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOSReadlink(t *testing.T) {
	dir := t.TempDir()
	touch(t, filepath.Join(dir, "file"))
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	disk := permission.OS()
	for name, want := range map[string]string{"link": "file", "file": "", ".": ""} {
		if got, err := disk.Readlink(filepath.Join(dir, name)); got != want || err != nil {
			t.Errorf("Readlink(%s) = %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"gone", "gone/x", "file/x"} {
		if _, err := disk.Readlink(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Readlink(%s): %v, want fs.ErrNotExist", name, err)
		}
	}
}

// Two links to one inode are to SameName what two spellings are on a volume that
// ignores letter case, which not every machine has.
func TestOSSameNameComparesFiles(t *testing.T) {
	dir := t.TempDir()
	disk := permission.OS()
	ask := func(dir, one, other string, want bool) {
		t.Helper()
		if got, err := disk.SameName(dir, one, other); got != want || err != nil {
			t.Errorf("SameName(%s, %s) = %v, %v, want %v", one, other, got, err, want)
		}
	}
	probe := filepath.Join(dir, "probe")
	touch(t, probe)
	if _, err := os.Lstat(filepath.Join(dir, "PROBE")); err == nil {
		t.Skip("the folder for temporary files ignores letter case itself")
	}
	linked := filepath.Join(dir, "linked")
	if err := os.Mkdir(linked, 0o700); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(linked, "one"))
	if err := os.Link(filepath.Join(linked, "one"), filepath.Join(linked, "ONE")); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(linked, "two"))
	touch(t, filepath.Join(linked, "TWO"))
	ask(linked, "one", "ONE", true)
	ask(linked, "two", "TWO", false)
	ask(dir, "probe", "PROBE", false)
	ask(dir, "gone", "GONE", false)
	ask(dir, "é", "e\u0301", false)
	ask(filepath.Join(dir, "gone", "deeper"), "a", "A", false)
	ask(filepath.Join(dir, "probe"), "a", "A", false)
}

// A folder of which the first name has its other spelling, as the same file,
// ignores letter case as far as can be told.
func TestOSSameNameAsksTheFolderAboutFilesToCome(t *testing.T) {
	dir := t.TempDir()
	touch(t, filepath.Join(dir, "x"))
	if err := os.Link(filepath.Join(dir, "x"), filepath.Join(dir, "X")); err != nil {
		t.Skip("the folder for temporary files ignores letter case itself")
	}
	for _, in := range []string{dir, filepath.Join(dir, "7", "8")} {
		if got, err := permission.OS().SameName(in, "gone", "GONE"); !got || err != nil {
			t.Errorf("SameName in %s = %v, %v, want true", in, got, err)
		}
		if got, err := permission.OS().SameName(in, "é", "ü"); got || err != nil {
			t.Errorf("SameName(é, ü) in %s = %v, %v, want false", in, got, err)
		}
	}
}

func TestOnDiskLinksAreFollowedAndDenyHolds(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app", "secret"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "app", "link")); err != nil {
		t.Fatal(err)
	}
	env := permission.Environment{Cwd: filepath.Join(dir, "app")}
	p, _, err := permission.Normalise(parse(t, `{"file_system":{"write":["."],"deny":["../secret"]}}`), permission.SideRequested, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]permission.Outcome{
		"new/file":    permission.Allowed,
		"link/key":    permission.Denied,
		"../other":    permission.NotCovered,
		"link/../key": permission.NotCovered,
	} {
		if got, err := permission.Check(p, permission.Write, text, env, nil); got.Outcome != want || err != nil {
			t.Errorf("Check(%s) = %q, %v, want %q", text, got.Outcome, err, want)
		}
	}
}

func TestUnseenTakesPathsAsSpelled(t *testing.T) {
	env := permission.Environment{Cwd: "/w"}
	p, _, err := permission.Normalise(parse(t, `{"file_system":{"write":["a/../b"],"deny":["b/.env"]}}`), permission.SideRequested, env, permission.Unseen())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]permission.Outcome{
		"/w/b/x": permission.Allowed, "/w/B/x": permission.NotCovered,
		"/w/b/.ENV": permission.Denied, "/w/b/.envrc": permission.Allowed,
	} {
		if got := permission.Decide(p, permission.Write, text, permission.Unseen()); got.Outcome != want {
			t.Errorf("Decide(%s) = %q, want %q", text, got.Outcome, want)
		}
	}
}

func TestTree(t *testing.T) {
	tree := permissiontest.Tree{
		Links: map[string]string{"/A": "b"}, Missing: []string{"/gone"},
		Errors: map[string]error{"/bad": fs.ErrPermission}, FoldCase: true,
	}
	if target, err := tree.Readlink("/a"); target != "b" || err != nil {
		t.Errorf("Readlink(/a) = %q, %v, want the link under its other spelling", target, err)
	}
	if _, err := tree.Readlink("/GONE/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Readlink(/GONE/x): %v", err)
	}
	if _, err := tree.Readlink("/bad"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Readlink(/bad): %v", err)
	}
	if target, err := tree.Readlink("/badly"); target != "" || err != nil {
		t.Errorf("Readlink(/badly) = %q, %v", target, err)
	}
	if same, err := tree.SameName("/", "x", "X"); !same || err != nil {
		t.Errorf("SameName = %v, %v", same, err)
	}
}
