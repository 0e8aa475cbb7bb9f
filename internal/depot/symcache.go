package depot

import (
	"context"
	"errors"
	"fmt"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/depot/search"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// The limits that SymCacheAnswer.Limit names.
const (
	LimitJobs      = symcachework.LimitJobs
	LimitDownloads = symcachework.LimitDownloads
)

// SymCacheAnswer is the answer to a request for a SymCache file.
type SymCacheAnswer struct {
	symcachework.Answer
	// File is what to send; it must be closed.
	File *answer.File
}

// AnswerSymCache answers a request for a SymCache file, and begins the work that the
// answer promises. Only ask.Hold waits for work.
func (d *Depot) AnswerSymCache(ctx context.Context, ask SymCacheAsk) (SymCacheAnswer, error) {
	a, err := d.symcache.Answer(ctx, ask)
	return SymCacheAnswer{a, symCacheFile(a)}, err
}

func symCacheFile(a symcachework.Answer) *answer.File {
	switch f := a.File.(type) {
	case *answer.File:
		f.SymCacheOf = &a.Key
		return f
	case *symcachework.FolderFile:
		return &answer.File{
			Object:   symfile.Object{Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: f.Path},
			Volatile: true, Size: f.Size, ModTime: f.ModTime, Path: f.Path, ETag: f.ETag, SymCacheOf: &a.Key,
			Bytes: f.File, Disk: f.File, Closer: f.File,
		}
	}
	return nil
}

// OpenJobInput opens the input file of a worker's job. If it cannot be obtained,
// the attempt has failed and the error is a jobs.Failure.
func (d *Depot) OpenJobInput(ctx context.Context, l jobs.Lease) (*answer.File, error) {
	in, err := d.queue.OpenInput(ctx, l)
	if err != nil {
		return nil, err
	}
	if f, ok := in.(*answer.File); ok {
		return f, nil
	}
	// A file that the kind made for its workers.
	name, ref, size := in.Content()
	if size < 0 {
		return nil, errors.Join(fmt.Errorf("the input file %s of job %d has no size", name, l.ID), in.Close())
	}
	return &answer.File{
		Object: symfile.Object{Name: name}, Ref: ref, Volatile: true, Size: size, ETag: fmt.Sprintf("job-%d", l.ID), Bytes: in, Closer: in,
	}, nil
}

// symcacheDepot is what the making of SymCache files needs of the depot.
type symcacheDepot struct {
	lookups *lookup.Lookups
	cache   *cache.Cache
	inPlace *inplace.Places
	places  *search.Places
}

// NotIndexed implements symcachework.Depot.
func (p symcacheDepot) NotIndexed(ctx context.Context, products []string, req layout.Request) bool {
	return p.lookups.Absent(ctx, answer.Scope{Products: products}, &req, nil)
}

// Find implements symcachework.Depot.
func (p symcacheDepot) Find(ctx context.Context, products []string, req layout.Request) ([]record.Hit, error) {
	hits, _, err := p.lookups.Find(ctx, answer.Scope{Products: products}, req, false, nil)
	return hits, err
}

// OpenHit implements symcachework.Depot.
func (p symcacheDepot) OpenHit(ctx context.Context, h record.Hit) (symcachework.File, error) {
	return answerOrNil(p.lookups.OpenHit(ctx, h, nil))
}

// InTrees implements symcachework.Depot.
func (p symcacheDepot) InTrees(ctx context.Context, req layout.Request) error {
	f, err := p.inPlace.Open(ctx, answer.Scope{}, req)
	if err != nil {
		return err
	}
	return f.Close()
}

// DropCached implements symcachework.Depot.
func (p symcacheDepot) DropCached(ctx context.Context, id string, ref blob.Ref) (bool, error) {
	return p.cache.DropContent(ctx, cache.Filter{ID: id}, ref)
}

// Open implements symcachework.Depot.
func (p symcacheDepot) Open(ctx context.Context, req layout.Request, local bool) (symcachework.File, error) {
	return answerOrNil(p.places.Get(ctx, answer.Question{Request: req, Local: local}))
}

// Download implements symcachework.Depot.
func (p symcacheDepot) Download(ctx context.Context, req layout.Request) (symcachework.File, error) {
	return answerOrNil(p.places.DownloadAnew(ctx, answer.Question{Request: req}))
}

// answerOrNil makes a nil file a nil interface.
func answerOrNil(f *answer.File, err error) (symcachework.File, error) {
	if err != nil || f == nil {
		return nil, err
	}
	return f, nil
}
