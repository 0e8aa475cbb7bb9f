package web

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/stacks"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/files/sparse"
)

// Stacks walks the stacks of a dump that a client has sent, whole or in parts. If parts are missing
// that the walk reads, need says which, and there is no answer.
func (s *Symbolication) Stacks(r *Request, f *SentFile) (answer *wire.Stacks, need []sparse.Range, err error) {
	if s.Off() || r.Dump == nil {
		return nil, nil, errOff
	}
	var note NoteDump
	if f.Parts == nil {
		answer, note, err = r.Dump(r.Context(), f.Whole, f.Whole.size)
	} else {
		need, err = f.Parts.Try(func(p io.ReaderAt) (err error) {
			answer, note, err = r.Dump(r.Context(), &oneReader{r: p}, f.Parts.Size())
			return err
		})
	}
	if err == nil && need == nil {
		switch {
		case f.Unread:
		case f.Parts == nil:
			note(r.Context(), f.Name)
		default:
			note(r.Context(), "")
		}
		return answer, nil, nil
	}
	return answer, need, notWalked(r, err)
}

// notWalked returns the problem of a dump that could not be walked.
func notWalked(r *Request, err error) error {
	if bad, ok := errors.AsType[symbolicate.RequestError](err); ok {
		err = &Problem{Word: "too-large", Detail: bad.Title}
	}
	switch {
	case errors.Is(err, crash.ErrBusy):
		err = &Problem{Word: "busy", Detail: err.Error()}
	case errors.Is(err, crash.ErrLimit):
		err = &Problem{Word: "not-symbol", Detail: err.Error()}
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		err = &Problem{Word: "busy", Detail: "the files of the modules were not ready in time; ask again"}
	}
	return unreadable(err)
}

// Held returns the file with the functions of a module that the client may see; nil: there is none in the
// catalog.
func (s *Symbolication) Held(r *Request, name, id string) (*stacks.Build, error) {
	return stacks.Filler{Catalog: s.catalog, Scope: r.Scope()}.Held(r.Context(), name, id)
}

// oneReader lets one goroutine read at a time.
type oneReader struct {
	mu sync.Mutex
	r  io.ReaderAt // guarded by mu
}

// ReadAt implements io.ReaderAt.
func (o *oneReader) ReadAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.r.ReadAt(p, off)
}
