package objfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"crypto/sha256"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// identifier is what the parsers of ELF, Mach-O and WASM have in common.
type identifier func(b *budget, name string) ([]Object, error)

// countingReader counts the bytes that are asked for.
type countingReader struct {
	r io.ReaderAt
	n int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.n += int64(len(p))
	return c.r.ReadAt(p, off)
}

// identifyBytes runs a parser within the budget of a real identification and
// checks what must hold for any input.
func identifyBytes(t *testing.T, identify identifier, name string, p []byte) ([]Object, error) {
	t.Helper()
	c := &countingReader{r: bytes.NewReader(p)}
	size := int64(len(p))
	objects, err := identify(newBudget(c, size, IDBudget), name)
	if c.n > IDBudget+FeatureBudget {
		t.Fatalf("read %d bytes, want at most %d", c.n, IDBudget+FeatureBudget)
	}
	if err != nil {
		if len(objects) > 0 {
			t.Fatalf("%d objects with error %v, want 0", len(objects), err)
		}
		if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrNotSymbolFile) {
			t.Fatalf("error of no class: %v", err)
		}
		return nil, err
	}
	if len(objects) == 0 {
		t.Fatal("neither object nor error")
	}
	for _, o := range objects {
		if o.Offset < 0 || o.Size < 0 || o.Offset > size || o.Size > size-o.Offset {
			t.Fatalf("object of %d bytes at %d in a file of %d bytes, want it inside", o.Size, o.Offset, size)
		}
		if o.CodeID != "" && !debugid.IsHex(o.CodeID) || o.DebugSize < 0 || o.Name != name {
			t.Fatalf("object %+v, want a hexadecimal code id, a size of at least 0 and the name %q", o, name)
		}
	}
	return objects, nil
}

func readTestdata(t testing.TB, path string) []byte {
	t.Helper()
	p, err := os.ReadFile(filepath.Join("..", "testdata", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// realFiles returns the contents of the files below testdata/folder.
func realFiles(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	root := filepath.Join("..", "testdata", folder)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".md") {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", root, err)
	}
	return files
}

// summary prints an object in the form in which the tests expect it.
func summary(o Object) string {
	var flags []string
	for _, f := range []struct {
		is   bool
		word string
	}{{o.Role&1 != 0, "executable"}, {o.Role&2 != 0, "debug"}, {o.DebugCompanion, "companion"}, {o.Main, "main"}} {
		if f.is {
			flags = append(flags, f.word)
		}
	}
	if o.Role&^3 != 0 {
		flags = append(flags, fmt.Sprintf("role%d", o.Role))
	}
	return fmt.Sprintf("%s %s code=%s debug=%s build=%s %s %s size=%d", o.Kind, o.Arch, o.CodeID, o.DebugID.Breakpad(), o.BuildID,
		strings.Join(flags, "+"), strings.Join(o.Features.Words(), "+"), o.DebugSize)
}

// damage runs a parser on cut and on bit-flipped forms of a file.
func damage(t *testing.T, identify identifier, folder string, mayCut func(path string, n int) bool) {
	for path, p := range realFiles(t, folder) {
		for n := 0; n < len(p); n += 1 + n/97 {
			if _, err := identifyBytes(t, identify, "x", p[:n]); err == nil && !mayCut(path, n) {
				t.Errorf("%s cut to %d of %d bytes is accepted", path, n, len(p))
				break
			}
		}
		for i := 0; i < len(p); i += 1 + i/97 {
			q := bytes.Clone(p)
			for _, c := range []byte{0x00, 0xff, p[i] ^ 1, p[i] ^ 0x80} {
				q[i] = c
				_, _ = identifyBytes(t, identify, "x", q)
			}
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxAlloc is what no parser may exceed, whatever the input.
const maxAlloc = 16 << 20

// TestMaterial compares with what other programs say of a collection of real
// files, named with their ids in a table expected.tsv.
func TestMaterial(t *testing.T) {
	dir, rows := symtest.Table(t)
	parsers := map[string]identifier{"elf": identifyELF, "macho": identifyMachO, "wasm": identifyWASM}
	done := 0
	for _, row := range rows {
		get := func(name string) string { return strings.TrimPrefix(row[name], "-") }
		identify := parsers[get("kind")]
		if identify == nil {
			continue
		}
		done++
		t.Run(get("path")+" "+get("arch"), func(t *testing.T) {
			p, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(get("path"))))
			if err != nil {
				t.Fatal(err)
			}
			objects, err := identifyBytes(t, identify, filepath.Base(get("path")), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				if o.Arch == get("arch") {
					checkMaterial(t, o, get, p)
					return
				}
			}
			t.Errorf("no object of %s", get("arch"))
		})
	}
	if done == 0 {
		t.Error("the table names no ELF, Mach-O or WASM file")
	}
}

func checkMaterial(t *testing.T, o Object, get func(string) string, p []byte) {
	if o.Kind.String() != get("kind") || o.CodeID != get("code_id") || o.DebugID.Breakpad() != get("debug_id") {
		t.Errorf("got %s, want %s, code id %q, debug id %q", summary(o), get("kind"), get("code_id"), get("debug_id"))
	}
	if want := get("debuginfod"); o.Kind.String() == "elf" && want != "" {
		var got []string
		if o.Role&1 != 0 {
			got = append(got, "buildid/"+o.CodeID+"/executable")
		}
		if o.Role&2 != 0 {
			got = append(got, "buildid/"+o.CodeID+"/debuginfo")
		}
		if strings.Join(got, ";") != want {
			t.Errorf("debuginfod %v, want %s", got, want)
		}
	}
	if kind := get("object_kind"); kind != "" && strings.HasSuffix(kind, "debug companion") != o.DebugCompanion {
		t.Errorf("debug companion %v, want it to agree with the kind %q", o.DebugCompanion, kind)
	}
	for _, note := range strings.Split(get("notes"), ";") {
		key, value, _ := strings.Cut(note, "=")
		switch key {
		case "slice_size":
			if strconv.FormatInt(o.Size, 10) != value {
				t.Errorf("slice of %d bytes, want %s", o.Size, value)
			}
		case "slice_sha256":
			if sum := fmt.Sprintf("%x", sha256.Sum256(p[o.Offset:o.Offset+o.Size])); sum != value {
				t.Errorf("slice at %d has hash %s, want %s", o.Offset, sum, value)
			}
		case "payload_id":
			if string(o.BuildID) != value {
				t.Errorf("build id %s, want %s", o.BuildID, value)
			}
		}
	}
}
