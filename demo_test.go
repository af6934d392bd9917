package regent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regent-policy/regent/harness/codex/codextest"
)

// TestTour runs what `make demo` runs, and looks for what it is to show.
func TestTour(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "regent"), "./cmd/regent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	tour := exec.CommandContext(t.Context(), "sh", "examples/quickstart/demo.sh")
	// A socket's path must be short, so the tour makes its home where it likes.
	tour.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR=/tmp")
	out, err := tour.CombinedOutput()
	if err != nil {
		t.Fatalf("demo.sh: %v\n%s", err, out)
	}
	inOrder(t, string(out),
		"regent serve: ready on ",
		"trusted ",
		"ALLOW  command  grep -rn TODO src",
		"DENY  command  make test && git push --force origin main",
		"pending",
		"npm publish --access public",
		"decided: allow",
		"released by hand last time, too",
		"ASK  command  make build",
		"DENY  command  make build",
		"FREEZE-001",
		" events about 3 approvals",
	)
}

// TestCodexTour runs what `make demo-codex` runs, with the newest Codex.
func TestCodexTour(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	codex := codextest.Binary(t, codextest.Newest)
	bin := t.TempDir()
	for name, from := range map[string]string{"regent": "./cmd/regent", "scripted-model": "./examples/codex/model"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, name), from)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	tour := exec.CommandContext(t.Context(), "sh", "examples/codex/demo.sh")
	tour.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR=/tmp", "REGENT_DEMO_CODEX="+codex)
	out, err := tour.CombinedOutput()
	if err != nil {
		t.Fatalf("demo.sh: %v\n%s", err, out)
	}
	inOrder(t, string(out),
		"$ regent codex exec 'publish the fix'",
		"PENDING  command  git push origin HEAD:fix",
		"decided: allow",
		"PENDING  permissions",
		"ceiling     scope turn",
		"dropped  granted network: not in the ceiling",
		"PENDING  file_change  add",
		"ALLOW  command  go test ./...  (rule CDX-001)",
		"DENY  command  git push --force origin main  (rule CDX-002)",
		"ALLOW  file_change  add",
		"please open a pull request",
		"ok: 25 events about 5 approvals",
	)
}

// inOrder fails unless a text has what is wanted, one after the other.
func inOrder(t *testing.T, text string, wants ...string) {
	t.Helper()
	rest := text
	for _, want := range wants {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q does not follow; the whole:\n%s", want, text)
		}
		rest = after
	}
}
