package scan

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// entry is a member to be packed.
type entry struct {
	name string
	data string
}

var someTime = time.Unix(1700000000, 0)

func makeZip(t testing.TB, method uint16, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(93, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) })
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: method, Modified: someTime})
		must(t, err)
		_, err = io.WriteString(w, e.data)
		must(t, err)
	}
	must(t, z.Close())
	return b.String()
}

func makeTar(t testing.TB, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		must(t, w.WriteHeader(&tar.Header{Name: e.name, Size: int64(len(e.data)), Mode: 0o644, ModTime: someTime, Format: tar.FormatPAX}))
		_, err := io.WriteString(w, e.data)
		must(t, err)
	}
	must(t, w.Close())
	return b.String()
}

func makeAr(entries ...entry) string {
	s := arMagic
	for _, e := range entries {
		s += fmt.Sprintf("%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", e.name, 1700000000, 0, 0, 0o100644, len(e.data), e.data)
		if len(e.data)%2 == 1 {
			s += "\n"
		}
	}
	return s
}

func makeCPIO(entries ...entry) string {
	s := ""
	add := func(e entry, mode, links int) {
		s += fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 1, mode, 0, 0, links,
			1700000000, len(e.data), 0, 0, 0, 0, len(e.name)+1, 0)
		s += e.name + "\x00"
		s += strings.Repeat("\x00", -len(s)&3)
		s += e.data
		s += strings.Repeat("\x00", -len(s)&3)
	}
	for _, e := range entries {
		add(e, 0o100644, 1)
	}
	add(entry{name: cpioTrailer}, 0, 1)
	return s
}

func gz(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name = "../../lies"
	_, err := io.WriteString(w, s)
	must(t, err)
	must(t, w.Close())
	return b.String()
}

func zl(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := io.WriteString(w, s)
	must(t, err)
	must(t, w.Close())
	return b.String()
}

func zst(t testing.TB, s string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return string(w.EncodeAll([]byte(s), nil))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../testdata/scan", name))
	must(t, err)
	return string(b)
}

// write puts a file below dir and returns its path.
func write(t testing.TB, dir, name, data string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(data), 0o644))
	return path
}

// walkAll walks and renders each thing yielded as a line: "path name=data" or
// "path: reason". Paths below dir lose it.
func walkAll(t testing.TB, dir string, roots []string, opt Options) []string {
	t.Helper()
	var lines []string
	for f, err := range Walk(context.Background(), roots, opt) {
		var skip *Skip
		switch {
		case errors.As(err, &skip):
			lines = append(lines, fmt.Sprintf("%s: %s", rel(dir, skip.Path), skip.Reason))
			t.Log(skip)
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, fmt.Sprintf("%s %s=%s", rel(dir, f.Path), f.Name, short(read(t, f))))
			f.Discard()
		}
	}
	return lines
}

// rel returns the path below dir, with the slashes of the disk as /; those of the
// members of archives stay.
func rel(dir, path string) string {
	disk, members, in := strings.Cut(path, Separator)
	disk = strings.TrimPrefix(filepath.ToSlash(disk), filepath.ToSlash(dir)+"/")
	if !in {
		return disk
	}
	return disk + Separator + members
}

func short(s string) string {
	if len(s) > 40 && !strings.HasPrefix(s, "cannot") {
		return fmt.Sprintf("%d bytes", len(s))
	}
	return s
}

// read opens a file and reads it in both ways.
func read(t testing.TB, f *File) string {
	t.Helper()
	c, err := f.Open(context.Background())
	if err != nil {
		return "cannot open: " + err.Error()
	}
	defer c.Close()
	if f.Size >= 0 && f.Size != c.Size() {
		t.Errorf("%s: size %d, then %d, want the same", f.Path, f.Size, c.Size())
	}
	all, err := io.ReadAll(c.Reader())
	if err != nil {
		return "cannot read: " + err.Error()
	}
	p := make([]byte, c.Size())
	if n, err := c.ReadAt(p, 0); n != len(p) || err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("%s: ReadAt: %d, %v; want all bytes", f.Path, n, err)
	}
	if !bytes.Equal(p, all) {
		t.Errorf("%s: ReadAt and Reader differ", f.Path)
	}
	if _, err := c.ReadAt(make([]byte, 1), c.Size()); !errors.Is(err, io.EOF) {
		t.Errorf("%s: ReadAt at the end: %v, want io.EOF", f.Path, err)
	}
	if c.Changed() {
		t.Errorf("%s: changed", f.Path)
	}
	return string(all)
}

func checkLines(t *testing.T, got, want []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf(`Diff: %q, want ""`, d)
	}
}

func TestArchives(t *testing.T) {
	a, b := entry{"lib/a.so", "aaa"}, entry{`win\b.dll`, strings.Repeat("b", 200_000)}
	members := []string{"x!/lib/a.so a.so=aaa", `x!/win\b.dll b.dll=200000 bytes`}
	sample := func(prefix string) []string {
		return []string{prefix + "README README=readme\n", prefix + "usr/lib/debug/big.debug big.debug=9000 bytes",
			prefix + "usr/lib/hello.so hello.so=hello, symbols\n"}
	}
	rpm := []string{"x!/usr/lib/debug/big.debug big.debug=9000 bytes", "x!/usr/lib/hello2.so hello2.so=hello, symbols\n"}
	tests := []struct {
		name, data string
		want       []string
	}{
		{"zip deflated", makeZip(t, 8, a, b), members},
		{"zip stored", makeZip(t, 0, a, b), members},
		{"zip zstd", makeZip(t, 93, a, b), members},
		{"zip empty", makeZip(t, 8), nil},
		{"tar", makeTar(t, a, b), members},
		{"tar gzip", gz(t, makeTar(t, a, b)), members},
		{"tar zstd", zst(t, makeTar(t, a, b)), members},
		{"tar zlib", zl(t, makeTar(t, a, b)), members},
		{"tar xz", fixture(t, "sample.tar.xz"), sample("x!/")},
		{"tar bzip2", fixture(t, "sample.tar.bz2"), sample("x!/")},
		{"cpio", makeCPIO(a, b), members},
		{"cpio gzip", gz(t, makeCPIO(a, b)), members},
		{"deb", makeAr(entry{"debian-binary", "2.0\n"}, entry{"control.tar.gz", gz(t, makeTar(t, a))}, entry{"data.tar.gz/", gz(t, makeTar(t, a))}),
			[]string{"x!/data.tar.gz!/lib/a.so a.so=aaa"}},
		{"deb gzip", fixture(t, "sample-gzip.deb"), sample("x!/data.tar.gz!/")},
		{"deb xz", fixture(t, "sample-xz.deb"), sample("x!/data.tar.xz!/")},
		{"deb zstd", fixture(t, "sample-zstd.deb"), sample("x!/data.tar.zst!/")},
		{"deb none", fixture(t, "sample-none.deb"), sample("x!/data.tar!/")},
		{"rpm gzip", fixture(t, "sample-gzip.rpm"), rpm},
		{"rpm xz", fixture(t, "sample-xz.rpm"), rpm},
		{"rpm zstd", fixture(t, "sample-zstd.rpm"), rpm},
		{"rpm none", fixture(t, "sample-none.rpm"), rpm},
		{"static library", makeAr(a), []string{"x x=" + short(makeAr(a))}},
		{"source bundle", "SYSB" + makeZip(t, 8, a), []string{"x x=" + short("SYSB"+makeZip(t, 8, a))}},
		{"cabinet", "MSCF\x00\x00\x00\x00rest", []string{"x: " + string(ReasonDamaged)}},
		{"7z", "7z\xbc\xaf\x27\x1crest", []string{"x: " + string(ReasonUnsupported)}},
		{"empty file", "", []string{"x x="}},
		{"zip in zip", makeZip(t, 8, entry{"in.nupkg", makeZip(t, 8, a)}, a), []string{"x!/in.nupkg!/lib/a.so a.so=aaa", "x!/lib/a.so a.so=aaa"}},
		{"zip stored in zip", makeZip(t, 0, entry{"in.nupkg", makeZip(t, 0, a)}), []string{"x!/in.nupkg!/lib/a.so a.so=aaa"}},
		{"zip in tar", makeTar(t, entry{"in.zip", makeZip(t, 8, a)}, a), []string{"x!/in.zip!/lib/a.so a.so=aaa", "x!/lib/a.so a.so=aaa"}},
		{"zip in tar.gz", gz(t, makeTar(t, entry{"in.zip", makeZip(t, 8, a)}, a)), []string{"x!/in.zip!/lib/a.so a.so=aaa", "x!/lib/a.so a.so=aaa"}},
		{"tar.gz in tar.gz", gz(t, makeTar(t, entry{"in.tgz", gz(t, makeTar(t, a))}, a)), []string{"x!/in.tgz!/lib/a.so a.so=aaa", "x!/lib/a.so a.so=aaa"}},
		{"deb in zip", makeZip(t, 8, entry{"p.deb", fixture(t, "sample-xz.deb")}), sample("x!/p.deb!/data.tar.xz!/")},
		{"packed files in tar", makeTar(t, entry{"f.pdb.gz", gz(t, "pdb")}, entry{"g.pdb.ZST", zst(t, "pdb2")}),
			[]string{"x!/f.pdb.gz f.pdb=pdb", "x!/g.pdb.ZST g.pdb=pdb2"}},
		{"packed files in tar.gz", gz(t, makeTar(t, entry{"f.pdb.gz", gz(t, "pdb")})), []string{"x!/f.pdb.gz f.pdb=pdb"}},
		{"packed files in zip", makeZip(t, 8, entry{"f.pdb.gz", gz(t, "pdb")}), []string{"x!/f.pdb.gz f.pdb=pdb"}},
		{"names", makeTar(t, entry{"../../etc/p", "1"}, entry{"/abs", "2"}, entry{"././c:\\d", "3"}),
			[]string{"x!/../../etc/p p=1", "x!//abs abs=2", `x!/c:\d d=3`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "x", tt.data)
			checkLines(t, walkAll(t, dir, []string{dir}, Options{}), tt.want)
			// The same, with everything in temporary files.
			spool := t.TempDir()
			checkLines(t, walkAll(t, dir, []string{dir}, Options{MemberMemory: 1, TempDir: spool}), tt.want)
			left, err := os.ReadDir(spool)
			must(t, err)
			if len(left) != 0 {
				t.Errorf("temporary files left: %v, want none", left)
			}
		})
	}
}

func TestSingleFiles(t *testing.T) {
	want := func(head []byte, name string) error {
		if !bytes.HasPrefix(head, []byte("hello")) {
			return errors.New("no greeting")
		}
		return nil
	}
	hello := "hello, symbols\n"
	tests := []struct {
		name, data, want string
		opt              Options
	}{
		{"a.pdb.gz", gz(t, hello), "a.pdb=" + hello, Options{}},
		{"a.pdb.zst", zst(t, hello), "a.pdb=" + hello, Options{}},
		{"a.pdb.xz", fixture(t, "hello.txt.xz"), "a.pdb=" + hello, Options{}},
		{"a.pdb.bz2", fixture(t, "hello.txt.bz2"), "a.pdb=" + hello, Options{}},
		{"a.pdb.zz", zl(t, hello), "a.pdb=" + hello, Options{}},
		{"a.pdb.zlib", zl(t, hello), "a.pdb=" + hello, Options{}},
		{"a.pdb", zl(t, hello), "a.pdb=" + zl(t, hello), Options{}}, // nothing says that it is zlib
		{"a.pdb", zl(t, hello), "a.pdb=" + hello, Options{Want: want}},
		{"a.so", zl(t, "\x7fELF, compressed"), "a.so=\x7fELF, compressed", Options{}}, // a symbol file says it
		{"x^text", "x^text is no zlib", "x^text=x^text is no zlib", Options{}},
		{"nosuffix", gz(t, hello), "nosuffix=" + hello, Options{}},
		{".gz", gz(t, hello), ".gz=" + hello, Options{}},
		{"two.tgz", gz(t, gz(t, hello)), "two.tar=" + hello, Options{}},
		{"multi.gz", gz(t, "hello, ") + gz(t, "symbols\n"), "multi=" + hello, Options{}},
		{"skippable.zst", "\x50\x2a\x4d\x18\x02\x00\x00\x00ab" + zst(t, hello), "skippable=" + hello, Options{}},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		write(t, dir, tt.name, tt.data)
		checkLines(t, walkAll(t, dir, []string{dir}, tt.opt), []string{tt.name + " " + tt.want})
	}
	dir := t.TempDir()
	write(t, dir, "three.gz", gz(t, gz(t, gz(t, hello))))
	write(t, dir, "unwanted.gz", gz(t, "bye"))
	checkLines(t, walkAll(t, dir, []string{dir}, Options{Want: want}),
		[]string{"three.gz: " + string(ReasonDepth), "unwanted.gz: " + string(ReasonUnwanted)})
}

func TestFileFields(t *testing.T) {
	dir := t.TempDir()
	inner := makeZip(t, 8, entry{"lib/a.so", "aaa"})
	path := write(t, dir, "x.zip", makeZip(t, 8, entry{"./in.nupkg", inner}))
	packed := write(t, dir, "y.gz", gz(t, "yy"))
	var files []*File
	for f, err := range Walk(context.Background(), []string{path, packed}, Options{}) {
		must(t, err)
		files = append(files, f)
	}
	got := files[0]
	if got.Archive != path || got.Member != "in.nupkg!/lib/a.so" || got.Path != got.Archive+Separator+got.Member || got.Size != 3 || !got.ModTime.Equal(someTime) {
		t.Errorf("got %+v, want a.so in lib of in.nupkg, of 3 bytes", got)
	}
	if got := files[1]; got.Archive != "" || got.Member != "" || got.Path != packed || got.Size != -1 || got.ModTime.IsZero() {
		t.Errorf("got %+v, want a file outside of archives, of unknown size", got)
	}
	// A Content outlives its File, and a discarded File does not open.
	c, err := files[0].Open(context.Background())
	must(t, err)
	for _, f := range files {
		f.Discard()
		f.Discard()
	}
	p := make([]byte, 3)
	if _, err := c.ReadAt(p, 0); err != nil || string(p) != "aaa" {
		t.Errorf(`after Discard: %q, %v; want "aaa"`, p, err)
	}
	must(t, c.Close())
	must(t, c.Close())
	if _, err := files[0].Open(context.Background()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("open after Discard: %v, want fs.ErrClosed", err)
	}
}

func TestDamaged(t *testing.T) {
	a, b := entry{"a", strings.Repeat("a", 5000)}, entry{"b", strings.Repeat("b", 5000)}
	cut := func(s string, n int) string { return s[:len(s)-n] }
	broken := "x: " + string(ReasonDamaged)
	okA := "x!/a a=5000 bytes"
	flip := func(s, in, by string) string { return strings.Replace(s, in, by, 1) }
	rnd := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rnd {
		rnd[i] = byte(r.Uint32())
	}
	noise := entry{"n", string(rnd)}
	tests := []struct {
		name, data string
		want       []string
	}{
		{"tar cut in member", makeTar(t, a, b)[:512+5120+512+100], []string{okA, broken}},
		{"tar.gz cut", cut(gz(t, makeTar(t, a, noise)), 5000), []string{okA, broken}},
		{"tar.zst cut", cut(zst(t, makeTar(t, noise)), 5000), []string{broken}},
		{"tar.xz cut", cut(fixture(t, "sample.tar.xz"), 100), []string{broken}},
		{"gz cut", cut(gz(t, string(rnd)), 6), []string{`x x=cannot open: x: ` + string(ReasonDamaged) + ": unexpected EOF"}},
		{"gz cut early", cut(gz(t, "hello"), 6), []string{broken}},
		{"gz header only", gz(t, "hello")[:5], []string{broken}},
		{"gz nothing", "\x1f\x8b\x08\x00", []string{broken}},
		{"zip cut", cut(makeZip(t, 8, a, b), 30), []string{broken}},
		{"zip without end", makeZip(t, 8, a, b)[:100], []string{broken}},
		{"zip member flipped", flip(makeZip(t, 0, a, b), "aaaa", "aaxa"), []string{"x!/a a=cannot read: checksum does not match", "x!/b b=5000 bytes"}},
		{"cpio cut", makeCPIO(a, b)[:5000+200+300], []string{okA, broken}},
		{"cpio without trailer", makeCPIO(a)[:112+5000], []string{okA, broken}},
		{"cpio bad header", flip(makeCPIO(a, b), "b\x00", "b\x00\xff")[:8000], []string{okA, broken}},
		{"deb cut", cut(fixture(t, "sample-none.deb"), 12_000),
			[]string{"x!/data.tar!/README README=readme\n", "x!/data.tar: " + string(ReasonDamaged), broken}},
		{"deb in cut gz", cut(gz(t, makeAr(entry{"debian-binary", "2.0\n"}, entry{"data.tar", makeTar(t, noise)})), 5000),
			[]string{"x!/data.tar: " + string(ReasonDamaged), broken}},
		{"rpm cut", cut(fixture(t, "sample-none.rpm"), 5000), []string{broken}},
		{"rpm cut in header", fixture(t, "sample-zstd.rpm")[:2000], []string{broken}},
		{"rpm lead only", fixture(t, "sample-zstd.rpm")[:96], []string{broken}},
		{"rpm huge header", flip(fixture(t, "sample-zstd.rpm"), "\x8e\xad\xe8\x01\x00\x00\x00\x00\x00", "\x8e\xad\xe8\x01\x00\x00\x00\x00\xff"), []string{broken}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "x", tt.data)
			got := walkAll(t, dir, []string{dir}, Options{})
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], dir+string(filepath.Separator), "")
			}
			checkLines(t, got, tt.want)
			// An archive that ends early is no end of the walk.
			write(t, dir, "y", "yy")
			if got := walkAll(t, dir, []string{dir}, Options{}); got[len(got)-1] != "y y=yy" {
				t.Errorf("the walk did not go on: %q", got)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	zeros := strings.Repeat("\x00", 3<<20)
	three := []entry{{"a", "a"}, {"b", "b"}, {"c", "c"}}
	tooBig := "x: " + string(ReasonLimit)
	nest := func(n int) string {
		s := "deep"
		for range n {
			s = makeZip(t, 8, entry{"x", s})
		}
		return s
	}
	overlap := func() string { // two entries of the directory for one member
		s := makeZip(t, 0, entry{"a", strings.Repeat("z", 3000)}, entry{"b", "bbb"})
		i := strings.LastIndex(s, "PK\x01\x02")
		j := strings.Index(s, "PK\x01\x02")
		return s[:i+16] + s[j+16:j+28] + s[i+28:i+42] + "\x00\x00\x00\x00" + s[i+46:]
	}
	tests := []struct {
		name, data string
		opt        Options
		want       []string
	}{
		{"ratio zip", makeZip(t, 8, entry{"a", "a"}, entry{"z", zeros}, entry{"b", "b"}), Options{MaxTotal: 1 << 20}, []string{"x!/a a=a", tooBig}},
		{"ratio zip allowed", makeZip(t, 8, entry{"z", zeros}), Options{MaxTotal: 1 << 20, MaxRatio: 5000}, []string{"x!/z z=3145728 bytes"}},
		{"ratio tar.gz", gz(t, makeTar(t, entry{"a", "a"}, entry{"z", zeros}, entry{"b", "b"})), Options{MaxTotal: 1 << 20}, []string{"x!/a a=a", tooBig}},
		{"ratio gz", gz(t, zeros), Options{MaxTotal: 1 << 20}, []string{"x x=cannot open: x: " + string(ReasonLimit) + ": over the limit: the file unpacks to more than 1048576 bytes"}},
		{"ratio nested", makeZip(t, 8, entry{"i", makeZip(t, 8, entry{"z", zeros})}), Options{MaxTotal: 1 << 20}, []string{tooBig}},
		{"member", makeZip(t, 8, entry{"z", zeros}, entry{"a", "a"}), Options{MaxMember: 1 << 20}, []string{"x!/z z=cannot open: x!/z: " + string(ReasonLimit) + ": over the limit of 1048576 bytes for one member", "x!/a a=a"}},
		{"member in tar.gz", gz(t, makeTar(t, entry{"z", zeros}, entry{"a", "a"})), Options{MaxMember: 1 << 20}, []string{"x!/z: " + string(ReasonLimit), "x!/a a=a"}},
		{"member in place", makeTar(t, entry{"z", zeros}), Options{MaxMember: 1 << 20}, []string{"x!/z z=3145728 bytes"}},
		{"entries zip", makeZip(t, 8, three...), Options{MaxEntries: 2}, []string{"x!/a a=a", "x!/b b=b", tooBig}},
		{"entries tar", makeTar(t, three...), Options{MaxEntries: 2}, []string{"x!/a a=a", "x!/b b=b", tooBig}},
		{"entries cpio", makeCPIO(three...), Options{MaxEntries: 2}, []string{"x!/a a=a", "x!/b b=b", tooBig}},
		{"entries nested", makeZip(t, 8, entry{"i", makeZip(t, 8, three...)}, three[0]), Options{MaxEntries: 2}, []string{"x!/i!/a a=a", tooBig}},
		{"depth", nest(3), Options{}, []string{"x!/x!/x!/x x=deep"}},
		{"too deep", nest(4), Options{}, []string{"x!/x!/x!/x: " + string(ReasonDepth)}},
		{"overlap", overlap(), Options{}, []string{"x!/a a=3000 bytes", "x: " + string(ReasonDamaged)}},
		{"window", zst(t, zeros+"x"), Options{MaxWindow: 1 << 20}, []string{tooBig}},
		{"dictionary", fixture(t, "sample.tar.xz"), Options{MaxWindow: 1 << 20}, []string{tooBig}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "x", tt.data)
			got := walkAll(t, dir, []string{dir}, tt.opt)
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], dir+string(filepath.Separator), "")
			}
			checkLines(t, got, tt.want)
		})
	}
}

// gnuSparse is a tar member whose 1 GiB of zeros take one header.
func gnuSparse(size int64) string {
	h := make([]byte, 512)
	copy(h, "sparse")
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	copy(h[124:], "00000000000\x0014000000000\x00")
	h[156] = 'S'
	copy(h[257:], "ustar  \x00")
	copy(h[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0)) // one empty piece at the end
	copy(h[483:], fmt.Sprintf("%011o\x00", size))
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return string(h) + strings.Repeat("\x00", 1024)
}

func TestSparse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "big", gnuSparse(2<<30))
	write(t, dir, "small", gnuSparse(10_000))
	got := walkAll(t, dir, []string{dir}, Options{MaxTotal: 1 << 20, TempDir: t.TempDir()})
	checkLines(t, got, []string{"big: " + string(ReasonLimit), "small!/sparse sparse=10000 bytes"})
}

func TestWant(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x.tar", makeTar(t, entry{"a/yes", "data"}, entry{"no", "data"}, entry{"also", "other"}))
	write(t, dir, "no", "data")
	errNo := errors.New("no")
	want := func(head []byte, name string) error {
		if name == "no" || string(head) != "data" {
			return errNo
		}
		return nil
	}
	checkLines(t, walkAll(t, dir, []string{dir}, Options{Want: want}), []string{
		"no: " + string(ReasonUnwanted), "x.tar!/a/yes yes=data", "x.tar!/no: " + string(ReasonUnwanted), "x.tar!/also: " + string(ReasonUnwanted)})
	for _, err := range Walk(context.Background(), []string{filepath.Join(dir, "no")}, Options{Want: want}) {
		if !errors.Is(err, errNo) {
			t.Errorf("Want's error is not wrapped: %v", err)
		}
	}
}

// TestMemory holds many members at once and looks at where their bytes are.
func TestMemory(t *testing.T) {
	dir, spool := t.TempDir(), t.TempDir()
	var entries []entry
	for i := range 20 {
		entries = append(entries, entry{fmt.Sprint(i), strings.Repeat(fmt.Sprint(i%10), 100_000)})
	}
	write(t, dir, "x", gz(t, makeTar(t, entries...)))
	var files []*File
	var left *pool
	opt := Options{TotalMemory: 1 << 20, MemberMemory: 500_000, TempDir: spool}
	for f, err := range Walk(context.Background(), []string{dir}, opt) {
		must(t, err)
		left = f.hold.at.(*buffer).pool
		files = append(files, f)
	}
	spooled := 0
	for i, f := range files {
		if f.hold.at.(*buffer).file != nil {
			spooled++
		}
		if got := read(t, f); got != entries[i].data {
			t.Errorf("member %d: %s, want its own data", i, short(got))
		}
	}
	if spooled < 9 || spooled > 12 {
		t.Errorf("%d of 20 members spooled, want at least 9, at most 12", spooled)
	}
	if n := left.left.Load(); n < 0 || n > 200_000 {
		t.Errorf("%d bytes left of 1 MiB", n)
	}
	for _, f := range files {
		f.Discard()
	}
	if n := left.left.Load(); n != 1<<20 {
		t.Errorf("%d bytes left after Discard, want all", n)
	}
}

func TestSpoolFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x", gz(t, makeTar(t, entry{"big", strings.Repeat("b", 1000)}, entry{"s", "s"})))
	got := walkAll(t, dir, []string{dir}, Options{MemberMemory: 10, TempDir: filepath.Join(dir, "none")})
	checkLines(t, got, []string{"x!/big: " + string(ReasonNoSpace), "x!/s s=s"})
}

func TestBreakAndCancel(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		write(t, dir, fmt.Sprintf("x%d", i), gz(t, makeTar(t, entry{"a", "a"}, entry{"b", "b"})))
	}
	n := 0
	for f, err := range Walk(context.Background(), []string{dir}, Options{}) {
		must(t, err)
		f.Discard()
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n = 0
	var last error
	for f, err := range Walk(ctx, []string{dir}, Options{}) {
		if last = err; err == nil {
			f.Discard()
		}
		if n++; n == 3 {
			cancel()
		}
	}
	if n != 4 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d yields, last %v; want 4, %v", n, last, context.Canceled)
	}
}

func TestOrder(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"b/2", "b/10", "a.x", "a/z", "BB"} {
		write(t, dir, n, "")
	}
	want := []string{"BB BB=", "a/z z=", "a.x a.x=", "b/10 10=", "b/2 2="}
	checkLines(t, walkAll(t, dir, []string{dir}, Options{}), want)
	got := walkAll(t, dir, []string{filepath.Join(dir, "b"), filepath.Join(dir, "BB")}, Options{})
	checkLines(t, got, []string{"b/10 10=", "b/2 2=", "BB BB="})
}

func TestChanged(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "plain", "one")
	zipped := write(t, dir, "x.zip", makeZip(t, 8, entry{"a", "a"}))
	for f, err := range Walk(context.Background(), []string{path, zipped}, Options{}) {
		must(t, err)
		c, err := f.Open(context.Background())
		must(t, err)
		if c.Changed() {
			t.Error("Changed is true before the change, want false")
		}
		if again := c.Reopen(); (again != nil) != (f.Archive == "") {
			t.Errorf("%s: Reopen returns a file: %v, want one only of a file on disk", f.Path, again != nil)
		} else if again != nil {
			b, err := io.ReadAll(again)
			must(t, errors.Join(err, again.Close()))
			if int64(len(b)) != c.Size() {
				t.Errorf("%s: the reopened file has %d bytes, want %d", f.Path, len(b), c.Size())
			}
		}
		on := f.Path
		if f.Archive != "" {
			on = f.Archive
		}
		w, err := os.OpenFile(on, os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = w.WriteString("more")
		must(t, err)
		must(t, w.Close())
		if !c.Changed() {
			t.Errorf("%s: change not seen", f.Path)
		}
		if again := c.Reopen(); again != nil {
			t.Errorf("%s: Reopen returns a file that has changed, want none", f.Path)
			must(t, again.Close())
		}
		must(t, c.Close())
		f.Discard()
	}
}

func TestVanished(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "a")
	gone := write(t, dir, "b", "b")
	var reasons []Reason
	for f, err := range Walk(context.Background(), []string{dir, filepath.Join(dir, "never")}, Options{}) {
		var skip *Skip
		if errors.As(err, &skip) {
			reasons = append(reasons, skip.Reason)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is not fs.ErrNotExist", err)
			}
			continue
		}
		must(t, err)
		must(t, os.RemoveAll(gone)) // between the listing of the folder and the file's turn
		f.Discard()
	}
	if !slices.Equal(reasons, []Reason{ReasonVanished, ReasonVanished}) {
		t.Errorf("got %q, want two files that vanished", reasons)
	}
	// Between the walk and Open.
	symtest.NeedsMoreThanWine(t, "a removed file keeps its name until it is closed")
	path := write(t, dir, "c", "c")
	for f, err := range Walk(context.Background(), []string{path}, Options{}) {
		must(t, err)
		must(t, os.Remove(path))
		var skip *Skip
		if _, err := f.Open(context.Background()); !errors.As(err, &skip) || skip.Reason != ReasonVanished {
			t.Errorf("got %v, want a file that vanished", err)
		}
	}
}

func TestProgress(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "x", makeTar(t, entry{"a", "a"}, entry{"b", "b"}))
	var got []int64
	opt := Options{Progress: func(p string, n int64) {
		if p != path {
			t.Errorf("path %q, want %s", p, path)
		}
		got = append(got, n)
	}}
	walkAll(t, dir, []string{dir}, opt)
	if len(got) != 3 || got[0] != 0 || got[2] <= got[1] {
		t.Errorf("progress %v, want three rising figures that begin with 0", got)
	}
}

func TestZipOddities(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	raw := func(h zip.FileHeader, data string) {
		h.CompressedSize64, h.UncompressedSize64 = uint64(len(data)), uint64(len(data))
		h.CRC32 = crc32.ChecksumIEEE([]byte(data))
		w, err := z.CreateRaw(&h)
		must(t, err)
		_, err = io.WriteString(w, data)
		must(t, err)
	}
	raw(zip.FileHeader{Name: "encrypted", Flags: 1}, "e")
	raw(zip.FileHeader{Name: "lzma", Method: 14}, "l")
	raw(zip.FileHeader{Name: "not deflate", Method: 8}, "\xff\xff\xff")
	link := zip.FileHeader{Name: "link"}
	link.SetMode(fs.ModeSymlink | 0o777)
	raw(link, "target")
	raw(zip.FileHeader{Name: "folder/"}, "")
	raw(zip.FileHeader{Name: `folder\`}, "")
	raw(zip.FileHeader{Name: "nul\x00name"}, "n")
	must(t, z.Close())
	dir := t.TempDir()
	write(t, dir, "x", b.String())
	checkLines(t, walkAll(t, dir, []string{dir}, Options{}), []string{
		"x!/encrypted: " + string(ReasonEncrypted), "x!/lzma: " + string(ReasonUnsupported),
		"x!/not deflate: " + string(ReasonDamaged), "x!/nul\x00name nul\x00name=n"})
}

// TestWorkers opens Files in other goroutines, in any order, while the walk
// goes on and after it has ended.
func TestWorkers(t *testing.T) {
	dir := t.TempDir()
	var entries []entry
	for i := range 200 {
		entries = append(entries, entry{fmt.Sprint(i), strings.Repeat(fmt.Sprint(i), 1000+i)})
	}
	write(t, dir, "1.zip", makeZip(t, 8, entries...))
	write(t, dir, "2.zip", makeZip(t, 0, entries...))
	write(t, dir, "3.tgz", gz(t, makeTar(t, entries...)))
	write(t, dir, "4.tar", makeTar(t, entries...))
	write(t, dir, "5.gz", gz(t, entries[5].data))
	files := make(chan *File, 500)
	var wg sync.WaitGroup
	var count atomic.Int32
	for range 4 {
		wg.Go(func() {
			for f := range files {
				i, err := strconv.Atoi(f.Name)
				if err != nil || read(t, f) != entries[i].data {
					t.Errorf("%s differs", f.Path)
				}
				f.Discard()
				count.Add(1)
			}
		})
	}
	for f, err := range Walk(context.Background(), []string{dir}, Options{TotalMemory: 1 << 20, TempDir: t.TempDir()}) {
		if err != nil {
			t.Error(err)
			continue
		}
		files <- f
	}
	close(files)
	wg.Wait()
	if n := count.Load(); n != 801 {
		t.Errorf("%d files, want 801", n)
	}
}

// TestZipAgrees reads what archive/zip writes and compares with what it reads.
func TestZipAgrees(t *testing.T) {
	var entries []entry
	for i := range 70_000 { // more than the old end record can count
		entries = append(entries, entry{fmt.Sprintf("%d.txt", i), ""})
	}
	data := makeZip(t, 0, entries...)
	d, err := findZipDirectory(strings.NewReader(data), int64(len(data)))
	must(t, err)
	z := newZipReader(strings.NewReader(data), d)
	for _, want := range entries {
		e, err := z.next()
		must(t, err)
		if e.name != want.name || e.crc != crc32.ChecksumIEEE([]byte(want.data)) {
			t.Fatalf("%q, want %q", e.name, want.name)
		}
	}
	if _, err := z.next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
