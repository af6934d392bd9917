package codextest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/codex/codextest"
)

// fakeNPM is an npm that has the version 9.9.9, notes what it is called for, and
// puts a program where Codex has its own.
const fakeNPM = `#!/bin/sh
echo "$1" >> "$FAKE_NPM_CALLS"
if [ -n "$FAKE_NPM_BROKEN" ]; then echo "no network" >&2; exit 1; fi
case "$1" in
view) echo 9.9.9 ;;
install)
	at="$3/node_modules/@openai/codex-any/vendor/any/bin"
	mkdir -p "$at" && echo "$@" > "$at/codex" ;;
esac
`

// npm puts an npm of the test in front of all, and an empty cache; calls are what
// the npm was called for.
func npm(t *testing.T) (cache string, calls func() []string) {
	t.Helper()
	bin, notes := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	cache = filepath.Join(t.TempDir(), "cache")
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(fakeNPM), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FAKE_NPM_CALLS", notes)
	t.Setenv(codextest.CacheVar, cache)
	return cache, func() []string {
		text, err := os.ReadFile(notes)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
}

func install(t *testing.T, version string) string {
	t.Helper()
	path, err := codextest.Install(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name())
	}
	return names
}

func TestAVersionIsInstalledOnceWhoeverAsks(t *testing.T) {
	cache, calls := npm(t)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			if _, err := codextest.Install(t.Context(), "1.2.3"); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	text, err := os.ReadFile(install(t, "1.2.3"))
	if err != nil || !strings.Contains(string(text), "@openai/codex@1.2.3") {
		t.Errorf("the program is %q, %v", text, err)
	}
	if diff := cmp.Diff([]string{"install"}, calls()); diff != "" {
		t.Errorf("npm was called (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1.2.3", "1.2.3.lock"}, entries(t, cache)); diff != "" {
		t.Errorf("the cache (-want +got):\n%s", diff)
	}
}

func TestWhatAKilledInstallationLeftHoldsNobodyUp(t *testing.T) {
	cache, calls := npm(t)
	for _, dir := range []string{"install-1.2.3/half", "0.0.1"} {
		if err := os.MkdirAll(filepath.Join(cache, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(cache, "1.2.3.lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, "1.2.3")
	if diff := cmp.Diff([]string{"0.0.1", "1.2.3", "1.2.3.lock"}, entries(t, cache)); diff != "" {
		t.Errorf("the cache (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"install"}, calls()); diff != "" {
		t.Errorf("npm was called (-want +got):\n%s", diff)
	}
}

func TestTheNewestIsLookedUpOnceADay(t *testing.T) {
	note := func(t *testing.T, cache string, age time.Duration) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"version": "8.8.8", "at": time.Now().Add(-age)})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(cache, 0o755), os.WriteFile(filepath.Join(cache, "newest.json"), text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		known  time.Duration
		broken bool
		want   string
		calls  []string
	}{
		"never looked up":              {0, false, "9.9.9", []string{"view", "install"}},
		"an hour ago":                  {time.Hour, false, "8.8.8", []string{"install"}},
		"two days ago":                 {48 * time.Hour, false, "9.9.9", []string{"view", "install"}},
		"two days ago, and no network": {48 * time.Hour, true, "8.8.8", []string{"install", "view"}},
	} {
		t.Run(name, func(t *testing.T) {
			cache, calls := npm(t)
			if test.broken {
				install(t, "8.8.8")
				t.Setenv("FAKE_NPM_BROKEN", "1")
			}
			if test.known > 0 {
				note(t, cache, test.known)
			}
			path := install(t, codextest.Newest)
			if install(t, codextest.Newest) != path || !strings.HasPrefix(path, filepath.Join(cache, test.want)+string(os.PathSeparator)) {
				t.Errorf("the newest is %s, want %s", path, test.want)
			}
			got := calls()
			if test.broken {
				got = got[:2] // it is looked up again each time
			}
			if diff := cmp.Diff(test.calls, got); diff != "" {
				t.Errorf("npm was called (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutNPMThereIsNoCodex(t *testing.T) {
	for name, test := range map[string]struct{ variable, value string }{
		"npm cannot fetch": {"FAKE_NPM_BROKEN", "1"},
		"npm is missing":   {"PATH", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cache, _ := npm(t)
			t.Setenv(test.variable, test.value)
			for _, version := range codextest.Versions {
				if path, err := codextest.Install(t.Context(), version); !errors.Is(err, codextest.ErrNoNPM) {
					t.Errorf("%s is %q, %v", version, path, err)
				}
			}
			if diff := cmp.Diff([]string{codextest.Oldest + ".lock"}, entries(t, cache)); diff != "" {
				t.Errorf("the cache (-want +got):\n%s", diff)
			}
		})
	}
}

// outcome is a test that says how it ended instead of ending so.
type outcome struct {
	testing.TB
	said string
}

func (o *outcome) Skip(args ...any)  { o.said = "skipped: " + fmt.Sprint(args...); panic(o) }
func (o *outcome) Fatal(args ...any) { o.said = "failed: " + fmt.Sprint(args...); panic(o) }

func TestCINeverSkips(t *testing.T) {
	for ci, want := range map[string]string{"": "skipped", "false": "skipped", "0": "skipped", "true": "failed", "1": "failed"} {
		t.Run("CI="+ci, func(t *testing.T) {
			npm(t)
			t.Setenv("FAKE_NPM_BROKEN", "1")
			t.Setenv("CI", ci)
			o := &outcome{TB: t}
			func() {
				defer func() {
					if end := recover(); end != o {
						t.Errorf("it ended with %v", end)
					}
				}()
				codextest.Binary(o, codextest.Oldest)
			}()
			if !strings.HasPrefix(o.said, want+": the real Codex is not tested") || !strings.Contains(o.said, "no network") {
				t.Errorf("it %q, want %s", o.said, want)
			}
		})
	}
}

func TestAHomeIsNobodyElses(t *testing.T) {
	t.Setenv("CODEX_HOME", "/elsewhere")
	t.Setenv("CODEX_API_KEY", "secret")
	t.Setenv("OPENAI_API_KEY", "secret")
	home, cwd := codextest.Home(t, codextest.Config{URL: "http://127.0.0.1:1/v1", Sandbox: "read-only", More: "x = 1"})
	var got []string
	for _, v := range codextest.Env(home) {
		if name, _, _ := strings.Cut(v, "="); name == "HOME" || strings.HasPrefix(name, "CODEX_") || strings.HasPrefix(name, "OPENAI_") {
			got = append(got, v)
		}
	}
	if diff := cmp.Diff([]string{"HOME=" + filepath.Dir(home), "CODEX_HOME=" + home}, got); diff != "" {
		t.Errorf("the environment (-want +got):\n%s", diff)
	}
	config, err := os.ReadFile(filepath.Join(home, "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`base_url = "http://127.0.0.1:1/v1"`, `sandbox_mode = "read-only"`, `approval_policy = "on-request"`, `model = "gpt-5.5"`, "x = 1"} {
		if !strings.Contains(string(config), line+"\n") {
			t.Errorf("config.toml has no %s", line)
		}
	}
	for _, dir := range []string{cwd, codextest.Outside(cwd)} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			t.Errorf("%s is no folder: %v", dir, err)
		}
	}
}

// The server of MCP is spoken to as Codex does it.
func TestTheMCPServerAnswers(t *testing.T) {
	config := codextest.MCPServer(t, "lab")
	name, value, ok := strings.Cut(strings.TrimSpace(config[strings.LastIndex(config, "]\n")+2:]), " = ")
	if !ok || !strings.Contains(config, "[mcp_servers.lab.env]") {
		t.Fatalf("the configuration is %s", config)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), program)
	server.Env = append(os.Environ(), name+"="+strings.Trim(value, `"`))
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "made")
	lines := bufio.NewScanner(out)
	for _, turn := range []struct{ say, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, `"protocolVersion":"2025-06-18"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `"destructiveHint":true`},
		{`{"jsonrpc":"2.0","id":3,"method":"ping"}`, `"id":3,"result":{}`},
		{`{"jsonrpc":"2.0","id":4,"method":"resources/list"}`, `-32601`},
		{`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"destroy","arguments":{"path":"` + path + `"}}}`, `destroy is done`},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"ask","arguments":{}}}`, `"method":"elicitation/create"`},
		{`{"jsonrpc":"2.0","id":"question","result":{"action":"decline"}}`, `the user answered {\"action\":\"decline\"}`},
	} {
		if _, err := fmt.Fprintln(in, turn.say); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), turn.want) {
			t.Fatalf("to %s it says %s, want %s", turn.say, lines.Text(), turn.want)
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if lines.Scan() {
		t.Errorf("at the end it says %s", lines.Text())
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
