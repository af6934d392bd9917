package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/notify"
)

func TestWhatIsTold(t *testing.T) {
	rerouted := func(r approval.Record, route approval.Route) approval.Record {
		r.Revision++
		r.Ruling.Route = route
		return r
	}
	tests := []struct {
		name string
		// happen has what happens, each step on its own: followers may see the world
		// between any two of them.
		happen []func(w *world, r approval.Record)
		route  approval.Route
		want   []string
	}{
		{
			name: "a request that waits for a person", route: approval.RouteAsk,
			happen: []func(*world, approval.Record){func(w *world, r approval.Record) { w.add(approval.EventAsked, r) }},
			want:   []string{"pending 1 pending"},
		},
		{
			name: "not one that waits for reviewers", route: approval.RouteReview,
			happen: []func(*world, approval.Record){func(w *world, r approval.Record) { w.add(approval.EventAsked, r) }},
		},
		{
			name: "one that reviewers have not settled", route: approval.RouteReview,
			happen: []func(*world, approval.Record){
				func(w *world, r approval.Record) { w.add(approval.EventAsked, r) },
				func(w *world, r approval.Record) { w.add(approval.EventRerouted, rerouted(r, approval.RouteAsk)) },
			},
			want: []string{"pending 2 pending"},
		},
		{
			name: "one that new rules leave to a person, once", route: approval.RouteAsk,
			happen: []func(*world, approval.Record){
				func(w *world, r approval.Record) { w.add(approval.EventAsked, r) },
				func(w *world, r approval.Record) { w.add(approval.EventRerouted, rerouted(r, approval.RouteAsk)) },
			},
			want: []string{"pending 1 pending"},
		},
		{
			name: "a decision of policy, without that it waited", route: approval.RouteDeny,
			happen: []func(*world, approval.Record){func(w *world, r approval.Record) {
				w.add(approval.EventAsked, r)
				w.add(approval.EventDecided, decided(r, approval.Decision{Outcome: approval.OutcomeDeny, Source: approval.SourceRule, By: "GIT-1"}))
			}},
			want: []string{"decided 2 decided deny rule GIT-1"},
		},
		{
			name: "a decision, and not what is done with it", route: approval.RouteAsk,
			happen: []func(*world, approval.Record){func(w *world, r approval.Record) {
				w.add(approval.EventAsked, r)
				d := decided(r, settled("fine"))
				w.add(approval.EventDecided, d)
				w.add(approval.EventWriting, d)
				w.add(approval.EventFenced, d)
				w.add(approval.EventSent, d)
				w.add(approval.EventResolved, d)
				w.add(approval.EventNoted, d)
				w.add(approval.EventRefused, d)
			}},
			want: []string{"decided 2 decided allow human user:sam"},
		},
		{
			name: "an end without an answer", route: approval.RouteAsk,
			happen: []func(*world, approval.Record){
				func(w *world, r approval.Record) { w.add(approval.EventAsked, r) },
				func(w *world, r approval.Record) {
					w.add(approval.EventExpired, closed(r, approval.Expired, "nobody answered"))
				},
			},
			want: []string{"pending 1 pending", "closed 2 expired  user:sam"},
		},
		{
			name: "one that was cancelled, lost or is unknown", route: approval.RouteReview,
			happen: []func(*world, approval.Record){
				func(w *world, r approval.Record) {
					w.add(approval.EventCancelled, closed(r, approval.Cancelled, "no"))
					w.add(approval.EventLost, closed(r, approval.Lost, "gone"))
					w.add(approval.EventUnknown, closed(r, approval.Unknown, "crash"))
				},
			},
			want: []string{"closed 1 cancelled  user:sam", "closed 1 lost  user:sam", "closed 1 unknown  user:sam"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, e := newWorld(t), &ear{}
			h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsSummary, everything...)}, map[string]notify.Notifier{"p": e})
			r := w.record(tt.route, "make x")
			if tt.name == tests[len(tests)-1].name {
				r.Revision = 0
			}
			steps := 0
			for _, f := range tt.happen {
				w.change(func() { f(w, r) })
				// The follower has seen a step once it has seen the notice after it.
				steps++
				w.seen(e, steps)
			}
			h.Close()
			var got []string
			for _, n := range e.heard() {
				if n.Event == config.NotifyNotice {
					continue
				}
				if n.Record != r.ID || n.ID != fmt.Sprintf("%s.%d.%s", r.ID, n.Revision, n.Event) || n.Version != notify.Version {
					t.Errorf("the notification is %+v", n)
				}
				got = append(got, strings.TrimRight(fmt.Sprintf("%s %d %s %s %s %s", n.Event, n.Revision, n.State, n.Outcome, n.Source, n.By), " "))
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], "   ", "  ")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// seen posts the notice of that number, and waits until an ear has heard it. What
// was added before was seen in the look after it at the latest.
func (w *world) seen(e *ear, number int) {
	w.Helper()
	arrived := make(chan struct{})
	e.mu.Lock()
	e.tell = func(_ context.Context, n notify.Notification) error {
		if n.Event == config.NotifyNotice && n.Summary == fmt.Sprint(number, " b") {
			close(arrived)
		}
		return nil
	}
	e.mu.Unlock()
	for _, part := range []string{"a", "b"} {
		before := len(e.heard())
		w.change(func() {
			w.notices = append(w.notices, gate.Notice{Seq: int64(len(w.notices)) + 1, At: time.Now(), Kind: gate.NoticeWatch, Message: fmt.Sprint(number, " ", part)})
		})
		if part == "a" {
			e.has(w, before+1)
		}
	}
	<-arrived
}

func TestPayload(t *testing.T) {
	const secret = "hunter2hunter2"
	tell := func(t *testing.T, details config.NotifierDetails) (approval.Record, map[config.NotifierEvent]notify.Notification) {
		t.Helper()
		w, e := newWorld(t), &ear{}
		h := w.open(map[string]config.Notifier{"a": plugin("p", details, everything...)}, map[string]notify.Notifier{"p": e})
		r := w.ask(approval.RouteAsk, "curl -H 'Authorization: Bearer "+secret+"' https://x.example; rm x")
		e.has(t, 1)
		w.change(func() { w.add(approval.EventDecided, decided(r, settled("token="+secret+" is fine"))) })
		e.has(t, 2)
		w.change(func() {
			w.notices = append(w.notices, gate.Notice{Seq: 1, At: time.Now(), Kind: gate.NoticeFault, Workspace: "/w", Epoch: "e1", Message: "password=" + secret})
		})
		h.Close()
		all := map[config.NotifierEvent]notify.Notification{}
		for _, n := range e.heard() {
			text, err := json.Marshal(n)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), secret) {
				t.Errorf("a secret is told: %s", text)
			}
			all[n.Event] = n
		}
		return r, all
	}
	const shown = "command: curl -H 'Authorization: Bearer [redacted]' https://x.example; rm x"
	r, got := tell(t, config.DetailsSummary)
	want := map[config.NotifierEvent]notify.Notification{
		config.NotifyPending: {
			Version: 1, ID: r.ID + ".1.pending", Event: "pending", At: r.Updated, Record: r.ID, Revision: 1, State: approval.Pending,
			Workspace: "/w", Run: "run1", Session: "s1", Turn: "t1", Call: "c1", Subject: "agent:a", OnBehalfOf: "user:sam",
			Kind: approval.KindCommand, Effects: []approval.Effect{approval.EffectProcess}, Route: approval.RouteAsk,
			Deadline: r.Deadline, Answer: "regent permission info " + r.ID, Summary: shown,
		},
		config.NotifyDecided: {
			Version: 1, ID: r.ID + ".2.decided", Event: "decided", At: r.Updated, Record: r.ID, Revision: 2, State: approval.Decided,
			Workspace: "/w", Run: "run1", Session: "s1", Turn: "t1", Call: "c1", Subject: "agent:a", OnBehalfOf: "user:sam",
			Kind: approval.KindCommand, Effects: []approval.Effect{approval.EffectProcess}, Route: approval.RouteAsk,
			Outcome: approval.OutcomeAllow, Source: approval.SourceHuman, By: "user:sam", Summary: shown, Reason: "token=[redacted] is fine",
		},
		config.NotifyNotice: {
			Version: 1, ID: got[config.NotifyNotice].ID, Event: "notice", At: got[config.NotifyNotice].At, Workspace: "/w",
			Topic: gate.NoticeFault, Epoch: "e1", Summary: "password=[redacted]",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with details summary (-want +got):\n%s", diff)
	}

	_, got = tell(t, config.DetailsNone)
	for event, n := range got {
		if n.Summary != "" || n.Reason != "" || n.Request != nil || n.RequestOmitted {
			t.Errorf("with details none %s has %+v", event, n)
		}
	}
	if n := got[config.NotifyPending]; n.Session != "s1" || n.Answer == "" || n.Deadline.IsZero() {
		t.Errorf("with details none nothing is left: %+v", n)
	}

	_, got = tell(t, config.DetailsRequest)
	var q approval.Request
	if err := json.Unmarshal(got[config.NotifyPending].Request, &q); err != nil {
		t.Fatal(err)
	}
	if q.Command == nil || !strings.HasSuffix(q.Command.Text, "rm x") {
		t.Errorf("with details request the request is %s", got[config.NotifyPending].Request)
	}
}

func TestSummaries(t *testing.T) {
	tests := []struct {
		name string
		q    approval.Request
		want string
	}{
		{"words of a command keep their ends", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Argv: []string{"rm", "a b", ""}}}, "command: rm 'a b' ''"},
		{"arguments of a tool are not told", approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "Write", Arguments: json.RawMessage(`{"content":"all of it"}`)}}, "tool: Write"},
		{"a tool has its server", approval.Request{Kind: approval.KindMCP, Tool: &approval.Tool{Server: "docs", Name: "search"}}, "mcp: docs search"},
		{"a file that changes", approval.Request{Kind: approval.KindFileChange, Changes: []approval.Change{{Path: "/a", Operation: "update", Diff: "+all of it"}, {Path: "/b", Operation: "add"}}}, "file_change: update /a and 1 more"},
		{"changes that nobody knows", approval.Request{Kind: approval.KindFileChange}, "file_change: the content is not known"},
		{"a host", approval.Request{Kind: approval.KindNetwork, Network: &approval.Network{Host: "x.example", Port: 443}}, "network: x.example:443"},
		{"what cannot be seen is shown", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: "a\x1b[31m\nb\u202e"}}, `command: a\x1b[31m\nb\u202e`},
		{"a long one is cut", approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: strings.Repeat("é", 1000)}}, "command: " + strings.Repeat("é", notify.MaxSummary-len("command: ")-1) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, e := newWorld(t), &ear{}
			h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsSummary, config.NotifyPending)}, map[string]notify.Notifier{"p": e})
			r := w.recordOf(approval.RouteAsk, &tt.q)
			w.change(func() { w.add(approval.EventAsked, r) })
			h.Close()
			if got := e.heard(); len(got) != 1 || got[0].Summary != tt.want {
				t.Errorf("told %+v, want %q", got, tt.want)
			}
		})
	}
}

func TestLinesFitAndCanBeSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text") +
			strings.Repeat(rapid.SampledFrom([]string{"", "x", "é", "\x00", "\n"}).Draw(t, "of"), rapid.IntRange(0, 250).Draw(t, "many"))
		got := notify.Line(text)
		if n := utf8.RuneCountInString(got); n > notify.MaxSummary {
			t.Fatalf("%q has %d characters", got, n)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q has %U", got, r)
			}
		}
	})
	full := strings.Repeat("x", notify.MaxSummary)
	if got := notify.Line(full); got != full {
		t.Errorf("what fits is cut: %s", got)
	}
	if got, want := notify.Line(full+"x"), full[1:]+"…"; got != want {
		t.Errorf("what is too long is %s, want %s", got, want)
	}
}

func TestLargeRequestIsLeftOut(t *testing.T) {
	w, e := newWorld(t), &ear{}
	h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsRequest, config.NotifyPending)}, map[string]notify.Notifier{"p": e})
	w.ask(approval.RouteAsk, strings.Repeat("x", notify.MaxRequest))
	w.ask(approval.RouteAsk, strings.Repeat("x", notify.MaxRequest/2))
	h.Close()
	got := e.heard()
	if len(got) != 2 || got[0].Request != nil || !got[0].RequestOmitted || got[1].Request == nil || got[1].RequestOmitted {
		t.Errorf("told %d; want the larger request left out", len(got))
	}
}

func TestRecordThatCannotBeReadIsToldOf(t *testing.T) {
	w, e := newWorld(t), &ear{}
	h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsSummary, everything...)}, map[string]notify.Notifier{"p": e})
	r := w.record(approval.RouteAsk, "make x")
	w.change(func() {
		w.add(approval.EventAsked, r)
		delete(w.records, r.ID)
	})
	h.Close()
	got := e.heard()
	if len(got) != 1 || got[0].Event != config.NotifyPending || got[0].Record != r.ID || got[0].Summary != "" || got[0].Answer == "" {
		t.Errorf("told %+v; want that something waits", got)
	}
}

func TestOnlyWhatIsWantedIsTold(t *testing.T) {
	w, all, few := newWorld(t), &ear{}, &ear{}
	h := w.open(map[string]config.Notifier{
		"all": plugin("all", config.DetailsSummary, everything...), "few": plugin("few", config.DetailsNone, config.NotifyDecided),
	}, map[string]notify.Notifier{"all": all, "few": few})
	r := w.ask(approval.RouteAsk, "make x")
	all.has(t, 1)
	w.change(func() { w.add(approval.EventDecided, decided(r, settled(""))) })
	h.Close()
	if len(all.heard()) != 2 || len(few.heard()) != 1 || few.heard()[0].Event != config.NotifyDecided {
		t.Errorf("told %+v and %+v", all.heard(), few.heard())
	}
	if few.heard()[0].Summary != "" || all.heard()[1].Summary == "" {
		t.Errorf("each has its own details: %+v, %+v", few.heard()[0], all.heard()[1])
	}
}

func TestWhatHappenedBeforeIsNotTold(t *testing.T) {
	w, e := newWorld(t), &ear{}
	w.ask(approval.RouteAsk, "before")
	w.named = map[string]config.Notifier{"a": plugin("p", config.DetailsSummary, everything...)}
	h := notify.Open(notify.Options{
		Ledger: w, Feed: w, After: 1, Configured: w.configured,
		Plugin: func(string) (notify.Notifier, error) { return e, nil },
	})
	w.ask(approval.RouteAsk, "after")
	h.Close()
	if got := e.heard(); len(got) != 1 || got[0].Summary != "command: after" {
		t.Errorf("told %+v, want what happened after alone", got)
	}
}

func TestMoreThanOnePageIsToldInOrder(t *testing.T) {
	const many = 600
	w, e := newWorld(t), &ear{}
	var want []string
	w.change(func() {
		for i := range many {
			r := w.record(approval.RouteAsk, fmt.Sprint("make ", i))
			w.add(approval.EventAsked, r)
			want = append(want, r.ID)
		}
	})
	h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsSummary, config.NotifyPending)}, map[string]notify.Notifier{"p": e})
	h.Close()
	s := stat(t, h, "a")
	var got []string
	for _, n := range e.heard() {
		got = append(got, n.Record)
	}
	// Pages may come faster than they are told; what is dropped is counted.
	if int64(len(got)) != s.Sent || s.Sent+s.Dropped != many {
		t.Errorf("%d were told, and %d sent and %d dropped of %d", len(got), s.Sent, s.Dropped, many)
	}
	next := 0
	for _, id := range want {
		if next < len(got) && got[next] == id {
			next++
		}
	}
	if next != len(got) || got[len(got)-1] != want[many-1] {
		t.Errorf("the order is another one: %d of %d are in it", next, len(got))
	}
}

func TestFullQueueDropsTheOldest(t *testing.T) {
	const over = 10
	w, e, other := newWorld(t), &ear{}, &ear{}
	busy, release := make(chan struct{}, 1), make(chan struct{})
	e.tell = func(ctx context.Context, _ notify.Notification) error {
		select {
		case busy <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	h := w.open(map[string]config.Notifier{
		"slow":  plugin("slow", config.DetailsNone, config.NotifyPending),
		"quick": plugin("quick", config.DetailsNone, config.NotifyPending),
	}, map[string]notify.Notifier{"slow": e, "quick": other})
	first := w.ask(approval.RouteAsk, "first")
	<-busy // with the first, so that the queue is empty
	var rest []string
	for i := 0; i < notify.MaxQueue+over; i += 38 { // 7 times
		w.change(func() {
			for j := range 38 {
				r := w.record(approval.RouteAsk, fmt.Sprint("make ", i+j))
				w.add(approval.EventAsked, r)
				rest = append(rest, r.ID)
			}
		})
		// One that is slow holds back no other.
		other.has(t, 1+len(rest))
	}
	if s := stat(t, h, "slow"); s.Queued != notify.MaxQueue || s.Dropped != over {
		t.Errorf("%d wait and %d were dropped, want %d and %d", s.Queued, s.Dropped, notify.MaxQueue, over)
	}
	close(release)
	h.Close()
	want := append([]string{first.ID}, rest[over:]...)
	var got []string
	for _, n := range e.heard() {
		got = append(got, n.Record)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if s := stat(t, h, "slow"); s.Sent != notify.MaxQueue+1 || s.State != notify.OK {
		t.Errorf("it stands as %+v", s)
	}
}

func TestTransientFailuresAreTriedAgain(t *testing.T) {
	tests := []struct {
		name  string
		errs  []error
		tries int
		state notify.State
	}{
		{"until it is heard", []error{notify.ErrTransient, fmt.Errorf("busy: %w", notify.ErrTransient), nil}, 3, notify.OK},
		{"four times in all", []error{notify.ErrTransient, notify.ErrTransient, notify.ErrTransient, notify.ErrTransient, nil}, 4, notify.Failing},
		{"and others are not", []error{errors.New("no"), nil}, 1, notify.Failing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, e := newWorld(t), &ear{}
			done := make(chan struct{})
			tries := 0
			e.tell = func(context.Context, notify.Notification) error {
				err := tt.errs[tries]
				if tries++; tries == tt.tries {
					close(done)
				}
				return err
			}
			h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsNone, config.NotifyPending)}, map[string]notify.Notifier{"p": e})
			w.ask(approval.RouteAsk, "make x")
			<-done // closing ends the waiting between tries
			h.Close()
			got := e.heard()
			if len(got) != tt.tries {
				t.Fatalf("it was tried %d times, want %d", len(got), tt.tries)
			}
			for _, n := range got {
				if n.ID != got[0].ID {
					t.Errorf("one notification has the ids %s and %s", got[0].ID, n.ID)
				}
			}
			s := stat(t, h, "a")
			if s.State != tt.state || s.Sent+s.Failed != 1 || (s.Fault != "") != (tt.state == notify.Failing) {
				t.Errorf("it stands as %+v", s)
			}
		})
	}
}

func TestFailuresAreLoggedOnce(t *testing.T) {
	w, e := newWorld(t), &ear{}
	fail := true
	e.tell = func(context.Context, notify.Notification) error {
		if fail {
			fail = len(e.heard()) < 5
			return errors.New("no")
		}
		return nil
	}
	h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsSummary, config.NotifyPending)}, map[string]notify.Notifier{"p": e})
	for i := range 7 {
		w.ask(approval.RouteAsk, "make secret-thing")
		e.has(t, i+1)
	}
	h.Close()
	log := w.logged()
	if strings.Count(log, "was not told") != 1 || strings.Count(log, "is told again") != 1 {
		t.Errorf("the log is\n%s", log)
	}
	if strings.Contains(log, "secret-thing") {
		t.Errorf("the log has what was asked:\n%s", log)
	}
	if s := stat(t, h, "a"); s.Failed != 5 || s.Sent != 2 {
		t.Errorf("it stands as %+v", s)
	}
}

func TestSlowNotifierIsNotWaitedForForever(t *testing.T) {
	w, e := newWorld(t), &ear{}
	w.named = map[string]config.Notifier{"a": plugin("p", config.DetailsNone, config.NotifyPending)}
	told := make(chan error, 1)
	e.tell = func(ctx context.Context, _ notify.Notification) error {
		<-ctx.Done()
		told <- context.Cause(ctx)
		return context.Cause(ctx)
	}
	h := notify.OpenWithin(notify.Options{
		Ledger: w, Feed: w, Configured: w.configured, Plugin: func(string) (notify.Notifier, error) { return e, nil },
	}, time.Millisecond, time.Minute)
	w.ask(approval.RouteAsk, "make x")
	err := <-told
	h.Close()
	if s := stat(t, h, "a"); err == nil || s.Failed != 1 || s.Fault != "no answer within 1ms" {
		t.Errorf("it stands as %+v, after %v", s, err)
	}
}

func TestExpiredRequestIsNotToldAsWaiting(t *testing.T) {
	w, e := newWorld(t), &ear{}
	h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsNone, everything...)}, map[string]notify.Notifier{"p": e})
	r := w.record(approval.RouteAsk, "make x")
	r.Deadline = time.Now().Add(-time.Second)
	w.change(func() { w.add(approval.EventAsked, r) })
	h.Close()
	if s := stat(t, h, "a"); len(e.heard()) != 0 || s.Dropped != 1 {
		t.Errorf("told %+v, and it stands as %+v", e.heard(), s)
	}
}

func TestCloseTellsWhatIsLeft(t *testing.T) {
	w, e := newWorld(t), &ear{}
	h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsNone, config.NotifyClosed)}, map[string]notify.Notifier{"p": e})
	for range 20 {
		r := w.record(approval.RouteAsk, "make x")
		w.change(func() { w.add(approval.EventCancelled, closed(r, approval.Cancelled, "the daemon ends")) })
	}
	h.Close()
	if got := e.heard(); len(got) != 20 {
		t.Errorf("%d were told, want 20", len(got))
	}
	h.Close() // a second time is no matter
}

func TestCloseDoesNotWaitForLong(t *testing.T) {
	w, e := newWorld(t), &ear{}
	busy := make(chan struct{})
	e.tell = func(ctx context.Context, _ notify.Notification) error {
		close(busy)
		<-ctx.Done()
		return ctx.Err()
	}
	w.named = map[string]config.Notifier{"a": plugin("p", config.DetailsNone, config.NotifyPending)}
	h := notify.OpenWithin(notify.Options{
		Ledger: w, Feed: w, Configured: w.configured, Plugin: func(string) (notify.Notifier, error) { return e, nil },
	}, time.Hour, time.Millisecond)
	w.change(func() {
		for range 3 {
			w.add(approval.EventAsked, w.record(approval.RouteAsk, "make x"))
		}
	})
	<-busy
	h.Close()
	if s := stat(t, h, "a"); s.Failed != 1 || s.Dropped != 2 {
		t.Errorf("it stands as %+v, want one that failed and two that were dropped", s)
	}
}

func TestConfigurationIsFollowed(t *testing.T) {
	w, before, after := newWorld(t), &ear{}, &ear{}
	h := w.open(nil, map[string]notify.Notifier{"before": before, "after": after})
	w.ask(approval.RouteAsk, "nobody is told")
	w.until(func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.head == 1 })
	w.change(func() {
		w.named = map[string]config.Notifier{"a": plugin("before", config.DetailsSummary, config.NotifyPending)}
	})
	w.until(func() bool { return len(h.Stats()) == 1 })
	w.ask(approval.RouteAsk, "one")
	before.has(t, 1)
	w.change(func() {
		w.named = map[string]config.Notifier{"a": plugin("after", config.DetailsNone, config.NotifyPending)}
	})
	w.ask(approval.RouteAsk, "two")
	after.has(t, 1)
	w.change(func() { w.named = nil })
	w.until(func() bool { return len(h.Stats()) == 0 })
	w.ask(approval.RouteAsk, "nobody is told any more")
	h.Close()
	if got := before.heard(); len(got) != 1 || got[0].Summary != "command: one" {
		t.Errorf("the first was told %+v", got)
	}
	if got := after.heard(); len(got) != 1 || got[0].Summary != "" {
		t.Errorf("the other was told %+v", got)
	}
}

func TestWhatWaitsGoesByTheNewConfiguration(t *testing.T) {
	w, e, after := newWorld(t), &ear{}, &ear{}
	busy, release := make(chan struct{}), make(chan struct{})
	e.tell = func(context.Context, notify.Notification) error {
		close(busy)
		<-release
		return nil
	}
	h := w.open(map[string]config.Notifier{"a": plugin("before", config.DetailsRequest, config.NotifyPending)}, map[string]notify.Notifier{"before": e, "after": after})
	w.ask(approval.RouteAsk, "one")
	<-busy
	w.ask(approval.RouteAsk, "two")
	w.until(func() bool { return stat(t, h, "a").Queued == 1 })
	w.change(func() {
		w.named = map[string]config.Notifier{"a": plugin("after", config.DetailsNone, config.NotifyPending)}
	})
	w.ask(approval.RouteAsk, "three")
	w.until(func() bool { return stat(t, h, "a").Queued == 2 })
	close(release)
	h.Close()
	got := after.heard()
	if len(got) != 2 || got[0].Summary != "" || got[0].Request != nil {
		t.Errorf("told %+v; want two without words", got)
	}
}

func TestRemovedNotifierIsToldNoMore(t *testing.T) {
	w, e := newWorld(t), &ear{}
	busy, left := make(chan struct{}), make(chan struct{})
	e.tell = func(ctx context.Context, _ notify.Notification) error {
		close(busy)
		<-ctx.Done()
		close(left)
		return ctx.Err()
	}
	w.named = map[string]config.Notifier{"a": plugin("p", config.DetailsNone, config.NotifyPending)}
	// With times that nothing but the removal ends.
	h := notify.OpenWithin(notify.Options{
		Ledger: w, Feed: w, Configured: w.configured, Plugin: func(string) (notify.Notifier, error) { return e, nil },
	}, time.Hour, time.Hour)
	w.ask(approval.RouteAsk, "one")
	<-busy
	w.ask(approval.RouteAsk, "two")
	w.until(func() bool { return stat(t, h, "a").Queued == 1 })
	w.change(func() { w.named = nil })
	<-left
	h.Close()
	if got := e.heard(); len(got) != 1 {
		t.Errorf("told %+v after it was removed", got)
	}
}

func TestMissingPluginIsSaidOnce(t *testing.T) {
	w := newWorld(t)
	h := w.open(map[string]config.Notifier{"a": plugin("none", config.DetailsNone, config.NotifyPending)}, nil)
	w.ask(approval.RouteAsk, "one")
	w.ask(approval.RouteAsk, "two")
	h.Close()
	s := stat(t, h, "a")
	if s.State != notify.Unavailable || s.Fault != "nothing to tell with: no plugin is named none" || s.Failed != 2 {
		t.Errorf("it stands as %+v", s)
	}
	if log := w.logged(); strings.Count(log, "level=WARN") != 1 {
		t.Errorf("the log is\n%s", log)
	}
}

func TestUnreadableLedgerIsSaidOnceAndReadAgain(t *testing.T) {
	w, e := newWorld(t), &ear{}
	w.fault = errors.New("the disk is gone")
	h := w.open(map[string]config.Notifier{"a": plugin("p", config.DetailsNone, config.NotifyPending)}, map[string]notify.Notifier{"p": e})
	w.ask(approval.RouteAsk, "one")
	w.until(func() bool { return strings.Contains(w.logged(), "the disk is gone") })
	w.change(func() { w.fault = nil })
	h.Close()
	if got := e.heard(); len(got) != 1 {
		t.Errorf("told %+v, want what happened meanwhile", got)
	}
	if log := w.logged(); strings.Count(log, "the disk is gone") != 1 {
		t.Errorf("the log is\n%s", log)
	}
}
