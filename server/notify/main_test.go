package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/server/notify"
)

// play, as the first argument, has the test binary be a program that is told: the
// second is what it does.
const play = "play"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == play {
		// os.Exit would wait for a second under the race detector.
		syscall.Exit(perform(os.Args[2], os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}

// heard is what a program that is told has seen.
type heard struct {
	Args  []string
	Env   []string
	Input string
}

func perform(role string, args []string) int {
	switch role {
	case "save": // FILE ARGS...
		input, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 2
		}
		names := []string{}
		for _, one := range os.Environ() {
			name, _, _ := strings.Cut(one, "=")
			names = append(names, name)
		}
		text, err := json.Marshal(heard{args[1:], names, string(input)})
		if err != nil {
			return 2
		}
		f, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 2
		}
		if _, err := fmt.Fprintf(f, "%s\n", text); err != nil {
			return 2
		}
		return 0
	case "fail": // TEXT
		fmt.Fprintln(os.Stderr, args[0])
		return 3
	default:
		return 2
	}
}

// savedAt is what programs have saved in a file.
func savedAt(t testing.TB, path string) []heard {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var all []heard
	for one := range strings.Lines(string(text)) {
		var h heard
		if err := json.Unmarshal([]byte(one), &h); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// world is a ledger and a feed that tests write.
type world struct {
	testing.TB
	mu      sync.Mutex
	changed chan struct{}
	notices []gate.Notice
	events  []approval.Event
	records map[string]approval.Record
	fault   error
	named   map[string]config.Notifier
	log     bytes.Buffer
	// head is the last event that was passed over.
	head int
}

func newWorld(t testing.TB) *world {
	return &world{TB: t, changed: make(chan struct{}), records: map[string]approval.Record{}}
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) Notices(after int64) []gate.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]gate.Notice(nil), w.notices[min(int(after), len(w.notices)):]...)
}

func (w *world) Events(_ context.Context, after int64, limit int) ([]approval.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		return nil, w.fault
	}
	left := w.events[after:]
	return append([]approval.Event(nil), left[:min(limit, len(left))]...), nil
}

func (w *world) Read(_ context.Context, id string) (approval.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r, ok := w.records[id]; ok {
		return r, nil
	}
	return approval.Record{}, approval.ErrNotFound
}

func (w *world) Stats() ledger.Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = len(w.events)
	s := ledger.Stats{}
	s.Head.Seq = int64(len(w.events))
	return s
}

// Write is the log.
func (w *world) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(text)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) configured() map[string]config.Notifier {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.named
}

// change changes what followers see, as one, and wakes them.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// add appends an event of a record as it stands.
func (w *world) add(kind approval.EventKind, r approval.Record) {
	w.records[r.ID] = r
	e := approval.Event{Seq: int64(len(w.events)) + 1, At: r.Updated, Kind: kind, ID: r.ID, Revision: r.Revision, State: r.State, Workspace: r.Workspace}
	if kind == approval.EventDecided {
		e.Outcome, e.Source, e.By = r.Decision.Outcome, r.Decision.Source, r.Decision.By
	}
	w.events = append(w.events, e)
}

// record is a new one that waits.
func (w *world) record(route approval.Route, text string) approval.Record {
	return w.recordOf(route, &approval.Request{
		Kind: approval.KindCommand, Command: &approval.Command{Text: text}, Environment: &approval.Environment{Cwd: "/w"},
		Run:     &approval.Run{ID: "run1"},
		Session: &approval.Session{ID: "s1", TurnID: "t1", CallID: "c1"},
		Subject: &approval.Subject{ID: "agent:a", OnBehalfOf: "user:sam"},
	})
}

func (w *world) recordOf(route approval.Route, q *approval.Request) approval.Record {
	w.Helper()
	r, err := approval.New(approval.Draft{
		Request: q, Instance: "i1", Workspace: "/w",
		Ruling: approval.Ruling{
			Route: route, Effects: []approval.Effect{approval.EffectProcess}, Epoch: "e1",
			Deadlines: approval.Deadlines{ReviewSeconds: 30, RequestSeconds: 600},
		},
	}, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// ask has a request wait.
func (w *world) ask(route approval.Route, text string) approval.Record {
	w.Helper()
	r := w.record(route, text)
	w.change(func() { w.add(approval.EventAsked, r) })
	return r
}

// decided is a record that was decided.
func decided(r approval.Record, d approval.Decision) approval.Record {
	r.Revision++
	r.State, r.Decision = approval.Decided, &d
	return r
}

// settled is a decision of a person.
func settled(reason string) approval.Decision {
	return approval.Decision{Option: json.RawMessage(`"allow"`), Outcome: approval.OutcomeAllow, Source: approval.SourceHuman, By: "user:sam", Reason: reason}
}

// closed is a record that ended.
func closed(r approval.Record, s approval.State, reason string) approval.Record {
	r.Revision++
	r.State, r.Closing = s, &approval.Closing{Reason: reason, By: "user:sam"}
	return r
}

// open follows the world, with notifiers and short times. A plugin is told by
// whatever has its name in plugins.
func (w *world) open(named map[string]config.Notifier, plugins map[string]notify.Notifier) *notify.Hub {
	w.named = named
	h := notify.OpenWithin(notify.Options{
		Ledger: w, Feed: w, Configured: w.configured, Log: slog.New(slog.NewTextHandler(w, nil)),
		Plugin: func(name string) (notify.Notifier, error) {
			if n, ok := plugins[name]; ok {
				return n, nil
			}
			return nil, fmt.Errorf("no plugin is named %s", name)
		},
	}, 10*time.Second, 10*time.Second, time.Millisecond, time.Millisecond, time.Millisecond)
	w.Cleanup(h.Close)
	return h
}

// plugin is the configuration of a notifier that a test plays.
func plugin(name string, details config.NotifierDetails, events ...config.NotifierEvent) config.Notifier {
	return config.Notifier{Kind: config.NotifierPlugin, Plugin: name, Details: details, Events: events}
}

var everything = []config.NotifierEvent{config.NotifyPending, config.NotifyDecided, config.NotifyClosed, config.NotifyNotice}

// ear hears in order, and says what came of it. The zero value hears all.
type ear struct {
	mu   sync.Mutex
	all  []notify.Notification
	tell func(ctx context.Context, n notify.Notification) error
	// more is closed when there is more.
	more chan struct{}
}

func (e *ear) Notify(ctx context.Context, n notify.Notification) error {
	e.mu.Lock()
	e.all = append(e.all, n)
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
	tell := e.tell
	e.mu.Unlock()
	if tell != nil {
		return tell(ctx, n)
	}
	return nil
}

func (e *ear) heard() []notify.Notification {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]notify.Notification(nil), e.all...)
}

// has waits until so much was heard.
func (e *ear) has(t testing.TB, many int) {
	t.Helper()
	for {
		e.mu.Lock()
		if len(e.all) >= many {
			e.mu.Unlock()
			return
		}
		if e.more == nil {
			e.more = make(chan struct{})
		}
		more := e.more
		e.mu.Unlock()
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatal("nothing is heard")
		}
	}
}

// until wakes those who follow until something is true.
func (w *world) until(is func() bool) {
	for !is() {
		w.change(func() {})
		runtime.Gosched()
	}
}

// stat is how the notifier of that name stands.
func stat(t testing.TB, h *notify.Hub, name string) notify.Stats {
	t.Helper()
	for _, s := range h.Stats() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("nothing is said of %s", name)
	return notify.Stats{}
}
