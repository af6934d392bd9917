package rego_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/shell"
)

// project is a folder with files, a link and two repositories, one of which starts a
// program.
func project(t *testing.T) string {
	t.Helper()
	const config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	dir := write(t, map[string]string{
		"a.txt": "x\n", "auth.go": "package x\n", "build.sh": "make\n", "sub/b.txt": "", "other/b.txt": "",
		"sub/.git/HEAD": "ref: refs/heads/main\n", "sub/.git/config": config, "sub/.git/objects/x": "", "sub/.git/refs/x": "",
		"hostile/.git/HEAD": "ref: refs/heads/main\n", "hostile/.git/config": config + "\tfsmonitor = ./x\n", "hostile/.git/objects/x": "", "hostile/.git/refs/x": "",
	})
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inProject decodes a request that runs in a folder, {D} in its text.
func inProject(t testing.TB, dir, text string) *approval.Request {
	t.Helper()
	text = strings.ReplaceAll(text, "{D}", dir)
	if !strings.Contains(text, `"environment":`) {
		text += `, "environment": {"id": "local", "cwd": "` + dir + `", "home": "/home/dev"}`
	}
	r, err := approval.Decode([]byte("{" + text + "}"))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

func shellText(text string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text)
	return `"kind": "command", "command": {"text": "` + quoted + `"}`
}

func toolCall(name, arguments string) string {
	return `"kind": "tool", "tool": {"name": "` + name + `", "arguments": ` + arguments + `}`
}

func patchOf(lines ...string) string {
	return toolCall("apply_patch", `{"patch": "`+strings.Join(lines, `\n`)+`"}`)
}

func TestEqualActionsHaveOneSessionKey(t *testing.T) {
	t.Parallel()
	p, dir := load(t, rego.Source{Settings: rego.DefaultSettings()}), project(t)
	hex := regexp.MustCompile(`^[0-9a-f]{64}$`)
	for _, spellings := range [][]string{
		{shellText("go test ./..."), shellText(" go\ttest   './...' "), shellText(`go te"st" ./... # once more`), shellText("go test \\\n ./...\n"), shellText("go test ./...") + `, "reason": "again"`},
		{shellText("cd sub && rm -f x > out 2>&1"), shellText("cd sub&&rm -f 'x'>out 2>&1")},
		{shellText("touch a; touch b"), shellText("touch a\ntouch b")},
		{shellText("npm run build | tail -5"), `"kind": "command", "command": {"shell": "bash", "text": "npm run build|tail -5"}`},
		{`"kind": "command", "command": {"argv": ["touch", "a b"]}`, `"kind":"command","command":{"argv":["touch","a b"]}`},
		{toolCall("run_command", `{"command": "touch a", "description": "first"}`), toolCall("run_command", `{"description": "second", "timeout": 5, "command": "touch  a"}`)},
		{shellText("git -C sub status --short"), shellText("git -C 'sub' status --short")},
		{shellText("touch a"), shellText("touch a") + `, "session": {"id": "s", "turn_id": "t2", "call_id": "c9"}`, shellText("touch a") + `, "options": ["accept"]`},
		// What a patch writes is left out; which files, and what becomes of them, is not.
		{patchOf("--- a.txt", "+++ a.txt", "@@ -1 +1 @@", "-x", "+y"), patchOf("--- a.txt", "+++ a.txt", "@@ -1 +1 @@", "-x", "+z"), patchOf("*** Begin Patch", "*** Update File: ./a.txt", "@@", "-y", "+z", "*** End Patch")},
		{`"kind": "file_change", "changes": [{"path": "a.txt", "operation": "update", "diff": "1"}]`, `"kind": "file_change", "changes": [{"path": "{D}/sub/../a.txt", "operation": "update", "diff": "2"}]`},
		{`"kind": "file_change", "changes": [{"path": "link/b.txt", "operation": "update"}]`, `"kind": "file_change", "changes": [{"path": "sub/b.txt", "operation": "update"}]`},
		{`"kind": "network", "network": {"host": "Example.com.", "port": 443, "protocol": "https"}`, `"kind": "network", "network": {"host": "example.com", "port": 443, "protocol": "https"}`},
		{toolCall("write_file", `{"path": "a.txt", "content": "x"}`), toolCall("write_file", `{ "content":"x", "path":"a.txt" }`)},
		{`"kind": "mcp", "tool": {"server": "notes", "name": "add", "arguments": {"a": 1, "b": {"c": [2], "d": 3}}}`, `"kind": "mcp", "tool": {"server": "notes", "name": "add", "arguments": {"b": {"d": 3, "c": [2]}, "a": 1}}`},
		{shellText("touch a"), shellText("touch a") + `, "environment": {"id": "local", "cwd": "{D}/sub/..", "home": "/home/dev"}`},
	} {
		want, ok := p.SessionKey(inProject(t, dir, spellings[0]))
		if !ok || !hex.MatchString(want) {
			t.Errorf("%s has the key %q", spellings[0], want)
			continue
		}
		for _, s := range spellings[1:] {
			if got, ok := p.SessionKey(inProject(t, dir, s)); !ok || got != want {
				t.Errorf("%s\nhas another key than\n%s", s, spellings[0])
			}
		}
	}
}

func TestDifferentActionsHaveDifferentSessionKeys(t *testing.T) {
	t.Parallel()
	p, dir := load(t, rego.Source{Settings: rego.DefaultSettings()}), project(t)
	seen := map[string]string{}
	for _, text := range []string{
		shellText("touch a"), shellText("touch b"), shellText("touch a b"), shellText("touch 'a b'"), shellText("touch -c a"), shellText("rm a"), shellText("/bin/rm a"), shellText("cd sub; touch a"), shellText("cd sub && touch a"),
		shellText("cd other && touch a"), shellText("cd sub || touch a"), shellText("touch a && touch b"), shellText("touch a || touch b"), shellText("touch a; touch b"), shellText("touch a & touch b"), shellText("touch b; touch a"),
		shellText("touch a >out"), shellText("touch a >>out"), shellText("touch a 2>out"), shellText("touch a <in"), shellText("touch a | tee b"), shellText("! touch a"), shellText("(touch a)"), shellText("touch ~"), shellText("touch '~'"),
		shellText("touch a") + `, "environment": {"id": "remote", "cwd": "{D}", "home": "/home/dev"}`,
		shellText("touch a") + `, "environment": {"id": "local", "cwd": "{D}/sub", "home": "/home/dev"}`,
		shellText("touch a") + `, "environment": {"id": "local", "cwd": "{D}", "home": "/home/sam"}`,
		shellText("touch a") + `, "harness": {"name": "codex"}`,
		`"kind": "command", "command": {"shell": "sh", "text": "touch a"}`, `"kind": "command", "command": {"argv": ["touch", "a"]}`, `"kind": "command", "command": {"argv": ["touch", "a", "b"]}`, `"kind": "command", "command": {"argv": ["touch", "a b"]}`, `"kind": "command", "command": {"argv": ["touch", "a  b"]}`,
		toolCall("run_command", `{"command": "touch a"}`), toolCall("run_command", `{"command": "touch a", "cwd": "sub"}`), toolCall("run_command", `{"command": "touch a", "shell": "sh"}`), toolCall("bash", `{"command": "touch a"}`),
		toolCall("run_commands", `{"commands": ["touch a", "touch b"]}`), toolCall("run_commands", `{"commands": ["touch b", "touch a"]}`), toolCall("run_commands", `{"commands": "touch a; touch b"}`),
		patchOf("--- a.txt", "+++ a.txt", "@@ -1 +1 @@", "-x", "+y"), patchOf("--- auth.go", "+++ auth.go", "@@ -1 +1 @@", "-x", "+z"), patchOf("--- a.txt", "+++ auth.go", "@@ -1 +1 @@", "-x", "+y"),
		patchOf("--- a.txt", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"), patchOf("--- /dev/null", "+++ a.txt", "@@ -0,0 +1 @@", "+x"), patchOf("--- sub/a.txt", "+++ sub/a.txt", "@@ -1 +1 @@", "-x", "+y"),
		patchOf("*** Begin Patch", "*** Update File: a.txt", "*** Move to: auth.go", "@@", "-x", "+y", "*** End Patch"),
		patchOf("*** Begin Patch", "*** Update File: a.txt", "@@", "-x", "+y", "*** Delete File: auth.go", "*** End Patch"),
		patchOf("*** Begin Patch", "*** Update File: a.txt", "@@", "-x", "+y", "*** Update File: sub/b.txt", "@@", "-x", "+y", "*** End Patch"),
		`"kind": "file_change", "changes": [{"path": "a.txt", "operation": "update"}]`, `"kind": "file_change", "changes": [{"path": "a.txt", "operation": "delete"}]`, `"kind": "file_change", "changes": [{"path": "a.txt", "operation": "add"}]`,
		`"kind": "file_change", "changes": [{"path": "auth.go", "operation": "update"}]`, `"kind": "file_change", "changes": [{"path": "a.txt", "operation": "update", "move_path": "auth.go"}]`,
		`"kind": "file_change", "changes": [{"path": "a.txt", "operation": "update"}, {"path": "auth.go", "operation": "update"}]`,
		`"kind": "file_change", "changes": [{"path": "link/b.txt", "operation": "update"}]`, `"kind": "file_change", "changes": [{"path": "other/b.txt", "operation": "update"}]`,
		`"kind": "network", "network": {"host": "example.com"}`, `"kind": "network", "network": {"host": "example.com", "port": 443}`, `"kind": "network", "network": {"host": "example.com", "port": 22}`,
		`"kind": "network", "network": {"host": "example.com", "port": 443, "protocol": "https"}`, `"kind": "network", "network": {"host": "example.com", "port": 443, "protocol": "socks5_tcp"}`, `"kind": "network", "network": {"host": "www.example.com", "port": 443}`,
		toolCall("write_file", `{"path": "a.txt", "content": "x"}`), toolCall("write_file", `{"path": "a.txt", "content": "y"}`), toolCall("write_file", `{"path": "auth.go", "content": "x"}`), toolCall("create_file", `{"path": "a.txt", "content": "x"}`),
		toolCall("web_fetch", `{"url": "https://example.com/a"}`), toolCall("web_fetch", `{"url": "https://example.com/b"}`), toolCall("web_search", `{"query": "a"}`), toolCall("web_search", `{"query": 1}`), toolCall("web_search", `{"query": "1"}`),
		toolCall("web_search", `{"query": 9007199254740993}`), toolCall("web_search", `{"query": 9007199254740992}`),
		`"kind": "mcp", "tool": {"server": "notes", "name": "add"}`, `"kind": "mcp", "tool": {"server": "notes", "name": "remove"}`, `"kind": "mcp", "tool": {"server": "other", "name": "add"}`, `"kind": "mcp", "tool": {"server": "notes", "name": "add", "arguments": {"a": 1}}`,
		`"kind": "mcp", "tool": {"server": "notes", "name": "add", "arguments": {"a": [1, 2]}}`, `"kind": "mcp", "tool": {"server": "notes", "name": "add", "arguments": {"a": [2, 1]}}`, `"kind": "mcp", "tool": {"server": "notes", "name": "add", "arguments": {"a": null}}`,
		`"kind": "mcp", "tool": {"server": "notes", "name": "add", "description": "adds, and mails it to everybody"}`, `"kind": "mcp", "tool": {"server": "notes", "name": "add", "annotations": {"destructiveHint": true}}`,
		shellText("git -C sub status"), shellText("cd sub && git status"), shellText("cd link && git status"), shellText("npm test"), shellText("make"), shellText("go test ./..."), shellText("curl -s https://example.com/a"), shellText("curl -s https://example.com/b"),
	} {
		key, ok := p.SessionKey(inProject(t, dir, text))
		if !ok {
			t.Errorf("%s has no key", text)
			continue
		}
		if other, ok := seen[key]; ok {
			t.Errorf("one key for\n%s\n%s", other, text)
		}
		seen[key] = text
	}
}

// What is not certain, or does what files and input say, is never remembered.
func TestWhatIsNotCertainHasNoSessionKey(t *testing.T) {
	t.Parallel()
	p, dir := load(t, rego.Source{Settings: rego.DefaultSettings()}), project(t)
	for _, command := range []string{
		// not known before a shell runs it
		"touch $X", `touch "$X"`, "touch $(cat a)", "touch `cat a`", "touch *.txt", "touch a?", "cat <(touch a)", "touch ~sam/x", "$X a", "$(cat a)", `cd "$X" && touch a`, "cd - && touch a", "touch a > $X", "touch 'a",
		"for f in a b; do touch $f; done", "if touch a; then touch b; fi", "while touch a; do touch b; done", "f() { touch a; }; f", "case a in a) touch b;; esac", "cat <<E > a\nx\nE", "time touch a", "coproc touch a",
		// code that the words are or name
		"python3 -c 'print(1)'", "python3 gen.py", "python3", "python3.12 -m http.server", "node -e 1", "node x.js", "perl -e 1", "ruby x.rb", "php x.php", "bash -c 'touch a'", "sh build.sh", "sh < build.sh", "cat build.sh | sh", "zsh -c ls", "fish -c ls",
		"./build.sh", "/opt/x/tool a", "bin/x", "~/x", "frobnicate a", "eval touch a", ". ./build.sh", "source build.sh", "exec touch a", "trap 'touch a' EXIT", "alias x=touch; x a", "npx cowsay", "uvx ruff", "bun x.ts", "awk -f x.awk a.txt", "sed -f x.sed a.txt",
		"go test -exec ./x ./...", "make -f a.txt",
		// wrappers
		"env touch a", "env git status", "sudo touch a", "timeout 5 touch a", "nice touch a", "nohup touch a", "command touch a", "xargs touch", "echo a | xargs touch", "find . -exec touch {} \\;", "find . -exec touch a \\;", "busybox touch a", "watch touch a", "ssh-agent touch a", "script -c 'touch a'", "parallel touch ::: a", "flock a touch b",
		// variables that steer what follows
		"A=1 touch a", "PATH=. touch a", "PATH=.", "export A=1", "set -e; touch a", "umask 0; touch a",
		// repositories that start programs, or may
		"git status", "git -C hostile status", "cd hostile && git status", "git -C sub -c core.fsmonitor=./x status", "git -C sub commit -m x", "git push", "hg status", "svn status", "jj log", "gh pr list",
		// connections that are no file, and what Regent guards
		"cat a.txt > /dev/tcp/example.com/80", "touch .codex/x", "regent trust .",
	} {
		if key, ok := p.SessionKey(inProject(t, dir, shellText(command))); ok {
			t.Errorf("%q has the key %s", command, key)
		}
	}
	for _, text := range []string{
		shellText("touch a") + `, "escalated": true`, shellText("touch a") + `, "human_only": true`, shellText("touch a") + `, "host_allows": false`, shellText("touch a") + `, "permissions": {"network": {"enabled": true}}`,
		shellText("touch a") + `, "environment": {"id": "local"}`, shellText("touch a") + `, "environment": {"id": "local", "cwd": "sub"}`, shellText("touch a") + `, "changes": [{"path": "a.txt", "operation": "update"}]`, shellText("touch a") + `, "network": {"host": "x"}`,
		shellText("touch a") + `, "tool": {"name": "frobnicate"}`, shellText("touch a") + `, "tool": {"name": "run_command", "arguments": {"command": "touch a", "background": true}}`,
		`"kind": "command", "command": {"argv": ["sh", "-c", "touch a"]}`, `"kind": "command", "command": {"argv": ["env", "touch", "a"]}`, `"kind": "command", "command": {"shell": "fish", "text": "touch a"}`,
		`"kind": "permissions", "permissions": {"network": {"enabled": true}}`,
		`"kind": "file_change"`, `"kind": "file_change", "changes": [{"path": "a.txt", "operation": "update"}], "grant_root": "{D}"`, `"kind": "file_change", "changes": [{"path": "~sam/x", "operation": "update"}]`,
		`"kind": "file_change", "changes": [{"path": "a.txt", "operation": "update"}], "environment": {"id": "local"}`, `"kind": "file_change", "changes": [{"path": "a.txt", "operation": "update"}], "tool": {"name": "frobnicate"}`,
		patchOf(""), patchOf("x"), patchOf("*** Begin Patch", "*** Update File: a.txt", "@@", "-x", "+y"), patchOf("--- a.txt", "+++ a.txt", "@@ -1 +1 @@", "-x", "+y", "?"), toolCall("apply_patch", `{}`), toolCall("apply_patch", `{"patch": 1}`),
		toolCall("frobnicate", `{"a": 1}`), toolCall("run_code", `{"code": "1"}`), toolCall("spawn_agent", `{"prompt": "x"}`), toolCall("write_file", `{"path": "a.txt", "then": 1}`), toolCall("write_file", `{}`), toolCall("write_stdin", `{"session_id": 1, "chars": "x"}`),
		toolCall("run_command", `{"command": "touch a", "env": {"A": "1"}}`), toolCall("run_command", `{"command": "touch a", "sandbox_permissions": "require_escalated"}`), toolCall("run_command", `{"command": ["sh", "-c", "ls"]}`),
		toolCall("run_commands", `{"commands": ["touch a", "sh build.sh"]}`), `"kind": "network", "network": {"host": "a b"}`, `"kind": "network", "network": {"host": "example.com"}, "tool": {"name": "web_search"}`,
	} {
		if key, ok := p.SessionKey(inProject(t, dir, text)); ok {
			t.Errorf("%s\nhas the key %s", text, key)
		}
	}
}

// A key holds as long as what it was made from means the same.
func TestASessionKeyFollowsTheWorld(t *testing.T) {
	t.Parallel()
	p, dir := load(t, rego.Source{Settings: rego.DefaultSettings()}), project(t)
	key := func(text string) string {
		t.Helper()
		k, ok := p.SessionKey(inProject(t, dir, text))
		if !ok {
			k = "none"
		}
		return k
	}
	moved, written, asked := shellText("cd link && touch a"), shellText("touch link/a > link/out"), shellText("git -C sub status")
	before := []string{key(moved), key(written), key(asked)}
	if again := []string{key(moved), key(written), key(asked)}; strings.Join(again, " ") != strings.Join(before, " ") || strings.Contains(strings.Join(before, " "), "none") {
		t.Fatalf("keys %v, then %v, want the same", before, again)
	}
	link := filepath.Join(dir, "link")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", link); err != nil {
		t.Fatal(err)
	}
	if key(moved) == before[0] || key(written) == before[1] {
		t.Error("a link leads elsewhere, and the key is the same")
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/.git/config"), []byte("[core]\n\tbare = false\n\tfsmonitor = ./x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := key(asked); got != "none" {
		t.Errorf("the repository starts a program now, and the key is %s", got)
	}
}

// Whatever two texts are, one key means that the same commands run.
func TestOneSessionKeyIsOneSetOfCommands(t *testing.T) {
	t.Parallel()
	p, dir := load(t, rego.Source{Settings: rego.DefaultSettings()}), project(t)
	pieces := rapid.SampledFrom([]string{"touch", "rm", "cd", "sub", "a", "'a'", "b", "-f", "~", "'~'", " ", " ", " ", " ", "\n", "; ", " && ", " | ", " || ", " & ", "!", "(", ")", ">", ">>", "2>", "\"", "\\", "env ", "sh "})
	type meaning struct{ text, commands string }
	byKey := map[string]meaning{}
	keys := 0
	rapid.Check(t, func(t *rapid.T) {
		text := "touch " + strings.Join(rapid.SliceOfN(pieces, 0, 10).Draw(t, "text"), "")
		r := command(text)
		r.Environment = &approval.Environment{ID: "local", Cwd: dir, Home: "/home/dev"}
		key, ok := p.SessionKey(r)
		if !ok {
			return
		}
		keys++
		var said strings.Builder
		for _, c := range shell.Parse(shell.Bash, text).Commands {
			said.WriteString(c.Dir + ":" + strings.Join(c.Via, ",") + ":" + c.Stdin)
			for _, w := range c.Words {
				said.WriteString("\x00" + w.Value)
				if w.Tilde {
					said.WriteString("\x01")
				}
			}
			for _, d := range c.Redirects {
				said.WriteString("\x02" + d.FD + d.Op + d.Target.Value)
			}
			said.WriteString("\n")
		}
		if first, ok := byKey[key]; !ok {
			byKey[key] = meaning{text, said.String()}
		} else if first.commands != said.String() {
			t.Fatalf("one key for %q and %q", first.text, text)
		}
	})
	if keys == 0 {
		t.Error("no text had a key")
	}
}
