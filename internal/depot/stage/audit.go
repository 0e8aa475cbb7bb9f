package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// auditQuiet is how long a stage must not have been used to be audited: files of one in
// use may be between their arrival and their transaction.
const auditQuiet = time.Minute

// auditBatch is the number of files that are looked up together.
const auditBatch = 1000

// Audit calls report for each accepted file of a stage that does not stand in the
// transaction of the stage. It reads the stages that collect files and those whose rows
// a commit has left.
func (s *Stages) Audit(ctx context.Context, report func(text string)) error {
	list, err := s.db.Published(ctx)
	if err != nil {
		return err
	}
	for _, row := range list {
		if s.now().Sub(row.Used) < auditQuiet {
			continue
		}
		if err := s.auditStage(ctx, row, report); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stages) auditStage(ctx context.Context, row stages.StageRow, report func(string)) error {
	var batch []record.Entry
	flush := func() error {
		lost, err := s.db.Unfound(ctx, row.Number, batch)
		for _, i := range lost {
			report(fmt.Sprintf("%s was accepted from %s for product %q and is not found in build %d", batch[i].Path,
				row.Caller, row.Product, row.Number))
		}
		batch = batch[:0]
		return err
	}
	if err := s.db.Files(ctx, row.ID, func(f stages.StageFile) error {
		if f.State != stages.StageArrived && f.State != stages.StageKnown {
			return nil
		}
		some, err := entries(f)
		if err != nil {
			report(fmt.Sprintf("%s was accepted from %s for product %q, and its record cannot be read: %v", f.Path, row.Caller, row.Product, err))
		}
		if batch = append(batch, some...); len(batch) < auditBatch {
			return nil
		}
		return flush()
	}); err != nil {
		return err
	}
	return flush()
}

// Staged returns the receipt of a file of an open stage with a SHA-1, in lower-case hex.
// held is false if the stage does not have it, or not any more.
func (s *Stages) Staged(ctx context.Context, c Caller, id, sha1 string) (r Receipt, held bool, err error) {
	if _, err := s.open(ctx, c, id); err != nil {
		return r, false, err
	}
	content, err := s.db.BySHA1(ctx, sha1)
	if isNotExist(err) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	files, err := s.db.FilesOf(ctx, id, []blob.Ref{content.Ref})
	for _, f := range files {
		if f.State == stages.StageArrived || f.State == stages.StageKnown {
			return receiptOf(f), true, err
		}
	}
	return r, false, err
}
