package scan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// makeFrames compresses each part as a frame: with a table at the end, or with skippable
// frames in front.
func makeFrames(t testing.TB, table bool, parts ...[]byte) (packed, plain []byte) {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	must(t, err)
	defer z.Close()
	le := binary.LittleEndian
	var entries []byte
	for _, p := range parts {
		f := z.EncodeAll(p, nil)
		if !table {
			packed = le.AppendUint32(packed, skippable)
			packed = le.AppendUint32(packed, 4)
			packed = le.AppendUint32(packed, uint32(len(f)))
		}
		packed = append(packed, f...)
		plain = append(plain, p...)
		entries = le.AppendUint32(le.AppendUint32(entries, uint32(len(f))), uint32(len(p)))
	}
	if table {
		packed = le.AppendUint32(packed, tableFrame)
		packed = le.AppendUint32(packed, uint32(len(entries)+9))
		packed = append(packed, entries...)
		packed = append(le.AppendUint32(packed, uint32(len(parts))), 0)
		packed = le.AppendUint32(packed, seekMagic)
	}
	return packed, plain
}

func someParts() (parts [][]byte) {
	r := rand.NewChaCha8([32]byte{})
	for i := range 10 {
		p := make([]byte, 10_000+i*777)
		_, _ = r.Read(p[:len(p)/2])
		parts = append(parts, p)
	}
	return parts
}

// TestFrames: zstd data in frames is read from anywhere, and equals what is read in order.
func TestFrames(t *testing.T) {
	t.Parallel()
	for _, table := range []bool{true, false} {
		packed, plain := makeFrames(t, table, someParts()...)
		open := func() *frames {
			f, err := newFrames(bytes.NewReader(packed), int64(len(packed)), 8<<20)
			must(t, err)
			return f
		}
		f := open()
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("table %v: %d bytes, %v, want %d", table, len(got), err, len(plain))
		}
		_ = f.Close()
		for _, hops := range [][]int{{0, 1, 9_000, 20_000, 30_000}, {len(plain) - 1}, {len(plain)}, {10_000, 10_777}} {
			f, pos := open(), 0
			for _, hop := range hops {
				must(t, f.Skip(int64(hop)))
				pos += hop
				p := make([]byte, min(50, len(plain)-pos))
				if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, plain[pos:pos+len(p)]) {
					t.Fatalf("table %v: reading at %d: %v, or other bytes", table, pos, err)
				}
				pos += len(p)
			}
			if err := f.Skip(int64(len(plain) - pos + 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("table %v: skipping beyond the end: %v, want %v", table, err, io.ErrUnexpectedEOF)
			}
			_ = f.Close()
		}
		if one, _ := makeFrames(t, table, []byte("one")); len(one) > 0 {
			if _, err := newFrames(bytes.NewReader(one), int64(len(one)), 8<<20); err == nil {
				t.Errorf("table %v: one frame is opened as several", table)
			}
		}
	}
}

// FuzzFrames: tables that lie give an error or bytes, never a panic.
func FuzzFrames(f *testing.F) {
	for _, table := range []bool{true, false} {
		packed, _ := makeFrames(f, table, []byte("first"), []byte("second"), make([]byte, 1000))
		f.Add(packed, uint16(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, skip uint16) {
		r, err := newFrames(bytes.NewReader(data), int64(len(data)), 1<<20)
		if err != nil {
			return
		}
		defer r.Close()
		if r.size > 1<<20 || r.Skip(int64(skip)) != nil {
			return
		}
		if got, err := io.ReadAll(r); err == nil && int64(skip)+int64(len(got)) != r.size {
			t.Fatalf("%d bytes behind %d, want %d in all", len(got), skip, r.size)
		}
	})
}

// TestOpenPlace: the place of a member leads to its bytes, whatever is in front of it.
func TestOpenPlace(t *testing.T) {
	t.Parallel()
	parts := someParts()
	framed, plain := makeFrames(t, true, parts...)
	for _, c := range []struct {
		name   string
		file   []byte
		method Method
		plain  []byte
	}{
		{"stored", plain, Stored, plain},
		{"gzip", []byte(gz(t, string(plain))), Gzip, plain},
		{"zlib", []byte(zl(t, string(plain))), Zlib, plain},
		{"zstd", []byte(zst(t, string(plain))), Zstd, plain},
		{"zstd in frames", framed, Zstd, plain},
		{"xz", []byte(fixture(t, "hello.txt.xz")), XZ, []byte("hello, symbols\n")},
		{"bzip2", []byte(fixture(t, "hello.txt.bz2")), Bzip2, []byte("hello, symbols\n")},
	} {
		file := append(append([]byte("front"), c.file...), "back"...)
		for _, off := range []int{0, 5, len(c.plain) - 1} {
			p := Place{Method: c.method, Base: 5, Packed: int64(len(c.file)), Offset: int64(off)}
			if c.method == Stored {
				p.Base, p.Packed, p.Offset = p.Base+int64(off), p.Packed-int64(off), 0
			}
			r, err := OpenPlace(t.Context(), bytes.NewReader(file), int64(len(file)), p, Options{})
			must(t, err)
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, c.plain[off:]) {
				t.Errorf("%s at %d: %d bytes, %v, want %d", c.name, off, len(got), err, len(c.plain)-off)
			}
			_ = r.Close()
		}
		p := Place{Method: c.method, Base: 5, Packed: int64(len(c.file)), Offset: int64(len(c.plain) + 1)}
		if c.method == Stored {
			p.Packed += 100
		}
		if _, err := OpenPlace(t.Context(), bytes.NewReader(file), int64(len(file)), p, Options{}); err == nil {
			t.Errorf("%s: a place beyond the end is opened", c.name)
		}
	}
	if _, err := OpenPlace(t.Context(), bytes.NewReader(nil), 0, Place{}, Options{}); !errors.Is(err, errUnsupported) {
		t.Errorf("an unknown place: %v, want %v", err, errUnsupported)
	}
}

// TestOpenPlaceCanceled: a caller that has left ends the reading, whatever the method.
func TestOpenPlaceCanceled(t *testing.T) {
	t.Parallel()
	var deflated bytes.Buffer
	z, err := flate.NewWriter(&deflated, 1)
	must(t, err)
	_, err = z.Write(make([]byte, 1<<20))
	must(t, err)
	must(t, z.Close())
	for method, file := range map[Method][]byte{Deflate: deflated.Bytes(), Gzip: []byte(gz(t, strings.Repeat("x", 1<<20)))} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := OpenPlace(ctx, bytes.NewReader(file), int64(len(file)), Place{Method: method, Packed: int64(len(file))}, Options{})
		must(t, err)
		cancel()
		if n, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
			t.Errorf("method %d: %d bytes, %v, want %v", method, n, err, context.Canceled)
		}
		_ = r.Close()
	}
}
