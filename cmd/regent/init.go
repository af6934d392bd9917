package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
)

// written is what `regent init` prints.
type written struct {
	// Dir is the workspace, Files what was written there, as paths that start
	// with Dir.
	Dir   string   `json:"dir"`
	Files []string `json:"files"`
}

func newInit(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a small workspace to start from",
		Long: `Write a small workspace to start from: a config.yaml with comments, three rules
and their tests. DIR is ` + config.WorkspaceDir + ` unless it is given; that is the name by which Regent
finds the workspace of a call. A file that exists is never changed.`,
		Example: `  $ regent init
  wrote .regent/config.yaml
  wrote .regent/policies/starter.rego
  wrote .regent/policies/starter_test.rego`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q; init writes one workspace", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: action(func(cmd *cobra.Command, args []string) error {
			dir := config.WorkspaceDir
			if len(args) == 1 {
				dir = args[0]
			}
			return a.init(cmd, dir)
		}),
	}
	exitsAs(cmd, map[int]string{exitFailed: "a file is there already, or could not be written"}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) init(cmd *cobra.Command, dir string) error {
	if dir == "" {
		return usagef("DIR is empty")
	}
	// The rules of a home are of another layer than those that init writes, and
	// would not load there.
	if home, err := config.HomeDir(a.global.home, a.getenv); err == nil && sameDir(dir, home) {
		return usagef("%s is your home, not a workspace; run init in a project", dir)
	}
	files, err := config.Init(dir)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w\nto start afresh, move the old workspace away first", err)
		}
		return err
	}
	if a.global.json() {
		return writeJSON(a.stdout, written{Dir: dir, Files: files}, true)
	}
	for _, f := range files {
		fmt.Fprintf(a.stdout, "wrote %s\n", printable(f))
	}
	name := cmd.Root().Name()
	flag := ""
	if filepath.Base(filepath.Clean(dir)) != config.WorkspaceDir {
		flag = " --workspace " + dir
	}
	fmt.Fprintf(a.stderr, "\nNext, see what the rules make of a call, and run their tests:\n")
	fmt.Fprintf(a.stderr, "  %s classify -- 'git push --force origin main'\n", name)
	fmt.Fprintf(a.stderr, "  echo '{\"kind\":\"command\",\"command\":{\"text\":\"git push --force origin main\"}}' | %s check%s\n", name, printable(flag))
	fmt.Fprintf(a.stderr, "  %s test%s\n", name, printable(flag))
	return nil
}

// sameDir reports whether two names lead to one folder, which need not exist.
func sameDir(one, other string) bool {
	first, err := filepath.Abs(one)
	if err != nil {
		return false
	}
	if first == filepath.Clean(other) {
		return true
	}
	a, err := os.Stat(first)
	if err != nil {
		return false
	}
	b, err := os.Stat(other)
	return err == nil && os.SameFile(a, b)
}
