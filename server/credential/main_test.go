//go:build unix

package credential_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/server/credential"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock stands still until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(by)
}

// home is a folder that nobody else can write to, whatever the umask is.
func home(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unsafeCases make a file of credentials one that must not be used, after it has
// been written as it should be.
var unsafeCases = []struct {
	name string
	harm func(t *testing.T, path string)
}{
	{"others can read it", func(t *testing.T, path string) { chmod(t, path, 0o604) }},
	{"the group can read it", func(t *testing.T, path string) { chmod(t, path, 0o640) }},
	{"others can write it", func(t *testing.T, path string) { chmod(t, path, 0o602) }},
	{"the folder can be written to by the group", func(t *testing.T, path string) { chmod(t, filepath.Dir(path), 0o770) }},
	{"the folder can be written to by others", func(t *testing.T, path string) { chmod(t, filepath.Dir(path), 0o1777) }},
	{"it is a symbolic link", func(t *testing.T, path string) {
		move(t, path, path+".real")
		if err := os.Symlink(path+".real", path); err != nil {
			t.Fatal(err)
		}
	}},
	{"it is a symbolic link to nothing", func(t *testing.T, path string) {
		remove(t, path)
		if err := os.Symlink("nowhere", path); err != nil {
			t.Fatal(err)
		}
	}},
	{"it is a folder", func(t *testing.T, path string) {
		remove(t, path)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}},
	{"it is a pipe", func(t *testing.T, path string) {
		remove(t, path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}},
	{"another user owns it", func(t *testing.T, path string) { giveAway(t, path) }},
	{"another user owns the folder", func(t *testing.T, path string) { giveAway(t, filepath.Dir(path)) }},
	{"the folder is gone", func(t *testing.T, path string) { move(t, filepath.Dir(path), filepath.Dir(path)+".gone") }},
}

func chmod(t *testing.T, path string, mode uint32) {
	t.Helper()
	if err := syscall.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
}

// wantFileError checks that err names the file or its folder and is of a kind.
func wantFileError(t *testing.T, err error, path string, kind error) {
	t.Helper()
	fault, ok := errors.AsType[*credential.FileError](err)
	if !ok || !errors.Is(err, kind) {
		t.Fatalf("error %v, want a FileError that is %q", err, kind)
	}
	if fault.Path != path && fault.Path != filepath.Dir(path) {
		t.Errorf("the error names %s, want %s or its folder", fault.Path, path)
	}
}
