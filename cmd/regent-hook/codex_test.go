package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/codextest"
	"github.com/regent-policy/regent/harness/codex/scripted"
	"github.com/regent-policy/regent/server"
)

const denials = `package home.rules.hooks

deny contains "leave this file alone" if {
	input.request.kind == "command"
	contains(input.request.command.text, "denied")
}

deny contains "nobody writes there" if {
	some c in input.request.changes
	contains(c.path, "denied")
}

deny contains "no more network" if input.request.permissions.network.enabled
`

// daemon answers hooks.
type daemon struct {
	*gate.Gate
	home string
	stop func()
}

func serve(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{home: shortDir(t)}
	for name, text := range map[string]string{
		"config.yaml":         "version: 1\npolicy: {evaluation_timeout_ms: 10000}\npermissions: {harness_mode: manual}\n",
		"policies/hooks.rego": denials, "runtime/keep": "",
	} {
		path := filepath.Join(d.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := ledger.Open(t.Context(), filepath.Join(d.home, "runtime", "runtime.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	feed := &gate.Feed{}
	epochs := gate.OpenEpochs(t.Context(), gate.EpochsOptions{Home: d.home, Feed: feed})
	if d.Gate, _, err = gate.New(t.Context(), gate.Parts{Ledger: db, Workspaces: epochs, Feed: feed}); err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{Gate: d.Gate, Epochs: epochs, Ledger: db, Home: d.home})
	l, err := s.ListenHooks()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		d.stop()
		epochs.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

var local = gate.Principal{ID: "user:sam", Role: gate.RoleLocal}

// until waits for a record of a call of Codex.
func (d *daemon) until(t *testing.T, is func(r *approval.Record) bool) approval.Record {
	t.Helper()
	for {
		changed := d.Feed().Changed()
		page, err := d.List(t.Context(), local, approval.Query{})
		if err != nil {
			t.Error(err)
			return approval.Record{Request: &approval.Request{}}
		}
		for i := range page.Records {
			if is(&page.Records[i]) {
				return page.Records[i]
			}
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Error("there is no such record")
			return approval.Record{Request: &approval.Request{}}
		}
	}
}

// agent is a real Codex that runs the program for its events, and whose user
// accepts whatever they are asked.
type agent struct {
	*codextest.Client
	model *scripted.Server
	cwd   string

	mu    sync.Mutex
	asked []string
}

func startAgent(t *testing.T, binary, hook string, events ...string) *agent {
	t.Helper()
	a := &agent{}
	var err error
	if a.model, err = scripted.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.model.Close)
	var hooks strings.Builder
	for _, event := range events {
		fmt.Fprintf(&hooks, "[[hooks.%[1]s]]\nmatcher = \"\"\n[[hooks.%[1]s.hooks]]\ntype = \"command\"\ncommand = %[2]q\ntimeout = 60\n", event, hook)
	}
	home, cwd := codextest.Home(t, codextest.Config{URL: a.model.URL(), More: hooks.String()})
	a.cwd = cwd
	process, err := codex.Program{Path: binary, Dir: cwd, Env: codextest.Env(home)}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Close() })
	a.Client = codextest.NewClient(t, process.Conn(), func(f codextest.Frame) any {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, f.Method)
		return map[string]string{"decision": "accept"}
	})
	return a
}

// does has the model make one call, and returns what it was told of it and what
// the user was asked.
func (a *agent) does(t *testing.T, call string, step scripted.Step) (told string, asked []string) {
	t.Helper()
	a.mu.Lock()
	a.asked = nil
	a.mu.Unlock()
	a.model.Script(call, step)
	thread := a.Thread(a.cwd, map[string]any{"config": map[string]any{"bypass_hook_trust": true}})
	turn := a.Turn(thread, call)
	if status := a.Ends(thread, turn); status != "completed" {
		t.Fatalf("the turn is %s", status)
	}
	request, err := a.model.Wait(t.Context(), call, 2)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return request.Output(call), a.asked
}

// there tells whether a file is where Codex works, or outside of it.
func (a *agent) there(t *testing.T, path string) bool {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.cwd, path)
	}
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func add(name string) string {
	return "*** Begin Patch\n*** Add File: " + name + "\n+hello\n*** End Patch\n"
}

func TestRealCodex(t *testing.T) {
	for _, version := range codextest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			binary := codextest.Binary(t, version)
			d := serve(t)
			hook := "exec " + program(t) + " codex --home " + d.home
			decided := func(text string) func(*approval.Record) bool {
				return func(r *approval.Record) bool {
					return r.Decision != nil && r.Decision.Outcome == approval.OutcomeDeny && strings.Contains(described(t, r), text)
				}
			}

			t.Run("before the tool", func(t *testing.T) {
				a := startAgent(t, binary, hook, "PreToolUse")
				told, asked := a.does(t, "c-denied", scripted.Say(scripted.Exec("c-denied", "touch denied-1")))
				if !strings.Contains(told, "Command blocked by PreToolUse hook: leave this file alone. Command: touch denied-1") || len(asked) > 0 {
					t.Errorf("of a command in the sandbox the model is told %q and the user asked %v, want the rule's text", told, asked)
				}
				if a.there(t, "denied-1") {
					t.Error("a denied command has run")
				}
				r := d.until(t, decided("touch denied-1"))
				if s, e := r.Request.Session, r.Request.Environment; s == nil || s.CallID != "c-denied" || e == nil || e.Cwd != a.cwd {
					t.Errorf("the record is of %+v in %+v, want the call of Codex", s, r.Request.Environment)
				}
				told, asked = a.does(t, "c-passes", scripted.Say(scripted.Exec("c-passes", "touch fine")))
				if !strings.Contains(told, "exited with code 0") || len(asked) > 0 || !a.there(t, "fine") {
					t.Errorf("of one that passes it is told %q and the user asked %v, want that it has run", told, asked)
				}
				outside := filepath.Join(codextest.Outside(a.cwd), "denied-2")
				told, asked = a.does(t, "c-escalated", scripted.Say(scripted.Escalated("c-escalated", "touch "+outside)))
				if !strings.Contains(told, "leave this file alone") || len(asked) > 0 || a.there(t, outside) {
					t.Errorf("of one that is to leave the sandbox it is told %q and the user asked %v, want the rule's text and no question", told, asked)
				}
				outside = filepath.Join(codextest.Outside(a.cwd), "fine")
				told, asked = a.does(t, "c-asked", scripted.Say(scripted.Escalated("c-asked", "touch "+outside)))
				if !strings.Contains(told, "exited with code 0") || len(asked) != 1 || !a.there(t, outside) {
					t.Errorf("of one that policy asks about it is told %q and the user asked %v, want one question", told, asked)
				}
				told, asked = a.does(t, "p-denied", scripted.Say(scripted.Patch("p-denied", add("denied-3"))))
				if !strings.Contains(told, "nobody writes there") || len(asked) > 0 || a.there(t, "denied-3") {
					t.Errorf("of a patch it is told %q and the user asked %v, want the rule's text", told, asked)
				}
				told, asked = a.does(t, "p-passes", scripted.Say(scripted.Patch("p-passes", add("written"))))
				if !strings.Contains(told, "Success") || len(asked) > 0 || !a.there(t, "written") {
					t.Errorf("of one that passes it is told %q and the user asked %v, want that it is applied", told, asked)
				}
				told, asked = a.does(t, "r-denied", scripted.Say(scripted.Permissions("r-denied", map[string]any{"network": map[string]any{"enabled": true}})))
				if !strings.Contains(told, "no more network") || len(asked) > 0 {
					t.Errorf("of permissions it is told %q and the user asked %v, want the rule's text", told, asked)
				}
			})
			t.Run("before the user is asked", func(t *testing.T) {
				a := startAgent(t, binary, hook, "PermissionRequest")
				outside := filepath.Join(codextest.Outside(a.cwd), "denied-4")
				told, asked := a.does(t, "c-approval", scripted.Say(scripted.Escalated("c-approval", "touch "+outside)))
				if !strings.Contains(told, "leave this file alone") || strings.Contains(told, "regent") || len(asked) > 0 || a.there(t, outside) {
					t.Errorf("of a command the model is told %q and the user asked %v, want the rule's text and no question", told, asked)
				}
				outside = filepath.Join(codextest.Outside(a.cwd), "denied-5")
				told, asked = a.does(t, "p-approval", scripted.Say(scripted.Patch("p-approval", add(outside))))
				if told != "nobody writes there" || len(asked) > 0 || a.there(t, outside) {
					t.Errorf("of a patch it is told %q and the user asked %v, want the rule's text and no question", told, asked)
				}
				outside = filepath.Join(codextest.Outside(a.cwd), "fine")
				told, asked = a.does(t, "c-goes-on", scripted.Say(scripted.Escalated("c-goes-on", "touch "+outside)))
				if !strings.Contains(told, "exited with code 0") || len(asked) != 1 || !a.there(t, outside) {
					t.Errorf("of one that policy asks about it is told %q and the user asked %v, want one question", told, asked)
				}
			})
			t.Run("a person is waited for", func(t *testing.T) {
				a := startAgent(t, binary, hook+" --on-ask wait --timeout 50s", "PreToolUse")
				for option, runs := range map[string]bool{`"allow"`: true, `"deny"`: false} {
					call := "w-" + strings.Trim(option, `"`)
					answered := make(chan struct{})
					go func() {
						defer close(answered)
						r := d.until(t, func(r *approval.Record) bool {
							return r.State == approval.Pending && r.Request.Session != nil && r.Request.Session.CallID == call
						})
						if _, err := d.Answer(t.Context(), gate.Reply{ID: r.ID, Revision: r.Revision, Option: json.RawMessage(option), Reason: "as the test says", By: local}); err != nil {
							t.Error(err)
						}
					}()
					told, asked := a.does(t, call, scripted.Say(scripted.Exec(call, "touch "+call)))
					<-answered
					if a.there(t, call) != runs || strings.Contains(told, "as the test says") == runs || len(asked) > 0 {
						t.Errorf("%s: it has run: %t, the model is told %q and the user asked %v", option, !runs, told, asked)
					}
				}
			})
			t.Run("without a daemon", func(t *testing.T) {
				a := startAgent(t, binary, hook, "PreToolUse", "PermissionRequest")
				d.stop()
				told, asked := a.does(t, "c-alone", scripted.Say(scripted.Exec("c-alone", "touch alone")))
				if !strings.Contains(told, "regent: no daemon listens on "+d.home) || len(asked) > 0 || a.there(t, "alone") {
					t.Errorf("the model is told %q and the user asked %v, want a refusal", told, asked)
				}
			})
		})
	}
}

// described is a request as text.
func described(t *testing.T, r *approval.Record) string {
	t.Helper()
	text, err := json.Marshal(r.Request)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
