package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/index"
)

// Kind is the kind of a Refusal.
type Kind int

// The kinds of refusals, with the HTTP status that fits.
const (
	NotFound  Kind = iota + 1 // 404: there is no such stage of the caller
	Invalid                   // 400: the request contradicts itself or the protocol
	TooLarge                  // 413: the file or the stage is above a limit
	Quota                     // 413 or 507: the product would be above its quota
	TooMany                   // 429: the caller has too many open stages
	Busy                      // 503: try again later
	NoSpace                   // 507: the disk is full
	Conflict                  // 409: the stage is committed, or contents are missing
	WrongHash                 // 422: the bytes do not have the announced hash or size
	Forbidden                 // 403
	NotSymbol                 // 422: the file is no symbol file with an id, or has another id than announced
	Lost                      // 500: files that were accepted are not in the transaction
)

// Refusal is an error that a client can do something about.
type Refusal struct {
	Kind Kind
	Text string // for users
	// Missing are contents to send again before the commit, at most 1,000.
	Missing []blob.Ref
}

func (r *Refusal) Error() string { return r.Text }

func refuse(k Kind, format string, v ...any) *Refusal {
	return &Refusal{Kind: k, Text: fmt.Sprintf(format, v...)}
}

func notFound(id string) *Refusal {
	return refuse(NotFound, "there is no stage %.40q: it has expired or was deleted", id)
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// explain returns the Refusal for an error of the index or the disk, if there is one. A
// stage is gone only if the index has none: a file or a content may be missing, too.
func (s *Stages) explain(ctx context.Context, err error, id string) error {
	_, done := errors.AsType[*Refusal](err)
	need, needs := errors.AsType[*index.NeedError](err)
	lost, isLost := errors.AsType[*LostError](err)
	switch limit, is := errors.AsType[*index.StageLimitError](err); {
	case err == nil || done:
		return err
	case needs:
		return noSuchNeed(need.Number)
	case isLost:
		return refuse(Lost, "%v", lost)
	case is && limit.Files > s.limits.MaxFiles:
		return refuse(TooLarge, "the stage would have %d files, and the limit is %d", limit.Files, s.limits.MaxFiles)
	case is:
		return refuse(TooLarge, "the files of the stage would have %d bytes, and the limit is %d", limit.Bytes, s.limits.MaxBytes)
	case errors.Is(err, index.ErrStageClosed):
		return refuse(Conflict, "the stage is committed, or has changed meanwhile; look at its state")
	case errors.Is(err, index.ErrStageMoved):
		return refuse(Busy, "another server has the parts of this push now; try again")
	case durable.IsNoSpace(err) || errors.Is(err, index.ErrNoSpace):
		return refuse(NoSpace, "the disk of the server is full; nothing was lost, try again later")
	case errors.Is(err, index.ErrBusy):
		return refuse(Busy, "other writers hold the index; try again later")
	case isNotExist(err):
		if _, gone := s.db.Get(ctx, id); isNotExist(gone) {
			return notFound(id)
		}
	}
	return err
}
