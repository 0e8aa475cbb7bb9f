package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/layout"
)

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
func (d *Depot) Get(ctx context.Context, q answer.Question) (*answer.File, error) {
	s := search{d: d, Question: q, absent: absent(ctx, d, q.Scope, q.Request, nil)}
	if s.absent && onlyIndexed(d, &q.Request) {
		return nil, fs.ErrNotExist
	}
	if d.tracer == nil {
		return s.everywhere(ctx)
	}
	ctx, sp := d.tracer.Start(ctx, "lookup", span.Internal)
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

// Open finds the file that answers req inside the scope: in the depot, then in
// the served folders. Not found is fs.ErrNotExist. A damaged file is not found;
// the log names it.
func (d *Depot) Open(ctx context.Context, scope answer.Scope, req layout.Request) (*answer.File, error) {
	return d.open(ctx, scope, req, false, nil)
}

// open is Open. With exact, a cached file of another name than the requested one
// is not an answer. rec notes how the file was looked for; it may be nil.
func (d *Depot) open(ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder) (*answer.File, error) {
	s := search{
		d: d, Question: answer.Question{Scope: scope, Request: req}, absent: absent(ctx, d, scope, req, rec), exact: exact, rec: rec,
	}
	return answer.Search(ctx, answer.Here, &s)
}

// openInPlace finds a file in the watched folders and the served trees alone: for those who
// have looked into the index themselves, and join several files of a module. Unlike clients,
// who take any failure for the end of a server, they are told if a folder has failed.
func (d *Depot) openInPlace(ctx context.Context, scope answer.Scope, req layout.Request) (*answer.File, error) {
	s := search{d: d, Question: answer.Question{Scope: scope, Request: req}}
	f, err := answer.Search(ctx, answer.InPlace, &s)
	if s.failed != nil && errors.Is(err, fs.ErrNotExist) {
		return nil, s.failed
	}
	return f, err
}

// errOtherName means that only cached files with another name than the requested
// one have the requested id; see Get.
var errOtherName = fmt.Errorf("only a cached file of another name has this id: %w", fs.ErrNotExist)

// errManyUnpacked means that a file is there, in a package or compressed, and cannot be
// unpacked now. A client that was told that there is none would remember that.
var errManyUnpacked = fmt.Errorf("too many unpacked files are in use: %w", content.ErrUnavailable)

// search looks for the file that answers one question.
type search struct {
	d *Depot
	answer.Question
	absent bool             // the filter of all keys excludes that the index has it
	exact  bool             // a cached file of another name is no answer
	rec    *answer.Recorder // may be nil

	cached    *answer.File // found in the index, and less preferred than a watched file
	otherName bool         // only a cached file of another name has the id
	full      bool         // a file is there that cannot be unpacked now
	failed    error        // why a watched folder could not answer
	inTurn    bool
}

// everywhere is Get without a span.
func (s *search) everywhere(ctx context.Context) (*answer.File, error) {
	defer s.leave()
	if !s.Local {
		s.exact = s.d.Fetches()
		return answer.Search(ctx, answer.Everywhere, s)
	}
	if s.d.Fetches() {
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
		return s.served(ctx)
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
	f, err := s.d.openOwn(ctx, s.Scope, s.Request, s.exact, s.absent, s.rec)
	if err == nil && f.Cached {
		s.cached = f
		return nil, nil
	}
	s.otherName = errors.Is(err, errOtherName)
	return f, err
}

// watched finds a file in a watched folder. A folder that fails does not hide other places.
func (s *search) watched(ctx context.Context) (*answer.File, error) {
	if !s.d.Watched.exist() {
		return nil, nil
	}
	f, err := s.d.Watched.answer(ctx, s.Scope, s.Request, s.rec)
	switch {
	case err == nil:
		if s.cached != nil {
			_ = s.cached.Close() // not used
		}
		return f, nil
	case errors.Is(err, unpackcache.ErrFull):
		s.full = true
	case !errors.Is(err, fs.ErrNotExist):
		s.failed = err
	}
	return nil, nil
}

// served finds a file in a tree.
func (s *search) served(ctx context.Context) (f *answer.File, err error) {
	if len(s.d.trees.list) > 0 && s.Scope.Sees("") {
		f, err = s.d.trees.open(ctx, s.Request, s.rec)
		if errors.Is(err, unpackcache.ErrFull) {
			s.full = true
		} else if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	if s.full {
		return nil, errManyUnpacked
	}
	return nil, err
}

// upstreams downloads a file.
func (s *search) upstreams(ctx context.Context) (*answer.File, error) {
	f, err := s.d.download(ctx, s.Question)
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
	f, err := s.d.openOwn(ctx, s.Scope, s.Request, false, s.absent, nil)
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
		return s.d.Sources.Bundle(ctx, s.Scope, s.Request)
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
	f, err := s.d.Symbols.Make(ctx, SymbolsAsk{
		Products: s.Scope.Products, Format: format, Module: module, Client: s.Client, Via: s.Via, Local: s.Local, Hold: s.Hold,
	})
	if errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(symbolicate.NoWorkerError)) {
		return nil, nil // it cannot be made: the reason is why no place has it
	}
	return f, err
}
