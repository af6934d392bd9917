package ledger_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
)

func TestBackupIsALedgerThatCanTakeThePlace(t *testing.T) {
	dir := t.TempDir()
	db, err := ledger.Open(t.Context(), filepath.Join(dir, "runtime.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := db.Lease(t.Context(), "i1", time.Minute); err != nil {
		t.Fatal(err)
	}
	insert := func() approval.Record {
		t.Helper()
		r, err := approval.New(approval.Draft{
			Request:  &approval.Request{Kind: approval.KindTool, Tool: &approval.Tool{Name: "x"}},
			Ruling:   approval.Ruling{Epoch: "e", Deadlines: approval.Deadlines{RequestSeconds: 600}},
			Instance: "i1",
		}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if r, err = db.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := insert()
	copied := filepath.Join(dir, "copy'; --.db")
	if err := db.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	want, err := db.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	insert() // after the copy, so not in it

	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v, want 0600", info.Mode(), err)
	}
	other, err := ledger.Open(t.Context(), copied, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	got, err := other.Verify(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Verify of the copy: %v (-want +got):\n%s", err, diff)
	}
	if r, err := other.Read(t.Context(), first.ID); err != nil || r.State != approval.Pending {
		t.Errorf("Read from the copy = %s, %v, want pending", r.State, err)
	}
}

func TestBackupReplacesNothingAndLeavesNothingHalfDone(t *testing.T) {
	dir := t.TempDir()
	db, err := ledger.Open(t.Context(), filepath.Join(dir, "runtime.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(t.Context(), taken); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Backup to a file that exists = %v, want fs.ErrExist", err)
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("the file holds %q, %v, want what was there", text, err)
	}
	if err := db.Backup(t.Context(), filepath.Join(dir, "runtime.db")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Backup to the ledger itself = %v, want fs.ErrExist", err)
	}
	if err := db.Backup(t.Context(), filepath.Join(dir, "nowhere", "copy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Backup to a folder that is not there = %v, want fs.ErrNotExist", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Backup(ended, filepath.Join(dir, "copy")); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup = %v, want context.Canceled", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "copy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup that failed left something: %v", err)
	}
}
