package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/diff"
)

const (
	// ConfigName is the configuration in a CODEX_HOME.
	ConfigName = "config.toml"
	// RecordName is the file beside it that has the [Record].
	RecordName = "regent-install.json"
	// backupName is followed by a time.
	backupName = ConfigName + ".regent-backup-"
	// maxConfig bounds a configuration in bytes.
	maxConfig = 16 << 20
)

// ErrMoved means that a configuration was changed while it was looked at. Nothing
// was written; do it again.
var ErrMoved = errors.New("the configuration has changed meanwhile")

// CodexHome is the home of Codex: $CODEX_HOME, else .codex in the user's own.
func CodexHome(getenv func(string) string) (string, error) {
	if dir := getenv("CODEX_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	home := getenv("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", fmt.Errorf("find the home of Codex: %w", err)
		}
	}
	return filepath.Abs(filepath.Join(home, ".codex"))
}

// config is config.toml as it was read.
type config struct {
	path string // as the user knows it
	real string // where links lead
	mode fs.FileMode
	text []byte
	new  bool
}

func readConfig(home string) (*config, error) {
	c := &config{path: filepath.Join(home, ConfigName), mode: 0o600}
	c.real = c.path
	info, err := os.Lstat(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		c.new = true
		return c, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the configuration of Codex: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if c.real, err = filepath.EvalSymlinks(c.path); err != nil {
			return nil, fmt.Errorf("read the configuration of Codex: %w", err)
		}
		if info, err = os.Stat(c.real); err != nil {
			return nil, fmt.Errorf("read the configuration of Codex: %w", err)
		}
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", c.path)
	}
	if info.Size() > maxConfig {
		return nil, fmt.Errorf("%s is larger than %d bytes", c.path, maxConfig)
	}
	c.mode = info.Mode().Perm()
	if c.text, err = os.ReadFile(c.real); err != nil {
		return nil, fmt.Errorf("read the configuration of Codex: %w", err)
	}
	return c, nil
}

// write puts text in the place of what was read, as a whole, with the mode that it
// had and through links. Where it is not what was read any more it is [ErrMoved].
func (c *config) write(text []byte) error {
	dir := filepath.Dir(c.real)
	temp, err := os.CreateTemp(dir, ".config.toml.regent-")
	if err != nil {
		return fmt.Errorf("write %s: %w", c.path, err)
	}
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(c.mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = c.unmoved()
	}
	if err == nil {
		err = os.Rename(temp.Name(), c.real)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", c.path, err), os.Remove(temp.Name()))
	}
	return syncDir(dir)
}

func (c *config) unmoved() error {
	now, err := os.ReadFile(c.real)
	if errors.Is(err, fs.ErrNotExist) && c.new {
		return nil
	} else if err != nil {
		return err
	}
	if c.new || !bytes.Equal(now, c.text) {
		return ErrMoved
	}
	return nil
}

// backup keeps what was read beside the configuration, and returns where.
func (c *config) backup(now time.Time) (string, error) {
	stamp := c.path[:len(c.path)-len(ConfigName)] + backupName + now.UTC().Format("20060102T150405Z")
	for i := 1; ; i++ {
		name := stamp
		if i > 1 {
			name = fmt.Sprintf("%s-%d", stamp, i)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, c.mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return "", fmt.Errorf("keep a backup: %w", err)
		}
		_, err = f.Write(c.text)
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return "", errors.Join(fmt.Errorf("keep a backup: %w", err), os.Remove(name))
		}
		return name, nil
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readRecord returns what is recorded in a home of Codex; ok is false where there
// is nothing.
func readRecord(home string) (record Record, ok bool, err error) {
	file := filepath.Join(home, RecordName)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	} else if err != nil {
		return Record{}, false, err
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return Record{}, false, fmt.Errorf("%s: %w", file, err)
	}
	if record.Version != recordVersion {
		return Record{}, false, fmt.Errorf("%s is of version %d, and this is a Regent for version %d", file, record.Version, recordVersion)
	}
	return record, true, nil
}

const recordVersion = 1

func writeRecord(home string, record Record) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(home, "."+RecordName+"-") // its mode is 0600
	if err != nil {
		return fmt.Errorf("record what is written: %w", err)
	}
	_, err = temp.Write(append(text, '\n'))
	if err == nil {
		err = temp.Sync()
	}
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), filepath.Join(home, RecordName))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("record what is written: %w", err), os.Remove(temp.Name()))
	}
	return nil
}

// Diff is the plan as a unified diff; empty where nothing changes.
func (p *Plan) Diff() string {
	before := p.File
	if p.new {
		before = os.DevNull
	}
	return string(diff.Diff(before, p.Before, p.File, p.After))
}
