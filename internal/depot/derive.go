package depot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Other forms of a content, such as compressed variants and cabinets, are made
// in the background after requests that they would have served, and kept beside
// the plain bytes. No request ever waits for one.
const (
	variantAsks = 3       // requests for one content before a variant is worth making
	variantMin  = 4 << 10 // smaller contents gain nothing
	variantMax  = 2 << 30 // larger ones would keep a core busy for minutes

	deriveCounted = 4096 // contents counted at once
	deriveQueue   = 256  // jobs waiting; further ones are dropped and asked for again
)

var codings = map[string]transcode.Tool{"zstd": transcode.Zstd, "gzip": transcode.Gzip}

// Form asks for another form of a content: what Tool makes of it. It is
// recorded by these two; the rest goes into the form where that has a place
// for it.
type Form struct {
	Ref  blob.Ref
	Tool transcode.Tool
	Name string
	Time time.Time
}

type formKey struct {
	ref  blob.Ref
	tool transcode.Tool
}

func (f Form) key() formKey { return formKey{f.Ref, f.Tool} }

func (f Form) index() index.Tool { return index.Tool{Name: f.Tool.Name, Version: f.Tool.Version} }

// forms makes other forms, each by one at a time.
type forms struct {
	queue chan Form
	life  context.Context // ends with the depot
	end   context.CancelFunc
	under sync.WaitGroup // makings under way

	mu     sync.Mutex
	asked  map[formKey]int     // guarded by mu; how often a form was missing
	flying map[formKey]*flight // guarded by mu
}

// flight is one making; made and err are set when done is closed.
type flight struct {
	done chan struct{}
	made index.Content
	err  error
}

func (f *forms) init() {
	f.asked = make(map[formKey]int)
	f.flying = make(map[formKey]*flight)
	f.queue = make(chan Form, deriveQueue)
	f.life, f.end = context.WithCancel(context.Background())
}

// close ends what is under way.
func (f *forms) close() {
	f.mu.Lock() // no flight begins after this
	f.end()
	f.mu.Unlock()
	f.under.Wait()
}

// ask counts one request that a form would have served, and queues the making
// of it at the request of that number.
func (f *forms) ask(want Form, worth int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) >= deriveCounted {
		clear(f.asked) // the counts are a hint; starting over is cheap
	}
	k := want.key()
	f.asked[k]++
	if f.asked[k] != worth {
		return
	}
	select {
	case f.queue <- want:
	default:
		delete(f.asked, k)
	}
}

// Work makes what was queued, does jobs, writes down what was counted, keeps the
// cache within its limits and checks the stored contents, until ctx ends.
func (d *Depot) Work(ctx context.Context) error {
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { d.symcache.Run(ctx) })
	side.Go(func() { d.keepScrubbing(ctx) })
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tidy.C:
			d.tidy(ctx)
		case want := <-d.forms.queue:
			if _, err := d.Derive(ctx, want); err != nil && ctx.Err() == nil {
				d.log.Warn("another form of a content could not be made", "content", want.Ref.String(), "tool", want.Tool.Name, "error", err)
			}
		}
	}
}

// Derive returns another form of a content, and makes it if there is no record
// of it. A zero Content means that it is not worth keeping. Calls for one form
// wait for one making, which goes on when they give up.
func (d *Depot) Derive(ctx context.Context, want Form) (index.Content, error) {
	c, err := d.db.Derived(ctx, want.Ref, want.index())
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	f := &d.forms
	f.mu.Lock()
	if err := f.life.Err(); err != nil {
		f.mu.Unlock()
		return index.Content{}, err
	}
	fl := f.flying[want.key()]
	if fl == nil {
		fl = &flight{done: make(chan struct{})}
		f.flying[want.key()] = fl
		f.under.Go(func() {
			fl.made, fl.err = d.makeForm(f.life, want)
			f.mu.Lock()
			delete(f.flying, want.key())
			f.mu.Unlock()
			close(fl.done)
		})
	}
	f.mu.Unlock()
	select {
	case <-fl.done:
		return fl.made, fl.err
	case <-ctx.Done():
		return index.Content{}, ctx.Err()
	}
}

// makeForm makes a form and records it, also that it is not worth keeping.
func (d *Depot) makeForm(ctx context.Context, want Form) (index.Content, error) {
	none := index.Content{}
	// One that was made between the caller's look and its turn is there now.
	if c, err := d.db.Derived(ctx, want.Ref, want.index()); !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	src, err := d.blobs.Open(ctx, want.Ref)
	if err != nil {
		return none, err
	}
	defer src.Close()
	batch, err := d.blobs.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer batch.Abort()
	made, err := d.transcode(ctx, batch, want, src)
	if err != nil {
		return none, err
	}
	if made == none {
		return none, d.db.PutDerived(ctx, want.Ref, want.index(), nil)
	}
	if err := batch.Commit(ctx); err != nil {
		return none, err
	}
	return made, d.db.PutDerived(ctx, want.Ref, want.index(), &made)
}

// transcode puts a form into the batch. A zero Content is not worth keeping.
func (d *Depot) transcode(ctx context.Context, batch blob.Batch, want Form, src blob.File) (index.Content, error) {
	var made index.Content
	var err error
	if want.Tool == transcode.Cab {
		out, drop, err := d.scratch()
		if err != nil {
			return made, err
		}
		defer drop()
		n, err := transcode.Cabinet(ctx, out, transcode.Source{ReaderAt: src, Size: src.Size(), Name: want.Name, Time: want.Time})
		if errors.Is(err, transcode.ErrTooLarge) {
			return made, nil
		}
		if err != nil {
			return made, err
		}
		made.Ref, made.Size, err = batch.Put(ctx, n, io.NewSectionReader(out, 0, n))
		return made, err
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(want.Tool.Compress(ctx, pw, io.NewSectionReader(src, 0, src.Size()))) }()
	made.Ref, made.Size, err = batch.Put(ctx, -1, pr)
	_ = pr.Close()
	if err == nil && made.Size > src.Size()*9/10 {
		return index.Content{}, nil
	}
	return made, err
}

// scratch makes a temporary file on the depot's disk. A crash leaves it behind
// on systems where an open file cannot be removed.
func (d *Depot) scratch() (f *os.File, drop func(), err error) {
	if f, err = os.CreateTemp(d.dir, ".scratch-*"); err != nil {
		return nil, nil, err
	}
	gone := os.Remove(f.Name()) == nil
	return f, func() {
		_ = f.Close()
		if !gone {
			_ = os.Remove(f.Name())
		}
	}, nil
}

// Encoded returns f in the first of the content codings that is kept, or nil:
// then the request counts towards making one. f must be a whole plain file and
// stays the caller's.
func (d *Depot) Encoded(ctx context.Context, f *File, codingNames []string) (*File, error) {
	if !f.stored || f.packed || f.Volatile || f.Size < variantMin || f.Size > variantMax {
		return nil, nil
	}
	var first *Form
	for _, name := range codingNames {
		tool, ok := codings[name]
		if !ok {
			continue
		}
		want := Form{Ref: f.Ref, Tool: tool}
		if first == nil {
			first = &want
		}
		v, err := d.db.Derived(ctx, f.Ref, want.index())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if v.Size == 0 {
			return nil, nil // was tried: it would not be smaller
		}
		b, err := d.openBlob(ctx, v)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the plain bytes are right
		}
		if err != nil {
			return nil, err
		}
		e := *f
		e.Encoding, e.Size, e.ETag = tool.Name, b.Size(), f.ETag+"-"+tool.Name
		e.r, e.plain, e.closer = b, blob.OSFile(b), b
		return &e, nil
	}
	if first != nil {
		d.forms.ask(*first, variantAsks)
	}
	return nil, nil
}

// cabinets are the kinds of files that Windows clients ask for in cabinets.
var cabinets = map[symfile.Kind]bool{symfile.PE: true, symfile.PDB: true, symfile.PDB20: true, symfile.DBG: true, symfile.PortablePDB: true}

// openCabinet answers with a cabinet that is kept. Where there is none, one may
// be made for later requests.
func (d *Depot) openCabinet(ctx context.Context, scope Scope, req layout.Request) (*File, error) {
	hits, _, err := d.find(ctx, scope, req)
	if err != nil {
		return nil, err
	}
	h := hits[0]
	if !cabinets[h.Object.Kind] {
		return nil, fs.ErrNotExist
	}
	want := Form{Ref: h.Ref, Tool: transcode.Cab, Name: h.Object.Name, Time: h.Added}
	c, err := d.db.Derived(ctx, h.Ref, want.index())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if d.makeCabinets {
			d.forms.ask(want, 1)
		}
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case c.Size == 0:
		return nil, fs.ErrNotExist // was tried: it is too large
	}
	source := h.Ref
	h.Ref, h.Size = c.Ref, c.Size
	f, err := d.openHit(ctx, h)
	if err == nil {
		f.packed, f.source = true, source
	}
	return f, err
}
