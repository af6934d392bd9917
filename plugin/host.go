package plugin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/reviewer"
)

// ErrUnknown means that a configuration has no plugin of that name. Name one of
// those that it has.
var ErrUnknown = errors.New("unknown plugin")

var errClosed = errors.New("the host of plugins is closed")

// Options say how plugins are run. The zero value will do.
type Options struct {
	// Log is where what plugins write goes, and what becomes of them; nowhere where
	// it is nil.
	Log *slog.Logger
	// StartTimeout is how long a plugin may take from its start until it is ready;
	// 10 seconds where it is 0.
	StartTimeout time.Duration
	// HealthEvery is how often one is asked whether it is well, and HealthTimeout
	// how long it may take to say so; 15 and 3 seconds where they are 0. One that
	// says nothing is started again.
	HealthEvery, HealthTimeout time.Duration
	// TempDir is where the sockets of plugins are, each in a folder of its own; the
	// system's folder for temporary files where it is empty. Its path has to be
	// short.
	TempDir string
	// clock is the system's where it is nil.
	clock clock
}

// clock is what waits for the next start of a plugin.
type clock interface {
	Now() time.Time
	// After sends once d has passed, unless stop is called before.
	After(d time.Duration) (passed <-chan time.Time, stop func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Host runs plugins. It is safe for concurrent use.
//
// A plugin that several sets have with the same name, command, program, pin and
// variables is one process, and it lives as long as one of them is open.
type Host struct {
	options Options
	// ctx ends with the host, and with it every call.
	ctx   context.Context
	close context.CancelCauseFunc

	mu        sync.Mutex
	instances map[string]*instance
	// leaving are those that are in no set any more, and have not ended yet.
	leaving map[*instance]bool
	running sync.WaitGroup
}

// NewHost makes a host that runs nothing yet. Close ends it.
func NewHost(o Options) *Host {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.StartTimeout = cmp.Or(o.StartTimeout, 10*time.Second)
	o.HealthEvery = cmp.Or(o.HealthEvery, 15*time.Second)
	o.HealthTimeout = cmp.Or(o.HealthTimeout, 3*time.Second)
	if o.clock == nil {
		o.clock = systemClock{}
	}
	h := &Host{options: o, instances: map[string]*instance{}, leaving: map[*instance]bool{}}
	h.ctx, h.close = context.WithCancelCause(context.Background())
	return h
}

// Close ends every plugin, also in the middle of a call, and returns when none is
// left.
func (h *Host) Close() {
	h.mu.Lock()
	h.close(errClosed)
	h.mu.Unlock()
	h.running.Wait()
}

// Set is the plugins of one configuration. It is safe for concurrent use.
type Set struct {
	host    *Host
	plugins map[string]*instance
	once    sync.Once
}

// Open starts the plugins of a configuration that do not run yet, and returns when
// each of them is healthy or has failed to become so, or when ctx ends. Err tells
// of those that failed. They are in the set all the same: they are started again,
// and asking one is an error until it runs.
//
// To swap one configuration for another, open the set of the new one, let new
// requests use it, and close the set of the old one: what is being asked then is
// answered by whoever it was asked of. Close has to be called for every set.
func (h *Host) Open(ctx context.Context, plugins map[string]config.Plugin) *Set {
	s := &Set{host: h, plugins: map[string]*instance{}}
	programs := make(map[string]program, len(plugins))
	for name, p := range plugins {
		programs[name] = programOf(name, p)
	}
	h.mu.Lock()
	for name, p := range programs {
		id := p.identity()
		i := h.instances[id]
		if i == nil {
			i = newInstance(h, id, p)
			if h.ctx.Err() == nil {
				h.instances[id] = i
				h.running.Go(i.supervise)
			} else {
				i.turn(StateEnded, nil)
			}
		}
		i.sets++
		s.plugins[name] = i
	}
	h.mu.Unlock()
	for _, i := range s.plugins {
		i.revive()
	}
	for _, i := range s.plugins {
		i.settle(ctx)
	}
	return s
}

// Close lets go of the plugins. Those that no other set has end as soon as nothing
// is asked of them any more, which Close does not wait for; a harness is hung up on.
func (s *Set) Close() {
	s.once.Do(func() {
		h := s.host
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, i := range s.plugins {
			if i.sets--; i.sets > 0 {
				continue
			}
			if h.instances[i.id] == i {
				delete(h.instances, i.id)
				h.leaving[i] = true
			}
			i.retire()
		}
	})
}

// Err joins what is wrong with the plugins that do not run, in the order of their
// names; nil where all do.
func (s *Set) Err() error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(s.plugins)) {
		faults = append(faults, s.plugins[name].fault())
	}
	return errors.Join(faults...)
}

// instance is the plugin of a name.
func (s *Set) instance(name string) (*instance, error) {
	i, ok := s.plugins[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q; %s", ErrUnknown, name, s.known())
	}
	return i, nil
}

func (s *Set) known() string {
	if len(s.plugins) == 0 {
		return "no plugin is configured"
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(s.plugins)), ", ")
}

// Reviewer is the reviewer that c configures by that name, of kind plugin. c is the
// configuration whose plugins the set has. An error wraps reviewer.ErrUnknown or
// [ErrUnknown]; a plugin that does not run or is of another kind is no error here,
// and its verdicts say so.
func (s *Set) Reviewer(c *config.Config, name string) (reviewer.Reviewer, error) {
	r, ok := c.Reviewers[name]
	if !ok || r.Kind != config.ReviewerPlugin {
		return nil, fmt.Errorf("%w: no reviewer of kind plugin is named %q", reviewer.ErrUnknown, name)
	}
	i, err := s.instance(r.Plugin)
	if err != nil {
		return nil, fmt.Errorf("reviewers.%s.plugin: %w", name, err)
	}
	seconds := cmp.Or(r.TimeoutSeconds, c.Permissions.ReviewTimeoutSeconds)
	return &remote{plugin: i, name: name, args: maps.Clone(r.Args), timeout: time.Duration(seconds) * time.Second}, nil
}

// programOf reads what is to be started, as it is now. What cannot be read shows
// when it is started.
func programOf(name string, p config.Plugin) program {
	out := program{name: name, command: slices.Clone(p.Command), digest: strings.ToLower(p.SHA256), pinned: p.SHA256 != ""}
	if len(out.command) == 0 {
		out.command = []string{""}
	}
	if !out.pinned {
		out.digest, _ = Sum(out.command[0])
	}
	for _, variable := range p.Env {
		if value, ok := os.LookupEnv(variable); ok {
			out.env = append(out.env, variable+"="+value)
		}
	}
	return out
}

// identity tells two programs apart.
func (p program) identity() string {
	text, err := json.Marshal([]any{p.name, p.command, p.digest, p.pinned, p.env})
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// State is what a plugin does now.
type State string

// The states of a plugin.
const (
	// StateStarting is between the start of the process and its being ready.
	StateStarting State = "starting"
	StateRunning  State = "running"
	// StateWaiting is that of one which broke and is started again in a while.
	StateWaiting State = "waiting"
	// StateDisabled is that of one which broke too often in a row. It is started
	// again when a configuration that has it is opened.
	StateDisabled State = "disabled"
	// StateDraining is that of one which is in no configuration any more and still
	// answers what it was asked.
	StateDraining State = "draining"
	StateEnded    State = "ended"
)

// Status is how a plugin does.
type Status struct {
	Name    string   `json:"name"`
	Command []string `json:"command"`
	// SHA256 is the digest of the program, and Pinned whether the configuration
	// says it.
	SHA256 string `json:"sha256,omitempty"`
	Pinned bool   `json:"pinned"`
	State  State  `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// PID, Plugin, Version and Kinds are those of the process; absent where there
	// is none.
	PID     int    `json:"pid,omitempty,omitzero"`
	Plugin  string `json:"plugin,omitempty"`
	Version string `json:"version,omitempty"`
	Kinds   []Kind `json:"kinds,omitempty"`
	// Breaker tells whether it is asked, and Retry when it is asked or started
	// again.
	Breaker BreakerState `json:"breaker"`
	Retry   *time.Time   `json:"retry,omitempty"`
	// Calls counts those that are being answered.
	Calls int `json:"calls"`
	// Restarts counts the starts after the first.
	Restarts int `json:"restarts"`
	// Error is what last went wrong, and ErrorAt when.
	Error   string     `json:"error,omitempty"`
	ErrorAt *time.Time `json:"error_at,omitempty"`
}

// Status lists the plugins that run or should, by name, and those that are being
// drained.
func (h *Host) Status() []Status {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.instances))
	all = slices.AppendSeq(all, maps.Keys(h.leaving))
	h.mu.Unlock()
	list := make([]Status, 0, len(all))
	for _, i := range all {
		list = append(list, i.status())
	}
	slices.SortFunc(list, func(one, other Status) int {
		return cmp.Or(strings.Compare(one.Name, other.Name), one.Since.Compare(other.Since), one.PID-other.PID)
	})
	return list
}

// String says it in one line.
func (s Status) String() string {
	text := fmt.Sprintf("%s %s", s.Name, s.State)
	if s.Breaker != BreakerClosed {
		text += ", breaker " + strings.ReplaceAll(string(s.Breaker), "_", "-")
	}
	if !s.Pinned {
		text += ", not pinned"
	}
	if s.Retry != nil {
		text += ", tried again at " + s.Retry.Format(time.TimeOnly)
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}
