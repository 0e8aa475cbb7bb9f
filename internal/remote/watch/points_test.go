package watch

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/scan"
)

// zstFrame compresses p as one frame with a window of 64 KiB.
func zstFrame(t testing.TB, p []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<10), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(p)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// filler returns n bytes that compress to a half.
func filler(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/"[r.IntN(64)]
	}
	for at := 1000; at+300 < n; at += 600 {
		copy(b[at:at+300], b[at-r.IntN(700)-300:])
	}
	return b
}

// lowest notes the lowest offset that is read.
type lowest struct {
	io.ReaderAt
	off int64
}

func (l *lowest) ReadAt(p []byte, off int64) (int, error) {
	l.off = min(l.off, off)
	return l.ReaderAt.ReadAt(p, off)
}

// pointFilesOf returns the names of the files with points.
func pointFilesOf(t testing.TB, f *Folder) []string {
	t.Helper()
	list, err := os.ReadDir(f.points.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestPoints: a member in a package with one zstd frame is read from a point near it, in
// Debian and RPM packages; without points, or with damaged ones, from the beginning.
func TestPoints(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	files := []entry{{"./usr/bin/prog", m.prog}, {"./usr/share/one", filler(3<<20, 1)}, {"./usr/lib/libprog.so", m.lib}}
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"p.deb", makeAr(entry{"debian-binary", []byte("2.0\n")}, entry{"data.tar.zst", zstFrame(t, makeTar(t, files...))})},
		{"p-1.rpm", symtest.RPM(t, "p", "w3.zstdio", map[string][]byte{
			"usr/bin/prog": m.prog, "usr/bin/q": filler(24<<20, 2), "usr/lib/libprog.so": m.lib,
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, c.name, c.body)
			f := open(t, dir, Options{pointEvery: 1 << 20})
			if s := scanned(t, f); s.Objects != 2 || s.Problems != 0 {
				t.Fatalf("the scan found %d objects and %d problems, want 2 and none", s.Objects, s.Problems)
			}
			if list := pointFilesOf(t, f); len(list) != 1 {
				t.Fatalf("files with points: %q, want one", list)
			}
			rows, err := f.db.Objects(t.Context(), 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			i := 0
			for baseName(rows[i].Member) != "libprog.so" {
				i++
			}
			from := func() int64 {
				t.Helper()
				at := &lowest{bytes.NewReader(c.body), int64(len(c.body))}
				p := decodePlace(rows[i].Place)
				r, err := scan.OpenPlace(t.Context(), at, int64(len(c.body)), p, f.placeOptions(&rows[i].File))
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				got, err := io.ReadAll(io.LimitReader(r, rows[i].Size))
				if err != nil || !bytes.Equal(got, m.lib) {
					t.Errorf("%d bytes, %v, want the %d of the library", len(got), err, len(m.lib))
				}
				return at.off - p.Base
			}
			if off := from(); off < 1<<19 {
				t.Errorf("the package is read from offset %d, want from the last point", off)
			}
			wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)

			file := f.pointsPath(within(rows[i].File.Dir, rows[i].File.Name), stampOf(rows[i].File))
			good, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []int{0, len(pointsMagic) + 1, len(good) / 2, len(good) - footSize - 1, len(good) - 9, len(good) - 1} {
				bad := bytes.Clone(good)
				bad[at] ^= 0x40
				put(t, filepath.Dir(file), filepath.Base(file), bad)
				from() // the right bytes, from wherever
			}
			put(t, filepath.Dir(file), filepath.Base(file), good[:len(good)/2])
			if off := from(); off != 0 {
				t.Errorf("with a file of points that was cut the package is read from offset %d, want 0", off)
			}
			// Another package of that name has points of its own.
			when := time.Unix(1e9, 0)
			if err := os.Chtimes(filepath.Join(dir, c.name), when, when); err != nil {
				t.Fatal(err)
			}
			scanned(t, f)
			if list := pointFilesOf(t, f); len(list) != 2 {
				t.Errorf("files with points: %q, want those of the old package and of the new one", list)
			}
		})
	}
}

// TestNoPoints: packages that need none have none, and a scan that ends early leaves nothing.
func TestNoPoints(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "small.deb", makeDeb(t, true, entry{"usr/bin/prog", m.prog}))
	cut := zstFrame(t, makeTar(t, entry{"./usr/share/one", filler(3<<20, 1)}, entry{"./usr/lib/libprog.so", m.lib}))
	put(t, dir, "damaged.deb", makeAr(entry{"debian-binary", []byte("2.0\n")}, entry{"data.tar.zst", cut[:len(cut)-100]}))
	f := open(t, dir, Options{pointEvery: 1 << 20})
	if s := scanned(t, f); s.Objects != 1 || s.Problems != 1 {
		t.Fatalf("the scan found %d objects and %d problems, want one and one", s.Objects, s.Problems)
	}
	if list := pointFilesOf(t, f); len(list) != 0 {
		t.Errorf("files with points: %q, want none", list)
	}
	n := &noting{files: f.points, path: filepath.Join(f.points.dir, "x"+pointsSuffix)}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	n.end(false, f.opt.Log)
	if list := pointFilesOf(t, f); len(list) != 0 {
		t.Errorf("files with points after a scan that was interrupted: %q, want none", list)
	}
}

// TestEvictPoints: the files that were not used for the longest time go first, and those that
// an interrupted scan has left.
func TestEvictPoints(t *testing.T) {
	t.Parallel()
	f := &pointFiles{dir: t.TempDir()}
	for i, name := range []string{"a", "b", "c", "left.tmp", "new.tmp"} {
		put(t, f.dir, name, make([]byte, 1000))
		when := time.Now().Add(-time.Hour * time.Duration(100-10*i))
		if name == "new.tmp" {
			when = time.Now()
		}
		if err := os.Chtimes(filepath.Join(f.dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.evict(2500); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": false, "b": true, "c": true, "left.tmp": false, "new.tmp": true} {
		if _, err := os.Stat(filepath.Join(f.dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it kept: %v", name, err, want)
		}
	}
}
