package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
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
	for {
		select {
		case <-db.stop:
			return
		case o := <-db.ops:
			batch = db.take(batch[:0], o)
		}
		// Callers that were just answered join in, as long as that brings any.
		for before := -1; before < len(batch) && len(batch) < maxBatch; {
			before = len(batch)
			runtime.Gosched()
			batch = db.drain(batch)
		}
		db.commit(batch)
	}
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
	refusals, err := db.try(batch)
	if err != nil && len(batch) > 1 {
		// One change may have spoilt it for the others.
		for _, o := range batch {
			db.commit([]*op{o})
		}
		return
	}
	for i, o := range batch {
		if err != nil {
			o.finish(fmt.Errorf("write ledger: %w", db.fault(err)))
		} else {
			o.finish(refusals[i])
		}
	}
}

// try makes the changes of a batch in one transaction.
func (db *DB) try(batch []*op) (refusals []error, err error) {
	if err := db.intact(); err != nil {
		return nil, err
	}
	// Not cancelled by callers: an interrupted commit would leave them guessing.
	ctx := context.Background()
	if _, err := db.stmts.begin.ExecContext(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			// SQLite has rolled back by itself after some errors.
			_, _ = db.conn.ExecContext(ctx, "ROLLBACK")
		}
	}()
	t := &tx{ctx: ctx, s: &db.stmts}
	if err := t.s.head.QueryRowContext(ctx).Scan(&t.head.Seq, &t.head.Hash, &t.head.Approvals); err != nil {
		return nil, err
	}
	before := t.head
	for _, o := range batch {
		t.now = approval.Instant(db.now())
		refusal, failure := o.do(t)
		if failure != nil {
			return nil, failure
		}
		refusals = append(refusals, refusal)
	}
	if t.head != before {
		if _, err := t.s.setHead.ExecContext(ctx, t.head.Seq, t.head.Hash, t.head.Approvals); err != nil {
			return nil, err
		}
	}
	_, err = t.s.commit.ExecContext(ctx)
	return refusals, err
}

// tx is an open write transaction.
type tx struct {
	ctx  context.Context // of one transaction, which it does not outlive
	s    *statements
	now  time.Time
	head Head
}

// Head is the end of the chain of events. Kept somewhere else, it shows later
// whether events up to it are still what they were: see [DB.Verify].
type Head struct {
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash"`
	Approvals int64  `json:"approvals"`
}

type statements struct {
	begin, commit, head, setHead           *sql.Stmt
	lease, setLease, release, endLeases    *sql.Stmt
	load, insert, swap, event, due, orphan *sql.Stmt
}

func (s *statements) prepare(ctx context.Context, conn *sql.Conn) error {
	for _, p := range []struct {
		into **sql.Stmt
		text string
	}{
		{&s.begin, `BEGIN IMMEDIATE`},
		{&s.commit, `COMMIT`},
		{&s.head, `SELECT seq, hash, approvals FROM head`},
		{&s.setHead, `UPDATE head SET seq = ?, hash = ?, approvals = ?`},
		{&s.lease, `SELECT until_ms FROM leases WHERE instance = ?`},
		{&s.setLease, `INSERT INTO leases (instance, until_ms) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET until_ms = ?2 WHERE until_ms > ?3`},
		// A lease that is over is 0, so that a clock set back does not revive it.
		{&s.release, `UPDATE leases SET until_ms = 0 WHERE instance = ? AND until_ms > 0`},
		{&s.endLeases, `UPDATE leases SET until_ms = 0 WHERE until_ms > 0 AND (?1 OR until_ms <= ?2)`},
		{&s.load, `SELECT ` + rowColumns + ` FROM approvals a JOIN leases l USING (instance) WHERE a.id = ?`},
		{&s.insert, `INSERT INTO approvals (n, id, revision, state, workspace, run, session, instance, deadline_ms, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.swap, `UPDATE approvals SET revision = ?1, state = ?2, body = ?3
			WHERE id = ?4 AND revision = ?5 AND state = ?6 AND instance = ?7
			AND (NOT ?8 OR deadline_ms > ?10)
			AND (NOT ?9 OR EXISTS (SELECT 1 FROM leases l WHERE l.instance = approvals.instance AND l.until_ms > ?10))`},
		{&s.event, `INSERT INTO events (seq, at_ms, kind, id, revision, state, workspace, outcome, source, by, record, hash)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.due, `SELECT id FROM approvals WHERE state = 'pending' AND deadline_ms <= ? LIMIT ?`},
		{&s.orphan, `SELECT a.id FROM approvals a JOIN leases l USING (instance)
			WHERE a.state IN ('pending', 'decided', 'sent') AND l.until_ms <= ? LIMIT ?`},
	} {
		stmt, err := conn.PrepareContext(ctx, p.text)
		if err != nil {
			return err
		}
		*p.into = stmt
	}
	return nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{
		s.begin, s.commit, s.head, s.setHead, s.lease, s.setLease, s.release, s.endLeases, s.load, s.insert, s.swap, s.event, s.due, s.orphan,
	} {
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
		_, err := t.s.release.ExecContext(t.ctx, instance)
		return nil, err
	})
}

// Insert implements [approval.Ledger].
func (db *DB) Insert(ctx context.Context, r approval.Record) (approval.Record, error) {
	return db.record(ctx, func(t *tx) (approval.Record, error, error) { return t.put(r) })
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
	return db.record(ctx, func(t *tx) (approval.Record, error, error) { return t.put(r, moves...) })
}

// Reroute implements [approval.Ledger].
func (db *DB) Reroute(ctx context.Context, from approval.From, ruling approval.Ruling, reviewers []approval.ReviewerIdentity) (approval.Record, error) {
	return db.transition(ctx, from, approval.EventRerouted, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Reroute(from, ruling, reviewers, now)
	})
}

// Decide implements [approval.Ledger].
func (db *DB) Decide(ctx context.Context, from approval.From, d approval.Decision) (approval.Record, error) {
	return db.record(ctx, func(t *tx) (approval.Record, error, error) {
		next, refusal, failure := t.step(from, move{approval.EventDecided, func(r approval.Record, now time.Time) (approval.Record, error) {
			return r.Decide(from, d, now)
		}})
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
	return db.transition(ctx, from, approval.EventWriting, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.BeginSend(from, now)
	})
}

// MarkSent implements [approval.Ledger].
func (db *DB) MarkSent(ctx context.Context, from approval.From) (approval.Record, error) {
	return db.transition(ctx, from, approval.EventSent, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.MarkSent(from, now)
	})
}

// Finish implements [approval.Ledger].
func (db *DB) Finish(ctx context.Context, from approval.From, by, reason string) (approval.Record, error) {
	return db.record(ctx, func(t *tx) (approval.Record, error, error) {
		return t.step(from,
			move{approval.EventSent, func(r approval.Record, now time.Time) (approval.Record, error) { return r.MarkSent(from, now) }},
			move{approval.EventResolved, func(r approval.Record, now time.Time) (approval.Record, error) {
				return r.Resolve(r.From(), by, reason, now)
			}})
	})
}

// Resolve implements [approval.Ledger].
func (db *DB) Resolve(ctx context.Context, from approval.From, by, reason string) (approval.Record, error) {
	return db.transition(ctx, from, approval.EventResolved, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Resolve(from, by, reason, now)
	})
}

// Cancel implements [approval.Ledger].
func (db *DB) Cancel(ctx context.Context, from approval.From, by, reason string) (approval.Record, error) {
	return db.transition(ctx, from, approval.EventCancelled, func(r approval.Record, now time.Time) (approval.Record, error) {
		return r.Cancel(from, by, reason, now)
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

func (t *tx) sweep() ([]approval.Record, error) {
	var closed []approval.Record
	for _, query := range []*sql.Stmt{t.s.due, t.s.orphan} {
		ids, err := t.ids(query)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			_, r, err := t.read(id)
			if err != nil {
				return nil, err
			}
			var next approval.Record
			if query == t.s.due {
				next, err = r.Expire(r.From(), t.now)
			} else {
				next, err = r.Abandon(r.From(), t.now)
			}
			if err != nil {
				return nil, err
			}
			next, refusal, err := t.step(r.From(), move{sweptAs[next.State], func(approval.Record, time.Time) (approval.Record, error) { return next, nil }})
			if err = errors.Join(refusal, err); err != nil {
				return nil, err
			}
			closed = append(closed, next)
		}
	}
	return closed, nil
}

var sweptAs = map[approval.State]approval.EventKind{
	approval.Expired: approval.EventExpired, approval.Lost: approval.EventLost,
	approval.Unknown: approval.EventUnknown, approval.Resolved: approval.EventResolved,
}

func (t *tx) ids(query *sql.Stmt) (ids []string, err error) {
	rows, err := query.QueryContext(t.ctx, t.now.UnixMilli(), sweepBatch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
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

func (db *DB) transition(ctx context.Context, from approval.From, kind approval.EventKind,
	make func(approval.Record, time.Time) (approval.Record, error),
) (approval.Record, error) {
	return db.record(ctx, func(t *tx) (approval.Record, error, error) { return t.step(from, move{kind, make}) })
}

func (t *tx) read(id string) (n int64, r approval.Record, err error) {
	var got row
	if err := got.scan(t.s.load.QueryRowContext(t.ctx, id)); errors.Is(err, sql.ErrNoRows) {
		return 0, approval.Record{}, approval.ErrNotFound
	} else if err != nil {
		return 0, approval.Record{}, err
	}
	r, err = got.record()
	return got.n, r, err
}

func (t *tx) leaseOf(instance string) (until time.Time, refusal, failure error) {
	var ms int64
	err := t.s.lease.QueryRowContext(t.ctx, instance).Scan(&ms)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && ms <= t.now.UnixMilli():
		return time.Time{}, approval.ErrLost, nil
	case err != nil:
		return time.Time{}, nil, err
	}
	return time.UnixMilli(ms).UTC(), nil, nil
}

// image is a record and the row that holds it.
type image struct {
	kind approval.EventKind
	r    approval.Record
	row  row
}

// images are what moves make of a record, one after the other.
func (t *tx) images(n int64, r approval.Record, moves []move) (made []image, refusal, failure error) {
	for _, m := range moves {
		next, err := m.make(r, t.now)
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

// put inserts a new record as moves leave it.
func (t *tx) put(r approval.Record, moves ...move) (stored approval.Record, refusal, failure error) {
	if r.ID == "" || r.Revision != 1 || r.State != approval.Pending || r.Request == nil || r.Decision != nil || r.Closing != nil {
		return approval.Record{}, fmt.Errorf("%w: not a new record", approval.ErrInvalid), nil
	}
	until, refusal, failure := t.leaseOf(r.Instance)
	if refusal != nil || failure != nil {
		return approval.Record{}, refusal, failure
	}
	if !t.now.Before(r.Deadline) {
		return approval.Record{}, approval.ErrExpired, nil
	}
	r.Lease = until
	asked := move{approval.EventAsked, func(r approval.Record, _ time.Time) (approval.Record, error) { return r, nil }}
	made, refusal, failure := t.images(t.head.Approvals+1, r, append([]move{asked}, moves...))
	if refusal != nil || failure != nil {
		return approval.Record{}, refusal, failure
	}
	w := made[len(made)-1].row
	_, err := t.s.insert.ExecContext(t.ctx, w.n, w.id, w.revision, w.state, w.workspace, w.run, w.session, w.instance, w.deadline, w.body)
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == codeUnique {
		// A number that is taken is a fault of the store; an id is one of the caller.
		if _, _, readErr := t.read(w.id); readErr == nil {
			return approval.Record{}, approval.ErrExists, nil
		}
	}
	if err != nil {
		return approval.Record{}, nil, err
	}
	t.head.Approvals = w.n
	return t.tell(made)
}

// step moves one record on, if it still is what from names.
func (t *tx) step(from approval.From, moves ...move) (next approval.Record, refusal, failure error) {
	n, current, err := t.read(from.ID)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Record{}, err, nil
	} else if err != nil {
		return approval.Record{}, nil, err
	}
	made, refusal, failure := t.images(n, current, moves)
	if refusal != nil || failure != nil {
		return approval.Record{}, refusal, failure
	}
	// What holds for the first of several transitions holds for all: they are made
	// in one moment.
	switch changed, err := t.swap(from, current.State, made[0].kind, made[len(made)-1].row); {
	case err != nil:
		return approval.Record{}, nil, err
	case !changed:
		return approval.Record{}, t.whyNot(current), nil
	}
	return t.tell(made)
}

// tell appends the events of what was made, and returns the last record.
func (t *tx) tell(made []image) (last approval.Record, refusal, failure error) {
	for _, i := range made {
		var decision *approval.Decision
		if i.kind == approval.EventDecided {
			decision = i.r.Decision
		}
		if err := t.append(i.kind, i.r, i.row.hash(), decision); err != nil {
			return approval.Record{}, nil, err
		}
		last = i.r
	}
	return last, nil, nil
}

// swap is the compare-and-swap: everything that has to hold is a condition of
// the one statement that makes the change.
func (t *tx) swap(from approval.From, state approval.State, kind approval.EventKind, w row) (changed bool, err error) {
	inTime := kind == approval.EventDecided || kind == approval.EventRerouted
	alive := inTime || kind == approval.EventWriting
	count, err := affected(t.s.swap.ExecContext(t.ctx,
		w.revision, w.state, w.body, from.ID, from.Revision, string(state), from.Instance, inTime, alive, t.now.UnixMilli()))
	return count == 1, err
}

// whyNot names the condition of swap that did not hold.
func (t *tx) whyNot(current approval.Record) error {
	switch {
	case !t.now.Before(current.Deadline):
		return approval.ErrExpired
	case !t.now.Before(current.Lease):
		return approval.ErrLost
	default:
		return &approval.ConflictError{Current: current}
	}
}

// refused keeps an answer that did not count.
func (t *tx) refused(id string, d approval.Decision) error {
	n, current, err := t.read(id)
	if err != nil {
		return err
	}
	w, err := newRow(n, current)
	if err != nil {
		return err
	}
	return t.append(approval.EventRefused, current, w.hash(), &d)
}

// append adds an event to the chain.
func (t *tx) append(kind approval.EventKind, r approval.Record, record string, d *approval.Decision) error {
	e := approval.Event{
		Seq: t.head.Seq + 1, At: t.now, Kind: kind, ID: r.ID, Revision: r.Revision, State: r.State, Workspace: r.Workspace, Record: record,
	}
	if d != nil {
		e.Outcome, e.Source, e.By = d.Outcome, d.Source, d.By
	}
	e.Hash = chain(t.head.Hash, e)
	_, err := t.s.event.ExecContext(t.ctx, e.Seq, e.At.UnixMilli(), string(e.Kind), e.ID, e.Revision, string(e.State), e.Workspace,
		string(e.Outcome), string(e.Source), e.By, e.Record, e.Hash)
	if err != nil {
		return err
	}
	t.head.Seq, t.head.Hash = e.Seq, e.Hash
	return nil
}

// chain is the hash of an event that follows the one with hash previous.
func chain(previous string, e approval.Event) string {
	return digest("event", previous, e.Seq, e.At.UnixMilli(), e.Kind, e.ID, e.Revision, e.State, e.Workspace, e.Outcome, e.Source, e.By, e.Record)
}

// digest hashes fields so that no two lists of them look the same.
func digest(fields ...any) string {
	h := sha256.New()
	for _, f := range fields {
		writeField(h, fmt.Sprint(f))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func writeField(h hash.Hash, s string) {
	_, _ = fmt.Fprintf(h, "%d:", len(s)) // a hash does not fail
	_, _ = io.WriteString(h, s)
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
