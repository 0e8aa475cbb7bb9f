package symcachework

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

const (
	answersKnown    = 50_000          // remembered answers
	mostTranscoding = 12 * time.Hour  // for a server that is still transcoding, as long as clients ask
	mostUnasked     = 5 * time.Minute // and if no client asks any more
	leastPause      = 50 * time.Millisecond
	mostPause       = 10 * time.Second // between two requests to a server
	// mostDownloads is how many downloads may be under way, and mostClientDownloads
	// how many of one client: each may last for minutes, while the server transcodes.
	mostDownloads       = 1024
	mostClientDownloads = 256
)

func (s *servers) init(sources []fetch.Upstream) {
	s.sources = sources
	s.downloads = fetch.NewGroup[string, *serverDownload](mostDownloads)
	s.got = memo.New[string, serverAnswer](answersKnown)
}

// speaksSymCache reports whether an upstream is a SymCache server.
func speaksSymCache(u fetch.Upstream) bool { return u.Source.Traits().SymCacheServer }

// serversMayHave reports whether another server may have a version that is not
// held.
func (svc *Service) serversMayHave(ctx context.Context, key symcache.Key, v symcache.Version, held []symcache.Version) (bool, error) {
	s := &svc.servers
	if len(s.sources) == 0 || !symfile.ValidName(key.Name) {
		return false, nil
	}
	name, now := downloadKey(key, v), svc.now()
	if g, ok := s.got.Get(name); ok && now.Before(g.until) {
		for _, h := range held {
			if h == g.version {
				return false, nil
			}
		}
		return true, nil // it was evicted
	}
	return svc.fetch.MayHave(ctx, name, s.sources), nil
}

// askServers starts or joins the download from the other servers, at the server of
// this depot that owns the key. It returns nil if too many downloads are under way,
// in all or for this client, or the depot is closing.
func (svc *Service) askServers(key symcache.Key, v symcache.Version, ask Ask) *serverDownload {
	name := downloadKey(key, v)
	want := serverDownload{key: key, version: v, via: ask.Via, client: ask.Client}
	if svc.fetch.OwnedElsewhere(name) {
		return svc.startDownload(name+"\nfrom a peer", &want, svc.forwardDownload)
	}
	return svc.startDownload(name, &want, svc.runDownload)
}

// startDownload joins the download with a key, or starts it.
func (svc *Service) startDownload(
	at string, want *serverDownload, run func(ctx context.Context, f *serverDownload, name string),
) *serverDownload {
	s := &svc.servers
	f, ok := s.downloads.Join(at, func() (*serverDownload, bool) {
		want.ended, want.asked = make(chan struct{}), svc.now()
		return want, s.clients.Begin(want.client, mostClientDownloads)
	}, func(f *serverDownload) {
		ctx, cancel := context.WithTimeout(svc.life, mostTranscoding+time.Hour)
		defer cancel()
		run(ctx, f, downloadKey(f.key, f.version))
		s.clients.End(f.client)
		s.downloads.Leave(at)
		close(f.ended)
	})
	if !ok {
		return nil
	}
	f.touch(svc.now())
	return f
}

// runDownload asks one server after the other until one sends a file.
func (svc *Service) runDownload(ctx context.Context, f *serverDownload, name string) {
	s := &svc.servers
	var got symcache.Version
	done, err := svc.fetch.AskEach(ctx, name, s.sources, func(ctx context.Context, u fetch.Upstream) (err error) {
		got, err = svc.pollServer(ctx, u, f)
		return err
	})
	if err != nil && ctx.Err() == nil {
		svc.log.Error("cannot keep a SymCache file from an upstream", "file", f.key.Path(f.version), "error", err)
	}
	if done {
		svc.remember(f, name, got)
	}
}

// remember records the version that a server has sent.
func (svc *Service) remember(f *serverDownload, name string, got symcache.Version) {
	f.done, f.got = true, got
	svc.servers.got.Set(name, serverAnswer{got, svc.now().Add(max(svc.fetch.Lifetimes().Of(fetch.ClassNotFound), time.Minute))})
}

// pollServer asks one server until it answers, and keeps the file that it sends.
func (svc *Service) pollServer(ctx context.Context, u fetch.Upstream, f *serverDownload) (symcache.Version, error) {
	ask := fetch.Ask{
		Request: layout.Request{
			Form: layout.FormSymCache, Layout: layout.SymCache, Name: f.key.Name, SymCache: symcache.Request{Version: f.version, Key: f.key},
			Lookups: []symfile.Lookup{{Name: symfile.Fold(f.key.Name), ID: symfile.Fold(f.key.ID.Breakpad()), Role: symfile.SymCacheFile}},
		},
		Via: f.via, Limit: svc.make.MaxResult,
	}
	for end := svc.now().Add(mostTranscoding); ; {
		v, err := svc.askOnce(ctx, u, f, ask)
		if err == nil {
			return v, nil
		}
		fail, ok := errors.AsType[*fetch.Failure](err)
		if !ok || fail.Class != fetch.ClassNotFound || fail.Retry.IsZero() {
			return symcache.Version{}, err
		}
		if now := svc.now(); now.After(end) || f.sinceRequest(now) > mostUnasked {
			return symcache.Version{}, &fetch.Failure{
				Source: u.Source.Name(), Class: fetch.ClassTimeout, Err: errors.New("the server is still making the file"),
			}
		}
		if err := ctxio.Pause(ctx, min(max(fail.Retry.Sub(svc.now()), leastPause), mostPause)); err != nil {
			return symcache.Version{}, err
		}
	}
}

// askOnce asks a server once, and keeps the file that it sends.
func (svc *Service) askOnce(ctx context.Context, u fetch.Upstream, f *serverDownload, ask fetch.Ask) (symcache.Version, error) {
	var none, v symcache.Version
	sp, reply, err := svc.fetch.Receive(ctx, u, ask, func(r *fetch.Reply) (err error) {
		v, err = symcache.ParseContentType(r.Header.Get("Content-Type"), f.version)
		return err
	}, symcache.Detect)
	if err != nil {
		return none, err
	}
	defer sp.Close()
	c := record.Content{Size: sp.Size()}
	if c.Ref, err = sp.Keep(ctx); err != nil {
		return none, err
	}
	o := symfile.Object{Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: f.key.Name, CodeName: f.key.FileName(v), DebugID: f.key.ID}
	err = svc.db.Cached.Put(ctx, contents.CachedFile{
		Source: u.Source.Name(), Name: o.CodeName, URL: reply.Path, Tag: reply.Tag, Ref: c.Ref, Size: c.Size,
		Fetched: svc.now(), Product: u.Product,
		Entries: []record.Entry{{
			Object: o, Features: objfile.Features{Symtab: true}.Words(), Ref: c.Ref, Size: c.Size, Aliases: o.Aliases(),
			Path: o.CodeName,
		}},
	}, func(ctx context.Context, _ []blob.Ref) error {
		_, err := svc.blobs.Stat(ctx, c.Ref)
		return err
	})
	if err != nil {
		return none, err
	}
	svc.writeStore(ctx, f.key, v, c)
	svc.log.Info("downloaded a SymCache file", "upstream", u.Source.Name(), "file", f.key.Path(v), "bytes", c.Size)
	return v, nil
}

// SplitUpstreams separates the SymCache servers, best first, from the other
// upstreams.
func SplitUpstreams(list []fetch.Upstream) (others, servers []fetch.Upstream) {
	for _, u := range list {
		if speaksSymCache(u) {
			servers = append(servers, u)
		} else {
			others = append(others, u)
		}
	}
	sorting.Stable(servers, func(a, b fetch.Upstream) int { return cmp.Compare(a.Rank, b.Rank) })
	return others, servers
}
