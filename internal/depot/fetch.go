package depot

import (
	"context"
	"iter"
	"log/slog"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// UpstreamMetadata searches on the upstreams that speak debuginfod; see
// fetch.Fetcher.Metadata.
func (d *Depot) UpstreamMetadata(ctx context.Context, q answer.Question, key, value string) (list []Metadata, complete bool) {
	query := fetch.MetadataQuery{Key: key, Value: value, Products: q.Scope.Products, Via: q.Via, Origin: q.Origin}
	found, complete := d.fetch.Metadata(ctx, query)
	for _, m := range found {
		list = append(list, Metadata(m))
	}
	return list, complete
}

// Remembered returns the remembered misses of the upstreams that may be asked, by
// their names.
func (d *Depot) Remembered(ctx context.Context, q answer.Question) (map[string]fetch.Miss, error) {
	return d.fetch.Remembered(ctx, q.Download())
}

// Fetches reports whether there are upstreams for what the depot lacks.
func (d *Depot) Fetches() bool { return d.fetch.Enabled() }

// Upstreams returns the counters of the upstreams that have some.
func (d *Depot) Upstreams() []UpstreamStatus { return d.Remote.Upstreams() }

// fetchDepot is what downloads need of the depot.
type fetchDepot struct {
	db       *index.DB
	blobs    blob.Backend
	contents *content.Contents
	cold     *coldstore.Cold
	lookups  *lookup.Lookups
	log      *slog.Logger
	arrived  func(context.Context, []record.Entry) // what a download replaces is let go of
	// wished makes arrivals of the wishes that a download of the row tx fulfils, in a write.
	wished func(w *engine.Write, tx int64, keys iter.Seq[symfile.Alias]) error
}

// Holds implements fetch.Depot.
func (k fetchDepot) Holds(ctx context.Context, products []string, req layout.Request) bool {
	if req.Form == layout.FormSource {
		req = fetch.SourceRequest(req)
	}
	_, _, err := k.lookups.Find(ctx, answer.Scope{Products: products}, req, true, nil)
	return err == nil
}

// Checksum implements fetch.Depot.
func (k fetchDepot) Checksum(ctx context.Context, products []string, req layout.Request) string {
	return k.lookups.PDBChecksum(ctx, answer.Scope{Products: products}, req)
}

// Spool implements fetch.Depot.
func (k fetchDepot) Spool() (*blob.Spool, error) { return k.blobs.Spool() }

// Keep implements fetch.Depot.
func (k fetchDepot) Keep(ctx context.Context, f fetch.Kept) error {
	var entries []record.Entry
	for _, o := range f.Objects {
		entries = append(entries, record.Entry{
			Object: o.Object.Object, Arch: o.Arch, Features: o.Features.Words(), DebugSize: o.DebugSize, Ref: f.Ref, Size: f.Size,
			Aliases: o.Aliases, Path: o.Path, ModTime: f.ModTime,
		})
	}
	if len(entries) == 0 {
		return nil
	}
	err := k.db.Cached.Put(ctx, contents.CachedFile{
		Source: f.Upstream, Name: f.Name, URL: f.URL, Tag: f.Tag, Ref: f.Ref, Size: f.Size, Fetched: f.Fetched,
		Product: f.Product, Signature: f.Signature, Entries: entries,
		Also: func(w *engine.Write, tx int64) error { return k.wished(w, tx, keysOf(entries)) },
	}, func(ctx context.Context, _ []blob.Ref) error {
		_, err := k.blobs.Stat(ctx, f.Ref)
		return err
	})
	if err != nil {
		return err
	}
	k.arrived(ctx, entries)
	// It is kept already: what fails here is what verify finds.
	damaged, err := k.db.Damages.Among(ctx, []blob.Ref{f.Ref})
	if err == nil {
		_, err = healed(ctx, k.cold, k.contents, damaged)
	}
	if err != nil && ctx.Err() == nil {
		k.log.Warn("a damaged file was downloaded again, and what is recorded about the damage stays for now",
			"content", f.Ref.String(), "error", err)
	}
	return nil
}

// keysOf returns the keys under which the objects of entries are found.
func keysOf(entries []record.Entry) iter.Seq[symfile.Alias] {
	return func(yield func(symfile.Alias) bool) {
		for i := range entries {
			for _, a := range entries[i].Aliases {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// Misses implements fetch.Depot.
func (k fetchDepot) Misses(ctx context.Context, key string) (map[string]fetch.Miss, error) {
	known := map[string]fetch.Miss{}
	rows, err := k.db.Misses.Of(ctx, key)
	for _, m := range rows {
		known[m.Source] = fetch.Miss{Class: fetch.Class(m.Class), Until: m.Until, Since: m.Since, Detail: m.Detail}
	}
	return known, err
}

// PutMisses implements fetch.Depot.
func (k fetchDepot) PutMisses(ctx context.Context, key string, missed map[string]fetch.Miss) error {
	var rows []misses.Miss
	for name, m := range missed {
		rows = append(rows, misses.Miss{Key: key, Source: name, Class: uint8(m.Class), Until: m.Until, Since: m.Since, Detail: m.Detail})
	}
	return k.db.Misses.Put(ctx, rows)
}

// ForgetMiss implements fetch.Depot.
func (k fetchDepot) ForgetMiss(ctx context.Context, key, name string) error {
	_, err := k.db.Misses.Flush(ctx, MissFilter{Key: key, Source: name})
	return err
}
