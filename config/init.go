package config

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed template
var templates embed.FS

// Init writes a small workspace to the folder dir, which is created if it does
// not exist: a config.yaml with comments, some rules to start from and their
// tests. It returns the files written, as paths that start with dir.
//
// Init never changes a file that exists. It fails with an error that wraps
// fs.ErrExist then, and writes nothing; after any other error it removes what
// it had written.
func Init(dir string) (files []string, err error) {
	content, err := fs.Sub(templates, "template")
	if err != nil {
		return nil, fmt.Errorf("init %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("init %s: %w", dir, err)
	}
	// All files are opened below root, so that no symbolic link in dir can lead
	// a write out of it.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("init %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()

	var names []string
	err = fs.WalkDir(content, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		names = append(names, name)
		if _, err := root.Lstat(name); err == nil {
			return fmt.Errorf("%s is there already, nothing was written: %w", filepath.Join(dir, name), fs.ErrExist)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("init %s: %w", dir, err)
	}

	for _, name := range names {
		if err := write(root, content, name); err != nil {
			for _, written := range files {
				err = errors.Join(err, os.Remove(written))
			}
			return nil, fmt.Errorf("init %s: %w", dir, err)
		}
		files = append(files, filepath.Join(dir, name))
	}
	return files, nil
}

// write creates one file. A file that somebody else created in the meantime
// stays as it is.
func write(root *os.Root, content fs.FS, name string) error {
	data, err := fs.ReadFile(content, name)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close(), root.Remove(name))
	}
	if err := f.Close(); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	return nil
}
