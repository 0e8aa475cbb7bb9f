// Package lookup has what the index answers a request with: the filter of all keys, the files
// that have a key, which of them is preferred, and their bytes opened. It asks no folder and
// no upstream.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Parts are what lookups use.
type Parts struct {
	DB       *index.DB
	Filter   *Filter
	Contents *content.Contents
	// Suspect reports whether the stored bytes of a content are known to be damaged.
	Suspect func(blob.Ref) bool
	Cache   *cache.Cache
	Forms   *forms.Forms
	Log     *slog.Logger
}

// Lookups find and open the files that the index has. Their methods may be called by many
// goroutines.
type Lookups struct{ parts Parts }

// New returns the lookups of a depot.
func New(parts Parts) *Lookups { return &Lookups{parts} }

// ErrOtherName means that only cached files with another name than the requested one have the
// requested id.
var ErrOtherName = fmt.Errorf("only a cached file of another name has this id: %w", fs.ErrNotExist)

// Absent asks the filter of all keys whether certainly nothing in the index and the scope
// answers a request, without a query and without waiting. It takes equally long for hidden
// and for missing files. With a recorder it does not: the index is asked why.
func (l *Lookups) Absent(ctx context.Context, scope answer.Scope, req *layout.Request, rec *answer.Recorder) bool {
	return rec == nil && l.parts.Filter.Excludes(ctx, scope.Index(), req)
}

// Open opens the file that the index has for a request: a whole file, a section of one, or its
// cabinet. With exact, a cached file of another name than the requested one is no answer, and
// the error is ErrOtherName. absent is what the filter says of the request. rec notes what was
// looked for; it may be nil.
func (l *Lookups) Open(
	ctx context.Context, scope answer.Scope, req layout.Request, exact, absent bool, rec *answer.Recorder,
) (*answer.File, error) {
	if absent {
		return nil, fs.ErrNotExist
	}
	switch req.Form {
	case layout.FormSection:
		return l.openSection(ctx, scope, req, rec)
	case layout.FormCabinet:
		return l.openCabinet(ctx, scope, req, exact, rec)
	}
	hits, role, err := l.hits(ctx, scope, req, exact, rec)
	if err != nil {
		return nil, err
	}
	if f, ok := answer.CodeRedirect(hits[0], role); ok {
		if f == nil {
			return nil, fs.ErrNotExist
		}
		return f, nil
	}
	for _, h := range hits {
		f, err := l.OpenHit(ctx, h, rec)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// Find returns the ranked files of the first lookup that has any, and the roles that it asked
// for, for who has not asked the filter yet. exact and rec are as for Open.
func (l *Lookups) Find(
	ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder,
) ([]record.Hit, symfile.Role, error) {
	if l.Absent(ctx, scope, &req, rec) {
		return nil, 0, fs.ErrNotExist
	}
	return l.hits(ctx, scope, req, exact, rec)
}

// hits is Find without the filter.
func (l *Lookups) hits(
	ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder,
) ([]record.Hit, symfile.Role, error) {
	notFound := fs.ErrNotExist
	for _, want := range req.Lookups {
		hits, err := l.parts.DB.Lookup(ctx, scope.Index(), want)
		if err != nil {
			return nil, 0, err
		}
		if len(hits) == 0 {
			rec.Looked(want, answer.NoHit, nil)
			continue
		}
		if want.Unique && !answer.OneContent(hits) {
			rec.Looked(want, answer.Ambiguous, hits)
			continue
		}
		if hits = l.Intact(hits); len(hits) == 0 {
			rec.Looked(want, answer.Damaged, nil)
			continue
		}
		if exact && want.Unique && !slices.ContainsFunc(hits, func(h record.Hit) bool { return h.Source == "" }) {
			rec.Looked(want, answer.CachedOtherName, hits)
			notFound = ErrOtherName
			continue
		}
		answer.Rank(hits, want.Role)
		rec.Looked(want, answer.Hit, hits)
		return hits, want.Role, nil
	}
	if req.Age == nil || req.Form != layout.FormFile || !wants(req, symfile.Debug) {
		return nil, 0, notFound
	}
	hits, err := l.parts.DB.HigherAge(ctx, scope.Index(), symfile.Fold(req.Name), req.Age.GUID.Lower(), req.Age.Age)
	if err != nil {
		return nil, 0, err
	}
	if !wants(req, symfile.Compressed) {
		hits = slices.DeleteFunc(hits, func(h record.Hit) bool { return h.Role&symfile.Debug == 0 })
	}
	if hits = l.Intact(hits); len(hits) == 0 {
		return nil, 0, notFound
	}
	rec.Looked(symfile.Lookup{Name: symfile.Fold(req.Name), ID: req.Age.GUID.Lower(), Role: symfile.Debug}, answer.HigherAge, hits)
	return hits, symfile.Debug, nil
}

// Intact omits the hits whose stored bytes are known to be damaged, so that an
// upstream is asked for them.
func (l *Lookups) Intact(hits []record.Hit) []record.Hit {
	return slices.DeleteFunc(hits, func(h record.Hit) bool { return l.parts.Suspect(h.Ref) })
}

func wants(req layout.Request, role symfile.Role) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.Role&role != 0 })
}

// OpenHit opens the content of a hit. For a recorder, the use of a cached file is not
// noted.
func (l *Lookups) OpenHit(ctx context.Context, h record.Hit, rec *answer.Recorder) (*answer.File, error) {
	b, err := l.parts.Contents.Open(ctx, record.Content{Ref: h.Ref, Size: h.Size})
	if err != nil {
		return nil, err
	}
	f := &answer.File{
		Object: h.Object, Ref: h.Ref, Source: h.Ref, Size: h.Size, ModTime: answer.FileTime(h), ETag: h.Ref.String()[:32],
		Path: h.Path, Archive: h.Archive, Signature: h.Signature, Cached: h.Source != "",
		Bytes: b, Disk: blob.OSFile(b), Closer: b, Whole: true, OnDamage: l.parts.Contents.Report,
	}
	if h.Source != "" && rec == nil {
		f.Closer = l.parts.Cache.Use(h.Ref, b)
	}
	return f, nil
}

// openSection answers with one section's bytes: from debug information first,
// then from an executable, the first that has contents for it.
func (l *Lookups) openSection(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	for _, want := range req.Lookups {
		hits, err := l.parts.DB.Lookup(ctx, scope.Index(), want)
		if err != nil {
			return nil, err
		}
		answer.Rank(hits, want.Role)
		rec.Section(want, hits)
		for _, h := range hits {
			if h.Object.Kind != symfile.ELF {
				continue
			}
			f, err := l.OpenHit(ctx, h, rec)
			if err == nil {
				err = f.Cut(req.Part)
			}
			if err == nil {
				return f, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return nil, fs.ErrNotExist
}

// openCabinet opens a cabinet that has been made. If there is none, one may be made for later
// requests, not for those that are traced.
func (l *Lookups) openCabinet(
	ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder,
) (*answer.File, error) {
	hits, _, err := l.hits(ctx, scope, req, exact, rec)
	if err != nil {
		return nil, err
	}
	h := hits[0]
	c, err := l.parts.Forms.Cabinet(ctx, h, rec == nil)
	if err != nil {
		return nil, err
	}
	source := h.Ref
	h.Ref, h.Size = c.Ref, c.Size
	f, err := l.OpenHit(ctx, h, rec)
	if err == nil {
		f.Packed, f.Source = true, source
	}
	return f, err
}
