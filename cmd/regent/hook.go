package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	hookclient "github.com/regent-policy/regent/harness/hook/client"
)

type hookOptions struct {
	onAsk   string
	timeout time.Duration
}

func newHook(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Answer the hooks of a harness",
		Long: `Answer the hooks of a harness, which starts one for each call of its agent. Each
subcommand is a harness. regent-hook is the same in a program that starts faster,
and what a harness should be given.`,
		Example: `  $ regent hook codex --help`,
	}
	exits(cmd, exitDone, exitUsage)
	group(a, cmd)
	cmd.AddCommand(newHookCodex(a))
	return cmd
}

func newHookCodex(a *app) *cobra.Command {
	o := &hookOptions{}
	cmd := &cobra.Command{
		Use:   "codex",
		Short: "Answer a PreToolUse or PermissionRequest hook of Codex",
		Long: `Answer a PreToolUse or PermissionRequest hook of Codex: read the event from stdin,
ask the daemon of the home, and say what Codex understands. The call is refused
where policy denies it, where policy could not rule, and where no daemon answers in
time. Else nothing is said, and Codex goes on as it would without the hook: a hook
never grants.

--on-ask says what becomes of a call about which somebody is to be asked: pass says
nothing, wait asks through Regent and refuses unless it is allowed in time, and deny
refuses.`,
		Example: `  $ echo '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push -f"}}' > event.json
  $ regent hook codex < event.json
  {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",...`,
		Args: noArgs("the event is read from stdin"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.hook(cmd, hookclient.Codex, o) }),
	}
	flags := cmd.Flags()
	choiceVar(cmd, flags, &o.onAsk, "on-ask", string(hookclient.Pass), hookclient.OnAsks, "what to do where somebody is to be asked")
	flags.DurationVar(&o.timeout, "timeout", hookclient.DefaultTimeout, "refuse after this `TIME`; less than Codex waits for the hook")
	must(cmd.RegisterFlagCompletionFunc("timeout", cobra.NoFileCompletions))
	needsDaemon(cmd)
	exitsAs(cmd, map[int]string{exitDone: "the answer is on stdout; none is no objection", exitUsage: "refused in words on stderr, or bad usage"},
		exitDone, exitUsage)
	return cmd
}

// minHookTimeout leaves the daemon time to answer.
const minHookTimeout = time.Second

func (a *app) hook(cmd *cobra.Command, dialect hookclient.Dialect, o *hookOptions) error {
	if err := withoutLayers(cmd, "the workspace above the call's cwd is found"); err != nil {
		return err
	}
	if o.timeout < minHookTimeout {
		return usagef("--timeout %s is less than %s", o.timeout, minHookTimeout)
	}
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return badInput(err)
	}
	// Where it cannot be told, the harness's own word has to do.
	cwd, _ := a.getwd()
	h := &hookclient.Hook{
		Dialect: dialect, OnAsk: hookclient.OnAsk(o.onAsk), Home: home, Timeout: o.timeout, AgentPID: os.Getppid(), Cwd: cwd,
		// Past the buffer: an answer that cannot be written is one that refuses.
		Stdin: a.stdin, Stdout: a.terminal, Stderr: a.stderr,
	}
	return exitCode(h.Run())
}
