package symbolicate

import (
	"context"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// madeOf precedes the debug id of a module in the id under which the results of its
// files in trees are found.
const madeOf = "made-of-"

// Arrived deletes the records of symbol files that were made of modules of which the
// entries are symbol files, if no caller needs them any more: a made file never answers
// a caller who sees an added or a downloaded one. Garbage collection frees the bytes.
func (svc *Service) Arrived(ctx context.Context, entries []record.Entry) error {
	var ids []string
	for _, e := range entries {
		if e.Object.Kind == symfile.Breakpad && e.Object.Role&symfile.Symbols != 0 && !e.Object.DebugID.IsZero() {
			ids = append(ids, symfile.Fold(e.Object.DebugID.Breakpad()))
		}
	}
	for batch := range slices.Chunk(ids, arrivedBatch) {
		if err := svc.letGo(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// arrivedBatch is the number of symbol files in one query.
const arrivedBatch = 1000

// letGo deletes the records of the files that were made of the modules with these
// debug ids.
func (svc *Service) letGo(ctx context.Context, ids []string) error {
	r := contents.Replacement{IDs: ids, Kind: symfile.Breakpad, Role: symfile.Symbols}
	n, err := index.DropReplaced(ctx, svc.DB, toolPrefix, r)
	if err != nil {
		return err
	}
	refs, err := svc.DB.Cached.Replaced(ctx, madeSource, madeOf, r)
	if err == nil && len(refs) > 0 {
		_, _, err = svc.DB.Cached.Evict(ctx, refs, func(ref blob.Ref) error { return svc.Blobs.Delete(ctx, ref) })
	}
	if n+int64(len(refs)) > 0 {
		svc.Log.Info("symbol files arrived that replace made ones; the next gc frees the made ones", "files", n+int64(len(refs)))
	}
	return err
}

// Lost forgets a result whose bytes are damaged or missing, so that it is made again.
func (svc *Service) Lost(ctx context.Context, a Answer) error {
	if a.Cached != nil {
		_, _, err := svc.DB.Cached.Evict(ctx, []blob.Ref{a.Content.Ref}, func(ref blob.Ref) error { return svc.Blobs.Delete(ctx, ref) })
		return err
	}
	_, err := svc.DB.ForgetDerived(ctx, a.Content.Ref)
	return err
}

// replaceMade deletes the record of a result during whose making a symbol file arrived.
// A symbol file that cannot be read replaces nothing.
func (svc *Service) replaceMade(ctx context.Context, f *files) {
	if f.id.IsZero() || f.list[0].kind == symfile.Breakpad {
		return
	}
	id := symfile.Fold(f.id.Breakpad())
	hits, err := svc.DB.Lookup(ctx, record.Scope{All: true}, symfile.Lookup{ID: id, Role: symfile.Symbols})
	for i := range hits {
		sym := &files{name: hits[i].Object.Name, id: f.id, list: []*piece{pieceOf(&hits[i])}}
		if _, failed := svc.failure(ctx, sym, lookupFormat); failed == nil {
			return
		}
	}
	if err == nil {
		err = svc.letGo(ctx, []string{id})
	}
	if err != nil {
		svc.Log.Warn("cannot look for symbol files that replace a made one", "module", f.name, "error", err)
	}
}

// made returns a result that was made before.
func (svc *Service) made(ctx context.Context, f *files, format Format) (Answer, error) {
	a := Answer{Source: f.source(), From: f.from(), Code: f.code, Arch: f.arch(), Missing: f.missing}
	a.Object = symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: f.name, DebugID: f.id, CodeName: f.code}
	if format == GSYM {
		a.Object.Kind, a.Object.Role = symfile.KindUnknown, symfile.Debug
	}
	if a.Source != (blob.Ref{}) {
		c, err := svc.DB.Derived(ctx, a.Source, f.tool(format))
		if err == nil && c.Size == 0 {
			err = fs.ErrNotExist // it was removed meanwhile
		}
		a.Content = c
		return a, err
	}
	hits, err := svc.DB.Lookup(ctx, record.Scope{All: true}, symfile.Lookup{ID: madeID(f, format), Role: symfile.Other})
	if err != nil {
		return a, err
	}
	if len(hits) == 0 {
		return a, fs.ErrNotExist
	}
	a.Cached, a.Content = &hits[0], record.Content{Ref: hits[0].Ref, Size: hits[0].Size}
	return a, nil
}

// failure returns the remembered failure of making a format of the files. None is
// fs.ErrNotExist.
func (svc *Service) failure(ctx context.Context, f *files, format Format) (queue.Failure, error) {
	return svc.Queue.Failure(ctx, Kind, f.key(format), f.content(), f.version(format))
}

// madeID is the id under which a result of files in trees is found.
func madeID(f *files, format Format) string { return "made-" + f.recipe(format) }
