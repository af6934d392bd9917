package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatcherOptions are the options of a Watcher. The zero value has the defaults.
type WatcherOptions struct {
	// Debounce is how long no further event has to come before a change is looked
	// at, so that an edit of many files is reported once; 25 ms where it is 0.
	// Where events keep coming, ten times as long is waited and no longer.
	Debounce time.Duration

	// Tick is how often everything is looked at though no event came; 1 s where
	// it is 0. It finds what file systems without events hold, and what events do
	// not tell. A look at ten files in three folders takes about 100 µs, so that
	// 200 such watches take 2 % of one core.
	Tick time.Duration

	// Log is told once that events are missing; nil for nobody.
	Log *slog.Logger
}

// The defaults, and what bounds a watch.
const (
	defaultDebounce = 25 * time.Millisecond
	defaultTick     = time.Second
	// patience is how many times Debounce the end of a run of events is waited for.
	patience = 10
	// maxFolders is how many folders one watch has the system look at. A home must
	// not use up what is meant for all programs of its user.
	maxFolders = 1000
	// maxRounds is how often folders that came to light are watched and looked
	// at again before the rest is left for the next turn.
	maxRounds = 8
)

// Watcher watches files and folders for any number of watches, with one
// connection to the system's file events. Folders are watched and never files,
// so that a file which is replaced stays watched; a folder that several watches
// need is watched once. It is safe for concurrent use. Make one with NewWatcher.
type Watcher struct {
	debounce, tick time.Duration
	log            *slog.Logger
	running        sync.WaitGroup

	// system is nil where events cannot be had; missing says why.
	system  notifier
	missing error

	// changing is held while folders are added to and removed from system. The
	// goroutine that reads events never takes it: fsnotify may hold on to its own
	// lock until somebody reads.
	changing sync.Mutex
	told     bool // guarded by changing

	// mu guards what follows. Whoever holds it does not wait.
	mu      sync.Mutex
	closed  bool
	watches map[*Watch]struct{}
	folders map[string]*folder
}

// notifier is what a Watcher needs of an fsnotify.Watcher. Its events and errors
// end with its Close.
type notifier interface {
	Add(folder string) error
	Remove(folder string) error
	Close() error
}

// folder is a folder that at least one watch needs.
type folder struct {
	watches map[*Watch]struct{}
	// err is why the system does not watch it, and nil where it does.
	err error
}

// NewWatcher starts a Watcher. Where the system has no file events to give, for
// one because the user's programs use up all that there may be, it still finds
// every change, if no sooner than at the next tick; see Degraded.
func NewWatcher(o WatcherOptions) *Watcher {
	system, err := fsnotify.NewWatcher()
	if err != nil {
		return newWatcher(o, nil, nil, nil, err)
	}
	return newWatcher(o, system, system.Events, system.Errors, nil)
}

func newWatcher(o WatcherOptions, system notifier, events <-chan fsnotify.Event, faults <-chan error, missing error) *Watcher {
	w := &Watcher{
		debounce: cmp.Or(o.Debounce, defaultDebounce),
		tick:     cmp.Or(o.Tick, defaultTick),
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		system:   system,
		missing:  missing,
		watches:  map[*Watch]struct{}{},
		folders:  map[string]*folder{},
	}
	if system == nil {
		w.told = true
		w.log.Warn("no file events", "reason", w.Degraded())
		return w
	}
	w.running.Go(func() { w.read(events, faults) })
	return w
}

// Close ends all watches and waits until no call of theirs runs any more. It must
// not be called from within such a call.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	var watches []*Watch
	for v := range w.watches {
		watches = append(watches, v)
	}
	w.mu.Unlock()
	for _, v := range watches {
		v.Close()
	}
	if w.system != nil {
		// It only fails where it is closed already, by an earlier Close.
		_ = w.system.Close()
	}
	w.running.Wait()
}

// Degraded says in a sentence why some changes are found at the next tick only,
// and is empty where events tell of all of them.
func (w *Watcher) Degraded() string {
	late := fmt.Sprintf("; changes are found within %v", w.tick)
	if w.system == nil {
		return fmt.Sprintf("no file events: %v%s", explained(w.missing), late)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var failing []string
	for name, f := range w.folders {
		if f.err != nil {
			failing = append(failing, name)
		}
	}
	switch len(failing) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s is not watched: %v%s", failing[0], explained(w.folders[failing[0]].err), late)
	default:
		first := slices.Min(failing)
		return fmt.Sprintf("%d folders are not watched, the first of them %s: %v%s", len(failing), first, explained(w.folders[first].err), late)
	}
}

// explained makes what Linux says at its limits understood.
func explained(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return errors.New("the limit fs.inotify.max_user_watches is reached")
	case errors.Is(err, syscall.EMFILE):
		return errors.New("the limit fs.inotify.max_user_instances or that of open files is reached")
	}
	return err
}

// read hands the events to those who wait for them, until the system is closed.
func (w *Watcher) read(events <-chan fsnotify.Event, faults <-chan error) {
	for {
		select {
		case event, ok := <-events:
			if !ok {
				return
			}
			w.event(event.Name)
		case _, ok := <-faults:
			if !ok {
				return
			}
			// Events were lost, whether the queue ran over or something else went
			// wrong: everything is looked at.
			w.mu.Lock()
			for v := range w.watches {
				v.poke()
			}
			w.mu.Unlock()
		}
	}
}

// event wakes the watches to which a change of the entry called name may matter.
func (w *Watcher) event(name string) {
	dir, base := filepath.Dir(name), filepath.Base(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.folders[dir]; f != nil {
		for v := range f.watches {
			if v.expects(dir, base) {
				v.poke()
			}
		}
	}
	// Something happened to the folder itself.
	if f := w.folders[name]; f != nil {
		for v := range f.watches {
			v.poke()
		}
	}
}

// place makes the system watch what v needs and no longer watch what nobody
// does. Folders that are watched already are added once more, which costs little,
// and is what finds a new folder that has taken an old one's name.
func (w *Watcher) place(v *Watch, spots []spot) {
	w.changing.Lock()
	defer w.changing.Unlock()

	var folders []string
	for _, s := range spots {
		if len(folders) == 0 || folders[len(folders)-1] != s.folder {
			folders = append(folders, s.folder)
		}
	}
	w.mu.Lock()
	before := v.spots
	v.spots = spots
	for _, name := range folders {
		if w.folders[name] == nil {
			w.folders[name] = &folder{watches: map[*Watch]struct{}{}}
		}
		w.folders[name].watches[v] = struct{}{}
	}
	var unused []string
	for _, s := range before {
		f := w.folders[s.folder]
		if f == nil {
			continue
		}
		if _, needed := slices.BinarySearch(folders, s.folder); needed {
			continue
		}
		if delete(f.watches, v); len(f.watches) == 0 {
			delete(w.folders, s.folder)
			unused = append(unused, s.folder)
		}
	}
	w.mu.Unlock()

	if w.system == nil {
		return
	}
	// Removal goes first. One folder can have two names here, after it has been
	// moved: the system knows it by one, and to remove that ends the other too.
	for _, name := range unused {
		// It fails where the folder is gone, and its watch with it.
		_ = w.system.Remove(name)
	}
	for i, name := range folders {
		err := errTooMany
		if i < maxFolders {
			err = w.system.Add(name)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fsnotify.ErrClosed) {
			err = nil // gone since it was looked at, which is a change to be seen
		}
		w.mu.Lock()
		w.folders[name].err = err
		w.mu.Unlock()
		if err != nil && !w.told {
			w.told = true
			w.log.Warn("not all folders are watched", "reason", w.Degraded())
		}
	}
}

var errTooMany = fmt.Errorf("more than %d folders below one set of paths", maxFolders)

// Watch is one set of paths that is watched. It is safe for concurrent use.
type Watch struct {
	watcher *Watcher
	changed func()
	poked   chan struct{}
	done    chan struct{}

	// spots are what was last placed, in order; guarded by watcher.mu.
	spots []spot

	// mu guards what follows; it is held while the files are looked at, and not
	// while changed runs.
	mu       sync.Mutex
	closed   bool
	paths    []string
	surveyor surveyor
	// reported is the identity that was last reported, or that was there when the
	// paths were set.
	reported Identity
	// owed is true where a change came to light that is not in reported.
	owed bool
}

// Watch watches paths, files and folders, as Identify looks at them. Whenever
// their identity is no longer the one that there was at this call, and from then
// on whenever it is no longer the one last reported, changed is called: on one
// goroutine, one call at a time, and maybe before Watch has returned. A call is
// not repeated because what it led to did not work out; the next one comes with
// the next change.
//
// Watch first and read the files then, so that no edit is lost between the two.
// A file may be half written when it is reported; once its writer is done there
// is another call.
//
// After Close of the Watcher, nothing is watched and changed is never called.
func (w *Watcher) Watch(paths []string, changed func()) *Watch {
	v := &Watch{
		watcher:  w,
		changed:  changed,
		poked:    make(chan struct{}, 1),
		done:     make(chan struct{}),
		paths:    absolute(paths),
		surveyor: surveyor{known: map[string]content{}},
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	w.mu.Lock()
	v.closed = w.closed
	if !v.closed {
		w.watches[v] = struct{}{}
		w.running.Go(v.run)
	}
	w.mu.Unlock()
	if !v.closed {
		v.reported = v.look()
	}
	return v
}

// Identity returns the identity that was last reported, or that there was when
// the paths were last set.
func (v *Watch) Identity() Identity {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reported
}

// Set makes paths what is watched, in place of the paths so far, and returns
// their identity: any other is reported from now on. So that no edit is lost, set
// the paths first and read the files then; where reading shows that there are
// other paths, set and read again.
//
// A change of the paths so far that has not been reported yet still is. To set
// the same paths again changes nothing. It may be called from within changed.
func (v *Watch) Set(paths []string) Identity {
	next := absolute(paths)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || slices.Equal(next, v.paths) {
		return v.reported
	}
	if v.look() != v.reported {
		v.owed = true
		v.poke()
	}
	v.paths = next
	v.reported = v.look()
	return v.reported
}

// Close ends the watch: no call of changed begins any more. One that runs is not
// waited for, so Close may be called from within it. Closing again does nothing.
func (v *Watch) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	v.closed = true
	close(v.done)
	v.watcher.place(v, nil)
	v.watcher.mu.Lock()
	delete(v.watcher.watches, v)
	v.watcher.mu.Unlock()
}

// expects reports whether a change of the entry called base in the folder dir may
// matter. The caller holds watcher.mu.
func (v *Watch) expects(dir, base string) bool {
	has := func(name string) bool {
		_, ok := slices.BinarySearchFunc(v.spots, spot{dir, name}, spot.compare)
		return ok
	}
	return has(base) || !strings.HasPrefix(base, ".") && has("")
}

// poke says that there may be a change. It never waits.
func (v *Watch) poke() {
	select {
	case v.poked <- struct{}{}:
	default:
	}
}

func (v *Watch) run() {
	tick := time.NewTicker(v.watcher.tick)
	defer tick.Stop()
	quiet := time.NewTimer(0)
	quiet.Stop()
	var until time.Time // when waiting for quiet ends; zero where nothing waits
	for {
		select {
		case <-v.done:
			return
		case <-v.poked:
			now := time.Now()
			if until.IsZero() {
				until = now.Add(patience * v.watcher.debounce)
			}
			// Past until, the timer is due already: to set it anew would let a
			// writer that never rests put off the look for ever.
			if left := until.Sub(now); left > 0 {
				quiet.Reset(min(left, v.watcher.debounce))
			}
		case <-quiet.C:
			until = time.Time{}
			v.check()
		case <-tick.C:
			v.check()
		}
	}
}

// check looks, and reports what is not known yet.
func (v *Watch) check() {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return
	}
	found := v.look()
	report := v.owed || found != v.reported
	v.reported, v.owed = found, false
	v.mu.Unlock()
	if report {
		v.changed()
	}
}

// look returns the identity of the paths as they are, and sees to it that every
// later change leads to an event: each folder is watched before it is looked at.
// The caller holds v.mu.
func (v *Watch) look() Identity {
	v.watcher.mu.Lock()
	placed := v.spots
	v.watcher.mu.Unlock()
	v.watcher.place(v, placed)
	for range maxRounds {
		found := v.surveyor.survey(v.paths)
		if slices.Equal(found.spots, placed) {
			return found.id
		}
		placed = found.spots
		v.watcher.place(v, placed)
	}
	// What changes faster than it can be looked at is looked at later.
	v.poke()
	return v.surveyor.survey(v.paths).id
}
