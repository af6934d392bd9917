package config_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/regent-policy/regent/config"
)

func ExampleWatcher_Watch() {
	home, err := os.MkdirTemp("", "regent")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(home)

	watcher := config.NewWatcher(config.WatcherOptions{})
	defer watcher.Close()

	// Watch first and read then: an edit that comes between is reported.
	changed := make(chan struct{}, 1)
	watch := watcher.Watch([]string{filepath.Join(home, config.FileName)}, func() { changed <- struct{}{} })
	defer watch.Close()
	before, _, err := config.LoadHome(home)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(before.Permissions.Mode)

	// An editor writes a new file and renames it.
	text := []byte("version: 1\npermissions: {mode: manual}\n")
	if err := os.WriteFile(filepath.Join(home, "config.yaml~"), text, 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Rename(filepath.Join(home, "config.yaml~"), filepath.Join(home, config.FileName)); err != nil {
		log.Fatal(err)
	}
	<-changed
	after, _, err := config.LoadHome(home)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(after.Permissions.Mode)
	// Output:
	// model_review
	// manual
}
