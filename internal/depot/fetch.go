package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/span"
	"github.com/symdepot/symdepot/internal/symbolicate"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

type (
	// Upstream is a server, bucket or folder that files are downloaded from, to be kept.
	Upstream = fetch.Upstream
	// Limits bound downloads.
	Limits = fetch.Limits
	// Lifetimes say for how long it is remembered why an upstream gave no file.
	Lifetimes = fetch.Lifetimes
	// UpstreamStatus are the counters of an upstream.
	UpstreamStatus = fetch.Status
	// MissFilter says which misses to forget.
	MissFilter = index.MissFilter
)

// UpstreamMetadata searches on the upstreams that speak debuginfod; see
// fetch.Fetcher.Metadata.
func (d *Depot) UpstreamMetadata(ctx context.Context, q answer.Question, key, value string) (list []Metadata, complete bool) {
	found, complete := d.fetch.Metadata(ctx, fetch.MetadataQuery{Key: key, Value: value, Products: q.Scope.Products, Via: q.Via, Origin: q.Origin})
	for _, m := range found {
		list = append(list, Metadata(m))
	}
	return list, complete
}

// errDownloading answers a request for a derived content whose original is being
// downloaded: it may be found later.
var errDownloading = fmt.Errorf("the file that it is made of is being downloaded: %w", fs.ErrNotExist)

// Get answers a question: from the depot's contents and what is derived from
// them, from the watched and the served folders, then from the upstreams, unless q is
// Local, and at last with a file that is made: a symbol file, or a bundle of sources.
// Not found is fs.ErrNotExist; see also symbolicate.PendingError and symbolicate.ErrBusy.
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
	a := asked{q, absent(ctx, d, q.Scope, q.Request, nil)}
	if a.absent && onlyIndexed(d, &q.Request) {
		return nil, fs.ErrNotExist
	}
	if d.tracer == nil {
		return answered(ctx, d, a)
	}
	ctx, s := d.tracer.Start(ctx, "lookup", span.Internal)
	defer s.End()
	f, err := answered(ctx, d, a)
	switch {
	case err == nil:
		s.Number("symdepot.size", f.Size)
	case errors.Is(err, fs.ErrNotExist):
		s.Text("symdepot.result", "miss")
	default:
		s.Fail("the lookup failed")
	}
	return f, err
}

// asked is a question with what the filter of all keys says of it.
type asked struct {
	answer.Question
	absent bool
}

// answered is Get without a span.
func answered(ctx context.Context, d *Depot, q asked) (*answer.File, error) {
	f, err := lookUp(ctx, d, q)
	if !errors.Is(err, fs.ErrNotExist) || q.Local && d.Fetches() || ctx.Err() != nil {
		return f, err
	}
	return makeAnswer(ctx, d, q, err)
}

// makeAnswer answers a question for a file that nobody has with one that is made. If nothing
// can be made, the error is notFound.
func makeAnswer(ctx context.Context, d *Depot, q asked, notFound error) (*answer.File, error) {
	if q.Held {
		q.Hold = q.Turn.Hold
	}
	if q.Hold != nil && AsksForBundle(&q.Request) {
		return d.Sources.Bundle(ctx, q.Scope, q.Request)
	}
	format, module, ok := symbolicate.FormatOf(&q.Request)
	if !ok {
		return nil, notFound
	}
	if err := q.Turn.Enter(); err != nil {
		return nil, err
	}
	defer q.Turn.Leave()
	module.CodeFile, module.CodeID = q.CodeFile, q.CodeID
	f, err := d.Symbols.Make(ctx, SymbolsAsk{
		Products: q.Scope.Products, Format: format, Module: module, Client: q.Client, Via: q.Via, Local: q.Local, Hold: q.Hold,
	})
	if errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(symbolicate.NoWorkerError)) {
		err = notFound
	}
	return f, err
}

// lookUp is answered without the files that are made.
func lookUp(ctx context.Context, d *Depot, q asked) (*answer.File, error) {
	f, err := d.enterAndOpen(ctx, q, !q.Local && d.Fetches())
	if q.Local || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	otherName := errors.Is(err, errOtherName)
	f, err = d.download(ctx, q.Question)
	if f != nil {
		f.Downloaded = true
	}
	if !otherName || !errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDownloading) {
		return f, err
	}
	f, err = d.enterAndOpen(ctx, q, false)
	if err == nil {
		f.Substitute = true
	}
	return f, err
}

// enterAndOpen opens a file of the depot or of its folders in the turn of a question.
func (d *Depot) enterAndOpen(ctx context.Context, q asked, exact bool) (*answer.File, error) {
	if err := q.Turn.Enter(); err != nil {
		return nil, err
	}
	defer q.Turn.Leave()
	return openAfter(ctx, d, q.Scope, q.Request, exact, q.absent, nil)
}

// download asks the upstreams for a file that Open did not find; see Get.
func (d *Depot) download(ctx context.Context, q answer.Question) (*answer.File, error) {
	if !d.fetch.Enabled() || len(q.Request.Lookups) == 0 {
		return nil, fs.ErrNotExist
	}
	switch q.Request.Form {
	case layout.FormFile, layout.FormSource:
	case layout.FormSection:
		return d.downloadSection(ctx, q)
	case layout.FormCabinet:
		// Clients do not wait for a cabinet: they ask for the plain file next.
		_, err := d.fetch.Start(ctx, q.Download())
		if err == nil {
			err = errDownloading
		}
		return nil, err
	default:
		return nil, fs.ErrNotExist
	}
	for range 3 {
		question := q.Download()
		if d.tracer != nil {
			question.Span = span.From(ctx)
		}
		f, err := d.fetch.Open(ctx, question)
		if !errors.Is(err, fetch.ErrInDepot) {
			return downloaded(f), err
		}
		// It may be evicted before it is opened here.
		if f, err := d.Open(ctx, q.Scope, q.Request); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// downloadAnew is download without regard to remembered misses.
func (d *Depot) downloadAnew(ctx context.Context, q answer.Question) (*answer.File, error) {
	f, err := d.fetch.OpenAnew(ctx, q.Download())
	if errors.Is(err, fetch.ErrInDepot) {
		return d.Open(ctx, q.Scope, q.Request)
	}
	return downloaded(f), err
}

// downloaded makes a download an answer.
func downloaded(f *fetch.File) *answer.File {
	switch {
	case f == nil:
		return nil
	case f.Redirect != "":
		return &answer.File{Redirect: f.Redirect}
	}
	return &answer.File{
		Object: f.Object, Ref: f.Ref, Size: f.Size, ModTime: f.ModTime, Path: f.Path, Signature: f.Signature, ETag: f.ETag, Volatile: f.Growing, Growing: f.Growing,
		Product: f.Product, Bytes: f, Disk: f.OSFile(), Await: f.Arrived, Closer: f,
	}
}

// sectionWait is how long a request for a section waits for the download of its
// file. After a miss, the client requests the whole file, which is then on its way.
const sectionWait = 3 * time.Second

// downloadSection answers with a section of debug information that has to be
// downloaded first: a section alone cannot be checked.
func (d *Depot) downloadSection(ctx context.Context, q answer.Question) (*answer.File, error) {
	wait := time.NewTimer(d.sectionWait)
	defer wait.Stop()
	for _, l := range q.Request.Lookups {
		whole := q
		whole.Request = layout.Request{Form: layout.FormFile, Layout: q.Request.Layout, Lookups: []symfile.Lookup{l}}
		if _, _, err := d.find(ctx, q.Scope, whole.Request, false, nil); err == nil {
			return nil, fs.ErrNotExist // it is here, and Open has found no such section
		}
		ended, err := d.fetch.Start(ctx, whole.Download())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-ended:
		case <-wait.C:
			return nil, fs.ErrNotExist
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f, err := d.Open(ctx, q.Scope, q.Request); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// Remembered returns the remembered misses of the upstreams that may be asked, by
// their names.
func (d *Depot) Remembered(ctx context.Context, q answer.Question) (map[string]fetch.Miss, error) {
	return d.fetch.Remembered(ctx, q.Download())
}

// Fetches reports whether there are upstreams for what the depot lacks.
func (d *Depot) Fetches() bool { return d.fetch.Enabled() }

// Upstreams returns the counters of the upstreams that have some.
func (d *Depot) Upstreams() []UpstreamStatus { return d.fetch.Statuses(d.symcache.Servers()...) }

// fetchDepot is what downloads need of the depot.
type fetchDepot struct{ d *Depot }

// Holds implements fetch.Depot.
func (k fetchDepot) Holds(ctx context.Context, products []string, req layout.Request) bool {
	if req.Form == layout.FormSource {
		req = fetch.SourceRequest(req)
	}
	_, _, err := k.d.find(ctx, answer.Scope{Products: products}, req, true, nil)
	return err == nil
}

// Spool implements fetch.Depot.
func (k fetchDepot) Spool() (*blob.Spool, error) { return k.d.blobs.Spool() }

// Keep implements fetch.Depot.
func (k fetchDepot) Keep(ctx context.Context, f fetch.Kept) error {
	var entries []index.Entry
	for _, o := range f.Objects {
		entries = append(entries, index.Entry{
			Object: o.Object.Object, Arch: o.Arch, Features: o.Features.Words(), DebugSize: o.DebugSize, Ref: f.Ref, Size: f.Size,
			Aliases: o.Aliases, Path: o.Path, ModTime: f.ModTime,
		})
	}
	if len(entries) == 0 {
		return nil
	}
	err := k.d.db.Cached.Put(ctx, index.CachedFile{
		Source: f.Upstream, Name: f.Name, URL: f.URL, Tag: f.Tag, Ref: f.Ref, Size: f.Size, Fetched: f.Fetched, Product: f.Product, Signature: f.Signature, Entries: entries,
	}, func(ctx context.Context, _ []blob.Ref) error {
		_, err := k.d.blobs.Stat(ctx, f.Ref)
		return err
	})
	if err == nil {
		k.d.Symbols.arrived(ctx, entries)
	}
	return err
}

// Misses implements fetch.Depot.
func (k fetchDepot) Misses(ctx context.Context, key string) (map[string]fetch.Miss, error) {
	known := map[string]fetch.Miss{}
	rows, err := k.d.db.Misses.Of(ctx, key)
	for _, m := range rows {
		known[m.Source] = fetch.Miss{Class: fetch.Class(m.Class), Until: m.Until, Since: m.Since, Detail: m.Detail}
	}
	return known, err
}

// PutMisses implements fetch.Depot.
func (k fetchDepot) PutMisses(ctx context.Context, key string, misses map[string]fetch.Miss) error {
	var rows []index.Miss
	for name, m := range misses {
		rows = append(rows, index.Miss{Key: key, Source: name, Class: uint8(m.Class), Until: m.Until, Since: m.Since, Detail: m.Detail})
	}
	return k.d.db.Misses.Put(ctx, rows)
}

// ForgetMiss implements fetch.Depot.
func (k fetchDepot) ForgetMiss(ctx context.Context, key, name string) error {
	_, err := k.d.db.Misses.Flush(ctx, MissFilter{Key: key, Source: name})
	return err
}
