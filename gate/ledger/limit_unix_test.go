//go:build unix

package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/ledger/ledgertest"
)

// limitPath tells the test binary to be the process whose files may not grow,
// and where its ledger is.
const limitPath = "REGENT_TEST_LEDGER_LIMIT"

func init() { children[limitPath] = limited }

// limited fills a ledger until the system refuses to write more of its log, in
// the middle of a commit; then goes on once it may. It prints what it was told
// is done.
func limited(path string) {
	if err := limitedRun(path, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func limitedRun(path string, out io.Writer) (err error) {
	// Without this the first refused write would end the process.
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	db, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Lease(ctx, "i1", time.Hour); err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	short := limit
	short.Cur = 500_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &short); err != nil {
		return err
	}
	var refused error
	insert := func() error {
		r, err := approval.New(ledgertest.Draft(), time.Now())
		if err != nil {
			return err
		}
		if r, refused = db.InsertDecided(ctx, r, ledgertest.Allow(), true); refused == nil {
			_, err = fmt.Fprintln(out, r.ID)
		}
		return err
	}
	for count := 0; refused == nil && count < 1000; count++ {
		if err := insert(); err != nil {
			return err
		}
	}
	if refused == nil {
		return errors.New("the limit was never reached")
	}
	for range 5 {
		if err := insert(); err != nil || refused == nil {
			return fmt.Errorf("beyond the limit: %w, %w", err, refused)
		}
	}
	if report, err := db.Verify(ctx); err != nil || len(report.Faults) > 0 {
		return fmt.Errorf("at the limit: %w, %v", err, report.Faults)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for range 5 {
		if err := errors.Join(insert(), refused); err != nil {
			return fmt.Errorf("with room again: %w", err)
		}
	}
	return nil
}

// A commit that the system cuts short is not counted on, spoils nothing, and
// does not keep the next from being made.
func TestAWriteThatIsRefusedInTheMiddle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), limitPath+"="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	ids := strings.Fields(string(out))
	db := open(t, path, ledger.Options{})
	report := verifies(t, db)
	if report.Approvals != int64(len(ids)) {
		t.Errorf("%d records, %d were acknowledged", report.Approvals, len(ids))
	}
	for _, id := range ids {
		if r, err := db.Read(t.Context(), id); err != nil || r.Revision != 3 {
			t.Errorf("acknowledged: %s; stored: revision %d, %v", id, r.Revision, err)
		}
	}
}
