package depot

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Confirmations check what an answer of success promises, before it is given: each file
// that was accepted is in the transaction, and a request finds it by each of its keys,
// with the bytes that were sent. They hold for every way into the depot.
type Confirmations struct {
	db      *index.DB
	suspect func(blob.Ref) bool
	log     *slog.Logger
	lost    atomic.Uint64
}

func newConfirmations(db *index.DB, suspect func(blob.Ref) bool, log *slog.Logger) *Confirmations {
	return &Confirmations{db: db, suspect: suspect, log: log}
}

// Lost returns how many files were accepted and not found afterwards since the process
// began. It should stay zero.
func (c *Confirmations) Lost() uint64 { return c.lost.Load() }

// acceptedFile is equal for entries that requests cannot tell apart.
type acceptedFile struct {
	ref  blob.Ref
	name string
	kind symfile.Kind
}

func acceptedAs(e record.Entry) acceptedFile {
	return acceptedFile{e.Ref, symfile.Fold(e.Object.Name), e.Object.Kind}
}

// covers returns a *stage.LostError if a transaction that is not committed yet lacks
// accepted entries.
func (c *Confirmations) covers(entries, accepted []record.Entry) error {
	if len(accepted) == 0 {
		return nil
	}
	has := make(map[acceptedFile]bool, len(entries))
	for _, e := range entries {
		has[acceptedAs(e)] = true
	}
	var missing []record.Entry
	for _, e := range accepted {
		if !has[acceptedAs(e)] {
			missing = append(missing, e)
		}
	}
	return c.report(0, missing)
}

// found returns a *stage.LostError if entries of a committed transaction are not found, or
// their contents are lost.
func (c *Confirmations) found(ctx context.Context, number int64, entries []record.Entry, lost []blob.Ref) error {
	// The client may leave, but a fault must be noticed.
	positions, err := c.db.Unfound(context.WithoutCancel(ctx), number, entries)
	if err != nil {
		return err
	}
	var missing []record.Entry
	for _, i := range positions {
		missing = append(missing, entries[i])
	}
	isLost := make(map[blob.Ref]bool, len(lost))
	for _, ref := range lost {
		isLost[ref] = true
	}
	for _, e := range entries {
		if isLost[e.Ref] || c.suspect(e.Ref) {
			missing = append(missing, e)
		}
	}
	return c.report(number, missing)
}

// report notes lost files and returns their error; nil if there are none.
func (c *Confirmations) report(number int64, missing []record.Entry) error {
	if len(missing) == 0 {
		return nil
	}
	e := &stage.LostError{Transaction: number, Files: len(missing), Path: missing[0].Path}
	if len(missing[0].Aliases) > 0 {
		e.ID = missing[0].Aliases[0].ID
	}
	c.lost.Add(uint64(len(missing)))
	c.log.Error("accepted files are not found", "build", number, "files", len(missing),
		"path", e.Path, "id", e.ID, "content", missing[0].Ref)
	return e
}
