package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Watched are the folders of builds and packages that are indexed in place.
type Watched struct {
	dir    string
	list   []*watch.Folder
	others *otherServers
	log    *slog.Logger
}

// exist reports whether this server or another one of the depot watches folders.
func (ws *Watched) exist() bool { return len(ws.list) > 0 || ws.others.exist() }

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

// Dir returns the folder for their indexes, on this machine.
func (ws *Watched) Dir() string { return filepath.Join(ws.dir, "watch") }

// Use sets the folders, before the first request. Depot.Work scans them; the caller
// closes them before the depot.
func (ws *Watched) Use(list []*watch.Folder) { ws.list = list }

// Folders returns the folders.
func (ws *Watched) Folders() []*watch.Folder { return ws.list }

// seesWatched reports whether a scope contains a watched folder. One without a product is
// only for callers that see everything.
func seesWatched(s answer.Scope, f *watch.Folder) bool {
	product, _ := f.Product()
	return s.Products == nil || product != "" && s.Sees(product)
}

// open searches the folders in order. A folder that fails does not hide the next one.
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

// WatchStatus describes a watched folder.
type WatchStatus = watch.Status

// Statuses describes the folders that this server watches. One whose index cannot be
// read has Failed.
func (ws *Watched) Statuses(ctx context.Context) (list []WatchStatus) {
	for _, f := range ws.list {
		s, err := f.Status(ctx)
		if err != nil {
			s.Where, s.Failed = f.Where(), err.Error()
		}
		list = append(list, s)
	}
	return list
}

// Find looks for objects in the folders of the scope, at most limit (0: a thousand).
func (ws *Watched) Find(ctx context.Context, scope answer.Scope, q watch.Query, limit int) (list []Found, err error) {
	if limit <= 0 {
		limit = 1000
	}
	for _, f := range ws.list {
		if !seesWatched(scope, f) || len(list) >= limit {
			continue
		}
		entries, err := f.Find(ctx, q, limit-len(list))
		if err != nil {
			return nil, err
		}
		product, _ := f.Product()
		// Nobody needs to know where the folder is.
		short := func(p string) string {
			return strings.TrimLeft(strings.TrimPrefix(p, f.Where()), `/\`)
		}
		for _, e := range entries {
			if e.Archive != "" {
				e.Archive = short(e.Archive)
			} else {
				e.Path = short(e.Path)
			}
			list = append(list, Found{InPlace: true, Away: e.Away, Product: product, Stored: record.Stored{
				Object: e.Object, Arch: e.Arch, Features: e.Features, DebugSize: e.DebugSize, Size: e.Size, ModTime: e.ModTime, Added: e.ModTime, Path: e.Path, Archive: e.Archive,
			}})
		}
	}
	return list, nil
}

// Search looks for what a text means, read as Catalog.Objects reads it, in the folders of
// the scope, at most limit objects. An empty text means nothing. kind may be
// symfile.KindUnknown, which is any.
func (ws *Watched) Search(ctx context.Context, scope answer.Scope, text string, kind symfile.Kind, limit int) ([]Found, error) {
	as, q := catalog.ReadSearch(text)
	if as == catalog.ReadAll || len(text) > catalog.MaxSearch {
		return nil, nil
	}
	return ws.Find(ctx, scope, watch.Query{Name: q.Name, IDs: q.IDs, Prefix: q.Prefix, Kind: kind}, limit)
}

// Alike looks for objects of the same kind that have one of the ids of an object.
func (ws *Watched) Alike(ctx context.Context, scope answer.Scope, o objfile.Object, limit int) ([]Found, error) {
	q := watch.Query{Kind: o.Kind}
	for _, a := range o.Aliases() {
		q.IDs = append(q.IDs, a.ID)
	}
	return ws.Find(ctx, scope, q, limit)
}

// metadata is Depot.Metadata for the folders of the scope.
func (ws *Watched) metadata(ctx context.Context, scope answer.Scope, key, value string, limit int) (list []Metadata, complete bool, err error) {
	complete = true
	for _, f := range ws.list {
		if !seesWatched(scope, f) {
			continue
		}
		found, all, err := f.Metadata(ctx, key, value, limit)
		if err != nil {
			return nil, false, err
		}
		for _, m := range found {
			list = append(list, Metadata{Type: m.Type, BuildID: m.BuildID, File: m.File, Archive: m.Archive})
		}
		complete = complete && all
	}
	return list, complete, nil
}

// run scans the folders until ctx ends.
func (ws *Watched) run(ctx context.Context, f *watch.Folder) {
	if err := f.Run(ctx); err != nil && ctx.Err() == nil {
		ws.log.Error("a folder is not watched any more", "folder", f.Where(), "error", err)
	}
}

// errChanging means that a file in a watched folder changed while it was sent: the
// answer is broken off before its last bytes.
var errChanging = fmt.Errorf("the file has changed since it was indexed: %w", fs.ErrNotExist)

// watchedReader reads a file in a watched folder. The last bytes are not returned if
// the file has changed meanwhile.
type watchedReader struct{ f *watch.File }

// ReadAt implements io.ReaderAt.
func (r watchedReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.f.ReadAt(p, off)
	if (err == nil || err == io.EOF) && off+int64(n) >= r.f.Size && r.f.Changed() {
		return 0, fmt.Errorf("%s: %w", r.f.Path, errChanging)
	}
	return n, err
}

func watchedFile(folder *watch.Folder, f *watch.File) *answer.File {
	product, _ := folder.Product()
	a := &answer.File{
		Volatile: true, InPlace: true, Object: f.Object, Size: f.Size, ModTime: f.ModTime, Path: f.Path, Archive: f.Archive, Signature: f.Signature, ETag: f.ETag,
		Product: product, Bytes: watchedReader{f}, Closer: f, ChangedSince: f.Changed, Kept: "in place",
	}
	if f.Growing() {
		a.Growing, a.Await = true, f.Arrived
	}
	return a
}
