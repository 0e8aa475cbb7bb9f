package queue

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"math"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Failure records that a version of a tool could make nothing of a content. It
// does not apply to other contents or versions.
type Failure struct {
	Source  blob.Ref
	Tool    string
	Version string
	Class   string // defined by the caller
	Detail  string // for users
	Since   time.Time
	Until   time.Time // ignored from this time on
	Tries   int       // number of calls of PutFailure
}

// PutFailure records a failure. It uses Source, Tool, Version, Class, Detail and
// Until. A recorded failure gets the new class, detail and end, and one more
// try. The generation does not change.
func (q Jobs) PutFailure(ctx context.Context, f Failure) error {
	return q.db.Update(ctx, "record a failure", func(w *engine.Write) error {
		_, err := w.Exec(`INSERT INTO failure (source, tool, version, class, detail, since, ends, tries) VALUES ($1, $2, $3, $4, $5, $6, $7, 1)
			ON CONFLICT (source, tool, version) DO UPDATE
				SET class = excluded.class, detail = excluded.detail, ends = excluded.ends, tries = failure.tries + 1`,
			f.Source[:], engine.Text(f.Tool), engine.Text(f.Version), engine.Text(f.Class), engine.Text(f.Detail),
			q.db.Now().UnixMilli(), f.Until.UnixMilli())
		return err
	})
}

// FailureColumns are the columns of a failure, for ScanFailure.
const FailureColumns = "source, tool, version, class, detail, since, ends, tries"

// ScanFailure reads a row of FailureColumns.
func ScanFailure(scan engine.Scan) (f Failure, err error) {
	var ref []byte
	var since, ends int64
	if err := scan(&ref, &f.Tool, &f.Version, &f.Class, &f.Detail, &since, &ends, &f.Tries); err != nil {
		return f, err
	}
	f.Since, f.Until = time.UnixMilli(since).UTC(), time.UnixMilli(ends).UTC()
	return f, record.ScanRef(ref, &f.Source)
}

// Failure returns the recorded failure for a content and a version of a tool. If
// there is none, or it has ended, the error is fs.ErrNotExist.
func (q Jobs) Failure(ctx context.Context, source blob.Ref, tool, version string) (Failure, error) {
	f, err := ScanFailure(func(dest ...any) error {
		return q.db.Points.Row(ctx, "SELECT "+FailureColumns+" FROM failure WHERE source = $1 AND tool = $2 AND version = $3 AND ends > $4",
			[]any{source[:], engine.Text(tool), engine.Text(version), q.db.Now().UnixMilli()}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return f, q.db.Fail("look up a failure", err)
}

// FailureFilter selects failures; the zero value selects all.
type FailureFilter struct {
	Source  *blob.Ref
	Tool    string
	Version string
	Class   string
	Ended   time.Time // only those that end before; zero is any
}

const failureCond = "coalesce(source = $2, TRUE) AND ($3 = '' OR tool = $3) AND ($4 = '' OR version = $4) " +
	"AND ($5 = '' OR class = $5) AND ends < $6"

func (f FailureFilter) args() []any {
	var source any
	if f.Source != nil {
		source = f.Source[:]
	}
	ended := int64(math.MaxInt64)
	if !f.Ended.IsZero() {
		ended = f.Ended.UnixMilli()
	}
	return []any{source, f.Tool, f.Version, f.Class, ended}
}

// Failures lists failures, at most limit (0: all).
func (q Jobs) Failures(ctx context.Context, f FailureFilter, limit int) ([]Failure, error) {
	if limit <= 0 {
		limit = math.MaxInt32
	}
	list := []Failure{}
	err := q.db.Scans.Each(ctx, true, "SELECT "+FailureColumns+" FROM failure WHERE "+failureCond+" LIMIT $1",
		append([]any{limit}, f.args()...), func(scan engine.Scan) (bool, error) {
			f, err := ScanFailure(scan)
			list = append(list, f)
			return true, err
		})
	return list, q.db.Fail("list failures", err)
}

// FlushFailures deletes failures and returns their number.
func (q Jobs) FlushFailures(ctx context.Context, f FailureFilter) (int64, error) {
	return record.DeleteRows(ctx, q.db, "failure", "DELETE FROM failure "+
		"WHERE (source, tool, version) IN (SELECT source, tool, version FROM failure WHERE "+failureCond+" LIMIT $1)", f.args()...)
}
