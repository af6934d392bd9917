package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/regent-policy/regent/config"
)

func TestReplaceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "file.json")
	set := func(text string) error {
		return config.ReplaceFile(path, func([]byte) ([]byte, error) { return []byte(text), nil })
	}
	if err := set("one"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}

	broken := errors.New("no")
	if err := config.ReplaceFile(path, func(before []byte) ([]byte, error) {
		if string(before) != "one" {
			t.Errorf("before: %q", before)
		}
		return []byte("two"), broken
	}); !errors.Is(err, broken) {
		t.Errorf("error %v, want that of the edit", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "one" {
		t.Errorf("a failed edit left %q", text)
	}

	if err := os.Mkdir(filepath.Join(filepath.Dir(path), "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := config.ReplaceFile(filepath.Join(filepath.Dir(path), "folder"), func([]byte) ([]byte, error) { return nil, nil }); err == nil {
		t.Error("a folder was replaced")
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "file.json", "file.json.lock", "folder", "folder.lock":
		default:
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	unlock, err := config.LockFile(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.LockFile(path, 0); !errors.Is(err, config.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	unlock, err = config.LockFile(path, 0)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	unlock()
	link := filepath.Join(t.TempDir(), "link.lock")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := config.LockFile(link, 0); err == nil {
		t.Error("a link was followed")
	}
}

func TestWriteFileClearsUpAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(path+".tmp", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := config.WriteFile(path, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "whole" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(path + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left behind is still there: %v", err)
	}
}

func TestReplaceFileTakesTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "count")
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if err := config.ReplaceFile(path, func(before []byte) ([]byte, error) {
				n, _ := strconv.Atoi(string(before))
				return []byte(strconv.Itoa(n + 1)), nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "20" {
		t.Errorf("%q, %v; want 20: an edit was lost", text, err)
	}
}
