package coldstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// TestMoreReaders: without a near cache, more readers than hold decoders at the same time
// read a content, although none of them closes it before all have read everything.
func TestMoreReaders(t *testing.T) {
	w := newWorld(t, 1<<20)
	old, body := text(5<<20, 0), text(5<<20+333, 3)
	w.chill(old, nil)
	ref := w.chill(body, old)
	const readers = 3 * direct
	var files [readers]blob.File
	for i := range files {
		f, err := w.Open(t.Context(), ref)
		if err != nil {
			t.Fatalf("reader %d: %v", i, err)
		}
		defer f.Close()
		files[i] = f
	}
	for i, f := range files { // one after the other: nobody waits for another to close
		p := make([]byte, 1000)
		if n, err := f.ReadAt(p, int64(i*1000)); err != nil || !bytes.Equal(p, body[i*1000:][:1000]) {
			t.Fatalf("reader %d: %d bytes, %v, want 1000", i, n, err)
		}
	}
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() {
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
				t.Errorf("reader %d: %d bytes, %v, want the %d of the content", i, len(got), err, len(body))
			}
		})
	}
	wg.Wait()
	if n := w.lent.taken; n > direct {
		t.Errorf("%d decoders are in use, want at most %d", n, direct)
	}
}

// TestNearUnusable: whatever keeps the near cache from being written, a content is read.
func TestNearUnusable(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	w := newWorld(t, 1<<30)
	bodies := [][]byte{text(300<<10, 1), text(blob.HashedAtOpen+1, 1)}
	for _, body := range bodies {
		w.chill(body, nil)
	}
	for name, create := range map[string]func() (*os.File, error){
		"folder removed": func() (*os.File, error) { return os.CreateTemp(gone, "x") },
		"not permitted":  func() (*os.File, error) { return nil, fs.ErrPermission },
		"read only":      func() (*os.File, error) { return os.Open(os.DevNull) }, // the first write fails
	} {
		w.near = unpackcache.New(unpackcache.Options{Create: create})
		for _, body := range bodies {
			for what, open := range map[string]func(context.Context, blob.Ref) (blob.File, error){"Open": w.Open, "OpenWhole": w.OpenWhole} {
				f, err := open(t.Context(), blob.Sum(body))
				if err != nil {
					t.Errorf("%s: %s of %d bytes: %v", name, what, len(body), err)
					continue
				}
				if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
					t.Errorf("%s: %s: %d bytes, %v, want %d", name, what, len(got), err, len(body))
				}
				_ = f.Close() // opened for reading
			}
		}
	}
}

// TestNoDecoderFree: who gets no decoder for a while is told to come again, and not that
// the content does not exist.
func TestNoDecoderFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLender()
		for range direct {
			if err := l.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := l.enter(t.Context()); !errors.Is(err, blob.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) || time.Since(start) != slotWait {
			t.Errorf("one more: %v after %v, want ErrUnavailable after %v", err, time.Since(start), slotWait)
		}
		entered := make(chan error)
		go func() { entered <- l.enter(t.Context()) }()
		synctest.Wait()
		l.leave()
		if err := <-entered; err != nil {
			t.Errorf("after another left: %v", err)
		}
	})
}

// TestWarmedWhileRead: a content becomes plain, and its cold file goes, while a reader has
// no decoder of it.
func TestWarmedWhileRead(t *testing.T) {
	w := newWorld(t, 1<<20)
	body := text(5<<20, 1)
	ref := w.chill(body, nil)
	f, err := w.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	half := make([]byte, len(body)/2)
	if _, err := io.ReadFull(f, half); err != nil || !bytes.Equal(half, body[:len(half)]) {
		t.Fatalf("the first half: %v", err)
	}
	for range direct { // others take all decoders
		if err := w.lent.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	row := w.rec.rows[ref]
	if err := w.disk.Put(t.Context(), ref, row.Size, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	w.rec.mu.Lock()
	delete(w.rec.rows, ref)
	w.rec.mu.Unlock()
	if err := w.disk.Delete(t.Context(), row.File.Ref); err != nil {
		t.Fatal(err)
	}
	for range direct {
		w.lent.leave()
	}
	if rest, err := io.ReadAll(f); err != nil || !bytes.Equal(rest, body[len(half):]) {
		t.Errorf("the rest: %d bytes, %v, want %d", len(rest), err, len(body)-len(half))
	}
}
