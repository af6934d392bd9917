package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ReplaceFile replaces a file of a home with what edit makes of it, readable by
// its owner alone. before is nil where there is no file yet; its folder is made.
//
// Processes that use this function take turns. Others see the file as it was or
// as it is, never a part, and what was replaced is on disk when the function
// returns. An error of edit leaves the file alone and is returned as it is.
func ReplaceFile(path string, edit func(before []byte) (after []byte, err error)) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	defer unlock()
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	after, err := edit(before)
	if err != nil {
		return err
	}
	if err := writeWhole(dir, path, after); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

func writeWhole(dir, path string, data []byte) (err error) {
	temp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

// syncFolder makes a rename durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
