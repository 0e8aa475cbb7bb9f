package fetch

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/symfile"
)

// File is a downloaded file as one client reads it. It must be closed.
//
// While it is Growing, Size may be -1 (unknown), and ReadAt waits for the bytes
// it needs; the last 64 KiB are withheld until the whole file is known to be the
// one asked for.
type File struct {
	Object  symfile.Object
	Ref     blob.Ref  // SHA-256 of the content; zero while it is Growing
	Size    int64     // bytes, -1 while unknown
	ModTime time.Time // when it was downloaded
	Path    string    // its name as the upstream spells it
	ETag    string    // strong entity tag, without quotes; empty while it is Growing
	Growing bool
	// Product is that of the upstream.
	Product string
	// Redirect is set instead of all else when the client must ask again: the
	// relative path in Breakpad's layout that names the debug id.
	Redirect string

	reader *reader
}

// ReadAt waits for at least one byte at off.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if f.reader == nil {
		return 0, io.EOF
	}
	return f.reader.ReadAt(p, off)
}

// Arrived waits for a byte at off and returns how many bytes may be read from
// there; io.EOF if off is the end.
func (f *File) Arrived(off int64) (int64, error) {
	if f.reader == nil {
		return 0, io.EOF
	}
	released, _, err := f.reader.wait(off)
	return max(0, released-off), err
}

// OSFile returns the file on disk, or nil. It has the bytes that have Arrived,
// and more that must not be sent yet.
func (f *File) OSFile() *os.File {
	if f.reader == nil {
		return nil
	}
	return f.reader.own
}

// Close ends the reading.
func (f *File) Close() error {
	if f.reader != nil {
		f.reader.close()
	}
	return nil
}

const (
	withheld = 64 << 10 // bytes at the end of a file, until all of it is known to be right
	announce = 16 << 10 // bytes that have arrived before clients get an answer
)

// growing is a file that one goroutine writes while any number of clients wait
// for it and read it.
type growing struct {
	ended chan struct{} // closed when nothing more will come

	mu        sync.Mutex
	changed   sync.Cond   // on mu; something below has changed
	spool     *blob.Spool // nil before there are bytes, and after the last reader
	size      int64       // of the file, -1 while unknown
	released  int64       // bytes that readers may have
	whole     bool        // readers get all of it at once, or nothing
	announced bool        // clients have been given the file
	done      bool        // all of it has arrived and is right, or err is set
	err       error
	file      File   // what clients are given, once announced
	redirect  string // where the clients are sent who asked first, or empty
	readers   int
	writing   bool
}

func newGrowing() *growing {
	g := &growing{ended: make(chan struct{}), size: -1, writing: true}
	g.changed.L = &g.mu
	return g
}

// open waits until there is a file and returns a reader of it. first is set for
// clients that asked for the key under which the download began: only these are
// redirected. ErrHeld says that the download ended and all its readers have gone.
func (g *growing) open(ctx context.Context, first bool) (*File, error) {
	stop := context.AfterFunc(ctx, g.wake)
	defer stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.announced && !g.done && ctx.Err() == nil && (g.redirect == "" || !first) {
		g.changed.Wait()
	}
	switch {
	case g.redirect != "" && first:
		return &File{Redirect: g.redirect}, nil
	case g.done && IsFailure(g.err):
		return nil, &notFoundError{[]error{g.err}} // this client's answer had not begun
	case g.done && g.err != nil:
		return nil, g.err
	case !g.announced && !g.done:
		return nil, ctx.Err()
	case g.spool == nil:
		return nil, ErrHeld
	}
	g.readers++
	r := &reader{g: g, ctx: ctx}
	r.stop = context.AfterFunc(ctx, g.wake)
	if own, err := g.spool.File(); err == nil { // without it, the bytes are copied
		r.own = own
	}
	f := g.file
	f.Size, f.reader = g.size, r
	return &f, nil
}

func (g *growing) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed.Broadcast()
}

// begin starts with an empty spool. Clients have not been given anything from an
// earlier one.
func (g *growing) begin(sp *blob.Spool, size int64, file File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spool != nil {
		_ = g.spool.Close() // no reader has it
	}
	g.spool, g.size, g.released, g.file = sp, size, 0, file
	g.file.Growing = true
}

// redirectTo sends the clients who asked first to another path.
func (g *growing) redirectTo(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.redirect = path
	g.changed.Broadcast()
}

// grew releases what may be read of the bytes that have been written.
func (g *growing) grew(written int64) {
	if g.whole {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	free := written - withheld
	if g.size >= 0 {
		free = min(written, g.size-withheld)
	}
	g.released = max(g.released, free)
	if g.released > 0 && written >= announce {
		g.announced = true
	}
	g.changed.Broadcast()
}

// isAnnounced reports whether clients have been given the file.
func (g *growing) isAnnounced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.announced
}

// finish ends the file: size bytes and file are right, or err says why not.
func (g *growing) finish(size int64, file File, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.err = err
	} else {
		if !g.announced {
			g.file, g.announced = file, true
		}
		g.size, g.released = size, size
	}
	g.done = true
	close(g.ended)
	g.changed.Broadcast()
}

// leave is called once by the writer and by each reader; the last one closes the
// spool.
func (g *growing) leave(writer bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if writer {
		g.writing = false
	} else {
		g.readers--
	}
	if g.readers == 0 && !g.writing && g.spool != nil {
		_ = g.spool.Close() // opened for reading
		g.spool = nil
	}
}

// reader reads what has arrived and waits for the rest.
type reader struct {
	g    *growing
	own  *os.File // the spool's file, or nil
	ctx  context.Context
	stop func() bool
	once sync.Once
}

// wait waits for a byte at off. It returns how many bytes may be read in all by
// now, and whether the file is complete; an error if there will be none at off.
func (r *reader) wait(off int64) (released int64, complete bool, err error) {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.released <= off && !g.done && r.ctx.Err() == nil {
		g.changed.Wait()
	}
	complete = g.done && g.err == nil
	switch {
	case off < g.released:
	case g.err != nil:
		err = &BrokenError{g.err} // never fs.ErrNotExist: the answer has begun
	case complete:
		err = io.EOF
	default:
		err = context.Cause(r.ctx)
	}
	return g.released, complete, err
}

// ReadAt waits for at least one byte at off.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	released, complete, err := r.wait(off)
	if err != nil {
		return 0, err
	}
	n, err := r.g.spool.ReadAt(p[:min(int64(len(p)), released-off)], off)
	last := complete && off+int64(n) == released
	switch {
	case errors.Is(err, io.EOF) && !last:
		err = nil // more will come, or an error
	case err == nil && n < len(p) && last:
		err = io.EOF
	}
	return n, err
}

func (r *reader) close() {
	r.once.Do(func() {
		r.stop()
		if r.own != nil {
			_ = r.own.Close() // opened for reading
		}
		r.g.leave(false)
	})
}

// BrokenError is the error of a read when a download fails after its file has
// been given to clients.
type BrokenError struct{ err error }

func (e *BrokenError) Error() string { return "the transfer broke off: " + e.err.Error() }
