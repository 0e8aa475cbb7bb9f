package watch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// entry is a member of an archive that a test makes.
type entry struct {
	name string
	data []byte
}

func makeTar(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Size: int64(len(e.data)), Mode: 0o644, ModTime: time.Unix(1e9, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func makeZip(t testing.TB, method uint16, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func makeAr(entries ...entry) []byte {
	b := []byte("!<arch>\n")
	for _, e := range entries {
		b = fmt.Appendf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", e.name, 1_000_000_000, 0, 0, "100644", len(e.data))
		b = append(b, e.data...)
		if len(e.data)%2 == 1 {
			b = append(b, '\n')
		}
	}
	return b
}

func zst(t testing.TB, p []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(p, nil)
}

func gz(t testing.TB, p []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// makeDeb makes a Debian package. Its list of files is left out if listed is false.
func makeDeb(t testing.TB, listed bool, entries ...entry) []byte {
	t.Helper()
	var sums, data []entry
	var text strings.Builder
	for _, e := range entries {
		data = append(data, entry{"./" + e.name, e.data})
		fmt.Fprintf(&text, "%032x  %s\n", 0, e.name)
	}
	sums = append(sums, entry{"./control", []byte("Package: p\n")})
	if listed {
		sums = append(sums, entry{"./md5sums", []byte(text.String())})
	}
	return makeAr(entry{"debian-binary", []byte("2.0\n")}, entry{"control.tar.gz", gz(t, makeTar(t, sums...))}, entry{"data.tar.zst", zst(t, makeTar(t, data...))})
}

func open(t testing.TB, dir string, opt Options) *Folder {
	t.Helper()
	if opt.Index == "" {
		opt.Index = filepath.Join(t.TempDir(), "watch.db")
	}
	if opt.TempDir == "" {
		opt.TempDir = t.TempDir()
	}
	f, err := Open(t.Context(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func scanned(t testing.TB, f *Folder) ScanStats {
	t.Helper()
	s, err := f.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put writes a file, and the folders around it.
func put(t testing.TB, dir, name string, body []byte) {
	t.Helper()
	symtest.Put(t, dir, name, body)
}

func route(t testing.TB, path string) layout.Request {
	t.Helper()
	segs, err := layout.Segments("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	req, err := layout.Route(segs)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// get asks for a path and reads the answer.
func get(t testing.TB, f *Folder, path string) (*File, []byte, error) {
	t.Helper()
	a, err := f.Open(t.Context(), route(t, path))
	if err != nil {
		return nil, nil, err
	}
	defer a.Close()
	b, err := io.ReadAll(io.NewSectionReader(a, 0, a.Size))
	if err == nil && a.Changed() {
		err = errChanged
	}
	return a, b, err
}

func wantBytes(t testing.TB, f *Folder, path string, want []byte) *File {
	t.Helper()
	a, got, err := get(t, f, path)
	if err != nil {
		t.Fatalf("%s: %v, want %d bytes", path, err, len(want))
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: %d other bytes, want %d", path, len(got), len(want))
	}
	return a
}

func wantMissing(t testing.TB, f *Folder, path string) {
	t.Helper()
	if _, _, err := get(t, f, path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s: %v, want %v", path, err, fs.ErrNotExist)
	}
}

// material are files of testdata with their build-ids.
type material struct {
	prog, stripped, debug, lib []byte
	id, libID                  string
}

func testMaterial(t testing.TB) material {
	t.Helper()
	m := material{
		prog: symtest.Testdata(t, "elf/prog-sha1"), stripped: symtest.Testdata(t, "elf/prog-sha1.stripped"),
		debug: symtest.Testdata(t, "elf/prog-sha1.debug"), lib: symtest.Testdata(t, "elf/libprog.so"),
	}
	m.id, m.libID = buildID(t, m.prog), buildID(t, m.lib)
	return m
}

func buildID(t testing.TB, elf []byte) string {
	t.Helper()
	o, err := objfile.Identify(bytes.NewReader(elf), int64(len(elf)), "prog", objfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return string(o[0].BuildID)
}

// TestFormats: members of packages of each format answer with their bytes, from the
// place that is noted for them.
func TestFormats(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	body := []entry{{"etc/readme", []byte("read me")}, {"usr/bin/prog", m.stripped}, {"usr/lib/libprog.so", m.lib}, {"usr/share/doc/p/changelog.gz", gz(t, []byte("text"))}}
	tarred := makeTar(t, body...)
	for _, c := range []struct {
		name          string
		body          []byte
		path, archive string
	}{
		{"prog", m.stripped, "", ""},
		{"prog.gz", gz(t, m.stripped), "", ""},
		{"p.tar", tarred, "/usr/bin/prog", "p.tar"},
		{"p.tar.gz", gz(t, tarred), "/usr/bin/prog", "p.tar.gz"},
		{"p.pkg.tar.zst", zst(t, tarred), "/usr/bin/prog", "p.pkg.tar.zst"},
		{"p.deb", makeDeb(t, true, body...), "/usr/bin/prog", "p.deb"},
		{"unlisted.deb", makeDeb(t, false, body...), "/usr/bin/prog", "unlisted.deb"},
		{"stored.zip", makeZip(t, zip.Store, body...), "/usr/bin/prog", "stored.zip"},
		{"p.nupkg", makeZip(t, zip.Deflate, body...), "/usr/bin/prog", "p.nupkg"},
		// Alpine's packages are three gzip streams: signature, control, contents.
		{"p.apk", append(gz(t, makeTar(t, entry{".SIGN.RSA.key", []byte("x")})[:1024]), gz(t, tarred)...), "/usr/bin/prog", "p.apk"},
		{"nested.zip", makeZip(t, zip.Deflate, entry{"inner.tar.gz", gz(t, tarred)}), "/inner.tar.gz!/usr/bin/prog", "nested.zip"},
		{"packed-member.tar", makeTar(t, entry{"lib/modules/prog.gz", gz(t, m.stripped)}), "/lib/modules/prog.gz", "packed-member.tar"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "sub/"+c.name, c.body)
			f := open(t, dir, Options{})
			wantMissing(t, f, "buildid/"+m.id+"/executable")
			if s := scanned(t, f); s.Read != 1 || s.Objects == 0 || s.Problems != 0 {
				t.Fatalf("the scan read %d files with %d objects and %d problems, want 1 file with objects", s.Read, s.Objects, s.Problems)
			}
			a := wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
			archive, path := "", filepath.Join(dir, "sub", c.name)
			if c.archive != "" {
				archive, path = path, c.path
			}
			if a.Archive != archive || a.Path != path {
				t.Errorf("the answer is %q in %q, want %q in %q", a.Path, a.Archive, path, archive)
			}
			wantMissing(t, f, "buildid/"+m.id+"/debuginfo")
			wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped) // out of the cache
			if s := scanned(t, f); s.Read != 0 || s.Gone != 0 {
				t.Errorf("a second scan read %d files and misses %d, want none", s.Read, s.Gone)
			}
		})
	}
}

// TestRank: of several files with one id the smallest answers that has what is asked for,
// and sections come from the file that has them.
func TestRank(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "unstripped/prog", m.prog)
	f := open(t, dir, Options{})
	scanned(t, f)
	wantBytes(t, f, "buildid/"+m.id+"/debuginfo", m.prog)
	wantBytes(t, f, "buildid/"+m.id+"/executable", m.prog)
	put(t, dir, "p.deb", makeDeb(t, true, entry{"usr/bin/prog", m.stripped}))
	put(t, dir, "p-dbgsym.ddeb", makeDeb(t, true, entry{"usr/lib/debug/.build-id/" + m.id[:2] + "/" + m.id[2:] + ".debug", m.debug}))
	scanned(t, f)
	wantBytes(t, f, "buildid/"+m.id+"/debuginfo", m.debug)
	wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
	wantBytes(t, f, "prog/elf-buildid-"+m.id+"/prog", m.stripped)
	for _, c := range []struct {
		section string
		of      []byte
	}{{".text", m.prog}, {".debug_info", m.debug}} {
		off, n, err := objfile.ELFSection(bytes.NewReader(c.of), int64(len(c.of)), c.section)
		if err != nil {
			t.Fatal(err)
		}
		wantBytes(t, f, "buildid/"+m.id+"/section/"+c.section, c.of[off:off+n])
	}
	wantMissing(t, f, "buildid/"+m.id+"/section/.nothing")
	wantMissing(t, f, "buildid/"+m.libID+"/executable")
}

// TestChanges: a file that has changed or gone is absent at once, and answers again after
// the next scan.
func TestChanges(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	path := func(id string) string { return "buildid/" + id + "/executable" }
	for _, c := range []struct {
		name   string
		change func(t *testing.T, file string)
		after  []byte // what answers to the program's id after the next scan; nil: nothing
	}{
		{"touched", func(t *testing.T, file string) {
			if err := os.Chtimes(file, time.Time{}, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		}, m.stripped},
		{"replaced by another of the same size and time", func(t *testing.T, file string) {
			fi, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			other := bytes.Replace(b, buildIDBytes(t, m.id), make([]byte, 20), 1)
			symtest.Put(t, filepath.Dir(file), "new", other)
			if err := os.Chtimes(filepath.Join(filepath.Dir(file), "new"), time.Time{}, fi.ModTime()); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(filepath.Dir(file), "new"), file); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"grown", func(t *testing.T, file string) {
			w, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write([]byte("more"))
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}, append(bytes.Clone(m.stripped), "more"...)},
		{"deleted", func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"moved to a new folder", func(t *testing.T, file string) {
			if err := os.Rename(filepath.Dir(file), filepath.Dir(file)+"2"); err != nil {
				t.Fatal(err)
			}
		}, m.stripped},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "a/b/prog", m.stripped)
			f := open(t, dir, Options{})
			scanned(t, f)
			a, err := f.Open(t.Context(), route(t, path(m.id)))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if a.Changed() {
				t.Fatal("the file has changed before it was changed")
			}
			if c.name == "deleted" || strings.HasPrefix(c.name, "replaced") {
				symtest.NeedsMoreThanWine(t, "a removed file keeps its name until it is closed")
			}
			c.change(t, filepath.Join(dir, "a/b/prog"))
			wantMissing(t, f, path(m.id))
			scanned(t, f)
			if c.after == nil {
				wantMissing(t, f, path(m.id))
			} else {
				wantBytes(t, f, path(m.id), c.after)
			}
			if s := scanned(t, f); s.Read != 0 || s.Gone != 0 {
				t.Errorf("one more scan read %d files and misses %d, want none", s.Read, s.Gone)
			}
		})
	}
}

func buildIDBytes(t testing.TB, id string) []byte {
	t.Helper()
	var b []byte
	for i := 0; i < len(id); i += 2 {
		var c byte
		if _, err := fmt.Sscanf(id[i:i+2], "%02x", &c); err != nil {
			t.Fatal(err)
		}
		b = append(b, c)
	}
	return b
}

// TestChangedWhileRead: bytes that were read from a file that changes meanwhile are
// reported.
func TestChangedWhileRead(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "prog", m.stripped)
	f := open(t, dir, Options{})
	scanned(t, f)
	a, err := f.Open(t.Context(), route(t, "buildid/"+m.id+"/executable"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.WriteFile(filepath.Join(dir, "prog"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !a.Changed() {
		t.Error("a file that was overwritten has not changed, want it reported")
	}
}

// TestOutside: links are not followed.
func TestOutside(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	outside := t.TempDir()
	put(t, outside, "prog", m.stripped)
	dir := t.TempDir()
	symtest.Symlink(t, outside, filepath.Join(dir, "dirlink"))
	symtest.Symlink(t, filepath.Join(outside, "prog"), filepath.Join(dir, "link"))
	put(t, dir, "lib", m.lib)
	f := open(t, dir, Options{})
	if s := scanned(t, f); s.Files != 1 {
		t.Errorf("the scan saw %d files, want 1", s.Files)
	}
	wantMissing(t, f, "buildid/"+m.id+"/executable")
	wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
	// A file that is replaced by a link to a file outside is absent.
	if err := os.Remove(filepath.Join(dir, "lib")); err != nil {
		t.Fatal(err)
	}
	put(t, outside, "lib", m.lib)
	symtest.Symlink(t, filepath.Join(outside, "lib"), filepath.Join(dir, "lib"))
	wantMissing(t, f, "buildid/"+m.libID+"/executable")
}

// TestHostile: packages that lie are left out whole until they change, and say why.
func TestHostile(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	good := makeDeb(t, true, entry{"usr/bin/prog", m.stripped}, entry{"usr/lib/libprog.so", m.lib})
	bomb := makeTar(t, entry{"usr/bin/prog", m.stripped}, entry{"bomb", make([]byte, 64<<20)})
	for _, c := range []struct {
		name string
		body []byte
		opt  Options
	}{
		{"cut.deb", good[:len(good)*3/4], Options{}},
		{"cut.tar", makeTar(t, entry{"usr/bin/prog", m.stripped}, entry{"b", make([]byte, 4096)})[:len(m.stripped)+2048], Options{}},
		{"damaged.tar.gz", func() []byte {
			b := gz(t, makeTar(t, entry{"usr/bin/prog", m.stripped}, entry{"x", m.lib}))
			b[len(b)/2] ^= 0xff
			return b
		}(), Options{}},
		{"bomb.tar.zst", zst(t, bomb), Options{unpackRatio: 10}},
		{"stored.zip", damagedZip(t, zip.Store, m.stripped), Options{}},
		{"deflated.zip", damagedZip(t, zip.Deflate, m.stripped), Options{}},
		{"large.zip", damagedZip(t, zip.Deflate, grow(t, m.prog, 3<<20)), Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, c.name, c.body)
			put(t, dir, "good/p.deb", makeDeb(t, true, entry{"usr/lib/libprog.so", m.lib}))
			f := open(t, dir, c.opt)
			if s := scanned(t, f); s.Problems != 1 {
				t.Errorf("the scan has %d problems, want 1", s.Problems)
			}
			wantMissing(t, f, "buildid/"+m.id+"/executable")
			wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
			if s := scanned(t, f); s.Read != 0 {
				t.Errorf("a second scan reads the package again, want it left out until it changes")
			}
			put(t, dir, c.name, good)
			if c.name != "cut.deb" {
				return
			}
			scanned(t, f)
			wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
		})
	}
}

// damagedZip is a zip file with a program whose checksum is not the one that the archive
// says.
func damagedZip(t testing.TB, method uint16, elf []byte) []byte {
	t.Helper()
	b := makeZip(t, method, entry{"usr/bin/prog", elf})
	sum := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(elf))
	if bytes.Count(b, sum) == 0 {
		t.Fatal("the archive has no checksum")
	}
	return bytes.ReplaceAll(b, sum, []byte("none"))
}

// TestLargeMember: of a large ELF file in a stream only the ends are read at the scan, and
// all of its bytes are served.
func TestLargeMember(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	big := grow(t, m.prog, 3<<20)
	dir := t.TempDir()
	put(t, dir, "p.tar.zst", zst(t, makeTar(t, entry{"a", m.lib}, entry{"usr/bin/prog", big}, entry{"z", m.lib})))
	f := open(t, dir, Options{})
	if s := scanned(t, f); s.Objects != 3 {
		t.Fatalf("the scan found %d objects, want 3", s.Objects)
	}
	wantBytes(t, f, "buildid/"+m.id+"/executable", big)
	wantBytes(t, f, "buildid/"+m.id+"/debuginfo", big)
}

// grow puts n bytes between the contents and the section headers of a 64-bit ELF file.
func grow(t testing.TB, elf []byte, n int) []byte {
	t.Helper()
	shoff := int(sectionHeaders(elf))
	big := bytes.Clone(elf[:shoff])
	big = append(big, make([]byte, n)...)
	big = append(big, elf[shoff:]...)
	for i := range 8 {
		big[40+i] = byte(uint64(shoff+n) >> (8 * i))
	}
	return big
}

// TestPDB: a folder of Windows builds answers as a symbol server, also with a PDB of a
// higher age.
func TestPDB(t *testing.T) {
	t.Parallel()
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	o, err := objfile.Identify(bytes.NewReader(pdb), int64(len(pdb)), "hello-x64.pdb", objfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, "build/hello-x64.pdb", pdb)
	f := open(t, dir, Options{})
	scanned(t, f)
	key := o[0].DebugID
	wantBytes(t, f, "hello-x64.pdb/"+key.Breakpad()+"/hello-x64.pdb", pdb)
	wantBytes(t, f, fmt.Sprintf("hello-x64.pdb/%s%x/hello-x64.pdb", key.GUID.Upper(), key.Age-1), pdb)
	wantMissing(t, f, fmt.Sprintf("hello-x64.pdb/%s%x/hello-x64.pdb", key.GUID.Upper(), key.Age+1))
	wantMissing(t, f, "other.pdb/"+key.Breakpad()+"f/other.pdb")
}

// TestRows: objects and places survive their rows.
func TestRows(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"elf/prog-sha1", "elf/prog-b2", "elf/e-mips-be", "elf/prog-split.dwp", "pdb/hello-x64.pdb", "elf/prog-noshdr"} {
		b := symtest.Testdata(t, name)
		objects, err := objfile.Identify(bytes.NewReader(b), int64(len(b)), name, objfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			row := encodeObject(&o, "other", 1)
			got, err := decodeObject(row, "other", 1)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", o) {
				t.Errorf("%s: the row has\n%+v, want\n%+v", name, got, o)
			}
			for i := range row {
				_, _ = decodeObject(row[:i], "other", 1)
			}
		}
	}
	if o, err := decodeObject([]byte{byte(symfile.ELF), 1, 0x80}, "x", 1); !errors.Is(err, errRow) {
		t.Errorf("a damaged row is %+v, %v, want %v", o, err, errRow)
	}
}

// TestBlocks: of xz data in several blocks only those are read that are needed, at the
// scan and for an answer.
func TestBlocks(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	big := grow(t, m.prog, 8<<20)
	data := makeTar(t, entry{"./usr/bin/prog", big}, entry{"./usr/lib/libprog.so", m.lib}, entry{"./usr/share/doc/long", make([]byte, 3<<20)})
	cmd := exec.Command(symtest.Tool(t, "xz"), "-c", "-0", "--block-size=1000000")
	cmd.Stdin = bytes.NewReader(data)
	packed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	// The middle of the program and the end are damaged: who reads them notices.
	damaged := bytes.Clone(packed)
	damaged[len(packed)/2]++
	dir := t.TempDir()
	put(t, dir, "p.deb", makeAr(entry{"debian-binary", []byte("2.0\n")}, entry{"data.tar.xz", packed}))
	f := open(t, dir, Options{})
	if s := scanned(t, f); s.Objects != 2 || s.Problems != 0 {
		t.Fatalf("the scan found %d objects and %d problems, want 2 and none", s.Objects, s.Problems)
	}
	wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
	wantBytes(t, f, "buildid/"+m.id+"/executable", big)
	put(t, dir, "p.deb", makeAr(entry{"debian-binary", []byte("2.0\n")}, entry{"data.tar.xz", damaged}))
	if s := scanned(t, f); s.Objects != 2 || s.Problems != 0 {
		t.Fatalf("the scan found %d objects and %d problems, want 2 and none: the damaged block need not be read", s.Objects, s.Problems)
	}
	wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
	if _, b, err := get(t, f, "buildid/"+m.id+"/executable"); err == nil {
		t.Errorf("a damaged member: %d bytes and no error, want an error", len(b))
	}
	wantMissing(t, f, "buildid/"+m.id+"/source/usr/src/symdepot-src/prog.c") // its names cannot be read
}

// TestCutList: a Debian package whose list of files cannot be read to its end is read whole.
func TestCutList(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	list := fmt.Sprintf("%032x  usr/bin/prog\n%032x  usr/share/%s\n%032x  usr/lib/libprog.so\n", 0, 0, strings.Repeat("x", 100_000), 0)
	dir := t.TempDir()
	put(t, dir, "p.deb", makeAr(entry{"debian-binary", []byte("2.0\n")}, entry{"control.tar.gz", gz(t, makeTar(t, entry{"./md5sums", []byte(list)}))},
		entry{"data.tar.gz", gz(t, makeTar(t, entry{"./usr/bin/prog", m.stripped}, entry{"./usr/lib/libprog.so", m.lib}))}))
	f := open(t, dir, Options{})
	if s := scanned(t, f); s.Objects != 2 {
		t.Fatalf("the scan found %d objects, want 2", s.Objects)
	}
	wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
}

// TestPrefetch: the members that follow a requested one are unpacked with it.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "p.tar.zst", zst(t, makeTar(t, entry{"a", m.stripped}, entry{"b", m.lib}, entry{"c", m.debug})))
	f := open(t, dir, Options{})
	scanned(t, f)
	wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
	symtest.Await(t, 10*time.Second, "the members behind it are unpacked", func() bool {
		return f.shelf.Held() == int64(len(m.stripped)+len(m.lib)+len(m.debug))
	})
	wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
	wantBytes(t, f, "buildid/"+m.id+"/debuginfo", m.debug)
	if held := f.shelf.Held(); held != int64(len(m.stripped)+len(m.lib)+len(m.debug)) {
		t.Errorf("%d bytes are held, want each member once", held)
	}
	put(t, dir, "p.tar.zst", zst(t, makeTar(t, entry{"b", m.lib})))
	wantMissing(t, f, "buildid/"+m.libID+"/executable") // the unpacked members are those of the old package
}
