package inplace

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Watched are the folders of builds and packages that are indexed in place.
type Watched struct {
	dir    string
	list   []*watch.Folder
	others *otherServers
	log    *slog.Logger
	found  Found
}

// Found is told of files that a scan has found new in a folder of a product, by the keys under which they are found.
type Found func(ctx context.Context, folder, product string, keys iter.Seq[symfile.Alias]) error

// NewWatched returns the watched folders of a depot: none until Use. dir is the folder of the
// depot on this machine.
func NewWatched(dir string, others Others, spool func() (*blob.Spool, error), log *slog.Logger, now func() time.Time) *Watched {
	return &Watched{dir: dir, others: newOtherServers(others, spool, log, now), log: log}
}

// exist reports whether this server or another one of the depot watches folders.
func (ws *Watched) exist() bool { return len(ws.list) > 0 || ws.others.exist() }

// Dir returns the folder for their indexes, on this machine.
func (ws *Watched) Dir() string { return filepath.Join(ws.dir, "watch") }

// Tell has found told of the files that later scans find new. It is called before Use.
func (ws *Watched) Tell(found Found) { ws.found = found }

// Use sets the folders, before the first request. Scan scans them; the caller
// closes them before the depot.
func (ws *Watched) Use(list []*watch.Folder) {
	ws.list = list
	for _, f := range list {
		product, _ := f.Product()
		name := "folder " + path.Base(filepath.ToSlash(f.Where())) // all of the path is for administrators
		f.Tell(func(ctx context.Context, keys iter.Seq[symfile.Alias]) {
			if err := ws.found(ctx, name, product, keys); err != nil && ctx.Err() == nil {
				ws.log.Warn("files of a watched folder that crashes lacked are not noted as arrivals", "folder", f.Where(), "error", err)
			}
		})
	}
}

// Folders returns the folders.
func (ws *Watched) Folders() []*watch.Folder { return ws.list }

// seesWatched reports whether a scope contains a watched folder. One without a product is
// only for callers that see everything.
func seesWatched(s answer.Scope, f *watch.Folder) bool {
	product, _ := f.Product()
	return s.Products == nil || product != "" && s.Sees(product)
}

// open searches the folders of this server in order. A folder that fails does not hide the next one.
// rec notes where they were searched; it may be nil.
func (ws *Watched) open(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	var failed, full error
	for _, f := range ws.list {
		if !seesWatched(scope, f) {
			continue
		}
		file, err := f.Open(ctx, req)
		rec.Watched(ctx, f, req, file, err)
		switch {
		case err == nil:
			return watchedFile(f, file), nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, unpackcache.ErrFull):
			full = err
		case !errors.Is(err, fs.ErrNotExist):
			failed = errors.Join(failed, err)
			ws.log.Warn("a watched folder cannot answer", "folder", f.Where(), "error", err)
		}
	}
	if failed != nil {
		return nil, failed
	}
	if full != nil {
		return nil, full
	}
	return nil, fs.ErrNotExist
}

// answer searches the folders of this server, then those of the others.
func (ws *Watched) answer(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	f, err := ws.open(ctx, scope, req, rec)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f, otherErr := ws.others.open(ctx, scope, req, rec)
	if errors.Is(err, unpackcache.ErrFull) && errors.Is(otherErr, fs.ErrNotExist) {
		return nil, err
	}
	return f, otherErr
}

// OpenForPeer opens a file in the folders of this server for another one, which asks for a file
// in place.
func (ws *Watched) OpenForPeer(ctx context.Context, ask fetch.PeerAsk) (*fetch.File, error) {
	f, err := ws.open(ctx, answer.Scope{Products: ask.Question.Products}, ask.Question.Request, nil)
	if err != nil {
		return nil, err
	}
	known := fetch.File{
		Object: f.Object, Size: f.Size, ModTime: f.ModTime, Path: f.Path, Archive: f.Archive,
		Signature: f.Signature, ETag: f.ETag, Product: f.Product,
	}
	return fetch.OtherFile(known, f), nil
}

// Products returns the products of the folders, each once.
func (ws *Watched) Products() (list []string) {
	for _, f := range ws.list {
		product, _ := f.Product()
		list = append(list, product)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Scan scans one of the folders until ctx ends.
func (ws *Watched) Scan(ctx context.Context, f *watch.Folder) {
	if err := f.Run(ctx); err != nil && ctx.Err() == nil {
		ws.log.Error("a folder is not watched any more", "folder", f.Where(), "error", err)
	}
}
