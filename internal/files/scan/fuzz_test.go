package scan

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fuzzWalk walks one file of these bytes with tight limits, and checks that
// nothing is left behind and no limit passed.
func fuzzWalk(t *testing.T, data string) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	must(t, os.WriteFile(path, []byte(data), 0o600))
	spool := filepath.Join(dir, "spool")
	must(t, os.Mkdir(spool, 0o700))
	opt := Options{
		MemberMemory: 1000, TotalMemory: 10_000, TempDir: spool, MaxWindow: 1 << 20,
		MaxEntries: 100, MaxTotal: 1 << 20, MaxRatio: 1, MaxMember: 1 << 19,
		Want: func(head []byte, _ string) error {
			if bytes.HasPrefix(head, []byte("no")) {
				return errors.New("no")
			}
			return nil
		},
	}
	const memory = 10_000
	files := 0
	var p *pool
	for f, err := range Walk(context.Background(), []string{path}, opt) {
		var skip *Skip
		if err != nil {
			if !errors.As(err, &skip) || f != nil {
				t.Fatalf("got %v, error %v; want errors.As(err, &skip), nil", f, err)
			}
			continue
		}
		files++
		c, err := f.Open(context.Background())
		if err != nil {
			if !errors.As(err, &skip) {
				t.Fatal(err)
			}
			f.Discard()
			continue
		}
		if b, ok := c.ReaderAt.(*buffer); ok {
			if c.Size() > opt.MaxMember {
				t.Fatalf("%s: %d bytes, want at most %d", f.Path, c.Size(), opt.MaxMember)
			}
			p = b.pool
		}
		if f.Size >= 0 && f.Size != c.Size() {
			t.Fatalf("%s: size %d, then %d, want the same", f.Path, f.Size, c.Size())
		}
		n, err := io.Copy(io.Discard, c.Reader())
		if err == nil && n != c.Size() {
			t.Fatalf("%s: %d of %d bytes, want all", f.Path, n, c.Size())
		}
		f.Discard()
		must(t, c.Close())
	}
	if files > 101 {
		t.Fatalf("%d files, want at most 101", files)
	}
	if p != nil && p.left.Load() != memory {
		t.Fatalf("%d bytes of memory left, want %d", p.left.Load(), memory)
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) != 0 {
		t.Fatalf("temporary files left: %v, %v; want none", left, err)
	}
}

func FuzzArchive(f *testing.F) {
	names, err := filepath.Glob("../../../testdata/scan/*")
	must(f, err)
	for _, n := range names {
		// Small seeds: large ones slow the fuzzer down and reach nothing more.
		if info, err := os.Stat(n); err == nil && info.Size() < 8000 && !strings.HasSuffix(n, ".md") {
			f.Add([]byte(fixture(f, filepath.Base(n))))
		}
	}
	a, b := entry{"a", "aaa"}, entry{"dir/b.gz", gz(f, "bbb")}
	for _, s := range []string{
		makeZip(f, 0, a, b), makeZip(f, 8, a, b), makeZip(f, 93, a, b), makeTar(f, a, b), gz(f, makeTar(f, a, b)), zst(f, makeTar(f, a)),
		fixture(f, "outside.msi"), zl(f, makeTar(f, a)), makeCPIO(a, b), makeZip(f, 8, entry{"in.zip", makeZip(f, 8, a)}), gz(f, makeTar(f, entry{"in.zip", makeZip(f, 8, a)})), gnuSparse(1 << 30),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzWalk(t, string(data)) })
}

// FuzzZip compares with archive/zip: where both accept a directory, they see
// the same members at the same places.
func FuzzZip(f *testing.F) {
	for _, method := range []uint16{0, 8} {
		f.Add([]byte(makeZip(f, method, entry{"a", "aaa"}, entry{"b/", ""}, entry{"b/c", "ccc"})))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var ours []*zipEntry
		d, err := findZipDirectory(r, r.Size())
		if err == nil {
			z := newZipReader(r, d)
			var e *zipEntry
			for err == nil {
				if e, err = z.next(); err == nil {
					ours = append(ours, e)
				}
			}
		}
		theirs, theirErr := zip.NewReader(r, r.Size())
		if !errors.Is(err, io.EOF) || theirErr != nil || len(theirs.File) != len(ours) {
			return
		}
		for i, e := range ours {
			h := theirs.File[i]
			if h.Name != e.name || h.CRC32 != e.crc || h.Method != e.method {
				return // an archive with bytes before it: theirs looks further
			}
			if int64(h.UncompressedSize64) != e.size || int64(h.CompressedSize64) != e.packed {
				t.Fatalf("%q: sizes %d %d, want those of archive/zip: %d %d", e.name, e.size, e.packed, h.UncompressedSize64, h.CompressedSize64)
			}
			off, err := e.local(r, d.off)
			if theirOff, theirErr := h.DataOffset(); err == nil && theirErr == nil && off != theirOff {
				t.Fatalf("%q: data at %d, want %d as archive/zip says", e.name, off, theirOff)
			}
		}
	})
}
