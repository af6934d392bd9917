package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a protocol of words: "ask K" asks, "over K" and "heard K" end a
// question, "user K" is the answer of the client's user, "bad" is none of them.
type words struct{ open map[string]bool }

func newWords() harness.Codec { return &words{open: map[string]bool{}} }

func (w *words) FromServer(m []byte) (harness.Step, error) {
	verb, key, _ := strings.Cut(string(m), " ")
	switch verb {
	case "ask", "stale", "shared":
		w.open[key] = true
		q := &harness.Question{Key: key, Message: m, Shared: verb == "shared", Request: &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: key}}}
		if verb == "stale" {
			q.Stale = "too late"
		}
		return harness.Step{Ask: q}, nil
	case "over":
		delete(w.open, key)
		return harness.Step{Forward: m, Over: []harness.Over{{Key: key, Reason: "its turn is over"}}}, nil
	case "heard":
		return harness.Step{Forward: m, Over: []harness.Over{{Key: key, Heard: true}}}, nil
	case "bad":
		return harness.Step{}, errors.New("out of step")
	}
	return harness.Step{Forward: m}, nil
}

func (w *words) FromClient(m []byte) (harness.Step, error) {
	if verb, key, _ := strings.Cut(string(m), " "); verb == "user" {
		return harness.Step{Chosen: &harness.Choice{Key: key, Reply: gate.Reply{Option: json.RawMessage(`"allow"`)}}}, nil
	} else if verb == "refuse" {
		return harness.Step{Back: [][]byte{[]byte("refused")}, Warning: "it was refused"}, nil
	}
	return harness.Step{Forward: m}, nil
}

func (w *words) Answer(key string, a gate.Answer) [][]byte {
	if !w.open[key] {
		return nil
	}
	delete(w.open, key)
	return [][]byte{[]byte(string(a.Outcome) + " " + key)}
}

// desk answers what is put to it when the test says so.
type desk struct {
	mu      sync.Mutex
	changed chan struct{}
	answers map[string]approval.Outcome // by the name of the tool
	known   map[string]string           // id -> tool
	log     []string
	refuse  error
	at      approval.Outcome // an answer at once
}

func newDesk() *desk {
	return &desk{changed: make(chan struct{}), answers: map[string]approval.Outcome{}, known: map[string]string{}}
}

func (d *desk) note(format string, args ...any) { d.log = append(d.log, fmt.Sprintf(format, args...)) }

func (d *desk) say(tool string, outcome approval.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[tool] = outcome
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *desk) Post(_ context.Context, q gate.Question) (gate.Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return gate.Answer{}, d.refuse
	}
	tool := q.Request.Tool.Name
	id := fmt.Sprintf("r%d", len(d.known)+1)
	d.known[id] = tool
	d.note("post %s", tool)
	return gate.Answer{Outcome: d.at, Record: &approval.Record{ID: id, Instance: "i", Revision: 1}}, nil
}

func (d *desk) Await(ctx context.Context, id, _ string) (gate.Answer, error) {
	for {
		d.mu.Lock()
		outcome, changed := d.answers[d.known[id]], d.changed
		d.mu.Unlock()
		if outcome == "broken" {
			return gate.Answer{}, errors.New("the daemon is gone")
		}
		if outcome != "" {
			return gate.Answer{Outcome: outcome, Record: &approval.Record{ID: id, Instance: "i", Revision: 2}}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return gate.Answer{}, nil
		}
	}
}

func (d *desk) Answer(_ context.Context, r gate.Reply) (approval.Record, error) {
	d.mu.Lock()
	tool, revision := d.known[r.ID], r.Revision
	d.note("answer %s %d by %s", tool, revision, r.By.ID)
	d.mu.Unlock()
	if revision == 1 { // newer rules have given it another
		return approval.Record{}, &approval.ConflictError{Current: approval.Record{ID: r.ID, State: approval.Pending, Revision: 2}}
	}
	d.say(tool, approval.OutcomeAllow)
	return approval.Record{}, nil
}

func (d *desk) Withdraw(_ context.Context, id, _, reason string) (approval.Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("withdraw %s: %s", d.known[id], reason)
	return approval.Record{}, nil
}

func (d *desk) Sent(a gate.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("sent %s", d.known[a.Record.ID])
}

func (d *desk) Unsent(a gate.Answer, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("unsent %s: %v", d.known[a.Record.ID], cause)
}

func (d *desk) Mark(_ context.Context, id, _ string, mark gate.Mark, reason string) (approval.Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("%s %s: %s", mark, d.known[id], reason)
	return approval.Record{}, nil
}

// stage is a connection that runs, with the two peers that the test plays. It is
// for a bubble: settle waits until nothing moves any more.
type stage struct {
	*testing.T
	client, server harness.Conn
	desk           *desk
	ended          chan error
}

func begin(t *testing.T, l *harness.Loop) *stage {
	t.Helper()
	s := &stage{T: t, ended: make(chan error, 1)}
	if l.Asker == nil {
		l.Asker = newDesk()
	}
	s.desk = l.Asker.(*desk)
	if l.New == nil {
		l.New = newWords
	}
	var client, server harness.Conn
	s.client, client = harness.Pipe()
	s.server, server = harness.Pipe()
	go func() { s.ended <- l.Run(t.Context(), client, server) }()
	return s
}

// end hangs up as the client, and returns how the connection ended.
func (s *stage) end() error {
	s.Helper()
	_ = s.client.Close()
	return <-s.ended
}

func send(t *testing.T, to harness.Conn, messages ...string) {
	t.Helper()
	for _, m := range messages {
		if err := to.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

// got is what has arrived by now.
func got(t *testing.T, from harness.Conn) []string {
	t.Helper()
	synctest.Wait()
	type read struct {
		messages [][]byte
		err      error
	}
	// A mark that the peer itself did not write tells where to stop.
	done := make(chan read, 1)
	go func() {
		m, err := from.Read()
		done <- read{m, err}
	}()
	synctest.Wait()
	select {
	case r := <-done:
		var out []string
		for _, m := range r.messages {
			out = append(out, string(m))
		}
		return out
	default:
		t.Fatal("nothing has arrived")
		return nil
	}
}

func want(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestMessagesPassWhileAQuestionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{})
		send(t, s.server, "one", "ask a", "two")
		want(t, "the client gets", []string{"one", "two"}, got(t, s.client))
		send(t, s.client, "three")
		want(t, "the server gets", []string{"three"}, got(t, s.server))
		s.desk.say("a", approval.OutcomeAllow)
		want(t, "the server gets", []string{"allow a"}, got(t, s.server))
		send(t, s.server, "heard a")
		if err := s.end(); err != nil {
			t.Error(err)
		}
		want(t, "the gate hears", []string{"post a", "sent a", "resolved a: the server has taken the answer"}, s.desk.log)
	})
}

func TestAnswersInAnotherOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{})
		send(t, s.server, "ask a", "ask b")
		s.desk.say("b", approval.OutcomeDeny)
		synctest.Wait()
		s.desk.say("a", approval.OutcomeAllow)
		want(t, "the server gets", []string{"deny b", "allow a"}, got(t, s.server))
		_ = s.end()
	})
}

func TestQuestionThatIsOverIsWithdrawnAndNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{})
		send(t, s.server, "ask a", "over a")
		s.desk.say("a", approval.OutcomeAllow)
		send(t, s.client, "mark")
		want(t, "the server gets", []string{"mark"}, got(t, s.server))
		_ = s.end()
		want(t, "the gate hears", []string{"post a", "withdraw a: its turn is over", "unsent a: its turn is over"}, s.desk.log)
	})
}

func TestAnswerAtOnceIsSentAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{Asker: func() *desk { d := newDesk(); d.at = approval.OutcomeAllow; return d }()})
		send(t, s.server, "ask a")
		want(t, "the server gets", []string{"allow a"}, got(t, s.server))
		send(t, s.server, "heard a")
		_ = s.end()
		want(t, "the gate hears", []string{"post a", "sent a"}, s.desk.log)
	})
}

func TestQuestionOfATurnThatIsOverIsRecordedAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{Asker: func() *desk { d := newDesk(); d.at = approval.OutcomeAllow; return d }()})
		send(t, s.server, "stale a")
		want(t, "the server gets, whatever the rules say", []string{"deny a"}, got(t, s.server))
		_ = s.end()
	})
}

func TestConnectionThatEndsWithdrawsWhatWaits(t *testing.T) {
	for name, end := range map[string]func(s *stage) error{
		"the client hangs up": func(s *stage) error { return s.end() },
		"the server hangs up": func(s *stage) error { _ = s.server.Close(); return <-s.ended },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begin(t, &harness.Loop{})
				send(t, s.server, "ask a")
				if err := end(s); err != nil {
					t.Errorf("the end is %v", err)
				}
				want(t, "the gate hears", []string{
					"post a", "withdraw a: the connection is gone", "unsent a: the connection is gone",
				}, s.desk.log[:3])
			})
		})
	}
}

func TestWhatCannotBeDecidedIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(d *desk){
		"the gate takes no question":      func(d *desk) { d.refuse = errors.New("the disk is full") },
		"the gate is gone while it waits": func(d *desk) { d.answers["a"] = "broken" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				prepare(d)
				var events []harness.Event
				s := begin(t, &harness.Loop{Asker: d, Observe: func(e harness.Event) { events = append(events, e) }})
				send(t, s.server, "ask a")
				want(t, "the server gets", []string{"deny a"}, got(t, s.server))
				_ = s.end()
				if last := events[len(events)-1]; last.Err == nil || !last.Told {
					t.Errorf("the report says %+v", last)
				}
			})
		})
	}
}

func TestTooManyQuestionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{})
		for i := range harness.MaxOpen {
			send(t, s.server, fmt.Sprintf("ask q%d", i))
		}
		send(t, s.server, "ask more")
		want(t, "the server gets", []string{"deny more"}, got(t, s.server))
		_ = s.end()
	})
}

func TestUserOfTheClientAnswersWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{Show: true, By: gate.Principal{ID: "user:sam"}})
		send(t, s.server, "ask a")
		want(t, "the client gets", []string{"ask a"}, got(t, s.client))
		send(t, s.client, "user a")
		want(t, "the server gets", []string{"allow a"}, got(t, s.server))
		send(t, s.client, "user a", "user b")
		_ = s.end()
		want(t, "the gate hears", []string{"post a", "answer a 1 by user:sam", "answer a 2 by user:sam", "sent a"}, s.desk.log[:4])
	})
}

func TestQuestionOfTwoConnectionsIsPutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &harness.Loop{}
		one, other := begin(t, l), begin(t, l)
		send(t, one.server, "shared a")
		send(t, other.server, "shared a")
		one.desk.say("a", approval.OutcomeAllow)
		want(t, "the first server gets", []string{"allow a"}, got(t, one.server))
		send(t, other.server, "over a")
		send(t, one.server, "heard a")
		want(t, "the gate hears", []string{"post a", "sent a", "resolved a: the server has taken the answer"}, one.desk.log)
		_, _ = one.end(), other.end()
	})
}

func TestQuestionIsTakenOverFromAConnectionThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &harness.Loop{}
		one, other := begin(t, l), begin(t, l)
		send(t, one.server, "shared a")
		send(t, other.server, "shared a")
		_ = one.end()
		synctest.Wait()
		one.desk.say("a", approval.OutcomeDeny)
		want(t, "the other server gets", []string{"deny a"}, got(t, other.server))
		_ = other.end()
	})
}

func TestRefusedRequestGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{})
		send(t, s.client, "refuse", "pass")
		want(t, "the client gets", []string{"refused"}, got(t, s.client))
		want(t, "the server gets", []string{"pass"}, got(t, s.server))
		_ = s.end()
	})
}

func TestConnectionOutOfStepEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, &harness.Loop{})
		send(t, s.server, "bad")
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "out of step") {
			t.Errorf("the end is %v", err)
		}
		if _, err := s.client.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("the client reads %v", err)
		}
	})
}
