// Package codextest has the real Codex for tests: its binaries from npm, homes to
// run it in, and a client that plays its user.
package codextest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Oldest is the oldest version that Regent is tested with; Newest stands for the
// newest one that npm has.
const (
	Oldest = "0.156.1"
	Newest = "newest"
)

// Versions are those that tests run with.
var Versions = []string{Oldest, Newest}

// CacheVar is the environment variable with the folder that Codex is installed
// to; without it that is regent/codex in the user's cache.
const CacheVar = "REGENT_CODEX_CACHE"

const (
	// installTime is how long npm may take.
	installTime = 10 * time.Minute
	// newestFor is how long it is not asked again which version is the newest.
	newestFor = 24 * time.Hour
)

// ErrNoNPM means that Codex is not there and npm cannot bring it.
var ErrNoNPM = errors.New("the real Codex is not tested: npm is missing or cannot fetch @openai/codex")

// Binary returns the native program of a version. Where it cannot be had the test
// is skipped, and fails where CI is set.
func Binary(tb testing.TB, version string) string {
	tb.Helper()
	path, err := Install(tb.Context(), version)
	switch {
	case err == nil:
		return path
	case errors.Is(err, ErrNoNPM):
		missing(tb, err.Error())
	default:
		tb.Fatal(err)
	}
	return ""
}

// Install returns the native program of a version, and brings it by npm first
// unless it is there.
func Install(ctx context.Context, version string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, installTime, errors.New("npm takes too long"))
	defer cancel()
	if version == Newest {
		if version, err = newest(ctx, cache); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(cache, version)
	if path, ok := binary(dir); ok {
		return path, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, version+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if path, ok := binary(dir); ok {
		return path, nil // another process has brought it meanwhile
	}
	// A process that was killed has left some hundred megabytes behind; the lock says
	// that nobody is at work on them.
	fresh := filepath.Join(cache, "install-"+version)
	if err := errors.Join(os.RemoveAll(fresh), os.Mkdir(fresh, 0o755)); err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if _, err := npm(ctx, "install", "--prefix", fresh, "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "@openai/codex@"+version); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	path, ok := binary(dir)
	if !ok {
		return "", fmt.Errorf("%s has no program of Codex %s for this machine (%s/%s)", dir, version, runtime.GOOS, runtime.GOARCH)
	}
	return path, nil
}

// userCache is taken before a test gives itself another home.
var userCache, errUserCache = os.UserCacheDir()

func cacheDir() (string, error) {
	if dir := os.Getenv(CacheVar); dir != "" {
		return dir, nil
	}
	dir, err := userCache, errUserCache
	if err != nil {
		return "", fmt.Errorf("name a folder for Codex in $%s: %w", CacheVar, err)
	}
	return filepath.Join(dir, "regent", "codex"), nil
}

// binary is the program in an installed package.
func binary(dir string) (string, bool) {
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", "@openai", "codex-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(found) != 1 {
		return "", false
	}
	return found[0], true
}

// newest is the newest version, which is remembered for a day.
func newest(ctx context.Context, cache string) (string, error) {
	note := filepath.Join(cache, "newest.json")
	var known struct {
		Version string    `json:"version"`
		At      time.Time `json:"at"`
	}
	if text, err := os.ReadFile(note); err == nil && json.Unmarshal(text, &known) == nil && known.Version != "" && time.Since(known.At) < newestFor {
		return known.Version, nil
	}
	out, err := npm(ctx, "view", "@openai/codex", "version")
	if err != nil {
		if known.Version != "" {
			return known.Version, nil // the one before is better than none
		}
		return "", err
	}
	known.Version, known.At = strings.TrimSpace(out), time.Now()
	text, err := json.Marshal(known)
	if err != nil {
		return "", err
	}
	fresh, err := os.CreateTemp(cache, "newest-")
	if err != nil {
		return "", err
	}
	_, err = fresh.Write(text)
	if err := errors.Join(err, fresh.Close()); err != nil {
		return "", err
	}
	return known.Version, os.Rename(fresh.Name(), note)
}

func npm(ctx context.Context, args ...string) (string, error) {
	program, err := exec.LookPath("npm")
	if err != nil {
		return "", ErrNoNPM
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: npm %s: %w: %.300s", ErrNoNPM, args[0], err, out)
	}
	return string(out), nil
}

// Config is what a home is made of.
type Config struct {
	// URL is the base_url of the model.
	URL string
	// Model is the model: one that has apply_patch if empty.
	Model string
	// ApprovalPolicy, Sandbox are on-request and workspace-write if empty.
	ApprovalPolicy, Sandbox string
	// More goes to the end of config.toml, and Top before its first table.
	Top, More string
}

// Home makes a CODEX_HOME and a folder to work in, and returns both. A folder
// "outside" stands beside the latter, where nothing may be written unasked.
func Home(tb testing.TB, c Config) (home, cwd string) {
	tb.Helper()
	root, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	home, cwd = filepath.Join(root, "codex"), filepath.Join(root, "repo")
	for _, dir := range []string{home, cwd, Outside(cwd)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	or := func(value, standard string) string {
		if value != "" {
			return value
		}
		return standard
	}
	text := fmt.Sprintf(`model = %q
model_provider = "scripted"
approval_policy = %q
sandbox_mode = %q
check_for_update_on_startup = false
suppress_unstable_features_warning = true
%s
[model_providers.scripted]
name = "scripted"
base_url = %q
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
[analytics]
enabled = false
[sandbox_workspace_write]
network_access = false
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
[features]
request_permissions_tool = true
exec_permission_approvals = true
write_stdin_approval = true
plugins = false
remote_plugin = false
apps = false
%s
`, or(c.Model, "gpt-5.5"), or(c.ApprovalPolicy, "on-request"), or(c.Sandbox, "workspace-write"), c.Top, c.URL, c.More)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return home, cwd
}

// Outside is the folder beside the one that Codex works in.
func Outside(cwd string) string { return filepath.Join(filepath.Dir(cwd), "outside") }

// Env is the environment of a Codex of a home: this process's, with nothing of the
// user's own.
func Env(home string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case strings.HasPrefix(name, "CODEX_"), strings.HasPrefix(name, "OPENAI_"), name == "HOME":
		default:
			env = append(env, v)
		}
	}
	return append(env, "HOME="+filepath.Dir(home), "CODEX_HOME="+home)
}
