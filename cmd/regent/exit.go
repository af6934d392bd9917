package main

import (
	"errors"
	"fmt"
	"strings"
)

// The exit codes. They are part of the interface: scripts depend on them.
const (
	// exitDone means that the answer is on stdout, whatever it says.
	exitDone = 0
	// exitFailed means that what was asked for could not be done, or that a test
	// or a check did not pass.
	exitFailed = 1
	// exitUsage means that the command line, the input, the configuration or the
	// policies have to be corrected first.
	exitUsage = 2
	// exitDenied means, where it was asked for with --fail, that the answer is no.
	exitDenied = 3
	// exitApproval means, where it was asked for with --fail, that somebody has
	// to approve first.
	exitApproval = 4
	// exitMoved means that a record changed after it was read.
	exitMoved = 5
)

var exitMeanings = map[int]string{
	exitDone:     "done",
	exitFailed:   "failed",
	exitUsage:    "bad input or usage",
	exitDenied:   "denied",
	exitApproval: "approval needed",
	exitMoved:    "the record moved on",
}

// exitError ends the process with a code. Its message, if it has one, is for
// people.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return exitMeanings[e.code]
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef is a mistake of whoever called, with what to do instead.
func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// badInput is err as a fault of the input, the configuration or the policies.
func badInput(err error) error { return &exitError{code: exitUsage, err: err} }

// exitCode ends with a code after everything has been said.
func exitCode(code int) error {
	if code == exitDone {
		return nil
	}
	return &exitError{code: code}
}

// report says on stderr what went wrong, each line after the name of the
// command, and returns the exit code.
func (a *app) report(command string, err error) int {
	if err == nil {
		return exitDone
	}
	code := exitUsage // cobra's own errors are about the command line
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
		if e.err == nil {
			return code
		}
	}
	a.say(command, "%s", err)
	return code
}

// say prints words for people on stderr, every line after the command's name.
// Characters that could drive a terminal are shown by their codes.
func (a *app) say(command, format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n") {
		// Where stderr is gone there is nobody left to tell.
		fmt.Fprintf(a.stderr, "%s: %s\n", command, printable(line))
	}
}
