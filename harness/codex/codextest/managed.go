package codextest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Managed returns a program that runs the Codex at binary as if requirements were
// the machine's /etc/codex/requirements.toml, which is the only place that Codex
// 0.156.1 and 0.171.0 take them from. The machine's own /etc is left alone: the
// program sees another one, in a mount namespace of its own. Where the machine does
// not let users make those, the test is skipped, and fails where CI is set.
func Managed(tb testing.TB, binary, requirements string) string {
	tb.Helper()
	root, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	etc := filepath.Join(root, "etc")
	if err := os.MkdirAll(filepath.Join(etc, "codex"), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(etc, "codex", "requirements.toml"), []byte(requirements), 0o644); err != nil {
		tb.Fatal(err)
	}
	// Each step replaces the process, so that its id and its signals stay Codex's.
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --user --map-root-user --mount sh -c 'mount -t overlay overlay -o lowerdir=%s:/etc /etc && exec \"$0\" \"$@\"' %s \"$@\"\n",
		etc, quoted(binary))
	program := filepath.Join(root, "codex")
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		tb.Fatal(err)
	}
	probe := exec.CommandContext(tb.Context(), program, "--version")
	probe.Env = Env(filepath.Join(root, "home"))
	if out, err := probe.CombinedOutput(); err != nil {
		missing(tb, fmt.Sprintf("managed requirements are not tested: no mount namespaces here: %v: %.300s", err, out))
	}
	return program
}

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// missing skips a test that needs what this machine does not have. Where CI is set
// the test fails: what is never run there is run nowhere.
func missing(tb testing.TB, why string) {
	tb.Helper()
	if ci() {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

func ci() bool {
	switch os.Getenv("CI") {
	case "", "0", "false":
		return false
	default:
		return true
	}
}
