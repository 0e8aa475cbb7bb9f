package check

import (
	"context"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	scrubRate   = 8 << 20            // bytes per second, by default
	scrubCost   = 64 << 10           // bytes that opening a file counts as
	scrubEvery  = 7 * 24 * time.Hour // between the end of a pass and the next one
	scrubNote   = 20 * time.Second   // between two writes of the state
	scrubOthers = 5 * time.Minute    // without a write by another process until this one takes over
	scrubRest   = time.Minute        // between two looks whether a pass is due
)

// ScrubState is the progress of the background check of all stored contents.
type ScrubState = places.ScrubState

// Coverage is how many of the stored contents the background check has read.
type Coverage = places.Coverage

// Owner names this process in the state of the background check.
func (c *Checker) Owner() string { return c.owner }

// Progress returns how far the background check has come, in whichever process.
func (c *Checker) Progress(ctx context.Context) (ScrubState, error) {
	return c.home.DB.Scrub.State(ctx)
}

// Coverage returns how far the background check has come, and how many of the contents
// that are stored now it has read at least once, in whichever process.
func (c *Checker) Coverage(ctx context.Context) (st ScrubState, n Coverage, err error) {
	if st, err = c.Progress(ctx); err == nil {
		n, err = c.home.DB.Scrub.Coverage(ctx, st)
	}
	return st, n, err
}

// Scrub checks all stored contents once a week until ctx ends. It continues where
// the last process stopped.
func (c *Checker) Scrub(ctx context.Context) {
	if c.rate < 0 {
		return
	}
	for c.Wait(ctx, scrubRest) == nil {
		// While one server checks, the others do nothing.
		if _, err := c.home.DB.Nodes.Do(ctx, "scrub", 0, c.ScrubDue); err != nil && ctx.Err() == nil && !content.IsAway(err) {
			c.log.Warn("the background check of stored files failed", "error", err)
		}
	}
}

// ScrubDue starts or continues a pass if one is due and no other process is
// running it. Of several machines, only the one on duty calls it.
func (c *Checker) ScrubDue(ctx context.Context) error {
	st, err := c.Progress(ctx)
	if err != nil {
		return err
	}
	now := c.Now()
	if st.Owner != c.owner && now.Sub(st.Updated) < scrubOthers && !c.home.DB.Nodes.Shared() {
		return nil
	}
	if st.Started.IsZero() && now.Sub(st.Finished) < scrubEvery {
		return nil
	}
	return c.scrubPass(ctx, st)
}

// scrubPass checks the contents from the position of st on.
func (c *Checker) scrubPass(ctx context.Context, st ScrubState) error {
	st.Owner = c.owner
	if st.Started.IsZero() {
		st.Started, st.Position, st.Contents, st.Bytes, st.Damaged = c.Now(), 0, 0, 0, 0
	}
	noted := time.Time{}
	note := func() error {
		st.Updated = c.Now()
		noted = st.Updated
		return c.home.DB.Scrub.Put(ctx, st)
	}
	// debt is the number of bytes that have been read since the last wait.
	debt := int64(0)
	pace := func(n int) error {
		if debt += int64(n); debt < c.rate/8 {
			return ctx.Err()
		}
		pause := time.Duration(float64(debt) / float64(c.rate) * float64(time.Second))
		debt = 0
		if c.Now().Sub(noted) >= scrubNote {
			if err := note(); err != nil {
				return err
			}
		}
		return c.Wait(ctx, pause)
	}
	suspected, err := c.contents.Suspected(ctx)
	if err != nil {
		return err
	}
	// A content that is added meanwhile is read too: the pass ends when none is left.
	for before := int64(-1); before != st.Contents; {
		before = st.Contents
		for row, err := range c.home.DB.Scrub.Contents(ctx, st.Position) {
			if err != nil {
				return err
			}
			if err := c.scrubOne(ctx, &st, row, suspected[row.Ref], pace); err != nil {
				return err
			}
		}
	}
	st.Finished, st.LastContents, st.LastBytes, st.LastDamaged = c.Now(), st.Contents, st.Bytes, st.Damaged
	st.Started = time.Time{}
	c.log.Info("all stored files were checked", "contents", st.LastContents, "bytes", st.LastBytes, "damaged", st.LastDamaged)
	return note()
}

// scrubOne checks a content. One that was suspected and is intact is not suspected any
// more.
func (c *Checker) scrubOne(ctx context.Context, st *ScrubState, row places.Numbered, suspected bool, pace func(int) error) error {
	if err := pace(scrubCost); err != nil {
		return err
	}
	what, err := c.contents.Hash(ctx, row.Content, pace)
	if content.IsDenied(err) {
		c.contents.Report(err)
		st.Position = row.Number
		return nil
	}
	if err != nil {
		return err
	}
	st.Position = row.Number
	st.Contents++
	st.Bytes += row.Size
	if what == "" && suspected {
		return c.home.DB.Damages.Clear(ctx, []blob.Ref{row.Ref})
	}
	if what != "" {
		st.Damaged++
		c.contents.Report(&blob.DamageError{Ref: row.Ref, What: what})
	}
	return nil
}

// ScrubText says in one line, for people, how far the background check has come.
func ScrubText(st ScrubState) string {
	day := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
	switch {
	case !st.Started.IsZero():
		return fmt.Sprintf("background check since %s: %d contents checked, %d damaged", day(st.Started), st.Contents, st.Damaged)
	case !st.Finished.IsZero():
		return fmt.Sprintf("last complete check %s: %d contents, %d damaged", day(st.Finished), st.LastContents, st.LastDamaged)
	}
	return ""
}
