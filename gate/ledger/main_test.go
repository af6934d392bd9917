package ledger_test

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/ledger/ledgertest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		child(path)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, path string, options ledger.Options) *ledger.DB {
	t.Helper()
	db, err := ledger.Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB, dir string, now func() time.Time) approval.Ledger {
		db, err := ledger.Open(t.Context(), dir+"/runtime.db", ledger.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return db
	})
}
