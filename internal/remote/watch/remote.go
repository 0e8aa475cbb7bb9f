package watch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/store/bucket"
)

// remote is a bucket, or the part of it below a prefix. Its objects are never overwritten
// in place: each request for a range names the entity tag, so all bytes are of one state.
type remote struct {
	b      bucket.Bucket
	opened atomic.Int64 // objects that are open
}

func (r *remote) name() string { return r.b.Name() }

// here does not ask: a listing fails if the bucket is away.
func (r *remote) here(context.Context) (id string, empty bool, err error) { return "", false, nil }

// close leaves the bucket to the caller, who has opened it.
func (r *remote) close() error { return nil }

func (r *remote) notify(*dirtyFolders) (notifier, error) {
	return nil, errors.New("a bucket reports no changes")
}

// remoteStamp has the time in seconds, because lists have it more exactly than answers.
func remoteStamp(i bucket.Info) stamp {
	s := stamp{size: i.Size, tag: i.ETag}
	if !i.ModTime.IsZero() {
		s.mtime = i.ModTime.Unix() * int64(time.Second)
	}
	return s
}

// tree is a listing of a bucket.
type tree struct {
	files map[string][]found
	dirs  map[string][]string // the names of the folders in each folder
	known map[string]struct{} // the paths of all folders
}

// add adds an object whose name is a clean path.
func (t *tree) add(i bucket.Info) {
	if i.Key == "" || strings.HasSuffix(i.Key, "/") || path.Clean("/"+i.Key) != "/"+i.Key {
		return // nothing that could be opened, or a folder
	}
	dir, name := parent(i.Key), path.Base(i.Key)
	for d := dir; d != ""; d = parent(d) {
		if _, known := t.known[d]; known {
			break
		}
		t.known[d] = struct{}{}
		t.dirs[parent(d)] = append(t.dirs[parent(d)], path.Base(d))
	}
	t.files[dir] = append(t.files[dir], found{name, remoteStamp(i)})
}

// list lists the objects with a prefix.
func (r *remote) list(ctx context.Context, prefix string) (*tree, error) {
	t := &tree{files: map[string][]found{}, dirs: map[string][]string{}, known: map[string]struct{}{}}
	for i, err := range r.b.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		t.add(i)
	}
	return t, nil
}

// snapshot lists the whole bucket at once: a request for each folder would cost more.
func (r *remote) snapshot(ctx context.Context) (lister, error) {
	t, err := r.list(ctx, "")
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, dir string) ([]found, []string, error) {
		return t.files[dir], t.dirs[dir], nil
	}, nil
}

func (r *remote) folder(ctx context.Context, dir string) ([]found, []string, error) {
	prefix := ""
	if dir != "" {
		prefix = dir + "/"
	}
	t, err := r.list(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	if len(t.files) == 0 && dir != "" {
		return nil, nil, fs.ErrNotExist
	}
	return t.files[dir], t.dirs[dir], nil
}

func (r *remote) open(ctx context.Context, p string) (handle, error) {
	i, err := r.b.Head(ctx, p)
	if err != nil {
		return nil, err
	}
	// A caller that leaves does not end what others read of the same file.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &object{r: r, key: p, info: i, ctx: life, size: remotePart, most: remoteParts}
	if r.opened.Add(1) > manyOpen {
		o.size, o.most = remotePart/8, remoteParts/2
	}
	o.end = sync.OnceFunc(func() { cancel(); r.opened.Add(-1) })
	return o, nil
}

// Reading ahead: the parts of an object that are asked for, and how many are held. While
// many objects are open, as for many slow clients, each gets less memory.
const (
	remotePart  = 2 << 20
	remoteParts = 4
	manyOpen    = 32
)

// object is an open object of a bucket. It reads whole parts, and holds some.
type object struct {
	r    *remote
	key  string
	info bucket.Info
	ctx  context.Context
	end  func()
	size int64 // bytes of a part
	most int   // parts that are held

	mu    sync.Mutex
	parts []*part // guarded by mu; the one used last is the last
	lost  bool    // guarded by mu; the object was replaced
}

// part is a range of an object; data and err are set when done is closed.
type part struct {
	off  int64
	done chan struct{}
	data []byte
	err  error
}

func (o *object) stamp() stamp { return remoteStamp(o.info) }

// Close ends what is being read.
func (o *object) Close() error {
	o.end()
	return nil
}

// changed reports whether a range could not be read because the object was replaced. Of an
// object without an entity tag it asks again.
func (o *object) changed() bool {
	o.mu.Lock()
	lost := o.lost
	o.mu.Unlock()
	if lost || o.info.ETag != "" {
		return lost
	}
	i, err := o.r.b.Head(o.ctx, o.key)
	return err != nil || remoteStamp(i) != o.stamp()
}

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at < 0 || at >= o.info.Size {
			return n, io.EOF
		}
		q := o.part(at / o.size * o.size)
		<-q.done
		if q.err != nil {
			return n, q.err
		}
		n += copy(p[n:], q.data[at-q.off:])
	}
	return n, nil
}

// part returns a part, which may still be read.
func (o *object) part(off int64) *part {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.parts, func(p *part) bool { return p.off == off }); i >= 0 {
		p := o.parts[i]
		o.parts = append(slices.Delete(o.parts, i, i+1), p)
		return p
	}
	p := &part{off: off, done: make(chan struct{})}
	if o.parts = append(o.parts, p); len(o.parts) > o.most {
		o.parts = slices.Delete(o.parts, 0, 1)
	}
	go o.fill(p)
	return p
}

// fill reads a part. One that fails is asked for again by the next reader.
func (o *object) fill(p *part) {
	defer close(p.done)
	p.data = make([]byte, min(o.size, o.info.Size-p.off))
	p.err = func() error {
		got, err := o.r.b.Get(o.ctx, o.key, p.off, int64(len(p.data)), o.info.ETag)
		if err != nil {
			return err
		}
		defer got.Body.Close()
		_, err = io.ReadFull(got.Body, p.data)
		return noEOF(err)
	}()
	if p.err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parts = slices.DeleteFunc(o.parts, func(q *part) bool { return q == p })
	if errors.Is(p.err, bucket.ErrPrecondition) || errors.Is(p.err, fs.ErrNotExist) {
		o.lost = true
	}
}
