package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// maxSecret bounds what is read as a secret, in bytes.
const maxSecret = 4096

// errNoTerminal means that there is nobody to ask.
var errNoTerminal = errors.New("there is no terminal to ask on")

// readSecret reads a secret that its owner keeps in a file, or gives on standard
// input ("-"). A line break at the end is not part of it.
func (a *app) readSecret(file string) (string, error) {
	from, name := a.stdin, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", badInput(err)
		}
		defer f.Close() // read only: nothing is lost if it fails
		from, name = f, file
	}
	data, err := io.ReadAll(io.LimitReader(from, maxSecret+1))
	switch {
	case err != nil:
		return "", badInput(fmt.Errorf("read %s: %w", name, err))
	case len(data) > maxSecret:
		return "", usagef("%s is larger than %d bytes, which no passphrase is", name, maxSecret)
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) == 0 {
		return "", usagef("%s is empty", name)
	}
	return string(data), nil
}

// askSecret has a person type something that is not shown. It asks on the
// terminal of the process, wherever the standard streams lead. ctx ends it, and
// the terminal shows again what is typed then.
func (a *app) askSecret(ctx context.Context, prompt string) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", errNoTerminal
	}
	defer tty.Close() // nothing was written that could be lost
	fd := int(tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", errNoTerminal
	}
	fmt.Fprint(tty, printable(prompt)+": ")
	type typed struct {
		text []byte
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		done <- typed{text, err}
	}()
	select {
	case t := <-done:
		fmt.Fprintln(tty)
		if t.err != nil {
			return "", fmt.Errorf("read from the terminal: %w", t.err)
		}
		return string(t.text), nil
	case <-ctx.Done():
		// The reader is left behind; the process is about to end.
		_ = term.Restore(fd, before)
		fmt.Fprintln(tty)
		return "", context.Cause(ctx)
	}
}

// secret is what a file holds, or what a person types where none is named. flag
// is what to name the file with.
func (a *app) secret(ctx context.Context, file, prompt, flag string) (string, error) {
	if file != "" {
		return a.readSecret(file)
	}
	text, err := a.askSecret(ctx, prompt)
	if errors.Is(err, errNoTerminal) {
		return "", usagef("%s is needed, and %w; give it with %s FILE, - for standard input", prompt, err, flag)
	}
	return text, err
}
