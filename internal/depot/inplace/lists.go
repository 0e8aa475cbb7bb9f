package inplace

import (
	"context"
	"strings"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Status describes a watched folder.
type Status = watch.Status

// Statuses describes the folders that this server watches. One whose index cannot be
// read has Failed.
func (ws *Watched) Statuses(ctx context.Context) (list []Status) {
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
func (ws *Watched) Find(ctx context.Context, scope answer.Scope, q watch.Query, limit int) (list []record.Found, err error) {
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
			list = append(list, record.Found{InPlace: true, Away: e.Away, Product: product, Stored: record.Stored{
				Object: e.Object, Arch: e.Arch, Features: e.Features, DebugSize: e.DebugSize, Size: e.Size,
				ModTime: e.ModTime, Added: e.ModTime, Path: e.Path, Archive: e.Archive,
			}})
		}
	}
	return list, nil
}

// search is Places.Find in the watched folders.
func (ws *Watched) search(ctx context.Context, scope answer.Scope, text string, kind symfile.Kind, limit int) ([]record.Found, error) {
	as, q := catalog.ReadSearch(text)
	if as == catalog.ReadAll || len(text) > catalog.MaxSearch {
		return nil, nil
	}
	return ws.Find(ctx, scope, watch.Query{Name: q.Name, IDs: q.IDs, Prefix: q.Prefix, Kind: kind}, limit)
}

// Alike looks for objects of the same kind that have one of the ids of an object.
func (ws *Watched) Alike(ctx context.Context, scope answer.Scope, o objfile.Object, limit int) ([]record.Found, error) {
	q := watch.Query{Kind: o.Kind}
	for _, a := range o.Aliases() {
		q.IDs = append(q.IDs, a.ID)
	}
	return ws.Find(ctx, scope, q, limit)
}

// Metadata searches ELF objects in the folders of the scope, by a key and a value as
// watch.Folder.Metadata. complete is false if limit cut a list.
func (ws *Watched) Metadata(
	ctx context.Context, scope answer.Scope, key, value string, limit int,
) (list []watch.Metadata, complete bool, err error) {
	complete = true
	for _, f := range ws.list {
		if !seesWatched(scope, f) {
			continue
		}
		found, all, err := f.Metadata(ctx, key, value, limit)
		if err != nil {
			return nil, false, err
		}
		list = append(list, found...)
		complete = complete && all
	}
	return list, complete, nil
}
