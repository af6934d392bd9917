package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/codex"
)

// maxInput bounds what one run reads.
const maxInput = 256 << 20

// inputOptions are the flags of commands that read requests.
type inputOptions struct{ input string }

func (o *inputOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.input, "input", "i", "-", "`FILE` to read from, - for standard input")
}

// read returns the input and the name by which errors call it.
func (o *inputOptions) read(a *app) (name string, data []byte, err error) {
	return a.readFile(o.input)
}

// readFile reads a whole file, or standard input for "-".
func (a *app) readFile(file string) (name string, data []byte, err error) {
	name, from := file, a.stdin
	if file == "-" {
		name = "stdin"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return name, nil, badInput(err)
		}
		defer f.Close() // read only: nothing is lost if it fails
		from = f
	}
	data, err = io.ReadAll(io.LimitReader(from, maxInput+1))
	if err != nil {
		return name, nil, badInput(fmt.Errorf("read %s: %w", name, err))
	}
	if len(data) > maxInput {
		return name, nil, usagef("%s is larger than %d bytes", name, maxInput)
	}
	return name, data, nil
}

// question is one request of an input, or what is wrong with it.
type question struct {
	// line is where it starts.
	line    int
	request *approval.Request
	err     error
	// id is that of the harness's message, as JSON.
	id json.RawMessage
	// problem says what of the message was not understood.
	problem string
}

// questions is an input as it was understood.
type questions struct {
	all []question
	// several is true for JSON lines, even where there is just one left.
	several bool
	// passed counts the frames that ask for no approval.
	passed int
}

// parseQuestions reads one request, JSON lines, or frames of a harness's
// protocol. A fault of one line leaves the others alone.
func parseQuestions(name string, data []byte) (questions, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	lines := splitLines(data)
	if len(lines) == 0 {
		return questions{}, usagef("%s holds no request", name)
	}
	// A whole that is one value is one, over how many lines it may go.
	whole := wellFormed(bytes.TrimSpace(data))
	if whole && isFrame(data) {
		lines = []line{{number: lines[0].number, text: data}}
	} else if whole || !anyObject(lines) {
		request, err := approval.Decode(data)
		return questions{all: []question{{line: lines[0].number, request: request, err: located(name, data, lines[0].number, err)}}}, nil
	}

	out := questions{several: true}
	recorded := slices.ContainsFunc(lines, func(l line) bool { return isFrame(l.text) })
	var intake codex.Intake
	for _, l := range lines {
		if !recorded || !isFrame(l.text) && !isReply(l.text) {
			request, err := approval.Decode(l.text)
			out.all = append(out.all, question{line: l.number, request: request, err: located(name, l.text, l.number, err)})
			continue
		}
		asked, err := intake.Message(l.text)
		switch {
		case err != nil:
			out.all = append(out.all, question{line: l.number, err: fmt.Errorf("%s:%d: %w", name, l.number, err)})
		case asked == nil:
			out.passed++
		default:
			out.all = append(out.all, question{line: l.number, request: asked.Request, id: json.RawMessage(asked.ID), problem: asked.Problem})
		}
	}
	return out, nil
}

// line is a line that is not blank, and its number from 1.
type line struct {
	number int
	text   []byte
}

func splitLines(data []byte) []line {
	var lines []line
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if text = bytes.TrimSpace(text); len(text) > 0 {
			lines = append(lines, line{number, text})
		}
	}
	return lines
}

// wellFormed reports whether data is exactly one JSON value. What the value
// may hold, names given twice among it, is for the decoder to judge.
func wellFormed(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// anyObject reports whether a line is by itself an object with something in it,
// as in JSON lines of which others are faulty. A request that was spread over
// lines and does not parse has none.
func anyObject(lines []line) bool {
	if len(lines) < 2 {
		return false
	}
	for _, l := range lines {
		if l.text[0] == '{' && len(l.text) > 2 && wellFormed(l.text) {
			return true
		}
	}
	return false
}

// members are the names at the top of a JSON object; nil for anything else.
func members(data []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}

// isFrame reports whether data is a message of a harness's protocol, bare or as
// a capture wraps it.
func isFrame(data []byte) bool {
	m := members(data)
	if _, ok := m["method"]; ok {
		return true
	}
	_, dir := m["dir"]
	_, frame := m["frame"]
	return dir && frame
}

// isReply reports whether data is an answer among bare frames.
func isReply(data []byte) bool {
	m := members(data)
	if _, ok := m["id"]; !ok {
		return false
	}
	_, result := m["result"]
	_, failed := m["error"]
	return result || failed
}

// located puts the file and line before a decoder's error. The line is that of
// the faulty member where it can be found.
func located(name string, data []byte, first int, err error) error {
	if err == nil {
		return nil
	}
	at := first
	if fault, ok := errors.AsType[*approval.RequestError](err); ok {
		at += lineOf(data, fault.Pointer)
	}
	return fmt.Errorf("%s:%d: %w", name, at, err)
}

// lineOf is how many lines below the first non-blank one the value at a JSON
// Pointer stands; the nearest value above it where it is missing.
func lineOf(data []byte, pointer string) int {
	data = bytes.TrimLeft(data, " \t\r\n")
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	best, depth := int64(0), -1
	for {
		if _, err := d.ReadToken(); err != nil {
			break
		}
		at := string(d.StackPointer())
		if at != pointer && !strings.HasPrefix(pointer, at+"/") {
			continue
		}
		if n := strings.Count(at, "/"); n > depth {
			best, depth = d.InputOffset(), n
		}
	}
	return bytes.Count(data[:best], []byte("\n"))
}
