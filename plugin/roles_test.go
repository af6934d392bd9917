package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin"
)

// opened is a set with one plugin, acme.
func opened(t *testing.T, args ...string) (*plugin.Set, *logged) {
	t.Helper()
	log := newLog()
	s := host(t, plugin.Options{Log: log.logger()}).Open(t.Context(), map[string]config.Plugin{"acme": pinned(t, args...)})
	t.Cleanup(s.Close)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return s, log
}

func TestNotify(t *testing.T) {
	s, log := opened(t, "notifier")
	if err := s.Notify(t.Context(), "acme", plugin.Notice{ID: "n1", Event: "pending", Notification: json.RawMessage(`{"version":1}`)}); err != nil {
		t.Error(err)
	}
	log.await(t, `noticed n1 pending {\"version\":1}`)
	if err := s.Notify(t.Context(), "acme", plugin.Notice{ID: "n2", Event: "unwelcome"}); err == nil || !strings.Contains(err.Error(), "plugin acme: it failed: Unknown: not now") {
		t.Errorf("a notifier that fails: %v", err)
	}
	if err := s.Notify(t.Context(), "other", plugin.Notice{}); !errors.Is(err, plugin.ErrUnknown) {
		t.Errorf("a plugin that is not there: %v", err)
	}
	if err := s.Notify(t.Context(), "acme", plugin.Notice{Notification: make([]byte, 4<<20)}); err == nil || !strings.Contains(err.Error(), "more than the") {
		t.Errorf("a notice that is too large: %v", err)
	}
	s.Close()
	if err := s.Notify(t.Context(), "acme", plugin.Notice{}); !errors.Is(err, plugin.ErrRetired) {
		t.Errorf("a closed set: %v", err)
	}
}

func TestHarnessIsToldWhatWasDecided(t *testing.T) {
	s, log := opened(t, "harness", `{"n":1}`, `{"n":2}`, `{"n":3}`)
	err := s.Connect(t.Context(), "acme", func(_ context.Context, request json.RawMessage) plugin.Answer {
		switch string(request) {
		case `{"n":1}`:
			return plugin.Answer{Outcome: approval.OutcomeAllow, Reason: "fine"}
		case `{"n":2}`:
			return plugin.Answer{Outcome: approval.OutcomeCancel}
		default:
			return plugin.Answer{Outcome: "perhaps"}
		}
	})
	if err != nil {
		t.Errorf("a harness that hangs up: %v", err)
	}
	log.await(t, `answer {\"n\":1} allow fine <nil>`, `answer {\"n\":2} cancel  <nil>`, `answer {\"n\":3} deny  <nil>`)
}

func TestHarnessWithdraws(t *testing.T) {
	s, log := opened(t, "impatient")
	ctx, cancel := context.WithCancelCause(t.Context())
	withdrawn := make(chan error, 1)
	done := make(chan error)
	go func() {
		done <- s.Connect(ctx, "acme", func(ctx context.Context, _ json.RawMessage) plugin.Answer {
			<-ctx.Done()
			withdrawn <- context.Cause(ctx)
			return plugin.Answer{Outcome: approval.OutcomeAllow}
		})
	}()
	if err := <-withdrawn; err == nil || err.Error() != "the harness has withdrawn the request" {
		t.Errorf("the decision ended with %v", err)
	}
	log.await(t, "gave up: ask the host: context deadline exceeded")
	end := errors.New("the daemon ends")
	cancel(end)
	if err := <-done; !errors.Is(err, end) {
		t.Errorf("Connect = %v", err)
	}
}

func TestHarnessEndsWithItsSet(t *testing.T) {
	s, log := opened(t, "harness", `{}`)
	asked := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.Connect(t.Context(), "acme", func(ctx context.Context, _ json.RawMessage) plugin.Answer {
			close(asked)
			<-ctx.Done()
			return plugin.Answer{Outcome: approval.OutcomeAllow}
		})
	}()
	<-asked
	s.Close()
	if err := <-done; !errors.Is(err, plugin.ErrRetired) {
		t.Errorf("Connect = %v", err)
	}
	if strings.Contains(log.String(), "answer {} allow") {
		t.Error("an answer came after the end")
	}
}

func TestHarnessUsesAnIDOnce(t *testing.T) {
	s, _ := opened(t, "repeats")
	err := s.Connect(t.Context(), "acme", func(ctx context.Context, _ json.RawMessage) plugin.Answer {
		<-ctx.Done()
		return plugin.Answer{Outcome: approval.OutcomeAllow}
	})
	if err == nil || !strings.Contains(err.Error(), `the id "one" for two open requests`) {
		t.Errorf("Connect = %v", err)
	}
}

func TestHarnessIsOneThatSaysSo(t *testing.T) {
	s, _ := opened(t, "good")
	if err := s.Connect(t.Context(), "acme", nil); !errors.Is(err, plugin.ErrKind) {
		t.Errorf("Connect = %v", err)
	}
}
