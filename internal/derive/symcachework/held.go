package symcachework

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// heldFile is a file that can be sent at once: a row of the index or a file of a
// folder.
type heldFile struct {
	version symcache.Version
	hit     *record.Hit
	file    folderFile
}

func versionsOf(held []heldFile) (list []symcache.Version) {
	for _, h := range held {
		list = append(list, h.version)
	}
	return list
}

// heldFiles returns the files of a key, the best copy of each version first. all
// means that the client may see everything of the key.
func (svc *Service) heldFiles(ctx context.Context, products []string, key symcache.Key, all bool) ([]heldFile, error) {
	if key.ID.IsZero() {
		return nil, nil
	}
	if all {
		products = nil
	}
	list, err := svc.indexed(ctx, products, key)
	if err != nil {
		return nil, err
	}
	if all {
		for _, f := range svc.folders.list {
			for _, h := range f.held(key) {
				list = append(list, heldFile{version: h.version, file: h})
			}
		}
	}
	return list, nil
}

// indexed returns the files of a key that the index has.
func (svc *Service) indexed(ctx context.Context, products []string, key symcache.Key) (list []heldFile, err error) {
	l := symfile.Lookup{Name: symfile.Fold(key.Name), ID: symfile.Fold(key.ID.Breakpad()), Role: symfile.SymCacheFile}
	if svc.depot.NotIndexed(ctx, products, layout.Request{Lookups: []symfile.Lookup{l}}) {
		return nil, nil
	}
	hits, err := svc.db.Lookup(ctx, scopeOf(products), l)
	for i := range hits {
		if _, v, err := symcache.ParseFileName(hits[i].Object.CodeName); err == nil {
			list = append(list, heldFile{version: v, hit: &hits[i]})
		}
	}
	return list, err
}

// seesPDB reports whether a caller sees the PDB of a key, and so everything that
// was or can be made of it.
func (svc *Service) seesPDB(ctx context.Context, products []string, key symcache.Key) (bool, error) {
	if products == nil {
		return true, nil
	}
	return found(svc.depot.Find(ctx, products, pdbRequest(key)))
}
