package gitrepo_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/regent-policy/regent/rego/gitrepo"
)

// A repository that names a program in its configuration is not inert.
func ExampleInspect() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git", name), 0o755); err != nil {
			fmt.Println(err)
			return
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tpager = ./helper\n"} {
		if err := os.WriteFile(filepath.Join(dir, ".git", name), []byte(text), 0o644); err != nil {
			fmt.Println(err)
			return
		}
	}
	report, err := gitrepo.Inspect(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Inert, len(report.Reasons))
	// Output: false 1
}
