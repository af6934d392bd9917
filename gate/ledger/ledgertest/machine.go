package ledgertest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/gate/approval"
)

// model is a ledger as a map: what the transitions of records say, and leases.
type model struct {
	records []approval.Record // in the order of asking
	leases  map[string]time.Time
	now     func() time.Time
	// used are the records on which an action was let start, whatever they say.
	used map[string]bool
}

func (m *model) record(i int) approval.Record {
	r := m.records[i]
	r.Lease = m.leases[r.Instance]
	return r
}

// sweep returns how many records it closes.
func (m *model) sweep() (closed int) {
	for instance, until := range m.leases {
		if !m.now().Before(until) {
			m.leases[instance] = time.Time{}
		}
	}
	for i := range m.records {
		r := m.record(i)
		next, err := r.Expire(r.From(), m.now())
		if err != nil {
			next, err = r.Abandon(r.From(), m.now())
		}
		if err == nil {
			m.records[i] = next
			closed++
		}
	}
	return closed
}

var sentinels = []error{
	approval.ErrConflict, approval.ErrExpired, approval.ErrLost, approval.ErrNotOffered, approval.ErrNotFound,
	approval.ErrExists, approval.ErrInstance, approval.ErrInvalid, approval.ErrDigest, approval.ErrNotAllowed, approval.ErrUsed,
}

func machine(t *testing.T, open Open) {
	instances := []string{"i1", "i2", "i3"}
	rapid.Check(t, func(rt *rapid.T) {
		clock := NewClock()
		dir := t.TempDir()
		l := open(t, dir, clock.Now)
		defer func() {
			if err := l.Close(); err != nil {
				rt.Error(err)
			}
		}()
		m := &model{leases: map[string]time.Time{}, now: clock.Now, used: map[string]bool{}}
		ctx := t.Context()

		// same compares an outcome with that of the model, and moves the model on.
		same := func(rt *rapid.T, i int, want approval.Record, wantErr error, got approval.Record, err error) {
			rt.Helper()
			for _, s := range sentinels {
				if errors.Is(wantErr, s) != errors.Is(err, s) {
					rt.Fatalf("err = %v, want %v", err, wantErr)
				}
			}
			if wantErr != nil {
				if err == nil {
					rt.Fatalf("no error, want %v", wantErr)
				}
				return
			}
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(want, got, Equal); diff != "" {
				rt.Fatalf("(-want +got):\n%s", diff)
			}
			m.records[i] = want
			stored, err := l.Read(ctx, want.ID)
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(m.record(i), stored, Equal); diff != "" {
				rt.Fatalf("stored (-want +got):\n%s", diff)
			}
		}
		// all compares every record.
		all := func(rt *rapid.T) {
			rt.Helper()
			var want []approval.Record
			for i := range m.records {
				want = append(want, m.record(i))
			}
			slices.Reverse(want)
			page, err := l.List(ctx, approval.Query{})
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(want, page.Records, Equal); diff != "" {
				rt.Fatalf("records (-want +got):\n%s", diff)
			}
		}
		// some draws a record, and a name for it that is mostly right.
		some := func(rt *rapid.T) (int, approval.Record, approval.From) {
			if len(m.records) == 0 {
				rt.Skip("no record yet")
			}
			i := rapid.IntRange(0, len(m.records)-1).Draw(rt, "record")
			r := m.record(i)
			from := r.From()
			switch rapid.IntRange(0, 9).Draw(rt, "slip") {
			case 0:
				from.Revision--
			case 1:
				from.Instance = "another"
			}
			return i, r, from
		}

		rt.Repeat(map[string]func(*rapid.T){
			"lease": func(rt *rapid.T) {
				instance := rapid.SampledFrom(instances).Draw(rt, "instance")
				until, err := l.Lease(ctx, instance, 5*time.Minute)
				held, ok := m.leases[instance]
				if ok && !clock.Now().Before(held) {
					if !errors.Is(err, approval.ErrLost) {
						rt.Fatalf("err = %v, want ErrLost", err)
					}
					return
				}
				if want := clock.Now().Add(5 * time.Minute); err != nil || !until.Equal(want) {
					rt.Fatalf("Lease = %v, %v; want %v", until, err, want)
				}
				m.leases[instance] = until
			},
			"release": func(rt *rapid.T) {
				// A name that is out of use is replaced, or the test soon has none left.
				i := rapid.IntRange(0, len(instances)-1).Draw(rt, "instance")
				if err := l.Release(ctx, instances[i]); err != nil {
					rt.Fatal(err)
				}
				if _, ok := m.leases[instances[i]]; ok {
					m.leases[instances[i]] = time.Time{}
				}
				instances = slices.Clone(instances)
				instances[i] += "'"
			},
			"insert": func(rt *rapid.T) {
				d := Draft()
				d.Instance = rapid.SampledFrom(instances).Draw(rt, "instance")
				d.Ruling.Deadlines.RequestSeconds = rapid.SampledFrom([]int{60, 600}).Draw(rt, "wait")
				r := record(t, d, clock.Now)
				got, err := l.Insert(ctx, r)
				if until := m.leases[d.Instance]; !clock.Now().Before(until) {
					if !errors.Is(err, approval.ErrLost) {
						rt.Fatalf("err = %v, want ErrLost", err)
					}
					return
				}
				m.records = append(m.records, r)
				i := len(m.records) - 1
				same(rt, i, m.record(i), nil, got, err)
			},
			"decide": func(rt *rapid.T) {
				i, r, from := some(rt)
				d := rapid.SampledFrom([]approval.Decision{Allow(), Deny(), {
					Option: json.RawMessage(`"never"`), Outcome: approval.OutcomeAllow, Source: approval.SourceAuto,
				}}).Draw(rt, "decision")
				want, wantErr := r.Decide(from, d, clock.Now())
				got, err := l.Decide(ctx, from, d)
				same(rt, i, want, wantErr, got, err)
			},
			"reroute": func(rt *rapid.T) {
				i, r, from := some(rt)
				ruling := Draft().Ruling
				ruling.Epoch = "epoch-2"
				want, wantErr := r.Reroute(from, ruling, nil, clock.Now())
				got, err := l.Reroute(ctx, from, ruling, nil)
				same(rt, i, want, wantErr, got, err)
			},
			"begin": func(rt *rapid.T) {
				i, r, from := some(rt)
				want, wantErr := r.BeginSend(from, clock.Now())
				got, err := l.BeginSend(ctx, from)
				same(rt, i, want, wantErr, got, err)
			},
			"sent": func(rt *rapid.T) {
				i, r, from := some(rt)
				want, wantErr := r.MarkSent(from, clock.Now())
				got, err := l.MarkSent(ctx, from)
				same(rt, i, want, wantErr, got, err)
			},
			"fence": func(rt *rapid.T) {
				i, r, from := some(rt)
				run, digest := r.Run, r.Digest
				switch rapid.IntRange(0, 9).Draw(rt, "action") {
				case 0:
					run = "another"
				case 1:
					digest = "another"
				}
				want, wantErr := r.Fence(from, run, digest, clock.Now())
				got, err := l.Fence(ctx, from, run, digest)
				same(rt, i, want, wantErr, got, err)
				if err == nil {
					if m.used[r.ID] {
						rt.Fatal("a second action was let start")
					}
					m.used[r.ID] = true
				}
			},
			"unknown": func(rt *rapid.T) {
				i, r, from := some(rt)
				want, wantErr := r.MarkUnknown(from, "cut off", clock.Now())
				got, err := l.MarkUnknown(ctx, from, "cut off")
				same(rt, i, want, wantErr, got, err)
			},
			"insert decided": func(rt *rapid.T) {
				d := Draft()
				d.Instance = rapid.SampledFrom(instances).Draw(rt, "instance")
				sending := rapid.Bool().Draw(rt, "sending")
				r := record(t, d, clock.Now)
				got, err := l.InsertDecided(ctx, r, Allow(), sending)
				want := r
				want.Lease = m.leases[d.Instance]
				want, wantErr := want.Decide(want.From(), Allow(), clock.Now())
				if wantErr == nil && sending {
					want, wantErr = want.BeginSend(want.From(), clock.Now())
				}
				if wantErr == nil {
					m.records = append(m.records, want)
				}
				same(rt, len(m.records)-1, want, wantErr, got, err)
			},
			"finish": func(rt *rapid.T) {
				i, r, from := some(rt)
				want, wantErr := r.MarkSent(from, clock.Now())
				if wantErr == nil {
					want, wantErr = want.Resolve(want.From(), "user:sam", "done", clock.Now())
				}
				got, err := l.Finish(ctx, from, "user:sam", "done")
				same(rt, i, want, wantErr, got, err)
			},
			"resolve": func(rt *rapid.T) {
				i, r, from := some(rt)
				by := rapid.SampledFrom([]string{"", "user:sam"}).Draw(rt, "by")
				want, wantErr := r.Resolve(from, by, "done", clock.Now())
				got, err := l.Resolve(ctx, from, by, "done")
				same(rt, i, want, wantErr, got, err)
			},
			"cancel": func(rt *rapid.T) {
				i, r, from := some(rt)
				want, wantErr := r.Cancel(from, "user:sam", "no longer", clock.Now())
				got, err := l.Cancel(ctx, from, "user:sam", "no longer")
				same(rt, i, want, wantErr, got, err)
			},
			"note": func(rt *rapid.T) {
				i, r, from := some(rt)
				if from != r.From() {
					from.ID = "another"
				}
				said := rapid.SampledFrom([][]approval.Verdict{nil, {Noted()}, {Noted(), Noted()}, {{Reviewer: "one/judge"}}}).Draw(rt, "said")
				want, wantErr := r.Note(said, clock.Now())
				if from.ID != r.ID {
					wantErr = approval.ErrNotFound
				}
				got, err := l.Note(ctx, from.ID, said)
				same(rt, i, want, wantErr, got, err)
			},
			"wait": func(rt *rapid.T) {
				clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute}).Draw(rt, "time"))
			},
			"sweep": func(rt *rapid.T) {
				closed, err := l.Sweep(ctx)
				if err != nil {
					rt.Fatal(err)
				}
				if want := m.sweep(); len(closed) != want {
					rt.Fatalf("%d closed, want %d", len(closed), want)
				}
				all(rt)
			},
			"reopen": func(rt *rapid.T) {
				if err := l.Close(); err != nil {
					rt.Fatal(err)
				}
				l = open(t, dir, clock.Now)
				all(rt)
			},
		})
		all(rt)
	})
}
