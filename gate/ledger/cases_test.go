package ledger_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/ledger/ledgertest"
)

// TestFailuresOfOthers has what went wrong in other systems, step by step, on the
// real database. The names are those of the case corpus.
func TestFailuresOfOthers(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *ledgertest.Clock, string, *ledger.DB){
		"LED-01 two people decide with the same revision": twoPeople,
		"LED-02 read-then-write transaction under WAL":    readThenWrite,
		"LED-03 decision after the deadline":              afterTheDeadline,
		"LED-04 secret in the arguments":                  secretInArguments,
		"LED-05 ids from the clock collide":               idsFromTheClock,
	} {
		t.Run(name, func(t *testing.T) {
			clock, path := ledgertest.NewClock(), filepath.Join(t.TempDir(), "runtime.db")
			db := open(t, path, ledger.Options{Now: clock.Now})
			if _, err := db.Lease(t.Context(), "i1", time.Hour); err != nil {
				t.Fatal(err)
			}
			test(t, clock, path, db)
			verifies(t, db)
		})
	}
}

func must(t *testing.T, r approval.Record, err error) approval.Record {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Both read revision 2. One answer counts, the other is told what the record is
// now, and the run goes on once at most.
func twoPeople(t *testing.T, clock *ledgertest.Clock, _ string, db *ledger.DB) {
	for range 16 {
		r, err := db.Insert(t.Context(), ledgertest.Record(t, clock.Now))
		r = must(t, r, err)
		r, err = db.Reroute(t.Context(), r.From(), ledgertest.Draft().Ruling, nil)
		r = must(t, r, err)
		answers := []approval.Decision{ledgertest.Allow(), ledgertest.Deny()}
		errs := make([]error, len(answers))
		started := make([]bool, len(answers))
		var wait sync.WaitGroup
		for i, d := range answers {
			wait.Go(func() {
				_, errs[i] = db.Decide(t.Context(), r.From(), d)
				// Each thinks that it has won, and has the run go on.
				now, err := db.Read(t.Context(), r.ID)
				if err != nil {
					t.Error(err)
				}
				_, err = db.Fence(t.Context(), now.From(), now.Run, now.Digest)
				started[i] = err == nil
			})
		}
		wait.Wait()
		now, err := db.Read(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		conflict, ok := errors.AsType[*approval.ConflictError](errors.Join(errs...))
		if (errs[0] == nil) == (errs[1] == nil) || !ok || conflict.Current.Revision <= r.Revision {
			t.Fatalf("%v and %v, want one winner, and a conflict with the revision that won", errs[0], errs[1])
		}
		allowed := errs[0] == nil
		if (now.Decision.Outcome == approval.OutcomeAllow) != allowed {
			t.Errorf("the record says %s; allow won: %v", now.Decision.Outcome, allowed)
		}
		if started[0] && started[1] || !allowed && (started[0] || started[1]) || allowed == now.Fenced.IsZero() {
			t.Errorf("started %v, fenced at %v; allow won: %v", started, now.Fenced, allowed)
		}
	}
}

// Somebody who has read and not finished keeps no writer waiting, two processes
// write at once, and nobody is told that the database is busy.
func readThenWrite(t *testing.T, clock *ledgertest.Clock, path string, db *ledger.DB) {
	other := open(t, path, ledger.Options{Now: clock.Now})
	reader, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}()
	const count = 50
	records := make([]approval.Record, count)
	for i := range records {
		r, err := db.Insert(t.Context(), ledgertest.Record(t, clock.Now))
		records[i] = must(t, r, err)
	}
	stale, err := reader.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stale.Rollback() }() // it only reads
	var pending int
	if err := stale.QueryRowContext(t.Context(), `SELECT count(*) FROM approvals WHERE state = 'pending'`).Scan(&pending); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i, r := range records {
		wait.Go(func() {
			by := db
			if i%2 == 1 {
				by = other
			}
			if _, err := by.Decide(t.Context(), r.From(), ledgertest.Allow()); err != nil {
				t.Errorf("decision %d: %v", i, err)
			}
		})
	}
	wait.Wait()
	page, err := db.List(t.Context(), approval.Query{States: []approval.State{approval.Decided}})
	if err != nil || len(page.Records) != count || pending != count {
		t.Errorf("%d outcomes of %d, %v; want %d", len(page.Records), pending, err, count)
	}
}

// The deadline was at 12:00:00, it is 12:00:01, and no sweep has run.
func afterTheDeadline(t *testing.T, clock *ledgertest.Clock, _ string, db *ledger.DB) {
	r, err := db.Insert(t.Context(), ledgertest.Record(t, clock.Now))
	r = must(t, r, err)
	clock.Advance(10*time.Minute + time.Second)
	_, err = db.Decide(t.Context(), r.From(), ledgertest.Allow())
	if !errors.Is(err, approval.ErrExpired) || !strings.Contains(err.Error(), "expired; ask anew") {
		t.Errorf("err = %v, want one that says that it is expired and what to do", err)
	}
	if _, err := db.Fence(t.Context(), r.From(), r.Run, r.Digest); !errors.Is(err, approval.ErrConflict) {
		t.Errorf("the action: %v, want ErrConflict", err)
	}
	now, err := db.Read(t.Context(), r.ID)
	if err != nil || now.State != approval.Pending || now.Decision != nil {
		t.Errorf("the late answer left %s, %+v, %v", now.State, now.Decision, err)
	}
}

// What runs and its digest are as they were; what is stored is not.
func secretInArguments(t *testing.T, clock *ledgertest.Clock, _ string, db *ledger.DB) {
	const text = "curl -u key-123456:x https://user:pw@example.com/v1"
	d := ledgertest.Draft()
	d.Request.Kind, d.Request.Command = approval.KindTool, nil
	d.Request.Tool = &approval.Tool{Name: "shell", Arguments: json.RawMessage(`{"command":"` + text + `"}`)}
	d.Ruling.Verdicts = []approval.Verdict{{Reviewer: "model", Outcome: approval.VerdictUnsure, Rationale: "it is " + text}}
	digest, err := approval.Digest(d.Request)
	if err != nil {
		t.Fatal(err)
	}
	r, err := approval.New(d, clock.Now())
	r = must(t, r, err)
	r, err = db.Insert(t.Context(), r)
	r = must(t, r, err)
	answer := ledgertest.Allow()
	answer.Verdicts = d.Ruling.Verdicts
	r, err = db.Decide(t.Context(), r.From(), answer)
	r = must(t, r, err)
	var exported strings.Builder
	if err := db.Export(t.Context(), &exported); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"key-123456", "user:pw"} {
		if strings.Contains(exported.String(), secret) {
			t.Errorf("%q is stored", secret)
		}
	}
	if !strings.Contains(exported.String(), "example.com/v1") {
		t.Error("the call is not stored at all")
	}
	if diff := cmp.Diff([]string{"/tool/arguments/command"}, r.Masked); diff != "" {
		t.Errorf("masked (-want +got):\n%s", diff)
	}
	if got := string(d.Request.Tool.Arguments); got != `{"command":"`+text+`"}` || r.Digest != digest {
		t.Errorf("what runs became %s, with digest %s, was %s", got, r.Digest, digest)
	}
	if _, err := db.Fence(t.Context(), r.From(), r.Run, digest); err != nil {
		t.Errorf("the very action: %v", err)
	}
}

// A thousand requests come while the clock stands still.
func idsFromTheClock(t *testing.T, clock *ledgertest.Clock, path string, db *ledger.DB) {
	const count = 1000
	records := make([]approval.Record, count)
	var wait sync.WaitGroup
	for i := range records {
		wait.Go(func() {
			r := ledgertest.Record(t, clock.Now)
			var err error
			if records[i], err = db.Insert(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	ids := map[string]bool{}
	for _, r := range records {
		ids[r.ID] = true
	}
	if len(ids) != count || db.Stats().Head.Approvals != count {
		t.Errorf("%d ids and %d records of %d requests", len(ids), db.Stats().Head.Approvals, count)
	}
	first := records[0]
	other := ledgertest.Record(t, clock.Now)
	other.ID, other.Digest = first.ID, "another call"
	if _, err := db.Insert(t.Context(), other); !errors.Is(err, approval.ErrExists) {
		t.Errorf("an id that is taken: %v, want ErrExists", err)
	}
	now, err := db.Read(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, now, ledgertest.Equal); diff != "" {
		t.Errorf("what was there (-want +got):\n%s", diff)
	}
	// The constraint is in the table, not in the program alone.
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := raw.ExecContext(t.Context(), `INSERT INTO approvals
		SELECT 9999, id, revision, state, workspace, run, session, instance, deadline_ms, body FROM approvals WHERE n = 1`); err == nil ||
		!strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("a second row of one id: %v, want a refusal", err)
	}
}
