package stage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// keepUploads is the lease of the uploads of staged contents, which Expire renews.
const keepUploads = 2 * time.Hour

// tempLife is how long a file of a stage may stay without being written to while
// it is received.
const tempLife = time.Hour

// Expire ends the stages that have expired, with their rows, and keeps the
// contents of the others in the bucket. One server does that for all, a few times
// an hour or more often.
func (s *Stages) Expire(ctx context.Context) error {
	now := s.now()
	list, err := s.db.Expired(ctx, now.Add(-s.limits.Idle), now.Add(-s.limits.Longest), now.Add(-s.limits.Quiet))
	for _, row := range list {
		if err != nil {
			break
		}
		if row.Collects {
			var ended bool
			if ended, err = s.db.End(ctx, row.ID, now.Add(-s.limits.Quiet)); ended && err == nil {
				s.dropSpool(row.ID)
				err = s.db.Clear(ctx, row.ID)
			}
			continue
		}
		var gone bool
		if gone, err = s.db.Expire(ctx, row); gone && row.Closed.IsZero() {
			s.dropSpool(row.ID)
			s.log.Info("a push was not finished and has expired", "stage", row.ID, "caller", row.Caller, "product", row.Product,
				"version", row.Version)
		}
	}
	if s.depot.InBucket() {
		open, ierr := s.db.IDs(ctx)
		if len(open) > 0 {
			ierr = s.db.KeepUploads(ctx, keepUploads)
		}
		err = errors.Join(err, ierr)
	}
	return errors.Join(err, s.db.Leftovers(ctx))
}

// Sweep deletes the files of stages that have ended from the folder of this
// server, and records that no client has asked for in a year. Each server does that once an
// hour.
func (s *Stages) Sweep(ctx context.Context) error {
	if err := s.db.SweepKnown(ctx, s.now().Add(-knownLife)); err != nil {
		return err
	}
	dirs, err := os.ReadDir(s.spool.dir)
	if err != nil {
		if isNotExist(err) {
			err = nil
		}
		return err
	}
	open, err := s.db.IDs(ctx) // after the folders were listed
	if err != nil {
		return err
	}
	for _, d := range dirs {
		switch {
		case strings.HasPrefix(d.Name(), ".") || !d.IsDir():
		case open[d.Name()]:
			sweepTemps(filepath.Join(s.spool.dir, d.Name()))
		default:
			s.dropSpool(d.Name())
		}
	}
	return nil
}

// sweepTemps deletes files that were being received when their process ended.
func sweepTemps(dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return // the stage has just ended
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), tempPrefix) {
			continue
		}
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > tempLife {
			_ = os.Remove(filepath.Join(dir, f.Name())) // another sweep may be faster
		}
	}
}

// collected drops the staged bytes that a transaction has now.
func (s *Stages) collected(ctx context.Context, row stages.StageRow, staged map[blob.Ref]int64) error {
	var refs []blob.Ref
	for ref := range staged {
		_ = os.Remove(s.spool.path(row.ID, ref)) // the sweep at the end finds what is left
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		return nil
	}
	return s.db.Taken(ctx, row.ID, refs)
}
