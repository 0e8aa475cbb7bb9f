package depot

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// Other SymCache servers are asked before anything is made here, once for all
// who ask, in the background and at their pace. Which version they have is not
// known before; that they were asked is remembered, so that asking us again
// asks nobody else.
type farSymCaches struct {
	sources []Upstream
	// got is what came of asking lately, by key and version.
	got *otter.Cache[string, farGot]

	downloads *fetch.Group[string, *farTransfer] // by farKey

	mu      sync.Mutex
	clients map[string]int // guarded by mu; downloads that a client began
}

type farGot struct {
	version symcache.Version
	until   time.Time
}

const (
	farKnown    = 50_000           // answers remembered in memory
	farPatience = 30 * time.Minute // for a server that is still transcoding
	farUnasked  = 5 * time.Minute  // and if nobody asks us any more
	farPause    = 10 * time.Second // between two questions, at most
	// mostFar is how many may be under way, and mostClientFar how many that one
	// client began: each may last for minutes, while the server transcodes.
	mostFar       = 1024
	mostClientFar = 256
)

func (s *farSymCaches) init(sources []Upstream) {
	s.sources, s.clients = sources, map[string]int{}
	s.downloads = fetch.NewGroup[string, *farTransfer](mostFar)
	s.got = otter.Must(&otter.Options[string, farGot]{MaximumSize: farKnown})
}

// speaksSymCache reports whether a source is a SymCache server.
func speaksSymCache(u Upstream) bool { return u.Source.Traits().SymCacheServer }

// farTransfer is what is asked of other servers for one key and version.
type farTransfer struct {
	key     symcache.Key
	version symcache.Version
	via     []string
	ended   chan struct{}

	mu    sync.Mutex
	asked time.Time // guarded by mu; last by a client
}

// wait waits until the transfer has ended or ctx ends.
func (f *farTransfer) wait(ctx context.Context) error {
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *farTransfer) wanted() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.asked)
}

func farKey(key symcache.Key, v symcache.Version) string {
	return "symcache/" + jobKey(key) + "/" + v.String()
}

// askableFar reports whether another server may have what is not held.
func (d *Depot) askableFar(ctx context.Context, key symcache.Key, v symcache.Version, held []symcache.Version) (bool, error) {
	s := &d.symcaches.far
	if len(s.sources) == 0 || !symfile.ValidName(key.Name) {
		return false, nil
	}
	name, now := farKey(key, v), d.now()
	if g, ok := s.got.GetIfPresent(name); ok && now.Before(g.until) {
		for _, h := range held {
			if h == g.version {
				return false, nil
			}
		}
		return true, nil // it was let go of
	}
	return d.fetch.MayHave(ctx, name, s.sources), nil
}

// begin counts a download for the client that begins it; false: it has too many.
func (s *farSymCaches) begin(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client != "" && s.clients[client] >= mostClientFar {
		return false
	}
	s.clients[client]++
	return true
}

func (s *farSymCaches) end(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[client]--; s.clients[client] <= 0 {
		delete(s.clients, client)
	}
}

// askFar asks the other servers, unless that is under way; nil if too many are
// being asked, in all or for this client, or the depot is closing.
func (d *Depot) askFar(key symcache.Key, v symcache.Version, ask SymCacheAsk) *farTransfer {
	s, name := &d.symcaches.far, farKey(key, v)
	f, ok := s.downloads.Join(name, func() (*farTransfer, bool) {
		return &farTransfer{key: key, version: v, via: ask.Via, ended: make(chan struct{}), asked: time.Now()}, s.begin(ask.Client)
	}, func(f *farTransfer) {
		ctx, cancel := context.WithTimeout(d.closing, farPatience+time.Hour)
		defer cancel()
		d.runFar(ctx, f, name)
		s.end(ask.Client)
		s.downloads.Leave(name)
		close(f.ended)
	})
	if !ok {
		return nil
	}
	f.mu.Lock()
	f.asked = time.Now()
	f.mu.Unlock()
	return f
}

// runFar asks one server after the other until one gives a file.
func (d *Depot) runFar(ctx context.Context, f *farTransfer, name string) {
	s := &d.symcaches.far
	var got symcache.Version
	done, err := d.fetch.AskEach(ctx, name, s.sources, func(ctx context.Context, u Upstream) (err error) {
		got, err = d.fetchFar(ctx, u, f)
		return err
	})
	if err != nil && ctx.Err() == nil {
		d.log.Error("a SymCache file of an upstream cannot be kept", "file", f.key.Path(f.version), "error", err)
	}
	if done {
		s.got.Set(name, farGot{got, d.now().Add(max(d.fetch.Lifetimes().Of(fetch.ClassAbsent), time.Minute))})
	}
}

// fetchFar asks one server until it has an answer, and keeps a file that it gives.
func (d *Depot) fetchFar(ctx context.Context, u Upstream, f *farTransfer) (symcache.Version, error) {
	ask := fetch.Ask{
		Request: layout.Request{
			Form: layout.FormSymCache, Layout: layout.SymCache, Name: f.key.Name, SymCache: symcache.Request{Version: f.version, Key: f.key},
			Lookups: []symfile.Lookup{{Name: symfile.Fold(f.key.Name), ID: symfile.Fold(f.key.ID.Breakpad()), Role: symfile.SymCacheFile}},
		},
		Via: f.via, Limit: d.jobs.opt.MaxResult,
	}
	for end := time.Now().Add(farPatience); ; {
		v, err := d.takeFar(ctx, u, f, ask)
		if err == nil {
			return v, nil
		}
		fail, ok := errors.AsType[*fetch.Failure](err)
		if !ok || fail.Class != fetch.ClassAbsent || fail.Retry.IsZero() {
			return symcache.Version{}, err
		}
		if time.Now().After(end) || f.wanted() > farUnasked {
			return symcache.Version{}, &fetch.Failure{Source: u.Source.Name(), Class: fetch.ClassTimeout, Err: errors.New("it is still making the file")}
		}
		if !pause(ctx, nil, min(max(time.Until(fail.Retry), 0), farPause)) {
			return symcache.Version{}, ctx.Err()
		}
	}
}

// takeFar asks a server once, and keeps the file that it gives.
func (d *Depot) takeFar(ctx context.Context, u Upstream, f *farTransfer, ask fetch.Ask) (symcache.Version, error) {
	var none, v symcache.Version
	sp, reply, err := d.fetch.Receive(ctx, u, ask, func(r *fetch.Reply) (err error) {
		v, err = symcache.ParseContentType(r.Header.Get("Content-Type"), f.version)
		return err
	}, symcache.Detect)
	if err != nil {
		return none, err
	}
	defer sp.Close()
	c := index.Content{Size: sp.Size()}
	if c.Ref, err = sp.Keep(); err != nil {
		return none, err
	}
	o := symfile.Object{Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: f.key.Name, CodeName: f.key.FileName(v), DebugID: f.key.ID}
	err = d.db.Cached.Put(ctx, index.CachedFile{
		Source: u.Source.Name(), Name: o.CodeName, URL: reply.Path, Tag: reply.Tag, Ref: c.Ref, Size: c.Size, Fetched: d.now(), Product: u.Product,
		Entries: []index.Entry{{Object: o, Features: objfile.Features{Symtab: true}.Words(), Ref: c.Ref, Size: c.Size, Aliases: o.Aliases(), Path: o.CodeName}},
	}, func(ctx context.Context, _ []blob.Ref) error {
		_, err := d.blobs.Stat(ctx, c.Ref)
		return err
	})
	if err != nil {
		return none, err
	}
	d.storeSymCache(ctx, f.key, v, c)
	d.log.Info("a SymCache file came from another server", "source", u.Source.Name(), "file", f.key.Path(v), "bytes", c.Size)
	return v, nil
}

// splitSymCache parts the SymCache servers, best first, from the other sources.
func splitSymCache(list []Upstream) (others, servers []Upstream) {
	for _, u := range list {
		if speaksSymCache(u) {
			servers = append(servers, u)
		} else {
			others = append(others, u)
		}
	}
	slices.SortStableFunc(servers, func(a, b Upstream) int { return cmp.Compare(a.Rank, b.Rank) })
	return others, servers
}
