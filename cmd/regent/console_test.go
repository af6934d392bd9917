package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/regent-policy/regent/server/api"
)

// typed is one command of a console session and what it printed.
type typed struct {
	command string
	output  string
}

// session reads a console session: lines that start with "$ " are commands, a
// backslash at the end continues one, and all else is output.
func session(text string) []typed {
	var all []typed
	open := false
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		switch command, ok := strings.CutPrefix(line, "$ "); {
		case ok:
			all = append(all, typed{command: command})
			open = strings.HasSuffix(command, `\`)
		case len(all) == 0:
		case open:
			last := &all[len(all)-1]
			last.command += "\n" + line
			open = strings.HasSuffix(line, `\`)
		default:
			all[len(all)-1].output += line + "\n"
		}
	}
	return all
}

// console is a folder with a project in it, and a shell.
type console struct {
	t    testing.TB
	root string
	env  []string
}

func newConsole(t testing.TB) *console {
	t.Helper()
	root := shortDir(t)
	home := filepath.Join(root, "home")
	if err := patientHome(filepath.Join(home, ".regent")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "app"), 0o755); err != nil {
		t.Fatal(err)
	}
	race, options := raceOptions()
	c := &console{t: t, root: root, env: append(os.Environ(), "HOME="+home, "REGENT_HOME=", "ID=", race+"="+options)}
	t.Cleanup(c.stopDaemon)
	return c
}

// serve runs the daemon of the console's home until the test ends.
func (c *console) serve() {
	c.t.Helper()
	c.typed("regent serve > serve.log 2>&1 &", false)
}

// stopDaemon ends a daemon that was started, and returns when it is gone.
func (c *console) stopDaemon() {
	if _, err := os.Lstat(filepath.Join(c.root, "home", ".regent", "runtime", "regent.sock")); err != nil {
		return
	}
	out, code := c.run("regent status --output json", false)
	if code != exitDone {
		return // it ended by itself, and not well
	}
	var status api.Status
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		c.t.Error(err)
		return
	}
	daemon, err := os.FindProcess(status.PID)
	if err == nil {
		err = daemon.Signal(os.Interrupt)
	}
	if err != nil {
		c.t.Error(err)
		return
	}
	// Its last act is to let go of the lock.
	c.run(`eventually gone sh -c 'test -e ../home/.regent/runtime/regent.sock || echo gone'`, false)
}

// ask has a request wait, and sets ID to its id.
func (c *console) ask(file string) {
	c.t.Helper()
	c.typed("regent ask --input "+file+" > ask.log 2>&1 &", false)
	c.run("ID=$(regent permission list --state pending | tail -n 1 | cut -d ' ' -f 1)", false)
}

// grant has the session s1 hold something, and sets GRANT_ID to its id.
func (c *console) grant() {
	c.t.Helper()
	script := `host open s1 t1 > host.log 2>&1 &
eventually '1 turn' regent status > status.log
host call s1 t1 c1 > call.log 2>&1 &
eventually permissions regent permission list --state pending --session s1 > list.log
regent permission decide $(grep permissions list.log | cut -d ' ' -f 1) --expected-revision 1 --decision '"allow"'
eventually write regent grants list > list.log`
	if out, code := c.run(script, true); code != exitDone {
		c.t.Fatalf("grant: %s", out)
	}
	id, _ := c.run("tail -n 1 list.log | cut -d ' ' -f 1", false)
	c.env = append(c.env, "GRANT_ID="+strings.TrimSpace(id))
}

func (c *console) write(name, text string) {
	c.t.Helper()
	at := filepath.Join(c.root, "app", name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// typed runs what somebody types, and waits until what was put into the
// background is there: a daemon that answers, a request that waits. Its output
// has to go to a file.
func (c *console) typed(command string, all bool) (output string, code int) {
	c.t.Helper()
	output, code = c.run(command, all)
	if strings.HasSuffix(strings.TrimSpace(command), "&") {
		for what, there := range map[string]string{
			"regent serve": "eventually ^regent regent status",
			"regent ask":   "eventually pending regent permission list --state pending",
		} {
			if !strings.Contains(command, what) {
				continue
			}
			if out, failed := c.run(there, true); failed != exitDone {
				c.t.Errorf("%s: %s", command, out)
			}
		}
	}
	return output, code
}

// run runs a command and returns what it printed, on stdout alone or all. The
// variable ID lasts from one command to the next.
func (c *console) run(command string, all bool) (output string, code int) {
	c.t.Helper()
	kept := filepath.Join(c.root, "id")
	cmd := exec.Command("bash", "-c", "test -f "+kept+" && . "+kept+"\n"+command+"\nended=$?; printf 'ID=%q\\n' \"$ID\" > "+kept+"; exit $ended")
	cmd.Dir, cmd.Env = filepath.Join(c.root, "app"), c.env
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if all {
		cmd.Stderr = &out
	}
	if err := cmd.Run(); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			c.t.Fatalf("%s: %v", command, err)
		}
		code = failed.ExitCode()
	}
	return strings.ReplaceAll(out.String(), c.root, "/home/sam"), code
}

// matches tells whether output is as it was written down. A line of three dots
// stands for any lines, and three dots in a line for anything there.
func matches(written, output string) bool {
	pattern := "^"
	for line := range strings.SplitSeq(strings.TrimRight(mask(written, ""), "\n"), "\n") {
		if strings.TrimSpace(line) == "..." {
			pattern += `(?:.*\n)*?`
		} else {
			pattern += strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`) + `\n`
		}
	}
	return regexp.MustCompile(pattern + "$").MatchString(strings.TrimRight(mask(output, ""), "\n") + "\n")
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		name, written, output string
		want                  bool
	}{
		{"the same", "a\nb\n", "a\nb\n", true},
		{"another line", "a\nb\n", "a\nc\n", false},
		{"a line more", "a\n", "a\nb\n", false},
		{"dots in the middle", "a\n...\nd\n", "a\nb\nc\nd\n", true},
		{"dots at the end", "a\n...\n", "a\nb\n", true},
		{"dots at the start", "...\nb\n", "a\nb\n", true},
		{"dots for nothing", "a\n...\nb\n", "a\nb\n", true},
		{"dots further in", "{\n  ...\n}\n", "{\n  1\n  2\n}\n", true},
		{"no output", "", "", true},
		{"dots do not hide what is after them", "a\n...\nd\n", "a\nb\nc\n", false},
		{"dots in a line", "id ... of you\n", "id 3f, the first of you\n", true},
		{"dots in a line do not hide the rest of it", "id ... of you\n", "id 3f of me\n", false},
		{"another epoch", "  epoch       0123456789ab\n", "  epoch       ba9876543210\n", true},
	} {
		if got := matches(tt.written, tt.output); got != tt.want {
			t.Errorf("%s: matches = %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestExamplesOfHelp runs the examples that each help text gives, in a project
// with the rules of init.
func TestExamplesOfHelp(t *testing.T) {
	for _, c := range commands(t) {
		if !ours(c) {
			continue
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			for line := range strings.Lines(c.Example) {
				text.WriteString(strings.TrimPrefix(line, "  "))
			}
			examples := session(text.String())
			if len(examples) == 0 {
				t.Fatal("no examples")
			}
			sh := newConsole(t)
			if !strings.Contains(c.Example, "$ regent init") {
				sh.run("regent init", false)
			}
			sh.write("push.json", `{"kind":"command","command":{"text":"git push -f origin main"}}`)
			sh.write("reset.json", `{"kind":"command","command":{"text":"git reset main"}}`)
			sh.write("calls.jsonl", "{\"kind\":\"command\",\"command\":{\"text\":\"ls\"}}\n{\"kind\":\"tool\",\"tool\":{\"name\":\"x\"}}\n")
			if strings.Contains(c.Example, "$TOKEN_ID") {
				sh.run(`regent token create --principal user:kim > kim.token`, false)
				id, _ := sh.run(`regent token list | tail -n 1 | cut -d ' ' -f 1`, false)
				sh.env = append(sh.env, "TOKEN_ID="+strings.TrimSpace(id))
			}
			if c.Annotations[daemonKey] != "" {
				sh.serve()
				sh.ask("reset.json")
			}
			if strings.Contains(c.Example, "regent grants list") || strings.Contains(c.Example, "$GRANT_ID") {
				sh.grant()
			}
			for _, e := range examples {
				got, code := sh.run(e.command, false)
				if code == exitFailed || code == exitUsage || code > exitMoved {
					t.Errorf("%s: exit code %d", e.command, code)
				}
				if e.output != "" && !matches(e.output, got) {
					t.Errorf("%s printed (-written +got):\n%s", e.command, cmp.Diff(e.output, got))
				}
			}
		})
	}
}

const page = "../../docs/cli.md"

// pages are those with consoles.
var pages = []string{
	page,
	"../../README.md",
	"../../docs/answering.md",
	"../../docs/api.md",
	"../../docs/daemon.md",
	"../../docs/effects.md",
	"../../docs/hooks.md",
	"../../docs/hosts.md",
	"../../docs/ledger.md",
	"../../docs/operate.md",
	"../../docs/profiles.md",
	"../../docs/reviewers.md",
}

// fence is a block of code: its language, the file that it is where it names
// one, and its text.
var fence = regexp.MustCompile("(?s)```([a-z]+)(?: ([^\n]+))?\n(.*?)```")

// TestPagesShowRealOutput runs each page from top to bottom, in one project: it
// writes the files that blocks name, and runs what was typed into consoles.
func TestPagesShowRealOutput(t *testing.T) {
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			showsRealOutput(t, page)
		})
	}
}

func showsRealOutput(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("curl"); err != nil && strings.Contains(string(text), "--unix-socket") {
		t.Skip("its sessions call curl, which is not installed")
	}
	sh := newConsole(t)
	ran := 0
	renewed := fence.ReplaceAllStringFunc(string(text), func(block string) string {
		parts := fence.FindStringSubmatch(block)
		language, file, body := parts[1], parts[2], parts[3]
		if file != "" {
			sh.write(file, body)
		}
		if language != "console" {
			return block
		}
		var b strings.Builder
		for _, e := range session(body) {
			ran++
			got, _ := sh.typed(e.command, true)
			if !matches(e.output, got) {
				if !*update {
					t.Errorf("%s printed (-written +got); -update writes it:\n%s", e.command, cmp.Diff(e.output, got))
				}
				e.output = got
			}
			fmt.Fprintf(&b, "$ %s\n%s", e.command, e.output)
		}
		return "```console\n" + b.String() + "```"
	})
	if ran == 0 {
		t.Fatal("the page has no console sessions")
	}
	if *update && renewed != string(text) {
		if err := os.WriteFile(page, []byte(renewed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPageMentionsEveryCommandAndFlag holds the page against the command tree.
func TestPageMentionsEveryCommandAndFlag(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	section := func(heading string) string {
		at := regexp.MustCompile("(?m)^(#+) " + regexp.QuoteMeta(heading) + "$").FindStringSubmatchIndex(text)
		if at == nil {
			return ""
		}
		rest := text[at[1]:]
		// A section of one command ends where the next of its rank or above starts.
		if end := regexp.MustCompile(fmt.Sprintf("(?m)^#{1,%d} ", at[3]-at[2])).FindStringIndex(rest); end != nil {
			rest = rest[:end[0]]
		}
		return rest
	}
	mentions := func(section, flag string) bool {
		return regexp.MustCompile(`--` + regexp.QuoteMeta(flag) + `\b`).MatchString(section)
	}
	everywhere := section("Flags of every command")
	for _, c := range commands(t) {
		path := c.CommandPath()
		own := section("`" + path + "`")
		switch {
		case path == "regent":
			own = everywhere + section("`regent version`")
		case strings.HasPrefix(path, "regent completion"):
			own = section("`regent completion`")
			if !strings.Contains(own, path) {
				t.Errorf("the page does not mention %s", path)
			}
		case own == "":
			t.Errorf("the page has no section for %s", path)
			continue
		case strings.HasPrefix(path, "regent profile "):
			own += section("`regent profile`")
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !mentions(own, f.Name) && !mentions(everywhere, f.Name) {
				t.Errorf("the section on %s does not mention --%s", path, f.Name)
			}
		})
	}
}
