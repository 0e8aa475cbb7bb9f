package engine

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"

	"modernc.org/sqlite"
)

// CopyFile copies the database in a file that is not open, in whatever format that the
// steps reach, as it is at one moment. progress is as that of Database.Copy.
func CopyFile(ctx context.Context, from, to string, steps []Migration, progress func(done, all int64)) error {
	if _, err := os.Stat(from); err != nil {
		return err // SQLite's own error is unclear
	}
	return FailFile(from, "copy to "+to, snapshotFile(ctx, from, to, steps, progress))
}

func snapshotFile(ctx context.Context, from, to string, steps []Migration, progress func(done, all int64)) (err error) {
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
	if _, err := fileFormat(ctx, conn, steps); err != nil {
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

// Alone is a database in a file that no other process has open. Close admits others
// again.
type Alone struct {
	path  string
	steps []Migration
	db    *sql.DB
	conn  *sql.Conn
}

// aloneWait is how long OpenAlone waits for commands that end.
const aloneWait = 2 * time.Second

// OpenAlone opens the database in a file, or makes an empty file, and keeps all other
// processes out. If one has it open, the error is ErrBusy; a file that a program with
// these steps cannot use is ErrCorrupt, ErrForeign or ErrNewer.
func OpenAlone(ctx context.Context, path string, steps []Migration) (*Alone, error) {
	a := &Alone{path: path, steps: steps}
	if err := a.open(ctx); err != nil {
		return nil, errors.Join(a.fail("open alone", err), a.Close())
	}
	return a, nil
}

func (a *Alone) open(ctx context.Context) (err error) {
	// The locking mode comes first: once the log is in use, it has no effect.
	a.db, err = sql.Open("sqlite", sqliteURI(a.path, "rwc", aloneWait, "locking_mode(EXCLUSIVE)", "synchronous(FULL)", "trusted_schema(0)"))
	if err != nil {
		return err
	}
	a.db.SetMaxOpenConns(1)
	if a.conn, err = a.db.Conn(ctx); err != nil {
		return err
	}
	if _, err = a.conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return err
	}
	// The lock stays.
	if _, err = a.conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	if _, err = fileFormat(ctx, a.conn, a.steps); err != nil {
		return err
	}
	// The write-ahead log then holds what Replace has not committed, and readers of
	// the file do not see it.
	var mode string
	return a.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
}

// FailFile is Database.Fail for a file that is not open as a Database.
func FailFile(path, op string, err error) error { return fail(&sqliteFile{path: path}, op, err) }

func (a *Alone) fail(op string, err error) error { return FailFile(a.path, op, err) }

// Row reads the row of a query. found is false, and nothing is read, if the file is empty.
func (a *Alone) Row(ctx context.Context, op, text string, dest ...any) (found bool, err error) {
	version, err := fileFormat(ctx, a.conn, a.steps)
	if err != nil || version == 0 {
		return false, a.fail("read the format", err)
	}
	return true, a.fail(op, a.conn.QueryRowContext(ctx, text).Scan(dest...))
}

// Replace replaces the whole database by the one in another file, which may be open. It is
// one transaction: a crash leaves the old database or the new one.
func (a *Alone) Replace(ctx context.Context, from string, progress func(done, all int64)) error {
	return a.fail("replace", copyPages(ctx, a.conn, func(p pager) (*sqlite.Backup, error) {
		return p.NewRestore(sqliteURI(from, "ro", time.Minute))
	}, progress))
}

// Close closes the database and lets other processes open it.
func (a *Alone) Close() error {
	var errs []error
	if a.conn != nil {
		errs = append(errs, a.conn.Close())
	}
	if a.db != nil {
		errs = append(errs, a.db.Close())
	}
	return errors.Join(errs...)
}
