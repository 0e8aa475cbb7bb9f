package index

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"

	"modernc.org/sqlite"
)

// Copies is the part of the index for copies of it, such as backups.
type Copies struct{ db *DB }

// Moment is a state of an index, as far as clients can see it. Two indexes of one
// depot with equal Moments have the same transactions.
type Moment struct {
	Generation  int64 `json:"generation"`
	Transaction int64 `json:"transaction"` // the last number
}

const momentQuery = "SELECT generation, last_tx FROM state WHERE one = 1"

// Moment returns the current state of the index.
func (cs Copies) Moment(ctx context.Context) (m Moment, err error) {
	err = cs.db.points.row(ctx, momentQuery, nil, &m.Generation, &m.Transaction)
	return m, cs.db.fail("read the state", err)
}

// Snapshot copies the index at one moment into a new file, while readers and
// writers go on. Only an index in a file can be copied so; otherwise the error is
// errors.ErrUnsupported. progress, if not nil, is called with the copied bytes and
// all bytes.
func (cs Copies) Snapshot(ctx context.Context, to string, progress func(done, all int64)) error {
	e, ok := cs.db.engine.(*sqliteFile)
	if !ok {
		return cs.db.fail("copy", errors.ErrUnsupported)
	}
	return cs.db.fail("copy to "+to, snapshotFile(ctx, e.path, to, progress))
}

// SnapshotFile is [Copies.Snapshot] for an index that is not open, in whatever format.
func SnapshotFile(ctx context.Context, from, to string, progress func(done, all int64)) error {
	if _, err := os.Stat(from); err != nil {
		return err // SQLite's own error is unclear
	}
	e := &sqliteFile{path: from}
	if err := snapshotFile(ctx, from, to, progress); err != nil {
		return (&DB{engine: e}).fail("copy to "+to, err)
	}
	return nil
}

func snapshotFile(ctx context.Context, from, to string, progress func(done, all int64)) (err error) {
	where := sqliteURI(from, "ro", time.Minute, "trusted_schema(0)")
	if isAlone(from) {
		where += "&immutable=1" // so that it can be on a read-only file system
	}
	db, err := sql.Open("sqlite", where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// An open read transaction: otherwise the copy would begin again with each
	// write of another process.
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	if _, err := fileFormat(ctx, conn, migrations); err != nil {
		return err
	}
	return copyPages(ctx, conn, func(p pager) (*sqlite.Backup, error) {
		return p.NewBackup(sqliteURI(to, "rwc", 0))
	}, progress)
}

// isAlone reports whether a database has no log or journal beside it: no process has
// it open, and none has ended while it wrote.
func isAlone(path string) bool {
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// pager is the part of a driver's connection that copies whole databases.
type pager interface {
	NewBackup(to string) (*sqlite.Backup, error)
	NewRestore(from string) (*sqlite.Backup, error)
}

const (
	pagesPerStep = 4096
	pageBytes    = 4096 // SQLite's default; it serves the progress only
)

// copyPages copies a whole database in one transaction of the target.
func copyPages(ctx context.Context, conn *sql.Conn, begin func(pager) (*sqlite.Backup, error), progress func(done, all int64)) error {
	return conn.Raw(func(c any) error {
		p, ok := c.(pager)
		if !ok {
			return errors.ErrUnsupported
		}
		b, err := begin(p)
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if err = ctx.Err(); err != nil {
				break
			}
			if more, err = b.Step(pagesPerStep); err == nil && progress != nil {
				all := int64(b.PageCount())
				progress((all-int64(b.Remaining()))*pageBytes, all*pageBytes)
			}
		}
		if ferr := b.Finish(); err == nil {
			err = ferr
		}
		return err
	})
}

// RemoveFile removes an index that no process has open, with the files that
// SQLite keeps beside it.
func RemoveFile(path string) error {
	for _, suffix := range []string{"-journal", "-wal", "-shm", ""} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// DropSecrets deletes the random keys of the index. It is for copies: a new key is
// made when it is needed.
func (cs Copies) DropSecrets(ctx context.Context) error {
	return cs.db.update(ctx, "delete the keys", func(w *write) error {
		if err := w.script(overwriteDeleted); err != nil {
			return err
		}
		_, err := w.exec("DELETE FROM secret")
		return err
	})
}

// overwriteDeleted makes SQLite overwrite deleted rows.
var overwriteDeleted = each("PRAGMA secure_delete = ON", "SELECT 1")

// AtLeast makes the generation at least n. Processes then drop what they remember
// of the index that this one replaces.
func (cs Copies) AtLeast(ctx context.Context, n int64) error {
	return cs.db.update(ctx, "raise the generation", func(w *write) error {
		_, err := w.exec("UPDATE state SET generation = "+larger("generation", "$1")+" WHERE one = 1", n)
		return err
	})
}

// Intact runs the database's own check of its files and returns what it finds. It
// is quicker than Check, which compares the rows too.
func (cs Copies) Intact(ctx context.Context) (problems []string, err error) {
	err = cs.db.engine.snapshot(ctx, func(r reader) error {
		problems, err = cs.db.engine.integrity(ctx, r)
		return err
	})
	if errors.Is(cs.db.engine.classify(err), ErrCorrupt) {
		return append(problems, err.Error()), nil
	}
	return problems, cs.db.fail("check", err)
}

// Target is an index in a file that no other process has open. Close admits
// others again.
type Target struct {
	e    *sqliteFile
	db   *sql.DB
	conn *sql.Conn
}

// targetWait is how long OpenTarget waits for commands that end.
const targetWait = 2 * time.Second

// OpenTarget opens the index in a file, or makes an empty file, and keeps all
// other processes out. If one has it open, the error is ErrBusy; a file that this
// program cannot use is ErrCorrupt, ErrForeign or ErrNewer.
func OpenTarget(ctx context.Context, path string) (*Target, error) {
	t := &Target{e: &sqliteFile{path: path}}
	err := t.open(ctx)
	if err != nil {
		err = t.fail("open alone", err)
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Target) open(ctx context.Context) (err error) {
	// The locking mode comes first: once the log is in use, it has no effect.
	t.db, err = sql.Open("sqlite", sqliteURI(t.e.path, "rwc", targetWait, "locking_mode(EXCLUSIVE)", "synchronous(FULL)", "trusted_schema(0)"))
	if err != nil {
		return err
	}
	t.db.SetMaxOpenConns(1)
	if t.conn, err = t.db.Conn(ctx); err != nil {
		return err
	}
	if _, err = t.conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return err
	}
	// The lock stays.
	if _, err = t.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	if _, err = fileFormat(ctx, t.conn, t.e.steps()); err != nil {
		return err
	}
	// The write-ahead log then holds what Replace has not committed, and readers of
	// the file do not see it.
	var mode string
	return t.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
}

func (t *Target) fail(op string, err error) error { return (&DB{engine: t.e}).fail(op, err) }

// Moment returns the state of the index; found is false for an empty file.
func (t *Target) Moment(ctx context.Context) (m Moment, found bool, err error) {
	version, err := fileFormat(ctx, t.conn, t.e.steps())
	if err != nil || version == 0 {
		return m, false, t.fail("read the format", err)
	}
	err = t.conn.QueryRowContext(ctx, momentQuery).Scan(&m.Generation, &m.Transaction)
	return m, true, t.fail("read the state", err)
}

// Holds returns the numbers of transactions, removed ones included, and of
// contents.
func (t *Target) Holds(ctx context.Context) (transactions, contents int64, err error) {
	if version, err := fileFormat(ctx, t.conn, t.e.steps()); err != nil || version == 0 {
		return 0, 0, t.fail("read the format", err)
	}
	err = t.conn.QueryRowContext(ctx, "SELECT last_tx, contents FROM state WHERE one = 1").Scan(&transactions, &contents)
	return transactions, contents, t.fail("count", err)
}

// Replace replaces the whole index by the one in another file, which may be open.
// It is one transaction: a crash leaves the old index or the new one.
func (t *Target) Replace(ctx context.Context, from string, progress func(done, all int64)) error {
	err := copyPages(ctx, t.conn, func(p pager) (*sqlite.Backup, error) {
		return p.NewRestore(sqliteURI(from, "ro", time.Minute))
	}, progress)
	return t.fail("replace", err)
}

// Close closes the index and lets other processes open it.
func (t *Target) Close() error {
	var errs []error
	if t.conn != nil {
		errs = append(errs, t.conn.Close())
	}
	if t.db != nil {
		errs = append(errs, t.db.Close())
	}
	return errors.Join(errs...)
}
