package depot

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

const (
	scrubRate   = 8 << 20            // bytes per second, by default
	scrubCost   = 64 << 10           // bytes that opening a file counts for
	scrubEvery  = 7 * 24 * time.Hour // between the beginnings of two passes
	scrubNote   = 20 * time.Second   // between two writes of the state
	scrubOthers = 5 * time.Minute    // without a write by another process until this one takes over
	scrubRest   = time.Minute        // before a look whether there is something to do
)

// ScrubState says how far the background check of all stored contents has come.
type ScrubState = index.ScrubState

// scrub checks all stored contents in the background.
type scrub struct {
	rate  int64 // bytes per second; negative: never
	owner string
	// wait waits; tests replace it.
	wait func(ctx context.Context, d time.Duration) error
}

func (s *scrub) init(rate int64) {
	s.rate, s.owner = cmp.Or(rate, scrubRate), rand.Text()
	s.wait = func(ctx context.Context, d time.Duration) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		}
	}
}

// Scrub returns how far the background check has come, in whatever process.
func (d *Depot) Scrub(ctx context.Context) (ScrubState, error) { return d.db.Scrub.State(ctx) }

// keepScrubbing checks all stored contents, one pass a week, until ctx ends. It
// goes on where the last process stopped.
func (d *Depot) keepScrubbing(ctx context.Context) {
	if d.scrub.rate < 0 {
		return
	}
	for d.scrub.wait(ctx, scrubRest) == nil {
		if err := d.scrubDue(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("the stored files could not be checked", "error", err)
		}
	}
}

// scrubDue makes or continues a pass if one is due and no other process is at
// it.
func (d *Depot) scrubDue(ctx context.Context) error {
	st, err := d.Scrub(ctx)
	if err != nil {
		return err
	}
	now := d.now()
	if st.Owner != d.scrub.owner && now.Sub(st.Updated) < scrubOthers {
		return nil
	}
	if st.Started.IsZero() && now.Sub(st.Finished) < scrubEvery {
		return nil
	}
	return d.scrubPass(ctx, st)
}

// scrubPass checks the contents from the position of st on.
func (d *Depot) scrubPass(ctx context.Context, st ScrubState) error {
	st.Owner = d.scrub.owner
	if st.Started.IsZero() {
		st.Started, st.Position, st.Contents, st.Bytes, st.Damaged = d.now(), 0, 0, 0, 0
	}
	noted := time.Time{}
	note := func() error {
		st.Updated = d.now()
		noted = st.Updated
		return d.db.Scrub.Put(ctx, st)
	}
	// debt is what was read and not waited for yet, in bytes.
	debt := int64(0)
	pace := func(n int) error {
		if debt += int64(n); debt < d.scrub.rate/8 {
			return ctx.Err()
		}
		pause := time.Duration(float64(debt) / float64(d.scrub.rate) * float64(time.Second))
		debt = 0
		if d.now().Sub(noted) >= scrubNote {
			if err := note(); err != nil {
				return err
			}
		}
		return d.scrub.wait(ctx, pause)
	}
	for c, err := range d.db.Scrub.Contents(ctx, st.Position) {
		if err != nil {
			return err
		}
		if err := pace(scrubCost); err != nil {
			return err
		}
		what, err := d.hashContent(ctx, c.Content, pace)
		if err != nil {
			return err
		}
		st.Position = c.Number
		st.Contents++
		st.Bytes += c.Size
		if what != "" {
			st.Damaged++
			d.damage.report(&blob.DamageError{Ref: c.Ref, What: what})
		}
	}
	st.Finished, st.LastContents, st.LastBytes, st.LastDamaged = d.now(), st.Contents, st.Bytes, st.Damaged
	st.Started = time.Time{}
	d.log.Info("all stored files were checked", "contents", st.LastContents, "bytes", st.LastBytes, "damaged", st.LastDamaged)
	return note()
}

// ScrubText says in one line, for people, how far the background check has come.
func ScrubText(st ScrubState) string {
	day := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
	switch {
	case !st.Started.IsZero():
		return fmt.Sprintf("background check since %s: %d contents checked, %d damaged", day(st.Started), st.Contents, st.Damaged)
	case !st.Finished.IsZero():
		return fmt.Sprintf("last background check ended %s: %d contents, %d damaged", day(st.Finished), st.LastContents, st.LastDamaged)
	}
	return ""
}
