package inplace

import (
	"context"
	"path"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

const (
	lookTime = 2 * time.Second // for the trees, of which disks may hang
	lookers  = 2               // that look into one tree at once
)

// ServedFolder is a served tree, as people see it.
type ServedFolder struct {
	Name   string // of the folder: nobody needs to know where it is
	Layout layout.Layout
	// Lists is set if its files can be listed by their names.
	Lists bool
	// Answers is not set if the disk does not answer in time; nothing else is known then.
	Answers bool
	tree.Facts
}

// lookInto calls look for each of the trees, all at once, and returns the results of those
// whose disks answer in time. What looks into a disk that hangs goes on until the disk answers.
func lookInto[T any](ctx context.Context, ts trees, list []*tree.Folder, look func(context.Context, *tree.Folder) T) map[*tree.Folder]T {
	type reply struct {
		from  *tree.Folder
		value T
	}
	answers := make(chan reply, len(list))
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	for _, f := range list {
		go func() {
			select {
			case ts.looking[f] <- struct{}{}:
				defer func() { <-ts.looking[f] }()
				answers <- reply{f, look(ctx, f)}
			case <-ctx.Done(): // others still wait for the disk
			}
		}()
	}
	end := time.NewTimer(lookTime + lookTime/4) // at the end of ctx, look returns what it has
	defer end.Stop()
	got := map[*tree.Folder]T{}
	for len(got) < len(list) {
		select {
		case a := <-answers:
			got[a.from] = a.value
		case <-end.C:
			for _, f := range list {
				if _, ok := got[f]; !ok {
					ts.log.Warn("a store does not say in time what it has", "store", f.Dir())
				}
			}
			return got
		}
	}
	return got
}

// seen are the trees in a scope. Their files have no product.
func (ts trees) seen(scope answer.Scope) []*tree.Folder {
	if !scope.Sees("") {
		return nil
	}
	return ts.list
}

// ServedFolders describes the served trees that the scope contains.
func (p *Places) ServedFolders(ctx context.Context, scope answer.Scope) (list []ServedFolder) {
	seen := p.trees.seen(scope)
	got := lookInto(ctx, p.trees, seen, func(ctx context.Context, f *tree.Folder) ServedFolder {
		return ServedFolder{Layout: f.Layout(ctx), Lists: f.Lists(ctx), Answers: true, Facts: f.Facts(ctx)}
	})
	for _, f := range seen {
		s := got[f]
		s.Name = symfile.BaseName(f.Dir())
		list = append(list, s)
	}
	return list
}

// Find looks for what a text means, read as Catalog.Objects reads it, in the watched folders and
// the trees of the scope, at most limit objects. Trees are searched by names alone. An empty
// text means nothing. kind may be symfile.KindUnknown, which is any.
func (p *Places) Find(ctx context.Context, scope answer.Scope, text string, kind symfile.Kind, limit int) ([]record.Found, error) {
	list, err := p.watched.search(ctx, scope, text, kind, limit)
	if err != nil || len(text) > catalog.MaxSearch {
		return list, err
	}
	q := tree.Query{Kind: kind}
	switch as, said := catalog.ReadSearch(text); as {
	case catalog.ReadName, catalog.ReadPattern:
		q.Name = said.Name
	case catalog.ReadPath:
		req, _ := catalog.SearchedPath(text)
		q.Name, q.IDs = symfile.Fold(req.Name), said.IDs
	default:
		return list, nil
	}
	return append(list, p.FindServed(ctx, scope, q, limit-len(list))...), ctx.Err()
}

// FindServed lists files of the trees of the scope by their names, at most limit.
func (p *Places) FindServed(ctx context.Context, scope answer.Scope, q tree.Query, limit int) (list []record.Found) {
	seen := p.trees.seen(scope)
	got := lookInto(ctx, p.trees, seen, func(ctx context.Context, f *tree.Folder) []tree.Listed {
		files, _ := f.List(ctx, q, limit)
		return files
	})
	for _, f := range seen {
		for _, x := range got[f][:min(len(got[f]), max(0, limit-len(list)))] {
			list = append(list, record.Found{InPlace: true, Stored: record.Stored{
				Object: x.Object, Size: x.Size, ModTime: x.ModTime, Added: x.ModTime, Path: path.Join(symfile.BaseName(f.Dir()), x.Path),
			}})
		}
	}
	return list
}

// Watched returns the watched folders.
func (p *Places) Watched() *Watched { return p.watched }
