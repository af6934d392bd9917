package ledger_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/ledger/ledgertest"
)

// children are what the test binary is instead, where a variable of that name
// has the path of a ledger.
var children = map[string]func(path string){childPath: child}

func TestMain(m *testing.M) {
	for name, run := range children {
		if path := os.Getenv(name); path != "" {
			run(path)
			return
		}
	}
	// Each run of the model opens files and waits for disks, so a usual test makes
	// fewer of them than rapid's hundred.
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("30"); err != nil {
			panic(err)
		}
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
