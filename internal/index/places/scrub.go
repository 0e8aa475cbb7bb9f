package places

import (
	"context"
	"database/sql"
	"iter"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// ScrubState is the progress of the background check of all contents.
type ScrubState struct {
	// Owner is the process that runs the check, Updated the time of the last
	// write.
	Owner   string    `json:"-"`
	Updated time.Time `json:"updated,omitzero"`
	// Position is the number of the content checked last.
	Position int64 `json:"-"`
	// Started is when the running pass began; zero between two passes. Contents,
	// Bytes and Damaged are the counts of this pass.
	Started  time.Time `json:"started,omitzero"`
	Contents int64     `json:"contents"`
	Bytes    int64     `json:"bytes"`
	Damaged  int64     `json:"damaged"`
	// Finished is when the last complete pass ended; zero before the first one.
	// The other three fields are its counts.
	Finished     time.Time `json:"finished,omitzero"`
	LastContents int64     `json:"last_contents"`
	LastBytes    int64     `json:"last_bytes"`
	LastDamaged  int64     `json:"last_damaged"`
}

// Scrub stores the progress of the background check of all contents.
type Scrub struct{ db *engine.Database }

// NewScrub returns the progress of the check of an index in a database.
func NewScrub(db *engine.Database) Scrub { return Scrub{db} }

// State returns the last written state.
func (s Scrub) State(ctx context.Context) (ScrubState, error) {
	var st ScrubState
	var updated int64
	var started, finished sql.NullInt64
	err := s.db.Scans.Row(ctx,
		`SELECT owner, updated, position, started, contents, bytes, damaged, last_finished, last_contents, last_bytes, last_damaged
		FROM scrub WHERE one = 1`, nil, &st.Owner, &updated, &st.Position, &started, &st.Contents, &st.Bytes, &st.Damaged,
		&finished, &st.LastContents, &st.LastBytes, &st.LastDamaged)
	if updated != 0 {
		st.Updated = time.UnixMilli(updated).UTC()
	}
	st.Started, st.Finished = engine.FromMillis(started), engine.FromMillis(finished)
	return st, s.db.Fail("read the progress of the background check", err)
}

// Coverage is how many of the contents whose bytes are stored as they are the background
// check has read at least once.
type Coverage struct{ Read, Stored int64 }

// Coverage returns how many contents were read by the check that is in this state. A
// content that was added since is not among them, also if it has the number of a deleted one.
func (s Scrub) Coverage(ctx context.Context, st ScrubState) (c Coverage, err error) {
	before := int64(-1) // contents added until then were read by the last complete pass
	if !st.Started.IsZero() && !st.Finished.IsZero() {
		before = st.Finished.UnixMilli()
	}
	err = s.db.Scans.Row(ctx, `SELECT count(*), coalesce(sum(CASE WHEN c.id <= $1 AND c.added <= $2 OR c.added <= $3 THEN 1 ELSE 0 END), 0)
		FROM (SELECT c.id, `+record.AddedColumn+` AS added FROM content c) AS c
		WHERE NOT EXISTS (SELECT 1 FROM cold k WHERE k.content_id = c.id AND k.plain_since IS NULL)`,
		[]any{st.Position, st.Updated.UnixMilli(), before}, &c.Stored, &c.Read)
	return c, s.db.Fail("count the contents that the background check has read", err)
}

// Put writes the state. It does not wait for the disk and does not change the
// generation.
func (s Scrub) Put(ctx context.Context, st ScrubState) error {
	return s.db.UpdateUnsynced(ctx, "write the progress of the background check", func(w *engine.Write) error {
		_, err := w.Exec(`UPDATE scrub SET owner = $1, updated = $2, position = $3, started = $4, contents = $5, bytes = $6, damaged = $7,
			last_finished = $8, last_contents = $9, last_bytes = $10, last_damaged = $11 WHERE one = 1`,
			engine.Text(st.Owner), st.Updated.UnixMilli(), st.Position, engine.Millis(st.Started), st.Contents, st.Bytes, st.Damaged,
			engine.Millis(st.Finished), st.LastContents, st.LastBytes, st.LastDamaged)
		return err
	})
}

// Finish records a complete pass at once: all contents that were stored at the time began
// were read. Nothing is recorded if another process works on a pass, that is, has written
// since the time alive.
func (s Scrub) Finish(ctx context.Context, began, alive time.Time, contents, bytes, damaged int64) error {
	return s.db.UpdateUnsynced(ctx, "record a complete check", func(w *engine.Write) error {
		_, err := w.Exec(`UPDATE scrub SET updated = $1, position = (SELECT coalesce(max(id), 0) FROM content), started = NULL, damaged = $4,
			last_finished = $1, last_contents = $2, last_bytes = $3, last_damaged = $4 WHERE one = 1 AND (started IS NULL OR updated < $5)`,
			began.UnixMilli(), contents, bytes, damaged, alive.UnixMilli())
		return err
	})
}

// Numbered is a content with its number in the index.
type Numbered struct {
	Number int64
	record.Content
}

// Contents yields the contents with a higher number than after whose bytes are stored
// as they are, in order.
func (s Scrub) Contents(ctx context.Context, after int64) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		id := after
		engine.Pages(ctx, s.db, yield, func(scan engine.Scan) (Numbered, error) {
			var n Numbered
			var ref []byte
			if err := scan(&id, &ref, &n.Size); err != nil {
				return n, err
			}
			n.Number = id
			return n, record.ScanRef(ref, &n.Ref)
		}, record.StoredContents, func() []any { return []any{id, engine.PageRows} })
	}
}
