package policies_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	line           int
	language, text string
}

// blocks are the fenced blocks of a page in Markdown, indented ones included.
func blocks(t *testing.T, path string) []block {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var (
		found  []block
		open   *block
		indent string
	)
	for i, line := range strings.Split(string(page), "\n") {
		bare := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(bare, "```"):
			indent = line[:len(line)-len(bare)]
			open = &block{line: i + 1, language: strings.TrimPrefix(bare, "```")}
		case open != nil && bare == "```":
			found = append(found, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block does not end", path, open.line)
	}
	return found
}

// What the page of the quickstart shows of the rules stands in the rules.
func TestQuickstartPageShowsItsRules(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "examples", "quickstart")
	var rules strings.Builder
	files, err := filepath.Glob(filepath.Join(dir, "policies", "*.rego"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		rules.Write(text)
	}
	shown := 0
	for _, b := range blocks(t, filepath.Join(dir, "README.md")) {
		if b.language != "rego" {
			continue
		}
		shown++
		if !strings.Contains(rules.String(), b.text) {
			t.Errorf("README.md:%d: not in the policies as it is shown", b.line)
		}
	}
	if shown == 0 {
		t.Error("no rule is shown")
	}
	for _, r := range load(t, setup(t, dir).Source).Rules() {
		page, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "`"+r.ID+"`") {
			t.Errorf("README.md says nothing of %s", r.ID)
		}
	}
}
