package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/config"
)

// TrustFile is the file of a home that holds the workspaces which are trusted.
const TrustFile = "trust.json"

// Trust is which workspaces the owner of a home vouches for. It is safe for
// concurrent use, and sees what other processes change.
type Trust struct {
	path string

	mu    sync.Mutex
	stamp config.Stamp
	read  bool
	dirs  map[string]Trusted
	err   error
}

// Trusted is one entry of the trust.
type Trusted struct {
	// Dir is the folder that holds the config.yaml, symbolic links resolved.
	Dir string `json:"dir"`
	// By is the principal who said so, and At when.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

type trustFile struct {
	Version    int       `json:"version"`
	Workspaces []Trusted `json:"workspaces"`
}

// ErrUnfit means that a folder cannot be trusted as it is, because others can
// change what is in it. Mend its owner or mode first.
var ErrUnfit = errors.New("the folder can be changed by others")

// NewTrust returns the trust of a home. Its file need not exist.
func NewTrust(home string) *Trust { return &Trust{path: filepath.Join(home, TrustFile)} }

// Has tells whether a workspace is trusted. While the file cannot be read none
// is; List says why.
func (t *Trust) Has(dir string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh()
	_, ok := t.dirs[dir]
	return ok
}

// List returns the entries in the order of their folders.
func (t *Trust) List() ([]Trusted, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh()
	return t.sorted(), t.err
}

func (t *Trust) sorted() []Trusted {
	out := make([]Trusted, 0, len(t.dirs))
	for _, one := range t.dirs {
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Trusted) int { return strings.Compare(a.Dir, b.Dir) })
	return out
}

// refresh reads the file if it is another than the last time.
func (t *Trust) refresh() {
	stamp := config.StampOf(t.path)
	if t.read && stamp == t.stamp && stamp.Settled(time.Now()) {
		return
	}
	t.stamp, t.read = stamp, true
	t.dirs, t.err = readTrust(t.path)
}

func readTrust(path string) (map[string]Trusted, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which workspaces are trusted: %w", err)
	}
	var file trustFile
	if err := jsonv2.Unmarshal(data, &file, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w; until it is mended no workspace is trusted", path, err)
	}
	if file.Version != 1 {
		return nil, fmt.Errorf("%s: version %d is not known to this regent; until it is mended no workspace is trusted", path, file.Version)
	}
	dirs := make(map[string]Trusted, len(file.Workspaces))
	for _, one := range file.Workspaces {
		dirs[one.Dir] = one
	}
	return dirs, nil
}

// Add trusts the workspace in a folder, which may be named as the project that
// holds it, and returns its entry. Besides [ErrNoWorkspace] there is [ErrUnfit].
func (t *Trust) Add(folder, by string, at time.Time) (Trusted, error) {
	dir, err := Canonical(folder)
	if err != nil {
		return Trusted{}, err
	}
	if err := fit(dir); err != nil {
		return Trusted{}, err
	}
	one := Trusted{Dir: dir, By: by, At: at.UTC().Truncate(time.Second)}
	return one, t.change(func(dirs map[string]Trusted) error {
		dirs[dir] = one
		return nil
	})
}

// fit refuses a workspace that others can change. It is looked at again whenever
// the workspace is loaded.
func fit(dir string) error {
	for _, path := range []string{dir, filepath.Join(dir, config.FileName)} {
		if err := fitToTrust(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Remove trusts a workspace no more. A folder that is gone is named as it was
// listed. It is an fs.ErrNotExist if it was not trusted.
func (t *Trust) Remove(folder string) (dir string, err error) {
	return dir, t.change(func(dirs map[string]Trusted) error {
		candidates := []string{folder, filepath.Join(folder, config.WorkspaceDir)}
		if absolute, err := filepath.Abs(folder); err == nil {
			candidates = append(candidates, absolute, filepath.Join(absolute, config.WorkspaceDir))
		}
		if known, err := Canonical(folder); err == nil {
			candidates = append(candidates, known)
		}
		for _, dir = range candidates {
			if _, ok := dirs[dir]; ok {
				delete(dirs, dir)
				return nil
			}
		}
		return fmt.Errorf("%s is not trusted: %w", folder, fs.ErrNotExist)
	})
}

// change reads the file, has it changed and replaces it, with other processes
// kept out meanwhile.
func (t *Trust) change(edit func(map[string]Trusted) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return config.ReplaceFile(t.path, func(before []byte) ([]byte, error) {
		dirs, err := readTrust(t.path)
		if err != nil {
			return nil, err
		}
		if dirs == nil {
			dirs = map[string]Trusted{}
		}
		if err := edit(dirs); err != nil {
			return nil, err
		}
		t.dirs, t.read = dirs, false
		text, err := json.MarshalIndent(trustFile{Version: 1, Workspaces: t.sorted()}, "", "  ")
		return append(text, '\n'), err
	})
}

// Canonical returns the folder that holds the config.yaml of a workspace, by the
// one name that all its names lead to. folder is that one or the project.
func Canonical(folder string) (string, error) {
	dir, err := workspaceDir(folder)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("workspace %s: %w", folder, err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("workspace %s: %w", folder, err)
	}
	return dir, nil
}
