package ledger

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/approval"
)

// maxFaults bounds a report: one cause can show at each of a million rows.
const maxFaults = 1000

// Report is what [DB.Verify] found.
type Report struct {
	// Head is the end of the chain, to be kept elsewhere.
	Head      Head  `json:"head"`
	Events    int64 `json:"events"`
	Approvals int64 `json:"approvals"`
	// Faults is empty if everything is as it was written. It has at most 1000
	// entries.
	Faults []Fault `json:"faults"`
}

// Fault is a row that is not what was written.
type Fault struct {
	// Table is events, approvals, head or database.
	Table string `json:"table"`
	// Row is the number of an event or the id of an approval.
	Row     string `json:"row,omitempty"`
	Problem string `json:"problem"`
}

func (f Fault) String() string {
	return strings.Join(strings.Fields(f.Table+" "+f.Row), " ") + ": " + f.Problem
}

// Verify reads the whole ledger, as it stands at one moment, and finds rows that
// were edited, removed, added, moved or cut off, events and approvals alike.
// Leases are not covered.
//
// The chain has no key. Who can write the file and knows its form can make up a
// whole new chain; only heads of earlier reports that were kept elsewhere, given
// as known, show that. A fault is an answer: the error is for a ledger that
// cannot be read to its end.
func (db *DB) Verify(ctx context.Context, known ...Head) (report Report, err error) {
	ctx, done, err := db.reading(ctx)
	if err != nil {
		return Report{}, err
	}
	defer done()
	defer func() { err = db.readError(ctx, err) }()
	v := &verifier{ctx: ctx, report: Report{Faults: []Fault{}}, known: map[int64]string{}}
	for _, h := range known {
		if h.Seq > 0 {
			v.known[h.Seq] = h.Hash
		}
	}
	v.tx, err = db.read.BeginTx(ctx, nil)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = v.tx.Rollback() }() // it only reads
	for _, check := range []func() error{v.pages, v.events, v.approvals, v.numbers} {
		if err := check(); err != nil {
			return Report{}, err
		}
	}
	return v.report, nil
}

type verifier struct {
	ctx    context.Context // of one call of Verify
	tx     *sql.Tx
	report Report
	known  map[int64]string
}

func (v *verifier) fault(table string, row any, format string, args ...any) {
	if len(v.report.Faults) < maxFaults {
		v.report.Faults = append(v.report.Faults, Fault{table, fmt.Sprint(row), fmt.Sprintf(format, args...)})
	}
}

// each runs query and calls with for each row.
func (v *verifier) each(with func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := v.tx.QueryContext(v.ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	for rows.Next() {
		if err := with(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (v *verifier) pages() error {
	return v.each(func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if text != "ok" {
			v.fault("database", "", "%s", text)
		}
		return nil
	}, `PRAGMA integrity_check(100)`)
}

func (v *verifier) events() error {
	last := Head{}
	err := v.each(func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		if err != nil {
			return err
		}
		v.report.Events++
		switch {
		case e.Seq == last.Seq+1:
			if e.Hash != chain(last.Hash, e) {
				v.fault("events", e.Seq, "edited or moved: its hash does not follow from the one before and from what it says")
			}
		case e.Seq == last.Seq+2:
			v.fault("events", last.Seq+1, "missing")
		default:
			v.fault("events", fmt.Sprintf("%d to %d", last.Seq+1, e.Seq-1), "missing")
		}
		if want, ok := v.known[e.Seq]; ok && want != e.Hash {
			v.fault("events", e.Seq, "rewritten: its hash is not the one that is known from before")
		}
		delete(v.known, e.Seq)
		last.Seq, last.Hash = e.Seq, e.Hash
		return nil
	}, `SELECT `+eventColumns+` FROM events ORDER BY seq`)
	if err != nil {
		return err
	}
	for seq := range v.known {
		v.fault("events", seq, "missing: it is known from before")
	}
	v.report.Head = last
	found := false
	err = v.each(func(rows *sql.Rows) error {
		found = true
		var head Head
		if err := rows.Scan(&head.Seq, &head.Hash, &head.Approvals); err != nil {
			return err
		}
		v.report.Head.Approvals = head.Approvals
		switch {
		case head.Seq > last.Seq:
			v.fault("events", fmt.Sprintf("%d to %d", last.Seq+1, head.Seq), "missing: the end of the chain was cut off")
		case head.Seq < last.Seq:
			v.fault("head", "", "names event %d, but there are events up to %d", head.Seq, last.Seq)
		case head.Hash != last.Hash:
			v.fault("head", "", "its hash is not that of the last event")
		}
		return nil
	}, `SELECT seq, hash, approvals FROM head`)
	if err == nil && !found {
		v.fault("head", "", "missing")
	}
	return err
}

// approvals compares each row with the events about it. Both are read in the
// order of ids, so that the size of the ledger does not matter.
func (v *verifier) approvals() (err error) {
	h := &histories{v: v}
	h.rows, err = v.tx.QueryContext(v.ctx, `SELECT id, seq, kind, revision, state, record FROM events ORDER BY id, seq`)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := h.rows.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := h.advance(); err != nil {
		return err
	}
	err = v.each(func(rows *sql.Rows) error {
		var w row
		if err := w.scan(rows); err != nil {
			return err
		}
		v.report.Approvals++
		if err := h.skip(w.id); err != nil {
			return err
		}
		return h.compare(&w)
	}, `SELECT a.n, a.id, a.revision, a.state, a.workspace, a.run, a.session, a.instance, a.deadline_ms, a.body, coalesce(l.until_ms, 0)
		FROM approvals a LEFT JOIN leases l USING (instance) ORDER BY a.id`)
	if err != nil {
		return err
	}
	return h.skip("")
}

// histories are the events, grouped by what they are about.
type histories struct {
	v    *verifier
	rows *sql.Rows
	// done says that the event below is none, because there are no more.
	done                    bool
	seq, revision           int64
	id, kind, state, record string
}

func (h *histories) advance() error {
	if h.done = !h.rows.Next(); h.done {
		return h.rows.Err()
	}
	return h.rows.Scan(&h.id, &h.seq, &h.kind, &h.revision, &h.state, &h.record)
}

// skip passes over what is before an id, or everything if that is "": none of it
// has a row.
func (h *histories) skip(until string) error {
	last := ""
	for !h.done && (until == "" || h.id < until) {
		if h.id != last {
			h.v.fault("approvals", h.id, "missing: events tell of it")
		}
		last = h.id
		if err := h.advance(); err != nil {
			return err
		}
	}
	return nil
}

// compare reads the events about one row.
func (h *histories) compare(w *row) error {
	var revision int64
	var state, record string
	for !h.done && h.id == w.id {
		refused := h.kind == string(approval.EventRefused)
		if !refused && h.revision != revision+1 || refused && (h.revision != revision || h.record != record) {
			h.v.fault("events", h.seq, "does not follow from the events before it about %s", w.id)
		}
		revision, state, record = h.revision, h.state, h.record
		if err := h.advance(); err != nil {
			return err
		}
	}
	switch {
	case revision == 0:
		h.v.fault("approvals", w.id, "added: no event tells of it")
	case w.revision != revision || w.state != state:
		h.v.fault("approvals", w.id, "edited: it is %s at revision %d, the last event says %s at revision %d", w.state, w.revision, state, revision)
	case w.hash() != record:
		h.v.fault("approvals", w.id, "edited: it is not what the last event about it recorded")
	}
	return nil
}

// numbers finds gaps in the order of asking.
func (v *verifier) numbers() error {
	next := int64(1)
	err := v.each(func(rows *sql.Rows) error {
		var n int64
		var id string
		if err := rows.Scan(&n, &id); err != nil {
			return err
		}
		if n > next {
			v.fault("approvals", "", "number %d to %d missing, before %s", next, n-1, id)
		}
		next = n + 1
		return nil
	}, `SELECT n, id FROM approvals ORDER BY n`)
	if err != nil {
		return err
	}
	if count := v.report.Head.Approvals; next <= count {
		v.fault("approvals", "", "number %d to %d missing: the end was cut off", next, count)
	} else if next > count+1 {
		v.fault("approvals", "", "number %d to %d were added", count+1, next-1)
	}
	return nil
}

// Export writes the ledger as it stands at one moment, as JSON lines: each
// approval in the order of asking ({"approval": ...}), each event in order
// ({"event": ...}), and {"head": ...} last, without which it is not complete.
func (db *DB) Export(ctx context.Context, to io.Writer) (err error) {
	ctx, done, err := db.reading(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer func() { err = db.readError(ctx, err) }()
	v := &verifier{ctx: ctx}
	v.tx, err = db.read.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = v.tx.Rollback() }() // it only reads
	out := bufio.NewWriter(to)
	line := func(name string, value any) error {
		text, err := jsonv2.Marshal(value)
		if err != nil {
			return err
		}
		text, err = jsonv2.Marshal(map[string]json.RawMessage{name: text})
		if err != nil {
			return err
		}
		_, err = out.Write(append(text, '\n'))
		return err
	}
	err = v.each(func(rows *sql.Rows) error {
		var w row
		if err := w.scan(rows); err != nil {
			return err
		}
		r, err := w.record()
		if err != nil {
			return err
		}
		r.Lease = time.Time{}
		return line("approval", r)
	}, `SELECT `+rowColumns+` FROM approvals a JOIN leases l USING (instance) ORDER BY a.n`)
	if err != nil {
		return err
	}
	err = v.each(func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		if err != nil {
			return err
		}
		return line("event", e)
	}, `SELECT `+eventColumns+` FROM events ORDER BY seq`)
	if err != nil {
		return err
	}
	var head Head
	if err := v.tx.QueryRowContext(ctx, `SELECT seq, hash, approvals FROM head`).Scan(&head.Seq, &head.Hash, &head.Approvals); err != nil {
		return err
	}
	if err := line("head", head); err != nil {
		return err
	}
	return out.Flush()
}
