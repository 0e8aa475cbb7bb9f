// Package stages is the part of an index for pushes that are not transactions yet: their files,
// the parts of contents that have arrived, which server holds them, and what their commit adds
// to that of a transaction.
package stages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// StageRows is the part of the index for stages: pushes that are not a transaction
// yet. Its latest writes survive a crash of the process, but perhaps not a power
// loss: the client of a push then asks again which contents are missing.
//
// An unknown stage is fs.ErrNotExist.
type StageRows struct{ db *engine.Database }

// NewStageRows returns the stages of an index in a database.
func NewStageRows(db *engine.Database) StageRows { return StageRows{db} }

var (
	// ErrStageClosed means that a stage has been committed already, or that its
	// files have changed since they were read for the commit.
	ErrStageClosed = errors.New("the stage has been committed or changed meanwhile")
	// ErrStageMoved means that another node has become the owner of a stage.
	ErrStageMoved = errors.New("another server has the parts of the stage")
	// ErrTooManyStages means that an owner has too many open stages.
	ErrTooManyStages = errors.New("too many open stages")
)

// StageLimitError is the error for a stage with too many files or bytes.
type StageLimitError struct{ Files, Bytes int64 } // of the stage with the refused files

func (e *StageLimitError) Error() string {
	return fmt.Sprintf("the stage would have %d files with %d bytes", e.Files, e.Bytes)
}

// StageRow is a stage.
type StageRow struct {
	ID     string // random
	Caller string // name of the principal, for people
	// Owner identifies the principal: two may have one name. Stages that programs of
	// earlier versions have opened belong to nobody: it is empty, or NamedOwner and the
	// name.
	Owner string
	// Key names the stage for its owner; empty for none. Two stages of an owner
	// never have the same key.
	Key                                      string
	Product, Version, Branch, Class, Comment string
	Build                                    string // JSON
	// Collects means that each file is added to the transaction at once.
	Collects bool
	// Joins means that several clients add files.
	Joins    bool
	Node     string // which node has its parts
	Opened   time.Time
	Used     time.Time // last request
	Changes  int64     // rises with every change of the files
	Files    int64
	Bytes    int64     // sum of the files' sizes
	Staged   int64     // bytes of contents that have arrived or begun to
	Number   int64     // of the transaction; 0 before there is one
	Closed   time.Time // of the commit; zero for an open stage
	Manifest blob.Ref  // of a committed stage
	Result   string    // of a committed stage: JSON
}

// NamedOwner begins StageRow.Owner of the stages of before there were owners.
const NamedOwner = "name:"

const stageColumns = `id, caller, owner, key, product, version, branch, class, comment, build, collects, joins, node, opened, used, changes,
	files, bytes, staged,
	tx_id, closed, manifest, result`

func scanStage(scan engine.Scan) (s StageRow, err error) {
	var collects, joins int
	var opened, used int64
	var number, closed sql.NullInt64
	var manifest []byte
	var result sql.NullString
	if err := scan(&s.ID, &s.Caller, &s.Owner, &s.Key, &s.Product, &s.Version, &s.Branch, &s.Class, &s.Comment, &s.Build, &collects,
		&joins, &s.Node,
		&opened, &used, &s.Changes, &s.Files, &s.Bytes, &s.Staged, &number, &closed, &manifest, &result); err != nil {
		return s, err
	}
	s.Collects, s.Joins, s.Number, s.Result = collects != 0, joins != 0, number.Int64, result.String
	s.Opened, s.Used, s.Closed = time.UnixMilli(opened).UTC(), time.UnixMilli(used).UTC(), engine.FromMillis(closed)
	copy(s.Manifest[:], manifest)
	return s, nil
}

// Open records a stage, unless its owner has one of that key: again is true for
// that. One whose transaction has been removed since is replaced. If the owner
// has as many open stages as most, of those that collect or of the others, the
// error is ErrTooManyStages.
func (ss StageRows) Open(ctx context.Context, s StageRow, most int) (row StageRow, again bool, err error) {
	err = ss.db.UpdateUnsynced(ctx, "open a stage", func(w *engine.Write) error {
		row, again = s, false
		now := ss.db.Now()
		row.Opened, row.Used = now, now
		if s.Key != "" {
			old, err := scanStage(func(dest ...any) error {
				return w.Row("SELECT "+stageColumns+" FROM stage WHERE owner = $1 AND key = $2 AND key <> '' AND owner <> ''",
					[]any{engine.Text(s.Owner), engine.Text(s.Key)}, dest...)
			})
			switch {
			case errors.Is(err, sql.ErrNoRows):
			case err != nil:
				return err
			default:
				var gone bool
				if !old.Closed.IsZero() {
					if err := w.Row("SELECT NOT EXISTS (SELECT 1 FROM tx WHERE id = $1 AND deleted_at IS NULL)", []any{old.Number}, &gone); err != nil {
						return err
					}
				}
				if !gone {
					row, again = old, true
					row.Used = now
					row.Joins = old.Joins || s.Joins
					_, err := w.Exec("UPDATE stage SET used = $2, joins = $3 WHERE id = $1", old.ID, now.UnixMilli(), bit(row.Joins))
					return err
				}
				if _, err := w.Exec("DELETE FROM stage WHERE id = $1", old.ID); err != nil {
					return err
				}
			}
		}
		var open int
		if err := w.Row("SELECT count(*) FROM stage WHERE owner = $1 AND collects = $2 AND closed IS NULL",
			[]any{engine.Text(s.Owner), bit(s.Collects)}, &open); err != nil {
			return err
		}
		if open >= most {
			return ErrTooManyStages
		}
		_, err := w.Exec(`INSERT INTO stage (id, caller, owner, key, product, version, branch, class, comment, build, collects, node,
			opened, used, changes, files, bytes, staged, joins)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, 0, 0, 0, 0, $14)`,
			s.ID, engine.Text(s.Caller), engine.Text(s.Owner), engine.Text(s.Key), engine.Text(s.Product), engine.Text(s.Version),
			engine.Text(s.Branch), engine.Text(s.Class), engine.Text(s.Comment), engine.Text(s.Build),
			bit(s.Collects), s.Node, now.UnixMilli(), bit(s.Joins))
		return err
	})
	return row, again, err
}

// bit is a bool as a column.
func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Get returns a stage.
func (ss StageRows) Get(ctx context.Context, id string) (StageRow, error) {
	s, err := scanStage(func(dest ...any) error {
		return ss.db.Points.Row(ctx, "SELECT "+stageColumns+" FROM stage WHERE id = $1", []any{engine.Text(id)}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return s, ss.db.Fail("look up a stage", err)
}

// KeyOf returns the key of the stage that became a transaction; empty if there was
// none, or if the stage was forgotten.
func (ss StageRows) KeyOf(ctx context.Context, number int64) (key string, err error) {
	err = ss.db.Points.Row(ctx, "SELECT key FROM stage WHERE tx_id = $1 AND key <> '' ORDER BY opened LIMIT 1", []any{number}, &key)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return key, ss.db.Fail("look up a stage", err)
}

// Touch records that a stage is in use.
func (ss StageRows) Touch(ctx context.Context, id string) error {
	return ss.db.UpdateUnsynced(ctx, "touch a stage", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE stage SET used = $2 WHERE id = $1 AND used < $2", id, ss.db.Now().UnixMilli())
		return err
	})
}

// sumOfStage returns the number of files and bytes of an open stage.
func sumOfStage(w *engine.Write, id string) (sum StageLimitError, err error) {
	var closed sql.NullInt64
	err = w.Row("SELECT files, bytes, closed FROM stage WHERE id = $1", []any{id}, &sum.Files, &sum.Bytes, &closed)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	if err == nil && closed.Valid {
		err = ErrStageClosed
	}
	return sum, err
}

// Own makes a node the owner of an open stage instead of another one. If that is
// no longer the owner, the error is ErrStageMoved.
func (ss StageRows) Own(ctx context.Context, id, from, node string) error {
	return ss.db.UpdateUnsynced(ctx, "take over a stage", func(w *engine.Write) error {
		n, err := w.Exec("UPDATE stage SET node = $3 WHERE id = $1 AND node IN ($2, $3) AND closed IS NULL", id, from, node)
		if err == nil && n == 0 {
			err = ErrStageMoved
		}
		return err
	})
}

// Published returns the stages of which a transaction has files, and whose own files are
// recorded still: those that collect, and committed ones that are not cleared yet.
func (ss StageRows) Published(ctx context.Context) (list []StageRow, err error) {
	err = ss.db.Scans.Each(ctx, true, "SELECT "+stageColumns+` FROM stage WHERE tx_id IS NOT NULL
		AND EXISTS (SELECT 1 FROM stage_file f WHERE f.stage_id = stage.id) ORDER BY id`, nil, func(scan engine.Scan) (bool, error) {
		s, err := scanStage(scan)
		list = append(list, s)
		return true, err
	})
	return list, ss.db.Fail("list stages with a build", err)
}
