package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestWatchedRangeChanges: a part of a file in a watched folder that changes while it is sent
// is broken off, also if the part ends before the file does.
func TestWatchedRangeChanges(t *testing.T) {
	t.Parallel()
	const size = 64 << 20 // more than the system keeps for a connection
	dir := t.TempDir()
	path := commandtest.RandomSyms(t, dir, 1, size)[0]
	s := commandtest.ServeDepot(t, filepath.Join(t.TempDir(), "depot"), "--watch", dir)
	symtest.Await(t, time.Minute, "the first scan", func() bool {
		res, err := http.Head(s.URL + path)
		return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=0-67108000")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusPartialContent || res.ContentLength != 67108001 {
		t.Fatalf("status %d, %d bytes; want 206 and 67108001", res.StatusCode, res.ContentLength)
	}
	if _, err := io.CopyN(io.Discard, res.Body, 64<<10); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(path)), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.WriteAt([]byte("other"), 67107000)
	if cerr := w.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if n, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Errorf("%d more bytes came without an error, want that the answer breaks off", n)
	}
}
