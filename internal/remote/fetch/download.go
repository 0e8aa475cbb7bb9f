package fetch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// join returns the download that answers a question, or fs.ErrNotExist if no
// upstream has the file.
func (f *Fetcher) join(ctx context.Context, q Question) (*download, error) {
	list := f.permitted(q)
	if len(list) == 0 {
		return nil, fs.ErrNotExist
	}
	key, slot := missKey(q.Request), f.coalesceKey(q, list)
	if _, ok := f.knownMiss(ctx, q, key, slot, list); ok {
		return nil, fs.ErrNotExist
	}
	if !f.checksums {
		q = f.withChecksum(ctx, q) // asked has not looked for it
	}
	d, ok := f.start(key, slot, list, q, normal)
	if !ok {
		return nil, notFound([]error{errManyDownloads})
	}
	return d, nil
}

// knownMiss returns the remembered miss of all upstreams in list. It renews a miss
// that expires soon.
func (f *Fetcher) knownMiss(ctx context.Context, q Question, key, slot string, list []Upstream) (m combined, ok bool) {
	if m, ok := f.misses.lookup(ctx, key, slot, list); ok {
		if f.now().After(m.renew) {
			f.renew(key, slot, list, q, m)
		}
		return m, true
	}
	if wide, ok := acceptingMSFZ(q); ok {
		// A miss for a client that also accepts MSFZ is a miss for this client.
		return f.misses.lookup(ctx, missKey(wide.Request), f.coalesceKey(wide, list), list)
	}
	return m, false
}

// start returns the download of a slot and starts it if none runs: from the peer
// that owns the key, or from the upstreams. It returns false if no more downloads
// may start, in all or for this client.
func (f *Fetcher) start(key, slot string, list []Upstream, q Question, m mode) (*download, bool) {
	if f.peers != nil {
		if owners := f.peers.Owners(slot); len(owners) > 0 {
			return f.startAt(forwardKey(slot), key, slot, list, q, m, func(d *download) { f.forward(d, owners) })
		}
	}
	return f.startHere(key, slot, list, q, m)
}

// startHere is start for a download from the upstreams.
func (f *Fetcher) startHere(key, slot string, list []Upstream, q Question, m mode) (*download, bool) {
	return f.startAt(slot, key, slot, list, q, m, f.run)
}

func (f *Fetcher) startAt(at, key, slot string, list []Upstream, q Question, m mode, run func(*download)) (*download, bool) {
	return f.downloads.Join(at, func() (*download, bool) {
		if !f.clients.Begin(q.Client, f.limits.PerClient) {
			return nil, false
		}
		if q.Request.Form == layout.FormCabinet {
			q.Request.Form = layout.FormFile
		}
		d := &download{growing: newGrowing(), at: at, key: key, slot: slot, q: q, want: q.Request, upstreams: list, mode: m}
		d.whole = q.Request.Form == layout.FormSource // short, and without an id to check early
		return d, true
	}, func(d *download) {
		defer f.clients.End(d.q.Client)
		run(d)
	})
}

// renew asks the upstreams again, in the background, about a miss that expires
// soon.
func (f *Fetcher) renew(key, slot string, list []Upstream, q Question, m combined) {
	select {
	case f.refreshing <- struct{}{}:
	default:
		return
	}
	m.renew = m.until // renew it only once
	f.misses.keys.Set(slot, m)
	q.Client = "" // no client waits for it
	d, ok := f.start(key, slot, list, q, renewal)
	if !ok {
		<-f.refreshing
		return
	}
	go func() {
		<-d.ended
		<-f.refreshing
	}()
}

// run runs a download through its stages: plan, ask, spool, check, keep, finish.
func (f *Fetcher) run(d *download) {
	defer d.leave(true)
	ctx, s := f.tracer.Start(span.With(f.life, d.q.Span), "download", span.Internal)
	defer s.End()
	leave, err := f.Enter(ctx)
	if err != nil {
		f.finish(d, result{}, err)
		return
	}
	defer leave()
	p, err := f.plan(ctx, d)
	for err == nil {
		var a answer
		if a, err = f.ask(ctx, d, p); err != nil {
			break
		}
		var r result
		if r, err = f.receive(ctx, d, a); err == nil {
			f.finish(d, r, nil)
			return
		}
		err = f.next(ctx, d, p, a.from, err)
	}
	f.finish(d, result{}, err)
}

// Enter waits for the semaphore that limits concurrent downloads; leave releases
// it. After queueTime the error is fs.ErrNotExist.
func (f *Fetcher) Enter(ctx context.Context) (leave func(), err error) { return enter(ctx, f.running) }

// next decides what follows a file that failed. It returns nil if the remaining
// upstreams are to be asked, which is possible until clients have received bytes
// of the file.
func (f *Fetcher) next(ctx context.Context, d *download, p *plan, from Upstream, err error) error {
	name := from.Source.Name()
	switch {
	case errors.Is(err, ErrInDepot):
		return err
	case ctx.Err() != nil:
		return errClosing
	case !IsFailure(err):
		// Not the upstream's fault, for example a full disk: not remembered.
		f.log.Error("cannot download a file", "upstream", name, "error", err)
		return notFound([]error{err})
	case d.isAnnounced():
		if m, ok := f.misses.missOf(err); ok {
			p.known[name] = m
			f.remember(ctx, d, p)
		}
		return err
	}
	p.why = append(p.why, err)
	if m, ok := f.misses.missOf(err); ok {
		p.known[name] = m
	}
	p.left = f.misses.withoutMiss(without(p.left, name), p.known)
	return nil
}

// receive runs an upstream's file through the stages spool, check and keep.
func (f *Fetcher) receive(ctx context.Context, d *download, a answer) (result, error) {
	defer a.cancel(context.Canceled)
	sp, err := f.depot.Spool()
	if err != nil {
		_ = a.reply.Body.Close()
		return result{}, err
	}
	fetched := f.now()
	d.begin(sp, a.reply.Size, d.describe(a, fetched))
	if path := a.reply.CodeInfo; path != "" && wants(d.want, symfile.CodeInfo) && !f.redirect(ctx, d, path) {
		_ = a.reply.Body.Close()
		sp.Abort()
		return result{}, ErrInDepot
	}
	t := &transfer{f: f, from: a.from, ask: f.askOf(d, nil), spool: sp, grew: d.grew, announced: d.isAnnounced, head: d.checkHead}
	if err := t.copy(ctx, a); err != nil {
		sp.Abort()
		return result{}, err
	}
	objs, err := d.check(sp)
	if err != nil {
		sp.Abort()
		return result{}, f.reportWrongFile(a, err)
	}
	if isFat(objs, sp.Size()) {
		err := f.keepSlices(ctx, d, a, sp, objs, fetched)
		sp.Abort()
		if err == nil {
			err = ErrInDepot // the depot serves the slice
		}
		return result{}, err
	}
	file := File{
		ModTime: fetched, Object: d.answered(objs), Ref: sp.Sum(), Path: a.reply.Name, Product: a.from.Product,
		Signature: a.reply.Signature,
	}
	file.ETag = file.Ref.String()[:32]
	if _, err := sp.Keep(ctx); err != nil {
		// The file is correct, so the waiting clients get it anyway.
		f.log.Error("cannot store a downloaded file", "error", err)
	} else if err := f.depot.Keep(ctx, d.kept(a, file.Ref, sp.Size(), objs, fetched)); err != nil && ctx.Err() == nil {
		f.log.Error("cannot add a downloaded file to the index", "error", err)
	}
	if d.mode != normal {
		// The miss does no harm while the depot holds the file, but it would
		// after the file's eviction.
		if err := f.misses.forget(ctx, d.key, d.slot, a.from.Source.Name()); err != nil && ctx.Err() == nil {
			f.log.Warn("cannot delete an outdated miss", "error", err)
		}
	}
	return result{sp.Size(), file}, nil
}

// keepSlices stores each slice of a fat Mach-O file as a content of its own, as
// adding such a file does.
func (f *Fetcher) keepSlices(ctx context.Context, d *download, a answer, sp *blob.Spool, objs []objfile.Object, fetched time.Time) error {
	for i, o := range objs {
		slice, err := f.depot.Spool()
		if err != nil {
			return err
		}
		_, err = io.Copy(slice, io.NewSectionReader(sp, o.Offset, o.Size))
		ref := slice.Sum()
		if err == nil {
			_, err = slice.Keep(ctx)
		}
		if err == nil {
			k := d.kept(a, ref, o.Size, objs[i:i+1], fetched)
			k.Signature = "" // that of the whole file
			err = f.depot.Keep(ctx, k)
		}
		slice.Abort()
		if err = errors.Join(err, slice.Close()); err != nil {
			return err
		}
	}
	return nil
}

// reportWrongFile reports to an upstream that it sent a wrong file.
func (f *Fetcher) reportWrongFile(a answer, err error) error {
	fail := &Failure{Source: a.from.Source.Name(), Class: ClassBroken, Err: err}
	if blame := a.from.Source.Traits().Blame; blame != nil {
		blame(fail)
	}
	f.log.Warn("an upstream sent a wrong file", "upstream", fail.Source, "path", a.reply.Path, "error", err)
	return fail
}

// describe describes the file to clients before it has been checked.
func (d *download) describe(a answer, fetched time.Time) File {
	name := a.reply.Name
	if name == "" {
		name = d.want.Name
	}
	file := File{Object: symfile.Object{Name: name}, ModTime: fetched, Product: a.from.Product, Signature: a.reply.Signature}
	if wants(d.want, symfile.Symbols) {
		file.Object.Kind = symfile.Breakpad
	}
	return file
}

// redirect redirects the clients that know only a module's code id to the path
// with its debug id, and lets them join the download when they follow the
// redirect. It returns false if the file is not needed: the depot has it, or
// another download is fetching it.
func (f *Fetcher) redirect(ctx context.Context, d *download, path string) bool {
	req, err := layout.BreakpadTree.Parse(path)
	if err != nil || req.Form != layout.FormFile {
		return true
	}
	d.want = req
	q := d.q
	q.Request = req
	needed := !f.depot.Holds(ctx, q.Products, req)
	alias := f.coalesceKey(q, d.upstreams)
	if needed && f.OwnedElsewhere(alias) {
		needed = false // its owner downloads it when the clients follow the redirect
	}
	if needed {
		if needed = f.downloads.Share(alias, d); needed {
			d.alias = alias
		}
	}
	d.redirectTo(path)
	return needed
}

// kept describes a checked file for Depot.Keep.
func (d *download) kept(a answer, ref blob.Ref, size int64, objs []objfile.Object, fetched time.Time) Kept {
	k := Kept{
		Upstream: a.from.Source.Name(), Product: a.from.Product, Name: a.reply.Name, URL: a.reply.Path, Tag: a.reply.Tag,
		Ref: ref, Size: size, ModTime: a.reply.ModTime, Fetched: fetched, Signature: a.reply.Signature,
	}
	for _, o := range objs {
		e := Object{Object: o, Aliases: append(o.Aliases(), d.requestedAliases(o.Object)...), Path: a.reply.Name}
		if d.want.Form == layout.FormSource {
			e.Aliases, e.Path = append(e.Aliases, sourceAlias(d.want)), sourcePath(d.want)
		}
		if len(e.Aliases) > 0 {
			k.Objects = append(k.Objects, e)
		}
	}
	return k
}

// requestedAliases returns the aliases under which an object is found that an
// upstream sent for a name although the object has another one. Without them,
// every request for that name would be a download.
func (d *download) requestedAliases(o symfile.Object) (list []symfile.Alias) {
	own := o.Aliases()
	for _, l := range d.want.Lookups {
		if l.Name != "" && slices.ContainsFunc(own, l.Matches) {
			return nil
		}
	}
	for _, byID := range d.want.Lookups {
		if !byID.Unique || !byID.Finds(o) {
			continue
		}
		i := slices.IndexFunc(d.want.Lookups, func(l symfile.Lookup) bool { return l.Name != "" && l.ID == byID.ID })
		if i < 0 {
			continue
		}
		for _, a := range own {
			if byID.Matches(a) {
				list = append(list, symfile.Alias{Name: d.want.Lookups[i].Name, ID: a.ID, Role: a.Role})
			}
		}
	}
	return list
}

// finish ends a download: the waiting clients get the file or the error, and the
// next client starts a new download.
func (f *Fetcher) finish(d *download, r result, err error) {
	if d.alias != "" {
		f.downloads.Leave(d.alias)
	}
	f.downloads.Leave(d.at)
	d.finish(r.size, r.file, err)
}
