package watch

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/index/watched"
)

// buildDir is the build directory in the debug information of testdata/elf, whose source
// file is prog.c.
const buildDir = "/usr/src/symdepot-src"

// rebuilt returns the program as if it was built of other files. The names must be as long
// as buildDir and prog.c.
func rebuilt(t testing.TB, elf []byte, dir, name string) []byte {
	t.Helper()
	if len(dir) != len(buildDir) || len(name) != len("prog.c") {
		t.Fatalf("%s/%s is not as long as %s/prog.c", dir, name, buildDir)
	}
	elf = bytes.ReplaceAll(elf, []byte(buildDir), []byte(dir))
	return bytes.ReplaceAll(elf, []byte("prog.c\x00"), []byte(name+"\x00"))
}

// TestSourcePackages: a source file comes out of the package that has exactly its path, of
// several the one whose name is most like that of the object's package; or out of a Debian
// source package.
func TestSourcePackages(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	src := func(s string) entry { return entry{"usr/src/symdepot-src/prog.c", []byte(s)} }
	prog := makeDeb(t, true, entry{"usr/bin/prog", m.prog})
	long := append(bytes.Repeat([]byte("x"), 3<<20), "end"...)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		path  string
		want  string // the beginning; "" if the file must not be found
	}{
		{"exact path", map[string][]byte{"prog-src_1.deb": makeDeb(t, false, src("exact"))}, "/usr/src/symdepot-src/prog.c", "exact"},
		{"unclean path", map[string][]byte{"prog-src_1.deb": makeDeb(t, false, src("exact"))}, "/usr/./src//x/../symdepot-src/prog.c", "exact"},
		{"path without a slash", map[string][]byte{"prog-src_1.deb": makeDeb(t, false, src("exact"))}, "usr/src/symdepot-src/prog.c", "exact"},
		{"package with a list of files", map[string][]byte{"prog-src_1.deb": makeDeb(t, true, src("listed"))}, "/usr/src/symdepot-src/prog.c", "listed"},
		{"after an object", map[string][]byte{"prog-src_1.tar.zst": zst(t, makeTar(t, entry{"lib.so", m.lib}, entry{"x.c", long}, src("behind")))}, "/usr/src/symdepot-src/prog.c", "behind"},
		{"zip", map[string][]byte{"src.zip": makeZip(t, zip.Deflate, src("zipped"))}, "/usr/src/symdepot-src/prog.c", "zipped"},
		{"stored in a zip", map[string][]byte{"src.zip": makeZip(t, zip.Store, entry{"x.c", long}, src("stored"))}, "/usr/src/symdepot-src/prog.c", "stored"},
		{"large in a zip", map[string][]byte{"src.zip": makeZip(t, zip.Deflate, entry{"usr/src/symdepot-src/prog.c", long})}, "/usr/src/symdepot-src/prog.c", "xxx"},
		{"tar", map[string][]byte{"src.tar": makeTar(t, entry{"x.c", long}, src("plain"))}, "/usr/src/symdepot-src/prog.c", "plain"},
		{"nearest package", map[string][]byte{"prog_1.9-src.deb": makeDeb(t, false, src("1.9")), "prog_1.8-src.deb": makeDeb(t, false, src("1.8")), "other.deb": makeDeb(t, false, src("other"))}, "/usr/src/symdepot-src/prog.c", "1.9"},
		{"not in the debug information", map[string][]byte{"prog-src_1.deb": makeDeb(t, false, src("exact"), entry{"usr/src/symdepot-src/other.c", []byte("x")})}, "/usr/src/symdepot-src/other.c", ""},
		{"another path", map[string][]byte{"prog-src_1.deb": makeDeb(t, false, entry{"usr/src/other/prog.c", []byte("x")})}, "/usr/src/symdepot-src/prog.c", ""},
		{"another case", map[string][]byte{"prog-src_1.deb": makeDeb(t, false, src("exact"))}, "/usr/src/symdepot-src/PROG.C", ""},
		{"dots in the package", map[string][]byte{"p.tar": makeTar(t, entry{"x/../usr/src/symdepot-src/prog.c", []byte("x")})}, "/usr/src/symdepot-src/prog.c", ""},
		{"source package", map[string][]byte{"symdepot_1.orig.tar.gz": gz(t, makeTar(t, entry{"symdepot-src/prog.c", []byte("orig")}, entry{"symdepot-src/other/prog.c", []byte("no")}))}, "/usr/src/symdepot-src/prog.c", "orig"},
		{"source package in another folder", map[string][]byte{"prog_1.orig.tar.gz": gz(t, makeTar(t, entry{"prog-1/symdepot-src/prog.c", []byte("renamed")}))}, "/usr/src/symdepot-src/prog.c", "renamed"},
		{"source package of another program", map[string][]byte{"nothing_1.orig.tar.gz": gz(t, makeTar(t, entry{"nothing-1/symdepot-src/prog.c", []byte("foreign")}))}, "/usr/src/symdepot-src/prog.c", ""},
		{"ambiguous source packages", map[string][]byte{
			"symdepot_1.orig.tar.gz": gz(t, makeTar(t, entry{"symdepot-src/prog.c", []byte("one")})),
			"symdepot_2.orig.tar.gz": gz(t, makeTar(t, entry{"symdepot-src/prog.c", []byte("two")})),
		}, "/usr/src/symdepot-src/prog.c", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "prog_1.9-1_amd64.deb", prog)
			for name, body := range c.files {
				put(t, dir, "src/"+name, body)
			}
			f := open(t, dir, Options{})
			scanned(t, f)
			path := "buildid/" + m.id + "/source/" + strings.TrimPrefix(c.path, "/")
			if c.want == "" {
				wantMissing(t, f, path)
				return
			}
			a, got, err := get(t, f, path)
			if err != nil || !strings.HasPrefix(string(got), c.want) {
				t.Fatalf("%q, %v, want %q", got, err, c.want)
			}
			if a.Archive == "" || !strings.HasSuffix(a.Path, "prog.c") {
				t.Errorf("the answer is %q in %q, want the member of a package", a.Path, a.Archive)
			}
			for name := range c.files {
				if err := os.Remove(filepath.Join(dir, "src", name)); err != nil {
					t.Fatal(err)
				}
			}
			wantMissing(t, f, path)
		})
	}
}

// TestZipSources: the index knows where source files are in a zip file, which is not
// looked for in its directory then, and one whose checksum differs is not served.
func TestZipSources(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		dir := t.TempDir()
		put(t, dir, "prog", m.prog)
		text := []byte("int main(void) { return 0; } // the one\n")
		const member = "usr/src/symdepot-src/prog.c"
		body := makeZip(t, method, entry{"usr/include/x.h", []byte("x")}, entry{member, text})
		put(t, dir, "src.zip", body)
		f := open(t, dir, Options{})
		scanned(t, f)
		_, rows, _, err := f.db.Dir(t.Context(), "")
		at := slices.IndexFunc(rows, func(row watched.File) bool { return row.Name == "src.zip" })
		if err != nil || at < 0 {
			t.Fatalf("src.zip has no row: %v", err)
		}
		files, err := f.sourceFiles(t.Context(), &rows[at], "prog.c")
		if err != nil || len(files) != 1 || files[0].sum == nil || files[0].place.Method == scan.Nested || files[0].size != int64(len(text)) {
			t.Fatalf("method %d: the index has %+v, %v, want the place and the checksum of %s", method, files, err, member)
		}
		path := "buildid/" + m.id + "/source/" + member
		wantBytes(t, f, path, text)

		body[files[0].place.Base+5] ^= 1
		put(t, dir, "src.zip", body)
		scanned(t, f)
		wantMissing(t, f, path)
	}
}

// TestSourceOnDisk: a file at the very path is served only if it lies in the watched
// folder and is not newer than the object's entry.
func TestSourceOnDisk(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of Unix")
	}
	m := testMaterial(t)
	home := "/tmp/w" + rand.Text()[:len(buildDir)-len("/tmp/w")]
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	put(t, home, "prog", rebuilt(t, m.prog, home, "prog.c"))
	put(t, home, "prog.c", []byte("the source"))
	put(t, home, "other.c", []byte("not named"))
	f := open(t, home, Options{})
	scanned(t, f)
	path := "buildid/" + m.id + "/source" + home
	wantBytes(t, f, path+"/prog.c", []byte("the source"))
	wantBytes(t, f, path+"//x/../prog.c", []byte("the source"))
	wantMissing(t, f, path+"/other.c")
	// A newer file is not the one that was compiled.
	put(t, home, "prog.c", []byte("edited"))
	if err := os.Chtimes(filepath.Join(home, "prog.c"), time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, f, path+"/prog.c")
	// A link out of the folder is not followed.
	if err := os.Remove(filepath.Join(home, "prog.c")); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	put(t, outside, "prog.c", []byte("outside"))
	symtest.Symlink(t, filepath.Join(outside, "prog.c"), filepath.Join(home, "prog.c"))
	wantMissing(t, f, path+"/prog.c")
}

// TestSecretsOnDisk: a program in the watched folder, which names what it likes in its debug
// information, publishes nothing of the folder that is no source file.
func TestSecretsOnDisk(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of Unix")
	}
	m := testMaterial(t)
	const secret = "DB_PASSWORD=hunter2\n"
	wide := "\xff\xfei\x00n\x00t\x00 \x00x\x00;\x00"
	for _, c := range []struct {
		what, dir, file, text string
		sum, want             bool
	}{
		{"a source file", "src", "prog.c", "int x;", false, true},
		{"a source file in UTF-16", "src", "prog.c", wide, false, true},
		{"an empty source file", "src", "prog.c", "", false, true},
		{"variables", "src", "s3.env", secret, false, false},
		{"a key", "src", "id_rsa", secret, false, false},
		{"a certificate's key", "src", "my.pem", secret, false, false},
		{"bytes with the name of a source file", "src", "prog.c", "\x00\x01" + secret, false, false},
		{"bytes behind text", "src", "prog.c", strings.Repeat("int x;\n", 9000) + "\x00", false, false},
		{"a hidden file", "src", ".env.c", secret, false, false},
		{"a hidden folder", ".git", "prog.c", secret, false, false},
		{"a hidden folder above", ".a/b", "prog.c", secret, false, false},
		{"another file with its checksum", "src", "s3.env", "int x;", true, true},
		{"a hidden file with its checksum", "src", ".env.c", "int x;", true, false},
	} {
		root := "/tmp/w" + rand.Text()[:len(buildDir)-len("/tmp/w")-len(c.dir)-1]
		dir := root + "/" + c.dir
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(root) })
		put(t, root, "prog", rebuilt(t, m.prog, dir, c.file))
		put(t, dir, c.file, []byte(c.text))
		f := open(t, root, Options{})
		scanned(t, f)
		if !c.sum {
			if path := "buildid/" + m.id + "/source" + dir + "/" + c.file; c.want {
				wantBytes(t, f, path, []byte(c.text))
			} else {
				wantMissing(t, f, path)
			}
			continue
		}
		hits, err := f.lookup(t.Context(), route(t, "buildid/"+m.id+"/debuginfo").Lookups[0])
		if err != nil || len(hits) != 1 {
			t.Fatalf("%s: %d objects, %v, want 1", c.what, len(hits), err)
		}
		sum := md5.Sum([]byte(c.text))
		a, err := (&seeker{f, &hits[0], dir + "/" + c.file, named{alg: "md5", sum: sum[:]}}).onDisk(t.Context())
		if c.want != (err == nil) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it served: %v", c.what, err, c.want)
		}
		if err == nil {
			_ = a.Close()
		}
	}
}

// TestHostileNames: a path that debug information names is served only out of the watched
// folder.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	etc := "/" + strings.Repeat("/", len(buildDir)-len("//etc")) + "/etc"
	put(t, dir, "prog", rebuilt(t, m.prog, etc, "passwd"))
	f := open(t, dir, Options{})
	scanned(t, f)
	hits, err := f.lookup(t.Context(), route(t, "buildid/"+m.id+"/debuginfo").Lookups[0])
	if err != nil || len(hits) != 1 {
		t.Fatalf("%d objects, %v, want 1", len(hits), err)
	}
	list, err := f.namesOf(t.Context(), &hits[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := list.value["/etc/passwd"]; !ok {
		t.Fatalf("the debug information names %v, want /etc/passwd", list.value)
	}
	wantMissing(t, f, "buildid/"+m.id+"/source/etc/passwd")
}

// TestNameLists: the names of an object are read once for all that ask at the same time,
// and the lists that were used last stay in memory.
func TestNameLists(t *testing.T) {
	t.Parallel()
	var l keptLists[map[string]named]
	for i := range 5 {
		key := fmt.Sprint(i)
		if n, err := l.get(t.Context(), key); n != nil || err != nil {
			t.Fatalf("%v, %v, want to make the list", n, err)
		}
		l.put(key, &nameList{key: key, bytes: maxKept / 2})
	}
	if n, err := l.get(t.Context(), "4"); n == nil || err != nil {
		t.Fatalf("the list used last: %v, %v, want it kept", n, err)
	}
	if len(l.lists) > 2 {
		t.Errorf("%d lists are kept, want 2", len(l.lists))
	}
	if n, err := l.get(t.Context(), "0"); n != nil || err != nil {
		t.Fatalf("%v, %v, want to make the list again", n, err)
	}
	l.put("0", nil)
	if _, err := l.get(t.Context(), "0"); err != nil {
		t.Fatal(err)
	}
	l.put("0", nil)
}

// TestNamesRow: a list of source files survives its row, and a damaged row is an error.
func TestNamesRow(t *testing.T) {
	t.Parallel()
	files := []sourceFile{{"usr/src/a.c", member{size: 5}}, {"usr/src/ab.c", member{size: -1}}, {"x.h", member{size: 1 << 40}}}
	files[0].place.Method, files[0].place.Base, files[0].place.Packed, files[0].place.Offset = 5, 100, 200, 512
	sum := uint32(1 << 31)
	files = append(files, sourceFile{"y.h", member{7, scan.Place{Method: scan.Deflate, Base: 1, Packed: 9}, &sum}}, sourceFile{"z.h", member{3, scan.Place{Method: scan.Stored, Base: 1, Packed: 3}, nil}})
	row := encodeNames(files)
	got, err := decodeNames(row)
	if err != nil || !reflect.DeepEqual(got, files) {
		t.Errorf("the row has %v, %v, want %v", got, err, files)
	}
	for i := 1; i < len(row); i++ {
		if _, err := decodeNames(row[:i]); err == nil {
			t.Errorf("a row that is cut at %d of %d bytes is no error", i, len(row))
		}
	}
	if _, err := decodeNames([]byte("x")); !errors.Is(err, errRow) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a damaged row: %v, want %v", err, errRow)
	}
}

// decodeNames returns all files of a list in their order, and finds each by its name.
func decodeNames(list []byte) (files []sourceFile, err error) {
	names, err := unpackNames(list)
	if err != nil {
		return nil, err
	}
	for _, at := range slices.SortedFunc(slices.Values(names.at), func(a, b nameAt) int { return cmp.Compare(a.off, b.off) }) {
		f := names.file(at.off)
		if found := names.named(path.Base(f.name)); len(found) != 1 || found[0].name != f.name {
			return nil, fmt.Errorf("%s is found as %v", f.name, found)
		}
		files = append(files, f)
	}
	return files, nil
}
