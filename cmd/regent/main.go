// Command regent decides what an AI agent may do: it classifies tool calls and
// rules on them with policies written in Rego.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code.
func Main() int {
	// Decisions are short-lived allocations: collecting less often halves the
	// slowest of them. GOGC in the environment has the last word.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, getwd: os.Getwd}, os.Args[1:])
}

// app is what every subcommand works with: the streams and surroundings of the
// process, and the flags that all of them share.
type app struct {
	stdin io.Reader
	// stdout takes the answer and nothing else, stderr words for people.
	stdout, stderr io.Writer
	// terminal is where stdout leads, past the buffer that run puts before it, and
	// flush empties that buffer, for commands that answer bit by bit.
	terminal io.Writer
	flush    func() error
	getenv   func(string) string
	getwd    func() (string, error)
	// prompter is where a person is asked; nil until one is.
	prompter *prompter

	global globalOptions
}
