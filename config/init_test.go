package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
)

var initFiles = []string{"config.yaml", "policies/starter.rego", "policies/starter_test.rego"}

func TestInitWritesAWorkspaceThatLoads(t *testing.T) {
	dir := filepath.Join(tree(t, nil), "app", ".regent")
	files, err := config.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range initFiles {
		want = append(want, filepath.Join(dir, name))
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	c, warnings, err := config.Load(filepath.Join(dir, "config.yaml"))
	if err != nil || len(warnings) != 0 {
		t.Fatalf("Load: %v, %v", warnings, err)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "policies")}, c.Policy.Paths); diff != "" {
		t.Errorf("policy paths (-want +got):\n%s", diff)
	}
	// What it writes must take effect before anybody has trusted it.
	if _, refused := config.TightenOnly(config.Default(""), c); len(refused) != 0 {
		t.Errorf("a new workspace loosens: %v", refused)
	}
}

// Keys that are commented out in the template have no space after the #.
func TestInitTemplateHoldsWithItsCommentsRemoved(t *testing.T) {
	dir := tree(t, nil)
	files, err := config.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#(\S| +\S)`).ReplaceAllStringFunc(string(text), func(start string) string {
		if strings.HasPrefix(start, "# ") && !strings.HasPrefix(start, "#  ") {
			return start // a sentence
		}
		return start[1:]
	})
	c, warnings := parse(t, all)
	if len(warnings) != 0 {
		t.Errorf("warnings: %v", warnings)
	}
	if c.Permissions.Mode != config.ModeManual || len(c.Reviewers) != 1 {
		t.Errorf("the comments were not removed:\n%s", all)
	}
}

func TestInitKeepsWhatIsThere(t *testing.T) {
	for _, existing := range append(initFiles, "policies/starter.rego/") {
		t.Run(existing, func(t *testing.T) {
			dir := tree(t, map[string]string{existing: "mine"})
			before := list(t, dir)
			files, err := config.Init(dir)
			if !errors.Is(err, fs.ErrExist) || files != nil {
				t.Errorf("Init = %v, %v, want fs.ErrExist", files, err)
			} else if want := filepath.Join(dir, existing) + " is there already, nothing was written"; !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
			if diff := cmp.Diff(before, list(t, dir)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
}

func TestInitKeepsALinkToNowhere(t *testing.T) {
	dir := tree(t, map[string]string{"config.yaml": "-> ../outside.yaml"})
	if _, err := config.Init(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error = %v, want fs.ErrExist", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "..", "outside.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was written through the link: %v", err)
	}
}

func TestInitDoesNotLeaveTheFolder(t *testing.T) {
	outside := tree(t, nil)
	dir := tree(t, map[string]string{"policies": "-> " + outside})
	if files, err := config.Init(dir); err == nil {
		t.Errorf("Init = %v, want an error", files)
	}
	if got := list(t, outside); len(got) != 0 {
		t.Errorf("written outside: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "config.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("config.yaml was left behind: %v", err)
	}
}

func TestInitRemovesWhatItWroteWhenItFails(t *testing.T) {
	dir := tree(t, map[string]string{"policies": "-> nowhere"})
	if files, err := config.Init(dir); err == nil {
		t.Fatalf("Init = %v, want an error", files)
	}
	if _, err := os.Stat(filepath.Join(dir, "config.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("config.yaml was left behind: %v", err)
	}
}

func TestInitAddsToAFolderWithOtherFiles(t *testing.T) {
	dir := tree(t, map[string]string{"policies/mine.rego": "package rules.mine", "README": ""})
	if _, err := config.Init(dir); err != nil {
		t.Fatal(err)
	}
	if got := len(list(t, dir)); got != 5 {
		t.Errorf("%d files, want 5", got)
	}
}

// list returns the files below dir with their content.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The engine that runs the starter rules is not known here, so this checks
// what every rule owes its readers: a title, an id and a severity.
func TestStarterRulesAreAnnotated(t *testing.T) {
	data, err := os.ReadFile("template/policies/starter.rego")
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?m)^(deny|ask|review|allow) contains `)
	annotated := regexp.MustCompile(`(?m)^# METADATA\n# title: .+\n(# description: .+\n)?# custom:\n#   id: STARTER-\d{3}\n#   severity: (low|medium|high)\n(deny|ask|review|allow) contains `)
	rules := len(rule.FindAll(data, -1))
	if with := len(annotated.FindAll(data, -1)); rules == 0 || with != rules {
		t.Errorf("%d of %d rules are annotated", with, rules)
	}
	for i, line := range strings.Split(string(data), "\n") {
		if len(line) > 120 {
			t.Errorf("line %d is longer than 120 characters", i+1)
		}
	}
}
