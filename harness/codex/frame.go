package codex

import (
	"errors"
	"fmt"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrFrame means that a message is not one of the protocol: not one JSON
// object, a name given twice, or an id that is neither text nor a whole number.
// The connection cannot be trusted to be in step any more; close it.
var ErrFrame = errors.New("malformed frame")

// ID is a JSON-RPC id as JSON text, so that the number 12 and the text "12"
// stay apart: the server ignores an answer whose id has the other type.
type ID string

// parseID reads an id: a text or a whole number of 64 bits.
func parseID(raw jsontext.Value) (ID, error) {
	switch raw.Kind() {
	case '"':
		var s string
		if err := jsonv2.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("%w: id: %w", ErrFrame, err)
		}
		text, err := jsonv2.Marshal(s)
		if err != nil {
			return "", fmt.Errorf("%w: id: %w", ErrFrame, err)
		}
		return ID(text), nil
	case '0':
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return "", fmt.Errorf("%w: id %s is not a whole number", ErrFrame, raw)
		}
		return ID(strconv.FormatInt(n, 10)), nil
	default:
		return "", fmt.Errorf("%w: id is neither a text nor a number", ErrFrame)
	}
}

// frame is a message in either direction. The protocol leaves out "jsonrpc".
type frame struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

// captured is a line of a recording: a frame and where it went.
type captured struct {
	Dir   string         `json:"dir"`
	Frame jsontext.Value `json:"frame"`
}

// readFrame reads a frame as it came or out of a recording; client says that it
// went to the server.
func readFrame(raw []byte) (f frame, client bool, err error) {
	var c captured
	// Only a recording has exactly these two members.
	if jsonv2.Unmarshal(raw, &c, jsonv2.RejectUnknownMembers(true)) == nil && len(c.Frame) > 0 {
		switch c.Dir {
		case "s2c":
		case "c2s":
			client = true
		default:
			return frame{}, false, fmt.Errorf("%w: direction %q is neither s2c nor c2s", ErrFrame, c.Dir)
		}
		raw = c.Frame
	}
	f, err = decodeFrame(raw)
	return f, client && err == nil, err
}

// decodeFrame reads a frame as it came.
func decodeFrame(raw []byte) (f frame, err error) {
	if jsontext.Value(raw).Kind() != '{' {
		return frame{}, fmt.Errorf("%w: not an object", ErrFrame)
	}
	if err := jsonv2.Unmarshal(raw, &f); err != nil {
		return frame{}, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return f, nil
}

// text is the string in raw, or "" for anything else.
func text(raw jsontext.Value) string {
	var s string
	if raw.Kind() != '"' || jsonv2.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func null(raw jsontext.Value) bool { return len(raw) == 0 || raw.Kind() == 'n' }
