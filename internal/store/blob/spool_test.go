package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestSpoolIsReadWhileItGrows(t *testing.T) {
	d, err := OpenDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, size := range []int{0, 1, chunk - 1, 3*chunk + 17} {
		want := bytes.Repeat([]byte("symbols "), size/8+1)[:size]
		s, err := d.Spool()
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < size; at += 100_000 {
			part := want[at:min(size, at+100_000)]
			if _, err := s.Write(part); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(part))
			if _, err := s.ReadAt(got, int64(at)); err != nil || !bytes.Equal(got, part) {
				t.Fatalf("size %d: read back at %d: %v, want the bytes that were written", size, at, err)
			}
		}
		if _, err := d.Stat(context.Background(), Sum(want)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("size %d: visible before Keep: %v, want fs.ErrNotExist", size, err)
		}
		ref, err := s.Keep(t.Context())
		if err != nil || ref != Sum(want) || s.Size() != int64(size) {
			t.Fatalf("size %d: Keep = %v, %v; want the hash and the size of the content", size, ref, err)
		}
		got, err := io.ReadAll(io.NewSectionReader(s, 0, s.Size()))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("size %d: read after Keep: %v, want the content", size, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := d.Open(context.Background(), ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err = io.ReadAll(f)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("size %d: the blob differs: %v", size, err)
		}
		_ = f.Close()
	}
	noTemps(t, d)
}

func TestSpoolKeepsNothingTwiceAndNothingAborted(t *testing.T) {
	d, err := OpenDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 {
		s, err := d.Spool()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte("once")); err != nil {
			t.Fatal(err)
		}
		if ref, err := s.Keep(t.Context()); err != nil || ref != Sum([]byte("once")) {
			t.Fatalf("Keep = %v, %v; want the hash of the content", ref, err)
		}
		s.Abort()
		_ = s.Close()
	}
	if _, err := d.Stat(context.Background(), Sum([]byte("once"))); err != nil {
		t.Fatal(err)
	}
	s, err := d.Spool()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("never")); err != nil {
		t.Fatal(err)
	}
	s.Abort()
	_ = s.Close()
	if _, err := d.Stat(context.Background(), Sum([]byte("never"))); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("kept: %v, want fs.ErrNotExist", err)
	}
	noTemps(t, d)
}

func noTemps(t *testing.T, d *Disk) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(d.dir, tempDir))
	if err != nil || len(left) > 0 {
		t.Fatalf("left in %s: %v, %v; want none", tempDir, left, err)
	}
}
