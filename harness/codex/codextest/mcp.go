package codextest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
)

// mcpVar has a test's program be the MCP server of [MCPServer].
const mcpVar = "REGENT_CODEXTEST_MCP"

// MCPServer is the part of config.toml that has Codex start an MCP server of a
// name. The server is the program of the test itself, whose TestMain has to begin
// with [PlayMCP]. Its tools are
//
//   - destroy, which is destructive and makes the file in its argument path;
//   - look, which only reads, and makes the file in its argument path to show that
//     it was called;
//   - ask, which asks the user to confirm and returns the answer as JSON.
func MCPServer(tb testing.TB, name string) string {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("[mcp_servers.%s]\ncommand = %q\nstartup_timeout_sec = 60\n[mcp_servers.%s.env]\n%s = \"1\"\n", name, program, name, mcpVar)
}

// PlayMCP is the MCP server where Codex has started this program as one. It then
// returns true, when Codex has hung up, and the program has to end.
func PlayMCP() bool {
	if os.Getenv(mcpVar) == "" {
		return false
	}
	if err := serveMCP(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "the MCP server of the test:", err)
	}
	return true
}

// mcpMessage is a message of MCP in either direction.
type mcpMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

const (
	mcpTools = `{"tools":[
		{"name":"destroy","description":"destroys a target","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},
		 "annotations":{"destructiveHint":true,"readOnlyHint":false}},
		{"name":"look","description":"looks at a target","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},
		 "annotations":{"readOnlyHint":true}},
		{"name":"ask","description":"asks the user","inputSchema":{"type":"object","properties":{}},
		 "annotations":{"readOnlyHint":true}}]}`
	mcpQuestion = `{"message":"Really?","requestedSchema":{"type":"object","properties":{"confirmed":{"type":"boolean"}},"required":["confirmed"]}}`
)

// serveMCP speaks MCP over lines until r ends. One call at a time is enough for
// tests.
func serveMCP(r io.Reader, w io.Writer) error {
	in, out := json.NewDecoder(bufio.NewReader(r)), json.NewEncoder(w)
	read := func() (m mcpMessage, err error) {
		err = in.Decode(&m)
		return m, err
	}
	for {
		m, err := read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(m.ID) == 0 || m.Method == "" {
			continue // notifications, and answers to nothing that was asked
		}
		reply := mcpMessage{Version: "2.0", ID: m.ID}
		switch m.Method {
		case "initialize":
			var p struct {
				Version string `json:"protocolVersion"`
			}
			if err := json.Unmarshal(m.Params, &p); err != nil {
				return err
			}
			reply.Result = fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"codextest","version":"0"}}`, p.Version)
		case "ping":
			reply.Result = json.RawMessage(`{}`)
		case "tools/list":
			reply.Result = json.RawMessage(mcpTools)
		case "tools/call":
			text, err := callMCP(m.Params, func() (json.RawMessage, error) {
				question := mcpMessage{Version: "2.0", ID: json.RawMessage(`"question"`), Method: "elicitation/create", Params: json.RawMessage(mcpQuestion)}
				if err := out.Encode(question); err != nil {
					return nil, err
				}
				for {
					m, err := read()
					if err != nil {
						return nil, err
					}
					if m.Method == "" && string(m.ID) == string(question.ID) {
						return append(m.Result, m.Error...), nil
					}
				}
			})
			if err != nil {
				return err
			}
			content, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
			if err != nil {
				return err
			}
			reply.Result = content
		default:
			reply.Error = json.RawMessage(`{"code":-32601,"message":"no such method"}`)
		}
		if err := out.Encode(reply); err != nil {
			return err
		}
	}
}

// callMCP does what a tool does and returns what it says.
func callMCP(params json.RawMessage, ask func() (json.RawMessage, error)) (string, error) {
	var p struct {
		Name      string `json:"name"`
		Arguments struct {
			Path string `json:"path"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return "", err
	}
	if p.Name == "ask" {
		answer, err := ask()
		return "the user answered " + string(answer), err
	}
	if p.Arguments.Path != "" {
		if err := os.WriteFile(p.Arguments.Path, []byte(p.Name), 0o600); err != nil {
			return err.Error(), nil // the model is told
		}
	}
	return p.Name + " is done", nil
}
