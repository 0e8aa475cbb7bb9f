// Package watched is the index of one watched folder, in an SQLite file of its own.
package watched

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/index/engine"
)

// Watched is the index of one watched folder: an SQLite file of its own, on the
// machine of the folder. Everything in it can be made again by a scan. So it is not
// synced to the disk, and a file that is damaged, or of another format, is replaced by
// an empty one. One process uses it at a time. Its methods may be called by many
// goroutines.
type Watched struct {
	path   string
	writer *sql.DB // one connection
	reads  *engine.Readers

	mu    sync.Mutex           // held while the writer is used
	stmts map[string]*sql.Stmt // of writer; guarded by mu
}

// watchedFormat is the number of the schema. A file with another number is replaced.
const watchedFormat = 3

// watchedID is stored in the header of the file: "symw".
const watchedID = 0x73796d77

// watchedSchema: a file that is of no interest has no row. Of these, the folder keeps
// eight bytes each, so that a scan knows the unchanged ones.
const watchedSchema = `
CREATE TABLE dir (
	id INTEGER PRIMARY KEY,
	path TEXT NOT NULL UNIQUE,
	dull BLOB
) STRICT;
CREATE TABLE file (
	id INTEGER PRIMARY KEY,
	dir INTEGER NOT NULL REFERENCES dir (id),
	name TEXT NOT NULL,
	size INTEGER NOT NULL,
	mtime INTEGER NOT NULL,
	ctime INTEGER NOT NULL,
	inode INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	seen INTEGER NOT NULL,
	tag TEXT,
	problem TEXT,
	names BLOB,
	UNIQUE (dir, name)
) STRICT;
CREATE TABLE object (
	id INTEGER PRIMARY KEY,
	file INTEGER NOT NULL REFERENCES file (id),
	member TEXT,
	place BLOB,
	size INTEGER NOT NULL,
	data BLOB NOT NULL,
	signature TEXT
) STRICT;
CREATE INDEX object_file ON object (file);
CREATE TABLE key (
	hash INTEGER NOT NULL,
	object INTEGER NOT NULL,
	PRIMARY KEY (hash, object)
) STRICT, WITHOUT ROWID;
CREATE TABLE source (
	hash INTEGER NOT NULL,
	file INTEGER NOT NULL,
	PRIMARY KEY (hash, file)
) STRICT, WITHOUT ROWID;
CREATE TABLE note (
	name TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`

// File is a file or a package in a watched folder that has objects, source
// files or a problem.
type File struct {
	ID   int64
	Dir  string // relative to the watched folder, with slashes; "" for the folder itself
	Name string
	Size int64
	// MTime and CTime are in nanoseconds since 1970; CTime and Inode are zero where the
	// system has none.
	MTime, CTime int64
	Inode        uint64
	Kind         int    // the caller's
	Seen         int64  // when it was read, in nanoseconds since 1970
	Tag          string // the caller's; of an object in a bucket, its entity tag
	Problem      string // why the file was left out; "" if it was not
}

// Object is an object in a watched file.
type Object struct {
	ID     int64
	Member string // of a package; "" for the file itself
	Place  []byte // where in the file the member is; the caller's
	Size   int64  // bytes of the member
	Data   []byte // the object; the caller's
	// Signature is the IMA signature of the member in hex, or empty.
	Signature string
	// Keys are the hashes under which the object is found. Lookups do not return them.
	Keys []int64
}

// Hit is an object with its file.
type Hit struct {
	Object
	File File
}

// Entry is a file with all that is known of it.
type Entry struct {
	File    File
	Objects []Object
	Sources []int64 // hashes of the names of members that may be source files
	Names   []byte  // the caller's list of these names
}

// Dir is a folder, with the fingerprints of the files in it that are of no
// interest.
type Dir struct {
	Path string
	Dull []byte
}

// Change is what one transaction changes. Puts replace the file with the same
// folder and name.
type Change struct {
	Put   []Entry
	Drop  []int64 // files
	Dirs  []Dir
	Gone  []string // folders; their files must have been dropped
	Notes map[string]string
}

// Totals counts what is in the index of a watched folder.
type Totals struct {
	Files, Packages, Objects, Problems int64
	Bytes                              int64 // of the files and packages
}

// OpenWatched opens the index of a watched folder in a file, and makes it if it is
// missing, damaged, or of another format. fresh reports that it is empty.
func OpenWatched(ctx context.Context, path string) (w *Watched, fresh bool, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, false, err
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, err
	}
	w = &Watched{path: path}
	if fresh, err = w.open(ctx); err == nil {
		return w, fresh, nil
	}
	_ = w.Close()
	if !errors.Is(err, engine.ErrCorrupt) {
		return nil, false, err
	}
	if err := RemoveWatched(path); err != nil {
		return nil, false, err
	}
	w = &Watched{path: path}
	if fresh, err = w.open(ctx); err != nil {
		return nil, false, errors.Join(err, w.Close())
	}
	return w, fresh, nil
}

// RemoveWatched deletes the index of a watched folder, which nobody uses.
func RemoveWatched(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Used sets the time of the file, so that it says when the index was in use last, also if
// nothing in it has changed.
func (w *Watched) Used() error {
	now := time.Now()
	return os.Chtimes(w.path, now, now)
}

// ReadWatched opens the index of a watched folder to read it only, also while another
// process uses it. A file that is not there is fs.ErrNotExist; one that is damaged, or of
// another format, is left as it is.
func ReadWatched(ctx context.Context, path string) (*Watched, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	w := &Watched{path: path}
	if w.reads, err = engine.OpenReaders(path, 2, 1<<10, true); err != nil {
		return nil, w.fail("open", err)
	}
	var app, version int
	err = w.reads.Row(ctx, "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version "+
		"FROM pragma_user_version)", nil, &app, &version)
	switch {
	case err != nil:
		err = w.fail("open", err)
	case app != watchedID || version != watchedFormat:
		err = fmt.Errorf("index %s: it is no index of a watched folder, or of another version of symdepot", path)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// open opens the file. The error wraps ErrCorrupt if the file must be replaced.
func (w *Watched) open(ctx context.Context) (fresh bool, err error) {
	if fresh, err = engine.IsFresh(w.path); err != nil {
		return false, err
	}
	w.stmts = map[string]*sql.Stmt{}
	w.writer, err = engine.OpenConnections(w.path, "rwc", 1, 2<<10, time.Second, "page_size(4096)", "journal_mode(WAL)", "synchronous(OFF)",
		"journal_size_limit(4194304)")
	if err != nil {
		return false, err
	}
	var version, app, tables int
	err = w.writer.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id
		FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema)`).Scan(&version, &app, &tables)
	switch {
	case err != nil:
		return false, w.fail("open", err)
	case tables == 0:
		fresh = true
		_, err = w.writer.ExecContext(ctx, "BEGIN;"+watchedSchema+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; "+
			"COMMIT;", watchedID, watchedFormat))
	case app != watchedID:
		return false, fmt.Errorf("%s: %w (application id %#x)", w.path, engine.ErrForeign, app)
	case version != watchedFormat:
		return false, fmt.Errorf("%s: %w: it has format %d", w.path, engine.ErrCorrupt, version)
	}
	if err != nil {
		return false, w.fail("open", err)
	}
	w.reads, err = engine.OpenReaders(w.path, 2, 1<<10, true)
	return fresh, err
}

// Close closes the index.
func (w *Watched) Close() error {
	var errs []error
	if w.reads != nil {
		errs = append(errs, w.reads.Close())
	}
	if w.writer != nil {
		errs = append(errs, w.writer.Close())
	}
	return errors.Join(errs...)
}

// fail wraps an error with the file, the operation and its class.
func (w *Watched) fail(op string, err error) error {
	return engine.FailFile(w.path, op, err)
}

// watchedTx is one transaction of the writer. Its statements are not cancellable: the
// driver would start a goroutine for each.
type watchedTx struct {
	ctx context.Context // never cancelled
	w   *Watched
	tx  *sql.Tx
}

func (t watchedTx) stmt(text string) (*sql.Stmt, error) {
	s := t.w.stmts[text]
	if s == nil {
		var err error
		if s, err = t.tx.PrepareContext(t.ctx, text); err != nil {
			return nil, err
		}
		t.w.stmts[text] = s
	}
	return s, nil
}

func (t watchedTx) exec(text string, args ...any) error {
	s, err := t.stmt(text)
	if err == nil {
		_, err = s.ExecContext(t.ctx, args...)
	}
	return err
}

func (t watchedTx) id(text string, args ...any) (id int64, err error) {
	s, err := t.stmt(text)
	if err == nil {
		err = s.QueryRowContext(t.ctx, args...).Scan(&id)
	}
	return id, err
}

// Apply makes a change, as one transaction.
func (w *Watched) Apply(ctx context.Context, c Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	tx, err := w.writer.BeginTx(ctx, nil)
	if err != nil {
		return w.fail("begin", err)
	}
	defer clear(w.stmts) // they end with the transaction
	if err := (watchedTx{ctx, w, tx}).apply(c); err != nil {
		return w.fail("write", errors.Join(err, tx.Rollback()))
	}
	return w.fail("commit", tx.Commit())
}

func (t watchedTx) apply(c Change) error {
	for _, id := range c.Drop {
		if err := t.drop(id); err != nil {
			return err
		}
	}
	for _, d := range c.Dirs {
		if err := t.exec("INSERT INTO dir (path, dull) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET dull = excluded.dull",
			d.Path, d.Dull); err != nil {
			return err
		}
	}
	for i := range c.Put {
		if err := t.put(&c.Put[i]); err != nil {
			return err
		}
	}
	for _, path := range c.Gone {
		if err := t.exec("DELETE FROM dir WHERE path = ? AND NOT EXISTS (SELECT 1 FROM file f WHERE f.dir = dir.id)", path); err != nil {
			return err
		}
	}
	for name, value := range c.Notes {
		if err := t.exec("INSERT INTO note (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
			name, value); err != nil {
			return err
		}
	}
	return nil
}

// put enters a file with its objects, in place of what had the name before.
func (t watchedTx) put(e *Entry) error {
	f := e.File
	if err := t.exec("INSERT INTO dir (path) VALUES (?) ON CONFLICT (path) DO NOTHING", f.Dir); err != nil {
		return err
	}
	dir, err := t.id("SELECT id FROM dir WHERE path = ?", f.Dir)
	if err != nil {
		return err
	}
	old, err := t.id("SELECT id FROM file WHERE dir = ? AND name = ?", dir, f.Name)
	if err == nil {
		err = t.drop(old)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	file, err := t.id("INSERT INTO file (dir, name, size, mtime, ctime, inode, kind, seen, tag, problem, names) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
		dir, f.Name, f.Size, f.MTime, f.CTime, int64(f.Inode), f.Kind, f.Seen, orNull(f.Tag), orNull(f.Problem), e.Names)
	if err != nil {
		return err
	}
	for i := range e.Objects {
		o := &e.Objects[i]
		id, err := t.id("INSERT INTO object (file, member, place, size, data, signature) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
			file, orNull(o.Member), o.Place, o.Size, o.Data, orNull(o.Signature))
		if err != nil {
			return err
		}
		for _, k := range o.Keys {
			if err := t.exec("INSERT INTO key (hash, object) VALUES (?, ?) ON CONFLICT DO NOTHING", k, id); err != nil {
				return err
			}
		}
	}
	for _, s := range e.Sources {
		if err := t.exec("INSERT INTO source (hash, file) VALUES (?, ?) ON CONFLICT DO NOTHING", s, file); err != nil {
			return err
		}
	}
	return nil
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// drop deletes a file with all that belongs to it. The keys of an object and the source
// names of a file are not indexed by it: the caller's data would have to be read again
// to find them. They are deleted when they are met, and by Groom.
func (t watchedTx) drop(id int64) error {
	if err := t.exec("DELETE FROM object WHERE file = ?", id); err != nil {
		return err
	}
	return t.exec("DELETE FROM file WHERE id = ?", id)
}

// Groom deletes the keys and source names of files that are no longer there, and the
// folders without files. It returns how many rows it has deleted.
func (w *Watched) Groom(ctx context.Context) (rows int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range []string{
		"DELETE FROM key WHERE NOT EXISTS (SELECT 1 FROM object o WHERE o.id = key.object)",
		"DELETE FROM source WHERE NOT EXISTS (SELECT 1 FROM file f WHERE f.id = source.file)",
	} {
		r, err := w.writer.ExecContext(ctx, text)
		if err != nil {
			return rows, w.fail("groom", err)
		}
		n, _ := r.RowsAffected()
		rows += n
	}
	_, err = w.writer.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return rows, w.fail("groom", err)
}

// Clear deletes all rows.
func (w *Watched) Clear(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.writer.ExecContext(ctx, "DELETE FROM key; DELETE FROM source; DELETE FROM object; DELETE FROM file; "+
		"DELETE FROM dir; DELETE FROM note")
	return w.fail("clear", err)
}
