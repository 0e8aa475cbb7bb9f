package unwind

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// Sizes of the entries of exception tables.
const (
	entry64    = 12
	entryArm64 = 8
)

// table reads the entries of an exception table one after another. Entries of
// zeros are omitted.
type table struct {
	b    sink
	r    io.ReaderAt
	work *work
	size int   // of an entry
	from int64 // address of the entries to read next
	end  int64
	buf  []byte
	rest []byte // of buf
	e    []byte // the entry
	err  error
}

// openTable returns the exception table of an image. An image without one has a
// table without entries.
func openTable(ctx context.Context, img Image, b sink, size int) (*table, error) {
	rva, n := img.ExceptionTable()
	t := &table{b: b, r: img, work: newWork(ctx, int64(n)), size: size, from: int64(rva), end: int64(rva) + int64(n)}
	return t, ctx.Err()
}

// uint32 returns a field of the entry.
func (t *table) uint32(at int) uint32 { return binary.LittleEndian.Uint32(t.e[at:]) }

// next reads the next entry. It returns false at the end and after an error.
func (t *table) next() bool {
	for t.err == nil {
		if len(t.rest) < t.size && !t.fill() {
			return false
		}
		t.e, t.rest = t.rest[:t.size], t.rest[t.size:]
		if t.err = t.work.spend(0); t.err != nil {
			return false
		}
		for _, c := range t.e {
			if c != 0 {
				return true
			}
		}
	}
	return false
}

// fill reads more entries. Images whose sections were stripped have the directory
// without its bytes; that is not an error.
func (t *table) fill() bool {
	const chunk = 48 << 10 // a multiple of all sizes of entries
	n := min(t.end-t.from, chunk)
	n -= n % int64(t.size)
	if n <= 0 {
		return false
	}
	if t.buf == nil {
		t.buf = make([]byte, chunk)
	}
	got, err := t.r.ReadAt(t.buf[:n], t.from)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
		return false
	}
	if int64(got) < n {
		t.end = t.from + int64(got)
		if got > 0 {
			t.b.Warn("the exception table ends at %#x: the file does not store the rest", t.end)
		}
	}
	got -= got % t.size
	t.from += int64(got)
	t.rest = t.buf[:got]
	return got > 0
}

// close returns the error of reading the table, or err, which ended the loop over
// its entries. Too much work is a warning.
func (t *table) close(err error) error {
	if err == nil {
		err = t.err
	}
	if errors.Is(err, errWork) {
		t.b.Warn("unwind data: %v; the rest is omitted", err)
		return nil
	}
	return err
}
