// Command plugin-host is a host of agents that loads Regent as a plugin. It asks what
// policy says of three calls, then has the last of them decided, which waits for a
// person where policy leaves it to one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/evaluator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// calls are what an agent wants done.
var calls = []string{"ls -l", "git push --force origin main", "npm publish"}

// Main returns 0 if the last call may run, 3 if not, 1 if that cannot be told, and 2
// for bad usage. To end ctx withdraws the question.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("plugin-host", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := evaluator.Options{Stderr: stderr}
	flags.StringVar(&o.Program, "regent", "", "the program regent (default that of the PATH)")
	flags.StringVar(&o.SHA256, "sha256", "", "start the program only if this is its digest")
	flags.StringVar(&o.Home, "home", "", "Regent's home (default ~/.regent)")
	flags.StringVar(&o.Workspace, "workspace", "", "the workspace with the rules")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	allowed, err := play(ctx, o, stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "plugin-host:", err)
		fmt.Fprintln(stderr, "plugin-host: an error is no permission: nothing is run")
		return 1
	case !allowed:
		return 3
	}
	return 0
}

func play(ctx context.Context, o evaluator.Options, stdout io.Writer) (allowed bool, err error) {
	regent, err := evaluator.Start(ctx, o)
	if err != nil {
		return false, err
	}
	defer regent.Close()
	d, err := regent.Describe(ctx)
	if err != nil {
		return false, err
	}
	runs := "runs"
	if !d.Daemon {
		runs = "does not run"
	}
	fmt.Fprintf(stdout, "loaded %s (pid %d); the daemon of %s %s\n", d.Name, regent.PID(), d.Home, runs)

	for _, text := range calls {
		ruling, err := regent.Evaluate(ctx, question(text))
		if err != nil {
			return false, err
		}
		fmt.Fprintf(stdout, "%-6s  %s\n        %s\n", ruling.Route, text, strings.Join(ruling.Reasons, "; "))
	}

	last := calls[len(calls)-1]
	fmt.Fprintf(stdout, "asking  %s\n", last)
	answer, err := regent.Ask(ctx, question(last))
	if errors.Is(err, context.Canceled) {
		return false, errors.New("the question was withdrawn")
	}
	if err != nil {
		return false, err
	}
	why := answer.Reason
	if why == "" {
		why = strings.Join(answer.Ruling.Reasons, "; ")
	}
	fmt.Fprintf(stdout, "%-6s  %s\n        %s\n", answer.Outcome, last, why)
	// Anything but allow, a word of a later version included, is no permission.
	return answer.Outcome == approval.OutcomeAllow, nil
}

func question(text string) evaluator.Question {
	return evaluator.Question{Request: &approval.Request{
		Kind:    approval.KindCommand,
		Command: &approval.Command{Text: text},
		Session: &approval.Session{ID: "example"},
	}}
}
