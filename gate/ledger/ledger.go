// Package ledger keeps approvals in an SQLite database.
//
// One goroutine writes. It takes up to 64 changes that wait, makes them in one
// transaction and answers their callers after the commit, so that what they
// hear of is on disk and the price of the sync is shared. What takes time and
// needs no lock, such as encoding a record, its callers have done before.
package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/regent-policy/regent/gate/approval"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the database file as a ledger of Regent ("RGNT").
const applicationID = 0x52474e54

// Result codes of SQLite, see https://sqlite.org/rescode.html.
const (
	codeCorrupt = 11
	codeFull    = 13
	codeNotADB  = 26
	// Extended codes: of a file that is too short, and of a value that is taken.
	codeShortRead = 522
	codeUnique    = 2067
)

// Options of a database. The zero value is right for a daemon.
type Options struct {
	// Now is the clock that deadlines and leases are judged by, time.Now if nil.
	Now func() time.Time
	// MaxBytes bounds the database file; 0 does not. A change for which there is
	// no room is an [approval.ErrFull].
	MaxBytes int64
}

// DB is a ledger in a file. [Open] makes one.
type DB struct {
	path  string
	now   func() time.Time
	write *sql.DB
	read  *sql.DB
	conn  *sql.Conn
	stmts statements
	held  held
	// files are the database, its log and the log's index: see intact.
	files []*file
	count counters

	ops     chan *op
	ctx     context.Context // of reads; ends when Close is called
	cancel  context.CancelFunc
	stop    chan struct{}
	stopped chan struct{}

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
	// closing lets Close be called twice and wait both times.
	closing sync.Once
	err     error
}

// Open opens the database at path and brings it up to date; a file that is not
// there is created, readable by its owner only, in a folder that must exist. A
// file that is not a ledger, or one of a newer version, is an
// [approval.ErrDamaged] or an error that says so, and is left as it is.
//
// Several processes may open one file, but only one should serve it: see
// [approval.Ledger].
func Open(ctx context.Context, path string, options Options) (*DB, error) {
	if err := syncData(); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	log, err := os.Stat(path + "-wal")
	crashed := err == nil && log.Size() > 0
	db := &DB{
		path: path, now: options.Now,
		ops: make(chan *op, maxBatch), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	if db.now == nil {
		db.now = time.Now
	}
	// The pragmas are in the name so that each pooled connection has them.
	pragmas := []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "trusted_schema(0)"}
	if db.write, err = connect(path, "immediate", 1, pragmas); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	if err := db.prepare(ctx, options.MaxBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, db.fault(err)), db.shut())
	}
	if err := db.whole(ctx, crashed); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), db.keepLog(), db.shut())
	}
	if db.read, err = connect(path, "deferred", 4, append(slices.Clone(pragmas), "query_only(1)")); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), db.shut())
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		f := &file{path: path + suffix}
		if f.opened, err = os.Stat(f.path); err != nil {
			return nil, errors.Join(fmt.Errorf("open ledger: %w", err), db.shut())
		}
		db.files = append(db.files, f)
	}
	db.ctx, db.cancel = context.WithCancel(context.Background())
	go db.writer()
	return db, nil
}

// syncData has SQLite sync with fdatasync, as the builds of Linux distributions
// do: a commit need not wait for the time stamp of the log.
var syncData = sync.OnceValue(func() error {
	if _, err := sqlite.Fdatasync(true); !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return err
	}
	return nil
})

// create makes an empty file before SQLite does, which would let others read it.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		if err = f.Close(); err == nil {
			err = syncFolder(path)
		}
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 0 {
		return err
	}
	// SQLite would remove the log and begin anew.
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		return fmt.Errorf("%w: %s is empty or was removed, but its log is there", approval.ErrDamaged, path)
	}
	return nil
}

func connect(path, lock string, connections int, pragmas []string) (*sql.DB, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_txlock": {lock}, "_pragma": pragmas}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// prepare migrates the database and readies the one connection that writes.
func (db *DB) prepare(ctx context.Context, maxBytes int64) error {
	var err error
	if db.conn, err = db.write.Conn(ctx); err != nil {
		return err
	}
	if err := migrate(ctx, db.conn); err != nil {
		return err
	}
	if maxBytes > 0 {
		var size int64
		if err := db.conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&size); err != nil {
			return err
		}
		if _, err := db.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", max(1, maxBytes/size))); err != nil {
			return err
		}
	}
	if err := db.stmts.prepare(ctx, db.conn); err != nil {
		return err
	}
	var head Head
	err = db.stmts.head.QueryRowContext(ctx).Scan(&head.Seq, &head.Hash, &head.Approvals)
	// Without a head nothing can be written, but Verify can still tell what is there.
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	db.count.head.Store(&head)
	return nil
}

// migrate runs the numbered files that the database has not seen.
func migrate(ctx context.Context, conn *sql.Conn) (err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	var version, application, tables int
	for query, into := range map[string]*int{
		"PRAGMA user_version": &version, "PRAGMA application_id": &application, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(into); err != nil {
			return err
		}
	}
	switch {
	case application != applicationID && (tables > 0 || version > 0 || application != 0):
		return fmt.Errorf("%w: the file is a database of something else", approval.ErrDamaged)
	case version > len(names):
		return fmt.Errorf("the ledger is of version %d, this program knows up to %d; use a newer one", version, len(names))
	}
	for i, name := range names[version:] {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", version+i+1, applicationID)); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

// file is one of those that SQLite has open.
type file struct {
	path   string
	opened fs.FileInfo
	// size is the largest that was seen. None of the files ever shrinks while the
	// ledger is open, nor does SQLite notice when one does.
	size atomic.Int64
}

// intact says whether the files that were opened are still those at their paths,
// and nothing was cut off. After somebody deletes them, SQLite would go on to
// write, and what it acknowledges would be gone with the process; after a hole
// in the log, with the next crash.
func (db *DB) intact() error {
	for _, f := range db.files {
		least := f.size.Load()
		now, err := os.Stat(f.path)
		switch {
		case err != nil || !os.SameFile(f.opened, now):
			return fmt.Errorf("%w: %s is not the file that was opened", approval.ErrDamaged, f.path)
		case now.Size() < least:
			return fmt.Errorf("%w: %s was cut off at %d bytes of %d", approval.ErrDamaged, f.path, now.Size(), least)
		case now.Size() > least:
			// Of two that look at once the smaller may win; the next look mends it.
			f.size.CompareAndSwap(least, now.Size())
		}
	}
	return nil
}

// fault gives errors of SQLite the names that callers know.
func (db *DB) fault(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch {
		case e.Code()&0xff == codeFull:
			return fmt.Errorf("%w: %w", approval.ErrFull, err)
		case e.Code()&0xff == codeCorrupt || e.Code()&0xff == codeNotADB || e.Code() == codeShortRead:
			return fmt.Errorf("%w: %w", approval.ErrDamaged, err)
		}
	}
	return err
}

// enter admits a call; the caller must call db.calls.Done.
func (db *DB) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return approval.ErrClosed
	}
	db.calls.Add(1)
	return nil
}

// Close implements [approval.Ledger]. Reads that are under way are cancelled.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.mu.Lock()
		db.closed = true
		db.mu.Unlock()
		db.cancel()
		db.calls.Wait()
		close(db.stop)
		<-db.stopped
		if damage := db.intact(); damage != nil {
			// The last connection to close would copy the log into whatever is there by
			// now, and remove it. With the log there, the next Open looks closely.
			db.err = errors.Join(damage, db.keepLog(), db.shut())
			return
		}
		db.err = db.shut()
	})
	return db.err
}

// whole checks the structure of a database after a crash: SQLite puts the log of
// one into a file that has lost pages, or that is another, and takes the result
// for a database until somebody reads what is missing.
func (db *DB) whole(ctx context.Context, crashed bool) error {
	if !crashed {
		return nil
	}
	var found string
	if err := db.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return db.fault(err)
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", approval.ErrDamaged, found)
	}
	return nil
}

// keepLog has the log outlive the last connection.
func (db *DB) keepLog() error {
	return db.conn.Raw(func(c any) error {
		control, ok := c.(sqlite.FileControl)
		if !ok {
			return errors.ErrUnsupported
		}
		_, err := control.FileControlPersistWAL("main", 1)
		return err
	})
}

// shut closes what Open has opened so far.
func (db *DB) shut() error {
	var errs []error
	if db.read != nil {
		errs = append(errs, db.read.Close())
	}
	errs = append(errs, db.stmts.close())
	if db.conn != nil {
		errs = append(errs, db.conn.Close())
	}
	// The last connection to close checkpoints the log.
	errs = append(errs, db.write.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

var _ approval.Ledger = (*DB)(nil)
