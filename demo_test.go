package regent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	rest := string(out)
	for _, want := range []string{
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
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q does not follow; the whole:\n%s", want, out)
		}
		rest = after
	}
}
