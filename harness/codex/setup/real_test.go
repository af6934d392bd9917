package setup_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/codextest"
	"github.com/regent-policy/regent/harness/codex/setup"
)

// eachCodex runs a test with every version of the real Codex.
func eachCodex(t *testing.T, test func(t *testing.T, c *setup.Codex)) {
	if testing.Short() {
		t.Skip("starts the real Codex")
	}
	for _, version := range codextest.Versions {
		t.Run(version, func(t *testing.T) {
			test(t, &setup.Codex{Program: codextest.Binary(t, version), Env: codextest.Env(filepath.Join(t.TempDir(), "codex")), Version: "test"})
		})
	}
}

// home makes a CODEX_HOME with a configuration, rules and a folder to work in.
func home(t testing.TB, config string) (dir, cwd string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, cwd = filepath.Join(root, "codex"), filepath.Join(root, "repo")
	write(t, filepath.Join(dir, "config.toml"), config)
	if err := os.MkdirAll(cwd, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, cwd
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hookProgram is a program that is there, by the name of the hook.
func hookProgram(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "it's here", "regent-hook")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\ncat > /dev/null\n"), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return file
}

func hookWant(t testing.TB) setup.Want {
	t.Helper()
	command, err := setup.HookCommand(hookProgram(t), "")
	if err != nil {
		t.Fatal(err)
	}
	return setup.Want{Hook: command}
}

func installer(dir string, c *setup.Codex) setup.Installer {
	return setup.Installer{Home: dir, Codex: c, Version: "test", Now: func() time.Time { return time.Date(2026, 12, 1, 1, 2, 3, 0, time.UTC) }}
}

// TestCodexTrustsWhatIsInstalled installs into homes in several forms, and wants
// Codex to say that it runs the hooks.
func TestCodexTrustsWhatIsInstalled(t *testing.T) {
	forms := []struct{ name, text string }{
		{"a usual file", "# mine\nmodel = \"gpt-5.5\"\n\n[features]\napps = false\n"},
		{"other hooks before ours", "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"true\"\n"},
		{"everything inline", "hooks = {}\nfeatures = {}\n"},
	}
	eachCodex(t, func(t *testing.T, c *setup.Codex) {
		for _, form := range forms {
			t.Run(form.name, func(t *testing.T) {
				dir, _ := home(t, form.text)
				i := installer(dir, c)
				want := hookWant(t)
				p, err := i.Plan(t.Context(), want)
				if err != nil {
					t.Fatal(err)
				}
				result, err := i.Write(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if len(result.Hooks) != 2 || !result.Hooks[0].Trusted || !result.Hooks[1].Trusted || len(result.Warnings) > 0 {
					t.Errorf("result %+v, want two trusted hooks", result)
				}
				again, err := i.Plan(t.Context(), want)
				if err != nil || again.Changed() {
					t.Errorf("again: %v\n%s", err, again.Diff())
				}
				back, err := i.Undo()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := i.Write(t.Context(), back); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(form.text, read(t, filepath.Join(dir, "config.toml"))); diff != "" {
					t.Errorf("undone (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// TestUndoAfterCodexHasWritten has Codex itself write into the file meanwhile.
func TestUndoAfterCodexHasWritten(t *testing.T) {
	eachCodex(t, func(t *testing.T, c *setup.Codex) {
		const text = "# mine\nmodel = \"gpt-5.5\"\n"
		dir, cwd := home(t, text)
		i := installer(dir, c)
		p, err := i.Plan(t.Context(), hookWant(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Write(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		server, err := codex.Program{Path: c.Program, Env: codextest.Env(dir), Dir: cwd}.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		client := codextest.NewClient(t, server.Conn(), nil)
		client.Call("config/batchWrite", map[string]any{"edits": []any{
			map[string]any{"keyPath": "model_reasoning_effort", "value": "low", "mergeStrategy": "upsert"},
			map[string]any{"keyPath": "hooks.state", "value": map[string]any{"/other:stop:0:0": map[string]any{"trusted_hash": "sha256:3"}}, "mergeStrategy": "upsert"},
			map[string]any{"keyPath": "features.memories", "value": false, "mergeStrategy": "upsert"},
		}}, nil)
		client.Close()
		back, err := i.Undo()
		if err != nil {
			t.Fatal(err)
		}
		got := string(back.After)
		for _, kept := range []string{"# mine\nmodel = \"gpt-5.5\"\n", "model_reasoning_effort", "/other:stop:0:0", "sha256:3", "memories"} {
			if !strings.Contains(got, kept) {
				t.Errorf("undone without %q:\n%s", kept, got)
			}
		}
		for _, gone := range []string{"approval_policy", "regent", "write_stdin_approval", "PreToolUse"} {
			if strings.Contains(got, gone) {
				t.Errorf("undone with %q:\n%s", gone, got)
			}
		}
	})
}

// TestWhatCodexRefusesIsNotWritten has a configuration that is correct TOML, and
// that Codex answers by going on as if there were none.
func TestWhatCodexRefusesIsNotWritten(t *testing.T) {
	eachCodex(t, func(t *testing.T, c *setup.Codex) {
		const text = "model = 5\n"
		dir, _ := home(t, text)
		_, err := installer(dir, c).Plan(t.Context(), hookWant(t))
		if !errors.Is(err, setup.ErrRefused) || !strings.Contains(err.Error(), filepath.Join(dir, "config.toml")) {
			t.Errorf("error %v, want ErrRefused with the file", err)
		}
		if diff := cmp.Diff([]string{"config.toml"}, names(t, dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
}

// TestAnUpgradeThatDropsTrustIsNoticed has the hash of another version.
func TestAnUpgradeThatDropsTrustIsNoticed(t *testing.T) {
	eachCodex(t, func(t *testing.T, c *setup.Codex) {
		dir, cwd := home(t, "")
		i := installer(dir, c)
		want := hookWant(t)
		installed(t, i, want)
		file := filepath.Join(dir, "config.toml")
		write(t, file, regexp.MustCompile(`sha256:[0-9a-f]{8}`).ReplaceAllString(read(t, file), "sha256:00000000"))
		if diff := cmp.Diff([]string{"warn hooks"}, statuses(setup.Examine(t.Context(), *c, dir, cwd))); diff != "" {
			t.Errorf("checks (-want +got):\n%s", diff)
		}
		if r := installed(t, i, want); !r.Written || len(r.Warnings) > 0 {
			t.Errorf("again: %+v, want trust", r)
		}
		undone(t, i)
		if got := strings.TrimSpace(read(t, file)); got != "" {
			t.Errorf("undone: %s", got)
		}
	})
}
