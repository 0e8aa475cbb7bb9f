package cluster

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// TestWatchBucket: symdepot watch indexes a prefix of a bucket, and find searches it by
// that index. What is damaged there is named.
func TestWatchBucket(t *testing.T) {
	t.Parallel()
	b := commandtest.NewBucketDepot(t)
	prog, err := os.ReadFile(os.Args[0]) // a program with a build-id
	if err != nil {
		t.Fatal(err)
	}
	s3 := b.Open(t)
	defer s3.Close()
	upload := func(key string, body []byte) {
		t.Helper()
		if _, err := s3.Put(t.Context(), key, int64(len(body)), bytes.NewReader(body), bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	upload("builds/a/prog", prog)
	upload("builds/ok.txt", []byte("nothing"))
	where := "s3://" + b.Peer.Bucket + "/depot/builds?endpoint=" + url.QueryEscape("http://"+b.Line.Addr())
	b.Dir, b.Blobs = filepath.Join(t.TempDir(), "local"), ""
	if out := b.Must(t, "watch", "--once", "--json", where); !strings.Contains(out, `"files":2,"read":2,`) || !strings.Contains(out, `"objects":1,`) {
		t.Errorf("watch --once: %s, want 2 files and one object", out)
	}
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 1, 100)
	b.Must(t, "add", src)
	if out := b.Must(t, "find", "--watch", where+"=Game/1.0", "prog"); !strings.Contains(out, "in place: a/prog") {
		t.Errorf("find --watch: %s, want a file in place", out)
	}
	upload("builds/cut.deb", []byte("!<arch>\ndebian-binary   1000000000  0     0     100644  4         `\n2.0\ndata.tar.gz     0           0     0     100644  1000      `\n"))
	if code, out := b.Run(t, "watch", "--once", where); code != 1 || !strings.Contains(out, "cut.deb") {
		t.Errorf("watch with a damaged package: exit %d, %s; want 1 and its name", code, out)
	}
	if code, out := b.Run(t, "watch", "--once", strings.Replace(where, b.Peer.Bucket+"/", "nowhere/", 1)); code != 3 || !strings.Contains(out, "no such bucket") {
		t.Errorf("watch of a bucket that is missing: exit %d, %s; want 3 and the reason", code, out)
	}
}
