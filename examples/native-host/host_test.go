package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// shared is what the story asks for, and more: what goes beyond the request or
// the ceiling is dropped.
func (b *bench) shared() permission.Profile {
	return permission.Merge(only(b.path("agent/shared"), permission.Write), only("/etc", permission.Write))
}

const wantStory = `session example-1 works in /demo/agent/work

turn-1: I write down what we know, and look at it.
  write_file {"path": "notes.txt", "content": "plums\napples\n"}
    [allow: allow] it writes in the agent's own folder
    wrote 13 bytes
  read_file {"path": "notes.txt"}
    [skip: allow] a tool of the harness that only reads on this machine
    plums
    apples
  read_file {"path": "/etc/hosts"}
    [skip: allow] a tool of the harness that only reads on this machine
    the call has no permission to read /etc/hosts
  exec_command {"cmd": "sort notes.txt | head -n 1"}
    [skip: allow] permissions.read_only_commands is skip, and every command certainly only reads
    apples
  exec_command {"cmd": "curl -s https://example.com/prices"}
    [deny: deny] this agent has no business with example.com
    the call may not run: this agent has no business with example.com
  request_permissions {"reason": "the others read what is in there", "permissions": {"file_system": {"write": ["../shared"]}}}
    [ask: allow] for now
    {"permissions":{"file_system":{"entries":[{"path":{"type":"path","path":"/demo/agent/shared"},"access":"write"}],"write":["/demo/agent/shared"]}},"scope":"turn"}
  write_file {"path": "../shared/fruit.txt", "content": "apples\n"}
    [allow: allow] what it does is within the permissions that were granted
    wrote 7 bytes
  list_dir {"path": "../shared"}
    [skip: allow] a tool of the harness that only reads on this machine
    - fruit.txt

turn-2: What I was granted for the last turn is gone. I try, and then I ask.
  write_file {"path": "../shared/more.txt", "content": "plums\n"}
    [ask: deny] ask first
    the call may not run: ask first
  request_permissions {"reason": "there is more for the others", "permissions": {"file_system": {"write": ["../shared", "/etc"]}}}
    [ask: allow] until you are done
    {"permissions":{"file_system":{"entries":[{"path":{"type":"path","path":"/demo/agent/shared"},"access":"write"}],"write":["/demo/agent/shared"]}},"scope":"session"}
  write_file {"path": "../shared/more.txt", "content": "plums\n"}
    [allow: allow] what it does is within the permissions that were granted
    wrote 6 bytes

turn-3: What I was granted for the session is still there, until somebody takes it back.
  write_file {"path": "../shared/third.txt", "content": "pears\n"}
    [allow: allow] what it does is within the permissions that were granted
    wrote 6 bytes
  exec_command {"cmd": "sort notes.txt > sorted.txt"}
    [ask: allow] yes
    it printed nothing
  write_file {"path": "../shared/last.txt", "content": "cherries\n"}
    [ask: allow] this one
    wrote 9 bytes
`

func TestStory(t *testing.T) {
	t.Parallel()
	b := open(t)
	host := b.begin("")

	// Permissions are answered by their call, as a client does that shows them.
	first := b.asked()
	response := api.Response{Permissions: b.shared(), Reason: "for now"}
	if _, err := b.person.Respond(b.ctx, first.Request.Session.ID, first.Request.Session.CallID, first.Revision, response); err != nil {
		t.Fatal(err)
	}
	b.answer(b.asked(), "deny", "ask first")
	again := b.asked()
	response = api.Response{Permissions: b.shared(), Scope: permission.Session, Reason: "until you are done"}
	if _, err := b.person.Respond(b.ctx, again.Request.Session.ID, again.Request.Session.CallID, again.Revision, response); err != nil {
		t.Fatal(err)
	}
	sort := b.asked()
	held, err := b.person.Grants(b.ctx, again.Request.Session.ID)
	if err != nil || len(held.Grants) != 1 {
		t.Fatalf("grants %+v, %v; want that of the session", held, err)
	}
	if err := b.person.Revoke(b.ctx, held.Grants[0].ID); err != nil {
		t.Fatal(err)
	}
	b.answer(sort, "allow", "yes")
	b.answer(b.asked(), "allow", "this one")

	if diff := cmp.Diff(wantStory, host.end(exitDone)); diff != "" {
		t.Errorf("the host said (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"agent/work/notes.txt": "plums\napples\n", "agent/work/sorted.txt": "apples\nplums\n", "agent/shared/fruit.txt": "apples\n",
		"agent/shared/more.txt": "plums\n", "agent/shared/third.txt": "pears\n", "agent/shared/last.txt": "cherries\n",
	} {
		if diff := cmp.Diff(want, b.holds(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var got []string
	for _, r := range b.records() {
		if r.Decision == nil {
			t.Fatalf("%s was not decided", r.ID)
		}
		got = append(got, fmt.Sprintf("%s %s by %s, %s, used %t", r.Request.Session.CallID, r.Decision.Outcome, r.Decision.Source, r.State, !r.Fenced.IsZero()))
	}
	if diff := cmp.Diff([]string{
		"turn-1-call-1 allow by rule, resolved, used true",
		"turn-1-call-5 deny by rule, resolved, used false",
		"turn-1-call-6 allow by human, resolved, used false",
		"turn-1-call-7 allow by grant, resolved, used true",
		"turn-2-call-1 deny by human, resolved, used false",
		"turn-2-call-2 allow by human, resolved, used false",
		"turn-2-call-3 allow by grant, resolved, used true",
		"turn-3-call-1 allow by grant, resolved, used true",
		"turn-3-call-2 allow by human, resolved, used true",
		"turn-3-call-3 allow by human, resolved, used true",
	}, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if open, err := b.person.Sessions(b.ctx); err != nil || len(open) > 0 {
		t.Errorf("sessions %+v, %v; want none", open, err)
	}
}

// The page shows what is to be seen.
func TestPageShowsTheStory(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), wantStory) {
		t.Errorf("README.md does not show\n%s", wantStory)
	}
}

// TestDemo runs what `make demo-host` runs, and looks for what it is to show.
func TestDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the program")
	}
	regent, err := program()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "native-host"), []byte("#!/bin/sh\n"+hostVar+"=1 exec '"+self+"' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	demo := exec.CommandContext(t.Context(), "sh", "demo.sh")
	// A socket's path must be short, so the demo makes its home where it likes.
	list := string(os.PathListSeparator)
	demo.Env = append(os.Environ(), "PATH="+bin+list+filepath.Dir(regent)+list+os.Getenv("PATH"), "TMPDIR=/tmp", "GORACE=atexit_sleep_ms=0")
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("demo.sh: %v\n%s", err, out)
	}
	rest := string(out)
	for _, want := range []string{
		"asks for ", "decided: allow", "decided: deny", "dropped  granted write /etc: not in the ceiling", "revoked ", "decided: allow",
		"decided: allow", "    wrote 9 bytes\n", "agent/shared/last.txt", "resolved",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q does not follow; the whole:\n%s", want, out)
		}
		rest = after
	}
}

// one is a script of one turn.
func one(calls ...string) string {
	return `{"turns":[{"says":"","calls":[` + strings.Join(calls, ",") + `]}]}`
}

const (
	touch = `{"tool":"exec_command","arguments":{"cmd":"touch done"}}`
	note  = `{"tool":"write_file","arguments":{"path":"note","content":"x"}}`
	more  = `{"tool":"request_permissions","arguments":{"permissions":{"file_system":{"write":["../shared"]}}}}`
)

func TestCancelEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, call := range []string{touch, more} {
		t.Run(call[9:21], func(t *testing.T) {
			t.Parallel()
			b := open(t)
			host := b.begin(one(call, note))
			r := b.asked()
			b.answer(r, "cancel", "enough")
			if said := host.end(exitCancelled); !strings.Contains(said, "turn-1-call-1: the run was cancelled: enough") {
				t.Errorf("the host said\n%s", said)
			}
			if got := b.records(); len(got) != 1 || got[0].State != approval.Resolved || !got[0].Fenced.IsZero() {
				t.Errorf("records %+v; want the one that was cancelled", got)
			}
			if b.holds("agent/work/done") != "(none)" || b.holds("agent/work/note") != "(none)" {
				t.Error("something was run")
			}
		})
	}
}

func TestInterruptCancelsTheCallThatWaits(t *testing.T) {
	t.Parallel()
	b := open(t)
	host := b.begin(one(touch, note))
	r := b.asked()
	if err := host.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	host.end(exitInterrupted)
	r, err := b.person.Read(b.ctx, r.ID)
	if err != nil || r.State != approval.Cancelled {
		t.Errorf("the record is %s, %v; want cancelled", r.State, err)
	}
	if open, err := b.person.Sessions(b.ctx); err != nil || len(open) > 0 {
		t.Errorf("sessions %+v, %v; want none", open, err)
	}
	if b.holds("agent/work/done") != "(none)" || b.holds("agent/work/note") != "(none)" {
		t.Error("something was run")
	}
}

func TestNothingRunsWhenTheDaemonIsKilled(t *testing.T) {
	t.Parallel()
	b := open(t)
	host := b.begin(one(touch, note))
	r := b.asked()
	b.kill()
	host.end(exitFailed)
	if b.holds("agent/work/done") != "(none)" || b.holds("agent/work/note") != "(none)" {
		t.Error("something was run")
	}
	// Nor can the answer be given later: whoever waited for it is gone.
	b.start()
	r, err := b.person.Read(b.ctx, r.ID)
	if err != nil || r.State != approval.Lost {
		t.Fatalf("the record is %s, %v; want lost", r.State, err)
	}
	_, err = b.person.Decide(b.ctx, r.ID, r.Revision, api.Decision{Option: []byte(`"allow"`)})
	if !errors.Is(err, approval.ErrLost) && !errors.Is(err, approval.ErrConflict) {
		t.Errorf("a late answer: %v", err)
	}
}

func TestWithoutADaemonNothingBegins(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.stop()
	host := b.begin(one(note))
	if said := host.end(exitFailed); !strings.Contains(said, client.ErrNoDaemon.Error()) {
		t.Errorf("the host said\n%s", said)
	}
	if b.holds("agent/work/note") != "(none)" {
		t.Error("something was run")
	}
}

// What was looked at is what runs, or nothing does.
func TestApprovalIsOfWhatWasAskedAbout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		meanwhile    func(b *bench)
		// want is the result for the model, and absent what must not be there.
		want, absent string
	}{
		{
			"a script that was changed meanwhile", one(`{"tool":"exec_command","arguments":{"cmd":"sh ./build.sh"}}`),
			func(b *bench) { b.write("agent/work/build.sh", "touch other") }, "it was not started: ", "agent/work/other",
		},
		{
			"a place that leads elsewhere by now", one(`{"tool":"write_file","arguments":{"path":"../shared/x","content":"x"}}`),
			func(b *bench) {
				if err := os.Symlink(b.path("home"), b.path("agent/shared")); err != nil {
					b.Fatal(err)
				}
			}, "/demo/agent/shared/x leads to another place by now", "home/x",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			b.write("agent/work/build.sh", "touch done")
			host := b.begin(test.script)
			r := b.asked()
			test.meanwhile(b)
			b.answer(r, "allow", "")
			if said := host.end(exitDone); !strings.Contains(said, test.want) {
				t.Errorf("the host said\n%s\nwant %q", said, test.want)
			}
			if b.holds(test.absent) != "(none)" || b.holds("agent/work/done") != "(none)" {
				t.Error("something was run")
			}
		})
	}
}

// What the host refuses by itself, and how it says so to the model. Nobody is
// asked about any of it.
func TestHostHasLimitsOfItsOwn(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("agent/secret", "s3cret")
	b.write("agent/work/notes.txt", "notes\n")
	if err := os.Symlink(b.path("agent/secret"), b.path("agent/work/link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, call, want string }{
		{"a file elsewhere", `{"tool":"read_file","arguments":{"path":"../secret"}}`, "no permission to read /demo/agent/secret"},
		{"a link that leads elsewhere", `{"tool":"read_file","arguments":{"path":"link"}}`, "no permission to read /demo/agent/secret"},
		{"a folder elsewhere", `{"tool":"list_dir","arguments":{"path":".."}}`, "no permission to read /demo/agent"},
		{"no folder", `{"tool":"list_dir","arguments":{"path":"notes.txt"}}`, "is no folder"},
		{"no file", `{"tool":"read_file","arguments":{"path":"."}}`, "is no file"},
		{"a home of somebody else", `{"tool":"read_file","arguments":{"path":"~kim/x"}}`, "home folders of other users"},
		{"an unknown tool", `{"tool":"fetch_url","arguments":{}}`, `there is no tool "fetch_url" here`},
		{"an unknown argument", `{"tool":"write_file","arguments":{"path":"a","content":"x","mode":"0777"}}`, "the arguments of write_file cannot be read"},
		{"an argument given twice", `{"tool":"write_file","arguments":{"path":"a","path":"b","content":"x"}}`, "the arguments of write_file cannot be read"},
		{"an argument in other letters", `{"tool":"write_file","arguments":{"Path":"a","content":"x"}}`, "the arguments of write_file cannot be read"},
		{"an empty command", `{"tool":"exec_command","arguments":{"cmd":""}}`, "the call cannot be made like this"},
		{"a request for nothing", `{"tool":"request_permissions","arguments":{"permissions":{}}}`, "request_permissions requires at least one permission"},
		{"a request with a field twice", `{"tool":"request_permissions","arguments":{"permissions":{},"permissions":{}}}`, "have a field twice"},
		{"a request without arguments", `{"tool":"request_permissions"}`, "request_permissions arguments: permissions are missing"},
	}
	calls := make([]string, len(tests))
	for i, test := range tests {
		calls[i] = test.call
	}
	said := b.begin(one(calls...)).end(exitDone)
	// A call has a line of its own, and what is indented below is its result.
	results := regexp.MustCompile(`(?m)^  [a-z_]+ .*\n`).Split(said, -1)[1:]
	if len(results) != len(tests) {
		t.Fatalf("%d results of %d calls:\n%s", len(results), len(tests), said)
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(results[i], test.want) {
				t.Errorf("the result is %q, want %q", results[i], test.want)
			}
		})
	}
	if strings.Contains(said, "s3cret") {
		t.Error("a file was shown that is none of the agent's")
	}
	if got := b.records(); len(got) > 0 {
		t.Errorf("%d records, want none", len(got))
	}
}

// The access list of the host is final: a rule allows what it refuses, and a
// person is not even asked.
func TestReadOnlyHostRefusesWhatRulesAllow(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("agent/work/notes.txt", "notes\n")
	said := b.begin(one(note, touch, `{"tool":"read_file","arguments":{"path":"notes.txt"}}`), "--read-only").end(exitDone)
	if strings.Count(said, "[deny: deny]") != 2 || !strings.Contains(said, "    notes\n") {
		t.Errorf("the host said\n%s", said)
	}
	if b.holds("agent/work/done") != "(none)" || b.holds("agent/work/note") != "(none)" {
		t.Error("something was run")
	}
}

// A tool that is not offered is none, and the daemon is not asked.
func TestToolIsUsedOnlyWhereItIsOffered(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("rules/config.yaml", strings.Replace(b.holds("rules/config.yaml"), "{enabled: true}", "{enabled: false}", 1))
	said := b.begin(one(more)).end(exitDone)
	if !strings.Contains(said, `there is no tool "request_permissions" here`) {
		t.Errorf("the host said\n%s", said)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":                     {[]string{"--help"}, exitDone, "Exit codes: "},
		"a flag that is not there": {[]string{"--wirkspace", "x"}, exitUsage, "flag provided but not defined"},
		"an argument":              {[]string{"go"}, exitUsage, `was given "go"`},
		"a script that is missing": {[]string{"--script", "testdata/none.json"}, exitUsage, "none.json"},
		"a script that is none":    {[]string{"--script", "config.yaml"}, exitUsage, "read the script"},
		"a scratch that is a file": {[]string{"--scratch", "config.yaml"}, exitUsage, "config.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, words strings.Builder
			if code := Main(test.args, &out, &words); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(words.String(), test.want) || out.Len() > 0 {
				t.Errorf("it said %q and printed %q; want %q", words.String(), out.String(), test.want)
			}
		})
	}
}
