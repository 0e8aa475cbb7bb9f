// Package storerecords makes the records of a symbol store about files of the depot, as
// symstore.exe keeps them: refs.ptr and file.ptr beside each file, 000Admin of all.
package storerecords

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// Options say which files of a symbol store are answered that are about stored
// files. The zero value answers none.
type Options struct {
	// Refs answers refs.ptr: which transactions have a file, with the names of the
	// files instead of their paths.
	Refs bool
	// Share, if set, answers file.ptr: the path of a file below this UNC path, in the
	// layout of a symbol store of one tier. Somebody else keeps the files there.
	Share string
	// Index answers 000Admin/lastid.txt and 000Admin/NNNNNNNNNN, which say what the depot
	// has.
	Index bool
}

// Records answers requests for records. Nobody sees a transaction or a file out of the scope.
// Its methods may be called by many goroutines.
type Records struct {
	opt     Options
	db      *index.DB
	lookups *lookup.Lookups
}

// New returns the records of a depot.
func New(opt Options, db *index.DB, lookups *lookup.Lookups) *Records {
	return &Records{opt, db, lookups}
}

// maxRefs is the number of lines of a refs.ptr: the newest transactions have them.
const maxRefs = 1000

// Parses reports whether a request is for a record that names its file in the path only:
// nothing else tells what to look up.
func (r *Records) Parses(req layout.Request) bool {
	return req.Form == layout.FormAdmin && (r.opt.Refs || r.opt.Index)
}

// Open makes the record that a request asks for. If it is for none, or for one that is not
// answered, the error is fs.ErrNotExist.
func (r *Records) Open(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	switch {
	case r.opt.Index && isStoreRecord(req):
		return r.transactions(ctx, scope, req.Part)
	case req.Form == layout.FormPointer && r.opt.Share != "":
		return r.pointer(ctx, scope, req, rec)
	case r.opt.Refs && r.Parses(req):
		return r.refs(ctx, scope, req, rec)
	}
	return nil, fs.ErrNotExist
}

// pointer makes a file.ptr. Its text is that of Microsoft's symbol server: PATH: and
// the path, without a line end, which clients do not cut off.
func (r *Records) pointer(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	req.Form = layout.FormFile
	hits, _, err := r.lookups.Find(ctx, scope, req, true, rec)
	if err != nil {
		return nil, err
	}
	for _, h := range hits {
		if p := storePath(h.Object, req); p != "" {
			return answer.Text([]byte("PATH:"+r.opt.Share+`\`+strings.ReplaceAll(p, "/", `\`)), h.Added), nil
		}
	}
	return nil, fs.ErrNotExist
}

// storePath returns the path of an object in a symbol store: under the requested id, if
// it has several; empty if it has none.
func storePath(o symfile.Object, req layout.Request) string {
	paths := slices.DeleteFunc(layout.SymStore.Paths(o), func(p string) bool { return strings.Count(p, "/") != 2 })
	if len(paths) == 0 {
		return ""
	}
	for _, p := range paths {
		id := symfile.Fold(strings.Split(p, "/")[1])
		if slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.ID == id }) {
			return p
		}
	}
	return paths[0]
}

// refs makes a refs.ptr: a line for each transaction that has the file, oldest first.
func (r *Records) refs(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	parts := strings.Split(req.Part, "/")
	if len(parts) != 3 {
		return nil, fs.ErrNotExist // of 000Admin
	}
	file, err := layout.SymStore.Parse(parts[0] + "/" + parts[1] + "/" + parts[0])
	if err != nil || file.Form != layout.FormFile {
		return nil, fs.ErrNotExist
	}
	hits, _, err := r.lookups.Find(ctx, scope, file, true, rec)
	if err != nil {
		return nil, err
	}
	listing, err := r.db.Lists.Listing(ctx, scope.Index())
	if err != nil {
		return nil, err
	}
	var list []symstore.Ref
	var newest time.Time
	for _, h := range hits {
		holders, _, err := listing.Holders(ctx, record.Found{Stored: h.Stored}, 0, maxRefs)
		if err != nil {
			return nil, err
		}
		kind := symstore.TypeOf(h.Object.Kind, h.Object.Role, h.Features)
		for _, t := range holders {
			name := cmp.Or(symfile.BaseName(t.Path), h.Object.Name)
			list = append(list, symstore.Ref{ID: symstore.ID(t.Number), Path: name, Type: kind})
			if t.Time.After(newest) {
				newest = t.Time
			}
		}
	}
	if len(list) == 0 {
		return nil, fs.ErrNotExist // no transaction has it: it was downloaded
	}
	sorting.Stable(list, func(a, b symstore.Ref) int { return cmp.Compare(a.ID, b.ID) })
	list = slices.CompactFunc(list, func(a, b symstore.Ref) bool { return a.ID == b.ID })
	return answer.Text(symstore.FormatRefs(list[max(0, len(list)-maxRefs):]), newest), nil
}
