package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/regent-policy/regent/config"
)

func TestFind(t *testing.T) {
	dir := tree(t, map[string]string{
		"app/.regent/config.yaml":                "version: 1\n",
		"app/src/deep/":                          "",
		"app/nested/.regent/config.yaml":         "",
		"app/nested/pkg/":                        "",
		"app/other/.regent/policies/":            "",
		"app/filed/.regent":                      "",
		"app/broken/.regent/config.yaml":         "-> gone",
		"elsewhere/":                             "",
		"elsewhere/link":                         "-> ../app/src",
		"app/out":                                "-> ../elsewhere",
		"app/dangling":                           "-> nowhere",
		"user/.regent/config.yaml":               "version: 1\n",
		"user/project/":                          "",
		"user/project/below/":                    "",
		"user/linkedhome":                        "-> .regent",
		"app/strange [name]/.regent/config.yaml": "",
	})
	for _, tc := range []struct {
		name, from, want string
		homes            []string
	}{
		{"the folder itself", "app", "app/.regent", nil},
		{"a folder above", "app/src/deep", "app/.regent", nil},
		{"the nearest wins, even if it is empty", "app/nested/pkg", "app/nested/.regent", nil},
		{"a .regent without a config.yaml is passed over", "app/other", "app/.regent", nil},
		{"a file called .regent is passed over", "app/filed", "app/.regent", nil},
		{"a config.yaml that cannot be read is found", "app/broken", "app/broken/.regent", nil},
		{"a folder that does not exist", "app/src/not/yet", "app/.regent", nil},
		{"from inside the workspace folder", "app/.regent", "app/.regent", nil},
		{"a link into the workspace does not escape it", "elsewhere/link/deep", "app/.regent", nil},
		{"nor does the parent of one", "elsewhere/link/..", "app/.regent", nil},
		{"a link out of the workspace has left it", "app/out", "", nil},
		{"names are not patterns", "app/strange [name]", "app/strange [name]/.regent", nil},
		{"nothing above", "elsewhere", "", nil},
		{"a home is no workspace", "user/project/below", "", []string{"user/.regent"}},
		{"a home by another name is none either", "user/project", "", []string{"elsewhere", "user/linkedhome"}},
		{"another home does not matter", "user/project", "user/.regent", []string{"elsewhere", "missing"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var homes []string
			for _, h := range tc.homes {
				homes = append(homes, filepath.Join(dir, h))
			}
			got, ok, err := config.Find(dir+"/"+tc.from, homes...) // not joined: some paths hold ".."
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if tc.want != "" {
				want = filepath.Join(dir, tc.want)
			}
			// Above the test's folder may be anything.
			if want == "" {
				if ok && len(got) > len(dir) {
					t.Errorf("Find = %s, want none below %s", got, dir)
				}
				return
			}
			if !ok || got != want {
				t.Errorf("Find = %s, %t, want %s", got, ok, want)
			}
		})
	}
	for name, from := range map[string]string{
		"a link to nowhere":             "app/dangling",
		"behind a link to nowhere":      "app/dangling/src",
		"up from something that is not": "app/src/not/../yet",
	} {
		t.Run(name+" is an error", func(t *testing.T) {
			if got, ok, err := config.Find(dir + "/" + from); err == nil {
				t.Errorf("Find = %s, %t, want an error", got, ok)
			}
		})
	}
}

func TestFindIsRelativeToTheWorkingDirectory(t *testing.T) {
	dir := tree(t, map[string]string{"app/.regent/config.yaml": "", "app/src/": ""})
	t.Chdir(filepath.Join(dir, "app"))
	got, ok, err := config.Find("src")
	if want := filepath.Join(dir, "app", ".regent"); err != nil || !ok || got != want {
		t.Errorf("Find = %s, %t, %v, want %s", got, ok, err, want)
	}
}

func TestFindDoesNotPassOverWhatItCannotSee(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root sees everything")
	}
	dir := tree(t, map[string]string{"app/.regent/config.yaml": ""})
	if err := os.Chmod(filepath.Join(dir, "app", ".regent"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "app", ".regent"), 0o700) }) //nolint:gosec // to let the test clean up
	if got, ok, err := config.Find(filepath.Join(dir, "app")); err == nil {
		t.Errorf("Find = %s, %t, want an error", got, ok)
	}
}

func TestFindReportsALoop(t *testing.T) {
	dir := tree(t, map[string]string{"app/.regent": "-> .regent"})
	if got, ok, err := config.Find(filepath.Join(dir, "app")); err == nil {
		t.Errorf("Find = %s, %t, want an error", got, ok)
	}
}

func TestHomeDir(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, flag string
		env        map[string]string
		want       string
	}{
		{"the flag comes first", "/flag", map[string]string{"REGENT_HOME": "/env", "HOME": "/home/sam"}, "/flag"},
		{"the variable comes second", "", map[string]string{"REGENT_HOME": "/env", "HOME": "/home/sam"}, "/env"},
		{"the user's folder comes last", "", map[string]string{"HOME": "/home/sam"}, "/home/sam/.regent"},
		{"a relative flag starts at the working directory", "h/../home", nil, filepath.Join(wd, "home")},
		{"no folder at all", "", nil, ""},
		{"a relative user folder is none", "", map[string]string{"HOME": "sam"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := config.HomeDir(tc.flag, func(name string) string { return tc.env[name] })
			if got != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("HomeDir = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
