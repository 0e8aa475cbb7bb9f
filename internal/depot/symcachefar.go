package depot

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/upstream"
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

	mu      sync.Mutex
	under   map[string]*farTransfer // guarded by mu
	clients map[string]int          // guarded by mu; how many of them a client began
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
	s.sources, s.under, s.clients = sources, map[string]*farTransfer{}, map[string]int{}
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
	m, ok := d.fetch.misses.GetIfPresent(name)
	if ok && now.Before(m.until) && (m.rows == 0 || now.Sub(m.looked) <= lookAgain) {
		return false, nil
	}
	known, err := d.rememberedMisses(ctx, name)
	if err != nil {
		return false, err
	}
	if ok && now.Before(m.until) && lasting(known, now) >= m.rows {
		m.looked = now
		d.fetch.misses.Set(name, m)
		return false, nil
	}
	if m, ok = d.fetch.combine(known, s.sources, now); !ok {
		d.fetch.misses.Invalidate(name)
		return true, nil
	}
	d.fetch.misses.Set(name, m)
	return false, nil
}

// askFar asks the other servers, unless that is under way; nil if too many are
// being asked, in all or for this client, or the depot is closing.
func (d *Depot) askFar(key symcache.Key, v symcache.Version, ask SymCacheAsk) *farTransfer {
	s, name := &d.symcaches.far, farKey(key, v)
	d.fetch.mu.Lock() // Close waits for what has begun by then
	defer d.fetch.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.under[name]
	if f == nil {
		if d.closing.Err() != nil || len(s.under) >= mostFar || ask.Client != "" && s.clients[ask.Client] >= mostClientFar {
			return nil
		}
		s.clients[ask.Client]++
		f = &farTransfer{key: key, version: v, via: ask.Via, ended: make(chan struct{}), asked: time.Now()}
		s.under[name] = f
		d.fetch.under.Go(func() {
			ctx, cancel := context.WithTimeout(d.closing, farPatience+time.Hour)
			defer cancel()
			d.flyFar(ctx, f, name)
			s.mu.Lock()
			delete(s.under, name)
			if s.clients[ask.Client]--; s.clients[ask.Client] <= 0 {
				delete(s.clients, ask.Client)
			}
			s.mu.Unlock()
			close(f.ended)
		})
	}
	f.mu.Lock()
	f.asked = time.Now()
	f.mu.Unlock()
	return f
}

// flyFar asks one server after the other until one gives a file.
func (d *Depot) flyFar(ctx context.Context, f *farTransfer, name string) {
	s := &d.symcaches.far
	known, err := d.rememberedMisses(ctx, name)
	if err != nil {
		known = map[string]failed{}
	}
	for _, u := range d.worthAsking(s.sources, known) {
		v, err := d.fetchFar(ctx, u, f)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.got.Set(name, farGot{v, d.now().Add(max(d.fetch.lives.of(upstream.ClassAbsent), time.Minute))})
			return
		}
		if !isFailure(err) {
			d.log.Error("a SymCache file of another server cannot be kept", "source", u.Source.Name(), "file", f.key.Path(f.version), "error", err)
			return
		}
		if k, ok := d.lasting(err); ok {
			known[u.Source.Name()] = k
		} else {
			delete(known, u.Source.Name())
		}
	}
	now := d.now()
	if m, ok := d.fetch.combine(known, s.sources, now); ok {
		d.fetch.misses.Set(name, m)
	} else {
		// Something is not to be remembered, but those who wait shall hear that
		// nothing came of it, and not ask at once again.
		d.fetch.misses.Set(name, miss{until: now.Add(hurry)})
	}
	if err := d.putMisses(ctx, name, known, now); err != nil && ctx.Err() == nil {
		d.log.Warn("what is missing elsewhere could not be written down", "error", err)
	}
}

// fetchFar asks one server until it has an answer, and keeps a file that it gives.
func (d *Depot) fetchFar(ctx context.Context, u Upstream, f *farTransfer) (symcache.Version, error) {
	ask := upstream.Ask{
		Request: layout.Request{
			Form: layout.FormSymCache, Layout: layout.SymCacheTree, Name: f.key.Name, Version: f.version.Segment(), SymCache: symcache.Request{Version: f.version, Key: f.key},
			Lookups: []symfile.Lookup{{Name: symfile.Fold(f.key.Name), ID: symfile.Fold(f.key.ID.Breakpad()), Role: symfile.SymCacheFile}},
		},
		Via: f.via, Limit: d.jobs.opt.MaxResult,
	}
	for end := time.Now().Add(farPatience); ; {
		v, err := d.fetchFarOnce(ctx, u, f, ask)
		if err == nil {
			return v, nil
		}
		fail, ok := errors.AsType[*upstream.Failure](err)
		if !ok || fail.Class != upstream.ClassAbsent || fail.Retry.IsZero() {
			return symcache.Version{}, err
		}
		if time.Now().After(end) || f.wanted() > farUnasked {
			return symcache.Version{}, &upstream.Failure{Source: u.Source.Name(), Class: upstream.ClassTimeout, Err: errors.New("it is still making the file")}
		}
		if !pause(ctx, nil, min(max(time.Until(fail.Retry), 0), farPause)) {
			return symcache.Version{}, ctx.Err()
		}
	}
}

// fetchFarOnce asks a server once. It takes one of the places of all downloads
// for that long, not while the server is transcoding.
func (d *Depot) fetchFarOnce(ctx context.Context, u Upstream, f *farTransfer, ask upstream.Ask) (symcache.Version, error) {
	wait := time.NewTimer(queueTime)
	defer wait.Stop()
	select {
	case d.fetch.slots <- struct{}{}:
		defer func() { <-d.fetch.slots }()
	case <-ctx.Done():
		return symcache.Version{}, ctx.Err()
	case <-wait.C:
		return symcache.Version{}, &upstream.Failure{Source: u.Source.Name(), Class: upstream.ClassBusy, Err: errCrowd}
	}
	reply, err := u.Source.Fetch(ctx, ask)
	if err != nil {
		return symcache.Version{}, err
	}
	return d.takeFar(ctx, u, f, reply)
}

// takeFar takes a file in and keeps it.
func (d *Depot) takeFar(ctx context.Context, u Upstream, f *farTransfer, reply *upstream.Reply) (symcache.Version, error) {
	defer reply.Body.Close()
	none := symcache.Version{}
	broken := func(err error) error {
		fail := &upstream.Failure{Source: u.Source.Name(), Class: upstream.ClassBroken, Err: err}
		if blame := u.Source.Traits().Blame; blame != nil {
			blame(fail)
		}
		return fail
	}
	v, err := symcache.ParseContentType(reply.Header.Get("Content-Type"), f.version)
	if err != nil {
		return none, broken(err)
	}
	sp, err := d.blobs.Spool()
	if err != nil {
		return none, err
	}
	defer sp.Close()
	most := d.jobs.opt.MaxResult
	_, err = io.Copy(spoolWriter{sp}, io.LimitReader(reply.Body, most+1))
	var head [symcache.ContentHead]byte
	switch n := sp.Size(); {
	case errors.Is(err, errSpool):
	case err != nil && !isFailure(err):
		err = &upstream.Failure{Source: u.Source.Name(), Class: upstream.ClassBroken, Err: err}
	case err != nil:
	case n > most:
		err = &upstream.Failure{Source: u.Source.Name(), Class: upstream.ClassTooLarge, Err: errors.New("the file is larger than the limit")}
	case reply.Size >= 0 && n != reply.Size:
		err = broken(errLength)
	default:
		m, _ := sp.ReadAt(head[:], 0)
		if bad := symcache.CheckContent(head[:m]); bad != nil {
			err = broken(bad)
		}
	}
	if err != nil {
		sp.Abort()
		return none, err
	}
	c := index.Content{Size: sp.Size()}
	if c.Ref, err = sp.Keep(); err != nil {
		return none, err
	}
	o := symfile.Object{Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: f.key.Name, CodeName: f.key.FileName(v), DebugID: f.key.ID}
	err = d.db.PutCached(ctx, index.CachedFile{
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

// spoolWriter tells the errors of our disk from those of a source.
type spoolWriter struct{ io.Writer }

func (w spoolWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = errors.Join(errSpool, err)
	}
	return n, err
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
