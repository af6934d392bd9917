package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/policy"
)

type classifyOptions struct {
	shell string
	cwd   string
	argv  bool

	tool        string
	harness     string
	server      string
	arguments   string
	annotations string
}

// toolFlags only make sense together with --tool.
var toolFlags = []string{"harness", "server", "arguments", "annotations"}

func newClassify(a *app) *cobra.Command {
	o := &classifyOptions{}
	cmd := &cobra.Command{
		Use:   "classify [--shell S] [--cwd D] -- TEXT | --argv -- A B C | --tool NAME",
		Short: "Tell what a command or a tool call does, before any rule speaks",
		Long: `Tell what a command or a tool call does, before any rule speaks: which effects it
has, whether it leaves this machine, whether it certainly only reads, and why,
command by command. Nothing is run.

TEXT is one argument, as the shell would be given it with -c; - reads it from
standard input. With --argv the arguments are a command that runs without a
shell. With --tool it is a call of a tool of a harness, or of an MCP server.`,
		Example: `  $ regent classify --argv -- find . -name '*.log' -delete
    effects     read, write
    external    no
    read-only   no
    why         find -delete: write

    LINE  PROGRAM  EFFECTS      COMMAND
    1     find     read, write  find . -name *.log -delete
                                  find -delete: write
  $ regent classify -- 'cat notes.txt | grep -c todo'
  $ regent classify --harness codex --tool exec_command --arguments '{"cmd":"ls"}'`,
		Annotations: map[string]string{flagHint: "put the command after --, in quotes"},
		RunE: action(func(cmd *cobra.Command, args []string) error {
			request, err := o.request(a, cmd, args)
			if err != nil {
				return err
			}
			if known := harnesses(); o.harness != "" && !slices.Contains(known, o.harness) {
				a.say(cmd.CommandPath(), "note: there is no table of the tools of harness %q%s", o.harness, didYouMean(near(o.harness, known, "")))
			}
			return a.classify(cmd.Context(), cmd.CommandPath(), request)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	choiceVar(cmd, flags, &o.shell, "shell", "", []string{"bash", "sh", "zsh"}, "shell that runs TEXT (default bash)")
	flags.StringVar(&o.cwd, "cwd", "", "`DIR` where the call runs (default the current one)")
	flags.BoolVar(&o.argv, "argv", false, "the arguments are a command that runs without a shell")
	flags.StringVar(&o.tool, "tool", "", "`NAME` of a tool, in place of a command")
	flags.StringVar(&o.harness, "harness", "", "`NAME` of the harness that the tool belongs to (default native)")
	flags.StringVar(&o.server, "server", "", "`NAME` of the MCP server that offers the tool")
	flags.StringVar(&o.arguments, "arguments", "", "the tool's arguments, a `JSON` object")
	flags.StringVar(&o.annotations, "annotations", "", "the MCP server's hints about the tool, a `JSON` object")
	must(cmd.MarkFlagDirname("cwd"))
	must(cmd.RegisterFlagCompletionFunc("harness", cobra.FixedCompletions(harnesses(), cobra.ShellCompDirectiveNoFileComp)))
	for _, name := range []string{"tool", "server", "arguments", "annotations"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	exitsAs(cmd, map[int]string{
		exitDone:   "classified, whatever the effects",
		exitFailed: "the call could not be classified in time; its effects are unknown",
	}, exitDone, exitFailed, exitUsage)
	return cmd
}

// harnesses lists the harnesses that have a table of tools, without reading the
// tables.
func harnesses() []string {
	files, err := fs.Glob(policy.FS, "catalog/tools/*.yaml")
	if err != nil {
		return nil // the pattern is well formed
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(filepath.Base(f), ".yaml")
	}
	return names
}

// request makes the request that the flags and arguments describe.
func (o *classifyOptions) request(a *app, cmd *cobra.Command, args []string) (*approval.Request, error) {
	environment, err := o.environment(a)
	if err != nil {
		return nil, err
	}
	r := &approval.Request{Kind: approval.KindCommand, Environment: environment}
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if !given("tool") {
		for _, name := range toolFlags {
			if given(name) {
				return nil, usagef("--%s needs --tool", name)
			}
		}
	}
	switch {
	case given("tool"):
		if len(args) > 0 || o.argv || o.shell != "" {
			return nil, usagef("--tool takes no command; give its arguments with --arguments")
		}
		err = o.toolCall(r)
	case o.argv:
		if o.shell != "" {
			return nil, usagef("--argv runs without a shell; leave --shell out")
		}
		if len(args) == 0 {
			return nil, usagef("--argv needs a program: regent classify --argv -- PROGRAM ARGUMENT...")
		}
		r.Command = &approval.Command{Argv: args}
	case len(args) == 0:
		return nil, usagef("nothing to classify: give a command after --, or a tool with --tool")
	case len(args) > 1:
		return nil, usagef("TEXT is one argument, and there are %d: put the whole command in quotes, or use --argv for one that runs without a shell", len(args))
	default:
		text := args[0]
		if text == "-" {
			_, data, err := a.readFile("-")
			if err != nil {
				return nil, err
			}
			text = strings.TrimSuffix(string(data), "\n")
		}
		r.Command = &approval.Command{Shell: o.shell, Text: text}
	}
	if err != nil {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, badInput(err)
	}
	return r, nil
}

func (o *classifyOptions) environment(a *app) (*approval.Environment, error) {
	cwd := o.cwd
	if !filepath.IsAbs(cwd) {
		here, err := a.getwd()
		if err != nil {
			return nil, fmt.Errorf("find the current folder: %w", err)
		}
		// Not joined: that would drop a "link/..", which leads elsewhere.
		cwd = strings.TrimSuffix(here+string(filepath.Separator)+cwd, string(filepath.Separator))
	}
	return &approval.Environment{Cwd: cwd, Home: a.getenv("HOME"), TmpDir: os.TempDir()}, nil
}

func (o *classifyOptions) toolCall(r *approval.Request) error {
	r.Kind = approval.KindTool
	r.Tool = &approval.Tool{Name: o.tool, Server: o.server}
	if o.server != "" {
		r.Kind = approval.KindMCP
	}
	if o.harness != "" {
		r.Harness = &approval.Harness{Name: o.harness}
	}
	if o.arguments != "" {
		if err := jsonObject("arguments", o.arguments); err != nil {
			return err
		}
		r.Tool.Arguments = json.RawMessage(o.arguments)
	}
	if o.annotations != "" {
		if err := jsonObject("annotations", o.annotations); err != nil {
			return err
		}
		r.Tool.Annotations = &approval.Annotations{}
		if err := jsonv2.Unmarshal([]byte(o.annotations), r.Tool.Annotations, jsonv2.RejectUnknownMembers(true)); err != nil {
			return usagef("--annotations: %w", err)
		}
	}
	return nil
}

// jsonObject refuses what is not exactly one JSON object with each name once.
func jsonObject(flag, text string) error {
	var v map[string]any
	if err := jsonv2.Unmarshal([]byte(text), &v); err != nil {
		return usagef("--%s: not a JSON object: %w", flag, err)
	}
	if v == nil || !bytes.HasPrefix(bytes.TrimSpace([]byte(text)), []byte("{")) {
		return usagef("--%s: not a JSON object", flag)
	}
	return nil
}

func (a *app) classify(ctx context.Context, command string, r *approval.Request) error {
	engines, err := a.engines(command)
	if err != nil {
		return err
	}
	options, err := engines.options(cwdOf(r))
	if err != nil {
		return badInput(err)
	}
	setup, err := gate.Read(options)
	if err != nil {
		return badInput(err)
	}
	// Rules have no say in what a call does, so a faulty one must not be in the
	// way of telling it.
	c := rego.Classification{Effects: []approval.Effect{approval.EffectUnknown}, External: true, Why: []string{}, Nodes: []rego.NodeEffects{}}
	loaded, classifyErr := rego.Load(ctx, rego.Source{Settings: setup.Source.Settings})
	if classifyErr == nil {
		c, classifyErr = loaded.Classify(ctx, r)
	}
	if a.global.json() {
		err = writeJSON(a.stdout, c, true)
	} else {
		err = classificationText(a, &c)
	}
	if err != nil {
		return err
	}
	if classifyErr != nil {
		return fmt.Errorf("the effects are unknown: %w", classifyErr)
	}
	return nil
}

// classificationText prints what a call does as a table, command by command.
func classificationText(a *app, c *rego.Classification) error {
	b := &block{}
	b.line("effects", list(c.Effects))
	b.line("external", yesNo(c.External))
	b.line("read-only", yesNo(c.ReadOnly))
	b.lines("why", c.Why)
	if _, err := fmt.Fprint(a.stdout, b.b.String()); err != nil {
		return err
	}
	if len(c.Nodes) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	return nodesTable(a, c.Nodes)
}

func nodesTable(a *app, nodes []rego.NodeEffects) error {
	rows := [][]string{{"LINE", "PROGRAM", "EFFECTS", "COMMAND"}}
	for _, n := range nodes {
		rows = append(rows, []string{strconv.Itoa(n.Line), program(n), list(n.Effects), shown(n.Text)})
		for _, why := range n.Why {
			rows = append(rows, []string{"", "", "", "  " + shown(why)})
		}
	}
	return table(a.stdout, "  ", rows)
}

func program(n rego.NodeEffects) string {
	if n.Program == "" {
		return "?"
	}
	return shown(n.Program)
}
