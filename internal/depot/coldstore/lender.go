package coldstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	direct   = 8                // decoders of ranges at the same time: each takes up to 32 MiB
	slotWait = 20 * time.Second // for a decoder
)

// errNoSlot means that all decoders have been busy for slotWait.
var errNoSlot = fmt.Errorf("too many cold contents are being restored: %w", blob.ErrUnavailable)

// lender limits the decoders. An open file keeps its decoder between two reads until
// another one needs it, so that slow readers do not keep others waiting.
type lender struct {
	mu    sync.Mutex
	taken int             // guarded by mu; decoders in use or kept
	kept  []*file         // guarded by mu; with a decoder that no read uses, the longest unused first
	queue []chan struct{} // guarded by mu; of those that wait, closed when it is their turn
}

func newLender() *lender { return &lender{} }

// enter takes a place for a decoder, which leave gives back.
func (l *lender) enter(ctx context.Context) error {
	l.mu.Lock()
	if l.tryLocked() {
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.queue = append(l.queue, turn)
	l.mu.Unlock()
	t := time.NewTimer(slotWait)
	defer t.Stop()
	err := errNoSlot
	select {
	case <-turn:
		return nil
	case <-t.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, turn); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		return err
	}
	return nil // its turn came at the same moment
}

// try is enter without waiting.
func (l *lender) try() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tryLocked()
}

func (l *lender) tryLocked() bool {
	if l.taken < direct {
		l.taken++
		return true
	}
	if len(l.kept) == 0 {
		return false
	}
	f := l.kept[0]
	l.kept = l.kept[1:]
	f.drop()
	return true
}

// leave gives a place back.
func (l *lender) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked()
}

func (l *lender) leaveLocked() {
	if len(l.queue) == 0 {
		l.taken--
		return
	}
	close(l.queue[0])
	l.queue = l.queue[1:]
}

// use counts one more read by the decoder of a file, and reports whether it has one.
func (l *lender) use(f *file) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.parts == nil {
		return false
	}
	if f.uses == 0 {
		l.kept = slices.DeleteFunc(l.kept, func(k *file) bool { return k == f })
	}
	f.uses++
	return true
}

// done ends a read. The decoder is kept if nobody waits for one and its file is open.
func (l *lender) done(f *file) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.uses--; f.uses > 0 {
		return
	}
	if !f.over && len(l.queue) == 0 {
		l.kept = append(l.kept, f)
		return
	}
	f.drop()
	l.leaveLocked()
}

// give lets a file have a decoder, for which enter or try has returned a place. The
// caller uses it until done.
func (l *lender) give(f *file, p parts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.parts, f.uses = p, 1
}

// end closes the decoder of a file that is being closed: now, or when the last read ends.
func (l *lender) end(f *file) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.over = true
	if f.parts == nil || f.uses > 0 {
		return
	}
	l.kept = slices.DeleteFunc(l.kept, func(k *file) bool { return k == f })
	f.drop()
	l.leaveLocked()
}
