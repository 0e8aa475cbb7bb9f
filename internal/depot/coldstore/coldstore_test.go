package coldstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/cold"
)

// records are records of cold contents in memory.
type records struct {
	mu   sync.Mutex
	rows map[blob.Ref]record.Cold // guarded by mu
}

func (r *records) Of(_ context.Context, ref blob.Ref) (record.Cold, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row, ok := r.rows[ref]; ok {
		return row, nil
	}
	return record.Cold{}, fs.ErrNotExist
}

func (r *records) set(row record.Cold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[row.Ref] = row
}

// world is a store with the records that tests make.
type world struct {
	*Store
	t    *testing.T
	disk *blob.Disk
	rec  *records
}

func newWorld(t *testing.T, near int64) *world {
	t.Helper()
	disk, err := blob.OpenDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rec := &records{rows: map[blob.Ref]record.Cold{}}
	s := New(disk, StoreOptions{Records: rec, Dir: t.TempDir(), NearBytes: near, Now: time.Now})
	t.Cleanup(func() { _ = s.Close() })
	return &world{s, t, disk, rec}
}

// text makes n bytes that compress, and differ in some places for each build.
func text(n, build int) []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rng.IntN(16))
	}
	for k := range 50 * build {
		b[(k*7919+build*104729)%n] ^= 1
	}
	return b
}

// chill stores a content as a cold file only: a delta to base, or a key if base is nil.
func (w *world) chill(body, base []byte) blob.Ref {
	w.t.Helper()
	src := cold.Source{ReaderAt: bytes.NewReader(body), Size: int64(len(body)), Sum: sha256.Sum256(body)}
	var out bytes.Buffer
	var err error
	row := record.Cold{Content: record.Content{Ref: src.Sum, Size: src.Size}, Made: time.Now()}
	if base == nil {
		_, err = cold.EncodeKey(w.t.Context(), &out, src, nil)
	} else {
		from := cold.Source{ReaderAt: bytes.NewReader(base), Size: int64(len(base)), Sum: sha256.Sum256(base)}
		row.Base = &record.Content{Ref: from.Sum, Size: from.Size}
		_, err = cold.EncodeDelta(w.t.Context(), &out, src, from, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	row.File = record.Content{Ref: blob.Sum(out.Bytes()), Size: int64(out.Len())}
	if err := w.disk.Put(w.t.Context(), row.File.Ref, row.File.Size, bytes.NewReader(out.Bytes())); err != nil {
		w.t.Fatal(err)
	}
	w.rec.set(row)
	return row.Ref
}

// TestReaders has many readers read one content in pieces, from its start and from
// anywhere, with a near cache that holds it and with one that is too small.
func TestReaders(t *testing.T) {
	for name, near := range map[string]int64{"near": 1 << 30, "full": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, near)
			old, body := text(5<<20, 0), text(5<<20+333, 3)
			w.chill(old, nil)
			ref := w.chill(body, old)
			var wg sync.WaitGroup
			for n := range direct {
				wg.Go(func() {
					f, err := w.Open(t.Context(), ref)
					if err != nil {
						t.Errorf("open: %v", err)
						return
					}
					defer f.Close()
					if n%2 == 0 {
						got, err := io.ReadAll(f)
						if err != nil || !bytes.Equal(got, body) {
							t.Errorf("whole: %d bytes, %v, want the %d of the content", len(got), err, len(body))
						}
						return
					}
					rng := rand.New(rand.NewPCG(uint64(n), 3))
					for range 12 {
						at := rng.IntN(len(body))
						p := make([]byte, min(1+rng.IntN(200_000), len(body)-at))
						if k, err := f.ReadAt(p, int64(at)); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(p[:k], body[at:at+k]) || k < len(p) {
							t.Errorf("range of %d at %d: %d, %v", len(p), at, k, err)
							return
						}
					}
				})
			}
			wg.Wait()
			if near < 8<<20 || t.Failed() {
				return
			}
			f, err := w.OpenWhole(t.Context(), ref)
			if err != nil || blob.OSFile(f) == nil {
				t.Fatalf("the restored content: %v, want a file that the system can send", err)
			}
			_ = f.Close()
		})
	}
}

// TestForms: a content, and its base, change between plain and cold while they are read.
func TestForms(t *testing.T) {
	w := newWorld(t, 1<<20)
	old, body := text(5<<20, 0), text(5<<20, 2)
	key := w.chill(old, nil)
	ref := w.chill(body, old)
	read := func(when string) {
		t.Helper()
		f, err := w.Open(t.Context(), ref)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer f.Close()
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, %v, want %d", when, len(got), err, len(body))
		}
	}
	read("delta and key")
	if err := w.disk.Put(t.Context(), key, int64(len(old)), bytes.NewReader(old)); err != nil {
		t.Fatal(err)
	}
	row := w.rec.rows[key]
	delete(w.rec.rows, key)
	if err := w.disk.Delete(t.Context(), row.File.Ref); err != nil {
		t.Fatal(err)
	}
	read("delta and plain base")
	if err := w.disk.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if f, err := w.Open(t.Context(), ref); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("without a base: %v, %v, want ErrDamaged", f, err)
	}
}

// TestLost: a content that cannot be restored is suspect until its bytes are stored
// again, and a batch that gets them stores them.
func TestLost(t *testing.T) {
	w := newWorld(t, 1<<30)
	body := text(600<<10, 1)
	ref := w.chill(body, nil)
	known := func() (bool, bool) {
		b, err := w.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Abort()
		return b.Has(t.Context(), ref), b.Known(t.Context(), ref)
	}
	if has, knows := known(); !has || !knows {
		t.Errorf("a cold content: has %v, known %v, want both", has, knows)
	}
	if err := w.Put(t.Context(), ref, int64(len(body)), bytes.NewReader(nil)); err != nil {
		t.Errorf("a cold content is put again: %v, want that nothing is read", err)
	}
	path := w.disk.Path(w.rec.rows[ref].File.Ref)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := w.Open(t.Context(), ref); !errors.Is(err, blob.ErrDamaged) {
		t.Fatalf("a damaged content: %v, %v, want ErrDamaged", f, err)
	}
	if has, knows := known(); has || knows || !w.Suspect(ref) {
		t.Errorf("a damaged content: has %v, known %v, suspect %v, want only suspect", has, knows, w.Suspect(ref))
	}
	if err := w.Put(t.Context(), ref, int64(len(body)), bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	if w.Suspect(ref) {
		t.Error("suspect after its bytes were stored again")
	}
	f, err := w.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(body))
	}
}

// TestOtherContent: a cold file that holds another content, or has another base than its
// record says, is damage.
func TestOtherContent(t *testing.T) {
	w := newWorld(t, 1<<30)
	one, two := text(300<<10, 1), text(300<<10, 2)
	a, b := w.chill(one, nil), w.chill(two, nil)
	row := w.rec.rows[a]
	row.File = w.rec.rows[b].File
	w.rec.set(row)
	if f, err := w.Open(t.Context(), a); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("the cold file of another content: %v, %v, want ErrDamaged", f, err)
	}
}

// TestFullDisk: a content is read although the disk of the near cache has no room.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full, on which every write fails as on a full disk")
	}
	dir := t.TempDir()
	w := newWorld(t, 1<<30)
	body := text(5<<20, 1)
	ref := w.chill(body, nil)
	w.near = unpackcache.New(unpackcache.Options{Dir: dir, Create: func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }})
	f, err := w.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(body))
	}
}

// TestPlainDamaged: a cold content is served although its plain bytes, which were stored
// too, were found damaged, and after they are gone.
func TestPlainDamaged(t *testing.T) {
	w := newWorld(t, 1<<30)
	body := text(300<<10, 1)
	ref := w.chill(body, nil)
	if err := w.disk.Put(t.Context(), ref, int64(len(body)), bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.disk.Path(ref), text(300<<10, 2), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(when string) {
		t.Helper()
		f, err := w.Open(t.Context(), ref)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer f.Close()
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, %v, want %d", when, len(got), err, len(body))
		}
		if w.Suspect(ref) {
			t.Errorf("%s: suspect, want not: it can be restored", when)
		}
	}
	read("damaged plain bytes")
	if err := w.disk.Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	read("deleted plain bytes")
	if err := w.disk.Delete(t.Context(), w.rec.rows[ref].File.Ref); err != nil {
		t.Fatal(err)
	}
	if !w.Suspect(ref) {
		t.Error("not suspect without a cold file, want suspect")
	}
}

// TestTooLargeForNear: a content that the near cache cannot hold does not push out those
// that it holds.
func TestTooLargeForNear(t *testing.T) {
	w := newWorld(t, 1<<20)
	small, large := text(300<<10, 1), text(5<<20, 1)
	for _, body := range [][]byte{small, large} {
		ref := w.chill(body, nil)
		f, err := w.Open(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes, %v, want %d", len(got), err, len(body))
		}
		_ = f.Close() // opened for reading
	}
	if !w.near.Has(blob.Sum(small).String()) {
		t.Error("the near cache does not hold the small content any more, want that it does")
	}
}

// late is a store that calls once before it says whether it has a content.
type late struct {
	*blob.Disk
	of   blob.Ref
	once sync.Once
	call func()
}

func (s *late) Stat(ctx context.Context, ref blob.Ref) (blob.Info, error) {
	info, err := s.Disk.Stat(ctx, ref)
	if ref == s.of {
		s.once.Do(s.call)
	}
	return info, err
}

// TestBaseBecomesPlain: a base that becomes plain after its plain bytes were looked for,
// and before its record was, is not missing.
func TestBaseBecomesPlain(t *testing.T) {
	w := newWorld(t, 1<<30)
	old, body := text(300<<10, 0), text(300<<10, 2)
	key := w.chill(old, nil)
	ref := w.chill(body, old)
	w.Backend = &late{Disk: w.disk, of: key, call: func() {
		if err := w.disk.Put(t.Context(), key, int64(len(old)), bytes.NewReader(old)); err != nil {
			t.Error(err)
		}
		w.rec.mu.Lock()
		defer w.rec.mu.Unlock()
		delete(w.rec.rows, key)
	}}
	if _, err := w.Stat(t.Context(), ref); err != nil {
		t.Errorf("a content whose base became plain: %v, want that it is there", err)
	}
}

// TestNearTooSmall: a small content, and one that others are built from, are opened
// although the near cache cannot hold them. A base does not count as read.
func TestNearTooSmall(t *testing.T) {
	w := newWorld(t, 100<<10)
	asked := 0
	w.opt.Asked = func(blob.Ref) { asked++ }
	body := text(1<<20, 1)
	ref := w.chill(body, nil)
	for name, open := range map[string]func(context.Context, blob.Ref) (blob.File, error){"Open": w.Open, "OpenWhole": w.OpenWhole, "OpenBase": w.OpenBase} {
		asked = 0
		f, err := open(t.Context(), ref)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(body))
		}
		if want := name != "OpenBase"; asked > 0 != want {
			t.Errorf("%s: counted as %d reads, want that it counts: %v", name, asked, want)
		}
		_ = f.Close() // opened for reading
	}
}

// TestMissingPartIsSuspect: who has been told that a content cannot be restored, because its
// cold file or its base is missing, finds it suspect from then on, as one whose bytes are
// damaged, and no longer when the part is back.
func TestMissingPartIsSuspect(t *testing.T) {
	for _, part := range []string{"cold file", "base"} {
		t.Run(part, func(t *testing.T) {
			w := newWorld(t, 1<<30)
			old, body := text(300<<10, 0), text(300<<10, 3)
			lost := w.chill(old, nil)
			ref := w.chill(body, old)
			if part == "cold file" {
				lost = ref
			}
			path := w.disk.Path(w.rec.rows[lost].File.Ref)
			away := path + ".away"
			if err := os.Rename(path, away); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Open(t.Context(), ref); !errors.Is(err, blob.ErrDamaged) {
				t.Fatalf("open: %v, want blob.ErrDamaged", err)
			}
			if !w.Suspect(ref) {
				t.Error("the content is not suspect, want that it is: it was opened in vain")
			}
			if err := os.Rename(away, path); err != nil {
				t.Fatal(err)
			}
			if w.Suspect(ref) {
				t.Error("the content is suspect although its part is back, want that it is not")
			}
		})
	}
}
