package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness/codex/codextest"
	"github.com/regent-policy/regent/harness/codex/scripted"
	"github.com/regent-policy/regent/server/client"
)

// lab is a home of Regent and one of a real Codex with a scripted model.
type lab struct {
	*site
	model             *scripted.Server
	binary, home, cwd string
}

const codexRules = `package home.rules.codex

import data.regent.lib.command

deny contains "what is precious stays as it is" if {
	some c in command.invocations("touch")
	some a in c.args
	endswith(a, "precious")
}

allow contains "made by rule" if {
	some c in command.invocations("touch")
	some a in c.args
	endswith(a, "ruled")
}
`

func newLab(t *testing.T, version string, c codextest.Config) *lab {
	t.Helper()
	binary := codextest.Binary(t, version)
	l := &lab{site: newSite(t), binary: binary}
	l.write("policies/codex.rego", codexRules)
	var err error
	if l.model, err = scripted.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.model.Close)
	c.URL = l.model.URL()
	l.home, l.cwd = codextest.Home(t, c)
	return l
}

// words takes what a process says, and tells when something has been said.
type words struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// says waits for what matches, and returns its first group.
func (w *words) says(t testing.TB, pattern string, ended <-chan struct{}) string {
	t.Helper()
	late := time.NewTimer(2 * patience)
	defer late.Stop()
	for {
		w.mu.Lock()
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		text, changed := w.text.String(), w.changed
		w.mu.Unlock()
		if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-changed:
		case <-ended:
			t.Fatalf("it ended and did not say %s:\n%s", pattern, text)
		case <-late.C:
			t.Fatalf("it does not say %s:\n%s", pattern, text)
		}
	}
}

// running is a process of the lab.
type running struct {
	t           testing.TB
	cmd         *exec.Cmd
	out, errors words
	ended       chan struct{}
}

// regent starts a command of Regent in the folder that Codex works in.
func (l *lab) regent(args ...string) *running {
	l.t.Helper()
	p := &running{t: l.t, ended: make(chan struct{})}
	p.cmd = exec.Command("regent", append([]string{"--home", l.site.home}, args...)...)
	p.cmd.Dir, p.cmd.Env = l.cwd, append(codextest.Env(l.home), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errors
	// What it leaves behind must not keep the test from its end.
	p.cmd.WaitDelay = patience
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	l.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(patience):
			l.t.Errorf("it does not end: %s", p.errors.String())
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
		if strings.Contains(p.errors.String(), "DATA RACE") {
			l.t.Errorf("it said:\n%s", p.errors.String())
		}
	})
	return p
}

func (p *running) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * patience):
		p.t.Fatalf("it does not end: %s", p.errors.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (l *lab) out(name string) string { return filepath.Join(codextest.Outside(l.cwd), name) }

func (l *lab) made(name string) bool {
	_, err := os.Stat(l.out(name))
	return err == nil
}

// waits is the id of the record of a call that waits for a person.
func (l *lab) waits(c *client.Client, call string) string {
	l.t.Helper()
	stream := l.events(c, 0)
	for {
		page, err := c.List(l.t.Context(), approval.Query{States: []approval.State{approval.Pending}})
		if err != nil {
			l.t.Fatal(err)
		}
		for i := range page.Records {
			if s := page.Records[i].Request.Session; s != nil && s.CallID == call {
				return page.Records[i].ID
			}
		}
		if _, err := stream.Next(); err != nil {
			l.t.Fatal(err)
		}
	}
}

// accepts answers a request at another terminal.
func (l *lab) accepts(id string) {
	l.t.Helper()
	if out, code := l.site.run("permission", "decide", id, "--expected-revision", "1", "--decision", `"accept"`); code != exitDone {
		l.t.Fatalf("decide: %s", out)
	}
}

func TestRealCodexExec(t *testing.T) {
	for _, version := range codextest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, version, codextest.Config{})
			daemon := l.serve()
			defer daemon.stop()
			l.model.Script("make three",
				scripted.Say(scripted.Escalated("c1", "touch "+l.out("ruled"))),
				scripted.Say(scripted.Escalated("c2", "touch "+l.out("precious"))),
				scripted.Say(scripted.Escalated("c3", "touch "+l.out("asked"))),
				scripted.Say(scripted.Message("three made")),
			)
			p := l.regent("codex", "exec", "--codex", l.binary, "--output", "json", "make three")
			id := l.waits(l.person(), "c3")
			l.accepts(id)
			if code := p.code(); code != exitDone {
				t.Fatalf("exit code %d: %s", code, p.errors.String())
			}
			var report codexReport
			if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil {
				t.Fatalf("%s: %v", p.out.String(), err)
			}
			if report.Status != "completed" || report.Message != "three made" || report.Codex == "" {
				t.Errorf("the report is %+v", report.Outcome)
			}
			var got []string
			for _, r := range report.Requests {
				got = append(got, string(r.Outcome)+" "+string(r.Source)+" "+filepath.Base(r.What))
			}
			want := []string{"allow rule ruled", "deny rule precious", "allow human asked"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if !l.made("ruled") || l.made("precious") || !l.made("asked") {
				t.Errorf("made: ruled %v, precious %v, asked %v", l.made("ruled"), l.made("precious"), l.made("asked"))
			}
			if out, code := l.site.run("ledger", "verify"); code != exitDone {
				t.Errorf("the ledger: %s", out)
			}
		})
	}
}

// The agent that runs under Regent counts as one from its first moment, and
// cannot answer what it asks.
func TestRealAgentAnswersNothing(t *testing.T) {
	l := newLab(t, codextest.Newest, codextest.Config{})
	daemon := l.serve()
	defer daemon.stop()
	self, err := exec.LookPath("regent")
	if err != nil {
		t.Fatal(err)
	}
	list := self + " --home " + l.site.home + " permission list > " + l.out("list") + " 2>&1"
	l.model.Script("look", scripted.Say(scripted.Escalated("c1", list)))
	p := l.regent("codex", "exec", "--codex", l.binary, "look")
	id := l.waits(l.person(), "c1")
	l.accepts(id)
	if code := p.code(); code != exitDone {
		t.Fatalf("exit code %d: %s", code, p.errors.String())
	}
	text, err := os.ReadFile(l.out("list"))
	if err != nil || !strings.Contains(string(text), "agents may ask") {
		t.Errorf("the agent's permission list says %q, %v", text, err)
	}
}

// Killed while a question waits, Regent leaves nobody who could run what was asked
// about.
func TestRealKilledWhileItWaits(t *testing.T) {
	for _, version := range codextest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, version, codextest.Config{})
			daemon := l.serve()
			defer daemon.stop()
			for name, start := range map[string]func(prompt string) *running{
				"the proxy": func(prompt string) *running { return l.regent("codex", "exec", "--codex", l.binary, prompt) },
				"the daemon within the proxy": func(prompt string) *running {
					return l.regent("--home", l.ownHome(), "codex", "exec", "--codex", l.binary, prompt)
				},
			} {
				call := strings.ReplaceAll(name, " ", "-")
				l.model.Script(name, scripted.Say(scripted.Escalated(call, "touch "+l.out(call))))
				p := start(name)
				p.errors.says(t, `exec: ([a-z2-7]{26}) waits`, p.ended)
				_ = p.cmd.Process.Kill()
				<-p.ended // which means that nobody holds its output any more
				if l.made(call) {
					t.Errorf("%s was killed, and the command has run", name)
				}
				if n := len(l.model.Requests(name)); n != 1 {
					t.Errorf("%s was killed, and the model was asked %d times", name, n)
				}
			}
		})
	}
}

// ownHome is a home without a daemon.
func (l *lab) ownHome() string {
	home := filepath.Join(l.root, "own")
	if err := patientHome(home); err != nil {
		l.t.Fatal(err)
	}
	return home
}

func TestRealDaemonIsKilledWhileItIsAsked(t *testing.T) {
	l := newLab(t, codextest.Newest, codextest.Config{})
	daemon := l.serve()
	l.model.Script("wait", scripted.Say(scripted.Escalated("c1", "touch "+l.out("asked"))))
	p := l.regent("codex", "exec", "--codex", l.binary, "--output", "json", "wait")
	l.waits(l.person(), "c1")
	daemon.kill()
	if code := p.code(); code != exitDone {
		t.Fatalf("exit code %d: %s", code, p.errors.String())
	}
	var report codexReport
	if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil {
		t.Fatal(err)
	}
	if l.made("asked") || len(report.Requests) != 1 || report.Requests[0].Outcome != approval.OutcomeDeny || !strings.Contains(report.Requests[0].Reason, "could not decide") {
		t.Errorf("made %v, requests %+v", l.made("asked"), report.Requests)
	}
}

// TestRealTUI has the real TUI in a terminal in front of the proxy: one command is
// denied by rule, one allowed by rule, one by a person at another terminal, and with
// --show one by the user of the TUI.
func TestRealTUI(t *testing.T) {
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the TUI is not tested: tmux is missing")
		}
		t.Skip("the TUI is not tested: tmux is missing")
	}
	for _, version := range codextest.Versions {
		for _, address := range []string{"ws://127.0.0.1:0", "unix"} {
			t.Run(version+" "+address[:2], func(t *testing.T) {
				l := newLab(t, version, codextest.Config{Model: "scripted-model"})
				daemon := l.serve()
				defer daemon.stop()
				l.model.Script("please",
					scripted.Say(scripted.Escalated("c1", "touch "+l.out("precious"))),
					scripted.Say(scripted.Escalated("c2", "touch "+l.out("ruled"))),
					scripted.Say(scripted.Escalated("c3", "touch "+l.out("asked"))),
					scripted.Say(scripted.Escalated("c4", "touch "+l.out("shown"))),
					scripted.Say(scripted.Message("that is all of it")),
				)
				listen := address
				if listen == "unix" {
					listen = "unix://" + filepath.Join(l.root, "c.sock")
				}
				p := l.regent("codex", "--show", "--strict", "--codex", l.binary, "--listen", listen)
				at := p.errors.says(t, `listening on: (\S+)`, p.ended)

				socket := filepath.Join(l.root, "tmux")
				run := func(args ...string) string {
					t.Helper()
					cmd := exec.CommandContext(t.Context(), tmux, append([]string{"-S", socket}, args...)...)
					cmd.Env = append(codextest.Env(l.home), "TERM=xterm-256color")
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("tmux %s: %v\n%s", args[0], err, out)
					}
					return string(out)
				}
				run("new-session", "-d", "-s", "tui", "-x", "150", "-y", "50", "-c", l.cwd, l.binary+" --remote "+at+" please")
				t.Cleanup(func() {
					cmd := exec.Command(tmux, "-S", socket, "kill-server")
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Logf("end tmux: %v\n%s", err, out)
					}
				})
				screen := func() string { return run("capture-pane", "-p", "-t", "tui") }

				person := l.person()
				id := l.waits(person, "c3")
				if l.made("precious") || !l.made("ruled") {
					t.Errorf("precious %v, ruled %v\n%s", l.made("precious"), l.made("ruled"), screen())
				}
				l.accepts(id)
				shown := l.waits(person, "c4")
				l.until(t, screen, "touch "+l.out("shown"), "Yes, proceed")
				// The TUI may pass over a key that comes with the question.
				l.until(t, func() string {
					if !l.made("shown") {
						run("send-keys", "-t", "tui", "y")
					}
					return screen()
				}, "that is all of it")
				if !l.made("asked") || !l.made("shown") {
					t.Errorf("asked %v, shown %v\n%s", l.made("asked"), l.made("shown"), screen())
				}
				record, err := person.Read(t.Context(), shown)
				if err != nil || record.Decision == nil || record.Decision.Source != approval.SourceHuman || record.Decision.Reason != "answered in the Codex client" {
					t.Errorf("the record is %+v, %v", record.Decision, err)
				}
				if !slices.ContainsFunc(l.model.Requests("please"), func(r *scripted.Request) bool {
					return slices.ContainsFunc(r.Said(), func(s string) bool { return strings.Contains(s, "what is precious stays as it is") })
				}) {
					t.Error("the model does not know why it was denied")
				}
			})
		}
	}
}

// until waits until a screen shows all of the texts. A terminal tells nobody that
// it has changed, so it is looked at again and again.
func (l *lab) until(t *testing.T, screen func() string, texts ...string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx := l.soon()
	for {
		seen := strings.Join(strings.Fields(screen()), " ")
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(seen, text) }) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it does not show %q:\n%s", texts, screen())
		}
	}
}

// What is the daemon of the home for as long as it lasts is all of it: hooks are
// heard as well.
func TestHooksAreHeardByTheDaemonWithinCodex(t *testing.T) {
	s := newSite(t)
	cwd := filepath.Join(s.root, "repo")
	if err := os.Mkdir(cwd, 0o755); err != nil {
		t.Fatal(err)
	}
	l := &lab{site: s, home: filepath.Join(s.root, "codex"), cwd: cwd}
	p := l.regent("codex", "--listen", "unix://"+filepath.Join(s.root, "c.sock"))
	p.errors.says(t, `listening on: (\S+)`, p.ended)
	for text, want := range map[string]string{"make clean": "nothing is removed", "make test": ""} {
		cmd := exec.CommandContext(s.soon(), "regent", "--home", s.home, "hook", "codex")
		cmd.Dir, cmd.Env = cwd, s.env()
		cmd.Stdin = strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"` + text + `"}}`)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), want) || want == "" && len(out) > 0 {
			t.Errorf("the hook says of %s: %s, %v", text, out, err)
		}
	}
}
