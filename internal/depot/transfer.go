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
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// errWrongFile is the failure of a source that sent another file than the one
// it was asked for.
var errWrongFile = errors.New("it sent another file than the one asked for")

// transfer is one transfer from a source, followed by any number of readers. One
// goroutine drives it, see Depot.fly; it ends when the last reader has closed.
type transfer struct {
	key     string // of what is remembered of it
	slot    string // under which others join it
	other   string // likewise, from the moment on that its debug id is known; guarded by fetcher.mu
	q       Question
	sources []Upstream
	ended   chan struct{} // closed when nothing more will come
	retire  func()        // whoever comes after this begins another transfer

	want layout.Request // what the file must answer; the driver's own

	mu        sync.Mutex
	moved     sync.Cond // on mu; something below changed
	spool     *blob.Spool
	size      int64 // of the file, -1 while unknown
	released  int64 // bytes that readers may have
	announced bool  // readers have been told of a file
	done      bool  // all of it is there and right, or err is set
	err       error
	file      File   // what readers are told, when announced
	redirect  string // what those are told who came for slot, if not empty
	readers   int
	driven    bool // somebody drives it still
}

func newTransfer(key, slot string, q Question, sources []Upstream) *transfer {
	fl := &transfer{key: key, slot: slot, q: q, want: q.Request, sources: sources, ended: make(chan struct{}), size: -1, driven: true}
	fl.moved.L = &fl.mu
	return fl
}

// open waits until there is a file and returns a reader of it to one who came
// for slot.
func (fl *transfer) open(ctx context.Context, slot string) (*File, error) {
	stop := context.AfterFunc(ctx, fl.wake)
	defer stop()
	fl.mu.Lock()
	defer fl.mu.Unlock()
	for !fl.announced && !fl.done && ctx.Err() == nil && (fl.redirect == "" || slot != fl.slot) {
		fl.moved.Wait()
	}
	switch {
	case fl.redirect != "" && slot == fl.slot:
		return &File{Redirect: fl.redirect}, nil
	case fl.done && isFailure(fl.err):
		return nil, &absent{[]error{fl.err}} // for this client it had not begun
	case fl.done && fl.err != nil:
		return nil, fl.err
	case !fl.announced && !fl.done:
		return nil, ctx.Err()
	case fl.spool == nil: // it ended, and all readers have gone
		return nil, errGone
	}
	fl.readers++
	r := &follower{fl: fl, ctx: ctx}
	r.stop = context.AfterFunc(ctx, fl.wake)
	f := fl.file
	f.Size, f.r, f.closer = fl.size, r, r
	if own, err := fl.spool.File(); err == nil { // without it, bytes are copied
		r.own, f.plain, f.arrived = own, own, r.arrived
	}
	return &f, nil
}

// errGone is returned to one who came for a transfer that has just ended: the
// depot has the file now.
var errGone = errors.New("the transfer has just ended")

func (fl *transfer) wake() {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	fl.moved.Broadcast()
}

// follower reads what has arrived and waits for the rest.
type follower struct {
	fl   *transfer
	own  *os.File // the spool's file, or nil
	ctx  context.Context
	stop func() bool
	once sync.Once
}

// wait waits for a byte at off. It returns how many bytes readers may have by
// now, and whether that is all; an error if there will be none at off.
func (r *follower) wait(off int64) (released int64, all bool, err error) {
	fl := r.fl
	fl.mu.Lock()
	defer fl.mu.Unlock()
	for fl.released <= off && !fl.done && r.ctx.Err() == nil {
		fl.moved.Wait()
	}
	all = fl.done && fl.err == nil
	switch {
	case off < fl.released:
	case fl.err != nil:
		// Never an absence: the answer has begun.
		err = &brokenError{fl.err}
	case all:
		err = io.EOF
	default:
		err = context.Cause(r.ctx)
	}
	return fl.released, all, err
}

// arrived waits for a byte at off and returns how many there are from there.
func (r *follower) arrived(off int64) (int64, error) {
	released, _, err := r.wait(off)
	return max(0, released-off), err
}

// ReadAt waits for at least one byte at off.
func (r *follower) ReadAt(p []byte, off int64) (int, error) {
	released, all, err := r.wait(off)
	if err != nil {
		return 0, err
	}
	m, err := r.fl.spool.ReadAt(p[:min(int64(len(p)), released-off)], off)
	last := all && off+int64(m) == released
	switch {
	case err == io.EOF && !last:
		err = nil // there will be more, or an error
	case err == nil && m < len(p) && last:
		err = io.EOF
	}
	return m, err
}

// Close leaves the transfer.
func (r *follower) Close() error {
	r.once.Do(func() {
		r.stop()
		if r.own != nil {
			_ = r.own.Close() // opened for reading
		}
		r.fl.leave(false)
	})
	return nil
}

// leave lets go of the spool when nobody needs it any more.
func (fl *transfer) leave(driver bool) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if driver {
		fl.driven = false
	} else {
		fl.readers--
	}
	if fl.readers == 0 && !fl.driven && fl.spool != nil {
		_ = fl.spool.Close() // opened for reading
		fl.spool = nil
	}
}

// brokenError is the end of an answer that had begun.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "the transfer broke off: " + e.err.Error() }

// begin takes a new spool for a file of that size; readers have not been told
// of an earlier one.
func (fl *transfer) begin(sp *blob.Spool, reply *upstream.Reply, product string, fetched time.Time) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.spool != nil {
		_ = fl.spool.Close() // no reader has it
	}
	fl.spool, fl.size, fl.released = sp, reply.Size, 0
	name := reply.Name
	if name == "" {
		name = fl.want.Name
	}
	fl.file = File{Object: symfile.Object{Name: name}, ModTime: fetched, Volatile: true, Growing: true, product: product}
	if wants(fl.want, symfile.Symbols) {
		fl.file.Object.Kind = symfile.Breakpad
	}
}

// leads tells those who came for slot where to go.
func (fl *transfer) leads(path string) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	fl.redirect = path
	fl.moved.Broadcast()
}

// arrived tells readers that the spool has grown.
func (fl *transfer) arrived(written int64) {
	if fl.q.Request.Form == layout.FormSource {
		return // short, and nothing in it tells what it is: all or nothing
	}
	fl.mu.Lock()
	defer fl.mu.Unlock()
	free := written - withheld
	if fl.size >= 0 {
		free = min(written, fl.size-withheld)
	}
	if free > fl.released {
		fl.released = free
	}
	if fl.released > 0 && written >= announce {
		fl.announced = true
	}
	fl.moved.Broadcast()
}

// isAnnounced reports whether readers have been told of the file.
func (fl *transfer) isAnnounced() bool {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.announced
}

// land ends the transfer: with the whole file, or with an error.
func (fl *transfer) land(size int64, file *File, err error) {
	fl.retire()
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if err != nil {
		fl.err = err
	} else {
		if !fl.announced {
			fl.file, fl.announced = *file, true
		}
		fl.size, fl.released = size, size
	}
	fl.done = true
	close(fl.ended)
	fl.moved.Broadcast()
}

// notFound is what those hear whose file no source has.
func notFound(failures []error) error {
	if len(failures) == 0 {
		return fs.ErrNotExist
	}
	return &absent{failures}
}

// absent is fs.ErrNotExist with the reasons of the sources.
type absent struct{ why []error }

func (a *absent) Error() string        { return errors.Join(a.why...).Error() }
func (a *absent) Is(target error) bool { return target == fs.ErrNotExist }
