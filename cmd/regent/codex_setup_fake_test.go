package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// hookBlock is a hook as regent install writes it.
var hookBlock = regexp.MustCompile(`(?m)^\[\[hooks\.(\w+)\]\]\n(?:.*\n){3}command = "(.*)"$`)

// topKey is a key with a text at the top of a configuration.
var topKey = regexp.MustCompile(`(?m)^(\w+) = "(.*)"$`)

// fakeSetup answers what is asked of the configuration of a small Codex, which
// reads no more of it than regent install writes.
func fakeSetup(method string) (any, error) {
	home := os.Getenv("CODEX_HOME")
	file := filepath.Join(home, "config.toml")
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	switch method {
	case "config/read":
		top, _, _ := strings.Cut(string(text), "\n[")
		config := map[string]any{}
		for _, m := range topKey.FindAllStringSubmatch(top, -1) {
			config[m[1]] = m[2]
		}
		return map[string]any{"config": config, "layers": []any{}}, nil
	case "hooks/list":
		hooks := []any{}
		for _, m := range hookBlock.FindAllStringSubmatch(string(text), -1) {
			event := map[string]string{"PreToolUse": "pre_tool_use", "PermissionRequest": "permission_request"}[m[1]]
			key := fmt.Sprintf("%s:%s:0:0", file, event)
			trust := "untrusted"
			if strings.Contains(string(text), fmt.Sprintf("[hooks.state.%q]\ntrusted_hash = %q\n", key, fakeHash)) {
				trust = "trusted"
			}
			var command string
			if err := json.Unmarshal([]byte(`"`+m[2]+`"`), &command); err != nil {
				return nil, err
			}
			hooks = append(hooks, map[string]any{
				"key": key, "eventName": strings.ToLower(m[1][:1]) + m[1][1:], "command": command, "sourcePath": file,
				"enabled": true, "currentHash": fakeHash, "trustStatus": trust,
			})
		}
		return map[string]any{"data": []any{map[string]any{"hooks": hooks, "errors": []any{}}}}, nil
	default:
		return map[string]any{}, nil
	}
}

const fakeHash = "sha256:5b0c"
