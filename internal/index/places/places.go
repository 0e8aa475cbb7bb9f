// Package places is the part of an index for where the bytes of contents are and whether they
// are intact: uploads and objects in a bucket, the identity of the database that may delete
// them, contents whose bytes were found damaged, and how far the check of all has come.
package places

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Places is the part of the index for contents in a bucket.
//
// A place is the name of one object in the bucket, for one upload of one
// content. It is never used again, because a delayed deletion in the store could
// otherwise hit a later upload. A place goes through three tables:
//
//   - Begin writes it to the uploads, before the first byte is sent.
//   - Done marks it after the store has acknowledged the whole object. From then
//     on a commit of the same content takes it over; an earlier place of the
//     content is doomed.
//   - Abandon, an expired lease, or the removal of the content doom it. Only
//     doomed objects are deleted in the store, after a delay, and a doomed place
//     never comes back.
type Places struct{ db *engine.Database }

// NewPlaces returns the places of an index in a database.
func NewPlaces(db *engine.Database) Places { return Places{db} }

// Begin records uploads of a node, durably, before they begin. Their leases end
// after d; Renew extends them.
func (ps Places) Begin(ctx context.Context, node string, d time.Duration, uploads []record.Upload) error {
	until := ps.db.Now().Add(d).UnixMilli()
	return ps.db.Update(ctx, "begin uploads", func(w *engine.Write) error {
		rows := make([][]any, len(uploads))
		for i, u := range uploads {
			rows[i] = []any{u.Place, engine.Text(node), u.Ref[:], u.Size, until}
		}
		_, err := w.Many("INSERT INTO upload (place, node, sha256, size, done, lease_until) VALUES ($1, $2, $3, $4, 0, $5)", rows)
		return err
	})
}

// Done marks uploads that the store has acknowledged, durably. If the lease of
// one of them has expired and it was abandoned, the error wraps ErrNotUploaded,
// and none is marked.
func (ps Places) Done(ctx context.Context, places []string) error {
	return ps.db.Update(ctx, "end uploads", func(w *engine.Write) error {
		marked, err := w.Many("UPDATE upload SET done = 1 WHERE place = $1", argLists(places))
		if i := slices.Index(marked, 0); i >= 0 {
			return fmt.Errorf("upload %s: its lease has expired: %w", places[i], record.ErrNotUploaded)
		}
		return err
	})
}

// Finished reports whether there is an upload of a content that is done and that
// no commit has taken over.
func (ps Places) Finished(ctx context.Context, c record.Content) (is bool, err error) {
	err = ps.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM upload WHERE sha256 = $1 AND size = $2 AND done = 1)",
		[]any{c.Ref[:], c.Size}, &is)
	return is, ps.db.Fail("look up an upload", err)
}

// IsUpload reports whether a place is that of an upload: neither doomed nor taken over.
func (ps Places) IsUpload(ctx context.Context, place string) (is bool, err error) {
	err = ps.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM upload WHERE place = $1)", []any{place}, &is)
	return is, ps.db.Fail("look up an upload", err)
}

// Extend extends the leases of all uploads that are done to d from now.
func (ps Places) Extend(ctx context.Context, d time.Duration) error {
	until := ps.db.Now().Add(d).UnixMilli()
	return ps.db.UpdateUnsynced(ctx, "extend uploads", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE upload SET lease_until = $1 WHERE done = 1 AND lease_until < $1", until)
		return err
	})
}

// Renew extends the leases of those of the places that are still uploads to d
// from now.
func (ps Places) Renew(ctx context.Context, places []string, d time.Duration) error {
	until := ps.db.Now().Add(d).UnixMilli()
	for batch := range slices.Chunk(places, engine.BatchRows) {
		if err := ps.db.UpdateUnsynced(ctx, "renew uploads", func(w *engine.Write) error {
			_, err := w.Many("UPDATE upload SET lease_until = $2 WHERE place = $1", argLists(batch, until))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Abandon dooms those of the places that are still uploads. A crash before that
// leaves them to Expire.
func (ps Places) Abandon(ctx context.Context, places []string) error {
	now := ps.db.Now().UnixMilli()
	for batch := range slices.Chunk(places, engine.BatchRows) {
		if err := ps.db.UpdateUnsynced(ctx, "abandon uploads", func(w *engine.Write) error { return doomUploads(w, batch, now) }); err != nil {
			return err
		}
	}
	return nil
}

// argLists returns the arguments for each place: the place, and more.
func argLists(places []string, more ...any) [][]any {
	rows := make([][]any, len(places))
	for i, p := range places {
		rows[i] = append([]any{p}, more...)
	}
	return rows
}

// doom moves those of the places that are uploads to the doomed places.
func doomUploads(w *engine.Write, places []string, now int64) error {
	if _, err := w.Many("INSERT INTO doomed (place, sha256, size, since) SELECT place, sha256, size, $2 FROM upload "+
		"WHERE place = $1", argLists(places, now)); err != nil {
		return err
	}
	_, err := w.Many("DELETE FROM upload WHERE place = $1", argLists(places))
	return err
}

// Expire dooms the uploads whose leases ended before a time, and returns their
// number.
func (ps Places) Expire(ctx context.Context, before time.Time) (n int, err error) {
	for {
		var batch []string
		err := ps.db.Update(ctx, "doom expired uploads", func(w *engine.Write) error {
			batch = nil
			if err := w.Each("SELECT place FROM upload WHERE lease_until < $1 ORDER BY lease_until LIMIT $2",
				[]any{before.UnixMilli(), engine.PageRows}, func(scan engine.Scan) error {
					var p string
					err := scan(&p)
					batch = append(batch, p)
					return err
				}); err != nil {
				return err
			}
			return doomUploads(w, batch, ps.db.Now().UnixMilli())
		})
		if err != nil {
			return n, err
		}
		if n += len(batch); len(batch) < engine.PageRows {
			return n, nil
		}
	}
}

// Of returns the place of a content, its size, and when it was first added. If
// the index does not have the content, or keeps it on disk, the error is
// fs.ErrNotExist.
func (ps Places) Of(ctx context.Context, ref blob.Ref) (u record.Upload, added time.Time, err error) {
	u.Ref = ref
	var at int64
	err = ps.db.Points.Row(ctx, "SELECT place, size, "+record.AddedColumn+", coalesce(damage, '') FROM content c "+
		"WHERE "+record.IsC+" AND place IS NOT NULL", []any{ref[:]}, &u.Place, &u.Size, &at, &u.Damage)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return u, time.UnixMilli(at).UTC(), ps.db.Fail("look up a place", err)
}

// Doomed yields the places that were doomed before a time and are not deleted
// yet, oldest first. Places that are doomed or deleted meanwhile may or may not
// be included.
func (ps Places) Doomed(ctx context.Context, before time.Time) iter.Seq2[record.Upload, error] {
	return func(yield func(record.Upload, error) bool) {
		since, place := int64(-1)<<62, ""
		engine.Pages(ctx, ps.db, yield, func(scan engine.Scan) (record.Upload, error) {
			var u record.Upload
			var ref []byte
			if err := scan(&since, &place, &ref, &u.Size); err != nil {
				return u, err
			}
			u.Place = place
			return u, record.ScanRef(ref, &u.Ref)
		}, `SELECT since, place, sha256, size FROM doomed WHERE swept IS NULL AND since < $1 AND (since, place) > ($2, $3)
			ORDER BY since, place LIMIT $4`, func() []any { return []any{before.UnixMilli(), since, place, engine.PageRows} })
	}
}

// Hurry makes the doomed places of contents as old as can be: whoever deletes the objects of places that were
// doomed for some time deletes theirs now, and [Places.Hurried] yields them.
func (ps Places) Hurry(ctx context.Context, refs []blob.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	return ps.db.Update(ctx, "hurry doomed places", func(w *engine.Write) error {
		rows := make([][]any, len(refs))
		for i, ref := range refs {
			rows[i] = []any{ref[:]}
		}
		_, err := w.Many("UPDATE doomed SET since = 0 WHERE sha256 = $1 AND swept IS NULL", rows)
		return err
	})
}

// Hurried yields the places of [Places.Hurry] that are not deleted yet, as [Places.Doomed].
func (ps Places) Hurried(ctx context.Context) iter.Seq2[record.Upload, error] {
	return ps.Doomed(ctx, time.UnixMilli(1))
}

// Pending returns the number and the bytes of the doomed places whose objects are
// not deleted yet.
func (ps Places) Pending(ctx context.Context) (n, bytes int64, err error) {
	err = ps.db.Scans.Row(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM doomed WHERE swept IS NULL", nil, &n, &bytes)
	return n, bytes, ps.db.Fail("count doomed places", err)
}

// Swept records that the store has deleted the objects of doomed places.
func (ps Places) Swept(ctx context.Context, places []string) error {
	now := ps.db.Now().UnixMilli()
	for batch := range slices.Chunk(places, engine.BatchRows) {
		if err := ps.db.Update(ctx, "record deleted objects", func(w *engine.Write) error {
			_, err := w.Many("UPDATE doomed SET swept = $2 WHERE place = $1", argLists(batch, now))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Resweep yields the places whose objects were deleted before a time. They are
// deleted a second time, because an upload that timed out can arrive late, and
// are then forgotten by Forget.
func (ps Places) Resweep(ctx context.Context, before time.Time) iter.Seq2[record.Upload, error] {
	return func(yield func(record.Upload, error) bool) {
		swept, place := int64(-1)<<62, ""
		engine.Pages(ctx, ps.db, yield, func(scan engine.Scan) (record.Upload, error) {
			var u record.Upload
			var ref []byte
			if err := scan(&swept, &place, &ref, &u.Size); err != nil {
				return u, err
			}
			u.Place = place
			return u, record.ScanRef(ref, &u.Ref)
		}, `SELECT swept, place, sha256, size FROM doomed WHERE swept IS NOT NULL AND swept < $1 AND (swept, place) > ($2, $3)
			ORDER BY swept, place LIMIT $4`, func() []any { return []any{before.UnixMilli(), swept, place, engine.PageRows} })
	}
}

// Forget deletes the rows of deleted places.
func (ps Places) Forget(ctx context.Context, places []string) error {
	for batch := range slices.Chunk(places, engine.BatchRows) {
		if err := ps.db.Update(ctx, "forget deleted objects", func(w *engine.Write) error {
			_, err := w.Many("DELETE FROM doomed WHERE place = $1 AND swept IS NOT NULL", argLists(batch))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

var knownPlace = `SELECT EXISTS (SELECT 1 FROM content WHERE ` + record.HashIs("sha256", "$2") + ` AND place = $1)
	OR EXISTS (SELECT 1 FROM upload WHERE place = $1) OR EXISTS (SELECT 1 FROM doomed WHERE place = $1)`

var doomStray = engine.Dialects("INSERT INTO doomed (place, sha256, size, since) SELECT $1, $2, $3, $4 WHERE NOT ("+knownPlace+")",
	"INSERT INTO doomed (place, sha256, size, since) SELECT $1::text, $2::bytea, $3::bigint, $4::bigint WHERE NOT ("+knownPlace+")")

// Known reports whether the index has a place, with this content, in any table.
func (ps Places) Known(ctx context.Context, u record.Upload) (known bool, err error) {
	err = ps.db.Points.Row(ctx, knownPlace, []any{u.Place, u.Ref[:]}, &known)
	return known, ps.db.Fail("look up a place", err)
}

// Stray dooms objects of the bucket that the index does not know.
func (ps Places) Stray(ctx context.Context, strays []record.Upload) error {
	now := ps.db.Now().UnixMilli()
	return ps.db.Update(ctx, "doom unknown objects", func(w *engine.Write) error {
		rows := make([][]any, len(strays))
		for i, u := range strays {
			rows[i] = []any{u.Place, u.Ref[:], u.Size, now}
		}
		_, err := w.Many(doomStray, rows)
		return err
	})
}

// GiveUp takes the place from a content whose object is missing or damaged, and dooms
// it. The next upload of the content gives it another one; until then the error of Of
// is fs.ErrNotExist. It does nothing if the content has another place by now.
func (ps Places) GiveUp(ctx context.Context, u record.Upload) error {
	return ps.db.Update(ctx, "give up an object", func(w *engine.Write) error {
		n, err := w.Exec("UPDATE content SET place = NULL WHERE "+record.IsContent+" AND place = $2", u.Ref[:], u.Place)
		if err != nil || n == 0 {
			return err
		}
		_, err = w.Exec("INSERT INTO doomed (place, sha256, size, since) VALUES ($1, $2, $3, $4)",
			u.Place, u.Ref[:], u.Size, ps.db.Now().UnixMilli())
		return err
	})
}

// Count returns the number of contents in the bucket.
func (ps Places) Count(ctx context.Context) (n int64, err error) {
	err = ps.db.Points.Row(ctx, "SELECT contents FROM state WHERE one = 1", nil, &n)
	return n, ps.db.Fail("count", err)
}

// hashOrder returns the order of contents by their hashes, as the index has it that they have now.
func (ps Places) hashOrder(ctx context.Context) (string, error) {
	if ps.db.Shared() {
		return "sha256", nil
	}
	var heads bool
	err := ps.db.Scans.Row(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_schema "+
		"WHERE name = 'content_by_head' AND tbl_name = 'content')", nil, &heads)
	if err != nil || !heads {
		return "sha256", err
	}
	return record.Head("sha256") + ", sha256", nil
}

// Named yields the places of the contents with hashes from low to high, in their
// order. Contents that are added or dropped meanwhile may or may not be included.
func (ps Places) Named(ctx context.Context, low, high blob.Ref) iter.Seq2[record.Upload, error] {
	return func(yield func(record.Upload, error) bool) {
		order, err := ps.hashOrder(ctx)
		if err != nil {
			yield(record.Upload{}, ps.db.Fail("list places", err))
			return
		}
		from, after := low, false
		engine.Pages(ctx, ps.db, yield, func(scan engine.Scan) (record.Upload, error) {
			var u record.Upload
			var ref []byte
			if err := scan(&u.Place, &ref, &u.Size); err != nil {
				return u, err
			}
			err := record.ScanRef(ref, &u.Ref)
			from, after = u.Ref, true
			return u, err
		}, "SELECT place, sha256, size FROM content WHERE place IS NOT NULL AND "+record.HashBetween("sha256", "$1", "$2")+
			" AND NOT ($3 AND sha256 = $1) ORDER BY "+order+" LIMIT $4", func() []any {
			at := from
			return []any{at[:], high[:], after, engine.PageRows}
		})
	}
}
