package importexport

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
	"github.com/symdepot/symdepot/layout"
)

// watchedBucket counts what is read of a bucket. It refuses the object refused, and lists
// further keys.
type watchedBucket struct {
	bucket.Bucket
	refused string
	further []string
	mu      sync.Mutex
	got     []string
}

func (b *watchedBucket) Get(ctx context.Context, key string, off, n int64, tag string) (*bucket.Object, error) {
	b.mu.Lock()
	b.got = append(b.got, key)
	b.mu.Unlock()
	if key == b.refused {
		return nil, fs.ErrPermission
	}
	return b.Bucket.Get(ctx, key, off, n, tag)
}

func (b *watchedBucket) List(ctx context.Context, prefix string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for _, key := range b.further {
			if prefix == "" && !yield(bucket.Info{Key: key, Size: 1}, nil) {
				return
			}
		}
		for i, err := range b.Bucket.List(ctx, prefix) {
			if !yield(i, err) {
				return
			}
		}
	}
}

// upload copies a folder into a real store.
func upload(t *testing.T, dir string) *watchedBucket {
	t.Helper()
	p := buckettest.S3(t)
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: "a/v1", Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		_, err = b.Put(t.Context(), filepath.ToSlash(rel), int64(len(text)), strings.NewReader(string(text)), bucket.PutOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return &watchedBucket{Bucket: b}
}

// importBucket imports a bucket in parts of most files.
func importBucket(t *testing.T, d *depot.Depot, b bucket.Bucket, opt ImportOptions, most int) (ImportResult, error) {
	t.Helper()
	im, err := NewBucketImport(t.Context(), b, opt)
	if err != nil {
		t.Fatal(err)
	}
	im.bucket.most = most
	return im.Run(d)
}

const (
	bucketPDB = "hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	bucketEXE = "hello-x64.exe/C10891754000/hello-x64.exe"
)

// TestImportBucket: an import of a bucket that fails goes on where it was, and another one
// finds nothing new without reading an object. Names that are no paths are skipped, and
// nothing is left in the temporary folder.
func TestImportBucket(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, bucketPDB, "pdb/hello-x64.pdb")
	put(t, dir, bucketEXE, "pdb/hello-x64.exe")
	b := upload(t, dir)
	b.further = []string{"../../evil.pdb", "/evil.pdb", "x//evil.pdb", `..\evil.pdb`, "folder/"}
	b.refused = bucketPDB
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	d := newDepot(t)
	if _, err := importBucket(t, d, b, ImportOptions{}, 1); err == nil {
		t.Error("an import of a bucket with an object that is refused succeeds, want an error")
	}
	b.refused = ""
	r, err := importBucket(t, d, b, ImportOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Imported != 1 || r.Before != 1 || r.Added.Files != 1 || r.Misplaced != 0 || r.Skipped != 4 || !strings.HasPrefix(r.Store, "s3://symbols/a/v1") || strings.Contains(r.Store, "?") {
		t.Errorf("the second import: %+v, want 1 build and file, 1 before, 4 names skipped, the address without the endpoint", r)
	}
	for _, path := range []string{bucketPDB, bucketEXE} {
		if _, ok := depotAnswer(t, d, layout.SymStore, path); !ok {
			t.Errorf("%s is not found after the import", path)
		}
	}
	b.got = nil
	if r, err = importBucket(t, d, b, ImportOptions{}, 1); err != nil || r.Imported != 0 || r.Before != 2 || len(b.got) != 0 {
		t.Errorf("the third import: %+v, %v, and read %q; want 2 files before, and to read nothing", r, err, b.got)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("the temporary folder has %v, %v; want nothing", left, err)
	}
}

// TestImportBucketRecords: transactions of a symbol store and bundles of symsorter arrive
// from a bucket as they do from a folder.
func TestImportBucketRecords(t *testing.T) {
	t.Parallel()
	first := newDepot(t)
	src := t.TempDir()
	put(t, src, "a/hello-x64.pdb", "pdb/hello-x64.pdb")
	put(t, src, "a/hello-x64.exe", "pdb/hello-x64.exe")
	add(t, first, depot.TxInfo{Product: "Game", Version: "1.2"}, filepath.Join(src, "a"))
	txs, err := first.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lay := range []layout.Layout{layout.SymStore, layout.Unified} {
		t.Run(lay.Name(), func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Export(t.Context(), first, txs, Target{Folder: dir}, ExportOptions{Layout: lay}); err != nil {
				t.Fatal(err)
			}
			want := importTree(t, newDepot(t), dir, layout.None)
			b := upload(t, dir)
			d := newDepot(t)
			got, err := importBucket(t, d, b, ImportOptions{}, looseFiles)
			if err != nil {
				t.Fatal(err)
			}
			if got.Layout != want.Layout || got.Imported != want.Imported || got.Imported == 0 || got.Added != want.Added {
				t.Errorf("from the bucket: %+v, want what a folder gives: %+v", got, want)
			}
			if again, err := importBucket(t, d, b, ImportOptions{}, looseFiles); err != nil || again.Imported != 0 || again.Before == 0 {
				t.Errorf("again: %+v, %v; want nothing new", again, err)
			}
		})
	}
}

// listing is a bucket that lists objects of one size.
type listing struct {
	bucket.Bucket
	keys []string
	size int64
}

func (b listing) List(context.Context, string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		for _, key := range b.keys {
			if !yield(bucket.Info{Key: key, Size: b.size}, nil) {
				return
			}
		}
	}
}

// TestImportBucketParts: objects of one folder are copied together, and yet no part grows
// without a bound, also of a bucket that is one folder.
func TestImportBucketParts(t *testing.T) {
	t.Parallel()
	var flat, deep []string
	for i := range 100 {
		flat = append(flat, fmt.Sprintf("%03d.sym", i))
		deep = append(deep, fmt.Sprintf("%02d/a.sym", i/3), fmt.Sprintf("%02d/b%d.meta", i/3, i))
	}
	for _, tt := range []struct {
		what  string
		keys  []string
		size  int64
		most  int
		whole bool // folders are not divided
	}{
		{"one folder of many files", flat, 1, 2 * oneFolder, false},
		{"one folder of large files", flat, looseBytes / 2, 2 * oneFolder, false},
		{"many folders", deep, 1, 2 + 6, true},
	} {
		c := &copier{im: &importer{ctx: t.Context()}, b: listing{keys: tt.keys, size: tt.size}, most: 2}
		if tt.size > 1 {
			c.most = 1 << 20
		}
		last, n := "", 0
		err := c.each(func(bucket.Info) bool { return true }, func(part []bucket.Info) error {
			n += len(part)
			if len(part) > tt.most {
				t.Errorf("%s: a part has %d objects, want %d at most", tt.what, len(part), tt.most)
			}
			if dir := path.Dir(part[0].Key); tt.whole && dir == last {
				t.Errorf("%s: the folder %s is in two parts, want it in one", tt.what, dir)
			}
			last = path.Dir(part[len(part)-1].Key)
			return nil
		})
		if err != nil || n != len(tt.keys) {
			t.Errorf("%s: %d of %d objects, error %v; want all", tt.what, n, len(tt.keys), err)
		}
	}
}
