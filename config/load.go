package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Load reads and checks the configuration file at path, and whether the files
// that it refers to are there. Relative paths in it start at its folder, also
// where path is a symbolic link. Warnings come in the order of the file.
//
// The error, if any, is an *Error, and the Config is nil then. It wraps
// fs.ErrNotExist where there is no such file, but also where something the file
// refers to is missing: the former has no Line.
func Load(path string) (*Config, []Warning, error) {
	data, fault := read(path)
	if fault != nil {
		return nil, nil, fault
	}
	c, warnings, fault := parse(path, data)
	if fault != nil {
		return nil, nil, fault
	}
	k := &checker{c: c, warnings: warnings}
	k.defaultPolicies()
	k.files()
	if fault := k.first(); fault != nil {
		return nil, nil, fault
	}
	return c, k.sorted(), nil
}

// LoadHome reads the configuration of the home at dir. A home without a
// config.yaml has the defaults, and its folder of policies if there is one.
func LoadHome(dir string) (*Config, []Warning, error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return Load(path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, &Error{File: path, Message: "cannot tell the folder that paths start at", Err: err}
	}
	c := Default(filepath.Dir(abs))
	c.Path, c.file = abs, path
	k := &checker{c: c}
	k.defaultPolicies()
	if fault := k.first(); fault != nil {
		return nil, nil, fault
	}
	return c, nil, nil
}

// defaultPolicies fills in policy.paths where the file does not name any. What
// is called policies and is no readable folder is a fault: rules that silently
// do not count are worse than an error.
func (k *checker) defaultPolicies() {
	if k.written("policy.paths") {
		return
	}
	dir := filepath.Join(k.c.Dir, "policies")
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return
	}
	info, ok := k.stat("policy.paths", dir, "repair it, or write policy.paths")
	if ok && !info.IsDir() {
		k.fault("policy.paths", dir+" is not a folder", "rename it, or write policy.paths", nil)
	}
	k.c.Policy.Paths = []string{dir}
}

// read returns the content of a regular file of at most MaxSize bytes. It does
// not wait for a pipe that somebody put in the file's place.
func read(path string) ([]byte, *Error) {
	fail := func(err error) ([]byte, *Error) {
		message := "cannot be read: " + reason(err)
		if errors.Is(err, fs.ErrNotExist) {
			message = "does not exist"
		}
		return nil, &Error{File: path, Message: message, Err: err}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	defer f.Close() // read only: nothing is lost if it fails
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{File: path, Message: "is not a file", Hint: fmt.Sprintf("name the %s itself", FileName)}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return fail(err)
	}
	return data, nil
}
