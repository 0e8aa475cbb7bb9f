// Package body limits the memory of request bodies that are read whole.
package body

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

// Part is the step, in bytes, in which the memory of bodies is counted.
const Part = 64 << 10

var (
	// ErrBusy is the error for a body for which no memory is left, and for one that gives
	// way to others.
	ErrBusy = errors.New("too many bytes of request bodies are in memory; try again in a few seconds")
	// ErrShare is likewise the error for a body whose client has all the memory that one
	// client may have.
	ErrShare = errors.New("too many bytes of this client's request bodies are in memory; wait until its other requests are answered")
	// ErrLong is the error for a body that is longer than its limit.
	ErrLong = errors.New("the body is too long")
)

// Lacks reports whether an error means that there was no memory.
func Lacks(err error) bool { return errors.Is(err, ErrBusy) || errors.Is(err, ErrShare) }

// Memory is the memory of request bodies. A body takes memory as its bytes arrive, and
// one client never has more than its share. When no memory or no share is left, the request
// of the slowest client, or the slowest request of the client, loses its memory, if its
// current part takes longer than Slow.
type Memory struct {
	limits Limits

	mu      sync.Mutex
	used    int                   // guarded by mu; parts
	clients map[string]int        // guarded by mu; parts by client
	reading map[*Account]struct{} // guarded by mu; those that wait for bytes of their clients
	queue   []*waiter             // guarded by mu; those that wait for a part
}

// Limits are those of a Memory.
type Limits struct {
	// Total and Client are how many bytes all bodies and those of one client have at once.
	// They are multiples of Part, and a body may be as long as Client.
	Total, Client int64
	// Slow is how long the next Part of a body may take while others wait for memory.
	Slow time.Duration
	// Wait is how long the bodies of one request may wait for memory in all.
	Wait time.Duration
}

// NewMemory returns a memory of which nothing is used.
func NewMemory(l Limits) *Memory {
	return &Memory{limits: l, clients: map[string]int{}, reading: map[*Account]struct{}{}}
}

// Used returns how many bytes are counted.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(m.used) * Part
}

// Account is what one request has of a Memory. Its methods may not be called at the same
// time. A nil Account reads without limits of memory.
type Account struct {
	of        *Memory
	client    string
	interrupt func()
	left      time.Duration // of Limits.Wait
	bytes     int           // that Read has returned, or is about to

	// The following are guarded by of.mu.
	parts int
	since time.Time // when the account began to wait for its current part
	lost  error     // why it has no memory any more
}

// Open returns the account of a request, which has nothing yet. client is the name under
// which shares are counted; empty: the client has no share of its own. interrupt, which may
// be called at any time before Free, ends a Read of the request's body. The caller calls
// Free.
func (m *Memory) Open(client string, interrupt func()) *Account {
	return &Account{of: m, client: client, interrupt: interrupt, left: m.limits.Wait}
}

// waiter is an account that waits for one part more.
type waiter struct {
	of  *Account
	end chan error // has one place: nil when the part is there
}

// scratches hold bytes that have no memory of their own yet.
var scratches = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// Read reads at most limit bytes. The error is ErrLong, ErrBusy, ErrShare, that of ctx, or
// one of reading. What it returns counts until Free.
func (a *Account) Read(ctx context.Context, from io.Reader, limit int64) ([]byte, error) {
	if a == nil {
		return readAll(from, limit)
	}
	scratch := scratches.Get().(*[4 << 10]byte)
	defer scratches.Put(scratch)
	r := a.Counted(ctx, from).(*counted)
	r.left = limit
	var data []byte
	for {
		n, err := r.Read(scratch[:])
		data = append(data, scratch[:n]...)
		switch {
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		}
	}
}

// Counted returns a reader whose user keeps the bytes: they count until Free. The errors are
// those of Read.
func (a *Account) Counted(ctx context.Context, from io.Reader) io.Reader {
	if a == nil {
		return from
	}
	a.setSince(time.Now())
	return &counted{of: a, ctx: ctx, from: from, left: math.MaxInt64}
}

// counted counts the bytes of a reader.
type counted struct {
	of   *Account
	ctx  context.Context
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (r *counted) Read(p []byte) (int, error) {
	n, err := r.of.next(r.from, p[:min(len(p), Part)])
	if r.left -= int64(n); r.left < 0 {
		return 0, ErrLong
	}
	if lack := r.of.grow(r.ctx, n); lack != nil {
		return 0, lack
	}
	return n, err
}

func readAll(from io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, ErrLong
	}
	return data, nil
}

func (a *Account) setSince(t time.Time) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.since = t
}

// next reads what the client has sent. The account may lose its memory meanwhile.
func (a *Account) next(from io.Reader, p []byte) (int, error) {
	m := a.of
	m.mu.Lock()
	m.reading[a] = struct{}{}
	m.mu.Unlock()
	n, err := from.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reading, a)
	if a.lost != nil {
		return 0, a.lost
	}
	return n, err
}

// grow takes memory for n bytes more, which are at most Part.
func (a *Account) grow(ctx context.Context, n int) error {
	m := a.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.lost != nil {
		return a.lost
	}
	a.bytes += n
	if a.parts*Part >= a.bytes {
		return nil
	}
	if m.fits(a) {
		m.take(a)
		a.since = time.Now()
		return nil
	}
	a.since = time.Now()
	w := &waiter{of: a, end: make(chan error, 1)}
	m.queue = append(m.queue, w)
	m.mu.Unlock()
	err := m.wait(ctx, w)
	m.mu.Lock()
	a.left -= time.Since(a.since)
	a.since = time.Now()
	return err
}

// wait waits for a part.
func (m *Memory) wait(ctx context.Context, w *waiter) error {
	end := time.NewTimer(w.of.left)
	defer end.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		var err error
		select {
		case err := <-w.end:
			return err
		case <-next.C:
			next.Reset(m.drop(w))
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-end.C:
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.Index(m.queue, w)
		if i < 0 {
			return <-w.end // it came at the same moment
		}
		if m.queue = slices.Delete(m.queue, i, i+1); err == nil {
			err = m.lack(w.of)
		}
		return err
	}
}

// fits reports whether there is a part for an account. The caller holds m.mu.
func (m *Memory) fits(a *Account) bool {
	return int64(m.used)*Part < m.limits.Total && !m.full(a.client)
}

// full reports whether a client has its whole share. The caller holds m.mu.
func (m *Memory) full(client string) bool {
	return client != "" && int64(m.clients[client])*Part >= m.limits.Client
}

// lack is why there is no part for an account. The caller holds m.mu.
func (m *Memory) lack(a *Account) error {
	if m.full(a.client) {
		return ErrShare
	}
	return ErrBusy
}

// take gives a part to an account. The caller holds m.mu.
func (m *Memory) take(a *Account) {
	a.parts++
	m.used++
	m.clients[a.client]++
}

// rivals reports whether a and b wait for the same memory: one share, or what all have
// together. The caller holds m.mu.
func (m *Memory) rivals(a, b *Account) bool {
	if m.full(a.client) {
		return a.client == b.client
	}
	return !m.full(b.client)
}

// drop frees the memory of the slowest account for w, if w is the first that waits for the
// same memory. It returns after what time to call it again.
func (m *Memory) drop(w *waiter) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := slices.IndexFunc(m.queue, func(o *waiter) bool { return m.rivals(w.of, o.of) })
	if first < 0 || m.queue[first] != w {
		return m.limits.Slow
	}
	// Of a client that has its whole share, only its own requests give way.
	may := func(a *Account) bool { return a.parts > 0 && (!m.full(w.of.client) || a.client == w.of.client) }
	var slowest *Account
	for a := range m.reading {
		if may(a) && (slowest == nil || a.since.Before(slowest.since)) {
			slowest = a
		}
	}
	if slowest == nil { // all that have memory are being answered, or wait for each other
		for _, o := range slices.Backward(m.queue[first+1:]) {
			if may(o.of) {
				slowest = o.of
				break
			}
		}
	}
	if slowest == nil {
		return m.limits.Slow
	}
	if left := m.limits.Slow - time.Since(slowest.since); left > 0 {
		return left
	}
	m.lose(slowest, m.lack(w.of))
	return m.limits.Slow
}

// lose ends the reading of an account, or its waiting. The caller holds m.mu.
func (m *Memory) lose(a *Account, why error) {
	a.lost = why
	if _, ok := m.reading[a]; ok {
		delete(m.reading, a)
		a.interrupt()
	}
	if i := slices.IndexFunc(m.queue, func(w *waiter) bool { return w.of == a }); i >= 0 {
		m.queue[i].end <- why
		m.queue = slices.Delete(m.queue, i, i+1)
	}
	m.release(a)
}

// release frees the memory of an account, for the first of those that wait and may have it.
// The caller holds m.mu.
func (m *Memory) release(a *Account) {
	m.used -= a.parts
	if m.clients[a.client] -= a.parts; m.clients[a.client] <= 0 {
		delete(m.clients, a.client)
	}
	a.parts = 0
	m.queue = slices.DeleteFunc(m.queue, func(w *waiter) bool {
		ok := m.fits(w.of)
		if ok {
			m.take(w.of)
			w.end <- nil
		}
		return ok
	})
}

// Free frees the memory of an account. Nothing uses any more what it has read.
func (a *Account) Free() {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.release(a)
	a.bytes = 0
}
