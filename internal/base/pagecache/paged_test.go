package pagecache

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

type memory struct{ *bytes.Reader }

func (m memory) Size() int64 { return m.Reader.Size() }

type whole struct {
	memory
	b []byte
}

func (w whole) Bytes() []byte { return w.b }

func TestAt(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 5*pageSize+77)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	plain := memory{bytes.NewReader(b)}
	for name, r := range map[string]*Reader{"paged": New(plain, 2), "short pages": NewSize(plain, 3, 100), "whole": New(whole{plain, b}, 2)} {
		for range 2000 {
			off, n := rng.IntN(len(b)+100), rng.IntN(6*pageSize)
			if rng.IntN(2) == 0 {
				n = rng.IntN(64)
			}
			want := b[min(off, len(b)):min(off+n, len(b))]
			if got := r.At(uint64(off), n); !bytes.Equal(got, want) {
				t.Fatalf("%s: At(%d, %d) has %d bytes, want the %d bytes of the content", name, off, n, len(got), len(want))
			}
		}
		if got := r.At(1<<63, 8); len(got) != 0 {
			t.Errorf("%s: At beyond the end has %d bytes, want none", name, len(got))
		}
	}
}

func TestCString(t *testing.T) {
	t.Parallel()
	b := bytes.Repeat([]byte("x"), pageSize+10)
	copy(b[pageSize-3:], "abcdef\x00")
	r := New(memory{bytes.NewReader(b)}, 1)
	if got := r.CString(pageSize-3, 100); string(got) != "abcdef" {
		t.Errorf("a string across two pages is %q, want %q", got, "abcdef")
	}
	if got := r.CString(0, 100); got != nil {
		t.Errorf("a string without an end within the limit is %q, want nil", got)
	}
	if got := r.CString(0, pageSize*2); len(got) != pageSize+3 {
		t.Errorf("a long string has %d bytes, want %d", len(got), pageSize+3)
	}
	if got := r.CString(pageSize+5, 100); got != nil {
		t.Errorf("a string without an end is %q, want nil", got)
	}
}

type broken struct{ n int64 }

func (b broken) Size() int64 { return b.n }

func (b broken) ReadAt(p []byte, off int64) (int, error) { return 0, io.EOF }

func TestSourceError(t *testing.T) {
	t.Parallel()
	r := New(broken{100}, 1)
	if got := r.At(5, 5); len(got) != 0 {
		t.Errorf("At of a source that shrank has %d bytes, want none", len(got))
	}
	if !errors.Is(r.Err(), io.ErrUnexpectedEOF) {
		t.Errorf("Err is %v, want io.ErrUnexpectedEOF", r.Err())
	}
	var none *Reader
	if none.Size() != 0 || none.At(0, 1) != nil || none.Err() != nil {
		t.Error("a nil Reader has content")
	}
}

// counted counts reads.
type counted struct {
	*bytes.Reader
	reads int
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	return c.Reader.ReadAt(p, off)
}

// TestPlaces: pages that are used by turns stay, although they have the same places; the one that was
// not used for the longest time goes.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const each, pages = 64, 2 * setSize
	c := &counted{Reader: bytes.NewReader(make([]byte, 100*each))}
	r := NewSize(c, pages, each)
	for range 50 {
		for k := range uint64(setSize) {
			r.At(2*k*each, 1) // all in one set
		}
	}
	if c.reads != setSize {
		t.Errorf("%d reads of %d pages by turns, want one of each", c.reads, setSize)
	}
	r.At(0, 1)              // used again
	r.At(2*setSize*each, 1) // takes the place of page 2
	if r.At(0, 1); c.reads != setSize+1 {
		t.Errorf("%d reads, want %d: the page used last stays", c.reads, setSize+1)
	}
	if r.At(2*each, 1); c.reads != setSize+2 {
		t.Errorf("%d reads, want %d: the oldest page has gone", c.reads, setSize+2)
	}
}
