package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// scaffoldMain is the program of examples/reviewer-go.
//
//go:embed scaffold/main.go.txt
var scaffoldMain string

const scaffoldReadme = `# %[1]s

A reviewer for Regent. Build and test it, and let Regent ask it:

    go mod tidy
    go build -o %[1]s .
    regent plugin conformance -- ./%[1]s
    regent plugin add %[1]s -- ./%[1]s

and in config.yaml:

    reviewers:
      %[1]s/risk: {kind: plugin, plugin: %[1]s}
    permissions:
      reviewer_model: %[1]s/risk
`

type scaffoldOptions struct {
	module string
}

func newPluginScaffold(a *app) *cobra.Command {
	o := &scaffoldOptions{}
	cmd := &cobra.Command{
		Use:   "scaffold DIR",
		Short: "Write the start of a reviewer in Go",
		Long: `Write the start of a reviewer in Go: a module with a program of thirty lines. DIR
is made; nothing that is there is written over. The name of the folder is the name
of the plugin.`,
		Example: `  $ regent plugin scaffold acme
  wrote acme/main.go
  wrote acme/go.mod
  wrote acme/README.md`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one folder")
			}
			return nil
		},
		ValidArgsFunction: completeDir,
		RunE:              action(func(_ *cobra.Command, args []string) error { return a.pluginScaffold(o, args[0]) }),
	}
	cmd.Flags().StringVar(&o.module, "module", "", "`PATH` of the Go module (default example.com/ and the name of the folder)")
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) pluginScaffold(o *scaffoldOptions, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	name := filepath.Base(abs)
	if strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return usagef("%q is no name of a plugin; use letters, digits, - and _", name)
	}
	module := o.module
	if module == "" {
		module = "example.com/" + strings.ToLower(name)
	}
	if strings.ContainsAny(module, " \t\n\"`") {
		return usagef("--module %q is no path of a module", module)
	}
	files := []struct{ name, text string }{
		{"main.go", strings.NewReplacer(
			"// Command reviewer-go is", "// Command "+name+" is", `"reviewer-go"`, `"`+name+`"`,
		).Replace(scaffoldMain)},
		{"go.mod", "module " + module + "\n\ngo 1.26\n"},
		{"README.md", fmt.Sprintf(scaffoldReadme, name)},
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); !errors.Is(err, fs.ErrNotExist) {
			return usagef("%s is there already; nothing was written", filepath.Join(dir, f.name))
		}
	}
	written := []string{}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = out.WriteString(f.text)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
		written = append(written, path)
	}
	if a.global.json() {
		return writeJSON(a.stdout, map[string][]string{"files": written}, true)
	}
	for _, path := range written {
		if _, err := fmt.Fprintf(a.stdout, "wrote %s\n", printable(path)); err != nil {
			return err
		}
	}
	return nil
}
