package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/regent-policy/regent/gate/approval"
)

// maxBatch is how many changes share a transaction, and sweepBatch how many
// records one change of a sweep closes, so that answers are not kept waiting.
const (
	maxBatch   = 64
	sweepBatch = 256
	// maxPatience bounds how long the writer waits for others to join a batch.
	maxPatience = 500 * time.Microsecond
)

// op is a change that waits for the writer.
type op struct {
	// do makes the change. It is run again if the transaction of a batch fails. A
	// refusal is an answer, and the transaction goes on; with a failure it ends.
	do    func(*tx) (refusal, failure error)
	state atomic.Int32
	done  chan struct{}
	err   error
}

// An op is begun by the writer or abandoned by its caller, whoever is first.
const (
	waiting = iota
	begun
	abandoned
)

func (o *op) finish(err error) {
	o.err = err
	close(o.done)
}

// change hands do to the writer and waits for the commit.
func (db *DB) change(ctx context.Context, do func(*tx) (refusal, failure error)) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.calls.Done()
	o := &op{do: do, done: make(chan struct{})}
	select {
	case db.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.state.CompareAndSwap(waiting, abandoned) {
			return ctx.Err()
		}
		<-o.done
	}
	return o.err
}

// writer is the one goroutine that writes. It ends after the last call has.
func (db *DB) writer() {
	defer close(db.stopped)
	batch := make([]*op, 0, maxBatch)
	var before int
	var took time.Duration
	for {
		select {
		case <-db.stop:
			return
		case o := <-db.ops:
			batch = db.take(batch[:0], o)
		}
		batch = db.gather(batch, before, took/2)
		begin := time.Now()
		db.commit(batch)
		// Whoever was answered may be back soon; the others wait already.
		before, took = len(batch)+len(db.ops), time.Since(begin)
	}
}

// gather lets callers that were just answered join in: as long as that brings
// any, and a little longer if there were more of them before, since a commit
// costs more than the wait.
func (db *DB) gather(batch []*op, before int, patience time.Duration) []*op {
	until := time.Now().Add(min(patience, maxPatience))
	for count := -1; len(batch) < maxBatch; {
		if count == len(batch) && (count >= before || !time.Now().Before(until)) {
			break
		}
		count = len(batch)
		runtime.Gosched()
		batch = db.drain(batch)
	}
	return batch
}

// drain takes what waits, up to a full batch.
func (db *DB) drain(batch []*op) []*op {
	for len(batch) < maxBatch {
		select {
		case o := <-db.ops:
			batch = db.take(batch, o)
		default:
			return batch
		}
	}
	return batch
}

func (db *DB) take(batch []*op, o *op) []*op {
	if !o.state.CompareAndSwap(waiting, begun) {
		return batch
	}
	if db.ctx.Err() != nil {
		o.finish(approval.ErrClosed)
		return batch
	}
	return append(batch, o)
}

func (db *DB) commit(batch []*op) {
	if len(batch) == 0 {
		return
	}
	refusals, committed, err := db.try(batch)
	if err != nil && !committed && len(batch) > 1 {
		// One change may have spoilt it for the others.
		for _, o := range batch {
			db.commit([]*op{o})
		}
		return
	}
	for i, o := range batch {
		if err != nil {
			err := fmt.Errorf("write ledger: %w", db.fault(err))
			db.count.fail(err, approval.Instant(db.now()))
			o.finish(err)
		} else {
			o.finish(refusals[i])
		}
	}
}

// try makes the changes of a batch in one transaction. An error after it was
// committed says that the file is not the ledger any more.
func (db *DB) try(batch []*op) (refusals []error, committed bool, err error) {
	if err := db.intact(); err != nil {
		return nil, false, err
	}
	// Not cancelled by callers: an interrupted commit would leave them guessing.
	ctx := context.Background()
	if _, err := db.stmts.begin.ExecContext(ctx); err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			// SQLite has rolled back by itself after some errors.
			_, _ = db.conn.ExecContext(ctx, "ROLLBACK")
			db.held.drop()
		}
	}()
	t := &tx{ctx: ctx, s: &db.stmts, held: &db.held, made: map[string]*entry{}}
	if err := t.load(); err != nil {
		return nil, false, err
	}
	before := t.head
	for _, o := range batch {
		t.now = approval.Instant(db.now())
		refusal, failure := o.do(t)
		if failure != nil {
			return nil, false, failure
		}
		refusals = append(refusals, refusal)
	}
	if err := t.flush(); err != nil {
		return nil, false, err
	}
	if t.head != before {
		if _, err := t.s.setHead.ExecContext(ctx, t.head.Seq, t.head.Hash, t.head.Approvals); err != nil {
			return nil, false, err
		}
	}
	if _, err := t.s.commit.ExecContext(ctx); err != nil {
		return nil, false, err
	}
	// Nobody keeps what went into a file that was taken away meanwhile.
	if err := db.intact(); err != nil {
		return nil, true, err
	}
	db.held.keep(t)
	db.count.committed(t.head, refusals)
	return refusals, true, nil
}

// tx is an open write transaction.
type tx struct {
	ctx  context.Context // of one transaction, which it does not outlive
	s    *statements
	now  time.Time
	head Head
	held *held
	// made are the records that the transaction has changed, and told the events
	// that it has not yet written.
	made map[string]*entry
	told []approval.Event
}

// load reads where the chain ends, if another process has written since.
func (t *tx) load() error {
	var version int64
	if err := t.s.version.QueryRowContext(t.ctx).Scan(&version); err != nil {
		return err
	}
	if t.head = t.held.head; t.held.version == version {
		return nil
	}
	t.held.drop()
	err := t.s.head.QueryRowContext(t.ctx).Scan(&t.head.Seq, &t.head.Hash, &t.head.Approvals)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: where the chain of events ends is missing", approval.ErrDamaged)
	}
	if err != nil {
		return err
	}
	t.held.head, t.held.version = t.head, version
	return nil
}

// Head is the end of the chain of events. Kept somewhere else, it shows later
// whether events up to it are still what they were: see [DB.Verify].
type Head struct {
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash"`
	Approvals int64  `json:"approvals"`
}

// What a sweep looks for. None of it may read what is over, since a sweep runs
// each second and a ledger is kept for years.
const (
	dueQuery    = `SELECT id FROM approvals INDEXED BY approvals_due WHERE state = 'pending' AND deadline_ms <= ? LIMIT ?`
	endedQuery  = `SELECT instance FROM leases WHERE until_ms >= 0 AND until_ms <= ?`
	endLeases   = `UPDATE leases SET until_ms = 0 WHERE until_ms >= 0 AND until_ms > 0 AND (?1 OR until_ms <= ?2)`
	orphanQuery = `SELECT id FROM approvals WHERE state IN ('pending', 'decided', 'sent') AND instance = ? LIMIT ?`
)

// eventRows are numbers of events that one statement inserts, the last of them 1.
var eventRows = [...]int{32, 8, 1}

type statements struct {
	begin, commit, version, head, setHead  *sql.Stmt
	lease, setLease, release, endLeases    *sql.Stmt
	load, insert, swap, due, ended, orphan *sql.Stmt
	closeLease                             *sql.Stmt
	// events insert as many events at once as eventRows says.
	events [len(eventRows)]*sql.Stmt
}

func (s *statements) prepare(ctx context.Context, conn *sql.Conn) error {
	for _, p := range []struct {
		into **sql.Stmt
		text string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.commit, `COMMIT`},
		{&s.version, `PRAGMA data_version`},
		{&s.head, `SELECT seq, hash, approvals FROM head`},
		{&s.setHead, `UPDATE head SET seq = ?, hash = ?, approvals = ?`},
		{&s.lease, `SELECT until_ms FROM leases WHERE instance = ?`},
		{&s.setLease, `INSERT INTO leases (instance, until_ms) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET until_ms = ?2 WHERE until_ms > ?3`},
		// A lease that is over is 0, so that a clock set back does not revive it.
		{&s.release, `UPDATE leases SET until_ms = 0 WHERE instance = ? AND until_ms > 0`},
		{&s.endLeases, endLeases},
		{&s.load, `SELECT ` + rowColumns + ` FROM approvals a JOIN leases l USING (instance) WHERE a.id = ?`},
		{&s.insert, `INSERT INTO approvals (n, id, revision, state, workspace, run, session, instance, deadline_ms, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.swap, `UPDATE approvals SET revision = ?1, state = ?2, body = ?3
			WHERE id = ?4 AND revision = ?5 AND state = ?6 AND instance = ?7
			AND (NOT ?8 OR deadline_ms > ?10)
			AND (NOT ?9 OR EXISTS (SELECT 1 FROM leases l WHERE l.instance = approvals.instance AND l.until_ms > ?10))`},
		{&s.due, dueQuery},
		{&s.ended, endedQuery},
		{&s.orphan, orphanQuery},
		{&s.closeLease, `UPDATE leases SET until_ms = -1 WHERE instance = ?`},
	} {
		stmt, err := conn.PrepareContext(ctx, p.text)
		if err != nil {
			return err
		}
		*p.into = stmt
	}
	for i, rows := range eventRows {
		const row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
		stmt, err := conn.PrepareContext(ctx, `INSERT INTO events (`+eventColumns+`) VALUES `+row+strings.Repeat(", "+row, rows-1))
		if err != nil {
			return err
		}
		s.events[i] = stmt
	}
	return nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range append([]*sql.Stmt{
		s.begin, s.commit, s.version, s.head, s.setHead, s.lease, s.setLease, s.release, s.endLeases,
		s.load, s.insert, s.swap, s.due, s.ended, s.orphan, s.closeLease,
	}, s.events[:]...) {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(errs...)
}

// Lease implements [approval.Ledger].
func (db *DB) Lease(ctx context.Context, instance string, ttl time.Duration) (until time.Time, err error) {
	if instance == "" || ttl < time.Millisecond {
		return time.Time{}, fmt.Errorf("%w: a lease for nobody or for no time", approval.ErrInvalid)
	}
	err = db.change(ctx, func(t *tx) (error, error) {
		t.held.forgetLeases()
		until = approval.Instant(t.now.Add(ttl))
		n, err := affected(t.s.setLease.ExecContext(t.ctx, instance, until.UnixMilli(), t.now.UnixMilli()))
		if err == nil && n == 0 {
			return approval.ErrLost, nil
		}
		return nil, err
	})
	if err != nil {
		return time.Time{}, err
	}
	return until, nil
}

// Release implements [approval.Ledger].
func (db *DB) Release(ctx context.Context, instance string) error {
	return db.change(ctx, func(t *tx) (error, error) {
		t.held.forgetLeases()
		_, err := t.s.release.ExecContext(t.ctx, instance)
		return nil, err
	})
}

// Insert implements [approval.Ledger].
func (db *DB) Insert(ctx context.Context, r approval.Record) (approval.Record, error) {
	return db.insert(ctx, r)
}

// InsertDecided implements [approval.Ledger].
func (db *DB) InsertDecided(ctx context.Context, r approval.Record, d approval.Decision, sending bool) (approval.Record, error) {
	moves := []move{{approval.EventDecided, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Decide(r.From(), d, now)
	}}}
	if sending {
		moves = append(moves, move{approval.EventWriting, func(r approval.Record, now time.Time) (approval.Record, error) {
			return r.BeginSend(r.From(), now)
		}})
	}
	return db.insert(ctx, r, moves...)
}

// Reroute implements [approval.Ledger].
func (db *DB) Reroute(ctx context.Context, from approval.From, ruling approval.Ruling, reviewers []approval.ReviewerIdentity) (approval.Record, error) {
	return db.transition(ctx, from, move{approval.EventRerouted, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Reroute(from, ruling, reviewers, now)
	}})
}

// Decide implements [approval.Ledger].
func (db *DB) Decide(ctx context.Context, from approval.From, d approval.Decision) (approval.Record, error) {
	moves := []move{{approval.EventDecided, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Decide(from, d, now)
	}}}
	ready := db.plan(from.ID, moves)
	return db.record(ctx, func(t *tx) (approval.Record, error, error) {
		next, refusal, failure := t.step(from, ready, moves)
		if errors.Is(refusal, approval.ErrConflict) || errors.Is(refusal, approval.ErrExpired) || errors.Is(refusal, approval.ErrLost) {
			if err := t.refused(from.ID, d); err != nil {
				return approval.Record{}, nil, err
			}
		}
		return next, refusal, failure
	})
}

// BeginSend implements [approval.Ledger].
func (db *DB) BeginSend(ctx context.Context, from approval.From) (approval.Record, error) {
	return db.transition(ctx, from, move{approval.EventWriting, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.BeginSend(from, now)
	}})
}

// Fence implements [approval.Ledger].
func (db *DB) Fence(ctx context.Context, from approval.From, run, digest string) (approval.Record, error) {
	return db.transition(ctx, from, move{approval.EventFenced, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Fence(from, run, digest, now)
	}})
}

// MarkSent implements [approval.Ledger].
func (db *DB) MarkSent(ctx context.Context, from approval.From) (approval.Record, error) {
	return db.transition(ctx, from, move{approval.EventSent, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.MarkSent(from, now)
	}})
}

// MarkUnknown implements [approval.Ledger].
func (db *DB) MarkUnknown(ctx context.Context, from approval.From, reason string) (approval.Record, error) {
	return db.transition(ctx, from, move{approval.EventUnknown, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.MarkUnknown(from, reason, now)
	}})
}

// Finish implements [approval.Ledger].
func (db *DB) Finish(ctx context.Context, from approval.From, by, reason string) (approval.Record, error) {
	return db.transition(ctx, from,
		move{approval.EventSent, func(r approval.Record, now time.Time) (approval.Record, error) { return r.MarkSent(from, now) }},
		move{approval.EventResolved, func(r approval.Record, now time.Time) (approval.Record, error) {
			return r.Resolve(r.From(), by, reason, now)
		}})
}

// Resolve implements [approval.Ledger].
func (db *DB) Resolve(ctx context.Context, from approval.From, by, reason string) (approval.Record, error) {
	return db.transition(ctx, from, move{approval.EventResolved, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Resolve(from, by, reason, now)
	}})
}

// Cancel implements [approval.Ledger].
func (db *DB) Cancel(ctx context.Context, from approval.From, by, reason string) (approval.Record, error) {
	return db.transition(ctx, from, move{approval.EventCancelled, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Cancel(from, by, reason, now)
	}})
}

// Note implements [approval.Ledger].
func (db *DB) Note(ctx context.Context, id string, verdicts []approval.Verdict) (approval.Record, error) {
	return db.record(ctx, func(t *tx) (approval.Record, error, error) {
		_, r, err := t.read(id)
		switch {
		case errors.Is(err, approval.ErrNotFound):
			return approval.Record{}, err, nil
		case err != nil:
			return approval.Record{}, nil, err
		}
		return t.step(r.From(), nil, []move{{approval.EventNoted, func(r approval.Record, now time.Time) (approval.Record, error) {
			return r.Note(verdicts, now)
		}}})
	})
}

// Sweep implements [approval.Ledger].
func (db *DB) Sweep(ctx context.Context) ([]approval.Record, error) { return db.sweep(ctx, false) }

// Recover implements [approval.Ledger].
func (db *DB) Recover(ctx context.Context) ([]approval.Record, error) { return db.sweep(ctx, true) }

func (db *DB) sweep(ctx context.Context, everyone bool) ([]approval.Record, error) {
	var all []approval.Record
	for {
		var some []approval.Record
		err := db.change(ctx, func(t *tx) (error, error) {
			some = nil
			t.held.forgetLeases()
			if _, err := t.s.endLeases.ExecContext(t.ctx, everyone, t.now.UnixMilli()); err != nil {
				return nil, err
			}
			var err error
			some, err = t.sweep()
			return nil, err
		})
		all = append(all, some...)
		if err != nil || len(some) == 0 {
			return all, err
		}
		everyone = false
	}
}

// sweep closes up to sweepBatch records, and none only if there are none left.
func (t *tx) sweep() ([]approval.Record, error) {
	due, err := t.strings(t.s.due, t.now.UnixMilli(), sweepBatch)
	if err != nil {
		return nil, err
	}
	closed, err := t.end(nil, due, approval.Record.Expire)
	if err != nil || len(closed) == sweepBatch {
		return closed, err
	}
	ended, err := t.strings(t.s.ended, t.now.UnixMilli())
	if err != nil {
		return nil, err
	}
	for _, instance := range ended {
		orphans, err := t.strings(t.s.orphan, instance, sweepBatch-len(closed))
		if err != nil {
			return nil, err
		}
		if closed, err = t.end(closed, orphans, approval.Record.Abandon); err != nil {
			return nil, err
		}
		if len(closed) == sweepBatch {
			break
		}
		// Nothing can be asked with a lease that is over: it need not be looked at
		// again.
		if _, err := t.s.closeLease.ExecContext(t.ctx, instance); err != nil {
			return nil, err
		}
	}
	return closed, nil
}

// end closes records, and appends them to closed.
func (t *tx) end(closed []approval.Record, ids []string,
	how func(approval.Record, approval.From, time.Time) (approval.Record, error),
) ([]approval.Record, error) {
	for _, id := range ids {
		_, r, err := t.read(id)
		if err != nil {
			return nil, err
		}
		next, err := how(r, r.From(), t.now)
		if err != nil {
			return nil, err
		}
		next, refusal, err := t.step(r.From(), nil, []move{{
			sweptAs[next.State], func(approval.Record, time.Time) (approval.Record, error) { return next, nil },
		}})
		if err = errors.Join(refusal, err); err != nil {
			return nil, err
		}
		closed = append(closed, next)
	}
	return closed, nil
}

var sweptAs = map[approval.State]approval.EventKind{
	approval.Expired: approval.EventExpired, approval.Lost: approval.EventLost,
	approval.Unknown: approval.EventUnknown, approval.Resolved: approval.EventResolved,
}

// strings are the values of a query with one column.
func (t *tx) strings(query *sql.Stmt, args ...any) (values []string, err error) {
	rows, err := query.QueryContext(t.ctx, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}

// record makes a change that ends in a record.
func (db *DB) record(ctx context.Context, do func(*tx) (next approval.Record, refusal, failure error)) (approval.Record, error) {
	var next approval.Record
	err := db.change(ctx, func(t *tx) (refusal, failure error) {
		next, refusal, failure = do(t)
		return refusal, failure
	})
	if err != nil {
		return approval.Record{}, err
	}
	return next, nil
}

// move is one transition and the event that tells of it.
type move struct {
	kind approval.EventKind
	make func(current approval.Record, now time.Time) (approval.Record, error)
}

// image is a record after a move, and the row that holds it.
type image struct {
	kind approval.EventKind
	r    approval.Record
	row  row
}

// images are what moves make of a record, one after the other.
func images(n int64, r approval.Record, moves []move, now time.Time) (made []image, refusal, failure error) {
	for _, m := range moves {
		next, err := m.make(r, now)
		if err != nil {
			return nil, err, nil
		}
		w, err := newRow(n, next)
		if err != nil {
			return nil, nil, err
		}
		made, r = append(made, image{m.kind, next, w}), next
	}
	return made, nil, nil
}

// plan is work done by a caller that the writer need not do again, if the record
// is still the one that the work began from.
type plan struct {
	base *entry
	made []image
}

// plan makes moves on a record that is held; nil means that the writer has to.
// Only the writer refuses, since it alone knows how the record stands.
func (db *DB) plan(id string, moves []move) *plan {
	base, lease := db.held.find(id)
	if base == nil {
		return nil
	}
	r := base.r
	r.Lease = lease
	made, refusal, failure := images(base.n, r, moves, approval.Instant(db.now()))
	if refusal != nil || failure != nil {
		return nil
	}
	return &plan{base, made}
}

func (db *DB) transition(ctx context.Context, from approval.From, moves ...move) (approval.Record, error) {
	ready := db.plan(from.ID, moves)
	return db.record(ctx, func(t *tx) (approval.Record, error, error) { return t.step(from, ready, moves) })
}

// insert stores a new record as moves leave it.
func (db *DB) insert(ctx context.Context, r approval.Record, moves ...move) (approval.Record, error) {
	if r.ID == "" || r.Revision != 1 || r.State != approval.Pending || r.Request == nil || r.Decision != nil || r.Closing != nil {
		return approval.Record{}, fmt.Errorf("%w: not a new record", approval.ErrInvalid)
	}
	w, err := newRow(0, r)
	if err != nil {
		return approval.Record{}, err
	}
	made := []image{{approval.EventAsked, r, w}}
	if len(moves) > 0 {
		now := approval.Instant(db.now())
		r := r
		r.Lease = now.Add(time.Second) // the writer knows better, and looks at it
		more, refusal, failure := images(0, r, moves, now)
		if failure != nil {
			return approval.Record{}, failure
		}
		if refusal != nil {
			// The instance comes before the decision in what is refused.
			return db.record(ctx, func(t *tx) (approval.Record, error, error) {
				if _, lost, failure := t.leaseOf(r.Instance); lost != nil || failure != nil {
					return approval.Record{}, lost, failure
				}
				return approval.Record{}, refusal, nil
			})
		}
		made = append(made, more...)
	}
	return db.record(ctx, func(t *tx) (approval.Record, error, error) { return t.put(made) })
}

// entry finds a record, whose lease need not be up to date.
func (t *tx) entry(id string) (*entry, error) {
	if e, ok := t.made[id]; ok {
		return e, nil
	}
	if e, ok := t.held.records[id]; ok {
		return e, nil
	}
	var got row
	if err := got.scan(t.s.load.QueryRowContext(t.ctx, id)); errors.Is(err, sql.ErrNoRows) {
		return nil, approval.ErrNotFound
	} else if err != nil {
		return nil, err
	}
	r, err := got.record()
	if err != nil {
		return nil, err
	}
	e := &entry{got.n, r, got.hash(), len(got.body)}
	t.made[id] = e
	return e, nil
}

// read finds a record with the lease of its instance as it is now.
func (t *tx) read(id string) (*entry, approval.Record, error) {
	e, err := t.entry(id)
	if err != nil {
		return nil, approval.Record{}, err
	}
	r := e.r
	r.Lease, err = t.lease(r.Instance)
	return e, r, err
}

// lease is until when an instance lives, the zero time if its lease was ended.
func (t *tx) lease(instance string) (time.Time, error) {
	if until, ok := t.held.leases[instance]; ok {
		return until, nil
	}
	var ms int64
	err := t.s.lease.QueryRowContext(t.ctx, instance).Scan(&ms)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	until := leaseTime(ms)
	t.held.lease(instance, until)
	return until, nil
}

// leaseOf is the lease of an instance that lives.
func (t *tx) leaseOf(instance string) (until time.Time, refusal, failure error) {
	until, err := t.lease(instance)
	if err == nil && !t.now.Before(until) {
		return time.Time{}, approval.ErrLost, nil
	}
	return until, nil, err
}

// put inserts a new record, which the last of made is.
func (t *tx) put(made []image) (stored approval.Record, refusal, failure error) {
	last := &made[len(made)-1]
	until, refusal, failure := t.leaseOf(last.r.Instance)
	if refusal != nil || failure != nil {
		return approval.Record{}, refusal, failure
	}
	if !t.now.Before(last.r.Deadline) {
		return approval.Record{}, approval.ErrExpired, nil
	}
	for i := range made {
		made[i].row.n = t.head.Approvals + 1
	}
	w := &last.row
	_, err := t.s.insert.ExecContext(t.ctx, w.n, w.id, w.revision, w.state, w.workspace, w.run, w.session, w.instance, w.deadline, w.body)
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == codeUnique {
		// A number that is taken is a fault of the store; an id is one of the caller.
		if _, readErr := t.entry(w.id); readErr == nil {
			return approval.Record{}, approval.ErrExists, nil
		}
	}
	if err != nil {
		return approval.Record{}, nil, err
	}
	t.head.Approvals = w.n
	return t.tell(made, until), nil, nil
}

// step moves one record on, if it still is what from names.
func (t *tx) step(from approval.From, ready *plan, moves []move) (next approval.Record, refusal, failure error) {
	current, r, err := t.read(from.ID)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Record{}, err, nil
	} else if err != nil {
		return approval.Record{}, nil, err
	}
	var made []image
	if ready != nil && ready.base == current {
		made = ready.made
	} else if made, refusal, failure = images(current.n, r, moves, t.now); refusal != nil || failure != nil {
		return approval.Record{}, refusal, failure
	}
	// What holds for the first of several transitions holds for all: they are made
	// in one moment.
	switch changed, err := t.swap(from, r.State, made[0].kind, made[len(made)-1].row); {
	case err != nil:
		return approval.Record{}, nil, err
	case !changed:
		return approval.Record{}, t.whyNot(r, made[0].kind), nil
	}
	return t.tell(made, r.Lease), nil, nil
}

// tell makes the events of what was made, and returns the last record.
func (t *tx) tell(made []image, lease time.Time) approval.Record {
	var hash string
	for _, i := range made {
		var decision *approval.Decision
		if i.kind == approval.EventDecided {
			decision = i.r.Decision
		}
		hash = i.row.hash()
		t.append(i.kind, i.r, hash, decision)
	}
	last := made[len(made)-1]
	last.r.Lease = lease
	t.made[last.r.ID] = &entry{last.row.n, last.r, hash, len(last.row.body)}
	return last.r
}

// swap is the compare-and-swap: everything that has to hold is a condition of
// the one statement that makes the change.
func (t *tx) swap(from approval.From, state approval.State, kind approval.EventKind, w row) (changed bool, err error) {
	inTime, alive := needs(kind)
	count, err := affected(t.s.swap.ExecContext(t.ctx,
		w.revision, w.state, w.body, from.ID, from.Revision, string(state), from.Instance, inTime, alive, t.now.UnixMilli()))
	return count == 1, err
}

// needs says whether a transition must come before the deadline, and whether the
// instance must live.
func needs(kind approval.EventKind) (inTime, alive bool) {
	inTime = kind == approval.EventDecided || kind == approval.EventRerouted
	return inTime, inTime || kind == approval.EventWriting || kind == approval.EventFenced
}

// whyNot names the condition of swap that did not hold: time has passed since
// the caller looked, or the record is another one.
func (t *tx) whyNot(current approval.Record, kind approval.EventKind) error {
	switch inTime, alive := needs(kind); {
	case alive && !t.now.Before(current.Lease):
		return approval.ErrLost
	case inTime && !t.now.Before(current.Deadline):
		return approval.ErrExpired
	default:
		return &approval.ConflictError{Current: current}
	}
}

// refused keeps an answer that did not count.
func (t *tx) refused(id string, d approval.Decision) error {
	current, err := t.entry(id)
	if err != nil {
		return err
	}
	t.append(approval.EventRefused, current.r, current.hash, &d)
	return nil
}

// append adds an event to the chain. It is written by flush.
func (t *tx) append(kind approval.EventKind, r approval.Record, record string, d *approval.Decision) {
	e := approval.Event{
		Seq: t.head.Seq + 1, At: t.now, Kind: kind, ID: r.ID, Revision: r.Revision, State: r.State, Workspace: r.Workspace, Record: record,
	}
	if d != nil {
		e.Outcome, e.Source, e.By = d.Outcome, d.Source, d.By
	}
	e.Hash = chain(t.head.Hash, e)
	t.told = append(t.told, e)
	t.head.Seq, t.head.Hash = e.Seq, e.Hash
}

// flush writes the events of the transaction.
func (t *tx) flush() error {
	args := make([]any, 0, 12*min(len(t.told), eventRows[0]))
	for i, rows := range eventRows {
		for len(t.told) >= rows {
			args = args[:0]
			for _, e := range t.told[:rows] {
				args = append(args, e.Seq, e.At.UnixMilli(), string(e.Kind), e.ID, e.Revision, string(e.State), e.Workspace,
					string(e.Outcome), string(e.Source), e.By, e.Record, e.Hash)
			}
			if _, err := t.s.events[i].ExecContext(t.ctx, args...); err != nil {
				return err
			}
			t.told = t.told[rows:]
		}
	}
	return nil
}

// chain is the hash of an event that follows the one with hash previous.
func chain(previous string, e approval.Event) string {
	return newFields("event").text(previous).number(e.Seq, e.At.UnixMilli()).text(string(e.Kind), e.ID).number(e.Revision).
		text(string(e.State), e.Workspace, string(e.Outcome), string(e.Source), e.By, e.Record).digest()
}

// fields are texts, each with its length before it, so that no two lists of them
// look the same.
type fields []byte

func newFields(kind string) fields { return make(fields, 0, 512).text(kind) }

func (f fields) text(values ...string) fields {
	for _, v := range values {
		f = append(strconv.AppendInt(f, int64(len(v)), 10), ':')
		f = append(f, v...)
	}
	return f
}

func (f fields) number(values ...int64) fields {
	for _, v := range values {
		var digits [20]byte
		text := strconv.AppendInt(digits[:0], v, 10)
		f = append(strconv.AppendInt(f, int64(len(text)), 10), ':')
		f = append(f, text...)
	}
	return f
}

func (f fields) digest() string { return digest(f) }

// digest is the SHA-256 in hexadecimal.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
