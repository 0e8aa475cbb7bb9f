package contents

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Dumps is the part of the index for crash dumps that are kept for some time. No lookup of a file
// finds them.
type Dumps struct{ contents Contents }

// NewDumps returns the dumps among contents.
func NewDumps(contents Contents) Dumps { return Dumps{contents} }

// Dump is a crash dump that is kept.
type Dump struct {
	No          int64  // grows with every dump
	ID          string // drawn at random
	Name        string // of the file, as it was sent
	Who         string // who sent it; empty: nobody that is named
	Key, Reason string // of the crash; empty: unknown
	At, Until   time.Time
	Content     record.Content
}

// Put records a dump. stored, if not nil, is called first, as the check of [Contents.Commit]: it returns an
// error if the content is not stored. The error for a missing upload is [record.ErrNotUploaded].
func (ds Dumps) Put(ctx context.Context, d *Dump, stored func(context.Context, blob.Ref) error) error {
	return ds.contents.db.Update(ctx, "keep a dump", func(w *engine.Write) error {
		if stored != nil && !ds.contents.Placed {
			if err := stored(ctx, d.Content.Ref); err != nil {
				return err
			}
		}
		c := Commit{Write: w, Now: ds.contents.db.Now(), Placed: ds.contents.Placed}
		id, err := c.content(d.Content)
		if err != nil {
			return err
		}
		if _, err := w.Exec(`INSERT INTO dump (id, content_id, name, who, crash_key, reason, at, until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, d.ID, id, engine.Text(d.Name), engine.Text(d.Who), engine.Text(d.Key),
			engine.Text(d.Reason), d.At.UnixMilli(), d.Until.UnixMilli(),
		); err != nil {
			return err
		}
		return c.count()
	})
}

const dumpColumns = `SELECT d.no, d.id, d.name, d.who, d.crash_key, d.reason, d.at, d.until, c.sha256, c.size
	FROM dump d JOIN content c ON c.id = d.content_id `

func scanDump(scan func(dest ...any) error) (d Dump, err error) {
	var ref []byte
	var at, until int64
	if err := scan(&d.No, &d.ID, &d.Name, &d.Who, &d.Key, &d.Reason, &at, &until, &ref, &d.Content.Size); err != nil {
		return d, err
	}
	d.At, d.Until = time.UnixMilli(at).UTC(), time.UnixMilli(until).UTC()
	return d, record.ScanRef(ref, &d.Content.Ref)
}

// List returns the dumps before the one with a number, newest first, at most limit; zero: the newest.
func (ds Dumps) List(ctx context.Context, before int64, limit int) (list []Dump, err error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	err = ds.contents.db.Scans.Each(ctx, true, dumpColumns+"WHERE d.no < $1 ORDER BY d.no DESC LIMIT $2", []any{before, limit},
		func(scan engine.Scan) (bool, error) {
			d, err := scanDump(scan)
			list = append(list, d)
			return true, err
		})
	return list, ds.contents.db.Fail("list dumps", err)
}

// Find returns a dump. Not found is fs.ErrNotExist.
func (ds Dumps) Find(ctx context.Context, id string) (Dump, error) {
	d, err := scanDump(func(dest ...any) error {
		return ds.contents.db.Points.Row(ctx, dumpColumns+"WHERE d.id = $1", []any{engine.Text(id)}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return d, fs.ErrNotExist
	}
	return d, ds.contents.db.Fail("find a dump", err)
}

// Remove removes a dump, and returns its content, which may be dropped then. Not found is fs.ErrNotExist.
func (ds Dumps) Remove(ctx context.Context, id string) (refs []blob.Ref, err error) {
	refs, err = ds.remove(ctx, "SELECT no FROM dump WHERE id = $1", engine.Text(id))
	if err == nil && len(refs) == 0 {
		err = fs.ErrNotExist
	}
	return refs, err
}

// Expire removes dumps whose time is over at now, and above a number of dumps and of bytes the oldest ones of those
// who sent the most. It returns their contents, which may be dropped then.
func (ds Dumps) Expire(ctx context.Context, now time.Time, most int, bytes int64) (refs []blob.Ref, err error) {
	// What a sender has runs from the newest to the oldest; the sum of all from those of whom there is the least.
	return ds.remove(ctx, `SELECT no FROM dump WHERE until <= $1 UNION SELECT no FROM
		(SELECT no, count(*) OVER (ORDER BY own, no DESC) AS n, sum(size) OVER (ORDER BY own_size, no DESC) AS all_size FROM
		(SELECT d.no, c.size, count(*) OVER newest AS own, sum(c.size) OVER newest AS own_size
		FROM dump d JOIN content c ON c.id = d.content_id WINDOW newest AS (PARTITION BY d.who ORDER BY d.no DESC)) AS o) AS t
		WHERE n > $2 OR all_size > $3`, now.UnixMilli(), most, bytes)
}

var (
	contentsOfDumps = engine.Over("no number", "SELECT DISTINCT d.content_id FROM {k} CROSS JOIN dump d WHERE d.no = k.no")
	removeDumps     = engine.Over("no number", "DELETE FROM dump WHERE no IN (SELECT k.no FROM {k})")
)

// remove removes the dumps whose numbers a statement selects.
func (ds Dumps) remove(ctx context.Context, numbers string, args ...any) (refs []blob.Ref, err error) {
	err = ds.contents.db.Update(ctx, "remove dumps", func(w *engine.Write) error {
		refs = nil
		list, err := w.IDs(numbers, args...)
		if err != nil || len(list) == 0 {
			return err
		}
		ids, err := w.ReadNumbers(contentsOfDumps, engine.Numbers(list))
		if err != nil {
			return err
		}
		if _, err := w.ExecOver(removeDumps, engine.Numbers(list)); err != nil {
			return err
		}
		for _, id := range ids {
			var text []byte
			var ref blob.Ref
			if err := w.Row("SELECT sha256 FROM content WHERE id = $1", []any{id}, &text); err != nil {
				return err
			}
			if err := record.ScanRef(text, &ref); err != nil {
				return err
			}
			refs = append(refs, ref)
		}
		return releaseUnused(w, ds.contents.db.Now(), ids...)
	})
	return refs, err
}
