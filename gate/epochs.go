package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/cases"
)

// EpochsOptions say which home is kept current, and how. Home is needed.
type EpochsOptions struct {
	// Home is the user's own folder; it need not exist.
	Home string
	// Organization takes the place of policy.organization.path.
	Organization string
	Feed         *Feed
	Log          *slog.Logger
	// Idle is how long a workspace that nobody asks about stays loaded; 30 minutes
	// where it is 0.
	Idle time.Duration
	// Watch are the options of the file watcher.
	Watch config.WatcherOptions
	// Plugins runs the plugins of each epoch; nil runs none.
	Plugins Plugins
}

const (
	defaultIdle = 30 * time.Minute
	// testTime bounds the tests that run before rules come into force.
	testTime = time.Minute
)

// Epochs keeps one epoch for each workspace of a home: loaded when it is first
// asked for, current as its files change, and unloaded when it is idle. It is
// safe for concurrent use.
type Epochs struct {
	options   EpochsOptions
	trust     *Trust
	confirmed confirmed
	watcher   *config.Watcher
	// compiling bounds how many sets of rules are compiled at once, and background
	// how many of those nobody waits for: compiling takes all of a core, and much
	// memory.
	compiling, background chan struct{}
	loads, failed         atomic.Int64

	stopped chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	loaded map[string]*loaded
	// met are the workspaces that were there, whether or not they are loaded now.
	met map[string]bool
}

// loaded is a workspace and what it is loaded from.
type loaded struct {
	*Workspace
	options Options
	// turn lets one at a time load it. wanted counts who asked for that, and done
	// is the count that the last load had seen when it began.
	turn         chan struct{}
	wanted, done atomic.Int64
	// used is when somebody last asked about it, in nanoseconds since 1970.
	used atomic.Int64

	// seen is what it was loaded from.
	seen atomic.Pointer[seen]

	mu     sync.Mutex
	closed bool
	watch  *config.Watch
	paths  []string
}

// seen is what a call compares: the configuration files as they looked before
// they were read, and whether the workspace was trusted.
type seen struct {
	files   []stamp
	trusted bool
	// settled is true once any further edit shows in the stamps. Until then the
	// content is looked at, too.
	settled atomic.Bool
}

type stamp struct {
	path string
	config.Stamp
	content config.Identity
}

// OpenEpochs loads the home and keeps it current until Close. It does not fail:
// a home that cannot be loaded asks everything.
func OpenEpochs(ctx context.Context, o EpochsOptions) *Epochs {
	if o.Feed == nil {
		o.Feed = &Feed{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	if o.Watch.Log == nil {
		o.Watch.Log = o.Log
	}
	e := &Epochs{
		options:    o,
		trust:      NewTrust(o.Home),
		confirmed:  confirmed{filepath.Join(o.Home, "runtime", "confirmed.json")},
		watcher:    config.NewWatcher(o.Watch),
		compiling:  make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
		background: make(chan struct{}, 1),
		stopped:    make(chan struct{}),
		loaded:     map[string]*loaded{},
		met:        map[string]bool{},
	}
	e.at(ctx, "")
	e.running.Go(e.rest)
	return e
}

// Close stops watching, and returns when nothing of it runs.
func (e *Epochs) Close() {
	e.mu.Lock()
	select {
	case <-e.stopped:
		e.mu.Unlock()
		return
	default:
	}
	close(e.stopped)
	for _, l := range e.loaded {
		l.close()
	}
	e.mu.Unlock()
	e.watcher.Close()
	e.running.Wait()
}

func (l *loaded) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.watch != nil {
		l.watch.Close()
	}
	if s := l.Standing(); s != nil {
		s.release(nil)
	}
}

// install puts a standing in the place of another, whose plugins go unless the
// new one has them too. They end when what they are being asked is answered.
func (l *loaded) install(next Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.Standing()
	l.Install(next)
	switch {
	case l.closed:
		next.release(nil)
	case before != nil:
		before.release(&next)
	}
}

// Trust is which workspaces may do more than tighten.
func (e *Epochs) Trust() *Trust { return e.trust }

// Home implements [Workspaces].
func (e *Epochs) Home() *Workspace { return e.at(context.Background(), "") }

// Of implements [Workspaces].
func (e *Epochs) Of(ctx context.Context, q Question) *Workspace {
	dir, err := e.dirOf(q)
	if err != nil {
		return NewWorkspace("", Standing{Settings: rego.DefaultSettings(), Fault: err, Since: time.Now()})
	}
	return e.at(ctx, dir)
}

// dirOf finds the workspace of a question: the one that it names, else the
// nearest above the folder that the call runs in. One that has lost its
// config.yaml counts while anybody remembers that it had one.
func (e *Epochs) dirOf(q Question) (string, error) {
	if q.Workspace != "" {
		dir, err := Canonical(q.Workspace)
		if errors.Is(err, ErrNoWorkspace) {
			for _, name := range []string{q.Workspace, filepath.Join(q.Workspace, config.WorkspaceDir)} {
				if name, resolveErr := filepath.EvalSymlinks(name); resolveErr == nil && e.known(name) {
					return name, nil
				}
			}
		}
		if err == nil && sameFolder(dir, e.options.Home) {
			return "", nil
		}
		return dir, err
	}
	folder := q.Folder
	if q.Request != nil && q.Request.Environment != nil && filepath.IsAbs(q.Request.Environment.Cwd) {
		folder = q.Request.Environment.Cwd
	}
	if folder == "" {
		return "", nil
	}
	dir, ok, err := config.FindKnown(folder, e.known, e.options.Home)
	if err != nil || !ok {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) && e.known(dir) {
		return dir, nil
	}
	return real, err
}

func (e *Epochs) known(dir string) bool {
	e.mu.Lock()
	met := e.met[dir]
	e.mu.Unlock()
	return met || e.trust.Has(dir)
}

// at returns a workspace as its files are now, loading it if need be.
func (e *Epochs) at(ctx context.Context, dir string) *Workspace {
	e.mu.Lock()
	l := e.loaded[dir]
	if l == nil {
		l = &loaded{
			Workspace: &Workspace{Dir: dir},
			options:   Options{Home: e.options.Home, Workspace: dir, Organization: e.options.Organization},
			turn:      make(chan struct{}, 1),
		}
		e.loaded[dir] = l
		e.met[dir] = true
	}
	e.mu.Unlock()
	l.used.Store(time.Now().UnixNano())
	if l.Standing() == nil || e.stale(l) {
		e.load(ctx, l, false)
	}
	if l.Standing() == nil { // the caller went away before the first load was done
		return NewWorkspace(dir, Standing{Settings: rego.DefaultSettings(), Fault: context.Cause(ctx), Since: time.Now()})
	}
	return l.Workspace
}

// stale tells whether a configuration file is another than the one that was
// read, or the word about trust is. It is what every call pays.
func (e *Epochs) stale(l *loaded) bool {
	last := l.seen.Load()
	if last == nil || l.Dir != "" && last.trusted != e.trust.Has(l.Dir) {
		return true
	}
	for _, s := range last.files {
		if config.StampOf(s.path) != s.Stamp {
			return true
		}
	}
	if last.settled.Load() {
		return false
	}
	now, settled := time.Now(), true
	for _, s := range last.files {
		settled = settled && s.Settled(now)
		if config.Identify([]string{s.path}) != s.content {
			return true
		}
	}
	last.settled.Store(settled)
	return false
}

// load loads a workspace, unless a load that began after this call does so
// anyway. It returns early when ctx ends.
func (e *Epochs) load(ctx context.Context, l *loaded, background bool) {
	ticket := l.wanted.Add(1)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return
	case <-e.stopped:
		return
	}
	defer func() { <-l.turn }()
	if l.done.Load() >= ticket {
		return
	}
	began := l.wanted.Load()
	if background {
		select {
		case e.background <- struct{}{}:
		case <-e.stopped:
			return
		}
		defer func() { <-e.background }()
	}
	select {
	case e.compiling <- struct{}{}:
	case <-e.stopped:
		return
	}
	defer func() { <-e.compiling }()
	// A caller that goes away must not leave a fault behind that is none of the
	// files'.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		select {
		case <-e.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	if last := e.reload(ctx, l); last != nil {
		// Not before the rules are in force: until then a call waits for this load.
		l.seen.Store(last)
	}
	l.done.Store(began)
}

// reload reads, compiles and, if all is well, puts in force. It returns what
// that was made from, nil if the process ends.
func (e *Epochs) reload(ctx context.Context, l *loaded) *seen {
	e.loads.Add(1)
	before := l.Standing()
	options := l.options
	trusted := l.Dir != "" && e.trust.Has(l.Dir)
	var unfit error
	if trusted {
		unfit = fit(l.Dir)
	}
	options.Trusted = trusted && unfit == nil
	setup, files, err := e.read(l, options)
	if setup != nil && unfit != nil {
		setup.Warnings = append(setup.Warnings, config.Warning{
			File: filepath.Join(l.Dir, config.FileName), Message: "is trusted and can only tighten all the same", Hint: unfit.Error(),
		})
	}
	var epoch *Epoch
	if err == nil {
		epoch, err = setup.Compile(ctx)
	}
	if err == nil && epoch.Config.Policy.TestBeforeLoad {
		err = tested(ctx, setup)
	}
	if ctx.Err() != nil {
		return nil
	}
	next := Standing{Epoch: epoch, Settings: rego.DefaultSettings()}
	if setup != nil {
		next.Settings = setup.Source.Settings
	}
	gone := missing(before)
	if err == nil && len(gone) > 0 {
		err = fmt.Errorf("%s is gone: %w", strings.Join(gone, " and "), fs.ErrNotExist)
	}
	if err != nil {
		e.fail(l, before, next.Settings, err, len(gone) > 0)
		return &seen{files: files, trusted: trusted}
	}
	last := l.seen.Load()
	e.put(ctx, l, before, next, last != nil && last.trusted != trusted)
	return &seen{files: files, trusted: trusted}
}

// read reads the configuration, and has everything watched that the rules are
// made from: what is there, and what would be if somebody made it.
func (e *Epochs) read(l *loaded, options Options) (*Setup, []stamp, error) {
	l.mu.Lock()
	paths := l.paths
	l.mu.Unlock()
	base := []string{filepath.Join(options.Home, config.FileName), filepath.Join(options.Home, "policies")}
	if l.Dir != "" {
		base = append(base, filepath.Join(l.Dir, config.FileName), filepath.Join(l.Dir, "policies"))
	}
	paths = union(base, paths)
	for {
		e.watch(l, paths)
		stamps := stampsOf(options)
		setup, err := Read(options)
		if err != nil {
			return setup, stamps, err
		}
		need := union(base, setup.paths())
		if slices.Equal(need, paths) {
			return setup, stamps, nil
		}
		paths = need
	}
}

func union(one, other []string) []string {
	all := slices.Concat(one, other)
	slices.Sort(all)
	return slices.Compact(all)
}

// paths are the files and folders that a setup was read from or will be compiled
// from.
func (s *Setup) paths() []string {
	var paths []string
	for _, layer := range s.Source.Layers {
		paths = append(paths, layer.Paths...)
	}
	for _, plugin := range s.Config.Plugins {
		paths = append(paths, plugin.Command[:min(1, len(plugin.Command))]...)
	}
	for _, reviewer := range s.Config.Reviewers {
		if reviewer.GuidanceFile != "" {
			paths = append(paths, reviewer.GuidanceFile)
		}
	}
	return append(paths, s.Files...)
}

// watch has paths watched from here on.
func (e *Epochs) watch(l *loaded, paths []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.paths = paths
	if l.watch == nil {
		l.watch = e.watcher.Watch(paths, func() { e.load(context.Background(), l, true) })
	} else {
		l.watch.Set(paths)
	}
}

// stampsOf are what the configuration files look like, those that are missing
// included.
func stampsOf(o Options) []stamp {
	var stamps []stamp
	for _, dir := range []string{o.Home, o.Workspace} {
		if dir != "" {
			path := filepath.Join(dir, config.FileName)
			stamps = append(stamps, stamp{path, config.StampOf(path), config.Identify([]string{path})})
		}
	}
	return stamps
}

// missing are the configuration files of a standing that are no longer there.
func missing(s *Standing) []string {
	if s == nil || s.Epoch == nil {
		return nil
	}
	var gone []string
	for _, path := range s.Epoch.Files {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, path)
		}
	}
	return gone
}

// tested runs the tests beside the rules. None is no failure.
func tested(ctx context.Context, s *Setup) error {
	ctx, cancel := context.WithTimeoutCause(ctx, testTime, fmt.Errorf("the tests take more than %s", testTime))
	defer cancel()
	report, err := cases.Run(ctx, s.Source, cases.Options{})
	if err != nil {
		return fmt.Errorf("test the rules before they come into force: %w", err)
	}
	for _, r := range report.Results {
		if r.Status != cases.Pass {
			return fmt.Errorf("a test of the rules does not pass (policy.test_before_load): %s:%d: %s; regent test shows more", r.File, r.Line, r.Name)
		}
	}
	return nil
}

// fail keeps what was in force, and tells why it is not what the files say.
func (e *Epochs) fail(l *loaded, before *Standing, settings rego.Settings, err error, gone bool) {
	e.failed.Add(1)
	next := Standing{Settings: settings, Fault: err, Since: time.Now(), Gone: gone}
	if before != nil {
		next.Epoch, next.Held, next.Unconfirmed, next.Loosened = before.Epoch, before.Held, before.Unconfirmed, before.Loosened
		if before.Fault != nil {
			next.Since = before.Since
			if before.Fault.Error() == err.Error() && before.Gone == gone {
				return // it has been told
			}
		}
	}
	l.install(next)
	_, why := next.Describe()
	e.options.Log.Error("rules not put in force", "workspace", l.Dir, "epoch", next.ID(), "error", err)
	e.options.Feed.Post(Notice{At: time.Now(), Kind: NoticeFault, Workspace: l.Dir, Epoch: next.ID(), Message: why})
}

// put puts a good epoch in force, or holds it if it loosens and has to be
// confirmed first. said is that the owner has just spoken about trust.
func (e *Epochs) put(ctx context.Context, l *loaded, before *Standing, next Standing, said bool) {
	notice := Notice{At: time.Now(), Kind: NoticeEpoch, Workspace: l.Dir, Epoch: next.Epoch.ID, Message: "rules in force"}
	switch {
	case before == nil || before.Epoch == nil:
		stored, err := e.confirmed.of(l.Dir)
		if err != nil || stored != "" && stored != next.Epoch.ID {
			next.Unconfirmed = true
			next.Loosened = []string{"the rules are others than those that were confirmed last"}
			notice.Kind, notice.Message = NoticeHeld, next.Loosened[0]
		}
		if err != nil {
			e.options.Log.Error("what was confirmed cannot be read, so nothing is", "error", err)
		}
	case before.Unconfirmed && before.Epoch.ID != next.Epoch.ID:
		// To put back what was confirmed needs no confirmation.
		if stored, err := e.confirmed.of(l.Dir); err != nil || stored != next.Epoch.ID {
			next.Unconfirmed, next.Loosened = true, before.Loosened
		}
	case before.Held != nil && before.Fault == nil && sameEpoch(before.Held, next.Epoch):
		return // it waits already
	case sameEpoch(before.Epoch, next.Epoch):
		if before.Fault == nil && before.Held == nil {
			return // a file was touched
		}
		next.Unconfirmed, next.Loosened = before.Unconfirmed, before.Loosened
		notice.Message = "the files say again what is in force"
	default:
		for _, one := range config.Looser(before.Epoch.Config, next.Epoch.Config) {
			next.Loosened = append(next.Loosened, one.String())
		}
		if said {
			break
		}
		if before.Epoch.Config.Policy.ConfirmLoosening {
			changed := rulesChanged(ctx, before.Epoch, next.Epoch)
			if ctx.Err() != nil {
				return
			}
			if changed {
				next.Loosened = append(next.Loosened, "the rules changed; what they let pass may be more than before")
			}
			if len(next.Loosened) > 0 {
				next.Held, next.Epoch = next.Epoch, before.Epoch
				notice.Kind, notice.Epoch = NoticeHeld, next.Held.ID
				notice.Message = "an edit waits for confirmation: " + strings.Join(next.Loosened, "; ")
			}
		} else if len(next.Loosened) > 0 {
			notice.Kind, notice.Message = NoticeLoosened, "rules in force that loosen: "+strings.Join(next.Loosened, "; ")
		}
	}
	if !next.Unconfirmed && next.Held == nil {
		next.Loosened = nil
		e.keep(l.Dir, next.Epoch)
	}
	if before == nil || next.Epoch != before.Epoch {
		next.Epoch.start(ctx, e.options.Plugins)
	}
	l.install(next)
	e.options.Log.Info(notice.Message, "workspace", l.Dir, "epoch", notice.Epoch)
	e.options.Feed.Post(notice)
}

// rulesChanged tells whether two epochs differ in more than their settings.
// What rules let pass cannot be compared, so any change of them may loosen.
func rulesChanged(ctx context.Context, before, next *Epoch) bool {
	if before.ID == next.ID {
		return false
	}
	source := next.Source
	source.Settings = before.Source.Settings
	// What reviewers, plugins and hooks loosen can be told from the configuration.
	source.Others = before.Source.Others
	policy, err := rego.Load(ctx, source)
	return err != nil || policy.Epoch() != before.ID
}

// keep remembers what is in force beyond this process, where the owner wants to
// confirm what loosens: an edit must not come into force by a restart.
func (e *Epochs) keep(dir string, epoch *Epoch) {
	id := ""
	if epoch.Config.Policy.ConfirmLoosening {
		id = epoch.ID
	}
	if err := e.confirmed.set(dir, id); err != nil {
		e.options.Log.Error("what is confirmed cannot be written; after a restart it has to be confirmed again", "workspace", dir, "error", err)
	}
}

// sameEpoch tells whether two epochs rule alike and say the same of everything
// else.
func sameEpoch(one, other *Epoch) bool {
	if one.ID != other.ID || one.Trusted != other.Trusted {
		return false
	}
	a, err := json.Marshal(one.Config)
	b, otherErr := json.Marshal(other.Config)
	return err == nil && otherErr == nil && string(a) == string(b)
}

// ErrMovedOn means that the rules to confirm are no longer those that were
// looked at. Look again.
var ErrMovedOn = errors.New("these rules are not what waits for confirmation")

// Confirm puts in force what waits in a workspace ("" for the home). epoch is
// the fingerprint of what was looked at.
func (e *Epochs) Confirm(ctx context.Context, dir, epoch string, by Principal) error {
	if err := by.MayAdminister(); err != nil {
		return err
	}
	e.mu.Lock()
	l := e.loaded[dir]
	e.mu.Unlock()
	if l == nil {
		return fmt.Errorf("%w: %s is not loaded", ErrMovedOn, dir)
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	s := *l.Standing()
	switch {
	case s.Held != nil && s.Held.ID == epoch:
		s.Epoch, s.Held = s.Held, nil
		s.Epoch.start(ctx, e.options.Plugins)
	case s.Unconfirmed && s.Epoch.ID == epoch:
		s.Unconfirmed = false
	default:
		return fmt.Errorf("%w: in force is %s", ErrMovedOn, s.ID())
	}
	s.Loosened = nil
	e.keep(dir, s.Epoch)
	l.install(s)
	e.options.Log.Info("rules confirmed", "workspace", dir, "epoch", epoch, "by", by.ID)
	e.options.Feed.Post(Notice{At: time.Now(), Kind: NoticeEpoch, Workspace: dir, Epoch: epoch, Message: "rules confirmed by " + by.name()})
	return nil
}

// rest unloads what nobody asks about.
func (e *Epochs) rest() {
	tick := time.NewTicker(max(min(e.options.Idle/2, time.Minute), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-e.stopped:
			return
		case <-tick.C:
			e.unload(time.Now().Add(-e.options.Idle))
		}
	}
}

// unload lets go of the workspaces that were last asked about before an instant
// and that nothing waits in. The home stays.
func (e *Epochs) unload(before time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for dir, l := range e.loaded {
		if dir == "" || l.waits.Load() > 0 || l.used.Load() >= before.UnixNano() {
			continue
		}
		delete(e.loaded, dir)
		l.close()
		e.options.Log.Info("unloaded, since nobody asked", "workspace", dir)
		e.options.Feed.wake()
	}
}

// WorkspaceStatus is how one workspace stands.
type WorkspaceStatus struct {
	// Dir is "" for the home itself.
	Dir     string `json:"dir"`
	Trusted bool   `json:"trusted"`
	// State is current, stale (the last good rules are in force), held or
	// unconfirmed (a change that loosens waits), or asking (no rules at all).
	State string `json:"state"`
	// Why explains any other state than current.
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Epoch string    `json:"epoch"`
	// Held is the epoch that waits for confirmation.
	Held     string   `json:"held,omitempty"`
	Loosened []string `json:"loosened,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Refused is what an untrusted workspace asks for and does not get.
	Refused []string `json:"refused,omitempty"`
	Rules   int      `json:"rules"`
	Waiting int64    `json:"waiting"`
}

// Status tells how every loaded workspace stands, the home first.
func (e *Epochs) Status() []WorkspaceStatus {
	e.mu.Lock()
	all := make([]*loaded, 0, len(e.loaded))
	for _, l := range e.loaded {
		all = append(all, l)
	}
	e.mu.Unlock()
	slices.SortFunc(all, func(a, b *loaded) int { return strings.Compare(a.Dir, b.Dir) })
	out := make([]WorkspaceStatus, 0, len(all))
	for _, l := range all {
		s := l.Standing()
		if s == nil {
			continue
		}
		status := WorkspaceStatus{Dir: l.Dir, Epoch: s.ID(), Loosened: s.Loosened, Since: s.Since, Waiting: l.waits.Load()}
		status.State, status.Why = s.Describe()
		if s.Held != nil {
			status.Held = s.Held.ID
		}
		if epoch := s.Epoch; epoch != nil {
			status.Trusted = epoch.Trusted
			status.Rules = len(epoch.Policy.Rules())
			for _, w := range epoch.Warnings {
				status.Warnings = append(status.Warnings, w.String())
			}
			for _, r := range epoch.Refused {
				status.Refused = append(status.Refused, r.String())
			}
		}
		out = append(out, status)
	}
	return out
}

// Degraded says why changes of files may be seen late, or "".
func (e *Epochs) Degraded() string { return e.watcher.Degraded() }

// Loads counts how often rules were loaded, and how often that did not end with
// them in force.
func (e *Epochs) Loads() (all, failed int64) { return e.loads.Load(), e.failed.Load() }

// confirmed remembers, by workspace, the epoch that its owner last confirmed.
type confirmed struct{ path string }

type confirmedFile struct {
	Version int               `json:"version"`
	Epochs  map[string]string `json:"epochs"`
}

func (c confirmed) of(dir string) (string, error) {
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	file, err := c.parse(data)
	return file.Epochs[dir], err
}

func (c confirmed) parse(data []byte) (confirmedFile, error) {
	var file confirmedFile
	if err := json.Unmarshal(data, &file); err != nil {
		return file, fmt.Errorf("%s: %w", c.path, err)
	}
	if file.Version != 1 {
		return file, fmt.Errorf("%s: version %d is not known to this regent", c.path, file.Version)
	}
	return file, nil
}

// set writes only what changes something: most homes confirm nothing.
func (c confirmed) set(dir, epoch string) error {
	stored, err := c.of(dir)
	if err != nil || stored == epoch {
		return err
	}
	return config.ReplaceFile(c.path, func(before []byte) ([]byte, error) {
		file := confirmedFile{Version: 1}
		if before != nil {
			if file, err = c.parse(before); err != nil {
				return nil, err
			}
		}
		if file.Epochs == nil {
			file.Epochs = map[string]string{}
		}
		file.Epochs[dir] = epoch
		if epoch == "" {
			delete(file.Epochs, dir)
		}
		text, err := json.MarshalIndent(file, "", "  ")
		return append(text, '\n'), err
	})
}

var _ Workspaces = (*Epochs)(nil)
