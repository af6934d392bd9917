package gitrepo

// These tests are inside the package because the readers of configuration and
// index are not exported: their answers only leave it as a Report.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseConfig(t *testing.T) {
	tests := []struct {
		name, text string
		want       []entry
	}{
		{"sections and names lose their case, subsections keep it", "[Core]\nFileMode = TRUE\n[remote \"Up\"]\nURL=x", []entry{
			{section: "core", name: "filemode", value: "TRUE", line: 2}, {section: "remote", subsection: "Up", name: "url", value: "x", line: 4},
		}},
		{"a dot divides the old form", "[Branch.Main]\nremote = o", []entry{
			{section: "branch", subsection: "main", name: "remote", value: "o", line: 2},
		}},
		{"a variable may follow the header on its line", `[core] fsmonitor = x`, []entry{
			{section: "core", name: "fsmonitor", value: "x", line: 1},
		}},
		{"quotes, escapes and comments", "[a]\nb = \" c;#\" \\t d ; e\n", []entry{{section: "a", name: "b", value: " c;# \t d", line: 2}}},
		{"a backslash joins lines", "[a]\nb = c\\\nd\ne = f", []entry{
			{section: "a", name: "b", value: "cd", line: 2}, {section: "a", name: "e", value: "f", line: 4},
		}},
		{"Windows line ends and a byte order mark", "\ufeff[a]\r\nb = c\r\n", []entry{{section: "a", name: "b", value: "c", line: 2}}},
		{"escaped quotes in a subsection", `[a "b\"c\\d"]` + "\nx", []entry{
			{section: "a", subsection: `b"c\d`, name: "x", bare: true, line: 2},
		}},
		{"comments alone", "# x\n; [core] fsmonitor = y\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseConfig([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("parseConfig (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, text := range []string{
		"[core", "[co re]", "[core \"x]", "[core \"x\" ]", "[]", "x = y", "[a]\n1 = x", "[a]\nb c", "[a]\nb = \"x",
		"[a]\nb = \\q", "[a]\nb = x\x00", "[a_b]\nc = d", "[a.b \"c\"]\nd = e", "[a]\n=x", "[a]\nb ; c",
	} {
		if got, err := parseConfig([]byte(text)); err == nil {
			t.Errorf("parseConfig(%q) = %+v, want an error", text, got)
		}
	}
}

func TestGitlinks(t *testing.T) {
	for _, tt := range []struct {
		name string
		hash int
		want []string
	}{
		{"index-v2", 20, []string{"sub"}},
		{"index-v3", 20, []string{"sub"}},
		{"index-v4", 20, []string{"sub"}},
		{"index-sha256", 32, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			index, err := os.ReadFile(filepath.Join("testdata", tt.name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := gitlinks(index, tt.hash)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("gitlinks (-want +got):\n%s", diff)
			}
			for i := range index {
				if links, err := gitlinks(index[:i], tt.hash); err == nil && len(links) < len(tt.want) {
					t.Fatalf("the first %d of %d bytes count as an index without submodules", i, len(index))
				}
			}
			if links, err := gitlinks(index, 52-tt.hash); err == nil {
				t.Errorf("with object names of the other size it counts as an index with %v", links)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("[core]\n\tbare = false\n[remote \"o\"]\n\turl = x\\\ny # z\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parseConfig(text)
		for _, e := range entries {
			if e.section == "" || e.name == "" || e.line < 1 {
				t.Errorf("parseConfig(%q) = %+v, %v", text, e, err)
			}
		}
	})
}

func FuzzGitlinks(f *testing.F) {
	for _, name := range []string{"index-v2", "index-v3", "index-v4", "index-sha256"} {
		index, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(index)
	}
	f.Fuzz(func(t *testing.T, index []byte) {
		if links, err := gitlinks(index, 20); err != nil && links != nil {
			t.Errorf("links beside an error: %v", links)
		}
	})
}
