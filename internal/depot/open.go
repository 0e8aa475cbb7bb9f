package depot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// absent asks the filter of all keys whether certainly nothing in the index and the scope
// answers a request, without a query and without waiting. It takes equally long for hidden
// and for missing files. With a recorder it does not: the index is asked why.
func absent(ctx context.Context, d *Depot, scope answer.Scope, req layout.Request, rec *answer.Recorder) bool {
	return rec == nil && d.filter.excludes(ctx, scope.Index(), req)
}

// openOwn opens what the index has. excluded is what the filter says of req.
func (d *Depot) openOwn(ctx context.Context, scope answer.Scope, req layout.Request, exact, excluded bool, rec *answer.Recorder) (*answer.File, error) {
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
		return &answer.File{Object: h.Object, Redirect: paths[0]}, nil
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
func openSource(ctx context.Context, d *Depot, scope answer.Scope, req layout.Request, excluded bool, rec *answer.Recorder) (f *answer.File, err error) {
	if len(req.Lookups) == 0 {
		return nil, fs.ErrNotExist
	}
	err = fs.ErrNotExist
	if !excluded {
		f, err = d.Sources.Open(ctx, scope, req, rec)
	}
	if errors.Is(err, fs.ErrNotExist) {
		cached := fetch.SourceRequest(req)
		return d.openOwn(ctx, scope, cached, false, absent(ctx, d, scope, cached, rec), rec)
	}
	return f, err
}

// find is hits for who has not asked the filter yet.
func (d *Depot) find(ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder) ([]record.Hit, symfile.Role, error) {
	if absent(ctx, d, scope, req, rec) {
		return nil, 0, fs.ErrNotExist
	}
	return d.hits(ctx, scope, req, exact, rec)
}

// hits returns the ranked hits of the first lookup that has any, and the roles
// that it asked for. exact and rec are as for open.
func (d *Depot) hits(ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder) ([]record.Hit, symfile.Role, error) {
	notFound := fs.ErrNotExist
	for _, l := range req.Lookups {
		hits, err := d.db.Lookup(ctx, scope.Index(), l)
		if err != nil {
			return nil, 0, err
		}
		if len(hits) == 0 {
			rec.Looked(l, answer.NoHit, nil)
			continue
		}
		if l.Unique && !answer.OneContent(hits) {
			rec.Looked(l, answer.Ambiguous, hits)
			continue
		}
		if hits = d.intact(hits); len(hits) == 0 {
			rec.Looked(l, answer.Damaged, nil)
			continue
		}
		if exact && l.Unique && !slices.ContainsFunc(hits, func(h record.Hit) bool { return h.Source == "" }) {
			rec.Looked(l, answer.CachedOtherName, hits)
			notFound = errOtherName
			continue
		}
		answer.Rank(hits, l.Role)
		rec.Looked(l, answer.Hit, hits)
		return hits, l.Role, nil
	}
	if req.Age == nil || req.Form != layout.FormFile || !wants(req, symfile.Debug) {
		return nil, 0, notFound
	}
	hits, err := d.db.HigherAge(ctx, scope.Index(), symfile.Fold(req.Name), req.Age.GUID.Lower(), req.Age.Age)
	if err != nil {
		return nil, 0, err
	}
	if !wants(req, symfile.Compressed) {
		hits = slices.DeleteFunc(hits, func(h record.Hit) bool { return h.Role&symfile.Debug == 0 })
	}
	if hits = d.intact(hits); len(hits) == 0 {
		return nil, 0, notFound
	}
	rec.Looked(symfile.Lookup{Name: symfile.Fold(req.Name), ID: req.Age.GUID.Lower(), Role: symfile.Debug}, answer.HigherAge, hits)
	return hits, symfile.Debug, nil
}

// intact omits the hits whose stored bytes are known to be damaged, so that an
// upstream is asked for them.
func (d *Depot) intact(hits []record.Hit) []record.Hit {
	return slices.DeleteFunc(hits, func(h record.Hit) bool { return d.blobs.Suspect(h.Ref) })
}

func wants(req layout.Request, role symfile.Role) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.Role&role != 0 })
}

// openHit opens the content of a hit. For a recorder, the use of a cached file is not
// noted.
func (d *Depot) openHit(ctx context.Context, h record.Hit, rec *answer.Recorder) (*answer.File, error) {
	b, err := d.contents.Open(ctx, record.Content{Ref: h.Ref, Size: h.Size})
	if err != nil {
		return nil, err
	}
	f := &answer.File{Object: h.Object, Ref: h.Ref, Source: h.Ref, Size: h.Size, ModTime: answer.FileTime(h), Path: h.Path, Archive: h.Archive, Signature: h.Signature,
		ETag: h.Ref.String()[:32], Bytes: b, Disk: blob.OSFile(b), Closer: b, Whole: true, OnDamage: d.contents.Report, Cached: h.Source != ""}
	if h.Source != "" && rec == nil {
		f.Closer = d.Cache.use(h.Ref, b)
	}
	return f, nil
}

// openSection answers with one section's bytes: from debug information first,
// then from an executable, the first that has contents for it.
func (d *Depot) openSection(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	for _, l := range req.Lookups {
		hits, err := d.db.Lookup(ctx, scope.Index(), l)
		if err != nil {
			return nil, err
		}
		answer.Rank(hits, l.Role)
		rec.Section(l, hits)
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
			off, n, err := objfile.ELFSection(f.Bytes, f.Size, req.Part)
			if err != nil {
				_ = f.Close()
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return nil, err
			}
			f.Bytes, f.Disk, f.Whole, f.Size = io.NewSectionReader(f.Bytes, off, n), nil, false, n
			f.ETag += "-" + answer.SectionTag(req.Part)
			f.Signature = ""
			return f, nil
		}
	}
	return nil, fs.ErrNotExist
}

// openCabinet opens a cabinet that has been made. If there is none, one may be
// made for later requests. exact and rec are as for open.
func (d *Depot) openCabinet(ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder) (*answer.File, error) {
	hits, _, err := d.hits(ctx, scope, req, exact, rec)
	if err != nil {
		return nil, err
	}
	h := hits[0]
	if !cabinets[h.Object.Kind] {
		return nil, fs.ErrNotExist
	}
	want := Form{Ref: h.Ref, Tool: transcode.Cab, Name: h.Object.Name, Time: h.Added}
	c, err := d.forms.known(ctx, want)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if d.makeCabinets && rec == nil {
			d.forms.ask(want, 1)
		}
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case c.Size == 0:
		return nil, fs.ErrNotExist // was tried: it is too large
	}
	source := h.Ref
	h.Ref, h.Size = c.Ref, c.Size
	f, err := d.openHit(ctx, h, rec)
	if err == nil {
		f.Packed, f.Source = true, source
	}
	return f, err
}

// Encoded returns f in the first of the content codings that has been made. If
// there is none, the file is nil and the request counts towards making one. f must
// be a whole plain file; the caller closes it.
func (d *Depot) Encoded(ctx context.Context, f *answer.File, codingNames []string) (*answer.File, error) {
	if !f.Whole || f.Packed || f.Volatile || f.Size < variantMin || f.Size > variantMax {
		return nil, nil
	}
	var first *Form
	for _, name := range codingNames {
		tool, ok := codings[name]
		if !ok {
			continue
		}
		want := Form{Ref: f.Ref, Tool: tool}
		if first == nil {
			first = &want
		}
		v, err := d.forms.known(ctx, want)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if v.Size == 0 {
			return nil, nil // was tried: it would not be smaller
		}
		b, err := d.contents.Open(ctx, v)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the plain bytes are right
		}
		if err != nil {
			return nil, err
		}
		e := *f
		e.Encoding, e.Size, e.ETag = tool.Name, b.Size(), f.ETag+"-"+tool.Name
		e.Bytes, e.Disk, e.Closer = b, blob.OSFile(b), b
		return &e, nil
	}
	if first != nil {
		d.forms.ask(*first, variantAsks)
	}
	return nil, nil
}
