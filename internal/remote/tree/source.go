package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// Source copies files from a folder into the cache instead of serving them in
// place: for slow disks, and for disks that are not always mounted.
type Source struct {
	name, dir string
	opt       Options

	mu     sync.Mutex
	f      *Folder   // guarded by mu; nil: not open yet
	tried  time.Time // guarded by mu
	failed error     // guarded by mu
	closed bool      // guarded by mu
}

// folderRetry is the interval between attempts to open a missing folder.
const folderRetry = 10 * time.Second

// NewSource returns a source that copies files from the folder dir, which need not
// exist yet.
func NewSource(name, dir string, opt Options) *Source {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Source{name: name, dir: dir, opt: opt}
}

// Name returns the name of the folder in the configuration.
func (s *Source) Name() string { return s.name }

// Traits says that files are all that a folder has.
func (s *Source) Traits() fetch.Traits {
	return fetch.Traits{Excludes: func(ask fetch.Ask) string {
		if ask.Request.Form == layout.FormFile {
			return ""
		}
		return notInFolder
	}}
}

// notInFolder says why a folder is not searched for a request.
const notInFolder = "a folder upstream does not support this request"

// Close closes the folder. Replies stay readable.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}

// folder opens the folder if it is not open. The lock is held meanwhile, since all
// callers need the same folder.
func (s *Source) folder(ctx context.Context) (*Folder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opt.Now()
	switch {
	case s.closed:
		return nil, fs.ErrClosed
	case s.f != nil:
		return s.f, nil
	case s.failed != nil && now.Sub(s.tried) < folderRetry:
		return nil, s.failed
	}
	f, err := Open(ctx, s.dir, s.opt)
	if err != nil {
		if ctx.Err() == nil {
			s.tried, s.failed = now, noFolderError{err}
			err = s.failed
		}
		return nil, err
	}
	s.f, s.failed = f, nil
	return f, nil
}

// noFolderError is not fs.ErrNotExist: the files may exist.
type noFolderError struct{ err error }

func (e noFolderError) Error() string { return e.err.Error() }

// Fetch opens the file. A disk that hangs does not block the caller.
func (s *Source) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	if ask.Request.Form != layout.FormFile {
		return nil, &fetch.Failure{Source: s.name, Class: fetch.ClassSkipped, Err: errors.New(notInFolder)}
	}
	type opened struct {
		f   *File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		var f *File
		dir, err := s.folder(ctx)
		if err == nil {
			f, err = dir.Open(ctx, ask.Request)
		}
		done <- opened{f, err}
	}()
	var got opened
	select {
	case got = <-done:
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				_ = o.f.Close()
			}
		}()
		return nil, &fetch.Failure{Source: s.name, Class: fetch.ClassTimeout, Err: context.Cause(ctx)}
	}
	if got.err != nil {
		return nil, s.failure(ctx, got.err)
	}
	f := got.f
	if ask.Limit > 0 && f.Size > ask.Limit {
		_ = f.Close()
		return nil, &fetch.Failure{Source: s.name, Class: fetch.ClassTooLarge, Err: fmt.Errorf("more bytes than the limit allows: %d", f.Size)}
	}
	reply := &fetch.Reply{Size: f.Size, Name: f.Name, Path: f.Path, Tag: f.ETag, ModTime: f.ModTime, Local: true}
	if r := ask.Resume; r != nil && r.Path == f.Path && r.Tag == f.ETag && r.Offset <= f.Size {
		reply.Offset = r.Offset
	}
	reply.Body = &folderBody{r: io.NewSectionReader(f, reply.Offset, f.Size-reply.Offset), f: f, s: s, ctx: ctx}
	return reply, nil
}

func (s *Source) failure(ctx context.Context, err error) *fetch.Failure {
	class := fetch.ClassBroken
	switch {
	case ctx.Err() != nil:
		class, err = fetch.ClassTimeout, context.Cause(ctx)
	case errors.Is(err, unpackcache.ErrFull):
		class = fetch.ClassBusy
	case errors.Is(err, fs.ErrNotExist):
		class = fetch.ClassNotFound
	case errors.Is(err, fs.ErrPermission):
		class = fetch.ClassForbidden
	}
	return &fetch.Failure{Source: s.name, Class: class, Err: err}
}

// folderBody reads a file of a folder.
type folderBody struct {
	r   *io.SectionReader
	f   *File
	s   *Source
	ctx context.Context
}

func (b *folderBody) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, b.s.failure(b.ctx, b.ctx.Err())
	}
	n, err := b.r.Read(p)
	if errors.Is(err, io.EOF) {
		if n == 0 && b.left() > 0 {
			return 0, &fetch.Failure{Source: b.s.name, Class: fetch.ClassBroken, Err: errors.New("the file has become shorter")}
		}
		return n, err
	}
	if err != nil {
		err = b.s.failure(b.ctx, err)
	}
	return n, err
}

// left is the unread rest.
func (b *folderBody) left() int64 {
	at, err := b.r.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return b.r.Size() - at
}

func (b *folderBody) Close() error { return b.f.Close() }
