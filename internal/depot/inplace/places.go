// Package inplace has the files that are served where they lie: in watched folders of builds and
// packages, which are indexed, of this server and of others; and in trees that have a layout.
package inplace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/layout"
)

// ErrManyUnpacked means that a file is there, in a package or compressed, and cannot be
// unpacked now. A client that was told that there is none would remember that.
var ErrManyUnpacked = fmt.Errorf("too many unpacked files are in use: %w", content.ErrUnavailable)

// Places are the watched folders and the trees of a depot. Their methods may be called by many
// goroutines.
type Places struct {
	watched *Watched
	trees   trees
}

// New returns the places of a depot. The trees are searched in their order; the caller closes
// them.
func New(watched *Watched, list []*tree.Folder, log *slog.Logger) *Places {
	return &Places{watched, newTrees(list, log)}
}

// Exist reports whether there are folders that are not in the index.
func (p *Places) Exist() bool { return len(p.trees.list) > 0 || p.watched.exist() }

// FailedError says why a watched folder could not answer. A client gets "not found" for it.
type FailedError struct{ err error }

func (e *FailedError) Error() string { return e.err.Error() }

func (e *FailedError) Unwrap() error { return e.err }

// Open finds a file in the watched folders and the trees alone: for those who have looked into
// the index themselves, and join several files of a module. Unlike clients, who take any failure
// for the end of a server, they are told if a folder has failed: by a *FailedError.
func (p *Places) Open(ctx context.Context, scope answer.Scope, req layout.Request) (*answer.File, error) {
	return p.open(ctx, answer.InPlace, scope, req)
}

// OpenWatched is Open in the watched folders alone.
func (p *Places) OpenWatched(ctx context.Context, scope answer.Scope, req layout.Request) (*answer.File, error) {
	return p.open(ctx, answer.Watched, scope, req)
}

func (p *Places) open(ctx context.Context, among answer.Places, scope answer.Scope, req layout.Request) (*answer.File, error) {
	s := p.Search(scope, req, nil)
	f, err := answer.Search(ctx, among, &s)
	if s.full && errors.Is(err, fs.ErrNotExist) {
		return nil, ErrManyUnpacked
	}
	if s.failed != nil && errors.Is(err, fs.ErrNotExist) {
		return nil, &FailedError{s.failed}
	}
	return f, err
}

// OpenPublic finds a file in the trees that have only the public forms of files.
func (p *Places) OpenPublic(ctx context.Context, req layout.Request) (*answer.File, error) {
	f, err := p.trees.open(ctx, req, true, nil)
	if errors.Is(err, unpackcache.ErrFull) {
		return nil, ErrManyUnpacked
	}
	return f, err
}

// Search looks for the file that answers one request.
type Search struct {
	places *Places
	scope  answer.Scope
	req    layout.Request
	rec    *answer.Recorder

	full   bool  // a file is there that cannot be unpacked now
	failed error // why a watched folder could not answer
}

// Search begins a search. rec notes where the file was looked for; it may be nil.
func (p *Places) Search(scope answer.Scope, req layout.Request, rec *answer.Recorder) Search {
	return Search{places: p, scope: scope, req: req, rec: rec}
}

// Look implements answer.Searcher for the places answer.InPlace.
func (s *Search) Look(ctx context.Context, place answer.Places) (*answer.File, error) {
	if place == answer.Watched {
		return s.watched(ctx)
	}
	return s.served(ctx)
}

// watched finds a file in a watched folder. A folder that fails does not hide other places.
func (s *Search) watched(ctx context.Context) (*answer.File, error) {
	if !s.places.watched.exist() {
		return nil, nil
	}
	f, err := s.places.watched.answer(ctx, s.scope, s.req, s.rec)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unpackcache.ErrFull):
		s.full = true
	case !errors.Is(err, fs.ErrNotExist):
		s.failed = err
	}
	return nil, nil
}

// served finds a file in a tree.
func (s *Search) served(ctx context.Context) (f *answer.File, err error) {
	if len(s.places.trees.list) > 0 && s.scope.Sees("") {
		f, err = s.places.trees.open(ctx, s.req, false, s.rec)
		if errors.Is(err, unpackcache.ErrFull) {
			s.full = true
		} else if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	if s.full {
		return nil, ErrManyUnpacked
	}
	return nil, err
}
