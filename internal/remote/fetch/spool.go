package fetch

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

const (
	// resumes is how often an interrupted transfer is resumed.
	resumes = 3
	// headSize is how many bytes at the start show whether a file can be a
	// symbol file.
	headSize = 4 << 10
)

// transfer copies the body of an upstream's answer to a spool.
type transfer struct {
	f         *Fetcher
	from      Upstream
	ask       Ask
	spool     *blob.Spool
	grew      func(written int64)               // called after each write
	announced func() bool                       // reports whether clients may have received the file
	head      func(name string, b []byte) error // rejects a file by its first bytes; may be nil
}

// failure returns an error that the upstream caused.
func (t *transfer) failure(class Class, err error) error {
	return &Failure{Source: t.from.Source.Name(), Class: class, Err: err}
}

// copy copies the whole body. It resumes an interrupted transfer if the upstream
// supports that. An error that is not a *Failure was not caused by the upstream.
func (t *transfer) copy(ctx context.Context, a answer) error {
	size := a.reply.Size
	for try := 0; ; try++ {
		err := t.copyBody(a)
		switch {
		case err == nil && size >= 0 && t.spool.Size() != size:
			return t.failure(ClassBroken, errLength)
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errDisk):
			return err
		case !IsFailure(err):
			err = t.failure(ClassBroken, err)
		}
		refused := ClassOf(err) == ClassTooLarge || errors.Is(err, objfile.ErrNotSymbolFile)
		if refused || errors.Is(err, errSlow) || a.reply.Tag == "" || try == resumes {
			return err
		}
		rest := t.ask
		rest.Resume = &Resume{Path: a.reply.Path, Tag: a.reply.Tag, Offset: t.spool.Size()}
		rctx, cancel := context.WithCancelCause(ctx)
		defer cancel(context.Canceled)
		b := t.f.askOne(rctx, cancel, t.from, rest)
		if b.err != nil {
			return err
		}
		if b.reply.Offset != t.spool.Size() || b.reply.Size != size {
			_ = b.reply.Body.Close()
			return err // the file has changed at the upstream
		}
		b.asked = time.Now()
		a = b
	}
}

// copyBody copies one body. It ends a transfer below MinRate, see tooSlow.
func (t *transfer) copyBody(a answer) error {
	body := a.reply.Body
	defer body.Close()
	var slow atomic.Bool
	end := make(chan struct{})
	defer close(end)
	go func() {
		if t.tooSlow(a.asked, end) {
			slow.Store(true)
			a.cancel(errSlow)
			_ = body.Close() // for a Read that does not watch its context
		}
	}()
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	sp, short := t.spool, a.reply.Size >= 0 && a.reply.Size < headSize
	likely := t.head == nil || sp.Size() >= headSize
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			if sp.Size()+int64(n) > t.ask.Limit {
				return t.failure(ClassTooLarge, errTooLarge)
			}
			if _, err := sp.Write(buf[:n]); err != nil {
				return errors.Join(errDisk, err)
			}
			if !likely && sp.Size() >= headSize {
				if err := t.checkHead(a.reply); err != nil {
					return err
				}
				likely = true
			}
			if likely || short {
				t.grew(sp.Size())
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case slow.Load():
			return t.failure(ClassTimeout, errSlow)
		case err != nil:
			return err
		}
	}
}

// checkHead rejects early, before clients receive any bytes, what cannot be a
// symbol file, such as an error page with status 200.
func (t *transfer) checkHead(reply *Reply) error {
	var head [headSize]byte
	if _, err := t.spool.ReadAt(head[:], 0); err != nil {
		return errors.Join(errDisk, err)
	}
	if err := t.head(reply.Name, head[:]); err != nil {
		return t.failure(ClassBroken, err)
	}
	return nil
}

// tooSlow watches a transfer until end is closed. It returns true as soon as the
// rate is below MinRate: before clients have received the file, the average rate
// since the request, after FirstByte at the earliest; later the average rate
// over the last Stall.
func (t *transfer) tooSlow(asked time.Time, end <-chan struct{}) bool {
	const step = 200 * time.Millisecond
	limits := t.f.limits
	tick := time.NewTicker(step)
	defer tick.Stop()
	first := t.spool.Size()
	var sizes []int64 // at past ticks, since the file was announced
	for {
		select {
		case <-end:
			return false
		case <-tick.C:
		}
		size := t.spool.Size()
		if !t.announced() {
			since := time.Since(asked)
			if since >= limits.FirstByte && float64(size-first) < since.Seconds()*float64(limits.MinRate) {
				return true
			}
			continue
		}
		n := int(limits.Stall / step)
		if sizes = append(sizes, size); len(sizes) <= n {
			continue
		}
		sizes = sizes[len(sizes)-n-1:]
		if float64(size-sizes[0]) < limits.Stall.Seconds()*float64(limits.MinRate) {
			return true
		}
	}
}
