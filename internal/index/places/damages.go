package places

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"slices"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Damages is the part of the index for contents whose stored bytes a process has found
// damaged or missing. All processes of the depot see it. It is a suspicion: who acts on it
// reads the bytes again first. The row of a content holds it, so that there is at most one
// for each content, and none for a content that was dropped.
type Damages struct{ db *engine.Database }

// NewDamages returns the damages of an index in a database.
func NewDamages(db *engine.Database) Damages { return Damages{db} }

// maxDamage is the length in bytes of the stored description of a damage.
const maxDamage = 300

// Note records what is wrong with the stored bytes of a content, unless something is
// recorded already. It does nothing for a content that the index does not have.
func (d Damages) Note(ctx context.Context, ref blob.Ref, what string) error {
	known, err := d.Of(ctx, ref)
	if err != nil || known != "" {
		return err // most often the same process has found the same
	}
	what = engine.Text(what[:min(len(what), maxDamage)])
	return d.db.UpdateUnsynced(ctx, "record a damaged content", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE content SET damage = $2 WHERE "+record.IsContent+" AND damage IS NULL", ref[:], what)
		return err
	})
}

// Of returns what was found wrong with the stored bytes of a content; "" is nothing.
func (d Damages) Of(ctx context.Context, ref blob.Ref) (what string, err error) {
	err = d.db.Points.Row(ctx, "SELECT coalesce(damage, '') FROM content WHERE "+record.IsContent, []any{ref[:]}, &what)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return what, d.db.Fail("look up a damaged content", err)
}

// Among returns those of some contents whose stored bytes were found damaged or missing,
// or that are cold, in no order: those that a transaction may heal.
func (d Damages) Among(ctx context.Context, refs []blob.Ref) (list []record.Content, err error) {
	for batch := range slices.Chunk(refs, engine.BatchRows) {
		if err := d.db.Points.Each(ctx, true, damagedAmong, []any{record.HashList(batch)}, func(scan engine.Scan) (bool, error) {
			var sum []byte
			var c record.Content
			if err := scan(&sum, &c.Size); err != nil {
				return false, err
			}
			err := record.ScanRef(sum, &c.Ref)
			list = append(list, c)
			return true, err
		}); err != nil {
			return nil, d.db.Fail("look up damaged contents", err)
		}
	}
	return list, nil
}

var damagedAmong = record.AmongContents("SELECT sha256, size FROM content "+
	"WHERE (damage IS NOT NULL OR EXISTS (SELECT 1 FROM cold k WHERE k.content_id = content.id)) AND ", "sha256", "$1", "")

// Clear records that the stored bytes of contents are intact: they were stored again, or
// read whole.
func (d Damages) Clear(ctx context.Context, refs []blob.Ref) error {
	for batch := range slices.Chunk(refs, engine.BatchRows) {
		rows := make([][]any, len(batch))
		for i, r := range batch {
			rows[i] = []any{r[:]}
		}
		if err := d.db.UpdateUnsynced(ctx, "record intact contents", func(w *engine.Write) error {
			_, err := w.Many("UPDATE content SET damage = NULL WHERE "+record.IsContent+" AND damage IS NOT NULL", rows)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// All yields the contents whose stored bytes were found damaged or missing.
func (d Damages) All(ctx context.Context) iter.Seq2[record.Content, error] {
	return func(yield func(record.Content, error) bool) {
		var id int64
		engine.Pages(ctx, d.db, yield, func(scan engine.Scan) (record.Content, error) {
			var c record.Content
			var ref []byte
			if err := scan(&id, &ref, &c.Size); err != nil {
				return c, err
			}
			return c, record.ScanRef(ref, &c.Ref)
		}, "SELECT id, sha256, size FROM content WHERE damage IS NOT NULL AND id > $1 ORDER BY id LIMIT $2",
			func() []any { return []any{id, engine.PageRows} })
	}
}
