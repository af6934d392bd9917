package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// globalOptions are the flags that every subcommand takes.
type globalOptions struct {
	home         string
	workspace    string
	organization string
	output       string
}

func (o *globalOptions) register(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.home, "home", "", "the user's own `DIR`: config.yaml and policies (default $REGENT_HOME, else ~/.regent)")
	flags.StringVar(&o.workspace, "workspace", "", "trust the workspace in `DIR` for this run; without it the nearest .regent above the call's cwd counts")
	flags.StringVar(&o.organization, "organization", "", "rules above all others, from `DIR` or a bundle (.tar.gz)")
	choiceVar(cmd, flags, &o.output, "output", "text", []string{"text", "json"}, "form of the answer")
	for _, name := range []string{"home", "workspace", "organization"} {
		must(cmd.MarkPersistentFlagDirname(name))
	}
}

// json tells whether the answer is to be JSON.
func (o *globalOptions) json() bool { return o.output == "json" }

// newRoot builds the command tree. Nothing is read or loaded by it.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "regent",
		Short: "Decide what an AI agent may do, by policies written in Rego",
		Long: `Regent decides what an AI agent may do. It reads a tool call, tells what the
call does, and rules on it by your policies: nobody needs to be asked (skip),
policy allows or denies it, a reviewer looks at it, or a person is asked.

The answer is on stdout; words for people are on stderr.`,
		Example: `  $ regent init .regent
  wrote .regent/config.yaml
  wrote .regent/policies/starter.rego
  wrote .regent/policies/starter_test.rego
  $ regent classify -- 'git push --force origin main'
  $ regent check --input push.json`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       readVersion().Version,
	}
	exits(root, exitDone, exitFailed, exitUsage, exitDenied, exitApproval, exitMoved)
	root.SetVersionTemplate("regent {{.Version}}\n")
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(helpTemplate)
	root.SetFlagErrorFunc(flagError)
	a.global.register(root)
	root.AddCommand(
		newInit(a),
		newCheck(a),
		newClassify(a),
		newExplain(a),
		newTest(a),
		newPolicy(a),
		newProfile(a),
		newServe(a),
		newStatus(a),
		newAsk(a),
		newHook(a),
		newPermission(a),
		newGrants(a),
		newTrust(a),
		newUntrust(a),
		newToken(a),
		newStepUp(a),
		newLedger(a),
		newCodex(a),
		newInstall(a),
		newDoctor(a),
		newPlugin(a),
		newReviewer(a),
		newVersion(a),
	)
	root.SetHelpCommand(newHelp(root))
	group(a, root)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			group(a, cmd)
			exits(cmd, exitDone, exitUsage)
		}
	}
	return root
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, a *app, args []string) int {
	out := bufio.NewWriter(a.stdout)
	a.terminal, a.flush = a.stdout, out.Flush
	a.stdout, a.stderr = out, flushFirst{out, a.stderr}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if flushErr := out.Flush(); flushErr != nil && err == nil {
		// An answer that did not arrive is none.
		err = &exitError{code: exitFailed, err: fmt.Errorf("write the answer: %w", flushErr)}
	}
	return a.report(cmd.CommandPath(), err)
}

// flushFirst keeps answers and words in the order in which they were written,
// for terminals that show both.
type flushFirst struct {
	answers *bufio.Writer
	io.Writer
}

func (w flushFirst) Write(p []byte) (int, error) {
	// A fault stays with the buffer, and is told in the end.
	_ = w.answers.Flush()
	return w.Writer.Write(p)
}

// action makes a function a command's run: what it returns without a code of
// its own is a failure, not a mistake of usage.
func action(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*exitError](err); ok {
			return err
		}
		return &exitError{code: exitFailed, err: err}
	}
}

// group makes cmd one that only has subcommands. Cobra would print its help and
// succeed for a subcommand that does not exist.
func group(a *app, cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usagef("unknown command %q%s; %s --help lists the commands", args[0], didYouMean(cmd.SuggestionsFor(args[0])), cmd.CommandPath())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SetOut(a.stderr)
		if err := cmd.Help(); err != nil {
			return err
		}
		return exitCode(exitUsage)
	}
}

func newHelp(root *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		Long:  "Explain a command, like its own --help.",
		Example: `  $ regent help check
  $ regent check --help`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range at.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: action(func(_ *cobra.Command, args []string) error {
			at, rest, err := root.Find(args)
			if err != nil {
				return badInput(err)
			}
			if len(rest) > 0 {
				return usagef("unknown command %q%s", strings.Join(args, " "), didYouMean(at.SuggestionsFor(rest[0])))
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		}),
	}
	exits(cmd, exitDone, exitUsage)
	return cmd
}

// noArgs refuses operands; instead says where they belong.
func noArgs(instead string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usagef("unexpected argument %q; %s", args[0], instead)
	}
}

// flagHint is the annotation with which a command says what a wrong flag was
// probably meant for.
const flagHint = "flag_hint"

// flagError turns pflag's error into one that says what was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	message := err.Error()
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		name := unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		message = fmt.Sprintf("unknown flag --%s%s", name, didYouMean(near(name, names, "--")))
	}
	if hint := cmd.Annotations[flagHint]; hint != "" {
		message += "; " + hint
	}
	return usagef("%s; %s --help lists the flags", message, cmd.CommandPath())
}

// near returns the names that are at most two edits from what was written, the
// nearest first.
func near(written string, names []string, prefix string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, name := range names {
		if d := levenshtein.ComputeDistance(written, name); d <= 2 || (len(written) > 2 && strings.HasPrefix(name, written)) {
			found = append(found, candidate{prefix + name, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.distance - b.distance })
	var out []string
	for _, c := range found {
		out = append(out, c.name)
	}
	return out
}

func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(names, " or ") + "?)"
}

// choice is a flag that takes one of a few words.
type choice struct {
	value *string
	words []string
}

func (c *choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

// Set refuses what is not one of the words.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("use %s%s", strings.Join(c.words, " or "), didYouMean(near(s, c.words, "")))
	}
	*c.value = s
	return nil
}

// Type is what the help shows behind the flag's name.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// choiceVar adds a choice to flags, with completion.
func choiceVar(cmd *cobra.Command, flags *pflag.FlagSet, value *string, name, standard string, words []string, usage string) {
	*value = standard
	flags.Var(&choice{value: value, words: words}, name, usage)
	must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

// must is for calls that fail only when the program itself is wrong, such as
// completing a flag that does not exist. Building the tree in any test shows it.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// exitsKey is the annotation that holds the text about exit codes.
const exitsKey = "exit_codes"

// exits notes with which codes cmd ends, for its help.
func exits(cmd *cobra.Command, codes ...int) { exitsAs(cmd, nil, codes...) }

// exitsAs is exits with what the codes mean for this command.
func exitsAs(cmd *cobra.Command, meanings map[int]string, codes ...int) {
	var b strings.Builder
	for _, code := range codes {
		meaning, ok := meanings[code]
		if !ok {
			meaning = exitMeanings[code]
		}
		fmt.Fprintf(&b, "  %d  %s\n", code, meaning)
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[exitsKey] = strings.TrimRight(b.String(), "\n")
}

// flagTable lists flags for a help text, switches without the values that
// nobody writes.
func flagTable(flags *pflag.FlagSet) string {
	var names, texts []string
	width := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		name := "      --" + f.Name
		if f.Shorthand != "" {
			name = "  -" + f.Shorthand + ", --" + f.Name
		}
		if value != "" && f.Value.Type() != "bool" {
			name += " " + value
		}
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "0" && f.Value.Type() != "bool" {
			text += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		names, texts = append(names, name), append(texts, text)
		width = max(width, len(name))
	})
	var b strings.Builder
	for i := range names {
		fmt.Fprintf(&b, "%-*s   %s\n", width, names[i], texts[i])
	}
	return strings.TrimRight(b.String(), "\n")
}

func init() { cobra.AddTemplateFunc("flagTable", flagTable) }

const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{.UsageString}}`

// usageKey is the annotation of a command that has subcommands and is one itself.
const usageKey = "usage"

const usageTemplate = `Usage:{{if or (not .HasAvailableSubCommands) (index .Annotations "usage")}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{flagTable .LocalFlags}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{flagTable .InheritedFlags}}{{end}}{{with (index .Annotations "exit_codes")}}

Exit codes:
{{.}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" explains a command.{{end}}
`
