package watch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// TestBucket: the files below a prefix of a bucket are indexed and served there, and an
// object that was replaced is absent at once.
func TestBucket(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	peer := buckettest.S3(t)
	via := &http.Transport{DisableKeepAlives: true}
	open := func(prefix string) bucket.Bucket {
		b, err := bucket.OpenS3(bucket.S3Config{Bucket: peer.Bucket, Prefix: prefix, Endpoint: peer.Endpoint, AccessKey: peer.User, SecretKey: peer.Secret, Region: "us-east-1", Style: "path"}, via)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	b := open("builds/")
	upload := func(key string, body []byte) {
		t.Helper()
		if _, err := b.Put(t.Context(), key, int64(len(body)), bytes.NewReader(body), bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	big := grow(t, m.prog, 5<<20)
	upload("a/b/prog", big)
	upload("p.deb", makeDeb(t, true, entry{"usr/lib/libprog.so", m.lib}))
	upload("src.deb", makeDeb(t, false, entry{"usr/src/symdepot-src/prog.c", []byte("source")}))
	outside := open("")
	if _, err := outside.Put(t.Context(), "other/prog", int64(len(m.stripped)), bytes.NewReader(m.stripped), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), "", Options{Bucket: b, Index: filepath.Join(t.TempDir(), "watch.db"), TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s := scanned(t, f); s.Files != 3 || s.Read != 3 || s.Objects != 2 {
		t.Fatalf("the scan saw %d files, read %d, with %d objects; want 3, 3 and 2", s.Files, s.Read, s.Objects)
	}
	a := wantBytes(t, f, "buildid/"+m.id+"/executable", big)
	if want := b.Name() + "/a/b/prog"; a.Path != want && a.Path != b.Name()+"a/b/prog" {
		t.Errorf("the path is %q, want %q", a.Path, want)
	}
	wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
	wantBytes(t, f, "buildid/"+m.id+"/source/usr/src/symdepot-src/prog.c", []byte("source"))
	if s := scanned(t, f); s.Read != 0 || s.Gone != 0 {
		t.Errorf("a second scan read %d files and misses %d, want none", s.Read, s.Gone)
	}
	upload("a/b/prog", m.stripped)
	wantMissing(t, f, "buildid/"+m.id+"/executable")
	scanned(t, f)
	wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
	if err := b.Delete(t.Context(), "a/b/prog"); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, f, "buildid/"+m.id+"/executable")
	if s := scanned(t, f); s.Gone != 1 {
		t.Errorf("the scan misses %d files, want 1", s.Gone)
	}
}

// TestBucketTree: a listing in any order becomes a tree, in which each folder is named once,
// and names that are no clean paths are left out. So many folders in one are usual for the
// layouts of symbol stores.
func TestBucketTree(t *testing.T) {
	t.Parallel()
	const many = 50_000
	b := &listed{keys: []string{"z.pdb/1/x/z.pdb", "top", "z.pdb/1/y/z.pdb", "a/../b", "a//b", "/abs", "folder/"}}
	for i := range many {
		b.keys = append(b.keys, fmt.Sprintf("a.pdb/%05d/a.pdb", i), fmt.Sprintf("a.pdb/%05d/a.pd_", i))
	}
	list, err := (&remote{b: b}).snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir         string
		files, dirs int
	}{{"", 1, 2}, {"a.pdb", 0, many}, {"a.pdb/00007", 2, 0}, {"z.pdb", 0, 1}, {"z.pdb/1", 0, 2}, {"a", 0, 0}} {
		files, dirs, err := list(t.Context(), c.dir)
		if err != nil || len(files) != c.files || len(dirs) != c.dirs {
			t.Errorf("folder %q has %d files and %d folders, %v; want %d and %d", c.dir, len(files), len(dirs), err, c.files, c.dirs)
		}
	}
}

// listed is a bucket with empty objects.
type listed struct {
	bucket.Bucket
	keys []string
}

func (b *listed) List(context.Context, string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for _, k := range b.keys {
			if !yield(bucket.Info{Key: k}, nil) {
				return
			}
		}
	}
}

// TestManyOpenObjects: objects of a bucket are read in smaller parts while many are open.
func TestManyOpenObjects(t *testing.T) {
	t.Parallel()
	b := &zeros{size: 5 << 20}
	r := &remote{b: b}
	var all []handle
	for range manyOpen + 1 {
		h, err := r.open(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	read := func(h handle) (held int) {
		t.Helper()
		if n, err := io.Copy(io.Discard, io.NewSectionReader(h, 0, b.size)); err != nil || n != b.size {
			t.Fatalf("%d bytes, %v, want %d", n, err, b.size)
		}
		for _, p := range h.(*object).parts {
			held += len(p.data)
		}
		return held
	}
	if n := read(all[0]); n != int(b.size) {
		t.Errorf("an object that was opened early holds %d bytes, want all %d", n, b.size)
	}
	if n := read(all[manyOpen]); n == 0 || n > 1<<20 {
		t.Errorf("an object that was opened late holds %d bytes, want at most a MiB", n)
	}
	for _, h := range all {
		for range 2 {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if n := r.opened.Load(); n != 0 {
		t.Errorf("%d objects are open after all were closed, want none", n)
	}
}

// zeros is a bucket whose objects have zeros.
type zeros struct {
	bucket.Bucket
	size int64
}

func (b *zeros) Head(_ context.Context, key string) (bucket.Info, error) {
	return bucket.Info{Key: key, Size: b.size, ETag: "x"}, nil
}

func (b *zeros) Get(_ context.Context, _ string, _, n int64, _ string) (*bucket.Object, error) {
	return &bucket.Object{Body: io.NopCloser(bytes.NewReader(make([]byte, n)))}, nil
}
