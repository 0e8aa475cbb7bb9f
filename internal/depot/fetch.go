package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
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
	if err != nil {
		return err
	}
	k.d.Symbols.arrived(ctx, entries)
	// It is kept already: what fails here is what verify finds.
	damaged, err := k.d.db.Damages.Among(ctx, []blob.Ref{f.Ref})
	if err == nil {
		_, err = k.d.commits.healed(ctx, damaged)
	}
	if err != nil && ctx.Err() == nil {
		k.d.log.Warn("a damaged file was downloaded again, and what is recorded about the damage stays for now",
			"content", f.Ref.String(), "error", err)
	}
	return nil
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
