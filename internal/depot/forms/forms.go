// Package forms makes other forms of stored contents, such as compressed variants and
// cabinets, and finds those that have been made. They are made in the background after
// requests that they would have served, and stored beside the plain content. No request waits
// for one.
package forms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Asks is how many requests there are for one content before a variant of it is made.
const Asks = 3

const (
	variantMin = 4 << 10 // smaller contents gain nothing
	variantMax = 2 << 30 // larger ones would keep a core busy for minutes

	counted = 4096 // contents counted at once
	waiting = 256  // forms waiting; further ones are dropped and queued again by later requests
)

// Codings are the tools that make variants, by the content codings of HTTP.
var Codings = map[string]transcode.Tool{"zstd": transcode.Zstd, "gzip": transcode.Gzip}

// Form is a derived content: what Tool makes of the content Ref. These two
// identify it; Name and Time are written into forms that have fields for them.
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

func (f Form) index() record.Tool { return record.Tool{Name: f.Tool.Name, Version: f.Tool.Version} }

// Forms makes derived contents and finds those that have been made. Its methods may be called
// by many goroutines.
type Forms struct {
	dir          string // of the depot, for temporary files
	db           *index.DB
	blobs        blob.Backend
	contents     *content.Contents
	makeCabinets bool

	queue  chan Form
	making *fetch.Group[formKey, *making]
	life   context.Context // ends with the depot
	end    context.CancelFunc

	mu    sync.Mutex
	asked map[formKey]int // guarded by mu; how often a form was missing
}

// making is the production of one form, shared by all callers that want it. made
// and err are set when done is closed.
type making struct {
	done chan struct{}
	made record.Content
	err  error
}

// New returns the forms of a depot, which has temporary files in the folder dir. With
// makeCabinets, cabinets are made after requests for them; those that have been made are found
// in any case.
func New(dir string, db *index.DB, blobs blob.Backend, contents *content.Contents, makeCabinets bool) *Forms {
	f := &Forms{
		dir: dir, db: db, blobs: blobs, contents: contents, makeCabinets: makeCabinets,
		queue: make(chan Form, waiting), making: fetch.NewGroup[formKey, *making](0), asked: make(map[formKey]int),
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Queue yields the forms that requests have asked for, to be derived by who has time.
func (f *Forms) Queue() <-chan Form { return f.queue }

// Close ends what is being made.
func (f *Forms) Close() {
	f.making.Close()
	f.end()
	f.making.Wait()
}

// ask counts one request that a form would have served, and queues the making
// of it at the request of that number.
func (f *Forms) ask(want Form, worth int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) >= counted {
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

// Known returns a form that has been made; a zero Content if it is not worth
// storing. One that has not been made is fs.ErrNotExist.
func (f *Forms) Known(ctx context.Context, want Form) (record.Content, error) {
	return f.db.Derived(ctx, want.Ref, want.index())
}

// Made is known of a content and a tool.
func (f *Forms) Made(ctx context.Context, ref blob.Ref, tool transcode.Tool) (record.Content, error) {
	return f.Known(ctx, Form{Ref: ref, Tool: tool})
}

// Cabinet returns the cabinet of a stored file. If it has not been made or cannot be, the error
// is fs.ErrNotExist. With asked, it may be made for later requests.
func (f *Forms) Cabinet(ctx context.Context, h record.Hit, asked bool) (record.Content, error) {
	if !cabinets[h.Object.Kind] {
		return record.Content{}, fs.ErrNotExist
	}
	want := Form{Ref: h.Ref, Tool: transcode.Cab, Name: h.Object.Name, Time: h.Added}
	c, err := f.Known(ctx, want)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.makeCabinets && asked {
			f.ask(want, 1)
		}
		return record.Content{}, fs.ErrNotExist
	case err != nil:
		return record.Content{}, err
	case c.Size == 0:
		return record.Content{}, fs.ErrNotExist // was tried: it is too large
	}
	return c, nil
}

// Compresses reports whether variants are made of contents of a size.
func Compresses(size int64) bool { return size >= variantMin && size <= variantMax }

// HasCabinets reports whether Windows clients ask for files of a kind in cabinets.
func HasCabinets(k symfile.Kind) bool { return cabinets[k] }

// Derive returns a form of a content, and makes it if it has not been made. A
// zero Content means that it is not worth storing. Concurrent calls for one form
// share one making, which goes on when they give up.
func (f *Forms) Derive(ctx context.Context, want Form) (record.Content, error) {
	c, err := f.Known(ctx, want)
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	m, ok := f.making.Join(want.key(), func() (*making, bool) { return &making{done: make(chan struct{})}, true }, func(m *making) {
		m.made, m.err = f.produceOnce(f.life, want)
		f.making.Leave(want.key())
		close(m.done)
	})
	if !ok {
		return record.Content{}, context.Canceled // the depot is closing
	}
	select {
	case <-m.done:
		return m.made, m.err
	case <-ctx.Done():
		return record.Content{}, ctx.Err()
	}
}

// Work names the making of a form for the other servers.
func (f Form) Work() string {
	return fmt.Sprintf("form %s %s %d", f.Ref, f.Tool.Name, f.Tool.Version)
}

// ErrMadeElsewhere means that another server is making a form.
var ErrMadeElsewhere = errors.New("another server is making it")

// produceOnce is produce unless another server is making the form.
func (f *Forms) produceOnce(ctx context.Context, want Form) (c record.Content, err error) {
	made, err := f.db.Nodes.Once(ctx, want.Work(), func(ctx context.Context) error {
		c, err = f.produce(ctx, want)
		return err
	})
	if err == nil && !made {
		err = ErrMadeElsewhere
	}
	return c, err
}

// produce makes a form and records the result, also that it is not worth storing.
func (f *Forms) produce(ctx context.Context, want Form) (record.Content, error) {
	none := record.Content{}
	// It may have been made since the caller looked for it.
	if c, err := f.Known(ctx, want); !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if _, err := f.db.Colds.Of(ctx, want.Ref); err == nil {
		return none, nil // its variants were dropped when it became cold, and take more than the cold file
	}
	src, err := f.blobs.Open(ctx, want.Ref)
	if err != nil {
		return none, err
	}
	defer src.Close()
	batch, err := f.blobs.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer batch.Abort()
	made, err := f.transcode(ctx, batch, want, src)
	if err != nil {
		return none, err
	}
	if made == none {
		return none, f.db.PutDerived(ctx, want.Ref, want.index(), nil)
	}
	if err := batch.Commit(ctx); err != nil {
		return none, err
	}
	return made, f.db.PutDerived(ctx, want.Ref, want.index(), &made)
}

// transcode puts a form into the batch. A zero Content is not worth storing.
func (f *Forms) transcode(ctx context.Context, batch blob.Batch, want Form, src blob.File) (record.Content, error) {
	var made record.Content
	var err error
	if want.Tool == transcode.Cab {
		out, drop, err := f.scratch()
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
		return record.Content{}, nil
	}
	return made, err
}

// scratch makes a temporary file on the depot's disk. It survives a crash only on
// systems where an open file cannot be removed.
func (f *Forms) scratch() (file *os.File, drop func(), err error) {
	if file, err = os.CreateTemp(f.dir, ".scratch-*"); err != nil {
		return nil, nil, err
	}
	removed := os.Remove(file.Name()) == nil
	return file, func() {
		_ = file.Close()
		if !removed {
			_ = os.Remove(file.Name())
		}
	}, nil
}

// cabinets are the kinds of files that Windows clients ask for in cabinets.
var cabinets = map[symfile.Kind]bool{symfile.PE: true, symfile.PDB: true, symfile.PDB20: true, symfile.DBG: true, symfile.PortablePDB: true}
