package depot

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/depot/search"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// AsksForSymbols reports whether a request asks for a symbol file, which may be made.
func AsksForSymbols(req *layout.Request) bool {
	_, _, ok := symbolicate.FormatOf(req)
	return ok
}

// Symbols is the part of a depot that makes symbol files and looks addresses up.
type Symbols struct {
	*SymbolsWork
	own      symbolsDepot
	lookups  *lookup.Lookups
	contents *content.Contents
	places   *search.Places
}

// Make answers a request for a Breakpad or GSYM file that Get did not find,
// with one that is made of the other files of the module. Not found is
// fs.ErrNotExist; see also symbolicate.PendingError and symbolicate.ErrBusy.
func (s *Symbols) Make(ctx context.Context, ask SymbolsAsk) (*answer.File, error) {
	f, a, err := s.make(ctx, ask)
	if errors.Is(err, fs.ErrNotExist) && a.Content.Ref != (blob.Ref{}) {
		// Its bytes are damaged, or were evicted since.
		if err = s.Lost(ctx, a); err == nil {
			f, _, err = s.make(ctx, ask)
		}
	}
	return f, err
}

func (s *Symbols) make(ctx context.Context, ask SymbolsAsk) (*answer.File, symbolicate.Answer, error) {
	a, err := s.Answer(ctx, ask)
	if err != nil {
		return nil, symbolicate.Answer{}, err
	}
	f, err := s.open(ctx, a)
	return f, a, err
}

// open opens an answer.
func (s *Symbols) open(ctx context.Context, a symbolicate.Answer) (*answer.File, error) {
	switch {
	case a.Redirect != "":
		return &answer.File{Object: a.Object, Redirect: a.Redirect}, nil
	case a.Cached != nil:
		rec := answer.RecorderIn(ctx)
		f, err := s.lookups.OpenHit(ctx, *a.Cached, rec)
		if err == nil {
			f.Object, f.Made = a.Object, true
		}
		return f, err
	}
	b, err := s.contents.Open(ctx, a.Content)
	if err != nil {
		return nil, err
	}
	return &answer.File{
		Object: a.Object, Ref: a.Content.Ref, Source: a.Source, Size: a.Content.Size, ModTime: b.ModTime(), Made: true,
		ETag: a.Content.Ref.String()[:32], Bytes: b, Disk: blob.OSFile(b), Closer: b, Whole: true, OnDamage: s.contents.Report,
	}, nil
}

// arrived lets go of the symbol files that were made for modules of which symbol files
// have arrived. It is no part of their transaction: a made file never outranks them.
func (s *Symbols) arrived(ctx context.Context, entries []record.Entry) {
	if err := s.Arrived(context.WithoutCancel(ctx), entries); err != nil {
		s.Log.Warn("cannot let go of the symbol files that added ones replace", "error", err)
	}
}

// symbolsDepot is what the making of symbol files needs of the depot.
type symbolsDepot struct {
	db       *index.DB
	lookups  *lookup.Lookups
	contents *content.Contents
	inPlace  *inplace.Places
	fetch    *fetch.Fetcher
}

// NotIndexed implements symbolicate.Depot.
func (p symbolsDepot) NotIndexed(ctx context.Context, products []string, id string) bool {
	return p.lookups.Absent(ctx, answer.Scope{Products: products}, &layout.Request{Lookups: []symfile.Lookup{{ID: id}}}, nil)
}

// Lookup implements symbolicate.Depot.
func (p symbolsDepot) Lookup(ctx context.Context, products []string, l symfile.Lookup) ([]record.Hit, error) {
	hits, err := p.db.Lookup(ctx, answer.Scope{Products: products}.Index(), l)
	return p.lookups.Intact(hits), err
}

// Named implements symbolicate.Depot.
func (p symbolsDepot) Named(
	ctx context.Context, products []string, name string, kind symfile.Kind, number int64, limit int,
) ([]record.Hit, error) {
	hits, err := index.NamedNear(ctx, p.db, answer.Scope{Products: products}.Index(), name, kind, number, limit)
	return p.lookups.Intact(hits), err
}

// publicDepot is symbolsDepot of which everything is a public form.
type publicDepot struct {
	symbolsDepot
	forms audience.Forms
}

// Lookup implements symbolicate.Depot.
func (p publicDepot) Lookup(ctx context.Context, products []string, l symfile.Lookup) ([]record.Hit, error) {
	hits, err := p.symbolsDepot.Lookup(ctx, products, l)
	if err != nil {
		return nil, err
	}
	return p.forms.Of(ctx, hits)
}

// Named implements symbolicate.Depot.
func (p publicDepot) Named(
	ctx context.Context, products []string, name string, kind symfile.Kind, number int64, limit int,
) ([]record.Hit, error) {
	hits, err := p.symbolsDepot.Named(ctx, products, name, kind, number, limit)
	if err != nil {
		return nil, err
	}
	return p.forms.Of(ctx, hits)
}

// InTrees implements symbolicate.Depot: only files in watched folders have public forms.
func (p publicDepot) InTrees(ctx context.Context, products []string, req layout.Request) (symbolicate.File, error) {
	return symbolsFileOf(p.forms.Watched(ctx, products, req))
}

// Fetch implements symbolicate.Depot.
func (publicDepot) Fetch(context.Context, symbolicate.Ask, layout.Request) error {
	return fs.ErrNotExist
}

// public returns the symbols of a depot in which all files are public forms.
func (s *Symbols) public(forms audience.Forms) *Symbols {
	return &Symbols{s.With(publicDepot{s.own, forms}), s.own, s.lookups, s.contents, s.places}
}

// symbolsFile is an open file of the depot.
type symbolsFile struct{ *answer.File }

// Tag implements symbolicate.File.
func (f symbolsFile) Tag() string { return f.ETag }

func symbolsFileOf(f *answer.File, err error) (symbolicate.File, error) {
	if err != nil {
		return nil, err
	}
	return symbolsFile{f}, nil
}

// OpenHit implements symbolicate.Depot.
func (p symbolsDepot) OpenHit(ctx context.Context, h record.Hit) (symbolicate.File, error) {
	rec := answer.RecorderIn(ctx)
	return symbolsFileOf(p.lookups.OpenHit(ctx, h, rec))
}

// OpenContent implements symbolicate.Depot.
func (p symbolsDepot) OpenContent(ctx context.Context, c record.Content) (symbolicate.File, error) {
	b, err := p.contents.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return symbolsFile{&answer.File{Ref: c.Ref, Size: c.Size, Bytes: b, Closer: b, OnDamage: p.contents.Report}}, nil
}

// InTrees implements symbolicate.Depot.
func (p symbolsDepot) InTrees(ctx context.Context, products []string, req layout.Request) (symbolicate.File, error) {
	return symbolsFileOf(p.inPlace.Open(ctx, answer.Scope{Products: products}, req))
}

// Fetch implements symbolicate.Depot.
func (p symbolsDepot) Fetch(ctx context.Context, ask symbolicate.Ask, req layout.Request) error {
	if !p.fetch.Enabled() || len(req.Lookups) == 0 {
		return fs.ErrNotExist
	}
	ended, err := p.fetch.Start(ctx, fetch.Question{Products: ask.Products, Request: req, Via: ask.Via, Client: ask.Client})
	switch {
	case errors.Is(err, fetch.ErrInDepot):
		return nil
	case err != nil:
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
