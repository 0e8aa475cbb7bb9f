package sparse_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/files/sparse/sparsetest"
	"github.com/symdepot/symdepot/objfile"
)

// answer is what a file is.
type answer struct {
	objects []objfile.Object
	crash   *dump.Dump
	err     string
}

func (a *answer) parse(r io.ReaderAt, size int64, name string) error {
	*a = answer{}
	var err error
	head := make([]byte, dump.SniffLen)
	n, _ := r.ReadAt(head, 0)
	if dump.Detect(head[:n]) != "" {
		a.crash, err = dump.Read(r, size)
	} else {
		a.objects, err = objfile.Identify(r, size, name, objfile.Options{})
	}
	if err != nil {
		a.err = err.Error()
	}
	return err
}

// identify identifies a file of which a client sends the first bytes, and then what is
// needed. It returns the number of rounds and the bytes that were sent in all of them.
func identify(t *testing.T, file io.ReaderAt, size int64, name string, head int64) (a answer, rounds int, sent int64) {
	t.Helper()
	h := sparse.Header{Name: name, Size: size}
	if head = min(head, size); head > 0 {
		h.Slices = []sparse.Range{{At: 0, Len: head}}
	}
	for h.Round = 1; ; h.Round++ {
		open, n, err := sparse.Message(h, file)
		if err != nil {
			t.Fatal(err)
		}
		sent += n
		_, f, err := sparse.Read(open())
		if err != nil {
			t.Fatalf("%s: round %d: %v", name, h.Round, err)
		}
		need, _ := f.Try(func(r io.ReaderAt) error { return a.parse(r, size, name) })
		if need == nil {
			return a, h.Round, sent
		}
		h.Slices = append(h.Slices, need...)
	}
}

// TestFixtures: each file of testdata is the same, read whole and in parts.
func TestFixtures(t *testing.T) {
	t.Parallel()
	if files, objects := compareAll(t, "../../../testdata", sparse.Head, 4096, 1, 0); objects < 60 {
		t.Errorf("%d objects in %d files, want 60 at least", objects, files)
	}
}

// TestMaterial: so is each of the public files, which are larger.
func TestMaterial(t *testing.T) {
	t.Parallel()
	compareAll(t, symtest.Material(t), sparse.Head)
}

// compareAll compares the files below a folder, read whole and in parts from heads of
// several sizes on.
func compareAll(t *testing.T, dir string, heads ...int64) (files, objects int) {
	t.Helper()
	var most, mostSent int64
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var whole answer
		_ = whole.parse(bytes.NewReader(b), int64(len(b)), path) // compared below
		for _, head := range heads {
			got, rounds, sent := identify(t, bytes.NewReader(b), int64(len(b)), path, head)
			if !reflect.DeepEqual(got, whole) {
				t.Errorf("%s from the first %d bytes on: %+v\nwant %+v", path, head, got, whole)
			}
			if rounds > sparse.MaxRounds {
				t.Errorf("%s from the first %d bytes on: %d rounds", path, head, rounds)
			}
			most, mostSent = max(most, int64(rounds)), max(mostSent, sent)
		}
		files++
		objects += len(whole.objects)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files: at most %d rounds, %d bytes sent", files, most, mostSent)
	return files, objects
}

// TestLargePDB: a PDB of 4.5 GB is identified with less than 8 MiB sent in all rounds
// together.
func TestLargePDB(t *testing.T) {
	t.Parallel()
	const size = 4_500_000_000
	small, name := "../../../testdata/pdb/hello-x64.pdb", filepath.Join(t.TempDir(), "hello-x64.pdb")
	if err := sparsetest.WritePDB(name, small, size); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < size-10_000 {
		t.Fatalf("the large PDB: %v, %v; want %d bytes", info, err, int64(size))
	}
	got, rounds, sent := identify(t, f, info.Size(), name, sparse.Head)
	t.Logf("%d rounds, %d bytes sent", rounds, sent)
	b, err := os.ReadFile(small)
	if err != nil {
		t.Fatal(err)
	}
	var want answer
	if err := want.parse(bytes.NewReader(b), int64(len(b)), name); err != nil {
		t.Fatal(err)
	}
	want.objects[0].Size = info.Size()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the large PDB is %+v\nwant %+v", got, want)
	}
	if sent >= 8<<20 || rounds > sparse.MaxRounds {
		t.Errorf("%d rounds and %d bytes sent, want less than 8 MiB and at most %d", rounds, sent, sparse.MaxRounds)
	}
}

// FuzzIdentify: any file is the same, read whole and in parts, in a limited number of
// rounds.
func FuzzIdentify(f *testing.F) {
	for _, name := range []string{"pdb/hello-x64.pdb", "pe/mingw.exe", "elf/prog-sha1", "macho/app-fat", "ppdb/tiny.pdb", "wasm/w-fast.wasm", "minidump/test_app.dmp", "rare/a.dbg"} {
		b, err := os.ReadFile("../../../testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(512))
	}
	f.Fuzz(func(t *testing.T, b []byte, head uint16) {
		var whole answer
		_ = whole.parse(bytes.NewReader(b), int64(len(b)), "a.pdb") // compared below
		got, rounds, _ := identify(t, bytes.NewReader(b), int64(len(b)), "a.pdb", int64(head))
		if !reflect.DeepEqual(got, whole) || rounds > sparse.MaxRounds {
			t.Errorf("%d rounds, %+v\nwant %+v", rounds, got, whole)
		}
	})
}
