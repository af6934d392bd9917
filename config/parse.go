package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxSize is the largest configuration file, in bytes, that is read.
const MaxSize = 1 << 20

// Parse decodes and checks data, which name says where it comes from: messages
// start with name, and relative paths in data start at its folder. Parse looks
// at no file; whether the files that data refers to exist is for Load to find
// out, and Policy.Paths is empty where data names none.
//
// The error, if any, is an *Error, and the Config is nil then.
func Parse(name string, data []byte) (*Config, []Warning, error) {
	c, warnings, err := parse(name, data)
	if err != nil {
		return nil, nil, err
	}
	return c, warnings, nil
}

func parse(name string, data []byte) (*Config, []Warning, *Error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, &Error{File: name, Message: "cannot tell the folder that paths start at", Err: err}
	}
	root, fault := document(name, data)
	if fault != nil {
		return nil, nil, fault
	}
	d := &decoder{file: name, keys: make(map[string]KeyPos)}
	c := Default(filepath.Dir(path))
	c.Path = path
	pos := KeyPos{Line: root.Line, Column: root.Column}
	if fault := d.value(pos, root, reflect.ValueOf(c).Elem(), ""); fault != nil {
		return nil, nil, fault
	}
	sum := sha256.Sum256(data)
	c.SHA256 = hex.EncodeToString(sum[:])
	c.file, c.keys = name, d.keys

	k := &checker{c: c}
	k.values()
	if fault := k.first(); fault != nil {
		return nil, nil, fault
	}
	k.resolve()
	return c, k.sorted(), nil
}

// document returns the root of the one YAML document in data.
func document(name string, data []byte) (*yaml.Node, *Error) {
	fail := func(line, column int, message, hint string) *Error {
		return &Error{File: name, Line: line, Column: column, Message: message, Hint: hint}
	}
	if len(data) > MaxSize {
		return nil, fail(1, 1, fmt.Sprintf("is larger than %d bytes", MaxSize), "rules and data belong in files below policy.paths")
	}
	if line, column, ok := badUTF8(data); ok {
		return nil, fail(line, column, "is not UTF-8 text", "save the file as UTF-8")
	}
	documents, err := decodeAll(data, 2)
	if err != nil {
		return nil, syntaxError(name, data, err)
	}
	switch {
	case len(documents) == 0:
		return nil, fail(1, 1, "is empty", `write at least "version: 1"`)
	case len(documents) > 1:
		at := documents[1]
		return nil, fail(at.Line, at.Column, "holds a second document", "keep one document and remove the --- above the other")
	}
	root := documents[0].Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, fail(1, 1, "is empty", `write at least "version: 1"`)
	case root.Kind != yaml.MappingNode:
		return nil, fail(root.Line, root.Column, "wants a mapping of keys to values, not "+describe(root), `start with "version: 1"`)
	}
	return root, nil
}

// decodeAll returns the first limit YAML documents in data. A fault in the
// YAML package counts as a fault of the file.
func decodeAll(data []byte, limit int) (documents []*yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: cannot be read: %v", p)
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(data))
	for len(documents) < limit {
		n := new(yaml.Node)
		if err := in.Decode(n); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		documents = append(documents, n)
	}
	return documents, nil
}

func badUTF8(data []byte) (line, column int, bad bool) {
	if utf8.Valid(data) {
		return 0, 0, false
	}
	line, column = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return line, column, true
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
		data = data[size:]
	}
	return line, column, true
}

var yamlFault = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?(.*)$`)

// syntaxHints say what usually stands behind a complaint of the YAML package.
var syntaxHints = []struct{ complaint, hint string }{
	{"mapping values are not allowed", "check the indentation, and put a value that holds a colon and a space in quotes"},
	{"cannot start any token", "put the value in quotes"},
	{"did not find expected key", "check the indentation"},
	{"unexpected end of stream", "close the quotes"},
	{"',' or ']'", "close the list with ]"},
	{"',' or '}'", "close the mapping with }"},
	{"unknown anchor", "aliases are not allowed: write the value out, or put it in quotes"},
	{"control characters", "remove the control character"},
	{"exceeded max depth", "nest less deeply"},
}

func syntaxError(name string, data []byte, err error) *Error {
	fault := &Error{File: name, Line: 1, Column: 1, Message: err.Error(), Err: err}
	if m := yamlFault.FindStringSubmatch(err.Error()); m != nil {
		fault.Message = m[2]
		if line, convErr := strconv.Atoi(m[1]); convErr == nil {
			fault.Line = line
		}
	}
	for _, known := range syntaxHints {
		if strings.Contains(fault.Message, known.complaint) {
			fault.Hint = known.hint
			break
		}
	}
	if text := []rune(fault.Message); len(text) > 200 {
		fault.Message = string(text[:200]) + "…"
	}
	fault.Message = "is not YAML: " + fault.Message

	line, text, found := faultyLine(data)
	if !found {
		return fault
	}
	fault.Line = line
	indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	fault.Column = 1 + len(indent)
	if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
		fault.Column = 1 + tab
		fault.Message = "a tab cannot indent a line"
		fault.Hint = "use spaces"
	}
	return fault
}

// faultyLine returns the first line that no later line can make good: the one
// after the longest part of data, in whole lines, that is YAML by itself. The
// YAML package names the line where the surrounding block starts, which can be
// far above. Files that would take long to search are not.
func faultyLine(data []byte) (number int, text string, found bool) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	const effort = 2 << 20
	if len(lines)*len(data) > effort {
		return 0, "", false
	}
	end := len(data)
	for i := len(lines) - 1; i >= 0; i-- {
		end -= len(lines[i])
		if _, err := decodeAll(data[:end], 2); err == nil {
			return i + 1, strings.TrimRight(string(lines[i]), "\r\n"), true
		}
	}
	return 0, "", false
}
