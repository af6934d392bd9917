package catalog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/catalog"
)

// touched is the part of a call that its arguments decide.
type touched struct {
	Key, Variant  string
	Commands      []catalog.Command
	Reads, Writes []string
	URLs, Hosts   []string
	Raised        []string
	Escalated     bool
	Problems      []string
}

func touch(c catalog.Call) touched {
	return touched{c.Key, c.Variant, c.Commands, c.Reads, c.Writes, c.URLs, c.Hosts, c.Raised, c.Escalated, c.Problems}
}

func tool(harness, name, arguments string) *approval.Request {
	r := &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: name}}
	if arguments != "" {
		r.Tool.Arguments = json.RawMessage(arguments)
	}
	if harness != "" {
		r.Harness = &approval.Harness{Name: harness}
	}
	return r
}

func bash(text string) []catalog.Command { return []catalog.Command{{Shell: "bash", Text: text}} }

func TestCallReadsArguments(t *testing.T) {
	c := shipped(t)
	for _, tc := range []struct {
		name, harness, tool, arguments string
		want                           touched
	}{
		{"command text is for a shell", "claude-code", "Bash", `{"command":"ls -la","timeout":5,"description":"list"}`, touched{
			Key: "Bash", Commands: bash("ls -la"),
		}},
		{"a missing command is a problem", "claude-code", "Bash", `{}`, touched{
			Key: "Bash", Problems: []string{"argument command is missing"},
		}},
		{"a command that is null is missing", "claude-code", "Bash", `{"command":null}`, touched{
			Key: "Bash", Problems: []string{"argument command is missing"},
		}},
		{"a command of the wrong type is a problem", "claude-code", "Bash", `{"command":["ls"]}`, touched{
			Key: "Bash", Problems: []string{"argument command is not a text"},
		}},
		{"an empty command is a problem", "claude-code", "Bash", `{"command":""}`, touched{
			Key: "Bash", Problems: []string{"argument command is empty"},
		}},
		{"an argument that nobody listed is a problem, and the command still counts", "claude-code", "Bash", `{"command":"ls","hook":"x"}`, touched{
			Key: "Bash", Commands: bash("ls"), Problems: []string{`argument "hook" is not in the catalogue`},
		}},
		{"names are matched with their case", "claude-code", "Bash", `{"Command":"ls"}`, touched{
			Key: "Bash", Problems: []string{`argument "Command" is not in the catalogue`, "argument command is missing"},
		}},
		{"a risky argument is raised", "claude-code", "Bash", `{"command":"ls","run_in_background":true}`, touched{
			Key: "Bash", Commands: bash("ls"), Raised: []string{"run_in_background"},
		}},
		{"its harmless value is not", "claude-code", "Bash", `{"command":"ls","run_in_background":false}`, touched{
			Key: "Bash", Commands: bash("ls"),
		}},
		{"a text is not the harmless boolean", "claude-code", "Bash", `{"command":"ls","run_in_background":"false"}`, touched{
			Key: "Bash", Commands: bash("ls"), Raised: []string{"run_in_background"},
		}},
		{"leaving the sandbox is told", "claude-code", "Bash", `{"command":"ls","dangerouslyDisableSandbox":true}`, touched{
			Key: "Bash", Commands: bash("ls"), Raised: []string{"dangerouslyDisableSandbox"}, Escalated: true,
		}},
		{"powershell is no bash", "claude-code", "PowerShell", `{"command":"Get-Item"}`, touched{
			Key: "PowerShell", Commands: []catalog.Command{{Shell: "powershell", Text: "Get-Item"}},
		}},
		{"a socket in the place of a command", "claude-code", "Monitor", `{"ws":{"url":"wss://Feed.example.com/x","protocols":["a"]}}`, touched{
			Key: "Monitor", URLs: []string{"wss://Feed.example.com/x"}, Hosts: []string{"feed.example.com"},
		}},
		{"both of them is a problem", "claude-code", "Monitor", `{"command":"ls","ws":{"url":"wss://a.example"}}`, touched{
			Key: "Monitor", Commands: bash("ls"), URLs: []string{"wss://a.example"}, Hosts: []string{"a.example"},
			Problems: []string{"exactly one of the arguments command, ws must be given"},
		}},
		{"neither is a problem", "claude-code", "Monitor", `{"description":"x"}`, touched{
			Key: "Monitor", Problems: []string{"exactly one of the arguments command, ws must be given"},
		}},
		{"a member that nobody listed is a problem", "claude-code", "Monitor", `{"ws":{"url":"wss://a.example","exec":"x"}}`, touched{
			Key: "Monitor", URLs: []string{"wss://a.example"}, Hosts: []string{"a.example"},
			Problems: []string{`argument ws/"exec" is not in the catalogue`},
		}},
		{"an object in the place of which a text stands is a problem", "claude-code", "Monitor", `{"ws":"wss://a.example"}`, touched{
			Key: "Monitor", Problems: []string{"argument ws has the wrong type"},
		}},
		{"a path that is read", "claude-code", "Read", `{"file_path":"/w/a","limit":10}`, touched{Key: "Read", Reads: []string{"/w/a"}}},
		{"an empty path is a problem", "claude-code", "Read", `{"file_path":""}`, touched{
			Key: "Read", Problems: []string{"argument file_path is empty"},
		}},
		{"a path with a NUL byte is a problem", "claude-code", "Read", `{"file_path":"/w/a\u0000b"}`, touched{
			Key: "Read", Problems: []string{"argument file_path holds a NUL byte"},
		}},
		{"a path that is written", "claude-code", "Write", `{"file_path":"/w/a","content":"x"}`, touched{Key: "Write", Writes: []string{"/w/a"}}},
		{"a search without a folder reads the current one", "claude-code", "Grep", `{"pattern":"x"}`, touched{Key: "Grep", Reads: []string{"."}}},
		{"a filter names what is read, from the folder", "claude-code", "Grep", `{"pattern":"x","path":"/w/src/","glob":"**/.env"}`, touched{
			Key: "Grep", Reads: []string{"/w/src/**/.env", "/w/src/"},
		}},
		{"a filter that takes files away names nothing", "claude-code", "Grep", `{"pattern":"x","glob":"!**/.env"}`, touched{
			Key: "Grep", Reads: []string{"."},
		}},
		{"a pattern lists the folder before it", "claude-code", "Glob", `{"pattern":"/etc/ssl/*.pem"}`, touched{
			Key: "Glob", Reads: []string{".", "/etc/ssl"},
		}},
		{"a pattern may climb", "claude-code", "Glob", `{"pattern":"../../{a,b}/**","path":"src"}`, touched{
			Key: "Glob", Reads: []string{"src", "src/../.."},
		}},
		{"a pattern of the root", "claude-code", "Glob", `{"pattern":"/*"}`, touched{Key: "Glob", Reads: []string{".", "/"}}},
		{"an address and its host", "claude-code", "WebFetch", `{"url":"https://Docs.Example.com.:8443/a?b=c","prompt":"sum up"}`, touched{
			Key: "WebFetch", URLs: []string{"https://Docs.Example.com.:8443/a?b=c"}, Hosts: []string{"docs.example.com"},
		}},
		{"a file address is a problem", "claude-code", "WebFetch", `{"url":"file:///etc/passwd"}`, touched{
			Key: "WebFetch", URLs: []string{"file:///etc/passwd"},
			Problems: []string{"argument url is an address with a scheme that is not known"},
		}},
		{"a user in an address is a problem", "claude-code", "WebFetch", `{"url":"https://good.example@evil.example/"}`, touched{
			Key: "WebFetch", URLs: []string{"https://good.example@evil.example/"}, Hosts: []string{"evil.example"},
			Problems: []string{"argument url is an address with a user in it"},
		}},
		{"a backslash in an address is a problem", "claude-code", "WebFetch", `{"url":"https://good.example\\@evil.example/"}`, touched{
			Key: "WebFetch", URLs: []string{`https://good.example\@evil.example/`},
			Problems: []string{"argument url is not an address that can be read"},
		}},
		{"a space in an address is a problem", "claude-code", "WebFetch", `{"url":"https://a.example/x y"}`, touched{
			Key: "WebFetch", URLs: []string{"https://a.example/x y"},
			Problems: []string{"argument url is not an address that can be read"},
		}},
		{"a number as host is a problem", "claude-code", "WebFetch", `{"url":"http://2130706433/"}`, touched{
			Key: "WebFetch", URLs: []string{"http://2130706433/"},
			Problems: []string{"argument url is an address without a host that can be read"},
		}},
		{"an address of version 6", "claude-code", "WebFetch", `{"url":"http://[::FFFF:127.0.0.1]:80/"}`, touched{
			Key: "WebFetch", URLs: []string{"http://[::FFFF:127.0.0.1]:80/"}, Hosts: []string{"127.0.0.1"},
		}},
		{"addresses in prose are told and never certain", "gemini-cli", "web_fetch", `{"prompt":"compare https://a.example/x, and (HTTP://B.example)."}`, touched{
			Key: "web_fetch", URLs: []string{"https://a.example/x", "HTTP://B.example"}, Hosts: []string{"a.example", "b.example"},
			Problems: []string{"argument prompt is prose, so the addresses in it are not certain"},
		}},
		{"an older name", "gemini-cli", "search_file_content", `{"pattern":"x","dir_path":"src"}`, touched{Key: "grep_search", Reads: []string{"src"}}},
		{"a listed prefix", "gemini-cli", "tracker_list_tasks", `{"state":"open"}`, touched{Key: "tracker_*"}},
		{"an open tool with an argument that promises a path", "gemini-cli", "tracker_list_tasks", `{"outputFile":"x"}`, touched{
			Key: "tracker_*", Problems: []string{`argument "outputFile" is not in the catalogue`},
		}},
		{"a prefix alone is no name", "gemini-cli", "tracker_", "", touched{
			Problems: []string{`tool "tracker_" is not in the catalogue of gemini-cli`},
		}},
		{"a star after the prefix is a letter like any other", "gemini-cli", "tracker_*", "", touched{Key: "tracker_*"}},
		{"a folder for the command", "gemini-cli", "run_shell_command", `{"command":"ls","dir_path":"sub"}`, touched{
			Key: "run_shell_command", Commands: []catalog.Command{{Shell: "bash", Text: "ls", Cwd: "sub"}},
		}},
		{"an empty folder is none", "cursor", "Shell", `{"command":"make deploy","cwd":"","timeout":30000}`, touched{
			Key: "Shell", Commands: bash("make deploy"),
		}},
		{"many patterns", "gemini-cli", "read_many_files", `{"include":["src/**","!x","docs/*.md"]}`, touched{
			Key: "read_many_files", Reads: []string{"src/**", "docs/*.md"},
		}},
		{"one pattern in their place", "gemini-cli", "read_many_files", `{"include":"src/**"}`, touched{
			Key: "read_many_files", Reads: []string{"src/**"},
		}},
		{"a pattern that is a number", "gemini-cli", "read_many_files", `{"include":["a",1]}`, touched{
			Key: "read_many_files", Reads: []string{"a"}, Problems: []string{"argument include/1 is not a text"},
		}},
		{"a pattern that is null", "gemini-cli", "read_many_files", `{"include":[null]}`, touched{
			Key: "read_many_files", Problems: []string{"argument include/0 is missing"},
		}},
		{"codex names the shell", "codex", "exec_command", `{"cmd":"ls","workdir":"/w","shell":"/bin/zsh","login":true,"yield_time_ms":1,"max_output_tokens":9}`, touched{
			Key: "exec_command", Commands: []catalog.Command{{Shell: "zsh", Text: "ls", Cwd: "/w"}},
		}},
		{"any program may call itself a shell", "codex", "exec_command", `{"cmd":"ls","shell":"/tmp/bash"}`, touched{
			Key: "exec_command", Commands: []catalog.Command{{Shell: "unknown", Text: "ls"}},
			Problems: []string{"argument shell names a shell that is not known"},
		}},
		{"codex asks to leave the sandbox", "codex", "exec_command", `{"cmd":"touch /x","sandbox_permissions":"require_escalated","justification":"Allow?","prefix_rule":["touch"]}`, touched{
			Key: "exec_command", Commands: bash("touch /x"), Raised: []string{"prefix_rule", "sandbox_permissions"}, Escalated: true,
		}},
		{"codex asks for more inside the sandbox", "codex", "exec_command", `{"cmd":"ls","sandbox_permissions":"with_additional_permissions","additional_permissions":{"network":{"enabled":true}}}`, touched{
			Key: "exec_command", Commands: bash("ls"), Raised: []string{"additional_permissions", "sandbox_permissions"},
		}},
		{"defaults written out ask for nothing", "codex", "exec_command", `{"cmd":"ls","sandbox_permissions":"use_default","additional_permissions":{},"prefix_rule":[],"tty":false}`, touched{
			Key: "exec_command", Commands: bash("ls"),
		}},
		{"a terminal is raised", "codex", "exec_command", `{"cmd":"git log","tty":true}`, touched{
			Key: "exec_command", Commands: bash("git log"), Raised: []string{"tty"},
		}},
		{"another environment is a problem", "codex", "exec_command", `{"cmd":"ls","environment_id":"remote"}`, touched{
			Key: "exec_command", Commands: bash("ls"), Problems: []string{"argument environment_id names another environment than the request"},
		}},
		{"an argument vector", "codex", "shell", `{"command":["bash","-lc","ls | wc -l"],"workdir":"/w"}`, touched{
			Key: "shell", Commands: []catalog.Command{{Argv: []string{"bash", "-lc", "ls | wc -l"}, Cwd: "/w"}},
		}},
		{"an older name of it", "codex", "container.exec", `{"command":["ls"]}`, touched{
			Key: "shell", Commands: []catalog.Command{{Argv: []string{"ls"}}},
		}},
		{"an argument vector with a number", "codex", "shell", `{"command":["sleep",5]}`, touched{
			Key: "shell", Problems: []string{"argument command is not a list of texts"},
		}},
		{"an argument vector with null", "codex", "shell", `{"command":["ls",null]}`, touched{
			Key: "shell", Problems: []string{"argument command is not a list of texts"},
		}},
		{"an argument vector without a program", "codex", "shell", `{"command":["","x"]}`, touched{
			Key: "shell", Problems: []string{"argument command is empty"},
		}},
		{"an empty argument vector", "codex", "shell", `{"command":[]}`, touched{
			Key: "shell", Problems: []string{"argument command is not a list of texts"},
		}},
		{"variables for a process are raised", "codex", "local_shell", `{"command":["ls"],"env":{"LD_PRELOAD":"x"}}`, touched{
			Key: "local_shell", Commands: []catalog.Command{{Argv: []string{"ls"}}}, Raised: []string{"env"},
		}},
		{"typing into a terminal is raised", "codex", "write_stdin", `{"session_id":3,"chars":"rm x\n"}`, touched{
			Key: "write_stdin", Raised: []string{"chars"},
		}},
		{"waiting for a terminal is not", "codex", "write_stdin", `{"session_id":3,"chars":"","yield_time_ms":100}`, touched{Key: "write_stdin"}},
		{"a patch names its files", "codex", "apply_patch", `{"input":"*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** End Patch"}`, touched{
			Key: "apply_patch", Writes: []string{"a", "b"},
		}},
		{"a patch as hooks report it", "codex", "apply_patch", `{"command":"*** Begin Patch\n*** Add File: /w/new.txt\n+hello\n*** End Patch\n"}`, touched{
			Key: "apply_patch", Writes: []string{"/w/new.txt"},
		}},
		{"a patch that cannot be read", "codex", "apply_patch", `{"input":"*** Begin Patch\n*** Add File: a\n+x\n*** Rename File: b\n*** End Patch"}`, touched{
			Key: "apply_patch", Writes: []string{"a"},
			Problems: []string{"argument input is a patch that cannot be read: patch is not understood: line 4: neither a file header nor the end of the patch"},
		}},
		{"a view of a file", "goose", "text_editor", `{"command":"view","path":"a"}`, touched{
			Key: "text_editor", Variant: "view", Reads: []string{"a"},
		}},
		{"an edit of a file, by the older name", "goose", "developer__text_editor", `{"command":"write","path":"a","file_text":"x"}`, touched{
			Key: "text_editor", Variant: "write", Writes: []string{"a"},
		}},
		{"an unknown command of an editor", "goose", "text_editor", `{"command":"burn","path":"a"}`, touched{
			Key: "text_editor", Problems: []string{"argument command has no known value"},
		}},
		{"an editor without a command", "goose", "text_editor", `{"path":"a"}`, touched{
			Key: "text_editor", Problems: []string{"argument command has no known value"},
		}},
		{"a command of an editor that is no text", "goose", "text_editor", `{"command":["view"],"path":"a"}`, touched{
			Key: "text_editor", Problems: []string{"argument command is not a text"},
		}},
		{"what is fetched goes to a file", "goose", "web_fetch", `{"url":"https://a.example/","save_as":"a.html"}`, touched{
			Key: "web_fetch", URLs: []string{"https://a.example/"}, Hosts: []string{"a.example"}, Writes: []string{"a.html"},
		}},
		{"commands as a list of texts", "cline", "run_commands", `{"commands":["make deploy","ls"]}`, touched{
			Key: "run_commands", Commands: []catalog.Command{{Shell: "bash", Text: "make deploy"}, {Shell: "bash", Text: "ls"}},
		}},
		{"commands as one text", "cline", "run_commands", `{"commands":"make deploy"}`, touched{Key: "run_commands", Commands: bash("make deploy")}},
		{"commands as a list in a text are judged both ways", "cline", "run_commands", `{"commands":"[\"make deploy\"]"}`, touched{
			Key: "run_commands", Commands: []catalog.Command{{Shell: "bash", Text: `["make deploy"]`}, {Shell: "bash", Text: "make deploy"}},
		}},
		{"commands as argument vectors", "cline", "run_commands", `{"commands":[["ls","-l"]]}`, touched{
			Key: "run_commands", Commands: []catalog.Command{{Argv: []string{"ls", "-l"}}},
		}},
		{"commands as objects", "cline", "run_commands", `{"commands":[{"command":"git","args":["status"]},{"cmd":"ls"}]}`, touched{
			Key: "run_commands", Commands: []catalog.Command{{Argv: []string{"git", "status"}}, {Shell: "bash", Text: "ls"}},
		}},
		{"a command and its arguments", "cline", "run_commands", `{"command":"git","args":["push"]}`, touched{
			Key: "run_commands", Commands: []catalog.Command{{Argv: []string{"git", "push"}}},
		}},
		{"arguments that a shell would read otherwise are judged both ways", "cline", "run_commands", `{"command":"echo","args":["$(rm x)"]}`, touched{
			Key: "run_commands", Commands: []catalog.Command{{Argv: []string{"echo", "$(rm x)"}}, {Shell: "bash", Text: "echo $(rm x)"}},
		}},
		{"a command object with another member", "cline", "run_commands", `{"commands":[{"command":"ls","env":{}}]}`, touched{
			Key: "run_commands", Problems: []string{"argument commands/0 is not a command"},
		}},
		{"a command object with two commands", "cline", "run_commands", `{"commands":[{"command":"ls","cmd":"rm x"}]}`, touched{
			Key: "run_commands", Problems: []string{"argument commands/0 is not a command"},
		}},
		{"no command at all", "cline", "run_commands", `{"commands":[]}`, touched{
			Key: "run_commands", Problems: []string{"argument commands has no command"},
		}},
		{"files in any spelling", "cline", "read_files", `{"files":["a",{"path":"b","start_line":1}]}`, touched{Key: "read_files", Reads: []string{"a", "b"}}},
		{"a file object without a path", "cline", "read_files", `{"files":[{"start_line":1}]}`, touched{
			Key: "read_files", Problems: []string{"argument files/0/path is missing"},
		}},
		{"several addresses", "cline", "fetch_web_content", `{"requests":[{"url":"https://a.example","prompt":"x"},{"url":"https://b.example"}]}`, touched{
			Key: "fetch_web_content", URLs: []string{"https://a.example", "https://b.example"}, Hosts: []string{"a.example", "b.example"},
		}},
		{"the end of a task", "cline", "attempt_completion", `{"result":"done"}`, touched{Key: "attempt_completion"}},
		{"the end of a task with a command", "cline", "attempt_completion", `{"result":"done","command":"open index.html"}`, touched{
			Key: "attempt_completion", Commands: bash("open index.html"),
		}},
		{"a passed-on call has the key of the inner tool", "qwen-code", "tool_call", `{"name":"list_directory","arguments":{"path":"src"}}`, touched{
			Key: "list_directory", Reads: []string{"src"},
		}},
		{"a passed-on call with its arguments in a text", "qwen-code", "tool_call", `{"name":"run_shell_command","arguments":"{\"command\":\"ls\"}"}`, touched{
			Key: "run_shell_command", Commands: bash("ls"),
		}},
		{"a passed-on call of nothing", "qwen-code", "tool_call", `{"arguments":{}}`, touched{
			Key: "tool_call", Problems: []string{"argument name is missing", "argument name does not name a tool"},
		}},
		{"a passed-on call of an unknown tool", "qwen-code", "tool_call", `{"name":"nuke","arguments":{}}`, touched{
			Problems: []string{`tool "nuke" is not in the catalogue of qwen-code`},
		}},
		{"a passed-on call with more beside it", "qwen-code", "tool_call", `{"name":"list_directory","arguments":{"path":"src"},"as":"root"}`, touched{
			Key: "list_directory", Reads: []string{"src"}, Problems: []string{`argument "as" is not in the catalogue`},
		}},
		{"calls passed on without end", "qwen-code", "tool_call", nest(9), touched{Key: "tool_call", Problems: []string{"calls are wrapped too deep"}}},
		{"a native tool by its alias", "", "bash", `{"command":"ls"}`, touched{Key: "run_command", Commands: bash("ls")}},
		{"a native command as an argument vector", "native", "run_command", `{"command":["git","status"],"cwd":"/w"}`, touched{
			Key: "run_command", Commands: []catalog.Command{{Argv: []string{"git", "status"}, Cwd: "/w"}},
		}},
		{"two folders for one command are a problem", "", "run_command", `{"command":"ls","cwd":"/w","workdir":"/v"}`, touched{
			Key: "run_command", Commands: []catalog.Command{{Shell: "bash", Text: "ls", Cwd: "/w"}},
			Problems: []string{"argument workdir names a second folder for the command"},
		}},
		{"the same folder twice is one", "", "run_command", `{"command":"ls","cwd":"/w","workdir":"/w"}`, touched{
			Key: "run_command", Commands: []catalog.Command{{Shell: "bash", Text: "ls", Cwd: "/w"}},
		}},
		{"a native command that gets input", "", "run_command", `{"command":"cat","stdin":"x"}`, touched{
			Key: "run_command", Commands: bash("cat"), Raised: []string{"stdin"},
		}},
		{"a native move writes both sides", "", "move_file", `{"source":"a","destination":"b"}`, touched{Key: "move_file", Writes: []string{"b", "a"}}},
		{"half a move is a problem", "", "move_file", `{"source":"a"}`, touched{
			Key: "move_file", Writes: []string{"a"}, Problems: []string{"exactly one of the arguments destination, dest, dst, to, new_path must be given"},
		}},
		{"two spellings of a path at once are a problem", "", "read_file", `{"path":"a","file_path":"b"}`, touched{
			Key: "read_file", Reads: []string{"b", "a"},
			Problems: []string{"exactly one of the arguments path, file_path, filePath, filename, file must be given"},
		}},
		{"no folder means the current one, another spelling does not", "", "list_directory", `{"directory":"/etc"}`, touched{
			Key: "list_directory", Reads: []string{"/etc"},
		}},
		{"thoughts touch nothing", "", "think", `{"thought":"hm"}`, touched{Key: "think"}},
		{"a thought with a command in it is a problem", "", "think", `{"thought":"hm","shellCommand":"rm"}`, touched{
			Key: "think", Problems: []string{`argument "shellCommand" is not in the catalogue`},
		}},
		{"arguments that are a list", "", "think", `["x"]`, touched{
			Key: "think", Problems: []string{"the arguments cannot be read: not an object"},
		}},
		{"a name given twice, deep down", "", "think", `{"thought":{"a":1,"a":2}}`, touched{
			Key: "think", Problems: []string{"the arguments cannot be read: not valid JSON or a name is given twice"},
		}},
		{"arguments that are no JSON", "", "read_file", `{"path":`, touched{
			Key: "read_file", Problems: []string{"the arguments cannot be read: not valid JSON or a name is given twice"},
		}},
		{"no arguments are an empty object", "", "read_file", `null`, touched{
			Key: "read_file", Problems: []string{"exactly one of the arguments path, file_path, filePath, filename, file must be given"},
		}},
		{"a name of another case is another tool", "claude-code", "bash", `{"command":"ls"}`, touched{
			Problems: []string{`tool "bash" is not in the catalogue of claude-code`},
		}},
		{"an unknown harness knows no tool", "acme", "read_file", `{"path":"a"}`, touched{
			Problems: []string{`tool "read_file" is not in the catalogue of acme`},
		}},
		{"a kind that the agent chose", "acp", "kind:edit", `{"locations":[{"path":"/w/a","line":3}],"title":"Edit a"}`, touched{
			Key: "kind:edit", Writes: []string{"/w/a"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := c.Call(tool(tc.harness, tc.tool, tc.arguments))
			if diff := cmp.Diff(tc.want, touch(got), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Call (-want +got):\n%s", diff)
			}
			if got.Name != tc.tool || got.Listed != (tc.want.Key != "") || got.MCP {
				t.Errorf("name %q, listed %v, mcp %v", got.Name, got.Listed, got.MCP)
			}
		})
	}
}

// nest wraps a call n times.
func nest(n int) string {
	inner := `{"name":"list_agents","arguments":{}}`
	for range n {
		inner = `{"name":"tool_call","arguments":` + inner + `}`
	}
	return inner
}

func TestCallTakesTheEnvironmentOfTheRequest(t *testing.T) {
	r := tool("codex", "exec_command", `{"cmd":"ls","environment_id":"remote"}`)
	r.Environment = &approval.Environment{ID: "remote", Cwd: "/w"}
	if got := shipped(t).Call(r); len(got.Problems) > 0 {
		t.Errorf("problems %q", got.Problems)
	}
}

func TestCallOfSeveralTools(t *testing.T) {
	c := shipped(t)
	got := c.Call(tool("opencode", "batch", `{"tool_calls":[
		{"tool":"read","parameters":{"filePath":"a"}},
		{"tool":"bash","parameters":{"command":"ls"}},
		{"tool":"lab_wipe","parameters":{}},
		{"tool":"nuke","parameters":{"x":1}}]}`))
	want := touched{Key: "batch", Commands: bash("ls"), Reads: []string{"a"}, Problems: []string{`tool "nuke" is not in the catalogue of opencode`}}
	if diff := cmp.Diff(want, touch(got), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Call (-want +got):\n%s", diff)
	}
	var inner []string
	for _, one := range got.Inner {
		inner = append(inner, one.Name+" "+one.Key+" "+one.Server)
	}
	if diff := cmp.Diff([]string{"read read ", "bash bash ", "lab_wipe  lab", "nuke  "}, inner); diff != "" {
		t.Errorf("inner calls (-want +got):\n%s", diff)
	}
}

func TestCallOfSeveralToolsIsBounded(t *testing.T) {
	c := shipped(t)
	one := `{"tool":"read","parameters":{"filePath":"a"}}`
	for _, tc := range []struct{ name, calls, want string }{
		{"too many", "[" + strings.Repeat(one+",", 100) + one + "]", "argument tool_calls has 101 calls, the limit is 100"},
		{"none", "[]", "argument tool_calls is not a list of calls"},
		{"no list", "{}", "argument tool_calls is not a list of calls"},
		{"no tool", `[{"parameters":{}}]`, "argument tool_calls: call 0 does not name a tool"},
		{"more members", `[{"tool":"list","id":"x"}]`, `argument tool_calls: call 0 has the unknown member "id"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := c.Call(tool("opencode", "batch", `{"tool_calls":`+tc.calls+`}`))
			if diff := cmp.Diff([]string{tc.want}, got.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// What is asked for around an inner call, and by one of several, is not lost.
func TestCallKeepsWhatInnerCallsRaise(t *testing.T) {
	c, err := load(t, map[string]string{"native.yaml": `harness: native
tools:
  run: {effects: [process], external: possible, arguments: {cmd: command, free: {role: raise, unless: [false], escalates_unless: [false], effects: [process]}}}
  pass: {effects: [unknown], external: possible, wraps: {name: n, arguments: a}, arguments: {n: text, a: data, log: write, root: {role: raise, escalates_unless: [false], effects: [process]}}}
  all: {effects: [unknown], external: possible, arguments: {list: {role: calls, tool: n, tool_arguments: a}}}
`})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, tool, arguments string
		raised                []string
		escalated, plain      bool
	}{
		{"one call", "run", `{"cmd":"ls","free":true}`, []string{"free"}, true, false},
		{"one call that asks for nothing", "run", `{"cmd":"ls"}`, nil, false, true},
		{"the call inside", "pass", `{"n":"run","a":{"cmd":"ls","free":true}}`, []string{"free"}, true, false},
		{"the call around it", "pass", `{"n":"run","a":{"cmd":"ls"},"root":true}`, []string{"root"}, true, false},
		{"a call inside that asks for nothing", "pass", `{"n":"run","a":{"cmd":"ls"}}`, nil, false, true},
		{"a file that the call around it writes", "pass", `{"n":"run","a":{"cmd":"ls"},"log":"x"}`, nil, false, false},
		{"one of several", "all", `{"list":[{"n":"run","a":{"cmd":"ls"}},{"n":"run","a":{"cmd":"ls","free":true}}]}`, nil, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := c.Call(tool("", tc.tool, tc.arguments))
			if diff := cmp.Diff(tc.raised, got.Raised, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("raised (-want +got):\n%s", diff)
			}
			if got.Escalated != tc.escalated || got.Plain != tc.plain || len(got.Problems) > 0 {
				t.Errorf("escalated %v, plain %v, problems %q", got.Escalated, got.Plain, got.Problems)
			}
		})
	}
}

func TestPlainCallsStayWithinTheirEntry(t *testing.T) {
	c := shipped(t)
	for _, tc := range []struct {
		name    string
		request *approval.Request
		want    bool
	}{
		{"a reader", tool("claude-code", "Read", `{"file_path":"a"}`), true},
		{"a reader with an unknown argument", tool("claude-code", "Read", `{"file_path":"a","x":1}`), false},
		{"a fetch", tool("goose", "web_fetch", `{"url":"https://a.example"}`), true},
		{"a fetch into a file", tool("goose", "web_fetch", `{"url":"https://a.example","save_as":"a"}`), false},
		{"a socket of a tool that runs commands", tool("claude-code", "Monitor", `{"ws":{"url":"wss://a.example"}}`), false},
		{"an agent that reads its plan", tool("claude-code", "ExitPlanMode", `{"planFilePath":"a"}`), false},
		{"a batch", tool("opencode", "batch", `{"tool_calls":[{"tool":"list","parameters":{}}]}`), false},
		{"an MCP tool", tool("claude-code", "mcp__a__b", `{}`), false},
		{"an unknown tool", tool("claude-code", "x", `{}`), false},
		{"a change of files", &approval.Request{
			Kind: approval.KindFileChange, Changes: []approval.Change{{Path: "a", Operation: "add"}}, Tool: &approval.Tool{Name: "think"},
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := c.Call(tc.request).Plain; got != tc.want {
				t.Errorf("plain %v, want %v", got, tc.want)
			}
		})
	}
}

// patchText is the arguments of a patch that deletes n files.
func patchText(t *testing.T, n int) string {
	t.Helper()
	var patch strings.Builder
	patch.WriteString("*** Begin Patch\n")
	for i := range n {
		fmt.Fprintf(&patch, "*** Delete File: f%d\n", i)
	}
	patch.WriteString("*** End Patch\n")
	text, err := json.Marshal(map[string]string{"patchText": patch.String()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCallIsBounded(t *testing.T) {
	c := shipped(t)
	many := func(n int, element string) string { return "[" + strings.Repeat(element+",", n) + element + "]" }
	var names strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&names, `"x%d":1,`, i)
	}
	for _, tc := range []struct{ name, harness, tool, arguments, want string }{
		{"commands", "cline", "run_commands", `{"commands":` + many(5000, `"ls"`) + `}`, "more than 1000 commands"},
		{"paths", "cline", "read_files", `{"files":` + many(5000, `"a"`) + `}`, "more than 4096 paths"},
		{"addresses", "cline", "fetch_web_content", `{"requests":` + many(5000, `{"url":"https://a.example"}`) + `}`, "more than 1000 addresses"},
		{"files of a patch", "opencode", "apply_patch", patchText(t, 5000), "more than 4096 files"},
		{"paths of many calls", "opencode", "batch", `{"tool_calls":` + many(9, `{"tool":"apply_patch","parameters":`+patchText(t, 1000)+`}`) + `}`, "more than can be looked at"},
		{"unknown arguments", "claude-code", "Bash", `{` + names.String() + `"command":"ls"}`, "is not in the catalogue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := c.Call(tool(tc.harness, tc.tool, tc.arguments))
			if len(got.Problems) == 0 || len(got.Problems) > 100 || !strings.Contains(got.Problems[0], tc.want) {
				t.Errorf("%d problems, the first one %q, want %q", len(got.Problems), append(got.Problems, "")[0], tc.want)
			}
			if len(got.Commands) > 1000 || len(got.Reads) > 4096 || len(got.Writes) > 4096 || len(got.URLs) > 1000 {
				t.Errorf("%d commands, %d reads, %d writes, %d addresses", len(got.Commands), len(got.Reads), len(got.Writes), len(got.URLs))
			}
		})
	}
}

func TestCallNamesMCPServers(t *testing.T) {
	c := shipped(t)
	for _, tc := range []struct {
		name, harness, tool, server string
		kind                        approval.Kind
		wantServer, wantTool        string
		wantProblem                 bool
	}{
		{"claude code", "claude-code", "mcp__tracker__create_issue", "", approval.KindTool, "tracker", "create_issue", false},
		{"claude code, a plugin's server", "claude-code", "mcp__plugin_p_srv__go", "", approval.KindTool, "plugin_p_srv", "go", false},
		{"a name that splits in two ways tells no server", "claude-code", "mcp__a__b__c", "", approval.KindTool, "", "mcp__a__b__c", false},
		{"three underscores split in two ways", "claude-code", "mcp__a___c", "", approval.KindTool, "", "mcp__a___c", false},
		{"qwen", "qwen-code", "mcp__lab__wipe", "", approval.KindTool, "lab", "wipe", false},
		{"gemini, one underscore", "gemini-cli", "mcp_lab_wipe", "", approval.KindTool, "lab", "wipe", false},
		{"gemini, many underscores tell no server", "gemini-cli", "mcp_lab_wipe_all", "", approval.KindTool, "", "mcp_lab_wipe_all", false},
		{"gemini, many underscores and the server from the request", "gemini-cli", "mcp_lab_wipe_all", "lab", approval.KindTool, "lab", "wipe_all", false},
		{"opencode", "opencode", "lab_wipe", "", approval.KindTool, "lab", "wipe", false},
		{"cursor names no server", "cursor", "MCP:create_issue", "", approval.KindTool, "", "create_issue", false},
		{"goose", "goose", "lab__wipe", "", approval.KindTool, "lab", "wipe", false},
		{"copilot with a dash", "copilot-cli", "lab-wipe", "", approval.KindTool, "lab", "wipe", false},
		{"copilot with a slash", "copilot-cli", "lab/wipe", "", approval.KindTool, "lab", "wipe", false},
		{"copilot with both tells no server", "copilot-cli", "a/b-c", "", approval.KindTool, "", "a/b-c", false},
		{"codex hooks", "codex", "mcp__lab__delete_all", "", approval.KindTool, "lab", "delete_all", false},
		{"codex by kind", "codex", "delete_all", "lab", approval.KindMCP, "lab", "delete_all", false},
		{"a server's tool with the name of a built-in one", "claude-code", "Read", "lab", approval.KindMCP, "lab", "Read", false},
		{"a server's tool with the name of a built-in one, kind tool", "claude-code", "Read", "lab", approval.KindTool, "lab", "Read", false},
		{"the server in the name must be the one in the request", "claude-code", "mcp__good__wipe", "evil", approval.KindMCP, "evil", "mcp__good__wipe", true},
		{"a server that another one's name begins with", "claude-code", "mcp__a__b__c", "a__b", approval.KindMCP, "a__b", "c", false},
		{"kind mcp without a server", "claude-code", "wipe", "", approval.KindMCP, "", "wipe", true},
		{"native", "", "mcp__lab__wipe", "", approval.KindTool, "lab", "wipe", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tool(tc.harness, tc.tool, `{"path":"/etc/passwd"}`)
			r.Kind, r.Tool.Server = tc.kind, tc.server
			yes := true
			r.Tool.Annotations = &approval.Annotations{ReadOnlyHint: &yes}
			got := c.Call(r)
			if !got.MCP || got.Listed || got.Key != "" {
				t.Errorf("mcp %v, listed %v, key %q", got.MCP, got.Listed, got.Key)
			}
			if got.Server != tc.wantServer || got.Tool != tc.wantTool || got.Name != tc.tool {
				t.Errorf("server %q tool %q name %q, want server %q tool %q", got.Server, got.Tool, got.Name, tc.wantServer, tc.wantTool)
			}
			if (len(got.Problems) > 0) != tc.wantProblem {
				t.Errorf("problems %q", got.Problems)
			}
			if diff := cmp.Diff(r.Tool.Annotations, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallOfAnMCPToolThroughAnotherTool(t *testing.T) {
	r := tool("cline", "use_mcp_tool", `{"server_name":"lab","tool_name":"wipe","arguments":{"path":"/w"}}`)
	yes := true
	r.Tool.Annotations = &approval.Annotations{ReadOnlyHint: &yes}
	got := shipped(t).Call(r)
	if !got.MCP || got.Server != "lab" || got.Tool != "wipe" || got.Name != "use_mcp_tool" || got.Listed {
		t.Errorf("Call = %+v", got)
	}
	if got.Annotations != nil {
		t.Error("hints about the outer tool speak for the inner one")
	}
}

func TestCallOfAnMCPToolWithoutItsServer(t *testing.T) {
	got := shipped(t).Call(tool("cline", "use_mcp_tool", `{"tool_name":"wipe","arguments":{}}`))
	if !got.MCP || got.Server != "" || len(got.Problems) == 0 {
		t.Errorf("Call = %+v", got)
	}
}

func TestCallByKind(t *testing.T) {
	c := shipped(t)
	for _, tc := range []struct {
		name    string
		request approval.Request
		want    touched
	}{
		{"a command", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}}, touched{Commands: bash("ls")}},
		{"a command without a shell", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Argv: []string{"ls"}}}, touched{
			Commands: []catalog.Command{{Argv: []string{"ls"}}},
		}},
		{"the command of a tool is judged once", approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Shell: "bash", Text: "ls"}, Harness: &approval.Harness{Name: "codex"},
			Tool: &approval.Tool{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"ls","workdir":"/w"}`)},
		}, touched{Key: "exec_command", Commands: []catalog.Command{{Shell: "bash", Text: "ls", Cwd: "/w"}}}},
		{"another command than the tool's is judged too", approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Shell: "bash", Text: "ls"}, Harness: &approval.Harness{Name: "codex"},
			Tool: &approval.Tool{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"rm x"}`)},
		}, touched{Key: "exec_command", Commands: []catalog.Command{{Shell: "bash", Text: "rm x"}, {Shell: "bash", Text: "ls"}}}},
		{"a command by a tool that nobody knows", approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Text: "ls"}, Tool: &approval.Tool{Name: "mystery"},
		}, touched{Commands: bash("ls"), Problems: []string{`tool "mystery" is not in the catalogue of native`}}},
		{"no command", approval.Request{Kind: approval.KindCommand}, touched{Problems: []string{"no command is given"}}},
		{"an empty command", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{}}, touched{
			Problems: []string{"argument command is empty"},
		}},
		{"changes of files", approval.Request{Kind: approval.KindFileChange, Changes: []approval.Change{
			{Path: "/w/a", Operation: "update", MovePath: "/w/b"}, {Path: "/w/c", Operation: "delete"},
		}}, touched{Writes: []string{"/w/a", "/w/b", "/w/c"}}},
		{"a change that nobody showed", approval.Request{Kind: approval.KindFileChange}, touched{
			Problems: []string{"the content of the change is not known"},
		}},
		{"a change that opens a folder", approval.Request{
			Kind: approval.KindFileChange, GrantRoot: "/w", Changes: []approval.Change{{Path: "/w/a", Operation: "add"}},
		}, touched{Writes: []string{"/w/a", "/w"}}},
		{"a host", approval.Request{Kind: approval.KindNetwork, Network: &approval.Network{Host: "Example.COM."}}, touched{Hosts: []string{"example.com"}}},
		{"a host that is none", approval.Request{Kind: approval.KindNetwork, Network: &approval.Network{Host: "a b"}}, touched{
			Hosts: []string{"a b"}, Problems: []string{`"a b" is not a host`},
		}},
		{"no host", approval.Request{Kind: approval.KindNetwork}, touched{Problems: []string{"no host is named"}}},
		{"permissions", approval.Request{Kind: approval.KindPermissions}, touched{}},
		{"no tool", approval.Request{Kind: approval.KindTool}, touched{Problems: []string{"no tool is named"}}},
		{"a kind of tomorrow", approval.Request{Kind: "teleport"}, touched{Problems: []string{`kind "teleport" is not known`}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, touch(c.Call(&tc.request)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Call (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallListsAreNeverNull(t *testing.T) {
	c := shipped(t)
	for _, r := range []*approval.Request{
		{Kind: approval.KindPermissions},
		tool("", "think", ""),
		tool("claude-code", "mcp__a__b", ""),
		tool("opencode", "batch", `{"tool_calls":[{"tool":"list","parameters":{}}]}`),
	} {
		text, err := json.Marshal(c.Call(r))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "null") {
			t.Errorf("a list is null: %s", text)
		}
	}
}

func FuzzCall(f *testing.F) {
	c := shipped(f)
	for _, harness := range c.Harnesses() {
		for name := range c.Value()[harness].(map[string]any) {
			f.Add(harness, name, `{"command":"ls","path":["a",{"path":"b"}],"url":"http://a"}`)
		}
	}
	f.Add("qwen-code", "tool_call", nest(3))
	f.Add("opencode", "batch", `{"tool_calls":[{"tool":"batch","parameters":{"tool_calls":[{"tool":"read"}]}}]}`)
	f.Fuzz(func(t *testing.T, harness, name, arguments string) {
		got := c.Call(tool(harness, name, arguments))
		if len(got.Inner) > 100 {
			t.Errorf("%d inner calls", len(got.Inner))
		}
		if got.Listed && got.Key == "" || !got.Listed && !got.MCP && len(got.Problems) == 0 {
			t.Errorf("an unknown tool without a problem: %+v", got)
		}
		if !json.Valid([]byte(arguments)) && strings.TrimSpace(arguments) != "" && got.Listed && len(got.Problems) == 0 {
			t.Errorf("broken arguments without a problem: %+v", got)
		}
	})
}
