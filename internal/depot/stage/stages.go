package stage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/index/stages"
)

// Options of New.
type Options struct {
	// Dir is the folder of the staged bytes. It exists and is on the file system of
	// the depot's contents.
	Dir string
	// Node names this server among those of one depot; empty if there is only one.
	Node string
	// Peers are the others; nil: this server does not reach them.
	Peers  Peers
	Limits Limits
	// Perm is the mode of new files, which the umask reduces; zero is 0600.
	Perm fs.FileMode
	Log  *slog.Logger
	Now  func() time.Time
}

// Stages are the stages of a depot. Their methods may be called by many
// goroutines, and several processes may have the same depot.
//
// An error that a client can do something about is a *Refusal.
type Stages struct {
	db     index.Stages
	depot  Depot
	node   string
	peers  Peers
	limits Limits
	log    *slog.Logger
	now    func() time.Time

	spool    spool
	marks    marks
	partials partials
	// Bases are the contents from which clients write recipes.
	Bases *Bases
}

// New returns the stages of a depot.
func New(db index.Stages, depot Depot, opt Options) *Stages {
	limits := opt.Limits.withDefaults()
	s := &Stages{
		db: db, depot: depot, node: opt.Node, peers: opt.Peers, limits: limits, log: opt.Log, now: opt.Now,
		partials: partials{all: map[partialKey]*partial{}},
		spool:    spool{db: db, depot: depot, dir: opt.Dir, limits: limits, perm: cmp.Or(opt.Perm, 0o600), began: time.Now(), now: opt.Now},
	}
	s.marks.write, s.Bases = db.Arrive, newBases(s)
	return s
}

// Limits returns the limits, and the quotas of the products that the caller may
// add to.
func (s *Stages) Limits(ctx context.Context, c Caller) (Limits, error) {
	l := s.limits
	l.Quotas = nil
	for product, most := range s.limits.Quotas {
		if !c.Write(product) {
			continue
		}
		used, err := s.db.ProductBytes(ctx, product)
		if err != nil {
			return l, err
		}
		l.Used = append(l.Used, ProductQuota{product, most, used})
	}
	sorting.By(l.Used, func(a, b ProductQuota) int { return strings.Compare(a.Product, b.Product) })
	return l, nil
}

// UploadDir is a folder of this server beside that of the staged bytes, for bodies
// of uploads that are not part of a stage yet. It may not exist.
func (s *Stages) UploadDir() string { return filepath.Join(filepath.Dir(s.spool.dir), "uploads") }

// explain returns the Refusal for an error of the index or the disk, if there is one. A
// stage is gone only if the index has none: a file or a content may be missing, too.
func (s *Stages) explain(ctx context.Context, err error, id string) error {
	_, done := errors.AsType[*Refusal](err)
	need, needs := errors.AsType[*removals.NeedError](err)
	lost, isLost := errors.AsType[*LostError](err)
	switch limit, is := errors.AsType[*stages.StageLimitError](err); {
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
	case errors.Is(err, stages.ErrStageClosed):
		return refuse(Conflict, "the stage is committed, or has changed meanwhile; look at its state")
	case errors.Is(err, stages.ErrStageMoved):
		return refuse(Busy, "another server has the parts of this push now; try again")
	case durable.IsNoSpace(err) || errors.Is(err, engine.ErrNoSpace):
		return refuse(NoSpace, "the disk of the server is full; nothing was lost, try again later")
	case errors.Is(err, engine.ErrBusy):
		return refuse(Busy, "other writers hold the index; try again later")
	case isNotExist(err):
		if _, gone := s.db.Get(ctx, id); isNotExist(gone) {
			return notFound(id)
		}
	}
	return err
}

// dropSpool deletes the files of a stage that has ended.
func (s *Stages) dropSpool(id string) {
	s.partials.forgetStage(id)
	if err := os.RemoveAll(s.spool.folder(id)); err != nil {
		s.log.Warn("cannot delete the files of a stage; the next sweep does", "stage", id, "error", err)
	}
}

// row returns a stage of the caller. Those of others are not found.
func (s *Stages) row(ctx context.Context, c Caller, id string) (stages.StageRow, error) {
	if len(id) != len(rand.Text()) || !filepath.IsLocal(id) {
		return stages.StageRow{}, notFound(id)
	}
	row, err := s.db.Get(ctx, id)
	if err != nil || row.Owner != c.ID || c.ID == "" {
		if err == nil || isNotExist(err) {
			err = notFound(id)
		}
		return stages.StageRow{}, err
	}
	if !c.Write(row.Product) {
		return stages.StageRow{}, refuse(Forbidden, "%s may not add files to product %q any more", c.Name, row.Product)
	}
	if err := c.again(ctx, row); err != nil {
		return stages.StageRow{}, err
	}
	// Jobs of one subject may have tokens for different classes.
	if c.Class != "" && c.Class != row.Class {
		return stages.StageRow{}, wrongClass(c)
	}
	return row, nil
}

// open returns an open stage of the caller.
func (s *Stages) open(ctx context.Context, c Caller, id string) (stages.StageRow, error) {
	row, err := s.row(ctx, c, id)
	if err == nil && !row.Closed.IsZero() {
		err = refuse(Conflict, "the stage is committed as build %d", row.Number)
	}
	return row, err
}

// most are the limits of a stage.
func (l Limits) most() stages.StageLimitError {
	return stages.StageLimitError{Files: l.MaxFiles, Bytes: l.MaxBytes}
}

// state returns the state of a stage without its counts.
func (s *Stages) state(row stages.StageRow) State {
	st := State{ID: row.ID, Phase: PhaseOpen, Labels: Labels{row.Product, row.Version, row.Branch, row.Class, row.Comment},
		Files: row.Files, Bytes: row.Bytes, Transaction: row.Number, Node: row.Node}
	st.Expires = row.Used.Add(s.limits.Idle)
	if end := row.Opened.Add(s.limits.Longest); end.Before(st.Expires) {
		st.Expires = end
	}
	if row.Collects {
		st.Expires = row.Used.Add(s.limits.Quiet)
	}
	if !row.Closed.IsZero() {
		st.Phase, st.Expires = PhaseCommitted, row.Closed.Add(s.limits.Longest)
	}
	return st
}
