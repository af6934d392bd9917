package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/setup"
)

func newInstall(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Set up a harness so that it asks",
		Long: `Set up a harness so that it asks: each subcommand is a harness, and changes its
configuration. regent doctor looks whether that works.`,
		Example: `  $ regent install codex --dry-run`,
	}
	exits(cmd, exitDone, exitUsage)
	group(a, cmd)
	cmd.AddCommand(newInstallCodex(a))
	return cmd
}

type installOptions struct {
	program, hook                                             string
	yes, dryRun, undo, noHooks, experimental, onlyRequirement bool
}

func newInstallCodex(a *app) *cobra.Command {
	o := &installOptions{}
	cmd := &cobra.Command{
		Use:   "codex",
		Short: "Set up Codex so that it asks",
		Long: `Set up Codex so that it asks: config.toml of $CODEX_HOME (~/.codex) gets an approval
policy, a sandbox and a reviewer with which requests reach whoever is in front of
Codex, and Regent's hooks, which see every call of a tool and refuse what policy
denies. Stricter settings that are there stay.

The change is shown first, and written after a yes. The file keeps its comments, and
a backup is kept beside it. --undo takes back what was written and keeps edits that
were made since. Where Codex is found it reads the result before that is written, and
says whether it trusts the hooks: it skips those that it does not.

While no daemon runs the hooks refuse every call: regent serve starts one.`,
		Example: `  $ regent install codex --dry-run
  --- /dev/null
  ...
  +approval_policy = "on-request"
  ...
  $ regent install codex --yes
  ...
  $ regent install codex --undo --yes
  ...`,
		Args: noArgs("install codex takes none"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.installCodex(cmd, o) }),
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.yes, "yes", false, "write without asking")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show the change and write nothing")
	flags.BoolVar(&o.undo, "undo", false, "take back what an installation has written")
	flags.BoolVar(&o.noHooks, "no-hooks", false, "write the settings alone")
	flags.BoolVar(&o.experimental, "experimental", false, "also switch on features by which the agent can ask for single permissions, which Codex has under development")
	flags.BoolVar(&o.onlyRequirement, "print-requirements", false, "print a requirements.toml for administrators, and change nothing")
	flags.StringVar(&o.program, "codex", "codex", "the Codex that is to take the change, a `PROGRAM` or its path")
	flags.StringVar(&o.hook, "regent-hook", "", "the hook's `PROGRAM`; without it the regent-hook beside this one, or in the PATH")
	for _, name := range []string{"codex", "regent-hook"} {
		must(cmd.MarkFlagFilename(name))
	}
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("undo", "print-requirements")
	for _, name := range []string{"no-hooks", "experimental", "regent-hook"} {
		cmd.MarkFlagsMutuallyExclusive("undo", name)
	}
	cmd.MarkFlagsMutuallyExclusive("no-hooks", "regent-hook")
	exitsAs(cmd, map[int]string{
		exitDone:   "written, or there was nothing to change",
		exitFailed: "nothing was written, or Codex does not run the hooks",
		exitUsage:  "bad usage, or a configuration that has to be corrected first; nothing was written",
	}, exitDone, exitFailed, exitUsage)
	return cmd
}

// installation is the JSON form of what an installation does or would do.
type installation struct {
	File     string         `json:"file"`
	Changes  []setup.Change `json:"changes"`
	Diff     string         `json:"diff"`
	Notes    []string       `json:"notes"`
	Warnings []string       `json:"warnings"`
	Written  bool           `json:"written"`
	Backup   string         `json:"backup,omitempty"`
	Codex    string         `json:"codex,omitempty"`
	Hooks    []setup.Hooked `json:"hooks"`
}

func (a *app) installCodex(cmd *cobra.Command, o *installOptions) error {
	ctx, command := cmd.Context(), cmd.CommandPath()
	if err := withoutLayers(cmd, "it changes the configuration of Codex"); err != nil {
		return err
	}
	want := setup.Want{Experimental: o.experimental}
	hook := ""
	if !o.noHooks && !o.undo {
		var err error
		if hook, want.Hook, err = a.hookCommand(o.hook); err != nil {
			return err
		}
	}
	if o.onlyRequirement {
		_, err := fmt.Fprint(a.stdout, setup.Requirements(hook, want.Hook))
		return err
	}
	i, err := a.installer(cmd, o.program)
	if err != nil {
		return err
	}
	var p *setup.Plan
	if o.undo {
		p, err = i.Undo()
	} else {
		p, err = i.Plan(ctx, want)
	}
	if err != nil {
		return setupError(err)
	}
	out := installation{
		File: p.File, Changes: append([]setup.Change{}, p.Changes...), Diff: p.Diff(), Notes: append([]string{}, p.Notes...),
		Warnings: append([]string{}, p.Warnings...), Hooks: []setup.Hooked{},
	}
	if !a.global.json() {
		a.showPlan(command, p)
	}
	switch {
	case o.dryRun:
		if a.global.json() {
			return writeJSON(a.stdout, out, true)
		}
		return nil
	case !p.Changed() || o.yes:
	default:
		if err := a.confirmed(ctx); err != nil {
			return err
		}
	}
	result, err := i.Write(ctx, p)
	out.Written, out.Backup, out.Codex, out.Hooks = result.Written, result.Backup, result.Codex, append(out.Hooks, result.Hooks...)
	out.Warnings = append(out.Warnings, result.Warnings...)
	if a.global.json() {
		err = errors.Join(err, writeJSON(a.stdout, out, true))
	} else {
		a.showResult(cmd, result)
	}
	if err != nil {
		return setupError(err)
	}
	if len(result.Warnings) > 0 {
		return exitCode(exitFailed)
	}
	if !o.undo && want.Hook != "" {
		a.hooksNeedDaemon(command)
	}
	return nil
}

// setupError says which errors are for the user to mend.
func setupError(err error) error {
	if _, ok := errors.AsType[*setup.SyntaxError](err); ok {
		return badInput(fmt.Errorf("%w\nnothing was written; correct the file first", err))
	}
	for _, wrong := range []error{setup.ErrForm, setup.ErrRefused, setup.ErrUndo} {
		if errors.Is(err, wrong) {
			return badInput(fmt.Errorf("%w\nnothing was written", err))
		}
	}
	return err
}

// installer is what changes the home of Codex.
func (a *app) installer(cmd *cobra.Command, program string) (setup.Installer, error) {
	home, err := setup.CodexHome(a.getenv)
	if err != nil {
		return setup.Installer{}, badInput(err)
	}
	cwd, err := a.getwd()
	if err != nil {
		return setup.Installer{}, fmt.Errorf("find the folder: %w", err)
	}
	i := setup.Installer{Home: home, Cwd: cwd, Version: readVersion().Version, Now: time.Now}
	_, missing := exec.LookPath(program)
	switch {
	case missing == nil:
		i.Codex = a.realCodex(program)
	case cmd.Flags().Changed("codex"):
		return setup.Installer{}, badInput(a.noCodex(fmt.Errorf("%w: %w", codex.ErrNoCodex, missing)))
	}
	return i, nil
}

func (a *app) realCodex(program string) *setup.Codex {
	return &setup.Codex{Program: program, Env: os.Environ(), Version: readVersion().Version}
}

// hookCommand is the program of the hook, and the command with which Codex starts
// it. The home is in it unless it is the one that everybody has: Codex need not
// have the environment of this process.
func (a *app) hookCommand(named string) (program, command string, err error) {
	if program, err = findHook(named); err != nil {
		return "", "", err
	}
	home := ""
	if a.global.home != "" || a.getenv("REGENT_HOME") != "" {
		if home, err = config.HomeDir(a.global.home, a.getenv); err == nil {
			home, err = filepath.Abs(home)
		}
		if err != nil {
			return "", "", badInput(err)
		}
	}
	if command, err = setup.HookCommand(program, home); err != nil {
		return "", "", badInput(err)
	}
	return program, command, nil
}

// findHook is the whole path of the hook's program.
func findHook(named string) (string, error) {
	const name = "regent-hook"
	tries := []string{named}
	if named == "" {
		tries = []string{name}
		if self, err := os.Executable(); err == nil {
			tries = slices.Insert(tries, 0, filepath.Join(filepath.Dir(self), name))
		}
	}
	for _, at := range tries {
		if found, err := exec.LookPath(at); err == nil {
			return filepath.Abs(found)
		} else if named != "" {
			return "", badInput(fmt.Errorf("--regent-hook: %w", err))
		}
	}
	return "", badInput(errors.New("regent-hook is neither beside regent nor in the PATH; name it with --regent-hook, or do without by --no-hooks"))
}

// showPlan shows the change, and why.
func (a *app) showPlan(command string, p *setup.Plan) {
	for line := range strings.SplitSeq(strings.TrimSuffix(p.Diff(), "\n"), "\n") {
		if strings.HasPrefix(line, "diff ") || line == "" {
			continue // the names follow
		}
		fmt.Fprintln(a.stdout, printable(strings.TrimSuffix(line, "\r")))
	}
	for _, c := range p.Changes {
		a.say(command, "%s: %s", c.Key, c.Why)
	}
	for _, n := range p.Notes {
		a.say(command, "note: %s", n)
	}
	for _, w := range p.Warnings {
		a.say(command, "warning: %s", w)
	}
}

func (a *app) showResult(cmd *cobra.Command, r setup.Result) {
	command := cmd.CommandPath()
	if !r.Written {
		a.say(command, "there is nothing to change in %s", r.File)
	} else {
		fmt.Fprintf(a.stdout, "wrote %s\n", printable(r.File))
		if r.Backup != "" {
			fmt.Fprintf(a.stdout, "kept %s\n", printable(r.Backup))
		}
	}
	for _, w := range r.Warnings {
		a.say(command, "warning: %s", w)
	}
}

// hooksNeedDaemon says so where none runs.
func (a *app) hooksNeedDaemon(command string) {
	c, err := a.maybeDaemon(command)
	switch {
	case err != nil:
		a.say(command, "note: %s", err)
	case c == nil:
		a.say(command, "note: no daemon runs, and the hooks refuse every call until one does (regent serve)")
	default:
		c.Close()
	}
}

// confirmed asks a person whether to write.
func (a *app) confirmed(ctx context.Context) error {
	if a.global.json() || !isTerminal(a.stdin) {
		return usagef("nothing was written; --yes writes without asking")
	}
	fmt.Fprint(a.stderr, "Write it? [y/N] ")
	in := endless(a.stdin)
	stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
	defer stop()
	line, err := bufio.NewReader(in).ReadString('\n')
	_ = in.Close()
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was written")
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return errors.New("nothing was written")
}
