// Package search finds the file that answers a question: it asks the places of answer.Search, in
// their order. What each place has is known to others.
package search

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/depot/storerecords"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// Parts are what the places are made of.
type Parts struct {
	Lookups *lookup.Lookups
	Records *storerecords.Records
	Sources *sourcefiles.Files
	InPlace *inplace.Places
	Fetch   *fetch.Fetcher
	// Make answers a request for a symbol file with one that is made of other files.
	Make func(ctx context.Context, ask symbolicate.Ask) (*answer.File, error)
	// SectionWait is how long a request for a section waits for the download of its file; zero:
	// three seconds.
	SectionWait time.Duration
	// Tracer records lookups; nil records nothing.
	Tracer *span.Tracer
}

// Places are all places where the file that answers a request can be. Their methods may be
// called by many goroutines.
type Places struct{ parts Parts }

// New returns the places of a depot.
func New(parts Parts) *Places {
	parts.SectionWait = cmp.Or(parts.SectionWait, sectionWait)
	return &Places{parts}
}

// Get answers a question: from the places of answer.Search, in their order. A Local question
// does not reach the upstreams. Not found is fs.ErrNotExist; see also
// symbolicate.PendingError and symbolicate.ErrBusy.
//
// An id does not always identify one file. If the client names a file and the
// depot only has a cached file of another name with that id, the upstreams are
// asked first; the cached file is the answer if none of them has the named one.
//
// Get returns when the first bytes of a download have arrived. The File is then
// Growing: its end is withheld until the whole file has been checked, so its bytes
// are right only if the end can be read. Clients that request the same key share
// one download, which continues when they give up.
//
// Most requests to a symbol server are for keys that do not exist. The filter of all keys is
// asked first, and once: where only the index could have an answer, the request does not
// wait for its Turn.
func (p *Places) Get(ctx context.Context, q answer.Question) (*answer.File, error) {
	absent := p.parts.Lookups.Absent(ctx, q.Scope, &q.Request, nil)
	if absent && p.onlyIndexed(&q.Request) {
		return nil, fs.ErrNotExist
	}
	s := p.search(q, absent, nil)
	if p.parts.Tracer == nil {
		return s.everywhere(ctx)
	}
	ctx, sp := p.parts.Tracer.Start(ctx, "lookup", span.Internal)
	defer sp.End()
	f, err := s.everywhere(ctx)
	switch {
	case err == nil:
		sp.Number("symdepot.size", f.Size)
	case errors.Is(err, fs.ErrNotExist):
		sp.Text("symdepot.result", "miss")
	default:
		sp.Fail("the lookup failed")
	}
	return f, err
}

// Lacks reports whether Get would certainly find nothing for a request: only the index could
// answer it, and the filter of all keys excludes that. It does not wait.
func (p *Places) Lacks(ctx context.Context, scope answer.Scope, req *layout.Request) bool {
	return p.onlyIndexed(req) && p.parts.Lookups.Absent(ctx, scope, req, nil)
}

// onlyIndexed reports whether nothing but the index could answer a request by its keys.
func (p *Places) onlyIndexed(req *layout.Request) bool {
	return !p.parts.InPlace.Exist() && !p.parts.Fetch.Enabled() && !p.parts.Records.Parses(*req)
}

// Open finds the file that answers a request inside the scope: in the depot, then in
// the served folders. With exact, a cached file of another name than the requested one
// is not an answer. rec notes how the file was looked for; it may be nil.
func (p *Places) Open(ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder) (*answer.File, error) {
	s := p.search(answer.Question{Scope: scope, Request: req}, p.parts.Lookups.Absent(ctx, scope, &req, rec), rec)
	s.exact = exact
	return answer.Search(ctx, answer.Here, s)
}

// search looks for the file that answers one question.
type search struct {
	places *Places
	answer.Question
	inPlace inplace.Search
	absent  bool             // the filter of all keys excludes that the index has it
	exact   bool             // a cached file of another name is no answer
	rec     *answer.Recorder // may be nil

	cached    *answer.File // found in the index, and less preferred than a watched file
	otherName bool         // only a cached file of another name has the id
	inTurn    bool
}

// search begins the search for the answer to a question. rec may be nil.
func (p *Places) search(q answer.Question, absent bool, rec *answer.Recorder) *search {
	return &search{places: p, Question: q, inPlace: p.parts.InPlace.Search(q.Scope, q.Request, rec), absent: absent, rec: rec}
}

// everywhere is Get without a span.
func (s *search) everywhere(ctx context.Context) (*answer.File, error) {
	defer s.leave()
	fetches := s.places.parts.Fetch.Enabled()
	switch {
	case !s.Local:
		s.exact = fetches
		return answer.Search(ctx, answer.Everywhere, s)
	case fetches:
		return answer.Search(ctx, answer.Here, s)
	}
	return answer.Search(ctx, answer.Here|answer.Made, s)
}

// Look implements answer.Searcher.
func (s *search) Look(ctx context.Context, place answer.Places) (*answer.File, error) {
	switch place {
	case answer.Added:
		return s.added(ctx)
	case answer.Watched:
		return s.watched(ctx)
	case answer.Cached:
		return s.cached, nil
	case answer.Served:
		defer s.leave()
		return s.inPlace.Look(ctx, answer.Served)
	case answer.Upstreams:
		return s.upstreams(ctx)
	case answer.Renamed:
		return s.renamed(ctx)
	}
	return s.made(ctx)
}

// enter begins the turn of the question, in which the index and the folders are searched.
func (s *search) enter() error {
	if err := s.Turn.Enter(); err != nil {
		return err
	}
	s.inTurn = true
	return nil
}

func (s *search) leave() {
	if s.inTurn {
		s.Turn.Leave()
		s.inTurn = false
	}
}

// added finds what the index has. A cached file waits for its place.
func (s *search) added(ctx context.Context) (*answer.File, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	f, err := s.indexed(ctx, s.exact, s.rec)
	if err == nil && f.Cached {
		s.cached = f
		return nil, nil
	}
	s.otherName = errors.Is(err, lookup.ErrOtherName)
	return f, err
}

// indexed opens what the index has.
func (s *search) indexed(ctx context.Context, exact bool, rec *answer.Recorder) (*answer.File, error) {
	switch s.Request.Form {
	case layout.FormFile, layout.FormSection, layout.FormCabinet:
		return s.places.parts.Lookups.Open(ctx, s.Scope, s.Request, exact, s.absent, rec)
	case layout.FormSource:
		return s.source(ctx, rec)
	}
	// SymCache files have requests of their own.
	return s.places.parts.Records.Open(ctx, s.Scope, s.Request, rec)
}

// source opens a source file that debug information names, or a downloaded one.
func (s *search) source(ctx context.Context, rec *answer.Recorder) (f *answer.File, err error) {
	if len(s.Request.Lookups) == 0 {
		return nil, fs.ErrNotExist
	}
	err = fs.ErrNotExist
	if !s.absent {
		f, err = s.places.parts.Sources.Open(ctx, s.Scope, s.Request, rec)
	}
	if errors.Is(err, fs.ErrNotExist) {
		cached, lookups := fetch.SourceRequest(s.Request), s.places.parts.Lookups
		return lookups.Open(ctx, s.Scope, cached, false, lookups.Absent(ctx, s.Scope, &cached, rec), rec)
	}
	return f, err
}

// watched finds a file in a watched folder.
func (s *search) watched(ctx context.Context) (*answer.File, error) {
	f, err := s.inPlace.Look(ctx, answer.Watched)
	if f != nil && s.cached != nil {
		_ = s.cached.Close() // not used
	}
	return f, err
}

// upstreams downloads a file.
func (s *search) upstreams(ctx context.Context) (*answer.File, error) {
	f, err := s.places.Download(ctx, s.Question)
	if f != nil {
		f.Downloaded = true
	}
	if errors.Is(err, errDownloading) {
		s.otherName = false
	}
	return f, err
}

// renamed finds a cached file of another name.
func (s *search) renamed(ctx context.Context) (*answer.File, error) {
	if !s.otherName {
		return nil, nil
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	f, err := s.indexed(ctx, false, nil)
	if err == nil {
		f.Substitute = true
	}
	return f, err
}

// made makes the file: a symbol file, or a bundle of sources.
func (s *search) made(ctx context.Context) (*answer.File, error) {
	if ctx.Err() != nil {
		return nil, nil
	}
	if s.Held {
		s.Hold = s.Turn.Hold
	}
	if s.Hold != nil && sourcefiles.AsksForBundle(&s.Request) {
		return s.places.parts.Sources.Bundle(ctx, s.Scope, s.Request)
	}
	format, module, ok := symbolicate.FormatOf(&s.Request)
	if !ok {
		return nil, nil
	}
	// The request may be held, and leaves its turn then: the turn is not the search's to keep.
	if err := s.Turn.Enter(); err != nil {
		return nil, err
	}
	defer s.Turn.Leave()
	module.CodeFile, module.CodeID = s.CodeFile, s.CodeID
	f, err := s.places.parts.Make(ctx, symbolicate.Ask{
		Products: s.Scope.Products, Format: format, Module: module, Client: s.Client, Via: s.Via, Local: s.Local, Hold: s.Hold,
	})
	if errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(symbolicate.NoWorkerError)) {
		return nil, nil // it cannot be made: the reason is why no place has it
	}
	if _, failed := errors.AsType[*inplace.FailedError](err); failed {
		return nil, nil // as for any file that the folder may have
	}
	return f, err
}
