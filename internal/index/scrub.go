package index

import (
	"context"
	"database/sql"
	"iter"
	"time"
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
type Scrub struct{ db *DB }

// State returns the last written state.
func (s Scrub) State(ctx context.Context) (ScrubState, error) {
	var st ScrubState
	var updated int64
	var started, finished sql.NullInt64
	err := s.db.scans.row(ctx, `SELECT owner, updated, position, started, contents, bytes, damaged, last_finished, last_contents, last_bytes, last_damaged
		FROM scrub WHERE one = 1`, nil, &st.Owner, &updated, &st.Position, &started, &st.Contents, &st.Bytes, &st.Damaged,
		&finished, &st.LastContents, &st.LastBytes, &st.LastDamaged)
	if updated != 0 {
		st.Updated = time.UnixMilli(updated).UTC()
	}
	st.Started, st.Finished = fromMillis(started), fromMillis(finished)
	return st, s.db.fail("read the progress of the background check", err)
}

// Put writes the state. It does not wait for the disk and does not change the
// generation.
func (s Scrub) Put(ctx context.Context, st ScrubState) error {
	return s.db.updateUnsynced(ctx, "write the progress of the background check", func(w *write) error {
		_, err := w.exec(`UPDATE scrub SET owner = $1, updated = $2, position = $3, started = $4, contents = $5, bytes = $6, damaged = $7,
			last_finished = $8, last_contents = $9, last_bytes = $10, last_damaged = $11 WHERE one = 1`,
			text(st.Owner), st.Updated.UnixMilli(), st.Position, millis(st.Started), st.Contents, st.Bytes, st.Damaged,
			millis(st.Finished), st.LastContents, st.LastBytes, st.LastDamaged)
		return err
	})
}

// Numbered is a content with its number in the index.
type Numbered struct {
	Number int64
	Content
}

// Contents yields the contents with a higher number than after whose bytes are stored
// as they are, in order.
func (s Scrub) Contents(ctx context.Context, after int64) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		id := after
		pages(ctx, s.db, yield, func(scan func(...any) error) (Numbered, error) {
			var n Numbered
			var ref []byte
			if err := scan(&id, &ref, &n.Size); err != nil {
				return n, err
			}
			n.Number = id
			return n, scanRef(ref, &n.Ref)
		}, storedContents, func() []any { return []any{id, pageRows} })
	}
}
