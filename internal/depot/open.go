package depot

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/dumps"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/depot/nodes"
	"github.com/symdepot/symdepot/internal/depot/search"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/depot/storerecords"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/publicform"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/symfile"
)

// Open opens the depot in a folder or, if where is a URL that begins with
// postgres://, in a PostgreSQL database. It checks the format before it changes
// anything.
func Open(ctx context.Context, where string, opt Options) (*Depot, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	h, err := home.Open(ctx, where, opt.Home())
	if err != nil {
		return nil, err
	}
	opt.Now = h.Now
	d := &Depot{log: opt.Log, links: opt.Links, hooks: opt.Hooks, home: h, dir: h.Dir, db: h.DB, now: h.Now}
	d.openContents(&opt)
	d.openPlaces(&opt)
	if err := d.openMakers(ctx, &opt); err != nil {
		d.filter.Stop()
		return nil, errors.Join(err, d.db.Close(), d.blobs.Close(), d.filter.Close())
	}
	d.openStages(&opt)
	d.Check.UseAccepted(d.stages.Audit)
	if err := d.Nodes.Join(ctx, nodes.Parts{
		Queue: d.queue, Fetch: d.fetch, Watched: d.Watched, Stages: d.stages, Upstreams: opt.Upstreams, Dial: opt.Dial,
	}, opt.Nodes); err != nil {
		return nil, errors.Join(fmt.Errorf("depot %s: %w", h.Name, err), d.Close())
	}
	return d, nil
}

// openContents makes the parts that keep contents: their store, their checks, their lifecycle.
func (d *Depot) openContents(opt *Options) {
	h := d.home
	d.Cold = coldstore.NewCold(coldstore.Home{
		DB: d.db, Below: h.Blobs, Placed: h.Placed, Dir: d.dir, Local: h.Local, Forms: []string{publicform.Kind},
	}, opt.Cold, d.log, d.now)
	h.Blobs = d.Cold.Store()
	d.blobs = h.Blobs
	d.contents = content.New(d.blobs, h.Placed, d.db, d.log, d.now)
	d.Cache = cache.New(d.db, d.blobs, opt.Cache, d.Cold.Disk, d.now)
	d.Check = check.New(h, d.Cold, d.contents, opt.ScrubRate, d.log)
	d.Dumps = dumps.New(dumps.Parts{DB: d.db, Blobs: d.blobs, Contents: d.contents, Keep: opt.KeepDumps, Log: d.log, Now: d.now})
	d.Confirmed = newConfirmations(d.db, d.blobs.Suspect, d.log)
	d.Tokens = d.db.Tokens
	d.Retention = lifecycle.NewRetention(lifecycle.Home{
		DB: d.db, Blobs: d.blobs, Placed: h.Placed, Block: h.Block, Cold: d.Cold, Audit: d.Check.AuditDue,
	}, d.log, d.now)
	pages := catalog.NewPages(h.Secret, d.log)
	d.Missing = catalog.NewMissing(d.db, pages, d.now)
	d.Catalog = catalog.New(d.db, d.Retention.Policy, pages, d.log)
	d.reads = &Reads{db: d.db}
	d.forms = forms.New(d.dir, d.db, d.blobs, d.contents, opt.MakeCabinets)
}

// openPlaces makes the parts that find the file that answers a request. They ask Symbols, which
// is made later.
func (d *Depot) openPlaces(opt *Options) {
	d.filter = lookup.NewFilter(d.db, d.log, opt.Hooks.Refreshed)
	d.lookups = lookup.New(lookup.Parts{
		DB: d.db, Filter: d.filter, Contents: d.contents, Suspect: d.blobs.Suspect, Cache: d.Cache, Forms: d.forms, Log: d.log,
	})
	d.Nodes = nodes.New(d.db, d.blobs, d.filter.Watch(), opt.Nodes, d.log)
	d.Watched = inplace.NewWatched(d.dir, d.Nodes, d.blobs.Spool, d.log, d.now)
	d.InPlace = inplace.New(d.Watched, opt.Sources, d.log)
	d.Sources = sourcefiles.New(sourcefiles.Parts{
		DB: d.db, Blobs: d.blobs, Contents: d.contents, OpenHit: d.lookups.OpenHit, Log: d.log,
	})
	arrived := func(ctx context.Context, entries []record.Entry) { d.Symbols.arrived(ctx, entries) }
	wished := func(w *engine.Write, tx int64, keys iter.Seq[symfile.Alias]) error {
		return d.Arrivals.EnterDownload(w, tx, keys)
	}
	others, _ := symcachework.SplitUpstreams(opt.Upstreams)
	d.fetch = fetch.New(fetchDepot{d.db, d.blobs, d.contents, d.Cold, d.lookups, d.log, arrived, wished}, fetch.Options{
		Upstreams: others, Limits: opt.Limits, Lifetimes: opt.Lifetimes, Log: d.log, Tracer: opt.Tracer,
		Now: d.now, MissEpoch: d.Nodes.MissEpoch,
	})
	d.db.OnRewind(d.fetch.ForgetMemory)
	d.places = search.New(search.Parts{
		Lookups: d.lookups, Records: storerecords.New(opt.Records, d.db, d.lookups), Sources: d.Sources, InPlace: d.InPlace, Fetch: d.fetch,
		Make:        func(ctx context.Context, ask SymbolsAsk) (*answer.File, error) { return d.Symbols.Make(ctx, ask) },
		SectionWait: opt.Limits.FirstByte, Tracer: opt.Tracer,
	})
}

// openMakers makes the parts that make files of others, and those that add and explain.
func (d *Depot) openMakers(ctx context.Context, opt *Options) (err error) {
	made := opt.Jobs
	made.Log, made.Now, made.Tracer, made.Duty, made.Others = d.log, d.now, opt.Tracer, d.Nodes.Do, d.Nodes.Workers
	d.queue = jobs.New(d.db.Jobs, made)
	_, servers := symcachework.SplitUpstreams(opt.Upstreams)
	d.symcache, err = symcachework.New(ctx, symcachework.Options{
		Depot: symcacheDepot{d.lookups, d.Cache, d.InPlace, d.places}, DB: d.db, Blobs: d.blobs, Fetch: d.fetch, Queue: d.queue, Servers: servers,
		Make: opt.Transcode, Folders: opt.SymCache, Log: d.log, Now: d.now,
	})
	if err != nil {
		return err
	}
	d.Remote = &Remote{d.db, d.fetch, d.symcache}
	own := symbolsDepot{d.db, d.lookups, d.contents, d.InPlace, d.fetch}
	work := symbolicate.New(symbolicate.Parts{
		Depot: own,
		DB:    d.db, Blobs: d.blobs, Queue: d.queue, Log: d.log, Now: d.now, Scratch: d.dir, Generation: d.Generation,
	}, opt.Symbols)
	d.Symbols = &Symbols{work, own, d.lookups, d.contents, d.places}
	public := publicform.New(publicform.Parts{
		DB: d.db, Blobs: d.blobs, Open: d.contents.Open, AddedAgain: d.Cold.AddedAgain, Queue: d.queue,
		Log: d.log, Now: d.now, Scratch: d.dir,
		OpenPlaced: func(ctx context.Context, p publicform.Placed) (publicform.PlacedFile, error) {
			f, err := d.InPlace.OpenWatched(ctx, answer.Scope{Products: p.Products}, p.Request)
			if err != nil {
				return nil, err
			}
			return symbolsFile{f}, nil
		},
	})
	d.Retention.EnterPublic = public.EnterBuild
	d.door = audience.New(audience.Parts{
		Lookups: d.lookups, Forms: d.forms, InPlace: d.InPlace, Download: d.places.Bring,
		Make: func(ctx context.Context, ask SymbolsAsk, forms audience.Forms) (*answer.File, error) {
			return d.Symbols.public(forms).Make(ctx, ask)
		},
		Source: func(ask SymbolsAsk, forms audience.Forms) symbolicate.UnwindSource {
			return d.Symbols.public(forms).Source(ask)
		},
		Public: public,
	})
	d.Arrivals = arrivals.New(arrivals.Parts{DB: d.db, Queue: d.queue, Log: d.log, Now: d.now, Hooks: opt.Webhooks})
	d.Watched.Tell(d.Arrivals.Found)
	d.commits = &commits{
		depot: d.home.Name, db: d.db, blobs: d.blobs, contents: d.contents, cold: d.Cold, symbols: d.Symbols, confirmed: d.Confirmed,
		retention: d.Retention,
		arrivals:  d.Arrivals.EnterBuild,
	}
	d.Tracer = why.New(why.Parts{
		DB: d.db, Fetch: d.fetch, Cold: d.Cold, Symbols: d.Symbols.SymbolsWork, SymCache: d.symcache,
		Open: d.places.Open, OpenMade: d.Symbols.open, Get: d.places.Get, DownloadAnew: d.places.DownloadAnew,
		Served: func(ctx context.Context, scope answer.Scope, name string, limit int) []record.Found {
			return d.InPlace.FindServed(ctx, scope, tree.Query{Name: name}, limit)
		},
		Form: d.forms.Made, Compresses: forms.Compresses, HasCabinets: forms.HasCabinets, MakesCabinets: opt.MakeCabinets,
	})
	return nil
}
