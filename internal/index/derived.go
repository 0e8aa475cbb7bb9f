package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// Derived returns what a tool made of a content. A zero Content means that the
// tool made nothing worth keeping; if the tool has not run, the error is
// fs.ErrNotExist.
func (db *DB) Derived(ctx context.Context, source blob.Ref, tool record.Tool) (record.Content, error) {
	var c record.Content
	var ref []byte
	var size sql.NullInt64
	err := db.base.Points.Row(ctx, `SELECT r.sha256, r.size FROM content c JOIN derived d ON d.source_id = c.id
		LEFT JOIN content r ON r.id = d.content_id WHERE c.sha256 = $1 AND d.tool = $2 AND d.tool_version = $3`,
		[]any{source[:], tool.Name, tool.Version}, &ref, &size)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, fs.ErrNotExist
	case err != nil || !size.Valid:
		return c, db.base.Fail("look up a derived content", err)
	}
	c.Size = size.Int64
	return c, db.base.Fail("look up a derived content", record.ScanRef(ref, &c.Ref))
}

// PutDerived records what a tool made of a content; nil means nothing worth
// keeping. It replaces an earlier result of the same tool and version. If the
// source is not in the index, the error is fs.ErrNotExist. The result is kept as
// long as its source.
func (db *DB) PutDerived(ctx context.Context, source blob.Ref, tool record.Tool, result *record.Content) error {
	return db.base.Update(ctx, "record a derived content", func(w *engine.Write) error {
		var id int64
		if err := w.Row("SELECT id FROM content WHERE sha256 = $1", []any{source[:]}, &id); errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("content %x: %w", source[:], fs.ErrNotExist)
		} else if err != nil {
			return err
		}
		c := commit{Write: w, now: db.base.Now(), placed: db.placed}
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
		if _, err := w.Exec(`INSERT INTO derived (source_id, tool, tool_version, content_id, added) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (source_id, tool, tool_version) DO UPDATE SET content_id = excluded.content_id, added = excluded.added`,
			id, tool.Name, tool.Version, made, c.now.UnixMilli()); err != nil {
			return err
		}
		if err := releaseUnused(w, c.now, old...); err != nil {
			return err
		}
		// Earlier misses may be answered now.
		if err := record.NextGeneration(w); err != nil {
			return err
		}
		return c.count()
	})
}
