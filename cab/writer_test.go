package cab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// memFile is an io.WriteSeeker in memory.
type memFile struct {
	b   []byte
	pos int64
}

func (m *memFile) Write(p []byte) (int, error) {
	if need := int(m.pos) + len(p); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	m.pos += int64(copy(m.b[m.pos:], p))
	return len(p), nil
}

func (m *memFile) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += m.pos
	case io.SeekEnd:
		off += int64(len(m.b))
	}
	m.pos = off
	return off, nil
}

func source(name string, b []byte) Source {
	return Source{
		Name: name, Modified: time.Date(2017, 3, 4, 15, 16, 18, 0, time.UTC), Attributes: AttrArchive, Size: int64(len(b)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil },
	}
}

func create(t testing.TB, opt WriteOptions, files ...Source) []byte {
	t.Helper()
	var m memFile
	n, err := Create(&m, files, opt)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(len(m.b)) || m.pos != n {
		t.Fatalf("%d bytes reported, %d written, position %d; want %v, %v", n, len(m.b), m.pos, int64(len(m.b)), n)
	}
	return m.b
}

func random(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{9})
	_, _ = rng.Read(b)
	return b
}

var methods = []WriteOptions{{Method: None}, {Method: MSZIP, Workers: 2}, {Method: LZX, Workers: 2}, {Method: LZX, Window: 15}}

func method(o WriteOptions) string {
	return strings.ReplaceAll(fmt.Sprint(Compression{o.Method, o.Window}), ":", "")
}

// contents are the cases that every method and every other reader must agree
// on.
func contents(t testing.TB) map[string][]byte {
	t.Helper()
	m := map[string][]byte{
		"zero bytes.bin": nil, "one.bin": {0xE8}, "below.bin": random(blockSize - 1), "full.bin": random(blockSize), "above.bin": random(blockSize + 1),
		"random.bin": random(3*blockSize + 12345), "zeros.bin": make([]byte, 5*blockSize+77),
		"text.txt": []byte(strings.Repeat("the symbols of every build of every platform\r\n", 9000)),
		"odd.bin":  append(random(999), bytes.Repeat([]byte("ab"), 40001)...),
	}
	files, err := filepath.Glob("../testdata/p[de]*/*.[pe][dx][be]")
	if err != nil || len(files) < 5 {
		t.Fatal("not enough files in testdata", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m[filepath.Base(f)] = b
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	for _, opt := range methods {
		var all []Source
		want := contents(t)
		for name, b := range want {
			one := create(t, opt, source(name, b))
			check(t, method(opt)+"/"+name, one, map[string][]byte{name: b})
			all = append(all, source(name, b))
		}
		check(t, method(opt)+"/all", create(t, opt, all...), want)
	}
}

// check reads a cabinet in three orders: by Walk, forwards and backwards.
func check(t *testing.T, name string, b []byte, want map[string][]byte) {
	t.Helper()
	r, err := openBytes(append(bytes.Clone(b), "a signature"...), Options{})
	if err != nil {
		t.Fatalf("openBytes: %s, error %v; want no error", name, err)
	}
	if r.Size() != int64(len(b)) || r.Trailing() != 11 || len(r.Files()) != len(want) {
		t.Errorf("%s: %d bytes, %d behind, %d files; want size %d, 11 bytes behind it and %d files", name, r.Size(), r.Trailing(), len(r.Files()), len(b), len(want))
	}
	same := func(f *File, in io.Reader) error {
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, want[f.Name]) {
			t.Errorf("%s: %s: %d bytes, %v; want %d", name, f.Name, len(got), err, len(want[f.Name]))
		}
		if !f.Modified.Equal(time.Date(2017, 3, 4, 15, 16, 18, 0, time.UTC)) || f.Attributes != AttrArchive {
			t.Errorf("%s: %s: modified %v, attributes %x; want 2017-03-04 15:16:18 and %x", name, f.Name, f.Modified, f.Attributes, AttrArchive)
		}
		return nil
	}
	if err := r.Walk(same); err != nil {
		t.Errorf("Walk: %s, error %v; want no error", name, err)
	}
	files := slices.Clone(r.Files())
	for range 2 {
		for _, f := range files {
			in, err := f.Open()
			if err != nil {
				t.Fatalf("%s: Open: %s, error %v; want no error", f.Name, name, err)
			}
			_ = same(f, in)
			in.Close()
		}
		slices.Reverse(files)
	}
}

// TestOtherReaders gives our cabinets to the other readers that are installed.
func TestOtherReaders(t *testing.T) {
	tools := map[string]func(cab, dir string) *exec.Cmd{
		"cabextract": func(cab, dir string) *exec.Cmd { return exec.Command("cabextract", "-q", "-d", dir, cab) },
		"7zz":        func(cab, dir string) *exec.Cmd { return exec.Command("7zz", "x", "-y", "-o"+dir, cab) },
		"bsdtar":     func(cab, dir string) *exec.Cmd { return exec.Command("bsdtar", "-xf", cab, "-C", dir) },
	}
	want := contents(t)
	var all []Source
	for name, b := range want {
		all = append(all, source(name, b))
	}
	for tool, command := range tools {
		t.Run(tool, func(t *testing.T) {
			symtest.Tool(t, tool)
			for _, opt := range methods {
				cabs := map[string][]Source{"all": all}
				for _, s := range all {
					switch s.Name { // alone; the others are in the one with all
					case "zero bytes.bin", "one.bin", "full.bin", "above.bin", "zeros.bin", "odd.bin":
						cabs[s.Name] = []Source{s}
					}
				}
				for name, files := range cabs {
					dir := t.TempDir()
					path := filepath.Join(dir, "x.cab")
					if err := os.WriteFile(path, create(t, opt, files...), 0o666); err != nil {
						t.Fatal(err)
					}
					if out, err := command(path, dir).CombinedOutput(); err != nil {
						t.Errorf("%s, %s: CombinedOutput: error %v, %s; want no error", method(opt), name, err, out)
						continue
					}
					for _, f := range files {
						if got, err := os.ReadFile(filepath.Join(dir, f.Name)); err != nil || !bytes.Equal(got, want[f.Name]) {
							t.Errorf("%s of %s: %s: %d bytes, %v; want %d", method(opt), name, f.Name, len(got), err, len(want[f.Name]))
						}
					}
				}
			}
		})
	}
}

// TestOtherWriters reads cabinets of other writers.
func TestOtherWriters(t *testing.T) {
	tools := map[string]func(cab string, files []string) *exec.Cmd{
		"gcab": func(cab string, files []string) *exec.Cmd {
			return exec.Command("gcab", append([]string{"-c", "-z", "-n", cab}, files...)...)
		},
		"gcab plain": func(cab string, files []string) *exec.Cmd {
			return exec.Command("gcab", append([]string{"-c", "-n", cab}, files...)...)
		},
		"lcab": func(cab string, files []string) *exec.Cmd { return exec.Command("lcab", append(files, cab)...) },
	}
	for name, command := range tools {
		t.Run(name, func(t *testing.T) {
			tool, _, _ := strings.Cut(name, " ")
			symtest.Tool(t, tool)
			dir := t.TempDir()
			want := contents(t)
			var files []string
			for name, b := range want {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
					t.Fatal(err)
				}
				files = append(files, name)
			}
			cmd := command("x.cab", files)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("CombinedOutput: error %v, %s; want no error", err, out)
			}
			b, err := os.ReadFile(filepath.Join(dir, "x.cab"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := openBytes(b, Options{})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			err = r.Walk(func(f *File, in io.Reader) error {
				got, err := io.ReadAll(in)
				if !bytes.Equal(got, want[f.Name]) {
					t.Errorf("%s: %d bytes, %v; want %d", f.Name, len(got), err, len(want[f.Name]))
				}
				n++
				return err
			})
			if err != nil || n != len(want) {
				t.Errorf("%d files of %d, %v; want %v", n, len(want), err, len(want))
			}
		})
	}
}

// TestShape checks the bytes that genuine compression of one file gives before
// the data.
func TestShape(t *testing.T) {
	b := create(t, WriteOptions{Method: LZX}, source("dummyprog.pdb", make([]byte, 11776)))
	want := []byte("MSCF\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x00\x00\x00\x03\x01\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x4a\x00\x00\x00\x01\x00\x03\x15" + "\x00\x2e\x00\x00\x00\x00\x00\x00\x00\x00\x64\x4a\x09\x7a\x20\x00dummyprog.pdb\x00")
	want[8], want[9] = byte(len(b)), byte(len(b)>>8)
	if !bytes.Equal(b[:len(want)], want) {
		t.Errorf("got  %x\nwant %x", b[:len(want)], want)
	}
	// A genuine block of 4 bytes less header begins with its stream's flag and
	// translation size.
	if data := b[len(want)+dataSize:]; !bytes.HasPrefix(data, []byte{0x5b, 0x80, 0x80, 0x8d}) {
		t.Errorf("data begins with %x, want 5b80808d", data[:8])
	}
}

func TestChecksumTails(t *testing.T) {
	for in, want := range map[string]uint32{
		"": 0, "\x01": 0x01, "\x01\x02": 0x0102, "\x01\x02\x03": 0x010203, "\x01\x02\x03\x04": 0x04030201,
		"\x01\x02\x03\x04\x05\x06": 0x04030201 ^ 0x0506, "\x01\x02\x03\x04\x01\x02\x03\x04\x07": 7,
	} {
		if got := checksum(0, []byte(in)); got != want {
			t.Errorf("%x: %08x, want %08x", in, got, want)
		}
	}
}

func TestDamageIsNoticed(t *testing.T) {
	plain := []byte(strings.Repeat("symbols and more symbols; ", 5000))
	for _, opt := range methods {
		b := create(t, opt, source("a.pdb", plain))
		for i := range b {
			if i > 100 && i%37 != 0 {
				continue
			}
			bad := bytes.Clone(b)
			bad[i] ^= 0x10
			r, err := openBytes(bad, Options{})
			if err != nil {
				if !known(err) {
					t.Fatalf("%s, byte %d: %v, want an error of this package", method(opt), i, err)
				}
				continue
			}
			err = r.Walk(func(_ *File, in io.Reader) error {
				got, err := io.ReadAll(in)
				if err == nil && i >= 0x4A && !bytes.Equal(got, plain) {
					t.Errorf("%s, byte %d: damage was not noticed", method(opt), i)
				}
				return err
			})
			if err != nil && !known(err) {
				t.Fatalf("%s, byte %d: %v, want an error of this package or none", method(opt), i, err)
			}
			if i >= 0x44+6 && !errors.Is(err, ErrFormat) { // behind the names, all is under the checksum
				t.Errorf("%s, byte %d of %d: %v, want ErrFormat: all behind the names is under the checksum", method(opt), i, len(b), err)
			}
		}
		for n := range len(b) {
			if n%50 == 0 {
				if err := readAll(b[:n]); !errors.Is(err, ErrFormat) {
					t.Errorf("%s, cut at %d: %v; want ErrFormat", method(opt), n, err)
				}
			}
		}
	}
}

func TestUncheckedBlocks(t *testing.T) {
	b := create(t, WriteOptions{}, source("a", []byte("hello")))
	copy(b[len(b)-5-dataSize:], "\x00\x00\x00\x00")
	if err := readAll(b); err != nil {
		t.Errorf("a checksum of 0 was checked: %v", err)
	}
	b[len(b)-5-dataSize]++
	if err := readAll(b); !errors.Is(err, ErrChecksum) {
		t.Errorf("%v, want %v", err, ErrChecksum)
	}
}

func TestCreateRefuses(t *testing.T) {
	small := source("a", []byte("hello"))
	long, short, gone := small, small, small
	long.Size, short.Size = 6, 4
	gone.Open = func() (io.ReadCloser, error) { return nil, os.ErrNotExist }
	huge := small
	huge.Size = MaxFile + 1
	full := small
	full.Size = MaxFile
	for name, c := range map[string]struct {
		files []Source
		opt   WriteOptions
		want  error
	}{
		"no files":        {nil, WriteOptions{}, nil},
		"too many":        {make([]Source, 65536), WriteOptions{}, ErrTooLarge},
		"size too large":  {[]Source{long}, WriteOptions{Method: MSZIP}, errSize},
		"size too small":  {[]Source{short}, WriteOptions{Method: LZX}, errSize},
		"first too short": {[]Source{short, small}, WriteOptions{}, errSize},
		"gone":            {[]Source{gone}, WriteOptions{}, os.ErrNotExist},
		"over the limit":  {[]Source{huge}, WriteOptions{Method: MSZIP}, ErrTooLarge},
		"stored 2 GiB":    {[]Source{full}, WriteOptions{}, ErrTooLarge},
		"Quantum":         {[]Source{small}, WriteOptions{Method: Quantum}, ErrMethod},
		"window":          {[]Source{small}, WriteOptions{Method: LZX, Window: 22}, nil},
		"level":           {[]Source{small}, WriteOptions{Method: MSZIP, Level: 11}, nil},
		"no name":         {[]Source{{}}, WriteOptions{}, nil},
		"long name":       {[]Source{source(strings.Repeat("x", 256), nil)}, WriteOptions{}, nil},
		"NUL in name":     {[]Source{source("a\x00b", nil)}, WriteOptions{}, nil},
		"invalid UTF-8":   {[]Source{source("a\xff", nil)}, WriteOptions{}, nil},
	} {
		var m memFile
		_, err := Create(&m, c.files, c.opt)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if bytes.HasPrefix(m.b, []byte(magic)) {
			t.Errorf("%s: left something that looks like a cabinet, want no header after a failure", name)
		}
	}
	if b := create(t, WriteOptions{}, source(strings.Repeat("x", 255), nil)); len(b) == 0 {
		t.Error("a name of 255 bytes refused")
	}
}

func TestNames(t *testing.T) {
	b := create(t, WriteOptions{}, source(`dir\größe.pdb`, []byte("x")))
	r, err := openBytes(b, Options{})
	if err != nil || r.Files()[0].Name != `dir\größe.pdb` || r.Files()[0].Attributes != AttrArchive|AttrUTF8 {
		t.Fatalf("openBytes: %v, error %v; want Name %q, Attributes AttrArchive | AttrUTF8", r.Files()[0], err, `dir\größe.pdb`)
	}
	if p, ok := r.Files()[0].Path(); !ok || p != "dir/größe.pdb" {
		t.Errorf("path %q, %v; want dir/größe.pdb", p, ok)
	}
	for raw, want := range map[string]string{"gr\xf6\xdfe": "größe", "\x80\x99\x81": "€™\u0081", "gr\xc3\xb6": "grÃ¶"} {
		if got := decodeName([]byte(raw), 0); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
	if got := decodeName([]byte("gr\xf6"), AttrUTF8); got != "grö" {
		t.Errorf(`claimed UTF-8: %q, want "grö"`, got)
	}
	for _, name := range []string{`..\a`, `a\..\b`, `\a`, `c:\a`, `c:a`, `a\\b`, `a\`, `.`, "a\nb", "/etc/passwd", "a/../../b"} {
		if p, ok := (&File{Name: name}).Path(); ok {
			t.Errorf("%q became the path %q, want none", name, p)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct{ in, want time.Time }{
		{time.Date(2016, 2, 29, 23, 59, 59, 7, time.FixedZone("", 3600)), time.Date(2016, 2, 29, 23, 59, 58, 0, time.UTC)},
		{time.Date(1979, 12, 31, 1, 2, 3, 0, time.UTC), time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)},
		{time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)},
		{time.Time{}, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if got := dosTime(toDOS(c.in)); !got.Equal(c.want) {
			t.Errorf("%v became %v, want %v", c.in, got, c.want)
		}
	}
	if got := dosTime(0, 0); !got.IsZero() {
		t.Errorf("no date became %v", got)
	}
}

func TestLimits(t *testing.T) {
	b := create(t, WriteOptions{Method: LZX}, source("a", make([]byte, 1<<20)), source("b", make([]byte, 1<<20)))
	r, err := openBytes(b, Options{MaxOutput: 1<<20 - 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Files()[0].Open(); !errors.Is(err, ErrLimit) {
		t.Errorf("open: %v, want ErrLimit", err)
	}
	r, _ = openBytes(b, Options{MaxOutput: 1 << 20})
	n := 0
	if err := r.Walk(func(_ *File, in io.Reader) error { n++; _, err := io.Copy(io.Discard, in); return err }); !errors.Is(err, ErrLimit) || n != 1 {
		t.Errorf("walk: %d files, %v; want one file and ErrLimit", n, err)
	}
	// Many files that claim the same content.
	b = create(t, WriteOptions{Method: MSZIP}, source("a", make([]byte, 1<<20)), source("b", nil), source("c", nil), source("d", nil))
	for range 3 {
		i := bytes.LastIndex(b, []byte{0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0})
		if i < 0 {
			t.Fatal("no entry to change")
		}
		copy(b[i:], []byte{0, 0, 0x10, 0, 0, 0, 0, 0})
	}
	r, err = openBytes(b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Walk(func(_ *File, in io.Reader) error { _, err := io.Copy(io.Discard, in); return err }); !errors.Is(err, ErrLimit) {
		t.Errorf("overlapping files: %v, want ErrLimit", err)
	}
}

// TestClaims opens cabinets whose headers promise much more than there is.
func TestClaims(t *testing.T) {
	b := create(t, WriteOptions{Method: LZX}, source("a", []byte("hello")))
	for at, v := range map[int]string{26: "\xff\xff", 28: "\xff\xff", 16: "\xff\xff\xff\x7f", 8: "\xff\xff\xff\x7f", 40: "\xff\xff", 44: "\xff\xff\xff\xff"} {
		bad := bytes.Clone(b)
		copy(bad[at:], v)
		allocated := testing.AllocsPerRun(1, func() { _ = readAll(bad) })
		if err := readAll(bad); at != 40 && !errors.Is(err, ErrFormat) || allocated > 200 {
			t.Errorf("at %d: %v, %v allocations; want ErrFormat and at most 200 allocations", at, err, allocated)
		}
	}
}

func TestWalkIsLazy(t *testing.T) {
	b := create(t, WriteOptions{Method: MSZIP}, source("a", random(100000)), source("b", []byte("hello")))
	b[len(b)/2] ^= 1 // in the content of a
	r, err := openBytes(b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Walk(func(*File, io.Reader) error { return nil }); err != nil {
		t.Errorf("content was decoded that nobody read: %v", err)
	}
	var kept io.Reader
	_ = r.Walk(func(_ *File, in io.Reader) error { kept = in; return nil })
	if _, err := kept.Read(make([]byte, 1)); err == nil {
		t.Error("a reader outlives its call")
	}
}

func FuzzReader(f *testing.F) {
	for _, opt := range methods {
		f.Add(create(f, opt, source("a.pdb", []byte(strings.Repeat("hello ", 2000))), source("b", random(300))))
	}
	if root := os.Getenv("SYMDEPOT_MATERIAL"); root != "" {
		for _, pattern := range []string{"public/cab/*", "edge/badcab/*"} {
			files, _ := filepath.Glob(filepath.Join(root, pattern))
			for _, path := range files {
				if b, err := os.ReadFile(path); err == nil && len(b) < 300000 {
					f.Add(b)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// Checksums off, so that changes reach the decoders.
		for _, unchecked := range []bool{false, true} {
			r, err := openBytes(b, Options{MaxOutput: 4 << 20})
			if err != nil {
				if !known(err) {
					t.Fatal(err)
				}
				return
			}
			r.unchecked = unchecked
			for _, file := range r.Files()[:min(len(r.Files()), 4)] {
				_, _ = file.Path()
				in, err := file.Open()
				if err == nil {
					_, err = io.Copy(io.Discard, in)
					in.Close()
				}
				if err != nil && !known(err) {
					t.Fatal(err)
				}
			}
			if err := r.Walk(func(_ *File, in io.Reader) error { _, err := io.Copy(io.Discard, in); return err }); err != nil && !known(err) {
				t.Fatal(err)
			}
		}
	})
}
