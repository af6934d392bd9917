package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regent-policy/regent/rego/catalog"
)

func lines(l ...string) string { return strings.Join(l, "\n") }

func TestPatchPaths(t *testing.T) {
	for _, tc := range []struct {
		name, patch string
		want        []string
	}{
		{"every operation", lines("*** Begin Patch",
			"*** Add File: new.txt", "+hello", "+*** Delete File: not-a-header",
			"*** Delete File: old.txt",
			"*** Update File: src/a.go", "@@ func main() {", " x", "-y", "+z", "*** End of File",
			"*** Update File: from.go", "*** Move to: to.go", "@@", "-a", "+b",
			"*** End Patch", ""), []string{"new.txt", "old.txt", "src/a.go", "from.go", "to.go"}},
		{"a header in a context line is content", lines("*** Begin Patch", "*** Update File: a", " *** Delete File: b", "+x", "*** End Patch"), []string{"a"}},
		{"an empty file", lines("*** Begin Patch", "*** Add File: empty", "*** End Patch"), []string{"empty"}},
		{"a name with spaces in it", lines("*** Begin Patch", "*** Delete File: my notes.txt", "*** End Patch"), []string{"my notes.txt"}},
		{"lines that end like on Windows", "*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch\r\n", []string{"a"}},
		{"plain unified", lines("--- a.txt", "+++ a.txt", "@@ -1 +1 @@", "-x", "+y"), []string{"a.txt"}},
		{"unified with times", lines("--- a.txt\t2026-01-01 10:00:00", "+++ b.txt\t2026-01-01 10:00:01", "@@ -1,2 +1,2 @@ head", " c", "-x", "+y"), []string{"a.txt", "b.txt"}},
		{"git prefixes outside of git are read both ways", lines("--- a/x", "+++ b/x", "@@ -1 +1 @@", "-x", "+y"), []string{"x", "a/x", "b/x"}},
		{"git", lines("diff --git a/x b/x", "index 111..222 100644", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "-x", "+y"), []string{"x"}},
		{"git without prefixes", lines("diff --git x x", "index 111..222 100644", "--- x", "+++ x", "@@ -1 +1 @@", "-x", "+y"), []string{"x"}},
		{"git names another file in its first line", lines("diff --git a/x b/x", "--- a/y", "+++ b/y", "@@ -1 +1 @@", "-x", "+y"), []string{"x", "y"}},
		{"git adds", lines("diff --git a/n b/n", "new file mode 100644", "index 0..2", "--- /dev/null", "+++ b/n", "@@ -0,0 +1,2 @@", "+x", "+y"), []string{"n"}},
		{"git deletes", lines("diff --git a/n b/n", "deleted file mode 100644", "--- a/n", "+++ /dev/null", "@@ -1,2 +0,0 @@", "-x", "-y", ""), []string{"n"}},
		{"git renames", lines("diff --git a/x b/y", "similarity index 100%", "rename from x", "rename to y"), []string{"x", "y"}},
		{"git copies", lines("diff --git a/x b/y", "similarity index 90%", "copy from x", "copy to y", "--- a/x", "+++ b/y", "@@ -1 +1 @@", "-x", "+y"), []string{"x", "y"}},
		{"git changes a mode", lines("diff --git a/run.sh b/run.sh", "old mode 100644", "new mode 100755"), []string{"run.sh"}},
		{"git adds an empty file", lines("diff --git a/e b/e", "new file mode 100644", "index 000..e69"), []string{"e"}},
		{"git quotes names", lines(`diff --git "a/t\303\244b\t" "b/t\303\244b\t"`, `--- "a/caf\303\251"`, `+++ "b/caf\303\251"`, "@@ -1 +1 @@", "-x", "+y"), []string{"café"}},
		{"two files", lines("--- a", "+++ a", "@@ -1 +1 @@", "-x", "+y", "--- b", "+++ b", "@@ -1 +1 @@", "-x", "+y"), []string{"a", "b"}},
		{"a removed line that looks like a header is content", lines("--- a", "+++ a", "@@ -1,2 +1,2 @@", "--- evil", "+++ evil", " c"), []string{"a"}},
		{"no newline at the end", lines("--- a", "+++ a", "@@ -1 +1 @@", "-x", `\ No newline at end of file`, "+y", `\ No newline at end of file`), []string{"a"}},
		{"context lines that lost their space", lines("--- a", "+++ a", "@@ -1,3 +1,3 @@", "-x", "+y", "", "", ""), []string{"a"}},
		{"two hunks", lines("--- a", "+++ a", "@@ -1 +1 @@", "-x", "+y", "@@ -9,0 +9,1 @@", "+z"), []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := catalog.PatchPaths(tc.patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("PatchPaths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatchPathsRefuses(t *testing.T) {
	const end = "*** End Patch"
	for _, tc := range []struct {
		name, patch string
		found       []string
	}{
		{"nothing", "", nil},
		{"only empty lines", "\n\n", nil},
		{"prose", "please change a.txt", nil},
		{"no file", lines("*** Begin Patch", end), nil},
		{"no end", lines("*** Begin Patch", "*** Add File: a", "+x"), []string{"a"}},
		{"text after the end", lines("*** Begin Patch", "*** Add File: a", "+x", end, "*** Delete File: b"), []string{"a"}},
		{"an unknown header", lines("*** Begin Patch", "*** Update File: a", "@@", "+x", "*** Copy File: b", end), []string{"a"}},
		{"a header that is indented", lines("*** Begin Patch", "*** Delete File: a", " *** Delete File: b", end), []string{"a"}},
		{"a move that is not the first line", lines("*** Begin Patch", "*** Update File: a", "@@", "+x", "*** Move to: b", end), []string{"a"}},
		{"a move of an added file", lines("*** Begin Patch", "*** Add File: a", "*** Move to: b", end), []string{"a"}},
		{"a header without a name", lines("*** Begin Patch", "*** Add File: ", "+x", end), nil},
		{"a header in other letters", lines("*** Begin Patch", "*** add file: a", "+x", end), nil},
		{"a name with space around it", lines("*** Begin Patch", "*** Add File:  a", "+x", end), nil},
		{"a name with control characters", lines("*** Begin Patch", "*** Add File: a\x1b[1mb", "+x", end), nil},
		{"another environment", lines("*** Begin Patch", "*** Environment ID: remote", "*** Add File: a", "+x", end), nil},
		{"a heredoc around it", lines("<<'EOF'", "*** Begin Patch", "*** Add File: a", "+x", end, "EOF"), nil},
		{"--- without +++", lines("--- a", "@@ -1 +1 @@", "-x", "+y"), nil},
		{"names without a hunk", lines("--- a", "+++ b"), []string{"a", "b"}},
		{"both names /dev/null", lines("--- /dev/null", "+++ /dev/null", "@@ -1 +1 @@", "-x", "+y"), nil},
		{"a hunk that is too short", lines("--- a", "+++ a", "@@ -1,3 +1,3 @@", "-x", "+y"), []string{"a"}},
		{"a hunk that is too long", lines("--- a", "+++ a", "@@ -1 +1 @@", "-x", "+y", "+z"), []string{"a"}},
		{"a hunk that hides the next file", lines("--- a", "+++ a", "@@ -1,9 +1,9 @@", "-x", "+y", "--- b", "+++ b", "@@ -1 +1 @@", "-x", "+y"), []string{"a"}},
		{"a hunk without counts", lines("--- a", "+++ a", "@@", "-x", "+y"), []string{"a"}},
		{"negative counts", lines("--- a", "+++ a", "@@ -1,-1 +1,-1 @@", "-x", "+y"), []string{"a"}},
		{"words between the files", lines("--- a", "+++ a", "@@ -1 +1 @@", "-x", "+y", "Index: b"), []string{"a"}},
		{"a binary patch", lines("diff --git a/x b/x", "index 1..2 100644", "GIT binary patch", "literal 3"), nil},
		{"a git header with two names and nothing else", lines("diff --git a/x b/y", "old mode 100644", "new mode 100755"), nil},
		{"a quoted name that is not closed", lines(`--- "a`, `+++ "a"`, "@@ -1 +1 @@", "-x", "+y"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := catalog.PatchPaths(tc.patch)
			if !errors.Is(err, catalog.ErrPatch) {
				t.Errorf("PatchPaths: %v, want ErrPatch", err)
			}
			if diff := cmp.Diff(tc.found, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("paths before the fault (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzPatchPaths(f *testing.F) {
	f.Add(lines("*** Begin Patch", "*** Update File: a", "*** Move to: b", "@@", " x", "-y", "+z", "*** End Patch"))
	f.Add(lines("diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1,2 +1,2 @@", " c", "-x", "+y"))
	f.Add(`--- "a\303\251"`)
	f.Fuzz(func(t *testing.T, patch string) {
		paths, err := catalog.PatchPaths(patch)
		if err == nil && len(paths) == 0 {
			t.Error("a patch without files is understood")
		}
		for _, p := range paths {
			if p == "" || strings.ContainsAny(p, "\x00\n") {
				t.Errorf("path %q", p)
			}
		}
		// Every header of the grammar that the applying program could see must be
		// among the paths of a patch that is understood.
		if err != nil || !strings.HasPrefix(strings.TrimLeft(patch, "\r\n"), "*** Begin Patch") {
			return
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(patch, "\r\n", "\n"), "\n") {
			for _, head := range []string{"*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "} {
				if name, ok := strings.CutPrefix(line, head); ok && !contains(paths, name) {
					t.Errorf("%q is not among %q", name, paths)
				}
			}
		}
	})
}

func contains(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

// What happens to a file is told apart: who agrees to a change of it has not agreed
// to take it away.
func TestPatchSteps(t *testing.T) {
	step := func(operation, path string) catalog.PatchStep {
		return catalog.PatchStep{Operation: operation, Path: path}
	}
	for _, tc := range []struct {
		name, patch string
		want        []catalog.PatchStep
	}{
		{
			"every operation", lines("*** Begin Patch",
				"*** Add File: n", "+x", "*** Delete File: d", "*** Update File: u", "@@", "-a", "+b",
				"*** Update File: from", "*** Move to: to", "@@", "-a", "+b", "*** End Patch"),
			[]catalog.PatchStep{step("add", "n"), step("delete", "d"), step("update", "u"), step("update", "from"), step("move", "to")},
		},
		{
			"a file that is named twice", lines("*** Begin Patch", "*** Delete File: a", "*** Add File: a", "+x", "*** End Patch"),
			[]catalog.PatchStep{step("delete", "a"), step("add", "a")},
		},
		{"plain unified", lines("--- a", "+++ a", "@@ -1 +1 @@", "-x", "+y"), []catalog.PatchStep{step("update", "a")}},
		{"unified adds", lines("--- /dev/null", "+++ a", "@@ -0,0 +1 @@", "+y"), []catalog.PatchStep{step("add", "a")}},
		{"unified deletes", lines("--- a", "+++ /dev/null", "@@ -1 +0,0 @@", "-y"), []catalog.PatchStep{step("delete", "a")}},
		{
			"git renames", lines("diff --git a/x b/y", "similarity index 100%", "rename from x", "rename to y"),
			[]catalog.PatchStep{step("rename from", "x"), step("rename to", "y")},
		},
		{
			"git copies", lines("diff --git a/x b/y", "similarity index 100%", "copy from x", "copy to y"),
			[]catalog.PatchStep{step("copy from", "x"), step("copy to", "y")},
		},
		{
			"git makes a program of it", lines("diff --git a/x b/x", "old mode 100644", "new mode 100755"),
			[]catalog.PatchStep{step("old mode 100644", ""), step("new mode 100755", ""), step("update", "x")},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := catalog.PatchSteps(tc.patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("PatchSteps (-want +got):\n%s", diff)
			}
		})
	}
}
