package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/approval"
)

// maxPageBytes bounds the bodies of one page: a request may have megabytes.
const maxPageBytes = 16 << 20

// row is an approval as the table has it. A lease is not part of it.
type row struct {
	n, revision, deadline, lease                       int64
	id, state, workspace, run, session, instance, body string
	// sum is the SHA-256 of body where it is known already.
	sum string
}

const rowColumns = `a.n, a.id, a.revision, a.state, a.workspace, a.run, a.session, a.instance, a.deadline_ms, a.body, l.until_ms`

func (w *row) scan(from interface{ Scan(...any) error }) error {
	return from.Scan(&w.n, &w.id, &w.revision, &w.state, &w.workspace, &w.run, &w.session, &w.instance, &w.deadline, &w.body, &w.lease)
}

func newRow(n int64, r approval.Record) (row, error) {
	r.Lease = time.Time{}
	body, err := jsonv2.Marshal(r)
	if err != nil {
		return row{}, fmt.Errorf("%w: %w", approval.ErrInvalid, err)
	}
	return row{
		sum: digest(body), n: n, id: r.ID, revision: r.Revision, state: string(r.State), workspace: r.Workspace, run: r.Run, session: sessionOf(r),
		instance: r.Instance, deadline: r.Deadline.UnixMilli(), body: string(body),
	}, nil
}

func sessionOf(r approval.Record) string {
	if r.Request == nil || r.Request.Session == nil {
		return ""
	}
	return r.Request.Session.ID
}

func (w *row) hash() string {
	sum := w.sum
	if sum == "" {
		sum = digest([]byte(w.body))
	}
	return newFields("approval").number(w.n).text(w.id).number(w.revision).
		text(w.state, w.workspace, w.run, w.session, w.instance).number(w.deadline).text(sum).digest()
}

// record decodes a row and checks that its columns say what its body says:
// somebody may have edited one of them.
func (w *row) record() (approval.Record, error) {
	var r approval.Record
	if err := jsonv2.Unmarshal([]byte(w.body), &r); err != nil {
		return approval.Record{}, fmt.Errorf("%w: approval %s: %w", approval.ErrDamaged, w.id, err)
	}
	if r.ID != w.id || r.Revision != w.revision || string(r.State) != w.state || r.Workspace != w.workspace || r.Run != w.run ||
		sessionOf(r) != w.session || r.Instance != w.instance || r.Deadline.UnixMilli() != w.deadline {
		return approval.Record{}, fmt.Errorf("%w: approval %s: its columns and its body differ", approval.ErrDamaged, w.id)
	}
	r.Lease = leaseTime(w.lease)
	return r, nil
}

// leaseTime is the zero time for a lease that was ended.
func leaseTime(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// reading admits a read that ends with ctx or when the ledger closes.
func (db *DB) reading(ctx context.Context) (context.Context, func(), error) {
	if err := db.enter(ctx); err != nil {
		return nil, nil, err
	}
	if err := db.intact(); err != nil {
		db.calls.Done()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(db.ctx, func() { cancel(approval.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		db.calls.Done()
	}, nil
}

// readError says why a read failed: it was told to end, or the store is at fault.
func (db *DB) readError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("read ledger: %w", db.fault(err))
}

// Read implements [approval.Ledger].
func (db *DB) Read(ctx context.Context, id string) (approval.Record, error) {
	ctx, done, err := db.reading(ctx)
	if err != nil {
		return approval.Record{}, err
	}
	defer done()
	var w row
	err = w.scan(db.read.QueryRowContext(ctx, `SELECT `+rowColumns+` FROM approvals a JOIN leases l USING (instance) WHERE a.id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return approval.Record{}, approval.ErrNotFound
	}
	if err != nil {
		return approval.Record{}, db.readError(ctx, err)
	}
	return w.record()
}

// List implements [approval.Ledger].
func (db *DB) List(ctx context.Context, q approval.Query) (page approval.Page, err error) {
	ctx, done, err := db.reading(ctx)
	if err != nil {
		return approval.Page{}, err
	}
	defer done()
	limit := q.Limit
	if limit < 1 || limit > approval.MaxPage {
		limit = approval.MaxPage
	}
	before := int64(math.MaxInt64)
	if q.Before != "" {
		err := db.read.QueryRowContext(ctx, `SELECT n FROM approvals WHERE id = ?`, q.Before).Scan(&before)
		if errors.Is(err, sql.ErrNoRows) {
			return approval.Page{}, approval.ErrNotFound
		}
		if err != nil {
			return approval.Page{}, db.readError(ctx, err)
		}
	}
	// One more than asked for tells whether there is another page.
	query, args := listing(q, before, limit+1)
	rows, err := db.read.QueryContext(ctx, query, args...)
	if err != nil {
		return approval.Page{}, db.readError(ctx, err)
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = db.readError(ctx, closeErr)
		}
	}()
	page.Records = []approval.Record{}
	bytes := 0
	for rows.Next() {
		var w row
		if err := w.scan(rows); err != nil {
			return approval.Page{}, db.readError(ctx, err)
		}
		bytes += len(w.body)
		if n := len(page.Records); n == limit || n > 0 && bytes > maxPageBytes {
			page.Before = page.Records[n-1].ID
			return page, nil
		}
		r, err := w.record()
		if err != nil {
			return approval.Page{}, err
		}
		page.Records = append(page.Records, r)
	}
	return page, db.readError(ctx, rows.Err())
}

// listing is the statement for a page. It reads the rows of each state in the
// order of an index and merges them, so that no more is read than a page, or
// than those that are live if another condition narrows them.
func listing(q approval.Query, before int64, limit int) (query string, args []any) {
	states := slices.Compact(slices.Sorted(slices.Values(q.States)))
	if len(states) == 0 {
		states = []approval.State{""}
	}
	var selects []string
	for _, state := range states {
		// The leases come second: there is one for each row.
		text := `SELECT ` + rowColumns + ` FROM approvals a CROSS JOIN leases l USING (instance) WHERE a.n < ?`
		args = append(args, before)
		// Few are live, whereas most of a workspace or a session is over. A plus
		// keeps an index out.
		plus := ""
		if state != "" {
			if !state.Live() && (q.Workspace != "" || q.Session != "") {
				plus = "+"
			}
			text, args = text+` AND `+plus+`a.state = ?`, append(args, string(state))
		}
		for _, c := range []struct {
			column, value string
			plus          bool
		}{
			{"session", q.Session, state.Live()},
			{"workspace", q.Workspace, state.Live() || q.Session != ""},
			{"run", q.Run, false},
			{"instance", q.Instance, false},
		} {
			if c.value == "" {
				continue
			}
			plus = ""
			if c.plus {
				plus = "+"
			}
			text, args = text+` AND `+plus+`a.`+c.column+` = ?`, append(args, c.value)
		}
		selects = append(selects, text)
	}
	return strings.Join(selects, ` UNION ALL `) + ` ORDER BY n DESC LIMIT ?`, append(args, limit)
}

const eventColumns = `seq, at_ms, kind, id, revision, state, workspace, outcome, source, by, record, hash`

func scanEvent(from interface{ Scan(...any) error }) (e approval.Event, err error) {
	var ms int64
	err = from.Scan(&e.Seq, &ms, &e.Kind, &e.ID, &e.Revision, &e.State, &e.Workspace, &e.Outcome, &e.Source, &e.By, &e.Record, &e.Hash)
	e.At = time.UnixMilli(ms).UTC()
	return e, err
}

// Events implements [approval.Ledger].
func (db *DB) Events(ctx context.Context, after int64, limit int) (events []approval.Event, err error) {
	ctx, done, err := db.reading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if limit < 1 || limit > approval.MaxEvents {
		limit = approval.MaxEvents
	}
	rows, err := db.read.QueryContext(ctx, `SELECT `+eventColumns+` FROM events WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit)
	if err != nil {
		return nil, db.readError(ctx, err)
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = db.readError(ctx, closeErr)
		}
	}()
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, db.readError(ctx, err)
		}
		events = append(events, e)
	}
	return events, db.readError(ctx, rows.Err())
}
