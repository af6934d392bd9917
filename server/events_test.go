package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

func (d *daemon) follow(c *client.Client, after int64) *client.Events {
	d.Helper()
	e, err := c.Events(d.Context(), after)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = e.Close() })
	return e
}

// next is the next event about an approval.
func next(t testing.TB, e *client.Events) approval.Event {
	t.Helper()
	for {
		one, err := e.Next()
		if err != nil {
			t.Fatal(err)
		}
		if one.Approval != nil {
			return *one.Approval
		}
	}
}

func (d *daemon) deny() {
	d.Helper()
	if _, err := d.Ask(d.Context(), question("rm x")); err != nil {
		d.Fatal(err)
	}
}

func TestEventsTellWhatHappens(t *testing.T) {
	d := start(t, setup{})
	d.deny()
	d.until(approval.Resolved)
	events := d.follow(d.Client, client.FromNow)
	record, answer := d.pending(question("make x"))
	if _, err := d.Decide(t.Context(), record.ID, 1, api.Decision{Option: allow}); err != nil {
		t.Fatal(err)
	}
	<-answer
	var kinds []approval.EventKind
	for range 5 {
		one := next(t, events)
		if one.ID != record.ID {
			t.Errorf("an event is about %s, want %s", one.ID, record.ID)
		}
		kinds = append(kinds, one.Kind)
	}
	want := []approval.EventKind{approval.EventAsked, approval.EventDecided, approval.EventWriting, approval.EventSent, approval.EventResolved}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// It reads what is on the wire: a request is on it nowhere, and each event of an
// approval has its number for an id.
func TestEventsResumeExactly(t *testing.T) {
	d := start(t, setup{})
	const calls = 300 // more than a page of events
	go func() {
		for range calls {
			if _, err := d.Ask(d.Context(), question("rm x")); err != nil {
				return // the test has ended
			}
		}
	}()
	var got, want []int64
	after := int64(0)
	for len(got) < calls*3 {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/events?after=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Last-Event-ID", fmt.Sprint(after))
		conn := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.socket)
		}}
		response, err := conn.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(response.Body)
		// Each stream breaks off after some events, in the middle of a page.
		for n := 0; n < 130 && len(got) < calls*3 && lines.Scan(); {
			if strings.Contains(lines.Text(), "rm x") {
				t.Fatalf("an event tells what was requested: %s", lines.Text())
			}
			if digits, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id := after
				if _, err := fmt.Sscan(digits, &id); err != nil {
					t.Fatal(err)
				}
				if id == after && n == 0 {
					continue // where the stream begins
				}
				got, after, n = append(got, id), id, n+1
			}
		}
		cancel()
		_ = response.Body.Close()
		conn.CloseIdleConnections()
	}
	for i := range got {
		want = append(want, int64(i+1))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestMembersHearOfTheirSessionsOnly(t *testing.T) {
	d := start(t, setup{})
	other := question("rm x")
	other.Request.Session.Members = nil
	events := d.follow(d.As("user:mia"), 0)
	theirs, err := d.Ask(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	d.until(approval.Resolved)
	mine, err := d.Ask(t.Context(), question("rm x"))
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, events); got.ID != mine.ID {
		t.Errorf("a member hears of %s, want of %s and not of %s", got.ID, mine.ID, theirs.ID)
	}
}

func TestEventsTellOfFaults(t *testing.T) {
	d := start(t, setup{})
	before := d.follow(d.Client, client.FromNow)
	write(t, filepath.Join(d.home, "config.yaml"), "version: 1\nno_such_key: 1\n")
	if _, err := d.Check(t.Context(), question("ls")); err != nil { // a call looks at the files
		t.Fatal(err)
	}
	after := d.follow(d.Client, client.FromNow)
	for name, e := range map[string]*client.Events{"who was there before": before, "who comes after": after} {
		one, err := e.Next()
		if err != nil || one.Notice == nil || one.Notice.Kind != "fault" || !strings.Contains(one.Notice.Message, "no_such_key") {
			t.Errorf("%s hears %+v, %v; want the fault", name, one, err)
		}
	}
}

func TestSlowReaderHoldsBackNobody(t *testing.T) {
	d := start(t, setup{before: func(s *server.Server) { s.Patience(10*time.Second, time.Second, 15*time.Second) }})
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// It reads nothing. What the system buffers for it is full after some hundred
	// events, and others go on.
	quick := d.follow(d.Client, client.FromNow)
	readers := func(n string) bool { return strings.Contains(d.metricsOf(), "regent_http_event_readers "+n+"\n") }
	for !readers("2") { // until the daemon has seen both
	}
	last := int64(0)
	for range 20_000 {
		d.deny()
		for range 3 {
			last = next(t, quick).Seq
		}
		if last%300 == 0 && readers("1") {
			return // the slow one is gone, the quick one is still there
		}
	}
	t.Errorf("after %d events the reader that reads nothing is still there", last)
}

func (d *daemon) metricsOf() string {
	d.Helper()
	text, err := d.Metrics(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	return string(text)
}

func TestReadersOfEventsAreBounded(t *testing.T) {
	d := start(t, setup{options: server.Options{MaxReaders: 2}})
	first := d.follow(d.Client, client.FromNow)
	d.follow(d.Client, client.FromNow)
	_, err := d.Events(t.Context(), client.FromNow)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.Overloaded || e.RetryAfter < 1 {
		t.Errorf("the third reader gets %v, want %s and when to try again", err, api.Overloaded)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		// That the first has gone is seen when the daemon reads its connection.
		e, err := d.Events(t.Context(), client.FromNow)
		if err == nil {
			_ = e.Close()
			return
		}
		if code(t, err) != api.Overloaded {
			t.Fatal(err)
		}
	}
}

func TestEventsThatAreNotThere(t *testing.T) {
	d := start(t, setup{})
	if _, err := d.Events(t.Context(), 99); code(t, err) != api.Ahead {
		t.Errorf("what is ahead of the ledger is %v, want %s", err, api.Ahead)
	}
}

func TestStreamEndsWhenItsReaderMayNoLongerRead(t *testing.T) {
	d := start(t, setup{before: func(s *server.Server) { s.Patience(10*time.Second, 10*time.Second, 5*time.Millisecond) }})
	c := d.bearer("user:otto")
	events := d.follow(c, client.FromNow)
	tokens, err := d.tokens.List()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.tokens.Revoke(tokens[0].ID); err != nil {
		t.Fatal(err)
	}
	if one, err := events.Next(); code(t, err) != api.Unauthorized {
		t.Errorf("the stream goes on with %+v, %v; want %s", one, err, api.Unauthorized)
	}
}
