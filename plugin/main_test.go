package plugin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/plugin/pluginpb"
	"github.com/regent-policy/regent/reviewer"
)

// TestMain makes the test binary a plugin where it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "plugin" {
		fake(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var info = plugin.Info{Name: "fake", Version: "1.2.3"}

// fake is a plugin that behaves, or does not, as mode says.
func fake(mode string, args []string) {
	say := func(f func(r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error)) plugin.Role {
		return plugin.RawReviewer(raw{f: func(_ context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) { return f(r) }})
	}
	allow := func(change func(v *pluginpb.Verdict)) plugin.Role {
		return say(func(r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			v := &pluginpb.Verdict{Id: r.GetId(), Outcome: pluginpb.Outcome_OUTCOME_ALLOW}
			change(v)
			return v, nil
		})
	}
	switch mode {
	case "good": // args: what it says
		plugin.Serve(info, plugin.Reviewer(plugin.ReviewFunc(func(ctx context.Context, q reviewer.Question) plugin.Verdict {
			return plugin.Verdict{
				Outcome: plugin.OutcomeAllow, Risk: plugin.RiskLow, Scope: permission.Once,
				Rationale: strings.Join(args, " ") + plugin.Args(ctx)["suffix"],
			}
		})))
	case "env":
		plugin.Serve(info, plugin.Reviewer(plugin.ReviewFunc(func(context.Context, reviewer.Question) plugin.Verdict {
			var names []string
			for _, v := range os.Environ() {
				name, value, _ := strings.Cut(v, "=")
				if name == "PASSED" {
					name = v
				}
				_ = value
				names = append(names, name)
			}
			return plugin.Verdict{Outcome: plugin.OutcomeUnsure, Rationale: strings.Join(names, " ")}
		})))
	case "echo": // says what it was asked
		plugin.Serve(info, plugin.Reviewer(plugin.ReviewFunc(func(ctx context.Context, q reviewer.Question) plugin.Verdict {
			text, err := json.Marshal(map[string]any{"id": q.ID, "request": q.Request, "route": q.Ruling.Route, "workspace": q.Workspace, "args": plugin.Args(ctx)})
			if err != nil {
				panic(err)
			}
			return plugin.Verdict{Outcome: plugin.OutcomeDeny, Rationale: string(text), Usage: &approval.Usage{Model: "m", InputTokens: 3, OutputTokens: 4, CostUSD: 0.5}}
		})))
	case "other-id":
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Id = "another" }))
	case "session":
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Scope = pluginpb.Scope_SCOPE_SESSION }))
	case "grant": // args: the profile
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Permissions = []byte(args[0]) }))
	case "huge":
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Rationale = strings.Repeat("x", plugin.MaxReply+1) }))
	case "empty":
		plugin.Serve(info, say(func(r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			return &pluginpb.Verdict{Id: r.GetId()}, nil
		}))
	case "novel":
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Outcome = 77 }))
	case "critical":
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Risk = pluginpb.Risk_RISK_CRITICAL }))
	case "usage":
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Usage = &pluginpb.Usage{InputTokens: -1} }))
	case "fails":
		plugin.Serve(info, say(func(*pluginpb.ReviewRequest) (*pluginpb.Verdict, error) { return nil, errors.New("out of \x1b[31mink") }))
	case "panics":
		plugin.Serve(info, plugin.Reviewer(plugin.ReviewFunc(func(context.Context, reviewer.Question) plugin.Verdict { panic("lost my head") })))
	case "dies":
		plugin.Serve(info, say(func(*pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			os.Exit(3)
			return nil, nil
		}))
	case "waits": // until it is cancelled; says on standard error that it was asked
		plugin.Serve(info, plugin.RawReviewer(raw{f: func(ctx context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			fmt.Fprintln(os.Stderr, "asked", r.GetId())
			<-ctx.Done()
			return nil, ctx.Err()
		}}))
	case "once": // answers when the file is there that it is given
		plugin.Serve(info, plugin.RawReviewer(raw{f: func(_ context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			fmt.Fprintln(os.Stderr, "asked", r.GetId())
			f, err := os.Open(args[0]) // a named pipe: opens when the test does
			if err != nil {
				return nil, err
			}
			return &pluginpb.Verdict{Id: r.GetId(), Outcome: pluginpb.Outcome_OUTCOME_DENY, Rationale: "finished"}, f.Close()
		}}))
	case "stops": // itself, as a process that hangs
		plugin.Serve(info, plugin.RawReviewer(raw{f: func(ctx context.Context, _ *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return nil, err
			}
			<-ctx.Done() // a process runs on for a moment after it was stopped
			return nil, ctx.Err()
		}}))
	case "chatters":
		fmt.Println("starting up...")
		plugin.Serve(info, allow(func(*pluginpb.Verdict) {}))
	case "prints":
		plugin.Serve(info, say(func(r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			fmt.Println("token=hunter2hunter2 \x1b[2J on stdout")
			fmt.Fprintln(os.Stderr, `{"level":"ERROR","msg":"bad"}`)
			return &pluginpb.Verdict{Id: r.GetId(), Outcome: pluginpb.Outcome_OUTCOME_DENY}, nil
		}))
	case "floods":
		w := bufio.NewWriter(os.Stderr)
		for range 20 * plugin.LinesAtOnce {
			fmt.Fprintln(w, strings.Repeat("noise ", 100))
		}
		if err := w.Flush(); err != nil {
			panic(err)
		}
		plugin.Serve(info, allow(func(*pluginpb.Verdict) {}))
	case "host": // has a plugin, and says which process that is
		h := plugin.NewHost(plugin.Options{})
		path, err := os.Executable()
		if err != nil {
			panic(err)
		}
		s := h.Open(context.Background(), map[string]config.Plugin{"acme": {Command: []string{path, "plugin", "good"}}})
		if err := s.Err(); err != nil {
			panic(err)
		}
		fmt.Println(h.Status()[0].PID)
		select {}
	case "brief": // exits 200 ms after its start
		time.AfterFunc(200*time.Millisecond, func() { os.Exit(5) })
		plugin.Serve(info, allow(func(*pluginpb.Verdict) {}))
	case "silent":
		select {}
	case "exits":
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(7)
	case "line": // args: its first line
		fmt.Println(args[0])
		select {}
	case "endless":
		for {
			if _, err := fmt.Print(strings.Repeat("x", 4096)); err != nil {
				return
			}
		}
	case "stubborn": // does not mind being told to end, nor the end of its input
		ignoreTermination()
		select {}
	case "child": // starts a process that outlives it, if it can
		cmd := exec.Command("/bin/sh", "-c", "exec sleep 600")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		plugin.Serve(info, allow(func(v *pluginpb.Verdict) { v.Rationale = fmt.Sprint(cmd.Process.Pid) }))
	case "one-at-a-time":
		var busy atomic.Bool
		plugin.Serve(info, plugin.RawReviewer(raw{f: func(ctx context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			if !busy.CompareAndSwap(false, true) {
				return nil, errors.New("one at a time")
			}
			defer busy.Store(false)
			pause := time.NewTimer(50 * time.Millisecond)
			defer pause.Stop()
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			return &pluginpb.Verdict{Id: r.GetId()}, nil
		}}))
	case "strict":
		plugin.Serve(info, say(func(r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
			_, err := approval.Decode(r.GetRequest())
			return &pluginpb.Verdict{Id: r.GetId()}, err
		}))
	case "gullible":
		plugin.Serve(info, allow(func(*pluginpb.Verdict) {}))
	case "small", "naked":
		bare(mode == "naked")
	case "deaf":
		ignoreTermination()
		if err := os.Stdin.Close(); err != nil {
			panic(err)
		}
		if err := os.Unsetenv("REGENT_PLUGIN_STDIN"); err != nil {
			panic(err)
		}
		plugin.Serve(info, allow(func(*pluginpb.Verdict) {}))
	case "notifier":
		plugin.Serve(info, plugin.Notifier(func(_ context.Context, n plugin.Notice) error {
			fmt.Fprintln(os.Stderr, "noticed", n.ID, n.Event, string(n.Notification))
			if n.Event == "unwelcome" {
				return errors.New("not now")
			}
			return nil
		}))
	case "harness": // asks as many questions as it is told, and says what came of them
		plugin.Serve(info, plugin.Harness(func(ctx context.Context, ask plugin.Ask) error {
			var running sync.WaitGroup
			for _, question := range args {
				running.Go(func() {
					a, err := ask(ctx, json.RawMessage(question))
					fmt.Fprintln(os.Stderr, "answer", question, a.Outcome, a.Reason, err)
				})
			}
			running.Wait()
			return nil
		}))
	case "impatient": // withdraws its only question
		plugin.Serve(info, plugin.Harness(func(ctx context.Context, ask plugin.Ask) error {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := ask(short, json.RawMessage(`{}`))
			fmt.Fprintln(os.Stderr, "gave up:", err)
			<-ctx.Done()
			return nil
		}))
	case "repeats": // uses one id twice
		plugin.Serve(info, plugin.RawHarness(rawHarness{}))
	default:
		panic("unknown mode " + mode)
	}
}

type raw struct {
	pluginpb.UnimplementedReviewerServer
	f func(ctx context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error)
}

func (s raw) Review(ctx context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
	return s.f(ctx, r)
}

type rawHarness struct {
	pluginpb.UnimplementedHarnessServer
}

func (rawHarness) Connect(stream grpc.BidiStreamingServer[pluginpb.HarnessInput, pluginpb.HarnessOutput]) error {
	for range 2 {
		err := stream.Send(&pluginpb.HarnessOutput{Message: &pluginpb.HarnessOutput_Request{Request: &pluginpb.HarnessRequest{Id: "one"}}})
		if err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// self is the command that makes a plugin of the test binary.
func self(t testing.TB, args ...string) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path, "plugin"}, args...)
}

// logged is a log that a test looks at.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newLog() *logged { return &logged{more: make(chan struct{})} }

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// await returns when the log holds every text.
func (l *logged) await(t testing.TB, texts ...string) {
	t.Helper()
	for {
		l.mu.Lock()
		text, more := l.text.String(), l.more
		l.mu.Unlock()
		missing := ""
		for _, want := range texts {
			if !strings.Contains(text, want) {
				missing = want
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-more:
		case <-time.After(20 * time.Second):
			t.Fatalf("the log does not say %q:\n%s", missing, text)
		}
	}
}

// host is one that ends with the test.
func host(t testing.TB, o plugin.Options) *plugin.Host {
	t.Helper()
	h := plugin.NewHost(o)
	t.Cleanup(h.Close)
	return h
}

// pinned is the configuration of a plugin of the test binary.
func pinned(t testing.TB, args ...string) config.Plugin {
	t.Helper()
	command := self(t, args...)
	return config.Plugin{Command: command, SHA256: sum(t, command[0])}
}

var sums sync.Map

// sum is the digest of a file that does not change.
func sum(t testing.TB, path string) string {
	t.Helper()
	if known, ok := sums.Load(path); ok {
		return known.(string)
	}
	s, err := plugin.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	sums.Store(path, s)
	return s
}

// configuration has one reviewer, test/reviewer, that is the plugin.
func configuration(p config.Plugin, args map[string]string) *config.Config {
	c := config.Default("")
	c.Plugins = map[string]config.Plugin{"acme": p}
	c.Reviewers = map[string]config.Reviewer{"test/reviewer": {Kind: config.ReviewerPlugin, Plugin: "acme", Args: args}}
	return c
}

func question(id string) reviewer.Question {
	return reviewer.Question{
		ID:        id,
		Request:   &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "git push"}},
		Ruling:    approval.Ruling{Route: approval.RouteReview, Ceiling: &permission.Ceiling{Permissions: permission.Everything(), Scope: permission.Turn}},
		Workspace: "/work/app/.regent",
	}
}

// review asks the reviewer of a set once.
func review(t testing.TB, s *plugin.Set, c *config.Config, q reviewer.Question) approval.Verdict {
	t.Helper()
	r, err := s.Reviewer(c, "test/reviewer")
	if err != nil {
		t.Fatal(err)
	}
	return r.Review(t.Context(), q)
}

// manual is a clock that stands still until the test moves it.
type manual struct {
	mu      sync.Mutex
	now     time.Time
	waiting map[time.Duration][]chan time.Time
	more    chan struct{}
}

func newClock() *manual {
	return &manual{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), waiting: map[time.Duration][]chan time.Time{}, more: make(chan struct{})}
}

func (m *manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *manual) After(d time.Duration) (<-chan time.Time, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan time.Time, 1)
	m.waiting[d] = append(m.waiting[d], c)
	close(m.more)
	m.more = make(chan struct{})
	return c, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, other := range m.waiting[d] {
			if other == c {
				m.waiting[d] = append(m.waiting[d][:i:i], m.waiting[d][i+1:]...)
			}
		}
	}
}

// pass lets d go by for whoever waits for just that long, once somebody does.
func (m *manual) pass(t testing.TB, d time.Duration) {
	t.Helper()
	for {
		m.mu.Lock()
		more := m.more
		m.mu.Unlock()
		if m.passed(d) {
			return
		}
		select {
		case <-more:
		case <-time.After(20 * time.Second):
			t.Fatalf("nobody waits for %v", d)
		}
	}
}

// passed lets d go by if anybody waits for just that long.
func (m *manual) passed(d time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.waiting[d]
	if len(list) == 0 {
		return false
	}
	m.now = m.now.Add(d)
	for _, c := range list {
		c <- m.now
	}
	delete(m.waiting, d)
	return true
}

func (m *manual) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}
