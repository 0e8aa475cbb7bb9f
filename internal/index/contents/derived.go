package contents

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Derived returns what a tool made of a content. A zero Content means that the
// tool made nothing worth keeping; if the tool has not run, the error is
// fs.ErrNotExist.
func (cs Contents) Derived(ctx context.Context, source blob.Ref, tool record.Tool) (record.Content, error) {
	var c record.Content
	var ref []byte
	var size sql.NullInt64
	err := cs.db.Points.Row(ctx, `SELECT r.sha256, r.size FROM content c JOIN derived d ON d.source_id = c.id
		LEFT JOIN content r ON r.id = d.content_id WHERE `+record.IsC+" AND d.tool = $2 AND d.tool_version = $3",
		[]any{source[:], tool.Name, tool.Version}, &ref, &size)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, fs.ErrNotExist
	case err != nil || !size.Valid:
		return c, cs.db.Fail("look up a derived content", err)
	}
	c.Size = size.Int64
	return c, cs.db.Fail("look up a derived content", record.ScanRef(ref, &c.Ref))
}

// PutDerived records what a tool made of a content; nil means nothing worth
// keeping. It replaces an earlier result of the same tool and version. If the
// source is not in the index, the error is fs.ErrNotExist. The result is kept as
// long as its source.
func (cs Contents) PutDerived(ctx context.Context, source blob.Ref, tool record.Tool, result *record.Content, note string) error {
	return cs.db.Update(ctx, "record a derived content", func(w *engine.Write) error {
		var id int64
		if err := w.Row("SELECT id FROM content WHERE "+record.IsContent, []any{source[:]}, &id); errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("content %x: %w", source[:], fs.ErrNotExist)
		} else if err != nil {
			return err
		}
		c := Commit{Write: w, Now: cs.db.Now(), Placed: cs.Placed}
		var made any
		if result != nil {
			r, err := c.content(*result)
			if err != nil {
				return err
			}
			made = r
		}
		old, err := w.IDs("SELECT content_id FROM derived "+
			"WHERE source_id = $1 AND tool = $2 AND tool_version = $3 AND content_id IS NOT NULL", id, tool.Name, tool.Version)
		if err != nil {
			return err
		}
		if _, err := w.Exec(`INSERT INTO derived (source_id, tool, tool_version, content_id, added, note) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (source_id, tool, tool_version) DO UPDATE
			SET content_id = excluded.content_id, added = excluded.added, note = excluded.note`,
			id, tool.Name, tool.Version, made, c.Now.UnixMilli(), sql.NullString{String: note, Valid: note != ""}); err != nil {
			return err
		}
		if err := releaseUnused(w, c.Now, old...); err != nil {
			return err
		}
		// Earlier misses may be answered now.
		if err := record.NextGeneration(w); err != nil {
			return err
		}
		return c.count()
	})
}

// ForgetDerived deletes the records of derivations that resulted in a content,
// so that they are made again on demand. It returns their number.
func (cs Contents) ForgetDerived(ctx context.Context, result blob.Ref) (n int64, err error) {
	err = cs.db.Update(ctx, "delete derived contents", func(w *engine.Write) error {
		var id int64
		err := w.Row("SELECT id FROM content WHERE "+record.IsContent, []any{result[:]}, &id)
		if err == sql.ErrNoRows {
			return nil
		}
		if err != nil {
			return err
		}
		if n, err = w.Exec("DELETE FROM derived WHERE content_id = $1 AND tool <> $2", id, ColdTool.Name); err != nil || n == 0 {
			return err
		}
		if err := releaseUnused(w, cs.db.Now(), id); err != nil {
			return err
		}
		return record.NextGeneration(w)
	})
	return n, err
}
