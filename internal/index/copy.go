package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
)

// copied are the tables that Copy copies. Each refers to earlier ones only. The rows
// of one machine or one bucket are not copied: nodes, stages, plans, uploads, doomed
// places, the identity and keys of the depot; nor are requests for logins, which live for
// minutes.
var copied = []struct{ name, columns, key string }{
	{"product", "id, name", "id"},
	{"tx", "id, kind, product_id, version, comment, who, host, tool, time, files, bytes, origin_store, origin_number, origin_time, " +
		"deleted_at, source, branch, class, build, labels, manifest, arrived, trash_until", "id"},
	{"content", "id, sha256, size, added, unreferenced_since", "id"},
	{"object", "id, content_id, name, kind, name_fold, role, code_name, code_id, debug_id, info_age, build_id, of_kind, flags, " +
		"version, hash, arch, features, debug_size, ident", "id"},
	{"lookup", "id, name, object_id, role, form", "id, name, object_id"},
	{"old_key", "first, keys, body", "first"},
	{"tx_file", removals.FileColumnsOfTx, "object_id, tx_id, seq"},
	{"tx_dir", "tx_id, no, path, first, last", "tx_id, no"},
	{"seen", "object_id, product_id, tx_id", "object_id, product_id"},
	{"derived", "source_id, tool, tool_version, content_id, added, note", "source_id, tool, tool_version"},
	{"content_signature", "content_id, ima", "content_id"},
	{"cold", "content_id, base_id, made, plain_since, reads, reads_since", "content_id"},
	{"cached", "content_id, tx_id, name, url, tag, fetched, used", "content_id, tx_id"},
	{"dump", "no, id, content_id, name, who, crash_key, reason, at, until", "no"},
	{"miss", "no, key, source, class, ends, since, detail", "no"},
	{"wanted", "no, name, id, client, kind, count, first, last", "no"},
	{"wish", "no, id, name, role, owner, made", "no"},
	{"arrival", "no, id, name, tx_id, at", "no"},
	{"job", "id, kind, key, variant, payload, state, priority, attempts, max_attempts, created, not_before, started, finished, " +
		"lease_until, worker, token, outcome, detail, result", "id"},
	{"failure", "source, tool, version, class, detail, since, ends, tries", "source, tool, version"},
	{"trash_file", removals.FileColumnsOfTx, "tx_id, seq"},
	{"content_read", "content_id, day", "content_id"},
	{"hold", "tx_id, name, who, reason, placed, ends", "tx_id, name"},
	{"tx_needs", "tx_id, needs", "tx_id, needs"},
	{"promotion", "no, tx_id, at, who, from_class, to_class", "no"},
	{"policy", "no, text, hash, at, who", "no"},
	{"retention_run", "no, plan, kind, outcome, who, begun, ended, policy, hash, removed, until, facts", "no"},
	{"run_removal", "run, tx_id, class, reason, detail", "run, tx_id"},
	{"removal", "tx_id, at, who, class, reason, detail, plan", "tx_id"},
	{"removed_file", "tx_id, no, name, folded, kind, id, size, sha256", "tx_id, no"},
	{"removed_key", "id, tx_id, no", "id, tx_id, no"},
	{"usage_day", "day, product_id, transactions, files, bytes, own, cached, garbage, trash", "day, product_id"},
	{"token", "id, hash, name, scopes, products, created, expires, last_used, revoked, created_by, uploads, origin, keep, kind, " +
		"parent, facts", "id"},
	{"login", "id, family, hash, name, created_by, credential, parent, machine, address, agent, created, used, expires, ends", "id"},
}

// ErrNotEmpty means that an index to copy into has transactions already.
var ErrNotEmpty = errors.New("the index is not empty")

// errOldNodes means that processes of an older version keep an index to copy into from being written short.
var errOldNodes = errors.New("processes of an older version use the index, and do not read the rows that would be copied: " +
	"stop them or start them with this version, and copy again")

// generated are the columns whose numbers the database generates, by table.
var generated = [][2]string{{"product", "id"}, {"content", "id"}, {"miss", "no"}, {"wanted", "no"}, {"wish", "no"}, {"arrival", "no"},
	{"dump", "no"}, {"job", "id"}, {"promotion", "no"}, {"policy", "no"}, {"retention_run", "no"}}

// Copy copies everything of an index into an empty one: numbers, ids, tokens and
// jobs stay the same. Meanwhile writers of both wait, and readers do not. last is
// called before the rows are read, while no process can write to db. It uploads the
// contents that the target's store lacks; its error ends the copy. If the target keeps contents in
// a bucket, each content takes over a finished
// upload; a missing one is ErrNotUploaded. On an error the target stays empty.
//
// Afterwards no process can add to db any more, not even one that had it open;
// Reopen undoes that.
func (db *DB) Copy(ctx context.Context, to *DB, last func() error) error {
	id, err := db.Places.Depot(ctx)
	if err == nil {
		_, err = to.Places.Depot(ctx)
	}
	if err != nil {
		return err
	}
	return db.base.Update(ctx, "copy", func(w *engine.Write) error {
		if err := w.Rest(); err != nil { // while the target is written
			return err
		}
		if err := last(); err != nil {
			return err
		}
		if err := db.base.Snapshot(ctx, func(r engine.Reader) error {
			return to.base.Update(ctx, "copy", func(out *engine.Write) error { return db.copyTo(out, ctx, r, id, to) })
		}); err != nil {
			return err
		}
		return w.Script(closeIndex)
	})
}

// closeIndex makes additions fail: a trigger reaches processes of older versions
// too.
var closeIndex = engine.Dialects(
	`CREATE TRIGGER moved BEFORE INSERT ON tx BEGIN SELECT RAISE(ABORT, 'the depot was moved to another place'); END`,
	`CREATE FUNCTION moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the depot was moved to another place'; END $$;
	CREATE TRIGGER moved BEFORE INSERT ON tx EXECUTE FUNCTION moved()`)

var reopenIndex = engine.Dialects("DROP TRIGGER IF EXISTS moved", "DROP FUNCTION IF EXISTS moved CASCADE")

// Reopen permits additions again after a Copy.
func (db *DB) Reopen(ctx context.Context) error {
	return db.base.Update(ctx, "reopen", func(w *engine.Write) error { return w.Script(reopenIndex) })
}

// Closed reports whether the index was copied and not reopened.
func (db *DB) Closed(ctx context.Context) (is bool, err error) {
	err = db.base.Points.Row(ctx, isClosed, nil, &is)
	return is, db.base.Fail("look up whether the depot was moved", err)
}

var isClosed = engine.Dialects("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'moved')",
	"SELECT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'moved' AND tgrelid = 'tx'::regclass)")

func (db *DB) copyTo(w *engine.Write, ctx context.Context, r engine.Reader, depot string, to *DB) error {
	var some bool
	if err := w.Row("SELECT EXISTS (SELECT 1 FROM tx) OR EXISTS (SELECT 1 FROM content)", nil, &some); err != nil {
		return err
	}
	if some {
		return ErrNotEmpty
	}
	var floor, own int64
	if err := r.Row(ctx, "SELECT format_floor FROM state WHERE one = 1", nil, &floor); err != nil {
		return err
	}
	if err := w.Row("SELECT format_floor FROM state WHERE one = 1", nil, &own); err != nil {
		return err
	}
	for _, f := range []int64{record.CompactFormat, oldkeys.BitsFormat} {
		if own < f && f <= floor {
			return errOldNodes
		}
	}
	for _, t := range copied {
		if err := db.copyTable(w, ctx, r, t.name, t.columns, t.key); err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	if err := copyCounters(w, ctx, r); err != nil {
		return err
	}
	if err := copyPacked(ctx, w, r); err != nil {
		return err
	}
	if err := copyLong(ctx, w, r); err != nil {
		return err
	}
	if err := copyPaused(ctx, w, r); err != nil {
		return err
	}
	if to.placed {
		if err := placeAll(w); err != nil {
			return err
		}
	}
	if _, err := w.Exec("UPDATE identity SET copied_from = $1, copied_generation = (SELECT generation FROM state WHERE one = 1) "+
		"WHERE one = 1", depot); err != nil {
		return err
	}
	if b := w.Bulk(); b != nil {
		return b.Copied(generated)
	}
	return nil
}

// CopyOf reports whether the index is a copy, by [DB.Copy], of the index of a depot
// with an id, and has not changed since.
func (cs Copies) CopyOf(ctx context.Context, depot string) (is bool, err error) {
	err = cs.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM identity, state "+
		"WHERE copied_from = $1 AND copied_generation = generation)", []any{depot}, &is)
	return is, cs.db.Fail("look up what the index is a copy of", err)
}

// Undo empties an index after a [DB.Copy] that has not ended. The uploads that its
// contents have taken over become finished uploads again, with leases of d.
func (cs Copies) Undo(ctx context.Context, d time.Duration) error {
	until := cs.db.Now().Add(d).UnixMilli()
	return cs.db.Update(ctx, "undo a copy", func(w *engine.Write) error {
		if _, err := w.Exec(`INSERT INTO upload (place, node, sha256, size, done, lease_until)
			SELECT place, '', sha256, size, 1, $1 FROM content WHERE place IS NOT NULL`, until); err != nil {
			return err
		}
		for _, t := range slices.Backward(copied) {
			if _, err := w.Exec("DELETE FROM " + t.name); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
		if _, err := w.Exec(`UPDATE state
			SET last_tx = 0, generation = generation + 1, contents = 0, bytes = 0, objects = 0, lookups = 0, last_object = 0
				WHERE one = 1`); err != nil {
			return err
		}
		if _, err := w.Exec("UPDATE tally SET n = 0"); err != nil {
			return err
		}
		if _, err := w.Exec("UPDATE cooling SET paused = 0"); err != nil {
			return err
		}
		if _, err := w.Exec("UPDATE old_keys SET last_object = 0, position = ''"); err != nil {
			return err
		}
		if _, err := w.Exec("UPDATE long_rows SET object = 1, last_object = 0, tx = 1, seq = 0, last_tx = 0"); err != nil {
			return err
		}
		_, err := w.Exec("UPDATE identity SET copied_from = NULL, copied_generation = NULL")
		return err
	})
}

// copyTable copies the rows of a table in the order of its key.
func (db *DB) copyTable(w *engine.Write, ctx context.Context, r engine.Reader, table, columns, key string) error {
	names := strings.Split(columns, ", ")
	scan := func(scan engine.Scan) ([]any, error) {
		row, dest := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			dest[i] = &row[i]
		}
		err := scan(dest...)
		for i, v := range row {
			if text, is := v.(string); is {
				row[i] = db.base.Given(text)
			}
		}
		return row, err
	}
	query := "SELECT " + columns + " FROM " + table + " ORDER BY " + key
	if b := w.Bulk(); b != nil {
		rows := make(chan []any, 256)
		read := make(chan error, 1)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			defer close(rows)
			read <- r.Each(ctx, false, query, nil, func(s engine.Scan) (bool, error) {
				row, err := scan(s)
				if err != nil {
					return false, err
				}
				select {
				case rows <- row:
					return true, nil
				case <-ctx.Done():
					return false, ctx.Err()
				}
			})
		}()
		err := b.Insert(ctx, table, names, func() ([]any, error) {
			if row, ok := <-rows; ok {
				return row, nil
			}
			return nil, nil
		})
		cancel()
		for range rows { // until the reader has ended
		}
		if rerr := <-read; rerr != nil && err == nil {
			err = rerr
		}
		return err
	}
	marks := make([]string, len(names))
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	insert := "INSERT INTO " + table + " (" + columns + ") VALUES (" + strings.Join(marks, ", ") + ")"
	return r.Each(ctx, false, query, nil, func(s engine.Scan) (bool, error) {
		row, err := scan(s)
		if err == nil {
			_, err = w.Exec(insert, row...)
		}
		return true, err
	})
}

// copyCounters copies the counters of the state. The generation becomes higher
// than any that a process may remember of either index.
func copyCounters(w *engine.Write, ctx context.Context, r engine.Reader) error {
	var tx, generation, contents, bytes, objects, lookups, object, late int64
	if err := r.Row(ctx, "SELECT last_tx, generation, contents, bytes, objects, lookups, last_object, late_keys FROM state WHERE one = 1", nil,
		&tx, &generation, &contents, &bytes, &objects, &lookups, &object, &late); err != nil {
		return err
	}
	if _, err := w.Exec(`UPDATE state SET last_tx = $1, generation = generation + $2, contents = $3, bytes = $4, objects = $5, lookups = $6,
		last_object = $7, late_keys = late_keys + $8 + 1, late_floor = late_keys + $8 + 1 WHERE one = 1`,
		tx, generation+1, contents, bytes, objects, lookups, object, late); err != nil {
		return err
	}
	for _, t := range []string{"miss", "wanted", "wish", "arrival"} {
		var n int64
		if err := r.Row(ctx, "SELECT n FROM tally WHERE name = $1", []any{t}, &n); err != nil {
			return err
		}
		if _, err := w.Exec("UPDATE tally SET n = $2 WHERE name = $1", t, n); err != nil {
			return err
		}
	}
	return nil
}

// copyPacked copies what is known of the packed keys. Packing begins anew.
func copyPacked(ctx context.Context, w *engine.Write, r engine.Reader) error {
	var last int64
	var begins sql.NullInt64
	if err := r.Row(ctx, "SELECT last_object, begins FROM old_keys WHERE one = 1", nil, &last, &begins); err != nil {
		return err
	}
	if _, err := w.Exec("UPDATE old_keys SET last_object = $1, begins = $2, position = '' WHERE one = 1", last, begins); err != nil {
		return err
	}
	var floor int64
	if err := w.Row("SELECT format_floor FROM state WHERE one = 1", nil, &floor); err != nil || floor < oldkeys.BitsFormat {
		return err
	}
	_, err := w.Exec("UPDATE old_keys SET long_after = '' WHERE EXISTS (SELECT 1 FROM old_key)")
	return err
}

// copyLong copies which rows may be long.
func copyLong(ctx context.Context, w *engine.Write, r engine.Reader) error {
	var object, lastObject, tx, seq, lastTx int64
	if err := r.Row(ctx, "SELECT object, last_object, tx, seq, last_tx FROM long_rows WHERE one = 1", nil,
		&object, &lastObject, &tx, &seq, &lastTx); err != nil {
		return err
	}
	_, err := w.Exec("UPDATE long_rows SET object = $1, last_object = $2, tx = $3, seq = $4, last_tx = $5 WHERE one = 1",
		object, lastObject, tx, seq, lastTx)
	return err
}

// copyPaused copies whether cooling is paused. How far it has come is not copied.
func copyPaused(ctx context.Context, w *engine.Write, r engine.Reader) error {
	var paused int64
	if err := r.Row(ctx, "SELECT paused FROM cooling WHERE one = 1", nil, &paused); err != nil {
		return err
	}
	_, err := w.Exec("UPDATE cooling SET paused = $1 WHERE one = 1", paused)
	return err
}

// strippedContent selects the record of a cold content whose plain bytes are not stored.
const strippedContent = "SELECT 1 FROM cold k WHERE k.content_id = content.id AND k.plain_since IS NULL"

// placeAll gives each content the place of a finished upload. Plain bytes of a content
// that became cold while the contents were copied are an upload that expires.
func placeAll(w *engine.Write) error {
	if _, err := w.Exec(`UPDATE content SET place = (SELECT max(u.place) FROM upload u
		WHERE u.sha256 = content.sha256 AND u.size = content.size AND u.done = 1)
		WHERE NOT EXISTS (` + strippedContent + ")"); err != nil {
		return err
	}
	var missing int64
	if err := w.Row("SELECT count(*) FROM content WHERE place IS NULL AND NOT EXISTS ("+strippedContent+")", nil, &missing); err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("%d contents: %w", missing, record.ErrNotUploaded)
	}
	_, err := w.Exec("DELETE FROM upload WHERE place IN (SELECT place FROM content)")
	return err
}
