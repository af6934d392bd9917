package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/gate/ledger/ledgertest"
)

const (
	benchCallers = 16
	benchRounds  = 5
	// benchShare is how many requests each caller asks and decides in a round.
	benchShare = 25
)

// BenchmarkGroupCommit measures 16 callers who each ask and decide, that is two
// durable changes, in three ways within one run: through one ledger; through a
// ledger of their own on the same file, hence with a transaction for each call;
// and as two appends to a plain file with fdatasync. It prints how many times
// faster the first is, as the median of the rounds.
//
// The daemon's way is measured beside it: what policy decides is recorded with
// the mark that its answer is being written, which the caller waits for, and
// finished by somebody else. That is compared with two appends too, and the time
// ends when everything is finished.
func BenchmarkGroupCommit(b *testing.B) {
	// As the daemon sets it.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	drafts := func() [][]approval.Record {
		all := make([][]approval.Record, benchCallers)
		for i := range all {
			for range benchShare {
				all[i] = append(all[i], ledgertest.Record(b, time.Now))
			}
		}
		return all
	}
	through := func(pick func(caller int) *ledger.DB) time.Duration {
		records := drafts()
		return together(func(caller int) {
			db := pick(caller)
			for _, r := range records[caller] {
				r, err := db.Insert(b.Context(), r)
				if err == nil {
					_, err = db.Decide(b.Context(), r.From(), ledgertest.Allow())
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	answered := func(db *ledger.DB) time.Duration {
		records := drafts()
		begin := time.Now()
		var finishing sync.WaitGroup
		together(func(caller int) {
			for _, r := range records[caller] {
				r, err := db.InsertDecided(b.Context(), r, ledgertest.Allow(), true)
				if err != nil {
					b.Error(err)
					return
				}
				finishing.Go(func() {
					if _, err := db.Finish(b.Context(), r.From(), "", "answered"); err != nil {
						b.Error(err)
					}
				})
			}
		})
		finishing.Wait()
		return time.Since(begin)
	}
	dir := b.TempDir()
	one := open(b, filepath.Join(dir, "one.db"), ledger.Options{})
	own := make([]*ledger.DB, benchCallers)
	for i := range own {
		own[i] = open(b, filepath.Join(dir, "own.db"), ledger.Options{})
	}
	for _, db := range []*ledger.DB{one, own[0]} {
		if _, err := db.Lease(b.Context(), "i1", time.Hour); err != nil {
			b.Fatal(err)
		}
	}
	file, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			b.Error(err)
		}
	}()
	var mu sync.Mutex
	line := make([]byte, 2048)
	raw := func(share int) time.Duration {
		return together(func(int) {
			for range share {
				mu.Lock()
				_, err := file.Write(line)
				if err == nil {
					err = datasync(file)
				}
				mu.Unlock()
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	var perCall, appending, answering []float64
	var grouped, daemon []time.Duration
	for b.Loop() {
		for range benchRounds {
			g := through(func(int) *ledger.DB { return one })
			s := through(func(i int) *ledger.DB { return own[i] })
			r := raw(2 * benchShare)
			a := answered(one)
			answering = append(answering, r.Seconds()/a.Seconds())
			daemon = append(daemon, a)
			grouped = append(grouped, g)
			perCall = append(perCall, s.Seconds()/g.Seconds())
			appending = append(appending, r.Seconds()/g.Seconds())
		}
	}
	b.ReportMetric(median(perCall), "x-vs-transaction-per-call")
	b.ReportMetric(median(appending), "x-vs-append+fdatasync")
	b.ReportMetric(benchCallers*benchShare/median(grouped).Seconds(), "decisions/s")
	b.ReportMetric(median(answering), "answers-x-vs-append+fdatasync")
	b.ReportMetric(benchCallers*benchShare/median(daemon).Seconds(), "answers/s")
	b.ReportMetric(0, "ns/op")
}

func together(do func(caller int)) time.Duration {
	var wait sync.WaitGroup
	begin := time.Now()
	for i := range benchCallers {
		wait.Go(func() { do(i) })
	}
	wait.Wait()
	return time.Since(begin)
}

func median[T float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkLargeLedger compares a ledger of 100 pending records with one of
// 10,000 pending and 100,000 resolved ones: a page of what is pending, of a
// session and of what is over, and a sweep that finds nothing. It prints how many
// times slower each is, as the median of the rounds.
func BenchmarkLargeLedger(b *testing.B) {
	grown := func(name string, pending, resolved int) *ledger.DB {
		path := filepath.Join(b.TempDir(), name)
		db := open(b, path, ledger.Options{})
		if _, err := db.Lease(b.Context(), "i1", time.Hour); err != nil {
			b.Fatal(err)
		}
		if _, err := db.Insert(b.Context(), ledgertest.Record(b, time.Now)); err != nil {
			b.Fatal(err)
		}
		for _, part := range []struct {
			state string
			count int
		}{{"resolved", resolved}, {"pending", pending - 1}} {
			edit(b, path, fmt.Sprintf(`INSERT INTO approvals
				WITH RECURSIVE more (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < %d)
				SELECT a.n + m.n, '%[2]s' || m.n, a.revision, '%[2]s', workspace, run, 's' || (m.n %% 50), instance, deadline_ms,
					json_set(a.body, '$.id', '%[2]s' || m.n, '$.state', '%[2]s', '$.request.session.id', 's' || (m.n %% 50))
				FROM approvals a, more m WHERE a.n = (SELECT max(n) FROM approvals)`, part.count, part.state))
		}
		return db
	}
	small, large := grown("small.db", 100, 1), grown("large.db", 10_000, 100_000)
	page := func(q approval.Query) func(*ledger.DB) error {
		return func(db *ledger.DB) error { _, err := db.List(b.Context(), q); return err }
	}
	for _, c := range []struct {
		name string
		do   func(*ledger.DB) error
	}{
		{"pending", page(approval.Query{States: []approval.State{approval.Pending}})},
		{"session", page(approval.Query{Session: "s7", States: []approval.State{approval.Pending, approval.Resolved}, Limit: 2})},
		{"sweep", func(db *ledger.DB) error { _, err := db.Sweep(b.Context()); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			timed := func(db *ledger.DB) float64 {
				begin := time.Now()
				if err := c.do(db); err != nil {
					b.Fatal(err)
				}
				return time.Since(begin).Seconds()
			}
			var ratios []float64
			for b.Loop() {
				for range 20 {
					s := timed(small)
					ratios = append(ratios, timed(large)/s)
				}
			}
			b.ReportMetric(median(ratios), "x-vs-small")
			b.ReportMetric(0, "ns/op")
		})
	}
}
