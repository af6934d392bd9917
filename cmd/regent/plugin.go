package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/plugin"
)

// pluginState tells whether a plugin's program is the one that the configuration
// pins.
type pluginState string

const (
	pluginPinned     pluginState = "pinned"
	pluginUnpinned   pluginState = "not pinned"
	pluginChanged    pluginState = "changed"
	pluginUnreadable pluginState = "unreadable"
)

// pluginRow is one plugin in the lists of `regent plugin list` and `verify`.
type pluginRow struct {
	Name    string      `json:"name"`
	Command []string    `json:"command"`
	Env     []string    `json:"env"`
	State   pluginState `json:"state"`
	// SHA256 is the digest of the program as it is, and Pin the one that the
	// configuration says.
	SHA256 string `json:"sha256,omitempty"`
	Pin    string `json:"pin,omitempty"`
	// Reviewers are those that the plugin is.
	Reviewers []string `json:"reviewers"`
	Error     string   `json:"error,omitempty"`
}

func newPlugin(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Pin plugins, and test those that you write",
		Long: `Pin plugins, and test those that you write. A plugin is a program that takes part
as a reviewer, a notifier or a harness. The configuration names it and pins the
digest of its file, so that no other program is started in its place.`,
		Example: `  $ regent plugin list
  no plugins
  $ regent plugin add acme -- /bin/true`,
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	cmd.AddCommand(newPluginList(a), newPluginAdd(a), newPluginVerify(a), newPluginConformance(a), newPluginScaffold(a), newPluginServe(a))
	group(a, cmd)
	return cmd
}

func newPluginList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins of the configuration",
		Long: `List the plugins of the configuration: the home's, and those of the workspace if
it is trusted. Nothing is started. Of a daemon's plugins regent status tells how
they do.`,
		Example: `  $ regent plugin list
  no plugins
  $ regent plugin list --output json`,
		Args: noArgs("it lists all plugins"),
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			rows, err := a.plugins(cmd.CommandPath())
			if err != nil {
				return err
			}
			return a.printPlugins(rows)
		}),
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

func newPluginVerify(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [NAME...]",
		Short: "Compare plugins with their pins",
		Long: `Compare plugins with their pins, all of them or those that are named. The exit
code is 1 unless each is pinned and is the program that the pin says.`,
		Example: `  $ regent plugin verify
  no plugins`,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			rows, _ := a.plugins(cmd.CommandPath()) // a fault is told when the command is run
			for _, row := range rows {
				names = append(names, row.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: action(func(cmd *cobra.Command, args []string) error {
			rows, err := a.plugins(cmd.CommandPath())
			if err != nil {
				return err
			}
			for _, name := range args {
				if !slices.ContainsFunc(rows, func(row pluginRow) bool { return row.Name == name }) {
					return usagef("no plugin is named %q; regent plugin list has those that are", name)
				}
			}
			if len(args) > 0 {
				rows = slices.DeleteFunc(rows, func(row pluginRow) bool { return !slices.Contains(args, row.Name) })
			}
			if err := a.printPlugins(rows); err != nil {
				return err
			}
			code := exitDone
			for _, row := range rows {
				if row.State != pluginPinned {
					code = exitFailed
				}
			}
			return exitCode(code)
		}),
	}
	exitsAs(cmd, map[int]string{exitFailed: "one is not pinned, has changed or cannot be read"}, exitDone, exitFailed, exitUsage)
	return cmd
}

// plugins are those of the configuration that a call here is decided by.
func (a *app) plugins(command string) ([]pluginRow, error) {
	engines, err := a.engines(command)
	if err != nil {
		return nil, err
	}
	setup, err := engines.read("")
	if err != nil {
		return nil, badInput(err)
	}
	rows := []pluginRow{}
	for _, name := range slices.Sorted(maps.Keys(setup.Config.Plugins)) {
		rows = append(rows, rowOf(name, setup.Config))
	}
	return rows, nil
}

func rowOf(name string, c *config.Config) pluginRow {
	p := c.Plugins[name]
	row := pluginRow{Name: name, Command: p.Command, Env: append([]string{}, p.Env...), Pin: p.SHA256, Reviewers: []string{}}
	for _, reviewer := range slices.Sorted(maps.Keys(c.Reviewers)) {
		if r := c.Reviewers[reviewer]; r.Kind == config.ReviewerPlugin && r.Plugin == name {
			row.Reviewers = append(row.Reviewers, reviewer)
		}
	}
	sum, err := plugin.Sum(p.Command[0])
	row.SHA256 = sum
	switch {
	case err != nil:
		row.State, row.Error = pluginUnreadable, err.Error()
	case p.SHA256 == "":
		row.State = pluginUnpinned
	case strings.EqualFold(p.SHA256, sum):
		row.State = pluginPinned
	default:
		row.State = pluginChanged
	}
	return row
}

func (a *app) printPlugins(rows []pluginRow) error {
	if a.global.json() {
		return writeJSON(a.stdout, map[string]any{"plugins": rows}, true)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no plugins")
		return err
	}
	lines := [][]string{{"PLUGIN", "STATE", "SHA256", "REVIEWERS", "COMMAND"}}
	for _, row := range rows {
		reviewers := strings.Join(row.Reviewers, ", ")
		if reviewers == "" {
			reviewers = "-"
		}
		digest := "-"
		if len(row.SHA256) > 12 {
			digest = row.SHA256[:12]
		}
		lines = append(lines, []string{row.Name, string(row.State), digest, reviewers, shown(strings.Join(row.Command, " "))})
	}
	return table(a.stdout, "", lines)
}

// configFile is the file that plugins are added to: that of the workspace which is
// named, or else the home's, which need not be there.
func (a *app) configFile() (path string, err error) {
	if named := a.global.workspace; named != "" {
		for _, dir := range []string{named, named + string(os.PathSeparator) + config.WorkspaceDir} {
			path := dir + string(os.PathSeparator) + config.FileName
			if _, err := os.Lstat(path); err == nil {
				return path, nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return "", badInput(err)
			}
		}
		return "", usagef("%s holds no %s; regent init makes one", named, config.FileName)
	}
	home, err := a.madeHome()
	if err != nil {
		return "", err
	}
	return home + string(os.PathSeparator) + config.FileName, nil
}
