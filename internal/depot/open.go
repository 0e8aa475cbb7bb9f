package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/unpackcache"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

func (s Scope) index() index.Scope { return index.Scope{Products: s.Products, All: s.Products == nil} }

// errOtherName means that only cached files with another name than the requested
// one have the requested id; see Get.
var errOtherName = fmt.Errorf("only a cached file of another name has this id: %w", fs.ErrNotExist)

// Open finds the file that answers req inside the scope: in the depot, then in
// the served folders. Not found is fs.ErrNotExist. A damaged file is not found;
// the log names it.
func (d *Depot) Open(ctx context.Context, scope Scope, req layout.Request) (*File, error) {
	return d.open(ctx, scope, req, false, nil)
}

// open is Open. With exact, a cached file of another name than the requested one
// is not an answer: if there is one, the error is errOtherName. rec notes how the
// file was looked for; it may be nil.
func (d *Depot) open(ctx context.Context, scope Scope, req layout.Request, exact bool, rec *recorder) (*File, error) {
	return openAfter(ctx, d, scope, req, exact, absent(ctx, d, scope, req, rec), rec)
}

// absent asks the filter of all keys whether certainly nothing in the index and the scope
// answers a request, without a query and without waiting. It takes equally long for hidden
// and for missing files. With a recorder it does not: the index is asked why.
func absent(ctx context.Context, d *Depot, scope Scope, req layout.Request, rec *recorder) bool {
	return rec == nil && d.filter.excludes(ctx, scope.index(), req)
}

// openAfter is open after the filter was asked.
func openAfter(ctx context.Context, d *Depot, scope Scope, req layout.Request, exact, excluded bool, rec *recorder) (*File, error) {
	f, err := d.openOwn(ctx, scope, req, exact, excluded, rec)
	full := false // a file is there that cannot be unpacked now
	if d.Watched.exist() && (err == nil && f.cached || errors.Is(err, fs.ErrNotExist)) {
		// Files in place come after added ones and before downloaded ones.
		if w, werr := d.Watched.answer(ctx, scope, req, rec); werr == nil {
			if f != nil {
				_ = f.Close() // not used
			}
			return w, nil
		} else if errors.Is(werr, unpackcache.ErrFull) {
			full = true
		}
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if len(d.trees.list) > 0 && scope.sees("") {
		f, treeErr := d.trees.open(ctx, req, rec)
		switch {
		case errors.Is(treeErr, unpackcache.ErrFull):
			full = true
		case !errors.Is(treeErr, fs.ErrNotExist):
			return f, treeErr
		case !errors.Is(err, errOtherName):
			err = treeErr
		}
	}
	if full {
		return nil, errManyUnpacked
	}
	return nil, err
}

// errManyUnpacked means that a file is there, in a package or compressed, and cannot be
// unpacked now. A client that was told that there is none would remember that.
var errManyUnpacked = fmt.Errorf("too many unpacked files are in use: %w", ErrUnavailable)

// openOwn opens what the index has. excluded is what the filter says of req.
func (d *Depot) openOwn(ctx context.Context, scope Scope, req layout.Request, exact, excluded bool, rec *recorder) (*File, error) {
	switch req.Form {
	case layout.FormFile, layout.FormSection, layout.FormCabinet:
		if excluded {
			return nil, fs.ErrNotExist
		}
	case layout.FormSource:
		return openSource(ctx, d, scope, req, excluded, rec)
	default:
		// SymCache files have requests of their own.
		return d.records.open(ctx, scope, req, rec)
	}
	switch req.Form {
	case layout.FormSection:
		return d.openSection(ctx, scope, req, rec)
	case layout.FormCabinet:
		return d.openCabinet(ctx, scope, req, exact, rec)
	}
	hits, role, err := d.hits(ctx, scope, req, exact, rec)
	if err != nil {
		return nil, err
	}
	if h := hits[0]; role&symfile.CodeInfo != 0 && h.Role&role == symfile.CodeInfo {
		paths := layout.BreakpadTree.Paths(h.Object)
		if len(paths) == 0 {
			return nil, fs.ErrNotExist
		}
		return &File{Object: h.Object, Redirect: paths[0]}, nil
	}
	for _, h := range hits {
		f, err := d.openHit(ctx, h, rec)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// openSource opens a source file that debug information names, or a downloaded one.
func openSource(ctx context.Context, d *Depot, scope Scope, req layout.Request, excluded bool, rec *recorder) (f *File, err error) {
	if len(req.Lookups) == 0 {
		return nil, fs.ErrNotExist
	}
	err = fs.ErrNotExist
	if !excluded {
		f, err = d.Sources.open(ctx, scope, req, rec)
	}
	if errors.Is(err, fs.ErrNotExist) {
		cached := fetch.SourceRequest(req)
		return d.openOwn(ctx, scope, cached, false, absent(ctx, d, scope, cached, rec), rec)
	}
	return f, err
}

// find is hits for who has not asked the filter yet.
func (d *Depot) find(ctx context.Context, scope Scope, req layout.Request, exact bool, rec *recorder) ([]index.Hit, symfile.Role, error) {
	if absent(ctx, d, scope, req, rec) {
		return nil, 0, fs.ErrNotExist
	}
	return d.hits(ctx, scope, req, exact, rec)
}

// hits returns the ranked hits of the first lookup that has any, and the roles
// that it asked for. exact and rec are as for open.
func (d *Depot) hits(ctx context.Context, scope Scope, req layout.Request, exact bool, rec *recorder) ([]index.Hit, symfile.Role, error) {
	notFound := fs.ErrNotExist
	for _, l := range req.Lookups {
		hits, err := d.db.Lookup(ctx, scope.index(), l)
		if err != nil {
			return nil, 0, err
		}
		if len(hits) == 0 {
			rec.looked(l, NoHit, nil)
			continue
		}
		if l.Unique && !oneContent(hits) {
			rec.looked(l, Ambiguous, hits)
			continue
		}
		if hits = d.intact(hits); len(hits) == 0 {
			rec.looked(l, Damaged, nil)
			continue
		}
		if exact && l.Unique && !slices.ContainsFunc(hits, func(h index.Hit) bool { return h.Source == "" }) {
			rec.looked(l, CachedOtherName, hits)
			notFound = errOtherName
			continue
		}
		rank(hits, l.Role)
		rec.looked(l, Hit, hits)
		return hits, l.Role, nil
	}
	if req.Age == nil || req.Form != layout.FormFile || !wants(req, symfile.Debug) {
		return nil, 0, notFound
	}
	hits, err := d.db.HigherAge(ctx, scope.index(), symfile.Fold(req.Name), req.Age.GUID.Lower(), req.Age.Age)
	if err != nil {
		return nil, 0, err
	}
	if !wants(req, symfile.Compressed) {
		hits = slices.DeleteFunc(hits, func(h index.Hit) bool { return h.Role&symfile.Debug == 0 })
	}
	if hits = d.intact(hits); len(hits) == 0 {
		return nil, 0, notFound
	}
	rec.looked(symfile.Lookup{Name: symfile.Fold(req.Name), ID: req.Age.GUID.Lower(), Role: symfile.Debug}, HigherAge, hits)
	return hits, symfile.Debug, nil
}

// intact omits the hits whose stored bytes are known to be damaged, so that an
// upstream is asked for them.
func (d *Depot) intact(hits []index.Hit) []index.Hit {
	return slices.DeleteFunc(hits, func(h index.Hit) bool { return d.blobs.Suspect(h.Ref) })
}

func wants(req layout.Request, role symfile.Role) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.Role&role != 0 })
}

func oneContent(hits []index.Hit) bool {
	for _, h := range hits[1:] {
		if h.Ref != hits[0].Ref {
			return false
		}
	}
	return true
}

// rank sorts hits by preference, deterministically. An added file comes before
// a downloaded one, because an id says nothing about the content and an
// upstream must not replace what the operator added. A file that only try builds
// have comes after all other added ones. Among files of the same origin, debug
// information is preferred where there is most of it, and then in the file that
// holds nothing else; an ELF executable where it is smallest,
// unless it has no section headers, as one copied from memory; any other file
// where it is newest.
func rank(hits []index.Hit, role symfile.Role) {
	slices.SortStableFunc(hits, func(a, b index.Hit) int {
		if (a.Source == "") != (b.Source == "") {
			if a.Source == "" {
				return -1
			}
			return 1
		}
		if a.Try != b.Try {
			if b.Try {
				return -1
			}
			return 1
		}
		// A static program answers as debug information only if no debug file exists.
		if c := cmp.Compare(b.Role&role&symfile.Debug, a.Role&role&symfile.Debug); c != 0 && role&symfile.Companion != 0 {
			return c
		}
		// A relocatable object answers as an executable only if no executable exists.
		if c := cmp.Compare(b.Role&role&symfile.Executable, a.Role&role&symfile.Executable); c != 0 && role&symfile.Relocatable != 0 {
			return c
		}
		if role&symfile.Debug != 0 {
			if c := cmp.Compare(b.DebugSize, a.DebugSize); c != 0 {
				return c
			}
			if c := cmp.Compare(a.Role&symfile.Executable, b.Role&symfile.Executable); c != 0 {
				return c
			}
		} else if role&^symfile.Relocatable == symfile.Executable && a.Object.Kind == symfile.ELF && b.Object.Kind == symfile.ELF {
			if noSections(a) != noSections(b) {
				if noSections(b) {
					return -1
				}
				return 1
			}
			if c := cmp.Compare(a.Size, b.Size); c != 0 {
				return c
			}
		}
		return cmp.Or(b.Added.Compare(a.Added), slices.Compare(a.Ref[:], b.Ref[:]), cmp.Compare(a.Object.Name, b.Object.Name))
	})
}

// noSections reports whether a hit is an ELF image without section headers,
// which is smaller than the file that it was copied from and worth less.
func noSections(h index.Hit) bool {
	return slices.Contains(h.Features, objfile.Features{NoSections: true}.Words()[0])
}

// openHit opens the content of a hit. For a recorder, the use of a cached file is not
// noted.
func (d *Depot) openHit(ctx context.Context, h index.Hit, rec *recorder) (*File, error) {
	b, err := d.contents.open(ctx, index.Content{Ref: h.Ref, Size: h.Size})
	if err != nil {
		return nil, err
	}
	f := &File{Object: h.Object, Ref: h.Ref, source: h.Ref, Size: h.Size, ModTime: fileTime(h), Path: h.Path, Archive: h.Archive, Signature: h.Signature,
		ETag: h.Ref.String()[:32], r: b, plain: blob.OSFile(b), closer: b, stored: true, report: d.contents.report, cached: h.Source != ""}
	if h.Source != "" && rec == nil {
		f.closer = d.Cache.use(h.Ref, b)
	}
	return f, nil
}

// fileTime is the time of the file itself, or that of its adding if it is
// unknown or lies after that.
func fileTime(h index.Hit) time.Time {
	if h.ModTime.IsZero() || h.ModTime.Unix() <= 0 || h.ModTime.After(h.Added) {
		return h.Added
	}
	return h.ModTime
}

// openSection answers with one section's bytes: from debug information first,
// then from an executable, the first that has contents for it.
func (d *Depot) openSection(ctx context.Context, scope Scope, req layout.Request, rec *recorder) (*File, error) {
	for _, l := range req.Lookups {
		hits, err := d.db.Lookup(ctx, scope.index(), l)
		if err != nil {
			return nil, err
		}
		rank(hits, l.Role)
		rec.section(l, hits)
		for _, h := range hits {
			if h.Object.Kind != symfile.ELF {
				continue
			}
			f, err := d.openHit(ctx, h, rec)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			off, n, err := objfile.ELFSection(f.r, f.Size, req.Part)
			if err != nil {
				_ = f.Close()
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return nil, err
			}
			f.r, f.plain, f.stored, f.Size = io.NewSectionReader(f.r, off, n), nil, false, n
			f.ETag += "-" + sectionTag(req.Part)
			f.Signature = ""
			return f, nil
		}
	}
	return nil, fs.ErrNotExist
}

// sectionTag makes a section's name fit for an entity tag.
func sectionTag(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x21 || r == '"' || r > 0x7e {
			return '_'
		}
		return r
	}, name)
}
