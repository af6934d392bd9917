package setup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/codex/setup"
)

func installed(t testing.TB, i setup.Installer, want setup.Want) setup.Result {
	t.Helper()
	p, err := i.Plan(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	r, err := i.Write(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func undone(t testing.TB, i setup.Installer) setup.Result {
	t.Helper()
	p, err := i.Undo()
	if err != nil {
		t.Fatal(err)
	}
	r, err := i.Write(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// names are the files in a folder.
func names(t testing.TB, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}

func TestBackupAndRecord(t *testing.T) {
	dir, _ := home(t, "model = \"x\"\n")
	i := installer(dir, nil)
	r := installed(t, i, settings)
	backup := filepath.Join(dir, "config.toml.regent-backup-20261201T010203Z")
	if !r.Written || r.Backup != backup || read(t, backup) != "model = \"x\"\n" {
		t.Errorf("result %+v, want the backup %s", r, backup)
	}
	want := []string{"config.toml", filepath.Base(backup), setup.RecordName}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if r := installed(t, i, settings); r.Written || r.Backup != "" {
		t.Errorf("again: %+v, want nothing", r)
	}
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("files after the second time (-want +got):\n%s", diff)
	}
	if r := undone(t, i); r.Backup != backup+"-2" {
		t.Errorf("undone: %+v, want a second backup", r)
	}
	if _, err := i.Undo(); !errors.Is(err, setup.ErrNotInstalled) {
		t.Errorf("undone twice: %v, want ErrNotInstalled", err)
	}
}

func TestAFileThatWasNotThereIsGoneAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "codex")
	i := installer(dir, nil)
	if r := installed(t, i, setup.Want{Hook: command}); r.Backup != "" {
		t.Errorf("a backup of nothing: %+v", r)
	}
	info, err := os.Stat(filepath.Join(dir, "config.toml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	undone(t, i)
	if _, err := os.Lstat(filepath.Join(dir, "config.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("config.toml: %v, want none", err)
	}
}

func TestModeAndLinkStay(t *testing.T) {
	dir, _ := home(t, "")
	real := filepath.Join(t.TempDir(), "dotfiles", "codex.toml")
	write(t, real, "model = \"x\"\n")
	if err := os.Chmod(real, 0o640); err != nil { //nolint:gosec // the mode is what is tested
		t.Fatal(err)
	}
	link := filepath.Join(dir, "config.toml")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	installed(t, installer(dir, nil), settings)
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%s is no link any more: %v", link, err)
	}
	if info, err = os.Stat(real); err != nil || info.Mode().Perm() != 0o640 || !strings.Contains(read(t, real), "approval_policy") {
		t.Errorf("what it leads to: mode %v, %v", info.Mode(), err)
	}
	if diff := cmp.Diff([]string{"codex.toml"}, names(t, filepath.Dir(real))); diff != "" {
		t.Errorf("files beside it (-want +got):\n%s", diff)
	}
}

func TestNothingIsWrittenWhere(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
		want error
	}{
		{"the file is no TOML", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "config.toml"), "a = \n") }, nil},
		{"it is a folder", func(t *testing.T, dir string) {
			file := filepath.Join(dir, "config.toml")
			if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o755)); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"the link leads nowhere", func(t *testing.T, dir string) {
			file := filepath.Join(dir, "config.toml")
			if err := errors.Join(os.Remove(file), os.Symlink("/nowhere/config.toml", file)); err != nil {
				t.Fatal(err)
			}
		}, fs.ErrNotExist},
		{"the record is of another version", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, setup.RecordName), `{"version":9}`)
		}, nil},
		{"the record is no JSON", func(t *testing.T, dir string) { write(t, filepath.Join(dir, setup.RecordName), "{") }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, _ := home(t, "")
			tt.make(t, dir)
			before := names(t, dir)
			_, err := installer(dir, nil).Plan(t.Context(), settings)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(before, names(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFileThatHasMovedOnIsLeftAlone(t *testing.T) {
	for name, edit := range map[string]func(file string) error{
		"it was edited": func(file string) error { return os.WriteFile(file, []byte("b = 2\n"), 0o600) },
		"it is gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := home(t, "a = 1\n")
			i := installer(dir, nil)
			p, err := i.Plan(t.Context(), settings)
			if err != nil {
				t.Fatal(err)
			}
			if err := edit(filepath.Join(dir, "config.toml")); err != nil {
				t.Fatal(err)
			}
			before := names(t, dir)
			if _, err := i.Write(t.Context(), p); !errors.Is(err, setup.ErrMoved) {
				t.Errorf("error %v, want ErrMoved", err)
			}
			if diff := cmp.Diff(before, names(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFolderThatCannotBeWrittenIsAnError(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir, _ := home(t, "a = 1\n")
	if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // it is a folder
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // to let the test clean up
	i := installer(dir, nil)
	p, err := i.Plan(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Write(t.Context(), p); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v, want a permission error", err)
	}
}

func TestOtherConfigurationsAreToldOf(t *testing.T) {
	dir, cwd := home(t, "")
	write(t, filepath.Join(dir, "fast.config.toml"), "sandbox_mode = \"danger-full-access\"\n")
	write(t, filepath.Join(cwd, ".codex", "config.toml"), "approvals_reviewer = \"auto_review\"\n")
	write(t, filepath.Join(filepath.Dir(cwd), ".codex", "config.toml"), "x = \n")
	i := installer(dir, nil)
	i.Cwd = cwd
	p, err := i.Plan(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	for n, part := range []string{"fast.config.toml has sandbox_mode", "repo/.codex/config.toml has approvals_reviewer", ".codex/config.toml cannot be read"} {
		if len(p.Warnings) <= n || !strings.Contains(p.Warnings[n], part) {
			t.Errorf("warnings %q lack %q", p.Warnings, part)
		}
	}
}

func TestDiffNamesTheFile(t *testing.T) {
	dir, _ := home(t, "model = \"x\"\n")
	p, err := installer(dir, nil).Plan(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.toml")
	for _, line := range []string{"--- " + file, "+++ " + file, ` model = "x"`, `+approval_policy = "on-request"`} {
		if !slices.Contains(strings.Split(p.Diff(), "\n"), line) {
			t.Errorf("no line %q in\n%s", line, p.Diff())
		}
	}
}

func TestRequirementsAreTOML(t *testing.T) {
	text := setup.Requirements("/opt/regent/regent-hook", command)
	for _, part := range []string{`allowed_approval_policies = ["on-request"]`, `managed_dir = "/opt/regent"`, `command = "` + command + `"`, "allow_managed_hooks_only = true"} {
		if !strings.Contains(text, part) {
			t.Errorf("requirements lack %s:\n%s", part, text)
		}
	}
	// It is read as a configuration is, and has the hooks that an installation has.
	p := plan(t, text, setup.Record{}, setup.Want{Hook: command})
	if slices.ContainsFunc(p.Changes, func(c setup.Change) bool { return strings.HasPrefix(c.Key, "hooks") }) {
		t.Errorf("hooks are missing: %v", p.Changes)
	}
	if none := setup.Requirements("", ""); strings.Contains(none, "hooks") {
		t.Errorf("hooks without a command:\n%s", none)
	}
}

func TestCodexHome(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string
	}{
		"CODEX_HOME":     {map[string]string{"CODEX_HOME": "/x/codex", "HOME": "/home/sam"}, "/x/codex"},
		"the user's own": {map[string]string{"HOME": "/home/sam"}, "/home/sam/.codex"},
	} {
		got, err := setup.CodexHome(func(name string) string { return tt.env[name] })
		if err != nil || got != tt.want {
			t.Errorf("%s: CodexHome = %q, %v, want %q", name, got, err, tt.want)
		}
	}
}
