package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Backup copies the ledger, as it stands at one moment, to a new file that can
// take its place, readable by its owner only. Others may write to the ledger
// meanwhile. Faults are copied too: [DB.Verify] of the copy tells. An
// fs.ErrExist means that the file is there already; after any error there is
// none.
func (db *DB) Backup(ctx context.Context, path string) (err error) {
	ctx, done, err := db.reading(ctx)
	if err != nil {
		return err
	}
	defer done()
	path, err = filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("back up ledger: %w", err)
	}
	// SQLite takes an empty file for a new one, and would let others read its own.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("back up ledger: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("back up ledger: %w", db.readError(ctx, err)), f.Close(), os.Remove(path))
		}
	}()
	// The connections that read refuse every statement that writes a file.
	from, err := connect(db.path, "deferred", 1, []string{"busy_timeout(10000)", "synchronous(FULL)", "trusted_schema(0)"})
	if err != nil {
		return err
	}
	_, err = from.ExecContext(ctx, "VACUUM INTO ?", path)
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := syncFolder(path); err != nil {
		return err
	}
	return f.Close()
}

// syncFolder has the name of a new file outlive a power cut.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
