package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

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

// prompter has a person type on the terminal of the process, wherever the
// standard streams lead. A read from a terminal cannot be ended, so there is one
// reader for all that is asked, and it is left behind when the process ends.
type prompter struct {
	tty   *os.File
	keys  keyReader
	input chan []byte
	// ahead are keys that were pressed before they were asked for.
	ahead []key
}

// prompter is opened when it is first needed.
func (a *app) openPrompter() (*prompter, error) {
	if a.prompter != nil {
		return a.prompter, nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, errNoTerminal
	}
	a.prompter = &prompter{tty: tty, input: make(chan []byte)}
	go readInput(context.Background(), tty, a.prompter.input)
	return a.prompter, nil
}

// secret asks for something that is not shown as it is typed. ctx and Ctrl-C end
// it, and the terminal is as it was then.
func (p *prompter) secret(ctx context.Context, prompt string) (text string, err error) {
	// Nothing is shown from before the prompt is there, so that nobody types into
	// a terminal that still shows it.
	before, err := term.MakeRaw(int(p.tty.Fd()))
	if err != nil {
		return "", errNoTerminal
	}
	defer func() {
		_, writeErr := io.WriteString(p.tty, "\r\n")
		err = errors.Join(err, writeErr, term.Restore(int(p.tty.Fd()), before))
	}()
	if _, err := io.WriteString(p.tty, printable(prompt)+": "); err != nil {
		return "", err
	}
	for {
		for len(p.ahead) > 0 {
			k := p.ahead[0]
			p.ahead = p.ahead[1:]
			switch k.name {
			case keyEnter:
				return text, nil
			case keyInterrupt:
				return "", errors.New("interrupted; nothing was done")
			case keyBackspace:
				_, n := utf8.DecodeLastRuneInString(text)
				text = text[:len(text)-n]
			case keyRune:
				if len(text) < maxSecret {
					text += string(k.char)
				}
			}
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case data, ok := <-p.input:
			if !ok {
				return "", errors.New("the terminal is gone")
			}
			p.ahead = p.keys.read(data)
		}
	}
}

// secret is what a file holds, or what a person types where none is named. flag
// is what to name the file with.
func (a *app) secret(ctx context.Context, file, prompt, flag string) (string, error) {
	if file != "" {
		return a.readSecret(file)
	}
	text := ""
	p, err := a.openPrompter()
	if err == nil {
		text, err = p.secret(ctx, prompt)
	}
	if errors.Is(err, errNoTerminal) {
		return "", usagef("%s is needed, and %w; give it with %s FILE, - for standard input", prompt, err, flag)
	}
	return text, err
}
