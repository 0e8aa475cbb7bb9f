package fetch

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// File is a downloaded file as one client reads it. It must be closed.
//
// While the file is Growing, Size may be -1 (unknown) and ReadAt waits for the
// bytes it needs. The last 64 KiB are withheld until the whole file has been
// checked.
type File struct {
	Object  symfile.Object
	Ref     blob.Ref  // SHA-256 of the content; zero while Growing
	Size    int64     // bytes, -1 while unknown
	ModTime time.Time // when it was downloaded
	Path    string    // its name as the upstream spells it
	Archive string    // the package that has it at Path, of another server's watched folder
	// Signature is the IMA signature of the content in hex, as the upstream or a package
	// says, or empty.
	Signature string
	ETag      string // strong entity tag, without quotes; empty while Growing
	Growing   bool
	// Product is the product of the upstream.
	Product string
	// Redirect, if not empty, is a relative path in Breakpad's layout with the
	// debug id, to which the client must be redirected. All other fields are
	// then zero.
	Redirect string

	reader *reader
	other  readAtCloser // of a file that was not downloaded; see OtherFile
}

type readAtCloser interface {
	io.ReaderAt
	io.Closer
}

// OtherFile returns a file that is described as f and was not downloaded, for another
// server. Its bytes are those of r.
func OtherFile(f File, r interface {
	io.ReaderAt
	io.Closer
}) *File {
	f.other = r
	return &f
}

// ReadAt waits for at least one byte at off.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if f.other != nil {
		return f.other.ReadAt(p, off)
	}
	if f.reader == nil {
		return 0, io.EOF
	}
	return f.reader.ReadAt(p, off)
}

// Arrived waits for a byte at off and returns the number of bytes that may be
// read from off on. The error is io.EOF if off is the end of the file.
func (f *File) Arrived(off int64) (int64, error) {
	if f.reader == nil {
		return 0, io.EOF
	}
	released, _, err := f.reader.wait(off)
	return max(0, released-off), err
}

// Checked returns the description of the whole file, once its end has been read.
func (f *File) Checked() File {
	if f.reader == nil {
		return *f
	}
	g := f.reader.g
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.final
}

// OSFile returns the file on disk, or nil. Beyond the bytes that have Arrived,
// it may hold bytes that must not be sent yet.
func (f *File) OSFile() *os.File {
	if f.reader == nil {
		return nil
	}
	return f.reader.own
}

// Close releases the file.
func (f *File) Close() error {
	if f.other != nil {
		return f.other.Close()
	}
	if f.reader != nil {
		f.reader.close()
	}
	return nil
}

const (
	withheld = 64 << 10 // bytes at the end of a file that wait for the check of the whole file
	announce = 16 << 10 // bytes that must have arrived before clients get an answer
)

// growing is a file that one goroutine writes while any number of clients wait
// for it and read it.
type growing struct {
	ended chan struct{} // closed at the end of the download

	mu        sync.Mutex
	changed   sync.Cond   // with mu; signals a change of the fields below
	spool     *blob.Spool // nil before the first bytes and after the last reader
	size      int64       // of the file, -1 while unknown
	released  int64       // bytes that readers may read
	whole     bool        // release nothing before the whole file has been checked
	announced bool        // clients may have received the file
	done      bool        // the whole file has been checked, or err is set
	err       error
	file      File     // for clients, once announced
	redirect  string   // path for the clients with the first key, or empty
	final     File     // the checked file
	instead   *growing // the download that the clients get instead of this one
	readers   int
	writing   bool
}

func newGrowing() *growing {
	g := &growing{ended: make(chan struct{}), size: -1, writing: true}
	g.changed.L = &g.mu
	return g
}

// open waits for the file and returns a reader of it. first is set for clients
// with the key under which the download started; only these are redirected.
// ErrInDepot means that the download has ended and its spool is closed.
func (g *growing) open(ctx context.Context, first bool) (*File, error) {
	f, instead, err := g.openThis(ctx, first)
	if instead != nil {
		return instead.open(ctx, first)
	}
	return f, err
}

func (g *growing) openThis(ctx context.Context, first bool) (_ *File, instead *growing, _ error) {
	stop := context.AfterFunc(ctx, g.wake)
	defer stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.announced && !g.done && g.instead == nil && ctx.Err() == nil && (g.redirect == "" || !first) {
		g.changed.Wait()
	}
	switch {
	case g.instead != nil:
		return nil, g.instead, nil
	case g.redirect != "" && first:
		return &File{Redirect: g.redirect}, nil, nil
	case g.done && IsFailure(g.err):
		return nil, nil, &notFoundError{[]error{g.err}} // nothing has been sent to this client: a miss
	case g.done && g.err != nil:
		return nil, nil, g.err
	case !g.announced && !g.done:
		return nil, nil, ctx.Err()
	case g.spool == nil:
		return nil, nil, ErrInDepot
	}
	g.readers++
	r := &reader{g: g, ctx: ctx}
	r.stop = context.AfterFunc(ctx, g.wake)
	if own, err := g.spool.File(); err == nil { // without it, clients use ReadAt
		r.own = own
	}
	f := g.file
	f.Size, f.reader = g.size, r
	return &f, nil, nil
}

func (g *growing) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed.Broadcast()
}

// begin starts over with an empty spool. No client has received bytes of an
// earlier one.
func (g *growing) begin(sp *blob.Spool, size int64, file File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spool != nil {
		_ = g.spool.Close() // it has no readers
	}
	g.spool, g.size, g.released, g.file = sp, size, 0, file
	g.file.Growing = true
}

// redirectTo redirects the clients with the first key to another path.
func (g *growing) redirectTo(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.redirect = path
	g.changed.Broadcast()
}

// replaceBy lets the clients, which have received nothing yet, have another
// download instead.
func (g *growing) replaceBy(other *growing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.instead = other
	g.changed.Broadcast()
}

// grew releases written bytes to readers, except those to withhold.
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

// isAnnounced reports whether clients may have received the file.
func (g *growing) isAnnounced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.announced
}

// finish ends the download: with size and file if the check succeeded, else with
// err.
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
		g.final = file
		g.final.Size = size
	}
	g.done = true
	close(g.ended)
	g.changed.Broadcast()
}

// leave is called once by the writer and once by each reader. The last one
// closes the spool.
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

// reader reads released bytes and waits for more.
type reader struct {
	g    *growing
	own  *os.File // the spool's file, or nil
	ctx  context.Context
	stop func() bool
	once sync.Once
}

// wait waits for a byte at off. It returns the number of bytes released so far
// and whether the file is complete. It returns an error if there will be no byte
// at off.
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
		err = &BrokenError{g.err} // not fs.ErrNotExist: the response has begun
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
		err = nil // the next call waits for more or returns the error
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

// BrokenError is the error of a read if the download fails after clients have
// received the file.
type BrokenError struct{ err error }

func (e *BrokenError) Error() string { return "the transfer broke off: " + e.err.Error() }

// Unsent returns the error for a client that has received nothing of the file, as Open
// does: fs.ErrNotExist, unless the depot is closing.
func (e *BrokenError) Unsent() error {
	if errors.Is(e.err, errClosing) {
		return e.err
	}
	return notFound([]error{e.err})
}
