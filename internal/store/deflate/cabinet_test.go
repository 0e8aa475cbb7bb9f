package deflate

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// cabinet is a cabinet of one file that cab writes.
func cabinet(t testing.TB, plain []byte, level int) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "a.cab"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = cab.Create(f, []cab.Source{{Name: "a.pdb", Size: int64(len(plain)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(plain)), nil
	}}}, cab.WriteOptions{Method: cab.MSZIP, Level: level})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// gcab is the same by the program gcab.
func gcab(t *testing.T, plain []byte) []byte {
	t.Helper()
	path := symtest.Judge(t, "gcab")
	if path == "" {
		t.Skip("needs gcab (apt-get install gcab)")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.pdb"), plain, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", "-z", "a.cab", "a.pdb")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "a.cab"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// firstFolder is where the data of the first folder of a cabinet begins, and where it ends.
func firstFolder(t testing.TB, b []byte) (at, end int64) {
	t.Helper()
	at = int64(binary.LittleEndian.Uint32(b[36:]))
	end, err := FolderEnd(context.Background(), bytes.NewReader(b), at, int64(len(b)), int(binary.LittleEndian.Uint16(b[40:])))
	if err != nil {
		t.Fatal(err)
	}
	return at, end
}

// folderAgain takes the folder of a cabinet apart and makes it again.
func folderAgain(t *testing.T, b, plain []byte) Stream {
	t.Helper()
	at, end := firstFolder(t, b)
	var a Analyzer
	r := bytes.NewReader(b)
	from := time.Now()
	ok, err := a.ProbeFolder(context.Background(), r, at, end)
	if err != nil || !ok {
		t.Fatalf("probe: %v %v", ok, err)
	}
	t.Logf("probed in %v: setting %#x", time.Since(from), a.lastFolder)
	from = time.Now()
	s, err := a.AnalyzeFolder(context.Background(), r, at, end)
	if err != nil {
		t.Fatalf("analyze: %v", err)
	}
	t.Logf("%d of %d bytes: recipe of %d in %v", end-at, len(plain), len(s.Recipe), time.Since(from))
	from = time.Now()
	got, err := io.ReadAll(NewFolderPacker(bytes.NewReader(plain), s.Size, s.Recipe))
	if err != nil || !bytes.Equal(got, b[at:end]) {
		t.Fatalf("packed again: %d of %d bytes, %v", len(got), end-at, err)
	}
	t.Logf("packed again in %v", time.Since(from))
	return s
}

// TestOwnCabinet: a cabinet that package cab writes has a recipe of a few bytes.
func TestOwnCabinet(t *testing.T) {
	mixed := bytes.Join([][]byte{sample(t, 700_000), noise(300_000), make([]byte, 200_000), sample(t, 100_000)}, nil)
	for name, plain := range map[string][]byte{"program": sample(t, 5<<20), "mixed": mixed} {
		for _, level := range []int{7, 8} {
			t.Run(name+" "+strconv.Itoa(level), func(t *testing.T) {
				most := 8
				if name == "mixed" { // blocks that do not compress are written otherwise
					most = 200
				}
				if s := folderAgain(t, cabinet(t, plain, level), plain); len(s.Recipe) > most {
					t.Errorf("recipe of %d bytes", len(s.Recipe))
				}
			})
		}
	}
}

// TestGcab: the same for a cabinet of gcab, which wixl uses too.
func TestGcab(t *testing.T) {
	plain := sample(t, 5<<20)
	if s := folderAgain(t, gcab(t, plain), plain); len(s.Recipe) > 8 {
		t.Errorf("recipe of %d bytes", len(s.Recipe))
	}
}

// TestFolderReader: any place of a folder is read, forwards and backwards.
func TestFolderReader(t *testing.T) {
	plain := sample(t, 6<<20)
	b := cabinet(t, plain, 7)
	at, end := firstFolder(t, b)
	r := NewReader(bytes.NewReader(b), Stream{At: at, Len: end - at, Size: int64(len(plain)), Kind: Folder}, nil)
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 5), 3))
	buf := make([]byte, 100_000)
	for range 100 {
		at := rnd.IntN(len(plain) - len(buf))
		if n, err := r.ReadAt(buf, int64(at)); n != len(buf) || err != nil || !bytes.Equal(buf, plain[at:at+n]) {
			t.Fatalf("at %d: %d, %v", at, n, err)
		}
	}
	if len(r.marks) < 4 {
		t.Errorf("%d marks", len(r.marks))
	}
}

// FuzzFolder: no bytes make the search for the recipe of a folder fail otherwise than by its error,
// and what has a recipe is made again of it.
func FuzzFolder(f *testing.F) {
	for _, level := range []int{1, 7, 8} {
		b := cabinet(f, sample(f, 70_000), level)
		at, end := firstFolder(f, b)
		f.Add(b[at:end])
	}
	var a Analyzer
	f.Fuzz(func(t *testing.T, b []byte) {
		r, end := bytes.NewReader(b), int64(len(b))
		if ok, err := a.ProbeFolder(t.Context(), r, 0, end); !ok || err != nil {
			return
		}
		s, err := a.AnalyzeFolder(t.Context(), r, 0, end)
		if err != nil {
			return
		}
		got, err := io.ReadAll(NewFolderPacker(io.NewSectionReader(NewReader(r, s, nil), 0, s.Size), s.Size, s.Recipe))
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("another folder, %v", err)
		}
	})
}

// FuzzFolderPacker: no recipe makes a FolderPacker fail otherwise than by its error, or go on for
// ever.
func FuzzFolderPacker(f *testing.F) {
	plain := sample(f, 100_000)
	f.Add([]byte{flushedSetting + 7})
	f.Add([]byte{primed | zlibSetting + 6, 0, otherCount | otherCoding | stored<<4, 10})
	f.Add([]byte{zlibSetting + 1, 3, otherTokens, 1, 7, 65, 0, otherFinal})
	f.Fuzz(func(t *testing.T, recipe []byte) {
		_, _ = io.Copy(io.Discard, NewFolderPacker(bytes.NewReader(plain), int64(len(plain)), recipe))
	})
}
