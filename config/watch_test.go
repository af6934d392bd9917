package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventsAlone are options with which no tick comes to the help of events.
var eventsAlone = config.WatcherOptions{Debounce: time.Millisecond, Tick: time.Hour}

// reports are the identities that a watch reported.
type reports struct {
	watch *config.Watch
	paths []string
	came  chan struct{}
}

func watch(w *config.Watcher, paths []string) *reports {
	r := &reports{paths: paths, came: make(chan struct{}, 1)}
	r.watch = w.Watch(paths, func() {
		select {
		case r.came <- struct{}{}:
		default:
		}
	})
	return r
}

// await waits until what is there now has been reported.
func (r *reports) await(tb rapid.TB) {
	tb.Helper()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		select {
		case <-r.came:
		case <-timeout.C:
			tb.Fatalf("the change was not reported")
		}
		if r.watch.Identity() == config.Identify(r.paths) {
			return
		}
	}
}

func newWatcher(tb testing.TB, o config.WatcherOptions) *config.Watcher {
	w := config.NewWatcher(o)
	tb.Cleanup(w.Close)
	return w
}

func TestWatchReportsWhatIdentifySees(t *testing.T) {
	for _, tt := range identities {
		if tt.same {
			continue
		}
		t.Run(tt.rule, func(t *testing.T) {
			f := newFolder(t)
			tt.before(f)
			r := watch(newWatcher(t, eventsAlone), f.paths(tt.paths))
			tt.change(f)
			r.await(t)
		})
	}
}

func TestWatchFollows(t *testing.T) {
	type step = func(folder)
	edit := func(name string) step {
		return func(f folder) {
			text, err := os.ReadFile(f.path(name))
			f.must(err)
			f.put(name, string(text)+"+")
		}
	}
	replace := func(name string) step { return func(f folder) { f.replace(name, "mode: manual") } }
	for _, tt := range []struct {
		rule   string
		paths  string
		before step
		steps  []step
	}{
		{
			"renames over a file, one after the other", "config.yaml",
			func(f folder) { f.put("config.yaml", "") },
			[]step{replace("config.yaml"), replace("config.yaml"), replace("config.yaml"), edit("config.yaml")},
		},
		{
			"a file that is emptied and then written", "config.yaml",
			func(f folder) { f.put("config.yaml", "mode: manual") },
			[]step{
				func(f folder) { f.must(os.Truncate(f.path("config.yaml"), 0)) },
				func(f folder) { f.put("config.yaml", "mode: review") },
			},
		},
		{
			"swaps of a version whose last one is deleted", "config.yaml",
			func(f folder) { f.mount() },
			[]step{
				func(f folder) {
					f.put("..v2/config.yaml", "mode: review")
					f.relink("..data", "..v2")
					f.remove("..v1")
				},
				func(f folder) {
					f.put("..v3/config.yaml", "mode: review")
					f.relink("..data", "..v3")
					f.remove("..v2")
				},
				edit("..v3/config.yaml"),
			},
		},
		{
			"a folder of rules that is replaced by another", "policies",
			func(f folder) { f.put("policies/a.rego", "a"); f.put("next/a.rego", "b") },
			[]step{
				func(f folder) { f.rename("policies", "last"); f.rename("next", "policies") },
				edit("policies/a.rego"),
				func(f folder) { f.put("policies/b.rego", "b") },
			},
		},
		{
			"a folder of rules that is removed and made again", "policies",
			func(f folder) { f.put("policies/a.rego", "a") },
			[]step{
				func(f folder) { f.remove("policies") },
				func(f folder) { f.put("policies/a.rego", "a") },
				edit("policies/a.rego"),
			},
		},
		{
			"the folder of a file that is removed and made again", "ws/.regent/config.yaml",
			func(f folder) { f.put("ws/.regent/config.yaml", "a") },
			[]step{
				func(f folder) { f.remove("ws") },
				func(f folder) { f.put("ws/.regent/config.yaml", "a") },
				edit("ws/.regent/config.yaml"),
			},
		},
		{
			"the folder of a file that is moved away and back", "ws/config.yaml",
			func(f folder) { f.put("ws/config.yaml", "a") },
			[]step{
				func(f folder) { f.rename("ws", "away") },
				func(f folder) { f.rename("away", "ws") },
				edit("ws/config.yaml"),
			},
		},
		{
			"folders that come in one go", "policies",
			func(f folder) { f.mkdir("policies") },
			[]step{
				func(f folder) { f.put("policies/a/b/c/d.rego", "") },
				edit("policies/a/b/c/d.rego"),
				func(f folder) { f.rename("policies/a/b", "policies/b") },
				edit("policies/b/c/d.rego"),
			},
		},
		{
			"a link to a folder that leads to another", "policies",
			func(f folder) { f.put("v1/a.rego", ""); f.put("v2/a.rego", ""); f.link("policies", "v1") },
			[]step{
				func(f folder) { f.relink("policies", "v2") },
				edit("v2/a.rego"),
				func(f folder) { f.relink("policies", "v1") },
				edit("v1/a.rego"),
			},
		},
		{
			"a link that was a file", "config.yaml",
			func(f folder) { f.put("config.yaml", "a"); f.put("real/config.yaml", "a") },
			[]step{
				func(f folder) { f.relink("config.yaml", "real/config.yaml") },
				edit("real/config.yaml"),
				replace("real/config.yaml"),
				replace("config.yaml"),
				edit("config.yaml"),
			},
		},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			f := newFolder(t)
			tt.before(f)
			r := watch(newWatcher(t, eventsAlone), f.paths(tt.paths))
			for _, step := range tt.steps {
				step(f)
				r.await(t)
			}
		})
	}
}

// Whatever happens below a watched folder, the last of it is reported.
func TestWatchEndsWithTheLastState(t *testing.T) {
	root := newFolder(t)
	w := newWatcher(t, eventsAlone)
	var runs int
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		f := folder{t, root.path(fmt.Sprint(runs))}
		f.put("ws/config.yaml", "a")
		f.put("ws/policies/a.rego", "a")
		f.put("v1/a.rego", "a")
		f.put("v2/a.rego", "a")
		f.link("ws/policies/link.rego", "../../v1/a.rego")
		r := watch(w, f.paths("ws/config.yaml ws/policies"))
		defer r.watch.Close()

		names := []string{"ws/config.yaml", "ws/policies/a.rego", "ws/policies/sub/b.rego", "ws/policies/sub/deep/c.rego", "v1/a.rego", "v2/a.rego", "ws/.hidden"}
		folders := []string{"ws/policies", "ws/policies/sub", "ws/policies/sub/deep", "v1"}
		// Errors do not matter here: much of what is drawn cannot be done.
		operations := []func(){
			func() {
				p := f.path(rapid.SampledFrom(names).Draw(rt, "put"))
				_ = os.MkdirAll(filepath.Dir(p), 0o700)
				_ = os.WriteFile(p, []byte(rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "text")), 0o600)
			},
			func() {
				p := f.path(rapid.SampledFrom(names).Draw(rt, "replace"))
				if os.WriteFile(p+".new", []byte("a"), 0o600) == nil {
					_ = os.Rename(p+".new", p)
				}
			},
			func() { _ = os.Remove(f.path(rapid.SampledFrom(names).Draw(rt, "remove"))) },
			func() { _ = os.RemoveAll(f.path(rapid.SampledFrom(folders).Draw(rt, "remove folder"))) },
			func() {
				from, to := rapid.SampledFrom(folders).Draw(rt, "move"), rapid.SampledFrom(append(folders, "away")).Draw(rt, "to")
				_ = os.Rename(f.path(from), f.path(to))
			},
			func() {
				target := rapid.SampledFrom([]string{"../../v1/a.rego", "../../v2/a.rego", "sub/b.rego", "link.rego"}).Draw(rt, "target")
				if os.Symlink(target, f.path("ws/policies/link_tmp")) == nil {
					_ = os.Rename(f.path("ws/policies/link_tmp"), f.path("ws/policies/link.rego"))
				}
			},
		}
		for range rapid.IntRange(1, 3).Draw(rt, "turns") {
			for range rapid.IntRange(1, 12).Draw(rt, "operations") {
				rapid.SampledFrom(operations).Draw(rt, "operation")()
			}
			// What was drawn may come to nothing; this does not.
			f.remove("ws/config.yaml")
			f.put("ws/config.yaml", fmt.Sprint(runs))
			r.await(rt)
		}
	})
}

// fake takes the place of the system's events.
type fake struct {
	events chan fsnotify.Event
	faults chan error

	mu      sync.Mutex
	watched map[string]bool
	fails   error
	// adding is called before a folder is first watched.
	adding func(name string)
}

func newFake(o config.WatcherOptions) (*config.Watcher, *fake) {
	f := &fake{events: make(chan fsnotify.Event), faults: make(chan error), watched: map[string]bool{}}
	return config.NewWatcherOn(o, f, f.events, f.faults), f
}

func (f *fake) Add(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return f.fails
	}
	if f.adding != nil && !f.watched[name] {
		f.adding(name)
	}
	f.watched[name] = true
	return nil
}

func (f *fake) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.watched[name] {
		return fsnotify.ErrNonExistentWatch
	}
	delete(f.watched, name)
	return nil
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watched != nil {
		close(f.events)
		close(f.faults)
		f.watched = nil
	}
	return nil
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = err
}

func (f *fake) folders() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.watched))
}

// bubble runs a test on a fake clock: time goes on only once everything waits.
func bubble(t *testing.T, run func(*testing.T, folder)) {
	t.Helper()
	f := newFolder(t)
	synctest.Test(t, func(t *testing.T) { f := f; f.tb = t; run(t, f) })
}

func TestWatchReportsNothingWhereNothingChanged(t *testing.T) {
	for _, tt := range identities {
		if !tt.same {
			continue
		}
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T, f folder) {
				tt.before(f)
				w, _ := newFake(config.WatcherOptions{})
				defer w.Close()
				w.Watch(f.paths(tt.paths), func() { t.Error("a change was reported") })
				tt.change(f)
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestWatchFindsChangesWithoutEvents(t *testing.T) {
	for name, make := range map[string]func(config.WatcherOptions) *config.Watcher{
		"events do not come":    func(o config.WatcherOptions) *config.Watcher { w, _ := newFake(o); return w },
		"there are no events":   func(o config.WatcherOptions) *config.Watcher { return config.NewWatcherWithout(o, syscall.EMFILE) },
		"folders are not added": func(o config.WatcherOptions) *config.Watcher { w, f := newFake(o); f.fail(syscall.ENOSPC); return w },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f folder) {
				f.put("config.yaml", "a")
				w := make(config.WatcherOptions{})
				defer w.Close()
				var calls int
				w.Watch(f.paths("config.yaml"), func() { calls++ })
				for want := 1; want <= 3; want++ {
					f.replace("config.yaml", "b")
					time.Sleep(time.Second)
					synctest.Wait()
					if calls != want {
						t.Fatalf("after %d changes and a second for each: want %d calls, got %d", want, want, calls)
					}
				}
			})
		})
	}
}

func TestWatchWaitsForTheEndOfAnEdit(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		events int
		every  time.Duration
		want   []time.Duration
	}{
		{"one event", 1, 0, []time.Duration{25 * time.Millisecond}},
		{"a run of events is one edit", 8, 20 * time.Millisecond, []time.Duration{165 * time.Millisecond}},
		{"a pause makes two edits", 2, 30 * time.Millisecond, []time.Duration{25 * time.Millisecond, 55 * time.Millisecond}},
		{"a run without end is not waited for", 20, 20 * time.Millisecond, []time.Duration{250 * time.Millisecond, 405 * time.Millisecond}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T, f folder) {
				f.put("config.yaml", "a")
				w, system := newFake(config.WatcherOptions{Tick: time.Hour})
				defer w.Close()
				var got []time.Duration
				start := time.Now()
				w.Watch(f.paths("config.yaml"), func() { got = append(got, time.Since(start)) })
				for i := range tt.events {
					f.put("config.yaml", strings.Repeat("a", i+2))
					system.events <- fsnotify.Event{Name: f.path("config.yaml"), Op: fsnotify.Write}
					time.Sleep(tt.every)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("times of calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Between a look at a folder and its watch there is a moment without events.
func TestWatchSeesWhatComesBeforeItsFolderIsWatched(t *testing.T) {
	f := newFolder(t)
	f.put("policies/a.rego", "a")
	w, system := newFake(eventsAlone)
	defer w.Close()
	var made []string
	system.adding = func(name string) {
		made = append(made, name)
		if len(made) < 4 {
			f.must(os.Mkdir(filepath.Join(name, "sub"), 0o700))
		}
	}
	paths := f.paths("policies")
	v := w.Watch(paths, func() {})
	if len(made) < 4 {
		t.Fatalf("want the folders watched that came meanwhile, got %q", made)
	}
	if v.Identity() != config.Identify(paths) {
		t.Error("the identity lacks what came before its folder was watched")
	}
}

func TestWatchLooksAtEverythingWhenEventsAreLost(t *testing.T) {
	for _, fault := range []error{fsnotify.ErrEventOverflow, errors.New("read: input/output error")} {
		t.Run(fault.Error(), func(t *testing.T) {
			bubble(t, func(t *testing.T, f folder) {
				w, system := newFake(config.WatcherOptions{Tick: time.Hour})
				defer w.Close()
				calls := map[string]int{}
				var mu sync.Mutex
				for _, name := range []string{"a", "b", "c"} {
					f.put(name+"/config.yaml", "a")
					w.Watch(f.paths(name), func() { mu.Lock(); calls[name]++; mu.Unlock() })
				}
				f.replace("a/config.yaml", "b")
				f.replace("b/config.yaml", "b")
				system.faults <- fault
				time.Sleep(time.Second)
				synctest.Wait()
				if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWatcherSaysThatEventsAreMissing(t *testing.T) {
	bubble(t, func(t *testing.T, f folder) {
		f.put("a/config.yaml", "a")
		f.put("b/config.yaml", "a")
		var log bytes.Buffer
		w, system := newFake(config.WatcherOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
		defer w.Close()
		if got := w.Degraded(); got != "" {
			t.Errorf("nothing is watched yet, and Degraded says %q", got)
		}
		system.fail(syscall.ENOSPC)
		w.Watch(f.paths("a/config.yaml"), func() {})
		want := f.path("a") + " is not watched: the limit fs.inotify.max_user_watches is reached; changes are found within 1s"
		if diff := cmp.Diff(want, w.Degraded()); diff != "" {
			t.Errorf("one folder (-want +got):\n%s", diff)
		}
		w.Watch(f.paths("b/config.yaml"), func() {})
		want = "2 folders are not watched, the first of them " + want[:strings.Index(want, " is not")] + want[strings.Index(want, ":"):]
		if diff := cmp.Diff(want, w.Degraded()); diff != "" {
			t.Errorf("two folders (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("want one line in the log, got %d:\n%s", n, &log)
		}
		system.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.Degraded(); got != "" {
			t.Errorf("the folders are watched at last, and Degraded says %q", got)
		}
	})
}

func TestWatchOfVeryManyFoldersSaysSo(t *testing.T) {
	f := newFolder(t)
	for i := range 1001 {
		f.mkdir(fmt.Sprintf("policies/%04d", i))
	}
	w, system := newFake(eventsAlone)
	defer w.Close()
	w.Watch(f.paths("policies"), func() {})
	// The folder and the one that holds it are among those that are watched.
	want := "3 folders are not watched, the first of them " + f.path("policies/0998") +
		": more than 1000 folders below one set of paths; changes are found within 1h0m0s"
	if diff := cmp.Diff(want, w.Degraded()); diff != "" {
		t.Errorf("Degraded (-want +got):\n%s", diff)
	}
	if got := len(system.folders()); got != 1000 {
		t.Errorf("want 1000 folders watched, got %d", got)
	}
}

func TestWatcherWithoutEventsSaysSo(t *testing.T) {
	var log bytes.Buffer
	w := config.NewWatcherWithout(config.WatcherOptions{Log: slog.New(slog.NewTextHandler(&log, nil))}, syscall.EMFILE)
	defer w.Close()
	want := "no file events: the limit fs.inotify.max_user_instances or that of open files is reached; changes are found within 1s"
	if diff := cmp.Diff(want, w.Degraded()); diff != "" {
		t.Errorf("Degraded (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), "max_user_instances") {
		t.Errorf("the log does not say so: %q", &log)
	}
}

func TestWatcherSharesFolders(t *testing.T) {
	f := newFolder(t)
	f.put("home/config.yaml", "a")
	f.put("home/policies/git/a.rego", "a")
	w, system := newFake(eventsAlone)
	defer w.Close()
	a := w.Watch(f.paths("home/config.yaml home/policies"), func() {})
	b := w.Watch(f.paths("home/config.yaml"), func() {})
	all := f.paths("home home/policies home/policies/git")
	want := func(when string, folders ...string) {
		t.Helper()
		if diff := cmp.Diff(folders, system.folders()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	want("two watches", all...)
	b.Set(f.paths("other/config.yaml"))
	want("the second moved to a file whose folder is missing", append([]string{f.dir}, all...)...)
	b.Set(f.paths("home/config.yaml"))
	want("the second moved back", all...)
	a.Close()
	want("the first closed", f.path("home"))
	b.Close()
	b.Close()
	want("both closed")
}

func TestWatchIsReportedToOneAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, f folder) {
		f.put("config.yaml", "a")
		w, _ := newFake(config.WatcherOptions{})
		defer w.Close()
		var running, calls atomic.Int32
		w.Watch(f.paths("config.yaml"), func() {
			if running.Add(1) != 1 {
				t.Error("two calls at a time")
			}
			f.replace("config.yaml", "changed meanwhile")
			time.Sleep(10 * time.Second)
			running.Add(-1)
			calls.Add(1)
		})
		f.replace("config.yaml", "b")
		time.Sleep(time.Minute)
		if calls.Load() < 4 {
			t.Errorf("want a call after the other for what changed meanwhile, got %d", calls.Load())
		}
	})
}

func TestWatchEndsWithClose(t *testing.T) {
	bubble(t, func(t *testing.T, f folder) {
		f.put("config.yaml", "a")
		w, system := newFake(config.WatcherOptions{})
		var closed *config.Watch
		var calls int
		closed = w.Watch(f.paths("config.yaml"), func() { calls++; closed.Close() })
		var setter *config.Watch
		setter = w.Watch(f.paths("config.yaml"), func() { setter.Set(f.paths("other.yaml")) })
		f.replace("config.yaml", "b")
		time.Sleep(time.Second)
		f.replace("config.yaml", "c")
		system.events <- fsnotify.Event{Name: f.path("config.yaml"), Op: fsnotify.Create}
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("want one call, since it closed the watch, got %d", calls)
		}
		w.Close()
		w.Close()
		if got := w.Watch(f.paths("config.yaml"), func() { t.Error("a change was reported after Close") }).Identity(); !got.IsZero() {
			t.Error("a watch of a closed watcher has looked at something")
		}
		f.replace("config.yaml", "d")
		time.Sleep(time.Minute)
	})
}

func TestSetChangesWhatIsWatched(t *testing.T) {
	bubble(t, func(t *testing.T, f folder) {
		f.put("a", "a")
		f.put("b", "a")
		w, _ := newFake(config.WatcherOptions{})
		defer w.Close()
		var calls int
		v := w.Watch(f.paths("a"), func() { calls++ })
		want := func(rule string, n int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if calls != n {
				t.Fatalf("%s: want %d calls in all, got %d", rule, n, calls)
			}
		}
		if got := v.Set(f.paths("b")); got != config.Identify(f.paths("b")) {
			t.Error("Set does not return the identity of its paths")
		}
		want("other paths are no change", 0)
		f.replace("a", "b")
		want("what is not watched any more changed", 0)
		f.replace("b", "b")
		want("what is watched now changed", 1)

		f.replace("b", "c")
		v.Set(f.paths("b"))
		want("a change before the same paths were set", 2)
		f.replace("b", "d")
		v.Set(f.paths("a"))
		want("a change of the paths before, not reported yet", 3)
		if v.Identity() != config.Identify(f.paths("a")) {
			t.Error("Identity is not that of the paths set")
		}
	})
}

// The cost of a tick: BenchmarkTick is that of all watches of a home with 200
// workspaces, each with ten files.
func BenchmarkTick(b *testing.B) {
	f := newFolder(b)
	w := newWatcher(b, config.WatcherOptions{Tick: time.Hour})
	var watches []*config.Watch
	for i := range 200 {
		v := w.Watch(f.tenFiles(fmt.Sprint(i)), func() {})
		v.Settle()
		watches = append(watches, v)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, v := range watches {
			v.Look()
		}
	}
}
