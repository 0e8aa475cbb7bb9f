package depot

import (
	"context"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/symcachework"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

type (
	// SymCacheAsk is a request for a SymCache file.
	SymCacheAsk = symcachework.Ask
	// SymCacheKey names the PDB that a SymCache file is made from.
	SymCacheKey = symcachework.SymCacheKey
	// SymCacheOptions say where SymCache files are besides in the depot itself.
	SymCacheOptions = symcachework.FolderOptions
	// JobOptions say how jobs are done.
	JobOptions = symcachework.JobOptions
	// Job is a job as the index has it.
	Job = index.Job
	// JobState says how far a job is.
	JobState = index.JobState
	// JobFilter says which jobs to list.
	JobFilter = index.JobFilter
	// JobStats sums up the jobs of one kind.
	JobStats = index.JobStats
	// WorkJob is a job as a worker is given it.
	WorkJob = symcachework.WorkJob
	// WorkerInfo is what a worker on another machine reports of itself.
	WorkerInfo = symcachework.WorkerInfo
	// WorkResult is what a worker made.
	WorkResult = symcachework.WorkResult
	// WorkFailure says why an attempt failed.
	WorkFailure = symcachework.WorkFailure
)

// The states of a job.
const (
	JobQueued    = index.JobQueued
	JobRunning   = index.JobRunning
	JobDone      = index.JobDone
	JobFailed    = index.JobFailed
	JobCancelled = index.JobCancelled
)

// Classes of failures that no transcoder is to blame for.
const (
	ClassAbsent    = symcachework.ClassAbsent
	ClassForbidden = symcachework.ClassForbidden
	ClassTransient = symcachework.ClassTransient
)

// Errors of the job API.
var (
	// ErrLeaseLost tells a worker that a job is not its own any more.
	ErrLeaseLost = symcachework.ErrLeaseLost
	// ErrBadResult is wrapped by CompleteWork's error for a result that cannot be
	// one of the job; the attempt has not ended.
	ErrBadResult = symcachework.ErrBadResult
)

// SymCacheAnswer says what to do with a request for a SymCache file.
type SymCacheAnswer struct {
	symcachework.Answer
	// File is what to send; it must be closed.
	File *File
}

// AnswerSymCache answers a request for a SymCache file, and begins the work that the
// answer promises. It does not wait for any.
func (d *Depot) AnswerSymCache(ctx context.Context, ask SymCacheAsk) (SymCacheAnswer, error) {
	a, err := d.symcache.Answer(ctx, ask)
	return SymCacheAnswer{a, symCacheFile(a)}, err
}

func symCacheFile(a symcachework.Answer) *File {
	switch f := a.File.(type) {
	case *File:
		f.made = &a.Key
		return f
	case *symcachework.FolderFile:
		return &File{
			Object:   symfile.Object{Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: f.Path},
			Volatile: true, Size: f.Size, ModTime: f.ModTime, Path: f.Path, ETag: f.ETag, made: &a.Key, r: f.File, plain: f.File, closer: f.File,
		}
	}
	return nil
}

// OpenWorkPDB opens the PDB of a worker's job. If that cannot be had, the attempt
// has failed and the error is a WorkFailure.
func (d *Depot) OpenWorkPDB(ctx context.Context, id int64, worker, token string) (*File, error) {
	f, err := d.symcache.OpenWorkPDB(ctx, id, worker, token)
	if err != nil {
		return nil, err
	}
	return f.(*File), nil
}

// pdbs is what the making of SymCache files needs of the depot.
type pdbs struct{ d *Depot }

// NotIndexed implements symcachework.Depot.
func (p pdbs) NotIndexed(ctx context.Context, req layout.Request) bool {
	return p.d.filter.excludes(ctx, req)
}

// Find implements symcachework.Depot.
func (p pdbs) Find(ctx context.Context, products []string, req layout.Request) ([]index.Hit, error) {
	hits, _, err := p.d.find(ctx, Scope{Products: products}, req)
	return hits, err
}

// OpenHit implements symcachework.Depot.
func (p pdbs) OpenHit(ctx context.Context, h index.Hit) (symcachework.File, error) {
	return answerOrNil(p.d.openHit(ctx, h))
}

// InTrees implements symcachework.Depot.
func (p pdbs) InTrees(ctx context.Context, req layout.Request) error {
	f, err := p.d.trees.open(ctx, req)
	if err != nil {
		return err
	}
	return f.Close()
}

// Open implements symcachework.Depot.
func (p pdbs) Open(ctx context.Context, req layout.Request, local bool) (symcachework.File, error) {
	return answerOrNil(p.d.Get(ctx, Question{Request: req, Local: local}))
}

// Download implements symcachework.Depot.
func (p pdbs) Download(ctx context.Context, req layout.Request) (symcachework.File, error) {
	return answerOrNil(p.d.downloadAnew(ctx, Question{Request: req}))
}

// answerOrNil makes a nil file a nil interface.
func answerOrNil(f *File, err error) (symcachework.File, error) {
	if err != nil || f == nil {
		return nil, err
	}
	return f, nil
}
