package fetch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// download is one transfer from an upstream that all clients with an equal
// coalesceKey share. One goroutine runs it; it goes on when the clients give up.
type download struct {
	*growing
	key       string     // in the negative cache
	slot      string     // coalesceKey under which it began
	alias     string     // further coalesceKey, once the debug id is known; its runner's own
	q         Question   // of the client that began it
	upstreams []Upstream // that may be asked
	anew      bool       // remembered misses do not count

	want layout.Request // what the file must answer; its runner's own
}

// join returns the download that answers a question, or fs.ErrNotExist if no
// upstream has the file.
func (f *Fetcher) join(ctx context.Context, q Question) (*download, error) {
	list := f.permitted(q)
	if len(list) == 0 {
		return nil, fs.ErrNotExist
	}
	key, slot := missKey(q.Request), f.coalesceKey(q, list)
	if m, ok := f.misses.lookup(ctx, key, slot, list); ok {
		if f.now().After(m.renew) {
			f.renew(key, slot, list, q, m)
		}
		return nil, fs.ErrNotExist
	}
	if wide, ok := acceptingMSFZ(q); ok {
		// Where a client that accepts more found nothing, this one finds nothing.
		if _, ok := f.misses.lookup(ctx, missKey(wide.Request), f.coalesceKey(wide, list), list); ok {
			return nil, fs.ErrNotExist
		}
	}
	d, ok := f.start(key, slot, list, q, false)
	if !ok {
		return nil, notFound([]error{errManyDownloads})
	}
	return d, nil
}

// start returns the download of a slot, a new one if there is none; false if no
// more may begin.
func (f *Fetcher) start(key, slot string, list []Upstream, q Question, anew bool) (*download, bool) {
	return f.downloads.Join(slot, func() (*download, bool) {
		if q.Request.Form == layout.FormCabinet {
			q.Request.Form = layout.FormFile
		}
		d := &download{growing: newGrowing(), key: key, slot: slot, q: q, want: q.Request, upstreams: list, anew: anew}
		d.whole = q.Request.Form == layout.FormSource // it is short, and nothing in it says what it is
		return d, true
	}, f.run)
}

// renew asks the upstreams again, in the background, about a miss that expires
// soon.
func (f *Fetcher) renew(key, slot string, list []Upstream, q Question, m combined) {
	select {
	case f.refreshing <- struct{}{}:
	default:
		return
	}
	m.renew = m.until // once
	f.misses.keys.Set(slot, m)
	d, ok := f.start(key, slot, list, q, true)
	if !ok {
		<-f.refreshing
		return
	}
	go func() {
		<-d.ended
		<-f.refreshing
	}()
}

// run runs a download through its stages: plan, ask, spool, check, keep, tell.
func (f *Fetcher) run(d *download) {
	defer d.leave(true)
	ctx := f.life
	leave, err := f.Enter(ctx)
	if err != nil {
		f.tell(d, result{}, err)
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
			f.tell(d, r, nil)
			return
		}
		err = f.next(ctx, d, p, a.from, err)
	}
	f.tell(d, result{}, err)
}

// Enter takes one of the places of all downloads, which leave gives back. It
// waits for a while; then the error is fs.ErrNotExist.
func (f *Fetcher) Enter(ctx context.Context) (leave func(), err error) {
	wait := time.NewTimer(queueTime)
	defer wait.Stop()
	select {
	case f.places <- struct{}{}:
		return func() { <-f.places }, nil
	case <-ctx.Done():
		return nil, errClosing
	case <-wait.C:
		return nil, notFound([]error{errManyDownloads})
	}
}

// plan is the first stage: which upstreams are worth asking. It changes while
// they are asked.
type plan struct {
	left  []Upstream
	known map[string]Miss // by upstream
	why   []error
}

// plan decides whom to ask.
func (f *Fetcher) plan(ctx context.Context, d *download) (*plan, error) {
	p := &plan{known: map[string]Miss{}}
	if !d.anew {
		if f.depot.Holds(ctx, d.q.Products, d.q.Request) {
			return nil, ErrHeld // it came while this download began
		}
		if known, err := f.depot.Misses(ctx, d.key); err == nil { // without them, all are asked
			p.known = known
		}
	}
	p.left = f.misses.worthAsking(d.upstreams, p.known)
	return p, nil
}

// note remembers an upstream's failure.
func (p *plan) note(n *negative, name string, err error) {
	p.why = append(p.why, err)
	if m, ok := n.missOf(err); ok {
		p.known[name] = m
	} else {
		delete(p.known, name)
	}
}

// next says how to go on after an upstream's file failed: nil if the others are
// to be asked, which is possible until clients have been given the file.
func (f *Fetcher) next(ctx context.Context, d *download, p *plan, from Upstream, err error) error {
	name := from.Source.Name()
	switch {
	case errors.Is(err, ErrHeld):
		return err
	case ctx.Err() != nil:
		return errClosing
	case !IsFailure(err):
		// Ours, such as a full disk. Nothing is remembered of it.
		f.log.Error("a file could not be downloaded", "upstream", name, "error", err)
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
	p.left = f.misses.worthAsking(without(p.left, name), p.known)
	return nil
}

func without(list []Upstream, name string) (rest []Upstream) {
	for _, u := range list {
		if u.Source.Name() != name {
			rest = append(rest, u)
		}
	}
	return rest
}

func (f *Fetcher) remember(ctx context.Context, d *download, p *plan) {
	if err := f.misses.remember(ctx, d.key, d.slot, d.upstreams, p.known, false); err != nil && ctx.Err() == nil {
		f.log.Warn("misses cannot be stored", "error", err)
	}
}

// result is a file that was checked and kept.
type result struct {
	size int64
	file File
}

// receive takes one upstream's file through the stages spool, check and keep.
func (f *Fetcher) receive(ctx context.Context, d *download, a answer) (result, error) {
	defer a.cancel(context.Canceled)
	sp, err := f.depot.Spool()
	if err != nil {
		_ = a.reply.Body.Close()
		return result{}, err
	}
	fetched := f.now()
	d.begin(sp, a.reply.Size, d.firstWord(a, fetched))
	if path := a.reply.CodeInfo; path != "" && wants(d.want, symfile.CodeInfo) && !f.redirect(ctx, d, path) {
		_ = a.reply.Body.Close()
		sp.Abort()
		return result{}, ErrHeld
	}
	t := &transfer{f: f, from: a.from, ask: f.askOf(d, nil), spool: sp, grew: d.grew, announced: d.isAnnounced, head: d.checkHead}
	if err := t.copy(ctx, a); err != nil {
		sp.Abort()
		return result{}, err
	}
	objs, err := d.check(sp)
	if err != nil {
		sp.Abort()
		return result{}, f.blame(a, err)
	}
	if isFat(objs, sp.Size()) {
		err := f.keepSlices(ctx, d, a, sp, objs, fetched)
		sp.Abort()
		if err == nil {
			err = ErrHeld // the depot answers with the slice
		}
		return result{}, err
	}
	file := File{ModTime: fetched, Object: d.answered(objs), Ref: sp.Sum(), Path: a.reply.Name}
	file.ETag = file.Ref.String()[:32]
	if _, err := sp.Keep(); err != nil {
		// The file is right: the clients that wait for it get it.
		f.log.Error("a downloaded file cannot be stored", "error", err)
	} else if err := f.depot.Keep(ctx, d.kept(a, file.Ref, sp.Size(), objs, fetched)); err != nil && ctx.Err() == nil {
		f.log.Error("a downloaded file cannot be entered in the index", "error", err)
	}
	if d.anew {
		// As long as the depot has the file the miss does no harm, but after its
		// eviction.
		if err := f.misses.forget(ctx, d.key, d.slot, a.from.Source.Name()); err != nil && ctx.Err() == nil {
			f.log.Warn("an outdated miss cannot be forgotten", "error", err)
		}
	}
	return result{sp.Size(), file}, nil
}

// keepSlices keeps each slice of a fat Mach-O file as a content of its own, as if
// it had been added.
func (f *Fetcher) keepSlices(ctx context.Context, d *download, a answer, sp *blob.Spool, objs []objfile.Object, fetched time.Time) error {
	for i, o := range objs {
		slice, err := f.depot.Spool()
		if err != nil {
			return err
		}
		_, err = io.Copy(slice, io.NewSectionReader(sp, o.Offset, o.Size))
		ref := slice.Sum()
		if err == nil {
			_, err = slice.Keep()
		}
		if err == nil {
			err = f.depot.Keep(ctx, d.kept(a, ref, o.Size, objs[i:i+1], fetched))
		}
		slice.Abort()
		if err = errors.Join(err, slice.Close()); err != nil {
			return err
		}
	}
	return nil
}

// blame tells an upstream that it sent a file that is not the one asked for.
func (f *Fetcher) blame(a answer, err error) error {
	fail := &Failure{Source: a.from.Source.Name(), Class: ClassBroken, Err: err}
	if blame := a.from.Source.Traits().Blame; blame != nil {
		blame(fail)
	}
	f.log.Warn("an upstream sent a file that is not the one asked for", "upstream", fail.Source, "path", a.reply.Path, "error", err)
	return fail
}

// firstWord is what clients are told of a file before it has been checked.
func (d *download) firstWord(a answer, fetched time.Time) File {
	name := a.reply.Name
	if name == "" {
		name = d.want.Name
	}
	file := File{Object: symfile.Object{Name: name}, ModTime: fetched, Product: a.from.Product}
	if wants(d.want, symfile.Symbols) {
		file.Object.Kind = symfile.Breakpad
	}
	return file
}

// redirect sends the clients that know a module's code id only to the path with
// its debug id, and lets them join the download when they come back. It returns
// false if the file is not needed: the depot has it, or it is being downloaded.
func (f *Fetcher) redirect(ctx context.Context, d *download, path string) bool {
	req, err := layout.BreakpadTree.Parse(path)
	if err != nil || req.Form != layout.FormFile {
		return true
	}
	d.want = req
	q := d.q
	q.Request = req
	needed := !f.depot.Holds(ctx, q.Products, req)
	if needed {
		alias := f.coalesceKey(q, d.upstreams)
		if needed = f.downloads.Share(alias, d); needed {
			d.alias = alias
		}
	}
	d.redirectTo(path)
	return needed
}

// kept describes a checked file for the index.
func (d *download) kept(a answer, ref blob.Ref, size int64, objs []objfile.Object, fetched time.Time) Kept {
	k := Kept{
		Upstream: a.from.Source.Name(), Product: a.from.Product, Name: a.reply.Name, URL: a.reply.Path, Tag: a.reply.Tag,
		Ref: ref, Size: size, ModTime: a.reply.ModTime, Fetched: fetched,
	}
	for _, o := range objs {
		e := Object{Object: o, Aliases: o.Aliases(), Path: a.reply.Name}
		if d.want.Form == layout.FormSource {
			e.Aliases, e.Path = append(e.Aliases, sourceAlias(d.want)), sourcePath(d.want)
		}
		if len(e.Aliases) > 0 {
			k.Objects = append(k.Objects, e)
		}
	}
	return k
}

// tell ends a download: the next client begins another one, those that wait get
// the file or the error.
func (f *Fetcher) tell(d *download, r result, err error) {
	if d.alias != "" {
		f.downloads.Leave(d.alias)
	}
	f.downloads.Leave(d.slot)
	d.finish(r.size, r.file, err)
}
