// Package hometest opens the home of a depot with contents in it, for tests of the packages that
// stand between the home and the depot. Tests only.
package hometest

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

// Home is an open home with the parts that read its contents.
type Home struct {
	*home.Home
	Cold     *coldstore.Cold
	Contents *content.Contents
	Log      *slog.Logger
	// Said is what has been logged, as text.
	Said *symtest.Output

	disk  *blob.Disk
	clock *clock
	close func()
}

// clock is the present of a Home.
type clock struct {
	mu    sync.Mutex
	later time.Duration // guarded by mu
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.later)
}

// Open opens the home of a depot in a folder, which is made if need be, until the test ends.
func Open(t *testing.T, dir string) *Home {
	t.Helper()
	c := &clock{}
	h, err := home.Open(t.Context(), dir, home.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	r := &Home{Home: h, Said: &symtest.Output{}, clock: c}
	r.Log = slog.New(slog.NewTextHandler(r.Said, nil))
	var ok bool
	if r.disk, ok = h.Blobs.(*blob.Disk); !ok {
		t.Fatalf("the store is a %T, want one on disk", h.Blobs)
	}
	r.Cold = coldstore.NewCold(coldstore.Home{DB: h.DB, Below: h.Blobs, Dir: h.Dir, Local: h.Local}, coldstore.ColdOptions{}, r.Log, h.Now)
	r.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	h.Blobs = r.Cold.Store()
	r.Contents = content.New(h.Blobs, false, h.DB, r.Log, h.Now)
	r.close = sync.OnceFunc(func() {
		r.Contents.Close()
		if err := h.DB.Close(); err != nil {
			t.Error(err)
		}
		if err := h.Blobs.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.close)
	return r
}

// Close closes the home before the test ends.
func (r *Home) Close() { r.close() }

// Later moves the clock of the home.
func (r *Home) Later(by time.Duration) {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	r.clock.later += by
}

// Sym makes a Breakpad file of about size bytes. Files of other numbers have other ids, and
// those of one name are alike.
func Sym(name string, number, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MODULE Linux x86_64 %032X1 %s\n", number+1, name)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "FUNC %x 10 0 ns::Class%d::method_%d(int)\n", 0x1000+i*16+number%3, i%97, i)
	}
	return b.Bytes()
}

// Add adds the files of one transaction of a product, and returns its number. Their paths are
// build/0.sym and so on.
func (r *Home) Add(t *testing.T, product, version string, files ...[]byte) int64 {
	t.Helper()
	batch, err := r.Blobs.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Abort()
	tx := record.Tx{Kind: "add", Product: product, Version: version, Time: r.Now()}
	for i, body := range files {
		ref, _, err := batch.Put(t.Context(), int64(len(body)), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		e := Entry(t, body)
		e.Ref, e.Path, e.ModTime = ref, fmt.Sprintf("build/%d.sym", i), r.Now()
		tx.Entries = append(tx.Entries, e)
	}
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	number, err := r.DB.Commit(t.Context(), tx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// Entry is the entry of a file of Sym.
func Entry(t *testing.T, body []byte) record.Entry {
	t.Helper()
	objects, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), "app.sym", objfile.Options{})
	if err != nil || len(objects) != 1 {
		t.Fatalf("objects %v, %v; want one", objects, err)
	}
	o := objects[0]
	return record.Entry{
		Object: o.Object, Arch: o.Arch, Features: o.Features.Words(), DebugSize: o.DebugSize, Ref: blob.Sum(body),
		Size: o.Size, Aliases: o.Aliases(), Path: "build/0.sym",
	}
}

// Content is the row of a file.
func Content(body []byte) record.Content {
	return record.Content{Ref: blob.Sum(body), Size: int64(len(body))}
}

// Path is where the plain bytes of a content are on disk.
func (r *Home) Path(body []byte) string { return r.disk.Path(blob.Sum(body)) }

// Flip changes a byte of the stored bytes of a content.
func (r *Home) Flip(t *testing.T, body []byte) {
	t.Helper()
	b, err := os.ReadFile(r.Path(body))
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(r.Path(body), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Lose deletes the stored bytes of a content.
func (r *Home) Lose(t *testing.T, body []byte) {
	t.Helper()
	if err := os.Remove(r.Path(body)); err != nil {
		t.Fatal(err)
	}
}
