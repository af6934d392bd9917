package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regent-policy/regent/gate/approval"
)

// TestTheUpdateItselfHoldsEveryCondition is internal because the transitions
// find the same faults first; here the statement stands alone.
func TestTheUpdateItselfHoldsEveryCondition(t *testing.T) {
	start := time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC)
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "runtime.db"), Options{Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := db.Lease(t.Context(), "i1", 20*time.Minute); err != nil {
		t.Fatal(err)
	}
	r, err := approval.New(approval.Draft{
		Request:  &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "x"}},
		Ruling:   approval.Ruling{Epoch: "e", Deadlines: approval.Deadlines{RequestSeconds: 600}},
		Instance: "i1",
	}, start)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = db.Insert(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	next, err := r.Decide(r.From(), approval.Decision{Option: json.RawMessage(`"allow"`), Outcome: approval.OutcomeAllow, Source: approval.SourceAuto}, start)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newRow(1, next)
	if err != nil {
		t.Fatal(err)
	}
	good := r.From()
	tests := []struct {
		name  string
		from  approval.From
		state approval.State
		kind  approval.EventKind
		after time.Duration
		want  bool
	}{
		{"another id", approval.From{ID: "x", Revision: 1, Instance: "i1"}, approval.Pending, approval.EventDecided, 0, false},
		{"another revision", approval.From{ID: r.ID, Revision: 2, Instance: "i1"}, approval.Pending, approval.EventDecided, 0, false},
		{"another instance", approval.From{ID: r.ID, Revision: 1, Instance: "i2"}, approval.Pending, approval.EventDecided, 0, false},
		{"another state", good, approval.Decided, approval.EventDecided, 0, false},
		{"a decision at the deadline", good, approval.Pending, approval.EventDecided, 10 * time.Minute, false},
		{"a new route at the deadline", good, approval.Pending, approval.EventRerouted, 10 * time.Minute, false},
		{"an answer at the end of the lease", good, approval.Pending, approval.EventWriting, 20 * time.Minute, false},
		{"an action at the end of the lease", good, approval.Pending, approval.EventFenced, 20 * time.Minute, false},
		{"an action from another revision", approval.From{ID: r.ID, Revision: 2, Instance: "i1"}, approval.Pending, approval.EventFenced, 0, false},
		{"a decision just in time", good, approval.Pending, approval.EventDecided, 10*time.Minute - time.Millisecond, true},
		{"an answer past the deadline, within the lease", good, approval.Pending, approval.EventWriting, 11 * time.Minute, true},
		{"an action past the deadline, within the lease", good, approval.Pending, approval.EventFenced, 11 * time.Minute, true},
		{"the end of a record past both", good, approval.Pending, approval.EventExpired, time.Hour, true},
	}
	// What the statement does is undone each time, by a failure.
	undo := errors.New("undo")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var changed bool
			err := db.change(t.Context(), func(tx *tx) (refusal, failure error) {
				tx.now = start.Add(tt.after)
				if changed, failure = tx.swap(tt.from, tt.state, tt.kind, w); failure != nil {
					return nil, failure
				}
				return nil, undo
			})
			if !errors.Is(err, undo) {
				t.Fatal(err)
			}
			if changed != tt.want {
				t.Errorf("changed = %v, want %v", changed, tt.want)
			}
		})
	}
}

// TestAFileThatGoesDuringACommit is internal because it removes the file in the
// middle of a transaction. Nobody may be told that it is done, nor may it be done
// again.
func TestAFileThatGoesDuringACommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // its file is gone
	runs := 0
	lease := func(instance string) *op {
		return &op{done: make(chan struct{}), do: func(t *tx) (error, error) {
			runs++
			_, err := t.s.setLease.ExecContext(t.ctx, instance, int64(1), int64(0))
			return nil, errors.Join(err, os.RemoveAll(path))
		}}
	}
	batch := []*op{lease("a"), lease("b")}
	db.commit(batch)
	for i, o := range batch {
		<-o.done
		if !errors.Is(o.err, approval.ErrDamaged) {
			t.Errorf("change %d: %v, want ErrDamaged", i, o.err)
		}
	}
	if runs != len(batch) {
		t.Errorf("%d changes were run %d times", len(batch), runs)
	}
}

// TestTimeThatPassesInTheQueue is internal because it sets the clock between the
// caller's preparation and the change: what is prepared in time may be written
// too late, and then does not count.
func TestTimeThatPassesInTheQueue(t *testing.T) {
	start := time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC)
	yes := approval.Decision{Option: json.RawMessage(`"allow"`), Outcome: approval.OutcomeAllow, Source: approval.SourceAuto}
	for _, tt := range []struct {
		name  string
		lease time.Duration
		after time.Duration
		want  error
	}{
		{"in time", time.Hour, 10*time.Minute - time.Millisecond, nil},
		{"at the deadline", time.Hour, 10 * time.Minute, approval.ErrExpired},
		{"at the end of the lease", 5 * time.Minute, 5 * time.Minute, approval.ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := start
			db := opened(t, Options{Now: func() time.Time { return now }})
			if _, err := db.Lease(t.Context(), "i1", tt.lease); err != nil {
				t.Fatal(err)
			}
			r, err := approval.New(approval.Draft{
				Request:  &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "x"}},
				Ruling:   approval.Ruling{Epoch: "e", Deadlines: approval.Deadlines{RequestSeconds: 600}},
				Instance: "i1",
			}, start)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = db.Insert(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			moves := []move{{approval.EventDecided, func(c approval.Record, at time.Time) (approval.Record, error) {
				return c.Decide(r.From(), yes, at)
			}}}
			ready := db.plan(r.ID, moves)
			if ready == nil {
				t.Fatal("nothing was prepared")
			}
			now = start.Add(tt.after)
			got, err := db.record(t.Context(), func(t *tx) (approval.Record, error, error) { return t.step(r.From(), ready, moves) })
			if !errors.Is(err, tt.want) {
				t.Fatalf("err = %v, want %v", err, tt.want)
			}
			if tt.want == nil && !got.Decision.At.Equal(start) {
				t.Errorf("decided at %v: what was prepared was not used", got.Decision.At)
			}
			stored, err := db.Read(t.Context(), r.ID)
			if err != nil || (stored.State == approval.Decided) != (tt.want == nil) {
				t.Errorf("stored: %s, %v", stored.State, err)
			}
		})
	}
}

// TestALeaseThatEndsBeforeAnActionIsLetStart is internal because it sets the
// clock between the caller's preparation and the change.
func TestALeaseThatEndsBeforeAnActionIsLetStart(t *testing.T) {
	start := time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC)
	yes := approval.Decision{Option: json.RawMessage(`"allow"`), Outcome: approval.OutcomeAllow, Source: approval.SourceAuto}
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  error
	}{
		{"in time", 5*time.Minute - time.Millisecond, nil},
		{"at the end of the lease", 5 * time.Minute, approval.ErrLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := start
			db := opened(t, Options{Now: func() time.Time { return now }})
			if _, err := db.Lease(t.Context(), "i1", 5*time.Minute); err != nil {
				t.Fatal(err)
			}
			r, err := approval.New(approval.Draft{
				Request:  &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "x"}},
				Ruling:   approval.Ruling{Epoch: "e", Deadlines: approval.Deadlines{RequestSeconds: 600}},
				Instance: "i1",
			}, start)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = db.InsertDecided(t.Context(), r, yes, true); err != nil {
				t.Fatal(err)
			}
			moves := []move{{approval.EventFenced, func(c approval.Record, at time.Time) (approval.Record, error) {
				return c.Fence(r.From(), "", r.Digest, at)
			}}}
			ready := db.plan(r.ID, moves)
			if ready == nil {
				t.Fatal("nothing was prepared")
			}
			now = start.Add(tt.after)
			if _, err := db.record(t.Context(), func(t *tx) (approval.Record, error, error) { return t.step(r.From(), ready, moves) }); !errors.Is(err, tt.want) {
				t.Fatalf("err = %v, want %v", err, tt.want)
			}
			stored, err := db.Read(t.Context(), r.ID)
			if err != nil || stored.Fenced.IsZero() != (tt.want != nil) {
				t.Errorf("stored: fenced at %v, %v", stored.Fenced, err)
			}
		})
	}
}

// TestClosingRefusesWhatWaits is internal because it stops the writer. Three
// changes are behind one that is being made, and one more than the queue holds
// is behind them.
func TestClosingRefusesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), filepath.Join(t.TempDir(), "runtime.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		entered, release := make(chan struct{}), make(chan struct{})
		var begun error
		var wait sync.WaitGroup
		wait.Go(func() {
			begun = db.change(t.Context(), func(*tx) (error, error) {
				close(entered)
				<-release
				return nil, nil
			})
		})
		<-entered
		queued := make([]error, maxBatch+3)
		for i := range queued {
			wait.Go(func() { _, queued[i] = db.Lease(t.Context(), fmt.Sprintf("i%d", i), time.Minute) })
		}
		synctest.Wait()
		if got := db.Stats().Queued; got != maxBatch {
			t.Errorf("%d wait, want a full queue", got)
		}
		var closed error
		wait.Go(func() { closed = db.Close() })
		synctest.Wait()
		close(release)
		wait.Wait()
		if begun != nil || closed != nil {
			t.Errorf("the change that was begun: %v; Close: %v", begun, closed)
		}
		for i, err := range queued {
			if !errors.Is(err, approval.ErrClosed) {
				t.Errorf("change %d: %v, want ErrClosed", i, err)
			}
		}
		if _, err := db.Sweep(t.Context()); !errors.Is(err, approval.ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
	})
}

// One change that fails must not take the others of its transaction with it, nor
// must what was done before the failure stay.
func TestOneFailureIsNotThatOfTheBatch(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "runtime.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	broken := errors.New("broken")
	lease := func(instance string, failure error) *op {
		return &op{done: make(chan struct{}), do: func(t *tx) (error, error) {
			if _, err := t.s.setLease.ExecContext(t.ctx, instance, int64(1), int64(0)); err != nil {
				return nil, err
			}
			return nil, failure
		}}
	}
	batch := []*op{lease("a", nil), lease("b", broken), lease("c", nil)}
	// In the writer's place, which waits: so the three are one batch for certain.
	db.commit(batch)
	for i, want := range []error{nil, broken, nil} {
		<-batch[i].done
		if !errors.Is(batch[i].err, want) {
			t.Errorf("change %d: %v, want %v", i, batch[i].err, want)
		}
	}
	var names []string
	rows, err := db.read.QueryContext(t.Context(), `SELECT instance FROM leases ORDER BY instance`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) != 2 || names[0] != "a" || names[1] != "c" {
		t.Errorf("leases = %v, %v; want those of a and c", names, err)
	}
}
