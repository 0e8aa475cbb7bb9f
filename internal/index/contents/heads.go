package contents

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// In a file, the contents of programs below format 11 have an index of whole hashes, and those of later ones an index of
// their beginnings: see record.HashIs. An index cannot be exchanged in little time when there are millions of rows. So the
// contents are copied in the background, some at a time, to a table that has the new index, while triggers keep the copies
// as their originals are. Then the new table gets the name of the old one, which is emptied, some rows at a time. The
// queries are the same before and after it. Until a file is compacted, others use the space of the old table.

// copyState says how far the contents are copied.
type copyState struct {
	copying, emptying bool
	last, ends        int64 // contents up to the id last are copied; later than ends they are when they are written
}

// readCopyState reads the state with Row of a reader or a write.
func readCopyState(row func(text string, args []any, dest ...any) error) (s copyState, err error) {
	if err := row(`SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'content_copied'),
		EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'content_old')`, nil, &s.copying, &s.emptying); err != nil || !s.copying {
		return s, err
	}
	return s, row("SELECT last, ends FROM content_copied WHERE one = 1", nil, &s.last, &s.ends)
}

const lastToCopy = "SELECT coalesce(max(id), $2) FROM (SELECT id FROM content WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3)"

var copyContents = `INSERT OR IGNORE INTO content_copy (id, sha256, size, added, unreferenced_since, place, damage)
	SELECT id, sha256, size, ` + record.AddedSeconds("added") + `, unreferenced_since, place, damage
	FROM content WHERE id > $1 AND id <= $2 ORDER BY id`

const (
	renameCopy = `DROP TRIGGER copy_new_content;
		DROP TRIGGER copy_changed_content;
		DROP TRIGGER copy_dropped_content;
		DROP TABLE content_copied;
		ALTER TABLE content RENAME TO content_old;
		ALTER TABLE content_copy RENAME TO content;`
	emptyOld = "DELETE FROM content_old WHERE id IN (SELECT id FROM content_old ORDER BY id LIMIT $1)"
)

// CopyHeads copies the next contents, of as many as batch says, or empties the old table by as many, and reports whether
// there is nothing left to do. A write that a crash of the machine undoes is repeated.
func CopyHeads(ctx context.Context, db *engine.Database, batch int) (ended bool, err error) {
	const op = "copy contents"
	if db.Shared() {
		return true, nil // PostgreSQL keeps the index of whole hashes
	}
	s, err := readCopyState(func(text string, args []any, dest ...any) error { return db.Scans.Row(ctx, text, args, dest...) })
	switch {
	case err != nil:
		return false, db.Fail(op, err)
	case s.copying && s.last >= s.ends:
		return false, db.UpdateNames(ctx, op, func(w *engine.Write) error {
			if now, err := readCopyState(w.Row); err != nil || now != s {
				return err // another process has been here
			}
			return w.Script(renameCopy)
		})
	case s.copying:
		return false, db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
			now, err := readCopyState(w.Row)
			if err != nil || now != s {
				return err
			}
			var last int64
			if err := w.Row(lastToCopy, []any{s.last, s.ends, batch}, &last); err != nil {
				return err
			}
			if _, err := w.Exec(copyContents, s.last, last); err != nil {
				return err
			}
			_, err = w.Exec("UPDATE content_copied SET last = $1 WHERE one = 1", last)
			return err
		})
	case s.emptying:
		return false, db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
			if now, err := readCopyState(w.Row); err != nil || now != s {
				return err
			}
			if n, err := w.Exec(emptyOld, batch); err != nil || n > 0 {
				return err
			}
			return w.Script("DROP TABLE content_old")
		})
	}
	return true, nil
}
