package gate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/reviewer"
)

// stand is plugins that run nowhere: it keeps who was opened and closed, in order.
type stand struct {
	mu   sync.Mutex
	said []string
}

func (s *stand) say(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, what)
}

func (s *stand) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.said...)
}

func (s *stand) Open(_ context.Context, c *config.Config) gate.PluginSet {
	name := c.Reviewers["acme/risk"].Args["name"]
	s.say("open " + name)
	return &row{s, name}
}

type row struct {
	stand *stand
	name  string
}

func (r *row) Reviewer(_ *config.Config, name string) (reviewer.Reviewer, error) {
	if r.name == "broken" {
		return nil, errors.New("it does not run")
	}
	return says{Outcome: approval.VerdictDeny, Rationale: name + " of " + r.name}, nil
}

func (r *row) Err() error { return nil }
func (r *row) Close()     { r.stand.say("close " + r.name) }

func TestPluginsStartBeforeTheirRulesAndEndAfter(t *testing.T) {
	program := "plugins: {acme: {command: [bin/acme]}}\n"
	of := func(name string) string {
		return "version: 1\npolicy: {evaluation_timeout_ms: 10000}\npermissions: {reviewer_model: acme/risk}\n" + program +
			"reviewers: {acme/risk: {kind: plugin, plugin: acme, args: {name: " + name + "}}}\n"
	}
	h := &home{T: t, feed: &gate.Feed{}, dir: files(t, map[string]string{"config.yaml": of("one"), "bin/acme": "#!/bin/sh\n"})}
	if err := os.Chmod(filepath.Join(h.dir, "bin", "acme"), 0o755); err != nil {
		t.Fatal(err)
	}
	plugins := &stand{}
	h.Epochs = gate.OpenEpochs(t.Context(), gate.EpochsOptions{
		Home: h.dir, Feed: h.feed, Plugins: plugins, Watch: config.WatcherOptions{Debounce: 5 * time.Millisecond, Tick: time.Hour},
	})
	t.Cleanup(func() { h.Epochs.Close() })
	verdict := func() approval.Verdict {
		t.Helper()
		one, err := gate.OpenReviewer(h.Home().Standing().Epoch, "acme/risk")
		if err != nil {
			t.Fatal(err)
		}
		return one.Review(t.Context(), reviewer.Question{})
	}
	if v := verdict(); v.Rationale != "acme/risk of one" {
		t.Errorf("%+v", v)
	}
	first := h.Home().Standing().ID()
	h.replace("config.yaml", of("two"))
	if h.Of(t.Context(), in("/", "ls")).Standing().ID() == first {
		t.Fatal("the edit is not in force")
	}
	if v := verdict(); v.Rationale != "acme/risk of two" {
		t.Errorf("%+v", v)
	}
	h.replace("config.yaml", "version: 1\nodd: key\n") // what was good goes on
	h.Of(t.Context(), in("/", "ls"))
	if v := verdict(); v.Rationale != "acme/risk of two" {
		t.Errorf("%+v", v)
	}
	h.Epochs.Close()
	if diff := cmp.Diff([]string{"open one", "open two", "close one", "close two"}, plugins.all()); diff != "" {
		t.Error(diff)
	}
}

func TestAnotherProgramIsAnotherPlugin(t *testing.T) {
	root := files(t, map[string]string{"config.yaml": "version: 1\nplugins: {acme: {command: [bin/acme]}}\n", "bin/acme": "one"})
	program := filepath.Join(root, "bin", "acme")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	id := func() string {
		e, err := gate.Load(t.Context(), gate.Options{Home: root})
		if err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	first := id()
	if id() != first {
		t.Error("nothing changed, and the rules are others")
	}
	if err := os.WriteFile(program, []byte("two"), 0o755); err != nil {
		t.Fatal(err)
	}
	if id() == first {
		t.Error("another program has the same fingerprint")
	}
}

func TestPluginsThatRunNowhereAskAPerson(t *testing.T) {
	b := open(t, epoch(t, "permissions: {mode: model_review, reviewer_model: acme/risk}\nreviewers: {acme/risk: {kind: plugin, plugin: acme}}\nplugins: {acme: {command: [/bin/sh]}}\n", noRm))
	done := b.ask(t.Context(), command("make"))
	r := b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk })
	if v := r.Ruling.Verdicts; len(v) != 1 || v[0].Outcome != approval.VerdictError {
		t.Errorf("%+v", v)
	}
	if _, err := gate.OpenReviewer(b.workspace.Standing().Epoch, "acme/risk"); !errors.Is(err, reviewer.ErrKind) {
		t.Errorf("opened without plugins: %v", err)
	}
	if _, err := b.Answer(t.Context(), reply(r, deny)); err != nil {
		t.Fatal(err)
	}
	<-done
}
