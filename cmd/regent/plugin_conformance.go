package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/plugin"
)

type conformanceOptions struct {
	env     []string
	args    []string
	timeout time.Duration
}

func newPluginConformance(a *app) *cobra.Command {
	o := &conformanceOptions{}
	cmd := &cobra.Command{
		Use:   "conformance -- PROGRAM [ARG...]",
		Short: "Run a plugin through the contract, and tell what is wrong",
		Long: `Run a plugin through the contract, and tell what is wrong and what to do about it.
The program is started, as a plugin and without a sandbox, and is asked about
made-up requests. It need not be in the configuration.`,
		Example: `  $ regent plugin conformance -- /bin/true || true
  FAIL  starts, and says what it is
        no handshake: it ended its standard output without a line
        write one line to standard output, the handshake, and nothing before it; docs/plugins.md has an example
  skip  only the host can connect
  ...`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("write the program after --")
			}
			return nil
		},
		RunE: action(func(cmd *cobra.Command, args []string) error { return a.pluginConformance(cmd, o, args) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.env, "env", nil, "let the plugin see the variable `NAME` of the environment; may be repeated")
	flags.StringArrayVar(&o.args, "arg", nil, "ask a reviewer with the argument `NAME=VALUE`, as args of the configuration; may be repeated")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Second, "`TIME` that the plugin has for each step")
	exitsAs(cmd, map[int]string{exitFailed: "a check failed"}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) pluginConformance(cmd *cobra.Command, o *conformanceOptions, command []string) error {
	path, err := filepath.Abs(command[0])
	if err != nil {
		return err
	}
	args := map[string]string{}
	for _, pair := range o.args {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return usagef("--arg %q is not NAME=VALUE", pair)
		}
		args[name] = value
	}
	if o.timeout <= 0 {
		return usagef("--timeout has to be more than nothing")
	}
	p := config.Plugin{Command: append([]string{path}, command[1:]...), Env: o.env}
	report := plugin.Conform(cmd.Context(), p, plugin.ConformOptions{Timeout: o.timeout, Args: args})
	if err := a.printReport(report); err != nil {
		return err
	}
	if !report.OK() {
		return exitCode(exitFailed)
	}
	return nil
}

func (a *app) printReport(r *plugin.Report) error {
	if a.global.json() {
		return writeJSON(a.stdout, r, true)
	}
	var b strings.Builder
	if r.Plugin != "" {
		kinds := list(r.Kinds)
		fmt.Fprintf(&b, "%s %s: %s\n", printable(r.Plugin), printable(r.Version), kinds)
	}
	for _, c := range r.Checks {
		word := string(c.Result)
		if c.Result == plugin.ResultFail {
			word = "FAIL"
		}
		fmt.Fprintf(&b, "%s  %s\n", word, c.Name)
		if c.Result == plugin.ResultFail {
			fmt.Fprintf(&b, "      %s\n      %s\n", printable(c.Detail), c.Advice)
		}
	}
	_, err := a.stdout.Write([]byte(b.String()))
	return err
}
