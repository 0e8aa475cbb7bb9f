package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// Homes are where the stored bytes of a content are in a [DamagedWorld].
var Homes = []string{"disk", "bucket", "cold key", "cold delta", "cold key in a bucket", "cold delta in a bucket", "database and bucket"}

// States are the states of stored bytes. Of what is not "seen" no process knows. An object
// of the right size with other bytes is found only by reading it: see docs/depot.md.
var States = []string{"intact", "damaged", "damaged and seen", "deleted", "deleted and seen"}

// DamagedWorld is a depot with one file for each of some ways in, all stored in one home
// and in one state, as a server and other processes see it.
type DamagedWorld struct {
	Server *Depot
	Files  []DamagedFile
	home   string
	bucket bucket.Bucket
	open   func() *Depot
}

// DamagedFile is a file of a [DamagedWorld].
type DamagedFile struct {
	Name, Path string // base name, and the path of a request
	Body       []byte
}

// NewDamagedWorld makes a depot and brings the stored bytes of n files into a state.
func NewDamagedWorld(t *testing.T, home, state string, n int) *DamagedWorld {
	t.Helper()
	w := &DamagedWorld{home: home}
	c := &clock{t: time.Now()}
	where, opt := filepath.Join(t.TempDir(), "depot"), Options{Now: c.now}
	switch home {
	case "database and bucket":
		p := buckettest.S3(t)
		open := serversOf(t, p)
		w.bucket = bucketOf(t, p)
		w.open = func() *Depot { return open(Options{}) }
	case "bucket", "cold key in a bucket", "cold delta in a bucket":
		p := buckettest.S3(t)
		w.bucket = bucketOf(t, p)
		w.open = func() *Depot {
			opt.Bucket, opt.Local = bucketOf(t, p), t.TempDir()
			d, err := Open(t.Context(), where, opt)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	default:
		w.open = func() *Depot {
			d, err := Open(t.Context(), where, opt)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	w.Server = w.Process(t)
	for i := range n {
		w.store(t, c, i)
	}
	for _, f := range w.Files {
		w.spoil(t, f, state)
	}
	return w
}

// Process opens the depot as one more process does.
func (w *DamagedWorld) Process(t *testing.T) *Depot {
	t.Helper()
	d := w.open()
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// store stores a file in its home.
func (w *DamagedWorld) store(t *testing.T, c *clock, i int) {
	t.Helper()
	series := newNightly(fmt.Sprintf("app%d.so", i), uint64(i+1), 6000)
	builds, paths := []file{}, []string{}
	for b := range 4 {
		f, path := series.build(b)
		f.path = filepath.Base(f.path)
		builds, paths = append(builds, f), append(paths, path)
	}
	at := 3
	switch w.home {
	case "cold delta", "cold delta in a bucket":
		at = 1
	case "cold key", "cold key in a bucket":
	default: // plain, in the newest build
		builds, paths, at = builds[3:], paths[3:], 0
	}
	for _, f := range builds {
		add(t, w.Server, "app", f)
		c.advance(24 * time.Hour)
	}
	if len(builds) > 1 {
		if sum, err := w.Server.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 3 {
			t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
		}
		if at == 3 {
			if _, err := w.Server.Cold.CoolOne(t.Context(), coolAlone(builds[3].body), 0, coldstore.CoolOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Files = append(w.Files, DamagedFile{Name: builds[at].path, Path: paths[at], Body: builds[at].body})
}

// spoil brings the stored bytes of a file into a state.
func (w *DamagedWorld) spoil(t *testing.T, f DamagedFile, state string) {
	t.Helper()
	ref := blob.Sum(f.Body)
	if row, err := w.Server.Cold.Of(t.Context(), ref); err == nil {
		ref = row.File.Ref
	}
	if state == "intact" {
		return
	}
	deleted := state == "deleted" || state == "deleted and seen"
	if !w.Server.home.Placed {
		path := blobPath(w.Server, ref)
		if deleted {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			spoil(t, w.Server, ref)
		}
	} else {
		w.spoilObject(t, ref, deleted)
	}
	if state != "damaged" && state != "deleted" {
		w.see(t, f)
	}
}

// see has a server of its own answer a request for a file, which it then knows to be lost.
func (w *DamagedWorld) see(t *testing.T, f DamagedFile) {
	t.Helper()
	d := w.Process(t)
	ref := blob.Sum(f.Body)
	if _, err := whole(t, d, f.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is served: %v, want fs.ErrNotExist", f.Path, err)
	}
	symtest.Await(t, 10*time.Second, "the damage in the index", func() bool {
		what, err := w.Server.db.Damages.Of(t.Context(), ref)
		return err == nil && what != ""
	})
}

// spoilObject changes or deletes the object of a content.
func (w *DamagedWorld) spoilObject(t *testing.T, ref blob.Ref, deleted bool) {
	t.Helper()
	b := w.bucket
	u, _, err := w.Server.db.Places.Of(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	h := ref.String()
	key := "c/" + h[:2] + "/" + h + "/" + u.Place
	if deleted {
		if err := b.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		return
	}
	o, err := b.Get(t.Context(), key, 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(o.Body)
	if err = errors.Join(err, o.Body.Close()); err != nil {
		t.Fatal(err)
	}
	copy(body[len(body)/2:], "XXXX")
	if err := b.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), key, int64(len(body)), bytes.NewReader(body), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// CheckHealed fails unless the server and a new process answer with the bytes of all files,
// verify finds no fault, and nothing is suspected any more.
func (w *DamagedWorld) CheckHealed(t *testing.T) {
	t.Helper()
	for name, d := range map[string]*Depot{"the server": w.Server, "a new process": w.Process(t)} {
		for _, f := range w.Files {
			if got, err := whole(t, d, f.Path); err != nil || !bytes.Equal(got, f.Body) {
				t.Errorf("%s: GET of %s: %d bytes, %v; want the %d that were sent", name, f.Path, len(got), err, len(f.Body))
			}
		}
	}
	if _, faults := verified(t, w.Process(t), check.Options{Restore: true}); len(faults) > 0 {
		t.Errorf("verify: %d faults, the first is %+v; want none", len(faults), faults[0])
	}
	if n, err := suspected(context.WithoutCancel(t.Context()), w.Server); n != 0 || err != nil {
		t.Errorf("%d contents are still suspected, %v; want none", n, err)
	}
}
