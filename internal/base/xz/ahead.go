package xz

import (
	"bufio"
	"errors"
	"io"
	"sync/atomic"
)

// maxAhead is the largest block that is begun ahead.
const maxAhead = 32 << 20

// errResets means that a block begins anew within itself, so that it cannot be decompressed
// ahead.
var errResets = errors.New("xz: a block with several beginnings")

// ahead is a block that is decompressed before it is wanted, into memory for all of it. Only
// as much is decompressed as there is time for, or is read later. One goroutine at a time does it:
// a helper until it has ended, else the reader.
type ahead struct {
	i    int
	room []byte
	d    lzma
	in   *bufio.Reader
	z    *reader      // nil before the first step
	have atomic.Int64 // decompressed bytes, which do not change any more
	most atomic.Int64 // bytes to decompress; all of them once it is the current block
	err  error        // why it has ended; io.EOF: it is whole

	helper chan struct{} // closed when the helper has ended; nil if there is none
	stop   atomic.Bool   // tells the helper to end
	news   chan struct{} // the helper has done a step
}

// begin returns a block that is not yet decompressed; nil if it cannot be held.
func (b *Blocks) begin(i int) *ahead {
	if i >= len(b.list) || b.list[i].plain > maxAhead || b.list[i].plain == 0 {
		return nil
	}
	var a *ahead
	if n := len(b.free) - 1; n >= 0 {
		a, b.free = b.free[n], b.free[:n]
	} else {
		a = &ahead{in: bufio.NewReaderSize(nil, 32<<10), news: make(chan struct{}, 1)}
	}
	need := int(b.list[i].plain)
	if len(a.room) < need {
		if a.room != nil {
			freeRoom(a.room)
		}
		if a.room = newRoom(need); a.room == nil {
			return nil
		}
	}
	a.i, a.z, a.err, a.helper = i, nil, nil, nil
	a.have.Store(0)
	a.most.Store(b.list[i].plain)
	if b.used < 1000 {
		a.most.Store(b.list[i].plain * b.used / 1024) // about what is wanted of it
	}
	a.stop.Store(false)
	a.d.flat, a.d.buf = true, a.room[:need:need]
	a.d.pos, a.d.wrapped = 0, false
	return a
}

// start lets another goroutine decompress a block, if one may.
func (b *Blocks) start(i int) {
	if b.spare == nil {
		return
	}
	select {
	case <-b.spare:
	default:
		return
	}
	a := b.begin(i)
	if a == nil {
		b.spare <- struct{}{}
		return
	}
	a.helper = make(chan struct{})
	b.next = a
	go func(helper chan struct{}) {
		for a.wants() && !a.stop.Load() {
			b.step(a)
			select {
			case a.news <- struct{}{}:
			default:
			}
		}
		b.spare <- struct{}{} // whoever waits for the end may take it at once
		close(helper)
	}(a.helper)
}

// step decompresses a part.
func (b *Blocks) step(a *ahead) {
	if a.z == nil {
		a.z, a.err = b.block(a.i, &a.d, a.in)
		return
	}
	a.err = a.z.step()
	if a.err == io.EOF && a.d.pos < len(a.d.buf) {
		a.err = errDamaged
	}
	a.have.Store(int64(a.d.pos))
}

// wants reports whether more is to be decompressed. At the end of the current block its
// checksum is.
func (a *ahead) wants() bool {
	most := a.most.Load()
	return a.err == nil && (a.have.Load() < most || most == int64(len(a.d.buf)))
}

// readAhead reads from the current block, which was begun ahead.
func (b *Blocks) readAhead(p []byte) (int, error) {
	a, off := b.own, b.pos-b.list[b.cur].from
	if err := b.wait(a, off+1); err != nil {
		return 0, err
	}
	return copy(p, a.room[off:a.have.Load()]), nil
}

// wait returns when a block that was begun ahead has n bytes, or the reason why it has not so
// many: io.EOF if it is whole. While a helper decompresses it, the reader decompresses the next
// block.
func (b *Blocks) wait(a *ahead, n int64) error {
	for a.have.Load() < n {
		if a.helper == nil {
			if a.err != nil {
				return a.err
			}
			b.step(a)
			continue
		}
		select {
		case <-a.helper:
			a.helper = nil
			continue
		default:
		}
		if b.next == nil {
			b.next = b.begin(a.i + 1)
		}
		if next := b.next; next != nil && next.helper == nil && next.wants() {
			b.step(next)
			continue
		}
		select {
		case <-a.news:
		case <-a.helper:
		}
	}
	return nil
}

// drop ends what was begun ahead; a may be nil.
func (b *Blocks) drop(a *ahead) {
	if a == nil {
		return
	}
	if a.helper != nil {
		a.stop.Store(true)
		<-a.helper // soon: it looks after each part
	}
	select {
	case <-a.news:
	default:
	}
	b.free = append(b.free, a)
}
