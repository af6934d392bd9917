package policies_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

// granted is a folder to work in, and what a turn holds there: to write src, to
// read docs, and one host, without secrets.
func granted(t *testing.T) (env approval.Environment, held permission.Profile) {
	t.Helper()
	dir := folder(t, map[string]string{
		"src/main.go":           "package main\n",
		"src/sub/a.go":          "package sub\n",
		"src/secret/key":        "",
		"docs/a.md":             "",
		"other/x":               "",
		".claude/settings.json": "{}",
		"src/.codex/config":     "",
	})
	for link, target := range map[string]string{"src/out": "other", "src/in": "src/sub", "src/x": "other/x"} {
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	env = approval.Environment{ID: "local", Cwd: dir, Home: "/home/dev"}
	held = permission.Profile{
		Network: permission.Network{Hosts: []string{"api.example.com"}},
		FileSystem: permission.FileSystem{Entries: []permission.Entry{
			permission.Literal("src", permission.Write),
			permission.Literal("docs", permission.Read),
			permission.Literal("src/secret", permission.Deny),
			permission.DenyGlob("**/*.pem"),
		}},
	}
	return env, normalised(t, held, env)
}

func normalised(t *testing.T, p permission.Profile, env approval.Environment) permission.Profile {
	t.Helper()
	p, _, err := permission.Normalise(p, permission.SideGranted, rego.Environment(env), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tool is the JSON of a call of a tool.
func tool(name, arguments string) string {
	return `"kind": "tool", "tool": {"name": "` + name + `", "arguments": ` + arguments + `}`
}

func TestWhatIsGrantedIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	env, held := granted(t)
	p := load(t, rego.Source{Settings: settings()})
	everywhere := permission.Profile{
		Network:    permission.Network{All: true},
		FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("/", permission.Write)}},
	}
	none := permission.Profile{}
	plain := normalised(t, permission.Profile{Network: held.Network, FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("src", permission.Write)}}}, env)
	const ask, allow = approval.RouteAsk, approval.RouteAllow
	for name, tt := range map[string]struct {
		request string
		held    permission.Profile
		want    approval.Route
	}{
		"a file below what may be written":   {tool("write_file", `{"path": "src/main.go"}`), held, allow},
		"a new file there":                   {tool("write_file", `{"path": "src/new/b.go"}`), held, allow},
		"a folder there":                     {tool("create_directory", `{"path": "src/new"}`), held, allow},
		"both ends of a move":                {tool("move_file", `{"source": "src/main.go", "destination": "src/b.go"}`), held, allow},
		"a patch of files there":             {tool("apply_patch", `{"patch": "*** Begin Patch\n*** Add File: src/n.go\n+x\n*** End Patch"}`), held, allow},
		"a change of files there":            {`"kind": "file_change", "changes": [{"path": "src/main.go", "operation": "update"}]`, held, allow},
		"a change by a tool that is listed":  {`"kind": "file_change", "tool": {"name": "edit_file", "arguments": {"path": "src/main.go"}}, "changes": [{"path": "src/main.go", "operation": "update"}]`, held, allow},
		"a link inside":                      {tool("write_file", `{"path": "src/in/a.go"}`), held, allow},
		"to copy what may be read":           {tool("copy_file", `{"source": "docs/a.md", "destination": "src/a.md"}`), held, allow},
		"a host that is granted":             {tool("web_fetch", `{"url": "https://API.example.com/x"}`), held, allow},
		"several of them":                    {tool("web_fetch", `{"urls": ["https://api.example.com/x", "https://api.example.com:8443/y"]}`), held, allow},
		"a page that is saved where it may":  {tool("web_fetch", `{"url": "https://api.example.com/x", "save_as": "src/page"}`), plain, allow},
		"any host, where all are granted":    {tool("web_search", `{"query": "x"}`), everywhere, allow},
		"any file, where all are granted":    {tool("save_memory", `{"text": "x"}`), everywhere, allow},
		"a harness that is called native":    {tool("write_file", `{"path": "src/main.go"}`) + `, "harness": {"name": "native"}`, held, allow},
		"permissions that are held already":  {tool("write_file", `{"path": "src/main.go"}`) + `, "permissions": {"network": {"hosts": ["api.example.com"]}, "file_system": {"write": ["src/sub"], "deny": ["src/sub/x"]}}`, plain, allow},
		"a host allows what Regent may deny": {tool("write_file", `{"path": "src/main.go"}`) + `, "host_allows": true`, held, allow},

		"to read, with permissions that are held":      {tool("read_file", `{"path": "other/x"}`) + `, "permissions": {"network": {"hosts": ["api.example.com"]}}`, held, allow},
		"to read, with permissions that are not held":  {tool("read_file", `{"path": "docs/a.md"}`) + `, "permissions": {"network": {"enabled": true}}`, held, ask},
		"to read outside the sandbox":                  {tool("read_file", `{"path": "docs/a.md"}`) + `, "escalated": true`, held, ask},
		"nothing is held":                              {tool("write_file", `{"path": "src/main.go"}`), none, ask},
		"only denies are held":                         {tool("write_file", `{"path": "src/main.go"}`), normalised(t, permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{permission.Literal("x", permission.Deny)}}}, env), ask},
		"a file beside it":                             {tool("write_file", `{"path": "other/x"}`), held, ask},
		"a folder with a longer name":                  {tool("write_file", `{"path": "src-old/x"}`), held, ask},
		"a file that may only be read":                 {tool("write_file", `{"path": "docs/a.md"}`), held, ask},
		"a file that is denied":                        {tool("write_file", `{"path": "src/secret/key"}`), held, ask},
		"a file that a pattern denies":                 {tool("write_file", `{"path": "src/a.pem"}`), held, ask},
		"dots that lead out":                           {tool("write_file", `{"path": "src/../other/x"}`), held, ask},
		"a link that leads out":                        {tool("write_file", `{"path": "src/out/x"}`), held, ask},
		"a link to a file outside":                     {tool("write_file", `{"path": "src/x"}`), held, ask},
		"a new file behind a link that leads out":      {tool("write_file", `{"path": "src/out/new"}`), held, ask},
		"one of two ends of a move":                    {tool("move_file", `{"source": "src/main.go", "destination": "other/b.go"}`), held, ask},
		"a source that may only be read":               {tool("move_file", `{"source": "docs/a.md", "destination": "src/a.md"}`), held, ask},
		"to copy what may not be read":                 {tool("copy_file", `{"source": "other/x", "destination": "src/x2"}`), held, ask},
		"a folder in which something is denied":        {tool("delete_file", `{"path": "src"}`), held, ask},
		"a folder in which a pattern may deny":         {tool("delete_file", `{"path": "src/sub"}`), held, ask},
		"a folder that is copied over a pattern":       {tool("copy_file", `{"source": "src/sub", "destination": "src/new"}`), held, ask},
		"a pattern":                                    {tool("delete_file", `{"path": "src/*.go"}`), held, ask},
		"one of several files":                         {tool("delete_file", `{"paths": ["src/main.go", "other/x"]}`), held, ask},
		"one of several changes":                       {`"kind": "file_change", "changes": [{"path": "src/main.go", "operation": "update"}, {"path": "other/x", "operation": "add"}]`, held, ask},
		"a new name outside":                           {`"kind": "file_change", "changes": [{"path": "src/main.go", "operation": "update", "move_path": "other/y"}]`, held, ask},
		"a change without its content":                 {`"kind": "file_change"`, held, ask},
		"a change that opens a folder":                 {`"kind": "file_change", "changes": [{"path": "src/main.go", "operation": "update"}], "grant_root": "src"`, held, ask},
		"a change by a tool that nobody knows":         {`"kind": "file_change", "tool": {"name": "frobnicate"}, "changes": [{"path": "src/main.go", "operation": "update"}]`, held, ask},
		"a home that is not known":                     {tool("write_file", `{"path": "~sam/x"}`), everywhere, ask},
		"no path, where a folder is granted":           {tool("save_memory", `{"text": "x"}`), held, ask},
		"another host":                                 {tool("web_fetch", `{"url": "https://example.com/x"}`), held, ask},
		"a host below one that is granted":             {tool("web_fetch", `{"url": "https://a.api.example.com/x"}`), held, ask},
		"one of several hosts":                         {tool("web_fetch", `{"urls": ["https://api.example.com/x", "https://example.com/y"]}`), held, ask},
		"an address with a user":                       {tool("web_fetch", `{"url": "https://api.example.com@example.com/x"}`), held, ask},
		"no host, where one is granted":                {tool("web_search", `{"query": "x"}`), held, ask},
		"permissions for no host say nothing of it":    {tool("web_search", `{"query": "x"}`) + `, "permissions": {"network": {"hosts": ["api.example.com"]}}`, held, ask},
		"a page that is saved elsewhere":               {tool("web_fetch", `{"url": "https://api.example.com/x", "save_as": "other/x"}`), held, ask},
		"a download onto a folder with a deny":         {tool("download_file", `{"url": "https://api.example.com/x", "path": "src/new"}`), held, ask},
		"permissions that are not held":                {tool("write_file", `{"path": "src/main.go"}`) + `, "permissions": {"network": {"enabled": true}}`, held, ask},
		"permissions without the deny that is held":    {tool("write_file", `{"path": "src/main.go"}`) + `, "permissions": {"file_system": {"write": ["src"]}}`, held, ask},
		"permissions on what a pattern denies":         {tool("write_file", `{"path": "src/main.go"}`) + `, "permissions": {"file_system": {"write": ["src/sub"]}}`, held, ask},
		"to leave the sandbox":                         {tool("write_file", `{"path": "src/main.go"}`) + `, "escalated": true`, everywhere, ask},
		"a command":                                    {`"kind": "command", "command": {"text": "touch src/main.go"}`, everywhere, ask},
		"a command that reads":                         {`"kind": "command", "command": {"text": "ls src"}`, everywhere, ask},
		"a tool that runs a command":                   {tool("run_command", `{"command": "ls"}`), everywhere, ask},
		"a tool that starts a process":                 {tool("kill_process", `{"id": 1}`), everywhere, ask},
		"a tool of which nothing is known":             {tool("load_skill", `{"name": "x"}`), everywhere, ask},
		"a tool that is not listed":                    {tool("frobnicate", `{"path": "src/main.go"}`), everywhere, ask},
		"an argument that is not listed":               {tool("write_file", `{"path": "src/main.go", "then": "x"}`), everywhere, ask},
		"two arguments of which one may be given":      {tool("write_file", `{"path": "src/main.go", "file": "src/sub/a.go"}`), everywhere, ask},
		"a tool of an MCP server":                      {`"kind": "mcp", "tool": {"name": "read_file", "server": "files", "arguments": {"path": "src/main.go"}}`, everywhere, ask},
		"a listed tool that a server offers":           {`"kind": "tool", "tool": {"name": "write_file", "server": "files", "arguments": {"path": "src/main.go"}}`, everywhere, ask},
		"a tool that lists what servers have":          {tool("list_mcp_resources", `{}`), everywhere, ask},
		"a call with a command beside it":              {tool("write_file", `{"path": "src/main.go"}`) + `, "command": {"text": "ls"}`, everywhere, ask},
		"a call with changes beside it":                {tool("write_file", `{"path": "src/main.go"}`) + `, "changes": [{"path": "/etc/x", "operation": "add"}]`, everywhere, ask},
		"a call with a host beside it":                 {tool("write_file", `{"path": "src/main.go"}`) + `, "network": {"host": "example.com"}`, everywhere, ask},
		"more permissions":                             {`"kind": "permissions", "permissions": {"file_system": {"write": ["src"]}}`, everywhere, ask},
		"a host by itself":                             {`"kind": "network", "network": {"host": "api.example.com"}`, held, ask},
		"another harness":                              {`"kind": "tool", "tool": {"name": "Write", "arguments": {"file_path": "{H}/src/main.go"}}, "harness": {"name": "claude-code"}`, everywhere, ask},
		"only a person may answer":                     {tool("write_file", `{"path": "src/main.go"}`) + `, "human_only": true`, everywhere, ask},
		"a file that Regent's decisions depend on":     {tool("write_file", `{"path": "src/.codex/config"}`), everywhere, ask},
		"permissions that cannot be understood":        {tool("write_file", `{"path": "src/main.go"}`) + `, "permissions": {"file_system": {"write": ["C:\\x"]}}`, everywhere, ask},
		"another environment than that of the request": {tool("request_permissions", `{"environment_id": "remote"}`), everywhere, ask},

		"the host's own list refuses it": {tool("write_file", `{"path": "src/main.go"}`) + `, "host_allows": false`, everywhere, approval.RouteDeny},
		"nobody needs to answer":         {tool("read_file", `{"path": "src/main.go"}`), everywhere, approval.RouteSkip},
	} {
		text := `{` + strings.ReplaceAll(tt.request, "{H}", env.Cwd) + `}`
		r := request(t, text)
		r.Environment = &env
		got := p.RuleHeld(t.Context(), r, tt.held)
		if got.Failure != nil {
			t.Fatalf("%s: policy could not rule: %+v", name, *got.Failure)
		}
		if got.Route != tt.want || got.Granted != (tt.want == allow) {
			t.Errorf("%s: route %s, granted %t, want %s; effects %v, %q", name, got.Route, got.Granted, tt.want, got.Effects, got.Reasons)
		}
		if without := rule(t, p, r); without.Granted || without.Route == allow {
			t.Errorf("%s: without what is held the route is %s", name, without.Route)
		}
	}
}

// Whatever rules say comes before what was granted.
func TestRulesComeBeforeWhatIsGranted(t *testing.T) {
	t.Parallel()
	env, held := granted(t)
	write := request(t, `{`+tool("write_file", `{"path": "src/main.go"}`)+`}`)
	write.Environment = &env
	for name, tt := range map[string]struct {
		rule string
		mode string
		want approval.Ruling
	}{
		"a deny":                         {`deny contains "x" if input.request.tool`, "manual", approval.Ruling{Route: approval.RouteDeny}},
		"an ask":                         {`ask contains "x" if input.request.tool`, "auto_allow", approval.Ruling{Route: approval.RouteAsk}},
		"a review":                       {`review contains "x" if input.request.tool`, "auto_allow", approval.Ruling{Route: approval.RouteReview}},
		"an allow":                       {`allow contains "x" if input.request.tool`, "manual", approval.Ruling{Route: approval.RouteAllow}},
		"a rule about something else":    {`deny contains "x" if input.request.command`, "manual", approval.Ruling{Route: approval.RouteAllow, Granted: true}},
		"a rule that only warns":         {"# METADATA\n# custom: {mode: warn}\ndeny contains \"x\" if input.request.tool", "manual", approval.Ruling{Route: approval.RouteAllow, Granted: true}},
		"a rule on what is granted":      {`deny contains "x" if input.facts.granted.write`, "manual", approval.Ruling{Route: approval.RouteDeny}},
		"the mode, which comes after it": {`deny contains "x" if input.request.command`, "model_review", approval.Ruling{Route: approval.RouteAllow, Granted: true}},
	} {
		src := workspace(t, "package rules.x\n\n"+tt.rule+"\n")
		src.Settings.Mode = tt.mode
		src.Settings.Reviewers = map[string]bool{"default/reviewer": true}
		got := load(t, src).RuleHeld(t.Context(), write, held)
		if got.Failure != nil || got.Route != tt.want.Route || got.Granted != tt.want.Granted {
			t.Errorf("%s: route %s, granted %t, failure %v, want %s, %t", name, got.Route, got.Granted, got.Failure, tt.want.Route, tt.want.Granted)
		}
	}

	failing := load(t, workspace(t, "package rules.x\n\ndeny contains \"x\" if to_number(input.request.tool.name) == 1\n"))
	if got := failing.RuleHeld(t.Context(), write, held); got.Route != approval.RouteAsk || got.Granted || got.Failure == nil {
		t.Errorf("a rule that fails: route %s, granted %t, failure %v, want ask", got.Route, got.Granted, got.Failure)
	}
}
