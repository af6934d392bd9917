package ledger_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/ledger/ledgertest"
)

// childPath tells the test binary to be the process that is killed, and where
// its ledger is. killsVar asks for more kills than a usual run has.
const (
	childPath = "REGENT_TEST_LEDGER_CHILD"
	killsVar  = "REGENT_TEST_LEDGER_KILLS"
)

// child writes to the ledger as fast as it can, and to standard output what it
// was told is done, until it is killed.
func child(path string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx := context.Background()
	db, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		fail(err)
	}
	if _, err := db.Recover(ctx); err != nil {
		fail(err)
	}
	instance := approval.NewID()
	if _, err := db.Lease(ctx, instance, time.Hour); err != nil {
		fail(err)
	}
	var out sync.Mutex
	say := func(r approval.Record) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf("%s %d\n", r.ID, r.Revision)
	}
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for {
				d := ledgertest.Draft()
				d.Instance = instance
				r, err := approval.New(d, time.Now())
				if err != nil {
					fail(err)
				}
				steps := []func() (approval.Record, error){
					func() (approval.Record, error) { return db.InsertDecided(ctx, r, ledgertest.Allow(), true) },
					func() (approval.Record, error) { return db.Finish(ctx, r.From(), "", "answered") },
				}
				if worker%2 == 0 {
					steps = []func() (approval.Record, error){
						func() (approval.Record, error) { return db.Insert(ctx, r) },
						func() (approval.Record, error) { return db.Decide(ctx, r.From(), ledgertest.Allow()) },
						func() (approval.Record, error) { return db.BeginSend(ctx, r.From()) },
						func() (approval.Record, error) { return db.Fence(ctx, r.From(), r.Run, r.Digest) },
						func() (approval.Record, error) { return db.MarkSent(ctx, r.From()) },
					}
				}
				for _, step := range steps {
					if r, err = step(); err != nil {
						fail(err)
					}
					say(r)
				}
			}
		})
	}
	wait.Wait()
}

// A process that is killed loses nothing that it has heard of. (That what is
// synced outlives the machine is for SQLite and the disk to keep.)
func TestKilledProcessesLoseNothing(t *testing.T) {
	kills := 6
	if v := os.Getenv(killsVar); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	path := filepath.Join(t.TempDir(), "runtime.db")
	acknowledged := map[string]int64{}
	for kill := range kills {
		// At another point of the work each time.
		said := killAfter(t, path, 1+(kill*37)%211)
		maps.Copy(acknowledged, said)
		db, err := ledger.Open(t.Context(), path, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		verifies(t, db)
		stillThere(t, db, said)
		before, err := db.List(t.Context(), approval.Query{States: []approval.State{approval.Pending, approval.Decided, approval.Sent}})
		if err != nil || len(before.Records) == 0 {
			t.Errorf("nothing was under way when the process was killed: %v", err)
		}
		if _, err := db.Recover(t.Context()); err != nil {
			t.Error(err)
		}
		for _, r := range before.Records {
			after, err := db.Read(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			want := approval.Lost
			switch {
			case r.State == approval.Sent:
				want = approval.Resolved
			case !r.Writing.IsZero():
				want = approval.Unknown
			}
			if after.State != want {
				t.Errorf("after recovery a %s record is %s, want %s", r.State, after.State, want)
			}
			if !after.Fenced.Equal(r.Fenced) {
				t.Errorf("after recovery a record is used at %v, and was at %v", after.Fenced, r.Fenced)
			}
			if _, err := db.Fence(t.Context(), after.From(), r.Run, r.Digest); !errors.Is(err, approval.ErrConflict) {
				t.Errorf("after recovery an action may start on a %s record: %v", after.State, err)
			}
		}
		verifies(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(acknowledged) < kills {
		t.Errorf("%d records in %d runs prove nothing", len(acknowledged), kills)
	}
	stillThere(t, open(t, path, ledger.Options{}), acknowledged)
}

// stillThere fails unless the ledger has what it said that it has.
func stillThere(t *testing.T, db *ledger.DB, acknowledged map[string]int64) {
	t.Helper()
	for id, revision := range acknowledged {
		if r, err := db.Read(t.Context(), id); err != nil || r.Revision < revision {
			t.Errorf("acknowledged: %s at revision %d; stored: revision %d, %v", id, revision, r.Revision, err)
		}
	}
}

// killAfter runs a child, kills it after some lines, and returns all that it said.
func killAfter(t *testing.T, path string, lines int) map[string]int64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[string]int64{}
	in := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // a half line was not heard
		}
		if err != nil {
			t.Fatal(err)
		}
		id, revision, _ := strings.Cut(strings.TrimSpace(line), " ")
		if said[id], err = strconv.ParseInt(revision, 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if stderr.Len() > 0 {
		t.Fatalf("the child failed: %s", &stderr)
	}
	return said
}

func verifies(t testing.TB, db *ledger.DB, known ...ledger.Head) ledger.Report {
	t.Helper()
	report, err := db.Verify(t.Context(), known...)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Faults) > 0 {
		t.Fatalf("faults: %v", report.Faults)
	}
	return report
}

// fill stores count decided records.
func fill(t testing.TB, db *ledger.DB, count int) (records []approval.Record) {
	t.Helper()
	if _, err := db.Lease(t.Context(), "i1", time.Hour); err != nil {
		t.Fatal(err)
	}
	for range count {
		r, err := db.InsertDecided(t.Context(), ledgertest.Record(t, time.Now), ledgertest.Allow(), false)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	small, err := ledger.Open(t.Context(), path, ledger.Options{MaxBytes: 300 << 10})
	if err != nil {
		t.Fatal(err)
	}
	pending := ledgertest.Record(t, time.Now)
	records := fill(t, small, 1)
	if pending, err = small.Insert(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	for err == nil && len(records) < 10000 {
		var r approval.Record
		if r, err = small.InsertDecided(t.Context(), ledgertest.Record(t, time.Now), ledgertest.Allow(), false); err == nil {
			records = append(records, r)
		}
	}
	if !errors.Is(err, approval.ErrFull) {
		t.Fatalf("after %d records: %v, want ErrFull", len(records), err)
	}
	// Callers that share a transaction all hear of it.
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			d := ledgertest.Draft()
			d.Request.Reason = strings.Repeat("long ", 1000)
			r, err := approval.New(d, time.Now())
			if err != nil {
				t.Error(err)
			}
			if _, err := small.Insert(t.Context(), r); !errors.Is(err, approval.ErrFull) {
				t.Errorf("err = %v, want ErrFull", err)
			}
		})
	}
	wait.Wait()
	verifies(t, small)
	if err := small.Close(); err != nil {
		t.Fatal(err)
	}

	roomy := open(t, path, ledger.Options{})
	if report := verifies(t, roomy); report.Approvals != int64(len(records))+1 {
		t.Errorf("%d records, want %d", report.Approvals, len(records)+1)
	}
	for _, r := range records {
		if _, err := roomy.Read(t.Context(), r.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := roomy.Decide(t.Context(), pending.From(), ledgertest.Deny()); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestFilesThatChangeUnderALedgerAreNoticed: what is acknowledged must be in the
// file that the next process will open.
func TestFilesThatChangeUnderALedgerAreNoticed(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(suffix string) func(*testing.T, string) {
		return func(t *testing.T, path string) { must(t, os.Remove(path+suffix)) }
	}
	cut := func(suffix string, size int64) func(*testing.T, string) {
		return func(t *testing.T, path string) { must(t, os.Truncate(path+suffix, size)) }
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, path string)
	}{
		{"the database is deleted", remove("")},
		{"the log is deleted", remove("-wal")},
		{"the index of the log is deleted", remove("-shm")},
		{"the database is emptied", cut("", 0)},
		{"the database loses its end", cut("", 8192)},
		{"the log is emptied", cut("-wal", 0)},
		{"the log loses its end", cut("-wal", 5000)},
		{"an empty file takes the place of the database", func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.WriteFile(path, nil, 0o600))
		}},
		{"another ledger takes the place of the database", func(t *testing.T, path string) {
			other := path + ".other"
			db, err := ledger.Open(t.Context(), other, ledger.Options{})
			must(t, err)
			fill(t, db, 1)
			must(t, db.Close())
			must(t, os.Rename(other, path))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runtime.db")
			db, err := ledger.Open(t.Context(), path, ledger.Options{})
			must(t, err)
			defer func() { _ = db.Close() }() // it may find that its file is gone
			waits, err := db.Insert(t.Context(), leased(t, db))
			must(t, err)
			r := fill(t, db, 40)[0]
			edit(t, path, `PRAGMA wal_checkpoint(PASSIVE)`) // so that both files have pages
			if _, err := db.Read(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
			c.do(t, path)
			before, statErr := os.Stat(path)
			for name, call := range map[string]func() error{
				"a change of what is held": func() error { _, err := db.BeginSend(t.Context(), r.From()); return err },
				"a use":                    func() error { _, err := db.Fence(t.Context(), r.From(), r.Run, r.Digest); return err },
				"a decision": func() error {
					_, err := db.Decide(t.Context(), waits.From(), ledgertest.Allow())
					return err
				},
				"a new record": func() error {
					_, err := db.Insert(t.Context(), ledgertest.Record(t, time.Now))
					return err
				},
				"a lease": func() error { _, err := db.Lease(t.Context(), "i2", time.Hour); return err },
				"a read":  func() error { _, err := db.Read(t.Context(), r.ID); return err },
				"a list":  func() error { _, err := db.List(t.Context(), approval.Query{}); return err },
				"events":  func() error { _, err := db.Events(t.Context(), 0, 0); return err },
				"a backup": func() error {
					return db.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"))
				},
			} {
				if err := call(); !errors.Is(err, approval.ErrDamaged) {
					t.Errorf("%s: %v, want ErrDamaged", name, err)
				}
			}
			after, err := os.Stat(path)
			if (statErr == nil) != (err == nil) || err == nil && before.Size() != after.Size() {
				t.Errorf("the file at the path was touched: %v, %v", statErr, err)
			}
			if s := db.Stats(); s.Failed < 4 || !strings.Contains(s.LastError, "damaged") || s.LastErrorAt.IsZero() {
				t.Errorf("stats = %+v", s)
			}
		})
	}
}

// leased is a new record whose instance has a lease.
func leased(t testing.TB, db *ledger.DB) approval.Record {
	t.Helper()
	if _, err := db.Lease(t.Context(), "i1", time.Hour); err != nil {
		t.Fatal(err)
	}
	return ledgertest.Record(t, time.Now)
}

func TestALogWithoutItsDatabaseIsNoNewLedger(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove, "emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			source, path := filepath.Join(t.TempDir(), "runtime.db"), filepath.Join(t.TempDir(), "runtime.db")
			db := open(t, source, ledger.Options{})
			fill(t, db, 5)
			// A copy of the files as a crash would leave them, so that no lock is held.
			for _, suffix := range []string{"", "-wal"} {
				if err := exec.CommandContext(t.Context(), "cp", source+suffix, path+suffix).Run(); err != nil {
					t.Fatal(err)
				}
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			if db, err := ledger.Open(t.Context(), path, ledger.Options{}); !errors.Is(err, approval.ErrDamaged) {
				t.Errorf("err = %v, want ErrDamaged", err)
				if err == nil {
					_ = db.Close()
				}
			}
			if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
				t.Errorf("the log is gone: %v", err)
			}
		})
	}
}

func TestTruncatedFileIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	db, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	records := fill(t, db, 40)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()/2/4096*4096); err != nil {
		t.Fatal(err)
	}
	db, err = ledger.Open(t.Context(), path, ledger.Options{})
	if err == nil {
		_, err = db.Verify(t.Context())
		for _, r := range records {
			_, readErr := db.Read(t.Context(), r.ID)
			err = errors.Join(err, readErr)
		}
		if closeErr := db.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	}
	if !errors.Is(err, approval.ErrDamaged) {
		t.Errorf("err = %v, want ErrDamaged", err)
	}
}

func TestExportIsWhatTheLedgerHolds(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "runtime.db"), ledger.Options{})
	records := fill(t, db, 3)
	var out strings.Builder
	if err := db.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var ids []string
	var seqs []int64
	var head ledger.Head
	for line := range strings.Lines(out.String()) {
		var l struct {
			Approval *approval.Record
			Event    *approval.Event
			Head     *ledger.Head
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Approval != nil:
			ids = append(ids, l.Approval.ID)
		case l.Event != nil:
			seqs = append(seqs, l.Event.Seq)
		case l.Head != nil:
			head = *l.Head
		}
	}
	if len(ids) != 3 || ids[0] != records[0].ID || len(seqs) != 6 || seqs[5] != 6 || head != verifies(t, db).Head {
		t.Errorf("approvals %v, events %v, head %+v", ids, seqs, head)
	}
}
