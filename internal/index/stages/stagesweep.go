package stages

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// SweepKnown forgets the known files that were not pushed since a time.
func (ss StageRows) SweepKnown(ctx context.Context, before time.Time) error {
	return ss.db.UpdateUnsynced(ctx, "forget known files", func(w *engine.Write) error {
		for _, text := range []string{"DELETE FROM stage_known WHERE used < $1", "DELETE FROM stage_sha1 WHERE used < $1"} {
			if _, err := w.Exec(text, before.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}

// End ends a stage that collects: its transaction gets no further files.
func (ss StageRows) End(ctx context.Context, id string, unusedSince time.Time) (ended bool, err error) {
	err = ss.db.Update(ctx, "end a stage", func(w *engine.Write) error {
		ended = false
		var number sql.NullInt64
		err := w.Row("DELETE FROM stage WHERE id = $1 AND used <= $2 RETURNING tx_id", []any{id, unusedSince.UnixMilli()}, &number)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		ended = true
		if number.Valid {
			_, err = w.Exec("UPDATE tx SET collecting = NULL WHERE id = $1", number.Int64)
		}
		return err
	})
	return ended, err
}

// Delete deletes an open stage. If it is not open, the error is ErrStageClosed.
func (ss StageRows) Delete(ctx context.Context, id string) error {
	if err := ss.db.UpdateUnsynced(ctx, "delete a stage", func(w *engine.Write) error {
		if _, err := sumOfStage(w, id); err != nil {
			return err
		}
		_, err := w.Exec("DELETE FROM stage WHERE id = $1", id)
		return err
	}); err != nil {
		return err
	}
	return ss.Clear(ctx, id)
}

// Expired returns the open stages that were last used before idle or opened before
// longest, and the committed ones that were closed before longest. Stages that
// collect are returned if they were last used before quiet.
func (ss StageRows) Expired(ctx context.Context, idle, longest, quiet time.Time) (list []StageRow, err error) {
	err = ss.db.Scans.Each(ctx, true, "SELECT "+stageColumns+` FROM stage
		WHERE CASE WHEN closed IS NOT NULL THEN closed < $2 WHEN collects = 1 THEN used < $3
		ELSE used < $1 OR opened < $2 END ORDER BY id LIMIT 10000`, []any{idle.UnixMilli(), longest.UnixMilli(), quiet.UnixMilli()},
		func(scan engine.Scan) (bool, error) {
			s, err := scanStage(scan)
			list = append(list, s)
			return true, err
		})
	return list, ss.db.Fail("look for expired stages", err)
}

// Expire deletes a stage unless it was used meanwhile.
func (ss StageRows) Expire(ctx context.Context, s StageRow) (gone bool, err error) {
	err = ss.db.UpdateUnsynced(ctx, "delete a stage", func(w *engine.Write) error {
		n, err := w.Exec("DELETE FROM stage WHERE id = $1 AND used = $2", s.ID, s.Used.UnixMilli())
		gone = n > 0
		return err
	})
	if err == nil && gone {
		err = ss.Clear(ctx, s.ID)
	}
	return gone, err
}

// clearRows is how many rows one transaction of Clear deletes: other writers wait
// for it.
const clearRows = 5_000

// clearText deletes the first $2 rows of a stage in the order of a column, and all with the
// value of the last of them. It is a range, because a database that has no statistics of a
// new stage would compare each row with each of a list.
func clearText(table, column string) string {
	of := "(SELECT " + column + " FROM " + table + " WHERE stage_id = $1 ORDER BY " + column
	last := "coalesce(" + of + " LIMIT 1 OFFSET $2 - 1), " + of + " DESC LIMIT 1))"
	return "DELETE FROM " + table + " WHERE stage_id = $1 AND " + column + " <= " + last
}

// Clear deletes the files and contents of a stage that is not open.
func (ss StageRows) Clear(ctx context.Context, id string) error {
	for _, text := range []string{clearText("stage_file", "path"), clearText("stage_content", "sha256")} {
		for n := int64(clearRows); n >= clearRows; {
			if err := ss.db.UpdateUnsynced(ctx, "delete the files of a stage", func(w *engine.Write) (err error) {
				n, err = w.Exec(text, id, clearRows)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Leftovers deletes the files and contents of stages that are not open, which an
// interrupted Clear has left.
func (ss StageRows) Leftovers(ctx context.Context) error {
	for _, table := range []string{"stage_file", "stage_content"} {
		next := "SELECT min(stage_id) FROM stage_file WHERE stage_id > $1"
		if table == "stage_content" {
			next = "SELECT min(stage_id) FROM stage_content WHERE stage_id > $1"
		}
		for id := ""; ; {
			var found sql.NullString
			if err := ss.db.Scans.Row(ctx, next, []any{id}, &found); err != nil {
				return ss.db.Fail("look for files of ended stages", err)
			}
			if !found.Valid {
				break
			}
			id = found.String
			s, err := ss.Get(ctx, id)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err != nil || !s.Closed.IsZero() {
				if err := ss.Clear(ctx, id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// IDs returns the ids of all open stages.
func (ss StageRows) IDs(ctx context.Context) (ids map[string]bool, err error) {
	ids = make(map[string]bool)
	err = ss.db.Scans.Each(ctx, true, "SELECT id FROM stage WHERE closed IS NULL", nil, func(scan engine.Scan) (bool, error) {
		var id string
		err := scan(&id)
		ids[id] = true
		return true, err
	})
	return ids, ss.db.Fail("list stages", err)
}

// KeepUploads extends the leases of the uploads of staged contents to d from now.
func (ss StageRows) KeepUploads(ctx context.Context, d time.Duration) error {
	until := ss.db.Now().Add(d).UnixMilli()
	return ss.db.UpdateUnsynced(ctx, "extend uploads", func(w *engine.Write) error {
		_, err := w.Exec(`UPDATE upload SET lease_until = $1 WHERE done = 1 AND lease_until < $1 AND EXISTS
			(SELECT 1 FROM stage_content k JOIN stage s ON s.id = k.stage_id
				WHERE k.sha256 = upload.sha256 AND k.state = 1 AND s.closed IS NULL)`, until)
		return err
	})
}

// Taken forgets contents of a stage that a transaction has now. Their files keep
// their state.
func (ss StageRows) Taken(ctx context.Context, id string, refs []blob.Ref) error {
	rows := make([][]any, len(refs))
	for i := range refs {
		rows[i] = []any{id, refs[i][:]}
	}
	return ss.db.UpdateUnsynced(ctx, "forget contents of a stage", func(w *engine.Write) error {
		if _, err := w.Many("UPDATE stage SET staged = staged - coalesce((SELECT size FROM stage_content "+
			"WHERE stage_id = $1 AND sha256 = $2), 0) WHERE id = $1", rows); err != nil {
			return err
		}
		_, err := w.Many("DELETE FROM stage_content WHERE stage_id = $1 AND sha256 = $2", rows)
		return err
	})
}
