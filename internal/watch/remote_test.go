package watch

import (
	"bytes"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/bucket/buckettest"
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
