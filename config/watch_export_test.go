package config

import (
	"github.com/fsnotify/fsnotify"
)

// What follows lets the external tests put failures in the place of the system's
// file events, which no test can cause at will.

type FileEvents = notifier

func NewWatcherOn(o WatcherOptions, system FileEvents, events <-chan fsnotify.Event, faults <-chan error) *Watcher {
	return newWatcher(o, system, events, faults, nil)
}

func NewWatcherWithout(o WatcherOptions, missing error) *Watcher {
	return newWatcher(o, nil, nil, nil, missing)
}

// Look does what a tick does, for benchmarks.
func (v *Watch) Look() Identity {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.look()
}

// Settle does what time does, for benchmarks: files that do not change are not
// read any more.
func (v *Watch) Settle() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, c := range v.surveyor.known {
		c.settled = true
		v.surveyor.known[name] = c
	}
}
