package stage

import (
	"context"
	"slices"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Query asks for files that the depot has.
type Query struct {
	// SHA1 is the hash of a file that was pushed by PutNew, in lower-case hex; empty
	// to ask by Lookup.
	SHA1   string
	Lookup symfile.Lookup
	// Product limits the answer to files that are visible in it; nil is any that the
	// caller may read.
	Product *string
}

// Found is a file that the depot has. Check answers Have for its content, under
// the same name.
type Found struct {
	record.Content
	SHA1    string // as in the Query
	Objects []symfile.Object
}

// maxFound limits the answers of Find.
const maxFound = 16

// Find returns files that the caller may read, at most 16.
func (s *Stages) Find(ctx context.Context, c Caller, q Query) ([]Found, error) {
	reader := c
	reader.Read = func(product string) bool {
		return (q.Product == nil || product == *q.Product) && c.Read(product)
	}
	var refs []blob.Ref
	if q.SHA1 != "" {
		content, err := s.db.BySHA1(ctx, q.SHA1)
		if err != nil {
			if isNotExist(err) {
				err = nil
			}
			return nil, err
		}
		refs = []blob.Ref{content.Ref}
	} else {
		hits, err := s.db.Lookup(ctx, q.Lookup)
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			if !slices.Contains(refs, h.Ref) && len(refs) < 4*maxFound {
				refs = append(refs, h.Ref)
			}
		}
	}
	h, err := s.look(ctx, reader, stages.StageRow{}, refs)
	if err != nil {
		return nil, err
	}
	var list []Found
	for _, ref := range refs {
		f := Found{Content: record.Content{Ref: ref}, SHA1: q.SHA1}
		if known := h.known[ref]; len(known) > 0 {
			facts, err := parseFacts(known[0].Facts)
			if err != nil {
				return nil, err
			}
			f.Size = known[0].Size
			for _, k := range facts {
				f.Objects = append(f.Objects, k.Object)
			}
		} else {
			for _, o := range h.objects[ref] {
				f.Size = o.Size
				f.Objects = append(f.Objects, o.Object)
			}
		}
		if len(f.Objects) > 0 && len(list) < maxFound {
			list = append(list, f)
		}
	}
	return list, nil
}
