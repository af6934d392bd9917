// Command regent-hook is what a harness starts for each call of its agent. It asks
// the daemon of the home, and refuses where it gets no answer.
//
// It is what `regent hook` is, in a program that is small and starts fast.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/regent-policy/regent/harness/hook/client"
)

// exitUsage is also the code by which harnesses understand that the call is not to
// run: a hook that is started in the wrong way stops everything, and is seen.
const exitUsage = 2

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

const usage = `usage: regent-hook codex [--home DIR] [--on-ask pass|wait|deny] [--timeout TIME]

Reads one event of a harness from stdin, asks Regent's daemon, and answers in the
words of the harness. Without an answer the call is refused.

`

// run is a whole run. It is no hook yet when it finds fault with its arguments.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	h, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "regent-hook:", err)
		return exitUsage
	}
	h.Stdin, h.Stdout, h.Stderr = stdin, stdout, stderr
	return h.Run()
}

func parse(args []string, stderr io.Writer) (*client.Hook, error) {
	flags := flag.NewFlagSet("regent-hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	h := &client.Hook{AgentPID: os.Getppid()}
	var onAsk string
	flags.StringVar(&h.Home, "home", "", "the `DIR` whose daemon is asked (default $REGENT_HOME, else ~/.regent)")
	flags.StringVar(&onAsk, "on-ask", string(client.Pass), "what to do where somebody is to be asked: pass, wait or deny")
	flags.DurationVar(&h.Timeout, "timeout", client.DefaultTimeout, "refuse after this `TIME`; less than the harness waits")
	help := func() error {
		fmt.Fprint(stderr, usage)
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return flag.ErrHelp
	}
	// The dialect comes first, as a subcommand would.
	if len(args) == 0 {
		return nil, errors.New("name the harness: regent-hook codex")
	}
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		return nil, help()
	}
	h.Dialect = client.Dialect(args[0])
	if !slices.Contains(client.Dialects, h.Dialect) {
		return nil, fmt.Errorf("no hooks of %.64q are known; use codex", args[0])
	}
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return nil, help()
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %.64q", flags.Arg(0))
	case !slices.Contains(client.OnAsks, onAsk):
		return nil, fmt.Errorf("--on-ask %.64q: use pass, wait or deny", onAsk)
	case h.Timeout < time.Second:
		return nil, fmt.Errorf("--timeout %s is less than a second", h.Timeout)
	}
	h.OnAsk = client.OnAsk(onAsk)
	var err error
	if h.Home, err = home(h.Home); err != nil {
		return nil, err
	}
	// Where it cannot be told, the harness's own word has to do.
	h.Cwd, _ = os.Getwd()
	return h, nil
}

// home is the folder that the flag names, or the environment, or the user's own, as
// package config has it, which is too much for a process of every call.
func home(named string) (string, error) {
	if named == "" {
		named = os.Getenv("REGENT_HOME")
	}
	if named == "" {
		user := os.Getenv("HOME")
		if !filepath.IsAbs(user) {
			return "", errors.New("find the home: $HOME is no absolute path; give --home or set $REGENT_HOME")
		}
		named = filepath.Join(user, ".regent")
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return "", fmt.Errorf("find the home: %w", err)
	}
	return path, nil
}
