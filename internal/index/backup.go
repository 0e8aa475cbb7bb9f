package index

import (
	"context"
	"errors"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// Copies is the part of the index for copies of it, such as backups.
type Copies struct{ db *engine.Database }

// Moment is a state of an index, as far as clients can see it. Two indexes of one
// depot with equal Moments have the same transactions.
type Moment struct {
	Generation  int64 `json:"generation"`
	Transaction int64 `json:"transaction"` // the last number
}

const momentQuery = "SELECT generation, last_tx FROM state WHERE one = 1"

// Moment returns the current state of the index.
func (cs Copies) Moment(ctx context.Context) (m Moment, err error) {
	err = cs.db.Points.Row(ctx, momentQuery, nil, &m.Generation, &m.Transaction)
	return m, cs.db.Fail("read the state", err)
}

// Snapshot copies the index at one moment into a new file, while readers and
// writers go on. Only an index in a file can be copied so; otherwise the error is
// errors.ErrUnsupported. progress, if not nil, is called with the copied bytes and
// all bytes.
func (cs Copies) Snapshot(ctx context.Context, to string, progress func(done, all int64)) error {
	return cs.db.Copy(ctx, to, progress)
}

// SnapshotFile is [Copies.Snapshot] for an index that is not open, in whatever format.
func SnapshotFile(ctx context.Context, from, to string, progress func(done, all int64)) error {
	return engine.CopyFile(ctx, from, to, migrations, progress)
}

// DropSecrets deletes the random keys of the index. It is for copies: a new key is
// made when it is needed.
func (cs Copies) DropSecrets(ctx context.Context) error {
	return cs.db.Update(ctx, "delete the keys", func(w *engine.Write) error {
		if err := w.Script(overwriteDeleted); err != nil {
			return err
		}
		_, err := w.Exec("DELETE FROM secret")
		return err
	})
}

// overwriteDeleted makes SQLite overwrite deleted rows.
var overwriteDeleted = engine.Dialects("PRAGMA secure_delete = ON", "SELECT 1")

// AtLeast makes the generation at least n. Processes then drop what they remember
// of the index that this one replaces.
func (cs Copies) AtLeast(ctx context.Context, n int64) error {
	return cs.db.Update(ctx, "raise the generation", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE state SET generation = "+engine.Larger("generation", "$1")+" WHERE one = 1", n)
		return err
	})
}

// Intact runs the database's own check of its files and returns what it finds. It
// is quicker than Check, which compares the rows too.
func (cs Copies) Intact(ctx context.Context) (problems []string, err error) {
	err = cs.db.Snapshot(ctx, func(r engine.Reader) error {
		problems, err = cs.db.Integrity(ctx, r)
		return err
	})
	if errors.Is(cs.db.Classify(err), engine.ErrCorrupt) {
		return append(problems, err.Error()), nil
	}
	return problems, cs.db.Fail("check", err)
}

// Target is an index in a file that no other process has open. Close admits
// others again.
type Target struct{ file *engine.Alone }

// OpenTarget opens the index in a file, or makes an empty file, and keeps all
// other processes out. If one has it open, the error is ErrBusy; a file that this
// program cannot use is ErrCorrupt, ErrForeign or ErrNewer.
func OpenTarget(ctx context.Context, path string) (*Target, error) {
	file, err := engine.OpenAlone(ctx, path, migrations)
	if err != nil {
		return nil, err
	}
	return &Target{file}, nil
}

// Moment returns the state of the index; found is false for an empty file.
func (t *Target) Moment(ctx context.Context) (m Moment, found bool, err error) {
	found, err = t.file.Row(ctx, "read the state", momentQuery, &m.Generation, &m.Transaction)
	return m, found, err
}

// Holds returns the numbers of transactions, removed ones included, and of
// contents.
func (t *Target) Holds(ctx context.Context) (transactions, contents int64, err error) {
	_, err = t.file.Row(ctx, "count", "SELECT last_tx, contents FROM state WHERE one = 1", &transactions, &contents)
	return transactions, contents, err
}

// Replace replaces the whole index by the one in another file, which may be open.
// It is one transaction: a crash leaves the old index or the new one.
func (t *Target) Replace(ctx context.Context, from string, progress func(done, all int64)) error {
	return t.file.Replace(ctx, from, progress)
}

// Close closes the index and lets other processes open it.
func (t *Target) Close() error { return t.file.Close() }
