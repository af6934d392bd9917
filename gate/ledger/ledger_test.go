package ledger_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// edit runs SQL on the file as somebody would who goes around the ledger.
func edit(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range statements {
		result, err := db.ExecContext(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if n, err := result.RowsAffected(); strings.HasPrefix(s, "UPDATE") && n == 0 {
			t.Fatalf("%s changed nothing: %v", s, err)
		}
	}
}

func TestVerifyFindsWhatWasDone(t *testing.T) {
	const unlock = `DROP TRIGGER events_are_never_changed; DROP TRIGGER events_are_never_removed`
	// Five records with two events each: event 2k-1 asks and 2k decides record k.
	tests := []struct {
		name string
		sql  []string
		want []string
	}{
		{"an edited event", []string{`UPDATE events SET outcome = 'deny' WHERE seq = 4`}, []string{"events 4: edited or moved"}},
		{"an edited time of an event", []string{`UPDATE events SET at_ms = at_ms + 1 WHERE seq = 5`}, []string{"events 5: edited or moved"}},
		{"an edited first event", []string{`UPDATE events SET by = 'x' WHERE seq = 1`}, []string{"events 1: edited or moved"}},
		{"an edited hash", []string{`UPDATE events SET hash = 'x' WHERE seq = 10`}, []string{"events 10: edited or moved", "head: its hash"}},
		{"a missing event", []string{`DELETE FROM events WHERE seq = 4`}, []string{"events 4: missing", "approvals ID2: edited: it is decided at revision 2"}},
		{"a missing first event", []string{`DELETE FROM events WHERE seq = 1`}, []string{"events 1: missing", "events 2: does not follow"}},
		{"several missing events", []string{`DELETE FROM events WHERE seq IN (3, 4, 5, 6)`}, []string{"events 3 to 6: missing", "approvals ID2: added", "approvals ID3: added"}},
		{"events cut off", []string{`DELETE FROM events WHERE seq > 8`}, []string{"events 9 to 10: missing: the end of the chain was cut off", "approvals ID5: added"}},
		{
			"events cut off with their record",
			[]string{`DELETE FROM events WHERE seq > 8`, `DELETE FROM approvals WHERE n = 5`},
			[]string{"events 9 to 10: missing: the end of the chain was cut off", "approvals: number 5 to 5 missing: the end was cut off"},
		},
		{"no events left", []string{`DELETE FROM events`}, []string{"events 1 to 10: missing", "approvals ID1: added"}},
		{
			"events in another order",
			[]string{`UPDATE events SET seq = -1 WHERE seq = 3`, `UPDATE events SET seq = 3 WHERE seq = 6`, `UPDATE events SET seq = 6 WHERE seq = -1`},
			[]string{"events 3: edited or moved", "events 6: edited or moved"},
		},
		{
			"an added event",
			[]string{`INSERT INTO events SELECT 11, at_ms, kind, id, 3, state, workspace, outcome, source, by, record, 'x' FROM events WHERE seq = 10`},
			[]string{"events 11: edited or moved", "head: names event 10"},
		},
		{"an edited decision", []string{`UPDATE approvals SET body = replace(body, '"outcome":"allow"', '"outcome":"deny"') WHERE n = 3`}, []string{"approvals ID3: edited: it is not what"}},
		{"an edited column", []string{`UPDATE approvals SET deadline_ms = deadline_ms + 1 WHERE n = 3`}, []string{"approvals ID3: edited: it is not what"}},
		{
			"a state set back",
			[]string{`UPDATE approvals SET state = 'pending', revision = 1, body = replace(replace(body, '"decided"', '"pending"'), '"revision":2', '"revision":1') WHERE n = 2`},
			[]string{"approvals ID2: edited: it is pending at revision 1, the last event says decided at revision 2"},
		},
		{"a missing record", []string{`DELETE FROM approvals WHERE n = 3`}, []string{"approvals: number 3 to 3 missing, before ID4", "approvals ID3: missing: events tell of it"}},
		{
			"an added record",
			[]string{`INSERT INTO approvals SELECT 6, 'forged', revision, state, workspace, run, session, instance, deadline_ms, body FROM approvals WHERE n = 5`},
			[]string{"approvals forged: added", "approvals: number 6 to 6 were added"},
		},
		{
			"records in another order",
			[]string{`UPDATE approvals SET n = 9 WHERE n = 2`, `UPDATE approvals SET n = 2 WHERE n = 4`, `UPDATE approvals SET n = 4 WHERE n = 9`},
			[]string{"approvals ID2: edited", "approvals ID4: edited"},
		},
		{"an edited head", []string{`UPDATE head SET hash = 'x'`}, []string{"head: its hash"}},
		{"a missing head", []string{`DELETE FROM head`}, []string{"head: missing"}},
		{
			"an index that lies",
			[]string{`PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'state, n', 'run, n') WHERE name = 'approvals_state'`},
			[]string{"database:"},
		},
	}
	template := filepath.Join(t.TempDir(), "runtime.db")
	db, err := ledger.Open(t.Context(), template, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	records := fill(t, db, 5)
	head := verifies(t, db).Head
	if head.Seq != 10 || head.Approvals != 5 {
		t.Fatalf("head = %+v", head)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runtime.db")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			edit(t, path, append([]string{unlock}, tt.sql...)...)
			report, err := open(t, path, ledger.Options{}).Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range report.Faults {
				text := f.String()
				for i, r := range records {
					text = strings.ReplaceAll(text, r.ID, fmt.Sprintf("ID%d", i+1))
				}
				got = append(got, text)
			}
			all := strings.Join(got, "\n")
			for _, want := range tt.want {
				if !strings.Contains("\n"+all, "\n"+want) {
					t.Errorf("no fault %q in:\n%s", want, all)
				}
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		verifies(t, open(t, template, ledger.Options{}), head)
	})
	t.Run("a whole new chain, only a known head shows", func(t *testing.T) {
		other := open(t, filepath.Join(t.TempDir(), "runtime.db"), ledger.Options{})
		fill(t, other, 6)
		verifies(t, other)
		report, err := other.Verify(t.Context(), head, ledger.Head{Seq: 99, Hash: "x"})
		if err != nil || len(report.Faults) != 2 || !strings.Contains(report.Faults[0].String(), "events 10: rewritten") ||
			!strings.Contains(report.Faults[1].String(), "events 99: missing") {
			t.Errorf("faults = %v, %v", report.Faults, err)
		}
	})
}

// Who takes a use back, to have the approval used again, is found out.
func TestVerifyFindsAUseThatWasTakenBack(t *testing.T) {
	const unlock = `DROP TRIGGER events_are_never_changed; DROP TRIGGER events_are_never_removed`
	tests := []struct {
		name string
		sql  []string
		want []string
	}{
		{"nothing", nil, nil},
		{
			"the mark in the record",
			[]string{`UPDATE approvals SET body = json_remove(body, '$.fenced') WHERE n = 1`},
			[]string{"approvals ID: edited: it is not what the last event about it recorded"},
		},
		{
			"the time of the mark",
			[]string{`UPDATE approvals SET body = json_set(body, '$.fenced', '2026-03-01T11:50:00Z') WHERE n = 1`},
			[]string{"approvals ID: edited: it is not what the last event about it recorded"},
		},
		{
			"the whole change in the record",
			[]string{`UPDATE approvals SET revision = 2, body = json_set(json_remove(body, '$.fenced'), '$.revision', 2) WHERE n = 1`},
			[]string{"approvals ID: edited: it is decided at revision 2, the last event says decided at revision 3"},
		},
		{
			"the event with it",
			[]string{
				`UPDATE approvals SET revision = 2, body = json_set(json_remove(body, '$.fenced'), '$.revision', 2) WHERE n = 1`,
				`DELETE FROM events WHERE seq = 3`,
			},
			[]string{"events 3 to 3: missing: the end of the chain was cut off"},
		},
		{"what the event says", []string{`UPDATE events SET kind = 'writing' WHERE seq = 3`}, []string{"events 3: edited or moved"}},
		{
			"an event for a second use",
			[]string{`INSERT INTO events SELECT 4, at_ms, kind, id, 4, state, workspace, outcome, source, by, record, 'x' FROM events WHERE seq = 3`},
			[]string{"events 4: edited or moved", "head: names event 3", "approvals ID: edited: it is decided at revision 3"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runtime.db")
			db := open(t, path, ledger.Options{})
			r := fill(t, db, 1)[0]
			if _, err := db.Fence(t.Context(), r.From(), r.Run, r.Digest); err != nil {
				t.Fatal(err)
			}
			head := verifies(t, db).Head
			edit(t, path, append([]string{unlock}, tt.sql...)...)
			report, err := db.Verify(t.Context(), head)
			if err != nil {
				t.Fatal(err)
			}
			all := "\n"
			for _, f := range report.Faults {
				all += strings.ReplaceAll(f.String(), r.ID, "ID") + "\n"
			}
			if len(tt.want) == 0 && len(report.Faults) > 0 {
				t.Errorf("faults:%s", all)
			}
			for _, want := range tt.want {
				if !strings.Contains(all, "\n"+want) {
					t.Errorf("no fault %q in:%s", want, all)
				}
			}
		})
	}
}

// testdata/before-fences.db.gz was written by a version that knew neither
// fences nor operands: one record that is pending, one decided, one whose answer
// was being written, one sent and one resolved.
func TestALedgerOfBeforeFences(t *testing.T) {
	clock := ledgertest.NewClock()
	path := filepath.Join(t.TempDir(), "runtime.db")
	packed, err := os.Open(filepath.Join("testdata", "before-fences.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }() // it was read only
	file, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, ledger.Options{Now: clock.Now})
	head := ledger.Head{Seq: 15, Hash: "2802d95eb354bdae5444e50532af23f2fca961de5e7e5ae3219a94ceed2b00aa", Approvals: 5}
	if got := verifies(t, db, head).Head; got != head {
		t.Errorf("head = %+v, want %+v", got, head)
	}
	page, err := db.List(t.Context(), approval.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var fates []string
	for _, r := range page.Records {
		fate := string(r.State) + ": "
		switch _, err := db.Fence(t.Context(), r.From(), r.Run, r.Digest); {
		case err == nil:
			fate += "used"
		case errors.Is(err, approval.ErrConflict):
			fate += "refused"
		default:
			t.Error(err)
		}
		fates = append(fates, fate)
	}
	want := []string{"resolved: refused", "sent: used", "decided: used", "decided: used", "pending: refused"}
	if diff := cmp.Diff(want, fates); diff != "" {
		t.Errorf("the newest first (-want +got):\n%s", diff)
	}
	verifies(t, db, head)
}

func TestEventsCannotBeChangedThroughSQL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	fill(t, open(t, path, ledger.Options{}), 1)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range []string{`UPDATE events SET by = 'x'`, `DELETE FROM events`} {
		if _, err := db.ExecContext(t.Context(), s); err == nil || !strings.Contains(err.Error(), "append only") {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestEditedRecordIsNotActedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	db := open(t, path, ledger.Options{})
	r := fill(t, db, 1)[0]
	edit(t, path, `UPDATE approvals SET state = 'sent'`)
	if _, err := db.Read(t.Context(), r.ID); !errors.Is(err, approval.ErrDamaged) {
		t.Errorf("Read: %v, want ErrDamaged", err)
	}
	if _, err := db.BeginSend(t.Context(), r.From()); !errors.Is(err, approval.ErrDamaged) {
		t.Errorf("BeginSend: %v, want ErrDamaged", err)
	}
}

func TestOneRaceThroughTwoDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	dbs := []*ledger.DB{open(t, path, ledger.Options{}), open(t, path, ledger.Options{})}
	if _, err := dbs[0].Lease(t.Context(), "i1", time.Hour); err != nil {
		t.Fatal(err)
	}
	const records = 25
	outcomes := make([][2]error, records)
	var wait sync.WaitGroup
	start := make(chan struct{})
	for i := range records {
		r, err := dbs[0].Insert(t.Context(), ledgertest.Record(t, time.Now))
		if err != nil {
			t.Fatal(err)
		}
		for j, db := range dbs {
			wait.Go(func() {
				<-start
				_, outcomes[i][j] = db.Decide(t.Context(), r.From(), ledgertest.Allow())
			})
		}
	}
	close(start)
	wait.Wait()
	for i, o := range outcomes {
		if (o[0] == nil) == (o[1] == nil) || !errors.Is(errors.Join(o[0], o[1]), approval.ErrConflict) {
			t.Errorf("record %d: %v and %v, want one winner and one conflict", i, o[0], o[1])
		}
	}
	verifies(t, dbs[1])
}

func TestOneUseThroughTwoDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	dbs := []*ledger.DB{open(t, path, ledger.Options{}), open(t, path, ledger.Options{})}
	records := fill(t, dbs[0], 25)
	outcomes := make([][2]error, len(records))
	var wait sync.WaitGroup
	start := make(chan struct{})
	for i, r := range records {
		for j, db := range dbs {
			wait.Go(func() {
				<-start
				_, outcomes[i][j] = db.Fence(t.Context(), r.From(), r.Run, r.Digest)
			})
		}
	}
	close(start)
	wait.Wait()
	for i, o := range outcomes {
		if (o[0] == nil) == (o[1] == nil) || !errors.Is(errors.Join(o[0], o[1]), approval.ErrUsed) {
			t.Errorf("record %d: %v and %v, want one use and one refusal", i, o[0], o[1])
		}
	}
	verifies(t, dbs[1])
}

// What one process holds in memory must not outlive a change by another.
func TestAnotherProcessIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	first, second := open(t, path, ledger.Options{}), open(t, path, ledger.Options{})
	if _, err := first.Lease(t.Context(), "i1", time.Hour); err != nil {
		t.Fatal(err)
	}
	r, err := first.Insert(t.Context(), ledgertest.Record(t, time.Now))
	if err != nil {
		t.Fatal(err)
	}
	won, err := second.Decide(t.Context(), r.From(), ledgertest.Deny())
	if err != nil {
		t.Fatal(err)
	}
	_, err = first.Decide(t.Context(), r.From(), ledgertest.Allow())
	conflict, ok := errors.AsType[*approval.ConflictError](err)
	if !ok {
		t.Fatalf("err = %v, want a conflict", err)
	}
	if diff := cmp.Diff(won, conflict.Current, ledgertest.Equal); diff != "" {
		t.Errorf("who won (-want +got):\n%s", diff)
	}
	if _, err := first.BeginSend(t.Context(), won.From()); err != nil {
		t.Errorf("from what the other decided: %v", err)
	}
	if err := second.Release(t.Context(), "i1"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Insert(t.Context(), ledgertest.Record(t, time.Now)); !errors.Is(err, approval.ErrLost) {
		t.Errorf("after the other ended the lease: %v, want ErrLost", err)
	}
	verifies(t, first)
}

func TestStats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	db := open(t, path, ledger.Options{})
	if s := db.Stats(); s.Head.Seq != 0 || s.Commits != 0 || s.FileBytes == 0 {
		t.Errorf("of a new ledger: %+v", s)
	}
	r := fill(t, db, 2)[0] // and a lease
	if _, err := db.Decide(t.Context(), r.From(), ledgertest.Allow()); !errors.Is(err, approval.ErrConflict) {
		t.Fatal(err)
	}
	s := db.Stats()
	if s.Commits != 4 || s.Changes != 3 || s.Refused != 1 || s.Failed != 0 || s.LastError != "" || s.Queued != 0 || s.LogBytes == 0 {
		t.Errorf("stats = %+v", s)
	}
	if diff := cmp.Diff(verifies(t, db).Head, s.Head); diff != "" {
		t.Errorf("head (-verified +told):\n%s", diff)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := db.Stats().Head; got != s.Head {
		t.Errorf("after Close the head is %+v", got)
	}
	if got := open(t, path, ledger.Options{}).Stats().Head; got != s.Head {
		t.Errorf("opened again, the head is %+v", got)
	}
}

func TestSecretsAreNotInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	db, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Lease(t.Context(), "i1", time.Hour); err != nil {
		t.Fatal(err)
	}
	d := ledgertest.Draft()
	d.Request.Command.Text = "curl -u key-123456:x https://user:pw-98765@example.com/v1"
	r, err := approval.New(d, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Insert(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(file), "example.com/v1") {
		t.Fatal("the command is not in the file at all")
	}
	for _, secret := range []string{"key-123456", "pw-98765"} {
		if strings.Contains(string(file), secret) {
			t.Errorf("%q is in the file", secret)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Run("a new file is for its owner only", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "runtime.db")
		open(t, path, ledger.Options{})
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != 0o600 {
				t.Errorf("%s has mode %o", filepath.Base(name), got)
			}
		}
	})
	t.Run("a path may hold anything", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a b%20?mode=memory#x&é.db")
		fill(t, open(t, path, ledger.Options{}), 1)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("the file was not used: %v", err)
		}
	})
	t.Run("the folder must exist", func(t *testing.T) {
		if _, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "no", "runtime.db"), ledger.Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("no database", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "notes.txt")
		text := strings.Repeat("these are notes\n", 100)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Open(t.Context(), path, ledger.Options{}); !errors.Is(err, approval.ErrDamaged) {
			t.Errorf("err = %v, want ErrDamaged", err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the file was changed: %v", err)
		}
	})
	t.Run("a database of something else", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "other.db")
		edit(t, path, `CREATE TABLE songs (title TEXT)`)
		if _, err := ledger.Open(t.Context(), path, ledger.Options{}); !errors.Is(err, approval.ErrDamaged) {
			t.Errorf("err = %v, want ErrDamaged", err)
		}
	})
	t.Run("a newer version", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "runtime.db")
		db, err := ledger.Open(t.Context(), path, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		edit(t, path, `PRAGMA user_version = 99`)
		if _, err := ledger.Open(t.Context(), path, ledger.Options{}); err == nil || !strings.Contains(err.Error(), "version 99") {
			t.Errorf("err = %v", err)
		}
	})
}

// A caller that goes away while its change waits leaves no trace.
func TestAbandonedChangesAreNotMade(t *testing.T) {
	block, entered := make(chan struct{}), make(chan struct{}, 1)
	var blocking sync.Once
	armed := make(chan struct{})
	now := func() time.Time {
		select {
		case <-armed:
			blocking.Do(func() {
				entered <- struct{}{}
				<-block
			})
		default:
		}
		return time.Now()
	}
	db := open(t, filepath.Join(t.TempDir(), "runtime.db"), ledger.Options{Now: now})
	if _, err := db.Lease(t.Context(), "i1", time.Hour); err != nil {
		t.Fatal(err)
	}
	begunRecord, abandonedRecord := ledgertest.Record(t, time.Now), ledgertest.Record(t, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	close(armed)
	var wait sync.WaitGroup
	var begunErr error
	wait.Go(func() { _, begunErr = db.Insert(ctx, begunRecord) })
	<-entered
	// The writer stands in the first change. The second waits, and is given up.
	abandonedErr := make(chan error)
	wait.Go(func() {
		_, err := db.Insert(ctx, abandonedRecord)
		abandonedErr <- err
	})
	cancel()
	if err := <-abandonedErr; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want that of the context", err)
	}
	close(block)
	wait.Wait()
	if begunErr != nil {
		t.Errorf("a change that was begun: %v", begunErr)
	}
	if _, err := db.Read(t.Context(), begunRecord.ID); err != nil {
		t.Errorf("a change that was begun is not there: %v", err)
	}
	if _, err := db.Read(t.Context(), abandonedRecord.ID); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("an abandoned change: %v, want ErrNotFound", err)
	}
}
