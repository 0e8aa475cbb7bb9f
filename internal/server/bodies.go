package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/symbolicate"
)

const (
	// bodyPart is the step, in bytes, in which the memory of a body is counted.
	bodyPart = 64 << 10
	// maxBodies is how many bytes of bodies are in memory at once, of the requests
	// that are answered and of those that wait.
	maxBodies = 8 * symbolicate.MaxBody
	// slowBody is how long the next bodyPart of a body may take while others wait for
	// memory.
	slowBody = 2 * time.Second
)

var errLongBody = errors.New("the request is too long")

// unreadable is an error of reading a body.
type unreadable struct{ error }

// bodies is the memory of the bodies of requests for symbolication. A body takes
// memory as its bytes arrive. When no memory is left, the request of the slowest client
// is refused with errBusy and its memory is freed, if its client has sent its current
// part for longer than slow.
type bodies struct {
	slow time.Duration

	mu      sync.Mutex
	free    int                // guarded by mu; parts
	reading map[*body]struct{} // guarded by mu; bodies that wait for bytes of their clients
	queue   []chan struct{}    // guarded by mu; those that wait for a part: closed when it is theirs
}

func newBodies(parts int, slow time.Duration) *bodies {
	return &bodies{slow: slow, free: parts, reading: map[*body]struct{}{}}
}

// body is the body of one request.
type body struct {
	of        *bodies
	interrupt func() // ends a Read of the client's bytes, if that is possible

	// The following are guarded by of.mu.
	parts   int
	data    []byte // used by the reader alone while the body is not in of.reading
	since   time.Time
	dropped bool
}

// scratches hold the bytes of a body that have no memory of their own yet.
var scratches = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// read reads the body of a request. After deadline, and for a body that gives way to
// others, the error is errBusy. interrupt, which may be called at any time before leave,
// ends a Read of from. The caller calls leave after its last use of the body.
func (s *bodies) read(ctx context.Context, from io.Reader, deadline time.Time, interrupt func()) (data []byte, leave func(), err error) {
	b := &body{of: s, interrupt: interrupt}
	scratch := scratches.Get().(*[4 << 10]byte)
	defer scratches.Put(scratch)
	part := time.Now()
	for {
		n, err := b.next(from, scratch[:], part)
		if n > 0 && b.parts*bodyPart < len(b.data)+n {
			if lack := b.grow(ctx, deadline); lack != nil {
				return nil, b.leave, lack
			}
			part = time.Now()
		}
		b.data = append(b.data, scratch[:n]...)
		switch {
		case len(b.data) > symbolicate.MaxBody:
			return nil, b.leave, errLongBody
		case err == io.EOF:
			return b.data, b.leave, nil
		case err != nil:
			return nil, b.leave, err
		}
	}
}

// next reads what the client has sent. The body may give way meanwhile; since is when it
// began to wait for its current part.
func (b *body) next(from io.Reader, p []byte, since time.Time) (int, error) {
	s := b.of
	s.mu.Lock()
	b.since = since
	s.reading[b] = struct{}{}
	s.mu.Unlock()
	n, err := from.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reading, b)
	switch {
	case b.dropped:
		return 0, errBusy
	case err != nil && err != io.EOF:
		err = unreadable{err}
	}
	return n, err
}

// grow takes memory for one more part.
func (b *body) grow(ctx context.Context, deadline time.Time) error {
	s := b.of
	s.mu.Lock()
	b.parts++
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	s.queue = append(s.queue, mine)
	s.mu.Unlock()
	end := time.NewTimer(time.Until(deadline))
	defer end.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		err := errBusy
		select {
		case <-mine:
			return nil
		case <-next.C:
			next.Reset(s.drop(mine))
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-end.C:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.queue, mine)
		if i < 0 {
			return nil // it came at the same moment
		}
		s.queue = slices.Delete(s.queue, i, i+1)
		b.parts--
		return err
	}
}

// drop frees the memory of the slowest body for the first in the queue, if that is mine.
// It returns after what time to call it again.
func (s *bodies) drop(mine chan struct{}) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.queue[0] != mine {
		return s.slow
	}
	var slowest *body
	for b := range s.reading {
		if b.parts > 0 && (slowest == nil || b.since.Before(slowest.since)) {
			slowest = b
		}
	}
	if slowest == nil {
		return s.slow
	}
	if left := s.slow - time.Since(slowest.since); left > 0 {
		return left
	}
	slowest.dropped, slowest.data = true, nil
	delete(s.reading, slowest)
	slowest.interrupt()
	s.release(slowest)
	return s.slow
}

// release frees the memory of a body, first for those that wait. The caller holds s.mu.
func (s *bodies) release(b *body) {
	s.free += b.parts
	b.parts = 0
	for s.free > 0 && len(s.queue) > 0 {
		close(s.queue[0])
		s.queue = s.queue[1:]
		s.free--
	}
}

// leave frees the memory of a body. Nothing uses it any more.
func (b *body) leave() {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.release(b)
}
