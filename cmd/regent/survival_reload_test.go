package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// notices reads a stream to its end, and passes on what is said of the rules.
func (s *site) notices(stream *client.Events) <-chan api.Notice {
	said := make(chan api.Notice, 256)
	go func() {
		defer close(said)
		for {
			e, err := stream.Next()
			if err != nil {
				return
			}
			if e.Notice != nil {
				said <- *e.Notice
			}
		}
	}()
	return said
}

// Whoever asks while somebody edits never fails, and is ruled by what was in
// force at some moment of the question: the newest configuration from its first
// call on, the newest rules from when that was said.
func TestEditsUnderLoadFailNoRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const seconds = 600
	config := func(version int) {
		s.write("config.yaml", fmt.Sprintf("version: 1\npermissions: {request_timeout_seconds: %d}\npolicy: {evaluation_timeout_ms: 10000}\n", seconds+version))
	}
	policy := func(version int) {
		s.write("policies/survival.rego", strings.Replace(rules, "tests may run", fmt.Sprintf("tests may run (version %d)", version), 1))
	}
	config(0)
	policy(0)
	d := s.serve()
	agent, person := s.agent(), s.person()
	status, err := person.Status(s.soon())
	if err != nil || len(status.Workspaces) == 0 {
		t.Fatalf("%+v, %v", status, err)
	}
	inForce := []string{status.Workspaces[0].Epoch}
	said := s.notices(s.events(person, client.FromNow))

	var over atomic.Bool
	var wait sync.WaitGroup
	var mu sync.Mutex
	ruledBy := map[string]int{}
	for i := range 8 {
		text, want := "make test", approval.OutcomeAllow
		if i%2 == 1 {
			text, want = "make clean", approval.OutcomeDeny
		}
		wait.Go(func() {
			for !over.Load() {
				a, err := agent.Ask(s.soon(), asks(text))
				if err != nil || a.Outcome != want || a.Ruling.Failure != nil {
					t.Errorf("%s: %q, %+v, %v", text, a.Outcome, a.Ruling.Failure, err)
					return
				}
				mu.Lock()
				ruledBy[a.Ruling.Epoch]++
				mu.Unlock()
			}
		})
	}
	defer wait.Wait()
	defer over.Store(true)

	now := func(configuration, rules int) {
		t.Helper()
		a, err := agent.Ask(s.soon(), asks("make test"))
		if err != nil || len(a.Ruling.Rules) == 0 {
			t.Fatalf("%+v, %v", a.Ruling, err)
		}
		if got := a.Ruling.Deadlines.RequestSeconds; got != seconds+configuration {
			t.Errorf("a call waits %d s, want those of configuration %d", got, configuration)
		}
		if got, want := a.Ruling.Rules[0].Message, fmt.Sprintf("(version %d)", rules); !strings.HasSuffix(got, want) {
			t.Errorf("a call is allowed by %q, want %s", got, want)
		}
	}
	hears := func(good bool, why string) {
		t.Helper()
		select {
		case n, ok := <-said:
			switch {
			case !ok:
				t.Fatal("the stream ended")
			case good && (n.Kind == string(gate.NoticeEpoch) || n.Kind == string(gate.NoticeLoosened)):
				inForce = append(inForce, n.Epoch)
			case !good && n.Kind == string(gate.NoticeFault) && strings.Contains(n.Message, why):
			default:
				t.Fatalf("said: %+v", n)
			}
		case <-s.soon().Done():
			t.Fatal("nothing is said")
		}
		status, err := person.Status(s.soon())
		if err != nil || len(status.Workspaces) == 0 {
			t.Fatalf("%+v, %v", status, err)
		}
		w := status.Workspaces[0]
		if good && w.State != "current" || !good && (w.State != "stale" || !strings.Contains(w.Why, why)) {
			t.Errorf("the home is %s: %s", w.State, w.Why)
		}
	}
	for version := 1; version <= 3; version++ {
		config(version)
		now(version, version-1)
		hears(true, "")
		s.write("config.yaml", "version: 1\npermissions: {mode: whatever}\n")
		now(version, version-1)
		hears(false, "config.yaml:2")
		config(version)
		now(version, version-1)
		hears(true, "")

		policy(version)
		hears(true, "")
		now(version, version)
		s.write("policies/survival.rego", rules+"\nallow contains\n")
		hears(false, "survival.rego")
		now(version, version)
		policy(version)
		hears(true, "")
		now(version, version)
	}
	over.Store(true)
	wait.Wait()
	d.stop()
	for n := range said {
		t.Errorf("said and not expected: %+v", n)
	}
	asked := 0
	for epoch, count := range ruledBy {
		asked += count
		if !slices.Contains(inForce, epoch) {
			t.Errorf("%d answers are by epoch %s, which never was in force", count, epoch)
		}
	}
	t.Logf("%d answers by %d epochs", asked, len(ruledBy))
	s.verifies()
}
