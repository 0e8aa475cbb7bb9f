package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// Damage replaces the stored bytes of a blob without the store's knowledge. If
// unreadable is set, reading the file fails instead.
type Damage func(t testing.TB, ref blob.Ref, stored []byte, unreadable bool)

// damages are the kinds of damage on a disk.
var damages = []struct {
	name       string
	change     func(content []byte) []byte
	unreadable bool
}{
	{"flipped in the middle", func(b []byte) []byte { b = slices.Clone(b); b[len(b)/2] ^= 1; return b }, false},
	{"flipped at the end", func(b []byte) []byte { b = slices.Clone(b); b[len(b)-1] ^= 0x80; return b }, false},
	{"cut", func(b []byte) []byte { return slices.Clone(b[:len(b)-1]) }, false},
	{"grown", func(b []byte) []byte { return append(slices.Clone(b), 0) }, false},
	{"empty", func([]byte) []byte { return nil }, false},
	{"swapped", func(b []byte) []byte { return Content(99, len(b)) }, false},
	{"unreadable", func(b []byte) []byte { return b }, true},
}

// RunDamage tests a store's behaviour with damaged blobs against the contract of
// [blob.Store]. open returns an empty store.
func RunDamage(t *testing.T, open func(t *testing.T) (blob.Store, Damage)) {
	runDamage(t, []int{1, 1000, blob.HashedAtOpen, blob.HashedAtOpen + 1}, nil, open)
}

// runDamage runs the named kinds of damage, or all if names is nil.
func runDamage(t *testing.T, sizes []int, names []string, open func(t *testing.T) (blob.Store, Damage)) {
	for _, size := range sizes {
		for _, d := range damages {
			if names != nil && !slices.Contains(names, d.name) {
				continue
			}
			content := Content(1, size)
			stored := d.change(content)
			t.Run(d.name+" "+label(size), func(t *testing.T) {
				s, damage := open(t)
				ref := put(t, s, content)
				damage(t, ref, stored, d.unreadable)
				neverServed(t, s, ref, content)
				verifyFinds(t, s, ref, content)
				heals(t, s, ref, content)
				damage(t, ref, stored, d.unreadable)
				healsInBatch(t, s, ref, content)
			})
		}
	}
}

func label(size int) string {
	switch {
	case size > blob.HashedAtOpen:
		return "large"
	case size == blob.HashedAtOpen:
		return "largest small"
	}
	return "small"
}

// neverServed fails the test if more of a damaged blob can be read than is
// permitted before its hash has been checked.
func neverServed(t *testing.T, s blob.Store, ref blob.Ref, content []byte) {
	t.Helper()
	f, err := s.Open(t.Context(), ref)
	if err != nil {
		damaged(t, "open", err)
		return
	}
	defer func() { _ = f.Close() }()
	if f.Size() <= blob.HashedAtOpen {
		t.Errorf("open of %d damaged bytes: no error, want ErrDamaged", len(content))
	}
	if _, ok := f.(interface{ File() *os.File }); ok {
		t.Error("File of an unchecked blob returns the system's file")
	}
	if f.Size() != int64(len(content)) {
		return // callers that know the size reject it
	}
	for name, read := range map[string]func() (int, error){
		"Read":                     func() (int, error) { n, err := io.Copy(io.Discard, f); return int(n), err },
		"ReadAt":                   func() (int, error) { return readAll(f, 64<<10) },
		"one by one, in odd steps": func() (int, error) { return readAll(f, 100_003) },
	} {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		n, err := read()
		if n > len(content)-blob.Withheld {
			t.Errorf("%s: %d of %d damaged bytes were returned, want at most %d", name, n, len(content), len(content)-blob.Withheld)
		}
		damaged(t, name, err)
	}
	if !s.Suspect(ref) {
		t.Error("Suspect is false for a blob that was found damaged")
	}
	if _, err := s.Open(t.Context(), ref); err == nil {
		t.Error("Open succeeds for a blob that was found damaged")
	}
}

// readAll reads a file in order and returns the number of bytes read.
func readAll(f blob.File, step int) (n int, err error) {
	buf := make([]byte, step)
	for {
		m, err := f.ReadAt(buf, int64(n))
		n += m
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func damaged(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, blob.ErrDamaged) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s of a damaged blob: error %v, want ErrDamaged, which is fs.ErrNotExist", what, err)
	}
}

func verifyFinds(t *testing.T, s blob.Store, ref blob.Ref, content []byte) {
	t.Helper()
	damaged(t, "verify", s.Verify(t.Context(), ref, int64(len(content)), nil))
	if !s.Suspect(ref) {
		t.Error("Suspect is false after Verify found damage")
	}
}

// heals puts the content again and expects an intact blob.
func heals(t *testing.T, s blob.Store, ref blob.Ref, content []byte) {
	t.Helper()
	put(t, s, content)
	holds(t, s, content)
	if s.Suspect(ref) {
		t.Error("Suspect is true after the content was put again")
	}
	if err := s.Verify(t.Context(), ref, int64(len(content)), nil); err != nil {
		t.Errorf("verify after the content was put again: %v", err)
	}
}

// healsInBatch puts the content again in a batch and expects an intact blob.
func healsInBatch(t *testing.T, s blob.Store, ref blob.Ref, content []byte) {
	t.Helper()
	batcher, ok := s.(blob.Batcher)
	if !ok {
		return
	}
	b, err := batcher.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.Known(t.Context(), ref) {
		t.Error("Known is true for a damaged blob")
	}
	if _, _, err := b.Put(t.Context(), int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatalf("put of %d bytes: %v", len(content), err)
	}
	if err := b.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
	holds(t, s, content)
}

// RunVerified tests a store's behaviour with intact blobs: every read returns
// all bytes, also the first one, which hashes them.
func RunVerified(t *testing.T, open func(t *testing.T) blob.Store) {
	for _, size := range []int{0, 1, blob.HashedAtOpen, blob.HashedAtOpen + 1, blob.HashedAtOpen + 3*blob.Withheld/2} {
		t.Run(label(size), func(t *testing.T) {
			s := open(t)
			content := Content(1, size)
			ref := put(t, s, content)
			for range 2 {
				for _, step := range []int{1 << 16, 100_003, size + 10} {
					f, err := s.Open(context.Background(), ref)
					if err != nil {
						t.Fatal(err)
					}
					got := make([]byte, 0, size)
					buf := make([]byte, step)
					for {
						n, err := f.ReadAt(buf, int64(len(got)))
						got = append(got, buf[:n]...)
						if err == io.EOF {
							break
						}
						if err != nil {
							t.Fatalf("read at %d of %d, %d at a time: %v", len(got), size, step, err)
						}
					}
					if !bytes.Equal(got, content) {
						t.Errorf("read %d bytes of %d, %d at a time; they differ from those put", len(got), size, step)
					}
					holds(t, s, content)
					if err := f.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// RunDamageShort is RunDamage with a small and a large blob and two kinds of
// damage.
func RunDamageShort(t *testing.T, open func(t *testing.T) (blob.Store, Damage)) {
	runDamage(t, []int{1000, blob.HashedAtOpen + 1}, []string{"flipped at the end", "unreadable"}, open)
}
