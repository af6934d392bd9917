package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin"
)

// awaitState returns when the status is as it should be. A status has no event, so
// it is looked at again and again.
func awaitState(t testing.TB, h *plugin.Host, ok func(list []plugin.Status) bool) {
	t.Helper()
	await(t, func() bool { return ok(h.Status()) }, func() string { return fmt.Sprint(h.Status()) })
}

func await(t testing.TB, ok func() bool, state func() string) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-late.C:
			t.Fatalf("it does not come to that: %s", state())
		}
	}
}

func only(state plugin.State) func([]plugin.Status) bool {
	return func(list []plugin.Status) bool { return len(list) == 1 && list[0].State == state }
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestKilledPluginIsStartedAgain(t *testing.T) {
	log := newLog()
	h := host(t, plugin.Options{Log: log.logger()})
	c := configuration(pinned(t, "waits"), nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	first := h.Status()[0].PID
	verdict := make(chan approval.Verdict)
	go func() { verdict <- review(t, s, c, question("a1")) }()
	log.await(t, "asked a1")
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	v := <-verdict
	if v.Outcome != approval.VerdictError || !strings.Contains(v.Rationale, "it broke off") {
		t.Errorf("verdict of a plugin that was killed = %+v", v)
	}
	awaitState(t, h, func(list []plugin.Status) bool {
		return only(plugin.StateRunning)(list) && list[0].PID != first
	})
	status := h.Status()[0]
	if status.Restarts != 1 || status.Breaker != plugin.BreakerClosed || status.Error == "" {
		t.Errorf("status = %+v", status)
	}
	go func() { verdict <- review(t, s, c, question("a2")) }()
	log.await(t, "asked a2")
	h.Close()
	if v := <-verdict; v.Outcome != approval.VerdictError || !strings.Contains(v.Rationale, "the host of plugins is closed") {
		t.Errorf("verdict of a host that was closed = %+v", v)
	}
	if alive(status.PID) {
		t.Errorf("process %d outlived its host", status.PID)
	}
}

// TestHangingPluginIsStartedAgain: a process that is stopped answers nobody, and
// does not mind being told to end.
func TestHangingPluginIsStartedAgain(t *testing.T) {
	h := host(t, plugin.Options{HealthTimeout: 200 * time.Millisecond})
	c := configuration(pinned(t, "stops"), nil)
	r := c.Reviewers["test/reviewer"]
	r.TimeoutSeconds = 1
	c.Reviewers["test/reviewer"] = r
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	first := h.Status()[0].PID
	v := review(t, s, c, question("a1"))
	if v.Outcome != approval.VerdictTimeout || !strings.Contains(v.Rationale, "no answer within 1s") {
		t.Errorf("verdict = %+v", v)
	}
	awaitState(t, h, func(list []plugin.Status) bool {
		return only(plugin.StateRunning)(list) && list[0].PID != first
	})
	if status := h.Status()[0]; !strings.Contains(status.Error, "check its health: it did not answer within 200ms") {
		t.Errorf("status = %v", status)
	}
	await(t, func() bool { return !alive(first) }, func() string { return "the first process is there" })
}

func TestHealthIsCheckedFromTimeToTime(t *testing.T) {
	clock := newClock()
	h := host(t, plugin.Options{HealthEvery: time.Hour, HealthTimeout: 200 * time.Millisecond}.WithClock(clock))
	c := configuration(pinned(t, "good"), nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	first := h.Status()[0].PID
	clock.pass(t, time.Hour)
	clock.pass(t, time.Hour) // the first check found it well, and it is waited again
	if pid := h.Status()[0].PID; pid != first {
		t.Fatalf("a healthy plugin was started again")
	}
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitState(t, h, func(list []plugin.Status) bool {
		clock.passed(time.Hour) // a process runs on for a moment after it was stopped
		return list[0].State == plugin.StateRunning && list[0].PID != first
	})
}

// TestCrashLoopBacksOffAndIsDisabled: however often it is asked, it is not started
// more often, and asking it does not take time.
func TestCrashLoopBacksOffAndIsDisabled(t *testing.T) {
	clock := newClock()
	h := host(t, plugin.Options{}.WithClock(clock))
	c := configuration(pinned(t, "exits"), nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	for n := 1; n < plugin.GiveUpAfter; n++ {
		awaitState(t, h, func(list []plugin.Status) bool {
			return only(plugin.StateWaiting)(list) && list[0].Restarts == n-1
		})
		for range 20 {
			if v := review(t, s, c, question("a1")); v.Outcome != approval.VerdictError {
				t.Fatalf("verdict = %+v", v)
			}
		}
		if starts := h.Status()[0].Restarts + 1; starts != n {
			t.Fatalf("%d starts, want %d", starts, n)
		}
		clock.pass(t, plugin.Backoff(n))
	}
	awaitState(t, h, only(plugin.StateDisabled))
	status := h.Status()[0]
	if status.Restarts != plugin.GiveUpAfter-1 || status.Retry != nil || !strings.Contains(status.String(), "no licence") {
		t.Errorf("status = %+v", status)
	}
	if v := review(t, s, c, question("a2")); !strings.Contains(v.Rationale, "it is disabled") {
		t.Errorf("verdict = %+v", v)
	}
	// A configuration that has it gives it another chance.
	again := h.Open(t.Context(), c.Plugins)
	defer again.Close()
	if err := again.Err(); err == nil || !strings.Contains(err.Error(), "it is waiting") {
		t.Errorf("Err = %v", err)
	}
	if starts := h.Status()[0].Restarts; starts != plugin.GiveUpAfter {
		t.Errorf("%d restarts, want one more", starts)
	}
}

func TestBackoffDoublesUpToABound(t *testing.T) {
	want := []time.Duration{plugin.RestartAfter, 2 * plugin.RestartAfter, 4 * plugin.RestartAfter}
	got := []time.Duration{plugin.Backoff(1), plugin.Backoff(2), plugin.Backoff(3)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := plugin.Backoff(1000); got != 30*time.Second {
		t.Errorf("Backoff(1000) = %v", got)
	}
}

func TestBreaker(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var b plugin.Breaker
	call := func(how string) {
		t.Helper()
		ok, trial := b.Begin(now)
		if !ok {
			t.Fatal("the call is not let through")
		}
		switch how {
		case "failed":
			b.End(now, trial, plugin.Failed)
		case "succeeded":
			b.End(now, trial, plugin.Succeeded)
		default:
			b.End(now, trial, plugin.Untold)
		}
	}
	check := func(want plugin.BreakerState) {
		t.Helper()
		if got := b.State(now); got != want {
			t.Fatalf("state = %s, want %s", got, want)
		}
	}
	for range 5 {
		for range plugin.BreakAfter - 1 {
			call("failed")
		}
		call("untold") // says nothing
		call("succeeded")
		check(plugin.BreakerClosed)
	}
	_, early := b.Begin(now) // a call that lasts
	for range plugin.BreakAfter {
		call("failed")
	}
	check(plugin.BreakerOpen)
	if ok, _ := b.Begin(now); ok {
		t.Fatal("an open breaker lets a call through")
	}
	b.End(now, early, plugin.Succeeded)
	check(plugin.BreakerOpen)
	now = now.Add(plugin.BreakFor)
	check(plugin.BreakerHalfOpen)
	ok, trial := b.Begin(now)
	if !ok || !trial {
		t.Fatal("a half-open breaker lets no call through")
	}
	if ok, _ := b.Begin(now); ok {
		t.Fatal("a half-open breaker lets two calls through")
	}
	b.End(now, trial, plugin.Untold)
	call("failed")
	check(plugin.BreakerOpen)
	now = now.Add(plugin.BreakFor)
	check(plugin.BreakerOpen) // it lasts longer this time
	now = now.Add(plugin.BreakFor)
	check(plugin.BreakerHalfOpen)
	call("succeeded")
	check(plugin.BreakerClosed)
	for range plugin.BreakAfter {
		call("failed")
	}
	for range 10 {
		now = now.Add(plugin.BreakForMost)
		check(plugin.BreakerHalfOpen)
		call("failed")
	}
}

func TestFailingPluginIsNotAskedForAWhile(t *testing.T) {
	clock := newClock()
	h := host(t, plugin.Options{}.WithClock(clock))
	c := configuration(pinned(t, "fails"), nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	for range plugin.BreakAfter {
		if v := review(t, s, c, question("a1")); !strings.Contains(v.Rationale, "it failed: Unknown: out of") {
			t.Fatalf("verdict = %+v", v)
		}
	}
	v := review(t, s, c, question("a2"))
	if v.Outcome != approval.VerdictError || !strings.Contains(v.Rationale, "plugin is not available: 3 calls in a row failed, the last with: it failed") {
		t.Errorf("verdict = %+v", v)
	}
	status := h.Status()[0]
	if status.State != plugin.StateRunning || status.Breaker != plugin.BreakerOpen || status.Retry == nil ||
		!strings.HasPrefix(status.String(), "acme running, breaker open, tried again at 12:00:05: it failed") {
		t.Errorf("status = %v", status)
	}
	clock.add(plugin.BreakFor)
	if v := review(t, s, c, question("a3")); !strings.Contains(v.Rationale, "plugin acme: it failed") {
		t.Errorf("verdict of the call that is let through = %+v", v)
	}
}

// TestGivenUpCallsSayNothingOfThePlugin: whoever hangs up has not been failed.
func TestGivenUpCallsSayNothingOfThePlugin(t *testing.T) {
	log := newLog()
	h := host(t, plugin.Options{Log: log.logger()})
	c := configuration(pinned(t, "waits"), nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	r, err := s.Reviewer(c, "test/reviewer")
	if err != nil {
		t.Fatal(err)
	}
	for n := range plugin.BreakAfter + 1 {
		ctx, cancel := context.WithCancelCause(t.Context())
		verdict := make(chan approval.Verdict)
		id := "a" + strconv.Itoa(n)
		go func() { verdict <- r.Review(ctx, question(id)) }()
		log.await(t, "asked "+id)
		cancel(errors.New("the turn ended"))
		want := approval.Verdict{Reviewer: "test/reviewer", Outcome: approval.VerdictError, Rationale: "the review was cancelled: the turn ended"}
		if diff := cmp.Diff(want, <-verdict); diff != "" {
			t.Errorf("verdict (-want +got):\n%s", diff)
		}
	}
	if status := h.Status()[0]; status.Breaker != plugin.BreakerClosed || status.Error != "" {
		t.Errorf("status = %v", status)
	}
}

// TestSetsShareWhatIsTheSame: a configuration that changed elsewhere must not
// restart a plugin.
func TestSetsShareWhatIsTheSame(t *testing.T) {
	h := host(t, plugin.Options{})
	p := pinned(t, "good")
	one := h.Open(t.Context(), map[string]config.Plugin{"acme": p})
	pid := h.Status()[0].PID
	two := h.Open(t.Context(), map[string]config.Plugin{"acme": p})
	one.Close()
	one.Close() // and once more does nothing
	list := h.Status()
	if len(list) != 1 || list[0].PID != pid || list[0].State != plugin.StateRunning {
		t.Errorf("status = %v, want process %d alone", list, pid)
	}
	c := configuration(p, nil)
	if v := review(t, two, c, question("a1")); v.Outcome != approval.VerdictAllow {
		t.Errorf("verdict = %+v", v)
	}
	two.Close()
	await(t, func() bool { return len(h.Status()) == 0 }, func() string { return fmt.Sprint(h.Status()) })
	if alive(pid) {
		t.Errorf("process %d is in no set and runs", pid)
	}
	if v := review(t, two, c, question("a2")); v.Outcome != approval.VerdictError || !strings.Contains(v.Rationale, plugin.ErrRetired.Error()) {
		t.Errorf("verdict of a closed set = %+v", v)
	}
}

func TestSetsDoNotShareWhatDiffers(t *testing.T) {
	t.Setenv("LEVEL", "1")
	h := host(t, plugin.Options{})
	p := pinned(t, "env")
	p.Env = []string{"LEVEL"}
	one := h.Open(t.Context(), map[string]config.Plugin{"acme": p})
	defer one.Close()
	t.Setenv("LEVEL", "2")
	two := h.Open(t.Context(), map[string]config.Plugin{"acme": p})
	defer two.Close()
	if list := h.Status(); len(list) != 2 || list[0].PID == list[1].PID {
		t.Errorf("status = %v, want two processes", list)
	}
}

// TestClosedSetFinishesItsCalls: what is asked when a configuration is swapped is
// answered by whoever it was asked of.
func TestClosedSetFinishesItsCalls(t *testing.T) {
	log := newLog()
	h := host(t, plugin.Options{Log: log.logger()})
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := configuration(pinned(t, "once", pipe), nil)
	before := h.Open(t.Context(), c.Plugins)
	verdict := make(chan approval.Verdict)
	go func() { verdict <- review(t, before, c, question("a1")) }()
	log.await(t, "asked a1")
	pid := h.Status()[0].PID
	next := configuration(pinned(t, "good", "next"), nil)
	after := h.Open(t.Context(), next.Plugins)
	defer after.Close()
	before.Close()
	if v := review(t, after, next, question("a2")); v.Rationale != "next" {
		t.Errorf("verdict under the new configuration = %+v", v)
	}
	if v := review(t, before, c, question("a3")); v.Outcome != approval.VerdictError {
		t.Errorf("the old configuration still takes questions: %+v", v)
	}
	awaitState(t, h, func(list []plugin.Status) bool {
		return len(list) == 2 && (list[0].State == plugin.StateDraining || list[1].State == plugin.StateDraining)
	})
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if v := <-verdict; v.Outcome != approval.VerdictDeny || v.Rationale != "finished" {
		t.Errorf("verdict of the call that was under way = %+v", v)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	awaitState(t, h, func(list []plugin.Status) bool { return len(list) == 1 })
	if alive(pid) {
		t.Errorf("process %d has nothing to do and runs", pid)
	}
}

// TestSwapsUnderLoad swaps one plugin for another again and again while requests
// are judged. A request that finds its configuration gone is judged under the next
// one, as a gate does it.
func TestSwapsUnderLoad(t *testing.T) {
	const swaps, clients, atOnce = 200, 4, 10
	type epoch struct {
		c   *config.Config
		set *plugin.Set
		tag string
	}
	h := host(t, plugin.Options{})
	open := func(n int) *epoch {
		tag := "epoch-" + strconv.Itoa(n)
		c := configuration(pinned(t, "good", tag), nil)
		set := h.Open(t.Context(), c.Plugins)
		if err := set.Err(); err != nil {
			t.Error(err)
		}
		return &epoch{c, set, tag}
	}
	var current atomic.Pointer[epoch]
	current.Store(open(0))
	// Each swap comes in the middle of as many requests as are let through before it:
	// clients that ask without a pause would keep plugins from starting.
	requests := make(chan int, 1000)
	sent := 0
	send := func() {
		for range atOnce {
			requests <- sent
			sent++
		}
	}
	var running sync.WaitGroup
	var judged, moved atomic.Int64
	for range clients {
		running.Go(func() {
			for n := range requests {
				id := "r-" + strconv.Itoa(n)
				answers := 0
				for answers == 0 {
					e := current.Load()
					v := review(t, e.set, e.c, question(id))
					switch {
					case v.Outcome == approval.VerdictAllow && v.Rationale == e.tag:
						answers++
					case v.Outcome == approval.VerdictError && strings.Contains(v.Rationale, plugin.ErrRetired.Error()) && current.Load() != e:
						moved.Add(1)
					default:
						t.Errorf("request %s under %s: %+v", id, e.tag, v)
						answers++
					}
				}
				judged.Add(1)
			}
		})
	}
	for n := range swaps {
		send()
		next := open(n + 1)
		send()
		before := current.Swap(next)
		before.set.Close()
	}
	close(requests)
	running.Wait()
	current.Load().set.Close()
	if judged.Load() != int64(sent) {
		t.Errorf("%d requests were judged, want %d", judged.Load(), sent)
	}
	t.Logf("%d requests judged under %d configurations, %d of them after a swap", judged.Load(), swaps+1, moved.Load())
}

func TestWhatAPluginStartedEndsWithIt(t *testing.T) {
	h := host(t, plugin.Options{})
	c := configuration(pinned(t, "child"), nil)
	s := h.Open(t.Context(), c.Plugins)
	v := review(t, s, c, question("a1"))
	child, err := strconv.Atoi(v.Rationale)
	if err != nil || !alive(child) {
		t.Fatalf("verdict = %+v", v)
	}
	s.Close()
	// The child is nobody's to reap but init's, which may take its time.
	await(t, func() bool { return ended(child) }, func() string { return "the child runs" })
}

// ended tells whether a process is gone or only waits to be reaped.
func ended(pid int) bool {
	if !alive(pid) {
		return true
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// TestPluginsEndWithAKilledHost: nobody is there to clean up then.
func TestPluginsEndWithAKilledHost(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), self(t)[0], "plugin", "host")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil || !alive(pid) {
		t.Fatalf("process %d: %v", pid, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	await(t, func() bool { return ended(pid) }, func() string { return "the plugin outlives its host" })
}

func TestOutputGoesIntoTheLog(t *testing.T) {
	log := newLog()
	h := host(t, plugin.Options{Log: log.logger()})
	c := configuration(pinned(t, "prints"), nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	review(t, s, c, question("a1"))
	log.await(t, "plugin=acme", "stream=stdout", "on stdout", `level=ERROR msg="plugin wrote" plugin=acme stream=stderr`)
	if text := log.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "\x1b") {
		t.Errorf("log = %s", text)
	}
}

func TestOutputIsBounded(t *testing.T) {
	log := newLog()
	h := host(t, plugin.Options{Log: log.logger()}.WithClock(newClock()))
	c := configuration(pinned(t, "floods"), nil)
	s := h.Open(t.Context(), c.Plugins)
	defer s.Close()
	if v := review(t, s, c, question("a1")); v.Outcome != approval.VerdictAllow {
		t.Errorf("a plugin that floods our log = %+v", v)
	}
	if lines := strings.Count(log.String(), "plugin wrote"); lines > plugin.LinesAtOnce+1 {
		t.Errorf("%d lines were logged", lines)
	}
}

func TestClosedHostStartsNothing(t *testing.T) {
	h := plugin.NewHost(plugin.Options{})
	h.Close()
	h.Close()
	c := configuration(pinned(t, "good"), nil)
	s := h.Open(t.Context(), c.Plugins)
	if err := s.Err(); !errors.Is(err, plugin.ErrUnavailable) {
		t.Errorf("Err = %v", err)
	}
	if v := review(t, s, c, question("a1")); v.Outcome != approval.VerdictError {
		t.Errorf("verdict = %+v", v)
	}
	s.Close()
	if list := h.Status(); len(list) != 0 {
		t.Errorf("status = %v", list)
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	h := host(t, plugin.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := h.Open(ctx, map[string]config.Plugin{"acme": pinned(t, "silent")})
	defer s.Close()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "it is starting") {
		t.Errorf("Err = %v", err)
	}
}
