package socket_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/regent-policy/regent/server/socket"
)

func TestListen(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	leftover := func(path string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return l.Close()
	}
	for _, tc := range []struct {
		name  string
		there func(path string) error
		want  error
	}{
		{"nothing is there", func(string) error { return nil }, nil},
		{"one that a crash has left is replaced", leftover, nil},
		{"a file is kept", func(path string) error { return os.WriteFile(path, []byte("precious"), 0o600) }, socket.ErrTaken},
		{"a folder is kept", func(path string) error { return os.Mkdir(path, 0o700) }, socket.ErrTaken},
		{"a link to nothing is kept", func(path string) error { return os.Symlink(path+"-nothing", path) }, socket.ErrTaken},
		{"one that somebody listens on is kept", func(path string) error {
			l, err := socket.Listen(path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}, socket.ErrInUse},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(dir, filepath.Base(t.Name())[:8])
			t.Cleanup(func() { _ = os.RemoveAll(path) })
			if err := tc.there(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			l, err := socket.Listen(path)
			if !errors.Is(err, tc.want) {
				t.Fatalf("Listen: %v, want %v", err, tc.want)
			}
			at, failed := os.Lstat(path)
			if failed != nil {
				t.Fatal(failed)
			}
			if err != nil {
				if !os.SameFile(before, at) {
					t.Error("what was there is another file now")
				}
				return
			}
			defer func() { _ = l.Close() }()
			if at.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("mode %v", at.Mode())
			}
		})
	}
}
